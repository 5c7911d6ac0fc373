//! A view that is being pulled: its sources, the nodes that gather them, and its cost.

mod choosing;
mod feed;
mod gather;
mod held;
mod price;
mod pulled;
mod scope;
mod shape;
mod watch;

pub use feed::ScopeFeed;
pub(crate) use gather::Inlet;
pub use price::Price;
pub use pulled::Pulled;
pub use scope::{Backlog, Scope};
pub use shape::Shape;

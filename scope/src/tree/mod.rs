//! A view that is being pulled: its sources, the nodes that gather them, and what it costs.

mod gather;
mod price;
mod scope;
mod shape;
mod watch;

pub use price::Price;
pub use scope::{Backlog, Pulled, Scope};
pub use shape::Shape;

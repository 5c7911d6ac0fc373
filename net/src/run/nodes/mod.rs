//! Parts of a network that run on other nodes.

mod away;
mod elsewhere;
mod joint;
mod under_way;

pub(crate) use self::away::{Away, Last, enter, leave, tasks};
pub use self::elsewhere::{Elsewhere, FromNode, Got, Opened, Session, ToNode, Ways};
pub(crate) use self::elsewhere::{Nodes, Opening};

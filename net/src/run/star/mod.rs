//! Stars, which unfold: there is an exit before each replica, and the exit makes the replica when a record
//! needs it.

mod exit;
mod free;
mod ordered;

pub(crate) use self::exit::{Exit, Exits};
pub(crate) use self::free::StarExit;
pub(crate) use self::ordered::{ExitCollector, OrderedExit};

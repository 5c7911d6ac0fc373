//! Dispatches: a thread runs a task for up to a quantum of messages, then publishes what it did, wakes
//! the tasks that waited for it and decides where the task goes next.
//!
//! | file | what of it |
//! |---|---|
//! | `core` | [`Core`], a thread's side of the runtime |
//! | `used`, `moving` | the ends of streams that a dispatch uses; what a worker remembers of tasks that came and went |
//! | `budget` | how many messages a dispatch may take |
//! | `waking` | what makes a task ready, and tasks that come to a worker |
//! | `ends` | ends of streams: which task has them, and how they go |
//! | `publishing` | the end of a dispatch |
//! | `relay` | the same for a dispatch that passed on the only messages there were |
//! | `handing` | messages that a task hands on to the one that waits for them, which works on them where they stand |
//! | `sizes` | sizes of messages, taken before those are published |
//! | `run`, `own` | dispatches of a worker, and of a task with a thread of its own |

mod budget;
mod core;
mod ends;
mod handing;
pub(crate) mod moving;
mod own;
mod publishing;
mod relay;
mod run;
mod sizes;
mod used;
mod waking;

pub(crate) use budget::Budget;
pub(crate) use core::{Core, current};
pub(crate) use ends::{close_writer, leave_reader};
#[cfg(not(loom))]
pub(crate) use used::Handed;

pub(crate) use used::Touch;

//! Tasks: the trait that users implement, the description of a task, and the cell that the runtime keeps it
//! in.
//!
//! | file | what of it |
//! |---|---|
//! | `spec`, `placement` | what is said of a task |
//! | `context` | what a user writes, and is given for it |
//! | `cell` | what a task is kept in |
//! | `home` | what every task knows of its runtime |
//! | `inbox`, `admission` | where other threads put tasks that they made ready; messages under way, and sources that are held |

pub(crate) mod admission;
pub(crate) mod cell;
pub(crate) mod context;
pub(crate) mod home;
pub(crate) mod inbox;
pub(crate) mod placement;
pub(crate) mod several;
pub(crate) mod spec;

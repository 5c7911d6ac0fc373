//! Tasks: the trait that users implement, the description of a task, and the cell that the runtime keeps it
//! in.
//!
//! | file | what of it |
//! |---|---|
//! | `spec`, `placement` | the description of a task |
//! | `context` | the trait that users implement, and the values passed to it |
//! | `cell`, `body` | the cell that a task is kept in, and the user's value behind it |
//! | `home` | the part of a runtime that every task refers to |
//! | `inbox`, `admission` | tasks that other threads made ready; messages under way, and held sources |

pub(crate) mod admission;
pub(crate) mod body;
pub(crate) mod cell;
pub(crate) mod context;
pub(crate) mod home;
pub(crate) mod inbox;
pub(crate) mod placement;
pub(crate) mod several;
pub(crate) mod spec;

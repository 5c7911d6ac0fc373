//! A library of programs that run, tuned as a pack says: nobody compiles, links or starts them anew.
//!
//! Each process that uses the library is attached to (`target.rs`). Window by window its calls are measured; where a condition of the pack holds,
//! the action is tried in all processes at once (`trial.rs`), kept or taken back. Everything is taken back when this ends; what needs a call of the
//! library for that is left as a note with the guard, which makes the call if this process is killed ([`put_back`]).

mod calls;
mod found;
mod known;
mod order;
mod session;
mod target;
mod trial;

pub use calls::put_back;
pub use known::{Tried, ours, read, tried};
pub use order::{Order, is_session, session_settings};
pub use session::{Library, LibraryProgress, tune_library};

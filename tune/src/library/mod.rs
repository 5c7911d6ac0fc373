//! Tunes a library in running programs, as a pack describes; the programs are not compiled, linked or started
//! again.
//!
//! The tuner attaches to each process that uses the library (`target.rs`), and measures its calls window by
//! window. If a condition of the pack holds, the action is tried in all processes at once (`trial.rs`), and
//! kept or taken back. All changes are taken back when tuning ends. Calls of the library that are necessary
//! to take a change back are written as a note for the guard, a process that makes these calls if this
//! process is killed ([`put_back`]). A change that does not go together with something that may happen later
//! needs a gatekeeper (`session/gates.rs`): a helper process by which this has to pass, such as PVM's
//! [`hoster`](hoster()) by which hosts join.
//!
//! Processes of other machines are tuned by the same session: a half of the tuner on each node ([`NodeHalf`])
//! attaches to the processes there, and the session asks it once for each window ([`FarHalf`]).

mod calls;
mod far;
mod found;
mod gate;
mod half;
mod hoster;
mod known;
mod lines;
mod member;
mod order;
mod search;
mod session;
mod target;
mod trial;

pub use calls::put_back;
pub use far::FarHalf;
pub use half::NodeHalf;
pub use hoster::hoster;
pub use known::{Declarations, Tried, ours, read, tried};
pub use order::{Order, is_session, session_settings};
pub use session::{Library, LibraryProgress, tune_library};

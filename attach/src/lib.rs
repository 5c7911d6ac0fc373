//! Counts, times and changes calls of functions in running programs, without compiling, linking or restarting
//! them.
//!
//! ```no_run
//! use thalweg_attach::{Attachment, Options, Wish};
//!
//! let mut attachment = Attachment::open(4242, Options::default())?;
//! let malloc = attachment.modules().functions("libc.so.6:malloc").remove(0);
//! attachment.add(&[(malloc, Wish { times: true, arguments: vec![0.into()], ..Wish::default() })])?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! println!("{} calls", attachment.figures(0)?.calls);
//! attachment.detach()?;
//! # Ok::<(), thalweg_attach::Error>(())
//! ```
//!
//! The target gets some memory and no library. The target's threads are stopped by `ptrace` while the
//! beginnings of functions are replaced by jumps to *trampolines* (`stub`, `code`, `blob.s`); no tracer is
//! left afterwards. Each change is recorded in the target before it is made (`memory`), so any process can
//! undo it at any time (`restore`): [`Attachment::detach`], a [`guard()`] when the attaching process was
//! killed, or the next attachment.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod attachment;
mod blob;
mod claim;
mod code;
mod declaration;
mod error;
mod guard;
mod histogram;
mod inject;
mod kept;
mod listing;
mod memory;
mod modules;
mod points;
mod process;
mod refusal;
mod reliance;
mod restore;
mod stacks;
mod stub;
mod tracer;
mod types;

pub use attachment::{Added, Attachment, Followed, Follower, Options, Point, Unrecorded, Wish};
pub use error::Error;
pub use guard::{Guarded, Guards, guard};
pub use histogram::{Histogram, Number, Scale};
pub use kept::{Call, Ended, Keep, Which};
pub use listing::{Attached, attached, detach};
pub use modules::{Function, Module, Modules, readable_names};
pub use points::{Argument, Callers, Comparison, Condition, Figures, Only};
pub use process::Identity;
pub use restore::Restored;
pub use types::{Form, Parameter, Place, Signature, Type};

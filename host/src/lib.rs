//! Runs of networks with their sources, sinks and control, and live runs for commands, screens and a tuner:
//! the layer between the libraries and the program.
//!
//! A run is started from a [`Plan`], reports [`Notices`] while it goes on, and ends with [`Ended`]. Code that
//! observes a run from outside opens it as a [`LiveRun`]. The program handles arguments, printing and exit
//! codes: this crate never writes to the terminal.
//!
//! ```no_run
//! use thalweg_host::{Interrupt, Notices, Plan, Run};
//!
//! # fn main() -> Result<(), thalweg_host::Error> {
//! let plan = Plan { libraries: vec!["./libtidy.so".into()], ..Plan::of("tidy.snet") };
//! let run = Run::start(&plan, &Interrupt::default(), &Notices::to(|notice| eprintln!("{notice}")))?;
//! let tally = run.tally().clone();
//! run.finish(|| ())?;
//! println!("{tally}");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod adopt;
mod adoption;
pub mod amount;
mod command;
mod doing;
mod error;
mod events;
mod interrupt;
pub mod io;
pub mod libraries;
mod live;
mod notice;
mod pace;
mod record;
mod run;
pub mod settings;
mod shared_map;
pub mod spaces;
mod tuned;

pub use command::RunCommand;
pub use doing::{Changed, Undo};
pub use error::{Error, ErrorKind, chain};
pub use events::{LiveEvents, Origin};
pub use interrupt::{Interrupt, exit_code};
pub use live::{Change, LiveRun, Measuring, Obeyed, Window};
pub use notice::{Notice, Notices};
pub use record::{Recorded, Recording, RecordingPlan};
pub use run::{Ended, FailedTask, Notes, OnFull, Plan, Run, Tally};
pub use shared_map::{MAP_PREFIX, no_key};
pub use tuned::{InitialSetting, SettingsFile, TaskPlace};

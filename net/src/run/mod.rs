//! A running network: components unfolded into tasks and streams of `exec`.
//!
//! - a **box** or **filter** is a task; a chain of identities is none;
//! - **`|`** is a dispatcher and a collector; **`!`** too, with a replica per tag value, made on demand;
//! - a **net** is what is in it; with a declared signature, between two tasks that hide and show what passes around it;
//! - **`*`** is a chain of exits, each before a replica, made when the first record needs it, and a collector.
//!
//! What a component makes beyond the room in its output waits in its task, which reads on when it has gone.

mod box_task;
mod cell;
mod collector;
mod command;
mod component;
mod dispatcher;
mod events;
mod failure;
mod feedback;
mod filter_task;
mod input;
mod limits;
mod ordered;
mod ordered_star;
mod output;
mod pipe;
mod plan;
mod replicas;
pub(crate) mod seat;
mod shield_task;
mod star;
mod unfold;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use thalweg_exec::{In, Out, Runtime};

use self::component::Program;
use self::failure::{FAILURES_WAITING_MAX, Shared};
use self::limits::Limits;
use self::unfold::Unfolding;
use crate::error::Error;
use crate::network::Network;
use crate::record::Record;

pub(crate) use self::failure::Position;
pub use self::failure::{RecordError, StrayLine};
pub use self::limits::{Settings, StartOptions, Ties};

/// The ends of a running network. It ends when `input` is dropped and all records have left.
#[derive(Debug)]
pub struct Running {
    /// Records go in here; dropping it ends the network.
    pub input: Out<Record>,
    /// Records come out here.
    pub output: In<Record>,
    /// Records that failed come out here; it ends with the network. Somebody has to read it, or drop it: when many wait,
    /// the network waits.
    pub errors: Receiver<RecordError>,
    /// Likewise, lines that the programs of boxes printed and that answer no record.
    pub strays: Receiver<StrayLine>,
}

impl Network {
    /// Unfolds the network into tasks of `runtime`.
    ///
    /// # Errors
    /// The space cannot hold the network's sites, the network is too large, or a library's `init` failed.
    pub fn start(&self, runtime: &Runtime) -> Result<Running, Error> {
        self.start_with(runtime, StartOptions::default())
    }

    /// Likewise, with limits of what it keeps.
    ///
    /// # Errors
    /// As [`Network::start`].
    pub fn start_with(&self, runtime: &Runtime, options: StartOptions) -> Result<Running, Error> {
        let space = runtime.space();
        self.implementations().try_for_each(|seats| seats.current().start(space))?;
        let program = Program::new(self, space)?;
        let main = program.main;
        let (failures, errors) = sync_channel(FAILURES_WAITING_MAX);
        let (strays_out, strays) = sync_channel(FAILURES_WAITING_MAX);
        let limits = Limits::new(space, options)?;
        let shared = Arc::new(Shared { program, failures, strays: strays_out, limits });
        let mut unfolding = Unfolding::starting(shared, runtime);
        let (input, entry) = unfolding.stream();
        let output = unfolding.unfold_main(main, entry);
        drop(unfolding);
        if let Some(space) = space {
            events::announce_ends(space, input.id(), output.id())?;
        }
        Ok(Running { input, output, errors, strays })
    }
}

//! A running network: components unfolded into tasks and streams of `exec`.
//!
//! - a **box** or **filter** is a task; a chain of identities has no task;
//! - **`|`** is a dispatcher and a collector; **`!`** is a dispatcher, a collector and a replica for each tag
//!   value, made on demand;
//! - a **net** is its body; with a declared signature, between two tasks that hide and restore the labels
//!   that bypass it;
//! - **`*`** is a chain of exits, each before a replica, made when the first record needs it, and a collector.
//!
//! If a component's output has no space, its records wait in its task, which reads on when they have been
//! sent.

mod around;
pub(crate) mod boxed;
mod cell;
mod collector;
mod command;
mod component;
mod dispatch;
mod events;
mod failure;
mod feedback;
mod filter_task;
mod input;
mod limits;
mod message;
mod nodes;
mod ordered;
mod output;
mod parallel;
mod pipe;
pub(crate) mod position;
mod replicas;
mod shield_task;
mod split;
mod star;
mod unfold;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use thalweg_exec::{In, Out, Runtime, TaskSpec};
use thalweg_space::Space;

use self::around::Around;
use self::component::Program;
use self::failure::FAILURES_WAITING_MAX;
use self::limits::Limits;
use self::nodes::{Nodes, Opening};
use self::position::Shared;
use self::unfold::{Unfolding, unfold_replica};
use crate::error::Error;
use crate::network::Network;
use crate::record::Record;

pub use self::failure::{RecordError, StrayLine};
pub use self::limits::{Settings, StartOptions, Ties};
pub use self::nodes::{Elsewhere, FromNode, Got, Opened, Session, ToNode, Ways};

/// The ends of a running network. The network ends when `input` is dropped and all records have left.
#[derive(Debug)]
pub struct Running {
    /// Records enter the network through this stream; dropping it ends the network.
    pub input: Out<Record>,
    /// Records leave the network through this stream.
    pub output: In<Record>,
    /// The records that failed; the channel closes with the network. The program must read or drop the
    /// channel: when too many records wait, the network waits.
    pub errors: Receiver<RecordError>,
    /// Lines that the programs of boxes printed and that answer no record. The program must read or drop this
    /// channel, too.
    pub strays: Receiver<StrayLine>,
}

/// The channels for the failures and stray lines of parts that run on this node for other nodes; links carry
/// the records of these parts.
#[derive(Debug)]
pub struct Serving {
    /// The failed records, as in [`Running::errors`].
    pub errors: Receiver<RecordError>,
    /// The lines, as in [`Running::strays`].
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

    /// Unfolds the network, with limits on the records and replicas that it keeps.
    ///
    /// # Errors
    /// The errors of [`Network::start`].
    pub fn start_with(&self, runtime: &Runtime, options: StartOptions) -> Result<Running, Error> {
        self.start_on(runtime, options, None)
    }

    /// Unfolds the network, with parts on other nodes, if there are any.
    ///
    /// # Errors
    /// The errors of [`Network::start`], and an error when another node cannot take part.
    pub fn start_on(
        &self,
        runtime: &Runtime,
        options: StartOptions,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> Result<Running, Error> {
        let space = runtime.space();
        let (shared, Serving { errors, strays }) = self.prepare(space, options, elsewhere.clone())?;
        let main = shared.program.main;
        let mut unfolding = Unfolding::starting(&shared, runtime);
        let (input, entry) = unfolding.stream();
        let mut output = unfolding.unfold_main(main, entry);
        if let Some(elsewhere) = elsewhere {
            output = unfolding.close_behind(main, output, elsewhere.clone());
            spawn_gate(runtime, shared, elsewhere);
        }
        if let Some(space) = space {
            events::announce_ends(space, input.id(), output.id())?;
        }
        Ok(Running { input, output, errors, strays })
    }

    /// Runs the parts of the network that other nodes open on this node, until no more will come. Failures in
    /// these parts are reported like those of a whole network.
    ///
    /// # Errors
    /// The errors of [`Network::start_on`].
    pub fn serve(
        &self,
        runtime: &Runtime,
        options: StartOptions,
        elsewhere: Arc<dyn Elsewhere>,
    ) -> Result<Serving, Error> {
        let space = runtime.space();
        let (shared, serving) = self.prepare(space, options, Some(elsewhere.clone()))?;
        spawn_gate(runtime, shared, elsewhere);
        Ok(serving)
    }

    /// Prepares the state that all tasks share, and the channels for failures and lines.
    fn prepare(
        &self,
        space: Option<&Space>,
        options: StartOptions,
        elsewhere: Option<Arc<dyn Elsewhere>>,
    ) -> Result<(Arc<Shared>, Serving), Error> {
        self.implementations().try_for_each(|seats| seats.current().start(space))?;
        let program = Program::new(self, space)?;
        let (failures, errors) = sync_channel(FAILURES_WAITING_MAX);
        let (strays_out, strays) = sync_channel(FAILURES_WAITING_MAX);
        let limits = Limits::new(space, options)?;
        let nodes = elsewhere.clone().map(|elsewhere| Nodes::new(&program, elsewhere));
        let shared =
            Arc::new(Shared { program, failures, strays: strays_out, limits, nodes, unfold_replica });
        if let Some(elsewhere) = elsewhere {
            let sources = self.resolved.sources.clone().into();
            let libraries = self.libraries().into();
            let session = Session { shared: shared.clone(), sources, space: space.cloned(), libraries };
            elsewhere.begin(session).map_err(Error::new)?;
        }
        Ok((shared, Serving { errors, strays }))
    }
}

/// Starts the task that unfolds the parts that other nodes open on this node.
fn spawn_gate(runtime: &Runtime, shared: Arc<Shared>, elsewhere: Arc<dyn Elsewhere>) {
    let component = shared.program.get(shared.program.main).site;
    let spec = TaskSpec { component, ..TaskSpec::default() };
    runtime.spawn_blocking(spec, move |blocking| {
        while let Some(Opened { opening, from, to }) = blocking.aside(|| elsewhere.opened()) {
            // If a node opens a part that does not exist, its link is closed.
            let Ok(opening) = Opening::decode(&opening, &shared.program) else { continue };
            let around = Around { ordered: opening.ordered, ..Around::default() };
            let task = blocking.task_id();
            let cx = blocking.context();
            let mut unfolding = Unfolding::running(&shared, cx, task, opening.replica, around);
            unfolding.unfold_opened(&opening, from, to);
        }
    });
}

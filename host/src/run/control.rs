//! Control of a run from other processes: pausing, resuming, draining, stopping, replacing the network, and
//! reloading libraries.
//!
//! The source pauses between two records on request. While the source pauses, its end of the network can be
//! closed, so that the records inside leave; when all records have left, to the sink or as failures, another
//! network is started, and the source, the sink and the thread that reports failures get the ends of the new
//! network. The main thread receives the commands, and gives orders to source, sink and that thread through
//! channels.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use thalweg_exec::Runtime;
use thalweg_net::library::unload_unused;
use thalweg_net::run::{Elsewhere, StartOptions};
use thalweg_net::{Boxes, CALLS_MAX, Loading, Network, Running};
use thalweg_space::Space;
use thalweg_space::mailbox::{Mailbox, Received};

use super::map_writes::{self, is_about_map};
use super::moves::answer_move;
use super::notes::{Notes, is_note};
use super::rest::RestEvents;
use super::tally::Tally;
use super::valve::{Failing, Order, Progress, Reach, Reached, reach};
use crate::command::RunCommand;
use crate::error::{Error, chain};
use crate::interrupt::Interrupt;
use crate::libraries;

/// The time for which the main thread sleeps if there was no command.
const IDLE: Duration = Duration::from_millis(5);
/// The interval at which the main thread checks whether the run has ended.
const PATIENCE: Duration = Duration::from_millis(50);

/// The commands that are undone when their lease ends, in groups of commands that undo each other. When the
/// lease of a `drain` ends, the sources read again.
const REVERSIBLE: &[&[&str]] = &[&["pause", "resume", "drain"], &["load"], &["move"]];

/// Receives the commands to a run.
pub(super) struct Control {
    space: Space,
    mailbox: Mailbox,
    boxes: Boxes,
    network: Network,
    limits: StartOptions,
    /// The other nodes that the network runs on, if there are any.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    path: PathBuf,
    interrupt: Interrupt,
    orders: Sender<Order>,
    failures: Sender<Failing>,
    progress: Receiver<Progress>,
    is_paused: bool,
    rest_events: RestEvents,
    notes: Notes,
    /// Whether the source is paused, whether it has ended, and whether the sink has ended.
    rests: bool,
    source_ended: bool,
    is_over: bool,
    /// Whether all records of the present network were written, and whether all its failures were reported.
    written: bool,
    reported: bool,
}

impl Control {
    /// Receives commands through the mailbox of `space` for a run of `network`, which was read from `path`.
    pub(super) fn new(
        space: &Space,
        runtime: &Runtime,
        (network, limits, path, boxes): (Network, StartOptions, &Path, Boxes),
        elsewhere: Option<Arc<dyn Elsewhere>>,
        failures: Sender<Failing>,
        interrupt: Interrupt,
    ) -> Result<(Control, Reached), Error> {
        let mailbox = space.mailbox().map_err(lost)?.reversible(REVERSIBLE);
        let rest_events = RestEvents::new(space).map_err(lost)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (Reach { orders, progress }, reached) = reach(runtime);
        let control = Control {
            space: space.clone(),
            mailbox,
            boxes,
            network,
            limits,
            elsewhere,
            path,
            interrupt,
            orders,
            failures,
            progress,
            is_paused: false,
            rest_events,
            notes: Notes::new(space),
            rests: false,
            source_ended: false,
            is_over: false,
            written: false,
            reported: false,
        };
        Ok((control, reached))
    }

    /// Answers commands until the run is over. `tally` has the counts of records.
    pub(super) fn serve(mut self, runtime: &Runtime, tally: &Tally) -> Result<(), Error> {
        runtime.start();
        while !self.is_over {
            runtime.space().inspect(|space| space.note_alive());
            match self.mailbox.poll().map_err(lost)? {
                Some(received) => self.answer(runtime, received, tally).map_err(lost)?,
                None => {
                    unload_unused();
                    self.receive_progress(IDLE);
                }
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        runtime: &Runtime,
        received: Received,
        tally: &Tally,
    ) -> Result<(), thalweg_space::Error> {
        if is_note(received.command()) {
            return self.notes.answer(received);
        }
        if is_about_map(received.command()) {
            return map_writes::answer(&self.space, received);
        }
        let command = match RunCommand::read(received.command()) {
            Ok(RunCommand::Move { task, to, stays }) => {
                return answer_move(received, &runtime.mover(), task, to, stays);
            }
            Ok(command) => command,
            Err(error) => return received.failed(&chain(&error)),
        };
        let done = self.obey(runtime, command);
        self.rest_events.note(self.is_paused);
        match done {
            Err(why) => received.failed(&chain(&why)),
            Ok((done, None)) => received.done(&format!("{done}: {tally}")),
            Ok((done, Some(inverse))) => {
                received.done_with_inverse(&format!("{done}: {tally}"), &inverse.to_command())
            }
        }
    }

    /// Executes a command; returns what the command did, and the command that undoes it.
    fn obey(
        &mut self,
        runtime: &Runtime,
        command: RunCommand,
    ) -> Result<(&'static str, Option<RunCommand>), Error> {
        // If the command changed nothing, no command is needed to undo it.
        let (reads_on, rests) = match self.is_paused {
            true => (None, Some(RunCommand::Pause)),
            false => (Some(RunCommand::Resume), None),
        };
        Ok(match command {
            RunCommand::Pause => (self.pause().map(|()| "paused")?, reads_on),
            RunCommand::Resume => {
                self.resume();
                ("resumed", rests)
            }
            RunCommand::Drain => (self.drain(runtime).map(|()| "drained and paused")?, reads_on),
            RunCommand::Load { network, libraries } => {
                let before = RunCommand::Load { network: self.path.clone(), libraries: Vec::new() };
                (self.load(runtime, &network, &libraries).map(|()| "loaded")?, Some(before))
            }
            RunCommand::Reload { library } => (self.reload(runtime, &library)?, None),
            RunCommand::Stop => {
                self.interrupt.stop();
                ("stopping", None)
            }
            RunCommand::Move { .. } => unreachable!("a move is answered before"),
        })
    }

    /// Processes the reports of the other threads, for a limited time, and ends leases.
    fn receive_progress(&mut self, patience: Duration) {
        // An error is ignored, because leases cannot be ended only if the space was removed, and with it the
        // settings.
        let _ = self.space.see_to_leases();
        if let Ok(progress) = self.progress.recv_timeout(patience) {
            self.note(progress);
        }
    }

    fn note(&mut self, progress: Progress) {
        match progress {
            Progress::Rests => self.rests = true,
            Progress::SourceEnded => self.source_ended = true,
            Progress::Over => self.is_over = true,
            Progress::Written => self.written = true,
            // A network without tasks cannot have failures, so all are reported from the start.
            Progress::Reported => self.reported = true,
        }
    }

    fn pause(&mut self) -> Result<(), Error> {
        self.let_rest()?;
        self.is_paused = true;
        Ok(())
    }

    fn resume(&mut self) {
        self.is_paused = false;
        self.go();
    }

    fn drain(&mut self, runtime: &Runtime) -> Result<(), Error> {
        self.empty()?;
        self.is_paused = true;
        self.open(runtime)
    }

    fn load(&mut self, runtime: &Runtime, path: &Path, libraries: &[PathBuf]) -> Result<(), Error> {
        let mut boxes = self.boxes.clone();
        for library in libraries {
            libraries::add(&mut boxes, library, Loading::Replaceable)
                .map_err(|why| Error::run(format!("error[E0904]: {}", chain(&why))))?;
        }
        let network = Network::load(path, &boxes).map_err(|diagnostics| {
            let errors: Vec<String> = diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
            let (path, errors) = (path.display(), errors.join("\n"));
            Error::run(format!("the network that runs goes on; {path} has errors:\n{errors}"))
        })?;
        self.empty()?;
        let network_before = std::mem::replace(&mut self.network, network);
        let opened = self.open(runtime).or_else(|why| {
            self.network = network_before;
            self.open(runtime)?;
            Err(Error::run(format!("{}; the network before goes on", chain(&why))))
        });
        if opened.is_ok() {
            (self.path, self.boxes) = (path.to_owned(), boxes);
            // An error is ignored, because the name in the space is only shown to observers.
            let _ = runtime.space().map(|space| space.rename(&name_of(path)));
        }
        if !self.is_paused {
            self.go();
        }
        opened
    }

    /// Makes the network continue with the boxes in the present file of a library.
    fn reload(&mut self, runtime: &Runtime, library: &Path) -> Result<&'static str, Error> {
        let refused =
            |error: thalweg_net::Error| Error::run(format!("{}; the boxes before go on", chain(&error)));
        let boxes = self.boxes.reload(library).map_err(refused)?;
        let replacement = self.network.reload(&self.boxes, &boxes, runtime.space()).map_err(refused)?;
        if let Some(elsewhere) = &self.elsewhere {
            elsewhere
                .reload(library)
                .map_err(|why| Error::run(format!("{why}; the boxes before go on, on all nodes")))?;
        }
        self.boxes = boxes;
        let finished = replacement.finish_apart();
        let finished = finished.map_err(|error| Error::run("cannot start a thread").because(error))?;
        let deadline = Instant::now() + CALLS_MAX;
        loop {
            match finished.recv_timeout(PATIENCE) {
                Ok(()) => return Ok("reloaded"),
                // Leases are ended while this loop waits, too, as they are while the main thread waits for
                // reports of other threads.
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => _ = self.space.see_to_leases(),
                Err(_) => return Ok("reloaded, but calls of the old library go on"),
            }
        }
    }

    /// Pauses the source.
    fn let_rest(&mut self) -> Result<(), Error> {
        self.interrupt.rest(true);
        while !self.rests {
            if self.source_ended || self.is_over {
                return Err(Error::run(ENDING));
            }
            self.receive_progress(PATIENCE);
        }
        Ok(())
    }

    /// Closes the network's input, and waits until all records have left and the network has ended.
    fn empty(&mut self) -> Result<(), Error> {
        self.let_rest()?;
        self.send(Order::Close)?;
        let mut rests_elsewhere = false;
        while !self.written || !self.reported {
            if self.written && !std::mem::replace(&mut rests_elsewhere, self.written) {
                self.elsewhere.iter().for_each(|elsewhere| elsewhere.rest());
            }
            self.receive_progress(PATIENCE);
            if self.source_ended || self.is_over {
                return Err(Error::run(ENDING));
            }
        }
        Ok(())
    }

    /// Starts the new network in place of the one that has ended.
    fn open(&mut self, runtime: &Runtime) -> Result<(), Error> {
        let Running { input, output, errors, strays } =
            self.network.start_on(runtime, self.limits, self.elsewhere.clone()).map_err(Error::run_of)?;
        runtime.start();
        (self.written, self.reported) = (false, false);
        self.failures.send(Failing { errors, strays }).map_err(|_| Error::run(ENDING))?;
        self.send(Order::Open(input, output))
    }

    fn go(&mut self) {
        self.rests = false;
        self.interrupt.rest(false);
        // An error is ignored, because a source that has ended needs no order.
        let _ = self.send(Order::Go);
    }

    fn send(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| Error::run(ENDING))
    }
}

const ENDING: &str =
    "the input has ended, or the run was stopped: it ends by itself when all records have left";

/// The name of a run of the network in the file `network`.
pub(super) fn name_of(network: &Path) -> String {
    network.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned())
}

/// The error of a mailbox that cannot be used.
fn lost(error: thalweg_space::Error) -> Error {
    Error::coded_of("E0903", error)
}

//! A run of a network: from its plan to its end.
//!
//! ```text
//! Plan ──► Run::start ──► sources ─► network ─► sinks      the threads of the runtime
//!              │             ▲                    ▲
//!              ▼             └── valve ── control ┘         commands, in the thread that finishes the run
//!          Run::finish ──► Ended
//! ```

mod choice;
mod control;
mod ends;
mod failures;
mod folder;
mod keeping;
mod letters;
mod map_writes;
mod moves;
mod notes;
mod places;
mod recording;
mod rest;
mod sinks;
mod sources;
mod tally;
mod valve;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_exec::{Options, Runtime, Summary};
use thalweg_net::crash::CrashWatch;
use thalweg_net::run::{Elsewhere, StartOptions};
use thalweg_net::{Boxes, Loading, Network, Running};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{ElementOptions, Policy, Space, SpaceOptions};

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::io::{Endpoint, Sink, SinkDefaults, Source, SourceDefaults};
use crate::libraries;
use crate::notice::{Notice, Notices};
use crate::settings::{known, value_of};
use crate::tuned::{InitialSetting, TaskPlace};
use control::{Control, name_of};
use ends::Ends;
use folder::Folder;
use keeping::Archive;
use letters::DeadLetters;
use moves::Answering;
use places::Placing;
use recording::Recording;
use sources::Gate;
use valve::Failing;

pub use keeping::OnFull;
pub(crate) use keeping::Published;
pub use notes::Notes;
pub(crate) use rest::is_paused;
pub use tally::Tally;

/// All options of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file of the network.
    pub network: PathBuf,
    /// Libraries of boxes, as the user names them ([`libraries::find`]).
    pub libraries: Vec<PathBuf>,
    /// Whether boxes whose code in the network is a command may run it.
    pub allow_exec: bool,
    /// The places that records come from.
    pub inputs: Vec<Endpoint>,
    /// The defaults for inputs.
    pub input: SourceDefaults,
    /// The places that records go to.
    pub outputs: Vec<Endpoint>,
    /// The defaults for outputs.
    pub output: SinkDefaults,
    /// The file to which each record that enters is written, with its time.
    pub record: Option<PathBuf>,
    /// The file to which failed records and unreadable input are written.
    pub dead_letters: Option<PathBuf>,
    /// Whether the run ends when a record has failed.
    pub stop_on_error: bool,
    /// Whether a record that a synchrocell holds at the end counts as failed; otherwise it gives a warning.
    pub strict_end: bool,
    /// Whether other processes may send the run all commands, and not only moves of tasks.
    pub control: bool,
    /// The directory of the event space, which is then kept after the run; without it a new one is made.
    pub space: Option<PathBuf>,
    /// Whether every event, and the space, is kept; and the behaviour when the disk is full.
    pub keep: Option<OnFull>,
    /// The options of the runtime. The run replaces the field `space` of the options by the run's space.
    pub options: Options,
    /// The initial values of settings.
    pub settings: Vec<InitialSetting>,
    /// The workers that tasks are moved to as soon as they exist.
    pub places: Vec<TaskPlace>,
    /// The other nodes that the network runs on, if there are any.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
    /// The directory of a session that the space joins; it is created if it does not exist.
    pub session: Option<PathBuf>,
    /// Whether the space stays after the run even if neither `keep` nor `space` is set.
    pub stays: bool,
}

impl Plan {
    /// A plan to run this network on standard input and output, with defaults for all other options.
    pub fn of(network: impl Into<PathBuf>) -> Plan {
        let standard =
            || Endpoint { name: None, place: crate::io::Place::Standard, options: Default::default() };
        Plan {
            network: network.into(),
            libraries: Vec::new(),
            allow_exec: false,
            inputs: vec![standard()],
            input: SourceDefaults::default(),
            outputs: vec![standard()],
            output: SinkDefaults::default(),
            record: None,
            dead_letters: None,
            stop_on_error: false,
            strict_end: false,
            control: false,
            space: None,
            keep: None,
            options: Options::default(),
            settings: Vec::new(),
            places: Vec::new(),
            elsewhere: None,
            session: None,
            stays: false,
        }
    }
}

/// A run in progress.
pub struct Run {
    runtime: Runtime,
    control: Option<Control>,
    answering: Option<Answering>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    placing: Option<Placing>,
    crash_watch: CrashWatch,
    ends: Arc<Ends>,
    /// The thread that reports failures.
    errors: JoinHandle<()>,
    archive: Option<Archive>,
    folder: Folder,
    started: Instant,
}

/// The result of a run.
#[derive(Debug)]
pub struct Ended {
    /// The time from the start of the network to the end of its last task.
    pub wall: Duration,
    /// The number of tasks that failed.
    pub failed_tasks: u64,
    /// The first of the failed tasks.
    pub failures: Vec<FailedTask>,
    /// The path of the run's space, if it is kept.
    pub kept: Option<PathBuf>,
}

/// A task that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTask {
    /// The name of the failed task's component.
    pub component: String,
    /// The error message of the failed task.
    pub message: String,
}

impl Run {
    /// Starts a run as planned. The run's notices are passed to `notices`; the run ends in order when
    /// `interrupt` requests it.
    ///
    /// # Errors
    /// The network has errors, a library, an input or an output cannot be opened, or an option is out of range.
    pub fn start(plan: &Plan, interrupt: &Interrupt, notices: &Notices) -> Result<Run, Error> {
        let (network, boxes) = load(plan, notices)?;
        let sources = sources(plan, interrupt, notices)?;
        let sinks = sinks(plan, interrupt, notices)?;
        let recording =
            plan.record.as_deref().map(|path| Recording::create(path, &plan.input.names)).transpose()?;
        let dead_letters = plan
            .dead_letters
            .as_deref()
            .map(|path| DeadLetters::create(path, &plan.input.names))
            .transpose()?;
        let space = space(plan)?;
        let mut folder = Folder::new(space.path(), interrupt);
        let tally = Arc::new(Tally::default());
        let archive = |on_full| Archive::start(&space, on_full, interrupt, &tally, notices);
        let archive = plan.keep.map(archive).transpose()?;

        let workers = initial_workers(&plan.settings, &plan.options);
        let options = Options { space: Some(space.clone()), workers, ..plan.options.clone() };
        let runtime = Runtime::new(options).map_err(|error| Error::coded_of("E0902", error))?;
        // A run under control needs no thread for its mailbox: [`Run::finish`] answers the commands.
        let answering = (!plan.control).then(|| Answering::start(&space, runtime.mover())).transpose()?;
        let started = Instant::now();
        let limits = StartOptions { exact_failures: dead_letters.is_some(), ..StartOptions::default() };
        let crash_watch = CrashWatch::new(space.path())
            .map_err(|error| Error::run("cannot watch for crashes of boxes").because(error))?;
        let elsewhere = plan.elsewhere.clone();
        let running = network.start_on(&runtime, limits, elsewhere.clone()).map_err(Error::run_of)?;
        set(&plan.settings, &space)?;
        let ends = Arc::new(Ends {
            space: space.clone(),
            tally,
            interrupt: interrupt.clone(),
            notices: notices.clone(),
            stop_on_error: plan.stop_on_error,
            strict_end: plan.strict_end,
            letters: dead_letters.map(Mutex::new),
        });
        let (failures, failed) = channel();
        let Running { input, output, errors, strays } = running;
        // Sending cannot fail, because `failed`, the receiver, still exists here.
        let _ = failures.send(Failing { errors, strays });
        let (control, valve, outputs, progress) = if plan.control {
            let program = (network, limits, plan.network.as_path(), boxes);
            let stop = interrupt.clone();
            let (control, reached) =
                Control::new(&space, &runtime, program, elsewhere.clone(), failures, stop)?;
            (Some(control), Some(reached.valve), Some(reached.outputs), Some(reached.progress))
        } else {
            drop(failures);
            (None, None, None, None)
        };
        // Sinks are started before sources: the runtime lets a source exceed its limit if no other task can
        // run, which would be the case without sinks.
        ends.spawn_sinks(&runtime, sinks, output, outputs)?;
        ends.spawn_sources(&runtime, sources, Gate::new(input, valve, recording))?;
        let errors = ends.spawn_errors(failed, progress)?;
        let placing = Placing::start(&plan.places, ends.space.path(), runtime.mover())?;
        if plan.keep.is_some() || plan.space.is_some() || plan.stays {
            folder.stay();
        }
        Ok(Run {
            runtime,
            control,
            answering,
            elsewhere,
            placing,
            crash_watch,
            ends,
            errors,
            archive,
            folder,
            started,
        })
    }

    /// The counts of the run.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.ends.tally
    }

    /// The directory of the run's space.
    pub fn space(&self) -> &Path {
        self.ends.space.path()
    }

    /// Answers commands, waits until all records have left, calls `left`, and makes the final counts.
    ///
    /// # Errors
    /// The run failed as a whole, its events could not be kept, or its space could not be removed. Failed
    /// records and failed tasks are no errors here: [`Tally`] and [`Ended`] contain them.
    pub fn finish(self, left: impl FnOnce()) -> Result<Ended, Error> {
        let Run {
            runtime,
            control,
            answering,
            elsewhere,
            placing,
            crash_watch,
            ends,
            errors,
            archive,
            folder,
            started,
        } = self;
        if let Some(control) = control {
            control.serve(&runtime, &ends.tally)?;
        }
        let ended = runtime.join();
        elsewhere.iter().for_each(|elsewhere| elsewhere.end());
        drop(placing);
        drop(crash_watch);
        let wall = started.elapsed();
        errors.join().map_err(|_| Error::run("the thread that reports failed records panicked"))?;
        ends.finish_letters();
        left();
        drop(answering);
        ends.space.finish();
        if let Some(archive) = archive {
            archive.finish()?;
        }
        drop(ends);
        let failures = ended.as_ref().map_or_else(|_| Vec::new(), |ended| failed_tasks(ended, folder.path()));
        let kept = folder.close()?;
        let failed_tasks = ended.map_err(Error::run_of)?.failed;
        Ok(Ended { wall, failed_tasks, failures, kept })
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({})", self.space().display())
    }
}

fn load(plan: &Plan, notices: &Notices) -> Result<(Network, Boxes), Error> {
    // A command may request a run under control to load the libraries again.
    let loading = if plan.control { Loading::Replaceable } else { Loading::Stays };
    let mut boxes = libraries::load(&plan.libraries, loading)?;
    if plan.allow_exec {
        boxes.allow_commands();
    }
    let network = Network::load(&plan.network, &boxes).map_err(Error::text)?;
    network.warnings().iter().for_each(|warning| notices.give(Notice::Diagnostic(warning.clone())));
    Ok((network, boxes))
}

fn sources(plan: &Plan, interrupt: &Interrupt, notices: &Notices) -> Result<Vec<Source>, Error> {
    let keeps_raw = plan.dead_letters.is_some();
    let open =
        |endpoint: &Endpoint| Source::open(endpoint.clone(), &plan.input, keeps_raw, interrupt, notices);
    plan.inputs.iter().map(open).collect()
}

fn sinks(plan: &Plan, interrupt: &Interrupt, notices: &Notices) -> Result<Vec<Sink>, Error> {
    let open = |endpoint: &Endpoint| Sink::open(endpoint.clone(), &plan.output, interrupt, notices);
    plan.outputs.iter().map(open).collect()
}

fn space(plan: &Plan) -> Result<Space, Error> {
    let name = name_of(&plan.network);
    let policy = plan.keep.map_or(Policy::Overwrite, |on_full| Policy::Wait { timeout: on_full.patience() });
    let options = SpaceOptions {
        name,
        path: plan.space.clone(),
        session: plan.session.clone(),
        element: ElementOptions { policy, ..ElementOptions::default() },
        keep: plan.keep.is_some(),
        ..SpaceOptions::default()
    };
    Space::create(options).map_err(|error| Error::coded_of("E0903", error))
}

/// The number of workers with which a run starts: the initial value of `exec.workers`, if there is one. Workers that
/// were added after the start would let the mapper place all tasks again, also those that have a place of their own.
fn initial_workers(settings: &[InitialSetting], options: &Options) -> usize {
    let set = settings.iter().rev().find(|setting| setting.name == "exec.workers");
    let count = set.and_then(|setting| setting.value.parse::<usize>().ok());
    // A number that is out of range is reported when the settings are set.
    count
        .filter(|count| (1..=options.workers_max.max(options.workers)).contains(count))
        .unwrap_or(options.workers)
}

/// Sets the initial values of settings. Settings of boxes exist only after the network has started.
fn set(changes: &[InitialSetting], space: &Space) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let reader = SpaceReader::open(space.path()).map_err(Error::usage_of)?;
    let settings = reader.settings().map_err(Error::usage_of)?;
    for InitialSetting { name, value, origin } in changes {
        let value = known(&settings, name).and_then(|setting| value_of(setting, value));
        let value = value.map_err(|error| match origin.as_str() {
            "" => error,
            _ => Error::usage(format!("{origin}: {error}")),
        })?;
        reader.set(name, value).map_err(Error::usage_of)?;
    }
    Ok(())
}

/// The failed tasks that the summary lists; their names are in the space at `path`.
fn failed_tasks(summary: &Summary, path: &Path) -> Vec<FailedTask> {
    if summary.failures.is_empty() {
        return Vec::new();
    }
    let sites = SpaceReader::open(path).and_then(|reader| reader.sites()).unwrap_or_default();
    let component = |failure: &thalweg_exec::Failure| {
        let site = sites.iter().find(|known| known.id == failure.component);
        site.map_or_else(|| "a task".to_owned(), |site| site.name.clone())
    };
    let failed_task = |failure: &thalweg_exec::Failure| FailedTask {
        component: component(failure),
        message: failure.message.clone(),
    };
    summary.failures.iter().map(failed_task).collect()
}

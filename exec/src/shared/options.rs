//! How to start a runtime.

use std::thread;

use thalweg_space::Space;

use crate::error::Error;
use crate::shared::mapper::Mapper;
use crate::shared::settings::{Order, Settings};
use crate::telemetry::Mode;

/// How to start a runtime.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of workers (at least one). Default: the cores that the process may use, or fewer if its
    /// cgroup may not use all of their time.
    pub workers: usize,
    /// The greatest number of workers if some are added while the runtime runs
    /// ([`Runtime::workers`](crate::Runtime::workers), the setting `exec.workers`); no fewer than `workers`.
    /// Default: the same number as the default of `workers`.
    pub workers_max: usize,
    /// Whether each worker is bound to a core of its own; cores of one NUMA node follow one another.
    pub pin: bool,
    /// How tasks are placed on workers.
    pub mapper: Mapper,
    /// The space into which events are recorded; `None`: nothing is recorded. A build with `--cfg
    /// thalweg_no_probes`, the baseline for measurements, ignores this option.
    pub space: Option<Space>,
    /// How much is recorded at first; the setting `monitor.mode` changes it during the run.
    pub mode: Mode,
    /// The most messages that a dispatch reads.
    pub quantum: usize,
    /// The capacity of a stream in messages, unless its own specification says otherwise.
    pub capacity: usize,
    /// The limit on messages under way in streams: while there are so many, no source reads a further input
    /// ([`Blocking::admit`](crate::Blocking::admit)). 0 means no limit.
    pub unfinished: u64,
    /// Which ready task a worker takes next.
    pub order: Order,
    /// How long a dispatch should last, in microseconds: the number of messages that a dispatch may read is
    /// computed from this time.
    pub quantum_us: u64,
    /// How long a worker without work spins before it sleeps, in microseconds.
    pub spin_us: u64,
    /// Whether a worker that has waited for a while gets tasks of a busy worker and keeps them. Tasks that
    /// were placed by name ([`TaskSpec::place`](crate::TaskSpec::place)) or by [`Mapper::User`] stay.
    pub steal: bool,
    /// How long, in microseconds, a worker must be inside one call of a task's code before workers that have
    /// nothing to do take tasks that are ready behind it, and keep them; 0: never. Tasks that were placed by name or
    /// by [`Mapper::User`] stay.
    pub steal_after_us: u64,
    /// Whether the replicas of a split move to where there is time for them ([`Spread`](crate::Spread)), if
    /// the mapper is [`Mapper::Contiguous`] and `steal` is off.
    pub spread: bool,
    /// Whether each task has a thread of its own, like a blocking task, for comparison with workers, which
    /// then have no work.
    pub thread_per_task: bool,
    /// Whether the runtime records which part of tasks' busy time was work. To know how much was work, the
    /// runtime samples threads while they run tasks, and asks the kernel for their processor time at the end
    /// of long dispatches. Switch `accounts` off only to measure what the recording costs.
    pub accounts: bool,
}

impl Default for Options {
    fn default() -> Options {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let declared = Settings::DECLARED;
        Options {
            workers,
            workers_max: workers,
            pin: false,
            mapper: Mapper::default(),
            space: None,
            mode: Mode::default(),
            quantum: declared.quantum.default as usize,
            capacity: declared.capacity.default as usize,
            unfinished: declared.unfinished.default,
            order: Order::default(),
            quantum_us: declared.quantum_us.default,
            spin_us: declared.spin_us.default,
            steal: declared.steal.default != 0,
            steal_after_us: declared.steal_after_us.default,
            spread: declared.spread.default != 0,
            thread_per_task: false,
            accounts: true,
        }
    }
}

pub(crate) fn check(options: &Options) -> Result<(), Error> {
    let workers = options.workers;
    if (1..=4096).contains(&workers) && options.workers_max <= 4096 {
        return Ok(());
    }
    let most = options.workers_max;
    Err(Error::new(format!(
        "options: workers is {workers}, workers_max {most}, but they have to be 1 to 4096"
    )))
}

/// The settings with the initial values that the options give.
pub(crate) fn settings(options: &Options) -> Result<Settings, Error> {
    let mut specs = Settings::DECLARED;
    specs.mode.default = options.mode as u64;
    specs.workers.max = options.workers.max(options.workers_max) as u64;
    specs.workers.default = options.workers as u64;
    specs.quantum.default = options.quantum as u64;
    specs.quantum_us.default = options.quantum_us;
    specs.spin_us.default = options.spin_us;
    specs.capacity.default = options.capacity as u64;
    specs.unfinished.default = options.unfinished;
    specs.order.default = options.order as u64;
    specs.mapper.choices = options.mapper.choices();
    specs.mapper.max = specs.mapper.choices.len() as u64 - 1;
    specs.mapper.default = options.mapper.choice();
    specs.steal.default = u64::from(options.steal);
    specs.steal_after_us.default = options.steal_after_us;
    specs.spread.default = u64::from(options.spread);
    for spec in specs.all() {
        let (name, value, min, max) = (spec.name, spec.default, spec.min, spec.max);
        if !(min..=max).contains(&value) {
            return Err(Error::new(format!("options: {name} is {value}, but has to be {min} to {max}")));
        }
    }
    let settings = specs.make(options.space.as_ref()).map_err(Error::from)?;
    for (setting, spec) in settings.all().into_iter().zip(specs.all()) {
        // A second runtime of the same space finds the setting's cell there, and stores the value of its own
        // options.
        setting.show(spec.default).map_err(Error::from)?;
    }
    Ok(settings)
}

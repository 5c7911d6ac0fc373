//! The settings of a running runtime: their present values, and the events that record which values are
//! adopted.

use thalweg_space::{Changes, Clock, Space, Tunable};

use crate::error::Error;
use crate::shared::mapper;
use crate::shared::options::{self, Options};
use crate::shared::settings::{Order, Settings};
use crate::task::spec::TaskId;
use crate::telemetry::{Mode, Telemetry};

/// The settings of a running runtime.
pub(crate) struct Tuning {
    pub(crate) settings: Settings,
    /// The space's count of changes of settings.
    changes: Option<Changes>,
    clock: Clock,
}

impl Tuning {
    pub(crate) fn new(options: &Options, clock: Clock) -> Result<Tuning, Error> {
        let changes = options.space.as_ref().map(Space::changes);
        Ok(Tuning { settings: options::settings(options)?, changes, clock })
    }

    /// The number of changes of settings: while it stays the same, every setting keeps its value.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.as_ref().map_or(0, Changes::load)
    }

    pub(crate) fn quantum(&self, telemetry: &mut Telemetry) -> usize {
        self.adopt(&self.settings.quantum, telemetry) as usize
    }

    /// The present quantum. This call records no event.
    pub(crate) fn quantum_now(&self) -> usize {
        self.settings.quantum.load() as usize
    }

    /// How long a dispatch should last, in ticks.
    pub(crate) fn quantum_ticks(&self, telemetry: &mut Telemetry) -> u64 {
        self.clock.ns_to_ticks(self.adopt(&self.settings.quantum_us, telemetry) * 1000)
    }

    pub(crate) fn spin_ticks(&self, telemetry: &mut Telemetry) -> u64 {
        self.clock.ns_to_ticks(self.adopt(&self.settings.spin_us, telemetry) * 1000)
    }

    /// How many messages may be under way before sources are held; 0: any number.
    pub(crate) fn unfinished(&self, telemetry: &mut Telemetry) -> u64 {
        self.adopt(&self.settings.unfinished, telemetry)
    }

    /// Whether a thread has adopted the present limit on unfinished inputs.
    pub(crate) fn is_limit_adopted(&self) -> bool {
        let unfinished = &self.settings.unfinished;
        unfinished.is_adopted(unfinished.load())
    }

    /// The present limit on unfinished inputs. This call records no event.
    pub(crate) fn unfinished_now(&self) -> u64 {
        self.settings.unfinished.load()
    }

    pub(crate) fn by_demand(&self, telemetry: &mut Telemetry) -> bool {
        self.adopt(&self.settings.order, telemetry) == Order::Demand as u64
    }

    pub(crate) fn steals(&self, telemetry: &mut Telemetry) -> bool {
        self.adopt(&self.settings.steal, telemetry) != 0
    }

    /// How long a call of a task's code must last, in ticks, before other workers take tasks from behind it; 0: they
    /// never do.
    pub(crate) fn steal_after_ticks(&self, telemetry: &mut Telemetry) -> u64 {
        self.clock.ns_to_ticks(self.adopt(&self.settings.steal_after_us, telemetry) * 1000)
    }

    /// The mapper that places tasks now, as a value of the setting `exec.mapper`.
    pub(crate) fn mapper(&self, telemetry: &mut Telemetry) -> u64 {
        self.adopt(&self.settings.mapper, telemetry)
    }

    /// The present mapper. This call records no event.
    pub(crate) fn mapper_now(&self) -> u64 {
        self.settings.mapper.load()
    }

    /// Whether replicas are spread now: only where neighbours are kept together, and no worker steals. Reading
    /// this records no event.
    pub(crate) fn spreads(&self) -> bool {
        let Settings { spread, steal, mapper, .. } = &self.settings;
        spread.load() != 0 && steal.load() == 0 && mapper.load() == mapper::CONTIGUOUS
    }

    /// Whether replicas are spread now; the first thread to see a change records it.
    pub(crate) fn spreads_now(&self, telemetry: &mut Telemetry) -> bool {
        self.adopt(&self.settings.spread, telemetry) != 0 && self.spreads()
    }

    /// How many percent of a message's work may be spent on recording its time.
    pub(crate) fn clock_budget(&self, telemetry: &mut Telemetry) -> u64 {
        self.adopt(&self.settings.clock_budget, telemetry)
    }

    /// By how many ticks `task` is delayed for each message now, so that an observer sees whether the whole
    /// run depends on the task. The delay ends by itself at a given time, because the process that asked for
    /// the delay may die before it ends it.
    #[inline]
    pub(crate) fn delay_ticks(&self, task: TaskId, now: u64) -> u64 {
        let Settings { delay_task, delay_ns, delay_second_task, delay_second_ns, delay_until, .. } =
            &self.settings;
        let ns = if delay_task.load() == task.0 {
            delay_ns
        } else if delay_second_task.load() == task.0 {
            delay_second_ns
        } else {
            return 0;
        };
        if now >= delay_until.load() { 0 } else { self.clock.ns_to_ticks(ns.load()) }
    }

    /// Whether no task is delayed.
    pub(crate) fn delays_none(&self) -> bool {
        self.settings.delay_task.load() == 0 && self.settings.delay_second_task.load() == 0
    }

    #[inline]
    fn adopt(&self, tunable: &Tunable, telemetry: &mut Telemetry) -> u64 {
        let value = tunable.load();
        if !tunable.is_adopted(value) {
            self.tell_adopted(tunable, telemetry);
        }
        value
    }

    #[cold]
    #[inline(never)]
    fn tell_adopted(&self, tunable: &Tunable, telemetry: &mut Telemetry) {
        let (new, before) = tunable.adopt();
        if let Some(old) = before {
            telemetry.setting_adopted(tunable.name(), old, new);
        }
    }

    /// The present mode. This call records no event.
    pub(crate) fn mode_now(&self) -> Mode {
        Mode::from_setting(self.settings.mode.load())
    }
}

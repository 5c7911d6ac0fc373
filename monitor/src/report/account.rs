//! What busy time was spent on, and what the run and the machine used of processors.

use serde::{Deserialize, Serialize};

use crate::ids::{TaskId, WorkerId};

/// What busy time was spent on, in parts that add up to it: work that was done, sleep in the box, waiting for a processor, and what the
/// runtime does besides. The parts come from looks at the thread, at intervals, and from its processor time in dispatches of a
/// millisecond or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyAccount {
    /// Its thread had a processor.
    pub computing_ns: f64,
    /// Its thread slept, by what it slept for.
    pub asleep: Asleep,
    /// Its thread could have run and had no processor: the part of that time that the thread did not notice at once, and so counted
    /// as busy.
    pub kept_ns: f64,
    /// What the runtime does between two tasks, about: a part of what would else be computing.
    pub runtime_ns: f64,
    /// How often the thread was looked at while it was busy with this.
    pub looks: u64,
    /// Of the busy time, how much was in dispatches whose processor time was measured.
    pub measured_ns: f64,
    /// Processor time that the thread spent in the kernel; of a worker, or a task with a thread of its own.
    pub kernel_ns: Option<f64>,
    /// Pages of memory that the thread touched and that were not there yet; of a worker, or a task with a thread of its own.
    pub faults: Option<u64>,
    /// The address, in the process, of the lock that the thread slept for in most looks at it asleep for one.
    pub lock: Option<u64>,
}

/// Time asleep in a box, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asleep {
    /// For a lock, or until another thread wakes it (`futex`, `flock`).
    pub lock_ns: f64,
    /// Until something can be read, opened or accepted.
    pub read_ns: f64,
    /// Until something is written.
    pub write_ns: f64,
    /// For a time (`nanosleep`).
    pub sleep_ns: f64,
    /// For a page of memory.
    pub page_fault_ns: f64,
    /// For something else, or for something unknown.
    pub other_ns: f64,
}

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SleepsFor {
    /// A lock, or another thread.
    Lock,
    /// Something to read.
    Read,
    /// Something to be written.
    Write,
    /// A time.
    Sleep,
    /// A page of memory.
    PageFault,
    /// Something else.
    Other,
}

impl SleepsFor {
    /// All, in the order in which [`Asleep`] has them.
    pub const ALL: [SleepsFor; 6] = [
        SleepsFor::Lock,
        SleepsFor::Read,
        SleepsFor::Write,
        SleepsFor::Sleep,
        SleepsFor::PageFault,
        SleepsFor::Other,
    ];

    /// The word used in JSON and for figures.
    pub fn word(self) -> &'static str {
        match self {
            SleepsFor::Lock => "lock",
            SleepsFor::Read => "read",
            SleepsFor::Write => "write",
            SleepsFor::Sleep => "sleep",
            SleepsFor::PageFault => "page_fault",
            SleepsFor::Other => "other",
        }
    }
}

impl Asleep {
    /// Of these times, in the order of [`SleepsFor::ALL`].
    pub(crate) fn of(ns: [f64; 6]) -> Asleep {
        let [lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns] = ns;
        Asleep { lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns }
    }

    /// The times, in the order of [`SleepsFor::ALL`].
    pub fn parts(&self) -> [f64; 6] {
        let Asleep { lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns } = *self;
        [lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns]
    }

    /// All of it.
    pub fn total_ns(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// What it slept for longest.
    pub fn most(&self) -> Option<(SleepsFor, f64)> {
        let parts = SleepsFor::ALL.into_iter().zip(self.parts());
        parts.filter(|(_, ns)| *ns > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl BusyAccount {
    /// The parts of busy time: their sum is the whole.
    pub fn parts(&self) -> [f64; 4] {
        [self.computing_ns, self.asleep.total_ns(), self.kept_ns, self.runtime_ns]
    }

    /// The sum of all parts.
    pub fn total_ns(&self) -> f64 {
        self.parts().iter().sum()
    }
}

/// What limits a run as it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Messages that a dispatch takes at most (`exec.quantum`).
    pub quantum: u64,
    /// Sources read no further input while so many messages are under way (`exec.unfinished`); 0: no limit.
    pub unfinished: u64,
}

/// A thread that was asleep in one dispatch for long, and was so still when it was looked at last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hanging {
    /// The task.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// The worker; none: the task has a thread of its own.
    pub worker: Option<WorkerId>,
    /// What it sleeps for.
    pub sleeps_for: SleepsFor,
    /// For how long, at least.
    pub ns: f64,
    /// The lock that it sleeps for: its address in the process.
    pub lock: Option<u64>,
    /// The task whose thread holds that lock, if the lock says so (those of C libraries do).
    pub holder: Option<String>,
}

/// What the run and the machine used of the processors that the run may use, in a part of the window: between the first time and the
/// last that this was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    /// How many the run may use.
    pub count: u64,
    /// How long the part of the window is.
    pub span_ns: f64,
    /// Time that threads of the run had processors.
    pub run_ns: f64,
    /// Time that others had them: other processes, the kernel for others, other guests of the machine; null where the kernel does
    /// not say.
    pub others_ns: Option<f64>,
    /// Time for which the run's group had spent the processor time that it is allowed.
    pub throttled_ns: f64,
    /// Time that it took to look at threads; part of `run_ns`.
    pub sampling_ns: f64,
    /// How often threads were looked at.
    pub looks: u64,
}

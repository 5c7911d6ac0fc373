//! The division of busy time by what it was spent on, and the processor time of the run and the machine.

use serde::{Deserialize, Serialize};

use crate::ids::{TaskId, WorkerId};

/// The busy time divided into parts that add up to it: computing, waiting in a loop, sleeping in the box,
/// waiting for a processor, and the runtime's own work. The parts are estimated from samples of the thread's
/// state and of its instructions, and from its processor time in dispatches of a millisecond or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyAccount {
    /// Time in which the thread ran on a processor.
    pub computing_ns: f64,
    /// Time in which the thread ran in a loop that waits for another thread, such as the loop of a spin lock;
    /// null if the kernel does not sample instructions, or too few were sampled.
    #[serde(default)]
    pub spinning_ns: Option<f64>,
    /// Time in which the thread slept, by the reason for the sleep.
    pub asleep: Asleep,
    /// The part of the busy time in which the thread was runnable without a processor. Time without a
    /// processor counts as busy if the thread did not notice the interruption at once.
    pub kept_ns: f64,
    /// The approximate time of the runtime's work between two tasks, which would otherwise count as
    /// computing.
    pub runtime_ns: f64,
    /// The number of samples of the thread's state in this busy time.
    pub looks: u64,
    /// The busy time of the dispatches whose processor time was measured.
    pub measured_ns: f64,
    /// Processor time that the thread spent in the kernel; only for a worker or a task with a thread of its
    /// own.
    pub kernel_ns: Option<f64>,
    /// Page faults of the thread; only for a worker or a task with a thread of its own.
    pub faults: Option<u64>,
    /// The address, in the process, of the lock for which the thread slept in most of the samples in which it
    /// slept for a lock.
    pub lock: Option<u64>,
}

/// Time asleep in a box, by the reason for the sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asleep {
    /// Asleep for a lock, or until another thread wakes it (`futex`, `flock`).
    pub lock_ns: f64,
    /// Asleep until data can be read, a file opened or a connection accepted.
    pub read_ns: f64,
    /// Asleep until data is written.
    pub write_ns: f64,
    /// Asleep for a set time (`nanosleep`).
    pub sleep_ns: f64,
    /// Asleep until a page of memory is loaded.
    pub page_fault_ns: f64,
    /// Asleep for another or an unknown reason.
    pub other_ns: f64,
}

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SleepsFor {
    /// A lock, or a wake-up by another thread.
    Lock,
    /// Data to read.
    Read,
    /// The end of a write.
    Write,
    /// A set time.
    Sleep,
    /// A page of memory to be loaded.
    PageFault,
    /// Another reason.
    Other,
}

impl SleepsFor {
    /// All reasons, in the order of the fields of [`Asleep`].
    pub const ALL: [SleepsFor; 6] = [
        SleepsFor::Lock,
        SleepsFor::Read,
        SleepsFor::Write,
        SleepsFor::Sleep,
        SleepsFor::PageFault,
        SleepsFor::Other,
    ];

    /// The word for the reason in JSON and in the names of figures.
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
    /// The times asleep, given in the order of [`SleepsFor::ALL`].
    pub(crate) fn of(ns: [f64; 6]) -> Asleep {
        let [lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns] = ns;
        Asleep { lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns }
    }

    /// The times asleep by reason, in the order of [`SleepsFor::ALL`].
    pub fn parts(&self) -> [f64; 6] {
        let Asleep { lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns } = *self;
        [lock_ns, read_ns, write_ns, sleep_ns, page_fault_ns, other_ns]
    }

    /// The total time asleep.
    pub fn total_ns(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// The reason for which the thread slept longest, with the time.
    pub fn most(&self) -> Option<(SleepsFor, f64)> {
        let parts = SleepsFor::ALL.into_iter().zip(self.parts());
        parts.filter(|(_, ns)| *ns > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl BusyAccount {
    /// The parts of busy time, whose sum is the busy time.
    pub fn parts(&self) -> [f64; 5] {
        let spinning_ns = self.spinning_ns.unwrap_or(0.0);
        [self.computing_ns, spinning_ns, self.asleep.total_ns(), self.kept_ns, self.runtime_ns]
    }

    /// The sum of all parts.
    pub fn total_ns(&self) -> f64 {
        self.parts().iter().sum()
    }
}

/// The settings that limit the dispatches of a run and its messages in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The maximal number of messages in a dispatch (`exec.quantum`).
    pub quantum: u64,
    /// The number of messages in flight from which sources read no further input (`exec.unfinished`); 0: no
    /// limit.
    pub unfinished: u64,
}

/// A thread that was asleep in one dispatch for long and was still asleep in the last sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hanging {
    /// The task.
    pub task: TaskId,
    /// The task's name.
    pub name: String,
    /// The worker whose thread sleeps; null if the task has a thread of its own.
    pub worker: Option<WorkerId>,
    /// What the thread sleeps for.
    pub sleeps_for: SleepsFor,
    /// The least time for which the thread has been asleep.
    pub ns: f64,
    /// The address, in the process, of the lock that the thread sleeps for.
    pub lock: Option<u64>,
    /// The task whose thread holds that lock, if the lock stores its holder (as the locks of C libraries do).
    pub holder: Option<String>,
}

/// The use of the processors that the run may use, by the run and by the rest of the machine, between the
/// first and the last event in the window that recorded this use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    /// The number of processors that the run may use.
    pub count: u64,
    /// The time between the two events, which is a part of the window.
    pub span_ns: f64,
    /// Processor time of the run's threads.
    pub run_ns: f64,
    /// Time in which the processors ran other processes (programs that the run started are none), the kernel's
    /// work for these, or other virtual machines; null if the kernel does not report it.
    pub others_ns: Option<f64>,
    /// Time in which the run's control group had used up its quota of processor time.
    pub throttled_ns: f64,
    /// Time spent on sampling threads; part of `run_ns`.
    pub sampling_ns: f64,
    /// The number of samples of threads.
    pub looks: u64,
}

//! How long tasks wait for a lock that they share. Samples of threads show that tasks sleep for a lock, and
//! for which, but in a short run there are few samples; the kernel's counts of a worker's processor time show
//! for how long the worker slept in its boxes altogether, and for how long it ran in the kernel, where threads
//! fall asleep and wake each other. Both together give each task's share.

use std::collections::{HashMap, HashSet};

use crate::composing::structure::OWN_THREAD;
use crate::decoding::events::{ThreadSampled, ThreadSampledDoing, ThreadUsed};

/// The least number of samples that found threads asleep for one lock, and of tasks that these samples found.
const LOOKS_MIN: u64 = 2;
const TASKS_MIN: usize = 2;
/// The least part of the samples of sleeping threads that found them asleep for this lock.
const MOST: f64 = 0.6;
/// The least processor time of a worker from which its time in the kernel is judged: some kernels count that
/// time in ticks of 4 ms.
const KERNEL_MIN_NS: f64 = 40e6;
/// The part of a worker's processor time that the kernel takes for other reasons.
const KERNEL_USUAL: f64 = 0.03;
/// The processor time of a page fault.
const FAULT_NS: f64 = 1_000.0;
/// The least share of its tasks' time for which a worker slept, and the least share of its processor time for which it
/// ran in the kernel, of a worker with a task that shares a lock although no sample found it asleep for this lock.
const SLEPT_MIN: f64 = 0.1;
const IN_KERNEL_MIN: f64 = 0.02;
/// A task that samples found asleep for a lock so often, and for a share of its time between these two, waits for
/// another task, also if that one never sleeps for the lock: it takes the lock again before the waiting one has woken.
const LOOKS_CLEAR: u64 = 3;
const CLEAR: std::ops::Range<f64> = 0.2..0.75;
/// The least share of processor time in the kernel that is as clear a sign of a lock as a second sample.
const IN_KERNEL_CLEAR: f64 = 0.1;
/// The number of a task's samples that count as much as the processor time of its worker.
const LOOKS_FEW: f64 = 20.0;
/// The most locks that are distinguished.
const LOCKS_MAX: usize = 256;

/// What is known of waits for locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// The number of samples that found workers' threads asleep, and of those that found them asleep for each
    /// lock, by the lock's address.
    asleep: u64,
    by_lock: HashMap<u64, u64>,
    /// The number of samples of each task, and of those that found it asleep for each lock.
    looks: HashMap<u64, u64>,
    tasks: HashMap<(u64, u64), u64>,
    /// The processor time of each worker when the measurement began, and now.
    used: HashMap<u64, [Used; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    cpu_ns: u64,
    kernel_ns: u64,
    faults: u64,
}

/// A task that took part in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy<'a> {
    pub(crate) task: u64,
    pub(crate) component: &'a str,
    pub(crate) worker: u64,
    pub(crate) busy_ns: f64,
}

/// The waits of a task for the lock that tasks of its worker share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Waited {
    /// The share of the task's busy time in which it slept for the lock, and the share in which the kernel put
    /// it to sleep and woke other threads for it.
    pub(crate) asleep: f64,
    pub(crate) in_kernel: f64,
    /// The lock's address.
    pub(crate) lock: u64,
    /// The part of the time in which the worker slept in its tasks that it slept for the lock.
    pub(crate) of_sleep: f64,
}

impl Locks {
    pub(crate) fn sampled(&mut self, sample: &ThreadSampled) {
        if sample.worker >= OWN_THREAD {
            return;
        }
        *self.looks.entry(sample.task).or_default() += sample.looks;
        if sample.doing == ThreadSampledDoing::Runs {
            return;
        }
        self.asleep += sample.looks;
        let is_known = self.by_lock.len() < LOCKS_MAX || self.by_lock.contains_key(&sample.on);
        if sample.doing == ThreadSampledDoing::Lock && sample.on != 0 && is_known {
            *self.by_lock.entry(sample.on).or_default() += sample.looks;
            *self.tasks.entry((sample.on, sample.task)).or_default() += sample.looks;
        }
    }

    pub(crate) fn used(&mut self, used: &ThreadUsed) {
        if used.worker < OWN_THREAD {
            let kernel_ns = if used.kernel_ns == u64::MAX { 0 } else { used.kernel_ns };
            self.used.entry(used.worker).or_default()[1] =
                Used { cpu_ns: used.cpu_ns, kernel_ns, faults: used.faults };
        }
    }

    /// Forgets everything until now.
    pub(crate) fn restart(&mut self) {
        let mut used = std::mem::take(&mut self.used);
        used.values_mut().for_each(|[before, now]| *before = *now);
        *self = Locks { used, ..Locks::default() };
    }

    /// The waits for the lock for which most threads sleep, of each task on a worker with a task that shares it;
    /// none if no lock is shared, or threads mostly sleep for other reasons. `busy` has the tasks of workers.
    pub(crate) fn waits(&self, busy: &[Busy<'_>]) -> HashMap<u64, Waited> {
        let Some((&lock, &looks)) = self.by_lock.iter().max_by_key(|&(lock, looks)| (*looks, *lock)) else {
            return HashMap::new();
        };
        let part = looks as f64 / self.asleep as f64;
        let sleeps = |of: &&Busy<'_>| self.tasks.contains_key(&(lock, of.task));
        let mut sharing: HashSet<&str> = busy.iter().filter(sleeps).map(|of| of.component).collect();
        let mut tasks = busy.iter().filter(sleeps).count();
        if tasks < TASKS_MIN {
            let unseen = self.unseen(busy, lock);
            tasks += unseen.len();
            sharing.extend(unseen);
        }
        let shares = |of: &&Busy<'_>| sharing.contains(of.component);
        let workers: HashSet<u64> = busy.iter().filter(shares).map(|of| of.worker).collect();
        let is_seen = looks >= LOOKS_MIN
            || workers.iter().all(|worker| self.is_held_up(busy, *worker, IN_KERNEL_CLEAR));
        if !is_seen || tasks < TASKS_MIN || part < MOST || workers.len() < 2 {
            return HashMap::new();
        }
        // A worker that sleeps less for the lock wakes the others more often, so the times of all are added up.
        let (mut slept_ns, mut sharing_ns, mut awake_ns, mut in_kernel_ns) = (0.0, 0.0, 0.0, 0.0);
        for worker in &workers {
            let Some(Held { all_ns, cpu_ns, in_kernel }) = self.held(busy, *worker) else { continue };
            let of_worker = busy.iter().filter(|of| of.worker == *worker);
            sharing_ns += of_worker.filter(shares).map(|of| of.busy_ns).sum::<f64>();
            slept_ns += part * (all_ns - cpu_ns).max(0.0);
            awake_ns += cpu_ns.min(all_ns);
            in_kernel_ns += cpu_ns.min(all_ns) * in_kernel;
        }
        let asleep = (slept_ns / sharing_ns).clamp(0.0, 0.95);
        let in_kernel = (in_kernel_ns / awake_ns.max(1.0)).clamp(0.0, 0.95);
        let mut waits = HashMap::new();
        for of in busy.iter().filter(|of| workers.contains(&of.worker)) {
            let without = Waited { asleep: 0.0, in_kernel: 0.0, lock, of_sleep: part };
            let looks = |count: Option<&u64>| count.copied().unwrap_or(0) as f64;
            let (all, slept) = (looks(self.looks.get(&of.task)), looks(self.tasks.get(&(lock, of.task))));
            let asleep = (slept + LOOKS_FEW * asleep) / (all + LOOKS_FEW);
            let in_kernel = (1.0 - asleep) * in_kernel;
            let waited = if shares(&of) { Waited { asleep, in_kernel, ..without } } else { without };
            waits.insert(of.task, waited);
        }
        waits
    }

    /// The components that seem to share a lock although no sample found a task of their worker asleep for it: that of the
    /// busiest task of each such worker, if its tasks slept and ran in the kernel, or if a task of another worker
    /// clearly waits for somebody.
    fn unseen<'a>(&self, busy: &[Busy<'a>], lock: u64) -> Vec<&'a str> {
        let sleeps = |of: &&Busy<'_>| self.tasks.contains_key(&(lock, of.task));
        let seen: HashSet<u64> = busy.iter().filter(sleeps).map(|of| of.worker).collect();
        let is_clear = busy.iter().filter(sleeps).any(|of| {
            let looks = |count: Option<&u64>| count.copied().unwrap_or(0);
            let (slept, all) = (looks(self.tasks.get(&(lock, of.task))), looks(self.looks.get(&of.task)));
            slept >= LOOKS_CLEAR && CLEAR.contains(&(slept as f64 / all as f64))
        });
        let others: HashSet<u64> = busy.iter().map(|of| of.worker).filter(|id| !seen.contains(id)).collect();
        let held =
            others.into_iter().filter(|worker| is_clear || self.is_held_up(busy, *worker, IN_KERNEL_MIN));
        held.filter_map(|worker| {
            let of_worker = busy.iter().filter(|of| of.worker == worker);
            Some(of_worker.max_by(|a, b| a.busy_ns.total_cmp(&b.busy_ns))?.component)
        })
        .collect()
    }

    /// Whether a worker's tasks slept, and ran in the kernel for at least this share of their processor time.
    fn is_held_up(&self, busy: &[Busy<'_>], worker: u64, in_kernel_min: f64) -> bool {
        self.held(busy, worker).is_some_and(|held| {
            held.all_ns - held.cpu_ns >= SLEPT_MIN * held.all_ns && held.in_kernel >= in_kernel_min
        })
    }

    /// The time of a worker in its tasks.
    fn held(&self, busy: &[Busy<'_>], worker: u64) -> Option<Held> {
        let [before, now] = self.used.get(&worker)?;
        let all_ns = busy.iter().filter(|of| of.worker == worker).map(|of| of.busy_ns).sum();
        let cpu_ns = now.cpu_ns.saturating_sub(before.cpu_ns) as f64;
        let faults = now.faults.saturating_sub(before.faults) as f64;
        let kernel_ns = now.kernel_ns.saturating_sub(before.kernel_ns) as f64;
        let in_kernel = kernel_for_lock(cpu_ns, kernel_ns, faults).unwrap_or(0.0);
        Some(Held { all_ns, cpu_ns, in_kernel })
    }
}

/// A worker's time in its tasks, its processor time, and the share of the latter that the kernel took for sleeps and
/// wakes.
struct Held {
    all_ns: f64,
    cpu_ns: f64,
    in_kernel: f64,
}

/// The share of a thread's processor time that the kernel took for sleeps and wakes, where tasks share a lock;
/// `None` if the time is too short to be judged.
pub(crate) fn kernel_for_lock(cpu_ns: f64, kernel_ns: f64, faults: f64) -> Option<f64> {
    let others_ns = faults * FAULT_NS + KERNEL_USUAL * cpu_ns;
    (cpu_ns >= KERNEL_MIN_NS).then(|| ((kernel_ns - others_ns) / cpu_ns).clamp(0.0, 0.95))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x7000;

    fn sample(worker: u64, task: u64, doing: ThreadSampledDoing, on: u64, looks: u64) -> ThreadSampled {
        ThreadSampled {
            worker,
            task,
            doing,
            source: crate::events::ThreadSampledSource::Call,
            looks,
            interval_ticks: 1,
            cpu_ns: 0,
            delayed_ns: 0,
            on,
            asleep_ticks: 0,
            holder: 0,
        }
    }

    fn used(worker: u64, cpu_ms: u64, kernel_ms: u64) -> ThreadUsed {
        let ms = 1_000_000;
        ThreadUsed { worker, cpu_ns: cpu_ms * ms, kernel_ns: kernel_ms * ms, ..ThreadUsed::default() }
    }

    /// Two boxes with two replicas each, which share a lock, and a filter, on two workers. Each worker is busy
    /// for 100 ms and runs for 60 ms.
    fn busy() -> Vec<Busy<'static>> {
        let of =
            |task, component, worker, busy_ms: f64| Busy { task, component, worker, busy_ns: busy_ms * 1e6 };
        vec![
            of(1, "net/a", 0, 40.0),
            of(2, "net/a", 1, 60.0),
            of(3, "net/b", 0, 40.0),
            of(4, "net/b", 1, 40.0),
            of(5, "net/filter", 0, 20.0),
        ]
    }

    fn locks(by: impl Fn(&mut Locks)) -> HashMap<u64, Waited> {
        let mut locks = Locks::default();
        locks.used(&used(0, 60, 3));
        locks.used(&used(1, 60, 18));
        by(&mut locks);
        locks.waits(&busy())
    }

    /// Few samples tell which tasks share the lock; how long they wait follows from the processor time.
    #[test]
    fn few_samples_and_the_processor_time_tell_how_long_tasks_wait() {
        let waits = locks(|locks| {
            locks.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 1));
            locks.sampled(&sample(1, 4, ThreadSampledDoing::Lock, LOCK, 2));
        });
        // The workers slept for 40 ms each, in which the boxes that share the lock seemed busy for 180 ms; the
        // filter did not sleep.
        let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value} {wanted}");
        near(waits[&2].asleep, 80.0 / 180.0);
        near(waits[&3].asleep, 80.0 / 180.0);
        near(waits[&5].asleep, 0.0);
        // A sample that found the task asleep counts beside the processor time.
        near(waits[&1].asleep, (1.0 + 20.0 * 80.0 / 180.0) / 21.0);
        // Worker 1 was in the kernel for 30 % of its processor time, of which 3 % are usual; worker 0 for 5 %.
        let in_kernel = (0.27 + 0.02) / 2.0;
        near(waits[&2].in_kernel, (1.0 - 80.0 / 180.0) * in_kernel);
    }

    /// No sample found a task of worker 1 asleep, but its tasks slept and it was in the kernel, where threads wake each
    /// other.
    #[test]
    fn a_worker_that_sleeps_and_is_in_the_kernel_shares_the_lock_of_another() {
        let waits = |looks: u64, kernel_ms: u64| {
            locks(|locks| {
                locks.used(&used(0, 60, kernel_ms));
                locks.sampled(&sample(0, 3, ThreadSampledDoing::Lock, LOCK, looks));
            })
        };
        let seen = waits(2, 3);
        assert!(seen[&2].asleep > 0.3 && seen[&4].asleep > 0.3, "{seen:?}");
        assert_eq!(seen[&5].asleep, 0.0);
        // One sample is enough where both workers are in the kernel for long.
        assert_eq!(waits(1, 3), HashMap::new());
        assert!(waits(1, 18)[&2].asleep > 0.3);
    }

    #[test]
    fn nothing_is_said_where_samples_show_no_lock_that_two_workers_share() {
        let none = |by: fn(&mut Locks)| assert_eq!(locks(by), HashMap::new());
        none(|_| {});
        // The tasks of the second worker do not sleep.
        none(|locks| {
            locks.used(&used(1, 95, 30));
            locks.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 2));
        });
        // The tasks of the second worker sleep, but not for a lock.
        none(|locks| {
            locks.used(&used(1, 60, 2));
            locks.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 2));
        });
        // A single sample is no sign of a lock where a worker is seldom in the kernel.
        none(|locks| locks.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 1)));
        // The box on the second worker sleeps for another reason.
        none(|locks| {
            locks.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 5));
            locks.sampled(&sample(1, 4, ThreadSampledDoing::Read, 3, 5));
        });
        // Each worker has a lock of its own.
        none(|locks| {
            locks.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 2));
            locks.sampled(&sample(1, 2, ThreadSampledDoing::Lock, LOCK + 64, 2));
        });
        let mut alone = Locks::default();
        alone.used(&used(0, 60, 3));
        alone.sampled(&sample(0, 1, ThreadSampledDoing::Lock, LOCK, 9));
        assert_eq!(alone.waits(&busy()[..1]), HashMap::new());
    }
}

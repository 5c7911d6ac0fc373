//! Changes how many workers take part while the runtime runs, by starting and parking threads.
//!
//! Workers `0..taking_part` have the tasks; every other worker that has a thread is *parked*: it sleeps, and
//! sends on tasks that still arrive. A change of the number starts missing threads, then asks every worker
//! which tasks it has. The worker that answers last lets the mapper place all tasks again, and sends every
//! worker a letter that says where its tasks go. The tasks move as the module `moves` describes, so no
//! message is lost or reordered. A task that moves between two workers while the workers answer stays where
//! it arrives, unless the worker there is parked.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::error::Error;
use crate::runtime::worker;
use crate::shared::Shared;
use crate::shared::letters::{Answering, Asked};
use crate::sync::{AtomicU32, Ordering, lock};
use crate::task::cell::TaskCell;
use crate::task::spec::{TaskId, TaskSpec};

/// A handle with which any thread reads and changes how many workers take part: see
/// [`Runtime::workers`](crate::Runtime::workers).
#[derive(Clone)]
pub struct Workers(pub(crate) Arc<Shared>);

impl Workers {
    /// Lets `count` workers take part: missing threads are started, surplus workers give their tasks away,
    /// and the mapper places all tasks again. The call returns before the tasks have moved, because each
    /// worker moves its tasks between two dispatches. If the runtime has a space, a change of the setting
    /// `exec.workers` has the same effect.
    ///
    /// # Errors
    /// If `count` is not between 1 and [`Workers::max`]; if the runtime has ended; or if the system refuses a
    /// thread or a file, in which case the workers that could be started take part.
    pub fn set(&self, count: usize) -> Result<(), Error> {
        self.0.set_workers(count)
    }

    /// How many workers take part.
    pub fn count(&self) -> usize {
        self.0.taking_part()
    }

    /// The greatest number of workers that may take part
    /// ([`Options::workers_max`](crate::Options::workers_max)).
    pub fn max(&self) -> usize {
        self.0.home.inboxes.len()
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workers({} of {})", self.count(), self.max())
    }
}

/// A letter that asks every worker which tasks it has, sent when the number of workers changes.
struct Census {
    workers: usize,
    unanswered: AtomicU32,
    tasks: Mutex<Vec<(TaskId, TaskSpec, Option<u32>)>>,
}

impl Asked for Census {
    fn answer(&self, thread: &mut dyn Answering) {
        thread.park(thread.number() as usize >= self.workers);
        // SAFETY: tasks in the list are alive.
        let tasks = || thread.tasks().iter().map(|task| unsafe { task.as_ref() });
        let shared = thread.shared();
        // Where a user moved tasks no longer counts, because the mapper places all tasks again.
        tasks().for_each(|task| _ = shared.now_stays(task, false));
        lock(&self.tasks).extend(tasks().map(|task| (task.id, task.spec(), task.member_of())));
        if self.unanswered.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.conclude(&shared);
        }
    }
}

impl Census {
    /// Lets the mapper place all tasks, in the order in which they were created.
    fn conclude(&self, shared: &Shared) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.sort_unstable_by_key(|(task, ..)| *task);
        let specs: Vec<TaskSpec> = tasks.iter().map(|(_, spec, _)| *spec).collect();
        let places = shared.placing().cut_anew(&specs);
        let mut of_replica = HashMap::new();
        let together = |((task, _, replica), place): (&(TaskId, TaskSpec, Option<u32>), usize)| {
            // All tasks of a replica go to the worker to which the first of them goes.
            let place = replica.map_or(place, |replica| *of_replica.entry(replica).or_insert(place));
            (*task, place as u32)
        };
        let of_task = tasks.iter().zip(places).map(together).collect();
        let replicas = of_replica.iter().map(|(&replica, &place)| (replica, place as u32));
        shared.spreading.were_placed(replicas, &shared.clock, shared.clock.now());
        shared.ask_all(Arc::new(Places { workers: self.workers, of_task }));
    }
}

/// A letter to every worker that says to which worker each task moves.
struct Places {
    workers: usize,
    of_task: HashMap<TaskId, u32>,
}

impl Asked for Places {
    fn answer(&self, thread: &mut dyn Answering) {
        if thread.shared().taking_part() != self.workers {
            return; // A later census is under way.
        }
        let elsewhere = |task: &NonNull<TaskCell>| {
            // SAFETY: tasks in the list are alive.
            let place = *self.of_task.get(&unsafe { task.as_ref() }.id)?;
            (place != thread.number()).then_some((*task, place))
        };
        let moves: Vec<_> = thread.tasks().iter().filter_map(elsewhere).collect();
        for (task, place) in moves {
            thread.give(task, place);
        }
    }
}

impl Shared {
    /// Adopts the setting `exec.workers` if it was set.
    pub(crate) fn adopt_workers(self: &Arc<Shared>) {
        let differs = || {
            let count = self.tuning.settings.workers.set_value()? as usize;
            (count != self.taking_part()).then_some(count)
        };
        if differs().is_none() {
            return;
        }
        let mut threads = lock(&self.crew.threads);
        // Another thread may have changed the number before this one got the lock, and each thread
        // that gives the lock back leaves the setting and the number equal. So what the setting says now is a
        // request, and what it said before may not be.
        let Some(count) = differs() else { return };
        if self.change_workers(&mut threads, count).is_err() {
            // An error means that the space was removed, so no observer reads the value.
            let _ = self.tuning.settings.workers.show(self.taking_part() as u64);
        }
    }

    fn set_workers(self: &Arc<Shared>, count: usize) -> Result<(), Error> {
        self.change_workers(&mut lock(&self.crew.threads), count)
    }

    fn change_workers(
        self: &Arc<Shared>,
        threads: &mut Vec<JoinHandle<()>>,
        count: usize,
    ) -> Result<(), Error> {
        let most = self.home.inboxes.len();
        if !(1..=most).contains(&count) {
            return Err(Error::new(format!("{count} workers: this runtime may have 1 to {most}")));
        }
        if self.stop.load(Ordering::SeqCst) {
            return Err(Error::new("the runtime has ended".to_owned()));
        }
        let started = self.start_workers(threads, count);
        let (old, new) = (self.taking_part(), count.min(threads.len()));
        if old != new {
            self.placing().set_workers(new);
            self.crew.taking_part.store(new, Ordering::Release);
            // An error means that the space was removed, so no observer reads the value.
            let _ = self.tuning.settings.workers.show(new as u64);
            self.home.board.setting_adopted(self.tuning.settings.workers.name(), old as u64, new as u64);
            self.count_tasks();
        }
        started
    }

    /// Starts the threads that are missing for `count` workers.
    pub(crate) fn start_workers(
        self: &Arc<Shared>,
        threads: &mut Vec<JoinHandle<()>>,
        count: usize,
    ) -> Result<(), Error> {
        for number in threads.len()..count {
            let recorder = self.home.board.recorder(&format!("worker {number}"))?;
            let shared = self.clone();
            self.home.admission.wakes();
            let thread = thread::Builder::new()
                .name(format!("thalweg-{number}"))
                .spawn(move || worker::run(shared, number as u32, recorder));
            threads.push(thread.map_err(|error| {
                self.home.admission.falls_asleep();
                Error::new(format!("cannot start worker {number} of {count}")).because(error)
            })?);
            self.crew.manned.store(threads.len(), Ordering::Release);
        }
        Ok(())
    }

    /// Asks every worker which tasks it has, so that the mapper places all tasks again.
    fn count_tasks(&self) {
        let unanswered = AtomicU32::new(self.manned().len() as u32);
        let tasks = Mutex::default();
        self.ask_all(Arc::new(Census { workers: self.taking_part(), unanswered, tasks }));
    }
}

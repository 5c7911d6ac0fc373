//! What other threads know of the tasks with threads of their own.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ring::Holder;
use crate::shared::letters::Asked;
use crate::stop::Stop;
use crate::sync::{AtomicU64, Ordering, lock};
use crate::task::cell::TaskCell;
use crate::task::spec::TaskId;

/// How long an abort waits for blocking tasks.
const ABORT_PATIENCE: Duration = Duration::from_millis(200);

/// Tasks with threads of their own, and the threads.
#[derive(Default)]
pub(crate) struct OwnThreads {
    /// The tasks that have not ended, each with a reference.
    tasks: Mutex<HashMap<TaskId, (Handed, Arc<Sleep>)>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl OwnThreads {
    /// Adds a task that is about to get a thread.
    pub(crate) fn add(&self, task: &TaskCell, sleep: Arc<Sleep>) {
        lock(&self.tasks).insert(task.id, (Handed(task.counted_reference()), sleep));
    }

    /// Goes through the blocking tasks that have not ended.
    pub(crate) fn each(&self, mut each: impl FnMut(&TaskCell, &Sleep)) {
        for (task, sleep) in lock(&self.tasks).values() {
            // SAFETY: the map holds a reference to the task, so the task is alive.
            each(unsafe { task.0.as_ref() }, sleep);
        }
    }

    /// Keeps a blocking task's thread until it has ended. A panic in the task is caught and reported with the
    /// task's end, so the thread's result is ignored.
    pub(crate) fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.threads);
        let (ended, running): (Vec<_>, _) = threads.drain(..).partition(JoinHandle::is_finished);
        *threads = running;
        threads.push(thread);
        drop(threads);
        ended.into_iter().for_each(|thread| _ = thread.join());
    }

    /// Removes a blocking task that ends, so that an abort no longer wakes it.
    pub(crate) fn forget(&self, id: TaskId) {
        if let Some((task, _)) = lock(&self.tasks).remove(&id) {
            // SAFETY: the map holds a reference to the task, so the task is alive.
            unsafe { TaskCell::release(task.0.as_ptr()) }
        }
    }

    /// Ends the threads of blocking tasks. After an abort a thread that does not check `Blocking::stopping`
    /// in time is detached.
    pub(crate) fn end(&self, aborted: bool) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        let deadline = Instant::now() + ABORT_PATIENCE;
        for thread in threads {
            while aborted && !thread.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if !aborted || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

/// What other threads know of a blocking task's waits for its streams, and what they ask the task while it
/// waits.
#[derive(Default)]
pub(crate) struct Sleep {
    /// A counter that grows by two whenever a wait begins or ends, so half of it is odd during a wait. The
    /// counter's lowest bit is 1 during a wait for room. The field is written by the task's thread (release).
    waits: AtomicU64,
    /// A question that the task's thread answers between two checks of whether it was woken.
    asked: Mutex<Option<Arc<dyn Asked>>>,
}

impl Sleep {
    const ROOM: u64 = 1;
    const WAITS: u64 = 2;

    pub(crate) fn begin(&self, stop: Stop) {
        let room = if stop == Stop::OutputFull { Sleep::ROOM } else { 0 };
        self.waits.store(self.waits.load(Ordering::Relaxed) + Sleep::WAITS + room, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        let now = self.waits.load(Ordering::Relaxed);
        self.waits.store((now & !Sleep::ROOM) + Sleep::WAITS, Ordering::Release);
    }

    /// A number that distinguishes the task's waits.
    pub(crate) fn wait(&self) -> u64 {
        self.waits.load(Ordering::Acquire)
    }

    /// If the task's thread sleeps in a wait for streams, the number of that wait, and whether it is a wait
    /// for room.
    pub(crate) fn now(&self, task: &TaskCell) -> Option<(u64, bool)> {
        let asleep = task.parker.is_asleep();
        let wait = self.wait();
        (asleep && wait & Sleep::WAITS != 0).then_some((wait, wait & Sleep::ROOM != 0))
    }

    /// Asks the task a question, which it answers as soon as it waits for streams and was not woken.
    pub(crate) fn ask(&self, task: &TaskCell, asked: Arc<dyn Asked>) {
        *lock(&self.asked) = Some(asked);
        task.home.admission.unpark(&task.parker);
    }

    pub(crate) fn take_asked(&self) -> Option<Arc<dyn Asked>> {
        lock(&self.asked).take()
    }
}

/// The only reference to a new task, which is passed to a worker.
pub(crate) struct Handed(pub(crate) NonNull<TaskCell>);
// SAFETY: any thread may hold a reference to a `TaskCell` and give it up.
unsafe impl Send for Handed {}

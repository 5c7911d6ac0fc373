//! Admission: counts the messages under way in streams, and holds sources until fewer messages are under way.
//!
//! A source that calls [`Blocking::admit`](crate::Blocking::admit) while `exec.unfinished` messages or more
//! are under way sleeps until half of them are left, so it is woken seldom. The limit bounds memory and
//! latency independently of the streams' capacities (LPEL-HRC, ICA3PP 2013).
//!
//! **The count.** After each dispatch every thread adds the numbers of messages that it wrote and read to a
//! cache line that other threads seldom write; only a source that asks for the number of messages under way
//! adds up all lines. Most dispatches read as many messages as they write; such a dispatch adds nothing,
//! because the two numbers cancel out. Messages are counted as written before a reader can see them and as
//! read when the dispatch that read them has ended; the source loads the counts of reads before those of
//! writes. Because of this order, the sum is never less than the number of messages under way at that moment.
//!
//! **Never a deadlock.** Messages may lie in streams until another input comes: a deterministic collector
//! waits for one branch while others fill. Therefore the threads that may still go on are counted, too, and
//! the thread that falls asleep last lets the held sources continue. A source that waits for external input
//! does not count, because no other task can depend on it. A thread that wakes another one first counts the
//! other thread as awake, so while a wake-up is under way the count of awake threads is not 0.

use std::sync::PoisonError;
use std::time::Duration;

use crate::parker::Parker;
use crate::ring::NOBODY;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, barrier};

/// The number of cache lines that threads which are no workers share: those of sources, sinks and boxes with
/// threads of their own.
const OWN_LINES: usize = if cfg!(loom) { 1 } else { 8 };

/// A cache line with counts of messages that threads wrote and read. Each worker has a line of its own.
#[derive(Default)]
#[cfg_attr(not(loom), repr(align(64)))]
struct Line {
    /// The sum of messages written, less messages read, over dispatches that wrote more than they read. A
    /// dispatch adds to it before its messages are published.
    written: AtomicU64,
    /// The sum of messages read, less messages written, over dispatches that read more than they wrote.
    read: AtomicU64,
}

/// The count of a runtime's messages under way, and the sources that wait until the count is lower.
pub(crate) struct Admission {
    lines: Box<[Line]>,
    workers: usize,
    /// The number of threads that may go on by themselves: workers and tasks with threads of their own that
    /// do not sleep, sources that do not wait for external input, and the thread that will start the runtime.
    awake: AtomicU32,
    /// How many sources are held. The field is changed under the lock of `held`.
    holds: AtomicU32,
    /// Held sources continue when no more messages than this are under way. The field is written by a source
    /// just before it is held.
    let_in_at: AtomicU64,
    /// The held sources.
    held: Mutex<Vec<Held>>,
}

/// A held source: its number, and the function that wakes it.
struct Held {
    source: u64,
    wake: Box<dyn FnOnce(&Admission) + Send>,
}

impl Admission {
    /// The admission of a runtime of at most `workers` workers. The thread that owns the runtime counts as
    /// awake until it has started the runtime, when it calls [`Admission::falls_asleep`].
    pub(crate) fn new(workers: usize) -> Admission {
        Admission {
            lines: (0..workers + OWN_LINES).map(|_| Line::default()).collect(),
            workers,
            awake: AtomicU32::new(1),
            holds: AtomicU32::new(0),
            let_in_at: AtomicU64::new(0),
            held: Mutex::new(Vec::new()),
        }
    }

    // ---- messages

    /// Counts the messages that a dispatch read and wrote, before the dispatch publishes them. `worker` is
    /// the calling thread's worker number; if the thread is no worker, `task` selects the cache line that the
    /// thread shares with others.
    pub(crate) fn count(&self, worker: u32, task: u64, read: u64, written: u64) {
        let own = || self.workers + task as usize % OWN_LINES;
        let line = self.lines.get(worker as usize).unwrap_or_else(|| &self.lines[own()]);
        if written > read {
            line.written.fetch_add(written - read, Ordering::Relaxed);
            return;
        }
        line.read.fetch_add(read - written, Ordering::SeqCst);
        barrier();
        if self.holds.load(Ordering::SeqCst) != 0 {
            self.look();
        }
    }

    /// Counts messages that will never be read.
    pub(crate) fn drop_unread(&self, count: usize) {
        if count > 0 {
            self.count(NOBODY, 0, count as u64, 0);
        }
    }

    /// An upper bound of the number of messages under way.
    pub(crate) fn under_way(&self) -> u64 {
        let read: u64 = self.lines.iter().map(|line| line.read.load(Ordering::SeqCst)).sum();
        let written: u64 = self.lines.iter().map(|line| line.written.load(Ordering::SeqCst)).sum();
        written.saturating_sub(read)
    }

    // ---- held sources

    #[cold]
    fn look(&self) {
        if self.under_way() <= self.let_in_at.load(Ordering::Relaxed) {
            self.let_in();
        }
    }

    /// Holds a source, unless fewer than `limit` messages are under way. The source must then sleep as long
    /// as [`Admission::holds`] returns true. `wake` is called once when the source may continue.
    pub(crate) fn hold(&self, source: u64, wake: impl FnOnce(&Admission) + Send + 'static, limit: u64) {
        self.let_in_at.store(limit / 2, Ordering::Relaxed);
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.push(Held { source, wake: Box::new(wake) });
            self.holds.store(held.len() as u32, Ordering::SeqCst);
            barrier();
        }
        // A thread that read messages in the meantime may have looked for held sources before this source was
        // in the list.
        if self.under_way() < limit {
            self.let_in();
        }
    }

    /// Whether this source is held.
    pub(crate) fn holds(&self, source: u64) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().any(|held| held.source == source)
    }

    /// Lets all held sources continue.
    pub(crate) fn let_in(&self) {
        let held = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            self.holds.store(0, Ordering::SeqCst);
            std::mem::take(&mut *held)
        };
        for held in held {
            (held.wake)(self);
        }
    }

    // ---- threads

    /// Counts a thread that slept as awake.
    pub(crate) fn wakes(&self) {
        self.awake.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a thread as asleep that sleeps until another thread wakes it. If no other thread is awake, held
    /// sources continue, because nothing else could wake them.
    pub(crate) fn falls_asleep(&self) {
        if self.awake.fetch_sub(1, Ordering::SeqCst) == 1 {
            barrier();
            if self.holds.load(Ordering::SeqCst) != 0 {
                self.let_in();
            }
        }
    }

    /// Counts the calling thread as asleep while `work` runs, because `work` waits for something that comes
    /// from outside of the runtime.
    pub(crate) fn asleep_while<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Awake<'a>(&'a Admission);
        impl Drop for Awake<'_> {
            fn drop(&mut self) {
                self.0.wakes();
            }
        }
        self.falls_asleep();
        let _awake = Awake(self);
        work()
    }

    /// Lets a thread of the runtime sleep: see [`Parker::sleep`].
    pub(crate) fn park(&self, parker: &Parker, timeout: Option<Duration>) {
        if !parker.sleep(timeout, || self.falls_asleep()) {
            self.wakes();
        }
    }

    /// Wakes a thread that sleeps by [`Admission::park`]: see [`Parker::unpark`]. Returns whether the thread
    /// slept.
    pub(crate) fn unpark(&self, parker: &Parker) -> bool {
        self.wakes();
        let slept = parker.unpark();
        if !slept {
            self.falls_asleep();
        }
        slept
    }
}

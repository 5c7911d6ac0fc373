//! Tasks: what a user writes ([`Task`]), says of it ([`TaskSpec`]), and the cell the runtime keeps it in.

use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use thalweg_space::SiteRef;

use crate::context::{Context, Ports};
use crate::events::{Recorder, TaskEnded};
use crate::observe::{ObservedTask, Share, Times, put, task_cell, task_state};
use crate::parker::Parker;
use crate::ring::{NOBODY, Ring};
use crate::runtime::Shared;
use crate::several::{Group, Several};
use crate::spare::{Spare, spared};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// A task's number: unique in the process, never used again. 0 is no task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// Why a task stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An input that the task popped in this dispatch had nothing more (`pop` or `next_ready` said `None`).
    /// It runs again when one of those that were empty has messages or ends.
    InputEmpty,
    /// An output that the task pushed to (or asked for room) in this dispatch was full. It runs again when
    /// one of those has room.
    OutputFull,
    /// The quantum is spent: the task runs again after the other ready tasks of its worker.
    QuantumSpent,
    /// The task is done: it is dropped, and with it its ports close.
    Ended,
}

/// A state machine that runs to completion: no stack of its own, so a million of them fit into memory.
pub trait Task: Send + 'static {
    /// Called once before the first run: says which ports are the task's. A port that is not named here becomes
    /// the task's when it first uses it.
    fn attach(&mut self, ports: &mut Ports<'_>) {
        let _ = ports;
    }

    /// Works on at most [`Context::quantum`] messages and says why it stopped. What it pushed becomes visible
    /// to the readers when it returns.
    fn run(&mut self, cx: &mut Context<'_>) -> Stop;
}

/// What the runtime is told about a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskSpec {
    /// The component of the network the task belongs to.
    pub component: SiteRef,
    /// The task that it was unfolded by, or 0.
    pub parent: TaskId,
    /// Which of the component's replicas it is.
    pub replica: u64,
    /// Whether the k-th message written always descends from the k-th read (one input, one output).
    pub one_to_one: bool,
    /// How much work to expect, compared with other tasks (for cutting a network into pieces).
    pub weight: u32,
    /// The worker it must run on, if the user says so (modulo the number of those that take part).
    pub place: Option<usize>,
}

impl Default for TaskSpec {
    fn default() -> TaskSpec {
        TaskSpec {
            component: SiteRef(0),
            parent: TaskId(0),
            replica: 0,
            one_to_one: false,
            weight: 1,
            place: None,
        }
    }
}

/// Where a task stands, as its own worker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not seen by its worker yet.
    New,
    /// On its way from one worker to another.
    Moving,
    Idle,
    Ready,
    Running,
    Ended,
}

/// A task as the runtime holds it.
///
/// References are counted: one for being alive, one per attached end of a stream, one while in an inbox.
/// Everything in a `Cell` belongs to the task's own worker (or thread).
pub(crate) struct TaskCell {
    /// Changed by whoever takes or gives a reference.
    refs: AtomicUsize,
    pub(crate) id: TaskId,
    pub(crate) spec: TaskSpec,
    pub(crate) blocking: bool,
    /// The runtime it belongs to.
    pub(crate) shared: Arc<Shared>,
    /// Set by the mapper before anybody else sees the cell; then by the worker itself: it gives a task away by
    /// writing [`NOBODY`], and one that arrives it makes its own. So a worker that reads its own number here
    /// has the task.
    worker: AtomicU32,
    /// Where its worker is to send it as soon as it can; [`NOBODY`]: it stays. Its worker's own.
    pub(crate) wanted: Cell<u32>,
    /// Whether the task is in an inbox (or, blocking: was woken). Set by who wakes it from another thread
    /// (acquire-release swap), cleared so by its worker before it looks at its streams.
    pub(crate) in_inbox: AtomicBool,
    /// Next in the inbox. Written by who pushes, read by the worker that took the inbox.
    pub(crate) next_in_inbox: AtomicPtr<TaskCell>,
    /// The ports that became ready: pushed by their writers (release), taken as a whole by the task (acquire).
    pub(crate) ready_ports: AtomicPtr<Ring>,
    /// The sleep of a blocking task.
    pub(crate) parker: Parker,

    pub(crate) state: Cell<State>,
    /// Woken while running.
    pub(crate) notified: Cell<bool>,
    /// Next in the worker's queue of ready tasks.
    pub(crate) next_ready: Cell<*mut TaskCell>,
    /// Place in the worker's list of live tasks.
    pub(crate) live_index: Cell<usize>,
    /// Messages a dispatch may take (0: not known yet), and dispatches until the time is looked at again.
    pub(crate) budget: Cell<u32>,
    pub(crate) until_sample: Cell<u32>,
    /// The least capacity of a stream whose end was the task's.
    pub(crate) narrowest: Cell<u32>,
    pub(crate) counts: Counts,
    /// The stream that the last message of the current dispatch was popped from; null: none was.
    pub(crate) last_read: Cell<*const Ring>,
    /// The last message popped in a dispatch before, while everything is told.
    pub(crate) read_before: Cell<Option<ReadBefore>>,
    pub(crate) times: Times,
    /// What the task waits for while it is idle.
    pub(crate) waits_for: Cell<Share>,
    /// The stream it waits for while it is idle; one of them. Written by the task's thread, and to null by who takes the end
    /// of that stream away meanwhile, under `Shared::asking`.
    waits_on: std::sync::atomic::AtomicPtr<Ring>,
    /// What the space shows of it; none without a space.
    pub(crate) observed: Option<ObservedTask>,
    /// Its groups of inputs, and what else it waits for; few tasks have that.
    several: UnsafeCell<Option<Box<Several>>>,
    body: UnsafeCell<Option<Box<dyn Task>>>,
}

/// What a task did so far.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) dispatches: Cell<u64>,
    pub(crate) reads: Cell<u64>,
    pub(crate) writes: Cell<u64>,
}

/// A message that a dispatch popped last.
#[derive(Clone, Copy)]
pub(crate) struct ReadBefore {
    pub(crate) stream: u64,
    pub(crate) index: u64,
    /// When that dispatch ended.
    pub(crate) at: u64,
}

spared!(TaskCell);

// SAFETY: the atomics are made for sharing; the cells and the body are touched only by the thread that the task
// belongs to (its worker, or its own thread), and a task changes hands only through an inbox (release, acquire).
unsafe impl Send for TaskCell {}
// SAFETY: as above.
unsafe impl Sync for TaskCell {}

impl TaskCell {
    /// A new cell with one reference, which the caller owns.
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: TaskId,
        spec: TaskSpec,
        body: Option<Box<dyn Task>>,
        blocking: bool,
    ) -> NonNull<TaskCell> {
        let observed = shared.space.as_ref().and_then(|space| ObservedTask::new(space, id.0, &spec));
        Spare::make(TaskCell {
            refs: AtomicUsize::new(1),
            id,
            spec,
            blocking,
            shared,
            worker: AtomicU32::new(NOBODY),
            wanted: Cell::new(NOBODY),
            in_inbox: AtomicBool::new(false),
            next_in_inbox: AtomicPtr::new(std::ptr::null_mut()),
            ready_ports: AtomicPtr::new(std::ptr::null_mut()),
            parker: Parker::new(),
            state: Cell::new(State::New),
            notified: Cell::new(false),
            next_ready: Cell::new(std::ptr::null_mut()),
            live_index: Cell::new(usize::MAX),
            budget: Cell::new(0),
            until_sample: Cell::new(0),
            narrowest: Cell::new(u32::MAX),
            counts: Counts::default(),
            last_read: Cell::new(std::ptr::null()),
            read_before: Cell::new(None),
            times: Times::default(),
            waits_for: Cell::new(Share::Ready),
            waits_on: std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()),
            observed,
            several: UnsafeCell::new(None),
            body: UnsafeCell::new(body),
        })
    }

    /// The task's worker; [`NOBODY`] for a blocking task.
    #[inline]
    pub(crate) fn worker(&self) -> u32 {
        self.worker.load(Ordering::Acquire)
    }

    pub(crate) fn place(&self, worker: u32) {
        self.worker.store(worker, Ordering::Relaxed);
        if let Some(observed) = &self.observed {
            put(&observed.row, task_cell::WORKER, u64::from(worker));
        }
    }

    /// The task is on its way.
    pub(crate) fn leave_worker(&self) {
        self.worker.store(NOBODY, Ordering::Release);
    }

    /// The task gets an end of a stream. Called on the task's own thread, or before it runs.
    pub(crate) fn gets_end(&self, ring: &Ring) {
        self.narrowest.set(self.narrowest.get().min(ring.capacity));
    }

    /// Takes another reference.
    pub(crate) fn counted(&self) -> *mut TaskCell {
        self.refs.fetch_add(1, Ordering::Relaxed);
        std::ptr::from_ref(self).cast_mut()
    }

    /// Likewise, as a pointer that is never null.
    pub(crate) fn counted_reference(&self) -> NonNull<TaskCell> {
        self.counted();
        NonNull::from(self)
    }

    /// Gives up a reference; the last frees the cell.
    ///
    /// # Safety
    /// The caller owned a reference and does not use `cell` any more.
    pub(crate) unsafe fn release(cell: *mut TaskCell) {
        // SAFETY: the reference given up here kept it alive until now.
        let refs = unsafe { &(*cell).refs };
        if refs.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: it was the last one, and the cell was made by `TaskCell::new`.
            unsafe { Spare::free(cell) };
        }
    }

    /// # Safety
    /// The caller is the task's own thread, and no other reference to the body lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn body(&self) -> &mut Option<Box<dyn Task>> {
        // SAFETY: as demanded of the caller.
        unsafe { &mut *self.body.get() }
    }

    /// # Safety
    /// The caller is the task's own thread, and no other reference to what it waits for lives.
    #[allow(clippy::mut_from_ref)]
    unsafe fn several(&self) -> &mut Several {
        // SAFETY: as demanded of the caller.
        unsafe { &mut *self.several.get() }.get_or_insert_default()
    }

    /// # Safety
    /// The caller is the task's own thread, and no other reference to the groups lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn groups(&self) -> &mut Vec<Group> {
        // SAFETY: as demanded of the caller.
        unsafe { &mut self.several().groups }
    }

    // ---- what it waits for

    /// The task, which is its thread's, waits for nothing yet. Gives the references of what it waited for to `released`.
    #[inline]
    pub(crate) fn wait_for_none(&self, released: &mut Vec<NonNull<Ring>>) {
        self.forget_first_wait();
        // SAFETY: the task's own thread; the reference ends with the line.
        if let Some(several) = unsafe { &mut *self.several.get() } {
            released.extend(several.others.drain());
        }
    }

    /// The task, which is its thread's and runs, does not wait for the stream named first.
    pub(crate) fn forget_first_wait(&self) {
        self.waits_on.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// The task, which is its thread's, waits for this stream, or for those named before.
    #[inline]
    pub(crate) fn wait_for(&self, ring: &Ring) {
        let first = &self.waits_on;
        if first.load(Ordering::Relaxed).is_null() {
            first.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
        } else {
            // SAFETY: the task's own thread; the reference ends with the line.
            unsafe { self.several() }.others.add(ring);
        }
    }

    /// An end of this stream is the task's no more, while it may say that it waits for it.
    pub(crate) fn loses_end(&self, ring: &Ring) {
        let pointer = std::ptr::from_ref(ring).cast_mut();
        if self.waits_on.load(Ordering::Relaxed) == pointer {
            let _asking = self.shared.asking.lock().unwrap_or_else(PoisonError::into_inner);
            let none = std::ptr::null_mut();
            // Else it waits for another by now.
            _ = self.waits_on.compare_exchange(pointer, none, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Goes through the streams that the task, which sleeps, waits for: any of them lets it go on.
    ///
    /// # Safety
    /// The caller is the task's own thread, and has locked `Shared::asking`.
    pub(crate) unsafe fn each_wait(&self, mut each: impl FnMut(&Ring)) {
        // SAFETY: the task has an end of the stream, which it cannot drop while it sleeps, and who takes it away waits for
        // the lock before it gives up the end's reference.
        if let Some(ring) = unsafe { self.waits_on.load(Ordering::Relaxed).as_ref() } {
            each(ring);
        }
        // SAFETY: the task's own thread; the reference ends with this function.
        let Some(several) = (unsafe { &*self.several.get() }) else { return };
        several.others.iter().for_each(&mut each);
        if self.waits_for.get() == Share::InputWait {
            several.groups.iter().flat_map(Group::members).for_each(each);
        }
    }

    /// Tells that the task has ended at `now`, and how.
    pub(crate) fn tell_end(&self, recorder: &mut Recorder, now: u64, outcome: &Result<(), (String, bool)>) {
        let share = |share| self.times.share(share);
        let ended = TaskEnded {
            task: self.id.0,
            busy_ticks: share(Share::Busy),
            input_wait_ticks: share(Share::InputWait),
            output_wait_ticks: share(Share::OutputWait),
            ready_ticks: share(Share::Ready),
            dispatches: self.counts.dispatches.get(),
            reads: self.counts.reads.get(),
            writes: self.counts.writes.get(),
            failed: outcome.is_err(),
            panicked: matches!(outcome, Err((_, true))),
        };
        recorder.at(now, &ended);
        if let Err((message, _)) = outcome {
            recorder.failed(self.id.0, message);
        }
    }

    /// Shows in the live row that the task has ended.
    pub(crate) fn show_end(&self, outcome: &Result<(), (String, bool)>) {
        if let Some(observed) = &self.observed {
            put(&observed.row, task_cell::STATE, task_state::ENDED);
            put(&observed.row, task_cell::FAILED, u64::from(outcome.is_err()));
        }
    }

    /// Whether the task, which is its thread's, has groups of inputs at all.
    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        // SAFETY: the task's own thread; the reference ends with this function.
        unsafe { &*self.several.get() }.as_ref().is_some_and(|several| !several.groups.is_empty())
    }

    /// Queues a port of a group, with the caller's reference to its ring.
    ///
    /// # Safety
    /// As for [`TaskCell::groups`].
    pub(crate) unsafe fn queue_ready_port(&self, group: u32, ring: NonNull<Ring>) {
        // SAFETY: as demanded of the caller.
        let groups = unsafe { self.groups() };
        groups[group as usize].ready.push(ring);
    }

    /// Puts a port that got messages (or ended) on the stack of the task's ready ports. The stack takes a
    /// reference to the ring.
    pub(crate) fn push_ready_port(&self, ring: &Ring) {
        ring.refs.fetch_add(1, Ordering::Relaxed);
        let node = std::ptr::from_ref(ring).cast_mut();
        let mut first = self.ready_ports.load(Ordering::Relaxed);
        loop {
            ring.next_port.store(first, Ordering::Relaxed);
            match self.ready_ports.compare_exchange_weak(first, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Moves the ready ports from the stack into their groups' queues, oldest first.
    ///
    /// # Safety
    /// The caller is the task's own thread, and no reference to the groups lives.
    pub(crate) unsafe fn sort_ready_ports(&self) {
        if self.ready_ports.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut newest = self.ready_ports.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut oldest: *mut Ring = std::ptr::null_mut();
        while let Some(ring) = NonNull::new(newest) {
            // SAFETY: the stack holds a reference to each ring in it; once taken, the links are ours.
            let next_port = unsafe { &ring.as_ref().next_port };
            newest = next_port.load(Ordering::Relaxed);
            next_port.store(oldest, Ordering::Relaxed);
            oldest = ring.as_ptr();
        }
        // SAFETY: as demanded of the caller.
        let groups = unsafe { self.groups() };
        while let Some(ring) = NonNull::new(oldest) {
            // SAFETY: as above; the group was set before the port first waited.
            let (next, group) =
                unsafe { (ring.as_ref().next_port.load(Ordering::Relaxed), ring.as_ref().group.get()) };
            oldest = next;
            match groups.get_mut(group as usize) {
                Some(group) => group.ready.push(ring),
                // SAFETY: the stack's reference, of a port that left its group.
                None => unsafe { Ring::release(ring.as_ptr()) },
            }
        }
    }

    /// Whether a port of some group is queued (ports whose reading end is gone are dropped on the way).
    ///
    /// # Safety
    /// The caller is the task's own thread, and no reference to the groups lives.
    pub(crate) unsafe fn has_ready_port(&self) -> bool {
        // SAFETY: as demanded of the caller.
        let groups = unsafe {
            self.sort_ready_ports();
            self.groups()
        };
        groups.iter_mut().any(|group| group.has_ready())
    }

    /// Empties the queues of ready ports, whose readiness a model remembers by itself.
    ///
    /// # Safety
    /// As for [`TaskCell::has_ready_port`].
    #[cfg(all(test, loom))]
    pub(crate) unsafe fn drop_ready_ports_of_model(&self) {
        // SAFETY: as demanded of the caller.
        unsafe { self.groups() }.iter_mut().for_each(|group| group.ready = Default::default());
    }

    /// Gives back the references of what the task, which has ended, could have waited for.
    ///
    /// # Safety
    /// As for [`TaskCell::has_ready_port`].
    pub(crate) unsafe fn forget_waits(&self) {
        self.forget_first_wait();
        // SAFETY: as demanded of the caller; the reference ends before anything is dropped.
        drop(unsafe {
            self.sort_ready_ports();
            (*self.several.get()).take()
        });
    }
}

impl Drop for TaskCell {
    fn drop(&mut self) {
        // A port that a writer pushed after the task ended.
        let mut port = self.ready_ports.load(Ordering::Acquire);
        while let Some(ring) = NonNull::new(port) {
            // SAFETY: the stack holds a reference to each ring in it, and nobody else sees this stack any more.
            unsafe {
                port = ring.as_ref().next_port.load(Ordering::Relaxed);
                Ring::release(ring.as_ptr());
            }
        }
    }
}

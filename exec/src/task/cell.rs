//! The cell that the runtime keeps a task in.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use thalweg_space::SiteRef;

use crate::parker::Parker;
use crate::ring::{self, Holder, NOBODY};
use crate::slab;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering, lock};
use crate::task::home::Home;
use crate::task::inbox::Linked;
use crate::task::placement::Placement;
use crate::task::several;
use crate::task::spec::{TaskId, TaskSpec};
use crate::telemetry::{About, Board, Counts, Share, TaskTelemetry, WatchedTask};

/// A stream with ends that tasks hold.
pub(crate) type Ring = ring::Ring<TaskCell>;
pub(crate) type Group = several::Group<TaskCell>;
type Rare = several::Rare<TaskCell>;
type Several = several::Several<TaskCell>;

// If a ring is so placed that one cache line has fields of both sides (the writer's fields end at byte 64), the
// reader's fields in it are the first three, which are seldom written.
#[cfg(not(loom))]
const _: () = assert!(
    size_of::<Ring>() <= 168
        && std::mem::offset_of!(Ring, capacity) == 64
        && std::mem::offset_of!(Ring, reading) == 104
);

/// What a cell must know of its body to be freed: the beginning of a `Methods` of `body`.
#[repr(C)]
pub(crate) struct Held {
    /// The bytes behind the cell that the body takes, or took.
    pub(super) bytes: usize,
}

/// The state of a task as its own worker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The worker has not seen the task yet.
    New,
    /// The task is moving from one worker to another.
    Moving,
    Idle,
    Ready,
    Running,
    Ended,
}

/// A task as the runtime keeps it. The cell is small, so a million tasks fit into memory; fields that few
/// tasks need are in [`Rare`].
///
/// References to the cell are counted: one while the task is alive, one for each stream end that is attached
/// to the task, one while the task is in an inbox. Only the task's own worker (or thread) accesses the fields
/// of type `Cell`.
pub(crate) struct TaskCell {
    /// The number of references. Each thread that takes or gives up a reference changes the field.
    refs: AtomicU32,
    pub(crate) blocking: bool,
    pub(crate) id: TaskId,
    pub(crate) component: SiteRef,
    /// Parts of the task's specification, if their values are small, as most are; if not, `rare` has the
    /// whole specification.
    replica: u32,
    weight: u8,
    /// The worker that the user chose; or, from [`REPLICAS`] on, the task's replica; or [`NOBODY`] if the
    /// mapper chooses the worker.
    wished: u32,
    /// The runtime that the task belongs to.
    pub(crate) home: Arc<Home>,
    /// The worker that has the task. The field is set by the mapper before any other thread sees the cell,
    /// then only by workers: a worker gives a task away by writing [`NOBODY`], and the worker where it
    /// arrives writes its own number. A worker that reads its own number here therefore has the task.
    worker: AtomicU32,
    /// The worker to which the task's worker sends the task as soon as possible; [`NOBODY`]: the task stays.
    /// Only the task's worker accesses the field.
    pub(crate) wanted: Cell<u32>,
    /// Whether the task is in an inbox; for a blocking task, whether it was woken. The thread that wakes the
    /// task sets the field (acquire-release swap); the task's worker clears it in the same way, before the
    /// worker looks at the task's streams.
    pub(crate) in_inbox: AtomicBool,
    /// The next task in the inbox. The field is written by the thread that pushes this task, and read by the
    /// worker that took the tasks out of the inbox.
    next_in_inbox: AtomicPtr<TaskCell>,
    /// The parker on which a blocking task sleeps.
    pub(crate) parker: Parker,

    pub(crate) state: Cell<State>,
    /// Whether the task was woken while it ran.
    pub(crate) notified: Cell<bool>,
    /// Whether the task stays on its worker unless a user moves it, because a user has moved it there.
    pub(crate) stays: Cell<bool>,
    /// The next task in the worker's queue of ready tasks.
    pub(crate) next_ready: Cell<*mut TaskCell>,
    /// The index in the worker's list of live tasks.
    pub(crate) live_index: Cell<u32>,
    /// The messages that wait for the task less those that wait in its outputs, as of its last dispatch and
    /// since it was woken; kept only while ready tasks are ordered by demand.
    pub(crate) demand: Cell<i32>,
    /// The number of messages that a dispatch may read. `sampling` counts the dispatches until the time is
    /// next measured.
    pub(crate) pace: Cell<Pace>,
    pub(crate) sampling: Cell<Sampling>,
    /// The least capacity of all streams of which the task has had an end; [`NO_END`]: the task never had an
    /// end and never waited for one.
    pub(crate) narrowest: Cell<u32>,
    pub(crate) counts: Counts,
    /// What the task waits for while it is idle.
    pub(crate) waits_for: Cell<Share>,
    /// One of the streams that the task waits for while it is idle. The field is written by the task's
    /// thread, and set to null, under the lock `Home::asking`, by a thread that takes the end of that stream
    /// away while the task sleeps.
    waits_on: std::sync::atomic::AtomicPtr<Ring>,
    telemetry: TaskTelemetry,
    /// The state that only few tasks have; null for most tasks. The task's thread makes this state (release)
    /// before a writer may push a port on its stack (acquire), and the state is kept as long as the cell.
    rare: AtomicPtr<Rare>,
    /// The functions of the task's body (a `Methods` of `body`); the body lies behind the cell. Only the task's
    /// own thread accesses the field, or the thread that makes the task.
    pub(super) methods: Cell<NonNull<Held>>,
}

// A cell is small enough for a million tasks.
#[cfg(not(loom))]
const _: () = assert!(size_of::<TaskCell>() <= 144);

/// The task that a thread dispatches; null if it dispatches none.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Current(*mut TaskCell);

impl Current {
    pub(crate) const NONE: Current = Current(std::ptr::null_mut());

    /// # Safety
    /// The task lives until its dispatch has ended.
    #[inline]
    pub(crate) unsafe fn of(task: NonNull<TaskCell>) -> Current {
        Current(task.as_ptr())
    }

    /// The task; one must be dispatched.
    #[inline(always)]
    pub(crate) fn get<'a>(self) -> &'a TaskCell {
        debug_assert!(!self.0.is_null());
        // SAFETY: a dispatched task stays alive: its worker releases it only after the dispatch, or, if it
        // has a thread of its own, that thread releases it when the thread ends. Callers do not keep the
        // reference longer than the dispatch or the thread lasts.
        unsafe { &*self.0 }
    }

    /// The current task, if one is dispatched.
    #[inline]
    pub(crate) fn look<'a>(self) -> Option<&'a TaskCell> {
        (!self.0.is_null()).then(|| self.get())
    }

    #[inline(always)]
    pub(crate) fn pointer(self) -> *mut TaskCell {
        self.0
    }
}

/// What a cell must know of a task's kind when the cell is made.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// The task has a thread of its own.
    pub(crate) blocking: bool,
    /// Telemetry observes the task from its beginning.
    pub(crate) is_shown: bool,
    /// The whole specification will be needed again.
    pub(crate) keeps_spec: bool,
}

/// Values of `wished` that are at least this stand for a replica.
const REPLICAS: u32 = 1 << 31;

/// A value larger than any stream's capacity.
const NO_END: u32 = u32::MAX;

/// How quickly a task works, as last measured: in the low bits how many messages a dispatch may read (0: not
/// measured yet), in the high ones the logarithm, to the base 2, of how many messages a quantum has time for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace(u32);

impl Pace {
    /// The number of the low bits.
    const BITS: u32 = 26;

    pub(crate) fn new(budget: u64, in_quantum: u64) -> Pace {
        let logarithm = in_quantum.max(1).ilog2();
        Pace(budget.min((1 << Pace::BITS) - 1) as u32 | logarithm << Pace::BITS)
    }

    /// How many messages a dispatch may read; 0 if that is not known yet.
    #[inline]
    pub(crate) fn budget(self) -> usize {
        (self.0 & ((1 << Pace::BITS) - 1)) as usize
    }

    /// The time that so many messages take, in parts of which a quantum has `parts`.
    #[inline]
    pub(crate) fn parts_of_quantum(self, messages: usize, parts: u64) -> u64 {
        (messages as u64 * parts) >> (self.0 >> Pace::BITS)
    }
}

/// Which of a task's dispatches are sampled: the distance between two samples, and how many dispatches are
/// left until the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampling(u8);

impl Sampling {
    pub(crate) const EVERY_MAX: u64 = 16;

    /// Samples the second dispatch: many tasks of a network that unfolds have only one, and its time would be
    /// measured in vain.
    pub(crate) fn from_second() -> Sampling {
        Sampling(1)
    }

    /// Samples one in `dispatches` dispatches, but at least one in [`Sampling::EVERY_MAX`].
    pub(crate) fn every(dispatches: u64) -> Sampling {
        let between = dispatches.clamp(1, Sampling::EVERY_MAX) as u8 - 1;
        Sampling(between << 4 | between)
    }

    /// Counts a dispatch; returns whether it is skipped, that is, not sampled.
    #[inline]
    pub(crate) fn skips(this: &Cell<Sampling>) -> bool {
        let Sampling(before) = this.get();
        let skips = before & 0xf != 0;
        if skips {
            this.set(Sampling(before - 1));
        }
        skips
    }

    /// How many dispatches each sampled dispatch stands for.
    pub(crate) fn stands_for(self) -> u64 {
        u64::from(self.0 >> 4) + 1
    }
}

// SAFETY: the atomics are made for sharing; the cells and the body are touched only by the thread that the
// task belongs to (its worker, or its own thread), and a task changes hands only through an inbox (release,
// acquire).
unsafe impl Send for TaskCell {}
// SAFETY: the atomics are made for sharing, and only the thread that the task belongs to touches the cells
// and the body.
unsafe impl Sync for TaskCell {}

impl TaskCell {
    /// A new cell with one reference, which the caller owns. The cell has room for a body, and none
    /// yet: `held` is the beginning of the methods of such a cell.
    pub(crate) fn new(
        home: Arc<Home>,
        id: TaskId,
        spec: TaskSpec,
        held: NonNull<Held>,
        kind: Kind,
    ) -> NonNull<TaskCell> {
        let Kind { blocking, is_shown, keeps_spec } = kind;
        let Placement { node, worker } = spec.place;
        let wished = worker.and_then(|worker| u32::try_from(worker).ok()).filter(|&worker| worker < REPLICAS);
        let wished = wished.unwrap_or(NOBODY);
        let (replica, weight) = (u32::try_from(spec.replica), u8::try_from(spec.weight));
        let fits =
            replica.is_ok() && weight.is_ok() && node.is_none() && (wished != NOBODY || worker.is_none());
        let kept = (keeps_spec || !fits).then(|| Box::new(Rare { spec: Some(spec), ..Rare::default() }));
        let rare = kept.map_or(std::ptr::null_mut(), Box::into_raw);
        let telemetry = TaskTelemetry::new(&home.board, id.0, spec.about(), is_shown);
        // SAFETY: the methods of bodies are kept for ever.
        let bytes = size_of::<TaskCell>() + unsafe { held.as_ref() }.bytes;
        let memory = slab::allocate(bytes).cast::<TaskCell>();
        // SAFETY: the memory has room for the cell, and no other code has it.
        unsafe {
            memory.write(TaskCell {
                refs: AtomicU32::new(1),
                id,
                component: spec.component,
                replica: replica.unwrap_or_default(),
                weight: weight.unwrap_or_default(),
                wished,
                blocking,
                home,
                worker: AtomicU32::new(NOBODY),
                wanted: Cell::new(NOBODY),
                in_inbox: AtomicBool::new(false),
                next_in_inbox: AtomicPtr::new(std::ptr::null_mut()),
                parker: Parker::new(),
                state: Cell::new(State::New),
                notified: Cell::new(false),
                stays: Cell::new(false),
                next_ready: Cell::new(std::ptr::null_mut()),
                live_index: Cell::new(u32::MAX),
                demand: Cell::new(0),
                pace: Cell::new(Pace::default()),
                sampling: Cell::new(Sampling::from_second()),
                narrowest: Cell::new(NO_END),
                counts: Counts::default(),
                waits_for: Cell::new(Share::Ready),
                waits_on: std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()),
                telemetry,
                rare: AtomicPtr::new(rare),
                methods: Cell::new(held),
            });
        }
        memory
    }

    /// The task's worker; [`NOBODY`] for a blocking task.
    #[inline]
    pub(crate) fn worker(&self) -> u32 {
        self.worker.load(Ordering::Acquire)
    }

    pub(crate) fn place(&self, worker: u32) {
        self.worker.store(worker, Ordering::Relaxed);
        self.show_worker(worker);
    }

    /// Notes that the task leaves its worker for another worker.
    pub(crate) fn leave_worker(&self) {
        self.worker.store(NOBODY, Ordering::Release);
    }

    /// Notes that the task gets an end of a stream. This must be called on the task's own thread, or before
    /// the task runs.
    pub(crate) fn gets_end(&self, ring: &Ring) {
        self.takes_part();
        self.narrowest.set(self.narrowest.get().min(ring.capacity()));
    }

    /// Notes that the capacity of one of the task's streams changed. The caller is the stream's writer.
    pub(crate) fn resized(&self, before: u32, now: u32) {
        let narrowest = self.narrowest.get();
        if now < narrowest || before == narrowest {
            self.narrowest.set(now);
        }
    }

    /// Notes that from now on the work of this blocking task may let other tasks go on. This must be called
    /// on the task's own thread, or before the task runs.
    pub(crate) fn takes_part(&self) {
        if self.blocking && self.narrowest.get() == NO_END {
            self.narrowest.set(NO_END - 1);
            self.home.admission.wakes();
        }
    }

    /// Notes that a task with a thread of its own has ended.
    pub(crate) fn takes_no_part(&self) {
        if self.narrowest.get() != NO_END {
            self.home.admission.falls_asleep();
        }
    }

    /// Drops the cell and gives its memory back.
    ///
    /// # Safety
    /// [`TaskCell::new`] made the cell, and no reference to it exists.
    #[inline(never)]
    unsafe fn free(cell: *mut TaskCell) {
        // SAFETY: guaranteed by the caller; the cell was made with so many bytes.
        unsafe {
            let bytes = size_of::<TaskCell>() + (*cell).methods.get().as_ref().bytes;
            cell.drop_in_place();
            slab::free(NonNull::new_unchecked(cell.cast()), bytes);
        }
    }

    /// Counts another reference and returns it.
    pub(crate) fn counted_reference(&self) -> NonNull<TaskCell> {
        self.counted();
        NonNull::from(self)
    }

    #[inline]
    fn rare(&self) -> Option<&Rare> {
        // SAFETY: `rare` is kept as long as the cell.
        unsafe { self.rare.load(Ordering::Acquire).as_ref() }
    }

    /// # Safety
    /// The caller is the task's own thread, and no other reference to its waits lives.
    #[allow(clippy::mut_from_ref)]
    unsafe fn several(&self) -> &mut Several {
        let rare = self.rare().unwrap_or_else(|| {
            let made = Box::into_raw(Box::<Rare>::default());
            self.rare.store(made, Ordering::Release);
            // SAFETY: the value was just made, and is kept as long as the cell.
            unsafe { &*made }
        });
        // SAFETY: guaranteed by the caller.
        unsafe { &mut *rare.several.get() }
    }

    /// The specification by which the mapper places the task again.
    pub(crate) fn spec(&self) -> TaskSpec {
        let place =
            Placement { node: None, worker: (self.wished < REPLICAS).then_some(self.wished as usize) };
        let (replica, weight) = (u64::from(self.replica), u32::from(self.weight));
        let known = TaskSpec { component: self.component, replica, weight, place, ..TaskSpec::default() };
        self.rare().and_then(|rare| rare.spec).unwrap_or(known)
    }

    /// Sets the replica that the task belongs to. The call comes before any other thread sees the cell.
    pub(crate) fn belongs_to(&mut self, replica: u32) {
        debug_assert!(self.wished == NOBODY && replica < NOBODY - REPLICAS);
        self.wished = REPLICAS + replica;
    }

    /// The replica that the task belongs to.
    #[inline]
    pub(crate) fn member_of(&self) -> Option<u32> {
        (self.wished >= REPLICAS && self.wished != NOBODY).then(|| self.wished - REPLICAS)
    }

    /// Whether the user chose where the task runs.
    pub(crate) fn is_placed(&self) -> bool {
        self.spec().place != Placement::ANYWHERE
    }

    /// # Safety
    /// The caller is the task's own thread, and no other reference to the groups lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn groups(&self) -> &mut Vec<Group> {
        // SAFETY: guaranteed by the caller.
        unsafe { &mut self.several().groups }
    }

    // ---- the streams that the task waits for

    /// Clears the streams that the task waits for, and appends their references to `released`. The caller is
    /// on the task's own thread.
    #[inline]
    pub(crate) fn wait_for_none(&self, released: &mut Vec<NonNull<Ring>>) {
        self.forget_first_wait();
        if let Some(rare) = self.rare() {
            // SAFETY: this is the task's own thread; the reference ends with this statement.
            released.extend(unsafe { &mut *rare.several.get() }.others.drain());
        }
    }

    /// Clears the first of the streams that the task waited for, because the task runs. The caller runs on
    /// the task's own thread.
    pub(crate) fn forget_first_wait(&self) {
        self.waits_on.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether the task has state that only few tasks have.
    #[inline]
    pub(crate) fn has_rare(&self) -> bool {
        !self.rare.load(Ordering::Relaxed).is_null()
    }

    /// Notes that the task, which has no rare state, waits for this stream alone. The caller runs on the task's
    /// own thread.
    #[inline]
    pub(crate) fn waits_for_only(&self, ring: &Ring) {
        self.waits_on.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
    }

    /// Adds a stream to those that the task waits for. The caller runs on the task's own thread.
    #[inline]
    pub(crate) fn wait_for(&self, ring: &Ring) {
        let first = &self.waits_on;
        if first.load(Ordering::Relaxed).is_null() {
            first.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Relaxed);
        } else {
            // SAFETY: this is the task's own thread; the reference ends with this statement.
            unsafe { self.several() }.others.add(ring);
        }
    }

    /// One of the streams that the sleeping task waits for; none if it waits for a group of inputs.
    ///
    /// # Safety
    /// The caller is the task's own thread, has locked `Home::asking`, and unlocks it after the last use.
    pub(crate) unsafe fn first_wait(&self) -> Option<&Ring> {
        // SAFETY: the task has an end of the stream, which it cannot drop while it sleeps, and a thread that
        // takes the end away must get the lock, which the caller holds, before it gives up the end's
        // reference.
        unsafe { self.waits_on.load(Ordering::Relaxed).as_ref() }
    }

    /// Calls `each` with every stream that the sleeping task waits for; a change of any of these streams lets
    /// the task go on.
    ///
    /// # Safety
    /// The caller is the task's own thread, and has locked `Home::asking`.
    pub(crate) unsafe fn each_wait(&self, mut each: impl FnMut(&Ring)) {
        // SAFETY: guaranteed by the caller.
        if let Some(ring) = unsafe { self.first_wait() } {
            each(ring);
        }
        let Some(rare) = self.rare() else { return };
        // SAFETY: this is the task's own thread; the reference ends with this function.
        let several = unsafe { &*rare.several.get() };
        several.others.iter().for_each(&mut each);
        if self.waits_for.get() == Share::InputWait {
            several.groups.iter().flat_map(Group::members).for_each(each);
        }
    }

    /// Whether the task has groups of inputs. The caller runs on the task's own thread.
    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        // SAFETY: this is the task's own thread; the reference ends with this function.
        self.rare().is_some_and(|rare| !unsafe { &*rare.several.get() }.groups.is_empty())
    }

    /// Queues a port of a group, with the caller's reference to its ring.
    ///
    /// # Safety
    /// The caller must meet the safety conditions of [`TaskCell::groups`].
    pub(crate) unsafe fn queue_ready_port(&self, group: u32, ring: NonNull<Ring>) {
        // SAFETY: guaranteed by the caller.
        let groups = unsafe { self.groups() };
        groups[group as usize].ready.push(ring);
    }

    /// Puts a port that got messages (or ended) on the stack of the task's ready ports. The stack takes a
    /// reference to the ring.
    pub(crate) fn push_ready_port(&self, ring: &Ring) {
        let (Some(rare), Some(port)) = (self.rare(), ring.port()) else { return };
        ring.refs.fetch_add(1, Ordering::Relaxed);
        let node = std::ptr::from_ref(ring).cast_mut();
        let mut first = rare.ready_ports.load(Ordering::Relaxed);
        loop {
            port.next.store(first.cast(), Ordering::Relaxed);
            match rare.ready_ports.compare_exchange_weak(first, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Moves the ready ports from the stack into their groups' queues, oldest first.
    ///
    /// # Safety
    /// The caller is the task's own thread, and no reference to the groups lives.
    #[inline]
    pub(crate) unsafe fn sort_ready_ports(&self) {
        if let Some(rare) = self.rare()
            && !rare.ready_ports.load(Ordering::Relaxed).is_null()
        {
            // SAFETY: guaranteed by the caller.
            unsafe { self.sort_ports_of(rare) }
        }
    }

    /// # Safety
    /// The caller must meet the safety conditions of [`TaskCell::sort_ready_ports`].
    #[inline(never)]
    unsafe fn sort_ports_of(&self, rare: &Rare) {
        let mut newest = rare.ready_ports.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut oldest: *mut Ring = std::ptr::null_mut();
        while let Some(ring) = NonNull::new(newest) {
            // SAFETY: the stack holds a reference to each ring in it, and the links of a stack that was taken
            // belong to this thread.
            newest = unsafe { relink(ring, oldest) };
            oldest = ring.as_ptr();
        }
        // SAFETY: guaranteed by the caller.
        let groups = unsafe { self.groups() };
        while let Some(ring) = NonNull::new(oldest) {
            // SAFETY: guaranteed by the caller; the group was set before the port first waited.
            let group = unsafe {
                oldest = relink(ring, std::ptr::null_mut());
                ring.as_ref().group()
            };
            match group.and_then(|group| groups.get_mut(group)) {
                Some(group) => group.ready.push(ring),
                // SAFETY: this gives up the stack's reference to a port that left its group.
                None => unsafe { Ring::release(ring.as_ptr()) },
            }
        }
    }

    /// Whether a port of some group is queued. The call drops queued ports whose reading end is gone.
    ///
    /// # Safety
    /// The caller is the task's own thread, and no reference to the groups lives.
    pub(crate) unsafe fn has_ready_port(&self) -> bool {
        // SAFETY: guaranteed by the caller.
        let groups = unsafe {
            self.sort_ready_ports();
            self.groups()
        };
        groups.iter_mut().any(|group| group.has_ready())
    }

    /// Empties the queues of ready ports, for models, which keep in a variable of their own whether a port is
    /// ready.
    ///
    /// # Safety
    /// The caller must meet the safety conditions of [`TaskCell::has_ready_port`].
    #[cfg(all(test, loom))]
    pub(crate) unsafe fn drop_ready_ports_of_model(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.groups() }.iter_mut().for_each(|group| group.ready = Default::default());
    }

    /// Gives up the references to streams that the task, which has ended, could have waited for.
    ///
    /// # Safety
    /// The caller must meet the safety conditions of [`TaskCell::has_ready_port`].
    pub(crate) unsafe fn forget_waits(&self) {
        self.forget_first_wait();
        // SAFETY: guaranteed by the caller; the reference ends before anything is dropped.
        drop(unsafe {
            self.sort_ready_ports();
            self.rare().map(|rare| std::mem::take(&mut *rare.several.get()))
        });
    }
}

impl WatchedTask for TaskCell {
    #[inline]
    fn number(&self) -> u64 {
        self.id.0
    }

    #[inline]
    fn on_worker(&self) -> u32 {
        self.worker()
    }

    #[inline]
    fn has_own_thread(&self) -> bool {
        self.blocking
    }

    fn about(&self) -> About {
        self.spec().about()
    }

    #[inline]
    fn did(&self) -> &Counts {
        &self.counts
    }

    #[inline]
    fn waited_for(&self) -> Share {
        self.waits_for.get()
    }

    #[inline]
    fn telemetry(&self) -> &TaskTelemetry {
        &self.telemetry
    }

    #[inline]
    fn board(&self) -> &Board {
        &self.home.board
    }
}

impl Linked for TaskCell {
    #[inline]
    fn next_in_inbox(&self) -> &AtomicPtr<TaskCell> {
        &self.next_in_inbox
    }

    unsafe fn give_up(task: *mut TaskCell) {
        // SAFETY: guaranteed by the caller.
        unsafe { TaskCell::release(task) }
    }
}

impl Holder for TaskCell {
    fn counted(&self) -> *mut TaskCell {
        self.refs.fetch_add(1, Ordering::Relaxed);
        std::ptr::from_ref(self).cast_mut()
    }

    /// Giving up the last reference frees the cell.
    ///
    /// # Safety
    /// The caller must meet the safety conditions of [`Holder::release`].
    #[inline]
    unsafe fn release(cell: *mut TaskCell) {
        // SAFETY: the reference that is given up here kept the cell alive until now.
        let refs = unsafe { &(*cell).refs };
        if refs.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: this gave up the last reference.
            unsafe { TaskCell::free(cell) }
        }
    }

    fn loses_end(&self, ring: &Ring) {
        let pointer = std::ptr::from_ref(ring).cast_mut();
        if self.waits_on.load(Ordering::Relaxed) == pointer {
            let _asking = lock(&self.home.asking);
            let none = std::ptr::null_mut();
            // The exchange fails if the task by now waits for another stream, which must stay.
            _ = self.waits_on.compare_exchange(pointer, none, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Sets the ring that follows `ring` in a stack of ready ports, and returns the former one.
///
/// # Safety
/// The stack was taken from its task by the caller, with its references.
unsafe fn relink(ring: NonNull<Ring>, next: *mut Ring) -> *mut Ring {
    // SAFETY: the stack holds a reference to the ring.
    let Some(port) = (unsafe { ring.as_ref() }).port() else { return std::ptr::null_mut() };
    let before = port.next.load(Ordering::Relaxed);
    port.next.store(next.cast(), Ordering::Relaxed);
    before.cast()
}

impl Drop for TaskCell {
    fn drop(&mut self) {
        // SAFETY: no other reference to the cell exists.
        unsafe { self.drop_body() };
        let rare = self.rare.load(Ordering::Acquire);
        if rare.is_null() {
            return;
        }
        // SAFETY: `Box` made the value, and no other reference to the cell exists.
        let rare = unsafe { Box::from_raw(rare) };
        // The stack may contain ports that a writer pushed after the task ended.
        let mut port = rare.ready_ports.load(Ordering::Acquire);
        while let Some(ring) = NonNull::new(port) {
            // SAFETY: the stack holds a reference to each ring in it, and no other thread sees this stack any
            // more.
            unsafe {
                port = relink(ring, std::ptr::null_mut());
                Ring::release(ring.as_ptr());
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::body::BODILESS;

    /// The specification that a task's cell gives for placing the task again, and whether the user placed the
    /// task.
    fn kept(spec: TaskSpec, keeps_spec: bool) -> (TaskSpec, bool) {
        let home = Arc::new(Home::new(1, None, true).unwrap());
        let kind = Kind { blocking: false, is_shown: false, keeps_spec };
        let cell = TaskCell::new(home, TaskId(1), spec, BODILESS.empty(), kind);
        // SAFETY: this gives up the only reference to the cell.
        unsafe {
            let kept = (cell.as_ref().spec(), cell.as_ref().is_placed());
            TaskCell::release(cell.as_ptr());
            kept
        }
    }

    #[test]
    fn what_a_mapper_goes_by_is_kept() {
        let spec = TaskSpec {
            component: SiteRef(7),
            parent: TaskId(3),
            replica: 5,
            weight: 2,
            ..TaskSpec::default()
        };
        let (plain, is_placed) = kept(spec, false);
        assert_eq!((plain.component, plain.weight, is_placed), (SiteRef(7), 2, false));
        assert_eq!(plain.place, Placement::ANYWHERE);
        for place in [0, 1, REPLICAS as usize - 1, REPLICAS as usize, u32::MAX as usize, usize::MAX] {
            for node in [None, Some(0), Some(u32::MAX)] {
                let place = Placement { node, worker: Some(place) };
                let (plain, is_placed) = kept(TaskSpec { place, ..spec }, false);
                assert_eq!((plain.place, is_placed), (place, true));
            }
        }
        let (whole, is_placed) = kept(spec, true);
        assert_eq!((whole.parent, whole.replica, whole.weight, is_placed), (TaskId(3), 5, 2, false));
    }
}

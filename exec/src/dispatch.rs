//! A dispatch: a thread runs a task for up to a quantum of messages, then publishes what it did, wakes
//! those who waited for it and decides where the task goes next.
//!
//! [`Core`] is a thread's side of that: a worker's, a blocking task's, or (for a moment) any other thread's.
//! No reference to a core is held while a user's code runs, because that code may drop ports, which reach the core
//! through the thread's own pointer to it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crate::context::Context;
use crate::ring::{AWAKE, FOREIGN, PORT_WAITS, Ring, TASK_WAITS, Wait, wait_until_zero};
use crate::runtime::Shared;
use crate::sync::Ordering;
use crate::task::{State, Stop, TaskCell};

/// What a thread needs to run tasks.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    /// The worker this thread is, or [`FOREIGN`].
    pub(crate) worker: u32,
    /// What it calls itself towards streams: the same, unless the kernel has no `membarrier`; then
    /// [`FOREIGN`], so that every stream is fenced.
    pub(crate) me: u32,
    /// The task being dispatched.
    pub(crate) task: *mut TaskCell,
    touched: Vec<Touch>,
    empty: Vec<NonNull<Ring>>,
    full: Vec<NonNull<Ring>>,
    /// `Inputs::next_ready` said `None`.
    pub(crate) ports_wait: bool,
    ready: ReadyQueue,
    live: Vec<NonNull<TaskCell>>,
    released: Vec<NonNull<Ring>>,
}

/// An end of a stream used in this dispatch.
#[derive(Clone, Copy)]
struct Touch {
    ring: NonNull<Ring>,
    writes: bool,
}

/// Tasks ready to run, first come first served.
struct ReadyQueue {
    first: *mut TaskCell,
    last: *mut TaskCell,
}

impl ReadyQueue {
    #[inline]
    fn push(&mut self, task: &TaskCell) {
        let pointer = std::ptr::from_ref(task).cast_mut();
        task.next_ready.set(std::ptr::null_mut());
        match NonNull::new(self.last) {
            // SAFETY: tasks in the queue are alive.
            Some(last) => unsafe { last.as_ref() }.next_ready.set(pointer),
            None => self.first = pointer,
        }
        self.last = pointer;
    }

    #[inline]
    fn pop(&mut self) -> Option<NonNull<TaskCell>> {
        let task = NonNull::new(self.first)?;
        // SAFETY: tasks in the queue are alive.
        self.first = unsafe { task.as_ref() }.next_ready.get();
        if self.first.is_null() {
            self.last = std::ptr::null_mut();
        }
        Some(task)
    }
}

thread_local! {
    static CORE: Cell<*mut Core> = const { Cell::new(std::ptr::null_mut()) };
}

/// The calling thread's core, while it has one.
pub(crate) fn current() -> Option<NonNull<Core>> {
    NonNull::new(CORE.get())
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, worker: u32) -> Core {
        let me = if shared.barrier { worker } else { FOREIGN };
        Core {
            shared,
            worker,
            me,
            task: std::ptr::null_mut(),
            touched: Vec::new(),
            empty: Vec::new(),
            full: Vec::new(),
            ports_wait: false,
            ready: ReadyQueue { first: std::ptr::null_mut(), last: std::ptr::null_mut() },
            live: Vec::new(),
            released: Vec::new(),
        }
    }

    /// Makes `core` the thread's while `work` runs.
    pub(crate) fn with<R>(core: NonNull<Core>, work: impl FnOnce() -> R) -> R {
        struct Reset(*mut Core);
        impl Drop for Reset {
            fn drop(&mut self) {
                CORE.set(self.0);
            }
        }
        let _reset = Reset(CORE.replace(core.as_ptr()));
        work()
    }

    // ---- ends of streams

    /// Makes the current task the stream's writer and puts the end on the dispatch's list.
    pub(crate) fn own_writer(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if r.writer.load(Ordering::Relaxed) != self.task {
            wait_until_zero(&r.writer_touched);
            // SAFETY: the task being dispatched is alive.
            r.move_writer(Some(unsafe { &*self.task }), self.me);
        }
        if r.writer_touched.load(Ordering::Relaxed) == 0 {
            r.writer_touched.store(1, Ordering::Relaxed);
            r.write_mark.set(r.pushed.get());
            self.touched.push(Touch { ring, writes: true });
        }
    }

    /// Likewise the reader.
    pub(crate) fn own_reader(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if r.reader.load(Ordering::Relaxed) != self.task {
            wait_until_zero(&r.reader_touched);
            // SAFETY: the task being dispatched is alive.
            r.move_reader(Some(unsafe { &*self.task }), self.me);
        }
        if r.reader_touched.load(Ordering::Relaxed) == 0 {
            r.reader_touched.store(1, Ordering::Relaxed);
            r.read_mark.set(r.popped.get());
            self.touched.push(Touch { ring, writes: false });
        }
    }

    /// Gives a stream's writing end to a task that does not run yet.
    pub(crate) fn attach_writer(&mut self, ring: NonNull<Ring>, task: &TaskCell) {
        self.finish_with(ring, true);
        // SAFETY: the end that is attached holds a reference.
        let ring = unsafe { ring.as_ref() };
        wait_until_zero(&ring.writer_touched);
        if !std::ptr::eq(ring.writer.load(Ordering::Relaxed), task) {
            ring.move_writer(Some(task), self.me);
        }
    }

    /// Likewise the reading end.
    pub(crate) fn attach_reader(&mut self, ring: NonNull<Ring>, task: &TaskCell) {
        self.finish_with(ring, false);
        // SAFETY: the end that is attached holds a reference.
        let ring = unsafe { ring.as_ref() };
        wait_until_zero(&ring.reader_touched);
        if !std::ptr::eq(ring.reader.load(Ordering::Relaxed), task) {
            ring.move_reader(Some(task), self.me);
        }
    }

    /// Takes an end that moves away off the current dispatch's list, and publishes what was done with it.
    fn finish_with(&mut self, ring: NonNull<Ring>, writes: bool) {
        let Some(at) = self.touched.iter().position(|touch| touch.ring == ring && touch.writes == writes)
        else {
            return;
        };
        let touch = self.touched.swap_remove(at);
        let noted = if writes { &mut self.full } else { &mut self.empty };
        noted.retain(|&other| other != ring);
        // SAFETY: the end that moves holds a reference.
        let r = unsafe { ring.as_ref() };
        if writes {
            r.noted_full.set(false)
        } else {
            r.noted_empty.set(false)
        }
        self.account(touch);
        self.publish(touch);
        if writes {
            r.writer_touched.store(0, Ordering::Release);
        } else {
            r.reader_touched.store(0, Ordering::Release);
        }
    }

    /// A writing end is dropped: true if the current dispatch sees to it at its end.
    pub(crate) fn writer_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: the thread's own core, to which no other reference is held now; the end's reference.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task.is_null() || r.writer.load(Ordering::Relaxed) != core.task {
            return false;
        }
        core.own_writer(ring);
        r.writer_leaves.set(true);
        true
    }

    /// A reading end is dropped: likewise.
    pub(crate) fn reader_leaves_at_end(core: NonNull<Core>, ring: NonNull<Ring>) -> bool {
        // SAFETY: as above.
        let (core, r) = unsafe { (&mut *core.as_ptr(), ring.as_ref()) };
        if core.task.is_null() || r.reader.load(Ordering::Relaxed) != core.task {
            return false;
        }
        core.own_reader(ring);
        r.reader_leaves.set(true);
        true
    }

    pub(crate) fn note_empty(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if !r.noted_empty.get() && r.group.get() == u32::MAX {
            r.noted_empty.set(true);
            self.empty.push(ring);
        }
    }

    pub(crate) fn note_full(&mut self, ring: NonNull<Ring>) {
        // SAFETY: the end that called holds a reference.
        let r = unsafe { ring.as_ref() };
        if !r.noted_full.get() {
            r.noted_full.set(true);
            self.full.push(ring);
        }
    }

    // ---- waking

    /// Makes a task ready (or tells it so while it runs).
    #[inline]
    pub(crate) fn wake(&mut self, task: &TaskCell) {
        if task.worker() != self.worker {
            return wake_elsewhere(task);
        }
        match task.state.get() {
            State::Idle => self.make_ready(task),
            State::Running => task.notified.set(true),
            State::New | State::Ready | State::Ended => {}
        }
    }

    #[inline]
    fn make_ready(&mut self, task: &TaskCell) {
        task.state.set(State::Ready);
        self.ready.push(task);
    }

    fn wake_reader(&mut self, ring: &Ring, how: u8) {
        // SAFETY: we are in the writer's section, so a reference of the ring's that we can still see is not
        // given up.
        if let Some(task) = unsafe { ring.reader.load(Ordering::SeqCst).as_ref() } {
            if how == PORT_WAITS {
                task.push_ready_port(ring);
            }
            self.wake(task);
        }
    }

    fn wake_writer(&mut self, ring: &Ring) {
        // SAFETY: as above, in the reader's section.
        if let Some(task) = unsafe { ring.writer.load(Ordering::SeqCst).as_ref() } {
            self.wake(task);
        }
    }

    /// A task new to this worker: `task` carries the reference it lives by.
    pub(crate) fn adopt(&mut self, task: NonNull<TaskCell>) {
        // SAFETY: the reference handed over.
        let cell = unsafe { task.as_ref() };
        debug_assert_eq!(cell.state.get(), State::New);
        cell.live_index.set(self.live.len());
        self.live.push(task);
        self.make_ready(cell);
    }

    /// Takes what other threads made ready.
    pub(crate) fn empty_inbox(&mut self) {
        let shared = self.shared.clone();
        for task in shared.inboxes[self.worker as usize].take() {
            // SAFETY: the inbox's reference, now ours.
            let cell = unsafe { task.as_ref() };
            // A swap, so that we see what the waker did before it found the flag already set.
            cell.in_inbox.swap(false, Ordering::AcqRel);
            if cell.state.get() == State::New {
                self.adopt(task);
                continue;
            }
            self.wake(cell);
            // SAFETY: the inbox's reference.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
    }

    #[inline]
    pub(crate) fn next_task(&mut self) -> Option<NonNull<TaskCell>> {
        self.ready.pop()
    }

    // ---- the end of a dispatch

    /// Publishes what the current task did with its streams and wakes who waited for that.
    fn publish_all(&mut self) {
        for at in 0..self.touched.len() {
            let touch = self.touched[at];
            self.account(touch);
        }
        for at in 0..self.touched.len() {
            let touch = self.touched[at];
            self.publish(touch);
        }
    }

    /// Counts what was done with an end, and makes the next dispatch's first use of it take the long way.
    #[inline]
    fn account(&mut self, touch: Touch) {
        // SAFETY: an end on the list is kept until the list is emptied; so is the task.
        let (ring, counts) = unsafe { (touch.ring.as_ref(), &(*self.task).counts) };
        if touch.writes {
            let pushed = ring.pushed.get();
            ring.limit.set(pushed);
            counts.writes.set(counts.writes.get() + (pushed - ring.write_mark.get()) as u64);
            ring.write_mark.set(pushed);
        } else {
            let popped = ring.popped.get();
            ring.available.set(popped);
            let read = popped - ring.read_mark.get() - ring.discarded.get();
            counts.reads.set(counts.reads.get() + read as u64);
            ring.read_mark.set(popped);
        }
    }

    #[inline]
    fn publish(&mut self, touch: Touch) {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { touch.ring.as_ref() };
        if touch.writes {
            if ring.pushed.get() != ring.tail.load(Ordering::Relaxed) {
                let waits = ring.publish_written(self.me);
                if waits != AWAKE {
                    self.wake_reader(ring, waits);
                }
                ring.leave_writer_section();
            }
        } else if ring.popped.get() != ring.head.load(Ordering::Relaxed) {
            let waits = ring.publish_read(self.me);
            if waits != AWAKE {
                self.wake_writer(ring);
            }
            ring.leave_reader_section();
        }
    }

    /// Publishes one stream's messages in the middle of a dispatch (blocking tasks).
    pub(crate) fn publish_now(&mut self, ring: NonNull<Ring>) {
        self.publish(Touch { ring, writes: true });
    }

    /// Arms the wake-ups of the task that stopped. `Ok(true)`: it sleeps; `Ok(false)`: it is ready again;
    /// `Err`: nothing can ever wake it.
    fn arm(&mut self, task: &TaskCell, stop: Stop) -> Result<bool, &'static str> {
        let mut sleeps = false;
        let mut ready = false;
        match stop {
            Stop::InputEmpty => {
                // SAFETY: we are the task's thread.
                if self.ports_wait || unsafe { task.has_ready_port() } {
                    ready = unsafe { task.has_ready_port() };
                    sleeps = true;
                }
                for &ring in &self.empty {
                    // SAFETY: noted ends are on the dispatch's list as well.
                    let ring = unsafe { ring.as_ref() };
                    if ready || ring.reader_leaves.get() {
                        continue;
                    }
                    match ring.wait_for_messages(self.me, TASK_WAITS) {
                        Wait::Armed => sleeps = true,
                        Wait::Ready => ready = true,
                        Wait::Over => {}
                    }
                }
                if !ready && !sleeps && !task.notified.get() {
                    return Err(
                        "stopped on an empty input, but popped none that could still bring a message",
                    );
                }
            }
            Stop::OutputFull => {
                for &ring in &self.full {
                    // SAFETY: noted ends are on the dispatch's list as well.
                    let ring = unsafe { ring.as_ref() };
                    if ready || ring.writer_leaves.get() {
                        continue;
                    }
                    match ring.wait_for_room(self.me) {
                        Wait::Armed => sleeps = true,
                        Wait::Ready | Wait::Over => ready = true,
                    }
                }
                if !ready && !sleeps && !task.notified.get() {
                    return Err("stopped on a full output, but found none full");
                }
            }
            Stop::QuantumSpent | Stop::Ended => {}
        }
        Ok(sleeps && !ready)
    }

    /// Empties the dispatch's lists: the ends that were dropped close, the others are free to be used.
    fn let_go(&mut self) {
        for ring in self.empty.drain(..) {
            // SAFETY: noted ends are on the dispatch's list as well.
            unsafe { ring.as_ref() }.noted_empty.set(false);
        }
        for ring in self.full.drain(..) {
            // SAFETY: as above.
            unsafe { ring.as_ref() }.noted_full.set(false);
        }
        self.ports_wait = false;
        while let Some(touch) = self.touched.pop() {
            // SAFETY: the end's reference, which is still held: by the end, or by the list if it was dropped.
            let ring = unsafe { touch.ring.as_ref() };
            match (touch.writes, ring.writer_leaves.get(), ring.reader_leaves.get()) {
                (true, true, _) => {
                    self.close(ring);
                    self.released.push(touch.ring);
                }
                (true, false, _) => ring.writer_touched.store(0, Ordering::Release),
                (false, _, true) => {
                    self.leave(ring);
                    self.released.push(touch.ring);
                }
                (false, _, false) => ring.reader_touched.store(0, Ordering::Release),
            }
        }
    }

    fn close(&mut self, ring: &Ring) {
        let waits = ring.close();
        if waits != AWAKE {
            self.wake_reader(ring, waits);
        }
        ring.leave_writer_section();
        ring.move_writer(None, self.me);
    }

    fn leave(&mut self, ring: &Ring) {
        let waits = ring.leave();
        if waits != AWAKE {
            self.wake_writer(ring);
        }
        ring.leave_reader_section();
        ring.move_reader(None, self.me);
    }

    /// Frees what the last references went to. Messages are dropped here: a user's code runs.
    fn free_released(core: NonNull<Core>) {
        loop {
            // SAFETY: the thread's own core; the reference ends before a user's code runs.
            let Some(ring) = (unsafe { &mut *core.as_ptr() }).released.pop() else { return };
            let freed = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the reference of an end that was dropped.
                unsafe { Ring::release(ring.as_ptr()) }
            }));
            drop(freed);
        }
    }

    /// Ends a blocking task's dispatch before it waits, and arms its wake-up. True: it has to wait.
    pub(crate) fn pause(core: NonNull<Core>, stop: Stop) -> bool {
        let sleeps = {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.publish_all();
            // SAFETY: the task being dispatched is alive.
            let task = unsafe { &*core.task };
            let sleeps = core.arm(task, stop);
            core.let_go();
            sleeps
        };
        Core::free_released(core);
        matches!(sleeps, Ok(true))
    }

    /// Runs a ready task once.
    pub(crate) fn dispatch(core: NonNull<Core>, task: NonNull<TaskCell>) {
        // SAFETY: tasks in the queue are alive, and this is the task's thread.
        let cell = unsafe { task.as_ref() };
        cell.state.set(State::Running);
        // SAFETY: the thread's own core; the reference ends before the task runs.
        let quantum = unsafe {
            let core = &mut *core.as_ptr();
            core.task = task.as_ptr();
            core.shared.quantum()
        };
        let budget = Budget::start(cell, quantum);
        // SAFETY: this is the task's thread, and the body is not borrowed.
        let stop = run_body(core, cell, budget.messages);
        let stop = match stop {
            Ok(Stop::Ended) => Some(Ok(())),
            Ok(stop) => Core::after(core, cell, stop).err().map(|reason| Err((reason.to_owned(), false))),
            Err(panic) => Some(Err((panic, true))),
        };
        match stop {
            None => budget.finish(cell),
            Some(outcome) => Core::end(core, task, outcome),
        }
    }

    /// Publishes, arms and requeues.
    fn after(core: NonNull<Core>, task: &TaskCell, stop: Stop) -> Result<(), &'static str> {
        {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            task.counts.dispatches.set(task.counts.dispatches.get() + 1);
            core.publish_all();
            let sleeps = core.arm(task, stop)?;
            core.let_go();
            core.task = std::ptr::null_mut();
            let notified = task.notified.take();
            if sleeps && !notified && stop != Stop::QuantumSpent {
                task.state.set(State::Idle);
            } else {
                core.make_ready(task);
            }
            if core.released.is_empty() {
                return Ok(());
            }
        }
        Core::free_released(core);
        Ok(())
    }

    /// Ends a task: drops it (its ports close), publishes, forgets it.
    fn end(core: NonNull<Core>, task: NonNull<TaskCell>, outcome: Result<(), (String, bool)>) {
        // SAFETY: the task's own thread; its life's reference is given up at the end of this function.
        let cell = unsafe { task.as_ref() };
        // SAFETY: as above; the reference to the body ends with this line.
        let body = unsafe { cell.body() }.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(body)));
        let outcome = match dropped {
            Ok(()) => outcome,
            Err(panic) => outcome.and(Err((message_of(&*panic), true))),
        };
        Core::close_task(core, cell);
        let shared = {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.forget(cell);
            core.shared.clone()
        };
        shared.task_ended(cell, outcome);
        // SAFETY: the reference the task lived by.
        unsafe { TaskCell::release(task.as_ptr()) }
    }

    /// Publishes the last of an ended task and closes its ports.
    pub(crate) fn close_task(core: NonNull<Core>, task: &TaskCell) {
        {
            // SAFETY: the thread's own core; no user's code runs inside this block.
            let core = unsafe { &mut *core.as_ptr() };
            core.publish_all();
            core.let_go();
            core.task = std::ptr::null_mut();
            task.state.set(State::Ended);
            // SAFETY: the task's own thread.
            unsafe { task.forget_ready_ports() };
        }
        Core::free_released(core);
    }

    fn forget(&mut self, task: &TaskCell) {
        let at = task.live_index.get();
        self.live.swap_remove(at);
        if let Some(moved) = self.live.get(at) {
            // SAFETY: tasks in the list are alive.
            unsafe { moved.as_ref() }.live_index.set(at);
        }
    }

    /// Drops every task that is left (after an abort).
    pub(crate) fn drop_tasks(core: NonNull<Core>) {
        loop {
            // SAFETY: the thread's own core; the reference ends before a task is dropped.
            let task = unsafe {
                let core = &mut *core.as_ptr();
                let Some(&task) = core.live.last() else { break };
                core.task = task.as_ptr();
                task
            };
            Core::end(core, task, Ok(()));
        }
        // SAFETY: as above.
        let core = unsafe { &mut *core.as_ptr() };
        core.ready = ReadyQueue { first: std::ptr::null_mut(), last: std::ptr::null_mut() };
    }
}

#[inline]
fn run_body(core: NonNull<Core>, task: &TaskCell, messages: usize) -> Result<Stop, String> {
    let pointer = std::ptr::from_ref(task).cast_mut();
    catch_unwind(AssertUnwindSafe(|| {
        let mut cx = Context::new(core, pointer, messages);
        // SAFETY: the task's own thread, and its body is not borrowed elsewhere.
        match unsafe { task.body() } {
            Some(body) => body.run(&mut cx),
            None => Stop::Ended,
        }
    }))
    .map_err(|panic| message_of(&*panic))
}

/// What a panic said.
pub(crate) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

/// Wakes a task of another worker or a blocking one.
pub(crate) fn wake_elsewhere(task: &TaskCell) {
    if task.in_inbox.swap(true, Ordering::AcqRel) {
        return;
    }
    if task.blocking {
        if let Some(thread) = task.thread.get() {
            thread.unpark();
        }
        return;
    }
    // SAFETY: `counted` gives a non-null pointer.
    send(unsafe { NonNull::new_unchecked(task.counted()) });
}

/// Puts a task, with the caller's reference, into its worker's inbox.
pub(crate) fn send(task: NonNull<TaskCell>) -> bool {
    // SAFETY: the caller's reference; the runtime's part is kept by the cell.
    let (worker, shared) = unsafe { (task.as_ref().worker(), task.as_ref().shared.clone()) };
    let sent = shared.inboxes[worker as usize].push(task);
    if !sent {
        // SAFETY: refused, so it is still ours.
        unsafe { TaskCell::release(task.as_ptr()) }
    }
    sent
}

/// Closes a writing end that no dispatch of this thread uses.
pub(crate) fn close_writer(ring: NonNull<Ring>) {
    with_any_core(ring, |ring, wake| {
        let waits = ring.close();
        if waits != AWAKE {
            // SAFETY: in the writer's section.
            if let Some(task) = unsafe { ring.reader.load(Ordering::SeqCst).as_ref() } {
                if waits == PORT_WAITS {
                    task.push_ready_port(ring);
                }
                wake(task);
            }
        }
        ring.leave_writer_section();
        ring.move_writer(None, own_name());
    });
}

/// Leaves a stream whose reading end no dispatch of this thread uses.
pub(crate) fn leave_reader(ring: NonNull<Ring>) {
    with_any_core(ring, |ring, wake| {
        let waits = ring.leave();
        if waits != AWAKE {
            // SAFETY: in the reader's section.
            if let Some(task) = unsafe { ring.writer.load(Ordering::SeqCst).as_ref() } {
                wake(task);
            }
        }
        ring.leave_reader_section();
        ring.move_reader(None, own_name());
    });
}

fn own_name() -> u32 {
    // SAFETY: the thread's own core, to which no other reference is held now.
    current().map_or(FOREIGN, |core| unsafe { core.as_ref() }.me)
}

fn with_any_core(ring: NonNull<Ring>, work: impl FnOnce(&Ring, &dyn Fn(&TaskCell))) {
    let wake = |task: &TaskCell| match current() {
        // SAFETY: the thread's own core, to which no other reference is held now.
        Some(core) => unsafe { &mut *core.as_ptr() }.wake(task),
        None => wake_elsewhere(task),
    };
    // SAFETY: the end's reference, given up below.
    work(unsafe { ring.as_ref() }, &wake);
    // SAFETY: as above.
    unsafe { Ring::release(ring.as_ptr()) }
}

/// How many messages a dispatch may take, so that it lasts about `exec.quantum_us`.
struct Budget {
    messages: usize,
    started: Option<(Instant, u64)>,
}

/// Dispatches between two looks at the clock.
const SAMPLE_EVERY: u32 = 16;

impl Budget {
    #[inline]
    fn start(task: &TaskCell, quantum: usize) -> Budget {
        let budget = task.budget.get();
        if budget == 0 {
            return Budget { messages: 1, started: Some((Instant::now(), done_by(task))) };
        }
        let left = task.until_sample.get();
        if left == 0 {
            let started = Some((Instant::now(), done_by(task)));
            return Budget { messages: quantum.min(budget as usize), started };
        }
        task.until_sample.set(left - 1);
        Budget { messages: quantum.min(budget as usize), started: None }
    }

    #[inline]
    fn finish(&self, task: &TaskCell) {
        let Some((started, done)) = self.started else { return };
        let messages = done_by(task) - done;
        if messages == 0 {
            return;
        }
        let each_ns = (started.elapsed().as_nanos() as u64 / messages).max(1);
        let fits = (task.shared.quantum_us() * 1000 / each_ns).clamp(1, u64::from(u32::MAX)) as u32;
        let before = task.budget.get();
        // Shorten at once, lengthen by at most a factor of eight: one quick message says little.
        let next = if before == 0 || fits < before { fits } else { fits.min(before.saturating_mul(8)) };
        task.budget.set(next);
        task.until_sample.set(SAMPLE_EVERY - 1);
    }
}

/// The work a task did, in messages: read, or written if it reads none.
#[inline]
fn done_by(task: &TaskCell) -> u64 {
    task.counts.reads.get().max(task.counts.writes.get())
}

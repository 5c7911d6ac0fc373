//! A worker: a thread that dispatches its ready tasks, spins a little when there are none, then sleeps.

use std::ptr::NonNull;
use std::sync::Arc;

use thalweg_space::{EVENT_NS, Space};

use crate::affinity::{self, Delays, Processor};
use crate::dispatch::Core;
use crate::events::{Recorder, WorkerEnded, WorkerResumed, WorkerStarted, WorkerWaiting};
use crate::moving::ASK_AFTER_NS;
use crate::observe::{ObservedTask, ShownStream, WorkerRow, WorkerState, put};
use crate::ring::Ring;
use crate::runtime::{Mode, Shared};
use crate::spare::Keeps;
use crate::sync::Ordering;
use crate::task::TaskCell;

/// Looks whether something came between two readings of the clock.
const LOOKS: u32 = 16;

/// So long a worker looks without a pause between two looks: one may take 140 cycles, as long as the way of a message.
const BARE_NS: u64 = 2_000;

/// Runs worker `number` until the runtime stops.
pub(crate) fn run(shared: Arc<Shared>, number: u32, recorder: Option<Recorder>) {
    let _kept = (Keeps::<TaskCell>::new(), Keeps::<Ring>::new(), shared.space.as_ref().map(keep_observed));
    // A refused pinning costs speed, not correctness.
    let pinned = shared.processor_of(number).filter(|processor| affinity::pin(processor.number).is_ok());
    let mut core = Core::new(shared.clone(), number, recorder);
    core.tell_worker_started(pinned);
    let core = NonNull::from(Box::leak(Box::new(core)));
    Core::with(core, || {
        work(core, &shared, number);
        Core::drop_tasks(core);
        close_inbox(core, &shared, number);
    });
    // SAFETY: the thread's own core; no user's code runs.
    unsafe { &mut *core.as_ptr() }.tell_worker_ended();
    // SAFETY: leaked above, and nobody else has it.
    drop(unsafe { Box::from_raw(core.as_ptr()) });
    shared.admission.falls_asleep();
}

/// Keeps what the space shows of tasks and streams to come.
fn keep_observed(space: &Space) -> impl Sized {
    (Keeps::<ObservedTask>::new(), Keeps::<ShownStream>::new(), space.keep_live_rows())
}

fn work(core: NonNull<Core>, shared: &Shared, number: u32) {
    let inbox = &shared.inboxes[number as usize];
    while !shared.stop.load(Ordering::Relaxed) {
        if !inbox.is_empty() {
            // SAFETY: the thread's own core; waking runs no user's code.
            unsafe { &mut *core.as_ptr() }.empty_inbox();
        }
        if shared.attention.load(Ordering::Relaxed) != 0 {
            // SAFETY: as above.
            unsafe { &mut *core.as_ptr() }.attend();
        }
        // SAFETY: as above.
        match unsafe { &mut *core.as_ptr() }.next_task() {
            Some(task) => Core::dispatch(core, task),
            // SAFETY: as above.
            None => unsafe { &mut *core.as_ptr() }.wait(number),
        }
    }
}

impl Core {
    /// Looks for about the price of a sleep whether something came, then sleeps.
    fn wait(&mut self, number: u32) {
        let before = self.own_work();
        self.adopt_mode();
        if self.parked {
            return self.wait_parked(before);
        }
        self.tell_waiting(number);
        self.shared.spreading.waits(number, before);
        let (asked, slept) = self.look_out(before);
        let now = self.clock();
        self.waited_since(before, asked);
        // What was kept before it slept was noticed, or was little.
        let kept = if slept && self.mode != Mode::Off { self.kept_of(now - before, 0) } else { 0 };
        self.waiting_ticks += now - before - kept;
        self.busy_base += now - before - kept;
        self.tell_kept(0, kept);
        self.shared.spreading.has_waited(number, self.waiting_ticks);
        self.tell_resumed(number);
    }

    /// Sleeps until something came, which may be that the worker takes part again.
    fn wait_parked(&mut self, before: u64) {
        if let Some(row) = &self.row {
            put(row, WorkerRow::TASK, 0);
        }
        self.sleep();
        let ticks = self.clock() - before;
        self.parked_ticks += ticks;
        self.busy_base += ticks;
        self.show_waits();
    }

    /// Returns when something came, or after a sleep: whether it said meanwhile that this worker is hungry, and whether it slept.
    fn look_out(&mut self, before: u64) -> (bool, bool) {
        let spin_ticks = self.shared.spin_ticks(self.recorder.as_mut());
        let ask_ticks = self.shared.clock.ns_to_ticks(ASK_AFTER_NS).min(spin_ticks);
        let bare_ticks = self.shared.clock.ns_to_ticks(BARE_NS);
        let (mut asked, mut waited) = (false, 0);
        while waited < spin_ticks {
            let bare = waited < bare_ticks;
            if (0..LOOKS).any(|_| self.something_came(bare)) {
                return (asked, false);
            }
            waited = self.shared.clock.now().saturating_sub(before);
            if waited >= ask_ticks && !asked {
                asked = self.ask(before);
            }
        }
        self.sleep();
        (asked, true)
    }

    fn sleep(&self) {
        let inbox = &self.shared.inboxes[self.worker as usize];
        inbox.dispatches.store(self.dispatches, Ordering::Relaxed);
        inbox.wait_for_room.store(self.wait_for_room, Ordering::Relaxed);
        inbox.sleep(&self.shared.stop);
    }

    /// Whether there is something to do; if not, lets the other thread of the same core go first, unless the wait is `bare`.
    #[inline]
    fn something_came(&self, bare: bool) -> bool {
        let inbox = &self.shared.inboxes[self.worker as usize];
        let came = !inbox.is_still_empty() || inbox.has_letters() || self.shared.stop.load(Ordering::Relaxed);
        if !came && !bare {
            std::hint::spin_loop();
        }
        came
    }

    fn tell_waiting(&mut self, worker: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(row) = &self.row {
            put(row, WorkerRow::STATE, WorkerState::Waiting as u64);
            put(row, WorkerRow::TASK, 0);
        }
        if self.mode == Mode::Full {
            recorder.at(self.now, &WorkerWaiting { worker });
        }
    }

    fn tell_resumed(&mut self, worker: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(row) = &self.row {
            put(row, WorkerRow::STATE, WorkerState::Running as u64);
        }
        if self.mode == Mode::Full {
            recorder.at(self.now, &WorkerResumed { worker });
        }
        if self.mode != Mode::Off {
            self.show_waits();
        }
    }

    /// Shows all of the worker's time.
    fn show_waits(&self) {
        if let Some(row) = &self.row {
            put(row, WorkerRow::WAITING_TICKS, self.waiting_ticks);
            put(row, WorkerRow::PARKED_TICKS, self.parked_ticks);
        }
        self.show_worker();
    }

    fn tell_worker_started(&mut self, pinned: Option<Processor>) {
        let Some(recorder) = &mut self.recorder else { return };
        let core = pinned.map_or(-1, |processor| processor.number as i64);
        let node = pinned.and_then(|processor| processor.node).map_or(-1, |node| node as i64);
        let clock_reading_ps = (self.shared.clock.reading_ns() * 1e3) as u64;
        let row = self.shared.live_row(|rows| rows.worker, u64::from(self.worker));
        if let Some(row) = &row {
            put(row, WorkerRow::CORE, core as u64);
            put(row, WorkerRow::STARTED, self.now);
            put(row, WorkerRow::CLOCK_READING_PS, clock_reading_ps);
        }
        self.row = row;
        self.delays = Delays::of_this_thread();
        self.telling_ticks = self.shared.clock.ns_to_ticks(EVENT_NS + clock_reading_ps / 1000);
        recorder.at(self.now, &WorkerStarted { worker: self.worker, core, node, clock_reading_ps });
    }

    fn tell_worker_ended(&mut self) {
        let now = self.own_work();
        self.show_waits();
        if self.mode != Mode::Off {
            self.tell_used();
        }
        if let Some(row) = &self.row {
            put(row, WorkerRow::STATE, WorkerState::Ended as u64);
            put(row, WorkerRow::TASK, 0);
        }
        let busy_ticks = self.busy_ticks();
        let Some(recorder) = &mut self.recorder else { return };
        let ended = WorkerEnded {
            worker: self.worker,
            busy_ticks,
            waiting_ticks: self.waiting_ticks,
            own_ticks: self.own_ticks,
            kept_ticks: self.kept_ticks,
        };
        recorder.at(now, &ended);
    }
}

/// Refuses more tasks and drops those that never ran.
fn close_inbox(core: NonNull<Core>, shared: &Shared, number: u32) {
    let inbox = &shared.inboxes[number as usize];
    for task in inbox.shut() {
        // SAFETY: the thread's own core; adopting runs no user's code. The inbox's reference is ours.
        unsafe {
            let core = &mut *core.as_ptr();
            match task.as_ref().state.get() {
                crate::task::State::New | crate::task::State::Moving => core.adopt(task),
                _ => crate::task::TaskCell::release(task.as_ptr()),
            }
        }
    }
    Core::drop_tasks(core);
}

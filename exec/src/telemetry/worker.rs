//! The telemetry's calls for the moments of a worker: when it begins, waits, is parked and ends.

use thalweg_space::EVENT_NS;

use super::kinds::{WorkerEnded, WorkerParked, WorkerResumed, WorkerStarted, WorkerUnparked, WorkerWaiting};
use super::mode::Mode;
use super::rows::{Cells, WorkerRow, WorkerState, put};
use super::thread::Telemetry;
use super::threads::Watched;
use crate::affinity::{Delays, Processor};

impl Telemetry {
    /// Records that the worker begins to work; `pinned` is the processor to which it is bound.
    pub(crate) fn worker_begins(&mut self, pinned: Option<Processor>) {
        let worker = self.worker_number();
        let Some(recorder) = &mut self.recorder else { return };
        let core = pinned.map_or(-1, |processor| processor.number as i64);
        let node = pinned.and_then(|processor| processor.node).map_or(-1, |node| node as i64);
        let clock_reading_ps = (self.board.clock.reading_ns() * 1e3) as u64;
        let row = self.board.live_row(|rows| rows.worker, u64::from(worker));
        let row = row.map(|row| Cells::new(Some(row)));
        if let Some(row) = &row {
            put(row, WorkerRow::CORE, core as u64);
            put(row, WorkerRow::STARTED, self.now.ticks);
            put(row, WorkerRow::CLOCK_READING_PS, clock_reading_ps);
        }
        self.watched = row
            .as_ref()
            .and_then(|row| row.seen_row())
            .map(|row| Watched::worker(&self.board.threads, worker, row));
        self.row = row;
        self.account.delays = Delays::of_this_thread();
        self.telling_ticks = self.board.clock.ns_to_ticks(EVENT_NS + clock_reading_ps / 1000);
        recorder.at(self.now.ticks, &WorkerStarted { worker, core, node, clock_reading_ps });
    }

    /// Records that the worker found no ready task.
    pub(crate) fn worker_waits(&mut self) {
        let worker = self.worker_number();
        self.show(WorkerState::Waiting);
        self.show_no_task();
        let trail = self.watched.as_ref().and_then(|watched| watched.trail.as_ref());
        if let (Some(trail), Some(last)) = (trail, self.dispatches().checked_sub(1)) {
            trail.idles(last, self.now.ticks);
        }
        if let (Some(recorder), true) = (&mut self.recorder, self.mode == Mode::Full) {
            recorder.at(self.now.ticks, &WorkerWaiting { worker });
        }
    }

    /// Records that the worker has waited from `before` until the clock's last reading; `slept` says whether
    /// it slept. Returns the length of the wait.
    pub(crate) fn worker_has_waited(&mut self, before: u64, slept: bool) -> u64 {
        let waited = self.now.ticks - before;
        // The kernel is asked only after a sleep. If the worker did not sleep, time without a processor was
        // recorded already or was short.
        let kept = if slept && self.measures() { self.kept_of(waited, 0) } else { 0 };
        self.account.waited(waited - kept);
        self.write_kept(0, kept);
        let worker = self.worker_number();
        self.show(WorkerState::Running);
        if let Some(recorder) = &mut self.recorder {
            if self.mode == Mode::Full {
                recorder.at(self.now.ticks, &WorkerResumed { worker });
            }
            if self.mode != Mode::Off {
                self.show_waits();
            }
        }
        self.account.waiting_ticks
    }

    /// Notes that the parked worker is about to sleep.
    pub(crate) fn worker_sleeps_parked(&self) {
        self.show_no_task();
    }

    /// Notes that the worker has slept since `before` while it was parked.
    pub(crate) fn worker_has_slept_parked(&mut self, before: u64) {
        let ticks = self.clock() - before;
        self.account.parked(ticks);
        self.show_waits();
    }

    /// Records that the worker is parked from now on, or takes part again.
    pub(crate) fn worker_parks(&mut self, parked: bool) {
        let (now, worker) = (self.own_work(), self.worker_number());
        self.show(if parked { WorkerState::Parked } else { WorkerState::Running });
        if let Some(row) = &self.row {
            put(row, WorkerRow::UPDATED, now);
        }
        let Some(recorder) = &mut self.recorder else { return };
        match parked {
            true => recorder.at(now, &WorkerParked { worker }),
            false => recorder.at(now, &WorkerUnparked { worker }),
        }
    }

    /// Records that the worker has ended.
    pub(crate) fn worker_ends(&mut self) {
        let now = self.own_work();
        self.show_waits();
        if self.measures() {
            self.thread_used(0);
        }
        self.show(WorkerState::Ended);
        self.show_no_task();
        let (busy_ticks, worker) = (self.account.busy_ticks(now), self.worker_number());
        let Some(recorder) = &mut self.recorder else { return };
        let ended = WorkerEnded {
            worker,
            busy_ticks,
            waiting_ticks: self.account.waiting_ticks,
            own_ticks: self.account.own_ticks,
            kept_ticks: self.account.kept_ticks,
        };
        recorder.at(now, &ended);
    }

    fn show(&self, state: WorkerState) {
        if let Some(row) = &self.row {
            put(row, WorkerRow::STATE, state as u64);
        }
    }

    fn show_no_task(&self) {
        if let Some(row) = &self.row {
            put(row, WorkerRow::TASK, 0);
        }
    }

    /// Writes all of the worker's times to its row.
    fn show_waits(&self) {
        if let Some(row) = &self.row {
            put(row, WorkerRow::WAITING_TICKS, self.account.waiting_ticks);
            put(row, WorkerRow::PARKED_TICKS, self.account.parked_ticks);
        }
        self.show_worker();
    }

    /// Writes the worker's busy time until now to its row; a wait is written when it ends.
    pub(super) fn show_worker(&self) {
        let (Some(row), Some(recorder)) = (&self.row, &self.recorder) else { return };
        put(row, WorkerRow::BUSY_TICKS, self.account.busy_ticks(self.now.ticks));
        put(row, WorkerRow::UPDATED, self.now.ticks);
        put(row, WorkerRow::DISPATCHES, self.dispatches());
        put(row, WorkerRow::EVENTS, recorder.writer.sequence());
    }
}

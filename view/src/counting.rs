//! The sums of a timeline from the counters in the live table, for a run that records more events than are
//! read.
//!
//! A task's four totals grow without gaps: their sum is the time since the task was created, up to the end of
//! its last dispatch. So the growth since the last look fills the lane from where it ended then, and the
//! row's state says what the task has done since. Within the time between two looks the order of states is
//! not known, and each cell gets its share of each state.

use thalweg_monitor::{IdMap, LiveRow, LiveState};

use crate::levels::KnownTask;
use crate::summary::{Cell, State, Summary};
use crate::timeline::{Span, Timeline};

/// The spans of a dispatch: it runs, and before that it waits and is ready.
const SPANS_A_DISPATCH: u64 = 3;

/// The counters of a lane when they were read last, and the time up to which the lane is summed.
#[derive(Clone, Copy)]
struct Counted {
    ticks: Cell,
    dispatches: u64,
    until: u64,
}

impl Counted {
    /// Adds to a lane what its counters have grown by, up to `now` at most. Returns the time from which on
    /// nothing is known.
    fn go_on(&mut self, ticks: Cell, dispatches: u64, now: u64, summary: &mut Summary) -> u64 {
        let mut grown = ticks;
        grown.iter_mut().zip(&self.ticks).for_each(|(now, before)| *now = now.saturating_sub(*before));
        let sum = grown.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        let end = self.until.saturating_add(sum).min(now);
        let spans = dispatches.saturating_sub(self.dispatches).saturating_mul(SPANS_A_DISPATCH);
        summary.add_parts(grown, self.until, end, spans);
        *self = Counted { ticks, dispatches, until: end.max(self.until) };
        self.until
    }
}

/// The counters of all lanes.
#[derive(Default)]
pub(crate) struct Counting {
    tasks: IdMap<Counted>,
    workers: IdMap<Counted>,
}

impl Timeline {
    /// Adds the growth of the counters in these rows of the live table, read at the tick `now`. From the
    /// first call on, events are not summed, until [`Timeline::sum_events`] is called.
    pub fn count(&mut self, rows: &[LiveRow], now: u64) {
        let begin = *self.begin.get_or_insert(now);
        let mut counting = match self.counting.take() {
            Some(counting) => counting,
            None => {
                self.close(now);
                Counting::default()
            }
        };
        self.open.clear();
        for row in rows {
            match *row {
                LiveRow::Task { task, state, component, replica, worker, totals } if task != 0 => {
                    let worker = (worker < u64::from(u32::MAX)).then_some(worker);
                    let known = KnownTask { id: task, component, replica: Some(replica), worker };
                    let Some(lane) = self.lane(known, begin) else { continue };
                    let of = &mut self.lanes[lane as usize];
                    of.worker = worker;
                    let ticks = [
                        totals.busy_ticks,
                        totals.input_wait_ticks,
                        totals.output_wait_ticks,
                        totals.ready_ticks,
                    ];
                    let dispatches = totals.counts.map_or(0, |counts| counts.dispatches);
                    let new = Counted { ticks, dispatches, until: now };
                    let counted = counting.tasks.entry(task).or_insert(new);
                    let start = counted.go_on(ticks, dispatches, now, &mut of.summary);
                    let state = match state {
                        LiveState::Running => State::Busy,
                        LiveState::BlockedInput => State::Starved,
                        LiveState::BlockedOutput => State::Blocked,
                        LiveState::Idle | LiveState::Ready => State::Ready,
                        LiveState::Ended => continue,
                    };
                    if start < now && of.replica.is_some() {
                        self.open.push(Span::going(lane, state, worker, start, now));
                    }
                }
                LiveRow::Worker { worker, busy_ticks, waiting_ticks, dispatches, .. } => {
                    let ticks = [busy_ticks, waiting_ticks, 0, 0];
                    let new = Counted { ticks, dispatches, until: now };
                    let summary = self.worker(worker, begin);
                    counting.workers.entry(worker).or_insert(new).go_on(ticks, dispatches, now, summary);
                }
                _ => {}
            }
        }
        self.end = self.end.max(now);
        self.counting = Some(counting);
    }

    /// Sums events again, from the tick `now` on.
    pub fn sum_events(&mut self, now: u64) {
        if self.counting.take().is_some() {
            self.close(now);
        }
    }

    /// Ends all spans at the tick `now`, and forgets single spans: later spans are not complete before `now`.
    fn close(&mut self, now: u64) {
        for span in std::mem::take(&mut self.open).iter().filter(|span| span.goes_on) {
            self.lanes[span.lane as usize].summary.add(span.state, span.start, now);
        }
        self.workers.values_mut().for_each(|worker| worker.waiting_since = None);
        self.spans.clear();
        self.fresh = 0;
        self.counted_until = now;
        self.dropped_until = self.dropped_until.max(Some(now));
    }
}

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
    /// Adds to a lane what its counters have grown by, up to `now` at most. `until` is the time up to which the
    /// counters count; if it is `None`, they count all time. Returns the time from which on nothing is known.
    fn go_on(
        &mut self,
        ticks: Cell,
        dispatches: u64,
        until: Option<u64>,
        now: u64,
        summary: &mut Summary,
    ) -> u64 {
        let mut grown = ticks;
        grown.iter_mut().zip(&self.ticks).for_each(|(now, before)| *now = now.saturating_sub(*before));
        let sum = grown.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        let end = until.unwrap_or(self.until.saturating_add(sum)).min(now);
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
                    let start = counted.go_on(ticks, dispatches, None, now, &mut of.summary);
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
                LiveRow::Worker { worker, busy_ticks, waiting_ticks, dispatches, updated, .. } => {
                    let ticks = [busy_ticks, waiting_ticks, 0, 0];
                    let new = Counted { ticks, dispatches, until: now };
                    let summary = self.worker(worker, begin);
                    let counted = counting.workers.entry(worker).or_insert(new);
                    // A worker's own work, and the time without a processor, are counted nowhere.
                    counted.go_on(ticks, dispatches, Some(updated), now, summary);
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;
    use thalweg_monitor::{TaskCounts, TaskTotals};

    /// A task that the test runs: its totals, and its state since they were published.
    struct Ran {
        id: u64,
        totals: Cell,
        dispatches: u64,
        /// The state, and the time since which it lasts.
        state: State,
        since: u64,
    }

    impl Ran {
        fn row(&self) -> LiveRow {
            let [busy_ticks, input_wait_ticks, output_wait_ticks, ready_ticks] = self.totals;
            let counts = Some(TaskCounts { dispatches: self.dispatches, reads: 0, writes: 0 });
            let totals = TaskTotals { busy_ticks, input_wait_ticks, output_wait_ticks, ready_ticks, counts };
            let state = match self.state {
                State::Busy => LiveState::Running,
                State::Starved => LiveState::BlockedInput,
                State::Blocked => LiveState::BlockedOutput,
                State::Ready => LiveState::Ready,
            };
            LiveRow::Task { task: self.id, state, component: self.id, replica: 0, worker: 0, totals }
        }

        /// Ends the present state at `time`, and begins another one. A dispatch publishes what was before it.
        fn go_on(&mut self, time: u64, chance: &mut Chance) {
            self.totals[self.state as usize] += time - self.since;
            self.since = time;
            self.dispatches += u64::from(self.state == State::Busy);
            self.state =
                [State::Busy, State::Starved, State::Blocked, State::Ready][chance.below(4) as usize];
        }
    }

    /// The time that a lane's summary has in each state.
    fn sums(timeline: &Timeline, lane: usize) -> Cell {
        let mut sums = Cell::default();
        for cell in timeline.lanes[lane].summary.cells() {
            sums.iter_mut().zip(cell).for_each(|(sum, part)| *sum += part);
        }
        sums
    }

    #[test]
    fn lanes_summed_from_counters_have_all_time_of_their_tasks_once() {
        let mut chance = Chance::new(29);
        for _ in 0..50 {
            let mut timeline = Timeline::new(100).remembering();
            let begin = 1_000_000;
            let mut tasks: Vec<Ran> = (1..=3)
                .map(|id| Ran { id, totals: [id, 7, 0, 9], dispatches: 1, state: State::Ready, since: begin })
                .collect();
            let before: Vec<Cell> = tasks.iter().map(|task| task.totals).collect();
            let mut now = begin;
            for look in 0..chance.below(20) + 2 {
                let rows: Vec<LiveRow> = tasks.iter().map(Ran::row).collect();
                timeline.count(&rows, now);
                for (lane, (task, before)) in tasks.iter().zip(&before).enumerate() {
                    let want: Vec<u64> =
                        task.totals.iter().zip(before).map(|(now, before)| now - before).collect();
                    assert_eq!(sums(&timeline, lane)[..], want, "look {look}");
                    // What has not ended is drawn up to the present.
                    let open = timeline.open.iter().find(|span| span.lane as usize == lane);
                    let drawn = open.map_or(0, |span| now - span.start);
                    assert_eq!(want.iter().sum::<u64>() + drawn, now - begin, "look {look}");
                    assert!(open.is_none_or(|span| span.state == task.state));
                }
                // One task stays in its state for long.
                for task in &mut tasks[..2] {
                    for _ in 0..chance.below(5) {
                        let time = task.since + chance.below(9_000);
                        task.go_on(time, &mut chance);
                    }
                }
                let last = tasks.iter().map(|task| task.since).max().unwrap_or(now);
                now = now.max(last) + chance.below(100);
            }
            // When events are summed again, the states that have not ended are complete up to that time.
            let rows: Vec<LiveRow> = tasks.iter().map(Ran::row).collect();
            timeline.count(&rows, now);
            timeline.sum_events(now);
            for lane in 0..3 {
                let drawn = sums(&timeline, lane).iter().sum::<u64>();
                assert_eq!(drawn, now - begin, "lane {lane}");
            }
            assert!(timeline.open.is_empty() && timeline.spans.is_empty());
        }
    }

    #[test]
    fn counters_that_jump_fill_no_more_than_the_time_between_two_looks() {
        let mut timeline = Timeline::new(100).remembering();
        let row = |totals, since| Ran { id: 1, totals, dispatches: 5, state: State::Busy, since }.row();
        timeline.count(&[row([5, 5, 5, 5], 1000)], 1000);
        // The counters are read one after the other, and may be damaged.
        timeline.count(&[row([u64::MAX, 5, 5, u64::MAX], 1000)], 2000);
        timeline.count(&[row([0, 0, 0, 0], 1000)], 3000);
        assert!(sums(&timeline, 0).iter().sum::<u64>() <= 2000);
        assert_eq!(timeline.end, 3000);
    }
}

//! A task's time, from its events: every moment is running, waiting for messages, waiting for room, or ready.

use crate::lineage::Outcome;
use crate::observation::{TaskCounts, TaskTotals};

/// What a task was doing since its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Ready to run: created, or its quantum was spent.
    Ready,
    /// Waiting for messages of this stream (0: several).
    InputWait(u64),
    /// Waiting for room in this stream (0: several).
    OutputWait(u64),
}

/// Ticks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskTicks {
    pub(crate) busy: u64,
    pub(crate) input_wait: u64,
    pub(crate) output_wait: u64,
    pub(crate) ready: u64,
}

impl TaskTicks {
    pub(crate) fn sum(&self) -> u64 {
        self.busy.saturating_add(self.input_wait).saturating_add(self.output_wait).saturating_add(self.ready)
    }

    pub(crate) fn add(&mut self, other: &TaskTicks) {
        self.busy = self.busy.saturating_add(other.busy);
        self.input_wait = self.input_wait.saturating_add(other.input_wait);
        self.output_wait = self.output_wait.saturating_add(other.output_wait);
        self.ready = self.ready.saturating_add(other.ready);
    }
}

impl From<&TaskTotals> for TaskTicks {
    fn from(totals: &TaskTotals) -> TaskTicks {
        TaskTicks {
            busy: totals.busy_ticks,
            input_wait: totals.input_wait_ticks,
            output_wait: totals.output_wait_ticks,
            ready: totals.ready_ticks,
        }
    }
}

/// A wait that ended: for which stream, how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The stream was empty this long.
    Empty(u64, u64),
    /// The stream was full this long.
    Full(u64, u64),
}

/// A task that exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) component: u64,
    pub(crate) replica: u64,
    pub(crate) worker: Option<u64>,
    pub(crate) blocking: bool,
    /// Streams it was seen to read, and to write.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    /// When and since what the timeline is known.
    since: Option<(u64, Doing)>,
    /// First and last time it was made ready since its last dispatch began.
    ready_first: Option<u64>,
    ready_last: Option<u64>,
    /// From events.
    pub(crate) ticks: TaskTicks,
    pub(crate) counts: TaskCounts,
    pub(crate) failed: u64,
    /// From the live table.
    pub(crate) totals: Option<TaskTotals>,
    pub(crate) running: bool,
}

impl Task {
    pub(crate) fn created(&mut self, time: u64) {
        self.since = Some((time, Doing::Ready));
    }

    pub(crate) fn made_ready(&mut self, time: u64) {
        if self.ready_first.is_none() {
            self.ready_first = Some(time);
        }
        self.ready_last = Some(time);
    }

    /// A dispatch from `start` to `end`. Returns the wait it ended.
    pub(crate) fn dispatched(&mut self, start: u64, end: u64, doing: Doing) -> Option<Waited> {
        let waited = self.until(start);
        let begun = self.since.map_or(start, |(since, _)| since.max(start));
        self.ticks.busy += end.saturating_sub(begun);
        self.since = Some((end.max(begun), doing));
        waited
    }

    /// The timeline goes on to `time` in the state it was in. Returns the wait that this was.
    pub(crate) fn until(&mut self, time: u64) -> Option<Waited> {
        // Woken before the wait began, the task was notified while it ran.
        let ready = self.ready_first.filter(|&ready| ready <= time);
        self.ready_first = self.ready_last.filter(|&last| last > time);
        self.ready_last = self.ready_first;
        let (since, doing) = self.since?;
        let time = time.max(since);
        let woken = ready.map_or(time, |ready| ready.clamp(since, time));
        self.since = Some((time, doing));
        let wait = woken - since;
        let waited = match doing {
            Doing::Ready => {
                self.ticks.ready += time - since;
                return None;
            }
            Doing::InputWait(stream) => {
                self.ticks.input_wait += wait;
                Waited::Empty(stream, wait)
            }
            Doing::OutputWait(stream) => {
                self.ticks.output_wait += wait;
                Waited::Full(stream, wait)
            }
        };
        self.ticks.ready += time - woken;
        Some(waited)
    }

    /// The run ended or is looked at while the task exists.
    pub(crate) fn close(&mut self, time: u64) -> Option<Waited> {
        if self.running
            && let Some((since, _)) = self.since
        {
            let start = self.ready_last.map_or(since, |ready| ready.max(since)).min(time.max(since));
            let waited = self.until(start);
            self.ticks.busy += time.saturating_sub(start);
            self.since = Some((time.max(start), Doing::Ready));
            return waited;
        }
        self.until(time)
    }

    /// A word for what it was doing at the end.
    pub(crate) fn state(&self) -> &'static str {
        match self.since {
            _ if self.running => "running",
            Some((_, Doing::InputWait(_))) if self.ready_first.is_none() => "waiting for input",
            Some((_, Doing::OutputWait(_))) if self.ready_first.is_none() => "waiting for output",
            Some(_) => "ready",
            None => "unknown",
        }
    }
}

/// What a task does after a dispatch with this outcome on this stream.
pub(crate) fn doing_after(outcome: Outcome, stream: u64) -> Doing {
    match outcome {
        Outcome::BlockedInput => Doing::InputWait(stream),
        Outcome::BlockedOutput => Doing::OutputWait(stream),
        Outcome::Yielded | Outcome::Ended => Doing::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_split_at_the_moment_of_being_made_ready() {
        let mut task = Task::default();
        task.created(100);
        assert_eq!(task.dispatched(110, 150, Doing::InputWait(7)), None);
        task.made_ready(180);
        assert_eq!(task.dispatched(200, 230, Doing::OutputWait(8)), Some(Waited::Empty(7, 30)));
        // Notified while it ran (before the wait began): no wait at all.
        task.made_ready(225);
        assert_eq!(task.dispatched(240, 250, Doing::InputWait(0)), Some(Waited::Full(8, 0)));
        // Made ready twice, for this dispatch and during it.
        task.made_ready(255);
        task.made_ready(265);
        assert_eq!(task.dispatched(260, 270, Doing::InputWait(7)), Some(Waited::Empty(0, 5)));
        assert_eq!(task.dispatched(280, 281, Doing::Ready), Some(Waited::Empty(7, 0)));
        assert_eq!(
            task.ticks,
            TaskTicks {
                busy: 40 + 30 + 10 + 10 + 1,
                input_wait: 35,
                output_wait: 0,
                ready: 10 + 20 + 10 + 5 + 10
            }
        );
        assert_eq!(task.ticks.sum(), 281 - 100);
    }

    proptest! {
        /// Whatever a (disordered, overlapping) timeline tells, the four states cover it exactly once.
        #[test]
        fn states_cover_the_timeline(
            steps in prop::collection::vec((0u64..50, 0u64..50, 0u8..4, prop::option::of(0u64..120)), 1..60),
            running: bool,
        ) {
            let mut task = Task::default();
            task.created(1000);
            let mut now = 1000u64;
            for (gap, duration, doing, ready) in steps {
                if let Some(ready) = ready {
                    task.made_ready((now + ready).saturating_sub(20));
                }
                let doing = match doing {
                    0 => Doing::Ready,
                    1 => Doing::InputWait(3),
                    2 => Doing::OutputWait(4),
                    _ => Doing::InputWait(0),
                };
                let start = (now + gap).saturating_sub(5);
                let end = start + duration;
                task.dispatched(start, end, doing);
                now = now.max(end);
                prop_assert_eq!(task.ticks.sum(), now - 1000);
            }
            task.running = running;
            task.close(now + 77);
            prop_assert_eq!(task.ticks.sum(), now + 77 - 1000);
        }
    }
}

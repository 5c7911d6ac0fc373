//! A task's timeline, from its events: at every moment the task is running, waiting for messages, waiting for
//! room, or ready.

use crate::composing::dispatch::{For, Outcome, Wait};

/// The state of a task since its last dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doing {
    pub(crate) what: For,
    /// The stream that the task waits for; 0 for any of several.
    pub(crate) stream: u64,
}

impl Doing {
    /// The state of a task after a dispatch with this outcome on this stream.
    pub(crate) fn after(outcome: Outcome, stream: u64) -> Doing {
        match outcome {
            Outcome::BlockedInput => Doing { what: For::Input, stream },
            Outcome::BlockedOutput => Doing { what: For::Room, stream },
            Outcome::Yielded | Outcome::Ended => Doing { what: For::Turn, stream: 0 },
        }
    }
}

/// The time at which a task was made ready, and the stream that made it ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Woken {
    time: u64,
    by_stream: u64,
}

/// A task's state, and the time up to which it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    /// The end of the known timeline, and the state since then.
    since: Option<(u64, Doing)>,
    /// The first time that the task was made ready since its last dispatch began; `last` is the last time.
    first: Option<Woken>,
    last: Option<Woken>,
}

impl Timeline {
    /// Begins the timeline at the task's creation. Of a task that is followed live, a dispatch may be read before the
    /// creation, which another worker recorded; what is known of later moments stays.
    pub(crate) fn created(&mut self, time: u64) {
        self.since.get_or_insert((time, Doing::after(Outcome::Yielded, 0)));
    }

    /// Whether the task waits for `stream`, as far as is known.
    pub(crate) fn waits_for(&self, stream: u64) -> bool {
        self.since.is_some_and(|(_, doing)| doing.stream == stream)
    }

    pub(crate) fn made_ready(&mut self, time: u64, by_stream: u64) {
        let woken = Woken { time, by_stream };
        self.first.get_or_insert(woken);
        self.last = Some(woken);
    }

    /// Records a dispatch from `start` to `end`. Returns the dispatch's start, corrected so that dispatches
    /// do not overlap, and the wait that the dispatch ended.
    pub(crate) fn dispatched(
        &mut self,
        task: u64,
        start: u64,
        end: u64,
        doing: Doing,
    ) -> (u64, Option<Wait>) {
        let wait = self.until(task, start);
        let begun = self.since.map_or(start, |(since, _)| since.max(start));
        self.since = Some((end.max(begun), doing));
        (begun.min(end), wait)
    }

    /// Extends the timeline to `time`, as if the task's present state lasted until then. Returns this state
    /// as a wait.
    pub(crate) fn until(&mut self, task: u64, time: u64) -> Option<Wait> {
        // A wake-up may have come before the wait began, while the task ran; its time is then moved to the
        // wait's beginning.
        let ready = self.first.filter(|woken| woken.time <= time);
        self.first = self.last.filter(|last| last.time > time);
        self.last = self.first;
        let (since, doing) = self.since?;
        let until = time.max(since);
        self.since = Some((until, doing));
        let woken = match doing.what {
            For::Turn => since,
            _ => ready.map_or(until, |ready| ready.time.clamp(since, until)),
        };
        let by = ready.map_or(0, |ready| ready.by_stream);
        let certain = doing.stream != 0;
        let stream = if certain || doing.what == For::Turn { doing.stream } else { by };
        Some(Wait {
            task,
            what: doing.what,
            stream,
            certain,
            since,
            woken,
            until,
            ended: ready.is_some(),
            cut: false,
        })
    }

    /// The wait that lasts at `time`, as if it ended then; if the task is running, its last wait, and the
    /// start of its present dispatch.
    pub(crate) fn open(&self, task: u64, time: u64, running: bool) -> (Option<Wait>, Option<u64>) {
        let mut now = *self;
        match self.since {
            Some((since, _)) if running => {
                let last = self.last.map_or(since, |woken| woken.time.max(since));
                let start = last.min(time.max(since));
                (now.until(task, start), Some(start))
            }
            _ => (now.until(task, time), None),
        }
    }

    /// The present state, the time since which it lasts, and whether the task has been made ready since its
    /// last dispatch began.
    pub(crate) fn now(&self) -> Option<(u64, Doing, bool)> {
        self.since.map(|(since, doing)| (since, doing, self.first.is_some()))
    }

    /// Sets the state from `time` on, because the events that recorded it were not read. A state of which
    /// events later than `unread` are known stays as it is.
    pub(crate) fn learn(&mut self, unread: u64, time: u64, what: For) {
        if self.since.is_none_or(|(since, _)| since <= unread) {
            *self = Timeline { since: Some((time, Doing { what, stream: 0 })), ..Timeline::default() };
        }
    }

    /// Restarts the measurement at `time`: the timeline before `time` is not reported.
    pub(crate) fn restart(&mut self, time: u64) {
        if let Some((since, doing)) = self.since {
            self.since = Some((since.max(time), doing));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn doing(what: For, stream: u64) -> Doing {
        Doing { what, stream }
    }

    #[test]
    fn waits_split_at_the_moment_of_being_made_ready() {
        let mut task = Timeline::default();
        let parts =
            |wait: Option<Wait>| wait.map(|w| (w.what, w.stream, w.woken - w.since, w.until - w.woken));
        task.created(100);
        let (_, wait) = task.dispatched(1, 110, 150, doing(For::Input, 7));
        assert_eq!(parts(wait), Some((For::Turn, 0, 0, 10)));
        task.made_ready(180, 7);
        let (_, wait) = task.dispatched(1, 200, 230, doing(For::Room, 8));
        assert_eq!(parts(wait), Some((For::Input, 7, 30, 20)));
        // If a task is made ready while it still runs, it waits for nothing afterwards but its worker.
        task.made_ready(225, 8);
        let (_, wait) = task.dispatched(1, 240, 250, doing(For::Input, 0));
        assert_eq!(parts(wait), Some((For::Room, 8, 0, 10)));
        // The task waited for any of several streams, and was made ready before its dispatch began and again
        // during the dispatch.
        task.made_ready(255, 5);
        task.made_ready(265, 6);
        let (_, wait) = task.dispatched(1, 260, 270, doing(For::Input, 7));
        assert_eq!(parts(wait), Some((For::Input, 5, 5, 5)));
        let (_, wait) = task.dispatched(1, 280, 281, doing(For::Turn, 0));
        assert_eq!(parts(wait), Some((For::Input, 7, 0, 10)));
    }

    #[test]
    fn a_creation_that_is_read_late_does_not_make_the_known_time_a_wait_again() {
        let mut task = Timeline::default();
        assert_eq!(task.dispatched(1, 110, 150, doing(For::Input, 7)), (110, None));
        task.created(100);
        let (wait, running) = task.open(1, 180, false);
        assert_eq!((wait.map(|wait| (wait.since, wait.until)), running), (Some((150, 180)), None));
    }

    #[test]
    fn a_state_is_learnt_where_the_events_that_recorded_it_were_not_read() {
        let state = |task: &Timeline| task.since;
        let mut task = Timeline::default();
        task.learn(0, 500, For::Room);
        assert_eq!(state(&task), Some((500, doing(For::Room, 0))), "nothing was known");
        task.dispatched(1, 600, 650, doing(For::Input, 7));
        task.made_ready(660, 7);
        task.learn(640, 700, For::Room);
        assert_eq!(state(&task), Some((650, doing(For::Input, 7))), "later events are known");
        task.learn(650, 800, For::Turn);
        assert_eq!(state(&task), Some((800, doing(For::Turn, 0))), "later events were not read");
        let (_, wait) = task.dispatched(1, 900, 950, doing(For::Input, 7));
        let wait = wait.unwrap();
        assert_eq!((wait.what, wait.since, wait.woken, wait.until), (For::Turn, 800, 800, 900));
    }

    proptest! {
        /// Whatever events a timeline gets (also out of order, or overlapping), waits and dispatches cover
        /// the timeline exactly once.
        #[test]
        fn states_cover_the_timeline(
            steps in prop::collection::vec((0u64..50, 0u64..50, 0u8..4, prop::option::of(0u64..120)), 1..60),
            running: bool,
        ) {
            let mut task = Timeline::default();
            task.created(1000);
            let mut now = 1000u64;
            let mut sum = 0;
            let length = |wait: Option<Wait>| {
                let wait = wait.expect("the timeline is known");
                assert!(wait.since <= wait.woken && wait.woken <= wait.until);
                wait.until - wait.since
            };
            for (gap, duration, what, ready) in steps {
                if let Some(ready) = ready {
                    task.made_ready((now + ready).saturating_sub(20), 3);
                }
                let what = match what {
                    0 => doing(For::Turn, 0),
                    1 => doing(For::Input, 3),
                    2 => doing(For::Room, 4),
                    _ => doing(For::Input, 0),
                };
                let start = (now + gap).saturating_sub(5);
                let end = start + duration;
                let (begun, wait) = task.dispatched(1, start, end, what);
                sum += length(wait) + end.saturating_sub(begun);
                now = now.max(end);
                prop_assert_eq!(sum, now - 1000);
            }
            let (wait, since) = task.open(1, now + 77, running);
            sum += length(wait) + since.map_or(0, |since| now + 77 - since);
            prop_assert_eq!(sum, now + 77 - 1000);
        }
    }
}

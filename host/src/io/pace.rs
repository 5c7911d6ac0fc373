//! Pacing of a source: records enter at a rate, or at their recorded times.

use std::time::{Duration, Instant};

use thalweg_box::Value;
use thalweg_net::label::Label;
use thalweg_net::record::Record;

/// The longest delay after which a source still lets all records that are due enter at once.
const LATE_MAX: Duration = Duration::from_millis(100);
/// The interval at which a source that waits for a record's time checks whether the run should end.
const PATIENCE: Duration = Duration::from_millis(50);

/// The tag with the time at which a record entered, in nanoseconds since the run began.
pub(crate) fn recorded_at() -> Label {
    Label::tag("at_ns")
}

/// Admits records at a given rate.
pub(crate) struct Rate {
    period: Duration,
    next: Option<Instant>,
}

impl Rate {
    pub(crate) fn new(records_per_second: f64) -> Rate {
        // A rate of less than one record in a century counts as no rate.
        let period = Duration::try_from_secs_f64(1.0 / records_per_second).unwrap_or(Duration::MAX);
        Rate { period, next: None }
    }

    /// The time when the next record may enter; `None` if the first may enter now.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Counts a record that enters.
    pub(crate) fn spend(&mut self, now: Instant) {
        let due = self.next.unwrap_or(now);
        let from = if now.saturating_duration_since(due) > LATE_MAX { now } else { due };
        self.next = Some(later(from, self.period));
    }
}

/// The sum of a time and a duration; if it is beyond the range of clocks, a time that is never reached.
fn later(from: Instant, by: Duration) -> Instant {
    from.checked_add(by).unwrap_or(from + Duration::from_secs(u32::MAX.into()))
}

/// Admits records at the times in their tag, counted from the first record.
pub(crate) struct Replay {
    speed: f64,
    /// The moment when the first record entered, and the time in its tag.
    first: Option<(Instant, i64)>,
}

impl Replay {
    /// A replay at the given speed; 2 halves all intervals.
    pub(crate) fn new(speed: f64) -> Replay {
        Replay { speed, first: None }
    }

    /// Removes the record's tag with its time, and returns when the record may enter; `Err` if the record has
    /// no such tag.
    pub(crate) fn due(&mut self, record: &mut Record, now: Instant) -> Result<Instant, String> {
        let tag = recorded_at();
        let Some(Value::Int(at)) = record.remove(tag) else {
            return Err(format!("a record without {tag}; --replay reads what --record wrote"));
        };
        let (began, first) = *self.first.get_or_insert((now, at));
        let after = at.saturating_sub(first).max(0) as f64 / 1e9 / self.speed;
        let after = Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX);
        Ok(later(began, after))
    }
}

/// Sleeps until `due`, but at most for the interval at which a source checks whether the run should end.
pub(crate) fn sleep_towards(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()).min(PATIENCE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_short_delays_and_not_made_up_for_after_long_ones() {
        let mut rate = Rate::new(1000.0);
        let begin = Instant::now();
        let millis = |n| begin + Duration::from_millis(n);
        let mut enter = |now: Instant| {
            let enters = rate.due().is_none_or(|due| due <= now);
            if enters {
                rate.spend(now);
            }
            enters
        };
        assert!(enter(millis(0)));
        assert!(!enter(millis(0)));
        // After a delay of 5 ms, the records that were due in this time enter at once.
        assert_eq!((0..20).filter(|_| enter(millis(5))).count(), 5);
        // After a delay of a second, only one record enters.
        assert_eq!((0..20).filter(|_| enter(millis(1005))).count(), 1);
        let mut never = Rate::new(1e-300);
        never.spend(begin);
        assert!(never.due() > Some(millis(1_000_000_000)));
    }

    #[test]
    fn a_replay_keeps_the_recorded_distances() {
        let mut replay = Replay::new(2.0);
        let begin = Instant::now();
        let mut at = |ns| {
            let mut record =
                Record::from_pairs([(recorded_at(), Value::Int(ns)), (Label::field("x"), Value::Int(1))]);
            let due = replay.due(&mut record, begin).expect("it has a time");
            assert_eq!(record.to_string(), "{x=1}");
            due
        };
        assert_eq!(at(5_000_000), begin);
        assert_eq!(at(9_000_000), begin + Duration::from_millis(2));
        assert_eq!(at(1), begin);
        let mut bare = Record::from_pairs([(Label::field("x"), Value::Int(1))]);
        assert!(replay.due(&mut bare, begin).is_err());
    }
}

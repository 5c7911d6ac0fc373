//! The goal of tuning a run, and the limits that must hold during tuning.

use std::fmt;
use std::str::FromStr;

use thalweg_pack::Unit;

use super::seen::Seen;

/// The measure to improve. Goals other than throughput keep the rate that the user states, or else the rate
/// that the run had at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// More messages a second.
    #[default]
    Throughput,
    /// A shorter time of messages in the network, at the same rate.
    Latency,
    /// Less processor time per message, at the same rate.
    Processor,
    /// Fewer messages held in streams, at the same rate.
    Memory,
}

impl Goal {
    const ALL: [(Goal, &'static str); 4] = [
        (Goal::Throughput, "throughput"),
        (Goal::Latency, "latency"),
        (Goal::Processor, "processor"),
        (Goal::Memory, "memory"),
    ];

    /// The words for goals.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Goal::ALL.into_iter().map(|(_, word)| word)
    }

    /// The score of a window, where greater is better; `None` if the score is not known.
    pub fn score(self, seen: &Seen) -> Option<f64> {
        let score = match self {
            Goal::Throughput => seen.rate,
            Goal::Latency if seen.p99.is_finite() => 1.0 / seen.p99,
            Goal::Latency => 1.0 / seen.latency,
            Goal::Processor => seen.rate / seen.processors,
            Goal::Memory => 1.0 / (1.0 + seen.held),
        };
        (score.is_finite() && score > 0.0).then_some(score)
    }

    /// Says that the score is so many times that of before.
    pub(super) fn changed(self, times: f64) -> String {
        let (what, times) = match self {
            Goal::Throughput => ("the throughput", times),
            Goal::Latency => ("the latency", 1.0 / times),
            Goal::Processor => ("the processor time of a message", 1.0 / times),
            Goal::Memory => ("the number of messages in streams", 1.0 / times),
        };
        format!("{what} is {times:.2} times what it was")
    }

    /// Whether the goal is that messages wait less.
    pub(super) fn is_about_waiting(self) -> bool {
        matches!(self, Goal::Latency | Goal::Memory)
    }

    /// Whether keeping the rate is a condition of the goal, and not the goal itself.
    pub fn keeps_the_rate(self) -> bool {
        self != Goal::Throughput
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, word) = Goal::ALL.iter().find(|(goal, _)| goal == self).unwrap_or(&Goal::ALL[0]);
        f.write_str(word)
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Goal, String> {
        Goal::ALL.iter().find(|(_, word)| *word == text).map(|(goal, _)| *goal).ok_or_else(|| {
            let words: Vec<_> = Goal::words().collect();
            format!("`{text}` is no goal: there are {}", words.join(", "))
        })
    }
}

/// A limit that must not be broken: `p99<5ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    text: String,
    measure: Measure,
    /// Whether the measure must stay below the limit; otherwise it must stay above the limit.
    below: bool,
    limit: f64,
}

/// The measure that a guard limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Rate,
    Processors,
    Latency,
    P99,
    Memory,
    Held,
    Errors,
}

/// The measures by name, with their units.
const MEASURES: [(&str, Measure, &str); 7] = [
    ("rate", Measure::Rate, "/s"),
    ("processors", Measure::Processors, ""),
    ("latency", Measure::Latency, "ns"),
    ("p99", Measure::P99, "ns"),
    ("memory", Measure::Memory, "B"),
    ("held", Measure::Held, ""),
    ("errors", Measure::Errors, "/s"),
];

impl Measure {
    fn of(self, seen: &Seen) -> f64 {
        match self {
            Measure::Rate => seen.rate,
            Measure::Processors => seen.processors,
            Measure::Latency => seen.latency,
            Measure::P99 => seen.p99,
            Measure::Memory => seen.memory,
            Measure::Held => seen.held,
            Measure::Errors => seen.errors,
        }
    }
}

/// The judgement of a guard on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The guard holds.
    Holds,
    /// The guard is broken.
    Broken,
    /// The measure of the guard was not known in the window.
    Unknown,
}

impl Guard {
    /// A guard that the rate must be at least this high.
    pub fn rate_at_least(per_s: f64) -> Guard {
        Guard { text: format!("rate>{per_s:.0}"), measure: Measure::Rate, below: false, limit: per_s }
    }

    /// Whether the guard needs the latencies of single messages to be measured.
    pub fn needs_messages(&self) -> bool {
        self.measure == Measure::P99
    }

    /// Whether the guard needs the number of failed records.
    pub fn needs_failures(&self) -> bool {
        self.measure == Measure::Errors
    }

    /// Judges a window.
    pub fn judge(&self, seen: &Seen) -> Judged {
        let value = self.measure.of(seen);
        match (value.is_nan(), self.below) {
            (true, _) => Judged::Unknown,
            (_, true) if value < self.limit => Judged::Holds,
            (_, false) if value > self.limit => Judged::Holds,
            _ => Judged::Broken,
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Guard {
    type Err = String;

    fn from_str(text: &str) -> Result<Guard, String> {
        let names = || MEASURES.map(|(name, ..)| name).join(", ");
        let Some(at) = text.find(['<', '>']) else {
            return Err(format!(
                "`{text}` is no guard: write one as p99<5ms, with <, or > for a least value"
            ));
        };
        let (name, value) = (text[..at].trim(), text[at + 1..].trim());
        let Some((_, measure, unit)) = MEASURES.iter().find(|(known, ..)| *known == name) else {
            return Err(format!("`{name}` is not measured: a guard speaks of {}", names()));
        };
        let split =
            value.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_')).unwrap_or(value.len());
        let (number, written) = (value[..split].replace('_', ""), value[split..].trim());
        let number: f64 = number.parse().map_err(|_| format!("`{value}` is no number with a unit"))?;
        let factor = factor(name, unit, written)?;
        // Times are stored in seconds.
        let scale = if *unit == "ns" { 1e-9 } else { 1.0 };
        let below = text.as_bytes()[at] == b'<';
        Ok(Guard { text: text.to_owned(), measure: *measure, below, limit: number * factor * scale })
    }
}

/// The factor that converts a number from the unit `written` in the goal to the figure's unit.
fn factor(name: &str, unit: &str, written: &str) -> Result<f64, String> {
    if written.is_empty() {
        return match unit {
            "ns" => Err(format!("`{name}` is a time: say its unit, as in 5ms")),
            _ => Ok(1.0),
        };
    }
    if unit.is_empty() {
        return Err(format!("`{name}` is a number without a unit, not one in `{written}`"));
    }
    let own = Unit::parse(unit).ok_or_else(|| format!("there is no unit `{unit}`"))?;
    match Unit::parse(written) {
        Some(found) if found.dimension == own.dimension => Ok(found.factor / own.factor),
        Some(_) => Err(format!("`{name}` is not measured in `{written}`")),
        None => Err(format!("there is no unit `{written}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            rate: 100.0,
            p99: 0.004,
            latency: 0.002,
            processors: 0.5,
            held: 9.0,
            ..Seen::nothing(1.0, 0.2)
        }
    }

    #[test]
    fn guards_are_read_with_their_units() {
        let judge = |text: &str| text.parse::<Guard>().unwrap().judge(&seen());
        assert_eq!(judge("p99<5ms"), Judged::Holds);
        assert_eq!(judge("p99 < 4000 us"), Judged::Broken);
        assert_eq!(judge("latency<1.9ms"), Judged::Broken);
        assert_eq!(judge("rate>99/s"), Judged::Holds);
        assert_eq!(judge("rate>6000/min"), Judged::Broken);
        assert_eq!(judge("memory<2GB"), Judged::Unknown);
        assert_eq!(judge("processors<0.6"), Judged::Holds);
    }

    #[test]
    fn wrong_guards_are_reported() {
        for (text, why) in [
            ("p99", "is no guard"),
            ("p98<5ms", "is not measured"),
            ("p99<5", "say its unit"),
            ("p99<5MB", "is not measured in"),
            ("p99<5parsec", "there is no unit"),
            ("p99<ms", "no number"),
            ("processors<1s", "without a unit"),
        ] {
            let error = text.parse::<Guard>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_change_is_one_of_what_the_goal_is_about() {
        assert_eq!(Goal::Throughput.changed(0.5), "the throughput is 0.50 times what it was");
        assert_eq!(Goal::Latency.changed(0.5), "the latency is 2.00 times what it was");
        assert_eq!(Goal::Processor.changed(2.0), "the processor time of a message is 0.50 times what it was");
    }

    #[test]
    fn a_goal_scores_what_it_is_about_and_nothing_unknown() {
        let better = Seen { rate: 200.0, ..seen() };
        assert!(Goal::Throughput.score(&better) > Goal::Throughput.score(&seen()));
        assert!(Goal::Processor.score(&better) > Goal::Processor.score(&seen()));
        assert!(Goal::Latency.score(&Seen { p99: 0.003, ..seen() }) > Goal::Latency.score(&seen()));
        assert!(Goal::Memory.score(&Seen { held: 0.0, ..seen() }) > Goal::Memory.score(&seen()));
        for goal in ["throughput", "latency", "processor", "memory"] {
            let goal: Goal = goal.parse().unwrap();
            assert_eq!(goal.score(&Seen::nothing(1.0, 1.0)), None);
            assert_eq!(
                goal.score(&Seen {
                    rate: f64::INFINITY,
                    processors: -1.0,
                    latency: 0.0,
                    p99: 0.0,
                    held: -9.0,
                    ..seen()
                }),
                None
            );
        }
        assert!("speed".parse::<Goal>().unwrap_err().contains("throughput, latency"));
    }
}

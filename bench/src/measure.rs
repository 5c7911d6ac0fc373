//! Measuring side by side: *contestants* (ours, rivals, a limit) take turns, sample by sample, so that other
//! load on the machine affects all of them equally. Medians are compared, and ratios of samples taken in the
//! same turn.

use std::time::{Duration, Instant};

/// The shortest sample, which is long compared with the resolution of the clock and a scheduler's tick.
const SAMPLE_MIN: Duration = Duration::from_millis(10);
/// The least number of samples of every contestant; [`SAMPLES_MAX`] is the greatest.
const SAMPLES_MIN: usize = 5;
const SAMPLES_MAX: usize = 101;

/// One line of a benchmark: what is measured, the contestants, and the goal.
pub(crate) struct Case<'a> {
    /// The case's group, such as `event`, `hop`, `record`, `des`.
    pub(crate) group: &'static str,
    /// The name of the measured quantity.
    pub(crate) name: String,
    /// The conditions, as keys and values.
    pub(crate) params: Vec<(&'static str, String)>,
    /// Unit of all figures of the case.
    pub(crate) unit: &'static str,
    /// Thalweg's code.
    pub(crate) ours: Contestant<'a>,
    /// Other programs and libraries with the same function.
    pub(crate) rivals: Vec<Contestant<'a>>,
    /// A bound that no contestant can beat, or the cost without the feature.
    pub(crate) limit: Option<Contestant<'a>>,
    /// The goal.
    pub(crate) goal: Goal,
}

/// The goal of a case.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// The case has no goal.
    None,
    /// Our median at most this.
    AtMost(f64),
    /// Ours − limit at most this.
    OverAtMost(f64),
    /// Ours ÷ limit at most this.
    RatioAtMost(f64),
    /// Ours ÷ limit at least this.
    RatioAtLeast(f64),
}

impl Goal {
    /// The goal as text: `≤ 2 ns`, `≥ 0.9 × limit`.
    pub(crate) fn told(self, unit: &str) -> Option<String> {
        match self {
            Goal::None => None,
            Goal::AtMost(most) => Some(format!("≤ {most} {unit}")),
            Goal::OverAtMost(most) => Some(format!("≤ limit + {most} {unit}")),
            Goal::RatioAtMost(most) => Some(format!("≤ {most} × limit")),
            Goal::RatioAtLeast(least) => Some(format!("≥ {least} × limit")),
        }
    }

    fn reached(self, median: Option<f64>, ratio: Option<f64>) -> Option<bool> {
        match self {
            Goal::None => None,
            Goal::AtMost(most) => Some(median.is_some_and(|median| median <= most)),
            Goal::OverAtMost(most) => {
                Some(median.zip(ratio).is_some_and(|(ours, ratio)| ours - ours / ratio <= most))
            }
            Goal::RatioAtMost(most) => Some(ratio.is_some_and(|ratio| ratio <= most)),
            Goal::RatioAtLeast(least) => Some(ratio.is_some_and(|ratio| ratio >= least)),
        }
    }
}

/// Takes one sample: a figure in the case's unit, or the reason why there is none.
type Sample<'a> = Box<dyn FnMut() -> Result<f64, String> + 'a>;

/// A program or library that a case measures.
pub(crate) struct Contestant<'a> {
    pub(crate) name: String,
    pub(crate) version: &'static str,
    sample: Result<Sample<'a>, String>,
}

impl<'a> Contestant<'a> {
    /// A contestant whose every sample is a figure in the case's unit.
    pub(crate) fn new(
        name: impl Into<String>,
        version: &'static str,
        sample: impl FnMut() -> Result<f64, String> + 'a,
    ) -> Contestant<'a> {
        Contestant { name: name.into(), version, sample: Ok(Box::new(sample)) }
    }

    /// A contestant that is not available, with the reason.
    pub(crate) fn missing(
        name: impl Into<String>,
        version: &'static str,
        why: impl Into<String>,
    ) -> Contestant<'a> {
        Contestant { name: name.into(), version, sample: Err(why.into()) }
    }

    /// A contestant that repeats its work `count` times and returns the time; a sample is the nanoseconds of
    /// one part. `parts` is the number of parts in one repetition (the hops of a chain).
    pub(crate) fn nanoseconds(
        name: impl Into<String>,
        version: &'static str,
        parts: u64,
        mut run: impl FnMut(u64) -> Result<Duration, String> + 'a,
    ) -> Contestant<'a> {
        let mut count = 0;
        Contestant::new(name, version, move || {
            if count == 0 {
                count = enough(parts, &mut run)?;
            }
            Ok(run(count)?.as_secs_f64() * 1e9 / (count * parts) as f64)
        })
    }
}

/// The number of repetitions for a sample that is long enough. The number begins with a million parts, so
/// that constant costs (such as waking threads) have little weight.
fn enough(parts: u64, run: &mut impl FnMut(u64) -> Result<Duration, String>) -> Result<u64, String> {
    let mut count = (1_000_000 / parts).max(1_000);
    loop {
        let took = run(count)?;
        if took >= SAMPLE_MIN {
            return Ok(count);
        }
        let short = SAMPLE_MIN.as_secs_f64() / took.as_secs_f64().max(1e-6);
        count = (count as f64 * (1.2 * short).clamp(1.5, 100.0)) as u64;
    }
}

/// Repeats `work` `count` times and returns the time.
#[inline]
pub(crate) fn repeated(count: u64, mut work: impl FnMut(u64)) -> Duration {
    let begin = Instant::now();
    for n in 0..count {
        work(n);
    }
    begin.elapsed()
}

/// The figures of one contestant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) name: String,
    pub(crate) version: &'static str,
    /// Median, and the bounds between which it lies with 95 % confidence; none if the contestant was missing
    /// or failed.
    pub(crate) middle: Option<Middle>,
    /// The reason why there is no median, if so.
    pub(crate) why: Option<String>,
    samples: Vec<f64>,
}

/// A median with its 95 % interval (from order statistics, so of any distribution) and the number of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) n: usize,
}

impl Middle {
    /// The median of at least one sample.
    fn of(samples: &[f64]) -> Option<Middle> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let last = n.checked_sub(1)?;
        let out = ((n as f64 - 1.96 * (n as f64).sqrt()) / 2.0).max(0.0) as usize;
        let median = (sorted[last / 2] + sorted[n / 2]) / 2.0;
        Some(Middle { median, lo: sorted[out], hi: sorted[last - out], n })
    }
}

/// The outcome of a case.
pub(crate) struct Outcome {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) params: Vec<(&'static str, String)>,
    pub(crate) unit: &'static str,
    pub(crate) ours: Figures,
    pub(crate) rivals: Vec<Figures>,
    pub(crate) limit: Option<Figures>,
    /// The median of ours ÷ limit over samples taken in the same turn.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Goal,
    /// Whether the goal was reached, if there is one.
    pub(crate) ok: Option<bool>,
}

impl Case<'_> {
    /// Name and parameters, as they are shown.
    pub(crate) fn title(&self) -> String {
        title(&self.name, &self.params)
    }

    /// Runs the contestants in turns for about `budget`.
    pub(crate) fn run(mut self, budget: Duration) -> Outcome {
        let limited = self.limit.is_some();
        let mut all: Vec<(&mut Contestant<'_>, Figures)> = std::iter::once(&mut self.ours)
            .chain(self.limit.as_mut())
            .chain(self.rivals.iter_mut())
            .map(|contestant| {
                let figures = Figures {
                    name: contestant.name.clone(),
                    version: contestant.version,
                    ..Figures::default()
                };
                (contestant, figures)
            })
            .collect();
        // The first turn warms up, and its samples are dropped.
        turn(&mut all);
        all.iter_mut().for_each(|(_, figures)| figures.samples.clear());
        let begin = Instant::now();
        for taken in 0..SAMPLES_MAX {
            if taken >= SAMPLES_MIN && begin.elapsed() > budget {
                break;
            }
            turn(&mut all);
        }
        let mut figures = all.into_iter().map(|(_, mut figures)| {
            figures.middle = figures.why.is_none().then(|| Middle::of(&figures.samples)).flatten();
            figures
        });
        let ours = figures.next().expect("ours is always among them");
        let limit = if limited { figures.next() } else { None };
        let rivals: Vec<Figures> = figures.collect();
        let ratio = limit.as_ref().and_then(|limit| ratio(&ours, limit));
        let ok = self.goal.reached(ours.middle.map(|middle| middle.median), ratio);
        Outcome {
            group: self.group,
            name: self.name,
            params: self.params,
            unit: self.unit,
            ours,
            rivals,
            limit,
            ratio,
            goal: self.goal,
            ok,
        }
    }
}

/// `name (key value, key value)`.
pub(crate) fn title(name: &str, params: &[(&'static str, String)]) -> String {
    let params: Vec<String> = params.iter().map(|(key, value)| format!("{key} {value}")).collect();
    if params.is_empty() { name.to_owned() } else { format!("{name} ({})", params.join(", ")) }
}

fn turn(all: &mut [(&mut Contestant<'_>, Figures)]) {
    for (contestant, figures) in all.iter_mut().filter(|(_, figures)| figures.why.is_none()) {
        match contestant.sample.as_mut().map_err(|why| why.clone()).and_then(|sample| sample()) {
            Ok(figure) => figures.samples.push(figure),
            Err(why) => figures.why = Some(why),
        }
    }
}

/// The median of the ratios of samples taken in the same turn, in which a slowdown of the whole machine
/// cancels out.
fn ratio(ours: &Figures, limit: &Figures) -> Option<f64> {
    (ours.middle.is_some() && limit.middle.is_some()).then_some(())?;
    let ratios: Vec<f64> =
        ours.samples.iter().zip(&limit.samples).map(|(ours, limit)| ours / limit).collect();
    Some(Middle::of(&ratios)?.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case<'a>(ours: Contestant<'a>, limit: Contestant<'a>, goal: Goal) -> Case<'a> {
        Case {
            group: "test",
            name: "case".into(),
            params: Vec::new(),
            unit: "ns",
            ours,
            rivals: vec![Contestant::missing("rival", "1.0", "not installed")],
            limit: Some(limit),
            goal,
        }
    }

    fn always(figure: f64) -> Contestant<'static> {
        Contestant::new("always", "", move || Ok(figure))
    }

    #[test]
    fn the_median_lies_in_its_interval() {
        let samples: Vec<f64> = (0..101).map(f64::from).rev().collect();
        let middle = Middle::of(&samples).unwrap();
        assert_eq!((middle.median, middle.n), (50.0, 101));
        assert_eq!((middle.lo, middle.hi), (40.0, 60.0));
        assert_eq!(Middle::of(&[3.0, 1.0]).unwrap(), Middle { median: 2.0, lo: 1.0, hi: 3.0, n: 2 });
        assert_eq!(Middle::of(&[]), None);
    }

    #[test]
    fn goals_are_judged_by_what_they_speak_of() {
        let judged = |goal| case(always(3.0), always(2.0), goal).run(Duration::ZERO).ok;
        assert_eq!(judged(Goal::None), None);
        assert_eq!(judged(Goal::AtMost(3.0)), Some(true));
        assert_eq!(judged(Goal::AtMost(2.9)), Some(false));
        assert_eq!(judged(Goal::RatioAtMost(1.4)), Some(false));
        assert_eq!(judged(Goal::RatioAtLeast(1.5)), Some(true));
    }

    #[test]
    fn who_is_missing_has_no_median_but_a_reason() {
        let outcome = case(always(3.0), always(2.0), Goal::None).run(Duration::ZERO);
        assert_eq!(outcome.rivals[0].middle, None);
        assert_eq!(outcome.rivals[0].why.as_deref(), Some("not installed"));
        assert_eq!(outcome.ratio, Some(1.5));
    }

    #[test]
    fn a_contestant_that_fails_fails_the_goal() {
        let fails = Contestant::new("fails", "", || Err("broken".into()));
        let outcome = case(fails, always(1.0), Goal::RatioAtMost(9.0)).run(Duration::ZERO);
        assert_eq!((outcome.ok, outcome.ours.why.as_deref()), (Some(false), Some("broken")));
    }

    #[test]
    fn samples_are_long_enough_to_be_timed() {
        let mut longest = 0;
        let run = |count| {
            longest = count;
            Ok(Duration::from_nanos(5 * count))
        };
        let contestant = Contestant::nanoseconds("five", "", 2, run);
        let outcome = case(contestant, always(1.0), Goal::None).run(Duration::ZERO);
        assert!((outcome.ours.middle.unwrap().median - 2.5).abs() < 1e-6);
        assert!(Duration::from_nanos(5 * longest) >= SAMPLE_MIN);
    }
}

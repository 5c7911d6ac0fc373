//! The effect of a change: compares an older and a newer run. The comparison has their differences, their
//! flows, what the older run predicted, and what limits the newer run's flow.
//!
//! The flow is input messages a second. If both runs are complete recordings, the interval of the flow's
//! growth comes from a bootstrap over windows of each run; else there is no interval. Differences are read
//! from the runs themselves (workers, limits, capacities, places, replicas, times of messages), so the
//! comparison reflects the changes actually made and not the intended ones.

use serde::{Deserialize, Serialize};
use thalweg_space::Error;
use thalweg_space::reader::Feed;

use super::judged::{Judging, judged};
use crate::following::windows::windows;
use crate::report::{Action, Component, Report, Suggestion, Task, VerdictKind, component_of};
use crate::wording::percent;

/// The maximal number of windows of each run.
const WINDOWS: usize = 24;
/// The number of samples of the bootstrap; nine of ten samples lie in the interval.
const SAMPLES: usize = 500;
const LEFT_OUT: f64 = 0.05;
/// The times per message of a component in two runs count as different if one is at least this multiple of
/// the other.
const LONGER: f64 = 1.15;
/// A run whose workers had no processor for at least this share of the time may differ from the other run for
/// this reason.
const KEPT: f64 = 0.05;
/// The least number of messages from which a component's time per message is compared.
const MESSAGES_MIN: u64 = 50;
/// The maximal number of differences listed.
const DIFFERENCES_MAX: usize = 20;

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Input messages a second of the older run.
    pub old_per_s: f64,
    /// Input messages a second of the newer run.
    pub new_per_s: f64,
    /// The growth of the flow, as a share of 1.
    pub gain: f64,
    /// The lower end of the interval that contains nine of ten samples of a bootstrap over windows of both
    /// runs.
    pub least: Option<f64>,
    /// The upper end of the interval. `least` and `most` are null if not every dispatch of both runs was
    /// recorded, or one run was too short.
    pub most: Option<f64>,
    /// Differences between the runs.
    pub differences: Vec<Difference>,
    /// The older recording's predictions for the changes that were made.
    pub predicted: Vec<Suggestion>,
    /// What limited the flow of the older run.
    pub limited: String,
    /// What limits the flow of the newer run.
    pub limits: String,
    /// Possible reasons for the growth of the flow other than the changes that were made, each a sentence.
    pub because: Vec<String>,
}

/// A difference between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The property that differs.
    pub what: String,
    /// The value of the property in the older run.
    pub old: String,
    /// The value of the property in the newer run.
    pub new: String,
}

/// Compares the runs of two feeds.
///
/// # Errors
/// When a space cannot be read.
pub fn compare<F: Feed, G: Feed>(old: &F, new: &G, how: &Judging) -> Result<Comparison, Error> {
    let how = Judging { top: how.top.max(1000), ..*how };
    let (before, after) = (judged(old, &how)?, judged(new, &how)?);
    let rates = |windows: Vec<Report>| -> Vec<f64> { windows.iter().filter_map(rate).collect() };
    let whole = before.window.complete && after.window.complete;
    let (old_rates, new_rates) = match whole {
        true => (rates(windows(old, WINDOWS)?), rates(windows(new, WINDOWS)?)),
        false => (Vec::new(), Vec::new()),
    };
    Ok(compared(&before, &after, &old_rates, &new_rates))
}

/// Input messages a second.
fn rate(report: &Report) -> Option<f64> {
    let entered = report.throughput.messages_in? as f64;
    (report.window.duration_ns > 0.0).then(|| entered / (report.window.duration_ns / 1e9))
}

fn compared(old: &Report, new: &Report, old_rates: &[f64], new_rates: &[f64]) -> Comparison {
    let (old_per_s, new_per_s) = (rate(old).unwrap_or(0.0), rate(new).unwrap_or(0.0));
    let (least, most) = interval(old_rates, new_rates).unzip();
    let gain = new_per_s / old_per_s.max(f64::MIN_POSITIVE) - 1.0;
    let mut differences = settings(old, new);
    differences.extend(places(old, new));
    differences.extend(components(old, new));
    differences.truncate(DIFFERENCES_MAX);
    let suggestions = old.replay.iter().flat_map(|replay| &replay.suggestions);
    let predicted = suggestions.filter(|suggestion| was_done(suggestion, old, new)).cloned().collect();
    Comparison {
        old_per_s,
        new_per_s,
        gain,
        least,
        most,
        differences,
        predicted,
        limited: old.verdict.words.text.clone(),
        limits: new.verdict.words.text.clone(),
        because: because(old, new),
    }
}

/// The interval in which the growth of the mean from `old` to `new` lies, as a share of 1.
fn interval(old: &[f64], new: &[f64]) -> Option<(f64, f64)> {
    if old.is_empty() || new.is_empty() {
        return None;
    }
    let mut chance = 1_u64;
    let mut mean = |of: &[f64]| {
        let mut sum = 0.0;
        for _ in of {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += of[(chance >> 33) as usize % of.len()];
        }
        sum / of.len() as f64
    };
    let mut gains: Vec<f64> =
        (0..SAMPLES).map(|_| mean(new) / mean(old).max(f64::MIN_POSITIVE) - 1.0).collect();
    gains.sort_by(f64::total_cmp);
    let at = |part: f64| gains[((gains.len() - 1) as f64 * part) as usize];
    Some((at(LEFT_OUT), at(1.0 - LEFT_OUT)))
}

fn difference(what: &str, old: impl ToString, new: impl ToString) -> Option<Difference> {
    let (old, new) = (old.to_string(), new.to_string());
    (old != new).then(|| Difference { what: what.to_owned(), old, new })
}

/// The differences between two runs in the number of workers, the limits, and the capacities of streams.
fn settings(old: &Report, new: &Report) -> Vec<Difference> {
    let limits =
        |report: &Report| report.limits.unwrap_or(crate::report::Limits { quantum: 0, unfinished: 0 });
    let (a, b) = (limits(old), limits(new));
    let unlimited = |count: u64| if count == 0 { "no limit".to_owned() } else { count.to_string() };
    let capacity = |report: &Report| report.streams.iter().map(|stream| stream.capacity).max().unwrap_or(0);
    [
        difference("workers", old.workers.len(), new.workers.len()),
        difference("messages of a dispatch, at most", a.quantum, b.quantum),
        difference("messages under way, at most", unlimited(a.unfinished), unlimited(b.unfinished)),
        difference("messages that the longest stream holds", capacity(old), capacity(new)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The component's own name in a path: `w` of `net/split/w#2`.
fn own_name(path: &str) -> &str {
    let last = path.rsplit('/').next().unwrap_or(path);
    last.split(['#', '[']).next().unwrap_or(last)
}

/// The component in the other run that corresponds to a path: the one with the same path, or else the only
/// component of the same kind and name in the other run that has no counterpart in this run. A box that was
/// put into a split, or given a place, has another path than before.
fn counterpart<'r>(here: &Report, there: &'r Report, path: &str) -> Option<&'r Component> {
    let find = |report: &'r Report, path: &str| report.components.iter().find(|of| of.path == path);
    if let Some(same) = find(there, path) {
        return Some(same);
    }
    let of = here.components.iter().find(|of| of.path == path)?;
    let alike = |other: &&Component| other.kind == of.kind && own_name(&other.path) == own_name(path);
    let without =
        |report: &Report, other: &Component| !report.components.iter().any(|of| of.path == other.path);
    let mut others = there.components.iter().filter(alike).filter(|other| without(here, other));
    let other = others.next().filter(|_| others.next().is_none())?;
    // If several components of this name have another path in the other run, none of them gets a counterpart,
    // because it is not known which belongs to which.
    let moved = here.components.iter().filter(alike).filter(|of| without(there, of)).count();
    (moved == 1).then_some(other)
}

/// The tasks whose worker differs between the runs. Tasks correspond if they have the same name, or if each
/// is the only task of its component and the components correspond.
fn places<'r>(old: &'r Report, new: &'r Report) -> impl Iterator<Item = Difference> + use<'r> {
    let place = |worker: Option<crate::ids::WorkerId>| {
        worker.map_or("a thread of its own".to_owned(), |worker| format!("worker {worker}"))
    };
    let only = |report: &'r Report, path: &str| {
        let mut tasks = report.tasks.iter().filter(|task| component_of(&task.name) == path);
        tasks.next().filter(|_| tasks.next().is_none())
    };
    old.tasks.iter().filter_map(move |before| {
        let moved = || {
            let path = component_of(&before.name);
            only(old, path)?;
            only(new, &counterpart(old, new, path)?.path)
        };
        let after = new.tasks.iter().find(|after| after.name == before.name).or_else(moved)?;
        difference(&format!("place of {}", before.name), place(before.worker), place(after.worker))
    })
}

/// The components that were added or removed, or whose number of tasks or time per message differs.
fn components(old: &Report, new: &Report) -> Vec<Difference> {
    let mut found = Vec::new();
    for before in &old.components {
        let path = &before.path;
        let Some(after) = counterpart(old, new, path) else {
            found.extend(difference(path, "there", "not there"));
            continue;
        };
        found.extend(difference(&format!("path of {}", own_name(path)), path, &after.path));
        found.extend(difference(&format!("tasks of {path}"), before.tasks, after.tasks));
        let enough = |component: &Component| component.work.messages_in >= Some(MESSAGES_MIN);
        if let (Some(a), Some(b)) = (before.work.service_ns, after.work.service_ns)
            && enough(before)
            && enough(after)
            && (b > LONGER * a || a > LONGER * b)
        {
            let us = |ns: f64| format!("{:.2} µs", ns / 1e3);
            found.extend(difference(&format!("a message in {path} takes"), us(a), us(b)));
        }
    }
    let came = new.components.iter().filter(|after| counterpart(new, old, &after.path).is_none());
    found.extend(came.filter_map(|after| difference(&after.path, "not there", "there")));
    found
}

/// Whether the change that the older run suggested was made in the newer run.
fn was_done(suggestion: &Suggestion, old: &Report, new: &Report) -> bool {
    let of = |report: &Report| {
        let path = suggestion.component.as_deref()?;
        let found = counterpart(old, report, path)?;
        Some((found.tasks, found.work.service_ns?))
    };
    match (&suggestion.action, suggestion.kind) {
        (Some(Action::Run(run)), VerdictKind::Worker) => {
            let wanted = run.arguments.get(1).and_then(|count| count.parse().ok());
            wanted == Some(new.workers.len()) && old.workers.len() != new.workers.len()
        }
        (Some(Action::Set(set)), VerdictKind::Mapping) => {
            let number = set.setting.trim_start_matches("task/").trim_end_matches(".worker").parse().ok();
            let task = old.tasks.iter().find(|task| Some(task.id.number) == number);
            let after = task.and_then(|task| {
                let path = &counterpart(old, new, component_of(&task.name))?.path;
                let same = |after: &&Task| after.name == task.name || component_of(&after.name) == path;
                new.tasks.iter().find(same)
            });
            after.and_then(|task| task.worker).is_some_and(|worker| worker.number.to_string() == set.value)
        }
        (_, VerdictKind::Capacity) if suggestion.words.starts_with("no limit") => {
            let limit = |report: &Report| report.limits.map_or(0, |limits| limits.unfinished);
            limit(old) > 0 && limit(new) == 0
        }
        (_, VerdictKind::Capacity) => {
            let most = |report: &Report| report.streams.iter().map(|stream| stream.capacity).max();
            most(new) > most(old)
        }
        (_, VerdictKind::Quantum) => {
            new.limits.map(|limits| limits.quantum) > old.limits.map(|limits| limits.quantum)
        }
        (_, VerdictKind::Order) => of(new).is_none() && suggestion.component.is_some(),
        (None, VerdictKind::Task) if suggestion.words.contains(" replicas of ") => {
            of(new).zip(of(old)).is_some_and(|(after, before)| after.0 > before.0)
        }
        (None, _) => of(new).zip(of(old)).is_some_and(|(after, before)| before.1 > LONGER * after.1),
        _ => false,
    }
}

/// Possible reasons why two runs differ other than the changes that were made.
fn because(old: &Report, new: &Report) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(path) = old.verdict.finding.component.as_deref() {
        let busy = |report: &Report| {
            let path = counterpart(old, report, path).map_or(path, |of| &of.path);
            let tasks = report.tasks.iter().filter(|task| component_of(&task.name) == path);
            tasks.filter_map(|task| Some(task.work.shares?.busy)).reduce(f64::max)
        };
        if let (Some(before), Some(after)) = (busy(old), busy(new)) {
            reasons.push(format!(
                "{path}, which was busy {} of the time, is busy {} of it now",
                percent(before),
                percent(after)
            ));
        }
    }
    for (report, which) in [(old, "older"), (new, "newer")] {
        let kept = report.workers.iter().filter_map(|worker| Some(worker.shares?.kept)).reduce(f64::max);
        if let Some(kept) = kept.filter(|kept| *kept >= KEPT) {
            reasons.push(format!(
                "in the {which} run a worker could have run and had no processor {} of the time: without that the runs would compare otherwise",
                percent(kept)
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WorkerId;
    use crate::report::{Limits, Work, Worker};

    fn report(workers: u64, service_ns: f64, messages: u64) -> Report {
        let work = Work { messages_in: Some(messages), service_ns: Some(service_ns), ..Work::default() };
        let component = Component {
            path: "net/w".to_owned(),
            kind: "box".to_owned(),
            place: None,
            tasks: 1,
            tasks_live: 0,
            work,
            service: None,
        };
        let worker = |id| Worker { id: WorkerId::of(id), ..Worker::default() };
        let mut report = Report {
            components: vec![component],
            workers: (0..workers).map(worker).collect(),
            limits: Some(Limits { quantum: 64, unfinished: 0 }),
            ..Report::empty()
        };
        report.window.duration_ns = 1e9;
        report.throughput.messages_in = Some(messages);
        report
    }

    #[test]
    fn the_gain_is_that_of_the_flow_with_an_interval_over_windows() {
        let (old, new) = (report(2, 1e5, 1000), report(2, 1e5, 1500));
        let comparison = compared(&old, &new, &[950.0, 1000.0, 1050.0], &[1450.0, 1500.0, 1550.0]);
        assert!((comparison.gain - 0.5).abs() < 1e-12 && comparison.differences.is_empty(), "{comparison:?}");
        let (least, most) = (comparison.least.expect("windows"), comparison.most.expect("windows"));
        assert!(0.35 < least && least < 0.5 && 0.5 < most && most < 0.65, "{least} {most}");
        assert_eq!(compared(&old, &new, &[], &[]).least, None);
    }

    #[test]
    fn what_was_done_is_listed_and_compared_with_its_prediction() {
        let suggestion = |words: &str, kind, component: Option<&str>, action| Suggestion {
            words: words.to_owned(),
            how: String::new(),
            action,
            kind,
            component: component.map(str::to_owned),
            gain: 0.4,
            least: 0.3,
            most: 0.5,
            leads: 1.0,
        };
        let mut old = report(2, 1e5, 1000);
        let suggestions = vec![
            suggestion("net/w twice as fast", VerdictKind::Task, Some("net/w"), None),
            suggestion("3 workers", VerdictKind::Worker, None, Some(Action::run("run", &["--workers", "3"]))),
            suggestion("4 replicas of net/w", VerdictKind::Task, Some("net/w"), None),
        ];
        old.replay = Some(crate::report::Replay { suggestions, ..Default::default() });
        let done = |new: &Report| -> Vec<String> {
            compared(&old, new, &[], &[]).predicted.into_iter().map(|one| one.words).collect()
        };
        assert_eq!(done(&report(2, 1e5, 1000)), Vec::<String>::new());
        assert_eq!(done(&report(3, 1e5, 1000)), ["3 workers"]);
        assert_eq!(done(&report(2, 5e4, 1000)), ["net/w twice as fast"]);
        let differences = compared(&old, &report(3, 5e4, 1000), &[], &[]).differences;
        let what: Vec<&str> = differences.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(what, ["workers", "a message in net/w takes"]);
        assert_eq!((differences[1].old.as_str(), differences[1].new.as_str()), ("100.00 µs", "50.00 µs"));
    }
    #[test]
    fn a_component_that_moved_into_a_split_is_the_same_one() {
        let (mut old, mut new) = (report(2, 1e5, 1000), report(2, 5e4, 1900));
        new.components[0].path = "net/split/w".to_owned();
        new.components[0].tasks = 4;
        let split = Component { path: "net/split".into(), kind: "split".into(), ..new.components[0].clone() };
        new.components.push(split);
        let what = |old: &Report, new: &Report| -> Vec<String> {
            let differences = compared(old, new, &[], &[]).differences.into_iter();
            differences.map(|one| format!("{}: {} -> {}", one.what, one.old, one.new)).collect()
        };
        assert_eq!(
            what(&old, &new),
            [
                "path of w: net/w -> net/split/w",
                "tasks of net/w: 1 -> 4",
                "a message in net/w takes: 100.00 µs -> 50.00 µs",
                "net/split: not there -> there",
            ]
        );
        let replicas = Suggestion {
            words: "4 replicas of net/w".to_owned(),
            how: String::new(),
            action: None,
            kind: VerdictKind::Task,
            component: Some("net/w".to_owned()),
            gain: 0.9,
            least: 0.8,
            most: 1.0,
            leads: 1.0,
        };
        old.replay = Some(crate::report::Replay { suggestions: vec![replicas], ..Default::default() });
        assert_eq!(compared(&old, &new, &[], &[]).predicted.len(), 1);
        // Two boxes named `w` are missing in the newer run, so it is not known which of them corresponds to
        // the new one.
        let other = Component { path: "net/b/w".into(), ..old.components[0].clone() };
        old.components.push(other);
        assert!(what(&old, &new).contains(&"net/w: there -> not there".to_owned()));
    }
}

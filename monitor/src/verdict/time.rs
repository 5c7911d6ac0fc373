//! How sure a verdict is, and whether it changed: a bootstrap over windows of the run, and its cut into phases.
//!
//! - **Confidence.** From the windows as many as there are of them are drawn with replacement, a hundred times; each time the drawn ones
//!   are merged and judged. The share of samples with the verdict of the whole is its confidence, and the others' verdicts are its
//!   alternatives.
//! - **Phases.** The run is cut where both sides differ most (the least squares of throughput and of the components' and workers' shares),
//!   and the cut holds if each side has a verdict of its own: one that most samples of its windows give and next to none of the other
//!   side's. Sides are cut again.

use crate::report::{Alternative, Finding, Phase, Report, Verdict, VerdictKind};

use super::merging::merged;
use super::verdict;

/// Samples of the bootstrap.
const SAMPLES: usize = 100;
/// A phase has so many windows at least.
const PHASE_MIN: usize = 3;
/// A phase's verdict is found in so many of its samples …
const SURE: f64 = 0.7;
/// … and in no more of the neighbour's.
const STRANGE: f64 = 0.2;
/// At most so many phases.
const PHASES_MAX: usize = 4;
/// Beside a verdict that was found in fewer samples than this, others are stated.
const ALONE: f64 = 0.8;
/// A verdict that was found in fewer samples is not stated beside it.
const SAID: f64 = 0.15;

/// What makes two verdicts the same.
fn key(finding: &Finding) -> (VerdictKind, Option<&str>, Option<u64>) {
    // A finding may name any of a component's tasks; the worker matters only where the worker is the limit.
    let worker = matches!(finding.kind, VerdictKind::Worker | VerdictKind::Mapping)
        .then(|| finding.worker.map(|worker| worker.number));
    (finding.kind, finding.component.as_deref(), worker.flatten())
}

fn is_same(a: &Finding, b: &Finding) -> bool {
    key(a) == key(b)
}

/// Adds to a report what its windows say of its verdict: its confidence, its alternatives ([`say_doubt`] writes these), and the phases.
pub(crate) fn over_time(report: &mut Report, windows: &[Report]) {
    if windows.len() < 2 * PHASE_MIN || !depends_on_time(&report.verdict.finding) {
        return;
    }
    // Some things are recorded at intervals, so not in each window: verdicts that differ for the lack of these are no doubt of the verdict.
    let is_told = merged(windows).is_some_and(|all| is_same(&verdict(&all).finding, &report.verdict.finding));
    let mut cuts = Vec::new();
    cut(windows, 0, &mut cuts);
    if cuts.is_empty() && !is_told {
        return;
    }
    if cuts.is_empty() {
        let samples = samples(windows);
        sure(&mut report.verdict, &samples);
        return;
    }
    cuts.sort_unstable();
    let ends: Vec<usize> = cuts.into_iter().chain([windows.len()]).collect();
    let mut from_ns = 0.0;
    let mut from = 0;
    for end in ends {
        let part = &windows[from..end];
        let Some(whole) = merged(part) else { continue };
        let mut found = verdict(&whole);
        sure(&mut found, &samples(part));
        say_doubt(&mut found);
        let lasted_ns = whole.window.duration_ns;
        let entered = whole.throughput.messages_in;
        report.phases.push(Phase {
            from_ns,
            to_ns: from_ns + lasted_ns,
            entry_per_s: entered.map(|count| count as f64 / (lasted_ns / 1e9)),
            verdict: found,
        });
        (from, from_ns) = (end, from_ns + lasted_ns);
    }
    say_phases(report);
}

/// Whether a verdict is on how the run ended, or on what it was kept from: windows have no such verdicts.
fn depends_on_time(finding: &Finding) -> bool {
    use VerdictKind::{Deadlock, Disk, Hang, Paused, Unknown};
    !matches!(finding.kind, Deadlock | Hang | Paused | Disk | Unknown)
}

/// The first line says that it changed, and the finding is that of the longest phase.
fn say_phases(report: &mut Report) {
    let longest = report.phases.iter().max_by(|a, b| (a.to_ns - a.from_ns).total_cmp(&(b.to_ns - b.from_ns)));
    let Some(longest) = longest else { return };
    let before = report.verdict.words.text.clone();
    report.verdict = longest.verdict.clone();
    let said: Vec<String> = report
        .phases
        .iter()
        .map(|phase| {
            let rate = phase.entry_per_s.map_or(String::new(), |rate| format!(" ({rate:.0} messages/s)"));
            format!(
                "from {:.2} to {:.2} s{rate}: {}",
                phase.from_ns / 1e9,
                phase.to_ns / 1e9,
                phase.verdict.words.text.trim_end_matches('.')
            )
        })
        .collect();
    let words = &mut report.verdict.words;
    words.evidence.insert(0, format!("over the whole run it would be: {}", before.trim_end_matches('.')));
    words.text = format!("What limits the flow changed. {}.", capital(&said.join("; ")));
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Adds to a verdict the share of samples that have it, and the verdicts of the others.
fn sure(of: &mut Verdict, samples: &[Verdict]) {
    let count = samples.len().max(1) as f64;
    let mut rest: Vec<Alternative> = Vec::new();
    let mut same = 0;
    for sample in samples {
        let found = &sample.finding;
        if is_same(found, &of.finding) {
            same += 1;
            continue;
        }
        let known =
            rest.iter_mut().find(|other| other.kind == found.kind && other.component == found.component);
        match known {
            Some(other) => other.share += 1.0 / count,
            None => rest.push(Alternative {
                share: 1.0 / count,
                kind: found.kind,
                component: found.component.clone(),
                text: sample.words.text.clone(),
            }),
        }
    }
    rest.sort_by(|a, b| b.share.total_cmp(&a.share));
    let confidence = f64::from(same) / count;
    of.confidence = Some(confidence);
    of.alternatives = rest;
}

/// Adds to the words what else the verdict may be, where its confidence is low and something else is found often.
pub(crate) fn say_doubt(of: &mut Verdict) {
    let Some(confidence) = of.confidence.filter(|confidence| *confidence < ALONE) else { return };
    let Some(other) = of.alternatives.first().filter(|other| other.share >= SAID) else { return };
    of.words.text = format!(
        "{} ({:.0} %), or: {} ({:.0} %).",
        of.words.text.trim_end_matches('.'),
        100.0 * confidence,
        other.text.trim_end_matches('.'),
        100.0 * other.share
    );
}

/// Verdicts on windows drawn with replacement.
fn samples(windows: &[Report]) -> Vec<Verdict> {
    let mut chance = 1_u64;
    let mut drawn = || {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &windows[(chance >> 33) as usize % windows.len()]
    };
    let draw = |_| {
        let parts: Vec<&Report> = windows.iter().map(|_| drawn()).collect();
        merged(parts).map(|whole| verdict(&whole))
    };
    (0..SAMPLES).filter_map(draw).collect()
}

/// Cuts windows where their verdict changed; `first` is the number of the first of them.
fn cut(windows: &[Report], first: usize, cuts: &mut Vec<usize>) {
    if windows.len() < 2 * PHASE_MIN || cuts.len() + 1 >= PHASES_MAX {
        return;
    }
    let rows: Vec<Vec<f64>> = features(windows);
    let range = PHASE_MIN..=windows.len() - PHASE_MIN;
    let best = range.min_by(|&a, &b| {
        let of = |at: usize| squares(&rows[..at]) + squares(&rows[at..]);
        of(a).total_cmp(&of(b))
    });
    let Some(at) = best else { return };
    if differ(&windows[..at], &windows[at..]) {
        cuts.push(first + at);
        cut(&windows[..at], first, cuts);
        cut(&windows[at..], first + at, cuts);
    }
}

/// Whether two parts of a run have verdicts of their own.
fn differ(a: &[Report], b: &[Report]) -> bool {
    let (Some(whole_a), Some(whole_b)) = (merged(a), merged(b)) else { return false };
    let (of_a, of_b) = (verdict(&whole_a).finding, verdict(&whole_b).finding);
    if is_same(&of_a, &of_b) {
        return false;
    }
    let (in_a, in_b) = (samples(a), samples(b));
    let share = |samples: &[Verdict], of: &Finding| {
        samples.iter().filter(|sample| is_same(&sample.finding, of)).count() as f64
            / samples.len().max(1) as f64
    };
    share(&in_a, &of_a) >= SURE
        && share(&in_b, &of_b) >= SURE
        && share(&in_b, &of_a) <= STRANGE
        && share(&in_a, &of_b) <= STRANGE
}

/// The values by which windows are compared: the throughput over its mean, and shares of the components' and workers' time.
fn features(windows: &[Report]) -> Vec<Vec<f64>> {
    let rate = |window: &Report| {
        window.throughput.messages_in.unwrap_or(0) as f64 / window.window.duration_ns.max(1.0)
    };
    let mean = windows.iter().map(rate).sum::<f64>() / windows.len() as f64;
    let mut paths: Vec<&str> = windows.iter().flat_map(|w| &w.components).map(|c| c.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let row = |window: &Report| {
        let lasted_ns = window.window.duration_ns.max(1.0);
        let busy = |path: &&str| {
            let found = window.components.iter().find(|component| component.path == **path);
            found.and_then(|component| component.work.busy_ns).unwrap_or(0.0) / lasted_ns
        };
        let mut row: Vec<f64> = paths.iter().map(busy).collect();
        row.extend(window.workers.iter().map(|worker| worker.shares.map_or(0.0, |shares| shares.busy)));
        row.push(rate(window) / mean.max(f64::MIN_POSITIVE));
        row
    };
    let mut rows: Vec<Vec<f64>> = windows.iter().map(row).collect();
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.resize(longest, 0.0));
    rows
}

/// The sum of squares around the mean.
fn squares(rows: &[Vec<f64>]) -> f64 {
    let count = rows.len() as f64;
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns)
        .map(|at| {
            let mean = rows.iter().map(|row| row[at]).sum::<f64>() / count;
            rows.iter().map(|row| (row[at] - mean).powi(2)).sum::<f64>()
        })
        .sum()
}

#[cfg(test)]
mod tests;

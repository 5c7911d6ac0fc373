//! The confidence of a verdict, and whether it changed: a bootstrap over windows of the run, and a division
//! of the run into phases.
//!
//! - **Confidence.** A hundred samples are drawn with replacement from the windows, each as large as the
//!   number of windows; the windows of each sample are merged and judged. The share of samples with the
//!   verdict of the whole run is the confidence, and the verdicts of the other samples are the alternatives.
//! - **Phases.** The run is cut where the two sides differ most (by least squares of the throughput and of
//!   the components' and workers' shares). The cut is kept if each side has a verdict that most samples of
//!   its own windows give, and hardly any sample of the other side's windows gives. The parts on both sides
//!   are then cut in the same way.

use crate::report::{Alternative, Finding, Phase, Report, Verdict, VerdictKind};

use super::merging::merged;
use super::{chance, verdict};

/// The number of samples of the bootstrap.
const SAMPLES: usize = 100;
/// The least number of windows of a phase.
const PHASE_MIN: usize = 3;
/// The least share of the samples of a phase's windows that must give the phase's verdict.
const SURE: f64 = 0.7;
/// The greatest share of the samples of the neighbouring phase's windows that may give the phase's verdict.
const STRANGE: f64 = 0.2;
/// The maximal number of phases.
const PHASES_MAX: usize = 4;
/// The confidence below which alternatives of a verdict are stated.
const ALONE: f64 = 0.8;
/// The least share of the samples with which an alternative is stated.
const SHARE_MIN: f64 = 0.15;

/// The parts of a finding that must be equal for two verdicts to count as the same.
fn key(finding: &Finding) -> (VerdictKind, Option<&str>, Option<u64>) {
    if finding.kind == VerdictKind::Capacity {
        // One setting is the capacity of all streams, so it does not matter which of them a finding names.
        return (finding.kind, None, Some(u64::from(finding.stream.is_some())));
    }
    if finding.rule == "crowded" {
        // The processors are the limit, and the component that computes most only stands beside them.
        return (finding.kind, None, None);
    }
    // A finding may name any task of a component, so tasks are not compared; the worker is compared only if
    // the finding says that the worker is the limit.
    let worker = matches!(finding.kind, VerdictKind::Worker | VerdictKind::Mapping)
        .then(|| finding.worker.map(|worker| worker.number));
    (finding.kind, finding.component.as_deref(), worker.flatten())
}

fn is_same(a: &Finding, b: &Finding) -> bool {
    key(a) == key(b)
}

/// Adds to a report the confidence and alternatives of its verdict, computed from its windows, and the phases
/// ([`add_alternatives`] writes the words).
pub(crate) fn over_time(report: &mut Report, windows: &[Report]) {
    if windows.len() < 2 * PHASE_MIN || !depends_on_time(&report.verdict.finding) {
        return;
    }
    // Some data are recorded at intervals and so are missing in some windows: if even all windows together
    // give another verdict than the run for this reason, the difference does not lower the confidence.
    let windows_agree =
        merged(windows).is_some_and(|all| is_same(&verdict(&all).finding, &report.verdict.finding));
    let mut cuts = Vec::new();
    cut(windows, 0, &mut cuts);
    if cuts.is_empty() && !windows_agree {
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
        add_alternatives(&mut found);
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
    state_phases(report);
}

/// Adds to a verdict its confidence and alternatives, by samples in which times deviate as they do from run to run, if
/// the report has no windows.
pub(crate) fn by_chance(report: &mut Report) {
    let found = &report.verdict.finding;
    if report.verdict.confidence.is_some() || found.rule == "replayed" || !depends_on_time(found) {
        return;
    }
    let samples = chance::samples(report);
    if !samples.is_empty() {
        sure(&mut report.verdict, &samples);
        add_alternatives(&mut report.verdict);
    }
}

/// Whether windows can have verdicts of this kind; verdicts on how the run ended, or on what kept the run
/// from working, do not depend on windows.
fn depends_on_time(finding: &Finding) -> bool {
    use VerdictKind::{Deadlock, Disk, Hang, Paused, Unknown};
    !matches!(finding.kind, Deadlock | Hang | Paused | Disk | Unknown)
}

/// States in the first sentence of the verdict that the limit changed during the run, and uses the finding of
/// the longest phase.
fn state_phases(report: &mut Report) {
    let longest = report.phases.iter().max_by(|a, b| (a.to_ns - a.from_ns).total_cmp(&(b.to_ns - b.from_ns)));
    let Some(longest) = longest else { return };
    let before = report.verdict.words.text.clone();
    report.verdict = longest.verdict.clone();
    let sentences: Vec<String> = report
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
    words.text = format!("What limits the flow changed. {}.", capital(&sentences.join("; ")));
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Adds to a verdict its confidence, which is the share of samples with the same verdict, and the verdicts of
/// the other samples.
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

/// Adds the alternatives to the words of a verdict, if its confidence is low and another verdict is frequent.
pub(crate) fn add_alternatives(of: &mut Verdict) {
    let Some(confidence) = of.confidence.filter(|confidence| *confidence < ALONE) else { return };
    let Some(other) = of.alternatives.first().filter(|other| other.share >= SHARE_MIN) else { return };
    of.words.text = format!(
        "{} ({:.0} %), or: {} ({:.0} %).",
        of.words.text.trim_end_matches('.'),
        100.0 * confidence,
        other.text.trim_end_matches('.'),
        100.0 * other.share
    );
}

/// The verdicts on samples of windows drawn with replacement.
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

/// Cuts the windows where the verdict changed; `first` is the number of the first window.
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

/// Whether two parts of a run have different verdicts.
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

/// The values by which windows are compared: the throughput divided by its mean, and shares of the
/// components' and workers' time.
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

//! Prints the results of the measurements as tables.

use std::collections::BTreeMap;
use std::ops::Range;

use super::generator::{CAUSES, Planted, planted};
use super::journal::Journal;
use super::remedy::{Remedy, remedies};
use super::score::{Advice, Mark, WORTH, advice_of, mark, predicted};
use super::{Gained, gains, is_disturbed, repetition, verdict};

pub(super) const MODES: [&str; 2] = ["full", "metrics"];
/// Predictions are compared with gains that were measured in several pairs, or with gains above this limit
/// from one pair; a smaller gain from one pair is noise.
const CLEAR: f64 = 0.03;

/// Prints a network, its causes and the conditions of its run.
pub(super) fn show(seed: u64, planted: &Planted) {
    println!("seed {seed}: {}{}", words(planted), if planted.healthy { "healthy" } else { "" });
    println!("{}\n{}", planted.case.net.text(), planted.case.plan());
}

fn words(planted: &Planted) -> String {
    planted.causes.iter().map(|cause| cause.word()).collect::<Vec<_>>().join(", ")
}

/// The numbers of verdicts with each mark: those whose mark is certain, those whose mark the trials leave
/// open, and how many of the latter seem right.
#[derive(Clone, Copy, Default)]
struct Marks([u64; 4], [u64; 2]);

impl Marks {
    fn add(&mut self, (mark, is_open): (Mark, bool)) {
        if is_open {
            self.1[usize::from(mark == Mark::Right)] += 1;
        } else {
            self.0[mark as usize] += 1;
        }
    }

    fn cells(&self) -> String {
        let [right, partly, wrong, misleading] = self.0;
        let open = format!("{} ({})", self.1[0] + self.1[1], self.1[1]);
        format!("{right:>6} {partly:>6} {wrong:>6} {misleading:>10} {open:>8}")
    }

    /// The shares of right and of misleading verdicts among the networks with a certain mark and among all.
    fn shares(&self) -> String {
        let [right, .., misleading] = self.0;
        let (certain, open) = (self.0.iter().sum::<u64>(), self.1[0] + self.1[1]);
        let of = |count: u64, all: u64| 100.0 * count as f64 / all.max(1) as f64;
        format!(
            "{} networks, {certain} with a certain mark: right {:.1} % of these (of all, with open ones by their \
             medians: {:.1} %), misleading {misleading} ({:.1} % of these)",
            certain + open,
            of(right, certain),
            of(right + self.1[1], certain + open),
            of(misleading, certain)
        )
    }
}

/// The smallest share of right verdicts, by mode, among those with a certain mark.
const RIGHT_MIN: [f64; 2] = [0.95, 0.85];
/// The largest share of misleading verdicts among those with a certain mark.
const MISLEADING_MAX: f64 = 0.01;

/// Prints the marks by cause, false alarms of healthy networks, and predicted against measured gains. Returns
/// the goals that the marks and the false alarms miss.
pub(super) fn print(journal: &Journal, seeds: Range<u64>, failures: bool) -> Vec<String> {
    let mut rows: BTreeMap<&str, [Marks; 2]> = BTreeMap::new();
    let mut alarms = [[0_u64; 2]; 2];
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        let planted = planted(seed);
        for (at, word) in MODES.into_iter().enumerate() {
            let Some(verdict) = verdict(journal, seed, word) else { continue };
            let gains = gains(journal, seed, &planted);
            let advice = advice_of(&planted, verdict);
            let (mark, is_open) = mark(&advice, &gains);
            let all = remedies(&planted.case, planted.healthy);
            let is_open = is_open || is_disturbed(journal, seed, word, &all);
            if planted.healthy {
                alarms[at][0] += 1;
                alarms[at][1] += u64::from(mark != Mark::Right && !is_open);
            }
            for cause in rows_of(&planted) {
                rows.entry(cause).or_default()[at].add((mark, is_open));
            }
            rows.entry("~ all").or_default()[at].add((mark, is_open));
            if mark != Mark::Right {
                let advised_gain = advised_gain(&advice, &gains);
                failed.push((seed, word, mark, is_open, advice, advised_gain, best(&gains), words(&planted)));
            }
        }
    }
    let head = " RIGHT PARTLY  WRONG MISLEADING     OPEN";
    println!("{:<18} FULL{head}   METRICS{head}", "CAUSE");
    let order = CAUSES.iter().map(|(_, word)| *word).chain(["none", "healthy", "~ all"]);
    for word in order {
        if let Some([full, metrics]) = rows.get(word) {
            println!(
                "{:<18}     {}           {}",
                word.trim_start_matches("~ "),
                full.cells(),
                metrics.cells()
            );
        }
    }
    for (word, marks) in MODES.into_iter().zip(rows.get("~ all").copied().unwrap_or_default()) {
        println!("mode {word}: {}", marks.shares());
    }
    for (word, [healthy, alarms]) in MODES.into_iter().zip(alarms) {
        println!("false alarms, mode {word}: {alarms} of {healthy} healthy networks");
    }
    for word in MODES {
        repeated(journal, seeds.clone(), word, failures);
    }
    if failures {
        for (seed, word, mark, is_open, advice, advised_gain, best, causes) in failed {
            let open = if is_open { " (open)" } else { "" };
            println!(
                "seed {seed} {word}: {mark:?}{open}: said {}{advised_gain}, best {best}; planted: {causes}",
                shown(&advice)
            );
        }
    }
    predictions(journal, seeds, failures);
    missed(&rows.get("~ all").copied().unwrap_or_default(), alarms.map(|[_, alarms]| alarms))
}

/// The goals that the marks and the false alarms in each mode miss.
fn missed(all: &[Marks; 2], alarms: [u64; 2]) -> Vec<String> {
    let mut missed = Vec::new();
    for (at, word) in MODES.into_iter().enumerate() {
        let [right, .., misleading] = all[at].0;
        let certain = all[at].0.iter().sum::<u64>().max(1) as f64;
        if (right as f64) < RIGHT_MIN[at] * certain {
            missed.push(format!("mode {word}: {right} of {certain} right"));
        }
        if misleading as f64 > MISLEADING_MAX * certain {
            missed.push(format!("mode {word}: {misleading} of {certain} misleading"));
        }
        if alarms[at] > 0 {
            missed.push(format!("mode {word}: {} false alarms", alarms[at]));
        }
    }
    missed
}

/// If a verdict states at least this confidence, it should be the same for another recording of the network.
const SURE: f64 = 0.9;

/// Prints in how many of the other recordings of a network the verdict names the same remedy.
fn repeated(journal: &Journal, seeds: Range<u64>, word: &str, failures: bool) {
    let (mut same, mut doubted, mut other) = (0_u64, 0_u64, 0_u64);
    for seed in seeds {
        let planted = planted(seed);
        let Some(verdict) = verdict(journal, seed, word) else { continue };
        let again = journal.get(seed, &format!("others {word}")).and_then(serde_json::Value::as_array);
        for again in again.into_iter().flatten() {
            let is_unsure =
                |of: &serde_json::Value| of["confidence"].as_f64().is_some_and(|sure| sure < SURE);
            match () {
                () if agree(&advice_of(&planted, again), &advice_of(&planted, verdict)) => same += 1,
                () if is_unsure(again) || is_unsure(verdict) => doubted += 1,
                () => {
                    other += 1;
                    if failures {
                        let of = |verdict| shown(&advice_of(&planted, verdict));
                        println!(
                            "  seed {seed} {word}: said {}, and of another recording {}",
                            of(verdict),
                            of(again)
                        );
                    }
                }
            }
        }
    }
    let all = same + doubted + other;
    let part = 100.0 * (same + doubted) as f64 / all.max(1) as f64;
    println!(
        "other recordings of the same network, mode {word}: {same} of {all} say the same, {doubted} another thing where one of both said that it is not sure, {other} another thing ({part:.1} % the same or not sure)"
    );
}

/// Whether two verdicts advise the same: they name a remedy in common, or both name none.
fn agree(one: &Advice, other: &Advice) -> bool {
    match (one, other) {
        (Advice::Do(one), Advice::Do(other)) => one.iter().any(|remedy| other.contains(remedy)),
        (one, other) => one == other,
    }
}

fn rows_of(planted: &Planted) -> Vec<&'static str> {
    match (planted.causes.is_empty(), planted.healthy) {
        (true, true) => vec!["healthy"],
        (true, false) => vec!["none"],
        _ => planted.causes.iter().map(|cause| cause.word()).collect(),
    }
}

fn shown(advice: &Advice) -> String {
    match advice {
        Advice::Nothing => "nothing".to_owned(),
        Advice::Do(named) => named.iter().map(Remedy::to_string).collect::<Vec<_>>().join(" or "),
        Advice::Other(what) => format!("`{what}`"),
    }
}

fn best(gains: &BTreeMap<Remedy, Gained>) -> String {
    let best = gains.iter().max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
    let Some((remedy, Gained { gain, least, most, .. })) = best else { return "not measured".to_owned() };
    let what = if *gain < WORTH { "nothing".to_owned() } else { remedy.to_string() };
    format!("{what} ({:+.0} %, {:+.0} to {:+.0})", 100.0 * gain, 100.0 * least, 100.0 * most)
}

/// The gain of the remedy that the verdict advises.
fn advised_gain(advice: &Advice, gains: &BTreeMap<Remedy, Gained>) -> String {
    let Advice::Do(named) = advice else { return String::new() };
    let most = named.iter().filter_map(|remedy| gains.get(remedy)).map(|of| of.gain).max_by(f64::total_cmp);
    most.map_or(String::new(), |gain| format!(" ({:+.0} %)", 100.0 * gain))
}

/// Compares predicted gains with measured gains. The error is the relative error of the predicted flow: (1 +
/// predicted) / (1 + measured) - 1.
fn predictions(journal: &Journal, seeds: Range<u64>, failures: bool) {
    let (mut errors, mut covered, mut unpredicted, mut networks) = (Vec::new(), 0_u64, 0_u64, 0_u64);
    let (mut beyond_noise, mut tried_again, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    let mut worst = Vec::new();
    for seed in seeds {
        let planted = planted(seed);
        let (Some(_), Some(what_if)) = (journal.get(seed, "done"), journal.get(seed, "what if")) else {
            continue;
        };
        networks += 1;
        let predicted = predicted(&planted, what_if);
        unpredicted += u64::from(predicted.is_empty());
        let gains = gains(journal, seed, &planted);
        repetitions.extend(gains.keys().filter_map(|&remedy| repetition(journal, seed, remedy)));
        for (remedy, [gain, least, most]) in predicted {
            let Some(Gained { gain: measured, least: lower, most: upper, again }) =
                gains.get(&remedy).copied()
            else {
                continue;
            };
            let error_to = |flow: f64| ((1.0 + gain) / (1.0 + flow) - 1.0).abs();
            let error = error_to(measured);
            errors.push(error);
            tried_again.extend(again.then_some(error));
            beyond_noise.push(error_to(gain.clamp(lower, upper)));
            covered += u64::from((least - CLEAR..=most + CLEAR).contains(&measured));
            worst.push((
                error,
                format!(
                    "seed {seed}: {remedy}: predicted {:+.0} %, measured {:+.0} %; planted: {}",
                    100.0 * gain,
                    100.0 * measured,
                    words(&planted)
                ),
            ));
        }
    }
    let quantile = |errors: &mut Vec<f64>, part: f64| {
        errors.sort_by(f64::total_cmp);
        100.0 * errors.get((part * errors.len() as f64) as usize).copied().unwrap_or(f64::NAN)
    };
    println!(
        "predictions: {} of {networks} networks, {unpredicted} without; error of the flow: median {:.1} %, p90 {:.1} %; beyond the noise of the measured gain: median {:.1} %, p90 {:.1} %; within the interval (± 3 %): {:.0} %",
        errors.len(),
        quantile(&mut errors, 0.5),
        quantile(&mut errors, 0.9),
        quantile(&mut beyond_noise, 0.5),
        quantile(&mut beyond_noise, 0.9),
        100.0 * covered as f64 / errors.len().max(1) as f64
    );
    let both = |errors: &mut Vec<f64>| {
        format!("median {:.1} %, p90 {:.1} %", quantile(errors, 0.5), quantile(errors, 0.9))
    };
    if !tried_again.is_empty() {
        println!(
            "  of remedies that were tried in several pairs: {} predictions, {}",
            tried_again.len(),
            both(&mut tried_again)
        );
    }
    if !repetitions.is_empty() {
        println!(
            "  two medians of three trials of the same remedy differ by: {} ({} remedies)",
            both(&mut repetitions),
            repetitions.len()
        );
    }
    if failures {
        worst.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, line) in worst.iter().take(15) {
            println!("  {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Marks, missed};

    #[test]
    fn shares_count_certain_marks_and_all_networks() {
        let shares = Marks([6, 1, 0, 1], [1, 1]).shares();
        assert_eq!(
            shares,
            "10 networks, 8 with a certain mark: right 75.0 % of these (of all, with open ones by their medians: \
             70.0 %), misleading 1 (12.5 % of these)"
        );
        assert!(Marks::default().shares().starts_with("0 networks"));
    }

    #[test]
    fn goals_that_are_missed_are_named() {
        let of = |marks| [Marks(marks, [9, 9]); 2];
        assert_eq!(missed(&of([100, 0, 0, 1]), [0, 0]), Vec::<String>::new());
        let found = missed(&of([90, 9, 0, 1]), [0, 2]);
        assert_eq!(found, ["mode full: 90 of 100 right", "mode metrics: 2 false alarms"]);
        assert_eq!(missed(&of([98, 0, 0, 2]), [0, 0]).len(), 2);
        assert!(!missed(&of([0, 0, 0, 0]), [0, 0]).is_empty(), "nothing was measured");
    }
}

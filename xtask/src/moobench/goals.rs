//! The goals of probes, decided by the rows of one measurement.

use super::cases::Case;
use super::figures::{Figures, Swept};
use std::fmt::Write;

/// The names of rows that goals compare.
pub(super) const BY_HAND: &str = "a ring by hand";
pub(super) const CLOCK: &str = "two readings of the clock";
pub(super) const KEPT_PLAIN: &str = "Thalweg, kept as it is";
pub(super) const TWO_EVENTS: &str = "Thalweg, two events a call";

/// The rows of one language.
struct Rows<'a> {
    depth: f64,
    rows: Vec<(&'a Case, &'a Figures)>,
}

impl<'a> Rows<'a> {
    fn of(language: &str, depth: u32, cases: &'a [Case], all: &'a [Figures]) -> Rows<'a> {
        let is_here = |(case, of): &(&Case, &Figures)| case.language == language && of.missing.is_none();
        Rows { depth: f64::from(depth), rows: cases.iter().zip(all).filter(is_here).collect() }
    }

    fn row(&self, phase: char, who: &str) -> Option<&'a Figures> {
        self.rows.iter().find(|(case, _)| case.phase == phase && case.who == who).map(|(_, of)| *of)
    }

    fn plain(&self) -> Option<&'a Figures> {
        self.rows.iter().find(|(case, _)| case.phase == 'T').map(|(_, of)| *of)
    }

    /// The rival that keeps most traces a second, among those whose name begins with `family`.
    fn best_rival(&self, family: &str) -> Option<(&'a str, &'a Figures)> {
        let rivals = self.rows.iter().filter(|(case, _)| {
            case.phase == 'W'
                && case.who.starts_with(family)
                && case.who != BY_HAND
                && !case.who.starts_with("Thalweg")
                && !case.who.contains("our layer")
        });
        rivals.max_by(|a, b| a.1.rate.total_cmp(&b.1.rate)).map(|(case, of)| (case.who, *of))
    }

    /// The time that a call takes more than without a probe.
    fn call(&self, of: &Figures) -> Option<f64> {
        Some((of.mean - self.plain()?.mean) / self.depth)
    }
}

/// The ratio of two rates, and half of its interval.
fn ratio(of: &Figures, to: &Figures) -> (f64, f64) {
    let ratio = of.rate / to.rate;
    (ratio, ratio * ((of.half / of.rate).powi(2) + (to.half / to.rate).powi(2)).sqrt())
}

/// Whether a goal is met, as tables say it.
fn mark(is_met: bool) -> &'static str {
    if is_met { "ok" } else { "MISS" }
}

/// `ok` or `MISS`, and whether the interval leaves that open.
fn verdict(is_met: bool, value: f64, half: f64, goal: f64) -> &'static str {
    match (is_met, (value - goal).abs() <= half) {
        (true, false) => "ok",
        (true, true) => "ok, the goal is in the interval",
        (false, false) => "MISS",
        (false, true) => "MISS, the goal is in the interval",
    }
}

fn at_least(out: &mut String, goal: &str, (value, half): (f64, f64), least: f64, beside: &str) {
    let met = verdict(value >= least, value, half, least);
    writeln!(out, "| {goal} | {value:.2} × ± {half:.2}{beside} | {met} |").expect("a text");
}

/// The table of the goals of each language that was measured.
pub(super) fn table(depth: u32, cases: &[Case], all: &[Figures]) -> String {
    let mut languages: Vec<&str> = cases.iter().map(|case| case.language).collect();
    languages.dedup();
    let mut out = String::new();
    for language in languages {
        let rows = Rows::of(language, depth, cases, all);
        let goals = if language == "java" { of_java(&rows) } else { of_native(&rows) } + &both(&rows);
        if !goals.is_empty() {
            write!(out, "\n| goal, {language} | here | |\n|---|---|---|\n{goals}").expect("a text");
        }
    }
    out
}

fn of_java(rows: &Rows) -> String {
    let mut out = String::new();
    if let (Some(off), Some(plain)) = (rows.row('I', "Thalweg"), rows.plain()) {
        at_least(&mut out, "I ≥ 0.98 × T", ratio(off, plain), 0.98, "");
    }
    if let (Some(undrained), Some((who, rival))) = (rows.row('C', "Thalweg"), rows.best_rival("")) {
        let beside = format!(" ({who})");
        at_least(&mut out, "undrained ≥ 4 × the best rival's W", ratio(undrained, rival), 4.0, &beside);
    }
    if let (Some(two), Some((who, rival))) =
        (rows.row('W', TWO_EVENTS), rows.best_rival("Kieker 2.0.2, before and after"))
    {
        let beside = format!(" ({who})");
        at_least(&mut out, "two events a call, drained, ≥ 3 × Kieker's", ratio(two, rival), 3.0, &beside);
    }
    out
}

fn of_native(rows: &Rows) -> String {
    let mut out = String::new();
    let one = rows.row('C', "Thalweg").and_then(|of| rows.call(of));
    let two_readings = rows.row('C', CLOCK).and_then(|of| rows.call(of));
    if let (Some(one), Some(two_readings)) = (one, two_readings) {
        let times = 2.0 * one / two_readings;
        let met = mark(times <= 2.1);
        writeln!(out, "| a call, one event ≤ 2.1 readings of the clock | {one:.1} ns, two readings {two_readings:.1} ns: {times:.2} | {met} |")
            .expect("a text");
    }
    out
}

fn both(rows: &Rows) -> String {
    let mut out = String::new();
    let drained = rows.row('W', "Thalweg");
    if let (Some(drained), Some((who, rival))) = (drained, rows.best_rival("")) {
        let beside = format!(" ({who})");
        at_least(&mut out, "W, drained, ≥ 2 × the best rival", ratio(drained, rival), 2.0, &beside);
    }
    if let Some(ring) = rows.row('W', BY_HAND) {
        for (what, row) in [("kept as it is", rows.row('W', KEPT_PLAIN)), ("coded", drained)] {
            let Some(row) = row else { continue };
            let goal = format!("W, drained, {what}, ≥ 0.9 × a ring by hand copied to disk");
            at_least(&mut out, &goal, ratio(row, ring), 0.9, "");
        }
    }
    if let Some((bytes, _)) = rows.row('W', TWO_EVENTS).and_then(Figures::bytes_a_trace) {
        let met = mark(bytes <= 160.0);
        writeln!(out, "| bytes kept of a trace of {} events ≤ 160 | {bytes:.1} | {met} |", 2.0 * rows.depth)
            .expect("a text");
    }
    let kept = rows.rows.iter().filter(|(case, _)| case.phase == 'W' && case.who.starts_with("Thalweg"));
    let lost: Vec<u64> = kept.filter_map(|(_, of)| of.bytes_a_trace()?.1).collect();
    if !lost.is_empty() {
        let lost: u64 = lost.iter().sum();
        let met = mark(lost == 0);
        writeln!(out, "| nothing lost in W | {lost} events | {met} |").expect("a text");
    }
    out
}

/// The goal for the largest number of threads of a sweep: what a call takes of the processor, beside what it
/// takes with one thread. The goal is about the threads that call; beside it stands the same of the whole
/// process, which has the other threads of a JVM.
pub(super) fn of_threads(rows: &[Swept]) -> String {
    let (Some(one), Some(many)) = (rows.first(), rows.last()) else { return String::new() };
    if one.0 == many.0 {
        return String::new();
    }
    let mut out = format!(
        "\n| goal: processor time of a call with {} threads ≤ 1.1 × with {} | one | many | ratio | | the whole process |\n|---|---|---|---|---|---|\n",
        many.0, one.0
    );
    for ((case, single), (_, crowded)) in one.2.iter().zip(&one.3).zip(many.2.iter().zip(&many.3)) {
        if case.phase == 'T' || single.missing.is_some() || crowded.missing.is_some() {
            continue;
        }
        let calls = f64::from(one.1.depth);
        let process = single.process.zip(crowded.process).map_or_else(String::new, |(one, many)| {
            format!("{:.1}, {:.1} ns: {:.2}", one / calls, many / calls, many / one)
        });
        let (single, crowded) = (single.cpu / calls, crowded.cpu / calls);
        let ratio = crowded / single;
        let met = mark(ratio <= 1.1);
        writeln!(
            out,
            "| {}, {}, {} | {single:.1} ns | {crowded:.1} ns | {ratio:.2} | {met} | {process} |",
            case.language, case.phase, case.who
        )
        .expect("a text");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn an_interval_that_holds_the_goal_is_shown() {
        assert_eq!(verdict(true, 1.0, 0.01, 0.98), "ok");
        assert_eq!(verdict(true, 1.0, 0.05, 0.98), "ok, the goal is in the interval");
        assert_eq!(verdict(false, 0.7, 0.1, 0.9), "MISS");
        assert_eq!(verdict(false, 0.7, f64::INFINITY, 0.9), "MISS, the goal is in the interval");
    }
}

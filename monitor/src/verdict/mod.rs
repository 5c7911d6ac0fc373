//! The verdict: what limits the flow, the figures that show it, and what to do about it.
//!
//! The rules ([`rules::RULES`]) are evaluated in order, from causes that explain everything else (a deadlock,
//! a processor used by others) to the rules for runs without a clear limit; the first rule with a finding
//! gives the verdict. Each rule uses shares of time, the roots of waiting ([`crate::report::Root`]) and
//! true-rate utilisation, and returns data: a [`Finding`]. Sentences are made from the complete finding
//! ([`describe`]). If the account of busy time rules out a finding ([`accounts::contradicts`]), the next rule
//! is evaluated.

mod accounts;
pub(crate) mod chance;
mod dispatches;
mod edges;
mod facts;
mod flood;
mod merging;
mod moving;
mod processor;
mod rules;
pub(crate) mod thresholds;
pub(crate) mod time;
mod utilisation;
mod words;

use crate::report::{Figure, Finding, Report, Verdict, VerdictKind, Words};
use facts::Facts;
pub(crate) use facts::{is_sink, is_source};
use thresholds::START_NS;

pub use accounts::is_sure as account_is_sure;
pub(crate) use accounts::spinning_part;
pub use thresholds::{THRESHOLDS, Threshold};
pub(crate) use utilisation::utilisation;

/// The verdict on a report whose other parts are complete.
pub(crate) fn verdict(report: &Report) -> Verdict {
    let finding = finding(&Facts::new(report));
    let words = describe(&finding);
    Verdict::of(finding, words)
}

/// The verdict that other processes limit the flow, and the gain to expect without them, from the time for which
/// they kept a worker that had work from its processor; `None` if they did not, or if an account contradicts
/// this.
pub(crate) fn of_others(report: &Report) -> Option<(Verdict, f64)> {
    let facts = Facts::new(report);
    let found = processor::kept_off(&facts, thresholds::WORKS)?;
    let found = Finding { rule: "contention".to_owned(), ..found };
    if accounts::contradicts(&facts, &found) {
        return None;
    }
    let lost = found.figure("lost")?.value.clamp(0.0, 0.95);
    // Another worker may then have too much work.
    let needed = processor::needed_alone(&facts).max(1.0 - lost);
    let words = describe(&found);
    Some((Verdict::of(found, words), 1.0 / needed.min(1.0) - 1.0))
}

/// The finding in words. All sentences are made by this function, and only from the finding.
pub(crate) fn describe(finding: &Finding) -> Words {
    let rule = rules::RULES.iter().find(|rule| rule.name == finding.rule);
    let sentences = rule.map_or_else(|| Words::text(words::NOTHING), |rule| (rule.describe)(finding));
    words::whole(sentences, finding)
}

/// The finding of the first rule that applies and that no account contradicts.
fn finding(facts: &Facts<'_>) -> Finding {
    let found = rules::RULES
        .iter()
        .filter_map(|rule| Some(Finding { rule: rule.name.to_owned(), ..(rule.find)(facts)? }))
        .find(|found| !accounts::contradicts(facts, found))
        .unwrap_or_else(|| Finding::new(VerdictKind::Unclear));
    let broken = facts.report.broken_count;
    let found = found.with((broken > 0).then(|| Figure::new("broken", broken as f64, "streams")));
    let short = short_ns(facts.report).filter(|_| !CERTAIN.contains(&found.rule.as_str()));
    found.with(short.map(|lasted_ns| Figure::new("short_ns", lasted_ns, "ns")))
}

/// The rules whose findings are valid for short runs as well, or whose sentences say that the run was short.
const CERTAIN: [&str; 5] = ["", "paused", "deadlock", "hang", "too_short"];

/// The duration of the run, if the report covers all of it and the run was so short that it was mostly its
/// start.
fn short_ns(report: &Report) -> Option<f64> {
    let window = &report.window;
    let is_short = !window.partial && window.duration_ns > 0.0 && window.duration_ns < START_NS;
    is_short.then_some(window.duration_ns)
}

/// The names of all rules, in the order in which they are evaluated.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    rules::RULES.iter().map(|rule| rule.name)
}

#[cfg(test)]
mod tests;

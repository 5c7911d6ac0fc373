//! The verdict: what limits the flow, by which figures, and what to do about it.
//!
//! The rules ([`rules::RULES`]) are asked in order, from what explains everything else (a deadlock, a processor that was taken away) to
//! what is left when nothing stands out; the first that answers is the verdict. Each rests on shares of time, on where
//! waiting leads ([`crate::report::Root`]) and on true-rate utilisation, and answers with data: a [`Finding`]. Sentences are made
//! of that when it is complete ([`say`]). What a rule finds that the account of busy time rules out is no verdict
//! ([`accounts::contradicts`]): the next rule is asked.

mod accounts;
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
pub use thresholds::{THRESHOLDS, Threshold};
pub(crate) use utilisation::utilisation;

/// The verdict on a report whose other parts are complete.
pub(crate) fn verdict(report: &Report) -> Verdict {
    let finding = finding(&Facts::new(report));
    let words = say(&finding);
    Verdict::of(finding, words)
}

/// The finding in words: the one place where sentences are made, from nothing but the finding.
pub(crate) fn say(finding: &Finding) -> Words {
    let rule = rules::RULES.iter().find(|rule| rule.name == finding.rule);
    let said = rule.map_or_else(|| Words::text(words::NOTHING), |rule| (rule.say)(finding));
    words::whole(said, finding)
}

/// The first finding that no account rules out, by the order of rules.
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

/// Rules whose findings hold however short the run was, or that say themselves that it was short.
const CERTAIN: [&str; 5] = ["", "paused", "deadlock", "hang", "too_short"];

/// How long a whole run lasted that was mostly its start.
fn short_ns(report: &Report) -> Option<f64> {
    let window = &report.window;
    let is_short = !window.partial && window.duration_ns > 0.0 && window.duration_ns < START_NS;
    is_short.then_some(window.duration_ns)
}

/// The names of all rules, in the order in which they are asked.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    rules::RULES.iter().map(|rule| rule.name)
}

#[cfg(test)]
mod tests;

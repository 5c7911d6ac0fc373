//! There are more workers than processors, and the run itself keeps all processors busy.

use super::small_stream;
use crate::report::{Action, Figure, Finding, Subject, VerdictKind, Words};
use crate::verdict::accounts::used_by_run;
use crate::verdict::facts::Facts;
use crate::verdict::thresholds::{LOST, SATURATED};
use crate::wording::percent;

/// Whether there are more workers than processors, and the run itself keeps all processors busy.
pub(super) fn is_crowded(facts: &Facts<'_>) -> bool {
    facts.report.processors.as_ref().is_some_and(|processors| {
        let workers = facts.workers.len() as u64;
        !facts.keeps_up() && workers > processors.count && used_by_run(processors) >= SATURATED
    })
}

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    // Where streams hold so few messages, the processors change between workers with nearly each message.
    if !is_crowded(facts) || small_stream::worst_tiny(facts).is_some() {
        return None;
    }
    let processors = facts.report.processors.as_ref()?;
    let used = used_by_run(processors);
    let workers = facts.workers.len() as u64;
    let lost =
        |ns: Option<f64>, lifetime_ns: f64| ns.filter(|_| lifetime_ns > 0.0).map(|ns| ns / lifetime_ns);
    let delayed = facts
        .workers
        .iter()
        .filter_map(|(worker, _)| Some((*worker, lost(worker.delayed_ns, worker.lifetime_ns)?)));
    let (worker, delayed) = delayed.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share >= LOST)?;
    let working = facts.report.components.iter().filter(|component| component.work.messages_in > Some(0));
    let computing = |busy: Option<f64>| busy.unwrap_or(0.0);
    let top = working.max_by(|a, b| computing(a.work.busy_ns).total_cmp(&computing(b.work.busy_ns)));
    let found = Finding {
        component: top.map(|component| component.path.clone()),
        ..Finding::new(VerdictKind::Worker)
    };
    Some(
        found
            .with(Figure::new("workers", workers as f64, "workers"))
            .with(Figure::new("processors", processors.count as f64, "processors"))
            .with(Figure::share("used_by_run", used.min(1.0)))
            .with(Figure::share("delayed", delayed.min(1.0)).of(Subject::Worker(worker.id)))
            .rooted(facts)
            .so(Action::set("exec.workers", processors.count)),
    )
}

pub(super) fn describe(found: &Finding) -> Words {
    let processors = found.count("processors");
    let faster = found.component.as_ref().map_or(String::new(), |path| format!(", or a faster {path}"));
    Words::text(format!(
        "The processors limit the flow: {} workers share {processors}, which the run itself keeps busy {} of the time.",
        found.count("workers"),
        found.percent("used_by_run")
    ))
    .because(format!(
        "{} could have run and had no processor {} of the time, because others of this run had them",
        found.name_of("delayed"),
        percent(found.value("delayed"))
    ))
    .so(format!(
        "more processors{faster}; more workers than processors bring nothing, and changing between them costs (`{}`)",
        found.action()
    ))
}

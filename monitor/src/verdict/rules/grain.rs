//! Most work is in tasks each of which does hardly any work.

use crate::report::{Action, Component, Figure, Finding, Subject, VerdictKind, Words};
use crate::verdict::facts::{Facts, load};
use crate::verdict::thresholds::{GRAIN_BOXES, GRAIN_MESSAGES, GRAIN_NS, GRAIN_SHARE, GRAIN_TASKS};

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let (fine, rest): (Vec<&Component>, Vec<&Component>) =
        facts.report.components.iter().partition(|component| {
            component.tasks as f64 >= GRAIN_TASKS && messages(component) <= GRAIN_MESSAGES
        });
    let top = fine.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let in_fine: f64 = fine.iter().map(|component| busy(component)).sum();
    let in_rest: f64 = rest.iter().map(|component| busy(component)).sum();
    let in_boxes: f64 =
        fine.iter().filter(|component| component.kind == "box").map(|component| busy(component)).sum();
    let tasks: u64 = fine.iter().map(|component| component.tasks).sum();
    let share = in_fine / (in_fine + in_rest);
    let pays = in_fine > GRAIN_NS * tasks as f64 && in_boxes > GRAIN_BOXES * in_fine;
    // The share is NaN if no times are known.
    if share.is_nan() || share < GRAIN_SHARE || pays {
        return None;
    }
    let of_top = Subject::Component(top.path.clone());
    let found = Finding::new(VerdictKind::Grain)
        .about_component(&top.path)
        .with(Figure::share("fine_work", share))
        .with(Figure::new("tasks", top.tasks as f64, "tasks").of(of_top.clone()))
        .with(Figure::new("messages_per_task", messages(top), "messages").of(of_top));
    Some(on_workers(found, facts).rooted(facts))
}

fn busy(component: &Component) -> f64 {
    component.work.busy_ns.unwrap_or(0.0)
}

/// The mean number of messages that each of the component's tasks read.
fn messages(component: &Component) -> f64 {
    let work = &component.work;
    work.messages_in.unwrap_or(0).max(work.messages_out.unwrap_or(0)) as f64 / component.tasks as f64
}

/// Adds the busiest and the least busy worker, because work in very many small tasks is often divided
/// unevenly among workers.
fn on_workers(found: Finding, facts: &Facts<'_>) -> Finding {
    let [(first, high), .., (last, low)] = *facts.workers else { return found };
    found
        .with(Figure::new("workers", facts.report.workers.len() as f64, "workers"))
        .with(Figure::share("busy", load(&high)).of(first))
        .with(Figure::share("busy_least", load(&low)).of(last))
        .so(Action::run("run", &["--workers", "1"]))
        .so(Action::set("exec.workers", 1))
}

pub(super) fn describe(found: &Finding) -> Words {
    let several = found.figure("workers").is_some();
    let evidence = several.then(|| {
        format!(
            "on {} workers the busiest, {}, is busy {} of the time, the least busy {}",
            found.count("workers"),
            found.worker_of("busy"),
            found.percent("busy"),
            found.percent("busy_least")
        )
    });
    let besides =
        if several { "; as it is, one worker may be faster than several (`--workers 1`)" } else { "" };
    Words::text(format!(
        "The grain is too fine: {} of all work is in components that unfold into task after task, each for a message or two, most of it in {}.",
        found.percent("fine_work"),
        found.path()
    ))
    .because(evidence)
    .so(format!("let a message carry more work (batches){besides}"))
}

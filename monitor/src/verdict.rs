//! A first sentence on what limits the flow: the busiest task or worker, the source or the sink.
//!
//! It goes by shares of time alone. It does not follow waits to their root, so where several things are nearly
//! saturated it names the busiest and no more.

use crate::report::{Report, Stream, Task, TaskShares, Verdict, VerdictKind};

/// A task or worker busier than this has no time to spare.
const SATURATED: f64 = 0.85;
/// A network that waits this much for its source, or sink, is limited by it.
const STARVED: f64 = 0.5;

/// The verdict on a report whose other parts are complete.
pub(crate) fn verdict(report: &Report) -> Verdict {
    let mut found = saturated_task(report)
        .or_else(|| saturated_worker(report))
        .or_else(|| sink(report))
        .or_else(|| source(report))
        .or_else(|| busiest(report))
        .unwrap_or_else(|| {
            plain(
                VerdictKind::Unknown,
                "What limits the flow cannot be told: no shares of time are known.".to_owned(),
            )
        });
    if report.broken_count > 0 {
        found.text.push_str(" Beware: not every stream conserves its messages.");
    }
    found
}

fn plain(kind: VerdictKind, text: String) -> Verdict {
    Verdict { kind, text, component: None, worker: None }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Path of a task's component: its name without the replica.
fn path_of(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

fn moves(task: &Task) -> bool {
    let work = &task.work;
    (work.messages_in, work.messages_out) != (Some(0), Some(0))
}

fn saturated_task(report: &Report) -> Option<Verdict> {
    let (task, shares) = report
        .tasks
        .iter()
        .filter_map(|task| Some((task, task.work.shares?)))
        // A task that moves no messages, such as one that waits for the run's end, limits nothing.
        .filter(|(task, shares)| shares.busy >= SATURATED && moves(task))
        .max_by(|a, b| a.0.work.busy_ns.unwrap_or(0.0).total_cmp(&b.0.work.busy_ns.unwrap_or(0.0)))?;
    let path = path_of(&task.name);
    let busy = percent(shares.busy);
    let (kind, text) = if task.work.messages_in == Some(0) {
        (
            VerdictKind::Source,
            format!("The source {} limits the flow: it is busy {busy} of the time.", task.name),
        )
    } else if task.work.messages_out == Some(0) {
        (VerdictKind::Sink, format!("The sink {} limits the flow: it is busy {busy} of the time.", task.name))
    } else {
        let on = task.worker.map_or(String::new(), |worker| format!(" on worker {worker}"));
        (VerdictKind::Task, format!("{} limits the flow: it is busy {busy} of the time{on}.", task.name))
    };
    Some(Verdict { kind, text, component: Some(path.to_owned()), worker: task.worker })
}

fn saturated_worker(report: &Report) -> Option<Verdict> {
    let (worker, shares) = report
        .workers
        .iter()
        .filter_map(|worker| Some((worker, worker.shares?)))
        .filter(|(_, shares)| shares.busy >= SATURATED)
        .max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
    // Sources, and tasks that only wait, have threads of their own.
    let working = || report.components.iter().filter(|component| component.work.messages_in > Some(0));
    let all: f64 = working().filter_map(|component| component.work.busy_ns).sum();
    let top = working().next().filter(|_| all > 0.0);
    let most = top.map_or(String::new(), |component| {
        let share = component.work.busy_ns.unwrap_or(0.0) / all;
        format!("; of all work, {} is in {}", percent(share), component.path)
    });
    let saturated = report
        .workers
        .iter()
        .filter(|worker| worker.shares.is_some_and(|shares| shares.busy >= SATURATED))
        .count();
    let who = if saturated == report.workers.len() && saturated > 1 {
        format!(
            "All {saturated} workers limit the flow: the busiest is busy {} of the time",
            percent(shares.busy)
        )
    } else {
        format!("Worker {} limits the flow: it is busy {} of the time", worker.id, percent(shares.busy))
    };
    Some(Verdict {
        kind: VerdictKind::Worker,
        text: format!("{who}{most}."),
        component: top.map(|component| component.path.clone()),
        worker: Some(worker.id),
    })
}

fn sink(report: &Report) -> Option<Verdict> {
    let (share, path) =
        waiting_at(report, "exit", |stream| stream.writer.as_deref(), |shares| shares.output_wait)?;
    Some(Verdict {
        kind: VerdictKind::Sink,
        text: format!(
            "The sink limits the flow: {path} waits {} of the time for room in the exit.",
            percent(share)
        ),
        component: Some(path),
        worker: None,
    })
}

fn source(report: &Report) -> Option<Verdict> {
    let (share, path) =
        waiting_at(report, "entry", |stream| stream.reader.as_deref(), |shares| shares.input_wait)?;
    Some(Verdict {
        kind: VerdictKind::Source,
        text: format!("The source limits the flow: {path} waits {} of the time for input.", percent(share)),
        component: Some(path),
        worker: None,
    })
}

/// The component at the network's edge, if it waits there most of the time.
fn waiting_at<'r>(
    report: &'r Report,
    role: &str,
    side: impl Fn(&'r Stream) -> Option<&'r str>,
    wait: impl Fn(&TaskShares) -> f64,
) -> Option<(f64, String)> {
    let stream = report.streams.iter().find(|stream| stream.role == role)?;
    let path = side(stream)?;
    let component = report.components.iter().find(|component| component.path == path)?;
    let share = wait(&component.work.shares?);
    (share >= STARVED).then(|| (share, path.to_owned()))
}

fn busiest(report: &Report) -> Option<Verdict> {
    let task = report.tasks.iter().find(|task| task.work.shares.is_some() && moves(task))?;
    let shares = task.work.shares?;
    Some(Verdict {
        kind: VerdictKind::Unclear,
        text: format!(
            "Nothing is busy all the time; the busiest task is {} ({} busy, {} waiting for input, {} for output, {} ready).",
            task.name,
            percent(shares.busy),
            percent(shares.input_wait),
            percent(shares.output_wait),
            percent(shares.ready)
        ),
        component: Some(path_of(&task.name).to_owned()),
        worker: task.worker,
    })
}

//! Predicts the effects of changes from sums alone, for a run in mode metrics.
//!
//! A replay needs the costs and the order of single messages, which are not recorded in this mode. The
//! bottleneck model needs only sums: each worker has the work of its tasks, each thread of a task has the
//! work of that task, all threads share the processors, and the run takes as long as the busiest worker,
//! thread or set of processors (the asymptotic bounds of Denning and Buzen, 1978). The rest of the run's time
//! (waiting for one another, changing tasks) is assumed to stay the same.
//!
//! The changes are those that are tried for a recording; they are applied to a model in which no task waits
//! for another.

use super::changes::{BOX_WEIGHT, Change, candidates};
use super::model::{Model, NOTHING, Place, Reads, Runtime, Script, Task};
use super::replay::replay;
use super::{Predicted, Replayed, WhatIf, refusal};
use crate::report::{self, BusyAccount, Report, State, component_of};
use crate::verdict::{account_is_sure, is_source};

/// The greatest share of the run's time that the bottleneck may leave unexplained.
const UNEXPLAINED: f64 = 0.25;
/// The number of steps of each task in the model.
const STEPS: usize = 200;
/// A source that waits for outside input for at least this share of its time counts as running at the pace of
/// that input.
const WAITS: f64 = 0.5;

/// The effects of changes predicted from the sums of a report, or the reason why they are unknown.
pub(super) fn by_sums(report: &Report, runtime: Runtime) -> Replayed {
    match model(report, runtime) {
        Ok((model, lasted_ns)) => predicted(&model, lasted_ns),
        Err(why) => Replayed::refused(why),
    }
}

fn predicted(model: &Model, lasted_ns: f64) -> Replayed {
    let Some(before) = replay(model, 1) else { return Replayed::refused("the model comes to a standstill") };
    let unexplained_ns = lasted_ns - before.lasted_ns;
    if unexplained_ns.abs() > UNEXPLAINED * lasted_ns {
        return Replayed::refused(
            "what tasks took does not say how long the run lasted: they wait for one another",
        );
    }
    // Sums cannot predict changes of streams, dispatches and limits.
    let is_predictable = |change: &Change| {
        use Change::{Faster, Place, Replicas, Unplaced, Workers};
        matches!(change, Faster { .. } | Place { .. } | Replicas { .. } | Workers { .. } | Unplaced)
    };
    let mut changes: Vec<Predicted> = candidates(model)
        .into_iter()
        .filter(is_predictable)
        .filter_map(|change| {
            let after = replay(&change.applied(model), 1)?;
            let gain = lasted_ns / (after.lasted_ns + unexplained_ns).max(1.0) - 1.0;
            let wrong = 1.0 + unexplained_ns.abs() / lasted_ns;
            let (least, most) = ((1.0 + gain) / wrong - 1.0, (1.0 + gain) * wrong - 1.0);
            Some(Predicted { words: change.to_string(), change, gain, least, most })
        })
        .collect();
    changes.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    let samples = changes.iter().map(|change| vec![change.gain]).collect();
    let answer = WhatIf { refused: None, processors: model.runtime.processors, changes, ..refusal("") };
    Replayed { answer, samples, faster: 1.0 }
}

/// A model of the tasks with the time that each took, in which no task waits for another; and the duration of
/// the run.
fn model(report: &Report, runtime: Runtime) -> Result<(Model, f64), &'static str> {
    let lasted_ns = report.window.duration_ns;
    if report.window.state == State::Running || lasted_ns <= 0.0 {
        return Err("the run is not over");
    }
    let mut model = Model { tasks: Vec::new(), streams: Vec::new(), runtime };
    let mut tasks: Vec<&report::Task> = report.tasks.iter().collect();
    tasks.sort_by_key(|task| task.id.number);
    for task in tasks {
        let busy_ns = task.work.busy_ns.ok_or("the mode does not record what tasks took")?;
        model.tasks.push(modelled(report, task, busy_ns, lasted_ns));
    }
    // The report of a run with very many tasks contains only the busiest, which may be too few for a
    // prediction.
    let all: f64 = report.components.iter().filter_map(|of| of.work.busy_ns).sum();
    let known: f64 = report.tasks.iter().filter_map(|task| task.work.busy_ns).sum();
    if known < 0.95 * all || model.tasks.is_empty() {
        return Err("there are too many tasks: the report has not all of them");
    }
    Ok((model, lasted_ns))
}

fn modelled(report: &Report, task: &report::Task, busy_ns: f64, lasted_ns: f64) -> Task {
    let component = component_of(&task.name);
    let kind = report.components.iter().find(|of| of.path == component).map_or("", |of| of.kind.as_str());
    let account = task.work.account.as_ref().filter(|account| account_is_sure(account));
    let part = |of: fn(&BusyAccount) -> f64| {
        account.map_or(0.0, |account| (of(account) / account.total_ns().max(1.0)).clamp(0.0, 1.0))
    };
    let asleep = part(|account| account.asleep.total_ns());
    let locked = part(|account| account.asleep.lock_ns);
    let reads = part(|account| account.asleep.read_ns);
    // If a source runs at the pace of its outside input, the model contains the source's wait for this input.
    let input_wait = task.work.shares.map_or(0.0, |shares| shares.input_wait);
    let waits_ns = if is_source(task) && input_wait >= WAITS { input_wait * lasted_ns } else { 0.0 };
    let took_ns = busy_ns + waits_ns;
    let mut script = Script::default();
    (0..STEPS).for_each(|_| script.push(NOTHING, took_ns / STEPS as f64, 0.0, []));
    let on_processor = busy_ns * (1.0 - asleep) / took_ns.max(1.0);
    Task {
        name: task.name.clone(),
        component: component.to_owned(),
        place: task.worker.map_or(Place::OwnThread, |worker| Place::Worker(worker.number as usize)),
        reads: Reads::AsRecorded,
        script: script.into(),
        times: 1.0,
        on_processor: on_processor.clamp(0.02, 1.0),
        shown_after: STEPS,
        from_start: !task.name.contains('['),
        is_placed: component.split('/').any(|part| part.split('#').next() == Some("place")),
        weight: if kind == "box" { BOX_WEIGHT } else { 1 },
        // A task's wait for a lock keeps the recorded length, because it is not known which tasks share the
        // lock.
        locked: 0.0,
        shares: locked >= 0.2 || reads >= 0.2,
        is_paced: kind == "box" && reads >= 0.3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{TaskId, WorkerId};
    use crate::report::{Component, Work};

    /// A run of a second: `a` and `b` on worker 0, `c` on worker 1.
    fn report(busy: [f64; 3]) -> Report {
        let work = |busy: f64| Work { busy_ns: Some(busy * 1e9), ..Work::default() };
        let names = ["net/a", "net/b", "net/c"];
        let task = |at: usize| report::Task {
            id: TaskId::of(at as u64 + 1),
            name: names[at].to_owned(),
            worker: Some(WorkerId::of(u64::from(at == 2))),
            work: work(busy[at]),
            ..report::Task::default()
        };
        let component = |at: usize| Component {
            path: names[at].to_owned(),
            kind: "box".to_owned(),
            place: None,
            tasks: 1,
            tasks_live: 0,
            work: work(busy[at]),
            service: None,
        };
        let mut report = Report {
            tasks: (0..3).map(task).collect(),
            components: (0..3).map(component).collect(),
            ..Report::empty()
        };
        (report.window.duration_ns, report.window.state) = (1e9, State::Ended);
        report
    }

    fn gain(of: &Replayed, wanted: &str) -> f64 {
        let found = of.answer.changes.iter().find(|change| change.words == wanted);
        found.unwrap_or_else(|| panic!("{wanted}: {:?}", of.answer.changes)).gain
    }

    #[test]
    fn the_most_loaded_worker_limits_what_a_change_gains() {
        let runtime = || Runtime { workers: 2, ..Runtime::default() };
        let replayed = by_sums(&report([0.6, 0.35, 0.1]), runtime());
        assert_eq!(replayed.answer.refused, None);
        // Worker 0 takes 0.95 s of the second; the other 0.05 s are unexplained and stay the same.
        for (words, wanted) in [
            ("net/b on worker 1", 1.0 / 0.65),
            ("net/a twice as fast", 1.0 / 0.70),
            ("net/b twice as fast", 1.0 / 0.825),
            ("net/c twice as fast", 1.0),
            ("4 replicas of net/a", 1.0 / 0.60),
        ] {
            let gain = gain(&replayed, words);
            assert!((1.0 + gain - wanted).abs() < 0.01, "{words}: {gain}");
        }
        let waiting = by_sums(&report([0.3, 0.2, 0.1]), runtime());
        assert!(waiting.answer.refused.is_some(), "half of the time nobody works");
    }
}

//! Predicts the effects of changes from sums alone, for a run in mode metrics.
//!
//! A replay needs the costs and the order of single messages, which are not recorded in this mode. The
//! bottleneck model needs only sums: each worker has the work of its tasks, each thread of a task has the
//! work of that task, all threads share the processors, and the run takes as long as the busiest worker,
//! thread or set of processors (the asymptotic bounds of Denning and Buzen, 1978). The rest of the run's time
//! (waiting for one another, changing tasks) is assumed to stay the same.
//!
//! How sure a prediction is comes from samples in which the times of tasks deviate as they do between two
//! runs.
//!
//! The changes are those that are tried for a recording; they are applied to a model in which no task waits
//! for another.

use super::changes::{BOX_WEIGHT, Change, candidates, placed_anew, rebalanced};
use super::model::{Model, NOTHING, Place, Reads, Runtime, Script, Task, Unfolding};
use super::recording::{LOCKED, PACED};
use super::replay::replay;
use super::{Predicted, Replayed, WhatIf, interval, refusal};
use crate::monitors::kernel_for_lock;
use crate::report::{self, BusyAccount, Report, State, component_of};
use crate::verdict::chance::Chance;
use crate::verdict::{account_is_sure, is_source, spinning_part};

/// The greatest share of the run's time that the bottleneck may leave unexplained.
const UNEXPLAINED: f64 = 0.25;
/// The number of steps of each task in the model.
const STEPS: usize = 200;
/// The largest number of samples, the smallest number of samples that make a confidence, and the largest
/// number of steps that are replayed for samples.
const SAMPLES: usize = 40;
const SAMPLES_MIN: usize = 10;
const STEPS_DRAWN: usize = 8_000_000;
/// The relative deviation of a task's time between two runs of the same network, by 124 tasks that were
/// measured in three runs each (median of their deviations).
const FROM_RUN_TO_RUN: f64 = 0.05;
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
    // It is not known which tasks share a lock, so each task's wait for a lock keeps its recorded length.
    let fixed = model.without_locks();
    let model = fixed.as_ref().unwrap_or(model);
    let Some(before) = replay(model, 1) else { return Replayed::refused("the model comes to a standstill") };
    let unexplained_ns = lasted_ns - before.lasted_ns;
    if unexplained_ns.abs() > UNEXPLAINED * lasted_ns {
        return Replayed::refused(
            "what tasks took does not say how long the run lasted: they wait for one another",
        );
    }
    // Sums cannot predict changes of streams, dispatches and limits.
    let is_predictable = |change: &Change| {
        use Change::{Faster, Place, Replicas, Unlocked, Unplaced, Workers};
        matches!(
            change,
            Faster { .. } | Place { .. } | Replicas { .. } | Workers { .. } | Unplaced | Unlocked { .. }
        )
    };
    let changes: Vec<Change> = candidates(model).into_iter().filter(is_predictable).collect();
    let gains = gains(model, &changes, unexplained_ns);
    let drawn = drawn(model, &changes, unexplained_ns, lasted_ns);
    let mut rows: Vec<(Predicted, Vec<f64>)> = Vec::new();
    for (at, change) in changes.into_iter().enumerate() {
        let Some(gain) = gains[at].filter(|&gain| change.is_known(model, gain)) else { continue };
        let samples: Vec<f64> = drawn.iter().map(|gains| gains[at].unwrap_or(gain)).collect();
        let wrong = 1.0 + unexplained_ns.abs() / lasted_ns;
        let (mut least, mut most) = ((1.0 + gain) / wrong - 1.0, (1.0 + gain) * wrong - 1.0);
        if !samples.is_empty() {
            let (lower, upper) = interval(&samples);
            (least, most) = (least.min(lower), most.max(upper));
        }
        rows.push((Predicted { words: change.to_string(), change, gain, least, most }, samples));
    }
    rows.sort_by(|a, b| b.0.gain.total_cmp(&a.0.gain));
    let (changes, samples) = rows.into_iter().unzip();
    let answer = WhatIf { refused: None, processors: model.runtime.processors, changes, ..refusal("") };
    Replayed { answer, samples, faster: 1.0 }
}

/// The gain of each change in the model.
fn gains(model: &Model, changes: &[Change], unexplained_ns: f64) -> Vec<Option<f64>> {
    let lasted_ns = |model: &Model| Some((replay(model, 1)?.lasted_ns + unexplained_ns).max(1.0));
    let Some(before) = lasted_ns(model) else { return vec![None; changes.len()] };
    let anew = lasted_ns(&placed_anew(model)).map_or(before, |anew| anew.min(before));
    let rebalanced = rebalanced(model).and_then(|other| lasted_ns(&other));
    let rebalanced = rebalanced.map_or(before, |rebalanced| rebalanced.min(before));
    let gain = |change: &Change| {
        let before = match change {
            _ if change.places_anew(model) => anew,
            _ if change.rebalances() => rebalanced,
            _ => before,
        };
        Some(before / lasted_ns(&change.applied(model))? - 1.0)
    };
    changes.iter().map(gain).collect()
}

/// The gains of the changes in samples in which the tasks' times deviate as they do from run to run, and as
/// the unexplained part of the run's time allows: there are as many samples as can be replayed soon, or none
/// if those are too few.
fn drawn(model: &Model, changes: &[Change], unexplained_ns: f64, lasted_ns: f64) -> Vec<Vec<Option<f64>>> {
    let each = (STEPS * model.tasks.len() * changes.len()).max(1);
    let count = (STEPS_DRAWN / each).min(SAMPLES);
    if count < SAMPLES_MIN {
        return Vec::new();
    }
    let deviation = FROM_RUN_TO_RUN.hypot(unexplained_ns / lasted_ns / 2.0);
    let mut chance = Chance(1);
    let mut sample = || {
        let mut other = model.clone();
        other.tasks.iter_mut().for_each(|task| task.times *= chance.factor(deviation));
        gains(&other, changes, unexplained_ns)
    };
    (0..count).map(|_| sample()).collect()
}

/// A model of the tasks with the time that each took, in which no task waits for another; and the duration of
/// the run.
fn model(report: &Report, runtime: Runtime) -> Result<(Model, f64), &'static str> {
    let lasted_ns = report.window.duration_ns;
    if report.window.state == State::Running || lasted_ns <= 0.0 {
        return Err("the run is not over");
    }
    let mut model = Model { tasks: Vec::new(), streams: Vec::new(), runtime };
    let components = report.components.iter();
    let unfolding = Unfolding::of(components.map(|of| (of.path.as_str(), of.kind.as_str())));
    let mut tasks: Vec<&report::Task> = report.tasks.iter().collect();
    tasks.sort_by_key(|task| task.id.number);
    for task in tasks {
        let busy_ns = task.work.busy_ns.ok_or("the mode does not record what tasks took")?;
        model.tasks.push(modelled(report, &unfolding, task, (busy_ns, lasted_ns)));
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

/// The number of a task among the tasks of its component, as in `net/star[2]`.
fn number_of(name: &str) -> u64 {
    let number = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    number.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

fn modelled(
    report: &Report,
    unfolding: &Unfolding,
    task: &report::Task,
    (busy_ns, lasted_ns): (f64, f64),
) -> Task {
    let component = component_of(&task.name);
    let kind = report.components.iter().find(|of| of.path == component).map_or("", |of| of.kind.as_str());
    let account = task.work.account.as_ref().filter(|account| account_is_sure(account));
    let part = |of: fn(&BusyAccount) -> f64| {
        account.map_or(0.0, |account| (of(account) / account.total_ns().max(1.0)).clamp(0.0, 1.0))
    };
    let asleep = part(|account| account.asleep.total_ns());
    let locked = part(|account| account.asleep.lock_ns);
    // Of a task with few samples, the share of its component is known better.
    let of_component = || report.components.iter().find(|of| of.path == component)?.work.account.as_ref();
    let spins = spinning_part(account).or_else(|| spinning_part(of_component())).unwrap_or(0.0).min(0.95);
    let spins = if spins < LOCKED { 0.0 } else { spins };
    let slept = if locked < LOCKED { 0.0 } else { locked.min(0.95) };
    let in_kernel = if slept > 0.0 { in_kernel(report, task) } else { 0.0 };
    let awake = (1.0 - slept) * (in_kernel + (1.0 - in_kernel) * spins);
    let waits = (slept + awake).min(0.95);
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
        times: 1.0 - waits,
        on_processor: ((on_processor - awake) / (1.0 - waits)).clamp(0.02, 1.0),
        shown_after: STEPS,
        origin: unfolding.origin(component, number_of(&task.name)),
        is_placed: component.split('/').any(|part| part.split('#').next() == Some("place")),
        weight: if kind == "box" { BOX_WEIGHT } else { 1 },
        locked: waits,
        waits: 0.0,
        spun: if waits > 0.0 { awake / (slept + awake) } else { 0.0 },
        shares: locked >= 0.2 || reads >= 0.2,
        is_paced: match kind {
            "box" => reads >= PACED,
            "sink" => part(|account| account.asleep.write_ns) * busy_ns >= PACED * lasted_ns,
            _ => false,
        },
    }
}

/// The share of its worker's processor time that the kernel took, beyond what is usual, while the worker's
/// tasks slept for a lock and woke others.
fn in_kernel(report: &Report, task: &report::Task) -> f64 {
    let worker = report.workers.iter().find(|worker| Some(worker.id) == task.worker);
    let of_worker = |worker: &report::Worker| {
        let account = worker.account.as_ref()?;
        let cpu_ns = account.total_ns() - account.asleep.total_ns() - account.kept_ns;
        kernel_for_lock(cpu_ns, account.kernel_ns?, account.faults? as f64)
    };
    worker.and_then(of_worker).unwrap_or(0.0)
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

    /// A star of two stages on worker 0, each with a box that is asleep, and a box on worker 1.
    fn star() -> Report {
        let mut report = report([0.45, 0.5, 0.1]);
        let names = ["net/star/w[0]", "net/star/w[1]", "net/c"];
        for (at, name) in names.into_iter().enumerate() {
            report.tasks[at].name = name.to_owned();
            report.components[at].path = component_of(name).to_owned();
        }
        let star = Component {
            path: "net/star".to_owned(),
            kind: "star".to_owned(),
            ..report.components[0].clone()
        };
        report.components.push(Component { work: Work { busy_ns: Some(1e6), ..Work::default() }, ..star });
        let mut task = report.tasks[0].clone();
        (task.id, task.name) = (TaskId::of(0), "net/star[0]".to_owned());
        task.work.busy_ns = Some(1e6);
        report.tasks.push(task);
        report
    }

    #[test]
    fn stages_of_a_star_gain_nothing_from_further_workers() {
        let runtime = Runtime { workers: 4, processors: 8.0, ..Runtime::default() };
        let replayed = by_sums(&star(), runtime);
        let more = gain(&replayed, "5 workers");
        assert!(more.abs() < 0.02, "{more}");
        assert!(gain(&replayed, "net/star/w twice as fast") > 0.8);
    }

    #[test]
    fn samples_show_how_sure_a_gain_is() {
        let replayed = by_sums(&report([0.6, 0.35, 0.1]), Runtime { workers: 2, ..Runtime::default() });
        let of = |wanted: &str| {
            let at = replayed.answer.changes.iter().position(|change| change.words == wanted);
            let at = at.unwrap_or_else(|| panic!("{wanted}: {:?}", replayed.answer.changes));
            (&replayed.answer.changes[at], &replayed.samples[at])
        };
        let (moved, samples) = of("net/b on worker 1");
        assert_eq!(samples.len(), SAMPLES);
        assert!(moved.least < moved.gain && moved.gain < moved.most, "{moved:?}");
        // A box on a worker with little to do gains nothing in any sample.
        let (idle, samples) = of("net/c twice as fast");
        assert!(samples.iter().all(|gain| gain.abs() < 0.01), "{idle:?}: {samples:?}");
    }
}

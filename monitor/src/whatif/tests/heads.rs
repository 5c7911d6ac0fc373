//! Compares verdicts with the best replayed change (the head of the table) for lines of tasks, in which the
//! slowest task limits the flow.

use super::super::judged::judge;
use super::super::predicted;
use super::*;
use crate::ids::{TaskId, WorkerId};
use crate::report::{
    Action, Figure, Finding, Processors, Report, Task as TaskOf, TaskShares, VerdictKind, Work, Worker,
    WorkerShares,
};
use crate::verdict::verdict;

/// The report on a run of a line: tasks with their busy shares, and a given verdict.
fn report(busy: &[f64], given: Finding) -> Report {
    let tasks = busy.iter().enumerate().map(|(at, &busy)| {
        let last = at + 1 == 3;
        let work = Work {
            messages_in: Some(if at == 0 { 0 } else { 100 }),
            messages_out: Some(if last { 0 } else { 100 }),
            busy_ns: Some(busy * 1e9),
            shares: Some(TaskShares { busy, input_wait: 1.0 - busy, output_wait: 0.0, ready: 0.0 }),
            ..Work::default()
        };
        TaskOf {
            id: TaskId::of(at as u64 + 1),
            name: format!("t{at}"),
            worker: Some(WorkerId::of(at as u64)),
            work,
            ..TaskOf::default()
        }
    });
    let mut report = Report { tasks: tasks.collect(), ..Report::empty() };
    report.window.duration_ns = 1e9;
    report.verdict = verdict(&report);
    report.verdict.finding = given;
    report.verdict.words.text = "Somebody said this.".to_owned();
    report
}

/// The report whose given verdict was judged by a replay, on a line whose tasks have these costs for each of
/// 400 messages.
fn judged(costs: [f64; 3], given: Finding) -> Report {
    let costs: Vec<Vec<f64>> = costs.iter().map(|&cost| vec![cost; 400]).collect();
    let model = line(&costs, &[8, 8]);
    let lasted_ns = run(&model).lasted_ns;
    let most = costs.iter().map(|costs| costs[0]).fold(0.0, f64::max);
    let busy: Vec<f64> = costs.iter().map(|costs| 0.7 * costs[0] / most).collect();
    let mut report = report(&busy, given);
    judge(&mut report, &predicted(&model, lasted_ns, 0.0), 64);
    report
}

fn task(component: &str) -> Finding {
    Finding {
        component: Some(component.to_owned()),
        rule: "saturated_task".to_owned(),
        ..Finding::new(VerdictKind::Task)
    }
}

#[test]
fn a_verdict_that_the_replay_confirms_stays_and_is_sure() {
    let report = judged([10e3, 60e3, 20e3], task("t1"));
    assert_eq!(report.verdict.words.text, "Somebody said this.");
    assert_eq!((report.verdict.confidence, report.verdict.alternatives.len()), (Some(1.0), 0));
    let replay = report.replay.expect("it was replayed");
    assert_eq!((replay.overruled, replay.refused), (None, None));
    let head = &replay.suggestions[0];
    assert_eq!((head.words.as_str(), head.kind), ("t1 twice as fast", VerdictKind::Task));
    // If the slowest task is made twice as fast, the time per message falls from 60 to 30.
    assert!((head.gain - 1.0).abs() < 0.02 && head.least <= head.gain && head.gain <= head.most, "{head:?}");
    assert!(replay.suggestions.iter().all(|row| row.gain >= 0.03), "nothing below 3 %");
}

#[test]
fn a_verdict_whose_relief_gains_little_is_overruled_visibly() {
    let report = judged([10e3, 60e3, 20e3], task("t2"));
    let finding = &report.verdict.finding;
    assert_eq!((finding.rule.as_str(), finding.component.as_deref()), ("replayed", Some("t1")));
    assert_eq!(finding.kind, VerdictKind::Task);
    assert!(
        report.verdict.words.text.starts_with("t1 limits the flow; relieved of it, 10"),
        "{:?}",
        report.verdict.words
    );
    let entry = report.verdict.words.evidence.iter().find(|entry| entry.contains("Somebody said this"));
    assert!(
        entry.is_some_and(|entry| entry.ends_with("its relief gains nothing")),
        "{:?}",
        report.verdict.words
    );
    assert_eq!(report.replay.and_then(|replay| replay.overruled).as_deref(), Some("Somebody said this."));
}

#[test]
fn where_nothing_gains_none_is_named() {
    // All three tasks are equal, so making one faster gains nothing by itself.
    let costs: Vec<Vec<f64>> = vec![vec![50e3; 400]; 3];
    let model = line(&costs, &[8, 8]);
    let lasted_ns = run(&model).lasted_ns;
    let mut report = report(&[0.7; 3], task("t1"));
    judge(&mut report, &predicted(&model, lasted_ns, 0.0), 64);
    assert_eq!(report.verdict.finding.kind, VerdictKind::Unclear, "{:?}", report.verdict);
    assert!(report.verdict.words.text.starts_with("No single change"), "{}", report.verdict.words.text);
}

#[test]
fn what_a_replay_knows_nothing_of_is_not_overruled() {
    for (kind, rule) in [
        (VerdictKind::Hang, "hang"),
        (VerdictKind::Nothing, "nothing"),
        (VerdictKind::Contention, "throttled"),
    ] {
        let given = Finding { rule: rule.to_owned(), ..Finding::new(kind) };
        let report = judged([10e3, 60e3, 20e3], given);
        assert_eq!(report.verdict.finding.kind, kind);
        assert!(
            report.replay.is_some_and(|replay| replay.overruled.is_none() && !replay.suggestions.is_empty())
        );
    }
}

#[test]
fn a_sink_that_waits_for_its_reader_is_not_overruled_where_nothing_else_gains() {
    let of = |written: f64| {
        let model = line(&vec![vec![50e3; 400]; 3], &[8, 8]);
        let given = Finding { rule: "sink".to_owned(), ..Finding::new(VerdictKind::Sink) };
        let given = given.with(Figure::share("asleep_of_busy", 0.9));
        let given = given.with((written > 0.0).then(|| Figure::share("asleep_for_write", written)));
        let mut report = report(&[0.7; 3], given);
        judge(&mut report, &predicted(&model, run(&model).lasted_ns, 0.0), 64);
        report.verdict.finding.kind
    };
    assert_eq!(of(0.9), VerdictKind::Sink, "the replay knows nothing of the reader");
    assert_eq!(of(0.0), VerdictKind::Unclear);
}

#[test]
fn the_gain_without_a_lock_stands_beside_a_component_that_shares_it() {
    let judged = |locked: f64| {
        // With the lock one message takes 80 us, without it 60, as if the second task took half as long.
        let mut model = line(&[vec![40e3; 400], vec![40e3; 400], vec![60e3; 400]], &[8, 8]);
        model.tasks[..2].iter_mut().for_each(|task| task.locked = locked);
        let mut report = report(&[0.5, 0.5, 0.75], task("t1"));
        judge(&mut report, &predicted(&model, run(&model).lasted_ns, 0.0), 64);
        report.verdict
    };
    let verdict = judged(0.4);
    assert_eq!(verdict.finding.component.as_deref(), Some("t1"), "{verdict:?}");
    assert!((verdict.finding.value("gain_unlocked") - 1.0 / 3.0).abs() < 0.03, "{verdict:?}");
    assert!(verdict.words.suggestion.is_some_and(|so| so.contains("without the lock")));
    assert!(judged(0.0).finding.figure("gain_unlocked").is_none());
}

#[test]
fn other_processes_are_weighed_by_what_the_run_gains_without_them() {
    let judged = |costs: [f64; 3]| {
        let costs: Vec<Vec<f64>> = costs.iter().map(|&cost| vec![cost; 400]).collect();
        let model = line(&costs, &[8, 8]);
        // The run took a quarter longer than its replay, because it had no processor for that time.
        let lasted_ns = 1.25 * run(&model).lasted_ns;
        let mut report = report(&[0.7; 3], Finding::new(VerdictKind::Contention));
        judge(&mut report, &predicted(&model, lasted_ns, 0.2), 64);
        report
    };
    let slow = judged([10e3, 60e3, 20e3]);
    assert_eq!(slow.verdict.finding.component.as_deref(), Some("t1"), "twice as much against a quarter more");
    let gain = slow.replay.and_then(|replay| replay.overruled_gain).expect("it was overruled");
    assert!((gain - 0.25).abs() < 0.01, "{gain}");
    let alike = judged([50e3; 3]);
    assert_eq!(alike.verdict.finding.kind, VerdictKind::Contention, "nothing else gains");
}

#[test]
fn a_sleeping_head_is_reported_as_sleeping() {
    let costs: Vec<Vec<f64>> = [10e3, 60e3, 20e3].iter().map(|&cost| vec![cost; 400]).collect();
    let model = line(&costs, &[8, 8]);
    let lasted_ns = run(&model).lasted_ns;
    let mut report = report(&[0.1, 0.7, 0.2], task("t2"));
    let asleep = crate::report::Asleep { sleep_ns: 0.65e9, ..Default::default() };
    let account =
        crate::report::BusyAccount { computing_ns: 0.05e9, asleep, looks: 100, ..Default::default() };
    report.tasks[1].work.account = Some(account);
    judge(&mut report, &predicted(&model, lasted_ns, 0.0), 64);
    let words = &report.verdict.words;
    assert!(
        words
            .text
            .starts_with("t1 limits the flow: it sleeps for a time (`nanosleep`) 93 % of its busy time"),
        "{words:?}"
    );
    assert!(words.suggestion.as_deref().is_some_and(|so| so.starts_with("declare t1 blocking")), "{words:?}");
}

#[test]
fn a_move_is_suggested_as_the_command_that_makes_it() {
    // Two tasks of equal work share worker 1, and worker 0 has almost no work.
    let costs: Vec<Vec<f64>> = [1e3, 40e3, 40e3].iter().map(|&cost| vec![cost; 400]).collect();
    let mut model = line(&costs, &[8, 8]);
    (model.runtime.workers, model.runtime.processors) = (2, 2.0);
    (model.tasks[1].place, model.tasks[2].place) = (Place::Worker(1), Place::Worker(1));
    let lasted_ns = run(&model).lasted_ns;
    let mut report = report(&[0.02, 0.49, 0.49], Finding::new(VerdictKind::Unclear));
    judge(&mut report, &predicted(&model, lasted_ns, 0.0), 64);
    let finding = &report.verdict.finding;
    assert_eq!(
        (finding.rule.as_str(), finding.kind),
        ("replayed", VerdictKind::Mapping),
        "{:?}",
        report.verdict
    );
    let Some(Action::Set(set)) = finding.actions.first() else { panic!("{finding:?}") };
    let task = finding.task.as_ref().expect("it is about a task");
    assert_eq!(set.setting, format!("task/{}.worker", task.id.number));
    assert_eq!(set.value, "0");
    assert!((0.8..1.05).contains(&set.gain.expect("a prediction")), "{set:?}");
}

#[test]
fn of_two_moves_the_better_one_is_the_verdict() {
    // Worker 1 has work of 31, 34 and 35: without the last task 65 of 100 remain, and without the first one 69.
    let costs: Vec<Vec<f64>> = [1e3, 31e3, 34e3, 35e3].iter().map(|&cost| vec![cost; 400]).collect();
    let mut model = line(&costs, &[8, 8, 8]);
    (model.runtime.workers, model.runtime.processors) = (2, 2.0);
    model.tasks[1..].iter_mut().for_each(|task| task.place = Place::Worker(1));
    let lasted_ns = run(&model).lasted_ns;
    let moved = |task: u64| Finding {
        component: Some(format!("t{}", task - 1)),
        rule: "mapping".to_owned(),
        task: Some(crate::report::TaskRef { id: TaskId::of(task), name: format!("t{}", task - 1) }),
        actions: vec![Action::set(&format!("task/{task}.worker"), 0)],
        ..Finding::new(VerdictKind::Mapping)
    };
    for task in [2, 4] {
        let mut report = report(&[0.01, 0.31, 0.34, 0.34], moved(task));
        judge(&mut report, &predicted(&model, lasted_ns, 0.0), 64);
        let Some(Action::Set(set)) = report.verdict.finding.actions.first() else { panic!("{report:?}") };
        assert_eq!(set.setting, "task/4.worker", "instead of the move of task {task}");
    }
}

#[test]
fn a_change_that_gains_in_most_samples_is_named_although_its_interval_is_wide() {
    let mut numbers = Numbers(11);
    let rare = |_| if numbers.uniform() < 0.006 { 1.2e6 } else { 30e3 };
    let costs = [vec![45e3; 400], (0..400).map(rare).collect(), vec![45e3; 400]];
    let model = line(&costs, &[8, 8]);
    // The replay is a little faster than the run, which makes the interval wider.
    let lasted_ns = 1.08 * run(&model).lasted_ns;
    let mut report = report(&[0.7, 0.8, 0.7], task("t0"));
    let replayed = predicted(&model, lasted_ns, 0.0);
    let row = |row: &&super::super::Predicted| matches!(&row.change, Change::Faster { component, times: 2.0, .. } if component == "t1");
    let row = replayed.answer.changes.iter().find(row).expect("t1 twice as fast").clone();
    judge(&mut report, &replayed, 64);
    assert!(row.least < 0.0 && row.gain > 0.05, "{row:?}");
    assert_eq!(report.verdict.finding.component.as_deref(), Some("t1"), "{:?}", report.verdict);
}

/// The kind of the verdict on a line that its slowest task limits, if other processes also had the processor of
/// that task's worker for the share `lost` of the time. Another worker computes for the share `other` of the time.
fn beside_others(given: Finding, lost: f64, other: f64) -> VerdictKind {
    let costs: Vec<Vec<f64>> = [10e3, 60e3, 20e3].map(|cost| vec![cost; 400]).into();
    let model = line(&costs, &[8, 8]);
    let lasted_ns = run(&model).lasted_ns;
    let mut report = report(&[0.1, 0.7, 0.2], given);
    // The source waits for room, so the network does not keep up with it.
    report.tasks[0].work.shares =
        Some(TaskShares { busy: 0.1, input_wait: 0.0, output_wait: 0.9, ready: 0.0 });
    let shares =
        WorkerShares { busy: 0.7, waiting: 0.3 - lost / 3.0, own: 0.0, kept: lost / 3.0, unaccounted: 0.0 };
    let worker = |id: u64, cpu_ns: f64, delayed_ns: f64| Worker {
        id: WorkerId::of(id),
        lifetime_ns: 1e9,
        shares: Some(shares),
        cpu_ns: Some(cpu_ns),
        delayed_ns: Some(delayed_ns),
        ..Worker::default()
    };
    report.workers = vec![worker(1, (0.75 - lost) * 1e9, lost * 1e9), worker(0, other * 1e9, 0.0)];
    report.processors = Some(Processors {
        count: 2,
        span_ns: 1e9,
        run_ns: 5e8,
        others_ns: Some(1.5e9),
        throttled_ns: 0.0,
        sampling_ns: 0.0,
        looks: 0,
    });
    judge(&mut report, &predicted(&model, lasted_ns, 0.0), 64);
    report.verdict.finding.kind
}

#[test]
fn other_processes_are_the_verdict_where_they_take_more_than_any_change_gains() {
    let others = || Finding { rule: "contention".to_owned(), ..Finding::new(VerdictKind::Contention) };
    // The slowest task twice as fast gains 100 %; without the others 1 / (1 - lost) of the flow is possible.
    assert_eq!(beside_others(task("t1"), 0.6, 0.2), VerdictKind::Contention);
    assert_eq!(beside_others(task("t1"), 0.45, 0.2), VerdictKind::Task);
    assert_eq!(beside_others(others(), 0.45, 0.2), VerdictKind::Contention);
    assert_eq!(beside_others(others(), 0.25, 0.2), VerdictKind::Task);
    // If another worker computes for 80 % of the time, no more than a quarter is gained without the others.
    assert_eq!(beside_others(others(), 0.45, 0.8), VerdictKind::Task);
}

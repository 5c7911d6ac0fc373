//! Tests verdicts over generated windows whose causes are known.

use super::*;
use crate::ids::{TaskId, WorkerId};
use crate::report::{StreamRef, Task, TaskShares, Work, Worker, WorkerShares};

const WINDOW_NS: f64 = 1e8;

/// A window of 0.1 s in which tasks 1, 2, … had these busy shares, each on a worker of its own, and all of
/// them get their messages from a source that waits for room.
fn window(busy: &[f64], messages: u64) -> Report {
    let task = |id: u64, name: String, worker: Option<u64>, shares: TaskShares, io: [u64; 2]| Task {
        id: TaskId::of(id),
        name,
        worker: worker.map(WorkerId::of),
        work: Work {
            messages_in: Some(io[0]),
            messages_out: Some(io[1]),
            busy_ns: Some(shares.busy * WINDOW_NS),
            lifetime_ns: Some(WINDOW_NS),
            shares: Some(shares),
            dispatches: Some(10),
            yield_share: Some(0.0),
            ..Work::default()
        },
        ..Task::default()
    };
    let shares = |busy, output_wait| TaskShares {
        busy,
        input_wait: 1.0 - busy - output_wait,
        output_wait,
        ready: 0.0,
    };
    let mut tasks = vec![task(9, "source".to_owned(), None, shares(0.1, 0.8), [0, messages])];
    let mut workers = Vec::new();
    for (at, &busy) in busy.iter().enumerate() {
        let id = at as u64 + 1;
        tasks.push(task(id, format!("net/w{id}"), Some(id), shares(busy, 0.0), [messages; 2]));
        let shares = WorkerShares { busy, waiting: 1.0 - busy, own: 0.0, kept: 0.0, unaccounted: 0.0 };
        workers.push(Worker {
            id: WorkerId::of(id),
            lifetime_ns: WINDOW_NS,
            shares: Some(shares),
            ..Worker::default()
        });
    }
    let components = tasks
        .iter()
        .map(|task| crate::report::Component {
            path: task.name.clone(),
            kind: "box".to_owned(),
            place: None,
            tasks: 1,
            tasks_live: 0,
            work: task.work.clone(),
            service: None,
        })
        .collect();
    let mut report = Report { tasks, workers, components, ..Report::empty() };
    report.window.duration_ns = WINDOW_NS;
    report.throughput.messages_in = Some(messages);
    report
}

/// The report on all windows, with the verdict's confidence and the phases that follow from the windows.
fn judged(windows: &[Report]) -> Report {
    let mut report = merged(windows).expect("there are windows");
    report.verdict = verdict(&report);
    over_time(&mut report, windows);
    if report.phases.is_empty() {
        add_alternatives(&mut report.verdict);
    }
    report
}

#[test]
fn a_run_that_is_alike_throughout_has_one_phase_and_is_sure() {
    let windows: Vec<Report> = (0..12).map(|at| window(&[0.95 + 0.002 * f64::from(at), 0.3], 100)).collect();
    let report = judged(&windows);
    assert_eq!(report.phases, []);
    assert_eq!(report.verdict.finding.component.as_deref(), Some("net/w1"));
    assert_eq!((report.verdict.confidence, report.verdict.alternatives.len()), (Some(1.0), 0));
    assert!(report.verdict.words.text.starts_with("net/w1 limits the flow"), "{}", report.verdict.words.text);
}

#[test]
fn a_change_is_reported_in_the_first_line_with_a_verdict_for_each_phase() {
    let first = (0..8).map(|_| window(&[0.98, 0.3], 100));
    let then = (0..4).map(|_| window(&[0.3, 0.98], 60));
    let report = judged(&first.chain(then).collect::<Vec<_>>());
    let [a, b] = &report.phases[..] else { panic!("{:?}", report.phases) };
    assert_eq!((a.from_ns, a.to_ns, b.from_ns, b.to_ns), (0.0, 8e8, 8e8, 1.2e9));
    let of = |phase: &Phase| phase.verdict.finding.component.clone().unwrap_or_default();
    assert_eq!((of(a).as_str(), of(b).as_str()), ("net/w1", "net/w2"));
    assert_eq!((a.entry_per_s, b.entry_per_s), (Some(1000.0), Some(600.0)));
    let text = &report.verdict.words.text;
    assert!(
        text.starts_with("What limits the flow changed. From 0.00 to 0.80 s (1000 messages/s): net/w1"),
        "{text}"
    );
    assert!(text.contains("from 0.80 to 1.20 s (600 messages/s): net/w2 limits the flow"), "{text}");
    // The finding is that of the longest phase.
    assert_eq!(report.verdict.finding.component.as_deref(), Some("net/w1"));
}

#[test]
fn two_limits_that_take_turns_at_random_are_both_reported_with_their_shares() {
    // Now one task is busier, now the other, at random, so there is no phase and no certain verdict.
    let bits = [1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1_u8];
    let windows: Vec<Report> = bits
        .iter()
        .map(|&bit| if bit == 1 { window(&[0.99, 0.83], 100) } else { window(&[0.83, 0.985], 100) })
        .collect();
    let report = judged(&windows);
    assert_eq!(report.phases, []);
    let confidence = report.verdict.confidence.expect("there are windows");
    assert!((0.3..0.95).contains(&confidence), "{confidence}");
    let other = &report.verdict.alternatives[0];
    assert!(other.component.is_some() && other.component != report.verdict.finding.component, "{other:?}");
    assert!(
        (confidence + report.verdict.alternatives.iter().map(|other| other.share).sum::<f64>() - 1.0).abs()
            < 1e-9
    );
    if confidence < ALONE {
        assert!(report.verdict.words.text.contains(" %), or: net/w"), "{}", report.verdict.words.text);
    }
}

#[test]
fn two_streams_that_are_too_small_are_one_verdict() {
    let of = |component: &str, is_stream: bool| Finding {
        component: Some(component.to_owned()),
        stream: is_stream.then(|| StreamRef { name: component.to_owned(), writer: None, reader: None }),
        ..Finding::new(VerdictKind::Capacity)
    };
    assert!(is_same(&of("a", true), &of("b", true)));
    assert!(!is_same(&of("a", true), &of("a", false)), "a limit on messages is another setting");
    assert!(!is_same(&task_of("a"), &task_of("b")));
}

fn task_of(component: &str) -> Finding {
    Finding { component: Some(component.to_owned()), ..Finding::new(VerdictKind::Task) }
}

#[test]
fn too_few_windows_give_no_confidence_and_no_phases() {
    let windows: Vec<Report> = (0..4).map(|_| window(&[0.98], 100)).collect();
    let report = judged(&windows);
    assert_eq!((report.verdict.confidence, report.phases.len()), (None, 0));
}

#[test]
fn windows_that_lack_what_the_run_was_judged_by_raise_no_doubt() {
    let windows: Vec<Report> = (0..12).map(|_| window(&[0.95, 0.3], 100)).collect();
    let mut report = merged(&windows).expect("there are windows");
    report.verdict = verdict(&report);
    report.verdict.finding.kind = VerdictKind::Contention;
    over_time(&mut report, &windows);
    assert_eq!((report.verdict.confidence, report.phases.len()), (None, 0));
}

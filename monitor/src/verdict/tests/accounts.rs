//! Checks that no verdict contradicts an account: on random reports, and on reports whose cause an earlier
//! version named wrongly.

use thalweg_chance::Chance;

use super::{Maker, component, found, stream, task, worker};
use crate::ids::{TaskId, WorkerId};
use crate::report::{
    Asleep, BusyAccount, Hanging, Limits, Processors, Report, SleepsFor, State, Task, TaskShares,
    VerdictKind, WorkerShares,
};
use crate::verdict::verdict;

/// An account of a second of busy time, of which the share `part` was sleep for the reason `what`.
fn slept(what: SleepsFor, part: f64) -> BusyAccount {
    let mut asleep = [0.0; 6];
    asleep[what as usize] = part * 1e9;
    BusyAccount {
        computing_ns: (1.0 - part) * 1e9,
        asleep: Asleep::of(asleep),
        looks: 100,
        ..BusyAccount::default()
    }
}

/// A report with a source that is held back, and a worker with one task that is busy all the time and sleeps
/// for the share `part` of its time for the reason `what`. The worker was runnable without a processor for
/// `delayed` of its second.
fn sleeping(what: SleepsFor, part: f64, delayed: f64) -> Report {
    let mut source = source_held_back();
    source.work.account = Some(slept(SleepsFor::Lock, 0.0));
    let mut busy = task(2, "net/box", 0, 0.95, 1e6);
    busy.work.account = Some(slept(what, part));
    let mut worker = worker(0, 0.95);
    worker.account = Some(slept(what, part));
    worker.cpu_ns = Some((1.0 - part - delayed) * 1e9);
    worker.delayed_ns = Some(delayed * 1e9);
    worker.preempted = Some(200);
    let mut report = Report { tasks: vec![source, busy], workers: vec![worker], ..Report::empty() };
    report.window.duration_ns = 1e9;
    report
}

fn source_held_back() -> Task {
    let mut source = task(1, "source", 0, 0.02, 1e3);
    source.worker = None;
    source.work.messages_in = Some(0);
    source.work.shares = source.work.shares.map(|shares| crate::report::TaskShares {
        input_wait: 0.0,
        output_wait: 0.98,
        ..shares
    });
    source
}

fn processors(run: f64, others: f64) -> Processors {
    Processors {
        count: 2,
        span_ns: 1e9,
        run_ns: run * 1e9,
        others_ns: Some(others * 1e9),
        ..Processors::default()
    }
}

/// The figures are those of a real run: of 1,838 ms of busy time, 312 ms were on the processor, 27 ms without
/// one and 1,499 ms asleep, and the thread was preempted often.
#[test]
fn a_sleeping_box_is_not_reported_as_lacking_a_processor() {
    for what in SleepsFor::ALL {
        let report = sleeping(what, 0.81, 0.015);
        let verdict = verdict(&report);
        assert_eq!(
            (verdict.finding.kind, verdict.finding.rule.as_str()),
            (VerdictKind::Task, "asleep"),
            "{what:?}"
        );
        assert_eq!(verdict.finding.component.as_deref(), Some("net/box"));
        assert_eq!(verdict.finding.slept_for(), Some(what));
        assert!(verdict.words.text.contains("81 %"), "{}", verdict.words.text);
    }
    let lock = verdict(&sleeping(SleepsFor::Lock, 0.81, 0.0)).words;
    assert!(lock.text.contains("a lock") && lock.suggestion.is_some_and(|so| !so.contains("replicate")));
}

/// A report as [`sleeping`], but of a box that waits for others in a loop for the share `part` of its time.
fn spinning(part: f64) -> Report {
    let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
    let spins = BusyAccount {
        spinning_ns: Some(part * 1e9),
        computing_ns: (1.0 - part) * 1e9,
        looks: 100,
        ..BusyAccount::default()
    };
    report.tasks[1].work.account = Some(spins.clone());
    report.workers[0].account = Some(spins);
    report
}

#[test]
fn a_box_that_waits_in_a_loop_is_not_reported_as_slow() {
    let found = verdict(&spinning(0.6));
    assert_eq!((found.finding.kind, found.finding.rule.as_str()), (VerdictKind::Task, "spinning"));
    assert!(found.words.text.contains("60 %") && found.words.text.contains("spin lock"), "{:?}", found.words);
    assert!(found.words.suggestion.is_some_and(|so| !so.contains("replicate")));
    assert_eq!(verdict(&spinning(0.05)).finding.rule, "saturated_task");
}

#[test]
fn a_computing_box_is_not_reported_as_asleep() {
    let report = sleeping(SleepsFor::Lock, 0.1, 0.0);
    assert!(found("asleep", &report).is_none());
    assert_eq!(verdict(&report).finding.rule, "saturated_task");
}

#[test]
fn others_are_named_only_if_they_had_the_processors() {
    let kind_of = |others: Option<f64>| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.6);
        report.processors = others.map(|others| processors(0.9, others));
        verdict(&report).finding.kind
    };
    assert_eq!(kind_of(None), VerdictKind::Contention, "the worker's delay is all that is known");
    assert_eq!(kind_of(Some(1.0)), VerdictKind::Contention);
    assert_ne!(kind_of(Some(0.05)), VerdictKind::Contention, "nobody else used them");
    let own = |run: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.6);
        report.processors = Some(Processors { others_ns: None, ..processors(run, 0.0) });
        verdict(&report).finding.kind
    };
    assert_eq!(own(1.2), VerdictKind::Contention, "what others used is not known");
    assert_ne!(own(1.85), VerdictKind::Contention, "the run itself used nearly all");
}

#[test]
fn other_processes_are_named_where_a_worker_that_works_lost_less_than_one_that_waits() {
    let of = |delayed: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        report.workers = vec![worker(0, 0.95), worker(1, 0.4)];
        for (worker, cpu, delayed) in [(0, 0.95 - delayed, delayed), (1, 0.3, 0.4)] {
            let worker = &mut report.workers[worker];
            (worker.cpu_ns, worker.delayed_ns) = (Some(cpu * 1e9), Some(delayed * 1e9));
        }
        report.processors = Some(processors(1.0, 1.0));
        found("contention", &report)
    };
    assert_eq!(of(0.3).and_then(|found| found.worker), Some(WorkerId::of(0)));
    assert!(of(0.1).is_none(), "the one that works had a processor");
}

#[test]
fn more_workers_than_processors_are_named_as_that() {
    let of = |workers: u64, run: f64, delayed: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        report.workers = (0..workers).map(|id| worker(id, 0.95)).collect();
        for worker in &mut report.workers {
            (worker.cpu_ns, worker.delayed_ns) = (Some(0.24e9), Some(delayed * 1e9));
        }
        report.processors = Some(processors(run, 0.02));
        found("crowded", &report)
    };
    let found = of(8, 1.95, 0.7).expect("eight share two");
    assert_eq!((found.value("workers"), found.value("processors")), (8.0, 2.0));
    assert!(of(2, 1.95, 0.7).is_none(), "two have two");
    assert!(of(8, 1.0, 0.7).is_none(), "one is idle");
    assert!(of(8, 1.95, 0.1).is_none(), "hardly anybody waited for one");
}

#[test]
fn streams_of_a_few_messages_are_named_rather_than_too_many_workers() {
    let of = |capacity: u64, waits: f64| {
        let mut report = changing_tasks(capacity, 0.3, waits);
        report.workers = (0..8).map(|id| worker(id, 0.3)).collect();
        for worker in &mut report.workers {
            (worker.cpu_ns, worker.delayed_ns) = (Some(0.24e9), Some(0.7e9));
        }
        report.processors = Some(processors(1.95, 0.02));
        verdict(&report).finding.rule
    };
    assert_eq!(of(2, 0.3), "tiny_stream");
    assert_eq!(of(2, 0.05), "crowded", "nobody waits for them");
    assert_eq!(of(16, 0.3), "crowded");
}

/// A report, in mode metrics, on two boxes of one worker with this load; each waits for this share of the time for room and
/// for messages, and streams hold `capacity` messages.
pub(super) fn changing_tasks(capacity: u64, load: f64, waits: f64) -> Report {
    let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
    report.tasks[1] = task(2, "net/box", 0, 0.4, 1e6);
    report.tasks.push(task(3, "net/other", 0, 0.4, 1e6));
    report.workers = vec![worker(0, load)];
    let mut ends = [component("net/box", 1, 10, 4e8), component("net/other", 1, 10, 4e8)];
    for end in &mut ends {
        let shares = TaskShares { busy: 0.2, input_wait: waits, output_wait: waits, ready: 0.0 };
        end.work.shares = Some(shares);
    }
    report.components.extend(ends);
    report.streams.push(stream("net/box", "net/other", capacity));
    report
}

#[test]
fn streams_of_one_message_are_named_where_workers_are_busy_with_changing_tasks() {
    let of = |capacity, load, waits| verdict(&changing_tasks(capacity, load, waits)).finding.rule;
    assert_eq!(of(1, 0.85, 0.4), "tiny_stream");
    assert_ne!(of(64, 0.85, 0.4), "tiny_stream");
    assert_ne!(of(1, 0.97, 0.4), "tiny_stream", "the worker has too much work anyway");
    assert_ne!(of(1, 0.85, 0.02), "tiny_stream", "nobody waits for them");
}

#[test]
fn a_limit_on_messages_under_way_is_named_where_nobody_else_is_busy() {
    let of = |unfinished: u64, busy: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        report.tasks[1] = task(2, "net/box", 0, busy, 1e6);
        report.workers = vec![worker(0, busy)];
        report.limits = Some(Limits { quantum: 64, unfinished });
        verdict(&report).finding.rule
    };
    assert_eq!(of(2, 0.4), "unfinished");
    assert_ne!(of(0, 0.4), "unfinished", "there is no limit");
    assert_eq!(of(2, 0.95), "saturated_task", "the box holds the source back anyway");
}

/// A box that is a command has two tasks: one writes to the command, the other reads what the command writes.
#[test]
fn a_command_is_not_blamed_for_what_follows_it() {
    let of = |output_wait: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        let mut half = |id: u64, busy: f64, output_wait: f64| {
            let mut half = task(id, "net/command", 0, busy, 1e6);
            half.worker = None;
            half.work.account = Some(slept(SleepsFor::Write, 0.9));
            half.work.shares = half.work.shares.map(|shares| TaskShares {
                output_wait,
                input_wait: 1.0 - busy - output_wait,
                ..shares
            });
            report.tasks.push(half);
        };
        half(3, 0.85, 0.0);
        half(4, 0.05, output_wait);
        verdict(&report)
    };
    let named = |output_wait: f64| of(output_wait).finding.component;
    assert_eq!((named(0.9), of(0.9).finding.rule.as_str()), (Some("net/box".to_owned()), "saturated_task"));
    assert_eq!((named(0.1), of(0.1).finding.rule.as_str()), (Some("net/command".to_owned()), "asleep"));
    let words = of(0.1).words;
    assert!(words.text.contains("it waits for its command"), "{}", words.text);
    assert!(words.suggestion.is_some_and(|so| so.starts_with("make the command of net/command faster")));
}

/// Lets the box of a report rest, and adds a sink that is busy, and asleep in writes for the share `writing` of that.
fn add_sink(report: &mut Report, busy: f64, writing: f64) {
    report.tasks[1] = task(2, "net/box", 0, 0.3, 1e6);
    report.workers = vec![worker(0, 0.3)];
    let mut sink = task(3, "sink", 0, busy, 1e6);
    (sink.worker, sink.work.messages_out) = (None, Some(0));
    sink.work.account = Some(slept(SleepsFor::Write, writing));
    report.tasks.push(sink);
}

#[test]
fn a_sink_whose_reader_is_slow_limits_the_flow_although_messages_under_way_are_limited() {
    let of = |writing: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        add_sink(&mut report, 0.45, writing);
        report.limits = Some(Limits { quantum: 64, unfinished: 2 });
        verdict(&report)
    };
    // The sink is asleep in a write for 41 % of the time, and for 18 %.
    let found = of(0.9);
    assert_eq!((found.finding.kind, found.finding.rule.as_str()), (VerdictKind::Sink, "sink"));
    assert!(found.words.suggestion.is_some_and(|so| so.contains("reader")));
    assert_eq!(of(0.4).finding.rule, "unfinished");
}

#[test]
fn a_box_whose_outside_input_is_slow_limits_the_flow_although_messages_under_way_are_limited() {
    let of = |what: SleepsFor, part: f64, looks: u64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        report.tasks[1] = task(2, "net/box", 0, 0.5, 1e6);
        report.tasks[1].work.account = Some(BusyAccount { looks, ..slept(what, part) });
        report.workers = vec![worker(0, 0.5)];
        report.limits = Some(Limits { quantum: 64, unfinished: 2 });
        verdict(&report)
    };
    // Five of six samples found the box asleep in a read.
    let found = of(SleepsFor::Read, 0.8, 6);
    assert_eq!((found.finding.kind, found.finding.rule.as_str()), (VerdictKind::Task, "asleep"));
    assert!(found.words.text.contains("`read`"), "{}", found.words.text);
    assert_eq!(of(SleepsFor::Read, 0.8, 2).finding.rule, "unfinished", "too few samples");
    assert_eq!(of(SleepsFor::Read, 0.3, 20).finding.rule, "unfinished", "15 % of the time");
    assert_eq!(of(SleepsFor::Lock, 0.8, 20).finding.rule, "unfinished", "no outside input");
}

#[test]
fn a_limit_on_messages_under_way_does_not_limit_a_source_that_waits_for_its_input_as_well() {
    let of = |unfinished: u64, input_wait: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        report.tasks[1] = task(2, "net/box", 0, 0.3, 1e6);
        report.workers = vec![worker(0, 0.3)];
        report.limits = Some(Limits { quantum: 64, unfinished });
        let shares = report.tasks[0].work.shares.as_mut().unwrap();
        (shares.input_wait, shares.output_wait) = (input_wait, 0.98 - input_wait);
        verdict(&report)
    };
    assert_eq!(of(1, 0.1).finding.rule, "unfinished");
    let crate::Verdict { finding, words, .. } = of(1, 0.4);
    assert_eq!(finding.rule, "nothing");
    assert!(words.evidence[0].contains("waits for its input 40 % of the time"), "{:?}", words.evidence);
    assert_ne!(of(0, 0.4).finding.rule, "nothing", "without a limit somebody else makes the source wait");
}

#[test]
fn a_small_quantum_is_known_by_what_dispatches_take_in_every_mode() {
    let of = |quantum: u64, messages: u64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        let work = &mut report.tasks[1].work;
        (work.messages_in, work.dispatches, work.yield_share) = (Some(messages), Some(1_000_000), None);
        work.busy_ns = Some(0.95e9);
        report.limits = Some(Limits { quantum, unfinished: 0 });
        found("quantum", &report).is_some()
    };
    assert!(of(1, 1_000_000));
    assert!(!of(64, 1_000_000), "the streams end them");
    assert!(!of(4, 1_000_000), "they take less than they may");
}

#[test]
fn the_quantum_is_not_blamed_where_a_sink_waits_for_its_reader() {
    let of = |writing: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        add_sink(&mut report, 0.95, writing);
        let work = &mut report.tasks[1].work;
        (work.messages_in, work.dispatches, work.yield_share) = (Some(1_000_000), Some(1_000_000), None);
        report.limits = Some(Limits { quantum: 1, unfinished: 0 });
        verdict(&report).finding
    };
    assert_eq!((of(0.95).rule.as_str(), of(0.95).kind), ("sink", VerdictKind::Sink));
    assert_eq!(of(0.2).rule, "quantum");
}

#[test]
fn streams_that_hold_no_more_than_a_quantum_end_dispatches_as_soon() {
    let of = |capacity: u64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        let work = &mut report.tasks[1].work;
        (work.messages_in, work.dispatches, work.yield_share) = (Some(1_000_000), Some(1_000_000), Some(1.0));
        work.busy_ns = Some(0.95e9);
        report.limits = Some(Limits { quantum: 2, unfinished: 0 });
        report.streams = vec![stream("source", "net/box", capacity), stream("net/box", "sink", capacity)];
        found("quantum", &report).is_some()
    };
    assert!(!of(1) && !of(2));
    assert!(of(3) && of(64));
}

#[test]
fn small_streams_are_known_by_what_their_ends_wait_for_in_every_mode() {
    let of = |capacity: u64, waits: [f64; 2], busy: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        report.tasks[1] = task(2, "net/b", 0, busy, 1e6);
        report.workers = vec![worker(0, busy)];
        report.streams = vec![stream("net/a", "net/b", capacity)];
        let [room, input] = waits;
        report.components = [("net/a", room, 0.0), ("net/b", 0.0, input)]
            .map(|(path, output_wait, input_wait)| {
                let mut of_it = component(path, 1, 100, 1e6);
                of_it.work.shares = Some(TaskShares { busy: 0.2, input_wait, output_wait, ready: 0.0 });
                of_it
            })
            .into();
        verdict(&report)
    };
    let named = of(2, [0.24, 0.28], 0.3);
    assert_eq!((named.finding.kind, named.finding.rule.as_str()), (VerdictKind::Capacity, "small_stream"));
    assert!(
        named.words.text.contains("wait 24 % of the time for room and their readers 28 %"),
        "{:?}",
        named.words
    );
    assert_ne!(of(64, [0.24, 0.28], 0.3).finding.rule, "small_stream", "it holds many");
    assert_ne!(of(2, [0.24, 0.02], 0.3).finding.rule, "small_stream", "the reader always has messages");
    assert_eq!(of(2, [0.24, 0.28], 0.95).finding.rule, "saturated_task");
}

#[test]
fn a_source_that_fills_the_pipe_of_a_slow_reader_is_not_kept_up_with() {
    let of = |writing: f64| {
        let mut report = sleeping(SleepsFor::Lock, 0.0, 0.0);
        let shares = report.tasks[0].work.shares.as_mut().unwrap();
        (shares.busy, shares.input_wait, shares.output_wait) = (0.02, 0.86, 0.12);
        add_sink(&mut report, 0.88, writing);
        verdict(&report).finding.kind
    };
    assert_eq!(of(0.98), VerdictKind::Sink);
    assert_eq!(of(0.5), VerdictKind::Nothing);
}

/// A live run that has made no progress for three seconds.
fn hanging(threads: Vec<Hanging>) -> Report {
    let mut report =
        Report { tasks: vec![source_held_back(), task(2, "net/a", 0, 0.9, 1e6)], ..Report::empty() };
    report.window.state = State::Running;
    report.window.duration_ns = 4e9;
    report.waiting.still_ns = Some(3e9);
    report.waiting.hanging = threads;
    report
}

fn thread(id: u64, name: &str, sleeps_for: SleepsFor, holder: Option<&str>) -> Hanging {
    Hanging {
        task: TaskId::of(id),
        name: name.to_owned(),
        worker: Some(WorkerId::of(id)),
        sleeps_for,
        ns: 3e9,
        lock: (sleeps_for == SleepsFor::Lock).then_some(0x5540 + id),
        holder: holder.map(str::to_owned),
    }
}

#[test]
fn what_hangs_is_the_verdict() {
    let circle = vec![
        thread(2, "net/a", SleepsFor::Lock, Some("net/b")),
        thread(3, "net/b", SleepsFor::Lock, Some("net/a")),
    ];
    let of_circle = verdict(&hanging(circle));
    assert_eq!((of_circle.finding.kind, of_circle.finding.rule.as_str()), (VerdictKind::Deadlock, "hang"));
    for part in ["wait for each other's locks", "net/a on worker 2", "which net/b holds", "net/b on worker 3"]
    {
        assert!(of_circle.words.text.contains(part), "{part}: {}", of_circle.words.text);
    }
    let of_read = verdict(&hanging(vec![thread(2, "net/a", SleepsFor::Read, None)]));
    assert_eq!(
        (of_read.finding.kind, of_read.finding.component.as_deref()),
        (VerdictKind::Hang, Some("net/a"))
    );
    assert!(of_read.words.text.contains("waits in `read`"), "{}", of_read.words.text);
}

#[test]
fn a_run_that_goes_on_or_is_over_does_not_hang() {
    let reads = || vec![thread(2, "net/a", SleepsFor::Read, None)];
    let mut report = hanging(reads());
    assert!(found("hang", &report).is_some());
    report.waiting.still_ns = Some(0.1e9);
    assert!(found("hang", &report).is_none(), "others go on");
    report.waiting.still_ns = Some(3e9);
    report.tasks[1].work.service_ns = Some(2e9);
    assert!(found("hang", &report).is_none(), "its messages take that long");
    report.tasks[1].work.service_ns = Some(1e6);
    report.window.state = State::Ended;
    assert!(found("hang", &report).is_none(), "it is over");
}

/// Checks that no verdict says of a task's or worker's time what the accounts in the same report contradict.
#[test]
fn no_verdict_contradicts_an_account() {
    let mut chance = Maker(Chance::new(21));
    let mut counts: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for _ in 0..60_000 {
        let report = chance.report();
        let verdict = verdict(&report);
        let finding = &verdict.finding;
        *counts.entry(finding.rule.clone()).or_default() += 1;
        let sure =
            |account: &BusyAccount| account.looks >= 10 || 2.0 * account.measured_ns >= account.total_ns();
        let sleeps = |account: Option<&BusyAccount>| {
            let account = account.filter(|account| sure(account));
            account.is_some_and(|account| account.asleep.total_ns() > 0.501 * account.total_ns())
        };
        match finding.kind {
            VerdictKind::Contention => {
                // Such a verdict requires that some worker was kept from a processor for a fifth of the time.
                // The delay is known from the kernel's figures or, without these, from the time in which the
                // worker's thread was busy and used no processor.
                let kept = report.workers.iter().filter_map(|worker| {
                    let WorkerShares { waiting, .. } = worker.shares?;
                    let not_used = (1.0 - waiting) - worker.cpu_ns? / worker.lifetime_ns;
                    Some(worker.delayed_ns.map_or(not_used, |ns| ns / worker.lifetime_ns))
                });
                let throttled = report.processors.as_ref().is_some_and(|used| used.throttled_ns > 0.0);
                assert!(throttled || kept.into_iter().any(|share| share >= 0.199), "{verdict:?}");
                if let Some(others) =
                    report.processors.as_ref().and_then(|used| used.others_ns.map(|ns| ns / used.span_ns))
                {
                    let by_delay = report.workers.iter().any(|worker| worker.delayed_ns.is_some());
                    assert!(throttled || !by_delay || others >= 0.199 || finding.figure("lost").is_some());
                }
            }
            VerdictKind::Task | VerdictKind::Burst if finding.rule != "asleep" => {
                let task =
                    finding.task.as_ref().and_then(|of| report.tasks.iter().find(|task| task.id == of.id));
                // A verdict from a replay may name a task that sleeps, if its sentence says that the task
                // sleeps.
                let is_stated = verdict.words.text.contains(" of its busy time; relieved of it");
                assert!(
                    is_stated || !sleeps(task.and_then(|task| task.work.account.as_ref())),
                    "{verdict:?}"
                );
            }
            VerdictKind::Worker | VerdictKind::Mapping if finding.worker.is_some() => {
                let worker = report.workers.iter().find(|worker| Some(worker.id) == finding.worker);
                assert!(!sleeps(worker.and_then(|worker| worker.account.as_ref())), "{verdict:?}");
            }
            VerdictKind::Task => {
                let part = finding.figure("asleep_of_busy").map(|figure| figure.value);
                assert!(part.is_none_or(|part| part > 0.0), "{verdict:?}");
            }
            _ => {}
        }
    }
    for rule in ["asleep", "hang", "crowded", "throttled", "unfinished", "contention", "saturated_task"] {
        assert!(counts.get(rule).is_some_and(|count| *count > 10), "{rule}: {counts:?}");
    }
}

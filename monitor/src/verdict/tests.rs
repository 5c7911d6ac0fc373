//! Tests verdicts on reports that are made so that a certain rule applies, and on random reports.

mod accounts;
mod failing;

use thalweg_chance::Chance;

use super::facts::Facts;
use super::rules::{RULES, Rule};
use super::{describe, utilisation, verdict};
use crate::ids::{StreamId, TaskId, WorkerId};
use crate::report::{
    Action, Asleep, Behind, BusyAccount, Component, Deadlock, Finding, Hanging, Limits, LinkUse, Processors,
    Replay, Report, Root, RootState, SleepsFor, State, Stream, Suggestion, Task, TaskShares, VerdictKind,
    WaitNow, Work, Worker, WorkerShares,
};

/// A list with one more rule, written as a contributor would add it to `RULES`.
#[rustfmt::skip]
const ADDED: [Rule; 1] = [
    Rule { name: "failing", find: failing::find, describe: failing::describe },
];

#[test]
fn the_rule_that_the_page_adds_is_one() {
    let page = include_str!("../../../docs/contributing.md");
    let line = "    Rule { name: \"failing\", find: failing::find, describe: failing::describe },\n";
    for text in [include_str!("tests/failing.rs"), line] {
        assert!(page.contains(&format!("```rust\n{text}```\n")), "the page differs: {text}");
    }
    assert!(include_str!("tests.rs").contains(line), "the line is not what is compiled");
    let mut bad = component("net/parse", 1, 100, 1e6);
    bad.work.failed = 90;
    let report = Report { components: vec![component("net/a", 1, 100, 1e6), bad], ..Report::empty() };
    let [rule] = ADDED;
    let found = (rule.find)(&Facts::new(&report)).expect("most is refused");
    assert_eq!((rule.describe)(&found).text, "net/parse refuses 90 % of what it reads.");
    assert!((rule.find)(&Facts::new(&Report::empty())).is_none());
}

/// The finding of the rule of this name.
fn found(rule: &str, report: &Report) -> Option<Finding> {
    let rule = RULES.iter().find(|known| known.name == rule).expect("there is such a rule");
    (rule.find)(&Facts::new(report))
}

fn component(path: &str, tasks: u64, messages: u64, busy_ns: f64) -> Component {
    let work = Work { messages_in: Some(messages), busy_ns: Some(busy_ns), ..Work::default() };
    Component {
        path: path.to_owned(),
        kind: "box".to_owned(),
        place: None,
        tasks,
        tasks_live: 0,
        work,
        service: None,
    }
}

#[test]
fn much_work_in_tasks_of_few_messages_is_too_fine_a_grain() {
    let grain_of = |components: Vec<Component>| {
        let report = Report { components, ..Report::empty() };
        found("grain", &report).map(|finding| finding.component)
    };
    let few = component("few", 1, 1_000_000, 4e6);
    let stage = || component("star", 400, 800, 5e6);
    assert_eq!(grain_of(vec![few.clone(), stage()]), Some(Some("star".to_owned())));
    assert_eq!(grain_of(vec![few.clone(), component("star", 400, 800, 3e6)]), None, "a part of the work");
    assert_eq!(grain_of(vec![few.clone(), component("star", 400, 8000, 5e6)]), None, "enough messages each");
    assert_eq!(grain_of(vec![few, component("star", 40, 80, 5e6)]), None, "few tasks");
    let long = component("star", 400, 800, 5e8);
    assert_eq!(grain_of(vec![long.clone()]), None, "a millisecond each");
    let unfolding = Component { kind: "star".to_owned(), ..long };
    assert_eq!(grain_of(vec![unfolding]), Some(Some("star".to_owned())), "a millisecond, and none in boxes");
    let unrecorded = Component { work: Work { busy_ns: None, ..stage().work }, ..stage() };
    assert_eq!(grain_of(vec![unrecorded]), None, "no time is known");
}

/// A task that was busy for this share of a second.
fn task(id: u64, name: &str, worker: u64, busy: f64, service_ns: f64) -> Task {
    let shares = TaskShares { busy, input_wait: 1.0 - busy, output_wait: 0.0, ready: 0.0 };
    let work = Work {
        messages_in: Some(10),
        messages_out: Some(10),
        busy_ns: Some(busy * 1e9),
        shares: Some(shares),
        service_ns: Some(service_ns),
        ..Work::default()
    };
    Task {
        id: TaskId::of(id),
        name: name.to_owned(),
        worker: Some(WorkerId::of(worker)),
        work,
        ..Task::default()
    }
}

fn worker(id: u64, busy: f64) -> Worker {
    let shares = WorkerShares { busy, waiting: 1.0 - busy, own: 0.0, kept: 0.0, unaccounted: 0.0 };
    Worker { id: WorkerId::of(id), lifetime_ns: 1e9, shares: Some(shares), ..Worker::default() }
}

/// A stream of which only the ends and the capacity are known.
fn stream(writer: &str, reader: &str, capacity: u64) -> Stream {
    Stream {
        name: format!("{writer} → {reader}"),
        writer: Some(writer.to_owned()),
        reader: Some(reader.to_owned()),
        role: "inner".to_owned(),
        streams: 1,
        capacity,
        written: None,
        read: None,
        failed: 0,
        held: None,
        dropped: None,
        rate_per_s: None,
        occupancy_mean: None,
        occupancy_max: None,
        occupancy: None,
        wait_ns: None,
        full_share: None,
        empty_share: None,
        conserved: None,
        volume: None,
    }
}

#[test]
fn a_verdict_on_a_short_run_warns_that_it_was_short() {
    let text_of = |duration_ns: f64, partial: bool| {
        let mut report = Report {
            tasks: vec![task(1, "slow", 0, 0.9, 1e3)],
            workers: vec![worker(0, 0.95), worker(1, 0.3)],
            ..Report::empty()
        };
        (report.window.duration_ns, report.window.partial) = (duration_ns, partial);
        let verdict = verdict(&report);
        assert_eq!(verdict.finding.rule, "saturated_task");
        verdict.words.text
    };
    assert!(text_of(4e6, false).ends_with(
        "the run lasted 4.0 ms, most of which was its start. Something else may limit a longer one."
    ));
    assert!(!text_of(1e9, false).contains("Beware"), "it was long enough");
    assert!(!text_of(4e6, true).contains("Beware"), "a short look at a longer run");
}

#[test]
fn replicas_for_which_no_worker_has_time_are_not_suggested() {
    let suggestion = |loads: &[f64]| {
        let workers = loads.iter().enumerate().map(|(id, &busy)| worker(id as u64, busy)).collect();
        let report = Report { tasks: vec![task(1, "slow", 0, 0.9, 1e3)], workers, ..Report::empty() };
        let verdict = verdict(&report);
        assert_eq!(verdict.finding.rule, "saturated_task");
        verdict.words.suggestion.unwrap_or_default()
    };
    assert!(suggestion(&[0.95, 0.3]).contains("or replicate it (`!`"), "the other has time");
    assert!(suggestion(&[0.95, 0.92]).contains("all 2 are busy, so replicas would gain nothing"));
    assert!(suggestion(&[0.95]).contains("its one worker has no time for replicas"));
    assert!(suggestion(&[0.95, 0.95, 0.95, 0.5]).contains("or replicate it (`!`"), "a sixth is to be gained");
}

#[test]
fn replicas_of_most_of_the_work_are_suggested_where_another_worker_has_time() {
    let suggestion = |share: f64, tasks: u64, other: f64| {
        let components = vec![
            component("net/slow", tasks, 10, share * 1e9),
            component("net/quick", 1, 10, (1.0 - share) * 1e9),
        ];
        let tasks = vec![task(1, "net/slow", 0, 0.7, 1e3), task(2, "net/quick", 0, 0.25, 1e2)];
        let report =
            Report { components, tasks, workers: vec![worker(0, 0.95), worker(1, other)], ..Report::empty() };
        let finding = found("saturated_worker", &report).expect("a worker is saturated");
        let rule = RULES.iter().find(|rule| rule.name == "saturated_worker").expect("there is such a rule");
        (rule.describe)(&finding).suggestion.unwrap_or_default()
    };
    assert!(
        suggestion(0.7, 1, 0.1).starts_with("replicate net/slow (`!` in the network)"),
        "{}",
        suggestion(0.7, 1, 0.1)
    );
    assert!(suggestion(0.7, 1, 0.9).starts_with("more workers"), "the other has no time");
    assert!(suggestion(0.7, 4, 0.1).starts_with("more workers"), "it has replicas");
    assert!(suggestion(0.4, 1, 0.1).starts_with("more workers"), "most is elsewhere");
}

#[test]
fn the_only_saturated_worker_is_blamed_on_what_it_runs() {
    let of = |other: f64| {
        let components = vec![component("net/much", 1, 10, 0.6e9), component("net/little", 1, 10, 0.4e9)];
        let tasks = vec![task(1, "net/much", 1, 0.6, 1e3), task(2, "net/little", 0, 0.4, 1e2)];
        let workers = vec![worker(0, 0.85), worker(1, other)];
        found("saturated_worker", &Report { components, tasks, workers, ..Report::empty() })
    };
    let alone = of(0.65).expect("a worker is saturated");
    assert_eq!((alone.component.as_deref(), alone.value("work")), (Some("net/little"), 0.4));
    assert_eq!(of(0.82).expect("both are").component.as_deref(), Some("net/much"));
}

#[test]
fn a_task_that_makes_up_most_of_the_only_saturated_worker_is_named() {
    let found_of = |busy: f64, other: f64| {
        let tasks = vec![task(1, "net/slow", 0, busy, 1e3), task(2, "net/quick", 0, 0.92 - busy, 1e2)];
        let report = Report { tasks, workers: vec![worker(0, 0.92), worker(1, other)], ..Report::empty() };
        found("prevailing_task", &report)
    };
    let finding = found_of(0.69, 0.5).expect("three quarters of the worker's time");
    assert_eq!((finding.kind, finding.component.as_deref()), (VerdictKind::Task, Some("net/slow")));
    let rule = RULES.iter().find(|rule| rule.name == "prevailing_task").expect("there is such a rule");
    assert_eq!(
        (rule.describe)(&finding).text,
        "net/slow limits the flow: it takes 75 % of the time of worker 0, which is busy 92 % of the time."
    );
    assert!(found_of(0.55, 0.5).is_none(), "the others together are as large a lever");
    assert!(found_of(0.69, 0.9).is_none(), "the other worker limits the flow as well");
}

#[test]
fn the_task_that_is_ready_behind_a_long_box_is_named() {
    let verdict_of = |service_ns: f64, spare: f64, state: RootState| {
        let root = Root {
            task: TaskId::of(1),
            name: Some("merge".to_owned()),
            component: Some("merge".to_owned()),
            state,
            ns: 4e8,
            share: 0.4,
        };
        let mut report = Report {
            tasks: vec![
                task(1, "merge", 1, 0.01, 1e3),
                task(2, "solve[1]", 1, 0.47, service_ns),
                task(3, "solve[0]", 0, spare, service_ns),
                task(4, "solve[2]", 1, 0.47, service_ns),
            ],
            workers: vec![worker(0, spare), worker(1, 0.95)],
            ..Report::empty()
        };
        report.waiting.roots = vec![root];
        verdict(&report)
    };
    let named = verdict_of(5e7, 0.7, RootState::Ready);
    assert!(
        named.words.text.contains("merge, for which others wait, is ready there behind solve"),
        "{named:?}"
    );
    let suggestion = named.words.suggestion.as_deref().unwrap_or_default();
    assert!(suggestion.contains("`\"box solve (…)\" => blocking solve,`"), "how to declare it: {suggestion}");
    assert!(suggestion.contains("THALWEG_BLOCKING_BOX"), "in C, too: {suggestion}");
    let Finding { component, worker, rule, .. } = &named.finding;
    assert_eq!(
        (component.as_deref(), *worker, rule.as_str()),
        (Some("solve"), Some(WorkerId::of(1)), "long_box")
    );
    for other in [
        verdict_of(5e4, 0.7, RootState::Ready),
        verdict_of(5e7, 0.9, RootState::Ready),
        verdict_of(5e7, 0.7, RootState::Running),
    ] {
        assert!(!other.words.text.contains("merge"), "{other:?}");
    }
}

#[test]
fn a_worker_with_all_tasks_is_named_though_it_waits_between() {
    let finding_of = |busy: f64, other: f64| {
        let tasks = vec![task(1, "left", 0, busy / 2.0, 1e3), task(2, "right", 0, busy / 2.0, 1e3)];
        let workers = vec![worker(0, busy), worker(1, other)];
        found("uneven_workers", &Report { tasks, workers, ..Report::empty() })
    };
    assert_eq!(finding_of(0.7, 0.0).map(|finding| finding.kind), Some(VerdictKind::Mapping));
    assert_eq!(finding_of(0.7, 0.4), None, "the other one works, too");
    assert_eq!(finding_of(0.4, 0.0), None, "there is little to do");
}

#[test]
fn what_can_be_done_can_be_applied_as_it_is() {
    let tasks = vec![task(7, "left", 0, 0.4, 1e3), task(8, "right", 0, 0.4, 1e3)];
    let report = Report { tasks, workers: vec![worker(0, 0.9), worker(3, 0.0)], ..Report::empty() };
    let mapping = verdict(&report).finding;
    let action = mapping.actions.first().expect("a move");
    assert_eq!(action.to_string(), "thalweg set task/7.worker 3");
    assert!((action.gain().expect("it is predicted") - 0.8).abs() < 1e-9, "{action:?}");
}

/// Makes parts of reports at random.
struct Maker(Chance);

impl Maker {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    fn share(&mut self) -> f64 {
        [0.0, 0.02, 0.3, 0.55, 0.85, 0.97, 1.0][self.below(7) as usize]
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Maker) -> T) -> Option<T> {
        (self.below(4) > 0).then(|| value(self))
    }

    fn ns(&mut self) -> f64 {
        [0.0, 90.0, 3e3, 2e6, 6e7, 9e8][self.below(6) as usize]
    }

    fn path(&mut self) -> String {
        self.one(&["source", "net/a", "net/b", "net/c", "sink"]).to_owned()
    }

    fn work(&mut self) -> Work {
        let counts = [0, 0, 1, 7, 900, 100_000];
        Work {
            messages_in: self.maybe(|chance| chance.one(&counts)),
            messages_out: self.maybe(|chance| chance.one(&counts)),
            selectivity: self.maybe(|chance| chance.one(&[0.0, 1.0, 9.0, 40.0])),
            dispatches: self.maybe(|chance| chance.one(&[0, 3, 90, 10_000])),
            yield_share: self.maybe(Maker::share),
            busy_ns: self.maybe(Maker::ns),
            service_ns: self.maybe(Maker::ns),
            shares: self.maybe(|chance| {
                let busy = chance.share();
                let rest = 1.0 - busy;
                let of_rest = if chance.seldom() { 0.0 } else { chance.share() };
                let ready = chance.share() * rest * (1.0 - of_rest);
                TaskShares {
                    busy,
                    input_wait: rest * of_rest,
                    output_wait: (rest * (1.0 - of_rest) - ready).max(0.0),
                    ready,
                }
            }),
            ..Work::default()
        }
    }

    /// A random account of a task or worker that was busy for this time.
    fn account(&mut self, busy_ns: Option<f64>) -> Option<BusyAccount> {
        let busy_ns = busy_ns.filter(|ns| *ns > 0.0)?;
        let mut left = busy_ns;
        let mut part = |chance: &mut Maker| {
            let part = chance.one(&[0.0, 0.0, 0.1, 0.6, 1.0]) * left;
            left -= part;
            part
        };
        let asleep = Asleep::of([0; 6].map(|_| part(self)));
        let (kept_ns, runtime_ns, spinning_ns) = (part(self), part(self), part(self));
        (self.below(3) == 0).then(|| BusyAccount {
            computing_ns: left,
            spinning_ns: Some(spinning_ns),
            asleep,
            kept_ns,
            runtime_ns,
            looks: self.one(&[0, 3, 40, 900]),
            measured_ns: self.share() * busy_ns,
            kernel_ns: self.maybe(Maker::ns),
            faults: self.maybe(|chance| chance.below(90_000)),
            lock: self.maybe(|chance| chance.below(3)),
        })
    }

    fn hanging(&mut self) -> Hanging {
        Hanging {
            task: TaskId::of(self.below(6)),
            name: self.path(),
            worker: self.maybe(|chance| WorkerId::of(chance.below(3))),
            sleeps_for: self.one(&SleepsFor::ALL),
            ns: self.one(&[6e8, 2e9, 9e10]),
            lock: self.maybe(|chance| chance.below(3)),
            holder: self.maybe(Maker::path),
        }
    }

    fn processors(&mut self, span_ns: f64) -> Processors {
        let count = self.one(&[1, 2, 64]);
        let run_ns = self.share() * count as f64 * span_ns;
        let left_ns = count as f64 * span_ns - run_ns;
        Processors {
            count,
            span_ns,
            run_ns,
            others_ns: self.maybe(|chance| chance.share() * left_ns),
            throttled_ns: if self.seldom() { span_ns } else { 0.0 },
            sampling_ns: 0.0,
            looks: 0,
        }
    }

    fn task(&mut self, id: u64) -> Task {
        let replica = self.below(3);
        let name = self.path();
        let mut work = self.work();
        work.account = self.account(work.busy_ns);
        Task {
            id: TaskId::of(id),
            name: if replica == 0 { name } else { format!("{name}[{replica}]") },
            worker: self.maybe(|chance| WorkerId::of(chance.below(3))),
            cpu_ns: self.maybe(Maker::ns),
            work,
            ..Task::default()
        }
    }

    fn worker(&mut self, id: u64) -> Worker {
        let shares = self.maybe(|chance| {
            let busy = chance.share();
            let kept = chance.share() * (1.0 - busy);
            WorkerShares { busy, waiting: 1.0 - busy - kept, own: 0.0, kept, unaccounted: 0.0 }
        });
        let lifetime_ns = self.ns();
        Worker {
            id: WorkerId::of(id),
            core: self.maybe(|_| 0),
            lifetime_ns,
            account: self.account(shares.map(|shares| shares.busy * lifetime_ns)),
            cpu_ns: self.maybe(Maker::ns),
            preempted: self.maybe(|chance| chance.below(9)),
            delayed_ns: self.maybe(Maker::ns),
            shares,
            ..Worker::default()
        }
    }

    fn link(&mut self) -> LinkUse {
        LinkUse {
            node: self.one(&["here", "a"]).to_owned(),
            direction: self.one(&["out", "in"]).to_owned(),
            links: 1 + self.below(3),
            pace_wait_ns: if self.seldom() { self.ns() } else { 0.0 },
            port_wait_ns: if self.seldom() { self.ns() } else { 0.0 },
            credit_wait_ns: if self.seldom() { self.ns() } else { 0.0 },
            ..LinkUse::default()
        }
    }

    fn stream(&mut self) -> Stream {
        let role = self.one(&["entry", "exit", "inner"]).to_owned();
        Stream {
            name: format!("s{}", self.below(9)),
            writer: self.maybe(Maker::path),
            reader: self.maybe(Maker::path),
            role,
            capacity: self.one(&[0, 1, 2, 8, 64, 1024]),
            full_share: self.maybe(Maker::share),
            empty_share: self.maybe(Maker::share),
            ..stream("", "", 0)
        }
    }

    fn wait(&mut self) -> WaitNow {
        WaitNow {
            task: TaskId::of(self.below(9)),
            name: self.path(),
            what: self.one(&["input", "room"]).to_owned(),
            stream: self.maybe(|chance| StreamId::of(chance.below(9))),
            peer: None,
            peer_name: self.maybe(Maker::path),
            ns: self.ns(),
        }
    }

    fn root(&mut self) -> Root {
        let states = [RootState::Running, RootState::Ready, RootState::Circle, RootState::Unknown];
        Root {
            task: TaskId::of(self.below(6)),
            name: self.maybe(Maker::path),
            component: self.maybe(Maker::path),
            state: self.one(&states),
            ns: self.ns(),
            share: self.share(),
        }
    }

    fn behind(&mut self) -> Behind {
        Behind {
            keeper: self.path(),
            awaited: self.path(),
            awaited_component: self.path(),
            behind: self.path(),
            tasks: self.below(4),
            ns: self.ns(),
            share: self.share(),
            record: None,
        }
    }

    fn replay(&mut self) -> Replay {
        let suggestion = Suggestion {
            words: "something".to_owned(),
            how: "somehow".to_owned(),
            action: self.maybe(|chance| Action::set("task/3.worker", chance.below(4))),
            kind: self.one(&[VerdictKind::Task, VerdictKind::Mapping, VerdictKind::Order]),
            component: self.maybe(Maker::path),
            gain: self.share(),
            least: 0.0,
            most: 1.0,
            leads: self.share(),
        };
        Replay {
            suggestions: (0..self.below(3)).map(|_| suggestion.clone()).collect(),
            overruled: self.maybe(Maker::path),
            ..Replay::default()
        }
    }

    fn seldom(&mut self) -> bool {
        self.below(12) == 0
    }

    fn report(&mut self) -> Report {
        let mut report = Report::empty();
        report.window.duration_ns = self.one(&[1e6, 4e7, 1e9]);
        report.window.partial = self.seldom();
        let duration_ns = report.window.duration_ns;
        report.window.paused_ns = self.seldom().then(|| self.share() * duration_ns);
        report.window.disk_full_ns = self.seldom().then(|| self.ns());
        report.window.disk_held_ns = self.seldom().then(|| self.ns());
        report.throughput.messages_in = self.maybe(|chance| chance.below(100));
        report.broken_count = u64::from(self.seldom());
        report.window.state = self.one(&[State::Ended, State::Running]);
        report.processors = self.maybe(|chance| chance.processors(duration_ns));
        report.limits =
            self.maybe(|chance| Limits { quantum: chance.one(&[1, 64]), unfinished: chance.one(&[0, 2]) });
        report.waiting.still_ns = self.seldom().then_some(3e9);
        report.waiting.hanging = (0..self.below(3)).map(|_| self.hanging()).collect();
        report.tasks = (0..self.below(6)).map(|id| self.task(id)).collect();
        report.workers = (0..self.below(4)).map(|id| self.worker(id)).collect();
        report.streams = (0..self.below(5)).map(|_| self.stream()).collect();
        report.components = (0..self.below(5))
            .map(|_| {
                let path = self.path();
                let tasks = self.one(&[1, 2, 400]);
                Component { work: self.work(), ..component(&path, tasks, 0, 0.0) }
            })
            .collect();
        report.links = if self.seldom() { vec![self.link()] } else { Vec::new() };
        report.waiting.roots = (0..self.below(3)).map(|_| self.root()).collect();
        report.waiting.behind = (0..self.below(2)).map(|_| self.behind()).collect();
        report.replay = self.seldom().then(|| self.replay());
        report.waiting.deadlock = self.seldom().then(|| Deadlock {
            tasks: self.below(9),
            waits: (0..self.below(7)).map(|_| self.wait()).collect(),
        });
        if self.below(2) == 0 {
            without_looks(&mut report);
        }
        report.utilisation = utilisation(&report);
        report
    }
}

/// Removes all data of a report that come from samples of threads.
fn without_looks(report: &mut Report) {
    report.tasks.iter_mut().for_each(|task| task.work.account = None);
    report.workers.iter_mut().for_each(|worker| worker.account = None);
    (report.processors, report.limits) = (None, None);
    report.waiting.hanging.clear();
}

/// Checks that words depend on the finding alone (a finding that was encoded as JSON and decoded has the same
/// words), and that its figures are numbers.
#[test]
fn a_finding_is_whole_without_its_words() {
    let mut chance = Maker(Chance::new(18));
    let mut asked = std::collections::BTreeSet::new();
    let rare = accounts::changing_tasks(1, 0.85, 0.4);
    for report in (0..160_000).map(|_| chance.report()).chain([rare]) {
        let verdict = verdict(&report);
        let json = serde_json::to_string(&verdict).expect("a verdict is JSON");
        let read: crate::Verdict = serde_json::from_str(&json).expect("and is read again");
        assert_eq!(read, verdict, "{json}");
        assert_eq!(describe(&read.finding), verdict.words);
        assert!(verdict.finding.figures.iter().all(|figure| figure.value.is_finite()), "{json}");
        asked.insert(verdict.finding.rule);
    }
    let never: Vec<&str> = super::rule_names().filter(|name| !asked.contains(*name)).collect();
    assert!(never.is_empty(), "no report made these answer: {never:?}");
}

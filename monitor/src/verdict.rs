//! The verdict: one sentence on what limits the flow, with its evidence and what to do about it.
//!
//! The rules are asked in order, from what excuses everything else (a deadlock, a processor that was taken away) to what
//! is left when nothing stands out; the first that answers is the verdict. Each goes by shares of time, by where
//! waiting leads ([`crate::report::Root`]) and by true-rate utilisation.

use crate::notes::counted;
use crate::report::{
    Component, Report, Root, RootState, Stream, Task, TaskShares, Utilisation, Verdict, VerdictKind, Work,
    Worker, WorkerShares,
};

/// A run that rested for more of the time than this cannot be judged by what it did in the rest.
const RESTED: f64 = 0.5;
/// Who is busier than this has no time to spare.
const SATURATED: f64 = 0.8;
/// A source that waits less than this for room is not held back.
const HELD_BACK: f64 = 0.15;
/// A network that waits this much for its source, or sink, is limited by it, where the source does not tell.
const STARVED: f64 = 0.5;
/// A worker that others kept from its processor, or that slept in a box, for more of its time than this is slowed by that.
const LOST: f64 = 0.2;
/// Where the kernel does not tell of delays: preempted less often than once in this time lost, a thread slept.
const SLEEP_NS: f64 = 50e6;
/// What changing tasks takes of a dispatch, about, and the share of it that is too much. Its clock is read once, so no event tells.
const CHANGE_NS: f64 = 150.0;
const CHANGING: f64 = 0.25;
/// Dispatches of fewer messages, and shorter than this, are short: each may wake a thread, which takes as long.
const SHORT_MESSAGES: f64 = 16.0;
const SHORT_NS: f64 = 5000.0;
/// Streams that hold more are not said to be too small.
const SMALL: u64 = 16;
/// A stream whose ends both wait this much of the time does not keep them apart.
const BOTH_WAIT: f64 = 0.1;
/// A component that writes so many messages for each it reads floods those behind it, if it has read some: what the only input
/// brings is no burst, but all there is to do.
const FLOOD: f64 = 8.0;
const FLOOD_READS: u64 = 4;
/// A replica that takes so many times longer for a message than the others is slow.
const SLOWER: f64 = 1.5;
/// A worker that is busy for so much of the time, and twice as much as another, has too many of the tasks, though it waits between.
const UNEVEN: f64 = 0.5;
/// A move that gains less is not worth it.
const GAIN: f64 = 1.1;
/// A task that lived for less of the run is judged by shares of the run.
const SHORT_LIFE: f64 = 0.5;
/// A component of so many tasks, each of which takes so few messages, is of too fine a grain: to make and end a task takes some
/// microseconds, whatever it does.
const GRAIN_TASKS: u64 = 100;
const GRAIN_MESSAGES: f64 = 4.0;
/// Tasks that are busy for longer, most of it in boxes, pay for that.
const GRAIN_NS: f64 = 30e3;
const GRAIN_BOXES: f64 = 0.5;
/// The share of all work that has to be in such components.
const GRAIN_SHARE: f64 = 0.5;
/// Who takes so long for a message keeps the other tasks of its worker from running for long.
const LONG_NS: f64 = 1e6;
/// So much of all waiting has to lead to tasks that are ready behind it.
const BEHIND: f64 = 0.3;

/// A task that is ready for so much of the time, while its worker waits for more than half of it, waits for threads to be woken.
const WOKEN: f64 = 0.2;
const IDLE: f64 = 0.5;
/// A run of less time is mostly its start.
const START_NS: f64 = 50e6;

/// The verdict on a report whose other parts are complete.
pub(crate) fn verdict(report: &Report) -> Verdict {
    let facts = Facts::new(report);
    let rules: [fn(&Facts<'_>) -> Option<Verdict>; 21] = [
        paused,
        deadlock,
        full_disk,
        asleep,
        contention,
        quantum,
        nothing_held_back,
        sink,
        narrow_streams,
        grain,
        saturated_task,
        saturated_worker,
        contention_of_waiting,
        flooded_in_turns,
        small_stream,
        uneven_workers,
        at_the_edges,
        unknown,
        waking,
        too_short,
        busiest,
    ];
    let mut found = rules.iter().find_map(|rule| rule(&facts)).unwrap_or_else(|| {
        plain(VerdictKind::Unclear, "Nothing stands out: no task did any work.".to_owned())
    });
    if report.broken_count > 0 {
        found.text.push_str(" Beware: not every stream conserves its messages.");
    }
    found
}

/// Tasks and workers by what the source asks of them. Empty where no source, or no time of it, is known.
pub(crate) fn utilisation(report: &Report) -> Vec<Utilisation> {
    let sources = || report.tasks.iter().filter(|task| is_source(task));
    let messages: u64 = sources().filter_map(|task| task.work.messages_out).sum();
    let source_ns = sources().filter_map(|task| task.work.busy_ns).fold(0.0, f64::max);
    if messages == 0 || source_ns <= 0.0 {
        return Vec::new();
    }
    let demand = |busy_ns: f64| busy_ns / messages as f64;
    let tasks = report.tasks.iter().filter(|task| moves(task)).filter_map(|task| {
        let busy_ns = task.work.busy_ns?;
        Some(Utilisation {
            name: task.name.clone(),
            task: Some(task.id),
            worker: task.worker,
            demand_ns: demand(busy_ns),
            utilisation: busy_ns / source_ns,
            busy: task.work.shares?.busy,
        })
    });
    let workers = report.workers.iter().filter_map(|worker| {
        let shares = worker.shares?;
        let busy = load(&shares);
        Some(Utilisation {
            name: format!("worker {}", worker.id),
            task: None,
            worker: Some(worker.id),
            demand_ns: demand(busy * worker.lifetime_ns),
            utilisation: busy * worker.lifetime_ns / source_ns,
            busy,
        })
    });
    let mut all: Vec<Utilisation> = tasks.chain(workers).collect();
    all.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation).then_with(|| a.name.cmp(&b.name)));
    all
}

/// A report, and what all rules want of it.
struct Facts<'r> {
    report: &'r Report,
    /// Share of its time that the source which waits most waits for room; `None`: no source is known.
    held_back: Option<f64>,
}

impl<'r> Facts<'r> {
    fn new(report: &'r Report) -> Facts<'r> {
        let sources = report.tasks.iter().filter(|task| is_source(task));
        let held_back = sources.filter_map(|task| Some(task.work.shares?.output_wait)).reduce(f64::max);
        Facts { report, held_back }
    }

    /// Where waiting leads: how much of it to this component.
    fn blame(&self, path: &str) -> f64 {
        let roots = self.report.waiting.roots.iter();
        roots.filter(|root| root.component.as_deref() == Some(path)).map(|root| root.share).sum()
    }

    /// What most waiting leads to, in words.
    fn roots(&self) -> Option<String> {
        let root = self.report.waiting.roots.first()?;
        let name = root.name.as_deref()?;
        let state = match root.state {
            RootState::Running => "while it runs",
            RootState::Ready => "while it is ready and does not run",
            RootState::Circle => "and back to itself",
            RootState::Unknown => "",
        };
        Some(format!("{} of all waiting leads to {name} {state}", percent(root.share)).trim_end().to_owned())
    }

    fn evidence(&self, first: Vec<String>) -> Vec<String> {
        first.into_iter().chain(self.roots()).collect()
    }

    /// The tasks with their shares of time: one that lived only a while was not busy all the time.
    fn tasks(&self) -> impl Iterator<Item = (&'r Task, TaskShares)> {
        let run_ns = self.report.window.duration_ns;
        let tasks = self.report.tasks.iter().filter(|task| moves(task));
        tasks.filter_map(move |task| Some((task, of_run(&task.work, task.work.shares?, run_ns))))
    }

    fn workers(&self) -> Vec<(&'r Worker, WorkerShares)> {
        let mut workers: Vec<(&Worker, WorkerShares)> =
            self.report.workers.iter().filter_map(|worker| Some((worker, worker.shares?))).collect();
        workers.sort_by(|a, b| load(&b.1).total_cmp(&load(&a.1)));
        workers
    }

    fn component(&self, path: &str) -> Option<&'r Component> {
        self.report.components.iter().find(|component| component.path == path)
    }
}

/// A task's shares of its own time, if that is short as shares of the run's.
fn of_run(work: &Work, shares: TaskShares, run_ns: f64) -> TaskShares {
    let lived_ns = work.busy_ns.unwrap_or(0.0) / shares.busy;
    if !lived_ns.is_finite() || lived_ns >= SHORT_LIFE * run_ns {
        return shares;
    }
    let part = |share: f64| share * lived_ns / run_ns;
    TaskShares {
        busy: part(shares.busy),
        input_wait: part(shares.input_wait),
        output_wait: part(shares.output_wait),
        ready: part(shares.ready),
    }
}

/// The part of its time that a worker has nothing to spare of.
fn load(shares: &WorkerShares) -> f64 {
    shares.busy + shares.own + shares.kept + shares.unaccounted
}

fn plain(kind: VerdictKind, text: String) -> Verdict {
    Verdict { kind, text, evidence: Vec::new(), suggestion: None, component: None, worker: None }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Path of a task's component: its name without the replica.
fn path_of(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

/// A task that moves no messages, such as one that waits for the run's end, limits nothing.
fn moves(task: &Task) -> bool {
    let work = &task.work;
    (work.messages_in, work.messages_out) != (Some(0), Some(0))
}

fn is_source(task: &Task) -> bool {
    task.work.messages_in == Some(0) && task.work.messages_out > Some(0)
}

fn is_sink(task: &Task) -> bool {
    task.work.messages_out == Some(0) && task.work.messages_in > Some(0)
}

/// A run that was told to rest, for most of the time that is measured.
fn paused(facts: &Facts<'_>) -> Option<Verdict> {
    let window = &facts.report.window;
    let share = window.paused_ns? / window.duration_ns;
    (share >= RESTED).then(|| Verdict {
        suggestion: Some("let it go on with `thalweg resume`".to_owned()),
        ..plain(
            VerdictKind::Paused,
            format!(
                "The run is paused: its sources have rested for {} of the time, as a command told them to.",
                percent(share)
            ),
        )
    })
}

fn deadlock(facts: &Facts<'_>) -> Option<Verdict> {
    let deadlock = facts.report.waiting.deadlock.as_ref()?;
    let told = |wait: &crate::report::WaitNow| {
        let what = if wait.what == "room" { "room in" } else { "messages of" };
        let stream = wait.stream.map_or("several streams".to_owned(), |stream| format!("stream {stream}"));
        let peer = wait.peer_name.as_deref().unwrap_or("nobody known");
        format!("{} waits for {what} {stream} of {peer}", wait.name)
    };
    let waits: Vec<String> = deadlock.waits.iter().map(told).collect();
    let first = deadlock.waits.first();
    Some(Verdict {
        component: first.map(|wait| path_of(&wait.name).to_owned()),
        suggestion: Some(
            "give a full stream of the circle more room (exec.capacity), if what goes round is bounded; else cut the circle"
                .to_owned(),
        ),
        evidence: waits.iter().skip(4).cloned().collect(),
        ..plain(
            VerdictKind::Deadlock,
            format!(
                "Deadlock: {} tasks wait for one another: {}.",
                deadlock.tasks,
                waits.iter().take(4).cloned().collect::<Vec<_>>().join("; ")
            ),
        )
    })
}

/// Whoever writes events waits in the middle of its work, so all else that is told of the time is about the disk.
fn full_disk(facts: &Facts<'_>) -> Option<Verdict> {
    let window = &facts.report.window;
    let (full_ns, held_ns) = (window.disk_full_ns?, window.disk_held_ns?);
    if held_ns < LOST * window.duration_ns {
        return None;
    }
    Some(Verdict {
        suggestion: Some(
            "free room where the space lies, or keep it on another disk (thalweg run --space); --on-full drop goes on without \
             the events that find no room"
                .to_owned(),
        ),
        evidence: vec![format!("the disk was full for {:.1} s", full_ns / 1e9)],
        ..plain(
            VerdictKind::Disk,
            format!(
                "The disk that keeps the events was full: the run waited for room there in {:.1} s of its {:.1} s.",
                held_ns / 1e9,
                window.duration_ns / 1e9
            ),
        )
    })
}

fn unknown(facts: &Facts<'_>) -> Option<Verdict> {
    facts.report.tasks.iter().all(|task| task.work.shares.is_none()).then(|| {
        let text = "What limits the flow cannot be told: no shares of time are known.";
        Verdict {
            suggestion: Some(
                "switch the run to mode metrics or full (`thalweg set monitor.mode full`)".to_owned(),
            ),
            ..plain(VerdictKind::Unknown, text.to_owned())
        }
    })
}

/// What a worker wanted of its processor and did not get, or did not use, as shares of its lifetime.
struct Processor {
    /// It ran or could have run.
    wanted: f64,
    /// Other processes had the processor: at least that.
    lost: f64,
    /// It was busy, and used no processor though it could have.
    asleep: f64,
}

/// Threads of tasks' own may be on a worker's processor, too; other workers are pinned to theirs. So what other processes had is
/// the worker's delay less what those threads used. Where the kernel tells no delays, or workers are not pinned, a busy worker that
/// did not run was preempted, or slept if it was preempted too seldom for that.
fn processor(facts: &Facts<'_>, worker: &Worker, shares: &WorkerShares) -> Option<Processor> {
    let busy_ns = load(shares) * worker.lifetime_ns;
    let cpu_ns = worker.cpu_ns?;
    let of_lifetime = |ns: f64| (ns / worker.lifetime_ns).max(0.0);
    if let (Some(delayed_ns), Some(_)) = (worker.delayed_ns, worker.core) {
        let own_threads = facts.report.tasks.iter().filter(|task| task.worker.is_none());
        let theirs_ns: f64 = own_threads.filter_map(|task| task.cpu_ns).sum();
        return Some(Processor {
            wanted: of_lifetime(cpu_ns + delayed_ns),
            lost: of_lifetime(delayed_ns - theirs_ns),
            asleep: of_lifetime(busy_ns - cpu_ns - delayed_ns),
        });
    }
    let gone_ns = busy_ns - cpu_ns;
    let slept = gone_ns > SLEEP_NS * worker.preempted.unwrap_or(0) as f64 && gone_ns > SLEEP_NS;
    let (lost_ns, asleep_ns) = if slept { (0.0, gone_ns) } else { (gone_ns, 0.0) };
    Some(Processor { wanted: load(shares), lost: of_lifetime(lost_ns), asleep: of_lifetime(asleep_ns) })
}

/// Whether the source is hardly ever held back.
fn keeps_up(facts: &Facts<'_>) -> bool {
    facts.held_back.is_some_and(|share| share < HELD_BACK)
}

/// A worker that is busy with sleeping in a box.
fn asleep(facts: &Facts<'_>) -> Option<Verdict> {
    let (worker, shares) = *facts.workers().first()?;
    let Processor { asleep, .. } = processor(facts, worker, &shares)?;
    if keeps_up(facts) || load(&shares) < SATURATED || asleep < LOST {
        return None;
    }
    let id = worker.id;
    let (task, _) = busiest_on(facts, id)?;
    Some(Verdict {
        kind: VerdictKind::Task,
        text: format!(
            "{} limits the flow: it sleeps, or waits for something outside, {} of the time of worker {id}.",
            task.name,
            percent(asleep)
        ),
        evidence: facts.evidence(Vec::new()),
        suggestion: Some(format!(
            "declare {} blocking, so that it has a thread of its own",
            path_of(&task.name)
        )),
        component: Some(path_of(&task.name).to_owned()),
        worker: Some(id),
    })
}

/// A worker that could run all the time, but is not given a processor.
fn contention(facts: &Facts<'_>) -> Option<Verdict> {
    kept_off(facts, SATURATED)
}

/// Likewise one that waits besides, perhaps for others that have no processor.
fn contention_of_waiting(facts: &Facts<'_>) -> Option<Verdict> {
    kept_off(facts, 0.0)
}

fn kept_off(facts: &Facts<'_>, wanted_min: f64) -> Option<Verdict> {
    if keeps_up(facts) {
        return None;
    }
    let workers = facts.workers();
    let processors =
        workers.iter().filter_map(|(worker, shares)| Some((*worker, processor(facts, worker, shares)?)));
    let (worker, Processor { wanted, lost, .. }) =
        processors.max_by(|(_, a), (_, b)| a.lost.total_cmp(&b.lost))?;
    if lost < LOST || wanted < wanted_min {
        return None;
    }
    let id = worker.id;
    let preempted = worker.preempted.unwrap_or(0);
    Some(Verdict {
        kind: VerdictKind::Contention,
        text: format!(
            "Other processes limit the flow: worker {id} could have run {} of the time, and had no processor {} of the time.",
            percent(wanted.min(1.0)),
            percent(lost)
        ),
        evidence: facts
            .evidence(vec![format!("worker {id} was put off its processor {}", counted(preempted, "time"))]),
        suggestion: Some("give the run processors of its own (`taskset`), or stop what else runs".to_owned()),
        component: busiest_on(facts, id).map(|(task, _)| path_of(&task.name).to_owned()),
        worker: Some(id),
    })
}

/// The busiest task of a worker.
fn busiest_on<'r>(facts: &Facts<'r>, worker: u64) -> Option<(&'r Task, TaskShares)> {
    let tasks = facts.tasks().filter(|(task, _)| task.worker == Some(worker));
    tasks.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))
}

/// The source is hardly ever held back: the network keeps up with it.
fn nothing_held_back(facts: &Facts<'_>) -> Option<Verdict> {
    let held_back = facts.held_back.filter(|_| keeps_up(facts))?;
    let (source, shares) =
        facts.tasks().filter(|(task, _)| is_source(task)).max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
    if shares.busy + shares.input_wait < STARVED {
        return None;
    }
    let component = Some(path_of(&source.name).to_owned());
    let evidence =
        facts.evidence(vec![format!("{} waits for room {} of the time", source.name, percent(held_back))]);
    let busiest = facts.workers().first().map(|(worker, shares)| (worker.id, load(shares)));
    let rest = busiest.map_or(String::new(), |(worker, load)| {
        format!("; the busiest worker, {worker}, is busy {} of the time", percent(load))
    });
    // A source that waits for the outside says so, or uses no processor meanwhile.
    let works = shares.input_wait < shares.busy
        && source.cpu_ns.zip(source.work.busy_ns).is_none_or(|(cpu, busy)| cpu >= 0.5 * busy);
    if works {
        return Some(Verdict {
            kind: VerdictKind::Source,
            text: format!(
                "{} limits the flow: it is busy {} of the time{rest}.",
                the("source", &source.name),
                percent(shares.busy)
            ),
            evidence,
            suggestion: Some("make the source faster, or split what it reads among several".to_owned()),
            component,
            worker: None,
        });
    }
    Some(Verdict {
        evidence,
        component,
        ..plain(
            VerdictKind::Nothing,
            format!(
                "Nothing limits the flow: the network keeps up with {}, which takes its time{rest}.",
                the("source", &source.name).replacen("The", "the", 1)
            ),
        )
    })
}

fn sink(facts: &Facts<'_>) -> Option<Verdict> {
    let (task, shares) = facts.tasks().find(|(task, shares)| is_sink(task) && shares.busy >= SATURATED)?;
    Some(Verdict {
        kind: VerdictKind::Sink,
        text: format!(
            "{} limits the flow: it is busy {} of the time.",
            the("sink", &task.name),
            percent(shares.busy)
        ),
        evidence: facts.evidence(Vec::new()),
        suggestion: Some("make the sink faster, or let several write".to_owned()),
        component: Some(path_of(&task.name).to_owned()),
        worker: task.worker,
    })
}

/// The dispatches of the workers' tasks, where they are short.
struct Short {
    /// Messages and nanoseconds of a dispatch, in the mean.
    messages: f64,
    ns: f64,
    /// Share of them that ended with the quantum spent.
    yields: f64,
}

impl Short {
    fn of(facts: &Facts<'_>) -> Option<Short> {
        let on_workers = || facts.tasks().map(|(task, _)| task).filter(|task| task.worker.is_some());
        let sum = |value: &dyn Fn(&Task) -> Option<f64>| on_workers().filter_map(value).sum::<f64>();
        let dispatches = sum(&|task| Some(task.work.dispatches? as f64));
        let short = Short {
            messages: sum(&|task| Some(task.work.messages_in? as f64)) / dispatches,
            ns: sum(&|task| task.work.busy_ns) / dispatches,
            yields: sum(&|task| Some(task.work.yield_share? * task.work.dispatches? as f64)) / dispatches,
        };
        let is_short = dispatches > 0.0 && short.messages < SHORT_MESSAGES && short.ns < SHORT_NS;
        is_short.then_some(short)
    }

    fn evidence(&self, facts: &Facts<'_>) -> Vec<String> {
        facts.evidence(vec![format!(
            "{} of the dispatches end with the quantum spent; they take {:.1} messages and {:.0} ns",
            percent(self.yields),
            self.messages,
            self.ns
        )])
    }
}

/// Dispatches that the quantum ends too soon, while somebody is busy all the time or the source is held back. The threads of source
/// and sink look up once a quantum, too: they may be the busy ones.
fn quantum(facts: &Facts<'_>) -> Option<Verdict> {
    let short = Short::of(facts).filter(|short| short.yields >= 0.5)?;
    let worker = facts.workers().first().copied().filter(|(_, shares)| load(shares) >= SATURATED);
    let thread = facts.tasks().any(|(_, shares)| shares.busy >= SATURATED);
    if worker.is_none() && !thread && keeps_up(facts) {
        return None;
    }
    Some(Verdict {
        kind: VerdictKind::Quantum,
        text: format!(
            "The quantum is too small: it ends dispatches after {:.1} messages and {:.0} ns, in the mean.",
            short.messages, short.ns
        ),
        evidence: short.evidence(facts),
        suggestion: Some("raise exec.quantum (`thalweg set exec.quantum 64`)".to_owned()),
        component: None,
        worker: worker.map(|(worker, _)| worker.id),
    })
}

/// A worker that is busy with dispatches that full or empty streams end too soon.
fn narrow_streams(facts: &Facts<'_>) -> Option<Verdict> {
    let (worker, shares) = *facts.workers().first()?;
    let changes = |short: &Short| CHANGING * short.ns < CHANGE_NS;
    let short = Short::of(facts).filter(changes).filter(|_| load(&shares) >= SATURATED)?;
    let narrow =
        |stream: &&Stream| stream.capacity > 0 && (stream.capacity as f64) < 4.0 * short.messages.max(1.0);
    let streams = facts.report.streams.iter().filter(narrow);
    let stream = streams.max_by(|a, b| waits_of(a).total_cmp(&waits_of(b)))?;
    let why = format!("worker {} spends much of its time on changing tasks", worker.id);
    Some(too_small(stream, why, short.evidence(facts)))
}

fn waits_of(stream: &Stream) -> f64 {
    stream.full_share.unwrap_or(0.0) + stream.empty_share.unwrap_or(0.0)
}

fn too_small(stream: &Stream, why: String, evidence: Vec<String>) -> Verdict {
    Verdict {
        kind: VerdictKind::Capacity,
        text: format!(
            "The streams {} are too small: they hold {}, and {why}.",
            stream.name,
            counted(stream.capacity, "message")
        ),
        evidence,
        suggestion: Some("raise exec.capacity, or the capacity of these streams".to_owned()),
        component: stream.writer.clone(),
        worker: None,
    }
}

/// A stream whose ends wait in turn, now for room, now for messages, while nobody is busy.
fn small_stream(facts: &Facts<'_>) -> Option<Verdict> {
    let both = |stream: &Stream| Some(stream.full_share?.min(stream.empty_share?));
    let streams = facts.report.streams.iter().filter_map(|stream| Some((stream, both(stream)?)));
    let small = |stream: &Stream| (1..=SMALL).contains(&stream.capacity);
    let (stream, _) = streams
        .filter(|&(stream, share)| share >= BOTH_WAIT && small(stream))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let full = percent(stream.full_share.unwrap_or(0.0));
    let empty = percent(stream.empty_share.unwrap_or(0.0));
    let why =
        format!("their writers wait {full} of the time for room and their readers {empty} for messages");
    Some(too_small(stream, why, facts.evidence(Vec::new())))
}

/// Most work is in tasks of which each does next to nothing.
fn grain(facts: &Facts<'_>) -> Option<Verdict> {
    let busy = |component: &Component| component.work.busy_ns.unwrap_or(0.0);
    let messages = |component: &Component| {
        component.work.messages_in.unwrap_or(0).max(component.work.messages_out.unwrap_or(0)) as f64
            / component.tasks as f64
    };
    let (fine, rest): (Vec<&Component>, Vec<&Component>) = facts
        .report
        .components
        .iter()
        .partition(|component| component.tasks >= GRAIN_TASKS && messages(component) <= GRAIN_MESSAGES);
    let top = fine.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let in_fine: f64 = fine.iter().map(|component| busy(component)).sum();
    let in_rest: f64 = rest.iter().map(|component| busy(component)).sum();
    let in_boxes: f64 =
        fine.iter().filter(|component| component.kind == "box").map(|component| busy(component)).sum();
    let tasks: u64 = fine.iter().map(|component| component.tasks).sum();
    let share = in_fine / (in_fine + in_rest);
    let pays = in_fine > GRAIN_NS * tasks as f64 && in_boxes > GRAIN_BOXES * in_fine;
    if share < GRAIN_SHARE || pays {
        return None;
    }
    let (evidence, besides) = match *facts.workers() {
        [(first, high), .., (_, low)] => (
            vec![format!(
                "on {} workers the busiest, {}, is busy {} of the time, the least busy {}",
                facts.report.workers.len(),
                first.id,
                percent(load(&high)),
                percent(load(&low))
            )],
            "; as it is, one worker may be faster than several (`--workers 1`)",
        ),
        _ => (Vec::new(), ""),
    };
    Some(Verdict {
        kind: VerdictKind::Grain,
        text: format!(
            "The grain is too fine: {} of all work is in components that unfold into task after task, each for a message or two, most of it in {}.",
            percent(share),
            top.path
        ),
        suggestion: Some(format!("let a message carry more work (batches){besides}")),
        evidence: facts.evidence(evidence),
        component: Some(top.path.clone()),
        worker: None,
    })
}

/// A box that is busy all the time, or is nearly all that keeps its worker so.
fn saturated_task(facts: &Facts<'_>) -> Option<Verdict> {
    let workers = facts.workers();
    let fills = |task: &Task, busy: f64| {
        let of =
            workers.iter().find(|(worker, _)| Some(worker.id) == task.worker).map(|(_, shares)| load(shares));
        of.is_some_and(|load| load >= SATURATED && busy >= SATURATED * load)
    };
    let (task, shares) = facts
        .tasks()
        .filter(|(task, shares)| shares.busy >= SATURATED || fills(task, shares.busy))
        .filter(|(task, _)| !is_source(task) && !is_sink(task))
        .max_by(|a, b| {
            let weight = |task: &Task, shares: &TaskShares| shares.busy + facts.blame(path_of(&task.name));
            weight(a.0, &a.1).total_cmp(&weight(b.0, &b.1))
        })?;
    let path = path_of(&task.name).to_owned();
    let on = task.worker.map_or(String::new(), |worker| format!(" on worker {worker}"));
    let busy = percent(shares.busy);
    let pressed = facts.report.utilisation.iter().find(|row| row.task == Some(task.id));
    let evidence = facts.evidence(
        pressed
            .map(|row| format!("the source could ask for {:.1} times what it does", row.utilisation))
            .into_iter()
            .collect(),
    );
    let found = Verdict {
        kind: VerdictKind::Task,
        text: format!("{} limits the flow: it is busy {busy} of the time{on}.", task.name),
        suggestion: Some(format!("make {path} faster, or replicate it (`!` in the network)")),
        evidence,
        component: Some(path.clone()),
        worker: task.worker,
    };
    Some(
        slow_replica(facts, task, shares.busy, &found)
            .or_else(|| flooded(facts, &path, &found))
            .unwrap_or(found),
    )
}

/// One of several replicas takes longer for a message, or gets more of them.
fn slow_replica(facts: &Facts<'_>, task: &Task, busy: f64, found: &Verdict) -> Option<Verdict> {
    let path = path_of(&task.name);
    let others: Vec<(&Task, TaskShares)> =
        facts.tasks().filter(|(other, _)| other.id != task.id && path_of(&other.name) == path).collect();
    let mean = |value: &dyn Fn(&(&Task, TaskShares)) -> f64| {
        others.iter().map(value).sum::<f64>() / others.len() as f64
    };
    if others.is_empty() || mean(&|(_, shares)| shares.busy) > 0.6 * busy {
        return None;
    }
    let service = task.work.service_ns?;
    let of_others = mean(&|(other, _)| other.work.service_ns.unwrap_or(0.0));
    let (text, suggestion) = if service >= SLOWER * of_others {
        (
            format!(
                "{} limits the flow: it takes {:.1} times as long for a message as the other replicas, and is busy {} of the time.",
                task.name,
                service / of_others.max(1.0),
                percent(busy)
            ),
            "find out what is special about the messages it gets, or spread them".to_owned(),
        )
    } else {
        (
            format!(
                "{} limits the flow: it gets most of the messages and is busy {} of the time, the other replicas {}.",
                task.name,
                percent(busy),
                percent(mean(&|(_, shares)| shares.busy))
            ),
            "split by a tag that spreads the messages more evenly".to_owned(),
        )
    };
    Some(Verdict { kind: VerdictKind::Replica, text, suggestion: Some(suggestion), ..found.clone() })
}

/// A component before this one writes many messages for each that it reads.
fn flooded(facts: &Facts<'_>, path: &str, found: &Verdict) -> Option<Verdict> {
    let floods = |path: &str| {
        let work = &facts.component(path)?.work;
        work.selectivity.filter(|selectivity| *selectivity >= FLOOD && work.messages_in >= Some(FLOOD_READS))
    };
    let (by, selectivity) =
        upstream(facts.report, path).into_iter().find_map(|path| Some((path, floods(path)?)))?;
    Some(Verdict {
        kind: VerdictKind::Burst,
        text: format!(
            "Bursts of {by} limit the flow: it writes {selectivity:.0} messages for each it reads, and {} cannot keep up with them.",
            if by == path { "who reads them" } else { path }
        ),
        suggestion: Some(format!("replicate {path}, or let {by} write less")),
        component: Some(by.to_owned()),
        ..found.clone()
    })
}

/// Between bursts those behind them wait, so that nobody need be busy all the time.
fn flooded_in_turns(facts: &Facts<'_>) -> Option<Verdict> {
    if keeps_up(facts) {
        return None;
    }
    let inside = facts.tasks().filter(|(task, _)| !is_source(task) && !is_sink(task));
    let (task, _) = inside.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))?;
    let found = Verdict { evidence: facts.evidence(Vec::new()), ..plain(VerdictKind::Burst, String::new()) };
    flooded(facts, path_of(&task.name), &found)
}

/// This component and those before it, the nearest first.
fn upstream<'r>(report: &'r Report, path: &'r str) -> Vec<&'r str> {
    let mut found = vec![path];
    let mut next = 0;
    while let Some(&reader) = found.get(next) {
        next += 1;
        for stream in report.streams.iter().filter(|stream| stream.reader.as_deref() == Some(reader)) {
            if let Some(writer) = stream.writer.as_deref()
                && !found.contains(&writer)
            {
                found.push(writer);
            }
        }
    }
    found
}

/// A worker that is busy all the time, though none of its tasks is by itself.
fn saturated_worker(facts: &Facts<'_>) -> Option<Verdict> {
    let workers = facts.workers();
    let (hot, shares) = *workers.first()?;
    if load(&shares) < SATURATED {
        return None;
    }
    let saturated = workers.iter().filter(|(_, shares)| load(shares) >= SATURATED).count();
    // Where several workers are all busy there is too much work, in bursts or not.
    let uneven = saturated < workers.len() || saturated == 1;
    let flooded = busiest_on(facts, hot.id).filter(|_| uneven).and_then(|(task, _)| {
        flooded(facts, path_of(&task.name), &plain(VerdictKind::Worker, String::new()))
    });
    let found =
        flooded.or_else(|| better_mapping(facts, &workers)).or_else(|| behind_a_long_box(facts, &workers));
    if let Some(found) = found {
        return Some(Verdict { worker: Some(hot.id), ..found });
    }
    // Sources, and tasks that only wait, have threads of their own.
    let working = || facts.report.components.iter().filter(|component| component.work.messages_in > Some(0));
    let all: f64 = working().filter_map(|component| component.work.busy_ns).sum();
    let top = working().next().filter(|_| all > 0.0);
    let most = top.map_or(String::new(), |component| {
        let share = component.work.busy_ns.unwrap_or(0.0) / all;
        format!("; of all work, {} is in {}", percent(share), component.path)
    });
    let busy = percent(load(&shares));
    let who = if saturated == workers.len() && saturated > 1 {
        format!("All {saturated} workers limit the flow: the busiest is busy {busy} of the time")
    } else {
        format!("Worker {} limits the flow: it is busy {busy} of the time", hot.id)
    };
    Some(Verdict {
        kind: VerdictKind::Worker,
        text: format!("{who}{most}."),
        evidence: facts.evidence(Vec::new()),
        suggestion: Some(match top {
            Some(top) => format!("more workers on more processors, or a faster {}", top.path),
            None => "more workers on more processors".to_owned(),
        }),
        component: top.map(|component| component.path.clone()),
        worker: Some(hot.id),
    })
}

/// A worker that waits for threads to be woken, again and again, and has most of the tasks.
fn uneven_workers(facts: &Facts<'_>) -> Option<Verdict> {
    let workers = facts.workers();
    let (high, low) = (load(&workers.first()?.1), load(&workers.last()?.1));
    if keeps_up(facts) || high < UNEVEN || high < 2.0 * low {
        return None;
    }
    better_mapping(facts, &workers)
}

/// A task whose move to the worker with most time to spare would help.
fn better_mapping(facts: &Facts<'_>, workers: &[(&Worker, WorkerShares)]) -> Option<Verdict> {
    let (hot, hot_shares) = *workers.first()?;
    let (cold, cold_shares) = *workers.last()?;
    let (high, low) = (load(&hot_shares), load(&cold_shares));
    let after = |busy: f64| (high - busy).max(low + busy);
    let (task, busy) = facts
        .tasks()
        .filter(|(task, _)| task.worker == Some(hot.id))
        .map(|(task, shares)| (task, shares.busy))
        .min_by(|a, b| after(a.1).total_cmp(&after(b.1)))?;
    let gain = high / after(busy);
    (gain >= GAIN).then(|| Verdict {
        kind: VerdictKind::Mapping,
        text: format!(
            "The mapping limits the flow: worker {} is busy {} of the time, worker {} {}.",
            hot.id,
            percent(high),
            cold.id,
            percent(low)
        ),
        evidence: facts.evidence(vec![format!("{} takes {} of worker {}", task.name, percent(busy), hot.id)]),
        suggestion: Some(format!(
            "move {} to worker {} (`thalweg set task/{}.worker {}`): up to {} more",
            task.name,
            cold.id,
            task.id,
            cold.id,
            percent(gain - 1.0)
        )),
        component: Some(path_of(&task.name).to_owned()),
        worker: Some(hot.id),
    })
}

/// Tasks that others wait for are ready on a busy worker, behind a box that takes long, while another worker has time to spare.
fn behind_a_long_box(facts: &Facts<'_>, workers: &[(&Worker, WorkerShares)]) -> Option<Verdict> {
    let (hot, _) = *workers.first()?;
    let (cold, spare) = *workers.last().filter(|(_, shares)| load(shares) < SATURATED)?;
    let (long, _) = busiest_on(facts, hot.id)?;
    let long_ns = long.work.service_ns.filter(|ns| *ns >= LONG_NS)?;
    let path = path_of(&long.name);
    let behind = |root: &&Root| {
        let task = facts.report.tasks.iter().find(|task| task.id == root.task);
        root.state == RootState::Ready
            && task.is_some_and(|task| task.worker == Some(hot.id) && path_of(&task.name) != path)
    };
    let waited_for = || facts.report.waiting.roots.iter().filter(behind);
    let first = waited_for().next()?.name.as_deref()?;
    let share: f64 = waited_for().map(|root| root.share).sum();
    (share >= BEHIND).then(|| Verdict {
        kind: VerdictKind::Worker,
        text: format!(
            "Worker {} limits the flow: {first}, for which others wait, is ready there behind {path}, which takes {:.1} ms for a message; meanwhile worker {} is busy only {} of the time.",
            hot.id,
            long_ns / 1e6,
            cold.id,
            percent(load(&spare))
        ),
        evidence: vec![format!("{} of all waiting leads to such tasks", percent(share))],
        suggestion: Some(format!(
            "let more messages be under way at once, or declare {path} blocking, so that it has a thread of its own"
        )),
        component: Some(path.to_owned()),
        worker: Some(hot.id),
    })
}

/// Where source and sink do not tell of themselves: whether the network waits for them.
fn at_the_edges(facts: &Facts<'_>) -> Option<Verdict> {
    let exit = waiting_at(facts, "exit", |stream| (&stream.writer, &stream.reader), |s| s.output_wait);
    if let Some(Waits { share, path, outside }) = exit {
        let text = format!(
            "{} limits the flow: {path} waits {} of the time for room in the exit.",
            the("sink", outside.as_deref().unwrap_or_default()),
            percent(share)
        );
        return Some(Verdict { component: outside.or(Some(path)), ..plain(VerdictKind::Sink, text) });
    }
    let Waits { share, path, outside } =
        waiting_at(facts, "entry", |stream| (&stream.reader, &stream.writer), |s| s.input_wait)?;
    let text = format!(
        "{} limits the flow: {path} waits {} of the time for input.",
        the("source", outside.as_deref().unwrap_or_default()),
        percent(share)
    );
    Some(Verdict { component: outside.or(Some(path)), ..plain(VerdictKind::Source, text) })
}

/// What stands at an end of the network, as the subject of a sentence; one that is called by its role is not called so twice.
fn the(role: &str, name: &str) -> String {
    if name.is_empty() || name == role { format!("The {role}") } else { format!("The {role} {name}") }
}

/// A component at the network's edge that waits for what is outside.
struct Waits {
    share: f64,
    path: String,
    outside: Option<String>,
}

/// The component at the network's edge, if it waits there most of the time.
fn waiting_at(
    facts: &Facts<'_>,
    role: &str,
    sides: impl Fn(&Stream) -> (&Option<String>, &Option<String>),
    wait: impl Fn(&TaskShares) -> f64,
) -> Option<Waits> {
    let stream = facts.report.streams.iter().find(|stream| stream.role == role)?;
    let (path, outside) = sides(stream);
    let path = path.clone()?;
    let share = wait(&facts.component(&path)?.work.shares?);
    (share >= STARVED).then(|| Waits { share, path, outside: outside.clone() })
}

/// Nobody is busy, and the source is held back: messages wait until the threads that others wake run.
fn waking(facts: &Facts<'_>) -> Option<Verdict> {
    if keeps_up(facts) {
        return None;
    }
    let idle = |id: u64| {
        let workers = facts.report.workers.iter().filter(|worker| worker.id == id);
        workers.filter_map(|worker| worker.shares).map(|shares| shares.waiting).find(|share| *share >= IDLE)
    };
    let (task, ready, idle) = facts
        .tasks()
        .filter_map(|(task, shares)| Some((task, shares.ready, idle(task.worker?)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, ready, _)| *ready >= WOKEN)?;
    let room = facts.report.streams.iter().map(|stream| stream.capacity).filter(|&room| room > 1).min()?;
    Some(Verdict {
        component: Some(path_of(&task.name).to_owned()),
        worker: task.worker,
        evidence: facts.evidence(Vec::new()),
        suggestion: Some(format!(
            "let threads be woken for more messages at once: streams that hold {} (`thalweg run --capacity {}`)",
            4 * room,
            4 * room
        )),
        ..plain(
            VerdictKind::Capacity,
            format!(
                "Waking threads limits the flow: {} could run {} of the time and did not yet, while its worker waits {}; \
                 the streams hold {} each.",
                task.name,
                percent(ready),
                percent(idle),
                counted(room, "message")
            ),
        )
    })
}

fn too_short(facts: &Facts<'_>) -> Option<Verdict> {
    let window = &facts.report.window;
    let messages = facts.report.throughput.messages_in?;
    (!window.partial && window.duration_ns < START_NS).then(|| Verdict {
        suggestion: Some("give it input for a second or more".to_owned()),
        ..plain(
            VerdictKind::Unclear,
            format!(
                "The run was too short to tell what limits it: {} in {:.1} ms, most of which was its start.",
                counted(messages, "message"),
                window.duration_ns / 1e6
            ),
        )
    })
}

fn busiest(facts: &Facts<'_>) -> Option<Verdict> {
    let (task, shares) = facts.tasks().next()?;
    Some(Verdict {
        component: Some(path_of(&task.name).to_owned()),
        worker: task.worker,
        evidence: facts.evidence(Vec::new()),
        ..plain(
            VerdictKind::Unclear,
            format!(
                "Nothing is busy all the time; the busiest task is {} ({} busy, {} waiting for input, {} for output, {} ready).",
                task.name,
                percent(shares.busy),
                percent(shares.input_wait),
                percent(shares.output_wait),
                percent(shares.ready)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let told = |components: Vec<Component>| {
            let report = Report { components, ..Report::empty() };
            grain(&Facts::new(&report)).map(|verdict| verdict.component)
        };
        let few = component("few", 1, 1_000_000, 4e6);
        let stage = || component("star", 400, 800, 5e6);
        assert_eq!(told(vec![few.clone(), stage()]), Some(Some("star".to_owned())));
        assert_eq!(told(vec![few.clone(), component("star", 400, 800, 3e6)]), None, "a part of the work");
        assert_eq!(told(vec![few.clone(), component("star", 400, 8000, 5e6)]), None, "enough messages each");
        assert_eq!(told(vec![few, component("star", 40, 80, 5e6)]), None, "few tasks");
        let long = component("star", 400, 800, 5e8);
        assert_eq!(told(vec![long.clone()]), None, "a millisecond each");
        let unfolding = Component { kind: "star".to_owned(), ..long };
        assert_eq!(told(vec![unfolding]), Some(Some("star".to_owned())), "a millisecond, and none in boxes");
    }

    /// A task that was busy for this part of a second.
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
        Task { id, name: name.to_owned(), worker: Some(worker), work, ..Task::default() }
    }

    fn worker(id: u64, busy: f64) -> Worker {
        let shares = WorkerShares { busy, waiting: 1.0 - busy, own: 0.0, kept: 0.0, unaccounted: 0.0 };
        Worker { id, lifetime_ns: 1e9, shares: Some(shares), ..Worker::default() }
    }

    #[test]
    fn who_is_ready_behind_a_long_box_is_named() {
        let told = |service_ns: f64, spare: f64, state: RootState| {
            let root = Root {
                task: 1,
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
            saturated_worker(&Facts::new(&report)).expect("worker 1 is busy")
        };
        let found = told(5e7, 0.7, RootState::Ready);
        assert!(
            found.text.contains("merge, for which others wait, is ready there behind solve"),
            "{found:?}"
        );
        assert_eq!((found.component.as_deref(), found.worker), (Some("solve"), Some(1)));
        for other in [
            told(5e4, 0.7, RootState::Ready),
            told(5e7, 0.9, RootState::Ready),
            told(5e7, 0.7, RootState::Running),
        ] {
            assert!(!other.text.contains("merge"), "{other:?}");
        }
    }

    #[test]
    fn a_worker_with_all_tasks_is_named_though_it_waits_between() {
        let told = |busy: f64, other: f64| {
            let tasks = vec![task(1, "left", 0, busy / 2.0, 1e3), task(2, "right", 0, busy / 2.0, 1e3)];
            let workers = vec![worker(0, busy), worker(1, other)];
            uneven_workers(&Facts::new(&Report { tasks, workers, ..Report::empty() }))
        };
        assert_eq!(told(0.7, 0.0).map(|verdict| verdict.kind), Some(VerdictKind::Mapping));
        assert_eq!(told(0.7, 0.4), None, "the other one works, too");
        assert_eq!(told(0.4, 0.0), None, "there is little to do");
    }

    #[test]
    fn shares_of_a_short_life_are_small_shares_of_the_run() {
        let shares = TaskShares { busy: 0.9, input_wait: 0.1, output_wait: 0.0, ready: 0.0 };
        let work = |busy_ns| Work { busy_ns: Some(busy_ns), ..Work::default() };
        assert_eq!(of_run(&work(0.9e9), shares, 1e9), shares);
        let short = of_run(&work(0.9e6), shares, 1e9);
        assert!((short.busy - 0.9e-3).abs() < 1e-9 && (short.input_wait - 0.1e-3).abs() < 1e-9, "{short:?}");
    }
}

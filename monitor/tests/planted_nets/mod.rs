//! Networks that are made slow for one known reason (a planted cause), and the score of the verdicts on them.
//!
//! The same networks run in simulated time (`monitor/tests/planted.rs`) and in real time
//! (`thalweg/tests/planted.rs`).

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod simulation;

use std::collections::BTreeMap;
use std::fmt;

use thalweg_chance::Chance;
use thalweg_monitor::{Verdict, VerdictKind};

/// The planted cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    SlowBox,
    SlowReplica,
    SlowSource,
    SlowSink,
    BadMapping,
    SmallStream,
    SmallQuantum,
    Contention,
    Deadlock,
    Burst,
    Healthy,
}

pub(crate) const CAUSES: [Cause; 11] = [
    Cause::SlowBox,
    Cause::SlowReplica,
    Cause::SlowSource,
    Cause::SlowSink,
    Cause::BadMapping,
    Cause::SmallStream,
    Cause::SmallQuantum,
    Cause::Contention,
    Cause::Deadlock,
    Cause::Burst,
    Cause::Healthy,
];

impl Cause {
    /// The kind of verdict that names this cause.
    fn verdict(self) -> VerdictKind {
        match self {
            Cause::SlowBox => VerdictKind::Task,
            Cause::SlowReplica => VerdictKind::Replica,
            Cause::SlowSource => VerdictKind::Source,
            Cause::SlowSink => VerdictKind::Sink,
            Cause::BadMapping => VerdictKind::Mapping,
            Cause::SmallStream => VerdictKind::Capacity,
            Cause::SmallQuantum => VerdictKind::Quantum,
            Cause::Contention => VerdictKind::Contention,
            Cause::Deadlock => VerdictKind::Deadlock,
            Cause::Burst => VerdictKind::Burst,
            Cause::Healthy => VerdictKind::Nothing,
        }
    }
}

/// A task that reads its inputs in turns, works, and writes `copies` messages for each message read to its
/// outputs in turns.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) replica: u64,
    /// The task's worker; `None` if the task has a thread of its own.
    pub(crate) worker: Option<usize>,
    /// The numbers of the streams that the task reads; `outputs` has those of the streams that it writes.
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// The work for a message, in nanoseconds.
    pub(crate) service: u64,
    pub(crate) copies: u64,
    /// Whether the task is a source that sleeps instead of working.
    pub(crate) sleeps: bool,
    /// The number of messages that the task writes before it reads any.
    pub(crate) seed: u64,
}

/// A network with the cause that makes it slow. Tasks without inputs are sources, and tasks without outputs
/// are sinks.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) cause: Cause,
    /// The components that the verdict may name; empty if the cause is not in a component.
    at_fault: Vec<String>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) streams: usize,
    /// The capacity of each stream.
    pub(crate) capacity: u64,
    /// The maximal number of messages in a dispatch.
    pub(crate) quantum: u64,
    pub(crate) workers: usize,
    /// The interval in which the first worker loses its processor to other processes, in thousandths of a
    /// time slice; `None` if it never loses its processor.
    pub(crate) preempted_every: Option<u64>,
}

impl Net {
    /// A random network with this cause.
    pub(crate) fn planted(cause: Cause, seed: u64) -> Net {
        let mut chance = Chance::new(seed * 1000 + cause as u64);
        // Networks with a small stream are shorter, because the stream matters less if much work follows it.
        let length =
            if cause == Cause::SmallStream { chance.between(2, 4) } else { chance.between(3, 8) } as usize;
        let each = chance.between(1500, 6000);
        let culprit = chance.below(length as u64) as usize;
        let mut net = Net::chain(cause, length, each, &mut chance);
        let much = each * length as u64;
        match cause {
            Cause::SlowBox => {
                net.tasks[culprit + 1].service *= length as u64 * 4;
                net.at_fault = vec![format!("box{culprit}")];
            }
            Cause::SlowReplica => {
                net.split(culprit + 1, length as u64 * chance.between(9, 15));
                net.at_fault = vec!["split".to_owned()];
            }
            Cause::SlowSource => {
                net.tasks[0].service = much * chance.between(2, 5);
                net.at_fault = vec!["source".to_owned()];
            }
            Cause::SlowSink => {
                net.tasks[length + 1].service = much * chance.between(2, 5);
                net.at_fault = vec!["sink".to_owned()];
            }
            Cause::BadMapping => {
                let all_on = chance.below(2) as usize;
                net.place(|_| all_on);
            }
            Cause::SmallStream => {
                net.capacity = chance.between(1, 3);
                net.place(|n| n % 2);
            }
            Cause::SmallQuantum => {
                net.quantum = chance.between(1, 3);
                net.on_one_worker();
                net.tasks.iter_mut().filter(|task| task.worker.is_some()).for_each(|task| task.service = 60);
            }
            Cause::Contention => {
                net.preempted_every = Some(chance.between(500, 1500));
                net.on_one_worker();
            }
            Cause::Deadlock => {
                net.capacity = chance.between(2, 20);
                net.ring(each);
                net.at_fault = vec!["ping".to_owned(), "pong".to_owned()];
            }
            Cause::Burst => {
                let culprit = culprit.min(length - 2);
                net.tasks[culprit + 1].copies = chance.between(12, 60);
                net.at_fault = vec![format!("box{culprit}")];
            }
            Cause::Healthy => {
                net.tasks[0].service = much * chance.between(2, 6);
                net.tasks[0].sleeps = true;
            }
        }
        net
    }

    /// A source, boxes in a row on two workers, a sink.
    fn chain(cause: Cause, length: usize, each: u64, chance: &mut Chance) -> Net {
        let workers = 2;
        let mut tasks = vec![Task::new("source", None, &[], &[0], 0)];
        for at in 0..length {
            let service = each * chance.between(80, 120) / 100;
            let name = format!("box{at}");
            tasks.push(Task::new(&name, Some(at * workers / length), &[at], &[at + 1], service));
        }
        tasks.push(Task::new("sink", None, &[length], &[], 100));
        Net {
            cause,
            at_fault: Vec::new(),
            tasks,
            streams: length + 1,
            capacity: [32, 64, 128, 256][chance.below(4) as usize],
            quantum: 64,
            workers,
            preempted_every: None,
        }
    }

    /// Places the boxes by their numbers.
    fn place(&mut self, worker: impl Fn(usize) -> usize) {
        for (n, task) in self.tasks.iter_mut().enumerate().filter(|(_, task)| task.worker.is_some()) {
            task.worker = Some(worker(n));
        }
    }

    fn on_one_worker(&mut self) {
        self.workers = 1;
        self.place(|_| 0);
    }

    /// Replaces a task by three replicas, one of them slow, between two tasks that distribute and collect in
    /// turns.
    fn split(&mut self, at: usize, slower: u64) {
        let of = self.tasks.remove(at);
        let first = self.streams;
        self.streams += 6;
        let (to, from): (Vec<usize>, Vec<usize>) =
            ((first..first + 3).collect(), (first + 3..first + 6).collect());
        self.tasks.push(Task::new("deal", of.worker, &of.inputs, &to, 100));
        self.tasks.push(Task::new("collect", of.worker, &from, &of.outputs, 100));
        for replica in 0..3 {
            let service = if replica == 1 { of.service * slower } else { of.service };
            let worker = Some(usize::from(replica == 1));
            let stage = Task::new("split", worker, &[to[replica]], &[from[replica]], service);
            self.tasks.push(Task { replica: replica as u64, ..stage });
        }
    }

    /// Adds two tasks, each of which writes two messages for each message it reads from the other, so that
    /// they fill each other's input.
    fn ring(&mut self, service: u64) {
        let (there, back) = (self.streams, self.streams + 1);
        self.streams += 2;
        for (name, input, output, worker) in [("ping", back, there, 0), ("pong", there, back, 1)] {
            let task = Task::new(name, Some(worker), &[input], &[output], service);
            self.tasks.push(Task { copies: 2, seed: 1, ..task });
        }
    }

    /// Whether the verdict names the planted cause and its place.
    pub(crate) fn is_named_by(&self, verdict: &Verdict) -> bool {
        verdict.finding.kind == self.cause.verdict()
            && (self.at_fault.is_empty()
                || verdict.finding.component.as_deref().is_some_and(|path| self.is_at_fault(path)))
    }

    /// Whether the cause is in the component with this path.
    pub(crate) fn is_at_fault(&self, path: &str) -> bool {
        self.at_fault.iter().any(|name| path.rsplit('/').next() == Some(name))
    }
}

impl Task {
    fn new(name: &str, worker: Option<usize>, inputs: &[usize], outputs: &[usize], service: u64) -> Task {
        Task {
            name: name.to_owned(),
            replica: 0,
            worker,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            service,
            copies: 1,
            sleeps: false,
            seed: 0,
        }
    }
}

/// The numbers of verdicts by cause.
#[derive(Default)]
pub(crate) struct Score {
    verdicts: BTreeMap<(Cause, String), u64>,
    right: u64,
    all: u64,
    wrong: Vec<String>,
    false_alarms: u64,
}

impl Score {
    pub(crate) fn add(&mut self, net: &Net, seed: u64, verdict: &Verdict) {
        self.all += 1;
        let right = net.is_named_by(verdict);
        let elsewhere = !right && verdict.finding.kind == net.cause.verdict();
        let named = format!("{:?}{}", verdict.finding.kind, if elsewhere { " elsewhere" } else { "" });
        *self.verdicts.entry((net.cause, named)).or_default() += 1;
        self.right += u64::from(right);
        self.false_alarms += u64::from(!right && net.cause == Cause::Healthy);
        if !right {
            self.wrong
                .push(format!("{:?} {seed}: {:?} {}", net.cause, verdict.finding.kind, verdict.words.text));
        }
    }

    /// Fails unless 95 of 100 causes were named and no healthy network got a verdict with a cause.
    pub(crate) fn check(&self) {
        assert_eq!(self.false_alarms, 0, "false alarms:\n{self}");
        assert!(self.all > 0 && self.right * 100 >= self.all * 95, "{self}");
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cause in CAUSES {
            let of_cause = self.verdicts.iter().filter(|((of, _), _)| *of == cause);
            let counts: Vec<String> =
                of_cause.map(|((_, named), count)| format!("{count} × {named}")).collect();
            if !counts.is_empty() {
                writeln!(f, "| {cause:?} | {} |", counts.join(", "))?;
            }
        }
        writeln!(f, "{} of {} named", self.right, self.all)?;
        self.wrong.iter().try_for_each(|wrong| writeln!(f, "{wrong}"))
    }
}

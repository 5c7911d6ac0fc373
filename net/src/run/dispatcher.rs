//! Dispatchers: of a parallel composition, to the branch that matches best; of a split, to a replica per value.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::collector::announce;
use super::component::{ComponentId, Instance};
use super::failure::{Message, Position};
use super::output::push;
use super::unfold::{REPLICAS_MAX, Unfolding};
use crate::label::Label;
use crate::record::Record;
use crate::router::{Choice, Router};

/// `A | B`: each record goes to the branch that matches it best.
pub(crate) struct ParallelDispatcher {
    position: Position,
    router: Router,
    input: In<Record>,
    read: u64,
    branches: Vec<Out<Record>>,
    /// A record whose branch had no room.
    waiting: Option<Record>,
}

impl ParallelDispatcher {
    pub(crate) fn new(
        position: Position,
        router: Router,
        input: In<Record>,
        branches: Vec<Out<Record>>,
    ) -> ParallelDispatcher {
        ParallelDispatcher { position, router, input, read: 0, branches, waiting: None }
    }

    /// Sends a record on its way; `false` if its branch has no room now.
    #[inline]
    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) -> bool {
        let branches = &mut self.branches;
        let branch = match self.router.choose(&record) {
            Choice::One(branch) => branch,
            Choice::Tie(tied) => emptiest(branches, cx, tied),
            Choice::None => {
                let message = Message { stream: self.input.id(), index: self.read - 1 };
                let reason = "no branch takes a record with these labels".to_owned();
                self.position.fail(cx, message, record, reason);
                return true;
            }
        };
        match push(&mut self.branches[branch], cx, record) {
            Ok(()) => true,
            Err(record) => {
                self.waiting = Some(record);
                false
            }
        }
    }
}

/// The branch with the most room in its input stream.
fn emptiest(branches: &mut [Out<Record>], cx: &mut Context<'_>, tied: &[usize]) -> usize {
    let mut best = (tied[0], branches[tied[0]].room(cx));
    for &branch in &tied[1..] {
        let room = branches[branch].room(cx);
        if room > best.1 {
            best = (branch, room);
        }
    }
    best.0
}

impl Task for ParallelDispatcher {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        for branch in &mut self.branches {
            ports.output(branch);
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(record) = self.waiting.take()
            && !self.dispatch(cx, record)
        {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.pop(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.read += 1;
            if !self.dispatch(cx, record) {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

/// `A ! <t>`: a replica of `A` for each value of the tag, made when the value first comes.
pub(crate) struct SplitDispatcher {
    position: Position,
    body: ComponentId,
    from: Label,
    /// The high end of a range of values, each of which gets a copy.
    to: Option<Label>,
    input: In<Record>,
    read: u64,
    replicas: HashMap<i64, usize>,
    outs: Vec<Out<Record>>,
    /// To the collector: announces the replicas' outputs.
    announcements: Out<Record>,
    /// What did not fit yet, each with its replica; `None`: an announcement.
    waiting: VecDeque<(Option<usize>, Record)>,
}

impl SplitDispatcher {
    pub(crate) fn new(
        position: Position,
        body: ComponentId,
        labels: (Label, Option<Label>),
        input: In<Record>,
        announcements: Out<Record>,
    ) -> SplitDispatcher {
        SplitDispatcher {
            position,
            body,
            from: labels.0,
            to: labels.1,
            input,
            read: 0,
            replicas: HashMap::new(),
            outs: Vec::new(),
            announcements,
            waiting: VecDeque::new(),
        }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) {
        match self.values(&record) {
            Ok((from, to)) => {
                for value in from..to {
                    let copy = record.clone();
                    self.send(cx, value, copy);
                }
                self.send(cx, to, record);
            }
            Err(reason) => {
                let message = Message { stream: self.input.id(), index: self.read - 1 };
                self.position.fail(cx, message, record, reason);
            }
        }
    }

    /// The first and last value to which the record goes.
    fn values(&self, record: &Record) -> Result<(i64, i64), String> {
        let tag = |label: Label| match record.get(label) {
            Some(Value::Int(value)) => Ok(*value),
            _ => Err(format!("the record has no {label}, which chooses the replica")),
        };
        let from = tag(self.from)?;
        let to = self.to.map_or(Ok(from), tag)?;
        let fresh = if self.replicas.contains_key(&from) { 0 } else { 1 };
        match to.checked_sub(from) {
            Some(0) if self.outs.len() + fresh <= REPLICAS_MAX => Ok((from, to)),
            Some(1..) if (to - from) as u64 + (self.outs.len() as u64) < REPLICAS_MAX as u64 => {
                Ok((from, to))
            }
            Some(..0) => Err(format!("the range {from} to {to} is empty: its first value is the larger")),
            _ => Err(format!("a split has at most {REPLICAS_MAX} replicas")),
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, value: i64, record: Record) {
        let replica = match self.replicas.get(&value) {
            Some(&replica) => replica,
            None => self.make_replica(cx, value),
        };
        self.waiting.push_back((Some(replica), record));
        self.flush(cx);
    }

    fn make_replica(&mut self, cx: &mut Context<'_>, value: i64) -> usize {
        let of = self.position.component;
        let parent = self.position.instance.clone();
        let instance = Some(Arc::new(Instance { of, replica: value, parent }));
        let task = cx.task_id();
        let mut unfolding = Unfolding::running(self.position.shared.clone(), cx, task, value as u64);
        let (out, input) = unfolding.stream();
        let output = unfolding.unfold(self.body, &instance, input);
        self.waiting.push_back((None, announce(output)));
        self.outs.push(out);
        self.replicas.insert(value, self.outs.len() - 1);
        self.outs.len() - 1
    }

    /// Writes what waits; whether nothing waits any more.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some((replica, record)) = self.waiting.pop_front() {
            let pushed = match replica {
                Some(replica) => push(&mut self.outs[replica], cx, record),
                None => self.announcements.push(cx, record),
            };
            if let Err(record) = pushed {
                self.waiting.push_front((replica, record));
                return false;
            }
        }
        true
    }
}

impl Task for SplitDispatcher {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.announcements);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.pop(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.read += 1;
            self.dispatch(cx, record);
            if !self.waiting.is_empty() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

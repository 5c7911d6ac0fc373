//! Dispatchers: of a parallel composition, to the branch that matches best; of a split, to a replica per value.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::component::{ComponentId, Instance};
use super::failure::Position;
use super::input::{Input, send};
use super::output::push;
use super::unfold::{Around, REPLICAS_MAX, Unfolding};
use crate::label::Label;
use crate::record::Record;
use crate::router::{Choice, Router};

/// `A | B`: each record goes to the branch that matches it best.
pub(crate) struct ParallelDispatcher {
    position: Position,
    router: Router,
    input: Input,
    branches: Vec<Out<Record>>,
}

impl ParallelDispatcher {
    pub(crate) fn new(
        position: Position,
        router: Router,
        input: In<Record>,
        branches: Vec<Out<Record>>,
    ) -> ParallelDispatcher {
        ParallelDispatcher { position, router, input: Input::new(input), branches }
    }

    /// Sends some of the next records, at most `left`, on their way; how many. `Err`: why none.
    #[inline]
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        let records = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return Err(if self.input.ended() { Stop::Ended } else { Stop::InputEmpty });
        };
        let (branch, count) = match self.router.choose(first) {
            Choice::One(branch) => (branch, alike(records)),
            Choice::Tie(tied) => (emptiest(&mut self.branches, cx, tied), 1),
            Choice::None => {
                if let Some(record) = self.input.next(cx) {
                    self.position.fail(cx, self.input.message(), record, NO_BRANCH.to_owned());
                }
                return Ok(1);
            }
        };
        match self.input.transfer(cx, count, &mut self.branches[branch]) {
            0 => Err(Stop::OutputFull),
            moved => Ok(moved),
        }
    }
}

/// How many records have the shape of the first.
#[inline]
pub(crate) fn alike(records: &[Record]) -> usize {
    let Some(shape) = records.first().map(Record::shape) else { return 0 };
    records.iter().position(|record| record.shape() != shape).unwrap_or(records.len())
}

pub(crate) const NO_BRANCH: &str = "no branch takes a record with these labels";

/// The branch with the most room in its input stream.
pub(crate) fn emptiest(branches: &mut [Out<Record>], cx: &mut Context<'_>, tied: &[usize]) -> usize {
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
        self.input.attach(ports);
        for branch in &mut self.branches {
            ports.output(branch);
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let mut left = cx.quantum();
        while left > 0 {
            match self.dispatch(cx, left) {
                Ok(dispatched) => left -= dispatched,
                Err(stop) => return stop,
            }
        }
        Stop::QuantumSpent
    }
}

/// Which replicas of a split a record goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitChoice {
    pub(crate) from: Label,
    /// The high end of a range of values, each of which gets a copy.
    pub(crate) to: Option<Label>,
    /// Whether the value is also the place.
    pub(crate) placed: bool,
}

impl SplitChoice {
    /// The first and last value to which a record goes, where there are `count` replicas.
    pub(crate) fn values(
        &self,
        record: &Record,
        count: usize,
        known: impl Fn(i64) -> bool,
    ) -> Result<(i64, i64), String> {
        let tag = |label: Label| match record.get(label) {
            Some(Value::Int(value)) => Ok(*value),
            _ => Err(format!("the record has no {label}, which chooses the replica")),
        };
        let from = tag(self.from)?;
        let to = self.to.map_or(Ok(from), tag)?;
        if from > to {
            return Err(format!("the range {from} to {to} is empty: its first value is the larger"));
        }
        let more = to.abs_diff(from);
        if more < REPLICAS_MAX as u64
            && (known(from) || count < REPLICAS_MAX)
            && (more == 0 || count as u64 + more < REPLICAS_MAX as u64)
        {
            return Ok((from, to));
        }
        Err(format!("a split has at most {REPLICAS_MAX} replicas"))
    }

    /// Makes the replica for a value: its input and its output.
    #[cold]
    pub(crate) fn replica(
        &self,
        position: &Position,
        cx: &mut Context<'_>,
        body: ComponentId,
        around: Around,
        value: i64,
    ) -> (Out<Record>, In<Record>) {
        let (of, parent) = (position.component, position.instance.clone());
        let instance = Some(Arc::new(Instance { of, replica: value, parent }));
        let place = if self.placed { Some(value as usize) } else { around.place };
        let task = cx.task_id();
        let around = Around { place, ..around };
        let mut unfolding = Unfolding::running(position.shared.clone(), cx, task, value as u64, around);
        let (out, input) = unfolding.stream();
        let output = unfolding.unfold(body, &instance, input);
        (out, output)
    }
}

/// `A ! <t>`: a replica of `A` for each value of the tag, made when the value first comes.
pub(crate) struct SplitDispatcher {
    position: Position,
    body: ComponentId,
    around: Around,
    choice: SplitChoice,
    input: Input,
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
        (body, around): (ComponentId, Around),
        choice: SplitChoice,
        input: In<Record>,
        announcements: Out<Record>,
    ) -> SplitDispatcher {
        SplitDispatcher {
            position,
            body,
            around,
            choice,
            input: Input::new(input),
            replicas: HashMap::new(),
            outs: Vec::new(),
            announcements,
            waiting: VecDeque::new(),
        }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) {
        let known = |value| self.replicas.contains_key(&value);
        match self.choice.values(&record, self.outs.len(), known) {
            Ok((from, to)) => {
                for value in from..to {
                    let copy = record.clone();
                    self.send(cx, value, copy);
                }
                self.send(cx, to, record);
            }
            Err(reason) => self.position.fail(cx, self.input.message(), record, reason),
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
        let (out, output) = self.choice.replica(&self.position, cx, self.body, self.around, value);
        self.waiting.push_back((None, send(Input::new(output))));
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
        self.input.attach(ports);
        ports.output(&mut self.announcements);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.next(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.dispatch(cx, record);
            if !self.waiting.is_empty() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

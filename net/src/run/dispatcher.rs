//! Dispatchers: of a parallel composition, to the branch that matches best; of a split, to a replica per value.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Out, Ports, Spread, Stop, Task};

use super::component::{ComponentId, Instance, placed_at};
use super::failure::Position;
use super::input::{Announced, Input, announce};
use super::output::{push, push_because};
use super::replicas::{Replicas, Room};
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
        let (records, _) = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return Err(if self.input.ended() { Stop::Ended } else { Stop::InputEmpty });
        };
        let (branch, count) = match self.router.choose(first) {
            Choice::One(branch) => (branch, alike(records)),
            Choice::Tie(tied) if self.position.shared.limits.ties_by_demand() => {
                (emptiest(&mut self.branches, cx, tied), 1)
            }
            Choice::Tie(tied) => (tied[0], alike(records)),
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
        dispatch_all(self, cx, Self::dispatch)
    }
}

/// A dispatch of a task that sends on records that stand side by side, as many at once as go the same way. `dispatch` sends
/// some, at most as many as it is told, and says how many; `Err`: why none.
#[inline]
pub(crate) fn dispatch_all<D>(
    dispatcher: &mut D,
    cx: &mut Context<'_>,
    dispatch: impl Fn(&mut D, &mut Context<'_>, usize) -> Result<usize, Stop>,
) -> Stop {
    let mut left = cx.quantum();
    while left > 0 {
        match dispatch(dispatcher, cx, left) {
            Ok(dispatched) => left -= dispatched,
            Err(stop) => return stop,
        }
    }
    Stop::QuantumSpent
}

/// How many records have the shape of the first, and this value of a tag.
#[inline]
fn alike_in(records: &[Record], tag: Label, value: i64) -> usize {
    let Some(shape) = records.first().map(Record::shape) else { return 0 };
    let Some(slot) = shape.slot(tag) else { return 0 };
    let is_alike = |record: &Record| {
        record.shape() == shape && matches!(record.slots()[slot], Value::Int(other) if other == value)
    };
    records.iter().position(|record| !is_alike(record)).unwrap_or(records.len())
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
    /// The first and last value to which a record goes.
    pub(crate) fn values(&self, record: &Record, replicas: &Replicas) -> Result<(i64, i64), String> {
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
        let count = if replicas.folds() { 0 } else { replicas.len() };
        if more < REPLICAS_MAX as u64
            && (count < REPLICAS_MAX || replicas.has(from))
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
        (body, around, spread): &(ComponentId, Around, Spread),
        value: i64,
    ) -> (Out<Record>, In<Record>) {
        let (of, parent) = (position.component, position.instance.clone());
        let instance = Some(Arc::new(Instance { of, replica: value, parent }));
        let nodes = position.shared.nodes.as_ref();
        let away = nodes.and_then(|nodes| nodes.of_replica(of, self.placed, value));
        let is_placed = self.placed && nodes.is_none();
        let place = if is_placed { placed_at(value.cast_unsigned()) } else { around.place };
        let task = cx.task_id();
        cx.replica(spread, |cx, together| {
            let around = Around { place, together, ..*around };
            let mut unfolding = Unfolding::running(position.shared.clone(), cx, task, value as u64, around);
            let (out, input) = unfolding.stream();
            let output = match away {
                Some(node) => unfolding.unfold_away(node, &[*body], &instance, input),
                None => unfolding.unfold(*body, &instance, input),
            };
            (out, output)
        })
    }
}

/// `A ! <t>`: a replica of `A` for each value of the tag, made when the value first comes.
pub(crate) struct SplitDispatcher {
    position: Position,
    body: (ComponentId, Around, Spread),
    choice: SplitChoice,
    input: Input,
    replicas: Replicas,
    /// By place.
    outs: Vec<SplitOut>,
    /// Replicas that were folded back and whose output is perhaps not all read, oldest first.
    folded: VecDeque<Folded>,
    /// To the collector: announces the replicas' outputs.
    announcements: Out<Record>,
    /// What did not fit yet, each with its replica; `None`: an announcement.
    waiting: VecDeque<(Option<usize>, Record)>,
}

/// A replica's input, and what tells that its output was read.
struct SplitOut {
    out: Out<Record>,
    output: u64,
    token: Arc<()>,
}

struct Folded {
    value: i64,
    output: u64,
    token: Arc<()>,
}

impl Folded {
    fn is_over(&self) -> bool {
        Arc::strong_count(&self.token) == 1
    }
}

impl SplitDispatcher {
    pub(crate) fn new(
        position: Position,
        body: (ComponentId, Around, Spread),
        choice: SplitChoice,
        folds: bool,
        input: In<Record>,
        announcements: Out<Record>,
    ) -> SplitDispatcher {
        SplitDispatcher {
            position,
            body,
            choice,
            input: Input::new(input),
            replicas: Replicas::new(folds),
            outs: Vec::new(),
            folded: VecDeque::new(),
            announcements,
            waiting: VecDeque::new(),
        }
    }

    /// Sends some of the next records, at most `left`, on their way; how many. `Err`: why none.
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let (records, _) = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return Err(if self.input.ended() { Stop::Ended } else { Stop::InputEmpty });
        };
        match self.choice.values(first, &self.replicas) {
            Ok((from, to)) if from == to => {
                // Of a range, the next record may have another end.
                let count =
                    if self.choice.to.is_some() { 1 } else { alike_in(records, self.choice.from, from) };
                self.send_run(cx, from, count)
            }
            Ok((from, to)) => {
                let Some(record) = self.input.next(cx) else { return Ok(0) };
                for value in from..to {
                    self.send(cx, value, record.clone());
                }
                self.send(cx, to, record);
                Ok(1)
            }
            Err(reason) => {
                if let Some(record) = self.input.next(cx) {
                    self.position.fail(cx, self.input.message(), record, reason);
                }
                Ok(1)
            }
        }
    }

    /// Sends the next `count` records to the replica of a value.
    fn send_run(&mut self, cx: &mut Context<'_>, value: i64, count: usize) -> Result<usize, Stop> {
        let cause = Some(self.input.next_message());
        let replica = self.replica(cx, value, cause);
        match self.input.transfer(cx, count, &mut self.outs[replica].out) {
            0 => Err(Stop::OutputFull),
            moved => Ok(moved),
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, value: i64, record: Record) {
        let replica = self.replica(cx, value, None);
        self.waiting.push_back((Some(replica), record));
        self.flush(cx);
    }

    /// The place of a value's replica, which is made if need be; `cause`: for which message, if not for the one read last.
    #[inline]
    fn replica(&mut self, cx: &mut Context<'_>, value: i64, cause: Option<(u64, u64)>) -> usize {
        match self.replicas.place(value) {
            Some(replica) => replica,
            None => self.make_replica(cx, value, cause),
        }
    }

    #[cold]
    fn make_replica(&mut self, cx: &mut Context<'_>, value: i64, cause: Option<(u64, u64)>) -> usize {
        let (out, input) = self.choice.replica(&self.position, cx, &self.body, value);
        let made = SplitOut { out, output: input.id(), token: Arc::new(()) };
        let folded = self.folded.iter().rev().find(|folded| folded.value == value && !folded.is_over());
        let announced =
            Announced { input, after: folded.map(|folded| folded.output), token: Some(made.token.clone()) };
        // A record for a replica must not wait while its place is given away.
        let kept = if self.waiting.is_empty() { self.position.shared.limits.replicas() } else { usize::MAX };
        self.announce(cx, announce(announced), cause);
        let place = match self.replicas.insert(value, kept) {
            Room::Next => {
                self.outs.push(made);
                self.outs.len() - 1
            }
            Room::Instead(place, before) => {
                let SplitOut { output, token, .. } = std::mem::replace(&mut self.outs[place], made);
                while self.folded.front().is_some_and(Folded::is_over) {
                    self.folded.pop_front();
                }
                self.folded.push_back(Folded { value: before, output, token });
                place
            }
        };
        self.flush(cx);
        place
    }

    /// Tells the collector of a replica.
    fn announce(&mut self, cx: &mut Context<'_>, announcement: Record, cause: Option<(u64, u64)>) {
        let refused = match cause.filter(|_| self.waiting.is_empty()) {
            Some(cause) => push_because(&mut self.announcements, cx, announcement, cause).err(),
            None => Some(announcement),
        };
        // When there is room, the message that it descends from will be the one read last.
        self.waiting.extend(refused.map(|announcement| (None, announcement)));
    }

    /// Writes what waits; whether nothing waits any more.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some((replica, record)) = self.waiting.pop_front() {
            let pushed = match replica {
                Some(replica) => push(&mut self.outs[replica].out, cx, record),
                None => push(&mut self.announcements, cx, record),
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
        dispatch_all(self, cx, Self::dispatch)
    }
}

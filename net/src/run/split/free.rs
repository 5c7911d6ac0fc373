//! The nondeterministic split `A ! <t>`.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_exec::{Context, HandedOn, In, Out, PassesTo, Ports, Progress, Spread, Stop, Task};

use super::Chooser;
use crate::record::Record;
use crate::run::around::Around;
use crate::run::component::{ComponentId, SplitChoice};
use crate::run::dispatch::{dispatch_all, send_run};
use crate::run::input::{Announced, Input, announce};
use crate::run::output::{push, push_because};
use crate::run::position::Position;
use crate::run::replicas::{Replicas, Room};

/// The dispatcher of `A ! <t>`: it makes a replica of `A` for each value of the tag, when the value first
/// occurs.
pub(crate) struct SplitDispatcher {
    position: Position,
    body: (ComponentId, Around, Spread),
    chooser: Chooser,
    input: Input,
    replicas: Replicas,
    /// The inputs of the replicas, by place.
    outs: Vec<SplitOut>,
    /// Replicas that were folded back and whose output may not have been read completely, oldest first.
    folded: VecDeque<Folded>,
    /// The stream to the collector, which announces the replicas' outputs.
    announcements: Out<Record>,
    /// Records that wait for space, each with the replica that gets it, and announcements of replicas
    /// (`None`).
    waiting: VecDeque<(Option<usize>, Record)>,
}

/// A replica's input, and a token that shows whether its output was read.
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
            chooser: Chooser::new(choice),
            input: Input::new(input),
            replicas: Replicas::new(folds),
            outs: Vec::new(),
            folded: VecDeque::new(),
            announcements,
            waiting: VecDeque::new(),
        }
    }

    /// Sends some of the next records, at most `left`, to their replicas; returns their number. `Err`: why
    /// none was sent.
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let (records, _) = self.input.upcoming(cx, left);
        let Some(first) = records.first() else {
            return self.input.none_sent();
        };
        match self.chooser.values(first, &self.replicas) {
            Ok((from, to)) if from == to => {
                // If records go to a range of replicas, the next record may have another end of the range.
                let count =
                    if self.chooser.choice.to.is_some() { 1 } else { self.chooser.alike_in(records, from) };
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
        let fuses = self.position.shared.limits.fuses() && self.waiting.is_empty();
        send_run(cx, &mut self.input, (count, fuses), &mut self.outs[replica].out).map_err(|(stop, _)| stop)
    }

    fn send(&mut self, cx: &mut Context<'_>, value: i64, record: Record) {
        let replica = self.replica(cx, value, None);
        self.waiting.push_back((Some(replica), record));
        self.flush(cx);
    }

    /// The place of a value's replica, which is made if needed; `cause` is the message for which the replica
    /// is made, if this is not the message read last.
    #[inline]
    fn replica(&mut self, cx: &mut Context<'_>, value: i64, cause: Option<(u64, u64)>) -> usize {
        match self.replicas.place(value) {
            Some(replica) => replica,
            None => self.make_replica(cx, value, cause),
        }
    }

    #[cold]
    fn make_replica(&mut self, cx: &mut Context<'_>, value: i64, cause: Option<(u64, u64)>) -> usize {
        let (out, input) = self.chooser.choice.replica(&self.position, cx, &self.body, value);
        let made = SplitOut { out, output: input.id(), token: Arc::new(()) };
        let folded = self.folded.iter().rev().find(|folded| folded.value == value && !folded.is_over());
        let announced =
            Announced { input, after: folded.map(|folded| folded.output), token: Some(made.token.clone()) };
        // A record for a replica must not wait while the replica's place is given to another one.
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

    /// Announces a replica to the collector.
    fn announce(&mut self, cx: &mut Context<'_>, announcement: Record, cause: Option<(u64, u64)>) {
        let refused = match cause.filter(|_| self.waiting.is_empty()) {
            Some(cause) => push_because(&mut self.announcements, cx, announcement, cause).err(),
            None => Some(announcement),
        };
        // If the announcement waits for space, its cause need not be kept: when there is space, the cause
        // will be the message read last.
        if let Some(announcement) = refused {
            self.waiting.push_back((None, announcement));
        }
    }

    /// Writes waiting records; returns whether none waits any more.
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

    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let is_free = self.position.shared.limits.fuses() && self.waiting.is_empty();
        let records = next.of::<Record>().filter(|_| is_free && self.chooser.choice.to.is_none())?;
        let (value, _) = self.chooser.values(records.first()?, &self.replicas).ok()?;
        if self.chooser.alike_in(records, value) < records.len() {
            return None;
        }
        let replica = self.replicas.place(value)?;
        Some(self.outs[replica].out.passes_to())
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        self.input.take_handed(messages)
    }
}

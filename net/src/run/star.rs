//! A star `A * P` as it unfolds: before each replica stands an exit.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::component::{ComponentId, Instance};
use super::dispatcher::dispatch_all;
use super::failure::Position;
use super::input::{Announced, Input, announce};
use super::output::{push, push_because};
use super::unfold::{Around, REPLICAS_MAX, Unfolding};
use crate::pattern::Pattern;
use crate::record::Record;
use crate::shape::ShapeId;

/// An exit of a star, with what it needs to make the replica behind it.
pub(crate) struct Exit {
    position: Position,
    body: ComponentId,
    around: Around,
    exits: Vec<Pattern>,
    /// The replica that follows, counted from 0. What enters the first is from outside.
    pub(crate) replica: i64,
    pub(crate) input: Input,
    /// To the collector.
    out: Out<Record>,
    /// To the replica, once there is one.
    inside: Option<Out<Record>>,
    /// Whether what follows may be folded back, because nothing in the body has state.
    folds: bool,
    /// Records that left here since one went inside.
    unused: usize,
    /// Of the replica that follows or did before it was folded back: the stream of the exit behind it.
    announced: Option<u64>,
    /// What did not fit yet, in order.
    waiting: VecDeque<(Way, Record)>,
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

impl Exit {
    /// The first exit of a star.
    pub(crate) fn new(
        position: Position,
        (body, around, folds): (ComponentId, Around, bool),
        exits: Vec<Pattern>,
        input: In<Record>,
        out: Out<Record>,
    ) -> Exit {
        let (input, waiting) = (Input::new(input), VecDeque::new());
        let (replica, inside, unused, announced) = (0, None, 0, None);
        Exit { position, body, around, exits, replica, input, out, inside, folds, unused, announced, waiting }
    }

    /// Notes that records went a way, behind which no group is open. What follows is folded back when it was not used for
    /// long: its input is closed, so that it ends when all that is inside has left.
    #[inline]
    pub(crate) fn note(&mut self, way: Way, count: usize) {
        match way {
            Way::In => self.unused = 0,
            Way::Out => self.unused += count,
        }
        if self.folds
            && self.inside.is_some()
            && self.unused > self.position.shared.limits.fold_after()
            && self.waiting.is_empty()
        {
            self.inside = None;
        }
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        ports.output(&mut self.out);
    }

    /// The way of a record, or why it has none.
    pub(crate) fn way(&mut self, record: &Record) -> Result<Way, String> {
        way(&mut self.exits, self.replica, record)
    }

    /// The record read last leaves the network as an error.
    pub(crate) fn fail(&self, cx: &mut Context<'_>, record: Record, reason: String) {
        self.position.fail(cx, self.input.message(), record, reason);
    }

    /// Makes the replica, if it is not there, and behind it the next exit, as the task that `task` makes of it; `cause`: for which
    /// message, if not for the one read last.
    pub(crate) fn need_inside<T: Task>(
        &mut self,
        cx: &mut Context<'_>,
        cause: Option<(u64, u64)>,
        task: impl FnOnce(Exit) -> T,
    ) {
        if self.inside.is_none() {
            let announcement = self.make_inside(cx, task);
            self.announce(cx, announcement, cause);
        }
    }

    /// Tells the collector of the exit behind a replica.
    fn announce(&mut self, cx: &mut Context<'_>, announcement: Record, cause: Option<(u64, u64)>) {
        let refused = match cause.filter(|_| self.waiting.is_empty()) {
            Some(cause) => push_because(&mut self.out, cx, announcement, cause).err(),
            None => return self.push(cx, Way::Out, announcement),
        };
        // When there is room, the message that it descends from will be the one read last.
        self.waiting.extend(refused.map(|announcement| (Way::Out, announcement)));
    }

    #[cold]
    fn make_inside<T: Task>(&mut self, cx: &mut Context<'_>, task: impl FnOnce(Exit) -> T) -> Record {
        let Position { shared, component, instance } = self.position.clone();
        let instance = Some(Arc::new(Instance { of: component, replica: self.replica, parent: instance }));
        let parent = cx.task_id();
        let mut unfolding = Unfolding::running(shared, cx, parent, self.replica as u64, self.around);
        let (inside, entered) = unfolding.stream();
        let left = unfolding.unfold(self.body, &instance, entered);
        let (out, announced) = unfolding.stream();
        unfolding.replica += 1;
        let body = (self.body, self.around, self.folds);
        let next = Exit::new(self.position.clone(), body, self.exits.clone(), left, out);
        unfolding.spawn(self.position.component, task(Exit { replica: self.replica + 1, ..next }));
        self.inside = Some(inside);
        let after = self.announced.replace(announced.id());
        announce(Announced { input: announced, after, token: None })
    }

    pub(crate) fn push(&mut self, cx: &mut Context<'_>, way: Way, record: Record) {
        self.waiting.push_back((way, record));
        self.flush(cx);
    }

    /// Writes what waits; whether nothing waits any more.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some((way, record)) = self.waiting.pop_front() {
            let pushed = match (way, &mut self.inside) {
                (Way::In, Some(inside)) => push(inside, cx, record),
                _ => push(&mut self.out, cx, record),
            };
            if let Err(record) = pushed {
                self.waiting.push_front((way, record));
                return false;
            }
        }
        true
    }
}

fn way(exits: &mut [Pattern], replica: i64, record: &Record) -> Result<Way, String> {
    match matches_one(exits, record) {
        Ok(true) => Ok(Way::Out),
        Ok(false) if replica as usize >= REPLICAS_MAX => {
            Err(format!("a star has at most {REPLICAS_MAX} replicas"))
        }
        Ok(false) => Ok(Way::In),
        Err(reason) => Err(reason),
    }
}

/// Whether a record matches one of some patterns, looked at in their order.
#[inline]
pub(crate) fn matches_one(patterns: &mut [Pattern], record: &Record) -> Result<bool, String> {
    for pattern in patterns {
        if pattern.matches(record).map_err(|fault| fault.to_string())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets records out of a star, or into its next replica, which it makes when the first record needs it.
pub(crate) struct StarExit(Exit);

impl StarExit {
    pub(crate) fn new(exit: Exit) -> StarExit {
        StarExit(exit)
    }

    /// Sends some of the next records, at most `left`, on their way; how many. `Err`: why none.
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.0.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let Exit { exits, replica, input, .. } = &mut self.0;
        let (records, _) = input.upcoming(cx, left);
        let Some((first, others)) = records.split_first() else {
            return Err(if input.ended() { Stop::Ended } else { Stop::InputEmpty });
        };
        let first_way = way(exits, *replica, first);
        let goes_along = |record: &&Record| {
            record.shape() != ShapeId::MESSAGE
                && first_way.is_ok()
                && way(exits, *replica, record) == first_way
        };
        let count = 1 + others.iter().take_while(goes_along).count();
        match first_way {
            Ok(way) => self.send(cx, way, count),
            Err(reason) => {
                if let Some(record) = self.0.input.next(cx) {
                    self.0.fail(cx, record, reason);
                }
                Ok(1)
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, way: Way, count: usize) -> Result<usize, Stop> {
        if way == Way::In {
            let cause = Some(self.0.input.next_message());
            self.0.need_inside(cx, cause, StarExit);
        }
        let Exit { input, out, inside, .. } = &mut self.0;
        let out = match (way, inside) {
            (Way::In, Some(inside)) => inside,
            _ => out,
        };
        match input.transfer(cx, count, out) {
            0 => Err(Stop::OutputFull),
            moved => {
                self.0.note(way, moved);
                Ok(moved)
            }
        }
    }
}

impl Task for StarExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.0.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        dispatch_all(self, cx, Self::dispatch)
    }
}

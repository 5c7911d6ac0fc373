//! The exit of a star before each replica.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_exec::{Context, In, Out, Ports, StreamSpec, Task};

use crate::pattern::Pattern;
use crate::record::Record;
use crate::run::around::Around;
use crate::run::component::{ComponentId, Instance};
use crate::run::dispatch::matches_one;
use crate::run::input::{Announced, Input, announce};
use crate::run::output::{push, push_because};
use crate::run::position::{NewReplica, Position};
use crate::run::replicas::REPLICAS_MAX;

/// An exit of a star, with the state for making the replica after it.
pub(crate) struct Exit {
    position: Position,
    body: ComponentId,
    around: Around,
    pub(super) exits: Exits,
    /// The replica that follows, counted from 0. Records that enter the exit before replica 0 come from
    /// outside the star.
    pub(crate) replica: i64,
    pub(crate) input: Input,
    /// The stream to the collector.
    pub(super) out: Out<Record>,
    /// The stream to the replica, if it exists.
    pub(super) inside: Option<Out<Record>>,
    /// Whether the following stages may be folded back, because no component of the body has state.
    folds: bool,
    /// The number of records that left at this exit since the last record went into the replica.
    unused: usize,
    /// The stream of the next exit, which was announced for the present replica or for a former one that was
    /// folded back.
    announced: Option<u64>,
    /// Records that wait for space, in order.
    waiting: VecDeque<(Way, Record)>,
}

/// The patterns of a star's exit. The first of them, which is mostly the only one, needs no memory of its
/// own: each stage of a star has such patterns.
#[derive(Clone)]
pub(crate) struct Exits {
    first: Option<Pattern>,
    others: Option<Box<[Pattern]>>,
}

impl Exits {
    pub(crate) fn new(patterns: &[Pattern]) -> Exits {
        let others = patterns.get(1..).filter(|others| !others.is_empty());
        Exits { first: patterns.first().cloned(), others: others.map(Box::from) }
    }

    /// Whether a record leaves here; patterns are tested in their order.
    #[inline]
    fn matches(&mut self, record: &Record) -> Result<bool, String> {
        let leaves = matches_one(self.first.as_mut_slice(), record)?;
        match &mut self.others {
            Some(others) if !leaves => matches_one(others, record),
            _ => Ok(leaves),
        }
    }
}

/// The direction of a record.
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
        exits: Exits,
        input: In<Record>,
        out: Out<Record>,
    ) -> Exit {
        let (input, waiting) = (Input::new(input), VecDeque::new());
        let (replica, inside, unused, announced) = (0, None, 0, None);
        Exit { position, body, around, exits, replica, input, out, inside, folds, unused, announced, waiting }
    }

    /// Counts records that left, or went into the replica; no group is open after them. The following stages
    /// are folded back when they were not used for long: the replica's input is closed, so that the replica
    /// ends when all records inside have left.
    #[inline]
    pub(crate) fn note(&mut self, way: Way, count: usize) {
        let folds = self.would_fold(way, count);
        match way {
            Way::In => self.unused = 0,
            Way::Out => self.unused += count,
        }
        if folds {
            self.inside = None;
        }
    }

    /// Whether the following stages are folded back when `count` records go this way.
    #[inline]
    fn would_fold(&self, way: Way, count: usize) -> bool {
        way == Way::Out
            && self.folds
            && self.inside.is_some()
            && self.unused + count > self.position.shared.limits.fold_after()
            && self.waiting.is_empty()
    }

    /// Whether `count` records that go this way may be handed on: no record waits for space, and the records
    /// do not cause the following stages to be folded back.
    #[inline]
    pub(super) fn fuses(&self, way: Way, count: usize) -> bool {
        self.position.shared.limits.fuses() && self.waiting.is_empty() && !self.would_fold(way, count)
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        ports.output(&mut self.out);
    }

    /// The way of a record, or the reason why it has none.
    pub(crate) fn way(&mut self, record: &Record) -> Result<Way, String> {
        way(&mut self.exits, self.replica, record)
    }

    /// Fails the record that was read last: the record leaves the network.
    pub(crate) fn fail(&self, cx: &mut Context<'_>, record: Record, reason: String) {
        self.position.fail(cx, self.input.message(), record, reason);
    }

    /// Makes the replica, if it does not exist, and the exit after the replica, from which `task` makes a
    /// task; `cause` is the message for which the replica is made, if this is not the message read last.
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

    /// Announces the exit after a replica to the collector.
    fn announce(&mut self, cx: &mut Context<'_>, announcement: Record, cause: Option<(u64, u64)>) {
        let refused = match cause.filter(|_| self.waiting.is_empty()) {
            Some(cause) => push_because(&mut self.out, cx, announcement, cause).err(),
            None => return self.push(cx, Way::Out, announcement),
        };
        // If the announcement waits for space, its cause need not be kept: when there is space, the cause
        // will be the message read last.
        if let Some(announcement) = refused {
            self.waiting.push_back((Way::Out, announcement));
        }
    }

    #[cold]
    fn make_inside<T: Task>(&mut self, cx: &mut Context<'_>, task: impl FnOnce(Exit) -> T) -> Record {
        let Position { shared, component, instance } = &self.position;
        let component = *component;
        let parent = instance.clone();
        let instance = Some(Arc::new(Instance { of: component, replica: self.replica, parent }));
        let (body, around, number) = (self.body, self.around, self.replica as u64);
        let replica = NewReplica { body, instance, number, around, node: None };
        let (inside, left) = self.position.unfold(cx, &replica);
        let (out, announced) = cx.sized_stream(StreamSpec::default());
        let spec = around.task(shared.program.get(component).site, cx.task_id(), number + 1);
        let body = (self.body, self.around, self.folds);
        let next = Exit::new(self.position.clone(), body, self.exits.clone(), left, out);
        cx.spawn(spec, task(Exit { replica: self.replica + 1, ..next }));
        self.inside = Some(inside);
        let after = self.announced.replace(announced.id());
        announce(Announced { input: announced, after, token: None })
    }

    pub(crate) fn push(&mut self, cx: &mut Context<'_>, way: Way, record: Record) {
        self.waiting.push_back((way, record));
        self.flush(cx);
    }

    /// Writes waiting records; returns whether none waits any more.
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

pub(super) fn way(exits: &mut Exits, replica: i64, record: &Record) -> Result<Way, String> {
    match exits.matches(record) {
        Ok(true) => Ok(Way::Out),
        Ok(false) if replica as usize >= REPLICAS_MAX => {
            Err(format!("a star has at most {REPLICAS_MAX} replicas"))
        }
        Ok(false) => Ok(Way::In),
        Err(reason) => Err(reason),
    }
}

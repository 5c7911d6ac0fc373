//! The deterministic star `A ** P`: outputs leave in the order of the inputs that caused them.
//!
//! Each record that enters is a group. Where all that is left of a group leaves at an exit, the group ends there; where
//! some of it goes on inside, it ends only in this exit's stream ([`Ends::STAGE`]) and the collector reads on in the stream
//! of the next exit. The next group begins at the first exit again.

use std::collections::VecDeque;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::component::ComponentId;
use super::failure::Position;
use super::input::{Input, send, sent};
use super::output::{Output, push};
use super::star::{matches_one, unfold_stage};
use super::unfold::{Around, REPLICAS_MAX};
use crate::pattern::Pattern;
use crate::record::{Ends, Record};
use crate::shape::ShapeId;

/// Lets records out of a deterministic star, or into its next replica.
pub(crate) struct OrderedExit {
    position: Position,
    body: ComponentId,
    around: Around,
    exits: Vec<Pattern>,
    /// The replica that follows, counted from 0. What enters the first is from outside.
    replica: i64,
    input: Input,
    exit: Out<Record>,
    inside: Option<Out<Record>>,
    /// Whether something of the current group went inside.
    went_in: bool,
    waiting: VecDeque<(Way, Record)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

impl OrderedExit {
    pub(crate) fn new(
        position: Position,
        (body, around): (ComponentId, Around),
        exits: Vec<Pattern>,
        replica: i64,
        input: In<Record>,
        exit: Out<Record>,
    ) -> OrderedExit {
        let (input, waiting) = (Input::new(input), VecDeque::new());
        OrderedExit {
            position,
            body,
            around,
            exits,
            replica,
            input,
            exit,
            inside: None,
            went_in: false,
            waiting,
        }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, mut record: Record) {
        let first = self.replica == 0;
        let ends = record.ends();
        let outer = if first { ends.as_outer() } else { Ends::NOTHING };
        let is_mark = record.shape() == ShapeId::MARK;
        // Each record from outside is a group.
        let last = if first { !is_mark } else { ends != Ends::NOTHING };
        if is_mark {
            return if first { self.push(cx, Way::Out, Record::mark(outer)) } else { self.end(cx, outer) };
        }
        match matches_one(&mut self.exits, &record) {
            Ok(true) => {
                let here = if self.went_in { Ends::STAGE } else { Ends::GROUP };
                record.set_ends(if last { here.and(outer) } else { Ends::NOTHING });
                self.push(cx, Way::Out, record);
                if last && self.went_in {
                    self.push(cx, Way::In, Record::mark(Ends::GROUP));
                }
            }
            Ok(false) if self.replica as usize >= REPLICAS_MAX => {
                let reason = format!("a star has at most {REPLICAS_MAX} replicas");
                return self.fail(cx, record, reason, last.then_some(outer));
            }
            Ok(false) => {
                if self.inside.is_none() {
                    self.make_replica(cx);
                }
                self.went_in = true;
                record.set_ends(if last { Ends::GROUP } else { Ends::NOTHING });
                self.push(cx, Way::In, record);
                if last {
                    self.push(cx, Way::Out, Record::mark(Ends::STAGE.and(outer)));
                }
            }
            Err(reason) => return self.fail(cx, record, reason, last.then_some(outer)),
        }
        self.went_in &= !last;
    }

    /// The group ends without a further record.
    fn end(&mut self, cx: &mut Context<'_>, outer: Ends) {
        if self.went_in {
            self.push(cx, Way::In, Record::mark(Ends::GROUP));
            self.push(cx, Way::Out, Record::mark(Ends::STAGE.and(outer)));
        } else {
            self.push(cx, Way::Out, Record::mark(Ends::GROUP.and(outer)));
        }
        self.went_in = false;
    }

    fn fail(&mut self, cx: &mut Context<'_>, record: Record, reason: String, ends: Option<Ends>) {
        self.position.fail(cx, self.input.message(), record, reason);
        if let Some(outer) = ends {
            self.end(cx, outer);
        }
    }

    #[cold]
    fn make_replica(&mut self, cx: &mut Context<'_>) {
        let (position, body, around) = (self.position.clone(), self.body, self.around);
        let (exits, next) = (self.exits.clone(), self.replica + 1);
        let stage = unfold_stage(cx, &self.position, body, around, self.replica, |output, exit| {
            OrderedExit::new(position, (body, around), exits, next, output, exit)
        });
        self.inside = Some(stage.inside);
        self.push(cx, Way::Out, send(Input::new(stage.exit)));
    }

    fn push(&mut self, cx: &mut Context<'_>, way: Way, record: Record) {
        self.waiting.push_back((way, record));
        self.flush(cx);
    }

    /// Writes what waits; whether nothing waits any more.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some((way, record)) = self.waiting.pop_front() {
            let pushed = match (way, &mut self.inside) {
                (Way::In, Some(inside)) => push(inside, cx, record),
                _ if record.shape() == ShapeId::MESSAGE => self.exit.push(cx, record),
                _ => push(&mut self.exit, cx, record),
            };
            if let Err(record) = pushed {
                self.waiting.push_front((way, record));
                return false;
            }
        }
        true
    }
}

impl Task for OrderedExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        ports.output(&mut self.exit);
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

/// Joins the exits of a deterministic star, group by group.
pub(crate) struct ExitCollector {
    /// The streams of the exits; each brings that of the next.
    exits: Vec<In<Record>>,
    /// The exit that the current group has reached.
    at: usize,
    /// What ends behind the current group.
    outer: Ends,
    output: Output,
    /// When the first exit has ended: up to which exit nothing is left.
    emptied: usize,
}

impl ExitCollector {
    pub(crate) fn new(first: In<Record>, out: Out<Record>) -> ExitCollector {
        ExitCollector {
            exits: vec![first],
            at: 0,
            outer: Ends::NOTHING,
            output: Output::new(out),
            emptied: 0,
        }
    }

    fn take(&mut self, cx: &mut Context<'_>, mut record: Record) {
        if record.shape() == ShapeId::MESSAGE {
            self.exits.truncate(self.at + 1);
            self.exits.extend(sent(&record).map(In::from));
            return;
        }
        let ends = record.ends();
        if ends.has(Ends::OUTER) {
            self.outer = Ends::OUTER;
        }
        let is_mark = record.shape() == ShapeId::MARK;
        let group = ends.has(Ends::GROUP) || (is_mark && !ends.has(Ends::STAGE));
        let outer =
            if group { std::mem::replace(&mut self.outer, Ends::NOTHING).to_group() } else { Ends::NOTHING };
        if group {
            self.at = 0;
        } else if ends.has(Ends::STAGE) {
            self.at += 1;
        }
        if is_mark {
            self.output.end(cx, outer);
        } else {
            record.set_ends(outer);
            self.output.send(cx, record);
        }
    }
}

impl Task for ExitCollector {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.exits.iter_mut().for_each(|exit| ports.input(exit));
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let reading = self.at.max(self.emptied);
            let Some(exit) = self.exits.get_mut(reading) else {
                // Behind the last exit: nothing is left, or a task ended in the middle of a group.
                if self.emptied > 0 {
                    return Stop::Ended;
                }
                self.at = 0;
                continue;
            };
            match exit.pop(cx) {
                Some(record) if self.emptied == 0 => self.take(cx, record),
                // Only boxes without input still give records.
                Some(record) if record.shape() == ShapeId::MESSAGE => {
                    self.exits.extend(sent(&record).map(In::from));
                }
                Some(record) if record.shape() == ShapeId::MARK => {}
                Some(record) => _ = self.output.send(cx, record),
                None if !exit.ended() => return Stop::InputEmpty,
                None if self.emptied > 0 || reading == 0 => self.emptied += 1,
                None => self.at = 0,
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

//! The deterministic star `A ** P`: outputs leave in the order of the inputs that caused them.
//!
//! Each record that enters is a group. If all remaining records of a group leave at an exit, the group ends
//! there; if some go on inside, the exit reports so as soon as they do ([`Ends::INSIDE`], or [`Ends::STAGE`]
//! with the last record of the group at this exit). So the collector knows all exits at which records of the
//! current group may arrive, and reads them in the order of arrival: records that leave deep inside never
//! wait for records that have not left at an earlier exit, and the streams need not hold a whole group. The
//! next group begins at the first exit again.

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::exit::{Exit, Way};
use crate::record::{Ends, Record};
use crate::run::input::announced;
use crate::run::output::Output;
use crate::shape::ShapeId;

/// An exit that sends records out of a deterministic star, or into its next replica.
pub(crate) struct OrderedExit {
    exit: Exit,
    /// Whether a record of the current group went inside.
    went_in: bool,
}

impl OrderedExit {
    pub(crate) fn new(exit: Exit) -> OrderedExit {
        OrderedExit { exit, went_in: false }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, mut record: Record) {
        let first = self.exit.replica == 0;
        let ends = record.ends();
        let outer = if first { ends.as_outer() } else { Ends::NOTHING };
        let is_mark = record.shape() == ShapeId::MARK;
        // Each record from outside is a group of its own.
        let last = if first { !is_mark } else { ends != Ends::NOTHING };
        if is_mark {
            return match first {
                true => self.exit.push(cx, Way::Out, Record::mark(outer)),
                false => self.end(cx, outer),
            };
        }
        match self.exit.way(&record) {
            Ok(Way::Out) => {
                let here = if self.went_in { Ends::STAGE } else { Ends::GROUP };
                record.set_ends(if last { here.and(outer) } else { Ends::NOTHING });
                self.exit.push(cx, Way::Out, record);
                if last && self.went_in {
                    self.exit.push(cx, Way::In, Record::mark(Ends::GROUP));
                } else if last {
                    self.exit.note(Way::Out, 1);
                }
            }
            Ok(Way::In) => {
                self.exit.need_inside(cx, None, OrderedExit::new);
                self.exit.note(Way::In, 1);
                record.set_ends(if last { Ends::GROUP } else { Ends::NOTHING });
                self.exit.push(cx, Way::In, record);
                if last {
                    self.exit.push(cx, Way::Out, Record::mark(Ends::STAGE.and(outer)));
                } else if !self.went_in {
                    self.exit.push(cx, Way::Out, Record::mark(Ends::INSIDE));
                }
                self.went_in = true;
            }
            Err(reason) => {
                self.exit.fail(cx, record, reason);
                return if last {
                    self.end(cx, outer)
                };
            }
        }
        self.went_in &= !last;
    }

    /// Ends the group without a further record.
    fn end(&mut self, cx: &mut Context<'_>, outer: Ends) {
        if self.went_in {
            self.exit.push(cx, Way::In, Record::mark(Ends::GROUP));
            self.exit.push(cx, Way::Out, Record::mark(Ends::STAGE.and(outer)));
        } else {
            self.exit.push(cx, Way::Out, Record::mark(Ends::GROUP.and(outer)));
        }
        self.went_in = false;
    }
}

impl Task for OrderedExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.exit.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if !self.exit.flush(cx) {
                return Stop::OutputFull;
            }
            let Some(record) = self.exit.input.next(cx) else {
                return if self.exit.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.dispatch(cx, record);
        }
        if self.exit.flush(cx) { Stop::QuantumSpent } else { Stop::OutputFull }
    }
}

/// Joins the exits of a deterministic star, group by group.
pub(crate) struct ExitCollector {
    /// The streams of the exits; each stream announces the stream of the next exit.
    exits: Vec<In<Record>>,
    /// The exits at which more records of the current group may arrive, ascending.
    open: Vec<usize>,
    /// The number of exits that the current group has reached.
    reached: usize,
    /// The outer groups that end after the current group.
    outer: Ends,
    output: Output,
    /// The exits below this index are empty; used after the first exit has ended.
    emptied: usize,
}

impl ExitCollector {
    pub(crate) fn new(first: In<Record>, out: Out<Record>) -> ExitCollector {
        ExitCollector {
            exits: vec![first],
            open: vec![0],
            reached: 1,
            outer: Ends::NOTHING,
            output: Output::new(out),
            emptied: 0,
        }
    }

    /// Reads the next message at the exits of the current group; returns it with the index of its exit among
    /// the open ones.
    fn next(&mut self, cx: &mut Context<'_>) -> Option<(usize, Record)> {
        for (place, &at) in self.open.iter().enumerate() {
            if let Some(record) = self.exits.get_mut(at).and_then(|exit| exit.pop(cx)) {
                return Some((place, record));
            }
        }
        None
    }

    fn take(&mut self, cx: &mut Context<'_>, place: usize, mut record: Record) {
        if record.shape() == ShapeId::MESSAGE {
            self.exits.truncate(self.open[place] + 1);
            self.exits.extend(announced(&record).map(|announced| announced.input));
            return;
        }
        let ends = record.ends();
        if ends.has(Ends::OUTER) {
            self.outer = Ends::OUTER;
        }
        self.follow(place, ends);
        let is_mark = record.shape() == ShapeId::MARK;
        // A mark from the first exit may report nothing but the end of an outer group.
        let only_outer = is_mark && !ends.has(Ends::GROUP.and(Ends::STAGE).and(Ends::INSIDE));
        let over = self.open.is_empty() || only_outer;
        let outer =
            if over { std::mem::replace(&mut self.outer, Ends::NOTHING).to_group() } else { Ends::NOTHING };
        if self.open.is_empty() {
            self.begin_group();
        }
        if is_mark {
            self.output.end(cx, outer);
        } else {
            record.set_ends(outer);
            self.output.send(cx, record);
        }
    }

    /// Opens the next exit if the group continues there, and closes this exit if the group has ended at it.
    fn follow(&mut self, place: usize, ends: Ends) {
        let next = self.open[place] + 1;
        if ends.has(Ends::STAGE.and(Ends::INSIDE)) && next == self.reached {
            self.open.push(next);
            self.reached += 1;
        }
        if ends.has(Ends::GROUP.and(Ends::STAGE)) {
            self.open.remove(place);
        }
    }

    fn begin_group(&mut self) {
        self.open.clear();
        self.open.push(0);
        self.reached = 1;
        // The exits after the first belong to replicas that may have been folded back. The last exit ends
        // last, so if it has ended, all exits have.
        while self.exits.len() > 1 && self.exits.last().is_some_and(In::ended) {
            self.exits.pop();
        }
    }

    /// The reason to stop when no message arrives at the open exits.
    fn stop(&mut self) -> Option<Stop> {
        if self.open.iter().any(|&at| self.exits.get(at).is_some_and(|exit| !exit.ended())) {
            return Some(Stop::InputEmpty);
        }
        // The star has ended, or a task ended in the middle of a group.
        if self.open == [0] {
            self.emptied = 1;
        }
        self.begin_group();
        None
    }

    /// Reads the records that boxes without input still emit when all other exits have ended.
    fn empty(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        let Some(exit) = self.exits.get_mut(self.emptied) else { return Some(Stop::Ended) };
        match exit.pop(cx) {
            Some(record) if record.shape() == ShapeId::MESSAGE => {
                self.exits.extend(announced(&record).map(|announced| announced.input));
            }
            Some(record) if record.shape() == ShapeId::MARK => {}
            Some(record) => _ = self.output.send(cx, record),
            None if exit.ended() => self.emptied += 1,
            None => return Some(Stop::InputEmpty),
        }
        None
    }
}

impl Task for ExitCollector {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.exits.iter_mut().for_each(|exit| ports.input(exit));
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if !self.output.flush(cx) {
                return Stop::OutputFull;
            }
            let stop = if self.emptied > 0 {
                self.empty(cx)
            } else if let Some((place, record)) = self.next(cx) {
                self.take(cx, place, record);
                None
            } else {
                self.stop()
            };
            if let Some(stop) = stop {
                return stop;
            }
        }
        if self.output.is_full() { Stop::OutputFull } else { Stop::QuantumSpent }
    }
}

//! A chain of synchrocells, as a star makes it.

use std::collections::VecDeque;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::held::Cell;
use super::joins::Joins;
use crate::pattern::Pattern;
use crate::plan::{PlanCache, RecordFault};
use crate::record::{Ends, Record};
use crate::run::dispatch::{matches_one, why_spent};
use crate::run::input::Input;
use crate::run::output::Output;
use crate::run::position::Position;
use crate::run::replicas::REPLICAS_MAX;
use crate::shape::ShapeId;

/// A star of a synchrocell, `[|P₁, …|] * E`, as one task: it has the effect of the chain of replicas without
/// the chain.
///
/// A record that does not leave fills the first cell, in the order of replicas, in which a pattern that it
/// matches is empty. So each pattern is filled in a prefix of the cells, and complete cells are a prefix,
/// which is removed.
pub(crate) struct CellStar {
    position: Position,
    patterns: Vec<Pattern>,
    exits: Vec<Pattern>,
    /// The cells that are not complete.
    cells: VecDeque<Cell>,
    /// A completed cell that is kept for reuse.
    spare: Option<Cell>,
    /// By pattern, the number of cells in which it is filled.
    filled: Vec<usize>,
    /// The way of the records of each shape; `None` if guards decide the way.
    ways: PlanCache<Option<Way>>,
    /// The patterns that the current record matched, if they were evaluated, and those that it fills.
    found: Vec<Result<bool, RecordFault>>,
    fills: Vec<usize>,
    joins: Joins,
    /// The shapes of two records that fill a cell, if no cell waits, in such a way that the record joined last
    /// was their joined record, and left. Guards do not matter for records of these shapes.
    couple: Option<[ShapeId; 2]>,
    input: Input,
    output: Output,
}

impl CellStar {
    pub(crate) fn new(
        position: Position,
        patterns: Vec<Pattern>,
        exits: Vec<Pattern>,
        input: In<Record>,
        out: Out<Record>,
    ) -> CellStar {
        CellStar {
            position,
            filled: vec![0; patterns.len()],
            found: Vec::new(),
            fills: Vec::new(),
            ways: PlanCache::new(),
            patterns,
            exits,
            cells: VecDeque::new(),
            spare: None,
            joins: Joins::default(),
            couple: None,
            input: Input::new(input),
            output: Output::new(out),
        }
    }

    fn take(&mut self, cx: &mut Context<'_>, mut record: Record) {
        let ends = record.ends();
        if record.shape() == ShapeId::MARK {
            self.output.send(cx, record);
            return;
        }
        loop {
            match self.step(record) {
                Ok(Step::Leaves(record)) => {
                    self.output.send(cx, record);
                    return;
                }
                Ok(Step::Waits) => return self.output.end(cx, ends),
                Ok(Step::Joined(whole)) => {
                    record = whole;
                    record.set_ends(ends);
                }
                Err((record, reason)) => {
                    self.position.fail(cx, self.input.message(), record, reason);
                    return self.output.end(cx, ends);
                }
            }
        }
    }

    /// Processes a record at an exit, and in the replicas after it until a cell keeps it.
    fn step(&mut self, mut record: Record) -> Result<Step, (Record, String)> {
        let shape = record.shape();
        self.found.clear();
        self.fills.clear();
        match self.ways.get(shape, || Way::new(&self.exits, &self.patterns, shape)) {
            Some(Way::Leaves) => return Ok(Step::Leaves(record)),
            Some(Way::Fills(patterns)) => self.fills.extend_from_slice(patterns),
            None => match matches_one(&mut self.exits, &record) {
                Ok(true) => return Ok(Step::Leaves(record)),
                Ok(false) => self.ask(&record),
                Err(reason) => return Err((record, reason)),
            },
        }
        let at = self.fills.iter().map(|&pattern| self.filled[pattern]).min();
        let Some(at) = at.filter(|&at| at < REPLICAS_MAX) else {
            return Err((record, format!("a star has at most {REPLICAS_MAX} replicas")));
        };
        self.fills.retain(|&pattern| self.filled[pattern] == at);
        let found = self.fills.iter().filter_map(|&pattern| self.found.get(pattern));
        if let Some(fault) = found.filter_map(|found| found.as_ref().err()).next() {
            return Err((record, fault.to_string()));
        }
        if at == self.cells.len() {
            let cell = self.spare.take().unwrap_or_else(|| Cell::new(self.patterns.len()));
            self.cells.push_back(cell);
        }
        record.set_ends(Ends::NOTHING);
        self.cells[at].fill(self.fills.iter().copied(), record, self.input.message());
        self.fills.iter().for_each(|&pattern| self.filled[pattern] += 1);
        if !self.cells[at].is_complete() {
            return Ok(Step::Waits);
        }
        // The first cell is complete: only complete cells are before it.
        self.filled.iter_mut().for_each(|filled| *filled -= 1);
        let mut cell = self.cells.pop_front().expect("it is complete");
        let shapes = cell.shapes_of_two().filter(|_| self.cells.is_empty());
        let whole = cell.join(&self.patterns, &mut self.joins);
        self.spare = Some(cell);
        self.couple = shapes.filter(|[first, second]| {
            matches!(self.way(*first), Some(Way::Fills(_)))
                && matches!(self.way(*second), Some(Way::Fills(_)))
                && matches!(self.way(whole.shape()), Some(Way::Leaves))
        });
        Ok(Step::Joined(whole))
    }

    /// The way of all records of a shape; `None` if guards decide.
    #[inline]
    fn way(&mut self, shape: ShapeId) -> Option<&Way> {
        self.ways.get(shape, || Way::new(&self.exits, &self.patterns, shape)).as_ref()
    }

    /// Joins the next two records and sends the joined record, if no cell waits and the two have the shapes of
    /// the records that were joined last. Returns whether it did: records that come in such pairs are never
    /// put into a cell.
    #[inline]
    fn take_couple(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(shapes) = self.couple.filter(|_| self.cells.is_empty()) else { return false };
        let ([first, second], _) = self.input.upcoming(cx, 2) else { return false };
        if [first.shape(), second.shape()] != shapes
            || first.ends() != Ends::NOTHING
            || second.ends() != Ends::NOTHING
        {
            return false;
        }
        let (Some(first), Some(second)) = (self.input.next(cx), self.input.next(cx)) else { return false };
        if let Some(whole) = self.joins.join_two(first, second) {
            self.output.send(cx, whole);
        }
        true
    }

    /// Evaluates each pattern for a record. A guard without a value is a fault in the first cell that still
    /// evaluates it.
    fn ask(&mut self, record: &Record) {
        self.found.extend(self.patterns.iter_mut().map(|pattern| pattern.matches(record)));
        let matched = self.found.iter().enumerate().filter(|(_, found)| **found != Ok(false));
        self.fills.extend(matched.map(|(pattern, _)| pattern));
    }
}

/// Where a star sends the records of a shape.
#[derive(Debug)]
enum Way {
    Leaves,
    /// The records enter a synchrocell, in which they may fill these patterns.
    Fills(Box<[usize]>),
}

impl Way {
    /// The way of all records of a shape; `None` if a guard decides.
    fn new(exits: &[Pattern], patterns: &[Pattern], shape: ShapeId) -> Option<Way> {
        for exit in exits {
            if exit.matches_shape(shape)? {
                return Some(Way::Leaves);
            }
        }
        let matched: Option<Vec<bool>> =
            patterns.iter().map(|pattern| pattern.matches_shape(shape)).collect();
        let matched = matched?.into_iter().enumerate().filter(|(_, matches)| *matches);
        Some(Way::Fills(matched.map(|(pattern, _)| pattern).collect()))
    }
}

enum Step {
    Leaves(Record),
    Waits,
    Joined(Record),
}

impl Task for CellStar {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 {
            if left >= 2 && self.take_couple(cx) {
                left -= 2;
            } else {
                let Some(record) = self.input.next(cx) else { break };
                self.take(cx, record);
                left -= 1;
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        self.input.upcoming(cx, 0);
        match self.input.none_sent() {
            Ok(_) => Stop::QuantumSpent,
            Err(Stop::Ended) => {
                for cell in std::mem::take(&mut self.cells) {
                    cell.report(cx, &self.patterns, &self.position);
                }
                Stop::Ended
            }
            Err(stop) if left == 0 => why_spent(cx, stop),
            Err(stop) => stop,
        }
    }
}

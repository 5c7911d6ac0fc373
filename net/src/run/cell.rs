//! Synchrocells `[|P₁, …, Pₙ|]`: one-shot. A spent cell hands its input to whoever reads its output, and is gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_exec::{Context, In, Out, Ports, Progress, Stop, Task};

use super::failure::{Message, Position};
use super::input::{Input, send};
use super::output::Output;
use super::pipe::{Pipe, Work};
use super::star::matches_one;
use super::unfold::REPLICAS_MAX;
use crate::label::Label;
use crate::pattern::Pattern;
use crate::plan::{PlanCache, Rearrangement, RecordFault, Source};
use crate::record::{Ends, Record};
use crate::shape::ShapeId;

/// What a cell holds: the records that fill its patterns.
#[derive(Debug)]
pub(crate) struct Cell {
    records: Vec<(Record, Message)>,
    /// Which of the records fills each pattern.
    filled: Vec<Option<usize>>,
}

impl Cell {
    pub(crate) fn new(patterns: usize) -> Cell {
        Cell { records: Vec::new(), filled: vec![None; patterns] }
    }

    pub(crate) fn is_filled(&self, pattern: usize) -> bool {
        self.filled[pattern].is_some()
    }

    /// Lets a record fill some of the empty patterns.
    pub(crate) fn fill(&mut self, patterns: impl Iterator<Item = usize>, record: Record, message: Message) {
        patterns.for_each(|pattern| self.filled[pattern] = Some(self.records.len()));
        self.records.push((record, message));
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.filled.iter().all(Option::is_some)
    }

    /// The first record as a whole, with the pattern labels of the others that it has not. The cell is empty then.
    pub(crate) fn join(&mut self, patterns: &[Pattern], joins: &mut Joins) -> Record {
        let whole = joins.join(&self.filled, patterns, &mut self.records);
        self.records.clear();
        self.filled.fill(None);
        whole
    }

    /// Tells of the records that wait for others that never came.
    pub(crate) fn report(self, cx: &mut Context<'_>, patterns: &[Pattern], position: &Position) {
        let empty = self.filled.iter().zip(patterns).filter(|(filled, _)| filled.is_none());
        let missing: Vec<String> = empty.map(|(_, pattern)| shown(pattern.labels())).collect();
        for (record, message) in self.records {
            let reason = format!("the synchrocell still waits for {} at the end", missing.join(" and "));
            position.release(cx, message, record, reason);
        }
    }
}

fn shown(labels: &[Label]) -> String {
    let names: Vec<String> = labels.iter().map(Label::to_string).collect();
    format!("{{{}}}", names.join(", "))
}

/// How the records of a full cell become one: worked out once for the shapes that came last.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    /// The shapes of the records, and which of them fills each pattern.
    shapes: Vec<ShapeId>,
    filled: Vec<Option<usize>>,
    plan: Option<Join>,
}

#[derive(Debug)]
struct Join {
    rearrangement: Rearrangement,
    /// Which record is the whole one; the last takes its place when it is taken out.
    whole: usize,
    /// Where each given value then comes from: record, slot.
    given: Vec<(usize, usize)>,
}

impl Joins {
    fn join(
        &mut self,
        filled: &[Option<usize>],
        patterns: &[Pattern],
        records: &mut Vec<(Record, Message)>,
    ) -> Record {
        let shapes = records.iter().map(|(record, _)| record.shape());
        let plan = match &self.plan {
            Some(plan) if self.filled == filled && self.shapes.iter().copied().eq(shapes.clone()) => plan,
            _ => {
                let shapes: Vec<ShapeId> = shapes.collect();
                let plan = Join::new(&shapes, filled, patterns);
                (self.shapes, self.filled) = (shapes, filled.to_vec());
                self.plan.insert(plan)
            }
        };
        let (whole, _) = records.swap_remove(plan.whole);
        plan.rearrangement.reuse(whole, |n| {
            let (record, slot) = plan.given[n];
            records[record].0.take(slot)
        })
    }
}

impl Join {
    fn new(shapes: &[ShapeId], filled: &[Option<usize>], patterns: &[Pattern]) -> Join {
        let filled: Vec<usize> = filled.iter().flatten().copied().collect();
        let whole = filled[0];
        let mut given = Vec::new();
        let labels = shapes[whole].labels().iter().enumerate();
        let mut explicit: Vec<(Label, Source)> =
            labels.map(|(slot, &label)| (label, Source::Input(slot))).collect();
        for (&record, pattern) in filled.iter().zip(patterns).filter(|(record, _)| **record != whole) {
            for &label in pattern.labels() {
                if explicit.iter().all(|(known, _)| *known != label)
                    && let Some(slot) = shapes[record].slot(label)
                {
                    explicit.push((label, Source::Given(given.len())));
                    given.push((if record == shapes.len() - 1 { whole } else { record }, slot));
                }
            }
        }
        Join { rearrangement: Rearrangement::new(shapes[whole], &[], explicit), whole, given }
    }
}

/// A synchrocell with its input and output.
pub(crate) struct CellTask {
    /// None when the cell is spent and has handed its input over.
    pipe: Option<Pipe>,
    work: Filling,
    /// Its output from then on, until all that was sent has gone.
    output: Option<Output>,
}

/// What a synchrocell does until it is spent.
struct Filling {
    position: Position,
    patterns: Vec<Pattern>,
    /// What the cell's replicas worked out.
    joins: Arc<Mutex<Joins>>,
    /// None when it is spent, or its input has ended.
    cell: Option<Cell>,
    is_spent: bool,
}

impl CellTask {
    pub(crate) fn new(
        position: Position,
        patterns: Vec<Pattern>,
        joins: Arc<Mutex<Joins>>,
        input: In<Record>,
        out: Out<Record>,
    ) -> CellTask {
        let cell = Some(Cell::new(patterns.len()));
        let work = Filling { position, patterns, joins, cell, is_spent: false };
        CellTask { pipe: Some(Pipe::new(input, out)), work, output: None }
    }
}

impl Filling {
    /// The empty patterns that a record matches.
    fn fills(&mut self, record: &Record) -> Result<Vec<usize>, RecordFault> {
        let mut fills = Vec::new();
        let Some(cell) = &self.cell else { return Ok(fills) };
        for (at, pattern) in self.patterns.iter_mut().enumerate() {
            if !cell.is_filled(at) && pattern.matches(record)? {
                fills.push(at);
            }
        }
        Ok(fills)
    }
}

impl Work for Filling {
    fn pass(&mut self, records: &mut [Record], _: Progress<'_>) -> usize {
        let passes = |record: &&Record| {
            !record.shape().is_reserved() && self.fills(record).is_ok_and(|fills| fills.is_empty())
        };
        records.iter().take_while(passes).count()
    }

    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, mut record: Record) -> bool {
        if record.shape() == ShapeId::MARK {
            pipe.output.send(cx, record);
            return true;
        }
        let fills = match self.fills(&record) {
            Ok(fills) => fills,
            Err(fault) => {
                self.position.fail_in(cx, pipe, record, fault.to_string());
                return true;
            }
        };
        if fills.is_empty() {
            pipe.output.send(cx, record);
            return true;
        }
        let Some(mut cell) = self.cell.take() else { return false };
        let ends = record.ends();
        record.set_ends(Ends::NOTHING);
        cell.fill(fills.into_iter(), record, pipe.message());
        self.is_spent = cell.is_complete();
        if self.is_spent {
            // A panic under the lock leaves the plan before, with its shapes.
            let mut joins = self.joins.lock().unwrap_or_else(PoisonError::into_inner);
            let mut whole = cell.join(&self.patterns, &mut joins);
            drop(joins);
            whole.set_ends(ends);
            pipe.output.send(cx, whole);
        } else {
            self.cell = Some(cell);
            pipe.output.end(cx, ends);
        }
        !self.is_spent
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        if let Some(cell) = self.cell.take() {
            cell.report(cx, &self.patterns, &self.position);
        }
    }
}

impl Task for CellTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.pipe.iter_mut().for_each(|pipe| pipe.attach(ports));
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(pipe) = &mut self.pipe {
            let stop = pipe.run(cx, &mut self.work);
            if !self.work.is_spent {
                return stop;
            }
        }
        if let Some(Pipe { input, mut output }) = self.pipe.take() {
            output.send(cx, send(input));
            self.output = Some(output);
        }
        let is_flushed = self.output.as_mut().is_none_or(|output| output.flush(cx));
        if is_flushed { Stop::Ended } else { Stop::OutputFull }
    }
}
/// A star of a synchrocell, `[|P₁, …|] * E`, as one task: what the chain of its replicas does, without the chain.
///
/// A record that does not leave fills the first cell, in the order of replicas, in which a pattern that it matches is
/// empty. So each pattern is filled in a prefix of the cells, and complete cells are a prefix, which is forgotten.
pub(crate) struct CellStar {
    position: Position,
    patterns: Vec<Pattern>,
    exits: Vec<Pattern>,
    /// The cells that are not complete.
    cells: VecDeque<Cell>,
    /// One that was, to be used again.
    spare: Option<Cell>,
    /// By pattern, in how many of the cells it is filled.
    filled: Vec<usize>,
    /// The ways of records whose shape says theirs; `None` where guards do.
    ways: PlanCache<Option<Way>>,
    /// Which patterns the record before matched, if that was asked; and which it fills.
    found: Vec<Result<bool, RecordFault>>,
    fills: Vec<usize>,
    joins: Joins,
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

    /// At an exit, and in the replicas behind it until a cell takes the record.
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
        // The first: before it are complete cells only.
        self.filled.iter_mut().for_each(|filled| *filled -= 1);
        let mut cell = self.cells.pop_front().expect("it is complete");
        let whole = cell.join(&self.patterns, &mut self.joins);
        self.spare = Some(cell);
        Ok(Step::Joined(whole))
    }

    /// Asks each pattern whether a record matches. A guard without a value counts in the first cell that still asks it.
    fn ask(&mut self, record: &Record) {
        self.found.extend(self.patterns.iter_mut().map(|pattern| pattern.matches(record)));
        let matched = self.found.iter().enumerate().filter(|(_, found)| **found != Ok(false));
        self.fills.extend(matched.map(|(pattern, _)| pattern));
    }
}

/// Where records of a shape go.
#[derive(Debug)]
enum Way {
    Leaves,
    /// To a cell, of which they may fill these patterns.
    Fills(Box<[usize]>),
}

impl Way {
    /// The way of all records of a shape; `None`: a guard says which.
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
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.next(cx) else {
                if !self.input.ended() {
                    return Stop::InputEmpty;
                }
                for cell in std::mem::take(&mut self.cells) {
                    cell.report(cx, &self.patterns, &self.position);
                }
                return Stop::Ended;
            };
            self.take(cx, record);
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

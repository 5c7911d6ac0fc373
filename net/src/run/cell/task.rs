//! The task of a single synchrocell, which joins once. A spent cell sends its input to the reader of its
//! output, and ends.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_exec::{Context, In, Out, Ports, Progress, Stop, Task};

use super::held::Cell;
use super::joins::Joins;
use crate::pattern::Pattern;
use crate::plan::RecordFault;
use crate::record::{Ends, Record};
use crate::run::input::send;
use crate::run::output::Output;
use crate::run::pipe::{Pipe, Work};
use crate::run::position::Position;
use crate::shape::ShapeId;

/// A synchrocell with its input and output.
pub(crate) struct CellTask {
    /// The cell's input and output; `None` when the cell is spent and has handed its input over.
    pipe: Option<Pipe>,
    work: Filling,
    /// The output of a spent cell, until all waiting messages are sent.
    output: Option<Output>,
}

/// The work of a synchrocell until it is spent.
struct Filling {
    position: Position,
    patterns: Vec<Pattern>,
    /// The plans that all replicas of the cell share.
    joins: Arc<Mutex<Joins>>,
    /// The cell; `None` when the cell is spent, or its input has ended.
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
            // If a thread panicked under the lock, the former plan and its shapes are still consistent.
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

    #[inline]
    fn fuses(&self) -> bool {
        self.position.shared.limits.fuses()
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
        if let Some(Pipe { input, mut output, .. }) = self.pipe.take() {
            output.send(cx, send(input));
            self.output = Some(output);
        }
        let is_flushed = self.output.as_mut().is_none_or(|output| output.flush(cx));
        if is_flushed { Stop::Ended } else { Stop::OutputFull }
    }
}

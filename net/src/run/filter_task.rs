//! The task of a filter.

use thalweg_exec::{Context, HandedOn, In, Out, PassesTo, Ports, Progress, Stop, Task};

use super::pipe::{Pipe, Work};
use super::position::Position;
use crate::filter::Filter;
use crate::record::Record;
use crate::shape::ShapeId;

/// A filter with its input and output.
pub(crate) struct FilterTask {
    pipe: Pipe,
    work: Filtering,
}

struct Filtering {
    position: Position,
    filter: Filter,
}

impl FilterTask {
    pub(crate) fn new(position: Position, filter: Filter, input: In<Record>, out: Out<Record>) -> FilterTask {
        FilterTask { pipe: Pipe::new(input, out), work: Filtering { position, filter } }
    }
}

impl Work for Filtering {
    fn pass(&mut self, records: &mut [Record], _: Progress<'_>) -> usize {
        self.filter.pass(records)
    }

    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record) -> bool {
        if record.shape() == ShapeId::MARK {
            pipe.output.send(cx, record);
            return true;
        }
        let output = &mut pipe.output;
        let applied = self.filter.apply(record, &mut |record| {
            output.send(cx, record);
        });
        if let Err((record, fault)) = applied {
            self.position.fail_in(cx, pipe, record, fault.to_string());
        }
        true
    }

    #[inline]
    fn fuses(&self) -> bool {
        self.position.shared.limits.fuses()
    }
}

impl Task for FilterTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.pipe.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        self.pipe.run(cx, &mut self.work)
    }

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        self.pipe.passes_to(&self.work)
    }

    fn work_on(&mut self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        self.pipe.work_on(&mut self.work, messages, progress)
    }
}

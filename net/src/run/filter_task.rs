//! A filter as a task.

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::failure::Position;
use super::input::Input;
use super::output::Output;
use crate::filter::Filter;
use crate::record::Record;
use crate::shape::ShapeId;

/// A filter with its input and output.
pub(crate) struct FilterTask {
    position: Position,
    filter: Filter,
    input: Input,
    output: Output,
}

impl FilterTask {
    pub(crate) fn new(position: Position, filter: Filter, input: In<Record>, out: Out<Record>) -> FilterTask {
        FilterTask { position, filter, input: Input::new(input), output: Output::new(out) }
    }
}

impl Task for FilterTask {
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
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            let output = &mut self.output;
            if record.shape() == ShapeId::MARK {
                output.send(cx, record);
            } else if let Err((record, fault)) = self.filter.apply(record, &mut |record| {
                output.send(cx, record);
            }) {
                let ends = record.ends();
                self.position.fail(cx, self.input.message(), record, fault.to_string());
                self.output.end(cx, ends);
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

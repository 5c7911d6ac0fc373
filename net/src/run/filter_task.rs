//! A filter as a task.

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::failure::{Message, Position};
use super::output::Output;
use crate::filter::Filter;
use crate::record::Record;

/// A filter with its input and output.
pub(crate) struct FilterTask {
    position: Position,
    filter: Filter,
    input: In<Record>,
    read: u64,
    output: Output,
}

impl FilterTask {
    pub(crate) fn new(position: Position, filter: Filter, input: In<Record>, out: Out<Record>) -> FilterTask {
        FilterTask { position, filter, input, read: 0, output: Output::new(out) }
    }
}

impl Task for FilterTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        self.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.output.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.pop(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.read += 1;
            let output = &mut self.output;
            if let Err((record, fault)) = self.filter.apply(record, &mut |record| {
                output.send(cx, record);
            }) {
                let message = Message { stream: self.input.id(), index: self.read - 1 };
                self.position.fail(cx, message, record, fault.to_string());
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

//! Collectors: many streams into one, in the order in which records come.
//!
//! A replica's output comes to its collector as a message in a stream that it reads already: so no replica can be missed,
//! whatever ends first.

use thalweg_exec::{Context, In, Inputs, Out, Ports, Stop, Task};

use super::input::sent;
use super::output::push;
use crate::record::Record;
use crate::shape::ShapeId;

/// How many records it takes from one input before it looks at the next.
const TURN: usize = 16;

/// Joins the outputs of branches or replicas.
pub(crate) struct Collector {
    inputs: Inputs<Record>,
    out: Out<Record>,
    /// A record that did not fit into the output.
    waiting: Option<Record>,
}

impl Collector {
    pub(crate) fn new(inputs: impl IntoIterator<Item = In<Record>>, out: Out<Record>) -> Collector {
        let mut all = Inputs::new();
        for input in inputs {
            all.add(input);
        }
        Collector { inputs: all, out, waiting: None }
    }

    /// Writes a record, or takes in the input that it hands over; whether there was room.
    #[inline]
    fn take(&mut self, cx: &mut Context<'_>, record: Record) -> bool {
        if record.shape() == ShapeId::MESSAGE {
            self.add_sent(cx, &record);
            return true;
        }
        match push(&mut self.out, cx, record) {
            Ok(()) => true,
            Err(record) => {
                self.waiting = Some(record);
                false
            }
        }
    }

    #[cold]
    fn add_sent(&mut self, cx: &mut Context<'_>, message: &Record) {
        if let Some(input) = sent(message) {
            self.inputs.add_running(cx, input.into());
        }
    }
}

impl Task for Collector {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.inputs(&mut self.inputs);
        ports.output(&mut self.out);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if let Some(record) = self.waiting.take()
            && !self.take(cx, record)
        {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 {
            let Some(index) = self.inputs.next_index(cx) else {
                return if self.inputs.is_empty() { Stop::Ended } else { Stop::InputEmpty };
            };
            for _ in 0..left.min(TURN) {
                let Some(input) = self.inputs.get_mut(index) else { break };
                let Some(record) = input.pop(cx) else {
                    if input.ended() {
                        drop(self.inputs.remove(cx, index));
                    }
                    break;
                };
                left -= 1;
                if !self.take(cx, record) {
                    return Stop::OutputFull;
                }
            }
        }
        Stop::QuantumSpent
    }
}

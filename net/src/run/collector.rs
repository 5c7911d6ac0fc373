//! Collectors: many streams into one, in the order in which records come.
//!
//! A replica's output comes to its collector as a message in a stream that it reads already: so no replica can be missed,
//! whatever ends first.

use thalweg_exec::{Context, In, Inputs, Out, Ports, Stop, Task};

use super::input::sent;
use crate::record::Record;
use crate::shape::ShapeId;

/// How many records it takes from one input before it looks at the next.
const TURN: usize = 64;

/// Joins the outputs of branches or replicas.
pub(crate) struct Collector {
    inputs: Inputs<Record>,
    out: Out<Record>,
}

impl Collector {
    pub(crate) fn new(inputs: impl IntoIterator<Item = In<Record>>, out: Out<Record>) -> Collector {
        let mut all = Inputs::new();
        for input in inputs {
            all.add(input);
        }
        Collector { inputs: all, out }
    }

    /// Passes on records of one input, at most `left`, or takes in the input that it hands over; how many messages those
    /// are. `Err`: there is no room.
    #[inline]
    fn take(&mut self, cx: &mut Context<'_>, index: usize, left: usize) -> Result<usize, Stop> {
        let Some(input) = self.inputs.get_mut(index) else { return Ok(0) };
        let records = input.upcoming(cx, left);
        let is_message = |record: &Record| record.shape() == ShapeId::MESSAGE;
        match records.iter().position(is_message).unwrap_or(records.len()) {
            0 => match input.pop(cx) {
                Some(message) => {
                    self.add_sent(cx, &message);
                    Ok(1)
                }
                None => {
                    if input.ended() {
                        drop(self.inputs.remove(cx, index));
                    }
                    Ok(0)
                }
            },
            count => match input.transfer(cx, count, &mut self.out) {
                0 => Err(Stop::OutputFull),
                moved => Ok(moved),
            },
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
        let mut left = cx.quantum();
        while left > 0 {
            let Some(index) = self.inputs.next_index(cx) else {
                return if self.inputs.is_empty() { Stop::Ended } else { Stop::InputEmpty };
            };
            match self.take(cx, index, left.min(TURN)) {
                Ok(taken) => left -= taken,
                Err(stop) => return stop,
            }
        }
        Stop::QuantumSpent
    }
}

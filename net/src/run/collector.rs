//! Collectors: many streams into one, in the order in which records come.

use std::sync::{Mutex, OnceLock, PoisonError};

use thalweg_box::{Opaque, Value};
use thalweg_exec::{Context, In, Inputs, Out, Ports, Stop, Task};

use super::output::push;
use crate::label::Label;
use crate::record::Record;
use crate::shape::{self, ShapeId};

/// How many records it takes from one input before it looks at the next.
const TURN: usize = 16;

/// Joins the outputs of branches or replicas.
pub(crate) struct Collector {
    inputs: Inputs<Record>,
    out: Out<Record>,
    /// A record that did not fit into the output.
    waiting: Option<Record>,
    /// The input that it came from, if replicas announce themselves: see [`announce`].
    announced: ShapeId,
}

impl Collector {
    pub(crate) fn new(inputs: impl IntoIterator<Item = In<Record>>, out: Out<Record>) -> Collector {
        let mut all = Inputs::new();
        for input in inputs {
            all.add(input);
        }
        Collector { inputs: all, out, waiting: None, announced: announcement_shape() }
    }

    /// Writes a record, or takes in the input that it announces; whether there was room.
    #[inline]
    fn take(&mut self, cx: &mut Context<'_>, record: Record) -> bool {
        if record.shape() == self.announced {
            self.add_announced(cx, &record);
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
    fn add_announced(&mut self, cx: &mut Context<'_>, record: &Record) {
        if let Some(Value::Opaque(opaque)) = record.slots().first()
            && let Some(announced) = opaque.get::<Announced>()
            && let Some(input) = announced.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            self.inputs.add_running(cx, input);
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

/// A replica's output, on its way to the collector.
type Announced = Mutex<Option<In<Record>>>;

/// A record that tells a collector, in the stream it reads already, of a further stream to read: so no replica
/// can be missed, whatever ends first. Its one label cannot be written in any program or file.
pub(crate) fn announce(input: In<Record>) -> Record {
    let mut record = Record::with_shape(announcement_shape());
    record.slots_mut()[0] = Value::Opaque(Opaque::new::<Announced>(Mutex::new(Some(input))));
    record
}

fn announcement_shape() -> ShapeId {
    static SHAPE: OnceLock<ShapeId> = OnceLock::new();
    *SHAPE.get_or_init(|| shape::of(&[Label::field("(a further input)")]))
}

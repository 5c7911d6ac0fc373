//! The two ends of a net with a declared signature, as tasks.

use std::sync::Arc;

use thalweg_box::Value;
use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::failure::{Message, Position};
use super::output::Output;
use crate::plan::{PlanCache, Rearrangement, RecordFault};
use crate::record::Record;
use crate::shield::Shield;

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Entry,
    Exit,
}

/// One end of a shielded net: record in, the same record under other labels out.
pub(crate) struct ShieldTask {
    position: Position,
    shield: Arc<Shield>,
    end: End,
    plans: PlanCache<Result<Rearrangement, RecordFault>>,
    input: In<Record>,
    read: u64,
    output: Output,
}

impl ShieldTask {
    pub(crate) fn new(
        position: Position,
        shield: Arc<Shield>,
        end: End,
        input: In<Record>,
        out: Out<Record>,
    ) -> Self {
        let (plans, output) = (PlanCache::new(), Output::new(out));
        ShieldTask { position, shield, end, plans, input, read: 0, output }
    }
}

impl Task for ShieldTask {
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
            let (shape, shield, end) = (record.shape(), &self.shield, self.end);
            let plan = self.plans.get(shape, || match end {
                End::Entry => shield.enter(shape),
                End::Exit => Ok(shield.leave(shape)),
            });
            match plan {
                Ok(plan) => {
                    self.output.send(cx, plan.reuse(record, |_| Value::default()));
                }
                Err(fault) => {
                    let message = Message { stream: self.input.id(), index: self.read - 1 };
                    self.position.fail(cx, message, record, fault.to_string());
                }
            }
            if self.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

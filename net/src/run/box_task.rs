//! A box as a task: one call per record.

use std::sync::Arc;

use thalweg_box::{Emitted, Generator, Value};
use thalweg_exec::{Blocking, Context, In, Out, Ports, Stop, Task};

use super::component::BoxPart;
use super::failure::{Message, Position};
use super::output::Output;
use super::plan::BoxPlan;
use crate::plan::{PlanCache, RecordFault};
use crate::record::Record;
use crate::shape;

/// A box with its input and output.
pub(crate) struct BoxTask {
    input: In<Record>,
    read: u64,
    caller: Caller,
    /// What is left of the last record's output.
    generating: Option<Generating>,
}

/// A generator, with the record it descends from.
struct Generating {
    generator: Generator,
    source: Record,
    plan: Arc<BoxPlan>,
}

/// What a call needs.
struct Caller {
    position: Position,
    part: Arc<BoxPart>,
    plans: PlanCache<Result<Arc<BoxPlan>, RecordFault>>,
    output: Output,
    arguments: Box<[Value]>,
    /// Where the box puts the record it emits.
    slots: Box<[Value]>,
}

impl BoxTask {
    pub(crate) fn new(
        position: Position,
        part: Arc<BoxPart>,
        input: In<Record>,
        out: Out<Record>,
    ) -> BoxTask {
        let values = |length| vec![Value::default(); length].into_boxed_slice();
        let caller = Caller {
            position,
            plans: PlanCache::new(),
            output: Output::new(out),
            arguments: values(part.input.as_ref().map_or(0, Vec::len)),
            slots: values(part.output_length_max()),
            part,
        };
        BoxTask { input, read: 0, caller, generating: None }
    }

    /// Runs the box on a thread of its own until its input ends.
    pub(crate) fn run_blocking(mut self, blocking: &mut Blocking) {
        while let Some(record) = blocking.pop(&mut self.input) {
            self.read += 1;
            let message = self.message();
            self.generating = self.caller.call(blocking.context(), message, record);
            loop {
                while let Some(record) = self.caller.output.take_waiting() {
                    if blocking.push(&mut self.caller.output.out, record).is_err() {
                        return;
                    }
                }
                if self.generating.is_none() {
                    break;
                }
                self.poll_generator(blocking.context(), usize::MAX);
            }
        }
    }

    /// The message read last.
    fn message(&self) -> Message {
        Message { stream: self.input.id(), index: self.read - 1 }
    }

    /// Polls the generator until it ends, the output is full, or it gave `limit` records; returns how many.
    fn poll_generator(&mut self, cx: &mut Context<'_>, limit: usize) -> usize {
        let message = self.message();
        let mut polled = 0;
        while let Some(generating) = &mut self.generating {
            if polled == limit || self.caller.output.is_full() {
                break;
            }
            polled += 1;
            if !self.caller.poll(cx, message, generating) {
                self.generating = None;
            }
        }
        polled
    }
}

impl Task for BoxTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        self.caller.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.caller.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 {
            if self.generating.is_some() {
                left -= self.poll_generator(cx, left);
            } else {
                let Some(record) = self.input.pop(cx) else {
                    return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
                };
                left -= 1;
                self.read += 1;
                let message = self.message();
                self.generating = self.caller.call(cx, message, record);
            }
            if self.caller.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

impl Caller {
    /// Calls the box with a record. What it emits goes to the output; what it keeps generating is returned.
    #[inline]
    fn call(&mut self, cx: &mut Context<'_>, message: Message, mut record: Record) -> Option<Generating> {
        let shape = record.shape();
        let plan = match self.plans.get(shape, || BoxPlan::new(&self.part, shape)) {
            Ok(plan) => plan,
            Err(fault) => {
                let reason = fault.to_string();
                self.position.fail(cx, message, record, reason);
                return None;
            }
        };
        plan.take_arguments(&mut record, &mut self.arguments);
        let mut source = Some(record);
        let mut fault = None;
        let output = &mut self.output;
        let mut host = |emitted: Emitted<'_>| {
            let last = emitted.last;
            let built = match (last, &mut source) {
                (true, source @ Some(_)) => plan.build_last(emitted, source.take().expect("it is some")),
                (_, Some(source)) => plan.build(emitted, source),
                (_, None) => Err("the box emitted after its last record".to_owned()),
            };
            match built {
                Ok(record) => output.send(cx, record),
                Err(reason) => fault = Some(reason),
            }
        };
        let outcome = self.part.entry().call(&mut self.arguments, &mut self.slots, &mut host);
        let (generator, failure) = match outcome {
            Ok(generator) => (generator, fault),
            Err(reason) => (None, Some(reason)),
        };
        if let Some(reason) = failure {
            let source = source.unwrap_or_else(|| Record::with_shape(shape::of(&[])));
            self.position.fail(cx, message, source, reason);
            return None;
        }
        Some(Generating { generator: generator?, source: source?, plan: plan.clone() })
    }

    /// Polls a generator once; whether there is more.
    fn poll(&mut self, cx: &mut Context<'_>, message: Message, generating: &mut Generating) -> bool {
        let Generating { generator, source, plan } = generating;
        let mut fault = None;
        let output = &mut self.output;
        let mut host = |emitted: Emitted<'_>| match plan.build(emitted, source) {
            Ok(record) => output.send(cx, record),
            Err(reason) => fault = Some(reason),
        };
        let outcome = generator.next(&mut self.slots, &mut host);
        let failure = match (outcome, fault) {
            (Ok(more), None) => return more,
            (Err(reason), _) | (Ok(_), Some(reason)) => reason,
        };
        self.position.fail(cx, message, source.clone(), failure);
        false
    }
}

/// An initialiser: a box without input, called once at the start.
pub(crate) struct InitialiserTask {
    task: BoxTask,
    started: bool,
}

impl InitialiserTask {
    pub(crate) fn new(task: BoxTask) -> InitialiserTask {
        InitialiserTask { task, started: false }
    }
}

impl Task for InitialiserTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.task.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let task = &mut self.task;
        if !self.started {
            self.started = true;
            let message = Message { stream: task.input.id(), index: 0 };
            let record = Record::with_shape(shape::of(&[]));
            task.generating = task.caller.call(cx, message, record);
        }
        if !task.caller.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 && task.generating.is_some() {
            task.read = task.read.max(1);
            left -= task.poll_generator(cx, left);
            if task.caller.output.is_full() {
                return Stop::OutputFull;
            }
        }
        while left > 0 {
            let Some(record) = task.input.pop(cx) else {
                return if task.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            left -= 1;
            task.read += 1;
            let message = task.message();
            let reason = "this box only starts a network and takes no records".to_owned();
            task.caller.position.fail(cx, message, record, reason);
        }
        Stop::QuantumSpent
    }
}

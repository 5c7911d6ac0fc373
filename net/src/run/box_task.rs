//! A box as a task: one call per record.

use std::sync::Arc;

use thalweg_box::{Desk, Emitted, Generator, Host, Status, Value};
use thalweg_exec::{Blocking, Context, In, Out, Ports, Stop, Task};

use super::component::BoxPart;
use super::failure::{Message, Position};
use super::input::Input;
use super::output::Output;
use super::plan::BoxPlan;
use crate::plan::{PlanCache, RecordFault};
use crate::record::Record;
use crate::shape::{self, ShapeId};

/// A box with its input and output.
pub(crate) struct BoxTask {
    reader: Reader,
    caller: Caller,
}

/// A box's input, and how far it is read.
struct Reader {
    input: Input,
    /// How many records it may read yet before the caller asks its task.
    left: usize,
}

impl Reader {
    /// Reads the next record, if there is one and it may.
    #[inline(always)]
    fn next(&mut self, cx: &mut Context<'_>) -> Option<Record> {
        if self.left == 0 {
            return None;
        }
        let record = self.input.next(cx)?;
        self.left -= 1;
        Some(record)
    }

    fn message(&self) -> Message {
        self.input.message()
    }
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
    desk: Desk,
    /// What is left of the last record's output.
    generating: Option<Box<Generating>>,
}

impl BoxTask {
    pub(crate) fn new(
        position: Position,
        part: Arc<BoxPart>,
        input: In<Record>,
        out: Out<Record>,
    ) -> BoxTask {
        let caller = Caller {
            position,
            plans: PlanCache::new(),
            output: Output::new(out),
            desk: Desk::new(part.input.as_ref().map_or(0, Vec::len), part.output_length_max()),
            generating: None,
            part,
        };
        BoxTask { reader: Reader { input: Input::new(input), left: 0 }, caller }
    }

    /// Runs the box on a thread of its own until its input ends.
    pub(crate) fn run_blocking(mut self, blocking: &mut Blocking) {
        while let Some(record) = self.reader.input.next_blocking(blocking) {
            self.caller.call(blocking.context(), &mut self.reader, record);
            loop {
                while let Some(record) = self.caller.output.take_waiting() {
                    if blocking.push(&mut self.caller.output.out, record).is_err() {
                        return;
                    }
                }
                if self.caller.generating.is_none() {
                    break;
                }
                self.poll_generator(blocking.context(), usize::MAX);
            }
        }
    }

    /// Polls the generator until it ends, the output is full, or it gave `limit` records; returns how many.
    fn poll_generator(&mut self, cx: &mut Context<'_>, limit: usize) -> usize {
        let message = self.reader.message();
        let mut polled = 0;
        while polled < limit && !self.caller.output.is_full() && self.caller.poll(cx, message) {
            polled += 1;
        }
        polled.max(1)
    }
}

impl Task for BoxTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.reader.input.attach(ports);
        self.caller.output.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.caller.output.flush(cx) {
            return Stop::OutputFull;
        }
        self.reader.left = cx.quantum();
        while self.reader.left > 0 {
            if self.caller.generating.is_some() {
                self.reader.left -= self.poll_generator(cx, self.reader.left);
            } else {
                let Some(record) = self.reader.next(cx) else {
                    return if self.reader.input.ended() { Stop::Ended } else { Stop::InputEmpty };
                };
                self.caller.call(cx, &mut self.reader, record);
            }
            if self.caller.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

impl Caller {
    /// Calls the box with the record read last, and as long as the output has room and nothing generates, with
    /// those that follow. What it emits goes to the output; what it keeps generating is kept.
    #[inline]
    fn call(&mut self, cx: &mut Context<'_>, reader: &mut Reader, record: Record) {
        let mut next = Some(record);
        while let Some(record) = next {
            next = self.call_alike(cx, reader, record);
        }
    }

    /// The same for records of one shape; gives back the first of another one.
    fn call_alike(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut Reader,
        mut record: Record,
    ) -> Option<Record> {
        let shape = record.shape();
        if shape == ShapeId::MARK {
            self.output.send(cx, record);
            return None;
        }
        let plan = match self.plans.get(shape, || BoxPlan::new(&self.part, shape)) {
            Ok(plan) => plan,
            Err(fault) => {
                let reason = fault.to_string();
                self.fail(cx, reader.message(), record, reason);
                return None;
            }
        };
        let Some(place) = plan.in_place() else {
            self.call_apart(cx, reader.message(), record);
            return None;
        };
        let mut early = Early { cx, plan, source: None, output: &mut self.output, fault: None };
        let mut calls = self.desk.in_place(self.part.entry(), place.calls, &mut early);
        let done = loop {
            let done = calls.call(record.slots_mut());
            if !done || calls.generates() || calls.host().fault.is_some() {
                break done;
            }
            let emitted = calls.emitted();
            let Early { cx, output, .. } = calls.host();
            let room = match emitted {
                Some(emitted) => match plan.finish_in_place(place, emitted, &mut record) {
                    Ok(()) => output.send(cx, record),
                    Err(reason) => {
                        let ends = record.ends();
                        self.position.fail(cx, reader.message(), record, reason);
                        output.end(cx, ends);
                        return None;
                    }
                },
                None => output.drop_apart(cx, record),
            };
            if !room {
                return None;
            }
            record = reader.next(cx)?;
            if record.shape() != shape {
                return Some(record);
            }
        };
        let (fault, plan) = (early.fault, plan.clone());
        self.desk.lift(record.slots_mut(), place.calls.first_output);
        self.settle(cx, reader.message(), record, done, fault, plan);
        None
    }

    /// The same for a box whose arguments or output do not simply stand in the record.
    #[inline(never)]
    fn call_apart(&mut self, cx: &mut Context<'_>, message: Message, mut record: Record) {
        let shape = record.shape();
        let Ok(plan) = self.plans.get(shape, || BoxPlan::new(&self.part, shape)) else { return };
        plan.take_arguments(&mut record, self.desk.arguments());
        let source = Some(record.slots());
        let mut early = Early { cx, plan, source, output: &mut self.output, fault: None };
        let done = self.desk.call(self.part.entry(), &mut early);
        if !done || early.fault.is_some() || self.desk.generates() {
            let (fault, plan) = (early.fault, plan.clone());
            return self.settle(cx, message, record, done, fault, plan);
        }
        if let Some(last) = self.desk.emitted() {
            match plan.build_last(last, record) {
                Ok(record) => {
                    self.output.send(cx, record);
                }
                Err((reason, record)) => self.fail(cx, message, record, reason),
            }
        } else {
            self.output.drop_apart(cx, record);
        }
    }

    /// The record leaves the network as an error.
    #[cold]
    fn fail(&mut self, cx: &mut Context<'_>, message: Message, record: Record, reason: String) {
        let ends = record.ends();
        self.position.fail(cx, message, record, reason);
        self.output.end(cx, ends);
    }

    /// After a call that failed, or that goes on with a generator.
    #[cold]
    fn settle(
        &mut self,
        cx: &mut Context<'_>,
        message: Message,
        record: Record,
        done: bool,
        fault: Option<Box<str>>,
        plan: Arc<BoxPlan>,
    ) {
        if !done || fault.is_some() {
            return self.failed(cx, message, record, fault);
        }
        if let Some(generator) = self.desk.generator() {
            self.generate(cx, message, Generating { generator, source: record, plan });
        }
    }

    /// The box failed, or emitted what it does not declare.
    #[cold]
    fn failed(&mut self, cx: &mut Context<'_>, message: Message, record: Record, fault: Option<Box<str>>) {
        let failure = self.desk.failure();
        // What it emitted before it failed goes on.
        let shape = record.shape();
        if fault.is_none()
            && let Some(emitted) = self.desk.emitted()
            && let Ok(plan) = self.plans.get(shape, || BoxPlan::new(&self.part, shape))
            && let Ok(built) = plan.build(emitted, record.slots())
        {
            self.output.send(cx, built);
        }
        self.fail(cx, message, record, fault.map_or(failure, String::from));
    }

    /// Begins to generate, after the record that still lies on the desk.
    #[cold]
    fn generate(&mut self, cx: &mut Context<'_>, message: Message, generating: Generating) {
        if let Some(emitted) = self.desk.emitted() {
            match generating.plan.build(emitted, generating.source.slots()) {
                Ok(record) => {
                    self.output.send(cx, record);
                }
                Err(reason) => return self.fail(cx, message, generating.source, reason),
            }
        }
        self.generating = Some(Box::new(generating));
    }

    /// Polls the generator once; whether there is more.
    fn poll(&mut self, cx: &mut Context<'_>, message: Message) -> bool {
        let Some(generating) = &mut self.generating else { return false };
        let Generating { generator, source, plan } = &mut **generating;
        let source = Some(source.slots());
        let mut host = Early { cx, plan, source, output: &mut self.output, fault: None };
        let status = self.desk.poll(generator, &mut host);
        let fault = host.fault;
        if status == Status::AGAIN && fault.is_none() {
            return true;
        }
        let source = self.generating.take().expect("it was polled").source;
        if status != Status::DONE || fault.is_some() {
            self.failed(cx, message, source, fault);
        } else {
            self.output.end(cx, source.ends());
        }
        false
    }
}

/// Receives what a box emits before its last record.
struct Early<'a, 'b> {
    cx: &'a mut Context<'b>,
    plan: &'a BoxPlan,
    /// The slots of the record it took; during a call in place, what is emitted brings them.
    source: Option<&'a [Value]>,
    output: &'a mut Output,
    /// The box emitted what it does not declare: why it is refused.
    fault: Option<Box<str>>,
}

impl Host for Early<'_, '_> {
    fn emitted(&mut self, emitted: Emitted<'_>) {
        let source = emitted.record.or(self.source).unwrap_or(&[]);
        match self.plan.build(emitted, source) {
            Ok(record) => {
                self.output.send(self.cx, record);
            }
            Err(reason) => self.fault = Some(reason.into()),
        }
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
            let record = Record::with_shape(shape::of(&[]));
            task.caller.call(cx, &mut task.reader, record);
        }
        if !task.caller.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 && task.caller.generating.is_some() {
            left -= task.poll_generator(cx, left);
            if task.caller.output.is_full() {
                return Stop::OutputFull;
            }
        }
        while left > 0 {
            let Some(record) = task.reader.input.next(cx) else {
                return if task.reader.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            left -= 1;
            if record.shape() == ShapeId::MARK {
                task.caller.output.send(cx, record);
            } else {
                let reason = "this box only starts a network and takes no records".to_owned();
                task.caller.fail(cx, task.reader.message(), record, reason);
            }
            if task.caller.output.is_full() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

//! The task of a box: one call per record.

use std::sync::Arc;

use thalweg_box::{Desk, Emitted, Generator, Host, Status, Value};
use thalweg_exec::{Blocking, Context, HandedOn, In, Out, PassesTo, Ports, Progress, Stop, Task};

use super::plan::{Before, BoxPart, BoxPlan};
use super::seat::Seat;
use crate::boxes::EntryOf;
use crate::crash::Calling;
use crate::plan::{PlanCache, RecordFault};
use crate::record::Record;
use crate::run::dispatch::alike;
use crate::run::events::Described;
use crate::run::pipe::{Pipe, Work};
use crate::run::position::Position;
use crate::shape::{self, ShapeId};

/// A box with its input and output.
pub(crate) struct BoxTask {
    pipe: Pipe,
    caller: Caller,
}

/// A generator, with the record from which its output descends.
struct Generating {
    generator: Generator,
    source: Record,
    plan: Arc<BoxPlan>,
    /// The library entry of the box that made the generator; the library stays loaded as long as the entry
    /// exists.
    _origin: Option<EntryOf>,
}

/// The state that a call needs.
struct Caller {
    position: Position,
    part: Arc<BoxPart>,
    seat: Seat,
    plans: PlanCache<Result<Arc<BoxPlan>, RecordFault>>,
    desk: Desk,
    /// The end of the call at which [`Caller::pass`] stopped; `None` if it stopped at a record with which the
    /// box was not called yet.
    called: Option<Called>,
    /// The records that a call emitted before its last one, until they are sent.
    early: Vec<Record>,
    /// The library entry of the box whose generator `desk` holds.
    origin: Option<EntryOf>,
    /// The types of records that were described in events.
    described: Described,
    /// The generator that still has to emit output for the last record.
    generating: Option<Box<Generating>>,
}

/// The end of a call that did not emit exactly one record.
enum Called {
    /// The call emitted no record.
    Nothing,
    /// The call wrote its output into the record, after earlier records; fields: the variant and the number
    /// of values.
    Last(u32, usize),
    /// The call failed, emitted output that the box does not declare, or goes on with a generator; fields:
    /// whether it succeeded, and why its output was refused.
    Unsettled(bool, Option<Box<str>>),
}

impl BoxTask {
    pub(crate) fn new(
        position: Position,
        part: Arc<BoxPart>,
        input: In<Record>,
        out: Out<Record>,
    ) -> BoxTask {
        let mut desk = Desk::new(part.input.as_ref().map_or(0, Vec::len), part.output_length_max());
        desk.keep_exactly(position.shared.limits.exact_failures());
        let caller = Caller {
            position,
            plans: PlanCache::new(),
            desk,
            called: None,
            early: Vec::new(),
            origin: None,
            described: Described::default(),
            generating: None,
            seat: part.implementation.take(),
            part,
        };
        BoxTask { pipe: Pipe::new(input, out), caller }
    }

    /// Runs the box on a thread of its own until its input ends.
    pub(crate) fn run_blocking(mut self, blocking: &mut Blocking) {
        let BoxTask { pipe, caller } = &mut self;
        while let Some(record) = pipe.input.next_blocking(blocking) {
            caller.call(blocking.context(), pipe, record);
            loop {
                while let Some(record) = pipe.output.take_waiting() {
                    if blocking.push(&mut pipe.output.out, record).is_err() {
                        return;
                    }
                }
                if caller.generating.is_none() {
                    break;
                }
                caller.poll_many(blocking.context(), pipe, usize::MAX);
            }
        }
    }
}

impl Task for BoxTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.pipe.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let BoxTask { pipe, caller } = self;
        if !pipe.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 {
            if caller.generating.is_some() {
                left -= caller.poll_many(cx, pipe, left);
                if pipe.output.is_full() {
                    return Stop::OutputFull;
                }
            } else if let Some(stop) = pipe.step(cx, caller, &mut left) {
                return stop;
            }
        }
        if caller.generating.is_some() { Stop::QuantumSpent } else { pipe.quantum_spent(cx, caller) }
    }

    fn passes_to(&mut self, _: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let BoxTask { pipe, caller } = self;
        if caller.generating.is_some() { None } else { pipe.passes_to(caller) }
    }

    fn work_on(&mut self, messages: HandedOn<'_>, progress: Progress<'_>) -> usize {
        self.pipe.work_on(&mut self.caller, messages, progress)
    }
}

impl Work for Caller {
    #[inline]
    fn pass(&mut self, records: &mut [Record], progress: Progress<'_>) -> usize {
        let passed = self.pass_alike(records, progress);
        if passed == records.len() || passed == 0 || self.called.is_some() {
            return passed;
        }
        self.pass_further(records, progress, passed)
    }

    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record) -> bool {
        if record.shape() == ShapeId::MARK {
            pipe.output.send(cx, record);
        } else {
            self.take_one(cx, pipe, record);
        }
        true
    }

    #[inline]
    fn fuses(&self) -> bool {
        self.position.shared.limits.fuses()
    }
}

impl Caller {
    /// Calls the box with one record; emitted records go to the output, and a generator is kept for later
    /// polls.
    fn call(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, mut record: Record) {
        let progress = cx.progress(pipe.message().index);
        match self.pass(std::slice::from_mut(&mut record), progress) {
            0 => _ = self.take(cx, pipe, record),
            _ => _ = pipe.output.send(cx, record),
        }
    }

    /// [`Work::pass`] for the records behind the first `passed`, which were passed and have one shape.
    #[inline(never)]
    fn pass_further(&mut self, records: &mut [Record], progress: Progress<'_>, passed: usize) -> usize {
        let mut passed = passed;
        while passed < records.len() {
            let alike = self.pass_alike(&mut records[passed..], progress.after(passed));
            passed += alike;
            if alike == 0 || self.called.is_some() {
                break;
            }
        }
        passed
    }

    /// [`Work::pass`] for the leading records of one shape; stops at the first record of another shape. In
    /// most calls there is a single record, so the function has no loop around a call of the box.
    #[inline(never)]
    fn pass_alike(&mut self, records: &mut [Record], progress: Progress<'_>) -> usize {
        let Some(shape) = records.first().map(Record::shape).filter(|shape| !shape.is_reserved()) else {
            return 0;
        };
        let Ok(plan) = self.plans.get(shape, || BoxPlan::new(&self.part, shape)) else { return 0 };
        let Some(place) = plan.in_place() else { return 0 };
        let count = if records.len() == 1 || progress.times_each() { 1 } else { alike(records) };
        let records = &mut records[..count];
        let mut early = Early { plan, source: None, emitted: &mut self.early, fault: None };
        let entry = self.seat.hold();
        if progress.times_each() {
            progress.on(0);
            self.described.record(progress, &records[0]);
        }
        let on = progress.cell();
        let calling = Calling::new(&self.position, on);
        let (passed, succeeded) =
            self.desk.call_in_place(&entry, &place.calls, Record::rows(records), on, &mut early);
        drop(calling);
        place.finish(&mut records[..passed]);
        if passed < count {
            let fault = early.fault;
            let generates = self.desk.generates();
            self.origin = generates.then(|| (*entry).clone());
            self.called = Some(if !succeeded || fault.is_some() || generates {
                Called::Unsettled(succeeded, fault)
            } else {
                self.desk
                    .emitted_in_place()
                    .map_or(Called::Nothing, |(variant, count)| Called::Last(variant, count))
            });
        }
        passed
    }

    /// Calls the box with a record whose output cannot be made in place, or handles the end of a call in
    /// place that did not emit exactly one record.
    #[inline(never)]
    fn take_one(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, mut record: Record) {
        let shape = record.shape();
        let plan = match self.plans.get(shape, || BoxPlan::new(&self.part, shape)) {
            Ok(plan) => plan,
            Err(fault) => {
                let reason = fault.to_string();
                return self.position.fail_in(cx, pipe, record, reason);
            }
        };
        self.early.drain(..).for_each(|record| _ = pipe.output.send(cx, record));
        match (self.called.take(), plan.in_place()) {
            (None, _) => self.call_apart(cx, pipe, record),
            (Some(Called::Nothing), _) => {
                self.desk.settle();
                pipe.output.end(cx, record.ends());
            }
            (Some(Called::Last(variant, count)), Some(place)) => {
                match plan.finish_in_place(place, (variant, count), &mut record) {
                    Ok(()) => {
                        self.desk.settle();
                        pipe.output.send(cx, record);
                    }
                    Err(reason) => {
                        self.desk.give_back(&mut record.slots_mut()[place.calls.first_argument..]);
                        self.position.fail_in(cx, pipe, record, reason);
                    }
                }
            }
            (Some(Called::Unsettled(done, fault)), Some(place)) => {
                let plan = plan.clone();
                self.desk.lift(record.slots_mut(), place.calls.first_output);
                self.desk.give_back(&mut record.slots_mut()[place.calls.first_argument..]);
                self.settle(cx, pipe, record, done, fault, plan);
            }
            (Some(_), None) => unreachable!("it was called in place"),
        }
    }

    /// Calls the box with a record whose arguments or output cannot be used in place.
    fn call_apart(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, mut record: Record) {
        let shape = record.shape();
        let Ok(plan) = self.plans.get(shape, || BoxPlan::new(&self.part, shape)) else { return };
        let progress = cx.progress(pipe.message().index);
        progress.on(0);
        self.described.record(progress, &record);
        plan.take_arguments(&mut record, self.desk.arguments());
        let mut host = Early { plan, source: Some(record.slots()), emitted: &mut self.early, fault: None };
        let entry = self.seat.hold();
        let calling = Calling::new(&self.position, progress.cell());
        let done = self.desk.call(&entry, &mut host);
        drop(calling);
        let fault = host.fault;
        self.origin = self.desk.generates().then(|| (*entry).clone());
        drop(entry);
        self.early.drain(..).for_each(|record| _ = pipe.output.send(cx, record));
        if !done || fault.is_some() || self.desk.generates() {
            let plan = plan.clone();
            plan.give_arguments_back(&mut record, &mut self.desk);
            return self.settle(cx, pipe, record, done, fault, plan);
        }
        let Some(last) = self.desk.emitted() else {
            self.desk.settle();
            return pipe.output.end(cx, record.ends());
        };
        match plan.build_last(last, record) {
            Ok(record) => {
                self.desk.settle();
                pipe.output.send(cx, record);
            }
            Err((reason, mut record)) => {
                plan.give_arguments_back(&mut record, &mut self.desk);
                self.position.fail_in(cx, pipe, record, reason);
            }
        }
    }

    /// Polls the generator until it ends, the output is full, or it gave `limit` records; returns how many.
    fn poll_many(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, limit: usize) -> usize {
        let mut polled = 0;
        cx.progress(pipe.message().index).on(0);
        cx.forget_time();
        while polled < limit && !pipe.output.is_full() && self.poll(cx, pipe) {
            polled += 1;
        }
        polled.max(1)
    }

    /// Handles a call that failed, or that goes on with a generator.
    #[cold]
    fn settle(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        record: Record,
        done: bool,
        fault: Option<Box<str>>,
        plan: Arc<BoxPlan>,
    ) {
        if !done || fault.is_some() {
            return self.failed(cx, pipe, record, fault);
        }
        if let Some(generator) = self.desk.generator() {
            let origin = self.origin.take();
            self.generate(cx, pipe, Generating { generator, source: record, plan, _origin: origin });
        }
    }

    /// Handles a box that failed, or emitted output that it does not declare.
    #[cold]
    fn failed(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record, fault: Option<Box<str>>) {
        let failure = self.desk.failure();
        self.origin = None;
        // Records that the box emitted before it failed are sent on.
        let shape = record.shape();
        if fault.is_none()
            && let Some(emitted) = self.desk.emitted()
            && let Ok(plan) = self.plans.get(shape, || BoxPlan::new(&self.part, shape))
            && let Ok(built) = plan.build(emitted, record.slots())
        {
            pipe.output.send(cx, built);
        }
        self.position.fail_in(cx, pipe, record, fault.map_or(failure, String::from));
    }

    /// Starts the generator, after sending the record that `desk` still holds.
    #[cold]
    fn generate(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, generating: Generating) {
        if let Some(emitted) = self.desk.emitted() {
            match generating.plan.build(emitted, generating.source.slots()) {
                Ok(record) => {
                    pipe.output.send(cx, record);
                }
                Err(reason) => return self.position.fail_in(cx, pipe, generating.source, reason),
            }
        }
        cx.forget_time();
        self.generating = Some(Box::new(generating));
    }

    /// Polls the generator once; returns whether it can emit more.
    fn poll(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> bool {
        let Some(generating) = &mut self.generating else { return false };
        let Generating { generator, source, plan, .. } = &mut **generating;
        let mut host = Early { plan, source: Some(source.slots()), emitted: &mut self.early, fault: None };
        let calling = Calling::new(&self.position, (None, pipe.message().index));
        let status = self.desk.poll(generator, &mut host);
        drop(calling);
        let fault = host.fault;
        self.early.drain(..).for_each(|record| _ = pipe.output.send(cx, record));
        if status == Status::AGAIN && fault.is_none() {
            return true;
        }
        let source = self.generating.take().expect("it was polled").source;
        if status != Status::DONE || fault.is_some() {
            self.failed(cx, pipe, source, fault);
        } else {
            pipe.output.end(cx, source.ends());
        }
        false
    }
}

/// Receives the records that a box emits before its last one.
struct Early<'a> {
    plan: &'a BoxPlan,
    /// The slots of the consumed record; during a call in place, emitted records inherit from them.
    source: Option<&'a [Value]>,
    emitted: &'a mut Vec<Record>,
    /// Why output that the box does not declare was refused.
    fault: Option<Box<str>>,
}

impl Host for Early<'_> {
    fn emitted(&mut self, emitted: Emitted<'_>) {
        let source = emitted.record.or(self.source).unwrap_or(&[]);
        match self.plan.build(emitted, source) {
            Ok(record) => self.emitted.push(record),
            Err(reason) => self.fault = Some(reason.into()),
        }
    }
}

/// An initialiser: a box without input, called once at the start, or, after another component, once for each
/// record.
pub(crate) struct InitialiserTask {
    task: BoxTask,
    state: Initialising,
}

enum Initialising {
    New,
    /// The initialiser was called once, and refuses records.
    Called,
    /// The initialiser is called for each record.
    Calling,
}

impl InitialiserTask {
    pub(crate) fn new(task: BoxTask) -> InitialiserTask {
        InitialiserTask { task, state: Initialising::New }
    }
}

impl Task for InitialiserTask {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.task.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if matches!(self.state, Initialising::New) {
            let BoxTask { pipe, caller } = &mut self.task;
            let waits = match caller.part.before {
                Before::Network => caller.position.shared.limits.initialisers_wait(),
                Before::Branch => false,
                Before::Component => true,
            };
            if waits {
                self.state = Initialising::Calling;
            } else {
                self.state = Initialising::Called;
                caller.call(cx, pipe, Record::with_shape(shape::of(&[])));
            }
        }
        if matches!(self.state, Initialising::Calling) {
            return self.task.run(cx);
        }
        let BoxTask { pipe, caller } = &mut self.task;
        if !pipe.output.flush(cx) {
            return Stop::OutputFull;
        }
        let mut left = cx.quantum();
        while left > 0 && caller.generating.is_some() {
            left -= caller.poll_many(cx, pipe, left);
            if pipe.output.is_full() {
                return Stop::OutputFull;
            }
        }
        while left > 0 {
            if let Some(stop) = pipe.step(cx, &mut Refusing(&caller.position), &mut left) {
                return stop;
            }
        }
        Stop::QuantumSpent
    }
}

/// The treatment of records by an initialiser that ran once: it refuses them.
struct Refusing<'a>(&'a Position);

impl Work for Refusing<'_> {
    fn pass(&mut self, _: &mut [Record], _: Progress<'_>) -> usize {
        0
    }

    fn take(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record) -> bool {
        if record.shape() == ShapeId::MARK {
            pipe.output.send(cx, record);
        } else {
            let reason = "this box ran once at the start and takes no records (net.initialisers=records runs it for each)";
            let reason = reason.to_owned();
            self.0.fail_in(cx, pipe, record, reason);
        }
        true
    }

    fn fuses(&self) -> bool {
        false
    }
}

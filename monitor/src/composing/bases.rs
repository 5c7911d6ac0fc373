//! Dispatches that are one event each: what they leave out is in their base, which the same block of the element has.

use crate::composing::dispatch::Outcome;
use crate::decoding::events::KINDS;
use crate::decoding::events::{
    Derived, Dispatch, DispatchBase, DispatchCause, DispatchDescent, DispatchLong, DispatchLongCause,
    DispatchLongDescent, DispatchLongOutcome, DispatchLongReadyBy, DispatchLongWaitsFor, DispatchOutcome,
    DispatchReadyBy, DispatchStreams, DispatchWaitsFor, Observation, TaskCreated,
};
use crate::decoding::observation::Run;
use crate::decoding::texts::Texts;
use crate::ids::IdMap;
use thalweg_space::reader::{Event, Fields};

/// More bases than this no block has.
const BASES_MAX: u64 = 1 << 21;

/// The number that stands for a task which is no base.
const NO_BASE: u64 = u32::MAX as u64;

/// A dispatch as its event encodes it.
#[derive(Clone, Copy, Debug)]
struct Encoded {
    base: u64,
    duration_ticks: u64,
    ready_ticks: u64,
    reads: u64,
    writes: u64,
    outcome: Outcome,
    waits_for: Which,
    ready_by: Option<Which>,
    /// How far each message's parent is from that of the one before.
    step: Option<u64>,
    parent_offset: i64,
}

/// A stream, as a dispatch names it.
#[derive(Clone, Copy, Debug)]
enum Which {
    None,
    Input,
    Output,
    Named,
}

macro_rules! told {
    ($event:ident, $outcome:ident, $waits_for:ident, $ready_by:ident, $cause:ident, $descent:ident) => {
        Encoded {
            base: $event.base_number,
            duration_ticks: $event.duration_ticks,
            ready_ticks: $event.ready_ticks,
            reads: $event.reads,
            writes: $event.writes,
            outcome: match $event.outcome {
                $outcome::BlockedInput => Outcome::BlockedInput,
                $outcome::BlockedOutput => Outcome::BlockedOutput,
                $outcome::Ended => Outcome::Ended,
                $outcome::Yielded | $outcome::Unknown => Outcome::Yielded,
            },
            waits_for: match $event.waits_for {
                $waits_for::Input => Which::Input,
                $waits_for::Output => Which::Output,
                $waits_for::Named => Which::Named,
                $waits_for::None | $waits_for::Unknown => Which::None,
            },
            ready_by: match ($event.cause, $event.ready_by) {
                ($cause::Unrecorded | $cause::Unknown, _) => None,
                (_, $ready_by::Input) => Some(Which::Input),
                (_, $ready_by::Output) => Some(Which::Output),
                (_, $ready_by::Named) => Some(Which::Named),
                (_, $ready_by::None | $ready_by::Unknown) => Some(Which::None),
            },
            step: match $event.descent {
                $descent::EachFromNext => Some(1),
                $descent::AllFromOne => Some(0),
                $descent::Unrecorded | $descent::Unknown => None,
            },
            parent_offset: $event.parent_offset,
        }
    };
}

impl Encoded {
    #[inline]
    fn of(observation: &Observation) -> Option<Encoded> {
        Some(match observation {
            Observation::Dispatch(event) => {
                let event: &Dispatch = event;
                told!(
                    event,
                    DispatchOutcome,
                    DispatchWaitsFor,
                    DispatchReadyBy,
                    DispatchCause,
                    DispatchDescent
                )
            }
            Observation::DispatchLong(event) => {
                let event: &DispatchLong = event;
                told!(
                    event,
                    DispatchLongOutcome,
                    DispatchLongWaitsFor,
                    DispatchLongReadyBy,
                    DispatchLongCause,
                    DispatchLongDescent
                )
            }
            _ => return None,
        })
    }
}

/// A dispatch with all that its base says.
#[derive(Clone, Copy, Debug)]
pub struct WholeDispatch {
    /// The task.
    pub task: u64,
    /// The worker; 4294967295: a thread of the task's own.
    pub worker: u64,
    /// How long it lasted.
    pub duration_ticks: u64,
    /// For how many ticks the task had been ready when the dispatch began, and the stream that had made it so, or 0; `None`: not recorded.
    pub ready: Option<(u64, u64)>,
    /// Why it ended.
    pub outcome: Outcome,
    /// The stream that the task waits for since; 0: none, or several.
    pub waits_for: u64,
    /// What it read from its base's input.
    pub read: Option<Run>,
    /// What it wrote to its base's output.
    pub written: Option<Run>,
    /// Which of the written messages descend from which of the read ones.
    pub derived: Option<Derived>,
}

/// The bases that writers recorded in their present blocks: what an event `exec.dispatch` leaves out.
///
/// ```no_run
/// use thalweg_monitor::Bases;
/// use thalweg_space::reader::{Item, SpaceReader};
///
/// let mut bases = Bases::default();
/// SpaceReader::open(std::path::Path::new("run"))?.events().poll(1000, &mut |item| match item {
///     Item::Event(event) => {
///         if let Some(dispatch) = bases.take(&event) {
///             println!("task {} ran for {} ticks", dispatch.task, dispatch.duration_ticks);
///         }
///     }
///     Item::Gap { kind_unknown: true, .. } => {}
///     Item::Gap { writer, .. } => bases.forget(writer.into()),
/// })?;
/// # Ok::<(), thalweg_space::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Bases {
    writers: IdMap<OfWriter>,
}

#[derive(Debug, Default)]
struct OfWriter {
    bases: Vec<DispatchBase>,
    /// What was recorded for the next dispatch.
    streams: DispatchStreams,
}

impl Bases {
    /// Takes the next event of a space, whatever it is; returns the dispatch that it records, if it records one whose base is known.
    pub fn take(&mut self, event: &Event<'_>) -> Option<WholeDispatch> {
        let number = KINDS.iter().position(|kind| kind.name == event.kind.name)?;
        if !event.kind.name.starts_with("exec.dispatch") && event.kind.name != "exec.task_created" {
            return None;
        }
        let fields = Fields::find(event.kind, KINDS[number].fields).ok()?;
        let writer = event.writer.into();
        match Observation::read(number as u16, &fields, event, &mut Texts::default())? {
            Observation::DispatchBase(base) => drop(self.record(writer, &base)),
            Observation::TaskCreated(created) => drop(self.record_created(writer, &created)),
            Observation::DispatchStreams(streams) => self.name(writer, &streams),
            dispatch => return self.dispatch(writer, &dispatch),
        }
        None
    }

    /// `false`: no writer records dispatches in this way.
    pub(crate) fn record(&mut self, writer: u64, base: &DispatchBase) -> bool {
        let bases = &mut self.writers.entry(writer).or_default().bases;
        if base.number == 0 {
            bases.clear();
        }
        let in_order = base.number == bases.len() as u64 && base.number < BASES_MAX;
        if in_order {
            bases.push(*base);
        }
        in_order
    }

    /// Remembers a task that was created and is a base.
    pub(crate) fn record_created(&mut self, writer: u64, created: &TaskCreated) -> bool {
        let TaskCreated { base_number: number, worker, task, input, output, .. } = *created;
        number == NO_BASE
            || self.record(
                writer,
                &DispatchBase { number, worker, task, input, first_read: 0, output, first_written: 0 },
            )
    }

    pub(crate) fn name(&mut self, writer: u64, streams: &DispatchStreams) {
        self.writers.entry(writer).or_default().streams = *streams;
    }

    /// Events of the writer were lost: those to come are in another block. Not so where the kind of a single event is unknown.
    pub fn forget(&mut self, writer: u64) {
        self.writers.remove(&writer);
    }

    /// The dispatch that the event records; `None`: its base is not known, so the event is damaged.
    #[inline]
    pub(crate) fn dispatch(&mut self, writer: u64, observation: &Observation) -> Option<WholeDispatch> {
        let told = Encoded::of(observation)?;
        let of_writer = self.writers.get_mut(&writer)?;
        let named = std::mem::take(&mut of_writer.streams);
        let base = of_writer.bases.get_mut(usize::try_from(told.base).ok()?)?;
        let (first_read, first_written) = (base.first_read, base.first_written);
        base.first_read = first_read.checked_add(told.reads)?;
        base.first_written = first_written.checked_add(told.writes)?;
        let stream = |which, named| match which {
            Which::None => 0,
            Which::Input => base.input,
            Which::Output => base.output,
            Which::Named => named,
        };
        let run = |stream, first, count| (count > 0).then_some(Run { stream, first, count });
        let derived = told.step.map(|step| Derived {
            stream: base.output,
            first: first_written,
            parent_stream: base.input,
            parent_first: first_read.wrapping_add_signed(told.parent_offset),
            count: told.writes,
            step,
        });
        Some(WholeDispatch {
            task: base.task,
            worker: base.worker,
            duration_ticks: told.duration_ticks,
            ready: told.ready_by.map(|by| (told.ready_ticks, stream(by, named.ready_by))),
            outcome: told.outcome,
            waits_for: stream(told.waits_for, named.waits_for),
            read: run(base.input, first_read, told.reads),
            written: run(base.output, first_written, told.writes),
            derived,
        })
    }
}

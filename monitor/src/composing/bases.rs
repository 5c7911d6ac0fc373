//! Decodes dispatches that are recorded as one event each: the event omits the values that its base contains.
//! The base is another event in the same block of the element.

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

/// The maximal number of bases in a block.
const BASES_MAX: u64 = 1 << 21;

/// The base number in the event of a task's creation if this event is not a base.
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
    /// The difference between the indices of the parents of two consecutive messages written.
    step: Option<u64>,
    parent_offset: i64,
}

/// A stream as the event of a dispatch names it.
#[derive(Clone, Copy, Debug)]
enum Which {
    None,
    Input,
    Output,
    Named,
}

macro_rules! encoded {
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
                encoded!(
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
                encoded!(
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

/// A dispatch completed with the values of its base.
#[derive(Clone, Copy, Debug)]
pub struct WholeDispatch {
    /// The task.
    pub task: u64,
    /// The worker; 4294967295 for a task with a thread of its own.
    pub worker: u64,
    /// The duration of the dispatch.
    pub duration_ticks: u64,
    /// The ticks for which the task had been ready when the dispatch began, and the stream that made it
    /// ready, or 0; `None` if not recorded.
    pub ready: Option<(u64, u64)>,
    /// The reason why the dispatch ended.
    pub outcome: Outcome,
    /// The stream that the task has waited for since the dispatch; 0 for none or several.
    pub waits_for: u64,
    /// The messages that the dispatch read from its base's input.
    pub read: Option<Run>,
    /// The messages that the dispatch wrote to its base's output.
    pub written: Option<Run>,
    /// The descent of the written messages from the read ones.
    pub derived: Option<Derived>,
}

/// The bases that writers recorded in their present blocks, which contain the values that an event
/// `exec.dispatch` omits.
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
    /// The last event that names streams of the next dispatch that are not those of its base.
    streams: DispatchStreams,
}

impl Bases {
    /// Receives the next event of a space, of any kind; returns the dispatch if the event records one whose
    /// base is known.
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

    /// Remembers a base; returns `false` if its number is impossible.
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

    /// Remembers the base in the event of a task's creation, if this event is a base.
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

    /// Forgets the bases of a writer after a loss of its events, because the next events are in another
    /// block. The method must not be called if a single event could not be decoded, because the next events
    /// are then in the same block.
    pub fn forget(&mut self, writer: u64) {
        self.writers.remove(&writer);
    }

    /// The dispatch that the event records; `None` if its base is not known, because the event is then
    /// damaged.
    #[inline]
    pub(crate) fn dispatch(&mut self, writer: u64, observation: &Observation) -> Option<WholeDispatch> {
        let encoded = Encoded::of(observation)?;
        let of_writer = self.writers.get_mut(&writer)?;
        let named = std::mem::take(&mut of_writer.streams);
        let base = of_writer.bases.get_mut(usize::try_from(encoded.base).ok()?)?;
        let (first_read, first_written) = (base.first_read, base.first_written);
        base.first_read = first_read.checked_add(encoded.reads)?;
        base.first_written = first_written.checked_add(encoded.writes)?;
        let stream = |which, named| match which {
            Which::None => 0,
            Which::Input => base.input,
            Which::Output => base.output,
            Which::Named => named,
        };
        let run = |stream, first, count| (count > 0).then_some(Run { stream, first, count });
        let derived = encoded.step.map(|step| Derived {
            stream: base.output,
            first: first_written,
            parent_stream: base.input,
            parent_first: first_read.wrapping_add_signed(encoded.parent_offset),
            count: encoded.writes,
            step,
        });
        Some(WholeDispatch {
            task: base.task,
            worker: base.worker,
            duration_ticks: encoded.duration_ticks,
            ready: encoded.ready_by.map(|by| (encoded.ready_ticks, stream(by, named.ready_by))),
            outcome: encoded.outcome,
            waits_for: stream(encoded.waits_for, named.waits_for),
            read: run(base.input, first_read, encoded.reads),
            written: run(base.output, first_written, encoded.writes),
            derived,
        })
    }
}

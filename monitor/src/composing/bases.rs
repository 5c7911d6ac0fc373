//! Dispatches that are one event each: what they leave out is in their base, which the same block of the element has.

use crate::composing::dispatch::Outcome;
use crate::decoding::events::{
    Derived, Dispatch, DispatchBase, DispatchCause, DispatchDescent, DispatchLong, DispatchLongCause,
    DispatchLongDescent, DispatchLongOutcome, DispatchLongReadyBy, DispatchLongWaitsFor, DispatchOutcome,
    DispatchReadyBy, DispatchStreams, DispatchWaitsFor, Observation,
};
use crate::decoding::observation::Run;
use crate::ids::IdMap;

/// More bases than this no block has.
const BASES_MAX: u64 = 1 << 21;

/// A dispatch as its event says it.
#[derive(Clone, Copy, Debug)]
struct Told {
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
        Told {
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
                ($cause::Untold | $cause::Unknown, _) => None,
                (_, $ready_by::Input) => Some(Which::Input),
                (_, $ready_by::Output) => Some(Which::Output),
                (_, $ready_by::Named) => Some(Which::Named),
                (_, $ready_by::None | $ready_by::Unknown) => Some(Which::None),
            },
            step: match $event.descent {
                $descent::EachFromNext => Some(1),
                $descent::AllFromOne => Some(0),
                $descent::Untold | $descent::Unknown => None,
            },
            parent_offset: $event.parent_offset,
        }
    };
}

impl Told {
    #[inline]
    fn of(observation: &Observation) -> Option<Told> {
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
pub(crate) struct WholeDispatch {
    pub(crate) task: u64,
    pub(crate) worker: u64,
    pub(crate) duration_ticks: u64,
    /// For how long it had been ready when it began, and the stream that had made it so, or 0; `None`: not told.
    pub(crate) ready: Option<(u64, u64)>,
    pub(crate) outcome: Outcome,
    /// The stream that it waits for since; 0: none, or several.
    pub(crate) waits_for: u64,
    pub(crate) read: Option<Run>,
    pub(crate) written: Option<Run>,
    pub(crate) derived: Option<Derived>,
}

/// The bases that writers recorded in their present blocks.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    writers: IdMap<OfWriter>,
}

#[derive(Debug, Default)]
struct OfWriter {
    bases: Vec<DispatchBase>,
    /// Recorded for the next dispatch.
    streams: DispatchStreams,
}

impl Bases {
    /// `false`: no writer records so.
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

    pub(crate) fn name(&mut self, writer: u64, streams: &DispatchStreams) {
        self.writers.entry(writer).or_default().streams = *streams;
    }

    /// Events of the writer were lost: those to come are in another block.
    pub(crate) fn forget(&mut self, writer: u64) {
        self.writers.remove(&writer);
    }

    /// The dispatch that is told; `None`: its base is not known, so it is damaged.
    #[inline]
    pub(crate) fn dispatch(&mut self, writer: u64, observation: &Observation) -> Option<WholeDispatch> {
        let told = Told::of(observation)?;
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

//! How a dispatch is recorded: as one event.
//!
//! Most dispatches of a task read the stream that the one before read, from where that ended, and write the same other one. So that much is
//! said once in each block of the element, in a *base*, and a dispatch names its base by a number. A reader that has a block has its
//! bases, whatever was overwritten before. What does not fit (more streams, lineage of several runs) are events of their own just before.

use thalweg_space::Kind;

use super::base::{Bases, Part, ReadyBy, Stated};
use super::kinds::{
    Derived, Descent, Dispatch, DispatchBase, DispatchLong, DispatchStreams, Event, Outcome, StreamRead,
    StreamWrote, Which,
};
use super::recorder::Recorder;
use super::stream::WatchedStream;
use crate::stop::Stop;

/// A dispatch that ends now, of one input and one output.
pub(super) struct Relayed<'a, S> {
    pub(super) input: &'a S,
    pub(super) output: &'a S,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) duration_ticks: u64,
    pub(super) ready_ticks: u64,
    pub(super) ready_by: ReadyBy,
    pub(super) stop: Stop,
    /// It waits for any of several streams.
    pub(super) waits_for_several: bool,
}

/// Words of the events that stand in one block together, each with its first word.
const DISPATCH_WORDS: u64 = 1 + Dispatch::WORDS as u64;
const LONG_WORDS: u64 = 1 + DispatchLong::WORDS as u64;
const BASE_WORDS: u64 = 1 + DispatchBase::WORDS as u64;

impl Part {
    /// What the dispatch that uses an end, the writing one or the other, did there.
    #[inline]
    pub(super) fn of<S: WatchedStream>(stream: &S, writes: bool) -> Part {
        let count = stream.passed_now(writes) as u64;
        Part { stream: stream.number(), first: end_of(stream, writes) - count, count }
    }
}

/// Up to where a task has written a stream (else read it).
#[inline(always)]
fn end_of(stream: &impl WatchedStream, writes: bool) -> u64 {
    // What the reader drops as it leaves is behind what it read.
    (stream.position(writes) - if writes { 0 } else { stream.lost(false) }) as u64
}

/// A dispatch that ends now.
pub(super) struct Ended<'a> {
    pub(super) task: u64,
    pub(super) worker: u32,
    pub(super) duration_ticks: u64,
    pub(super) ready_ticks: u64,
    pub(super) ready_by: ReadyBy,
    pub(super) outcome: Outcome,
    /// The stream that it waits for since; 0: none, or several.
    pub(super) waits_for: u64,
    pub(super) input: Part,
    pub(super) output: Part,
    /// What descends from what; at most one run is part of the dispatch's event.
    pub(super) derived: &'a [Derived],
}

impl Recorder {
    /// Messages that the dispatch to be recorded next read or wrote besides those of its base.
    #[cold]
    pub(super) fn part(&mut self, now: u64, part: &Part, writes: bool) {
        let Part { stream, first, count } = *part;
        let count = count as u32;
        if writes {
            self.at(now, &StreamWrote { stream, first, count });
        } else {
            self.at(now, &StreamRead { stream, first, count });
        }
    }

    /// Records a dispatch that ends at `now` and lasted less than 2^32 ticks, if it goes on with its task's base, which is in this element,
    /// and has nothing that `exec.dispatch` cannot say.
    #[inline(always)]
    pub(super) fn relayed<S: WatchedStream>(
        &mut self,
        now: u64,
        ended: &Relayed<'_, S>,
        derived: &[Derived],
        stated: &Stated,
    ) -> bool {
        let Relayed { input, output, reads, writes, ready_ticks, .. } = *ended;
        let by = stated.which(ended.ready_by.stream());
        let (next_read, next_written) = (end_of(input, false), end_of(output, true));
        let fits = (ready_ticks >> 16 | reads | writes) >> 16 == 0
            && stated.next_read.get() + reads == next_read
            && stated.next_written.get() + writes == next_written
            && stated.input.get() == input.number()
            && stated.output.get() == output.number()
            && by != Which::Named;
        if !fits {
            return false;
        }
        let (descent, parent_offset) = match derived {
            [] => (Descent::Untold, 0),
            [derived] => {
                let part =
                    |stream: &S, end, count| Part { stream: stream.number(), first: end - count, count };
                descent(derived, &part(input, next_read, reads), &part(output, next_written, writes))
            }
            _ => return false,
        };
        if (descent == Descent::Untold && !derived.is_empty()) || i16::try_from(parent_offset).is_err() {
            return false;
        }
        let dispatch = Dispatch {
            duration_ticks: ended.duration_ticks as u32,
            ready_ticks: ready_ticks as u32,
            base_number: stated.base.get(),
            reads: reads as u16,
            writes: writes as u16,
            outcome: Outcome::of(ended.stop),
            waits_for: match ended.stop {
                Stop::InputEmpty if input.blocks(false) && !ended.waits_for_several => Which::Input,
                Stop::OutputFull if output.blocks(true) => Which::Output,
                _ => Which::None,
            },
            cause: ended.ready_by.cause(),
            ready_by: by,
            descent,
            parent_offset: parent_offset as i16,
        };
        let is_written = self.writer.emit_into(stated.block.get(), now, Dispatch::id(&self.kinds), &dispatch);
        if is_written {
            stated.next_read.set(next_read);
            stated.next_written.set(next_written);
        }
        is_written
    }

    /// Records a dispatch that ends at `now`.
    #[inline(never)]
    pub(super) fn dispatch(&mut self, now: u64, ended: &Ended<'_>, stated: &Stated) {
        let Ended { input, output, .. } = ended;
        let (descent, parent_offset) = match ended.derived {
            [derived] => descent(derived, input, output),
            _ => (Descent::Untold, 0),
        };
        if descent == Descent::Untold && !ended.derived.is_empty() {
            self.derived(now, ended.derived);
        }
        let by = ended.ready_by.stream();
        let is_in_base = |stream: u64| {
            // As `Stated::take` leaves it, whether the base has to be recorded anew or not.
            let of =
                |part: &Part, before: u64| if part.count > 0 || before == 0 { part.stream } else { before };
            stream == of(input, stated.input.get()) || stream == of(output, stated.output.get())
        };
        let named = |stream: u64| stream != 0 && !is_in_base(stream);
        if named(by) || named(ended.waits_for) {
            let name = |stream| if named(stream) { stream } else { 0 };
            self.at(now, &DispatchStreams { waits_for: name(ended.waits_for), ready_by: name(by) });
        }
        let fits = (ended.duration_ticks | ended.ready_ticks) >> 32 == 0
            && (input.count | output.count) >> 16 == 0
            && i16::try_from(parent_offset).is_ok();
        let words = if fits { DISPATCH_WORDS } else { LONG_WORDS };
        let Some(block) = self.writer.reserve(now, words) else { return };
        if !stated.holds(block, input, output) && !self.state(now, words, ended, stated) {
            return;
        }
        if input.count > 0 {
            stated.next_read.set(input.first + input.count);
        }
        if output.count > 0 {
            stated.next_written.set(output.first + output.count);
        }
        let (base_number, outcome, cause) = (stated.base.get(), ended.outcome, ended.ready_by.cause());
        let (waits_for, ready_by) = (stated.which(ended.waits_for), stated.which(by));
        if fits {
            let dispatch = Dispatch {
                duration_ticks: ended.duration_ticks as u32,
                ready_ticks: ended.ready_ticks as u32,
                base_number,
                reads: input.count as u16,
                writes: output.count as u16,
                outcome,
                waits_for,
                cause,
                ready_by,
                descent,
                parent_offset: parent_offset as i16,
            };
            self.at(now, &dispatch);
        } else {
            let dispatch = DispatchLong {
                duration_ticks: ended.duration_ticks,
                ready_ticks: ended.ready_ticks,
                base_number,
                reads: input.count as u32,
                writes: output.count as u32,
                outcome,
                waits_for,
                cause,
                ready_by,
                descent,
                parent_offset,
            };
            self.at(now, &dispatch);
        }
    }

    #[cold]
    fn derived(&mut self, now: u64, derived: &[Derived]) {
        derived.iter().for_each(|derived| self.at(now, derived));
    }

    /// Records a base for the dispatch that follows at once, in `words` words. `false`: the element is full.
    #[cold]
    #[inline(never)]
    fn state(&mut self, now: u64, words: u64, ended: &Ended<'_>, stated: &Stated) -> bool {
        let Some(block) = self.writer.reserve(now, BASE_WORDS + words) else { return false };
        if block != self.bases.block {
            self.bases = Bases { block, next: 0 };
        }
        let base = self.bases.next;
        self.bases.next += 1;
        stated.take(&ended.input, &ended.output);
        stated.block.set(block);
        stated.base.set(base);
        let (input, output) = (stated.input.get(), stated.output.get());
        let (first_read, first_written) = (stated.next_read.get(), stated.next_written.get());
        let (worker, task) = (ended.worker, ended.task);
        self.at(now, &DispatchBase { number: base, worker, task, input, first_read, output, first_written });
        true
    }
}

/// How a dispatch's own event says what its messages descend from, if it can.
#[inline]
fn descent(derived: &Derived, input: &Part, output: &Part) -> (Descent, i64) {
    let all = derived.stream == output.stream
        && derived.first == output.first
        && u64::from(derived.count) == output.count
        && derived.parent_stream == input.stream
        && input.count > 0;
    if !all {
        return (Descent::Untold, 0);
    }
    let descent = if derived.step == 0 { Descent::AllFromOne } else { Descent::EachFromNext };
    (descent, derived.parent_first.wrapping_sub(input.first) as i64)
}

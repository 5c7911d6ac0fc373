//! Records each dispatch as one event.
//!
//! Most dispatches of a task read and write the same two streams as the task's dispatch before, and continue
//! at the positions where it ended. Therefore these streams are recorded once in each block of the element,
//! in a *base*, and a dispatch names its base by a number. A reader that has a block also has its bases, even
//! if older blocks were overwritten. Facts that do not fit into the base (more streams, lineage of several
//! runs) are recorded in events of their own just before the dispatch.

use std::cell::Cell;

use thalweg_space::Kind;

use super::base::{Part, ReadyBy, Stated};
use super::kinds::{
    Cause, Derived, Descent, Dispatch, DispatchBase, DispatchLong, DispatchStreams, Event, Outcome,
    StreamRead, StreamWrote, Which,
};
use super::lineage::descent;
use super::recorder::Recorder;
use super::stream::WatchedStream;
use crate::stop::Stop;

/// A dispatch with one input and one output that ends now.
pub(super) struct Relayed<'a, S> {
    pub(super) input: &'a S,
    pub(super) output: &'a S,
    pub(super) duration_ticks: u64,
    pub(super) ready_ticks: u64,
    pub(super) ready_by: ReadyBy,
    pub(super) stop: Stop,
    /// Whether the task waits for any of several streams.
    pub(super) waits_for_several: bool,
}

/// The words of the events that must be in one block together, each with its first word.
const DISPATCH_WORDS: u64 = 1 + Dispatch::WORDS as u64;
const LONG_WORDS: u64 = 1 + DispatchLong::WORDS as u64;
const BASE_WORDS: u64 = 1 + DispatchBase::WORDS as u64;

impl Part {
    /// The messages that the present dispatch read or wrote at an end of a stream.
    #[inline]
    pub(super) fn of<S: WatchedStream>(stream: &S, writes: bool) -> Part {
        let count = stream.passed_now(writes) as u64;
        Part { stream: stream.number(), first: end_of(stream, writes) - count, count }
    }
}

/// The index up to which a task has written a stream (if `writes`) or read it.
#[inline(always)]
fn end_of(stream: &impl WatchedStream, writes: bool) -> u64 {
    // Messages that a reader drops when it leaves come after those that it read.
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
    /// The stream that the task waits for from now on; 0: none, or several.
    pub(super) waits_for: u64,
    pub(super) input: Part,
    pub(super) output: Part,
    /// How the messages written to the output descend from those read from the input, except for those in
    /// `derived`.
    pub(super) descent: (Descent, i16),
    /// All further lineage of the dispatch.
    pub(super) derived: &'a [Derived],
}

impl Recorder {
    /// Records messages that the next recorded dispatch read from or wrote to a stream that is not in its
    /// base; `written` is the lineage of written messages, and `None` for messages read.
    #[cold]
    pub(super) fn part(&mut self, now: u64, part: &Part, written: Option<(Descent, i16)>) {
        let Part { stream, first, count } = *part;
        let count = count as u32;
        if let Some((descent, parent_offset)) = written {
            self.at(now, &StreamWrote { stream, first, count, descent, parent_offset });
        } else {
            self.at(now, &StreamRead { stream, first, count });
        }
    }

    /// Records a dispatch that ends at `now` and lasted less than 2^32 ticks, if the dispatch continues its
    /// task's base, the base is in this element, and the dispatch fits into `exec.dispatch`.
    #[inline(always)]
    pub(super) fn relayed<S: WatchedStream>(
        &mut self,
        now: u64,
        ended: &Relayed<'_, S>,
        derived: &[Derived],
        (stated, read_base_last): (&Stated, &Cell<bool>),
    ) -> bool {
        let Relayed { input, output, ready_ticks, .. } = *ended;
        let (next_read, next_written) = (end_of(input, false), end_of(output, true));
        let (reads, writes) = (input.passed_now(false) as u64, output.passed_now(true) as u64);
        let fits = (ready_ticks >> 16 | reads | writes) >> 16 == 0
            && stated.next_read.get() + reads == next_read
            && stated.next_written.get() + writes == next_written
            && stated.input.get() == input.number()
            && stated.output.get() == output.number();
        if !fits {
            return false;
        }
        let waits_for_input =
            ended.stop == Stop::InputEmpty && input.blocks(false) && !ended.waits_for_several;
        let mut third = stated.usual.get();
        if !waits_for_input || ended.ready_by != stated.usual_by.get() {
            let ready_by = stated.which(ended.ready_by.stream());
            if ready_by == Which::Named {
                return false;
            }
            let waits_for = match ended.stop {
                _ if waits_for_input => Which::Input,
                Stop::OutputFull if output.blocks(true) => Which::Output,
                _ => Which::None,
            };
            third = third_word(ended.stop, waits_for, ended.ready_by, ready_by);
            if waits_for_input {
                stated.usual_by.set(ended.ready_by);
                stated.usual.set(third);
            }
        }
        if !derived.is_empty() {
            let part = |stream: &S, end, count| Part { stream: stream.number(), first: end - count, count };
            let parts = (part(input, next_read, reads), part(output, next_written, writes));
            match derived_word(derived, &parts.0, &parts.1) {
                0 => return false,
                word => third |= word,
            }
        }
        let words = [
            ended.duration_ticks | ready_ticks << 32,
            u64::from(stated.base.get()) | reads << 32 | writes << 48,
            third,
        ];
        let is_written = self.writer.emit_into(stated.block.get(), now, Dispatch::id(&self.kinds), words);
        if is_written {
            stated.next_read.set(next_read);
            stated.next_written.set(next_written);
            if reads > 0 {
                read_base_last.set(true);
            }
        }
        is_written
    }

    /// Records a dispatch that ends at `now`.
    #[inline(never)]
    pub(super) fn dispatch(&mut self, now: u64, ended: &Ended<'_>, stated: &Stated) {
        let Ended { input, output, descent: (descent, parent_offset), .. } = ended;
        if !ended.derived.is_empty() {
            self.derived(now, ended.derived);
        }
        let by = ended.ready_by.stream();
        let is_in_base = |stream: u64| {
            // The streams that the base has after `Stated::take`, whether or not the base has to be recorded
            // again.
            let of =
                |part: &Part, before: u64| if part.count > 0 || before == 0 { part.stream } else { before };
            stream == of(input, stated.input.get()) || stream == of(output, stated.output.get())
        };
        let named = |stream: u64| stream != 0 && !is_in_base(stream);
        if named(by) || named(ended.waits_for) {
            let name = |stream| if named(stream) { stream } else { 0 };
            self.at(now, &DispatchStreams { waits_for: name(ended.waits_for), ready_by: name(by) });
        }
        let fits =
            (ended.duration_ticks | ended.ready_ticks) >> 32 == 0 && (input.count | output.count) >> 16 == 0;
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
                descent: *descent,
                parent_offset: *parent_offset,
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
                descent: *descent,
                parent_offset: i64::from(*parent_offset),
            };
            self.at(now, &dispatch);
        }
    }

    #[cold]
    fn derived(&mut self, now: u64, derived: &[Derived]) {
        derived.iter().for_each(|derived| self.at(now, derived));
    }

    /// Records a base for the dispatch that is recorded immediately afterwards and needs `words` words.
    /// Returns `false` if the element is full.
    #[cold]
    #[inline(never)]
    fn state(&mut self, now: u64, words: u64, ended: &Ended<'_>, stated: &Stated) -> bool {
        let Some(block) = self.writer.reserve(now, BASE_WORDS + words) else { return false };
        let base = self.next_base(block);
        stated.take(&ended.input, &ended.output);
        stated.usual_by.set(ReadyBy::NOTHING);
        stated.block.set(block);
        stated.base.set(base);
        let (input, output) = (stated.input.get(), stated.output.get());
        let (first_read, first_written) = (stated.next_read.get(), stated.next_written.get());
        let (worker, task) = (ended.worker, ended.task);
        self.at(now, &DispatchBase { number: base, worker, task, input, first_read, output, first_written });
        true
    }
}

/// The third word of `exec.dispatch`, without the lineage.
#[inline(never)]
fn third_word(stop: Stop, waits_for: Which, ready_by: ReadyBy, which: Which) -> u64 {
    words(Outcome::of(stop), waits_for, ready_by.cause(), which, (Descent::Unrecorded, 0))[2]
}

/// The lineage in the third word of `exec.dispatch`; 0 if the word cannot hold all of it.
#[inline(always)]
fn derived_word(derived: &[Derived], read: &Part, written: &Part) -> u64 {
    let [derived] = derived else { return 0 };
    match descent(derived, read, written) {
        (Descent::Unrecorded, _) => 0,
        (descent, offset) => match i16::try_from(offset) {
            Ok(offset) => (descent as u64) << 32 | u64::from(offset as u16) << 48,
            Err(_) => 0,
        },
    }
}

/// The words of a dispatch without messages.
fn words(
    outcome: Outcome,
    waits_for: Which,
    cause: Cause,
    ready_by: Which,
    (descent, parent_offset): (Descent, i16),
) -> [u64; 3] {
    let (duration_ticks, ready_ticks, base_number, reads, writes) = (0, 0, 0, 0, 0);
    Dispatch {
        duration_ticks,
        ready_ticks,
        base_number,
        reads,
        writes,
        outcome,
        waits_for,
        cause,
        ready_by,
        descent,
        parent_offset,
    }
    .words(u32::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Checks that [`Recorder::relayed`] assembles the same words as the code that the derive of the kind
    /// makes.
    #[test]
    fn a_dispatch_put_together_by_words_is_what_its_kind_says() {
        let all = Dispatch {
            duration_ticks: 0xdead_beef,
            ready_ticks: 0xfeed_0001,
            base_number: 0x8765_4321,
            reads: 0xabcd,
            writes: 0x9876,
            outcome: Outcome::BlockedOutput,
            waits_for: Which::Output,
            cause: Cause::Room,
            ready_by: Which::Input,
            descent: Descent::EachFromNext,
            parent_offset: -5,
        };
        let third =
            words(Outcome::BlockedOutput, Which::Output, Cause::Room, Which::Input, (Descent::Unrecorded, 0))
                [2];
        let (read, written) =
            (Part { stream: 7, first: 1000, count: 0xabcd }, Part { stream: 8, first: 50, count: 0x9876 });
        let derived =
            Derived { stream: 8, first: 50, parent_stream: 7, parent_first: 995, count: 0x9876, step: 1 };
        let words = [
            0xdead_beef | 0xfeed_0001 << 32,
            0x8765_4321 | 0xabcd << 32 | 0x9876 << 48,
            third | derived_word(&[derived], &read, &written),
        ];
        assert_eq!(words, all.words(u32::MAX));
        let far = Derived { parent_first: 1000 + (1 << 15), ..derived };
        assert_eq!(derived_word(&[far], &read, &written), 0);
        assert_eq!(derived_word(&[derived, derived], &read, &written), 0);
    }
}

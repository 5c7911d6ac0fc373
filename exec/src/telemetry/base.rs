//! The state that telemetry keeps between two dispatches of a task: what its dispatches have in common, and
//! how the task was made ready.

use std::cell::Cell;

use super::kinds::{Cause, Which};

/// Messages of one stream that a dispatch read or wrote: `first..first + count`.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    pub(super) stream: u64,
    pub(super) first: u64,
    pub(super) count: u64,
}

/// The stream and the cause that made a task ready, in one word, so that another thread can store it. The
/// default means not known.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadyBy(u64);

impl ReadyBy {
    /// A value that stands for no cause.
    pub(super) const NOTHING: ReadyBy = ReadyBy(u64::MAX);

    #[inline(always)]
    pub(super) fn new(cause: Cause, stream: u64) -> ReadyBy {
        ReadyBy(stream << 3 | (cause as u64 + 1))
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    pub(super) fn from_word(word: u64) -> ReadyBy {
        ReadyBy(word)
    }

    #[inline(always)]
    pub(super) fn stream(self) -> u64 {
        self.0 >> 3
    }

    #[inline(always)]
    pub(super) fn cause(self) -> Cause {
        match self.0 & 7 {
            1 => Cause::Created,
            2 => Cause::Input,
            3 => Cause::Room,
            4 => Cause::Yield,
            5 => Cause::End,
            _ => Cause::Unrecorded,
        }
    }
}

/// When and by what a task was made ready.
#[derive(Clone, Copy, Default)]
pub(crate) struct MadeReady {
    /// The time in ticks; 0: not measured.
    pub(super) at: u64,
    pub(super) by: ReadyBy,
}

impl MadeReady {
    /// Notes that a task was made ready by `stream`, or by no stream (0).
    #[inline]
    pub(super) fn new(at: u64, cause: Cause, stream: u64) -> MadeReady {
        MadeReady { at, by: ReadyBy::new(cause, stream) }
    }
}

/// The base of a task's dispatches that was recorded last, and the positions at which its streams continue.
/// Only the task's thread accesses these values.
#[derive(Default)]
pub(super) struct Stated {
    /// The number of the block that contains the base (0: none), in the element of the thread that the task's
    /// session number stands for.
    pub(super) block: Cell<u64>,
    pub(super) base: Cell<u32>,
    pub(super) input: Cell<u64>,
    pub(super) next_read: Cell<u64>,
    pub(super) output: Cell<u64>,
    pub(super) next_written: Cell<u64>,
    /// `usual` holds the third word of `exec.dispatch`, without lineage, for a dispatch that this cause made
    /// ready and after which the task waits for its base's input; [`ReadyBy::NOTHING`] if `usual` holds no
    /// word yet.
    pub(super) usual_by: Cell<ReadyBy>,
    pub(super) usual: Cell<u64>,
}

impl Stated {
    /// Whether the messages of `part` directly follow those that were last counted at the base's output (if
    /// `writes`) or input.
    pub(super) fn goes_on(&self, part: &Part, writes: bool) -> bool {
        if writes { self.writes_on(part) } else { self.reads_on(part) }
    }

    pub(super) fn holds(&self, block: u64, input: &Part, output: &Part) -> bool {
        self.block.get() == block
            && (input.count == 0 && !self.lacks_input(input) || self.reads_on(input))
            && (output.count == 0 && !self.lacks_output(output) || self.writes_on(output))
    }

    /// Whether the base has no input yet, and the dispatch read messages from `input`.
    #[inline]
    fn lacks_input(&self, input: &Part) -> bool {
        self.input.get() == 0 && input.stream != 0
    }

    /// Whether the base has no output yet, and the dispatch wrote messages to `output`.
    #[inline]
    fn lacks_output(&self, output: &Part) -> bool {
        self.output.get() == 0 && output.stream != 0
    }

    /// Whether the messages of `part` continue the base's input: they are of the same stream and follow the
    /// last ones.
    #[inline]
    pub(super) fn reads_on(&self, part: &Part) -> bool {
        self.input.get() == part.stream && self.next_read.get() == part.first
    }

    /// Whether the messages of `part` continue the base's output: they are of the same stream and follow the
    /// last ones.
    #[inline]
    pub(super) fn writes_on(&self, part: &Part) -> bool {
        self.output.get() == part.stream && self.next_written.get() == part.first
    }

    /// Adopts the streams that a dispatch used as the base's input and output; if a dispatch used no input or
    /// no output, the base's former one stays.
    pub(super) fn take(&self, input: &Part, output: &Part) {
        if input.count > 0 || self.input.get() == 0 {
            self.input.set(input.stream);
            self.next_read.set(input.first);
        }
        if output.count > 0 || self.output.get() == 0 {
            self.output.set(output.stream);
            self.next_written.set(output.first);
        }
    }

    #[inline(always)]
    pub(super) fn which(&self, stream: u64) -> Which {
        if stream == 0 {
            Which::None
        } else if stream == self.input.get() {
            Which::Input
        } else if stream == self.output.get() {
            Which::Output
        } else {
            Which::Named
        }
    }
}

/// Which bases a writer has recorded in the current block.
#[derive(Default)]
pub(super) struct Bases {
    pub(super) block: u64,
    pub(super) next: u32,
}

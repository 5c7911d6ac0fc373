//! The part of a stream that does not depend on the type of its messages: positions, flags and the two
//! ends' protocol.
//!
//! A stream is a bounded ring with one writer and one reader. Each end moves a private position (`pushed`,
//! `popped`) message by message, and publishes it (`tail`, `head`) once a dispatch. Both ends follow the same
//! protocol against lost wake-ups:
//!
//! - the end that publishes stores the position, *fence*, and checks whether the other end waits;
//! - the end that is about to wait stores that it waits, *fence*, and looks at the other's position again.
//!
//! Because of the two fences, at least one of the two ends sees the store of the other end. The fence is
//! needed only between threads: if the tasks at both ends live on one worker (the stream is "local"), plain
//! accesses are enough, because a worker never dispatches two tasks at once.
//!
//! **The worker of the other end** is cached by each end (`reader_home`, `writer_home`), together with the
//! *token* of the end's own worker. An end learns the other end's worker when it publishes with a fence. A
//! worker takes a new token whenever it gives a task away or gets one. The new token invalidates the caches
//! of all streams of that worker at once, and the next publication of each stream is fenced and fills the
//! stream's cache again. As the caches need no update, moving a task costs the same however many streams it
//! has.
//!
//! **Moving an end** to another task swaps the pointer to the task and waits until the peer is in no
//! `section` that could still use the old one. A peer that took the local path made no fence, so if the old
//! task belonged to another thread, the thread that moves the end lets the kernel make the fence
//! (`membarrier`). The flag `section` is thus an asymmetric hazard pointer: cheap for the publisher,
//! expensive for the mover.

mod local;
mod port;
pub(crate) mod stream;
pub(crate) mod tokens;

use std::any::TypeId;
use std::cell::Cell;
use std::ptr::NonNull;

use crate::sync::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, StoreFenced, barrier,
    barrier_everywhere, spin_loop, yield_now,
};

use crate::slab;
use crate::telemetry::{StreamTelemetry, WatchedStream, WatchedTask};

pub(crate) use port::Port;

/// The worker number of a task that is moving between workers, and of a blocking task.
pub(crate) const NOBODY: u32 = u32::MAX;
/// The worker number of a thread that is no worker; no task has this number.
pub(crate) const FOREIGN: u32 = u32::MAX - 1;

/// Tokens are multiples of [`TOKEN_STEP`]. The home that an end has cached is the token of this end's own
/// worker, to which [`ELSEWHERE`] is added if the other end lives on another worker, and [`OWN`] if the other
/// end lives on a thread of its own.
pub(crate) const TOKEN_STEP: u64 = 4;
pub(crate) const ELSEWHERE: u64 = 1;
pub(crate) const OWN: u64 = 2;
/// The home of an end that is not known; no worker's token has this value.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// The token of a thread that is no worker; all streams of such a thread use fences.
pub(crate) const NO_TOKEN: u64 = u64::MAX - 7;

/// Values of `reader_waiting`: the reader does not wait; its task sleeps; or its task sleeps and the wake-up
/// must name the port.
pub(crate) const AWAKE: u8 = 0;
pub(crate) const TASK_WAITS: u8 = 1;
pub(crate) const PORT_WAITS: u8 = 2;
/// A further bit in the result of a publication: the other end lives on another worker.
pub(crate) const BORDER: u8 = 4;

/// A mark of an end: the end is on a dispatch's list.
pub(crate) const TOUCHED: u8 = 1;
/// A mark of an end: the dispatch found the stream empty (at a reading end) or full (at a writing end).
pub(crate) const NOTED: u8 = 2;
/// A mark of an end: the end was dropped in the dispatch.
pub(crate) const LEAVES: u8 = 4;

/// A bit of a stream's capacity which says that the capacity follows the setting `exec.capacity`.
const FOLLOWS: u32 = 1 << 31;

/// The result of an attempt to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The wake-up is armed: the task at the other end will wake this task.
    Armed,
    /// The task can go on at once.
    Ready,
    /// The other end has left, so the wait would never end; the task has already seen that the end left.
    Over,
}

/// The holder of a stream's end, which is a task with counted references.
pub(crate) trait Holder: WatchedTask + Sized + 'static {
    /// Counts another reference and returns it.
    fn counted(&self) -> *mut Self;

    /// Gives up a reference.
    ///
    /// # Safety
    /// The caller owned the reference and does not use `holder` any more.
    unsafe fn release(holder: *mut Self);

    /// An end of this stream no longer belongs to the holder, which may still be marked as waiting for it.
    fn loses_end(&self, ring: &Ring<Self>);
}

/// The facts about a stream's messages that follow from their type.
pub(crate) struct Messages<H: 'static> {
    /// Frees the ring with its slots and the messages in them.
    pub(crate) free: unsafe fn(*mut Ring<H>),
    /// Computes the size, in bytes, of a message that its writer has written and not published; `None` if the
    /// type has no size. Callers must meet the safety conditions of [`stream::unpublished`].
    pub(crate) size: Option<unsafe fn(&Ring<H>, usize) -> u64>,
    /// Whether all messages have the same size.
    pub(crate) alike: bool,
    /// The messages' type, and the bytes of a slot for that type.
    pub(crate) of: TypeId,
    pub(crate) bytes: usize,
    /// Calls [`stream::room`] for the messages' type.
    pub(crate) room: fn(&Ring<H>) -> usize,
}

/// The fields that one end writes and those that the other end writes never share a cache line, wherever the
/// allocator puts a ring. The ring is not aligned to a line, because lines that are shared with other memory
/// cost less than the padding that would fill them.
#[repr(C)]
pub(crate) struct Ring<H: 'static> {
    pub(crate) writing: Writing<H>,
    /// The number of messages that the stream may hold, with the bit [`FOLLOWS`] if the capacity follows the
    /// setting. Only the writer changes the capacity, when it finds the stream full.
    pub(crate) capacity: AtomicU32,
    /// The number of references: one for each end, plus one while the port is in its task's stack or queue of
    /// ready ports.
    pub(crate) refs: AtomicU32,
    pub(crate) id: u64,
    pub(crate) telemetry: StreamTelemetry,
    /// The state of few streams; null for most. The reading task's thread makes the port before the port first
    /// waits, or when it leaves; the writer makes it when the reader is gone. The port is kept as long as the
    /// ring.
    port: AtomicPtr<Port>,
    pub(crate) messages: &'static Messages<H>,
    pub(crate) reading: Reading<H>,
}

/// The writer's side of a stream. No other thread writes these fields, unless a field's comment says so.
#[repr(C)]
pub(crate) struct Writing<H> {
    /// Messages published. The field is written by the writer (release, or fenced when the reader is
    /// elsewhere), read by the reader with acquire.
    pub(crate) tail: AtomicUsize,
    /// The number of messages written, published or not. Only the writer accesses the field.
    pub(crate) pushed: Cell<usize>,
    /// The value up to which `pushed` may grow in a dispatch of `task` without reading `head` again. Only the
    /// writer accesses the field, which equals `pushed` between dispatches, so that the first push of each
    /// dispatch takes the slow path.
    pub(crate) limit: Cell<usize>,
    /// The writing task: a counted reference. The field is written by the thread that attaches the end; the
    /// end itself reads it relaxed, to see whether another task uses it.
    pub(crate) task: AtomicPtr<H>,
    /// The slots of the writer's block, and their mask.
    pub(crate) slots: Cell<*mut u8>,
    /// The home of the reader, as the writer has learned it. The field is written (relaxed) by the thread
    /// that learned the home, inside its section, and set to [`UNKNOWN`] by the thread that moves the end.
    reader_home: AtomicU64,
    pub(crate) mask: Cell<u32>,
    /// The number of messages beyond `limit` for which there is room in a block that is not allocated yet.
    pub(crate) beyond: Cell<u32>,
    /// The low half of `pushed` when the writer's dispatch began. Only the writer accesses the field.
    mark: Cell<u32>,
    /// 1 while the writer may access the reading task through its pointer. The field is written by the writer
    /// (relaxed, then release), read by the thread that moves the reading end, after its fence.
    section: AtomicU8,
    /// The marks of the dispatch that uses the writing end: [`TOUCHED`], [`NOTED`], [`LEAVES`]. The field is
    /// written by that dispatch alone, which sets it to 0 with release when it releases the end; the next
    /// dispatch that uses the end reads it with acquire.
    pub(crate) state: AtomicU8,
    /// [`AWAKE`], [`TASK_WAITS`] or [`PORT_WAITS`]. The field is set by the reader, which waits, cleared by
    /// the writer, which wakes it. The flag is in the cache line of `tail` because both ends access `tail`
    /// just before the flag, so one line moves between the ends instead of two.
    pub(crate) reader_waiting: AtomicU8,
    /// 1 if the writing end is gone; set once by the writer after it stored `tail` for the last time.
    pub(crate) closed: AtomicU8,
}

/// The reader's side of a stream; the writer's side is [`Writing`].
#[repr(C)]
pub(crate) struct Reading<H> {
    // The first three fields are seldom written, because they may be in one cache line with the writer's.
    /// The reading task: a counted reference like [`Writing::task`].
    pub(crate) task: AtomicPtr<H>,
    /// The slots of the reader's block. The writer stores the slots of the first block here before it
    /// publishes the first message; from then on only the reader writes the field.
    pub(crate) slots: AtomicPtr<u8>,
    /// The home of the writer, as the reader has learned it; written by the same rules as `reader_home`.
    writer_home: AtomicU64,
    /// The number of messages whose reading was published, so that their slots are free again. The field is
    /// written by the reader, read by the writer with acquire.
    pub(crate) head: AtomicUsize,
    /// Messages read. Only the reader accesses the field.
    pub(crate) popped: Cell<usize>,
    /// The value up to which `popped` may grow in a dispatch of `task` without reading `tail` again. The
    /// field equals `popped` between dispatches.
    pub(crate) available: Cell<usize>,
    /// The mask of the reader's block; [`NO_BLOCK`] before the reader has a block.
    pub(crate) mask: Cell<u32>,
    /// The low half of `popped` when the reader's dispatch began.
    mark: Cell<u32>,
    /// 1 while the reader may access the writing task through its pointer.
    section: AtomicU8,
    /// The marks of the dispatch that uses the reading end: the same as in [`Writing::state`].
    pub(crate) state: AtomicU8,
    /// [`TASK_WAITS`] while the writer waits for room, else [`AWAKE`].
    pub(crate) writer_waiting: AtomicU8,
    /// 1 if the reading end is gone; set once by the reader after it stored `head` for the last time.
    pub(crate) reader_gone: AtomicU8,
    /// Whether the reader was woken because the stream has ended, or has seen the end itself.
    pub(crate) end_told: Cell<bool>,
    /// The last block, which is the largest, has two to the power of this many slots; a greater value if any
    /// block may be followed by another one. The writer writes the field (relaxed) before it publishes a message
    /// in a block after the largest so far.
    pub(crate) last_block: AtomicU8,
    /// The number of ends that are gone. Each end adds 1 when it goes (acquire-release).
    ends_gone: AtomicU8,
}

/// The binary logarithm of the number of slots in the largest block of a stream with this capacity.
fn last_block(capacity: usize) -> u8 {
    capacity.next_power_of_two().trailing_zeros() as u8
}

/// The mask of a reader that has read from no block yet.
pub(crate) const NO_BLOCK: u32 = u32::MAX;

impl<H: Holder> Ring<H> {
    #[inline(always)]
    pub(crate) fn new(
        id: u64,
        capacity: usize,
        telemetry: StreamTelemetry,
        messages: &'static Messages<H>,
    ) -> Ring<H> {
        assert!((1..=1 << 30).contains(&capacity), "a stream's capacity is 1 to 2^30 messages");
        let writing = Writing {
            tail: AtomicUsize::new(0),
            pushed: Cell::new(0),
            limit: Cell::new(0),
            task: AtomicPtr::new(std::ptr::null_mut()),
            slots: Cell::new(std::ptr::null_mut()),
            reader_home: AtomicU64::new(UNKNOWN),
            mask: Cell::new(0),
            beyond: Cell::new(0),
            mark: Cell::new(0),
            section: AtomicU8::new(0),
            state: AtomicU8::new(0),
            reader_waiting: AtomicU8::new(AWAKE),
            closed: AtomicU8::new(0),
        };
        let reading = Reading {
            task: AtomicPtr::new(std::ptr::null_mut()),
            head: AtomicUsize::new(0),
            popped: Cell::new(0),
            available: Cell::new(0),
            slots: AtomicPtr::new(std::ptr::null_mut()),
            writer_home: AtomicU64::new(UNKNOWN),
            mask: Cell::new(NO_BLOCK),
            mark: Cell::new(0),
            section: AtomicU8::new(0),
            state: AtomicU8::new(0),
            writer_waiting: AtomicU8::new(AWAKE),
            reader_gone: AtomicU8::new(0),
            end_told: Cell::new(false),
            last_block: AtomicU8::new(last_block(capacity)),
            ends_gone: AtomicU8::new(0),
        };
        Ring {
            writing,
            capacity: AtomicU32::new(capacity as u32),
            refs: AtomicU32::new(2),
            id,
            telemetry,
            port: AtomicPtr::new(std::ptr::null_mut()),
            messages,
            reading,
        }
    }

    /// The number of messages that the stream may hold.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed) & !FOLLOWS
    }

    /// Makes the capacity follow the setting from now on; the stream was made with the setting's value.
    pub(crate) fn follow_setting(&self) {
        self.capacity.fetch_or(FOLLOWS, Ordering::Relaxed);
    }

    /// Adopts `wanted`, the value of the setting `exec.capacity`, and returns the new capacity if the stream
    /// follows the setting and its capacity changed. Only the writer calls this function. After a reduction
    /// the messages in the stream stay, and the writer goes on when enough of them were read.
    #[inline]
    pub(crate) fn adopt(&self, wanted: u64) -> Option<u32> {
        let now = self.capacity.load(Ordering::Relaxed);
        if now & FOLLOWS == 0 || u64::from(now & !FOLLOWS) == wanted {
            return None;
        }
        self.adopt_other(now, wanted.clamp(1, 1 << 30) as u32)
    }

    /// Whether the capacity stays the same if the setting is `wanted`.
    #[inline]
    pub(crate) fn keeps_capacity(&self, wanted: u64) -> bool {
        let now = self.capacity.load(Ordering::Relaxed);
        now & FOLLOWS == 0 || u64::from(now & !FOLLOWS) == wanted
    }

    #[cold]
    fn adopt_other(&self, now: u32, wanted: u32) -> Option<u32> {
        if now & !FOLLOWS == wanted {
            return None;
        }
        // Blocks are kept when the capacity shrinks, so the last block is the largest that the stream ever
        // had. The reader sees the change with the first message in a larger block.
        let last = last_block(wanted as usize).max(self.reading.last_block.load(Ordering::Relaxed));
        self.reading.last_block.store(last, Ordering::Relaxed);
        self.capacity.store(wanted | FOLLOWS, Ordering::Relaxed);
        Some(now & !FOLLOWS)
    }

    /// Notes that a dispatch of the writer begins to use the writing end.
    #[inline]
    pub(crate) fn begin_writing(&self) {
        self.writing.mark.set(self.writing.pushed.get() as u32);
    }

    /// Notes that a dispatch of the reader begins to use the reading end.
    #[inline]
    pub(crate) fn begin_reading(&self) {
        self.reading.mark.set(self.reading.popped.get() as u32);
    }

    /// The number of messages written since the writer's dispatch began, which is always below 2^32.
    #[inline]
    pub(crate) fn written_since(&self) -> usize {
        (self.writing.pushed.get() as u32).wrapping_sub(self.writing.mark.get()) as usize
    }

    /// Messages read since the reader's dispatch began, including messages that the reader dropped unread
    /// when it left.
    #[inline]
    pub(crate) fn taken_since(&self) -> usize {
        (self.reading.popped.get() as u32).wrapping_sub(self.reading.mark.get()) as usize
    }

    // ---- the writer

    /// Publishes the messages written and returns whether and how the reader has to be woken. The caller
    /// wakes the reader if necessary, then calls [`Ring::leave_writer_section`].
    #[inline]
    pub(crate) fn publish_written(&self, me: u64, worker: u32) -> u8 {
        let tail = self.writing.pushed.get();
        self.writing.section.store(1, Ordering::Relaxed);
        if self.writing.reader_home.load(Ordering::Relaxed) == me {
            self.writing.tail.store(tail, Ordering::Release);
            take_waiting_here(&self.writing.reader_waiting)
        } else {
            self.writing.tail.store_fenced(tail);
            let border = learn_home(&self.writing.reader_home, &self.reading.task, me, worker);
            self.take_waiting(&self.writing.reader_waiting) | border
        }
    }

    /// Closes the stream after the last [`Ring::publish_written`] and releases the writing task; the result
    /// is like that of `publish_written`. `me` and `worker` are the calling thread's token and worker number.
    pub(crate) fn end_writing(&self, me: u64, worker: u32) -> u8 {
        if is_gone(&self.reading.reader_gone, &self.reading.section) {
            self.let_go_of(&self.writing.task);
            self.writing.closed.store(1, Ordering::Release);
            return AWAKE;
        }
        self.writing.section.store(1, Ordering::Relaxed);
        if self.writing.reader_home.load(Ordering::Relaxed) == me {
            self.let_go_of(&self.writing.task);
            self.reading.writer_home.store(UNKNOWN, Ordering::Relaxed);
            self.writing.closed.store(1, Ordering::Release);
            return take_waiting_here(&self.writing.reader_waiting);
        }
        // The section ends before the move below, because a thread that moves the reading end at the same
        // time waits for the end of this section, and this thread may wait for that thread.
        self.leave_writer_section();
        // The end is taken from its task before it is closed, because the reader may regard that task as
        // local although this thread is not the task's thread.
        self.move_writer(None, worker);
        self.close()
    }

    /// Marks the stream as closed; the result is like that of [`Ring::publish_written`].
    pub(crate) fn close(&self) -> u8 {
        self.writing.section.store(1, Ordering::Relaxed);
        self.writing.closed.store_fenced(1);
        self.take_waiting(&self.writing.reader_waiting)
    }

    #[inline]
    pub(crate) fn leave_writer_section(&self) {
        self.writing.section.store(0, Ordering::Release);
    }

    /// Reads `head`, and returns how many of the messages written were not read yet.
    #[inline]
    pub(crate) fn look_for_room(&self) -> usize {
        self.writing.pushed.get() - self.reading.head.load(Ordering::Acquire)
    }

    /// Reads `tail`, and returns how many of the published messages the reader has not read yet.
    #[inline]
    pub(crate) fn look_for_messages(&self) -> usize {
        self.writing.tail.load(Ordering::Acquire) - self.reading.popped.get()
    }

    /// Arms the wake-up for room, unless there is room or the reader is gone.
    pub(crate) fn wait_for_room(&self, me: u64) -> Wait {
        self.writing.section.store(1, Ordering::Relaxed);
        if self.writing.reader_home.load(Ordering::Relaxed) == me {
            self.reading.writer_waiting.store(TASK_WAITS, Ordering::Relaxed);
        } else {
            // On x86 a swap compiles to the same `xchg` as a store, and in addition reads the change that the
            // waker made before (as in `Inbox::sleep`).
            self.reading.writer_waiting.swap(TASK_WAITS, Ordering::SeqCst);
            barrier();
        }
        let gone = self.reading.reader_gone.load(Ordering::SeqCst) != 0;
        let free =
            self.writing.pushed.get() - self.reading.head.load(Ordering::SeqCst) < self.capacity() as usize;
        if gone || free {
            self.reading.writer_waiting.swap(AWAKE, Ordering::AcqRel);
        }
        self.writing.section.store(0, Ordering::Release);
        if gone || free { Wait::Ready } else { Wait::Armed }
    }

    // ---- the reader

    /// Frees the slots of the messages read and returns whether the writer has to be woken. The caller wakes
    /// the writer if necessary, then calls [`Ring::leave_reader_section`].
    #[inline]
    pub(crate) fn publish_read(&self, me: u64, worker: u32) -> u8 {
        let head = self.reading.popped.get();
        self.reading.section.store(1, Ordering::Relaxed);
        if self.reading.writer_home.load(Ordering::Relaxed) == me {
            self.reading.head.store(head, Ordering::Release);
            take_waiting_here(&self.reading.writer_waiting)
        } else {
            self.reading.head.store_fenced(head);
            let border = learn_home(&self.reading.writer_home, &self.writing.task, me, worker);
            self.take_waiting(&self.reading.writer_waiting) | border
        }
    }

    /// Marks that no task reads the stream any more, and releases the reading task; the result is like that
    /// of [`Ring::publish_read`]. `me` and `worker` are the calling thread's token and worker number.
    pub(crate) fn end_reading(&self, me: u64, worker: u32) -> u8 {
        if is_gone(&self.writing.closed, &self.writing.section) {
            self.let_go_of(&self.reading.task);
            self.reading.reader_gone.store(1, Ordering::Release);
            return AWAKE;
        }
        self.reading.section.store(1, Ordering::Relaxed);
        if self.reading.writer_home.load(Ordering::Relaxed) == me {
            self.let_go_of(&self.reading.task);
            self.writing.reader_home.store(UNKNOWN, Ordering::Relaxed);
            self.reading.reader_gone.store(1, Ordering::Release);
            return take_waiting_here(&self.reading.writer_waiting);
        }
        // The section ends before the end is moved, because a thread that moves the other end at the same
        // time waits for the end of this section, and this thread may wait for that thread.
        self.leave_reader_section();
        self.move_reader(None, worker);
        self.leave()
    }

    /// Marks that no task reads the stream any more; the result is like that of [`Ring::publish_read`].
    pub(crate) fn leave(&self) -> u8 {
        self.reading.section.store(1, Ordering::Relaxed);
        self.reading.reader_gone.store_fenced(1);
        self.take_waiting(&self.reading.writer_waiting)
    }

    #[inline]
    pub(crate) fn leave_reader_section(&self) {
        self.reading.section.store(0, Ordering::Release);
    }

    /// Whether the writer is gone and all messages were read.
    #[inline]
    pub(crate) fn ended(&self) -> bool {
        // `closed` is read first: if it is set, the `tail` read after it is final.
        self.writing.closed.load(Ordering::Acquire) != 0
            && self.writing.tail.load(Ordering::Acquire) == self.reading.popped.get()
    }

    /// Arms the wake-up of the reader by messages or by the stream's end, unless there are messages to read.
    /// `how` is [`TASK_WAITS`] or [`PORT_WAITS`]. When the stream ends, its reader is made ready once.
    pub(crate) fn wait_for_messages(&self, me: u64, how: u8) -> Wait {
        self.reading.section.store(1, Ordering::Relaxed);
        if self.reading.writer_home.load(Ordering::Relaxed) == me {
            self.writing.reader_waiting.store(how, Ordering::Relaxed);
        } else {
            // On x86 a swap compiles to the same `xchg` as a store, and in addition reads the change that the
            // waker made before.
            self.writing.reader_waiting.swap(how, Ordering::SeqCst);
            barrier();
        }
        let closed = self.writing.closed.load(Ordering::SeqCst) != 0;
        let some = self.writing.tail.load(Ordering::SeqCst) != self.reading.popped.get();
        let mut outcome = match (some, closed) {
            (true, _) => Wait::Ready,
            (false, true) if self.reading.end_told.get() => Wait::Over,
            (false, true) => Wait::Ready,
            (false, false) => Wait::Armed,
        };
        if outcome != Wait::Armed {
            let lost = self.writing.reader_waiting.swap(AWAKE, Ordering::AcqRel) == AWAKE;
            if lost && how == PORT_WAITS {
                outcome = Wait::Armed; // the writer was first: the port is on its way to the stack
            } else if closed && !some {
                self.reading.end_told.set(true);
            }
        }
        self.reading.section.store(0, Ordering::Release);
        outcome
    }

    // ---- both

    /// Calls `look` with the reading task if that task is known to be on the writer's thread, which has the
    /// token `me`.
    #[inline]
    pub(crate) fn look_at_reader_here<R>(&self, me: u64, look: impl FnOnce(&H) -> Option<R>) -> Option<R> {
        if self.writing.reader_home.load(Ordering::Relaxed) != me {
            return None;
        }
        self.writing.section.store(1, Ordering::Relaxed);
        let is_here = self.writing.reader_home.load(Ordering::Relaxed) == me;
        // SAFETY: this thread is in its section, and the cached home says that the reader is on this thread,
        // so a reference that is still visible is not given up.
        let reader = unsafe { self.reading.task.load(Ordering::Relaxed).as_ref() };
        let found = reader.filter(|_| is_here).and_then(look);
        self.leave_writer_section();
        found
    }

    /// Whether the writer is known to be on the reader's thread, which has the token `me`.
    #[inline]
    pub(crate) fn is_written_here(&self, me: u64) -> bool {
        self.reading.writer_home.load(Ordering::Relaxed) == me
    }

    /// Whether the reader has read all messages, reads from the block into which the writer writes, and waits
    /// for the next message. Only a thread that has both ends of the stream may call this function.
    #[inline]
    pub(crate) fn waits_empty_here(&self) -> bool {
        let Ring { writing, reading, .. } = self;
        writing.reader_waiting.load(Ordering::Relaxed) == TASK_WAITS
            && writing.pushed.get() == reading.popped.get()
            && writing.slots.get() == reading.slots.load(Ordering::Relaxed)
            && reading.state.load(Ordering::Relaxed) == 0
    }

    /// Counts `count` messages as written and published although they are in no slot of this stream. The
    /// calling thread must have both ends, and the stream must be empty.
    #[inline]
    pub(crate) fn write_in_name(&self, count: usize) {
        let end = self.writing.pushed.get() + count;
        self.writing.pushed.set(end);
        self.writing.limit.set(end);
        self.writing.tail.store(end, Ordering::Release);
    }

    /// Counts the last `count` messages, which [`Ring::write_in_name`] counted and nobody read, as written but
    /// not as published.
    pub(crate) fn unpublish(&self, count: usize) {
        self.writing.tail.store(self.writing.pushed.get() - count, Ordering::Release);
    }

    /// Counts messages as read, and their slots as free, after [`Ring::write_in_name`] counted them as
    /// written.
    #[inline]
    pub(crate) fn read_in_name(&self, count: usize) {
        let end = self.reading.popped.get() + count;
        self.reading.popped.set(end);
        self.reading.available.set(end);
        self.reading.head.store(end, Ordering::Release);
    }

    pub(crate) fn writer_section(&self) -> &AtomicU8 {
        &self.writing.section
    }

    #[inline]
    fn take_waiting(&self, waiting: &AtomicU8) -> u8 {
        match waiting.load(Ordering::SeqCst) {
            AWAKE => AWAKE,
            _ => waiting.swap(AWAKE, Ordering::AcqRel),
        }
    }

    /// Makes `task` (or none) the reader and releases the reference to the former reader. `worker` is the
    /// calling thread's worker number.
    pub(crate) fn move_reader(&self, task: Option<&H>, worker: u32) {
        if let Some(task) = task {
            self.telemetry.attached_to(task.number(), false);
        }
        self.move_end(&self.reading.task, &self.writing.reader_home, &self.writing.section, task, worker);
    }

    /// Makes `task` (or none) the writer and releases the reference to the former writer. `worker` is the
    /// calling thread's worker number.
    pub(crate) fn move_writer(&self, task: Option<&H>, worker: u32) {
        if let Some(task) = task {
            self.telemetry.attached_to(task.number(), true);
        }
        self.move_end(&self.writing.task, &self.reading.writer_home, &self.reading.section, task, worker);
    }

    /// Stores `task` (or none) as the task at the end `end`. The task at the other end (the peer) caches the
    /// home of that task in `home`, and uses the task only inside its section.
    #[inline]
    fn move_end(
        &self,
        end: &AtomicPtr<H>,
        home: &AtomicU64,
        peer_section: &AtomicU8,
        task: Option<&H>,
        worker: u32,
    ) {
        let new = task.map_or(std::ptr::null_mut(), H::counted);
        // Only the thread that moves the end changes the pointer. While no task has the end, the peer has
        // cached no home for it.
        if end.load(Ordering::Relaxed).is_null() {
            return end.store(new, Ordering::Release);
        }
        self.move_end_of_task(end, home, peer_section, new, worker);
    }

    #[cold]
    #[inline(never)]
    fn move_end_of_task(
        &self,
        end: &AtomicPtr<H>,
        home: &AtomicU64,
        peer_section: &AtomicU8,
        new: *mut H,
        worker: u32,
    ) {
        let before = end.swap(new, Ordering::SeqCst);
        home.store_fenced(UNKNOWN);
        // SAFETY: the pointer is the stream's counted reference, which was taken out of the field above.
        let theirs = unsafe { (*before).on_worker() };
        let barrier = || {
            if theirs != NOBODY && theirs != worker {
                barrier_everywhere();
            }
        };
        barrier();
        wait_until_zero(peer_section);
        if home.load(Ordering::SeqCst) != UNKNOWN {
            // The peer may have cached the former task's home meanwhile, and trusts that cache until it sees
            // this store.
            home.store_fenced(UNKNOWN);
            barrier();
            wait_until_zero(peer_section);
        }
        // SAFETY: the pointer is the stream's counted reference, which was taken out of the field above; the
        // peer is in no section that began before.
        unsafe {
            (*before).loses_end(self);
            H::release(before)
        }
    }

    /// Gives up the reference to the task at an end; the peer must not be using that task.
    fn let_go_of(&self, end: &AtomicPtr<H>) {
        let task = end.load(Ordering::Relaxed);
        end.store(std::ptr::null_mut(), Ordering::Relaxed);
        if !task.is_null() {
            // SAFETY: the pointer is the stream's counted reference, which was taken out of the field above.
            unsafe {
                (*task).loses_end(self);
                H::release(task)
            }
        }
    }

    /// The task that holds the other end of a stream that the calling thread's task writes (else reads), or
    /// 0.
    pub(crate) fn task_at_other_end(&self, writes: bool) -> u64 {
        let (section, peer) = if writes {
            (&self.writing.section, &self.reading.task)
        } else {
            (&self.reading.section, &self.writing.task)
        };
        if peer.load(Ordering::Relaxed).is_null() {
            return 0;
        }
        section.store_fenced(1);
        // SAFETY: this thread is in its section, so a reference of the ring that is still visible is not
        // given up.
        let id = unsafe { peer.load(Ordering::SeqCst).as_ref() }.map_or(0, WatchedTask::number);
        section.store(0, Ordering::Release);
        id
    }

    /// Counts an end of the stream that is gone; returns true if both ends are gone now.
    pub(crate) fn count_end(&self) -> bool {
        self.reading.ends_gone.fetch_add(1, Ordering::AcqRel) == 1
    }

    /// Gives up one reference to the stream; giving up the last one frees the stream.
    ///
    /// # Safety
    /// The caller owned the reference and does not use `ring` any more.
    pub(crate) unsafe fn release(ring: *mut Ring<H>) {
        // SAFETY: the reference that is given up here kept the ring alive until now.
        let (refs, free) = unsafe { (&(*ring).refs, (*ring).messages.free) };
        if refs.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the reference was the last one.
            unsafe { free(ring) }
        }
    }
}

impl<H: Holder> WatchedStream for Ring<H> {
    #[inline]
    fn number(&self) -> u64 {
        self.id
    }

    #[inline]
    fn holds(&self) -> u32 {
        self.capacity()
    }

    #[inline]
    fn telemetry(&self) -> &StreamTelemetry {
        &self.telemetry
    }

    #[inline]
    fn position(&self, writes: bool) -> usize {
        if writes { self.writing.pushed.get() } else { self.reading.popped.get() }
    }

    #[inline]
    fn passed_now(&self, writes: bool) -> usize {
        if writes { self.written_since() } else { self.taken_since() - self.discarded() }
    }

    #[inline]
    fn blocks(&self, writes: bool) -> bool {
        let state = if writes { &self.writing.state } else { &self.reading.state };
        state.load(Ordering::Relaxed) & NOTED != 0
    }

    #[inline]
    fn lost(&self, writes: bool) -> usize {
        if writes { self.refused() } else { self.discarded() }
    }

    fn peer(&self, writes: bool) -> u64 {
        self.task_at_other_end(writes)
    }

    fn totals(&self) -> (u64, u64, u64) {
        let read = (self.reading.popped.get() - self.discarded()) as u64;
        let written = (self.writing.pushed.get() + self.refused()) as u64;
        (written, read, written - read)
    }
}

impl<H> Drop for Ring<H> {
    fn drop(&mut self) {
        if let Some(port) = NonNull::new(self.port.load(Ordering::Relaxed)) {
            // SAFETY: `enroll` made the port, and no other reference to the ring exists.
            unsafe { slab::free_value(port) };
        }
    }
}

/// Clears and returns the wait flag of the other end, whose task lives on this thread.
#[inline]
fn take_waiting_here(waiting: &AtomicU8) -> u8 {
    let waits = waiting.load(Ordering::Relaxed);
    if waits != AWAKE {
        waiting.store(AWAKE, Ordering::Relaxed);
    }
    waits
}

/// Whether the other end is gone, and the thread that closed it no longer uses the tasks at the ends.
fn is_gone(end: &AtomicU8, section: &AtomicU8) -> bool {
    let gone = end.load(Ordering::Acquire) != 0;
    if gone {
        wait_until_zero(section);
    }
    gone
}

/// Caches on which worker the other end lives, and returns [`BORDER`] if that is another worker than the
/// caller's. The caller is in its section and past the fence; `me` and `worker` are the calling thread's
/// token and worker number.
#[inline]
fn learn_home<H: Holder>(home: &AtomicU64, end: &AtomicPtr<H>, me: u64, worker: u32) -> u8 {
    match home.load(Ordering::Relaxed).wrapping_sub(me) {
        ELSEWHERE => BORDER,
        OWN => 0,
        _ if me == NO_TOKEN => 0,
        _ => look_for_home(home, end, me, worker),
    }
}

#[cold]
fn look_for_home<H: Holder>(home: &AtomicU64, end: &AtomicPtr<H>, me: u64, worker: u32) -> u8 {
    // SAFETY: this thread is in its section and past its fence, so a reference that is still visible is not
    // given up.
    let Some(task) = (unsafe { end.load(Ordering::SeqCst).as_ref() }) else { return 0 };
    let learned = match task.on_worker() {
        // If the task is moving to this worker, the new token that the worker takes for the task makes this
        // cache invalid.
        NOBODY if !task.has_own_thread() => return 0,
        NOBODY => me + OWN,
        theirs if theirs == worker => me,
        _ => me + ELSEWHERE,
    };
    home.store(learned, Ordering::Relaxed);
    if learned == me + ELSEWHERE { BORDER } else { 0 }
}

/// Adds a mark to the state of an end that the calling dispatch uses.
#[inline]
pub(crate) fn mark(state: &AtomicU8, mark: u8) -> bool {
    let before = state.load(Ordering::Relaxed);
    state.store(before | mark, Ordering::Relaxed);
    before & mark == 0
}

/// Waits until another thread clears a flag, which it does within a few instructions or when its dispatch
/// ends.
pub(crate) fn wait_until_zero(flag: &AtomicU8) {
    let mut turns = 0_u32;
    while flag.load(Ordering::SeqCst) != 0 {
        turns += 1;
        if turns.is_multiple_of(64) { yield_now() } else { spin_loop() }
    }
}

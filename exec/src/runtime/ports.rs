//! Streams as users see them: a typed writing end ([`Out`]) and reading end ([`In`]) of one [`Ring`].

use std::any::TypeId;
use std::marker::PhantomData;
use std::ptr::NonNull;

use thalweg_space::NameRef;

#[cfg(not(loom))]
use crate::dispatch::Handed;
use crate::dispatch::{self, Core, Touch};
use crate::ring::stream::{self, messages, room, slot, take};
use crate::ring::{Messages, NOTED, TOUCHED, mark, wait_until_zero};
use crate::shared::Shared;
use crate::slab;
#[cfg(not(loom))]
use crate::stop::Stop;
use crate::sync::Ordering;
#[cfg(not(loom))]
use crate::sync::Slot;
use crate::task::cell::{Ring, TaskCell};
use crate::task::context::{Context, PassesTo};
use crate::telemetry::StreamTelemetry;

/// How a caller describes a stream to the runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamSpec {
    /// The stream's name in the space, or 0.
    pub name: NameRef,
    /// How many messages the stream holds (1 to 2^30); with `None`, as many as the setting `exec.capacity`
    /// says.
    pub capacity: Option<usize>,
}

/// The writing end of a stream. Dropping the writing end closes the stream: the reader still reads what was
/// written, then sees the end.
pub struct Out<T: Send + 'static> {
    ring: NonNull<Ring>,
    _messages: PhantomData<fn(T)>,
}

/// The reading end of a stream. If the reading end is dropped before the stream's end, later pushes succeed,
/// but their messages are dropped and counted.
pub struct In<T: Send + 'static> {
    ring: NonNull<Ring>,
    _messages: PhantomData<fn() -> T>,
}

// SAFETY: the end's private positions move with it: the thread that receives the end acquires them, and waits
// for a dispatch that still has the end on its list (`Core::own_*`). Messages are `Send`.
unsafe impl<T: Send + 'static> Send for Out<T> {}
// SAFETY: the thread that receives the end acquires the end's private positions, and messages are `Send`.
unsafe impl<T: Send + 'static> Send for In<T> {}
// SAFETY: `&Out` gives access to the stream's number only.
unsafe impl<T: Send + 'static> Sync for Out<T> {}

impl Shared {
    pub(crate) fn stream<T: Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        self.stream_of(spec, Plain::<T>::MESSAGES)
    }

    pub(crate) fn sized_stream<T: DeepSize + Send + 'static>(&self, spec: StreamSpec) -> (Out<T>, In<T>) {
        self.stream_of(spec, Measured::<T>::MESSAGES)
    }

    fn stream_of<T: Send + 'static>(
        &self,
        spec: StreamSpec,
        messages: &'static Messages<TaskCell>,
    ) -> (Out<T>, In<T>) {
        let (id, capacity) = self.new_stream(spec.capacity);
        let telemetry = StreamTelemetry::new(&self.home.board, id, spec.name, capacity as u32);
        let (out, input) = new_stream(id, capacity, telemetry, messages);
        if spec.capacity.is_none() {
            out.ring().follow_setting();
        }
        (out, input)
    }
}

/// A message that computes its size, which `thalweg streams` shows in bytes. Streams of such messages are
/// made by [`Runtime::sized_stream`](crate::Runtime::sized_stream) and [`Context::sized_stream`]; for other
/// streams the size is known only if their messages are plain data without pointers.
///
/// ```
/// use thalweg_exec::{DeepSize, Options, Runtime, StreamSpec};
///
/// struct Line(String);
///
/// impl DeepSize for Line {
///     fn deep_size(&self) -> u64 {
///         (size_of::<Line>() + self.0.len()) as u64
///     }
/// }
/// let runtime = Runtime::new(Options::default())?;
/// let (lines, input) = runtime.sized_stream::<Line>(StreamSpec::default());
/// # drop((lines, input));
/// # runtime.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait DeepSize {
    /// The bytes of the message itself and of all memory that it owns. The writing thread calls this for some
    /// of the messages before they are published, and the time counts as the thread's own work. If the call
    /// panics, no further size of that stream is measured.
    fn deep_size(&self) -> u64;
}

/// Marks messages without [`DeepSize`].
pub(crate) struct Plain<T>(PhantomData<T>);

impl<T: Send + 'static> Plain<T> {
    pub(crate) const MESSAGES: &'static Messages<TaskCell> = &Messages {
        free: free::<T>,
        size: if std::mem::needs_drop::<T>() { None } else { Some(|_, _| size_of::<T>() as u64) },
        alike: true,
        of: TypeId::of::<T>(),
        bytes: size_of::<T>(),
        room: room::<T>,
    };
}

/// Marks messages with [`DeepSize`].
struct Measured<T>(PhantomData<T>);

impl<T: DeepSize + Send + 'static> Measured<T> {
    const MESSAGES: &'static Messages<TaskCell> = &Messages {
        free: free::<T>,
        size: Some(Self::size),
        alike: false,
        of: TypeId::of::<T>(),
        bytes: size_of::<T>(),
        room: room::<T>,
    };

    /// # Safety
    /// The caller must meet the safety conditions of [`stream::unpublished`].
    unsafe fn size(ring: &Ring, at: usize) -> u64 {
        // SAFETY: guaranteed by the caller.
        unsafe { stream::unpublished(ring, at, T::deep_size) }
    }
}

pub(crate) fn new_stream<T: Send + 'static>(
    id: u64,
    capacity: usize,
    telemetry: StreamTelemetry,
    messages: &'static Messages<TaskCell>,
) -> (Out<T>, In<T>) {
    let ring = slab::memory::<Ring>();
    // SAFETY: the memory is as large as a ring, and no other code has it.
    unsafe { ring.write(Ring::new(id, capacity, telemetry, messages)) };
    (Out { ring, _messages: PhantomData }, In { ring, _messages: PhantomData })
}

/// # Safety
/// `ring` came from [`new_stream`] with this `T`, and no other reference to it exists.
pub(crate) unsafe fn free<T>(ring: *mut Ring) {
    let pointer = ring;
    // SAFETY: guaranteed by the caller; the reference ends before the ring is freed.
    let ring = unsafe { &*pointer };
    ring.writing.tail.store(ring.writing.pushed.get(), Ordering::Relaxed);
    let mut unread = 0;
    while messages::<T>(ring) > 0 {
        drop(take::<T>(ring));
        unread += 1;
    }
    if unread > 0
        && let Some(core) = dispatch::current()
    {
        // SAFETY: the core is this thread's own, and its reference to the shared state does not change.
        unsafe { &(*core.as_ptr()).shared }.home.admission.drop_unread(unread);
    }
    let block = ring.reading.slots.load(Ordering::Acquire);
    // SAFETY: guaranteed by the caller.
    unsafe { slab::free_value(NonNull::from(ring)) };
    // SAFETY: guaranteed by the caller; all messages were read above.
    unsafe { stream::free_blocks::<T>(block) }
}

/// Notes that the dispatch found the stream empty, unless the stream is in a group of inputs: for these
/// `Inputs` notes whether all are empty.
#[inline]
fn note_empty(ring: &Ring) {
    if ring.group().is_none() {
        mark(&ring.reading.state, NOTED);
    }
}

/// The result of a search for room before a push, if no room is known.
enum Room {
    Some,
    Full,
    NoReader,
}

impl<T: Send + 'static> Out<T> {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        // SAFETY: this end holds a reference to the ring.
        unsafe { self.ring.as_ref() }
    }

    /// The stream's number.
    pub fn id(&self) -> u64 {
        self.ring().id
    }

    /// Writes a message; gives it back when the stream is full.
    #[inline(always)]
    pub fn push(&mut self, cx: &mut Context<'_>, message: T) -> Result<(), T> {
        let ring = self.ring();
        let at = ring.writing.pushed.get();
        if at == ring.writing.limit.get() || ring.writing.task.load(Ordering::Relaxed) != cx.task.pointer() {
            match self.reserve(cx) {
                Room::Some => {}
                Room::Full => return Err(message),
                Room::NoReader => {
                    self.refuse(message);
                    return Ok(());
                }
            }
        }
        // SAFETY: the caller is the writer, and `limit` says that the slot is free.
        unsafe { slot::<T>(ring.writing.slots.get(), ring.writing.mask.get(), at).write(message) };
        ring.writing.pushed.set(at + 1);
        Ok(())
    }

    /// Drops and counts a message that no task will read.
    #[inline(never)]
    fn refuse(&self, message: T) {
        self.ring().refuse();
        drop(message);
    }

    /// A number of messages that can certainly be written now. If the number is 0, the call notes that this
    /// stream blocks the task.
    #[inline]
    pub fn room(&mut self, cx: &mut Context<'_>) -> usize {
        let ring = self.ring();
        if ring.writing.pushed.get() == ring.writing.limit.get()
            || ring.writing.task.load(Ordering::Relaxed) != cx.task.pointer()
        {
            match self.reserve(cx) {
                Room::Some => {}
                Room::Full => return 0,
                Room::NoReader => return ring.capacity() as usize,
            }
        }
        ring.writing.limit.get() - ring.writing.pushed.get() + ring.writing.beyond.get() as usize
    }

    /// What [`Task::passes_to`](crate::Task::passes_to) must return for a task that passes messages on by
    /// this stream.
    #[inline]
    pub fn passes_to(&mut self) -> PassesTo<'_> {
        PassesTo { ring: self.ring, _out: PhantomData }
    }

    /// Closes the stream, as dropping the writing end does.
    pub fn close(self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Looks for room. The part for an empty stream that the dispatch uses for the first time calls no other
    /// function, so it saves no registers.
    #[inline(never)]
    fn reserve(&self, cx: &mut Context<'_>) -> Room {
        let ring = self.ring();
        // SAFETY: the context's core outlives the context, and we hold no other reference to the core.
        let core = unsafe { cx.core().as_mut() };
        let is_plain = ring.writing.task.load(Ordering::Relaxed) == cx.task.pointer()
            && ring.writing.state.load(Ordering::Relaxed) == 0
            && core.handed.is_none()
            && ring.reading.reader_gone.load(Ordering::Acquire) == 0
            && ring.keeps_capacity(core.adopted.capacity);
        if is_plain
            && let Some(room) = stream::room_if_empty(ring)
            && core.used.touch_if_room(Touch { ring: self.ring, writes: true })
        {
            ring.writing.state.store(TOUCHED, Ordering::Relaxed);
            ring.begin_writing();
            ring.writing.limit.set(ring.writing.pushed.get() + room);
            ring.writing.beyond.set(ring.capacity() - room as u32);
            return Room::Some;
        }
        self.reserve_otherwise(cx)
    }

    #[inline(never)]
    fn reserve_otherwise(&self, cx: &mut Context<'_>) -> Room {
        let ring = self.ring();
        // SAFETY: the context's core outlives the context, and we hold no other reference to the core.
        let core = unsafe { cx.core().as_mut() };
        core.own_writer(self.ring);
        if core.handed.is_some() {
            mark(&ring.writing.state, NOTED);
            return Room::Full;
        }
        if ring.reading.reader_gone.load(Ordering::Acquire) != 0 {
            ring.writing.limit.set(ring.writing.pushed.get());
            return Room::NoReader;
        }
        // Also a stream that is never full adopts another capacity: a smaller one has an effect at once.
        if let Some(before) = ring.adopt(core.adopted.capacity) {
            cx.task.get().resized(before, ring.capacity());
            core.telemetry.stream_resized(ring);
        }
        if room::<T>(ring) == 0 {
            mark(&ring.writing.state, NOTED);
            return Room::Full;
        }
        Room::Some
    }

    pub(crate) fn ring_pointer(&self) -> NonNull<Ring> {
        self.ring
    }
}

impl<T: Send + 'static> Drop for Out<T> {
    fn drop(&mut self) {
        if let Some(core) = dispatch::current()
            && Core::writer_leaves_at_end(core, self.ring)
        {
            return;
        }
        wait_until_zero(&self.ring().writing.state);
        dispatch::close_writer(self.ring);
    }
}

impl<T: Send + 'static> In<T> {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        // SAFETY: this end holds a reference to the ring.
        unsafe { self.ring.as_ref() }
    }

    /// The stream's number.
    pub fn id(&self) -> u64 {
        self.ring().id
    }

    /// The stream and index of the next message, which need not have arrived yet, for
    /// [`Context::derived_from`].
    #[inline]
    pub fn next_message(&self) -> (u64, u64) {
        (self.ring().id, self.ring().reading.popped.get() as u64)
    }

    /// Reads the next message. `None`: no message is there now, or the stream has [ended](In::ended).
    #[inline(always)]
    pub fn pop(&mut self, cx: &mut Context<'_>) -> Option<T> {
        let ring = self.ring();
        if (ring.reading.popped.get() == ring.reading.available.get()
            || ring.reading.task.load(Ordering::Relaxed) != cx.task.pointer())
            && !self.refill(cx)
        {
            return None;
        }
        let message = take::<T>(ring);
        // SAFETY: the context's core outlives the context, and this is the core's thread.
        unsafe { &(*cx.core().as_ptr()).used.popped_last }.set(self.ring.as_ptr());
        Some(message)
    }

    /// The next messages as a slice in the stream's memory, where the caller may read and change them: at
    /// most `max`, and no more than are contiguous. The slice is empty if no message is there now or the
    /// stream has [ended](In::ended).
    #[inline(always)]
    #[cfg(not(loom))]
    pub fn upcoming(&mut self, cx: &mut Context<'_>, max: usize) -> &mut [T] {
        let ring = self.ring();
        if (ring.reading.popped.get() == ring.reading.available.get()
            || ring.reading.task.load(Ordering::Relaxed) != cx.task.pointer())
            && !self.refill(cx)
        {
            return &mut [];
        }
        let (slots, at, side_by_side) = self.readable();
        // SAFETY: the caller is the reader, and `available` says that these slots hold messages, which the
        // writer does not touch until they were popped. A slot is a message in a transparent cell.
        unsafe { std::slice::from_raw_parts_mut(slots.cast::<T>().add(at), side_by_side.min(max)) }
    }

    /// Moves messages to `out`, as [`In::pop`], [`Out::push`] and [`Context::derived`] would one by one: the
    /// next `count` messages, or fewer if fewer messages or slots are there now. Returns how many.
    #[cfg(not(loom))]
    pub fn transfer(&mut self, cx: &mut Context<'_>, count: usize, out: &mut Out<T>) -> usize {
        let mut left = count;
        while left > 0 && out.room(cx) > 0 {
            if out.ring().reading.reader_gone.load(Ordering::Relaxed) != 0 {
                return count - left + self.refuse(cx, left, out);
            }
            let moved = self.transfer_to_block(cx, left, out);
            left -= moved;
            // If `limit` was reached, there may be room in the next block; otherwise the input is empty.
            if out.ring().writing.limit.get() != out.ring().writing.pushed.get() {
                break;
            }
        }
        count - left
    }

    /// Moves messages like [`In::transfer`], but at most as many as fit into the block into which `out`
    /// writes, which has room.
    #[cfg(not(loom))]
    fn transfer_to_block(&mut self, cx: &mut Context<'_>, count: usize, out: &mut Out<T>) -> usize {
        let mut left = count.min(out.ring().writing.limit.get() - out.ring().writing.pushed.get());
        let before = left;
        while left > 0 {
            let moved = self.upcoming(cx, left).len();
            if moved == 0 {
                break;
            }
            left -= self.move_run(moved, out);
            // SAFETY: the context's core outlives the context, and this is the core's thread.
            unsafe { &(*cx.core().as_ptr()).used.popped_last }.set(self.ring.as_ptr());
        }
        let moved = before - left;
        if cx.full && moved > 0 {
            // SAFETY: the context's core outlives the context, and we hold no other reference to the core.
            unsafe { cx.core().as_mut() }.note_derived_run(out.ring(), moved);
        }
        moved
    }

    /// Moves messages that are contiguous in this stream and in the free slots of `out`, which has room for
    /// all. Returns how many.
    #[inline]
    #[cfg(not(loom))]
    fn move_run(&mut self, count: usize, out: &mut Out<T>) -> usize {
        let (from, from_at, _) = self.readable();
        let (read, written) = (self.ring(), out.ring());
        let to_at = written.writing.pushed.get() & written.writing.mask.get() as usize;
        let count = count.min(written.writing.mask.get() as usize + 1 - to_at);
        let to = written.writing.slots.get().cast::<Slot<T>>();
        // SAFETY: this thread has both ends. The messages in `from` are given away, because `popped` moves
        // past them; the slots in `to` are free, as `limit` says. Free slots and slots that hold messages do
        // not overlap, even if both streams are the same ring.
        unsafe { std::ptr::copy_nonoverlapping(from.add(from_at), to.add(to_at), count) };
        read.reading.popped.set(read.reading.popped.get() + count);
        written.writing.pushed.set(written.writing.pushed.get() + count);
        count
    }

    /// The slots, the slot index of the next message, and the number of contiguous messages from there on.
    #[inline(always)]
    #[cfg(not(loom))]
    fn readable(&self) -> (*mut Slot<T>, usize, usize) {
        let ring = self.ring();
        let (popped, mask) = (ring.reading.popped.get(), ring.reading.mask.get() as usize);
        let at = popped & mask;
        let side_by_side = (ring.reading.available.get() - popped).min(mask + 1 - at);
        (ring.reading.slots.load(Ordering::Relaxed).cast(), at, side_by_side)
    }

    /// Reads messages from this stream and drops them, because no task reads `out` any more.
    #[cold]
    #[cfg(not(loom))]
    fn refuse(&mut self, cx: &mut Context<'_>, count: usize, out: &Out<T>) -> usize {
        let messages = std::iter::from_fn(|| self.pop(cx)).take(count);
        messages.map(|message| out.refuse(message)).count()
    }

    /// Hands the next `count` of the [upcoming](In::upcoming) messages on, with the effect of
    /// [`In::transfer`]: the task that waits for the next message of `out` on this thread, as
    /// [`Context::hands_on`] has just found, works on them in place. If the result is `Some`, the calling
    /// task must stop now with the returned reason; until it stops, it finds nothing more to read and no
    /// room. If the result is `None`, the caller must transfer the messages.
    #[cfg(not(loom))]
    #[inline]
    pub fn hand_on(&mut self, cx: &mut Context<'_>, count: usize, out: &mut Out<T>) -> Option<Stop> {
        let (read, written) = (self.ring(), out.ring());
        let (slots, at, side_by_side) = self.readable();
        if count == 0
            || count > side_by_side
            || read.reading.task.load(Ordering::Relaxed) != cx.task.pointer()
        {
            return None;
        }
        // SAFETY: the offset lies inside the block, because `readable` returned the slots and the index of a
        // message in them.
        let first = unsafe { slots.add(at) }.cast();
        // SAFETY: the context's core outlives it, and no other reference to it is held.
        let reader = unsafe {
            let core = cx.core().as_mut();
            core.take_tasks_back();
            core.waiting_reader(written)
        }?;
        let to = Core::passer(cx.core(), written, reader, (first, count))
            .filter(|_| count <= written.capacity() as usize)?;
        // SAFETY: the context's core outlives the context, and we hold no other reference to the core.
        let core = unsafe { cx.core().as_mut() };
        let end = written.writing.pushed.get() + count;
        if core.handed.is_some() || core.telemetry.measures() && written.telemetry.sizes_are_due(end) {
            return None;
        }
        core.own_writer(out.ring);
        read.reading.popped.set(read.reading.popped.get() + count);
        let has_more = read.look_for_messages() > 0;
        read.reading.available.set(read.reading.popped.get());
        core.used.popped_last.set(self.ring.as_ptr());
        written.write_in_name(count);
        if cx.full {
            core.note_derived_run(written, count);
        }
        core.handed = Some(Handed { first, count, stream: out.ring, to });
        if has_more {
            return Some(Stop::QuantumSpent);
        }
        note_empty(read);
        Some(Stop::InputEmpty)
    }

    /// Whether the writer is gone and all messages were read.
    pub fn ended(&self) -> bool {
        let ended = self.ring().ended();
        if ended {
            self.ring().reading.end_told.set(true);
        }
        ended
    }

    /// The number of messages that were published and not read yet.
    pub fn len(&self) -> usize {
        self.ring().look_for_messages()
    }

    /// Whether there is no message to read now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether messages can be read, after a look for them. The part for a stream that this dispatch has used
    /// before, and that is empty, calls no other function, so it saves no registers.
    #[inline(never)]
    fn refill(&self, cx: &mut Context<'_>) -> bool {
        let ring = self.ring();
        let used_before = ring.reading.state.load(Ordering::Relaxed) & TOUCHED != 0
            && ring.reading.task.load(Ordering::Relaxed) == cx.task.pointer();
        if used_before && ring.look_for_messages() == 0 {
            note_empty(ring);
            return false;
        }
        self.look(cx)
    }

    #[inline(never)]
    fn look(&self, cx: &mut Context<'_>) -> bool {
        // SAFETY: the context's core outlives the context, and we hold no other reference to the core.
        let core = unsafe { cx.core().as_mut() };
        core.own_reader(self.ring);
        let ring = self.ring();
        let found = core.handed.is_none() && messages::<T>(ring) > 0;
        if !found {
            note_empty(ring);
        }
        found
    }

    /// Drops the messages that can be read.
    fn drain(&mut self) {
        let ring = self.ring();
        while messages::<T>(ring) > 0 {
            while ring.reading.popped.get() != ring.reading.available.get() {
                drop(take::<T>(ring));
            }
        }
    }

    pub(crate) fn ring_pointer(&self) -> NonNull<Ring> {
        self.ring
    }
}

impl<T: Send + 'static> Drop for In<T> {
    fn drop(&mut self) {
        let core = dispatch::current();
        let own = core.is_some_and(|core| Core::reader_leaves_at_end(core, self.ring));
        if !own {
            wait_until_zero(&self.ring().reading.state);
        }
        let read = self.ring().reading.popped.get();
        self.drain();
        self.ring().discard(self.ring().reading.popped.get() - read);
        if !own {
            dispatch::leave_reader(self.ring);
        }
    }
}

impl<T: Send + 'static> std::fmt::Debug for Out<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Out({})", self.id())
    }
}

impl<T: Send + 'static> std::fmt::Debug for In<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "In({})", self.id())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fill(ring: &Ring, count: u64) {
        for message in 0..count {
            assert!(room::<u64>(ring) > 0);
            let at = ring.writing.pushed.get();
            // SAFETY: this is the writer, and there is room.
            unsafe { slot::<u64>(ring.writing.slots.get(), ring.writing.mask.get(), at).write(message) };
            ring.writing.pushed.set(at + 1);
        }
        ring.writing.tail.store(ring.writing.pushed.get(), Ordering::Release);
    }

    fn drain(ring: &Ring, count: u64) {
        for message in 0..count {
            assert!(messages::<u64>(ring) > 0);
            assert_eq!(take::<u64>(ring), message);
        }
        assert_eq!(messages::<u64>(ring), 0);
        ring.reading.head.store(ring.reading.popped.get(), Ordering::Release);
    }

    /// Compares a stream with a queue: however the stream's capacity changes, and whenever its writer goes on in a
    /// smaller block, messages come out in order, none is lost, and the stream never accepts more than its capacity.
    #[test]
    fn a_stream_that_holds_more_or_fewer_than_before_loses_and_reorders_nothing() {
        let mut chance = thalweg_chance::Chance::new(0x9e37_79b9);
        let mut drawn = move |below: u64| chance.below(below);
        for _ in 0..300 {
            let first = 1 + drawn(9) as usize;
            let (output, input) =
                new_stream::<u64>(1, first, StreamTelemetry::none(), Plain::<u64>::MESSAGES);
            let ring = output.ring();
            assert_eq!(ring.adopt(50), None, "it does not follow the setting");
            ring.follow_setting();
            assert_eq!(ring.capacity() as usize, first);
            let (mut written, mut read) = (0, 0);
            for _ in 0..200 {
                match drawn(4) {
                    0 => {
                        let wanted = [1, 2, 3, 5, 16, 60, 200][drawn(7) as usize];
                        let before = u64::from(ring.capacity());
                        let adopted = ring.adopt(wanted);
                        assert_eq!(adopted, (before != wanted).then_some(before as u32));
                        assert_eq!(u64::from(ring.capacity()), wanted);
                    }
                    3 if !ring.writing.slots.get().is_null() => {
                        stream::shrink::<u64>(ring);
                        ring.writing.limit.set(ring.writing.pushed.get());
                    }
                    1 => {
                        for _ in 0..drawn(80) {
                            let free = u64::from(ring.capacity()).saturating_sub(written - read);
                            assert_eq!(room::<u64>(ring) as u64, free);
                            if free == 0 {
                                break;
                            }
                            let at = ring.writing.pushed.get();
                            let (slots, mask) = (ring.writing.slots.get(), ring.writing.mask.get());
                            // SAFETY: this is the writer, and there is room.
                            unsafe { slot::<u64>(slots, mask, at).write(written) };
                            ring.writing.pushed.set(at + 1);
                            written += 1;
                        }
                        ring.writing.tail.store(ring.writing.pushed.get(), Ordering::Release);
                    }
                    _ => {
                        for _ in 0..drawn(80) {
                            let there = messages::<u64>(ring);
                            assert_eq!(there == 0, read == written);
                            if there == 0 {
                                break;
                            }
                            assert_eq!(take::<u64>(ring), read);
                            read += 1;
                        }
                        ring.reading.head.store(ring.reading.popped.get(), Ordering::Release);
                    }
                }
            }
            drop((output, input));
        }
    }

    #[test]
    fn slots_grow_with_the_messages_that_wait_up_to_the_capacity() {
        let (output, input) = new_stream::<u64>(1, 100, StreamTelemetry::none(), Plain::<u64>::MESSAGES);
        let ring = output.ring();
        assert!(ring.writing.slots.get().is_null());
        for (waiting, slots) in [(1, 4), (4, 4), (5, 8), (3, 8), (40, 32), (64, 64), (100, 128), (100, 128)] {
            fill(ring, waiting);
            assert_eq!(ring.writing.mask.get() + 1, slots, "{waiting} wait");
            assert_eq!(room::<u64>(ring), 100 - waiting as usize);
            drain(ring, waiting);
        }
        drop((output, input));
    }

    #[test]
    fn slots_that_are_not_used_for_long_are_given_back() {
        let (output, input) = new_stream::<u64>(1, 256, StreamTelemetry::none(), Plain::<u64>::MESSAGES);
        let ring = output.ring();
        let slots = || ring.writing.mask.get() + 1;
        fill(ring, 256);
        drain(ring, 256);
        assert_eq!(slots(), 256);
        // Thirty messages at once are an eighth of 256 slots, but not of 128.
        for _ in 0..2000 {
            fill(ring, 30);
            drain(ring, 30);
        }
        assert_eq!(slots(), 128);
        for _ in 0..2000 {
            fill(ring, 1);
            drain(ring, 1);
        }
        assert_eq!((slots(), ring.reading.mask.get() + 1), (32, 32));
        // The stream grows as before.
        fill(ring, 256);
        assert_eq!(slots(), 256);
        drain(ring, 256);
        drop((output, input));
    }

    #[test]
    fn a_block_is_read_to_its_end_before_the_next() {
        let (output, input) = new_stream::<u64>(1, 64, StreamTelemetry::none(), Plain::<u64>::MESSAGES);
        fill(output.ring(), 6);
        assert_eq!((messages::<u64>(input.ring()), take::<u64>(input.ring())), (4, 0));
        assert_eq!(input.ring().reading.available.get(), 4);
        for message in 1..6 {
            assert!(messages::<u64>(input.ring()) > 0);
            assert_eq!(take::<u64>(input.ring()), message);
        }
        drop((output, input));
    }
}

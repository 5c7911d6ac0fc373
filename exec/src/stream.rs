//! Streams as users see them: a typed writing end ([`Out`]) and reading end ([`In`]) of one [`Ring`].

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;

use thalweg_space::NameRef;

use crate::context::Context;
use crate::dispatch::{self, Core};
use crate::ring::{NO_BLOCK, NOTED, Ring, TOUCHED, wait_until_zero};
use crate::spare::Spare;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, Slot};
use crate::telemetry::StreamTelemetry;

/// What the runtime is told about a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamSpec {
    /// Its name in the space, or 0.
    pub name: NameRef,
    /// How many messages it holds (1 to 2^30); none: the setting `exec.capacity`.
    pub capacity: Option<usize>,
}

/// The writing end of a stream. Dropping it closes the stream: what was written remains to be read, then the
/// reader sees the end.
pub struct Out<T: Send + 'static> {
    ring: NonNull<Ring>,
    _messages: PhantomData<fn(T)>,
}

/// The reading end of a stream. Dropping it before the end makes later pushes succeed, but drop what they
/// push and count it.
pub struct In<T: Send + 'static> {
    ring: NonNull<Ring>,
    _messages: PhantomData<fn() -> T>,
}

// SAFETY: the end's private positions move with it: whoever receives the end acquires them, and who still has it
// on a dispatch's list is waited for (`Core::own_*`). Messages are `Send`.
unsafe impl<T: Send + 'static> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T: Send + 'static> Send for In<T> {}
// SAFETY: `&Out` gives the stream's number only.
unsafe impl<T: Send + 'static> Sync for Out<T> {}

pub(crate) fn new_stream<T: Send + 'static>(
    id: u64,
    capacity: usize,
    telemetry: StreamTelemetry,
) -> (Out<T>, In<T>) {
    let ring = Spare::make(Ring::new(id, capacity, telemetry, free::<T>));
    (Out { ring, _messages: PhantomData }, In { ring, _messages: PhantomData })
}

/// Slots that a stream begins with. Whenever they are all in use, it goes on in a block of twice as many, up to its
/// capacity; so a stream that is seldom full stays small.
const SLOTS_AT_FIRST: usize = if cfg!(loom) { 1 } else { 4 };

/// What stands before a block's slots.
struct Header {
    /// The slots of the block that the writer went on in, if it did. Set once by the writer (release) after `end`, read
    /// by the reader (acquire), which then gives this block back.
    next: AtomicPtr<u8>,
    /// The message that the next block begins with. Written (relaxed) before `next`, read after it.
    end: AtomicUsize,
    /// The message that this block begins with. Written before anybody else sees the block.
    begin: usize,
    /// Slots less one; the slots are a power of two.
    mask: u32,
}

/// How a block of `count` slots lies in memory, and where in it the slots begin.
fn layout<T>(count: usize) -> (Layout, usize) {
    let slots = Layout::array::<Slot<T>>(count).expect("2^30 messages fit into an address space");
    Layout::new::<Header>().extend(slots).expect("a header fits, too")
}

/// A new block that begins with message `begin`: its slots.
fn new_block<T>(count: usize, begin: usize) -> *mut u8 {
    let (layout, offset) = layout::<T>(count);
    let header = Header {
        next: AtomicPtr::new(std::ptr::null_mut()),
        end: AtomicUsize::new(0),
        begin,
        mask: count as u32 - 1,
    };
    // SAFETY: a header has a size; header and slots lie inside what was allocated for them.
    unsafe {
        let block = std::alloc::alloc(layout);
        if block.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        block.cast::<Header>().write(header);
        let slots = block.add(offset);
        (0..count).for_each(|at| slots.cast::<Slot<T>>().add(at).write(Slot::empty()));
        slots
    }
}

/// # Safety
/// `slots` are those of a block of a ring of `T`.
unsafe fn header<'a, T>(slots: *mut u8) -> &'a Header {
    let (_, offset) = layout::<T>(1);
    // SAFETY: as demanded of the caller; the offset does not depend on the count.
    unsafe { &*slots.sub(offset).cast::<Header>() }
}

/// Gives a block back. The messages in it are not dropped.
///
/// # Safety
/// `slots` are those of a block of a ring of `T`, which nobody uses any more.
unsafe fn free_block<T>(slots: *mut u8) {
    // SAFETY: as demanded of the caller; slots do not drop their messages.
    unsafe {
        let count = header::<T>(slots).mask as usize + 1;
        let (layout, offset) = layout::<T>(count);
        let block = slots.sub(offset);
        (0..count).for_each(|at| std::ptr::drop_in_place(slots.cast::<Slot<T>>().add(at)));
        std::ptr::drop_in_place(block.cast::<Header>());
        std::alloc::dealloc(block, layout);
    }
}

/// # Safety
/// `ring` came from [`new_stream`] with this `T`, and nobody else has it any more.
pub(crate) unsafe fn free<T>(ring: *mut Ring) {
    let pointer = ring;
    // SAFETY: as demanded of the caller; the reference ends before the ring is freed.
    let ring = unsafe { &*pointer };
    ring.tail.store(ring.pushed.get(), Ordering::Relaxed);
    let mut unread = 0;
    while messages::<T>(ring) > 0 {
        drop(take::<T>(ring));
        unread += 1;
    }
    if let Some(core) = dispatch::current() {
        // SAFETY: the thread's own core; its share of the runtime stays as it is.
        unsafe { &(*core.as_ptr()).shared }.admission.drop_unread(unread);
    }
    let mut block = ring.read_slots.load(Ordering::Acquire);
    // SAFETY: as demanded of the caller.
    unsafe { Spare::free(pointer) };
    // The writer may have looked for room and then written nothing: a block behind the last that was read is empty.
    while !block.is_null() {
        // SAFETY: all messages were read, and nobody else has the ring.
        unsafe {
            let next = header::<T>(block).next.load(Ordering::Acquire);
            free_block::<T>(block);
            block = next;
        }
    }
}

/// Looks for room: how many messages may be written, now (up to `limit`) and in a block to come.
#[inline]
pub(crate) fn room<T>(ring: &Ring) -> usize {
    let used = ring.look_for_room();
    let room = ring.capacity as usize - used;
    let in_block = if room == 0 { 0 } else { room_in_block::<T>(ring, used).min(room) };
    ring.limit.set(ring.pushed.get() + in_block);
    ring.beyond.set((room - in_block) as u32);
    room
}

/// How many slots of the writer's block are free; makes it a new one if none is. `used` messages are not read yet, and
/// the stream is not full.
#[inline]
fn room_in_block<T>(ring: &Ring, used: usize) -> usize {
    let count = ring.write_mask.get() as usize + 1;
    if !ring.write_slots.get().is_null() {
        if used == 0 || count >= ring.capacity as usize {
            return count;
        }
        // SAFETY: the writer's own block.
        let begin = unsafe { header::<T>(ring.write_slots.get()) }.begin;
        let in_use = used.min(ring.pushed.get() - begin);
        if in_use < count {
            return count - in_use;
        }
    }
    grow::<T>(ring)
}

#[cold]
#[inline(never)]
fn grow<T>(ring: &Ring) -> usize {
    let before = ring.write_slots.get();
    let most = (ring.capacity as usize).next_power_of_two();
    let count = if before.is_null() { SLOTS_AT_FIRST } else { 2 * (ring.write_mask.get() as usize + 1) };
    let (count, begin) = (count.min(most), ring.pushed.get());
    let slots = new_block::<T>(count, begin);
    if before.is_null() {
        ring.read_slots.store(slots, Ordering::Release);
    } else {
        // SAFETY: the writer's own block until `next` is set.
        let header = unsafe { header::<T>(before) };
        header.end.store(begin, Ordering::Relaxed);
        header.next.store(slots, Ordering::Release);
    }
    ring.write_slots.set(slots);
    ring.write_mask.set(count as u32 - 1);
    count
}

/// The dispatch found the stream empty. In a group of inputs that is seen to elsewhere.
#[inline]
fn note_empty(ring: &Ring) {
    if ring.group().is_none() {
        Ring::mark(&ring.read_state, NOTED);
    }
}

/// Looks for messages: how many may be read from the reader's block, which is the next one if this was read to its end.
#[inline]
pub(crate) fn messages<T>(ring: &Ring) -> usize {
    let (tail, popped) = (ring.tail.load(Ordering::Acquire), ring.popped.get());
    ring.available.set(popped);
    if tail == popped {
        return 0;
    }
    if ring.read_mask.get() == NO_BLOCK {
        // The `tail` just seen covers it.
        enter_block::<T>(ring, ring.read_slots.load(Ordering::Relaxed));
    }
    let mut end = end_of_block::<T>(ring, tail);
    if end == popped {
        enter_next_block::<T>(ring);
        end = end_of_block::<T>(ring, tail);
    }
    ring.available.set(end);
    end - popped
}

/// Up to where the messages before `tail` stand in the reader's block.
#[inline]
fn end_of_block<T>(ring: &Ring, tail: usize) -> usize {
    if ring.in_last_block.get() {
        return tail;
    }
    // SAFETY: the reader's own block.
    let header = unsafe { header::<T>(ring.read_slots.load(Ordering::Relaxed)) };
    // A message behind the block's end was published after `next`, so a `tail` that covers one shows it.
    if header.next.load(Ordering::Acquire).is_null() {
        tail
    } else {
        tail.min(header.end.load(Ordering::Relaxed))
    }
}

/// Goes on in the next block and gives back this, which is the reader's own, read to its end, and left by the writer.
#[cold]
#[inline(never)]
fn enter_next_block<T>(ring: &Ring) {
    let block = ring.read_slots.load(Ordering::Relaxed);
    // SAFETY: as said, so nobody uses it after this.
    unsafe {
        enter_block::<T>(ring, header::<T>(block).next.load(Ordering::Acquire));
        free_block::<T>(block);
    }
}

#[cold]
#[inline(never)]
fn enter_block<T>(ring: &Ring, slots: *mut u8) {
    ring.read_slots.store(slots, Ordering::Relaxed);
    // SAFETY: the block was published to the reader.
    let mask = unsafe { header::<T>(slots) }.mask;
    ring.read_mask.set(mask);
    ring.in_last_block.set(mask >= ring.capacity - 1);
}

/// Reads a message that [`messages`] found.
#[inline(always)]
pub(crate) fn take<T>(ring: &Ring) -> T {
    let at = ring.popped.get();
    ring.popped.set(at + 1);
    // SAFETY: the caller is the reader, and `available` says that the slot holds a message.
    unsafe { slot::<T>(ring.read_slots.load(Ordering::Relaxed), ring.read_mask.get(), at).read() }
}

/// # Safety
/// `slots` are those of a block of a ring of `T` with this mask.
#[inline(always)]
pub(crate) unsafe fn slot<'a, T>(slots: *mut u8, mask: u32, at: usize) -> &'a Slot<T> {
    // SAFETY: as demanded of the caller; the mask keeps the index inside.
    unsafe { &*slots.cast::<Slot<T>>().add(at & mask as usize) }
}

/// What stands before a push that has no known room.
enum Room {
    Some,
    Full,
    NoReader,
}

impl<T: Send + 'static> Out<T> {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        // SAFETY: this end holds a reference.
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
        let at = ring.pushed.get();
        if at == ring.limit.get() || ring.writer.load(Ordering::Relaxed) != cx.task {
            match self.reserve(cx) {
                Room::Some => {}
                Room::Full => return Err(message),
                Room::NoReader => {
                    self.refuse(message);
                    return Ok(());
                }
            }
        }
        // SAFETY: we are the writer, and `limit` says that the slot is free.
        unsafe { slot::<T>(ring.write_slots.get(), ring.write_mask.get(), at).write(message) };
        ring.pushed.set(at + 1);
        Ok(())
    }

    /// Drops and counts a message that nobody will read.
    #[inline(never)]
    fn refuse(&self, message: T) {
        self.ring().refused.set(self.ring().refused.get() + 1);
        drop(message);
    }

    /// How many messages can be written now at least. 0 notes this stream as one the task is blocked on.
    #[inline]
    pub fn room(&mut self, cx: &mut Context<'_>) -> usize {
        let ring = self.ring();
        if ring.pushed.get() == ring.limit.get() || ring.writer.load(Ordering::Relaxed) != cx.task {
            match self.reserve(cx) {
                Room::Some => {}
                Room::Full => return 0,
                Room::NoReader => return ring.capacity as usize,
            }
        }
        ring.limit.get() - ring.pushed.get() + ring.beyond.get() as usize
    }

    /// Closes the stream; the same as dropping this end.
    pub fn close(self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    #[inline(never)]
    fn reserve(&self, cx: &mut Context<'_>) -> Room {
        let ring = self.ring();
        // SAFETY: the context's core outlives it, and we hold no other reference to it.
        let core = unsafe { cx.core.as_mut() };
        core.own_writer(self.ring);
        if ring.reader_gone.load(Ordering::Acquire) != 0 {
            ring.limit.set(ring.pushed.get());
            return Room::NoReader;
        }
        if room::<T>(ring) == 0 {
            Ring::mark(&ring.write_state, NOTED);
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
        wait_until_zero(&self.ring().write_state);
        dispatch::close_writer(self.ring);
    }
}

impl<T: Send + 'static> In<T> {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        // SAFETY: this end holds a reference.
        unsafe { self.ring.as_ref() }
    }

    /// The stream's number.
    pub fn id(&self) -> u64 {
        self.ring().id
    }

    /// The message that comes next, whether it is there already or not: its stream and its index there, for
    /// [`Context::derived_from`].
    #[inline]
    pub fn next_message(&self) -> (u64, u64) {
        (self.ring().id, self.ring().popped.get() as u64)
    }

    /// Reads the next message. `None`: there is none now, or the stream has [`In::ended`].
    #[inline(always)]
    pub fn pop(&mut self, cx: &mut Context<'_>) -> Option<T> {
        let ring = self.ring();
        if (ring.popped.get() == ring.available.get() || ring.reader.load(Ordering::Relaxed) != cx.task)
            && !self.refill(cx)
        {
            return None;
        }
        let message = take::<T>(ring);
        // SAFETY: the task being dispatched is alive, and this is its thread.
        unsafe { &(*cx.core.as_ptr()).popped_last }.set(self.ring.as_ptr());
        Some(message)
    }

    /// The messages that come next, as many of them as stand side by side in memory, to be looked at and changed where
    /// they are: at most `max`. Empty: there are none now, or the stream has [`In::ended`].
    #[inline(always)]
    #[cfg(not(loom))]
    pub fn upcoming(&mut self, cx: &mut Context<'_>, max: usize) -> &mut [T] {
        let ring = self.ring();
        if (ring.popped.get() == ring.available.get() || ring.reader.load(Ordering::Relaxed) != cx.task)
            && !self.refill(cx)
        {
            return &mut [];
        }
        let (slots, at, side_by_side) = self.readable();
        // SAFETY: we are the reader, and `available` says that these slots hold messages, which the writer does not
        // touch until they were popped. A slot is a message in a transparent cell.
        unsafe { std::slice::from_raw_parts_mut(slots.cast::<T>().add(at), side_by_side.min(max)) }
    }

    /// Moves messages to `out`, as [`In::pop`], [`Out::push`] and [`Context::derived`] would one by one: the next `count`,
    /// or as many of them as there are now and have room. Returns how many.
    #[cfg(not(loom))]
    pub fn transfer(&mut self, cx: &mut Context<'_>, count: usize, out: &mut Out<T>) -> usize {
        let mut left = count;
        while left > 0 && out.room(cx) > 0 {
            if out.ring().reader_gone.load(Ordering::Relaxed) != 0 {
                return count - left + self.refuse(cx, left, out);
            }
            let moved = self.transfer_to_block(cx, left, out);
            left -= moved;
            // Else the input is empty, or there is room in the next block.
            if out.ring().limit.get() != out.ring().pushed.get() {
                break;
            }
        }
        count - left
    }

    /// Likewise up to the end of the block that `out` writes into, in which there is room.
    #[cfg(not(loom))]
    fn transfer_to_block(&mut self, cx: &mut Context<'_>, count: usize, out: &mut Out<T>) -> usize {
        let mut left = count.min(out.ring().limit.get() - out.ring().pushed.get());
        let before = left;
        while left > 0 {
            let moved = self.upcoming(cx, left).len();
            if moved == 0 {
                break;
            }
            left -= self.move_run(moved, out);
            // SAFETY: the task being dispatched is alive, and this is its thread.
            unsafe { &(*cx.core.as_ptr()).popped_last }.set(self.ring.as_ptr());
        }
        let moved = before - left;
        if cx.full && moved > 0 {
            // SAFETY: the context's core outlives it, and we hold no other reference to it.
            unsafe { cx.core.as_mut() }.note_derived_run(out.ring(), moved);
        }
        moved
    }

    /// Moves messages that stand side by side, up to where the room in `out` does; there is room for all. Returns how many.
    #[inline]
    #[cfg(not(loom))]
    fn move_run(&mut self, count: usize, out: &mut Out<T>) -> usize {
        let (from, from_at, _) = self.readable();
        let (read, written) = (self.ring(), out.ring());
        let to_at = written.pushed.get() & written.write_mask.get() as usize;
        let count = count.min(written.write_mask.get() as usize + 1 - to_at);
        let to = written.write_slots.get().cast::<Slot<T>>();
        // SAFETY: both ends are ours. The messages in `from` are given away, by `popped`; the slots in `to` are free, by
        // `limit`. Slots that hold messages and free ones do not overlap, not even in one ring.
        unsafe { std::ptr::copy_nonoverlapping(from.add(from_at), to.add(to_at), count) };
        read.popped.set(read.popped.get() + count);
        written.pushed.set(written.pushed.get() + count);
        count
    }

    /// The slots, where in them the next message stands, and how many stand side by side from there on.
    #[inline(always)]
    #[cfg(not(loom))]
    fn readable(&self) -> (*mut Slot<T>, usize, usize) {
        let ring = self.ring();
        let (popped, mask) = (ring.popped.get(), ring.read_mask.get() as usize);
        let at = popped & mask;
        let side_by_side = (ring.available.get() - popped).min(mask + 1 - at);
        (ring.read_slots.load(Ordering::Relaxed).cast(), at, side_by_side)
    }

    /// Reads messages that nobody will read.
    #[cold]
    #[cfg(not(loom))]
    fn refuse(&mut self, cx: &mut Context<'_>, count: usize, out: &Out<T>) -> usize {
        let messages = std::iter::from_fn(|| self.pop(cx)).take(count);
        messages.map(|message| out.refuse(message)).count()
    }

    /// Whether the writer is gone and everything was read.
    pub fn ended(&self) -> bool {
        let ended = self.ring().ended();
        if ended {
            self.ring().end_told.set(true);
        }
        ended
    }

    /// Messages published and not read yet.
    pub fn len(&self) -> usize {
        self.ring().look_for_messages()
    }

    /// Whether there is no message to read now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(never)]
    fn refill(&self, cx: &mut Context<'_>) -> bool {
        let ring = self.ring();
        let used_before = ring.read_state.load(Ordering::Relaxed) & TOUCHED != 0
            && ring.reader.load(Ordering::Relaxed) == cx.task;
        if used_before && ring.look_for_messages() == 0 {
            note_empty(ring);
            return false;
        }
        self.look(cx)
    }

    #[inline(never)]
    fn look(&self, cx: &mut Context<'_>) -> bool {
        // SAFETY: the context's core outlives it, and we hold no other reference to it.
        let core = unsafe { cx.core.as_mut() };
        core.own_reader(self.ring);
        let ring = self.ring();
        let found = messages::<T>(ring) > 0;
        if !found {
            note_empty(ring);
        }
        found
    }

    /// Drops what can be read.
    fn drain(&mut self) {
        let ring = self.ring();
        while messages::<T>(ring) > 0 {
            while ring.popped.get() != ring.available.get() {
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
            wait_until_zero(&self.ring().read_state);
        }
        let read = self.ring().popped.get();
        self.drain();
        self.ring().discarded.set(self.ring().popped.get() - read);
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
            let at = ring.pushed.get();
            // SAFETY: this is the writer, and there is room.
            unsafe { slot::<u64>(ring.write_slots.get(), ring.write_mask.get(), at).write(message) };
            ring.pushed.set(at + 1);
        }
        ring.tail.store(ring.pushed.get(), Ordering::Release);
    }

    fn drain(ring: &Ring, count: u64) {
        for message in 0..count {
            assert!(messages::<u64>(ring) > 0);
            assert_eq!(take::<u64>(ring), message);
        }
        assert_eq!(messages::<u64>(ring), 0);
        ring.head.store(ring.popped.get(), Ordering::Release);
    }

    #[test]
    fn slots_grow_with_the_messages_that_wait_up_to_the_capacity() {
        let (output, input) = new_stream::<u64>(1, 100, StreamTelemetry::none());
        let ring = output.ring();
        assert!(ring.write_slots.get().is_null());
        for (waiting, slots) in [(1, 4), (4, 4), (5, 8), (3, 8), (40, 32), (64, 64), (100, 128), (100, 128)] {
            fill(ring, waiting);
            assert_eq!(ring.write_mask.get() + 1, slots, "{waiting} wait");
            assert_eq!(room::<u64>(ring), 100 - waiting as usize);
            drain(ring, waiting);
        }
        drop((output, input));
    }

    #[test]
    fn a_block_is_read_to_its_end_before_the_next() {
        let (output, input) = new_stream::<u64>(1, 64, StreamTelemetry::none());
        fill(output.ring(), 6);
        assert_eq!((messages::<u64>(input.ring()), take::<u64>(input.ring())), (4, 0));
        assert_eq!(input.ring().available.get(), 4);
        for message in 1..6 {
            assert!(messages::<u64>(input.ring()) > 0);
            assert_eq!(take::<u64>(input.ring()), message);
        }
        drop((output, input));
    }
}

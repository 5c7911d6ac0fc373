//! The messages of a stream: blocks of slots. The stream's [`Ring`] holds the positions of reader and writer
//! in the blocks.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use crate::ring::{Holder, NO_BLOCK, Ring};
use crate::slab::{self, UNIT};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, Slot};

/// The number of slots that a stream begins with. Whenever all slots are in use, the stream goes on in a
/// block of twice as many, up to its capacity; so a stream that is seldom full stays small. A stream that uses
/// few slots of its block for long goes on in a block of half as many.
const SLOTS_AT_FIRST: usize = if cfg!(loom) { 1 } else { 4 };

/// The header before a block's slots.
struct Header {
    /// The slots of the block in which the writer went on; null if it still writes into this block. The field
    /// is set once by the writer (release) after `end`, and read by the reader (acquire), which then frees
    /// this block.
    next: AtomicPtr<u8>,
    /// The index of the message that the next block begins with. The field is written (relaxed) before `next`
    /// and read after `next`.
    end: AtomicUsize,
    /// The index of the message that this block begins with. The field is written before any other thread
    /// sees the block.
    begin: usize,
    /// The slots of the former block, which the writer left for this block. The former block may already be
    /// freed, unless a message in it is not published yet. The field is written before any other thread sees
    /// the block.
    before: *mut u8,
    /// The number of slots, which is a power of two, less one.
    mask: u32,
    /// How the writer uses the block; only the writer accesses the field.
    use_of: Cell<Use>,
}

/// How a writer uses its block: in the high 8 bits the number of looks for room in a row between which few
/// slots were in use, in the others the low bits of the index of the next message at the last look.
#[derive(Clone, Copy, Default)]
struct Use(u32);

impl Use {
    const INDEX_BITS: u32 = 24;
    /// A writer looks for room once a dispatch or more often. After so many looks with few slots in use, the
    /// block is too large.
    const LOOKS_MAX: u32 = 255;

    /// The use after a further look, when `used` messages wait and message `next` is written next, of a block
    /// of `count` slots. Few slots were in use if an eighth of the block holds what waits and what was written
    /// since the last look: then half of the block would have held all messages at any time.
    fn after_look(self, next: usize, used: usize, count: usize) -> Use {
        let index = (1 << Use::INDEX_BITS) - 1;
        let written = (next as u32).wrapping_sub(self.0) & index;
        let looks = if used.max(written as usize) <= count / 8 { self.looks() + 1 } else { 0 };
        Use(looks.min(Use::LOOKS_MAX) << Use::INDEX_BITS | next as u32 & index)
    }

    fn looks(self) -> u32 {
        self.0 >> Use::INDEX_BITS
    }
}

/// Blocks of more slots than this, but not of so many that the index in [`Use`] would overflow, are left when
/// they are too large.
const SLOTS_KEPT: usize = 32;
const SLOTS_WATCHED_MAX: usize = 1 << (Use::INDEX_BITS - 1);

/// The value of `last_block` after which the reader no longer takes its block for the last one.
const NO_LAST_BLOCK: u8 = 63;

/// The layout of a block of `count` slots, and the offset of the slots in it.
fn layout<T>(count: usize) -> (Layout, usize) {
    let slots = Layout::array::<Slot<T>>(count).expect("2^30 messages fit into an address space");
    Layout::new::<Header>().extend(slots).expect("a header fits, too")
}

/// The size of the first block of a stream of pointers, such as records: a header and a few slots.
const SMALL: usize = size_of::<Header>() + SLOTS_AT_FIRST * size_of::<u64>();

/// Whether blocks with this layout come from slabs. Larger ones come from the allocator, because few streams have
/// one.
fn is_small(layout: Layout) -> bool {
    layout.size() <= SMALL && layout.align() <= UNIT
}

/// Memory for a block with this layout.
#[inline]
fn allocate(layout: Layout) -> *mut u8 {
    if is_small(layout) {
        return slab::allocate(layout.size()).as_ptr();
    }
    // SAFETY: the layout has a size greater than 0 because it contains a header.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    block
}

/// Gives the memory of a block back.
///
/// # Safety
/// The memory came from [`allocate`] with the same layout, and no code uses it any more.
#[inline]
unsafe fn deallocate(block: *mut u8, layout: Layout) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if is_small(layout) {
            slab::free(NonNull::new_unchecked(block), layout.size())
        } else {
            std::alloc::dealloc(block, layout)
        }
    }
}

/// Allocates a block that begins with message `begin` and follows the block `before`; returns its slots.
fn new_block<T>(count: usize, begin: usize, before: *mut u8) -> *mut u8 {
    let (layout, offset) = layout::<T>(count);
    let header = Header {
        next: AtomicPtr::new(std::ptr::null_mut()),
        end: AtomicUsize::new(0),
        begin,
        before,
        mask: count as u32 - 1,
        use_of: Cell::new(Use(begin as u32 & ((1 << Use::INDEX_BITS) - 1))),
    };
    // SAFETY: the block has room for the layout, which is that of header and slots.
    unsafe {
        let block = allocate(layout);
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
    // SAFETY: guaranteed by the caller; the offset of the slots does not depend on their number.
    unsafe { &*slots.sub(offset).cast::<Header>() }
}

/// Frees a block. The messages in the block are not dropped.
///
/// # Safety
/// `slots` are those of a block of a ring of `T`, which no thread uses any more.
unsafe fn free_block<T>(slots: *mut u8) {
    // SAFETY: guaranteed by the caller; slots do not drop their messages.
    unsafe {
        let count = header::<T>(slots).mask as usize + 1;
        let (layout, offset) = layout::<T>(count);
        let block = slots.sub(offset);
        (0..count).for_each(|at| std::ptr::drop_in_place(slots.cast::<Slot<T>>().add(at)));
        std::ptr::drop_in_place(block.cast::<Header>());
        deallocate(block, layout);
    }
}

/// Frees the block that was read last and all blocks after it.
///
/// # Safety
/// `block` points to the slots of the block that was read last in a ring of `T`, or is null; all messages
/// were read, and no other thread has the ring.
pub(crate) unsafe fn free_blocks<T>(mut block: *mut u8) {
    // The writer may have gone on in a further block without writing into it. All messages were read, so
    // blocks after the one read last are empty.
    while !block.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let next = header::<T>(block).next.load(Ordering::Acquire);
            free_block::<T>(block);
            block = next;
        }
    }
}

/// Looks for room. Sets how many messages may be written now (up to `limit`) and returns how many may be
/// written in all, including those in the next block.
#[inline]
pub(crate) fn room<T>(ring: &Ring<impl Holder>) -> usize {
    let used = ring.look_for_room();
    let room = (ring.capacity() as usize).saturating_sub(used);
    let in_block = if room == 0 { 0 } else { room_in_block::<T>(ring, used).min(room) };
    ring.writing.limit.set(ring.writing.pushed.get() + in_block);
    ring.writing.beyond.set((room - in_block) as u32);
    room
}

/// How many messages may be written into the writer's block, if the stream is empty, and the block is not watched
/// for being too large.
#[inline(always)]
pub(crate) fn room_if_empty(ring: &Ring<impl Holder>) -> Option<usize> {
    let count = ring.writing.mask.get() as usize + 1;
    (ring.look_for_room() == 0 && count <= SLOTS_KEPT && !ring.writing.slots.get().is_null())
        .then(|| count.min(ring.capacity() as usize))
}

/// How many slots of the writer's block are free; allocates a new block if none is. `used` messages are not
/// read yet, and the stream is not full.
#[inline]
fn room_in_block<T>(ring: &Ring<impl Holder>, used: usize) -> usize {
    let count = ring.writing.mask.get() as usize + 1;
    if !ring.writing.slots.get().is_null() {
        if count > SLOTS_KEPT && is_too_large::<T>(ring, used, count) {
            return shrink::<T>(ring);
        }
        if used == 0 || count >= ring.capacity() as usize {
            return count;
        }
        // SAFETY: the block belongs to the writer.
        let begin = unsafe { header::<T>(ring.writing.slots.get()) }.begin;
        let in_use = used.min(ring.writing.pushed.get() - begin);
        if in_use < count {
            return count - in_use;
        }
    }
    grow::<T>(ring)
}

/// Notes that the writer looks for room; returns whether few of the block's slots were in use for long.
fn is_too_large<T>(ring: &Ring<impl Holder>, used: usize, count: usize) -> bool {
    // SAFETY: the block belongs to the writer.
    let use_of = &unsafe { header::<T>(ring.writing.slots.get()) }.use_of;
    use_of.set(use_of.get().after_look(ring.writing.pushed.get(), used, count));
    use_of.get().looks() == Use::LOOKS_MAX && count <= SLOTS_WATCHED_MAX
}

#[cold]
#[inline(never)]
fn grow<T>(ring: &Ring<impl Holder>) -> usize {
    let most = (ring.capacity() as usize).next_power_of_two();
    let is_first = ring.writing.slots.get().is_null();
    let count = if is_first { SLOTS_AT_FIRST } else { 2 * (ring.writing.mask.get() as usize + 1) };
    go_on::<T>(ring, count.min(most))
}

/// Lets the writer go on in a block of half as many slots; returns how many there are. The reader frees the
/// former block when it has read all messages in it and reads the first one of the new block.
#[cold]
#[inline(never)]
pub(crate) fn shrink<T>(ring: &Ring<impl Holder>) -> usize {
    // The reader sees this change with the first message in the new block.
    ring.reading.last_block.store(NO_LAST_BLOCK, Ordering::Relaxed);
    go_on::<T>(ring, (ring.writing.mask.get() as usize).div_ceil(2).max(1))
}

/// Lets the writer go on in a new block of `count` slots.
fn go_on<T>(ring: &Ring<impl Holder>, count: usize) -> usize {
    let (before, begin) = (ring.writing.slots.get(), ring.writing.pushed.get());
    let slots = new_block::<T>(count, begin, before);
    if before.is_null() {
        ring.reading.slots.store(slots, Ordering::Release);
    } else {
        // SAFETY: the block belongs to the writer until `next` is set.
        let header = unsafe { header::<T>(before) };
        header.end.store(begin, Ordering::Relaxed);
        header.next.store(slots, Ordering::Release);
    }
    ring.writing.slots.set(slots);
    ring.writing.mask.set(count as u32 - 1);
    count
}

/// Looks for messages, and returns how many may be read from the reader's block. If that block was read to
/// its end, the reader first goes on to the next block.
#[inline]
pub(crate) fn messages<T>(ring: &Ring<impl Holder>) -> usize {
    let (tail, popped) = (ring.writing.tail.load(Ordering::Acquire), ring.reading.popped.get());
    ring.reading.available.set(popped);
    if tail == popped {
        return 0;
    }
    if ring.reading.mask.get() == NO_BLOCK {
        // The `tail` that was just read shows that the first block, which the reader enters here, has a
        // message.
        enter_block::<T>(ring, ring.reading.slots.load(Ordering::Relaxed));
    }
    let mut end = end_of_block::<T>(ring, tail);
    // The writer may have left a block without having written into it.
    while end == popped {
        enter_next_block::<T>(ring);
        end = end_of_block::<T>(ring, tail);
    }
    ring.reading.available.set(end);
    end - popped
}

/// The index of the end of those messages before `tail` that are in the reader's block.
#[inline]
fn end_of_block<T>(ring: &Ring<impl Holder>, tail: usize) -> usize {
    if ring.reading.mask.get() as usize + 1 >= 1 << ring.reading.last_block.load(Ordering::Relaxed) {
        return tail;
    }
    // SAFETY: the block belongs to the reader.
    let header = unsafe { header::<T>(ring.reading.slots.load(Ordering::Relaxed)) };
    // A message after the block's end was published after `next`, so a reader that sees in `tail` that this
    // message was published sees `next`, too.
    if header.next.load(Ordering::Acquire).is_null() {
        tail
    } else {
        tail.min(header.end.load(Ordering::Relaxed))
    }
}

/// Goes on to the next block and frees the reader's present block, which was read to its end and which the
/// writer has left.
#[cold]
#[inline(never)]
fn enter_next_block<T>(ring: &Ring<impl Holder>) {
    let block = ring.reading.slots.load(Ordering::Relaxed);
    // SAFETY: the writer has left the block, and the reader has read all of it, so no thread uses it after
    // this.
    unsafe {
        enter_block::<T>(ring, header::<T>(block).next.load(Ordering::Acquire));
        free_block::<T>(block);
    }
}

#[cold]
#[inline(never)]
fn enter_block<T>(ring: &Ring<impl Holder>, slots: *mut u8) {
    ring.reading.slots.store(slots, Ordering::Relaxed);
    // SAFETY: the block was published to the reader.
    let mask = unsafe { header::<T>(slots) }.mask;
    ring.reading.mask.set(mask);
}

/// Reads a message that [`messages`] found.
#[inline(always)]
pub(crate) fn take<T>(ring: &Ring<impl Holder>) -> T {
    let at = ring.reading.popped.get();
    ring.reading.popped.set(at + 1);
    // SAFETY: the caller is the reader, and `available` says that the slot holds a message.
    unsafe { slot::<T>(ring.reading.slots.load(Ordering::Relaxed), ring.reading.mask.get(), at).read() }
}

/// Calls `look` with a message that was written and not published yet.
///
/// # Safety
/// The ring's messages are of type `T`, and the calling thread is that of the ring's writer. Message `at` was
/// written and not published, and nothing is written or published while `look` runs.
pub(crate) unsafe fn unpublished<T, R>(ring: &Ring<impl Holder>, at: usize, look: impl FnOnce(&T) -> R) -> R {
    let mut slots = ring.writing.slots.get();
    // SAFETY: guaranteed by the caller. The reader frees a block only when it has read all messages of the
    // block; the unpublished message was not read, so its block and all later blocks still exist.
    unsafe {
        while at < header::<T>(slots).begin {
            slots = header::<T>(slots).before;
        }
        slot::<T>(slots, header::<T>(slots).mask, at).look(look)
    }
}

/// # Safety
/// `slots` are those of a block of a ring of `T` with the mask `mask`.
#[inline(always)]
pub(crate) unsafe fn slot<'a, T>(slots: *mut u8, mask: u32, at: usize) -> &'a Slot<T> {
    // SAFETY: guaranteed by the caller; the mask keeps the index inside.
    unsafe { &*slots.cast::<Slot<T>>().add(at & mask as usize) }
}

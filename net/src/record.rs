//! Records: one pointer to inline values, laid out by shape, in memory that each thread reuses.
//!
//! ```text
//! Record ─► ┌ shape · length · capacity · next ┬ slot 0 ┬ slot 1 ┬ … ┐     16 bytes each
//! ```
//! A block is one, two or four cache lines (3, 7 or 15 slots); a larger one is allocated exactly. Freed blocks
//! go to a list of the freeing thread; what one thread has too many of goes to others in batches, through a
//! depot. All three are bounded: beyond, blocks go back to the allocator.
//!
//! ```
//! use thalweg_net::{Value, label::Label, record::Record};
//! let (a, n) = (Label::field("a"), Label::tag("n"));
//! let record = Record::from_pairs([(a, Value::from("text")), (n, Value::Int(3))]);
//! assert_eq!(record.get(n), Some(&Value::Int(3)));
//! assert_eq!(record.to_string(), r#"{a="text", <n>=3}"#);
//! ```
//!
//! This is the only file of the crate's records with unsafe code. What it relies on:
//! 1. a `Record` owns its block alone; the first `length` slots hold valid values, `length ≤ capacity`;
//! 2. `length` is the number of labels of `shape`, except while a record is being built;
//! 3. a block in a list or the depot belongs to that list alone and holds no values.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use thalweg_box::{Rows, Value};
use thalweg_exec::DeepSize;

use crate::label::Label;
use crate::shape::{self, ShapeId};

/// A record: labels and their values. One pointer, owned; free to go to another thread.
#[repr(transparent)]
pub struct Record {
    block: NonNull<Header>,
}

/// The head of a block; the slots follow it.
#[repr(C)]
struct Header {
    shape: ShapeId,
    length: u16,
    capacity: u16,
    /// The next free block, while this one is free. Of a record, what ends behind it: see [`Ends`].
    next: *mut Header,
}

/// What ends behind a record: the group of records that one input of a deterministic combinator caused. It stays with
/// the record's block, so a component that makes its last output in the block of its input hands it on for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends(usize);

impl Ends {
    /// Nothing: further records of the group follow, or there are no groups here.
    pub(crate) const NOTHING: Ends = Ends(0);
    /// The record is the last of its group.
    pub(crate) const GROUP: Ends = Ends(1);
    /// It is the last of its group in this stream; the group goes on in the next (of a star's exits).
    pub(crate) const STAGE: Ends = Ends(2);
    /// Nothing ends, but the group goes on in the next stream, too (of a star's exits).
    pub(crate) const INSIDE: Ends = Ends(8);
    /// The group around the one that ends, too.
    pub(crate) const OUTER: Ends = Ends(4);

    #[inline]
    pub(crate) fn and(self, other: Ends) -> Ends {
        Ends(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn has(self, other: Ends) -> bool {
        self.0 & other.0 != 0
    }

    /// [`Ends::OUTER`] if anything ends here: what is the own group outside is the outer one inside.
    #[inline]
    pub(crate) fn as_outer(self) -> Ends {
        if self.0 == 0 { Ends::NOTHING } else { Ends::OUTER }
    }

    /// The other way round.
    #[inline]
    pub(crate) fn to_group(self) -> Ends {
        if self.has(Ends::OUTER) { Ends::GROUP } else { Ends::NOTHING }
    }
}

const SLOTS_OFFSET: usize = size_of::<Header>();
const _: () = assert!(SLOTS_OFFSET == 16 && size_of::<Value>() == 16 && align_of::<Value>() <= 16);
const _: () = assert!(size_of::<Option<Record>>() == 8);

// SAFETY: a record owns its block alone, and values are Send.
unsafe impl Send for Record {}
// SAFETY: a shared record gives out shared references to its values only, and values are Sync.
unsafe impl Sync for Record {}

impl Record {
    /// A record of a shape; all its values are the integer 0.
    pub fn with_shape(shape: ShapeId) -> Record {
        Record::build(shape, shape.labels().len(), |_| Value::Int(0))
    }

    /// A record with these labels. Of a label given twice, the later value counts.
    ///
    /// # Panics
    /// With more than [`shape::LABELS_MAX`] labels.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (Label, Value)>) -> Record {
        let (labels, values): (Vec<Label>, Vec<Value>) = pairs.into_iter().unzip();
        let mut record = Record::with_shape(shape::of(&labels));
        for (label, value) in labels.into_iter().zip(values) {
            let slot = record.shape().slot(label).expect("the shape was made of these labels");
            record.slots_mut()[slot] = value;
        }
        record
    }

    /// A record of a shape whose number of labels is `length`, with `value(slot)` in each slot.
    /// If `value` panics, the values it gave before are not dropped.
    #[inline]
    pub(crate) fn build(shape: ShapeId, length: usize, mut value: impl FnMut(usize) -> Value) -> Record {
        debug_assert_eq!(length, shape.labels().len());
        let record = Record::uninit(shape, length);
        // SAFETY: the block is this record's alone and has room for `length` values.
        let slots = unsafe { slots_of(record.block.as_ptr()) };
        for slot in 0..length {
            // SAFETY: as above; `slot < length`. Writing does not drop what was there.
            unsafe { slots.add(slot).write(value(slot)) };
        }
        // SAFETY: the block is this record's alone; its slots are filled.
        unsafe { (*record.block.as_ptr()).length = length as u16 };
        record
    }

    /// A record of length 0 with room for `length` values.
    #[inline]
    fn uninit(shape: ShapeId, length: usize) -> Record {
        let block = allocate(length);
        // SAFETY: `allocate` gives a block that nobody else has, with its capacity set.
        unsafe {
            (*block.as_ptr()).shape = shape;
            (*block.as_ptr()).length = 0;
            (*block.as_ptr()).next = ptr::null_mut();
        }
        Record { block }
    }

    /// No record: it only says that a group ends, whose last record was sent already or never made.
    #[cold]
    pub(crate) fn mark(ends: Ends) -> Record {
        let mut mark = Record::uninit(ShapeId::MARK, 0);
        mark.set_ends(ends);
        mark
    }

    /// No record: whatever a stream hands its reader that is none. The only slot is free for it.
    pub(crate) fn message(content: Value) -> Record {
        let mut content = Some(content);
        Record::build(ShapeId::MESSAGE, 1, |_| content.take().unwrap_or_default())
    }

    /// What ends behind the record.
    #[inline]
    pub(crate) fn ends(&self) -> Ends {
        Ends(self.header().next.addr())
    }

    /// Says what ends behind the record.
    #[inline]
    pub(crate) fn set_ends(&mut self, ends: Ends) {
        // SAFETY: the block is this record's alone.
        unsafe { (*self.block.as_ptr()).next = ptr::without_provenance_mut(ends.0) };
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the block is this record's, initialised when it was made.
        unsafe { self.block.as_ref() }
    }

    /// Its shape.
    #[inline]
    pub fn shape(&self) -> ShapeId {
        self.header().shape
    }

    /// Its values, in the order of the shape's labels.
    #[inline]
    pub fn slots(&self) -> &[Value] {
        let length = self.header().length as usize;
        // SAFETY: the first `length` slots hold values; borrowed with the record.
        unsafe { std::slice::from_raw_parts(slots_of(self.block.as_ptr()), length) }
    }

    /// Its values to change. A tag's value must stay an integer.
    #[inline]
    pub fn slots_mut(&mut self) -> &mut [Value] {
        let length = self.header().length as usize;
        // SAFETY: the first `length` slots hold values; borrowed mutably with the record, its only owner.
        unsafe { std::slice::from_raw_parts_mut(slots_of(self.block.as_ptr()), length) }
    }

    /// Records of one shape, as boxes are called with them.
    #[inline]
    pub(crate) fn rows(records: &mut [Record]) -> Rows<'_> {
        let slot_count = records.first().map_or(0, |record| record.header().length as usize);
        debug_assert!(records.iter().all(|record| record.header().length as usize == slot_count));
        let first = records.as_mut_ptr().cast_const().cast();
        // SAFETY: a record is a pointer to its block, in which as many values as it has labels stand behind the header, by
        // 1 and 2 above; records of one shape have as many. All are borrowed mutably.
        unsafe { Rows::new(first, records.len(), SLOTS_OFFSET, slot_count) }
    }

    /// The value of a label.
    pub fn get(&self, label: Label) -> Option<&Value> {
        self.shape().slot(label).map(|slot| &self.slots()[slot])
    }

    /// The value in a slot, leaving the integer 0 in its place.
    #[inline]
    pub fn take(&mut self, slot: usize) -> Value {
        self.slots_mut()[slot].take()
    }

    /// Sets a label, adding it if the record does not have it.
    ///
    /// # Panics
    /// If the record then has more than [`shape::LABELS_MAX`] labels.
    pub fn set(&mut self, label: Label, value: Value) {
        if let Some(slot) = self.shape().slot(label) {
            self.slots_mut()[slot] = value;
            return;
        }
        let labels = self.shape().labels();
        let shape = shape::of(&[labels, &[label]].concat());
        let at = shape.slot(label).expect("just added");
        self.resize(shape, labels.len() + 1);
        let slots = self.slots_mut();
        slots[at..].rotate_right(1);
        slots[at] = value;
    }

    /// Removes a label; its value, if the record had it.
    pub fn remove(&mut self, label: Label) -> Option<Value> {
        let at = self.shape().slot(label)?;
        let rest: Vec<Label> = self.shape().labels().iter().copied().filter(|&l| l != label).collect();
        let slots = self.slots_mut();
        slots[at..].rotate_left(1);
        let value = slots.last_mut().map(Value::take);
        self.resize(shape::of(&rest), rest.len());
        value
    }

    /// Gives the record another shape with as many labels; values stay in their slots.
    #[inline]
    pub(crate) fn relabel(&mut self, shape: ShapeId, length: usize) {
        debug_assert_eq!(length, shape.labels().len());
        debug_assert_eq!(length, self.slots().len());
        // SAFETY: the block is this record's alone.
        unsafe { (*self.block.as_ptr()).shape = shape };
    }

    /// Gives the record another shape, of `length` labels. Values stay in their slots: those beyond `length`
    /// are dropped, missing ones are the integer 0. The caller puts values where the new shape wants them.
    #[inline(never)]
    pub(crate) fn resize(&mut self, shape: ShapeId, length: usize) {
        debug_assert_eq!(length, shape.labels().len());
        let before = self.header().length as usize;
        if length > self.header().capacity as usize {
            self.grow(length);
        }
        let block = self.block.as_ptr();
        self.slots_mut().iter_mut().skip(length).for_each(drop_heap);
        // SAFETY: the block is this record's alone; `length` fits. Slots that go need no drop any more, new ones
        // are written before they count.
        unsafe {
            let slots = slots_of(block);
            (*block).shape = shape;
            for slot in before..length {
                slots.add(slot).write(Value::Int(0));
            }
            (*block).length = length as u16;
        }
    }

    /// Moves the values to a block with room for `length`.
    #[cold]
    fn grow(&mut self, length: usize) {
        let mut larger = Record::uninit(self.shape(), length);
        let (from, to) = (self.block.as_ptr(), larger.block.as_ptr());
        // SAFETY: two blocks, each its record's alone; the values fit and move: `from` has none afterwards.
        unsafe {
            let count = (*from).length;
            ptr::copy_nonoverlapping(slots_of(from), slots_of(to), count as usize);
            (*to).next = (*from).next;
            (*from).length = 0;
            (*to).length = count;
        }
        std::mem::swap(self, &mut larger);
    }
}

impl DeepSize for Record {
    /// Its head and its slots, 16 bytes each, and what its values lead to ([`Value::heap_bytes`]). A value that other records have, too,
    /// counts whole in each: it is what would have to be sent.
    fn deep_size(&self) -> u64 {
        let slots = self.slots();
        let inline = SLOTS_OFFSET + size_of_val(slots);
        slots.iter().fold(inline as u64, |bytes, value| bytes.saturating_add(value.heap_bytes()))
    }
}

/// The value, leaving the integer 0; the same as [`Value::take`], but fast right after the value was written.
///
/// Values are written in two words and moved as one of 16 bytes. A processor cannot forward two stores to one
/// load: it waits until both have reached the cache, which costs more than all else that a small box does. So
/// what a box has just emitted is read word by word.
#[inline]
pub fn take_just_written(value: &mut Value) -> Value {
    let words: *const u64 = (&raw const *value).cast();
    let mut taken = MaybeUninit::<Value>::uninit();
    // SAFETY: a value is two words without padding (`repr(u64)`, checked above and by the layout that boxes
    // share); the copy replaces the value, which is overwritten without being dropped.
    unsafe {
        let copy: *mut u64 = taken.as_mut_ptr().cast();
        copy.write(words.read_volatile());
        copy.add(1).write(words.add(1).read_volatile());
        (&raw mut *value).write(Value::Int(0));
        taken.assume_init()
    }
}

/// Puts a value into a slot: `*slot = value`, in a form that needs no memory in between.
#[inline]
pub(crate) fn put(slot: &mut Value, value: Value) {
    drop_heap(slot);
    // SAFETY: what stands there now needs no drop.
    unsafe { ptr::write(slot, value) }
}

/// Moves a value from one slot to another, leaving the integer 0: `slots[to] = slots[from].take()`, in a form
/// that needs no memory in between.
#[inline]
pub(crate) fn move_slot(slots: &mut [Value], from: usize, to: usize) {
    assert!(from < slots.len() && to < slots.len() && from != to);
    drop_heap(&mut slots[to]);
    let slots = slots.as_mut_ptr();
    // SAFETY: two different slots within the slice; what stands in `to` needs no drop, and the copy takes the
    // place of the value in `from`, which is overwritten without being dropped.
    unsafe {
        ptr::copy_nonoverlapping(slots.add(from), slots.add(to), 1);
        slots.add(from).write(Value::Int(0));
    }
}

/// Drops a value on the heap. The slot is to be written or forgotten next; others stay as they are.
#[inline]
fn drop_heap(slot: &mut Value) {
    /// Does not unwind, so that nothing around it has to be kept in memory for that.
    #[cold]
    extern "C" fn drop_cold(slot: &mut Value) {
        *slot = Value::Int(0);
    }
    if !matches!(slot, Value::Int(_) | Value::Float(_)) {
        drop_cold(slot);
    }
}

impl Clone for Record {
    /// A record with the same values; those on the heap are shared.
    fn clone(&self) -> Record {
        let slots = self.slots();
        Record::build(self.shape(), slots.len(), |slot| slots[slot].clone())
    }
}

impl Drop for Record {
    #[inline]
    fn drop(&mut self) {
        let block = self.block.as_ptr();
        self.slots_mut().iter_mut().for_each(drop_heap);
        // SAFETY: the record's last moment; no value is left that needs a drop.
        unsafe { release(block) };
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.shape() == other.shape() && self.slots() == other.slots()
    }
}

impl fmt::Display for Record {
    /// Labels and values by kind and name; long values are cut short.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_CHARS: usize = 40;
        f.write_str("{")?;
        for (i, &slot) in self.shape().shown().iter().enumerate() {
            let (label, value) = (self.shape().labels()[slot as usize], &self.slots()[slot as usize]);
            write!(f, "{}{label}=", if i == 0 { "" } else { ", " })?;
            match value {
                Value::Text(text) if text.len() > SHOWN_CHARS => {
                    let head: String = text.chars().take(SHOWN_CHARS).collect();
                    write!(f, "{head:?}… ({} bytes)", text.len())?;
                }
                value => write!(f, "{value}")?,
            }
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The first slot of a block.
///
/// # Safety
/// `block` points to a block.
#[inline]
unsafe fn slots_of(block: *mut Header) -> *mut Value {
    // SAFETY: every block has room for the header and its slots.
    unsafe { block.cast::<u8>().add(SLOTS_OFFSET).cast() }
}

// ---- Blocks: sizes, lists of free ones, the depot ----

/// Sizes of which free blocks are kept: 3, 7 and 15 slots, with the header 64, 128 and 256 bytes.
const CLASSES: usize = 3;
const POOLED_CAPACITY_MAX: usize = 15;
/// How many free blocks of a size a thread keeps.
const LIST_MAX: u32 = 256;
/// How many blocks threads pass on at once.
const BATCH: u32 = 64;
/// How many batches of a size wait in the depot at most.
const DEPOT_BATCHES_MAX: usize = 128;

/// A thread's free blocks of one size, the latest first.
struct FreeList {
    head: Cell<*mut Header>,
    /// How many more it takes; 0 until the pool is opened.
    room: Cell<u32>,
}

struct Pool {
    lists: [FreeList; CLASSES],
    open: Cell<bool>,
}

thread_local! {
    // Without a destructor, so that every access is one address; `Closer` empties it.
    static POOL: Pool = const {
        Pool {
            lists: [const { FreeList { head: Cell::new(ptr::null_mut()), room: Cell::new(0) } }; CLASSES],
            open: Cell::new(false),
        }
    };
    static CLOSER: Closer = const { Closer };
}

/// Gives a thread's free blocks back when the thread ends.
struct Closer;

impl Drop for Closer {
    fn drop(&mut self) {
        POOL.with(|pool| {
            pool.open.set(false);
            for list in &pool.lists {
                let chain = list.head.replace(ptr::null_mut());
                list.room.set(0);
                // SAFETY: the list owned these blocks and is now empty.
                unsafe { deallocate_chain(chain) };
            }
        });
    }
}

/// Batches of [`BATCH`] free blocks of one size, from threads that free more than they make for those that
/// make more than they free.
struct Depot {
    chains: Mutex<Vec<Chain>>,
    /// How many there are: written under the lock; read without it, as a hint.
    count: AtomicUsize,
}

/// The first of [`BATCH`] linked blocks.
struct Chain(*mut Header);
// SAFETY: a chain owns its blocks, which hold no values.
unsafe impl Send for Chain {}

static DEPOT: [Depot; CLASSES] =
    [const { Depot { chains: Mutex::new(Vec::new()), count: AtomicUsize::new(0) } }; CLASSES];

impl Depot {
    fn put(&self, chain: Chain) -> Result<(), Chain> {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if chains.len() >= DEPOT_BATCHES_MAX {
            return Err(chain);
        }
        chains.push(chain);
        self.count.store(chains.len(), Ordering::Relaxed);
        Ok(())
    }

    fn take(&self) -> Option<Chain> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let chain = chains.pop();
        self.count.store(chains.len(), Ordering::Relaxed);
        chain
    }
}

/// The class whose blocks have room for `length` values, and their capacity.
#[inline]
fn class_for(length: usize) -> (usize, usize) {
    match length {
        0..=3 => (0, 3),
        4..=7 => (1, 7),
        _ => (2, 15),
    }
}

fn layout_of(capacity: usize) -> Layout {
    let size = SLOTS_OFFSET + capacity * size_of::<Value>();
    Layout::from_size_align(size, 64).expect("a record has at most LABELS_MAX labels")
}

/// A block with room for `length` values; its capacity is set, nothing else.
#[inline]
fn allocate(length: usize) -> NonNull<Header> {
    if length > POOLED_CAPACITY_MAX {
        return allocate_new(length);
    }
    let (class, capacity) = class_for(length);
    POOL.with(|pool| {
        let list = &pool.lists[class];
        match NonNull::new(list.head.get()) {
            Some(block) => {
                // SAFETY: the list owns the block; it is taken out of the list here.
                list.head.set(unsafe { (*block.as_ptr()).next });
                list.room.set(list.room.get() + 1);
                block
            }
            None => refill(pool, class, capacity),
        }
    })
}

/// A block where the list has none: from a batch of the depot, else new.
#[cold]
fn refill(pool: &Pool, class: usize, capacity: usize) -> NonNull<Header> {
    let list = &pool.lists[class];
    if open(pool)
        && let Some(Chain(first)) = DEPOT[class].take()
    {
        // SAFETY: the chain owned its blocks (more than one); the first goes out, the others to the list.
        list.head.set(unsafe { (*first).next });
        list.room.set(list.room.get() - (BATCH - 1));
        return NonNull::new(first).expect("chains are not empty");
    }
    allocate_new(capacity)
}

#[cold]
fn allocate_new(capacity: usize) -> NonNull<Header> {
    let layout = layout_of(capacity);
    // SAFETY: the layout has a size.
    let block = unsafe { alloc(layout) }.cast::<Header>();
    let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
    let header =
        Header { shape: ShapeId::UNSET, length: 0, capacity: capacity as u16, next: ptr::null_mut() };
    // SAFETY: just allocated, large enough, aligned.
    unsafe { block.as_ptr().write(header) };
    block
}

/// Gives a block back.
///
/// # Safety
/// The block holds no values any more and belongs to the caller, who does not use it again.
#[inline]
unsafe fn release(block: *mut Header) {
    // SAFETY: the caller's block.
    let capacity = unsafe { (*block).capacity } as usize;
    if capacity > POOLED_CAPACITY_MAX {
        // SAFETY: the caller's block, not used again.
        return unsafe { deallocate(block) };
    }
    POOL.with(|pool| {
        let list = &pool.lists[class_for(capacity).0];
        if list.room.get() == 0 && !make_room(pool, list, class_for(capacity).0) {
            // SAFETY: the caller's block, not used again.
            return unsafe { deallocate(block) };
        }
        // SAFETY: the caller's block; it belongs to the list from here on.
        unsafe { (*block).next = list.head.get() };
        list.head.set(block);
        list.room.set(list.room.get() - 1);
    });
}

/// Whether the thread keeps free blocks: from its first record on until it ends.
fn open(pool: &Pool) -> bool {
    // Once the destructor of `CLOSER` has emptied the lists, they stay empty.
    if !pool.open.get() && CLOSER.try_with(|_| ()).is_ok() {
        pool.open.set(true);
        pool.lists.iter().for_each(|list| list.room.set(LIST_MAX));
    }
    pool.open.get()
}

/// Whether the list, which is full or was never used, can take a block now.
#[cold]
fn make_room(pool: &Pool, list: &FreeList, class: usize) -> bool {
    if !open(pool) {
        return false;
    }
    if list.room.get() > 0 {
        return true;
    }
    let first = list.head.get();
    let mut last = first;
    for _ in 1..BATCH {
        // SAFETY: the list is full, so it has more than BATCH blocks, all its own.
        last = unsafe { (*last).next };
    }
    // SAFETY: as above; the first BATCH blocks are cut off the list.
    unsafe {
        list.head.set((*last).next);
        (*last).next = ptr::null_mut();
    }
    list.room.set(list.room.get() + BATCH);
    if let Err(Chain(first)) = DEPOT[class].put(Chain(first)) {
        // SAFETY: these blocks are in no list any more.
        unsafe { deallocate_chain(first) };
    }
    true
}

/// # Safety
/// The block belongs to the caller, who does not use it again, and holds no values.
unsafe fn deallocate(block: *mut Header) {
    // SAFETY: the caller's; allocated with the layout of its capacity, which never changes.
    unsafe { dealloc(block.cast(), layout_of((*block).capacity as usize)) }
}

/// # Safety
/// The linked blocks belong to the caller, who does not use them again, and hold no values.
unsafe fn deallocate_chain(mut block: *mut Header) {
    while !block.is_null() {
        // SAFETY: the caller's; the link is read before the block goes.
        unsafe {
            let next = (*block).next;
            deallocate(block);
            block = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the lists of this thread hold and have room for is what they may hold.
    fn assert_bounds() {
        POOL.with(|pool| {
            for list in &pool.lists {
                let (mut count, mut block) = (0, list.head.get());
                while !block.is_null() {
                    count += 1;
                    // SAFETY: a block of this thread's list.
                    block = unsafe { (*block).next };
                }
                assert_eq!(count + list.room.get(), LIST_MAX);
            }
        });
        assert!(DEPOT.iter().all(|depot| depot.chains.lock().unwrap().len() <= DEPOT_BATCHES_MAX));
    }

    #[test]
    fn lists_and_depot_keep_their_bounds() {
        let shapes = [2, 5, 11].map(|count: usize| {
            shape::of(&(0..count).map(|i| Label::tag(&format!("bounds_{i}"))).collect::<Vec<_>>())
        });
        let make = move |count: usize| -> Vec<Record> {
            shapes.iter().flat_map(|&shape| (0..count).map(move |_| Record::with_shape(shape))).collect()
        };
        for count in [10, 300, 5_000, 20_000] {
            let records = std::thread::spawn(move || {
                let records = make(count);
                assert_bounds();
                records
            });
            let records = records.join().unwrap();
            std::thread::spawn(move || {
                drop(records);
                assert_bounds();
                // From the list, then from the depot, then new ones.
                let records = make(count);
                assert_bounds();
                drop(records);
                assert_bounds();
            })
            .join()
            .unwrap();
        }
    }
}

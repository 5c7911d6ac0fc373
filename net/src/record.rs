//! Records: one pointer to inline values, laid out by shape, in memory that each thread reuses.
//!
//! ```text
//! Record ─► ┌ shape · length · capacity · ends ┬ slot 0 ┬ slot 1 ┬ … ┐     16 bytes each
//! ```
//! The blocks, and the lists of free blocks, are in `record/blocks.rs`.
//!
//! ```
//! use thalweg_net::{Value, label::Label, record::Record};
//! let (a, n) = (Label::field("a"), Label::tag("n"));
//! let record = Record::from_pairs([(a, Value::from("text")), (n, Value::Int(3))]);
//! assert_eq!(record.get(n), Some(&Value::Int(3)));
//! assert_eq!(record.to_string(), r#"{a="text", <n>=3}"#);
//! ```
//!
//! Only this file and `record/blocks.rs` contain unsafe code on records. The code relies on these invariants:
//! 1. a `Record` owns its block exclusively; the first `length` slots hold valid values, `length ≤ capacity`;
//! 2. `length` is the number of labels of `shape`, except while a record is being built;
//! 3. a free block that a thread or the depot keeps belongs to that thread or the depot exclusively and holds
//!    no values.

mod blocks;

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use thalweg_box::{Rows, Value};
use thalweg_exec::DeepSize;

use crate::label::Label;
use crate::shape::{self, ShapeId};

use blocks::{Header, allocate, release, slots_of};

/// A record: labels and their values, as one owned pointer that may be sent to another thread.
#[repr(transparent)]
pub struct Record {
    block: NonNull<Header>,
}

/// The groups that end after a record. A group is the set of records that one input of a deterministic
/// combinator caused. The `Ends` is stored in the record's block, so a component that writes its last output
/// into the block of its input passes the `Ends` on without cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends(usize);

impl Ends {
    /// No group ends: further records of the group follow, or the records have no groups.
    pub(crate) const NOTHING: Ends = Ends(0);
    /// The record is the last of its group.
    pub(crate) const GROUP: Ends = Ends(1);
    /// The record is the last of its group in this stream; the group continues in the stream of the star's
    /// next exit.
    pub(crate) const STAGE: Ends = Ends(2);
    /// No group ends, but the group also continues in the stream of the star's next exit.
    pub(crate) const INSIDE: Ends = Ends(8);
    /// The enclosing group ends as well.
    pub(crate) const OUTER: Ends = Ends(4);

    #[inline]
    pub(crate) fn and(self, other: Ends) -> Ends {
        Ends(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn has(self, other: Ends) -> bool {
        self.0 & other.0 != 0
    }

    /// The mark as bits, in the form that is sent to another process.
    pub(crate) fn bits(self) -> u8 {
        self.0 as u8
    }

    /// The mark with the bits that another process sent.
    pub(crate) fn from_bits(bits: u8) -> Ends {
        Ends(usize::from(bits))
    }

    /// Converts the mark of a record that enters a combinator: [`Ends::OUTER`] if any group ends, because the
    /// groups outside the combinator are the outer groups inside it.
    #[inline]
    pub(crate) fn as_outer(self) -> Ends {
        if self.0 == 0 { Ends::NOTHING } else { Ends::OUTER }
    }

    /// Converts the mark of a record that leaves a combinator: the reverse of [`Ends::as_outer`].
    #[inline]
    pub(crate) fn to_group(self) -> Ends {
        if self.has(Ends::OUTER) { Ends::GROUP } else { Ends::NOTHING }
    }
}

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

    /// A record with these labels. If a label is given twice, the later value counts.
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
            // SAFETY: the block is this record's alone and has room for `length` values, and `slot < length`.
            // Writing does not drop the former content.
            unsafe { slots.add(slot).write(value(slot)) };
        }
        // SAFETY: the block is this record's alone; its slots are filled.
        unsafe { (*record.block.as_ptr()).length = length as u16 };
        record
    }

    /// A record of length 0 with space for `length` values.
    #[inline]
    fn uninit(shape: ShapeId, length: usize) -> Record {
        let block = allocate(length);
        // SAFETY: `allocate` gives a block that no other code uses, with its capacity set.
        unsafe {
            (*block.as_ptr()).shape = shape;
            (*block.as_ptr()).length = 0;
            (*block.as_ptr()).ends = 0;
        }
        Record { block }
    }

    /// A mark: an empty record whose only meaning is that a group ends whose last record was already sent or
    /// never made.
    #[cold]
    pub(crate) fn mark(ends: Ends) -> Record {
        let mut mark = Record::uninit(ShapeId::MARK, 0);
        mark.set_ends(ends);
        mark
    }

    /// A message in a stream of records that is not itself a record. The record's only slot holds the
    /// content.
    pub(crate) fn message(content: Value) -> Record {
        let mut content = Some(content);
        Record::build(ShapeId::MESSAGE, 1, |_| content.take().unwrap_or_default())
    }

    /// The groups that end after the record.
    #[inline]
    pub(crate) fn ends(&self) -> Ends {
        Ends(self.header().ends)
    }

    /// Sets the groups that end after the record.
    #[inline]
    pub(crate) fn set_ends(&mut self, ends: Ends) {
        // SAFETY: the block is this record's alone.
        unsafe { (*self.block.as_ptr()).ends = ends.0 };
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the block is this record's, initialised when it was made.
        unsafe { self.block.as_ref() }
    }

    /// The shape of the record.
    #[inline]
    pub fn shape(&self) -> ShapeId {
        self.header().shape
    }

    /// The values, in the order of the shape's labels.
    #[inline]
    pub fn slots(&self) -> &[Value] {
        let length = self.header().length as usize;
        // SAFETY: the first `length` slots hold values; borrowed with the record.
        unsafe { std::slice::from_raw_parts(slots_of(self.block.as_ptr()), length) }
    }

    /// The values, for changes. A tag's value must stay an integer.
    #[inline]
    pub fn slots_mut(&mut self) -> &mut [Value] {
        let length = self.header().length as usize;
        // SAFETY: the first `length` slots hold values; borrowed mutably with the record, its only owner.
        unsafe { std::slice::from_raw_parts_mut(slots_of(self.block.as_ptr()), length) }
    }

    /// Records of one shape, in the form that boxes are called with.
    #[inline]
    pub(crate) fn rows(records: &mut [Record]) -> Rows<'_> {
        let slot_count = records.first().map_or(0, |record| record.header().length as usize);
        debug_assert!(records.iter().all(|record| record.header().length as usize == slot_count));
        let first = records.as_mut_ptr().cast_const().cast();
        // SAFETY: a record is a pointer to its block, in which the header is followed by one value for each
        // label, by invariants 1 and 2 at the top of this file; records of one shape have equally many
        // labels. All the records are borrowed mutably.
        unsafe { Rows::new(first, records.len(), blocks::SLOTS_OFFSET, slot_count) }
    }

    /// The value of a label.
    pub fn get(&self, label: Label) -> Option<&Value> {
        self.shape().slot(label).map(|slot| &self.slots()[slot])
    }

    /// Takes the value out of a slot, leaving the integer 0 in its place.
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

    /// Removes a label; returns the label's value, if the record had the label.
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

    /// Gives the record another shape, of `length` labels. Values stay in their slots: values beyond `length`
    /// are dropped, new slots are the integer 0. The caller then moves values to the slots that the new shape
    /// requires.
    #[inline(never)]
    pub(crate) fn resize(&mut self, shape: ShapeId, length: usize) {
        debug_assert_eq!(length, shape.labels().len());
        let before = self.header().length as usize;
        if length > self.header().capacity as usize {
            self.grow(length);
        }
        let block = self.block.as_ptr();
        self.slots_mut().iter_mut().skip(length).for_each(drop_heap);
        // SAFETY: the block is this record's alone; `length` fits. Removed slots need no drop any more, and
        // new slots are written before they count.
        unsafe {
            let slots = slots_of(block);
            (*block).shape = shape;
            for slot in before..length {
                slots.add(slot).write(Value::Int(0));
            }
            (*block).length = length as u16;
        }
    }

    /// Moves the values to a block with space for `length` values.
    #[cold]
    fn grow(&mut self, length: usize) {
        let mut larger = Record::uninit(self.shape(), length);
        let (from, to) = (self.block.as_ptr(), larger.block.as_ptr());
        // SAFETY: each of the two blocks belongs to one record only, and `to` has room for the values. The
        // values are moved: `from` has none afterwards.
        unsafe {
            let count = (*from).length;
            ptr::copy_nonoverlapping(slots_of(from), slots_of(to), count as usize);
            (*to).ends = (*from).ends;
            (*from).length = 0;
            (*to).length = count;
        }
        std::mem::swap(self, &mut larger);
    }
}

impl DeepSize for Record {
    /// The bytes of the record's header, of its slots (16 each), and of the heap memory of its values
    /// ([`Value::heap_bytes`]). A value shared with other records counts fully in each record, as it would if
    /// it were sent.
    fn deep_size(&self) -> u64 {
        let slots = self.slots();
        let inline = blocks::SLOTS_OFFSET + size_of_val(slots);
        slots.iter().fold(inline as u64, |bytes, value| bytes.saturating_add(value.heap_bytes()))
    }
}

/// Takes the value, leaving the integer 0; like [`Value::take`], but fast right after the value was written.
///
/// A box writes a value as two words, but a move loads the value as one of 16 bytes. A processor cannot
/// forward two stores to one load: it waits until both have reached the cache, which costs more than
/// everything else that a small box does. So a value that a box has just emitted is read word by word.
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

/// Writes a value into a slot: `*slot = value`, in a form that needs no temporary memory.
#[inline]
pub(crate) fn put(slot: &mut Value, value: Value) {
    drop_heap(slot);
    // SAFETY: the present content needs no drop.
    unsafe { ptr::write(slot, value) }
}

/// Moves a value from one slot to another, leaving the integer 0: `slots[to] = slots[from].take()`, in a form
/// that needs no temporary memory.
#[inline]
pub(crate) fn move_slot(slots: &mut [Value], from: usize, to: usize) {
    assert!(from < slots.len() && to < slots.len() && from != to);
    drop_heap(&mut slots[to]);
    let slots = slots.as_mut_ptr();
    // SAFETY: two different slots within the slice; the content of `to` needs no drop, and the copy replaces
    // the value in `from`, which is overwritten without being dropped.
    unsafe {
        ptr::copy_nonoverlapping(slots.add(from), slots.add(to), 1);
        slots.add(from).write(Value::Int(0));
    }
}

/// Drops a value on the heap. The caller must then write or forget the slot; values not on the heap stay
/// unchanged.
#[inline]
fn drop_heap(slot: &mut Value) {
    /// This function does not unwind, so the caller need not keep values in memory for unwinding.
    #[cold]
    extern "C" fn drop_cold(slot: &mut Value) {
        *slot = Value::Int(0);
    }
    if !matches!(slot, Value::Int(_) | Value::Float(_)) {
        drop_cold(slot);
    }
}

impl Clone for Record {
    /// Makes a record with the same values; values on the heap are shared.
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
        // SAFETY: the record owns its block and is not used after `drop`; all values that need a drop were
        // dropped.
        unsafe { release(block) };
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.shape() == other.shape() && self.slots() == other.slots()
    }
}

impl fmt::Display for Record {
    /// Labels and values, sorted by kind and name; long values are cut short.
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

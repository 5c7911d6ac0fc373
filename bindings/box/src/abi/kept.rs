//! The arguments that a call may consume, kept so that a failed record leaves the network unchanged.
//!
//! Before a box is called, each of its arguments is *kept*: numbers are copied, and a value on the heap stays
//! in memory until the call has succeeded, whatever the box does with it. A value with one owner is only
//! marked in its count of references, so the box is still its only owner and may change it in place; a value
//! that the box changed cannot be given back, and the mark records the change. If records have to leave
//! exactly as they came, the value is counted instead, and a box that changes it gets a copy.
//!
//! ```text
//! references = KEPT · CHANGED · owners        kept, one owner ── make_mut ──► KEPT | CHANGED | 1
//! ```

use super::heap::{Block, Header, free};
use crate::value::Value;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A flag in a count of references: a call keeps the value in memory without being an owner.
pub(super) const KEPT: u64 = 1 << 62;
/// A flag beside [`KEPT`]: the only owner may have changed the value since.
pub(super) const CHANGED: u64 = 1 << 61;
/// The owners in a count of references.
const OWNERS: u64 = CHANGED - 1;

/// A flag beside the kind of a kept value: the value is marked, not counted.
const MARKED: u64 = 1 << 8;
const TEXT: u64 = 3;
const OPAQUE: u64 = 5;

/// An argument as it was before a call: the two words of its value; kind 0 means that there is none.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Kept {
    kind: u64,
    payload: u64,
}

const _: () = assert!(size_of::<Kept>() == size_of::<Value>());

/// The way in which values of an argument's type are kept, if the type alone decides it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// A number, nearly always a plain one; [`Keep::odd`] keeps other values.
    Number,
    /// A value on the heap.
    Heap,
    /// Any value.
    Any,
    /// Any value; its conversion into an argument may panic.
    Foreign,
}

/// Keeps arguments before they are taken.
pub trait Keep: Copy {
    /// Keeps argument `index`, whose value is a plain number.
    fn number(self, index: usize, number: &Value);
    /// Keeps argument `index`, whose value is on the heap.
    fn heap<H: OnHeap>(self, index: usize, value: &H);
    /// Keeps argument `index`, whose value may be of any kind.
    fn value(self, index: usize, value: &Value);
    /// Keeps argument `index`, whose value may be on the heap although arguments of its type seldom are.
    fn odd(self, index: usize, value: &Value);
    /// Keeps nothing for argument `index`, which the call does not consume, so that it stays in its slot.
    fn leave(self, index: usize);
}

/// Keeps nothing, because the caller keeps the arguments.
impl Keep for () {
    #[inline(always)]
    fn number(self, _: usize, _: &Value) {}
    #[inline(always)]
    fn heap<H: OnHeap>(self, _: usize, _: &H) {}
    #[inline(always)]
    fn value(self, _: usize, _: &Value) {}
    #[inline(always)]
    fn odd(self, _: usize, _: &Value) {}
    #[inline(always)]
    fn leave(self, _: usize) {}
}

/// A value on the heap.
#[doc(hidden)]
pub trait OnHeap: Sized {
    /// The kind of the value.
    const KIND: u64;
    /// The header of the value.
    fn head(&self) -> *const Header;
    /// Takes the value out of a slot that has one of this kind.
    fn take(slot: &mut Value) -> Option<Self>;
}

/// The memory in which the arguments of calls are kept.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Shelf {
    /// The kept arguments, as many as a call has.
    pub(super) kept: *mut Kept,
    /// The count of references with which a value is only marked: 1, or [`NEVER`].
    pub(super) alone: u64,
    /// [`ODD`], and the host's flags.
    pub(super) unusual: u32,
}

/// Keeps the arguments of a call on a shelf, which no other code uses meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeper(pub(super) *mut Shelf);

/// A count of references that no value has, so that no value is only marked: each kept value is then counted,
/// and a box that changes it changes a copy.
pub(super) const NEVER: u64 = u64::MAX;

/// A flag in [`Shelf::unusual`]: a value on the heap was kept for an argument that is seldom on the heap.
pub(super) const ODD: u32 = 2;

impl Keeper {
    #[inline(always)]
    fn put(self, index: usize, kept: Kept) {
        // SAFETY: the caller of the keeper's constructor guarantees that the call has an argument of this
        // number.
        unsafe { (*self.0).kept.add(index).write(kept) };
    }

    /// Keeps a value on the heap.
    #[inline(always)]
    fn put_heap(self, index: usize, kind: u64, head: *const Header) {
        // SAFETY: the argument still owns the value, so its header has not been freed; no other code uses the
        // shelf meanwhile.
        let (references, alone) = unsafe { (&(*head).references, (*self.0).alone) };
        if references.load(Ordering::Acquire) == alone {
            references.store(KEPT | 1, Ordering::Relaxed);
            self.put(index, Kept { kind: kind | MARKED, payload: head as u64 });
        } else {
            let kind = keep(kind, references, alone == NEVER);
            self.put(index, Kept { kind, payload: head as u64 });
        }
    }
}

impl Keeper {
    #[inline(never)]
    fn odd_heap(self, index: usize, value: &Value) {
        self.value(index, value);
        // SAFETY: no other code uses the shelf.
        unsafe { (*self.0).unusual |= ODD };
    }
}

impl Keep for Keeper {
    #[inline(always)]
    fn number(self, index: usize, number: &Value) {
        self.put(index, Kept::of(number));
    }

    #[inline(always)]
    fn heap<H: OnHeap>(self, index: usize, value: &H) {
        self.put_heap(index, H::KIND, value.head());
    }

    #[inline(always)]
    fn value(self, index: usize, value: &Value) {
        let kept = Kept::of(value);
        if kept.is_heap() {
            self.put_heap(index, kept.kind, kept.payload as *const Header);
        } else {
            self.put(index, kept);
        }
    }

    #[inline(always)]
    fn odd(self, index: usize, value: &Value) {
        if Kept::of(value).is_heap() {
            self.odd_heap(index, value);
        } else {
            self.number(index, value);
        }
    }

    fn leave(self, index: usize) {
        self.put(index, Kept::NOTHING);
    }
}

/// Prevents a value of this kind from being freed, if the value cannot simply be marked; returns the kind of
/// the kept value.
#[inline(never)]
fn keep(kind: u64, references: &AtomicU64, exact: bool) -> u64 {
    if references.load(Ordering::Acquire) != 1 {
        references.fetch_add(1, Ordering::Relaxed);
    } else if exact && kind != OPAQUE {
        // The argument is the only owner, so no other thread changes the count meanwhile.
        references.store(2, Ordering::Relaxed);
    } else {
        references.store(KEPT | 1, Ordering::Relaxed);
        return kind | MARKED;
    }
    kind
}

impl Kept {
    pub(super) const NOTHING: Kept = Kept { kind: 0, payload: 0 };

    /// Keeps nothing any more; the value on the heap was released. The payload of nothing is never read, so
    /// a single word is written.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.kind = 0;
    }

    /// The words of a value.
    #[inline(always)]
    fn of(value: &Value) -> Kept {
        let words: *const u64 = std::ptr::from_ref(value).cast();
        // SAFETY: a value is two words without padding.
        unsafe { Kept { kind: words.read(), payload: words.add(1).read() } }
    }

    /// Whether a value on the heap has to be released.
    #[inline(always)]
    pub(super) fn is_heap(&self) -> bool {
        self.kind >= TEXT
    }

    #[inline(always)]
    fn header(&self) -> NonNull<Header> {
        debug_assert!(self.is_heap());
        NonNull::new(self.payload as *mut Header).expect("a value on the heap has a head")
    }

    #[inline(always)]
    fn references(&self) -> &AtomicU64 {
        // SAFETY: a kept value is not freed before it is released, so its header is still in memory.
        unsafe { &(*self.header().as_ptr()).references }
    }

    /// Releases the value on the heap after a call that succeeded; `slot` is the slot of its argument.
    /// Returns `false` if the value could not be released in this way, in which case [`Kept::let_go`] must be
    /// called. No other code has read the slot yet.
    #[inline(always)]
    pub(super) fn settle(&self, slot: &Value) -> bool {
        let now = Kept::of(slot);
        if now.payload != self.payload || !now.is_heap() {
            return false;
        }
        // If the marked count has one owner, that owner is in `slot`, the slot of the argument. Only owners
        // change the count, so no other thread changes it then.
        // SAFETY: a kept value is not freed before it is released, so its header is still in memory.
        let references = unsafe { &(*(self.payload as *const Header)).references };
        let is_alone = references.load(Ordering::Acquire) == KEPT | 1;
        if is_alone {
            references.store(1, Ordering::Relaxed);
        }
        is_alone
    }

    /// Releases the value: the call has succeeded, and `output` is its output, which no other code has read
    /// yet.
    #[inline(never)]
    pub(super) fn let_go(&mut self, output: &[Value]) {
        if self.is_heap() {
            let now = self.references().load(Ordering::Acquire);
            let (ours, alone) = if self.is_marked() { (0, now & OWNERS) } else { (1, now.wrapping_sub(1)) };
            if alone == 0 {
                // The value has no owner any more, so no thread can become one.
                // SAFETY: this is the last reference to the value.
                unsafe { free(self.header()) };
            } else if alone == 1 && output.iter().any(|value| self.is(value)) {
                // The only owner of the value is in the output.
                self.references().store(1, Ordering::Relaxed);
            } else if ours == 1 {
                drop(self.block());
            } else if self.references().fetch_and(OWNERS, Ordering::AcqRel) & OWNERS == 0 {
                // SAFETY: the value has no owner, and no call keeps it any more.
                unsafe { free(self.header()) };
            }
        }
        *self = Kept::NOTHING;
    }

    fn is_marked(&self) -> bool {
        self.kind & MARKED != 0
    }

    /// Whether the kept argument is `value`, a value on the heap.
    fn is(&self, value: &Value) -> bool {
        let other = Kept::of(value);
        other.is_heap() && other.payload == self.payload
    }

    /// The block on the heap whose references are counted for this value.
    fn block(&self) -> Block {
        Block::counted(self.header())
    }

    /// The original value, to replace the value that a failed call left; `None` if nothing was kept.
    pub(super) fn give_back(&mut self) -> Option<Value> {
        let kept = std::mem::replace(self, Kept::NOTHING);
        if kept.kind == 0 {
            return None;
        }
        if kept.is_marked() && !kept.becomes_owner() {
            return Some(Value::from("(changed in place by the box)"));
        }
        let words = [kept.kind & !MARKED, kept.payload];
        // SAFETY: these are the two words of the original value, and its count of references includes this
        // owner.
        Some(ManuallyDrop::into_inner(unsafe { std::mem::transmute::<[u64; 2], ManuallyDrop<Value>>(words) }))
    }

    /// Turns the mark into an owner; false if the value was changed, in which case it was released.
    fn becomes_owner(&self) -> bool {
        let unchanged = |now: u64| (now & CHANGED == 0).then_some((now & OWNERS) + 1);
        if self.references().fetch_update(Ordering::AcqRel, Ordering::Acquire, unchanged).is_ok() {
            return true;
        }
        if self.references().fetch_and(OWNERS, Ordering::AcqRel) & OWNERS == 0 {
            // SAFETY: the value has no owner, and no call keeps it any more.
            unsafe { free(self.header()) };
        }
        false
    }
}

/// Whether an owner with this count may change the value: the only owner may, unless a call keeps the
/// original.
#[inline]
pub(super) fn may_change(references: &AtomicU64) -> bool {
    // Acquire pairs with the release of the owners that dropped the value.
    let now = references.load(Ordering::Acquire);
    now == 1 || now & KEPT != 0 && may_change_kept(references)
}

#[cold]
fn may_change_kept(references: &AtomicU64) -> bool {
    let changed = |now: u64| (now & OWNERS == 1).then_some(now | CHANGED);
    // Only a marked count records a change: without a mark, another owner has dropped the value meanwhile, or
    // the call has ended.
    let marked = |now: u64| if now & KEPT != 0 { changed(now) } else { None };
    references.fetch_update(Ordering::AcqRel, Ordering::Acquire, marked).is_ok()
        || references.load(Ordering::Acquire) == 1
}

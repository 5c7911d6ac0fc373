//! The ends of streams that a dispatch uses.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::ring::NOTED;
use crate::sync::{AtomicU8, Ordering};
use crate::task::cell::{Ring, TaskCell};

/// The streams that the current dispatch uses.
pub(crate) struct Used {
    /// The ends used; after publication only those that were found empty or full.
    pub(crate) touched: Vec<Touch>,
    /// The stream that the last message was popped from; null if none was popped.
    pub(crate) popped_last: Cell<*const Ring>,
    /// Whether `Inputs::next_ready` returned `None` in this dispatch, so that the task waits for any of its
    /// inputs.
    pub(crate) ports_wait: bool,
    /// References to streams that must be given up when no core is borrowed any more, because giving them up
    /// may run a user's code.
    pub(crate) released: Vec<NonNull<Ring>>,
}

impl Used {
    pub(crate) fn new() -> Used {
        Used {
            touched: Vec::with_capacity(8),
            popped_last: Cell::new(std::ptr::null()),
            ports_wait: false,
            released: Vec::new(),
        }
    }
}

impl Used {
    /// Adds an end to the list, if the list has memory for one more. The call never allocates, so its caller
    /// need not save registers for a call of the allocator.
    #[inline(always)]
    pub(crate) fn touch_if_room(&mut self, touch: Touch) -> bool {
        let length = self.touched.len();
        if length == self.touched.capacity() {
            return false;
        }
        // SAFETY: the list has memory for an end at `length`, which is written before it counts.
        unsafe {
            self.touched.as_mut_ptr().add(length).write(touch);
            self.touched.set_len(length + 1);
        }
        true
    }
}

/// A task that sleeps on this thread until a message comes, and the stream that it passes messages on by.
#[derive(Clone, Copy)]
pub(crate) struct Passer {
    pub(crate) task: NonNull<TaskCell>,
    pub(crate) out: NonNull<Ring>,
}

/// Messages that a task hands on to another one: see `handing`.
#[cfg_attr(loom, allow(dead_code, reason = "models have no messages side by side"))]
pub(crate) struct Handed {
    /// The slot of the first message; the other messages lie behind it. The slot is not freed before the
    /// dispatch that first handed the messages on has ended.
    pub(crate) first: *mut u8,
    pub(crate) count: usize,
    /// The stream to which the messages would be written if they were not handed on; the messages are only
    /// counted in its positions.
    pub(crate) stream: NonNull<Ring>,
    /// The task that reads this stream.
    pub(crate) to: Passer,
}

/// An end of a stream used in this dispatch.
#[derive(Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) ring: NonNull<Ring>,
    pub(crate) writes: bool,
}

impl Touch {
    /// The marks that the dispatch has set at the end.
    #[inline]
    pub(crate) fn state<'a>(self) -> &'a AtomicU8 {
        // SAFETY: an end on the list is kept until the list is emptied, and the reference is not kept longer.
        let ring = unsafe { self.ring.as_ref() };
        if self.writes { &ring.writing.state } else { &ring.reading.state }
    }

    /// The number of messages that wait at a reading end, or minus the number of unread ones at a writing
    /// end.
    pub(crate) fn demand(self) -> i32 {
        // SAFETY: an end on the list is kept until the list is emptied.
        let ring = unsafe { self.ring.as_ref() };
        if self.writes { -(ring.look_for_room() as i32) } else { ring.look_for_messages() as i32 }
    }

    /// Whether the dispatch found the end empty or full.
    #[inline]
    pub(crate) fn waits(self) -> bool {
        self.state().load(Ordering::Relaxed) & NOTED != 0
    }
}

/// The stream and index of the message popped last from a stream that the dispatch read. Messages that a
/// reader dropped when it left do not count as popped.
pub(crate) fn popped_last_of(ring: &Ring) -> (u64, u64) {
    (ring.id, (ring.reading.popped.get() - ring.discarded()) as u64 - 1)
}

/// The only stream whose writing end the dispatch found full (if `writes`) or whose reading end it found
/// empty (if not); 0 if there are none or several.
#[inline(never)]
pub(crate) fn only_one_noted(touched: &[Touch], writes: bool) -> u64 {
    let mut noted = touched.iter().filter(|touch| touch.writes == writes && touch.waits());
    match (noted.next(), noted.next()) {
        // SAFETY: an end holds a reference to its ring until the end's state is 0.
        (Some(one), None) => unsafe { one.ring.as_ref() }.id,
        _ => 0,
    }
}

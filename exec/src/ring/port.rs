//! The state that few streams have: those in a group of inputs, and those with messages that nobody read.

use std::cell::Cell;

use super::{Holder, Ring};
use crate::slab;
use crate::sync::{AtomicPtr, Ordering};

/// The additional state of a stream in a group of inputs (see [`Inputs`](crate::Inputs)), or with messages that
/// nobody read.
pub(crate) struct Port {
    /// The ring of the next port in the stack of ready ports. The field is written by the thread that pushes
    /// this port on the stack, read by the thread that empties the stack.
    pub(crate) next: AtomicPtr<()>,
    /// The index of the task's group of inputs that the port is in (`u32::MAX`: none); `index` is the port's
    /// place in the group. Only the reader accesses the two fields, and writes them before the port first
    /// waits.
    pub(crate) group: Cell<u32>,
    pub(crate) index: Cell<u32>,
    /// Messages written to a stream without reader. Only the writer accesses the field.
    refused: Cell<usize>,
    /// Messages that the leaving reader dropped unread. Only the reader accesses the field.
    discarded: Cell<usize>,
}

impl<H: Holder> Ring<H> {
    /// The port of a stream that is in a group of inputs.
    #[inline]
    pub(crate) fn port(&self) -> Option<&Port> {
        // SAFETY: the port is kept as long as the ring.
        unsafe { self.port.load(Ordering::Acquire).as_ref() }
    }

    /// The stream's port, which is made now if the stream has none. The caller runs on the thread of the reader's
    /// task, or, if the reader is gone, on that of the writer's.
    fn port_made(&self) -> &Port {
        self.port().unwrap_or_else(|| {
            let port = slab::make(Port {
                next: AtomicPtr::new(std::ptr::null_mut()),
                group: Cell::new(u32::MAX),
                index: Cell::new(0),
                refused: Cell::new(0),
                discarded: Cell::new(0),
            });
            self.port.store(port.as_ptr(), Ordering::Release);
            // SAFETY: the port is kept as long as the ring.
            unsafe { port.as_ref() }
        })
    }

    /// Makes the stream port `index` of a group. The caller runs on the thread of the reader's task.
    pub(crate) fn enroll(&self, group: u32, index: u32) {
        let port = self.port_made();
        port.group.set(group);
        port.index.set(index);
    }

    /// The number of messages written to the stream without reader.
    #[inline]
    pub(crate) fn refused(&self) -> usize {
        self.port().map_or(0, |port| port.refused.get())
    }

    /// Counts a message that was written after the reader had left. The caller is the writer.
    pub(crate) fn refuse(&self) {
        let port = self.port_made();
        port.refused.set(port.refused.get() + 1);
    }

    /// The number of messages that the leaving reader dropped unread.
    #[inline]
    pub(crate) fn discarded(&self) -> usize {
        self.port().map_or(0, |port| port.discarded.get())
    }

    /// Counts the messages that the leaving reader, which is the caller, dropped unread.
    pub(crate) fn discard(&self, messages: usize) {
        if messages > 0 {
            self.port_made().discarded.set(messages);
        }
    }

    /// The index of the reader task's group of inputs that the stream is in, if any.
    #[inline]
    pub(crate) fn group(&self) -> Option<usize> {
        self.port().map(|port| port.group.get() as usize).filter(|&group| group != u32::MAX as usize)
    }
}

//! The state that only few tasks have: groups of inputs, several streams to wait for, a specification that is
//! needed again.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::ring::{Holder, Ring};
use crate::sync::{AtomicPtr, Ordering};
use crate::task::spec::TaskSpec;

/// The state that only few tasks have.
pub(crate) struct Rare<H: Holder> {
    /// The ports that became ready: pushed by their writers (release), taken as a whole by the task
    /// (acquire).
    pub(crate) ready_ports: AtomicPtr<Ring<H>>,
    /// Only the task's thread accesses this field.
    pub(crate) several: UnsafeCell<Several<H>>,
    /// The specification that a user's mapper gets as its argument when the task is placed again.
    pub(crate) spec: Option<TaskSpec>,
}

/// The state of a task that waits for several streams. Only the task's own thread accesses this state, which
/// holds counted references to the streams.
pub(crate) struct Several<H: Holder> {
    pub(crate) groups: Vec<Group<H>>,
    /// The streams that the sleeping task waits for besides `TaskCell::waits_on`, unless they are in a group.
    pub(crate) others: References<H>,
}

/// A group of inputs, any of which may be ready next: see [`Inputs`](crate::Inputs).
pub(crate) struct Group<H: Holder> {
    /// The ports that have messages or have ended, or were not checked yet. All other ports are armed while
    /// the task sleeps.
    pub(crate) ready: References<H>,
    /// All ports of the group, by their index.
    members: Vec<Option<NonNull<Ring<H>>>>,
}

impl<H: Holder> Group<H> {
    /// Makes `ring` the port with the given index.
    pub(crate) fn enroll(&mut self, index: usize, ring: &Ring<H>) {
        if self.members.len() <= index {
            self.members.resize(index + 1, None);
        }
        let before = self.members[index].replace(counted(ring));
        release(before);
    }

    /// Removes the port with the given index.
    pub(crate) fn withdraw(&mut self, index: usize) {
        release(self.members.get_mut(index).and_then(Option::take));
    }

    /// Whether a port is ready. The call drops ready ports whose reading end is gone.
    pub(crate) fn has_ready(&mut self) -> bool {
        let gone = |ring: &Ring<H>| ring.reading.reader_gone.load(Ordering::Relaxed) != 0;
        while self.ready.iter().next().is_some_and(gone) {
            release(self.ready.pop());
        }
        !self.ready.0.is_empty()
    }

    /// All ports.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Ring<H>> {
        // SAFETY: the group holds a reference to each member, so the ring is alive.
        self.members.iter().flatten().map(|ring| unsafe { ring.as_ref() })
    }
}

impl<H: Holder> Drop for Group<H> {
    fn drop(&mut self) {
        self.members.drain(..).for_each(release);
    }
}

/// Streams in order, each with a reference.
pub(crate) struct References<H: Holder>(VecDeque<NonNull<Ring<H>>>);

impl<H: Holder> References<H> {
    /// Adds a stream, with a new reference to it.
    pub(crate) fn add(&mut self, ring: &Ring<H>) {
        self.0.push_back(counted(ring));
    }

    /// Adds a stream with the caller's reference to it.
    pub(crate) fn push(&mut self, ring: NonNull<Ring<H>>) {
        self.0.push_back(ring);
    }

    /// Takes the first stream out, with its reference.
    pub(crate) fn pop(&mut self) -> Option<NonNull<Ring<H>>> {
        self.0.pop_front()
    }

    /// Removes this stream if it is there.
    pub(crate) fn remove(&mut self, ring: NonNull<Ring<H>>) {
        if let Some(at) = self.0.iter().rposition(|&one| one == ring) {
            release(self.0.remove(at));
        }
    }

    /// Takes all streams out, with their references.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = NonNull<Ring<H>>> {
        self.0.drain(..)
    }

    #[cfg(all(test, loom))]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ring<H>> {
        // SAFETY: the list holds a reference to each stream in it, so the ring is alive.
        self.0.iter().map(|ring| unsafe { ring.as_ref() })
    }
}

impl<H: Holder> Default for Rare<H> {
    fn default() -> Rare<H> {
        let ready_ports = AtomicPtr::new(std::ptr::null_mut());
        Rare { ready_ports, several: UnsafeCell::default(), spec: None }
    }
}

impl<H: Holder> Default for Several<H> {
    fn default() -> Several<H> {
        Several { groups: Vec::new(), others: References::default() }
    }
}

impl<H: Holder> Default for Group<H> {
    fn default() -> Group<H> {
        Group { ready: References::default(), members: Vec::new() }
    }
}

impl<H: Holder> Default for References<H> {
    fn default() -> References<H> {
        References(VecDeque::new())
    }
}

impl<H: Holder> Drop for References<H> {
    fn drop(&mut self) {
        self.drain().map(Some).for_each(release);
    }
}

fn counted<H: Holder>(ring: &Ring<H>) -> NonNull<Ring<H>> {
    ring.refs.fetch_add(1, Ordering::Relaxed);
    NonNull::from(ring)
}

fn release<H: Holder>(ring: Option<NonNull<Ring<H>>>) {
    if let Some(ring) = ring {
        // SAFETY: this gives up the reference that was counted when the stream was added.
        unsafe { Ring::release(ring.as_ptr()) }
    }
}

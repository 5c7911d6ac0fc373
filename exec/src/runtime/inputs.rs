//! The inputs of a collector: many streams; a wake-up of the collector says which stream is ready.
//!
//! Each port is either in its task's queue of ready ports, or *armed*. When the writer of an armed port
//! publishes next, it puts the port on the task's lock-free stack of ready ports and wakes the task. Because
//! no input is searched for, a wake-up costs the same with ten thousand inputs as with one.

use std::ptr::NonNull;

use crate::dispatch::Core;
use crate::ring::{AWAKE, PORT_WAITS, Wait, wait_until_zero};
use crate::runtime::ports::In;
use crate::sync::Ordering;
use crate::task::cell::{Group, Ring, TaskCell};
use crate::task::context::Context;
use crate::task::spec::TaskId;

/// The reading ends of many streams, as one task's input. The group belongs to the first task that uses it.
pub struct Inputs<T: Send + 'static> {
    ports: Vec<Option<In<T>>>,
    vacant: Vec<usize>,
    open: usize,
    /// The task, and the index of this group among the task's groups, once they are known.
    bound: Option<(TaskId, u32)>,
}

impl<T: Send + 'static> Default for Inputs<T> {
    fn default() -> Self {
        Inputs::new()
    }
}

impl<T: Send + 'static> Inputs<T> {
    /// A group without inputs.
    pub fn new() -> Inputs<T> {
        Inputs { ports: Vec::new(), vacant: Vec::new(), open: 0, bound: None }
    }

    /// Adds an input before the task runs; returns its index. While the task runs, use
    /// [`Inputs::add_running`].
    ///
    /// # Panics
    /// If the inputs already belong to a running task.
    pub fn add(&mut self, input: In<T>) -> usize {
        assert!(self.bound.is_none(), "inputs of a running task: use `add_running`");
        self.insert(input)
    }

    /// Adds an input while the task runs; returns its index.
    pub fn add_running(&mut self, cx: &mut Context<'_>, input: In<T>) -> usize {
        self.bind_running(cx);
        let index = self.insert(input);
        self.enroll(cx.core(), cx.task.get(), index);
        index
    }

    /// Removes an input and returns it with its unread messages.
    pub fn remove(&mut self, cx: &mut Context<'_>, index: usize) -> Option<In<T>> {
        self.bind_running(cx);
        let input = self.ports.get_mut(index)?.take()?;
        self.vacant.push(index);
        self.open -= 1;
        withdraw(cx.task.get(), input.ring_pointer());
        Some(input)
    }

    /// The next input (in turn) that has messages, or that has ended and has not been removed yet. `None`:
    /// the task may stop with [`Stop::InputEmpty`](crate::Stop::InputEmpty).
    ///
    /// An input that [ended](In::ended) is offered again until it is [removed](Inputs::remove_ended).
    pub fn next_ready(&mut self, cx: &mut Context<'_>) -> Option<&mut In<T>> {
        let index = self.next_index(cx)?;
        self.ports[index].as_mut()
    }

    /// The index of the input that [`Inputs::next_ready`] would return, for [`Inputs::get_mut`] and
    /// [`Inputs::remove`].
    pub fn next_index(&mut self, cx: &mut Context<'_>) -> Option<usize> {
        let group = self.bind_running(cx);
        let task = cx.task.get();
        // SAFETY: this is the task's thread (or the task does not run yet); no reference to the groups is
        // kept across this loop's turns.
        while let Some(ring) = unsafe { pop_queued(task, group) } {
            // SAFETY: the queue's reference now belongs to this call.
            let r = unsafe { ring.as_ref() };
            let index = r.port().map_or(usize::MAX, |port| port.index.get() as usize);
            let ours =
                self.ports.get(index).and_then(Option::as_ref).is_some_and(|i| i.ring_pointer() == ring);
            if ours && (r.reading.popped.get() != r.writing.tail.load(Ordering::Acquire) || r.ended()) {
                // SAFETY: this is the task's thread (or the task does not run yet); no reference to the
                // groups is kept.
                unsafe { task.queue_ready_port(group, ring) };
                return Some(index);
            }
            if ours && arm(cx.core(), r) {
                // SAFETY: this is the task's thread (or the task does not run yet); no reference to the
                // groups is kept.
                unsafe { task.queue_ready_port(group, ring) };
                continue;
            }
            // SAFETY: this gives up the queue's reference; an armed port is in no queue.
            unsafe { Ring::release(ring.as_ptr()) }
        }
        // SAFETY: the context's core outlives the context, and no other reference to the core is held.
        unsafe { cx.core().as_mut() }.used.ports_wait = true;
        None
    }

    /// The input with the given index.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut In<T>> {
        self.ports.get_mut(index)?.as_mut()
    }

    /// Drops the inputs that [`Inputs::next_ready`] would offer next, as long as these have ended; returns
    /// how many it dropped.
    pub fn remove_ended(&mut self, cx: &mut Context<'_>) -> usize {
        let mut removed = 0;
        while let Some(index) = self.next_index(cx) {
            if !self.ports[index].as_ref().is_some_and(In::ended) {
                break;
            }
            drop(self.remove(cx, index));
            removed += 1;
        }
        removed
    }

    /// How many inputs there are.
    pub fn len(&self) -> usize {
        self.open
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Whether every input has ended (or been removed).
    pub fn all_ended(&self) -> bool {
        self.open == 0 || self.ports.iter().flatten().all(In::ended)
    }

    fn insert(&mut self, input: In<T>) -> usize {
        self.open += 1;
        match self.vacant.pop() {
            Some(index) => {
                self.ports[index] = Some(input);
                index
            }
            None => {
                self.ports.push(Some(input));
                self.ports.len() - 1
            }
        }
    }

    /// Binds the inputs to `task` as one group. Each input is polled once before the task waits.
    pub(crate) fn bind(&mut self, core: NonNull<Core>, task: &TaskCell) {
        if let Some((owner, _)) = self.bound {
            assert!(owner == task.id, "inputs belong to the task that used them first");
            return;
        }
        // SAFETY: this is the task's thread, or the task does not run yet.
        let groups = unsafe { task.groups() };
        self.bound = Some((task.id, groups.len() as u32));
        groups.push(Group::default());
        for index in 0..self.ports.len() {
            if self.ports[index].is_some() {
                self.enroll(core, task, index);
            }
        }
    }

    fn bind_running(&mut self, cx: &mut Context<'_>) -> u32 {
        let task = cx.task.get();
        match self.bound {
            Some((owner, group)) if owner == task.id => group,
            _ => {
                self.bind(cx.core(), task);
                self.bound.expect("just bound").1
            }
        }
    }

    fn enroll(&mut self, mut core: NonNull<Core>, task: &TaskCell, index: usize) {
        let (Some(Some(input)), Some((_, group))) = (self.ports.get(index), self.bound) else { return };
        let ring = input.ring_pointer();
        // SAFETY: the core outlives this call, and no other reference to it is held.
        unsafe {
            core.as_mut().take_tasks_back();
            core.as_mut().attach_reader(ring, task);
        }
        let r = input.ring();
        r.enroll(group, index as u32);
        r.refs.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this is the task's thread (or the task does not run yet); no reference to the groups is
        // kept.
        unsafe {
            task.groups()[group as usize].enroll(index, r);
            task.queue_ready_port(group, ring);
        }
    }
}

/// Arms a port; returns true if, in the meantime, its stream has got a message or has ended.
fn arm(core: NonNull<Core>, ring: &Ring) -> bool {
    // SAFETY: the context's core outlives the context, and no other reference to the core is held.
    let me = unsafe {
        let core = &mut *core.as_ptr();
        core.take_tasks_back();
        core.me
    };
    ring.wait_for_messages(me, PORT_WAITS) == Wait::Ready
}

/// # Safety
/// The caller is the task's own thread, and no reference to the groups lives.
unsafe fn pop_queued(task: &TaskCell, group: u32) -> Option<NonNull<Ring>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        task.sort_ready_ports();
        task.groups()[group as usize].ready.pop()
    }
}

/// Removes a port from its task's stack or queue.
fn withdraw(task: &TaskCell, ring: NonNull<Ring>) {
    // SAFETY: the port's end holds a reference.
    let r = unsafe { ring.as_ref() };
    let queued = r.writing.reader_waiting.swap(AWAKE, Ordering::AcqRel) == AWAKE;
    if queued {
        // A port that is in neither the stack nor the queue may be being pushed by its writer at this moment.
        wait_until_zero(r.writer_section());
    }
    let (Some(port), Some(group)) = (r.port(), r.group()) else { return };
    // SAFETY: this is the task's own thread; no reference to the groups is kept.
    let group = unsafe {
        task.sort_ready_ports();
        &mut task.groups()[group]
    };
    if queued {
        group.ready.remove(ring);
    }
    group.withdraw(port.index.get() as usize);
    port.group.set(u32::MAX);
}

impl<T: Send + 'static> std::fmt::Debug for Inputs<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.ports.iter().flatten()).finish()
    }
}

//! The output of a task, with the records that did not fit into the stream.

use std::collections::VecDeque;

use thalweg_exec::{Context, Out, Ports};

use crate::record::{Ends, Record};

/// The writing end of a stream, and the records that wait for space in it: at most the output of one record.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) out: Out<Record>,
    waiting: VecDeque<Record>,
}

impl Output {
    pub(crate) fn new(out: Out<Record>) -> Output {
        Output { out, waiting: VecDeque::new() }
    }

    pub(crate) fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.out);
    }

    /// Writes a record that descends from the message read last. Returns whether there was space; if not, the
    /// record waits.
    #[inline(always)]
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, record: Record) -> bool {
        let mut record = record;
        if self.waiting.is_empty() {
            match push(&mut self.out, cx, record) {
                Ok(()) => return true,
                Err(refused) => record = refused,
            }
        }
        self.wait(record);
        false
    }

    #[cold]
    #[inline(never)]
    fn wait(&mut self, record: Record) {
        self.waiting.push_back(record);
    }

    /// Sets the groups that end after the record sent last.
    #[inline]
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, ends: Ends) {
        if ends != Ends::NOTHING {
            self.send(cx, Record::mark(ends));
        }
    }

    /// Whether records wait for space.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes waiting records while there is space; returns whether none waits any more.
    #[inline]
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(record) = self.waiting.pop_front() {
            if let Err(record) = push(&mut self.out, cx, record) {
                self.waiting.push_front(record);
                return false;
            }
        }
        true
    }

    /// The records that wait for space.
    pub(crate) fn take_waiting(&mut self) -> Option<Record> {
        self.waiting.pop_front()
    }
}

/// Writes a message that descends from the one read last; gives it back if the stream is full.
#[inline(always)]
pub(crate) fn push<T: Send + 'static>(out: &mut Out<T>, cx: &mut Context<'_>, record: T) -> Result<(), T> {
    out.push(cx, record)?;
    if cx.full() {
        cx.derived(out);
    }
    Ok(())
}

/// Writes a message that descends from `cause`, which the task reads in place and consumes in this dispatch;
/// gives it back if the stream is full.
pub(crate) fn push_because<T: Send + 'static>(
    out: &mut Out<T>,
    cx: &mut Context<'_>,
    message: T,
    cause: (u64, u64),
) -> Result<(), T> {
    out.push(cx, message)?;
    cx.derived_from(out, cx.full().then_some(cause));
    Ok(())
}

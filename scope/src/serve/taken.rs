//! What a client has taken of each element, so that it goes on at another server without taking anything twice.

use crate::tuple::{Batch, ELEMENT_NONE, KIND_GAP, Legend};
use std::collections::HashMap;

/// The sequence that comes next of each element.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// By the element's number in the legend of this connection: what was taken over earlier connections, and what over this one.
    elements: Vec<Option<Element>>,
    /// Taken over earlier connections: by the process's space and the writer.
    before: HashMap<([u8; 16], u32), u64>,
    /// Events of a time before this, in nanoseconds since 1970, were never asked for.
    since_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Element {
    begin: u64,
    next: u64,
}

impl Taken {
    /// Begins a connection, on which numbers mean something else: notes what they meant. All that elements hold comes, although only
    /// events of this time or later were asked for.
    pub(crate) fn begin_anew(&mut self, legend: &Legend, since_ns: u64) {
        self.since_ns = since_ns;
        for (number, element) in std::mem::take(&mut self.elements).into_iter().enumerate() {
            let (Some(element), Some(key)) = (element, key(legend, number as u32)) else { continue };
            self.before.insert(key, element.next.max(element.begin));
        }
    }

    /// Leaves out what was taken over earlier connections; returns how many events fewer are lost by that.
    pub(crate) fn take(&mut self, batch: &mut Batch) -> u64 {
        let legend = batch.legend().clone();
        let mut spared = 0;
        let mut heads = std::mem::take(&mut batch.heads);
        heads.retain_mut(|head| {
            if head.element == ELEMENT_NONE || head.is_row() {
                return true;
            }
            let since_ns = self.since_ns;
            let element = self.element(&legend, head.element);
            let is_gap = head.kind == KIND_GAP;
            if head.time_ns < since_ns && element.begin == 0 {
                spared += if is_gap { batch.word(head, 0) } else { 0 };
                return false;
            }
            if !is_gap {
                element.next = element.next.max(head.sequence.saturating_add(1));
                return head.sequence >= element.begin;
            }
            let (lost, from) = (batch.word(head, 0), batch.word(head, 1));
            let (end, begin) = (from.saturating_add(lost), from.max(element.begin));
            let left = end.saturating_sub(begin);
            element.next = element.next.max(end);
            if left < lost {
                spared += lost - left;
                head.sequence = begin;
                batch.set_words(head, [left, begin]);
            }
            left > 0
        });
        batch.heads = heads;
        spared
    }

    fn element(&mut self, legend: &Legend, number: u32) -> &mut Element {
        let at = number as usize;
        if self.elements.len() <= at {
            self.elements.resize(at + 1, None);
        }
        let before = &self.before;
        let begin = || key(legend, number).and_then(|key| before.get(&key).copied()).unwrap_or(0);
        self.elements[at].get_or_insert_with(|| Element { begin: begin(), next: 0 })
    }
}

fn key(legend: &Legend, element: u32) -> Option<([u8; 16], u32)> {
    let writer = legend.elements.get(element as usize)?.writer;
    Some((legend.process(element)?.uuid, writer))
}

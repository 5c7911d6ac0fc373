//! The events of each element that a client has received, so that it can continue at another server without
//! receiving any event twice.

use crate::tuple::{Batch, ELEMENT_NONE, KIND_GAP, Legend};
use std::collections::HashMap;

/// The next sequence number of each element.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// For each element, by its number in the legend of this connection, the events received over earlier
    /// connections and over this one.
    elements: Vec<Option<Element>>,
    /// The next sequence number after earlier connections, by the process's space and the writer.
    before: HashMap<([u8; 16], u32), u64>,
    /// The time in nanoseconds since 1970 before which no events were requested.
    since_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Element {
    begin: u64,
    next: u64,
}

impl Taken {
    /// Begins a connection, on which elements have other numbers, and stores the progress by space and
    /// writer. The new server sends all events that elements hold, although the client requested only events
    /// from `since_ns` on.
    pub(crate) fn begin_anew(&mut self, legend: &Legend, since_ns: u64) {
        self.since_ns = since_ns;
        for (number, element) in std::mem::take(&mut self.elements).into_iter().enumerate() {
            let (Some(element), Some(key)) = (element, key(legend, number as u32)) else { continue };
            self.before.insert(key, element.next.max(element.begin));
        }
    }

    /// Leaves out events that were received over earlier connections; returns by how much that reduces the
    /// number of lost events.
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

//! The links of a run over several nodes: how much the ends of links carried, and for what they waited, from
//! the counters that each end records (`link.counted`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_monitor::{Batch, Item, Moment, Value};

/// The kind of the counters.
pub(crate) const COUNTED: &str = "link.counted";
/// The fields of the counters that are read, in the order of [`Counts`].
const FIELDS: [&str; 9] = [
    "messages",
    "payload",
    "wire",
    "credit_wait",
    "port_wait",
    "pace_wait",
    "connection_wait",
    "resent",
    "queued",
];
const QUEUED: usize = 8;

/// All links from or to one node, seen from one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkPage {
    /// The index in `processes` of the process that records the counters.
    pub process: usize,
    /// The node at the other end.
    pub node: String,
    /// `out`: records leave the process; `in`: records enter it.
    pub direction: String,
    /// The number of links.
    pub links: u64,
    /// Messages a second.
    pub messages_per_s: f64,
    /// Bytes of messages a second.
    pub bytes_per_s: f64,
    /// Bytes a second over connections, with headers and after compression.
    pub wire_per_s: f64,
    /// The shares of time for which the links waited: for room at the receiver, for a port, for bandwidth, for
    /// the connection. The shares of several links are added.
    pub waits: [f64; 4],
    /// Bytes that were sent again after a connection broke.
    pub resent: u64,
    /// Bytes that waited at the ends of the links when the counters were recorded last.
    pub queued: u64,
}

type Counts = [u64; FIELDS.len()];

/// An end of a link: its counters when the measured time began, and its last counters.
struct End {
    node: u64,
    since: u64,
    begin: Counts,
    until: u64,
    last: Counts,
}

/// The ends of a process's links, by the links' numbers and directions.
#[derive(Default)]
pub(crate) struct Links {
    ends: BTreeMap<(u64, String), End>,
}

impl Links {
    pub(crate) fn take(&mut self, batch: &Batch<'_>, item: &Item) {
        let natural = |name: &str| match batch.field(item, name) {
            Some(Value::Natural(number)) => *number,
            _ => 0,
        };
        let direction = match batch.field(item, "direction") {
            Some(Value::Text(text)) => text.to_lowercase(),
            _ => return,
        };
        let last = FIELDS.map(natural);
        let new = || End { node: natural("node"), since: item.time, begin: last, until: item.time, last };
        let end = self.ends.entry((natural("link"), direction)).or_insert_with(new);
        (end.until, end.last) = (item.time, last);
    }

    /// Begins a new measured time.
    pub(crate) fn restart(&mut self) {
        self.ends.values_mut().for_each(|end| (end.since, end.begin) = (end.until, end.last));
    }

    /// The links to and from each node.
    pub(crate) fn page(&self, moment: &Moment<'_>) -> Vec<LinkPage> {
        let mut pages: BTreeMap<(String, &str), LinkPage> = BTreeMap::new();
        for ((_, direction), end) in &self.ends {
            let node = moment.names.text(end.node).unwrap_or_else(|| end.node.to_string());
            let seconds = moment.ns(end.until.saturating_sub(end.since)) / 1e9;
            let a_second = |at: usize| match seconds > 0.0 {
                true => end.last[at].saturating_sub(end.begin[at]) as f64 / seconds,
                false => 0.0,
            };
            let page = pages.entry((node.clone(), direction)).or_insert_with(|| LinkPage {
                node,
                direction: direction.clone(),
                ..LinkPage::default()
            });
            page.links += 1;
            page.messages_per_s += a_second(0);
            page.bytes_per_s += a_second(1);
            page.wire_per_s += a_second(2);
            page.waits.iter_mut().zip(3..).for_each(|(wait, at)| *wait += a_second(at) / 1e9);
            page.resent += end.last[7];
            page.queued += end.last[QUEUED];
        }
        pages.into_values().collect()
    }
}

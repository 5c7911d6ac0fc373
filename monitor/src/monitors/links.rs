//! The links of a run over several nodes: what they carried, how, and for what they waited, from the counters
//! that both ends of a link record five times a second.

use std::collections::BTreeMap;

use crate::composing::dispatch::{Item, Value};
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{LinkUse, Note, Report};

/// The kind of the counters.
const COUNTED: &str = "link.counted";
/// The counters that are read.
const FIELDS: [&str; 9] = [
    "messages",
    "payload",
    "wire",
    "credit_wait",
    "port_wait",
    "pace_wait",
    "connection_wait",
    "resent",
    "connections",
];
/// The most ends of links that are counted; further ends are left out.
const ENDS_MAX: usize = 1 << 14;

type Counts = [u64; FIELDS.len()];

/// An end of a link.
struct End {
    /// The number of the name of the node at the other end.
    node: u64,
    carrier: String,
    is_exempt: bool,
    /// The counters when the measured time began, and now.
    begin: Counts,
    last: Counts,
    queued: u64,
}

/// The monitor of links.
#[derive(Default)]
pub(crate) struct Links {
    /// The ends, by the link's number and the direction.
    ends: BTreeMap<(u64, String), End>,
}

impl Links {
    fn counted(&mut self, batch: &Batch<'_>, item: &Item) {
        let natural = |name: &str| match batch.field(item, name) {
            Some(Value::Natural(number)) => *number,
            _ => 0,
        };
        let word = |name: &str| match batch.field(item, name) {
            Some(Value::Text(text)) => text.to_lowercase(),
            _ => String::new(),
        };
        let (last, key) = (FIELDS.map(natural), (natural("link"), word("direction")));
        if self.ends.len() >= ENDS_MAX && !self.ends.contains_key(&key) {
            return;
        }
        let end = self.ends.entry(key).or_insert_with(|| End {
            node: natural("node"),
            carrier: String::new(),
            is_exempt: false,
            begin: last,
            last,
            queued: 0,
        });
        (end.carrier, end.is_exempt) = (word("carrier"), natural("is_exempt") != 0);
        (end.last, end.queued) = (last, natural("queued"));
    }
}

impl Monitor for Links {
    fn name(&self) -> &str {
        "links"
    }

    fn wants(&self) -> &[&str] {
        &[COUNTED]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        batch.items().for_each(|item| self.counted(batch, item));
    }

    fn restart(&mut self, _: u64) {
        self.ends.values_mut().for_each(|end| end.begin = end.last);
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let mut uses: BTreeMap<(String, &str, &str), LinkUse> = BTreeMap::new();
        let mut exempt = Vec::new();
        for ((_, direction), end) in &self.ends {
            let node = moment.names.text(end.node).unwrap_or_else(|| end.node.to_string());
            if end.is_exempt {
                exempt.push(node.clone());
            }
            let more = |at: usize| end.last[at].saturating_sub(end.begin[at]);
            let of = uses.entry((node.clone(), direction, &end.carrier)).or_insert_with(|| LinkUse {
                node,
                direction: direction.clone(),
                carrier: end.carrier.clone(),
                ..LinkUse::default()
            });
            of.links += 1;
            of.messages += more(0);
            of.payload_bytes += more(1);
            of.wire_bytes += more(2);
            of.credit_wait_ns += more(3) as f64;
            of.port_wait_ns += more(4) as f64;
            of.pace_wait_ns += more(5) as f64;
            of.connection_wait_ns += more(6) as f64;
            of.resent_bytes += more(7);
            of.connections += end.last[8];
            of.queued_bytes += end.queued;
        }
        report.links = uses.into_values().collect();
        exempt.sort();
        exempt.dedup();
        if !exempt.is_empty() {
            let text = format!(
                "Links to {} go directly although link.transport is `routed`: every node reaches the process of `thalweg run`, so links with it are never routed.",
                exempt.join(", ")
            );
            report.notes.push(Note { code: "links".to_owned(), text });
        }
    }
}

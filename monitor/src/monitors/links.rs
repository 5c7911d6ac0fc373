//! The links of a run over several nodes: what they carried, how, and for what they waited, from the counters
//! that both ends of a link record five times a second.

use std::collections::BTreeMap;

use crate::composing::dispatch::{Item, Value};
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{LinkUse, Note, Report};

/// The kind of the counters.
pub const LINK_COUNTED: &str = "link.counted";
/// The most ends of links that are counted; further ends are left out.
const ENDS_MAX: usize = 1 << 14;

/// What is counted at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCount {
    /// Messages.
    Messages,
    /// Bytes of messages.
    Payload,
    /// Bytes over connections, with headers and after compression.
    Wire,
    /// Nanoseconds for which the receiver had no room.
    CreditWait,
    /// Nanoseconds for which all ports were in use.
    PortWait,
    /// Nanoseconds for which the allowed bandwidth was used up.
    PaceWait,
    /// Nanoseconds for which the connection took or gave nothing.
    ConnectionWait,
    /// Bytes that were sent again.
    Resent,
    /// Connections that were made.
    Connections,
    /// Bytes that wait at the end; the only one that becomes less.
    Queued,
}

impl LinkCount {
    /// All, each with the name of its field in the events.
    const FIELDS: [&str; 10] = [
        "messages",
        "payload",
        "wire",
        "credit_wait",
        "port_wait",
        "pace_wait",
        "connection_wait",
        "resent",
        "connections",
        "queued",
    ];
}

type Counts = [u64; LinkCount::FIELDS.len()];

/// An end of a link.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    /// The number of the name of the node at the other end.
    pub node: u64,
    /// `out`: records leave the process; `in`: records enter it.
    pub direction: String,
    /// How the link's bytes travel, if that is known at this end.
    pub carrier: String,
    /// Whether the link goes directly although links are routed.
    pub is_exempt: bool,
    /// The times of the counters when the measured time began, and of the last ones, in ticks.
    pub times: (u64, u64),
    begin: Counts,
    last: Counts,
}

impl LinkEnd {
    /// What was counted in the measured time.
    pub fn more(&self, of: LinkCount) -> u64 {
        self.last[of as usize].saturating_sub(self.begin[of as usize])
    }

    /// What was counted since the end was made.
    pub fn all(&self, of: LinkCount) -> u64 {
        self.last[of as usize]
    }
}

/// The ends of the links of one process.
#[derive(Default)]
pub struct LinkEnds {
    /// By the link's number and the direction.
    ends: BTreeMap<(u64, String), LinkEnd>,
}

impl LinkEnds {
    /// Takes an event of the kind [`LINK_COUNTED`].
    pub fn take(&mut self, batch: &Batch<'_>, item: &Item) {
        let natural = |name: &str| match batch.field(item, name) {
            Some(Value::Natural(number)) => *number,
            _ => 0,
        };
        let word = |name: &str| match batch.field(item, name) {
            Some(Value::Text(text)) => text.to_lowercase(),
            _ => String::new(),
        };
        let (last, direction) = (LinkCount::FIELDS.map(natural), word("direction"));
        let key = (natural("link"), direction.clone());
        if self.ends.len() >= ENDS_MAX && !self.ends.contains_key(&key) {
            return;
        }
        let end = self.ends.entry(key).or_insert_with(|| LinkEnd {
            node: natural("node"),
            direction,
            carrier: String::new(),
            is_exempt: false,
            times: (item.time, item.time),
            begin: last,
            last,
        });
        (end.carrier, end.is_exempt) = (word("carrier"), natural("is_exempt") != 0);
        (end.times.1, end.last) = (item.time, last);
    }

    /// Begins a new measured time.
    pub fn restart(&mut self) {
        self.ends.values_mut().for_each(|end| (end.times.0, end.begin) = (end.times.1, end.last));
    }

    /// All ends.
    pub fn all(&self) -> impl Iterator<Item = &LinkEnd> {
        self.ends.values()
    }
}

/// The monitor of links.
#[derive(Default)]
pub(crate) struct Links {
    ends: LinkEnds,
}

impl Monitor for Links {
    fn name(&self) -> &str {
        "links"
    }

    fn wants(&self) -> &[&str] {
        &[LINK_COUNTED]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        batch.items().for_each(|item| self.ends.take(batch, item));
    }

    fn restart(&mut self, _: u64) {
        self.ends.restart();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let mut uses: BTreeMap<(String, &str, &str), LinkUse> = BTreeMap::new();
        let mut exempt = Vec::new();
        for end in self.ends.all() {
            let node = moment.names.text(end.node).unwrap_or_else(|| end.node.to_string());
            if end.is_exempt {
                exempt.push(node.clone());
            }
            let of = uses.entry((node.clone(), &end.direction, &end.carrier)).or_insert_with(|| LinkUse {
                node,
                direction: end.direction.clone(),
                carrier: end.carrier.clone(),
                ..LinkUse::default()
            });
            of.links += 1;
            of.messages += end.more(LinkCount::Messages);
            of.payload_bytes += end.more(LinkCount::Payload);
            of.wire_bytes += end.more(LinkCount::Wire);
            of.credit_wait_ns += end.more(LinkCount::CreditWait) as f64;
            of.port_wait_ns += end.more(LinkCount::PortWait) as f64;
            of.pace_wait_ns += end.more(LinkCount::PaceWait) as f64;
            of.connection_wait_ns += end.more(LinkCount::ConnectionWait) as f64;
            of.resent_bytes += end.more(LinkCount::Resent);
            of.connections += end.all(LinkCount::Connections);
            of.queued_bytes += end.all(LinkCount::Queued);
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

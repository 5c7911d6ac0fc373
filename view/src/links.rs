//! The links of a run over several nodes: how much the ends of links carried, and for what they waited, from
//! the counters that each end records (`link.counted`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_monitor::{LinkCount, LinkEnds, Moment};

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

/// The waits, in the order of [`LinkPage::waits`].
const WAITS: [LinkCount; 4] =
    [LinkCount::CreditWait, LinkCount::PortWait, LinkCount::PaceWait, LinkCount::ConnectionWait];

/// The links to and from each node.
pub(crate) fn page(ends: &LinkEnds, moment: &Moment<'_>) -> Vec<LinkPage> {
    let mut pages: BTreeMap<(String, &str), LinkPage> = BTreeMap::new();
    for end in ends.all() {
        let node = moment.names.text(end.node).unwrap_or_else(|| end.node.to_string());
        let seconds = moment.ns(end.times.1.saturating_sub(end.times.0)) / 1e9;
        let a_second = |of: LinkCount| if seconds > 0.0 { end.more(of) as f64 / seconds } else { 0.0 };
        let page = pages.entry((node.clone(), &end.direction)).or_insert_with(|| LinkPage {
            node,
            direction: end.direction.clone(),
            ..LinkPage::default()
        });
        page.links += 1;
        page.messages_per_s += a_second(LinkCount::Messages);
        page.bytes_per_s += a_second(LinkCount::Payload);
        page.wire_per_s += a_second(LinkCount::Wire);
        page.waits.iter_mut().zip(WAITS).for_each(|(wait, of)| *wait += a_second(of) / 1e9);
        page.resent += end.all(LinkCount::Resent);
        page.queued += end.all(LinkCount::Queued);
    }
    pages.into_values().collect()
}

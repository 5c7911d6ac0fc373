//! Links to another node wait for bandwidth: for that which the user allows, or for that of the network.

use crate::report::{Figure, Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let limit = |waited: Figure| Figure { name: "paced".to_owned(), ..waited };
    let paced = facts.linked(|link| link.pace_wait_ns).map(limit);
    let waited = paced.or_else(|| facts.linked(|link| link.connection_wait_ns))?;
    Some(Finding::new(VerdictKind::Link).with(waited).rooted(facts))
}

pub(super) fn describe(found: &Finding) -> Words {
    if found.figure("paced").is_some() {
        let (node, share) = (found.name_of("paced"), found.percent("paced"));
        return Words::text(format!(
            "The bandwidth that is allowed to links limits the flow: those to {node} had used it up for {share} of their time."
        ))
        .so("raise link.send_bandwidth (0: no limit), compress (link.encoding zstd), or place components so that fewer bytes travel");
    }
    let (node, share) = (found.name_of("waited"), found.percent("waited"));
    Words::text(format!(
        "The network to {node} limits the flow: the links' connections took no bytes for {share} of their time."
    ))
    .so("compress (link.encoding zstd), place components so that fewer bytes travel, or, on one host, use memory (link.transport)")
}

//! Links to another node wait until a port is free.

use crate::report::{Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let waited = facts.linked(|link| link.port_wait_ns)?;
    Some(Finding::new(VerdictKind::Port).with(waited).rooted(facts))
}

pub(super) fn describe(found: &Finding) -> Words {
    let (node, share) = (found.name_of("waited"), found.percent("waited"));
    Words::text(format!(
        "Too few ports limit the flow: links to {node} waited for a free one for {share} of their time."
    ))
    .so("raise link.send_ports of this process, or link.receive_ports of the node")
}

//! What the language has and the runtime of this version does not run.

use super::resolved::{Node, NodeKind, Resolved};
use crate::syntax::Diagnostic;

/// One `E0701` for each component that this version can't run. Checking lets them pass: the text is right.
pub fn unsupported(resolved: &Resolved) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    resolved.nets.iter().for_each(|net| look(resolved, &net.body, &mut found));
    found
}

fn look(resolved: &Resolved, node: &Node, found: &mut Vec<Diagnostic>) {
    if let Some(what) = not_yet(&node.kind) {
        let message = format!("{what} can't be run by this version yet");
        let error = Diagnostic::error("E0701", message, resolved.source(node.at), node.at.span);
        found.push(error.label("not supported yet"));
    }
    node.parts().for_each(|part| look(resolved, part, found));
}

/// The constructs that are not run yet: take a line out when one is.
fn not_yet(kind: &NodeKind) -> Option<&'static str> {
    match kind {
        NodeKind::Parallel { deterministic: true, .. } => Some("the deterministic parallel `||`"),
        NodeKind::Star { deterministic: true, .. } => Some("the deterministic star `**`"),
        NodeKind::Split { deterministic: true, .. } => Some("the deterministic split `!!`"),
        NodeKind::Split { placed: true, .. } => Some("placement by tag `!@`"),
        NodeKind::Split { to: Some(_), .. } => Some("a split over a range `<a>:<b>`"),
        NodeKind::Feedback { .. } => Some("feedback `\\`"),
        NodeKind::Synchrocell(_) => Some("a synchrocell"),
        NodeKind::Place { .. } => Some("placement `@`"),
        _ => None,
    }
}

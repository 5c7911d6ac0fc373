//! Calls by their paths from the outermost, over all threads and processes: a trace caused by a hand-over or
//! message is put below the call that sent it.

use super::assembly::{Node, merge_into};
use super::report::PathNode;
use std::collections::{HashMap, VecDeque};

/// The maximal number of paths that are distinguished.
const PATHS_MAX: usize = 100_000;
/// The maximal number of remembered spans, and of trees that wait for the span which they continue.
const SPANS_MAX: usize = 1 << 18;

/// The tree of all calls by their paths, and the traces that wait until the span which they continue is
/// found.
#[derive(Debug, Default)]
pub(super) struct Paths {
    nodes: Vec<PathNode>,
    by_operation: HashMap<(Option<usize>, u32, bool), usize>,
    /// The node of the call that sent each span.
    spans: HashMap<u64, usize>,
    spans_in_order: VecDeque<u64>,
    waiting: HashMap<u64, Vec<Node>>,
    waiting_count: usize,
    /// The number of trees without a parent, because the span which they continue was not found; `not_placed`
    /// counts calls beyond the limit of paths.
    pub(super) not_linked: u64,
    pub(super) not_placed: u64,
    /// Calls through a hand-over or message: the sending operation and the called node.
    pub(super) remote: Vec<(u32, Node)>,
}

impl Paths {
    /// Adds a trace.
    pub(super) fn add(&mut self, root: Node, continues: u64) {
        if continues == 0 {
            return self.put(None, root, false);
        }
        match self.spans.get(&continues) {
            Some(parent) => self.put_below(*parent, root),
            None if self.waiting_count < SPANS_MAX => {
                self.waiting_count += 1;
                merge_into(self.waiting.entry(continues).or_default(), root);
            }
            None => {
                self.not_linked += 1;
                self.put(None, root, false);
            }
        }
    }

    /// Ends the assembly: traces that still wait become roots.
    pub(super) fn finish(&mut self) -> Vec<PathNode> {
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        waiting.sort_by_key(|(span, _)| *span);
        for root in waiting.into_iter().flat_map(|(_, roots)| roots) {
            self.not_linked += 1;
            self.put(None, root, false);
        }
        std::mem::take(&mut self.nodes)
    }

    fn put_below(&mut self, parent: usize, root: Node) {
        let from = self.nodes[parent].operation;
        self.remote.push((from, Node { children: Vec::new(), went: Vec::new(), ..root.clone() }));
        self.put(Some(parent), root, true);
    }

    fn put(&mut self, parent: Option<usize>, node: Node, is_remote: bool) {
        let mut next = vec![(parent, node, is_remote)];
        while let Some((parent, node, is_remote)) = next.pop() {
            let Some(at) = self.place(parent, node.operation, is_remote) else {
                self.not_placed += node.count;
                continue;
            };
            let known = &mut self.nodes[at];
            known.count += node.count;
            known.failed += node.failed + node.unwound;
            known.total_ns += node.total_ns;
            known.own_ns += node.own_ns;
            next.extend(node.children.into_iter().map(|child| (Some(at), child, false)));
            for span in node.went {
                self.went(span, at, &mut next);
            }
        }
    }

    fn place(&mut self, parent: Option<usize>, operation: u32, is_remote: bool) -> Option<usize> {
        if let Some(at) = self.by_operation.get(&(parent, operation, is_remote)) {
            return Some(*at);
        }
        if self.nodes.len() >= PATHS_MAX {
            return None;
        }
        let at = self.nodes.len();
        self.nodes.push(PathNode { parent, operation, is_remote, ..PathNode::default() });
        self.by_operation.insert((parent, operation, is_remote), at);
        Some(at)
    }

    /// Records that a span was sent from the node `at`: a trace that continues the span is put below this
    /// node.
    fn went(&mut self, span: u64, at: usize, next: &mut Vec<(Option<usize>, Node, bool)>) {
        if self.spans_in_order.len() >= SPANS_MAX
            && let Some(oldest) = self.spans_in_order.pop_front()
        {
            self.spans.remove(&oldest);
        }
        if self.spans.insert(span, at).is_none() {
            self.spans_in_order.push_back(span);
        }
        for root in self.waiting.remove(&span).unwrap_or_default() {
            self.waiting_count = self.waiting_count.saturating_sub(1);
            let from = self.nodes[at].operation;
            self.remote.push((from, Node { children: Vec::new(), went: Vec::new(), ..root.clone() }));
            next.push((Some(at), root, true));
        }
    }
}

/// The calls of a single trace by their paths.
pub(super) fn of_one(root: Node) -> Vec<PathNode> {
    let mut paths = Paths::default();
    paths.put(None, root, false);
    paths.nodes
}

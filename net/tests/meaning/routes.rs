//! The routes of the interpreter: the input variants of each branch, found by brute force ([`crate::typing`])
//! from the syntax tree, so that the test does not depend on types that the crate infers.

use std::collections::HashMap;

use thalweg_net::check::{Net, Node, NodeKind, Resolved};
use thalweg_net::syntax::ast::{Label, LabelAt, LabelKind, Pattern};

use crate::typing::{Part, Table};
use crate::world::{Set, World};

/// The most labels of a table, which has a line for each set of them.
const LABELS_MAX: usize = 12;

/// The variants of each branch.
pub(crate) struct Routes(HashMap<*const Node, Vec<Vec<Label>>>);

impl Routes {
    pub(crate) fn of(resolved: &Resolved) -> Routes {
        let mut reader = Reader { resolved, labels: Vec::new() };
        let parts: Vec<Part> = resolved.nets.iter().map(|net| reader.part(&net.body)).collect();
        let labels = reader.labels;
        assert!(labels.len() <= LABELS_MAX, "{} labels are too many", labels.len());
        let bound = (0..labels.len()).filter(|&bit| labels[bit].kind == LabelKind::BindingTag);
        let world = World { labels: labels.len(), binding: bound.fold(0, |set, bit| set | 1 << bit) };
        let mut routes = Routes(HashMap::new());
        for (net, part) in resolved.nets.iter().zip(parts) {
            if has_parallel(&net.body) {
                routes.note(&net.body, &Table::of(&part, world), &labels);
            }
        }
        routes
    }

    /// The input variants of a branch.
    pub(crate) fn variants(&self, branch: &Node) -> &[Vec<Label>] {
        &self.0[&std::ptr::from_ref(branch)]
    }

    fn note(&mut self, node: &Node, table: &Table, labels: &[Label]) {
        // The inside of a net is processed separately.
        if let NodeKind::Net(_) = node.kind {
            return;
        }
        for (inner, table) in node.parts().zip(&table.parts) {
            if let NodeKind::Parallel { .. } = node.kind {
                let of_set = |set: Set| {
                    let bits = (0..labels.len()).filter(|bit| set >> bit & 1 == 1);
                    bits.map(|bit| labels[bit].clone()).collect()
                };
                self.0.insert(inner, table.variants.iter().map(|&set| of_set(set)).collect());
            }
            self.note(inner, table, labels);
        }
    }
}

fn has_parallel(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Parallel { .. }) || node.parts().any(has_parallel)
}

struct Reader<'a> {
    resolved: &'a Resolved,
    /// The labels, by bit.
    labels: Vec<Label>,
}

impl Reader<'_> {
    fn set<'l>(&mut self, labels: impl IntoIterator<Item = &'l Label>) -> Set {
        labels.into_iter().fold(0, |set, label| {
            let known = self.labels.iter().position(|known| known == label);
            let bit = known.unwrap_or_else(|| {
                self.labels.push(label.clone());
                self.labels.len() - 1
            });
            set | 1 << bit
        })
    }

    fn at(&mut self, labels: &[LabelAt]) -> Set {
        self.set(labels.iter().map(|at| &at.label))
    }

    fn patterns(&mut self, patterns: &[Pattern]) -> Vec<(Set, bool)> {
        patterns.iter().map(|pattern| (self.at(&pattern.labels.labels), pattern.guard.is_some())).collect()
    }

    fn part(&mut self, node: &Node) -> Part {
        let resolved = self.resolved;
        let mut inner = |node: &Node| Box::new(self.part(node));
        match &node.kind {
            NodeKind::Box(id) => {
                let signature = &resolved.box_use(*id).signature;
                let takes = self.at(&signature.input.as_ref().expect("no initialiser").labels);
                Part::Box(takes, signature.outputs.iter().map(|tuple| self.at(&tuple.labels)).collect())
            }
            NodeKind::Net(id) => self.net(resolved.net(*id)),
            NodeKind::Filter(filter) => match &filter.rule {
                None => Part::Identity,
                Some(rule) => {
                    let records = rule.action.records();
                    let gives = records.map(|r| self.set(r.items.iter().map(|item| &item.label))).collect();
                    Part::Filter(self.at(&rule.pattern.labels), gives, None)
                }
            },
            NodeKind::Synchrocell(patterns) => Part::Cell(self.patterns(patterns)),
            NodeKind::Serial(parts) => Part::Serial(parts.iter().map(|part| self.part(part)).collect()),
            NodeKind::Parallel { branches, deterministic } => {
                Part::Parallel(branches.iter().map(|part| self.part(part)).collect(), *deterministic)
            }
            NodeKind::Star { body, exits, deterministic } => {
                Part::Star(inner(body), self.patterns(exits), *deterministic)
            }
            NodeKind::Feedback { body, backs } => Part::Feedback(inner(body), self.patterns(backs)),
            NodeKind::Split { body, from, to, deterministic, .. } => {
                let body = inner(body);
                let tags = self.set([from].into_iter().chain(to).map(|at| &at.label));
                Part::Split(body, tags, *deterministic)
            }
            NodeKind::Place { body, .. } => Part::Place(inner(body)),
        }
    }

    fn net(&mut self, net: &Net) -> Part {
        let body = Box::new(self.part(&net.body));
        match &net.signature {
            None => Part::Place(body),
            Some(arrows) => {
                let variants: Vec<Set> =
                    arrows.iter().flat_map(|arrow| &arrow.input).map(|variant| self.set(variant)).collect();
                Part::Net(variants, body, 0)
            }
        }
    }
}

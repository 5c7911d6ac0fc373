//! Shields: a net with a declared signature does not see labels outside its input type; they bypass it.
//!
//! The *shield* of a net gives labels outside the net's input type, before the net, names that the
//! inside of the net does not use, and restores the labels' own names after the net. Inside the net, flow
//! inheritance carries hidden labels to every output, as it carries all labels that no component consumes: so
//! each of the 0…n outputs of a record gets back the labels of that record. Only labels that the net's inside
//! mentions are renamed, because the inside cannot see other labels.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap};

use crate::check::{Node, NodeKind, Resolved};
use crate::label::{Label, labels_of};
use crate::plan::{Rearrangement, RecordFault, Source};
use crate::record::Record;
use crate::router::matched;
use crate::shape::ShapeId;
use crate::syntax::ast::{Filter, ItemValue, Pattern, TagExpr};

/// The separator between a hidden label's own name and the path of the net that it bypasses.
const AROUND: &str = " around ";

/// Restores the names of the hidden labels of a record that leaves the network, those of the innermost net
/// first. A label stays hidden if the record already has its own name.
pub(crate) fn reveal(record: &mut Record) {
    let hidden = |label: &Label| label.name().contains(AROUND);
    let mut labels: Vec<Label> = record.shape().labels().iter().copied().filter(hidden).collect();
    labels.sort_by_key(|label| std::cmp::Reverse(label.name().len()));
    for label in labels {
        let own = label.name().split(AROUND).next().unwrap_or_default();
        let own = Label::new(label.kind(), own);
        if record.get(own).is_none()
            && let Some(value) = record.remove(label)
        {
            record.set(own, value);
        }
    }
}

/// The shield of a net.
#[derive(Debug)]
pub(crate) struct Shield {
    /// The input variants that the net declares.
    variants: Vec<Vec<Label>>,
    /// The labels that the net's inside mentions, each with its hidden name. A label that bypasses the net
    /// has its hidden name while the record is inside the net.
    hidden: HashMap<Label, Label>,
    /// The reverse of `hidden`.
    shown: HashMap<Label, Label>,
}

impl Shield {
    /// The shield of a net with these input variants and this body; `path` makes the hidden names unique.
    pub(crate) fn new(variants: Vec<Vec<Label>>, body: &Node, resolved: &Resolved, path: &str) -> Shield {
        let mut mentioned = Mentioned { labels: BTreeSet::new(), resolved };
        mentioned.node(body);
        // A binding tag outside the input type prevents a match, so no binding tag has to be hidden.
        let hide =
            |label: Label| (label, Label::new(label.kind(), &format!("{}{AROUND}{path}", label.name())));
        let hidden: HashMap<Label, Label> =
            mentioned.labels.into_iter().filter(|label| !label.is_binding()).map(hide).collect();
        let shown = hidden.iter().map(|(&label, &inside)| (inside, label)).collect();
        Shield { variants, hidden, shown }
    }

    /// Enters the net: hides the labels outside the variant that matches best.
    pub(crate) fn enter(&self, shape: ShapeId) -> Result<Rearrangement, RecordFault> {
        let matching = self.variants.iter().filter(|variant| matched(variant, shape).is_some());
        // The first of equally good variants is used.
        let Some(variant) = matching.rev().max_by_key(|variant| variant.len()) else {
            let reason = "the record matches no declared input of the net";
            return Err(RecordFault::Other(reason.into()));
        };
        Ok(renamed(shape, |label| match self.hidden.get(&label) {
            Some(&inside) if !variant.contains(&label) => Some(inside),
            _ => Some(label),
        }))
    }

    /// Leaves the net: restores hidden labels; a label that the net itself made wins over a hidden one.
    pub(crate) fn leave(&self, shape: ShapeId) -> Rearrangement {
        renamed(shape, |label| match self.shown.get(&label) {
            Some(&outside) => (!shape.has(outside)).then_some(outside),
            None => Some(label),
        })
    }
}

/// Renames all labels; labels without a new name are dropped.
fn renamed(shape: ShapeId, name: impl Fn(Label) -> Option<Label>) -> Rearrangement {
    let labels = shape.labels();
    let explicit = labels.iter().enumerate().filter_map(|(slot, &l)| Some((name(l)?, Source::Input(slot))));
    Rearrangement::new(shape, labels, explicit)
}

/// The labels that components test, consume or make.
struct Mentioned<'a> {
    labels: BTreeSet<Label>,
    resolved: &'a Resolved,
}

impl Mentioned<'_> {
    fn node(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Box(id) => {
                let signature = &self.resolved.box_use(*id).signature;
                let tuples = signature.input.iter().chain(&signature.outputs);
                tuples.for_each(|tuple| self.labels.extend(labels_of(&tuple.labels)));
            }
            NodeKind::Net(id) => self.node(&self.resolved.net(*id).body),
            NodeKind::Filter(filter) => self.filter(filter),
            NodeKind::Synchrocell(patterns) => self.patterns(patterns),
            NodeKind::Star { exits, .. } => self.patterns(exits),
            NodeKind::Feedback { backs, .. } => self.patterns(backs),
            NodeKind::Split { from, to, .. } => {
                self.labels.extend(std::iter::once(from).chain(to).map(Label::from));
            }
            NodeKind::Serial(_) | NodeKind::Parallel { .. } | NodeKind::Place { .. } => {}
        }
        node.accepts.iter().for_each(|variant| self.labels.extend(labels_of(variant)));
        node.parts().for_each(|part| self.node(part));
    }

    fn filter(&mut self, filter: &Filter) {
        let Some(rule) = &filter.rule else { return };
        self.labels.extend(labels_of(&rule.pattern.labels));
        rule.action.guarded.iter().for_each(|(guard, _)| self.tags(guard));
        for item in rule.action.records().flat_map(|record| &record.items) {
            self.labels.insert(Label::from(&item.label));
            match &item.value {
                ItemValue::Copy => {}
                ItemValue::Rename(from) => self.labels.extend([Label::field(&from.name)]),
                ItemValue::Expr(expression) => self.tags(expression),
            }
        }
    }

    fn patterns(&mut self, patterns: &[Pattern]) {
        for pattern in patterns {
            self.labels.extend(labels_of(&pattern.labels.labels));
            pattern.guard.iter().for_each(|guard| self.tags(guard));
        }
    }

    fn tags(&mut self, expression: &TagExpr) {
        expression.tags(&mut |name, _| self.labels.extend([Label::tag(name)]));
    }
}

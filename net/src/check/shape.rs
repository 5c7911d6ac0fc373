//! Shapes: sets of records, described by the labels that the records surely have or surely lack, and how such
//! records match variants and patterns.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// The most labels that are kept as surely missing in one shape.
const LACKS_MAX: usize = 128;

/// A label as a number; the lowest bit says whether it is a binding tag.
pub(super) type Id = u32;

/// A sorted set of labels, each once.
pub(super) type Set = Vec<Id>;

/// The shapes of the records that arrive at one component.
pub(super) type Stream = BTreeSet<Shape>;

/// A set of records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shape {
    /// Labels that all records of the shape have.
    pub(super) has: Rc<Set>,
    /// Labels that no record of the shape has; meaningless if not `open`.
    pub(super) lacks: Rc<Set>,
    /// Whether records of the shape may have labels other than `has`.
    pub(super) open: bool,
    /// Whether no record of the shape has a binding tag that is not in `has`.
    pub(super) unbound: bool,
    /// Whether records of the shape surely arrive at the component, if any record arrives there.
    pub(super) sure: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Presence {
    Has,
    Lacks,
    Maybe,
}

impl Shape {
    pub(super) fn anything() -> Shape {
        Shape { has: Rc::default(), lacks: Rc::default(), open: true, unbound: false, sure: true }
    }

    pub(super) fn doubtful(mut self) -> Shape {
        self.sure = false;
        self
    }

    pub(super) fn presence(&self, label: Id) -> Presence {
        if self.has.binary_search(&label).is_ok() {
            Presence::Has
        } else if !self.open
            || self.lacks.binary_search(&label).is_ok()
            || (self.unbound && is_binding(label))
        {
            Presence::Lacks
        } else {
            Presence::Maybe
        }
    }

    /// Whether the records have all these labels.
    pub(super) fn presence_of(&self, labels: &[Id]) -> Presence {
        let mut all = Presence::Has;
        for &label in labels {
            match self.presence(label) {
                Presence::Lacks => return Presence::Lacks,
                Presence::Maybe => all = Presence::Maybe,
                Presence::Has => {}
            }
        }
        all
    }

    /// The records of the shape that also have these labels.
    pub(super) fn with(&self, labels: &[Id]) -> Shape {
        let mut shape = self.clone();
        add_shared(&mut shape.has, labels);
        remove(&mut shape.lacks, labels);
        shape
    }

    /// The records that lack at least one of these labels. A shape cannot express this in general, so it
    /// changes only if of the labels a single one is undecided.
    pub(super) fn without_all(&self, labels: &[Id]) -> Shape {
        let mut shape = self.clone();
        let mut unknown = labels.iter().filter(|&&l| self.presence(l) == Presence::Maybe);
        if let (Some(&only), None) = (unknown.next(), unknown.next()) {
            add_shared(&mut shape.lacks, &[only]);
        }
        shape
    }

    /// The shape with the labels that records inherit past a component which consumes the labels `consumed`.
    pub(super) fn inherited(&self, consumed: &[Id]) -> Shape {
        let mut shape = self.clone();
        remove(&mut shape.has, consumed);
        if shape.has.iter().any(|&l| is_binding(l)) {
            Rc::make_mut(&mut shape.has).retain(|&l| !is_binding(l));
        }
        shape.unbound = true;
        if shape.open {
            add_shared(&mut shape.lacks, consumed);
            let excess = shape.lacks.len().saturating_sub(LACKS_MAX);
            if excess > 0 {
                Rc::make_mut(&mut shape.lacks).drain(..excess);
            }
        }
        shape
    }
}

pub(super) fn is_binding(label: Id) -> bool {
    label & 1 == 1
}

pub(super) fn add(set: &mut Set, labels: &[Id]) {
    for &label in labels {
        if let Err(at) = set.binary_search(&label) {
            set.insert(at, label);
        }
    }
}

/// Adds labels to a shared set, which is copied only if a label is new.
fn add_shared(set: &mut Rc<Set>, labels: &[Id]) {
    if labels.iter().any(|l| set.binary_search(l).is_err()) {
        add(Rc::make_mut(set), labels);
    }
}

/// Removes labels from a shared set, which is copied only if it contains one of them.
fn remove(set: &mut Rc<Set>, labels: &[Id]) {
    if labels.iter().any(|l| set.binary_search(l).is_ok()) {
        Rc::make_mut(set).retain(|l| !labels.contains(l));
    }
}

/// The branches to which records of a shape could be routed, each with the records that it could get. It is
/// not sure that a branch gets a record that a branch to its left may get, unless ties are decided by free
/// space.
pub(super) fn route(shape: &Shape, accepts: &[Rc<Vec<Set>>]) -> Vec<(usize, Shape)> {
    let all = accepts.iter().flat_map(|variants| variants.iter());
    let matching = all.filter(|variant| may_match(shape, variant));
    let least = matching.filter(|v| surely_matches(shape, v)).map(|v| v.len()).max().unwrap_or(0);
    let candidates = |branch: usize| {
        let long_enough = accepts[branch].iter().filter(move |v| v.len() >= least);
        long_enough.filter(|variant| may_match(shape, variant))
    };
    let mut won = Vec::new();
    for branch in 0..accepts.len() {
        for variant in candidates(branch) {
            let with = shape.with(variant);
            let mut further_left = (0..branch).flat_map(candidates);
            let tied = further_left.any(|v| v.len() >= variant.len() && surely_matches(&with, v));
            won.push((branch, if tied { with.doubtful() } else { with }));
        }
    }
    won
}

/// Whether records of a shape may match a variant; all binding tags of the records must be in the variant.
fn may_match(shape: &Shape, variant: &Set) -> bool {
    shape.has.iter().all(|l| !is_binding(*l) || variant.contains(l))
        && shape.presence_of(variant) != Presence::Lacks
}

/// Whether all records of the shape surely match the variant, because it is known of all labels and binding
/// tags whether the records have them.
fn surely_matches(shape: &Shape, variant: &Set) -> bool {
    shape.presence_of(variant) == Presence::Has && (shape.unbound || !shape.open)
}

/// Two branches that records of a shape fit equally well, with the labels of the variant that matches. The
/// tie must be sure for some records: the two variants have the same labels, or the records surely have all
/// of their labels.
pub(super) fn tie<'a>(shape: &Shape, accepts: &'a [Rc<Vec<Set>>]) -> Option<(usize, usize, &'a Set)> {
    let routed = |variant: &&Set| {
        shape.has.iter().all(|l| !is_binding(*l) || variant.contains(l))
            && shape.presence_of(variant) != Presence::Lacks
    };
    let known = shape.unbound || !shape.open;
    let there = |variant: &Set| known && shape.presence_of(variant) == Presence::Has;
    let all =
        || accepts.iter().enumerate().flat_map(|(i, sets)| sets.iter().filter(routed).map(move |v| (i, v)));
    let least = all().filter(|(_, v)| there(v)).map(|(_, v)| v.len()).max().unwrap_or(0);
    let mut first_with: HashMap<&Set, usize> = HashMap::new();
    let mut first_there = None;
    for (branch, variant) in all().filter(|(_, v)| v.len() >= least) {
        let same = *first_with.entry(variant).or_insert(branch);
        if same != branch {
            return Some((same, branch, variant));
        }
        if there(variant) {
            let first = *first_there.get_or_insert(branch);
            if first != branch {
                return Some((first, branch, variant));
            }
        }
    }
    None
}

/// The records that match one of the patterns (`patterns` says of each whether it has a guard), and those
/// that match none.
pub(super) fn divide<'a>(
    arriving: impl IntoIterator<Item = &'a Shape>,
    patterns: &[(&Set, bool)],
) -> (Stream, Stream) {
    let (mut matching, mut other) = (Stream::new(), Stream::new());
    for shape in arriving {
        let mut rest = Some(shape.clone());
        // Patterns without a guard come first, because a record that has their labels surely matches.
        let unguarded = patterns.iter().filter(|(_, guarded)| !guarded);
        for (labels, guarded) in unguarded.chain(patterns.iter().filter(|(_, guarded)| *guarded)) {
            let Some(left) = rest.take() else { break };
            let presence = left.presence_of(labels);
            if presence != Presence::Lacks {
                let sure = left.sure && !guarded;
                matching.insert(Shape { sure, ..left.with(labels) });
            }
            rest = match (presence, guarded) {
                (Presence::Lacks, _) => Some(left),
                (Presence::Has, false) => None,
                (_, true) => Some(left.doubtful()),
                (Presence::Maybe, false) => Some(left.without_all(labels)),
            };
        }
        other.extend(rest);
    }
    (matching, other)
}

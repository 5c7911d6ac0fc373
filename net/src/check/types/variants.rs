//! Input variants: which records a component accepts, as `|` compares them ([`Node::accepts`]).
//!
//! **The rules.** A box has one variant, its arguments; a filter has its pattern, and `[]` has `{}`; a
//! synchrocell has each of its patterns; a net with a declared signature has the declared variants, any other
//! net has those of its topology. `A | B` has the variants of all branches, `A @ 1` has those of `A`.
//!
//! A variant of `A .. B`, `A * P`, `A \ P` or `A ! <t>` is a set of labels with which a record gets through
//! and of which every label is required on the record's way. A label is required if a box, a filter or a
//! split consumes it, if the chosen branch has matched it, or if a pattern of a star or feedback has matched
//! it, provided that the record brought the label along and no component on the way made it. So each variant
//! of `A` is combined with each variant of `B` that the output records of `A` can match, and labels that flow
//! inheritance can bring from the input become part of the variant.
//!
//! A record *gets through* if every record that descends from it matches a variant of each component that it
//! reaches. Labels that other records bring to a synchrocell count as made by the synchrocell. A record that
//! a synchrocell lets pass unjoined, because the cell is complete or a guard fails, need not match the
//! components after it. A record that stays in a loop for ever gets through.
//!
//! **After a guard** a record goes one of two ways, and the choice is known only at run time. So a record is
//! accepted by the components that follow
//!
//! - *surely*, if all its descendants get through, whatever the guards decide;
//! - *perhaps*, if the guards can decide so that all its descendants get through: of two records that a box
//!   emits, both have to get through; of the two ways that the guard of a star chooses between, one is
//!   enough. The check does not assume that a guard keeps a record in its loop for ever;
//! - *never*, if some descendant is lost, however the guards decide.
//!
//! A record gets through if it is accepted surely or perhaps. A label is required if it is required on some
//! way that gets through. Only if records with a set of labels are never accepted is the set no variant, and
//! then such records are never routed to the component. Records that are perhaps accepted are routed without
//! a warning: the program is responsible for what its guards mean, and with a warning for such records, every
//! star that counts its rounds would get one. The run reports each record that is then lost. The check
//! reports an error (E0501 to E0507) only for a way that a record surely takes, and none for a way that
//! depends on a guard. The check warns (W0601, W0602) of parts that no record reaches on any way, with guards
//! or without.
//!
//! A record fits a component if it has all labels of one of its variants (and, to be routed, no binding tag
//! outside it). A record may have more labels, as everywhere in the language, even if the further labels
//! route it another way.
//!
//! **How variants are found.** The check tries sets of labels: it sends a set through the network, exactly by
//! the routes that its records will take. Wherever a record on the way could match a further variant if the
//! input had a few labels more, the larger set is tried, too. At the end, larger sets are also tried for
//! variants deep inside a part that change the record's way ([`FURTHER_TRIES_MAX`]). The result for a set is
//! a graph of all ways that guards may choose ([`Way`]), composed of the graphs of the parts, so the work
//! grows with the number of guards and not with the number of combinations of their decisions. The number of
//! tries is limited ([`TRIES_MAX`]). When the limit is reached, every record that fits the first part counts
//! as fitting, so no record is routed past a component that accepts it, and a record may fail further inside.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::super::resolved::*;
use super::super::shape::{Id, Set, add, is_binding};
use super::ways::{Graph, Way};
use super::{SHAPES_MAX, Types, key};
use crate::syntax::ast::{FilterRule, Pattern};

/// The most sets of labels that are tried to find the variants of one component.
const TRIES_MAX: usize = 512;
/// The most sets that are tried in addition, because further labels could change the way of a record inside a
/// part.
const FURTHER_TRIES_MAX: usize = 64;
/// The most work to find the labels that could change the way of records with one set of labels.
const FORKS_WORK_MAX: usize = 1024;
/// The most variants of one component.
const VARIANTS_MAX: usize = 4096;

/// The labels of a record on its way through the network.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Flow {
    has: Rc<Set>,
    /// The labels in `has` that the record already had when it entered the network.
    own: Rc<Set>,
    /// Labels that would have been consumed before the record's present place, if the input record had had
    /// them.
    lost: Rc<Set>,
    /// Whether all binding tags that are not in `has` would have been consumed before the record's present
    /// place.
    unbound: bool,
}

/// The number of steps through a way that count as much work as a visit of a component.
const STEPS_PER_WORK: usize = 64;

/// The ways that were computed, by component and labels of the record. `None` if the record does not get
/// through.
pub(super) type Ways = HashMap<(super::Key, Rc<Set>), Option<Rc<Way>>>;

impl Flow {
    fn entering(has: &Rc<Set>) -> Flow {
        Flow { has: has.clone(), own: has.clone(), lost: Rc::default(), unbound: false }
    }

    /// The labels of the record that leaves a component which turns a record with these labels into `out`.
    fn then(&self, out: &Flow) -> Flow {
        let own = out.own.iter().copied().filter(|l| holds(&self.own, *l)).collect();
        let mut lost = Rc::clone(&self.lost);
        if !is_part(&out.lost, &lost) {
            add(Rc::make_mut(&mut lost), &out.lost);
        }
        Flow { has: out.has.clone(), own: Rc::new(own), lost, unbound: self.unbound || out.unbound }
    }

    /// The labels that a record keeps by inheritance at a component that consumes `taken` and makes `made`.
    fn past(&self, taken: &[Id], made: &[Id]) -> Flow {
        let rest: Set = self.has.iter().copied().filter(|&l| !is_binding(l) && !holds(taken, l)).collect();
        let own = rest.iter().copied().filter(|&l| holds(&self.own, l) && !holds(made, l)).collect();
        let (mut has, mut lost) = (rest, (*self.lost).clone());
        add(&mut has, made);
        add(&mut lost, taken);
        Flow { has: Rc::new(has), own: Rc::new(own), lost: Rc::new(lost), unbound: true }
    }

    /// The labels that the input would need in addition, so that this record matches a variant.
    fn missing(&self, variant: &[Id]) -> Option<Set> {
        let missing: Set = variant.iter().copied().filter(|&l| !holds(&self.has, l)).collect();
        (!missing.is_empty() && !missing.iter().any(|&l| self.loses(l))).then_some(missing)
    }

    /// Whether a label would have been consumed before the record's present place, if the input had had it.
    fn loses(&self, label: Id) -> bool {
        holds(&self.lost, label) || self.unbound && is_binding(label)
    }

    /// The flow that would arrive at the same place if the input record also had these labels.
    fn with(&self, labels: &[Id]) -> Flow {
        let mut flow = self.clone();
        for &label in labels {
            if !holds(&flow.has, label) && !self.loses(label) {
                add(Rc::make_mut(&mut flow.has), &[label]);
                add(Rc::make_mut(&mut flow.own), &[label]);
            }
        }
        flow
    }
}

pub(super) fn holds(set: &[Id], label: Id) -> bool {
    set.binary_search(&label).is_ok()
}

fn is_part(part: &[Id], of: &[Id]) -> bool {
    part.iter().all(|&label| holds(of, label))
}

/// Whether a record may be routed to a variant.
fn matches(variant: &[Id], has: &[Id]) -> bool {
    is_part(variant, has) && has.iter().all(|&l| !is_binding(l) || holds(variant, l))
}

/// The variants. If there are more than a component may have, the smallest ones are kept, and one more with
/// the labels that all variants have in common.
fn bounded(mut variants: Vec<Set>) -> Vec<Set> {
    variants.sort();
    variants.dedup();
    if variants.len() <= VARIANTS_MAX {
        return variants;
    }
    let mut common = variants[0].clone();
    variants.iter().for_each(|variant| common.retain(|&l| holds(variant, l)));
    variants.sort_by_key(Vec::len);
    variants.truncate(VARIANTS_MAX - 1);
    variants.push(common);
    variants.sort();
    variants.dedup();
    variants
}

/// Sets of labels to try for a component.
#[derive(Default)]
struct Search {
    open: Vec<Set>,
    seen: HashSet<Set>,
    found: BTreeSet<Set>,
    /// The number of sets that may still be tried.
    left: usize,
}

impl Search {
    fn try_later(&mut self, set: Set) {
        if self.left > 0 && self.seen.insert(set.clone()) {
            self.left -= 1;
            self.open.push(set);
        }
    }

    fn try_with(&mut self, set: &Set, more: &[Id]) {
        let mut larger = set.clone();
        add(&mut larger, more);
        self.try_later(larger);
    }
}

impl Types<'_> {
    pub(super) fn infer_accepts(&mut self, node: &Node) -> Vec<Set> {
        bounded(match &node.kind {
            NodeKind::Box(index) if self.resolved.box_use(*index).signature.is_hole() => vec![Vec::new()],
            NodeKind::Box(index) => {
                let input = self.resolved.box_use(*index).signature.input.clone();
                input.iter().map(|t| self.set(t.labels.iter().map(|l| &l.label))).collect()
            }
            NodeKind::Net(net) => self.accepts_of_net(*net),
            NodeKind::Filter(filter) => match &filter.rule {
                Some(rule) => vec![self.set(rule.pattern.labels.iter().map(|l| &l.label))],
                None => vec![Vec::new()],
            },
            NodeKind::Synchrocell(patterns) => self.patterns(patterns),
            NodeKind::Parallel { branches, .. } => {
                branches.iter().flat_map(|b| self.accepts_of(b).to_vec()).collect()
            }
            NodeKind::Place { body, .. } => self.accepts_of(body).to_vec(),
            NodeKind::Serial(parts) => self.search(node, self.accepts_of(&parts[0]).to_vec()),
            NodeKind::Star { body, exits, .. } => {
                let mut first = self.patterns(exits);
                first.extend(self.accepts_of(body).iter().cloned());
                self.search(node, first)
            }
            NodeKind::Feedback { body, .. } => self.search(node, self.accepts_of(body).to_vec()),
            NodeKind::Split { body, from, to, .. } => {
                let tags = self.set([from].into_iter().chain(to).map(|at| &at.label));
                let mut first = self.accepts_of(body).to_vec();
                first.iter_mut().for_each(|set| add(set, &tags));
                self.search(node, first)
            }
        })
    }

    /// The input variants of a component at whose entry records have to match one of the sets `first`.
    fn search(&mut self, node: &Node, first: Vec<Set>) -> Vec<Set> {
        let mut search = Search { left: TRIES_MAX, ..Search::default() };
        first.iter().rev().for_each(|set| search.try_later(set.clone()));
        self.try_all(node, &mut search, usize::MAX);
        if search.left == 0 || self.work > self.work_max {
            self.unfinished.insert(key(node));
            search.found.extend(first);
            return search.found.into_iter().collect();
        }
        // Further labels may route a record another way inside a part. The search for further labels stops
        // when half of all work is used up, so that enough is left for the required tries.
        search.left = FURTHER_TRIES_MAX;
        let (mut looked_at, sure) = (BTreeSet::new(), search.found.clone());
        while search.left > 0 && self.work < self.work_max / 2 {
            let Some(set) = search.found.difference(&looked_at).next().cloned() else { break };
            let work_max = (self.work + FORKS_WORK_MAX).min(self.work_max / 2);
            let mut missing = BTreeSet::new();
            self.forks(node, &Flow::entering(&Rc::new(set.clone())), work_max, &mut missing);
            missing.iter().for_each(|missing| search.try_with(&set, missing));
            looked_at.insert(set);
            self.try_all(node, &mut search, self.work_max / 2);
        }
        let found = if self.work > self.work_max { sure } else { search.found };
        found.into_iter().collect()
    }

    fn try_all(&mut self, node: &Node, search: &mut Search, work_max: usize) {
        while self.work < work_max
            && let Some(set) = search.open.pop()
        {
            let has = Rc::new(set);
            self.extend(node, &has, search);
            let Some(way) = self.way(node, &has) else { continue };
            if *way.asked() == *has {
                search.found.insert(Rc::unwrap_or_clone(has));
            } else {
                search.try_later(way.asked().clone());
            }
        }
    }

    /// Sends a set of labels through a component to find larger sets to try, with which a record gets through or
    /// goes another way. A larger set may be no variant of a part, because what follows or encloses the part
    /// requires some of its labels; so parts are entered, too.
    fn extend(&mut self, node: &Node, has: &Rc<Set>, search: &mut Search) {
        match &node.kind {
            NodeKind::Serial(parts) => self.complete(parts, has, search),
            NodeKind::Star { body, exits, .. } => self.widen(node, body, exits, has, search),
            NodeKind::Feedback { body, backs } => self.widen(node, body, backs, has, search),
            NodeKind::Split { body, .. } | NodeKind::Place { body, .. } => self.extend(body, has, search),
            NodeKind::Parallel { branches, .. } => {
                if let Some((branch, _)) = self.chosen(branches, has) {
                    self.extend(&branches[branch], has, search);
                }
            }
            NodeKind::Net(net) if *net != HOLE && self.border(*net).is_none() => {
                let body = self.take_body(net.0 as usize);
                self.extend(&body, has, search);
                self.resolved.nets[net.0 as usize].body = body;
            }
            _ => {}
        }
    }

    /// The labels that a record lacks to get through a component, as far as they are found inside of it.
    fn lacks(&mut self, node: &Node, flow: &Flow) -> Vec<Set> {
        let mut search = Search { left: FURTHER_TRIES_MAX, ..Search::default() };
        self.extend(node, &flow.has, &mut search);
        search.open.iter().filter_map(|set| flow.missing(set)).collect()
    }

    /// Collects the labels that a record lacks to match other variants at any place on its way, also deep
    /// inside of components.
    fn forks(&mut self, node: &Node, flow: &Flow, work_max: usize, found: &mut BTreeSet<Set>) {
        if found.len() > FURTHER_TRIES_MAX || self.work >= work_max {
            return;
        }
        found.extend(self.wanted(node, flow));
        match &node.kind {
            NodeKind::Serial(parts) => {
                let mut flows = BTreeSet::from([flow.clone()]);
                for part in parts {
                    let mut next = BTreeSet::new();
                    for flow in flows {
                        self.forks(part, &flow, work_max, found);
                        let way = self.way(part, &flow.has);
                        next.extend(way.iter().flat_map(|way| way.outs()).map(|out| flow.then(out)));
                    }
                    if next.len() > SHAPES_MAX {
                        return;
                    }
                    flows = next;
                }
            }
            NodeKind::Parallel { branches, .. } => {
                if let Some((branch, _)) = self.chosen(branches, &flow.has) {
                    self.forks(&branches[branch], flow, work_max, found);
                }
            }
            NodeKind::Star { body, exits: patterns, .. } | NodeKind::Feedback { body, backs: patterns } => {
                let sets = self.pattern_sets(node, patterns);
                for round in self.rounds(node, body, patterns, &flow.has) {
                    let flow = flow.then(&round.flow);
                    found.extend(sets.iter().filter_map(|set| flow.missing(set)));
                    if round.stays {
                        self.forks(body, &flow, work_max, found);
                    }
                }
            }
            NodeKind::Split { body, .. } | NodeKind::Place { body, .. } => {
                self.forks(body, flow, work_max, found)
            }
            NodeKind::Net(net) if *net != HOLE && self.border(*net).is_none() => {
                let body = self.take_body(net.0 as usize);
                self.forks(&body, flow, work_max, found);
                self.resolved.nets[net.0 as usize].body = body;
            }
            _ => {}
        }
    }

    /// Sends a set of labels through parts in series to find further sets to try. Where a record does not
    /// match, the set with the labels that it lacks is tried as well.
    fn complete(&mut self, parts: &[Node], has: &Rc<Set>, search: &mut Search) {
        let (mut set, mut flows) = ((**has).clone(), vec![(Flow::entering(has), true)]);
        for (at, part) in parts.iter().enumerate() {
            let mut next = Vec::new();
            let mut waiting = std::mem::take(&mut flows);
            while let Some((mut flow, surely)) = waiting.pop() {
                let wanted = if at == 0 { Vec::new() } else { self.wanted(part, &flow) };
                wanted.iter().for_each(|missing| search.try_with(&set, missing));
                if let Some(way) = self.way(part, &flow.has) {
                    let surely = surely && !way.has_guards();
                    next.extend(way.outs().map(|out| (flow.then(out), surely)));
                } else if surely {
                    let inside = self.lacks(part, &flow);
                    inside.iter().for_each(|missing| search.try_with(&set, missing));
                    let Some(missing) = wanted.first().or(inside.first()) else { return };
                    add(&mut set, missing);
                    let others = waiting.iter_mut().chain(&mut next);
                    others.for_each(|(other, _)| *other = other.with(missing));
                    flow = flow.with(missing);
                    waiting.push((flow, surely));
                }
            }
            next.sort();
            next.dedup();
            if next.len() > SHAPES_MAX {
                return;
            }
            flows = next;
        }
        search.try_later(set);
    }

    /// Sends a set of labels through the rounds of a star or feedback to find further sets to try.
    fn widen(&mut self, node: &Node, body: &Node, patterns: &[Pattern], has: &Rc<Set>, search: &mut Search) {
        let sets = self.pattern_sets(node, patterns);
        for flow in self.rounds(node, body, patterns, has).into_iter().map(|round| round.flow) {
            let patterns = sets.iter().filter_map(|set| flow.missing(set));
            let body = self.wanted(body, &flow);
            patterns.chain(body).for_each(|missing| search.try_with(has, &missing));
        }
    }

    /// The labels that a record lacks to match further variants of a component, if matching them would change
    /// the record's way.
    fn wanted(&mut self, node: &Node, flow: &Flow) -> Vec<Set> {
        self.work += 1;
        let NodeKind::Parallel { branches, .. } = &node.kind else {
            return self.accepts_of(node).iter().filter_map(|variant| flow.missing(variant)).collect();
        };
        let chosen = self.chosen(branches, &flow.has);
        let mut wanted = Vec::new();
        for (at, branch) in branches.iter().enumerate() {
            let accepts = self.accepts_of(branch);
            let rivals = accepts.iter().filter(|variant| match chosen {
                Some((chosen, best)) if at != chosen => {
                    // A variant that lacks a binding tag of the record never matches. If a record gets a
                    // further binding tag, it no longer matches the variants without this tag, including the
                    // best match so far.
                    let bound = |&&l: &&Id| is_binding(l);
                    let brings = variant.iter().filter(bound).any(|&l| !holds(&flow.has, l));
                    let fits = flow.has.iter().filter(bound).all(|&l| holds(variant, l));
                    fits && (brings || variant.len() >= best + usize::from(at > chosen))
                }
                _ => true,
            });
            wanted.extend(rivals.filter_map(|variant| flow.missing(variant)));
        }
        wanted
    }

    /// The branch to which a record is routed, and how many labels it matches.
    fn chosen(&self, branches: &[Node], has: &[Id]) -> Option<(usize, usize)> {
        let best = |branch: &Node| {
            let accepts = self.accepts_of(branch);
            accepts.iter().filter(|variant| matches(variant, has)).map(Vec::len).max()
        };
        let scores = branches.iter().enumerate().filter_map(|(at, branch)| Some((at, best(branch)?)));
        scores.rev().max_by_key(|&(_, score)| score)
    }

    /// The way of a record with these labels through the component.
    fn way(&mut self, node: &Node, has: &Rc<Set>) -> Option<Rc<Way>> {
        self.work += 1;
        if self.work > self.work_max {
            self.unfinished.insert(key(node));
            return Some(Rc::new(Way::end((**has).clone())));
        }
        let at = (key(node), has.clone());
        if let Some(known) = self.ways.get(&at) {
            return known.clone();
        }
        let way = self.find_way(node, has);
        self.work += way.as_ref().map_or(0, |way| way.size() / STEPS_PER_WORK);
        self.ways.insert(at, way.clone());
        way
    }

    fn find_way(&mut self, node: &Node, has: &Rc<Set>) -> Option<Rc<Way>> {
        let way = match &node.kind {
            NodeKind::Box(index) => self.way_of_box(*index, has),
            NodeKind::Net(HOLE) => Some(Way::end(Set::new())),
            NodeKind::Net(net) => return self.way_of_net(*net, has),
            NodeKind::Filter(filter) => match &filter.rule {
                None => Some(Way::of(Set::new(), [Flow::entering(has)])),
                Some(rule) => self.way_of_filter(node, rule, has),
            },
            NodeKind::Synchrocell(patterns) => self.way_of_cell(node, patterns, has),
            NodeKind::Serial(parts) => self.way_of_serial(parts, has),
            NodeKind::Parallel { branches, .. } => {
                let (branch, _) = self.chosen(branches, has)?;
                return self.way(&branches[branch], has);
            }
            NodeKind::Star { body, exits: patterns, .. } | NodeKind::Feedback { body, backs: patterns } => {
                let rounds = self.rounds(node, body, patterns, has);
                way_of_rounds(&rounds)
            }
            NodeKind::Split { body, from, to, .. } => {
                let tags = self.set([from].into_iter().chain(to).map(|at| &at.label));
                let way = is_part(&tags, has).then(|| self.way(body, has))??;
                Some(Rc::unwrap_or_clone(way).asking(&tags))
            }
            NodeKind::Place { body, .. } => return self.way(body, has),
        };
        way.map(Rc::new)
    }

    fn way_of_box(&mut self, index: BoxId, has: &Rc<Set>) -> Option<Way> {
        if self.resolved.box_use(index).signature.is_hole() {
            return Some(Way::end(Set::new()));
        }
        // An initialiser that follows another component runs once for each record, and consumes no labels.
        let (sets, _) = self.box_sets(index);
        way_of_taker(&sets, has)
    }

    fn way_of_filter(&mut self, node: &Node, rule: &FilterRule, has: &Rc<Set>) -> Option<Way> {
        way_of_taker(&self.filter_sets(node, rule), has)
    }

    fn way_of_cell(&mut self, node: &Node, patterns: &[Pattern], has: &Rc<Set>) -> Option<Way> {
        let sets = self.pattern_sets(node, patterns);
        // The joined record continues from the record that matched the first pattern.
        let first = is_part(&sets[0], has);
        let rank = |set: &&Set| (is_part(&sets[0], set), set.len());
        let asked = sets.iter().filter(|set| is_part(set, has)).rev().max_by_key(rank)?.clone();
        let joined = first.then(|| {
            let mut others = Set::new();
            sets[1..].iter().for_each(|set| add(&mut others, set));
            let own = has.iter().copied().filter(|&l| !holds(&others, l)).collect();
            add(&mut others, has);
            Flow { has: Rc::new(others), own: Rc::new(own), ..Flow::entering(has) }
        });
        Some(Way::of(asked, joined))
    }

    fn way_of_net(&mut self, net: NetId, has: &Rc<Set>) -> Option<Rc<Way>> {
        let Some(border) = self.border(net) else { return self.way_of_body(net, has) };
        if border.accepts.is_empty() {
            return Some(Rc::new(Way::end(Set::new())));
        }
        let variants = border.accepts.iter().map(|variants| &variants[0]);
        let matching = variants.filter(|variant| matches(variant, has));
        let variant = Rc::new(matching.rev().max_by_key(|variant| variant.len())?.clone());
        // If no record gets through the net, the errors inside it are reported when the net itself is
        // checked.
        let Some(inside) = self.way_of_body(net, &variant) else {
            return Some(Rc::new(Way::end((*variant).clone())));
        };
        let around: Set = has.iter().copied().filter(|&l| !holds(&variant, l)).collect();
        let leave = |out: &Flow| {
            let mut own: Set = around.iter().copied().filter(|&l| !holds(&out.has, l)).collect();
            add(&mut own, &out.own);
            let mut has = (*out.has).clone();
            add(&mut has, &around);
            let lost = out.lost.iter().copied().filter(|&l| holds(&variant, l)).collect();
            Flow { has: Rc::new(has), own: Rc::new(own), lost: Rc::new(lost), unbound: out.unbound }
        };
        Some(Rc::new(inside.leaving(leave).asking(&variant)))
    }

    fn way_of_body(&mut self, net: NetId, has: &Rc<Set>) -> Option<Rc<Way>> {
        let body = self.take_body(net.0 as usize);
        let way = self.way(&body, has);
        self.resolved.nets[net.0 as usize].body = body;
        way
    }

    fn way_of_serial(&mut self, parts: &[Node], has: &Rc<Set>) -> Option<Way> {
        let mut graph = Graph::default();
        let mut flows = BTreeMap::from([(Flow::entering(has), graph.stuck())]);
        for part in parts {
            let mut next = BTreeMap::new();
            for (flow, at) in flows {
                match self.way(part, &flow.has) {
                    Some(way) => graph.go(at, &way, &flow.own, |graph, out| {
                        *next.entry(flow.then(out)).or_insert_with(|| graph.stuck())
                    }),
                    None if graph.has_guards() => {}
                    None => return None,
                }
            }
            if next.len() > SHAPES_MAX {
                return Some(Way::end(graph.asked()));
            }
            flows = next;
        }
        flows.into_iter().for_each(|(flow, at)| graph.leave(at, flow));
        graph.way()
    }

    /// The rounds that a record with these labels may make in a star or feedback; the first round is the one
    /// that the record itself begins.
    fn rounds(&mut self, node: &Node, body: &Node, patterns: &[Pattern], has: &Rc<Set>) -> Vec<Round> {
        let star = matches!(node.kind, NodeKind::Star { .. });
        let sets = self.pattern_sets(node, patterns);
        let guarded = |at: usize| patterns[at].guard.is_some();
        let mut rounds = vec![Round::new(Flow::entering(has))];
        // A record that enters a feedback for the first time is not compared with the patterns.
        rounds[0].stays = !star;
        let mut known: HashMap<Flow, usize> = HashMap::new();
        let mut at = 0;
        while at < rounds.len() {
            if !rounds[at].stays {
                rounds[at].test(&sets, guarded, star);
            }
            if rounds[at].stays {
                let has = rounds[at].flow.has.clone();
                rounds[at].way = self.way(body, &has);
            }
            for out in rounds[at].way.clone().iter().flat_map(|way| way.outs()) {
                let flow = rounds[at].flow.then(out);
                let next = known.get(&flow).copied().or_else(|| {
                    let next = (rounds.len() <= SHAPES_MAX).then_some(rounds.len())?;
                    known.insert(flow.clone(), next);
                    rounds.push(Round::new(flow));
                    Some(next)
                });
                rounds[at].next.push(next);
            }
            at += 1;
        }
        rounds
    }
}

/// A record that is about to be compared with the patterns of a star or feedback.
#[derive(Debug)]
struct Round {
    flow: Flow,
    /// The labels of the record that the patterns which it matches require.
    asked: Set,
    /// Whether the record may leave; if it may also stay, a guard decides.
    leaves: bool,
    stays: bool,
    /// The way through the body, if the record stays in the loop.
    way: Option<Rc<Way>>,
    /// For each record that leaves the body, the round that it begins; `None` if there are too many rounds.
    next: Vec<Option<usize>>,
}

impl Round {
    fn new(flow: Flow) -> Round {
        Round { flow, asked: Set::new(), leaves: false, stays: false, way: None, next: Vec::new() }
    }

    fn test(&mut self, patterns: &[Set], guarded: impl Fn(usize) -> bool, star: bool) {
        let matched = || (0..patterns.len()).filter(|&at| is_part(&patterns[at], &self.flow.has));
        let sure = matched().filter(|&at| !guarded(at)).rev().max_by_key(|&at| patterns[at].len());
        let mut asked = Set::new();
        match sure {
            Some(at) => add(&mut asked, &patterns[at]),
            None => matched().for_each(|at| add(&mut asked, &patterns[at])),
        }
        let (matches, otherwise) = (matched().next().is_some(), sure.is_none());
        (self.leaves, self.stays) = if star { (matches, otherwise) } else { (otherwise, matches) };
        self.asked = asked;
    }
}

/// The way through a star or feedback of the record that begins the first round.
fn way_of_rounds(rounds: &[Round]) -> Option<Way> {
    let mut graph = Graph::default();
    rounds.iter().for_each(|_| _ = graph.stuck());
    let loops = graph.around(rounds.iter().flat_map(|round| &round.way));
    for (at, round) in rounds.iter().enumerate() {
        let asked: Set = round.asked.iter().copied().filter(|&l| holds(&round.flow.own, l)).collect();
        let mut choice = Vec::new();
        if round.leaves {
            let out = graph.stuck();
            graph.leave(out, round.flow.clone());
            choice.push(out);
        }
        if let Some(way) = &round.way {
            let mut next = round.next.iter();
            let body = graph.stuck();
            graph.go(body, way, &round.flow.own, |graph, _| match next.next() {
                Some(Some(next)) => *next,
                _ => graph.end(),
            });
            choice.push(graph.round(body, loops, round.leaves));
        }
        graph.choose(at, asked, choice);
    }
    graph.way()
}

/// The way through a box or filter: `sets` holds the consumed labels first, then the output variants.
fn way_of_taker(sets: &[Set], has: &Rc<Set>) -> Option<Way> {
    let (takes, gives) = sets.split_first()?;
    let entered = Flow::entering(has);
    let outs = gives.iter().map(|made| entered.past(takes, made));
    is_part(takes, has).then(|| Way::of(takes.clone(), outs))
}

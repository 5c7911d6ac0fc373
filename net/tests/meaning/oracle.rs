//! The specification as an interpreter: simple, slow, and with all outcomes where the language allows
//! several.
//!
//! A component is a relation between the sequence of records that enter it, and the sequence of those that
//! leave it. A component is run on all its input at once; a deterministic combinator runs its parts on one
//! record at a time. Nothing here comes from the runtime, and only the syntax tree and its names come from
//! the crate. The input variants of each branch are computed independently ([`Routes`]).

use std::collections::{BTreeMap, BTreeSet};

use thalweg_net::check::{Net, Node, NodeKind, Resolved};
use thalweg_net::run::Ties;
use thalweg_net::syntax::ast::{Filter, Item, ItemValue, Label, LabelAt, LabelKind, Pattern, TagExpr};

use crate::boxes;
use crate::evaluate::evaluate;
use crate::routes::Routes;

/// The most outcomes that are followed, and the most steps of the interpreter for one case.
const OUTCOMES_MAX: usize = 60;
const WORK_MAX: usize = 500;
/// The number of levels to which a star unfolds.
const LEVELS_MAX: i64 = 24;

pub(crate) type Labels = BTreeMap<Label, i64>;

/// A record, and the labels that bypass the nets that enclose it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rec {
    labels: Labels,
    around: Vec<Labels>,
}

/// The reason why a record failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    NoBranch,
    NoReplica,
    EmptyRange,
    Undeclared,
    HeldBack,
    /// A missing label, a failure of a box, or an expression without a value.
    Other,
}

/// The state of components.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Fresh,
    Parts(BTreeMap<i64, State>),
    Cell(Vec<Option<Rec>>),
    Spent,
}

impl State {
    fn part(&self, index: i64) -> State {
        match self {
            State::Parts(parts) => parts.get(&index).cloned().unwrap_or(State::Fresh),
            _ => State::Fresh,
        }
    }

    fn with_part(self, index: i64, part: State) -> State {
        let mut parts = match self {
            State::Parts(parts) => parts,
            _ => BTreeMap::new(),
        };
        parts.insert(index, part);
        State::Parts(parts)
    }

    /// The number of records that cells still hold.
    fn held(&self) -> usize {
        match self {
            State::Parts(parts) => parts.values().map(State::held).sum(),
            State::Cell(held) => held.iter().flatten().collect::<BTreeSet<_>>().len(),
            State::Fresh | State::Spent => 0,
        }
    }
}

/// One possible run of a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    state: State,
    out: Vec<Rec>,
    failed: Vec<Fault>,
}

/// The output of a network, in order (or sorted, if order does not matter), and its failures, sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Outcome {
    pub(crate) out: Vec<Labels>,
    pub(crate) failed: Vec<Fault>,
}

/// There are too many outcomes, or the case does not end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMuch;

type Runs = Result<BTreeSet<Run>, TooMuch>;

/// All outcomes of a network; `ordered`: with the order of records; `ties`: the branch that gets a record
/// which fits several branches equally well.
pub(crate) fn outcomes(
    resolved: &Resolved,
    routes: &Routes,
    input: &[Labels],
    ordered: bool,
    ties: Ties,
) -> Result<BTreeSet<Outcome>, TooMuch> {
    let mut oracle = Oracle { resolved, routes, ordered, ties, work: 0 };
    let input = input.iter().map(|labels| Rec { labels: labels.clone(), around: Vec::new() }).collect();
    let runs = oracle.net(resolved.net(resolved.main), State::Fresh, input)?;
    let outcome = |run: Run| {
        let mut out: Vec<Labels> = run.out.into_iter().map(|rec| rec.labels).collect();
        let mut failed = run.failed;
        failed.extend(std::iter::repeat_n(Fault::HeldBack, run.state.held()));
        failed.sort_unstable();
        if !ordered {
            out.sort();
        }
        Outcome { out, failed }
    };
    Ok(runs.into_iter().map(outcome).collect())
}

/// Whether the order of records matters inside, because there are synchrocells.
pub(crate) fn has_cells(resolved: &Resolved) -> bool {
    fn cell(node: &Node) -> bool {
        matches!(node.kind, NodeKind::Synchrocell(_)) || node.parts().any(cell)
    }
    resolved.nets.iter().any(|net| cell(&net.body))
}

struct Oracle<'a> {
    resolved: &'a Resolved,
    routes: &'a Routes,
    ordered: bool,
    ties: Ties,
    work: usize,
}

fn one(state: State, out: Vec<Rec>, failed: Vec<Fault>) -> BTreeSet<Run> {
    BTreeSet::from([Run { state, out, failed }])
}

fn failure(state: State, fault: Fault) -> BTreeSet<Run> {
    one(state, Vec::new(), vec![fault])
}

impl Oracle<'_> {
    fn step(&mut self, runs: usize) -> Result<(), TooMuch> {
        self.work += 1;
        if self.work > WORK_MAX || runs > OUTCOMES_MAX { Err(TooMuch) } else { Ok(()) }
    }

    /// Continues each run so far in all possible ways.
    fn each(&mut self, runs: BTreeSet<Run>, mut go_on: impl FnMut(&mut Self, Run) -> Runs) -> Runs {
        let mut all = BTreeSet::new();
        for run in runs {
            all.extend(go_on(self, run)?);
            self.step(all.len())?;
        }
        Ok(all)
    }

    /// Processes one record at a time: the output for the first record leaves before that for the second.
    fn one_by_one(
        &mut self,
        state: State,
        input: Vec<Rec>,
        mut go: impl FnMut(&mut Self, State, Rec) -> Runs,
    ) -> Runs {
        let mut runs = one(state, Vec::new(), Vec::new());
        for rec in input {
            runs = self.each(runs, |oracle, run| {
                let next = go(oracle, run.state.clone(), rec.clone())?;
                Ok(next.into_iter().map(|next| run.followed_by(next)).collect())
            })?;
        }
        Ok(runs)
    }

    fn net(&mut self, net: &Net, state: State, input: Vec<Rec>) -> Runs {
        let Some(signature) = &net.signature else { return self.node(&net.body, state, input) };
        let variants: Vec<&Vec<Label>> = signature.iter().flat_map(|arrow| &arrow.input).collect();
        let mut inside = Vec::new();
        let mut failed = Vec::new();
        for mut rec in input {
            let matching = variants.iter().filter(|variant| routes(variant, &rec.labels));
            // Among equally large variants the first wins.
            let Some(variant) = matching.rev().max_by_key(|variant| variant.len()) else {
                failed.push(Fault::Undeclared);
                continue;
            };
            let (seen, around) = rec.labels.into_iter().partition(|(label, _)| variant.contains(label));
            rec.labels = seen;
            rec.around.push(around);
            inside.push(rec);
        }
        let runs = self.node(&net.body, state, inside)?;
        let leave = |mut run: Run| {
            for rec in &mut run.out {
                for (label, value) in rec.around.pop().expect("it entered") {
                    rec.labels.entry(label).or_insert(value);
                }
            }
            run.failed.extend(&failed);
            run.sorted()
        };
        Ok(runs.into_iter().map(leave).collect())
    }

    fn node(&mut self, node: &Node, state: State, input: Vec<Rec>) -> Runs {
        self.step(0)?;
        if input.len() > WORK_MAX {
            return Err(TooMuch);
        }
        match &node.kind {
            NodeKind::Box(id) => {
                let used = self.resolved.box_use(*id);
                let takes = labels_of(&used.signature.input.as_ref().expect("no initialiser").labels);
                let outputs = used.signature.outputs.iter();
                let gives: Vec<Vec<Label>> = outputs.map(|tuple| labels_of(&tuple.labels)).collect();
                self.one_by_one(state, input, |_, state, rec| {
                    Ok(call(&used.name, &takes, &gives, state, &rec))
                })
            }
            NodeKind::Net(id) => {
                let resolved = self.resolved;
                self.net(resolved.net(*id), state, input)
            }
            NodeKind::Filter(filter) => {
                self.one_by_one(state, input, |_, state, rec| Ok(filter_one(filter, state, rec)))
            }
            NodeKind::Synchrocell(patterns) => {
                self.one_by_one(state, input, |_, state, rec| Ok(synchronise(patterns, state, rec)))
            }
            NodeKind::Serial(parts) => self.serial(parts, state, input),
            NodeKind::Place { body, .. } => self.node(body, state, input),
            NodeKind::Parallel { branches, deterministic } => {
                self.grouped(*deterministic, state, input, |oracle, state, input| {
                    oracle.parallel(branches, state, input)
                })
            }
            NodeKind::Star { body, exits, deterministic } => {
                self.grouped(*deterministic, state, input, |oracle, state, input| {
                    oracle.star(body, exits, state, 0, input)
                })
            }
            NodeKind::Split { body, from, to, deterministic, .. } => {
                self.grouped(*deterministic, state, input, |oracle, state, input| {
                    oracle.split(body, from, to.as_ref(), state, input)
                })
            }
            NodeKind::Feedback { body, backs } => self.feedback(body, backs, state, input),
        }
    }

    fn grouped(
        &mut self,
        deterministic: bool,
        state: State,
        input: Vec<Rec>,
        mut run: impl FnMut(&mut Self, State, Vec<Rec>) -> Runs,
    ) -> Runs {
        if deterministic {
            self.one_by_one(state, input, |oracle, state, rec| run(oracle, state, vec![rec]))
        } else {
            run(self, state, input)
        }
    }

    fn serial(&mut self, parts: &[Node], state: State, input: Vec<Rec>) -> Runs {
        let mut runs = one(state, input, Vec::new());
        for (index, part) in (0..).zip(parts) {
            runs = self.each(runs, |oracle, run| {
                let next = oracle.node(part, run.state.part(index), run.out.clone())?;
                Ok(next.into_iter().map(|next| run.turned_into(index, next)).collect())
            })?;
        }
        Ok(runs)
    }

    fn parallel(&mut self, branches: &[Node], state: State, input: Vec<Rec>) -> Runs {
        // All ways to send the records to the branches that match best are followed.
        let mut failed = Vec::new();
        let mut ways: BTreeSet<Vec<Vec<Rec>>> = BTreeSet::from([vec![Vec::new(); branches.len()]]);
        for rec in input {
            let counts: Vec<Option<usize>> =
                branches.iter().map(|branch| best_match(self.routes.variants(branch), &rec)).collect();
            let Some(most) = counts.iter().flatten().max() else {
                failed.push(Fault::NoBranch);
                continue;
            };
            let mut tied: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] == Some(*most)).collect();
            if self.ties == Ties::Leftmost {
                tied.truncate(1);
            }
            let mut longer = BTreeSet::new();
            for way in &ways {
                for &branch in &tied {
                    let mut way = way.clone();
                    way[branch].push(rec.clone());
                    longer.insert(way);
                }
                self.step(longer.len())?;
            }
            ways = longer;
        }
        let mut all = BTreeSet::new();
        for way in ways {
            let parts = (0..).zip(way).map(|(i, input)| (i, &branches[i as usize], input)).collect();
            all.extend(self.side_by_side(state.clone(), parts, &failed)?);
            self.step(all.len())?;
        }
        Ok(all)
    }

    fn split(
        &mut self,
        body: &Node,
        from: &LabelAt,
        to: Option<&LabelAt>,
        state: State,
        input: Vec<Rec>,
    ) -> Runs {
        let mut failed = Vec::new();
        let mut parts: BTreeMap<i64, Vec<Rec>> = BTreeMap::new();
        for rec in input {
            let first = rec.labels.get(&from.label);
            let last = to.map_or(first, |to| rec.labels.get(&to.label));
            match (first, last) {
                (Some(first), Some(last)) if first > last => failed.push(Fault::EmptyRange),
                (Some(&first), Some(&last)) if last.abs_diff(first) > WORK_MAX as u64 => return Err(TooMuch),
                (Some(&first), Some(&last)) => {
                    (first..=last).for_each(|value| parts.entry(value).or_default().push(rec.clone()));
                }
                _ => failed.push(Fault::NoReplica),
            }
        }
        let parts = parts.into_iter().map(|(value, input)| (value, body, input)).collect();
        self.side_by_side(state, parts, &failed)
    }

    /// Runs parts with their inputs; their outputs are mixed in any order.
    fn side_by_side(&mut self, state: State, parts: Vec<(i64, &Node, Vec<Rec>)>, failed: &[Fault]) -> Runs {
        let mut runs = one(state, Vec::new(), failed.to_vec());
        for (index, part, input) in parts {
            if input.is_empty() {
                continue;
            }
            runs = self.each(runs, |oracle, run| {
                let beside = oracle.node(part, run.state.part(index), input.clone())?;
                let mut all = BTreeSet::new();
                for next in beside {
                    let state = run.state.clone().with_part(index, next.state.clone());
                    all.extend(oracle.mixed(&run, Run { state, ..next })?);
                }
                Ok(all)
            })?;
        }
        Ok(runs)
    }

    fn star(&mut self, body: &Node, exits: &[Pattern], state: State, level: i64, input: Vec<Rec>) -> Runs {
        if level > LEVELS_MAX {
            return Err(TooMuch);
        }
        let (mut leave, mut stay, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for rec in input {
            match matches_one(exits, &rec.labels) {
                Some(true) => leave.push(rec),
                Some(false) => stay.push(rec),
                None => failed.push(Fault::Other),
            }
        }
        if stay.is_empty() {
            return Ok(one(state, leave, failed));
        }
        let inside = self.node(body, state.part(level), stay)?;
        let left = Run { state, out: leave, failed };
        self.each(inside, |oracle, run| {
            let state = left.state.clone().with_part(level, run.state);
            let mut all = BTreeSet::new();
            for later in oracle.star(body, exits, state, level + 1, run.out)? {
                let failed = later.failed.iter().chain(&run.failed).copied().collect();
                all.extend(oracle.mixed(&left, Run { failed, ..later })?);
            }
            Ok(all)
        })
    }

    /// The ways to mix the outputs of two parallel runs; the state of `other` includes the state of `one`.
    fn mixed(&mut self, one: &Run, other: Run) -> Runs {
        let failed: Vec<Fault> = one.failed.iter().chain(&other.failed).copied().collect();
        let mixtures = self.mixtures(&one.out, &other.out)?;
        let run = |out| Run { state: other.state.clone(), out, failed: failed.clone() }.sorted();
        Ok(mixtures.into_iter().map(run).collect())
    }

    /// All ways to mix two sequences; a single one if order does not matter.
    fn mixtures(&mut self, a: &[Rec], b: &[Rec]) -> Result<BTreeSet<Vec<Rec>>, TooMuch> {
        self.step(0)?;
        if !self.ordered || a.is_empty() || b.is_empty() {
            let mut out = [a, b].concat();
            if !self.ordered {
                out.sort();
            }
            return Ok(BTreeSet::from([out]));
        }
        let mut all = BTreeSet::new();
        for (first, a, b) in [(&a[0], &a[1..], b), (&b[0], a, &b[1..])] {
            for tail in self.mixtures(a, b)? {
                all.insert([std::slice::from_ref(first), tail.as_slice()].concat());
            }
        }
        self.step(all.len())?;
        Ok(all)
    }

    /// Records of the loop enter in the order in which they came back, records from outside in their own
    /// order; which of the two comes next is undetermined.
    fn feedback(&mut self, body: &Node, backs: &[Pattern], state: State, input: Vec<Rec>) -> Runs {
        let mut done = BTreeSet::new();
        let start = Run { state, out: Vec::new(), failed: Vec::new() };
        let mut open: BTreeSet<(Run, Vec<Rec>, Vec<Rec>)> = BTreeSet::from([(start, input, Vec::new())]);
        while let Some((run, outside, back)) = open.pop_first() {
            self.step(open.len().max(done.len()))?;
            let mut choices: Vec<(Rec, Vec<Rec>, Vec<Rec>)> = Vec::new();
            if let Some((rec, rest)) = back.split_first() {
                choices.push((rec.clone(), outside.clone(), rest.to_vec()));
            }
            if let Some((rec, rest)) = outside.split_first() {
                choices.push((rec.clone(), rest.to_vec(), back.clone()));
            }
            if choices.is_empty() {
                done.insert(run);
                continue;
            }
            choices.truncate(if self.ordered { 2 } else { 1 });
            for (rec, outside, back) in choices {
                for next in self.node(body, run.state.clone(), vec![rec])? {
                    let (mut run, mut back) = (run.clone(), back.clone());
                    run.state = next.state;
                    run.failed.extend(next.failed);
                    for rec in next.out {
                        match matches_one(backs, &rec.labels) {
                            Some(true) => back.push(rec),
                            Some(false) => run.out.push(rec),
                            None => run.failed.push(Fault::Other),
                        }
                    }
                    open.insert((run.sorted(), outside.clone(), back));
                }
            }
        }
        Ok(done)
    }
}

impl Run {
    /// This run followed by `next`, a run that began in the state in which this run ended.
    fn followed_by(&self, next: Run) -> Run {
        let out = self.out.iter().cloned().chain(next.out).collect();
        let failed = self.failed.iter().copied().chain(next.failed).collect();
        Run { state: next.state, out, failed }.sorted()
    }

    /// This run followed by `next`, a run of the part `index` on this run's output.
    fn turned_into(&self, index: i64, next: Run) -> Run {
        let state = self.state.clone().with_part(index, next.state);
        let failed = self.failed.iter().copied().chain(next.failed).collect();
        Run { state, out: next.out, failed }.sorted()
    }

    fn sorted(mut self) -> Run {
        self.failed.sort_unstable();
        self
    }
}

fn labels_of(labels: &[LabelAt]) -> Vec<Label> {
    labels.iter().map(|at| at.label.clone()).collect()
}

fn is_binding(label: &Label) -> bool {
    label.kind == LabelKind::BindingTag
}

/// Whether a record may be routed to a variant.
fn routes(variant: &[Label], labels: &Labels) -> bool {
    variant.iter().all(|label| labels.contains_key(label))
        && labels.keys().filter(|label| is_binding(label)).all(|label| variant.contains(label))
}

/// The number of labels that the branch's best variant matches.
fn best_match(variants: &[Vec<Label>], rec: &Rec) -> Option<usize> {
    variants.iter().filter(|variant| routes(variant, &rec.labels)).map(Vec::len).max()
}

fn value(expression: &TagExpr, labels: &Labels) -> Option<i64> {
    evaluate(expression, &|name| labels.get(&Label::tag(name)).copied())
}

/// Whether a record matches a pattern; `None` if its guard has no value.
fn matches(pattern: &Pattern, labels: &Labels) -> Option<bool> {
    if !pattern.labels.labels.iter().all(|at| labels.contains_key(&at.label)) {
        return Some(false);
    }
    pattern.guard.as_ref().map_or(Some(true), |guard| value(guard, labels).map(|value| value != 0))
}

/// Whether a record matches one of some patterns, tested in their order.
fn matches_one(patterns: &[Pattern], labels: &Labels) -> Option<bool> {
    for pattern in patterns {
        if matches(pattern, labels)? {
            return Some(true);
        }
    }
    Some(false)
}

/// A record made of `input` by a component that consumes some of its labels and makes others.
fn inherit(input: &Rec, consumed: &[Label], made: Labels) -> Rec {
    let mut labels = made;
    for (label, &value) in &input.labels {
        if !is_binding(label) && !consumed.contains(label) {
            labels.entry(label.clone()).or_insert(value);
        }
    }
    Rec { labels, around: input.around.clone() }
}

fn call(name: &str, takes: &[Label], gives: &[Vec<Label>], state: State, rec: &Rec) -> BTreeSet<Run> {
    let arguments: Option<Vec<i64>> = takes.iter().map(|label| rec.labels.get(label).copied()).collect();
    let Some(arguments) = arguments else { return failure(state, Fault::Other) };
    let counts: Vec<usize> = gives.iter().map(Vec::len).collect();
    let (emitted, failed) = boxes::meaning(name, &arguments, &counts);
    let record = |(variant, values): (usize, Vec<i64>)| {
        inherit(rec, takes, gives[variant - 1].iter().cloned().zip(values).collect())
    };
    let failed = failed.then_some(Fault::Other).into_iter().collect();
    one(state, emitted.into_iter().map(record).collect(), failed)
}

fn filter_one(filter: &Filter, state: State, rec: Rec) -> BTreeSet<Run> {
    let Some(rule) = &filter.rule else { return one(state, vec![rec], Vec::new()) };
    let pattern = labels_of(&rule.pattern.labels);
    let made = || -> Option<Vec<Rec>> {
        pattern.iter().all(|label| rec.labels.contains_key(label)).then_some(())?;
        let mut outputs = &rule.action.otherwise;
        for (guard, guarded) in &rule.action.guarded {
            if value(guard, &rec.labels)? != 0 {
                outputs = guarded;
                break;
            }
        }
        let record = |items: &[Item]| {
            let made: Option<Labels> =
                items.iter().map(|item| Some((item.label.clone(), made_by(item, &rec.labels)?))).collect();
            made.map(|made| inherit(&rec, &pattern, made))
        };
        outputs.iter().map(|output| record(&output.items)).collect()
    };
    match made() {
        Some(out) => one(state, out, Vec::new()),
        None => failure(state, Fault::Other),
    }
}

fn made_by(item: &Item, labels: &Labels) -> Option<i64> {
    match &item.value {
        ItemValue::Expr(expression) => value(expression, labels),
        ItemValue::Rename(from) => labels.get(&Label::field(from.name.clone())).copied(),
        ItemValue::Copy if item.label.kind == LabelKind::Field => labels.get(&item.label).copied(),
        ItemValue::Copy => Some(labels.get(&item.label).copied().unwrap_or(0)),
    }
}

fn synchronise(patterns: &[Pattern], state: State, rec: Rec) -> BTreeSet<Run> {
    let mut held = match state {
        State::Spent => return one(state, vec![rec], Vec::new()),
        State::Cell(held) => held,
        _ => vec![None; patterns.len()],
    };
    let before = held.clone();
    for (slot, pattern) in held.iter_mut().zip(patterns).filter(|(slot, _)| slot.is_none()) {
        match matches(pattern, &rec.labels) {
            Some(true) => *slot = Some(rec.clone()),
            Some(false) => {}
            None => return failure(State::Cell(before), Fault::Other),
        }
    }
    if held == before {
        return one(State::Cell(held), vec![rec], Vec::new());
    }
    if held.iter().any(Option::is_none) {
        return one(State::Cell(held), Vec::new(), Vec::new());
    }
    let mut whole = held[0].clone().expect("all are there");
    for (other, pattern) in held.iter().flatten().zip(patterns).skip(1) {
        for at in &pattern.labels.labels {
            whole.labels.entry(at.label.clone()).or_insert(other.labels[&at.label]);
        }
    }
    one(State::Spent, vec![whole], Vec::new())
}

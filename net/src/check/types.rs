//! Types: which records can come where, as far as it can be known without running.
//!
//! A [`Shape`] stands for a set of records: labels they all have, labels none of them has, and for the rest it is
//! not known. Shapes are pushed through the net from its entry: a box takes its arguments off and adds its results,
//! the rest is inherited, branches get the shapes they could win, stars and feedbacks go round until nothing new comes.
//!
//! **What is an error.** Only what fails for *every* record of a shape that surely comes: a label that no such
//! record can have. A net without a declared signature may get anything, so there only consumed labels are surely
//! missing; a declared one shields, so inside it the shapes are exact. Shapes that come only if a guard fails, or
//! out of a synchrocell too early, are followed but never blamed ([`Shape::sure`]). When shapes get too many, or the work too
//! much, everything is possible and nothing is said.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::names::{HOLE, label_set};
use super::resolved::*;
use crate::syntax::ast::{FilterRule, ItemValue, Label, LabelKind, OutRecord, Pattern};
use crate::syntax::{Diagnostic, Source};

/// Most shapes kept apart at one place.
const SHAPES_MAX: usize = 64;
/// Most labels remembered as surely missing in one shape.
const LACKS_MAX: usize = 128;
/// Most components looked at, counting each time; after that the rest is taken as fitting.
const WORK_MAX: usize = 300_000;
/// Most input variants inferred for a component.
const ACCEPTS_MAX: usize = 256;

/// A label as a number; the lowest bit says whether it is a binding tag.
type Id = u32;

/// Sorted, each once.
type Set = Vec<Id>;

type Stream = BTreeSet<Shape>;

/// A set of records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Shape {
    /// Labels that all of them have.
    has: Set,
    /// Labels that none of them has; says nothing if not `open`.
    lacks: Set,
    /// Whether they may have labels other than `has`.
    open: bool,
    /// No binding tags except those in `has`.
    unbound: bool,
    /// Whether such records surely come here, if any come at all.
    sure: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Presence {
    Has,
    Lacks,
    Maybe,
}

impl Shape {
    fn anything() -> Shape {
        Shape { has: Vec::new(), lacks: Vec::new(), open: true, unbound: false, sure: true }
    }

    fn doubtful(mut self) -> Shape {
        self.sure = false;
        self
    }

    fn presence(&self, label: Id) -> Presence {
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
    fn presence_of(&self, labels: &[Id]) -> Presence {
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

    /// Those of the records that have these labels too.
    fn with(&self, labels: &[Id]) -> Shape {
        let mut shape = self.clone();
        add(&mut shape.has, labels);
        remove(&mut shape.lacks, labels);
        shape
    }

    /// Those that do not have all of these labels: known only if one label decides it.
    fn without_all(&self, labels: &[Id]) -> Shape {
        let mut shape = self.clone();
        let mut unknown = labels.iter().filter(|&&l| self.presence(l) == Presence::Maybe);
        if let (Some(&only), None) = (unknown.next(), unknown.next()) {
            add(&mut shape.lacks, &[only]);
        }
        shape
    }

    /// What is inherited past a component that consumes these labels.
    fn inherited(&self, consumed: &[Id]) -> Shape {
        let mut shape = self.clone();
        remove(&mut shape.has, consumed);
        shape.has.retain(|&l| !is_binding(l));
        shape.unbound = true;
        if shape.open {
            add(&mut shape.lacks, consumed);
            let excess = shape.lacks.len().saturating_sub(LACKS_MAX);
            shape.lacks.drain(..excess);
        }
        shape
    }
}

fn is_binding(label: Id) -> bool {
    label & 1 == 1
}

fn add(set: &mut Set, labels: &[Id]) {
    for &label in labels {
        if let Err(at) = set.binary_search(&label) {
            set.insert(at, label);
        }
    }
}

fn remove(set: &mut Set, labels: &[Id]) {
    set.retain(|l| !labels.contains(l));
}

/// Fills in [`Node::accepts`] of every node, and tells what does not fit.
pub(super) fn check(draft: &mut Resolved) -> Vec<Diagnostic> {
    let mut types = Types::new(draft);
    for net in 0..types.resolved.nets.len() {
        types.fill_net(net);
    }
    types.muted = false;
    types.work = 0;
    types.memo.clear();
    types.main();
    types.doubts();
    types.diagnostics
}

struct Types<'a> {
    resolved: &'a mut Resolved,
    ids: HashMap<Label, Id>,
    labels: Vec<Label>,
    diagnostics: Vec<Diagnostic>,
    told: HashSet<(&'static str, Place)>,
    /// While input variants are inferred nothing is told.
    muted: bool,
    work: usize,
    memo: HashMap<(NetId, Stream), Stream>,
    /// Input variants of the nodes, by place and kind: the same as `Node::accepts`, as numbers.
    accepts: HashMap<(Place, &'static str), Vec<Set>>,
    /// Parallels that records reach, and branches that they take.
    reached: HashSet<(Place, &'static str)>,
    /// Stars and feedbacks that records go round in, and those that some leave.
    rounds: HashSet<Place>,
    exits: HashSet<Place>,
    /// Synchrocells that records reach, and patterns that some match.
    cells: HashSet<Place>,
    matched: HashSet<(Place, usize)>,
}

impl<'a> Types<'a> {
    fn new(resolved: &'a mut Resolved) -> Types<'a> {
        Types {
            resolved,
            ids: HashMap::new(),
            labels: Vec::new(),
            diagnostics: Vec::new(),
            told: HashSet::new(),
            muted: true,
            work: 0,
            memo: HashMap::new(),
            accepts: HashMap::new(),
            reached: HashSet::new(),
            rounds: HashSet::new(),
            exits: HashSet::new(),
            cells: HashSet::new(),
            matched: HashSet::new(),
        }
    }

    // ---- labels ----

    fn id(&mut self, label: &Label) -> Id {
        if let Some(&id) = self.ids.get(label) {
            return id;
        }
        let id = (self.labels.len() as u32) << 1 | u32::from(label.kind == LabelKind::BindingTag);
        self.labels.push(label.clone());
        self.ids.insert(label.clone(), id);
        id
    }

    fn set<'l>(&mut self, labels: impl IntoIterator<Item = &'l Label>) -> Set {
        let mut set: Set = labels.into_iter().map(|l| self.id(l)).collect();
        set.sort_unstable();
        set.dedup();
        set
    }

    fn label_set(&self, set: &[Id]) -> LabelSet {
        let mut labels: LabelSet = set.iter().map(|&id| self.labels[(id >> 1) as usize].clone()).collect();
        labels.sort();
        labels
    }

    fn show(&self, set: &[Id]) -> String {
        let labels: Vec<String> = self.label_set(set).iter().map(Label::to_string).collect();
        format!("{{{}}}", labels.join(", "))
    }

    fn show_shape(&self, shape: &Shape) -> String {
        let set = self.show(&shape.has);
        match (shape.open, shape.has.is_empty()) {
            (false, _) => set,
            (true, true) => "{…}".into(),
            (true, false) => format!("{}, …}}", &set[..set.len() - 1]),
        }
    }

    fn show_variants(&self, variants: &[Set]) -> String {
        let shown: Vec<String> = variants.iter().take(8).map(|v| self.show(v)).collect();
        format!("{}{}", shown.join(" | "), if variants.len() > 8 { " | …" } else { "" })
    }

    /// Takes the body of a net out while it is walked (nets do not contain themselves, so nobody misses it).
    fn take_body(&mut self, net: usize) -> Node {
        let body = &mut self.resolved.nets[net].body;
        let hole =
            Node { kind: NodeKind::Net(HOLE), name: body.name.clone(), at: body.at, accepts: Vec::new() };
        std::mem::replace(body, hole)
    }

    // ---- input variants ----

    fn fill_net(&mut self, net: usize) {
        let mut body = self.take_body(net);
        self.fill(&mut body);
        self.resolved.nets[net].body = body;
    }

    fn fill(&mut self, node: &mut Node) {
        match &mut node.kind {
            NodeKind::Serial(parts) | NodeKind::Parallel { branches: parts, .. } => {
                parts.iter_mut().for_each(|part| self.fill(part))
            }
            NodeKind::Star { body, .. }
            | NodeKind::Feedback { body, .. }
            | NodeKind::Split { body, .. }
            | NodeKind::Place { body, .. } => self.fill(body),
            _ => {}
        }
        let mut accepts = self.infer_accepts(node);
        accepts.sort();
        accepts.dedup();
        accepts.truncate(ACCEPTS_MAX);
        node.accepts = accepts.iter().map(|set| self.label_set(set)).collect();
        self.accepts.insert((node.at, node.kind.word()), accepts);
    }

    fn accepts_of(&self, node: &Node) -> Vec<Set> {
        self.accepts.get(&(node.at, node.kind.word())).cloned().unwrap_or_default()
    }

    fn accepts_of_net(&mut self, net: NetId) -> Vec<Set> {
        if net == HOLE {
            return vec![Vec::new()];
        }
        let declared = self.resolved.net(net).signature.clone();
        match declared {
            Some(arrows) => arrows.iter().flat_map(|a| &a.input).map(|v| self.set(v)).collect(),
            None => {
                let body = &self.resolved.net(net).body;
                self.accepts.get(&(body.at, body.kind.word())).cloned().unwrap_or_default()
            }
        }
    }

    fn infer_accepts(&mut self, node: &Node) -> Vec<Set> {
        match &node.kind {
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
            NodeKind::Serial(parts) => self.accepts_of_serial(parts),
            NodeKind::Parallel { branches, .. } => branches.iter().flat_map(|b| self.accepts_of(b)).collect(),
            NodeKind::Star { body, exits, .. } => {
                let mut accepts = self.patterns(exits);
                accepts.extend(self.accepts_of(body));
                accepts
            }
            NodeKind::Feedback { body, .. } | NodeKind::Place { body, .. } => self.accepts_of(body),
            NodeKind::Split { body, from, to, .. } => {
                let tags = self.set([from].into_iter().chain(to).map(|at| &at.label));
                let mut accepts = self.accepts_of(body);
                accepts.iter_mut().for_each(|set| add(set, &tags));
                accepts
            }
        }
    }

    fn patterns(&mut self, patterns: &[Pattern]) -> Vec<Set> {
        patterns.iter().map(|p| self.set(p.labels.labels.iter().map(|l| &l.label))).collect()
    }

    /// The first part's variants, with what later parts need and earlier ones let pass.
    fn accepts_of_serial(&mut self, parts: &[Node]) -> Vec<Set> {
        let first = self.accepts_of(&parts[0]);
        first.into_iter().map(|variant| self.widen(variant, parts)).collect()
    }

    fn widen(&mut self, variant: Set, parts: &[Node]) -> Set {
        let mut needed = variant;
        let mut stream = Stream::from([Shape::anything().with(&needed)]);
        for pair in parts.windows(2) {
            stream = self.push(&pair[0], stream);
            let accepts = self.accepts_of(&pair[1]);
            let sure = stream.iter().filter(|shape| shape.sure);
            let missing = sure.map(|shape| least_missing(shape, &accepts));
            let Some(missing) = missing.reduce(|a, b| a.into_iter().filter(|l| b.contains(l)).collect())
            else {
                return needed;
            };
            add(&mut needed, &missing);
            stream = stream.iter().map(|shape| shape.with(&missing)).collect();
        }
        needed
    }

    // ---- pushing shapes ----

    fn main(&mut self) {
        let main = self.resolved.main;
        let signature = self.resolved.net(main).signature.clone();
        match signature {
            None => drop(self.push_net_body(main, Stream::from([Shape::anything()]))),
            Some(arrows) => self.declared(main, &arrows),
        }
        // Nets with a signature are right or wrong by themselves.
        for net in 0..self.resolved.nets.len() - 1 {
            if let Some(arrows) = self.resolved.nets[net].signature.clone() {
                self.declared(NetId(net as u32), &arrows);
            }
        }
    }

    /// Looks at a net with a declared signature from inside.
    fn declared(&mut self, net: NetId, arrows: &[Arrow]) {
        for arrow in arrows {
            if arrow.input.is_empty() {
                let out = self.push_net_body(net, Stream::new());
                self.declared_output(net, arrow, None, &out);
            }
            for variant in &arrow.input {
                let input = self.exact(variant);
                let out = self.push_net_body(net, Stream::from([input]));
                self.declared_output(net, arrow, Some(variant), &out);
            }
        }
    }

    fn exact(&mut self, labels: &LabelSet) -> Shape {
        Shape { has: self.set(labels), open: false, ..Shape::anything() }
    }

    fn declared_output(&mut self, net: NetId, arrow: &Arrow, input: Option<&LabelSet>, out: &Stream) {
        let Some(declared) = &arrow.output else { return };
        let declared: Vec<Set> = declared.iter().map(|v| self.set(v)).collect();
        for shape in out.iter().filter(|s| s.sure) {
            if declared.iter().any(|v| shape.presence_of(v) != Presence::Lacks) {
                continue;
            }
            let at = self.resolved.net(net).at;
            let name = self.resolved.net(net).name.clone();
            let shown = self.show_shape(shape);
            let message = format!("net `{name}` gives records {shown}, which its signature does not declare");
            let mut error = self.error("E0505", message, at);
            let promised =
                if declared.is_empty() { "no output".into() } else { self.show_variants(&declared) };
            error = error.label(format!("declared to give {promised}"));
            if let Some(input) = input {
                let input = self.set(input);
                error = error.remark(format!("they come from records {}", self.show(&input)));
            }
            error = error
                .help(format!("add `{shown}` to the output of the signature, or `...` to have it inferred"));
            self.tell(at, error);
        }
    }

    fn push_net_body(&mut self, net: NetId, input: Stream) -> Stream {
        let key = (net, input);
        if let Some(known) = self.memo.get(&key) {
            return known.clone();
        }
        let body = self.take_body(net.0 as usize);
        let out = self.push(&body, key.1.clone());
        self.resolved.nets[net.0 as usize].body = body;
        self.memo.insert(key, out.clone());
        out
    }

    /// The shapes that leave a component when these enter.
    fn push(&mut self, node: &Node, input: Stream) -> Stream {
        self.work += 1 + input.len() / 8;
        if self.work > WORK_MAX || input.len() > SHAPES_MAX {
            self.give_up(node);
            return Stream::from([Shape::anything().doubtful()]);
        }
        match &node.kind {
            NodeKind::Box(index) => self.push_box(node, *index, &input),
            NodeKind::Net(HOLE) => Stream::from([Shape::anything().doubtful()]),
            NodeKind::Net(net) => self.push_net(node, *net, input),
            NodeKind::Filter(filter) => match &filter.rule {
                None => input,
                Some(rule) => self.push_filter(node, rule, &input),
            },
            NodeKind::Synchrocell(patterns) => self.push_cell(node, patterns, &input),
            NodeKind::Serial(parts) => parts.iter().fold(input, |stream, part| self.push(part, stream)),
            NodeKind::Parallel { branches, .. } => self.push_parallel(node, branches, &input),
            NodeKind::Star { body, exits, .. } => self.push_loop(node, body, exits, input, true),
            NodeKind::Feedback { body, backs } => self.push_loop(node, body, backs, input, false),
            NodeKind::Split { body, from, to, .. } => {
                let tags = self.set([from].into_iter().chain(to).map(|at| &at.label));
                let input = self.push_split(node, &tags, &input);
                self.push(body, input)
            }
            NodeKind::Place { body, .. } => self.push(body, input),
        }
    }

    /// Nothing is known of what goes on in this component: all its parts count as reached.
    fn give_up(&mut self, node: &Node) {
        if self.muted {
            return;
        }
        self.reached.insert((node.at, node.kind.word()));
        self.exits.insert(node.at);
        if let NodeKind::Synchrocell(patterns) = &node.kind {
            self.matched.extend((0..patterns.len()).map(|i| (node.at, i)));
        }
        if let NodeKind::Net(net) = node.kind
            && net != HOLE
        {
            let index = net.0 as usize;
            let body = self.take_body(index);
            if !self.reached.contains(&(body.at, body.kind.word())) {
                self.give_up(&body);
            }
            self.resolved.nets[index].body = body;
        }
        node.parts().for_each(|part| self.give_up(part));
    }

    fn push_box(&mut self, node: &Node, index: BoxId, input: &Stream) -> Stream {
        let signature = self.resolved.box_use(index).signature.clone();
        let outputs: Vec<Set> =
            signature.outputs.iter().map(|t| self.set(t.labels.iter().map(|l| &l.label))).collect();
        let Some(tuple) = &signature.input else {
            // An initialiser: runs once, whatever comes.
            let closed = Shape { open: false, ..Shape::anything() };
            return outputs.iter().map(|o| closed.with(o)).collect();
        };
        let needs = self.set(tuple.labels.iter().map(|l| &l.label));
        let mut out = Stream::new();
        for shape in input {
            if shape.presence_of(&needs) == Presence::Lacks {
                self.box_lacks(node, index, &needs, shape);
                continue;
            }
            let rest = shape.with(&needs).inherited(&needs);
            out.extend(outputs.iter().map(|o| rest.with(o)));
        }
        out
    }

    fn push_filter(&mut self, node: &Node, rule: &FilterRule, input: &Stream) -> Stream {
        let needs = self.set(rule.pattern.labels.iter().map(|l| &l.label));
        let mut out = Stream::new();
        for shape in input {
            if shape.presence_of(&needs) == Presence::Lacks {
                self.filter_lacks(node, &needs, shape);
                continue;
            }
            let shape = shape.with(&needs);
            let rest = shape.inherited(&needs);
            for record in rule.action.records() {
                self.copied(node, record, &shape);
                let made = self.set(record.items.iter().map(|i| &i.label));
                out.insert(rest.with(&made));
            }
        }
        out
    }

    /// A field that is copied must be in the record.
    fn copied(&mut self, node: &Node, record: &OutRecord, shape: &Shape) {
        for item in &record.items {
            let from = match &item.value {
                ItemValue::Copy if item.label.kind == LabelKind::Field => item.label.clone(),
                ItemValue::Rename(name) => Label::field(name.name.clone()),
                _ => continue,
            };
            let id = self.id(&from);
            if shape.sure && shape.presence(id) == Presence::Lacks {
                let at = Place { source: node.at.source, span: item.span };
                let message = format!("this filter copies `{from}`, which the records here do not have");
                let comes = self.show_shape(shape);
                let error = self.error("E0507", message, at).label(format!("records here have {comes}"));
                self.tell(
                    at,
                    error.help(format!("add `{from}` to the pattern of the filter, or remove it here")),
                );
            }
        }
    }

    fn push_cell(&mut self, node: &Node, patterns: &[Pattern], input: &Stream) -> Stream {
        let sets = self.patterns(patterns);
        let others: Set = {
            let mut all = Set::new();
            sets[1..].iter().for_each(|set| add(&mut all, set));
            all
        };
        let mut out = Stream::new();
        for shape in input {
            let mut held = false;
            for (i, set) in sets.iter().enumerate() {
                if shape.presence_of(set) == Presence::Lacks {
                    continue;
                }
                held = true;
                if !self.muted {
                    self.matched.insert((node.at, i));
                }
                if i == 0 {
                    out.insert(shape.with(set).with(&others));
                }
            }
            out.insert(if held { shape.clone().doubtful() } else { shape.clone() });
        }
        if !self.muted && !input.is_empty() {
            self.cells.insert(node.at);
        }
        out
    }

    fn push_split(&mut self, node: &Node, tags: &[Id], input: &Stream) -> Stream {
        let mut out = Stream::new();
        for shape in input {
            if shape.presence_of(tags) == Presence::Lacks {
                self.split_lacks(node, tags, shape);
            } else {
                out.insert(shape.with(tags));
            }
        }
        out
    }

    fn push_parallel(&mut self, node: &Node, branches: &[Node], input: &Stream) -> Stream {
        let accepts: Vec<Vec<Set>> = branches.iter().map(|b| self.accepts_of(b)).collect();
        let mut inputs: Vec<Stream> = vec![Stream::new(); branches.len()];
        for shape in input {
            self.work += branches.len() / 4;
            let won = route(shape, &accepts, true);
            if won.is_empty() && shape.sure {
                self.no_branch(node, branches, &accepts, shape);
            }
            for (branch, shape) in won {
                inputs[branch].insert(shape);
            }
        }
        let mut out = Stream::new();
        for (branch, input) in branches.iter().zip(inputs) {
            if !self.muted && !input.is_empty() {
                self.reached.insert((branch.at, branch.kind.word()));
            }
            // A branch that gets nothing may still start by itself.
            out.extend(self.push(branch, input));
        }
        if !self.muted && !input.is_empty() {
            self.reached.insert((node.at, node.kind.word()));
        }
        out
    }

    /// A star (`leave` true: what matches leaves) or a feedback (what matches goes back).
    fn push_loop(
        &mut self,
        node: &Node,
        body: &Node,
        patterns: &[Pattern],
        input: Stream,
        star: bool,
    ) -> Stream {
        let sets: Vec<(Set, bool)> = patterns
            .iter()
            .map(|p| (label_set(&p.labels.labels), p.guard.is_some()))
            .map(|(l, g)| (self.set(&l), g))
            .collect();
        let mut out = Stream::new();
        let mut inside = Stream::new();
        let mut arriving = input;
        let mut round = 0;
        loop {
            // What enters a feedback for the first time is not tested.
            let (matching, other) =
                if !star && round == 0 { (arriving, Stream::new()) } else { divide(&arriving, &sets) };
            let (leaving, staying) = if star { (matching, other) } else { (other, matching) };
            if round > 0 && !leaving.is_empty() && !self.muted {
                self.exits.insert(node.at);
            }
            out.extend(leaving);
            let new: Stream = staying.difference(&inside).cloned().collect();
            if new.is_empty() {
                return out;
            }
            inside.extend(new.iter().cloned());
            round += 1;
            if inside.len() > SHAPES_MAX || out.len() > SHAPES_MAX || round > SHAPES_MAX {
                self.give_up(node);
                return Stream::from([Shape::anything().doubtful()]);
            }
            arriving = self.push(body, new);
            if !arriving.is_empty() && !self.muted {
                self.rounds.insert(node.at);
            }
        }
    }

    fn push_net(&mut self, node: &Node, net: NetId, input: Stream) -> Stream {
        let Some(arrows) = self.resolved.net(net).signature.clone() else {
            return self.push_net_body(net, input);
        };
        let mut out = Stream::new();
        for arrow in arrows.iter().filter(|a| a.input.is_empty()) {
            out.extend(self.shielded(net, arrow, None));
        }
        let variants: Vec<(&Arrow, Set)> = arrows
            .iter()
            .flat_map(|a| a.input.iter().map(move |v| (a, v)))
            .map(|(a, v)| (a, self.set(v)))
            .collect();
        let accepts: Vec<Vec<Set>> = variants.iter().map(|(_, v)| vec![v.clone()]).collect();
        for shape in &input {
            let won = route(shape, &accepts, false);
            if won.is_empty() && shape.sure && !variants.is_empty() {
                self.net_lacks(node, net, &variants, shape);
            }
            for (chosen, shape) in won {
                let (arrow, labels) = &variants[chosen];
                let rest = Shape { unbound: false, ..shape.inherited(labels) };
                for made in self.shielded(net, arrow, Some(labels)) {
                    let sure = made.sure && shape.sure;
                    out.insert(Shape { sure, ..rest.with(&made.has) });
                }
            }
        }
        out
    }

    /// What a net with a declared signature gives for one of its variants.
    fn shielded(&mut self, net: NetId, arrow: &Arrow, variant: Option<&Set>) -> Stream {
        let input = variant.map(|has| Shape { has: has.clone(), open: false, ..Shape::anything() });
        let out = self.push_net_body(net, input.into_iter().collect());
        if out.iter().all(|shape| !shape.open) {
            return out;
        }
        // Not known from inside: as declared.
        match &arrow.output {
            Some(declared) => {
                declared.iter().map(|v| Shape { open: true, ..self.exact(v) }.doubtful()).collect()
            }
            None => out,
        }
    }

    // ---- what is told ----

    fn source(&self, at: Place) -> Arc<Source> {
        self.resolved.source(at).clone()
    }

    fn error(&self, code: &'static str, message: String, at: Place) -> Diagnostic {
        Diagnostic::error(code, message, &self.source(at), at.span)
    }

    fn warning(&self, code: &'static str, message: String, at: Place) -> Diagnostic {
        Diagnostic::warning(code, message, &self.source(at), at.span)
    }

    /// Once for each code and place.
    fn tell(&mut self, at: Place, diagnostic: Diagnostic) {
        if !self.muted && self.told.insert((diagnostic.code, at)) {
            self.diagnostics.push(diagnostic);
        }
    }

    fn silent(&self, shape: &Shape) -> bool {
        self.muted || !shape.sure
    }

    /// The labels of `needs` that are surely missing, in words.
    fn missing(&self, needs: &[Id], shape: &Shape) -> String {
        let missing: Set = needs.iter().copied().filter(|&l| shape.presence(l) == Presence::Lacks).collect();
        let labels: Vec<String> = self.label_set(&missing).iter().map(|l| format!("`{l}`")).collect();
        labels.join(" and ")
    }

    fn why(&self, error: Diagnostic, needs: &[Id], shape: &Shape) -> Diagnostic {
        let error =
            error.label(format!("needs {}; records here have {}", self.show(needs), self.show_shape(shape)));
        match shape.open {
            true => error.remark("it was consumed before, or records that have it went another way"),
            false => error,
        }
    }

    fn box_lacks(&mut self, node: &Node, index: BoxId, needs: &[Id], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let used = self.resolved.box_use(index);
        let (name, at) = (used.name.clone(), used.at);
        let message = format!(
            "box `{name}` needs {}, which records that come here do not have",
            self.missing(needs, shape)
        );
        let error = self.error("E0501", message, node.at);
        let error = self.why(error, needs, shape);
        let error = error.also(&self.source(at), at.span, "declared here");
        self.tell(node.at, error);
    }

    fn net_lacks(&mut self, node: &Node, net: NetId, variants: &[(&Arrow, Set)], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let (name, at) = (self.resolved.net(net).name.clone(), self.resolved.net(net).at);
        let sets: Vec<Set> = variants.iter().map(|(_, v)| v.clone()).collect();
        let message = format!("net `{name}` does not take records {}", self.show_shape(shape));
        let error = self
            .error("E0501", message, node.at)
            .label(format!("takes {}", self.show_variants(&sets)))
            .also(&self.source(at), at.span, "its signature is declared here");
        self.tell(node.at, error);
    }

    fn filter_lacks(&mut self, node: &Node, needs: &[Id], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let message = format!(
            "this filter needs {}, which records that come here do not have",
            self.missing(needs, shape)
        );
        let error = self.error("E0502", message, node.at);
        let error = self.why(error, needs, shape);
        self.tell(node.at, error);
    }

    fn split_lacks(&mut self, node: &Node, tags: &[Id], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let missing = self.missing(tags, shape);
        let message = format!("this split needs {missing}, which records that come here do not have");
        let error = self.error("E0506", message, node.at);
        let error = self.why(error, tags, shape);
        self.tell(node.at, error.help("make the tag before it: `[{} -> {<t = 0>}]`"));
    }

    fn no_branch(&mut self, node: &Node, branches: &[Node], accepts: &[Vec<Set>], shape: &Shape) {
        if self.silent(shape) {
            return;
        }
        let message = format!("no branch takes records {}", self.show_shape(shape));
        let mut error = self.error("E0504", message, node.at).label("they come here");
        for (branch, accepts) in branches.iter().zip(accepts).take(8) {
            if !accepts.is_empty() {
                let takes = format!("takes {}", self.show_variants(accepts));
                error = error.also(&self.source(branch.at), branch.at.span, takes);
            }
        }
        self.tell(node.at, error.help("add a branch for them; `[]` takes any record and passes it on"));
    }

    /// Warnings that need to know of all ways to a place.
    fn doubts(&mut self) {
        let nets = std::mem::take(&mut self.resolved.nets);
        nets.iter().for_each(|net| self.doubts_of(&net.body));
        self.resolved.nets = nets;
    }

    fn doubts_of(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Parallel { branches, .. }
                if self.reached.contains(&(node.at, node.kind.word()))
                    && !self.told.contains(&("E0504", node.at)) =>
            {
                branches.iter().for_each(|branch| self.unreachable(branch));
            }
            NodeKind::Star { .. } | NodeKind::Feedback { .. }
                if self.rounds.contains(&node.at) && !self.exits.contains(&node.at) =>
            {
                self.no_exit(node);
            }
            NodeKind::Synchrocell(patterns) if self.cells.contains(&node.at) => {
                for (i, pattern) in patterns.iter().enumerate() {
                    if !self.matched.contains(&(node.at, i)) {
                        self.no_match(node, pattern);
                    }
                }
            }
            _ => {}
        }
        node.parts().for_each(|part| self.doubts_of(part));
    }

    fn unreachable(&mut self, branch: &Node) {
        let accepts = self.accepts_of(branch);
        if accepts.is_empty() || self.reached.contains(&(branch.at, branch.kind.word())) {
            return;
        }
        let takes = self.show_variants(&accepts);
        let warning = self
            .warning("W0601", "no record ever takes this branch".into(), branch.at)
            .label(format!("takes {takes}"))
            .remark("a record goes to the branch that matches most of its labels")
            .help("remove the branch, or let it ask for labels that the other branches do not match");
        self.tell(branch.at, warning);
    }

    fn no_exit(&mut self, node: &Node) {
        let (message, help) = match &node.kind {
            NodeKind::Star { .. } => (
                "records that enter this star never leave it",
                "let the body make a record that matches the star's pattern",
            ),
            _ => (
                "records that enter this feedback never leave it",
                "let the body make a record that does not match the feedback's pattern",
            ),
        };
        let warning = self.warning("W0602", message.into(), node.at);
        let what = match &node.kind {
            NodeKind::Star { .. } => "nothing that its body gives matches the exit",
            _ => "all that its body gives goes back",
        };
        self.tell(node.at, warning.label(what).help(help));
    }

    fn no_match(&mut self, node: &Node, pattern: &Pattern) {
        let at = Place { source: node.at.source, span: pattern.span };
        let message =
            "this synchrocell never completes: no record that comes here matches this pattern".to_string();
        let error = self.error("E0503", message, at).label("never matched");
        self.tell(at, error.help("a synchrocell waits until each of its patterns has got a record"));
    }
}

/// What a shape misses for the variant it comes nearest to; nothing if it can reach none.
fn least_missing(shape: &Shape, accepts: &[Set]) -> Set {
    let missing = |variant: &Set| -> Option<Set> {
        if shape.presence_of(variant) == Presence::Lacks {
            return None;
        }
        Some(variant.iter().copied().filter(|&l| shape.presence(l) == Presence::Maybe).collect())
    };
    accepts.iter().filter_map(missing).min_by_key(|m| m.len()).unwrap_or_default()
}

/// The branches that records of a shape could take, with the records that could take each.
///
/// `strict`: each binding tag of a record must be in the variant, as between branches.
fn route(shape: &Shape, accepts: &[Vec<Set>], strict: bool) -> Vec<(usize, Shape)> {
    let matches = |variant: &&Set| {
        // Each binding tag of the record must be asked for.
        shape.has.iter().all(|l| !strict || !is_binding(*l) || variant.contains(l))
            && shape.presence_of(variant) != Presence::Lacks
    };
    // A match is sure if no label and no binding tag is left open.
    let sure = |variant: &Set| shape.presence_of(variant) == Presence::Has && (shape.unbound || !shape.open);
    let all = accepts.iter().flatten();
    let least = all.filter(matches).filter(|v| sure(v)).map(|v| v.len()).max().unwrap_or(0);
    let mut won = Vec::new();
    for (branch, variants) in accepts.iter().enumerate() {
        for variant in variants.iter().filter(matches).filter(|v| v.len() >= least) {
            won.push((branch, shape.with(variant)));
        }
    }
    won
}

/// The records that match one of the patterns (with whether it has a guard), and those that do not.
fn divide(arriving: &Stream, patterns: &[(Set, bool)]) -> (Stream, Stream) {
    let (mut matching, mut other) = (Stream::new(), Stream::new());
    for shape in arriving {
        let mut rest = Some(shape.clone());
        for (labels, guarded) in patterns {
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

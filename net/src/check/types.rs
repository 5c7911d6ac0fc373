//! Types: which records can arrive at which component, as far as this can be known without running the
//! network.
//!
//! A [`Shape`] stands for a set of records: labels that all of the records have, labels that none of them
//! has, and labels of which it is not known. The check pushes shapes through the net from its entry: a box
//! removes its arguments and adds its results, all other labels are inherited, branches get the shapes that
//! they could win, and stars and feedbacks are repeated until no new shape appears.
//!
//! **What is an error.** An error is reported only if *every* record of a shape that surely arrives fails,
//! because a label is needed that no such record can have. A net without a declared signature may get any
//! record, so in such a net only labels that were consumed before are surely missing. A declared signature
//! shields the net, so inside it the shapes are exact. Shapes that arrive only if a guard fails, or that
//! leave a synchrocell before it is complete, are followed, but give no error ([`Shape::sure`]). If there are
//! too many shapes, or too much work, every record counts as possible and nothing is reported.

mod signatures;
mod variants;
mod ways;
mod words;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::resolved::*;
use super::shape::{Id, Presence, Set, Shape, Stream, add, divide, route};
use super::signatures::Signatures;
use crate::numbers::NumberMap;
use crate::syntax::Diagnostic;
use crate::syntax::ast::{FilterRule, ItemValue, Label, LabelKind, OutRecord, Pattern};

/// The most shapes that are kept apart at one place.
const SHAPES_MAX: usize = 64;
/// The most visits of components during a check, in addition to [`WORK_PER_COMPONENT`] for each component of
/// the program. Components that are not visited because of this limit count as correct.
const WORK_MAX: usize = 40_000;
const WORK_PER_COMPONENT: usize = 3;
/// The factor by which [`WORK_MAX`] grows when signatures are inferred, which is done only for editors and if
/// a user asks for signatures.
const SIGNATURE_WORK: usize = 25;

/// Fills in [`Node::accepts`] of every node, and reports components that do not fit; with `signatures` also
/// returns what the nets and their components accept and emit.
pub(super) fn check(draft: &mut Resolved, signatures: bool) -> (Vec<Diagnostic>, Signatures) {
    let components: usize = draft.nets.iter().map(|net| size(&net.body)).sum();
    let mut types = Types::new(draft);
    types.work_max = WORK_MAX + WORK_PER_COMPONENT * components;
    types.find_holes();
    for net in 0..types.resolved.nets.len() {
        types.fill_net(net);
    }
    types.muted = false;
    types.work = 0;
    types.ways.clear();
    types.memo.clear();
    types.made.clear();
    types.all();
    if !types.exhausted {
        types.doubts();
    }
    let signatures = if signatures { types.signatures() } else { Signatures::default() };
    (types.diagnostics, signatures)
}

/// Marks the nets that a topology uses.
fn note_uses(node: &Node, used: &mut [bool]) {
    if let NodeKind::Net(net) = node.kind
        && net != HOLE
    {
        used[net.0 as usize] = true;
    }
    node.parts().for_each(|part| note_uses(part, used));
}

/// The records that leave a star (or feedback), and those that go through it (again). If some records of a
/// shape leave after a round, it depends on the labels of the input which of them stay, so no error is
/// reported for those that stay.
fn tested(arriving: &Stream, patterns: &[(&Set, bool)], star: bool, again: bool) -> (Stream, Stream) {
    let (mut leaving, mut staying) = (Stream::new(), Stream::new());
    for shape in arriving {
        let (matching, other) = divide([shape], patterns);
        let (leave, stay) = if star { (matching, other) } else { (other, matching) };
        let undecided = again && !leave.is_empty();
        leaving.extend(leave);
        staying.extend(stay.into_iter().map(|shape| if undecided { shape.doubtful() } else { shape }));
    }
    (leaving, staying)
}

/// The number of components in a topology.
fn size(node: &Node) -> usize {
    1 + node.parts().map(size).sum::<usize>()
}

/// The key of a node: its place and kind.
type Key = (Place, u8);

fn key(node: &Node) -> Key {
    let kind = match node.kind {
        NodeKind::Box(_) => 0,
        NodeKind::Net(_) => 1,
        NodeKind::Filter(_) => 2,
        NodeKind::Synchrocell(_) => 3,
        NodeKind::Serial(_) => 4,
        NodeKind::Parallel { .. } => 5,
        NodeKind::Star { .. } => 6,
        NodeKind::Feedback { .. } => 7,
        NodeKind::Split { .. } => 8,
        NodeKind::Place { .. } => 9,
    };
    (node.at, kind)
}

/// The kind in the key under which `Types::sets` has the label sets of a box's declaration.
const DECLARATION: u8 = 10;

/// The declared signature of a net as numbers.
struct Border {
    /// The label sets of the input variants, one list for each variant.
    accepts: Vec<Rc<Vec<Set>>>,
    /// For each variant, the index of the map in the signature to which it belongs.
    arrows: Vec<usize>,
    /// The indices of the signature's maps that have no input variant.
    starts: Vec<usize>,
}

struct Types<'a> {
    resolved: &'a mut Resolved,
    ids: HashMap<Label, Id>,
    labels: Vec<Label>,
    /// Whether each net contains a part that could not be read or resolved.
    holes: Vec<bool>,
    any_hole: bool,
    diagnostics: Vec<Diagnostic>,
    told: HashSet<(&'static str, Place)>,
    /// Whether errors are suppressed, which is so while input variants are inferred.
    muted: bool,
    work: usize,
    work_max: usize,
    /// Whether components were skipped because of `work_max`: if so, it is not known which components no
    /// record reaches.
    exhausted: bool,
    /// Components of which not all input variants were tried: their lists of variants may lack some, and may
    /// contain variants with which a record does not get through.
    unfinished: HashSet<Key>,
    /// Label sets of boxes, filters and patterns, by their places.
    sets: NumberMap<Key, Rc<Vec<Set>>>,
    memo: HashMap<(NetId, Stream, bool), Stream>,
    /// Whether the visited component is the first of a network or a branch. An initialiser that is the first
    /// component runs once at the start; an initialiser in any other place runs once for each record.
    begins: bool,
    ways: variants::Ways,
    /// Declared signatures, by net; `made` has the shapes that each net emits for each variant.
    borders: NumberMap<u32, Option<Rc<Border>>>,
    made: NumberMap<(u32, u32), Rc<Stream>>,
    /// Input variants of the nodes, by place and kind: the contents of `Node::accepts` with labels as
    /// numbers.
    accepts: NumberMap<Key, Rc<Vec<Set>>>,
    /// The parallel combinators that records reach, and the branches that records enter.
    reached: HashSet<Key>,
    /// Components of which it is not known what records get into them, so that all their parts count as
    /// reached.
    given_up: HashSet<Key>,
    /// The stars and feedbacks in which some record stays for another round; `exits` has those that some
    /// record leaves.
    rounds: HashSet<Place>,
    exits: HashSet<Place>,
    /// The synchrocells that records reach, and the patterns of synchrocells that some records match.
    cells: HashSet<Place>,
    matched: HashSet<(Place, usize)>,
}

impl<'a> Types<'a> {
    fn new(resolved: &'a mut Resolved) -> Types<'a> {
        Types {
            resolved,
            ids: HashMap::new(),
            labels: Vec::new(),
            holes: Vec::new(),
            any_hole: false,
            diagnostics: Vec::new(),
            told: HashSet::new(),
            muted: true,
            work: 0,
            work_max: usize::MAX,
            exhausted: false,
            unfinished: HashSet::new(),
            sets: NumberMap::default(),
            memo: HashMap::new(),
            begins: true,
            ways: HashMap::new(),
            borders: NumberMap::default(),
            made: NumberMap::default(),
            accepts: NumberMap::default(),
            reached: HashSet::new(),
            given_up: HashSet::new(),
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

    // ---- holes: parts that could not be read or resolved ----

    fn find_holes(&mut self) {
        for net in 0..self.resolved.nets.len() {
            let hole = self.looks_for_hole(&self.resolved.nets[net].body);
            self.holes.push(hole);
            self.any_hole |= hole;
        }
    }

    fn has_hole(&self, node: &Node) -> bool {
        self.any_hole && self.looks_for_hole(node)
    }

    fn looks_for_hole(&self, node: &Node) -> bool {
        match node.kind {
            NodeKind::Net(HOLE) => true,
            // The value for this net is already computed, because a net comes after those that it uses.
            NodeKind::Net(net) => self.holes[net.0 as usize],
            NodeKind::Box(index) => self.resolved.box_use(index).signature.is_hole(),
            _ => node.parts().any(|part| self.looks_for_hole(part)),
        }
    }

    /// Moves the body of a net out of the program, so that it can be walked while the program is changed. The
    /// walk does not need the moved body, because nets do not contain themselves.
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
        let accepts = self.infer_accepts(node);
        node.accepts = accepts.iter().map(|set| self.label_set(set)).collect();
        self.accepts.insert(key(node), Rc::new(accepts));
    }

    fn accepts_of(&self, node: &Node) -> Rc<Vec<Set>> {
        self.accepts.get(&key(node)).cloned().unwrap_or_default()
    }

    fn accepts_of_net(&mut self, net: NetId) -> Vec<Set> {
        if net == HOLE {
            return vec![Vec::new()];
        }
        match self.border(net) {
            Some(border) => border.accepts.iter().map(|variants| variants[0].clone()).collect(),
            None => {
                let body = &self.resolved.net(net).body;
                self.accepts.get(&key(body)).map_or_else(Vec::new, |sets| sets.to_vec())
            }
        }
    }

    fn patterns(&mut self, patterns: &[Pattern]) -> Vec<Set> {
        patterns.iter().map(|p| self.set(p.labels.labels.iter().map(|l| &l.label))).collect()
    }

    // ---- pushing shapes ----

    /// Checks every net: a net with a declared signature by itself, any other net in the places where it is
    /// used; a net that no other net uses is checked with input of any records.
    fn all(&mut self) {
        let mut used = vec![false; self.resolved.nets.len()];
        self.resolved.nets.iter().for_each(|net| note_uses(&net.body, &mut used));
        for (net, used) in used.into_iter().enumerate() {
            match self.resolved.nets[net].signature.clone() {
                Some(arrows) => self.declared(NetId(net as u32), &arrows),
                None if used => {}
                None => drop(self.push_net_body(NetId(net as u32), Stream::from([Shape::anything()]))),
            }
        }
    }

    /// Checks a net with a declared signature from inside.
    fn declared(&mut self, net: NetId, arrows: &[Arrow]) {
        for arrow in arrows {
            self.begins = arrow.input.is_empty();
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
        self.begins = true;
    }

    fn exact(&mut self, labels: &LabelSet) -> Shape {
        Shape { has: Rc::new(self.set(labels)), open: false, ..Shape::anything() }
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
        let key = (net, input, self.begins);
        if let Some(known) = self.memo.get(&key) {
            return known.clone();
        }
        let body = self.take_body(net.0 as usize);
        let out = self.push(&body, key.1.clone());
        self.resolved.nets[net.0 as usize].body = body;
        self.memo.insert(key, out.clone());
        out
    }

    /// The shapes that leave a component when the shapes `input` enter.
    fn push(&mut self, node: &Node, input: Stream) -> Stream {
        self.work += 1 + input.len();
        if self.work > self.work_max {
            self.exhausted |= !self.muted;
            return Stream::from([Shape::anything().doubtful()]);
        }
        if input.len() > SHAPES_MAX {
            self.give_up(node);
            return Stream::from([Shape::anything().doubtful()]);
        }
        match &node.kind {
            NodeKind::Box(index) => self.push_box(node, *index, &input),
            NodeKind::Net(HOLE) => Stream::from([Shape::anything()]),
            NodeKind::Net(net) => self.push_net(node, *net, input),
            NodeKind::Filter(filter) => match &filter.rule {
                None => input,
                Some(rule) => self.push_filter(node, rule, &input),
            },
            NodeKind::Synchrocell(patterns) => self.push_cell(node, patterns, &input),
            NodeKind::Serial(parts) => {
                let begins = self.begins;
                let begun = self.push(&parts[0], input);
                let stream = parts[1..].iter().fold(begun, |stream, part| self.push_as(false, part, stream));
                self.begins = begins;
                stream
            }
            NodeKind::Parallel { branches, .. } => self.push_parallel(node, branches, &input),
            NodeKind::Star { body, exits, .. } => self.push_loop(node, body, exits, input, true),
            NodeKind::Feedback { body, backs } => self.push_loop(node, body, backs, input, false),
            NodeKind::Split { body, from, to, .. } => {
                let tags = self.set([from].into_iter().chain(to).map(|at| &at.label));
                let input = self.push_split(node, &tags, &input);
                self.push_as(false, body, input)
            }
            NodeKind::Place { body, .. } => self.push(body, input),
        }
    }

    /// Does the work of [`Types::push`]; `begins`: whether the component is the first of a network or a
    /// branch.
    fn push_as(&mut self, begins: bool, node: &Node, input: Stream) -> Stream {
        let before = std::mem::replace(&mut self.begins, begins);
        let out = self.push(node, input);
        self.begins = before;
        out
    }

    /// Marks all parts of this component as reached, because it is not known which records get into it.
    fn give_up(&mut self, node: &Node) {
        if self.muted || !self.given_up.insert(key(node)) {
            return;
        }
        self.reached.insert(key(node));
        self.exits.insert(node.at);
        if let NodeKind::Synchrocell(patterns) | NodeKind::Star { exits: patterns, .. } = &node.kind {
            self.matched.extend((0..patterns.len()).map(|i| (node.at, i)));
        }
        if let NodeKind::Net(net) = node.kind
            && net != HOLE
        {
            let index = net.0 as usize;
            let body = self.take_body(index);
            self.give_up(&body);
            self.resolved.nets[index].body = body;
        }
        node.parts().for_each(|part| self.give_up(part));
    }

    fn push_box(&mut self, node: &Node, index: BoxId, input: &Stream) -> Stream {
        if self.resolved.box_use(index).signature.is_hole() {
            return Stream::from([Shape::anything()]);
        }
        let (sets, initialiser) = self.box_sets(index);
        let outputs = &sets[1..];
        if initialiser && self.begins {
            // An initialiser runs once, whatever records arrive.
            let closed = Shape { open: false, ..Shape::anything() };
            return outputs.iter().map(|o| closed.with(o)).collect();
        }
        let needs = &sets[0];
        let mut out = Stream::new();
        for shape in input {
            if shape.presence_of(needs) == Presence::Lacks {
                self.box_lacks(node, index, needs, shape);
                continue;
            }
            let rest = shape.with(needs).inherited(needs);
            out.extend(outputs.iter().map(|o| rest.with(o)));
        }
        out
    }

    /// The label sets of a box (arguments first, then the variants that it emits), and whether it is an
    /// initialiser.
    fn box_sets(&mut self, index: BoxId) -> (Rc<Vec<Set>>, bool) {
        let used = self.resolved.box_use(index);
        let (at, initialiser) = ((used.at, DECLARATION), used.signature.input.is_none());
        if let Some(known) = self.sets.get(&at) {
            return (known.clone(), initialiser);
        }
        let signature = used.signature.clone();
        let mut sets: Vec<Set> = vec![Vec::new()];
        if let Some(input) = &signature.input {
            sets[0] = self.set(input.labels.iter().map(|l| &l.label));
        }
        sets.extend(signature.outputs.iter().map(|t| self.set(t.labels.iter().map(|l| &l.label))));
        let sets = Rc::new(sets);
        self.sets.insert(at, sets.clone());
        (sets, initialiser)
    }

    /// The label sets of a filter: its pattern first, then each output record.
    fn filter_sets(&mut self, node: &Node, rule: &FilterRule) -> Rc<Vec<Set>> {
        if let Some(known) = self.sets.get(&key(node)) {
            return known.clone();
        }
        let mut sets = vec![self.set(rule.pattern.labels.iter().map(|l| &l.label))];
        sets.extend(rule.action.records().map(|r| self.set(r.items.iter().map(|i| &i.label))));
        let sets = Rc::new(sets);
        self.sets.insert(key(node), sets.clone());
        sets
    }

    /// The label sets of the patterns of a star, feedback or synchrocell.
    fn pattern_sets(&mut self, node: &Node, patterns: &[Pattern]) -> Rc<Vec<Set>> {
        if let Some(known) = self.sets.get(&key(node)) {
            return known.clone();
        }
        let sets = Rc::new(self.patterns(patterns));
        self.sets.insert(key(node), sets.clone());
        sets
    }

    fn push_filter(&mut self, node: &Node, rule: &FilterRule, input: &Stream) -> Stream {
        let sets = self.filter_sets(node, rule);
        let needs = &sets[0];
        let mut out = Stream::new();
        for shape in input {
            if shape.presence_of(needs) == Presence::Lacks {
                self.filter_lacks(node, needs, shape);
                continue;
            }
            let shape = shape.with(needs);
            let rest = shape.inherited(needs);
            for (record, made) in rule.action.records().zip(&sets[1..]) {
                if !self.muted {
                    self.copied(node, record, needs, &shape);
                }
                out.insert(rest.with(made));
            }
        }
        out
    }

    /// Reports a field that a filter copies and that the record cannot have.
    fn copied(&mut self, node: &Node, record: &OutRecord, needs: &[Id], shape: &Shape) {
        for item in &record.items {
            let from = match &item.value {
                ItemValue::Copy if item.label.kind == LabelKind::Field => item.label.clone(),
                ItemValue::Rename(name) => Label::field(name.name.clone()),
                _ => continue,
            };
            let id = self.id(&from);
            if shape.sure && !needs.contains(&id) && shape.presence(id) == Presence::Lacks {
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
        let sets = self.pattern_sets(node, patterns);
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
        let accepts: Vec<Rc<Vec<Set>>> = branches.iter().map(|b| self.accepts_of(b)).collect();
        let mut inputs: Vec<Stream> = vec![Stream::new(); branches.len()];
        // A branch with a hole has unknown input variants, so any record may be routed to it.
        let doubtful: Option<Stream> = branches
            .iter()
            .any(|branch| self.has_hole(branch))
            .then(|| input.iter().map(|shape| shape.clone().doubtful()).collect());
        for shape in doubtful.as_ref().unwrap_or(input) {
            self.work += branches.len() / 4;
            let won = route(shape, &accepts);
            self.tie(node, branches, &accepts, shape);
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
                self.reached.insert(key(branch));
            }
            // A branch that gets no records may still start with an initialiser.
            out.extend(self.push_as(true, branch, input));
        }
        if !self.muted && !input.is_empty() {
            self.reached.insert(key(node));
        }
        out
    }

    /// Pushes shapes through a star (`leave` true: matching records leave) or a feedback (matching records go
    /// back).
    fn push_loop(
        &mut self,
        node: &Node,
        body: &Node,
        patterns: &[Pattern],
        input: Stream,
        star: bool,
    ) -> Stream {
        let sets = self.pattern_sets(node, patterns);
        let sets: Vec<(&Set, bool)> =
            sets.iter().zip(patterns).map(|(set, pattern)| (set, pattern.guard.is_some())).collect();
        let mut out = Stream::new();
        let mut inside = Stream::new();
        let mut arriving = input;
        let mut round = 0;
        loop {
            if star && !self.muted {
                for (i, (labels, _)) in sets.iter().enumerate() {
                    if arriving.iter().any(|shape| shape.presence_of(labels) != Presence::Lacks) {
                        self.matched.insert((node.at, i));
                    }
                }
            }
            let (leaving, staying) = match (star, round) {
                // A record that enters a feedback for the first time is not compared with the patterns.
                (false, 0) => (Stream::new(), arriving),
                _ => tested(&arriving, &sets, star, round > 0),
            };
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
            arriving = self.push_as(false, body, new);
            if !arriving.is_empty() && !self.muted {
                self.rounds.insert(node.at);
            }
        }
    }

    fn push_net(&mut self, node: &Node, net: NetId, input: Stream) -> Stream {
        let Some(border) = self.border(net) else {
            return self.push_net_body(net, input);
        };
        let mut out = Stream::new();
        for &arrow in &border.starts {
            let arrow = self.arrow(net, arrow);
            out.extend(self.shielded(net, &arrow, None));
        }
        for shape in &input {
            let won = route(shape, &border.accepts);
            if won.is_empty() && shape.sure && !border.accepts.is_empty() {
                self.net_lacks(node, net, &border.accepts, shape);
            }
            for (variant, shape) in won {
                let rest = Shape { unbound: false, ..shape.inherited(&border.accepts[variant][0]) };
                for made in self.made(net, &border, variant).iter() {
                    let (sure, open) = (made.sure && shape.sure, made.open || rest.open);
                    out.insert(Shape { sure, open, ..rest.with(&made.has) });
                }
            }
        }
        out
    }

    /// The input variants that a net declares; `None` if it declares no signature.
    fn border(&mut self, net: NetId) -> Option<Rc<Border>> {
        if let Some(known) = self.borders.get(&net.0) {
            return known.clone();
        }
        let arrows = self.resolved.net(net).signature.clone();
        let border = arrows.map(|arrows| {
            let mut border = Border { accepts: Vec::new(), arrows: Vec::new(), starts: Vec::new() };
            for (i, arrow) in arrows.iter().enumerate() {
                border.arrows.extend(arrow.input.iter().map(|_| i));
                border.accepts.extend(arrow.input.iter().map(|v| Rc::new(vec![self.set(v)])));
                if arrow.input.is_empty() {
                    border.starts.push(i);
                }
            }
            Rc::new(border)
        });
        self.borders.insert(net.0, border.clone());
        border
    }

    fn arrow(&self, net: NetId, arrow: usize) -> Arrow {
        self.resolved.net(net).signature.as_ref().expect("a net with a border")[arrow].clone()
    }

    /// The shapes that a net emits for one of its declared variants, which are computed only once.
    fn made(&mut self, net: NetId, border: &Border, variant: usize) -> Rc<Stream> {
        let key = (net.0, variant as u32);
        if let Some(known) = self.made.get(&key) {
            return known.clone();
        }
        let arrow = self.arrow(net, border.arrows[variant]);
        let made = Rc::new(self.shielded(net, &arrow, Some(&border.accepts[variant][0])));
        self.made.insert(key, made.clone());
        made
    }

    /// The shapes that a net with a declared signature emits for one of its variants.
    fn shielded(&mut self, net: NetId, arrow: &Arrow, variant: Option<&Set>) -> Stream {
        let input = variant.map(|has| Shape { has: Rc::new(has.clone()), open: false, ..Shape::anything() });
        let out = self.push_net_body(net, input.into_iter().collect());
        if out.iter().all(|shape| !shape.open) {
            return out;
        }
        // If the outputs cannot be inferred from the net's body, the declared outputs are used.
        match &arrow.output {
            Some(declared) => {
                declared.iter().map(|v| Shape { open: true, ..self.exact(v) }.doubtful()).collect()
            }
            None => out,
        }
    }
}

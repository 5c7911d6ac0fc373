//! The order of nets: each net comes after those that it uses, and is numbered at its first use; cycles are
//! reported and cut.

use std::collections::{HashMap, HashSet};

use super::super::resolved::*;
use super::{Body, NetDecl, Resolver};

impl Resolver<'_> {
    pub(super) fn has_topology(&mut self, main: usize) -> bool {
        let NetDecl { name, at, .. } = &self.nets[main];
        let error = match self.nets[main].body {
            Body::External => self
                .error("E0307", format!("net `{name}` has no topology: it is declared as external"), *at)
                .help(format!("this is the file of `{name}`: say what it does: `net {name} connect …;`")),
            Body::NoTopology => self
                .error("E0307", format!("net `{name}` has no topology"), *at)
                .label("the main net needs `connect …`")
                .help(format!("say what it does: `net {name} {{ … }} connect …;`")),
            _ => return true,
        };
        self.diagnostics.push(error);
        false
    }

    /// Orders all nets with a topology, so that each net comes after those that it uses: first those that
    /// `main` uses, then `main` itself, then the others. Reports cycles and nets that are nested too deep.
    pub(super) fn order(&mut self, main: Option<usize>) -> (Resolved, Option<(usize, usize)>) {
        let mut ordering = Ordering::default();
        if let Some(main) = main {
            self.visit(main, &mut ordering);
        }
        let of_main = ordering.order.len();
        for net in 0..self.nets.len() {
            if matches!(self.nets[net].body, Body::Done(_)) {
                self.visit(net, &mut ordering);
            }
        }
        self.draft(&ordering, main.map(|_| of_main))
    }

    /// Puts a net after those it uses. If a use of a net closes a cycle, or nests too deep, it is reported
    /// and treated as a hole.
    fn visit(&mut self, net: usize, ordering: &mut Ordering) {
        if ordering.height.contains_key(&net) {
            return;
        }
        let mut uses = Vec::new();
        if let Body::Done(body) = &self.nets[net].body {
            uses_of(body, &mut uses);
        }
        let mut seen = HashSet::new();
        for (used, at) in uses {
            if !seen.insert(used) {
                continue;
            }
            ordering.chain.push((net, at));
            if ordering.chain.len() > DEPTH_MAX {
                self.too_deep(at, ordering);
                ordering.cut.insert((net, used));
            } else if let Some(start) = ordering.chain.iter().position(|&(n, _)| n == used) {
                self.contains_itself(&ordering.chain[start..]);
                ordering.cut.insert((net, used));
            } else {
                self.visit(used, ordering);
            }
            ordering.chain.pop();
        }
        let height = match &self.nets[net].body {
            Body::Done(body) => height_of(body, &ordering.height) + 1,
            _ => 1,
        };
        if height > DEPTH_MAX {
            self.too_deep(self.nets[net].at, ordering);
        }
        // The net has no height before this point, so a use of it that closes a cycle counts as a net of
        // height 0.
        ordering.height.insert(net, height.min(DEPTH_MAX));
        ordering.order.push(net);
    }

    fn contains_itself(&mut self, circle: &[(usize, Place)]) {
        let mut names: Vec<String> =
            circle.iter().map(|&(net, _)| format!("`{}`", self.nets[net].name)).collect();
        names.push(names[0].clone());
        let (first, at) = circle[0];
        let name = self.nets[first].name.clone();
        let mut error = self.error("E0305", format!("net `{name}` contains itself"), at);
        for &(net, at) in &circle[1..] {
            error = error.also(&self.source(at), at.span, format!("used in `{}`", self.nets[net].name));
        }
        if circle.len() > 1 {
            error = error.remark(format!("the circle: {}", names.join(" → ")));
        }
        error = error.help("to repeat a component as long as records need it, write a star: `A * {<done>}`");
        self.diagnostics.push(error.label("used here, inside itself"));
    }

    fn too_deep(&mut self, at: Place, ordering: &mut Ordering) {
        if std::mem::replace(&mut ordering.too_deep, true) {
            return;
        }
        let error = self
            .error("E0309", format!("nets are nested more than {DEPTH_MAX} levels deep here"), at)
            .help("use fewer levels of nets");
        self.diagnostics.push(error);
    }

    fn draft(&mut self, ordering: &Ordering, of_main: Option<usize>) -> (Resolved, Option<(usize, usize)>) {
        let mut numbers = Numbers { cut: ordering.cut.clone(), ..Numbers::default() };
        for (i, &net) in ordering.order.iter().enumerate() {
            numbers.nets.insert(net as u32, i as u32);
        }
        let mut nets = Vec::new();
        let mut boxes_of_main = 0;
        for &net in &ordering.order {
            let decl = &mut self.nets[net];
            let hole = || NodeKind::Net(HOLE);
            let body = match std::mem::replace(&mut decl.body, Body::Hole) {
                Body::Done(node) => node,
                _ => Node { kind: hole(), name: decl.name.name.clone(), at: decl.at, accepts: Vec::new() },
            };
            let (name, at) = (decl.name.name.clone(), decl.at);
            let (metas, outer) = (std::mem::take(&mut decl.metas), decl.outer);
            let signature = decl.signature.take();
            let declared = signature.is_some();
            let signature = signature.and_then(|s| self.expand_signature(&s, outer, 0));
            if declared && signature.is_none() {
                numbers.unknown.insert(nets.len() as u32);
            }
            numbers.user = net;
            let body = numbers.node(body);
            nets.push(Net { name, at, signature, body, metas });
            if Some(nets.len()) == of_main {
                boxes_of_main = numbers.boxes.len();
            }
        }
        let boxes = numbers.boxes.iter().map(|&b| self.boxes[b as usize].clone()).collect();
        let main = NetId(of_main.unwrap_or(nets.len()).saturating_sub(1) as u32);
        let draft = Resolved { sources: self.sources.clone(), nets, boxes, main };
        (draft, of_main.map(|nets| (nets, boxes_of_main)))
    }
}

#[derive(Default)]
struct Ordering {
    chain: Vec<(usize, Place)>,
    height: HashMap<usize, usize>,
    order: Vec<usize>,
    /// The uses of nets that are treated as holes: the net that uses, and the net that is used.
    cut: HashSet<(usize, usize)>,
    too_deep: bool,
}

/// Gives nets and boxes new numbers, in the order of their first use.
#[derive(Default)]
struct Numbers {
    nets: HashMap<u32, u32>,
    /// Nets, by their new numbers, whose declared signature is unknown, so that their outputs are unknown as
    /// well.
    unknown: HashSet<u32>,
    /// The uses of nets that are treated as holes, as pairs of nets; `user` is the net that is being
    /// numbered.
    cut: HashSet<(usize, usize)>,
    user: usize,
    boxes: Vec<u32>,
    box_numbers: HashMap<u32, u32>,
}

impl Numbers {
    fn node(&mut self, mut node: Node) -> Node {
        node.kind = match node.kind {
            NodeKind::Net(HOLE) => NodeKind::Net(HOLE),
            NodeKind::Net(net) if self.cut.contains(&(self.user, net.0 as usize)) => NodeKind::Net(HOLE),
            NodeKind::Net(net) => match self.nets.get(&net.0) {
                Some(number) if !self.unknown.contains(number) => NodeKind::Net(NetId(*number)),
                _ => NodeKind::Net(HOLE),
            },
            NodeKind::Box(index) => NodeKind::Box(BoxId(self.of_box(index.0))),
            NodeKind::Serial(parts) => NodeKind::Serial(parts.into_iter().map(|n| self.node(n)).collect()),
            NodeKind::Parallel { branches, deterministic } => {
                let branches = branches.into_iter().map(|n| self.node(n)).collect();
                NodeKind::Parallel { branches, deterministic }
            }
            NodeKind::Star { body, exits, deterministic } => {
                NodeKind::Star { body: Box::new(self.node(*body)), exits, deterministic }
            }
            NodeKind::Feedback { body, backs } => {
                NodeKind::Feedback { body: Box::new(self.node(*body)), backs }
            }
            NodeKind::Split { body, from, to, deterministic, placed } => {
                let body = Box::new(self.node(*body));
                NodeKind::Split { body, from, to, deterministic, placed }
            }
            NodeKind::Place { body, place } => NodeKind::Place { body: Box::new(self.node(*body)), place },
            kind @ (NodeKind::Filter(_) | NodeKind::Synchrocell(_)) => kind,
        };
        node
    }

    fn of_box(&mut self, index: u32) -> u32 {
        *self.box_numbers.entry(index).or_insert_with(|| {
            self.boxes.push(index);
            self.boxes.len() as u32 - 1
        })
    }
}

/// The nets that a node uses, each with the place of its use.
fn uses_of(node: &Node, uses: &mut Vec<(usize, Place)>) {
    if let NodeKind::Net(net) = node.kind
        && net != HOLE
    {
        uses.push((net.0 as usize, node.at));
    }
    node.parts().for_each(|part| uses_of(part, uses));
}

fn height_of(node: &Node, nets: &HashMap<usize, usize>) -> usize {
    match node.kind {
        NodeKind::Net(HOLE) => 1,
        NodeKind::Net(net) => nets.get(&(net.0 as usize)).copied().unwrap_or(0) + 1,
        _ => node.parts().map(|part| height_of(part, nets)).max().unwrap_or(0) + 1,
    }
}

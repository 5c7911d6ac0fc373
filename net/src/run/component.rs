//! The components of a network at run time: the checked program with nets replaced by their bodies, and a
//! site in the space for each component.
//!
//! A component stands for all its replicas; the [`Instance`] of a task names the replica that the task
//! belongs to.

use std::fmt;
use std::sync::{Arc, Mutex};

use thalweg_exec::Placement;
use thalweg_space::{Site, SiteRef, Space};

use super::boxed::plan::{Before, BoxPart};
use super::cell::joins::Joins;
use super::command::part::CommandPart;
use crate::check::{BoxId, Net, Node, NodeKind};
use crate::error::Error;
use crate::filter::Filter;
use crate::label::{Label, labels_of};
use crate::network::Network;
use crate::pattern::Pattern;
use crate::plan::CommonPlans;
use crate::router::Router;
use crate::shield::Shield;
use crate::syntax::ast::{self, CommandMode};

/// The most components of a network after nets are replaced by their bodies.
const COMPONENTS_MAX: usize = 1 << 20;
/// The weight of a box, compared with a component that only passes records on.
const BOX_WEIGHT: u64 = 8;

/// The place with this number in a network's text (`A @ 1`, `A !@ <t>`): on one machine, a place is a worker.
pub(crate) fn placed_at(number: u64) -> Placement {
    Placement::on_worker(number as usize)
}

/// Index into [`Program::components`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComponentId(u32);

impl ComponentId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The replicas of a split to which a record is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitChoice {
    pub(crate) from: Label,
    /// The tag with the high end of a range of values, if a record goes to a range: the replica of each value
    /// gets a copy.
    pub(crate) to: Option<Label>,
    /// Whether the tag's value is also the number of the place where the replica runs.
    pub(crate) placed: bool,
}

/// All components of a network.
#[derive(Debug)]
pub(crate) struct Program {
    components: Vec<Component>,
    pub(crate) main: ComponentId,
}

/// One component.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) site: SiteRef,
    /// The site of the collector of a split, which joins the output of the replicas.
    collector: Option<SiteRef>,
    name: Arc<str>,
    /// The enclosing component; the main net is its own parent.
    parent: ComponentId,
    pub(crate) kind: Kind,
}

impl Component {
    /// The site of the task that joins the output of the component's parts. A split and a choice have a
    /// separate site for this task, so that observers can distinguish the component's two tasks.
    pub(crate) fn collector(&self) -> SiteRef {
        self.collector.unwrap_or(self.site)
    }

    /// The enclosing component of this one, whose id is `id`.
    fn outer(&self, id: ComponentId) -> Option<ComponentId> {
        (self.parent != id).then_some(self.parent)
    }
}

/// What a component does.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The parts, in the order in which records go through them; without parts the component is the identity.
    Serial(Vec<ComponentId>),
    /// A net with a declared signature: its parts in order, between the two ends of its shield.
    Shielded(Arc<Shield>, Vec<ComponentId>),
    Box(Arc<BoxPart>),
    /// A box that is implemented by a program.
    Command(Arc<CommandPart>),
    Filter(Filter),
    Synchrocell(Vec<Pattern>, Arc<Mutex<Joins>>),
    Parallel {
        branches: Vec<ComponentId>,
        router: Router,
        deterministic: bool,
    },
    Star {
        body: ComponentId,
        exits: Vec<Pattern>,
        deterministic: bool,
        /// Whether the star's replicas may be folded back and unfolded again.
        folds: bool,
    },
    Feedback {
        body: ComponentId,
        backs: Vec<Pattern>,
    },
    Split {
        body: ComponentId,
        choice: SplitChoice,
        deterministic: bool,
        /// Whether the split's replicas may be folded back and unfolded again.
        folds: bool,
    },
    /// A component at the place with this number.
    Placed {
        body: ComponentId,
        number: u64,
    },
}

impl Kind {
    /// The direct parts of the component.
    fn parts(&self) -> &[ComponentId] {
        match self {
            Kind::Serial(parts) | Kind::Shielded(_, parts) | Kind::Parallel { branches: parts, .. } => parts,
            Kind::Star { body, .. }
            | Kind::Feedback { body, .. }
            | Kind::Split { body, .. }
            | Kind::Placed { body, .. } => std::slice::from_ref(body),
            Kind::Box(_) | Kind::Command(_) | Kind::Filter(_) | Kind::Synchrocell(..) => &[],
        }
    }
}

/// A replica of a star or split, with the replica that encloses it.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) of: ComponentId,
    pub(crate) replica: i64,
    pub(crate) parent: Option<Arc<Instance>>,
}

impl Program {
    pub(crate) fn new(network: &Network, space: Option<&Space>) -> Result<Program, Error> {
        let mut builder = Builder { network, space, components: Vec::new(), before: Before::Network };
        let main = network.resolved.net(network.resolved.main);
        let place = network.resolved.source(main.at);
        let line = place.line_column(main.at.span.start);
        let site = Site {
            name: &main.name,
            kind: "net",
            parent: None,
            file: &place.path().to_string_lossy(),
            line: line.line,
            column: line.column,
        };
        let id = builder.add(main.name.clone(), &site, ComponentId(0))?;
        builder.components[0].kind = builder.net(main, id)?;
        Ok(Program { components: builder.components, main: id })
    }

    /// All components.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ComponentId> {
        (0..self.components.len() as u32).map(ComponentId)
    }

    /// The component of this number, if there is one.
    pub(crate) fn at(&self, number: u64) -> Option<ComponentId> {
        let number = u32::try_from(number).ok()?;
        ((number as usize) < self.components.len()).then_some(ComponentId(number))
    }

    /// A number that is equal for equal components in all processes: FNV-1a over their names and their
    /// enclosing components.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        for component in &self.components {
            component.name.bytes().for_each(&mut add);
            component.parent.0.to_le_bytes().into_iter().for_each(&mut add);
            add(component.kind.parts().len() as u8);
        }
        hash
    }

    /// The expected work of a component, for distributing a network over nodes: the number of boxes in it.
    /// Boxes in replicas count twice.
    pub(crate) fn weight(&self, id: ComponentId) -> u64 {
        let kind = &self.get(id).kind;
        let inside = kind.parts().iter().map(|&part| self.weight(part)).sum::<u64>();
        match kind {
            Kind::Box(_) | Kind::Command(_) => BOX_WEIGHT,
            Kind::Star { .. } | Kind::Split { .. } | Kind::Feedback { .. } => 2 * inside,
            _ => inside + 1,
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: ComponentId) -> &Component {
        &self.components[id.0 as usize]
    }

    /// The names from the main net down to a component, with the replicas: `main/star[2]/inc`.
    pub(crate) fn path(&self, id: ComponentId, instance: Option<&Instance>) -> String {
        path(&self.components, id, instance)
    }

    /// Writes the path to `out`, without allocating memory.
    pub(crate) fn write_path(
        &self,
        id: ComponentId,
        instance: Option<&Instance>,
        out: &mut impl fmt::Write,
    ) -> fmt::Result {
        write_path(&self.components, id, instance, out)
    }
}

fn path(components: &[Component], id: ComponentId, instance: Option<&Instance>) -> String {
    let mut path = String::new();
    write_path(components, id, instance, &mut path).expect("writing to memory does not fail");
    path
}

fn write_path(
    components: &[Component],
    id: ComponentId,
    instance: Option<&Instance>,
    out: &mut impl fmt::Write,
) -> fmt::Result {
    let depth = std::iter::successors(Some(id), |id| components[id.0 as usize].outer(*id)).count();
    for up in (0..depth).rev() {
        let (name, replica) = upwards(components, id, instance, up);
        out.write_str(name)?;
        if let Some(replica) = replica {
            write!(out, "[{replica}]")?;
        }
        if up > 0 {
            out.write_char('/')?;
        }
    }
    Ok(())
}

/// The ancestor of a component by a number of levels, and the replica of the ancestor that the instance
/// belongs to.
fn upwards<'a>(
    components: &'a [Component],
    id: ComponentId,
    mut instance: Option<&Instance>,
    steps: usize,
) -> (&'a str, Option<i64>) {
    let (mut at, mut replica) = (id, None);
    for step in 0..=steps {
        replica = instance.filter(|inside| inside.of == at && at != id).map(|inside| inside.replica);
        if replica.is_some() {
            instance = instance.and_then(|inside| inside.parent.as_deref());
        }
        if step < steps {
            at = components[at.0 as usize].parent;
        }
    }
    (&components[at.0 as usize].name, replica)
}

fn compiled(patterns: &[ast::Pattern]) -> Vec<Pattern> {
    patterns.iter().map(Pattern::compile).collect()
}

/// Builds a program.
struct Builder<'a> {
    network: &'a Network,
    space: Option<&'a Space>,
    components: Vec<Component>,
    /// The kind of component that precedes the one being built.
    before: Before,
}

impl Builder<'_> {
    fn add(&mut self, name: Arc<str>, site: &Site<'_>, parent: ComponentId) -> Result<ComponentId, Error> {
        if self.components.len() >= COMPONENTS_MAX {
            return Err(Error::new(format!(
                "the network has more than {COMPONENTS_MAX} components when its nets are put in their places: do \
                 nets use each other twice, again and again?"
            )));
        }
        let site = match self.space {
            Some(space) => space.site(site)?,
            None => SiteRef::default(),
        };
        let id = ComponentId(self.components.len() as u32);
        let component = Component { site, collector: None, name, parent, kind: Kind::Serial(Vec::new()) };
        self.components.push(component);
        Ok(id)
    }

    /// The components of a node: several if the node is a series, none if it is the identity.
    fn parts(&mut self, node: &Node, parent: ComponentId) -> Result<Vec<ComponentId>, Error> {
        match &node.kind {
            NodeKind::Serial(parts) => {
                let mut all = Vec::with_capacity(parts.len());
                let before = self.before;
                for part in parts {
                    all.extend(self.parts(part, parent)?);
                    self.before = Before::Component;
                }
                self.before = before;
                Ok(all)
            }
            NodeKind::Filter(filter) if filter.rule.is_none() => Ok(Vec::new()),
            _ => Ok(vec![self.component(node, parent)?]),
        }
    }

    /// Builds a node as one component.
    fn one(&mut self, node: &Node, parent: ComponentId) -> Result<ComponentId, Error> {
        match &node.kind {
            NodeKind::Serial(_) => self.component(node, parent),
            NodeKind::Filter(filter) if filter.rule.is_none() => self.component(node, parent),
            _ => Ok(self.parts(node, parent)?[0]),
        }
    }

    /// Builds a node as one component, where `before` precedes it instead of the predecessor of its parent.
    fn one_behind(&mut self, before: Before, node: &Node, parent: ComponentId) -> Result<ComponentId, Error> {
        let around = std::mem::replace(&mut self.before, before);
        let one = self.one(node, parent);
        self.before = around;
        one
    }

    fn component(&mut self, node: &Node, parent: ComponentId) -> Result<ComponentId, Error> {
        let source = self.network.resolved.source(node.at);
        let start = source.line_column(node.at.span.start);
        let site = Site {
            name: &node.name,
            kind: node.kind.word(),
            parent: self.space.map(|_| self.components[parent.0 as usize].site),
            file: &source.path().to_string_lossy(),
            line: start.line,
            column: start.column,
        };
        let id = self.add(node.name.clone(), &site, parent)?;
        let kind = self.kind(node, id)?;
        self.components[id.0 as usize].kind = kind;
        if let Some(space) = self.space
            && let Some(name) = self.collector_name(id)
        {
            let of = Some(self.components[id.0 as usize].site);
            let site = Site { name: &name, kind: "collector", parent: of, ..site };
            self.components[id.0 as usize].collector = Some(space.site(&site)?);
        }
        Ok(id)
    }

    /// The name of the task that joins the output of the replicas of a split, or of the branches of a choice.
    /// The task's site and the sites of the replicas or branches have the same parent, so their names must
    /// differ.
    fn collector_name(&self, id: ComponentId) -> Option<String> {
        let parts = match &self.components[id.0 as usize].kind {
            Kind::Split { body, .. } => std::slice::from_ref(body),
            Kind::Parallel { branches, .. } => branches,
            _ => return None,
        };
        let is_taken = |name: &str| parts.iter().any(|part| *self.components[part.0 as usize].name == *name);
        let names = (1..).map(|n| if n == 1 { "collector".to_owned() } else { format!("collector#{n}") });
        names.into_iter().find(|name| !is_taken(name))
    }

    fn kind(&mut self, node: &Node, id: ComponentId) -> Result<Kind, Error> {
        Ok(match &node.kind {
            NodeKind::Box(box_id) => match self.network.command(*box_id) {
                Some(command) => Kind::Command(Arc::new(self.command_part(*box_id, command))),
                None => Kind::Box(Arc::new(self.box_part(*box_id))),
            },
            NodeKind::Net(net) => {
                let network = self.network;
                self.net(network.resolved.net(*net), id)?
            }
            NodeKind::Filter(filter) if filter.rule.is_none() => Kind::Serial(Vec::new()),
            NodeKind::Filter(filter) => Kind::Filter(Filter::compile(filter)),
            NodeKind::Serial(_) => Kind::Serial(self.parts(node, id)?),
            NodeKind::Synchrocell(patterns) => Kind::Synchrocell(compiled(patterns), Arc::default()),
            NodeKind::Parallel { branches, deterministic } => {
                let router = Router::from_accepts(branches.iter().map(|branch| branch.accepts.as_slice()));
                let part = |branch| self.one_behind(Before::Branch, branch, id);
                let branches = branches.iter().map(part).collect::<Result<_, _>>()?;
                Kind::Parallel { branches, router, deterministic: *deterministic }
            }
            NodeKind::Star { body, exits, deterministic } => {
                let (exits, body) = (compiled(exits), self.one_behind(Before::Component, body, id)?);
                let folds = self.is_stateless(body);
                Kind::Star { body, exits, deterministic: *deterministic, folds }
            }
            NodeKind::Feedback { body, backs } => {
                let body = self.one_behind(Before::Component, body, id)?;
                Kind::Feedback { body, backs: compiled(backs) }
            }
            NodeKind::Split { body, from, to, deterministic, placed } => {
                let (from, to) = (Label::from(from), to.as_ref().map(Label::from));
                let choice = SplitChoice { from, to, placed: *placed };
                let body = self.one_behind(Before::Component, body, id)?;
                let folds = self.is_stateless(body);
                Kind::Split { body, choice, deterministic: *deterministic, folds }
            }
            NodeKind::Place { body, place } => Kind::Placed { body: self.one(body, id)?, number: *place },
        })
    }

    /// Whether a component treats each record alike, whatever came before: it contains no synchrocell, which
    /// keeps records, and no box without input, which runs when it is made. Records inside a feedback leave
    /// it without further input.
    fn is_stateless(&self, id: ComponentId) -> bool {
        let all = |parts: &[ComponentId]| parts.iter().all(|&part| self.is_stateless(part));
        match &self.components[id.0 as usize].kind {
            Kind::Serial(parts) | Kind::Shielded(_, parts) | Kind::Parallel { branches: parts, .. } => {
                all(parts)
            }
            Kind::Box(part) => part.input.is_some() || part.before == Before::Component,
            Kind::Filter(_) | Kind::Command(_) => true,
            Kind::Synchrocell(..) => false,
            Kind::Star { body, .. }
            | Kind::Feedback { body, .. }
            | Kind::Split { body, .. }
            | Kind::Placed { body, .. } => self.is_stateless(*body),
        }
    }

    fn net(&mut self, net: &Net, id: ComponentId) -> Result<Kind, Error> {
        let parts = self.parts(&net.body, id)?;
        let Some(signature) = &net.signature else { return Ok(Kind::Serial(parts)) };
        let variants = signature.iter().flat_map(|arrow| &arrow.input).map(labels_of).collect();
        let path = path(&self.components, id, None);
        let shield = Shield::new(variants, &net.body, &self.network.resolved, &path);
        Ok(Kind::Shielded(Arc::new(shield), parts))
    }

    fn command_part(&self, id: BoxId, (mode, command): (CommandMode, &str)) -> CommandPart {
        let signature = &self.network.resolved.box_use(id).signature;
        CommandPart {
            command: command.into(),
            mode,
            input: signature.input.iter().flat_map(|tuple| labels_of(&tuple.labels)).collect(),
            outputs: signature.outputs.iter().map(|tuple| labels_of(&tuple.labels)).collect(),
        }
    }

    fn box_part(&self, id: BoxId) -> BoxPart {
        let signature = &self.network.resolved.box_use(id).signature;
        let implementation = self.network.implementation(id).clone();
        BoxPart {
            is_blocking: implementation.current().is_blocking(),
            before: self.before,
            implementation,
            input: signature.input.as_ref().map(|tuple| labels_of(&tuple.labels)),
            outputs: signature.outputs.iter().map(|tuple| labels_of(&tuple.labels)).collect(),
            plans: CommonPlans::new(),
        }
    }
}

//! What a network needs to run on several nodes: which of its parts run on other nodes, and the links to and
//! from them.
//!
//! Every node has the whole program, so a number identifies a component on all of them. A node that unfolds a
//! part which belongs to another node *opens* it there: it sends the part's numbers and the replica that it
//! belongs to, then records, and receives records (`away`). This module does not know how bytes travel: the
//! crate that runs the nodes implements [`Elsewhere`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use thalweg_space::Space;

use super::under_way::UnderWay;
use crate::run::component::{ComponentId, Instance, Kind, Program};
use crate::run::failure::RecordError;
use crate::run::position::Shared;
use crate::syntax::Source;
use crate::wire::{Rest, WireError, Words};

/// The two directions of the link to a part on another node.
pub type Ways = (Box<dyn ToNode>, Box<dyn FromNode>);

/// The nodes of a session, from the view of one of them. A node has the same number on all nodes; 0 is the
/// process with the inputs and outputs.
pub trait Elsewhere: Send + Sync + fmt::Debug {
    /// The number of this node.
    fn here(&self) -> usize;

    /// The number of nodes, including this one and node 0.
    fn count(&self) -> usize;

    /// The name of a node.
    fn name(&self, node: usize) -> String;

    /// The node for this place number in the text (`A @ 1`, `A !@ <t>`).
    fn of_place(&self, number: u64) -> usize;

    /// The node that the user has chosen for the component with this path (`main/star/inc`). The choice also
    /// holds for all components inside that component.
    fn of_component(&self, path: &str) -> Option<usize>;

    /// Whether parts without a chosen node are distributed over the nodes; if not, they run on the node of
    /// their parent.
    fn shares_out(&self) -> bool;

    /// Whether a lost part returns the records that were sent to it, as failed records. The records can only
    /// be returned if the part keeps order.
    fn gives_back(&self) -> bool;

    /// Announces that the network is about to start, before the methods that open parts and wait for them are
    /// called. Called again, after [`Elsewhere::rest`], when another network, or the same one again, starts in
    /// place of the one that has ended.
    ///
    /// # Errors
    /// Another node cannot take part; the text gives the reason.
    fn begin(&self, session: Session) -> Result<(), String>;

    /// Opens a part on another node, which receives `opening` first; returns the link to and from it.
    ///
    /// # Errors
    /// The node cannot be reached; the text gives the reason.
    fn open(&self, node: usize, opening: &[u8]) -> Result<Ways, String>;

    /// Waits for the next part that another node opens on this node; `None` if no more will come.
    fn opened(&self) -> Option<Opened>;

    /// Announces that all records have left the network, so no more parts will be opened on this node:
    /// [`Elsewhere::opened`] ends.
    fn close(&self);

    /// Announces that the network has ended and another one may begin. When this method returns, all failures
    /// on the other nodes were reported. Called only on the node with the inputs and outputs.
    fn rest(&self) {}

    /// Replaces a library of boxes by its present file on the other nodes. Called only on the node with the
    /// inputs and outputs.
    ///
    /// # Errors
    /// A node refuses the library; the text gives the reason, and all nodes go on with the old library.
    fn reload(&self, library: &Path) -> Result<(), String> {
        Err(format!("{} cannot be replaced on other nodes", library.display()))
    }

    /// Announces that all tasks of this node have ended, and waits for the other nodes. When this method
    /// returns, all failures on the other nodes were reported.
    fn end(&self);
}

/// The link to another node: messages arrive in order, and none is lost while both nodes live.
pub trait ToNode: Send {
    /// The link's number in its session, the same at both ends, by which observers find the other end.
    fn number(&self) -> Option<u64> {
        None
    }

    /// Accepts a message; waits while there is no space for it.
    ///
    /// # Errors
    /// The other node is lost; the text gives the reason.
    fn push(&mut self, message: &[u8]) -> Result<(), String>;

    /// Sends the accepted messages.
    ///
    /// # Errors
    /// The other node is lost.
    fn flush(&mut self) -> Result<(), String>;

    /// Ends the link, and waits until the other end has received all messages.
    ///
    /// # Errors
    /// The other node is lost.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// The link from another node.
pub trait FromNode: Send {
    /// As [`ToNode::number`].
    fn number(&self) -> Option<u64> {
        None
    }

    /// The next message, if one has arrived.
    ///
    /// # Errors
    /// The other node is lost; the text gives the reason.
    fn next(&mut self) -> Result<Got<'_>, String>;

    /// Waits until a message, or the end, has arrived.
    ///
    /// # Errors
    /// The other node is lost.
    fn wait(&mut self) -> Result<(), String>;
}

/// The state of a link from another node.
#[derive(Debug)]
pub enum Got<'a> {
    /// A message.
    Message(&'a [u8]),
    /// No message has arrived yet.
    Nothing,
    /// No more messages will come.
    End,
}

/// A part that another node has opened.
pub struct Opened {
    /// The bytes that the node sent to open the part.
    pub opening: Vec<u8>,
    /// The records that go into the part.
    pub from: Box<dyn FromNode>,
    /// The receiver of the records that leave the part.
    pub to: Box<dyn ToNode>,
}

/// A started network, for the crate that runs the nodes. While a `Session` lives, the network's stream of
/// failed records stays open.
#[derive(Clone, Debug)]
pub struct Session {
    pub(in crate::run) shared: Arc<Shared>,
    pub(in crate::run) sources: Arc<[Arc<Source>]>,
    pub(in crate::run) space: Option<Space>,
    pub(in crate::run) libraries: Arc<[PathBuf]>,
}

impl Session {
    /// The files of the libraries that the network's boxes come from.
    pub fn libraries(&self) -> &[PathBuf] {
        &self.libraries
    }

    /// The space of the network's runtime, if it has one.
    pub fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    /// A fingerprint of the network, the same on all nodes that read the same network.
    pub fn fingerprint(&self) -> u64 {
        self.shared.program.fingerprint()
    }

    /// The texts that the network was read from; the first is the main file.
    pub fn sources(&self) -> &[Arc<Source>] {
        &self.sources
    }

    /// Reports a record that failed on another node.
    pub fn fail(&self, error: RecordError) {
        // The reader of failures has ended only if the run was aborted.
        let _ = self.shared.failures.send(error);
    }

    /// The records that are now on the node with this number or on the way to it, for each part there: the
    /// part's path, the number of records sent to the part, and the number of records that came back.
    pub fn under_way(&self, node: usize) -> Vec<(String, u64, u64)> {
        let Some(nodes) = &self.shared.nodes else { return Vec::new() };
        let mut open = nodes.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|part| part.under_way.strong_count() > 0);
        let of_it = open.iter().filter(|part| part.node == node);
        of_it
            .filter_map(|part| {
                let (sent, back) = part.under_way.upgrade()?.counts();
                Some((part.path.clone(), sent, back))
            })
            .collect()
    }
}

/// The nodes of a program's parts.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) elsewhere: Arc<dyn Elsewhere>,
    /// The node that each component is placed on, by component.
    of: Vec<Option<u32>>,
    /// Whether the replicas of each component are distributed, by component.
    spread: Vec<bool>,
    /// The parts that are open on other nodes.
    open: Mutex<Vec<OpenPart>>,
}

#[derive(Debug)]
struct OpenPart {
    node: usize,
    path: String,
    under_way: Weak<UnderWay>,
}

impl Nodes {
    pub(crate) fn new(program: &Program, elsewhere: Arc<dyn Elsewhere>) -> Nodes {
        let ids: Vec<ComponentId> = program.ids().collect();
        let of = ids.iter().map(|&id| match &program.get(id).kind {
            Kind::Placed { number, .. } => Some(elsewhere.of_place(*number) as u32),
            _ => elsewhere.of_component(&program.path(id, None)).map(|node| node as u32),
        });
        let mut nodes =
            Nodes { of: of.collect(), spread: vec![false; ids.len()], open: Mutex::default(), elsewhere };
        if nodes.elsewhere.shares_out() && nodes.elsewhere.count() > 1 {
            nodes.share_out(program);
        }
        nodes
    }

    /// Distributes the components in series in the main net over the nodes; a node gets neighbouring
    /// components. If the net is a single choice, its branches are distributed; if it is a single split, its
    /// replicas.
    fn share_out(&mut self, program: &Program) {
        let mut parts = vec![program.main];
        while let [only] = parts[..] {
            if self.of[only.index()].is_some() {
                return;
            }
            match &program.get(only).kind {
                Kind::Serial(inner) | Kind::Shielded(_, inner) => parts.clone_from(inner),
                Kind::Parallel { branches, .. } => parts.clone_from(branches),
                Kind::Split { .. } => {
                    self.spread[only.index()] = true;
                    return;
                }
                _ => break,
            }
        }
        let weights: Vec<u64> = parts.iter().map(|&part| program.weight(part)).collect();
        let total = weights.iter().sum::<u64>().max(1);
        let others = self.elsewhere.count() as u64 - 1;
        let mut before = 0;
        for (part, weight) in parts.iter().zip(weights) {
            let node = 1 + (2 * before + weight) * others / (2 * total).max(1);
            before += weight;
            self.of[part.index()].get_or_insert(node.min(others) as u32);
        }
    }

    /// The node that a component is placed on, if it is another node than this one.
    pub(crate) fn away(&self, id: ComponentId) -> Option<usize> {
        let node = self.of[id.index()]? as usize;
        (node != self.elsewhere.here()).then_some(node)
    }

    /// The node of a split's replica, if it is another node than this one.
    pub(crate) fn of_replica(&self, split: ComponentId, is_placed: bool, value: i64) -> Option<usize> {
        if !is_placed && !self.spread[split.index()] {
            return None;
        }
        let node = self.elsewhere.of_place(value.cast_unsigned());
        (node != self.elsewhere.here()).then_some(node)
    }

    pub(crate) fn note_open(&self, node: usize, path: String, under_way: &Arc<UnderWay>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() == open.capacity() {
            open.retain(|part| part.under_way.strong_count() > 0);
        }
        open.push(OpenPart { node, path, under_way: Arc::downgrade(under_way) });
    }
}

/// The part to open: components in series, in a replica.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) parts: Vec<ComponentId>,
    pub(crate) instance: Option<Arc<Instance>>,
    pub(crate) replica: u64,
    /// Whether records come in groups.
    pub(crate) ordered: bool,
}

/// The most replicas that may enclose a part.
const DEPTH_MAX: u64 = 1 << 12;

impl Opening {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut words = Words::default();
        words.number(self.ordered.into()).number(self.replica).number(self.parts.len() as u64);
        for part in &self.parts {
            words.number(part.index() as u64);
        }
        let around: Vec<&Instance> =
            std::iter::successors(self.instance.as_deref(), |inside| inside.parent.as_deref()).collect();
        words.number(around.len() as u64);
        for instance in around.iter().rev() {
            words.number(instance.of.index() as u64).integer(instance.replica);
        }
        words.0
    }

    pub(crate) fn decode(bytes: &[u8], program: &Program) -> Result<Opening, WireError> {
        let mut rest = Rest(bytes);
        let unknown = || WireError::new("it opens a part that this network has not");
        let ordered = rest.number()? != 0;
        let replica = rest.number()?;
        let component = |rest: &mut Rest<'_>| program.at(rest.number()?).ok_or_else(unknown);
        let mut parts = Vec::new();
        for _ in 0..rest.number()? {
            parts.push(component(&mut rest)?);
        }
        let mut instance = None;
        let depth = rest.number()?;
        if depth > DEPTH_MAX || parts.is_empty() {
            return Err(unknown());
        }
        for _ in 0..depth {
            let (of, replica) = (component(&mut rest)?, rest.integer()?);
            instance = Some(Arc::new(Instance { of, replica, parent: instance }));
        }
        Ok(Opening { parts, instance, replica, ordered })
    }
}

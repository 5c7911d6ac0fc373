//! A program whose names are resolved and whose types fit: the input of unfolding.
//!
//! Nets and boxes are tables; a [`Node`] refers to them by index, so a net used twice is stored once. The
//! graph of nets has no cycle and its depth, counted through nets, is at most [`DEPTH_MAX`]: walking it
//! recursively is safe. The *unfolding* of a program can still be exponentially larger than its text (if each
//! net uses the net before it twice), so the code that unfolds a program has a limit.
//!
//! A node has a [`Node::name`] that is unique within its net (`inc`, `inc#2`, `star`); the path of a
//! component consists of the names on the way to it, joined by `/`.

use std::sync::Arc;

use crate::syntax::ast::{
    BoxSignature, COMMAND_LANGUAGE, Code, CommandMode, Filter, Label, LabelAt, Meta, Name, Pattern,
};
use crate::syntax::{Source, Span};

/// The greatest depth to which components nest, counted through nets.
pub const DEPTH_MAX: usize = 512;

/// A checked program.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The texts from which the program was read; the first is the main file.
    pub sources: Vec<Arc<Source>>,
    /// All nets that are used; a net comes after those it uses, and the main net is the last.
    pub nets: Vec<Net>,
    /// All boxes that are used.
    pub boxes: Vec<BoxUse>,
    /// The main net.
    pub main: NetId,
}

/// Index into [`Resolved::nets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetId(pub u32);

/// A reference that could not be resolved; it occurs only during the check, never in a [`Resolved`] that the
/// check returns.
pub(super) const HOLE: NetId = NetId(u32::MAX);

/// Index into [`Resolved::boxes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoxId(pub u32);

/// Index into [`Resolved::sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A place in one of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The source that contains the place.
    pub source: SourceId,
    /// The span in the source.
    pub span: Span,
}

/// A net.
#[derive(Clone, Debug)]
pub struct Net {
    /// The net's name.
    pub name: Name,
    /// The place of the net's name in its definition.
    pub at: Place,
    /// The net's declared signature, with all type names replaced by their definitions. A net with a declared
    /// signature shields its inside: labels of a record outside the matched input variant bypass the net and
    /// are added to its outputs.
    pub signature: Option<Vec<Arrow>>,
    /// The net's topology.
    pub body: Node,
    /// The metadata among the net's definitions.
    pub metas: Vec<Meta>,
}

/// One map `input -> output` of a declared signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrow {
    /// The input variants; none for an initialiser.
    pub input: Vec<LabelSet>,
    /// The output variants; `None` if they are to be inferred (`...`).
    pub output: Option<Vec<LabelSet>>,
}

/// Labels in ascending order, each once.
pub type LabelSet = Vec<Label>;

/// A box as declared.
#[derive(Clone, Debug)]
pub struct BoxUse {
    /// The box's name, under which the implementation is found.
    pub name: Name,
    /// The place of the box's name in its declaration.
    pub at: Place,
    /// The labels that the box consumes and emits, in order.
    pub signature: BoxSignature,
    /// The code in the body of the box.
    pub codes: Vec<Code>,
    /// The metadata in the body of the box.
    pub metas: Vec<Meta>,
}

impl BoxUse {
    /// The command in the code of the box, if there is one, and the command's mode: `<<< exec filter | grep
    /// --line-buffered a >>>`. A box without input cannot be a command.
    pub fn command(&self) -> Option<(CommandMode, &str)> {
        self.signature.input.as_ref()?;
        let code = self.codes.iter().find(|code| &*code.language.name == COMMAND_LANGUAGE)?;
        let mode = code.mode.as_ref().and_then(|mode| CommandMode::of_word(&mode.name));
        Some((mode.unwrap_or(CommandMode::Line), code.text.trim()))
    }
}

/// A component.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kind.
    pub kind: NodeKind,
    /// A name that is unique within the net: the name of the box or net, else [`NodeKind::word`]. The second
    /// and further components of one name get `#2`, `#3`, ….
    pub name: Name,
    /// The place of the component in the source.
    pub at: Place,
    /// The inferred variants of the records that the component accepts. The combinator `|` compares them. The
    /// list is empty for an initialiser, which accepts no records.
    pub accepts: Vec<LabelSet>,
}

/// The kinds of component.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A box.
    Box(BoxId),
    /// A net; see [`Net::signature`] for what a declared signature means.
    Net(NetId),
    /// A filter. A filter without a rule passes each record on unchanged.
    Filter(Filter),
    /// A synchrocell.
    Synchrocell(Vec<Pattern>),
    /// Components in series; at least two.
    Serial(Vec<Node>),
    /// Components in parallel; at least two. A record goes to the branch with the best match of its
    /// [`Node::accepts`].
    Parallel {
        /// The branches, from left to right.
        branches: Vec<Node>,
        /// `||`.
        deterministic: bool,
    },
    /// A star: a record that matches one of `exits` leaves before the next replica.
    Star {
        /// The repeated component.
        body: Box<Node>,
        /// The patterns that let a record leave.
        exits: Vec<Pattern>,
        /// `**`.
        deterministic: bool,
    },
    /// A feedback: outputs that match one of the patterns return to the input.
    Feedback {
        /// The looped component.
        body: Box<Node>,
        /// The patterns that send a record back.
        backs: Vec<Pattern>,
    },
    /// A split: a replica per value of a tag.
    Split {
        /// The replicated component.
        body: Box<Node>,
        /// The tag whose value selects the replica, or the tag with the low end of a range of replicas.
        from: LabelAt,
        /// The tag with the high end of the range, if replicas are selected by a range.
        to: Option<LabelAt>,
        /// `!!`, `!!@`.
        deterministic: bool,
        /// `!@`, `!!@`.
        placed: bool,
    },
    /// A component at a place.
    Place {
        /// The placed component.
        body: Box<Node>,
        /// The number of the place.
        place: u64,
    },
}

impl NodeKind {
    /// The word for this kind: `box`, `net`, `filter`, `synchrocell`, `serial`, `parallel`, `star`, `feedback`,
    /// `split`, `place`.
    pub fn word(&self) -> &'static str {
        match self {
            NodeKind::Box(_) => "box",
            NodeKind::Net(_) => "net",
            NodeKind::Filter(_) => "filter",
            NodeKind::Synchrocell(_) => "synchrocell",
            NodeKind::Serial(_) => "serial",
            NodeKind::Parallel { .. } => "parallel",
            NodeKind::Star { .. } => "star",
            NodeKind::Feedback { .. } => "feedback",
            NodeKind::Split { .. } => "split",
            NodeKind::Place { .. } => "place",
        }
    }
}

impl Node {
    /// The components of which this one is directly composed; the parts of a net that it refers to are not
    /// included.
    pub fn parts(&self) -> impl Iterator<Item = &Node> {
        let (several, one): (&[Node], Option<&Node>) = match &self.kind {
            NodeKind::Serial(parts) | NodeKind::Parallel { branches: parts, .. } => (parts, None),
            NodeKind::Star { body, .. }
            | NodeKind::Feedback { body, .. }
            | NodeKind::Split { body, .. }
            | NodeKind::Place { body, .. } => (&[], Some(body)),
            NodeKind::Box(_) | NodeKind::Net(_) | NodeKind::Filter(_) | NodeKind::Synchrocell(_) => {
                (&[], None)
            }
        };
        several.iter().chain(one)
    }
}

impl Resolved {
    /// The net of an id.
    pub fn net(&self, id: NetId) -> &Net {
        &self.nets[id.0 as usize]
    }

    /// The box of an id.
    pub fn box_use(&self, id: BoxId) -> &BoxUse {
        &self.boxes[id.0 as usize]
    }

    /// The source of a place.
    pub fn source(&self, at: Place) -> &Arc<Source> {
        &self.sources[at.source.0 as usize]
    }
}

//! A program whose names are resolved and whose types fit: the input of unfolding.
//!
//! Nets and boxes are tables; a [`Node`] refers to them by index, so a net used twice is stored once. The
//! graph of nets has no cycle and its depth, counted through nets, is at most [`DEPTH_MAX`]: walking it
//! recursively is safe. The *unfolding* of a program can still be exponentially larger than its text (each
//! net using the one before twice), so the code that unfolds it has a limit.
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
    /// The texts it was read from; the first is the main file.
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

/// A reference that could not be resolved; it occurs only during the check, never in a [`Resolved`] that was
/// returned.
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
    /// Which source.
    pub source: SourceId,
    /// The span in the source.
    pub span: Span,
}

/// A net.
#[derive(Clone, Debug)]
pub struct Net {
    /// Its name.
    pub name: Name,
    /// Where it is defined (its name).
    pub at: Place,
    /// Its declared signature with all type names replaced. A net with a declared signature shields its
    /// inside: labels of a record outside the matched input variant bypass the net and are added to its
    /// outputs.
    pub signature: Option<Vec<Arrow>>,
    /// Its topology.
    pub body: Node,
    /// Metadata among its definitions.
    pub metas: Vec<Meta>,
}

/// One map of a declared signature.
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
    /// Its name, under which the implementation is found.
    pub name: Name,
    /// Where it is declared (its name).
    pub at: Place,
    /// The labels that it consumes and emits, in order.
    pub signature: BoxSignature,
    /// Code in its body.
    pub codes: Vec<Code>,
    /// Metadata in its body.
    pub metas: Vec<Meta>,
}

impl BoxUse {
    /// The command in its code, if there is one, and its mode: `<<< exec filter | grep --line-buffered a
    /// >>>`. A box without input cannot be a command.
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
    /// Unique within its net: the name of the box or net, else the word of [`NodeKind::word`]; from the second
    /// on with `#2`, `#3`, ….
    pub name: Name,
    /// The place.
    pub at: Place,
    /// The variants that it accepts, as inferred, which `|` compares. Empty if it accepts no records
    /// (initialisers).
    pub accepts: Vec<LabelSet>,
}

/// The kinds of component.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A box.
    Box(BoxId),
    /// A net; see [`Net::signature`] for what a declared signature means.
    Net(NetId),
    /// A filter; without a rule the identity.
    Filter(Filter),
    /// A synchrocell.
    Synchrocell(Vec<Pattern>),
    /// Components in series; at least two.
    Serial(Vec<Node>),
    /// Components in parallel; at least two. A record goes to the branch with the best match of its
    /// [`Node::accepts`].
    Parallel {
        /// The branches in order.
        branches: Vec<Node>,
        /// `||`.
        deterministic: bool,
    },
    /// A star: before every replica, a record that matches one of `exits` leaves.
    Star {
        /// The repeated component.
        body: Box<Node>,
        /// The patterns that let a record leave.
        exits: Vec<Pattern>,
        /// `**`.
        deterministic: bool,
    },
    /// A feedback: outputs that match return to the input.
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
        /// The tag (or the low end of the range).
        from: LabelAt,
        /// The high end of the range.
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
    /// Its direct parts, without those of a net that it names.
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

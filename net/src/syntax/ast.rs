//! The syntax tree of an S-Net file: the parts of the text, with the span of every part.
//!
//! The tree follows the grammar rule by rule (see [`super::parse`]). The crate's
//! module `check` resolves names. The depth of a tree is bounded by the parser ([`super::NESTING_MAX`]), so
//! walking it recursively is safe.
//!
//! A tree of a text with errors has holes: [`TopoKind::Missing`] where no topology could be parsed, and empty
//! signatures and types. A part whose span contains an error may be incomplete.

use std::fmt;
use std::sync::Arc;

use super::source::Span;

/// A name as written. Cheap to clone.
pub type Name = Arc<str>;

/// A name with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// The span of the name.
    pub span: Span,
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The definitions, in order.
    pub defs: Vec<Def>,
    /// The span of the text.
    pub span: Span,
}

/// A definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Def {
    /// `<metadata> … </metadata>`.
    Meta(Meta),
    /// `net …`.
    Net(NetDef),
    /// `box …`.
    Box(BoxDef),
    /// `type …`.
    Type(TypeDef),
    /// `typesig …`.
    Typesig(TypesigDef),
}

/// Metadata: opaque text.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// The text between `<metadata>` and `</metadata>`.
    pub text: Name,
    /// The span, tags included.
    pub span: Span,
}

/// `net NAME (signature) { definitions } connect topology;`
#[derive(Clone, Debug, PartialEq)]
pub struct NetDef {
    /// The net's name.
    pub name: Ident,
    /// The declared signature, if any. Labels outside a declared input type bypass the net unchanged.
    pub signature: Option<Signature>,
    /// The contents.
    pub body: NetBody,
    /// From `net` to the last `;` or `}`.
    pub span: Span,
}

/// The body of a net.
#[derive(Clone, Debug, PartialEq)]
pub enum NetBody {
    /// `net NAME;`: defined in `NAME.snet`.
    External,
    /// The net is defined in the same file.
    Defined {
        /// The definitions between `{` and `}`.
        defs: Vec<Def>,
        /// The topology after `connect`; a net without one only holds definitions.
        connect: Option<Topo>,
    },
}

/// `box NAME ((a, <t>) -> (b) | (c)) { <<< C | … >>> }`
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDef {
    /// The box's name.
    pub name: Ident,
    /// The labels that the box consumes and emits.
    pub signature: BoxSignature,
    /// The codes in the box's body, in the order written.
    pub codes: Vec<Code>,
    /// The metadata in the box's body.
    pub metas: Vec<Meta>,
    /// From `box` to `;` or `}`.
    pub span: Span,
}

/// `(in) -> (out) | (out)`: the arguments in order.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxSignature {
    /// The arguments; `None` for an initialiser, which runs once at start: `(-> (b))`.
    pub input: Option<Tuple>,
    /// The variants that the box may emit, numbered from 1 in calls; empty for a box that only consumes.
    pub outputs: Vec<Tuple>,
    /// The span, without the outer brackets.
    pub span: Span,
}

impl BoxSignature {
    /// A signature that could not be read; an error was reported.
    pub(crate) const HOLE: BoxSignature =
        BoxSignature { input: None, outputs: Vec::new(), span: Span { start: 0, end: 0 } };

    /// Whether the signature could not be read.
    pub fn is_hole(&self) -> bool {
        self.span == Span::default()
    }

    /// Whether the arguments and output variants of two signatures are the same, in the same order.
    pub fn same_as(&self, other: &BoxSignature) -> bool {
        fn labels(tuple: &Tuple) -> impl Iterator<Item = &Label> {
            tuple.labels.iter().map(|l| &l.label)
        }
        let input = match (&self.input, &other.input) {
            (Some(a), Some(b)) => labels(a).eq(labels(b)),
            (None, None) => true,
            _ => false,
        };
        input
            && self.outputs.len() == other.outputs.len()
            && self.outputs.iter().zip(&other.outputs).all(|(a, b)| labels(a).eq(labels(b)))
    }
}

impl fmt::Display for BoxSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(input) = &self.input {
            write!(f, "{input} ")?;
        }
        f.write_str("->")?;
        for (i, tuple) in self.outputs.iter().enumerate() {
            write!(f, "{} {tuple}", if i == 0 { "" } else { " |" })?;
        }
        Ok(())
    }
}

/// `(a, <t>, <#b>)`: labels in the order of a box's arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuple {
    /// The labels in order.
    pub labels: Vec<LabelAt>,
    /// The span, with the brackets.
    pub span: Span,
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, at) in self.labels.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, at.label)?;
        }
        f.write_str(")")
    }
}

/// `<<< ID | text >>>` or `<<< exec ID | text >>>`: code of a box in another language, kept as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// The language, such as `C`.
    pub language: Ident,
    /// The protocol between a command and the network, such as `filter`.
    pub mode: Option<Ident>,
    /// The text after `|`.
    pub text: Name,
    /// The span.
    pub span: Span,
}

/// The language of code that is a command.
pub const COMMAND_LANGUAGE: &str = "exec";

/// How the lines that a command prints answer records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandMode {
    /// Each record is answered by one line, which names its question: `<<< exec | … >>>`.
    Line,
    /// Each record is answered by any number of lines, which name their question: `<<< exec filter | … >>>`.
    Filter,
    /// Each record is answered by all lines of a process of its own: `<<< exec each | … >>>`.
    Each,
    /// The k-th line answers the k-th record: `<<< exec lines | … >>>`.
    Lines,
}

impl CommandMode {
    /// The modes that are written as a word, in order.
    pub const WORDS: [(&str, CommandMode); 3] =
        [("each", CommandMode::Each), ("filter", CommandMode::Filter), ("lines", CommandMode::Lines)];

    /// The mode of this word.
    pub fn of_word(word: &str) -> Option<CommandMode> {
        CommandMode::WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, mode)| mode)
    }

    /// Whether questions have numbers, which answers repeat.
    pub fn names_questions(self) -> bool {
        matches!(self, CommandMode::Line | CommandMode::Filter)
    }
}

/// `type NAME = {a} | {b};`
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDef {
    /// The name of the type.
    pub name: Ident,
    /// The definition of the name.
    pub of: Type,
    /// The span of the definition.
    pub span: Span,
}

/// `typesig NAME = {a} -> {b};`
#[derive(Clone, Debug, PartialEq)]
pub struct TypesigDef {
    /// The name of the signature.
    pub name: Ident,
    /// The definition of the name.
    pub of: Signature,
    /// The span of the definition.
    pub span: Span,
}

/// The signature of a net: one or more maps from an input type to an output type.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The maps, separated by `,`; none if they could not be read.
    pub maps: Vec<Map>,
    /// Without the brackets.
    pub span: Span,
}

/// One map of a signature.
#[derive(Clone, Debug, PartialEq)]
pub enum Map {
    /// `{a} -> {b}`.
    Arrow {
        /// The type of the input; `None` if there is none.
        input: Option<Type>,
        /// The type of the output.
        output: MapOutput,
        /// The span.
        span: Span,
    },
    /// The name of a `typesig`.
    Named(Ident),
}

/// The right side of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum MapOutput {
    /// `{a} ->`: no output.
    Nothing,
    /// `{a} -> ...`: to be inferred.
    Infer,
    /// `{a} -> {b}`.
    Type(Type),
}

/// One or more variants, separated by `|`.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The variants; none if they could not be read.
    pub variants: Vec<Variant>,
    /// The span.
    pub span: Span,
}

/// One variant of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Variant {
    /// `{a, <t>}`.
    Labels(Labels),
    /// The name of a `type`.
    Named(Ident),
}

/// `{a, <t>, <#b>}`: a set of labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The labels as written.
    pub labels: Vec<LabelAt>,
    /// The span, with the braces.
    pub span: Span,
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, at) in self.labels.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, at.label)?;
        }
        f.write_str("}")
    }
}

/// The three kinds of label. A field, a tag and a binding tag with the same name are three different labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelKind {
    /// `a`: a value of the box language.
    Field,
    /// `<a>`: an integer.
    Tag,
    /// `<#a>`: an integer that must be matched to be routed, and is not inherited.
    BindingTag,
}

/// A label: kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// Field, tag or binding tag.
    pub kind: LabelKind,
    /// The label's name, without brackets.
    pub name: Name,
}

impl Label {
    /// The field `name`.
    pub fn field(name: impl Into<Name>) -> Label {
        Label { kind: LabelKind::Field, name: name.into() }
    }

    /// The tag `<name>`.
    pub fn tag(name: impl Into<Name>) -> Label {
        Label { kind: LabelKind::Tag, name: name.into() }
    }

    /// The binding tag `<#name>`.
    pub fn binding(name: impl Into<Name>) -> Label {
        Label { kind: LabelKind::BindingTag, name: name.into() }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LabelKind::Field => write!(f, "{}", self.name),
            LabelKind::Tag => write!(f, "<{}>", self.name),
            LabelKind::BindingTag => write!(f, "<#{}>", self.name),
        }
    }
}

/// A label with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelAt {
    /// The label.
    pub label: Label,
    /// The span, brackets included.
    pub span: Span,
}

/// A topology: a component that is composed of components.
#[derive(Clone, Debug, PartialEq)]
pub struct Topo {
    /// The kind.
    pub kind: TopoKind,
    /// The span; brackets around the whole topology are not part of it.
    pub span: Span,
}

/// The components and combinators.
#[derive(Clone, Debug, PartialEq)]
pub enum TopoKind {
    /// A box or net by name.
    Name(Ident),
    /// `[{a} -> {b}]` or `[]`.
    Filter(Filter),
    /// `[| {a}, {b} |]`.
    Synchrocell(Vec<Pattern>),
    /// `A .. B .. C`: at least two.
    Serial(Vec<Topo>),
    /// `A | B | C`, `A || B || C`: at least two.
    Parallel {
        /// The branches in order.
        branches: Vec<Topo>,
        /// `||`.
        deterministic: bool,
    },
    /// `A * {p}`, `A ** {p}`.
    Star {
        /// The repeated component.
        body: Box<Topo>,
        /// A record that matches one of these patterns leaves the star. At least one.
        exits: Vec<Pattern>,
        /// `**`.
        deterministic: bool,
    },
    /// `A \ {p}`.
    Feedback {
        /// The looped component.
        body: Box<Topo>,
        /// A record from the body that matches one of these patterns goes back to the body's input. At least
        /// one.
        backs: Vec<Pattern>,
    },
    /// `A ! <t>`, `A !! <t>`, `A !@ <t>`, `A !!@ <t>`, each also with `<t>:<u>`.
    Split {
        /// The replicated component.
        body: Box<Topo>,
        /// The tag whose value chooses the replica; the low end of a range.
        from: LabelAt,
        /// The tag with the high end of a range of values: the replica of each value gets a copy of the
        /// record.
        to: Option<LabelAt>,
        /// `!!`, `!!@`.
        deterministic: bool,
        /// `!@`, `!!@`: the value is also the number of the place.
        placed: bool,
    },
    /// `A @ 3`.
    Place {
        /// The placed component.
        body: Box<Topo>,
        /// The number of the place.
        place: u64,
    },
    /// Nothing could be read here; an error was reported.
    Missing,
}

/// `{a, <t>} if <t > 0>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The labels.
    pub labels: Labels,
    /// The guard.
    pub guard: Option<TagExpr>,
    /// The span.
    pub span: Span,
}

/// `[]`, or `[{a} -> action]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// `None` for the identity `[]`.
    pub rule: Option<FilterRule>,
}

/// The rule of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterRule {
    /// The labels that the filter needs and consumes.
    pub pattern: Labels,
    /// The guarded alternatives in order, then the last one without a guard.
    pub action: Action,
}

/// `if <g> then outs else if <h> then outs else outs`; without guards only `otherwise`.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// `if <guard> then outputs else`, in order; the outputs of the first guard that is not 0 are emitted.
    pub guarded: Vec<(TagExpr, Vec<OutRecord>)>,
    /// The records that are emitted if no guard holds; without records the input is consumed.
    pub otherwise: Vec<OutRecord>,
}

impl Action {
    /// All output records, of all guards.
    pub fn records(&self) -> impl Iterator<Item = &OutRecord> {
        self.guarded.iter().flat_map(|(_, records)| records).chain(&self.otherwise)
    }
}

/// `{a, b = c, <t>, <u = t + 1>}`: one output record of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct OutRecord {
    /// The entries, in order.
    pub items: Vec<Item>,
    /// With the braces.
    pub span: Span,
}

/// One entry of an output record.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The label that the entry makes.
    pub label: Label,
    /// The source of the label's value.
    pub value: ItemValue,
    /// The span of the entry.
    pub span: Span,
}

/// The source of an entry's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemValue {
    /// `a`, `<t>`, `<#t>`: the input's value; a tag that the input does not have is 0.
    Copy,
    /// `b = a`: the value of the input's field `a`.
    Rename(Ident),
    /// `<t = e>`, `<#t = e>`.
    Expr(TagExpr),
}

/// An expression over tags, with C's meaning. Values are `i64`.
#[derive(Clone, Debug, PartialEq)]
pub struct TagExpr {
    /// The kind.
    pub kind: TagExprKind,
    /// The span.
    pub span: Span,
}

/// The forms of an expression over tags.
#[derive(Clone, Debug, PartialEq)]
pub enum TagExprKind {
    /// A number.
    Number(i64),
    /// A tag of the input record, written without its brackets.
    Tag(Name),
    /// `-e`, `!e`, `abs(e)`.
    Unary(UnaryOp, Box<TagExpr>),
    /// `e + f`, `min(e, f)`, …
    Binary(BinaryOp, Box<TagExpr>, Box<TagExpr>),
    /// `c ? a : b`.
    Choose(Box<TagExpr>, Box<TagExpr>, Box<TagExpr>),
    /// Nothing could be read here; an error was reported.
    Missing,
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`: 1 for 0, else 0.
    Not,
    /// `abs(e)`
    Abs,
}

/// Operators of two operands. Comparisons give 0 or 1; `&&` and `||` evaluate the right side only if the left
/// side does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `min(e, f)`
    Min,
    /// `max(e, f)`
    Max,
}

impl TagExpr {
    /// Calls `see` for each tag that the expression reads, with its place.
    pub fn tags(&self, see: &mut impl FnMut(&Name, Span)) {
        match &self.kind {
            TagExprKind::Number(_) | TagExprKind::Missing => {}
            TagExprKind::Tag(name) => see(name, self.span),
            TagExprKind::Unary(_, e) => e.tags(see),
            TagExprKind::Binary(_, a, b) => {
                a.tags(see);
                b.tags(see);
            }
            TagExprKind::Choose(c, a, b) => {
                c.tags(see);
                a.tags(see);
                b.tags(see);
            }
        }
    }
}

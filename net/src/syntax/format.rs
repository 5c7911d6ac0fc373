//! The layout of a text: the same tokens and comments, with spaces and line breaks in one standard form.
//!
//! The syntax tree decides where lines may break, and the tokens are printed as they are, so no token can get
//! lost or change its meaning. Components in series or in parallel stay on one line if they fit and were not
//! broken before; lists of labels are filled. At most one empty line in a row is kept, and only around
//! definitions.

use std::sync::Arc;

use super::ast::*;
use super::diagnostic::Diagnostic;
use super::lexer::{Lexed, Token, TokenKind as T, lex};
use super::source::{Source, Span};

/// The longest line, in characters, that is left unbroken where it could be broken.
const WIDTH: usize = 100;
const INDENT: usize = 4;

/// Lays a text out. Laying out a text that was laid out before does not change it.
///
/// ```
/// use thalweg_net::syntax::{Source, format};
///
/// let source = Source::new("main.snet", "net main  connect a..b|[{<t>}->{<t=t+1>}] // why\n");
/// assert_eq!(format(&source).unwrap(), "net main connect a .. b | [{<t>} -> {<t = t + 1>}]; // why\n");
/// ```
///
/// # Errors
/// The syntax errors of the text, if it has any: a text that cannot be parsed is not changed.
pub fn format(source: &Arc<Source>) -> Result<String, Vec<Diagnostic>> {
    let (file, errors) = super::parse(source);
    if !errors.is_empty() {
        return Err(errors);
    }
    let Lexed { tokens, comments, .. } = lex(source);
    let mut layout = Layout {
        text: source.text(),
        tokens,
        comments,
        next: 0,
        next_comment: 0,
        behind: if source.text().starts_with('\u{feff}') { 3 } else { 0 },
        at_definition: true,
        semicolon_missing: false,
        pieces: Vec::new(),
    };
    layout.file(&file);
    Ok(Printer { text: source.text(), ..Printer::default() }.print(&layout.pieces))
}

/// A piece of the output; pieces are printed in sequence.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Token(Span),
    /// A `;` that is missing at the end of the source text.
    Semicolon,
    /// A comment, with whether it starts a line and whether a line starts after it.
    Comment {
        span: Span,
        starts_line: bool,
        ends_line: bool,
    },
    Space,
    /// A space if the group fits on one line, else a line break.
    Line,
    /// No output if the group fits on one line, else a line break.
    Soft,
    /// A space if the text up to the next possible break fits on the line.
    Fill,
    /// A line break.
    Hard,
    /// A line break and an empty line.
    Blank,
    /// A group of pieces that is printed on one line if it fits; with `broken` the group always
    /// has several lines.
    Open {
        broken: bool,
    },
    Close,
    In,
    Out,
}

/// The conversion of the tree into pieces.
struct Layout<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    comments: Vec<Span>,
    next: usize,
    next_comment: usize,
    /// End of the last token or comment.
    behind: usize,
    /// Whether the formatter keeps an empty line of the source at the present place.
    at_definition: bool,
    semicolon_missing: bool,
    pieces: Vec<Piece>,
}

impl Layout<'_> {
    fn kind(&self) -> T {
        self.tokens[self.next].kind
    }

    fn start(&self) -> u32 {
        self.tokens[self.next].span.start
    }

    fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    /// Prints the next token, with the comments before it and those after it on its line.
    fn token(&mut self) {
        let Token { kind, span } = self.tokens[self.next];
        self.lead();
        if kind == T::End {
            return;
        }
        self.push(Piece::Token(span));
        self.behind = span.end as usize;
        self.next += 1;
        if self.semicolon_missing && self.kind() == T::End {
            // Comments after the token are printed with the end of the text.
            self.push(Piece::Semicolon);
            return;
        }
        let next = self.start() as usize;
        self.comments_before(next, true);
    }

    /// Prints the comments and breaks before the next token.
    fn lead(&mut self) {
        let Token { kind, span } = self.tokens[self.next];
        self.comments_before(span.start as usize, false);
        let closes = matches!(kind, T::BraceClose | T::End);
        if self.at_definition && !closes && self.lines_to(span.start as usize) > 1 {
            self.push(Piece::Blank);
        }
        self.at_definition = false;
    }

    /// The line breaks between the last token or comment and this byte.
    fn lines_to(&self, byte: usize) -> usize {
        self.text[self.behind..byte].matches('\n').count()
    }

    fn comments_before(&mut self, byte: usize, same_line: bool) {
        while let Some(&span) = self.comments.get(self.next_comment)
            && (span.start as usize) < byte
        {
            let lines = self.lines_to(span.start as usize);
            if same_line && lines > 0 {
                return;
            }
            if lines > 1 && self.at_definition {
                self.push(Piece::Blank);
            }
            self.next_comment += 1;
            self.behind = span.end as usize;
            let after = self.comments.get(self.next_comment).map_or(byte, |c| (c.start as usize).min(byte));
            let starts_line = lines > 0 || self.pieces.is_empty();
            // After a token the layout decides whether a line ends; otherwise a second run would change the
            // text again.
            let ends_line = self.text[span.start as usize..].starts_with("//")
                || (starts_line && self.lines_to(after) > 0);
            self.push(Piece::Comment { span, starts_line, ends_line });
        }
    }

    fn group(&mut self, inside: impl FnOnce(&mut Self)) {
        self.push(Piece::Open { broken: false });
        inside(self);
        self.push(Piece::Close);
    }

    fn indented(&mut self, inside: impl FnOnce(&mut Self)) {
        self.push(Piece::In);
        inside(self);
        self.push(Piece::Out);
    }

    fn spaced(&mut self) {
        self.push(Piece::Space);
        self.token();
        self.push(Piece::Space);
    }

    /// The parts of a list between separators; each separator is one token at the end of its part.
    fn listed<I>(&mut self, items: &[I], mut each: impl FnMut(&mut Self, &I)) {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.token();
                self.push(Piece::Fill);
            }
            each(self, item);
        }
    }

    // ---- definitions ----

    fn file(&mut self, file: &File) {
        let last = self.tokens.len().checked_sub(2).map(|i| self.tokens[i].kind);
        self.semicolon_missing = last != Some(T::Semicolon)
            && match file.defs.last() {
                Some(Def::Net(_) | Def::Type(_) | Def::Typesig(_)) => true,
                Some(Def::Box(_)) => last == Some(T::ParenClose),
                Some(Def::Meta(_)) | None => false,
            };
        self.definitions(&file.defs);
        self.at_definition = true;
        self.token();
    }

    fn definitions(&mut self, defs: &[Def]) {
        for def in defs {
            self.push(Piece::Hard);
            self.at_definition = true;
            self.lead();
            match def {
                Def::Meta(_) => self.token(),
                Def::Net(net) => self.net(net),
                Def::Box(def) => self.box_def(def),
                Def::Type(def) => {
                    self.named();
                    self.spaced();
                    self.indented(|l| l.type_(&def.of));
                    self.semicolon();
                }
                Def::Typesig(def) => {
                    self.named();
                    self.spaced();
                    self.indented(|l| l.signature(&def.of));
                    self.semicolon();
                }
            }
        }
    }

    /// `net x`, `box x`, ….
    fn named(&mut self) {
        self.token();
        self.push(Piece::Space);
        self.token();
    }

    fn semicolon(&mut self) {
        if self.kind() == T::Semicolon {
            self.token();
        }
    }

    fn net(&mut self, net: &NetDef) {
        self.push(Piece::Open { broken: false });
        self.named();
        if let Some(signature) = &net.signature {
            self.push(Piece::Space);
            self.token();
            self.indented(|l| l.signature(signature));
            self.token();
        }
        if let NetBody::Defined { defs, connect } = &net.body {
            if self.kind() == T::BraceOpen {
                self.braces(defs);
            }
            if let Some(topo) = connect {
                self.push(if defs.is_empty() { Piece::Line } else { Piece::Hard });
                self.connect(topo);
            }
        }
        self.push(Piece::Close);
        self.semicolon();
    }

    fn braces(&mut self, defs: &[Def]) {
        self.push(Piece::Space);
        self.token();
        self.push(Piece::In);
        self.definitions(defs);
        self.at_definition = true;
        let close = self.start() as usize;
        self.comments_before(close, false);
        self.push(Piece::Out);
        if !defs.is_empty() {
            self.push(Piece::Hard);
        }
        self.token();
    }

    fn connect(&mut self, topo: &Topo) {
        self.group(|l| {
            l.token();
            l.indented(|l| {
                l.push(Piece::Line);
                l.topo(topo);
            });
        });
    }

    fn box_def(&mut self, def: &BoxDef) {
        self.named();
        self.push(Piece::Space);
        self.token();
        self.indented(|l| {
            let BoxSignature { input, outputs, .. } = &def.signature;
            if let Some(input) = input {
                l.tuple(input);
                l.push(Piece::Space);
            }
            l.token();
            for (i, output) in outputs.iter().enumerate() {
                if i == 0 {
                    l.push(Piece::Space);
                } else {
                    l.push(Piece::Fill);
                    l.token();
                    l.push(Piece::Space);
                }
                l.tuple(output);
            }
        });
        self.token();
        if self.kind() == T::BraceOpen {
            self.push(Piece::Space);
            self.group(|l| {
                l.token();
                l.push(Piece::In);
                while l.kind() != T::BraceClose {
                    l.push(Piece::Line);
                    l.token();
                }
                l.push(Piece::Out);
                l.push(Piece::Line);
                l.token();
            });
        }
        self.semicolon();
    }

    fn tuple(&mut self, tuple: &Tuple) {
        self.token();
        self.labels_in(&tuple.labels);
        self.token();
    }

    fn labels(&mut self, labels: &Labels) {
        self.token();
        self.labels_in(&labels.labels);
        self.token();
    }

    fn labels_in(&mut self, labels: &[LabelAt]) {
        self.indented(|l| l.listed(labels, |l, label| l.label(label)));
    }

    fn label(&mut self, at: &LabelAt) {
        self.token();
        if at.label.kind != LabelKind::Field {
            self.tag_name();
            self.token();
        }
    }

    /// The name after `<`. Without the space, `<metadata>` could begin metadata.
    fn tag_name(&mut self) {
        if self.text[self.tokens[self.next].span.start as usize..].starts_with("metadata")
            && self.behind < self.start() as usize
        {
            self.push(Piece::Space);
        }
        self.token();
    }

    fn signature(&mut self, signature: &Signature) {
        self.listed(&signature.maps, |l, map| match map {
            Map::Named(_) => l.token(),
            Map::Arrow { input, output, .. } => {
                if let Some(input) = input {
                    l.type_(input);
                    l.push(Piece::Space);
                }
                l.token();
                match output {
                    MapOutput::Nothing => {}
                    MapOutput::Infer => {
                        l.push(Piece::Space);
                        l.token();
                    }
                    MapOutput::Type(output) => {
                        l.push(Piece::Space);
                        l.type_(output);
                    }
                }
            }
        });
    }

    fn type_(&mut self, of: &Type) {
        for (i, variant) in of.variants.iter().enumerate() {
            if i > 0 {
                self.push(Piece::Fill);
                self.token();
                self.push(Piece::Space);
            }
            match variant {
                Variant::Named(_) => self.token(),
                Variant::Labels(labels) => self.labels(labels),
            }
        }
    }

    // ---- topologies ----

    fn topo(&mut self, topo: &Topo) {
        // The tree has no brackets, so the brackets before the topology are counted here.
        let mut brackets = 0;
        while self.start() < topo.span.start {
            self.push(Piece::Open { broken: false });
            self.token();
            self.push(Piece::In);
            self.push(Piece::Soft);
            brackets += 1;
        }
        self.component(topo);
        for _ in 0..brackets {
            self.push(Piece::Out);
            self.push(Piece::Soft);
            self.token();
            self.push(Piece::Close);
        }
    }

    fn component(&mut self, topo: &Topo) {
        match &topo.kind {
            TopoKind::Name(_) => self.token(),
            TopoKind::Filter(filter) => self.filter(filter),
            TopoKind::Synchrocell(patterns) => {
                self.token();
                self.push(Piece::Space);
                self.indented(|l| l.listed(patterns, |l, pattern| l.pattern(pattern)));
                self.push(Piece::Space);
                self.token();
            }
            TopoKind::Serial(parts) => self.chain(parts),
            TopoKind::Parallel { branches, .. } => self.chain(branches),
            TopoKind::Star { body, exits: patterns, .. } | TopoKind::Feedback { body, backs: patterns } => {
                self.topo(body);
                self.spaced();
                self.indented(|l| l.listed(patterns, |l, pattern| l.pattern(pattern)));
            }
            TopoKind::Split { body, from, to, .. } => {
                self.topo(body);
                self.spaced();
                self.label(from);
                if let Some(to) = to {
                    self.token();
                    self.label(to);
                }
            }
            TopoKind::Place { body, .. } => {
                self.topo(body);
                self.spaced();
                self.token();
            }
            TopoKind::Missing => {}
        }
    }

    /// Parts with an operator between them.
    fn chain(&mut self, parts: &[Topo]) {
        let opened = self.pieces.len();
        self.push(Piece::Open { broken: false });
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.push(Piece::Line);
                let before = self.tokens[self.next - 1].span.end;
                self.token();
                self.push(Piece::Space);
                if i == 1 && self.text[before as usize..self.start() as usize].contains('\n') {
                    self.pieces[opened] = Piece::Open { broken: true };
                }
            }
            match part.kind {
                TopoKind::Serial(_) | TopoKind::Parallel { .. } if self.start() == part.span.start => {
                    self.indented(|l| l.topo(part));
                }
                _ => self.topo(part),
            }
        }
        self.push(Piece::Close);
    }

    fn pattern(&mut self, pattern: &Pattern) {
        self.labels(&pattern.labels);
        if let Some(guard) = &pattern.guard {
            self.spaced();
            self.guard(guard);
        }
    }

    fn guard(&mut self, guard: &TagExpr) {
        self.token();
        self.expression(guard);
        self.token();
    }

    fn filter(&mut self, filter: &Filter) {
        self.token();
        if let Some(rule) = &filter.rule {
            self.group(|l| {
                l.labels(&rule.pattern);
                l.push(Piece::In);
                l.push(Piece::Line);
                l.token();
                for (guard, records) in &rule.action.guarded {
                    l.spaced();
                    l.guard(guard);
                    l.spaced();
                    l.records(records);
                    l.push(Piece::Line);
                    l.token();
                }
                if !rule.action.otherwise.is_empty() {
                    l.push(Piece::Space);
                    l.records(&rule.action.otherwise);
                }
                l.push(Piece::Out);
            });
        }
        self.token();
    }

    fn records(&mut self, records: &[OutRecord]) {
        self.indented(|l| {
            l.listed(records, |l, record| {
                l.token();
                l.indented(|l| l.listed(&record.items, |l, item| l.item(item)));
                l.token();
            });
        });
    }

    fn item(&mut self, item: &Item) {
        let tag = item.label.kind != LabelKind::Field;
        self.token();
        if tag {
            self.tag_name();
        }
        match &item.value {
            ItemValue::Copy => {}
            ItemValue::Rename(_) => {
                self.spaced();
                self.token();
            }
            ItemValue::Expr(value) => {
                self.spaced();
                self.expression(value);
            }
        }
        if tag {
            self.token();
        }
    }

    /// An expression over tags: operators of two operands between spaces.
    fn expression(&mut self, expression: &TagExpr) {
        let mut operand_before = false;
        while self.start() < expression.span.end {
            let kind = self.kind();
            match kind {
                T::Number(_) | T::Ident | T::ParenOpen | T::ParenClose => self.token(),
                T::Comma => {
                    self.token();
                    self.push(Piece::Space);
                }
                _ if operand_before => self.spaced(),
                _ => self.token(),
            }
            operand_before = matches!(kind, T::Number(_) | T::Ident | T::ParenClose);
        }
    }
}

/// The conversion of pieces into a text.
#[derive(Default)]
struct Printer<'a> {
    text: &'a str,
    out: String,
    /// Characters in the line that is being written.
    column: usize,
    indent: usize,
    /// Line breaks that are due before the next token (`space`: whether a space is due).
    lines: usize,
    line_indent: usize,
    space: bool,
    /// Whether each open group is broken.
    broken: Vec<bool>,
}

impl Printer<'_> {
    fn print(mut self, pieces: &[Piece]) -> String {
        for (i, &piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Token(span) => self.write(&self.text[span.start as usize..span.end as usize]),
                Piece::Semicolon => self.write(";"),
                Piece::Comment { span, starts_line, ends_line } => {
                    if starts_line {
                        self.line(1);
                    }
                    self.space = true;
                    self.write(self.text[span.start as usize..span.end as usize].trim_end());
                    self.space = true;
                    if ends_line {
                        self.line(1);
                    }
                }
                Piece::Space => self.space = true,
                Piece::Line if self.is_broken() => self.line(1),
                Piece::Line => self.space = true,
                Piece::Soft if self.is_broken() => self.line(1),
                Piece::Soft => {}
                Piece::Fill if self.fits(&pieces[i + 1..], false) => self.space = true,
                Piece::Fill | Piece::Hard => self.line(1),
                Piece::Blank => self.line(if self.out.ends_with('{') { 1 } else { 2 }),
                Piece::Open { broken } => {
                    let broken = broken || !self.fits(&pieces[i + 1..], true);
                    self.broken.push(broken);
                }
                Piece::Close => drop(self.broken.pop()),
                Piece::In => self.indent += 1,
                Piece::Out => self.indent -= 1,
            }
        }
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    fn is_broken(&self) -> bool {
        self.broken.last().copied().unwrap_or(true)
    }

    fn line(&mut self, lines: usize) {
        if !self.out.is_empty() {
            self.lines = self.lines.max(lines);
            self.line_indent = self.indent;
        }
    }

    fn write(&mut self, text: &str) {
        if self.lines > 0 {
            (0..self.lines).for_each(|_| self.out.push('\n'));
            self.column = self.line_indent * INDENT;
            self.out.extend(std::iter::repeat_n(' ', self.column));
        } else if self.space && !self.out.is_empty() {
            self.out.push(' ');
            self.column += 1;
        }
        (self.lines, self.space) = (0, false);
        self.out.push_str(text);
        match text.rfind('\n') {
            Some(at) => self.column = width(&text[at + 1..]),
            None => self.column += width(text),
        }
    }

    /// Whether the pieces up to the next possible break fit on the present line; with `group`, also the
    /// pieces before the end of the group that was just opened.
    fn fits(&self, pieces: &[Piece], group: bool) -> bool {
        let mut column = match self.lines {
            0 => self.column + usize::from(self.space || !group),
            _ => self.line_indent * INDENT,
        };
        let mut depth = usize::from(group);
        for &piece in pieces {
            let inside = depth > 0;
            match piece {
                Piece::Token(span) => {
                    let text = &self.text[span.start as usize..span.end as usize];
                    if text.contains('\n') {
                        return !inside;
                    }
                    column += width(text);
                }
                Piece::Semicolon => column += 1,
                Piece::Comment { span, starts_line, ends_line } => {
                    let text = &self.text[span.start as usize..span.end as usize];
                    if starts_line || ends_line || text.contains('\n') {
                        // A comment that needs a line of its own does not fit inside a group; after the
                        // group, the line ends at it.
                        return !inside;
                    }
                    column += 2 + width(text);
                }
                Piece::Space => column += 1,
                Piece::Line | Piece::Fill if inside => column += 1,
                Piece::Soft if inside => {}
                Piece::Line | Piece::Soft | Piece::Fill | Piece::Hard | Piece::Blank => return !inside,
                Piece::Open { broken: true } if inside => return false,
                Piece::Open { .. } if inside => depth += 1,
                Piece::Close if inside => depth -= 1,
                Piece::Open { .. } | Piece::Close | Piece::In | Piece::Out => {}
            }
            if column > WIDTH {
                return false;
            }
        }
        true
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let once = format(&Source::new("t.snet", text)).unwrap();
        assert_eq!(once, expected);
        assert_eq!(format(&Source::new("t.snet", once.as_str())).unwrap(), once);
    }

    #[test]
    fn short_things_stay_on_a_line() {
        check("net  main connect a..b", "net main connect a .. b;\n");
        check(
            "net main{box f((a,<t>)->(b)|(c));}connect f",
            "net main {\n    box f ((a, <t>) -> (b) | (c));\n}\nconnect f;\n",
        );
        check(
            "type t={a,<b>}|{ }|u;typesig s=t->...,->{a};",
            "type t = {a, <b>} | {} | u;\ntypesig s = t -> ..., -> {a};\n",
        );
        check("box g(->());box h((a)->);", "box g (-> ());\nbox h ((a) ->);\n");
        check(
            "net m connect ((a|b)*{x},{y}if<t>-1&&!u>)!<t>:<u>@3\\{z}!!@<v>;",
            "net m connect ((a | b) * {x}, {y} if <t > -1 && !u>) ! <t>:<u> @ 3 \\ {z} !!@ <v>;\n",
        );
        check(
            "net m connect[{<t>}->if<min(t,- 1)?1:abs( t)>then{a,b=c};{<#v=t%2>}else]",
            "net m connect [{<t>} -> if <min(t, -1) ? 1 : abs(t)> then {a, b = c}; {<#v = t % 2>} else];\n",
        );
    }

    #[test]
    fn comments_and_empty_lines_stay() {
        check("", "");
        check("// only this", "// only this\n");
        check(
            "//! snet 2\n\n\n\n// of f\nbox f ((a) -> (a)); // behind\n\nnet m /* here */ connect f // why\n",
            "//! snet 2\n\n// of f\nbox f ((a) -> (a)); // behind\n\nnet m /* here */ connect f; // why\n",
        );
        check(
            "net m {\n\n  // first\n box f ((a) -> (a)) {<<<C|\n  int a;\n>>>}\n  // last\n} connect f // one\n .. f;",
            "net m {\n    // first\n    box f ((a) -> (a)) {\n        <<<C|\n  int a;\n>>>\n    }\n    // last\n}\nconnect\n    f // one\n    .. f;\n",
        );
    }

    #[test]
    fn long_and_broken_chains_have_a_line_each() {
        check("net m connect a\n.. b .. (c|d)", "net m\nconnect\n    a\n    .. b\n    .. (c | d);\n");
        let long = "long_name_of_a_component";
        check(
            &format!("net m connect {long}..({long}..{long}|{long}..{long}..{long})*{{x}}"),
            &format!(
                "net m\nconnect\n    {long}\n    .. (\n        {long} .. {long}\n        | {long} .. {long} .. {long}\n    ) * {{x}};\n"
            ),
        );
    }
}

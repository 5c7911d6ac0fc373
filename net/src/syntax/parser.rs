//! Tokens → syntax tree, by recursive descent with one token of look-ahead (two for `>` in expressions).
//!
//! **Recovery.** A rule that can't go on reports and returns `Err(Lost)`. The nearest rule that knows where it
//! ends catches that: a bracket skips to its closing bracket, a definition to its `;` or to the next
//! definition. So every definition, and every bracket in it, is looked at once, and no token gives more than one error.
//!
//! **Bounds.** The depth of recursion and of the tree is at most [`NESTING_MAX`]; skipping is a loop, not recursion.

use std::sync::Arc;

use super::NESTING_MAX;
use super::ast::*;
use super::diagnostic::Diagnostic;
use super::lexer::{Lexed, Token, TokenKind, lex};
use super::source::{Source, Span};

use TokenKind as T;

/// Reads a text. The tree has holes where the text has errors.
///
/// ```
/// use thalweg_net::syntax::{Source, parse};
///
/// let (file, diagnostics) = parse(&Source::new("main.snet", "net main connect a .. b;"));
/// assert!(diagnostics.is_empty());
/// assert_eq!(file.defs.len(), 1);
/// ```
pub fn parse(source: &Arc<Source>) -> (File, Vec<Diagnostic>) {
    let mut parser = Parser::new(source);
    let defs = parser.file();
    let span = Span::new(0, source.text().len());
    (File { defs, span }, parser.finish())
}

/// Reads one box definition, such as `box inc ((x) -> (x))`; the final `;` may be missing. `source` names
/// where it comes from, for instance the library.
pub fn parse_box(source: &Arc<Source>) -> Result<BoxDef, Vec<Diagnostic>> {
    let mut parser = Parser::new(source);
    let def = if parser.at(T::Box) {
        parser.box_def()
    } else {
        parser.expected("a box definition: `box NAME ((a) -> (b))`");
        Err(Lost)
    };
    if def.is_ok() {
        parser.eat(T::Semicolon);
        if !parser.at(T::End) {
            parser.expected("nothing more after the box");
        }
    }
    let errors = parser.finish();
    match def {
        Ok(def) if errors.is_empty() => Ok(def),
        _ => Err(errors),
    }
}

/// A piece of a text that a program gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// `[{a} -> {b}]` or `[]`.
    Filter,
    /// `[|{a}, {b}|]`.
    Synchrocell,
    /// `{a} if <t>, {b}`.
    Patterns,
    /// `<t>` or `<t>:<u>`.
    Tags,
    /// `{a} -> {b}`.
    Signature,
    /// The name of a net.
    Name,
}

impl Fragment {
    /// What it is, for messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Fragment::Filter => "filter",
            Fragment::Synchrocell => "synchrocell",
            Fragment::Patterns => "pattern",
            Fragment::Tags => "tag",
            Fragment::Signature => "signature",
            Fragment::Name => "name",
        }
    }
}

/// Checks that a text is one such piece; gives its place, without comments around it.
pub(crate) fn parse_fragment(source: &Arc<Source>, kind: Fragment) -> Result<Span, Vec<Diagnostic>> {
    let mut parser = Parser::new(source);
    let start = parser.span();
    let read = parser.fragment(kind);
    let span = parser.span_from(start);
    if read.is_ok() && !parser.at(T::End) {
        parser.expected(&format!("nothing more after the {}", kind.word()));
    }
    let errors = parser.finish();
    if errors.is_empty() { Ok(span) } else { Err(errors) }
}

/// A rule could not go on; what is wrong was reported.
#[derive(Debug)]
struct Lost;

type Read<T> = Result<T, Lost>;

/// Most errors kept of one text; more are counted.
const ERRORS_MAX: usize = 100;

struct Parser<'a> {
    source: &'a Arc<Source>,
    tokens: Vec<Token>,
    /// Index of the next token; the last token is `End`.
    next: usize,
    /// Brackets open around the next token, as levels of recursion.
    depth: usize,
    /// Whether the topology that is read stands in round brackets.
    in_brackets: bool,
    errors: Vec<Diagnostic>,
    errors_left_out: usize,
    /// Index of the token at which the last error was reported: it gives no second one.
    reported_at: Option<usize>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a Arc<Source>) -> Parser<'a> {
        let Lexed { tokens, errors, .. } = lex(source);
        Parser {
            source,
            tokens,
            next: 0,
            depth: 0,
            in_brackets: false,
            errors,
            errors_left_out: 0,
            reported_at: None,
        }
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        self.errors.sort_by_key(|e| e.primary.as_ref().map(|p| p.span));
        if self.errors.len() > ERRORS_MAX {
            self.errors_left_out += self.errors.len() - ERRORS_MAX;
            self.errors.truncate(ERRORS_MAX);
        }
        if self.errors_left_out > 0 {
            let text = format!("{} more errors in this file are not shown", self.errors_left_out);
            self.errors.last_mut().unwrap().remarks.push(text);
        }
        self.errors
    }

    fn fragment(&mut self, kind: Fragment) -> Read<()> {
        match kind {
            Fragment::Filter if self.at(T::BracketOpen) => drop(self.filter()),
            Fragment::Synchrocell if self.at(T::CellOpen) => drop(self.synchrocell()),
            Fragment::Filter => drop(self.expect(T::BracketOpen, "a filter such as `[{a} -> {b = a}]`")?),
            Fragment::Synchrocell => drop(self.expect(T::CellOpen, "a synchrocell such as `[|{a}, {b}|]`")?),
            Fragment::Patterns => drop(self.patterns("this")?),
            Fragment::Tags => {
                self.tag_label()?;
                if self.eat(T::Colon) {
                    self.tag_label()?;
                }
            }
            Fragment::Signature => drop(self.signature()?),
            Fragment::Name => drop(self.ident("the name of a net")?),
        }
        Ok(())
    }

    // ---- tokens ----

    fn kind(&self) -> TokenKind {
        self.tokens[self.next].kind
    }

    fn kind_after(&self, n: usize) -> TokenKind {
        self.tokens.get(self.next + n).map_or(T::End, |t| t.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.next].span
    }

    fn last_span(&self) -> Span {
        self.next.checked_sub(1).map_or(Span::default(), |i| self.tokens[i].span)
    }

    /// From this start to the end of the last token read.
    fn span_from(&self, start: Span) -> Span {
        if self.last_span().end < start.start { start } else { start.to(self.last_span()) }
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.kind() == kind
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next];
        if token.kind != T::End {
            self.next += 1;
        }
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let there = self.at(kind);
        if there {
            self.advance();
        }
        there
    }

    // ---- errors ----

    fn report(&mut self, error: Diagnostic) {
        if self.reported_at == Some(self.next) || self.at(T::Unknown) {
            return;
        }
        self.reported_at = Some(self.next);
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        } else {
            self.errors_left_out += 1;
        }
    }

    fn error(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::error(code, message, self.source, span)
    }

    /// The next token in words.
    fn found(&self) -> String {
        match self.kind() {
            T::Ident | T::Number(_) => format!("`{}`", self.source.slice(self.span())),
            T::Meta => "metadata".into(),
            T::Code => "box code".into(),
            T::Unknown => "unknown characters".into(),
            T::End => "the end of the file".into(),
            kind if kind.is_keyword() => format!("the keyword `{}`", kind.text()),
            kind => format!("`{}`", kind.text()),
        }
    }

    fn expected(&mut self, what: &str) {
        let error = self.expected_error(what);
        self.report(error);
    }

    fn expected_error(&self, what: &str) -> Diagnostic {
        let message = format!("expected {what}, found {}", self.found());
        self.error("E0201", message, self.span()).label("not expected here")
    }

    fn expect(&mut self, kind: TokenKind, what: &str) -> Read<Token> {
        if self.at(kind) {
            return Ok(self.advance());
        }
        self.expected(what);
        Err(Lost)
    }

    fn arrow(&mut self, help: &str, before: Option<Span>) -> Read<()> {
        if self.eat(T::Arrow) {
            return Ok(());
        }
        let help = if self.at(T::Equal) || self.at(T::Minus) { "the arrow is written `->`" } else { help };
        let mut error = self.expected_error("`->`").help(help);
        if let Some(span) = before {
            error = error.also(self.source, span, "this is read as what goes in");
        }
        self.report(error);
        Err(Lost)
    }

    /// A closing bracket; if it is missing, both ends are shown.
    fn close(&mut self, kind: TokenKind, open: Token) -> Read<()> {
        if self.eat(kind) {
            return Ok(());
        }
        let here = self.last_span().after();
        let error = self
            .error("E0202", format!("this `{}` is not closed", open.kind.text()), open.span)
            .label(format!("needs a `{}`", kind.text()))
            .also(self.source, here, format!("expected `{}` before {}", kind.text(), self.found()));
        self.report(error);
        Err(Lost)
    }

    /// After an error between brackets: skips to behind the closing one. Stops before what can't be between
    /// brackets, then the bracket counts as closed.
    fn skip_to_close(&mut self, kind: TokenKind) {
        let mut open = Vec::new();
        loop {
            match self.kind() {
                T::End | T::Net | T::Box | T::Type | T::Typesig | T::Connect | T::Meta | T::Code => return,
                T::Semicolon if !matches!(kind, T::BracketClose) && open.is_empty() => return,
                k if open.is_empty() && k == kind => {
                    self.advance();
                    return;
                }
                k if closer(k).is_some() => open.push(k),
                k if is_closer(k) => match open.iter().rposition(|&o| closer(o) == Some(k)) {
                    Some(at) => open.truncate(at),
                    // A bracket further out closes here: leave it to that one.
                    None => return,
                },
                _ => {}
            }
            self.advance();
        }
    }

    /// After an error in a definition: skips to behind its `;`, or before what can't be in it.
    fn skip_definition(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.kind() {
                T::End | T::Net | T::Box | T::Type | T::Typesig | T::Connect | T::Meta => return,
                T::Semicolon if depth == 0 => {
                    self.advance();
                    return;
                }
                T::BraceClose if depth == 0 => return,
                T::BraceOpen | T::BracketOpen => depth += 1,
                T::BraceClose | T::BracketClose => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
    }

    /// One level deeper. `Err` if that is too deep.
    fn enter(&mut self, height: usize) -> Read<()> {
        if self.depth + height < NESTING_MAX {
            self.depth += 1;
            return Ok(());
        }
        let error = self
            .error("E0205", format!("this is nested more than {NESTING_MAX} levels deep"), self.span())
            .help("give an inner part a name of its own: `net part connect …;`");
        self.report(error);
        Err(Lost)
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    // ---- definitions ----

    fn file(&mut self) -> Vec<Def> {
        let mut defs = Vec::new();
        loop {
            self.definitions(&mut defs);
            match self.kind() {
                T::End => return defs,
                T::BraceClose => {
                    let error = self
                        .error("E0203", "this `}` closes nothing", self.span())
                        .help("remove it, or look for a missing `{` before it");
                    self.report(error);
                    self.advance();
                    self.eat(T::Semicolon);
                }
                _ => {
                    self.expected("a definition (`net`, `box`, `type` or `typesig`)");
                    self.advance();
                    self.skip_definition();
                }
            }
        }
    }

    /// Definitions, up to something that can't be one and must be handled by who knows what is around.
    fn definitions(&mut self, defs: &mut Vec<Def>) {
        loop {
            let kind = match self.kind() {
                T::End | T::BraceClose | T::Connect => return,
                kind if kind.starts_definition() => Some(kind),
                _ => self.not_a_definition(),
            };
            let def = match kind.unwrap_or(T::Unknown) {
                T::Meta => Ok(Def::Meta(self.meta())),
                T::Net => self.net_def().map(Def::Net),
                T::Box => self.box_def().map(Def::Box),
                T::Type => self.type_def(),
                T::Typesig => self.typesig_def(),
                _ => Err(Lost),
            };
            match def {
                Ok(def) => defs.push(def),
                Err(Lost) => self.skip_definition(),
            }
        }
    }

    /// Tells what stands in place of a definition. If that is a word for one, misspelt, gives the word: the definition
    /// can be read.
    fn not_a_definition(&mut self) -> Option<TokenKind> {
        let mut meant = None;
        let mut error = self.expected_error("a definition (`net`, `box`, `type` or `typesig`)");
        match self.kind() {
            T::Ident => {
                let word = self.source.slice(self.span());
                const KINDS: [TokenKind; 5] = [T::Net, T::Box, T::Type, T::Typesig, T::Connect];
                match thalweg_pack::nearest(word, KINDS.map(TokenKind::text)) {
                    Some(near) => {
                        error = error.help(format!("did you mean `{near}`?"));
                        meant = KINDS.into_iter().find(|kind| kind.text() == near);
                    }
                    None if self.kind_after(1) == T::DotDot || self.kind_after(1) == T::Bar => {
                        error = error.help("a topology follows the word `connect`")
                    }
                    None => {}
                }
            }
            T::Semicolon => error = error.help("remove this `;`"),
            _ => {}
        }
        self.report(error);
        let meant = meant.filter(|&kind| kind != T::Connect && self.kind_after(1) == T::Ident);
        // A sign at which skipping stops must not stay.
        if meant.is_none() && !matches!(self.kind(), T::Semicolon) {
            self.advance();
        }
        meant
    }

    fn meta(&mut self) -> Meta {
        let span = self.advance().span;
        let text = self.source.slice(span);
        let text = &text["<metadata>".len()..text.len() - "</metadata>".len()];
        Meta { text: text.into(), span }
    }

    fn ident(&mut self, what: &str) -> Read<Ident> {
        if self.at(T::Ident) {
            let span = self.advance().span;
            return Ok(Ident { name: self.source.slice(span).into(), span });
        }
        if self.kind().is_keyword() {
            let word = self.kind().text();
            let error = self
                .error("E0207", format!("the keyword `{word}` can't be {what}"), self.span())
                .help(format!("choose another name, such as `{word}_`"));
            self.report(error);
        } else {
            self.expected(what);
        }
        Err(Lost)
    }

    /// A name just after `net`, `box`, …: a keyword there is meant as the name.
    fn defined_name(&mut self, what: &str) -> Read<Ident> {
        match self.ident(what) {
            Err(Lost) if self.kind().is_keyword() && !matches!(self.kind(), T::Connect) => {
                let span = self.advance().span;
                Ok(Ident { name: self.source.slice(span).into(), span })
            }
            read => read,
        }
    }

    /// The `;` after a definition. At the end of the file it may be missing.
    fn semicolon(&mut self, after: &str) -> Read<()> {
        if self.eat(T::Semicolon) || self.at(T::End) {
            return Ok(());
        }
        let last = self.last_span();
        let starts_line = self.starts_line();
        if self.kind().starts_definition() || self.at(T::BraceClose) || self.at(T::Connect) || starts_line {
            let error = self.error("E0206", format!("a `;` is missing after {after}"), last.after());
            self.report(error.label("`;` expected here"));
            // All is known of this definition; what stands here belongs to the next.
            return if self.kind().starts_definition() || self.at(T::BraceClose) {
                Ok(())
            } else {
                Err(Lost)
            };
        }
        let what = format!("`;` after {after}");
        let mut error = self.expected_error(&what);
        if is_closer(self.kind()) {
            let sign = self.kind().text();
            error = self
                .error("E0203", format!("this `{sign}` closes nothing"), self.span())
                .help(format!("remove it, or look for a missing `{}` before it", opener(self.kind()).text()));
        } else if self.starts_prim() {
            error = error.help("components in series are joined by `..`");
        }
        self.report(error);
        Err(Lost)
    }

    fn net_def(&mut self) -> Read<NetDef> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a net")?;
        let signature = if self.at(T::ParenOpen) { self.net_signature() } else { None };
        if self.eat(T::Semicolon) {
            return Ok(NetDef { name, signature, body: NetBody::External, span: self.span_from(start) });
        }
        let mut defs = Vec::new();
        let braces = self.at(T::BraceOpen);
        if braces {
            self.net_body(&mut defs)?;
        }
        let mut connect = None;
        if self.eat(T::Connect) {
            let start = self.span();
            let mut topo = match self.topo() {
                Ok((topo, _)) => topo,
                Err(Lost) => self.missing(start),
            };
            if self.semicolon("the topology").is_err() {
                self.skip_definition();
                topo = self.and_missing(topo);
            }
            connect = Some(topo);
        } else if braces && self.eat(T::Semicolon) {
            // Only definitions.
        } else {
            self.no_connect(braces);
            // The name is known, and so what is in it: go on with those.
            self.skip_definition();
            if self.eat(T::Connect) {
                self.skip_definition();
            }
            connect = Some(self.missing(self.last_span()));
        }
        let span = self.span_from(start);
        Ok(NetDef { name, signature, body: NetBody::Defined { defs, connect }, span })
    }

    /// A hole from here to the last token read.
    fn missing(&self, start: Span) -> Topo {
        Topo { kind: TopoKind::Missing, span: self.span_from(start) }
    }

    /// A topology after which something could not be read.
    fn and_missing(&self, topo: Topo) -> Topo {
        let (span, after) = (topo.span, self.missing(topo.span.after()));
        Topo { kind: TopoKind::Serial(vec![topo, after]), span: span.to(self.last_span()) }
    }

    fn no_connect(&mut self, braces: bool) {
        let what = if braces { "`connect` or `;`" } else { "`{`, `connect` or `;`" };
        let mut error = self.expected_error(what);
        if self.at(T::Ident) {
            let word = self.source.slice(self.span());
            if thalweg_pack::nearest(word, ["connect"]).is_some() {
                error = error.help("did you mean `connect`?");
            } else {
                error = error.help("a topology follows the word `connect`");
            }
        }
        self.report(error);
    }

    fn net_signature(&mut self) -> Option<Signature> {
        let open = self.advance();
        let errors = self.error_count();
        let read = self.signature();
        let read = read.and_then(|s| self.close(T::ParenClose, open).map(|()| s));
        if read.is_err() {
            self.skip_to_close(T::ParenClose);
        }
        let read = read.and_then(|s| if self.error_count() == errors { Ok(s) } else { Err(Lost) });
        Some(read.unwrap_or(Signature { maps: Vec::new(), span: self.span_from(open.span) }))
    }

    /// `{ definitions }`.
    fn net_body(&mut self, defs: &mut Vec<Def>) -> Read<()> {
        let open = self.span();
        self.enter(0)?;
        let brace = self.advance();
        self.definitions(defs);
        self.leave();
        if !self.eat(T::BraceClose) {
            // `connect` or the end: the brace counts as closed.
            let _ = self.close(T::BraceClose, Token { kind: brace.kind, span: open });
        }
        Ok(())
    }

    fn box_def(&mut self) -> Read<BoxDef> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a box")?;
        let signature = self.box_signature_in_brackets();
        let (mut codes, mut metas) = (Vec::new(), Vec::new());
        if self.at(T::BraceOpen) {
            if self.box_body(&mut codes, &mut metas).is_err() {
                self.skip_definition();
            }
            self.eat(T::Semicolon);
        } else if signature.is_ok() {
            if self.semicolon("the box").is_err() {
                self.skip_definition();
            }
        } else {
            self.skip_definition();
        }
        // A box with a broken signature is still known by its name.
        let span = self.span_from(start);
        Ok(BoxDef { name, signature: signature.unwrap_or(BoxSignature::HOLE), codes, metas, span })
    }

    fn box_signature_in_brackets(&mut self) -> Read<BoxSignature> {
        let open = self.expect(T::ParenOpen, "`(` and the signature of the box: `((a) -> (b))`")?;
        let errors = self.error_count();
        let signature = self.box_signature();
        let signature = signature.and_then(|s| self.close(T::ParenClose, open).map(|()| s));
        if signature.is_err() {
            self.skip_to_close(T::ParenClose);
        }
        // Its labels may be known in part only.
        signature.and_then(|s| if self.error_count() == errors { Ok(s) } else { Err(Lost) })
    }

    fn error_count(&self) -> usize {
        self.errors.len() + self.errors_left_out
    }

    fn box_body(&mut self, codes: &mut Vec<Code>, metas: &mut Vec<Meta>) -> Read<()> {
        let open = self.advance();
        loop {
            match self.kind() {
                T::Meta => metas.push(self.meta()),
                T::Code => codes.extend(self.code()),
                T::BraceClose => break,
                _ => {
                    let what = "`}` or code of the box (`<<< C | … >>>`)";
                    if self.at(T::End) {
                        let _ = self.close(T::BraceClose, open);
                    } else {
                        self.expected(what);
                    }
                    self.skip_to_close(T::BraceClose);
                    return Ok(());
                }
            }
        }
        self.close(T::BraceClose, open)
    }

    fn code(&mut self) -> Option<Code> {
        let span = self.span();
        let text = self.source.slice(span);
        let inner = &text[3..text.len() - 3];
        let lead = inner.len() - inner.trim_start().len();
        let word = inner.trim_start();
        let at = span.start as usize + 3 + lead;
        let (language, rest) = leading_word(word, at);
        let (mode, rest) = leading_word(rest, at + word.len() - rest.len());
        let code = match (language, mode, rest.strip_prefix('|')) {
            (Some(language), mode, Some(body)) => {
                if let Some(mode) = &mode {
                    self.check_mode(&language, mode);
                }
                Some(Code { language, mode, text: body.into(), span })
            }
            _ => {
                let error = self
                    .error("E0104", "this code does not say its language", Span::new(0, 3).shift(span.start))
                    .help("write `<<< C | … >>>`");
                self.report(error);
                None
            }
        };
        self.advance();
        code
    }

    /// Only commands have modes, and these have names.
    fn check_mode(&mut self, language: &Ident, mode: &Ident) {
        if &*language.name != COMMAND_LANGUAGE {
            let message = format!("code in {} has no mode", language.name);
            let error = self
                .error("E0104", message, mode.span)
                .help(format!("write `<<< {} | … >>>`", language.name));
            return self.report(error);
        }
        if CommandMode::of_word(&mode.name).is_some() {
            return;
        }
        let words: Vec<_> = CommandMode::WORDS.into_iter().map(|(word, _)| word).collect();
        let mut error = self.error("E0104", format!("a command has no mode `{}`", mode.name), mode.span);
        if let Some(near) = thalweg_pack::nearest(&mode.name, words.iter().copied()) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        let known: Vec<_> = words.iter().map(|word| format!("`exec {word}`")).collect();
        let error = error.help(format!("write `exec`, {}", known.join(", ")));
        self.report(error);
    }

    /// `[Tuple] -> [Tuple {| Tuple}]`.
    fn box_signature(&mut self) -> Read<BoxSignature> {
        let start = self.span();
        let input = match self.kind() {
            T::Arrow => None,
            T::ParenOpen => Some(self.tuple()?),
            _ => {
                let error = self
                    .expected_error("the arguments of the box in brackets, or `->`")
                    .help("a box's signature is written `box NAME ((a, <t>) -> (b) | (c));`");
                self.report(error);
                return Err(Lost);
            }
        };
        let before = input.as_ref().map(|input: &Tuple| input.span);
        self.arrow("a box's signature is written `box NAME ((a, <t>) -> (b) | (c));`", before)?;
        let mut outputs = Vec::new();
        if self.at(T::ParenOpen) {
            outputs.push(self.tuple()?);
            while self.eat(T::Bar) {
                outputs.push(self.tuple()?);
            }
        }
        Ok(BoxSignature { input, outputs, span: self.span_from(start) })
    }

    fn tuple(&mut self) -> Read<Tuple> {
        let open = self.expect(T::ParenOpen, "`(`")?;
        let labels = self.labels_until(T::ParenClose, open);
        Ok(Tuple { labels, span: self.span_from(open.span) })
    }

    fn type_def(&mut self) -> Read<Def> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a type")?;
        let errors = self.error_count();
        let read = self.expect(T::Equal, "`=`").and_then(|_| self.type_());
        let read = read.and_then(|of| self.semicolon("the type").map(|()| of));
        let whole = read.is_ok() && self.error_count() == errors;
        if read.is_err() {
            self.skip_definition();
        }
        let span = self.span_from(start);
        let of = read.ok().filter(|_| whole).unwrap_or(Type { variants: Vec::new(), span });
        Ok(Def::Type(TypeDef { name, of, span }))
    }

    fn typesig_def(&mut self) -> Read<Def> {
        let start = self.advance().span;
        let name = self.defined_name("the name of a signature")?;
        let errors = self.error_count();
        let read = self.expect(T::Equal, "`=`").and_then(|_| self.signature());
        let read = read.and_then(|of| self.semicolon("the signature").map(|()| of));
        let whole = read.is_ok() && self.error_count() == errors;
        if read.is_err() {
            self.skip_definition();
        }
        let span = self.span_from(start);
        let of = read.ok().filter(|_| whole).unwrap_or(Signature { maps: Vec::new(), span });
        Ok(Def::Typesig(TypesigDef { name, of, span }))
    }

    // ---- types ----

    fn signature(&mut self) -> Read<Signature> {
        let start = self.span();
        let mut maps = vec![self.map()?];
        while self.eat(T::Comma) {
            maps.push(self.map()?);
        }
        if self.at(T::Arrow)
            && let Some(Map::Arrow { output: MapOutput::Type(output), .. }) = maps.last()
        {
            let span = output.span;
            let error = self.expected_error("the end of the signature").help("maps are separated by `,`");
            let error = error.also(self.source, span, "this is what comes out of the map before");
            self.report(error);
            return Err(Lost);
        }
        Ok(Signature { maps, span: self.span_from(start) })
    }

    fn map(&mut self) -> Read<Map> {
        let start = self.span();
        let input = if self.at(T::Arrow) { None } else { Some(self.type_()?) };
        if !self.at(T::Arrow)
            && let Some(Type { variants, .. }) = &input
            && let [Variant::Named(name)] = variants.as_slice()
        {
            return Ok(Map::Named(name.clone()));
        }
        self.arrow("a signature is written `{a} | {b} -> {c}`", input.as_ref().map(|input| input.span))?;
        let output = match self.kind() {
            T::Ellipsis => {
                self.advance();
                MapOutput::Infer
            }
            T::BraceOpen | T::Ident => MapOutput::Type(self.type_()?),
            _ => MapOutput::Nothing,
        };
        Ok(Map::Arrow { input, output, span: self.span_from(start) })
    }

    fn type_(&mut self) -> Read<Type> {
        let start = self.span();
        let mut variants = vec![self.variant()?];
        while self.eat(T::Bar) {
            variants.push(self.variant()?);
        }
        Ok(Type { variants, span: self.span_from(start) })
    }

    fn variant(&mut self) -> Read<Variant> {
        match self.kind() {
            T::BraceOpen => Ok(Variant::Labels(self.labels()?)),
            T::Ident => Ok(Variant::Named(self.ident("a type")?)),
            _ => {
                self.expected("a type: `{a, <t>}` or a name");
                Err(Lost)
            }
        }
    }

    /// `{ labels }`.
    fn labels(&mut self) -> Read<Labels> {
        let open = self.expect(T::BraceOpen, "`{`")?;
        let labels = self.labels_until(T::BraceClose, open);
        Ok(Labels { labels, span: self.span_from(open.span) })
    }

    /// Labels and the closing bracket; errors between are mended by skipping to it.
    fn labels_until(&mut self, close: TokenKind, open: Token) -> Vec<LabelAt> {
        let mut labels = Vec::new();
        if self.eat(close) {
            return labels;
        }
        let read = loop {
            match self.label() {
                Ok(label) => labels.push(label),
                Err(Lost) => break Err(Lost),
            }
            if !self.eat(T::Comma) {
                break self.close_list(close, open);
            }
        };
        if read.is_err() {
            self.skip_to_close(close);
        }
        labels
    }

    /// The end of a list: its closing bracket, else what is wrong depends on what follows.
    fn close_list(&mut self, close: TokenKind, open: Token) -> Read<()> {
        if matches!(self.kind(), T::Ident | T::Less | T::LessHash | T::Number(_)) {
            self.expected(&format!("`,` or `{}`", close.text()));
            return Err(Lost);
        }
        self.close(close, open)
    }

    fn label(&mut self) -> Read<LabelAt> {
        let start = self.span();
        let label = match self.kind() {
            T::Less | T::LessHash => return self.tag_label(),
            T::Ident => Label::field(self.ident("a label")?.name),
            kind if kind.is_keyword() => Label::field(self.defined_name("a label")?.name),
            _ => {
                self.expected("a label: `a`, `<t>` or `<#b>`");
                return Err(Lost);
            }
        };
        Ok(LabelAt { label, span: self.span_from(start) })
    }

    /// `<t>` or `<#t>`.
    fn tag_label(&mut self) -> Read<LabelAt> {
        let open = self.span();
        let kind = match self.kind() {
            T::Less => LabelKind::Tag,
            T::LessHash => LabelKind::BindingTag,
            _ => {
                self.expected("a tag: `<t>` or `<#t>`");
                return Err(Lost);
            }
        };
        let token = self.advance();
        let name = self.ident("a tag's name")?.name;
        self.close(T::Greater, token)?;
        Ok(LabelAt { label: Label { kind, name }, span: self.span_from(open) })
    }

    // ---- topologies; each returns the height of its tree ----

    fn topo(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        let (first, mut height) = self.serial()?;
        let mut branches = vec![first];
        let mut signs: Vec<Token> = Vec::new();
        while matches!(self.kind(), T::Bar | T::OrOr) {
            signs.push(self.advance());
            let (branch, h) = self.serial()?;
            height = height.max(h);
            branches.push(branch);
        }
        let Some(first_sign) = signs.first() else { return Ok((branches.pop().unwrap(), height)) };
        let deterministic = first_sign.kind == T::OrOr;
        if let Some(other) = signs.iter().find(|s| s.kind != first_sign.kind) {
            self.mixed(start, &signs, *first_sign, *other);
        }
        let span = self.span_from(start);
        Ok((Topo { kind: TopoKind::Parallel { branches, deterministic }, span }, height + 1))
    }

    /// `A | B || C` without brackets: shows both readings.
    fn mixed(&mut self, start: Span, signs: &[Token], first: Token, other: Token) {
        // An operand is what stands between two signs, its brackets included.
        let starts = std::iter::once(start.start).chain(signs.iter().map(|s| s.span.end));
        let ends = signs.iter().map(|s| s.span.start).chain([self.last_span().end]);
        let operand = |(start, end): (u32, u32)| {
            let text = self.source.slice(Span { start, end: end.max(start) });
            let comment = text.contains("//") || text.contains("/*");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match text.chars().count() {
                _ if comment => "…".to_string(),
                0..=30 => text,
                _ => text.chars().take(27).chain("…".chars()).collect(),
            }
        };
        let texts: Vec<String> = starts.zip(ends).map(operand).collect();
        let reading = |tight: TokenKind| {
            let loose = if tight == T::Bar { " || " } else { " | " };
            let mut groups: Vec<Vec<&str>> = vec![vec![&texts[0]]];
            for (sign, text) in signs.iter().zip(&texts[1..]) {
                match sign.kind == tight {
                    true => groups.last_mut().unwrap().push(text),
                    false => groups.push(vec![text]),
                }
            }
            let sign = format!(" {} ", tight.text());
            let group =
                |g: Vec<&str>| if g.len() == 1 { g[0].to_string() } else { format!("({})", g.join(&sign)) };
            groups.into_iter().map(group).collect::<Vec<_>>().join(loose)
        };
        let error = self
            .error("E0204", "`|` and `||` are mixed without brackets", other.span)
            .label(format!("`{}` here", other.kind.text()))
            .also(self.source, first.span, format!("`{}` here", first.kind.text()))
            .help(format!("write either `{}`\nor           `{}`", reading(T::Bar), reading(T::OrOr)));
        // Nothing is lost: the next token may have an error of its own.
        let reported_at = self.reported_at.take();
        self.report(error);
        self.reported_at = reported_at;
    }

    fn serial(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        let (first, mut height) = self.postfix()?;
        let mut parts = vec![first];
        loop {
            if !self.eat(T::DotDot) {
                if !self.no_operator() {
                    break;
                }
                parts.push(self.missing(self.last_span().after()));
            }
            let (part, h) = self.postfix()?;
            height = height.max(h);
            parts.push(part);
        }
        if parts.len() == 1 {
            return Ok((parts.remove(0), height));
        }
        Ok((Topo { kind: TopoKind::Serial(parts), span: self.span_from(start) }, height + 1))
    }

    /// Whether one more component follows, though no operator stands before it: that is told, and it is read.
    fn no_operator(&mut self) -> bool {
        match self.kind() {
            T::Ellipsis | T::Unknown => {
                let error = self.expected_error("`..`");
                self.report(error.help("components in series are joined by `..`, two points"));
                self.advance();
                true
            }
            _ if !self.starts_prim() => false,
            _ if self.in_brackets => {
                let error = self.expected_error("`..`, `|` or `)`");
                self.report(error.help("components in series are joined by `..`"));
                true
            }
            // On a line of its own it may be something else: a `;` is missing then.
            _ if self.starts_line() => false,
            _ => {
                let error = self.expected_error("`;` after the topology");
                self.report(error.help("components in series are joined by `..`"));
                true
            }
        }
    }

    /// Whether the next token stands on another line than the one before it.
    fn starts_line(&self) -> bool {
        let between = Span { start: self.last_span().end, end: self.span().start };
        self.source.slice(between).contains('\n')
    }

    fn postfix(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        let (mut topo, mut height) = self.prim()?;
        loop {
            let sign = self.kind();
            let inner = match sign {
                T::Star
                | T::StarStar
                | T::Backslash
                | T::Bang
                | T::BangBang
                | T::BangAt
                | T::BangBangAt
                | T::At => topo,
                _ => return Ok((topo, height)),
            };
            self.enter(height)?;
            self.leave();
            self.advance();
            let mut body = Some(Box::new(inner));
            match self.postfix_kind(sign, &mut body) {
                Ok(kind) => topo = Topo { kind, span: self.span_from(start) },
                Err(Lost) => {
                    self.skip_component();
                    topo = body.map_or_else(|| self.missing(start), |body| self.and_missing(*body));
                }
            }
            height += 1;
        }
    }

    /// What stands behind the sign; takes the body only if that can be read.
    fn postfix_kind(&mut self, sign: TokenKind, body: &mut Option<Box<Topo>>) -> Read<TopoKind> {
        let mut taken = || body.take().expect("taken once");
        Ok(match sign {
            T::Star | T::StarStar => {
                let (exits, deterministic) = (self.patterns("the star")?, sign == T::StarStar);
                TopoKind::Star { body: taken(), exits, deterministic }
            }
            T::Backslash => {
                let backs = self.patterns("the feedback")?;
                TopoKind::Feedback { body: taken(), backs }
            }
            T::At => match self.kind() {
                T::Number(place) => {
                    self.advance();
                    TopoKind::Place { body: taken(), place: place as u64 }
                }
                _ => {
                    let mut error = self.expected_error("the number of a place after `@`");
                    if matches!(self.kind(), T::Less | T::LessHash) {
                        error = error.help("to place by a tag's value, write `!@ <t>`");
                    }
                    self.report(error);
                    return Err(Lost);
                }
            },
            _ => {
                let from = self.tag_label()?;
                let to = if self.eat(T::Colon) { Some(self.tag_label()?) } else { None };
                let deterministic = matches!(sign, T::BangBang | T::BangBangAt);
                let placed = matches!(sign, T::BangAt | T::BangBangAt);
                TopoKind::Split { body: taken(), from, to, deterministic, placed }
            }
        })
    }

    /// After an error in a component: skips to the operator, bracket or definition that follows it.
    fn skip_component(&mut self) {
        loop {
            let kind = self.kind();
            match kind {
                T::DotDot | T::Bar | T::OrOr | T::Semicolon | T::End | T::Connect => return,
                kind if kind.starts_definition() || is_closer(kind) => return,
                _ => {}
            }
            self.advance();
            if let Some(close) = closer(kind) {
                self.skip_to_close(close);
            }
        }
    }

    /// `Pat {, Pat}`.
    fn patterns(&mut self, of: &str) -> Read<Vec<Pattern>> {
        if !self.at(T::BraceOpen) {
            let error = self.expected_error(&format!("a pattern such as `{{a, <t>}}` for {of}"));
            self.report(error);
            return Err(Lost);
        }
        let mut patterns = vec![self.pattern()?];
        while self.eat(T::Comma) {
            patterns.push(self.pattern()?);
        }
        Ok(patterns)
    }

    fn pattern(&mut self) -> Read<Pattern> {
        let start = self.span();
        let labels = self.labels()?;
        let guard = if self.eat(T::If) { Some(self.guard()?) } else { None };
        Ok(Pattern { labels, guard, span: self.span_from(start) })
    }

    fn starts_prim(&self) -> bool {
        matches!(self.kind(), T::Ident | T::ParenOpen | T::BracketOpen | T::CellOpen)
    }

    fn prim(&mut self) -> Read<(Topo, usize)> {
        let start = self.span();
        match self.kind() {
            T::Ident => {
                let name = self.ident("a component")?;
                Ok((Topo { kind: TopoKind::Name(name), span: start }, 1))
            }
            T::ParenOpen => self.brackets(),
            T::BracketOpen => {
                let kind = self.filter();
                Ok((Topo { kind, span: self.span_from(start) }, 1))
            }
            T::CellOpen => {
                let kind = self.synchrocell();
                Ok((Topo { kind, span: self.span_from(start) }, 1))
            }
            _ => {
                self.not_a_component();
                self.skip_component();
                Ok((self.missing(start), 1))
            }
        }
    }

    fn not_a_component(&mut self) {
        let what = "a component: a name, `( … )`, a filter `[ … ]` or a synchrocell `[| … |]`";
        let mut error = self.expected_error(what);
        match self.kind() {
            T::BraceOpen => error = error.help("a filter is written `[{a} -> {b}]`"),
            T::Ellipsis => error = error.help("components in series are joined by `..`, two points"),
            _ => {}
        }
        self.report(error);
    }

    fn brackets(&mut self) -> Read<(Topo, usize)> {
        let open = self.tokens[self.next];
        if let Err(Lost) = self.enter(0) {
            self.advance();
            self.skip_to_close(T::ParenClose);
            return Ok((self.missing(open.span), 1));
        }
        self.advance();
        let outer = std::mem::replace(&mut self.in_brackets, true);
        let read = self.topo();
        self.in_brackets = outer;
        self.leave();
        let Ok((topo, height)) = read else {
            self.skip_to_close(T::ParenClose);
            return Ok((self.missing(open.span), 1));
        };
        if self.close(T::ParenClose, open).is_err() {
            self.skip_to_close(T::ParenClose);
            return Ok((self.and_missing(topo), height + 1));
        }
        Ok((topo, height))
    }

    fn synchrocell(&mut self) -> TopoKind {
        let open = self.advance();
        if self.at(T::CellClose) {
            let error = self
                .error("E0208", "a synchrocell needs at least one pattern", open.span.to(self.span()))
                .help("write `[| {a}, {b} |]` to join a record with `a` and one with `b`");
            self.report(error);
            self.advance();
            return TopoKind::Missing;
        }
        let read = self.patterns("the synchrocell");
        let read = read.and_then(|p| self.close(T::CellClose, open).map(|()| p));
        read.map_or_else(
            |Lost| {
                self.skip_to_close(T::CellClose);
                TopoKind::Missing
            },
            TopoKind::Synchrocell,
        )
    }

    // ---- filters ----

    fn filter(&mut self) -> TopoKind {
        let open = self.advance();
        if self.eat(T::BracketClose) {
            return TopoKind::Filter(Filter { rule: None });
        }
        let read = self.filter_rule();
        let read = read.and_then(|rule| self.close(T::BracketClose, open).map(|()| rule));
        if read.is_err() {
            self.skip_to_close(T::BracketClose);
        }
        read.map_or(TopoKind::Missing, |rule| TopoKind::Filter(Filter { rule: Some(rule) }))
    }

    fn filter_rule(&mut self) -> Read<FilterRule> {
        if !self.at(T::BraceOpen) {
            let error = self
                .expected_error("the pattern of the filter")
                .help("a filter is written `[{a} -> {b = a}]`");
            self.report(error);
            return Err(Lost);
        }
        let pattern = self.labels()?;
        if self.at(T::If) {
            let error = self
                .error("E0201", "the pattern of a filter has no guard", self.span())
                .help("write the condition after the arrow: `[{<t>} -> if <t > 0> then {<t>} else {}]`");
            self.report(error);
            return Err(Lost);
        }
        self.arrow("a filter is written `[{a} -> {b = a}]`", None)?;
        let action = self.action()?;
        Ok(FilterRule { pattern, action })
    }

    fn action(&mut self) -> Read<Action> {
        let mut guarded = Vec::new();
        while self.eat(T::If) {
            let guard = self.guard()?;
            self.expect(T::Then, "`then`")?;
            let then = self.span();
            let outputs = self.outputs()?;
            if !self.at(T::Else) {
                let error = self
                    .expected_error("`else`")
                    .also(self.source, then, "this is done if the guard holds")
                    .help("every `if` of a filter has an `else`; nothing after it consumes the record");
                self.report(error);
                return Err(Lost);
            }
            self.advance();
            guarded.push((guard, outputs));
        }
        Ok(Action { guarded, otherwise: self.outputs()? })
    }

    fn outputs(&mut self) -> Read<Vec<OutRecord>> {
        let mut outputs = Vec::new();
        if !self.at(T::BraceOpen) {
            if !matches!(self.kind(), T::BracketClose | T::Else) {
                self.expected("an output record such as `{b = a}`, or `]`");
                return Err(Lost);
            }
            return Ok(outputs);
        }
        outputs.push(self.out_record()?);
        while self.eat(T::Semicolon) {
            outputs.push(self.out_record()?);
        }
        Ok(outputs)
    }

    fn out_record(&mut self) -> Read<OutRecord> {
        let open = self.expect(T::BraceOpen, "an output record such as `{b = a}`")?;
        let mut items = Vec::new();
        if self.eat(T::BraceClose) {
            return Ok(OutRecord { items, span: self.span_from(open.span) });
        }
        let read = loop {
            match self.item() {
                Ok(item) => items.push(item),
                Err(Lost) => break Err(Lost),
            }
            if !self.eat(T::Comma) {
                break self.close_list(T::BraceClose, open);
            }
        };
        if read.is_err() {
            self.skip_to_close(T::BraceClose);
        }
        Ok(OutRecord { items, span: self.span_from(open.span) })
    }

    fn item(&mut self) -> Read<Item> {
        let start = self.span();
        let kind = match self.kind() {
            T::Less => LabelKind::Tag,
            T::LessHash => LabelKind::BindingTag,
            _ => return self.field_item(),
        };
        let open = self.advance();
        let name = self.ident("a tag's name")?.name;
        let value = if self.eat(T::Equal) { ItemValue::Expr(self.tag_expr()?) } else { ItemValue::Copy };
        self.close(T::Greater, open)?;
        Ok(Item { label: Label { kind, name }, value, span: self.span_from(start) })
    }

    fn field_item(&mut self) -> Read<Item> {
        let at = self.label()?;
        let mut value = ItemValue::Copy;
        if self.eat(T::Equal) {
            if matches!(self.kind(), T::Less | T::LessHash | T::Number(_)) {
                let found = self.expected_error("the name of a field after `=`");
                self.report(found.help("a tag with a computed value is written `<t = …>`"));
                return Err(Lost);
            }
            value = ItemValue::Rename(self.ident("the name of a field")?);
        }
        Ok(Item { label: at.label, value, span: self.span_from(at.span) })
    }

    // ---- expressions over tags; each returns the height of its tree ----

    /// `<expr>` after `if`.
    fn guard(&mut self) -> Read<TagExpr> {
        let open = self.expect(T::Less, "a condition over tags such as `<t > 0>`")?;
        let expr = self.tag_expr()?;
        self.close(T::Greater, open)?;
        Ok(expr)
    }

    fn tag_expr(&mut self) -> Read<TagExpr> {
        self.choose().map(|(expr, _)| expr)
    }

    /// `c ? a : b`.
    fn choose(&mut self) -> Read<(TagExpr, usize)> {
        let start = self.span();
        let (condition, height) = self.binary(0)?;
        if !self.at(T::Question) {
            return Ok((condition, height));
        }
        self.enter(height)?;
        self.advance();
        let read = self.choose_rest();
        self.leave();
        let ((a, height_a), (b, height_b)) = read?;
        let kind = TagExprKind::Choose(Box::new(condition), Box::new(a), Box::new(b));
        let span = self.span_from(start);
        Ok((TagExpr { kind, span }, height.max(height_a).max(height_b) + 1))
    }

    fn choose_rest(&mut self) -> Read<((TagExpr, usize), (TagExpr, usize))> {
        let yes = self.choose()?;
        self.expect(T::Colon, "`:` and what holds otherwise")?;
        Ok((yes, self.choose()?))
    }

    fn binary(&mut self, level: usize) -> Read<(TagExpr, usize)> {
        let start = self.span();
        let (mut left, mut height) = self.unary()?;
        while let Some((operator, of_level)) = self.operator()
            && of_level >= level
        {
            self.enter(height)?;
            self.advance();
            let read = self.binary(of_level + 1);
            self.leave();
            let (right, h) = read?;
            height = height.max(h) + 1;
            let kind = TagExprKind::Binary(operator, Box::new(left), Box::new(right));
            left = TagExpr { kind, span: self.span_from(start) };
        }
        Ok((left, height))
    }

    /// The operator of two operands that the next token is, and how tightly it binds.
    fn operator(&self) -> Option<(BinaryOp, usize)> {
        Some(match self.kind() {
            T::OrOr => (BinaryOp::Or, 0),
            T::AndAnd => (BinaryOp::And, 1),
            T::EqualEqual => (BinaryOp::Equal, 2),
            T::NotEqual => (BinaryOp::NotEqual, 2),
            T::Less => (BinaryOp::Less, 3),
            T::LessEqual => (BinaryOp::LessEqual, 3),
            T::Greater if self.operand_follows() => (BinaryOp::Greater, 3),
            T::GreaterEqual => (BinaryOp::GreaterEqual, 3),
            T::Plus => (BinaryOp::Add, 4),
            T::Minus => (BinaryOp::Subtract, 4),
            T::Star => (BinaryOp::Multiply, 5),
            T::Slash => (BinaryOp::Divide, 5),
            T::Percent => (BinaryOp::Remainder, 5),
            _ => return None,
        })
    }

    /// Whether an operand follows the next token. `! <` is a split behind a guard, not a negation.
    fn operand_follows(&self) -> bool {
        match self.kind_after(1) {
            T::Number(_) | T::Ident | T::ParenOpen | T::Minus => true,
            T::Bang | T::BangBang => !matches!(self.kind_after(2), T::Less | T::LessHash),
            _ => false,
        }
    }

    fn unary(&mut self) -> Read<(TagExpr, usize)> {
        let start = self.span();
        let operators: &[UnaryOp] = match self.kind() {
            T::Minus => &[UnaryOp::Negate],
            T::Bang => &[UnaryOp::Not],
            T::BangBang => &[UnaryOp::Not, UnaryOp::Not],
            _ => return self.operand(),
        };
        self.enter(1)?;
        self.advance();
        let read = self.unary();
        self.leave();
        let (mut expr, height) = read?;
        for &operator in operators {
            let kind = TagExprKind::Unary(operator, Box::new(expr));
            expr = TagExpr { kind, span: self.span_from(start) };
        }
        Ok((expr, height + operators.len()))
    }

    fn operand(&mut self) -> Read<(TagExpr, usize)> {
        let span = self.span();
        match self.kind() {
            T::Number(value) => {
                self.advance();
                Ok((TagExpr { kind: TagExprKind::Number(value), span }, 1))
            }
            T::ParenOpen => self.between_brackets(),
            T::Ident if self.kind_after(1) == T::ParenOpen => self.call(),
            T::Ident => {
                let name = self.ident("a tag")?.name;
                Ok((TagExpr { kind: TagExprKind::Tag(name), span }, 1))
            }
            _ => {
                let mut error = self.expected_error("a number, a tag's name or `(`");
                if matches!(self.kind(), T::Less | T::LessHash) {
                    error = error.help("in an expression a tag stands without its brackets: `<t = u + 1>`");
                }
                self.report(error);
                Err(Lost)
            }
        }
    }

    fn between_brackets(&mut self) -> Read<(TagExpr, usize)> {
        self.enter(0)?;
        let open = self.advance();
        let read = self.choose();
        self.leave();
        let (mut expr, height) = read?;
        self.close(T::ParenClose, open)?;
        expr.span = self.span_from(open.span);
        Ok((expr, height))
    }

    /// `abs(e)`, `min(e, f)`, `max(e, f)`.
    fn call(&mut self) -> Read<(TagExpr, usize)> {
        self.enter(1)?;
        let read = self.call_rest();
        self.leave();
        read
    }

    fn call_rest(&mut self) -> Read<(TagExpr, usize)> {
        let name = self.advance().span;
        let operator = match self.source.slice(name) {
            "abs" => None,
            "min" => Some(BinaryOp::Min),
            "max" => Some(BinaryOp::Max),
            word => {
                let near = thalweg_pack::nearest(word, ["abs", "min", "max"]);
                let mut error = self.error("E0201", format!("there is no function `{word}`"), name);
                error = error.remark("the functions over tags are `abs(e)`, `min(e, f)` and `max(e, f)`");
                if let Some(near) = near {
                    error = error.help(format!("did you mean `{near}`?"));
                }
                self.report(error);
                return Err(Lost);
            }
        };
        let open = self.advance();
        let (a, height) = self.choose()?;
        let Some(operator) = operator else {
            self.close(T::ParenClose, open)?;
            let kind = TagExprKind::Unary(UnaryOp::Abs, Box::new(a));
            return Ok((TagExpr { kind, span: self.span_from(name) }, height + 1));
        };
        self.expect(T::Comma, "`,` and the second operand")?;
        let (b, h) = self.choose()?;
        self.close(T::ParenClose, open)?;
        let kind = TagExprKind::Binary(operator, Box::new(a), Box::new(b));
        Ok((TagExpr { kind, span: self.span_from(name) }, height.max(h) + 1))
    }
}

fn closer(kind: TokenKind) -> Option<TokenKind> {
    Some(match kind {
        T::ParenOpen => T::ParenClose,
        T::BraceOpen => T::BraceClose,
        T::BracketOpen => T::BracketClose,
        T::CellOpen => T::CellClose,
        _ => return None,
    })
}

fn is_closer(kind: TokenKind) -> bool {
    matches!(kind, T::ParenClose | T::BraceClose | T::BracketClose | T::CellClose)
}

fn opener(kind: TokenKind) -> TokenKind {
    match kind {
        T::ParenClose => T::ParenOpen,
        T::BraceClose => T::BraceOpen,
        T::BracketClose => T::BracketOpen,
        _ => T::CellOpen,
    }
}

/// The word that a text begins with, which stands at `at`, and what follows the space after it.
fn leading_word(text: &str, at: usize) -> (Option<Ident>, &str) {
    let length = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let word = is_word.then(|| Ident { name: text[..length].into(), span: Span::new(at, at + length) });
    (word, text[if is_word { length } else { 0 }..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses; gives the codes and places of the errors.
    fn check(text: &str, expected: &[&str]) -> File {
        let source = Source::new("t.snet", text);
        let (file, errors) = parse(&source);
        let shown = |e: &Diagnostic| {
            let at = e.primary.as_ref().unwrap();
            format!("{} {}:{}", e.code, at.start().line, at.start().column)
        };
        let found: Vec<String> = errors.iter().map(shown).collect();
        let rendered: String = errors.iter().map(|e| e.render(false)).collect();
        assert_eq!(found, expected, "{text}\n{rendered}");
        file
    }

    #[test]
    fn the_whole_grammar_is_read() {
        check(
            "//! snet 2.0
             <metadata> <a b=\"c\"/> </metadata>
             type t = {a, <b>} | {<#c>} | u;
             type u = {};
             typesig s = t -> {x} | u, {y} -> ..., -> {z}, {w} ->, s2;
             net ext;
             net ext2 ({a} -> {b});
             net lib { box only ((a) -> ); };
             net main (s, {a} -> ...) {
                 box f ((a, <b>, <#c>) -> (x) | (y, <z>)) { <<< C | int f() { return 1 >> 2; } >>> <metadata>m</metadata> }
                 box g (-> ()) ;
                 net inner { box f ((q) -> (q)); } connect f;
             } connect
                 ( f .. g | [] ) .. [{a, <t>} -> {b = a, a, <t>, <u = t * 2 + 1>, <#v = min(t, 3)>} ; {}]
                 .. [{<t>} -> if <t > 3 && !t> then {<t>} else if <t == 0> then else {<t = -t>}] .. [{k} -> ]
                 .. [| {a}, {b, <c>} if <c > 0> |] .. ((f * {x}, {y} if <y >= 0x10> ! <t>) || inner ** {z})
                 .. f \\ {a} .. f !! <t> : <u> .. f !@ <#t> .. f !!@ <t> .. f @ 3 ! <t>
                 .. (a * {<t>} if <t> ! <u>) .. f * {a} if <(t > 1) ? t : abs(-u) > max(1, !!v)>",
            &[],
        );
    }

    #[test]
    fn postfix_binds_tighter_than_series_and_that_than_parallel() {
        let file = check("net main connect a .. b * {x} | c ! <t> .. d", &[]);
        let Def::Net(NetDef { body: NetBody::Defined { connect: Some(topo), .. }, .. }) = &file.defs[0]
        else {
            panic!()
        };
        let TopoKind::Parallel { branches, deterministic: false } = &topo.kind else { panic!() };
        let TopoKind::Serial(first) = &branches[0].kind else { panic!() };
        assert!(matches!(first[1].kind, TopoKind::Star { .. }));
        let TopoKind::Serial(second) = &branches[1].kind else { panic!() };
        assert!(matches!(second[0].kind, TopoKind::Split { .. }));
    }

    #[test]
    fn all_errors_of_a_file_are_found() {
        check(
            "net a connect f .. ;\nbox b ((x) > (y));\ntype t {a};\nnet main connect (f | [{a} > {b}] .. [|a|]) .. g h;\nnet ok connect a",
            &["E0201 1:20", "E0201 2:12", "E0201 3:8", "E0201 4:28", "E0201 4:40", "E0201 4:50"],
        );
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        for (open, close) in
            [("(", ")"), ("(", ""), ("[", "]"), ("", ")"), ("{", "}"), ("[|", "|]"), ("[{", "")]
        {
            let text = format!("net main connect {}a{};", open.repeat(100_000), close.repeat(100_000));
            let (_, errors) = parse(&Source::new("t.snet", text));
            assert!(!errors.is_empty() && errors.len() < 10, "{open} {close}: {}", errors.len());
        }
        let deep = [
            format!("net main connect a{};", "!<t>".repeat(100_000)),
            format!("net main connect {}a;", "(a .. ".repeat(100_000)),
            format!("net main connect [{{}} -> {{<t={}1>}}];", "-".repeat(100_000)),
            format!("net main connect [{{}} -> {{<t={}1>}}];", "(".repeat(100_000)),
            format!("net main connect [{{}} -> {{<t={}1>}}];", "1?".repeat(100_000)),
            format!("net main connect [{{}} -> {{<t={}1>}}];", "1+".repeat(100_000)),
            format!("net main connect [{{}} -> {{<t={}1>}}];", "1?1:".repeat(100_000)),
            format!("net main connect [{{}} -> {{<t={}1>}}];", "abs(".repeat(100_000)),
            "net a {".repeat(100_000),
        ];
        for text in deep {
            let (_, errors) = parse(&Source::new("t.snet", text));
            assert!(errors.iter().any(|e| e.code == "E0205"), "{:?}", errors.first().map(|e| e.to_string()));
            assert!(errors.len() <= ERRORS_MAX);
        }
    }
}

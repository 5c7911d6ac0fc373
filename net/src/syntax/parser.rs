//! Tokens → syntax tree, by recursive descent with one token of look-ahead (two for `>` in expressions).
//!
//! **Recovery.** A rule that cannot go on reports an error and returns `Err(Lost)`. The nearest enclosing
//! rule that can recognise its own end recovers from the error: a bracket skips to its closing bracket, a
//! definition to its `;` or to the next definition. So every definition, and every bracket in it, is parsed
//! once, and no token gives more than one error.
//!
//! **Bounds.** The depth of recursion and of the tree is at most [`NESTING_MAX`]; skipping is a loop, not recursion.

mod definitions;
mod expressions;
mod topology;

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

/// Parses one box definition, such as `box inc ((x) -> (x))`; the final `;` may be missing. `source` names
/// its origin, for instance the library.
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

/// The kinds of fragments that a program may give as text.
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
    /// The name of the kind, for messages.
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

/// Checks that a text is one fragment of this kind; returns its span, without comments around it.
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

/// The rule could not go on; the error was reported.
#[derive(Debug)]
struct Lost;

type Read<T> = Result<T, Lost>;

/// The most errors that are kept for one text; further ones are counted.
const ERRORS_MAX: usize = 100;

struct Parser<'a> {
    source: &'a Arc<Source>,
    tokens: Vec<Token>,
    /// Index of the next token; the last token is `End`.
    next: usize,
    /// The levels of recursion, counted as brackets open around the next token.
    depth: usize,
    /// Whether the topology that is being parsed stands in round brackets.
    in_brackets: bool,
    errors: Vec<Diagnostic>,
    errors_left_out: usize,
    /// The index of the token at which the last error was reported: no second error is reported at the token.
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

    /// The span from `start` to the end of the last token read.
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

    /// Reads a closing bracket; if it is missing, the error shows both ends.
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

    /// Recovers from an error between brackets: skips past the closing bracket. Stops before a token that
    /// cannot be between brackets; the bracket then counts as closed.
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
                    // An outer bracket closes here, so its rule handles the token.
                    None => return,
                },
                _ => {}
            }
            self.advance();
        }
    }

    /// Recovers from an error in a definition: skips to the token after its `;`, or to the first token that
    /// no definition can contain.
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

    /// Enters one more level of nesting. `Err` if the nesting is too deep.
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

/// The first word of a text that stands at byte `at`, and the text after the space that follows it.
fn leading_word(text: &str, at: usize) -> (Option<Ident>, &str) {
    let length = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let word = is_word.then(|| Ident { name: text[..length].into(), span: Span::new(at, at + length) });
    (word, text[if is_word { length } else { 0 }..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a text and compares the codes and places of its errors.
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

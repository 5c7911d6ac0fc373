//! Text → tokens. The longest match wins; comments are kept beside the tokens; metadata and box code are one
//! token each.
//!
//! Any text gives tokens, ending in [`TokenKind::End`]; characters that cannot form a token are reported and
//! left out.

use std::sync::Arc;

use super::diagnostic::Diagnostic;
use super::source::{Source, Span};

/// A token with its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

macro_rules! tokens {
    ($($name:ident $text:literal,)*) => {
        /// The kinds of token.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum TokenKind {
            /// A name.
            Ident,
            /// A number, with its value.
            Number(i64),
            /// `<metadata> … </metadata>`.
            Meta,
            /// `<<< … >>>`.
            Code,
            /// Characters that form no token; an error was reported.
            Unknown,
            /// The end of the text.
            End,
            $($name,)*
        }

        impl TokenKind {
            /// The text of a token that always has the same text.
            pub(super) fn text(self) -> &'static str {
                match self {
                    TokenKind::Ident => "name",
                    TokenKind::Number(_) => "number",
                    TokenKind::Meta => "<metadata>",
                    TokenKind::Code => "<<<",
                    TokenKind::Unknown => "unknown characters",
                    TokenKind::End => "end of the file",
                    $(TokenKind::$name => $text,)*
                }
            }
        }
    };
}

tokens! {
    Net "net", Box "box", Connect "connect", If "if", Then "then", Else "else", Type "type", Typesig "typesig",
    Ellipsis "...", DotDot "..", ColonColon "::", CellOpen "[|", CellClose "|]", OrOr "||", StarStar "**",
    BangBang "!!", BangAt "!@", BangBangAt "!!@", Arrow "->", LessHash "<#", AndAnd "&&", EqualEqual "==",
    NotEqual "!=", LessEqual "<=", GreaterEqual ">=", ParenOpen "(", ParenClose ")", BraceOpen "{",
    BraceClose "}", BracketOpen "[", BracketClose "]", Less "<", Greater ">", Bar "|", Star "*", Bang "!",
    At "@", Backslash "\\", Colon ":", Semicolon ";", Comma ",", Equal "=", Plus "+", Minus "-", Slash "/",
    Percent "%", Question "?",
}

use TokenKind as T;

/// The keywords; any other word is a name.
const KEYWORDS: [TokenKind; 8] = [T::Net, T::Box, T::Connect, T::If, T::Then, T::Else, T::Type, T::Typesig];

/// Signs of several characters, the longest first.
const LONG_SIGNS: [TokenKind; 17] = [
    T::Ellipsis,
    T::BangBangAt,
    T::DotDot,
    T::ColonColon,
    T::CellOpen,
    T::CellClose,
    T::OrOr,
    T::StarStar,
    T::BangBang,
    T::BangAt,
    T::Arrow,
    T::LessHash,
    T::AndAnd,
    T::EqualEqual,
    T::NotEqual,
    T::LessEqual,
    T::GreaterEqual,
];

/// Whether a word is a keyword.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.text() == word)
}

impl TokenKind {
    /// Whether the token is a keyword.
    pub(super) fn is_keyword(self) -> bool {
        KEYWORDS.contains(&self)
    }

    /// Whether a definition starts with a token of this kind.
    pub(super) fn starts_definition(self) -> bool {
        matches!(self, T::Net | T::Box | T::Type | T::Typesig | T::Meta)
    }

    fn sign(c: u8) -> Option<TokenKind> {
        Some(match c {
            b'(' => T::ParenOpen,
            b')' => T::ParenClose,
            b'{' => T::BraceOpen,
            b'}' => T::BraceClose,
            b'[' => T::BracketOpen,
            b']' => T::BracketClose,
            b'<' => T::Less,
            b'>' => T::Greater,
            b'|' => T::Bar,
            b'*' => T::Star,
            b'!' => T::Bang,
            b'@' => T::At,
            b'\\' => T::Backslash,
            b':' => T::Colon,
            b';' => T::Semicolon,
            b',' => T::Comma,
            b'=' => T::Equal,
            b'+' => T::Plus,
            b'-' => T::Minus,
            b'/' => T::Slash,
            b'%' => T::Percent,
            b'?' => T::Question,
            _ => return None,
        })
    }
}

/// A text as tokens.
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    /// A comment between tokens.
    pub(super) comments: Vec<Span>,
    pub(super) errors: Vec<Diagnostic>,
}

/// Splits a text into tokens and comments, and reports its errors.
pub(super) fn lex(source: &Arc<Source>) -> Lexed {
    let text = source.text();
    let mut lexer = Lexer {
        source,
        text,
        at: 0,
        // Most tokens have some five bytes, with the spaces around them.
        tokens: Vec::with_capacity(text.len() / 4),
        comments: Vec::new(),
        errors: Vec::new(),
        no_more_metadata: false,
    };
    lexer.run();
    Lexed { tokens: lexer.tokens, comments: lexer.comments, errors: lexer.errors }
}

struct Lexer<'a> {
    source: &'a Arc<Source>,
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    comments: Vec<Span>,
    errors: Vec<Diagnostic>,
    /// Whether the rest of the text is known to contain no `</metadata>`, so that it is not searched again.
    no_more_metadata: bool,
}

impl Lexer<'_> {
    fn run(&mut self) {
        if self.rest().starts_with('\u{feff}') {
            self.at += '\u{feff}'.len_utf8();
        }
        while let Some(c) = self.rest().bytes().next() {
            match c {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c => self.at += 1,
                b'/' if self.rest().starts_with("//") => self.line_comment(),
                b'/' if self.rest().starts_with("/*") => self.block_comment(),
                b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
                b'0'..=b'9' => self.number(),
                b'<' if self.rest().starts_with("<<<") => self.code(),
                b'<' if self.metadata() => {}
                0x80.. if self.rest().starts_with(char::is_alphabetic) => self.word(),
                _ => self.sign(c),
            }
        }
        self.push(T::End, self.text.len(), self.text.len());
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        self.tokens.push(Token { kind, span: Span::new(start, end) });
        self.at = end;
    }

    fn error(&mut self, code: &'static str, message: String, start: usize, end: usize) -> &mut Diagnostic {
        self.errors.push(Diagnostic::error(code, message, self.source, Span::new(start, end)));
        self.errors.last_mut().unwrap()
    }

    fn line_comment(&mut self) {
        let start = self.at;
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        self.comments.push(Span::new(start, self.at));
    }

    fn block_comment(&mut self) {
        match self.rest()[2..].find("*/") {
            Some(length) => {
                self.comments.push(Span::new(self.at, self.at + length + 4));
                self.at += length + 4;
            }
            None => {
                let start = self.at;
                let error = self.error("E0102", "this comment does not end".into(), start, start + 2);
                error.helps.push("close it with `*/`".into());
                self.push(T::Unknown, start, self.text.len());
            }
        }
    }

    fn word(&mut self) {
        let start = self.at;
        let length =
            self.rest().find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest().len());
        let end = start + length;
        let word = &self.text[start..end];
        if let Some(bad) = word.chars().find(|c| !c.is_ascii()) {
            let error = self.error("E0101", format!("a name can't have `{bad}` in it"), start, end);
            error.helps.push("names are made of the letters A to Z and a to z, digits and `_`".into());
        }
        let kind = KEYWORDS.into_iter().find(|k| k.text() == word).unwrap_or(T::Ident);
        self.push(kind, self.at, end);
    }

    fn number(&mut self) {
        let start = self.at;
        let end = start + length_of_word(self.rest());
        let word = &self.text[start..end];
        let (digits, radix, what) = match word.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&word[2..], 16, "a hexadecimal number"),
            [b'0', _, ..] => (&word[1..], 8, "an octal number (it starts with 0)"),
            _ => (word, 10, "a number"),
        };
        let value = i64::from_str_radix(digits, radix);
        if value.is_err() {
            let bad = digits.chars().find(|c| !c.is_digit(radix));
            let message = match bad {
                Some(bad) => format!("`{word}` is not {what}: `{bad}` can't be in it"),
                None if digits.is_empty() => format!("`{word}` is not {what}: digits are missing"),
                None => format!("`{word}` is too large"),
            };
            let error = self.error("E0105", message, start, end);
            error
                .helps
                .push("numbers go up to 9223372036854775807; `0x1f` is hexadecimal, `017` octal".into());
        }
        self.push(T::Number(value.unwrap_or(0)), start, end);
    }

    fn code(&mut self) {
        let start = self.at;
        match self.rest().find(">>>") {
            Some(length) => self.push(T::Code, start, start + length + 3),
            None => {
                let error = self.error("E0104", "this code does not end".into(), start, start + 3);
                error.helps.push("close it with `>>>`".into());
                self.push(T::Unknown, start, self.text.len());
            }
        }
    }

    /// Reads metadata where a definition is allowed; after a `{`, `<metadata>` may be a tag.
    fn metadata(&mut self) -> bool {
        let start = self.at;
        let Some(inner) = metadata_behind(self.rest()) else { return false };
        let opening = self.rest().len() - inner.len();
        let before = self.tokens.last().map(|t| t.kind);
        if !matches!(before, None | Some(T::Semicolon | T::BraceClose | T::BraceOpen | T::Meta | T::Code)) {
            return false;
        }
        let close = if self.no_more_metadata { None } else { inner.find("</metadata>") };
        self.no_more_metadata = close.is_none();
        match (before, close) {
            (_, Some(length)) => {
                let end = start + opening + length + "</metadata>".len();
                self.push(T::Meta, start, end);
                true
            }
            (before, None) if before != Some(T::BraceOpen) => {
                let error = self.error("E0103", "this metadata does not end".into(), start, start + opening);
                error.helps.push("close it with `</metadata>`".into());
                self.push(T::Unknown, start, self.text.len());
                true
            }
            _ => false,
        }
    }

    fn sign(&mut self, c: u8) {
        let second = self.rest().as_bytes().get(1).copied().unwrap_or(b' ');
        let long = match second {
            b'.' | b'!' | b'@' | b':' | b'|' | b']' | b'*' | b'>' | b'#' | b'&' | b'=' => {
                LONG_SIGNS.into_iter().find(|k| self.rest().starts_with(k.text()))
            }
            _ => None,
        };
        if let Some(kind) = long {
            self.push(kind, self.at, self.at + kind.text().len());
        } else if let Some(kind) = TokenKind::sign(c) {
            self.push(kind, self.at, self.at + 1);
        } else {
            self.unknown();
        }
    }

    /// Reads a run of characters that no token starts with, and reports one error for all of them.
    fn unknown(&mut self) {
        let start = self.at;
        let known = |c: char| {
            c.is_ascii_whitespace()
                || c.is_ascii_alphanumeric()
                || c == '_'
                || c.is_alphabetic()
                || (c.is_ascii() && TokenKind::sign(c as u8).is_some())
        };
        let length = self.rest().find(known).unwrap_or(self.rest().len());
        let run = &self.text[start..start + length];
        let first = run.chars().next().unwrap_or(' ');
        let message = if run.chars().nth(1).is_some() {
            "these characters mean nothing here".to_string()
        } else if first.is_control() {
            format!("the character U+{:04X} means nothing here", first as u32)
        } else {
            format!("the character `{first}` means nothing here")
        };
        let help = match first {
            '.' => "components in series are joined by `..`",
            '&' => "in expressions over tags, `&&` is \"and\"",
            '#' => "a binding tag is written `<#name>`",
            '"' | '\'' => "names stand without quotes",
            _ => "",
        };
        let error = self.error("E0101", message, start, start + length);
        if !help.is_empty() {
            error.helps.push(help.into());
        }
        self.push(T::Unknown, start, start + length);
    }
}

/// The text after `<metadata>`, which may have attributes, and before which a line `<?xml … ?>` may stand.
fn metadata_behind(text: &str) -> Option<&str> {
    let text = match text.strip_prefix("<?xml") {
        Some(declaration) => declaration.split_once("?>")?.1.trim_start(),
        None => text,
    };
    let behind = text.strip_prefix("<metadata")?;
    let (attributes, inner) = behind.split_once('>')?;
    let is_tag = attributes.is_empty() || attributes.starts_with(|c: char| c.is_ascii_whitespace());
    (is_tag && !attributes.contains(['<', '/'])).then_some(inner)
}

fn length_of_word(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let source = Source::new("t.snet", text);
        let Lexed { tokens, errors, .. } = lex(&source);
        let shown: Vec<String> = tokens
            .iter()
            .map(|t| match t.kind {
                T::Number(n) => format!("{n}"),
                T::End | T::Unknown => String::new(),
                _ => source.slice(t.span).to_string(),
            })
            .chain(errors.iter().map(|e| e.code.to_string()))
            .filter(|s| !s.is_empty())
            .collect();
        assert_eq!(shown.join(" "), expected, "{text:?}");
    }

    #[test]
    fn the_longest_sign_wins() {
        check("a..b...c", "a .. b ... c");
        check("[||]", "[| |]");
        check("a||b|c", "a || b | c");
        check("A!!@<t>!@<u>!!<v>!<w>", "A !!@ < t > !@ < u > !! < v > ! < w >");
        check("<#b>->{}", "<# b > -> { }");
        check("a<=b>=c==d!=e&&f", "a <= b >= c == d != e && f");
        check("A**{}\\{}", "A ** { } \\ { }");
    }

    #[test]
    fn numbers_in_three_bases() {
        check("7 0x1F 017 0", "7 31 15 0");
        check("08", "0 E0105");
        check("12ab", "0 E0105");
        check("0x", "0 E0105");
        check("9223372036854775807 9223372036854775808", "9223372036854775807 0 E0105");
    }

    #[test]
    fn comments_code_and_metadata() {
        check("//! snet 1\na // b\n/* c */ d", "a d");
        check("{ <<< C | a > b >> c >>> }", "{ <<< C | a > b >> c >>> }");
        check("<metadata> <x/> </metadata> net", "<metadata> <x/> </metadata> net");
        let old = "<?xml version=\"1.0\"?> <metadata xmlns=\"snet-home.org\" > <x/> </metadata>";
        check(&format!("{old} net"), &format!("{old} net"));
        check("{<metadata >}", "{ < metadata > }");
        check("; <metadata x='a'> a", "; E0103");
        check("{<metadata>}", "{ < metadata > }");
        check("/* a", "E0102");
        check("; <metadata> a", "; E0103");
        check("{ <<< C | a", "{ E0104");
    }

    #[test]
    fn what_is_no_token_is_one_error_a_run() {
        check("a $$~ b", "a b E0101");
        check("a . b", "a b E0101");
        check("\u{feff}ä", "ä E0101");
    }
}

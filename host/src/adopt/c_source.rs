//! The names that a C file defines and uses, as far as they can be found without compiling it.
//!
//! Old C is accepted: functions in the style of K&R, implicit `int`, names that several files define. In `#if
//! … #else … #endif` only the first part is read (in `#if 0` only the second), so that brackets balance.
//! Definitions made by macros are not found.
//!
//! ```text
//! int total;                          defines total
//! static int hidden(void) { … }       defines nothing that other files see
//! step(h, x) void *h; { twice(x); }   defines step; calls twice
//! ```

use std::collections::HashSet;

/// The names that a file defines and uses.
#[derive(Debug, Default)]
pub(super) struct CSource {
    /// Functions and variables that other files can use.
    pub(super) defined: HashSet<String>,
    /// All names in the source.
    pub(super) named: HashSet<String>,
    /// Names that are followed by an opening bracket.
    pub(super) called: HashSet<String>,
    /// The included files, as written between the quotes or angle brackets.
    pub(super) included: Vec<String>,
}

/// Functions that only code written by S-Net's compiler calls, to build a network or to wrap boxes.
const COMPILER_OUTPUT: &[&str] = &[
    "SNetInRun",
    "SNetBox",
    "SNetSerial",
    "SNetParallel",
    "SNetParallelDet",
    "SNetStar",
    "SNetStarDet",
    "SNetStarIncarnate",
    "SNetSplit",
    "SNetSplitDet",
    "SNetLocSplit",
    "SNetSync",
    "SNetFilter",
    "SNetNameShift",
    "SNetFeedback",
    "SNetObserverSocketBox",
    "SNetObserverFileBox",
    "SNetRuntimeStartWait",
    "snet_startup_fun_t",
];

impl CSource {
    /// Scans a file's text.
    pub(super) fn read(text: &str) -> CSource {
        let mut source = CSource::default();
        let tokens = tokens(text, &mut source.included);
        for (at, token) in tokens.iter().enumerate() {
            if is_name(token) {
                source.named.insert((*token).to_owned());
                if tokens.get(at + 1) == Some(&"(") {
                    source.called.insert((*token).to_owned());
                }
            }
        }
        definitions(&tokens, &mut source.defined);
        source
    }

    /// Whether S-Net's compiler wrote the file.
    pub(super) fn is_compiler_output(&self) -> bool {
        COMPILER_OUTPUT.iter().any(|name| self.named.contains(*name))
    }

    /// Whether the file is a complete program.
    pub(super) fn has_main(&self) -> bool {
        self.defined.contains("main")
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// The tokens of a text: names, numbers (one token each, like strings) and single characters. Directives are
/// skipped.
fn tokens<'t>(text: &'t str, included: &mut Vec<String>) -> Vec<&'t str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut conditions = Conditions::default();
    let (mut at, mut line_begins) = (0, true);
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        let rest = &bytes[at..];
        match byte {
            b'\n' => {
                line_begins = true;
                at += 1;
                continue;
            }
            _ if byte.is_ascii_whitespace() || rest.starts_with(b"\\\n") => {
                at += if byte == b'\\' { 2 } else { 1 };
                continue;
            }
            _ if rest.starts_with(b"/*") => {
                at = text[at + 2..].find("*/").map_or(bytes.len(), |length| at + length + 4);
                continue;
            }
            _ if rest.starts_with(b"//") => {
                at = text[at..].find('\n').map_or(bytes.len(), |length| at + length);
                continue;
            }
            b'#' if line_begins => {
                at = end_of_directive(bytes, at);
                directive(&text[begin..at], &mut conditions, included);
                continue;
            }
            b'"' | b'\'' => at = end_of_string(bytes, at),
            _ if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                at += rest.iter().take_while(|byte| is_part(byte)).count();
            }
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
        line_begins = false;
        if conditions.are_taken() {
            tokens.push(&text[begin..at]);
        }
    }
    tokens
}

/// The end of a directive: the end of its line, unless a backslash or a comment continues it.
fn end_of_directive(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if bytes[at..].starts_with(b"\\\n") {
            at += 2;
        } else if bytes[at..].starts_with(b"/*") {
            at += 2;
            while at < bytes.len() && !bytes[at..].starts_with(b"*/") {
                at += 1;
            }
        } else if byte == b'\n' {
            return at;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The place after a string or character literal. A literal without an end stops at the end of its line.
fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            _ if byte == bytes[begin] => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The `#if` … `#endif` parts that enclose a place, from the outermost to the innermost.
#[derive(Default)]
struct Conditions {
    open: Vec<Condition>,
    /// How many of the enclosing parts are left out. The number is not bounded, because users wrote the
    /// files.
    left_out: usize,
}

#[derive(Clone, Copy)]
struct Condition {
    is_taken: bool,
    /// Whether a part of this `#if … #endif` was already taken.
    was_taken: bool,
}

impl Conditions {
    /// Whether text at the present place is read, and not left out.
    fn are_taken(&self) -> bool {
        self.left_out == 0
    }

    fn push(&mut self, condition: Condition) {
        self.left_out += usize::from(!condition.is_taken);
        self.open.push(condition);
    }

    fn pop(&mut self) -> Option<Condition> {
        let condition = self.open.pop()?;
        self.left_out -= usize::from(!condition.is_taken);
        Some(condition)
    }
}

fn directive(line: &str, conditions: &mut Conditions, included: &mut Vec<String>) {
    let line = line.trim_start_matches('#').trim();
    let (word, rest) =
        line.split_at(line.find(|sign: char| !sign.is_ascii_alphabetic()).unwrap_or(line.len()));
    let rest = rest.trim();
    match word {
        "if" | "ifdef" | "ifndef" => {
            // In a header for C and C++ the part under `#ifdef __cplusplus` is left out; the part for C is
            // usually empty.
            let is_taken = !(word == "if" && rest == "0" || word == "ifdef" && rest == "__cplusplus");
            conditions.push(Condition { is_taken, was_taken: is_taken });
        }
        "else" | "elif" => {
            if let Some(Condition { was_taken, .. }) = conditions.pop() {
                conditions.push(Condition { is_taken: !was_taken, was_taken: true });
            }
        }
        "endif" => _ = conditions.pop(),
        "include" if conditions.are_taken() => {
            let close = if rest.starts_with('<') { '>' } else { '"' };
            let name = rest.get(1..).and_then(|rest| rest.split_once(close));
            included.extend(name.map(|(name, _)| name.to_owned()));
        }
        _ => {}
    }
}

/// Words that may surround a declaration and have brackets of their own.
const ATTRIBUTES: &[&str] = &["__attribute__", "__attribute", "__declspec", "asm", "__asm__", "__asm"];

/// The names that a text defines for other files.
fn definitions(tokens: &[&str], defined: &mut HashSet<String>) {
    let mut at = 0;
    while at < tokens.len() {
        at = definition(tokens, at, defined);
    }
}

/// Parses the declaration or function definition at `begin`; returns the start of the next one.
fn definition(tokens: &[&str], begin: usize, defined: &mut HashSet<String>) -> usize {
    let (mut at, mut is_hidden) = (begin, false);
    let (mut name, mut names) = (None, Vec::new());
    // Whether the tokens belong to a variable's initial value, up to the next comma.
    let mut is_value = false;
    // The name that may be defined; `None` for a type, or for a `struct` that is only mentioned.
    let tag = matches!(tokens[begin], "struct" | "union" | "enum").then_some(begin + 1);
    let is_variable = |&(place, _): &(usize, &str)| place > begin && Some(place) != tag;
    while let Some(&token) = tokens.get(at) {
        match token {
            ";" => {
                names.extend(name.filter(is_variable));
                break;
            }
            "," => {
                names.extend(name.take().filter(is_variable));
                is_value = false;
            }
            "=" => is_value = true,
            // Skips the braces of a struct, a union, an enumeration or an initial value.
            "{" => {
                at = skip(tokens, at);
                name = name.filter(|_| is_value);
            }
            "[" => at = skip(tokens, at),
            "(" => {
                let close = skip(tokens, at);
                let behind = tokens.get(close + 1).copied().unwrap_or(";");
                let is_attribute = at > 0 && ATTRIBUTES.contains(&tokens[at - 1]);
                let is_function = !is_value && !is_attribute && name.is_some();
                at = close;
                if is_function && (behind == "{" || is_name(behind) && !ATTRIBUTES.contains(&behind)) {
                    // In K&R style the parameters' types come before the body.
                    let body =
                        (close + 1..tokens.len()).find(|&at| tokens[at] == "{").unwrap_or(tokens.len());
                    if !is_hidden {
                        defined.extend(name.map(|(_, name)| name.to_owned()));
                    }
                    return skip(tokens, body) + 1;
                }
                // The declaration of a function defines nothing.
                name = name.filter(|_| is_value || is_attribute);
            }
            "extern" | "typedef" | "static" => is_hidden = true,
            _ if is_name(token) && !is_value && !ATTRIBUTES.contains(&token) => name = Some((at, token)),
            _ => {}
        }
        at += 1;
    }
    if !is_hidden {
        defined.extend(names.into_iter().map(|(_, name)| name.to_owned()));
    }
    at + 1
}

/// The place of the bracket that closes the one at `open`, or of the last token.
fn skip(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, defined: &[&str]) {
        let source = CSource::read(text);
        let mut found: Vec<&str> = source.defined.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, defined, "{text}");
    }

    #[test]
    fn functions_old_and_new() {
        check("void *step(void *h, c4snet_data_t *x) { if (x) { return h; } return 0; }", &["step"]);
        check("step(h, x) void *h; c4snet_data_t *x; { other(x); }", &["step"]);
        check("static int hidden(void) { return 1; } int shown(void) { return hidden(); }", &["shown"]);
        check("int declared(int); extern int outside; typedef int number; struct pair { int a, b; };", &[]);
        check("int main(argc, argv) int argc; char **argv; { return 0; }", &["main"]);
        check("int __attribute__((noinline)) marked(int a) { return a; }", &["marked"]);
        check("int marked(int a) __attribute__((noinline)); int after(void) {}", &["after"]);
    }

    #[test]
    fn variables() {
        check("int total; double table[256], *next = table, last;", &["last", "next", "table", "total"]);
        check(
            "static int hidden; struct pair { int a; } both = { 1 }; int n = f(1, 2), m;",
            &["both", "m", "n"],
        );
        check("int (*handler)(int);", &[]);
    }

    #[test]
    fn what_is_no_code_defines_nothing() {
        check(
            "/* int a; */ // int b;\n#define C int c;\n#define D \\\n int d;\nchar *e = \"int f(){}\";",
            &["e"],
        );
        check(
            "#if 0\nint a;\n#else\nint b;\n#endif\n#ifdef X\nint f(int x) {\n#else\nint g() {\n#endif\n}",
            &["b", "f"],
        );
        check("char quote = '\"'; int after;", &["after", "quote"]);
    }

    #[test]
    fn includes_calls_and_compiler_output() {
        let source =
            CSource::read("#include <C4SNet.h>\n# include \"boxes/step.h\"\nint f() { return twice(n); }");
        assert_eq!(source.included, ["C4SNet.h", "boxes/step.h"]);
        assert!(
            source.called.contains("twice") && !source.called.contains("n") && source.named.contains("n")
        );
        assert!(!source.is_compiler_output());
        let text = "snet_stream_t *net(snet_stream_t *in) { return SNetSerial(in, a, b); }";
        assert!(CSource::read(text).is_compiler_output());
    }

    /// The texts have names inside a hundred thousand conditions, and characters after as many open brackets.
    /// If a text is not scanned in one pass, the test takes minutes.
    #[test]
    fn however_deep_it_is_nested_it_is_read_in_one_pass() {
        let deep = 100_000;
        let text = format!("{}{}int last;", "#if 1\n".repeat(deep), "int a;\n".repeat(deep));
        check(&text, &["a", "last"]);
        check(
            &format!("#if 0\n{}int a;{}\n#endif\nint b;", "#if 1\n".repeat(deep), "\n#endif".repeat(deep)),
            &["b"],
        );
        for open in ["(", "[", "{", "f(", "f() {", "a = {"] {
            let _ = CSource::read(&open.repeat(deep));
        }
    }

    fn read_well(text: &str) {
        let source = CSource::read(text);
        assert!(source.defined.is_subset(&source.named) && source.called.is_subset(&source.named), "{text}");
        assert!(
            source.named.iter().chain(&source.included).all(|name| text.contains(name.as_str())),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn what_it_finds_stands_in_the_text(text in "[a-z{}()\\[\\];,=\"'\\\\#*/ \n0ö]{0,120}") {
            read_well(&text);
        }

        #[test]
        fn likewise_in_any_order_of_what_c_is_made_of(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "#if 0\n", "#ifdef X\n", "#else\n", "#endif\n", "#include <a.h>\n", "#include \"ö", "#", "/*", "*/", "//",
                    "\\\n", "\\", "\"", "'", "\n", "static ", "extern ", "typedef ", "struct s ", "__attribute__", "((", "))", "f",
                    "(h)", " void *h; ", "{", "}", "[", "]", "=", ",", ";", "ö", "\r\n", "0x1F",
                ]),
                0..60,
            )
        ) {
            read_well(&parts.concat());
        }
    }
}

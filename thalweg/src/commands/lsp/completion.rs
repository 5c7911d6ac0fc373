//! Completion: the names that may follow at a position.
//!
//! The text at the position is not finished, so the syntax tree may have a gap just at that position.
//! Completion therefore uses the words and signs before the position: which bracket is open, and which word
//! or sign came last.

use std::collections::BTreeSet;

use lsp_types::{CompletionItem, CompletionItemKind, CompletionParams};
use thalweg_net::check::DefinitionKind;
use thalweg_net::syntax::{Source, parse_box};

use super::outline::{Spot, headline};
use super::workspace::Workspace;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    /// A new name, or a number, neither of which can be completed.
    Nothing,
    /// The name of a box or net.
    Component,
    /// The name of a type or signature.
    Type,
    /// A field, or a tag with its brackets.
    Label,
    /// The name of a tag, after `<`.
    Tag,
    /// The name of a binding tag, after `<#`.
    BindingTag,
    /// A tag in an expression.
    Operand,
    /// A definition.
    Definition,
}

pub(super) fn complete(texts: &Workspace, params: &CompletionParams) -> Option<Vec<CompletionItem>> {
    let spot = Spot::of(texts, &params.text_document_position)?;
    let text = &spot.document.text;
    let words = words(text.get(..spot.byte as usize)?, true);
    let expected = expected(&words);
    let mut items = Vec::new();
    match expected {
        Expected::Nothing => {}
        Expected::Component => components(texts, &spot, &mut items),
        Expected::Type => {
            visible(&spot, &mut items, |kind| matches!(kind, DefinitionKind::Type | DefinitionKind::Typesig))
        }
        Expected::Definition => {
            for keyword in ["net", "box", "type", "typesig", "connect"] {
                items.push(item(keyword, CompletionItemKind::KEYWORD, None));
            }
        }
        Expected::Label | Expected::Tag | Expected::BindingTag | Expected::Operand => {
            labels(&spot, expected, &mut items);
        }
    }
    Some(items)
}

fn item(label: &str, kind: CompletionItemKind, detail: Option<String>) -> CompletionItem {
    CompletionItem { label: label.to_owned(), kind: Some(kind), detail, ..CompletionItem::default() }
}

fn visible(spot: &Spot<'_>, items: &mut Vec<CompletionItem>, wanted: impl Fn(DefinitionKind) -> bool) {
    let index = &spot.known.analysis.index;
    let mut seen = BTreeSet::new();
    for definition in index.visible_at(spot.source, spot.byte) {
        // If a name has several definitions, the innermost definition is offered.
        if !wanted(definition.kind) || !seen.insert(&definition.name) {
            continue;
        }
        let kind = match definition.kind {
            DefinitionKind::Net => CompletionItemKind::MODULE,
            DefinitionKind::Box => CompletionItemKind::FUNCTION,
            DefinitionKind::Type => CompletionItemKind::STRUCT,
            DefinitionKind::Typesig => CompletionItemKind::INTERFACE,
        };
        let source = &index.sources[definition.at.source.0 as usize];
        let detail = match spot.known.analysis.signatures.of_definition(definition.at) {
            Some(net) => net.to_string(),
            None => headline(source, definition),
        };
        items.push(item(&definition.name, kind, Some(detail)));
    }
}

/// The largest number of files in a directory that are examined.
const FILES_MAX: usize = 1000;

fn components(texts: &Workspace, spot: &Spot<'_>, items: &mut Vec<CompletionItem>) {
    visible(spot, items, |kind| matches!(kind, DefinitionKind::Net | DefinitionKind::Box));
    let mut seen: BTreeSet<String> = items.iter().map(|item| item.label.clone()).collect();
    let beside = spot.document.path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let mut files: Vec<String> = beside
        .into_iter()
        .flatten()
        .take(FILES_MAX)
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".snet")?.to_owned()))
        .filter(|name| Some(name.as_str()) != spot.document.path.file_stem().and_then(|s| s.to_str()))
        .collect();
    files.sort();
    for name in files {
        if seen.insert(name.clone()) {
            items.push(item(&name, CompletionItemKind::FILE, Some(format!("net in {name}.snet"))));
        }
    }
    for (name, signature) in texts.known_boxes() {
        if seen.insert(name.to_owned()) {
            let detail = format!("box {name} ({signature}): in a library, not declared here");
            items.push(item(name, CompletionItemKind::FUNCTION, Some(detail)));
        }
    }
}

fn labels(spot: &Spot<'_>, expected: Expected, items: &mut Vec<CompletionItem>) {
    let mut found = labels_of(&spot.document.text);
    let index = &spot.known.analysis.index;
    for definition in index.definitions.iter().filter(|d| d.kind == DefinitionKind::Box) {
        let source = &index.sources[definition.at.source.0 as usize];
        let Ok(read) = parse_box(&Source::new("", headline(source, definition))) else { continue };
        let tuples = read.signature.input.iter().chain(&read.signature.outputs);
        found.extend(tuples.flat_map(|tuple| &tuple.labels).map(|at| at.label.to_string()));
    }
    for label in found {
        let tag = label.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        let name = match (expected, tag) {
            (Expected::Label, None) => Some((label.as_str(), CompletionItemKind::FIELD)),
            (Expected::Label, Some(_)) => Some((label.as_str(), CompletionItemKind::PROPERTY)),
            (Expected::BindingTag, Some(tag)) => {
                tag.strip_prefix('#').map(|tag| (tag, CompletionItemKind::PROPERTY))
            }
            (_, Some(tag)) if !tag.starts_with('#') => Some((tag, CompletionItemKind::PROPERTY)),
            _ => None,
        };
        items.extend(name.map(|(name, kind)| item(name, kind, None)));
    }
    if expected == Expected::Operand {
        for function in ["abs", "min", "max"] {
            items.push(item(function, CompletionItemKind::FUNCTION, None));
        }
    }
}

/// The words and signs of a text without comments; `last_out` leaves out the word at the end of the text,
/// because the user is still typing it. Metadata and code count as one sign each.
fn words(text: &str, last_out: bool) -> Vec<&str> {
    let signs =
        ["...", "!!@", "<#", "..", "[|", "|]", "||", "**", "!!", "!@", "->", "&&", "==", "!=", "<=", ">="];
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if c.is_whitespace() => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            '/' if rest.starts_with("//") => {
                rest = &rest[skipped("\n")..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = &rest[skipped("*/")..];
                continue;
            }
            '<' if rest.starts_with("<<<") => skipped(">>>"),
            '<' if rest.starts_with("<metadata>") && rest.contains("</metadata>") => skipped("</metadata>"),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => signs.iter().find(|sign| rest.starts_with(**sign)).map_or(c.len_utf8(), |sign| sign.len()),
        };
        let (word, after) = rest.split_at(length);
        if !(last_out && after.is_empty() && word.starts_with(is_word)) {
            words.push(word);
        }
        rest = after;
    }
    words
}

/// A reader of words that keeps the open brackets and the meaning of words inside them.
#[derive(Default)]
struct Reader<'a> {
    /// Each open bracket with the word before it.
    open: Vec<(&'a str, &'a str)>,
    /// The keyword of the definition.
    definition: &'a str,
    last: &'a str,
}

impl<'a> Reader<'a> {
    /// Whether a `<` after the words read so far opens a label or a condition; other `<` compare.
    fn opens_tag(&self) -> bool {
        matches!(self.last, "{" | "," | "(" | "!" | "!!" | "!@" | "!!@" | ":" | "if")
            && self.open.last().is_none_or(|(bracket, _)| *bracket != "<")
    }

    fn read(&mut self, word: &'a str) {
        match word {
            "(" | "[" | "[|" | "{" => self.open.push((word, self.last)),
            "<#" => self.open.push(("<", self.last)),
            "<" if self.opens_tag() => self.open.push(("<", self.last)),
            ">" if self.at("<") => drop(self.open.pop()),
            ")" | "]" | "|]" | "}" => {
                let opener =
                    [("(", ")"), ("[", "]"), ("[|", "|]"), ("{", "}")].into_iter().find(|p| p.1 == word);
                if let Some(at) = opener.and_then(|(o, _)| self.open.iter().rposition(|(b, _)| *b == o)) {
                    if word == "}" && is_body(self.open[at].1) {
                        self.definition = "";
                    }
                    self.open.truncate(at);
                }
            }
            "net" | "box" | "type" | "typesig" | "connect" if !self.at("<") => self.definition = word,
            ";" if self.in_definitions() => self.definition = "",
            _ => {}
        }
        if word == "{" && self.in_definitions() {
            self.definition = "";
        }
        self.last = word;
    }

    fn at(&self, bracket: &str) -> bool {
        self.open.last().is_some_and(|(open, _)| *open == bracket)
    }

    /// Whether all open brackets are braces of nets.
    fn in_definitions(&self) -> bool {
        self.open.iter().all(|(bracket, before)| *bracket == "{" && is_body(before))
    }
}

/// Whether a brace after `word` opens the body of a net or box, because the word is its name or ends its
/// signature.
fn is_body(before: &str) -> bool {
    let name = before.starts_with(|c: char| c.is_alphabetic() || c == '_');
    before == ")" || (name && !matches!(before, "then" | "else" | "connect"))
}

fn expected(words: &[&str]) -> Expected {
    let mut reader = Reader::default();
    words.iter().for_each(|word| reader.read(word));
    let innermost = reader.open.last().copied();
    let after_name = |word: &str| matches!(word, "net" | "box" | "type" | "typesig");
    match (innermost, reader.last) {
        (Some(("<", _)), "<") if is_guard(&reader) => Expected::Operand,
        (Some(("<", _)), "<") => Expected::Tag,
        (Some(("<", _)), "<#") => Expected::BindingTag,
        (Some(("<", _)), last) if is_operand(last) => Expected::Nothing,
        (Some(("<", _)), _) => Expected::Operand,
        (Some(("(", "abs" | "min" | "max")), _) => Expected::Operand,
        (Some(("(", _)), _) if reader.open.iter().any(|(b, _)| *b == "<") => Expected::Operand,
        (Some(("{", before)), last) if !is_body(before) => {
            if matches!(last, "{" | "," | "=") {
                Expected::Label
            } else {
                Expected::Nothing
            }
        }
        (_, last) if after_name(last) => Expected::Nothing,
        _ => match reader.definition {
            "connect" if matches!(reader.last, "connect" | ".." | "|" | "||" | "(") => Expected::Component,
            "connect" => Expected::Nothing,
            "box" if matches!(reader.last, "(" | ",") && !reader.in_definitions() => Expected::Label,
            "net" if matches!(reader.last, "(" | "->" | "|" | ",") && !reader.in_definitions() => {
                Expected::Type
            }
            "type" | "typesig" if matches!(reader.last, "=" | "|" | "->" | ",") => Expected::Type,
            "" | "net" if reader.in_definitions() => Expected::Definition,
            _ => Expected::Nothing,
        },
    }
}

/// Whether the open angle bracket belongs to a condition: `if <`.
fn is_guard(reader: &Reader<'_>) -> bool {
    reader.open.last().is_some_and(|(_, before)| *before == "if")
}

fn is_operand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphanumeric() || c == '_') || word == ")"
}

/// The labels that a text has between braces and after `!`.
fn labels_of(text: &str) -> BTreeSet<String> {
    let words = words(text, false);
    let mut reader = Reader::default();
    let mut labels = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let next = words.get(at + 1).copied().unwrap_or("");
        if is_name && reader.last == "<#" {
            labels.insert(format!("<#{word}>"));
        } else if is_name && reader.last == "<" && reader.at("<") && matches!(next, ">" | "=") {
            labels.insert(format!("<{word}>"));
        } else if is_name
            && matches!(reader.last, "{" | "," | "=")
            && matches!(reader.open.last(), Some(("{", before)) if !is_body(before))
        {
            labels.insert((*word).to_owned());
        }
        reader.read(word);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_depends_on_what_stands_before() {
        let check = |text: &str, wanted: Expected| assert_eq!(expected(&words(text, true)), wanted, "{text}");
        check("", Expected::Definition);
        check("net main { b", Expected::Definition);
        check("net main { box f ((a) -> (b)); co", Expected::Definition);
        check("net main { box f ((a) -> (b)); } con", Expected::Definition);
        check("net ma", Expected::Nothing);
        check("net main connect f", Expected::Component);
        check("net main { box f ((a) -> (b)); } connect f .. ", Expected::Component);
        check("net main connect (f | g", Expected::Component);
        check("net main connect f ", Expected::Nothing);
        check("net main connect f; ty", Expected::Definition);
        check("box f ((", Expected::Label);
        check("box f ((a, ", Expected::Label);
        check("box f ((a, <", Expected::Tag);
        check("box f ((a, <t>) -> (b", Expected::Label);
        check("net main connect [{", Expected::Label);
        check("net main connect [{a, <", Expected::Tag);
        check("net main connect [{a, <#", Expected::BindingTag);
        check("net main connect [{a, <t>} -> {b = ", Expected::Label);
        check("net main connect [{a, <t>} -> {<t = ", Expected::Operand);
        check("net main connect [{a, <t>} -> {<t = t + m", Expected::Operand);
        check("net main connect [{a, <t>} -> {<t = max(t, ", Expected::Operand);
        check("net main connect [{a, <t>} -> if <", Expected::Operand);
        check("net main connect [{a, <t>} -> if <t > ", Expected::Nothing);
        check("net main connect [{a, <t>} -> if <t < 3> then {", Expected::Label);
        check("net main connect f * {", Expected::Label);
        check("net main connect f ! <", Expected::Tag);
        check("net main (", Expected::Type);
        check("net main (point -> ", Expected::Type);
        check("type t = ", Expected::Type);
        check("type t = {a} | ", Expected::Type);
        check("net main { net inner connect [{a} -> {b}]; } connect in", Expected::Component);
        check("// net main connect\n", Expected::Definition);
        check("<metadata> net main connect </metadata> ", Expected::Definition);
    }

    #[test]
    fn labels_are_found_wherever_they_stand() {
        let text = "net main ({a, <t>} -> {b}) { box f ((x) -> (y)); } connect
            [{c, <#u>} -> {d = c, <v = t < 3 ? 1 : w>}] .. f ! <k> * {e} if <t > 1>; // {no, <no>}";
        let found: Vec<String> = labels_of(text).into_iter().collect();
        assert_eq!(found, ["<#u>", "<k>", "<t>", "<v>", "a", "b", "c", "d", "e"]);
    }
}

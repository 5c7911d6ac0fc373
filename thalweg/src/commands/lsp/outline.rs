//! Answers about the present text: definitions, references, types, symbols, formatting.

use lsp_types::{
    DocumentFormattingParams, DocumentSymbol, DocumentSymbolParams, GotoDefinitionParams, Hover,
    HoverContents, HoverParams, Location, MarkupContent, MarkupKind, Position, Range, ReferenceParams,
    SymbolKind, TextDocumentPositionParams, TextEdit,
};
use thalweg_net::check::{Definition, DefinitionKind, Index, Place, SourceId};
use thalweg_net::syntax::{self, Source, Span};

use super::document::Lines;
use super::workspace::{Document, Known, Workspace};

/// A place in an open text.
pub(super) struct Spot<'a> {
    pub(super) document: &'a Document,
    pub(super) known: &'a Known,
    pub(super) source: SourceId,
    pub(super) byte: u32,
}

impl<'a> Spot<'a> {
    pub(super) fn of(texts: &'a Workspace, params: &TextDocumentPositionParams) -> Option<Spot<'a>> {
        let document = texts.document(&params.text_document.uri)?;
        let known = texts.known(document)?;
        let source = known.analysis.index.source(&document.path)?;
        let byte = document.lines.byte(&document.text, params.position);
        Some(Spot { document, known, source, byte })
    }

    fn definition(&self) -> Option<(Place, &'a Definition)> {
        let index = &self.known.analysis.index;
        let (reference, definition) = index.definition_at(self.source, self.byte)?;
        Some((reference.at, in_its_file(index, definition)))
    }
}

/// If a net is declared as external (`net x;`), the definition of the net in its own file; else the given
/// definition.
fn in_its_file<'a>(index: &'a Index, definition: &'a Definition) -> &'a Definition {
    let found = index.definition_at(definition.at.source, definition.at.span.start);
    found.map_or(definition, |(_, definition)| definition)
}

pub(super) fn definition(texts: &Workspace, params: &GotoDefinitionParams) -> Option<Location> {
    let spot = Spot::of(texts, &params.text_document_position_params)?;
    let (_, definition) = spot.definition()?;
    texts.location(spot.known, definition.at)
}

/// References in the texts that this text uses, and in other open texts.
pub(super) fn references(texts: &Workspace, params: &ReferenceParams) -> Option<Vec<Location>> {
    let spot = Spot::of(texts, &params.text_document_position)?;
    let (_, wanted) = spot.definition()?;
    let defined = texts.location(spot.known, wanted.at)?;
    let mut found = Vec::new();
    for (_, known) in texts.all() {
        let index = &known.analysis.index;
        for (i, definition) in index.definitions.iter().enumerate().filter(|(_, d)| d.name == wanted.name) {
            let net = in_its_file(index, definition);
            if [definition, net].iter().any(|d| texts.location(known, d.at).as_ref() == Some(&defined)) {
                found.extend(index.references_to(i).filter_map(|at| texts.location(known, at)));
            }
        }
    }
    found.sort_by_cached_key(|l| (l.uri.as_str().to_owned(), l.range.start));
    found.dedup();
    found.retain(|place| params.context.include_declaration || *place != defined);
    Some(found)
}

/// The remark that follows the variants of a net or component if not all of its variants are known.
fn but(complete: bool) -> String {
    if complete { String::new() } else { format!(" {}", crate::commands::NOT_ALL_VARIANTS) }
}

pub(super) fn hover(texts: &Workspace, params: &HoverParams) -> Option<Hover> {
    let spot = Spot::of(texts, &params.text_document_position_params)?;
    let analysis = &spot.known.analysis;
    let component = analysis.signatures.component_at(spot.source, spot.byte);
    let defined = spot.definition();
    let mut parts = Vec::new();
    if let Some((_, definition)) = &defined {
        let source = analysis.index.sources.get(definition.at.source.0 as usize)?;
        parts.push(fenced(&headline(source, definition)));
        if let Some(comment) = comment_before(source.text(), definition.whole.start as usize) {
            parts.push(comment);
        }
        if let Some(net) = analysis.signatures.of_definition(definition.at) {
            parts.push(format!("inferred: `{net}`{}", but(net.complete)));
        }
    }
    if let Some(component) = component
        && defined.as_ref().is_none_or(|(at, _)| *at == component.at)
        && !component.inferred.is_empty()
    {
        let what = if defined.is_some() { "here" } else { component.word };
        parts.push(format!("{what}: `{component}`{}", but(component.complete)));
    }
    if parts.is_empty() {
        return None;
    }
    let at = defined.map(|(at, _)| at.span).or_else(|| component.map(|c| c.at.span))?;
    let contents = MarkupContent { kind: MarkupKind::Markdown, value: parts.join("\n\n") };
    let range = spot.document.lines.range(&spot.document.text, at);
    Some(Hover { contents: HoverContents::Markup(contents), range: Some(range) })
}

fn fenced(text: &str) -> String {
    format!("```snet\n{text}\n```")
}

/// A definition without its body.
pub(super) fn headline(source: &Source, definition: &Definition) -> String {
    let whole = source.slice(definition.whole);
    let text = match definition.kind {
        DefinitionKind::Net => {
            let after = (definition.at.span.end - definition.whole.start) as usize;
            let rest = whole.get(after..).unwrap_or("");
            let length = if rest.trim_start().starts_with('(') { closed(rest) } else { 0 };
            whole.get(..after + length).unwrap_or(whole)
        }
        DefinitionKind::Box => {
            let after = (definition.at.span.end - definition.whole.start) as usize;
            whole.get(..after + closed(whole.get(after..).unwrap_or(""))).unwrap_or(whole)
        }
        DefinitionKind::Type | DefinitionKind::Typesig => whole.trim_end_matches([';', ' ']),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The length of a text up to the bracket that closes its first bracket.
fn closed(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth <= 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The comment on the lines just before a definition, which describes the definition.
fn comment_before(text: &str, start: usize) -> Option<String> {
    let before = text.get(..start)?;
    // A definition that does not begin its line has no comment of its own.
    let (above, own) = before.rsplit_once('\n')?;
    if !own.trim().is_empty() {
        return None;
    }
    let mut lines: Vec<&str> = Vec::new();
    let above = above.trim_end_matches([' ', '\t', '\r']);
    if let Some(inside) = above.strip_suffix("*/") {
        let inside = &inside[inside.rfind("/*")? + 2..];
        lines.extend(inside.lines().map(|line| line.trim().trim_start_matches('*').trim()));
    } else {
        let marked = above.split('\n').rev().map_while(|line| line.trim().strip_prefix("//"));
        lines.extend(marked.filter(|line| !line.starts_with('!')).map(str::trim));
        lines.reverse();
    }
    let comment = lines.join("\n").trim().to_owned();
    (!comment.is_empty()).then_some(comment)
}

pub(super) fn symbols(texts: &Workspace, params: &DocumentSymbolParams) -> Option<Vec<DocumentSymbol>> {
    let document = texts.document(&params.text_document.uri)?;
    let known = texts.known(document)?;
    let index = &known.analysis.index;
    let source = index.source(&document.path)?;
    let mut definitions: Vec<&Definition> =
        index.definitions.iter().filter(|d| d.at.source == source).collect();
    definitions.sort_by_key(|d| (d.whole.start, std::cmp::Reverse(d.whole.end)));
    let text = index.sources.get(source.0 as usize)?;
    let mut definitions = definitions.into_iter().peekable();
    Some(symbols_until(u32::MAX, &mut definitions, document, text))
}

/// The symbols that start before `end`, each with its inner symbols.
fn symbols_until<'a>(
    end: u32,
    definitions: &mut std::iter::Peekable<impl Iterator<Item = &'a Definition>>,
    document: &Document,
    source: &Source,
) -> Vec<DocumentSymbol> {
    let mut symbols = Vec::new();
    while let Some(definition) = definitions.next_if(|d| d.whole.start < end) {
        let range = |span: Span| document.lines.range(&document.text, span);
        let children = symbols_until(definition.whole.end, definitions, document, source);
        let head = headline(source, definition);
        let detail = head.split_once(&*definition.name).map(|(_, rest)| rest.trim().to_owned());
        #[allow(deprecated, reason = "the field must be given")]
        symbols.push(DocumentSymbol {
            name: definition.name.to_string(),
            detail: detail.filter(|d| !d.is_empty()),
            kind: symbol_kind(definition.kind),
            tags: None,
            deprecated: None,
            range: range(definition.whole),
            selection_range: range(definition.at.span),
            children: (!children.is_empty()).then_some(children),
        });
    }
    symbols
}

fn symbol_kind(kind: DefinitionKind) -> SymbolKind {
    match kind {
        DefinitionKind::Net => SymbolKind::MODULE,
        DefinitionKind::Box => SymbolKind::FUNCTION,
        DefinitionKind::Type => SymbolKind::STRUCT,
        DefinitionKind::Typesig => SymbolKind::INTERFACE,
    }
}

/// The edit that formats a text; `None` for a text that can't be parsed.
pub(super) fn format(texts: &Workspace, params: &DocumentFormattingParams) -> Option<Vec<TextEdit>> {
    let document = texts.document(&params.text_document.uri)?;
    let formatted = syntax::format(&Source::new(&document.path, document.text.as_str())).ok()?;
    Some(edit(&document.text, &formatted, &document.lines).into_iter().collect())
}

/// One edit that replaces only the lines that differ, so that the editor's cursor elsewhere does not move.
fn edit(old: &str, new: &str, lines: &Lines) -> Option<TextEdit> {
    if old == new {
        return None;
    }
    let same = old.split_inclusive('\n').zip(new.split_inclusive('\n')).take_while(|(a, b)| a == b);
    let start: usize = same.map(|(line, _)| line.len()).sum();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let same = old_rest.split_inclusive('\n').rev().zip(new_rest.split_inclusive('\n').rev());
    let end: usize = same.take_while(|(a, b)| a == b).map(|(line, _)| line.len()).sum();
    let at = |byte: usize| -> Position { lines.position(old, byte as u32) };
    let range = Range::new(at(start), at(old.len() - end));
    Some(TextEdit::new(range, new_rest[..new_rest.len() - end].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_has_only_the_lines_that_differ() {
        let check = |old: &str, new: &str, expected: Option<(u32, u32, &str)>| {
            let found = edit(old, new, &Lines::of(old));
            let found = found.map(|e| (e.range.start.line, e.range.end.line, e.new_text));
            assert_eq!(found, expected.map(|(a, b, text)| (a, b, text.to_owned())), "{old:?} to {new:?}");
        };
        check("a\nb\nc\n", "a\nb\nc\n", None);
        check("a\n b\nc\n", "a\nb\nc\n", Some((1, 2, "b\n")));
        check("a\n\n\n\nc\n", "a\n\nc\n", Some((2, 4, "")));
        check("a\na\n", "a\na\na\n", Some((2, 2, "a\n")));
        check("", "a\n", Some((0, 0, "a\n")));
        check("a", "a\n", Some((0, 0, "a\n")));
    }

    #[test]
    fn comments_before_a_definition_are_its_description() {
        let check = |text: &str, expected: Option<&str>| {
            let start = text.find("box").unwrap();
            assert_eq!(comment_before(text, start).as_deref(), expected, "{text}");
        };
        check("// Cuts\n// lines.\nbox f", Some("Cuts\nlines."));
        check("//! snet\nbox f", None);
        check("/* Cuts\n * lines. */\n  box f", Some("Cuts\nlines."));
        check("// of g\nnet g;\n\nbox f", None);
        check("// gone\n\nbox f", None);
        check("net a { box f", None);
    }
}

//! Syntax trees compared without the places of their parts.

use thalweg_net::syntax::ast::File;

/// The tree as text, each place left out.
pub(crate) fn without_places(file: &File) -> String {
    let shown = format!("{file:?}");
    let mut out = String::with_capacity(shown.len() / 2);
    let mut rest = shown.as_str();
    while let Some(at) = rest.find("Span { start: ") {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('}').map_or(rest.len(), |length| at + length + 1);
        rest = &rest[end..];
    }
    out + rest
}

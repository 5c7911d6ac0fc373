//! Definitions that are never used.

use super::index::{DefinitionKind, Index};
use crate::syntax::Diagnostic;

/// Gives one warning for each definition that no name refers to, except for nets that have the name of their
/// file.
pub(super) fn check(index: &Index) -> Vec<Diagnostic> {
    let mut used = vec![false; index.definitions.len()];
    index.mains.iter().for_each(|&main| used[main] = true);
    for reference in &index.references {
        used[reference.definition] |= reference.at != index.definitions[reference.definition].at;
    }
    let mut found = Vec::new();
    for (definition, _) in index.definitions.iter().zip(used).filter(|(_, used)| !used) {
        let source = &index.sources[definition.at.source.0 as usize];
        let name = &definition.name;
        let (code, what) = match definition.kind {
            DefinitionKind::Box => ("W0606", "box"),
            DefinitionKind::Net => ("W0605", "net"),
            DefinitionKind::Type => ("W0605", "type"),
            DefinitionKind::Typesig => ("W0605", "signature"),
        };
        let message = format!("the {what} `{name}` is never used");
        let warning = Diagnostic::warning(code, message, source, definition.at.span);
        found.push(warning.label("never used").help("use it, or remove it"));
    }
    found
}

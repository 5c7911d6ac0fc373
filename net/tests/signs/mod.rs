//! The words and signs of the language, from the lexer's source.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The text of a file, given its path from the root.
pub(crate) fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The words and signs of the lexer's source.
pub(crate) fn of_the_lexer() -> BTreeSet<String> {
    let source = file("net/src/syntax/lexer.rs");
    let (_, tokens) = source.split_once("tokens! {\n").expect("the lexer's tokens");
    let (tokens, _) = tokens.split_once("\n}").unwrap();
    let signs: BTreeSet<String> = tokens
        .split(", ")
        .flat_map(|t| t.split(",\n"))
        .map(|t| t.split('"').nth(1).unwrap().replace("\\\\", "\\"))
        .collect();
    assert!(signs.len() > 40, "{signs:?}");
    signs
}

//! From syntax trees to a resolved net: names, external nets, types.
//!
//! The check of a program reads the main file and the files of the external nets that it uses, resolves
//! every name, infers types, and reports all errors in one run. Invariant: a [`Resolved`] exists only if
//! there was no error; a well-formed program that could run is not rejected (where inference is not sure, it
//! reports nothing).
//!
//! ```
//! use thalweg_net::check;
//!
//! let text = "net main { box inc ((x) -> (x)); } connect inc .. inc;";
//! let checked = check::check_text("main", text, None);
//! assert!(checked.diagnostics.is_empty());
//! let resolved = checked.resolved.unwrap();
//! assert_eq!(&*resolved.net(resolved.main).name, "main");
//! ```

#![forbid(unsafe_code)]

mod implementations;
mod index;
mod names;
mod resolved;
mod shape;
mod signatures;
mod types;
mod unused;

use std::path::Path;
use std::sync::Arc;

pub use implementations::KnownBoxes;
pub use index::{Definition, DefinitionKind, Files, Index, Reference};
pub use resolved::{
    Arrow, BoxId, BoxUse, DEPTH_MAX, LabelSet, Net, NetId, Node, NodeKind, Place, Resolved, SourceId,
};
pub use signatures::{ComponentSignature, Inferred, NetSignature, Signatures};

use crate::syntax::{Diagnostic, Source, Span};

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The program; `None` if there is an error.
    pub resolved: Option<Resolved>,
    /// Errors and warnings, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

/// The result of a check for an editor.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The program; `None` if there is an error.
    pub resolved: Option<Resolved>,
    /// Errors and warnings, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
    /// Definitions and references, as far as the text could be read.
    pub index: Index,
    /// Signatures, as far as they could be inferred.
    pub signatures: Signatures,
}

/// Checks the net of a file: the net named like the file. External nets are found in the files beside this
/// file. With `boxes`, each box that is used must be among them with the same signature.
pub fn check_file(path: &Path, boxes: Option<&KnownBoxes>) -> Checked {
    check_names(names::resolve_file(path, &Files::default(), boxes), boxes, false).into()
}

/// Checks the net `name` of a text. The text cannot use external nets.
pub fn check_text(name: &str, text: &str, boxes: Option<&KnownBoxes>) -> Checked {
    check_names(names::resolve_text(name, text, boxes), boxes, false).into()
}

/// Checks as [`check_file`] does, and returns all that is known of the text, with or without errors. Texts in
/// `files` replace those in the file system, so that an editor can check unsaved texts.
///
/// ```
/// use std::path::Path;
/// use thalweg_net::check::{Files, analyse};
///
/// let mut files = Files::default();
/// let path = Path::new("twice.snet");
/// files.give(path, "net twice { box inc ((x, <n>) -> (x)); } connect inc .. [{x} -> {y = x}];");
/// let analysis = analyse(path, &files, None);
/// assert!(analysis.diagnostics.is_empty());
/// let file = analysis.index.source(path).unwrap();
/// let (_, definition) = analysis.index.definition_at(file, 52).unwrap();
/// assert_eq!((&*definition.name, definition.at.span.start), ("inc", 16));
/// let twice = analysis.signatures.of_definition(definition.at).is_none();
/// assert!(twice, "a box is declared, nothing is inferred");
/// assert_eq!(analysis.signatures.nets[0].to_string(), "{x, <n>} -> {y}");
/// assert_eq!(analysis.signatures.component_at(file, 60).unwrap().to_string(), "{x} -> {y}");
/// ```
pub fn analyse(path: &Path, files: &Files, boxes: Option<&KnownBoxes>) -> Analysis {
    check_names(names::resolve_file(path, files, boxes), boxes, true)
}

fn check_names(names: names::Names, boxes: Option<&KnownBoxes>, signatures: bool) -> Analysis {
    let names::Names { mut draft, main, mut diagnostics, index } = names;
    let used = main.map_or(0, |(_, boxes)| boxes);
    diagnostics.extend(boxes.iter().flat_map(|known| implementations::check(&draft, used, known)));
    let (told, signatures) = types::check(&mut draft, signatures);
    diagnostics.extend(told);
    // If names could not be resolved, a definition may seem unused although it is used, so no warnings about
    // unused definitions are given.
    if !diagnostics.iter().any(|d| d.is_error() && d.code < "E04") {
        diagnostics.extend(unused::check(&index));
    }
    sort(&mut diagnostics, &index.sources);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    let resolved = main.filter(|_| sound).map(|(nets, boxes)| {
        draft.nets.truncate(nets);
        draft.boxes.truncate(boxes);
        draft
    });
    Analysis { resolved, diagnostics, index, signatures }
}

impl From<Analysis> for Checked {
    fn from(analysis: Analysis) -> Checked {
        Checked { resolved: analysis.resolved, diagnostics: analysis.diagnostics }
    }
}

/// Sorts by source, then by place.
fn sort(diagnostics: &mut [Diagnostic], sources: &[Arc<Source>]) {
    let key = |d: &Diagnostic| -> (usize, Span) {
        let Some(primary) = &d.primary else { return (0, Span::default()) };
        let source = sources.iter().position(|s| Arc::ptr_eq(s, &primary.source));
        (source.unwrap_or(sources.len()), primary.span)
    };
    diagnostics.sort_by_cached_key(key);
}

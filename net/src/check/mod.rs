//! From syntax trees to a resolved net: names, external nets, types.
//!
//! Noun: the *checked program*. Job: read the main file and the files of the external nets it uses, resolve every
//! name, infer types, and tell all that is wrong in one run. Invariant: a [`Resolved`] exists only if there was
//! no error; a well-formed program that could run is not rejected (where inference can't be sure it is silent).
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
mod names;
mod resolved;
mod shape;
mod types;
mod unsupported;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use resolved::{
    Arrow, BoxId, BoxUse, DEPTH_MAX, LabelSet, Net, NetId, Node, NodeKind, Place, Resolved, SourceId,
};
pub use unsupported::unsupported;

use crate::syntax::ast::BoxSignature;
use crate::syntax::{Diagnostic, Source, Span, parse_box};

/// The boxes there are implementations of: name → signature, arguments in order.
#[derive(Clone, Debug, Default)]
pub struct KnownBoxes {
    /// The signatures by name.
    pub boxes: BTreeMap<String, BoxSignature>,
}

impl KnownBoxes {
    /// Adds a box by its declaration, such as `box inc ((x) -> (x))`; `from` names where it comes from, for
    /// errors. A box of the same name is replaced.
    pub fn add(&mut self, from: &str, declaration: &str) -> Result<(), Vec<Diagnostic>> {
        let def = parse_box(&Source::new(from, declaration))?;
        self.boxes.insert(def.name.name.to_string(), def.signature);
        Ok(())
    }
}

/// What checking gives.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The program; `None` if there is an error.
    pub resolved: Option<Resolved>,
    /// Errors and warnings, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks the net of a file: the net named like the file. External nets are found beside it.
/// With `boxes`, each box that is used must be among them with the same signature.
pub fn check_file(path: &Path, boxes: Option<&KnownBoxes>) -> Checked {
    check_names(names::resolve_file(path, boxes), boxes)
}

/// Checks the net `name` of a text. There are no external nets.
pub fn check_text(name: &str, text: &str, boxes: Option<&KnownBoxes>) -> Checked {
    check_names(names::resolve_text(name, text, boxes), boxes)
}

fn check_names(names: names::Names, boxes: Option<&KnownBoxes>) -> Checked {
    let names::Names { mut draft, syntax_ok, mut diagnostics, sources } = names;
    if let Some(draft) = &mut draft {
        diagnostics.extend(boxes.iter().flat_map(|known| implementations::check(draft, known)));
        if syntax_ok {
            diagnostics.extend(types::check(draft));
        }
    }
    sort(&mut diagnostics, &sources);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    Checked { resolved: draft.filter(|_| sound), diagnostics }
}

/// By source, then by place.
fn sort(diagnostics: &mut [Diagnostic], sources: &[Arc<Source>]) {
    let key = |d: &Diagnostic| -> (usize, Span) {
        let Some(primary) = &d.primary else { return (0, Span::default()) };
        let source = sources.iter().position(|s| Arc::ptr_eq(s, &primary.source));
        (source.unwrap_or(sources.len()), primary.span)
    };
    diagnostics.sort_by_cached_key(key);
}

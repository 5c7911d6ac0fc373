//! Compares declared boxes with the boxes that have implementations.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::resolved::{BoxUse, Resolved};
use crate::syntax::ast::BoxSignature;
use crate::syntax::{Diagnostic, Source, Span, parse_box};

/// The boxes that have an implementation: name → signature, arguments in order.
#[derive(Clone, Debug, Default)]
pub struct KnownBoxes {
    /// The boxes' signatures, by name.
    pub boxes: BTreeMap<String, BoxSignature>,
    /// Whether boxes whose code is a command may run it.
    pub commands: bool,
}

impl KnownBoxes {
    /// Adds a box by its declaration, such as `box inc ((x) -> (x))`; `from` is what error messages call the
    /// declaration's source. A box of the same name is replaced.
    pub fn add(&mut self, from: &str, declaration: &str) -> Result<(), Vec<Diagnostic>> {
        let def = parse_box(&Source::new(from, declaration))?;
        self.boxes.insert(def.name.name.to_string(), def.signature);
        Ok(())
    }
}

/// Reports boxes without an implementation, and those whose implementation has another signature, among the
/// first `used` boxes, which are those of the main net.
pub(super) fn check(resolved: &Resolved, used: usize, known: &KnownBoxes) -> Vec<Diagnostic> {
    resolved.boxes[..used].iter().filter_map(|used| check_box(resolved, used, known)).collect()
}

fn check_box(resolved: &Resolved, used: &BoxUse, known: &KnownBoxes) -> Option<Diagnostic> {
    let name = &*used.name;
    let source = resolved.source(used.at);
    let Some(signature) = known.boxes.get(name) else {
        if let Some((_, command)) = used.command() {
            return (!known.commands).then(|| refused_command(name, command, source, used.at.span));
        }
        let message = format!("box `{name}` has no implementation");
        let mut error = Diagnostic::error("E0401", message, source, used.at.span)
            .label("not in a library that was given");
        if let Some(near) = thalweg_pack::nearest(name, known.boxes.keys().map(String::as_str)) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        if let Some(code) = used.codes.first() {
            let text = format!("its {} code in the text is kept, but not compiled", code.language);
            error = error.remark(text);
        }
        return Some(error.help("give the library that has it: `--boxes LIB`"));
    };
    // A declaration whose signature could not be read was reported before, so it is not compared.
    if signature.same_as(&used.signature) || used.signature.is_hole() {
        return None;
    }
    let message = format!("box `{name}` is implemented with another signature");
    let error = Diagnostic::error("E0402", message, source, used.signature.span)
        .label("declared here")
        .remark(format!("declared:    {}\nimplemented: {signature}", used.signature))
        .help(format!("write `box {name} ({signature});`"));
    Some(error)
}

/// The error of a command that the user has not allowed: a network's text must not start programs by itself.
fn refused_command(name: &str, command: &str, source: &Arc<Source>, span: Span) -> Diagnostic {
    Diagnostic::error("E0403", format!("box `{name}` runs a command"), source, span)
        .label("may not without your consent")
        .remark(format!("the command: {command}"))
        .help("if you trust it: `--allow-exec`")
}

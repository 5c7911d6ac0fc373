//! A network that is ready to run: a checked program with an implementation for each of its boxes.
//!
//! ```
//! use thalweg_box::Out;
//! use thalweg_net::{Boxes, Network};
//!
//! let boxes = Boxes::new().with("box inc ((x) -> (x))", |x: i64, out: &mut Out| out.emit((x + 1,)));
//! let network = Network::parse("twice", "net twice { box inc ((x) -> (x)); } connect inc .. inc;", &boxes)?;
//! assert!(network.warnings().is_empty());
//!
//! let errors = Network::parse("twice", "net twice connect inc .. inx;", &boxes).unwrap_err();
//! assert!(!errors.is_empty());
//! # Ok::<(), Vec<thalweg_net::syntax::Diagnostic>>(())
//! ```

use std::path::Path;
use std::sync::Arc;

use crate::boxes::{Boxes, Implementation};
use crate::check::{self, BoxId, Checked, Resolved};
use crate::syntax::Diagnostic;

/// A network: what [`Network::start`] unfolds into tasks. Can be started several times.
#[derive(Debug)]
pub struct Network {
    pub(crate) resolved: Resolved,
    /// In the order of `resolved.boxes`.
    implementations: Vec<Implementation>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Network {
    /// Reads the network in a file: the net named like the file. External nets are found beside it.
    ///
    /// # Errors
    /// All that is wrong with the text and the boxes it uses.
    pub fn load(path: &Path, boxes: &Boxes) -> Result<Network, Vec<Diagnostic>> {
        Network::new(check::check_file(path, Some(&boxes.known())), boxes)
    }

    /// Reads the network `name` from a text without external nets.
    ///
    /// # Errors
    /// As [`Network::load`].
    pub fn parse(name: &str, text: &str, boxes: &Boxes) -> Result<Network, Vec<Diagnostic>> {
        Network::new(check::check_text(name, text, Some(&boxes.known())), boxes)
    }

    fn new(checked: Checked, boxes: &Boxes) -> Result<Network, Vec<Diagnostic>> {
        let Some(resolved) = checked.resolved else { return Err(checked.diagnostics) };
        let mut diagnostics = checked.diagnostics;
        let mut implementations = Vec::with_capacity(resolved.boxes.len());
        for declared in &resolved.boxes {
            match boxes.get(&declared.name) {
                Some(implementation) if implementation.signature.same_as(&declared.signature) => {
                    implementations.push(implementation.clone());
                }
                // Checking says so too; this is for a program that was checked without these boxes.
                _ => diagnostics.push(Diagnostic::error(
                    "E0401",
                    format!("there is no implementation of the box `{}` with this signature", declared.name),
                    resolved.source(declared.at),
                    declared.at.span,
                )),
            }
        }
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(diagnostics);
        }
        Ok(Network { resolved, implementations, warnings: diagnostics })
    }

    /// What is doubtful about the network, though it can run.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The name of the main net.
    pub fn name(&self) -> Arc<str> {
        self.resolved.net(self.resolved.main).name.clone()
    }

    pub(crate) fn implementation(&self, id: BoxId) -> &Implementation {
        &self.implementations[id.0 as usize]
    }
}

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

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::boxes::{Boxes, EntryOf};
use crate::check::{self, BoxId, Checked, Resolved};
use crate::error::Error;
use crate::run::boxed::seat::Seats;
use crate::syntax::Diagnostic;
use crate::syntax::ast::CommandMode;
use thalweg_space::Space;

/// A network that [`Network::start`] unfolds into tasks. A network can be started several times.
#[derive(Debug)]
pub struct Network {
    pub(crate) resolved: Resolved,
    /// The implementations, in the order of `resolved.boxes`; `None` for boxes that are commands.
    implementations: Vec<Option<Arc<Seats>>>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl Network {
    /// Reads the network in a file: the net named like the file. External nets are found beside the file.
    ///
    /// # Errors
    /// All errors of the text and of the boxes it uses.
    pub fn load(path: &Path, boxes: &Boxes) -> Result<Network, Vec<Diagnostic>> {
        Network::new(check::check_file(path, Some(&boxes.known())), boxes)
    }

    /// Reads the network `name` from a text without external nets.
    ///
    /// # Errors
    /// The errors of [`Network::load`].
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
                    implementations.push(Some(Seats::new(implementation.entry.clone())));
                }
                None if boxes.runs_commands() && declared.command().is_some() => {
                    implementations.push(None);
                }
                // If the program was checked with these boxes, the check has reported this error before; a
                // program that was checked without them gets the error here.
                implementation => {
                    let (code, wrong) = match implementation {
                        None => ("E0401", "has no implementation"),
                        Some(_) => ("E0402", "is implemented with another signature"),
                    };
                    let message = format!("box `{}` {wrong}", declared.name);
                    let source = resolved.source(declared.at);
                    diagnostics.push(Diagnostic::error(code, message, source, declared.at.span));
                }
            }
        }
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(diagnostics);
        }
        Ok(Network { resolved, implementations, warnings: diagnostics })
    }

    /// The warnings about the network, which can run nevertheless.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The name of the main net.
    pub fn name(&self) -> Arc<str> {
        self.resolved.net(self.resolved.main).name.clone()
    }

    /// The implementations of all boxes except commands.
    pub(crate) fn implementations(&self) -> impl Iterator<Item = &Arc<Seats>> {
        self.implementations.iter().flatten()
    }

    /// The command that a box runs, if it is a command, and the command's mode.
    pub(crate) fn command(&self, id: BoxId) -> Option<(CommandMode, &str)> {
        match self.implementations[id.0 as usize] {
            Some(_) => None,
            None => self.resolved.box_use(id).command(),
        }
    }

    /// The files of the libraries that the network's boxes come from, each once.
    pub(crate) fn libraries(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for seats in self.implementations.iter().flatten() {
            let EntryOf::Library(entry) = seats.current() else { continue };
            let file = entry.library().path();
            if !files.iter().any(|other| other == file) {
                files.push(file.to_owned());
            }
        }
        files
    }

    pub(crate) fn implementation(&self, id: BoxId) -> &Arc<Seats> {
        self.implementations[id.0 as usize].as_ref().expect("a box that is no command")
    }

    /// Prepares the replacement of this network's box libraries by newly loaded ones, in all its runs:
    /// `before` are the boxes with which the network was made, `boxes` are the result of [`Boxes::reload`].
    /// Runs the `init` of the new libraries; `space` is the space in which the networks are observed.
    ///
    /// # Errors
    /// A box that the network uses is missing, has another signature, or is blocking in one version only; or
    /// an `init` failed. In this case nothing was changed.
    pub fn reload(&self, before: &Boxes, boxes: &Boxes, space: Option<&Space>) -> Result<Replacement, Error> {
        let mut replaced = Vec::new();
        for (seats, declared) in self.implementations.iter().zip(&self.resolved.boxes) {
            let Some(seats) = seats else { continue };
            let current = seats.current();
            if boxes.has_library_of(&current) {
                continue;
            }
            let name = &declared.name;
            let new = boxes.get(name).ok_or_else(|| Error::new(format!("the box `{name}` is missing")))?;
            if !new.signature.same_as(&declared.signature) {
                let (was, is) = (&declared.signature, &new.signature);
                return Err(Error::new(format!("the box `{name}` was ({was}) and is ({is})")));
            }
            if new.entry.is_blocking() != current.is_blocking() {
                return Err(Error::new(format!("the box `{name}` is blocking in one of them only")));
            }
            replaced.push((seats.clone(), new.entry.clone()));
        }
        replaced.iter().try_for_each(|(_, entry)| entry.start(space))?;
        Ok(Replacement { replaced, before: before.clone(), boxes: boxes.clone() })
    }
}

/// The longest time for which a program should wait, after a replacement of libraries has begun, until calls of
/// the old libraries have returned.
pub const CALLS_MAX: Duration = Duration::from_secs(2);

/// A prepared replacement of libraries.
#[derive(Debug)]
pub struct Replacement {
    replaced: Vec<(Arc<Seats>, EntryOf)>,
    before: Boxes,
    boxes: Boxes,
}

impl Replacement {
    /// Makes each task use the new boxes after its present call, and waits for these calls. The old libraries
    /// are unloaded when no value refers to them any more: now, or when
    /// [`unload_unused`](crate::library::unload_unused) is called.
    pub fn finish(self) {
        let Replacement { replaced, before, boxes } = self;
        before.replaced(&boxes);
        replaced.into_iter().for_each(|(seats, entry)| seats.replace(entry));
    }

    /// Does what [`Replacement::finish`] does on a thread of its own; the receiver gets a message when that has
    /// ended.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn finish_apart(self) -> std::io::Result<Receiver<()>> {
        let (sender, finished) = channel();
        let replace = move || {
            self.finish();
            // An error is ignored, because the receiver may have been dropped after a time limit.
            let _ = sender.send(());
        };
        std::thread::Builder::new().name("reload".into()).spawn(replace)?;
        Ok(finished)
    }
}

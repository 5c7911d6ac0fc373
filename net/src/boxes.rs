//! Implementations of boxes: the functions that a network's `box` declarations refer to.
//!
//! The *registry* of boxes keeps each implementation with its declared signature, from Rust
//! functions and from libraries. Invariant of the registry: names are unique, and a function has as many
//! arguments as its signature.
//!
//! ```
//! use thalweg_box::Out;
//! use thalweg_net::Boxes;
//!
//! let boxes = Boxes::new()
//!     .with("box inc ((x) -> (x))", |x: i64, out: &mut Out| out.emit((x + 1,)))
//!     .with("box halve ((x) -> (x) | (odd))", |x: i64, out: &mut Out| match x % 2 {
//!         0 => out.emit((x / 2,)),
//!         _ => out.emit_variant(2, (x,)),
//!     });
//! assert_eq!(boxes.names().collect::<Vec<_>>(), ["halve", "inc"]);
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use thalweg_box::abi::event::EventSpec;
use thalweg_box::abi::map_key::MapKeySpec;
use thalweg_box::abi::parameter::ParameterSpec;
use thalweg_box::{BoxEntry, BoxFunction};
use thalweg_space::Space;

use crate::check::KnownBoxes;
use crate::error::Error;
use crate::library::{Library, LibraryBox, Loading};
use crate::syntax::ast::BoxSignature;
use crate::syntax::{Source, parse_box};

/// The registry of the boxes that networks can use, by name.
#[derive(Clone, Debug, Default)]
pub struct Boxes {
    implementations: BTreeMap<String, Implementation>,
    libraries: Vec<Arc<Library>>,
    runs_commands: bool,
}

/// An implementation of a box.
#[derive(Clone, Debug)]
pub(crate) struct Implementation {
    pub(crate) signature: BoxSignature,
    pub(crate) entry: EntryOf,
    /// Where the box comes from, as error messages name it.
    from: String,
}

/// The owner of an entry: a library, which the entry keeps loaded, or the program that made it.
#[derive(Clone, Debug)]
pub(crate) enum EntryOf {
    Library(LibraryBox),
    Program(Arc<BoxEntry>),
}

impl std::ops::Deref for EntryOf {
    type Target = BoxEntry;
    #[inline]
    fn deref(&self) -> &BoxEntry {
        match self {
            EntryOf::Library(entry) => entry,
            EntryOf::Program(entry) => entry,
        }
    }
}

impl EntryOf {
    /// Prepares the library of the entry, if it has one, for calls by networks whose events are recorded in
    /// `space`.
    pub(crate) fn start(&self, space: Option<&Space>) -> Result<(), Error> {
        match self {
            EntryOf::Library(entry) => entry.library().start(space),
            EntryOf::Program(_) => Ok(()),
        }
    }
}

impl Implementation {
    pub(crate) fn from(&self) -> &str {
        &self.from
    }
}

impl Boxes {
    /// An empty registry.
    pub fn new() -> Boxes {
        Boxes::default()
    }

    /// Adds the box `function` under its signature in S-Net text.
    ///
    /// # Errors
    /// The signature cannot be parsed, its number of arguments is not that of the function, or the name is
    /// already used.
    pub fn add<F: BoxFunction<A>, A: 'static>(&mut self, signature: &str, function: F) -> Result<(), Error> {
        let entry = EntryOf::Program(Arc::new(BoxEntry::new(signature, function)));
        self.insert(entry, "this program")
    }

    /// Adds a box as [`Boxes::add`] does, for signatures that are part of the program's source.
    ///
    /// # Panics
    /// If `add` returns an error.
    #[must_use]
    pub fn with<F: BoxFunction<A>, A: 'static>(mut self, signature: &str, function: F) -> Boxes {
        if let Err(error) = self.add(signature, function) {
            panic!("{error}");
        }
        self
    }

    /// Adds a box as [`Boxes::with`] does, if the box may wait (for files, sockets, time): such a box gets a
    /// thread of its own, so that it never stalls a worker.
    ///
    /// # Panics
    /// If [`Boxes::add`] would return an error.
    #[must_use]
    pub fn with_blocking<F: BoxFunction<A>, A: 'static>(mut self, signature: &str, function: F) -> Boxes {
        let entry = EntryOf::Program(Arc::new(BoxEntry::new(signature, function).blocking()));
        if let Err(error) = self.insert(entry, "this program") {
            panic!("{error}");
        }
        self
    }

    /// Adds all boxes of a library file made with `thalweg_box::library!` or `thalweg.h`. The library stays loaded for the
    /// rest of the process.
    ///
    /// # Errors
    /// The file is missing or no box library, was built for another version of the interface, or has a box
    /// whose name is taken. If loading fails, none of the library's boxes is added.
    pub fn load_library(&mut self, path: &Path) -> Result<(), Error> {
        self.load_library_as(path, Loading::Stays)
    }

    /// Loads a library as [`Boxes::load_library`] does, either for the rest of the process or so that it can
    /// be replaced.
    ///
    /// # Errors
    /// The errors of [`Boxes::load_library`], and an error when a copy cannot be made.
    pub fn load_library_as(&mut self, path: &Path, loading: Loading) -> Result<(), Error> {
        *self = self.with_library(Library::load(path, loading)?, path)?;
        Ok(())
    }

    /// A copy of this registry for which one library file is loaded again. The file was loaded before as
    /// [`Loading::Replaceable`]. Networks continue with their present boxes until
    /// [`Network::reload`](crate::Network::reload).
    ///
    /// # Errors
    /// No library was loaded from this file, it cannot be loaded now, or it has a box whose name is taken.
    pub fn reload(&self, path: &Path) -> Result<Boxes, Error> {
        self.replace(path, path)
    }

    /// The registry with the library at `path` replaced by the one in the file `by`, as
    /// [`Boxes::reload`] replaces it by its present file.
    ///
    /// # Errors
    /// The errors of [`Boxes::reload`].
    pub fn replace(&self, path: &Path, by: &Path) -> Result<Boxes, Error> {
        let wanted = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !self.libraries.iter().any(|library| library.path() == wanted) {
            let loaded: Vec<String> =
                self.libraries.iter().map(|library| library.path().display().to_string()).collect();
            let loaded = if loaded.is_empty() { "none".to_owned() } else { loaded.join(", ") };
            return Err(Error::new(format!(
                "no boxes were loaded from {}; the libraries of this run: {loaded}",
                path.display()
            )));
        }
        let mut others = self.clone();
        others.libraries.retain(|library| library.path() != wanted);
        others.implementations.retain(|_, box_| match &box_.entry {
            EntryOf::Library(entry) => entry.library().path() != wanted,
            EntryOf::Program(_) => true,
        });
        others.with_library(Library::load(by, Loading::Replaceable)?, by)
    }

    /// Marks the libraries of this registry that `by` does not contain as unused, so that these libraries may
    /// be unloaded.
    pub(crate) fn replaced(&self, by: &Boxes) {
        let gone = |library: &&Arc<Library>| !by.libraries.iter().any(|other| Arc::ptr_eq(library, other));
        self.libraries.iter().filter(gone).for_each(|library| library.replace());
    }

    /// Whether an entry belongs to the program, or to a library in this registry.
    pub(crate) fn has_library_of(&self, entry: &EntryOf) -> bool {
        match entry {
            EntryOf::Library(entry) => {
                self.libraries.iter().any(|library| Arc::ptr_eq(library, entry.library()))
            }
            EntryOf::Program(_) => true,
        }
    }

    fn with_library(&self, library: Arc<Library>, path: &Path) -> Result<Boxes, Error> {
        let mut all = self.clone();
        let from = path.display().to_string();
        for entry in library.boxes() {
            all.insert(EntryOf::Library(entry), &from)?;
        }
        all.libraries.push(library);
        Ok(all)
    }

    /// The parameters that the registry's libraries share with the observers of a run.
    ///
    /// # Errors
    /// A library declares an invalid parameter.
    pub fn parameters(&self) -> Result<Vec<ParameterSpec>, Error> {
        let all: Result<Vec<_>, _> = self.libraries.iter().map(|library| library.parameters()).collect();
        Ok(all?.concat())
    }

    /// The kinds of events that boxes of the registry's libraries write.
    ///
    /// # Errors
    /// A library declares an invalid kind.
    pub fn events(&self) -> Result<Vec<EventSpec>, Error> {
        let all: Result<Vec<_>, _> = self.libraries.iter().map(|library| library.events()).collect();
        Ok(all?.concat())
    }

    /// The keys of the shared map that the registry's libraries declare.
    ///
    /// # Errors
    /// A library declares an invalid key.
    pub fn map_keys(&self) -> Result<Vec<MapKeySpec>, Error> {
        let all: Result<Vec<_>, _> = self.libraries.iter().map(|library| library.map_keys()).collect();
        Ok(all?.concat())
    }

    /// Adds the boxes of a library that is linked into this program: `entries` are those that its
    /// `thalweg_box_entries()` returns. Messages call the library `from`.
    ///
    /// # Errors
    /// The errors of [`Boxes::add`]; in this case none of the boxes is added.
    pub fn add_entries(
        &mut self,
        from: &str,
        entries: impl IntoIterator<Item = BoxEntry>,
    ) -> Result<(), Error> {
        let mut all = self.clone();
        for entry in entries {
            all.insert(EntryOf::Program(Arc::new(entry)), from)?;
        }
        *self = all;
        Ok(())
    }

    /// Allows boxes whose code is a command, `<<< exec | … >>>`, to run this command (in `sh`), unless they
    /// have another implementation.
    pub fn allow_commands(&mut self) {
        self.runs_commands = true;
    }

    pub(crate) fn runs_commands(&self) -> bool {
        self.runs_commands
    }

    /// The names of the boxes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.implementations.keys().map(String::as_str)
    }

    /// Whether the box with this name may block, and so gets a thread of its own.
    pub fn is_blocking(&self, name: &str) -> bool {
        self.get(name).is_some_and(|implementation| implementation.entry.is_blocking())
    }

    /// The names and signatures of all boxes, against which networks are checked.
    pub fn known(&self) -> KnownBoxes {
        let signatures =
            self.implementations.iter().map(|(name, box_)| (name.clone(), box_.signature.clone()));
        KnownBoxes { boxes: signatures.collect(), commands: self.runs_commands }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Implementation> {
        self.implementations.get(name)
    }

    pub(crate) fn insert(&mut self, entry: EntryOf, from: &str) -> Result<(), Error> {
        let text = entry.signature().map_err(|_| Error::new(format!("{from}: a signature is not UTF-8")))?;
        let declared = parse_box(&Source::new(from, text)).map_err(|diagnostics| {
            let first = diagnostics.first().map_or_else(String::new, |d| d.message.clone());
            Error::new(format!("{from}: cannot read the signature `{text}`: {first}"))
        })?;
        let name = declared.name.name.to_string();
        let wanted = declared.signature.input.as_ref().map_or(0, |input| input.labels.len());
        if wanted != entry.argument_count() {
            let found = entry.argument_count();
            return Err(Error::new(format!(
                "{from}: the box `{name}` has {wanted} labels in its signature `{text}`, but its function \
                 takes {found} arguments"
            )));
        }
        if let Some(other) = self.implementations.get(&name) {
            let other = &other.from;
            return Err(Error::new(format!("the box `{name}` is in {from} and in {other}: use only one")));
        }
        let implementation = Implementation { signature: declared.signature, entry, from: from.to_owned() };
        self.implementations.insert(name, implementation);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_box::Out;

    fn one(_: i64, _: &mut Out) {}

    #[test]
    fn what_is_wrong_with_a_box_is_said() {
        let fails = |signature: &str| Boxes::new().add(signature, one).unwrap_err().to_string();
        let arguments = fails("box f ((a, b) -> (c))");
        assert!(arguments.contains("has 2 labels") && arguments.contains("takes 1 arguments"), "{arguments}");
        assert!(fails("box f ((a -> (c))").contains("cannot read the signature"));
        let twice = Boxes::new().with("box f ((a) -> )", one).add("box f ((b) -> )", one).unwrap_err();
        assert_eq!(twice.to_string(), "the box `f` is in this program and in this program: use only one");
    }

    #[test]
    fn libraries_that_are_none_are_refused() {
        let load = |path: &str| format!("{:#}", Boxes::new().load_library(Path::new(path)).unwrap_err());
        let missing = load("no/such/lib.so");
        assert!(missing.starts_with("cannot load the box library no/such/lib.so: "), "{missing}");
        assert!(missing.contains("No such file"), "{missing}");
        let text = load(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(text.contains("cannot load the box library") && !text.contains('\n'), "{text}");
        assert!(load(env!("CARGO_MANIFEST_DIR")).contains("is a directory"));
    }
}

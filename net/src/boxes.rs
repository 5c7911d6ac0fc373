//! Implementations of boxes: what a network's `box` declarations stand for.
//!
//! Noun: the *registry* of boxes. Job: keep each implementation with its declared signature, from Rust functions
//! and from libraries. Invariant: names are unique, and a function takes as many arguments as its signature says.
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

use thalweg_box::{BoxEntry, BoxFunction};

use crate::check::KnownBoxes;
use crate::error::Error;
use crate::library;
use crate::syntax::ast::BoxSignature;
use crate::syntax::{Source, parse_box};

/// The boxes that networks can use, by name.
#[derive(Clone, Debug, Default)]
pub struct Boxes {
    implementations: BTreeMap<String, Implementation>,
}

/// An implementation of a box.
#[derive(Clone, Debug)]
pub(crate) struct Implementation {
    pub(crate) signature: BoxSignature,
    pub(crate) entry: EntryOf,
    /// Where it comes from, as messages say it.
    from: String,
}

/// Where an entry lives: in a library for ever, or in the program that made it.
#[derive(Clone, Debug)]
pub(crate) enum EntryOf {
    Library(&'static BoxEntry),
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

impl Implementation {
    pub(crate) fn from(&self) -> &str {
        &self.from
    }
}

impl Boxes {
    /// No boxes yet.
    pub fn new() -> Boxes {
        Boxes::default()
    }

    /// Adds the box `function` under its signature in S-Net text.
    ///
    /// # Errors
    /// The signature can't be read or has another number of arguments than the function, or there is a box of
    /// that name already.
    pub fn add<F: BoxFunction<A>, A: 'static>(&mut self, signature: &str, function: F) -> Result<(), Error> {
        let entry = EntryOf::Program(Arc::new(BoxEntry::new(signature, function)));
        self.insert(entry, "this program")
    }

    /// The same as [`Boxes::add`], for signatures that stand in the program's own text.
    ///
    /// # Panics
    /// Where `add` gives an error.
    #[must_use]
    pub fn with<F: BoxFunction<A>, A: 'static>(mut self, signature: &str, function: F) -> Boxes {
        if let Err(error) = self.add(signature, function) {
            panic!("{error}");
        }
        self
    }

    /// Adds all boxes of a library file made with `thalweg_box::library!`. The library stays loaded for the rest of
    /// the process.
    ///
    /// # Errors
    /// The file is missing or no box library, was built for another version of the interface, or has a box whose
    /// name is taken. In each case none of its boxes is added.
    pub fn load_library(&mut self, path: &Path) -> Result<(), Error> {
        let mut all = self.clone();
        let from = path.display().to_string();
        for entry in library::load(path)? {
            all.insert(EntryOf::Library(entry), &from)?;
        }
        *self = all;
        Ok(())
    }

    /// Adds boxes that a library, linked into this program as `from`, offers by `thalweg_box_entries()`.
    ///
    /// # Errors
    /// As [`Boxes::add`]; none of the boxes is added then.
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

    /// The names of the boxes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.implementations.keys().map(String::as_str)
    }

    /// Whether there is a box of this name that may wait, and so gets a thread of its own.
    pub fn is_blocking(&self, name: &str) -> bool {
        self.get(name).is_some_and(|implementation| implementation.entry.is_blocking())
    }

    /// Names and signatures, for checking networks against them.
    pub fn known(&self) -> KnownBoxes {
        let signatures =
            self.implementations.iter().map(|(name, box_)| (name.clone(), box_.signature.clone()));
        KnownBoxes { boxes: signatures.collect() }
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
        let load = |path: &str| Boxes::new().load_library(Path::new(path)).unwrap_err().to_string();
        let missing = load("no/such/lib.so");
        assert!(missing.starts_with("cannot load the box library no/such/lib.so: "), "{missing}");
        assert!(missing.contains("No such file"), "{missing}");
        let text = load(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(text.contains("cannot load the box library") && !text.contains('\n'), "{text}");
        assert!(load(env!("CARGO_MANIFEST_DIR")).contains("is a directory"));
    }
}

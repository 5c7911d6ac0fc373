//! Queries of editors on a text: where a name is defined, where it is used, and which names can be written at
//! a place.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::resolved::{Place, SourceId};
use crate::syntax::ast::Name;
use crate::syntax::{Diagnostic, Source, Span};

/// Where the check gets the texts of files: from the file system, except for files whose text [`Files::give`]
/// supplies.
#[derive(Clone, Debug, Default)]
pub struct Files {
    texts: HashMap<PathBuf, String>,
}

impl Files {
    /// Uses this text instead of the file's content; the file need not exist. An editor supplies a text that
    /// is not saved yet.
    pub fn give(&mut self, path: &Path, text: impl Into<String>) {
        self.texts.insert(absolute(path), text.into());
    }

    /// Uses the content of the file again.
    pub fn take_back(&mut self, path: &Path) {
        self.texts.remove(&absolute(path));
    }

    /// A key of a file that does not depend on how its path is written; `None` if there is no such file.
    pub(super) fn key(&self, path: &Path) -> Option<PathBuf> {
        let given = || Some(absolute(path)).filter(|key| self.texts.contains_key(key));
        std::fs::canonicalize(path).ok().or_else(given)
    }

    pub(super) fn read(&self, path: &Path) -> Result<Arc<Source>, Box<Diagnostic>> {
        match self.texts.get(&absolute(path)) {
            Some(text) => Ok(Source::new(path, text.as_str())),
            None => read_source(path),
        }
    }

    /// The names of the `.snet` files of a directory (at most 1,000), sorted.
    pub(super) fn networks(&self, dir: &Path) -> Vec<String> {
        snet_files(dir)
    }
}

/// The canonical path of a file; for a file that does not exist yet, the canonical path of its directory with
/// its name.
fn absolute(path: &Path) -> PathBuf {
    if let Ok(known) = std::fs::canonicalize(path) {
        return known;
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(dir), path.file_name()) {
        (Ok(dir), Some(name)) => dir.join(name),
        _ => path.to_path_buf(),
    }
}

fn read_source(path: &Path) -> Result<Arc<Source>, Box<Diagnostic>> {
    let wrong = |what: String| {
        Box::new(Diagnostic::error_without_place("E0304", format!("can't read `{}`: {what}", path.display())))
    };
    let file = std::fs::File::open(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            let error = wrong("there is no such file".into());
            match nearest_file(path) {
                Some(near) => Box::new(error.help(format!("did you mean `{}`?", near.display()))),
                None => error,
            }
        }
        _ => wrong(e.to_string()),
    })?;
    let mut bytes = Vec::new();
    let limit = Source::BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
    if bytes.len() > Source::BYTES_MAX {
        return Err(wrong(format!("it is longer than {} MiB", Source::BYTES_MAX >> 20)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(path, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let error = wrong(format!("it is not UTF-8 text (byte {at})"));
            Err(Box::new(error.help("save it as UTF-8; is it a network at all?")))
        }
    }
}

fn nearest_file(path: &Path) -> Option<PathBuf> {
    let dir = path.parent()?;
    let names: Vec<String> = snet_files(dir);
    let name = path.file_name()?.to_string_lossy();
    thalweg_pack::nearest(&name, names.iter().map(String::as_str)).map(|near| dir.join(near))
}

/// The names of the `.snet` files of a directory (at most 1,000), sorted.
fn snet_files(dir: &Path) -> Vec<String> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.take(1000).flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|n| n.ends_with(".snet")).collect();
    names.sort();
    names
}

/// The kinds of definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionKind {
    /// `net`
    Net,
    /// `box`
    Box,
    /// `type`
    Type,
    /// `typesig`
    Typesig,
}

/// A definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The kind.
    pub kind: DefinitionKind,
    /// The defined name.
    pub name: Name,
    /// The place of the name.
    pub at: Place,
    /// The span of the definition, in the same source.
    pub whole: Span,
    /// The part of the same source in which the name can be used: the file, or the net around the definition.
    pub seen: Span,
}

/// A name that refers to a definition; the name in the definition itself counts as a reference, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The place.
    pub at: Place,
    /// Index into [`Index::definitions`].
    pub definition: usize,
}

/// All definitions and references of a program.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The texts that were read; the first is the main file.
    pub sources: Vec<Arc<Source>>,
    /// The definitions, in the order they were read.
    pub definitions: Vec<Definition>,
    /// The references, by source and place. The name in `net x;` refers to two definitions: the declaration
    /// `net x;`, and the net in `x.snet`.
    pub references: Vec<Reference>,
    /// The definitions of nets that are named like their file.
    pub(super) mains: Vec<usize>,
}

impl Index {
    /// The source with this path.
    pub fn source(&self, path: &Path) -> Option<SourceId> {
        let wanted = absolute(path);
        let found = self.sources.iter().position(|s| s.path() == path || absolute(s.path()) == wanted);
        found.map(|i| SourceId(i as u32))
    }

    /// The definition that the name at a byte of a source refers to; for a net that is declared as external,
    /// the net in its file.
    pub fn definition_at(&self, source: SourceId, byte: u32) -> Option<(Reference, &Definition)> {
        let first = self.references.partition_point(|r| (r.at.source, r.at.span.end) < (source, byte));
        let there = self.references[first..].iter();
        let there = there.take_while(|r| r.at.source == source && r.at.span.start <= byte);
        let last = there.max_by_key(|r| self.definitions[r.definition].at.source != source)?;
        Some((*last, &self.definitions[last.definition]))
    }

    /// The places of all references to a definition, its own name included.
    pub fn references_to(&self, definition: usize) -> impl Iterator<Item = Place> {
        self.references.iter().filter(move |r| r.definition == definition).map(|r| r.at)
    }

    /// The definitions that can be used at a byte of a source, the nearest first.
    pub fn visible_at(&self, source: SourceId, byte: u32) -> Vec<&Definition> {
        let there = |d: &&Definition| d.at.source == source && d.seen.start <= byte && byte <= d.seen.end;
        let mut found: Vec<&Definition> = self.definitions.iter().filter(there).collect();
        found.sort_by_key(|d| d.seen.end - d.seen.start);
        found
    }
}

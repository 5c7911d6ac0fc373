//! The open texts, and the results of checking them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag, Location, NumberOrString,
    PublishDiagnosticsParams, Range, TextDocumentContentChangeEvent, Uri,
};
use thalweg_net::check::{Analysis, Files, KnownBoxes, Place, analyse};
use thalweg_net::syntax::{self, Note, Source, Span};

use super::document::{Lines, path_of, uri_of};

/// An open text.
pub(super) struct Document {
    uri: Uri,
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) lines: Lines,
    version: i32,
    /// The result of the last check of this text; empty after a change.
    known: OnceCell<Known>,
}

/// The results of checking a text and the texts that it uses.
pub(super) struct Known {
    pub(super) analysis: Analysis,
    /// The lines of the sources, in the order of the index's sources.
    lines: Vec<OnceCell<Lines>>,
}

/// Errors and warnings by address.
type Published = BTreeMap<String, (Uri, Vec<Diagnostic>)>;

/// All open texts.
pub(super) struct Workspace {
    boxes: Option<KnownBoxes>,
    files: Files,
    /// The open texts by their addresses.
    documents: HashMap<String, Document>,
    /// The diagnostics that were sent to the editor last, for the texts that have any.
    published: Published,
}

impl Workspace {
    pub(super) fn new(boxes: Option<KnownBoxes>) -> Workspace {
        Workspace { boxes, files: Files::default(), documents: HashMap::new(), published: BTreeMap::new() }
    }

    pub(super) fn open(&mut self, uri: Uri, version: i32, text: String) {
        let path = path_of(&uri);
        let lines = Lines::of(&text);
        self.files.give(&path, text.as_str());
        let key = uri.as_str().to_owned();
        self.documents.insert(key, Document { uri, path, text, lines, version, known: OnceCell::new() });
        self.forget_all();
    }

    pub(super) fn change(&mut self, uri: &Uri, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        let Some(document) = self.documents.get_mut(uri.as_str()) else { return };
        document.version = version;
        for change in changes {
            document.apply(change);
        }
        let path = document.path.clone();
        self.files.give(&path, document.text.as_str());
        for (other, document) in &mut self.documents {
            let uses = |known: &Known| known.analysis.index.source(&path).is_some();
            if other == uri.as_str() || document.known.get().is_some_and(uses) {
                document.known.take();
            }
        }
    }

    pub(super) fn close(&mut self, uri: &Uri) {
        if let Some(document) = self.documents.remove(uri.as_str()) {
            self.files.take_back(&document.path);
        }
        self.forget_all();
    }

    /// Discards all results, because files were added, removed or changed.
    pub(super) fn forget_all(&mut self) {
        self.documents.values_mut().for_each(|document| drop(document.known.take()));
    }

    pub(super) fn document(&self, uri: &Uri) -> Option<&Document> {
        self.documents.get(uri.as_str())
    }

    /// The names of boxes that the libraries have.
    pub(super) fn known_boxes(&self) -> impl Iterator<Item = (&str, String)> {
        let boxes = self.boxes.iter().flat_map(|known| &known.boxes);
        boxes.map(|(name, signature)| (name.as_str(), signature.to_string()))
    }

    /// The result of checking an open text. `None` if the check panicked, which is a bug in this program.
    pub(super) fn known<'a>(&'a self, document: &'a Document) -> Option<&'a Known> {
        if document.known.get().is_none() {
            let look = || analyse(&document.path, &self.files, self.boxes.as_ref());
            let analysis = catch_unwind(AssertUnwindSafe(look)).ok()?;
            let lines = analysis.index.sources.iter().map(|_| OnceCell::new()).collect();
            let _ = document.known.set(Known { analysis, lines });
        }
        document.known.get()
    }

    /// All open texts with their results.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Document, &Known)> {
        self.documents.values().filter_map(|document| Some((document, self.known(document)?)))
    }

    /// The address of a path, as the editor writes it if it knows the file.
    fn uri(&self, path: &Path) -> Option<Uri> {
        let open = self.documents.values().find(|document| document.path == path);
        open.map(|document| document.uri.clone()).or_else(|| uri_of(path))
    }

    /// A place as the protocol describes it.
    pub(super) fn location(&self, known: &Known, at: Place) -> Option<Location> {
        let source = known.analysis.index.sources.get(at.source.0 as usize)?;
        Some(Location::new(self.uri(source.path())?, known.range(source, at.span)))
    }

    /// The errors and warnings of all texts that changed since the last report to the editor.
    pub(super) fn news(&mut self) -> Vec<PublishDiagnosticsParams> {
        let found = self.diagnostics();
        let before = std::mem::take(&mut self.published);
        let gone =
            before.iter().filter(|(key, _)| !found.contains_key(*key)).map(|(_, (uri, _))| (uri, Vec::new()));
        let changed = found.iter().filter(|(key, now)| before.get(*key) != Some(*now));
        let changed = changed.map(|(_, (uri, diagnostics))| (uri, diagnostics.clone()));
        let news = gone.chain(changed).map(|(uri, diagnostics)| {
            let version = self.document(uri).map(|document| document.version);
            PublishDiagnosticsParams { version, uri: uri.clone(), diagnostics }
        });
        let news = news.collect();
        self.published = found;
        news
    }

    fn diagnostics(&self) -> Published {
        let mut found = Published::new();
        for (document, known) in self.all() {
            for problem in &known.analysis.diagnostics {
                let path =
                    problem.primary.as_ref().map_or(document.path.as_path(), |note| note.source.path());
                let Some(uri) = self.uri(path) else { continue };
                let diagnostic = self.diagnostic(known, problem);
                found.entry(uri.as_str().to_owned()).or_insert((uri, Vec::new())).1.push(diagnostic);
            }
        }
        // A text that several open texts use is checked with each of them, in any order; its errors are
        // sorted, and each is kept once.
        for (_, diagnostics) in found.values_mut() {
            diagnostics.sort_by_cached_key(|d| (d.range.start, d.range.end, d.message.clone()));
            diagnostics.dedup();
        }
        found
    }

    fn diagnostic(&self, known: &Known, problem: &syntax::Diagnostic) -> Diagnostic {
        let label = problem.primary.as_ref().map_or("", |note| note.text.as_str());
        let mut message = problem.message.clone();
        if !label.is_empty() {
            message += &format!(": {label}");
        }
        problem.remarks.iter().for_each(|remark| message += &format!("\nnote: {remark}"));
        problem.helps.iter().for_each(|help| message += &format!("\nhelp: {help}"));
        let place = |note: &Note| -> Option<Location> {
            Some(Location::new(self.uri(note.source.path())?, known.range(&note.source, note.span)))
        };
        let also = problem.others.iter().filter_map(|note| {
            let location = place(note)?;
            Some(DiagnosticRelatedInformation { location, message: note.text.clone() })
        });
        let also: Vec<_> = also.collect();
        let severity =
            if problem.is_error() { DiagnosticSeverity::ERROR } else { DiagnosticSeverity::WARNING };
        let unused = matches!(problem.code, "W0601" | "W0605" | "W0606");
        Diagnostic {
            range: problem
                .primary
                .as_ref()
                .map_or(Range::default(), |note| known.range(&note.source, note.span)),
            severity: Some(severity),
            code: Some(NumberOrString::String(problem.code.to_owned())),
            source: Some("thalweg".to_owned()),
            message,
            related_information: (!also.is_empty()).then_some(also),
            tags: unused.then(|| vec![DiagnosticTag::UNNECESSARY]),
            ..Diagnostic::default()
        }
    }
}

impl Document {
    fn apply(&mut self, change: TextDocumentContentChangeEvent) {
        match change.range {
            Some(range) => {
                let start = self.lines.byte(&self.text, range.start) as usize;
                let end = self.lines.byte(&self.text, range.end) as usize;
                self.text.replace_range(start..end.max(start), &change.text);
            }
            None => self.text = change.text,
        }
        self.lines = Lines::of(&self.text);
    }
}

impl Known {
    /// A span of one of the sources, as the protocol describes it.
    pub(super) fn range(&self, source: &Arc<Source>, span: Span) -> Range {
        let at = self.analysis.index.sources.iter().position(|s| Arc::ptr_eq(s, source));
        match at {
            Some(at) => self.lines[at].get_or_init(|| Lines::of(source.text())).range(source.text(), span),
            None => Lines::of(source.text()).range(source.text(), span),
        }
    }
}

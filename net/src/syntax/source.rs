//! A source text with its name, and places in it.
//!
//! A [`Source`] is shared by everything that refers to it (`Arc`), so that a diagnostic can be kept anywhere
//! and still show its line. A [`Span`] is a range of bytes of *one* source; the source is known from the
//! context of the span (a syntax tree belongs to one source; a resolved net names its own).

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A range of bytes `start..end` of a source. `start <= end`, both on character boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`.
    pub fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end);
        Span { start: start as u32, end: end as u32 }
    }

    /// The smallest span that contains both spans.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// A span of the same length, `by` bytes further on.
    pub(crate) fn shift(self, by: u32) -> Span {
        Span { start: self.start + by, end: self.end + by }
    }

    /// The empty span right after this one.
    pub fn after(self) -> Span {
        Span { start: self.end, end: self.end }
    }
}

/// Line and column, from 1, with columns counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A text in S-Net with the path it was read from (or the name it was given).
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    path: PathBuf,
    text: String,
    line_starts: Vec<u32>,
}

impl Source {
    /// The longest accepted source, in bytes: positions are 32 bits wide.
    pub const BYTES_MAX: usize = 1 << 26;

    /// A source of this text; diagnostics show `path` as its name. The text is cut at [`Source::BYTES_MAX`]
    /// (the readers of files refuse longer ones before).
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Arc<Source> {
        let mut text = text.into();
        if text.len() > Source::BYTES_MAX {
            let cut = (0..=Source::BYTES_MAX).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(cut);
        }
        let mut line_starts = vec![0];
        line_starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1));
        Arc::new(Source { path: path.into(), text, line_starts })
    }

    /// The path it was read from, as the user wrote it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span ("" for a span outside this source).
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// Line and column of a byte.
    pub fn line_column(&self, byte: u32) -> LineColumn {
        let line = self.line_starts.partition_point(|&start| start <= byte) - 1;
        let start = self.line_starts[line] as usize;
        let mut end = (byte as usize).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        LineColumn { line: line as u32 + 1, column: self.text[start..end].chars().count() as u32 + 1 }
    }

    /// Number of lines.
    pub fn line_count(&self) -> u32 {
        self.line_starts.len() as u32
    }

    /// The span of a line (from 1), without its line break.
    pub(crate) fn line_span(&self, line: u32) -> Span {
        let start = self.line_starts[line as usize - 1] as usize;
        let end = self.line_starts.get(line as usize).map_or(self.text.len(), |&next| next as usize - 1);
        let end = if end > start && self.text.as_bytes()[end - 1] == b'\r' { end - 1 } else { end };
        Span::new(start, end.max(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let source = Source::new("a.snet", "ab\näöü x\r\n");
        let at = |byte| source.line_column(byte);
        assert_eq!(at(0), LineColumn { line: 1, column: 1 });
        assert_eq!(at(2), LineColumn { line: 1, column: 3 });
        assert_eq!(at(3), LineColumn { line: 2, column: 1 });
        assert_eq!(at(10), LineColumn { line: 2, column: 5 });
        assert_eq!(at(13), LineColumn { line: 3, column: 1 });
        assert_eq!(source.slice(source.line_span(2)), "äöü x");
        assert_eq!(source.slice(source.line_span(3)), "");
    }
}

//! A mistake in a text, its place, and advice.

use std::fmt;
use std::ops::Range;

/// A mistake in a pack or an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// The range of the mistake in bytes of the text.
    pub span: Range<usize>,
    /// Advice for the author, if there is some.
    pub help: Option<String>,
}

impl Problem {
    /// A problem with this part of a text.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem { message: message.into(), span, help: None }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Problem {
        Problem { help: Some(help.into()), ..self }
    }

    /// Converts a problem of a part of a text to one of the whole text, in which the part begins at `by`.
    #[must_use]
    pub fn moved(self, by: usize) -> Problem {
        Problem { span: self.span.start + by..self.span.end + by, ..self }
    }

    /// Line and column of the problem in `text`, both from 1; columns count characters.
    pub fn place(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The problem with its line of `text`, which was read from `file`, and the place marked.
    pub fn render(&self, file: &str, text: &str) -> String {
        let (line, column) = self.place(text);
        let shown = text.lines().nth(line - 1).unwrap_or("");
        let width =
            text.get(self.span.clone()).map_or(1, |part| part.lines().next().unwrap_or("").chars().count());
        let room = shown.chars().count().saturating_sub(column - 1).max(1);
        let marks = "^".repeat(width.clamp(1, room));
        let help = self.help.as_ref().map_or(String::new(), |help| format!("\n  = help: {help}"));
        let (message, gutter) = (&self.message, line.to_string());
        let blank = " ".repeat(gutter.len());
        format!(
            "error: {message}\n{blank}--> {file}:{line}:{column}\n{blank} |\n{gutter} | {shown}\n{blank} | {}{marks}{help}",
            " ".repeat(column - 1)
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}: {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Problem {}

//! A diagnostic: one error or warning, with its place in the text and advice.
//!
//! A diagnostic contains its sources, so that it can be shown anywhere: [`Diagnostic::render`] formats it for
//! a terminal with an excerpt of the text, `Display` writes one line.
//!
//! ```
//! use thalweg_net::syntax::{Diagnostic, Source, Span};
//!
//! let source = Source::new("main.snet", "net main connect inx;\n");
//! let error = Diagnostic::error("E0301", "there is no box or net named `inx`", &source, Span::new(17, 20))
//!     .help("did you mean `inc`?");
//! assert_eq!(error.to_string(), "main.snet:1:18: error[E0301]: there is no box or net named `inx`");
//! assert!(error.render(false).contains("1 | net main connect inx;\n  |                  ^^^"));
//! ```

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::source::{LineColumn, Source, Span};

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The text is questionable, but the program can run.
    Warning,
    /// The program cannot run.
    Error,
}

/// A place with a remark.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The text that contains the place.
    pub source: Arc<Source>,
    /// The place in the text.
    pub span: Span,
    /// A remark about this place; may be empty.
    pub text: String,
}

impl Note {
    /// Line and column of the first character of the place.
    pub fn start(&self) -> LineColumn {
        self.source.line_column(self.span.start)
    }

    /// Line and column after the last character of the place.
    pub fn end(&self) -> LineColumn {
        self.source.line_column(self.span.end)
    }
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Stable code, such as `E0203`; `docs/errors/E0203.md` explains it.
    pub code: &'static str,
    /// The error or warning, in one line.
    pub message: String,
    /// The place; `None` only if there is no text (a file that cannot be read).
    pub primary: Option<Note>,
    /// Other places that explain the error.
    pub others: Vec<Note>,
    /// Advice on how to correct it.
    pub helps: Vec<String>,
    /// Further information.
    pub remarks: Vec<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(
        code: &'static str,
        message: impl Into<String>,
        source: &Arc<Source>,
        span: Span,
    ) -> Diagnostic {
        let primary = Note { source: source.clone(), span, text: String::new() };
        Diagnostic { primary: Some(primary), ..Diagnostic::error_without_place(code, message) }
    }

    /// A warning at a place.
    pub fn warning(
        code: &'static str,
        message: impl Into<String>,
        source: &Arc<Source>,
        span: Span,
    ) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message, source, span) }
    }

    /// An error that has no place in a text.
    pub fn error_without_place(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: None,
            others: Vec::new(),
            helps: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Sets the text beside the carets of the main place.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        if let Some(primary) = &mut self.primary {
            primary.text = text.into();
        }
        self
    }

    /// Adds another place, which is shown below the main one.
    pub fn also(mut self, source: &Arc<Source>, span: Span, text: impl Into<String>) -> Diagnostic {
        self.others.push(Note { source: source.clone(), span, text: text.into() });
        self
    }

    /// Adds advice.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.helps.push(text.into());
        self
    }

    /// Adds further information.
    pub fn remark(mut self, text: impl Into<String>) -> Diagnostic {
        self.remarks.push(text.into());
        self
    }

    /// Whether the diagnostic is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The diagnostic for a terminal: several lines with an excerpt of the text and carets under the place,
    /// ending in a line break. With ANSI colours only on request. Control characters of the text are never
    /// passed on.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint { on: colour };
        let mut out = String::new();
        let (word, style) = match self.severity {
            Severity::Error => ("error", Style::Error),
            Severity::Warning => ("warning", Style::Warning),
        };
        let head = format!("{word}[{}]", self.code);
        let _ = writeln!(
            out,
            "{}{}",
            paint.it(style, &head),
            paint.it(Style::Strong, &format!(": {}", tame(&self.message)))
        );
        let excerpts = self.excerpts();
        let width = excerpts.iter().flat_map(|e| &e.lines).map(|l| digits(l.number)).max().unwrap_or(0);
        let bar = paint.it(Style::Frame, "|");
        let gap = " ".repeat(width);
        for (i, excerpt) in excerpts.iter().enumerate() {
            let arrow = paint.it(Style::Frame, if i == 0 { "-->" } else { ":::" });
            let path = tame(&excerpt.source.path().to_string_lossy());
            let at = excerpt.at;
            let _ = writeln!(out, "{gap}{arrow} {path}:{}:{}", at.line, at.column);
            let _ = writeln!(out, "{gap} {bar}");
            let mut last: Option<u32> = None;
            for line in &excerpt.lines {
                if last.is_some_and(|last| line.number > last + 1) {
                    let _ = writeln!(out, "{}", paint.it(Style::Frame, "..."));
                }
                last = Some(line.number);
                let number = paint.it(Style::Frame, &format!("{:>width$}", line.number));
                let _ = writeln!(out, "{}", format!("{number} {bar} {}", line.text).trim_end());
                for mark in &line.marks {
                    let style = if mark.main { style } else { Style::Frame };
                    let carets = if mark.main { "^" } else { "-" }.repeat(mark.length);
                    let drawn = format!("{carets} {}", tame(&mark.text));
                    let drawn = paint.it(style, drawn.trim_end());
                    let _ = writeln!(out, "{gap} {bar} {}{drawn}", " ".repeat(mark.column));
                }
            }
        }
        let tail = |word: &str, text: &str| {
            let mut lines = String::new();
            for (i, line) in text.lines().enumerate() {
                let lead = if i == 0 {
                    format!("{gap} {} {}:", paint.it(Style::Frame, "="), paint.it(Style::Strong, word))
                } else {
                    format!("{gap}   {}", " ".repeat(word.len() + 1))
                };
                let _ = writeln!(lines, "{lead} {}", tame(line));
            }
            lines
        };
        self.remarks.iter().for_each(|text| out.push_str(&tail("note", text)));
        self.helps.iter().for_each(|text| out.push_str(&tail("help", text)));
        out
    }

    /// The excerpts to show: the main source first, then the others in the order they are named.
    fn excerpts(&self) -> Vec<Excerpt<'_>> {
        let mut excerpts: Vec<Excerpt<'_>> = Vec::new();
        for (i, note) in self.primary.iter().chain(&self.others).enumerate() {
            let excerpt = match excerpts.iter_mut().position(|e| Arc::ptr_eq(e.source, &note.source)) {
                Some(known) => &mut excerpts[known],
                None => {
                    excerpts.push(Excerpt { source: &note.source, at: note.start(), lines: Vec::new() });
                    excerpts.last_mut().unwrap()
                }
            };
            excerpt.add(note, i == 0 && self.primary.is_some());
        }
        excerpts
    }
}

/// Formats the diagnostic as one line: `file:line:column: error[E0203]: message`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(primary) = &self.primary {
            let at = primary.start();
            write!(f, "{}:{}:{}: ", tame(&primary.source.path().to_string_lossy()), at.line, at.column)?;
        }
        let word = if self.is_error() { "error" } else { "warning" };
        write!(f, "{word}[{}]: {}", self.code, tame(&self.message))
    }
}

impl std::error::Error for Diagnostic {}

/// The lines of one source that are shown.
struct Excerpt<'a> {
    source: &'a Arc<Source>,
    at: LineColumn,
    lines: Vec<Line>,
}

/// A line that is shown, with the marks under it.
struct Line {
    number: u32,
    text: String,
    marks: Vec<Mark>,
    /// The number of characters left out at its start; `…` replaces them.
    skipped: usize,
}

impl Line {
    /// Reduces a long line to the piece that is shown.
    fn cut(&mut self, skip: usize) {
        let piece: String = self.text.chars().skip(skip).take(SHOWN_MAX).collect();
        self.text = if skip > 0 { format!("…{piece}") } else { piece };
        self.skipped = skip;
    }

    /// Column and length of a mark on the line as shown; a mark outside becomes one character at an end.
    fn shown_at(&self, start: usize, length: usize) -> (usize, usize) {
        let width = self.text.chars().count();
        let lead = usize::from(self.skipped > 0);
        let column = (start + lead).saturating_sub(self.skipped).min(width);
        (column, length.min((width.max(1) - column.min(width.max(1))).max(1)))
    }
}

/// Carets under a line. Column and length are in characters of the line as shown.
struct Mark {
    column: usize,
    length: usize,
    text: String,
    main: bool,
}

/// The longest piece of a line that is shown, in characters.
const SHOWN_MAX: usize = 120;

impl Excerpt<'_> {
    fn add(&mut self, note: &Note, main: bool) {
        let number = note.start().line;
        let place = self.source.line_span(number);
        let whole = self.source.slice(place);
        let from = note.span.start.clamp(place.start, place.end);
        let to = note.span.end.clamp(from, place.end);
        let relative =
            |byte: u32| whole.get(..(byte - place.start) as usize).map_or(0, |s| shown(s).chars().count());
        let (start, end) = (relative(from), relative(to));
        let index = match self.lines.binary_search_by_key(&number, |l| l.number) {
            Ok(index) => index,
            Err(index) => {
                self.lines.insert(index, Line { number, text: shown(whole), marks: Vec::new(), skipped: 0 });
                index
            }
        };
        let line = &mut self.lines[index];
        if line.marks.is_empty() && line.text.chars().count() > SHOWN_MAX {
            line.cut(start.saturating_sub(SHOWN_MAX / 3));
        }
        let (column, length) = line.shown_at(start, (end - start).max(1));
        let mark = Mark { column, length, text: note.text.clone(), main };
        let at = line.marks.partition_point(|m| (m.column, !m.main) >= (mark.column, !mark.main));
        line.marks.insert(at, mark);
    }
}

/// The text as it is shown: tabs as four spaces, control characters as `�`.
fn shown(text: &str) -> String {
    tame(&text.replace('\t', "    "))
}

/// The text without control characters (and those that change the direction of text), because the contents of
/// a hostile file must not reach the terminal.
fn tame(text: &str) -> String {
    let bad = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if bad(c) { '\u{fffd}' } else { c }).collect()
}

fn digits(number: u32) -> usize {
    number.to_string().len()
}

#[derive(Clone, Copy)]
enum Style {
    Error,
    Warning,
    Strong,
    Frame,
}

struct Paint {
    on: bool,
}

impl Paint {
    fn it(&self, style: Style, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_string();
        }
        let code = match style {
            Style::Error => "1;31",
            Style::Warning => "1;33",
            Style::Strong => "1",
            Style::Frame => "1;34",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

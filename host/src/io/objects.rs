//! Records in JSON: one object a line, objects over several lines, or a list of objects.
//!
//! A line that is a complete object is parsed at once. Any other text is scanned by a [`Scan`], piece by
//! piece as it arrives, so a list needs no more memory than its largest record. When an object breaks off, no
//! other record is lost, because text that begins like a record is parsed as a record.

use std::io;
use std::sync::Arc;

use memchr::memchr;
use thalweg_net::json::{self, Names, Scan};

use super::place::Input;
use super::step::{Lost, Malformed, Next};
use crate::interrupt::Interrupt;

/// A failed record is passed on in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The records of a JSON input. Empty lines are skipped.
pub(crate) struct Objects {
    pub(crate) input: Input,
    reader: json::Reader,
    at: At,
    /// The first part of a record of which another part has not arrived yet.
    begun: Vec<u8>,
    /// The line (from 1) and the column (from 0) in which the record in `begun` begins.
    first_line: u64,
    first_column: usize,
    /// The number of line ends that were read.
    lines: u64,
    /// The amount of white space that was read at the beginning of the present line; `None` if other text of
    /// the line was read, too.
    indent: Option<usize>,
    /// The number of bytes of the line that were consumed.
    column: usize,
    /// The line and column, from 1, where the list began.
    list: (u64, usize),
    /// Whether the list has an element that is no record. A text with other elements may not be meant as a
    /// list, so a missing end is no error.
    is_odd: bool,
    bytes_max: usize,
}

/// The state of the reader at the next byte.
enum At {
    /// At the beginning of a line, outside of lists, or in a line whose beginning is in `begun`.
    Line,
    /// In an object that continues on the next line.
    Object(Scan),
    /// In a list, between its records; the value says whether a comma has to come first.
    List(bool),
    /// In a record of a list.
    Record(Scan),
    /// In text that is no record.
    Rest(Rest),
}

/// Text that is no record, and where it ends, so that records can be read again.
struct Rest {
    what: String,
    line: u64,
    ends: Ends,
}

/// Where text that is no record ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The text ends with the line.
    Line,
    /// The text ends before a line that is not indented further and closes no bracket.
    Object(usize),
    /// The text ends before a line that is not indented further and begins an object, or before the line that
    /// ends the list.
    Record(usize),
}

impl Objects {
    pub(crate) fn new(input: Input, names: Arc<Names>, bytes_max: usize) -> Objects {
        Objects {
            input,
            reader: json::Reader::named(names),
            at: At::Line,
            begun: Vec::new(),
            first_line: 1,
            first_column: 0,
            lines: 0,
            indent: Some(0),
            column: 0,
            list: (1, 1),
            is_odd: false,
            bytes_max,
        }
    }

    /// The next record.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        loop {
            if interrupt.is_stopping() {
                return Ok(Next::End);
            }
            if !self.input.is_ready()? {
                return Ok(Next::Pending);
            }
            let next = match &mut self.at {
                At::Line => self.line()?,
                At::Object(_) => self.object()?,
                At::List(_) => self.between()?,
                At::Record(_) => self.record_of_list()?,
                At::Rest(_) => self.rest()?,
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Reads a line, or the beginning of one.
    fn line(&mut self) -> io::Result<Option<Next>> {
        if self.begun.is_empty() {
            self.input.begin();
            self.first_line = self.lines + 1;
            self.first_column = 0;
        }
        let is_first = self.input.is_at_begin();
        let available = self.input.fill_buf()?;
        if self.begun.is_empty() {
            if available.is_empty() {
                return Ok(Some(Next::End));
            }
            if is_first && available.starts_with(BYTE_ORDER_MARK) {
                self.input.consume(BYTE_ORDER_MARK.len());
                return Ok(None);
            }
            let space = available.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
            if available.get(space) == Some(&b'[') {
                self.list = (self.first_line, space + 1);
                self.take(space + 1);
                self.at = At::List(false);
                self.is_odd = false;
                return Ok(None);
            }
        }
        let is_over = available.is_empty();
        let end = memchr(b'\n', available);
        let taken = end.map_or(available.len(), |end| end + 1);
        if self.begun.len() + taken > self.bytes_max {
            return Ok(self.too_long("a line", Ends::Line));
        }
        if end.is_none() && !is_over {
            // The line continues in the next piece of input.
            self.begun.extend_from_slice(available);
            self.input.consume(taken);
            return Ok(None);
        }
        let line = if self.begun.is_empty() {
            &available[..taken]
        } else {
            self.begun.extend_from_slice(&available[..taken]);
            &self.begun
        };
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            self.input.consume(taken);
            self.begun.clear();
            self.lines += u64::from(end.is_some());
            return Ok(None);
        }
        let error = match self.reader.read(trimmed) {
            Ok(record) => {
                self.input.consume(taken);
                self.begun.clear();
                self.lines += u64::from(end.is_some());
                return Ok(Some(Next::Record(record)));
            }
            Err(error) => error,
        };
        let mut scan = Scan::new();
        if !is_over && trimmed.starts_with(b"{") && scan.push(line) == Ok(None) {
            if self.begun.is_empty() {
                self.begun = line.to_vec();
            }
            self.at = At::Object(scan);
            self.input.consume(taken);
            self.lines += u64::from(end.is_some());
            return Ok(None);
        }
        self.input.consume(taken);
        self.begun.clear();
        self.lines += u64::from(end.is_some());
        let what = self.place(error.line, error.column, &error.message);
        Ok(Some(self.malformed(what, self.first_line, false)))
    }

    /// Reads more of an object that has several lines.
    fn object(&mut self) -> io::Result<Option<Next>> {
        let At::Object(scan) = &mut self.at else { return Ok(None) };
        let available = self.input.fill_buf()?;
        if available.is_empty() {
            // Text that looks like the beginning of another record is read as a record.
            let indent = indent_of(&self.begun);
            let mut lines = memchr::memchr_iter(b'\n', &self.begun).map(|end| &self.begun[end + 1..]);
            if lines.any(|line| !belongs(line, indent)) {
                return Ok(self.broken_off("the object does not end", 1, 1, false));
            }
            self.at = At::Line;
            let begun = std::mem::take(&mut self.begun);
            return Ok(Some(self.unread(&begun)));
        }
        let taken = memchr(b'\n', available).map_or(available.len(), |end| end + 1);
        let piece = &available[..taken];
        match scan.push(piece) {
            Ok(None) if self.begun.len() + taken > self.bytes_max => {
                let indent = indent_of(&self.begun);
                Ok(self.too_long("a record", Ends::Object(indent)))
            }
            Ok(None) => {
                self.begun.extend_from_slice(piece);
                self.lines += u64::from(piece.ends_with(b"\n"));
                self.input.consume(taken);
                Ok(None)
            }
            Ok(Some(end)) => {
                self.begun.extend_from_slice(&piece[..end]);
                self.input.consume(end);
                self.at = At::Line;
                let begun = std::mem::take(&mut self.begun);
                Ok(Some(self.whole(&begun)))
            }
            Err(wrong) => {
                let before = memchr::memrchr(b'\n', &self.begun).map_or(0, |end| end + 1);
                let column = self.begun.len() - before + wrong.at + 1;
                let line = self.lines + 1 - self.first_line + 1;
                let begin = if before < self.begun.len() { &self.begun[before..] } else { piece };
                let is_inside = belongs(begin, indent_of(&self.begun));
                Ok(self.broken_off(wrong.what, line as usize, column, is_inside))
            }
        }
    }

    /// Handles an object that turns out to be malformed in a later line. Reading continues at the first line
    /// that does not look like a part of the object.
    fn broken_off(&mut self, what: &str, line: usize, column: usize, is_inside: bool) -> Option<Next> {
        let begun = std::mem::take(&mut self.begun);
        let indent = indent_of(&begun);
        let mut begins = memchr::memchr_iter(b'\n', &begun).map(|end| end + 1);
        let other = begins.find(|&begin| begin < begun.len() && !belongs(&begun[begin..], indent));
        // The line that does not belong to the object may be the line that is being read.
        let part = other.map_or(begun.as_slice(), |other| &begun[..other]);
        let ends_line = part.ends_with(b"\n");
        let is_one_line = !part.trim_ascii().contains(&b'\n');
        let what = match self.reader.read(part.trim_ascii()) {
            Err(error) if is_one_line && !is_inside => self.place(error.line, error.column, &error.message),
            _ => self.place(line, column, what),
        };
        if let Some(other) = other {
            let back = &begun[other..];
            self.lines -= memchr::memchr_iter(b'\n', back).count() as u64;
            self.input.give_back(back);
            self.at = At::Line;
            return Some(self.malformed(what, self.first_line, false));
        }
        self.indent = ends_line.then_some(0);
        self.at = At::Rest(Rest { what, line: self.first_line, ends: Ends::Object(indent) });
        None
    }

    /// Reads the text between the records of a list.
    fn between(&mut self) -> io::Result<Option<Next>> {
        let At::List(needs_comma) = self.at else { return Ok(None) };
        let available = self.input.fill_buf()?;
        let Some(&first) = available.first() else {
            return Ok(self.list_without_end());
        };
        match first {
            b' ' | b'\t' | b'\r' | b'\n' => self.take(1),
            b',' if needs_comma => {
                self.take(1);
                self.at = At::List(false);
            }
            b']' => {
                self.take(1);
                self.at = At::Line;
            }
            // Text that does not fit a list ends the list, and is read as if there were no list.
            b'[' if needs_comma => return Ok(self.list_without_end()),
            _ if needs_comma && self.indent == Some(0) => return Ok(self.list_without_end()),
            _ => {
                self.input.begin();
                (self.first_line, self.first_column) = (self.lines + 1, self.column);
                if needs_comma {
                    let what = self.place(1, 1, "expected `,` or `]` after a record");
                    self.at = At::Rest(Rest {
                        what,
                        line: self.first_line,
                        ends: Ends::Record(self.indent.unwrap_or(0)),
                    });
                } else {
                    self.at = At::Record(Scan::new());
                }
            }
        }
        Ok(None)
    }

    /// Ends a list whose closing bracket is missing.
    fn list_without_end(&mut self) -> Option<Next> {
        self.at = At::Line;
        if self.is_odd {
            return None;
        }
        let (name, (line, column)) = (&self.input.name, self.list);
        let what = format!(
            "{name}:{line}:{column}: the list of records that begins here has no `]`; its records were read"
        );
        Some(Next::malformed(what))
    }

    /// Reads more of a record of a list.
    fn record_of_list(&mut self) -> io::Result<Option<Next>> {
        let At::Record(scan) = &mut self.at else { return Ok(None) };
        let available = self.input.fill_buf()?;
        if available.is_empty() {
            self.at = At::Line;
            let begun = std::mem::take(&mut self.begun);
            return Ok(Some(self.unread(&begun)));
        }
        let indent = self.indent.unwrap_or(0);
        match scan.push(available) {
            Ok(None) if self.begun.len() + available.len() > self.bytes_max => {
                Ok(self.too_long("a record", Ends::Record(indent)))
            }
            Ok(None) => {
                self.begun.extend_from_slice(available);
                let taken = available.len();
                self.take_within(taken);
                Ok(None)
            }
            Ok(Some(end)) => {
                let record = if self.begun.is_empty() {
                    self.reader.read(&available[..end])
                } else {
                    self.begun.extend_from_slice(&available[..end]);
                    self.reader.read(&self.begun)
                };
                self.take_within(end);
                self.begun.clear();
                self.at = At::List(true);
                self.indent = None;
                Ok(Some(match record {
                    Ok(record) => Next::Record(record),
                    Err(error) => {
                        let what = self.place(error.line, error.column, &error.message);
                        self.malformed(what, self.first_line, false)
                    }
                }))
            }
            Err(wrong) => {
                self.begun.extend_from_slice(&available[..wrong.at]);
                let line = memchr::memchr_iter(b'\n', &self.begun).count() + 1;
                let begin = memchr::memrchr(b'\n', &self.begun).map_or(0, |end| end + 1);
                let column = self.begun.len() - begin + 1;
                self.begun.clear();
                let what = self.place(line, column, wrong.what);
                self.is_odd = true;
                // The bytes scanned so far lie before the end of the line.
                self.take_within(wrong.at);
                self.indent = None;
                self.at = At::Rest(Rest { what, line: self.first_line, ends: Ends::Record(indent) });
                Ok(None)
            }
        }
    }

    /// Skips text that is no record, up to a place where a record may begin.
    fn rest(&mut self) -> io::Result<Option<Next>> {
        let At::Rest(Rest { what, line, ends }) = &self.at else { return Ok(None) };
        let (ends, line) = (*ends, *line);
        if self.input.kept_bytes() >= PIECE_BYTES {
            let what = what.clone();
            return Ok(Some(self.malformed(what, line, true)));
        }
        let available = self.input.fill_buf()?;
        let mut taken = 0;
        let is_over = available.is_empty();
        let mut resumes = is_over;
        for &byte in available {
            if byte == b'\n' {
                self.lines += 1;
                (self.indent, self.column) = (Some(0), 0);
                taken += 1;
                if ends == Ends::Line {
                    resumes = true;
                    break;
                }
                continue;
            }
            if let Some(space) = self.indent {
                resumes = match ends {
                    Ends::Line => false,
                    Ends::Object(indent) => {
                        space <= indent && !matches!(byte, b' ' | b'\t' | b'\r' | b'}' | b']')
                    }
                    Ends::Record(indent) => {
                        space <= indent && byte == b'{' || space < indent.max(1) && byte == b']'
                    }
                };
                if resumes {
                    break;
                }
                self.indent = matches!(byte, b' ' | b'\t').then_some(space + 1);
            }
            self.column += 1;
            taken += 1;
        }
        self.input.consume(taken);
        if !resumes {
            return Ok(None);
        }
        let next = match std::mem::replace(&mut self.at, At::Line) {
            At::Rest(rest) => Some(self.malformed(rest.what, line, false)),
            _ => None,
        };
        if let (Ends::Record(_), false) = (ends, is_over) {
            self.at = At::List(false);
        }
        Ok(next)
    }

    /// Consumes `count` bytes that are not part of a record.
    fn take(&mut self, count: usize) {
        self.take_within(count);
        self.input.begin();
    }

    /// Consumes `count` bytes of the input, and counts lines and columns.
    fn take_within(&mut self, count: usize) {
        let Ok(available) = self.input.fill_buf() else { return };
        for &byte in &available[..count] {
            (self.indent, self.column) = match byte {
                b'\n' => (Some(0), 0),
                b' ' | b'\t' => (self.indent.map(|space| space + 1), self.column + 1),
                _ => (None, self.column + 1),
            };
            self.lines += u64::from(byte == b'\n');
        }
        self.input.consume(count);
    }

    /// Parses `text` as one record; an error if it is not a record.
    fn whole(&mut self, text: &[u8]) -> Next {
        match self.reader.read(text) {
            Ok(record) => Next::Record(record),
            Err(error) => {
                let what = self.place(error.line, error.column, &error.message);
                self.malformed(what, self.first_line, false)
            }
        }
    }

    /// The error of a record that the end of the input cuts off.
    fn unread(&mut self, text: &[u8]) -> Next {
        match self.reader.read(text.trim_ascii_end()) {
            // The record was complete, but the text that has to follow it was missing.
            Ok(record) => Next::Record(record),
            Err(error) => {
                let what = self.place(error.line, error.column, &error.message);
                self.malformed(what, self.first_line, false)
            }
        }
    }

    /// The error of a record with too many bytes, with all text up to the place where the next record may
    /// begin.
    fn too_long(&mut self, noun: &str, ends: Ends) -> Option<Next> {
        self.begun = Vec::new();
        let (name, line, most) = (&self.input.name, self.first_line, self.bytes_max);
        let what = format!("{name}:{line}: {noun} of more than {most} bytes; --record-bytes allows for more");
        self.indent = None;
        self.at = At::Rest(Rest { what, line, ends });
        None
    }

    /// The message with its place in the input; `line` and `column` are counted within the record, from 1.
    fn place(&self, line: usize, column: usize, message: &str) -> String {
        let column = if line == 1 { self.first_column + column } else { column };
        format!("{}:{}:{column}: {message}", self.input.name, self.first_line + line as u64 - 1)
    }

    fn malformed(&mut self, what: String, line: u64, goes_on: bool) -> Next {
        let raw = self.input.raw(Some(line), goes_on).map(|mut raw| {
            if !goes_on {
                let ends = raw.bytes.iter().rev().take_while(|byte| b"\r\n".contains(byte)).count();
                raw.bytes.truncate(raw.bytes.len() - ends);
            }
            raw
        });
        Next::Malformed(Malformed { what, lost: raw.map_or(Lost::Nothing, Lost::Raw) })
    }
}

/// The number of bytes of white space at the beginning of a text.
fn indent_of(text: &[u8]) -> usize {
    text.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count()
}

/// Whether a line looks like a part of an object whose first line is indented by `indent`: the line is
/// indented further, or closes a bracket.
fn belongs(line: &[u8], indent: usize) -> bool {
    let space = indent_of(line);
    space > indent || matches!(line.get(space), Some(b'}' | b']' | b'\r' | b'\n') | None)
}

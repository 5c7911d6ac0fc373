//! The reader that turns lines of an input into records with one field of text.

use std::io;

use memchr::memchr;
use thalweg_box::Value;
use thalweg_net::label::Label;
use thalweg_net::record::Record;

use super::place::Input;
use super::step::{Lost, Malformed, Next};
use crate::interrupt::Interrupt;

/// A line that is too long is passed on as failed in pieces of this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// The records of an input, each with a line as the value of a field.
pub(crate) struct Lines {
    pub(crate) input: Input,
    label: Label,
    /// The first part of a line of which another part has not arrived yet.
    begun: Vec<u8>,
    number: u64,
    bytes_max: usize,
    /// Whether the present line is too long, so that the rest of the line is dropped.
    skips: bool,
}

impl Lines {
    pub(crate) fn new(input: Input, label: Label, bytes_max: usize) -> Lines {
        Lines { input, label, begun: Vec::new(), number: 0, bytes_max, skips: false }
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
            if self.begun.is_empty() && !self.skips {
                self.input.begin();
            }
            if self.skips && self.input.kept_bytes() >= PIECE_BYTES {
                return Ok(self.too_long(self.number + 1, true));
            }
            let available = self.input.fill_buf()?;
            let is_over = available.is_empty();
            if is_over && self.begun.is_empty() && !self.skips {
                return Ok(Next::End);
            }
            let end = if is_over { Some(0) } else { memchr(b'\n', available) };
            let taken = end.map_or(available.len(), |at| (at + 1).min(available.len()));
            let too_long = self.skips || self.begun.len() + taken > self.bytes_max;
            let read = match end {
                // The line continues in the next piece of input.
                None => {
                    if !too_long {
                        self.begun.extend_from_slice(available);
                    }
                    None
                }
                Some(_) if too_long => None,
                Some(_) => {
                    let line = if self.begun.is_empty() {
                        &available[..taken]
                    } else {
                        self.begun.extend_from_slice(&available[..taken]);
                        &self.begun
                    };
                    Some(read(self.label, line, self.number == 0))
                }
            };
            self.input.consume(taken);
            self.number += u64::from(end.is_some());
            self.skips = too_long && end.is_none();
            if end.is_some() || too_long {
                self.begun.clear();
            }
            match read {
                Some(Ok(record)) => return Ok(Next::Record(record)),
                Some(Err(column)) => {
                    let (name, number) = (&self.input.name, self.number);
                    let what =
                        format!("{name}:{number}:{column}: the line is not UTF-8; read other text as bytes");
                    return Ok(self.malformed(what, number, false));
                }
                None if too_long && end.is_some() => return Ok(self.too_long(self.number, false)),
                None => {}
            }
        }
    }

    /// The error of a line that is too long, with a piece of the line.
    fn too_long(&mut self, number: u64, goes_on: bool) -> Next {
        let (name, most) = (&self.input.name, self.bytes_max);
        let what =
            format!("{name}:{number}: a line of more than {most} bytes; --record-bytes allows for more");
        self.malformed(what, number, goes_on)
    }

    fn malformed(&mut self, what: String, number: u64, goes_on: bool) -> Next {
        let raw = self.input.raw(Some(number), goes_on).map(|mut raw| {
            let end = [&b"\r\n"[..], b"\n"].into_iter().find_map(|end| raw.bytes.strip_suffix(end));
            raw.bytes.truncate(end.map_or(raw.bytes.len(), <[u8]>::len));
            raw
        });
        Next::Malformed(Malformed { what, lost: raw.map_or(Lost::Nothing, Lost::Raw) })
    }
}

/// The record of a line; `Err` has the column of the first byte that is not UTF-8.
fn read(label: Label, line: &[u8], is_first: bool) -> Result<Record, usize> {
    let line = if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).map_err(|error| error.valid_up_to() + 1)?;
    Ok(Record::from_pairs([(label, Value::from(text))]))
}

//! Lines of an input, as records: JSON Lines, or one field of text.

use std::io::{self, BufRead};

use memchr::memchr;
use thalweg_box::Value;
use thalweg_net::json;
use thalweg_net::label::Label;
use thalweg_net::record::Record;

use super::place::Input;
use super::source::Next;
use crate::interrupt::Interrupt;

/// What a line stands for.
pub(crate) enum Meaning {
    /// A record in JSON.
    Json,
    /// The value of this field.
    Text(Label),
}

/// Records of lines. Empty lines of JSON are passed over.
pub(crate) struct Lines {
    pub(crate) input: Input,
    meaning: Meaning,
    /// The beginning of a line of which the rest has not come yet.
    begun: Vec<u8>,
    number: u64,
    bytes_max: usize,
    /// The line is too long: what comes up to its end is dropped.
    skips: bool,
}

impl Lines {
    pub(crate) fn new(input: Input, meaning: Meaning, bytes_max: usize) -> Lines {
        Lines { input, meaning, begun: Vec::new(), number: 0, bytes_max, skips: false }
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
            let available = self.input.file.fill_buf()?;
            let is_over = available.is_empty();
            if is_over && self.begun.is_empty() && !self.skips {
                return Ok(Next::End);
            }
            let end = if is_over { Some(0) } else { memchr(b'\n', available) };
            let taken = end.map_or(available.len(), |at| (at + 1).min(available.len()));
            let too_long = self.skips || self.begun.len() + taken > self.bytes_max;
            let next = match end {
                // The line goes on.
                None => {
                    if !too_long {
                        self.begun.extend_from_slice(available);
                    }
                    None
                }
                Some(_) if too_long => {
                    self.number += 1;
                    Some(Next::Malformed(format!(
                        "{}:{}: a line of more than {} bytes; --record-bytes allows for more",
                        self.input.name, self.number, self.bytes_max
                    )))
                }
                Some(_) => {
                    self.number += 1;
                    let line = if self.begun.is_empty() {
                        &available[..taken]
                    } else {
                        self.begun.extend_from_slice(&available[..taken]);
                        &self.begun
                    };
                    read(&self.meaning, line, &self.input.name, self.number)
                }
            };
            self.input.file.consume(taken);
            self.skips = too_long && end.is_none();
            if end.is_some() || too_long {
                self.begun.clear();
            }
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }
}

fn read(meaning: &Meaning, line: &[u8], name: &str, number: u64) -> Option<Next> {
    match meaning {
        Meaning::Json => {
            let line = line.trim_ascii();
            if line.is_empty() {
                return None;
            }
            Some(match json::read_record(line) {
                Ok(record) => Next::Record(record),
                Err(error) => Next::Malformed(format!("{name}:{number}:{}: {}", error.column, error.message)),
            })
        }
        Meaning::Text(label) => {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            Some(match std::str::from_utf8(line) {
                Ok(text) => Next::Record(Record::from_pairs([(*label, Value::from(text))])),
                Err(error) => Next::Malformed(format!(
                    "{name}:{number}:{}: the line is not UTF-8; read other text as bytes",
                    error.valid_up_to() + 1
                )),
            })
        }
    }
}

//! Readers that turn the bytes of an input into records: chunks of one size, or a whole file.

use std::io::{self, BufRead, Read};

use thalweg_box::{Bytes, Text, Value};
use thalweg_net::label::Label;
use thalweg_net::record::Record;

use super::place::Input;
use super::step::Next;
use crate::interrupt::Interrupt;

/// An input cut into chunks: `{label: bytes, <seq>: 0, 1, …, <last>: 0 or 1}`. An empty input is one empty
/// last chunk.
pub(crate) struct Chunks {
    pub(crate) input: Input,
    labels: [Label; 3],
    chunk_bytes: usize,
    /// The part of the next chunk that was read. The next chunk is read ahead to determine which chunk is the
    /// last.
    ahead: Vec<u8>,
    /// A complete chunk that is returned next.
    whole: Option<Vec<u8>>,
    number: i64,
    is_over: bool,
}

impl Chunks {
    pub(crate) fn new(input: Input, label: &str, chunk_bytes: usize) -> Chunks {
        let labels = [Label::field(label), Label::tag("seq"), Label::tag("last")];
        Chunks { input, labels, chunk_bytes, ahead: Vec::new(), whole: None, number: 0, is_over: false }
    }

    /// Returns the next record, which is a chunk. After a request to end, this call returns a last chunk,
    /// which is not marked as the last of its input, and then the end.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        loop {
            if self.is_over {
                return Ok(Next::End);
            }
            if interrupt.is_stopping() {
                self.is_over = true;
                return Ok(self.whole.take().map_or(Next::End, |chunk| self.record(chunk, false)));
            }
            if !self.input.is_ready()? {
                return Ok(Next::Pending);
            }
            if self.fill()? {
                let read = std::mem::take(&mut self.ahead);
                if let Some(chunk) = self.whole.replace(read) {
                    return Ok(self.record(chunk, false));
                }
                continue;
            }
            if self.is_over {
                // What is left of the input is the last chunk. If nothing is left, there is an empty chunk
                // only if the whole input is empty.
                let rest = std::mem::take(&mut self.ahead);
                return Ok(match self.whole.take() {
                    Some(chunk) if rest.is_empty() => self.record(chunk, true),
                    Some(chunk) => {
                        (self.ahead, self.is_over) = (rest, false);
                        self.record(chunk, false)
                    }
                    None => self.record(rest, true),
                });
            }
        }
    }

    /// Reads more of the next chunk; returns whether it is complete. Notes the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        let missing = self.chunk_bytes - self.ahead.len();
        if self.ahead.is_empty() {
            self.ahead.reserve_exact(missing);
        }
        if self.input.is_file() {
            // The read bypasses the buffer, so the bytes of a file are copied only once, by the kernel.
            let limited = self.input.file.get_ref().take(missing as u64);
            self.is_over = { limited }.read_to_end(&mut self.ahead)? < missing;
        } else {
            let available = self.input.file.fill_buf()?;
            let taken = available.len().min(missing);
            self.is_over = taken == 0;
            self.ahead.extend_from_slice(&available[..taken]);
            self.input.consume(taken);
        }
        Ok(self.ahead.len() == self.chunk_bytes)
    }

    fn record(&mut self, chunk: Vec<u8>, last: bool) -> Next {
        let values =
            [Value::Bytes(Bytes::from_vec(chunk)), Value::Int(self.number), Value::Int(i64::from(last))];
        self.number += 1;
        Next::Record(Record::from_pairs(self.labels.into_iter().zip(values)))
    }
}

/// A whole file: `{name: text, data: bytes}`.
pub(crate) struct Whole {
    pub(crate) input: Input,
    /// The file's name without its directory; `None` after the file was read.
    file_name: Option<String>,
    bytes_max: usize,
}

impl Whole {
    pub(crate) fn new(input: Input, bytes_max: usize) -> Whole {
        let file_name = input.name.rsplit('/').next().map(str::to_owned);
        Whole { input, file_name, bytes_max }
    }

    /// Returns the file's record at the first call, and the end at the second.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        let Some(name) = self.file_name.take() else { return Ok(Next::End) };
        let mut data = Vec::new();
        let most = self.bytes_max as u64;
        self.input.file.get_ref().take(most + 1).read_to_end(&mut data)?;
        if data.len() > self.bytes_max {
            return Ok(Next::malformed(format!(
                "{}: a file of more than {most} bytes; --record-bytes allows for more",
                self.input.name
            )));
        }
        Ok(Next::Record(Record::from_pairs([
            (Label::field("name"), Value::Text(Text::from_string(name))),
            (Label::field("data"), Value::Bytes(Bytes::from_vec(data))),
        ])))
    }
}

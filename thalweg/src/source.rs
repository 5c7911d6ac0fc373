//! Sources: where a run's records come from. A source reads one record at a time, so a run holds no more of its
//! input than its streams have room for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_box::{Bytes, Value};
use thalweg_net::json;
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::xml::{self, XmlError};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a wait for input lasts before the source looks whether the run should end.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// One step of a source.
pub(crate) enum Next {
    /// A record for the network.
    Record(Record),
    /// Something that is not a record: where it stands and what is wrong with it.
    Malformed(String),
    /// Nothing yet: the source should rest.
    Rest,
    /// The input is at its end, or the run should end.
    End,
}

/// What a wait for input came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// There is something to read (the end of the file included).
    Ready,
    /// The source should rest.
    Rest,
    /// The run should end.
    End,
}

/// A file, or standard input, read so that a request to end is noticed while waiting for more.
struct Input {
    file: BufReader<File>,
    /// How messages name it.
    name: String,
    /// Waiting for more can take for ever: a terminal, a pipe.
    waits: bool,
}

impl Input {
    fn open(path: &Path) -> Result<Input, Failure> {
        let standard = path == Path::new("-");
        let name = if standard { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if standard {
            rustix::io::dup(io::stdin()).map(File::from).map_err(io::Error::from)
        } else {
            File::open(path)
        };
        let file = opened.map_err(|error| unreadable(&name, &error))?;
        let metadata = file.metadata().map_err(|error| unreadable(&name, &error))?;
        if metadata.is_dir() {
            return Err(Failure::coded(
                "E0901",
                format!("cannot read {name}: it is a directory, not a file of records"),
            ));
        }
        Ok(Input { file: BufReader::with_capacity(1 << 16, file), name, waits: !metadata.is_file() })
    }

    /// Waits for something to read; `between` records the source may be asked to rest meanwhile.
    fn wait(&self, interrupt: &Interrupt, between: bool) -> io::Result<Waited> {
        if interrupt.is_stopping() {
            return Ok(Waited::End);
        }
        if !self.waits || !self.file.buffer().is_empty() {
            return Ok(Waited::Ready);
        }
        loop {
            let mut descriptors = [PollFd::new(self.file.get_ref(), PollFlags::IN)];
            match poll(&mut descriptors, Some(&PATIENCE)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(Waited::Ready),
                Err(error) => return Err(error.into()),
            }
            if interrupt.is_stopping() {
                return Ok(Waited::End);
            }
            if between && interrupt.is_rest_wanted() {
                return Ok(Waited::Rest);
            }
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::coded("E0901", format!("cannot read {name}: {error}"))
}

/// Records as JSON Lines: one object a line; empty lines are passed over.
pub(crate) struct Lines {
    input: Input,
    extra: Vec<(Label, Value)>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// Opens `path` (`-` is standard input); every record also gets the labels of `extra` that it lacks.
    pub(crate) fn open(path: &Path, extra: Vec<(Label, Value)>) -> Result<Lines, Failure> {
        Ok(Lines { input: Input::open(path)?, extra, line: Vec::new(), number: 0 })
    }

    /// The next record.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        loop {
            self.line.clear();
            // A line may arrive in pieces; between them the run may be asked to end.
            loop {
                match self.input.wait(interrupt, self.line.is_empty())? {
                    Waited::Ready => {}
                    Waited::Rest => return Ok(Next::Rest),
                    Waited::End => return Ok(Next::End),
                }
                let available = self.input.file.fill_buf()?;
                if available.is_empty() {
                    break;
                }
                let end = available.iter().position(|&byte| byte == b'\n');
                let taken = end.map_or(available.len(), |at| at + 1);
                self.line.extend_from_slice(&available[..taken]);
                self.input.file.consume(taken);
                if end.is_some() {
                    break;
                }
            }
            if self.line.is_empty() {
                return Ok(Next::End);
            }
            self.number += 1;
            let line = self.line.trim_ascii();
            if !line.is_empty() {
                return Ok(self.record(line));
            }
        }
    }

    fn record(&self, line: &[u8]) -> Next {
        match json::read_record(line) {
            Ok(record) => Next::Record(with_extra(record, &self.extra)),
            Err(error) => Next::Malformed(format!(
                "{}:{}:{}: {}",
                self.input.name, self.number, error.column, error.message
            )),
        }
    }
}

/// A file cut into chunks: `{label: bytes, <seq>: 0, 1, …, <last>: 0 or 1}`. An empty file is one empty last chunk.
pub(crate) struct Chunks {
    input: Input,
    label: Label,
    chunk_bytes: usize,
    extra: Vec<(Label, Value)>,
    /// The chunk after the one handed out, read ahead to know which is the last.
    ahead: Option<Vec<u8>>,
    number: i64,
}

impl Chunks {
    /// Opens `path` (`-` is standard input), to be cut into fields `label` of `chunk_bytes`.
    pub(crate) fn open(
        path: &Path,
        label: &str,
        chunk_bytes: usize,
        extra: Vec<(Label, Value)>,
    ) -> Result<Chunks, Failure> {
        let input = Input::open(path)?;
        Ok(Chunks { input, label: Label::field(label), chunk_bytes, extra, ahead: None, number: 0 })
    }

    /// The next record.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        let chunk = match self.ahead.take() {
            Some(chunk) if chunk.is_empty() => return Ok(Next::End),
            Some(chunk) => chunk,
            None if self.number > 0 => return Ok(Next::End),
            None => match self.read(interrupt)? {
                Some(chunk) => chunk,
                None => return Ok(Next::End),
            },
        };
        // A request to end leaves the chunk in hand without a successor, but not as the last of its file.
        let after = if chunk.len() < self.chunk_bytes { Some(Vec::new()) } else { self.read(interrupt)? };
        let last = after.as_ref().is_some_and(Vec::is_empty);
        self.ahead = after;
        let own = [
            (self.label, Value::Bytes(Bytes::from_vec(chunk))),
            (Label::tag("seq"), Value::Int(self.number)),
            (Label::tag("last"), Value::Int(i64::from(last))),
        ];
        self.number += 1;
        Ok(Next::Record(Record::from_pairs(own.into_iter().chain(self.extra.iter().cloned()))))
    }

    /// Reads a whole chunk, or what is left of the input; nothing when the run should end.
    fn read(&mut self, interrupt: &Interrupt) -> io::Result<Option<Vec<u8>>> {
        if interrupt.is_stopping() {
            return Ok(None);
        }
        let mut chunk = Vec::with_capacity(self.chunk_bytes);
        if !self.input.waits {
            // Past the buffer: a file's bytes are copied once, by the system.
            self.input.file.get_ref().take(self.chunk_bytes as u64).read_to_end(&mut chunk)?;
            return Ok(Some(chunk));
        }
        while chunk.len() < self.chunk_bytes {
            if self.input.wait(interrupt, false)? != Waited::Ready {
                return Ok(None);
            }
            let available = self.input.file.fill_buf()?;
            if available.is_empty() {
                break;
            }
            let taken = available.len().min(self.chunk_bytes - chunk.len());
            chunk.extend_from_slice(&available[..taken]);
            self.input.file.consume(taken);
        }
        Ok(Some(chunk))
    }
}

/// Records as S-Net's XML.
pub(crate) struct Xml {
    records: Box<xml::Records<Waiting>>,
    extra: Vec<(Label, Value)>,
}

/// An input that ends when the run should.
struct Waiting {
    input: Input,
    interrupt: Interrupt,
    consumed: bool,
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Waiting {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let more = std::mem::take(&mut self.consumed);
        if more && self.input.wait(&self.interrupt, false)? != Waited::Ready {
            return Ok(&[]);
        }
        self.input.file.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.consumed = true;
        self.input.file.consume(count);
    }
}

impl Xml {
    /// Opens `path` (`-` is standard input); every record also gets the labels of `extra` that it lacks.
    pub(crate) fn open(
        path: &Path,
        extra: Vec<(Label, Value)>,
        interrupt: &Interrupt,
    ) -> Result<Xml, Failure> {
        let waiting = Waiting { input: Input::open(path)?, interrupt: interrupt.clone(), consumed: true };
        Ok(Xml { records: Box::new(xml::Records::new(waiting)), extra })
    }

    /// The next record.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        if self.records.has_ended() {
            return Ok(Next::End);
        }
        match self.records.input().input.wait(interrupt, true)? {
            Waited::Ready => {}
            Waited::Rest => return Ok(Next::Rest),
            Waited::End => return Ok(Next::End),
        }
        match self.records.next() {
            None => Ok(Next::End),
            Some(Ok(record)) => Ok(Next::Record(with_extra(record, &self.extra))),
            // What ended in its middle because the run ends is no fault of the input's.
            Some(Err(_)) if interrupt.is_stopping() => Ok(Next::End),
            Some(Err(XmlError::Input(error))) => Err(error),
            Some(Err(error)) => Ok(Next::Malformed(format!("{}: {error}", self.records.input().input.name))),
        }
    }
}

/// The record with those labels of `extra` that it lacks.
fn with_extra(record: Record, extra: &[(Label, Value)]) -> Record {
    if extra.is_empty() {
        return record;
    }
    let missing = extra.iter().filter(|(label, _)| record.get(*label).is_none()).cloned();
    Record::from_pairs(pairs(&record).chain(missing))
}

/// Any kind of source.
pub(crate) enum Source {
    /// `--input FILE`.
    Lines(Lines),
    /// `--input FILE --input-format xml`.
    Xml(Xml),
    /// `--input FILE --input-bytes LABEL`.
    Chunks(Chunks),
}

impl Source {
    /// The next record, or why there is none.
    pub(crate) fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        match self {
            Source::Lines(lines) => lines.next(interrupt),
            Source::Xml(xml) => xml.next(interrupt),
            Source::Chunks(chunks) => chunks.next(interrupt),
        }
    }

    fn input(&self) -> &Input {
        match self {
            Source::Lines(lines) => &lines.input,
            Source::Xml(xml) => &xml.records.input().input,
            Source::Chunks(chunks) => &chunks.input,
        }
    }

    /// Whether the next record comes without waiting for somebody to write it.
    pub(crate) fn is_ready(&self) -> bool {
        !self.input().waits || !self.input().file.buffer().is_empty()
    }

    /// How messages name the input.
    pub(crate) fn name(&self) -> &str {
        &self.input().name
    }
}

/// What `--with` says: the labels of one record, as JSON.
pub(crate) fn extra_labels(text: &str) -> Result<Vec<(Label, Value)>, Failure> {
    let record = json::read_record(text.as_bytes()).map_err(|error| {
        Failure::coded("E0902", format!("--with, column {}: {}", error.column, error.message))
    })?;
    Ok(pairs(&record).collect())
}

/// The record's labels and values; heap values are shared.
fn pairs(record: &Record) -> impl Iterator<Item = (Label, Value)> + '_ {
    record.shape().labels().iter().copied().zip(record.slots().iter().cloned())
}

//! Sources: the origins of a run's records. A source reads one record at a time, so a run holds no more of
//! its input than fits into its streams.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use thalweg_box::Value;
use thalweg_net::json::{self, Names};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::xml::{self, XmlError};

use super::chunks::{Chunks, Whole};
use super::csv::{Csv, separator};
use super::endpoint::{Endpoint, Format, Place};
use super::guarded::Guarded;
use super::lines::Lines;
use super::objects::Objects;
use super::pace::{Rate, Replay, sleep_towards};
use super::place::{Following, Input, Inputs, Peers, unreadable};
use super::step::{Lost, Malformed, Next};
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::notice::Notices;

/// The defaults for sources that do not specify otherwise.
#[derive(Clone, Debug)]
pub struct SourceDefaults {
    /// The form of the records.
    pub format: Option<Format>,
    /// The field of a line or chunk.
    pub label: Option<String>,
    /// The number of bytes of a chunk.
    pub chunk_bytes: usize,
    /// The number of records a second.
    pub rate: Option<f64>,
    /// Labels for records that lack them, as JSON.
    pub with: Option<String>,
    /// If given, records enter at their recorded times, this many times as fast.
    pub replay: Option<f64>,
    /// The most bytes of a record.
    pub bytes_max: usize,
    /// Labels for keys and columns that have other names in JSON and CSV.
    pub names: Arc<Names>,
}

impl Default for SourceDefaults {
    /// The defaults of `thalweg run`.
    fn default() -> SourceDefaults {
        SourceDefaults {
            format: None,
            label: None,
            chunk_bytes: 16384,
            rate: None,
            with: None,
            replay: None,
            bytes_max: 1 << 26,
            names: Arc::default(),
        }
    }
}

/// The options for reading the inputs of a source.
struct Reading {
    /// The format of files whose names imply none.
    format: Option<Format>,
    label: Option<String>,
    chunk_bytes: usize,
    bytes_max: usize,
    names: Arc<Names>,
    keeps_raw: bool,
}

/// A source of records at one place.
pub(crate) struct Source {
    /// The name of the source in reports.
    pub(crate) name: Option<String>,
    inputs: Inputs,
    reader: Option<Reader>,
    reading: Reading,
    extra: Vec<(Label, Value)>,
    rate: Option<Rate>,
    replay: Option<Replay>,
    /// A record that was read, and the time when it may enter.
    held: Option<(Record, Instant)>,
    interrupt: Interrupt,
}

impl Source {
    /// Opens a source at the endpoint. With `keeps_raw`, the bytes of input that is no record are kept and
    /// passed on unchanged.
    pub(crate) fn open(
        endpoint: Endpoint,
        defaults: &SourceDefaults,
        keeps_raw: bool,
        interrupt: &Interrupt,
        notices: &Notices,
    ) -> Result<Source, Error> {
        let format = endpoint.format(defaults.format);
        let is_folder = matches!(&endpoint.place, Place::Path(path) if path.is_dir());
        let options = endpoint.options;
        let extra = match options.with.as_deref().or(defaults.with.as_deref()) {
            Some(text) => extra_labels(text)?,
            None => Vec::new(),
        };
        if is_folder && format == Format::Bytes {
            return Err(Error::coded(
                "E0901",
                "the files of a directory cannot be one input of bytes; read it as `files`",
            ));
        }
        let asked = options.format.or(defaults.format);
        let mut source = Source {
            name: endpoint.name,
            inputs: Inputs::open(&endpoint.place, options.keep, notices)?,
            reader: None,
            reading: Reading {
                format: if is_folder { asked } else { Some(format) },
                label: options.label.or_else(|| defaults.label.clone()),
                chunk_bytes: options.chunk.unwrap_or(defaults.chunk_bytes),
                bytes_max: defaults.bytes_max,
                names: Arc::clone(&defaults.names),
                keeps_raw,
            },
            extra,
            rate: options.rate.or(defaults.rate).map(Rate::new),
            replay: defaults.replay.map(Replay::new),
            held: None,
            interrupt: interrupt.clone(),
        };
        if let Inputs::One(_) = source.inputs {
            source.follow()?;
        }
        Ok(source)
    }

    /// The next record, or the reason why there is none now. The call does not wait; [`Source::wait`] does.
    pub(crate) fn next(&mut self) -> Result<Next, Error> {
        if self.is_early() {
            return Ok(if self.interrupt.is_stopping() { Next::End } else { Next::Pending });
        }
        if let Some((record, _)) = self.held.take() {
            return Ok(Next::Record(record));
        }
        let record = match self.read()? {
            Next::Record(record) => record,
            other => return Ok(other),
        };
        if let Some(rate) = &mut self.rate {
            rate.spend(Instant::now());
        }
        self.paced(with_extra(record, &self.extra))
    }

    /// The time when the next record may enter, if it is known.
    fn due(&self) -> Option<Instant> {
        match (&self.held, &self.rate) {
            (Some((_, due)), _) => Some(*due),
            (None, Some(rate)) => rate.due(),
            (None, None) => None,
        }
    }

    /// Whether the next record may not enter yet.
    fn is_early(&self) -> bool {
        self.due().is_some_and(|due| due > Instant::now())
    }

    /// Returns the record if it may enter now; if not, keeps it until then.
    fn paced(&mut self, mut record: Record) -> Result<Next, Error> {
        let Some(replay) = &mut self.replay else { return Ok(Next::Record(record)) };
        let now = Instant::now();
        match replay.due(&mut record, now) {
            Ok(due) if due > now => {
                self.held = Some((record, due));
                Ok(Next::Pending)
            }
            Ok(_) => Ok(Next::Record(record)),
            Err(what) => {
                let what = format!("{}: {what}", self.place());
                Ok(Next::Malformed(Malformed { what, lost: Lost::Record(record) }))
            }
        }
    }

    /// The next record of the present input, or, if that has ended, of the input that follows it.
    fn read(&mut self) -> Result<Next, Error> {
        loop {
            if let Some(reader) = &mut self.reader {
                match reader.next(&self.interrupt) {
                    Ok(Next::End) if !self.interrupt.is_stopping() => self.reader = None,
                    Ok(next) => return Ok(next),
                    // A peer whose input breaks off does not prevent the next peer from being read.
                    Err(error) if matches!(self.inputs, Inputs::Peers(_, Peers::All)) => {
                        let what = format!("{}: {error}", reader.input().name);
                        self.reader = None;
                        return Ok(Next::malformed(what));
                    }
                    Err(error) => return Err(unreadable(&reader.input().name, error)),
                }
            }
            if self.interrupt.is_stopping() {
                return Ok(Next::End);
            }
            if let Some(next) = self.follow()? {
                return Ok(next);
            }
        }
    }

    /// Opens the next input. Returns `None` if there is one; if not, `Some` with the reason.
    fn follow(&mut self) -> Result<Option<Next>, Error> {
        match self.inputs.next()? {
            Following::Input(input) => {
                self.reader = Some(self.reading.reader(*input, &self.interrupt));
                Ok(None)
            }
            Following::Pending => Ok(Some(Next::Pending)),
            Following::End => Ok(Some(Next::End)),
        }
    }

    /// Waits a moment for the next record.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        if let Some(due) = self.due()
            && due > Instant::now()
        {
            sleep_towards(due);
            return Ok(());
        }
        let waited = match &self.reader {
            Some(reader) => reader.input().wait(),
            None => self.inputs.wait(),
        };
        waited.map_err(|error| unreadable(self.place(), error))
    }

    /// Whether the next record can be returned without waiting for data or for its time.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_early() && self.reader.as_ref().is_some_and(|reader| reader.input().is_buffered())
    }

    /// The name of the input in messages.
    fn place(&self) -> &str {
        match (&self.reader, &self.inputs) {
            (Some(reader), _) => &reader.input().name,
            (None, Inputs::Peers(listener, _)) => &listener.name,
            (None, _) => "the input",
        }
    }
}

/// The reader that turns an input into records.
enum Reader {
    Objects(Box<Objects>),
    Lines(Lines),
    Csv(Box<Csv>),
    Xml(Box<xml::Records<Guarded>>),
    Chunks(Chunks),
    Whole(Whole),
}

impl Reading {
    fn reader(&self, mut input: Input, interrupt: &Interrupt) -> Reader {
        if self.keeps_raw {
            input.keep();
        }
        let label = |default: &'static str| self.label.as_deref().unwrap_or(default);
        let implied = Format::of(Path::new(&input.name));
        let format = self.format.or(implied).unwrap_or(Format::Json);
        // Inputs of the formats bytes and files are not decompressed.
        if !matches!(format, Format::Bytes | Format::Files) {
            input.decode();
        }
        match format {
            Format::Json => {
                Reader::Objects(Box::new(Objects::new(input, Arc::clone(&self.names), self.bytes_max)))
            }
            Format::Lines => Reader::Lines(Lines::new(input, Label::field(label("line")), self.bytes_max)),
            Format::Csv => {
                let separator = separator(Path::new(&input.name));
                Reader::Csv(Box::new(Csv::new(input, separator, Arc::clone(&self.names), self.bytes_max)))
            }
            Format::Xml => {
                let guarded = Guarded::new(input, interrupt.clone(), self.bytes_max);
                Reader::Xml(Box::new(xml::Records::new(guarded)))
            }
            Format::Bytes => Reader::Chunks(Chunks::new(input, label("data"), self.chunk_bytes)),
            Format::Files => Reader::Whole(Whole::new(input, self.bytes_max)),
        }
    }
}

impl Reader {
    fn next(&mut self, interrupt: &Interrupt) -> io::Result<Next> {
        match self {
            Reader::Objects(objects) => objects.next(interrupt),
            Reader::Lines(lines) => lines.next(interrupt),
            Reader::Csv(csv) => csv.next(interrupt),
            Reader::Xml(records) => next_of_xml(records, interrupt),
            Reader::Chunks(chunks) => chunks.next(interrupt),
            Reader::Whole(whole) => whole.next(),
        }
    }

    fn input(&self) -> &Input {
        match self {
            Reader::Objects(objects) => &objects.input,
            Reader::Lines(lines) => &lines.input,
            Reader::Csv(csv) => &csv.input,
            Reader::Xml(records) => &records.input().input,
            Reader::Chunks(chunks) => &chunks.input,
            Reader::Whole(whole) => &whole.input,
        }
    }
}

fn next_of_xml(records: &mut xml::Records<Guarded>, interrupt: &Interrupt) -> io::Result<Next> {
    if records.has_ended() || interrupt.is_stopping() {
        return Ok(Next::End);
    }
    if !records.input_mut().input.is_ready()? {
        return Ok(Next::Pending);
    }
    records.input_mut().begin();
    Ok(match records.next() {
        None => Next::End,
        Some(Ok(record)) => Next::Record(record),
        // A record that breaks off because the run should end is no error of the input.
        Some(Err(_)) if interrupt.is_stopping() => Next::End,
        Some(Err(XmlError::Input(error))) if error.kind() != io::ErrorKind::InvalidData => return Err(error),
        Some(Err(error)) => {
            let rest = if matches!(error, XmlError::Input(_)) { "; nothing after it is read" } else { "" };
            let input = &mut records.input_mut().input;
            let what = format!("{}: {error}{rest}", input.name);
            let lost = input.raw(None, false).map_or(Lost::Nothing, |raw| Lost::Raw(raw.trimmed()));
            Next::Malformed(Malformed { what, lost })
        }
    })
}

/// Parses the argument of `--with`: the labels of one record, as JSON.
fn extra_labels(text: &str) -> Result<Vec<(Label, Value)>, Error> {
    let record = json::read_record(text.as_bytes()).map_err(|error| {
        Error::coded("E0902", format!("--with, column {}: {}", error.column, error.message))
    })?;
    Ok(pairs(&record).collect())
}

/// The record with the labels of `extra` that it lacks.
fn with_extra(record: Record, extra: &[(Label, Value)]) -> Record {
    if extra.is_empty() {
        return record;
    }
    let missing = extra.iter().filter(|(label, _)| record.get(*label).is_none()).cloned();
    Record::from_pairs(pairs(&record).chain(missing))
}

/// The record's labels and values; values on the heap are shared.
fn pairs(record: &Record) -> impl Iterator<Item = (Label, Value)> + '_ {
    record.shape().labels().iter().copied().zip(record.slots().iter().cloned())
}

//! Sinks: the destinations of a run's records. On request a sink writes its records in the order of a tag.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_box::Value;
use thalweg_net::json::{self, Names};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::xml;

use super::compression::{Compression, Encoded};
use super::csv::{CsvWriter, separator};
use super::endpoint::{Endpoint, Format, Place};
use super::place;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::notice::Notices;

/// The form in which a record is written.
enum Form {
    /// One JSON object a line.
    Json(Arc<Names>),
    /// S-Net's XML.
    Xml,
    /// A row of cells.
    Csv(Box<CsvWriter>),
    /// The value of the given field, and an end of line.
    Line(Label),
    /// The bytes of the given field, without a separator.
    Bytes(Label),
}

/// Why a record could not be written.
pub(crate) enum SinkError {
    /// Writing failed, and nothing more can be written.
    Write(io::Error),
    /// The record lacks the field or tag, or has a value that the format cannot express; other records may
    /// still be written.
    Record(String, Option<Record>),
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> SinkError {
        SinkError::Write(error)
    }
}

/// The defaults for sinks that do not specify otherwise.
#[derive(Clone, Debug, Default)]
pub struct SinkDefaults {
    /// How records are written.
    pub format: Option<Format>,
    /// The field of a line or chunk.
    pub label: Option<String>,
    /// A tag that counts from 0 and gives the order of the records, and the most records that wait for a
    /// missing record.
    pub order: Option<(String, usize)>,
    /// Labels for keys and columns that have other names in JSON and CSV.
    pub names: Arc<Names>,
}

/// A sink for one place.
pub(crate) struct Sink {
    writer: Writer,
    order: Option<Order>,
    /// The name of the sink in reports.
    pub(crate) called: Option<String>,
    /// The name of the place in messages.
    pub(crate) name: String,
    /// The labels that a record must have so that this sink accepts it, if there are several sinks.
    pub(crate) accepts: Option<Vec<Label>>,
}

enum Writer {
    /// All records are written into one file.
    File { file: Box<BufWriter<Encoded>>, form: Form, line: Vec<u8> },
    /// Each record is written into a file of its own.
    Folder(PathBuf),
}

/// Sorts records by a tag that counts from 0.
struct Order {
    tag: Label,
    next: i64,
    /// Records that came before their turn. Records with the same number keep their order of arrival.
    early: BTreeMap<(i64, u64), Record>,
    arrivals: u64,
    /// The most records that may wait for their turn; if more records wait, the missing records before them
    /// are given up.
    early_max: usize,
    missing: u64,
}

impl Order {
    fn new(tag: &str, early_max: usize) -> Order {
        let tag = Label::tag(tag);
        Order { tag, next: 0, early: BTreeMap::new(), arrivals: 0, early_max, missing: 0 }
    }
}

impl Sink {
    /// Opens a sink at the endpoint; an existing file is replaced.
    pub(crate) fn open(
        endpoint: Endpoint,
        defaults: &SinkDefaults,
        interrupt: &Interrupt,
        notices: &Notices,
    ) -> Result<Sink, Error> {
        let format = endpoint.format(defaults.format);
        let Endpoint { name: called, place, options } = endpoint;
        let label =
            |default| Label::field(options.label.as_deref().or(defaults.label.as_deref()).unwrap_or(default));
        let form = match format {
            Format::Json => Form::Json(Arc::clone(&defaults.names)),
            Format::Xml => Form::Xml,
            Format::Csv => {
                let path = if let Place::Path(path) = &place { path.as_path() } else { Path::new("") };
                Form::Csv(Box::new(CsvWriter::new(separator(path), Arc::clone(&defaults.names))))
            }
            Format::Lines => Form::Line(label("line")),
            Format::Bytes => Form::Bytes(label("data")),
            Format::Files => {
                let (writer, name) = Writer::folder(place)?;
                return Ok(Sink { writer, order: None, called, name, accepts: options.accepts });
            }
        };
        // Lines are buffered; a chunk larger than the buffer is written directly.
        let buffer_bytes = if format == Format::Bytes { 1 << 13 } else { 1 << 16 };
        let compression = match &place {
            Place::Path(path) if format != Format::Bytes => Compression::of_name(path).0,
            _ => None,
        };
        let (file, name) = place::create(&place, interrupt, notices)?;
        let file = Encoded::new(file, compression).map_err(|error| place::unwritable(&name, error))?;
        let file = Box::new(BufWriter::with_capacity(buffer_bytes, file));
        let order = defaults.order.as_ref().map(|(tag, early_max)| Order::new(tag, *early_max));
        let writer = Writer::File { file, form, line: Vec::new() };
        Ok(Sink { writer, order, called, name, accepts: options.accepts })
    }

    /// Writes `record` now, or keeps it until its turn comes.
    pub(crate) fn take(&mut self, record: Record) -> Result<(), SinkError> {
        let Some(order) = &mut self.order else { return self.writer.write(record) };
        let Some(&Value::Int(number)) = record.get(order.tag) else {
            let tag = order.tag.name();
            let what = format!("a record without <{tag}> has no place in the order of --order-by {tag}");
            return Err(SinkError::Record(what, Some(record)));
        };
        if number > order.next {
            order.arrivals += 1;
            order.early.insert((number, order.arrivals), record);
            if order.early.len() > order.early_max {
                self.skip_missing();
            }
        } else {
            order.next = order.next.max(number + 1);
            self.writer.write(record)?;
        }
        self.write_early()
    }

    /// Writes the waiting records whose turn has come.
    fn write_early(&mut self) -> Result<(), SinkError> {
        while let Some(order) = &mut self.order {
            match order.early.first_entry() {
                Some(first) if first.key().0 <= order.next => {
                    order.next = order.next.max(first.key().0 + 1);
                    let record = first.remove();
                    self.writer.write(record)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Gives up the missing numbers before the first record that waits for its turn.
    fn skip_missing(&mut self) {
        if let Some(order) = &mut self.order
            && let Some((&(number, _), _)) = order.early.first_key_value()
        {
            order.missing += (number - order.next).unsigned_abs();
            order.next = number;
        }
    }

    /// Writes the records that still wait for their turn, and everything buffered. Returns how many numbers
    /// never came.
    pub(crate) fn finish(&mut self) -> Result<u64, SinkError> {
        while self.order.as_ref().is_some_and(|order| !order.early.is_empty()) {
            self.skip_missing();
            self.write_early()?;
        }
        self.writer.finish()?;
        Ok(self.order.as_ref().map_or(0, |order| order.missing))
    }

    /// The number of records that the sink accepted and that, because writing failed, are not in the file.
    pub(crate) fn unwritten(&self) -> u64 {
        self.writer.unwritten()
    }

    /// Writes the buffered bytes to the file, so that its reader need not wait for the buffer to fill.
    pub(crate) fn flush(&mut self) -> Result<(), SinkError> {
        self.writer.flush()
    }
}

impl Writer {
    /// The writer for a directory, which is created if it does not exist.
    fn folder(place: Place) -> Result<(Writer, String), Error> {
        let Place::Path(folder) = place else {
            return Err(Error::coded(
                "E0902",
                "--output: files are written into a directory, given by its path",
            ));
        };
        let name = folder.display().to_string();
        std::fs::create_dir_all(&folder).map_err(|error| place::unwritable(&name, error))?;
        Ok((Writer::Folder(folder), name))
    }

    /// Writes a record; a record that cannot be written is returned in the error.
    fn write(&mut self, record: Record) -> Result<(), SinkError> {
        self.try_write(&record).map_err(|error| match error {
            SinkError::Record(what, _) => SinkError::Record(what, Some(record)),
            error => error,
        })
    }

    fn try_write(&mut self, record: &Record) -> Result<(), SinkError> {
        let (file, form, line) = match self {
            Writer::Folder(folder) => return write_file(folder, record),
            Writer::File { file, form, line } => (file, form, line),
        };
        line.clear();
        match form {
            Form::Json(names) => {
                json::write_named(record, names, line);
                line.push(b'\n');
            }
            Form::Xml => xml::write_record(record, line).map_err(|error| refused(error.to_string()))?,
            Form::Csv(csv) => csv.write(record, line).map_err(refused)?,
            Form::Line(label) => {
                line.extend_from_slice(bytes_of(record, *label)?);
                if line.contains(&b'\n') {
                    let name = label.name();
                    let what = "has several lines; write it as bytes, or as JSON";
                    return Err(refused(format!("the field `{name}` {what}")));
                }
                line.push(b'\n');
            }
            Form::Bytes(label) => {
                file.write_all(bytes_of(record, *label)?)?;
                return Ok(());
            }
        }
        file.write_all(line)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        match self {
            Writer::File { file, .. } => Ok(file.flush()?),
            Writer::Folder(_) => Ok(()),
        }
    }

    /// The number of records whose end is still buffered. For bytes without separators the number is 0,
    /// because their records have no visible end.
    fn unwritten(&self) -> u64 {
        let Writer::File { file, form, .. } = self else { return 0 };
        let buffer = file.buffer();
        let lines = memchr::memchr_iter(b'\n', buffer).count();
        let count = match form {
            Form::Json(_) | Form::Line(_) => lines,
            Form::Csv(_) => rows_that_end(buffer),
            Form::Xml => memchr::memmem::find_iter(buffer, b"</record>").count(),
            Form::Bytes(_) => 0,
        };
        count as u64
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        if let Writer::File { file, form: Form::Xml, line } = self {
            line.clear();
            xml::write_end(line);
            file.write_all(line)?;
        }
        self.flush()?;
        match self {
            Writer::File { file, .. } => Ok(file.get_mut().finish()?),
            Writer::Folder(_) => Ok(()),
        }
    }
}

/// The number of rows that end in `bytes`, which may begin in the middle of a row and end with the end of a
/// row.
fn rows_that_end(bytes: &[u8]) -> usize {
    let mut quoted = false;
    let mut ends = |byte: &&u8| {
        quoted ^= **byte == b'"';
        **byte == b'\n' && !quoted
    };
    bytes.iter().rev().filter(|byte| ends(byte)).count()
}

fn refused(what: String) -> SinkError {
    SinkError::Record(what, None)
}

/// The bytes of a field whose value is bytes, a text, or a nested JSON value (the bytes of its text).
fn bytes_of(record: &Record, label: Label) -> Result<&[u8], SinkError> {
    match record.get(label) {
        Some(Value::Bytes(bytes)) => Ok(bytes.as_slice()),
        Some(Value::Text(text)) => Ok(text.as_str().as_bytes()),
        other => {
            let (name, kind) = (label.name(), other.map_or("nothing", Value::kind));
            Err(refused(format!(
                "the output wants bytes or text in the field `{name}`, this record has {kind}"
            )))
        }
    }
}

/// Writes the record's `data` into the file that the record's `name` names.
fn write_file(folder: &Path, record: &Record) -> Result<(), SinkError> {
    let name = match record.get(Label::field("name")) {
        Some(Value::Text(name)) => name.as_str(),
        _ => return Err(refused("a file needs its name as text in the field `name`".to_owned())),
    };
    // A record's `name` must not lead to a path outside of the directory.
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(refused(format!("{name:?} is no name of a file in the output's directory")));
    }
    let path = folder.join(name);
    let data = bytes_of(record, Label::field("data"))?;
    std::fs::write(&path, data).map_err(|error| {
        // A partial file would look like a complete one, so it is removed.
        let _ = std::fs::remove_file(&path);
        SinkError::Write(io::Error::new(error.kind(), OfFile { name: name.to_owned(), error }))
    })
}

/// The error of a file in a directory that could not be written.
#[derive(Debug)]
struct OfFile {
    name: String,
    error: io::Error,
}

impl fmt::Display for OfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl std::error::Error for OfFile {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: i64) -> Record {
        Record::from_pairs([(Label::tag("seq"), Value::Int(number))])
    }

    fn sink(path: &Path, format: Format, order: Option<(&str, usize)>) -> Sink {
        let endpoint =
            Endpoint { name: None, place: Place::Path(path.to_owned()), options: Default::default() };
        let defaults = SinkDefaults {
            format: Some(format),
            label: None,
            order: order.map(|(tag, most)| (tag.to_owned(), most)),
            names: Arc::default(),
        };
        Sink::open(endpoint, &defaults, &Interrupt::default(), &Notices::none())
            .unwrap_or_else(|_| panic!("no sink"))
    }

    #[test]
    fn a_record_chooses_a_file_in_the_directory_and_no_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut sink = sink(&folder.path().join("out"), Format::Files, None);
        let mut write = |name: &str| {
            let pairs = [("name", Value::from(name)), ("data", Value::from("content"))];
            sink.take(Record::from_pairs(pairs.map(|(label, value)| (Label::field(label), value))))
        };
        assert!(write("a b.txt").is_ok());
        for name in ["../escaped", "/tmp/escaped", "..", "", "a\0b"] {
            assert!(matches!(write(name), Err(SinkError::Record(..))), "{name:?}");
        }
        let written: Vec<_> = std::fs::read_dir(folder.path().join("out")).unwrap().collect();
        assert_eq!(written.len(), 1);
        assert_eq!(std::fs::read(folder.path().join("out/a b.txt")).unwrap(), b"content");
    }

    /// Gives records with the numbers as `<seq>` to a sink ordered by `<seq>`; returns the numbers that were
    /// written and how many never came.
    fn ordered(numbers: &[i64], early_max: usize) -> (Vec<i64>, u64) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("out");
        let mut sink = sink(&path, Format::Json, Some(("seq", early_max)));
        for &number in numbers {
            assert!(sink.take(numbered(number)).is_ok());
        }
        let missing = sink.finish().unwrap_or_else(|_| panic!("the file takes it"));
        let text = std::fs::read_to_string(path).expect("a file");
        let written = text.lines().map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            value["<seq>"].as_i64().expect("a number")
        });
        (written.collect(), missing)
    }

    #[test]
    fn records_leave_in_the_order_of_their_tag() {
        assert_eq!(ordered(&[2, 0, 3, 1], 10), (vec![0, 1, 2, 3], 0));
        assert_eq!(ordered(&[0, 0, 1, 1], 10), (vec![0, 0, 1, 1], 0));
    }

    #[test]
    fn missing_numbers_are_counted_and_nothing_else_is_held_back_for_ever() {
        assert_eq!(ordered(&[3, 0, 5], 10), (vec![0, 3, 5], 3));
        assert_eq!(ordered(&[9, 8, 7, 6, 0], 2), (vec![7, 8, 9, 6, 0], 7));
    }

    #[test]
    fn a_record_without_its_tag_is_refused_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut sink = sink(&folder.path().join("out"), Format::Json, Some(("seq", 4)));
        let lost = sink.take(Record::from_pairs([(Label::tag("other"), Value::Int(1))]));
        assert!(matches!(lost, Err(SinkError::Record(message, Some(_))) if message.contains("<seq>")));
        assert!(sink.take(numbered(0)).is_ok());
    }
}

//! Sinks: where a run's records go, as JSON Lines, as XML, or as the raw bytes of one field, in the order of a tag if asked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use thalweg_box::Value;
use thalweg_net::json;
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::xml;

use crate::failure::Failure;

/// How a record is written.
enum Form {
    /// One JSON object a line.
    Line,
    /// S-Net's XML.
    Xml,
    /// The bytes of this field, nothing between them.
    Bytes(Label),
}

/// How the records of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// JSON Lines: one object a line.
    Json,
    /// S-Net's XML, ended by a record of type "terminate".
    Xml,
}

impl Format {
    /// The format that was asked for, or else that of the file's name.
    pub(crate) fn of(asked: Option<Format>, path: &Path) -> Format {
        let is_xml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml"));
        asked.unwrap_or(if is_xml { Format::Xml } else { Format::Json })
    }
}

/// Why a record could not be written.
pub(crate) enum SinkError {
    /// Writing failed; nothing more can be written.
    Write(io::Error),
    /// This record has no such field or tag; others may.
    Record(String),
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> SinkError {
        SinkError::Write(error)
    }
}

/// An output file, or standard output.
pub(crate) struct Sink {
    file: BufWriter<Box<dyn Write + Send>>,
    form: Form,
    order: Option<Order>,
    line: Vec<u8>,
    /// How messages name it.
    pub(crate) name: String,
}

/// Puts records back into the order of a tag that counts from 0.
struct Order {
    tag: Label,
    next: i64,
    /// Records that came before their turn. Those of one number keep the order in which they came.
    early: BTreeMap<(i64, u64), Record>,
    arrivals: u64,
    /// More early records than this, and the missing ones are given up.
    early_max: usize,
    missing: u64,
}

impl Sink {
    /// Opens `path` (`-` is standard output), replacing a file that is there.
    pub(crate) fn open(
        path: &Path,
        format: Format,
        bytes_of: Option<&str>,
        order_by: Option<&str>,
        early_max: usize,
    ) -> Result<Sink, Failure> {
        let (file, name): (Box<dyn Write + Send>, String) = if path == Path::new("-") {
            (Box::new(io::stdout()), "standard output".to_owned())
        } else {
            let file = File::create(path).map_err(|error| {
                Failure::coded("E0901", format!("cannot write {}: {error}", path.display()))
            })?;
            (Box::new(file), path.display().to_string())
        };
        let form = match bytes_of {
            Some(label) => Form::Bytes(Label::field(label)),
            None if format == Format::Xml => Form::Xml,
            None => Form::Line,
        };
        let order = order_by.map(|tag| Order {
            tag: Label::tag(tag),
            next: 0,
            early: BTreeMap::new(),
            arrivals: 0,
            early_max,
            missing: 0,
        });
        // Lines are gathered; a chunk larger than the buffer goes past it.
        let buffer_bytes = if bytes_of.is_some() { 1 << 13 } else { 1 << 16 };
        Ok(Sink { file: BufWriter::with_capacity(buffer_bytes, file), form, order, line: Vec::new(), name })
    }

    /// Writes `record` now, or keeps it until its turn has come.
    pub(crate) fn take(&mut self, record: Record) -> Result<(), SinkError> {
        let Some(order) = &mut self.order else { return self.write(&record) };
        let Some(&Value::Int(number)) = record.get(order.tag) else {
            let tag = order.tag.name();
            return Err(SinkError::Record(format!(
                "a record without <{tag}> has no place in the order of --order-by {tag}"
            )));
        };
        if number > order.next {
            order.arrivals += 1;
            order.early.insert((number, order.arrivals), record);
            if order.early.len() > order.early_max {
                self.skip_missing();
            }
        } else {
            order.next = order.next.max(number + 1);
            self.write(&record)?;
        }
        self.write_early()
    }

    /// Writes the early records whose turn has come.
    fn write_early(&mut self) -> Result<(), SinkError> {
        while let Some(order) = &mut self.order {
            match order.early.first_entry() {
                Some(first) if first.key().0 <= order.next => {
                    order.next = order.next.max(first.key().0 + 1);
                    let record = first.remove();
                    self.write(&record)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Gives up the numbers before the first early record.
    fn skip_missing(&mut self) {
        if let Some(order) = &mut self.order
            && let Some((&(number, _), _)) = order.early.first_key_value()
        {
            order.missing += (number - order.next).unsigned_abs();
            order.next = number;
        }
    }

    /// Writes what still waits for its turn, and everything buffered. Returns how many numbers never came.
    pub(crate) fn finish(&mut self) -> Result<u64, SinkError> {
        while self.order.as_ref().is_some_and(|order| !order.early.is_empty()) {
            self.skip_missing();
            self.write_early()?;
        }
        if matches!(self.form, Form::Xml) {
            self.line.clear();
            xml::write_end(&mut self.line);
            self.file.write_all(&self.line)?;
        }
        self.file.flush()?;
        Ok(self.order.as_ref().map_or(0, |order| order.missing))
    }

    /// Hands what is buffered to the file: whoever reads it should not wait for the buffer to fill.
    pub(crate) fn flush(&mut self) -> Result<(), SinkError> {
        Ok(self.file.flush()?)
    }

    fn write(&mut self, record: &Record) -> Result<(), SinkError> {
        match self.form {
            Form::Line => {
                self.line.clear();
                json::write_record(record, &mut self.line);
                self.line.push(b'\n');
                self.file.write_all(&self.line)?;
            }
            Form::Xml => {
                self.line.clear();
                xml::write_record(record, &mut self.line).map_err(SinkError::Record)?;
                self.file.write_all(&self.line)?;
            }
            Form::Bytes(label) => match record.get(label) {
                Some(Value::Bytes(bytes)) => self.file.write_all(bytes.as_slice())?,
                Some(Value::Text(text)) => self.file.write_all(text.as_str().as_bytes())?,
                other => {
                    let (name, kind) = (label.name(), other.map_or("nothing", Value::kind));
                    return Err(SinkError::Record(format!(
                        "--output-bytes {name} wants bytes or text in the field `{name}`, this record has {kind}"
                    )));
                }
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: i64) -> Record {
        Record::from_pairs([(Label::tag("seq"), Value::Int(number))])
    }

    /// Feeds the numbers through a sink ordered by `<seq>`; returns what was written and how many never came.
    fn ordered(numbers: &[i64], early_max: usize) -> (Vec<i64>, u64) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("out");
        let mut sink = Sink::open(&path, Format::Json, None, Some("seq"), early_max)
            .unwrap_or_else(|_| panic!("no sink"));
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
        let mut sink = Sink::open(&folder.path().join("out"), Format::Json, None, Some("seq"), 4)
            .unwrap_or_else(|_| panic!("no sink"));
        let lost = sink.take(Record::from_pairs([(Label::tag("other"), Value::Int(1))]));
        assert!(matches!(lost, Err(SinkError::Record(message)) if message.contains("<seq>")));
        assert!(sink.take(numbered(0)).is_ok());
    }
}

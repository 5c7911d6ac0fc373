//! Dead letters: failed records and unreadable input, unchanged, in a file of JSON Lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use thalweg_box::Value;
use thalweg_net::RecordError;
use thalweg_net::json::{self, Names};
use thalweg_net::label::Label;
use thalweg_net::record::Record;

use crate::error::Error;
use crate::io::{Raw, unwritable};

/// The file of dead letters.
pub(super) struct DeadLetters {
    name: String,
    file: BufWriter<File>,
    names: Arc<Names>,
    /// The number of dead letters that are not completely written to the file yet.
    unwritten: u64,
    /// Whether writing failed, so that no more dead letters are written.
    broken: bool,
}

impl DeadLetters {
    pub(super) fn create(path: &Path, names: &Arc<Names>) -> Result<DeadLetters, Error> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| unwritable(&name, error))?;
        let names = Arc::clone(names);
        Ok(DeadLetters { name, file: BufWriter::new(file), names, unwritten: 0, broken: false })
    }

    /// Writes a record that failed in a component, with the component, the reason, and the message's stream
    /// and position.
    pub(super) fn failed(&mut self, error: &RecordError) -> Result<(), Error> {
        let RecordError { component, reason, stream, index, record, .. } = error;
        let message = format!(r#","stream":{stream},"index":{index}"#);
        let names = Arc::clone(&self.names);
        self.letter(component, reason, &message, |line| write_member("record", record, &names, line))
    }

    /// Writes a record that an end of the network refused.
    pub(super) fn refused(&mut self, component: &str, reason: &str, record: &Record) -> Result<(), Error> {
        let names = Arc::clone(&self.names);
        self.letter(component, reason, "", |line| write_member("record", record, &names, line))
    }

    /// Writes bytes of an input that are no record.
    pub(super) fn unread(&mut self, component: &str, reason: &str, raw: &Raw) -> Result<(), Error> {
        let Raw { input, line, byte, bytes, goes_on } = raw;
        let line = line.map_or(String::new(), |line| format!(r#","line":{line}"#));
        let more = if *goes_on { r#","more":true"# } else { "" };
        let place = format!(r#","input":{}{line},"byte":{byte}{more}"#, json!(input));
        let value = match std::str::from_utf8(bytes) {
            Ok(text) => Value::from(text),
            Err(_) => Value::from(bytes.clone()),
        };
        let raw = Record::from_pairs([(Label::field("raw"), value)]);
        self.letter(component, reason, &place, |line| {
            let begin = line.len();
            json::write_record(&raw, line);
            // The members of `raw` follow the letter's other members, so their opening brace becomes a comma.
            line[begin] = b',';
            line.pop();
        })
    }

    /// Writes one line, that is, one dead letter; `what` writes its last member.
    fn letter(
        &mut self,
        component: &str,
        reason: &str,
        place: &str,
        what: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let (component, reason) = (json!(component), json!(reason));
        let mut line = format!(r#"{{"component":{component},"reason":{reason}{place}"#).into_bytes();
        what(&mut line);
        line.extend(b"}\n");
        self.unwritten += 1;
        if self.broken {
            return Ok(());
        }
        let written = self.file.write_all(&line);
        self.check(written)
    }

    /// Writes buffered dead letters to the file.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if self.broken {
            return Ok(());
        }
        let flushed = self.file.flush();
        let is_safe = flushed.is_ok();
        self.check(flushed)?;
        if is_safe {
            self.unwritten = 0;
        }
        Ok(())
    }

    /// At the end of the run, a message about dead letters that are not in the file, if there are any.
    pub(super) fn lost(&self) -> Option<String> {
        let (count, name) = (self.unwritten, &self.name);
        let letters = if count == 1 { "dead letter is" } else { "dead letters are" };
        (count > 0).then(|| format!("{count} {letters} not in {name}"))
    }

    /// Returns the error of the first dead letter that cannot be written; from then on no dead letter is
    /// written.
    fn check(&mut self, written: io::Result<()>) -> Result<(), Error> {
        written.map_err(|error| {
            self.broken = true;
            unwritable(&self.name, error)
        })
    }
}

fn write_member(name: &str, record: &Record, names: &Names, line: &mut Vec<u8>) {
    line.extend(format!(r#","{name}":"#).bytes());
    json::write_named(record, names, line);
}

//! Writes the records that enter a network to a file, with their times, so that the run can be replayed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use thalweg_net::json::{self, Names};
use thalweg_net::record::Record;

use crate::error::Error;
use crate::io::{recorded_at, unwritable};

/// The file of the records that entered the network, for a replay.
pub(super) struct Recording {
    name: String,
    file: BufWriter<File>,
    names: Arc<Names>,
    began: Instant,
    line: Vec<u8>,
}

impl Recording {
    pub(super) fn create(path: &Path, names: &Arc<Names>) -> Result<Recording, Error> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| unwritable(&name, error))?;
        let file = BufWriter::new(file);
        let names = Arc::clone(names);
        Ok(Recording { name, file, names, began: Instant::now(), line: Vec::new() })
    }

    /// Writes one line: the time at which the record entered the network, and the record.
    pub(super) fn write(&mut self, record: &Record) -> Result<(), Error> {
        let tag = recorded_at();
        self.line.clear();
        json::write_named(record, &self.names, &mut self.line);
        if record.get(tag).is_none() {
            let at = self.began.elapsed().as_nanos();
            let separator = if self.line == b"{}" { "" } else { ", " };
            self.line.splice(..1, format!("{{\"{tag}\": {at}{separator}").into_bytes());
        }
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(|error| unwritable(&self.name, error))
    }

    /// Writes buffered lines to the file.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| unwritable(&self.name, error))
    }
}

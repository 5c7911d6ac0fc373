//! The consumers of an element: its writer waits for them, or drops events for which they leave no room.

use crate::error::Error;
use crate::file;
use crate::layout::element;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A consumer of one element. When the consumer is dropped, the writer no longer waits.
#[derive(Debug)]
pub(super) struct Consumer {
    file: File,
    path: Arc<Path>,
    /// Where the element's header lies.
    start: u64,
    /// The read position that was last written into the header.
    written: u64,
}

impl Consumer {
    /// Writes the consumer's process into the header, so that the writer does not wait for a dead process. The element's header lies at `start` of the file.
    pub(super) fn begin(path: &Arc<Path>, start: u64) -> Result<Consumer, Error> {
        let file = file::open(path, OpenOptions::new().write(true));
        let file = file.map_err(|e| Error::io("open", path, e))?;
        let consumer = Consumer { file, path: path.clone(), start, written: u64::MAX };
        let pid = std::process::id();
        consumer.put(element::READER_START, crate::process::start_time(pid).unwrap_or(0))?;
        consumer.put(element::READER, u64::from(pid))?;
        Ok(consumer)
    }

    /// Permits the writer to overwrite everything before `position`.
    pub(super) fn release(&mut self, position: u64) -> Result<(), Error> {
        if position != self.written {
            self.put(element::READ_POSITION, position)?;
            self.written = position;
        }
        Ok(())
    }

    fn put(&self, at: usize, value: u64) -> Result<(), Error> {
        let written = self.file.write_all_at(&value.to_le_bytes(), self.start + at as u64);
        written.map_err(|e| Error::io("write", &self.path, e))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // No process has this start time, so the writer stops waiting. The error is ignored: an element that
        // was removed has no writer either.
        let _ = self.put(element::READER_START, u64::MAX);
    }
}

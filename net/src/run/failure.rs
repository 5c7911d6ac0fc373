//! Failed records: the record, the component and the reason.

use std::fmt;

use crate::record::Record;
use crate::wire::{Decoder, Encoder, Rest, WireError, Words};
use thalweg_box::Value;

/// A record that a component could not process. The record left the network at that component; all other
/// records continue.
#[derive(Debug)]
pub struct RecordError {
    /// The path of the component, with replicas: `main/star[2]/inc`.
    pub component: String,
    /// The reason, in one line.
    pub reason: String,
    /// The stream from which the component read the record.
    pub stream: u64,
    /// The number of the record in the stream `stream`, from 0.
    pub index: u64,
    /// The record as it arrived at the component. Without
    /// [`StartOptions::exact_failures`](crate::run::StartOptions) a value that a box had changed in place is
    /// replaced by a text that says so.
    pub record: Record,
    /// Whether the record did not fail: a synchrocell held it when the network ended, because other records
    /// that the cell waits for never came.
    pub held: bool,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordError { component, reason, stream, index, record, .. } = self;
        write!(f, "{component}: {reason} (message {index} of stream {stream}: {record:?})")
    }
}

impl std::error::Error for RecordError {}

impl RecordError {
    /// The failure as bytes, for another process of the network.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut words = Words::default();
        words.text(&self.component).text(&self.reason);
        words.number(self.stream).number(self.index).number(self.held.into());
        let mut record = self.record.clone();
        for slot in record.slots_mut() {
            if let Value::Opaque(opaque) = slot {
                *slot = Value::from(format!("(opaque: {})", opaque.kind_name()));
            }
        }
        // Opaque values, the only ones that cannot be written, were replaced.
        let _ = Encoder::default().write(&record, &mut words.0);
        words.0
    }

    /// Decodes the bytes of [`RecordError::to_bytes`].
    ///
    /// # Errors
    /// The bytes are no encoded failure.
    pub fn from_bytes(bytes: &[u8]) -> Result<RecordError, WireError> {
        let mut rest = Rest(bytes);
        let (component, reason) = (rest.text()?, rest.text()?);
        let (stream, index, held) = (rest.number()?, rest.number()?, rest.number()? != 0);
        let record = Decoder::default().read(rest.0)?;
        Ok(RecordError { component, reason, stream, index, record, held })
    }
}

/// A line that the program of a box printed, and that answers no record. The line is only reported: no record
/// is lost.
#[derive(Debug)]
pub struct StrayLine {
    /// The component, as in [`RecordError::component`].
    pub component: String,
    /// The line and why it is no answer, in one line.
    pub reason: String,
}

impl fmt::Display for StrayLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.component, self.reason)
    }
}

impl std::error::Error for StrayLine {}

/// The most failed records that wait to be read; tasks that fail more records wait.
pub(crate) const FAILURES_WAITING_MAX: usize = 1024;

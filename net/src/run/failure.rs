//! Records that failed: which, where, why.

use std::fmt;

use crate::record::Record;
use crate::wire::{Decoder, Encoder, Rest, WireError, Words};
use thalweg_box::Value;

/// A record that a component could not work on. It left the network here; all others go on.
#[derive(Debug)]
pub struct RecordError {
    /// The component, as the names on the way to it, with replicas: `main/star[2]/inc`.
    pub component: String,
    /// Why, in one line.
    pub reason: String,
    /// The message: the stream it came by …
    pub stream: u64,
    /// … and its number in that stream, from 0.
    pub index: u64,
    /// The record as it came to the component. Without [`StartOptions::exact_failures`](crate::run::StartOptions) a value that a
    /// box had changed in place stands as a text that says so.
    pub record: Record,
    /// Whether nothing went wrong with it: a synchrocell held it when the network ended, because other records that the
    /// cell waits for never came.
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
    /// The same as bytes, for another process of the network.
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
        // Nothing else cannot be written.
        let _ = Encoder::default().write(&record, &mut words.0);
        words.0
    }

    /// What [`RecordError::to_bytes`] made.
    ///
    /// # Errors
    /// The bytes are none of it.
    pub fn from_bytes(bytes: &[u8]) -> Result<RecordError, WireError> {
        let mut rest = Rest(bytes);
        let (component, reason) = (rest.text()?, rest.text()?);
        let (stream, index, held) = (rest.number()?, rest.number()?, rest.number()? != 0);
        let record = Decoder::default().read(rest.0)?;
        Ok(RecordError { component, reason, stream, index, record, held })
    }
}

/// A line that the program of a box printed, and that answers no record. It takes nothing from the network.
#[derive(Debug)]
pub struct StrayLine {
    /// The component, as in [`RecordError::component`].
    pub component: String,
    /// What it printed and why that is no answer, in one line.
    pub reason: String,
}

impl fmt::Display for StrayLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.component, self.reason)
    }
}

impl std::error::Error for StrayLine {}

/// How many failed records wait to be read before tasks that fail more wait too.
pub(crate) const FAILURES_WAITING_MAX: usize = 1024;

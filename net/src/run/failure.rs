//! Records that failed: which, where, why.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use thalweg_exec::Context;

use super::component::{ComponentId, Instance, Program};
use super::elsewhere::Nodes;
use super::limits::Limits;
use super::pipe::Pipe;
use crate::record::{Ends, Record};
use crate::shield;
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

/// How many failed records wait to be read before those who fail more wait too.
pub(crate) const FAILURES_WAITING_MAX: usize = 1024;

/// What all tasks of a running network share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) program: Program,
    pub(crate) failures: SyncSender<RecordError>,
    pub(crate) strays: SyncSender<StrayLine>,
    pub(crate) limits: Limits,
    /// Where the parts of the network are, if there are several nodes.
    pub(crate) nodes: Option<Nodes>,
}

/// Where a task stands in its network.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub(crate) shared: Arc<Shared>,
    pub(crate) component: ComponentId,
    pub(crate) instance: Option<Arc<Instance>>,
}

/// The message that a component works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) stream: u64,
    pub(crate) index: u64,
}

impl Position {
    /// The record that was read last from a pipe leaves the network as an error; what ended with it ends without it.
    #[cold]
    pub(crate) fn fail_in(&self, cx: &mut Context<'_>, pipe: &mut Pipe, record: Record, reason: String) {
        let ends = record.ends();
        self.fail(cx, pipe.message(), record, reason);
        pipe.output.end(cx, ends);
    }

    /// The component, as the names on the way to it, with replicas.
    pub(crate) fn path(&self) -> String {
        self.shared.program.path(self.component, self.instance.as_deref())
    }

    /// The same, without memory of its own: for handlers of signals.
    pub(crate) fn write_path(&self, out: &mut impl fmt::Write) -> fmt::Result {
        self.shared.program.write_path(self.component, self.instance.as_deref(), out)
    }

    /// Reports a line that answers no record.
    #[cold]
    pub(crate) fn complain(&self, reason: String) {
        let _ = self.shared.strays.send(StrayLine { component: self.path(), reason });
    }

    /// The record leaves the network as an error.
    #[cold]
    pub(crate) fn fail(&self, cx: &mut Context<'_>, message: Message, record: Record, reason: String) {
        self.give_up(cx, message, record, reason, false);
    }

    /// The record, which a synchrocell holds, leaves the network because that ends.
    #[cold]
    pub(crate) fn release(&self, cx: &mut Context<'_>, message: Message, record: Record, reason: String) {
        self.give_up(cx, message, record, reason, true);
    }

    fn give_up(
        &self,
        cx: &mut Context<'_>,
        message: Message,
        mut record: Record,
        reason: String,
        held: bool,
    ) {
        record.set_ends(Ends::NOTHING);
        shield::reveal(&mut record);
        let component = self.path();
        super::events::record_failed(cx, self.shared.program.get(self.component).site, message, &reason);
        let Message { stream, index } = message;
        let error = RecordError { component, reason, stream, index, record, held };
        // Nobody reads errors any more only when the run was aborted.
        let _ = self.shared.failures.send(error);
    }
}

//! The state that the ends of a running network share: counts, notices and dead letters.
//!
//! ```text
//! source ─────────────► network ─────────────► sink
//! source ─┐                                 ┌─► sink {a}
//! source ─┴─► merge ──► network ──► choose ─┴─► sink {}
//! ```

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_exec::TaskSpec;
use thalweg_net::record::Record;
use thalweg_space::{Site, Space};

use super::letters::DeadLetters;
use super::tally::Tally;
use crate::error::{Error, chain};
use crate::interrupt::Interrupt;
use crate::io::{Lost, Malformed, Raw};
use crate::notice::{Notice, Notices};

/// The number of failed records that are shown; further ones are only counted.
pub(super) const FAILURES_SHOWN: u64 = 10;
/// The state that the source, the sinks and the thread of failures share.
pub(super) struct Ends {
    pub(super) space: Space,
    pub(super) tally: Arc<Tally>,
    pub(super) interrupt: Interrupt,
    pub(super) notices: Notices,
    pub(super) stop_on_error: bool,
    pub(super) strict_end: bool,
    pub(super) letters: Option<Mutex<DeadLetters>>,
}

impl Ends {
    /// Writes a dead letter, if the run keeps dead letters. If writing fails, the run ends.
    pub(super) fn letter(&self, write: impl FnOnce(&mut DeadLetters) -> Result<(), Error>) {
        let Some(letters) = &self.letters else { return };
        let mut letters = letters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = write(&mut letters) {
            self.broken(&Error::coded("E0901", format!("{}; the run ends", chain(&why))));
            self.interrupt.stop();
        }
    }

    /// Writes the last dead letters, and reports how many are lost. This must be called when no more records
    /// can fail.
    pub(super) fn finish_letters(&self) {
        self.letter(DeadLetters::flush);
        let Some(letters) = &self.letters else { return };
        if let Some(lost) = letters.lock().unwrap_or_else(PoisonError::into_inner).lost() {
            self.broken(&Error::coded("E0901", lost));
        }
    }

    /// Reports input that is no record.
    pub(super) fn malformed(&self, called: &str, malformed: &Malformed) {
        let Malformed { what, lost } = malformed;
        if !matches!(lost, Lost::Raw(Raw { goes_on: true, .. })) {
            self.failed("E0905", what.clone());
        }
        self.letter(|letters| match lost {
            Lost::Raw(raw) => letters.unread(called, what, raw).and_then(|()| letters.flush()),
            Lost::Record(record) => letters.refused(called, what, record).and_then(|()| letters.flush()),
            Lost::Nothing => Ok(()),
        });
    }

    /// Reports a record that has left the network, and that no output accepts.
    pub(super) fn refused(&self, called: &str, why: &str, record: Option<&Record>) {
        self.failed("E0905", why.to_owned());
        if let Some(record) = record {
            self.letter(|letters| letters.refused(called, why, record).and_then(|()| letters.flush()));
        }
    }

    /// The specification of a task at an end of the network, with its name for observers.
    pub(super) fn spec(&self, name: &str, kind: &str) -> Result<TaskSpec, Error> {
        let component = self
            .space
            .site(&Site { name, kind, ..Site::default() })
            .map_err(|error| Error::coded_of("E0903", error))?;
        Ok(TaskSpec { component, ..TaskSpec::default() })
    }

    /// Reports a failed record: the first few are shown, all are counted.
    pub(super) fn failed(&self, code: &'static str, message: String) {
        let before = self.tally.failed.fetch_add(1, Ordering::Relaxed);
        if before < FAILURES_SHOWN {
            self.notices.coded(code, message);
        } else if before == FAILURES_SHOWN {
            self.notices.note("further failed records are only counted");
        }
        if self.stop_on_error {
            self.interrupt.stop();
        }
    }

    /// Reports an error of the run; the run then goes on or ends in an orderly way, as its options say.
    pub(super) fn broken(&self, error: &Error) {
        self.notices.give(Notice::of(error));
        self.tally.broken.store(true, Ordering::Relaxed);
    }
}

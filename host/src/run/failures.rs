//! The thread that reports records that failed in the network, and lines of programs used as boxes that
//! answer no record.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;

use thalweg_net::{RecordError, StrayLine};

use super::ends::{Ends, FAILURES_SHOWN};
use super::letters::DeadLetters;
use super::valve::{Failing, Progress};
use crate::error::Error;

impl Ends {
    /// Starts the thread that, until the network has ended, reports failed records and writes them as dead
    /// letters.
    pub(super) fn spawn_errors(
        self: &Arc<Self>,
        networks: Receiver<Failing>,
        progress: Option<Sender<Progress>>,
    ) -> Result<JoinHandle<()>, Error> {
        let ends = Arc::clone(self);
        let report = move || {
            for Failing { errors, strays } in networks {
                std::thread::scope(|scope| {
                    let thread = std::thread::Builder::new().name("stray lines".into());
                    if let Err(error) = thread.spawn_scoped(scope, || ends.report_strays(strays)) {
                        let what = "cannot start a thread for lines that answer no record";
                        ends.broken(&Error::run(what).because(error));
                    }
                    while let Some(error) = ends.next_failure(&errors) {
                        ends.left_over(&error);
                        ends.letter(|letters| letters.failed(&error));
                    }
                });
                // An error is ignored, because the receiver is dropped when the run ends.
                progress.iter().for_each(|progress| _ = progress.send(Progress::Reported));
            }
        };
        std::thread::Builder::new()
            .name("errors".into())
            .spawn(report)
            .map_err(|error| Error::run("cannot start a thread").because(error))
    }

    /// Reports a record that failed, or that a synchrocell still held at the end, which counts as a failure
    /// only if `--strict-end` is set.
    fn left_over(&self, error: &RecordError) {
        if !error.held || self.strict_end {
            return self.failed("E0801", error.to_string());
        }
        match self.tally.waiting.fetch_add(1, Ordering::Relaxed) {
            FAILURES_SHOWN => self.notices.note("further records that still wait are only counted"),
            0..FAILURES_SHOWN => self.notices.warn("W0607", error.to_string()),
            _ => {}
        }
    }

    /// Reports lines that programs printed and that answer no record: the first few are shown, and the run
    /// has failed.
    fn report_strays(&self, strays: Receiver<StrayLine>) {
        for (before, stray) in strays.into_iter().enumerate() {
            match before as u64 {
                FAILURES_SHOWN => self.notices.note("further lines that answer no record are not shown"),
                0..FAILURES_SHOWN => self.broken(&Error::coded("E0803", stray.to_string())),
                _ => {}
            }
            if self.stop_on_error {
                self.interrupt.stop();
            }
        }
    }

    /// The next record that failed. While no record has failed, buffered dead letters are written to their
    /// file.
    fn next_failure(&self, errors: &Receiver<RecordError>) -> Option<RecordError> {
        if let Ok(error) = errors.try_recv() {
            return Some(error);
        }
        self.letter(DeadLetters::flush);
        errors.recv().ok()
    }
}

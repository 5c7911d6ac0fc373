//! The thread that keeps every event of a session's process on a node (`thalweg run --keep`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_host::Error;
use thalweg_space::archive::{ArchiveOptions, Archiver};

/// How long the thread sleeps when there are no new events.
const IDLE: Duration = Duration::from_millis(2);
/// How long the thread sleeps before it tries again to write to a full disk.
const FULL: Duration = Duration::from_millis(50);
/// The longest time until an event is in the archive, so that it can be sent to the process that began the
/// session.
const GATHER: Duration = Duration::from_millis(100);

/// The thread; it ends with [`Keeper::finish`].
#[derive(Debug)]
pub(crate) struct Keeper {
    thread: JoinHandle<Result<(), thalweg_space::Error>>,
    is_ending: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Keeper {
    /// Begins to keep the events of this process's space. Writers wait until there is room for their events.
    pub(crate) fn start(space: &Path) -> Result<Keeper, Error> {
        let options = ArchiveOptions { interval: GATHER, is_synced: true, ..ArchiveOptions::default() };
        let mut archiver =
            Archiver::with_options(space, options).map_err(|error| Error::coded_of("E0903", error))?;
        let (is_ending, is_over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (ending, over) = (is_ending.clone(), is_over.clone());
        let thread = std::thread::Builder::new().name("archiver".into()).spawn(move || {
            while !over.load(Ordering::Acquire) {
                match archiver.step() {
                    Ok(0) => std::thread::sleep(IDLE),
                    Ok(_) => {}
                    // Writers wait until there is room, or until the session ends.
                    Err(error) if error.is_full() => {
                        if ending.load(Ordering::Acquire) {
                            let _ = archiver.let_go();
                        }
                        std::thread::sleep(FULL);
                    }
                    Err(error) => {
                        let _ = archiver.let_go();
                        return Err(error);
                    }
                }
            }
            archiver.finish()
        });
        let thread = thread.map_err(|error| Error::run("cannot start the archiver").because(error))?;
        Ok(Keeper { thread, is_ending, is_over })
    }

    /// The session ends, so writers do not wait for room on a full disk any more.
    pub(crate) fn session_ends(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// Keeps the remaining events, when all writers have ended.
    ///
    /// # Errors
    /// Events could not be kept.
    pub(crate) fn finish(self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Release);
        let kept = self.thread.join().map_err(|_| "the thread that keeps them panicked".to_owned())?;
        kept.map_err(|error| format!("{error:#}"))
    }
}

//! The thread that keeps every event of a run (`--keep`), and its behaviour when the disk is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_space::archive::{ArchiveOptions, Archiver};
use thalweg_space::{Error, Space, Tunable};

use super::tally::Tally;
use crate::amount::count;
use crate::error;
use crate::interrupt::Interrupt;
use crate::notice::Notices;
use crate::pace::Pace;

/// The longest wait of a writer for a slow disk; after this time the writer drops events and counts them.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait of events until there are enough of them to compress well. While events wait, the
/// elements hold them.
const GATHER: Duration = Duration::from_millis(20);
/// The interval at which writing to a full disk is tried again.
const FULL: Duration = Duration::from_millis(50);

/// The behaviour of a run when the disk has no space for its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// Wait until there is space: no event is lost.
    #[default]
    Wait,
    /// Continue; events for which there is no space are lost and counted.
    Drop,
    /// End the run in order, with exit code 1.
    Stop,
}

impl OnFull {
    /// The longest wait of a writer.
    pub(super) fn patience(self) -> Duration {
        if self == OnFull::Wait { Duration::MAX } else { PATIENCE }
    }
}

/// A thread that copies events from the elements to the archive, so that their writers never wait long.
pub(super) struct Archive {
    thread: JoinHandle<Result<(), Error>>,
    ended: Arc<AtomicBool>,
}

impl Archive {
    pub(super) fn start(
        space: &Space,
        on_full: OnFull,
        interrupt: &Interrupt,
        tally: &Arc<Tally>,
        notices: &Notices,
    ) -> Result<Archive, error::Error> {
        let failed = |error: Error| error::Error::coded_of("E0903", error);
        let ended = Arc::new(AtomicBool::new(false));
        let gathering = ArchiveOptions { interval: GATHER, ..ArchiveOptions::default() };
        let mut keeper = Keeper {
            archiver: Archiver::with_options(space.path(), gathering).map_err(failed)?,
            published: Published::DECLARED.make(Some(space)).map_err(failed)?,
            place: space.path().display().to_string(),
            on_full,
            interrupt: interrupt.clone(),
            tally: Arc::clone(tally),
            notices: notices.clone(),
            pace: Pace::new(),
            full: None,
            lets_go: false,
            broken: None,
        };
        let asked = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("archiver".into())
            .spawn(move || {
                while !asked.load(Ordering::Relaxed) {
                    keeper.step();
                }
                keeper.finish()
            })
            .map_err(|error| error::Error::run("cannot start the archiver").because(error))?;
        Ok(Archive { thread, ended })
    }

    /// Copies the remaining events. This must be called after every writer has ended.
    pub(super) fn finish(self) -> Result<(), error::Error> {
        self.ended.store(true, Ordering::Relaxed);
        let result = self.thread.join().map_err(|_| error::Error::run("the archiver panicked"))?;
        result.map_err(|error| error::Error::run("events could not be kept").because(error))
    }
}

thalweg_space::settings! {
    /// Counters about a full disk, for reports. The counters are cells in memory, so they need no space on
    /// the disk.
    pub(crate) struct Published {
        /// How long the disk that keeps the events was full
        full_ns: SHOWN { name: "archive.full_ns", unit: "ns" },
        /// For how long writers of events waited because the disk that keeps the events was full
        held_ns: SHOWN { name: "archive.held_ns", unit: "ns" },
        /// Events that were dropped instead of kept
        lost: SHOWN { name: "archive.lost", unit: "events" },
    }
}

impl Published {
    fn publish_lost(&self, lost: u64) {
        self.lost.cell().inspect(|cell| cell.store(lost, Ordering::Relaxed));
    }
}

/// A period in which the disk is full.
struct Full {
    since: Instant,
    /// The time up to which the counters were published.
    counted: Instant,
    /// The number of events that were lost before this period.
    lost: u64,
}

struct Keeper {
    archiver: Archiver,
    published: Published,
    place: String,
    on_full: OnFull,
    interrupt: Interrupt,
    tally: Arc<Tally>,
    notices: Notices,
    pace: Pace,
    full: Option<Full>,
    /// Whether writers continue without waiting until their events are kept.
    lets_go: bool,
    /// The error because of which no more events are kept.
    broken: Option<Error>,
}

impl Keeper {
    fn step(&mut self) {
        if self.broken.is_some() {
            // New writers must not wait, because no consumer will read their events.
            let _ = self.archiver.let_go();
            return std::thread::sleep(FULL);
        }
        match self.archiver.step() {
            Ok(bytes) => {
                self.has_room();
                if bytes == 0 {
                    self.pace.sleep(self.archiver.written_share());
                }
            }
            Err(error) if error.is_full() => {
                self.is_full(&error);
                std::thread::sleep(FULL);
            }
            Err(error) => {
                let why = error::chain(&error);
                self.notices.coded("E0903", format!("{why}: events are no longer kept, the run goes on"));
                let _ = self.archiver.let_go();
                self.broken = Some(error);
            }
        }
    }

    fn is_full(&mut self, error: &Error) {
        let begins = self.full.is_none();
        if begins {
            let now = Instant::now();
            self.full = Some(Full { since: now, counted: now, lost: self.lost() });
            self.report_full(error);
            if self.on_full == OnFull::Stop {
                self.tally.broken.store(true, Ordering::Relaxed);
                self.interrupt.stop();
            }
        }
        let was_held = !self.lets_go;
        if self.on_full != OnFull::Wait || self.interrupt.is_stopping() {
            if self.on_full == OnFull::Wait && was_held {
                self.notices.note(format!(
                    "the run ends while the disk of {} is full: events that find no room are lost",
                    self.place
                ));
            }
            self.lets_go = true;
            // Writers are released again and again, because new writers may have begun to wait.
            let _ = self.archiver.let_go();
        }
        self.publish(was_held && !begins);
    }

    fn report_full(&self, error: &Error) {
        let what = match self.on_full {
            OnFull::Wait => {
                "the run waits until there is room, and nothing is lost; free some, or end it by Ctrl-C \
                 (--on-full drop or stop does not wait)"
            }
            OnFull::Drop => "the run goes on, and events that find no room are lost",
            OnFull::Stop => "the run ends",
        };
        let why = error.io_error().map_or_else(|| format!("{error:#}"), ToString::to_string);
        let message = format!("the events of the run cannot be kept in {}: {why}: {what}", self.place);
        self.notices.coded("E0903", message);
    }

    /// Counts the time since the last call.
    fn publish(&mut self, was_held: bool) {
        let lost = self.lost();
        let Some(full) = &mut self.full else { return };
        let passed = full.counted.elapsed();
        full.counted += passed;
        let add = |figure: &Tunable| {
            figure.cell().inspect(|cell| _ = cell.fetch_add(passed.as_nanos() as u64, Ordering::Relaxed));
        };
        add(&self.published.full_ns);
        if was_held {
            add(&self.published.held_ns);
        }
        self.published.publish_lost(lost);
    }

    fn has_room(&mut self) {
        self.publish(!self.lets_go);
        let Some(full) = self.full.take() else { return };
        if std::mem::take(&mut self.lets_go) {
            let _ = self.archiver.hold();
        }
        let (after, lost) = (full.since.elapsed().as_secs_f64(), self.lost() - full.lost);
        let lost = if lost == 0 { "none was lost".to_owned() } else { format!("{} were lost", count(lost)) };
        self.notices.note(format!("the events of the run are kept again after {after:.1} s: {lost}"));
    }

    fn lost(&self) -> u64 {
        self.archiver.dropped().unwrap_or_else(|_| self.published.lost.load())
    }

    /// Keeps the remaining events. If the disk is full, the remaining events stay in the elements, and
    /// readers of the archive find them there.
    fn finish(mut self) -> Result<(), Error> {
        let lost = self.lost();
        self.publish(false);
        self.published.publish_lost(lost);
        if lost > 0 {
            self.notices.note(format!("{} events of the run are lost", count(lost)));
        }
        if let Some(error) = self.broken {
            return Err(error);
        }
        match self.archiver.finish() {
            Err(error) if error.is_full() => Ok(()),
            result => result,
        }
    }
}

//! Recordings: copy the events of a run, or of all runs of a session, to an archive while the run goes on.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thalweg_glob::Glob;
use thalweg_scope::ScopeFeed;
use thalweg_space::Error as SpaceError;
use thalweg_space::archive::{ArchiveOptions, Archiver, Progress};
use thalweg_space::reader::{Item, Member, Session, SpaceReader};

use crate::error::Error;
use crate::pace::Pace;
use crate::run::OnFull;

/// The time to sleep before a full disk is tried again.
const FULL: Duration = Duration::from_millis(50);
/// The interval at which processes that joined the session are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The source of a recording, and its options.
#[derive(Clone, Debug)]
pub struct RecordingPlan {
    /// The directory of the space or session.
    pub from: PathBuf,
    /// The directory of the archive. The directory must not exist, be empty, or have an archive of the same
    /// source, which is then continued.
    pub to: PathBuf,
    /// Only events of writers whose names match are recorded.
    pub writers: Option<String>,
    /// The behaviour when the disk is full.
    pub on_full: OnFull,
    /// The longest time until events are on the disk.
    pub sync: Duration,
    /// The level of the compressor, 1 to 19; 0 keeps events uncompressed.
    pub level: i32,
    /// The most bytes of an archive; when an archive becomes larger, its oldest segments are removed. In a
    /// session, the limit holds for each process.
    pub max_bytes: Option<u64>,
    /// The greatest age of a segment.
    pub max_age: Option<Duration>,
}

/// A recording in progress.
///
/// ```no_run
/// use thalweg_host::{Recording, RecordingPlan};
///
/// # fn main() -> Result<(), thalweg_host::Error> {
/// let mut recording = Recording::open(RecordingPlan::of("/dev/shm/thalweg-1000/tidy-4711", "./kept"))?;
/// while recording.step()? {}
/// println!("{} events", recording.finish()?.events);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Recording {
    plan: RecordingPlan,
    session: Option<Members>,
    parts: Vec<Part>,
    /// The counts of the processes that have ended; `has_drops` says whether their writers dropped events.
    done: Progress,
    has_drops: bool,
    full: Option<Full>,
    problems: Vec<String>,
    pace: Pace,
}

/// The processes of a session.
#[derive(Debug)]
struct Members {
    session: Session,
    known: HashSet<[u8; 16]>,
    looked: Option<Instant>,
}

/// A space that is being recorded.
#[derive(Debug)]
struct Part {
    archiver: Archiver,
    space: SpaceReader,
    /// Whether the process is known to have ended, so no more events will come.
    over: bool,
}

/// A period in which the disk is full.
#[derive(Debug)]
struct Full {
    since: Instant,
    is_reported: bool,
    why: String,
}

/// The counts of a recording so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded {
    /// The number of events in the archive.
    pub events: u64,
    /// The bytes that the recorded events took in the elements from which they were copied.
    pub event_bytes: u64,
    /// The bytes of the archive.
    pub bytes: u64,
    /// The number of lost events: overwritten since the recording began, or dropped by their writers.
    pub lost: u64,
}

impl RecordingPlan {
    /// The plan of a recording with the default options.
    pub fn of(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> RecordingPlan {
        RecordingPlan {
            from: from.into(),
            to: to.into(),
            writers: None,
            on_full: OnFull::Wait,
            sync: Duration::from_secs(1),
            level: 1,
            max_bytes: None,
            max_age: None,
        }
    }

    fn options(&self, to: PathBuf) -> ArchiveOptions {
        ArchiveOptions {
            directory: Some(to),
            level: self.level,
            interval: self.sync,
            is_synced: true,
            bytes_max: self.max_bytes,
            age_max: self.max_age,
            writers: self.writers.as_deref().map(Glob::new),
            ..ArchiveOptions::default()
        }
    }
}

impl Recording {
    /// Starts a recording as planned.
    ///
    /// # Errors
    /// If there is no such space or session, or the archive's directory holds something else or cannot be
    /// written.
    pub fn open(plan: RecordingPlan) -> Result<Recording, Error> {
        let is_session = !plan.from.join("space").is_file();
        let session = if is_session {
            let session = Session::open(&plan.from).map_err(Error::usage_of)?;
            check_session(&plan)?;
            Some(Members { session, known: HashSet::new(), looked: None })
        } else {
            None
        };
        let mut recording = Recording {
            session,
            parts: Vec::new(),
            done: Progress::default(),
            has_drops: false,
            full: None,
            problems: Vec::new(),
            pace: Pace::new(),
            plan,
        };
        if is_session {
            recording.find_members()?;
        } else {
            let part = Recording::part_of(&recording.plan, &recording.plan.from, recording.plan.to.clone())?;
            recording.parts.push(part);
        }
        Ok(recording)
    }

    /// Looks for processes that joined.
    fn find_members(&mut self) -> Result<(), Error> {
        let Some(members) = &mut self.session else { return Ok(()) };
        if members.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        members.looked = Some(Instant::now());
        let all = members.session.members().map_err(Error::usage_of)?;
        let known = &mut members.known;
        let new: Vec<Member> = all.iter().filter(|member| known.insert(member.uuid)).cloned().collect();
        for member in new {
            let found = members
                .session
                .space(&member)
                .map_err(Error::usage_of)
                .map(|space| space.path().to_path_buf());
            let to = self.plan.to.join(&member.directory);
            match found.and_then(|from| Recording::part_of(&self.plan, &from, to)) {
                Ok(part) => self.parts.push(part),
                // A process that cannot be read does not prevent the others from being recorded.
                Err(error) => self.problems.push(format!("{}: {error:#}", member.directory)),
            }
        }
        // The list of processes is copied last, so that it contains a process only when the process's archive
        // exists.
        copy_manifest(&self.plan)
    }

    fn part_of(plan: &RecordingPlan, from: &Path, to: PathBuf) -> Result<Part, Error> {
        let space = SpaceReader::open(from).map_err(Error::usage_of)?;
        if space.info().map_err(Error::usage_of)?.archive {
            return Err(Error::usage(format!("{} is an archive already: copy its files", from.display())));
        }
        let archiver = Archiver::with_options(from, plan.options(to)).map_err(Error::usage_of)?;
        Ok(Part { archiver, space, over: false })
    }

    /// Archives new events, and sleeps a little if there are none. Returns whether more events may come,
    /// which is `false` once every process has ended.
    ///
    /// # Errors
    /// If the disk is full and the plan requires to stop in this case, or a file is damaged or cannot be
    /// written.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.find_members()?;
        let mut taken = 0;
        let mut ended = Vec::new();
        for (place, part) in self.parts.iter_mut().enumerate() {
            // The flag is read before the step, so that the step still archives the last events of a process
            // that ends during the step.
            let was_over = part.over;
            part.over = !part.space.is_alive();
            match part.archiver.step() {
                Ok(bytes) => taken += bytes,
                Err(error) if error.is_full() => {
                    self.full.get_or_insert_with(|| Full::new(&error));
                    if self.plan.on_full != OnFull::Wait {
                        // Writers no longer wait for the recording; events for which their elements have no
                        // room are lost and counted.
                        let _ = part.archiver.let_go();
                    }
                    if self.plan.on_full == OnFull::Stop {
                        return Err(unwritable(error));
                    }
                    std::thread::sleep(FULL);
                    return Ok(true);
                }
                // A run that ends removes its directory, but its events are still mapped in this process, and
                // are read when the recording ends.
                Err(_) if part.space.is_gone() => {}
                Err(error) => return Err(unwritable(error)),
            }
            if was_over {
                ended.push(place);
            }
        }
        if self.full.take().is_some_and(|full| full.is_reported) && self.plan.on_full != OnFull::Wait {
            self.parts.iter_mut().for_each(|part| drop(part.archiver.hold()));
        }
        for place in ended.into_iter().rev() {
            let part = self.parts.remove(place);
            self.end(part)?;
        }
        if taken == 0 {
            self.sleep();
        }
        Ok(!self.parts.is_empty())
    }

    /// Sleeps until the ring that fills fastest is filled by a quarter, if it fills as fast as since the last
    /// sleep began.
    fn sleep(&mut self) {
        let shares = self.parts.iter_mut().map(|part| part.archiver.written_share());
        self.pace.sleep(shares.fold(0.0, f64::max));
    }

    fn end(&mut self, part: Part) -> Result<(), Error> {
        let before = part.archiver.progress();
        self.has_drops |= part.archiver.dropped().is_ok_and(|dropped| dropped > 0);
        part.archiver.finish().map_err(unwritable)?;
        self.done.events += before.events;
        self.done.event_bytes += before.event_bytes;
        self.done.bytes += before.bytes;
        self.done.lost_bytes += before.lost_bytes;
        Ok(())
    }

    /// The counts of the recording so far.
    pub fn progress(&self) -> Progress {
        self.parts.iter().map(|part| part.archiver.progress()).fold(self.done, |sum, part| Progress {
            events: sum.events + part.events,
            event_bytes: sum.event_bytes + part.event_bytes,
            bytes: sum.bytes + part.bytes,
            lost_bytes: sum.lost_bytes + part.lost_bytes,
        })
    }

    /// The reason why nothing is written, returned once for each period in which the disk is full.
    pub fn full(&mut self) -> Option<String> {
        let full = self.full.as_mut()?;
        (!std::mem::replace(&mut full.is_reported, true)).then(|| full.why.clone())
    }

    /// The time for which the disk has been full, if it is full now.
    pub fn full_for(&self) -> Option<Duration> {
        self.full.as_ref().map(|full| full.since.elapsed())
    }

    /// The problems since the last call: messages about processes that could not be recorded, with the
    /// reasons.
    pub fn problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// Ends the recording. Events that are committed by now are still archived. Writers that wait for the
    /// recording stop waiting.
    ///
    /// # Errors
    /// If the remaining events cannot be archived.
    pub fn finish(mut self) -> Result<Recorded, Error> {
        for part in std::mem::take(&mut self.parts) {
            self.end(part)?;
        }
        copy_manifest(&self.plan)?;
        let mut recorded = Recorded::default();
        let mut take = |info: thalweg_space::archive::ArchiveInfo| {
            recorded.events += info.events;
            recorded.event_bytes += info.event_bytes;
            recorded.bytes += info.bytes;
        };
        if let Some(members) = &mut self.session {
            for member in members.session.members().map_err(unwritable)? {
                let info = thalweg_space::archive::info(self.plan.to.join(&member.directory));
                info.map_err(unwritable)?.map(&mut take);
            }
        } else {
            thalweg_space::archive::info(&self.plan.to).map_err(unwritable)?.map(&mut take);
        }
        // Counting lost events requires reading the whole archive, so they are counted only if there are
        // gaps.
        if self.has_drops || self.done.lost_bytes > 0 {
            recorded.lost = lost_in(&self.plan.to)?;
        }
        Ok(recorded)
    }
}

/// The error when the archive cannot be written.
fn unwritable(error: SpaceError) -> Error {
    Error::run("the archive cannot be written").because(error)
}

impl Full {
    fn new(error: &SpaceError) -> Full {
        let why = error.io_error().map_or_else(|| format!("{error:#}"), ToString::to_string);
        Full { since: Instant::now(), is_reported: false, why }
    }
}

/// The number of events that the gaps of an archive count.
fn lost_in(path: &Path) -> Result<u64, Error> {
    use thalweg_space::reader::Feed;
    let mut feed = ScopeFeed::of(path).map_err(Error::usage_of)?;
    let mut lost = 0;
    let mut take = |_: usize, item: Item<'_>| {
        if let Item::Gap { lost: more, .. } = item {
            lost += more;
        }
    };
    while feed.poll(usize::MAX, &mut take).map_err(Error::usage_of)? > 0 {}
    Ok(lost)
}

/// Refuses a directory with any content other than the archive of this session.
fn check_session(plan: &RecordingPlan) -> Result<(), Error> {
    let cannot = |error| Error::usage(format!("cannot make {}", plan.to.display())).because(error);
    std::fs::create_dir_all(&plan.to).map_err(cannot)?;
    let is_empty = std::fs::read_dir(&plan.to).map_err(cannot)?.next().is_none();
    let there = std::fs::read(plan.to.join("session")).ok();
    let manifest = std::fs::read(plan.from.join("session")).map_err(cannot)?;
    match there {
        Some(there) if manifest.starts_with(&there) || there.starts_with(&manifest) => Ok(()),
        None if is_empty => Ok(()),
        _ => Err(Error::usage(format!(
            "{} holds something else than an archive of this session: record into an empty directory",
            plan.to.display()
        ))),
    }
}

/// Copies the list of processes that joined and left, so that readers can open the archive in the same way as
/// the session.
fn copy_manifest(plan: &RecordingPlan) -> Result<(), Error> {
    let Ok(bytes) = std::fs::read(plan.from.join("session")) else { return Ok(()) };
    let (new, path) = (plan.to.join("session.new"), plan.to.join("session"));
    if std::fs::read(&path).is_ok_and(|there| there == bytes) || plan.from.join("space").is_file() {
        return Ok(());
    }
    let cannot = |error| Error::usage(format!("cannot write {}", path.display())).because(error);
    std::fs::write(&new, &bytes).map_err(cannot)?;
    std::fs::rename(&new, &path).map_err(cannot)
}

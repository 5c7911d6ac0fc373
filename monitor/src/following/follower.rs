//! Turns the events of a space into observations: each kind is found in the catalog by name, and the places
//! of the kind's fields are looked up once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_scope::ScopeFeed;
use thalweg_space::Error;
use thalweg_space::reader::{self, Event, Feed, Fields, Info, Item, KindInfo, SettingView, SpaceReader};

use crate::composing::dispatch::Value;
use crate::decoding::events::{KINDS, Observation};
use crate::decoding::names::{Names, names};
use crate::decoding::observation::{LiveRow, Mode, live_rows};
use crate::following::ahead::{self, Decoded};
use crate::following::analysis::{Analysis, Options};
use crate::following::copied;
use crate::following::gathering::gathered;
use crate::following::map::shared_map;
use crate::monitor::Ending;
use crate::monitor::Monitor;
use crate::report::{Limits, Measurement, Report, SpaceInfo, State};

/// The name of the writer that records what threads do.
const SAMPLER: &str = "sampler";
/// The number of items read from the space at a time.
const POLL_ITEMS: usize = 1 << 16;
/// All events are read from this long before a window, because they show which tasks wait, and which messages
/// are in streams, when the window begins.
const LEAD: Duration = Duration::from_secs(1);
/// Kinds that describe the flow of messages, and the bases of dispatches. Events of the kinds in this list
/// are read only from [`LEAD`] before a window on; events of Thalweg's other kinds are read from the start of
/// the run, because they record the tasks and streams that exist. The block in which the window begins is
/// read from its beginning, because the block's dispatches need its bases.
const FLOW: &[&str] = &[
    "exec.dispatch",
    "exec.dispatch_base",
    "exec.dispatch_long",
    "exec.dispatch_streams",
    "exec.dispatch_used",
    "exec.derived",
    "exec.instructions_sampled",
    "exec.kept",
    "exec.message_worked",
    "exec.processors_used",
    "exec.stream_read",
    "exec.stream_wrote",
    "exec.task_blocked_input",
    "exec.task_blocked_output",
    "exec.task_dispatched",
    "exec.task_ready",
    "exec.task_yielded",
    "exec.thread_sampled",
    "exec.thread_used",
    "exec.worker_resumed",
    "exec.worker_waiting",
    "net.record_described",
];

/// Whether events of this kind are needed from long before a window, because they record tasks and streams.
/// The events of a kind that Thalweg does not define are not needed, because their content is unknown.
fn records_structure(kind: &str) -> bool {
    KINDS.iter().any(|known| known.name == kind) && !FLOW.contains(&kind)
}

/// The number of errors after which the follower stops reading a damaged space.
const DAMAGE_MAX: usize = 10;

/// Analyses the space or session in the directory `path`, as it is now; `top` as in [`Options`].
///
/// # Errors
/// As [`report`].
pub fn report_space(path: impl AsRef<Path>, top: usize) -> Result<Report, Error> {
    report(ScopeFeed::of(path)?, top)
}

/// Analyses what a feed has, as it is now; `top` as in [`Options`].
///
/// # Errors
/// When there is no space, or its files cannot be read. A truncated or damaged file is no error: the report
/// covers what could be read, and a note names what could not.
pub fn report(feed: impl Feed, top: usize) -> Result<Report, Error> {
    let mut follower = Follower::of(feed, top)?;
    follower.poll();
    follower.finish()
}

/// Reads the events of a feed as they are recorded, and makes a report whenever it is asked.
///
/// ```no_run
/// let mut follower = thalweg_monitor::Follower::open("/dev/shm/thalweg-run", 10)?;
/// loop {
///     follower.poll();
///     println!("{}", follower.report()?.verdict.words.text);
///     // The next report covers the events from here on.
///     follower.restart();
///     std::thread::sleep(std::time::Duration::from_secs(1));
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), thalweg_space::Error>(())
/// ```
pub struct Follower<'m, F = ScopeFeed> {
    feed: F,
    top: usize,
    /// The state of each of the feed's spaces.
    parts: Vec<Part<'m>>,
    /// The monitors for the space at one place of the feed, if only this space gets monitors.
    only: Option<Only<'m>>,
    /// Makes a monitor for each space.
    each: Option<Each<'m>>,
}

/// A function that makes a monitor for the space at a place of the feed.
type Each<'m> = Box<dyn FnMut(usize) -> Box<dyn Monitor + 'm> + 'm>;

/// A place in the feed, and the monitors for the space at this place.
type Only<'m> = (usize, Vec<Box<dyn Monitor + 'm>>);

/// The state of one space.
struct Part<'m> {
    decoder: Decoder,
    analysis: Analysis<'m>,
    alive: bool,
    /// The tasks and messages on which the workers of a live process were when their rows were first read.
    watch: Option<Watch>,
    /// Bytes of events that were written before the measurement began; `None` if unknown.
    bytes_before: Option<u64>,
    /// The times that the run had published in [`Seen::disk_ns`] when the measurement began, if known.
    disk_before: Option<[f64; 2]>,
    damage: Vec<String>,
    /// The data last read from the space, kept because a report may be made after the space was removed.
    seen: Seen,
}

/// What a report needs of a space besides its events and its live table.
#[derive(Clone)]
struct Seen {
    info: Info,
    names: Names,
    mode: Option<Mode>,
    event_bytes: Option<u64>,
    /// The time for which the disk was full, and the part of this time in which the run waited.
    disk_ns: Option<[f64; 2]>,
    limits: Option<Limits>,
    map: Vec<Measurement>,
}

impl Seen {
    fn read(reader: &SpaceReader) -> Result<Seen, Error> {
        Ok(Seen {
            info: reader.info()?,
            names: names(reader)?,
            mode: mode_setting(reader, |setting| setting.value),
            event_bytes: event_bytes(reader),
            disk_ns: disk_ns(reader),
            limits: limits(reader),
            map: shared_map(reader),
        })
    }
}

/// Bytes of events that all writers have written, if their elements can be read.
fn event_bytes(reader: &SpaceReader) -> Option<u64> {
    Some(reader.writers().ok()?.iter().map(|writer| writer.head).sum())
}

impl<'m> Follower<'m> {
    /// Follows the space or session in the directory `path` with the built-in monitors; `top` as in
    /// [`Options`].
    ///
    /// # Errors
    /// When there is no space or session, or its files cannot be read.
    pub fn open(path: impl AsRef<Path>, top: usize) -> Result<Follower<'m>, Error> {
        Follower::of(ScopeFeed::of(path)?, top)
    }
}

impl<'m, F: Feed> Follower<'m, F> {
    /// Follows a feed with the built-in monitors; `top` as in [`Options`].
    ///
    /// # Errors
    /// When the feed's spaces cannot be read.
    pub fn of(feed: F, top: usize) -> Result<Follower<'m, F>, Error> {
        Follower::made(feed, top, None)
    }

    /// Follows the space at this place of the feed with these monitors only.
    ///
    /// # Errors
    /// As [`Follower::of`].
    pub fn with(
        feed: F,
        top: usize,
        space: usize,
        monitors: Vec<Box<dyn Monitor + 'm>>,
    ) -> Result<Follower<'m, F>, Error> {
        Follower::made(feed, top, Some((space, monitors)))
    }

    /// Follows the spaces of the feed without any monitor; [`Follower::add_each`] adds monitors.
    ///
    /// # Errors
    /// As [`Follower::of`].
    pub fn bare(feed: F, top: usize) -> Result<Follower<'m, F>, Error> {
        Follower::made(feed, top, Some((usize::MAX, Vec::new())))
    }

    fn made(feed: F, top: usize, only: Option<Only<'m>>) -> Result<Follower<'m, F>, Error> {
        let mut follower = Follower { feed, top, parts: Vec::new(), only, each: None };
        follower.meet()?;
        Ok(follower)
    }

    /// Starts the analysis of each space that the feed has found since the last call of this method.
    fn meet(&mut self) -> Result<(), Error> {
        let Follower { feed, top, parts, only, each } = self;
        for reader in &feed.spaces()[parts.len()..] {
            let analysis = |options: Options| match only {
                None => Analysis::new(options),
                Some((space, monitors)) => {
                    let mut analysis = Analysis::bare(options);
                    let of_it = if *space == parts.len() { std::mem::take(monitors) } else { Vec::new() };
                    of_it.into_iter().for_each(|monitor| analysis.add(monitor));
                    analysis
                }
            };
            let mut part = Part::of(reader, *top, analysis)?;
            if let Some(each) = each {
                part.analysis.add(each(parts.len()));
            }
            parts.push(part);
        }
        Ok(())
    }

    /// Adds a monitor for the feed's first space; must be called before the first poll.
    pub fn add(&mut self, monitor: Box<dyn Monitor + 'm>) {
        if let Some(first) = self.parts.first_mut() {
            first.analysis.add(monitor);
        }
    }

    /// Adds a monitor for each space of the feed, also for spaces found later; must be called before the
    /// first poll.
    pub fn add_each(&mut self, mut make: impl FnMut(usize) -> Box<dyn Monitor + 'm> + 'm) {
        for (place, part) in self.parts.iter_mut().enumerate() {
            part.analysis.add(make(place));
        }
        self.each = Some(Box::new(make));
    }

    /// The feed.
    pub fn feed(&self) -> &F {
        &self.feed
    }

    /// Reads the events that exist now; returns their number. Events that a live process records meanwhile
    /// are left for the next poll.
    pub fn poll(&mut self) -> u64 {
        self.look();
        self.poll_events()
    }

    /// Finds out whether the processes still live. Reads no events.
    pub fn look(&mut self) {
        for (part, reader) in self.parts.iter_mut().zip(self.feed.spaces()) {
            part.alive = reader.is_alive();
        }
    }

    /// Reads the events that exist now, as [`Follower::poll`] does, but does not find out whether the
    /// processes still live, which takes as long as reading some ten events.
    pub fn poll_events(&mut self) -> u64 {
        let looked = self.feed.look().and_then(|()| self.meet());
        if let (Err(error), Some(first)) = (looked, self.parts.first_mut()) {
            first.damage.push(error.to_string());
        }
        let mut taken = 0;
        while self.parts.iter().all(|part| part.damage.len() <= DAMAGE_MAX) {
            match self.poll_some() {
                Ok(count) if count < POLL_ITEMS => return taken + count as u64,
                Ok(count) => taken += count as u64,
                // If the space's directory was removed, no more can be read: the files that were open have
                // been read to their end.
                Err(_) if self.feed.spaces().iter().any(SpaceReader::is_gone) => break,
                Err(error) => match self.parts.first_mut() {
                    Some(first) => first.damage.push(format!("{error:#}")),
                    None => break,
                },
            }
            if has_cores() {
                let (count, outcome) = self.poll_ahead();
                taken += count;
                match outcome {
                    Ok(()) => break,
                    Err(_) if self.feed.spaces().iter().any(SpaceReader::is_gone) => break,
                    Err(error) => self.parts[0].damage.push(format!("{error:#}")),
                }
            }
        }
        taken
    }

    /// Reads all events that exist now on one thread, and analyses them on another.
    fn poll_ahead(&mut self) -> (u64, Result<(), Error>) {
        let parts = self.parts.iter_mut().map(|part| (&mut part.decoder, &mut part.analysis));
        let (decoders, analyses) = parts.unzip();
        ahead::poll(&mut self.feed, POLL_ITEMS, decoders, analyses)
    }

    fn poll_some(&mut self) -> Result<usize, Error> {
        match &mut self.parts[..] {
            [part] => self.feed.poll(POLL_ITEMS, &mut |_, item| part.feed(&item)),
            parts => self.feed.poll(POLL_ITEMS, &mut |space, item| parts[space].feed(&item)),
        }
    }

    /// Whether some process of the feed lives and has not ended its run.
    pub fn is_running(&self) -> bool {
        let mut parts = self.parts.iter().zip(self.feed.spaces());
        parts.any(|(part, reader)| part.alive && reader.is_finished().is_ok_and(|finished| !finished))
    }

    /// Makes the next poll pass over the events that were not read, but for the newest of each writer, as
    /// [`EventStream::leave_out`](thalweg_space::reader::EventStream::leave_out) does. They do not count as
    /// lost. A measurement that is restarted afterwards is complete again.
    pub fn leave_out(&mut self) {
        self.feed.leave_out();
    }

    /// For each space, the present ticks of its clock, and its live table.
    pub fn rows(&mut self) -> Vec<(u64, Vec<LiveRow>)> {
        let parts = self.parts.iter_mut().zip(self.feed.spaces());
        parts.map(|(part, reader)| (part.seen.info.clock.now(), part.rows(reader))).collect()
    }

    /// Restarts the measurement at the present time.
    pub fn restart(&mut self) {
        for (part, reader) in self.parts.iter_mut().zip(self.feed.spaces()) {
            part.restart(reader);
        }
    }

    /// Limits the report to the last `ns` nanoseconds of a run that has ended; must be called before the
    /// first poll.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn last(&mut self, ns: f64) -> Result<(), Error> {
        let mut last = 0;
        let mut look = |_: usize, item: Item<'_>| {
            if let Item::Event(event) = item {
                last = last.max(event.time);
            }
        };
        let mut feed = self.feed.again()?;
        while feed.poll(POLL_ITEMS, &mut look)? > 0 {}
        for (part, reader) in self.parts.iter_mut().zip(self.feed.spaces()) {
            let ticks = ns * reader.info()?.clock.hz() / 1e9;
            part.bytes_before = None;
            part.disk_before = None;
            part.decoder.restart_at = Some(last.saturating_sub(ticks as u64));
        }
        Ok(())
    }

    /// Limits the report to the time between two moments, in nanoseconds since the start of the first
    /// process; must be called before the first poll. Of the events more than a second before `from_ns`, only
    /// those that record tasks and streams are analysed; chunks of an archive without such events are not
    /// read.
    ///
    /// # Errors
    /// When a space cannot be read.
    pub fn between(&mut self, from_ns: u64, to_ns: u64) -> Result<(), Error> {
        self.cut(Some(from_ns), to_ns)
    }

    /// Limits the report to the events up to a time; each task is assumed to continue its last recorded
    /// activity until then.
    ///
    /// # Errors
    /// As [`Follower::between`].
    pub fn until(&mut self, to_ns: u64) -> Result<(), Error> {
        self.cut(None, to_ns)
    }

    fn cut(&mut self, from_ns: Option<u64>, to_ns: u64) -> Result<(), Error> {
        let mut begin_ns = None;
        for (part, reader) in self.parts.iter_mut().zip(self.feed.spaces()) {
            let clock = reader.info()?.clock;
            let anchor = clock.anchor();
            let begin_ns = *begin_ns.get_or_insert(anchor.real_ns);
            let ticks = |ns: u64| {
                let since = (begin_ns.saturating_add(ns)).saturating_sub(anchor.real_ns);
                anchor.ticks.saturating_add(clock.ns_to_ticks(since))
            };
            (part.bytes_before, part.disk_before) = (None, None);
            part.decoder.restart_at = from_ns.map(ticks);
            part.decoder.until = Some(ticks(to_ns));
        }
        let Some(from_ns) = from_ns else { return Ok(()) };
        let from = Duration::from_nanos(from_ns).saturating_sub(LEAD);
        self.feed.focus(from, Duration::from_nanos(to_ns), records_structure)
    }

    /// The report of what was polled. Where the feed may have several spaces, the report covers all of them.
    ///
    /// # Errors
    /// When a space cannot be read any more.
    pub fn report(&mut self) -> Result<Report, Error> {
        let mut reports = Vec::new();
        for (n, (part, reader)) in self.parts.iter_mut().zip(self.feed.spaces()).enumerate() {
            part.decoder.is_cut |= self.feed.has_more(n);
            let (names, ending) = part.ending(reader)?;
            reports.push(part.analysis.report(&names, ending));
        }
        Ok(self.one(reports))
    }

    /// The last report.
    ///
    /// # Errors
    /// As [`Follower::report`].
    pub fn finish(mut self) -> Result<Report, Error> {
        let mut reports = Vec::new();
        let parts = std::mem::take(&mut self.parts);
        for (n, (mut part, reader)) in parts.into_iter().zip(self.feed.spaces()).enumerate() {
            part.decoder.is_cut |= self.feed.has_more(n);
            let (names, ending) = part.ending(reader)?;
            reports.push(part.analysis.finish(&names, ending));
        }
        Ok(self.one(reports))
    }

    fn one(&self, mut reports: Vec<Report>) -> Report {
        match reports.pop() {
            Some(report) if self.feed.is_single() => report,
            last => {
                let mut whole = gathered(reports.into_iter().chain(last).collect(), self.top);
                whole.notes.splice(0..0, copied::notes(self.feed.spaces()));
                whole
            }
        }
    }
}

/// Whether this machine has several cores for this process.
fn has_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

impl<'m> Part<'m> {
    fn of(
        reader: &SpaceReader,
        top: usize,
        analysis: impl FnOnce(Options) -> Analysis<'m>,
    ) -> Result<Part<'m>, Error> {
        // The process is checked before the events are read, so a process that ends while they are read is
        // reported as alive and not as killed.
        let alive = reader.is_alive();
        let mut analysis = analysis(Options { ns_per_tick: 1e9 / reader.info()?.clock.hz(), top });
        // Lost samples do not mean that other events of the run are missing.
        let writers = reader.writers().unwrap_or_default();
        for writer in writers.iter().filter(|writer| writer.name == SAMPLER) {
            analysis.may_lack(u64::from(writer.number));
        }
        if let Some(mode) = mode_setting(reader, |setting| setting.default) {
            analysis.begin_in(mode);
        }
        Ok(Part {
            decoder: Decoder::default(),
            analysis,
            alive,
            watch: Some(Watch::begin(reader, alive && !reader.info()?.finished)),
            bytes_before: Some(0),
            disk_before: Some([0.0; 2]),
            damage: Vec::new(),
            seen: Seen::read(reader)?,
        })
    }

    #[inline]
    fn feed(&mut self, item: &Item<'_>) {
        self.decoder.feed(item, &mut self.analysis);
    }

    fn restart(&mut self, reader: &SpaceReader) {
        let now = reader.info().map_or(0, |info| info.clock.now());
        let rows = self.rows(reader);
        self.bytes_before = event_bytes(reader);
        self.disk_before = disk_ns(reader);
        self.analysis.restart(now, rows);
    }

    fn rows(&mut self, reader: &SpaceReader) -> Vec<LiveRow> {
        match reader.live_rows() {
            Ok(views) => live_rows(&views),
            Err(_) if reader.is_gone() => Vec::new(),
            Err(error) => {
                self.damage.push(format!("{error:#}"));
                Vec::new()
            }
        }
    }

    /// Reads the data of [`Seen`] again if the space still exists; returns whether the space exists.
    fn see(&mut self, reader: &SpaceReader) -> Result<bool, Error> {
        match Seen::read(reader) {
            Ok(seen) => self.seen = seen,
            Err(error) if !reader.is_gone() => return Err(error),
            Err(_) => {}
        }
        Ok(!reader.is_gone())
    }

    fn ending(&mut self, reader: &SpaceReader) -> Result<(Names, Ending), Error> {
        self.decoder.end(&mut self.analysis);
        let rows = self.rows(reader);
        let stuck = self.watch.take().map(|watch| watch.stuck(reader, &rows)).unwrap_or_default();
        let is_there = self.see(reader)?;
        let Seen { info, names, mode, event_bytes, disk_ns, limits, map } = self.seen.clone();
        if is_there && self.alive && !info.finished {
            self.watch = Some(Watch::begin(reader, true));
        }
        // If the window ends before the run does, or the archive ends before its process did, the process
        // counts as running, because its later state is unknown.
        let cut = self.decoder.until.filter(|_| self.decoder.is_cut);
        let state = match (info.finished || !is_there, self.alive) {
            _ if cut.is_some() => State::Running,
            (true, _) => State::Ended,
            (false, false) if info.lived_on => State::Running,
            (false, true) => State::Running,
            (false, false) => State::Killed,
        };
        let ending = Ending {
            state,
            now: match state {
                State::Ended => None,
                State::Running if cut.is_some() => cut,
                State::Running if info.archive => Some(info.lived_ticks),
                State::Running => Some(info.clock.now()),
                State::Killed => Some(info.lived_ticks),
            },
            mode,
            rows: if is_there && cut.is_none() { rows } else { Vec::new() },
            stuck,
            event_bytes: self.bytes_before.and_then(|before| Some(event_bytes?.saturating_sub(before))),
            disk_ns: disk_ns
                .zip(self.disk_before)
                .map(|([full, held], before)| [full - before[0], held - before[1]]),
            limits,
            // The values of an earlier time are not known.
            map: if cut.is_none() { map } else { Vec::new() },
            space: SpaceInfo {
                path: reader.path().display().to_string(),
                name: info.name,
                pid: info.pid,
                host: info.host,
                command: info.command,
            },
        };
        for problem in self.damage.drain(..) {
            let text = format!("The space is damaged, this report may lack something: {problem}.");
            self.analysis.note("damaged", text);
        }
        for kind in self.decoder.strange.drain(..) {
            self.analysis.note("strange_kind", kind);
        }
        Ok((names, ending))
    }
}

/// A worker that stays on the same message of the same task for this long is considered hanging.
const STUCK: Duration = Duration::from_millis(250);

/// The first of two looks at the rows of workers of a live process, which show on which message of which task
/// each worker is.
struct Watch {
    first: Vec<LiveRow>,
    at: Instant,
    ticks: u64,
}

impl Watch {
    fn begin(reader: &SpaceReader, lives: bool) -> Watch {
        let rows = reader.live_rows().ok().filter(|_| lives).unwrap_or_default();
        let first = live_rows(&rows).into_iter().filter(in_task).collect();
        Watch { first, at: Instant::now(), ticks: reader.info().map_or(0, |info| info.clock.now()) }
    }

    /// Returns the workers that are still on the message on which they were at the first look, each with the
    /// latest possible time, in ticks, at which it began to process the message. If a worker has not moved
    /// since the first look, the rows are read again after [`STUCK`].
    fn stuck(mut self, reader: &SpaceReader, rows: &[LiveRow]) -> HashMap<u64, u64> {
        self.first.retain(|row| rows.contains(row));
        if self.first.is_empty() {
            return HashMap::new();
        }
        std::thread::sleep(STUCK.saturating_sub(self.at.elapsed()));
        let rows = live_rows(&reader.live_rows().unwrap_or_default());
        self.first.retain(|row| rows.contains(row));
        // The worker published `updated` when its previous dispatch ended. In mode off, workers publish no
        // times.
        let publishes = mode_setting(reader, |setting| setting.value).is_some_and(|mode| mode != Mode::Off);
        let since = |row: &LiveRow| match *row {
            LiveRow::Worker { worker, updated, .. } if publishes && updated > 0 => {
                Some((worker, updated.min(self.ticks)))
            }
            LiveRow::Worker { worker, .. } => Some((worker, self.ticks)),
            _ => None,
        };
        self.first.iter().filter_map(since).collect()
    }
}

/// Whether this row is of a worker that is running a task.
fn in_task(row: &LiveRow) -> bool {
    matches!(row, LiveRow::Worker { task: 1.., ended: false, .. })
}

/// The value of the setting `monitor.mode`, or its default, which is the mode at the start; `None` if the
/// setting does not exist.
fn mode_setting(reader: &SpaceReader, which: impl Fn(&SettingView) -> u64) -> Option<Mode> {
    let settings = reader.settings().ok()?;
    let setting = settings.iter().find(|setting| setting.name == "monitor.mode")?;
    let value = which(setting);
    let choice = setting.choices.get(usize::try_from(value).ok()?);
    choice.map_or_else(|| Mode::from_number(value), |word| Mode::from_word(word))
}

/// The values of the settings that limit the run's dispatches and its messages in flight.
pub(super) fn limits(reader: &SpaceReader) -> Option<Limits> {
    let settings = reader.settings().ok()?;
    let value = |name: &str| settings.iter().find(|setting| setting.name == name).map(|s| s.value);
    Some(Limits { quantum: value("exec.quantum")?, unfinished: value("exec.unfinished")? })
}

/// The times that a run with an archive has published: how long the archive's disk was full, and for how much
/// of this time the run waited.
fn disk_ns(reader: &SpaceReader) -> Option<[f64; 2]> {
    let settings = reader.settings().ok()?;
    let published = |name: &str| settings.iter().find(|setting| setting.name == name).map(|s| s.value as f64);
    Some([published("archive.full_ns")?, published("archive.held_ns")?])
}

/// A known kind and the places of its fields.
struct Known {
    /// The kind's place in [`KINDS`].
    number: u16,
    fields: Fields,
}

/// What the follower does with the events of a kind.
enum Use {
    /// The events are the runtime's and are decoded.
    Known(Box<Known>),
    /// Some monitor wants these events; the kind has this number.
    Wanted(u16),
    /// No monitor wants these events.
    Nothing,
}

/// Turns events into observations.
#[derive(Default)]
pub(super) struct Decoder {
    /// What is done with the events of each kind, by the kind's index; `None` before the kind's first event.
    kinds: Vec<Option<Use>>,
    /// Kinds with a known name but unexpected fields.
    strange: Vec<String>,
    /// The measurement restarts with the first event at or after this time.
    restart_at: Option<u64>,
    /// The gaps before that event, each with its writer and the number of lost events, after which the writer
    /// recorded nothing more: the lost events may lie behind that time.
    gaps: Vec<(u64, u64)>,
    /// Events after this time are left out.
    until: Option<u64>,
    is_cut: bool,
}

impl Decoder {
    #[inline]
    pub(super) fn feed(&mut self, item: &Item<'_>, into: &mut impl Decoded) {
        match item {
            Item::Gap { writer, kind_unknown: true, .. } => into.unknown_kind(u64::from(*writer)),
            Item::Gap { writer, lost, .. } => {
                if self.restart_at.is_some() {
                    self.gaps.push((u64::from(*writer), *lost));
                }
                into.gap(u64::from(*writer), *lost);
            }
            Item::Event(event) => {
                if self.until.is_some_and(|until| event.time > until) {
                    self.is_cut = true;
                    return;
                }
                if let Some(begin) = self.restart_at {
                    if event.time < begin {
                        self.gaps.retain(|&(writer, _)| writer != u64::from(event.writer));
                    } else {
                        self.restart(begin, into);
                    }
                }
                self.feed_event(event, into);
            }
        }
    }

    #[cold]
    fn restart(&mut self, begin: u64, into: &mut impl Decoded) {
        self.restart_at = None;
        into.restart(begin);
        self.gaps.drain(..).for_each(|(writer, lost)| into.gap(writer, lost));
    }

    /// Counts the gaps of a window in which no event is left.
    fn end(&mut self, into: &mut impl Decoded) {
        if let Some(begin) = self.restart_at.filter(|_| !self.gaps.is_empty()) {
            self.restart(begin, into);
        }
    }

    #[inline]
    fn feed_event(&mut self, event: &Event<'_>, into: &mut impl Decoded) {
        if !matches!(self.kinds.get(event.kind.index), Some(Some(_))) {
            self.meet(event.kind, into);
        }
        match &self.kinds[event.kind.index] {
            Some(Use::Known(known)) => match observation(known, event, into) {
                Some(observation) => into.observe(event.time, u64::from(event.writer), &observation),
                None => into.unknown_event(event.time, u64::from(event.writer)),
            },
            Some(Use::Wanted(number)) => {
                let values = event.fields().map(|(_, value)| value_of(&value));
                into.other(event.time, u64::from(event.writer), *number, values);
            }
            _ => into.unknown_event(event.time, u64::from(event.writer)),
        }
    }

    #[cold]
    fn meet(&mut self, kind: &Arc<KindInfo>, into: &mut impl Decoded) {
        let fields = kind.fields.iter().map(|field| field.name.clone()).collect();
        let found = match self.find(kind) {
            Some(known) => Use::Known(Box::new(known)),
            None => into.kind(&kind.name, fields).map_or(Use::Nothing, Use::Wanted),
        };
        if self.kinds.len() <= kind.index {
            self.kinds.resize_with(kind.index + 1, || None);
        }
        self.kinds[kind.index] = Some(found);
    }

    fn find(&mut self, kind: &KindInfo) -> Option<Known> {
        let number = KINDS.iter().position(|known| known.name == kind.name)?;
        match Fields::find(kind, KINDS[number].fields) {
            Ok(fields) => Some(Known { number: number as u16, fields }),
            Err(name) => {
                self.strange.push(format!(
                    "Events {} have no field {name}: they come from another version and were left out.",
                    kind.name
                ));
                None
            }
        }
    }
}

fn value_of(value: &reader::Value<'_>) -> Value {
    match value {
        reader::Value::Unsigned(number) | reader::Value::Choice(number, None) => Value::Natural(*number),
        reader::Value::Signed(number) => Value::Integer(*number),
        reader::Value::Float(number) => Value::Real(*number),
        reader::Value::Bool(yes) => Value::Natural(u64::from(*yes)),
        reader::Value::Name(name) => Value::Natural(name.0),
        reader::Value::Site(site) => Value::Natural(site.0),
        reader::Value::Choice(_, Some(name)) => Value::Text((*name).to_owned()),
        reader::Value::Text(text) => Value::Text(text.clone().into_owned()),
        reader::Value::Bytes(_) => Value::Text(value.to_string()),
    }
}

#[inline]
fn observation(known: &Known, event: &Event<'_>, into: &mut impl Decoded) -> Option<Observation> {
    Observation::read(known.number, &known.fields, event, into.texts())
}

//! The contents of a served page, measured by a separate thread while there are viewers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use thalweg_monitor::{Follower, Note, Report, State};
use thalweg_space::reader::{Feed, PathFeed};
use thalweg_view::names::json;
use thalweg_view::{Applied, Changes, Json, Live, Page, TimelinePage};
use tokio::sync::watch;

use crate::commands::look::Sort;
use crate::commands::report::lanes::{Clocks, Lanes, Processes, detail, part};
use crate::commands::report::page::{self, TOP};
use crate::commands::report::text::{self, View};
use crate::failure::Failure;

/// The number of single spans in a message to the page; the page requests the spans of a window.
const SPANS_SENT: usize = 1_000;
/// The longest interval at which a live run is read; even if the run suddenly becomes fast, its elements hold
/// the events of a longer time. While a run records [`MANY`] events or more in that interval, it is read more
/// often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_OFTEN: Duration = Duration::from_millis(50);
const MANY: u64 = 10_000;
/// If a run records more events than this in a second, the lanes are summed from counters, and events are read
/// in large batches, which cost half as much for each event: [`BATCH`] events are recorded between two looks.
const EACH_MAX: f64 = 1_000.0;
const BATCH: f64 = 8_000.0;
/// The number of events that are read in a second on average while there is a viewer: one in fifty, within
/// these limits. If a run records more, all events of short windows are read, with pauses between them. An
/// event costs less when there are many, because the processor's caches then hold what reads it.
const READ_MIN: f64 = 4_000.0;
const READ_MAX: f64 = 20_000.0;
/// The least length of such a window, and the longest time from one window to the next; a run with so many
/// events that both are not possible gets shorter windows.
const SAMPLE_MIN: Duration = Duration::from_millis(100);
const CYCLE_MAX: Duration = Duration::from_secs(10);
/// All events are read from this long before such a window, because they show what threads and tasks do when
/// it begins: threads record the processor time that they have used every 20 ms.
const LEAD: Duration = Duration::from_millis(40);
/// The interval at which the server finds out whether the run's process lives, which takes as long as to read
/// and analyse a hundred events.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// The longest window of the first report after a time without viewers, in which no events were read.
const WINDOW_FIRST: Duration = Duration::from_millis(500);
/// The interval at which the server finds out how much processor time it has taken.
const SPENT_EVERY: Duration = Duration::from_secs(1);

/// The present page, as server-sent events.
#[derive(Clone)]
pub(super) struct Shown {
    /// The number of pages sent so far.
    pub(super) sequence: u64,
    /// The whole page.
    pub(super) whole: Arc<Whole>,
    /// The changes since the previous page.
    pub(super) part: Bytes,
    /// The reason why there is no page.
    pub(super) failed: Option<String>,
}

/// The whole page; it is serialised once, when the first viewer that has no page needs it.
#[derive(Default)]
pub(super) struct Whole {
    event: OnceLock<Bytes>,
    /// All fields but the timeline and the state of the run.
    fields: Arc<Vec<(&'static str, String)>>,
    timeline: Arc<TimelinePage>,
    live: String,
}

/// The texts before and after the data of a server-sent event.
const WHOLE: &str = "event: page\ndata: ";
const PART: &str = "event: part\ndata: ";
const END: &str = "\n\n";

impl Whole {
    /// The page as an event.
    pub(super) fn event(&self) -> Bytes {
        let written = || {
            let mut page = String::from(WHOLE);
            page.push('{');
            for (name, value) in &*self.fields {
                let _ = write!(page, "\"{name}\":{value},");
            }
            let timeline = json(&*self.timeline).unwrap_or_else(|_| "null".to_owned());
            let _ = write!(page, "\"timeline\":{timeline},\"live\":{}}}{END}", self.live);
            Bytes::from(page)
        };
        self.event.get_or_init(written).clone()
    }

    /// A page from an event that is serialised already.
    fn of(event: Bytes) -> Arc<Whole> {
        Arc::new(Whole { event: OnceLock::from(event), ..Whole::default() })
    }

    /// The page as JSON.
    pub(super) fn json(&self) -> Bytes {
        let event = self.event();
        event.slice(WHOLE.len()..event.len() - END.len())
    }
}

/// The state that the measuring thread and the server share.
pub(super) struct Measured {
    path: PathBuf,
    shown: watch::Receiver<Option<Shown>>,
    pub(super) viewers: AtomicUsize,
    /// The changes applied from the page, with the last change first, and the number of modifications of the
    /// list.
    applied: Mutex<Vec<Applied>>,
    changes: AtomicU64,
    /// The lanes of a live run as far as they are in memory, or all lanes of a run that has ended.
    lanes: Mutex<Known>,
}

/// See [`Measured::lanes`].
enum Known {
    Nothing,
    Live(Lanes),
    Over(Arc<Processes>),
}

impl Measured {
    /// A channel that signals new pages.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Shown>> {
        self.shown.clone()
    }

    /// The timeline between two times of the page, in full detail. The call may take long.
    pub(super) fn detail(&self, from: f64, to: f64) -> Result<TimelinePage, String> {
        let feed = PathFeed::open(&self.path).map_err(|error| error.to_string())?;
        let processes = match &*self.known() {
            Known::Nothing => return Err("nothing was measured yet".to_owned()),
            Known::Over(processes) => Arc::clone(processes),
            Known::Live(lanes) => Arc::new(lanes.levels(&Clocks::of(&feed))),
        };
        detail(feed, &processes, from, to).map_err(|failure| failure.text())
    }

    /// The report on the time between two times of the page; `None` if the run goes on, or if that time has too
    /// many events. The call may take long.
    pub(super) fn report(&self, from: f64, to: f64) -> Result<Option<Report>, String> {
        let processes = match &*self.known() {
            Known::Over(processes) => Arc::clone(processes),
            Known::Nothing | Known::Live(_) => return Ok(None),
        };
        part(&self.path, &processes, (from, to), TOP).map_err(|failure| failure.text())
    }

    /// For each process, the time from the beginning of the first process to its own beginning, in nanoseconds.
    pub(super) fn later(&self) -> Vec<f64> {
        match &*self.known() {
            Known::Nothing => Vec::new(),
            Known::Over(processes) => processes.iter().map(|(later, _)| *later).collect(),
            Known::Live(lanes) => {
                PathFeed::open(&self.path).map_or(Vec::new(), |feed| lanes.later(&Clocks::of(&feed)))
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Applies `change` to the list of applied changes, and returns what `change` returns.
    pub(super) fn applied<T>(&self, change: impl FnOnce(&mut Vec<Applied>) -> T) -> T {
        let mut applied = self.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = change(&mut applied);
        self.changes.fetch_add(1, Ordering::Release);
        result
    }
}

/// Begins to measure the run in this directory. When the call returns, there is a first page, or the reason
/// why there is none.
pub(super) fn begin(path: &Path, every: Duration, window: Duration) -> Result<Arc<Measured>, Failure> {
    // The space is opened once in advance, so that an unreadable space is an error before anything is served.
    drop(Follower::open(path, 1).map_err(Failure::usage)?);
    let (send, shown) = watch::channel(None);
    let measured = Arc::new(Measured {
        path: path.to_owned(),
        shown,
        viewers: AtomicUsize::new(0),
        applied: Mutex::default(),
        changes: AtomicU64::new(0),
        lanes: Mutex::new(Known::Nothing),
    });
    let shared = Arc::clone(&measured);
    let path = path.to_owned();
    let body = move || {
        Screen {
            path,
            every,
            window,
            measured: shared,
            send,
            sequence: 0,
            begun: Instant::now(),
            sent: Arc::default(),
            drawn: Arc::default(),
            changes: 0,
            spent: None,
        }
        .run()
    };
    thread::Builder::new()
        .name("measuring".to_owned())
        .spawn(body)
        .map_err(|error| Failure::run("cannot begin to measure", error))?;
    Ok(measured)
}

struct Screen {
    path: PathBuf,
    every: Duration,
    window: Duration,
    measured: Arc<Measured>,
    send: watch::Sender<Option<Shown>>,
    sequence: u64,
    begun: Instant,
    /// The page's fields and its timeline, as they were sent last.
    sent: Arc<Vec<(&'static str, String)>>,
    drawn: Arc<TimelinePage>,
    /// The number of changes that had been applied when the settings were last read.
    changes: u64,
    /// The processor time that this process had taken, in seconds, and when that was read.
    spent: Option<(Instant, f64)>,
}

impl Screen {
    fn run(mut self) {
        let last = self.live();
        // A run that has ended is read once more as a whole, and then shown completely. If its space was
        // removed, viewers keep the last page of the live run.
        let path = self.path.clone();
        let over = match page::over(&path, |page, levels| self.show_early(page, levels)) {
            Ok(kept) => Some(kept),
            Err(failure) if last.is_none() => {
                return self.fail(&format!("the run cannot be shown: {}", failure.text()));
            }
            Err(_) => None,
        };
        let json = over.as_ref().and_then(|kept| kept.page.json());
        if let Some(kept) = over {
            *self.measured.known() = Known::Over(Arc::new(kept.levels));
        }
        let mut changes = u64::MAX;
        loop {
            let now = self.measured.changes.load(Ordering::Acquire);
            let before = std::mem::replace(&mut changes, now);
            if before != now {
                match (&json, &last) {
                    (Some(json), _) => self.show_over(json, before == u64::MAX),
                    (None, Some(page)) => self.show(page, false),
                    (None, None) => {}
                }
            }
            if self.send.is_closed() {
                return;
            }
            thread::sleep(self.every.max(Duration::from_millis(200)));
        }
    }

    /// Follows the run until it ends. Returns the last page.
    fn live(&mut self) -> Option<Page> {
        let mut follower = Follower::open(&self.path, TOP).ok()?;
        let lanes = Lanes::follow(&mut follower, SPANS_SENT, true);
        if !follower.is_running() {
            return None;
        }
        follower.poll();
        *self.measured.known() = Known::Live(lanes.clone());
        let mut page: Option<Page> = None;
        let mut pace = Pace::all(self.window);
        let mut alive_at = Instant::now();
        loop {
            if page.is_some() && self.wait_for_viewers(&mut follower) {
                if !pace.is_thin {
                    follower.poll();
                    follower.restart();
                }
                pace = pace.again(self.window.min(WINDOW_FIRST));
            }
            let running = follower.is_running();
            if alive_at.elapsed() >= ALIVE_EVERY {
                alive_at = Instant::now();
                follower.look();
            }
            pace.poll(&mut follower);
            if pace.is_thin {
                lanes.count(&mut follower);
            }
            let is_over = Instant::now() >= pace.ends || pace.is_flooded();
            match &mut page {
                // The events of a pause were not read, so there is no newer report.
                Some(page) if !running && pace.phase != Phase::Window => {
                    page.report.window.state = State::Ended;
                    self.show(page, running);
                }
                // Before a window is complete only the timeline is updated: figures of a shorter time would
                // jump, and cost processor time.
                Some(page) if running && (!is_over || pace.phase != Phase::Window) => {
                    lanes.go_on();
                    let timeline = lanes.page(&Clocks::of(follower.feed()));
                    self.go_on(page, timeline, follower.feed());
                }
                _ => {
                    if let Ok(mut report) = follower.report() {
                        report.notes.extend(pace.note());
                        let text = text::plain(&report, View { top: TOP, sort: Sort::Load });
                        let timeline = lanes.page(&Clocks::of(follower.feed()));
                        let mut next = Page::of(report, text, TimelinePage::clone(&timeline));
                        next.settings = page::settings(follower.feed());
                        self.show(&next, running);
                        page = Some(next);
                    }
                }
            }
            if !running {
                return page;
            }
            if is_over {
                pace = pace.next(&mut follower, &lanes, self.window);
            }
            pace.wait(&mut follower, self.every);
        }
    }

    fn has_viewers(&self) -> bool {
        self.measured.viewers.load(Ordering::Relaxed) > 0
    }

    /// Waits until there is a viewer or the run has ended. Meanwhile no events are read, except those of an
    /// archive, which would all have to be read later. Returns whether this took longer than a window while
    /// the run goes on.
    fn wait_for_viewers(&self, follower: &mut Follower<'_>) -> bool {
        if self.has_viewers() {
            return false;
        }
        let begun = Instant::now();
        let mut alive_at = begun;
        let is_archived =
            follower.feed().spaces().iter().any(|space| {
                space.writers().is_ok_and(|writers| writers.iter().any(|writer| writer.archived))
            });
        while !self.has_viewers() && follower.is_running() {
            thread::sleep(LOOK_EVERY);
            if alive_at.elapsed() >= ALIVE_EVERY {
                alive_at = Instant::now();
                follower.look();
                if is_archived {
                    follower.poll_events();
                }
            }
        }
        begun.elapsed() >= self.window && follower.is_running()
    }

    /// Sends a page: a viewer that has the previous page gets only the changes.
    fn show(&mut self, page: &Page, running: bool) {
        let Ok(fields) = page.fields_of_report() else { return };
        let running = running && page.report.window.state == State::Running;
        self.send(Arc::new(fields), Arc::new(page.timeline.clone()), running);
    }

    /// Sends a page in which only the timeline has changed, and the settings if a setting was changed.
    fn go_on(&mut self, page: &mut Page, timeline: Arc<TimelinePage>, feed: &impl Feed) {
        let mut fields = Arc::clone(&self.sent);
        let changes = self.measured.changes.load(Ordering::Acquire);
        if std::mem::replace(&mut self.changes, changes) != changes {
            page.settings = page::settings(feed);
            let Ok(written) = json(&page.settings) else { return };
            let mut new = Vec::clone(&fields);
            new.iter_mut()
                .filter(|(name, _)| *name == "settings")
                .for_each(|(_, value)| value.clone_from(&written));
            fields = Arc::new(new);
        }
        self.send(fields, timeline, page.report.window.state == State::Running);
    }

    fn send(&mut self, fields: Arc<Vec<(&'static str, String)>>, timeline: Arc<TimelinePage>, running: bool) {
        let live = self.live_of(running);
        let Ok(live_json) = serde_json::to_string(&live) else { return };
        let mut part = format!("{PART}{{");
        if !Arc::ptr_eq(&fields, &self.sent) {
            let is_new =
                |(n, of): &(usize, &(&str, String))| self.sent.get(*n).is_none_or(|sent| sent.1 != of.1);
            for (_, (name, value)) in fields.iter().enumerate().filter(is_new) {
                let _ = write!(part, "\"{name}\":{value},");
            }
        }
        let drawn = match Changes::between(&self.drawn, &timeline) {
            Some(changes) => json(&changes).map(|changes| ("changes", changes)),
            None => json(&*timeline).map(|timeline| ("timeline", timeline)),
        };
        let Ok((name, value)) = drawn else { return };
        let _ = write!(part, "\"{name}\":{value},\"live\":{live_json}}}{END}");
        self.sent = Arc::clone(&fields);
        self.drawn = timeline;
        let whole =
            Whole { event: OnceLock::new(), fields, timeline: Arc::clone(&self.drawn), live: live_json };
        self.publish(&live, Arc::new(whole), Bytes::from(part));
    }

    /// Sends the page of a run that has ended, before the page has stories of messages.
    fn show_early(&mut self, page: &Page, levels: Processes) {
        let Some(json) = page.made().ok().and_then(|made| made.json()) else { return };
        *self.measured.known() = Known::Over(Arc::new(levels));
        self.show_over(&json, true);
    }

    /// Sends the page of a run that has ended: a new page as a whole, later only the state of the run, because
    /// nothing else changes.
    fn show_over(&mut self, json: &Json, is_new: bool) {
        let live = self.live_of(false);
        let (Ok(whole), Ok(live_json)) = (json.with(&live), serde_json::to_string(&live)) else { return };
        let part = if is_new {
            [PART, &whole, END].concat()
        } else {
            format!("{PART}{{\"live\":{live_json}}}{END}")
        };
        self.sent = Arc::default();
        self.publish(&live, Whole::of(Bytes::from([WHOLE, &whole, END].concat())), Bytes::from(part));
    }

    fn publish(&self, live: &Live, whole: Arc<Whole>, part: Bytes) {
        self.send.send_replace(Some(Shown { sequence: live.sequence, whole, part, failed: None }));
    }

    /// Serves the reason why there is no page, until the server ends.
    fn fail(self, why: &str) {
        // The data of an event take one line, so line breaks are replaced.
        let event = Bytes::from(format!("event: failed\ndata: {}{END}", why.replace(['\n', '\r'], " ")));
        let failed = Some(why.to_owned());
        let whole = Whole::of(event.clone());
        self.send.send_replace(Some(Shown { sequence: 1, whole, part: event, failed }));
        while !self.send.is_closed() {
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn live_of(&mut self, running: bool) -> Live {
        self.sequence += 1;
        let known = self.spent.filter(|(at, _)| at.elapsed() < SPENT_EVERY);
        let (at, spent) = known.unwrap_or_else(|| (Instant::now(), processor_seconds().unwrap_or(0.0)));
        self.spent = Some((at, spent));
        let applied = self.measured.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Live {
            running,
            sequence: self.sequence,
            applied,
            cost_share: spent / (at - self.begun).as_secs_f64().max(1e-3),
        }
    }
}

/// A phase of reading a live run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No events are read.
    Pause,
    /// Events are read and not measured, for [`LEAD`] before a window.
    Lead,
    Window,
}

/// Which events of a live run are read: all of them, or those of short windows with pauses between them.
struct Pace {
    /// Whether there are pauses. The lanes are then summed from counters.
    is_thin: bool,
    phase: Phase,
    /// When events are read next.
    looks: Instant,
    /// The number of events that are recorded in a second.
    rate: f64,
    begun: Instant,
    /// The end of the phase.
    ends: Instant,
    /// The number of events that were read in the window, and in the last look.
    taken: u64,
    last: u64,
    /// The length of the window after the pause, and the time from window to window.
    sample: Duration,
    cycle: Duration,
}

impl Pace {
    /// Reads all events of a window that begins now.
    fn all(window: Duration) -> Pace {
        let begun = Instant::now();
        Pace {
            is_thin: false,
            phase: Phase::Window,
            looks: begun,
            rate: 0.0,
            begun,
            ends: begun + window,
            taken: 0,
            last: 0,
            sample: window,
            cycle: window,
        }
    }

    /// Goes on after a time without viewers.
    fn again(self, window: Duration) -> Pace {
        match self.is_thin {
            true => Pace { phase: Phase::Pause, ends: Instant::now(), ..self },
            false => Pace::all(window),
        }
    }

    /// Whether so many events come that a window of all events ends early.
    fn is_flooded(&self) -> bool {
        let seconds = self.begun.elapsed().as_secs_f64();
        !self.is_thin && seconds >= WINDOW_FIRST.as_secs_f64() && self.taken as f64 > READ_MAX * seconds
    }

    /// Reads events if it is time to.
    fn poll(&mut self, follower: &mut Follower<'_>) {
        let now = Instant::now();
        if self.phase == Phase::Pause || (now < self.looks && now < self.ends) {
            return;
        }
        self.last = follower.poll_events();
        self.taken += self.last;
        self.looks = match self.is_thin {
            true => now + Duration::from_secs_f64(BATCH / self.rate.max(EACH_MAX)),
            false if self.last >= MANY => now + LOOK_OFTEN,
            false => now + LOOK_EVERY,
        };
    }

    /// What follows a phase that is over.
    fn next(self, follower: &mut Follower<'_>, lanes: &Lanes, window: Duration) -> Pace {
        let begun = Instant::now();
        let looks = begun + Duration::from_secs_f64(BATCH / self.rate.max(EACH_MAX));
        match self.phase {
            Phase::Pause => {
                follower.leave_out();
                follower.poll_events();
                return Pace { phase: Phase::Lead, looks, begun, ends: begun + LEAD, ..self };
            }
            Phase::Lead => {
                follower.restart();
                return Pace {
                    phase: Phase::Window,
                    looks,
                    begun,
                    ends: begun + self.sample,
                    taken: 0,
                    ..self
                };
            }
            Phase::Window => {}
        }
        let rate = self.taken as f64 / self.begun.elapsed().as_secs_f64().max(1e-3);
        // A run near a limit does not change to and fro.
        let is_thin = rate > if self.is_thin { EACH_MAX / 2.0 } else { EACH_MAX };
        match (self.is_thin, is_thin) {
            (false, true) => lanes.count(follower),
            (true, false) => lanes.sum_events(follower),
            _ => {}
        }
        let reads = (rate / 50.0).clamp(READ_MIN, READ_MAX);
        let share = if is_thin { (reads / rate).min(1.0) } else { 1.0 };
        let whole = Pace { is_thin, rate, ..Pace::all(window) };
        if share >= 1.0 {
            follower.restart();
            return whole;
        }
        let sample = window.mul_f64(share).max(SAMPLE_MIN).min(CYCLE_MAX.mul_f64(share)).min(window);
        let cycle = (sample + LEAD).div_f64(share);
        // The first window comes at once, because the figures before it may lack events that were overwritten.
        let pause = if self.is_thin { cycle.saturating_sub(sample + LEAD) } else { Duration::ZERO };
        Pace { phase: Phase::Pause, ends: whole.begun + pause, sample, cycle, ..whole }
    }

    /// Waits until the page is due, and reads events meanwhile.
    fn wait(&mut self, follower: &mut Follower<'_>, every: Duration) {
        let mut until = Instant::now() + every;
        if self.is_thin {
            // A short window ends in time, however seldom the page is updated.
            until = until.min(self.ends);
        }
        loop {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            let looks = match self.phase {
                Phase::Pause => left,
                _ => self.looks.saturating_duration_since(now),
            };
            thread::sleep(left.min(looks));
            // The caller reads the events next.
            if left <= looks {
                return;
            }
            self.poll(follower);
        }
    }

    /// A note for a page that shows a part of the events.
    fn note(&self) -> Option<Note> {
        let text = format!(
            "The run records so many events that this page reads those of {:.2} s in {:.0} s: all figures are of the last such \
             time, but the lanes, which are sums of counters. A report on the whole run reads all events.",
            self.sample.as_secs_f64(),
            self.cycle.as_secs_f64()
        );
        (self.cycle > self.sample).then(|| Note { code: "sampled".to_owned(), text })
    }
}

/// Processor time of this process, in seconds.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // User and system time, in hundredths of a second.
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

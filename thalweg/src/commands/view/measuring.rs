//! What a served page shows, measured by a thread of its own as long as somebody looks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use thalweg_monitor::{Follower, State};
use thalweg_space::reader::{PathFeed, SpaceReader};
use thalweg_view::{Applied, Json, Live, Page, Setting, TimelinePage};
use tokio::sync::watch;

use crate::commands::look::Sort;
use crate::commands::report::lanes::{Clocks, Lanes, Processes, detail};
use crate::commands::report::page::{self, TOP};
use crate::commands::report::text::{self, View};
use crate::failure::Failure;

/// Single spans that are sent at a time: those of a window are asked for.
const SPANS_SENT: usize = 2_000;
/// How often a run that lives is looked at: its rings hold more than that.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is shown now, as server-sent events.
#[derive(Clone)]
pub(super) struct Shown {
    /// Counts what was shown.
    pub(super) sequence: u64,
    /// The whole page.
    pub(super) whole: Bytes,
    /// What of it changed since what was shown before.
    pub(super) part: Bytes,
    /// Why there is no page.
    pub(super) failed: Option<String>,
}

/// Before and behind the data of an event.
const WHOLE: &str = "event: page\ndata: ";
const PART: &str = "event: part\ndata: ";
const END: &str = "\n\n";

impl Shown {
    /// The page as JSON.
    pub(super) fn json(&self) -> Bytes {
        self.whole.slice(WHOLE.len()..self.whole.len() - END.len())
    }
}

/// What the measuring thread and the server share.
pub(super) struct Measured {
    path: PathBuf,
    shown: watch::Receiver<Option<Shown>>,
    pub(super) viewers: AtomicUsize,
    /// What was applied from the page, the last one first, and how often that changed.
    applied: Mutex<Vec<Applied>>,
    changes: AtomicU64,
    /// What is known of the lanes: of a run that goes on what is remembered, of one that is over all.
    lanes: Mutex<Known>,
}

/// See [`Measured::lanes`].
enum Known {
    Nothing,
    Live(Lanes),
    Over(Arc<Processes>),
}

impl Measured {
    /// To wait for what is shown next.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Shown>> {
        self.shown.clone()
    }

    /// What happened between two times of the page, in all detail. Takes a while.
    pub(super) fn detail(&self, from: f64, to: f64) -> Result<TimelinePage, String> {
        let processes = match &*self.known() {
            Known::Nothing => return Err("nothing was measured yet".to_owned()),
            Known::Over(processes) => Arc::clone(processes),
            Known::Live(lanes) => {
                let feed = PathFeed::open(&self.path).map_err(|error| error.to_string())?;
                Arc::new(lanes.levels(&Clocks::of(&feed)))
            }
        };
        detail(&self.path, &processes, from, to).map_err(|failure| failure.text())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes what is said of changes; returns what `change` does.
    pub(super) fn applied<T>(&self, change: impl FnOnce(&mut Vec<Applied>) -> T) -> T {
        let mut applied = self.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = change(&mut applied);
        self.changes.fetch_add(1, Ordering::Release);
        result
    }
}

/// Begins to measure the run in this directory. A first page is there, or an error, when this returns.
pub(super) fn begin(path: &Path, every: Duration, window: Duration) -> Result<Arc<Measured>, Failure> {
    // What cannot be read is said before anything is served.
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
            sent: Vec::new(),
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
    /// The page's fields as they were sent last.
    sent: Vec<(&'static str, String)>,
}

impl Screen {
    fn run(mut self) {
        let last = self.live();
        // A run that is over: all that is left of it, once. One that took its space along: what was seen last.
        let over = match page::over(&self.path) {
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
            if std::mem::replace(&mut changes, now) != now {
                match (&json, &last) {
                    (Some(json), _) => self.show_over(json),
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

    /// Follows the run until it ends; the last page.
    fn live(&mut self) -> Option<Page> {
        let mut follower = Follower::open(&self.path, TOP).ok()?;
        let lanes = Lanes::follow(&mut follower, SPANS_SENT, true);
        if !follower.is_running() {
            return None;
        }
        follower.poll();
        *self.measured.known() = Known::Live(lanes.clone());
        let settings = SpaceReader::open(&self.path).ok();
        let mut page: Option<Page> = None;
        let mut window_began = Instant::now();
        loop {
            let running = follower.is_running();
            follower.poll();
            let is_over = window_began.elapsed() >= self.window;
            let is_wanted = page.is_none() || self.measured.viewers.load(Ordering::Relaxed) > 0 || !running;
            if is_wanted {
                match &mut page {
                    // Figures of less than a window would jump, and cost: only the timeline goes on.
                    Some(page) if running && !is_over => {
                        lanes.go_on();
                        page.timeline = lanes.page(&Clocks::of(follower.feed()));
                        self.go_on(page, settings.as_ref());
                    }
                    _ => {
                        if let Ok(report) = follower.report() {
                            let text = text::plain(&report, View { top: TOP, sort: Sort::Load });
                            let mut next = Page::of(report, text, lanes.page(&Clocks::of(follower.feed())));
                            next.settings = settings_of(settings.as_ref());
                            self.show(&next, running);
                            page = Some(next);
                        }
                    }
                }
            }
            if !running {
                return page;
            }
            if is_over {
                follower.restart();
                window_began = Instant::now();
            }
            let until = Instant::now() + self.every;
            while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            {
                thread::sleep(left.min(LOOK_EVERY));
                follower.poll();
            }
        }
    }

    /// Sends a page: who has the one before gets what changed.
    fn show(&mut self, page: &Page, running: bool) {
        let Ok(fields) = page.fields() else { return };
        self.send(fields, running && page.report.window.state == State::Running);
    }

    /// Sends a page of which only the timeline and the settings are new.
    fn go_on(&mut self, page: &mut Page, settings: Option<&SpaceReader>) {
        page.settings = settings_of(settings);
        let mut fields = self.sent.clone();
        for (name, value) in &mut fields {
            let json = match *name {
                "timeline" => serde_json::to_string(&page.timeline),
                "settings" => serde_json::to_string(&page.settings),
                _ => continue,
            };
            let Ok(json) = json else { return };
            *value = json;
        }
        self.send(fields, page.report.window.state == State::Running);
    }

    fn send(&mut self, fields: Vec<(&'static str, String)>, running: bool) {
        let live = self.live_of(running);
        let Ok(told) = serde_json::to_string(&live) else { return };
        let joined = |only: &dyn Fn(usize, &str) -> bool| {
            let mut json = String::from("{");
            for (_, (name, value)) in fields.iter().enumerate().filter(|(n, (_, value))| only(*n, value)) {
                let comma = if json.len() > 1 { "," } else { "" };
                json.push_str(&format!("{comma}\"{name}\":"));
                json.push_str(value);
            }
            let comma = if json.len() > 1 { "," } else { "" };
            json + &format!("{comma}\"live\":{told}}}")
        };
        let whole = joined(&|_, _| true);
        let part = joined(&|n, value| self.sent.get(n).is_none_or(|(_, sent)| sent != value));
        self.sent = fields;
        self.publish(&live, &whole, &part);
    }

    /// Sends the page of a run that is over: nothing changes but what is told of it.
    fn show_over(&mut self, json: &Json) {
        let live = self.live_of(false);
        let (Ok(whole), Ok(told)) = (json.with(&live), serde_json::to_string(&live)) else { return };
        let part = if self.sequence == 1 || !self.sent.is_empty() {
            whole.clone()
        } else {
            format!("{{\"live\":{told}}}")
        };
        self.sent = Vec::new();
        self.publish(&live, &whole, &part);
    }

    fn publish(&self, live: &Live, whole: &str, part: &str) {
        self.send.send_replace(Some(Shown {
            sequence: live.sequence,
            whole: Bytes::from([WHOLE, whole, END].concat()),
            part: Bytes::from([PART, part, END].concat()),
            failed: None,
        }));
    }

    /// Says why there is no page, as long as somebody may ask.
    fn fail(self, why: &str) {
        // A line of an event.
        let event = Bytes::from(format!("event: failed\ndata: {}{END}", why.replace(['\n', '\r'], " ")));
        let failed = Some(why.to_owned());
        self.send.send_replace(Some(Shown { sequence: 1, whole: event.clone(), part: event, failed }));
        while !self.send.is_closed() {
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn live_of(&mut self, running: bool) -> Live {
        self.sequence += 1;
        let spent = processor_seconds().unwrap_or(0.0);
        let applied = self.measured.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Live {
            running,
            sequence: self.sequence,
            applied,
            cost_share: spent / self.begun.elapsed().as_secs_f64().max(1e-3),
        }
    }
}

fn settings_of(reader: Option<&SpaceReader>) -> Vec<Setting> {
    reader.and_then(|reader| reader.settings().ok()).map(|all| page::settings(&all)).unwrap_or_default()
}

/// Processor time of this process, in seconds.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // User and system time, in hundredths of a second.
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

//! The timelines of a run's processes, followed together and shown as the lanes of one page; any part of them
//! can be read again in full detail.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thalweg_monitor::{Follower, Report};
use thalweg_space::clock::Clock;
use thalweg_space::reader::{Feed, PathFeed};
use thalweg_view::{Levels, Shared, Timeline, TimelinePage};

use crate::failure::Failure;

/// The largest number of single spans that are sent for a window of time; if there are more, sums are sent
/// instead.
const SPANS_MAX: u64 = 120_000;
/// The largest number of spans in a part of a run on which a report is made while a viewer waits: the report
/// takes about half a second.
const REPORTED_MAX: u64 = 500_000;
/// How much of the time after a window, in nanoseconds, is read as well, because a span that begins inside
/// the window may end after it.
const BEHIND: f64 = 2e6;

/// The timelines of all followed processes, in the order of the feed.
#[derive(Clone, Default)]
pub(crate) struct Lanes {
    all: Arc<Mutex<Vec<Shared>>>,
}

/// For each process of a feed: the nanoseconds from the beginning of the first process to its own beginning,
/// and the levels of its lanes.
pub(crate) type Processes = Vec<(f64, Levels)>;

impl Lanes {
    /// Follows every process of the feed, also processes that start later, with at most `spans_max` single
    /// spans.
    pub(crate) fn follow(follower: &mut Follower<'_>, spans_max: usize, remembers: bool) -> Lanes {
        let lanes = Lanes::default();
        let all = lanes.clone();
        let each = spans_max / follower.feed().spaces().len().max(1);
        follower.add_each(move |_| {
            let timeline = Timeline::new(each.max(1));
            let shared = Shared::new(if remembers { timeline.remembering() } else { timeline });
            all.locked().push(shared.clone());
            Box::new(shared)
        });
        lanes
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lanes of one page.
    pub(crate) fn page(&self, clocks: &Clocks) -> Arc<TimelinePage> {
        let all = self.locked();
        if clocks.is_single {
            return all.first().map(|one| one.look(|one| Arc::clone(one.page()))).unwrap_or_default();
        }
        let later = clocks.later(&all);
        let parts = all.iter().zip(later).zip(1..);
        let page = |one: &Shared| one.look(|one| TimelinePage::clone(one.page()));
        let parts = parts.map(|((one, later), number)| (number, later, page(one)));
        Arc::new(TimelinePage::together(parts.collect()))
    }

    /// Updates the lanes to the present without making a report.
    pub(crate) fn go_on(&self) {
        self.locked().iter().for_each(Shared::go_on);
    }

    /// Sums the lanes from the counters in the live tables of the followed processes, and no longer from
    /// events.
    pub(crate) fn count(&self, follower: &mut Follower<'_>) {
        let rows = follower.rows();
        self.locked().iter().zip(&rows).for_each(|(one, (now, rows))| one.count(rows, *now));
    }

    /// Sums the lanes from events again.
    pub(crate) fn sum_events(&self, follower: &mut Follower<'_>) {
        let rows = follower.rows();
        self.locked().iter().zip(&rows).for_each(|(one, (now, _))| one.sum_events(*now));
    }

    /// All lanes in full detail.
    pub(crate) fn levels(&self, clocks: &Clocks) -> Processes {
        let all = self.locked();
        let later = clocks.later(&all);
        all.iter().zip(later).filter_map(|(one, later)| Some((later, one.look(Timeline::levels)?))).collect()
    }

    /// Some input messages, spread evenly over each process; each is given by the process's number in ids,
    /// the stream, and the index in the stream.
    pub(crate) fn entries(&self, clocks: &Clocks) -> Vec<(u32, u64, u64)> {
        let all = self.locked();
        let number = |at: usize| if clocks.is_single { 0 } else { at as u32 + 1 };
        let of = |(at, one): (usize, &Shared)| {
            one.look(|one| {
                one.entries().iter().map(|&(stream, index)| (number(at), stream, index)).collect::<Vec<_>>()
            })
        };
        let each = 64 / all.len().max(1);
        all.iter().enumerate().map(of).flat_map(|of| of.into_iter().take(each.max(4))).collect()
    }

    /// For each process, the time from the beginning of the first process to its own beginning, in
    /// nanoseconds.
    pub(crate) fn later(&self, clocks: &Clocks) -> Vec<f64> {
        clocks.later(&self.locked())
    }
}

/// The clocks of a feed's processes.
pub(crate) struct Clocks {
    is_single: bool,
    of: Vec<Clock>,
}

impl Clocks {
    /// The clocks of all processes known at present. A single process needs none.
    pub(crate) fn of(feed: &impl Feed) -> Clocks {
        if feed.is_single() {
            return Clocks { is_single: true, of: Vec::new() };
        }
        let clocks = feed.spaces().iter().map_while(|space| Some(space.info().ok()?.clock));
        Clocks { is_single: false, of: clocks.collect() }
    }

    fn later(&self, all: &[Shared]) -> Vec<f64> {
        let zero = |(clock, one): (&Clock, &Shared)| one.look(Timeline::zero).map(|zero| clock.real_ns(zero));
        let zeros: Vec<Option<u64>> = self.of.iter().zip(all).map(zero).collect();
        let first = zeros.iter().flatten().min().copied().unwrap_or(0);
        let later = |zero: &Option<u64>| zero.map_or(0.0, |zero| (zero - first) as f64);
        let known = zeros.iter().map(later);
        known.chain(std::iter::repeat(0.0)).take(all.len()).collect()
    }
}

/// The timeline between two times of the page, in nanoseconds: it has every span if there are not too many
/// and none was overwritten; otherwise it has sums. No event was taken from the feed.
pub(crate) fn detail(feed: PathFeed, known: &Processes, from: f64, to: f64) -> Result<TimelinePage, Failure> {
    let is_single = feed.is_single();
    let together = |parts: Vec<TimelinePage>| {
        let parts =
            parts.into_iter().zip(known).zip(1..).map(|((part, (later, _)), number)| (number, *later, part));
        let mut parts: Vec<_> = parts.collect();
        match is_single && !parts.is_empty() {
            true => parts.remove(0).2,
            false => TimelinePage::together(parts),
        }
    };
    let sums =
        || together(known.iter().map(|(later, levels)| levels.window(from - later, to - later)).collect());
    let count: u64 = known.iter().map(|(later, levels)| levels.spans(from - later, to - later)).sum();
    if count > SPANS_MAX {
        return Ok(sums());
    }
    match exactly(feed, known, from, to)? {
        Some(parts) => Ok(together(parts)),
        None => Ok(sums()),
    }
}

/// The time from which the feed counts (the beginning of the first process) to the time from which the page
/// counts (the first event), in nanoseconds.
fn before(feed: &impl Feed, known: &Processes) -> Result<f64, Failure> {
    let Some((later, first)) = known.first() else { return Ok(0.0) };
    let clock = feed.spaces()[0].info().map_err(Failure::usage)?.clock;
    Ok(clock.real_ns(first.zero).saturating_sub(clock.anchor().real_ns) as f64 - later)
}

/// The report on the time between two times of the page of a run that has ended, in nanoseconds; `None` if
/// that time has too many events to read them while a viewer waits.
pub(crate) fn part(
    path: &Path,
    known: &Processes,
    (from, to): (f64, f64),
    top: usize,
) -> Result<Option<Report>, Failure> {
    let count: u64 = known.iter().map(|(later, levels)| levels.spans(from - later, to - later)).sum();
    if count > REPORTED_MAX {
        return Ok(None);
    }
    let mut follower = Follower::open(path, top).map_err(Failure::usage)?;
    let before = before(follower.feed(), known)?;
    let ns = |ns: f64| (ns + before).max(0.0) as u64;
    follower.between(ns(from), ns(to)).map_err(Failure::usage)?;
    follower.poll();
    follower.finish().map(Some).map_err(Failure::usage)
}

/// Every span between two times, of each process; `None` if events of some spans were overwritten.
fn exactly(
    feed: PathFeed,
    known: &Processes,
    from: f64,
    to: f64,
) -> Result<Option<Vec<TimelinePage>>, Failure> {
    if known.is_empty() {
        return Ok(None);
    }
    let before = before(&feed, known)?;
    let time = |ns: f64| Duration::from_nanos((ns + before).max(0.0) as u64);
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // The events that record spans at the window's edges may lie before and after the window, so the read
    // part is larger.
    let reaches: Vec<(f64, f64)> = known
        .iter()
        .map(|(later, levels)| (later, levels.reach(from - later, to - later, SPANS_MAX)))
        .map(|(later, (first, last))| (first + later, last + later))
        .collect();
    let before = reaches.iter().map(|of| of.0).fold(from, f64::min);
    let behind = reaches.iter().map(|of| of.1).fold(to + (to - from).max(BEHIND), f64::max);
    // If the run has ended, no span is cut off at the end.
    let last = known.iter().map(|(later, levels)| levels.ns(levels.end) + later).fold(behind, f64::max);
    let comes =
        |until: f64| known.iter().any(|(later, levels)| levels.spans(behind - later, until - later) > 0);
    let mut until = behind + (behind - from);
    while until < last && !comes(until) {
        until += until - from;
    }
    let feed = feed.between_blocks(time(before), time(until)).map_err(Failure::usage)?;
    let mut follower = Follower::bare(feed, 1).map_err(Failure::usage)?;
    follower.until(ns(time(behind))).map_err(Failure::usage)?;
    let made: Arc<Mutex<Vec<Shared>>> = Arc::default();
    let all = Arc::clone(&made);
    follower.add_each(move |place| {
        let timeline = match known.get(place) {
            Some((later, levels)) => Timeline::of_window(
                SPANS_MAX as usize * 2,
                levels,
                levels.tick(from - later),
                levels.tick(to - later),
            ),
            None => Timeline::new(1),
        };
        let shared = Shared::new(timeline);
        all.lock().unwrap_or_else(PoisonError::into_inner).push(shared.clone());
        Box::new(shared)
    });
    follower.poll();
    let is_overwritten = |(place, (later, levels)): (usize, &(f64, Levels))| {
        follower.feed().overwritten_until(place).is_some_and(|until| until > levels.tick(from - later))
    };
    if known.iter().enumerate().any(is_overwritten) {
        return Ok(None);
    }
    follower.finish().map_err(Failure::usage)?;
    let made = made.lock().unwrap_or_else(PoisonError::into_inner);
    let mut parts = Vec::new();
    for (one, (later, levels)) in made.iter().zip(known) {
        let mut page = one.look(|one| TimelinePage::clone(one.page()));
        let lost_before = !levels.gaps_in(from - later, to - later).is_empty();
        // Spans that have been overwritten, or that were too many, are known only as sums.
        let is_cut = page.exact_from_ns.is_some_and(|exact| exact > (from - later).max(0.0) + 1e3);
        if (!page.gaps.is_empty() && !lost_before) || is_cut {
            return Ok(None);
        }
        page.exact_from_ns.get_or_insert((from - later).max(0.0));
        page.fill(levels, from - later, to - later);
        parts.push(page);
    }
    Ok(Some(parts))
}

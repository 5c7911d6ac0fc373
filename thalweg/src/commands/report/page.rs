//! The page of a run, which `thalweg report --html` writes and `thalweg view` serves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use thalweg_host::amount::Span;
use thalweg_host::settings::{range, written};
use thalweg_host::spaces;
use thalweg_monitor::{Follower, Judging, MessageId, Report, Story, StreamId, calls, compare, stories};
use thalweg_scope::ScopeFeed;
use thalweg_space::reader::{Feed, PathFeed, SettingView, SiteInfo, SpaceReader};
use thalweg_view::names::cut;
use thalweg_view::{CallsPage, Kept, MessageStory, Other, Page, Setting, Spans, TimelinePage, svg};

use crate::Terminal;
use crate::commands::look::{Look, Sort};
use crate::commands::report::kept;
use crate::commands::report::lanes::{Clocks, Lanes, Processes};
use crate::commands::report::text::{self, View};
use crate::commands::report::{Picture, graph};
use crate::failure::Failure;
use crate::output::Output;

/// The number of single spans in a page: with this number the page of a run of a million events has less than
/// 3 MB.
const SPANS_MAX: usize = 250_000;
/// The largest number of rows in the page's tables.
pub(crate) const TOP: usize = 100;
/// The number of the slowest messages whose stories are in the page.
const SLOWEST: usize = 24;
/// The number of slow traces of probes in the page; the next constant is the number of operations that are
/// drawn.
const CALLS_TOP: usize = 20;
const CALLS_DRAWN: usize = 60;
/// Stories take another pass over all events, so the page of a run with this many events is shown before it
/// has stories.
const EVENTS_EARLY: u64 = 1_000_000;
/// The number of messages that are replayed to compare two runs.
const REPLAYED_MAX: usize = 150_000;

/// Writes the page of a run into a file, with a comparison if an older run is given.
pub(crate) fn write(look: &Look, file: &Path, older: Option<&str>) -> Result<(), Failure> {
    let path = spaces::find_feed(look.space.as_deref())?;
    let failed = |error| Failure::run("cannot write the page", error);
    let text = if look.window.is_none() && look.top <= TOP && older.is_none() {
        over(&path, |_, _| {})?.page.file()
    } else {
        let mut made = page(&path, look.window, look.top, |_, _| {})?.0;
        if let Some(older) = older {
            made.other = Some(other(&spaces::find_feed(Some(older))?, Some(&path))?);
        }
        made.file().map_err(failed)?
    };
    if file.as_os_str() == "-" {
        use std::io::Write as _;
        return std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| Failure::run("cannot write the page to standard output", error));
    }
    std::fs::write(file, text).map_err(|error| Failure::usage(error_at(file, &error)))
}

/// Prints one picture of a run.
pub(crate) fn draw(look: &Look, picture: Picture, terminal: Terminal) -> Result<(), Failure> {
    let path = spaces::find_feed(look.space.as_deref())?;
    let (report, lanes, clocks) = measured(&path, look.window, look.top)?;
    let text = match picture {
        Picture::Graph => cut(&graph::draw(&report, graph::Format::Svg)?).into_owned(),
        Picture::Timeline => svg::timeline(&report, &lanes.page(&clocks)),
        Picture::Latency => svg::latency(&report),
        Picture::Occupancy => svg::occupancy(&report),
        Picture::Waiting => svg::waiting(&report),
    };
    let mut output = Output::new(terminal);
    output.text(&text)?;
    output.flush()
}

fn error_at(file: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot write the page to {}: {error}", file.display()))
}

/// The page of a run that has ended, with its lanes in full detail: the stored page, or a new page, which is
/// then stored. Of a run with many events, `early` gets the new page before it has the stories of messages.
pub(crate) fn over(path: &Path, early: impl FnOnce(&Page, Processes)) -> Result<Kept, Failure> {
    let feed = PathFeed::open(path).map_err(Failure::usage)?;
    if let Some(kept) = kept::read(&feed) {
        return Ok(kept);
    }
    let of = kept::made_from(&feed);
    let (page, levels) = page(path, None, 10, early)?;
    let events = page.report.window.events;
    let page = page.made().map_err(|error| Failure::run("cannot write the page", error))?;
    let kept = Kept { of: of.clone().unwrap_or_default(), page, levels };
    // The page is stored only if the files did not change while it was made.
    if of.is_some() && of == kept::made_from(&feed) {
        kept::write(&feed, &kept, events);
    }
    Ok(kept)
}

/// The report on a run that has ended, or on a part of it.
fn measured(path: &Path, window: Option<Span>, top: usize) -> Result<(Report, Lanes, Clocks), Failure> {
    let mut follower = Follower::open(path, top.max(TOP)).map_err(Failure::usage)?;
    let lanes = Lanes::follow(&mut follower, SPANS_MAX, false);
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    match window {
        Some(Span::Between(from, to)) => follower.between(ns(from), ns(to)).map_err(Failure::usage)?,
        Some(span) => {
            if let Some(last) = span.last() {
                follower.last(ns(last) as f64).map_err(Failure::usage)?;
            }
        }
        None => {}
    }
    follower.poll();
    let clocks = Clocks::of(follower.feed());
    let report = follower.finish().map_err(Failure::usage)?;
    Ok((report, lanes, clocks))
}

fn page(
    path: &Path,
    window: Option<Span>,
    top: usize,
    early: impl FnOnce(&Page, Processes),
) -> Result<(Page, Processes), Failure> {
    let (report, lanes, clocks) = measured(path, window, top)?;
    let text = text::plain(&report, View { top, sort: Sort::Load });
    let mut page = Page::of(report, text, TimelinePage::clone(&lanes.page(&clocks)));
    page.settings = PathFeed::open(path).map(|feed| settings(&feed)).unwrap_or_default();
    // A page about a part of the run shows no paths of messages, because their times count from the beginning
    // of the run, and no calls, because calls are analysed for the whole run only.
    if window.is_none() {
        if page.report.window.events >= EVENTS_EARLY {
            early(&page, lanes.levels(&clocks));
        }
        page.stories = message_stories(path, &page.report, &lanes.entries(&clocks))?;
        later(&mut page.stories, &lanes.later(&clocks));
        page.calls = calls_of(path);
    }
    Ok((page, lanes.levels(&clocks)))
}

/// An older run, to be shown beside another run, with a comparison if the newer run has ended.
pub(crate) fn other(path: &Path, newer: Option<&Path>) -> Result<Other, Failure> {
    let (report, lanes, clocks) = measured(path, None, TOP)?;
    let mut timeline = TimelinePage::clone(&lanes.page(&clocks));
    (timeline.spans, timeline.exact_from_ns) = (Spans::default(), None);
    let comparison = newer.map(|newer| {
        let feed = |path: &Path| PathFeed::open(path).map_err(Failure::usage);
        let how = Judging { top: TOP, processors: None, messages_max: REPLAYED_MAX };
        compare(&feed(path)?, &feed(newer)?, &how).map_err(Failure::usage)
    });
    Ok(Other { report, timeline, comparison: comparison.transpose()? })
}

/// The calls that probes recorded; `None` if there are no probes.
pub(crate) fn calls_of(path: &Path) -> Option<CallsPage> {
    let mut feed = PathFeed::open(path).ok()?;
    let is_probes =
        |site: &SiteInfo| matches!(&*site.kind, "operation" | "mapping" | "counter" | "gauge" | "log");
    let has = |space: &SpaceReader| space.sites().is_ok_and(|sites| sites.iter().any(is_probes));
    if !feed.spaces().iter().any(has) {
        return None;
    }
    let found = calls(&mut feed, CALLS_TOP).ok()?;
    (found.calls > 0 || !found.counters.is_empty() || !found.gauges.is_empty() || !found.log.is_empty())
        .then(|| CallsPage::of(found, CALLS_DRAWN))
}

/// Converts the times of messages of a session's processes from times of the process to times of the page.
pub(crate) fn later(stories: &mut [MessageStory], later: &[f64]) {
    for one in stories {
        let number: Option<usize> =
            one.story.message.split_once('/').and_then(|(number, _)| number.parse().ok());
        let by = number.and_then(|number| later.get(number.checked_sub(1)?)).copied().unwrap_or(0.0);
        for hop in &mut one.story.hops {
            [&mut hop.written_ns, &mut hop.read_ns].into_iter().flatten().for_each(|ns| *ns += by);
        }
    }
}

/// The stories of the slowest messages, and of some messages spread evenly over the run.
fn message_stories(
    path: &Path,
    report: &Report,
    sampled: &[(u32, u64, u64)],
) -> Result<Vec<MessageStory>, Failure> {
    let slowest = report.slowest.iter().take(SLOWEST).filter_map(|slow| slow.message.parse().ok());
    let mut ids: Vec<MessageId> = slowest.collect();
    for &(space, number, index) in sampled {
        let id = MessageId { stream: StreamId { space, number }, index };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let feed = ScopeFeed::of(path).map_err(Failure::usage)?;
    let found: Vec<Story> = stories(&feed, &ids).map_err(Failure::usage)?;
    let mut times: HashMap<&str, _> =
        report.slowest.iter().map(|slow| (slow.message.as_str(), slow.clone())).collect();
    let kept = found.into_iter().filter(|story| !story.hops.is_empty());
    Ok(kept.map(|story| MessageStory { times: times.remove(story.message.as_str()), story }).collect())
}

/// The settings of a run, formatted for people. In a session each name begins with the number of its process,
/// as the ids of tasks do.
pub(crate) fn settings(feed: &impl Feed) -> Vec<Setting> {
    let of = |(at, space): (usize, &SpaceReader)| {
        let number = if feed.is_single() { String::new() } else { format!("{}/", at + 1) };
        let all = space.settings().unwrap_or_default();
        all.into_iter().map(|setting| shown(&number, &setting)).collect::<Vec<_>>()
    };
    feed.spaces().iter().enumerate().flat_map(of).collect()
}

fn shown(number: &str, setting: &SettingView) -> Setting {
    let unit = if setting.unit.is_empty() { String::new() } else { format!(" {}", setting.unit) };
    Setting {
        name: format!("{number}{}", setting.name),
        value: written(setting, setting.value),
        default: written(setting, setting.default),
        range: format!("{}{unit}", range(setting)),
        about: setting.doc.clone(),
    }
}

/// The space whose setting has this name on the page of `path`, and the setting's name in that space.
pub(crate) fn owner<'a>(path: &Path, setting: &'a str) -> Option<(PathBuf, &'a str)> {
    let (number, name) = setting.split_once('/')?;
    let place = number.parse::<usize>().ok()?.checked_sub(1)?;
    let feed = PathFeed::open(path).ok().filter(|feed| !feed.is_single())?;
    Some((feed.spaces().get(place)?.path().to_owned(), name))
}

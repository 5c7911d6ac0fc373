//! Cuts a recording into windows of the same length and makes a report on each window. The reports show how
//! certain a verdict is, and when it changed.

use thalweg_space::Error;
use thalweg_space::reader::{Feed, Item, SpaceReader};

use crate::decoding::names::names;
use crate::following::analysis::{Analysis, Options};
use crate::following::follower::{Decoder, limits};
use crate::monitor::Ending;
use crate::report::{Report, State};

/// The number of items read from the space at a time.
const POLL_ITEMS: usize = 1 << 16;
/// The maximal number of tasks in a window's report.
const TOP: usize = 64;
/// The least length of a window; in shorter windows, dispatches that cross an end of the window would distort
/// the shares of time.
const WINDOW_NS: f64 = 5e6;
/// The least number of windows from which a confidence is computed.
const WINDOWS_MIN: usize = 6;

/// Up to `count` windows of the run of a feed with one space, each with its report; the reports themselves do
/// not contain the window's position in the run. The list is empty if the run was too short or not every
/// dispatch was recorded.
///
/// # Errors
/// When the space cannot be read.
pub(crate) fn windows<F: Feed>(feed: &F, count: usize) -> Result<Vec<Report>, Error> {
    let Some(reader) = feed.spaces().first().filter(|_| feed.spaces().len() == 1) else {
        return Ok(Vec::new());
    };
    let mut span: Option<(u64, u64)> = None;
    let mut look = |_: usize, item: Item<'_>| {
        if let Item::Event(event) = item {
            let (first, last) = span.get_or_insert((event.time, event.time));
            (*first, *last) = ((*first).min(event.time), (*last).max(event.time));
        }
    };
    let mut seen = feed.again()?;
    while seen.poll(POLL_ITEMS, &mut look)? > 0 {}
    let Some((begin, end)) = span else { return Ok(Vec::new()) };
    let ns_per_tick = 1e9 / reader.info()?.clock.hz();
    let lasted_ns = (end - begin) as f64 * ns_per_tick;
    let count = count.min((lasted_ns / WINDOW_NS) as usize);
    if count < WINDOWS_MIN {
        return Ok(Vec::new());
    }
    let ends = (1..=count as u64).map(|nth| begin + (end - begin) * nth / count as u64).collect();
    let mut cutting = Cutting::of(reader, ns_per_tick, ends)?;
    let mut feed = feed.again()?;
    while feed.poll(POLL_ITEMS, &mut |_, item| cutting.feed(&item))? > 0 {}
    cutting.cut_until(u64::MAX);
    Ok(cutting.reports)
}

/// An analysis that reports and restarts at the end of each window.
struct Cutting<'m> {
    decoder: Decoder,
    analysis: Analysis<'m>,
    names: crate::decoding::names::Names,
    ending: Ending,
    ends: std::collections::VecDeque<u64>,
    reports: Vec<Report>,
}

impl<'m> Cutting<'m> {
    fn of(
        reader: &SpaceReader,
        ns_per_tick: f64,
        ends: std::collections::VecDeque<u64>,
    ) -> Result<Cutting<'m>, Error> {
        let mut analysis = Analysis::new(Options { ns_per_tick, top: TOP });
        for writer in reader.writers().unwrap_or_default().iter().filter(|writer| writer.name == "sampler") {
            analysis.may_lack(u64::from(writer.number));
        }
        let ending = Ending { state: State::Running, limits: limits(reader), ..Ending::default() };
        Ok(Cutting {
            decoder: Decoder::default(),
            analysis,
            names: names(reader)?,
            ending,
            ends,
            reports: Vec::new(),
        })
    }

    fn feed(&mut self, item: &Item<'_>) {
        if let Item::Event(event) = item {
            self.cut_until(event.time);
        }
        self.decoder.feed(item, &mut self.analysis);
    }

    /// Makes the reports of all windows that end before a moment.
    fn cut_until(&mut self, time: u64) {
        while let Some(end) = self.ends.pop_front() {
            if end >= time {
                self.ends.push_front(end);
                return;
            }
            let ending = Ending { now: Some(end), ..self.ending.clone() };
            self.reports.push(self.analysis.report(&self.names, ending));
            self.analysis.restart(end, Vec::new());
        }
    }
}

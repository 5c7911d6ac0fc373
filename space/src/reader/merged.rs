//! The events of several spaces, merged by time.

use super::events::{EventStream, Item};
use super::space::SpaceReader;
use crate::clock::Clock;
use crate::error::Error;
use std::time::Duration;

/// The events of several spaces, merged by time.
///
/// If all processes run on one machine, events are ordered by the ticks of that machine's clock; otherwise by
/// real time.
#[derive(Debug, Default)]
pub struct Merged {
    sources: Vec<Source>,
    /// The space of each source.
    spaces: Vec<SpaceReader>,
    /// The window of events that are handed over; without a window all events are handed over.
    window: Option<Window>,
}

#[derive(Debug)]
struct Source {
    stream: EventStream,
    clock: Clock,
    machine: [u8; 16],
    /// Whether the space is a copy of a space on another machine: the clock of a copy becomes more exact while the
    /// copy is updated.
    is_copy: bool,
}

impl Merged {
    /// Adds the events of a space, beginning with the oldest that was not overwritten.
    ///
    /// # Errors
    /// Fails when the space cannot be read.
    pub fn add(&mut self, space: SpaceReader) -> Result<(), Error> {
        let info = space.info()?;
        let (clock, machine) = (info.clock, info.boot_id);
        let mut stream = space.events();
        if let Some(window) = self.window {
            let first = self.sources.first().map_or(&clock, |first| &first.clock);
            stream = window.of(stream, &clock, first.anchor().real_ns);
        }
        let is_copy = info.clock_error_ns.is_some();
        self.sources.push(Source { stream, clock, machine, is_copy });
        self.spaces.push(space);
        Ok(())
    }

    /// The spaces, in the order in which they were added.
    pub fn spaces(&self) -> &[SpaceReader] {
        &self.spaces
    }

    /// Hands at most `limit` items to `take`, each with the index of its space; returns their number: 0 and fewer than
    /// `limit` mean the same as for [`Feed::poll`](super::Feed::poll). The order is that of [`EventStream::poll`].
    ///
    /// # Errors
    /// Fails when files are damaged, after everything that could be read was handed over.
    pub fn poll(&mut self, limit: usize, take: &mut impl FnMut(usize, Item<'_>)) -> Result<usize, Error> {
        let (sources, mut problem) = (&mut self.sources, None);
        for (source, space) in sources.iter_mut().zip(&self.spaces).filter(|(source, _)| source.is_copy) {
            source.clock = space.info().map_or(source.clock, |info| info.clock);
        }
        // As long as some space has items, the others are not looked at again: a poll would otherwise find more and more
        // items of spaces that are written faster than they are read.
        if sources.iter().all(|source| source.stream.next_time().is_none()) {
            for source in &mut *sources {
                source.stream.look_if_empty(&mut problem);
            }
        }
        let is_one_clock = is_one_clock(sources);
        let mut taken = 0;
        while taken < limit {
            let Some((index, until)) = earliest(sources, is_one_clock) else { break };
            let stream = &mut sources[index].stream;
            match stream.poll_until(limit - taken, until, &mut |item| take(index, item)) {
                Ok(more) => taken += more,
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        problem.map_or(Ok(taken), Err)
    }

    /// Restricts the stream to the events between two times, which count from the start of the first process.
    /// `between` must be called before the first poll. Events outside these times are neither read nor
    /// counted as lost.
    ///
    /// # Errors
    /// Fails when a space cannot be read.
    pub fn between(&mut self, from: Duration, to: Duration) -> Result<(), Error> {
        self.look_through(Window { from, to, whole_blocks: false, is_needed: None })
    }

    /// As [`Feed::focus`](super::Feed::focus).
    ///
    /// # Errors
    /// Fails when a space cannot be read.
    pub fn focus(&mut self, from: Duration, to: Duration, is_needed: fn(&str) -> bool) -> Result<(), Error> {
        self.look_through(Window { from, to, whole_blocks: false, is_needed: Some(is_needed) })
    }

    /// Restricts the stream to the events in `window`. `look_through` must be called before the first poll.
    pub(super) fn look_through(&mut self, window: Window) -> Result<(), Error> {
        self.window = Some(window);
        for (source, space) in self.sources.iter_mut().zip(&self.spaces) {
            let begin_ns = self.spaces[0].info()?.clock.anchor().real_ns;
            source.stream = window.of(space.events(), &source.clock, begin_ns);
        }
        Ok(())
    }

    /// As [`EventStream::leave_out`].
    pub fn leave_out(&mut self) {
        self.sources.iter_mut().for_each(|source| source.stream.leave_out());
    }

    /// Whether the space at this index has events after the end of the window.
    pub fn has_more(&self, space: usize) -> bool {
        self.sources.get(space).is_some_and(|source| source.stream.has_more())
    }

    /// As [`EventStream::overwritten_until`], for the space at this index, in ticks of its clock.
    pub fn overwritten_until(&self, space: usize) -> Option<u64> {
        self.sources.get(space).and_then(|source| source.stream.overwritten_until())
    }
}

/// A window of events, by their times since the start of the first process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Duration,
    pub(super) to: Duration,
    /// Whether all events of each writer's first block are included.
    pub(super) whole_blocks: bool,
    /// Decides by its name whether events of a kind before the window are included; `None` includes no such
    /// events.
    pub(super) is_needed: Option<fn(&str) -> bool>,
}

impl Window {
    /// The events of `stream` that lie in the window. `begin_ns` is the time of the start of the first
    /// process in nanoseconds since 1970.
    pub(super) fn of(self, stream: EventStream, clock: &Clock, begin_ns: u64) -> EventStream {
        let ticks = |time: Duration| {
            let real_ns = begin_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            let since =
                clock.ns_to_ticks(real_ns.saturating_sub(clock.anchor().real_ns).min(i64::MAX as u64));
            clock.anchor().ticks.saturating_add(since)
        };
        let from = if self.from.is_zero() { 0 } else { ticks(self.from) };
        let stream = stream.until(ticks(self.to));
        match self.is_needed {
            Some(is_needed) => stream.outlined(from, is_needed),
            None if self.whole_blocks => stream.since_block(from),
            None => stream.since(from),
        }
    }
}

fn is_one_clock(sources: &[Source]) -> bool {
    let clock = |source: &Source| (source.machine, source.clock.kind());
    let is_known = sources.iter().all(|source| source.machine != [0; 16]);
    is_known && sources.windows(2).all(|two| clock(&two[0]) == clock(&two[1]))
}

/// The source of the earliest item, and the time, in ticks of that source, before which no other source has
/// an item.
fn earliest(sources: &[Source], is_one_clock: bool) -> Option<(usize, u64)> {
    let mut first: Option<(u64, usize)> = None;
    let mut second = u64::MAX;
    for (index, source) in sources.iter().enumerate() {
        let Some(ticks) = source.stream.next_time() else { continue };
        let key = if is_one_clock { ticks } else { source.clock.real_ns(ticks) };
        match first {
            Some((least, _)) if least <= key => second = second.min(key),
            _ => second = first.replace((key, index)).map_or(second, |(least, _)| least),
        }
    }
    let (_, index) = first?;
    let until = if is_one_clock { second } else { sources[index].stream.next_time()? };
    Some((index, until))
}

//! A process that a leaf reads, with the position of reading in its events.

use super::clocks::Clocks;
use super::decoder::{Decoder, Plans, Wanted};
use super::find::Found;
use super::taken::{Latest, Progress};
use crate::tuple::{Batch, Process, Tables};
use crate::view::Leaf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_space::Error;
use thalweg_space::reader::{EventStream, LatestEvents, SpaceReader};

/// The least time between two checks whether a process is alive.
const ALIVE_PAUSE: Duration = Duration::from_millis(50);

/// A process that one leaf reads.
#[derive(Debug)]
pub(crate) struct Source {
    decoder: Decoder,
    wanted: Arc<Wanted>,
    events: EventStream,
    event_plans: Plans,
    latest: LatestEvents,
    latest_plans: Plans,
    progress: Progress,
    /// The sizes of the batch of latest tuples in the last pull, for reserving memory.
    sizes: [usize; 3],
    /// The time in ticks before which events are not read.
    since_ticks: u64,
    asked: Option<Instant>,
    state: State,
    /// Whether the space is a copy of a space on another machine: the clock of a copy becomes more exact.
    is_of_copy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Lives,
    /// The process has ended; its last events are not read yet.
    Ends,
    /// All events were read, and no more will come.
    Ended,
}

/// The result of reading a source.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The time up to which tuples were read, if there are more.
    pub(crate) stopped_ns: Option<u64>,
    pub(crate) problem: Option<String>,
}

impl Source {
    /// Opens a process; `None` if the leaf selects none of its elements. Events before `since_ns` are not
    /// read.
    pub(crate) fn open(
        found: &Found,
        leaf: &Leaf,
        clocks: &Clocks,
        tables: &Arc<Tables>,
        since_ns: u64,
    ) -> Result<Option<Source>, Error> {
        let space = SpaceReader::open(&found.path)?;
        let info = space.info()?;
        if !leaf.wants(&info, &found.session) {
            return Ok(None);
        }
        let begin = info.clock.anchor().ticks;
        let (clock, is_of_copy) = clocks.of(&info);
        let session = found.session.clone();
        let uuid = info.uuid;
        let process =
            tables.process(Process { name: info.name, pid: info.pid, host: info.host, session, uuid });
        let (mut events, mut since_ticks) = (space.events(), 0);
        if since_ns > clock.anchor().real_ns {
            let ticks = clock.ns_to_ticks(since_ns - clock.anchor().real_ns);
            since_ticks = clock.anchor().ticks.saturating_add(ticks);
            events = events.since(since_ticks);
        }
        let latest = space.latest();
        let wanted = Arc::new(Wanted::new(leaf));
        let decoder = Decoder::new((space, begin), clock, wanted.clone(), tables.clone(), process);
        let (event_plans, latest_plans) = (Plans::default(), Plans::default());
        let state = State::Lives;
        Ok(Some(Source {
            decoder,
            wanted,
            events,
            event_plans,
            latest,
            latest_plans,
            progress: Progress::default(),
            sizes: [0; 3],
            since_ticks,
            asked: None,
            state,
            is_of_copy,
        }))
    }

    /// The process's space, and its index in the legend.
    pub(crate) fn space(&self) -> (u32, &SpaceReader) {
        (self.decoder.process, &self.decoder.space)
    }

    /// Whether the source's process has ended and all its events were read.
    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    pub(crate) fn begin_pull(&mut self, now: Instant) {
        self.decoder.new_pull();
        let due = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= ALIVE_PAUSE);
        if self.state == State::Lives && due {
            self.asked = Some(now);
            if self.is_of_copy
                && let Ok(info) = self.decoder.space.info()
            {
                self.decoder.set_clock(info.clock);
            }
            // The state is checked before reading, so that events which a process recorded before its end are
            // still read. A live process may have removed its space.
            if !self.decoder.space.is_alive() || self.decoder.space.is_gone() {
                self.state = State::Ends;
            }
        }
    }

    /// Hands tuples to `take` in batches of about `batch` tuples, up to `limit` tuples of 64 bytes. `take` empties the batch.
    pub(crate) fn since(
        &mut self,
        (batch_tuples, limit): (usize, usize),
        now_ns: u64,
        batch: &mut Batch,
        take: &mut impl FnMut(&mut Batch),
    ) -> Taken {
        let mut taken = Taken::default();
        if self.wanted.wants_events() && !self.quietly(batch) {
            self.progress.begin();
            let (mut count, mut last_ns) = (0, None);
            loop {
                self.decoder.new_batch();
                let (decoder, plans) = (&mut self.decoder, &mut self.event_plans);
                let (progress, mut seen) = (&mut self.progress, 0);
                let polled = self.events.poll(batch_tuples, &mut |item| {
                    seen += 1;
                    if let Some(item) = progress.new_part(item) {
                        decoder.item(item, plans, batch);
                    }
                });
                count += batch.len().max(batch.bytes() / 64);
                last_ns = batch.heads.last().map_or(last_ns, |head| Some(head.time_ns));
                take(batch);
                // Despite the error, all readable events were handed over.
                if let Err(error) = polled {
                    taken.problem = taken.problem.or(self.problem(error));
                }
                // The events found before the process ended may not be all that it wrote, so reading
                // continues until a poll returns nothing.
                let enough = if self.state == State::Ends { 1 } else { batch_tuples };
                if seen < enough {
                    break;
                }
                if count >= limit {
                    taken.stopped_ns = last_ns;
                    break;
                }
            }
        }
        if taken.stopped_ns.is_none() {
            take(batch);
            self.rows(now_ns, batch, &mut taken);
            take(batch);
            self.finish();
        }
        taken
    }

    /// Reads new events from the lines of the elements' latest events, without reading the elements, if no
    /// element has more than one new event; otherwise reads nothing. The next reading of the elements leaves
    /// these events out.
    fn quietly(&mut self, batch: &mut Batch) -> bool {
        if self.state != State::Lives || !self.progress.may_be_quiet() {
            return false;
        }
        self.decoder.new_batch();
        batch.reserve_as(self.sizes);
        let Source { decoder, latest, latest_plans: plans, progress, since_ticks, .. } = self;
        let (mut is_quiet, mut advanced) = (true, Vec::new());
        let looked = latest.look(&mut |event| match progress.latest(event.writer, event.sequence) {
            Latest::Next if is_quiet => {
                advanced.push((event.writer, event.sequence));
                decoder.event(&event, plans, batch);
            }
            Latest::Behind => is_quiet &= event.time < *since_ticks,
            _ => {}
        });
        if looked.is_err() || !is_quiet {
            batch.clear();
            progress.is_not_quiet();
            return false;
        }
        progress.is_quiet();
        self.sizes = batch.sizes();
        advanced.into_iter().for_each(|(writer, sequence)| progress.advance(writer, sequence));
        // Each element has at most one tuple, so sorting by time cannot reorder the events of an element.
        batch.heads.sort_by_key(|head| head.time_ns);
        true
    }

    /// Hands the latest tuple of each element and of each live row to `take`.
    pub(crate) fn latest(
        &mut self,
        now_ns: u64,
        batch: &mut Batch,
        take: &mut impl FnMut(&mut Batch),
    ) -> Taken {
        let mut taken = Taken::default();
        self.decoder.new_batch();
        batch.reserve_as(self.sizes);
        if self.wanted.wants_events() {
            let (decoder, plans) = (&mut self.decoder, &mut self.latest_plans);
            decoder.is_in_order = false;
            let looked = self.latest.look(&mut |event| decoder.event(&event, plans, batch));
            decoder.is_in_order = true;
            if let Err(error) = looked {
                taken.problem = self.problem(error);
            }
        }
        self.sizes = batch.sizes();
        self.rows(now_ns, batch, &mut taken);
        take(batch);
        self.finish();
        taken
    }

    fn rows(&mut self, now_ns: u64, batch: &mut Batch, taken: &mut Taken) {
        if self.wanted.wants_rows() {
            self.decoder.new_batch();
            if let Err(error) = self.decoder.rows(now_ns, batch) {
                taken.problem = taken.problem.take().or(self.problem(error));
            }
        }
    }

    fn finish(&mut self) {
        if self.state == State::Ends {
            self.state = State::Ended;
        }
    }

    /// The message for an error; `None` if the process removed its space, which is no error.
    fn problem(&mut self, error: Error) -> Option<String> {
        if self.decoder.space.is_gone() {
            self.state = State::Ends;
            return None;
        }
        Some(format!("{}: {error:#}", self.decoder.space.path().display()))
    }
}

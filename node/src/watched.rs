//! Records the counters of a process's link ends as events: five times a second, so views and archives have
//! them, and once at the end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_link::{Counters, Counts};
use thalweg_space::{Collector, CollectorOptions, Kind, KindEnum, NameRef, Space};

/// How often the counters of all ends are recorded.
const RECORD_EVERY: Duration = Duration::from_millis(200);

/// The direction in which records travel over a link end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
pub(crate) enum Direction {
    /// Records leave this process.
    Out = 0,
    /// Records enter this process.
    In = 1,
}

/// The counters of an end of a link since it was made; recorded when the end is made, five times a second,
/// and when it ends.
#[derive(Debug, Kind)]
#[kind(name = "link.counted")]
struct Counted {
    /// The link's number in its session.
    link: u64,
    /// The node at the other end.
    node: NameRef,
    /// The direction in which records travel.
    direction: Direction,
    /// Messages (records, and the marks between them) that were sent or received.
    messages: u64,
    /// Bytes of these messages.
    #[field(unit = "bytes")]
    payload: u64,
    /// Bytes sent or received over connections, with headers and after compression.
    #[field(unit = "bytes")]
    wire: u64,
    /// Frames that were sent or received.
    frames: u64,
    /// Connections that were made; more than 1 if one broke.
    connections: u64,
    /// Bytes that were sent again after a connection broke.
    #[field(unit = "bytes")]
    resent: u64,
    /// Bytes that are not acknowledged yet (out), or that the task has not read yet (in).
    #[field(unit = "bytes")]
    queued: u64,
    /// The time for which the sender waited because the receiver had no room.
    #[field(unit = "ns")]
    credit_wait: u64,
    /// The time for which the sender waited because all ports were in use.
    #[field(unit = "ns")]
    port_wait: u64,
    /// The time for which the sender waited because the allowed bandwidth was used up.
    #[field(unit = "ns")]
    pace_wait: u64,
    /// The time for which the connection accepted no bytes (out) or delivered none (in), or for which there
    /// was no connection.
    #[field(unit = "ns")]
    connection_wait: u64,
}

/// The links of a process have adopted a new value of a setting.
#[derive(Debug, Kind)]
#[kind(name = "link.setting_adopted")]
struct SettingAdopted {
    /// The setting.
    name: NameRef,
    /// The previous value.
    old: u64,
    /// The new value.
    new: u64,
}

impl Counted {
    fn new(link: u64, node: NameRef, direction: Direction, counts: Counts) -> Counted {
        Counted {
            link,
            node,
            direction,
            messages: counts.messages,
            payload: counts.bytes,
            wire: counts.wire_bytes,
            frames: counts.frames,
            connections: counts.connections,
            resent: counts.resent_bytes,
            queued: counts.queued_bytes,
            credit_wait: counts.credit_wait_ns,
            port_wait: counts.port_wait_ns,
            pace_wait: counts.pace_wait_ns,
            connection_wait: counts.connection_wait_ns,
        }
    }
}

/// The link ends of a process that records their counters.
#[derive(Debug)]
pub(crate) struct WatchedEnds {
    space: Space,
    /// The collector of changes, made when the first setting is changed.
    adopted: Mutex<Option<Collector<SettingAdopted>>>,
    ends: Mutex<Ends>,
}

#[derive(Debug)]
struct Ends {
    recorded: Instant,
    all: Vec<End>,
}

#[derive(Debug)]
struct End {
    link: u64,
    node: NameRef,
    direction: Direction,
    counters: Counters,
    collector: Collector<Counted>,
}

impl End {
    fn record(&mut self) {
        self.collector.record(&Counted::new(self.link, self.node, self.direction, self.counters.read()));
    }
}

impl WatchedEnds {
    pub(crate) fn new(space: Space) -> WatchedEnds {
        let ends = Mutex::new(Ends { recorded: Instant::now(), all: Vec::new() });
        WatchedEnds { space, adopted: Mutex::new(None), ends }
    }

    /// Records that the links have adopted this value of a setting.
    pub(crate) fn adopted(&self, name: NameRef, old: u64, new: u64) {
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        if adopted.is_none() {
            *adopted = self.space.collector("settings of links", CollectorOptions::default()).ok();
        }
        adopted.iter_mut().for_each(|collector| collector.record(&SettingAdopted { name, old, new }));
    }

    /// Adds a new link end. If the space has no room for the end's events, they are not recorded.
    pub(crate) fn add(&self, link: u64, node: &str, direction: Direction, counters: Counters) {
        let element = match direction {
            Direction::Out => format!("link to {node}"),
            Direction::In => format!("link from {node}"),
        };
        let made = self.space.name(node).and_then(|node| {
            let collector = self.space.collector(&element, CollectorOptions::default())?;
            let mut end = End { link, node, direction, counters, collector };
            end.record();
            Ok(end)
        });
        self.ends().all.extend(made);
    }

    /// Records the counters of an ended link end for the last time, and removes the end.
    pub(crate) fn end(&self, link: u64, direction: Direction) {
        let mut ends = self.ends();
        let Some(at) = ends.all.iter().position(|end| end.link == link && end.direction == direction) else {
            return;
        };
        ends.all.swap_remove(at).record();
    }

    /// Records the counters of all ends, if that is due.
    pub(crate) fn look(&self) {
        let mut ends = self.ends();
        if ends.recorded.elapsed() >= RECORD_EVERY {
            ends.recorded = Instant::now();
            ends.all.iter_mut().for_each(End::record);
        }
    }

    /// A panic under the lock leaves every step either done or not begun.
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

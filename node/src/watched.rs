//! Records the counters of a process's link ends as events: five times a second, so views and archives have
//! them, and once at the end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_link::{Address, Counters, Counts, Tuning};
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

/// How a link's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
pub(crate) enum Carrier {
    /// Not known at this end.
    Unknown = 0,
    /// TCP.
    Tcp = 1,
    /// TCP, encrypted.
    Tls = 2,
    /// A Unix socket.
    Unix = 3,
    /// Memory that both processes have.
    Memory = 4,
    /// Through a third process of the session.
    Routed = 5,
}

impl Carrier {
    fn of(address: &Address) -> Carrier {
        match address {
            Address::Tcp(_) => Carrier::Tcp,
            Address::Tls(_) => Carrier::Tls,
            Address::Unix(_) => Carrier::Unix,
            Address::Memory(_) => Carrier::Memory,
            Address::Through { .. } => Carrier::Routed,
        }
    }
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
    /// Bytes that are not sent yet (out), or that the task has not read yet (in).
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
    /// How the link's bytes travel; known at the sender.
    #[field(absent = 0)]
    carrier: Carrier,
    /// Whether the link goes directly although `link.transport` is `routed`, because one of its ends is the
    /// process that began the session.
    #[field(absent = 0)]
    is_exempt: bool,
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
    fn new(
        link: u64,
        node: NameRef,
        direction: Direction,
        counts: Counts,
        (carrier, is_exempt): (Carrier, bool),
    ) -> Counted {
        Counted {
            carrier,
            is_exempt,
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
    /// Whether links between nodes go through a third process.
    is_routed: bool,
    all: Vec<End>,
}

#[derive(Debug)]
struct End {
    link: u64,
    node: NameRef,
    direction: Direction,
    counters: Counters,
    /// The settings of a sender, with its address.
    tuning: Option<Tuning>,
    collector: Collector<Counted>,
}

impl End {
    fn record(&mut self, is_routed: bool) {
        let carrier = self.tuning.as_ref().map_or(Carrier::Unknown, |tuning| Carrier::of(&tuning.address()));
        let is_exempt = is_routed && !matches!(carrier, Carrier::Unknown | Carrier::Routed);
        let counts = self.counters.read();
        let how = (carrier, is_exempt);
        self.collector.record(&Counted::new(self.link, self.node, self.direction, counts, how));
    }
}

impl WatchedEnds {
    pub(crate) fn new(space: Space) -> WatchedEnds {
        let ends = Mutex::new(Ends { recorded: Instant::now(), is_routed: false, all: Vec::new() });
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
    /// `tuning` has the address of a sender.
    pub(crate) fn add(
        &self,
        link: u64,
        node: &str,
        direction: Direction,
        counters: Counters,
        tuning: Option<Tuning>,
    ) {
        let element = match direction {
            Direction::Out => format!("link to {node}"),
            Direction::In => format!("link from {node}"),
        };
        let made = self.space.name(node).and_then(|node| {
            let collector = self.space.collector(&element, CollectorOptions::default())?;
            let mut end = End { link, node, direction, counters, tuning, collector };
            end.record(false);
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
        let is_routed = ends.is_routed;
        ends.all.swap_remove(at).record(is_routed);
    }

    /// Records the counters of all ends, if that is due. `is_routed`: links between nodes go through a third
    /// process.
    pub(crate) fn look(&self, is_routed: bool) {
        let mut ends = self.ends();
        ends.is_routed = is_routed;
        if ends.recorded.elapsed() >= RECORD_EVERY {
            ends.recorded = Instant::now();
            ends.all.iter_mut().for_each(|end| end.record(is_routed));
        }
    }

    /// A panic under the lock leaves every step either done or not begun.
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

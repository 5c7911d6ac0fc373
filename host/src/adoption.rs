//! Waits until a run has adopted a new value of a setting, which the run reports by an event.

use std::time::{Duration, Instant};

use thalweg_space::NameRef;
use thalweg_space::reader::{Event, EventStream, Item, SpaceReader};

/// The longest wait for the event that reports the adoption.
const ADOPTION_MAX: Duration = Duration::from_secs(1);
/// The interval at which new events are read.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The events of a run from a certain time on.
pub(crate) struct Adoption<'r> {
    reader: &'r SpaceReader,
    events: EventStream,
    begun: Instant,
}

impl<'r> Adoption<'r> {
    /// Skips the events that the run has recorded so far.
    pub(crate) fn begin(reader: &'r SpaceReader) -> Adoption<'r> {
        const ITEMS: usize = 1 << 16;
        let mut events = reader.events();
        while events.poll(ITEMS, &mut |_| {}).is_ok_and(|taken| taken == ITEMS) {}
        Adoption { reader, events, begun: Instant::now() }
    }

    /// The time until the run reported that it adopted the value; `None` if the run did not report that in
    /// time.
    pub(crate) fn wait(mut self, name: &str, value: u64) -> Option<Duration> {
        while self.begun.elapsed() < ADOPTION_MAX {
            if self.is_reported(name, value)? {
                return Some(self.begun.elapsed());
            }
            if !self.reader.is_alive() {
                return None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }

    /// Whether a new event reports the adoption; `None` if events cannot be read.
    fn is_reported(&mut self, name: &str, value: u64) -> Option<bool> {
        let Adoption { reader, events, .. } = self;
        let mut is_adopted = false;
        let mut look = |item: Item<'_>| {
            if let Item::Event(event) = item {
                is_adopted |= reports_adoption(&event, reader, name, value);
            }
        };
        events.poll(1 << 16, &mut look).ok()?;
        Some(is_adopted)
    }
}

fn reports_adoption(event: &Event<'_>, reader: &SpaceReader, name: &str, value: u64) -> bool {
    if name == "monitor.mode" && event.kind.name == "exec.mode_changed" {
        return event.kind.field("mode").is_some_and(|mode| event.u64(mode) == value);
    }
    if event.kind.name == "space.probes_switched" {
        let (Some(pattern), Some(on)) = (event.kind.field("pattern"), event.kind.field("on")) else {
            return false;
        };
        return name == format!("probe/{}.on", event.str(pattern)) && event.u64(on) == value;
    }
    if !event.kind.name.ends_with(".setting_adopted") {
        return false;
    }
    let (Some(of), Some(new)) = (event.kind.field("name"), event.kind.field("new")) else { return false };
    event.u64(new) == value && reader.name(NameRef(event.u64(of))).as_deref() == Some(name)
}

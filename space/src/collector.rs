//! Collectors: small elements for events of one kind, by the thousand.
//!
//! As in EventSpace, a collector belongs to a path and records an event for each operation on the path.
//! Elements of collectors share files, and each has a line that holds its latest event, so that an observer
//! can look at thousands of heartbeats at once ([`crate::reader::LatestEvents`]).
//!
//! ```
//! use thalweg_space::{CollectorOptions, Kind, Space, SpaceOptions, reader::SpaceReader};
//!
//! /// A beat.
//! #[derive(Kind)]
//! #[kind(name = "example.beat")]
//! struct Beat {
//!     /// How much is queued.
//!     queued: u64,
//! }
//!
//! # let parent = std::env::temp_dir().join(format!("thalweg-beat-{}", std::process::id()));
//! # std::fs::create_dir_all(&parent).unwrap();
//! # let options = SpaceOptions { name: "beat".into(), parent: Some(parent.clone()), ..Default::default() };
//! let space = Space::create(options)?;
//! let mut collectors = (0..1000)
//!     .map(|n| space.collector::<Beat>(&format!("path {n}"), CollectorOptions::default()))
//!     .collect::<Result<Vec<_>, _>>()?;
//! for (n, collector) in collectors.iter_mut().enumerate() {
//!     collector.record(&Beat { queued: n as u64 });
//! }
//!
//! // Usually in another process:
//! let mut sum = 0;
//! SpaceReader::open(space.path())?.latest().look(&mut |event| {
//!     sum += event.u64(event.kind.field("queued").unwrap());
//! })?;
//! assert_eq!(sum, 999 * 1000 / 2);
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::clock::Clock;
use crate::element::Policy;
use crate::elements::Slot;
use crate::error::Error;
use crate::kind::{Kind, KindId, NameRef};
use crate::layout::{event, latest};
use crate::map::Line;
use crate::options::ElementOptions;
use crate::place::Wanted;
use crate::shared::Shared;
use crate::space::Space;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Size and policy of a collector's element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorOptions {
    /// Bytes of a block: a power of two, 512 bytes to 64 MiB.
    pub block_bytes: usize,
    /// How many blocks: at least 2.
    pub block_count: usize,
    /// What happens to events when the element is full.
    pub policy: Policy,
}

impl Default for CollectorOptions {
    /// 7 blocks of 512 bytes: with its header and line, an element of less than 4 KiB; overwriting the oldest.
    fn default() -> CollectorOptions {
        CollectorOptions { block_bytes: 512, block_count: 7, policy: Policy::Overwrite }
    }
}

impl From<CollectorOptions> for ElementOptions {
    fn from(options: CollectorOptions) -> ElementOptions {
        let CollectorOptions { block_bytes, block_count, policy } = options;
        ElementOptions { block_bytes, block_count, policy }
    }
}

/// Records events of one kind in a small element. A collector can move between threads, but only one thread
/// uses it at a time.
///
/// When a collector is dropped, the next collector of the same size and policy gets its element. The events
/// in the element stay readable, as events of this collector, until they are overwritten.
#[derive(Debug)]
pub struct Collector<K: Kind> {
    slot: Slot,
    kind: KindId<K>,
    clock: Clock,
    number: u32,
    wanted: Wanted,
    shared: Arc<Shared>,
    not_sync: PhantomData<Cell<()>>,
}

impl<K: Kind> Collector<K> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        slot: Slot,
        kind: KindId<K>,
        number: u32,
        wanted: Wanted,
    ) -> Collector<K> {
        let clock = shared.identity.clock;
        Collector { slot, kind, clock, number, wanted, shared, not_sync: PhantomData }
    }

    /// Records an event with the time now.
    #[inline(always)]
    pub fn record(&mut self, event: &K) {
        self.record_at(self.clock.now(), event);
    }

    /// Records an event with a time that was read before, in ticks of [`Collector::clock`].
    #[inline(always)]
    pub fn record_at(&mut self, ticks: u64, event: &K) {
        let ring = &mut self.slot.ring;
        ring.emit((ticks as u32, (ticks >> 32) as u32), 0, self.kind, event);
        let first = self.kind.word | u64::from(self.number);
        publish(&self.slot.latest, (ring.events(), ring.sequence() - 1), ticks, first, event);
    }

    /// Discards all events so far: readers neither find them nor count them as lost.
    pub fn discard(&mut self) {
        self.slot.ring.discard();
    }

    /// The clock that times are read from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The collector's number; readers see it with each event as the number of its writer.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many collectors have had this element, this one included.
    pub fn generation(&self) -> u64 {
        self.slot.ring.generation()
    }

    /// How many events were recorded, the dropped ones included.
    pub fn sequence(&self) -> u64 {
        self.slot.ring.sequence()
    }

    /// How many events were dropped.
    pub fn drops(&self) -> u64 {
        self.slot.ring.drops()
    }
}

impl<K: Kind> Drop for Collector<K> {
    fn drop(&mut self) {
        let (slot, wanted) = (self.slot.clone(), self.wanted);
        self.shared.release(&mut self.slot.ring, |elements| elements.give_back_slot(slot, wanted));
    }
}

/// Writes the line of an element's latest event.
#[inline(always)]
fn publish<K: Kind>(line: &Line, (events, sequence): (u64, u64), ticks: u64, first: u64, event: &K) {
    let version = 2 * events;
    line.store(latest::VERSION, version - 1, Ordering::Relaxed);
    // Release fence, paired with the reader's two loads of the version: a reader that sees a word of this
    // event sees the odd version, or a later one.
    fence(Ordering::Release);
    line.store(latest::TIME, ticks, Ordering::Relaxed);
    line.store(latest::FIRST, first, Ordering::Relaxed);
    line.store(latest::SEQUENCE, sequence, Ordering::Relaxed);
    let words = event.words(u32::MAX);
    for (index, word) in words.as_ref()[..K::WORDS.min(latest::ARGUMENT_WORDS)].iter().enumerate() {
        line.store(latest::ARGUMENTS + 8 * index, *word, Ordering::Relaxed);
    }
    line.store(latest::VERSION, version, Ordering::Release);
}

/// An operation went through a path.
#[derive(Clone, Copy, Debug, Kind)]
#[kind(name = "path.operation_completed")]
pub struct PathOperation {
    /// Which operation.
    pub operation: NameRef,
    /// When it began.
    #[field(unit = "ticks")]
    pub started: u64,
    /// The operation's first parameter.
    pub first: u64,
    /// The operation's second parameter.
    pub second: u64,
}

/// EventSpace's collector: it records which operation passed a path, its parameters, and the times of its
/// beginning and its end. An operation costs one event and two reads of the clock.
///
/// ```
/// # use thalweg_space::{CollectorOptions, PathCollector, Space, SpaceOptions};
/// # let parent = std::env::temp_dir().join(format!("thalweg-path-{}", std::process::id()));
/// # std::fs::create_dir_all(&parent).unwrap();
/// # let options = SpaceOptions { name: "path".into(), parent: Some(parent.clone()), ..Default::default() };
/// # let space = Space::create(options)?;
/// let write = space.name("write")?;
/// let mut path = PathCollector::new(&space, "to node 3", CollectorOptions::default())?;
/// let started = path.start();
/// // … the operation …
/// path.complete(started, write, 4096, 17);
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), thalweg_space::Error>(())
/// ```
#[derive(Debug)]
pub struct PathCollector {
    collector: Collector<PathOperation>,
}

impl PathCollector {
    /// A collector called `name`.
    ///
    /// # Errors
    /// As [`Space::collector`].
    pub fn new(space: &Space, name: &str, options: CollectorOptions) -> Result<PathCollector, Error> {
        Ok(PathCollector { collector: space.collector(name, options)? })
    }

    /// The time at which an operation begins.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.collector.clock.now()
    }

    /// Records that an operation is complete; `started` is the result of [`PathCollector::start`].
    #[inline(always)]
    pub fn complete(&mut self, started: u64, operation: NameRef, first: u64, second: u64) {
        self.collector.record(&PathOperation { operation, started, first, second });
    }

    /// The collector that records the operations.
    pub fn collector(&mut self) -> &mut Collector<PathOperation> {
        &mut self.collector
    }
}

const _: () =
    assert!(PathOperation::WORDS <= latest::ARGUMENT_WORDS && event::KIND_FIRST > event::KIND_OWNER);

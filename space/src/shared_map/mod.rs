//! The shared map of a session: typed values under keys, of which every process of the session has a copy.
//!
//! A box reads a number by one load from the file `map` of its process's space. A write goes into the copy of
//! the writer's process; the processes exchange what has changed, and everywhere the write with
//! the greatest [`Stamp`] wins. *Compare-and-set* is decided by one process, the one that began the session,
//! so of several such writes that expect the same value only one is done. Each write is recorded as an event
//! (`map.written`), and each value that came from another process, too (`map.received`).
//!
//! ```
//! use thalweg_space::{MapValue, Space, SpaceOptions, reader::SpaceReader, shared_map::Author};
//! # let parent = std::env::temp_dir().join(format!("thalweg-map-{}", std::process::id()));
//! # std::fs::create_dir_all(&parent).unwrap();
//! # let options = SpaceOptions { name: "map".into(), parent: Some(parent.clone()), ..Default::default() };
//! let space = Space::create(options)?;
//! let limit = space.shared_map()?.declare("limit", "Lines at a time", MapValue::Integer(10))?;
//! limit.set(MapValue::Integer(20), &Author::of_box())?;
//! assert_eq!(limit.get(), MapValue::Integer(20));
//! let raised = limit.compare_and_set(&MapValue::Integer(10), MapValue::Integer(30), &Author::of_box())?;
//! assert_eq!(raised, Err(MapValue::Integer(20)), "it is 10 no more");
//!
//! // Usually in another process:
//! let seen = SpaceReader::open(space.path())?.shared_map()?;
//! assert_eq!((seen[0].key.as_str(), &seen[0].value), ("limit", &MapValue::Integer(20)));
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

mod replica;
mod slot;
pub(crate) mod state;
#[cfg(test)]
mod tests;
mod value;

pub use replica::{Stamp, Update};
pub use slot::MapView;
pub(crate) use slot::read as read_slots;
pub use state::{Ask, Author, Decision};
pub use value::{MapType, MapValue};

use crate::audit::{Audit, MapReceived, MapWritten};
use crate::error::Error;
use crate::kind::Kind;
use crate::layout::{PAGE, VERSION, shared_map as layout};
use crate::map::{Fork, Map};
use crate::setting::CellPointer;
use crate::shared::Shared;
use replica::Entry;
use state::{Decides, Inside, MapState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The longest wait for the decision about a compare-and-set. A process that is cut off from the one that
/// decides is given up much earlier.
const DECISION_MAX: Duration = Duration::from_secs(60);

/// A process's copy of the session's shared map. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedMap {
    shared: Arc<Shared>,
    state: Arc<MapState>,
}

/// A key of the shared map.
#[derive(Clone, Debug)]
pub struct MapKey {
    map: SharedMap,
    at: usize,
    kind: MapType,
    cell: CellPointer,
}

impl SharedMap {
    /// The map of the space; makes its file if there is none.
    pub(crate) fn of(shared: &Arc<Shared>) -> Result<SharedMap, Error> {
        let mut made = shared.map.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match &*made {
            Some(state) => state.clone(),
            None => {
                let bytes = layout::SLOTS + layout::SLOT_BYTES * layout::SLOT_COUNT;
                let path = shared.identity.path.join("map");
                let map = Map::create(&path, bytes.next_multiple_of(PAGE), Fork::Share)?;
                map.word(8).store(u64::from(VERSION), Ordering::Relaxed);
                map.word(0).store(layout::MAGIC_VALUE, Ordering::Release);
                made.insert(Arc::new(MapState::new(map))).clone()
            }
        };
        Ok(SharedMap { shared: shared.clone(), state })
    }

    /// Makes this process the process number `here` of a session; `names` are those of all processes, by
    /// number. The process number 0 decides about compare-and-set. Values that were written before keep their stamps.
    pub fn join(&self, here: usize, names: &[String]) {
        let mut inside = self.state.inside();
        inside.replica.node = here as u32;
        inside.names = names.to_vec();
        inside.decides = if here == 0 { Decides::Here } else { Decides::NotYet };
    }

    /// Takes the names of all nodes after one has joined.
    pub fn know(&self, names: &[String]) {
        self.state.inside().names = names.to_vec();
    }

    /// From now on the process that decides asks this one for its requests ([`SharedMap::take_asks`]).
    pub fn meet(&self) {
        let mut inside = self.state.inside();
        if inside.decides == Decides::NotYet {
            inside.decides = Decides::Elsewhere;
        }
    }

    /// Adds a key with its initial value. A key that exists keeps its value.
    ///
    /// # Errors
    /// The key or the value is not valid, the key exists with another type, or the map is full.
    pub fn declare(&self, key: &str, doc: &str, initial: MapValue) -> Result<MapKey, Error> {
        let mut inside = self.state.inside();
        let at = inside.replica.declare(key, doc, &initial)?;
        self.state.publish(&inside.replica);
        slot::write(&self.state.map, at, &inside.replica.entries()[at]);
        Ok(self.key_at(at, initial.type_of()))
    }

    /// The key with this name.
    pub fn find(&self, key: &str) -> Option<MapKey> {
        let inside = self.state.inside();
        let at = inside.replica.find(key)?;
        let kind = inside.replica.entries()[at].initial.type_of();
        drop(inside);
        Some(self.key_at(at, kind))
    }

    /// The names of all keys.
    pub fn keys(&self) -> Vec<String> {
        self.state.inside().replica.entries().iter().map(|entry| entry.key.clone()).collect()
    }

    fn key_at(&self, at: usize, kind: MapType) -> MapKey {
        let cell = CellPointer::new(self.state.map.clone(), slot::place(at) + layout::VALUE);
        MapKey { map: self.clone(), at, kind, cell }
    }

    /// The values that changed in this process after the first `seen` changes, except for those that the
    /// process `to` wrote; sets `seen` to the number of changes. With 0 changes seen, all values that differ
    /// from the initial ones.
    pub fn changes_since(&self, seen: &mut u64, to: usize) -> Vec<Update> {
        self.state.inside().replica.changes_since(seen, to as u32)
    }

    /// Takes values of other processes. An earlier write than the present one changes nothing, so updates may
    /// come twice and in any order. Returns how many values changed.
    pub fn merge(&self, updates: &[Update]) -> usize {
        let mut inside = self.state.inside();
        updates.iter().filter(|update| self.merge_one(&mut inside, update)).count()
    }

    fn merge_one(&self, inside: &mut Inside, update: &Update) -> bool {
        let Some((at, old)) = inside.replica.merge(update) else { return false };
        self.state.publish(&inside.replica);
        slot::write(&self.state.map, at, &inside.replica.entries()[at]);
        let (new, old, stamp) = (update.value.to_string(), old.to_string(), update.stamp.time);
        self.record(inside, &update.key, update.writer, |key, node| MapReceived {
            key,
            node,
            stamp,
            old: &old,
            new: &new,
        });
        true
    }

    /// Writes an event. An event that cannot be written is left out: the value holds nevertheless.
    fn record<K: Kind>(
        &self,
        inside: &mut Inside,
        key: &str,
        writer: u32,
        event: impl FnOnce(crate::NameRef, crate::NameRef) -> K,
    ) {
        let node = inside.names.get(writer as usize).map_or("here", String::as_str);
        let mut cold = self.shared.cold();
        let (Ok(key), Ok(node), Ok(name)) = (cold.name(key), cold.name(node), cold.name("shared map")) else {
            return;
        };
        drop(cold);
        if inside.log.is_none() {
            let Shared { identity, element, .. } = &*self.shared;
            let Ok(made) = Audit::with(*element, identity, &mut self.shared.elements(), name) else { return };
            identity.publish_writers(made.number());
            inside.log = Some(made);
        }
        if let Some(log) = &mut inside.log {
            // An error is ignored, as said above.
            let _ = log.emit(&event(key, node));
        }
    }

    fn written(&self, inside: &mut Inside, at: usize, (old, author): (&MapValue, &Author), compared: bool) {
        let Entry { key, value, stamp, writer, .. } = inside.replica.entries()[at].clone();
        slot::write(&self.state.map, at, &inside.replica.entries()[at]);
        let (old, new) = (old.to_string(), value.to_string());
        let Author { pid, user, tool } = author;
        self.record(inside, &key, writer, |key, node| MapWritten {
            key,
            compared,
            node,
            pid: *pid,
            user: *user,
            stamp: stamp.time,
            old: &old,
            new: &new,
            tool,
        });
    }

    /// The requests of this process that the process which decides has not seen yet.
    pub fn take_asks(&self) -> Vec<Ask> {
        self.state.inside().asks.drain(..).collect()
    }

    /// Decides a request of the process `node`.
    pub fn decide(&self, ask: &Ask, node: usize) -> Decision {
        let mut inside = self.state.inside();
        let refused = |why: String| Decision { number: ask.number, is_done: Err(why), now: None };
        let Some(at) = inside.replica.find(&ask.key) else {
            return refused(format!("the shared map has no key `{}`", ask.key));
        };
        let values = (&ask.expected, ask.value.clone());
        let is_done = match inside.replica.compare_and_set(at, values, node as u32, now_us()) {
            Ok(Ok(old)) => {
                self.written(&mut inside, at, (&old, &ask.author), true);
                true
            }
            Ok(Err(_)) => false,
            Err(error) => return refused(error.to_string()),
        };
        let now = inside.replica.entries()[at].update();
        Decision { number: ask.number, is_done: Ok(is_done), now: Some(now) }
    }

    /// Hands decisions to the threads that wait for them.
    pub fn take_decisions(&self, decisions: Vec<Decision>) {
        let mut inside = self.state.inside();
        for Decision { number, is_done, now } in decisions {
            if let Some(now) = now {
                self.merge_one(&mut inside, &now);
            }
            // Nobody waits for a decision that comes a second time, or too late.
            if let Some(answer) = inside.answers.get_mut(&number) {
                *answer = Some(is_done);
            }
        }
        self.state.decided.notify_all();
    }

    /// Asks the process that decides, and waits for its decision.
    fn ask(&self, key: &str, values: (&MapValue, MapValue), author: &Author) -> Result<bool, Error> {
        let mut inside = self.state.inside();
        inside.asked += 1;
        let number = inside.asked;
        let (expected, value) = (values.0.clone(), values.1);
        inside.asks.push_back(Ask { number, key: key.to_owned(), expected, value, author: author.clone() });
        inside.answers.insert(number, None);
        let until = Instant::now() + DECISION_MAX;
        loop {
            if let Some(Some(_)) = inside.answers.get(&number) {
                let answer = inside.answers.remove(&number).flatten();
                return answer.unwrap_or(Ok(false)).map_err(Error::new);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                inside.answers.remove(&number);
                let is_withdrawn = inside.asks.iter().any(|ask| ask.number == number);
                inside.asks.retain(|ask| ask.number != number);
                let fate = if is_withdrawn { "it was not done" } else { "it may have been done" };
                return Err(Error::new(format!(
                    "nobody decided about `{key}` of the shared map for {} s: {fate}",
                    DECISION_MAX.as_secs()
                )));
            }
            let waited = self.state.decided.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl MapKey {
    /// The word with the value of a number: an integer, or the bits of a float.
    pub fn cell(&self) -> &AtomicU64 {
        self.cell.get()
    }

    /// The type of the key's values.
    pub fn type_of(&self) -> MapType {
        self.kind
    }

    /// The present value. A number costs one load.
    pub fn get(&self) -> MapValue {
        match self.kind {
            MapType::Text => MapValue::Text(slot::text(&self.map.state.map, self.at)),
            kind => MapValue::of_parts(kind, self.cell().load(Ordering::Relaxed), ""),
        }
    }

    /// Writes a value into the copy of this process; the other processes get it soon. Returns the value
    /// before.
    ///
    /// # Errors
    /// The value is not valid for the key, or this process is a fork of the one that made the space.
    pub fn set(&self, value: MapValue, author: &Author) -> Result<MapValue, Error> {
        self.map.shared.identity.check_fork()?;
        let mut inside = self.map.state.inside();
        let node = inside.replica.node;
        let old = inside.replica.set(self.at, value, node, now_us())?;
        self.map.written(&mut inside, self.at, (&old, author), false);
        Ok(old)
    }

    /// Writes a value if the present one is `expected`, as the process that decides sees it. In the other
    /// processes of a session this waits for that process. An error in `Ok` is the present value, which is
    /// another one.
    ///
    /// # Errors
    /// The values are not valid for the key, the session has not begun, or nobody decides.
    pub fn compare_and_set(
        &self,
        expected: &MapValue,
        value: MapValue,
        author: &Author,
    ) -> Result<Result<(), MapValue>, Error> {
        self.map.shared.identity.check_fork()?;
        let mut inside = self.map.state.inside();
        let key = inside.replica.entries()[self.at].key.clone();
        expected.check_for(&key, self.kind).and_then(|()| value.check_for(&key, self.kind))?;
        let is_done = match inside.decides {
            Decides::Here => {
                let node = inside.replica.node;
                let decided = inside.replica.compare_and_set(self.at, (expected, value), node, now_us())?;
                decided.iter().for_each(|old| self.map.written(&mut inside, self.at, (old, author), true));
                decided.is_ok()
            }
            Decides::NotYet => {
                return Err(Error::new(format!(
                    "compare-and-set of `{key}` before the session has begun: a library's init can only set values"
                )));
            }
            Decides::Elsewhere => {
                drop(inside);
                self.map.ask(&key, (expected, value), author)?
            }
        };
        Ok(if is_done { Ok(()) } else { Err(self.get()) })
    }
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_micros() as u64)
}

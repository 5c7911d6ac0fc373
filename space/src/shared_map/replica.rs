//! One process's copy of the shared map, without files: which write wins, and what other processes lack.

use super::value::MapValue;
use crate::error::Error;
use crate::layout::shared_map as layout;
use std::collections::HashMap;

/// The bits of a stamp below the microsecond, which count writes within one microsecond.
const LOGICAL_BITS: u32 = 12;

/// When a value was written, by a hybrid logical clock. Stamps are totally ordered, and the write with the
/// greatest stamp wins.
///
/// The time is the number of microseconds since 1970 and, in its low 12 bits, a count. A process gives each
/// write a time that is greater than all that it has given or received, so a write that depends on another
/// one has a greater stamp, whatever the clocks of the two hosts show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The time; 0: the value is the initial one.
    pub time: u64,
    /// The process that gave the stamp: its number in the session.
    pub node: u32,
}

impl Stamp {
    /// Microseconds since 1970.
    pub fn microseconds(self) -> u64 {
        self.time >> LOGICAL_BITS
    }
}

/// The value of a key with its stamp, as processes exchange it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The key.
    pub key: String,
    /// The value.
    pub value: MapValue,
    /// The value's stamp.
    pub stamp: Stamp,
    /// The process at which a box or a user wrote the value: its number in the session.
    pub writer: u32,
}

/// A key and its present value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) doc: String,
    pub(crate) initial: MapValue,
    pub(crate) value: MapValue,
    pub(crate) stamp: Stamp,
    pub(crate) writer: u32,
    /// The number of the change that gave the key this value, in this process.
    change: u64,
}

impl Entry {
    pub(crate) fn update(&self) -> Update {
        let Entry { key, value, stamp, writer, .. } = self;
        Update { key: key.clone(), value: value.clone(), stamp: *stamp, writer: *writer }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Replica {
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
    /// The greatest time that was given or received.
    last: u64,
    /// The number of this process in its session.
    pub(crate) node: u32,
    changes: u64,
}

impl Replica {
    /// The empty copy of the process number `node`.
    #[cfg(test)]
    pub(crate) fn of(node: usize) -> Replica {
        Replica { node: node as u32, ..Replica::default() }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn find(&self, key: &str) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// Adds a key; a key that exists keeps its value. Returns the key's place.
    pub(crate) fn declare(&mut self, key: &str, doc: &str, initial: &MapValue) -> Result<usize, Error> {
        check_key(key)?;
        if let Some(at) = self.find(key) {
            let entry = &mut self.entries[at];
            initial.check_for(key, entry.initial.type_of())?;
            if entry.doc.is_empty() {
                entry.doc = doc.to_owned();
            }
            return Ok(at);
        }
        initial.check()?;
        if self.entries.len() == layout::SLOT_COUNT {
            return Err(Error::new(format!(
                "the shared map is full, so it takes no key `{key}`: it has {} keys",
                layout::SLOT_COUNT
            )));
        }
        let (stamp, writer, change) = (Stamp::default(), self.node, 0);
        let (value, initial) = (initial.clone(), initial.clone());
        let (key, doc) = (key.to_owned(), doc.to_owned());
        self.places.insert(key.clone(), self.entries.len());
        self.entries.push(Entry { key, doc, initial, value, stamp, writer, change });
        Ok(self.entries.len() - 1)
    }

    /// Writes a value at the time `now`, in microseconds. Returns the value before.
    pub(crate) fn set(
        &mut self,
        at: usize,
        value: MapValue,
        writer: u32,
        now: u64,
    ) -> Result<MapValue, Error> {
        value.check_for(&self.entries[at].key, self.entries[at].initial.type_of())?;
        self.last = (now << LOGICAL_BITS).max(self.last + 1);
        let stamp = Stamp { time: self.last, node: self.node };
        Ok(self.put(at, value, stamp, writer))
    }

    /// Writes a value if the present one is `expected`; returns the present one if it is not, else the value
    /// before.
    pub(crate) fn compare_and_set(
        &mut self,
        at: usize,
        (expected, value): (&MapValue, MapValue),
        writer: u32,
        now: u64,
    ) -> Result<Result<MapValue, MapValue>, Error> {
        let Entry { key, initial, value: present, .. } = &self.entries[at];
        expected.check_for(key, initial.type_of())?;
        if present != expected {
            value.check_for(key, initial.type_of())?;
            return Ok(Err(present.clone()));
        }
        self.set(at, value, writer, now).map(Ok)
    }

    /// Takes a value of another process if its stamp is greater than that of the present one. Returns the
    /// key's place and the value before; `None` if the present value stays.
    pub(crate) fn merge(&mut self, update: &Update) -> Option<(usize, MapValue)> {
        self.last = self.last.max(update.stamp.time);
        // A key that cannot be declared is refused in the process that declares it, so it is ignored here.
        let at = self.declare(&update.key, "", &update.value).ok()?;
        if update.stamp <= self.entries[at].stamp {
            return None;
        }
        Some((at, self.put(at, update.value.clone(), update.stamp, update.writer)))
    }

    fn put(&mut self, at: usize, value: MapValue, stamp: Stamp, writer: u32) -> MapValue {
        self.changes += 1;
        let entry = &mut self.entries[at];
        (entry.stamp, entry.writer, entry.change) = (stamp, writer, self.changes);
        std::mem::replace(&mut entry.value, value)
    }

    /// The values that were written or received after the first `seen` changes, and sets `seen` to the number
    /// of changes. Values that the process `to` has stamped are left out, because it has them; only if it has
    /// seen nothing yet, it gets all.
    pub(crate) fn changes_since(&self, seen: &mut u64, to: u32) -> Vec<Update> {
        if *seen == self.changes {
            return Vec::new();
        }
        let is_new = |entry: &&Entry| entry.change > *seen && (entry.stamp.node != to || *seen == 0);
        let new = self.entries.iter().filter(is_new).map(Entry::update).collect();
        *seen = self.changes;
        new
    }
}

fn check_key(key: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if key.is_empty() || key.len() > layout::KEY_BYTES || !key.chars().all(plain) {
        return Err(Error::new(format!(
            "`{key}` is no key of the shared map: a key has 1 to {} letters, digits, `.`, `_` and `-`",
            layout::KEY_BYTES
        )));
    }
    Ok(())
}

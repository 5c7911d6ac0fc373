//! The writer: one thread's way into the space.

use crate::catalog::{Catalog, Record};
use crate::clock::Clock;
use crate::element::Ring;
use crate::error::Error;
use crate::kind::{Kind, KindId, schema_hash};
use crate::layout::event;
use crate::space::Shared;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// Writes events into an element of its own. Moves between threads, but serves one at a time.
///
/// Dropping it closes the element cleanly.
#[derive(Debug)]
pub struct Writer {
    ring: Ring,
    clock: Clock,
    number: u32,
    /// Name and schema of the kinds declared so far; the id is the index plus the first.
    kinds: Vec<(&'static str, u64)>,
    catalog: Catalog,
    shared: Arc<Shared>,
    not_sync: PhantomData<Cell<()>>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, ring: Ring, catalog: Catalog, number: u32) -> Writer {
        let clock = *shared.clock();
        Writer { ring, clock, number, kinds: Vec::new(), catalog, shared, not_sync: PhantomData }
    }

    /// Declares a kind to this writer's catalog, once; again gives the same id.
    ///
    /// # Errors
    /// When the catalog cannot be written, the kind does not fit into a block, or 65,520 kinds are taken.
    pub fn declare<K: Kind>(&mut self) -> Result<KindId<K>, Error> {
        let hash = schema_hash(K::NAME, K::FIELDS.iter().map(|f| (f.name, f.field_type, f.unit)));
        let known = self.kinds.iter().position(|kind| *kind == (K::NAME, hash));
        let index = match known {
            Some(index) => index,
            None => self.append_kind::<K>(hash)?,
        };
        let id = event::KIND_FIRST + index as u16;
        Ok(KindId::new(id, self.number))
    }

    fn append_kind<K: Kind>(&mut self, hash: u64) -> Result<usize, Error> {
        let index = self.kinds.len();
        if index > usize::from(u16::MAX - event::KIND_FIRST) {
            return Err(Error::new(format!("there is no room for kind `{}`: a writer has 65520", K::NAME)));
        }
        if 8 * (1 + K::WORDS) > self.ring.event_bytes_max() {
            return Err(Error::new(format!(
                "kind `{}` has {} bytes, and this element's blocks hold events of up to {}: use larger blocks",
                K::NAME,
                8 * (1 + K::WORDS),
                self.ring.event_bytes_max()
            )));
        }
        let id = event::KIND_FIRST + index as u16;
        self.catalog.append(&Record::kind(id, K::NAME, K::DOC, K::FIELDS))?;
        self.kinds.push((K::NAME, hash));
        Ok(index)
    }

    /// Writes an event with the time now.
    #[inline(always)]
    pub fn emit<K: Kind>(&mut self, kind: KindId<K>, event: &K) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        self.ring.emit(self.clock.now_in_halves(), 0, kind, event);
    }

    /// Writes an event with a time read before, in ticks of [`Writer::clock`].
    #[inline(always)]
    pub fn emit_at<K: Kind>(&mut self, ticks: u64, kind: KindId<K>, event: &K) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        self.ring.emit((ticks as u32, (ticks >> 32) as u32), 0, kind, event);
    }

    /// Writes an event whose time was computed, not read: it is marked so.
    #[inline(always)]
    pub fn emit_interpolated<K: Kind>(&mut self, ticks: u64, kind: KindId<K>, event: &K) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        self.ring.emit((ticks as u32, (ticks >> 32) as u32), event::FLAG_INTERPOLATED, kind, event);
    }

    /// Writes an event with the time of the one before, and without reading a clock.
    #[inline(always)]
    pub fn emit_same_time<K: Kind>(&mut self, kind: KindId<K>, event: &K) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        self.ring.emit_same_time(kind, event);
    }

    /// The clock that times are read from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The writer's number, from 1; readers see it with each event.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many events were emitted, the dropped ones included.
    pub fn sequence(&self) -> u64 {
        self.ring.sequence()
    }

    /// How many events were dropped.
    pub fn drops(&self) -> u64 {
        self.ring.drops()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.refresh_anchor();
        self.ring.close();
    }
}

//! The writer, by which one thread records events in the space.

use crate::clock::Clock;
use crate::declared::Declared;
use crate::element::Ring;
use crate::error::Error;
use crate::kind::{
    Arguments, DescribedId, FieldSpec, FieldType, Given, Kind, KindId, Schema, SchemaId, words,
};
use crate::layout::event;
use crate::place::Wanted;
use crate::shared::Shared;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The cost of writing an event without reading the clock, in nanoseconds, rounded up: 1.4 to 2 in the
/// benchmark `event`.
pub const EVENT_NS: u64 = 2;

/// Writes events into an element of its own. A writer can move between threads, but only one thread uses it
/// at a time.
///
/// An event may be as long as all blocks of the element except one, at most 16 MiB. An event that does not
/// fit into a block is written in parts and committed with the last one. Longer texts and byte strings are
/// cut, and the event is marked as truncated.
///
/// Dropping it closes the element cleanly and releases it to a later writer of the same size and policy.
#[derive(Debug)]
pub struct Writer {
    ring: Ring,
    clock: Clock,
    number: u32,
    declared: Arc<Declared>,
    wanted: Wanted,
    shared: Arc<Shared>,
    not_sync: PhantomData<Cell<()>>,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        ring: Ring,
        declared: Arc<Declared>,
        number: u32,
        wanted: Wanted,
    ) -> Writer {
        let clock = shared.identity.clock;
        Writer { ring, clock, number, declared, wanted, shared, not_sync: PhantomData }
    }

    /// Declares a kind in this writer's catalog; repeated declarations return the same id.
    ///
    /// # Errors
    /// Fails when the catalog cannot be written, the kind does not fit into a block, or 65,520 kinds are
    /// taken.
    pub fn declare<K: Kind>(&mut self) -> Result<KindId<K>, Error> {
        self.declared.declare(self.number, self.wanted.options.block_bytes)
    }

    /// Whether an id that this writer or another writer of the same space returned is valid for this writer.
    /// Code that keeps an id while it moves between threads has to check the id by this function.
    pub fn knows<K>(&self, kind: KindId<K>) -> bool {
        kind.writer == self.number
    }

    /// Declares a kind without a Rust type; repeated declarations return the same id. Each of its fields is
    /// an integer or a float of 64 bits.
    ///
    /// # Errors
    /// Fails as [`Writer::declare`] does, and when the kind has no fields, more than eight, or fields of
    /// other types.
    pub fn declare_schema(&mut self, kind: &Schema) -> Result<SchemaId, Error> {
        let wide =
            |field: &FieldSpec| matches!(field.field_type, FieldType::U64 | FieldType::I64 | FieldType::F64);
        if kind.fields.is_empty() || kind.fields.len() > 8 || !kind.fields.iter().all(wide) {
            let name = kind.name;
            return Err(Error::new(format!("kind `{name}` is not made of one to eight numbers of 64 bits")));
        }
        let id = self.declared.declare_schema(kind, self.wanted.options.block_bytes)?;
        Ok(SchemaId { id, writer: self.number })
    }

    /// Writes an event of a kind without a Rust type, with the current time: a word for each of its fields,
    /// floats by their bits.
    ///
    /// # Panics
    /// Panics if there are no fields, or more than eight.
    pub fn emit_words(&mut self, kind: SchemaId, words: &[u64]) {
        macro_rules! by_length {
            ($($length:literal)*) => {
                match words.len() {
                    $($length => {
                        let kind = KindId::<Arguments<$length>>::new(kind.id, kind.writer);
                        self.emit(kind, &Arguments(std::array::from_fn(|index| words[index])));
                    })*
                    other => panic!("an event of {other} words"),
                }
            };
        }
        by_length!(1 2 3 4 5 6 7 8);
    }

    /// Declares a kind without a Rust type, with fields of any type except bytes; repeated declarations
    /// return the same id. Its events are written by [`Writer::emit_values`].
    ///
    /// # Errors
    /// Fails as [`Writer::declare`] does, and when a field is of bytes.
    pub fn declare_described(&mut self, kind: &Schema) -> Result<DescribedId, Error> {
        if let Some(field) = kind.fields.iter().find(|field| field.field_type == FieldType::Bytes) {
            let (kind, field) = (kind.name, field.name);
            return Err(Error::new(format!(
                "field `{field}` of kind `{kind}` is of bytes: give it as a text"
            )));
        }
        let id = self.declared.declare_schema(kind, self.wanted.options.block_bytes)?;
        Ok(DescribedId { id, writer: self.number, fields: kind.fields })
    }

    /// Writes an event of a kind without a Rust type, with a time read before: a value for each of its
    /// fields, in their order. Texts that do not fit are cut, and the event is marked as truncated.
    ///
    /// # Panics
    /// Panics if there are fewer or more values than fields, or a text is given for a number.
    pub fn emit_values(&mut self, ticks: u64, kind: DescribedId, values: &[Given<'_>]) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        assert_eq!(values.len(), kind.fields.len(), "a value for each field");
        let words = words(kind.fields);
        let room = self.ring.argument_bytes_max().saturating_sub(8 * words);
        let text = |value: &Given<'_>| if let Given::Text(text) = value { text.len() } else { 0 };
        let padded = |most: usize| -> usize {
            values.iter().map(|value| text(value).min(most).next_multiple_of(8)).sum()
        };
        let (mut most, mut flags) = (usize::MAX, 0);
        if padded(most) > room {
            let texts = values.iter().filter(|value| matches!(value, Given::Text(_))).count();
            (most, flags) = (room / texts.max(1) / 8 * 8, event::FLAG_TRUNCATED);
        }
        let mut fixed = vec![0_u64; words];
        let mut at: usize = 0;
        for (field, value) in kind.fields.iter().zip(values) {
            let bytes = field.field_type.bytes();
            at = at.next_multiple_of(bytes);
            let bits = match *value {
                Given::Word(word) => {
                    assert!(!field.field_type.is_variable(), "a number for the text `{}`", field.name);
                    word & u64::MAX >> (64 - 8 * bytes)
                }
                Given::Text(text) => {
                    assert!(field.field_type.is_variable(), "a text for the number `{}`", field.name);
                    text.len().min(most) as u64
                }
            };
            fixed[at / 8] |= bits << (8 * (at % 8));
            at += bytes;
        }
        let first = event::pack(ticks as u32, kind.id, 0, flags);
        self.ring.append(ticks, first, words + padded(most) / 8, |push| {
            fixed.iter().for_each(|word| push(*word));
            for value in values {
                let Given::Text(text) = value else { continue };
                for part in text.as_bytes()[..text.len().min(most)].chunks(8) {
                    let mut word = [0; 8];
                    word[..part.len()].copy_from_slice(part);
                    push(u64::from_le_bytes(word));
                }
            }
        });
    }

    /// Discards all events so far, also those of the writers that had this element before: readers neither find them nor
    /// count them as lost.
    pub fn discard(&mut self) {
        self.ring.discard();
    }

    /// Writes an event with the current time.
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

    /// Writes an event whose time was computed, not read, and marks it as interpolated.
    #[inline(always)]
    pub fn emit_interpolated<K: Kind>(&mut self, ticks: u64, kind: KindId<K>, event: &K) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        self.ring.emit((ticks as u32, (ticks >> 32) as u32), event::FLAG_INTERPOLATED, kind, event);
    }

    /// Writes an event with the time of the event before, without reading the clock.
    #[inline(always)]
    pub fn emit_same_time<K: Kind>(&mut self, kind: KindId<K>, event: &K) {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        self.ring.emit_same_time(kind, event);
    }

    /// Ensures that the next events lie in one block, if together with their header words they have at most
    /// `words` words, and none is older or much younger than `ticks`. A reader that gets one of these events
    /// also gets those before it, so an event may leave out data that an earlier event in the same block has.
    /// Returns a number that identifies the block within this element; `None` if the element is full, in
    /// which case one event was counted as dropped.
    #[inline(always)]
    pub fn reserve(&mut self, ticks: u64, words: u64) -> Option<u64> {
        self.ring.reserve(8 * words, ticks)
    }

    /// Writes an event of a fixed size by its words ([`Kind::words`]), with a time read before, if it fits
    /// into the block that [`Writer::reserve`] returned. Returns `false` if the event does not fit; nothing
    /// is written then.
    #[inline(always)]
    pub fn emit_into<K: Kind<Words = [u64; N]>, const N: usize>(
        &mut self,
        block: u64,
        ticks: u64,
        kind: KindId<K>,
        words: [u64; N],
    ) -> bool {
        debug_assert_eq!(kind.writer, self.number, "a kind declared by another writer");
        let kind = KindId::<Arguments<N>> { word: kind.word, writer: kind.writer, kind: PhantomData };
        self.ring.emit_into(block, ticks, kind, &Arguments(words))
    }

    /// Counts events that other threads could not record through this writer as dropped.
    pub(crate) fn drop_events(&mut self, count: u64) {
        self.ring.drop_events(count);
    }

    /// The clock from which the times of events are read.
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

    /// How many writers the element has had, this one included.
    pub fn generation(&self) -> u64 {
        self.ring.generation()
    }

    /// How many events of this writer were dropped.
    pub fn drops(&self) -> u64 {
        self.ring.drops()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let (ring, declared, wanted) = (self.ring.clone(), self.declared.clone(), self.wanted);
        self.shared.release(&mut self.ring, |elements| elements.give_back(ring, declared, wanted));
    }
}

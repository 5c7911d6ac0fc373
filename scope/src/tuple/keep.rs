//! Writes the tuples of a view as events into a space, which can be archived like any other.

use super::batch::{Batch, Head};
use super::described::{Field, Of, TupleKind};
use super::legend::ELEMENT_NONE;
use crate::error::Error;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_space::kind::{DescribedId, FieldSpec, FieldType, Given, Schema};
use thalweg_space::{Clock, ElementOptions, NameRef, Policy, Space, Writer};

/// Writes tuples as events of a space: a kind of event for each kind of tuple. The first fields state where
/// the tuple comes from: `from.process` and `from.element` (names) and `from.sequence`; the tuple's fields
/// follow. Gaps are events of the kind `scope.gap`.
///
/// The writer waits for an archiver of the space, so no event is lost; see [`Keeper::keep`].
#[derive(Debug)]
pub struct Keeper {
    space: Space,
    writer: Writer,
    clock: Clock,
    /// The kinds of events by the kind of tuple, and by whether the tuple comes from an element.
    kinds: HashMap<(Arc<TupleKind>, bool), DescribedId>,
    /// The names of an element and its process.
    names: HashMap<u32, [NameRef; 2]>,
    kept: u64,
}

/// The bytes of events that are written between two calls of the archiver.
const PART_BYTES: usize = 1 << 19;

impl Keeper {
    /// Makes a keeper that writes into this space.
    ///
    /// # Errors
    /// The file system is full.
    pub fn new(space: Space) -> Result<Keeper, Error> {
        // The archiver's unread rest fits in this size, because an archiver leaves at most half of an element
        // unread.
        let element = ElementOptions {
            block_bytes: 64 << 10,
            block_count: 64,
            policy: Policy::Wait { timeout: std::time::Duration::from_secs(60) },
        };
        let writer = space.writer_with("view", element)?;
        let clock = *space.clock();
        Ok(Keeper { space, writer, clock, kinds: HashMap::new(), names: HashMap::new(), kept: 0 })
    }

    /// The space into which the tuples are written.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The number of tuples written, including gaps.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Closes the space. The events stay in the space.
    pub fn finish(self) {
        let Keeper { space, writer, .. } = self;
        drop(writer);
        space.finish();
    }

    /// Writes the tuples of a batch, in their order. After every 512 KiB `archive` is called, which has to
    /// archive the events written so far.
    ///
    /// # Errors
    /// The error of `archive`, or an error when the file system is full.
    pub fn keep<E: From<Error>>(
        &mut self,
        batch: &Batch,
        mut archive: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = 0;
        for head in &batch.heads {
            bytes += self.one(batch, head)?;
            if bytes >= PART_BYTES {
                bytes = 0;
                archive()?;
            }
        }
        archive()
    }

    /// Writes a tuple; returns the approximate number of bytes of the event.
    fn one(&mut self, batch: &Batch, head: &Head) -> Result<usize, Error> {
        let legend = batch.legend().clone();
        let Some(kind) = legend.kinds.get(usize::from(head.kind)) else { return Ok(0) };
        let is_from = head.element != ELEMENT_NONE;
        let id = self.kind(kind, is_from)?;
        let mut values = Vec::with_capacity(kind.fields.len() + 3);
        if is_from {
            let [process, element] = self.names(batch, head.element)?;
            values.extend([process.0, element.0, head.sequence].map(Given::Word));
        }
        let mut bytes = 8 * (1 + kind.fields.len() + values.len());
        for (n, field) in kind.fields.iter().enumerate() {
            let word = batch.word(head, n);
            values.push(match field.of {
                Of::Text => {
                    let text = batch.text(word);
                    bytes += text.len();
                    Given::Text(text)
                }
                Of::Time if word > 0 => Given::Word(self.ticks(word)),
                _ => Given::Word(word),
            });
        }
        let ticks = self.ticks(head.time_ns);
        self.writer.emit_values(ticks, id, &values);
        self.kept += 1;
        Ok(bytes)
    }

    /// Converts a time in nanoseconds since 1970 to ticks.
    fn ticks(&self, real_ns: u64) -> u64 {
        let anchor = self.clock.anchor();
        match real_ns.checked_sub(anchor.real_ns) {
            Some(since) => anchor.ticks.saturating_add(self.clock.ns_to_ticks(since)),
            None => anchor.ticks.saturating_sub(self.clock.ns_to_ticks(anchor.real_ns - real_ns)),
        }
    }

    fn names(&mut self, batch: &Batch, element: u32) -> Result<[NameRef; 2], Error> {
        if let Some(known) = self.names.get(&element) {
            return Ok(*known);
        }
        let legend = batch.legend();
        let process = legend.process(element).map_or("", |process| process.name.as_str());
        let name = legend.elements.get(element as usize).map_or("", |element| &element.name);
        let names = [self.space.name(process)?, self.space.name(name)?];
        self.names.insert(element, names);
        Ok(names)
    }

    fn kind(&mut self, kind: &Arc<TupleKind>, is_from: bool) -> Result<DescribedId, Error> {
        let key = (kind.clone(), is_from);
        if let Some(known) = self.kinds.get(&key) {
            return Ok(*known);
        }
        let id = self.writer.declare_described(&schema(kind, is_from))?;
        self.kinds.insert(key, id);
        Ok(id)
    }
}

/// The kind of event for a kind of tuple. The texts of a kind are never freed; their number is bounded by the
/// kinds that views make.
fn schema(kind: &TupleKind, is_from: bool) -> Schema {
    let text = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let from =
        |name, field_type, doc| FieldSpec { name, field_type, unit: "", doc, choices: &[], absent: None };
    let mut fields = Vec::new();
    if is_from {
        fields.push(from("from.process", FieldType::Name, "The process that it was read from."));
        fields.push(from("from.element", FieldType::Name, "The element that it was read from."));
        fields.push(from(
            "from.sequence",
            FieldType::U64,
            "Which event of that element it was, from 0; of a row its id.",
        ));
    }
    fields.extend(kind.fields.iter().map(|field| FieldSpec {
        name: text(&field.name),
        field_type: field_type(field),
        unit: if field.of == Of::Time { "ticks" } else { text(&field.unit) },
        doc: text(&field.doc),
        choices: &[],
        absent: None,
    }));
    Schema { name: text(&kind.name), doc: text(&kind.doc), fields: Box::leak(fields.into_boxed_slice()) }
}

fn field_type(field: &Field) -> FieldType {
    match field.of {
        Of::Unsigned | Of::Time => FieldType::U64,
        Of::Signed => FieldType::I64,
        Of::Real => FieldType::F64,
        Of::Truth => FieldType::Bool,
        Of::Text => FieldType::Str,
    }
}

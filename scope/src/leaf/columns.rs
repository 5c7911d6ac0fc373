//! Columns convert the fields of an event, or the cells of a live row, to the words of a tuple.

use super::texts::{TextOf, Texts};
use crate::tuple::{Batch, Field, tuple_field};
use thalweg_space::kind::FieldType;
use thalweg_space::reader::{Event, FieldInfo, FieldRef, KindInfo, SpaceReader};
use thalweg_space::{Clock, LIVE_CELLS};

/// The most bytes of a byte field that its text shows.
const BYTES_SHOWN: usize = 256;

/// The conversion of a field to a word.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// The field in events; the cells of rows are found by the column's index.
    field: Option<FieldRef>,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    /// The value without conversion.
    Word,
    /// A real number of 32 bits.
    Real32,
    /// A duration in ticks.
    Duration,
    /// A point in time in ticks.
    Point,
    Name,
    Site,
    Choice(Vec<(u64, String)>),
    Text,
    Bytes,
}

/// The data that columns need besides the event.
pub(crate) struct Around<'a> {
    pub(crate) space: &'a SpaceReader,
    pub(crate) clock: &'a Clock,
    pub(crate) ns_per_tick: f64,
    pub(crate) texts: &'a mut Texts,
}

impl Column {
    /// The columns of a kind of event, and the tuples' fields.
    pub(crate) fn of_kind(kind: &KindInfo) -> (Vec<Column>, Vec<Field>) {
        let column =
            |info: &FieldInfo| (Column { field: kind.field(&info.name), how: how(info) }, field(info));
        kind.fields.iter().map(column).unzip()
    }

    /// The columns of a row's cells, and the tuples' fields.
    pub(crate) fn of_cells(cells: &[FieldInfo]) -> (Vec<Column>, Vec<Field>) {
        cells
            .iter()
            .take(LIVE_CELLS)
            .map(|info| (Column { field: None, how: how(info) }, field(info)))
            .unzip()
    }

    /// Adds the word of an event's field.
    #[inline]
    pub(crate) fn put(&self, event: &Event<'_>, around: &mut Around<'_>, batch: &mut Batch) {
        let Some(field) = self.field else { return batch.words.push(0) };
        let word = match &self.how {
            How::Word => event.u64(field),
            How::Text => batch.text_word(&event.str(field)),
            How::Bytes => {
                let bytes = event.bytes(field);
                let shown: String =
                    bytes.iter().take(BYTES_SHOWN).map(|byte| format!("{byte:02x}")).collect();
                batch.text_word(&shown)
            }
            _ => self.word(event.u64(field), around, batch),
        };
        batch.words.push(word);
    }

    /// Adds the word of a row's cell.
    pub(crate) fn put_cell(&self, cell: u64, around: &mut Around<'_>, batch: &mut Batch) {
        let word = self.word(cell, around, batch);
        batch.words.push(word);
    }

    fn word(&self, bits: u64, around: &mut Around<'_>, batch: &mut Batch) -> u64 {
        match &self.how {
            How::Word => bits,
            How::Real32 => f64::from(f32::from_bits(bits as u32)).to_bits(),
            How::Duration => (bits as f64 * around.ns_per_tick) as u64,
            How::Point if bits == 0 => 0,
            How::Point => around.clock.real_ns(bits),
            How::Name => around.texts.word(TextOf::Name(bits), around.space, batch),
            How::Site => around.texts.word(TextOf::Site(bits), around.space, batch),
            How::Choice(choices) => match choices.iter().find(|(value, _)| *value == bits) {
                Some((_, name)) => batch.text_word(name),
                None => batch.text_word(&bits.to_string()),
            },
            How::Text | How::Bytes => batch.text_word(""),
        }
    }
}

fn field(info: &FieldInfo) -> Field {
    tuple_field(&info.name, info.field_type, &info.unit, &info.doc)
}

fn how(info: &FieldInfo) -> How {
    let is_ticks = info.unit == "ticks";
    match info.field_type {
        FieldType::U64 if is_ticks && !info.name.ends_with("_ticks") => How::Point,
        FieldType::U8 | FieldType::U16 | FieldType::U32 | FieldType::U64 if is_ticks => How::Duration,
        FieldType::F32 => How::Real32,
        FieldType::Name => How::Name,
        FieldType::Site => How::Site,
        FieldType::Enum => How::Choice(info.choices.clone()),
        FieldType::Str => How::Text,
        FieldType::Bytes => How::Bytes,
        _ => How::Word,
    }
}

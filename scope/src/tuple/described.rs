//! Kinds of tuple: the names, types and units of their fields.

use thalweg_space::kind::FieldType;
use thalweg_space::kinds::{What, parse};

/// The type of a field's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Of {
    /// A natural number.
    Unsigned = 0,
    /// An integer.
    Signed = 1,
    /// A real number; `NaN` if it is unknown.
    Real = 2,
    /// True (1) or false (0).
    Truth = 3,
    /// A point in time, in nanoseconds since 1970.
    Time = 4,
    /// A text of the batch.
    Text = 5,
}

impl Of {
    pub(crate) const ALL: [Of; 6] = [Of::Unsigned, Of::Signed, Of::Real, Of::Truth, Of::Time, Of::Text];

    /// The name of the type: `number`, `truth`, `time` or `text`.
    pub fn name(self) -> &'static str {
        match self {
            Of::Unsigned | Of::Signed | Of::Real => "number",
            Of::Truth => "truth",
            Of::Time => "time",
            Of::Text => "text",
        }
    }

    /// A word of this type as a number.
    pub(crate) fn number(self, word: u64) -> f64 {
        match self {
            Of::Unsigned | Of::Truth | Of::Time => word as f64,
            Of::Signed => word.cast_signed() as f64,
            Of::Real => f64::from_bits(word),
            Of::Text => f64::NAN,
        }
    }
}

/// A field of a kind of tuple.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The field's name, by which expressions, screens and tools find the field.
    pub name: String,
    /// The type of the field's values.
    pub of: Of,
    /// The field's unit (`ns`, `messages`, `B/s`, …), or an empty text.
    pub unit: String,
    /// The meaning of the field, or an empty text.
    pub doc: String,
}

/// A kind of tuple.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TupleKind {
    /// The name of the kind: that of the kind of event or row from which its tuples are read, or of the kind
    /// that an operator makes.
    pub name: String,
    /// What a tuple of the kind means.
    pub doc: String,
    /// The fields of the kind; each is a word of every tuple of the kind, in this order.
    pub fields: Vec<Field>,
}

impl TupleKind {
    /// The index of the field of this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// The name and type of an event's field in tuples.
///
/// Fields in ticks become nanoseconds. A field in ticks is a duration if it has 32 bits or its name ends in
/// `_ticks`, which is removed from the name; any other is a point in time.
pub(crate) fn tuple_field(name: &str, of: FieldType, unit: &str, doc: &str) -> Field {
    let (mut name, mut unit) = (name, unit);
    let kind = match of {
        FieldType::U64 if unit == "ticks" && !name.ends_with("_ticks") => Of::Time,
        FieldType::U8 | FieldType::U16 | FieldType::U32 | FieldType::U64 => Of::Unsigned,
        FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => Of::Signed,
        FieldType::F32 | FieldType::F64 => Of::Real,
        FieldType::Bool => Of::Truth,
        FieldType::Name | FieldType::Site | FieldType::Enum | FieldType::Str | FieldType::Bytes => Of::Text,
    };
    if unit == "ticks" {
        name = name.strip_suffix("_ticks").unwrap_or(name);
        unit = "ns";
    }
    Field { name: name.to_owned(), of: kind, unit: unit.to_owned(), doc: doc.to_owned() }
}

/// The kinds that Thalweg's own crates record, as tuples; with `true`, rows of the live table.
pub(crate) fn known_kinds() -> &'static [(TupleKind, bool)] {
    static KNOWN: std::sync::OnceLock<Vec<(TupleKind, bool)>> = std::sync::OnceLock::new();
    KNOWN.get_or_init(|| {
        let texts = [
            include_str!("../../../kinds/exec.kinds"),
            include_str!("../../../kinds/host.kinds"),
            include_str!("../../../kinds/net.kinds"),
            include_str!("../../../kinds/node.kinds"),
            include_str!("../../../kinds/space.kinds"),
        ];
        let mut known = Vec::new();
        for described in texts.iter().flat_map(|text| parse(text).unwrap_or_default()) {
            let is_row = described.what != What::Event;
            let fields = described.fields.iter();
            let mut fields: Vec<Field> = fields
                .map(|field| tuple_field(&field.name, field.field_type, &field.unit, &field.doc))
                .collect();
            if is_row {
                fields.insert(0, row_id());
            }
            known.push((TupleKind { name: described.name, doc: described.doc, fields }, is_row));
        }
        known
    })
}

/// The first field of every tuple of a live row.
pub(crate) fn row_id() -> Field {
    let doc = "The id of what the row shows.".to_owned();
    Field { name: "id".to_owned(), of: Of::Unsigned, unit: String::new(), doc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let check = |name, of, expected: (&str, Of, &str)| {
            let field = tuple_field(name, of, "ticks", "");
            assert_eq!((field.name.as_str(), field.of, field.unit.as_str()), expected);
        };
        check("busy_ticks", FieldType::U64, ("busy", Of::Unsigned, "ns"));
        check("waited", FieldType::U32, ("waited", Of::Unsigned, "ns"));
        check("started", FieldType::U64, ("started", Of::Time, "ns"));
    }

    #[test]
    fn our_kinds_are_known() {
        let find =
            |name: &str, row| known_kinds().iter().find(|(kind, is_row)| kind.name == name && *is_row == row);
        let (task, _) = find("exec.task", true).expect("rows of tasks");
        assert_eq!(
            (task.position("id"), task.fields[task.position("busy").unwrap()].unit.as_str()),
            (Some(0), "ns")
        );
        assert!(find("exec.dispatch", false).is_some() && find("path.operation_completed", false).is_some());
    }
}

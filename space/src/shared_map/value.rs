//! Values of the shared map: integers, floats and short texts.

use crate::error::Error;
use crate::layout::shared_map as layout;
use std::fmt;

/// The type of a key's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MapType {
    /// An integer of 64 bits.
    Integer = 1,
    /// A float of 64 bits.
    Float = 2,
    /// A text of at most [`MapValue::TEXT_BYTES_MAX`] bytes.
    Text = 3,
}

impl MapType {
    /// The type with this number.
    pub fn of(number: u64) -> Option<MapType> {
        [MapType::Integer, MapType::Float, MapType::Text].into_iter().find(|each| *each as u64 == number)
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            MapType::Integer => "integer",
            MapType::Float => "float",
            MapType::Text => "text",
        }
    }

    /// The type's name with its article.
    fn one(self) -> &'static str {
        match self {
            MapType::Integer => "an integer",
            MapType::Float => "a float",
            MapType::Text => "a text",
        }
    }

    /// Reads a value of this type as people write it.
    ///
    /// # Errors
    /// If the text is no value of this type.
    pub fn parse(self, text: &str) -> Result<MapValue, Error> {
        let wrong = || Error::new(format!("`{text}` is not {}", self.one()));
        let value = match self {
            MapType::Integer => MapValue::Integer(text.parse().map_err(|_| wrong())?),
            MapType::Float => MapValue::Float(text.parse().map_err(|_| wrong())?),
            MapType::Text => MapValue::Text(text.to_owned()),
        };
        value.check().map(|()| value)
    }
}

/// A value of the shared map.
#[derive(Clone, Debug)]
pub enum MapValue {
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A text of at most [`MapValue::TEXT_BYTES_MAX`] bytes.
    Text(String),
}

impl MapValue {
    /// The most bytes of a text.
    pub const TEXT_BYTES_MAX: usize = layout::TEXT_BYTES;

    /// The type of the value.
    pub fn type_of(&self) -> MapType {
        match self {
            MapValue::Integer(_) => MapType::Integer,
            MapValue::Float(_) => MapType::Float,
            MapValue::Text(_) => MapType::Text,
        }
    }

    /// The value as a word and a text: the bits of a number, or the length of the text.
    pub fn parts(&self) -> (u64, &str) {
        match self {
            MapValue::Integer(number) => (*number as u64, ""),
            MapValue::Float(number) => (number.to_bits(), ""),
            MapValue::Text(text) => (text.len() as u64, text),
        }
    }

    /// The value with these [parts](MapValue::parts).
    pub fn of_parts(kind: MapType, word: u64, text: &str) -> MapValue {
        match kind {
            MapType::Integer => MapValue::Integer(word as i64),
            MapType::Float => MapValue::Float(f64::from_bits(word)),
            MapType::Text => MapValue::Text(text.to_owned()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            MapValue::Text(text) if text.len() > MapValue::TEXT_BYTES_MAX => Err(Error::new(format!(
                "a text of {} bytes is too long: a value of the shared map has at most {}",
                text.len(),
                MapValue::TEXT_BYTES_MAX
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the value is one for a key of the type `wanted`.
    pub(crate) fn check_for(&self, key: &str, wanted: MapType) -> Result<(), Error> {
        if self.type_of() != wanted {
            let (wanted, found) = (wanted.one(), self.type_of().one());
            return Err(Error::new(format!("the key `{key}` of the shared map has {wanted}, not {found}")));
        }
        self.check()
    }
}

/// Floats are compared by their bits, so that compare-and-set finds every value that was read before.
impl PartialEq for MapValue {
    fn eq(&self, other: &MapValue) -> bool {
        self.type_of() == other.type_of() && self.parts() == other.parts()
    }
}

impl Eq for MapValue {}

impl fmt::Display for MapValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapValue::Integer(number) => write!(f, "{number}"),
            MapValue::Float(number) => write!(f, "{number}"),
            MapValue::Text(text) => f.write_str(text),
        }
    }
}

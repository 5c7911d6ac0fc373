//! Records as bytes for another process of the same program: label names once for each shape, then the
//! values.
//!
//! ```text
//! flags · shape number · [labels, if the shape is new: count, then kind · length · name of each] · value · value · …
//! ```
//! Numbers are LEB128 (signed ones in zigzag); a length is followed by that many bytes. The values of a
//! record are in the order in which the encoder named its labels; the decoder, whose shapes have an order of
//! their own, stores them in its own order. An encoder and its decoder see the same messages, none lost, so a
//! shape has the same number at both.
//!
//! The decoder trusts nothing: every length is compared with the bytes that are left, a tag that is no
//! integer is refused, and names and shapes count as names and shapes that come from data.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;

use thalweg_box::abi::array::ElementType;
use thalweg_box::{Array, Bytes, Text, Value};

use crate::label::{Label, LabelKind};
use crate::record::{Ends, Record};
use crate::shape::{self, LABELS_MAX, ShapeId};

/// The flag of a mark: a message that is no record, but the end of a group.
const MARK: u8 = 0x80;
/// The flags that hold the record's [`Ends`].
const ENDS: u8 = 0x0f;

/// The kinds of value.
const INTEGER: u8 = 1;
const FLOAT: u8 = 2;
const TEXT: u8 = 3;
const JSON: u8 = 4;
const BYTES: u8 = 5;
/// The base code of arrays, to which the code of the element's type is added; a second base code is for
/// single numbers.
const ARRAY: u8 = 0x20;
const SCALAR: u8 = 0x10;

/// Why a record cannot be written, or bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError(String);

impl WireError {
    pub(crate) fn new(what: impl Into<String>) -> WireError {
        WireError(what.into())
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WireError {}

fn bad(what: impl Into<String>) -> WireError {
    WireError::new(what)
}

/// Writes the records of one link.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    shapes: HashMap<ShapeId, u64>,
}

impl Encoder {
    /// Appends a record, or a mark, to `out`.
    ///
    /// # Errors
    /// A value that only one library understands. Nothing is written in this case.
    pub(crate) fn write(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), WireError> {
        let ends = record.ends().bits();
        let shape = record.shape();
        if shape == ShapeId::MARK {
            out.push(MARK | ends);
            return Ok(());
        }
        let opaque = record.slots().iter().position(|value| matches!(value, Value::Opaque(_)));
        if let Some(slot) = opaque {
            let label = shape.labels()[slot];
            return Err(bad(format!(
                "the value of {label} is opaque, so it cannot go to another node: place what makes it and what takes it \
                 together, or let it be bytes, a text or an array"
            )));
        }
        out.push(ends);
        match self.shapes.get(&shape) {
            Some(&number) => put_number(out, number),
            None => self.introduce(shape, out),
        }
        record.slots().iter().for_each(|value| put_value(out, value));
        Ok(())
    }

    fn introduce(&mut self, shape: ShapeId, out: &mut Vec<u8>) {
        let number = self.shapes.len() as u64;
        self.shapes.insert(shape, number);
        put_number(out, number);
        put_number(out, shape.labels().len() as u64);
        for label in shape.labels() {
            out.push(match label.kind() {
                LabelKind::Field => 0,
                LabelKind::Tag => 1,
                LabelKind::BindingTag => 2,
            });
            put_bytes(out, label.name().as_bytes());
        }
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Int(number) => {
            out.push(INTEGER);
            put_number(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
        }
        Value::Float(number) => {
            out.push(FLOAT);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Value::Text(text) => {
            out.push(if text.is_json() { JSON } else { TEXT });
            put_bytes(out, text.as_str().as_bytes());
        }
        Value::Bytes(bytes) => {
            out.push(BYTES);
            put_bytes(out, bytes.as_slice());
        }
        Value::Array(array) => put_array(out, array),
        // Opaque values were refused before.
        Value::Opaque(_) => out.push(0),
    }
}

/// Calls a macro with each element type and its code.
macro_rules! elements {
    ($of:expr, $each:ident) => {
        match $of {
            ElementType::I8 => $each!(i8),
            ElementType::U8 => $each!(u8),
            ElementType::I16 => $each!(i16),
            ElementType::U16 => $each!(u16),
            ElementType::I32 => $each!(i32),
            ElementType::U32 => $each!(u32),
            ElementType::I64 => $each!(i64),
            ElementType::U64 => $each!(u64),
            ElementType::F32 => $each!(f32),
            ElementType::F64 => $each!(f64),
        }
    };
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    let kind = array.element_type();
    out.push(ARRAY | kind as u8 | if array.is_scalar() { SCALAR } else { 0 });
    put_number(out, (array.len() * kind.bytes()) as u64);
    macro_rules! put {
        ($type:ty) => {
            for element in array.as_slice::<$type>().unwrap_or_default() {
                out.extend_from_slice(&element.to_le_bytes());
            }
        };
    }
    elements!(kind, put);
}

/// Reads the records of one link.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    shapes: Vec<Known>,
}

/// A shape of the encoder.
#[derive(Debug)]
struct Known {
    shape: ShapeId,
    /// The slot in this process of each value, in the encoder's order.
    slots: Box<[usize]>,
}

impl Decoder {
    /// Decodes a record, or a mark.
    ///
    /// # Errors
    /// The bytes are no record.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Record, WireError> {
        let mut rest = Rest(bytes);
        let flags = rest.byte()?;
        let ends = Ends::from_bits(flags & ENDS);
        if flags & !(ENDS | MARK) != 0 {
            return Err(bad(format!("flags {flags:#x} are not known")));
        }
        let record = if flags & MARK != 0 {
            Record::mark(ends)
        } else {
            let mut record = self.record(&mut rest)?;
            record.set_ends(ends);
            record
        };
        if rest.0.is_empty() { Ok(record) } else { Err(bad("bytes follow the record")) }
    }

    fn record(&mut self, rest: &mut Rest<'_>) -> Result<Record, WireError> {
        let number = rest.number()?;
        if number == self.shapes.len() as u64 {
            let known = Known::read(rest)?;
            self.shapes.push(known);
        }
        let known = usize::try_from(number).ok().and_then(|number| self.shapes.get(number));
        let Known { shape, slots } =
            known.ok_or_else(|| bad(format!("shape {number} was not introduced")))?;
        let mut record = Record::with_shape(*shape);
        for &slot in slots {
            let value = rest.value()?;
            if shape.labels()[slot].is_integer() && !matches!(value, Value::Int(_)) {
                return Err(bad(format!("the tag {} is no integer", shape.labels()[slot])));
            }
            record.slots_mut()[slot] = value;
        }
        Ok(record)
    }
}

impl Known {
    fn read(rest: &mut Rest<'_>) -> Result<Known, WireError> {
        let count = rest.number()?;
        if count > LABELS_MAX as u64 {
            return Err(bad(format!("a record of {count} labels")));
        }
        let mut labels = Vec::new();
        for _ in 0..count {
            let kind = match rest.byte()? {
                0 => LabelKind::Field,
                1 => LabelKind::Tag,
                2 => LabelKind::BindingTag,
                other => return Err(bad(format!("label kind {other} is not known"))),
            };
            let name = std::str::from_utf8(rest.bytes()?).map_err(|_| bad("a label's name is no text"))?;
            labels.push(Label::of_peer(kind, name).map_err(|error| bad(error.to_string()))?);
        }
        let shape = shape::from_data(&labels).map_err(|error| bad(error.to_string()))?;
        if shape.labels().len() != labels.len() {
            return Err(bad("a label stands twice in a record"));
        }
        let slots = labels.iter().map(|&label| shape.slot(label).expect("it was made of these")).collect();
        Ok(Known { shape, slots })
    }
}

/// The bytes that are not decoded yet.
pub(crate) struct Rest<'a>(pub(crate) &'a [u8]);

impl<'a> Rest<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| bad("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(bad("a number has more than 64 bits"))
    }

    /// Decodes a signed number.
    pub(crate) fn integer(&mut self) -> Result<i64, WireError> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let count = self.number()?;
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(crate) fn text(&mut self) -> Result<String, WireError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes).map_err(|_| bad("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn value(&mut self) -> Result<Value, WireError> {
        Ok(match self.byte()? {
            INTEGER => Value::Int(self.integer()?),
            FLOAT => {
                let bits = self.take(8)?.try_into().expect("8 bytes");
                Value::Float(f64::from_bits(u64::from_le_bytes(bits)))
            }
            TEXT => Value::Text(Text::from_string(self.text()?)),
            JSON => Value::Text(Text::from_json(self.text()?)),
            BYTES => Value::Bytes(Bytes::from_vec(self.bytes()?.to_vec())),
            kind if kind & !0x1f == ARRAY => self.array(kind & 0xf, kind & SCALAR != 0)?,
            kind => return Err(bad(format!("value kind {kind} is not known"))),
        })
    }

    fn array(&mut self, code: u8, is_scalar: bool) -> Result<Value, WireError> {
        let known = usize::from(code).checked_sub(1).and_then(|at| ElementType::ALL.get(at));
        let kind = *known.ok_or_else(|| bad(format!("element type {code} is not known")))?;
        let bytes = self.bytes()?;
        if bytes.len() % kind.bytes() != 0 || (is_scalar && bytes.len() != kind.bytes()) {
            return Err(bad("an array's bytes are no whole number of elements"));
        }
        macro_rules! read {
            ($type:ty) => {{
                let whole = bytes.chunks_exact(size_of::<$type>());
                let elements: Vec<$type> =
                    whole.map(|bytes| <$type>::from_le_bytes(bytes.try_into().expect("whole"))).collect();
                match elements.first() {
                    Some(&number) if is_scalar => Array::scalar(number),
                    _ => Array::from_slice(&elements),
                }
            }};
        }
        Ok(Value::Array(elements!(kind, read)))
    }
}

/// Encodes numbers and texts in sequence, as openings and failures are written.
#[derive(Debug, Default)]
pub(crate) struct Words(pub(crate) Vec<u8>);

impl Words {
    pub(crate) fn number(&mut self, number: u64) -> &mut Words {
        put_number(&mut self.0, number);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Words {
        put_bytes(&mut self.0, text.as_bytes());
        self
    }

    pub(crate) fn integer(&mut self, number: i64) -> &mut Words {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned())
    }
}

#[cfg(test)]
mod tests;

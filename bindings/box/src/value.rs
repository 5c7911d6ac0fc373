//! Values: the contents of a record's labels.

use crate::abi::kept::{Keep, Keeping, OnHeap};
use crate::{Array, Bytes, Opaque, Text};
use std::fmt;

/// A value of a record: 16 bytes, cloned without copying the memory that it refers to.
///
/// The layout is that of C's `struct { uint64_t kind; union { int64_t; double; void *; } }`.
#[derive(Clone, Debug, PartialEq)]
#[repr(u64)]
pub enum Value {
    /// A whole number; the value of a tag or binding tag is always an integer.
    Int(i64) = 1,
    /// A floating-point number.
    Float(f64) = 2,
    /// A UTF-8 text.
    Text(Text) = 3,
    /// Bytes.
    Bytes(Bytes) = 4,
    /// A value that only the boxes of one library understand.
    Opaque(Opaque) = 5,
    /// Numbers of one machine type.
    Array(Array) = 6,
}

/// The size of the header of a value on the heap.
const HEAD_BYTES: u64 = 48;

const _: () = assert!(size_of::<Value>() == 16 && size_of::<Option<Value>>() == 16);

impl Value {
    /// The name of this kind of value in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "integer",
            Value::Float(_) => "float",
            Value::Text(text) if text.is_json() => "JSON",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Opaque(_) => "opaque",
            Value::Array(_) => "array",
        }
    }

    /// The bytes of memory of the value besides its own 16: 0 for a number; else the header of 48 bytes and
    /// the bytes of a text, of bytes or of an array's elements, or the size that the library of an opaque
    /// value reports (0 if it reports none). Shared memory counts fully.
    pub fn heap_bytes(&self) -> u64 {
        let bytes = match self {
            Value::Int(_) | Value::Float(_) => return 0,
            Value::Text(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Opaque(opaque) => opaque.size().unwrap_or(0),
            Value::Array(array) => (array.len() * array.element_type().bytes()) as u64,
        };
        HEAD_BYTES + bytes
    }

    /// Takes the value, leaving the integer 0 in its place.
    #[inline]
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }
}

impl Default for Value {
    fn default() -> Value {
        Value::Int(0)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Text(text) if text.is_json() => f.write_str(text.as_str()),
            Value::Text(text) => write!(f, "{:?}", text.as_str()),
            Value::Bytes(bytes) => write!(f, "{bytes:?}"),
            Value::Opaque(opaque) => write!(f, "{opaque:?}"),
            Value::Array(array) => write!(f, "{array:?}"),
        }
    }
}

/// A type that a box can have as an argument.
pub trait Argument: Sized {
    /// Converts the value to `Self`, or returns the kind that was expected.
    fn from_value(value: Value) -> Result<Self, Mismatch>;

    /// The values that this type is made of.
    #[doc(hidden)]
    const KEEPING: Keeping = Keeping::Foreign;

    /// Converts the value in a slot to `Self`, after keeping it as the argument with this number; any value
    /// may be left in the slot.
    #[inline(always)]
    fn from_slot(slot: &mut Value, keep: impl Keep, index: usize) -> Result<Self, Mismatch> {
        let value = slot.take();
        keep.value(index, &value);
        Self::from_value(value)
    }
}

/// The error of an argument whose kind is not the one that the box requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The kind that the box requires.
    pub expected: &'static str,
    /// The kind in the record.
    pub found: &'static str,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

macro_rules! argument {
    // Numbers: `plain` is the usual form, which is read in place.
    ($type:ty, $expected:literal, plain $plain:pat => $number:expr,
        $($pattern:pat $(if let $found:pat = $test:expr)? => $result:expr),+) => {
        argument!($type, $expected, {
            const KEEPING: Keeping = Keeping::Number;

            #[inline(always)]
            fn from_slot(slot: &mut Value, keep: impl Keep, index: usize) -> Result<$type, Mismatch> {
                if let $plain = *slot {
                    keep.number(index, slot);
                    return Ok($number);
                }
                odd_of_slot(slot, keep, index)
            }
        }, $plain => $number, $($pattern $(if let $found = $test)? => $result),+);
    };
    // Values on the heap, of one kind.
    ($type:ty, $expected:literal, heap $kind:ident, $value:ident => $result:expr) => {
        argument!($type, $expected, {
            const KEEPING: Keeping = Keeping::Heap;

            #[inline(always)]
            fn from_slot(slot: &mut Value, keep: impl Keep, index: usize) -> Result<$type, Mismatch> {
                match <$kind as OnHeap>::take(slot) {
                    Some($value) => {
                        keep.heap(index, &$value);
                        Ok($result)
                    }
                    None => odd_of_slot(slot, keep, index),
                }
            }
        }, Value::$kind($value) => $result);
    };
    ($type:ty, $expected:literal, $pattern:pat $(if let $found:pat = $test:expr)? => $result:expr) => {
        argument!($type, $expected, {
            const KEEPING: Keeping = Keeping::Any;
        }, $pattern $(if let $found = $test)? => $result);
    };
    ($type:ty, $expected:literal, { $($more:item)* }, $($pattern:pat $(if let $found:pat = $test:expr)? => $result:expr),+) => {
        impl Argument for $type {
            #[inline]
            fn from_value(value: Value) -> Result<$type, Mismatch> {
                match value {
                    $($pattern $(if let $found = $test)? => Ok($result),)+
                    other => Err(Mismatch { expected: $expected, found: other.kind() }),
                }
            }
            $($more)*
        }
    };
}

/// Converts a value in a slot that does not have the usual form.
#[cold]
fn odd_of_slot<T: Argument>(slot: &mut Value, keep: impl Keep, index: usize) -> Result<T, Mismatch> {
    let value = slot.take();
    keep.odd(index, &value);
    T::from_value(value)
}

/// The integer of a single number of a machine type.
fn integer(array: &Array) -> Option<i64> {
    array.is_scalar().then(|| array.to_integers()).flatten().and_then(|numbers| numbers.first().copied())
}

/// The float of a single number of a machine type.
fn float(array: &Array) -> Option<f64> {
    array.is_scalar().then(|| array.to_floats()).and_then(|numbers| numbers.first().copied())
}

/// The integer of a JSON value: `true` and `false` are 1 and 0, as in C.
fn json_integer(text: &Text) -> Option<i64> {
    match text.as_str() {
        "true" if text.is_json() => Some(1),
        "false" if text.is_json() => Some(0),
        number if text.is_json() => number.parse().ok(),
        _ => None,
    }
}

/// The float of a JSON number, if it is finite.
fn json_float(text: &Text) -> Option<f64> {
    let is_number = text.is_json() && text.as_str().starts_with(|c: char| c == '-' || c.is_ascii_digit());
    is_number.then(|| text.as_str().parse().ok()).flatten().filter(|number: &f64| number.is_finite())
}

argument!(i64, "integer", plain Value::Int(x) => x,
    Value::Array(ref x) if let Some(x) = integer(x) => x, Value::Text(ref x) if let Some(x) = json_integer(x) => x);
argument!(bool, "integer", plain Value::Int(x) => x != 0,
    Value::Array(ref x) if let Some(x) = integer(x) => x != 0,
    Value::Text(ref x) if let Some(x) = json_integer(x) => x != 0);
argument!(f64, "float or integer", plain Value::Float(x) => x,
    Value::Int(x) => x as f64, Value::Array(ref x) if let Some(x) = float(x) => x,
    Value::Text(ref x) if let Some(x) = json_float(x) => x);
argument!(Text, "text", heap Text, x => x);
argument!(String, "text", heap Text, x => x.into_string());
argument!(Bytes, "bytes", heap Bytes, x => x);
argument!(Vec<u8>, "bytes", heap Bytes, x => x.into_vec());
argument!(Opaque, "opaque", heap Opaque, x => x);
argument!(Array, "array", heap Array, x => x);
argument!(Vec<i64>, "array of integers", Value::Array(ref x) if let Some(x) = x.to_integers() => x);
argument!(Vec<f64>, "array", Value::Array(ref x) => x.to_floats());

impl Argument for Value {
    const KEEPING: Keeping = Keeping::Any;

    #[inline]
    fn from_value(value: Value) -> Result<Value, Mismatch> {
        Ok(value)
    }
}

macro_rules! into_value {
    ($($type:ty: $x:ident => $value:expr;)+) => {
        $(impl From<$type> for Value {
            #[inline]
            fn from($x: $type) -> Value {
                $value
            }
        })+
    };
}

into_value! {
    i64: x => Value::Int(x);
    i32: x => Value::Int(x.into());
    u32: x => Value::Int(x.into());
    u8: x => Value::Int(x.into());
    bool: x => Value::Int(x.into());
    f64: x => Value::Float(x);
    Text: x => Value::Text(x);
    String: x => Value::Text(Text::from_string(x));
    &str: x => Value::Text(Text::from_string(x.to_owned()));
    Bytes: x => Value::Bytes(x);
    Vec<u8>: x => Value::Bytes(Bytes::from_vec(x));
    Opaque: x => Value::Opaque(x);
    Array: x => Value::Array(x);
    Vec<i64>: x => Value::Array(Array::from_slice(&x));
    Vec<f64>: x => Value::Array(Array::from_slice(&x));
}

/// The output of a box: a tuple of values, in the order of the variant in its signature.
pub trait Tuple {
    /// The number of values.
    const COUNT: usize;
    /// Puts the values into the first `COUNT` slots.
    fn store(self, slots: &mut [Value]);
}

macro_rules! tuple {
    ($count:literal: $($name:ident $index:tt),*) => {
        impl<$($name: Into<Value>),*> Tuple for ($($name,)*) {
            const COUNT: usize = $count;
            #[inline]
            fn store(self, _slots: &mut [Value]) {
                $(_slots[$index] = self.$index.into();)*
            }
        }
    };
}

tuple!(0:);
tuple!(1: A 0);
tuple!(2: A 0, B 1);
tuple!(3: A 0, B 1, C 2);
tuple!(4: A 0, B 1, C 2, D 3);
tuple!(5: A 0, B 1, C 2, D 3, E 4);
tuple!(6: A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

//! Arrays: numbers of one machine type.

use super::heap::{Block, Header, HeapTable, on_heap, take_block};
use super::kept;
use super::owner::OWNER;
use crate::value::Value;
use std::fmt;
use std::mem::ManuallyDrop;

/// Numbers of one machine type in a row, shared by count like [`Bytes`](super::heap::Bytes); or a single
/// number, which is an integer or a float that keeps its machine type.
///
/// ```
/// use thalweg_box::Array;
/// let mut samples = Array::from_slice(&[1.5_f32, -2.0]);
/// samples.make_mut::<f32>().unwrap()[0] = 0.5;
/// assert_eq!(samples.as_slice::<f32>(), Some(&[0.5, -2.0][..]));
/// assert_eq!(samples.as_slice::<f64>(), None);
/// assert_eq!(samples.to_floats(), [0.5, -2.0]);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Array(Block);

/// The type of an array's elements, named as in C on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ElementType {
    /// `signed char`
    I8 = 1,
    /// `unsigned char`
    U8 = 2,
    /// `short`
    I16 = 3,
    /// `unsigned short`
    U16 = 4,
    /// `int`
    I32 = 5,
    /// `unsigned int`
    U32 = 6,
    /// `long`
    I64 = 7,
    /// `unsigned long`
    U64 = 8,
    /// `float`
    F32 = 9,
    /// `double`
    F64 = 10,
}

impl ElementType {
    /// All types, in the order of their codes.
    pub const ALL: [ElementType; 10] = {
        use ElementType::*;
        [I8, U8, I16, U16, I32, U32, I64, U64, F32, F64]
    };

    /// The number of bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            ElementType::I8 | ElementType::U8 => 1,
            ElementType::I16 | ElementType::U16 => 2,
            ElementType::I32 | ElementType::U32 | ElementType::F32 => 4,
            ElementType::I64 | ElementType::U64 | ElementType::F64 => 8,
        }
    }

    /// Whether elements are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, ElementType::F32 | ElementType::F64)
    }

    fn of_code(code: u64) -> Option<ElementType> {
        ElementType::ALL.get(usize::try_from(code).ok()?.checked_sub(1)?).copied()
    }
}

/// A type that an array's elements can have.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The code of the element type.
    const TYPE: ElementType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($($type:ty: $name:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const TYPE: ElementType = ElementType::$name;
        })*
    };
}

element!(i8: I8, u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64, f32: F32, f64: F64);

/// A flag in an array's form, beside the code of its type: the array is a single number.
const SCALAR: u64 = 1 << 8;

static ARRAY_TABLE: HeapTable =
    HeapTable { free: free_array, kind: std::ptr::null(), owner: &raw const OWNER };

unsafe extern "C" fn free_array(header: *mut Header) {
    // SAFETY: called once, by the last owner, for a header made by `Array::new` of this library, whose memory is a
    // vector of words.
    unsafe {
        let header = Box::from_raw(header);
        drop(Vec::from_raw_parts(header.data.cast::<u64>(), 0, header.capacity as usize));
    }
}

impl Array {
    /// An array of these elements.
    pub fn from_slice<T: Element>(elements: &[T]) -> Array {
        Array::new(elements, 0)
    }

    /// A single number of this type.
    pub fn scalar<T: Element>(number: T) -> Array {
        Array::new(&[number], SCALAR)
    }

    fn new<T: Element>(elements: &[T], form: u64) -> Array {
        let bytes = size_of_val(elements);
        // The memory is a vector of words, because a vector of bytes may have any alignment.
        let mut words = ManuallyDrop::new(Vec::<u64>::with_capacity(bytes.div_ceil(8)));
        let data = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the vector has room for `bytes` bytes, and elements are plain numbers.
        unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr().cast(), data, bytes) };
        let form = form | T::TYPE as u64;
        Array(Block::new(&ARRAY_TABLE, data, bytes as u64, words.capacity() as u64, form))
    }

    /// The type of the array's elements. An array whose element type is unknown here counts as bytes.
    pub fn element_type(&self) -> ElementType {
        ElementType::of_code(self.0.header().form & 0xff).unwrap_or(ElementType::U8)
    }

    /// Whether the value is a single number and not an array of one element.
    pub fn is_scalar(&self) -> bool {
        self.0.header().form & SCALAR != 0 && self.len() == 1
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.header().length as usize / self.element_type().bytes()
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, if they are of this type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if T::TYPE != self.element_type() {
            return None;
        }
        let bytes = self.0.bytes();
        if bytes.is_empty() {
            return Some(&[]);
        }
        debug_assert!(bytes.as_ptr().cast::<T>().is_aligned());
        // SAFETY: the code that made the array put elements of this type there, so the memory is aligned for them.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), self.len()) })
    }

    /// The elements, for changes, if they are of this type: in place if this is the only owner, else of a
    /// copy that becomes this value.
    pub fn make_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let elements = self.as_slice::<T>()?;
        if !self.0.may_change() {
            *self = Array::new(elements, self.0.header().form & SCALAR);
        }
        let count = self.len();
        let bytes = self.0.bytes_mut();
        if bytes.is_empty() {
            return Some(&mut []);
        }
        // SAFETY: as in `as_slice`, and the only owner is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) })
    }

    /// The elements as integers; `None` if they are floats or one does not fit.
    pub fn to_integers(&self) -> Option<Vec<i64>> {
        fn wide<T: Element + Into<i64>>(array: &Array) -> Option<Vec<i64>> {
            Some(array.as_slice::<T>()?.iter().map(|&number| number.into()).collect())
        }
        match self.element_type() {
            ElementType::I8 => wide::<i8>(self),
            ElementType::U8 => wide::<u8>(self),
            ElementType::I16 => wide::<i16>(self),
            ElementType::U16 => wide::<u16>(self),
            ElementType::I32 => wide::<i32>(self),
            ElementType::U32 => wide::<u32>(self),
            ElementType::I64 => wide::<i64>(self),
            ElementType::U64 => {
                self.as_slice::<u64>()?.iter().map(|&number| i64::try_from(number).ok()).collect()
            }
            ElementType::F32 | ElementType::F64 => None,
        }
    }

    /// The elements as floats.
    pub fn to_floats(&self) -> Vec<f64> {
        if let Some(numbers) = self.as_slice::<f64>() {
            return numbers.to_vec();
        }
        if let Some(numbers) = self.as_slice::<f32>() {
            return numbers.iter().map(|&number| number.into()).collect();
        }
        if let Some(numbers) = self.as_slice::<u64>() {
            return numbers.iter().map(|&number| number as f64).collect();
        }
        self.to_integers().unwrap_or_default().into_iter().map(|number| number as f64).collect()
    }
}

on_heap!(Array: 6);

impl PartialEq for Array {
    /// Whether both have the same elements of the same type; floats by their bits.
    fn eq(&self, other: &Array) -> bool {
        self.element_type() == other.element_type()
            && self.is_scalar() == other.is_scalar()
            && self.0.bytes() == other.0.bytes()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_integers() {
            Some(numbers) => write!(f, "{:?}{numbers:?}", self.element_type()),
            None => write!(f, "{:?}{:?}", self.element_type(), self.to_floats()),
        }
    }
}

//! Kinds of event: their fields, how the fields are packed into words, and the trait that the derive implements.
//!
//! A kind's fixed part is a whole number of 64-bit words. Each field lies at its natural alignment, in the
//! order declared. A text or byte field has its length (32 bits) in the fixed part; the bytes of these fields
//! follow the fixed part, each padded to a word.
//!
//! ```
//! use thalweg_space::{Kind, kind};
//!
//! /// A lock was waited for.
//! #[derive(Kind)]
//! #[kind(name = "example.lock_waited")]
//! struct LockWaited<'a> {
//!     /// How long.
//!     #[field(unit = "ticks")]
//!     waited: u32,
//!     /// Which of its waiters.
//!     waiter: u16,
//!     /// The lock's name.
//!     lock: &'a str,
//! }
//! assert_eq!(kind::offsets::<3>(LockWaited::FIELDS.try_into().unwrap()), [0, 4, 8]);
//! let words = LockWaited { waited: 7, waiter: 2, lock: "a" }.words(u32::MAX);
//! assert_eq!(words, [7 | 2 << 32, 1]);
//! ```
//!
//! The derive does not compile for a struct without a name for its kind, with fields without names, or with a
//! field of another type.
//!
//! ```compile_fail
//! #[derive(thalweg_space::Kind)]
//! struct Nameless { value: u64 }
//! ```
//! ```compile_fail
//! #[derive(thalweg_space::Kind)]
//! #[kind(name = "example.tuple")]
//! struct Tuple(u64);
//! ```
//! ```compile_fail
//! #[derive(thalweg_space::Kind)]
//! #[kind(name = "example.vector")]
//! struct Vector { values: Vec<u64> }
//! ```

use crate::layout::event;
use std::marker::PhantomData;

pub use thalweg_space_derive::{Kind, KindEnum};

/// The type of a field, as stored in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum FieldType {
    U8 = 1,
    U16 = 2,
    U32 = 3,
    U64 = 4,
    I8 = 5,
    I16 = 6,
    I32 = 7,
    I64 = 8,
    F32 = 9,
    F64 = 10,
    /// One byte, 0 or 1.
    Bool = 11,
    /// A [`NameRef`].
    Name = 12,
    /// A [`SiteRef`].
    Site = 13,
    /// One byte; the catalog holds the choices.
    Enum = 14,
    /// UTF-8 text; its length stands in the fixed part.
    Str = 15,
    /// Bytes; their length stands in the fixed part.
    Bytes = 16,
}

impl FieldType {
    /// Every type.
    pub const ALL: [FieldType; 16] = [
        FieldType::U8,
        FieldType::U16,
        FieldType::U32,
        FieldType::U64,
        FieldType::I8,
        FieldType::I16,
        FieldType::I32,
        FieldType::I64,
        FieldType::F32,
        FieldType::F64,
        FieldType::Bool,
        FieldType::Name,
        FieldType::Site,
        FieldType::Enum,
        FieldType::Str,
        FieldType::Bytes,
    ];

    /// Bytes in the fixed part; also the alignment.
    pub const fn bytes(self) -> usize {
        match self {
            FieldType::U8 | FieldType::I8 | FieldType::Bool | FieldType::Enum => 1,
            FieldType::U16 | FieldType::I16 => 2,
            FieldType::U32 | FieldType::I32 | FieldType::F32 | FieldType::Str | FieldType::Bytes => 4,
            FieldType::U64 | FieldType::I64 | FieldType::F64 | FieldType::Name | FieldType::Site => 8,
        }
    }

    /// Whether a field of this type has bytes after the fixed part.
    pub const fn is_variable(self) -> bool {
        matches!(self, FieldType::Str | FieldType::Bytes)
    }

    /// The type's name as printed: `u32`, `text`, …
    pub const fn name(self) -> &'static str {
        match self {
            FieldType::U8 => "u8",
            FieldType::U16 => "u16",
            FieldType::U32 => "u32",
            FieldType::U64 => "u64",
            FieldType::I8 => "i8",
            FieldType::I16 => "i16",
            FieldType::I32 => "i32",
            FieldType::I64 => "i64",
            FieldType::F32 => "f32",
            FieldType::F64 => "f64",
            FieldType::Bool => "bool",
            FieldType::Name => "name",
            FieldType::Site => "site",
            FieldType::Enum => "enum",
            FieldType::Str => "text",
            FieldType::Bytes => "bytes",
        }
    }

    /// The type of this [`name`](FieldType::name).
    pub fn from_name(name: &str) -> Option<FieldType> {
        FieldType::ALL.into_iter().find(|t| t.name() == name)
    }

    pub(crate) fn from_code(code: u8) -> Option<FieldType> {
        FieldType::ALL.into_iter().find(|t| *t as u8 == code)
    }
}

/// The declaration of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// The field's name.
    pub name: &'static str,
    /// The field's type.
    pub field_type: FieldType,
    /// The field's unit, or an empty text.
    pub unit: &'static str,
    /// What the field means.
    pub doc: &'static str,
    /// An enum's choices: value and name.
    pub choices: &'static [(u64, &'static str)],
    /// The value that readers use if a space of another version lacks this field. `None`: readers skip events
    /// without it.
    pub absent: Option<i128>,
}

impl FieldSpec {
    /// The specification of a field of type `F`.
    pub const fn of<F: Field>(name: &'static str, unit: &'static str, doc: &'static str) -> FieldSpec {
        FieldSpec { name, field_type: F::TYPE, unit, doc, choices: F::CHOICES, absent: None }
    }

    /// The same field, with the value that readers use in spaces that lack the field.
    pub const fn absent(self, value: i128) -> FieldSpec {
        FieldSpec { absent: Some(value), ..self }
    }
}

/// Byte offset of each field within the fixed part.
pub const fn offsets<const N: usize>(fields: &[FieldSpec; N]) -> [usize; N] {
    let mut offsets = [0; N];
    let mut at: usize = 0;
    let mut index = 0;
    while index < N {
        let bytes = fields[index].field_type.bytes();
        at = at.next_multiple_of(bytes);
        offsets[index] = at;
        at += bytes;
        index += 1;
    }
    offsets
}

/// Words of the fixed part.
pub const fn words(fields: &[FieldSpec]) -> usize {
    let mut at: usize = 0;
    let mut index = 0;
    while index < fields.len() {
        let bytes = fields[index].field_type.bytes();
        at = at.next_multiple_of(bytes) + bytes;
        index += 1;
    }
    at.div_ceil(8)
}

/// Whether a field has a variable length.
pub const fn any_variable(fields: &[FieldSpec]) -> bool {
    let mut index = 0;
    while index < fields.len() {
        if fields[index].field_type.is_variable() {
            return true;
        }
        index += 1;
    }
    false
}

/// A type that can be a field of a kind.
pub trait Field {
    /// The type's description in the catalog.
    const TYPE: FieldType;
    /// Whether values of the type have bytes after the fixed part.
    const VARIABLE: bool = Self::TYPE.is_variable();
    /// An enum's choices.
    const CHOICES: &'static [(u64, &'static str)] = &[];
    /// The field's value in the fixed part: the low [`FieldType::bytes`] bytes, all others zero. A variable
    /// field returns its length, at most `tail_bytes_max`.
    fn bits(&self, tail_bytes_max: u32) -> u64;
    /// The bytes of a variable field.
    #[inline(always)]
    fn tail(&self) -> &[u8] {
        &[]
    }
}

macro_rules! number_fields {
    ($($rust:ty => $name:ident via $bits:ty),*) => {$(
        impl Field for $rust {
            const TYPE: FieldType = FieldType::$name;
            #[inline(always)]
            fn bits(&self, _: u32) -> u64 {
                u64::from(*self as $bits)
            }
        }
    )*};
}
number_fields!(u8 => U8 via u8, u16 => U16 via u16, u32 => U32 via u32, u64 => U64 via u64,
    i8 => I8 via u8, i16 => I16 via u16, i32 => I32 via u32, i64 => I64 via u64, bool => Bool via u8);

impl Field for f32 {
    const TYPE: FieldType = FieldType::F32;
    #[inline(always)]
    fn bits(&self, _: u32) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Field for f64 {
    const TYPE: FieldType = FieldType::F64;
    #[inline(always)]
    fn bits(&self, _: u32) -> u64 {
        self.to_bits()
    }
}

impl Field for &str {
    const TYPE: FieldType = FieldType::Str;
    #[inline(always)]
    fn bits(&self, tail_bytes_max: u32) -> u64 {
        self.len().min(tail_bytes_max as usize) as u64
    }
    #[inline(always)]
    fn tail(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Field for &[u8] {
    const TYPE: FieldType = FieldType::Bytes;
    #[inline(always)]
    fn bits(&self, tail_bytes_max: u32) -> u64 {
        self.len().min(tail_bytes_max as usize) as u64
    }
    #[inline(always)]
    fn tail(&self) -> &[u8] {
        self
    }
}

/// An interned name of a space; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NameRef(pub u64);

/// A site of the static structure (a component, a probe); 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SiteRef(pub u64);

impl NameRef {
    /// No name.
    pub const NONE: NameRef = NameRef(0);
}

impl SiteRef {
    /// No site.
    pub const NONE: SiteRef = SiteRef(0);
}

impl Field for NameRef {
    const TYPE: FieldType = FieldType::Name;
    #[inline(always)]
    fn bits(&self, _: u32) -> u64 {
        self.0
    }
}

impl Field for SiteRef {
    const TYPE: FieldType = FieldType::Site;
    #[inline(always)]
    fn bits(&self, _: u32) -> u64 {
        self.0
    }
}

/// A kind of event. The trait is usually derived; in an implementation by hand, [`Kind::words`] must pack the
/// fields at [`offsets`].
pub trait Kind {
    /// `crate.noun_verb`.
    const NAME: &'static str;
    /// What an event of the kind records.
    const DOC: &'static str;
    /// The kind's fields, in order.
    const FIELDS: &'static [FieldSpec];
    /// Whether the kind has text or byte fields.
    const VARIABLE: bool = any_variable(Self::FIELDS);
    /// Words of the fixed part.
    const WORDS: usize = words(Self::FIELDS);
    /// An array of [`Kind::WORDS`] words.
    type Words: AsRef<[u64]>;
    /// The fixed part. Lengths of variable fields are at most `tail_bytes_max`.
    fn words(&self, tail_bytes_max: u32) -> Self::Words;
    /// Visits the bytes of the variable fields, in order.
    fn tails(&self, visit: &mut dyn FnMut(&[u8])) {
        let _ = visit;
    }
}

/// A kind that is described at run time instead of by a type of this program: for example, a kind of a
/// library that it loads. See [`Writer::declare_schema`](crate::Writer::declare_schema).
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// `library.noun_verb`.
    pub name: &'static str,
    /// What an event of the kind records.
    pub doc: &'static str,
    /// The kind's fields, in order.
    pub fields: &'static [FieldSpec],
}

/// The id of a [`Schema`] that one writer declared, valid for that writer only.
#[derive(Clone, Copy, Debug)]
pub struct SchemaId {
    pub(crate) id: u16,
    pub(crate) writer: u32,
}

/// The id of a [`Schema`] with fields of any type that one writer declared, valid for that writer only.
#[derive(Clone, Copy, Debug)]
pub struct DescribedId {
    pub(crate) id: u16,
    pub(crate) writer: u32,
    pub(crate) fields: &'static [FieldSpec],
}

/// The value of a field of a kind without a Rust type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A number by its bits, a name, a site, a truth value or a choice.
    Word(u64),
    /// A text.
    Text(&'a str),
}

/// The arguments of an event of a [`Schema`].
pub(crate) struct Arguments<const N: usize>(pub(crate) [u64; N]);

impl<const N: usize> Kind for Arguments<N> {
    const NAME: &'static str = "";
    const DOC: &'static str = "";
    const FIELDS: &'static [FieldSpec] = &[];
    const WORDS: usize = N;
    type Words = [u64; N];

    #[inline(always)]
    fn words(&self, _: u32) -> [u64; N] {
        self.0
    }
}

/// The id of a kind that one writer declared, valid for that writer only.
pub struct KindId<K> {
    /// The first word of an event of this kind, without time and flags, and for a variable kind without the
    /// length.
    pub(crate) word: u64,
    pub(crate) writer: u32,
    // Covariant, so that an id declared for `Failed<'static>` serves `Failed<'_>`.
    pub(crate) kind: PhantomData<fn() -> K>,
}

impl<K: Kind> KindId<K> {
    pub(crate) fn new(id: u16, writer: u32) -> KindId<K> {
        let words = if K::VARIABLE { 0 } else { 1 + K::WORDS };
        KindId { word: event::pack(0, id, words, 0), writer, kind: PhantomData }
    }
}

impl<K> KindId<K> {
    pub(crate) fn id(self) -> u16 {
        (self.word >> 32) as u16
    }
}

impl<K> KindId<K> {
    /// The same id for another type, for code that keeps ids of several kinds together and knows the kind of
    /// each.
    #[doc(hidden)]
    pub fn of_type<L>(self) -> KindId<L> {
        KindId { word: self.word, writer: self.writer, kind: PhantomData }
    }
}

impl<K> Clone for KindId<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for KindId<K> {}

impl<K> std::fmt::Debug for KindId<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KindId({} of writer {})", self.id(), self.writer)
    }
}

/// Hash of a kind's schema: FNV-1a over the name and each field's name, type and unit. Name and hash together
/// identify a kind.
pub fn schema_hash<'a>(name: &str, fields: impl Iterator<Item = (&'a str, FieldType, &'a str)>) -> u64 {
    let mut hash = Fnv::new();
    hash.text(name);
    for (field, field_type, unit) in fields {
        hash.text(field);
        hash.bytes(&[field_type as u8]);
        hash.text(unit);
    }
    hash.0
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
pub(crate) struct Fnv(pub(crate) u64);

impl Fnv {
    pub(crate) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Hashes a text and a mark of its end, so that "ab","c" and "a","bc" differ.
    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }
}

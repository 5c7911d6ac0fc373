//! Reading events as values of a type: a kind's fields are found by their names, whichever version of the
//! program wrote the events.
//!
//! Code that has the kind's Rust type reads events with [`Event::read`]. For code that has only the kind's
//! description (a `.kinds` file), a reader is generated from the description; the reader finds the kind's
//! [`Fields`] once.

use super::events::Event;
use super::kinds::{FieldRef, KindInfo};
use crate::kind::{Field, FieldSpec, FieldType, Kind, NameRef, SiteRef};

/// A kind whose events can be read back as values; the derive macro implements the trait.
pub trait FromEvent<'e>: Kind + Sized {
    /// The event as a value; `None` if a required field is missing or has no value of its type.
    fn from_event(event: &Event<'e>) -> Option<Self>;
}

/// A type of field whose values can be read back.
pub trait FromField<'e>: Field + Sized {
    /// The value with the bits `bits`, or with the bytes `bytes` if the type has a variable length.
    fn from_field(bits: u64, bytes: &'e [u8]) -> Option<Self>;
}

macro_rules! from_bits {
    ($($rust:ty => $value:expr),* $(,)?) => {$(
        impl<'e> FromField<'e> for $rust {
            fn from_field(bits: u64, _: &'e [u8]) -> Option<$rust> {
                let value: fn(u64) -> $rust = $value;
                Some(value(bits))
            }
        }
    )*};
}
from_bits!(
    u8 => |bits| bits as u8,
    u16 => |bits| bits as u16,
    u32 => |bits| bits as u32,
    u64 => |bits| bits,
    i8 => |bits| bits as i8,
    i16 => |bits| bits as i16,
    i32 => |bits| bits as i32,
    i64 => |bits| bits as i64,
    bool => |bits| bits != 0,
    f32 => |bits| f32::from_bits(bits as u32),
    f64 => f64::from_bits,
    NameRef => NameRef,
    SiteRef => SiteRef,
);

impl<'e> FromField<'e> for &'e str {
    /// The text up to its first byte that is no valid UTF-8.
    fn from_field(_: u64, bytes: &'e [u8]) -> Option<&'e str> {
        Some(bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
    }
}

impl<'e> FromField<'e> for &'e [u8] {
    fn from_field(_: u64, bytes: &'e [u8]) -> Option<&'e [u8]> {
        Some(bytes)
    }
}

impl<'a> Event<'a> {
    /// The event as a value of kind `K`, if its kind has the same name and the fields that `K` requires.
    ///
    /// ```
    /// # use thalweg_space::{Kind, Space, SpaceOptions, reader::{Item, SpaceReader}};
    /// #[derive(Debug, PartialEq, Kind)]
    /// #[kind(name = "example.said")]
    /// struct Logged<'a> {
    ///     times: u8,
    ///     what: &'a str,
    /// }
    /// # let parent = std::env::temp_dir().join(format!("thalweg-read-{}", std::process::id()));
    /// # std::fs::create_dir_all(&parent).unwrap();
    /// # let space = Space::create(SpaceOptions { parent: Some(parent.clone()), ..Default::default() })?;
    /// let mut writer = space.writer("example")?;
    /// let said = writer.declare::<Logged>()?;
    /// writer.emit(said, &Logged { times: 2, what: "hello" });
    /// let mut read = 0;
    /// SpaceReader::open(space.path())?.events().poll(10, &mut |item| {
    ///     if let Item::Event(event) = item {
    ///         assert_eq!(event.read(), Some(Logged { times: 2, what: "hello" }));
    ///         read += 1;
    ///     }
    /// })?;
    /// assert_eq!(read, 1);
    /// # std::fs::remove_dir_all(parent).unwrap();
    /// # Ok::<(), thalweg_space::Error>(())
    /// ```
    pub fn read<K: FromEvent<'a>>(&self) -> Option<K> {
        if self.kind.name == K::NAME { K::from_event(self) } else { None }
    }

    /// The value of a field described by the kind's own type; called by the code of the derive macro.
    #[doc(hidden)]
    pub fn field<F: FromField<'a>>(&self, spec: &FieldSpec) -> Option<F> {
        match self.kind.field(spec.name) {
            Some(field) => F::from_field(self.u64(field), self.bytes(field)),
            None => F::from_field(spec.absent? as u64, &[]),
        }
    }

    /// The first `N` words of the arguments, if there are that many.
    #[inline(always)]
    pub fn words<const N: usize>(&self) -> Option<[u64; N]> {
        let (chunks, _) = self.arguments.as_chunks::<8>();
        let chunks = chunks.first_chunk::<N>()?;
        Some(chunks.map(u64::from_le_bytes))
    }
}

/// Where the fields that a generated reader knows lie in a kind's events.
#[derive(Debug)]
pub struct Fields {
    places: Box<[Place]>,
    /// Whether the fixed part of the events begins with the fields as the reader's description lays them out.
    same: bool,
}

#[derive(Debug)]
struct Place {
    /// The field in the kind; `None` if the kind lacks the field.
    field: Option<FieldRef>,
    /// The value that is used if the kind lacks the field.
    absent: u64,
    /// Pairs of numbers of one choice: the number in the catalog, and the number in the reader's description.
    choices: Box<[(u64, u64)]>,
}

/// The number that stands for a choice that the reader's description does not have.
pub const NO_CHOICE: u64 = u64::MAX;

impl Fields {
    /// Finds the fields by their names.
    ///
    /// # Errors
    /// Fails with the name of a required field that the kind lacks.
    pub fn find(kind: &KindInfo, specs: &[FieldSpec]) -> Result<Fields, &'static str> {
        let mut places = Vec::with_capacity(specs.len());
        for spec in specs {
            let field = kind.field(spec.name);
            let absent = match (field, spec.absent) {
                (None, None) => return Err(spec.name),
                (_, value) => value.unwrap_or(0) as u64,
            };
            places.push(Place { field, absent, choices: choices(kind, spec) });
        }
        let is_same = |(n, spec): (usize, &FieldSpec)| {
            kind.fields
                .get(n)
                .is_some_and(|field| field.name == spec.name && field.field_type == spec.field_type)
                && places[n].choices.iter().all(|(theirs, ours)| theirs == ours)
        };
        let same = specs.iter().enumerate().all(is_same);
        Ok(Fields { places: places.into(), same })
    }

    /// The words of the fixed part, if they are laid out as the reader's description says.
    #[inline(always)]
    pub fn words<const N: usize>(&self, event: &Event<'_>) -> Option<[u64; N]> {
        if self.same { event.words() } else { None }
    }

    /// The `n`-th field's bits; a signed number is sign-extended.
    pub fn u64(&self, event: &Event<'_>, n: usize) -> u64 {
        let place = &self.places[n];
        place.field.map_or(place.absent, |field| event.u64(field))
    }

    /// The `n`-th field as a real number.
    pub fn f64(&self, event: &Event<'_>, n: usize) -> f64 {
        self.places[n].field.map_or(0.0, |field| event.f64(field))
    }

    /// The `n`-th field's choice: its number in the reader's description, or [`NO_CHOICE`].
    pub fn choice(&self, event: &Event<'_>, n: usize) -> u64 {
        let place = &self.places[n];
        let Some(field) = place.field else { return place.absent };
        let number = event.u64(field);
        match field.field_type {
            FieldType::Enum => place
                .choices
                .iter()
                .find(|(theirs, _)| *theirs == number)
                .map_or(NO_CHOICE, |(_, ours)| *ours),
            _ => number,
        }
    }

    /// The bytes of the `n`-th field; none if it is no text or bytes.
    pub fn bytes<'e>(&self, event: &Event<'e>, n: usize) -> &'e [u8] {
        self.places[n].field.map_or(&[], |field| event.bytes(field))
    }
}

/// Translates an enum's choices from the catalog's numbers to those of the reader's description.
fn choices(kind: &KindInfo, spec: &FieldSpec) -> Box<[(u64, u64)]> {
    let Some(field) = kind.fields.iter().find(|field| field.name == spec.name) else { return Box::default() };
    let ours = |name: &str| spec.choices.iter().find(|(_, ours)| *ours == name).map(|(number, _)| *number);
    field.choices.iter().filter_map(|(number, name)| Some((*number, ours(name)?))).collect()
}

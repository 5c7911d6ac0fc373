//! Events that boxes write into the space, of kinds that their library declares.

use super::fault::LibraryFault;
use super::parameter::text;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The most fields that a kind has.
pub const EVENT_FIELDS_MAX: usize = 8;

/// A field of an [`EventKind`].
#[repr(C)]
#[derive(Debug)]
pub struct EventField {
    name: *const c_char,
    unit: *const c_char,
    /// 1: an `i64`; 2: an `f64`.
    kind: u64,
}

// SAFETY: the texts are `'static`, and no field ever changes.
unsafe impl Sync for EventField {}

impl EventField {
    /// A field with whole numbers.
    pub const fn integer(name: &'static CStr, unit: &'static CStr) -> EventField {
        EventField { name: name.as_ptr(), unit: unit.as_ptr(), kind: 1 }
    }

    /// A field with floating-point numbers.
    pub const fn float(name: &'static CStr, unit: &'static CStr) -> EventField {
        EventField { name: name.as_ptr(), unit: unit.as_ptr(), kind: 2 }
    }
}

/// A kind of event that boxes write: `thalweg events` shows it as `box.NAME`.
///
/// ```
/// use thalweg_box::{EventField, EventKind};
/// static CLIPPED: EventKind = EventKind::new(
///     c"clipped",
///     c"Samples were too loud",
///     &[EventField::integer(c"samples", c""), EventField::float(c"peak", c"")],
/// );
/// CLIPPED.write([3.into(), 1.5.into()]); // outside of a run this does nothing
/// ```
#[repr(C)]
pub struct EventKind {
    name: *const c_char,
    doc: *const c_char,
    fields: *const EventField,
    field_count: u64,
    /// The receiver of the events while a network runs: set by the program only, release; read with acquire.
    host: AtomicPtr<EventHost>,
}

const _: () = assert!(size_of::<EventKind>() == 40 && size_of::<EventField>() == 24);

// SAFETY: texts and fields are `'static`, and the other fields are atomic or never change.
unsafe impl Send for EventKind {}
// SAFETY: texts and fields are `'static`, and the other fields are atomic or never change.
unsafe impl Sync for EventKind {}

/// The receiver of the events of a kind. The program may keep data of its own in memory after this struct.
#[repr(C)]
#[derive(Debug)]
pub struct EventHost {
    /// Receives an event: a word for each field of the kind.
    pub write: unsafe extern "C" fn(host: *const EventHost, words: *const u64),
}

/// A number in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Word(u64);

impl From<i64> for Word {
    fn from(number: i64) -> Word {
        Word(number as u64)
    }
}

impl From<f64> for Word {
    fn from(number: f64) -> Word {
        Word(number.to_bits())
    }
}

/// The library's description of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The kind's name in the library.
    pub name: String,
    /// The meaning of an event of the kind.
    pub doc: String,
    /// The kind's fields, each with its name, its unit, and whether it is a float.
    pub fields: Vec<(String, String, bool)>,
}

impl EventKind {
    /// A kind with one to eight fields.
    pub const fn new(name: &'static CStr, doc: &'static CStr, fields: &'static [EventField]) -> EventKind {
        assert!(!fields.is_empty() && fields.len() <= EVENT_FIELDS_MAX, "an event has one to eight fields");
        EventKind {
            name: name.as_ptr(),
            doc: doc.as_ptr(),
            fields: fields.as_ptr(),
            field_count: fields.len() as u64,
            host: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Writes an event with the present time.
    ///
    /// # Panics
    /// If there is not a number for each field.
    #[inline]
    pub fn write<const N: usize>(&self, words: [Word; N]) {
        assert!(N as u64 == self.field_count, "an event has as many numbers as its kind has fields");
        let host = self.host.load(Ordering::Acquire);
        if !host.is_null() {
            // SAFETY: the program that bound the host keeps it alive; there is a word for each field.
            unsafe { ((*host).write)(host, words.as_ptr().cast()) }
        }
    }

    /// The description of the kind.
    ///
    /// # Errors
    /// A library in C may declare an invalid kind: the reason why it is invalid.
    pub fn spec(&self) -> Result<EventSpec, LibraryFault> {
        let name = text(self.name);
        if name.is_empty() {
            return Err("a kind of event has no name".to_owned().into());
        }
        let count = self.field_count as usize;
        if self.fields.is_null() || count == 0 || count > EVENT_FIELDS_MAX {
            return Err(format!(
                "the kind of event `{name}` has {count} fields: it may have 1 to {EVENT_FIELDS_MAX}"
            )
            .into());
        }
        // SAFETY: the library guarantees that there are this many fields, as long as it is loaded.
        let fields = unsafe { std::slice::from_raw_parts(self.fields, count) };
        let fields =
            fields.iter().map(|field| (text(field.name), text(field.unit), field.kind == 2)).collect();
        Ok(EventSpec { name, doc: text(self.doc), fields })
    }

    /// Makes `host` the receiver of the events from now on.
    ///
    /// # Safety
    /// The host lives as long as the kind is used, and its function takes as many words as the kind has fields.
    pub unsafe fn bind(&self, host: &EventHost) {
        self.host.store(std::ptr::from_ref(host).cast_mut(), Ordering::Release);
    }
}

impl std::fmt::Debug for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventKind({})", text(self.name))
    }
}

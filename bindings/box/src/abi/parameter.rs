//! Named numbers that a library shares with the programs that observe its network.

use super::fault::LibraryFault;
use std::ffi::{CStr, c_char};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A named number: a parameter that is set while the network runs, or state that boxes publish. `thalweg get`
/// shows it as `box.NAME`, `thalweg set` changes it. Boxes of all libraries that name the parameter share it.
///
/// ```
/// use thalweg_box::Parameter;
/// static GAIN: Parameter = Parameter::new(c"gain", c"percent", c"How loud it is", 0..=400, 100);
/// assert_eq!(GAIN.get(), 100);
/// GAIN.set(1000);
/// assert_eq!(GAIN.get(), 400); // never out of its range
/// ```
#[repr(C)]
pub struct Parameter {
    name: *const c_char,
    unit: *const c_char,
    doc: *const c_char,
    min: u64,
    max: u64,
    /// The value at the start, and while no network runs.
    value: AtomicU64,
    /// The cell of the value while a network runs: written by the program only, release; read with acquire.
    cell: AtomicPtr<AtomicU64>,
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        offset_of!(Parameter, min) == 24 && offset_of!(Parameter, cell) == 48 && size_of::<Parameter>() == 56
    );
};

// SAFETY: the texts are `'static`, and the other fields are atomic or never change.
unsafe impl Send for Parameter {}
// SAFETY: the texts are `'static`, and the other fields are atomic or never change.
unsafe impl Sync for Parameter {}

/// The library's description of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterSpec {
    /// The parameter's name in the library.
    pub name: String,
    /// The unit of the parameter's value, or an empty text.
    pub unit: String,
    /// What the parameter does.
    pub doc: String,
    /// The smallest and the largest value that the parameter can have.
    pub range: RangeInclusive<u64>,
    /// The parameter's value at the start.
    pub value: u64,
}

impl Parameter {
    /// A parameter with the initial value `value`.
    pub const fn new(
        name: &'static CStr,
        unit: &'static CStr,
        doc: &'static CStr,
        range: RangeInclusive<u64>,
        value: u64,
    ) -> Parameter {
        assert!(*range.start() <= value && value <= *range.end(), "the value at the start is out of range");
        Parameter {
            name: name.as_ptr(),
            unit: unit.as_ptr(),
            doc: doc.as_ptr(),
            min: *range.start(),
            max: *range.end(),
            value: AtomicU64::new(value),
            cell: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The present value, limited to the range.
    #[inline]
    pub fn get(&self) -> u64 {
        self.place().load(Ordering::Relaxed).clamp(self.min, self.max)
    }

    /// Changes the value, limited to the range. The cost is one store, so a box may do it for each record.
    #[inline]
    pub fn set(&self, value: u64) {
        self.place().store(value.clamp(self.min, self.max), Ordering::Relaxed);
    }

    #[inline]
    fn place(&self) -> &AtomicU64 {
        // Acquire, paired with the release in `bind`.
        let cell = self.cell.load(Ordering::Acquire);
        // SAFETY: the program that bound the cell keeps it alive as long as the library is used.
        unsafe { cell.as_ref() }.unwrap_or(&self.value)
    }

    /// The description of the parameter.
    ///
    /// # Errors
    /// A library in C may declare an invalid parameter: the reason why it is invalid.
    pub fn spec(&self) -> Result<ParameterSpec, LibraryFault> {
        let spec = ParameterSpec {
            name: text(self.name),
            unit: text(self.unit),
            doc: text(self.doc),
            range: self.min..=self.max,
            value: self.value.load(Ordering::Relaxed),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if spec.name.is_empty() || !spec.name.chars().all(plain) {
            return Err(format!(
                "the parameter name {:?} is not made of letters, digits, `.`, `_` and `-`",
                spec.name
            )
            .into());
        }
        if !spec.range.contains(&spec.value) {
            let (min, max) = (self.min, self.max);
            return Err(format!(
                "the parameter `{}` begins with {}, out of {min} to {max}",
                spec.name, spec.value
            )
            .into());
        }
        Ok(spec)
    }

    /// Makes `cell` the place of the value from now on.
    ///
    /// # Safety
    /// The cell lives as long as the parameter is used.
    pub unsafe fn bind(&self, cell: &AtomicU64) {
        self.cell.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
    }
}

impl std::fmt::Debug for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parameter({} = {})", text(self.name), self.get())
    }
}

/// A text of a library, or an empty text.
pub(super) fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: texts in the tables of a library end with a zero and live as long as the library.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

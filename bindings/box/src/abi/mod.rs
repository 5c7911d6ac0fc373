//! The types that cross the boundary of a box library, and the only unsafe code of this crate.
//!
//! Six things cross: [`heap`] values and [arrays](mod@array) (counted blocks with a function that frees
//! them), calls of boxes ([`entry`]), [parameters](parameter), [events](event), [keys](map_key) of the shared
//! map, and the table of a library ([`LibraryTable`]). All these types are `repr(C)`; both sides need not be built by the same compiler, but
//! must have the same [`ABI_VERSION`].

pub mod array;
pub mod entry;
pub mod event;
pub mod fault;
pub mod heap;
pub mod kept;
pub mod map_key;
pub mod owner;
pub mod parameter;

use entry::{BoxEntry, Desk, Out, Status};
use event::EventKind;
use fault::LibraryFault;
use map_key::RawMapKey;
use owner::{Owner, OwnerCell};
use parameter::Parameter;
use std::sync::atomic::Ordering;

/// The version of everything in this module. A library built for another version is refused when loaded.
pub const ABI_VERSION: u32 = 7;

/// First word of a [`LibraryTable`]: the bytes `thalwegB`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"thalwegB");

/// The symbol a box library exports: an `extern "C" fn() -> *const LibraryTable`.
pub const SYMBOL: &str = "thalweg_boxes";

/// The table that a box library exports. `magic` and `abi_version` keep their place in every version. All
/// memory that the table refers to is valid as long as the library is loaded.
#[repr(C)]
#[derive(Debug)]
pub struct LibraryTable {
    magic: u64,
    abi_version: u32,
    box_count: u32,
    boxes: *const BoxEntry,
    parameters: *const *const Parameter,
    events: *const *const EventKind,
    parameter_count: u32,
    event_count: u32,
    /// `init` runs before the first box is called, and may fail; `finish` runs after the last call, when no
    /// value of the library is left.
    init: Option<Init>,
    finish: Option<unsafe extern "C" fn()>,
    /// The cell in which the library keeps its owner.
    owner: *const OwnerCell,
    map_keys: *const *const RawMapKey,
    map_key_count: u64,
}

const _: () = assert!(size_of::<LibraryTable>() == 88);

// SAFETY: a table is immutable after it was made, and the data that it refers to are Sync.
unsafe impl Sync for LibraryTable {}
// SAFETY: the table is immutable, the data that it refers to are Sync, and it owns nothing that is tied to a
// thread.
unsafe impl Send for LibraryTable {}

/// The parts of a library in Rust, for [`crate::library!`].
#[doc(hidden)]
#[derive(Debug)]
pub struct LibraryParts(LibraryTable);

type Init = unsafe extern "C" fn(out: *mut Out) -> Status;

#[doc(hidden)]
#[allow(missing_docs, reason = "what the macro calls")]
impl LibraryParts {
    pub fn new(boxes: Vec<BoxEntry>) -> LibraryParts {
        let boxes: &'static [BoxEntry] = Vec::leak(boxes);
        LibraryParts(LibraryTable {
            magic: MAGIC,
            abi_version: ABI_VERSION,
            box_count: boxes.len() as u32,
            boxes: boxes.as_ptr(),
            parameters: std::ptr::null(),
            events: std::ptr::null(),
            parameter_count: 0,
            event_count: 0,
            init: None,
            finish: None,
            owner: &raw const owner::OWNER,
            map_keys: std::ptr::null(),
            map_key_count: 0,
        })
    }

    pub fn init(mut self, init: Init) -> LibraryParts {
        self.0.init = Some(init);
        self
    }

    pub fn finish(mut self, finish: unsafe extern "C" fn()) -> LibraryParts {
        self.0.finish = Some(finish);
        self
    }

    pub fn parameters(mut self, all: &'static [&'static Parameter]) -> LibraryParts {
        (self.0.parameters, self.0.parameter_count) = (all.as_ptr().cast(), all.len() as u32);
        self
    }

    pub fn events(mut self, all: &'static [&'static EventKind]) -> LibraryParts {
        (self.0.events, self.0.event_count) = (all.as_ptr().cast(), all.len() as u32);
        self
    }

    pub fn map_keys(mut self, all: &'static [&'static RawMapKey]) -> LibraryParts {
        (self.0.map_keys, self.0.map_key_count) = (all.as_ptr().cast(), all.len() as u64);
        self
    }

    /// The table, kept as long as the library is loaded.
    pub fn leak(self) -> &'static LibraryTable {
        Box::leak(Box::new(self.0))
    }
}

impl LibraryTable {
    /// The table that `table` points to, if it is one of this version.
    ///
    /// # Errors
    /// The reason why `table` is not a table of this version.
    ///
    /// # Safety
    /// `table` is what the symbol [`SYMBOL`] of a box library returned, and the library stays loaded for `'a`.
    pub unsafe fn check<'a>(table: *const LibraryTable) -> Result<&'a LibraryTable, LibraryFault> {
        if table.is_null() || !table.is_aligned() {
            return Err(format!("its `{SYMBOL}` returned no table").into());
        }
        // SAFETY: the caller guarantees that the table is one; these two fields keep their place in every
        // version.
        let (magic, version) = unsafe { ((*table).magic, (*table).abi_version) };
        if magic != MAGIC {
            return Err(format!("its `{SYMBOL}` is not the table of a box library").into());
        }
        if version != ABI_VERSION {
            let age = if version < ABI_VERSION { "an older" } else { "a newer" };
            return Err(format!(
                "it was built for {age} box interface ({version}; this program has {ABI_VERSION}): \
                 build it again with the thalweg-box or thalweg.h of this version"
            )
            .into());
        }
        // SAFETY: magic and version agree, so the whole table has the layout of `LibraryTable`.
        let table = unsafe { &*table };
        if table.box_count == 0 {
            return Err("it has no boxes".to_owned().into());
        }
        Ok(table)
    }

    /// The library's boxes.
    pub fn boxes(&self) -> &[BoxEntry] {
        // SAFETY: the library guarantees that there are this many entries, as long as it is loaded.
        unsafe { listed(self.boxes, self.box_count) }
    }

    /// The library's parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        // SAFETY: as in `boxes`; each pointer points to a parameter.
        unsafe { listed(self.parameters, self.parameter_count).iter().map(|parameter| &**parameter) }
    }

    /// The kinds of events that the library's boxes write.
    pub fn events(&self) -> impl Iterator<Item = &EventKind> {
        // SAFETY: as in `boxes`; each pointer points to a kind.
        unsafe { listed(self.events, self.event_count).iter().map(|kind| &**kind) }
    }

    /// The library's keys of the shared map.
    pub fn map_keys(&self) -> impl Iterator<Item = &RawMapKey> {
        let count = u32::try_from(self.map_key_count).unwrap_or(u32::MAX);
        // SAFETY: as in `boxes`; each pointer points to a key.
        unsafe { listed(self.map_keys, count).iter().map(|key| &**key) }
    }

    /// Makes the library count its values with `owner`. Must be called before any other function of the
    /// library.
    ///
    /// # Safety
    /// The owner lives as long as the library is loaded, and until its count is zero.
    pub unsafe fn count_for(&self, owner: &Owner) {
        // SAFETY: the library keeps it as long as it is loaded.
        if let Some(cell) = unsafe { self.owner.as_ref() } {
            cell.store(std::ptr::from_ref(owner).cast_mut(), Ordering::Release);
        }
    }

    /// Runs the library's `init`, before its first box is called.
    ///
    /// # Errors
    /// The reason that the library gives.
    pub fn init(&self) -> Result<(), LibraryFault> {
        let Some(init) = self.init else { return Ok(()) };
        let mut desk = Desk::new(0, 0);
        if desk.run(|out| {
            // SAFETY: the library is loaded, and the output lives during the call.
            unsafe { init(out) }
        }) {
            Ok(())
        } else {
            Err(desk.failure().into())
        }
    }

    /// Runs the library's `finish`, after the last call of its boxes.
    pub fn finish(&self) {
        if let Some(finish) = self.finish {
            // SAFETY: the library is loaded.
            unsafe { finish() }
        }
    }
}

/// The `count` elements that begin at `first`.
///
/// # Safety
/// The elements are valid for `'a`.
unsafe fn listed<'a, T>(first: *const T, count: u32) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: guaranteed by the caller.
        n => unsafe { std::slice::from_raw_parts(first, n as usize) },
    }
}

/// A library's `init` as [`crate::library!`] exports it.
///
/// # Safety
/// `out` is the output of a call in progress.
#[doc(hidden)]
pub unsafe fn run_init<O: entry::Outcome>(out: *mut Out, init: fn() -> O) -> Status {
    // SAFETY: guaranteed by the caller.
    unsafe { entry::guard(&mut *out, |_| init().outcome()) }
}

/// A library's `finish` as [`crate::library!`] exports it: a panic in it is not reported.
#[doc(hidden)]
pub fn run_finish(finish: fn()) {
    drop(std::panic::catch_unwind(finish));
}

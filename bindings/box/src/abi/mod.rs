//! What crosses the boundary of a box library, and the only unsafe code of this crate.
//!
//! Three things cross: [`heap`] values and [arrays](mod@array) (counted blocks that know how to free themselves), calls of
//! boxes ([`entry`]) and the table of a library ([`LibraryTable`]). All are `repr(C)`; nothing here depends on
//! both sides having been built by the same compiler, only on [`ABI_VERSION`].

pub mod array;
pub mod entry;
pub mod heap;

use entry::BoxEntry;

/// The version of everything in this module. A library built for another version is refused when loaded.
pub const ABI_VERSION: u32 = 2;

/// First word of a [`LibraryTable`]: the bytes `thalwegB`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"thalwegB");

/// The symbol a box library exports: an `extern "C" fn() -> *const LibraryTable`.
pub const SYMBOL: &str = "thalweg_boxes";

/// What a box library exports. `magic` and `abi_version` keep their place in every version.
#[repr(C)]
#[derive(Debug)]
pub struct LibraryTable {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`ABI_VERSION`] of the library.
    pub abi_version: u32,
    /// How many entries stand at `boxes`.
    pub box_count: u32,
    /// The boxes; they live as long as the process.
    pub boxes: *const BoxEntry,
}

// SAFETY: a table is immutable after it was made and its entries are Sync.
unsafe impl Sync for LibraryTable {}
// SAFETY: as above; it owns nothing that is tied to a thread.
unsafe impl Send for LibraryTable {}

impl LibraryTable {
    /// A table of `boxes`, kept for the rest of the process (libraries are never unloaded).
    pub fn leak(boxes: Vec<BoxEntry>) -> &'static LibraryTable {
        let boxes: &'static [BoxEntry] = Vec::leak(boxes);
        Box::leak(Box::new(LibraryTable {
            magic: MAGIC,
            abi_version: ABI_VERSION,
            box_count: boxes.len() as u32,
            boxes: boxes.as_ptr(),
        }))
    }

    /// The boxes of a table that was accepted by [`LibraryTable::check`].
    ///
    /// # Safety
    /// `table` is what the symbol [`SYMBOL`] of a box library returned: it points to a table that lives for
    /// the rest of the process.
    pub unsafe fn check(table: *const LibraryTable) -> Result<&'static [BoxEntry], String> {
        if table.is_null() || !table.is_aligned() {
            return Err(format!("its `{SYMBOL}` returned no table"));
        }
        // SAFETY: the caller says that the table is one; these two fields keep their place in every version.
        let (magic, version) = unsafe { ((*table).magic, (*table).abi_version) };
        if magic != MAGIC {
            return Err(format!("its `{SYMBOL}` is not the table of a box library"));
        }
        if version != ABI_VERSION {
            let age = if version < ABI_VERSION { "an older" } else { "a newer" };
            return Err(format!(
                "it was built for {age} box interface ({version}; this program has {ABI_VERSION}): \
                 build it again with the thalweg-box of this version"
            ));
        }
        // SAFETY: magic and version agree, so the rest has this layout; entries live as long as the process.
        Ok(unsafe {
            match (*table).box_count {
                0 => &[],
                n => std::slice::from_raw_parts((*table).boxes, n as usize),
            }
        })
    }
}

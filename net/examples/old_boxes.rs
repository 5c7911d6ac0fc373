//! A library that was built for another version of the box interface: loading it must be refused.

use thalweg_box::{LibraryTable, abi};

static TABLE: LibraryTable = LibraryTable {
    magic: abi::MAGIC,
    abi_version: abi::ABI_VERSION + 1,
    box_count: 0,
    boxes: std::ptr::null(),
};

/// The table of no box, of the next version.
#[unsafe(no_mangle)]
pub extern "C" fn thalweg_boxes() -> *const LibraryTable {
    &TABLE
}

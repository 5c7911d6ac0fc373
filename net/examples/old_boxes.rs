//! A library that was built for another version of the box interface: loading it must be refused.

use thalweg_box::{LibraryTable, abi};

/// The fields at the beginning of the tables of all versions.
#[repr(C)]
struct Head {
    magic: u64,
    abi_version: u32,
    box_count: u32,
}

static HEAD: Head = Head { magic: abi::MAGIC, abi_version: abi::ABI_VERSION + 1, box_count: 1 };

/// The table of the next version.
#[unsafe(no_mangle)]
pub extern "C" fn thalweg_boxes() -> *const LibraryTable {
    (&raw const HEAD).cast()
}

//! A library that was built for another version of the box interface: loading it must be refused.

use thalweg_box::{LibraryTable, abi};

/// The fields with which a library's table begins in all versions of the box interface.
#[repr(C)]
struct Head {
    magic: u64,
    abi_version: u32,
    box_count: u32,
}

static HEAD: Head = Head { magic: abi::MAGIC, abi_version: abi::ABI_VERSION + 1, box_count: 1 };

/// A table of the next version of the box interface.
#[unsafe(no_mangle)]
pub extern "C" fn thalweg_boxes() -> *const LibraryTable {
    (&raw const HEAD).cast()
}

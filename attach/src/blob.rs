//! The code that all trampolines of a module share. This module has `unsafe`, because it reads the code
//! between two labels of this program.

use std::sync::LazyLock;

core::arch::global_asm!(
    ".pushsection .rodata.thalweg_attach, \"a\", @progbits",
    ".p2align 6",
    ".globl thalweg_attach_blob_begin",
    ".hidden thalweg_attach_blob_begin",
    "thalweg_attach_blob_begin:",
    include_str!("blob.s"),
    ".popsection",
);

unsafe extern "C" {
    static thalweg_attach_blob_begin: [u64; 14];
}

/// The code, with the offsets of its routines.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
    pub(crate) unsigned: u64,
    pub(crate) enter: u64,
    pub(crate) leave: u64,
    pub(crate) unwind: u64,
    pub(crate) once: u64,
    pub(crate) keep: u64,
    pub(crate) caller: u64,
    pub(crate) signed: u64,
    pub(crate) double: u64,
    pub(crate) single: u64,
}

/// The distance from the call of a timed function (`ta_go`) to the place to which the function returns.
pub(crate) const GO_BYTES: u64 = 4;
/// The factor by which the place of a return address is multiplied to find its bucket in the table of calls under
/// way, as in `blob.s`.
pub(crate) const BUCKET_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The offset of the word that says whether the clock is read when a function returns.
pub(crate) const CLOCK_OFFSET: u64 = 104;
/// The size of the table of calls under way, whose layout is in `blob.s`.
pub(crate) const TABLE_BYTES: u64 = 1024 * 4 * ENTRY_BYTES;
/// Bytes of an entry of the table.
pub(crate) const ENTRY_BYTES: u64 = 64;

pub(crate) static BLOB: LazyLock<Blob> = LazyLock::new(|| {
    let begin = &raw const thalweg_attach_blob_begin;
    // SAFETY: the assembly above begins the code with these header words, the eighth of which is the number
    // of bytes of the code.
    let (header, bytes) = unsafe {
        let header = begin.read();
        (header, std::slice::from_raw_parts(begin.cast::<u8>(), header[7] as usize))
    };
    let [_, count, unsigned, enter, leave, unwind, once, _, keep, caller, signed, double, single, _] = header;
    let bytes = bytes.to_vec();
    Blob { bytes, count, unsigned, enter, leave, unwind, once, keep, caller, signed, double, single }
});

impl Blob {
    /// The bytes of the code, with the address of the table of calls under way and the return address of
    /// timed functions filled in.
    pub(crate) fn with(&self, table: u64, leave: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[..8].copy_from_slice(&table.to_le_bytes());
        bytes[56..64].copy_from_slice(&leave.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_function_returns_behind_its_call() {
        let go = (BLOB.leave - GO_BYTES) as usize;
        // call [rsp - 80]
        assert_eq!(BLOB.bytes[go..go + GO_BYTES as usize], [0xff, 0x54, 0x24, 0xb0]);
    }
}

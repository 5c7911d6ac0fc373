//! Writes archives of former versions: an element's header, and block k at place k.

use std::os::unix::fs::FileExt;
use std::path::Path;
use thalweg_space::layout::{PAGE, block, element};

/// Writes the blocks of the element at `start` of the file `from` into an archive of the former format.
pub(crate) fn archive(space: &Path, from: &str, start: u64, block_bytes: u64, block_count: u64, to: &str) {
    let file = std::fs::File::open(space.join(from)).unwrap();
    let mut header = vec![0; element::HEADER];
    file.read_exact_at(&mut header, start).unwrap();
    header[element::MAGIC..][..8].copy_from_slice(&element::MAGIC_ARCHIVE.to_le_bytes());
    header[element::BLOCKS..][..8].copy_from_slice(&block_bytes.to_le_bytes());
    header[element::READ_POSITION..].fill(0);
    header.resize(PAGE, 0);
    let head = u64::from_le_bytes(header[element::HEAD..][..8].try_into().unwrap());
    let out = std::fs::File::create_new(space.join(to)).unwrap();
    // In a file with one element the blocks follow a page of header; in a pool they directly follow the
    // element's header.
    let data = start + if start == 0 { PAGE as u64 } else { element::HEADER as u64 };
    for slot in 0..block_count {
        let mut bytes = vec![0; block_bytes as usize];
        file.read_exact_at(&mut bytes, data + slot * block_bytes).unwrap();
        let number = u64::from_le_bytes(bytes[block::NUMBER..][..8].try_into().unwrap());
        if number > 0 {
            let used = head.saturating_sub((number - 1) * block_bytes).min(block_bytes) as usize;
            let place = element::DATA as u64 + (number - 1) * block_bytes;
            out.write_all_at(&bytes[..used], place).unwrap();
        }
    }
    out.write_all_at(&header, 0).unwrap();
}

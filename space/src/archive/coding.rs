//! The bytes of a chunk: a description of its frames and pieces, frames of the compressor, and pieces too
//! short for a frame of their own.

use zstd::bulk::{Compressor, Decompressor};

/// The least bytes of a piece for a frame of its own; a shorter piece shares a frame.
const FRAME_BYTES_MIN: usize = 384;
/// The most bytes that a shared frame holds.
const SHARED_BYTES_MAX: usize = 1 << 26;

/// Bytes that no chunk can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The compressor, its level, and its output buffer.
pub(super) struct Packer {
    compressor: Compressor<'static>,
    frame: Vec<u8>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    pub(super) fn new(level: i32) -> std::io::Result<Packer> {
        Ok(Packer { compressor: Compressor::new(level)?, frame: Vec::new() })
    }

    /// Compresses bytes; `None` if that makes them no shorter.
    fn pack(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        match self.compressor.compress_to_buffer(bytes, &mut self.frame) {
            Ok(length) if length < bytes.len() => Some(&self.frame[..length]),
            _ => None,
        }
    }
}

/// A chunk while it is written.
pub(super) struct Output<'p> {
    packer: &'p mut Packer,
    /// The description of the frames and pieces.
    pub(super) meta: Vec<u8>,
    frames: Vec<u8>,
    shared: Vec<u8>,
}

impl Output<'_> {
    pub(super) fn new(packer: &mut Packer) -> Output<'_> {
        Output { packer, meta: Vec::new(), frames: Vec::new(), shared: Vec::new() }
    }

    /// A number, seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self, value: u64) {
        put_varint(&mut self.meta, value);
    }

    /// Writes bytes whose count the reader knows.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if bytes.len() < FRAME_BYTES_MIN {
            self.shared.extend_from_slice(bytes);
            return;
        }
        match self.packer.pack(bytes) {
            Some(frame) => {
                put_varint(&mut self.meta, frame.len() as u64);
                self.frames.extend_from_slice(frame);
            }
            // A length that compressed data never have means that the bytes are stored.
            None => {
                put_varint(&mut self.meta, bytes.len() as u64);
                self.frames.extend_from_slice(bytes);
            }
        }
    }

    /// Appends the chunk to `out`, followed by `bytes` uncompressed. The reader knows the number of these
    /// bytes.
    pub(super) fn finish_plain(mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.len() < FRAME_BYTES_MIN {
            self.bytes(bytes);
            return self.finish(out);
        }
        self.varint(bytes.len() as u64);
        self.finish(out);
        out.extend_from_slice(bytes);
    }

    /// Appends the chunk to `out`.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        let Output { packer, meta, frames, shared } = self;
        let mut put = |bytes: &[u8]| {
            put_varint(out, bytes.len() as u64);
            match packer.pack(bytes) {
                Some(frame) => {
                    put_varint(out, frame.len() as u64);
                    out.extend_from_slice(frame);
                }
                None => {
                    put_varint(out, bytes.len() as u64);
                    out.extend_from_slice(bytes);
                }
            }
        };
        put(&meta);
        put(&shared);
        out.extend_from_slice(&frames);
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(Damaged)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Damaged)
}

/// The decompressor.
pub(super) struct Unpacker(Decompressor<'static>);

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    pub(super) fn new() -> std::io::Result<Unpacker> {
        Decompressor::new().map(Unpacker)
    }

    /// Decompresses `packed` to `count` bytes.
    fn unpack(&mut self, packed: &[u8], count: usize, into: &mut Vec<u8>) -> Result<(), Damaged> {
        into.clear();
        // A chunk that claims to decode to more than this is damaged.
        into.try_reserve_exact(count).map_err(|_| Damaged)?;
        if packed.len() == count {
            into.extend_from_slice(packed);
            return Ok(());
        }
        let length = self.0.decompress_to_buffer(packed, into).map_err(|_| Damaged)?;
        if length == count { Ok(()) } else { Err(Damaged) }
    }
}

/// A chunk while it is read.
pub(super) struct Input<'a> {
    unpacker: &'a mut Unpacker,
    meta: Vec<u8>,
    meta_at: usize,
    shared: Vec<u8>,
    shared_at: usize,
    frames: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn new(unpacker: &'a mut Unpacker, mut chunk: &'a [u8]) -> Result<Input<'a>, Damaged> {
        let mut take = || {
            let count = usize::try_from(take_varint(&mut chunk)?).map_err(|_| Damaged)?;
            let length = usize::try_from(take_varint(&mut chunk)?).map_err(|_| Damaged)?;
            if count > SHARED_BYTES_MAX || length > count {
                return Err(Damaged);
            }
            let (packed, rest) = chunk.split_at_checked(length).ok_or(Damaged)?;
            chunk = rest;
            let mut bytes = Vec::new();
            unpacker.unpack(packed, count, &mut bytes)?;
            Ok(bytes)
        };
        let (meta, shared) = (take()?, take()?);
        Ok(Input { unpacker, meta, meta_at: 0, shared, shared_at: 0, frames: chunk })
    }

    pub(super) fn byte(&mut self) -> Result<u8, Damaged> {
        let byte = *self.meta.get(self.meta_at).ok_or(Damaged)?;
        self.meta_at += 1;
        Ok(byte)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Damaged> {
        let mut rest = self.meta.get(self.meta_at..).ok_or(Damaged)?;
        let value = take_varint(&mut rest)?;
        self.meta_at = self.meta.len() - rest.len();
        Ok(value)
    }

    /// A number that is at most `max`.
    pub(super) fn count(&mut self, max: usize) -> Result<usize, Damaged> {
        usize::try_from(self.varint()?).ok().filter(|count| *count <= max).ok_or(Damaged)
    }

    /// The next `count` bytes.
    pub(super) fn bytes(&mut self, count: usize, into: &mut Vec<u8>) -> Result<(), Damaged> {
        if count < FRAME_BYTES_MIN {
            into.clear();
            into.extend_from_slice(self.shared.get(self.shared_at..self.shared_at + count).ok_or(Damaged)?);
            self.shared_at += count;
            return Ok(());
        }
        let length = self.count(count)?;
        let (packed, rest) = self.frames.split_at_checked(length).ok_or(Damaged)?;
        self.frames = rest;
        self.unpacker.unpack(packed, count, into)
    }

    /// Whether all bytes were read, as in a valid chunk.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.meta_at == self.meta.len() && self.shared_at == self.shared.len()
    }
}

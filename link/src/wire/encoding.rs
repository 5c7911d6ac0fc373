//! Compression of the payload of a data frame: four bytes with the decoded length, followed by the codec's
//! output.

use super::{Encoding, PAYLOAD_BYTES_MAX, Violation};

/// The compression level of Zstandard: 1 is the fastest of its usual levels.
const ZSTD_LEVEL: i32 = 1;

/// The compressed pieces; `None` if compression does not make them shorter.
pub(crate) fn encode(encoding: Encoding, pieces: [&[u8]; 2]) -> Option<Vec<u8>> {
    let plain_bytes = pieces[0].len() + pieces[1].len();
    let plain = if pieces[1].is_empty() { pieces[0].into() } else { std::borrow::Cow::from(pieces.concat()) };
    let encoded = match encoding {
        Encoding::Plain => return None,
        Encoding::Lz4 => lz4_flex::block::compress(&plain),
        Encoding::Zstd => zstd::bulk::compress(&plain, ZSTD_LEVEL).ok()?,
    };
    if encoded.len() + 4 >= plain_bytes {
        return None;
    }
    let mut payload = Vec::with_capacity(encoded.len() + 4);
    payload.extend(u32::try_from(plain_bytes).ok()?.to_le_bytes());
    payload.extend(encoded);
    Some(payload)
}

/// The decoded payload. A stated length that is greater than a frame may hold is refused before any memory is
/// allocated.
pub(crate) fn decode(encoding: Encoding, payload: &[u8]) -> Result<Vec<u8>, Violation> {
    let (length, encoded) = payload.split_first_chunk::<4>().ok_or(Violation::Damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > PAYLOAD_BYTES_MAX {
        return Err(Violation::Length { bytes: length, most: PAYLOAD_BYTES_MAX });
    }
    let decoded = match encoding {
        Encoding::Plain => return Err(Violation::Damaged),
        Encoding::Lz4 => lz4_flex::block::decompress(encoded, length).map_err(|_| Violation::Damaged)?,
        Encoding::Zstd => zstd::bulk::decompress(encoded, length).map_err(|_| Violation::Damaged)?,
    };
    if decoded.len() == length { Ok(decoded) } else { Err(Violation::Damaged) }
}

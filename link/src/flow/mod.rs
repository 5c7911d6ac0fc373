//! The flow control of both ends of a stream, without input or output: which bytes are kept, which may be
//! sent, which have arrived.
//!
//! The stream is the messages one after another, each after its length (LEB128). Both ends count its bytes
//! from 0, so an acknowledgement is a number, and a new connection continues at the byte at which the former
//! one broke.

mod incoming;
mod outgoing;

pub(crate) use incoming::Incoming;
pub(crate) use outgoing::{Outgoing, Piece};

/// The most bytes of the length before a message.
const LENGTH_BYTES_MAX: usize = 10;

/// The encoded length before a message of this many bytes.
fn length(bytes: u64) -> ([u8; LENGTH_BYTES_MAX], usize) {
    let mut encoded = [0; LENGTH_BYTES_MAX];
    let (mut rest, mut at) = (bytes, 0);
    while rest >= 0x80 {
        encoded[at] = rest as u8 | 0x80;
        rest >>= 7;
        at += 1;
    }
    encoded[at] = rest as u8;
    (encoded, at + 1)
}

/// The length at the beginning of these bytes, and the number of bytes that encode it; `None` if the bytes
/// end within it.
fn parse_length(bytes: &[u8]) -> Result<Option<(u64, usize)>, crate::Violation> {
    if let Some(&byte) = bytes.first()
        && byte < 0x80
    {
        return Ok(Some((byte.into(), 1)));
    }
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(LENGTH_BYTES_MAX).enumerate() {
        let part = u64::from(byte & 0x7f);
        if at == LENGTH_BYTES_MAX - 1 && *byte > 1 {
            return Err(crate::Violation::Damaged);
        }
        value |= part << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

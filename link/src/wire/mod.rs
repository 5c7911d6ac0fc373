//! The bytes that go over a connection.

mod encoding;
mod frame;
mod greeting;

pub(crate) use encoding::{decode, encode};
pub(crate) use frame::{ACK_WANTED, Ack, GREETING_BYTES_MAX, HEADER_BYTES, Header, Kind, word};
pub use frame::{Encoding, PAYLOAD_BYTES_MAX};
pub(crate) use greeting::{Hello, Refusal, VERSION, Via, Welcome};

use std::fmt;

/// A violation of the protocol by the other end of a connection. A violation closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A frame of an unknown kind.
    Kind(u8),
    /// A payload with an unknown encoding.
    Encoding(u8),
    /// A payload that is longer or shorter than its kind allows.
    Length {
        /// The length in the header.
        bytes: usize,
        /// The greatest length that is allowed.
        most: usize,
    },
    /// A frame that is not allowed at this point of the conversation.
    Order,
    /// A piece of the stream that does not continue what came before.
    Gap {
        /// The present offset in the stream.
        at: u64,
        /// The offset at which the piece begins.
        got: u64,
    },
    /// A piece beyond the limit that the receiver allowed.
    Credit,
    /// An acknowledgement of bytes that were never sent, or one that goes back behind an earlier one.
    Ack,
    /// A payload that cannot be decoded.
    Damaged,
    /// A message that is longer than the receiver accepts.
    Message {
        /// The message's length.
        bytes: u64,
        /// The greatest length that is accepted.
        most: u64,
    },
    /// A greeting of another protocol.
    Greeting,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Kind(code) => write!(f, "frame kind {code} does not exist"),
            Violation::Encoding(code) => write!(f, "payload encoding {code} does not exist"),
            Violation::Length { bytes, most } => write!(f, "a payload of {bytes} bytes, of at most {most}"),
            Violation::Order => f.write_str("a frame that is not allowed at this point"),
            Violation::Gap { at, got } => {
                write!(f, "the stream is at byte {at}, and a piece begins at {got}")
            }
            Violation::Credit => f.write_str("more was sent than the receiver allowed"),
            Violation::Ack => f.write_str("an acknowledgement of what was not sent"),
            Violation::Damaged => f.write_str("a payload that cannot be decoded"),
            Violation::Message { bytes, most } => {
                write!(f, "a message of {bytes} bytes; the receiver takes at most {most}")
            }
            Violation::Greeting => f.write_str("it does not begin as a Thalweg link does"),
        }
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests;

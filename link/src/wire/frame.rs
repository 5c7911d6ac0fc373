//! The frames of a connection: a header of 16 bytes, then the payload. All numbers are little endian.
//!
//! ```text
//!  0        1        2        4                8                        16
//!  ┌────────┬────────┬────────┬────────────────┬────────────────────────┬─────────
//!  │ kind   │encoding│ flags  │ payload bytes  │ offset                 │ payload …
//!  └────────┴────────┴────────┴────────────────┴────────────────────────┴─────────
//! ```
//!
//! `offset` counts bytes of the link's stream before encoding: messages, each after its length. Frames divide
//! this stream anywhere, so their size may change from frame to frame, and a message may be larger than a
//! frame.

use super::Violation;

/// The bytes of a header.
pub(crate) const HEADER_BYTES: usize = 16;
/// The most bytes of a payload on the wire; a header with more is a violation.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The most bytes of the frames of a handshake.
pub(crate) const GREETING_BYTES_MAX: usize = 1 << 10;
/// The bytes of the payload that says where a connection is passed on to.
pub(crate) const VIA_BYTES: usize = 48;
/// A frame with this flag asks for an acknowledgement at once.
pub(crate) const ACK_WANTED: u16 = 1;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From the sender: its name, and which link it wants to serve.
    Hello,
    /// From the receiver: how much it has received, and how far the sender may go.
    Welcome,
    /// From the receiver: why it does not serve this link.
    Refusal,
    /// From the sender: a piece of the stream, from `offset`.
    Data,
    /// From the receiver: how much it has received, how much was consumed, and how far the sender may go.
    Ack,
    /// From the sender: the stream ends at `offset`.
    End,
    /// From the sender: the time of its clock.
    Ping,
    /// From the receiver: the time that the sender sent, and the times of the receiver's own clock.
    Pong,
    /// From the sender, before its hello: to which listener the connection has to be passed on.
    Via,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Refusal,
        Kind::Data,
        Kind::Ack,
        Kind::End,
        Kind::Ping,
        Kind::Pong,
        Kind::Via,
    ];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn of(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The fewest and most bytes of a payload.
    fn payload_bytes(self) -> (usize, usize) {
        match self {
            Kind::Hello | Kind::Welcome | Kind::Refusal => (0, GREETING_BYTES_MAX),
            Kind::Data => (1, PAYLOAD_BYTES_MAX),
            Kind::Ack => (16, 16),
            Kind::End => (0, 0),
            Kind::Ping => (8, 8),
            Kind::Pong => (24, 24),
            Kind::Via => (VIA_BYTES, VIA_BYTES),
        }
    }
}

/// How the payload of a data frame is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// The bytes of the stream as they are.
    #[default]
    Plain,
    /// LZ4, a block of its own per frame.
    Lz4,
    /// Zstandard at level 1, a frame of its own per frame.
    Zstd,
}

impl Encoding {
    /// All encodings, in the order of their codes.
    pub const ALL: [Encoding; 3] = [Encoding::Plain, Encoding::Lz4, Encoding::Zstd];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of(code: u8) -> Option<Encoding> {
        Encoding::ALL.into_iter().find(|encoding| encoding.code() == code)
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) encoding: Encoding,
    pub(crate) flags: u16,
    pub(crate) payload_bytes: usize,
    pub(crate) offset: u64,
}

impl Header {
    pub(crate) fn new(kind: Kind, offset: u64, payload_bytes: usize) -> Header {
        Header { kind, encoding: Encoding::Plain, flags: 0, payload_bytes, offset }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind.code();
        bytes[1] = self.encoding.code();
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&u32::try_from(self.payload_bytes).unwrap().to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Header, Violation> {
        let kind = Kind::of(bytes[0]).ok_or(Violation::Kind(bytes[0]))?;
        let encoding = Encoding::of(bytes[1]).ok_or(Violation::Encoding(bytes[1]))?;
        let payload_bytes = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let (fewest, most) = kind.payload_bytes();
        if payload_bytes < fewest || payload_bytes > most {
            return Err(Violation::Length { bytes: payload_bytes, most });
        }
        let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
        let offset = u64::from_le_bytes(bytes[8..].try_into().unwrap());
        Ok(Header { kind, encoding, flags, payload_bytes, offset })
    }
}

/// The state of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    /// The bytes of the stream that the receiver has received, which need not be sent again.
    pub(crate) received: u64,
    /// The bytes of the stream that its user has consumed.
    pub(crate) consumed: u64,
    /// The offset up to which the sender may send.
    pub(crate) limit: u64,
}

impl Ack {
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.extend(Header::new(Kind::Ack, self.received, 16).encode());
        into.extend(self.consumed.to_le_bytes());
        into.extend(self.limit.to_le_bytes());
    }

    pub(crate) fn decode(header: &Header, payload: &[u8]) -> Ack {
        Ack { received: header.offset, consumed: word(payload, 0), limit: word(payload, 1) }
    }
}

/// The 64-bit number at this index of a payload. The caller has checked the payload's length.
pub(crate) fn word(payload: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(payload[index * 8..][..8].try_into().unwrap())
}

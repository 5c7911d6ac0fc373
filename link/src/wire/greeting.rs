//! The handshake: the sender says hello, the receiver welcomes or refuses it.

use super::Violation;
use super::frame::{Header, Kind, word};
use crate::LinkId;

/// The version of the protocol. A sender of another version is refused with a text that names both versions.
pub(crate) const VERSION: u32 = 1;
/// The bytes with which a hello begins.
const MAGIC: [u8; 8] = *b"thalwegl";
/// The most bytes of a node's name.
const NAME_BYTES_MAX: usize = 255;

/// The hello, in which a sender describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) link: LinkId,
    /// A number that identifies this sender. A receiver refuses another sender, which could not continue the
    /// stream.
    pub(crate) incarnation: u64,
    /// The secret that every process that may connect knows.
    pub(crate) token: [u8; 32],
    pub(crate) node: String,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(MAGIC);
        payload.extend(self.version.to_le_bytes());
        payload.extend([0; 4]);
        payload.extend(self.link.session);
        payload.extend(self.link.number.to_le_bytes());
        payload.extend(self.incarnation.to_le_bytes());
        payload.extend(self.token);
        let name = self.node.as_bytes();
        payload.extend(&name[..name.len().min(NAME_BYTES_MAX)]);
        framed(Kind::Hello, 0, &payload)
    }

    /// Decodes a hello. Of a hello of another version of the protocol, only the version is decoded.
    pub(crate) fn decode(payload: &[u8]) -> Result<Hello, Violation> {
        let rest = payload.strip_prefix(&MAGIC).ok_or(Violation::Greeting)?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(Violation::Greeting)?;
        let version = u32::from_le_bytes(*version);
        let unknown = LinkId { session: [0; 16], number: 0 };
        if version != VERSION {
            return Ok(Hello { version, link: unknown, incarnation: 0, token: [0; 32], node: String::new() });
        }
        let rest = rest.get(4..).ok_or(Violation::Greeting)?;
        let (session, rest) = rest.split_first_chunk::<16>().ok_or(Violation::Greeting)?;
        let (numbers, rest) = rest.split_first_chunk::<16>().ok_or(Violation::Greeting)?;
        let (token, name) = rest.split_first_chunk::<32>().ok_or(Violation::Greeting)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Violation::Greeting);
        }
        let link = LinkId { session: *session, number: word(numbers, 0) };
        let node = String::from_utf8_lossy(name).into_owned();
        Ok(Hello { version, link, incarnation: word(numbers, 1), token: *token, node })
    }
}

/// To which listener of a session a connection has to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Via {
    pub(crate) session: [u8; 16],
    /// The secret that every process that may connect knows.
    pub(crate) token: [u8; 32],
    /// The number of the listener in the session.
    pub(crate) to: u64,
}

impl Via {
    pub(crate) fn encode(&self) -> Vec<u8> {
        framed(Kind::Via, self.to, &[&self.session[..], &self.token[..]].concat())
    }

    pub(crate) fn decode(header: &Header, payload: &[u8]) -> Result<Via, Violation> {
        let (session, token) = payload.split_first_chunk::<16>().ok_or(Violation::Greeting)?;
        let token = token.try_into().map_err(|_| Violation::Greeting)?;
        Ok(Via { session: *session, token, to: header.offset })
    }
}

/// The state of the receiver's end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The offset from which the sender continues.
    pub(crate) received: u64,
    pub(crate) consumed: u64,
    pub(crate) limit: u64,
}

impl Welcome {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let payload = [self.consumed.to_le_bytes(), self.limit.to_le_bytes()].concat();
        framed(Kind::Welcome, self.received, &payload)
    }

    pub(crate) fn decode(header: &Header, payload: &[u8]) -> Result<Welcome, Violation> {
        if payload.len() != 16 {
            return Err(Violation::Greeting);
        }
        Ok(Welcome { received: header.offset, consumed: word(payload, 0), limit: word(payload, 1) })
    }
}

/// The reason why a receiver does not serve a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Whether further attempts are useless.
    pub(crate) is_final: bool,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut end = self.why.len().min(512);
        while !self.why.is_char_boundary(end) {
            end -= 1;
        }
        framed(Kind::Refusal, u64::from(self.is_final), &self.why.as_bytes()[..end])
    }

    pub(crate) fn decode(header: &Header, payload: &[u8]) -> Refusal {
        Refusal { is_final: header.offset != 0, why: String::from_utf8_lossy(payload).into_owned() }
    }
}

fn framed(kind: Kind, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Header::new(kind, offset, payload.len()).encode().to_vec();
    frame.extend(payload);
    frame
}

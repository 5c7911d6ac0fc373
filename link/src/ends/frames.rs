//! Reads small frames one by one: greetings, acknowledgements. The receiver has its own reader of data
//! frames.

use crate::transport::{Connection, is_later};
use crate::wire::{GREETING_BYTES_MAX, HEADER_BYTES, Header, Violation};
use std::io::{self, IoSliceMut};

/// The result of an attempt to read.
pub(crate) enum Read {
    /// A complete frame. [`Frames::payload`] returns the frame's payload until the next attempt to read.
    Frame(Header),
    /// No complete frame yet.
    Later,
    /// The other end closed.
    Closed,
}

/// Frames of at most [`GREETING_BYTES_MAX`] bytes of payload.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// The index of the first byte that was not read as part of a frame.
    at: usize,
    payload: std::ops::Range<usize>,
}

impl Frames {
    /// The next frame.
    pub(crate) fn read(&mut self, connection: &mut Connection) -> io::Result<Result<Read, Violation>> {
        loop {
            match self.parse() {
                Ok(Some(header)) => return Ok(Ok(Read::Frame(header))),
                Ok(None) => {}
                Err(violation) => return Ok(Err(violation)),
            }
            self.bytes.drain(..std::mem::take(&mut self.at));
            let held = self.bytes.len();
            self.bytes.resize(held + HEADER_BYTES + GREETING_BYTES_MAX, 0);
            let read = connection.read(&mut [IoSliceMut::new(&mut self.bytes[held..])]);
            self.bytes.truncate(held + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(Ok(Read::Closed)),
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(Ok(Read::Later)),
                Err(error) => return Err(error),
            }
        }
    }

    fn parse(&mut self) -> Result<Option<Header>, Violation> {
        let Some(header) = self.bytes[self.at..].first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header::decode(*header)?;
        if header.payload_bytes > GREETING_BYTES_MAX {
            return Err(Violation::Order);
        }
        let begin = self.at + HEADER_BYTES;
        let end = begin + header.payload_bytes;
        if self.bytes.len() < end {
            return Ok(None);
        }
        self.payload = begin..end;
        self.at = end;
        Ok(Some(header))
    }

    /// The payload of the frame that was read last.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload.clone()]
    }

    /// The bytes that came after the frames that were read.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Whether nothing came after the frames that were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}

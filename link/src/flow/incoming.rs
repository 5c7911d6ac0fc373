//! The receiver's end: the bytes that have come and were not taken yet, and how many more may come.

use super::{LENGTH_BYTES_MAX, parse_length};
use crate::wire::{Ack, Header, Violation, Welcome};
use std::ops::Range;

/// The bytes that have come and were not taken.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Storage. The bytes that have come are those at `held`.
    buffer: Vec<u8>,
    held: Range<usize>,
    /// The offset after the last byte that has come.
    received: u64,
    /// The message that was given out last ends here in `buffer`; it is taken with the next call.
    given: usize,
    /// Bytes that the sender may be ahead of what was taken.
    window: u64,
    /// The longest message that is taken.
    message_bytes_max: u64,
    /// The offset up to which the sender was allowed to send.
    limit: u64,
    /// The `consumed` of the last acknowledgement.
    acked: u64,
    /// Where the stream ends. The end counts as one byte after the last.
    end: Option<u64>,
    /// The user knows of the end.
    end_taken: bool,
}

impl Incoming {
    pub(crate) fn new(window: u64, message_bytes_max: u64) -> Incoming {
        Incoming {
            buffer: Vec::new(),
            held: 0..0,
            received: 0,
            given: 0,
            window: window.max(1),
            message_bytes_max,
            limit: 0,
            acked: 0,
            end: None,
            end_taken: false,
        }
    }

    pub(crate) fn set_window(&mut self, window: u64) {
        self.window = window.max(1);
    }

    /// The offset after the last byte that was taken.
    fn consumed(&self) -> u64 {
        self.received - (self.held.end - self.given) as u64
    }

    /// Whether the sender has ended the stream, and all of it was given out.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.received) && self.given == self.held.end
    }

    /// The end of the stream was reported to the user.
    pub(crate) fn take_end(&mut self) {
        self.end_taken = true;
    }

    /// Room for what is missing of the payload of a plain data frame, of which the first `got` bytes were filled in before.
    /// When it is full, it has [`Incoming::arrived`].
    pub(crate) fn room(&mut self, header: &Header, got: usize) -> Result<&mut [u8], Violation> {
        self.check(header.offset, header.payload_bytes)?;
        let bytes = header.payload_bytes;
        self.make_room(bytes, got);
        Ok(&mut self.buffer[self.held.end..][got..bytes])
    }

    /// The room is full: these bytes are part of the stream now.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        self.held.end += bytes;
        self.received += bytes as u64;
    }

    /// A piece of the stream that was decoded elsewhere.
    pub(crate) fn take(&mut self, offset: u64, piece: &[u8]) -> Result<(), Violation> {
        self.check(offset, piece.len())?;
        self.make_room(piece.len(), 0);
        self.buffer[self.held.end..][..piece.len()].copy_from_slice(piece);
        self.arrived(piece.len());
        Ok(())
    }

    fn check(&self, offset: u64, bytes: usize) -> Result<(), Violation> {
        if offset != self.received {
            return Err(Violation::Gap { at: self.received, got: offset });
        }
        if self.end.is_some() {
            return Err(Violation::Order);
        }
        if bytes as u64 > self.limit.saturating_sub(offset) {
            return Err(Violation::Credit);
        }
        Ok(())
    }

    /// Makes room for this many bytes behind those that are held; the first `got` of them are there already and stay.
    fn make_room(&mut self, bytes: usize, got: usize) {
        if self.given == self.held.end && got == 0 {
            (self.held, self.given) = (0..0, 0);
        }
        if self.buffer.len() - self.held.end >= bytes {
            return;
        }
        self.buffer.copy_within(self.given..self.held.end + got, 0);
        (self.held, self.given) = (0..self.held.end - self.given, 0);
        let needed = self.held.end + bytes;
        if self.buffer.len() < needed {
            // Zeroed once; from then on the storage is used again.
            self.buffer.resize(needed.next_power_of_two(), 0);
        }
    }

    /// The sender says that the stream ends here.
    pub(crate) fn finish(&mut self, offset: u64) -> Result<(), Violation> {
        if offset != self.received || self.end.is_some_and(|end| end != offset) {
            return Err(Violation::Gap { at: self.received, got: offset });
        }
        self.end = Some(offset);
        Ok(())
    }

    /// Where the next message lies, if it is there whole; the one before it counts as taken from now on.
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>, Violation> {
        self.held.start = self.given;
        let Some((bytes, prefix)) = parse_length(&self.buffer[self.held.clone()])? else {
            return self.none();
        };
        if bytes > self.message_bytes_max {
            return Err(Violation::Message { bytes, most: self.message_bytes_max });
        }
        let begin = self.held.start + prefix;
        // At most `message_bytes_max`, which the memory of this machine holds.
        let end = begin + usize::try_from(bytes).map_err(|_| Violation::Damaged)?;
        if end > self.held.end {
            return self.none();
        }
        self.given = end;
        Ok(Some(begin..end))
    }

    /// The message that [`Incoming::next`] has found.
    pub(crate) fn message(&self, at: Range<usize>) -> &[u8] {
        &self.buffer[at]
    }

    /// No message is whole. A stream must not end within one.
    fn none(&self) -> Result<Option<Range<usize>>, Violation> {
        let within = self.end.is_some() && !self.held.is_empty();
        if within { Err(Violation::Damaged) } else { Ok(None) }
    }

    /// How far the sender may go: a window beyond what was taken, and always far enough for the message that has begun.
    fn allowed(&self) -> u64 {
        let consumed = self.consumed();
        let begun = &self.buffer[self.given..self.held.end];
        let needed = match parse_length(begun) {
            Ok(Some((bytes, prefix))) => bytes.min(self.message_bytes_max).saturating_add(prefix as u64),
            // The rest of a length that has begun.
            _ => LENGTH_BYTES_MAX as u64,
        };
        consumed.saturating_add(self.window.max(needed)).max(self.limit)
    }

    /// An acknowledgement, where the sender needs one: a quarter of the window was taken since the last, or it was asked for.
    pub(crate) fn ack(&mut self, wanted: bool) -> Option<Ack> {
        let (consumed, allowed) = (self.consumed(), self.allowed());
        let quarter = self.window.div_ceil(4);
        // A message longer than the window moves the limit without anything having been taken; and a sender that has sent
        // all it may hears of any byte more.
        let moved = allowed - self.limit >= quarter || self.received == self.limit && allowed > self.limit;
        let due = consumed - self.acked >= quarter || moved;
        if !due && !wanted {
            return None;
        }
        (self.acked, self.limit) = (consumed, allowed);
        let Welcome { received, consumed, limit } = self.state();
        Some(Ack { received, consumed, limit })
    }

    /// The answer to a sender that has made a new connection.
    pub(crate) fn welcome(&mut self) -> Welcome {
        // What a sender was allowed over the former connection stands: it may have sent it.
        self.limit = self.allowed();
        self.acked = self.consumed();
        self.state()
    }

    /// How far this end has got, the end of the stream counted.
    fn state(&self) -> Welcome {
        Welcome {
            received: self.received + u64::from(self.end.is_some()),
            consumed: self.consumed() + u64::from(self.end_taken),
            limit: self.limit,
        }
    }

    /// Bytes that are held and not taken.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.end - self.given
    }
}

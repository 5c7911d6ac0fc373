//! The receiver's flow control: the bytes that have arrived and were not consumed yet, and how many more may
//! arrive.

use super::{LENGTH_BYTES_MAX, parse_length};
use crate::wire::{Ack, Header, Violation, Welcome};
use std::ops::Range;

/// The bytes that have arrived and were not consumed.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The storage, in which the bytes that have arrived are those at `held`.
    buffer: Vec<u8>,
    held: Range<usize>,
    /// The offset after the last byte that has arrived.
    received: u64,
    /// The end in `buffer` of the message that was returned last; the next call consumes it.
    given: usize,
    /// The number of bytes that the sender may be ahead of the bytes consumed.
    window: u64,
    /// The longest message that is accepted.
    message_bytes_max: u64,
    /// The offset up to which the sender was allowed to send.
    limit: u64,
    /// The number of consumed bytes that the last acknowledgement stated.
    acked: u64,
    /// The offset at which the stream ends. The end counts as one byte after the last.
    end: Option<u64>,
    /// Whether the end was reported to the user.
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

    /// The offset after the last byte that was consumed.
    fn consumed(&self) -> u64 {
        self.received - (self.held.end - self.given) as u64
    }

    /// Whether the sender has ended the stream, and all of it was returned to the user.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.received) && self.given == self.held.end
    }

    /// The end of the stream was reported to the user.
    pub(crate) fn take_end(&mut self) {
        self.end_taken = true;
    }

    /// Memory for the missing bytes of the payload of a plain data frame; its first `got` bytes were filled
    /// in before. When the memory is full, the caller calls [`Incoming::arrived`].
    pub(crate) fn room(&mut self, header: &Header, got: usize) -> Result<&mut [u8], Violation> {
        self.check(header.offset, header.payload_bytes)?;
        let bytes = header.payload_bytes;
        self.make_room(bytes, got);
        Ok(&mut self.buffer[self.held.end..][got..bytes])
    }

    /// The memory from [`Incoming::room`] was filled: these bytes are part of the stream now.
    pub(crate) fn arrived(&mut self, bytes: usize) {
        self.held.end += bytes;
        self.received += bytes as u64;
    }

    /// Appends a piece of the stream that was decoded elsewhere.
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

    /// Makes room for `bytes` bytes after the bytes that are held; the first `got` of the new bytes have
    /// arrived already and are kept.
    fn make_room(&mut self, bytes: usize, got: usize) {
        if self.given == self.held.end && got == 0 {
            (self.held, self.given) = (0..0, 0);
        }
        let has_room = self.buffer.len() - self.held.end >= bytes;
        if has_room && (got > 0 || !self.is_moved_early()) {
            return;
        }
        self.buffer.copy_within(self.given..self.held.end + got, 0);
        (self.held, self.given) = (0..self.held.end - self.given, 0);
        let needed = self.held.end + bytes;
        if self.buffer.len() < needed {
            // The storage is zeroed once and reused from then on.
            self.buffer.resize(needed.next_power_of_two(), 0);
        }
    }

    /// Whether the message that has begun will have to be moved to the front of the buffer before it is
    /// complete, and fits there. It is moved at once, while few of its bytes have arrived.
    fn is_moved_early(&self) -> bool {
        let begun = &self.buffer[self.given..self.held.end];
        let Ok(Some((bytes, prefix))) = parse_length(begun) else { return false };
        let total = bytes.saturating_add(prefix as u64);
        let (front, here) = (self.buffer.len() as u64, (self.buffer.len() - self.given) as u64);
        here < total && total <= front
    }

    /// The sender reports that the stream ends at `offset`.
    pub(crate) fn finish(&mut self, offset: u64) -> Result<(), Violation> {
        if offset != self.received || self.end.is_some_and(|end| end != offset) {
            return Err(Violation::Gap { at: self.received, got: offset });
        }
        self.end = Some(offset);
        Ok(())
    }

    /// The place of the next message, if it has arrived completely; the message before it counts as consumed
    /// from now on.
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>, Violation> {
        self.held.start = self.given;
        let Some((bytes, prefix)) = parse_length(&self.buffer[self.held.clone()])? else {
            return self.none();
        };
        if bytes > self.message_bytes_max {
            return Err(Violation::Message { bytes, most: self.message_bytes_max });
        }
        let begin = self.held.start + prefix;
        // The length is at most `message_bytes_max`, which fits into this machine's memory.
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

    /// No message has arrived completely. If the stream has ended within a message, the sender has violated
    /// the protocol.
    fn none(&self) -> Result<Option<Range<usize>>, Violation> {
        let within = self.end.is_some() && !self.held.is_empty();
        if within { Err(Violation::Damaged) } else { Ok(None) }
    }

    /// The offset up to which the sender may send: a window beyond the bytes consumed, and always half a
    /// window beyond the message that has begun, so that the sender does not wait until it is consumed.
    fn allowed(&self) -> u64 {
        let consumed = self.consumed();
        let begun = &self.buffer[self.given..self.held.end];
        let needed = match parse_length(begun) {
            Ok(Some((bytes, prefix))) => bytes.min(self.message_bytes_max).saturating_add(prefix as u64),
            // If the length of the next message has arrived only in part, the sender must be allowed to send
            // all of the length.
            _ => LENGTH_BYTES_MAX as u64,
        };
        consumed.saturating_add(self.window.max(needed.saturating_add(self.window / 2))).max(self.limit)
    }

    /// An acknowledgement, if the sender needs one because a quarter of the window was consumed since the
    /// last acknowledgement, or because the sender asked for one.
    pub(crate) fn ack(&mut self, wanted: bool) -> Option<Ack> {
        let (consumed, allowed) = (self.consumed(), self.allowed());
        let quarter = self.window.div_ceil(4);
        // A message longer than the window moves the limit although nothing was consumed; and a sender that
        // has sent all that it may gets an acknowledgement as soon as it may send one more byte.
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
        // The limit that the former connection allowed remains valid, because the sender may have sent up to
        // it.
        self.limit = self.allowed();
        self.acked = self.consumed();
        self.state()
    }

    /// The state of this end, in which the end of the stream counts as a byte.
    fn state(&self) -> Welcome {
        Welcome {
            received: self.received + u64::from(self.end.is_some()),
            consumed: self.consumed() + u64::from(self.end_taken),
            limit: self.limit,
        }
    }

    /// The number of bytes that are held and not consumed.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.end - self.given
    }
}

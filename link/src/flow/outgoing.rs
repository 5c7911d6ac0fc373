//! The sender's flow control: it keeps bytes that were not acknowledged, and computes what may be sent next.

use super::length;
use crate::wire::{Ack, Violation, Welcome};
use std::collections::VecDeque;

/// A piece of the stream that may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    /// Whether the sender needs an acknowledgement, because it will soon have no room.
    pub(crate) ack_wanted: bool,
}

/// A message of fewer bytes is appended together with its length, which is one byte then.
const SMALL_BYTES: usize = 64;

/// The bytes that are not sent yet, or were sent and not acknowledged.
#[derive(Debug)]
pub(crate) struct Outgoing {
    kept: VecDeque<u8>,
    /// The most bytes that are kept; the message that exceeds this number is accepted, and no further one.
    capacity: usize,
    /// The offset of the first kept byte.
    released: u64,
    /// The offset of the next byte to be sent over this connection.
    sent: u64,
    /// The highest offset that was ever sent.
    sent_max: u64,
    consumed: u64,
    /// The offset up to which the receiver allows to send.
    limit: u64,
    /// Whether the stream has ended. The end counts as one byte after the last.
    ended: bool,
    /// Whether the end was sent over this connection.
    end_sent: bool,
    /// Whether the end was sent over some connection.
    end_sent_ever: bool,
}

impl Outgoing {
    pub(crate) fn new(capacity: usize) -> Outgoing {
        Outgoing {
            kept: VecDeque::new(),
            capacity,
            released: 0,
            sent: 0,
            sent_max: 0,
            consumed: 0,
            limit: 0,
            ended: false,
            end_sent: false,
            end_sent_ever: false,
        }
    }

    /// Whether another message is accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.kept.len() < self.capacity
    }

    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Appends a message. The caller has checked that there is room.
    pub(crate) fn push(&mut self, message: &[u8]) {
        debug_assert!(!self.ended, "the stream has ended");
        if message.len() < SMALL_BYTES {
            // One piece is appended faster than two.
            let mut both = [0; SMALL_BYTES];
            both[0] = message.len() as u8;
            both[1..=message.len()].copy_from_slice(message);
            self.kept.extend(&both[..=message.len()]);
            return;
        }
        let (prefix, bytes) = length(message.len() as u64);
        self.kept.extend(&prefix[..bytes]);
        self.kept.extend(message);
    }

    /// The offset after the last byte pushed.
    pub(crate) fn end(&self) -> u64 {
        self.released + self.kept.len() as u64
    }

    /// The number of bytes that were pushed and not acknowledged, sent or not.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self) {
        self.ended = true;
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Bytes that are kept and not yet sent over this connection.
    pub(crate) fn unsent(&self) -> u64 {
        self.end() - self.sent
    }

    /// Bytes sent over some connection and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.sent_max - self.released
    }

    /// Whether the receiver's user has consumed everything, including the end.
    pub(crate) fn is_consumed(&self) -> bool {
        self.ended && self.consumed > self.end()
    }

    /// Whether the end of the stream has to be sent next. Sending the end needs no credit.
    pub(crate) fn is_end_due(&self) -> bool {
        self.ended && self.unsent() == 0 && !self.end_sent
    }

    /// The end was written to the connection.
    pub(crate) fn mark_end_sent(&mut self) {
        self.end_sent = true;
        self.end_sent_ever = true;
    }

    /// The next piece to send, of at most `bytes_max` bytes.
    pub(crate) fn piece(&self, bytes_max: usize) -> Option<Piece> {
        let allowed = self.limit.saturating_sub(self.sent).min(self.unsent());
        let bytes = usize::try_from(allowed).unwrap_or(usize::MAX).min(bytes_max);
        let after = self.sent + bytes as u64;
        let ack_wanted = after - self.released >= self.capacity as u64 / 2 || after == self.limit;
        (bytes > 0).then_some(Piece { offset: self.sent, bytes, ack_wanted })
    }

    /// Whether there is something to send that the receiver has no room for.
    pub(crate) fn lacks_credit(&self) -> bool {
        self.unsent() > 0 && self.limit <= self.sent
    }

    /// The bytes of the stream from `offset`, which are not acknowledged yet.
    pub(crate) fn bytes(&self, offset: u64, bytes: usize) -> [&[u8]; 2] {
        let from = usize::try_from(offset - self.released).unwrap();
        let (first, second) = self.kept.as_slices();
        if from >= first.len() {
            return [&second[from - first.len()..][..bytes], &[]];
        }
        let in_first = bytes.min(first.len() - from);
        [&first[from..][..in_first], &second[..bytes - in_first]]
    }

    /// The piece is written from now on. The receiver may have a part of it when the connection breaks.
    pub(crate) fn mark_begun(&mut self, piece: Piece) {
        self.sent_max = self.sent_max.max(piece.offset + piece.bytes as u64);
    }

    /// The first byte that the receiver is not known to have.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// The piece was written to the connection.
    pub(crate) fn mark_sent(&mut self, piece: Piece) {
        debug_assert_eq!(piece.offset, self.sent);
        self.sent += piece.bytes as u64;
        self.sent_max = self.sent_max.max(self.sent);
    }

    /// Handles an acknowledgement.
    pub(crate) fn acknowledged(&mut self, ack: Ack) -> Result<(), Violation> {
        let forward =
            ack.received >= self.released && ack.consumed >= self.consumed && ack.limit >= self.limit;
        let sent = self.sent + u64::from(self.end_sent);
        if !forward || ack.received > sent || ack.consumed > ack.received {
            return Err(Violation::Ack);
        }
        self.take(ack.received, ack.consumed, ack.limit);
        Ok(())
    }

    /// Continues over a new connection at the first byte that the receiver lacks. The receiver's room may
    /// have become smaller.
    pub(crate) fn resume(&mut self, welcome: Welcome) -> Result<(), Violation> {
        let Welcome { received, consumed, limit } = welcome;
        let sent = self.sent_max + u64::from(self.end_sent_ever);
        let backward = received < self.released || consumed < self.consumed;
        if backward || received > sent || consumed > received {
            return Err(Violation::Ack);
        }
        self.end_sent = received > self.end();
        self.take(received, consumed, limit);
        self.sent = self.released;
        Ok(())
    }

    fn take(&mut self, received: u64, consumed: u64, limit: u64) {
        let free = usize::try_from(received.min(self.end()) - self.released).unwrap();
        self.kept.drain(..free);
        self.released += free as u64;
        self.consumed = consumed;
        self.limit = limit;
    }
}

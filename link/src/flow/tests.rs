use super::*;
use crate::Violation;
use crate::wire::{Ack, Header, Kind, Welcome};
use proptest::prelude::*;
use std::collections::VecDeque;

/// An event in the life of a link.
#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Send(usize),
    /// The connection delivers this many of the frames (or acknowledgements) that are on their way.
    Deliver(usize),
    Take(usize),
    /// The connection breaks: frames on their way are lost, and a new connection is made.
    Break,
    Window(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_usize..600).prop_map(Step::Push),
        4 => (1_usize..400).prop_map(Step::Send),
        4 => (0_usize..4).prop_map(Step::Deliver),
        3 => (0_usize..6).prop_map(Step::Take),
        1 => Just(Step::Break),
        1 => (1_u64..1000).prop_map(Step::Window),
    ];
    prop::collection::vec(step, 0..200)
}

/// A link without sockets. The test only compares the messages delivered with those pushed, and does not
/// depend on the protocol.
struct Pair {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Frames on their way: offset, bytes, and whether the sender wants an acknowledgement.
    frames: VecDeque<(u64, Vec<u8>, bool)>,
    acks: VecDeque<Ack>,
    pushed: Vec<Vec<u8>>,
    taken: usize,
}

impl Pair {
    fn new(capacity: usize, window: u64) -> Pair {
        let mut pair = Pair {
            outgoing: Outgoing::new(capacity),
            incoming: Incoming::new(window, 1 << 20),
            frames: VecDeque::new(),
            acks: VecDeque::new(),
            pushed: Vec::new(),
            taken: 0,
        };
        pair.connect();
        pair
    }

    fn connect(&mut self) {
        self.frames.clear();
        self.acks.clear();
        self.outgoing.resume(self.incoming.welcome()).unwrap();
    }

    fn push(&mut self, bytes: usize) {
        if self.outgoing.has_room() {
            let message: Vec<u8> = (0..bytes).map(|at| (self.pushed.len() * 31 + at) as u8).collect();
            self.outgoing.push(&message);
            self.pushed.push(message);
        }
    }

    fn send(&mut self, most: usize) {
        let Some(piece) = self.outgoing.piece(most) else { return };
        let bytes = self.outgoing.bytes(piece.offset, piece.bytes).concat();
        self.outgoing.mark_sent(piece);
        self.frames.push_back((piece.offset, bytes, piece.ack_wanted));
    }

    fn deliver(&mut self, plain: bool) {
        if let Some((offset, bytes, wanted)) = self.frames.pop_front() {
            if plain {
                let header = Header::new(Kind::Data, offset, bytes.len());
                // The payload arrives in two parts, between which the user receives a message.
                let got = bytes.len() / 2;
                self.incoming.room(&header, 0).unwrap()[..got].copy_from_slice(&bytes[..got]);
                self.take();
                self.incoming.room(&header, got).unwrap().copy_from_slice(&bytes[got..]);
                self.incoming.arrived(bytes.len());
            } else {
                self.incoming.take(offset, &bytes).unwrap();
            }
            self.acks.extend(self.incoming.ack(wanted));
        }
        if let Some(ack) = self.acks.pop_front() {
            self.outgoing.acknowledged(ack).unwrap();
        }
    }

    fn take(&mut self) -> bool {
        let next = self.incoming.next().unwrap();
        self.acks.extend(self.incoming.ack(false));
        let Some(at) = next else { return false };
        assert_eq!(self.incoming.message(at), self.pushed[self.taken], "message {}", self.taken);
        self.taken += 1;
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// For every order of events, each message arrives once and in order, the receiver never holds more than
    /// its window allows, and all messages arrive once the connection no longer breaks.
    #[test]
    fn each_once_and_in_order(steps in steps(), capacity in 1_usize..3000, window in 1_u64..2000) {
        let mut pair = Pair::new(capacity, window);
        let mut largest_window = window;
        for step in steps {
            match step {
                Step::Push(bytes) => pair.push(bytes),
                Step::Send(most) => pair.send(most),
                Step::Deliver(count) => (0..count).for_each(|round| pair.deliver(round % 2 == 0)),
                Step::Take(count) => _ = (0..count).filter(|_| pair.take()).count(),
                Step::Break => pair.connect(),
                Step::Window(window) => {
                    pair.incoming.set_window(window);
                    largest_window = largest_window.max(window);
                }
            }
            // The receiver also has room for one message that is longer than the window (at most 600 bytes
            // and its length) and half a window.
            let most = largest_window.max(600 + 2 + largest_window / 2);
            prop_assert!(pair.incoming.held_bytes() as u64 <= most, "{} of {}", pair.incoming.held_bytes(), most);
            // The bytes kept are at most the capacity, the message that exceeded it, and that message's
            // length.
            let kept = pair.outgoing.kept_bytes();
            prop_assert!(kept <= (capacity + 600 + 2) as u64, "{} of {}", kept, capacity);
        }
        pair.outgoing.finish();
        let mut idle = 0;
        while pair.taken < pair.pushed.len() {
            let before = (pair.taken, pair.outgoing.unsent(), pair.acks.len(), pair.frames.len());
            pair.send(100);
            pair.deliver(true);
            pair.take();
            idle = if before == (pair.taken, pair.outgoing.unsent(), pair.acks.len(), pair.frames.len()) { idle + 1 } else { 0 };
            prop_assert!(idle < 10, "stuck at {} of {}: {:?}", pair.taken, pair.pushed.len(), pair.outgoing);
        }
        prop_assert!(pair.outgoing.is_end_due() && !pair.outgoing.is_consumed());
        for is_lost in [true, false] {
            pair.outgoing.mark_end_sent();
            if is_lost {
                pair.connect();
                prop_assert!(pair.outgoing.is_end_due());
            }
        }
        pair.incoming.finish(pair.outgoing.end()).unwrap();
        prop_assert!(!pair.take());
        prop_assert!(pair.incoming.is_finished());
        let ack = pair.incoming.ack(true).unwrap();
        pair.outgoing.acknowledged(ack).unwrap();
        prop_assert!(!pair.outgoing.is_consumed(), "the user does not know of the end");
        pair.incoming.take_end();
        pair.connect();
        prop_assert!(pair.outgoing.is_consumed() && !pair.outgoing.is_end_due());
    }

    /// False acknowledgements from a receiver are an error, and leave the sender in a valid state.
    #[test]
    fn any_acknowledgement(steps in steps(), lies in prop::collection::vec((0_u64..2000, 0_u64..2000, any::<u64>()), 1..20)) {
        let mut pair = Pair::new(500, 500);
        for step in steps {
            match step {
                Step::Push(bytes) => pair.push(bytes),
                Step::Send(most) => pair.send(most),
                _ => pair.deliver(true),
            }
        }
        for (received, consumed, limit) in lies {
            let end = pair.outgoing.end();
            let kept = pair.outgoing.unsent();
            let honest = pair.outgoing.acknowledged(Ack { received, consumed, limit });
            prop_assert!(honest.is_err() || received <= end);
            let _ = pair.outgoing.resume(Welcome { received, consumed, limit });
            prop_assert_eq!(pair.outgoing.end(), end);
            prop_assert!(pair.outgoing.unsent() <= end && kept <= end);
            if let Some(piece) = pair.outgoing.piece(100) {
                let bytes = pair.outgoing.bytes(piece.offset, piece.bytes);
                prop_assert_eq!(bytes[0].len() + bytes[1].len(), piece.bytes);
            }
        }
    }

    /// False pieces from a sender are an error, and the receiver holds no more than it allowed.
    #[test]
    fn any_piece(pieces in prop::collection::vec((0_u64..300, prop::collection::vec(any::<u8>(), 1..200)), 0..30)) {
        let mut incoming = Incoming::new(150, 1000);
        incoming.welcome();
        let mut at = 0;
        for (offset, bytes) in pieces {
            // Half of the pieces continue the stream.
            let offset = if offset % 2 == 0 { at } else { offset };
            if incoming.take(offset, &bytes).is_ok() {
                at += bytes.len() as u64;
            }
            while let Ok(Some(at)) = incoming.next() {
                prop_assert!(incoming.message(at).len() <= 1000);
            }
            prop_assert!(incoming.held_bytes() <= 1010 + 150 / 2);
            let _ = incoming.ack(true);
        }
    }

    #[test]
    fn lengths_come_back(bytes: u64, more in prop::collection::vec(any::<u8>(), 0..4)) {
        let (encoded, count) = length(bytes);
        prop_assert_eq!(parse_length(&[&encoded[..count], &more].concat()), Ok(Some((bytes, count))));
        prop_assert_eq!(parse_length(&encoded[..count - 1]), Ok(None));
    }
}

#[test]
fn a_length_is_at_most_64_bits() {
    assert_eq!(parse_length(&[0xff; 9]), Ok(None));
    assert_eq!(parse_length(&[0xff; 10]), Err(Violation::Damaged));
    assert_eq!(parse_length(&[&[0xff; 9][..], &[1]].concat()), Ok(Some((u64::MAX, 10))));
}

#[test]
fn a_stream_does_not_end_within_a_message() {
    let mut incoming = Incoming::new(100, 100);
    incoming.welcome();
    incoming.take(0, &[5, b'a', b'b']).unwrap();
    incoming.finish(3).unwrap();
    assert_eq!(incoming.next(), Err(Violation::Damaged));
    assert!(!incoming.is_finished());
}

#[test]
fn a_message_that_is_too_long_is_refused_by_its_length() {
    let mut incoming = Incoming::new(100, 100);
    incoming.welcome();
    incoming.take(0, &length(101).0[..1]).unwrap();
    assert_eq!(incoming.next(), Err(Violation::Message { bytes: 101, most: 100 }));
}

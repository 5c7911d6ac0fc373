//! Links between nodes: messages in order, none lost or doubled, over connections that may break.
//!
//! A *link* carries a stream of messages (byte strings) from one process to another. The link's [`Sender`]
//! keeps the bytes that the receiver has not acknowledged; when the connection breaks, the sender connects
//! again, perhaps elsewhere or over another transport, and continues at the byte that the [`Receiver`] lacks.
//! The receiver reports how much room it has (credit), so a slow user holds back only its own sender.
//!
//! Sending and receiving go through the [`Ports`] of a node: `k` of them, each with one k-th of the bandwidth
//! if that is limited, which no window of 100 ms exceeds. [`PeerClock`] bounds the difference of two hosts'
//! clocks.
//!
//! ```
//! use thalweg_link::{Address, LinkId, Listener, Receiver, ReceiverOptions, Sender, SenderOptions, Tuning};
//!
//! let token = [7; 32];
//! let link = LinkId { session: [0; 16], number: 1 };
//! let listener = Listener::new(&Address::Tcp("127.0.0.1:0".into()), token)?;
//! let tuning = Tuning::new(listener.address().clone());
//! let mut receiver = Receiver::new(listener.place(link)?, ReceiverOptions::new(tuning.clone()))?;
//! let sending = std::thread::spawn(move || {
//!     let mut sender = Sender::new(SenderOptions { token, ..SenderOptions::new(link, tuning) })?;
//!     sender.push(b"water")?;
//!     sender.push(b"stone")?;
//!     sender.finish()
//! });
//! assert_eq!(receiver.recv()?, Some(&b"water"[..]));
//! assert_eq!(receiver.recv()?, Some(&b"stone"[..]));
//! assert_eq!(receiver.recv()?, None);
//! sending.join().unwrap()?;
//! # Ok::<(), thalweg_link::Error>(())
//! ```
#![deny(unsafe_code)]

mod clock;
mod counters;
mod ends;
mod error;
mod flow;
mod pace;
mod ports;
pub mod secure;
mod transport;
mod tuning;
mod watch;
mod wire;

pub use clock::{Bound, Exchange, Learned, PeerClock};
pub use counters::{Counters, Counts};
pub use ends::{
    LEASE, Listener, Passing, Place, Receiver, ReceiverOptions, Sender, SenderOptions, Stop, system_ns,
};
pub use error::Error;
pub use pace::{Pace, WINDOW_NS};
pub use ports::{PORTS_MAX, Ports, Turn};
pub use transport::Address;
pub use tuning::{BUFFER_BYTES, FRAME_BYTES, FRAME_BYTES_MIN, Tuning, WINDOW_BYTES};
pub use watch::Watch;
pub use wire::{Encoding, PAYLOAD_BYTES_MAX, Violation};

/// Identifies a link among the links of all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId {
    /// The session that the link belongs to.
    pub session: [u8; 16],
    /// The link's number in the session.
    pub number: u64,
}

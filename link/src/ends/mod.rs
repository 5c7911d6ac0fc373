//! The two ends of a link, and the listener for a node's senders.
//!
//! Each end belongs to one thread, which reads and writes the connection itself: a message is not handed from
//! thread to thread on its way, which would cost a wake-up (some 20 µs) at either end.

mod eager;
mod frames;
mod listener;
mod passing;
mod receiver;
mod sender;
mod stop;

pub use listener::{Listener, Place};
pub use passing::Passing;
pub use receiver::{Receiver, ReceiverOptions};
pub use sender::{Sender, SenderOptions, system_ns};
pub use stop::Stop;

use std::time::Duration;

/// How long an end waits for the other one, by default: for a first connection, and for a new one after one
/// broke.
pub const LEASE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;

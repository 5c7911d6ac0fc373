//! Passes connections of other processes on: bytes that come from a sender go to the listener that it named, and back.
//! The two ends number, acknowledge and send again what they exchange, so a connection that is passed on may break like
//! any other.

use super::stop::Stop;
use crate::ports::Ports;
use crate::secure::Identity;
use crate::transport::{Address, Connection, is_later, wait_for};
use crate::wire::Refusal;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The bytes that wait in one direction.
const HELD_BYTES: usize = 64 << 10;
/// How long a connection to the other listener may take.
const REACHING: Duration = Duration::from_secs(2);
/// How long the bytes of an end that has closed may take to reach the other end.
const ENDING: Duration = Duration::from_secs(2);
/// How long a wait lasts at most.
const LOOK: Duration = Duration::from_secs(60);

/// How a listener passes connections of a session on.
pub struct Passing {
    /// The address of the listener with this number.
    pub reach: Box<dyn Fn(u64) -> Option<Address> + Send + Sync>,
    /// The ports that count what is sent. Their limits do not hold for what is passed on.
    pub sending: Ports,
    /// The ports that count what is received.
    pub receiving: Ports,
}

impl std::fmt::Debug for Passing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passing").finish_non_exhaustive()
    }
}

/// The bytes of one direction.
struct Way {
    bytes: Box<[u8]>,
    held: std::ops::Range<usize>,
    /// Whether no more bytes come.
    is_ended: bool,
}

impl Way {
    /// A direction in which these bytes were read already.
    fn new(first: &[u8]) -> Way {
        let mut bytes = vec![0; HELD_BYTES.max(first.len())].into_boxed_slice();
        bytes[..first.len()].copy_from_slice(first);
        Way { bytes, held: 0..first.len(), is_ended: false }
    }

    /// Moves bytes as far as possible without a wait; returns how many were read or written.
    fn step(&mut self, from: &mut Connection, to: &mut Connection, passing: &Passing) -> io::Result<usize> {
        let mut moved = 0;
        if self.held.is_empty() && !self.is_ended {
            match from.read(&mut [IoSliceMut::new(&mut self.bytes)]) {
                // An end that failed sends as little as one that has closed.
                Ok(0) => self.is_ended = true,
                Ok(bytes) => {
                    self.held = 0..bytes;
                    passing.receiving.carry(bytes as u64);
                    moved += bytes;
                }
                Err(error) if is_later(&error) => {}
                Err(_) => self.is_ended = true,
            }
        }
        if !self.held.is_empty() {
            match to.write(&[IoSlice::new(&self.bytes[self.held.clone()])]) {
                Ok(bytes) => {
                    self.held.start += bytes;
                    passing.sending.carry(bytes as u64);
                    moved += bytes;
                }
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    /// Whether all bytes of an end that has closed are on their way to the other end.
    fn is_done(&self, to: &Connection) -> bool {
        self.is_ended && self.held.is_empty() && !to.owes()
    }
}

/// Connects to `address`, or tells the sender that this is not possible, and passes bytes on until an end closes.
pub(super) fn pass(
    mut from: Connection,
    first: &[u8],
    (to, address): (u64, Option<Address>),
    identity: Option<&Identity>,
    (passing, stop): (&Passing, &Stop),
) {
    let connected = match address {
        Some(address) => Connection::to(&address, identity, Instant::now() + REACHING)
            .map_err(|error| format!("it does not reach {address}: {error}")),
        None => Err(format!("it knows no listener of the number {to}")),
    };
    match connected {
        // An error ends both connections, which both ends notice.
        Ok(mut to) => _ = carry(&mut from, &mut to, first, (passing, stop)),
        Err(why) => refuse(&mut from, why, stop),
    }
}

fn refuse(from: &mut Connection, why: String, stop: &Stop) {
    // Errors are ignored: a sender that does not get the refusal tries the next listener as well.
    let _ = from.write(&[IoSlice::new(&Refusal { is_final: false, why }.encode())]);
    let until = Instant::now() + ENDING;
    while from.owes() && Instant::now() < until && from.wait(true, &[stop.bell()], until).is_ok() {}
}

fn carry(
    from: &mut Connection,
    to: &mut Connection,
    first: &[u8],
    (passing, stop): (&Passing, &Stop),
) -> io::Result<()> {
    let (mut there, mut back) = (Way::new(first), Way::new(&[]));
    let mut ended = None;
    while !stop.is_asked() {
        if there.step(from, to, passing)? + back.step(to, from, passing)? > 0 {
            continue;
        }
        let mut until = Instant::now() + LOOK;
        if there.is_ended || back.is_ended {
            until = *ended.get_or_insert_with(|| Instant::now() + ENDING);
            if there.is_done(to) || back.is_done(from) || Instant::now() >= until {
                return Ok(());
            }
        }
        let mut fds = vec![PollFd::from_borrowed_fd(stop.bell(), PollFlags::IN)];
        for (end, reads, writes) in [(&*from, &there, &back), (&*to, &back, &there)] {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads.held.is_empty() && !reads.is_ended);
            flags.set(PollFlags::OUT, !writes.held.is_empty() || end.owes());
            // The system reports a reset also where nothing was asked for, so such an end is left out.
            if !flags.is_empty() {
                fds.push(PollFd::from_borrowed_fd(end.as_fd(), flags));
            }
        }
        wait_for(&mut fds, until)?;
        from.settle()?;
        to.settle()?;
    }
    Ok(())
}

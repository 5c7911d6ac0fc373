//! Passes connections of other processes on: bytes that come from a sender go to the listener that it named, and back.
//! The two ends number, acknowledge and send again what they exchange, so a connection that is passed on may break like
//! any other.

use super::stop::Stop;
use crate::ports::{Ports, Turn};
use crate::secure::{Identity, Secret};
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
/// How long a wait for a port lasts before the other direction is looked at.
const TURN: Duration = Duration::from_millis(20);

/// How a listener passes connections of a session on.
pub struct Passing {
    /// The address of the listener with this number.
    pub reach: Box<dyn Fn(u64) -> Option<Address> + Send + Sync>,
    /// The ports through which is sent what comes from senders. Answers of receivers pass without a port, as those
    /// of this process's own receivers do.
    pub sending: Ports,
    /// The ports through which is received what comes from senders.
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
    /// The bytes come from a sender, so the limits of the bandwidth hold.
    is_limited: bool,
    /// The port that this direction keeps through a pause, and the end of the pause.
    pause: Option<(Turn, Instant)>,
}

/// What the limits allow now.
enum Allowed {
    /// So many bytes, and the port that they go through; there is none without a limit.
    Bytes(usize, Option<Turn>),
    Later,
}

impl Way {
    /// A direction in which these bytes were read already.
    fn new(first: &[u8], is_limited: bool) -> Way {
        let mut bytes = vec![0; HELD_BYTES.max(first.len())].into_boxed_slice();
        bytes[..first.len()].copy_from_slice(first);
        Way { bytes, held: 0..first.len(), is_ended: false, is_limited, pause: None }
    }

    /// How many bytes may go through these ports now. Waits for a port for a short time.
    fn allowed(&mut self, ports: &Ports) -> Allowed {
        if !self.is_limited || ports.bandwidth() == 0 {
            self.pause = None;
            return Allowed::Bytes(usize::MAX, None);
        }
        let kept = self.pause.take().map(|(turn, _)| turn);
        let Some(mut turn) = kept.or_else(|| ports.take(Instant::now() + TURN)) else {
            return Allowed::Later;
        };
        match turn.allowance() {
            Ok(bytes) => Allowed::Bytes(usize::try_from(bytes).unwrap_or(usize::MAX), Some(turn)),
            Err(time) => {
                self.pause = Some((turn, Instant::now() + time));
                Allowed::Later
            }
        }
    }

    /// Whether the next read or write has to wait for the limits.
    fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// Moves bytes as far as possible without a wait; returns how many were read or written.
    fn step(&mut self, from: &mut Connection, to: &mut Connection, passing: &Passing) -> io::Result<usize> {
        if self.is_paused() {
            return Ok(0);
        }
        let mut moved = 0;
        if self.held.is_empty()
            && !self.is_ended
            && let Allowed::Bytes(most, turn) = self.allowed(&passing.receiving)
        {
            let room = self.bytes.len().min(most);
            match from.read(&mut [IoSliceMut::new(&mut self.bytes[..room])]) {
                // An end that failed sends as little as one that has closed.
                Ok(0) => self.is_ended = true,
                Ok(bytes) => {
                    self.held = 0..bytes;
                    count(&passing.receiving, turn, bytes);
                    moved += bytes;
                }
                Err(error) if is_later(&error) => {}
                Err(_) => self.is_ended = true,
            }
        }
        if !self.held.is_empty()
            && let Allowed::Bytes(most, turn) = self.allowed(&passing.sending)
        {
            let bytes = self.held.len().min(most);
            match to.write(&[IoSlice::new(&self.bytes[self.held.start..][..bytes])]) {
                Ok(bytes) => {
                    self.held.start += bytes;
                    count(&passing.sending, turn, bytes);
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

/// Counts bytes that went through a port, or through none.
fn count(ports: &Ports, turn: Option<Turn>, bytes: usize) {
    match turn {
        Some(mut turn) => turn.spend(bytes as u64),
        None => ports.carry(bytes as u64),
    }
}

/// Connects to `address`, or tells the sender that this is not possible, and passes bytes on until an end closes.
pub(super) fn pass(
    mut from: Connection,
    first: &[u8],
    (to, address): (u64, Option<Address>),
    identity: Option<(&Identity, &Secret)>,
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
    let (mut there, mut back) = (Way::new(first, true), Way::new(&[], false));
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
        let is_paused = there.is_paused();
        until = there.pause.as_ref().map_or(until, |(_, end)| until.min(*end));
        let mut fds = vec![PollFd::from_borrowed_fd(stop.bell(), PollFlags::IN)];
        for (end, reads, writes) in [(&*from, &there, &back), (&*to, &back, &there)] {
            let rests = |way: &Way| is_paused && way.is_limited;
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads.held.is_empty() && !reads.is_ended && !rests(reads));
            flags.set(PollFlags::OUT, !writes.held.is_empty() && !rests(writes) || end.owes());
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

//! The receiving end of a link.

use super::LEASE;
use super::eager::Eager;
use super::listener::{Arrived, Place};
use super::sender::system_ns;
use super::stop::Stop;
use crate::Violation;
use crate::counters::{Counters, Wait};
use crate::error::Error;
use crate::flow::Incoming;
use crate::ports::{Ports, Turn};
use crate::transport::{Connection, is_later};
use crate::tuning::Tuning;
use crate::wire::{ACK_WANTED, Encoding, HEADER_BYTES, Header, Kind, Refusal, decode, word};
use std::io::{self, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

/// The number of bytes that are read at once, besides a payload that goes directly to its place.
const SCRATCH_BYTES: usize = 64 << 10;
/// A plain piece of the stream of at least this many bytes is large. After it, only the next header is read
/// into the scratch memory, so the next piece goes to its place without a copy.
const LARGE_BYTES: usize = 64 << 10;
/// The most bytes of answers that may wait to be written. If more wait, the sender does not read its answers,
/// and the connection is closed.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// How long a wait lasts before the receiver checks whether it was stopped.
const LOOK: Duration = Duration::from_millis(100);

/// The options of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// The ports through which the receiver receives, shared with other links of this node.
    pub ports: Ports,
    /// The link's settings.
    pub tuning: Tuning,
    /// The longest message that the receiver accepts, in bytes.
    pub message_bytes_max: u64,
    /// How long the receiver waits for a sender, at first and after the connection broke.
    pub lease: Duration,
}

impl ReceiverOptions {
    /// The default options: the default lease, messages of up to 1 GiB, ports of its own without a limit.
    pub fn new(tuning: Tuning) -> ReceiverOptions {
        ReceiverOptions { ports: Ports::new(1, 0), tuning, message_bytes_max: 1 << 30, lease: LEASE }
    }
}

/// The receiving end of a link. Each receiver belongs to one thread.
#[derive(Debug)]
pub struct Receiver {
    options: ReceiverOptions,
    place: Place,
    flow: Incoming,
    /// The place in the buffer of the message that was found last.
    at: std::ops::Range<usize>,
    connected: Option<Connected>,
    eager: Eager,
    /// The sender of the stream. Another sender of the same link would not continue the stream.
    incarnation: Option<u64>,
    lost_since: Instant,
    counters: Counters,
    stop: Stop,
}

#[derive(Debug)]
struct Connected {
    connection: Connection,
    scratch: Box<[u8]>,
    /// The bytes of `scratch` that were read and not handled.
    held: std::ops::Range<usize>,
    frame: Frame,
    /// Whether the last piece of the stream was large.
    is_large: bool,
    /// Answers that are not written yet: the welcome, acknowledgements.
    answers: Vec<u8>,
    /// Whether the last read took all bytes that had arrived, so that another read would be useless before a
    /// wait.
    is_drained: bool,
}

/// The frame that is being read.
#[derive(Debug)]
enum Frame {
    Header,
    /// A plain piece of the stream, which is read directly to its place.
    Piece {
        header: Header,
        got: usize,
    },
    /// The payload of any other frame, which is read completely before it is used.
    Payload {
        header: Header,
        payload: Vec<u8>,
    },
}

/// The result of an attempt to read.
enum Got {
    Something,
    Later,
    Closed,
}

impl Receiver {
    /// Makes the receiver of the link that has this place.
    ///
    /// # Errors
    /// When the system has no more file descriptors.
    pub fn new(place: Place, options: ReceiverOptions) -> Result<Receiver, Error> {
        let stop = Stop::new().map_err(|e| Error::io("cannot make a link", e))?;
        let flow = Incoming::new(options.tuning.window_bytes(), options.message_bytes_max);
        Ok(Receiver {
            options,
            place,
            flow,
            at: 0..0,
            connected: None,
            eager: Eager::new(),
            incarnation: None,
            lost_since: Instant::now(),
            counters: Counters::default(),
            stop,
        })
    }

    /// The receiver's counters.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// A handle that ends the receiver's waits from another thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits for the next message; `None` when the sender has ended the stream. A message counts as consumed
    /// when the next one is asked for, and its sender gets the acknowledgement later.
    ///
    /// # Errors
    /// No sender was connected for the lease, the sender violates the protocol, or this end was stopped.
    pub fn recv(&mut self) -> Result<Option<&[u8]>, Error> {
        match self.find(None)? {
            Found::Message(at) => Ok(Some(self.flow.message(at))),
            Found::End | Found::Nothing => Ok(None),
        }
    }

    /// The next message if it comes before `deadline`; [`Receiver::is_ended`] returns whether the stream has
    /// ended.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn recv_until(&mut self, deadline: Instant) -> Result<Option<&[u8]>, Error> {
        match self.find(Some(deadline))? {
            Found::Message(at) => Ok(Some(self.flow.message(at))),
            Found::End | Found::Nothing => Ok(None),
        }
    }

    /// Waits for the next message until `deadline`, or for ever. Returns whether there is one, which
    /// [`Receiver::message`] then returns.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn advance(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        match self.find(deadline)? {
            Found::Message(at) => {
                self.at = at;
                Ok(true)
            }
            Found::End | Found::Nothing => Ok(false),
        }
    }

    /// The message that the last [`Receiver::advance`] found.
    pub fn message(&self) -> &[u8] {
        self.flow.message(self.at.clone())
    }

    #[cfg(test)]
    pub(super) fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Whether the sender has ended the stream and all of it was returned to the user.
    pub fn is_ended(&self) -> bool {
        self.flow.is_finished()
    }

    fn find(&mut self, deadline: Option<Instant>) -> Result<Found, Error> {
        loop {
            if let Some(at) = self.flow.next().map_err(|v| self.bad(v))? {
                self.counters.message(at.len());
                return Ok(Found::Message(at));
            }
            if self.stop.is_asked() {
                return Err(Error::stopped());
            }
            self.flow.set_window(self.options.tuning.window_bytes());
            self.counters.queued(self.flow.held_bytes() as u64);
            if self.flow.is_finished() {
                self.flow.take_end();
                self.acknowledge_end();
                return Ok(Found::End);
            }
            self.meet()?;
            self.acknowledge(false);
            if self.read(deadline)? {
                self.eager.arrived();
                continue;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Found::Nothing);
            }
            // With a limited bandwidth each look would take a port from other links.
            let may_look = self.options.ports.bandwidth() == 0;
            let looks_again = match &mut self.connected {
                Some(connected) if may_look && connected.awaits_small() => {
                    self.eager.looks_again(|| connected.connection.glance())
                }
                _ => false,
            };
            if !looks_again {
                self.wait(deadline)?;
            }
        }
    }

    /// Takes over a connection that the listener has accepted. The sender has already given up the former
    /// connection, if there was one.
    fn meet(&mut self) -> Result<(), Error> {
        if let Some(arrived) = self.place.take() {
            self.welcome(arrived);
        }
        if self.connected.is_none() && self.lost_since.elapsed() > self.options.lease {
            let (number, lease) = (self.place.link().number, self.options.lease);
            let what = if self.incarnation.is_some() { "has lost its sender" } else { "has no sender" };
            return Err(Error::new(format!("link {number} {what} for {lease:?}")));
        }
        Ok(())
    }

    fn welcome(&mut self, arrived: Arrived) {
        let Arrived { mut connection, incarnation } = arrived;
        if self.incarnation.is_some_and(|of| of != incarnation) {
            let why = "another sender has begun its stream".into();
            // A failure to write is ignored, because a sender that does not get the refusal connects again
            // and is refused again.
            let _ = connection.write(&[IoSlice::new(&Refusal { is_final: true, why }.encode())]);
            return;
        }
        self.incarnation = Some(incarnation);
        self.keep_part();
        let scratch = vec![0; SCRATCH_BYTES].into_boxed_slice();
        let answers = self.flow.welcome().encode();
        self.connected = Some(Connected {
            connection,
            scratch,
            held: 0..0,
            frame: Frame::Header,
            is_large: false,
            answers,
            is_drained: true,
        });
        self.counters.connection(0);
    }

    fn lose(&mut self) {
        self.keep_part();
        self.connected = None;
        self.lost_since = Instant::now();
    }

    /// Keeps what has arrived of a plain piece of the stream, because its connection will bring no more of it.
    fn keep_part(&mut self) {
        if let Some(Connected { frame: frame @ Frame::Piece { .. }, .. }) = &mut self.connected
            && let Frame::Piece { got, .. } = std::mem::replace(frame, Frame::Header)
        {
            self.flow.arrived(got);
        }
    }

    /// Queues an acknowledgement, if the sender needs one.
    fn acknowledge(&mut self, wanted: bool) {
        let Some(connected) = &mut self.connected else { return };
        if let Some(ack) = self.flow.ack(wanted) {
            ack.encode(&mut connected.answers);
        }
        if !connected.answer() {
            self.lose();
        }
    }

    /// Acknowledges that the user has consumed everything, so the sender can end. A sender that reconnects
    /// later gets this acknowledgement from the listener.
    fn acknowledge_end(&mut self) {
        if let Some(incarnation) = self.incarnation {
            self.place.ended(incarnation, self.flow.welcome());
        }
        if let Some(arrived) = self.place.take() {
            self.welcome(arrived);
        }
        self.acknowledge(true);
        let until = Instant::now() + LOOK;
        while self
            .connected
            .as_ref()
            .is_some_and(|connected| !connected.answers.is_empty() || connected.connection.owes())
            && Instant::now() < until
        {
            let Some(connected) = &mut self.connected else { return };
            let _ = connected.connection.wait(true, &[self.stop.bell()], until);
            if !connected.answer() {
                self.lose();
            }
        }
    }

    /// Waits for a port and, with it, for its share of the bandwidth, at most until `deadline`. Returns the port and the
    /// bytes that may be read; `None`: the wait was too long, or this end was stopped.
    fn allowed(&mut self, deadline: Option<Instant>) -> Option<(Turn, usize)> {
        let begun = Instant::now();
        let taken = self.options.ports.take(deadline.map_or(begun + LOOK, |at| at.min(begun + LOOK)));
        self.counters.waited(Wait::Port, begun.elapsed());
        let mut taken = taken?;
        loop {
            let pause = match taken.allowance() {
                Ok(bytes) => return Some((taken, usize::try_from(bytes).unwrap_or(usize::MAX))),
                Err(pause) => pause,
            };
            let begun = Instant::now();
            let left = deadline.map_or(LOOK, |at| at.saturating_duration_since(begun));
            if left.is_zero() || self.stop.is_asked() {
                return None;
            }
            std::thread::sleep(pause.min(LOOK).min(left));
            self.counters.waited(Wait::Pace, begun.elapsed());
        }
    }

    /// Reads the data that have arrived; returns whether there were any.
    fn read(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        let Some(connected) = &mut self.connected else { return Ok(false) };
        if std::mem::take(&mut connected.is_drained) {
            return Ok(false);
        }
        let mut turn = None;
        let allowed = match self.options.ports.bandwidth() {
            0 => usize::MAX,
            _ => match self.allowed(deadline) {
                Some((taken, allowed)) => {
                    turn = Some(taken);
                    allowed
                }
                None => return Ok(false),
            },
        };
        let Some(connected) = &mut self.connected else { return Ok(false) };
        let got = connected.read(&mut self.flow, allowed);
        match got {
            Ok(Ok((got, bytes, wanted))) => {
                match &mut turn {
                    Some(turn) => turn.spend(bytes as u64),
                    None => self.options.ports.carry(bytes as u64),
                }
                self.counters.wire(bytes);
                if wanted {
                    self.acknowledge(true);
                }
                match got {
                    Got::Something => Ok(true),
                    Got::Later => Ok(false),
                    Got::Closed => {
                        self.lose();
                        Ok(true)
                    }
                }
            }
            Ok(Err(violation)) => Err(self.bad(violation)),
            Err(_) => {
                self.lose();
                Ok(true)
            }
        }
    }

    /// Waits until data may have arrived, a connection has come, or `deadline`.
    fn wait(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let begun = Instant::now();
        let until = deadline.map_or(begun + LOOK, |deadline| deadline.min(begun + LOOK));
        let waited = match &mut self.connected {
            Some(connected) => {
                let to_write = !connected.answers.is_empty();
                connected.connection.wait(to_write, &[self.place.bell(), self.stop.bell()], until)
            }
            None => self.place.wait(&self.stop, until),
        };
        self.counters.waited(Wait::Connection, begun.elapsed());
        waited.map_err(|e| Error::io("cannot wait for a link", e))
    }

    fn bad(&self, violation: Violation) -> Error {
        let number = self.place.link().number;
        let from =
            self.connected.as_ref().map_or_else(String::new, |c| format!(" at {}", c.connection.peer()));
        Error::violation(
            format!("the sender of link {number}{from} does not keep to the protocol"),
            violation,
        )
    }
}

/// The message that a receiver found for its user.
enum Found {
    Message(std::ops::Range<usize>),
    End,
    Nothing,
}

type Attempt = io::Result<Result<(Got, usize, bool), Violation>>;

impl Connected {
    /// Whether the next bytes probably are a whole small frame. Of a large frame, more can be read at once
    /// after a sleep.
    fn awaits_small(&self) -> bool {
        !self.is_large && self.held.is_empty() && matches!(self.frame, Frame::Header)
    }

    /// Writes the queued answers; returns false if the connection is broken, or the other end does not read
    /// them.
    fn answer(&mut self) -> bool {
        while !self.answers.is_empty() {
            match self.connection.write(&[IoSlice::new(&self.answers)]) {
                Ok(0) => return false,
                Ok(written) => drop(self.answers.drain(..written)),
                Err(error) if is_later(&error) => return self.answers.len() <= ANSWERS_BYTES_MAX,
                Err(_) => return false,
            }
        }
        true
    }

    /// Reads at most `most` bytes and handles their frames. Returns how many bytes it read, and whether the
    /// sender asks for an acknowledgement.
    fn read(&mut self, flow: &mut Incoming, most: usize) -> Attempt {
        let mut wanted = false;
        // `held` contains at most a part of a header, because the last read handled all complete frames.
        let part = self.held.len();
        let (read, direct, offered) = match &mut self.frame {
            Frame::Piece { header, got } => {
                let room = match flow.room(header, *got) {
                    Ok(room) => room,
                    Err(violation) => return Ok(Err(violation)),
                };
                let bytes = room.len().min(most);
                let ahead = if self.is_large { HEADER_BYTES } else { SCRATCH_BYTES };
                let (first, second) = (&mut room[..bytes], &mut self.scratch[..(most - bytes).min(ahead)]);
                debug_assert_eq!(part, 0);
                let offered = bytes + second.len();
                (self.connection.read(&mut [IoSliceMut::new(first), IoSliceMut::new(second)]), bytes, offered)
            }
            frame => {
                let ends = matches!(frame, Frame::Header) && self.is_large;
                let room = &mut self.scratch[part..if ends { HEADER_BYTES } else { SCRATCH_BYTES }];
                let bytes = room.len().min(most);
                (self.connection.read(&mut [IoSliceMut::new(&mut room[..bytes])]), 0, bytes)
            }
        };
        let bytes = match read {
            Ok(0) => return Ok(Ok((Got::Closed, 0, false))),
            Ok(bytes) => bytes,
            Err(error) if is_later(&error) => return Ok(Ok((Got::Later, 0, false))),
            Err(error) => return Err(error),
        };
        self.is_drained = bytes < offered;
        let in_place = bytes.min(direct);
        self.held = 0..part + bytes - in_place;
        if let Frame::Piece { header, got } = &mut self.frame {
            *got += in_place;
            if *got == header.payload_bytes {
                wanted |= header.flags & ACK_WANTED != 0;
                flow.arrived(*got);
                self.frame = Frame::Header;
            }
        }
        Ok(self.work(flow, &mut wanted).map(|()| (Got::Something, bytes, wanted)))
    }

    /// Handles all bytes in `scratch`.
    fn work(&mut self, flow: &mut Incoming, wanted: &mut bool) -> Result<(), Violation> {
        loop {
            match &mut self.frame {
                Frame::Header => {
                    let held = &self.scratch[self.held.clone()];
                    let Some(header) = held.first_chunk::<HEADER_BYTES>() else {
                        self.keep_part();
                        return Ok(());
                    };
                    let header = Header::decode(*header)?;
                    self.held.start += HEADER_BYTES;
                    self.frame = match (header.kind, header.encoding) {
                        (Kind::Data, Encoding::Plain) => {
                            flow.room(&header, 0)?;
                            self.is_large = header.payload_bytes >= LARGE_BYTES;
                            Frame::Piece { header, got: 0 }
                        }
                        _ => Frame::Payload { header, payload: Vec::with_capacity(header.payload_bytes) },
                    };
                }
                Frame::Piece { header, got } => {
                    let room = flow.room(header, *got)?;
                    let bytes = room.len().min(self.held.len());
                    room[..bytes].copy_from_slice(&self.scratch[self.held.start..][..bytes]);
                    self.held.start += bytes;
                    *got += bytes;
                    if *got < header.payload_bytes {
                        return Ok(());
                    }
                    *wanted |= header.flags & ACK_WANTED != 0;
                    flow.arrived(*got);
                    self.frame = Frame::Header;
                }
                Frame::Payload { header, payload } => {
                    let bytes = (header.payload_bytes - payload.len()).min(self.held.len());
                    payload.extend(&self.scratch[self.held.start..][..bytes]);
                    self.held.start += bytes;
                    if payload.len() < header.payload_bytes {
                        return Ok(());
                    }
                    let (header, payload) = (*header, std::mem::take(payload));
                    self.frame = Frame::Header;
                    *wanted |= header.flags & ACK_WANTED != 0;
                    take(&header, &payload, flow, &mut self.answers)?;
                }
            }
        }
    }

    /// Moves a partial header to the front of `scratch`, so that the rest of the header can be read after it.
    fn keep_part(&mut self) {
        self.scratch.copy_within(self.held.clone(), 0);
        self.held = 0..self.held.len();
    }
}

/// Handles a complete frame that is no plain piece of the stream.
fn take(
    header: &Header,
    payload: &[u8],
    flow: &mut Incoming,
    answers: &mut Vec<u8>,
) -> Result<(), Violation> {
    match header.kind {
        Kind::Data => flow.take(header.offset, &decode(header.encoding, payload)?),
        Kind::End => flow.finish(header.offset),
        Kind::Ping => {
            let arrived = system_ns();
            answers.extend(Header::new(Kind::Pong, 0, 24).encode());
            answers.extend(word(payload, 0).to_le_bytes());
            answers.extend(arrived.to_le_bytes());
            answers.extend(system_ns().to_le_bytes());
            Ok(())
        }
        _ => Err(Violation::Order),
    }
}

//! The sending end of a link.

use super::LEASE;
use super::frames::{Frames, Read};
use super::stop::Stop;
use crate::clock::{Exchange, Learned, PeerClock};
use crate::counters::{Counters, Wait};
use crate::error::Error;
use crate::flow::{Outgoing, Piece};
use crate::ports::{Ports, Turn};
use crate::secure::Identity;
use crate::transport::{Connection, is_final, is_later};
use crate::tuning::{FRAME_BYTES_MIN, Tuning};
use crate::wire::{
    ACK_WANTED, Ack, HEADER_BYTES, Header, Hello, Kind, Refusal, VERSION, Via, Welcome, encode, word,
};
use crate::{LinkId, Violation};
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// The pauses between attempts to connect.
const PAUSES: std::ops::Range<Duration> = Duration::from_millis(5)..Duration::from_millis(200);
/// How long a wait lasts before the sender checks whether it was stopped or must connect elsewhere.
const LOOK: Duration = Duration::from_millis(100);

/// The options of a sender.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// The link.
    pub link: LinkId,
    /// The name of this node, for messages.
    pub node: String,
    /// The token that the receiver's listener expects.
    pub token: [u8; 32],
    /// What the sender shows of itself to an address with TLS.
    pub identity: Option<Identity>,
    /// The ports through which the sender sends, shared with other links of this node.
    pub ports: Ports,
    /// The link's settings, which include the address.
    pub tuning: Tuning,
    /// How long the sender tries to reach the receiver, at first and after the connection broke.
    pub lease: Duration,
}

impl SenderOptions {
    /// The default options: the default lease, no token, ports of its own without a limit.
    pub fn new(link: LinkId, tuning: Tuning) -> SenderOptions {
        SenderOptions {
            link,
            node: String::new(),
            token: [0; 32],
            identity: None,
            ports: Ports::new(1, 0),
            tuning,
            lease: LEASE,
        }
    }
}

/// The sending end of a link. Each sender belongs to one thread.
#[derive(Debug)]
pub struct Sender {
    options: SenderOptions,
    incarnation: u64,
    flow: Outgoing,
    connected: Option<Connected>,
    counters: Counters,
    stop: Stop,
    clock: PeerClock,
    /// The number of attempts to connect that failed. It decides which of several listeners is tried next.
    attempt: usize,
    /// The most bytes of a frame, which is halved when a connection broke before a frame had arrived: a
    /// compressed frame is of no use in part.
    frame_most: usize,
    /// The first byte that the receiver lacked when the last connection was made; `None` before the first.
    lacked: Option<u64>,
    /// The port that the sender keeps through a pause that the limit of the bandwidth requires, and one that it has
    /// waited for.
    turn: Option<Turn>,
}

/// A connection after its handshake.
#[derive(Debug)]
struct Connected {
    connection: Connection,
    frames: Frames,
    /// The number of changes of the address when the connection was made.
    address_changes: u64,
    /// A frame that is partly written.
    pending: Option<Pending>,
}

/// A frame that is being written.
#[derive(Debug)]
struct Pending {
    /// The piece of the stream that the frame carries; the frame of the stream's end carries none.
    piece: Option<Piece>,
    header: [u8; HEADER_BYTES],
    body: Body,
    written: usize,
}

#[derive(Debug)]
enum Body {
    /// Bytes of the stream, which are taken from the buffer of unacknowledged bytes.
    Kept {
        offset: u64,
        bytes: usize,
    },
    Own(Vec<u8>),
}

/// Why nothing can be sent now.
enum Obstacle {
    /// There is nothing to send.
    None,
    Credit,
    Port,
    Pace(Duration),
    Connection,
}

impl Sender {
    /// Makes a sender, which connects when it has something to send.
    ///
    /// # Errors
    /// When the system has no more file descriptors.
    pub fn new(options: SenderOptions) -> Result<Sender, Error> {
        let stop = Stop::new().map_err(|e| Error::io("cannot make a link", e))?;
        Ok(Sender {
            incarnation: incarnation(),
            flow: Outgoing::new(options.tuning.buffer_bytes()),
            connected: None,
            counters: Counters::default(),
            stop,
            // The crystals of two working hosts drift apart by at most 100 µs a second.
            clock: PeerClock::new(100_000.0),
            attempt: 0,
            frame_most: usize::MAX,
            lacked: None,
            turn: None,
            options,
        })
    }

    /// The sender's counters.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// A handle that ends the sender's waits from another thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The bounds of the receiver's clock relative to this host's ([`system_ns`]); the sender is the client.
    pub fn clock(&self) -> &PeerClock {
        &self.clock
    }

    /// Connects now instead of when there is something to send.
    ///
    /// # Errors
    /// The errors of [`Sender::push`].
    pub fn open(&mut self) -> Result<(), Error> {
        self.connect()
    }

    /// Appends a message to the stream. The call waits while the bytes that are not acknowledged fill the
    /// buffer. Messages are sent when they fill a frame, or by [`Sender::flush`].
    ///
    /// # Errors
    /// The receiver was out of reach for the lease or refuses the link, or this end was stopped.
    pub fn push(&mut self, message: &[u8]) -> Result<(), Error> {
        if !self.flow.has_room() {
            self.flow.set_capacity(self.options.tuning.buffer_bytes());
            self.work(|flow| flow.has_room())?;
        }
        self.flow.push(message);
        self.counters.message(message.len());
        if self.flow.unsent() >= self.options.tuning.frame_bytes() as u64 && self.connected.is_some() {
            let stepped = self.step();
            // The user may do other work before the next call, so no port is kept.
            self.turn = None;
            stepped?;
        }
        Ok(())
    }

    /// Sends all messages pushed so far. The call waits while the receiver has no room for them.
    ///
    /// # Errors
    /// The errors of [`Sender::push`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.counters.queued(self.flow.unsent());
        let worked = self.work(|flow| flow.unsent() == 0);
        self.counters.queued(self.flow.unsent());
        worked
    }

    /// Whether the connection broke, or was made to another address than the present one, while bytes are not
    /// acknowledged. The call does not wait. A sender that
    /// has nothing to send notices a broken connection only here, and its receiver may wait for bytes that
    /// were lost with the connection.
    pub fn is_broken(&mut self) -> bool {
        if self.flow.unacknowledged() == 0 {
            return false;
        }
        let changes = self.options.tuning.address_changes();
        match &mut self.connected {
            Some(connected) if connected.address_changes != changes => true,
            // A violation of the protocol is reported by what follows.
            Some(connected) => {
                connected.connection.look();
                connected.read_acks(&mut self.flow).is_err()
            }
            None => true,
        }
    }

    /// Makes a new connection, and sends all bytes that the receiver lacks.
    ///
    /// # Errors
    /// The errors of [`Sender::push`].
    pub fn resume(&mut self) -> Result<(), Error> {
        self.connected = None;
        self.connect()?;
        self.flush()
    }

    /// Ends the stream, and waits until the receiver's user has received all of it.
    ///
    /// # Errors
    /// The errors of [`Sender::push`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.flow.finish();
        self.work(Outgoing::is_consumed)
    }

    /// Asks for the receiver's time; the answer goes into [`Sender::clock`].
    ///
    /// # Errors
    /// The errors of [`Sender::push`].
    pub fn ask_time(&mut self) -> Result<Learned, Error> {
        self.flush()?;
        let deadline = Instant::now() + self.options.lease;
        loop {
            self.connect()?;
            match self.exchange(deadline) {
                Ok(Some(exchange)) => return Ok(self.clock.learn(exchange)),
                Ok(None) => return Err(Error::new("the receiver does not answer the question for its time")),
                Err(broken) => self.lose(broken)?,
            }
        }
    }

    fn exchange(&mut self, deadline: Instant) -> Result<Option<Exchange>, Broken> {
        let Some(connected) = &mut self.connected else { return Ok(None) };
        let asked = system_ns();
        let mut frame = Header::new(Kind::Ping, 0, 8).encode().to_vec();
        frame.extend(asked.to_le_bytes());
        let mut written = 0;
        while written < frame.len() {
            match connected.connection.write(&[IoSlice::new(&frame[written..])]) {
                Ok(bytes) => written += bytes,
                Err(error) if is_later(&error) => connected.wait(true, &self.stop, deadline)?,
                Err(_) => return Err(Broken::Connection),
            }
        }
        while Instant::now() < deadline {
            let Some(header) = connected.read()? else {
                connected.wait(false, &self.stop, deadline)?;
                continue;
            };
            let now = system_ns();
            if header.kind != Kind::Pong {
                take(&mut self.flow, &header, connected.frames.payload())?;
                continue;
            }
            let times = [0, 1, 2].map(|index| word(connected.frames.payload(), index) as i64);
            if times[0] == asked {
                return Ok(Some(Exchange {
                    client_sent_ns: asked,
                    server_received_ns: times[1],
                    server_sent_ns: times[2],
                    client_received_ns: now,
                }));
            }
        }
        Ok(None)
    }

    /// Sends, reads acknowledgements, and makes connections as needed, until `done` returns true.
    fn work(&mut self, done: impl Fn(&Outgoing) -> bool) -> Result<(), Error> {
        let worked = self.work_with_a_port(done);
        self.turn = None;
        worked
    }

    fn work_with_a_port(&mut self, done: impl Fn(&Outgoing) -> bool) -> Result<(), Error> {
        // The event for which `done` waits may arrive together with the end of the connection; then no new
        // connection is made.
        while !done(&self.flow) || self.is_within_a_frame() {
            let obstacle = self.step()?;
            if done(&self.flow) && !self.is_within_a_frame() {
                return Ok(());
            }
            self.overcome(obstacle)?;
        }
        Ok(())
    }

    fn is_within_a_frame(&self) -> bool {
        self.connected
            .as_ref()
            .is_some_and(|connected| connected.pending.is_some() || connected.connection.owes())
    }

    /// Sends what can be sent without waiting.
    fn step(&mut self) -> Result<Obstacle, Error> {
        if self.stop.is_asked() {
            return Err(Error::stopped());
        }
        let moved =
            |connected: &Connected| connected.address_changes != self.options.tuning.address_changes();
        // A frame that was partly written is sent again completely, over the new connection.
        if self.connected.as_ref().is_some_and(moved) {
            self.connected = None;
        }
        if self.connected.is_none() {
            self.turn = None;
            self.connect()?;
        }
        self.send().or_else(|broken| self.lose(broken).map(|()| Obstacle::Connection))
    }

    /// Makes frames smaller if the connection before this one broke without progress, and larger otherwise.
    fn adapt_frames(&mut self) {
        let lacks = self.flow.released();
        self.frame_most = match self.lacked.replace(lacks) {
            Some(before) if before == lacks => {
                (self.frame_most.min(self.options.tuning.frame_bytes()) / 2).max(FRAME_BYTES_MIN)
            }
            _ => self.frame_most.saturating_mul(2),
        };
    }

    /// Handles a failure: a broken connection is made again, and a violation of the protocol or a stop ends
    /// the link.
    fn lose(&mut self, broken: Broken) -> Result<(), Error> {
        match broken {
            Broken::Connection => {
                self.connected = None;
                Ok(())
            }
            Broken::Violation(violation) => Err(self.bad(violation)),
            Broken::Stopped => Err(Error::stopped()),
        }
    }

    fn send(&mut self) -> Result<Obstacle, Broken> {
        let Some(connected) = &mut self.connected else { return Ok(Obstacle::Connection) };
        let tuning = &self.options.tuning;
        if !self.flow.has_room() || self.flow.lacks_credit() || self.flow.is_ended() {
            connected.read_acks(&mut self.flow)?;
        }
        let mut turn = self.turn.take();
        loop {
            if connected.pending.is_none() {
                if self.flow.is_end_due() {
                    connected.pending = Some(Pending::end(self.flow.end()));
                } else if self.flow.piece(1).is_none() {
                    let lacks = self.flow.lacks_credit();
                    return Ok(if lacks { Obstacle::Credit } else { Obstacle::None });
                }
            }
            if turn.is_none() {
                turn = self.options.ports.take(Instant::now());
            }
            let Some(taken) = &mut turn else { return Ok(Obstacle::Port) };
            let allowed = match taken.allowance() {
                Ok(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
                // The next link has the port from now on, through the pause.
                Err(_) if taken.is_over() => return Ok(Obstacle::Port),
                Err(time) => {
                    self.turn = turn;
                    return Ok(Obstacle::Pace(time));
                }
            };
            if connected.pending.is_none() {
                let frame_bytes = tuning.frame_bytes().min(self.frame_most);
                let most = frame_bytes.min(allowed.saturating_sub(HEADER_BYTES).max(1));
                let Some(piece) = self.flow.piece(most) else { continue };
                self.flow.mark_begun(piece);
                connected.pending = Some(Pending::data(&self.flow, piece, tuning));
            }
            let Some(pending) = &mut connected.pending else { continue };
            match pending.write(&mut connected.connection, &self.flow, allowed) {
                Ok(bytes) => {
                    taken.spend(bytes as u64);
                    self.counters.wire(bytes);
                }
                Err(error) if is_later(&error) => return Ok(Obstacle::Connection),
                Err(_) => return Err(Broken::Connection),
            }
            if pending.is_done() {
                // The piece was written completely, so an acknowledgement of it is valid from now on.
                if let Some(piece) = pending.piece {
                    self.flow.mark_sent(piece);
                    self.counters.frame();
                } else {
                    self.flow.mark_end_sent();
                }
                connected.pending = None;
            }
        }
    }

    /// Waits until sending may be possible again.
    fn overcome(&mut self, obstacle: Obstacle) -> Result<(), Error> {
        self.counters.queued(self.flow.unsent());
        let begun = Instant::now();
        let within = |time: Duration| begun + time.min(LOOK);
        let (wait, waited) = match obstacle {
            Obstacle::Port => {
                self.turn = self.options.ports.take(within(LOOK));
                (Wait::Port, Ok(()))
            }
            Obstacle::Pace(time) => (Wait::Pace, self.wait(false, within(time))),
            Obstacle::Credit | Obstacle::None => (Wait::Credit, self.wait(false, within(LOOK))),
            Obstacle::Connection => (Wait::Connection, self.wait(self.is_within_a_frame(), within(LOOK))),
        };
        self.counters.waited(wait, begun.elapsed());
        waited.or_else(|broken| self.lose(broken))
    }

    fn wait(&mut self, to_write: bool, deadline: Instant) -> Result<(), Broken> {
        let Some(connected) = &mut self.connected else { return Ok(()) };
        // An acknowledgement during a pause that the limit of the rate requires is read, but does not end the
        // pause.
        connected.wait(to_write, &self.stop, deadline)?;
        connected.read_acks(&mut self.flow)?;
        Ok(())
    }

    /// Connects if there is no connection; tries as long as the lease lasts.
    fn connect(&mut self) -> Result<(), Error> {
        if self.connected.is_some() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut pause = PAUSES.start;
        loop {
            let address_changes = self.options.tuning.address_changes();
            let address = self.options.tuning.address();
            let (hop, to) = address.hop(self.attempt);
            let met = self.greet(hop, to, begun + self.options.lease, address_changes);
            let why = match met {
                Ok(connected) => {
                    self.connected = Some(connected);
                    self.counters.waited(Wait::Connection, begun.elapsed());
                    return Ok(());
                }
                Err(Met::Never(error)) => return Err(error),
                Err(Met::NotYet(why)) => why,
            };
            if self.stop.is_asked() {
                return Err(Error::stopped());
            }
            self.attempt += 1;
            if begun.elapsed() + pause > self.options.lease {
                let (number, lease) = (self.options.link.number, self.options.lease);
                return Err(Error::new(format!(
                    "link {number} has not reached {address} for {lease:?}: {why}"
                )));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.end);
        }
    }

    /// Connects and sends the hello; before it, the number of the listener to which the connection has to be passed
    /// on, if there is one.
    fn greet(
        &mut self,
        address: &crate::Address,
        to: Option<u64>,
        deadline: Instant,
        address_changes: u64,
    ) -> Result<Connected, Met> {
        let number = self.options.link.number;
        let not_yet = |what: &str| {
            let what = what.to_string();
            move |error: std::io::Error| match is_final(&error) {
                true => Met::Never(Error::io(format!("link {number} cannot use {address}"), error)),
                false => Met::NotYet(format!("{what}: {error}")),
            }
        };
        let identity = self.options.identity.as_ref().map(|identity| (identity, &self.options.token));
        let connection = Connection::to(address, identity, deadline).map_err(not_yet("it cannot connect"))?;
        let mut connected =
            Connected { connection, frames: Frames::default(), address_changes, pending: None };
        let hello = Hello {
            version: VERSION,
            link: self.options.link,
            incarnation: self.incarnation,
            token: self.options.token,
            node: self.options.node.clone(),
        };
        let mut bytes = Vec::new();
        if let Some(to) = to {
            bytes = Via { session: hello.link.session, token: hello.token, to }.encode();
        }
        bytes.extend(hello.encode());
        match connected.connection.write(&[IoSlice::new(&bytes)]) {
            Ok(written) if written == bytes.len() => {}
            Ok(_) => return Err(Met::NotYet("the connection takes no greeting".into())),
            Err(error) => return Err(not_yet("it cannot greet")(error)),
        }
        loop {
            let header = match connected.frames.read(&mut connected.connection) {
                Ok(Ok(Read::Frame(header))) => header,
                Ok(Ok(Read::Later)) => {
                    // The receiver answers the hello only when its user asks for messages, so the answer may
                    // come as late as the user's work takes.
                    let waited = connected.wait(false, &self.stop, Instant::now() + LOOK);
                    if waited.is_err() || self.stop.is_asked() {
                        return Err(Met::NotYet("the connection broke".into()));
                    }
                    continue;
                }
                Ok(Ok(Read::Closed)) => return Err(Met::NotYet("it closed the connection".into())),
                Ok(Err(violation)) => return Err(Met::Never(self.bad(violation))),
                Err(error) => return Err(not_yet("the connection broke")(error)),
            };
            match header.kind {
                Kind::Welcome => {
                    let welcome = Welcome::decode(&header, connected.frames.payload());
                    let before = self.flow.unacknowledged();
                    let resumed = welcome.and_then(|welcome| self.flow.resume(welcome));
                    resumed.map_err(|violation| Met::Never(self.bad(violation)))?;
                    self.adapt_frames();
                    let again = if before == 0 { 0 } else { self.flow.unacknowledged() };
                    self.counters.connection(again);
                    return Ok(connected);
                }
                Kind::Refusal => {
                    let refusal = Refusal::decode(&header, connected.frames.payload());
                    let why = format!("{address} refuses link {}: {}", self.options.link.number, refusal.why);
                    return Err(if refusal.is_final {
                        Met::Never(Error::new(why))
                    } else {
                        Met::NotYet(why)
                    });
                }
                _ => return Err(Met::Never(self.bad(Violation::Order))),
            }
        }
    }

    fn bad(&self, violation: Violation) -> Error {
        let number = self.options.link.number;
        Error::violation(format!("the receiver of link {number} does not keep to the protocol"), violation)
    }
}

/// Why a connection or a link ended.
enum Broken {
    Connection,
    Violation(Violation),
    Stopped,
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Broken {
        Broken::Violation(violation)
    }
}

/// Why an attempt to connect failed.
enum Met {
    NotYet(String),
    Never(Error),
}

/// Handles a frame from the receiver during the transfer.
fn take(flow: &mut Outgoing, header: &Header, payload: &[u8]) -> Result<(), Violation> {
    match header.kind {
        Kind::Ack => flow.acknowledged(Ack::decode(header, payload)),
        // The answer to a question about the receiver's time is ignored, because nobody waits for it any
        // more.
        Kind::Pong => Ok(()),
        _ => Err(Violation::Order),
    }
}

impl Connected {
    fn read(&mut self) -> Result<Option<Header>, Broken> {
        match self.frames.read(&mut self.connection) {
            Ok(Ok(Read::Frame(header))) => Ok(Some(header)),
            Ok(Ok(Read::Later)) => Ok(None),
            Ok(Err(violation)) => Err(violation.into()),
            Ok(Ok(Read::Closed)) | Err(_) => Err(Broken::Connection),
        }
    }

    fn read_acks(&mut self, flow: &mut Outgoing) -> Result<(), Broken> {
        while let Some(header) = self.read()? {
            take(flow, &header, self.frames.payload())?;
        }
        Ok(())
    }

    fn wait(&mut self, to_write: bool, stop: &Stop, deadline: Instant) -> Result<(), Broken> {
        if stop.is_asked() {
            return Err(Broken::Stopped);
        }
        self.connection.wait(to_write, &[stop.bell()], deadline).map_err(|_| Broken::Connection)
    }
}

impl Pending {
    fn end(offset: u64) -> Pending {
        let header = Header { flags: ACK_WANTED, ..Header::new(Kind::End, offset, 0) };
        Pending { piece: None, header: header.encode(), body: Body::Own(Vec::new()), written: 0 }
    }

    fn data(flow: &Outgoing, piece: Piece, tuning: &Tuning) -> Pending {
        let encoding = tuning.encoding();
        let flags = if piece.ack_wanted { ACK_WANTED } else { 0 };
        let plain = Header { flags, ..Header::new(Kind::Data, piece.offset, piece.bytes) };
        match encode(encoding, flow.bytes(piece.offset, piece.bytes)) {
            Some(payload) => {
                let header = Header { encoding, payload_bytes: payload.len(), ..plain };
                Pending { piece: Some(piece), header: header.encode(), body: Body::Own(payload), written: 0 }
            }
            None => {
                let body = Body::Kept { offset: piece.offset, bytes: piece.bytes };
                Pending { piece: Some(piece), header: plain.encode(), body, written: 0 }
            }
        }
    }

    fn bytes(&self) -> usize {
        HEADER_BYTES
            + match &self.body {
                Body::Kept { bytes, .. } => *bytes,
                Body::Own(payload) => payload.len(),
            }
    }

    fn is_done(&self) -> bool {
        self.written == self.bytes()
    }

    /// Writes at most `most` bytes of the frame's bytes that are not written yet.
    fn write(&mut self, connection: &mut Connection, flow: &Outgoing, most: usize) -> std::io::Result<usize> {
        let [first, second] = match &self.body {
            Body::Kept { offset, bytes } => flow.bytes(*offset, *bytes),
            Body::Own(payload) => [payload.as_slice(), &[]],
        };
        let (mut skip, mut left) = (self.written, most);
        let pieces = [self.header.as_slice(), first, second].map(|piece| {
            let from = skip.min(piece.len());
            skip -= from;
            let bytes = left.min(piece.len() - from);
            left -= bytes;
            IoSlice::new(&piece[from..from + bytes])
        });
        let written = connection.write(&pieces)?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.written += written;
        Ok(written)
    }
}

/// A number that no other sender has.
fn incarnation() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((std::process::id(), system_ns()))
}

/// The time of this host's clock that links compare: `CLOCK_REALTIME`, in nanoseconds.
pub fn system_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

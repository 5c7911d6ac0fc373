//! Control connections: one question and one answer at a time, each a JSON object and bytes.
//!
//! ```text
//!   bytes of the object, u32 · bytes behind it, u32 · the object · the bytes          (little endian)
//! ```
//! Before the first message, over TCP, both ends prove that they know the cluster's token without sending it:
//! each sends a number that it never sent before, and the HMAC-SHA-256 of both numbers under the token.
//! Because the numbers are new each time, a recording of a greeting is useless to an attacker. A node that
//! other machines can reach listens with TLS ([`thalweg_link::secure`]), and the greeting takes place inside.
//! There the client first knocks: it proves that it knows the token before the node computes a handshake.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};
use thalweg_link::Address;
use thalweg_link::secure::{self, INVITED, Identity, Knocked, SecureStream};

use crate::certificates::Invitation;

/// The bytes with which a greeting begins: the protocol and its version.
const MAGIC: &[u8; 8] = b"thalwgn1";
/// The bytes with which the greetings of all versions begin.
const MAGIC_OF_ALL: &[u8] = b"thalwg";
/// The bytes that a machine without a certificate sends instead.
const NEWCOMER: &[u8; 8] = b"thalwge1";
/// The bytes with which an alert of TLS begins.
const ALERT: [u8; 3] = [21, 3, 3];
/// The longest object, in bytes.
const HEAD_MAX: usize = 16 << 20;
/// The most bytes after the object of a message.
pub(crate) const BLOB_MAX: usize = 4 << 20;
/// How long a greeting may take.
pub(crate) const GREETING: Duration = Duration::from_secs(2);
/// How long connecting to a node may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// How often a client connects, if the node closes the connection within the greeting.
const ATTEMPTS: u32 = 6;
/// The pause before the second of these attempts; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a machine without a certificate does not get one.
pub(crate) const NO_INVITATION: &str = "it has no invitation with this token, which is good once and for a limited time: \
                                        `thalweg node invite` makes another";

/// The interval at which a late answer is checked for.
const LOOK: Duration = Duration::from_secs(1);

/// A secret that all nodes of a cluster know.
pub type Token = [u8; 32];

/// A connection between two processes that trust each other.
#[derive(Debug)]
pub struct Channel(Stream);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(Box<SecureStream>),
    Unix(UnixStream),
}

impl Stream {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Tls(stream) => Some(stream.tcp()),
            Stream::Unix(_) => None,
        }
    }
}

/// A peer that has connected and sent its greeting.
pub(crate) enum Met {
    /// A process of the cluster, and whether it may run programs here.
    Known { channel: Channel, may_run: bool },
    /// A machine that has no certificate yet and may have an invitation.
    Newcomer(Channel),
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Tls(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel {
    /// Connects to a node of the cluster with this token; `identity` is asked for if the address is one with
    /// TLS.
    ///
    /// # Errors
    /// No process listens at the address, the process does not know the token, or one of the two ends does
    /// not accept the other one's certificate.
    pub fn connect(
        address: &str,
        token: &Token,
        identity: impl FnOnce() -> Result<Identity, String>,
    ) -> io::Result<Channel> {
        Channel::connect_within(address, token, identity, CONNECTING)
    }

    /// Connects as [`Channel::connect`] does; each attempt to make a connection takes at most `most`.
    pub(crate) fn connect_within(
        address: &str,
        token: &Token,
        identity: impl FnOnce() -> Result<Identity, String>,
        most: Duration,
    ) -> io::Result<Channel> {
        let most = most.min(CONNECTING);
        let address = endpoint(address).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let identity = match &address {
            Address::Tls(_) => Some(identity().map_err(|why| refused(&why))?),
            _ => None,
        };
        let connect = || {
            let stream = match (&address, &identity) {
                (Address::Tls(at), Some(identity)) => {
                    let (stream, deadline) = (connected(at, most)?, Instant::now() + GREETING);
                    Stream::Tls(Box::new(identity.connect(host_of(at), stream, token, deadline)?))
                }
                (Address::Tcp(at), _) => Stream::Tcp(connected(at, most)?),
                _ => return Err(refused("a node has no address of this kind")),
            };
            Channel::greet(stream, token, Side::Asks)
        };
        // A node to which very many strangers connect closes connections that take long to send their
        // greeting.
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match connect() {
                Err(error) if is_closed(&error) => std::thread::sleep(pause),
                met => return met,
            }
            pause *= 2;
        }
        connect()
    }

    /// Connects to a node as a machine that has no certificate yet, and that knows the secret of an
    /// invitation and the fingerprint of the authority's certificate.
    pub(crate) fn enroll(address: &str, invitation: &Invitation) -> io::Result<Channel> {
        let at = address.strip_prefix("tls/").unwrap_or(address);
        let stream = connected(at, CONNECTING)?;
        let (secret, until) = (invitation.hash(), Instant::now() + GREETING);
        let stream = secure::enroll(host_of(at), stream, (&INVITED, &secret), until, invitation.fingerprint);
        let stream = stream.map_err(|error| match secure::is_denied(&error) {
            true => refused(NO_INVITATION),
            false => error,
        })?;
        let mut channel = Channel(Stream::Tls(Box::new(stream)));
        channel.set_patience(Some(GREETING))?;
        channel.0.write_all(NEWCOMER)?;
        Ok(channel)
    }

    /// Accepts a connection that has come through the node's [`crate::hall::Hall`]. With an identity, the
    /// client has to show a certificate and to prove that it knows the token; a machine without a certificate
    /// may ask for one. Without an identity, the client has proved that it knows the token.
    ///
    /// # Errors
    /// The client proves nothing, or sends nothing in time.
    pub(crate) fn accept(stream: TcpStream, token: &Token, identity: Option<&Identity>) -> io::Result<Met> {
        let Some(identity) = identity else {
            let channel = Channel(Stream::Tcp(stream));
            channel.set_patience(None)?;
            return Ok(Met::Known { channel, may_run: true });
        };
        let mut stream = identity.accept(stream, Instant::now() + GREETING)?;
        let may_run = stream.is_member();
        if stream.is_known() {
            let channel = Channel::greet(Stream::Tls(Box::new(stream)), token, Side::Answers)?;
            return Ok(Met::Known { channel, may_run });
        }
        stream.tcp().set_read_timeout(Some(GREETING))?;
        let mut said = [0; NEWCOMER.len()];
        stream.read_exact(&mut said)?;
        let channel = Channel(Stream::Tls(Box::new(stream)));
        channel.set_patience(Some(GREETING))?;
        match said == *NEWCOMER {
            true => Ok(Met::Newcomer(channel)),
            false => Err(refused("it shows no certificate")),
        }
    }

    /// A channel over a socket that connects to only one process.
    pub fn private(stream: UnixStream) -> Channel {
        Channel(Stream::Unix(stream))
    }

    fn greet(stream: Stream, token: &Token, side: Side) -> io::Result<Channel> {
        let mut channel = Channel(stream);
        if let Some(tcp) = channel.0.tcp() {
            tcp.set_nodelay(true)?;
        }
        channel.set_patience(Some(GREETING))?;
        let stream = &mut channel.0;
        let own = random::<32>()?;
        stream.write_all(&[MAGIC.as_slice(), &own].concat())?;
        let mut theirs = [0; 40];
        let (begin, rest) = theirs.split_at_mut(ALERT.len());
        stream.read_exact(begin)?;
        if begin == ALERT {
            return Err(refused("it expects TLS: its address begins with tls/"));
        }
        stream.read_exact(rest)?;
        let (magic, nonce) = theirs.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(refused("it is no node of this version of thalweg"));
        }
        // The client proves first that it knows the token, because a node reveals nothing to unknown peers.
        if side == Side::Asks {
            stream.write_all(proof(token, Side::Asks, &own, nonce).as_ref())?;
        }
        let mut shown = [0; 32];
        stream.read_exact(&mut shown).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "it does not know this cluster's token, or this one does not know its own",
            ),
            _ => error,
        })?;
        if !is_proof(&shown, token, side.other(), nonce, &own) {
            return Err(refused("it has another token: it belongs to another cluster"));
        }
        if side == Side::Answers {
            stream.write_all(proof(token, Side::Answers, &own, nonce).as_ref())?;
        }
        channel.set_patience(None)?;
        Ok(channel)
    }

    /// Sets the longest wait for the other end; `None`: for ever.
    ///
    /// # Errors
    /// The system refuses the option.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match (&self.0, self.0.tcp()) {
            (Stream::Unix(stream), _) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
            (_, Some(stream)) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
            (_, None) => Ok(()),
        }
    }

    /// The connection's socket, to close it from another thread.
    pub(crate) fn socket(&self) -> Option<TcpStream> {
        self.0.tcp().and_then(|stream| stream.try_clone().ok())
    }

    /// The fingerprint of the certificate that the other end has shown.
    pub(crate) fn shown(&self) -> Option<[u8; 32]> {
        match &self.0 {
            Stream::Tls(stream) => stream.shown(),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    /// The address of this end, without its port.
    pub(crate) fn local_host(&self) -> String {
        let address = self.0.tcp().and_then(|stream| stream.local_addr().ok());
        address.map_or_else(|| "127.0.0.1".into(), |address| address.ip().to_string())
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self.0, Stream::Tls(_))
    }

    /// Sends an object and bytes.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, head: &Value, blob: &[u8]) -> io::Result<()> {
        let head = head.to_string();
        let mut all = Vec::with_capacity(8 + head.len() + blob.len());
        all.extend((head.len() as u32).to_le_bytes());
        all.extend((blob.len() as u32).to_le_bytes());
        all.extend(head.as_bytes());
        all.extend(blob);
        self.0.write_all(&all)
    }

    /// The connection of a client that knows the token.
    #[cfg(test)]
    pub(crate) fn greeted(stream: TcpStream, token: &Token) -> io::Result<Channel> {
        Channel::greet(Stream::Tcp(stream), token, Side::Asks)
    }

    /// Sends bytes that need be no message.
    #[cfg(test)]
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Receives an object and bytes; `None` when the other end has closed the connection.
    ///
    /// # Errors
    /// The connection is broken, or its data are no message.
    pub fn receive(&mut self) -> io::Result<Option<(Value, Vec<u8>)>> {
        self.receive_at_most(HEAD_MAX, BLOB_MAX)
    }

    /// Receives an object and bytes of at most these lengths.
    pub(crate) fn receive_at_most(
        &mut self,
        head_max: usize,
        blob_max: usize,
    ) -> io::Result<Option<(Value, Vec<u8>)>> {
        let mut lengths = [0; 8];
        let first = loop {
            match self.0.read(&mut lengths[..1]) {
                // A system call is interrupted when the process is stopped and continued.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        match first {
            0 => return Ok(None),
            _ => self.0.read_exact(&mut lengths[1..])?,
        }
        let length = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| lengths[at + byte])) as usize;
        let (head, blob) = (length(0), length(4));
        if head > head_max || blob > blob_max {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
        }
        let (head, blob) = (self.read(head)?, self.read(blob)?);
        let head = serde_json::from_slice(&head)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some((head, blob)))
    }

    fn read(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.0.read_exact(&mut read)?;
        Ok(read)
    }

    /// Sends a question, and waits for the answer.
    ///
    /// # Errors
    /// The connection broke, or the other end refused the request.
    pub fn ask(&mut self, what: &str, mut with: Value, blob: &[u8]) -> Result<(Value, Vec<u8>), Refused> {
        with["do"] = json!(what);
        self.send(&with, blob).map_err(Refused::of)?;
        self.answered()
    }

    /// Sends a question that may take long to answer. While no answer comes, `goes_on` decides every second
    /// whether to go on waiting.
    ///
    /// # Errors
    /// The errors of [`Channel::ask`], and an error if `goes_on` ended the wait.
    pub fn ask_while(
        &mut self,
        what: &str,
        mut with: Value,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(Value, Vec<u8>), Refused> {
        with["do"] = json!(what);
        self.send(&with, &[]).map_err(Refused::of)?;
        while !self.is_readable(LOOK).map_err(Refused::of)? {
            if !goes_on() {
                return Err(Refused::of(io::ErrorKind::TimedOut.into()));
            }
        }
        self.answered()
    }

    /// Whether data arrive within this time.
    fn is_readable(&self, wait: Duration) -> io::Result<bool> {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let socket = match &self.0 {
            Stream::Tcp(stream) => stream.as_fd(),
            // Each answer is read completely before the next question, so none waits decrypted.
            Stream::Tls(stream) => stream.tcp().as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        };
        match poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&wait)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn answered(&mut self) -> Result<(Value, Vec<u8>), Refused> {
        let (head, blob) = self
            .receive()
            .map_err(Refused::of)?
            .ok_or_else(|| Refused::of(io::ErrorKind::UnexpectedEof.into()))?;
        match head.get("refused").and_then(Value::as_str) {
            Some(why) => {
                Err(Refused { why: why.to_owned(), is_broken: head["broken"] == json!(true), is_cut: false })
            }
            None => Ok((head, blob)),
        }
    }

    /// Answers the last question.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn answer(&mut self, answer: Result<(Value, Vec<u8>), Refused>) -> io::Result<()> {
        match answer {
            Ok((head, blob)) => self.send(&head, &blob),
            Err(Refused { why, is_broken, .. }) => {
                self.send(&json!({"refused": why, "broken": is_broken}), &[])
            }
        }
    }
}

/// The reason why a question was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason of the refusal, as text.
    pub why: String,
    /// Whether the peer is gone, or cannot be reached.
    pub is_broken: bool,
    /// Whether the connection broke; the peer may live and accept another one.
    pub is_cut: bool,
}

impl Refused {
    /// A request that was refused.
    pub fn new(why: impl Into<String>) -> Refused {
        Refused { why: why.into(), is_broken: false, is_cut: false }
    }

    fn of(error: io::Error) -> Refused {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                "it closed the connection".to_owned()
            }
            _ => format!("the connection to it broke: {error}"),
        };
        Refused { why, is_broken: true, is_cut: is_cut(&error) }
    }
}

/// The greeting of a connection without TLS, at the node, without blocking.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    read: Vec<u8>,
    /// The number of this end and of the other one, when the other one has begun.
    numbers: Option<([u8; 32], [u8; 32])>,
}

impl Greeting {
    /// Reads from a socket that does not block what has arrived, and answers it.
    pub(crate) fn look(&mut self, mut stream: &TcpStream, token: &Token) -> io::Result<Knocked> {
        loop {
            let needed = if self.numbers.is_some() { 32 } else { MAGIC.len() + 32 };
            if self.read.len() < needed {
                let (held, mut bytes) = (self.read.len(), [0; 40]);
                match stream.read(&mut bytes[held..needed]) {
                    Ok(0) => return Ok(Knocked::Refused),
                    Ok(read) => self.read.extend(&bytes[held..held + read]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Knocked::Later),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
                if self.numbers.is_none() && !self.read.starts_with(&MAGIC[..self.read.len().min(8)]) {
                    // To another version, or with TLS, the node says what it is.
                    if self.read.starts_with(MAGIC_OF_ALL) {
                        stream.write_all(&[MAGIC.as_slice(), &random::<32>()?].concat())?;
                    }
                    return Ok(Knocked::Refused);
                }
                continue;
            }
            let Some((own, theirs)) = self.numbers else {
                let (own, mut theirs) = (random::<32>()?, [0; 32]);
                theirs.copy_from_slice(&self.read[MAGIC.len()..]);
                // The buffer of a new connection has room for these bytes.
                stream.write_all(&[MAGIC.as_slice(), &own].concat())?;
                self.numbers = Some((own, theirs));
                self.read.clear();
                continue;
            };
            if !is_proof(&self.read, token, Side::Asks, &theirs, &own) {
                return Ok(Knocked::Refused);
            }
            stream.write_all(proof(token, Side::Answers, &own, &theirs).as_ref())?;
            return Ok(Knocked::Proved);
        }
    }
}

/// The two ends of a greeting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Asks,
    Answers,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Asks => Side::Answers,
            Side::Answers => Side::Asks,
        }
    }
}

/// The proof that `side` sends, made from its own number and that of the other end.
fn proof(token: &Token, side: Side, own: &[u8], theirs: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, token), &proven(side, own, theirs))
}

fn is_proof(shown: &[u8], token: &Token, side: Side, own: &[u8], theirs: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token);
    hmac::verify(&key, &proven(side, own, theirs), shown).is_ok()
}

fn proven(side: Side, own: &[u8], theirs: &[u8]) -> Vec<u8> {
    let says: &[u8] = if side == Side::Asks { b"asks" } else { b"answers" };
    [says, own, theirs].concat()
}

/// The address of a node: `tcp/HOST:PORT`, `tls/HOST:PORT`, or `HOST:PORT`, which is with TLS unless the host
/// is this machine. Connections to other machines are always with TLS.
pub(crate) fn endpoint(text: &str) -> Result<Address, String> {
    let (kind, at) = match text.split_once('/') {
        Some((kind, at)) => (Some(kind), at),
        None => (None, text),
    };
    let host = host_of(at);
    let is_here = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match kind {
        Some("tls") => format!("tls/{at}").parse(),
        Some("tcp") if !is_here => {
            Err(format!("{text}: connections to other machines are encrypted: tls/{at}"))
        }
        None if !is_here => format!("tls/{at}").parse(),
        None | Some("tcp") => format!("tcp/{at}").parse(),
        Some(_) => Err(format!("{text}: the address of a node is HOST:PORT, or tls/HOST:PORT")),
    }
}

/// The host of `HOST:PORT`.
pub(crate) fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn connected(address: &str, most: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, most) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether the other end has closed the connection, with or without a reason that it did not say.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Whether a connection that begins with these bytes is one of a node, of any version.
pub(crate) fn is_greeting(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC_OF_ALL)
}

/// Whether the error means that the connection is broken, and not that the other end is silent, or sends
/// nonsense.
pub(crate) fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, TimedOut, WouldBlock};
    !matches!(error.kind(), WouldBlock | TimedOut | InvalidData)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Random bytes for secrets.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}

/// Bytes as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text as bytes.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..][..2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Channel, json};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::private(one), Channel::private(other))
    }

    #[test]
    fn an_answer_that_takes_long_is_waited_for_as_long_as_the_other_end_lives() {
        let (mut asks, mut answers) = pair();
        let (waited, looks) = mpsc::channel();
        let other = std::thread::spawn(move || {
            let (head, _) = answers.receive().unwrap().unwrap();
            assert_eq!(head["do"], "open");
            // The wait ends after two unanswered intervals.
            looks.recv().unwrap();
            looks.recv().unwrap();
            answers.answer(Ok((json!({"is": "open"}), Vec::new()))).unwrap();
        });
        let (answer, _) = asks.ask_while("open", json!({}), || waited.send(()).is_ok()).unwrap();
        assert_eq!(answer, json!({"is": "open"}));
        other.join().unwrap();
    }

    #[test]
    fn a_peer_that_is_found_dead_is_not_waited_for() {
        let (mut asks, _answers) = pair();
        let mut looks = 0;
        let refused = asks.ask_while("open", json!({}), || {
            looks += 1;
            looks < 2
        });
        assert_eq!((refused.unwrap_err().why.as_str(), looks), ("it does not answer", 2));
    }
}

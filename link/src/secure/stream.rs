//! Streams that TLS encrypts: one that blocks, for control, and one that does not, for links.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustls::Connection;
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;

use super::knock::{self, Challenge, KNOCK, Secret};
use super::{MEMBER, explain};

/// The most bytes that are read from the socket at once.
const AHEAD_BYTES: usize = 64 << 10;
/// The most bytes of a message that are encrypted and not written to the socket.
const BUFFER_BYTES: usize = 256 << 10;
/// How long an end that refuses the other one waits until that end has read the reason.
const LINGER: Duration = Duration::from_millis(200);

/// A connection that both ends have made secure, used with blocking calls.
#[derive(Debug)]
pub struct SecureStream {
    session: Connection,
    stream: TcpStream,
}

impl SecureStream {
    /// Does the handshake; `before` is sent in front of it.
    pub(super) fn new(
        mut session: Connection,
        stream: TcpStream,
        before: &[u8],
        deadline: Instant,
    ) -> io::Result<SecureStream> {
        if !before.is_empty() {
            // One piece, so that an end that refuses the proof has read everything when it closes the
            // connection.
            let mut first = before.to_vec();
            while session.wants_write() {
                session.write_tls(&mut first)?;
            }
            Timed { stream: &stream, deadline }.write_all(&first)?;
        }
        while session.is_handshaking() || session.wants_write() {
            let mut timed = Timed { stream: &stream, deadline };
            if session.wants_write() {
                session.write_tls(&mut timed)?;
            } else if session.read_tls(&mut timed)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if let Err(error) = session.process_new_packets() {
                refuse(&mut session, &stream);
                return Err(explain::io(error));
            }
        }
        Ok(SecureStream { session, stream })
    }

    /// Whether the other end has shown a certificate of this cluster.
    pub fn is_known(&self) -> bool {
        self.session.peer_certificates().is_some()
    }

    /// Whether the other end has shown the certificate of a [`MEMBER`], which may run programs on this
    /// machine.
    pub fn is_member(&self) -> bool {
        let shown = self.session.peer_certificates().and_then(|chain| chain.first());
        let (Some(shown), Ok(member)) = (shown, ServerName::try_from(MEMBER)) else { return false };
        ParsedCertificate::try_from(shown).is_ok_and(|shown| verify_server_name(&shown, &member).is_ok())
    }

    /// The fingerprint of the certificate that the other end has shown.
    pub fn shown(&self) -> Option<[u8; 32]> {
        self.session.peer_certificates()?.first().map(super::fingerprint_of)
    }

    /// The TCP connection.
    pub fn tcp(&self) -> &TcpStream {
        &self.stream
    }
}

/// Sends the reason of a refusal. A connection that is closed while data of the other end are unread is
/// reset, and the other end would not see the reason, so the data are read for a short time.
fn refuse(session: &mut Connection, stream: &TcpStream) {
    let mut timed = Timed { stream, deadline: Instant::now() + LINGER };
    // Errors are ignored, because the connection is given up in any case.
    while session.wants_write() && session.write_tls(&mut timed).is_ok() {}
    let _ = stream.shutdown(Shutdown::Write);
    let mut unread = [0; 1024];
    for _ in 0..64 {
        if !matches!(timed.read(&mut unread), Ok(1..)) {
            break;
        }
    }
}

impl Read for SecureStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The other end closed without TLS's mark, as a process that is killed does.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.session.read_tls(&mut self.stream)?;
            self.session.process_new_packets().map_err(explain::io)?;
        }
    }
}

impl Write for SecureStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}

/// A TCP connection with a time by which each of its calls ends.
pub(super) struct Timed<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) deadline: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A secure connection that is used without blocking. Its calls also do the handshake.
#[derive(Debug)]
pub(crate) struct Secured {
    session: Connection,
    stream: TcpStream,
    /// Bytes that were read from the socket and not given to the session.
    ahead: Box<[u8]>,
    held: std::ops::Range<usize>,
    /// What is left of the knock; TLS begins behind it.
    knock: Option<Knock>,
}

/// The knock of an end that connects.
#[derive(Debug)]
struct Knock {
    secret: Secret,
    challenge: Challenge,
    /// The bytes of the challenge that have arrived.
    arrived: usize,
    /// The bytes of `first` that were written.
    written: usize,
    /// What is written first: the knock, then the proof with the beginning of the handshake.
    first: Vec<u8>,
}

impl Secured {
    pub(super) fn new(session: Connection, stream: TcpStream) -> io::Result<Secured> {
        Secured::begin(session, stream, None)
    }

    /// The end that connects, and that knows the secret of the other end's door.
    pub(super) fn knocking(session: Connection, stream: TcpStream, secret: &Secret) -> io::Result<Secured> {
        let knock = Knock {
            secret: *secret,
            challenge: [0; size_of::<Challenge>()],
            arrived: 0,
            written: 0,
            first: KNOCK.to_vec(),
        };
        Secured::begin(session, stream, Some(knock))
    }

    fn begin(mut session: Connection, stream: TcpStream, knock: Option<Knock>) -> io::Result<Secured> {
        session.set_buffer_limit(Some(BUFFER_BYTES));
        let ahead = vec![0; AHEAD_BYTES].into();
        let mut secured = Secured { session, stream, ahead, held: 0..0, knock };
        secured.settle()?;
        Ok(secured)
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Whether encrypted bytes wait to be written.
    pub(crate) fn owes(&self) -> bool {
        match &self.knock {
            Some(knock) => knock.written < knock.first.len(),
            None => self.session.wants_write(),
        }
    }

    /// Writes encrypted bytes that wait, as many as the socket takes without a wait.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if let Some(knock) = &mut self.knock
            && !knock.settle(&mut self.stream)?
        {
            return Ok(());
        }
        self.knock = None;
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if crate::transport::is_later(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes as many bytes as can be encrypted without a wait.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.settle()?;
        if self.owes() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.session.writer().write_vectored(pieces)?;
        self.settle()?;
        Ok(taken)
    }

    /// Reads the bytes that have arrived, as many as there is room for; 0 at the end.
    pub(crate) fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut got = 0;
        for piece in pieces {
            let mut filled = 0;
            while filled < piece.len() {
                match self.plain(&mut piece[filled..]) {
                    Ok(0) => return Ok(got),
                    Ok(bytes) => {
                        filled += bytes;
                        got += bytes;
                    }
                    Err(error) if got > 0 && crate::transport::is_later(&error) => return Ok(got),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(got)
    }

    /// The next decrypted bytes; 0 at the end. The end needs no mark of TLS, because a link has its own.
    fn plain(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if let Some(knock) = &mut self.knock {
                knock.read(&mut self.stream, &mut self.session)?;
                self.settle()?;
                continue;
            }
            if self.held.is_empty() {
                let read = self.stream.read(&mut self.ahead)?;
                self.held = 0..read;
            }
            let mut bytes = &self.ahead[self.held.clone()];
            let taken = self.session.read_tls(&mut bytes)?;
            self.held.start += taken;
            let processed = self.session.process_new_packets();
            // The answers of a handshake, or the reason of a refusal.
            self.settle()?;
            processed.map_err(explain::io)?;
        }
    }
}

impl Knock {
    /// Writes what waits, as much as the socket takes; returns whether the knock is over.
    fn settle(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        while self.written < self.first.len() {
            match stream.write(&self.first[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if crate::transport::is_later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(self.arrived == self.challenge.len())
    }

    /// Reads what has arrived of the challenge; when it is complete, the proof and the beginning of the
    /// handshake follow.
    fn read(&mut self, stream: &mut TcpStream, session: &mut Connection) -> io::Result<()> {
        if self.arrived < self.challenge.len() {
            let read = stream.read(&mut self.challenge[self.arrived..])?;
            self.arrived += read;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.arrived < self.challenge.len() {
                return Ok(());
            }
            knock::check(&self.challenge)?;
            self.first.extend(knock::proof(&self.secret, &self.challenge));
            while session.wants_write() {
                session.write_tls(&mut self.first)?;
            }
            return Ok(());
        }
        // The proof is not written completely.
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl AsFd for Secured {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

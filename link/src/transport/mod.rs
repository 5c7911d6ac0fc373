//! The transports of a connection: TCP and Unix sockets. Both transports are used without blocking; the ends
//! of a link wait by `poll`.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The address at which a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    /// The path of a Unix socket, for nodes on one host.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "tcp/{address}"),
            Address::Unix(path) => write!(f, "unix/{}", path.display()),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    /// Parses `tcp/HOST:PORT` or `unix/PATH`, the form in which Zenoh writes endpoints.
    fn from_str(text: &str) -> Result<Address, String> {
        match text.split_once('/') {
            Some(("tcp", address))
                if address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) =>
            {
                Ok(Address::Tcp(address.into()))
            }
            Some(("unix", path)) if !path.is_empty() => Ok(Address::Unix(path.into())),
            _ => Err(format!("{text}: an address is tcp/HOST:PORT or unix/PATH")),
        }
    }
}

/// A connection, used without blocking.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects, at most until `deadline`.
    pub(crate) fn to(address: &Address, deadline: Instant) -> io::Result<Connection> {
        let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match address {
            Address::Tcp(address) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for resolved in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&resolved, left()) {
                        Ok(stream) => return Connection::tcp(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Unix(path) => Connection::unix(UnixStream::connect(path)?),
        }
    }

    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        // A frame is written by one call, so a delay to collect more bytes would be useless.
        stream.set_nodelay(true)?;
        Ok(Connection::Tcp(stream))
    }

    pub(crate) fn unix(stream: UnixStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection::Unix(stream))
    }

    /// Writes as many bytes as the connection takes without a wait.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.write_vectored(pieces),
            Connection::Unix(stream) => stream.write_vectored(pieces),
        }
    }

    /// Reads the bytes that have arrived; 0 at the end.
    pub(crate) fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.read_vectored(pieces),
            Connection::Unix(stream) => stream.read_vectored(pieces),
        }
    }

    /// Waits until the connection can be read (or written), or one of the `others` (at most two) can be read,
    /// but not longer than `deadline`.
    pub(crate) fn wait(
        &self,
        to_write: bool,
        others: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        if to_write {
            flags |= PollFlags::OUT;
        }
        let own = PollFd::from_borrowed_fd(self.as_fd(), flags);
        match others {
            [] => wait_for(&mut [own], deadline),
            [one] => wait_for(&mut [own, readable(*one)], deadline),
            [one, two, ..] => wait_for(&mut [own, readable(*one), readable(*two)], deadline),
        }
    }

    /// The other end's address, for messages.
    pub(crate) fn peer(&self) -> String {
        match self {
            Connection::Tcp(stream) => stream
                .peer_addr()
                .map_or_else(|_| "a closed connection".into(), |a: SocketAddr| a.to_string()),
            Connection::Unix(_) => "a process of this host".into(),
        }
    }
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Waits until one of `waited` is ready, at most until `deadline`.
pub(crate) fn wait_for(waited: &mut [PollFd<'_>], deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = rustix::event::Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    match poll(waited, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the error only means that the call has to be repeated later.
pub(crate) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Tcp(stream) => stream.as_fd(),
            Connection::Unix(stream) => stream.as_fd(),
        }
    }
}

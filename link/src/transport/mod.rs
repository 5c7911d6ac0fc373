//! The transports of a connection: TCP, TCP with TLS, Unix sockets, and shared memory. All are used without
//! blocking; the ends of a link wait by `poll`.

mod memory;

use crate::secure::{Identity, Secret, Secured};
use memory::Memory;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{set_tcp_user_timeout, socket_peercred};
use rustix::process::geteuid;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixName, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the other host may confirm nothing of what was sent over a connection, until it counts as broken.
const UNCONFIRMED: Duration = Duration::from_secs(10);

/// The address at which a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    /// `host:port`, encrypted; both ends show certificates.
    Tls(String),
    /// The path of a Unix socket, for processes of one host; a path that begins with `@` is an abstract name,
    /// which needs no file.
    Unix(PathBuf),
    /// The path of a Unix socket through which memory is handed over that both processes use then.
    Memory(PathBuf),
    /// Another listener of the session, to which a listener at one of these addresses passes connections on.
    Through {
        /// The listeners that may pass the connection on; if one does not, the sender tries the next.
        listeners: Vec<Address>,
        /// The number by which these listeners know the one at which the connection ends.
        to: u64,
    },
}

impl Address {
    /// Whether the address is that of a socket of this host, at which a process of the same user listens.
    pub fn is_near(&self) -> bool {
        match self {
            Address::Unix(_) | Address::Memory(_) => Connection::to(self, None, Instant::now()).is_ok(),
            Address::Tcp(_) | Address::Tls(_) | Address::Through { .. } => false,
        }
    }

    /// The address to connect to at this attempt, and the number of the listener to which the connection has
    /// to be passed on.
    pub(crate) fn hop(&self, attempt: usize) -> (&Address, Option<u64>) {
        match self {
            Address::Through { listeners, to } if !listeners.is_empty() => {
                (&listeners[attempt % listeners.len()], Some(*to))
            }
            own => (own, None),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "tcp/{address}"),
            Address::Tls(address) => write!(f, "tls/{address}"),
            Address::Unix(path) => write!(f, "unix/{}", path.display()),
            Address::Memory(path) => write!(f, "memory/{}", path.display()),
            Address::Through { listeners, to } => {
                write!(f, "number {to} through")?;
                let mut lead = ' ';
                for listener in listeners {
                    write!(f, "{lead}{listener}")?;
                    lead = ',';
                }
                Ok(())
            }
        }
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    /// Parses `tcp/HOST:PORT`, `tls/HOST:PORT`, `unix/PATH` or `memory/PATH`.
    fn from_str(text: &str) -> Result<Address, String> {
        let has_port =
            |address: &str| address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match text.split_once('/') {
            Some(("tcp", address)) if has_port(address) => Ok(Address::Tcp(address.into())),
            Some(("tls", address)) if has_port(address) => Ok(Address::Tls(address.into())),
            Some(("unix", path)) if !path.is_empty() => Ok(Address::Unix(path.into())),
            Some(("memory", path)) if !path.is_empty() => Ok(Address::Memory(path.into())),
            _ => Err(format!("{text}: an address is tcp/HOST:PORT, tls/HOST:PORT, unix/PATH or memory/PATH")),
        }
    }
}

/// A connection, used without blocking.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    Tls(Box<Secured>),
    Unix(UnixStream),
    Memory(Box<Memory>),
}

impl Connection {
    /// Connects, at most until `deadline`; with TLS only if there is an identity to show, and a secret for
    /// the other end's door.
    pub(crate) fn to(
        address: &Address,
        identity: Option<(&Identity, &Secret)>,
        deadline: Instant,
    ) -> io::Result<Connection> {
        match address {
            Address::Tcp(address) => Connection::tcp(connected(address, deadline)?),
            Address::Tls(address) => {
                let (identity, secret) = identity.ok_or_else(|| {
                    io::Error::new(io::ErrorKind::PermissionDenied, "there is no certificate to show")
                })?;
                let stream = prepared(connected(address, deadline)?)?;
                Ok(Connection::Tls(Box::new(identity.sending(stream, secret)?)))
            }
            Address::Unix(path) => Ok(Connection::Unix(near(UnixStream::connect_addr(&unix_name(path)?)?)?)),
            Address::Memory(path) => {
                let socket = near(UnixStream::connect_addr(&unix_name(path)?)?)?;
                Ok(Connection::Memory(Box::new(Memory::begin(socket)?)))
            }
            Address::Through { .. } => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// The accepting end with TLS of this connection, if it is one by TCP.
    pub(crate) fn secured(self, identity: &Identity) -> io::Result<Connection> {
        match self {
            Connection::Tcp(stream) => Ok(Connection::Tls(Box::new(identity.receiving(stream)?))),
            other => Ok(other),
        }
    }

    /// A connection without TLS, or one to which TLS is added by [`Connection::secured`].
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Connection> {
        Ok(Connection::Tcp(prepared(stream)?))
    }

    /// Accepts a connection of a process of this host, which has to run as the same user.
    pub(crate) fn unix(stream: UnixStream) -> io::Result<Connection> {
        Ok(Connection::Unix(near(stream)?))
    }

    /// Accepts a connection through which a process of this host, which has to run as the same user, hands
    /// over memory.
    pub(crate) fn memory(stream: UnixStream) -> io::Result<Connection> {
        Ok(Connection::Memory(Box::new(Memory::accepted(near(stream)?))))
    }

    /// Writes as many bytes as the connection takes without a wait.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.write_vectored(pieces),
            Connection::Tls(stream) => stream.write(pieces),
            Connection::Unix(stream) => stream.write_vectored(pieces),
            Connection::Memory(memory) => memory.write(pieces),
        }
    }

    /// Reads the bytes that have arrived; 0 at the end.
    pub(crate) fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.read_vectored(pieces),
            Connection::Tls(stream) => stream.read(pieces),
            Connection::Unix(stream) => stream.read_vectored(pieces),
            Connection::Memory(memory) => memory.read(pieces),
        }
    }

    /// Whether bytes that [`Connection::write`] took wait to be written to the socket. [`Connection::wait`]
    /// writes them.
    pub(crate) fn owes(&self) -> bool {
        match self {
            Connection::Tls(stream) => stream.owes(),
            Connection::Tcp(_) | Connection::Unix(_) | Connection::Memory(_) => false,
        }
    }

    /// Writes bytes that [`Connection::owes`], as many as the socket takes without a wait.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        match self {
            Connection::Tls(stream) if stream.owes() => stream.settle(),
            _ => Ok(()),
        }
    }

    /// Whether bytes arrive within about a microsecond, if that can be seen without a call of the system.
    pub(crate) fn glance(&mut self) -> bool {
        match self {
            Connection::Memory(memory) => memory.glance(),
            Connection::Tcp(_) | Connection::Tls(_) | Connection::Unix(_) => false,
        }
    }

    /// Finds out whether the other end has closed, if a read would not show it.
    pub(crate) fn look(&mut self) {
        if let Connection::Memory(memory) = self {
            memory.look();
        }
    }

    /// Waits until the connection can be read (or written), or one of the `others` (at most two) can be read,
    /// but not longer than `deadline`.
    pub(crate) fn wait(
        &mut self,
        to_write: bool,
        others: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> io::Result<()> {
        if let Connection::Memory(memory) = self {
            return memory.wait(to_write, others, deadline);
        }
        let mut flags = PollFlags::IN;
        if to_write || self.owes() {
            flags |= PollFlags::OUT;
        }
        let own = PollFd::from_borrowed_fd(self.as_fd(), flags);
        match others {
            [] => wait_for(&mut [own], deadline)?,
            [one] => wait_for(&mut [own, readable(*one)], deadline)?,
            [one, two, ..] => wait_for(&mut [own, readable(*one), readable(*two)], deadline)?,
        }
        self.settle()
    }

    /// The other end's address, for messages.
    pub(crate) fn peer(&self) -> String {
        let shown = |address: io::Result<SocketAddr>| {
            address.map_or_else(|_| "a closed connection".into(), |address| address.to_string())
        };
        match self {
            Connection::Tcp(stream) => shown(stream.peer_addr()),
            Connection::Tls(stream) => shown(stream.peer_addr()),
            Connection::Unix(_) | Connection::Memory(_) => "a process of this host".into(),
        }
    }
}

/// A socket that is not used before the process at its other end is known to run as the same user.
fn near(stream: UnixStream) -> io::Result<UnixStream> {
    if socket_peercred(&stream)?.uid != geteuid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it runs as another user"));
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// The name of a Unix socket, from its path.
pub(crate) fn unix_name(path: &Path) -> io::Result<UnixName> {
    match path.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(name) => UnixName::from_abstract_name(name),
        None => UnixName::from_pathname(path),
    }
}

/// A TCP connection to `HOST:PORT`, made until `deadline`.
fn connected(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&resolved, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    // A frame is written by one call, so a delay to collect more bytes would be useless.
    stream.set_nodelay(true)?;
    // By default, the system goes on for a quarter of an hour when the other host confirms nothing.
    set_tcp_user_timeout(&stream, UNCONFIRMED.as_millis() as u32)?;
    Ok(stream)
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Waits until one of `waited` is ready, at most until `deadline`.
pub(crate) fn wait_for(waited: &mut [PollFd<'_>], deadline: Instant) -> io::Result<()> {
    poll_until(waited, deadline).map(drop)
}

/// Waits as [`wait_for`]; returns whether the first of `waited` is ready.
fn poll_until(waited: &mut [PollFd<'_>], deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = rustix::event::Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    match poll(waited, Some(&timeout)) {
        Ok(_) => Ok(waited.first().is_some_and(|first| !first.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether another attempt would fail in the same way: the two ends do not accept each other.
pub(crate) fn is_final(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether the error only means that the call has to be repeated later.
pub(crate) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Tcp(stream) => stream.as_fd(),
            Connection::Tls(stream) => stream.as_fd(),
            Connection::Unix(stream) => stream.as_fd(),
            Connection::Memory(memory) => memory.as_fd(),
        }
    }
}

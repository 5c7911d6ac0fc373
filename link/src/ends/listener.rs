//! Waits for senders at a node's address, reads their greetings, and hands each connection to the receiver of
//! its link.
//!
//! Unknown peers cost little: at most [`GREETED_MAX`] connections may be in their greeting at once, each for
//! [`PATIENCE`] and 1 KiB; a new connection replaces the one whose greeting has been awaited longest.

use super::frames::{Frames, Read};
use super::passing::{Passing, pass};
use super::stop::{Stop, bell, ring, silence};
use crate::LinkId;
use crate::error::Error;
use crate::secure::{Door, Identity, KNOCK, Knocked};
use crate::transport::{Address, Connection, is_final, unix_name, wait_for};
use crate::watch::Watch;
use crate::wire::{Header, Hello, Kind, Refusal, VERSION, Via, Welcome};
use rustix::event::{PollFd, PollFlags};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximal number of connections of which the greeting has not been read yet.
const GREETED_MAX: usize = 256;
/// The number of ended links that a listener remembers.
const ENDED_MAX: usize = 4096;
/// How long a greeting may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens for senders at an address of a node. When the listener is dropped, no sender can connect any more;
/// connections that were handed over stay.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    stop: Stop,
    addresses: Vec<Address>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    places: Mutex<HashMap<LinkId, Arc<Slot>>>,
    /// Links that are fully consumed by their receivers, the oldest first. A sender that lost the connection
    /// before the last acknowledgement connects again, perhaps when the receiver is gone, and gets its answer
    /// from this list.
    ended: Mutex<VecDeque<Ended>>,
    /// For each session, the channel that gets a new place for each link that a sender opens and that has no
    /// place.
    unplaced: Mutex<HashMap<[u8; 16], mpsc::Sender<Place>>>,
    /// For each session, how its connections are passed on to other listeners.
    passing: Mutex<HashMap<[u8; 16], Arc<Passing>>>,
    token: [u8; 32],
    identity: Option<Identity>,
    refused: AtomicU64,
    /// Ends the connections that are passed on, with the listener.
    stop: Stop,
}

/// The slot into which the listener puts the connections of one link.
#[derive(Debug)]
struct Slot {
    arrived: Mutex<Option<Arrived>>,
    /// The field is set by the listener after it stored a connection, cleared by the receiver before it takes
    /// one, so a check costs one load if no connection has come.
    has_arrived: AtomicBool,
    bell: OwnedFd,
}

impl Slot {
    fn new() -> std::io::Result<Arc<Slot>> {
        Ok(Arc::new(Slot { arrived: Mutex::new(None), has_arrived: AtomicBool::new(false), bell: bell()? }))
    }
}

/// A connection with its greeting.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) connection: Connection,
    pub(crate) incarnation: u64,
}

/// A link's place at a listener, which keeps the link's connections for the receiver. The listener refuses
/// the link when the place is dropped.
#[derive(Debug)]
pub struct Place {
    link: LinkId,
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

/// A link that is fully consumed by its receiver.
#[derive(Debug)]
struct Ended {
    link: LinkId,
    incarnation: u64,
    welcome: Welcome,
}

enum Socket {
    /// Connections are encrypted if there is an identity to show.
    Tcp(TcpListener, Option<Identity>),
    Unix(UnixListener, std::path::PathBuf),
    /// Memory is handed over.
    Memory(UnixListener, std::path::PathBuf),
}

/// A connection before its greeting has arrived.
struct Stranger {
    connection: Connection,
    /// Through which the connection has to come before TLS begins.
    door: Option<Door>,
    frames: Frames,
    since: Instant,
}

impl Listener {
    /// Listens at `address` (port 0 is any) for senders that know the token.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn new(address: &Address, token: [u8; 32]) -> Result<Listener, Error> {
        Listener::with(std::slice::from_ref(address), token, None)
    }

    /// Listens at several addresses as [`Listener::new`] does at one. An address with TLS needs an identity,
    /// and its senders have to show a certificate of the same authority.
    ///
    /// # Errors
    /// The errors of [`Listener::new`], and an address with TLS without an identity.
    pub fn with(
        addresses: &[Address],
        token: [u8; 32],
        identity: Option<Identity>,
    ) -> Result<Listener, Error> {
        let bound = addresses.iter().map(|address| Socket::bind(address, identity.as_ref()));
        let (sockets, addresses) = bound.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let failed = |e| Error::io("cannot listen for links", e);
        let stop = Stop::new().map_err(failed)?;
        let shared = Arc::new(Shared {
            places: Mutex::default(),
            ended: Mutex::default(),
            unplaced: Mutex::default(),
            passing: Mutex::default(),
            token,
            identity,
            refused: AtomicU64::new(0),
            stop: stop.clone(),
        });
        let hall = Hall::new(sockets, shared.clone(), stop.clone()).map_err(failed)?;
        let builder = std::thread::Builder::new().name("link listener".into());
        let thread = builder.spawn(move || hall.serve()).map_err(failed)?;
        Ok(Listener { shared, stop, addresses, thread: Some(thread) })
    }

    /// The first address at which the listener listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    /// The addresses at which the listener listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Makes a place for the receiver of `link`.
    ///
    /// # Errors
    /// The link has a place already.
    pub fn place(&self, link: LinkId) -> Result<Place, Error> {
        let slot = Slot::new().map_err(|e| Error::io("cannot make a link", e))?;
        let mut places = self.shared.places();
        if places.contains_key(&link) {
            return Err(Error::new(format!("link {} is received here already", link.number)));
        }
        places.insert(link, slot.clone());
        Ok(Place { link, slot, shared: self.shared.clone() })
    }

    /// A channel of new places: each link of this session that a sender opens and that has no place gets one,
    /// which is sent through the channel. When the channel's reader is dropped, links without a place are
    /// refused again.
    pub fn unplaced(&self, session: [u8; 16]) -> mpsc::Receiver<Place> {
        let (opened, places) = mpsc::channel();
        self.shared.unplaced().insert(session, opened);
        places
    }

    /// Refuses links of this session that have no place from now on; the channel of [`Listener::unplaced`]
    /// ends.
    pub fn close(&self, session: [u8; 16]) {
        self.shared.unplaced().remove(&session);
    }

    /// Passes connections of this session on to other listeners from now on, for senders that know the token.
    pub fn pass_on(&self, session: [u8; 16], passing: Passing) {
        self.shared.passing().insert(session, Arc::new(passing));
    }

    /// The number of connections that were refused or given up.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }
}

impl Socket {
    /// Listens at an address; returns the address with the port that the system chose, too.
    fn bind(address: &Address, identity: Option<&Identity>) -> Result<(Socket, Address), Error> {
        let failed = |e| Error::io(format!("cannot listen at {address}"), e);
        let tcp = |name: &str| {
            let listener = TcpListener::bind(name)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?.to_string();
            Ok((listener, bound))
        };
        match address {
            Address::Tcp(name) => {
                let (listener, bound) = tcp(name).map_err(failed)?;
                Ok((Socket::Tcp(listener, None), Address::Tcp(bound)))
            }
            Address::Tls(name) => {
                let identity = identity.cloned();
                let identity =
                    identity.ok_or_else(|| Error::new(format!("{address} needs a certificate to show")))?;
                let (listener, bound) = tcp(name).map_err(failed)?;
                Ok((Socket::Tcp(listener, Some(identity)), Address::Tls(bound)))
            }
            Address::Unix(path) | Address::Memory(path) => {
                let listener =
                    unix_name(path).and_then(|name| UnixListener::bind_addr(&name)).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                let socket = match address {
                    Address::Memory(_) => Socket::Memory(listener, path.clone()),
                    _ => Socket::Unix(listener, path.clone()),
                };
                Ok((socket, address.clone()))
            }
            Address::Through { .. } => Err(Error::new(format!("cannot listen at {address}"))),
        }
    }

    /// A new connection, and its door if TLS begins behind one.
    fn accept(&self) -> std::io::Result<(Connection, Option<Door>)> {
        let connection = match self {
            Socket::Tcp(listener, identity) => {
                let (stream, _) = listener.accept()?;
                return Ok((Connection::tcp(stream)?, identity.is_some().then(Door::default)));
            }
            Socket::Unix(listener, _) => listener.accept().and_then(|(stream, _)| Connection::unix(stream)),
            Socket::Memory(listener, _) => {
                listener.accept().and_then(|(stream, _)| Connection::memory(stream))
            }
        };
        Ok((connection?, None))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(listener, _) => listener.as_fd(),
            Socket::Unix(listener, _) | Socket::Memory(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Place {
    /// The link whose connections the listener puts into this place.
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// The newest connection that has come since the last call of this method.
    pub(crate) fn take(&self) -> Option<Arrived> {
        if !self.slot.has_arrived.load(Ordering::Acquire) {
            return None;
        }
        self.slot.has_arrived.store(false, Ordering::Relaxed);
        silence(self.slot.bell.as_fd());
        self.slot.arrived.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The receiver has consumed everything from this sender.
    pub(crate) fn ended(&self, incarnation: u64, welcome: Welcome) {
        let mut ended = self.shared.ended();
        ended.retain(|other| other.link != self.link);
        if ended.len() == ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back(Ended { link: self.link, incarnation, welcome });
    }

    /// A file descriptor that is readable when a connection has come.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.slot.bell.as_fd()
    }

    /// Waits until a connection has come, the end was stopped, or until `deadline`.
    pub(crate) fn wait(&self, stop: &Stop, deadline: Instant) -> std::io::Result<()> {
        let fds = [self.bell(), stop.bell()];
        wait_for(&mut fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)), deadline)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.places().remove(&self.link);
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, HashMap<LinkId, Arc<Slot>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passing(&self) -> MutexGuard<'_, HashMap<[u8; 16], Arc<Passing>>> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the token of this listener. The tokens are compared completely, so the time does not
    /// reveal the place of the first difference.
    fn is_own(&self, token: &[u8; 32]) -> bool {
        self.token.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }

    fn unplaced(&self) -> MutexGuard<'_, HashMap<[u8; 16], mpsc::Sender<Place>>> {
        self.unplaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of a link. A link without a place gets one if a channel of [`Listener::unplaced`] accepts it.
    fn slot(self: &Arc<Shared>, link: LinkId) -> Option<Arc<Slot>> {
        if let Some(slot) = self.places().get(&link) {
            return Some(slot.clone());
        }
        let opened = self.unplaced().get(&link.session).cloned()?;
        let slot = Slot::new().ok()?;
        self.places().insert(link, slot.clone());
        let place = Place { link, slot: slot.clone(), shared: self.clone() };
        opened.send(place).ok().map(|()| slot)
    }

    fn ended(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the connection to its link, or answers with the reason for a refusal.
    fn admit(
        self: &Arc<Shared>,
        hello: &Hello,
        mut connection: Connection,
    ) -> Result<(), (Connection, Refusal)> {
        let refuse = |connection, is_final, why: String| Err((connection, Refusal { is_final, why }));
        if hello.version != VERSION {
            let why = format!("it speaks version {VERSION} of the protocol, not {}", hello.version);
            return refuse(connection, true, why);
        }
        if !self.is_own(&hello.token) {
            return refuse(connection, true, "the token is not that of this node".into());
        }
        let same = |ended: &&Ended| ended.link == hello.link && ended.incarnation == hello.incarnation;
        if let Some(ended) = self.ended().iter().find(same) {
            // A failure to write is ignored, because a sender that does not get the answer connects again.
            let _ = connection.write(&[IoSlice::new(&ended.welcome.encode())]);
            return Ok(());
        }
        let Some(slot) = self.slot(hello.link) else {
            return refuse(connection, false, "nobody receives it here yet".into());
        };
        let arrived = Arrived { connection, incarnation: hello.incarnation };
        // An earlier connection that was not taken yet is closed, because a sender that connects again has
        // given up its former connection.
        *slot.arrived.lock().unwrap_or_else(PoisonError::into_inner) = Some(arrived);
        slot.has_arrived.store(true, Ordering::Release);
        ring(slot.bell.as_fd());
        Ok(())
    }
}

/// The state of the listener's thread.
struct Hall {
    sockets: Vec<Socket>,
    /// The unknown peers by their numbers, in order of their arrival.
    strangers: BTreeMap<u64, Stranger>,
    /// The number of the next unknown peer.
    next: u64,
    watch: Watch,
    shared: Arc<Shared>,
    stop: Stop,
}

/// The number of the stop among what is waited for; those of the sockets are below.
const STOP: u64 = u64::MAX;

impl Hall {
    fn new(sockets: Vec<Socket>, shared: Arc<Shared>, stop: Stop) -> std::io::Result<Hall> {
        let watch = Watch::new()?;
        watch.add(stop.bell(), STOP)?;
        for (at, socket) in sockets.iter().enumerate() {
            watch.add(socket, STOP - 1 - at as u64)?;
        }
        Ok(Hall { sockets, strangers: BTreeMap::new(), next: 0, watch, shared, stop })
    }

    fn serve(mut self) {
        while !self.stop.is_asked() {
            let ready = self.wait().unwrap_or_else(|_| {
                // The wait failed, for example for lack of memory, so the thread pauses before it tries
                // again.
                std::thread::sleep(Duration::from_millis(10));
                Vec::new()
            });
            for number in ready {
                match usize::try_from(STOP - number) {
                    Ok(at) if (1..=self.sockets.len()).contains(&at) => self.accept(at - 1),
                    _ => _ = self.read_greeting(number),
                }
            }
            self.give_up();
        }
        for socket in &self.sockets {
            if let Socket::Unix(_, path) | Socket::Memory(_, path) = socket {
                // An error is ignored, because another process may have removed the socket's file already,
                // and an abstract name has no file.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Waits until one of the sockets can be read; returns their numbers.
    fn wait(&self) -> std::io::Result<Vec<u64>> {
        let first = self.strangers.first_key_value();
        let most = first.map(|(_, first)| PATIENCE.saturating_sub(first.since.elapsed()));
        // The system counts whole milliseconds.
        self.watch.wait(most.map_or(PATIENCE, |most| most + Duration::from_millis(1)))
    }

    /// Accepts new connections, a bounded number at a time, and reads what they have sent already.
    fn accept(&mut self, at: usize) {
        for _ in 0..GREETED_MAX {
            let (connection, door) = match self.sockets[at].accept() {
                Ok(accepted) => accepted,
                Err(error) if is_final(&error) => continue,
                Err(_) => break,
            };
            if self.strangers.len() == GREETED_MAX {
                self.strangers.pop_first();
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            let (number, since) = (self.next, Instant::now());
            self.next += 1;
            let stranger = Stranger { connection, door, frames: Frames::default(), since };
            self.strangers.insert(number, stranger);
            if self.read_greeting(number)
                && let Some(stranger) = self.strangers.get(&number)
                && self.watch.add(&stranger.connection, number).is_err()
            {
                self.strangers.remove(&number);
            }
        }
    }

    /// Closes connections whose greeting has not come in time.
    fn give_up(&mut self) {
        while let Some(first) = self.strangers.first_entry() {
            if first.get().since.elapsed() < PATIENCE {
                return;
            }
            first.remove();
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads what an unknown peer has sent; returns whether more has to come.
    fn read_greeting(&mut self, number: u64) -> bool {
        let Some(stranger) = self.strangers.remove(&number) else { return false };
        let Ok((mut stranger, is_through)) = self.knocked(stranger) else {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let read = match is_through {
            true => stranger.frames.read(&mut stranger.connection),
            false => Ok(Ok(Read::Later)),
        };
        let header = match read {
            Ok(Ok(Read::Later)) => {
                self.strangers.insert(number, stranger);
                return true;
            }
            Ok(Ok(Read::Frame(header))) => header,
            _ => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                return false;
            }
        };
        // The connection may stay open, and others wait for it from now on.
        self.watch.remove(&stranger.connection);
        match header.kind {
            Kind::Hello => self.answer(stranger),
            Kind::Via => self.pass_on(stranger, &header),
            _ => _ = self.shared.refused.fetch_add(1, Ordering::Relaxed),
        }
        false
    }

    /// Whether the connection has come through its door; TLS begins there.
    fn knocked(&self, mut stranger: Stranger) -> std::io::Result<(Stranger, bool)> {
        let Some(mut door) = stranger.door.take() else { return Ok((stranger, true)) };
        let Connection::Tcp(stream) = &stranger.connection else { return Ok((stranger, true)) };
        let secrets = |begin: &[u8; 8]| Vec::from_iter((*begin == KNOCK).then_some(self.shared.token));
        match (door.look(stream, secrets)?, &self.shared.identity) {
            (Knocked::Later, _) => Ok((Stranger { door: Some(door), ..stranger }, false)),
            (Knocked::Proved, Some(identity)) => {
                let connection = stranger.connection.secured(identity)?;
                Ok((Stranger { connection, ..stranger }, true))
            }
            _ => Err(std::io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Passes a connection on, on a thread of its own.
    fn pass_on(&self, stranger: Stranger, header: &Header) {
        let Stranger { connection, frames, .. } = stranger;
        let via = Via::decode(header, frames.payload()).ok().filter(|via| self.shared.is_own(&via.token));
        let passing = via.and_then(|via| Some((via.to, self.shared.passing().get(&via.session)?.clone())));
        let Some((to, passing)) = passing else {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let shared = self.shared.clone();
        // An error is ignored: the connection closes then, and its sender tries again.
        let _ = std::thread::Builder::new().name("link passed on".into()).spawn(move || {
            let address = (passing.reach)(to);
            pass(
                connection,
                frames.rest(),
                (to, address),
                shared.identity.as_ref().map(|identity| (identity, &shared.token)),
                (&passing, &shared.stop),
            );
        });
    }

    fn answer(&self, stranger: Stranger) {
        let Stranger { connection, frames, .. } = stranger;
        // A sender sends nothing after its hello until it has been admitted.
        let hello = if frames.is_empty() { Hello::decode(frames.payload()).ok() } else { None };
        let Some(hello) = hello else {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Err((mut connection, refusal)) = self.shared.admit(&hello, connection) {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            // A failure to write is ignored, because a sender that does not get the refusal tries until its
            // lease is over.
            let _ = connection.write(&[IoSlice::new(&refusal.encode())]);
        }
    }
}

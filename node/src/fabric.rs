//! The links between the processes of a session, over which parts are opened and records travel both ways.
//!
//! The process that opens a part chooses the numbers of two links. The first message of the link to the part
//! names that process, the number of the link back, and the part; records follow. Control connections detect
//! lost nodes, so links themselves wait long: the loss of a node stops all links to it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver as Places;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use thalweg_link::secure::Identity;
use thalweg_link::{
    Address, Counters, LinkId, Listener, Passing, Place, Ports, Receiver, ReceiverOptions, Sender,
    SenderOptions, Stop, Tuning,
};
use thalweg_net::run::{FromNode, Got, Opened, ToNode, Ways};
use thalweg_space::Space;

use crate::channel::{hex, random};
use crate::idle::{Idle, IdleSenders};
use crate::settings::{Settings, Transport};
use crate::watched::{Direction, WatchedEnds};

/// How long a receiver waits for the connection of its sender, while the other node is known to live.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long a sender tries to reach its receiver, while the other node is known to live.
const REACHING: Duration = Duration::from_secs(20);
/// How long a node that opens a part on this node may take to send its first message after it connected.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);
/// How long a network that has ended may still wait for parts that other nodes open.
const CLOSING: Duration = Duration::from_secs(20);
/// The bytes of the first message's head: the number of the node, the number of the link back.
const HEAD_BYTES: usize = 16;

/// A process's side of a session's links.
#[derive(Debug)]
pub(crate) struct Fabric {
    here: usize,
    /// The names of the session's processes, by number; nodes that join are added at the end.
    names: RwLock<Vec<String>>,
    /// The number of processes over which replicas are distributed. A node that joins is counted when all others know
    /// its address.
    count: AtomicUsize,
    session: [u8; 16],
    token: [u8; 32],
    /// What this process shows of itself; `None`: links are not encrypted.
    identity: Option<Identity>,
    listener: Listener,
    /// The addresses of the session's processes, by number; empty until all are known.
    addresses: RwLock<Vec<Addresses>>,
    /// Where the senders of this process connect.
    targets: Mutex<Targets>,
    /// The links that other processes open to this process.
    places: Mutex<Places<Place>>,
    /// Whether the present network waits for no more parts that other nodes open, and its notification.
    closed: (Mutex<bool>, Condvar),
    next: AtomicU64,
    sending: Ports,
    receiving: Ports,
    /// The settings that all links of this process share, except for the address.
    tuning: Tuning,
    /// The settings in the space, through which users change the links' settings, once there is a space.
    settings: OnceLock<Settings>,
    /// The recorder of the links' counters, once there is a space.
    watched: OnceLock<WatchedEnds>,
    /// The handles that end the waits of links, each with the node at the other end.
    stops: Mutex<Vec<(usize, Stop)>>,
    /// The reason why each node is lost, by number.
    lost: Mutex<Vec<Option<String>>>,
    /// The senders that have nothing to send.
    idle: IdleSenders,
    /// The nodes that links do not reach although nobody has said that they are lost.
    unreachable: Mutex<Vec<Unreachable>>,
}

/// A node that a link of this process does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable {
    /// The node's number.
    pub(crate) node: usize,
    pub(crate) why: String,
    /// Whether it is because of this process: the other one refuses its certificate.
    pub(crate) is_own: bool,
}

/// The addresses of one process.
#[derive(Clone, Debug)]
struct Addresses {
    /// All addresses as the process itself wrote them; another process may be on the same host although this one is not.
    text: String,
    /// The address for processes of all hosts.
    wide: Option<Address>,
    /// The Unix socket for processes of the same host, if this process is one.
    near: Option<Address>,
    /// The address at which processes of the same host hand over memory, if this process is one.
    memory: Option<Address>,
}

impl Addresses {
    /// Reads the addresses of a process, as [`Fabric::address`] writes them.
    fn parse(text: &str) -> Addresses {
        let mut all = text.split(' ').map(|address| address.parse::<Address>().ok());
        let wide = all.next().flatten();
        let mut here = || all.next().flatten().filter(Address::is_near);
        Addresses { text: text.to_owned(), wide, near: here(), memory: here() }
    }

    /// The address for a direct connection.
    fn by(&self, transport: Transport) -> Option<Address> {
        let here = match transport {
            Transport::Unix => &self.near,
            Transport::Memory => &self.memory,
            Transport::Tcp | Transport::Routed => &None,
        };
        here.clone().or_else(|| self.wide.clone())
    }
}

/// Where the senders of a process connect.
#[derive(Debug)]
struct Targets {
    transport: Transport,
    /// The senders' settings, each with the number of the node at the other end and that of the link.
    senders: Vec<(usize, u64, Tuning)>,
}

impl Fabric {
    /// Listens at this host name of this machine, on any port; with TLS if there is an identity to show.
    pub(crate) fn new(
        here: usize,
        names: Vec<String>,
        (session, token): ([u8; 16], [u8; 32]),
        host: &str,
        identity: Option<Identity>,
    ) -> Result<Arc<Fabric>, String> {
        let is_bare = host.contains(':') && !host.starts_with('[');
        let at = if is_bare { format!("[{host}]:0") } else { format!("{host}:0") };
        let address = if identity.is_some() { Address::Tls(at) } else { Address::Tcp(at) };
        let failed = |error: &dyn std::fmt::Display| format!("cannot listen for the other nodes: {error:#}");
        let name = hex(&random::<16>().map_err(|error| failed(&error))?);
        let near = Address::Unix(format!("@thalweg-{name}").into());
        let memory = Address::Memory(format!("@thalweg-memory-{name}").into());
        let listener = Listener::with(&[address, near, memory], token, identity.clone())
            .map_err(|error| failed(&error))?;
        let places = listener.unplaced(session);
        let tuning = Tuning::new(listener.address().clone());
        let lost = Mutex::new(vec![None; names.len()]);
        Ok(Arc::new(Fabric {
            here,
            count: AtomicUsize::new(names.len()),
            names: RwLock::new(names),
            session,
            token,
            identity,
            listener,
            addresses: RwLock::default(),
            targets: Mutex::new(Targets { transport: Transport::Tcp, senders: Vec::new() }),
            places: Mutex::new(places),
            closed: (Mutex::new(false), Condvar::new()),
            next: AtomicU64::new(0),
            sending: Ports::new(8, 0),
            receiving: Ports::new(8, 0),
            tuning,
            settings: OnceLock::new(),
            watched: OnceLock::new(),
            stops: Mutex::default(),
            lost,
            idle: IdleSenders::default(),
            unreachable: Mutex::default(),
        }))
    }

    /// The addresses at which this process listens, as one text for the other processes.
    pub(crate) fn address(&self) -> String {
        let all: Vec<String> = self.listener.addresses().iter().map(Address::to_string).collect();
        all.join(" ")
    }

    /// Declares the links' settings in this space, and records the links' counters as events of it.
    pub(crate) fn declare(self: &Arc<Self>, space: Option<&Space>) -> Result<(), String> {
        let settings = Settings::DECLARED.make(space).map_err(|error| format!("{error:#}"))?;
        self.settings.get_or_init(|| settings);
        if let Some(space) = space {
            self.watched.get_or_init(|| WatchedEnds::new(space.clone()));
        }
        self.look();
        Ok(())
    }

    /// Applies the present settings to the links, and records their counters when that is due. The session
    /// calls this some 40 times a second.
    pub(crate) fn look(self: &Arc<Self>) {
        let fabric = self.clone();
        self.idle.look(move |node, error| _ = fabric.why(node, error));
        let Some(settings) = self.settings.get() else { return };
        let watched = self.watched.get();
        let adopted =
            |name, old, new| watched.into_iter().for_each(|watched| watched.adopted(name, old, new));
        let transport = |transport| self.set_transport(transport);
        settings.apply(&self.tuning, (&self.sending, &self.receiving), transport, adopted);
        let is_routed = self.targets().transport == Transport::Routed;
        watched.into_iter().for_each(|watched| watched.look(is_routed));
    }

    /// The bytes that links sent and received, including headers.
    pub(crate) fn carried(&self) -> (u64, u64) {
        (self.sending.carried(), self.receiving.carried())
    }

    pub(crate) fn here(&self) -> usize {
        self.here
    }

    /// The names of all processes of the session, by number.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names_now().clone()
    }

    /// The name of a process.
    pub(crate) fn name(&self, node: usize) -> Option<String> {
        self.names_now().get(node).cloned()
    }

    fn names_now(&self) -> RwLockReadGuard<'_, Vec<String>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of processes over which replicas are distributed, with the one that began the session.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Distributes replicas over this many processes from now on.
    pub(crate) fn set_count(&self, count: usize) {
        self.count.store(count, Ordering::Release);
    }

    /// Adds a node that joins. Links to and from it are possible from now on.
    pub(crate) fn add(&self, node: usize, name: &str, address: &str) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        // The question may come twice.
        if names.len() != node {
            return;
        }
        self.addresses.write().unwrap_or_else(PoisonError::into_inner).push(Addresses::parse(address));
        self.lost().push(None);
        names.push(name.to_owned());
    }

    /// Whether links are encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        self.identity.is_some()
    }

    /// The addresses of all processes, as [`Fabric::address`] returns them there.
    pub(crate) fn all_addresses(&self) -> Vec<String> {
        self.addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|one| one.text.clone())
            .collect()
    }

    /// The addresses of a process, when they are known.
    fn addresses_of(&self, node: usize) -> Option<Addresses> {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// Moves the links to another transport. A sender connects again when it sends next, and continues where it was.
    fn set_transport(&self, transport: Transport) {
        let mut targets = self.targets();
        if std::mem::replace(&mut targets.transport, transport) != transport {
            self.move_to(&targets);
        }
    }

    /// Moves each link to the address that it has now.
    fn move_to(&self, targets: &Targets) {
        for (node, number, tuning) in &targets.senders {
            let address = self.target(*node, *number, targets.transport);
            if let Some(address) = address.filter(|address| *address != tuning.address()) {
                tuning.set_address(address);
            }
        }
    }

    /// Where the sender of this link to a node connects.
    fn target(&self, node: usize, link: u64, transport: Transport) -> Option<Address> {
        let direct = self.addresses_of(node)?.by(transport)?;
        let listeners = match transport {
            Transport::Routed => self.passers(node, link),
            _ => Vec::new(),
        };
        Some(if listeners.is_empty() { direct } else { Address::Through { listeners, to: node as u64 } })
    }

    /// The processes that may pass a link to a node on, in the order in which they are tried: first the other nodes,
    /// beginning with one that the link's number decides, then the process that began the session. The links with that
    /// process go directly, because each node has to reach it anyway, and another node might not reach this one.
    fn passers(&self, node: usize, link: u64) -> Vec<Address> {
        if self.here == 0 || node == 0 {
            return Vec::new();
        }
        let lost = self.lost();
        let is_free = |other: &usize| *other != self.here && *other != node && lost[*other].is_none();
        let mut others: Vec<usize> = (1..lost.len()).filter(is_free).collect();
        if !others.is_empty() {
            // The numbers of the two links of a part follow each other.
            let first = (link / 2 % others.len() as u64) as usize;
            others.rotate_left(first);
        }
        others.push(0);
        drop(lost);
        others.into_iter().filter_map(|other| self.addresses_of(other)?.wide).collect()
    }

    /// Passes links of other processes on from now on.
    fn pass_on(self: &Arc<Self>) {
        let fabric = Arc::downgrade(self);
        let reach = Box::new(move |node: u64| {
            let fabric = fabric.upgrade()?;
            fabric.addresses_of(usize::try_from(node).ok()?)?.wide
        });
        let passing = Passing { reach, sending: self.sending.clone(), receiving: self.receiving.clone() };
        self.listener.pass_on(self.session, passing);
    }

    fn targets(&self) -> MutexGuard<'_, Targets> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the addresses of all processes, as [`Fabric::address`] returns them there.
    pub(crate) fn meet(self: &Arc<Self>, addresses: &[String]) {
        let addresses = addresses.iter().map(|text| Addresses::parse(text)).collect();
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
        self.pass_on();
    }

    /// Ends all links to a node, which is lost.
    pub(crate) fn lose(&self, node: usize, why: &str) {
        let name = self.name(node).unwrap_or_default();
        if let Some(lost) = self.lost().get_mut(node) {
            lost.get_or_insert_with(|| format!("node {name} is lost: {why}"));
        }
        self.stops().iter().filter(|(at, _)| *at == node).for_each(|(_, stop)| stop.stop());
        // Links that the node passed on go through others now.
        self.move_to(&self.targets());
    }

    /// Ends all links, because the session is over and a link that still waits for its other end may wait for
    /// a process that has ended.
    pub(crate) fn give_up(&self) {
        for lost in self.lost().iter_mut() {
            lost.get_or_insert_with(|| "the session has ended".to_owned());
        }
        self.stops().iter().for_each(|(_, stop)| stop.stop());
    }

    /// Stops accepting parts that other nodes want to open on this node.
    pub(crate) fn close(&self) {
        self.listener.close(self.session);
    }

    /// Accepts parts again, for the network that follows the one that has ended.
    pub(crate) fn reopen(&self) -> Result<(), String> {
        self.close();
        let (closed, notified) = &self.closed;
        let closed = closed.lock().unwrap_or_else(PoisonError::into_inner);
        // A network that still waited would take the parts of the next one.
        let waited = notified.wait_timeout_while(closed, CLOSING, |closed| !*closed);
        let (mut closed, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return Err(format!("the network before did not end within {} s", CLOSING.as_secs()));
        }
        *closed = false;
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = self.listener.unplaced(self.session);
        Ok(())
    }

    /// Waits for the next part that another node opens on this node.
    pub(crate) fn opened(self: &Arc<Self>) -> Option<Opened> {
        loop {
            let place = self.places.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(place) = place else {
                let (closed, notified) = &self.closed;
                *closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
                notified.notify_all();
                return None;
            };
            // A peer that sends no valid opening has disconnected, or is no node of the session; it is
            // ignored.
            if let Ok(opened) = self.take(place) {
                return Some(opened);
            }
        }
    }

    fn take(self: &Arc<Self>, place: Place) -> Result<Opened, String> {
        let number = place.link().number;
        let mut receiver = self.receiver(place, None)?;
        // Only the first message names the other node, so the loss of a node that has not sent its first
        // message cannot stop this link; the deadline ends the wait.
        if !receiver.advance(Some(Instant::now() + FIRST_MESSAGE)).map_err(|error| format!("{error:#}"))? {
            return Err("it opens nothing".into());
        }
        let first = receiver.message();
        let (head, opening) = first.split_first_chunk::<HEAD_BYTES>().ok_or("it opens nothing")?;
        let word = |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| head[at + byte]));
        let (node, back, opening) = (word(0) as usize, word(8), opening.to_vec());
        self.stops().push((node, receiver.stop()));
        let to = self.sender(node, back)?;
        Ok(Opened { opening, from: Box::new(self.incoming(node, number, receiver)), to: Box::new(to) })
    }

    /// Opens a part on another node.
    pub(crate) fn open(self: &Arc<Self>, node: usize, opening: &[u8]) -> Result<Ways, String> {
        if let Some(why) = self.why_lost(node) {
            return Err(why);
        }
        let number =
            |fabric: &Fabric| ((fabric.here as u64) << 40) | fabric.next.fetch_add(1, Ordering::Relaxed);
        let (there, back) = (number(self), number(self));
        let place = self.listener.place(LinkId { session: self.session, number: back });
        let receiver = self.receiver(place.map_err(|error| format!("{error:#}"))?, Some(node))?;
        let mut to = self.sender(node, there)?;
        let mut first = Vec::with_capacity(HEAD_BYTES + opening.len());
        first.extend((self.here as u64).to_le_bytes());
        first.extend(back.to_le_bytes());
        first.extend(opening);
        to.push(&first)?;
        to.flush()?;
        Ok((Box::new(to), Box::new(self.incoming(node, back, receiver))))
    }

    fn receiver(&self, place: Place, node: Option<usize>) -> Result<Receiver, String> {
        let tuning = self.tuning.shared_to(self.listener.address().clone());
        let options = ReceiverOptions {
            ports: self.receiving.clone(),
            lease: PATIENCE,
            ..ReceiverOptions::new(tuning)
        };
        let receiver = Receiver::new(place, options).map_err(|error| format!("{error:#}"))?;
        self.stops().extend(node.map(|node| (node, receiver.stop())));
        Ok(receiver)
    }

    fn incoming(self: &Arc<Self>, node: usize, number: u64, receiver: Receiver) -> LinkIn {
        self.watch(number, node, Direction::In, receiver.counters(), None);
        LinkIn { fabric: self.clone(), node, number, receiver, is_found: false }
    }

    fn watch(
        &self,
        number: u64,
        node: usize,
        direction: Direction,
        counters: Counters,
        tuning: Option<Tuning>,
    ) {
        let name = self.name(node).unwrap_or_else(|| "?".to_owned());
        if let Some(watched) = self.watched.get() {
            watched.add(number, &name, direction, counters, tuning);
        }
    }

    fn sender(self: &Arc<Self>, node: usize, number: u64) -> Result<LinkOut, String> {
        // The lock is held until the sender is in the list, so a change of the transport does not miss it.
        let mut targets = self.targets();
        let address = self.target(node, number, targets.transport);
        let address = address.ok_or_else(|| format!("no node of this session has the number {node}"))?;
        let link = LinkId { session: self.session, number };
        let options = SenderOptions {
            node: self.name(self.here).unwrap_or_default(),
            token: self.token,
            identity: self.identity.clone(),
            ports: self.sending.clone(),
            lease: REACHING,
            ..SenderOptions::new(link, self.tuning.shared_to(address))
        };
        let tuning = options.tuning.clone();
        let sender = Sender::new(options).map_err(|error| format!("{error:#}"))?;
        targets.senders.push((node, number, tuning.clone()));
        drop(targets);
        self.stops().push((node, sender.stop()));
        self.watch(number, node, Direction::Out, sender.counters(), Some(tuning));
        let stop = sender.stop();
        let out = LinkOut {
            fabric: self.clone(),
            node,
            number,
            stop,
            sender: Some(sender),
            idle: self.idle.add(node),
            is_open: false,
        };
        // The node may have been lost while the links were made.
        match self.why_lost(node) {
            Some(why) => Err(why),
            None => Ok(out),
        }
    }

    fn why_lost(&self, node: usize) -> Option<String> {
        self.lost().get(node).cloned().flatten()
    }

    /// The reason why a link to a node has failed. A node that lives and that a link does not reach is noted:
    /// the other end of the link would wait for ever.
    fn why(&self, node: usize, error: &thalweg_link::Error) -> String {
        self.why_lost(node).unwrap_or_else(|| {
            let why = format!("{error:#}");
            let mut all = self.unreachable.lock().unwrap_or_else(PoisonError::into_inner);
            if !error.is_stopped() && all.iter().all(|one| one.node != node) {
                all.push(Unreachable { node, why: why.clone(), is_own: error.is_refused() });
            }
            why
        })
    }

    /// The nodes that links of this process did not reach, each once.
    pub(crate) fn unreachable(&self) -> Vec<Unreachable> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes the stop handle of a link that has ended, because handles would accumulate otherwise, and
    /// records the end's counters.
    fn forget(&self, number: u64, direction: Direction, own: &Stop) {
        self.stops().retain(|(_, stop)| !stop.is_of(own));
        if direction == Direction::Out {
            self.targets().senders.retain(|(_, other, _)| *other != number);
        }
        self.watched.get().into_iter().for_each(|watched| watched.end(number, direction));
    }

    /// A panic under these locks leaves every step either done or not begun.
    fn stops(&self) -> MutexGuard<'_, Vec<(usize, Stop)>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, Vec<Option<String>>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A link to another node.
struct LinkOut {
    fabric: Arc<Fabric>,
    node: usize,
    number: u64,
    stop: Stop,
    /// `None` while the sender is idle, and after the link has ended.
    sender: Option<Sender>,
    idle: Arc<Idle>,
    is_open: bool,
}

impl LinkOut {
    fn with<R>(
        &mut self,
        act: impl FnOnce(&mut Sender) -> Result<R, thalweg_link::Error>,
    ) -> Result<R, String> {
        if self.sender.is_none() {
            self.sender = self.idle.take();
        }
        let sender = self.sender.as_mut().ok_or("the link has ended")?;
        act(sender).map_err(|error| self.fabric.why(self.node, &error))
    }
}

impl ToNode for LinkOut {
    fn number(&self) -> Option<u64> {
        Some(self.number)
    }

    fn push(&mut self, message: &[u8]) -> Result<(), String> {
        self.with(|sender| sender.push(message))
    }

    fn flush(&mut self) -> Result<(), String> {
        // The receiver waits for its sender's connection even if there is nothing to send yet.
        let is_open = std::mem::replace(&mut self.is_open, true);
        self.with(
            |sender| if is_open { sender.flush() } else { sender.open().and_then(|()| sender.flush()) },
        )?;
        self.idle.put(self.sender.take());
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        let sender = self.sender.take().or_else(|| self.idle.take()).ok_or("the link has ended")?;
        sender.finish().map_err(|error| self.fabric.why(self.node, &error))
    }
}

impl Drop for LinkOut {
    fn drop(&mut self) {
        // A sender that makes a new connection meanwhile is not needed any more.
        self.stop.stop();
        self.fabric.forget(self.number, Direction::Out, &self.stop);
    }
}

/// A link from another node.
struct LinkIn {
    fabric: Arc<Fabric>,
    node: usize,
    number: u64,
    receiver: Receiver,
    /// Whether the next message was found and not returned yet.
    is_found: bool,
}

impl LinkIn {
    fn advance(&mut self, deadline: Option<Instant>) -> Result<bool, String> {
        let advanced = self.receiver.advance(deadline);
        advanced.map_err(|error| self.fabric.why(self.node, &error))
    }
}

impl FromNode for LinkIn {
    fn number(&self) -> Option<u64> {
        Some(self.number)
    }

    fn next(&mut self) -> Result<Got<'_>, String> {
        let is_found = std::mem::take(&mut self.is_found) || self.advance(Some(Instant::now()))?;
        Ok(match is_found {
            true => Got::Message(self.receiver.message()),
            false if self.receiver.is_ended() => Got::End,
            false => Got::Nothing,
        })
    }

    fn wait(&mut self) -> Result<(), String> {
        if !self.is_found {
            self.is_found = self.advance(None)?;
        }
        Ok(())
    }
}

impl Drop for LinkIn {
    fn drop(&mut self) {
        self.fabric.forget(self.number, Direction::In, &self.receiver.stop());
    }
}

//! A node: one process on each machine, which describes itself to peers, keeps box libraries, and starts a
//! process for each session.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_host::Error;
use thalweg_link::secure::{self, Identity};
use thalweg_space::archive::COPYING;

use crate::channel::{Channel, Met, NO_INVITATION, Refused, hex, host_of, is_cut, unhex};
use crate::cluster::{Cluster, Known, is_name};
use crate::folder::{Folder, remove_abandoned};
use crate::hall::Hall;
use crate::held::Held;
use crate::store::{Receiving, Store};
use crate::tuned::QUESTION as HALF_QUESTION;

/// The most connections that have not proved that they know the token, and the most that have proved it and
/// whose handshake of TLS is not over; a new one replaces the one that has waited longest.
pub(crate) const STRANGERS_MAX: usize = 64;
/// The most connections of the cluster at a time.
const GUESTS_MAX: usize = 1024;
/// The longest question of a machine without a certificate, in bytes.
const NEWCOMER_BYTES_MAX: usize = 64 << 10;
/// The interval at which the node checks whether it must end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a peer without a session may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the process of a session may take to answer; loading a network may take long.
const PART_PATIENCE: Duration = Duration::from_secs(60);
/// The name of the folder of all sessions, in the cluster's folder.
const SESSIONS: &str = "sessions";
/// What the process of a session is of.
const PART: &str = "part of the network";
const HALF: &str = "half of the tuner";
/// The bytes that are kept of the standard error of a session's process.
const STDERR_BYTES: usize = 4096;

/// The options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The node's name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The address at which the node listens, `HOST:PORT`; with port 0 the system chooses a free port.
    pub listen: String,
    /// Whether the node demands TLS even if only this machine can reach its address.
    pub tls: bool,
    /// Addresses of nodes that this node joins.
    pub join: Vec<String>,
    /// Whether boxes may be commands, which networks start.
    pub allow_exec: bool,
    /// The cluster that the node belongs to.
    pub cluster: Cluster,
    /// The program, with its arguments, that serves the parts of a session ([`crate::serve_part`]).
    pub part: Vec<PathBuf>,
    /// The program, with its arguments, that is the half of a tuner here ([`crate::serve_half`]).
    pub half: Vec<PathBuf>,
}

/// A node that listens.
#[derive(Debug)]
pub struct Node {
    hall: Mutex<Hall>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: NodeOptions,
    known: Known,
    /// What the node shows of itself, with TLS.
    identity: Option<Identity>,
    store: Store,
    /// The other nodes that joined, by name.
    others: Mutex<HashMap<String, String>>,
    guests: AtomicUsize,
    sessions: AtomicUsize,
    /// Connections whose handshake of TLS is not over.
    strangers: Mutex<VecDeque<(u64, TcpStream)>>,
    /// What belongs to the connections of runs.
    held: Held<Belongings>,
    /// The connections of machines, with the fingerprints of their certificates.
    machines: Mutex<Vec<Machine>>,
}

/// A connection of a machine that has shown a certificate.
#[derive(Debug)]
struct Machine {
    number: u64,
    shown: [u8; 32],
    socket: TcpStream,
}

impl Node {
    /// Listens, writes its address into the cluster's folder, and joins other nodes.
    ///
    /// # Errors
    /// The address cannot be bound or can be reached from other machines, or a node to join cannot be
    /// reached.
    pub fn start(options: NodeOptions) -> Result<Node, Error> {
        let NodeOptions { name, listen, .. } = &options;
        if !is_name(name) {
            return Err(Error::usage(format!(
                "`{name}` is no name of a node: 1 to 64 letters, digits, `-`, `_` and `.`, no `.` first"
            )));
        }
        let failed = |error| Error::usage(format!("node {name} cannot listen at {listen}")).because(error);
        let listener = TcpListener::bind(listen.as_str()).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if address.ip().is_unspecified() {
            return Err(Error::usage(format!(
                "node {name} would listen at {address}, which is no address for others: name the one by which they reach this \
                 machine, --listen HOST:PORT"
            )));
        }
        let is_secure = options.tls || !address.ip().is_loopback();
        let identity = if is_secure { Some(identity(&options, &address)?) } else { None };
        listener.set_nonblocking(true).map_err(failed)?;
        let store = Store::open(options.cluster.folder().join("libraries"))
            .map_err(|error| Error::usage("cannot make the folder of box libraries").because(error))?;
        remove_abandoned(&options.cluster.folder().join(SESSIONS));
        let host = host_of(listen);
        let shown = if is_secure { format!("tls/{host}:{}", address.port()) } else { address.to_string() };
        let known = Known { name: name.clone(), address: shown };
        if let Ok(other) = options.cluster.find(name)
            && options.cluster.connect(&other).is_ok()
        {
            return Err(Error::usage(format!("a node {name} runs at {} already", other.address)));
        }
        let hall = Hall::new(listener, options.cluster.clone(), is_secure).map_err(failed)?;
        let shared = Arc::new(Shared {
            known,
            identity,
            store,
            options,
            others: Mutex::default(),
            guests: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            strangers: Mutex::default(),
            held: Held::default(),
            machines: Mutex::default(),
        });
        shared.options.join.iter().try_for_each(|address| shared.join(address))?;
        shared
            .options
            .cluster
            .note(&shared.known)
            .map_err(|error| Error::usage("cannot write into the cluster's folder").because(error))?;
        Ok(Node { hall: Mutex::new(hall), shared })
    }

    /// The node's name and the address at which it listens.
    pub fn known(&self) -> &Known {
        &self.shared.known
    }

    /// Serves until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool) {
        // A panic of a former call leaves nothing that a further call could not use.
        let mut hall = self.hall.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut number, mut looked) = (0, Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let known = hall.known(LOOK);
            if looked.elapsed() >= LOOK {
                self.shared.close_revoked();
                looked = Instant::now();
            }
            for stream in known {
                number += 1;
                self.shared.serve_peer(number, stream);
            }
        }
        self.shared.options.cluster.forget(&self.shared.known);
    }
}

/// What the node shows of itself at this address.
fn identity(options: &NodeOptions, address: &SocketAddr) -> Result<Identity, Error> {
    let NodeOptions { name, listen, cluster, .. } = options;
    let identity = cluster.identity().map_err(|error| {
        Error::usage(format!("node {name} would listen at {address}, where connections are encrypted"))
            .because(error)
    })?;
    identity.check(host_of(listen)).map_err(|error| {
        Error::usage(format!(
            "node {name} cannot listen at {listen} with the certificate in {}",
            cluster.folder().display()
        ))
        .because(error)
    })?;
    Ok(identity)
}

impl Shared {
    /// Serves a peer that has connected, on a thread of its own.
    fn serve_peer(self: &Arc<Self>, number: u64, stream: TcpStream) {
        let Ok(kept) = stream.try_clone() else { return };
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        let mut strangers = self.strangers();
        if strangers.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = strangers.pop_front()
        {
            // Closing the connection ends the peer's thread.
            let _ = oldest.shutdown(std::net::Shutdown::Both);
        }
        strangers.push_back((number, kept));
        drop(strangers);
        let shared = self.clone();
        let started = std::thread::Builder::new().name("guest".into()).spawn(move || {
            let met = Channel::accept(stream, shared.options.cluster.token(), shared.identity.as_ref());
            if let Ok(Met::Newcomer(channel)) = met {
                shared.enroll(channel);
                return shared.strangers().retain(|(other, _)| *other != number);
            }
            shared.strangers().retain(|(other, _)| *other != number);
            let Ok(Met::Known { channel, may_run }) = met else { return };
            if shared.guests.fetch_add(1, Ordering::Relaxed) < GUESTS_MAX {
                if let (Some(shown), Some(socket)) = (channel.shown(), channel.socket()) {
                    shared.machines().push(Machine { number, shown, socket });
                }
                Guest::new(shared.clone(), channel, may_run).serve();
                shared.machines().retain(|machine| machine.number != number);
            }
            shared.guests.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.strangers().retain(|(other, _)| *other != number);
        }
    }

    /// Closes the connections of machines with revoked certificates, revoked here or by a process of this
    /// machine.
    fn close_revoked(&self) {
        let certificates = self.options.cluster.certificates();
        for machine in self.machines().iter().filter(|machine| certificates.is_revoked(&machine.shown)) {
            // An error means that the connection is closed already.
            let _ = machine.socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// A panic under this lock leaves at most one connection too many or too few in the list.
    fn machines(&self) -> MutexGuard<'_, Vec<Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the fingerprints of revoked certificates from a machine that may run programs here.
    fn take_revoked(&self, head: &Value) {
        let all = crate::part::texts(&head["revoked"]);
        // An error is ignored: a folder that cannot be written is reported when it is needed.
        let _ = self.options.cluster.certificates().revoke(&all);
    }

    /// A panic under this lock leaves at most one connection too many or too few in the list.
    fn strangers(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a machine that has no certificate yet. The machine may ask one question, and stays in the list
    /// of strangers meanwhile.
    fn enroll(&self, mut channel: Channel) {
        let Ok(Some((head, _))) = channel.receive_at_most(NEWCOMER_BYTES_MAX, 0) else { return };
        let answer = self.signed(&head).map(|answer| (answer, Vec::new())).map_err(Refused::new);
        // An error is ignored: the machine is gone then, and asks again with another invitation.
        let _ = channel.answer(answer);
    }

    fn signed(&self, head: &Value) -> Result<Value, String> {
        let text = |key: &str| head[key].as_str().unwrap_or_default();
        if text("do") != "enroll" {
            return Err("a machine without a certificate can only ask for one".into());
        }
        let certificates = self.options.cluster.certificates();
        let key = unhex::<{ secure::PUBLIC_BYTES }>(text("key")).ok_or("it sends no public key")?;
        let may =
            unhex(text("secret")).and_then(|secret| certificates.redeem(&secret)).ok_or(NO_INVITATION)?;
        let hosts = crate::part::texts(&head["hosts"]);
        let days = head["days"].as_u64().unwrap_or(1).try_into().unwrap_or(u32::MAX);
        let shown = |error: Error| thalweg_host::chain(&error);
        Ok(json!({
            "certificate": certificates.sign(&key, &hosts, days, may).map_err(shown)?,
            "authority": certificates.authority().map_err(shown)?,
            "token": hex(self.options.cluster.token()),
        }))
    }

    /// Sends this node's address to another node, and learns which nodes it knows.
    fn join(&self, address: &str) -> Result<(), Error> {
        let there = Known { name: address.to_owned(), address: address.to_owned() };
        let mut channel = self.options.cluster.connect(&there)?;
        let Known { name, address: own } = &self.known;
        let (answer, _) = channel
            .ask("join", json!({"name": name, "address": own, "revoked": self.revoked()}), &[])
            .map_err(|refused| Error::usage(format!("cannot join the node at {address}: {}", refused.why)))?;
        self.take_revoked(&answer);
        for (name, address) in crate::part::pairs(&answer["members"]) {
            self.note(name, address);
        }
        Ok(())
    }

    fn note(&self, name: String, address: String) {
        if is_name(&name) && name != self.known.name {
            let known = Known { name: name.clone(), address: address.clone() };
            // An error is ignored here: a folder that cannot be written is reported when it is needed.
            let _ = self.options.cluster.note(&known);
            self.others().insert(name, address);
        }
    }

    fn revoked(&self) -> Vec<String> {
        self.options.cluster.certificates().revoked()
    }

    fn members(&self) -> Vec<[String; 2]> {
        let own = [self.known.name.clone(), self.known.address.clone()];
        let others = self.others();
        let mut all: Vec<_> = others.iter().map(|(name, address)| [name.clone(), address.clone()]).collect();
        all.push(own);
        all.sort();
        all
    }
}

/// A peer of the cluster that sends requests.
struct Guest {
    shared: Arc<Shared>,
    channel: Channel,
    /// Whether the peer may run programs here.
    may_run: bool,
    /// The name under which the peer may go on over another connection.
    key: Option<String>,
    /// How long the peer's session waits for that.
    lease: Duration,
    own: Belongings,
}

/// What belongs to a peer, and goes to its next connection when one breaks.
#[derive(Default)]
struct Belongings {
    session: Option<SessionHere>,
    receiving: Option<Receiving>,
    /// The number of the last question, and its answer.
    last: Option<(u64, Answer)>,
}

type Answer = Result<(Value, Vec<u8>), Refused>;

impl Guest {
    fn new(shared: Arc<Shared>, channel: Channel, may_run: bool) -> Guest {
        Guest { shared, channel, may_run, key: None, lease: crate::LEASE, own: Belongings::default() }
    }

    fn serve(mut self) {
        let mut patience = SILENCE;
        let is_broken = loop {
            if self.channel.set_patience(Some(patience)).is_err() {
                break true;
            }
            let (head, blob) = match self.channel.receive() {
                Ok(Some(question)) => question,
                // A peer that has closed the connection, or is silent for longer than it promised, is gone.
                Ok(None) => break false,
                Err(error) => break is_cut(&error),
            };
            let answer = match &self.own.last {
                // The connection broke before the answer arrived, so the peer asks again.
                Some((number, answer)) if head["number"] == json!(number) => answer.clone(),
                _ => self.answer(&head, &blob),
            };
            if let Some(lease) = head["lease_ms"].as_u64() {
                patience = Duration::from_millis(lease.clamp(100, 3_600_000));
                self.lease = patience;
            }
            self.own.last = head["number"].as_u64().map(|number| (number, answer.clone())).or(self.own.last);
            if self.channel.answer(answer).is_err() {
                break true;
            }
        };
        let Some(key) = self.key else { return };
        if is_broken || !self.shared.held.end(&key) {
            // Nobody has taken what comes back, so the session ends here.
            drop(self.shared.held.wait(&key, self.own, self.lease));
        }
    }

    /// Goes on with what belonged to a connection of the peer that broke.
    fn resume(&mut self, head: &Value) -> Answer {
        let key = head["key"].as_str().unwrap_or_default();
        let wait = Duration::from_millis(head["wait_ms"].as_u64().unwrap_or_default().min(60_000));
        let own = self.shared.held.take(key, self.channel.socket(), wait);
        self.own = own.ok_or_else(|| Refused::new("it has nothing of this connection"))?;
        self.key = Some(key.to_owned());
        Ok((json!({}), Vec::new()))
    }

    fn answer(&mut self, head: &Value, blob: &[u8]) -> Answer {
        let text = |key: &str| head[key].as_str().unwrap_or_default();
        let what = head["do"].as_str().unwrap_or_default();
        if !self.may_run && !["who", "time", "members"].contains(&what) {
            return Err(Refused::new(
                "the certificate of your machine lets it see nodes, and not run programs on them",
            ));
        }
        if self.may_run {
            self.shared.take_revoked(head);
        }
        match what {
            "revoke" => {
                self.shared.close_revoked();
                Ok((json!({}), Vec::new()))
            }
            "who" => {
                if let Some(key) = head["key"].as_str().filter(|_| self.key.is_none() && self.may_run)
                    && self.shared.held.begin(key, self.channel.socket())
                {
                    self.key = Some(key.to_owned());
                }
                Ok((self.describe(), Vec::new()))
            }
            "resume" if self.key.is_none() => self.resume(head),
            "time" => Ok((
                json!({"received": thalweg_link::system_ns(), "sent": thalweg_link::system_ns()}),
                Vec::new(),
            )),
            "join" => {
                self.shared.note(text("name").to_owned(), text("address").to_owned());
                if let Some(shown) = self.channel.shown().filter(|_| is_name(text("name"))) {
                    self.shared.options.cluster.certificates().saw(text("name"), &shown);
                }
                let answer = json!({"members": self.shared.members(), "revoked": self.shared.revoked()});
                Ok((answer, Vec::new()))
            }
            "members" => Ok((json!({"members": self.shared.members()}), Vec::new())),
            "has" => {
                let has = self.shared.store.find(text("hash")).is_some();
                Ok((json!({"has": has}), Vec::new()))
            }
            "put" => self.put(head, blob).map(|()| (json!({}), Vec::new())).map_err(Refused::new),
            "open" if self.own.session.is_none() => {
                let mut session = SessionHere::start(&self.shared, &self.shared.options.part, PART)?;
                let opened = session.open(&self.shared, head)?;
                self.own.session = Some(session);
                Ok((opened, Vec::new()))
            }
            HALF_QUESTION if self.own.session.is_none() => {
                let half = SessionHere::start(&self.shared, &self.shared.options.half, HALF)?;
                self.own.session.insert(half).ask(HALF_QUESTION, head.clone(), blob)
            }
            other => match &mut self.own.session {
                Some(session) => {
                    let answer = match other {
                        "renew" | "reload" => session.change(&self.shared, other, head),
                        _ => session.ask(other, head.clone(), blob),
                    };
                    if other == "close" {
                        if head["fetched"] == json!(true) {
                            session.space = session.begun.clone();
                        }
                        // The session is removed before the answer is sent, so nothing of it is left when the
                        // answer arrives.
                        self.own.session = None;
                    }
                    answer
                }
                None => Err(Refused::new(format!("`{other}` cannot be asked of a node without a session"))),
            },
        }
    }

    fn describe(&self) -> Value {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: f64 = load.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
        json!({
            "name": self.shared.known.name,
            "version": env!("CARGO_PKG_VERSION"),
            "architecture": std::env::consts::ARCH,
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "load": load,
            "sessions": self.shared.sessions.load(Ordering::Relaxed),
            "revoked": self.shared.revoked(),
            "process": std::process::id(),
        })
    }

    /// Receives a piece of a library: the first piece has the library's name, and the last one is marked as
    /// such.
    fn put(&mut self, head: &Value, blob: &[u8]) -> Result<(), String> {
        if let (Some(hash), Some(name)) = (head["hash"].as_str(), head["name"].as_str()) {
            self.own.receiving = Some(self.shared.store.receive(hash, name)?);
        }
        let receiving = self.own.receiving.as_mut().ok_or("a piece of a library that was not begun")?;
        receiving.take(blob)?;
        if head["last"] == json!(true)
            && let Some(mut whole) = self.own.receiving.take()
        {
            self.shared.store.keep(&mut whole)?;
        }
        Ok(())
    }
}

/// The process of a session, on this node.
struct SessionHere {
    shared: Arc<Shared>,
    /// What the process is of, for messages.
    is: &'static str,
    child: Child,
    channel: Channel,
    folder: Folder,
    /// The process's space, which is removed at the end unless the session keeps it.
    space: Option<PathBuf>,
    /// The process's space, if it has begun.
    begun: Option<PathBuf>,
    /// The last bytes of the process's standard error.
    stderr: Arc<Mutex<String>>,
}

impl SessionHere {
    fn start(shared: &Arc<Shared>, program: &[PathBuf], is: &'static str) -> Result<SessionHere, Refused> {
        let failed = |error: std::io::Error| {
            Refused::new(format!("it cannot start a process for the session: {error}"))
        };
        let folder = Folder::new(&shared.options.cluster.folder().join(SESSIONS)).map_err(failed)?;
        let (own, theirs) = UnixStream::pair().map_err(failed)?;
        let (program, arguments) =
            program.split_first().ok_or_else(|| Refused::new("it has no program for sessions"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stderr = Arc::<Mutex<String>>::default();
        if let Some(mut from) = child.stderr.take() {
            let stderr = stderr.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(read @ 1..) = from.read(&mut bytes) {
                    // The node's own log has the complete output.
                    let _ = std::io::stderr().write_all(&bytes[..read]);
                    let mut stderr = stderr.lock().unwrap_or_else(PoisonError::into_inner);
                    stderr.push_str(&String::from_utf8_lossy(&bytes[..read]));
                    let cut = (stderr.len().saturating_sub(STDERR_BYTES)..stderr.len())
                        .find(|&at| stderr.is_char_boundary(at));
                    drop(stderr.drain(..cut.unwrap_or(0)));
                }
            });
        }
        let channel = Channel::private(own);
        // If a session's process hangs, the node must still answer.
        channel.set_patience(Some(PART_PATIENCE)).map_err(failed)?;
        shared.sessions.fetch_add(1, Ordering::Relaxed);
        let shared = shared.clone();
        Ok(SessionHere { shared, is, child, channel, folder, space: None, begun: None, stderr })
    }

    fn open(&mut self, shared: &Shared, head: &Value) -> Result<Value, Refused> {
        if head["allow_exec"] == json!(true) && !shared.options.allow_exec {
            return Err(Refused::new(
                "it was started without --allow-exec, so boxes may not run the commands that they are",
            ));
        }
        let (answer, _) = self.change(shared, "open", head)?;
        self.begun = answer["space"].as_str().map(PathBuf::from);
        self.space = self.begun.clone().filter(|_| head["keep"] != json!(true));
        Ok(answer)
    }

    /// Sends a request about the network or its libraries, with the paths of the libraries in place of their
    /// hashes.
    fn change(&mut self, shared: &Shared, what: &str, head: &Value) -> Result<(Value, Vec<u8>), Refused> {
        let mut libraries = Vec::new();
        for hash in head["libraries"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let path = shared.store.find(hash);
            libraries
                .push(path.ok_or_else(|| Refused::new(format!("it has no library with the hash {hash}")))?);
        }
        let mut with = head.clone();
        with["libraries"] = json!(libraries);
        with["folder"] = json!(self.folder.path());
        if what == "open" {
            // Links to this node come to the address at which the node itself listens.
            let address = self.shared.known.address.as_str();
            with["host"] = json!(host_of(address.strip_prefix("tls/").unwrap_or(address)));
            with["cluster"] = json!(shared.identity.as_ref().map(|_| shared.options.cluster.folder()));
        }
        self.ask(what, with, &[])
    }

    fn ask(&mut self, what: &str, with: Value, blob: &[u8]) -> Result<(Value, Vec<u8>), Refused> {
        self.channel.ask(what, with, blob).map_err(|refused| match refused.is_broken {
            true => Refused { why: self.ended(&refused.why), is_broken: true, is_cut: false },
            false => refused,
        })
    }

    /// The reason why the process does not answer.
    fn ended(&mut self, why: &str) -> String {
        let until = Instant::now() + Duration::from_secs(1);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                _ => break None,
            }
        };
        // The pause is needed because the last lines of the process's standard error may still be in the
        // pipe.
        std::thread::sleep(Duration::from_millis(20));
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        let stderr = if stderr.is_empty() { stderr } else { format!(": {stderr}") };
        match status {
            Some(status) => format!("the process of its {} ended ({status}){stderr}", self.is),
            None => format!("the process of its {} hangs: {why}{stderr}", self.is),
        }
    }
}

impl Drop for SessionHere {
    fn drop(&mut self) {
        // An error is ignored: the process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Errors are ignored, because nothing in the space is needed any more.
        let copying = format!("{COPYING}{}", self.child.id());
        self.begun.iter().for_each(|space| _ = std::fs::remove_dir_all(space.with_file_name(&copying)));
        self.space.iter().for_each(|space| _ = std::fs::remove_dir_all(space));
        self.shared.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

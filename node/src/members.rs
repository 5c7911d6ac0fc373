//! The nodes of a session, as the process that began it sees them. The process that began the session sends
//! the nodes the network and libraries, polls their state, and reports what is lost with a node.

mod joining;
mod reaching;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_host::Error;
use thalweg_net::RecordError;
use thalweg_net::run::{Elsewhere, Opened, Session, Ways};
use thalweg_space::Space;

use crate::channel::{Refused, hex, random};
use crate::cluster::{Cluster, Known};
use crate::fabric::{Fabric, Unreachable};
use crate::fetching::{CopyBook, Fetching};
use crate::part::Map;
use crate::placement::Placement;
use crate::shared_map::{Came, Exchange};
use crate::store::hash_of;
use crate::talk::{OPENING, Talk};
use joining::Admitting;
use reaching::{Reached, greet, is_secure, library, send_library};

/// The interval at which each node's state is polled.
const ASK_EVERY: Duration = Duration::from_millis(25);
/// The interval while boxes of the node ask for compare-and-set.
const ASK_OFTEN: Duration = Duration::from_millis(1);
/// How long that interval holds after a request.
const ASK_OFTEN_FOR: Duration = Duration::from_millis(50);
/// The name in placements of the process that began the session.
const HERE: &str = "here";

/// What happens to a session when a node is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// The inputs end; records that do not need the node come out, and all others fail with the node's name.
    #[default]
    Stop,
    /// The inputs go on; records that need the node or were on it fail with the node's name.
    GoOn,
}

/// The options of a session on several nodes.
#[derive(Clone, Debug)]
pub struct MembersPlan {
    /// The nodes, by name or address, in the order of their numbers; duplicates count once.
    pub nodes: Vec<String>,
    /// The cluster of the nodes.
    pub cluster: Cluster,
    /// Which components run where; if it is empty, components are distributed over the nodes.
    pub placement: Placement,
    /// Box libraries, as the user names them.
    pub libraries: Vec<PathBuf>,
    /// Whether the nodes may run boxes that are commands.
    pub allow_exec: bool,
    /// What happens to the session when a node is lost.
    pub on_loss: OnLoss,
    /// How long a node may be silent until it counts as lost.
    pub lease: Duration,
    /// The number of workers of each node; `None`: as many as the node has processors.
    pub workers: Option<usize>,
    /// The mode in which the nodes record: `off`, `metrics` or `full`.
    pub mode: &'static str,
    /// Whether every event is kept.
    pub keep: bool,
    /// The directory of the session, to which nodes on this machine add their spaces.
    pub gather: Option<PathBuf>,
    /// Settings of the nodes' runs, by name.
    pub settings: Vec<(String, String)>,
    /// Whether failed records keep their values exactly as they came.
    pub exact_failures: bool,
    /// Whether commands may replace the network and its libraries while the session lasts.
    pub replaceable: bool,
    /// Whether nodes that come to the cluster's folder later take part.
    pub admits: bool,
}

/// A node that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The node's name.
    pub node: String,
    /// Why the node counts as lost.
    pub why: String,
    /// The parts on the node: path, records sent to it, records that had come back.
    pub under_way: Vec<(String, u64, u64)>,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loss { node, why, under_way } = self;
        write!(f, "node {node} is lost: {why}")?;
        for (at, (path, sent, back)) in under_way.iter().enumerate() {
            let lead = if at == 0 { "; under way there: " } else { ", " };
            write!(f, "{lead}{path} ({sent} records sent, {back} came back)")?;
        }
        Ok(())
    }
}

/// The account of a node in a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Did {
    /// The node's name.
    pub node: String,
    /// The number of tasks that the node ran.
    pub tasks: u64,
    /// Processor time of the session's process, in seconds.
    pub processor_s: f64,
    /// Bytes that the node's links sent.
    pub sent: u64,
    /// Bytes that the node's links received.
    pub received: u64,
}

/// The callback that is called when a node is lost.
pub type OnLost = Arc<dyn Fn(&Loss) + Send + Sync>;

/// The callback that is called with each node that joins: its name, or why a node does not take part.
pub type OnJoined = Arc<dyn Fn(Result<&str, &str>) + Send + Sync>;

/// The nodes of a session.
pub struct Members {
    plan: MembersPlan,
    map: Map,
    fabric: Arc<Fabric>,
    session: [u8; 16],
    token: [u8; 32],
    on_lost: OnLost,
    on_joined: OnJoined,
    /// Held while the network, its libraries or the list of nodes changes, so that these changes follow each other.
    changing: Mutex<()>,
    /// The thread that admits nodes.
    admitting: Mutex<Option<Admitting>>,
    /// The copies of the spaces of other machines; `None`: the run has no session.
    copies: Option<Arc<CopyBook>>,
    /// The nodes that are connected, until the session begins and takes them.
    reached: Mutex<Vec<Reached>>,
    watching: Mutex<Vec<Watching>>,
    /// The hashes of the libraries' files, as the nodes have them.
    hashes: Mutex<HashMap<PathBuf, String>>,
    shared: Arc<Watched>,
}

/// A request of the run to a node, which the thread that watches the node makes.
type Request = Box<dyn FnOnce(&mut Watch) -> Result<(), Refused> + Send>;

/// A node that is watched.
struct Watching {
    node: usize,
    requests: Sender<Request>,
    thread: JoinHandle<()>,
}

/// The state that the threads which watch nodes share.
#[derive(Default)]
struct Watched {
    session: Mutex<Option<Session>>,
    losses: Mutex<Vec<(usize, Loss)>>,
    /// The accounts of nodes that ended without an error.
    did: Mutex<Vec<Did>>,
    /// Faults on nodes besides failed records: failed tasks, and lines of box programs that answer no record.
    faults: Mutex<Vec<String>>,
    /// The fingerprints of the networks that the nodes have, by the node's number.
    fingerprints: Mutex<HashMap<usize, String>>,
    is_ending: AtomicBool,
    /// The nodes with which the session cannot go on although they answer, and why.
    unusable: Mutex<HashMap<usize, String>>,
    /// The number of networks that were sent to nodes, for the names of their folders.
    number: AtomicU64,
    /// The threads that watch nodes.
    threads: Mutex<Vec<Thread>>,
}

/// A panic under these locks leaves every step either done or not begun.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("names", &self.fabric.names()).finish_non_exhaustive()
    }
}

impl Members {
    /// Connects to the nodes, and sends them missing libraries. `on_lost` is called once for each node that
    /// is lost later.
    ///
    /// # Errors
    /// A node cannot be reached, has another version or architecture, or refuses a library, or the placement
    /// names a node that is not among them.
    pub fn connect(plan: MembersPlan, on_lost: OnLost, on_joined: OnJoined) -> Result<Arc<Members>, Error> {
        let there = plan.cluster.known();
        let mut known: Vec<Known> = Vec::new();
        for named in &plan.nodes {
            let node = plan.cluster.find(named)?;
            if !known.iter().any(|other| other.address == node.address) {
                known.push(node);
            }
        }
        if known.is_empty() {
            return Err(Error::usage("no node is named: --nodes a,b, or --all-nodes where some run"));
        }
        let libraries: Vec<(PathBuf, String)> =
            plan.libraries.iter().map(|named| library(named)).collect::<Result<_, _>>()?;
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let hashes = libraries.iter().map(|(path, hash)| (canonical(path), hash.clone())).collect();
        let mut names = vec![HERE.to_owned()];
        let mut reached = Vec::new();
        for node in &known {
            let key = hex(&random::<16>().map_err(Error::run_of)?);
            let mut talk = Talk::connect(&plan.cluster, node, key)?;
            let name = greet(&mut talk)?;
            let refused = |refused: Refused| Error::run(format!("node {name}: {}", refused.why));
            talk.set_patience(OPENING).map_err(Error::run_of)?;
            for (path, hash) in &libraries {
                send_library(&mut talk, path, hash).map_err(refused)?;
            }
            names.push(name);
            reached
                .push(Reached { talk, libraries: libraries.iter().map(|(_, hash)| hash.clone()).collect() });
        }
        for (pattern, node) in plan.placement.lines() {
            if !names.contains(node) {
                let others = names.join(", ");
                return Err(Error::usage(format!(
                    "the placement puts {pattern} on {node}, which is none of {others}"
                )));
            }
        }
        let session = random::<16>().map_err(Error::run_of)?;
        let token = random::<32>().map_err(Error::run_of)?;
        // Nodes of other machines reach this process by an address that is not only for this machine.
        let hosts: Vec<String> = reached.iter().map(|node| node.talk.channel().local_host()).collect();
        let is_wide = |host: &&String| host.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback());
        let host = hosts.iter().find(is_wide).or(hosts.first()).map_or("127.0.0.1", String::as_str);
        let identity = if is_secure(&reached)? { Some(plan.cluster.identity()?) } else { None };
        let fabric = Fabric::new(0, names.clone(), (session, token), host, identity).map_err(Error::run)?;
        let map = Map {
            shares_out: plan.placement.is_empty(),
            placement: plan.placement.clone(),
            gives_back: plan.on_loss == OnLoss::GoOn,
        };
        let copies = plan.gather.as_deref().map(|session| Arc::new(CopyBook::new(session)));
        let members = Arc::new(Members {
            copies,
            plan,
            map,
            fabric,
            session,
            token,
            on_lost,
            on_joined,
            changing: Mutex::default(),
            admitting: Mutex::default(),
            reached: Mutex::new(reached),
            watching: Mutex::default(),
            hashes: Mutex::new(hashes),
            shared: Arc::default(),
        });
        if members.plan.admits {
            *locked(&members.admitting) = Some(members.admit_later(there)?);
        }
        Ok(members)
    }

    /// The nodes that were lost so far.
    pub fn losses(&self) -> Vec<Loss> {
        locked(&self.shared.losses).iter().map(|(_, loss)| loss.clone()).collect()
    }

    /// The accounts of the nodes, by name, when the session has ended.
    pub fn did(&self) -> Vec<Did> {
        let mut did = locked(&self.shared.did).clone();
        did.sort_by(|a, b| a.node.cmp(&b.node));
        did
    }

    /// Other faults on nodes: tasks that failed, and lines of box programs that answer no record.
    pub fn faults(&self) -> Vec<String> {
        locked(&self.shared.faults).clone()
    }

    /// The request by which a node opens its parts of the network. The libraries are the hashes of their
    /// files.
    fn opening(
        &self,
        (here, names): (usize, &[String]),
        session: &Session,
        libraries: &[String],
    ) -> Result<Value, String> {
        let sources = session.sources();
        let main = sources.first().ok_or("the network has no text")?.path();
        let folder = main.parent().unwrap_or(Path::new(""));
        let mut files = Vec::new();
        for source in sources {
            let name = source.path().strip_prefix(folder).unwrap_or(source.path());
            files.push([name.to_string_lossy().into_owned(), source.text().to_owned()]);
        }
        let plan = &self.plan;
        Ok(json!({
            "main": main.file_name().unwrap_or_default().to_string_lossy(),
            "files": files,
            "libraries": libraries,
            "replaceable": plan.replaceable,
            "number": self.shared.number.fetch_add(1, Ordering::Relaxed),
            "allow_exec": plan.allow_exec,
            "names": names,
            "count": self.fabric.count(),
            "here": here,
            "session": hex(&self.session),
            "token": hex(&self.token),
            "placement": self.map.placement.lines(),
            "shares_out": self.map.shares_out,
            "gives_back": self.map.gives_back,
            "workers": plan.workers,
            "mode": plan.mode,
            "keep": plan.keep,
            "gather": plan.gather,
            "settings": plan.settings,
            "exact_failures": plan.exact_failures,
        }))
    }

    fn try_begin(&self, session: Session) -> Result<(), String> {
        let is_first = locked(&self.watching).is_empty();
        if is_first { self.begin_first(session) } else { self.begin_again(session) }
    }

    fn begin_first(&self, session: Session) -> Result<(), String> {
        self.fabric.declare(session.space())?;
        if let Some(space) = session.space() {
            // The run sets its settings later, and the first records may have left by then.
            let of_links = |(name, _): &&(String, String)| name.starts_with("link.");
            let settings: Vec<_> = self.plan.settings.iter().filter(of_links).cloned().collect();
            crate::part::set(&settings, space).map_err(|error| thalweg_host::chain(&error))?;
            self.fabric.look();
        }
        let mut reached = std::mem::take(&mut *locked(&self.reached));
        let names = self.fabric.names();
        let mut addresses = vec![self.fabric.address()];
        let mut all = Vec::new();
        for (at, node) in reached.iter_mut().enumerate() {
            let opening = self.opening((at + 1, &names), &session, &node.libraries)?;
            let opened = self.open_on(&names[at + 1], &mut node.talk, opening, &session)?;
            addresses.push(opened["address"].as_str().unwrap_or_default().to_owned());
            all.push(opened);
        }
        for (at, node) in reached.iter_mut().enumerate() {
            self.meet(&names[at + 1], &mut node.talk, &addresses)?;
        }
        self.fabric.meet(&addresses);
        let map = session.space().map(|space| space.shared_map()).transpose();
        let map = map.map_err(|error| format!("{error:#}"))?;
        map.iter().for_each(|map| map.join(0, &names));
        *locked(&self.shared.session) = Some(session.clone());
        for (at, (Reached { talk, .. }, opened)) in reached.into_iter().zip(all).enumerate() {
            self.watch((at + 1, &names[at + 1]), talk, &opened, &session)?;
        }
        Ok(())
    }

    /// Lets a node open its parts of the network; returns its answer.
    fn open_on(
        &self,
        name: &str,
        talk: &mut Talk,
        opening: Value,
        session: &Session,
    ) -> Result<Value, String> {
        let opened = talk.ask_long("open", opening);
        let opened = opened.map_err(|refused| format!("node {name}: {}", refused.why))?;
        match opened["fingerprint"] == json!(format!("{:016x}", session.fingerprint())) {
            true => Ok(opened),
            false => Err(format!("node {name} {OTHER_NETWORK}")),
        }
    }

    /// Sends a node the addresses of all processes.
    fn meet(&self, name: &str, talk: &mut Talk, addresses: &[String]) -> Result<(), String> {
        let met = talk.ask_long("meet", json!({ "addresses": addresses }));
        met.map_err(|refused| format!("node {name}: {}", refused.why))?;
        talk.set_patience(self.plan.lease).map_err(|error| error.to_string())
    }

    /// Starts the thread that polls a node. `opened` is the node's answer when it opened its parts.
    fn watch(
        &self,
        (node, name): (usize, &str),
        talk: Talk,
        opened: &Value,
        session: &Session,
    ) -> Result<(), String> {
        locked(&self.shared.fingerprints).insert(node, format!("{:016x}", session.fingerprint()));
        let map = session.space().map(|space| space.shared_map()).transpose();
        let map = map.map_err(|error| format!("{error:#}"))?;
        let (requests, asked) = mpsc::channel();
        let watch = Watch {
            node,
            name: name.to_owned(),
            talk,
            asked,
            lease: self.plan.lease,
            fabric: self.fabric.clone(),
            shared: self.shared.clone(),
            on_lost: self.on_lost.clone(),
            losses_sent: 0,
            exchange: map.map(|map| Exchange::new(map, node)),
            asked_at: None,
            fetching: self.fetching(name, opened, session.space()),
        };
        let thread = std::thread::Builder::new().name(format!("node {name}"));
        let thread = thread.spawn(move || watch.run()).map_err(|error| error.to_string())?;
        locked(&self.shared.threads).push(thread.thread().clone());
        locked(&self.watching).push(Watching { node, requests, thread });
        Ok(())
    }

    /// The copy of the space of a node on another machine.
    fn fetching(&self, name: &str, opened: &Value, own: Option<&Space>) -> Option<Fetching> {
        let (book, own) = (self.copies.clone()?, own?);
        let is_far = !crate::fetching::is_near(opened);
        is_far.then(|| Fetching::new(name, opened, own, book, self.plan.keep)).flatten()
    }

    /// Begins again after the network has ended, with the same network or another one.
    fn begin_again(&self, session: Session) -> Result<(), String> {
        let _changing = locked(&self.changing);
        let names = self.fabric.names();
        let fingerprint = format!("{:016x}", session.fingerprint());
        let stale: Vec<usize> = {
            let known = locked(&self.shared.fingerprints);
            (1..names.len()).filter(|node| known.get(node) != Some(&fingerprint)).collect()
        };
        if !stale.is_empty() {
            let libraries: Vec<(PathBuf, String)> =
                session.libraries().iter().map(|path| self.hashed(path)).collect::<Result<_, _>>()?;
            let hashes: Vec<String> = libraries.iter().map(|(_, hash)| hash.clone()).collect();
            let opening = |&node: &usize| {
                self.opening((node, &names), &session, &hashes).map(|opening| (node, opening))
            };
            let openings: HashMap<usize, Value> = stale.iter().map(opening).collect::<Result<_, _>>()?;
            self.each(&stale, move |watch| {
                for (path, hash) in &libraries {
                    send_library(&mut watch.talk, path, hash)?;
                }
                let renewed = watch.talk.ask_long("renew", openings[&watch.node].clone())?;
                let got = renewed["fingerprint"].as_str().unwrap_or_default().to_owned();
                let is_same = got == fingerprint;
                locked(&watch.shared.fingerprints).insert(watch.node, got);
                if is_same { Ok(()) } else { Err(Refused::new(OTHER_NETWORK)) }
            })?;
        }
        self.fabric.reopen()?;
        *locked(&self.shared.session) = Some(session);
        Ok(())
    }

    /// A library's file and the hash under which the nodes have it.
    fn hashed(&self, path: &Path) -> Result<(PathBuf, String), String> {
        if let Some(hash) = locked(&self.hashes).get(path) {
            return Ok((path.to_owned(), hash.clone()));
        }
        let hash = hash_of(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        locked(&self.hashes).insert(path.to_owned(), hash.clone());
        Ok((path.to_owned(), hash))
    }

    /// Makes a request to each of these nodes, at the same time. When the method returns, all have answered.
    ///
    /// # Errors
    /// The first refusal, in the order of the nodes. A lost node refuses.
    fn each(
        &self,
        nodes: &[usize],
        work: impl Fn(&mut Watch) -> Result<(), Refused> + Send + Sync + 'static,
    ) -> Result<(), String> {
        let work = Arc::new(work);
        let mut asked = Vec::new();
        for watching in locked(&self.watching).iter().filter(|watching| nodes.contains(&watching.node)) {
            let ((answer, answered), work) = (mpsc::channel(), work.clone());
            let request: Request = Box::new(move |watch| {
                let done = work(watch);
                // An error is ignored: the receiver waits until it has the answer.
                let _ = answer.send(done.clone());
                done
            });
            // If the node is lost, its thread has ended, and the request is dropped with the answer's sender.
            let _ = watching.requests.send(request);
            watching.thread.thread().unpark();
            asked.push((watching.node, answered));
        }
        let mut refused = Ok(());
        for (node, answered) in asked {
            let why = match answered.recv() {
                Ok(Ok(())) => continue,
                Ok(Err(Refused { why, .. })) => why,
                Err(_) => "it is lost".to_owned(),
            };
            refused = refused.and(Err(format!("node {}: {why}", self.name(node))));
        }
        refused
    }

    /// The nodes that are not lost.
    fn living(&self) -> Vec<usize> {
        let losses = locked(&self.shared.losses);
        (1..self.fabric.names().len()).filter(|node| losses.iter().all(|(lost, _)| lost != node)).collect()
    }

    fn try_reload(&self, library: &Path) -> Result<(), String> {
        let _changing = locked(&self.changing);
        let failed = |error| format!("cannot read {}: {error}", library.display());
        let path = library.canonicalize().map_err(failed)?;
        // A library that no node has is only in this process.
        let Some(old) = locked(&self.hashes).get(&path).cloned() else { return Ok(()) };
        let new = hash_of(&path).map_err(failed)?;
        let done = Arc::<Mutex<Vec<usize>>>::default();
        let (noted, file, from, to) = (done.clone(), path.clone(), old.clone(), new.clone());
        let reloaded = self.each(&self.living(), move |watch| {
            send_library(&mut watch.talk, &file, &to)?;
            watch.talk.ask_long("reload", json!({"libraries": [from, to]}))?;
            locked(&noted).push(watch.node);
            Ok(())
        });
        if reloaded.is_err() {
            // The nodes have the old file still. An error is ignored: the node is lost then, or has the new
            // library, whose boxes have the same signatures.
            let done = std::mem::take(&mut *locked(&done));
            let _ = self.each(&done, move |watch| {
                watch.talk.ask_long("reload", json!({"libraries": [new, old]})).map(drop)
            });
            return reloaded;
        }
        locked(&self.hashes).insert(path, new);
        Ok(())
    }
}

/// The reason why a node cannot take part that has another network.
const OTHER_NETWORK: &str = "reads the network as another one (its version of thalweg, or a library of the same name): all nodes \
                     need the same";

impl Elsewhere for Members {
    fn here(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        self.fabric.count()
    }

    fn name(&self, node: usize) -> String {
        self.fabric.name(node).unwrap_or_else(|| format!("number {node}"))
    }

    fn of_place(&self, number: u64) -> usize {
        Map::of_place(self.fabric.count(), number)
    }

    fn of_component(&self, path: &str) -> Option<usize> {
        self.map.of_component(&self.fabric.names(), path)
    }

    fn shares_out(&self) -> bool {
        self.map.shares_out
    }

    fn gives_back(&self) -> bool {
        self.map.gives_back
    }

    fn begin(&self, session: Session) -> Result<(), String> {
        self.try_begin(session)
    }

    fn open(&self, node: usize, opening: &[u8]) -> Result<Ways, String> {
        self.fabric.open(node, opening)
    }

    fn opened(&self) -> Option<Opened> {
        self.fabric.opened()
    }

    fn close(&self) {
        self.fabric.close();
    }

    fn rest(&self) {
        // The parts have ended, so each node has all failures, which it reports when it is polled. An error is
        // ignored: a lost node reports no failures any more.
        let _ = self.each(&self.living(), |watch| {
            while watch.poll("poll")?.1 {}
            Ok(())
        });
        *locked(&self.shared.session) = None;
    }

    fn reload(&self, library: &Path) -> Result<(), String> {
        self.try_reload(library)
    }

    fn end(&self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.admit_no_more();
        for Watching { thread, .. } in locked(&self.watching).drain(..) {
            thread.thread().unpark();
            // A panic of the thread was reported by the thread itself.
            let _ = thread.join();
        }
        self.copies.iter().for_each(|copies| copies.end(self.plan.keep));
        // Dropping the session ends the stream of failed records.
        *locked(&self.shared.session) = None;
    }
}

/// The thread that polls the state of one node.
struct Watch {
    node: usize,
    name: String,
    talk: Talk,
    /// The requests of the run to the node.
    asked: Receiver<Request>,
    lease: Duration,
    fabric: Arc<Fabric>,
    shared: Arc<Watched>,
    on_lost: OnLost,
    /// The number of losses that were sent to this node.
    losses_sent: usize,
    /// What the node knows of the shared map; `None`: this process has no space.
    exchange: Option<Exchange>,
    /// When the node last asked for compare-and-set.
    asked_at: Option<Instant>,
    /// The copy of the node's space, if the node is on another machine.
    fetching: Option<Fetching>,
}

impl Watch {
    fn run(mut self) {
        if let Err((refused, answered)) = self.watch() {
            self.lose(&refused, answered);
        }
    }

    /// Polls the node until it has ended.
    ///
    /// # Errors
    /// Why the node is lost, and when it answered last.
    fn watch(&mut self) -> Result<(), (Refused, Instant)> {
        let mut answered = Instant::now();
        loop {
            self.fabric.look();
            for one in self.fabric.unreachable() {
                self.give_up(0, one);
            }
            if self.talk.is_revoked() {
                let why = "the certificate of its machine was revoked".to_owned();
                return Err((Refused { why, is_broken: true, is_cut: false }, answered));
            }
            if let Some(why) = locked(&self.shared.unusable).get(&self.node).cloned() {
                let refused = Refused { why, is_broken: true, is_cut: false };
                return Err((refused, answered));
            }
            while let Ok(request) = self.asked.try_recv() {
                match self.carry_out(request) {
                    Err(refused) if refused.is_broken => return Err((refused, answered)),
                    _ => answered = Instant::now(),
                }
            }
            let is_ending = self.shared.is_ending.load(Ordering::Acquire);
            match self.poll(if is_ending { "end" } else { "poll" }) {
                Ok((answer, more)) => {
                    answered = Instant::now();
                    if answer.get("ended").is_some() {
                        let fetched =
                            self.fetching.as_mut().map(|one| one.finish(&mut self.talk)).transpose();
                        let is_fetched = fetched.map_err(|refused| (refused, answered))?.unwrap_or(false);
                        self.conclude(&answer["ended"]);
                        // The answer is ignored: the session's process on the node ends in any case.
                        let _ = self.talk.ask("close", json!({"fetched": is_fetched}), &[]);
                        return Ok(());
                    }
                    if more {
                        continue;
                    }
                }
                Err(refused) => return Err((refused, answered)),
            }
            let fetched = self.fetching.as_mut().map(|one| one.look(&mut self.talk)).transpose();
            if fetched.map_err(|refused| (refused, answered))? == Some(true) {
                continue;
            }
            let asks = self.asked_at.is_some_and(|at| at.elapsed() < ASK_OFTEN_FOR);
            std::thread::park_timeout(if asks { ASK_OFTEN } else { ASK_EVERY });
        }
    }

    /// Carries out a request, for which the node may need longer than the lease.
    fn carry_out(&mut self, request: Request) -> Result<(), Refused> {
        let broken =
            |error: std::io::Error| Refused { why: error.to_string(), is_broken: true, is_cut: false };
        self.talk.set_patience(OPENING).map_err(broken)?;
        let done = request(self);
        self.talk.set_patience(self.lease).map_err(broken)?;
        done
    }

    /// Asks the node what has happened, and handles the answer; returns the answer, and whether there may be
    /// more failures.
    fn poll(&mut self, what: &str) -> Result<(Value, bool), Refused> {
        let losses: Vec<(usize, String)> = locked(&self.shared.losses)
            .iter()
            .skip(self.losses_sent)
            .map(|(node, loss)| (*node, loss.why.clone()))
            .collect();
        self.losses_sent += losses.len();
        let mut asked = json!({"lost": losses, "lease_ms": self.lease.as_millis() as u64});
        self.exchange.iter_mut().for_each(|exchange| exchange.ask(&mut asked));
        let (answer, failures) = self.talk.ask(what, asked, &[])?;
        self.take(&answer, &failures);
        let has_decided = self.take_map(&answer);
        Ok((answer, has_decided || !failures.is_empty()))
    }

    /// Takes what the node says about the shared map; returns whether it waits for decisions.
    fn take_map(&mut self, answer: &Value) -> bool {
        let Some(exchange) = &mut self.exchange else { return false };
        let Came { values, asks } = exchange.answered(answer);
        if asks > 0 {
            self.asked_at = Some(Instant::now());
        }
        if values > 0 {
            // The other nodes get the values at once.
            locked(&self.shared.threads).iter().for_each(Thread::unpark);
        }
        exchange.has_decided()
    }

    /// The session cannot go on with both ends of a link that does not reach node `one.node` from node
    /// `from`. It goes on without the end that is at fault, as far as that is known, and never without this
    /// process.
    fn give_up(&self, from: usize, one: Unreachable) {
        let Unreachable { node: to, why, is_own } = one;
        let name = |node: usize| match node {
            0 => "this process".to_owned(),
            node => format!("node {}", self.fabric.name(node).unwrap_or_default()),
        };
        let is_lost = |node: usize| locked(&self.shared.losses).iter().any(|(lost, _)| *lost == node);
        if from == to || to >= self.fabric.names().len() || is_lost(from) || is_lost(to) {
            return;
        }
        let (node, why) = match from != 0 && (is_own || to == 0) {
            true => (from, format!("it does not reach {}: {why}", name(to))),
            false => (to, format!("{} does not reach it: {why}", name(from))),
        };
        locked(&self.shared.unusable).entry(node).or_insert(why);
    }

    /// Handles failed records, and lines of box programs that answer no record.
    fn take(&self, answer: &Value, mut failures: &[u8]) {
        while let Some((length, rest)) = failures.split_first_chunk::<4>() {
            let Some((one, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else {
                break;
            };
            failures = rest;
            let session = locked(&self.shared.session).clone();
            match RecordError::from_bytes(one) {
                Ok(error) => {
                    if let Some(session) = session {
                        session.fail(error);
                    }
                }
                Err(why) => locked(&self.shared.faults)
                    .push(format!("node {} reported a failure that is none: {why}", self.name)),
            }
        }
        for one in answer["unreachable"].as_array().into_iter().flatten() {
            let (Some(node), Some(why)) = (one[0].as_u64(), one[1].as_str()) else { continue };
            let why = why.to_owned();
            self.give_up(self.node, Unreachable { node: node as usize, why, is_own: one[2] == json!(true) });
        }
        for (component, reason) in crate::part::pairs(&answer["strays"]) {
            locked(&self.shared.faults).push(format!("{component} on {}: {reason}", self.name));
        }
    }

    fn conclude(&self, ended: &Value) {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let did = &ended["did"];
        if did.is_object() {
            locked(&self.shared.did).push(Did {
                node: self.name.clone(),
                tasks: number(&ended["tasks"]),
                processor_s: did["processor_s"].as_f64().unwrap_or_default(),
                sent: number(&did["sent"]),
                received: number(&did["received"]),
            });
        }
        if let Some(why) = ended["broken"].as_str() {
            locked(&self.shared.faults).push(format!("node {}: {why}", self.name));
        }
        if ended["failed"].as_u64().unwrap_or_default() > 0 {
            let failures: Vec<&str> =
                ended["failures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            locked(&self.shared.faults).push(format!(
                "node {}: {} tasks ended badly: {}",
                self.name,
                ended["failed"],
                failures.join("; ")
            ));
        }
    }

    fn lose(&mut self, refused: &Refused, answered: Instant) {
        let silent = answered.elapsed();
        let why = match refused.why.as_str() {
            "it does not answer" => format!("it has not answered for {:.1} s", silent.as_secs_f64()),
            why => why.to_owned(),
        };
        let session = locked(&self.shared.session).clone();
        let under_way = session.map_or_else(Vec::new, |session| session.under_way(self.node));
        let loss = Loss { node: self.name.clone(), why, under_way };
        self.fabric.lose(self.node, &loss.why);
        self.fetching.iter_mut().for_each(|one| one.lose(&loss.why));
        locked(&self.shared.losses).push((self.node, loss.clone()));
        (self.on_lost)(&loss);
    }
}

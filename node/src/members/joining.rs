//! Nodes that come to the cluster while a session runs, and take part in it.
//!
//! A node that joins gets the libraries and the network as the first nodes did. Then every other process adds its
//! address, and after that all count it: a process that sends a record to the new node can rely on every other one to
//! accept links from there. Components keep their places; new replicas of `!@` and networks that are loaded later are
//! distributed over all nodes that are counted.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::json;
use thalweg_host::Error;

use super::reaching::{greet, send_library};
use super::{Members, locked};
use crate::channel::{hex, random};
use crate::cluster::{Cluster, Known};
use crate::talk::{OPENING, Talk};

/// How often the cluster's folder is looked at although no change of it was noticed: the kernel does not
/// notice changes that another machine makes to a folder that both use.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause before a node that has to wait is admitted.
const AGAIN: Duration = Duration::from_millis(20);

/// The thread that admits nodes.
#[derive(Debug)]
pub(super) struct Admitting {
    thread: JoinHandle<()>,
    /// The thread ends its wait when this end is closed.
    bell: UnixStream,
}

impl Members {
    /// Starts the thread that admits nodes which are not among `seen`, the nodes that the folder has now.
    pub(super) fn admit_later(self: &Arc<Self>, mut seen: Vec<Known>) -> Result<Admitting, Error> {
        let failed = |error| Error::run("cannot start a thread").because(error);
        let members = Arc::downgrade(self);
        let (bell, other) = UnixStream::pair().map_err(failed)?;
        let changes = Changes::of(&self.plan.cluster, other);
        let look = move || {
            while let Some(most) = look_once(&members, &mut seen) {
                changes.wait(most);
            }
        };
        let thread = std::thread::Builder::new().name("admits nodes".into()).spawn(look).map_err(failed)?;
        Ok(Admitting { thread, bell })
    }

    /// Waits until the thread that admits nodes has ended.
    pub(super) fn admit_no_more(&self) {
        if let Some(Admitting { thread, bell }) = locked(&self.admitting).take() {
            drop(bell);
            // A panic of the thread was reported by the thread itself.
            let _ = thread.join();
        }
    }

    /// Admits a node; `Ok(false)`: the network is being replaced, so the node has to wait.
    fn admit(&self, node: &Known) -> Result<bool, String> {
        let _changing = locked(&self.changing);
        let Some(session) = locked(&self.shared.session).clone() else { return Ok(false) };
        if self.shared.is_ending.load(Ordering::Acquire) {
            return Ok(true);
        }
        let shown = |error: Error| thalweg_host::chain(&error);
        let key = hex(&random::<16>().map_err(|error| error.to_string())?);
        let mut talk = Talk::connect(&self.plan.cluster, node, key).map_err(shown)?;
        let name = greet(&mut talk).map_err(shown)?;
        let mut names = self.fabric.names();
        if names.contains(&name) {
            return Err(format!(
                "node {name} takes no part: one of this name is in the run already, or was lost"
            ));
        }
        if talk.channel().is_secure() != self.fabric.is_secure() {
            return Err(format!("node {name} takes no part: all nodes of a run use TLS, or none does"));
        }
        talk.set_patience(OPENING).map_err(|error| error.to_string())?;
        let libraries: Vec<(PathBuf, String)> =
            session.libraries().iter().map(|path| self.hashed(path)).collect::<Result<_, _>>()?;
        for (path, hash) in &libraries {
            let sent = send_library(&mut talk, path, hash);
            sent.map_err(|refused| format!("node {name}: {}", refused.why))?;
        }
        let hashes: Vec<String> = libraries.into_iter().map(|(_, hash)| hash).collect();
        let number = names.len();
        names.push(name.clone());
        let opening = self.opening((number, &names), &session, &hashes)?;
        let opened = self.open_on(&name, &mut talk, opening, &session)?;
        let address = opened["address"].as_str().unwrap_or_default().to_owned();
        let addresses = [self.fabric.all_addresses(), vec![address.clone()]].concat();
        self.meet(&name, &mut talk, &addresses)?;
        // All add the node before one of them counts it. A node that is lost meanwhile needs neither.
        let added = json!({"node": number, "name": name, "address": address});
        let _ = self.each(&self.living(), move |watch| watch.talk.ask("add", added.clone(), &[]).map(drop));
        self.fabric.add(number, &name, &address);
        if let Some(map) = session.space().and_then(|space| space.shared_map().ok()) {
            map.know(&names);
        }
        self.watch((number, &name), talk, &opened, &session)?;
        let count = json!({"count": names.len()});
        let _ = self.each(&self.living(), move |watch| watch.talk.ask("count", count.clone(), &[]).map(drop));
        self.fabric.set_count(names.len());
        (self.on_joined)(Ok(&name));
        Ok(true)
    }
}

/// What ends a wait of the thread that admits nodes.
struct Changes {
    /// Notices changes of the folder of nodes; `None`: the system has no more of these.
    folder: Option<OwnedFd>,
    bell: UnixStream,
}

impl Changes {
    fn of(cluster: &Cluster, bell: UnixStream) -> Changes {
        let watched = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).and_then(|folder| {
            let what = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
            inotify::add_watch(&folder, cluster.nodes_folder(), what).map(|_| folder)
        });
        Changes { folder: watched.ok(), bell }
    }

    /// Waits until the folder has changed or the run ends, at most this long.
    fn wait(&self, most: Duration) {
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        fds.extend(self.folder.as_ref().map(|folder| PollFd::new(folder, PollFlags::IN)));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // An error is ignored: a wait that a signal interrupts ends early.
        let _ = poll(&mut fds, Some(&most));
        // What has changed is seen in the folder itself.
        let mut bytes = [0; 4096];
        while self.folder.as_ref().is_some_and(|folder| rustix::io::read(folder, &mut bytes).is_ok()) {}
    }
}

/// Admits the nodes that have come; returns how long to wait for more at most, unless the session ends.
fn look_once(members: &Weak<Members>, seen: &mut Vec<Known>) -> Option<Duration> {
    let members = members.upgrade()?;
    if members.shared.is_ending.load(Ordering::Acquire) {
        return None;
    }
    for node in members.plan.cluster.known() {
        if seen.contains(&node) {
            continue;
        }
        match members.admit(&node) {
            Ok(false) => return Some(AGAIN),
            Ok(true) => {}
            Err(why) => (members.on_joined)(Err(&why)),
        }
        seen.push(node);
    }
    Some(LOOK_EVERY)
}

//! Nodes that come to the cluster while a session runs, and take part in it.
//!
//! A node that joins gets the libraries and the network as the first nodes did. Then every other process adds its
//! address, and after that all count it: a process that sends a record to the new node can rely on every other one to
//! accept links from there. Components keep their places; new replicas of `!@` and networks that are loaded later are
//! distributed over all nodes that are counted.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use thalweg_host::Error;

use super::reaching::{greet, send_library};
use super::{Members, locked};
use crate::channel::{hex, random};
use crate::cluster::Known;
use crate::talk::{OPENING, Talk};

/// How often the cluster's folder is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Members {
    /// Starts the thread that admits nodes which are not among `seen`, the nodes that the folder has now.
    pub(super) fn admit_later(self: &Arc<Self>, mut seen: Vec<Known>) -> Result<JoinHandle<()>, Error> {
        let members = Arc::downgrade(self);
        let look = move || while look_once(&members, &mut seen) {};
        let thread = std::thread::Builder::new().name("admits nodes".into()).spawn(look);
        thread.map_err(|error| Error::run("cannot start a thread").because(error))
    }

    /// Waits until the thread that admits nodes has ended.
    pub(super) fn admit_no_more(&self) {
        let thread = locked(&self.admitting).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
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

/// Admits the nodes that have come; returns whether the session goes on.
fn look_once(members: &Weak<Members>, seen: &mut Vec<Known>) -> bool {
    std::thread::park_timeout(LOOK_EVERY);
    let Some(members) = members.upgrade() else { return false };
    if members.shared.is_ending.load(Ordering::Acquire) {
        return false;
    }
    for node in members.plan.cluster.known() {
        if seen.contains(&node) {
            continue;
        }
        match members.admit(&node) {
            Ok(false) => return true,
            Ok(true) => {}
            Err(why) => (members.on_joined)(Err(&why)),
        }
        seen.push(node);
    }
    true
}

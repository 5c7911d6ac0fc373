//! Looks for processes of this machine that are to be tuned, and attaches to them.

use std::collections::HashMap;
use std::process::Command;

use thalweg_attach::{Guards, Identity};
use thalweg_pack::Pack;

use super::found;
use super::target::{NoTarget, Target};

/// The processes of this machine that are to be tuned.
pub(super) struct Search {
    /// The node whose name stands before the number of a process; `None` on the machine of the session.
    pub(super) node: Option<String>,
    /// The processes, with their children; if empty, all that use the library.
    pub(super) processes: Vec<i32>,
    /// Processes that are not tuned, with their start times; they are not examined again.
    pub(super) others: HashMap<i32, u64>,
    /// The guard of all targets.
    pub(super) guards: Option<Guards>,
}

/// What was found of a process.
pub(super) enum Found {
    /// The process was attached to.
    Target(Box<Target>),
    /// The process with this name cannot be tuned, for this reason.
    Refused(String, String),
}

impl Search {
    pub(super) fn new(node: Option<String>, processes: Vec<i32>) -> Search {
        Search { node, processes, others: HashMap::new(), guards: None }
    }

    /// The processes that may have to be attached to, without those that `is_known`.
    pub(super) fn candidates(&self, pack: &Pack, is_known: impl Fn(i32) -> bool) -> Vec<i32> {
        let mut found = match (&self.processes[..], &pack.identity) {
            (_, None) => Vec::new(),
            ([], Some(identity)) => found::using(&identity.library),
            (processes, _) => found::with_children(processes),
        };
        found.retain(|pid| {
            let is_other = |start: &u64| Identity::of(*pid).is_none_or(|known| known.start == *start);
            !is_known(*pid) && !self.others.get(pid).is_some_and(is_other)
        });
        found
    }

    /// Attaches to a process, if it uses the library; `guard` makes the command of the guard of all targets.
    pub(super) fn open(
        &mut self,
        pid: i32,
        pack: &Pack,
        guard: &dyn Fn() -> Option<Command>,
    ) -> Option<Found> {
        let process = Identity::of(pid)?;
        if self.guards.is_none() {
            self.guards = guard().map(Guards::new);
        }
        let name = self.node.as_ref().map_or(pid.to_string(), |node| format!("{node}:{pid}"));
        match Target::open(pid, name.clone(), pack, self.guards.clone()) {
            Ok(target) => Some(Found::Target(Box::new(target))),
            Err(no) => {
                self.others.insert(pid, process.start);
                if let NoTarget::Refused(why) = no { Some(Found::Refused(name, why)) } else { None }
            }
        }
    }

    /// Renews the guard's lease.
    pub(super) fn renew(&self) {
        self.guards.iter().for_each(Guards::renew);
    }
}

//! Child processes that begin another program. A child that only was forked has the program's changes, and its
//! calls are counted with the program's; a child that begins another program has no changes any more.

use std::collections::HashSet;

use thalweg_attach::Identity;

/// The descendants of a process.
pub(super) struct Children {
    of: Identity,
    /// The text that the memory maps of a process contain as long as it has the attachment's memory.
    memory: String,
    /// Children that run another program already, or ran before the process was attached to.
    known: HashSet<(i32, u64)>,
}

impl Children {
    /// The children of a process that is about to be attached to by this process.
    pub(super) fn new(of: Identity) -> Children {
        let memory = format!("/memfd:thalweg-attach-{}-", std::process::id());
        let mut children = Children { of, memory, known: HashSet::new() };
        // Programs that the children there are run already are other processes, which can be attached to apart.
        children.begun();
        children
    }

    /// The descendants that have begun another program since the last look. Those of such a program are not
    /// among them.
    pub(super) fn begun(&mut self) -> Vec<i32> {
        let mut begun = Vec::new();
        let mut left = children(self.of.pid);
        while let Some(child) = left.pop() {
            // A child that has ended meanwhile has no maps.
            let (Some(identity), Ok(maps)) =
                (Identity::of(child), std::fs::read(format!("/proc/{child}/maps")))
            else {
                continue;
            };
            if maps.is_empty() {
                continue;
            }
            if String::from_utf8_lossy(&maps).contains(&self.memory) {
                left.extend(children(child));
            } else if self.known.insert((child, identity.start)) {
                begun.push(child);
            }
        }
        begun
    }
}

/// The children of all threads of a process.
fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

//! Records the pulls of a scope in collectors, one for each of its nodes.

use thalweg_space::kind::NameRef;
use thalweg_space::{CollectorOptions, Error, PathCollector, Space};

/// The collectors of a scope's nodes.
#[derive(Debug)]
pub(crate) struct Watch {
    pull: NameRef,
    root: PathCollector,
    leaves: Vec<PathCollector>,
}

impl Watch {
    pub(crate) fn new(space: &Space, name: &str, leaves: usize) -> Result<Watch, Error> {
        let path = |node: &str| {
            PathCollector::new(space, &format!("scope/{name}/{node}"), CollectorOptions::default())
        };
        let root = path("root")?;
        let leaves = (0..leaves).map(|n| path(&format!("leaf {n}"))).collect::<Result<_, _>>()?;
        Ok(Watch { pull: space.name("pull")?, root, leaves })
    }

    /// The current time, for [`Watch::leaf`] and [`Watch::root`].
    pub(crate) fn start(&self) -> u64 {
        self.root.start()
    }

    /// Records that a leaf was read, with the numbers of tuples and sources.
    pub(crate) fn leaf(&mut self, leaf: usize, started: u64, tuples: u64, sources: u64) {
        if let Some(path) = self.leaves.get_mut(leaf) {
            path.complete(started, self.pull, tuples, sources);
        }
    }

    /// Records that a pull is complete, with the number and the bytes of the tuples handed over.
    pub(crate) fn root(&mut self, started: u64, tuples: u64, bytes: u64) {
        self.root.complete(started, self.pull, tuples, bytes);
    }
}

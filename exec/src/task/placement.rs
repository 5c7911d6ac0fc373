//! Where a task runs: on which node, and on which of its workers.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// Where a task must run, if the user specifies it. A placement is written as `worker 1`, `node 0` or `node 0
/// worker 1`.
///
/// A runtime is one node, node 0. A task for another node fails.
///
/// ```
/// use thalweg_exec::Placement;
///
/// let place: Placement = "node 0 worker 1".parse()?;
/// assert_eq!(place, Placement { node: Some(0), worker: Some(1) });
/// assert_eq!(Placement::on_worker(1).to_string(), "worker 1");
/// # Ok::<(), thalweg_exec::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The node, if one is specified.
    pub node: Option<u32>,
    /// The worker of the node, if one is specified (modulo the number of workers that take part).
    pub worker: Option<usize>,
}

impl Placement {
    /// Any place that the mapper chooses.
    pub const ANYWHERE: Placement = Placement { node: None, worker: None };

    /// A place on the given worker.
    pub const fn on_worker(worker: usize) -> Placement {
        Placement { node: None, worker: Some(worker) }
    }

    /// A place on the given node, on a worker that its mapper chooses.
    pub const fn on_node(node: u32) -> Placement {
        Placement { node: Some(node), worker: None }
    }

    /// The worker of this runtime, if one is specified.
    ///
    /// # Errors
    /// If the placement names another node, because a runtime has only one.
    pub fn here(self) -> Result<Option<usize>, Error> {
        match self.node {
            None | Some(HERE) => Ok(self.worker),
            Some(node) => Err(Error::new(format!(
                "there is no node {node}: this run has one node, which is node {HERE}; a node other than this one needs \
                 a run over several machines, which there is not yet"
            ))),
        }
    }
}

/// The number of a runtime's own node.
const HERE: u32 = 0;

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.node, self.worker) {
            (Some(node), Some(worker)) => write!(f, "node {node} worker {worker}"),
            (Some(node), None) => write!(f, "node {node}"),
            (None, Some(worker)) => write!(f, "worker {worker}"),
            (None, None) => f.write_str("anywhere"),
        }
    }
}

impl FromStr for Placement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Placement, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let read = match words[..] {
            ["anywhere"] => Some(Placement::ANYWHERE),
            ["node", node] => node.parse().ok().map(Placement::on_node),
            ["worker", worker] => worker.parse().ok().map(Placement::on_worker),
            ["node", node, "worker", worker] => node
                .parse()
                .ok()
                .zip(worker.parse().ok())
                .map(|(node, worker)| Placement { node: Some(node), worker: Some(worker) }),
            _ => None,
        };
        read.ok_or_else(|| {
            let forms = "`worker 1`, `node 0` or `node 0 worker 1`";
            Error::new(format!("`{text}` is no place of a task: write {forms}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for node in [None, Some(0), Some(7)] {
            for worker in [None, Some(0), Some(usize::MAX)] {
                let place = Placement { node, worker };
                assert_eq!(place.to_string().parse(), Ok(place));
            }
        }
        for wrong in
            ["", "1", "worker", "worker -1", "worker 1 node 0", "node 4294967296", "node 0 worker 1 2"]
        {
            assert!(wrong.parse::<Placement>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn another_node_is_refused() {
        assert_eq!(Placement::ANYWHERE.here(), Ok(None));
        assert_eq!(Placement { node: Some(0), worker: Some(3) }.here(), Ok(Some(3)));
        let error = Placement { node: Some(2), worker: Some(0) }.here().unwrap_err().to_string();
        assert!(error.starts_with("there is no node 2"), "{error}");
    }
}

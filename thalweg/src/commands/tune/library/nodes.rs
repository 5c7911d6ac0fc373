//! The nodes of a tuner of a library, and the half of a tuner on a node.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use thalweg_node::{Cluster, Half, serve_half};
use thalweg_tune::library::{FarHalf, NodeHalf};

use crate::commands::attach::{found, guard_command};
use crate::commands::run::all_nodes;
use crate::failure::Failure;

/// The arguments about nodes.
#[derive(clap::Args)]
pub(super) struct OfNodes {
    /// Tune on these nodes (`thalweg node`), too: names or addresses. SPACE may then have processes such as
    /// a:4242; on a node without any, all that use the library.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "library", help_heading = "Nodes")]
    nodes: Vec<String>,
    /// Tune on all nodes of the cluster's folder that answer.
    #[arg(long, conflicts_with = "nodes", requires = "library", help_heading = "Nodes")]
    all_nodes: bool,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR", requires = "library", help_heading = "Nodes")]
    cluster: Option<PathBuf>,
}

impl OfNodes {
    /// The processes of this machine among those that are given, with commas between, and the halves of the tuner for
    /// the others.
    pub(super) fn processes(
        &self,
        given: &str,
        pack: &str,
        lease: Duration,
    ) -> Result<(Vec<i32>, Vec<FarHalf>), Failure> {
        let names = given.split(',').filter(|name| !name.is_empty());
        let (there, here): (Vec<&str>, Vec<&str>) = names.partition(|name| on_node(name).is_some());
        let here = here.into_iter().map(found).collect::<Result<Vec<i32>, _>>()?;
        Ok((here, self.halves(&there, pack, lease)?))
    }

    /// Begins the halves of a tuner with this pack on the nodes, for these processes there (`NODE:PROCESS`).
    fn halves(&self, processes: &[&str], pack: &str, lease: Duration) -> Result<Vec<FarHalf>, Failure> {
        let given: Vec<(&str, i32)> = processes.iter().filter_map(|process| on_node(process)).collect();
        if self.nodes.is_empty() && !self.all_nodes {
            return match processes.first() {
                Some(process) => {
                    Err(Failure::Usage(format!("{process} is on a node: --nodes or --all-nodes is needed")))
                }
                None => Ok(Vec::new()),
            };
        }
        let cluster = Cluster::open(self.cluster.as_deref())?;
        let names = if self.all_nodes { all_nodes(&cluster) } else { self.nodes.clone() };
        if names.is_empty() {
            return Err(Failure::Usage(format!(
                "no node of {} answers: `thalweg node --name NAME` starts one",
                cluster.folder().display()
            )));
        }
        if let Some((node, _)) = given.iter().find(|(node, _)| !names.iter().any(|name| name == node)) {
            return Err(Failure::Usage(format!("node {node} takes no part: there are {}", names.join(", "))));
        }
        let mut halves: Vec<FarHalf> = Vec::new();
        for name in names {
            if halves.iter().any(|half| half.name == name) {
                return Err(Failure::Usage(format!("node {name} is given twice")));
            }
            let node = cluster.find(&name)?;
            let half = RefCell::new(Half::connect(&cluster, &node, lease)?);
            let ask = move |question: &str, is_long: bool| half.borrow_mut().ask(question, is_long);
            let of: Vec<i32> = given.iter().filter(|(node, _)| *node == name).map(|(_, pid)| *pid).collect();
            let begun = FarHalf::begin(name.clone(), Box::new(ask), (pack, &of), lease);
            halves.push(begun.map_err(|why| Failure::Usage(format!("node {name}: {why}")))?);
        }
        Ok(halves)
    }
}

/// The node and the number of a process that is given as `a:2041`.
fn on_node(process: &str) -> Option<(&str, i32)> {
    let (node, pid) = process.rsplit_once(':')?;
    Some((node, pid.parse().ok()?))
}

/// Is the half of a tuner on a node, until the tuner or the node has ended.
pub(crate) fn half() -> Result<(), Failure> {
    let guard = |lease| guard_command(Some(Duration::from_millis(lease)));
    let mut half = NodeHalf::new(&guard, &super::hoster_command);
    let served = serve_half(&mut |question| half.answer(question));
    half.end();
    Ok(served?)
}

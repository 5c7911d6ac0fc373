//! Running a network over several nodes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use thalweg_exec::Mode;
use thalweg_host::amount::microseconds;
use thalweg_host::{Interrupt, Plan};
use thalweg_node::{Cluster, Members, MembersPlan, OnLoss, Placement};

use crate::failure::Failure;
use crate::units::{bytes, counted};

/// The arguments about the nodes of a run.
#[derive(clap::Args)]
pub(crate) struct Over {
    /// Run the network over these nodes (`thalweg node`): names or addresses, in the order of the numbers by
    /// which the text refers to nodes.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Nodes")]
    nodes: Vec<String>,
    /// Run the network over all nodes of the cluster's folder that answer, and over those that join later.
    #[arg(long, conflicts_with = "nodes", help_heading = "Nodes")]
    all_nodes: bool,
    /// A file with the placement of components, one COMPONENT = NODE a line, with * and ** in components'
    /// paths; `here` is this process [default: components in series are divided among the nodes].
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    placement: Option<PathBuf>,
    /// The reaction to the loss of a node.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnLost::Stop, help_heading = "Nodes")]
    on_lost: OnLost,
    /// The time without an answer after which a node counts as lost.
    #[arg(long, value_name = "TIME", value_parser = microseconds, default_value = "2s", help_heading = "Nodes")]
    lease: u64,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR", help_heading = "Nodes")]
    cluster: Option<PathBuf>,
}

/// The option value for the reaction to the loss of a node.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnLost {
    /// End the run: the source stops, records on other nodes are finished, and lost records are counted.
    Stop,
    /// Go on; records that need the lost node fail, also those that were on it.
    GoOn,
}

/// The names of all nodes of the cluster that answer.
pub(crate) fn all(cluster: &Cluster) -> Vec<String> {
    let known = cluster.known().into_iter().filter(|node| cluster.connect(node).is_ok());
    known.map(|node| node.name).collect()
}

/// The nodes of a run.
pub(crate) struct Nodes {
    members: Arc<Members>,
    /// The directory of the session, if it was made for this run and is removed when the run ends.
    session: Option<PathBuf>,
    /// The directory of the session, if the session is kept after the run.
    kept: Option<PathBuf>,
}

impl Over {
    /// Connects to the nodes, if the run has some, and adds them to the plan of the run.
    pub(crate) fn connect(&self, plan: &mut Plan, interrupt: &Interrupt) -> Result<Option<Nodes>, Failure> {
        if self.nodes.is_empty() && !self.all_nodes {
            if let Some(option) = self.placement.as_ref().map(|_| "--placement") {
                return Err(Failure::Usage(format!("{option} needs --nodes or --all-nodes")));
            }
            return Ok(None);
        }
        let cluster = Cluster::open(self.cluster.as_deref())?;
        let nodes = if self.all_nodes { all(&cluster) } else { self.nodes.clone() };
        let session = session(plan)?;
        let is_kept = plan.keep.is_some() || plan.stays;
        let (stops, on_loss) = match self.on_lost {
            OnLost::Stop => (Some(interrupt.clone()), OnLoss::Stop),
            OnLost::GoOn => (None, OnLoss::GoOn),
        };
        let members = Members::connect(
            MembersPlan {
                nodes,
                cluster,
                placement: self.placement.as_deref().map(Placement::read).transpose()?.unwrap_or_default(),
                libraries: plan.libraries.clone(),
                allow_exec: plan.allow_exec,
                on_loss,
                lease: Duration::from_micros(self.lease),
                workers: None,
                mode: match plan.options.mode {
                    Mode::Off => "off",
                    Mode::Metrics => "metrics",
                    Mode::Full => "full",
                },
                keep: is_kept,
                gather: plan.session.clone(),
                settings: plan.settings.iter().map(|it| (it.name.clone(), it.value.clone())).collect(),
                exact_failures: plan.dead_letters.is_some(),
                replaceable: plan.control,
                admits: self.all_nodes,
            },
            Arc::new(move |loss| {
                print_stderr!("error[E0804]: {loss}");
                stops.iter().for_each(Interrupt::stop);
            }),
            Arc::new(|joined| match joined {
                Ok(name) => print_stderr!("node {name} takes part from now on"),
                Err(why) => print_stderr!("warning: {why}"),
            }),
        )?;
        plan.elsewhere = Some(members.clone());
        let (kept, session) = if is_kept { (session, None) } else { (None, session) };
        Ok(Some(Nodes { members, session, kept }))
    }
}

/// The directory of the session that the run and its nodes join, and whether it was made for this run.
fn session(plan: &mut Plan) -> Result<Option<PathBuf>, Failure> {
    if let Some(given) = std::env::var_os("THALWEG_SESSION").filter(|value| !value.is_empty()) {
        plan.session = Some(given.into());
        return Ok(None);
    }
    // The directory that `--space` names holds the spaces of the run and of its parts on this machine.
    if let Some(space) = plan.space.take() {
        if space.exists() {
            return Err(Failure::Usage(format!("{} exists: --space names a new directory", space.display())));
        }
        let session = std::path::absolute(&space).unwrap_or(space);
        (plan.session, plan.stays) = (Some(session.clone()), true);
        return Ok(Some(session));
    }
    let name =
        plan.network.file_stem().map_or_else(|| "network".into(), |name| name.to_string_lossy().into_owned());
    let parent = thalweg_space::default_parent().map_err(Failure::usage)?;
    let session = parent.join(format!("{name}-nodes-{}", std::process::id()));
    plan.session = Some(session.clone());
    Ok(Some(session))
}

impl Nodes {
    /// Prints what each node did. A run that lost a node has failed.
    pub(crate) fn conclude(self, concluded: Result<(), Failure>) -> Result<(), Failure> {
        if let Some(session) = &self.session {
            // Errors of the removal are ignored, because `thalweg clean` can remove the remaining files.
            let _ = std::fs::remove_file(session.join("session")).and_then(|()| std::fs::remove_dir(session));
        }
        for did in self.members.did() {
            print_stderr!(
                "node {}: {}, {:.2} s of processor time, {} sent, {} received",
                did.node,
                counted(did.tasks, "task"),
                did.processor_s,
                bytes(did.sent),
                bytes(did.received)
            );
        }
        if let Some(session) = self.kept {
            print_stderr!(
                "the spaces of all are in {}: thalweg report {}",
                session.display(),
                session.display()
            );
        }
        let faults = self.members.faults();
        faults.iter().for_each(|fault| print_stderr!("error: {fault}"));
        let is_whole = faults.is_empty() && self.members.losses().is_empty();
        concluded.and(if is_whole { Ok(()) } else { Err(Failure::Reported(1)) })
    }
}

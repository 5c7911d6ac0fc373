//! `thalweg node` and `thalweg nodes`: a machine's node and certificates, and the list of all nodes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_host::amount::microseconds;
use thalweg_link::{Exchange, PeerClock, system_ns};
use thalweg_node::channel::{Channel, Refused};
use thalweg_node::{Cluster, DAYS_MAX, Known, LEASE, May, Node, NodeOptions, Revoked, serve_part};

use crate::Terminal;
use crate::failure::Failure;
use crate::output::{Output, print_line};
use crate::table::{ShapeArguments, Table, number, text};

const EXAMPLES: &str = "\
Examples:
  # a node of this machine
  thalweg node --name a
  # another one
  thalweg node --name b
  # which are there
  thalweg nodes
  # a network over both
  thalweg run tidy.snet --boxes ./libtidy.so --nodes a,b

A node runs as you, until it is interrupted. All nodes and runs of a cluster know the token in the cluster's folder, \
which only you may read. A node listens on this machine alone, or with TLS to machines that have a certificate of the \
cluster: `init` makes the one of this machine, `invite` lets another machine have one. Anyone who has the token, and off \
this machine a certificate too, can run programs as you.";

const OF_INIT: &str = "\
Examples:
  # the first machine of a cluster
  thalweg node init --host 10.0.0.1
  # another one, by a token of `thalweg node invite`
  thalweg node init --host 10.0.0.2 \\
    --join 10.0.0.1:7000 --token TOKEN

A certificate is for the hosts that --host names, for this machine's own name, and for localhost. Doing it again makes \
another certificate in place of the one before; nodes take it when they are started again.";

const OF_INVITE: &str = "\
Examples:
  # a token for one machine, good for an hour
  thalweg node invite
  # a machine that may only see which nodes run
  thalweg node invite --may see

The token is good once, at a node of this machine that listens with TLS.";

const OF_REVOKE: &str = "\
Examples:
  # the machine of node b
  thalweg node revoke b
  # a machine that has no node
  thalweg node revoke 10.0.0.7

All nodes that are reached close their connections with the machine, and accept none any more; runs lose its nodes. Nodes \
that are not reached learn it from the next run or node that connects to them. It cannot be undone: the machine needs a \
token of `invite` to come back.";

const OF_NODES: &str = "\
Examples:
  # which nodes are there
  thalweg nodes
  # the same for programs
  thalweg nodes --json

ROUND TRIP is the shortest of a few questions. CLOCK is how far the clock of the node is ahead of the one here, \
and the largest error of that.";

/// The number of exchanges that estimate a node's clock.
const QUESTIONS: usize = 8;

/// The arguments of `thalweg node`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    about: Option<About>,
    /// The node's name: letters, digits, `-`, `_` and `.`.
    #[arg(long, value_name = "NAME", required_unless_present = "part")]
    name: Option<String>,
    /// The address at which the node listens; port 0 is any free port. Connections from other machines are with
    /// TLS.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Use TLS on this machine, too.
    #[arg(long)]
    tls: bool,
    /// The address of a node to join; may be given several times.
    #[arg(long, value_name = "HOST:PORT")]
    join: Vec<String>,
    /// Let networks run boxes that are commands.
    #[arg(long)]
    allow_exec: bool,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,
    /// Serve the parts of a session; a node starts this process.
    #[arg(long, hide = true)]
    part: bool,
}

/// What a cluster's certificates are made by.
#[derive(clap::Subcommand)]
enum About {
    /// Make the certificate of this machine.
    Init(Init),
    /// Print a token by which another machine gets a certificate.
    Invite(Invite),
    /// Take a machine out of the cluster: its certificates are refused from now on.
    Revoke(Revoke),
}

#[derive(clap::Args)]
#[command(after_help = OF_INIT)]
struct Init {
    /// A name or address by which others reach this machine; may be given several times.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// The days for which the certificate is valid.
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    days: u32,
    /// A node of the machine that began the cluster, which signs the certificate.
    #[arg(long, value_name = "HOST:PORT", requires = "token")]
    join: Option<String>,
    /// The token that `thalweg node invite` printed there.
    #[arg(long, value_name = "TOKEN", requires = "join")]
    token: Option<String>,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = OF_INVITE)]
struct Invite {
    /// How long the token is good.
    #[arg(long, value_name = "TIME", value_parser = microseconds, default_value = "1h")]
    valid: u64,
    /// What the machine may do.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = MayDo::Run)]
    may: MayDo,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = OF_REVOKE)]
struct Revoke {
    /// A node of the machine, or a host that the machine's certificate is for.
    #[arg(value_name = "NAME")]
    name: String,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MayDo {
    /// Run networks on all nodes, and have nodes.
    Run,
    /// See which nodes there are.
    See,
}

fn init(arguments: &Init) -> Result<(), Failure> {
    let Init { host, days, join, token, cluster } = arguments;
    let mut cluster = Cluster::open(cluster.as_deref())?;
    let hosts = match (join, token) {
        (Some(join), Some(token)) => cluster.enroll(join, token, host, *days)?,
        _ => cluster.make_certificates(host, *days)?,
    };
    let folder = cluster.folder().display();
    print_stderr!("a certificate for {}, for {days} days, is in {folder}", hosts.join(", "));
    Ok(())
}

fn invite(arguments: &Invite) -> Result<(), Failure> {
    let may = match arguments.may {
        MayDo::Run => May::Run,
        MayDo::See => May::See,
    };
    let cluster = Cluster::open(arguments.cluster.as_deref())?;
    let token = cluster.invite(Duration::from_micros(arguments.valid), may)?;
    print_line(&token)
}

fn revoke(arguments: &Revoke) -> Result<(), Failure> {
    let Revoked { hosts, missed } = Cluster::open(arguments.cluster.as_deref())?.revoke(&arguments.name)?;
    for hosts in hosts {
        print_stderr!("revoked: the certificate for {}", hosts.replace(' ', ", "));
    }
    for (node, why) in missed {
        print_stderr!("node {node} does not know it yet: {why}");
    }
    Ok(())
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.about {
        Some(About::Init(arguments)) => return init(arguments),
        Some(About::Invite(arguments)) => return invite(arguments),
        Some(About::Revoke(arguments)) => return revoke(arguments),
        None => {}
    }
    if arguments.part {
        return Ok(serve_part()?);
    }
    let program = std::env::current_exe().map_err(|error| Failure::run("cannot find this program", error))?;
    let node = Node::start(NodeOptions {
        name: arguments.name.clone().unwrap_or_default(),
        listen: arguments.listen.clone(),
        tls: arguments.tls,
        join: arguments.join.clone(),
        allow_exec: arguments.allow_exec,
        cluster: Cluster::open(arguments.cluster.as_deref())?,
        part: vec![program.clone(), "node".into(), "--part".into()],
        half: vec![program, "tune-half".into()],
    })?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::run("cannot listen to signals", error))?;
    }
    let Known { name, address } = node.known();
    print_stderr!("node {name} listens at {address}");
    node.serve(&stop);
    Ok(())
}

/// The arguments of `thalweg nodes`.
#[derive(clap::Args)]
#[command(after_help = OF_NODES)]
pub(crate) struct Nodes {
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    /// The cluster's folder [default: THALWEG_CLUSTER, else thalweg/cluster in your configuration].
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    shape: ShapeArguments,
}

pub(crate) fn nodes(arguments: &Nodes, terminal: Terminal) -> Result<(), Failure> {
    let cluster = Cluster::open(arguments.cluster.as_deref())?;
    let known = cluster.known();
    if known.is_empty() && !arguments.json {
        print_stderr!("no nodes in {}: `thalweg node --name NAME` starts one", cluster.folder().display());
        return Ok(());
    }
    let mut output = Output::shaped(terminal, &arguments.shape);
    let mut table = Table::new(&[
        text("NAME"),
        text("ADDRESS"),
        number("CORES", 0),
        number("LOAD", 0),
        number("SESSIONS", 0),
        number("ROUND TRIP", 0),
        text("CLOCK").loose(),
    ]);
    for node in &known {
        let seen = cluster
            .connect(node)
            .map_err(Failure::from)
            .and_then(|channel| see(channel).map_err(Failure::Run));
        let Known { name, address } = node;
        let (object, cells) = match &seen {
            Ok(Seen { answer, round_trip, ahead }) => {
                let clock = ahead.map_or_else(
                    || "?".to_owned(),
                    |(ns, error)| format!("{:+.0} ± {:.0} µs", ns as f64 / 1e3, error as f64 / 1e3),
                );
                let cells = [
                    answer["cores"].to_string(),
                    answer["load"].to_string(),
                    answer["sessions"].to_string(),
                    format!("{:.0} µs", round_trip.as_secs_f64() * 1e6),
                    clock,
                ];
                let mut object = answer.clone();
                object["round_trip_ns"] = json!(round_trip.as_nanos() as u64);
                if let Some((ns, error)) = ahead {
                    object["clock_ahead_ns"] = json!(ns);
                    object["clock_error_ns"] = json!(error);
                }
                (object, cells.to_vec())
            }
            Err(_) => {
                let none = String::new;
                (json!({"name": name}), vec![none(), none(), none(), none(), "gone".to_owned()])
            }
        };
        let mut object = object;
        object["address"] = json!(address);
        object["alive"] = json!(seen.is_ok());
        if arguments.json {
            output.line(&object.to_string())?;
        } else {
            table.row([vec![name.clone(), address.clone()], cells].concat(), seen.is_ok());
        }
    }
    if !arguments.json {
        output.table(&table)?;
    }
    output.flush()
}

/// A node's answer about itself.
struct Seen {
    answer: Value,
    round_trip: Duration,
    /// The node's clock minus this machine's clock, and the largest error, in nanoseconds.
    ahead: Option<(i64, i64)>,
}

fn see(mut channel: Channel) -> Result<Seen, String> {
    channel.set_patience(Some(LEASE)).map_err(|error| error.to_string())?;
    let refused = |refused: Refused| refused.why;
    let (answer, _) = channel.ask("who", json!({}), &[]).map_err(refused)?;
    let mut clock = PeerClock::new(100_000.0);
    let mut round_trip = Duration::MAX;
    for _ in 0..QUESTIONS {
        let (asked, sent_ns) = (Instant::now(), system_ns());
        let (time, _) = channel.ask("time", json!({}), &[]).map_err(refused)?;
        round_trip = round_trip.min(asked.elapsed());
        if let (Some(received), Some(sent)) = (time["received"].as_i64(), time["sent"].as_i64()) {
            clock.learn(Exchange {
                client_sent_ns: sent_ns,
                server_received_ns: received,
                server_sent_ns: sent,
                client_received_ns: system_ns(),
            });
        }
    }
    let ahead = clock.bound(system_ns()).map(|bound| (-bound.middle_ns(), bound.error_ns()));
    Ok(Seen { answer, round_trip, ahead })
}

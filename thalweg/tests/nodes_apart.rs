//! Nodes in networks between which no packet passes: a run that both reach loses one of them after a while, unless its
//! links are routed.

mod cluster;
mod program;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cluster::{Cluster, numbers, out, sorted, stderr};
use program::fed;

/// A process that keeps a network of its own alive.
struct Network(Child);

impl Network {
    /// `None`: this process may not make one.
    fn new() -> Option<Network> {
        let may = Command::new("unshare").args(["--net", "true"]).output();
        if !may.is_ok_and(|output| output.status.success()) {
            return None;
        }
        let mut keeps = Command::new("unshare");
        let keeps =
            keeps.args(["--net", "sleep", "1000"]).stdin(Stdio::null()).spawn().expect("unshare runs");
        let network = Network(keeps);
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let until = Instant::now() + Duration::from_secs(20);
        while of(&network.0.id().to_string()) == of("self") {
            assert!(Instant::now() < until, "it makes no network");
            std::thread::yield_now();
        }
        Some(network)
    }

    /// A command in this network.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.0.id().to_string(), "--net", program]);
        command
    }

    fn ip(&self, arguments: &str) {
        let done = self.command("ip").args(arguments.split(' ')).output().expect("nsenter runs");
        assert!(done.status.success(), "ip {arguments}: {}", stderr(&done));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two networks with a node each, and one between them that reaches both and passes no packets on.
struct Apart {
    between: Network,
    cluster: Cluster,
    // The networks end after the nodes.
    _sides: [Network; 2],
}

impl Apart {
    fn new() -> Option<Apart> {
        let between = Network::new()?;
        let sides = [Network::new()?, Network::new()?];
        between.ip("link set lo up");
        for (at, side) in sides.iter().enumerate() {
            let net = format!("10.99.{at}");
            between.ip(&format!("link add side{at} type veth peer name inner netns {}", side.0.id()));
            between.ip(&format!("addr add {net}.1/24 dev side{at}"));
            between.ip(&format!("link set side{at} up"));
            side.ip("link set lo up");
            side.ip(&format!("addr add {net}.2/24 dev inner"));
            side.ip("link set inner up");
            side.ip(&format!("route add default via {net}.1"));
        }
        let forward = "echo 0 > /proc/sys/net/ipv4/ip_forward";
        assert!(between.command("sh").args(["-c", forward]).status().expect("nsenter runs").success());
        let mut cluster = Cluster::of(&[]);
        let hosts = ["--host", "10.99.0.1", "--host", "10.99.0.2", "--host", "10.99.1.2"];
        let made = cluster.command().args(["node", "init"]).args(hosts).output().expect("thalweg starts");
        assert!(made.status.success(), "{}", stderr(&made));
        for (name, (at, side)) in ["a", "b"].into_iter().zip(sides.iter().enumerate()) {
            let mut command = within(&cluster, side);
            command.args(["node", "--name", name, "--listen", &format!("10.99.{at}.2:0")]);
            cluster.spawn(name, command);
        }
        Some(Apart { between, cluster, _sides: sides })
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        fed(within(&self.cluster, &self.between).arg("run").args(arguments), input)
    }
}

/// The program in a network, with the cluster's folder.
fn within(cluster: &Cluster, network: &Network) -> Command {
    let mut command = network.command(env!("CARGO_BIN_EXE_thalweg"));
    command.env("THALWEG_CLUSTER", cluster.path("cluster")).env("THALWEG_SPACES", cluster.path("spaces"));
    command.env_remove("THALWEG_SESSION");
    command
}

#[test]
fn nodes_that_do_not_reach_each_other_need_routed_links() {
    let Some(apart) = Apart::new() else {
        // The line is written past the test harness, which would hide it, so that `cargo xtask test` can count skipped
        // tests.
        let line = "\nskipped: nodes in networks of their own: making a network needs root\n";
        return std::io::stdout().write_all(line.as_bytes()).expect("standard output");
    };
    // Both parts and their links: the part on a opens the one on b.
    let net = apart.cluster.net(
        "nested.snet",
        "net nested connect ([{<n>} -> {<n = n + 1>}] .. ([{<n>} -> {<n = n * 2>}] @ 1)) @ 0;",
    );
    let alone = apart.cluster.run(&[&net], &numbers(1_000));
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| {
            let begun = Instant::now();
            let lost = apart.run(&[&net, "--nodes", "a,b", "--on-lost", "go-on"], &numbers(10));
            (lost, begun.elapsed())
        });
        let routed = ["--set", "link.transport=routed"];
        for more in [&[][..], &["--on-lost", "go-on"]] {
            let over = apart.run(&[&[&net, "--nodes", "a,b"], &routed[..], more].concat(), &numbers(1_000));
            assert_eq!(sorted(&over), sorted(&alone), "{more:?}");
        }
        let (lost, took) = lost.join().expect("no panic");
        let stderr = stderr(&lost);
        assert_eq!((lost.status.code(), out(&lost).as_str()), (Some(1), ""), "{stderr}");
        assert!(stderr.contains("error[E0804]: node b is lost: node a does not reach it: link "), "{stderr}");
        assert_eq!(stderr.matches("error[E0801]").count(), 10, "each record failed: {stderr}");
        assert!((20..30).contains(&took.as_secs()), "{took:?}");
    });
}

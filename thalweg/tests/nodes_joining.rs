//! Nodes that come to the cluster while a run goes on take part in it.

mod cluster;
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use cluster::{Cluster, numbers, sorted, stderr};

/// How long each step of a test may take.
const LONG: Duration = Duration::from_secs(30);
/// A filter with a replica for each value of a tag, on the node of this number.
const REPLICAS: &str = "net replicas connect [{<n>} -> {<n = n + 1>}] !@ <k>;";

/// A run over all nodes. The test reads each line that the run writes as soon as it is written.
struct Run {
    child: Child,
    input: Option<ChildStdin>,
    out: Receiver<String>,
    err: Receiver<String>,
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (line, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).all(|text| line.send(text).is_ok())
    });
    lines
}

impl Run {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Run {
        let mut command = cluster.command();
        command.arg("run").args(arguments).arg("--all-nodes");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("thalweg starts");
        let out = lines(child.stdout.take().expect("piped"));
        let err = lines(child.stderr.take().expect("piped"));
        Run { input: child.stdin.take(), child, out, err }
    }

    fn feed(&mut self, text: &str) {
        let input = self.input.as_mut().expect("not ended");
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).expect("it reads");
    }

    fn take(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.out.recv_timeout(LONG).expect("a record")).collect()
    }

    /// Waits for a line of the standard error with this text.
    fn says(&self, text: &str) {
        let until = Instant::now() + LONG;
        while !self.err.recv_timeout(until - Instant::now()).expect("it says more").contains(text) {}
    }

    /// Ends the input; returns the remaining records, and what the run says at its end.
    fn end(mut self) -> (Vec<String>, String) {
        drop(self.input.take());
        let rest = self.out.iter().collect();
        let said = self.err.iter().collect::<Vec<_>>().join("\n");
        assert!(self.child.wait().expect("it ends").success(), "{said}");
        (rest, said)
    }
}

/// The number of tasks of a node, as the run says at its end.
fn tasks(said: &str, node: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix(&format!("node {node}: "))).expect(said);
    line.split(' ').next().expect("a number").parse().expect(said)
}

#[test]
fn a_node_that_comes_gets_the_replicas_that_are_made_from_then_on() {
    let mut cluster = Cluster::of(&["a"]);
    let net = cluster.net("replicas.snet", REPLICAS);
    let mut run = Run::start(&cluster, &[&net]);
    run.feed(&numbers(100));
    let mut all = run.take(100);
    cluster.start("b", &[]);
    let listens = Instant::now();
    run.says("node b takes part from now on");
    // The replicas of odd values are the business of the second node from now on, and those that exist stay.
    let more: String =
        (100..200).map(|n| format!("{{\"<n>\": {n}, \"<k>\": {}, \"word\": \"w\"}}\n", n % 9)).collect();
    run.feed("{\"<n>\": 7, \"<k>\": 11, \"word\": \"first\"}\n");
    all.extend(run.take(1));
    let joined = listens.elapsed();
    run.feed(&more);
    let (rest, said) = run.end();
    all.extend(rest);
    let whole = format!("{}{{\"<n>\": 7, \"<k>\": 11, \"word\": \"first\"}}\n{more}", numbers(100));
    all.sort();
    assert_eq!(all, sorted(&cluster.run(&[&net], &whole)));
    // Three replicas (5, 7 and 11), and the tasks that receive and send for each.
    assert!(tasks(&said, "b") >= 3, "{said}");
    assert!(tasks(&said, "a") >= 5, "{said}");
    // 300 ms where nothing else runs.
    assert!(joined < Duration::from_secs(5), "{joined:?}");
}

#[test]
fn a_network_that_is_loaded_later_is_divided_over_nodes_that_came() {
    let mut cluster = Cluster::of(&["a"]);
    let net = cluster.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let two = "net two connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}];";
    let two = cluster.net("two.snet", two);
    let mut run = Run::start(&cluster, &[&net, "--control"]);
    run.feed(&numbers(10));
    run.take(10);
    cluster.start("b", &[]);
    run.says("node b takes part from now on");
    let session = format!("one-nodes-{}", run.child.id());
    let loaded = cluster.command().args(["load", &session, &two]).output().expect("thalweg starts");
    assert!(loaded.status.success(), "{}", stderr(&loaded));
    run.feed(&numbers(50));
    let mut got = run.take(50);
    got.sort();
    assert_eq!(got, sorted(&cluster.run(&[&two], &numbers(50))));
    let (_, said) = run.end();
    assert!(tasks(&said, "b") > 0, "{said}");
}

#[test]
fn a_node_that_came_may_be_lost_and_does_not_come_back() {
    let mut cluster = Cluster::of(&["a"]);
    let net = cluster.net("replicas.snet", REPLICAS);
    let mut run = Run::start(&cluster, &[&net, "--on-lost", "go-on"]);
    run.feed(&numbers(10));
    run.take(10);
    cluster.start("b", &[]);
    run.says("node b takes part from now on");
    run.feed("{\"<n>\": 7, \"<k>\": 11, \"word\": \"first\"}\n");
    run.take(1);
    cluster.kill("b");
    run.says("node b is lost");
    cluster.start("b", &[]);
    run.says("node b takes no part: one of this name is in the run already, or was lost");
    // What the lost node has to do fails by name, and the rest goes on.
    run.feed("{\"<n>\": 8, \"<k>\": 11, \"word\": \"lost\"}\n{\"<n>\": 9, \"<k>\": 0, \"word\": \"kept\"}\n");
    assert!(run.take(1)[0].contains("kept"));
    run.says("replicas");
    drop(run.input.take());
    assert_eq!(run.child.wait().expect("it ends").code(), Some(1));
}

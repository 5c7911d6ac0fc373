//! Nodes as processes of this machine.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::program::{fed, write};

/// Nodes with a folder of their own, which end when the value is dropped.
#[allow(dead_code, reason = "not every test uses all")]
pub(crate) struct Cluster {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) nodes: Vec<(String, Child)>,
}

#[allow(dead_code, reason = "as above")]
impl Cluster {
    pub(crate) fn of(names: &[&str]) -> Cluster {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut cluster = Cluster { folder, nodes: Vec::new() };
        names.iter().for_each(|name| cluster.start(name, &[]));
        cluster
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.env("THALWEG_CLUSTER", self.path("cluster")).env("THALWEG_SPACES", self.path("spaces"));
        command.env_remove("THALWEG_SESSION");
        command
    }

    pub(crate) fn start(&mut self, name: &str, more: &[&str]) {
        let mut command = self.command();
        command.args(["node", "--name", name]).args(more);
        self.spawn(name, command);
    }

    /// Starts a node by this command, and waits until the node listens.
    pub(crate) fn spawn(&mut self, name: &str, mut command: Command) {
        let mut node = command.stderr(Stdio::piped()).spawn().expect("thalweg starts");
        let mut line = String::new();
        let mut from = BufReader::new(node.stderr.take().expect("piped"));
        from.read_line(&mut line).expect("it says where it listens");
        assert!(line.contains(&format!("node {name} listens at ")), "{line}");
        std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
        self.nodes.push((name.to_owned(), node));
    }

    pub(crate) fn address(&self, name: &str) -> String {
        let file = self.path("cluster").join("nodes").join(name);
        std::fs::read_to_string(file).expect("a node that listens").trim().to_owned()
    }

    pub(crate) fn kill(&mut self, name: &str) {
        let (_, node) = self.nodes.iter_mut().find(|(known, _)| known == name).expect("a node of this name");
        node.kill().expect("it was running");
        node.wait().expect("it was running");
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        fed(self.command().arg("run").args(arguments), input)
    }

    pub(crate) fn net(&self, name: &str, text: &str) -> String {
        write(self.folder.path(), name, text)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, node) in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

#[allow(dead_code, reason = "as above")]
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[allow(dead_code, reason = "as above")]
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[allow(dead_code, reason = "as above")]
pub(crate) fn sorted(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", stderr(output));
    let mut lines: Vec<String> = out(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[allow(dead_code, reason = "as above")]
pub(crate) fn numbers(count: usize) -> String {
    (0..count).map(|n| format!("{{\"<n>\": {n}, \"<k>\": {}, \"word\": \"w{n}\"}}\n", n % 5)).collect()
}

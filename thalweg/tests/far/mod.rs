//! Nodes that seem to be on other machines: with spaces that no other process sees, and another boot.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::cluster::Cluster;

/// The arguments of `sh` by which a node starts: the folder of spaces, a file with a boot id, the program, the
/// node's name.
const START: &str = r#"mount -t tmpfs spaces "$1" && mount --bind "$2" /proc/sys/kernel/random/boot_id &&
    shift 2 && exec "$@""#;

/// A cluster of such nodes; `None`: this process may not make them.
pub(crate) fn cluster(names: &[&str]) -> Option<Cluster> {
    let may = Command::new("unshare").args(["--mount", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        // The line is written past the test harness, which would hide it, so that `cargo xtask test` can count
        // skipped tests.
        let line = "\nskipped: nodes with folders of their own: hiding one needs root\n";
        std::io::stdout().write_all(line.as_bytes()).expect("standard output");
        return None;
    }
    let mut cluster = Cluster::of(&[]);
    std::fs::create_dir(cluster.path("spaces")).expect("a new folder");
    for (number, name) in names.iter().enumerate() {
        let boot = cluster.path(&format!("boot-{name}"));
        std::fs::write(&boot, format!("{number:08x}-0000-4000-8000-000000000001\n")).expect("a new file");
        let mut command = cluster.command();
        let mut far = Command::new("unshare");
        far.args(["--mount", "sh", "-c", START, "sh"]).arg(cluster.path("spaces")).arg(boot);
        far.arg(command.get_program()).args(["node", "--name", name]);
        command.get_envs().for_each(|(key, value)| match value {
            Some(value) => _ = far.env(key, value),
            None => _ = far.env_remove(key),
        });
        command = far;
        cluster.spawn(name, command);
    }
    Some(cluster)
}

/// What a node has in its folder of spaces.
pub(crate) fn spaces_of(cluster: &Cluster, name: &str) -> Vec<PathBuf> {
    let (_, node) = cluster.nodes.iter().find(|(known, _)| known == name).expect("a node of this name");
    let path = cluster.path("spaces");
    let inside = format!("/proc/{}/root{}", node.id(), path.canonicalize().expect("it exists").display());
    let entries = std::fs::read_dir(inside).expect("root sees it");
    entries.map(|entry| entry.expect("it is read").path()).collect()
}

/// A run whose records are fed one after the other.
pub(crate) struct Fed {
    pub(crate) run: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    fed: usize,
}

impl Fed {
    pub(crate) fn start(cluster: &Cluster, arguments: &[&str]) -> Fed {
        let mut command = cluster.command();
        command.arg("run").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = command.stderr(Stdio::piped()).spawn().expect("thalweg starts");
        let output = BufReader::new(run.stdout.take().expect("piped")).lines();
        Fed { input: run.stdin.take(), output, run, fed: 0 }
    }

    /// Feeds so many records, and waits until as many came out.
    pub(crate) fn feed(&mut self, count: usize) {
        let input = self.input.as_mut().expect("the input is open");
        for n in self.fed..self.fed + count {
            writeln!(input, "{{\"<n>\": {n}}}").expect("the run reads");
        }
        self.fed += count;
        for _ in 0..count {
            self.output.next().expect("a record comes out").expect("text");
        }
    }

    /// The session's name.
    pub(crate) fn session(&self, net: &str) -> String {
        format!("{net}-nodes-{}", self.run.id())
    }

    /// Ends the input, and waits for the end of the run; returns what it said.
    pub(crate) fn end(mut self) -> (bool, String) {
        drop(self.input.take());
        let output = self.run.wait_with_output().expect("it ends");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

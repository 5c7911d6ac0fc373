//! Commands to a run over nodes, addressed to its session.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output};

use super::program::{self, write};
use super::{Cluster, out, stderr};

/// A run with `--control` over the nodes a and b, fed by hand.
struct Commanded<'a> {
    cluster: &'a Cluster,
    run: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
}

impl<'a> Commanded<'a> {
    fn over(cluster: &'a Cluster, name: &str, text: &str, more: &[&str]) -> Commanded<'a> {
        let net = cluster.net(&format!("{name}.snet"), text);
        let mut command = cluster.command();
        command.args(["run", &net, "--nodes", "a,b", "--control"]).args(more);
        let mut run = program::started(&mut command);
        let session = format!("{name}-nodes-{}", run.id());
        let input = run.stdin.take().expect("piped");
        let output = BufReader::new(run.stdout.take().expect("piped"));
        Commanded { cluster, run, input, output, session }
    }

    fn write(&mut self, n: i64) {
        writeln!(self.input, "{{\"<n>\": {n}}}").expect("it reads");
        self.input.flush().expect("it reads");
    }

    fn read(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// The record that comes out for this one.
    fn through(&mut self, n: i64) -> serde_json::Value {
        self.write(n);
        self.read()
    }

    fn command(&self, what: &str, more: &[&str]) -> Output {
        self.cluster.command().args([what, &self.session]).args(more).output().expect("thalweg starts")
    }

    /// The answer to a command that is obeyed.
    fn done(&self, what: &str, more: &[&str]) -> String {
        let done = self.command(what, more);
        assert!(done.status.success(), "{what}: {}", stderr(&done));
        out(&done)
    }

    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input);
        let mut stderr = String::new();
        self.run.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        (self.run.wait().expect("it ends").code(), stderr)
    }
}

#[test]
fn commands_to_a_session_reach_the_run_and_its_nodes() {
    let cluster = Cluster::of(&["a", "b"]);
    let first = "net first connect ([{<n>} -> {<n = 100 / n>}] @ 0) .. ([{<n>} -> {<n = n + 1>}] @ 1);";
    let other = cluster.net(
        "other.snet",
        "net other connect ([{<n>} -> {<n = n + 10>}] @ 1) .. ([{<n>} -> {<n = n + 20>}] @ 0);",
    );
    let wrong = cluster.net("wrong.snet", "net wrong connect nowhere;");
    let mut run = Commanded::over(&cluster, "first", first, &[]);
    assert_eq!(run.through(4)["<n>"], 26);
    assert!(run.done("pause", &[]).starts_with("first: paused: "));
    run.write(5);
    assert!(run.done("resume", &[]).starts_with("first: resumed: "));
    // Without a name, a command is for the newest run, even if the newest space is that of its part on a
    // node.
    for (what, answer) in [("pause", "paused: "), ("resume", "resumed: ")] {
        let done = cluster.command().arg(what).output().expect("thalweg starts");
        assert!(done.status.success() && out(&done).contains(answer), "{what}: {}", stderr(&done));
    }
    assert_eq!(run.read()["<n>"], 21);
    run.write(0);
    assert_eq!(run.through(10)["<n>"], 11);
    // A drained network has reported all failures, those on nodes, too.
    assert_eq!(run.done("drain", &[]), "first: drained and paused: 4 records in, 3 out, 1 failed\n");
    run.done("resume", &[]);
    assert_eq!(run.through(50)["<n>"], 3);
    assert!(run.done("load", &[&other]).starts_with("first: loaded: "));
    assert_eq!(run.through(1)["<n>"], 31);
    let refused = run.command("load", &[&wrong]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("the network that runs goes on"), "{}", stderr(&refused));
    assert_eq!(run.through(2)["<n>"], 32);
    run.done("drain", &[]);
    assert!(run.done("stop", &[]).starts_with("other: stopping: "));
    let (code, stderr) = run.end();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("first/place/filter on a: division by zero"), "{stderr}");
    assert!(stderr.contains("node a: ") && stderr.contains("node b: "), "{stderr}");
}

#[test]
fn the_directory_of_a_run_over_nodes_holds_the_spaces_of_all_parts() {
    let cluster = Cluster::of(&["a", "b"]);
    let text = "net kept connect ([{<n>} -> {<n = n + 1>}] @ 0) .. ([{<n>} -> {<n = n + 1>}] @ 1);";
    let session = cluster.path("spaces").join("session").display().to_string();
    let mut run = Commanded::over(&cluster, "kept", text, &["--space", &session]);
    run.session.clone_from(&session);
    assert_eq!(run.through(4)["<n>"], 6);
    assert!(run.done("pause", &[]).starts_with("kept: paused: "));
    let listed = cluster.command().args(["ls", "--json"]).output().expect("thalweg starts");
    let listed = out(&listed);
    let listed: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(listed.iter().any(|of| of["path"] == *session && of["state"] == "session"), "{listed:?}");
    let part = listed.iter().find(|of| of["name"] == "kept@a").expect("a part of the run");
    let part = part["path"].as_str().expect("text");
    let refused = cluster.command().arg("resume").arg(part).output().expect("thalweg starts");
    assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
    assert!(
        stderr(&refused).contains(&format!("`thalweg resume` the session {session}")),
        "{}",
        stderr(&refused)
    );
    run.done("resume", &[]);
    run.done("stop", &[]);
    let (code, text) = run.end();
    assert_eq!(code, Some(0), "{text}");
    let report = cluster.command().arg("report").arg(&session).output().expect("thalweg starts");
    for process in ["kept@a", "kept@b"] {
        assert!(out(&report).contains(process), "{process}: {}{}", out(&report), stderr(&report));
    }
    // A second run does not join the session of the first.
    let net = cluster.path("kept.snet").display().to_string();
    let again = cluster.run(&[&net, "--nodes", "a,b", "--space", &session], "");
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    assert!(stderr(&again).contains("--space names a new directory"), "{}", stderr(&again));
}

/// A box that writes the number of its build; `limited` lets only two processes load the library.
const MARK: &str = r#"
#include "thalweg.h"
#include <fcntl.h>
static thalweg_status mark(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t n;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &n)) return thalweg_fail(out, "n: expected an integer");
    thalweg_emit(out, 1, 2, (thalweg_value[]){thalweg_int(n), thalweg_int(BUILD)});
    return THALWEG_DONE;
}
static inline thalweg_status limited(thalweg_out *out) {
    int is_among_two = open(FOLDER "/one", O_CREAT | O_EXCL, 0600) >= 0 || open(FOLDER "/two", O_CREAT | O_EXCL, 0600) >= 0;
    return is_among_two ? THALWEG_DONE : thalweg_fail(out, "no third process");
}
static const thalweg_box boxes[] = {THALWEG_BOX("box mark ((<n>) -> (<n>, " FIELD "))", 1, mark)};
THALWEG_LIBRARY_WITH(boxes, NULL, 0, NULL, 0, INIT, NULL)
"#;

fn compile(folder: &Path, library: &Path, definitions: &[&str]) {
    let source = write(folder, "mark.c", MARK);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-I"]).arg(include).arg(source);
    command.arg(format!("-DFOLDER=\"{}\"", folder.display()));
    command.args(definitions.iter().map(|definition| format!("-D{definition}")));
    // The compiler overwrites a library in place; a new file takes its name instead.
    let new = library.with_extension("new");
    let output = command.arg("-o").arg(&new).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(new, library).expect("renamed");
}

#[test]
fn a_library_is_replaced_on_all_nodes_or_on_none() {
    let cluster = Cluster::of(&["a", "b"]);
    let library = cluster.path("libmark.so");
    let build = |definitions: [&str; 3]| compile(cluster.folder.path(), &library, &definitions);
    build(["BUILD=1", "FIELD=\"<build>\"", "INIT=NULL"]);
    let text = "net marked { box mark ((<n>) -> (<n>, <build>)); } \
        connect (mark @ 0) .. [{<build>} -> {<first = build>}] .. (mark @ 1);";
    let path = library.to_str().expect("UTF-8").to_owned();
    let mut run = Commanded::over(&cluster, "marked", text, &["--boxes", &path]);
    let builds = |run: &mut Commanded<'_>| {
        let record = run.through(7);
        [record["<first>"].as_u64(), record["<build>"].as_u64()].map(|build| build.expect("a number"))
    };
    assert_eq!(builds(&mut run), [1, 1]);
    build(["BUILD=2", "FIELD=\"<build>\"", "INIT=NULL"]);
    assert!(run.done("reload", &[&path]).starts_with("marked: reloaded: "));
    assert_eq!(builds(&mut run), [2, 2]);
    build(["BUILD=3", "FIELD=\"<built>\"", "INIT=NULL"]);
    let refused = run.command("reload", &[&path]);
    assert!(stderr(&refused).contains("the boxes before go on"), "{}", stderr(&refused));
    assert_eq!(builds(&mut run), [2, 2]);
    // The process with the inputs and one node load this build; the other node refuses it.
    build(["BUILD=4", "FIELD=\"<build>\"", "INIT=limited"]);
    let refused = run.command("reload", &[&path]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("no third process"), "{}", stderr(&refused));
    assert!(cluster.path("two").exists(), "two processes loaded it");
    assert_eq!(builds(&mut run), [2, 2]);
    build(["BUILD=5", "FIELD=\"<build>\"", "INIT=NULL"]);
    run.done("reload", &[&path]);
    assert_eq!(builds(&mut run), [5, 5]);
    // The network that follows has the present build.
    run.done("drain", &[]);
    run.done("resume", &[]);
    assert_eq!(builds(&mut run), [5, 5]);
    let (code, stderr) = run.end();
    assert_eq!(code, Some(0), "{stderr}");
}

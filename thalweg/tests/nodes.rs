//! One network over several nodes of this machine, as processes: equal results, errors with their place, the
//! loss of a node.

mod cluster;
mod commanded;
mod des_run;
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output};
use std::time::{Duration, Instant};

use cluster::{Cluster, numbers, out, sorted, stderr};
use program::fed;

/// Networks that together have all combinators, with text, tags and order.
const NETWORKS: [(&str, &str); 7] = [
    (
        "chain",
        "net chain connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n * 2>}] .. [{<n>} -> {<n = n - 3>}];",
    ),
    (
        "placed",
        "net placed connect ([{<n>} -> {<n = n + 1>}] @ 1) .. ([{<n>} -> {<n = n * 2>}] @ 0) .. ([{<n>} -> {<n = n - 3>}] @ 2);",
    ),
    ("nested", "net nested connect ([{<n>} -> {<n = n + 1>}] .. ([{<n>} -> {<n = n * 2>}] @ 1)) @ 0;"),
    ("split", "net split connect [{<n>} -> {<n = n + 1>}] !@ <k>;"),
    ("ordered", "net ordered connect ([{<n>} -> {<n = n + 1>}] @ 1) !! <k> .. [{<n>} -> {<n = n * 2>}] @ 0;"),
    ("star", "net star connect ([{<n>} -> {<n = n / 2>}] @ 1) * {<n>} if <n < 2>;"),
    ("ordered_star", "net ordered_star connect ([{<n>} -> {<n = n / 2>}] @ 1) ** {<n>} if <n < 2>;"),
];

#[test]
fn networks_over_nodes_give_what_they_give_on_one() {
    let cluster = Cluster::of(&["a", "b", "c"]);
    let input = numbers(500);
    for (name, text) in NETWORKS {
        let net = cluster.net(&format!("{name}.snet"), text);
        let alone = cluster.run(&[&net], &input);
        for nodes in ["a", "a,b", "a,b,c"] {
            for more in [&[][..], &["--on-lost", "go-on"]] {
                let over = cluster.run(&[&[&net, "--nodes", nodes], more].concat(), &input);
                assert_eq!(sorted(&over), sorted(&alone), "{name} over {nodes} {more:?}");
                if name.starts_with("ordered") {
                    assert_eq!(out(&over), out(&alone), "{name} over {nodes} {more:?}: the order");
                }
            }
        }
    }
    let left: Vec<_> = std::fs::read_dir(cluster.path("spaces")).expect("spaces").flatten().collect();
    assert!(left.is_empty(), "nothing stays of runs that ended: {left:?}");
    let left: Vec<_> =
        std::fs::read_dir(cluster.path("cluster").join("sessions")).expect("sessions").flatten().collect();
    assert!(left.is_empty(), "nor of their sessions: {left:?}");
}

#[test]
fn a_library_travels_once() {
    let library = des_run::library_of("app-des");
    let cluster = Cluster::of(&["a", "b"]);
    let text: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let plain = cluster.path("plain");
    std::fs::write(&plain, &text).expect("written");
    let net = des_run::root().join("apps/des/des.snet").display().to_string();
    let mut results = Vec::new();
    for more in [&[][..], &["--nodes", "a,b"], &["--all-nodes"]] {
        let result = cluster.path("result");
        let ends = [
            "--input",
            plain.to_str().expect("UTF-8"),
            "--input-bytes",
            "data",
            "--chunk",
            "4096",
            "--with",
            r#"{"key": {"$base64": "EzRXeZu83/E="}}"#,
            "--output",
            result.to_str().expect("UTF-8"),
            "--output-bytes",
            "data",
            "--order-by",
            "seq",
        ];
        let boxes = ["--boxes", library.to_str().expect("UTF-8")];
        let over = cluster.run(&[&[net.as_str()], &boxes[..], &ends, more].concat(), "");
        assert!(over.status.success(), "{more:?}: {}", stderr(&over));
        results.push(std::fs::read(&result).expect("a result"));
    }
    let expected = des_run::openssl(&plain);
    for (result, how) in results.iter().zip(["alone", "over a and b", "over all"]) {
        assert!(*result == expected, "another cipher {how}");
    }
    let libraries: Vec<_> =
        std::fs::read_dir(cluster.path("cluster").join("libraries")).expect("libraries").collect();
    assert_eq!(libraries.len(), 1, "both nodes, of one cluster on one machine, have it once");
}

#[test]
fn the_applications_give_the_same_over_nodes() {
    let option = r#"{"spot": 100.0, "strike": 105.0, "rate": 0.03, "volatility": 0.25, "years": 1.0, "<paths>": 300, "<batches>": 30, "<lanes>": 3}"#;
    let scenes = r#"{"<scenes>": 12, "<solvers>": 4, "<width>": 40, "<height>": 30}"#;
    let jobs = r#"{"<jobs>": 12, "<ants>": 9, "<steps>": 15, "<seed>": 7}"#;
    let chirp = des_run::root().join("apps/audio/tests/data/chirp.ogg");
    let chirp = format!("{{\"file\": {:?}}}", chirp.to_str().expect("UTF-8"));
    let four = ["a", "a,b", "a,b,c,d"];
    // Package, network, input, arguments, nodes.
    type App<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a [&'a str]);
    let apps: [App<'_>; 5] = [
        ("app-mc", "apps/mc/mc.snet", option, &[], &four),
        ("app-mc", "apps/mc/farm.snet", option, &[], &four),
        ("app-rt", "apps/rt/rt.snet", scenes, &["--order-by", "number"], &four),
        ("app-audio", "apps/audio/audio.snet", &chirp, &["--output-bytes", "data"], &four),
        ("app-ant", "apps/ant/ant.snet", jobs, &[], &four),
    ];
    let cluster = Cluster::of(&["a", "b", "c", "d"]);
    for (package, net, input, more, over) in apps {
        let library = des_run::library_of(package);
        let net = des_run::root().join(net).display().to_string();
        let boxes = ["--boxes", library.to_str().expect("UTF-8")];
        let alone = cluster.run(&[&[net.as_str()], &boxes[..], more].concat(), input);
        assert!(alone.status.success() && !alone.stdout.is_empty(), "{net}: {}", stderr(&alone));
        for nodes in over {
            let over = cluster.run(&[&[net.as_str()], &boxes[..], more, &["--nodes", nodes]].concat(), input);
            assert!(over.status.success(), "{net} over {nodes}: {}", stderr(&over));
            assert!(over.stdout == alone.stdout, "{net} over {nodes}: another result");
        }
    }
}

/// Boxes of which one makes a value that only their library understands.
const OPAQUE: &str = r#"#include "thalweg.h"
static const thalweg_opaque_kind kind = {.name = "thing"};
static thalweg_status make(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    static int thing;
    thalweg_value values[1];
    (void)data, (void)arguments, (void)count;
    values[0] = thalweg_opaque(&kind, &thing);
    thalweg_emit(out, 1, 1, values);
    return THALWEG_DONE;
}
static thalweg_status take(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    thalweg_value values[1];
    (void)data, (void)count;
    values[0] = thalweg_int(thalweg_get_opaque(&arguments[0], &kind) != NULL);
    thalweg_emit(out, 1, 1, values);
    return THALWEG_DONE;
}
static const thalweg_box boxes[] = {
    THALWEG_BOX("box make ((<n>) -> (thing))", 1, make),
    THALWEG_BOX("box take ((thing) -> (<found>))", 1, take),
};
THALWEG_LIBRARY(boxes)
"#;

#[test]
fn an_opaque_value_stays_on_its_node() {
    let cluster = Cluster::of(&["a", "b"]);
    let (source, library) = (cluster.net("thing.c", OPAQUE), cluster.path("libthing.so"));
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O2", "-shared", "-fPIC", "-I"]).arg(des_run::root().join("bindings/c"));
    let compiled = compile.args([&source, "-o"]).arg(&library).status();
    assert!(compiled.is_ok_and(|status| status.success()), "a C compiler");
    let boxes = "{ box make ((<n>) -> (thing)); box take ((thing) -> (<found>)); }";
    let net = |name: &str, parts: &str| {
        cluster.net(&format!("{name}.snet"), &format!("net {name} {boxes} connect {parts};"))
    };
    let run = |net: &str| {
        let library = library.to_str().expect("UTF-8");
        cluster.run(&[net, "--boxes", library, "--nodes", "a,b"], "{\"<n>\": 1}\n")
    };
    let together = run(&net("together", "(make .. take) @ 1"));
    assert_eq!(out(&together), "{\"<found>\": 1}\n", "{}", stderr(&together));
    let parted = run(&net("parted", "(make @ 0) .. (take @ 1)"));
    assert_eq!(parted.status.code(), Some(1), "{}", stderr(&parted));
    assert!(stderr(&parted).contains("is opaque, so it cannot go to another node"), "{}", stderr(&parted));
}

#[test]
fn the_error_of_a_record_that_fails_on_a_node_names_the_node() {
    let cluster = Cluster::of(&["a", "b"]);
    let net = cluster.net("div.snet", "net div connect ([{<n>} -> {<n = 10 / n>}] @ 1);");
    let input = "{\"<n>\": 5}\n{\"<n>\": 0}\n{\"<n>\": 2}\n";
    let over = cluster.run(&[&net, "--nodes", "a,b"], input);
    assert_eq!(over.status.code(), Some(1));
    assert_eq!(out(&over), "{\"<n>\": 2}\n{\"<n>\": 5}\n");
    assert!(
        stderr(&over).contains("error[E0801]: div/place/filter on b: division by zero"),
        "{}",
        stderr(&over)
    );
    let letters = cluster.path("letters");
    let over =
        cluster.run(&[&net, "--nodes", "a,b", "--dead-letters", letters.to_str().expect("UTF-8")], input);
    assert_eq!(over.status.code(), Some(1));
    let letters = std::fs::read_to_string(letters).expect("letters");
    assert!(letters.contains("\"<n>\": 0") && letters.contains("on b"), "{letters}");
}

/// A network whose middle, on the node b, takes 20 ms a record.
fn slow(cluster: &Cluster) -> String {
    cluster.net(
        "slow.snet",
        "net slow { box wait ((n) -> (n)) { <<< exec each | cat; sleep 0.02 >>> } } connect wait @ 1;",
    )
}

/// Runs the network, and calls `act` when the first record has come out. Returns the output, the messages,
/// and the time since the call of `act`.
fn while_running(cluster: &mut Cluster, more: &[&str], act: impl FnOnce(&mut Cluster)) -> (Output, Duration) {
    let net = slow(cluster);
    let mut command = cluster.command();
    command.args(["run", &net, "--nodes", "a,b", "--allow-exec"]).args(more);
    let mut run = program::started(&mut command);
    let mut input = run.stdin.take().expect("piped");
    let feeding = std::thread::spawn(move || {
        for n in 0..100 {
            if writeln!(input, "{{\"n\": {n}}}").is_err() {
                break;
            }
        }
        input
    });
    let mut lines = BufReader::new(run.stdout.take().expect("piped"));
    let mut first = String::new();
    lines.read_line(&mut first).expect("a line");
    assert!(first.contains("\"n\""), "nothing came out");
    act(cluster);
    let began = Instant::now();
    drop(feeding.join().expect("it only writes"));
    let mut stdout = first.into_bytes();
    lines.read_to_end(&mut stdout).expect("text");
    let mut stderr = Vec::new();
    run.stderr.take().expect("piped").read_to_end(&mut stderr).expect("text");
    let status = run.wait().expect("it ends");
    (Output { status, stdout, stderr }, began.elapsed())
}

#[test]
fn a_killed_node_is_named_with_what_was_there() {
    let mut cluster = Cluster::of(&["a"]);
    cluster.start("b", &["--allow-exec"]);
    cluster.nodes.swap(0, 1);
    cluster.kill("a");
    cluster.nodes.retain(|(name, _)| name != "a");
    cluster.start("a", &["--allow-exec"]);
    let (ended, took) = while_running(&mut cluster, &[], |cluster| cluster.kill("b"));
    let stderr = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains(
            "error[E0804]: node b is lost: it closed the connection; under way there: slow/place ("
        ),
        "{stderr}"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    // What the killed node left goes when another node of the machine begins a session.
    let sessions = || std::fs::read_dir(cluster.path("cluster").join("sessions")).expect("sessions").count();
    assert_eq!(sessions(), 1, "that of the killed node");
    let net = cluster.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let over = cluster.run(&[&net, "--nodes", "a"], "{\"<n>\": 1}\n");
    assert_eq!((out(&over).as_str(), sessions()), ("{\"<n>\": 2}\n", 0));
}

#[test]
fn going_on_without_a_node_balances_the_books() {
    let mut cluster = Cluster::of(&[]);
    cluster.start("a", &["--allow-exec"]);
    cluster.start("b", &["--allow-exec"]);
    let letters = cluster.path("letters");
    let more = ["--on-lost", "go-on", "--dead-letters", letters.to_str().expect("UTF-8")];
    let (ended, _) = while_running(&mut cluster, &more, |cluster| cluster.kill("b"));
    let stderr = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error[E0804]: node b is lost"), "{stderr}");
    let number = |line: &str| {
        let (_, rest) = line.split_once("\"n\": ").unwrap_or_else(|| panic!("no record: {line}"));
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse::<usize>().ok())
            .expect("a number")
    };
    let mut came: Vec<usize> = out(&ended).lines().map(number).collect();
    let back = came.len();
    came.extend(std::fs::read_to_string(letters).expect("letters").lines().map(number));
    came.sort_unstable();
    assert_eq!(
        came,
        (0..100).collect::<Vec<_>>(),
        "each record came out or failed, none twice ({back} came out): {stderr}"
    );
    assert!((1..100).contains(&back), "{back}");
    assert!(stderr.contains("slow/place: node b is lost: it closed the connection ("), "{stderr}");
}

#[test]
fn a_stopped_node_is_lost_within_the_lease() {
    let mut cluster = Cluster::of(&[]);
    cluster.start("a", &["--allow-exec"]);
    cluster.start("b", &["--allow-exec"]);
    let signal = |cluster: &Cluster, signal: &str| {
        let (_, node) = cluster.nodes.iter().find(|(name, _)| name == "b").expect("a node");
        let id = node.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    };
    let (ended, _) = while_running(&mut cluster, &["--lease", "500ms"], |cluster| signal(cluster, "-STOP"));
    signal(&cluster, "-CONT");
    let stderr = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error[E0804]: node b is lost: it has not answered for"), "{stderr}");
}

#[test]
fn mistakes_are_reported() {
    let mut cluster = Cluster::of(&["a"]);
    let net = cluster.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let wrong = cluster.net("wrong.snet", "net wrong connect nowhere;");
    let where_ = cluster.net("placement", "one/* = x\n");
    let asks = slow(&cluster);
    let table: [(&[&str], &str); 6] = [
        (
            &[&net, "--nodes", "x"],
            "there is no node x: known are a; `thalweg node --name x` starts another one",
        ),
        (&[&net, "--nodes", "127.0.0.1:1"], "cannot reach node 127.0.0.1:1"),
        (&[&net, "--placement", &where_], "--placement needs --nodes"),
        (
            &[&net, "--nodes", "a", "--placement", &where_],
            "the placement puts one/* on x, which is none of here, a",
        ),
        (&[&wrong, "--nodes", "a"], "error[E"),
        (&[&asks, "--nodes", "a", "--allow-exec"], "node a: it was started without --allow-exec"),
    ];
    for (arguments, what) in table {
        let over = cluster.run(arguments, "");
        assert!(matches!(over.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", over.status);
        assert!(stderr(&over).contains(what), "{arguments:?}: {}", stderr(&over));
    }
    let twice = cluster.command().args(["node", "--name", "a"]).output().expect("thalweg starts");
    assert!(stderr(&twice).contains("a node a runs at 127.0.0.1:"), "{}", stderr(&twice));
    let beyond = cluster
        .command()
        .args(["node", "--name", "z", "--listen", "0.0.0.0:0"])
        .output()
        .expect("thalweg starts");
    assert!(stderr(&beyond).contains("which is no address for others"), "{}", stderr(&beyond));
    cluster.kill("a");
    let gone = cluster.run(&[&net, "--nodes", "a"], "");
    assert!(stderr(&gone).contains("cannot reach node a at"), "{}", stderr(&gone));
}

#[test]
fn strangers_get_nowhere_and_hinder_nobody() {
    let cluster = Cluster::of(&["a"]);
    let address = cluster.address("a");
    // Strangers connect and send nothing, a request by HTTP, garbage, or a made-up greeting; half of the
    // connections stay open.
    let mut held = Vec::new();
    for round in 0..2_000_u32 {
        let Ok(mut stream) = TcpStream::connect(&address) else { continue };
        let garbage: Vec<u8> = (0..72).map(|n| (n * round + n) as u8).collect();
        let greeting: &[u8] = match round % 4 {
            0 => b"",
            1 => b"GET / HTTP/1.1\r\n\r\n",
            2 => &garbage,
            _ => b"thalwgn1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        };
        let _ = stream.write_all(greeting);
        if round % 8 < 4 {
            held.push(stream);
        }
    }
    let net = cluster.net("one.snet", "net one connect [{<n>} -> {<n = n + 1>}];");
    let over = cluster.run(&[&net, "--nodes", "a"], "{\"<n>\": 1}\n");
    assert_eq!(out(&over), "{\"<n>\": 2}\n", "{}", stderr(&over));
    let other = Cluster::of(&[]);
    let foreign = fed(
        Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["run", &net, "--nodes", &address])
            .env("THALWEG_CLUSTER", other.path("cluster"))
            .env("THALWEG_SPACES", other.path("spaces")),
        "{\"<n>\": 1}\n",
    );
    assert_eq!(foreign.status.code(), Some(2), "{}", stderr(&foreign));
    assert!(stderr(&foreign).contains("token"), "{}", stderr(&foreign));
}

#[test]
fn nodes_are_listed_with_what_they_have() {
    let mut cluster = Cluster::of(&["a", "b"]);
    let listed = cluster.command().args(["nodes", "--json"]).output().expect("thalweg starts");
    let lines: Vec<serde_json::Value> =
        out(&listed).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    for line in &lines {
        assert_eq!(line["alive"], true);
        assert!(line["round_trip_ns"].as_u64().is_some_and(|ns| ns > 0), "{line}");
        let (ahead, error) =
            (line["clock_ahead_ns"].as_i64().expect("ns"), line["clock_error_ns"].as_i64().expect("ns"));
        assert!(ahead.abs() <= error + 1, "both are this machine's clock: {line}");
    }
    cluster.kill("b");
    let listed = cluster.command().arg("nodes").output().expect("thalweg starts");
    assert!(out(&listed).contains("gone"), "{}", out(&listed));
}

#[test]
fn a_report_has_the_processes_of_all_nodes() {
    let cluster = Cluster::of(&["a", "b"]);
    let net = cluster.net(
        "plus.snet",
        "net plus connect ([{<n>} -> {<n = n + 1>}] @ 0) .. ([{<n>} -> {<n = n * 2>}] @ 1);",
    );
    let run = cluster.run(&[&net, "--nodes", "a,b", "--keep", "--monitor", "full"], &numbers(50));
    assert!(run.status.success(), "{}", stderr(&run));
    let sessions: Vec<PathBuf> = std::fs::read_dir(cluster.path("spaces"))
        .expect("spaces")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let [session] = sessions.as_slice() else { panic!("one session: {sessions:?}") };
    let report = |path: &Path| cluster.command().arg("report").arg(path).output().expect("thalweg starts");
    let report = report(session);
    assert!(report.status.success(), "{}", stderr(&report));
    for process in ["plus@a", "plus@b"] {
        assert!(out(&report).contains(process), "{process}: {}", out(&report));
    }
}

/// A run over node `a` that copies records of 10,000 equal letters, fed by hand.
struct Copying {
    run: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    session: String,
}

const LETTERS: usize = 10_000;

impl Copying {
    fn over(cluster: &Cluster, more: &[&str]) -> Copying {
        let net = cluster.net("copying.snet", "net copying connect [{word} -> {word}] @ 0;");
        let mut command = cluster.command();
        command.args(["run", &net, "--nodes", "a"]).args(more);
        let mut run = program::started(&mut command);
        let session = format!("copying-nodes-{}", run.id());
        let input = run.stdin.take();
        let output = BufReader::new(run.stdout.take().expect("piped"));
        Copying { run, input, output, session }
    }

    /// Sends `count` records through the network and reads them back.
    fn copy(&mut self, count: usize) {
        let record = format!("{{\"word\": \"{}\"}}\n", "w".repeat(LETTERS));
        let input = self.input.as_mut().expect("it has not ended");
        for _ in 0..count {
            input.write_all(record.as_bytes()).expect("it reads");
            input.flush().expect("it reads");
            let mut line = String::new();
            self.output.read_line(&mut line).expect("text");
            assert!(line.len() > LETTERS, "{line}");
        }
    }

    /// Ends the run. Returns the megabytes that the run and the node sent, as the run prints them.
    fn end(mut self) -> String {
        drop(self.input.take());
        let mut stderr = String::new();
        self.run.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        assert!(self.run.wait().expect("it ends").success(), "{stderr}");
        let line = stderr.lines().find(|line| line.starts_with("node a: ")).expect("what the node did");
        line.to_owned()
    }
}

fn set(cluster: &Cluster, arguments: &[&str]) -> Output {
    cluster.command().arg("set").args(arguments).output().expect("thalweg starts")
}

#[test]
fn the_encoding_of_links_changes_while_records_go_over_them() {
    let cluster = Cluster::of(&["a"]);
    let sent = |line: &str| {
        let (_, sent) = line.split_once("processor time, ").expect("bytes");
        let (number, unit) = sent.split_once(" sent").expect("bytes").0.split_once(' ').expect("a unit");
        let scale = match unit {
            "B" => 1.0,
            "kB" => 1e3,
            "MB" => 1e6,
            _ => panic!("{line}"),
        };
        number.parse::<f64>().expect("a number") * scale
    };

    let mut plain = Copying::over(&cluster, &[]);
    plain.copy(60);
    let plain = sent(&plain.end());
    let all = (60 * LETTERS) as f64;
    assert!((all..1.2 * all).contains(&plain), "{plain}");

    let mut packed = Copying::over(&cluster, &["--set", "link.encoding=zstd"]);
    packed.copy(60);
    let packed = sent(&packed.end());
    assert!(packed < 0.1 * all, "{packed}");

    let mut changed = Copying::over(&cluster, &[]);
    changed.copy(30);
    let done = set(&cluster, &[&changed.session, "link.encoding", "lz4"]);
    assert!(done.status.success(), "{}", stderr(&done));
    for process in [
        "copying: link.encoding = lz4 (was plain), adopted after ",
        "copying@a: link.encoding = lz4 (was plain), adopted after ",
    ] {
        assert!(out(&done).contains(process), "{}", out(&done));
    }
    // Each process adopts the setting at the next exchange on its control connection; until then frames are
    // not compressed.
    changed.copy(30);
    let changed = sent(&changed.end());
    assert!((0.5 * all..0.9 * all).contains(&changed), "{changed}");
}

/// Connections of links between sockets of this host whose names begin like this, of all processes.
fn near_connections(name: &str) -> usize {
    let table = std::fs::read_to_string("/proc/net/unix").expect("Linux has it");
    // The sixth column is the state, 03 for connected.
    let is_link = |line: &&str| line.contains(name) && line.split_whitespace().nth(5) == Some("03");
    table.lines().filter(is_link).count()
}

#[test]
fn links_move_while_records_go_over_them() {
    let cluster = Cluster::of(&["a"]);
    let mut copying = Copying::over(&cluster, &[]);
    copying.copy(5);
    let moves = ["tcp", "unix", "memory", "tcp", "memory", "routed", "unix"];
    for [before, transport] in moves.array_windows() {
        let done = set(&cluster, &[&copying.session, "link.transport", transport]);
        assert!(done.status.success(), "{}", stderr(&done));
        let adopted = format!("copying@a: link.transport = {transport} (was {before}), adopted after ");
        assert!(out(&done).contains(&adopted), "{}", out(&done));
        copying.copy(20);
        match *transport {
            "unix" => assert!(near_connections("@thalweg-") >= 2, "one for each direction"),
            "memory" => assert!(near_connections("@thalweg-memory-") >= 2, "one for each direction"),
            _ => {}
        }
    }
    copying.end();
}

/// A limit that a run begins with holds for its first records, too.
#[test]
fn links_are_throttled_from_the_first_record_on() {
    let cluster = Cluster::of(&["a"]);
    // All records end on the node, so what is slow is the way there.
    let net = cluster.net("there.snet", "net there connect [{<n>} -> ];");
    let limit = ["--nodes", "a", "--set", "link.send_ports=1", "--set", "link.send_bandwidth=100kB/s"];
    let begun = Instant::now();
    let ended = cluster.run(&[&[net.as_str()], &limit[..]].concat(), &numbers(4_000));
    let took = begun.elapsed();
    assert!(ended.status.success(), "{}", stderr(&ended));
    let report = stderr(&ended);
    let (_, received) = report.split_once(" sent, ").expect(&report);
    let bytes: f64 = received.split(' ').next().expect(&report).parse().expect(&report);
    assert!(received.contains("kB received") && bytes > 40.0, "{report}");
    // The burst at the beginning is a hundredth of a second's bytes.
    assert!(took.as_secs_f64() >= bytes / 100.0 - 0.02, "{took:?} for {bytes} kB");
}

#[test]
fn links_are_throttled_while_records_go_over_them() {
    let cluster = Cluster::of(&["a"]);
    let mut copying = Copying::over(&cluster, &[]);
    copying.copy(1);
    let session = copying.session.clone();
    let done = set(&cluster, &[&session, "link.send_bandwidth", "8MB/s"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let done = set(&cluster, &["copying", "link.send_ports", "4"]);
    assert!(done.status.success(), "{}", stderr(&done));
    for (process, direction) in
        [("copying", "out"), ("copying", "in"), ("copying@a", "out"), ("copying@a", "in")]
    {
        let shown =
            cluster.command().args(["scope", "links", &session, "--json"]).output().expect("thalweg starts");
        assert!(shown.status.success(), "{}", stderr(&shown));
        let is_it = |end: &serde_json::Value| {
            end["fields"]["process.name"] == process && end["fields"]["direction"] == direction
        };
        let ends = out(&shown);
        let mut ends = ends.lines().map(|line| serde_json::from_str(line).expect("an object a line"));
        assert!(ends.any(|end| is_it(&end)), "{process} {direction}: {}", out(&shown));
    }
    let began = Instant::now();
    copying.copy(100);
    // A million bytes go over one of four ports of 8 MB/s, and back over the node's one port of 8 MB/s, so
    // the transfers take at least this time.
    let least = Duration::from_millis(500);
    assert!(began.elapsed() > least, "{:?}", began.elapsed());

    let wrong = set(&cluster, &[&session, "link.send_port", "4"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean `link.send_ports`?"), "{}", stderr(&wrong));
    let wrong = set(&cluster, &[&session, "link.encoding", "gzip"]);
    assert!(stderr(&wrong).contains("it takes plain|lz4|zstd"), "{}", stderr(&wrong));
    let did = copying.end();
    let (sent, received) = did.split_once(" sent, ").expect("both directions");
    assert!(sent.ends_with(" MB") && received.ends_with(" MB received"), "as much in as out: {did}");
}

//! The shared map as users meet it: boxes in C on one machine and on several nodes, commands, the loss of a
//! node.

mod cluster;
mod program;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output};
use std::time::{Duration, Instant};

use cluster::{Cluster, out, stderr};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::shared_map::MapView;

const BOXES: &str = r#"
#include "thalweg.h"

static thalweg_map_key total = THALWEG_MAP_INT("total", "Records that were counted", 0);
static thalweg_map_key mark = THALWEG_MAP_INT("mark", "The last record", -1);
static thalweg_map_key gain = THALWEG_MAP_FLOAT("gain", "The gain", 1.5);
static thalweg_map_key mode = THALWEG_MAP_TEXT("mode", "The mode", "plain");

static thalweg_status count_one(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    bool swapped = false;
    (void)data, (void)count;
    while (!swapped) {
        int64_t now = thalweg_map_int(&total);
        if (thalweg_map_swap_int(&total, now, now + 1, &swapped, out) != THALWEG_DONE) return THALWEG_FAILED;
    }
    thalweg_value n = thalweg_take(&arguments[0]);
    thalweg_emit(out, 1, 1, &n);
    return THALWEG_DONE;
}

static thalweg_status put(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t n = 0;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &n)) return thalweg_fail(out, "n is no integer");
    if (thalweg_map_set_int(&mark, n, out) != THALWEG_DONE) return THALWEG_FAILED;
    thalweg_value result = thalweg_int(n);
    thalweg_emit(out, 1, 1, &result);
    return THALWEG_DONE;
}

static thalweg_status show(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    char text[THALWEG_MAP_TEXT_BYTES];
    size_t length = thalweg_map_text(&mode, text);
    thalweg_value values[3];
    (void)data, (void)count;
    values[0] = thalweg_take(&arguments[0]);
    values[1] = thalweg_float(thalweg_map_float(&gain));
    values[2] = thalweg_text_of(text, length);
    thalweg_emit(out, 1, 3, values);
    return THALWEG_DONE;
}

static thalweg_status spell(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    const char *text;
    size_t length;
    (void)data, (void)count;
    if (!thalweg_get_text(&arguments[0], &text, &length)) return thalweg_fail(out, "word is no text");
    if (thalweg_map_set_text(&mode, text, length, out) != THALWEG_DONE) return THALWEG_FAILED;
    thalweg_emit(out, 1, 0, NULL);
    return THALWEG_DONE;
}

static const thalweg_box boxes[] = {
    THALWEG_BLOCKING_BOX("box count ((n) -> (n))", 1, count_one),
    THALWEG_BOX("box put ((n) -> (n))", 1, put),
    THALWEG_BOX("box show ((n) -> (n, gain, mode))", 1, show),
    THALWEG_BOX("box spell ((word) -> ())", 1, spell),
};
static thalweg_map_key *const keys[] = {&total, &mark, &gain, &mode};
THALWEG_LIBRARY_WITH_MAP(boxes, NULL, 0, NULL, 0, keys, THALWEG_COUNT(keys), NULL, NULL)
"#;

/// Compiles a library of boxes, with every warning an error.
fn library(cluster: &Cluster, name: &str, text: &str) -> String {
    let source = cluster.net(&format!("{name}.c"), text);
    let library = cluster.path(&format!("lib{name}.so")).display().to_string();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-I"]).arg(include);
    let compiled = compile.args([&source, "-o", &library]).output().expect("a C compiler");
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    library
}

/// A network of the boxes.
fn net_of(name: &str, connected: &str) -> String {
    let boxes = [
        "box count ((n) -> (n));",
        "box put ((n) -> (n));",
        "box show ((n) -> (n, gain, mode));",
        "box spell ((word) -> ());",
    ];
    format!("net {name} {{ {} }} connect {connected};", boxes.join(" "))
}

/// A run that is fed by hand.
struct Fed<'a> {
    cluster: &'a Cluster,
    run: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl<'a> Fed<'a> {
    fn start(cluster: &'a Cluster, net: &str, more: &[&str]) -> Fed<'a> {
        let library = library(cluster, "shared", BOXES);
        let net = cluster.net("shared.snet", &net_of("shared", net));
        let mut command = cluster.command();
        command.args(["run", &net, "--boxes", &library]).args(more);
        let mut run = program::started(&mut command);
        let input = run.stdin.take();
        let output = BufReader::new(run.stdout.take().expect("piped"));
        Fed { cluster, run, input, output }
    }

    fn session(&self) -> String {
        format!("shared-nodes-{}", self.run.id())
    }

    fn write(&mut self, record: &str) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{record}").and_then(|()| input.flush()).expect("it reads");
    }

    fn read(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn command(&self, arguments: &[&str]) -> Output {
        self.cluster.command().args(arguments).output().expect("thalweg starts")
    }

    fn done(&self, arguments: &[&str]) -> String {
        let done = self.command(arguments);
        assert!(done.status.success(), "{arguments:?}: {}", stderr(&done));
        out(&done)
    }

    fn refused(&self, arguments: &[&str], expected: &str) {
        let refused = self.command(arguments);
        assert!(!refused.status.success(), "{arguments:?}: {}", out(&refused));
        assert!(stderr(&refused).contains(expected), "{arguments:?}: {}", stderr(&refused));
    }

    /// Ends the input, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        std::io::copy(&mut self.output, &mut std::io::sink()).expect("text");
        self.run.wait().expect("it ends").code()
    }

    /// The spaces of the session's processes, by name.
    fn spaces(&self) -> HashMap<String, PathBuf> {
        let session = self.cluster.path("spaces").join(self.session());
        let entries = std::fs::read_dir(session).expect("a session").flatten().map(|entry| entry.path());
        let named = |path: PathBuf| Some((SpaceReader::open(&path).ok()?.info().ok()?.name, path));
        entries.filter(|path| path.join("space").is_file()).filter_map(named).collect()
    }
}

/// The value of a key in a space.
fn value(space: &Path, key: &str) -> String {
    let keys = SpaceReader::open(space).expect("a space").shared_map().expect("a map");
    let known = keys.iter().find(|known: &&MapView| known.key == key);
    known.unwrap_or_else(|| panic!("no key {key}: {keys:?}")).value.to_string()
}

/// Waits until the condition holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A write of a key, as the events of a space show it.
#[derive(Clone, Debug)]
struct Written {
    stamp: u64,
    node: String,
    old: String,
    new: String,
}

/// The events of a kind about a key in a space.
fn written(space: &Path, kind: &str, key: &str) -> Vec<Written> {
    let reader = SpaceReader::open(space).expect("a space");
    let mut all = Vec::new();
    let mut take = |item: Item<'_>| {
        let Item::Event(event) = item else { return };
        if event.kind.name != kind {
            return;
        }
        let field = |name: &str| event.kind.field(name).expect("a field");
        let named = |name: &str| thalweg_space::NameRef(event.u64(field(name)));
        all.push((
            named("key"),
            named("node"),
            event.u64(field("stamp")),
            event.str(field("old")).into_owned(),
            event.str(field("new")).into_owned(),
        ));
    };
    reader.events().poll(usize::MAX, &mut take).expect("events");
    let name = |name| reader.name(name).expect("a name").to_string();
    let of_key = all.into_iter().filter(|(of, ..)| name(*of) == key);
    of_key.map(|(_, node, stamp, old, new)| Written { stamp, node: name(node), old, new }).collect()
}

#[test]
fn boxes_and_commands_share_values_in_one_process() {
    let cluster = Cluster::of(&[]);
    let mut run = Fed::start(&cluster, "put .. show", &[]);
    run.write(r#"{"n": 4}"#);
    let first = run.read();
    assert_eq!((&first["n"], &first["gain"], &first["mode"]), (&4.into(), &1.5.into(), &"plain".into()));
    let shown = run.done(&["get", "map.*", "--json"]);
    let mark: serde_json::Value = shown
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .find(|key: &serde_json::Value| key["name"] == "map.mark")
        .expect("a key");
    assert_eq!(
        (&mark["value"], &mark["default"], &mark["type"]),
        (&4.into(), &(-1).into(), &"integer".into())
    );
    assert_eq!(run.done(&["set", "map.gain", "-2.5"]), "map.gain = -2.5 (was 1.5)\n");
    assert_eq!(run.done(&["set", "map.mode", "loud", "--if", "plain"]), "map.mode = loud (was plain)\n");
    run.refused(
        &["set", "map.mode", "soft", "--if", "plain"],
        "`mode` is loud, not plain: nothing was written",
    );
    run.write(r#"{"n": 5}"#);
    let second = run.read();
    assert_eq!((&second["gain"], &second["mode"]), (&(-2.5).into(), &"loud".into()));
    run.refused(&["set", "map.gian", "1"], "the shared map has no key `gian`: did you mean `map.gain`?");
    run.refused(
        &["set", "map.mark", "1.5"],
        "`1.5` is not an integer: the key `mark` of the shared map takes integers",
    );
    run.refused(&["set", "map.mode", &"x".repeat(65)], "a text of 65 bytes is too long");
    run.refused(&["set", "map.mark", "1", "--for", "1s"], "a value of the shared map has no lease");
    run.refused(&["set", "exec.quantum", "1", "--if", "2"], "--if is for values of the shared map");
    run.refused(&["set", "nowhere-nodes-1", "map.mark", "1"], "there is no space `nowhere-nodes-1`");
    run.refused(&["get", "map.totall"], "did you mean `map.total`?");
    let events = run.done(&["events", "--kind", "map.written"]);
    for expected in [
        r#"key=gain compared=false node=here"#,
        r#"old="1.5" new="-2.5" tool="thalweg set""#,
        r#"old="plain" new="loud" tool="thalweg set""#,
        r#"old="-1" new="4" tool="box""#,
    ] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
    assert_eq!(run.end(), Some(0));
}

#[test]
fn a_library_with_a_bad_key_or_another_type_is_refused() {
    let cluster = Cluster::of(&[]);
    let good = library(&cluster, "good", BOXES);
    let net = cluster.net("good.snet", &net_of("good", "put"));
    for (name, key, expected) in [
        (
            "float",
            r#"THALWEG_MAP_FLOAT("total", "", 1)"#,
            "the key `total` of the shared map has an integer, not a float",
        ),
        ("blank", r#"THALWEG_MAP_INT("to tal", "", 1)"#, "`to tal` is no key of the shared map"),
    ] {
        let text = format!(
            "#include \"thalweg.h\"\nstatic thalweg_map_key key = {key};\n\
             static thalweg_status same(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {{\n\
             (void)data, (void)count; thalweg_emit(out, 1, 1, (thalweg_value[]){{thalweg_take(&arguments[0])}}); return THALWEG_DONE; }}\n\
             static const thalweg_box boxes[] = {{THALWEG_BOX(\"box same ((n) -> (n))\", 1, same)}};\n\
             static thalweg_map_key *const keys[] = {{&key}};\n\
             THALWEG_LIBRARY_WITH_MAP(boxes, NULL, 0, NULL, 0, keys, 1, NULL, NULL)\n"
        );
        let bad = library(&cluster, name, &text);
        let both = cluster.net(
            "both.snet",
            "net both { box put ((n) -> (n)); box same ((n) -> (n)); } connect put .. same;",
        );
        let refused = cluster.run(&[&both, "--boxes", &good, "--boxes", &bad], "{\"n\": 1}\n");
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
    }
    let run = cluster.run(&[&net, "--boxes", &good], "{\"n\": 1}\n");
    assert_eq!(out(&run), "{\"n\": 1}\n");
    let inspected = cluster.command().args(["inspect", &good]).output().expect("thalweg starts");
    assert!(out(&inspected).contains("key map.gain = 1.5, float: The gain"), "{}", out(&inspected));
}

#[test]
fn a_text_that_is_too_long_fails_its_record() {
    let cluster = Cluster::of(&[]);
    let library = library(&cluster, "shared", BOXES);
    let net = cluster.net("spelled.snet", &net_of("spelled", "spell"));
    let long = "x".repeat(65);
    let run = cluster
        .run(&[&net, "--boxes", &library], &format!("{{\"word\": \"{long}\"}}\n{{\"word\": \"short\"}}\n"));
    assert_eq!(run.status.code(), Some(1));
    assert!(
        stderr(&run).contains("a text of 65 bytes is too long: a value of the shared map has at most 64"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn a_counter_that_three_nodes_raise_is_exact() {
    let cluster = Cluster::of(&["a", "b", "c"]);
    let mut run = Fed::start(&cluster, "count !@ <k>", &["--nodes", "a,b,c"]);
    const RECORDS: usize = 90;
    for n in 0..RECORDS {
        run.write(&format!("{{\"n\": {n}, \"<k>\": {}}}", n % 3));
    }
    (0..RECORDS).for_each(|_| drop(run.read()));
    let shown = run.done(&["get", &run.session(), "map.total", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["value"], RECORDS, "{shown}");
    let spaces = run.spaces();
    assert_eq!(spaces.len(), 4, "{spaces:?}");
    let writes = written(&spaces["shared"], "map.written", "total");
    let steps: Vec<(String, String)> = writes.iter().map(|one| (one.old.clone(), one.new.clone())).collect();
    let expected: Vec<_> = (0..RECORDS).map(|n| (n.to_string(), (n + 1).to_string())).collect();
    assert_eq!(steps, expected, "each step is decided once, by one process");
    assert!(writes.is_sorted_by(|one, next| one.stamp < next.stamp), "in the order of the clock");
    let nodes: HashSet<&str> = writes.iter().map(|one| one.node.as_str()).collect();
    assert_eq!(nodes, HashSet::from(["a", "b", "c"]), "{writes:?}");
    for (name, space) in &spaces {
        eventually(name, || value(space, "total") == RECORDS.to_string());
    }
    let report = run.done(&["report", &run.session(), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let texts = |of: &serde_json::Value, key: &str| -> Vec<String> {
        let all = of["measurements"].as_array().expect("a list").iter();
        let named = all.filter(|one| one["name"].as_str().is_some_and(|name| name.ends_with(key)));
        named.map(|one| one["value"]["text"].as_str().expect("a text").to_owned()).collect()
    };
    let processes = report["spaces"].as_array().expect("a list");
    assert_eq!(processes.len(), 4, "{report}");
    for process in processes {
        let [total] = &texts(process, "map.total")[..] else { panic!("one line: {process}") };
        assert!(total.starts_with("90 (at the start 0; written by node number "), "{total}");
        assert_eq!(texts(process, "map.gain"), ["1.5 (as at the start)"]);
    }
    assert_eq!(run.end(), Some(0));
}

#[test]
fn nodes_that_write_at_the_same_time_agree_on_the_last_write() {
    let cluster = Cluster::of(&["a", "b", "c"]);
    let mut run = Fed::start(&cluster, "put !@ <k>", &["--nodes", "a,b,c"]);
    run.write(r#"{"n": 1000, "<k>": 0}"#);
    run.read();
    for round in 0..10 {
        let numbers = round * 30..(round + 1) * 30;
        for n in numbers.clone() {
            run.write(&format!("{{\"n\": {n}, \"<k>\": {}}}", n % 3));
            if n % 10 == 0 {
                run.done(&["set", &run.session(), "map.mark", &format!("-{n}")]);
            }
        }
        numbers.for_each(|_| drop(run.read()));
        let spaces = run.spaces();
        // All writes, by the events of all processes; of writes with the same time the greater process wins.
        let number = |node: &str| ["here", "a", "b", "c"].iter().position(|known| *known == node);
        let all = spaces.values().flat_map(|space| written(space, "map.written", "mark"));
        let last = all.max_by_key(|one| (one.stamp, number(&one.node))).expect("writes");
        for (name, space) in &spaces {
            eventually(&format!("round {round}: {last:?} in {name}"), || value(space, "mark") == last.new);
        }
    }
    for (name, space) in run.spaces() {
        let received = written(&space, "map.received", "mark");
        assert!(!received.is_empty() && received.is_sorted_by(|one, next| one.stamp < next.stamp), "{name}");
    }
    assert_eq!(run.end(), Some(0));
}

#[test]
fn what_a_killed_node_wrote_survives_on_the_others() {
    let mut cluster = Cluster::of(&["a", "b"]);
    let part = {
        let net = "(count .. put) !@ <k>";
        let mut run = Fed::start(&cluster, net, &["--nodes", "a,b", "--on-lost", "go-on"]);
        run.write(r#"{"n": 1, "<k>": 1}"#);
        run.read();
        run.write(r#"{"n": 77, "<k>": 0}"#);
        run.read();
        let spaces = run.spaces();
        eventually("the value on b", || value(&spaces["shared@b"], "mark") == "77");
        let pid = SpaceReader::open(&spaces["shared@a"]).expect("a space").info().expect("read").pid;
        (run.run, run.input, run.output, spaces, pid)
    };
    let (mut process, input, mut output, spaces, pid) = part;
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill starts");
    assert!(killed.success());
    cluster.kill("a");
    let whole = cluster.path("spaces").join(format!("shared-nodes-{}", process.id())).display().to_string();
    let mut input = input.expect("it is open");
    // A record for the node that is lost fails; one for the other node counts on.
    writeln!(input, r#"{{"n": 5, "<k>": 0}}"#).expect("it reads");
    writeln!(input, r#"{{"n": 6, "<k>": 1}}"#).expect("it reads");
    input.flush().expect("it reads");
    let mut line = String::new();
    output.read_line(&mut line).expect("text");
    assert!(line.contains("\"n\": 6"), "{line}");
    for name in ["shared", "shared@b"] {
        eventually(name, || value(&spaces[name], "total") == "3" && value(&spaces[name], "mark") == "6");
    }
    let set = cluster.command().args(["set", &whole, "map.mark", "99"]).output().expect("thalweg starts");
    assert_eq!(out(&set), "map.mark = 99 (was 6)\n", "{}", stderr(&set));
    eventually("the value of the user on b", || value(&spaces["shared@b"], "mark") == "99");
    let receptions = written(&spaces["shared"], "map.received", "mark");
    assert!(receptions.iter().any(|one| one.node == "a" && one.new == "77"), "{receptions:?}");
    drop(input);
    std::io::copy(&mut output, &mut std::io::sink()).expect("text");
    assert_eq!(process.wait().expect("it ends").code(), Some(1), "a run that lost a node has failed");
}

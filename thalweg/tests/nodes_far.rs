//! A run over nodes of other machines, whose files this one does not see, in one report: while it runs, after
//! it, and after a node was killed.

mod cluster;
mod far;
#[allow(dead_code, reason = "only connections are broken here")]
mod faulty;
mod program;

use std::time::{Duration, Instant};

use cluster::{Cluster, stderr};
use far::{Fed, spaces_of};
use faulty::{family, reset};
use serde_json::Value;
use thalweg_space::reader::{Item, SpaceReader};

const NET: &str = "net far connect ([{<n>} -> {<n = n + 1>}] @ 0) .. ([{<n>} -> {<n = n * 2>}] @ 1);";

fn told(cluster: &Cluster, arguments: &[&str]) -> Value {
    let output = cluster.command().args(arguments).output().expect("thalweg starts");
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The space of each process: its name, and how many messages were written to its streams.
fn written(report: &Value) -> Vec<(String, Vec<u64>)> {
    let of_space = |part: &Value| {
        let streams = part["streams"].as_array().expect("a list");
        let written = streams.iter().map(|stream| stream["written"].as_u64().expect("a number")).collect();
        (part["space"]["name"].as_str().expect("a name").to_owned(), written)
    };
    let mut all: Vec<_> = report["spaces"].as_array().expect("a list").iter().map(of_space).collect();
    all.sort();
    all
}

fn notes(report: &Value, code: &str) -> Vec<String> {
    let notes = report["notes"].as_array().expect("a list").iter().filter(|note| note["code"] == code);
    notes.map(|note| note["text"].as_str().expect("text").to_owned()).collect()
}

/// All streams that carry records carried as many as were fed.
fn expected(count: u64) -> Vec<(String, Vec<u64>)> {
    [("far", 4), ("far@a", 2), ("far@b", 2)]
        .map(|(name, streams)| (name.to_owned(), vec![count; streams]))
        .to_vec()
}

#[test]
fn a_session_of_machines_is_one_report_while_it_runs() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let mut run = Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full"]);
    let session = run.session("far");
    run.feed(100);
    assert_eq!(spaces_of(&cluster, "a").len(), 1, "nothing is copied while nobody looks");
    for round in 1..=3 {
        let report = told(&cluster, &["report", &session, "--json"]);
        assert_eq!(written(&report), expected(100 * round), "round {round}");
        assert_eq!(
            report["throughput"]["messages_in"],
            100 * round,
            "the network's input, and not its parts'"
        );
        assert_eq!(report["window"]["lost"], 0);
        assert_eq!(report["window"]["state"], "running");
        assert_eq!(notes(&report, "clock").len(), 2, "{:#}", report["notes"]);
        assert_eq!(notes(&report, "node"), [""; 0]);
        if round < 3 {
            run.feed(100);
        }
    }
    // Scopes read the copies, too: a row for each process.
    let scoped =
        cluster.command().args(["scope", "overview", &session, "--json"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&scoped.stdout).into_owned();
    for name in ["\"far\"", "\"far@a\"", "\"far@b\""] {
        assert!(text.contains(name), "{text} {}", stderr(&scoped));
    }
    clocks_agree(&cluster, &session);
    let set = cluster.command().args(["set", &session, "link.encoding", "lz4"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&set.stdout).into_owned() + &stderr(&set);
    for name in ["far: ", "far@a: ", "far@b: "] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("link.encoding = lz4 (was plain), adopted after"), "{text}");
    }
    let (is_well, said) = run.end();
    assert!(is_well, "{said}");
    let left = std::fs::read_dir(cluster.path("spaces")).expect("it is there").count();
    assert_eq!((left, spaces_of(&cluster, "a").len(), spaces_of(&cluster, "b").len()), (0, 0, 0));
}

/// In truth all processes read one counter, so the times that a copy gives its events are checked by the clock
/// of the process that began the run.
fn clocks_agree(cluster: &Cluster, session: &str) {
    let session = cluster.path("spaces").join(session);
    let own =
        std::fs::read_dir(&session).expect("the session").map(|entry| entry.expect("it is read").path());
    let own = own.filter(|path| path.is_dir() && !path.ends_with("node-a") && !path.ends_with("node-b"));
    let own = SpaceReader::open(own.last().expect("the run's space")).expect("it opens");
    for node in ["node-a", "node-b"] {
        let copy = SpaceReader::open(session.join(node)).expect("it opens");
        let info = copy.info().expect("it reads");
        let error_ns = info.clock_error_ns.expect("a copy");
        assert!(info.is_alive() && !info.is_alive_here(), "{info:?}");
        assert!(error_ns < 5_000_000, "an error of {error_ns} ns is no use");
        let mut events = 0;
        let polled = copy.events().poll(usize::MAX, &mut |item| {
            let Item::Event(event) = item else { return };
            let truth = own.info().expect("it reads").clock.real_ns(event.time);
            let shown = info.clock.real_ns(event.time);
            // The clock of the run is refined between two readings.
            assert!(truth.abs_diff(shown) <= error_ns + 5_000, "{truth} {shown} ± {error_ns}");
            events += 1;
        });
        polled.expect("it reads");
        assert!(events > 100, "{events} events of {node}");
    }
}

#[test]
fn every_command_that_looks_takes_a_session_of_machines() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let mut run = Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full"]);
    let session = run.session("far");
    run.feed(500);
    let printed = |arguments: &[&str]| {
        let output = cluster.command().args(arguments).output().expect("thalweg starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text} {}", stderr(&output));
        text
    };
    // Nothing was copied yet, and the nodes count nevertheless.
    assert!(printed(&["ls"]).contains("3 joined, 0 left, 3 running"), "{}", printed(&["ls"]));
    // Each shows something that only a process on another machine has recorded.
    let diagnosed = told(&cluster, &["diagnose", &session, "--json", "--top", "100"]);
    let tasks =
        diagnosed["tasks"].as_array().expect("a list").iter().filter_map(|task| task["name"].as_str());
    let filters = tasks.filter(|name| name.contains("filter")).count();
    assert_eq!(filters, 2, "{:#}", diagnosed["tasks"]);
    for (command, most) in [("streams", "--top"), ("workers", "--top"), ("waits", "--top")] {
        let text = printed(&[command, &session, most, "100"]);
        assert!(text.contains("far@a") && text.contains("far@b"), "{command}: {text}");
    }
    let events = printed(&["events", &session]);
    assert!(
        events.contains(" node-a ") && events.contains(" node-b "),
        "{}",
        &events[..events.len().min(999)]
    );
    let waiting = printed(&["heartbeat", &session, "--once", "--waiting"]);
    assert!(waiting.contains(" far@a ") && waiting.contains(" far@b "), "{waiting}");
    let list = printed(&["ls"]);
    assert!(list.contains(" node-a ") && list.contains(" node-b "), "{list}");
    assert!(list.contains("3 joined, 0 left, 3 running"), "{list}");
    assert!(printed(&["calls", &session]).contains("No call was recorded here"));
    let (is_well, said) = run.end();
    assert!(is_well, "{said}");
}

#[test]
fn a_session_of_machines_is_kept_whole() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let kept = cluster.path("spaces/kept").display().to_string();
    let mut run =
        Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full", "--keep", "--space", &kept]);
    run.feed(20_000);
    let (is_well, said) = run.end();
    assert!(is_well, "{said}");
    let report = told(&cluster, &["report", &kept, "--json"]);
    assert_eq!(written(&report), expected(20_000));
    assert_eq!((&report["window"]["lost"], &report["window"]["state"]), (&0.into(), &"ended".into()));
    assert_eq!(report["window"]["complete"], true, "all events from the beginning on");
    assert_eq!(notes(&report, "node"), [""; 0]);
    assert_eq!((spaces_of(&cluster, "a").len(), spaces_of(&cluster, "b").len()), (0, 0), "they were fetched");
}

/// Every component sends one record for each, so the k-th input message leads to the k-th message of each
/// stream, and to no other.
#[test]
fn a_story_goes_on_across_links() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let kept = cluster.path("spaces/kept").display().to_string();
    let mut run =
        Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full", "--keep", "--space", &kept]);
    run.feed(50);
    let (is_well, said) = run.end();
    assert!(is_well, "{said}");
    let input = told(&cluster, &["message", &kept, "1/1:17", "--json"]);
    let hops = input["hops"].as_array().expect("a list");
    let text = |hop: &Value, key: &str| hop[key].as_str().map(str::to_owned);
    let all: Vec<String> = hops.iter().map(|hop| text(hop, "message").expect("an id")).collect();
    let spaces: Vec<&str> = all.iter().map(|id| id.split('/').next().expect("a space")).collect();
    let first_part = spaces[1];
    let other = if first_part == "2" { "3" } else { "2" };
    assert_eq!(spaces, ["1", first_part, first_part, "1", other, other, "1", "1"], "{all:?}");
    assert!(all.iter().all(|id| id.ends_with(":17")), "{all:?}");
    for (depth, pair) in hops.windows(2).enumerate() {
        let ns = |hop: &Value, key: &str| hop[key].as_f64().expect("a time");
        assert_eq!(pair[1]["depth"], depth + 1);
        assert_eq!(text(&pair[1], "parent"), text(&pair[0], "message"));
        let is_link = spaces[depth] != spaces[depth + 1];
        assert_eq!(pair[0]["fate"] == "went to another process", is_link, "{}", pair[0]);
        let sent_ns = ns(&pair[0], "read_ns").max(ns(&pair[0], "written_ns"));
        if is_link {
            assert!(sent_ns <= ns(&pair[1], "written_ns"), "{pair:?}");
        }
    }
    assert_eq!(hops[7]["fate"], "left");
    // The story is the same from wherever it is asked for.
    for id in &all {
        let told = told(&cluster, &["message", &kept, id, "--json"]);
        assert_eq!((&told["input"], &told["hops"]), (&"1/1:17".into(), &input["hops"]), "{id}");
    }
    assert!(input["clock_error_ns"].as_f64().is_some_and(|error| error < 5e6), "{}", input["clock_error_ns"]);
}

/// The report has the times from input to output, which are those of the inputs' stories.
#[test]
fn latencies_go_on_across_links() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let kept = cluster.path("spaces/kept").display().to_string();
    let mut run =
        Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full", "--keep", "--space", &kept]);
    run.feed(20);
    let (is_well, said) = run.end();
    assert!(is_well, "{said}");
    let report = told(&cluster, &["report", &kept, "--json"]);
    let over_links = &report["latency"]["over_links"];
    assert_eq!((&over_links["end_to_end"]["count"], &over_links["left_out"]), (&20.into(), &0.into()));
    let end_to_end = |index: usize| {
        let story = told(&cluster, &["message", &kept, &format!("1/1:{index}"), "--json"]);
        let hops = story["hops"].as_array().expect("a list").clone();
        assert_eq!(hops.len(), 8, "it comes out: {hops:#?}");
        let left = hops.iter().filter_map(|hop| hop["read_ns"].as_f64()).fold(0.0, f64::max);
        left - hops[0]["written_ns"].as_f64().expect("a time")
    };
    let mean = (0..20).map(end_to_end).sum::<f64>() / 20.0;
    let shown = over_links["end_to_end"]["mean_ns"].as_f64().expect("a time");
    assert!((mean - shown).abs() < 1.0, "{mean} {shown}");
    assert!(over_links["clock_error_ns"].as_f64().is_some_and(|error| error < 5e6), "{over_links}");
    let text = cluster.command().args(["report", &kept]).output().expect("thalweg starts");
    assert!(String::from_utf8_lossy(&text.stdout).contains("across links"), "{}", stderr(&text));
}

#[test]
fn links_are_reported_with_what_holds_them_back() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let kept = cluster.path("spaces/kept").display().to_string();
    let run = [&net, "--nodes", "a,b", "--monitor", "full", "--keep", "--space", &kept];
    // What the ends of a link hold is less than what passes, so the source is held back as well.
    let set = [
        ["--set", "link.send_bandwidth=100kB/s"],
        ["--set", "link.transport=routed"],
        ["--set", "link.window_bytes=4096"],
        ["--set", "link.buffer_bytes=4096"],
    ]
    .concat();
    let done = cluster.run(&[&run[..], &set[..]].concat(), &cluster::numbers(2_000));
    assert!(done.status.success(), "{}", stderr(&done));
    let report = told(&cluster, &["report", &kept, "--json"]);
    assert_eq!(report["verdict"]["rule"], "link", "{:#}", report["verdict"]);
    let text = report["verdict"]["text"].as_str().expect("words");
    assert!(text.contains("bandwidth that is allowed to links"), "{text}");
    // Each process has a link out, or two, and the one with the inputs is never routed.
    let links = report["links"].as_array().expect("a list");
    let out: Vec<_> = links.iter().filter(|link| link["direction"] == "out").collect();
    let of = |process: &str| {
        let of_it = out.iter().filter(|link| link["process"] == process);
        let sum: u64 = of_it.clone().map(|link| link["links"].as_u64().expect("a number")).sum();
        assert!(of_it.clone().all(|link| link["carrier"] == "tcp"), "{out:#?}");
        (sum, of_it.map(|link| link["messages"].as_u64().expect("a number")).sum::<u64>())
    };
    // The opening of a part is a message, too.
    assert_eq!([of("far"), of("far@a"), of("far@b")], [(2, 4_002), (1, 2_000), (1, 2_000)]);
    let told = notes(&report, "links");
    assert!(told.iter().all(|note| note.contains("are never routed")) && told.len() == 3, "{told:?}");
    let shown = cluster.command().args(["report", &kept]).output().expect("thalweg starts");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("LINKS OF"), "{}", stderr(&shown));
}

/// Questions of the run are numbered and answers kept, so no piece of a copy is lost or taken twice.
#[test]
fn a_copy_is_whole_although_connections_break() {
    let Some(cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let kept = cluster.path("spaces/kept").display().to_string();
    let mut run =
        Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full", "--keep", "--space", &kept]);
    let mut broken = 0;
    for _ in 0..40 {
        run.feed(250);
        for (_, node) in &cluster.nodes {
            broken += reset(&family(node.id()), || true);
        }
    }
    let (is_well, said) = run.end();
    assert!(is_well, "{said}");
    let report = told(&cluster, &["report", &kept, "--json"]);
    assert_eq!(written(&report), expected(10_000), "{broken} connections were reset");
    assert_eq!((&report["window"]["lost"], notes(&report, "node")), (&0.into(), vec![]));
    assert!(broken > 100, "{broken} connections were reset");
}

#[test]
fn what_a_killed_node_did_not_send_is_said() {
    let Some(mut cluster) = far::cluster(&["a", "b"]) else { return };
    let net = cluster.net("far.snet", NET);
    let kept = cluster.path("spaces/kept").display().to_string();
    let mut run =
        Fed::start(&cluster, &[&net, "--nodes", "a,b", "--monitor", "full", "--keep", "--space", &kept]);
    run.feed(100);
    // Until the report has all of node b.
    let begun = Instant::now();
    while written(&told(&cluster, &["report", &kept, "--json"])) != expected(100) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the copy never was complete");
    }
    cluster.kill("b");
    let (is_well, said) = run.end();
    assert!(!is_well && said.contains("node b is lost"), "{said}");
    let report = told(&cluster, &["report", &kept, "--json"]);
    assert_eq!(written(&report), expected(100));
    let told = notes(&report, "node");
    assert!(told.len() == 1 && told[0].contains("Node b: only a part"), "{told:?}");
    assert!(told[0].contains("node b is lost: it closed the connection"), "{told:?}");
}

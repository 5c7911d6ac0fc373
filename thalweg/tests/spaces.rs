//! `thalweg ls`, `events`, `set` and `clean` on spaces and sessions that other programs made.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_space::{Kind, Space, SpaceOptions, Writer};

/// A directory of spaces of its own for a test, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("thalweg-spaces-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn space(&self, name: &str, session: Option<&str>) -> Space {
        let (parent, session) = (Some(self.0.clone()), session.map(PathBuf::from));
        Space::create(SpaceOptions { name: name.into(), parent, session, ..SpaceOptions::default() }).unwrap()
    }

    fn thalweg(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments).env("THALWEG_SPACES", &self.0).env_remove("THALWEG_SESSION").output().unwrap()
    }

    /// The output of a command, which must succeed.
    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.thalweg(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn ls_shows_sessions_with_their_processes() {
    let place = Place::new("ls");
    let alone = place.space("alone", None);
    let members = [place.space("first", Some("together")), place.space("second", Some("together"))];
    members[1].finish();
    let shown = place.printed(&["ls"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with(name(alone.path())), "{shown}");
    assert!(lines[2].starts_with("together") && lines[2].contains("2 joined, 1 left, 2 running"), "{shown}");
    for (line, member) in lines[3..].iter().zip(&members) {
        assert!(line.starts_with(&format!("  {}", name(member.path()))), "{shown}");
    }
    assert_eq!(lines.len(), 5, "{shown}");
    let objects: Vec<serde_json::Value> =
        place.printed(&["ls", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let session = objects.iter().find(|object| object["state"] == "session").unwrap();
    assert_eq!(session["processes"].as_array().unwrap().len(), 2);
    assert_eq!(session["processes"][0]["space"], name(members[0].path()));
    assert_eq!(objects.iter().filter(|object| object["session"] == session["path"]).count(), 2);
    // A space in a session is found by its name like any other space; a session has no settings of its own.
    assert!(place.thalweg(&["get", name(members[0].path())]).status.code() == Some(2), "it has no settings");
    let output = place.thalweg(&["get", session["path"].as_str().unwrap(), "*"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a session"), "{output:?}");
    assert!(place.printed(&["report", "together"]).starts_with("together (a session of 2 processes"));
}

#[test]
fn commands_take_the_newest_run() {
    let place = Place::new("newest");
    let net = place.0.join("pass.snet");
    std::fs::write(&net, "net pass connect [];").unwrap();
    for name in ["older", "newer"] {
        let (space, input) = (place.0.join(name), place.0.join("in.jsonl"));
        std::fs::write(&input, format!("{{\"{name}\": 1}}\n")).unwrap();
        let [net, input, space] = [&net, &input, &space].map(|path| path.to_str().unwrap());
        place.printed(&["run", net, "--input", input, "--keep", "--monitor", "full", "--space", space]);
    }
    for command in ["report", "diagnose", "waits", "streams", "workers"] {
        let report: serde_json::Value = serde_json::from_str(&place.printed(&[command, "--json"])).unwrap();
        assert!(report["space"]["path"].as_str().unwrap().ends_with("/newer"), "{command}: {report}");
    }
    for arguments in [&["get"][..], &["events"], &["message", "1:0"], &["message", "--slowest", "1"]] {
        let (command, rest) = arguments.split_first().unwrap();
        let of_newer = place.printed(&[&[*command, place.0.join("newer").to_str().unwrap()], rest].concat());
        assert_eq!(place.printed(arguments), of_newer, "{arguments:?}");
    }
    assert!(place.printed(&["message", "--failed"]).starts_with("No message failed"));
    let refused = |arguments: &[&str], expected: &str| {
        let output = place.thalweg(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{arguments:?}: {stderr}");
    };
    refused(&["message", "newer"], "newer is a space: give a message too");
    refused(&["message"], "required arguments");
    refused(&["message", "newer", "1:0", "--failed"], "--slowest and --failed choose");
}

/// The event that records a step of the test.
#[derive(Kind)]
#[kind(name = "test.step")]
struct Step {
    count: u64,
}

fn step(writer: &mut Writer, count: u64) {
    let kind = writer.declare().unwrap();
    writer.emit(kind, &Step { count });
}

/// What `thalweg events --json` prints for a session: for each line, the process, and the step, or none for a
/// gap.
fn steps(place: &Place, arguments: &[&str]) -> Vec<(String, Option<u64>)> {
    let all = [&["events", "--json"], arguments].concat();
    let lines = place.printed(&all);
    let object = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let entry = |object: serde_json::Value| {
        (object["space"].as_str().unwrap().to_owned(), object["fields"]["count"].as_u64())
    };
    lines.lines().map(|line| entry(object(line))).collect()
}

#[test]
fn events_of_a_session_are_merged_in_the_order_of_time() {
    let place = Place::new("merge");
    let spaces = ["first", "second", "third"].map(|name| place.space(name, Some("together")));
    let mut writers: Vec<_> = spaces.iter().map(|space| space.writer("main").unwrap()).collect();
    for count in 0..12_000 {
        step(&mut writers[count as usize % 3], count);
    }
    let names = spaces.each_ref().map(|space| name(space.path()).to_owned());
    let expected: Vec<_> =
        (0..12_000).map(|count| (names[count as usize % 3].clone(), Some(count))).collect();
    assert_eq!(steps(&place, &["together"]), expected);
    let path = place.0.join("together");
    assert_eq!(steps(&place, &[path.to_str().unwrap(), "--limit", "5000"]), expected[..5000]);

    let shown = place.printed(&["events", "together", "--limit", "4"]);
    for (line, name) in shown.lines().zip(names.iter().cycle()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1..4], [name, "w1", "test.step"], "{shown}");
        assert!(words[0].parse::<f64>().is_ok_and(|seconds| (0.0..60.0).contains(&seconds)), "{shown}");
    }
    assert_eq!(shown.lines().count(), 4);
}

#[test]
fn events_of_a_session_without_one_of_its_spaces_are_printed_and_the_error_too() {
    let place = Place::new("gone");
    let [left, gone] = ["left", "gone"].map(|name| place.space(name, Some("together")));
    for space in [&left, &gone] {
        step(&mut space.writer("main").unwrap(), 7);
    }
    std::fs::remove_dir_all(gone.path()).unwrap();
    let output = place.thalweg(&["events", "together"]);
    assert_eq!(output.status.code(), Some(2));
    let (stdout, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.lines().count() == 1 && stdout.contains(name(left.path())), "{stdout}");
    assert!(errors.lines().count() == 1 && errors.contains(gone.path().to_str().unwrap()), "{errors}");

    std::fs::write(place.0.join("together/session"), b"nonsense").unwrap();
    let output = place.thalweg(&["events", "together"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("together/session"), "{output:?}");
}

#[test]
fn events_follow_a_session_until_its_last_process_has_ended() {
    let place = Place::new("follow");
    let step_process = |count: u64| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stepping_process", "--ignored"])
            .env("THALWEG_SESSION", place.0.join("together"))
            .env("THALWEG_TEST_STEP", count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut first = step_process(0);
    let session = place.0.join("together");
    while !session.join("session").exists() {
        std::thread::yield_now();
    }
    let mut following = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["events", "--follow", "--json", session.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut count = || -> u64 {
        let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        line["fields"]["count"].as_u64().unwrap()
    };
    assert_eq!(count(), 0);
    let mut second = step_process(1);
    assert_eq!(count(), 1, "a process that joined meanwhile");
    for child in [&mut first, &mut second] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    assert!(lines.next().is_none());
    assert!(following.wait().unwrap().success());
}

#[test]
#[ignore = "run by another test"]
fn stepping_process() {
    let Ok(count) = std::env::var("THALWEG_TEST_STEP") else { return };
    let space = Space::create(SpaceOptions::default()).unwrap();
    step(&mut space.writer("main").unwrap(), count.parse().unwrap());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    space.finish();
}

#[test]
fn clean_removes_a_session_of_the_dead() {
    let place = Place::new("clean");
    let net = place.0.join("pass.snet");
    std::fs::write(&net, "net pass connect [];").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["run", net.to_str().unwrap()])
        .env("THALWEG_SPACES", &place.0)
        .env("THALWEG_SESSION", "together")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let session = place.0.join("together");
    assert!(session.join("session").exists(), "the environment says which session");
    place.printed(&["clean"]);
    assert!(!session.exists());
}

#[test]
fn set_switches_probes_by_pattern() {
    let place = Place::new("probe");
    let space = place.space("probed", None);
    let [link, disk] = ["net.link.sent", "disk.read"].map(|name| space.probe(name, true).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                space.adopt().unwrap();
                std::thread::yield_now();
            }
        });
        let pid = std::process::id().to_string();
        let shown = place.printed(&["set", &pid, "probe/net.*.on", "0"]);
        assert!(shown.contains("probe/net.*.on = 0, adopted after"), "{shown}");
        assert!(!link.is_on() && disk.is_on());
        let shown = place.printed(&["events", &pid]);
        assert!(shown.contains("space.probes_switched") && shown.contains("net.*"), "{shown}");
        place.printed(&["set", "probed", "probe/*.on", "1"]);
        assert!(link.is_on() && disk.is_on());
        let refused = place.thalweg(&["set", &pid, "probe/net.*.on", "2"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("out of range"), "{refused:?}");
        over.store(true, Ordering::Release);
    });
}

/// The token of a server that may come back at its port is kept until `clean`, and longer while a server listens there.
#[test]
fn clean_removes_tokens_of_servers_that_have_ended() {
    let place = Place::new("tokens");
    let listens = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let [live, free] = [&listens, &std::net::TcpListener::bind("127.0.0.1:0").expect("a port")]
        .map(|listener| listener.local_addr().expect("bound").port());
    let token = |port: u16| place.0.join(format!("view-{port}.token"));
    [live, free].iter().for_each(|&port| std::fs::write(token(port), "0").expect("a folder"));
    let dry = place.printed(&["clean", "--dry-run"]);
    assert!(dry.contains(&format!("would remove {}", token(free).display())), "{dry}");
    place.printed(&["clean"]);
    assert!(token(live).exists() && !token(free).exists());
}

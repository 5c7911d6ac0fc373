//! Programs with probes in C, C++ and Rust: `thalweg calls` agrees with the calls that the programs write
//! themselves.

mod rounds;
mod slow_reader;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rounds::{rounds, side_by_side};
use serde_json::Value;
use slow_reader::{processor_time, read_slowly};
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program in each language: its name and its path, in cargo's folder for files of tests.
fn programs() -> &'static [(&'static str, PathBuf)] {
    static PROGRAMS: OnceLock<Vec<(&'static str, PathBuf)>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probed");
        std::fs::create_dir_all(&folder).unwrap();
        let source = root().join("thalweg/tests/data/probed/probed.c");
        let mut programs = Vec::new();
        // The variable selects one language, so that the long tests can be divided, and the parts run at the
        // same time.
        let only = std::env::var("THALWEG_TEST_PROGRAMS").ok();
        for (name, compiler, options) in [
            ("C", "gcc", &["-x", "c", "-std=gnu11"]),
            ("C++", "g++", &["-x", "c++", "-std=c++17"]),
            ("C by clang", "clang", &["-x", "c", "-std=gnu11"]),
            ("C++ by clang", "clang++", &["-x", "c++", "-std=c++17"]),
        ] {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let program = folder.join(compiler);
            let mut compile = Command::new(compiler);
            compile.args(options).args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]);
            compile.arg("-I").arg(root().join("bindings/c")).arg(&source).arg("-o").arg(&program);
            match compile.output() {
                Ok(output) => {
                    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
                    programs.push((name, program));
                }
                Err(_) if compiler.starts_with("clang") => {
                    let line = format!("\nskipped: {name}: there is no {compiler}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
                Err(error) => panic!("{compiler}: {error}"),
            }
        }
        if only.as_ref().is_none_or(|only| only == "Rust") {
            programs.push(("Rust", built_example()));
        }
        programs
    })
}

/// The program in Rust. The example is not built when only this file is tested.
fn built_example() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", "thalweg", "--example", "probed"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let built = build.current_dir(root()).status().unwrap();
    assert!(built.success());
    Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().unwrap().join("examples/probed")
}

fn in_c() -> impl Iterator<Item = &'static (&'static str, PathBuf)> {
    programs().iter().filter(|(name, _)| *name != "Rust")
}

/// A folder for the space, or spaces, of a program.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn truth(&self) -> String {
        self.folder.path().join("truth").display().to_string()
    }

    fn session(&self) -> PathBuf {
        self.folder.path().join("session")
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("THALWEG_SPACES", self.folder.path())
            .env("THALWEG_SESSION", self.session());
        command.env("THALWEG_PROBE_BYTES", "16M");
        command
    }

    fn run(&self, program: &Path, arguments: &[&str]) {
        let output = self.command(program, arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn thalweg(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(arguments)
            .env("THALWEG_SPACES", self.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn calls(&self) -> Value {
        let session = self.session().display().to_string();
        serde_json::from_str(&self.thalweg(&["calls", &session, "--json"])).unwrap()
    }

    fn spaces(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.session()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }

    /// The counts of calls and failures of each path, as the program wrote them.
    fn written(&self) -> Paths {
        let mut paths = Paths::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("truth.") {
                for line in std::fs::read_to_string(path).unwrap().lines() {
                    let (operations, how) = line.split_once(' ').unwrap();
                    let figures = paths.entry(operations.to_owned()).or_default();
                    // A further stretch of a call that had paused has a capital letter.
                    figures.0 += u64::from(how != how.to_ascii_uppercase());
                    figures.1 += u64::from(!how.eq_ignore_ascii_case("r"));
                }
            }
        }
        paths
    }
}

/// For each path, the number of calls, and the number of calls that failed or that an exception left.
type Paths = BTreeMap<String, (u64, u64)>;

/// The counts of each path, as `thalweg calls` reports them.
fn reported_counts(calls: &Value) -> Paths {
    let names: BTreeMap<u64, &str> = calls["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| (operation["id"].as_u64().unwrap(), operation["name"].as_str().unwrap()))
        .collect();
    let nodes = calls["tree"].as_array().unwrap();
    let mut paths: Vec<String> = Vec::new();
    let mut counts = Paths::new();
    for node in nodes {
        let name = names[&node["operation"].as_u64().unwrap()];
        let path = match node["parent"].as_u64() {
            Some(parent) => format!("{}/{name}", paths[parent as usize]),
            None => name.to_owned(),
        };
        // Calls of a path and work that was handed over on that path are separate nodes, whose figures are
        // added here.
        let figures = counts.entry(path.clone()).or_default();
        figures.0 += node["count"].as_u64().unwrap();
        figures.1 += node["failed"].as_u64().unwrap();
        paths.push(path);
    }
    counts
}

/// The number of calls for each pair of caller and operation, computed from the paths.
fn edges_of(paths: &Paths) -> BTreeMap<(String, String), u64> {
    let mut edges = BTreeMap::new();
    for (path, (count, _)) in paths {
        let mut operations = path.rsplit('/');
        let callee = operations.next().unwrap().to_owned();
        let caller = operations.next().unwrap_or("").to_owned();
        *edges.entry((caller, callee)).or_default() += count;
    }
    edges
}

fn reported_edges(calls: &Value) -> BTreeMap<(String, String), u64> {
    let operations = calls["operations"].as_array().unwrap();
    let name = |id: &Value| {
        let of = operations.iter().find(|operation| operation["id"] == *id);
        of.map_or_else(String::new, |operation| operation["name"].as_str().unwrap().to_owned())
    };
    let mut edges = BTreeMap::new();
    for edge in calls["edges"].as_array().unwrap() {
        let pair = (name(&edge["caller"]), name(&edge["callee"]));
        *edges.entry(pair).or_default() += edge["count"].as_u64().unwrap();
    }
    edges
}

/// Checks the calls of a program against those that it wrote. Returns their number.
fn assert_as_written(place: &Place, context: &str) -> u64 {
    let calls = place.calls();
    assert_eq!(calls["lost"], 0, "{context}");
    let notes = calls["notes"].as_array().unwrap();
    let of_pauses =
        notes.iter().filter(|note| note.as_str().unwrap().contains("calls that had paused")).count();
    assert_eq!(notes.len(), of_pauses, "{context}: {notes:?}");
    let written = place.written();
    assert!(written.len() > 1, "{context}");
    assert_eq!(reported_counts(&calls), written, "{context}");
    assert_eq!(reported_edges(&calls), edges_of(&written), "{context}");
    let count: u64 = written.values().map(|(count, _)| count).sum();
    assert_eq!(calls["calls"].as_u64(), Some(count), "{context}");
    count
}

/// Random trees in each language, with recursion, errors, exceptions, longjmp, futures, threads that begin
/// and end, and work that is handed over to other threads and to later calls, in hundreds of programs.
#[test]
fn call_trees_are_those_that_the_programs_made() {
    for (name, program) in programs() {
        side_by_side(rounds(10, 1000), &format!("random call trees in {name}"), |round| {
            let (place, seed) = (Place::new(), round + 1);
            let context = format!("{name}, seed {seed}");
            let (seed, threads) = (seed.to_string(), (seed % 4 + 1).to_string());
            let mut command = place.command(program, &["trees", &seed, "15", &threads, &place.truth()]);
            // Each of the program's many threads has an element, whose bytes are written when it is made.
            let output = command.env("THALWEG_PROBE_BYTES", "2M").output().unwrap();
            assert!(output.status.success(), "{context}: {}", output.status);
            assert_as_written(&place, &context)
        });
    }
}

/// A child of `fork` has a space of its own, with the calls that were open at the fork; the parent's space is
/// not affected.
#[test]
fn the_child_of_a_fork_records_its_own_calls() {
    for (name, program) in in_c() {
        for seed in 1..=5 {
            let place = Place::new();
            place.run(program, &["fork", &seed.to_string(), "0", "1", &place.truth()]);
            assert_eq!(place.spaces().len(), 2, "{name}");
            assert_as_written(&place, &format!("{name}, seed {seed}"));
        }
    }
}

/// Signals interrupt threads anywhere in the code of probes, and handlers interrupt handlers: every event is
/// recorded or counted, and no call appears where it was not made.
#[test]
fn signals_from_another_thread_leave_no_wrong_callers() {
    for (name, program) in in_c() {
        for seed in 1..=rounds(2, 20) {
            let place = Place::new();
            place.run(program, &["storm", &seed.to_string(), "4000", "3", &place.truth()]);
            let text = std::fs::read_to_string(format!("{}.0", place.truth())).unwrap();
            let made: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
            let calls = place.calls();
            let operations = calls["operations"].as_array().unwrap().iter();
            let counts: BTreeMap<&str, u64> = operations
                .map(|one| (one["name"].as_str().unwrap(), one["count"].as_u64().unwrap()))
                .collect();
            let (mut all, mut missing) = (0, 0);
            for (operation, made) in ["outer", "one", "handler", "inner"].iter().zip(&made) {
                let recorded = counts.get(operation).copied().unwrap_or(0);
                assert!(recorded <= *made, "{name}: {operation} {recorded} of {made}");
                missing += made - recorded;
                all += made;
            }
            // Each call of `outer` also records an event of the counter.
            let counted = calls["counters"][0]["count"].as_u64().unwrap();
            assert!(counted <= made[0], "{name}");
            let lost = calls["lost"].as_u64().unwrap();
            let unplaced = calls["not_recorded"].as_u64().unwrap();
            assert_eq!(missing + made[0] - counted, lost + unplaced, "{name}: of {all}");
            assert!(made[2] > 1000 && lost < all / 2, "{name}: {made:?} {lost}");
            // An event is lost if its handler interrupts the writing of another event; `inner` is then lost
            // together with its handler.
            assert_eq!(counts.get("inner"), counts.get("handler"), "{name}");
            // A handler that interrupts the last steps of a call may be recorded before the call: then
            // callers are unknown, and a note says so.
            let is_noted = !calls["notes"].as_array().unwrap().is_empty();
            for ((caller, callee), count) in reported_edges(&calls) {
                let may = match (callee.as_str(), caller.as_str()) {
                    ("one", "outer") | ("inner", "handler") | ("handler", _) | ("outer", "") => true,
                    ("one" | "inner", "") => is_noted && count < 20,
                    _ => false,
                };
                assert!(may, "{name}: {count} of {callee} by {caller}");
            }
        }
    }
}

/// Events that a handler cannot record, because it interrupted the writing of another event, are counted.
#[test]
fn events_of_signal_handlers_are_recorded_or_counted() {
    for (name, program) in in_c() {
        let place = Place::new();
        place.run(program, &["signals", "1", "20000", "1", &place.truth()]);
        let written = std::fs::read_to_string(format!("{}.0", place.truth())).unwrap();
        let calls = place.calls();
        let counted = calls["calls"].as_u64().unwrap() + calls["lost"].as_u64().unwrap();
        assert_eq!(counted, written.trim().parse::<u64>().unwrap(), "{name}: {}", calls["lost"]);
    }
}

/// A program that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The counters of the program's threads: calls begun, calls done.
fn counters(path: &str, threads: usize) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    (0..threads).map(|thread| (word(2 * thread), word(2 * thread + 1))).collect()
}

/// After `kill -9` at random moments, every call that was finished is recorded, and none that was not begun.
#[test]
fn what_was_recorded_survives_the_program() {
    for (name, program) in programs() {
        side_by_side(rounds(12, 300), &format!("kills of a program in {name}"), |round| {
            let place = Place::new();
            let truth = place.truth();
            std::fs::write(&truth, vec![0; 4096]).unwrap();
            let mut command = place.command(program, &["endless", "1", "0", "2", &truth]);
            let mut killed = Killed(command.env("THALWEG_PROBE_BYTES", "8M").spawn().unwrap());
            let mut slept = Duration::ZERO;
            while counters(&truth, 2).iter().any(|(_, done)| *done < 10 + 97 * (round % 40)) {
                let pause = Duration::from_micros(100 + 37 * round);
                std::thread::sleep(pause);
                // Only time in which this thread runs counts: the machine may stop all processes.
                slept += pause;
                assert!(slept < Duration::from_secs(60), "{name}: nothing is called");
            }
            killed.0.kill().unwrap();
            killed.0.wait().unwrap();
            let counters = counters(&truth, 2);
            let calls = place.calls();
            let (least, most) =
                counters.iter().fold((0, 0), |(least, most), (begun, done)| (least + done, most + begun));
            let counted = calls["calls"].as_u64().unwrap();
            // If the ring wrapped around, the overwritten calls are counted as lost.
            let counted = counted + calls["lost"].as_u64().unwrap();
            assert!((least..=most).contains(&counted), "{name}: {counted} of {least} to {most}");
            counted
        });
    }
}

/// The program waits for its reader. When the reader is killed, or stands still as if its disk were on a
/// machine that is cut off, the program goes on, and the calls that found no room are counted exactly; a
/// reader that goes on again keeps the same count.
#[test]
fn a_program_whose_reader_is_killed_or_stands_still_goes_on() {
    const CALLS: u64 = 400_000;
    for (name, program) in programs() {
        for (full, signal) in [("wait", "-KILL"), ("drop", "-KILL"), ("wait", "-STOP")] {
            let context = format!("{name}, {full}, {signal}");
            let place = Place::new();
            let mut command =
                place.command(program, &["count", "1", &CALLS.to_string(), "1", &place.truth()]);
            command.env("THALWEG_PROBE_FULL", full).env("THALWEG_PROBE_BYTES", "256k");
            let mut child = Killed(command.stdout(Stdio::piped()).spawn().unwrap());
            let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
            let begun = Instant::now();
            let is_there =
                || place.session().is_dir() && place.spaces().iter().any(|it| it.join("space").exists());
            while !is_there() {
                assert!(begun.elapsed() < Duration::from_secs(30), "{name}: no space is made");
                std::thread::sleep(Duration::from_millis(1));
            }
            let archive = place.folder.path().join("archive");
            let mut record = Command::new(env!("CARGO_BIN_EXE_thalweg"));
            record.arg("record").arg(&place.spaces()[0]).arg("--output").arg(&archive);
            let mut reader = Killed(record.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            lines.next().unwrap().unwrap();
            send(&reader.0, signal);
            let begun = Instant::now();
            assert!(child.0.wait().unwrap().success(), "{context}");
            assert!(begun.elapsed() < Duration::from_secs(20), "{context}: {:?}", begun.elapsed());
            assert_counted(&place.calls(), 2 * CALLS, &context);
            if signal == "-STOP" {
                send(&reader.0, "-CONT");
                assert!(reader.0.wait().unwrap().success(), "{context}");
                let kept = place.thalweg(&["calls", archive.to_str().unwrap(), "--json"]);
                assert_counted(&serde_json::from_str(&kept).unwrap(), 2 * CALLS, &context);
            }
        }
    }
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Some calls are lost, and the recorded and the lost ones are all calls.
fn assert_counted(calls: &Value, all: u64, context: &str) {
    let (recorded, lost) = (calls["calls"].as_u64().unwrap(), calls["lost"].as_u64().unwrap());
    assert_eq!(recorded + lost, all, "{context}: {lost} lost");
    assert!(lost > 0, "{context}");
}

/// Two threads that wait for a slow reader most of the time take little processor time.
#[test]
fn waiting_for_a_slow_reader_takes_little_processor_time() {
    const LONG: Duration = Duration::from_secs(2);
    for (name, program) in programs() {
        let place = Place::new();
        let mut command = place.command(program, &["count", "1", "1000000000", "2", &place.truth()]);
        command.env("THALWEG_PROBE_FULL", "wait").env("THALWEG_PROBE_BYTES", "64k");
        let child = Killed(command.stdout(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        let is_there =
            || place.session().is_dir() && place.spaces().iter().any(|it| it.join("space").exists());
        while !is_there() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{name}: no space is made");
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = processor_time(child.0.id());
        let read = read_slowly(&place.spaces()[0], LONG);
        let taken = processor_time(child.0.id()) - before;
        assert!(read > 100_000, "{name}: {read} events were read");
        let got = place.thalweg(&["get", &place.spaces()[0].display().to_string()]);
        let value = |setting: &str| {
            let line = got.lines().find(|line| line.starts_with(setting)).unwrap_or_default();
            line.split_whitespace().nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(value("probe.full"), "wait", "{name}: {got}");
        assert_eq!(value("probe.bytes"), "65536", "{name}: {got}");
        assert!(taken < LONG / 2, "{name}: {taken:?} of {LONG:?}, for {read} events");
    }
}

/// Each of many operations has its call and its exact name: in any script, of 10 KB, with characters that
/// other languages use as quotes.
#[test]
fn operations_may_be_many_and_have_any_names() {
    let count = rounds(20_000, 1_000_000);
    for (name, program) in programs().iter().filter(|(name, _)| ["C", "C++", "Rust"].contains(name)) {
        let place = Place::new();
        let mut command = place.command(program, &["many", "1", &count.to_string(), "1", &place.truth()]);
        let output = command.env("THALWEG_PROBE_BYTES", "64M").output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let calls = place.calls();
        let operations = calls["operations"].as_array().unwrap();
        assert_eq!(calls["calls"].as_u64(), Some(count), "{name}: {}", calls["not_recorded"]);
        assert_eq!((operations.len() as u64, calls["lost"].as_u64()), (count, Some(0)), "{name}");
        let names: std::collections::HashSet<&str> =
            operations.iter().map(|one| one["name"].as_str().unwrap()).collect();
        const SCRIPTS: [&str; 8] =
            ["order", "größe", "заказ", "価格", "سعر", "𝒳", "a\"b\\c/d", "two words, a\ttab (it)"];
        for n in 0..count {
            let mut wanted = format!("{}.{n}", SCRIPTS[n as usize % 8]);
            if n % 10_000 == 17 {
                wanted += &"x".repeat(10_240 - wanted.len());
            }
            assert!(names.contains(wanted.as_str()), "{name}: {n}");
        }
        let space = place.spaces()[0].display().to_string();
        let text = place.thalweg(&["calls", &space, "--operation", "*xxx"]);
        assert!(text.lines().count() > 3, "{text}");
    }
}

/// With THALWEG_PROBE=off no space or element is made, and no probe takes the lock that guards making them.
#[test]
fn probes_that_are_off_take_no_lock() {
    for (name, program) in in_c() {
        let place = Place::new();
        let mut command = place.command(program, &["off", "1", "1000", "1", &place.truth()]);
        let status = command.env("THALWEG_PROBE", "off").status().unwrap();
        assert!(status.success(), "{name}: {status}");
        assert!(!place.session().exists(), "{name}");
    }
}

/// A library with probes is unloaded and loaded again, while threads that called it live on, by a program
/// that has probes itself, and by a program that has none.
#[test]
fn libraries_with_probes_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let compile = |output: &str, options: &[&str]| {
        let mut compile = Command::new("gcc");
        compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
        compile.arg(root().join("bindings/c")).arg(root().join("thalweg/tests/data/probed/unloaded.c"));
        let output = compile.args(options).arg("-o").arg(path(output)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    compile("libcalled.so", &["-shared", "-fPIC", "-DLIBRARY"]);
    compile("probes", &["-DPROBES"]);
    compile("exported", &["-DPROBES", "-rdynamic"]);
    compile("none", &[]);
    const LOADED: u64 = 40;
    for program in ["probes", "exported", "none"] {
        let place = Place::new();
        let library = path("libcalled.so");
        place.run(&path(program), &[library.to_str().unwrap(), &LOADED.to_string()]);
        let calls = place.calls();
        // Each time the library is loaded, the main thread, a thread that ends later, and the child of a fork
        // each call it once.
        let count = |name: &str| {
            paths(&calls).iter().filter(|(path, _)| path.ends_with(name)).map(|(_, n)| n).sum::<u64>()
        };
        assert_eq!(
            (count("called"), calls["lost"].as_u64()),
            (2 * LOADED + 1, Some(0)),
            "{program}: {:?}",
            paths(&calls)
        );
        assert_eq!(count("calls"), if program == "none" { 0 } else { LOADED }, "{program}");
    }
}

/// The program goes on if its element, or its space, can't be made, and the unrecorded calls are counted.
#[test]
fn a_program_without_room_goes_on() {
    for (name, program) in in_c() {
        // The limits of the size of a file are in units of 512 bytes: with the first limit there is room for
        // the space but not for an element, with the second for neither.
        for (limit, has_space) in [("200", true), ("100", false)] {
            let place = Place::new();
            let script = "ulimit -f \"$1\"; shift; exec \"$@\"";
            let mut command = place.command(Path::new("sh"), &["-c", script, "sh", limit]);
            let output =
                command.arg(program).args(["signals", "1", "1000", "1", &place.truth()]).output().unwrap();
            assert!(output.status.success(), "{name} {limit}: {}", output.status);
            let written = std::fs::read_to_string(format!("{}.0", place.truth())).unwrap();
            if has_space {
                let calls = place.calls();
                assert_eq!(calls["calls"], 0, "{name}");
                assert_eq!(
                    calls["not_recorded"].as_u64().unwrap(),
                    written.trim().parse::<u64>().unwrap(),
                    "{name}"
                );
            }
        }
    }
}

/// A file system with little room, mounted on a folder of its own.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path, megabytes: u32) -> Option<SmallDisk> {
        std::fs::create_dir(folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "none"]).arg(folder);
        mount.output().is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The disk has room for the elements of some threads only; the other threads lose their events, and each
/// lost event is counted.
#[test]
fn events_without_room_on_a_full_disk_are_counted() {
    const CALLS: u64 = 20_000;
    for (name, program) in programs() {
        let place = Place::new();
        let Some(disk) = SmallDisk::mount(&place.folder.path().join("disk"), 7) else {
            let line = "\nskipped: events_without_room_on_a_full_disk_are_counted: mounting a small file system needs root\n";
            std::io::stdout().write_all(line.as_bytes()).unwrap();
            return;
        };
        let session = disk.0.join("session");
        let mut command = place.command(program, &["count", "1", &CALLS.to_string(), "3", &place.truth()]);
        command
            .env("THALWEG_SPACES", &disk.0)
            .env("THALWEG_SESSION", &session)
            .env("THALWEG_PROBE_BYTES", "4M");
        let status = command.stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{name}: {status}");
        let calls = place.thalweg(&["calls", session.to_str().unwrap(), "--json"]);
        let calls: Value = serde_json::from_str(&calls).unwrap();
        let of = |what: &str| calls[what].as_u64().unwrap();
        assert_eq!(
            of("calls") + of("lost") + of("not_recorded"),
            6 * CALLS,
            "{name}: {} {}",
            of("lost"),
            of("not_recorded")
        );
        assert!(of("calls") > 0 && of("not_recorded") > 0, "{name}");
    }
}

/// Probes are switched on and off while the program runs no code of its probes.
#[test]
fn operations_are_switched_and_sampled_while_the_program_runs() {
    let (_, program) = programs().iter().find(|(name, _)| *name == "Rust").unwrap();
    let place = Place::new();
    let mut command = place.command(program, &["alternate"]);
    let mut child = Killed(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut input = child.0.stdin.take().unwrap();
    let mut output = BufReader::new(child.0.stdout.take().unwrap());
    let mut call = |calls: u64| {
        writeln!(input, "{calls}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
    };
    let recorded = || place.calls()["calls"].as_u64().unwrap();
    call(10);
    assert_eq!(recorded(), 10);
    let space = place.spaces()[0].display().to_string();
    place.thalweg(&["set", &space, "probe/on*.on", "0"]);
    call(20);
    assert_eq!(recorded(), 10);
    place.thalweg(&["set", &space, "probe/one.on", "1"]);
    call(5);
    assert_eq!(recorded(), 15);
    place.thalweg(&["set", &space, "probe.sample", "10"]);
    call(100);
    assert_eq!(recorded(), 25);
    drop(input);
}

/// While a program runs, the operations with most calls and least information are switched off until the
/// probes keep their budget, and no further operations.
#[test]
fn a_budget_is_kept_by_leaving_out_operations_that_explain_least() {
    let (_, program) = in_c().next().unwrap();
    let place = Place::new();
    let mut child =
        Killed(place.command(program, &["uneven", "1", "6000", "1", &place.truth()]).spawn().unwrap());
    let begun = Instant::now();
    // The directory of a space is there before the space is.
    let is_ready = |space: &PathBuf| thalweg_space::reader::SpaceReader::open(space).is_ok();
    let space = loop {
        let made = if place.session().is_dir() { place.spaces() } else { Vec::new() };
        if let Some(space) = made.into_iter().find(is_ready) {
            break space.display().to_string();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "no space is made");
        std::thread::sleep(Duration::from_millis(1));
    };
    let printed = place.thalweg(&["calls", &space, "--budget", "2%", "--every", "300ms", "--for", "3s"]);
    assert!(printed.contains("off goes one,"), "{printed}");
    assert!(printed.contains("left out: one."), "{printed}");
    // After the command all operations are on again, also those that the command had switched off.
    let switches = || thalweg_space::reader::SpaceReader::open(&space).unwrap().probes().unwrap();
    assert!(switches().iter().all(|probe| probe.on));
    assert!(switches().iter().any(|probe| probe.name == "one"));
    child.0.kill().unwrap();
}

/// Compiles the C side of traces that cross languages, also as a library.
fn pair(folder: &Path) -> (PathBuf, PathBuf) {
    let source = root().join("thalweg/tests/data/probed/pair.c");
    let (program, library) = (folder.join("pair"), folder.join("libpair.so"));
    for (output, options) in [(&program, &[][..]), (&library, &["-shared", "-fPIC"][..])] {
        let mut compile = Command::new("gcc");
        compile.args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-pthread"]).args(options);
        compile.arg("-I").arg(root().join("bindings/c")).arg(&source).arg("-o").arg(output);
        let output = compile.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    (program, library)
}

fn rust() -> &'static Path {
    &programs().iter().find(|(name, _)| *name == "Rust").unwrap().1
}

fn paths(calls: &Value) -> Vec<(String, u64)> {
    reported_counts(calls).into_iter().map(|(path, (count, _))| (path, count)).collect()
}

/// A program in Rust calls a library in C, which calls back into the program, in one thread: the calls are in
/// two spaces and make one tree.
#[test]
fn a_program_and_a_library_of_another_language_are_one_tree() {
    let place = Place::new();
    let (_, library) = pair(place.folder.path());
    place.run(rust(), &["library", library.to_str().unwrap()]);
    assert_eq!(place.spaces().len(), 2);
    let wanted = [("rust_outer", 3), ("rust_outer/c_work", 6), ("rust_outer/c_work/rust_inner", 15)];
    assert_eq!(paths(&place.calls()), wanted.map(|(path, count)| (path.to_owned(), count)));
}

/// A message goes from C to Rust, and one from Rust to C: the three processes make one tree; a thread that
/// gets work by hand-over is in the tree, too.
#[test]
fn traces_cross_processes_and_threads() {
    let place = Place::new();
    let (program, _) = pair(place.folder.path());
    let stdout = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let sent = stdout(&mut place.command(&program, &["send"]));
    let went_on = stdout(&mut place.command(rust(), &["continue", &sent]));
    assert_eq!(sent[..35], went_on[..35], "the trace has one identity");
    place.run(&program, &["receive", &went_on]);
    place.run(&program, &["hand"]);
    let calls = place.calls();
    let wanted = [
        ("c_hand", 1),
        ("c_hand/c_taken", 1),
        ("c_hand/c_taken/c_inner", 1),
        ("c_send", 1),
        ("c_send/c_message", 1),
        ("c_send/c_message/rust_server", 1),
        ("c_send/c_message/rust_server/rust_message", 1),
        ("c_send/c_message/rust_server/rust_message/c_receive", 1),
    ];
    assert_eq!(paths(&calls), wanted.map(|(path, count)| (path.to_owned(), count)));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    for operation in calls["operations"].as_array().unwrap() {
        assert_eq!(operation["host"], host.as_str());
    }
    let session = place.session().display().to_string();
    let graph = place.thalweg(&["calls", &session, "--graph", "dot", "--by", "host"]);
    assert_eq!(graph.matches(&host).count(), 1, "one node, and no edge of the host to itself: {graph}");
    let remote = calls["edges"].as_array().unwrap().iter().filter(|edge| edge["is_remote"] == true).count();
    assert_eq!(remote, 3);
}

/// A `traceparent` that is valid by the W3C's recommendation is continued in C and Rust, and no other text.
#[test]
fn traceparents_follow_the_recommendation() {
    let place = Place::new();
    let (program, _) = pair(place.folder.path());
    for line in include_str!("data/probed/traceparents.txt").lines() {
        let (wanted, text) = line.split_once(' ').unwrap();
        for (language, program, mode) in [("C", program.as_path(), "receive"), ("Rust", rust(), "accepts")] {
            let status = place.command(program, &[mode, text]).status().unwrap();
            assert_eq!(status.success(), wanted == "good", "{language}: `{text}`: {status}");
        }
    }
}

/// Every type of field, names that are words of C, and texts of any kind: a reader gets the values that were
/// passed to the generated function.
#[test]
fn writers_made_from_a_description_write_what_they_are_given() {
    let place = Place::new();
    let folder = place.folder.path();
    let kinds = "\
/// A \"thing\" happened: 100 %? ?\u{3f}/ */ \\ ä.
kind shop.all_types {
    int: u8
    class: i8 in \"a \\\"b\\\"\"
    small: u16
    thread: i16
    middle: u32
    ticks: i32
    large: u64
    words: i64
    half: f32
    whole: f64
    yes: bool
    colour: enum { red = 0, \"deep_blue\" = 7 }
    first: text
    second: bytes
    third: text
}

kind shop.nothing {
}
";
    let kinds = kinds.replace("\"deep_blue\"", "deep_blue");
    std::fs::write(folder.join("shop.kinds"), kinds).unwrap();
    let header = place.thalweg(&["kinds", folder.join("shop.kinds").to_str().unwrap(), "--language", "c"]);
    std::fs::write(folder.join("shop.h"), header).unwrap();
    let source = "#include \"shop.h\"
int main(void) {
    int n;
    for (n = 0; n < 3; n++)
        thalweg_emit_shop_all_types(255, -128, 65535, -32768, 4294967295u, -2147483647 - 1, UINT64_MAX, INT64_MIN, -0.5f, 1e300, n,
                                    7, \"t\\303\\244xt\", 5, \"\\0\\377\", 2, \"\", 0);
    thalweg_emit_shop_nothing();
    return 0;
}
";
    std::fs::write(folder.join("all.c"), source).unwrap();
    for (compiler, options) in [("gcc", &["-x", "c", "-std=c11"]), ("g++", &["-x", "c++", "-std=c++17"])] {
        let program = folder.join(compiler);
        let mut compile = Command::new(compiler);
        compile.args(options).args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        compile
            .arg(root().join("bindings/c"))
            .arg("-I")
            .arg(folder)
            .arg(folder.join("all.c"))
            .arg("-o")
            .arg(&program);
        let output = compile.output().unwrap();
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        let mut run = Command::new(&program);
        assert!(run.env("THALWEG_SPACES", folder).status().unwrap().success());
        let lines = place.thalweg(&["events", compiler, "--json"]);
        let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), 4, "{lines}");
        for (n, event) in events[..3].iter().enumerate() {
            let wanted = serde_json::json!({
                "int": 255, "class": -128, "small": 65535, "thread": -32768, "middle": 4_294_967_295_u32,
                "ticks": -2_147_483_648_i64, "large": u64::MAX, "words": i64::MIN, "half": -0.5, "whole": 1e300, "yes": n > 0,
                "colour": "deep_blue", "first": "täxt", "second": "00ff", "third": "",
            });
            assert_eq!(event["fields"], wanted, "{compiler}");
        }
        assert_eq!(events[3]["kind"], "shop.nothing");
    }
}

/// A program whose sources are unchanged is compiled with -finstrument-functions: names of operations come
/// from its symbols, also from those of a library that is loaded later.
#[test]
fn functions_of_an_instrumented_program_have_their_names() {
    let place = Place::new();
    let folder = place.folder.path();
    let library = "int late(int n) { return n > 0 ? late(n - 1) : 0; }\n";
    let program = "#include <dlfcn.h>\n#include <stddef.h>\n\
        static int leaf(int n) { return n; }\n\
        int node(int n) { int sum = 0; while (n-- > 0) sum += leaf(n); return sum; }\n\
        int main(int count, char **arguments) {\n\
            int (*late)(int);\n\
            node(3); node(4);\n\
            *(void **)&late = dlsym(dlopen(arguments[1], RTLD_NOW), \"late\");\n\
            return count == 2 ? late(2) : 1;\n\
        }\n";
    std::fs::write(folder.join("late.c"), library).unwrap();
    std::fs::write(folder.join("main.c"), program).unwrap();
    let compile = |output: &str, source: PathBuf, options: &[&str]| {
        let mut compile = Command::new("gcc");
        compile
            .args(options)
            .arg("-I")
            .arg(root().join("bindings/c"))
            .arg(source)
            .arg("-o")
            .arg(folder.join(output));
        let output = compile.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let instrument = root().join("bindings/c/thalweg_instrument.c");
    compile("libinstrument.so", instrument, &["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]);
    let plain = ["-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-finstrument-functions"];
    compile("liblate.so", folder.join("late.c"), &[&["-shared", "-fPIC"][..], &plain].concat());
    compile("main", folder.join("main.c"), &plain);
    let late = folder.join("liblate.so");
    let mut run = place.command(&folder.join("main"), &[late.to_str().unwrap()]);
    assert!(run.env("LD_PRELOAD", folder.join("libinstrument.so")).status().unwrap().success());
    let wanted = [
        ("main", 1),
        ("main/late", 1),
        ("main/late/late", 1),
        ("main/late/late/late", 1),
        ("main/node", 2),
        ("main/node/leaf", 7),
    ];
    assert_eq!(paths(&place.calls()), wanted.map(|(path, count)| (path.to_owned(), count)));
}

//! A program in Java goes on when the reader of its events ends or stands still, when the disk is full, and
//! when it may write to its spaces only. Events that are not recorded are counted exactly.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Killed, Place, assert_as_written, succeed, trees};

/// A program that makes calls when it is asked.
struct Asked {
    child: Killed,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The calls so far.
    all: u64,
}

impl Asked {
    fn start(place: &Place, options: &str) -> Asked {
        let command = place.java("include=truth.Truth$Loops");
        // The option is the last one of its name, which holds.
        let agent = command.get_args().next().unwrap().to_str().unwrap().to_owned() + options;
        let arguments: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
        let mut command = Command::new("java");
        command.arg(agent).args(arguments).args(["truth.Truth", "alternate"]);
        command.env("THALWEG_SPACES", place.path("spaces")).env_remove("THALWEG_SESSION");
        let mut child = Killed(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let input = child.0.stdin.take();
        let output = BufReader::new(child.0.stdout.take().unwrap());
        Asked { child, input, output, all: 0 }
    }

    /// Makes this many calls of each of two operations.
    fn call(&mut self, calls: u64) {
        writeln!(self.input.as_mut().unwrap(), "{calls}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), calls.to_string());
        self.all += 2 * calls;
    }

    fn end(&mut self) {
        drop(self.input.take());
        assert!(self.child.0.wait().unwrap().success());
    }
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Some calls are lost, and the recorded and the lost ones are all calls.
fn assert_counted(calls: &Value, all: u64, context: &str) {
    let of = |what: &str| calls[what].as_u64().unwrap();
    assert_eq!(of("calls") + of("lost") + of("not_recorded"), all, "{context}: {} lost", of("lost"));
    assert!(of("lost") + of("not_recorded") > 0, "{context}");
}

/// The program waits for its reader, or drops what finds no room. When the reader is killed, or stands still
/// as if its disk were on a machine that is cut off, the program goes on, and the calls that found no room
/// are counted exactly; a reader that goes on again keeps the same count.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn a_program_whose_reader_is_killed_or_stands_still_goes_on() {
    for (full, signal) in [("wait", "-KILL"), ("drop", "-KILL"), ("wait", "-STOP"), ("drop", "-STOP")] {
        let context = format!("{full}, {signal}");
        let place = Place::new();
        let mut program = Asked::start(&place, &format!(",bytes=256k,full={full}"));
        program.call(10);
        let mut record = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        record.args(["record", &place.space(), "--output", &place.path("archive")]);
        let mut reader = Killed(record.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let archive = place.path("archive");
        let begun = Instant::now();
        while std::fs::read_dir(&archive).map_or(0, Iterator::count) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{context}: nothing is recorded");
            std::thread::sleep(Duration::from_millis(1));
        }
        program.call(100_000);
        send(&reader.0, signal);
        if signal == "-KILL" {
            reader.0.wait().unwrap();
        }
        let begun = Instant::now();
        program.call(400_000);
        assert!(begun.elapsed() < Duration::from_secs(20), "{context}: {:?}", begun.elapsed());
        assert_counted(&place.calls(), program.all, &context);
        if signal == "-STOP" {
            send(&reader.0, "-CONT");
            program.call(100_000);
            program.end();
            assert!(reader.0.wait().unwrap().success(), "{context}");
            let kept = place.thalweg(&["calls", &archive, "--json"]);
            assert_counted(&serde_json::from_str(&kept).unwrap(), program.all, &context);
        }
    }
}

/// Runs a program in a mount namespace of its own, which the script changes first; false if that needs rights
/// that this process lacks.
fn in_namespace(script: &str, first: &str, program: &Command, more: &[(&str, String)]) -> bool {
    let may = Command::new("unshare").args(["--mount", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        let line = "\nskipped: a test of the agent in a mount namespace of its own: making one needs root\n";
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", script, "sh", first, "java"]).args(program.get_args());
    command.envs(more.iter().map(|(name, value)| (name, value))).env_remove("THALWEG_SESSION");
    succeed(&mut command, script);
    true
}

/// Compiles the class `room.Main`. Returns the command with its arguments that runs the class under the
/// agent.
fn compiled(place: &Place, text: &str) -> Command {
    std::fs::write(place.path("Main.java"), text).unwrap();
    let mut compile = Command::new("javac");
    succeed(compile.args(["-d", &place.path("classes"), &place.path("Main.java")]), "javac");
    let mut program = Command::new("java");
    let agent = super::named("THALWEG_AGENT").display().to_string();
    program.arg(format!("-javaagent:{agent}=include=room.Main$Ops,bytes=1000k,full=drop"));
    program.args(["-XX:TieredStopAtLevel=1", "-cp", &place.path("classes"), "room.Main"]);
    program
}

/// Runs a program with its spaces on a disk of 4 MiB; the file `filler` takes the given part of the disk. Returns
/// the program's calls; `None` if there can be no such disk.
fn on_small_disk(place: &Place, program: &Command, filled_kib: u32) -> Option<Value> {
    const SCRIPT: &str = "mount -t tmpfs -o size=4m none \"$1\"; head -c \"${FILLED}k\" /dev/zero > \"$1/filler\"; \
        at=$1; shift; \"$@\"; rm -f \"$at/filler\"; cp -r \"$at\" \"$KEPT\"";
    let (disk, kept) = (place.path("spaces"), place.path(&format!("kept-{filled_kib}")));
    std::fs::create_dir_all(&disk).unwrap();
    let variables =
        [("THALWEG_SPACES", disk.clone()), ("KEPT", kept.clone()), ("FILLED", filled_kib.to_string())];
    if !in_namespace(SCRIPT, &disk, program, &variables) {
        return None;
    }
    let space = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    let calls = place.thalweg(&["calls", space.to_str().unwrap(), "--json"]);
    Some(serde_json::from_str(&calls).unwrap())
}

/// The disk has room for the elements of some threads only; the other threads lose their calls, and each lost
/// call is counted.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn calls_without_room_on_a_full_disk_are_counted() {
    const THREADS: u64 = 8;
    const CALLS: u64 = 20_000;
    let place = Place::new();
    // The main thread makes its element before the others begin, and none ends before all have called, so no
    // thread takes over the element of another.
    let text = format!(
        "package room; public class Main {{ static class Ops {{ static void one() {{}} }}\n\
         public static void main(String[] none) throws Exception {{\n\
         final java.util.concurrent.CyclicBarrier all = new java.util.concurrent.CyclicBarrier({THREADS});\n\
         Ops.one();\n\
         for (int n = 0; n < {THREADS}; n++) {{ new Thread() {{ public void run() {{\n\
         for (int n = 0; n < {CALLS}; n++) Ops.one();\n\
         try {{ all.await(); }} catch (Exception broken) {{ throw new Error(broken); }} }} }}.start(); }} }} }}"
    );
    let program = compiled(&place, &text);
    if let Some(calls) = on_small_disk(&place, &program, 0) {
        assert_counted(&calls, THREADS * CALLS + 1, "on a small disk");
        let (calls, not_recorded) = (&calls["calls"], &calls["not_recorded"]);
        assert!(calls.as_u64() > Some(0) && not_recorded.as_u64() > Some(0), "{calls}, {not_recorded}");
    }
}

/// A program of many operations, which calls all of them, makes room on the disk, waits, and calls them
/// again.
fn operations_then_room(operations: usize) -> String {
    let methods: String =
        (0..operations).map(|n| format!("static void operation_of_the_class_{n}() {{}}\n")).collect();
    let calls: String = (0..operations).map(|n| format!("Ops.operation_of_the_class_{n}();\n")).collect();
    format!(
        "package room; public class Main {{ static class Ops {{ {methods} }} static void all() {{ {calls} }}\n\
         static void round() {{ for (int n = 0; n < {ROUNDS}; n++) all(); }}\n\
         public static void main(String[] none) throws Exception {{ round();\n\
         new java.io.File(System.getenv(\"THALWEG_SPACES\") + \"/filler\").delete();\n\
         Thread.sleep(2500); round(); }} }}"
    )
}

/// How often the program calls each operation before there is room, and after.
const ROUNDS: u64 = 20;

/// The disk becomes full while operations are declared: calls of operations that are not declared are
/// counted, and are recorded when there is room.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn operations_without_room_are_counted_and_recorded_when_there_is_room() {
    const OPERATIONS: usize = 400;
    let place = Place::new();
    let program = compiled(&place, &operations_then_room(OPERATIONS));
    let all = 2 * ROUNDS * OPERATIONS as u64;
    let mut parts = Vec::new();
    // The first disk has room for all declarations, the last for no element.
    for filled in [2900, 2960, 2980, 3000, 3040] {
        let Some(calls) = on_small_disk(&place, &program, filled) else { return };
        let of = |what: &str| calls[what].as_u64().unwrap();
        assert_eq!(of("calls") + of("lost") + of("not_recorded"), all, "{filled}: {}", of("not_recorded"));
        assert_eq!(calls["operations"].as_array().unwrap().len(), OPERATIONS, "{filled}");
        parts.push(of("not_recorded"));
    }
    assert!(parts.iter().any(|part| 0 < *part && *part < all / 2), "{parts:?} of {all}");
}

/// In a container with read-only file systems (also /tmp) all calls are recorded if the directory of spaces
/// may be written.
#[test]
#[ignore = "needs a JVM and the agent: `cargo xtask test --only java`"]
fn a_container_whose_tmp_is_read_only_records_all_calls() {
    const SCRIPT: &str = "mount --bind /tmp /tmp; mount --bind \"$1\" \"$1\"; \
        for at in /tmp /; do mount -o remount,ro,bind $at; done; \
        for at in / /tmp; do if touch $at/written 2>/dev/null; then exit 9; fi; done; shift; exec \"$@\"";
    for (seed, options) in [(7, ""), (8, ",native=off")] {
        let place = Place::new();
        let program = trees(&place, options, seed, 2);
        let folder = place.folder.path().display().to_string();
        if in_namespace(SCRIPT, &folder, &program, &[("THALWEG_SPACES", place.path("spaces"))]) {
            assert_as_written(&place, options);
        }
    }
}

//! Runs that are ended from inside or outside: boxes that end the process are named, signals end the run in
//! order.

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use program::{started, write};
use serde_json::{Value, json};

const SIGILL: i32 = 4;
const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;

/// Boxes that end the process at `<n> = 2`, each in the way that its name says.
const BOXES: &str = r#"
#define _GNU_SOURCE
#include "thalweg.h"
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static void end_by(const char *how) {
    if (strcmp(how, "exit") == 0) exit(0);
    if (strcmp(how, "quick_exit") == 0) quick_exit(0);
    if (strcmp(how, "_exit") == 0) _exit(0);
    if (strcmp(how, "segv") == 0) *(volatile int *)(uintptr_t)8 = 1;
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "fpe") == 0) raise(SIGFPE);
    if (strcmp(how, "ill") == 0) __builtin_trap();
    if (strcmp(how, "bus") == 0) {
        FILE_OF_NOTHING
    }
    if (strcmp(how, "hang") == 0) for (;;) pause();
    /* In a child the box may do as it likes. */
    if (strcmp(how, "child") == 0 && fork() == 0) exit(0);
}

static thalweg_status ending(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t n = 0;
    (void)count;
    thalweg_get_int(&arguments[0], &n);
    if (n == 2) end_by((const char *)data);
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(n)});
    return THALWEG_DONE;
}

#define ENTRY(name) \
    {(const uint8_t *)"box " name " ((<n>) -> (<n>))", sizeof("box " name " ((<n>) -> (<n>))") - 1, 1, 0, ending, name, NULL}
static const thalweg_box boxes[] = {ENTRY("exit"), ENTRY("quick_exit"), ENTRY("_exit"), ENTRY("segv"), ENTRY("abort"),
                                    ENTRY("fpe"), ENTRY("ill"), ENTRY("bus"), ENTRY("hang"), ENTRY("child")};
THALWEG_LIBRARY(boxes)
"#;

const BUS: &str = r#"int file = memfd_create("nothing", 0);
        *(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) = 1;"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("spaces")).unwrap();
        Place { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn library_in_c(&self) -> String {
        let source = write(self.path(), "ending.c", &BOXES.replace("FILE_OF_NOTHING", BUS));
        let library = self.path().join("libending.so");
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
        let mut compile = Command::new("cc");
        compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]).arg(include);
        assert!(compile.arg(&source).arg("-o").arg(&library).status().unwrap().success());
        library.to_str().unwrap().to_owned()
    }

    /// A run of `<n>` from 0 to 3 through a net called `main`, whose spaces are in a folder of their own.
    fn start(&self, net: &str, library: &str, more: &[&str]) -> Child {
        let net = write(self.path(), "main.snet", net);
        let mut command = heeding();
        command.args(["run", &net, "--boxes", library, "--workers", "1"]).args(more);
        started(command.env("THALWEG_SPACES", self.path().join("spaces")))
    }

    fn spaces(&self) -> Vec<PathBuf> {
        let spaces = std::fs::read_dir(self.path().join("spaces")).unwrap();
        spaces.map(|entry| entry.unwrap().path()).collect()
    }

    /// Runs the network on `input`; returns the exit status and the messages.
    fn run(&self, net: &str, library: &str, more: &[&str], input: &str) -> (ExitStatus, String, String) {
        let mut child = self.start(net, library, more);
        // The process may end before it has read all input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status, text(&output.stdout), text(&output.stderr))
    }

    /// The state of the run as its report gives it, and the task and the message on which its worker was.
    fn report(&self, space: &Path) -> (Value, Value, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.args(["report", "--json"]).arg(space).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let worker = &report["workers"][0];
        (report["window"]["state"].clone(), worker["on_task"].clone(), worker["on_message"].clone())
    }
}

/// The program, started with no signal ignored: tests may run under `nohup`, and the program leaves ignored
/// signals ignored.
fn heeding() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_thalweg")]);
    command
}

fn input(more: &str) -> String {
    (0..4).map(|n| format!("{{\"<n>\": {n}{more}}}\n")).collect()
}

/// Checks a run that a box ended: the message names the box and the record's message, and the space was kept.
#[track_caller]
fn check(
    place: &Place,
    (status, _, stderr): (ExitStatus, String, String),
    path: &str,
    how: &str,
    end: Result<i32, i32>,
) {
    assert_eq!(status.code().ok_or(status.signal().unwrap_or(0)), end, "{path}: {stderr}");
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("E0802")).collect();
    let [line] = lines[..] else { panic!("{path}: {stderr}") };
    let begin = format!("error[E0802]: {path} {how} on message 2 of its input: the run ends here");
    assert!(line.starts_with(&begin), "{stderr}");
    let [space] = &place.spaces()[..] else { panic!("{:?}", place.spaces()) };
    assert!(
        line.ends_with(&format!("; `thalweg report {}` shows what was recorded", space.display())),
        "{stderr}"
    );
    // A box with a thread of its own runs on no worker, and the report on workers does not name replicas.
    let on = if path.ends_with("waiting") {
        (Value::Null, Value::Null)
    } else {
        (json!(path.replace("[7]", "")), json!(2))
    };
    assert_eq!(place.report(space), (json!("killed"), on.0, on.1));
}

#[test]
fn boxes_in_c_that_end_the_process_are_named() {
    for (name, how, end) in [
        ("exit", "ended the process by `exit`", Ok(1)),
        ("quick_exit", "ended the process by `exit`", Ok(1)),
        ("segv", "crashed by SIGSEGV (memory that it may not use)", Err(SIGSEGV)),
        ("abort", "crashed by SIGABRT (it was aborted)", Err(SIGABRT)),
        ("fpe", "crashed by SIGFPE (a calculation without a result)", Err(SIGFPE)),
        ("ill", "crashed by SIGILL (an instruction that there is not)", Err(SIGILL)),
        ("bus", "crashed by SIGBUS (memory that is not there)", Err(SIGBUS)),
    ] {
        let place = Place::new();
        let library = place.library_in_c();
        let net = format!("net main {{ box {name} ((<n>) -> (<n>)); }} connect {name};");
        let ended = place.run(&net, &library, &[], &input(""));
        check(&place, ended, &format!("main/{name}"), how, end);
    }
}

/// The message about a run that a box in this network ended, up to the space's path.
fn named_in(library: &str, connect: &str, fuse: &str) -> String {
    let place = Place::new();
    let net = format!("net main {{ box segv ((<n>) -> (<n>)); }} connect {connect};");
    let fuse = format!("net.fuse={fuse}");
    let (status, _, stderr) = place.run(&net, library, &["--set", &fuse], &input(", \"<k>\": 7"));
    assert_eq!(status.signal(), Some(SIGSEGV), "{connect}, {fuse}: {stderr}");
    let line = stderr.lines().find(|line| line.contains("E0802")).unwrap_or_else(|| panic!("{stderr}"));
    let [space] = &place.spaces()[..] else { panic!("{:?}", place.spaces()) };
    let (state, on_task, on_message) = place.report(space);
    assert_eq!((state, on_message), (json!("killed"), json!(2)), "{connect}, {fuse}");
    let on_task = on_task.as_str().unwrap_or_default().to_owned();
    assert!(on_task.ends_with("/segv"), "{connect}, {fuse}: {on_task}");
    format!("{on_task}: {}", line.split(';').next().unwrap_or_default())
}

/// A crash of a box names the box and the message equally, whether dispatchers hand the record directly on to
/// the box or through a stream.
#[test]
fn a_crash_in_a_star_a_split_or_a_parallel_names_the_box_and_the_message() {
    let folder = Place::new();
    let built = folder.library_in_c();
    let up = "[{<n>} -> {<n = n + 10>}]";
    for (connect, name) in [
        (format!("[{{<n>}} -> {{<n>}}] .. ((segv .. {up}) * {{<n>}} if <n >= 10>)"), "segv"),
        ("[{<n>} -> {<n>}] .. ((segv .. [{<n>} -> {<n>}]) ! <k>)".to_owned(), "split[7]/serial/segv"),
        ("[{<n>} -> {<n>}] .. (segv | [{<other>} -> {<other>}])".to_owned(), "segv"),
    ] {
        let of = |fuse| named_in(&built, &connect, fuse);
        let fused = of("on");
        assert_eq!(fused, of("off"), "{connect}");
        let crash =
            format!("{name} crashed by SIGSEGV (memory that it may not use) on message 2 of its input");
        assert!(fused.contains(&crash), "{connect}: {fused}");
    }
}

/// Nothing of the process runs after `_exit`: only the space tells that the process ended so.
#[test]
fn the_report_names_a_box_that_calls_underscore_exit() {
    let place = Place::new();
    let library = place.library_in_c();
    let net = "net main { box _exit ((<n>) -> (<n>)); } connect _exit;";
    let (status, _, stderr) = place.run(net, &library, &[], &input(""));
    assert_eq!(status.code(), Some(0), "{stderr}");
    let [space] = &place.spaces()[..] else { panic!("{:?}", place.spaces()) };
    assert_eq!(place.report(space), (json!("killed"), json!("main/_exit"), json!(2)));
}

#[test]
fn a_child_of_a_box_may_exit() {
    let place = Place::new();
    let library = place.library_in_c();
    let net = "net main { box child ((<n>) -> (<n>)); } connect child;";
    let (status, out, stderr) = place.run(net, &library, &[], &input(""));
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!((out.lines().count(), stderr.contains("E0802")), (4, false), "{stderr}");
}

#[test]
fn boxes_in_rust_that_end_the_process_are_named() {
    let program = Path::new(env!("CARGO_BIN_EXE_thalweg"));
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", "thalweg", "--example", "ending_boxes"]);
    build.args(program.iter().any(|part| part == "release").then_some("--release"));
    let target = program.ancestors().nth(2).expect("a target folder");
    assert!(build.arg("--target-dir").arg(target).status().unwrap().success());
    let library = program.with_file_name("examples").join("libending_boxes.so");
    let library = library.to_str().unwrap();
    let overflows = "crashed by SIGSEGV (its stack is used up)";
    for (name, how, words, end) in [
        ("ending", 0, "ended the process by `exit`", Ok(1)),
        ("waiting", 0, "ended the process by `exit`", Ok(1)),
        ("ending", 1, "crashed by SIGABRT (it was aborted)", Err(SIGABRT)),
        ("waiting", 1, "crashed by SIGABRT (it was aborted)", Err(SIGABRT)),
        ("ending", 2, overflows, Err(SIGSEGV)),
        ("waiting", 2, overflows, Err(SIGSEGV)),
    ] {
        let place = Place::new();
        let net = format!("net main {{ box {name} ((<n>, <how>) -> (<n>)); }} connect {name};");
        let ended = place.run(&net, library, &[], &input(&format!(", \"<how>\": {how}")));
        check(&place, ended, &format!("main/{name}"), words, end);
    }
    let place = Place::new();
    let net = "net main { box later ((<n>) -> (<n>)); } connect later ! <k>;";
    let ended = place.run(net, library, &[], &input(", \"<k>\": 7"));
    check(&place, ended, "main/split[7]/later", "ended the process by `exit`", Ok(1));
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn each_signal_ends_a_run_in_order_with_its_own_code() {
    for (name, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        let library = place.library_in_c();
        let net = "net main { box child ((<n>) -> (<n>)); } connect child;";
        let mut child = place.start(net, &library, &[]);
        let mut fed = child.stdin.take().unwrap();
        fed.write_all(input("").as_bytes()).unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        (0..4).for_each(|_| _ = output.read_line(&mut String::new()).unwrap());
        signal(&child, name);
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}: {stderr}");
        assert!(stderr.contains("4 records in, 4 out"), "{name}: {stderr}");
        assert!(place.spaces().is_empty(), "{name}: {:?}", place.spaces());
    }
}

/// Sends a signal again and again until the process is gone.
fn force(child: &mut Child, name: &str) -> ExitStatus {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "{name}: it goes on");
        signal(child, name);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_second_signal_ends_a_run_that_hangs_and_leaves_nothing_behind() {
    for (name, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        for keep in [false, true] {
            let place = Place::new();
            let library = place.library_in_c();
            let net = "net main { box hang ((<n>) -> (<n>)); } connect hang;";
            let kept: &[&str] = if keep { &["--keep"] } else { &[] };
            let mut child = place.start(net, &library, kept);
            child.stdin.take().unwrap().write_all(input("").as_bytes()).unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            // The box hangs in the third record, so the second record was written or waits for the end of its
            // dispatch.
            while place.spaces().is_empty() {
                std::thread::yield_now();
            }
            let _ = output.fill_buf().map(<[u8]>::len);
            assert_eq!(force(&mut child, name).code(), Some(code), "{name}");
            assert_eq!(place.spaces().len(), usize::from(keep), "{name}: {:?}", place.spaces());
        }
    }
}

/// `nohup` starts programs with SIGHUP ignored.
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let place = Place::new();
    let net = write(place.path(), "same.snet", "net same connect [];");
    let line = format!("trap '' HUP; exec {} run {net}", env!("CARGO_BIN_EXE_thalweg"));
    let mut child =
        started(Command::new("sh").args(["-c", &line]).env("THALWEG_SPACES", place.path().join("spaces")));
    let mut fed = child.stdin.take().unwrap();
    fed.write_all(b"{\"x\": 1}\n").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    signal(&child, "HUP");
    fed.write_all(b"{\"x\": 2}\n").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    drop(fed);
    assert_eq!(line, "{\"x\": 2}\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// When a terminal is closed, the run's messages cannot be read.
#[test]
fn a_run_ends_in_order_where_nobody_reads_its_messages() {
    let place = Place::new();
    let net = write(place.path(), "same.snet", "net same connect [];");
    let mut command = heeding();
    command.args(["run", &net]).env("THALWEG_SPACES", place.path().join("spaces"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    let mut fed = child.stdin.take().unwrap();
    fed.write_all(b"{\"x\": 1}\nno record\n{\"x\": 2}\n").unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    (0..2).for_each(|_| _ = output.read_line(&mut String::new()).unwrap());
    signal(&child, "HUP");
    assert_eq!(child.wait().unwrap().code(), Some(129));
    assert!(place.spaces().is_empty());
}

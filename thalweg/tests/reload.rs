//! Libraries of boxes that are replaced while a network runs, and their parameters.

mod controlled;

use controlled::{Run, load, write};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A box that writes the number of its build into a tag and a text; `finish` counts its calls.
const MARK: &str = r#"
#include "thalweg.h"
static thalweg_parameter finished = THALWEG_PARAMETER("finished", "", "Builds that ended", 0, 1000000, 0);
static thalweg_status mark(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t n;
    (void)data, (void)count;
    if (!thalweg_get_int(&arguments[0], &n)) return thalweg_fail(out, "n: expected an integer");
    thalweg_emit(out, 1, 3, (thalweg_value[]){thalweg_int(n), thalweg_int(BUILD), thalweg_text(TEXT)});
    return THALWEG_DONE;
}
static inline thalweg_status refuse(thalweg_out *out) { return thalweg_fail(out, "no luck"); }
static void finish(void) { thalweg_publish(&finished, thalweg_read(&finished) + 1); }
static const thalweg_box boxes[] = {THALWEG_BOX("box mark ((<n>) -> (<n>, <build>, " FIELD "))", 1, mark)};
static thalweg_parameter *const parameters[] = {&finished};
THALWEG_LIBRARY_WITH(boxes, parameters, 1, NULL, 0, INIT, finish)
"#;

const NETWORK: &str =
    "net first { box mark ((<n>) -> (<n>, <build>, word)); } connect mark .. [{} -> {}] .. mark;";

/// Compiles a library from `text` with these preprocessor definitions.
fn compile(text: &str, definitions: &[&str], library: &Path) {
    let source = library.with_extension("c");
    std::fs::write(&source, text).expect("a temporary folder takes files");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I"]).arg(include);
    command.args(definitions.iter().map(|definition| format!("-D{definition}"))).arg(&source);
    let output = command.arg("-o").arg(library).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn build(folder: &Path, build: u32, others: &[&str]) -> PathBuf {
    let library = folder.join(format!("build{build}.so"));
    let (number, text) = (format!("BUILD={build}"), format!("TEXT=\"build {build}\""));
    let mut definitions = vec![number.as_str(), text.as_str()];
    definitions.extend(others);
    for (name, value) in [("FIELD", "FIELD=\"word\""), ("INIT", "INIT=NULL")] {
        if !others.iter().any(|other| other.starts_with(name)) {
            definitions.push(value);
        }
    }
    compile(MARK, &definitions, &library);
    library
}

/// Makes a folder with `libmark.so`, a copy of the library that `first` returns; returns the folder and the
/// path of the library.
fn with_library(first: impl FnOnce(&Path) -> PathBuf) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("libmark.so");
    std::fs::copy(first(folder.path()), &library).expect("a copy");
    (folder, library)
}

fn start(folder: tempfile::TempDir, library: &Path) -> Run {
    Run::start_in(folder, NETWORK, &["--boxes", library.to_str().expect("a path")])
}

/// The images of libraries named `name` that a process has mapped.
fn images(process: u32, name: &str) -> HashSet<String> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("the process lives");
    let path = |line: &str| line.split_whitespace().nth(5).map(str::to_owned);
    maps.lines().filter_map(path).filter(|path| path.contains(name)).collect()
}

fn setting(run: &Run, name: &str) -> u64 {
    let shown = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["get", "--json"])
        .arg(run.space())
        .arg(name)
        .output();
    let shown = String::from_utf8(shown.expect("thalweg starts").stdout).expect("text");
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("one setting");
    shown["value"].as_u64().expect("a number")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what} never came");
        std::thread::yield_now();
    }
}

#[test]
fn a_hundred_reloads_under_load_lose_nothing_and_leave_nothing() {
    const RELOADS: u64 = 100;
    let (folder, library) = with_library(|folder| build(folder, 1, &[]));
    let builds = [folder.path().join("build1.so"), build(folder.path(), 2, &[])];
    let mut run = start(folder, &library);
    let process = run.child.id();
    let stop = Arc::new(AtomicBool::new(false));
    let written = load(run.child.stdin.take().expect("piped"), &stop);
    let output = BufReader::new(run.child.stdout.take().expect("piped"));
    let read = std::thread::spawn(move || output.lines().map(|line| line.expect("text")).collect::<Vec<_>>());
    for reload in 1..=RELOADS {
        // The loaded file is overwritten in place, as some compilers do.
        std::fs::copy(&builds[(reload % 2) as usize], &library).expect("a copy");
        let printed = run.done("reload", library.to_str());
        assert!(printed.starts_with("reloaded: "), "{printed}");
    }
    wait_until("the end of the old builds", || images(process, "libmark").len() == 1);
    assert_eq!(setting(&run, "box.finished"), RELOADS, "each build before the last has ended");
    stop.store(true, Ordering::Relaxed);
    let written = written.join().expect("it wrote");
    let lines = read.join().expect("it read");
    let printed = run.end(0);
    let records: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(records.iter().map(|record| record["<n>"].as_u64().expect("a number")).eq(0..written));
    for record in &records {
        assert_eq!(record["word"], format!("build {}", record["<build>"]), "{record}");
    }
    for build in [1, 2] {
        assert!(records.iter().any(|record| record["<build>"] == build), "build {build} took no record");
    }
    let count = format!("{written} records in {written} out in");
    assert!(printed.replace(',', "").contains(&count), "{printed}");
}

#[test]
fn a_library_that_does_not_fit_is_refused_and_the_old_one_goes_on() {
    let (folder, library) = with_library(|folder| build(folder, 1, &[]));
    let other = build(folder.path(), 2, &["FIELD=\"letters\""]);
    let failing = build(folder.path(), 3, &["INIT=refuse"]);
    let mut run = start(folder, &library);
    let mut input = run.child.stdin.take().expect("piped");
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    let mut refused = |from: Option<&Path>, named: &Path, why: &[&str]| {
        if let Some(from) = from {
            std::fs::copy(from, &library).expect("a copy");
        }
        let answer = run.command("reload", named.to_str());
        let stderr = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.status.code(), Some(1), "{stderr}");
        why.iter().for_each(|why| assert!(stderr.contains(why), "{stderr}"));
        input.write_all(b"{\"<n>\": 1}\n").expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("a record");
        assert!(line.contains("\"<build>\": 1"), "{line}");
    };
    let both =
        ["the box `mark` was ((<n>) -> (<n>, <build>, word))", "is ((<n>) -> (<n>, <build>, letters))"];
    refused(Some(&other), &library, &both);
    refused(Some(&failing), &library, &["its init failed: no luck", "the boxes before go on"]);
    refused(None, Path::new("/no/such.so"), &["no boxes were loaded from /no/such.so", "libmark.so"]);
    std::fs::write(&library, "no library").expect("a temporary folder takes files");
    refused(None, &library, &["it does not begin as an ELF file does"]);
    drop(input);
    run.end(0);
}

#[test]
fn parameters_are_set_and_state_and_events_are_seen_while_it_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("liblevels.so");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c/examples/levels.c");
    compile(&std::fs::read_to_string(example).expect("the example"), &[], &library);
    let network = "net first { box scale ((sample) -> (sample)); } connect scale;";
    let mut run = Run::start_in(folder, network, &["--boxes", library.to_str().expect("a path")]);
    let mut input = run.child.stdin.take().expect("piped");
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    let mut scaled = |sample: i64| {
        input.write_all(format!("{{\"sample\": {sample}}}\n").as_bytes()).expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("a record");
        let record: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        record["sample"].as_i64().expect("a number")
    };
    assert_eq!(scaled(-20000), -20000);
    assert_eq!(setting(&run, "box.levels.peak"), 20000);
    let set = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let thalweg = |arguments: &[&str]| {
        let mut command = Command::new(set.get_program());
        let output =
            command.arg(arguments[0]).arg(run.space()).args(&arguments[1..]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(thalweg(&["set", "box.levels.gain", "200"]).contains("box.levels.gain = 200 (was 100)"));
    assert_eq!(scaled(20000), 32767);
    assert_eq!(setting(&run, "box.levels.peak"), 32767);
    let events = thalweg(&["events", "--kind", "box.*", "--json"]);
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.len(), 1, "{events:?}");
    let event = events[0].to_string();
    assert!(
        event.contains("box.levels.clipped") && event.contains("20000") && event.contains("1.2207"),
        "{event}"
    );
    // A value outside the parameter's range is refused in a live run, and also when a network starts.
    let set = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("set")
        .arg(run.space())
        .args(["box.levels.gain", "500"])
        .output();
    assert_eq!(set.expect("it starts").status.code(), Some(2));
    thalweg(&["set", "box.levels.gain", "0"]);
    let refused = run.command("reload", library.to_str());
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("its init failed: the gain is 0"), "{stderr}");
    drop(input);
    run.end(0);
}

#[test]
fn a_library_is_looked_for_by_name_in_the_directories_named_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    build(folder.path(), 1, &[]);
    std::fs::rename(folder.path().join("build1.so"), folder.path().join("libmark.so"))
        .expect("the same folder");
    let net = write(folder.path(), "first.snet", NETWORK);
    let check = |directories: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["check", &net, "--boxes", "libmark.so"]).current_dir(folder.path());
        command.env_remove("THALWEG_BOXES").envs(directories.map(|path| ("THALWEG_BOXES", path)));
        let output = command.output().expect("thalweg starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = check(None);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("error[E0904]: cannot find the box library libmark.so")
            && stderr.contains("./libmark.so"),
        "{stderr}"
    );
    assert_eq!(check(Some(Path::new("."))).0, Some(2), "a relative directory is none");
    assert_eq!(check(Some(folder.path())).0, Some(0));
}

/// A library with a box that calls another library, which is found in the same directory.
const ASKING: &str = r#"
#include "thalweg.h"
int64_t answer(void);
static thalweg_status ask(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    (void)data, (void)count, (void)arguments;
    thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(answer())});
    return THALWEG_DONE;
}
static const thalweg_box boxes[] = {THALWEG_BOX("box ask ((<n>) -> (<answer>))", 1, ask)};
THALWEG_LIBRARY(boxes)
"#;

/// Compiles `libask.so` under a name, and in the same directory the library that it needs by `$ORIGIN`.
fn with_neighbour(folder: &Path, name: &str) -> PathBuf {
    let neighbour = folder.join("libneighbour.so");
    compile("long answer(void) { return 42; }", &[], &neighbour);
    let (library, plain) = (folder.join(name), folder.join("ask.c"));
    std::fs::write(&plain, ASKING).expect("a temporary folder takes files");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-O1", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-I"]).arg(include);
    let output =
        command.arg(&plain).arg("-L").arg(folder).arg("-lneighbour").arg("-o").arg(&library).output();
    let output = output.expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn a_library_finds_its_neighbours() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = with_neighbour(folder.path(), "libask.so");
    let network = "net first { box ask ((<n>) -> (<answer>)); } connect ask;";
    let mut run = Run::start_in(folder, network, &["--boxes", library.to_str().expect("a path")]);
    let mut input = run.child.stdin.take().expect("piped");
    let mut output = BufReader::new(run.child.stdout.take().expect("piped"));
    let mut answer = || {
        let mut line = String::new();
        input.write_all(b"{\"<n>\": 1}\n").expect("it reads");
        output.read_line(&mut line).expect("a record");
        line
    };
    assert_eq!(answer(), "{\"<answer>\": 42}\n");
    assert!(run.done("reload", library.to_str()).starts_with("reloaded"));
    assert_eq!(answer(), "{\"<answer>\": 42}\n");
    // The copies from which the builds were loaded have been removed.
    let names = std::fs::read_dir(run.folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name());
    let copies: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".thalweg")).collect();
    assert!(copies.is_empty(), "{copies:?}");
    run.done("stop", None);
    run.end(0);
}

#[test]
fn the_error_of_a_library_that_cannot_be_copied_beside_itself_names_what_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The name is so long that a copy, whose name gets a prefix, would have too long a name for a file.
    let name = format!("lib{}.so", "k".repeat(248));
    let library = with_neighbour(folder.path(), &name);
    let net = write(folder.path(), "first.snet", "net first { box ask ((<n>) -> (<answer>)); } connect ask;");
    let run = |control: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command
            .args(["run", &net])
            .arg("--boxes")
            .arg(&library)
            .args(control)
            .stdin(std::process::Stdio::null());
        let output = command.output().expect("thalweg starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = run(Some("--control"));
    assert_eq!(code, Some(2), "{stderr}");
    for part in ["error[E0904]", "libneighbour.so", "`$ORIGIN`", "File name too long"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(run(None).0, Some(0), "as it is, it is loaded from where it is");
    // A library that needs no other file is loaded in spite of its long name.
    build(folder.path(), 1, &[]);
    std::fs::copy(folder.path().join("build1.so"), &library).expect("a copy");
    let (code, stderr) = run(Some("--control"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(!stderr.contains("E0904"), "another box, but a library: {stderr}");
}

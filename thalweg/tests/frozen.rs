//! Boxes that block a worker for ever, or end the process: the report names these boxes.

mod des_run;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use des_run::{succeed, thalweg};

/// Boxes that pass on each number except 3; at 3, each box fails to return in a way of its own.
const BOXES: &str = r#"
#include "thalweg.h"
#include <stdlib.h>

static volatile int64_t depth;

static int64_t deeper(int64_t n) {
    volatile char page[4096];
    page[n % 4096] = (char)n;
    depth = n;
    return deeper(n + 1) + page[(n + 1) % 4096];
}

#define BOX(name, end)                                                                                    \
    static thalweg_status name(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) { \
        int64_t n = 0;                                                                                     \
        (void)data, (void)count;                                                                           \
        if (!thalweg_get_int(&arguments[0], &n)) return thalweg_fail(out, "n: expected an integer");       \
        if (n == 3) end;                                                                                   \
        thalweg_emit(out, 1, 1, (thalweg_value[]){thalweg_int(n)});                                        \
        return THALWEG_DONE;                                                                               \
    }
BOX(hangs, for (;;) depth = n)
BOX(aborts, abort())
BOX(segfaults, *(volatile int *)depth = 1)
BOX(overflows, n += deeper(0))

static const thalweg_box boxes[] = {
    THALWEG_BOX("box hangs ((<n>) -> (<n>))", 1, hangs),
    THALWEG_BOX("box aborts ((<n>) -> (<n>))", 1, aborts),
    THALWEG_BOX("box segfaults ((<n>) -> (<n>))", 1, segfaults),
    THALWEG_BOX("box overflows ((<n>) -> (<n>))", 1, overflows),
    THALWEG_BLOCKING_BOX("box aborts_alone ((<n>) -> (<n>))", 1, aborts),
};
THALWEG_LIBRARY(boxes)
"#;

fn library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("boxes.c"), folder.join("libboxes.so"));
    std::fs::write(&source, BOXES).expect("a temporary folder takes files");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O0", "-w", "-shared", "-fPIC", "-I"]).arg(des_run::root().join("bindings/c"));
    succeed(compile.arg(source).arg("-o").arg(&library));
    library
}

/// A run that is killed with the test if it does not end before.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a run of a network, with a space for reports.
fn start(folder: &Path, net: &str, monitor: &str) -> Run {
    let file = folder.join("frozen.snet");
    std::fs::write(&file, net).expect("a temporary folder takes files");
    let mut command = thalweg();
    command.arg("run").arg(file).arg("--boxes").arg(library(folder)).arg("--space").arg(folder.join("space"));
    // Every task has a worker of its own.
    command.args(["--workers", "8", "--mapper", "round-robin", "--monitor", monitor]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Run(command.spawn().expect("thalweg starts"))
}

fn report(folder: &Path) -> String {
    String::from_utf8(succeed(thalweg().arg("report").arg(folder.join("space"))).stdout).expect("text")
}

/// The report of a run that the box `name` ended at its fourth record.
fn dead(name: &str, monitor: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = format!("net frozen {{ box {name} ((<n>) -> (<n>)); }} connect {name};");
    let mut run = start(folder.path(), &net, monitor);
    let lines: String = (0..10).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    // The run may be dead before it has read everything.
    let _ = run.0.stdin.take().expect("piped").write_all(lines.as_bytes());
    let status = run.0.wait().expect("a child of ours");
    assert_eq!(status.code(), None, "{name} kills the run");
    report(folder.path())
}

#[test]
fn a_box_that_kills_the_process_is_named() {
    for name in ["aborts", "segfaults", "overflows"] {
        for monitor in ["off", "full"] {
            let report = dead(name, monitor);
            assert!(
                report.contains(&format!("was in frozen/{name}, on its message 3.")),
                "{monitor}: {report}"
            );
        }
    }
}

#[test]
fn a_box_with_its_own_thread_that_kills_the_process_is_named() {
    for monitor in ["off", "full"] {
        let report = dead("aborts_alone", monitor);
        assert!(report.contains("frozen/aborts_alone was on its message 3, on its own thread."), "{report}");
    }
}

/// A run with a worker that never returns from a box: the other workers go on, and the report names the box
/// while the run goes on.
fn hanging(monitor: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net =
        "net frozen { box hangs ((<n>) -> (<n>)); } connect hangs | [{<n>, <other>} -> {<n>, <other>}];";
    let mut run = start(folder.path(), net, monitor);
    let mut input = run.0.stdin.take().expect("piped");
    let mut lines = BufReader::new(run.0.stdout.take().expect("piped")).lines();
    // Each record is read back before the next is written, because the output of a dispatch is visible only
    // when the dispatch ends.
    for n in 0..3 {
        writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
        assert_eq!(lines.next().expect("a line").expect("text"), format!("{{\"<n>\": {n}}}"));
    }
    writeln!(input, "{{\"<n>\": 3}}").expect("it reads");
    let deadline = Instant::now() + Duration::from_secs(30);
    let report = loop {
        let report = report(folder.path());
        if report.contains("hangs: ") {
            break report;
        }
        assert!(Instant::now() < deadline, "{monitor}: {report}");
    };
    assert!(
        report.contains("it has been in frozen/parallel/hangs, on its message 3, for at least"),
        "{report}"
    );
    for n in 0..1000 {
        writeln!(input, "{{\"<n>\": {n}, \"<other>\": {n}}}").expect("it reads");
        assert!(lines.next().expect("a line").expect("text").contains(&format!("\"<other>\": {n}")));
    }
}

#[test]
fn a_box_that_never_returns_is_named_while_others_go_on() {
    hanging("off");
    hanging("metrics");
}

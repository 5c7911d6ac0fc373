//! `thalweg run` on the command line: mistakes, failing records, closed pipes, Ctrl-C.

mod des_run;
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command};

use program::{fed, run, started, write};

/// A network that adds one to `<n>`, and fails on the largest integer.
const COUNT: &str = "net count connect [{<n>} -> {<n=n+1>}];";

/// Runs a network with `arguments`, which must be refused: with exit code 2, with every text of `expected` on
/// standard error, and without a space that is left behind.
fn refused(arguments: &[&str], expected: &[&str]) {
    let spaces = tempfile::tempdir().expect("a temporary folder");
    let output = fed(des_run::thalweg().arg("run").args(arguments).env("THALWEG_SPACES", spaces.path()), "");
    assert_eq!(std::fs::read_dir(&spaces).expect("it is there").count(), 0, "{arguments:?} left a space");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{arguments:?}: no {part:?} in\n{stderr}");
    }
    assert!(output.stdout.is_empty(), "{arguments:?} wrote records");
}

#[test]
fn mistakes_are_refused_with_code_and_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let unknown =
        write(folder.path(), "unknown.snet", "net unknown { box nobody ((a) -> (a)); } connect nobody;");
    let bracket = write(folder.path(), "bracket.snet", "net bracket connect ([{<n>} -> {<n>}] .. [];");
    let mismatch = write(folder.path(), "mismatch.snet", "net mismatch ({a} -> {b}) connect [{c} -> {b=c}];");
    let library = des_run::library().display().to_string();
    let other =
        write(folder.path(), "other.snet", "net other { box round ((data) -> (data)); } connect round;");
    let text = write(folder.path(), "text.so", "not a library");
    let file_as_folder = format!("{count}/space");

    refused(&[&unknown], &["error[E0", "unknown.snet:1:", "nobody"]);
    refused(&[&bracket], &["error[E0", "bracket.snet:1:"]);
    refused(&[&mismatch], &["error[E0", "mismatch.snet:1:", "{a}"]);
    refused(&[&other, "--boxes", &library], &["error[E0", "other.snet:1:", "round"]);
    refused(&["no/such.snet"], &["error[E0", "no/such.snet"]);
    refused(&[&count, "--input", "no/such.jsonl"], &["error[E0901]", "no/such.jsonl"]);
    let directory = folder.path().display().to_string();
    refused(&[&count, "--input", &directory, "--input-bytes", "data"], &["error[E0901]", "directory"]);
    refused(&[&count, "--output", "no/such/folder/out"], &["error[E0901]", "no/such/folder/out"]);
    refused(&[&count, "--boxes", "no/such.so"], &["error[E0904]", "no/such.so"]);
    refused(&[&count, "--boxes", &text], &["error[E0904]", "text.so"]);
    refused(&[&count, "--space", &file_as_folder], &["error[E0903]", &file_as_folder]);
    refused(&[&count, "--workers", "0"], &["error[E0902]", "--workers 0"]);
    refused(&[&count, "--quantum-us", "0"], &["error[E0902]", "exec.quantum_us is 0", "1 to 10000000"]);
    refused(&[&count, "--set", "exec.steal"], &["--set exec.steal", "`=`"]);
    refused(&[&count, "--set", "exec.steel=1"], &["no setting `exec.steel`", "did you mean `exec.steal`"]);
    refused(&[&count, "--set", "exec.clock_budget=101"], &["101 is out of range", "0–100 %"]);
    refused(&[&count, "--with", "{"], &["error[E0902]", "--with"]);
    refused(&[&count, "--input-bytes", "data", "--chunk", "0"], &["error[E0902]", "--chunk 0"]);
    refused(&[&count, "--chunk", "5ms"], &["--chunk", "`ms` is no unit here", "MiB"]);
    refused(&[&count, "--record-bytes", "many"], &["--record-bytes", "`many` is no unit here"]);
    refused(&[&count, "--quantum-us", "64KiB"], &["--quantum-us", "`KiB` is no unit here", "min"]);
    refused(&[&count, "--set", "exec.quantum_us=1MB"], &["`MB` is no unit here", "1–10000000 us"]);
    refused(&[&count, "--input", "file:a?chunk=0"], &["error[E0902]", "such as 65536 or 64KiB"]);
}

#[test]
fn sizes_and_times_have_units() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pass = write(folder.path(), "pass.snet", "net pass connect [];");
    let sizes = |arguments: &[&str]| {
        let output = run(&[&[pass.as_str()], arguments].concat(), &"x".repeat(5000));
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("JSON").lines().count()
    };
    assert_eq!(sizes(&["--input-bytes", "data", "--chunk", "2kB"]), 3);
    assert_eq!(sizes(&["--input-bytes", "data", "--chunk", "1 KiB", "--quantum-us", "1ms"]), 5);
    assert_eq!(sizes(&["--input", "file:/dev/stdin?format=bytes&chunk=1KiB&rate=6000/min"]), 5);
    assert_eq!(
        sizes(&["--input-format", "lines", "--record-bytes", "5KB", "--set", "exec.quantum_us=0.5ms"]),
        1
    );
    let long = run(&[&pass, "--input-format", "lines", "--record-bytes", "4 KiB"], &"x".repeat(5000));
    assert!(String::from_utf8_lossy(&long.stderr).contains("a line of more than 4096 bytes"), "{long:?}");
}

#[test]
fn failed_records_are_reported_and_the_others_arrive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let input = "{\"<n>\": 1}\n{\"<n>\": }\n{\"other\": 2}\n{\"<n>\": 9223372036854775807}\n\n{\"<n>\": 4}\n";
    let output = run(&[&count], input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"<n>\": 2}\n{\"<n>\": 5}\n");
    assert!(stderr.contains("standard input:2:"), "the malformed line has its place: {stderr}");
    assert!(stderr.contains("4 records in, 2 out, 3 failed"), "{stderr}");
}

#[test]
fn settings_are_given_from_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let space = folder.path().join("space").display().to_string();
    let settings = ["--set", "monitor.mode=full", "--set", "exec.clock_budget=0"];
    let output = run(&[&[count.as_str(), "--space", &space], &settings[..]].concat(), "{\"<n>\": 1}\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (setting, value) in [("monitor.mode", 2), ("exec.clock_budget", 0)] {
        let output = des_run::thalweg().args(["get", &space, setting, "--json"]).output();
        let answer: serde_json::Value =
            serde_json::from_slice(&output.expect("thalweg starts").stdout).expect("JSON");
        assert_eq!(answer["value"], value, "{answer}");
    }
}

#[test]
fn every_task_may_have_a_thread_and_every_mapper_gives_the_same_records() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = "net turns connect ([{<n>} -> {<n=n-1>}] ** {<n>} if <n <= 0>) !! <k>;";
    let turns = write(folder.path(), "turns.snet", net);
    let input: String =
        (0..40).map(|n| format!("{{\"<i>\": {n}, \"<n>\": {}, \"<k>\": {}}}\n", n % 7, n % 3)).collect();
    let options: [&[&str]; 6] = [
        &["--threads"],
        &["--mapper", "least-loaded"],
        &["--mapper", "round-robin"],
        &["--workers", "1"],
        &["--unfinished", "1"],
        &["--unfinished", "3", "--threads"],
    ];
    let outputs = options.map(|options| {
        let output = run(&[&[turns.as_str()], options].concat(), &input);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.contains("40 records in, 40 out"), "{options:?}: {stderr}");
        output.stdout
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]), "other records or another order");
    refused(&[&turns, "--threads", "--workers", "2"], &["--threads"]);
}

#[test]
fn what_passes_a_feedback_by_keeps_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "net main connect ([{<n>} -> {<n = n - 1>}] \\ {<n>} if <n % 4 > 0>) || [{a} -> {a}];";
    let net = write(folder.path(), "main.snet", text);
    let (mut input, mut wanted) = (String::new(), String::new());
    for n in 0..400 {
        input += &format!("{{\"<n>\": {n}}}\n{{\"a\": {n}}}\n");
        // Records that match the pattern go round until `<n>` is a multiple of four; multiples of four bypass
        // the loop.
        wanted += &format!("{{\"<n>\": {}}}\n{{\"a\": {n}}}\n", n / 4 * 4);
    }
    for workers in ["1", "2"] {
        let output = run(&[&net, "--workers", workers, "--set", "net.feedback_entry=matching"], &input);
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn dead_letters_keep_the_records_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "halves.snet", "net halves connect [{<n>} -> {<q = 6 / n>}];");
    let letters = folder.path().join("letters.jsonl");
    let letters = letters.to_str().unwrap();
    let input = "{\"<n>\": 3}\n{\"<n>\": 0, \"x\": \"y\"}\n{\"x\": 1}\n";
    let arguments = [net.as_str(), "--on-error", "dead-letter", "--dead-letters", letters];
    let output = run(&arguments, input);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"<q>\": 2}\n");
    let kept = std::fs::read_to_string(letters).unwrap();
    let kept: Vec<serde_json::Value> = kept.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(kept[0]["component"], "halves/filter");
    assert_eq!(kept[0]["reason"], "division by zero");
    assert_eq!(kept[0]["index"], 1);
    assert_eq!(kept[0]["record"], serde_json::json!({"<n>": 0, "x": "y"}));
    assert_eq!(kept[1]["record"], serde_json::json!({"x": 1}));
    let output = run(&[&net, "--on-error", "dead-letter"], input);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--dead-letters"));
}

#[test]
fn an_output_that_nobody_reads_ends_the_run_quietly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let mut child = started(des_run::thalweg().arg("run").arg(&count));
    let mut input = child.stdin.take().expect("piped");
    drop(child.stdout.take());
    // The run closes the pipe sooner or later; until it does, writing succeeds.
    while input.write_all(b"{\"<n>\": 1}\n").is_ok() {}
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn one_interrupt_drains_and_reports() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let mut child = started(des_run::thalweg().arg("run").arg(&count));
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"{\"<n>\": 1}\n{\"<n>\": 2}\n").expect("it reads");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    // Records come out although the input stays open, because output is not held back until a buffer is full.
    output.read_line(&mut line).expect("a record");
    assert_eq!(line, "{\"<n>\": 2}\n");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "{\"<n>\": 3}\n");
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{stderr}");
    assert!(stderr.contains("2 records in, 2 out"), "{stderr}");
}

/// Whether every thread of a process sleeps.
fn all_sleep(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    })
}

/// The output is not read, so the sink waits, the source has to wait for room, and five records are inside
/// the network.
#[test]
fn an_interrupt_while_the_source_is_held_drains_and_reports() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let text = "x".repeat(2000);
    let records: String = (0..2000).map(|n| format!("{{\"<n>\": {n}, \"text\": \"{text}\"}}\n")).collect();
    let input = write(folder.path(), "input.jsonl", &records);
    let mut child = started(des_run::thalweg().args(["run", &count, "--input", &input, "--unfinished", "5"]));
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("a record");
    while (0..3).any(|_| !all_sleep(child.id())) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let rest = output.lines().count();
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{stderr}");
    assert!(stderr.contains(&format!("{0} records in, {0} out", rest + 1)) && rest < 500, "{stderr}");
}

/// Runs `thalweg set`. Returns the command's standard output, or its standard error if the command failed.
fn set(arguments: &[&str]) -> Result<String, String> {
    let output = des_run::thalweg().arg("set").args(arguments).output().expect("thalweg starts");
    let text = |bytes| String::from_utf8(bytes).expect("text").trim_end().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Passes a number through a run of [`COUNT`]; the run's input ends when the value is dropped.
fn counting(child: &mut Child) -> impl FnMut(u64) + use<> {
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    move |n| {
        writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("a record");
        assert_eq!(line, format!("{{\"<n>\": {}}}\n", n + 1));
    }
}

#[test]
fn a_task_of_an_idle_run_is_moved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let space = folder.path().join("space").display().to_string();
    let mut child = started(des_run::thalweg().args(["run", &count, "--workers", "2", "--space", &space]));
    let mut pass = counting(&mut child);
    pass(1);
    let moved = set(&[&space, "task/1.worker", "0"]).expect("moved");
    assert_eq!(moved, "task 1 moves from worker 1 to worker 0");
    pass(2);
    // A woken task moves when its worker looks into its inbox, so the command is repeated until the task is
    // there.
    while set(&[&space, "task/1.worker", "0"]).expect("moved") != "task 1 is on worker 0 already" {}
    assert_eq!(
        set(&[&space, "task/1.worker", "1"]).expect("moved"),
        "task 1 moves from worker 0 to worker 1"
    );
    pass(3);
    for (arguments, expected) in [
        (["task/999.worker", "1"], "task 999 is on no worker"),
        (["task/1.worker", "2"], "no worker 2 takes part: there are 2, from 0"),
        (["task/x.worker", "1"], "`x` is no number of a task"),
        (["task/1.worker", "y"], "`y` is no number of a worker"),
    ] {
        let error = set(&[&[&*space][..], &arguments].concat()).expect_err("refused");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    drop(pass);
    assert!(child.wait().expect("it ends").success());
    let error = set(&[&space, "task/1.worker", "0"]).expect_err("refused");
    assert!(error.contains("has ended"), "{error}");
}

/// The workers of a run, as `thalweg report --json` lists them.
fn workers_of(space: &str) -> Vec<serde_json::Value> {
    let output = des_run::thalweg().args(["report", space, "--json"]).output().expect("thalweg starts");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["workers"].as_array().expect("a list").clone()
}

#[test]
fn workers_of_a_run_are_added_and_parked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let space = folder.path().join("space").display().to_string();
    let arguments = ["run", &count, "--workers", "1", "--workers-max", "3", "--space", &space];
    let mut child = started(des_run::thalweg().args(arguments));
    let mut pass = counting(&mut child);
    pass(1);
    assert_eq!(workers_of(&space).len(), 1);
    for (workers, n) in [("3", 2), ("1", 3)] {
        let printed = set(&[&space, "exec.workers", workers]).expect("set");
        assert!(printed.contains("adopted"), "{printed}");
        pass(n);
    }
    let error = set(&[&space, "exec.workers", "4"]).expect_err("refused");
    assert!(error.contains("1–3 workers"), "{error}");
    while workers_of(&space).iter().filter(|worker| worker["parked_ns"] != 0.0).count() != 2 {}
    drop(pass);
    assert!(child.wait().expect("it ends").success());
    for worker in &workers_of(&space)[1..] {
        let (parked, lived) = (worker["parked_ns"].as_f64(), worker["lifetime_ns"].as_f64());
        assert!(parked > Some(0.0), "{worker}");
        let waiting = worker["shares"]["waiting"].as_f64().unwrap_or(0.0) * lived.expect("a number");
        assert!(waiting <= lived.expect("a number"), "{worker}");
    }
}

#[test]
fn a_run_that_may_use_one_processor_has_one_worker() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = write(folder.path(), "count.snet", COUNT);
    let space = folder.path().join("space").display().to_string();
    let program = des_run::thalweg().get_program().to_owned();
    let mut taskset = std::process::Command::new("taskset");
    let arguments = ["run", &count, "--space", &space];
    let mut child = started(taskset.args(["-c", "0"]).arg(program).args(arguments));
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    assert_eq!(workers_of(&space).len(), 1);
}

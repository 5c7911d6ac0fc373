//! Inputs and outputs of `thalweg run`: formats, places, several of them, their pace, and malformed or
//! endless input.

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{Killed, run, started, write};

/// A network that passes every record on unchanged.
const SAME: &str = "net same connect [];";

fn same(folder: &Path) -> String {
    write(folder, "same.snet", SAME)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a run that must succeed.
fn written(arguments: &[&str], input: &str) -> String {
    let output = run(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A run without input on standard input.
fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let mut child = started(command.arg("run").args(arguments));
    drop(child.stdin.take());
    child
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

/// The address at which the run listens; a thread reads the other lines of its standard error, so that the
/// run never blocks.
fn listening(child: &mut Child) -> (String, std::thread::JoinHandle<String>) {
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it says where");
    let place = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}")).to_owned();
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map(|_| rest).expect("text")
    });
    (place, rest)
}

#[test]
fn csv_goes_in_and_out() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "add.snet", "net add connect [{<n>} -> {<n=n+1>}];");
    let input = write(folder.path(), "in.csv", "name,<n>,x\n\"a, b\",1,2.5\nc,2,\n\"say \"\"hi\"\"\",3,4\n");
    let lines = written(&[&net, "--input", &input], "");
    assert_eq!(
        lines,
        "{\"name\": \"a, b\", \"x\": 2.5, \"<n>\": 2}\n{\"name\": \"c\", \"<n>\": 3}\n{\"name\": \"say \\\"hi\\\"\", \"x\": 4, \"<n>\": 4}\n"
    );
    let rows = written(&[&net, "--input", &input, "--output-format", "csv"], "");
    assert_eq!(rows, "name,x,<n>\n\"a, b\",2.5,2\nc,,3\n\"say \"\"hi\"\"\",4,4\n");
    let tabs = folder.path().join("out.tsv");
    written(&[&net, "--input", &input, "--output", tabs.to_str().unwrap()], "");
    assert_eq!(std::fs::read_to_string(tabs).unwrap().lines().next(), Some("name\tx\t<n>"));
    // A record whose labels differ from those of the first record cannot be written as a row, and is
    // reported.
    let same = same(folder.path());
    let output =
        run(&[&same, "--output-format", "csv"], "{\"a\": 1}\n{\"b\": 1}\n{\"a\": {\"$base64\": \"AA==\"}}\n");
    assert_eq!(text(&output.stdout), "a\n1\n");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("b is no column of this CSV output; its columns are those of the first record: a"),
        "{stderr}"
    );
    assert!(stderr.contains("a is bytes, which has no form in CSV"), "{stderr}");
}

#[test]
fn lines_and_files_are_records() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let input = "one\n\ntwo\r\nthree";
    assert_eq!(
        written(&[&net, "--input-format", "lines", "--output-format", "lines"], input),
        "one\n\ntwo\nthree\n"
    );
    let labelled = write(folder.path(), "labelled.txt", input);
    let place = format!("file:{labelled}?format=lines&label=text");
    assert!(written(&[&net, "--input", &place], "").starts_with("{\"text\": \"one\"}\n{\"text\": \"\"}\n"));

    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    write(&inside, "b.bin", "B");
    write(&inside, "a.bin", "A");
    write(&inside, ".hidden", "H");
    std::fs::create_dir(inside.join("deeper")).unwrap();
    let copied = folder.path().join("copied");
    let (inside, copied) = (inside.to_str().unwrap(), copied.to_str().unwrap());
    let arguments = [
        net.as_str(),
        "--input",
        inside,
        "--input-format",
        "files",
        "--output",
        copied,
        "--output-format",
        "files",
    ];
    written(&arguments, "");
    let mut names: Vec<_> =
        std::fs::read_dir(copied).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.bin", "b.bin"]);
    assert_eq!(std::fs::read_to_string(format!("{copied}/b.bin")).unwrap(), "B");
    // A directory of record files is read one after another, each by its own format.
    let many = folder.path().join("many");
    std::fs::create_dir(&many).unwrap();
    write(&many, "1.csv", "x\n1\n");
    write(&many, "2.jsonl", "{\"x\": 2}");
    assert_eq!(written(&[&net, "--input", many.to_str().unwrap()], ""), "{\"x\": 1}\n{\"x\": 2}\n");
}

#[test]
fn peers_connect_over_tcp_and_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let socket = folder.path().join("in.sock");
    let place = format!("unix-listen:{}?keep", socket.display());
    let mut child = start(&[&net, "--input", &place, "--control"]);
    let (_, rest) = listening(&mut child);
    let mut records = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for peer in 0..3 {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        writeln!(stream, "{{\"peer\": {peer}}}").unwrap();
        line.clear();
        records.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{{\"peer\": {peer}}}\n"));
    }
    // A peer that breaks off in a record costs that record alone.
    write!(UnixStream::connect(&socket).expect("it listens"), "{{\"peer\"").unwrap();
    UnixStream::connect(&socket).expect("it listens").write_all(b"{\"peer\": 9}\n").unwrap();
    line.clear();
    records.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"peer\": 9}\n");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.join().unwrap().contains("4 records in, 4 out, 1 failed"));
    assert!(!socket.exists(), "the socket is removed");

    let mut child = start(&[&net, "--input", "tcp-listen://:0", "--output-format", "csv"]);
    let (place, rest) = listening(&mut child);
    let address = place.strip_prefix("tcp-listen://").expect("an address");
    assert!(address.starts_with("127.0.0.1:") || address.starts_with("[::1]:"), "loopback: {address}");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"{\"a\": 1}\n{\"a\": 2}").unwrap();
    drop(stream);
    assert_eq!(text(&end(child).stdout), "a\n1\n2\n");
    assert!(rest.join().unwrap().contains("2 records in, 2 out"));
}

#[test]
fn two_runs_are_joined_by_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let mut reader = start(&[&net, "--input", "tcp-listen://:0"]);
    let (place, _rest) = listening(&mut reader);
    let place = place.replace("tcp-listen", "tcp");
    let input: String = (0..10_000).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    written(&[&net, "--output", &place], &input);
    assert_eq!(text(&end(reader).stdout), input);
    let output = run(&[&net, "--output", &place], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("start the peer first"), "{}", text(&output.stderr));
}

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
}

#[test]
fn several_inputs_are_merged_and_outputs_chosen_by_type() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let count = 5000;
    let lines = |label: &str| (0..count).map(|n| format!("{{\"{label}\": {n}}}\n")).collect::<String>();
    let first = write(folder.path(), "first.jsonl", &lines("a"));
    let second = write(folder.path(), "second.jsonl", &lines("b"));
    let third = folder.path().join("third.csv").display().to_string();
    let (first, second) = (format!("first={first}"), format!("file:{second}?with={{\"a\":-1}}"));
    let chosen = format!("both=file:{third}?type={{a,b}}");
    let rest = folder.path().join("rest.jsonl").display().to_string();
    let arguments = [
        &*net,
        "--input",
        &first,
        "--input",
        &second,
        "--output",
        &rest,
        "--output",
        &chosen,
        "--workers",
        "2",
    ];
    written(&arguments, "");
    assert_eq!(std::fs::read_to_string(&rest).unwrap(), lines("a"));
    let rows: String = (0..count).map(|n| format!("-1,{n}\n")).collect();
    assert_eq!(std::fs::read_to_string(&third).unwrap(), format!("a,b\n{rows}"));

    let output = run(&[&net, "--output", &chosen, "--output", "bad=file:/dev/null?type={c}"], "{\"a\": 1}\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no --output takes the record {a=1}"), "{}", text(&output.stderr));
    let output = run(&[&net, "--output", "/dev/null", "--output", "file:/dev/null"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("take the same records"), "{}", text(&output.stderr));
}

#[test]
fn a_run_of_several_inputs_pauses_and_loads() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let space = folder.path().join("space").display().to_string();
    let mut child =
        start(&[&net, "--input", "tcp-listen://:0", "--input", "/dev/null", "--control", "--space", &space]);
    let (place, rest) = listening(&mut child);
    let mut stream = TcpStream::connect(place.strip_prefix("tcp-listen://").unwrap()).expect("it listens");
    let mut records = BufReader::new(child.stdout.take().unwrap());
    let mut pass = |n: i32| {
        writeln!(stream, "{{\"n\": {n}}}").unwrap();
        let mut line = String::new();
        records.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(pass(1), "{\"n\": 1}\n");
    let renamed = write(folder.path(), "renamed.snet", "net renamed connect [{n} -> {m=n}];");
    let command = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    command(&["load", &space, &renamed]);
    assert_eq!(pass(2), "{\"m\": 2}\n");
    drop((stream, records));
    assert!(child.wait().unwrap().success());
    assert!(rest.join().unwrap().contains("2 records in, 2 out"));
}

#[test]
fn a_rate_and_a_recording_set_the_pace() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let input: String = (0..20).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
    let recorded = folder.path().join("recorded.jsonl");
    let recorded = recorded.to_str().unwrap();
    let began = Instant::now();
    assert_eq!(written(&[&net, "--rate", "100", "--record", recorded], &input), input);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(190), "20 records at 100 a second took {took:?}");

    let times: Vec<u64> = std::fs::read_to_string(recorded)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["<at_ns>"].as_u64().unwrap())
        .collect();
    let span = Duration::from_nanos(times[19] - times[0]);
    let began = Instant::now();
    assert_eq!(written(&[&net, "--replay", "--input", recorded], ""), input);
    assert!(began.elapsed() >= span, "the replay keeps {span:?}");
    let slow: String =
        (0..20).map(|n| format!("{{\"<at_ns>\": {}, \"<n>\": {n}}}\n", n * 3_000_000_000_u64)).collect();
    let path = folder.path().join("slow.jsonl");
    std::fs::write(&path, &slow).unwrap();
    let began = Instant::now();
    assert_eq!(written(&[&net, "--replay", "1000", "--input", path.to_str().unwrap()], ""), input);
    assert!(began.elapsed() < Duration::from_secs(57), "a thousand times as fast");
    let output = run(&[&net, "--replay"], &input);
    assert!(text(&output.stderr).contains("a record without <at_ns>"), "{}", text(&output.stderr));
}

/// The peak resident memory of a process in bytes; `None` when it has ended.
fn peak_bytes(child: &Child) -> Option<u64> {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it was not waited for");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024)
}

/// Feeds `bytes` of an endless record, then `after`; returns the run's output, its messages, and its peak
/// memory.
fn fed_with_endless_record(arguments: &[&str], bytes: usize, begin: &str, after: &str) -> (Output, u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let mut child = started(command.arg("run").args(arguments));
    let mut input = child.stdin.take().unwrap();
    let block = vec![b'x'; 1 << 20];
    let mut peak = 0;
    let fed = input.write_all(begin.as_bytes()).and_then(|()| {
        (0..bytes >> 20).try_for_each(|_| {
            peak = peak_bytes(&child).unwrap_or(peak);
            input.write_all(&block)
        })?;
        input.write_all(after.as_bytes())
    });
    drop(input);
    let output = child.wait_with_output().unwrap();
    // If the format cannot continue after an endless record, the run fails without reading the whole input.
    if fed.is_err() {
        assert!(!output.status.success());
    }
    (output, peak)
}

#[test]
fn a_line_of_a_gigabyte_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let gigabyte = 1 << 30;
    let limit = 300 << 20;
    let endless = |arguments: &[&str], begin: &str, after: &str| {
        let all = [&[net.as_str()], arguments].concat();
        let (output, peak) = fed_with_endless_record(&all, gigabyte, begin, after);
        let stderr = text(&output.stderr);
        assert!(peak > 0 && peak < limit, "{arguments:?}: {peak} bytes");
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("more than 67108864 bytes"), "{stderr}");
        assert!(stderr.contains("--record-bytes allows for more"), "{stderr}");
        text(&output.stdout)
    };
    assert_eq!(endless(&[], "{\"a\": 1}\n{\"a\": \"", "\"}\n{\"a\": 2}\n"), "{\"a\": 1}\n{\"a\": 2}\n");
    assert_eq!(endless(&["--input-format", "csv"], "a\n1\n", "\n2\n"), "{\"a\": 1}\n{\"a\": 2}\n");
    assert_eq!(endless(&["--input-format", "lines"], "one\n", "\n"), "{\"line\": \"one\"}\n");
    assert_eq!(
        endless(
            &["--input-format", "xml"],
            "<record><tag label='a'>1</tag></record><record><field label='b'>",
            ""
        ),
        "{\"<a>\": 1}\n"
    );
}

#[test]
fn text_that_is_not_utf8_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    for (format, before, bad, after) in [
        ("json", "", &b"{\"a\": \"\xff\"}"[..], "{\"a\": 1}"),
        ("csv", "a\n", b"\xff", "1"),
        ("lines", "", b"\xc3", "fine"),
    ] {
        let path = folder.path().join("in");
        let input = [before.as_bytes(), bad, b"\n", after.as_bytes(), b"\n"].concat();
        std::fs::write(&path, input).unwrap();
        let output = run(&[&net, "--input", path.to_str().unwrap(), "--input-format", format], "");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("error[E0905]") && stderr.contains("UTF-8"), "{format}: {stderr}");
        assert_eq!(text(&output.stdout).lines().count(), 1, "{format}: {stderr}");
    }
}

#[test]
fn a_consumer_that_does_not_read_holds_the_run_back() {
    let folder = tempfile::tempdir().unwrap();
    let net = same(folder.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["run", &net]).stderr(Stdio::null());
    let mut run = Killed::start(&mut command, folder.path());
    let mut input = run.child.stdin.take().unwrap();
    rustix::io::ioctl_fionbio(&input, true).unwrap();
    let line = format!("{{\"text\": \"{}\"}}\n", "x".repeat(1000));
    // Writes until the run reads nothing for a while.
    let (mut taken, mut full_since) = (0_usize, Instant::now());
    while full_since.elapsed() < Duration::from_millis(500) {
        match input.write(line.as_bytes()) {
            Ok(count) => (taken, full_since) = (taken + count, Instant::now()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        assert!(taken < 64 << 20, "it takes ever more");
    }
    let peak = peak_bytes(&run.child).expect("it runs");
    assert!(peak < 300 << 20, "{peak} bytes");
}

//! `thalweg` at a terminal: a pseudo-terminal at whose other end the test reads and writes.

mod program;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use program::write;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Both ends of a pseudo-terminal: the test has one, and the program has the other.
fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it opens");
    (File::from(ours), File::from(theirs))
}

#[test]
fn a_run_that_waits_for_somebody_to_type_prints_a_message() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "plus.snet", "net plus connect [{<n>} -> {<n = n + 1>}];");
    let (mut keyboard, terminal) = terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["run", &net]).stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("thalweg starts");
    drop(command);
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it says something");
    assert!(line.contains("waiting for records from this terminal (a JSON object a line)"), "{line}");
    assert!(line.contains("Ctrl-D"), "{line}");
    keyboard.write_all(b"{\"<n>\": 1}\n").expect("it is typed");
    let mut records = BufReader::new(child.stdout.take().expect("piped"));
    let mut record = String::new();
    records.read_line(&mut record).expect("a record");
    assert_eq!(record, "{\"<n>\": 2}\n");
    // The byte 4 is Ctrl-D, which ends the input.
    keyboard.write_all(&[4]).expect("it is typed");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("it ends").success(), "{rest}");
}

#[test]
fn a_run_on_a_pipe_does_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "same.snet", "net same connect [];");
    let output = program::run(&[&net], "{\"<n>\": 1}\n");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !stderr.contains("waiting"), "{stderr}");
}

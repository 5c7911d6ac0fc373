//! The program as a child process.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a temporary folder takes files");
    path.display().to_string()
}

pub(crate) fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = started(Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("run").args(arguments));
    // A run that refuses its arguments does not read its input.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

pub(crate) fn started(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("thalweg starts")
}

//! A run that accepts commands, for tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn thalweg() -> Command {
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
}

/// A run under control.
pub(crate) struct Run {
    pub(crate) child: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Run {
    /// Starts a run of `text` with `--control`, in a space of its own.
    pub(crate) fn start(text: &str) -> Run {
        Run::start_in(tempfile::tempdir().expect("a temporary folder"), text, &[])
    }

    /// Starts such a run in the given folder, with more arguments.
    pub(crate) fn start_in(folder: tempfile::TempDir, text: &str, arguments: &[&str]) -> Run {
        let net = write(folder.path(), "first.snet", text);
        let mut command = thalweg();
        command.args(["run", "--control", "--workers", "2", "--capacity", "16", "--space"]);
        command.arg(folder.path().join("space")).arg(net).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = Run { child: command.spawn().expect("thalweg starts"), folder };
        let until = Instant::now() + Duration::from_secs(20);
        // The run is ready when the mailbox has its magic number, which is written last.
        let made = |bytes: Vec<u8>| bytes.get(..8).is_some_and(|magic| magic != [0; 8]);
        while !std::fs::read(run.space().join("mailbox")).is_ok_and(made) {
            assert!(Instant::now() < until, "no mailbox");
            std::thread::yield_now();
        }
        run
    }

    pub(crate) fn space(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    pub(crate) fn command(&self, name: &str, argument: Option<&str>) -> Output {
        let mut command = thalweg();
        command.arg(name).arg(self.space()).args(argument);
        command.output().expect("thalweg starts")
    }

    /// Sends a command that must succeed. Returns its output.
    pub(crate) fn done(&self, name: &str, argument: Option<&str>) -> String {
        let output = self.command(name, argument);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {stderr}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Waits for the end. Returns the messages that the run printed.
    pub(crate) fn end(mut self, code: i32) -> String {
        let mut stderr = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(code), "{stderr}");
        stderr
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a temporary folder takes files");
    path.display().to_string()
}

/// Writes numbered records as fast as they are read, until `stop` is set. Returns their number.
pub(crate) fn load(mut input: ChildStdin, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            let lines: String = (number..number + 100).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
            input.write_all(lines.as_bytes()).expect("it reads");
            number += 100;
        }
        number
    })
}

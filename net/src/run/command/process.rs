//! The processes of a program: how they are started, read and ended.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::link::locked;
use super::part::CommandPart;

/// The most bytes of an answer; with `filter` and `each`, of all answers to one record.
pub(super) const ANSWER_BYTES_MAX: u64 = 1 << 26;
/// How long a program that has closed its output may take to end by itself.
const END_PATIENCE: Duration = Duration::from_millis(200);
/// The number of last lines of the program's standard error that a failure shows.
const LAST_WORDS: usize = 3;
/// The most bytes of each line of standard error that a failure shows.
const WORD_BYTES: usize = 200;
/// The exit codes of `sh` when the program does not exist, or may not be run.
const CANNOT_RUN: [i32; 2] = [126, 127];
/// The exit code of `grep` when it finds no match.
const FOUND_NOTHING: i32 = 1;

/// Starts the processes of a command.
pub(super) struct Asker {
    /// The name of the component, which precedes lines of the program's standard error.
    pub(super) name: String,
    pub(super) part: Arc<CommandPart>,
}

impl Asker {
    /// Starts a process; also returns its standard input.
    ///
    /// # Errors
    /// The reason why no process can be started.
    pub(super) fn start(&self) -> Result<(Process, ChildStdin), String> {
        Process::start(&self.part.command, &self.name).map_err(|error| format!("cannot start `sh`: {error}"))
    }

    /// Starts a process that gets only these lines as input.
    pub(super) fn ask(&self, lines: Vec<u8>) -> Result<Process, String> {
        let (mut process, mut stdin) = self.start()?;
        // A thread writes the lines, because the process may answer before it has read all.
        process.feed(move || stdin.write_all(&lines));
        Ok(process)
    }

    /// The command, as messages show it.
    pub(super) fn command(&self) -> String {
        format!("the command `{}`", shortened(&self.part.command))
    }
}

/// How a process ended.
pub(super) struct Ended {
    /// How the process ended, in words, without the command.
    pub(super) how: String,
    /// Whether the process read all its input.
    pub(super) is_fed: bool,
    /// Whether `sh` could not run the program.
    pub(super) cannot_run: bool,
    /// The process's exit code, if all its output was read.
    code: Option<i32>,
    /// Whether the process wrote to its standard error.
    spoke: bool,
}

impl Ended {
    /// Whether the process exited with success, and all its output was read.
    pub(super) fn has_succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// Whether the process has succeeded, and read all its input.
    pub(super) fn is_clean(&self) -> bool {
        self.is_fed && self.has_succeeded()
    }

    /// Whether the process read all its input, wrote nothing to its standard error, and exited as `grep` does
    /// when it finds no match.
    pub(super) fn found_nothing(&self) -> bool {
        self.is_fed && self.code == Some(FOUND_NOTHING) && !self.spoke
    }
}

/// The result of reading from a process.
pub(super) enum Came {
    Line,
    /// No line came for a while.
    Nothing,
    /// The process has ended.
    End,
}

/// A process of the program.
pub(super) struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Whether the process was waited for (`waitpid`). Until a process was waited for, no other process can
    /// get its process id.
    is_waited_for: bool,
    /// The thread that writes the rest of the process's input; returns whether the process read all of it.
    feeding: Option<JoinHandle<bool>>,
    /// The reason why no more answers of the process are read.
    fault: Option<String>,
    /// The last line, if it has no line end.
    partial: Option<String>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    listener: JoinHandle<()>,
}

impl Process {
    fn start(command: &str, name: &str) -> io::Result<(Process, ChildStdin)> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The terminal sends Ctrl-C to the run alone, which then lets the program finish.
            .process_group(0)
            .spawn()?;
        let stdin = child.stdin.take().expect("it is a pipe");
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().expect("it is a pipe"));
        let stderr = child.stderr.take().expect("it is a pipe");
        let last_words = Arc::default();
        let listener = std::thread::Builder::new().name("command's errors".into()).spawn({
            let (name, last_words) = (name.to_owned(), Arc::clone(&last_words));
            move || listen(stderr, &name, &last_words)
        })?;
        let process = Process {
            child,
            stdout,
            is_waited_for: false,
            feeding: None,
            fault: None,
            partial: None,
            last_words,
            listener,
        };
        Ok((process, stdin))
    }

    /// Writes the rest of the process's input in a thread, and closes the input. A thread of its own is
    /// needed because writing may wait until the process reads.
    pub(super) fn feed(&mut self, write: impl FnOnce() -> io::Result<()> + Send + 'static) {
        self.feeding = Some(std::thread::spawn(move || write().is_ok()));
    }

    /// Whether a line can be read without waiting.
    pub(super) fn has_line(&self) -> bool {
        self.stdout.buffer().contains(&b'\n')
    }

    /// Reads the next line. Waits for the line, unless `speaks` reports that none will come for a while.
    pub(super) fn read(&mut self, speaks: impl FnOnce(&Process) -> bool, line: &mut Vec<u8>) -> Came {
        if self.fault.is_none() && !self.has_line() && !speaks(self) {
            return Came::Nothing;
        }
        if self.read_line(line) { Came::Line } else { Came::End }
    }

    /// Whether the process prints something, or ends, within `patience`.
    pub(super) fn speaks_within(&self, patience: Duration) -> bool {
        let mut descriptors = [PollFd::new(self.stdout.get_ref(), PollFlags::IN)];
        let patience = Timespec::try_from(patience).ok();
        !matches!(poll(&mut descriptors, patience.as_ref()), Ok(0))
    }

    pub(super) fn read_line(&mut self, line: &mut Vec<u8>) -> bool {
        line.clear();
        if self.fault.is_some() {
            return false;
        }
        match self.stdout.by_ref().take(ANSWER_BYTES_MAX).read_until(b'\n', line) {
            Ok(_) if line.last() == Some(&b'\n') => return true,
            Ok(0) => {}
            Ok(count) if count as u64 == ANSWER_BYTES_MAX => self.gave_too_much(),
            Ok(_) => self.partial = Some(quoted(line)),
            Err(error) => self.refuse(format!("gave answers that cannot be read: {error}")),
        }
        false
    }

    pub(super) fn gave_too_much(&mut self) {
        self.refuse(format!("gave more than {ANSWER_BYTES_MAX} bytes for one record"));
    }

    /// Stops reading from the process, for the reason given.
    pub(super) fn refuse(&mut self, what: String) {
        self.fault = Some(what);
    }

    /// Kills the process, if it does not end by itself.
    pub(super) fn end(&mut self) -> Ended {
        if self.fault.is_none() {
            patiently(|| self.has_ended());
        }
        let status = self.kill();
        patiently(|| self.listener.is_finished());
        let is_fed = self.took_the_rest();
        let is_read = self.fault.is_none() && self.partial.is_none();
        let words: Vec<String> = locked(&self.last_words).iter().cloned().collect();
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let mut how = match (self.fault.take(), status) {
            (Some(fault), _) => fault,
            (None, Ok(status)) => ended(status),
            (None, Err(error)) => format!("cannot be waited for: {error}"),
        };
        if let Some(partial) = self.partial.take() {
            how += &format!("; its last line has no end: {partial}");
        }
        if !words.is_empty() {
            how += &format!("; it said: {}", words.join(" / "));
        }
        Ended {
            how,
            is_fed,
            cannot_run: code.is_some_and(|code| CANNOT_RUN.contains(&code)),
            code: code.filter(|_| is_read),
            spoke: !words.is_empty(),
        }
    }

    /// Whether the process read the rest of its input, which the feeding thread wrote.
    fn took_the_rest(&mut self) -> bool {
        let Some(feeding) = self.feeding.take() else { return true };
        patiently(|| feeding.is_finished());
        feeding.is_finished() && feeding.join().unwrap_or(false)
    }

    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = Pid::from_child(&self.child);
        !matches!(waitid(WaitId::Pid(id), options), Ok(None))
    }

    /// Kills the shell and the processes that it started.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        // The whole process group is killed, so that no child is left.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.is_waited_for = true;
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_waited_for {
            let _ = self.kill();
        }
    }
}

/// Waits for a limited time until `is_done`.
fn patiently(mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + END_PATIENCE;
    while !is_done() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code} and left the record without an answer"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}

/// Forwards the program's standard error, and keeps its last lines.
fn listen(stderr: ChildStderr, name: &str, last_words: &Mutex<VecDeque<String>>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while stderr.by_ref().take(1 << 16).read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line);
        eprintln!("{name}: {}", text.trim_end());
        let mut words = locked(last_words);
        if words.len() == LAST_WORDS {
            words.pop_front();
        }
        words.push_back(shortened(text.trim_end()));
        drop(words);
        line.clear();
    }
}

/// A line in the form for messages.
pub(super) fn quoted(line: &[u8]) -> String {
    format!("`{}`", shortened(&String::from_utf8_lossy(line)))
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(WORD_BYTES) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

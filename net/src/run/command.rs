//! A box that is a program: it reads records as JSON Lines and answers each line with one line.
//!
//! ```text
//!           ┌── records without an answer yet ──┐
//! records ─► feeder ── lines ─► program ── lines ─► answerer ─► records
//! ```
//! An answer is an object (a record), a list of objects (several), or nothing, `null` or `[]` (none). The program reads the
//! labels that the box takes; what it does not take is inherited past it, as past any box. Answers come in the order of the
//! lines, so nothing but their order says what answers what.
//!
//! The feeder does not wait for answers: a program that writes in blocks gets on, too. If nothing comes for a while, its input
//! is closed, which makes it write what it holds back, and the feeder goes on with a new process. When it dies with records
//! unanswered, the feeder goes on with a new process, too, and the unanswered records are asked again, each batch of them of a
//! process of its own, in ever smaller batches, until the record that it dies of is alone: that fails, with what the
//! program said last.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use thalweg_box::{Emitted, Value};
use thalweg_exec::{Blocking, In, Out};

use super::failure::{Message, Position};
use super::input::Input;
use super::pipe::Pipe;
use super::plan::BoxPlan;
use crate::json;
use crate::label::Label;
use crate::plan::{PlanCache, RecordFault};
use crate::record::{Ends, Record};
use crate::shape::ShapeId;

/// Records without an answer at most.
pub(crate) const OUTSTANDING_MAX: usize = 4096;
/// Bytes of lines without an answer at most (of several lines).
const BYTES_MAX: usize = 1 << 20;
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 1 << 26;
/// How long the answerer waits, at first, for an answer that the program may hold back.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How long a program that has closed its output may take to end by itself.
const END_PATIENCE: Duration = Duration::from_millis(200);
/// What a failure tells of the program's standard error: its last lines.
const LAST_WORDS: usize = 3;
/// Bytes of such a line at most.
const WORD_BYTES: usize = 200;
/// What `sh` ends with when there is no such program, or it may not be run.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// A box's command and its labels.
#[derive(Debug)]
pub(crate) struct CommandPart {
    pub(crate) command: Arc<str>,
    pub(crate) input: Vec<Label>,
    pub(crate) outputs: Arc<[Vec<Label>]>,
}

/// The two tasks of such a box.
pub(crate) fn tasks(
    position: Position,
    part: Arc<CommandPart>,
    (input, sent): (In<Record>, Out<Record>),
    (outstanding, out): (In<Record>, Out<Record>),
) -> (Feeder, Answerer) {
    let link = Arc::new(Link::default());
    let feeder =
        Feeder { part: part.clone(), link: link.clone(), input: Input::new(input), sent, line: Vec::new() };
    let answerer = Answerer {
        asker: Asker { name: position.path(), part, link },
        position,
        pipe: Pipe::new(outstanding, out),
        plans: PlanCache::new(),
        variant: None,
        taken: 0,
        again_until: 0,
        batch: OUTSTANDING_MAX,
        answers: VecDeque::new(),
        line: Vec::new(),
        processes: VecDeque::new(),
        hopeless: None,
        patience: PATIENCE,
    };
    (feeder, answerer)
}

/// What the two tasks share.
#[derive(Default)]
struct Link {
    writing: Mutex<Writing>,
    started: Condvar,
    unanswered: Mutex<Unanswered>,
    answered: Condvar,
}

/// The program's standard input.
#[derive(Default)]
struct Writing {
    /// Of the process that was started last. None: it died, or was closed.
    stdin: Option<BufWriter<ChildStdin>>,
    /// A process was started, or could not be.
    is_started: bool,
    /// The feeder will send nothing more.
    is_over: bool,
    /// How many records went past here.
    sent: u64,
}

/// The lengths of the lines that were sent and not answered.
#[derive(Default)]
struct Unanswered {
    lines: VecDeque<usize>,
    bytes: usize,
}

impl Link {
    fn wait_for_start(&self) {
        let mut writing = locked(&self.writing);
        while !writing.is_started {
            writing = self.started.wait(writing).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the program has answered enough to be sent more.
    fn wait_for_room(&self, line: usize) {
        let has_room =
            |unanswered: &Unanswered| unanswered.lines.is_empty() || unanswered.bytes + line <= BYTES_MAX;
        if has_room(&locked(&self.unanswered)) {
            return;
        }
        // What shall be answered must have been sent.
        self.flush();
        let mut unanswered = locked(&self.unanswered);
        while !has_room(&unanswered) {
            unanswered = self.answered.wait(unanswered).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends the line of the next record, which is outstanding already; none: the program is not asked about it.
    fn send(&self, line: Option<&[u8]>) {
        let mut writing = locked(&self.writing);
        writing.sent += 1;
        let Some(line) = line else { return };
        let mut unanswered = locked(&self.unanswered);
        unanswered.lines.push_back(line.len());
        unanswered.bytes += line.len();
        drop(unanswered);
        if let Some(stdin) = &mut writing.stdin
            && stdin.write_all(line).is_err()
        {
            writing.stdin = None;
        }
    }

    fn flush(&self) {
        let mut writing = locked(&self.writing);
        if let Some(stdin) = &mut writing.stdin
            && stdin.flush().is_err()
        {
            writing.stdin = None;
        }
    }

    fn close(&self) {
        self.flush();
        let mut writing = locked(&self.writing);
        writing.stdin = None;
        writing.is_over = true;
    }

    fn note_answer(&self) {
        let mut unanswered = locked(&self.unanswered);
        if let Some(line) = unanswered.lines.pop_front() {
            unanswered.bytes -= line;
        }
        drop(unanswered);
        self.answered.notify_one();
    }
}

/// A panic under these locks leaves every step either done or not begun.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends records to the program.
pub(crate) struct Feeder {
    part: Arc<CommandPart>,
    link: Arc<Link>,
    input: Input,
    sent: Out<Record>,
    line: Vec<u8>,
}

impl Feeder {
    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        self.link.wait_for_start();
        loop {
            if self.input.is_empty() {
                self.link.flush();
            }
            let Some(record) = self.input.next_blocking(blocking) else { break };
            let is_asked = self.part.write_line(&record, &mut self.line);
            if is_asked {
                self.link.wait_for_room(self.line.len());
            }
            if self.sent.room(blocking.context()) == 0 {
                // Room comes with answers, and answers with what was sent.
                self.link.flush();
            }
            // First: what was sent must be known to be outstanding.
            if blocking.push(&mut self.sent, record).is_err() {
                break;
            }
            blocking.context().derived(&self.sent);
            self.link.send(is_asked.then_some(&self.line));
        }
        self.link.close();
    }
}

impl CommandPart {
    /// The line that asks about a record; false: it is a mark, or lacks a label that the box takes.
    fn write_line(&self, record: &Record, line: &mut Vec<u8>) -> bool {
        line.clear();
        let is_asked = record.shape() != ShapeId::MARK && json::write_labels(record, &self.input, line);
        line.push(b'\n');
        is_asked
    }
}

/// Turns the program's answers into records.
pub(crate) struct Answerer {
    asker: Asker,
    position: Position,
    pipe: Pipe,
    plans: PlanCache<Result<Arc<BoxPlan>, RecordFault>>,
    /// Of the answers of the shape that came last: their variant, and where its values stand.
    variant: Option<(ShapeId, usize, Vec<usize>)>,
    /// Records taken off the outstanding ones.
    taken: u64,
    /// The records up to this one were sent to a process that died: they are asked again.
    again_until: u64,
    /// So many of them at once at most.
    batch: usize,
    /// Their answers.
    answers: VecDeque<Vec<u8>>,
    line: Vec<u8>,
    /// The one whose answers come next, and the one that the feeder writes to.
    processes: VecDeque<Process>,
    /// Why no process will be started any more.
    hopeless: Option<String>,
    patience: Duration,
}

/// A record that the program was asked about, and what becomes of its answers.
struct Asked {
    message: Message,
    record: Record,
    plan: Arc<BoxPlan>,
}

impl Answerer {
    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        self.start();
        while let Some(record) = self.pipe.input.next_blocking(blocking) {
            self.taken += 1;
            if let Some(asked) = self.asked(blocking, record) {
                let answered = self.answer(blocking, &asked.record);
                self.asker.link.note_answer();
                match answered {
                    Ok(()) => self.emit(blocking, asked),
                    Err(reason) => self.fail(blocking, asked, reason),
                }
            }
            while let Some(record) = self.pipe.output.take_waiting() {
                if blocking.push(&mut self.pipe.output.out, record).is_err() {
                    return;
                }
                blocking.context().derived(&self.pipe.output.out);
            }
        }
        while let Some(process) = self.processes.pop_front() {
            self.finish(process);
        }
    }

    /// Starts the process for the feeder's next lines; returns how many records went past the feeder before.
    fn start(&mut self) -> u64 {
        let (sent, started) = self.asker.start_for_feeder();
        match started {
            Ok(process) => self.processes.push_back(process),
            Err(reason) => self.hopeless = Some(reason),
        }
        sent
    }

    /// Waits for the end of a process that has answered everything.
    fn finish(&mut self, mut process: Process) {
        if process.read_line(&mut self.line) {
            let line = String::from_utf8_lossy(&self.line);
            panic!("the command gave more answers than it was asked for, so others may be wrong: {line}");
        }
    }

    /// The record with what its answers need; marks go on, records that lack a label fail.
    fn asked(&mut self, blocking: &mut Blocking, record: Record) -> Option<Asked> {
        let cx = blocking.context();
        if record.shape() == ShapeId::MARK {
            self.pipe.output.send(cx, record);
            return None;
        }
        let part = &self.asker.part;
        let shape = record.shape();
        match self.plans.get(shape, || BoxPlan::of(&part.input, &part.outputs, shape)) {
            Ok(plan) => Some(Asked { message: self.pipe.message(), plan: plan.clone(), record }),
            Err(fault) => {
                let reason = fault.to_string();
                self.position.fail_in(cx, &mut self.pipe, record, reason);
                None
            }
        }
    }

    /// Reads the answer about `record` into the line. `Err`: why there is none.
    fn answer(&mut self, blocking: &mut Blocking, record: &Record) -> Result<(), String> {
        while self.taken > self.again_until {
            if let Some(reason) = &self.hopeless {
                return Err(reason.clone());
            }
            let Some(mut process) = self.processes.pop_front() else {
                unreachable!("one is always written to")
            };
            if process.until < self.taken {
                self.finish(process);
                continue;
            }
            match process.read(blocking, self.patience, &mut self.line) {
                Answered::Line => {
                    self.learn(&mut process);
                    self.processes.push_front(process);
                    return Ok(());
                }
                Answered::Nothing => {
                    let successor = self.asker.close(&mut process);
                    self.processes.push_front(process);
                    self.processes.extend(successor);
                }
                Answered::End => self.replace(process),
            }
        }
        self.answer_again(blocking, record)
    }

    /// A program that was only slow is not taken for one that holds answers back the next time.
    fn learn(&mut self, process: &mut Process) {
        if let Some(closed_at) = process.closed_at.take() {
            let took = closed_at.elapsed();
            if took > self.patience / 2 {
                self.patience = (4 * took).min(PATIENCE_MAX);
            }
        }
    }

    /// A process died of the record taken last, or of one behind it.
    fn replace(&mut self, process: Process) {
        let until = process.until;
        match process.end(&self.asker) {
            End::Hopeless(reason) => {
                self.hopeless = Some(reason);
                self.processes.clear();
            }
            End::Died(_) if until == u64::MAX => self.again_until = self.start(),
            End::Died(_) => self.again_until = until,
        }
    }

    /// The same for a record that was sent to a process that died.
    fn answer_again(&mut self, blocking: &mut Blocking, record: &Record) -> Result<(), String> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                self.line = answer;
                return Ok(());
            }
            let (lines, count) = self.next_batch(blocking, record);
            let (answers, end) = blocking.aside(|| self.asker.ask(lines));
            self.answers = answers;
            if !self.answers.is_empty() {
                continue;
            }
            if count <= 1 {
                self.batch = OUTSTANDING_MAX;
                return match end {
                    End::Died(reason) | End::Hopeless(reason) => Err(reason),
                };
            }
            self.batch = count / 2;
        }
    }

    /// The lines of `record` and of those after it that are to be asked again, and how many they are.
    fn next_batch(&mut self, blocking: &mut Blocking, record: &Record) -> (Vec<u8>, usize) {
        let part = &self.asker.part;
        let mut lines = Vec::new();
        let mut count = usize::from(part.write_line(record, &mut lines));
        let left = (self.again_until - self.taken) as usize;
        let most = left.min(self.batch - 1);
        for next in self.pipe.input.upcoming(blocking.context(), most.max(1)).0.iter().take(most) {
            if part.write_line(next, &mut self.line) {
                lines.extend_from_slice(&self.line);
                count += 1;
            }
        }
        (lines, count)
    }

    /// Sends what the program answered.
    fn emit(&mut self, blocking: &mut Blocking, asked: Asked) {
        let answers = match json::read_records(&self.line) {
            Ok(answers) => answers,
            Err(error) => {
                let answer = shortened(&String::from_utf8_lossy(&self.line));
                return self.fail(blocking, asked, format!("the command answered {answer}: {error}"));
            }
        };
        let Asked { message, mut record, plan } = asked;
        let cx = blocking.context();
        let count = answers.len();
        if count == 0 {
            self.pipe.output.end(cx, record.ends());
        }
        for (number, answer) in answers.into_iter().enumerate() {
            let built = self.values_of(answer).and_then(|(variant, mut values)| {
                let emitted = Emitted { variant, count: values.len(), values: &mut values, record: None };
                plan.build(emitted, record.slots())
            });
            let mut built = match built {
                Ok(built) => built,
                Err(reason) => return self.fail(blocking, Asked { message, record, plan }, reason),
            };
            if number + 1 == count {
                // What ends with the record ends with the last that it gave.
                built.set_ends(record.ends());
                record.set_ends(Ends::NOTHING);
            }
            self.pipe.output.send(cx, built);
        }
    }

    /// An answer as values of a variant of the signature, counted from 1.
    fn values_of(&mut self, mut answer: Record) -> Result<(u32, Vec<Value>), String> {
        let (variant, slots) = self.variant_of(&answer)?;
        Ok((variant, slots.iter().map(|&slot| answer.take(slot)).collect()))
    }

    /// Which variant of the signature an answer is, counted from 1, and the slots of its labels.
    fn variant_of(&mut self, answer: &Record) -> Result<(u32, &[usize]), String> {
        let shape = answer.shape();
        if !matches!(&self.variant, Some((known, ..)) if *known == shape) {
            let fits = |labels: &Vec<Label>| labels.len() == shape.labels().len() && shape.has_all(labels);
            let outputs = &self.asker.part.outputs;
            let Some(variant) = outputs.iter().position(fits) else {
                return Err(format!(
                    "the command answered {answer}, which is none of its outputs; it may give {}",
                    signature(outputs)
                ));
            };
            let slot = |&label| shape.slot(label).expect("the shape has all labels");
            self.variant = Some((shape, variant, outputs[variant].iter().map(slot).collect()));
        }
        let (_, variant, slots) = self.variant.as_ref().expect("it was looked up");
        Ok((*variant as u32 + 1, slots))
    }

    #[cold]
    fn fail(&mut self, blocking: &mut Blocking, asked: Asked, reason: String) {
        let cx = blocking.context();
        let ends = asked.record.ends();
        self.position.fail(cx, asked.message, asked.record, reason);
        self.pipe.output.end(cx, ends);
    }
}

/// The outputs as a signature writes them.
fn signature(outputs: &[Vec<Label>]) -> String {
    let tuple = |labels: &Vec<Label>| {
        format!("({})", labels.iter().map(Label::to_string).collect::<Vec<_>>().join(", "))
    };
    outputs.iter().map(tuple).collect::<Vec<_>>().join(" | ")
}

/// Starts processes.
struct Asker {
    /// Of the component, for what the program says on its standard error.
    name: String,
    part: Arc<CommandPart>,
    link: Arc<Link>,
}

/// How a process ended.
enum End {
    /// Another one may do better.
    Died(String),
    /// Others will not do better.
    Hopeless(String),
}

impl Asker {
    /// A process for the feeder's next lines (`Err`: why there is none, and never will be), and how many records went past
    /// the feeder before.
    fn start_for_feeder(&self) -> (u64, Result<Process, String>) {
        let mut writing = locked(&self.link.writing);
        writing.stdin = None;
        writing.is_started = true;
        self.link.started.notify_one();
        let started = match Process::start(&self.part.command, &self.name) {
            Ok((process, stdin)) => {
                writing.stdin = (!writing.is_over).then(|| BufWriter::new(stdin));
                Ok(process)
            }
            Err(error) => Err(format!("cannot start `sh`: {error}")),
        };
        (writing.sent, started)
    }

    /// Closes the input of a process that says nothing, and starts one for the feeder's next lines.
    fn close(&self, process: &mut Process) -> Option<Process> {
        // If the feeder is writing, the program has enough to read.
        let mut writing = self.link.writing.try_lock().ok()?;
        if process.until != u64::MAX {
            return None;
        }
        let successor = if writing.is_over {
            None
        } else {
            let (successor, stdin) = Process::start(&self.part.command, &self.name).ok()?;
            let closed = writing.stdin.replace(BufWriter::new(stdin));
            // What is buffered may have to wait for the program to read it.
            std::thread::spawn(move || drop(closed));
            Some(successor)
        };
        process.until = writing.sent;
        process.closed_at = Some(Instant::now());
        successor
    }

    /// Asks a process of its own; returns the answers that came, and how it ended.
    fn ask(&self, lines: Vec<u8>) -> (VecDeque<Vec<u8>>, End) {
        let mut answers = VecDeque::new();
        let (mut process, mut stdin) = match Process::start(&self.part.command, &self.name) {
            Ok(started) => started,
            Err(error) => return (answers, End::Hopeless(format!("cannot start `sh`: {error}"))),
        };
        // It may answer before it has read all. If it ends before that, we learn it from its answers.
        let writer = std::thread::spawn(move || _ = stdin.write_all(&lines));
        let mut line = Vec::new();
        while process.read_line(&mut line) {
            answers.push_back(std::mem::take(&mut line));
        }
        let end = process.end(self);
        let _ = writer.join();
        (answers, end)
    }
}

/// What came from a process.
enum Answered {
    Line,
    /// Nothing for a while.
    Nothing,
    /// It has ended.
    End,
}

/// The program.
struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Its number is its own until then.
    is_waited_for: bool,
    /// The number of the last record that was sent to it, once it gets no more; and since when that is.
    until: u64,
    closed_at: Option<Instant>,
    /// Why its answers cannot be read on.
    fault: Option<String>,
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
            // Ctrl-C is for the run, which then lets the program finish.
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
            until: u64::MAX,
            closed_at: None,
            fault: None,
            last_words,
            listener,
        };
        Ok((process, stdin))
    }

    /// Reads the next answer; what was written before is visible meanwhile.
    fn read(&mut self, blocking: &mut Blocking, patience: Duration, line: &mut Vec<u8>) -> Answered {
        if !self.stdout.buffer().contains(&b'\n') {
            blocking.flush();
            if self.until == u64::MAX && !self.speaks_within(patience) {
                return Answered::Nothing;
            }
        }
        if self.read_line(line) { Answered::Line } else { Answered::End }
    }

    /// Whether it says something, or ends, in that time.
    fn speaks_within(&self, patience: Duration) -> bool {
        let mut descriptors = [PollFd::new(self.stdout.get_ref(), PollFlags::IN)];
        let patience = Timespec::try_from(patience).ok();
        !matches!(poll(&mut descriptors, patience.as_ref()), Ok(0))
    }

    fn read_line(&mut self, line: &mut Vec<u8>) -> bool {
        line.clear();
        match self.stdout.by_ref().take(ANSWER_BYTES_MAX).read_until(b'\n', line) {
            Ok(_) if line.last() == Some(&b'\n') => true,
            Ok(count) if count as u64 == ANSWER_BYTES_MAX => {
                self.fault = Some(format!("gave an answer of more than {ANSWER_BYTES_MAX} bytes"));
                false
            }
            Ok(_) => false,
            Err(error) => {
                self.fault = Some(format!("gave answers that cannot be read: {error}"));
                false
            }
        }
    }

    /// Ends it, if it has not ended by itself.
    fn end(mut self, asker: &Asker) -> End {
        if self.fault.is_none() {
            patiently(|| self.has_ended());
        }
        let status = self.kill();
        patiently(|| self.listener.is_finished());
        let words: Vec<String> = locked(&self.last_words).iter().cloned().collect();
        let said = if words.is_empty() { String::new() } else { format!("; it said: {}", words.join(" / ")) };
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let how = match (self.fault.take(), status) {
            (Some(fault), _) => fault,
            (None, Ok(status)) => ended(status),
            (None, Err(error)) => format!("cannot be waited for: {error}"),
        };
        let reason = format!("the command `{}` {how}{said}", shortened(&asker.part.command));
        match code {
            Some(code) if CANNOT_RUN.contains(&code) => End::Hopeless(reason),
            _ => End::Died(reason),
        }
    }

    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = Pid::from_child(&self.child);
        !matches!(waitid(WaitId::Pid(id), options), Ok(None))
    }

    /// Ends the shell and what it started.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        // None of it may be left.
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

/// Waits a while for something that should happen by itself.
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

/// Hands on what the program says, and keeps its last words.
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

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(WORD_BYTES) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

//! A process with the questions that it was asked, and the meaning of its lines.

use std::ops::Range;
use std::time::{Duration, Instant};

use thalweg_exec::Blocking;

use super::link::Link;
use super::process::{Came, Process, quoted};
use super::stray::Strays;
use crate::json;
use crate::record::Record;
use crate::syntax::ast::CommandMode;

/// The most lines between two answers that answer nothing; after more the process is ended.
const STRAY_LINES_MAX: u64 = 1024;
/// The longest uninterrupted wait of a filter's answerer, which then checks whether the feeder has nothing
/// more to send.
const FILTER_PATIENCE: Duration = Duration::from_millis(5);

/// The records of an answer, or why the line is no answer.
pub(super) type Content = Result<Vec<Record>, String>;

/// A process that is asked questions.
pub(super) struct Respondent {
    pub(super) process: Process,
    mode: CommandMode,
    /// The numbers of the records that the process was asked about; the end of the range is open while the
    /// feeder writes to the process.
    pub(super) asked: Range<u64>,
    /// The approximate number of records that the process was asked about because an earlier process left
    /// them unanswered; `None` if there are none.
    pub(super) again: Option<usize>,
    pub(super) closed_at: Option<Instant>,
    /// The process's answer to a later record than the one whose answers are being read.
    heard: Option<(u64, Content)>,
    /// Whether the process printed a line that may be an answer, but names no question: a record without an
    /// answer may have had one.
    pub(super) leaves_doubt: bool,
    /// The lines since the process's last answer that answer no question.
    pub(super) strays: Strays,
    /// The number of answers that the process gave.
    pub(super) answers: u64,
    /// The number of records whose outcome is known.
    pub(super) settled: u64,
    /// If the process has ended, the outcome of all records that the process was asked about but did not
    /// answer.
    pub(super) rest: Option<Rest>,
    line: Vec<u8>,
}

/// The outcome of a record that a process left without an answer.
#[derive(Clone)]
pub(super) enum Rest {
    /// The record has no answers, which is valid.
    NoAnswers,
    Fails(String),
}

/// The next information from a process about a record.
pub(super) enum Heard {
    /// An answer to the record.
    Answer(Content),
    /// An answer to a later record, whose number is given.
    Later(u64),
    /// The process has ended, and this is the outcome of the record.
    Rest(Rest),
    /// Nothing was printed for a while.
    Nothing,
    /// The process has ended.
    End,
}

/// The context in which a process is read.
pub(super) struct Listening<'a> {
    pub(super) blocking: &'a mut Blocking,
    pub(super) link: &'a Link,
    pub(super) patience: Duration,
}

impl Respondent {
    pub(super) fn new(process: Process, mode: CommandMode, asked: Range<u64>) -> Respondent {
        Respondent {
            process,
            mode,
            asked,
            again: None,
            closed_at: None,
            heard: None,
            leaves_doubt: false,
            strays: Strays::default(),
            answers: 0,
            settled: 0,
            rest: None,
            line: Vec::new(),
        }
    }

    /// Whether the feeder writes to the process.
    pub(super) fn is_open(&self) -> bool {
        self.asked.end == u64::MAX
    }

    /// Whether the process was ended because it printed too many lines that answer nothing.
    pub(super) fn is_flooded(&self) -> bool {
        self.strays.count() > STRAY_LINES_MAX
    }

    /// The number of bytes of the line that was read last.
    pub(super) fn line_bytes(&self) -> u64 {
        self.line.len() as u64
    }

    /// Reads the next information about the record with this number; waits for it.
    pub(super) fn hear(&mut self, number: u64, listening: &mut Listening<'_>) -> Heard {
        if let Some(rest) = &self.rest {
            return Heard::Rest(rest.clone());
        }
        loop {
            match self.heard.take() {
                Some((of, content)) if of == number => return Heard::Answer(content),
                Some((of, content)) if of > number => {
                    self.heard = Some((of, content));
                    return Heard::Later(of);
                }
                Some((of, _)) => self.strays.add(&self.line, Strays::unasked(of as i64)),
                None => {}
            }
            match self.read(listening) {
                Came::Line => self.take_line(number, listening.link),
                Came::Nothing => return Heard::Nothing,
                Came::End => return Heard::End,
            }
            if self.is_flooded() {
                self.process
                    .refuse(format!("printed more than {STRAY_LINES_MAX} lines that answer no record"));
            }
        }
    }

    fn read(&mut self, listening: &mut Listening<'_>) -> Came {
        if !self.process.has_line() {
            listening.blocking.flush();
        }
        let is_open = self.is_open();
        let (mode, link, patience) = (self.mode, listening.link, listening.patience);
        let speaks = |process: &Process| match mode {
            _ if !is_open => true,
            CommandMode::Filter => speaks_before_a_stall(process, link, patience),
            _ => process.speaks_within(patience),
        };
        self.process.read(speaks, &mut self.line)
    }

    /// Determines which question the line answers.
    fn take_line(&mut self, number: u64, link: &Link) {
        if !self.mode.names_questions() {
            self.answers += 1;
            let content = json::read_records(&self.line).map_err(|error| self.refused(&error.to_string()));
            self.heard = Some((number, content));
            return;
        }
        let (question, content) = json::read_answer(&self.line);
        let content = content.map_err(|error| self.refused(&error.to_string()));
        let Some(question) = question else {
            self.leaves_doubt |= self.strays.add_unnamed(&self.line, content.err());
            return;
        };
        match u64::try_from(question) {
            // Usually the line answers the current record, so the feeder's state need not be read.
            Ok(of) if of == number && of < self.asked.end || self.is_asked_later(of, number, link) => {
                self.answers += 1;
                self.heard = Some((of, content));
            }
            Ok(of) if self.asked.contains(&of) && of < number => {
                self.strays.add(&self.line, Strays::late(of));
            }
            _ => self.strays.add(&self.line, Strays::unasked(question)),
        }
    }

    fn is_asked_later(&self, question: u64, number: u64, link: &Link) -> bool {
        question > number && question < self.asked.end.min(link.sent())
    }

    fn refused(&self, why: &str) -> String {
        format!("the command answered {}: {why}", quoted(&self.line))
    }

    /// Reads the remaining lines, none of which answers a question, to the end.
    pub(super) fn read_surplus(&mut self, link: &Link) {
        // No record from this number on was sent to the process.
        let number = self.asked.end.min(link.sent());
        while !self.is_flooded() && self.process.read_line(&mut self.line) {
            if self.mode.names_questions() {
                self.take_line(number, link);
            } else {
                self.strays.add(&self.line, Strays::surplus(&self.asked, number));
            }
        }
    }
}

/// Whether a filter prints something soon. Stops waiting when the feeder waits for answers, because the
/// process may then have none left to print.
fn speaks_before_a_stall(process: &Process, link: &Link, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if process.speaks_within(FILTER_PATIENCE) {
            return true;
        }
        if link.is_stalled() || Instant::now() >= deadline {
            return false;
        }
    }
}

//! A process, what it was asked, and what its lines answer.

use std::ops::Range;
use std::time::{Duration, Instant};

use thalweg_exec::Blocking;

use super::link::Link;
use super::process::{Came, Process, quoted};
use super::stray::Strays;
use crate::json;
use crate::record::Record;
use crate::syntax::ast::CommandMode;

/// Lines that answer nothing, between two answers, before a process is ended.
const STRAY_LINES_MAX: u64 = 1024;
/// How long the answerer of a filter waits at once, to look whether the feeder sends nothing more.
const FILTER_PATIENCE: Duration = Duration::from_millis(5);

/// The records of an answer, or why it is none.
pub(super) type Content = Result<Vec<Record>, String>;

/// A process that is asked.
pub(super) struct Respondent {
    pub(super) process: Process,
    mode: CommandMode,
    /// The numbers of the records that it was asked about; open, while the feeder writes to it.
    pub(super) asked: Range<u64>,
    /// If it was asked again: about how many records.
    pub(super) again: Option<usize>,
    pub(super) closed_at: Option<Instant>,
    /// Its answer to a later record than that whose answers are read.
    heard: Option<(u64, Content)>,
    /// It printed what may be an answer, but does not say to what: so a record without an answer may have had one.
    pub(super) leaves_doubt: bool,
    /// Lines since its last answer that answer nothing.
    pub(super) strays: Strays,
    /// How many answers it gave.
    pub(super) answers: u64,
    /// Of how many records it is known what becomes of them.
    pub(super) settled: u64,
    /// It has ended: what that means for all records that it was asked about and left without an answer.
    pub(super) rest: Option<Rest>,
    line: Vec<u8>,
}

/// What becomes of a record that a process left without an answer.
#[derive(Clone)]
pub(super) enum Rest {
    /// That is its answer: none.
    NoAnswers,
    Fails(String),
}

/// What a process has to say of a record.
pub(super) enum Heard {
    /// An answer.
    Answer(Content),
    /// An answer to a later record, of this number.
    Later(u64),
    /// It has ended, and that is what becomes of the record.
    Rest(Rest),
    /// Nothing for a while.
    Nothing,
    /// It has ended.
    End,
}

/// How a process is listened to.
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

    /// Whether the feeder writes to it.
    pub(super) fn is_open(&self) -> bool {
        self.asked.end == u64::MAX
    }

    /// It was ended because of what it printed that answers nothing.
    pub(super) fn is_flooded(&self) -> bool {
        self.strays.count() > STRAY_LINES_MAX
    }

    /// How many bytes the last line has.
    pub(super) fn line_bytes(&self) -> u64 {
        self.line.len() as u64
    }

    /// What it says of the record of this number; waits for it.
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

    /// Finds out what the line answers.
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
            // Mostly it is the record's own, which needs no look at what the feeder writes.
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

    /// Reads lines of which none is asked for, to the end.
    pub(super) fn read_surplus(&mut self, link: &Link) {
        // No record from this one on was sent to it.
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

/// Whether a filter says something soon. If the feeder waits for answers, it may be that there are none.
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

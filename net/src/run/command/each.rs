//! A program that has a process for each record: all lines that the process prints answer the record.

use thalweg_exec::Blocking;

use super::emitter::Emitter;
use super::process::{ANSWER_BYTES_MAX, Asker, quoted};
use super::respondent::Content;
use crate::json;
use crate::record::Record;

pub(crate) struct Each {
    asker: Asker,
    emitter: Emitter,
    /// The reason why no process will be started any more.
    hopeless: Option<String>,
    line: Vec<u8>,
}

impl Each {
    pub(super) fn new(asker: Asker, emitter: Emitter) -> Each {
        Each { asker, emitter, hopeless: None, line: Vec::new() }
    }

    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        while let Some(record) = self.emitter.pipe.input.next_blocking(blocking) {
            if let Some(asked) = self.emitter.asked(blocking, record) {
                let answers = blocking.aside(|| self.answers(&asked.record));
                self.emitter.settle(blocking, asked, answers);
            }
            if !self.emitter.drain(blocking) {
                return;
            }
        }
    }

    fn answers(&mut self, record: &Record) -> Content {
        if let Some(reason) = &self.hopeless {
            return Err(reason.clone());
        }
        let mut question = Vec::new();
        self.asker.part.write_line(record, 0, &mut question);
        let mut process =
            self.asker.ask(question).inspect_err(|reason| self.hopeless = Some(reason.clone()))?;
        let (mut answers, mut bytes) = (Ok(Vec::new()), 0);
        while process.read_line(&mut self.line) {
            bytes += self.line.len() as u64;
            if bytes > ANSWER_BYTES_MAX {
                process.gave_too_much();
            }
            answers = answers.and_then(|answers| self.with_next(answers));
        }
        let ended = process.end();
        let reason = format!("{} {}", self.asker.command(), ended.how);
        if ended.cannot_run {
            self.hopeless = Some(reason.clone());
        }
        // A process that succeeded may have ended without reading the whole question.
        if ended.has_succeeded() { answers } else { Err(reason) }
    }

    /// Adds the answers of the next line.
    fn with_next(&self, mut answers: Vec<Record>) -> Content {
        match json::read_records(&self.line) {
            Ok(more) => answers.extend(more),
            Err(error) => return Err(format!("the command answered {}: {error}", quoted(&self.line))),
        }
        Ok(answers)
    }
}

//! Lines that answer no record.

use std::ops::Range;

use super::process::quoted;

/// The lines of a process that answer no record: their number, and the first line.
#[derive(Default)]
pub(super) struct Strays {
    count: u64,
    first: Option<(String, String)>,
    /// Whether the reason of a failed record already contains the lines.
    pub(super) are_told: bool,
}

impl Strays {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a line, and why it answers nothing.
    pub(super) fn add(&mut self, line: &[u8], why: String) {
        self.count += 1;
        self.first.get_or_insert_with(|| (quoted(line), why));
    }

    /// Adds a line that names no question; `fault`: why it could not be an answer that names one. Returns
    /// whether the line may be an answer.
    pub(super) fn add_unnamed(&mut self, line: &[u8], fault: Option<String>) -> bool {
        let text = line.trim_ascii();
        let may_answer = fault.is_none() || text.starts_with(b"{") || text.starts_with(b"[");
        self.add(line, if may_answer { UNNAMED } else { NO_ANSWER }.to_owned());
        may_answer
    }

    /// A description of the lines, and why they answer nothing.
    pub(super) fn describe(&self) -> Option<String> {
        let (line, why) = self.first.as_ref()?;
        Some(match self.count {
            1 => format!("printed {line}, {why}"),
            count => format!("printed {count} lines that answer no record, the first {line}, {why}"),
        })
    }

    /// The description, if it was not reported yet; forgets the lines.
    pub(super) fn take(&mut self) -> Option<String> {
        let strays = std::mem::take(self);
        if strays.are_told { None } else { strays.describe() }
    }

    /// The line names this question, which was not asked.
    pub(super) fn unasked(question: i64) -> String {
        format!("which answers a question of the number {question} that it was not asked")
    }

    /// The line answers this question a second time, or after a later one.
    pub(super) fn late(question: u64) -> String {
        format!(
            "which answers question {question} once more, or after a later one; answer in the order of the questions"
        )
    }

    /// A process whose lines name no questions printed more lines than it was asked questions.
    pub(super) fn surplus(asked: &Range<u64>, end: u64) -> String {
        let last = asked.end.min(end).saturating_sub(1);
        format!(
            "which is more than it was asked for, so any of its answers to messages {} to {last} may be another's: \
             let answers name their questions (`exec | …`)",
            asked.start
        )
    }
}

const UNNAMED: &str = "which does not say what it answers: pass \"@\" through from the question, or say in the network what \
     answers what (`exec each | …` or `exec lines | …`)";
const NO_ANSWER: &str =
    "which is no answer: print nothing else to standard output (but to standard error, `>&2`)";

//! The parts of a box that is a program.

use std::sync::Arc;

use crate::json;
use crate::label::Label;
use crate::record::Record;
use crate::shape::ShapeId;
use crate::syntax::ast::CommandMode;

/// The most records without an answer.
pub(crate) const OUTSTANDING_MAX: usize = 4096;

/// A box's command and its labels.
#[derive(Debug)]
pub(crate) struct CommandPart {
    pub(crate) command: Arc<str>,
    pub(crate) mode: CommandMode,
    pub(crate) input: Vec<Label>,
    pub(crate) outputs: Arc<[Vec<Label>]>,
}

impl CommandPart {
    /// Writes the line that asks about the record with this number; false if the record is a mark, or lacks a
    /// label that the box consumes.
    pub(super) fn write_line(&self, record: &Record, number: u64, line: &mut Vec<u8>) -> bool {
        let question = self.mode.names_questions().then_some(number);
        let is_asked =
            record.shape() != ShapeId::MARK && json::write_question(record, question, &self.input, line);
        line.push(b'\n');
        is_asked
    }
}

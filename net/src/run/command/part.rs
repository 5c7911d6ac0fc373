//! What a box that is a program is made of.

use std::sync::Arc;

use crate::json;
use crate::label::Label;
use crate::record::Record;
use crate::shape::ShapeId;
use crate::syntax::ast::CommandMode;

/// Records without an answer at most.
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
    /// The line that asks about the record of this number; false: it is a mark, or lacks a label that the box takes.
    pub(super) fn write_line(&self, record: &Record, number: u64, line: &mut Vec<u8>) -> bool {
        let question = self.mode.names_questions().then_some(number);
        let is_asked =
            record.shape() != ShapeId::MARK && json::write_question(record, question, &self.input, line);
        line.push(b'\n');
        is_asked
    }
}

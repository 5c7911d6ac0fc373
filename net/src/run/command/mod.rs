//! A box that is a program: it reads records as JSON Lines (*questions*) and prints lines that answer them.
//!
//! ```text
//!           ┌── records without an answer yet ──┐
//! records ─► feeder ── lines ─► program ── lines ─► answerer ─► records
//! ```
//! The mode of the box, a word in the network's text, determines which record a line answers
//! ([`CommandMode`](crate::syntax::ast::CommandMode)). By default, and with `filter`, each question has a
//! number under a key that is no label, and its answers repeat it. So a program that drops, doubles, swaps or
//! invents lines, or prints a banner, cannot shift answers to other records: a record without an answer fails
//! by name, and a line that answers no record is an error of its own. With `lines` only the order relates
//! answers to questions; with `each` every record has a process of its own ([`each`]).
//!
//! The program reads the labels that the box consumes; all other labels bypass the program by flow
//! inheritance, as they bypass any box. Answers come in the order of the questions.
//!
//! The feeder does not wait for answers, so a program that writes in blocks also makes progress. If no answer
//! comes for a while, the program's input is closed, which makes it write its buffered output, and the feeder
//! continues with a new process. When the program dies with unanswered records, the feeder also continues
//! with a new process, and the unanswered records are asked again, of separate processes, in ever smaller
//! batches, until the record that kills the program is alone: that record fails, with the program's last
//! words.

use std::sync::Arc;

use thalweg_exec::{In, Out};

use self::answerer::Answerer;
use self::each::Each;
use self::emitter::Emitter;
use self::feeder::Feeder;
use self::link::Link;
use self::part::CommandPart;
use self::process::Asker;
use super::pipe::Pipe;
use super::position::Position;
use crate::record::Record;

mod answerer;
mod each;
mod emitter;
mod feeder;
mod link;
pub(crate) mod part;
mod process;
mod respondent;
mod stray;

/// The two tasks of a box that is a program.
pub(crate) fn tasks(
    position: Position,
    part: Arc<CommandPart>,
    (input, sent): (In<Record>, Out<Record>),
    (outstanding, out): (In<Record>, Out<Record>),
) -> (Feeder, Answerer) {
    let link = Arc::new(Link::default());
    let feeder = Feeder::new(part.clone(), link.clone(), input, sent);
    let asker = Asker { name: position.path(), part: part.clone() };
    let emitter = Emitter::new(position, part, Pipe::new(outstanding, out));
    (feeder, Answerer::new(asker, link, emitter))
}

/// The task of a box that has a process for each record.
pub(crate) fn task(position: Position, part: Arc<CommandPart>, input: In<Record>, out: Out<Record>) -> Each {
    let asker = Asker { name: position.path(), part: part.clone() };
    Each::new(asker, Emitter::new(position, part, Pipe::new(input, out)))
}

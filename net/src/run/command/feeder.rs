//! The feeder sends records to the program.

use std::sync::Arc;

use thalweg_exec::{Blocking, In, Out};

use super::link::Link;
use super::part::CommandPart;
use crate::record::Record;
use crate::run::input::Input;

pub(crate) struct Feeder {
    part: Arc<CommandPart>,
    link: Arc<Link>,
    input: Input,
    sent: Out<Record>,
    line: Vec<u8>,
}

impl Feeder {
    pub(super) fn new(
        part: Arc<CommandPart>,
        link: Arc<Link>,
        input: In<Record>,
        sent: Out<Record>,
    ) -> Feeder {
        Feeder { part, link, input: Input::new(input), sent, line: Vec::new() }
    }

    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        self.link.wait_for_start();
        for number in 0.. {
            if self.input.is_empty() {
                self.link.flush();
            }
            let Some(record) = self.input.next_blocking(blocking) else { break };
            if !self.send(blocking, record, number) {
                break;
            }
        }
        self.link.close();
    }

    /// Sends a record to the program; false if the answers have no reader any more.
    fn send(&mut self, blocking: &mut Blocking, record: Record, number: u64) -> bool {
        self.line.clear();
        let is_asked = self.part.write_line(&record, number, &mut self.line);
        if is_asked {
            self.link.wait_for_room(self.line.len());
        }
        // The record is registered as outstanding before its line is sent.
        let pushed = if self.sent.room(blocking.context()) == 0 {
            // Space becomes free when answers come.
            self.link.stall(|| blocking.push(&mut self.sent, record))
        } else {
            blocking.push(&mut self.sent, record)
        };
        if pushed.is_err() {
            return false;
        }
        blocking.context().derived(&self.sent);
        self.link.send(is_asked.then_some(&self.line));
        true
    }
}

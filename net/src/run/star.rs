//! A star `A * P` as it unfolds: before each replica stands an exit.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::collector::announce;
use super::component::{ComponentId, Instance};
use super::failure::{Message, Position};
use super::output::push;
use super::unfold::{REPLICAS_MAX, Unfolding};
use crate::pattern::Pattern;
use crate::record::Record;

/// Lets records out of a star, or into its next replica, which it makes when the first record needs it.
pub(crate) struct StarExit {
    position: Position,
    body: ComponentId,
    exits: Vec<Pattern>,
    /// The replica that follows, counted from 0.
    replica: i64,
    input: In<Record>,
    read: u64,
    /// To the collector.
    exit: Out<Record>,
    /// To the replica, once there is one.
    inside: Option<Out<Record>>,
    /// What did not fit yet, in order.
    waiting: VecDeque<(Way, Record)>,
}

/// Where a record goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
    /// Out, but no record of the network.
    Announcement,
}

impl StarExit {
    pub(crate) fn new(
        position: Position,
        body: ComponentId,
        exits: Vec<Pattern>,
        replica: i64,
        input: In<Record>,
        exit: Out<Record>,
    ) -> StarExit {
        let waiting = VecDeque::new();
        StarExit { position, body, exits, replica, input, read: 0, exit, inside: None, waiting }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) {
        let way = match self.leaves(&record) {
            Ok(true) => Way::Out,
            Ok(false) if self.replica as usize >= REPLICAS_MAX => {
                return self.fail(cx, record, format!("a star has at most {REPLICAS_MAX} replicas"));
            }
            Ok(false) => Way::In,
            Err(reason) => return self.fail(cx, record, reason),
        };
        if way == Way::In && self.inside.is_none() {
            self.make_replica(cx);
        }
        self.waiting.push_back((way, record));
        self.flush(cx);
    }

    fn leaves(&mut self, record: &Record) -> Result<bool, String> {
        for exit in &mut self.exits {
            if exit.matches(record).map_err(|fault| fault.to_string())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fail(&mut self, cx: &mut Context<'_>, record: Record, reason: String) {
        let message = Message { stream: self.input.id(), index: self.read - 1 };
        self.position.fail(cx, message, record, reason);
    }

    /// The next replica, and the exit behind it.
    #[cold]
    fn make_replica(&mut self, cx: &mut Context<'_>) {
        let Position { shared, component, instance } = self.position.clone();
        let inner = Arc::new(Instance { of: component, replica: self.replica, parent: instance });
        let task = cx.task_id();
        let mut unfolding = Unfolding::running(shared, cx, task, self.replica as u64);
        let (inside, input) = unfolding.stream();
        let output = unfolding.unfold(self.body, &Some(inner), input);
        let (exit, exit_input) = unfolding.stream();
        let next = StarExit::new(
            self.position.clone(),
            self.body,
            self.exits.clone(),
            self.replica + 1,
            output,
            exit,
        );
        unfolding.replica += 1;
        unfolding.spawn(component, next);
        self.inside = Some(inside);
        self.waiting.push_back((Way::Announcement, announce(exit_input)));
    }

    /// Writes what waits; whether nothing waits any more.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some((way, record)) = self.waiting.pop_front() {
            let pushed = match (way, &mut self.inside) {
                (Way::In, Some(inside)) => push(inside, cx, record),
                (Way::Announcement, _) => self.exit.push(cx, record),
                (Way::Out, _) | (Way::In, None) => push(&mut self.exit, cx, record),
            };
            if let Err(record) = pushed {
                self.waiting.push_front((way, record));
                return false;
            }
        }
        true
    }
}

impl Task for StarExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.input);
        ports.output(&mut self.exit);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.pop(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.read += 1;
            self.dispatch(cx, record);
            if !self.waiting.is_empty() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

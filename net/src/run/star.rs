//! A star `A * P` as it unfolds: before each replica stands an exit.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_exec::{Context, In, Out, Ports, Stop, Task};

use super::component::{ComponentId, Instance};
use super::failure::Position;
use super::input::{Input, send};
use super::output::push;
use super::unfold::{Around, REPLICAS_MAX, Unfolding};
use crate::pattern::Pattern;
use crate::record::Record;

/// Lets records out of a star, or into its next replica, which it makes when the first record needs it.
pub(crate) struct StarExit {
    position: Position,
    body: ComponentId,
    around: Around,
    exits: Vec<Pattern>,
    /// The replica that follows, counted from 0.
    replica: i64,
    input: Input,
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
        (body, around): (ComponentId, Around),
        exits: Vec<Pattern>,
        replica: i64,
        input: In<Record>,
        exit: Out<Record>,
    ) -> StarExit {
        let (input, waiting) = (Input::new(input), VecDeque::new());
        StarExit { position, body, around, exits, replica, input, exit, inside: None, waiting }
    }

    fn dispatch(&mut self, cx: &mut Context<'_>, record: Record) {
        let way = match matches_one(&mut self.exits, &record) {
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

    fn fail(&mut self, cx: &mut Context<'_>, record: Record, reason: String) {
        self.position.fail(cx, self.input.message(), record, reason);
    }

    /// The next replica, and the exit behind it.
    #[cold]
    fn make_replica(&mut self, cx: &mut Context<'_>) {
        let (position, body, around) = (self.position.clone(), self.body, self.around);
        let (exits, next) = (self.exits.clone(), self.replica + 1);
        let stage = unfold_stage(cx, &self.position, body, around, self.replica, |output, exit| {
            StarExit::new(position, (body, around), exits, next, output, exit)
        });
        self.inside = Some(stage.inside);
        self.waiting.push_back((Way::Announcement, send(Input::new(stage.exit))));
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

/// Whether a record matches one of some patterns, looked at in their order.
pub(crate) fn matches_one(patterns: &mut [Pattern], record: &Record) -> Result<bool, String> {
    for pattern in patterns {
        if pattern.matches(record).map_err(|fault| fault.to_string())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A replica of a star with the exit behind it: the input of the one, the output of the other.
pub(crate) struct Stage {
    pub(crate) inside: Out<Record>,
    pub(crate) exit: In<Record>,
}

/// Makes replica `replica` of a star, and behind it what `exit` makes of its input and output.
#[cold]
pub(crate) fn unfold_stage<T: Task>(
    cx: &mut Context<'_>,
    position: &Position,
    body: ComponentId,
    around: Around,
    replica: i64,
    exit: impl FnOnce(In<Record>, Out<Record>) -> T,
) -> Stage {
    let Position { shared, component, instance } = position.clone();
    let inner = Arc::new(Instance { of: component, replica, parent: instance });
    let task = cx.task_id();
    let mut unfolding = Unfolding::running(shared, cx, task, replica as u64, around);
    let (inside, input) = unfolding.stream();
    let output = unfolding.unfold(body, &Some(inner), input);
    let (out, exit_input) = unfolding.stream();
    unfolding.replica += 1;
    unfolding.spawn(component, exit(output, out));
    Stage { inside, exit: exit_input }
}

impl Task for StarExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.input.attach(ports);
        ports.output(&mut self.exit);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if !self.flush(cx) {
            return Stop::OutputFull;
        }
        for _ in 0..cx.quantum() {
            let Some(record) = self.input.next(cx) else {
                return if self.input.ended() { Stop::Ended } else { Stop::InputEmpty };
            };
            self.dispatch(cx, record);
            if !self.waiting.is_empty() {
                return Stop::OutputFull;
            }
        }
        Stop::QuantumSpent
    }
}

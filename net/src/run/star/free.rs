//! The nondeterministic star `A * P`.

use thalweg_exec::{Context, HandedOn, PassesTo, Ports, Progress, Stop, Task};

use super::exit::{Exit, Way, way};
use crate::record::Record;
use crate::run::dispatch::{dispatch_all, send_run};
use crate::shape::ShapeId;

/// An exit that sends records out of a star, or into its next replica, which it makes when the first record
/// needs it.
pub(crate) struct StarExit {
    exit: Exit,
    /// The way of the records that were inspected last, which may be handed on.
    way: Way,
}

impl StarExit {
    pub(crate) fn new(exit: Exit) -> StarExit {
        StarExit { exit, way: Way::Out }
    }

    /// Sends some of the next records, at most `left`, out or into the replica; returns their number. `Err`:
    /// why none was sent.
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.exit.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let Exit { exits, replica, input, .. } = &mut self.exit;
        let (records, _) = input.upcoming(cx, left);
        let Some((first, others)) = records.split_first() else {
            return input.none_sent();
        };
        let first_way = way(exits, *replica, first);
        let goes_along = |record: &&Record| {
            record.shape() != ShapeId::MESSAGE
                && first_way.is_ok()
                && way(exits, *replica, record) == first_way
        };
        let count = 1 + others.iter().take_while(goes_along).count();
        match first_way {
            Ok(way) => self.send(cx, way, count),
            Err(reason) => {
                if let Some(record) = self.exit.input.next(cx) {
                    self.exit.fail(cx, record, reason);
                }
                Ok(1)
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, way: Way, count: usize) -> Result<usize, Stop> {
        if way == Way::In {
            let cause = Some(self.exit.input.next_message());
            self.exit.need_inside(cx, cause, StarExit::new);
        }
        let fuses = self.exit.fuses(way, count);
        let Exit { input, out, inside, .. } = &mut self.exit;
        let out = match (way, inside) {
            (Way::In, Some(inside)) => inside,
            _ => out,
        };
        let sent = send_run(cx, input, (count, fuses), out);
        match sent {
            Ok(moved) => self.exit.note(way, moved),
            Err((_, true)) => self.exit.note(way, count),
            Err((_, false)) => {}
        }
        sent.map_err(|(stop, _)| stop)
    }
}

impl Task for StarExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.exit.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        dispatch_all(self, cx, Self::dispatch)
    }

    fn passes_to(&mut self, next: HandedOn<'_>) -> Option<PassesTo<'_>> {
        let records = next.of::<Record>()?;
        let (first, others) = records.split_first()?;
        let Exit { exits, replica, .. } = &mut self.exit;
        let to = way(exits, *replica, first).ok()?;
        let goes_along =
            |record: &Record| record.shape() != ShapeId::MESSAGE && way(exits, *replica, record) == Ok(to);
        if first.shape() == ShapeId::MESSAGE || !others.iter().all(goes_along) {
            return None;
        }
        self.way = to;
        if !self.exit.fuses(to, records.len()) {
            return None;
        }
        match to {
            Way::In => self.exit.inside.as_mut().map(|inside| inside.passes_to()),
            Way::Out => Some(self.exit.out.passes_to()),
        }
    }

    fn work_on(&mut self, messages: HandedOn<'_>, _: Progress<'_>) -> usize {
        let count = self.exit.input.take_handed(messages);
        self.exit.note(self.way, count);
        count
    }
}

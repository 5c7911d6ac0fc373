//! The nondeterministic star `A * P`.

use thalweg_exec::{Context, Ports, Stop, Task};

use super::exit::{Exit, Way, way};
use crate::record::Record;
use crate::run::dispatch::dispatch_all;
use crate::shape::ShapeId;

/// An exit that sends records out of a star, or into its next replica, which it makes when the first record
/// needs it.
pub(crate) struct StarExit(Exit);

impl StarExit {
    pub(crate) fn new(exit: Exit) -> StarExit {
        StarExit(exit)
    }

    /// Sends some of the next records, at most `left`, out or into the replica; returns their number. `Err`:
    /// why none was sent.
    fn dispatch(&mut self, cx: &mut Context<'_>, left: usize) -> Result<usize, Stop> {
        if !self.0.flush(cx) {
            return Err(Stop::OutputFull);
        }
        let Exit { exits, replica, input, .. } = &mut self.0;
        let (records, _) = input.upcoming(cx, left);
        let Some((first, others)) = records.split_first() else {
            return Err(if input.ended() { Stop::Ended } else { Stop::InputEmpty });
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
                if let Some(record) = self.0.input.next(cx) {
                    self.0.fail(cx, record, reason);
                }
                Ok(1)
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, way: Way, count: usize) -> Result<usize, Stop> {
        if way == Way::In {
            let cause = Some(self.0.input.next_message());
            self.0.need_inside(cx, cause, StarExit);
        }
        let Exit { input, out, inside, .. } = &mut self.0;
        let out = match (way, inside) {
            (Way::In, Some(inside)) => inside,
            _ => out,
        };
        match input.transfer(cx, count, out) {
            0 => Err(Stop::OutputFull),
            moved => {
                self.0.note(way, moved);
                Ok(moved)
            }
        }
    }
}

impl Task for StarExit {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.0.attach(ports);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        dispatch_all(self, cx, Self::dispatch)
    }
}

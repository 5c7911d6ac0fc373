//! Records every call of a program as an event of the space, with a writer for each of the program's threads.

use std::collections::HashMap;

use thalweg_attach::{Attachment, Follower, Unrecorded};
use thalweg_probe::kinds::{Called, Outcome};
use thalweg_space::clock::ClockKind;
use thalweg_space::{Clock, KindId, Space, Writer};

use crate::failure::Failure;

/// The number of calls between two looks for which there is room, in each of the stripes of all points
/// together.
const CALLS: usize = 1 << 16;
/// The largest number of calls of one point for which there is room between two looks.
const CALLS_OF_POINT: usize = 1 << 12;

/// For how many calls of one point there is room between two looks, if there are `points` points.
pub(super) fn room(points: usize) -> usize {
    (CALLS / points.max(1)).clamp(64, CALLS_OF_POINT)
}

/// Makes events of the calls that the attachment records.
#[derive(Default)]
pub(super) struct Events {
    follower: Follower,
    threads: HashMap<u64, (Writer, KindId<Called>)>,
}

impl Events {
    /// Writes an event for each call that has ended since the last look. `sites` are the operations of the
    /// points.
    pub(super) fn write(
        &mut self,
        attachment: &Attachment,
        space: &Space,
        clock: &Clock,
        sites: &[u32],
    ) -> Result<(), Failure> {
        let calls = attachment.follow(&mut self.follower, clock.now()).map_err(Failure::usage)?;
        for call in calls {
            let (writer, called) = match self.threads.entry(call.thread) {
                std::collections::hash_map::Entry::Occupied(thread) => thread.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    let number = attachment.thread_number(call.thread);
                    let name = number.map_or_else(
                        || format!("thread {:x}", call.thread),
                        |number| format!("thread {number}"),
                    );
                    let failed = |error| Failure::run("cannot write the calls of a thread", error);
                    let mut writer = space.writer(&name).map_err(failed)?;
                    let called = writer.declare().map_err(failed)?;
                    new.insert((writer, called))
                }
            };
            let depth = u16::try_from(call.depth).unwrap_or(u16::MAX);
            let operation = sites[call.point];
            let event = Called { operation, depth, outcome: Outcome::Returned, duration: call.ticks };
            writer.emit_at(call.end, *called, &event);
        }
        Ok(())
    }

    pub(super) fn unrecorded(&self, point: usize) -> Unrecorded {
        self.follower.unrecorded(point)
    }
}

/// Fails if the space's clock is not the one that the program's threads read.
pub(super) fn check(clock: &Clock) -> Result<(), Failure> {
    match clock.kind() {
        ClockKind::Tsc => Ok(()),
        _ => Err(Failure::Usage(
            "--events needs a processor whose clock (TSC) is the same everywhere".to_owned(),
        )),
    }
}

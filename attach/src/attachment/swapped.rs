//! Changes of the target's code, made while all its threads are stopped.

use super::{Attachment, Patch};
use crate::error::Error;
use crate::memory::Record;
use crate::process::Process;
use crate::restore::ALONE;
use crate::stacks::Stacks;
use crate::tracer::{Registers, Stopped, traced};
use std::time::Duration;

/// The largest number of attempts to stop the threads with none inside the bytes to be changed.
const STOPS_MAX: usize = 200;

impl Attachment {
    /// Applies patches while all threads are stopped and none is inside the changed bytes.
    pub(super) fn apply(&mut self, patches: &[Patch]) -> Result<Duration, Error> {
        let records: Vec<Record> = patches.iter().map(Patch::record).collect();
        self.memory.as_mut().expect("there is room").record(&records)?;
        self.swap(patches, |patch| (&patch.old, &patch.new), true)
    }

    pub(super) fn take_back(&self, patches: &[Patch]) -> Result<Duration, Error> {
        self.swap(patches, |patch| (&patch.new, &patch.old), false)
    }

    pub(super) fn swap<'a>(
        &self,
        patches: &'a [Patch],
        order: impl Fn(&'a Patch) -> (&'a Vec<u8>, &'a Vec<u8>) + Sync,
        moves: bool,
    ) -> Result<Duration, Error> {
        let process = &self.process;
        for attempt in 0..STOPS_MAX {
            let done = traced(|| {
                let mut stopped = Stopped::all(process)?;
                if moves && !cleared(process, &mut stopped, patches)? {
                    return Ok(None);
                }
                for (number, patch) in patches.iter().enumerate() {
                    let (from, to) = order(patch);
                    let mut now = vec![0; from.len()];
                    let read = process.read(patch.address, &mut now);
                    if moves && (read.is_err() || now != *from) {
                        for done in &patches[..number] {
                            let _ = process.write(done.address, order(done).0);
                        }
                        return Err(Error::new(format!(
                            "the target's code at {:#x} has changed meanwhile",
                            patch.address
                        )));
                    }
                    if read.is_ok() && now == *from {
                        process
                            .write(patch.address, to)
                            .map_err(|error| Error::of("cannot write the target's code", error))?;
                    }
                }
                Ok(Some(stopped.released()))
            })?;
            if let Some(stopped) = done {
                return Ok(stopped);
            }
            std::thread::sleep(Duration::from_micros(200 << attempt.min(7)));
        }
        Err(Error::new(
            "a thread of the target stands in the first bytes of a function, interrupted by a signal, for too long: try again",
        ))
    }
}

/// Moves threads inside the bytes to be changed to the moved copies. Threads that cannot be moved, because a
/// signal handler will return there, run alone for moments until they are elsewhere. Returns whether no thread
/// will return to the bytes to be changed.
fn cleared(process: &Process, stopped: &mut Stopped, patches: &[Patch]) -> Result<bool, Error> {
    let mut moments = ALONE.into_iter();
    loop {
        let within = hindering(process, stopped, patches)?;
        if within.is_empty() {
            return Ok(true);
        }
        let Some(alone) = moments.next() else { return Ok(false) };
        stopped.let_run(process, &within, alone)?;
    }
}

/// The threads that stand in the bytes to be changed, or will return there, and that cannot be moved. If there
/// are none, the others are moved.
fn hindering(process: &Process, stopped: &Stopped, patches: &[Patch]) -> Result<Vec<i32>, Error> {
    let positions = stopped.positions()?;
    let stacks = Stacks::of(process, &positions);
    let within = |place: u64| {
        patches.iter().find(|patch| place > patch.address && place < patch.address + patch.new.len() as u64)
    };
    let (mut moves, mut hinder) = (Vec::new(), Vec::new());
    for (thread, registers) in stopped.threads.iter().zip(&positions) {
        let is_later = stacks
            .interrupted(registers)
            .is_none_or(|places| places.into_iter().any(|place| within(place).is_some()));
        let place = within(registers.rip);
        let new = place.map(|patch| patch.places.iter().find(|(old, _)| *old == registers.rip));
        match new {
            _ if is_later => hinder.push(thread.id),
            Some(None) => hinder.push(thread.id),
            Some(Some((_, new))) => moves.push((thread, Registers { rip: *new, ..*registers })),
            None => {}
        }
    }
    for (thread, registers) in moves.into_iter().filter(|_| hinder.is_empty()) {
        thread.set_registers(&registers).map_err(|error| Error::of("cannot move a thread", error))?;
    }
    Ok(hinder)
}

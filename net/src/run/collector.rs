//! Collectors: join many streams into one, in the order in which records arrive.
//!
//! The output stream of a replica is sent to its collector as a message in a stream that the collector
//! already reads: so no replica can be missed, whichever stream ends first. If a replica replaces one that
//! was folded back, the new replica's output waits until all output of the former replica, and of the
//! replicas that the former replica announced, was read: so records with the same tag value stay in their
//! order.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use thalweg_exec::{Context, In, Inputs, Out, Ports, Spread, Stop, Task};

use super::input::{Announced, announced};
use crate::numbers::NumberMap;
use crate::record::Record;
use crate::shape::ShapeId;

/// The number of records that the collector reads from one input before it looks at the next.
const TURN: usize = 64;

/// Joins the outputs of branches or replicas.
pub(crate) struct Collector {
    inputs: Inputs<Record>,
    out: Out<Record>,
    /// The distribution of the records over the replicas that the collector reads.
    spread: Spread,
    /// The inputs that were announced and have not ended.
    announced: NumberMap<u64, Open>,
    /// Inputs that wait until another input has ended, by the stream of that other input.
    later: NumberMap<u64, Vec<Announced>>,
}

/// An input that was announced.
struct Open {
    /// The input that announced this one.
    by: u64,
    /// The number of inputs that keep this one open: itself, until it has ended, and those announced by it
    /// that have not ended.
    alive: usize,
    _token: Option<Arc<()>>,
}

impl Collector {
    pub(crate) fn new(inputs: impl IntoIterator<Item = In<Record>>, out: Out<Record>) -> Collector {
        let mut all = Inputs::new();
        for input in inputs {
            all.add(input);
        }
        let spread = Spread::default();
        Collector { inputs: all, out, spread, announced: NumberMap::default(), later: NumberMap::default() }
    }

    /// The collector of the replicas of a split.
    pub(crate) fn of(self, spread: Spread) -> Collector {
        Collector { spread, ..self }
    }

    /// Passes on records of one input, at most `left`, or adopts the input that it hands over; returns the
    /// number of these messages. `Err`: there is no space.
    #[inline]
    fn take(&mut self, cx: &mut Context<'_>, index: usize, left: usize) -> Result<usize, Stop> {
        let Some(input) = self.inputs.get_mut(index) else { return Ok(0) };
        let records = input.upcoming(cx, left);
        let is_message = |record: &Record| record.shape() == ShapeId::MESSAGE;
        match records.iter().position(is_message).unwrap_or(records.len()) {
            0 if records.is_empty() => {
                if input.ended() {
                    self.remove(cx, index);
                }
                Ok(0)
            }
            0 => {
                let by = input.id();
                let Some(message) = input.pop(cx) else { return Ok(0) };
                self.add_announced(cx, by, &message);
                Ok(1)
            }
            count => match input.transfer(cx, count, &mut self.out) {
                0 => Err(Stop::OutputFull),
                moved => Ok(moved),
            },
        }
    }

    #[cold]
    fn add_announced(&mut self, cx: &mut Context<'_>, by: u64, message: &Record) {
        let Some(Announced { input, after, token }) = announced(message) else { return };
        if let Some(by) = self.announced.get_mut(&by) {
            by.alive += 1;
        }
        self.announced.insert(input.id(), Open { by, alive: 1, _token: token });
        match after.filter(|after| self.announced.contains_key(after)) {
            Some(after) => {
                let announced = Announced { input, after: None, token: None };
                self.later.entry(after).or_default().push(announced);
            }
            None => _ = self.inputs.add_running(cx, input),
        }
    }

    /// Removes an input that has ended, and adds the inputs that were waiting for its end.
    #[cold]
    fn remove(&mut self, cx: &mut Context<'_>, index: usize) {
        let Some(input) = self.inputs.remove(cx, index) else { return };
        let mut ended = input.id();
        while let Entry::Occupied(mut open) = self.announced.entry(ended) {
            open.get_mut().alive -= 1;
            if open.get().alive > 0 {
                break;
            }
            let by = open.remove().by;
            for announced in self.later.remove(&ended).unwrap_or_default() {
                self.inputs.add_running(cx, announced.input);
            }
            ended = by;
        }
    }
}

impl Task for Collector {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        self.spread.is_joined_by(ports);
        ports.inputs(&mut self.inputs);
        ports.output(&mut self.out);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let mut left = cx.quantum();
        while left > 0 {
            let Some(index) = self.inputs.next_index(cx) else {
                return if self.inputs.is_empty() && self.later.is_empty() {
                    Stop::Ended
                } else {
                    Stop::InputEmpty
                };
            };
            match self.take(cx, index, left.min(TURN)) {
                Ok(taken) => left -= taken,
                Err(stop) => return stop,
            }
        }
        Stop::QuantumSpent
    }
}

//! Trials of moves with an uncertain gain: a move is undone unless more messages pass than before it.
//!
//! A light replica gains little from another worker, and its loss (smaller batches, memory in another core's
//! cache) does not show in the times of dispatches. Therefore the rate of messages through all replicas of
//! the split is measured before and after the moves.

use std::sync::Arc;

use thalweg_space::Clock;

use super::{Siblings, Table};

/// How long a trial lasts.
const LASTS_NS: u64 = 2_000_000;
/// The growth of the rate, in percent, from which on the moves stay.
const GAIN_PERCENT: f64 = 2.0;

/// When the samples of each worker in the window begin and end.
#[derive(Default)]
pub(super) struct Rates {
    told: Vec<(u64, u64)>,
}

impl Rates {
    pub(super) fn told(&mut self, worker: u32, now: u64) {
        if let Some((_, until)) = self.told.get_mut(worker as usize) {
            *until = now;
        }
    }

    /// Begins a window, which includes the samples that workers have not yet added to the table.
    pub(super) fn restart(&mut self, now: u64, workers: usize) {
        self.told.resize(workers, (now, now));
        self.told.iter_mut().for_each(|(since, until)| *since = *until);
    }

    /// Forgets half of the window.
    pub(super) fn halve(&mut self) {
        self.told.iter_mut().for_each(|(since, until)| *since = *until - (*until - *since) / 2);
    }

    fn span(&self, worker: u32) -> u64 {
        self.told.get(worker as usize).map_or(0, |(since, until)| until - since)
    }
}

/// A trial of moves.
pub(super) struct Trial {
    of: *const Siblings,
    /// The moves that return each replica to its former worker.
    back: Vec<(u32, u32)>,
    /// The rate before the trial, in messages per tick.
    rate: f64,
    until: u64,
}

// SAFETY: the address only identifies a split, and is not dereferenced.
unsafe impl Send for Trial {}

impl Trial {
    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.until
    }
}

impl Table {
    /// The rate of messages through all replicas of a split, per tick; each worker's messages are divided by
    /// that worker's own window.
    fn rate(&self, of: *const Siblings) -> f64 {
        let members = self.replicas.iter().flatten().filter(|known| Arc::as_ptr(&known.siblings) == of);
        members.map(|known| known.work.messages as f64 / self.rates.span(known.worker).max(1) as f64).sum()
    }

    /// The trial that consists of the given moves, if all of them are moves of light replicas of one split.
    pub(super) fn trial_of(&self, moves: &[(u32, u32)], clock: &Clock, now: u64) -> Option<Trial> {
        let of = Arc::as_ptr(&self.replicas.get(moves.first()?.0 as usize)?.as_ref()?.siblings);
        let known = |replica: u32| self.replicas.get(replica as usize)?.as_ref();
        let back = moves.iter().filter_map(|&(replica, _)| Some((replica, known(replica)?.worker))).collect();
        Some(Trial { of, back, rate: self.rate(of), until: now + clock.ns_to_ticks(LASTS_NS) })
    }

    /// Ends a trial; returns the moves that undo it, or none if its moves stay. `workers` is the number of
    /// workers that take part, and `waited` says for how long each has waited.
    pub(super) fn judge(
        &mut self,
        trial: Trial,
        (waited, workers): (Vec<u64>, usize),
        clock: &Clock,
        now: u64,
    ) -> Vec<(u32, u32)> {
        let gained = self.rate(trial.of) >= trial.rate * (1.0 + GAIN_PERCENT / 100.0);
        let mut back = if gained { Vec::new() } else { trial.back };
        back.retain(|&(replica, worker)| (worker as usize) < workers && self.may_go_back(replica, trial.of));
        // Moving back counts as two moves of the replica, so the replica is not tried again soon.
        self.carry_out(&back, 2, clock, now);
        self.restart(now, self.interval, waited);
        back
    }

    /// Whether the replica still belongs to this split, and the user has not moved it.
    fn may_go_back(&self, replica: u32, of: *const Siblings) -> bool {
        let known = self.replicas.get(replica as usize).and_then(Option::as_ref);
        known.is_some_and(|known| Arc::as_ptr(&known.siblings) == of && known.staying == 0)
    }
}

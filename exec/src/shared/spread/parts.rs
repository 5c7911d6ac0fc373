//! Divides the replicas of a split into parts that may be moved, each with the time that it is expected to
//! take.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Known, PRIOR_SAMPLES, Siblings, Work};
use crate::shared::balance::{self, Part};

/// The samples of all replicas of a split in a window.
#[derive(Clone, Copy, Default)]
pub(super) struct Family {
    pub(super) work: Work,
    pub(super) replicas: u64,
    /// The time that messages waiting for the replicas sampled so far will take; `seen` is the number of
    /// these replicas.
    pub(super) backlog_ticks: u64,
    pub(super) seen: u64,
}

impl Family {
    /// The backlog of a replica that was never sampled, which is estimated by the mean of the replicas that
    /// were sampled.
    pub(super) fn backlog(&self) -> u64 {
        self.backlog_ticks / self.seen.max(1)
    }

    /// The time that a replica is expected to take in a window, given its sampled time. Because a replica may
    /// have few samples, or none, by chance, the expected time is the mean of a gamma distribution: the
    /// posterior of the samples (a Poisson process) under the prior that a replica is like the mean of all
    /// replicas, which has the weight of [`PRIOR_SAMPLES`].
    pub(super) fn expected(&self, sampled_ticks: u64) -> u64 {
        let Family { work, replicas, .. } = self;
        if work.samples == 0 {
            return sampled_ticks;
        }
        let prior = (PRIOR_SAMPLES * work.ticks / work.samples) as f64;
        let mean = work.ticks as f64 / *replicas as f64;
        ((sampled_ticks as f64 + prior) * mean / (mean + prior).max(1.0)) as u64
    }
}

/// How a replica may move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The replica may move to any worker, because it has enough work to be worth a move.
    Heavy,
    /// The replica is light, but may move to this worker, which its messages pass in any case.
    OnTheWay(usize),
    /// The replica moves only with its siblings.
    Light,
}

/// The parts that may be moved, and the replicas in each.
#[derive(Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
    members: Vec<Vec<u32>>,
    /// The backlog of each part.
    backlog: Vec<u64>,
    /// The part that the light replicas of each spread on each worker form.
    lumps: HashMap<(*const Siblings, u32), usize>,
}

impl Parts {
    pub(super) fn add(&mut self, replica: u32, known: &Known, (ticks, backlog): (u64, u64), kind: Kind) {
        let next = self.parts.len();
        let at = match kind {
            Kind::Light => *self.lumps.entry((Arc::as_ptr(&known.siblings), known.worker)).or_insert(next),
            Kind::Heavy | Kind::OnTheWay(_) => next,
        };
        if at == next {
            let only_to = match kind {
                Kind::OnTheWay(worker) => Some(worker),
                Kind::Heavy | Kind::Light => None,
            };
            let is_lump = kind == Kind::Light;
            self.parts.push(Part { worker: known.worker as usize, ticks: 0, is_lump, only_to });
            self.members.push(Vec::new());
            self.backlog.push(0);
        }
        self.backlog[at] += backlog;
        self.parts[at].ticks += ticks;
        self.members[at].push(replica);
    }

    /// Scales the sampled times to the time that each worker was busy, because not every dispatch is sampled.
    pub(super) fn scale(&mut self, busy: &[u64], sampled: &[u64]) {
        for (part, backlog) in self.parts.iter_mut().zip(&self.backlog) {
            let (busy, sampled) = (u128::from(busy[part.worker]), u128::from(sampled[part.worker].max(1)));
            part.ticks = (u128::from(part.ticks) * busy / sampled) as u64 + backlog;
        }
    }

    /// The moves, and whether they certainly gain. Moves of heavy replicas certainly gain, and so do moves of
    /// light replicas back to their siblings.
    pub(super) fn moves(&self, load: Vec<u64>) -> (Vec<(u32, u32)>, bool) {
        let gathered = self.gathered();
        let is_gathering = !gathered.is_empty();
        let moves = if is_gathering { gathered } else { balance::moves(load, &self.parts) };
        let is_sure = is_gathering
            || moves.iter().any(|&(part, _)| !self.parts[part].is_lump && self.parts[part].only_to.is_none());
        let each = |(part, worker): (usize, usize)| {
            self.members[part].iter().map(move |&replica| (replica, worker as u32))
        };
        (moves.into_iter().flat_map(each).collect(), is_sure)
    }

    /// Moves that bring the light replicas of one split, if several workers have some, to the worker that has
    /// most of their load.
    fn gathered(&self) -> Vec<(usize, usize)> {
        let mut most: HashMap<*const Siblings, Part> = HashMap::new();
        for (&(siblings, _), &at) in &self.lumps {
            let lump = self.parts[at];
            let most = most.entry(siblings).or_insert(lump);
            if (lump.ticks, most.worker) > (most.ticks, lump.worker) {
                *most = lump;
            }
        }
        let elsewhere = |(&(siblings, worker), &at): (&(*const Siblings, u32), &usize)| {
            let to = most.get(&siblings)?.worker;
            (to != worker as usize).then_some((at, to))
        };
        self.lumps.iter().filter_map(elsewhere).collect()
    }
}

//! Spreads the replicas of a split over the workers, by the cost of each replica.
//!
//! A [`Spread`] stands for the replicas of one split; a [`Replica`] for a few tasks that are placed and moved
//! together.
//!
//! **A new replica** goes to the worker where the replicas' outputs are joined: records that are cheap to
//! process come from the split in batches, and messages between a replica and the join stay on one worker.
//! If messages of the split's other replicas are known to take long, the workers get new replicas in turn.
//!
//! **Later** replicas move. Each worker sums up its samples of dispatches (see `Core::adapt`) for each
//! replica, and now and then adds the sums to the [`Table`]. The thread that finds that a check is due asks
//! whether a worker was busy all the time while it could have given some of its load to another
//! ([`balance`](crate::shared::balance)), and sends letters with the moves. A replica's load is the time that
//! it took since the window of measurement began ([`Family::expected`]) and the time that its waiting
//! messages will take, because two workers that are both busy all the time may have very different amounts of
//! work before them. Replicas with light messages stay and move together; a light replica with many messages
//! may be tried alone on the other one of the two workers that its messages pass in any case
//! (`spread/trial.rs`). A replica stays on its worker for a while after its first move, and eight times as
//! long after each further move; a replica that the user moved is not moved again. Because samples are used,
//! spreading adds no work to the path of a message, and without replicas no work at all.

mod parts;
mod trial;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_space::Clock;

use crate::ring::{Holder, NOBODY};
use crate::shared::mapper::OfKind;
use crate::sync::lock;
use crate::task::cell::TaskCell;
use crate::task::context::Ports;
use crate::task::placement::Placement;
use crate::task::spec::{Replica, TaskSpec};

use parts::{Family, Kind, Parts};
use trial::{Rates, Trial};

/// A replica is heavy, that is, worth running on another worker, if its messages and dispatches took longer
/// than this price. A heavy replica becomes light again below the lower price [`LIGHT`].
const HEAVY: Price = Price { cold_ns: COLD_NS, message_ns: 350, dispatch_ns: 600 };
const LIGHT: Price = Price { cold_ns: 0, message_ns: 250, dispatch_ns: 400 };
/// The additional time that a replica's first messages may take, because their code and memory are not in the
/// caches yet.
const COLD_NS: u64 = 20_000;
/// How many replicas may contribute the time of their first messages to the estimate for all replicas of the
/// split.
const COLD_REPLICAS: u64 = 4;
/// The number of messages after which a replica that is not heavy is light.
const LIGHT_FROM: u64 = 64;
/// A worker that is busy for less than this share of the window, in percent, gives no replica away.
const BUSY_PERCENT: u64 = 80;
/// The time between two checks of the workers' loads, in nanoseconds: at first, after a replica is made, and
/// at most. The time between two checks doubles with each check.
const LOOK_NS: (u64, u64, u64) = (200_000, 1_000_000, 50_000_000);
/// The time until the next check is at least this many times as long as the check took.
const LOOK_COST: u64 = 32;
/// How long a replica stays on its worker after its first move, in nanoseconds; after each further move it
/// stays eight times as long.
const REST_NS: u64 = 4_000_000;
const REST_GROWS: u64 = 8;
/// The number of messages of a split on which the estimate of their cost is based: older messages count less
/// and less.
const REMEMBERED: u64 = 1 << 20;
/// The weight of the estimate for all replicas of a split, as a number of samples of a single replica.
const PRIOR_SAMPLES: u64 = 2;
/// A sample counts at most this many times the mean time of the replica's messages so far, because during a
/// long sample the worker may have had no processor.
const OUTLIER: u64 = 8;

/// The cost of running work on another worker; work that takes less time is not worth a move.
#[derive(Clone, Copy)]
struct Price {
    cold_ns: u64,
    message_ns: u64,
    dispatch_ns: u64,
}

/// The sum of sampled work.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    ticks: u64,
    messages: u64,
    dispatches: u64,
    samples: u64,
}

impl Work {
    fn add(&mut self, other: Work) {
        self.ticks += other.ticks;
        self.messages += other.messages;
        self.dispatches += other.dispatches;
        self.samples += other.samples;
    }

    fn halve(&mut self) {
        let Work { ticks, messages, dispatches, samples } = *self;
        *self = Work {
            ticks: ticks / 2,
            messages: messages / 2,
            dispatches: dispatches / 2,
            samples: samples.div_ceil(2),
        };
    }

    /// Whether this work took longer than `price`.
    fn exceeds(&self, price: Price, clock: &Clock) -> bool {
        let ns = price.cold_ns + self.messages * price.message_ns + self.dispatches * price.dispatch_ns;
        self.messages > 0 && self.ticks > clock.ns_to_ticks(ns)
    }
}

/// The replicas of a split, for which the runtime chooses and changes the workers. A spread has no effect if
/// the user places the tasks, or if there is only one worker.
#[derive(Clone, Default)]
pub struct Spread(pub(crate) Option<Arc<Siblings>>);

/// The state that the replicas of a split share.
#[derive(Default)]
pub(crate) struct Siblings {
    /// Counted references to the task that distributes messages to the replicas and to the task that joins
    /// their outputs. Each of the two pointers is set once; that to the joining task is set before any
    /// replica is made.
    dealt_by: AtomicPtr<TaskCell>,
    joined_by: AtomicPtr<TaskCell>,
    /// The samples of all replicas of the split. `next` is the worker that gets the next heavy replica; the
    /// field is accessed relaxed.
    work: Mutex<Work>,
    next: AtomicUsize,
    #[cfg(test)]
    made_up_ends: Mutex<Option<(u32, u32)>>,
}

impl Drop for Siblings {
    fn drop(&mut self) {
        for task in [*self.dealt_by.get_mut(), *self.joined_by.get_mut()].into_iter().filter_map(NonNull::new)
        {
            // SAFETY: this gives up the reference that was counted when the pointer was set.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
    }
}

impl Siblings {
    fn are_heavy(&self, clock: &Clock) -> bool {
        lock(&self.work).exceeds(Price { cold_ns: COLD_REPLICAS * COLD_NS, ..HEAVY }, clock)
    }

    /// Adds samples, and halves the sum whenever it has become too old.
    fn add(&self, work: Work) {
        let mut all = lock(&self.work);
        if all.messages > REMEMBERED {
            all.halve();
        }
        all.add(work);
    }

    fn joined_on(&self) -> Option<u32> {
        worker_of(&self.joined_by)
    }

    /// The workers of the task that distributes messages to the replicas and of the task that joins their
    /// output.
    fn ends(&self) -> Option<(u32, u32)> {
        #[cfg(test)]
        if let Some(ends) = *lock(&self.made_up_ends) {
            return Some(ends);
        }
        Some((worker_of(&self.dealt_by)?, self.joined_on()?))
    }

    /// Messages travel from the worker of the distributing task to that of the joining task in any case; if
    /// `worker` is one of the two, returns the other one.
    fn other_end(&self, worker: u32) -> Option<usize> {
        let (from, to) = self.ends()?;
        match worker {
            _ if from == to => None,
            _ if worker == from => Some(to as usize),
            _ if worker == to => Some(from as usize),
            _ => None,
        }
    }

    /// Registers the task that distributes messages to the replicas.
    pub(crate) fn is_dealt_by(&self, task: &TaskCell) {
        if self.dealt_by.load(Ordering::Relaxed).is_null() {
            self.dealt_by.store(task.counted(), Ordering::Release);
        }
    }
}

/// The worker of a task of which there is a counted reference.
fn worker_of(task: &AtomicPtr<TaskCell>) -> Option<u32> {
    // SAFETY: the pointer is a counted reference or null.
    let task = unsafe { task.load(Ordering::Acquire).as_ref() }?;
    Some(task.worker()).filter(|&worker| worker != NOBODY)
}

impl Spread {
    /// Registers the task that joins the replicas' outputs.
    pub fn is_joined_by(&self, ports: &Ports<'_>) {
        if let Some(siblings) = self.0.as_ref().filter(|of| of.joined_by.load(Ordering::Relaxed).is_null()) {
            siblings.joined_by.store(ports.task.counted(), Ordering::Release);
        }
    }
}

impl std::fmt::Debug for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spread({})", if self.0.is_some() { "by cost" } else { "not at all" })
    }
}

/// The state of one replica.
struct Known {
    siblings: Arc<Siblings>,
    worker: u32,
    /// The number of the replica's tasks that have not ended, plus one while the replica is made.
    tasks: u32,
    /// The replica's samples in the window. `all_messages` counts the messages sampled since the replica was
    /// made.
    work: Work,
    all_messages: u64,
    /// How long the messages will take that waited for the replica at the last sample.
    backlog_ticks: u64,
    is_heavy: bool,
    /// The time before which the replica is not moved.
    rests_until: u64,
    moves: u32,
    /// The number of the replica's tasks that a user has moved to their workers. While there is one, the replica is not
    /// moved.
    staying: u32,
}

impl Known {
    /// Whether the replica alone has enough work for another worker. If too few of the replica's messages
    /// were measured, its siblings' samples decide; `None` if there are none of these either.
    fn is_heavy(&self, clock: &Clock) -> Option<bool> {
        if self.is_heavy || self.all_messages >= LIGHT_FROM {
            return Some(self.is_heavy);
        }
        self.siblings.are_heavy(clock).then_some(true)
    }

    /// Whether spreading may move the replica now.
    fn may_move(&self, now: u64) -> bool {
        self.staying == 0 && self.rests_until <= now
    }
}

/// A light replica is moved without its siblings only if it gets at least one of this many messages of the
/// split: with so many messages, they arrive in batches on any worker.
const ALONE_FROM: u64 = 8;

impl Known {
    /// The other worker that the split's messages pass in any case, if this replica gets enough of these
    /// messages.
    fn on_the_way(&self, family: &Family) -> Option<usize> {
        (self.work.messages * ALONE_FROM >= family.work.messages.max(1))
            .then(|| self.siblings.other_end(self.worker))
            .flatten()
    }
}

/// The state of all replicas and workers.
pub(crate) struct Table {
    replicas: Vec<Option<Known>>,
    free: Vec<u32>,
    /// When the window began, and how long each worker had waited by then.
    since: u64,
    waited: Vec<u64>,
    /// The sampled time, in the window, of each worker's tasks that belong to no replica.
    others: Vec<u64>,
    look_at: u64,
    interval: u64,
    rates: Rates,
    trial: Option<Trial>,
}

/// How long a worker has waited, as other threads read it. The worker writes the two fields with relaxed
/// stores; a thread that reads one before and one after a change gets a sum that is wrong by at most one
/// wait.
#[derive(Default)]
#[cfg_attr(not(loom), repr(align(64)))]
struct Waited {
    ticks: AtomicU64,
    /// When the present wait began; 0: the worker does not wait.
    since: AtomicU64,
}

/// The part of a runtime that spreads replicas over its workers.
pub(crate) struct Spreading {
    is_possible: bool,
    waited: Vec<Waited>,
    table: Mutex<Table>,
}

impl Spreading {
    /// Spreading is active if `is_possible` is true and there are several workers.
    pub(crate) fn new(is_possible: bool, workers_max: usize) -> Spreading {
        let is_possible = is_possible && workers_max > 1;
        let table = Table {
            replicas: Vec::new(),
            free: Vec::new(),
            since: 0,
            waited: Vec::new(),
            others: Vec::new(),
            look_at: 0,
            interval: 0,
            rates: Rates::default(),
            trial: None,
        };
        let waited = (0..workers_max).map(|_| Waited::default()).collect();
        Spreading { is_possible, waited, table: Mutex::new(table) }
    }

    /// Notes that the worker waits from `now` on.
    pub(crate) fn waits(&self, worker: u32, now: u64) {
        self.waited[worker as usize].since.store(now.max(1), Ordering::Relaxed);
    }

    /// Notes that the worker has waited for `ticks` since it started, and waits no longer.
    pub(crate) fn has_waited(&self, worker: u32, ticks: u64) {
        let waited = &self.waited[worker as usize];
        waited.since.store(0, Ordering::Relaxed);
        waited.ticks.store(ticks, Ordering::Relaxed);
    }

    /// How long each worker has waited by `now`.
    fn waited_by(&self, now: u64) -> Vec<u64> {
        let until_now = |waited: &Waited| {
            let since = waited.since.load(Ordering::Relaxed);
            let waits = if since == 0 { 0 } else { now.saturating_sub(since) };
            waited.ticks.load(Ordering::Relaxed) + waits
        };
        self.waited.iter().map(until_now).collect()
    }

    fn known<R>(&self, replica: u32, then: impl FnOnce(&mut Known) -> R) -> Option<R> {
        let mut table = lock(&self.table);
        table.replicas.get_mut(replica as usize)?.as_mut().map(then)
    }

    /// Counts a task of the replica that was created.
    pub(crate) fn task_created(&self, replica: u32) {
        self.known(replica, |known| known.tasks += 1);
    }

    /// Counts a task of the replica as ended; when all its tasks have ended, the replica is removed.
    pub(crate) fn task_ended(&self, replica: u32) {
        let mut table = lock(&self.table);
        let Some(place) = table.replicas.get_mut(replica as usize) else { return };
        let Some(known) = place else { return };
        known.tasks = known.tasks.saturating_sub(1);
        if known.tasks == 0 {
            let forgotten = place.take();
            table.free.push(replica);
            // The lock is released first, because dropping the replica may drop the state of its split, and
            // with it a task's cell.
            drop(table);
            drop(forgotten);
        }
    }

    /// Notes that a task of the replica, which `stayed` or not, now stays where a user has moved it, or is free again.
    pub(crate) fn stays(&self, replica: u32, stayed: bool, stays: bool) {
        self.known(replica, |known| {
            known.staying = (known.staying + u32::from(stays)).saturating_sub(u32::from(stayed));
            if known.staying == 0 && stayed {
                known.rests_until = 0;
            }
        });
    }

    /// A handle for the replicas of a split, none of which exists yet.
    pub(crate) fn new_spread(&self) -> Spread {
        Spread(self.is_possible.then(Arc::default))
    }

    /// Registers a replica that a task on worker `here` makes, and chooses its worker among the first
    /// `workers`.
    pub(crate) fn new_replica(
        &self,
        siblings: &Arc<Siblings>,
        (here, workers): (u32, usize),
        clock: &Clock,
        now: u64,
    ) -> Replica {
        let mut table = lock(&self.table);
        let is_heavy = siblings.are_heavy(clock);
        let worker = match siblings.joined_on() {
            _ if is_heavy => siblings.next.fetch_add(1, Ordering::Relaxed) % workers,
            Some(worker) => worker as usize % workers,
            None => here as usize % workers,
        };
        table.expect_replica(clock, now, || self.waited_by(now));
        let known = Known {
            siblings: siblings.clone(),
            worker: worker as u32,
            tasks: 1,
            work: Work::default(),
            all_messages: 0,
            backlog_ticks: 0,
            is_heavy,
            rests_until: 0,
            moves: 0,
            staying: 0,
        };
        Replica { number: table.insert(known), worker: worker as u32 }
    }

    /// Adds a worker's samples to the table. If a check is due and replicas `may_move`, returns which
    /// replicas should move to which of the workers.
    pub(crate) fn look(
        &self,
        loads: &mut Loads,
        (worker, workers): (u32, usize),
        clock: &Clock,
        now: u64,
        may_move: impl FnOnce() -> bool,
    ) -> Vec<(u32, u32)> {
        let mut table = lock(&self.table);
        table.take(loads, worker, clock, now);
        loads.look_at = now + table.interval / 4;
        if now < table.look_at {
            return Vec::new();
        }
        let moves = match may_move() {
            true => table.plan(self.waited_by(now), workers, clock, now),
            false => Vec::new(),
        };
        let took = clock.now().saturating_sub(now);
        table.next_look(now, took, clock.ns_to_ticks(LOOK_NS.2));
        moves
    }

    /// Notes that the mapper placed the tasks of all replicas again: `places` has the worker of each replica.
    /// Where replicas were before no longer counts, and a check is due soon.
    pub(crate) fn were_placed(&self, places: impl Iterator<Item = (u32, u32)>, clock: &Clock, now: u64) {
        let mut table = lock(&self.table);
        for (replica, worker) in places {
            if let Some(Some(known)) = table.replicas.get_mut(replica as usize) {
                (known.worker, known.rests_until, known.moves) = (worker, 0, 0);
            }
        }
        table.trial = None;
        table.restart(now, clock.ns_to_ticks(LOOK_NS.1), self.waited_by(now));
    }
}

impl Table {
    fn insert(&mut self, known: Known) -> u32 {
        if let Some(number) = self.free.pop() {
            self.replicas[number as usize] = Some(known);
            return number;
        }
        self.replicas.push(Some(known));
        self.replicas.len() as u32 - 1
    }

    /// Notes that a replica is made, which begins the first window of measurement or brings the next check
    /// forward.
    fn expect_replica(&mut self, clock: &Clock, now: u64, waited: impl FnOnce() -> Vec<u64>) {
        let (first, soon, _) = LOOK_NS;
        if self.replicas.len() == self.free.len() {
            self.trial = None;
            self.restart(now, clock.ns_to_ticks(first), waited());
        } else if self.interval > clock.ns_to_ticks(soon) {
            self.interval = clock.ns_to_ticks(soon);
            self.look_at = self.look_at.min(now + self.interval);
        }
    }

    /// Adds all samples of a worker.
    fn take(&mut self, loads: &mut Loads, worker: u32, clock: &Clock, now: u64) {
        for (&replica, load) in &mut loads.of_replica {
            self.add(replica, worker, load, clock);
        }
        self.others[worker as usize] += std::mem::take(&mut loads.of_others);
        self.rates.told(worker, now);
        loads.of_replica.retain(|_, load| load.is_used());
    }

    /// Begins a window.
    fn restart(&mut self, now: u64, interval: u64, waited: Vec<u64>) {
        (self.since, self.interval, self.look_at) = (now, interval, now + interval);
        self.others = vec![0; waited.len()];
        self.rates.restart(now, waited.len());
        self.waited = waited;
        for known in self.replicas.iter_mut().flatten() {
            known.work = Work::default();
        }
    }

    /// Adds a worker's samples of one replica.
    fn add(&mut self, replica: u32, worker: u32, load: &mut Load, clock: &Clock) {
        let work = std::mem::take(&mut load.work);
        let Some(Some(known)) = self.replicas.get_mut(replica as usize).filter(|_| work.messages > 0) else {
            return;
        };
        known.worker = worker;
        known.work.add(work);
        known.all_messages += work.messages;
        known.backlog_ticks = std::mem::take(&mut load.backlog_ticks);
        known.is_heavy = known.work.exceeds(if known.is_heavy { LIGHT } else { HEAVY }, clock);
        known.siblings.add(work);
    }

    /// Schedules the next check, after twice the present interval unless a bound applies.
    fn next_look(&mut self, now: u64, took: u64, interval_max: u64) {
        self.interval = (2 * self.interval).max(LOOK_COST * took).min(interval_max);
        self.look_at = now + self.interval;
    }

    /// Chooses the moves that balance the load of `workers` workers, which have `waited` for the given times.
    fn plan(&mut self, waited: Vec<u64>, workers: usize, clock: &Clock, now: u64) -> Vec<(u32, u32)> {
        let window = now - self.since;
        if let Some(trial) = self.trial.take_if(|trial| trial.is_over(now)) {
            return self.judge(trial, (waited, workers), clock, now);
        }
        if self.trial.is_some() {
            return Vec::new();
        }
        let busy = |worker: usize| {
            let waits = waited[worker].saturating_sub(self.waited.get(worker).copied().unwrap_or_default());
            window.saturating_sub(waits)
        };
        let busy: Vec<u64> = (0..workers).map(busy).collect();
        let is_saturated = busy.iter().any(|&busy| busy * 100 >= window * BUSY_PERCENT);
        let (chosen, is_sure) = self.chosen(busy, is_saturated, clock, now);
        if chosen.is_empty() {
            self.halve(now, waited);
            return chosen;
        }
        self.trial = if is_sure { None } else { self.trial_of(&chosen, clock, now) };
        self.carry_out(&chosen, 1, clock, now);
        self.restart(now, self.interval, waited);
        chosen
    }

    /// Carries the moves out; each counts as `count` moves of its replica.
    fn carry_out(&mut self, moves: &[(u32, u32)], count: u32, clock: &Clock, now: u64) {
        let rest = clock.ns_to_ticks(REST_NS);
        for &(replica, worker) in moves {
            if let Some(known) = &mut self.replicas[replica as usize] {
                let grown = rest.saturating_mul(REST_GROWS.saturating_pow(known.moves + count - 1));
                known.rests_until = now.saturating_add(grown);
                (known.worker, known.moves) = (worker, known.moves + count);
            }
        }
    }

    /// Halves all samples, so that older samples count less.
    fn halve(&mut self, now: u64, waited: Vec<u64>) {
        self.since = now - (now - self.since) / 2;
        self.waited.resize(waited.len(), 0);
        for (before, now) in self.waited.iter_mut().zip(waited) {
            *before = now - (now - now.min(*before)) / 2;
        }
        self.others.iter_mut().for_each(|ticks| *ticks /= 2);
        self.rates.halve();
        for known in self.replicas.iter_mut().flatten() {
            known.work.halve();
            known.backlog_ticks /= 2;
        }
    }

    /// Chooses which replicas should move to which workers; returns the moves and whether they certainly
    /// gain. `busy` is the time for which each worker was busy. No replica moves unless some worker is
    /// saturated.
    fn chosen(
        &self,
        mut busy: Vec<u64>,
        is_saturated: bool,
        clock: &Clock,
        now: u64,
    ) -> (Vec<(u32, u32)>, bool) {
        let (mut sampled, mut parts, families) = (self.others.clone(), Parts::default(), self.families());
        sampled.resize(busy.len(), 0);
        let mut backlog = vec![0; busy.len()];
        for (number, known) in self.replicas.iter().enumerate() {
            let Some(known) = known.as_ref().filter(|known| (known.worker as usize) < busy.len()) else {
                continue;
            };
            let family = families.get(&Arc::as_ptr(&known.siblings)).copied().unwrap_or_default();
            let ticks = family.expected(known.work.ticks);
            sampled[known.worker as usize] += ticks;
            let backlog_ticks = if known.all_messages > 0 { known.backlog_ticks } else { family.backlog() };
            backlog[known.worker as usize] += backlog_ticks;
            if let Some(is_heavy) = known.is_heavy(clock).filter(|_| known.may_move(now)) {
                let kind = match known.on_the_way(&family) {
                    _ if is_heavy => Kind::Heavy,
                    Some(worker) if worker < busy.len() => Kind::OnTheWay(worker),
                    _ => Kind::Light,
                };
                parts.add(number as u32, known, (ticks, backlog_ticks), kind);
            }
        }
        parts.scale(&busy, &sampled);
        busy.iter_mut().zip(backlog).for_each(|(busy, backlog)| *busy += backlog);
        parts.moves(if is_saturated { busy } else { Vec::new() })
    }

    /// The samples of all replicas of each split in this window.
    fn families(&self) -> HashMap<*const Siblings, Family> {
        let mut families: HashMap<*const Siblings, Family> = HashMap::new();
        for known in self.replicas.iter().flatten() {
            let family = families.entry(Arc::as_ptr(&known.siblings)).or_default();
            family.work.add(known.work);
            family.replicas += 1;
            family.backlog_ticks += known.backlog_ticks;
            family.seen += u64::from(known.all_messages > 0);
        }
        families
    }
}

/// A sampled dispatch of a replica.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) ticks: u64,
    pub(crate) messages: u64,
    /// The number of dispatches that the sample stands for.
    pub(crate) dispatches: u64,
    /// The number of messages that waited for the replica when the dispatch ended.
    pub(crate) unread: u64,
}

/// A worker's samples that are not yet in the table that all workers share.
#[derive(Default)]
pub(crate) struct Loads {
    of_replica: HashMap<u32, Load, BuildHasherDefault<OfKind>>,
    /// The sampled time of the tasks that belong to no replica.
    pub(crate) of_others: u64,
    look_at: u64,
}

#[derive(Default)]
struct Load {
    work: Work,
    /// The mean time of a message, in ticks.
    each: u64,
    /// How long the waiting messages will take; the largest value since the worker last added its samples to
    /// the table.
    backlog_ticks: u64,
    looks_unused: u8,
}

impl Loads {
    /// Adds a sample of a replica. Returns whether the worker should call `Spreading::look` at `now`.
    pub(crate) fn add(&mut self, replica: u32, sample: Sample, now: u64) -> bool {
        let Sample { ticks, messages, dispatches, unread } = sample;
        let load = self.of_replica.entry(replica).or_default();
        load.looks_unused = 0;
        let most = load.each.saturating_mul(OUTLIER).saturating_mul(messages);
        let ticks = if load.each == 0 { ticks } else { ticks.min(most) };
        let each = ticks / messages;
        load.each = if load.each == 0 { each.max(1) } else { ((7 * load.each + each) / 8).max(1) };
        load.backlog_ticks = load.backlog_ticks.max(unread * load.each);
        let (ticks, messages) = (ticks * dispatches, messages * dispatches);
        load.work.add(Work { ticks, messages, dispatches, samples: 1 });
        now >= self.look_at
    }
}

impl Load {
    /// Whether a sample was added since one of the last eight calls, so the entry is worth keeping.
    fn is_used(&mut self) -> bool {
        self.looks_unused += 1;
        self.looks_unused < 8
    }
}

/// The replica that a new task belongs to: tasks that are unfolded inside a replica and placed beside their
/// `creator` belong to the creator's replica.
pub(crate) fn joins(spec: &TaskSpec, creator: &TaskCell, here: bool) -> Option<u32> {
    if spec.place != Placement::ANYWHERE {
        return None;
    }
    spec.together.map(|replica| replica.number).or_else(|| creator.member_of().filter(|_| here))
}

#[cfg(all(test, not(loom)))]
mod tests;

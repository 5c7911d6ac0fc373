//! The mapper, which chooses the worker on which a new task runs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

#[cfg(test)]
use crate::task::placement::Placement;
use crate::task::spec::TaskSpec;

/// How tasks are placed. A [`TaskSpec::place`] overrides every mapper.
#[derive(Clone)]
pub enum Mapper {
    /// Keeps neighbours together. The tasks created before the start, in their order, are divided into
    /// consecutive pieces of about equal weight, one for each worker. Replicas of a [`Spread`](crate::Spread)
    /// are placed and moved by their cost. Any other task created while running stays with its creator until
    /// `block` tasks of its component and its creator's component were placed there; after that, the next
    /// worker gets the next `block` of such tasks.
    Contiguous {
        /// The number of consecutive tasks of the same kind that are placed on the same worker.
        block: usize,
    },
    /// Chooses the workers in turn.
    RoundRobin,
    /// Chooses the worker whose live tasks have the least weight together, and among equally loaded workers
    /// the creator's. Of the tasks created before the start the heaviest are placed first.
    LeastLoaded,
    /// Calls the user's function for the worker's number, which is taken modulo the number of workers that
    /// take part.
    User(Arc<dyn Fn(&TaskSpec) -> usize + Send + Sync>),
}

impl Default for Mapper {
    fn default() -> Mapper {
        Mapper::Contiguous { block: 8 }
    }
}

impl Mapper {
    /// The values that the setting `exec.mapper` has in a run that begins with this mapper. The first two can
    /// be chosen in every run; the third one, if there is one, is the mapper with which the run begins.
    pub(crate) fn choices(&self) -> &'static [&'static str] {
        match self {
            Mapper::Contiguous { .. } | Mapper::RoundRobin => &["contiguous", "round-robin"],
            Mapper::LeastLoaded => &["contiguous", "round-robin", "least-loaded"],
            Mapper::User(_) => &["contiguous", "round-robin", "custom"],
        }
    }

    /// The value of the setting `exec.mapper` that stands for this mapper in a run that begins with it.
    pub(crate) fn choice(&self) -> u64 {
        match self {
            Mapper::Contiguous { .. } => CONTIGUOUS,
            Mapper::RoundRobin => ROUND_ROBIN,
            Mapper::LeastLoaded | Mapper::User(_) => ROUND_ROBIN + 1,
        }
    }
}

/// Values of the setting `exec.mapper` that every run has.
pub(crate) const CONTIGUOUS: u64 = 0;
const ROUND_ROBIN: u64 = 1;

impl std::fmt::Debug for Mapper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mapper::Contiguous { block } => write!(f, "Contiguous {{ block: {block} }}"),
            Mapper::RoundRobin => f.write_str("RoundRobin"),
            Mapper::LeastLoaded => f.write_str("LeastLoaded"),
            Mapper::User(_) => f.write_str("User"),
        }
    }
}

/// A mapper and its state, whose size depends on the numbers of kinds of task and of workers and not on the
/// number of tasks.
pub(crate) struct Placing {
    /// The mapper with which the run began.
    given: Mapper,
    /// The mapper that places tasks now.
    mapper: Mapper,
    workers: usize,
    next: usize,
    placed: HashMap<(u64, u64), Vec<usize>, BuildHasherDefault<OfKind>>,
    /// The weight of each worker's live tasks, if the run began with [`Mapper::LeastLoaded`].
    loads: Vec<u64>,
}

/// Hashes the numbers of two components, by which each kind of task is looked up. No attacker chooses these
/// numbers, so a fast hash is enough.
#[derive(Default)]
pub(crate) struct OfKind(u64);

impl Hasher for OfKind {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The hash table takes its bucket from the low bits and its tag from the high ones, but a product is
        // well mixed only in its high bits.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn weight(spec: &TaskSpec) -> u64 {
    u64::from(spec.weight.max(1))
}

impl Placing {
    /// A mapper for `workers` workers at first, and for at most `most` workers later.
    pub(crate) fn new(mapper: Mapper, workers: usize, most: usize) -> Placing {
        let given = mapper.clone();
        Placing { given, mapper, workers, next: 0, placed: HashMap::default(), loads: vec![0; most] }
    }

    /// Lets another mapper place tasks from now on: the one with this value of the setting `exec.mapper`.
    pub(crate) fn choose(&mut self, choice: u64) {
        if choice == self.mapper.choice() {
            return;
        }
        self.mapper = match (choice, &self.given) {
            (CONTIGUOUS, Mapper::Contiguous { block }) => Mapper::Contiguous { block: *block },
            (CONTIGUOUS, _) => Mapper::default(),
            (ROUND_ROBIN, _) => Mapper::RoundRobin,
            (_, given) => given.clone(),
        };
        self.next = 0;
        self.placed.clear();
    }

    /// Sets how many workers take part from now on.
    pub(crate) fn set_workers(&mut self, workers: usize) {
        self.workers = workers;
        self.next = 0;
        self.placed.clear();
    }

    /// The worker of a task created while running, by a task of component `creator` on worker `here`.
    pub(crate) fn place(&mut self, spec: &TaskSpec, creator: u64, here: usize) -> usize {
        let chosen = spec.place.worker.map(|worker| worker % self.workers);
        let worker = match &self.mapper {
            _ if chosen.is_some() => chosen.unwrap_or_default(),
            Mapper::LeastLoaded => self.least_loaded(here),
            Mapper::User(choose) => choose(spec) % self.workers,
            Mapper::RoundRobin => self.one_after_another(),
            Mapper::Contiguous { block } => {
                let block = (*block).max(1);
                self.in_blocks((spec.component.0, creator), here, block)
            }
        };
        self.placed_on(worker, spec);
        worker
    }

    /// Counts a task's weight, if this run may place tasks by weight.
    fn placed_on(&mut self, worker: usize, spec: &TaskSpec) {
        if matches!(self.given, Mapper::LeastLoaded) {
            self.loads[worker] += weight(spec);
        }
    }

    /// Chooses the workers of the tasks created before the start; the result is in the order of `specs`.
    pub(crate) fn cut(&mut self, specs: &[TaskSpec]) -> Vec<usize> {
        if !matches!(self.mapper, Mapper::Contiguous { .. }) {
            return self.one_by_one(specs);
        }
        // The weights of tasks that the user placed are left out, so they do not change how the other tasks
        // are divided.
        let total: u64 = specs.iter().filter(|spec| spec.place.worker.is_none()).map(weight).sum();
        let mut before = 0;
        let mut places = Vec::with_capacity(specs.len());
        for spec in specs {
            let place = match spec.place.worker {
                Some(place) => place % self.workers,
                None => {
                    // A task belongs to the piece that contains the middle of its weight.
                    let middle = 2 * before + weight(spec);
                    before += weight(spec);
                    let piece = u128::from(middle) * self.workers as u128 / (2 * u128::from(total));
                    (piece as usize).min(self.workers - 1)
                }
            };
            places.push(place);
            self.placed_on(place, spec);
        }
        places
    }

    /// Chooses workers for tasks that already run, as if the tasks had been created before the start.
    pub(crate) fn cut_anew(&self, specs: &[TaskSpec]) -> Vec<usize> {
        // The loads of the workers change only when the tasks move, so a copy of the mapper computes the new
        // places.
        Placing::new(self.mapper.clone(), self.workers, self.loads.len()).cut(specs)
    }

    /// The worker for a task that was placed on the worker `parked`, which is parked.
    pub(crate) fn instead_of(&self, parked: usize, spec: &TaskSpec) -> usize {
        let user = || match &self.mapper {
            Mapper::User(choose) => choose(spec),
            _ => parked,
        };
        spec.place.worker.unwrap_or_else(user) % self.workers
    }

    fn one_by_one(&mut self, specs: &[TaskSpec]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..specs.len()).collect();
        if matches!(self.mapper, Mapper::LeastLoaded) {
            order.sort_by_key(|&at| std::cmp::Reverse(weight(&specs[at])));
        }
        let mut places = vec![0; specs.len()];
        for at in order {
            places[at] = self.place(&specs[at], 0, 0);
        }
        places
    }

    fn least_loaded(&self, here: usize) -> usize {
        (0..self.workers).min_by_key(|&worker| (self.loads[worker], worker != here)).unwrap_or_default()
    }

    /// Notes that a task that this mapper placed has ended on `worker`.
    pub(crate) fn ended(&mut self, spec: &TaskSpec, worker: u32) {
        if let Some(load) = self.loads.get_mut(worker as usize) {
            *load = load.saturating_sub(weight(spec));
        }
    }

    /// Notes that a task has moved to another worker.
    pub(crate) fn moved(&mut self, spec: &TaskSpec, from: u32, to: u32) {
        self.ended(spec, from);
        self.loads[to as usize] += weight(spec);
    }

    fn one_after_another(&mut self) -> usize {
        let worker = self.next;
        self.next = (self.next + 1) % self.workers;
        worker
    }

    fn in_blocks(&mut self, kind: (u64, u64), here: usize, block: usize) -> usize {
        let workers = self.workers;
        let counts = self.placed.entry(kind).or_insert_with(|| vec![0; workers]);
        let found = (0..workers).map(|step| (here + step) % workers).find(|&worker| counts[worker] < block);
        let worker = found.unwrap_or_else(|| {
            counts.fill(0);
            (here + 1) % workers
        });
        counts[worker] += 1;
        worker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SiteRef;

    fn placing(workers: usize) -> Placing {
        Placing::new(Mapper::default(), workers, workers)
    }

    #[test]
    fn a_chain_is_cut_into_equal_pieces() {
        let specs = [TaskSpec::default(); 6];
        assert_eq!(placing(2).cut(&specs), [0, 0, 0, 1, 1, 1]);
        assert_eq!(placing(3).cut(&specs), [0, 0, 1, 1, 2, 2]);
        assert_eq!(placing(4).cut(&specs[..1]).len(), 1);
    }

    #[test]
    fn weights_and_wishes_count() {
        let heavy = TaskSpec { weight: 3, ..TaskSpec::default() };
        let placed = TaskSpec { place: Placement::on_worker(5), ..TaskSpec::default() };
        assert_eq!(placing(2).cut(&[heavy, TaskSpec::default(), TaskSpec::default(), placed]), [0, 1, 1, 1]);
    }

    #[test]
    fn what_the_user_placed_does_not_shift_the_pieces_of_the_others() {
        let placed = |worker| TaskSpec { place: Placement::on_worker(worker), ..TaskSpec::default() };
        let collector = TaskSpec { weight: 2, ..TaskSpec::default() };
        let network = [TaskSpec::default(), collector];
        assert_eq!(placing(2).cut(&network), [0, 1]);
        assert_eq!(placing(2).cut(&[network[0], network[1], placed(0), placed(1)]), [0, 1, 0, 1]);
        assert_eq!(placing(2).cut(&[placed(1), network[0], placed(0), network[1]]), [1, 0, 0, 1]);
        assert_eq!(placing(2).cut(&[placed(1); 3]), [1, 1, 1]);
    }

    #[test]
    fn the_least_loaded_worker_gets_the_next_task() {
        let of_weight = |weight| TaskSpec { weight, ..TaskSpec::default() };
        let mut placing = Placing::new(Mapper::LeastLoaded, 2, 2);
        assert_eq!(placing.cut(&[1, 1, 5, 3].map(of_weight)), [1, 1, 0, 1]);
        assert_eq!(placing.place(&of_weight(2), 0, 1), 1, "both have 5: the creator's");
        assert_eq!(placing.place(&of_weight(1), 0, 1), 0);
        placing.moved(&of_weight(5), 0, 1);
        placing.ended(&of_weight(1), 0);
        assert_eq!(
            placing.place(&TaskSpec { place: Placement::on_worker(3), ..of_weight(20) }, 0, 0),
            1,
            "where its specification puts it"
        );
        assert_eq!(placing.place(&of_weight(1), 0, 1), 0);
    }

    #[test]
    fn the_mapper_changes_while_tasks_live() {
        let of_weight = |weight| TaskSpec { weight, ..TaskSpec::default() };
        let mut placing = Placing::new(Mapper::LeastLoaded, 2, 2);
        assert_eq!(placing.place(&of_weight(9), 0, 0), 0);
        placing.choose(ROUND_ROBIN);
        assert_eq!([(); 4].map(|()| placing.place(&of_weight(1), 0, 0)), [0, 1, 0, 1]);
        placing.choose(CONTIGUOUS);
        assert_eq!([(); 9].map(|()| placing.place(&of_weight(1), 0, 1)), [1, 1, 1, 1, 1, 1, 1, 1, 0]);
        placing.choose(ROUND_ROBIN + 1);
        // Worker 0 has 9 + 2 + 1, worker 1 has 2 + 8: the weights were counted under each mapper.
        assert_eq!([(); 3].map(|()| placing.place(&of_weight(1), 0, 0)), [1, 1, 0]);

        let mut own = Placing::new(Mapper::User(Arc::new(|_| 1)), 2, 2);
        own.choose(ROUND_ROBIN);
        assert_eq!([(); 3].map(|()| own.place(&of_weight(1), 0, 0)), [0, 1, 0]);
        own.choose(ROUND_ROBIN + 1);
        assert_eq!([(); 3].map(|()| own.place(&of_weight(1), 0, 0)), [1, 1, 1]);
        let mut blocks = Placing::new(Mapper::Contiguous { block: 1 }, 2, 2);
        blocks.choose(ROUND_ROBIN);
        blocks.choose(CONTIGUOUS);
        assert_eq!(
            [(); 3].map(|()| blocks.place(&of_weight(1), 0, 0)),
            [0, 1, 1],
            "blocks of one, as at first"
        );
    }

    #[test]
    fn a_star_of_sixteen_replicas_lands_half_and_half() {
        let mut placing = placing(2);
        let spec = TaskSpec { component: SiteRef(7), ..TaskSpec::default() };
        let mut here = 0;
        let mut places = Vec::new();
        for _ in 0..16 {
            here = placing.place(&spec, 7, here);
            places.push(here);
        }
        assert_eq!(places, [[0; 8], [1; 8]].concat());
    }

    #[test]
    fn a_split_fills_both_workers_in_turn() {
        let mut placing = placing(2);
        let spec = TaskSpec { component: SiteRef(7), ..TaskSpec::default() };
        let places: Vec<usize> = (0..1000).map(|_| placing.place(&spec, 1, 0)).collect();
        assert_eq!(places[..16], [[0; 8], [1; 8]].concat());
        let on_first = places.iter().filter(|&&worker| worker == 0).count();
        assert!((490..=510).contains(&on_first), "{on_first} of 1000");
    }
}

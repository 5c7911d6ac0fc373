//! Balances workers: chooses which parts of their load move to another worker, given the cost of each part.

/// A part of a worker's load that may be moved as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) worker: usize,
    /// The processor time that the part used in the measured window, in ticks of the clock.
    pub(crate) ticks: u64,
    /// Whether the part consists of many light replicas. A part of many light replicas (a *lump*) loses some
    /// of its gain because its messages must pass to another worker, so its gain must be larger.
    pub(crate) is_lump: bool,
    /// The only worker to which this part may move, if the part is a single light replica.
    pub(crate) only_to: Option<usize>,
}

/// Moves are made only if they reduce the load of the most loaded worker to this percentage or less. If only
/// one lump moves, `LEFT_BY_LUMP` is the limit.
const LEFT_AT_MOST: u64 = 92;
const LEFT_BY_LUMP: u64 = 75;
/// The percentage corresponding to [`LEFT_AT_MOST`] for moves that are only tried.
const LEFT_BY_TRIAL: u64 = 97;
/// The number of parts that may move: the largest ones are considered, and all others stay where they are.
const WEIGHED_MAX: usize = 256;

/// Chooses moves (each is a part and a worker) that reduce the load of the most loaded worker. `load` is the
/// load of each worker, including the load of its parts.
pub(crate) fn moves(mut load: Vec<u64>, parts: &[Part]) -> Vec<(usize, usize)> {
    let before = most(&load);
    let mut balance = Balance::new(parts);
    // The number of steps is bounded. Each step reduces the load of the most loaded worker, and most parts
    // move at most once.
    for _ in 0..2 * WEIGHED_MAX {
        if !balance.step(&mut load) {
            break;
        }
    }
    let moved = |&(part, now): &(usize, usize)| parts[part].worker != now;
    let moves: Vec<(usize, usize)> = balance.places().filter(moved).collect();
    let is_tried = moves.iter().all(|&(part, _)| parts[part].only_to.is_some());
    let left = if is_tried { LEFT_BY_TRIAL } else { LEFT_AT_MOST };
    if most(&load) * 100 > before * left { Vec::new() } else { moves }
}

/// The load of the most loaded worker.
fn most(load: &[u64]) -> u64 {
    load.iter().copied().max().unwrap_or_default()
}

struct Balance {
    /// The largest parts, largest first, with their numbers and where they are now.
    parts: Vec<(usize, Part)>,
}

/// A change of the placement, and by how much it reduces the load of the most loaded worker.
#[derive(Clone, Copy)]
struct Step {
    out: usize,
    /// The part that moves back in exchange.
    back: Option<usize>,
    ticks: u64,
}

impl Balance {
    fn new(parts: &[Part]) -> Balance {
        let mut parts: Vec<(usize, Part)> = parts.iter().copied().enumerate().collect();
        parts.sort_by_key(|&(number, part)| (std::cmp::Reverse(part.ticks), number));
        parts.truncate(WEIGHED_MAX);
        Balance { parts }
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.parts.iter().map(|(number, part)| (*number, part.worker))
    }

    /// Moves load from the most loaded worker to the least loaded one; returns false if nothing is gained.
    fn step(&mut self, load: &mut [u64]) -> bool {
        let by_load = |&worker: &usize| load[worker];
        let (Some(from), Some(to)) =
            ((0..load.len()).rev().max_by_key(by_load), (0..load.len()).min_by_key(by_load))
        else {
            return false;
        };
        let gap = load[from] - load[to];
        let Some(step) = self.best(from, to, gap, load[from]) else { return false };
        self.parts[step.out].1.worker = to;
        if let Some(back) = step.back {
            self.parts[back].1.worker = from;
        }
        load[from] -= step.ticks;
        load[to] += step.ticks;
        true
    }

    /// The step between two workers, whose loads differ by `gap`, after which the more loaded of the two has
    /// the least load.
    fn best(&self, from: usize, to: usize, gap: u64, load: u64) -> Option<Step> {
        let on =
            |worker: usize| self.parts.iter().enumerate().filter(move |(_, (_, part))| part.worker == worker);
        let left = |ticks: u64| load - ticks.min(gap.saturating_sub(ticks));
        let single = on(from)
            .filter(|(_, (_, part))| part.ticks > 0 && part.ticks < gap)
            .filter(|(_, (_, part))| part.only_to.is_none_or(|only| only == to))
            .filter(|(_, (_, part))| !part.is_lump || left(part.ticks) * 100 <= load * LEFT_BY_LUMP);
        let single = single.map(|(out, (_, part))| Step { out, back: None, ticks: part.ticks });
        let single = single.min_by_key(|step| left(step.ticks));
        let in_pairs = |part: &Part| !part.is_lump && part.only_to.is_none();
        let pairs = on(from).filter(|(_, (_, part))| in_pairs(part)).flat_map(|(out, (_, part))| {
            let others = on(to).filter(|(_, (_, other))| in_pairs(other) && other.ticks < part.ticks);
            others.map(move |(back, (_, other))| Step {
                out,
                back: Some(back),
                ticks: part.ticks - other.ticks,
            })
        });
        // An exchange of parts is two moves, so it must leave clearly less load than the best single move and
        // than no move.
        let pair = pairs.filter(|step| step.ticks < gap && left(step.ticks) * 50 < load * 49);
        let pair = pair.min_by_key(|step| left(step.ticks));
        let pair =
            pair.filter(|step| single.is_none_or(|single| left(step.ticks) * 50 < left(single.ticks) * 49));
        let step = pair.or(single)?;
        (left(step.ticks) < load).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(all: &[(usize, u64)]) -> Vec<Part> {
        all.iter().map(|&(worker, ticks)| Part { worker, ticks, is_lump: false, only_to: None }).collect()
    }

    /// The number of moves, and each worker's load after them, if the workers have only the parts and
    /// `other`.
    fn after(all: &[(usize, u64)], other: &[u64]) -> (usize, Vec<u64>) {
        let parts = parts(all);
        let mut load = other.to_vec();
        parts.iter().for_each(|part| load[part.worker] += part.ticks);
        let moves = moves(load.clone(), &parts);
        for &(part, worker) in &moves {
            load[parts[part].worker] -= parts[part].ticks;
            load[worker] += parts[part].ticks;
        }
        (moves.len(), load)
    }

    #[test]
    fn equal_parts_are_dealt_out_equally() {
        for workers in 1..=8 {
            for replicas in [1, 2, 3, 8, 64] {
                let (_, load) = after(&vec![(0, 1000); replicas], &vec![0; workers]);
                let least = replicas.div_ceil(workers) as u64 * 1000;
                assert_eq!(most(&load), least, "{replicas} on {workers}: {load:?}");
            }
        }
    }

    #[test]
    fn a_hot_part_is_alone() {
        let mut all = vec![(0, 1600)];
        all.extend([(0, 100); 16]);
        let (moved, load) = after(&all, &[0, 0]);
        assert_eq!((moved, load), (1, vec![1600, 1600]));
    }

    #[test]
    fn parts_whose_sizes_fall_are_almost_even() {
        for replicas in 4..=64_u64 {
            let all: Vec<(usize, u64)> = (1..=replicas).map(|k| (0, 1_000_000 / k)).collect();
            let even = all.iter().map(|part| part.1).sum::<u64>() / 2;
            let (_, load) = after(&all, &[0, 0]);
            // Five parts cannot be divided evenly: the best division leaves 1.2 million ticks on one worker,
            // while half of the sum is 1.142 million.
            assert!(most(&load) <= even * 106 / 100, "{replicas}: {load:?}");
        }
    }

    #[test]
    fn what_else_a_worker_does_counts() {
        assert_eq!(after(&[(0, 100), (0, 100)], &[0, 300]).0, 0);
        assert_eq!(after(&[(0, 100), (0, 100), (0, 100)], &[0, 100]), (1, vec![200, 200]));
    }

    #[test]
    fn who_is_balanced_is_left_alone() {
        assert_eq!(after(&[(0, 1050), (1, 1000)], &[0, 0]).0, 0);
        assert_eq!(after(&[(0, 500), (0, 550), (1, 1000)], &[0, 0]).0, 0);
        assert_eq!(after(&[(0, 1000)], &[0, 0]).0, 0, "the other worker would have it instead");
        assert_eq!(moves(Vec::new(), &[]), []);
    }

    #[test]
    fn an_exchange_helps_where_no_single_move_does() {
        let (moved, load) = after(&[(0, 700), (0, 600), (1, 400), (1, 300)], &[0, 0]);
        assert_eq!((moved, load), (2, vec![1000, 1000]));
    }

    #[test]
    fn light_replicas_go_together_and_only_for_much() {
        let lump = |ticks, other| {
            let part = Part { worker: 0, ticks, is_lump: true, only_to: None };
            moves(vec![ticks + other, 0], &[part]).len()
        };
        assert_eq!(lump(500, 500), 1);
        assert_eq!(lump(800, 200), 0);
        assert_eq!(lump(200, 800), 0);
    }

    #[test]
    fn a_light_replica_alone_goes_only_where_its_messages_go_anyway_and_for_a_little() {
        let part = |only_to| Part { worker: 0, ticks: 100, is_lump: false, only_to: Some(only_to) };
        assert_eq!(moves(vec![1000, 850, 0], &[part(1)]), []);
        assert_eq!(moves(vec![1000, 850], &[part(1)]), [(0, 1)], "950 of 1000 is worth a trial");
        assert_eq!(moves(vec![1000, 950], &[part(1)]), []);
        assert_eq!(moves(vec![1000, 850, 0], &[part(2)]), [(0, 2)]);
    }

    #[test]
    fn more_parts_than_are_weighed_go_to_where_there_is_time() {
        let (moved, load) = after(&vec![(0, 10); 1000], &[0, 0]);
        assert_eq!((moved, load), (WEIGHED_MAX, vec![7440, 2560]));
    }
}

//! Random networks with planted causes. The generator uses no code of the rules that find verdicts.

use thalweg_chance::Chance;

use super::network::{BoxPlan, Case, How, Net};

/// A cause that makes a network slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    SlowBox,
    SlowReplica,
    SkewedKey,
    BadPlacement,
    SmallCapacity,
    QuantumOfOne,
    Limit,
    SlowSource,
    SlowSink,
    Sleep,
    Mutex,
    SpinLock,
    Allocator,
    Fifo,
    Timer,
    PageFaults,
    Memory,
    OtherProcesses,
    HeadOfLine,
    TooManyWorkers,
    SharedLine,
    SmallWrites,
    RareStalls,
    MovingBottleneck,
    Bursts,
}

/// The first of the seeds whose networks have at least one of the later causes.
pub(super) const LATER: u64 = 30_000;
/// The number of causes that networks of smaller seeds have; the causes after them are the later causes.
const EARLIER: usize = 20;

/// All causes, with the words that stand for them.
pub(super) const CAUSES: [(Cause, &str); 25] = [
    (Cause::SlowBox, "slow box"),
    (Cause::SlowReplica, "slow replica"),
    (Cause::SkewedKey, "skewed key"),
    (Cause::BadPlacement, "bad placement"),
    (Cause::SmallCapacity, "small capacity"),
    (Cause::QuantumOfOne, "quantum of one"),
    (Cause::Limit, "limit by option"),
    (Cause::SlowSource, "slow source"),
    (Cause::SlowSink, "slow sink"),
    (Cause::Sleep, "sleep in a box"),
    (Cause::Mutex, "shared mutex"),
    (Cause::SpinLock, "shared spin lock"),
    (Cause::Allocator, "allocator"),
    (Cause::Fifo, "FIFO"),
    (Cause::Timer, "timer"),
    (Cause::PageFaults, "page faults"),
    (Cause::Memory, "bound by memory"),
    (Cause::OtherProcesses, "other processes"),
    (Cause::HeadOfLine, "head of line"),
    (Cause::TooManyWorkers, "too many workers"),
    (Cause::SharedLine, "shared cache line"),
    (Cause::SmallWrites, "small writes"),
    (Cause::RareStalls, "rare stalls"),
    (Cause::MovingBottleneck, "moving bottleneck"),
    (Cause::Bursts, "input in bursts"),
];

impl Cause {
    pub(super) fn word(self) -> &'static str {
        CAUSES.iter().find(|(cause, _)| *cause == self).map_or("", |(_, word)| word)
    }
}

/// A network with its planted causes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planted {
    pub(super) case: Case,
    pub(super) causes: Vec<Cause>,
    /// Whether no cause was planted, and the source is slower than the network.
    pub(super) healthy: bool,
}

const COSTS: [&str; 4] = ["constant", "exponential", "bimodal", "rare"];
/// The costs of two boxes of which the one is slow while the other is fast.
const PHASES: [&str; 2] = ["even-phases", "odd-phases"];
const BOXES_MAX: usize = 6;

/// The network that the generator draws for a seed.
pub(super) fn planted(seed: u64) -> Planted {
    let mut chance = Chance::new(thalweg_chance::mixed(seed));
    let mut growing = Growing { chance: &mut chance, boxes: 0, numbers: 0 };
    let net = growing.grown();
    let boxes = (0..growing.boxes).map(|_| plan(&mut chance)).collect();
    let mut case = Case::plain(net, boxes, chance.between(2, 7));
    case.round_robin = chance.one_in(6);
    if seed >= LATER {
        let causes = plant_later(&mut case, &mut chance);
        return Planted { case, causes, healthy: false };
    }
    let wanted = chance.of(&[0, 1, 1, 1, 1, 2, 2, 3]);
    let mut causes = Vec::new();
    for _ in 0..wanted * 4 {
        if causes.len() == wanted as usize {
            break;
        }
        let (cause, _) = chance.of(&CAUSES[..EARLIER]);
        if !causes.contains(&cause) && plant(cause, &mut case, &mut chance) {
            causes.push(cause);
        }
    }
    let healthy = causes.is_empty() && chance.one_in(2);
    if healthy {
        case.source = Some(0.5);
    }
    causes.sort();
    Planted { case, causes, healthy }
}

/// Plants one of the later causes, and up to two further causes from all.
fn plant_later(case: &mut Case, chance: &mut Chance) -> Vec<Cause> {
    let mut causes = Vec::new();
    // Some of the later causes can be planted in every network, so this ends.
    while causes.is_empty() {
        let (cause, _) = chance.of(&CAUSES[EARLIER..]);
        if plant(cause, case, chance) {
            causes.push(cause);
        }
    }
    let wanted = 1 + chance.below(3) as usize;
    for _ in 0..wanted * 4 {
        if causes.len() == wanted {
            break;
        }
        let (cause, _) = chance.of(&CAUSES);
        let mut tried = case.clone();
        // A further cause must not take a box from a later cause, which would then be gone.
        if !causes.contains(&cause) && plant(cause, &mut tried, chance) && keeps_later(case, &tried) {
            causes.push(cause);
            *case = tried;
        }
    }
    causes.sort();
    causes
}

/// Whether each box that is slow by a later cause is still slow by this cause.
fn keeps_later(before: &Case, after: &Case) -> bool {
    before.boxes.iter().zip(&after.boxes).all(|(before, after)| {
        let is_later = matches!(before.how, How::Line | How::Write | How::Stall);
        let has_phases = PHASES.contains(&before.cost);
        (!is_later || before.how == after.how) && (!has_phases || before.cost == after.cost)
    })
}

fn plan(chance: &mut Chance) -> BoxPlan {
    // A random time from 2 to 40 µs, uniform in its logarithm.
    let turns = 1300.0 * (20.0_f64).powf(chance.uniform());
    let cost = chance.of(&COSTS);
    BoxPlan { turns, cost, how: How::Compute, times: 1.0, seed: chance.below(1 << 20) }
}

/// A network under construction.
struct Growing<'a> {
    chance: &'a mut Chance,
    boxes: usize,
    numbers: usize,
}

impl Growing<'_> {
    fn grown(&mut self) -> Net {
        let parts = self.chance.between(2, 5);
        let parts = (0..parts).map(|_| self.part(0)).collect();
        let mut net = Net::Serial(parts);
        if self.boxes == 0 {
            net = Net::Serial(vec![net, self.a_box()]);
        }
        net
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn a_box(&mut self) -> Net {
        if self.boxes == BOXES_MAX {
            return Net::Filter(self.number());
        }
        self.boxes += 1;
        Net::Box(self.boxes - 1)
    }

    fn part(&mut self, depth: u32) -> Net {
        let drawn = self.chance.below(if depth < 2 { 100 } else { 50 });
        let number = self.number();
        let ordered = self.chance.one_in(3);
        match drawn {
            0..45 => self.a_box(),
            45..50 => Net::Filter(number),
            50..65 => {
                let first_of_ten = self.chance.between(1, 10);
                let branches = Box::new([self.inner(depth), self.inner(depth)]);
                Net::Parallel { number, ordered, first_of_ten, branches }
            }
            65..80 => Net::Split { number, ordered, body: Box::new(self.inner(depth)) },
            80..86 => {
                let rounds = self.chance.between(2, 5);
                Net::Star { number, ordered, rounds, body: Box::new(self.inner(depth)) }
            }
            86..90 => {
                let rounds = self.chance.between(1, 4);
                Net::Feedback { number, rounds, body: Box::new(self.inner(depth)) }
            }
            90..93 => Net::Join { number, branches: Box::new([self.inner(depth), self.inner(depth)]) },
            93..95 => Net::Exec,
            _ => Net::Named(number, Box::new(self.inner(depth))),
        }
    }

    fn inner(&mut self, depth: u32) -> Net {
        match self.chance.below(3) {
            0 => Net::Serial(vec![self.part(depth + 1), self.part(depth + 1)]),
            _ => self.part(depth + 1),
        }
    }
}

/// Plants a cause, if the network has a place for it.
fn plant(cause: Cause, case: &mut Case, chance: &mut Chance) -> bool {
    let boxes = case.net.boxes();
    let at = chance.of(&boxes);
    let in_splits = case.net.split_boxes();
    let many = 2.0 + 6.0 * chance.uniform();
    match cause {
        Cause::SlowBox => case.boxes[at].turns *= 2.0 + many,
        Cause::SlowReplica | Cause::SkewedKey if in_splits.is_empty() => return false,
        Cause::SlowReplica => case.boxes[chance.of(&in_splits)].times = 2.0 + 2.0 * many,
        Cause::SkewedKey => case.skew = Some(chance.between(6, 10)),
        Cause::BadPlacement => {
            let worker = chance.below(2) as usize;
            case.net.change(&mut |net| {
                if let Net::Box(at) = *net {
                    *net = Net::Placed(at, worker);
                }
            });
        }
        Cause::SmallCapacity => case.capacity = Some(chance.between(1, 4)),
        Cause::QuantumOfOne => {
            case.quantum = Some(1);
            case.boxes.iter_mut().for_each(|plan| plan.turns /= 8.0);
        }
        Cause::Limit => case.unfinished = Some(chance.between(1, 5)),
        Cause::SlowSource => case.source = Some(0.2 + 0.4 * chance.uniform()),
        Cause::SlowSink => case.sink = Some(0.2 + 0.4 * chance.uniform()),
        Cause::OtherProcesses => case.others = chance.between(1, 4) as usize,
        Cause::HeadOfLine => return head_of_line(case),
        Cause::TooManyWorkers => case.workers = chance.of(&[4, 8]),
        Cause::SharedLine
        | Cause::SmallWrites
        | Cause::RareStalls
        | Cause::MovingBottleneck
        | Cause::Bursts => {
            return plant_one_later(cause, case, chance, at, many);
        }
        Cause::Mutex | Cause::SpinLock if boxes.len() < 2 => return false,
        Cause::Mutex | Cause::SpinLock => {
            let how = if cause == Cause::Mutex { How::Mutex } else { How::Spin };
            let other = boxes[(boxes.iter().position(|b| *b == at).unwrap_or(0) + 1) % boxes.len()];
            for at in [at, other] {
                case.boxes[at].how = how;
                case.boxes[at].turns = case.boxes[at].turns.max(10_000.0);
            }
        }
        Cause::Sleep => {
            case.boxes[at] = BoxPlan {
                how: How::Sleep,
                cost: "constant",
                turns: 50_000.0 * many,
                ..case.boxes[at].clone()
            };
        }
        Cause::Timer => {
            case.boxes[at] =
                BoxPlan { how: How::Timer, cost: "constant", turns: 300_000.0, ..case.boxes[at].clone() };
        }
        Cause::Fifo => {
            case.boxes[at].how = How::Fifo;
            case.fifo_us = 50.0 * many;
        }
        Cause::Allocator => {
            for at in boxes.iter().take(3) {
                case.boxes[*at].how = How::Allocate;
                case.boxes[*at].turns *= 2.0;
            }
        }
        Cause::PageFaults => {
            case.boxes[at] =
                BoxPlan { how: How::Fault, cost: "constant", turns: 100_000.0, ..case.boxes[at].clone() };
        }
        Cause::Memory => {
            case.boxes[at].how = How::Memory;
            case.boxes[at].turns *= many;
        }
    }
    true
}

/// Plants one of the later causes in the box `at`; a larger `many` makes the network slower.
fn plant_one_later(cause: Cause, case: &mut Case, chance: &mut Chance, at: usize, many: f64) -> bool {
    let boxes = case.net.boxes();
    let plan = case.boxes[at].clone();
    match cause {
        Cause::SharedLine | Cause::MovingBottleneck if boxes.len() < 2 => return false,
        Cause::SharedLine => {
            for &at in boxes.iter().take(3) {
                case.boxes[at].how = How::Line;
                case.boxes[at].turns = case.boxes[at].turns.max(10_000.0);
            }
        }
        Cause::MovingBottleneck => {
            let first = chance.below(boxes.len() as u64 - 1) as usize;
            let turns = 5_000.0 * many;
            for (&at, cost) in boxes[first..].iter().zip(PHASES) {
                case.boxes[at] = BoxPlan { turns, cost, how: How::Compute, ..case.boxes[at].clone() };
            }
        }
        Cause::SmallWrites => {
            case.boxes[at] = BoxPlan { how: How::Write, cost: "constant", turns: 15_000.0 * many, ..plan };
        }
        Cause::RareStalls => {
            case.boxes[at] = BoxPlan { how: How::Stall, cost: "constant", turns: 12_000.0 * many, ..plan };
        }
        _ => {
            // A trial has several bursts.
            case.source = Some(0.3 + 0.3 * chance.uniform());
            case.bursts = Some(0.0006 * many);
        }
    }
    true
}

/// Plants a rare slow record inside a combinator that keeps the order.
fn head_of_line(case: &mut Case) -> bool {
    let mut inside = Vec::new();
    case.net.visit(&mut |net| match net {
        Net::Parallel { branches, .. } => inside.extend(branches[0].boxes()),
        Net::Split { body, .. } => inside.extend(body.boxes()),
        _ => {}
    });
    let Some(&at) = inside.first() else { return false };
    case.net.change(&mut |net| {
        if let Net::Parallel { ordered, .. } | Net::Split { ordered, .. } = net {
            *ordered = true;
        }
    });
    case.boxes[at].cost = "rare";
    case.boxes[at].turns = case.boxes[at].turns.max(15_000.0);
    case.capacity = case.capacity.or(Some(16));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_network_again_and_all_causes_occur() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in (0..400).chain(LATER..LATER + 400) {
            let one = planted(seed);
            assert_eq!(one, planted(seed));
            assert!(!one.case.net.boxes().is_empty());
            let later = one.causes.iter().filter(|cause| **cause >= Cause::SharedLine).count();
            assert_eq!(later > 0, seed >= LATER);
            assert!(one.causes.len() <= 3);
            for cause in one.causes {
                *seen.entry(cause).or_insert(0) += 1;
            }
        }
        assert_eq!(seen.len(), CAUSES.len(), "{seen:?}");
    }

    #[test]
    fn a_later_cause_is_still_there_after_further_causes() {
        for seed in LATER..LATER + 400 {
            let Planted { case, causes, .. } = planted(seed);
            let has = |how: How| case.boxes.iter().any(|plan| plan.how == how);
            for (cause, is_there) in [
                (Cause::SharedLine, has(How::Line)),
                (Cause::SmallWrites, has(How::Write)),
                (Cause::RareStalls, has(How::Stall)),
                (
                    Cause::MovingBottleneck,
                    PHASES.iter().all(|cost| case.boxes.iter().any(|plan| plan.cost == *cost)),
                ),
                (Cause::Bursts, case.bursts().is_some()),
            ] {
                assert_eq!(causes.contains(&cause), is_there, "seed {seed}: {cause:?}");
            }
        }
    }

    /// A hash of all that a network, its boxes and its run consist of.
    fn hash_of(seeds: impl Iterator<Item = u64>) -> u64 {
        seeds.fold(1, |hash, seed| {
            let Planted { case, causes, healthy } = planted(seed);
            let words: Vec<&str> = causes.iter().map(|cause| cause.word()).collect();
            let options = (case.workers, case.capacity, case.quantum, case.unfinished);
            let rates = (case.source, case.sink, case.others, case.fifo_us);
            let more = (case.keys, case.skew, case.round_robin, case.steal, healthy);
            let (text, plan, records) = (case.net.text(), case.plan(), case.records(20));
            let all = format!("{text}{plan}{records}{words:?}{options:?}{rates:?}{more:?}");
            all.bytes().fold(hash, |hash, byte| thalweg_chance::mixed(hash ^ u64::from(byte)))
        })
    }

    #[test]
    fn the_networks_of_seeds_before_the_later_causes_are_as_they_were() {
        let seeds = (0..50).chain(1000..1010).chain(20_000..20_010);
        assert_eq!(hash_of(seeds), 4_119_673_104_684_597_783);
    }
}

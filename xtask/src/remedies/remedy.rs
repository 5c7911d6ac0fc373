//! Remedies: single changes of a network.

use std::collections::BTreeMap;
use std::fmt;

use super::network::{Case, How, Net};

/// One change of a network or of the options of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remedy {
    /// This box takes half of its time for every record.
    Faster(usize),
    /// This box takes half of its time for records with the hot key.
    FasterReplica(usize),
    /// This box gets four replicas.
    Replicate(usize),
    /// This box goes to this worker, and the other boxes stay where they were.
    Place(usize, usize),
    /// Of this box, the task in the replica or stage with this number goes to this worker.
    Part(usize, usize, usize),
    /// No box is placed on a worker by the network's text any more.
    Unplace,
    /// The capacity of streams.
    Capacity(u64),
    /// The quantum.
    Quantum(u64),
    /// The option `--unfinished` is left out.
    NoLimit,
    /// The source is twice as fast.
    Source,
    /// The sink is twice as fast.
    Sink,
    /// All keys have as many records.
    EvenKeys,
    /// The combinator with this number does not keep the order any more.
    Unordered(usize),
    /// The number of workers.
    Workers(usize),
    /// Workers without work take over tasks of other workers.
    Steal,
    /// Another mapper is used: round-robin, or contiguous if the network used round-robin.
    OtherMapper,
    /// Boxes that share a lock no longer use it.
    Unlock,
    /// Threads that count in one cache line get a cache line each.
    Apart,
    /// The other processes, which use the processors, are ended.
    Alone,
}

/// The remedy's name in the journal.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Faster(at) => write!(f, "faster w{at}"),
            Remedy::FasterReplica(at) => write!(f, "faster replica of w{at}"),
            Remedy::Replicate(at) => write!(f, "replicate w{at}"),
            Remedy::Place(at, worker) => write!(f, "place w{at} {worker}"),
            Remedy::Part(at, part, worker) => write!(f, "place w{at}[{part}] {worker}"),
            Remedy::Unplace => f.write_str("unplace"),
            Remedy::Capacity(messages) => write!(f, "capacity {messages}"),
            Remedy::Quantum(messages) => write!(f, "quantum {messages}"),
            Remedy::NoLimit => f.write_str("no limit"),
            Remedy::Source => f.write_str("source"),
            Remedy::Sink => f.write_str("sink"),
            Remedy::EvenKeys => f.write_str("even keys"),
            Remedy::Unordered(number) => write!(f, "unordered {number}"),
            Remedy::Workers(count) => write!(f, "workers {count}"),
            Remedy::Steal => f.write_str("steal"),
            Remedy::OtherMapper => f.write_str("other mapper"),
            Remedy::Unlock => f.write_str("unlock"),
            Remedy::Apart => f.write_str("apart"),
            Remedy::Alone => f.write_str("alone"),
        }
    }
}

/// The default capacity of streams.
const CAPACITY: u64 = 64;
/// The default quantum.
const QUANTUM: u64 = 64;

/// Every single remedy that changes this network.
pub(super) fn remedies(case: &Case, healthy: bool) -> Vec<Remedy> {
    let mut all = Vec::new();
    let in_splits = case.net.split_boxes();
    for at in case.net.boxes() {
        all.push(Remedy::Faster(at));
        all.push(Remedy::Replicate(at));
        all.extend((0..case.workers.min(2)).map(|worker| Remedy::Place(at, worker)));
        if case.boxes[at].times != 1.0 && in_splits.contains(&at) {
            all.push(Remedy::FasterReplica(at));
        }
    }
    all.extend(case.net.ordered().into_iter().map(Remedy::Unordered));
    all.push(Remedy::Capacity(16 * case.capacity.unwrap_or(CAPACITY)));
    all.push(Remedy::Quantum(if case.quantum.is_some() { QUANTUM } else { 8 * QUANTUM }));
    all.extend(
        [case.workers - 1, case.workers + 1].into_iter().filter(|&count| count > 0).map(Remedy::Workers),
    );
    if case.workers > 2 {
        all.push(Remedy::Workers(2));
    }
    // For a healthy network, which waits for its source, a faster source is no remedy.
    let sometimes = [
        (case.unfinished.is_some(), Remedy::NoLimit),
        (case.source.is_some() && !healthy, Remedy::Source),
        (case.sink.is_some(), Remedy::Sink),
        (case.skew.is_some(), Remedy::EvenKeys),
        (case.others > 0, Remedy::Alone),
        (case.boxes.iter().any(|plan| matches!(plan.how, How::Mutex | How::Spin)), Remedy::Unlock),
        (case.boxes.iter().any(|plan| plan.how == How::Line), Remedy::Apart),
        (case.net != unplaced(&case.net), Remedy::Unplace),
    ];
    all.extend(sometimes.into_iter().filter(|(there, _)| *there).map(|(_, remedy)| remedy));
    all.extend([Remedy::Steal, Remedy::OtherMapper]);
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) fn unplaced(net: &Net) -> Net {
    let mut net = net.clone();
    net.change(&mut |net| {
        if let Net::Placed(at, _) = *net {
            *net = Net::Box(at);
        }
    });
    net
}

/// The places of boxes in a recording, by the number of the box.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The worker, if all tasks of the box had the same worker.
    pub(super) workers: BTreeMap<usize, usize>,
    /// The path of the box as a component.
    pub(super) paths: BTreeMap<usize, String>,
}

impl Remedy {
    /// The network and the conditions of its run after the remedy.
    pub(super) fn applied(self, case: &Case, places: &Places) -> Case {
        let mut case = case.clone();
        match self {
            Remedy::Faster(at) => {
                case.boxes[at].turns /= 2.0;
                if case.boxes[at].how == How::Fifo {
                    case.fifo_us /= 2.0;
                }
            }
            Remedy::FasterReplica(at) => case.boxes[at].times /= 2.0,
            Remedy::Replicate(at) => instead(&mut case.net, at, Net::Lanes(at)),
            Remedy::Place(at, worker) => {
                for (&other, &stays) in places.workers.iter().filter(|(other, _)| **other != at) {
                    instead(&mut case.net, other, Net::Placed(other, stays));
                }
                instead(&mut case.net, at, Net::Placed(at, worker));
            }
            Remedy::Part(at, part, worker) => {
                // The first replica is called as if it were the only one.
                let number = if part == 0 { String::new() } else { format!("[{part}]") };
                let path = places.paths.get(&at);
                case.setting = path.map(|path| format!("task/{path}{number}.worker = {worker}"));
            }
            Remedy::Unplace => case.net = unplaced(&case.net),
            Remedy::Capacity(messages) => case.capacity = Some(messages),
            Remedy::Quantum(messages) => case.quantum = Some(messages),
            Remedy::NoLimit => case.unfinished = None,
            Remedy::Source => case.source = case.source.map(|part| 2.0 * part),
            Remedy::Sink => case.sink = case.sink.map(|part| 2.0 * part),
            Remedy::EvenKeys => case.skew = None,
            Remedy::Unordered(wanted) => case.net.change(&mut |net| match net {
                Net::Parallel { number, ordered, .. }
                | Net::Split { number, ordered, .. }
                | Net::Star { number, ordered, .. }
                    if *number == wanted =>
                {
                    *ordered = false;
                }
                _ => {}
            }),
            Remedy::Workers(count) => case.workers = count,
            Remedy::Steal => case.steal = true,
            Remedy::OtherMapper => case.round_robin = !case.round_robin,
            Remedy::Unlock => case.boxes.iter_mut().for_each(|plan| {
                if matches!(plan.how, How::Mutex | How::Spin) {
                    plan.how = How::Compute;
                }
            }),
            Remedy::Apart => case.boxes.iter_mut().filter(|plan| plan.how == How::Line).for_each(|plan| {
                plan.how = How::Apart;
            }),
            Remedy::Alone => case.others = 0,
        }
        case
    }
}

/// Puts another network in the place of a box.
fn instead(net: &mut Net, wanted: usize, other: Net) {
    net.change(&mut |net| {
        if matches!(net, Net::Box(at) | Net::Placed(at, _) | Net::Lanes(at) if *at == wanted) {
            *net = other.clone();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::generator::{LATER, planted};
    use super::*;

    #[test]
    fn each_remedy_changes_its_network_and_has_a_name_of_its_own() {
        for seed in (0..200).chain(LATER..LATER + 100) {
            let planted = planted(seed);
            let all = remedies(&planted.case, planted.healthy);
            let names: std::collections::BTreeSet<String> = all.iter().map(Remedy::to_string).collect();
            assert_eq!(names.len(), all.len());
            for remedy in all {
                let same = remedy.applied(&planted.case, &Places::default()) == planted.case;
                assert!(
                    !same || matches!(remedy, Remedy::Place(..)),
                    "seed {seed}: {remedy} changes nothing"
                );
            }
        }
    }
}

//! Traces in the order of their calls, with equal traces counted together: the data of sequence diagrams.
//!
//! Two traces are alike (belong to one equivalence class) if the same operations are called by the same
//! callers in the same order. Traces that differ only in the number of equal consecutive calls are alike. The
//! slowest trace of each class is kept. A trace has the calls of one thread only: calls in another thread or
//! process that the trace caused are a trace of their own.

use super::assembly::{Ended, NESTED_MAX, Thread};
use super::events::{Decoder, Outcome, ProbeRecord};
use super::operations::{Operations, component};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg_space::Error;
use thalweg_space::reader::{Feed, Item};

/// The maximal number of calls held for one trace; further siblings are left out.
const CALLS_MAX: usize = 5_000;
/// The maximal number of classes that are distinguished.
const CLASSES_MAX: usize = 10_000;

/// A call of a trace, or several consecutive calls that are alike.
#[derive(Clone, Debug, Default)]
pub struct SequenceCall {
    /// The operation's name.
    pub name: String,
    /// The operation's component, as in `OperationCalls::component`.
    pub component: String,
    /// The number of consecutive calls; 0 for a further stretch of a call that began in an earlier trace and
    /// had paused.
    pub times: u64,
    /// The number of the consecutive calls that failed or ended by an exception.
    pub failed: u64,
    /// The total time of the consecutive calls, in nanoseconds.
    pub total_ns: f64,
    /// The calls that the consecutive calls made, in order.
    pub calls: Vec<SequenceCall>,
}

/// Traces that are alike: one class.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The number of traces.
    pub count: u64,
    /// The duration of the slowest trace, in nanoseconds.
    pub slowest_ns: f64,
    /// The outermost call of the slowest trace.
    pub root: SequenceCall,
}

/// Consecutive equal calls of a trace that is still being read.
#[derive(Clone, Debug)]
struct Node {
    operation: u32,
    shape: u64,
    times: u64,
    failed: u64,
    total_ns: f64,
    children: Vec<Node>,
}

/// A thread's calls that wait for their caller, by depth.
#[derive(Default)]
struct Waiting {
    thread: Thread,
    by_depth: Vec<Vec<Node>>,
    count: usize,
}

impl Waiting {
    /// Adds a call that ended; returns the trace if it was the outermost call.
    fn end(&mut self, call: &Ended) -> Option<Node> {
        let Ended { operation, outcome, is_resumed, .. } = *call;
        let total_ns = call.end.saturating_sub(call.begin) as f64 * call.tick_ns;
        let depth = call.depth as usize;
        // Calls that are deeper than this call by more than one are dropped, because the events of their
        // callers were lost.
        self.by_depth.truncate(depth + 2);
        let mut children = if self.by_depth.len() == depth + 2 {
            self.by_depth.pop().unwrap_or_default()
        } else {
            Vec::new()
        };
        if depth >= NESTED_MAX as usize {
            // Calls beyond the maximal depth are kept without the calls that they made.
            children.iter_mut().for_each(|child| child.children.clear());
        }
        let mut hasher = DefaultHasher::new();
        operation.hash(&mut hasher);
        children.iter().for_each(|child| child.shape.hash(&mut hasher));
        let failed = u64::from(outcome != Outcome::Returned);
        let times = u64::from(!is_resumed);
        let node = Node { operation, shape: hasher.finish(), times, failed, total_ns, children };
        if depth == 0 {
            self.by_depth.clear();
            self.count = 0;
            return Some(node);
        }
        self.by_depth.resize_with(depth + 1, Vec::new);
        let beside = &mut self.by_depth[depth];
        match beside.last_mut().filter(|last| last.shape == node.shape) {
            Some(last) => {
                last.times += node.times;
                last.failed += node.failed;
                last.total_ns += node.total_ns;
            }
            None if self.count < CALLS_MAX => {
                self.count += 1;
                beside.push(node);
            }
            None => {}
        }
        None
    }
}

/// The classes of traces that the probes of a space or session recorded so far, the most frequent first.
///
/// # Errors
/// When nothing can be read.
pub fn sequences(feed: &mut impl Feed) -> Result<Vec<Sequence>, Error> {
    let mut operations = Operations::default();
    let mut decoders: Vec<Decoder> = Vec::new();
    let mut threads: HashMap<(usize, u32), Waiting> = HashMap::new();
    let mut classes: HashMap<u64, (u64, Node)> = HashMap::new();
    let mut ticks_ns: Vec<f64> = Vec::new();
    feed.look()?;
    loop {
        for space in &feed.spaces()[ticks_ns.len()..] {
            ticks_ns.push(1e9 / space.info()?.clock.hz());
        }
        let mut heard: Vec<(usize, u32, u64, Option<ProbeRecord>)> = Vec::new();
        let polled = feed.poll(super::POLL_ITEMS, &mut |place, item| match item {
            Item::Gap { writer, .. } => heard.push((place, writer, 0, None)),
            Item::Event(event) => {
                if decoders.len() <= place {
                    decoders.resize_with(place + 1, Decoder::default);
                }
                if let Some(recorded) = decoders[place].read(&event) {
                    heard.push((place, event.writer, event.time, Some(recorded)));
                }
            }
        })?;
        for (place, writer, time, recorded) in heard {
            let waiting = threads.entry((place, writer)).or_default();
            let space = &feed.spaces()[place];
            let tick_ns = ticks_ns[place];
            let call = |operation, depth, outcome, is_resumed, begin| {
                Some(Ended {
                    operation,
                    writer: place,
                    depth,
                    outcome,
                    is_resumed,
                    begin,
                    end: time,
                    tick_ns,
                })
            };
            let ended = match recorded {
                // After a loss of events, calls that wait for their caller are dropped.
                None => {
                    *waiting = Waiting::default();
                    None
                }
                Some(ProbeRecord::Called { what, depth, outcome, ticks, is_resumed }) => {
                    let operation = operations.number(place, space, what);
                    call(operation, depth, outcome, is_resumed, time.saturating_sub(ticks))
                }
                Some(ProbeRecord::Entered { what, depth }) => {
                    waiting.thread.enter(place, depth, operations.number(place, space, what), time);
                    None
                }
                Some(ProbeRecord::Left { what, depth, outcome }) => {
                    let operation = operations.number(place, space, what);
                    let begun = waiting.thread.leave(place, depth, operation);
                    begun.and_then(|begun| call(operation, depth, outcome, false, begun))
                }
                Some(_) => None,
            };
            if let Some(root) = ended.and_then(|call| waiting.end(&call)) {
                count(&mut classes, root);
            }
        }
        // A batch that is not full ends what was there when reading began; a live process goes on meanwhile.
        if polled < super::POLL_ITEMS {
            break;
        }
    }
    let named = |(count, root): (u64, Node)| Sequence {
        count,
        slowest_ns: root.total_ns,
        root: named(root, &operations),
    };
    let mut sequences: Vec<Sequence> = classes.into_values().map(named).collect();
    sequences.sort_by(|a, b| b.count.cmp(&a.count).then(b.slowest_ns.total_cmp(&a.slowest_ns)));
    Ok(sequences)
}

/// Counts a trace in its class. A further stretch of a call that had paused is no trace of its own.
fn count(classes: &mut HashMap<u64, (u64, Node)>, root: Node) {
    if root.times == 0 {
        return;
    }
    if let Some((count, slowest)) = classes.get_mut(&root.shape) {
        *count += 1;
        if root.total_ns > slowest.total_ns {
            *slowest = root;
        }
    } else if classes.len() < CLASSES_MAX {
        classes.insert(root.shape, (1, root));
    }
}

fn named(node: Node, operations: &Operations) -> SequenceCall {
    let operation = &operations.all[node.operation as usize];
    SequenceCall {
        name: operation.name.clone(),
        component: component(&operation.name, &operation.file),
        times: node.times,
        failed: node.failed,
        total_ns: node.total_ns,
        calls: node.children.into_iter().map(|child| named(child, operations)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(operation: u32, depth: u32, outcome: Outcome, ns: u64) -> Ended {
        Ended { operation, writer: 0, depth, outcome, is_resumed: false, begin: 0, end: ns, tick_ns: 1.0 }
    }

    /// `a` calls `b` three times and then `c`, which calls `b`: the order is kept, and equal consecutive
    /// calls are one.
    #[test]
    fn calls_keep_their_order() {
        let mut waiting = Waiting::default();
        for _ in 0..3 {
            assert!(waiting.end(&ended(1, 1, Outcome::Returned, 5)).is_none());
        }
        assert!(waiting.end(&ended(1, 2, Outcome::Failed, 1)).is_none());
        assert!(waiting.end(&ended(2, 1, Outcome::Returned, 2)).is_none());
        let root = waiting.end(&ended(0, 0, Outcome::Returned, 20)).unwrap();
        let shown: Vec<_> =
            root.children.iter().map(|child| (child.operation, child.times, child.total_ns)).collect();
        assert_eq!(shown, [(1, 3, 15.0), (2, 1, 2.0)]);
        assert_eq!((root.children[1].children[0].operation, root.children[1].children[0].failed), (1, 1));
        // A trace with a different number of consecutive calls belongs to the same class, and one with a
        // different order to another class.
        let mut again = |calls: &[(u32, u32)]| {
            calls.iter().for_each(|(operation, depth)| {
                drop(waiting.end(&ended(*operation, *depth, Outcome::Returned, 1)))
            });
            waiting.end(&ended(0, 0, Outcome::Returned, 1)).unwrap().shape
        };
        assert_eq!(again(&[(1, 1), (1, 2), (2, 1)]), root.shape);
        assert_ne!(again(&[(1, 2), (2, 1), (1, 1)]), root.shape);
    }

    #[test]
    fn a_call_that_pauses_is_one_trace() {
        let (mut waiting, mut classes) = (Waiting::default(), HashMap::new());
        for is_resumed in [false, true, true] {
            let call = Ended { is_resumed, ..ended(0, 0, Outcome::Returned, 5) };
            count(&mut classes, waiting.end(&call).unwrap());
        }
        assert_eq!(classes.values().map(|(count, _)| *count).collect::<Vec<_>>(), [1]);
    }
}

//! Assembles the trees of a thread's calls from events that record each call when it ends.
//!
//! Calls of a thread are recorded in the order of their ends, each with its depth, so a call's descendants
//! are the calls of greater depth since the last call of its depth or less. Equal siblings are merged into
//! one node at once, so an unfinished call is held as one node for each path of its descendants and not as
//! every single call. Two writers of one thread (a program and a library, each with a space) do not know each
//! other's depths, so the times decide which calls of one writer enclose calls of the other.

use super::events::Outcome;

/// From this depth on, calls are treated as siblings instead of nested, so that recursion of any depth needs
/// bounded memory.
pub(super) const NESTED_MAX: u32 = 200;
/// The maximal number of nodes held for one thread.
const NODES_MAX: usize = 200_000;
/// The maximal number of single calls held for a thread with several writers.
const APART_MAX: usize = 100_000;

/// Calls of one operation at one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) operation: u32,
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) unwound: u64,
    pub(super) total_ns: f64,
    pub(super) own_ns: f64,
    /// The spans under which the calls handed over work or sent messages.
    pub(super) went: Vec<u64>,
    pub(super) children: Vec<Node>,
}

impl Node {
    /// Adds the calls of another node of the same operation, and the nodes below it.
    pub(super) fn merge(&mut self, other: Node) {
        self.count += other.count;
        self.failed += other.failed;
        self.unwound += other.unwound;
        self.total_ns += other.total_ns;
        self.own_ns += other.own_ns;
        self.went.extend(other.went);
        for child in other.children {
            merge_into(&mut self.children, child);
        }
    }
}

/// Adds a node to its siblings, merged with an equal one.
pub(super) fn merge_into(nodes: &mut Vec<Node>, node: Node) {
    match nodes.iter_mut().find(|known| known.operation == node.operation) {
        Some(known) => known.merge(node),
        None => nodes.push(node),
    }
}

/// A call that ended, as its event recorded it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) operation: u32,
    /// The thread's writer that recorded the call.
    pub(super) writer: usize,
    pub(super) depth: u32,
    pub(super) outcome: Outcome,
    /// Whether this is a further stretch of a call that had paused, which is not counted again.
    pub(super) is_resumed: bool,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Nanoseconds of a tick.
    pub(super) tick_ns: f64,
}

/// A call's place in its tree.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) own_ns: f64,
    /// Whether some of the call's descendants may be lost.
    pub(super) is_incomplete: bool,
    /// The operations that the call called, each once.
    pub(super) callees: Vec<Callee>,
}

/// A call's calls of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    pub(super) operation: u32,
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) total_ns: f64,
}

/// A complete tree of calls: no other call encloses its root.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) root: Node,
    pub(super) begin: u64,
    /// The span that the trace continues; 0: none.
    pub(super) continues: u64,
    /// Whether the caller of the outermost call is lost or did not end.
    pub(super) is_orphan: bool,
}

/// Receives calls and traces.
pub(super) trait Takes {
    /// Receives a call and its place.
    fn call(&mut self, call: &Ended, placed: Placed);
    /// Receives a complete tree.
    fn trace(&mut self, trace: Trace);
}

/// Siblings whose caller has not ended.
#[derive(Debug)]
struct Pending {
    writer: usize,
    depth: u32,
    /// The time at which the first of these calls began; `end` is the time at which the last one ended.
    begin: u64,
    end: u64,
    nodes: Vec<Node>,
    is_incomplete: bool,
}

/// The state of a thread's calls while its events are read.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pending: Vec<Pending>,
    /// Whether the thread has several writers.
    pub(super) is_shared: bool,
    /// Spans under which calls that have not ended handed over work or sent messages: span, depth of the
    /// call, writer.
    went: Vec<(u64, u32, usize)>,
    /// The spans that traces continue, each with the time of its event: the span belongs to the outermost
    /// call at that time, or else to the next outermost call.
    continues: Vec<(u64, u64)>,
    /// Whether events were lost since the latest event; `lost_until` is the time of the first event after the
    /// last loss.
    is_lost: bool,
    lost_until: u64,
    /// Beginnings of calls whose ends will be recorded by other events: writer, depth, operation, time.
    open: Vec<(usize, u32, u32, u64)>,
    nodes: usize,
    /// For a thread with several writers, the calls with the latest end, which are kept until a later event
    /// arrives, because of calls with equal ends the inner ones have to be processed first.
    held: Vec<Ended>,
}

impl Thread {
    /// Records that events of this thread were lost.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Records the time of an event.
    fn see(&mut self, time: u64) {
        if std::mem::take(&mut self.is_lost) {
            self.lost_until = time;
        }
    }

    /// Records the start of a call whose end another event will record.
    pub(super) fn enter(&mut self, writer: usize, depth: u32, operation: u32, time: u64) {
        self.see(time);
        self.open.retain(|(of, deep, ..)| *of != writer || *deep < depth);
        self.open.push((writer, depth, operation, time));
    }

    /// The start of a call that ends now; `None` if its start was not recorded.
    pub(super) fn leave(&mut self, writer: usize, depth: u32, operation: u32) -> Option<u64> {
        let at = self
            .open
            .iter()
            .rposition(|(of, deep, what, _)| (*of, *deep, *what) == (writer, depth, operation))?;
        let begin = self.open[at].3;
        self.open.truncate(at);
        Some(begin)
    }

    /// Records that the present trace continues a span.
    pub(super) fn follow(&mut self, span: u64, time: u64) {
        self.see(time);
        if span != 0 && self.continues.len() < NODES_MAX {
            self.continues.push((time, span));
        }
    }

    /// The span that an outermost call continues: the last span that was recorded before the call ended and
    /// that no earlier call continues; 0 for none.
    fn continued(&mut self, end: u64) -> u64 {
        let mut last = 0;
        self.continues.retain(|(time, span)| {
            let is_before = *time <= end;
            if is_before {
                last = *span;
            }
            !is_before
        });
        last
    }

    /// Records that work was handed over or a message sent.
    pub(super) fn send(&mut self, span: u64, depth: u32, writer: usize, time: u64) {
        self.see(time);
        if span != 0 && self.went.len() < NODES_MAX {
            self.went.push((span, depth, writer));
        }
    }

    /// Calls whose beginning was recorded and whose end was not.
    pub(super) fn open(&self) -> impl Iterator<Item = (u32, u64)> {
        self.open.iter().map(|(_, _, operation, time)| (*operation, *time))
    }

    /// Adds a call that ended.
    pub(super) fn end(&mut self, call: Ended, taker: &mut impl Takes) {
        if !self.is_shared {
            return self.end_one(call, taker);
        }
        if self.held.first().is_some_and(|held| held.end != call.end) {
            self.end_held(taker);
        }
        self.held.push(call);
    }

    fn end_held(&mut self, taker: &mut impl Takes) {
        let mut held = std::mem::take(&mut self.held);
        held.sort_by_key(|call| std::cmp::Reverse(call.begin));
        held.into_iter().for_each(|call| self.end_one(call, taker));
    }

    fn end_one(&mut self, call: Ended, taker: &mut impl Takes) {
        self.see(call.end);
        let lost = call.begin < self.lost_until;
        let mut children: Vec<Node> = Vec::new();
        let mut is_incomplete = lost;
        while let Some(last) = self.pending.pop_if(|last| {
            if last.writer == call.writer {
                last.depth > call.depth
            } else {
                last.begin >= call.begin && last.end <= call.end
            }
        }) {
            if last.begin < call.begin {
                // The inner calls began before the present call, so they belong to another call, whose event
                // was lost.
                self.give_up(last, taker);
                continue;
            }
            is_incomplete |= last.is_incomplete;
            for node in last.nodes {
                merge_into(&mut children, node);
            }
        }
        let total_ns = (call.end.saturating_sub(call.begin)) as f64 * call.tick_ns;
        let inner: f64 = children.iter().map(|child| child.total_ns).sum();
        let own_ns = (total_ns - inner).max(0.0);
        let callee = |node: &Node| Callee {
            operation: node.operation,
            count: node.count,
            failed: node.failed + node.unwound,
            total_ns: node.total_ns,
        };
        let callees = children.iter().map(callee).collect();
        taker.call(&call, Placed { own_ns, is_incomplete, callees });
        let mut node = Node {
            operation: call.operation,
            count: u64::from(!call.is_resumed),
            failed: u64::from(call.outcome == Outcome::Failed),
            unwound: u64::from(call.outcome == Outcome::Unwound),
            total_ns,
            own_ns,
            went: self.went_from(&call),
            children,
        };
        if self.nodes > NODES_MAX {
            node.children.clear();
            self.nodes = 0;
            is_incomplete = true;
        }
        self.place(&call, node, is_incomplete, taker);
    }

    /// The spans of work handed over or messages sent by this call itself and not by its callees.
    fn went_from(&mut self, call: &Ended) -> Vec<u64> {
        let mut spans = Vec::new();
        self.went.retain(|(span, depth, writer)| {
            let is_inside = *writer == call.writer && *depth > call.depth;
            if is_inside {
                spans.push(*span);
            }
            !is_inside
        });
        spans
    }

    fn place(&mut self, call: &Ended, node: Node, is_incomplete: bool, taker: &mut impl Takes) {
        if call.depth == 0 && !self.is_shared {
            while let Some(left) = self.pending.pop() {
                self.give_up(left, taker);
            }
            self.nodes = 0;
            let continues = self.continued(call.end);
            return taker.trace(Trace { root: node, begin: call.begin, continues, is_orphan: false });
        }
        self.nodes += 1;
        // Calls beyond the maximal depth become siblings of their descendants.
        let mut nodes = vec![node];
        if call.depth >= NESTED_MAX {
            let inner = std::mem::take(&mut nodes[0].children);
            for child in inner {
                merge_into(&mut nodes, child);
            }
        }
        let mergeable = |last: &Pending| !self.is_shared && last.begin >= self.lost_until;
        match self.pending.last_mut() {
            Some(last) if mergeable(last) && last.writer == call.writer && last.depth == call.depth => {
                last.end = call.end;
                last.is_incomplete |= is_incomplete;
                for node in nodes {
                    merge_into(&mut last.nodes, node);
                }
            }
            _ => {
                let (begin, end) = (call.begin, call.end);
                let (writer, depth) = (call.writer, call.depth);
                self.pending.push(Pending { writer, depth, begin, end, nodes, is_incomplete });
                if self.pending.len() > APART_MAX {
                    let first = self.pending.remove(0);
                    self.give_up(first, taker);
                }
            }
        }
    }

    /// Emits these calls as roots, because their caller is lost, did not end, or does not exist.
    fn give_up(&mut self, pending: Pending, taker: &mut impl Takes) {
        let Pending { depth, begin, end, nodes, .. } = pending;
        let continues = if depth == 0 { self.continued(end) } else { 0 };
        for root in nodes {
            taker.trace(Trace { root, begin, continues, is_orphan: depth > 0 });
        }
    }

    /// Ends the assembly, as no more events come. Calls whose caller has not been found are roots.
    pub(super) fn finish(&mut self, taker: &mut impl Takes) {
        self.end_held(taker);
        for pending in std::mem::take(&mut self.pending) {
            self.give_up(pending, taker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    /// A generated call, and its caller's number.
    #[derive(Clone, Copy)]
    struct Made {
        call: Ended,
        caller: Option<usize>,
        inner: u64,
    }

    /// Random calls of one thread in the order of their ends, each an operation of its own; of `writers`
    /// writers that do not know each other's depths.
    fn made(chance: &mut Chance, writers: u64, traces: u64) -> Vec<Made> {
        fn one(
            chance: &mut Chance,
            (time, numbers): (&mut u64, &mut u32),
            stack: &mut Vec<(u32, usize)>,
            writers: u64,
            made: &mut Vec<Made>,
        ) -> u32 {
            let operation = *numbers;
            *numbers += 1;
            let writer = chance.below(writers) as usize;
            let depth = stack.iter().filter(|(_, of)| *of == writer).count() as u32;
            *time += chance.between(1, 4);
            let begin = *time;
            stack.push((operation, writer));
            let (mut inner, mut callees) = (0, Vec::new());
            for _ in 0..chance.below(if stack.len() < 6 { 4 } else { 1 }) {
                let callee = one(chance, (time, numbers), stack, writers, made);
                let ended = made.iter().find(|made| made.call.operation == callee).expect("it ended").call;
                inner += ended.end - ended.begin;
                callees.push(callee);
            }
            stack.pop();
            *time += chance.between(1, 4);
            let outcome = Outcome::Returned;
            let (end, is_resumed) = (*time, false);
            let call = Ended { operation, writer, depth, outcome, is_resumed, begin, end, tick_ns: 1.0 };
            for callee in callees {
                made.iter_mut().find(|made| made.call.operation == callee).expect("it ended").caller =
                    Some(operation as usize);
            }
            made.push(Made { call, caller: None, inner });
            operation
        }
        let (mut time, mut numbers, mut all) = (0, 0, Vec::new());
        for _ in 0..traces {
            one(chance, (&mut time, &mut numbers), &mut Vec::new(), writers, &mut all);
        }
        all
    }

    #[derive(Default)]
    struct Taken {
        /// For each operation, its own time (if complete) and its callees.
        calls: Vec<(u32, Option<f64>, Vec<u32>)>,
        roots: Vec<(u32, bool)>,
    }

    impl Takes for Taken {
        fn call(&mut self, call: &Ended, placed: Placed) {
            let own = (!placed.is_incomplete).then_some(placed.own_ns);
            let callees = placed.callees.iter().map(|callee| callee.operation).collect();
            self.calls.push((call.operation, own, callees));
        }

        fn trace(&mut self, trace: Trace) {
            self.roots.push((trace.root.operation, trace.is_orphan));
        }
    }

    #[test]
    fn every_call_finds_its_caller() {
        for seed in 0..300 {
            let mut chance = Chance::new(seed);
            for writers in [1, 2, 3] {
                let made = made(&mut chance, writers, 4);
                let (mut thread, mut taken) =
                    (Thread { is_shared: writers > 1, ..Thread::default() }, Taken::default());
                made.iter().for_each(|made| thread.end(made.call, &mut taken));
                thread.finish(&mut taken);
                assert_eq!(taken.calls.len(), made.len());
                for (operation, own, callees) in &taken.calls {
                    let one = made.iter().find(|made| made.call.operation == *operation).unwrap();
                    let mut wanted: Vec<u32> = made
                        .iter()
                        .filter(|made| made.caller == Some(*operation as usize))
                        .map(|made| made.call.operation)
                        .collect();
                    let mut assembled = callees.clone();
                    wanted.sort_unstable();
                    assembled.sort_unstable();
                    assert_eq!(assembled, wanted, "seed {seed}, {writers} writers, operation {operation}");
                    let lasted = one.call.end - one.call.begin;
                    assert_eq!(*own, Some((lasted - one.inner) as f64), "seed {seed}, operation {operation}");
                }
                let mut roots: Vec<u32> = taken.roots.iter().map(|(root, _)| *root).collect();
                let mut wanted: Vec<u32> = made
                    .iter()
                    .filter(|made| made.caller.is_none())
                    .map(|made| made.call.operation)
                    .collect();
                roots.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(roots, wanted);
                assert!(taken.roots.iter().all(|(_, is_orphan)| !is_orphan));
            }
        }
    }

    /// A server with a library that has probes of its own: each request continues the trace of its own
    /// client.
    #[test]
    fn every_trace_of_a_shared_thread_continues_its_own_span() {
        #[derive(Default)]
        struct Continued(Vec<(u32, u64)>);
        impl Takes for Continued {
            fn call(&mut self, _: &Ended, _: Placed) {}
            fn trace(&mut self, trace: Trace) {
                self.0.push((trace.root.operation, trace.continues));
            }
        }
        for is_shared in [false, true] {
            let (mut thread, mut taken) = (Thread { is_shared, ..Thread::default() }, Continued::default());
            let call = |operation, writer, depth, begin, end| Ended {
                operation,
                writer,
                depth,
                outcome: Outcome::Returned,
                is_resumed: false,
                begin,
                end,
                tick_ns: 1.0,
            };
            for request in 0..4 {
                let time = 100 * u64::from(request);
                // The last request continues no span.
                if request < 3 {
                    thread.follow(7 + u64::from(request), time + if request == 1 { 0 } else { 12 });
                }
                if is_shared {
                    thread.end(call(100, 1, 0, time + 20, time + 30), &mut taken);
                }
                thread.end(call(request, 0, 0, time + 10, time + 40), &mut taken);
            }
            thread.finish(&mut taken);
            assert_eq!(taken.0, [(0, 7), (1, 8), (2, 9), (3, 0)], "shared: {is_shared}");
        }
    }

    /// Lost events make trees smaller but never wrong: each recorded callee was called, directly or through
    /// lost calls, and each stated own time is correct.
    #[test]
    fn lost_events_leave_no_wrong_callers() {
        for seed in 0..500 {
            let mut chance = Chance::new(1000 + seed);
            let made = made(&mut chance, 1, 5);
            let from = chance.below(made.len() as u64) as usize;
            let to = from + chance.between(1, 8) as usize;
            let (mut thread, mut taken) = (Thread::default(), Taken::default());
            for (n, made) in made.iter().enumerate() {
                if n == from {
                    thread.lose();
                }
                if !(from..to).contains(&n) {
                    thread.end(made.call, &mut taken);
                }
            }
            thread.finish(&mut taken);
            let caller = |operation: usize| {
                made.iter().find(|made| made.call.operation as usize == operation).unwrap().caller
            };
            for (operation, own, callees) in &taken.calls {
                for callee in callees {
                    let mut above = caller(*callee as usize);
                    while above.is_some_and(|above| above != *operation as usize) {
                        above = caller(above.unwrap());
                    }
                    assert!(above.is_some(), "seed {seed}: {operation} did not call {callee}");
                }
                let one = made.iter().find(|made| made.call.operation == *operation).unwrap();
                if let Some(own) = own {
                    assert_eq!(
                        *own,
                        (one.call.end - one.call.begin - one.inner) as f64,
                        "seed {seed}: {operation}"
                    );
                }
            }
        }
    }
}

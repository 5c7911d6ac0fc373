//! One message's story: its ancestors, the streams and tasks that it and its descendants passed, and how long
//! each step took.
//!
//! The story needs two passes over the events: the first finds the input message that a message descends
//! from, the second follows that input message's descendants. The memory needed depends on the length of the
//! story, not of the run.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::composing::dispatch::{Item, What};
use crate::composing::structure::{Stream, Task};
use crate::decoding::observation::Run;
use crate::ids::{IdMap, StreamId, WorkerId};
use crate::lineage::message::MessageId;
use crate::lineage::roots::{Root, UNKNOWN};
use crate::lineage::{Dispatch, Lineage};
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::Report;

/// The maximal number of messages followed.
const FOLLOWED_MAX: usize = 100_000;

/// The tree of an input message and all its recorded descendants, which can be found from any message of the
/// tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// The message whose story this is.
    pub message: String,
    /// The input message from which the message descends, if known.
    pub input: Option<String>,
    /// The messages of the tree, parents before their children, in the order in which they were written.
    pub hops: Vec<Hop>,
    /// Whether messages are missing because the limit on followed messages was reached.
    pub cut_short: bool,
    /// The largest error of the differences between times of different machines, in nanoseconds; null if all
    /// times are of one machine.
    #[serde(default)]
    pub clock_error_ns: Option<f64>,
    /// How often times of two machines said that a message was received before it was sent. The time of the
    /// sending is then shown for both.
    #[serde(default)]
    pub clamped: u64,
}

/// A message on its way through one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// `STREAM:INDEX`.
    pub message: String,
    /// The depth of the message in the tree.
    pub depth: u64,
    /// The message from which this message descends.
    pub parent: Option<String>,
    /// The stream's name, if it has one.
    pub stream: Option<String>,
    /// The task that wrote the message.
    pub writer: Option<String>,
    /// The time at which the message was written, since the start of the run. Times within a dispatch are
    /// interpolated.
    pub written_ns: Option<f64>,
    /// The task that read the message.
    pub reader: Option<String>,
    /// The worker of the task that read the message; null if the task has a thread of its own.
    pub worker: Option<WorkerId>,
    /// The time at which the dispatch that read the message began, since the start of the run.
    pub read_ns: Option<f64>,
    /// The time from the writing of the message until the dispatch that read it began.
    pub waited_ns: Option<f64>,
    /// The message's share of the time of the dispatch that read it.
    pub service_ns: Option<f64>,
    /// The outcome of the message: `failed`; `led on`: it has descendants; `used up`: it has none; `left`: it
    /// left the network; `in the stream`: it was not read; `went to another process`: a link read it, and its
    /// descendants are in another process of the session.
    pub fate: String,
}

/// What [`Lineage`] finds out about single messages.
pub(crate) enum Trace {
    /// Looks for the root of a message.
    Seek { message: MessageId, root: Option<Root>, seen: bool },
    /// Follows messages and their descendants.
    Follow(Follow),
}

#[derive(Default)]
pub(crate) struct Follow {
    nodes: HashMap<MessageId, Node>,
    /// The indices of the messages that are followed, by stream.
    by_stream: IdMap<BTreeSet<u64>>,
    /// Messages that are followed as soon as they are written.
    wanted: Vec<MessageId>,
    order: Vec<MessageId>,
    /// Tasks whose names the story needs.
    tasks: Vec<u64>,
    streams: Vec<u64>,
    cut_short: bool,
}

#[derive(Clone, Copy, Default)]
struct Node {
    parent: Option<MessageId>,
    writer: Option<u64>,
    written: Option<u64>,
    read: Option<Read>,
    failed: bool,
    has_children: bool,
}

#[derive(Clone, Copy)]
struct Read {
    task: u64,
    worker: Option<u64>,
    start: u64,
    service_ticks: f64,
}

impl Trace {
    /// Records messages that a dispatch wrote, with their roots. `from` is the parent of the first message
    /// and the step to the parent of the next.
    pub(crate) fn wrote(
        &mut self,
        run: &Run,
        from: Option<(MessageId, u64)>,
        first_root: Root,
        root_step: u64,
        dispatch: &Dispatch,
    ) {
        match self {
            Trace::Seek { message, root, seen } => {
                let Some(n) = place_in(run, *message) else { return };
                *seen = true;
                if first_root != UNKNOWN {
                    *root = Some(first_root + n * root_step);
                }
            }
            Trace::Follow(follow) => follow.wrote(run, from, dispatch),
        }
    }

    /// Records messages that a dispatch read; the dispatch read `reads` messages in all.
    pub(crate) fn read(&mut self, run: &Run, dispatch: &Dispatch, reads: u64, _position: u64) {
        match self {
            Trace::Seek { message, seen, .. } => *seen |= place_in(run, *message).is_some(),
            Trace::Follow(follow) => follow.read(run, dispatch, reads),
        }
    }

    /// Records that a message failed.
    pub(crate) fn failed(&mut self, message: MessageId, dispatch: &Dispatch) {
        if let Trace::Follow(follow) = self {
            follow.failed(message, dispatch);
        }
    }
}

/// The place of a message in a run of consecutive messages.
fn place_in(run: &Run, message: MessageId) -> Option<u64> {
    let n = message.index.checked_sub(run.first).filter(|&n| n < run.count)?;
    (run.stream == message.stream.number).then_some(n)
}

impl Follow {
    /// A request to follow these messages and their descendants.
    pub(crate) fn from(wanted: Vec<MessageId>) -> Follow {
        Follow { wanted, ..Follow::default() }
    }

    fn add(&mut self, message: MessageId) -> Option<&mut Node> {
        if self.nodes.len() >= FOLLOWED_MAX {
            self.cut_short = true;
            return None;
        }
        if !self.nodes.contains_key(&message) {
            self.order.push(message);
            self.by_stream.entry(message.stream.number).or_default().insert(message.index);
            self.streams.push(message.stream.number);
        }
        Some(self.nodes.entry(message).or_default())
    }

    fn wrote(&mut self, run: &Run, from: Option<(MessageId, u64)>, dispatch: &Dispatch) {
        let wanted: Vec<u64> = self.wanted.iter().filter_map(|&message| place_in(run, message)).collect();
        for n in wanted {
            self.written(
                MessageId { stream: StreamId::of(run.stream), index: run.first + n },
                None,
                dispatch,
            );
        }
        let Some((first, step)) = from else { return };
        let Some(followed) = self.by_stream.get(&first.stream.number) else { return };
        let parents = first.index..=first.index + step * (run.count - 1);
        let children: Vec<(u64, u64)> = followed
            .range(parents)
            .flat_map(|&parent| {
                let places =
                    if step == 0 { 0..run.count } else { parent - first.index..parent - first.index + 1 };
                places.map(move |n| (parent, n))
            })
            .collect();
        for (parent, n) in children {
            let parent = MessageId { stream: first.stream, index: parent };
            if let Some(node) = self.nodes.get_mut(&parent) {
                node.has_children = true;
            }
            self.written(
                MessageId { stream: StreamId::of(run.stream), index: run.first + n },
                Some(parent),
                dispatch,
            );
        }
    }

    fn written(&mut self, message: MessageId, parent: Option<MessageId>, dispatch: &Dispatch) {
        self.tasks.push(dispatch.task);
        if let Some(node) = self.add(message) {
            node.parent = parent.or(node.parent);
            node.writer = Some(dispatch.task);
            node.written = Some(dispatch.end);
        }
    }

    fn read(&mut self, run: &Run, dispatch: &Dispatch, reads: u64) {
        let wanted: Vec<MessageId> =
            self.wanted.iter().copied().filter(|&message| place_in(run, message).is_some()).collect();
        for message in wanted {
            self.add(message);
        }
        let Some(followed) = self.by_stream.get(&run.stream) else { return };
        let service_ticks = dispatch.busy() as f64 / reads.max(1) as f64;
        for &index in followed.range(run.first..run.first + run.count) {
            let Some(node) = self.nodes.get_mut(&MessageId { stream: StreamId::of(run.stream), index })
            else {
                continue;
            };
            let (task, worker, start) = (dispatch.task, dispatch.worker, dispatch.start);
            node.read = Some(Read { task, worker, start, service_ticks });
            self.tasks.push(task);
        }
    }

    fn failed(&mut self, message: MessageId, dispatch: &Dispatch) {
        if let Some(node) = self.nodes.get_mut(&message) {
            node.failed = true;
            self.tasks.push(dispatch.task);
        }
    }
}

/// The monitor that finds a message's root, or follows messages.
pub(crate) struct Tracing {
    lineage: Lineage,
    buffer: Dispatch,
    tasks: IdMap<Task>,
    streams: IdMap<Stream>,
    /// The result, valid after the last call of the monitor.
    pub(crate) found: Found,
}

/// What a pass over the events found out about single messages.
#[derive(Default)]
pub(crate) struct Found {
    /// Whether the message occurred in the events.
    pub(crate) seen: bool,
    /// The input message from which the message descends.
    pub(crate) input: Option<MessageId>,
    /// The messages followed.
    pub(crate) hops: Vec<Hop>,
    pub(crate) cut_short: bool,
    /// The time, in ticks, since which the times of hops count.
    pub(crate) begin: u64,
}

impl Tracing {
    /// Messages of the streams `entries` come from other processes, and count as input messages here.
    pub(crate) fn seek(ns_per_tick: f64, message: MessageId, entries: &[u64]) -> Tracing {
        let mut tracing = Tracing::new(ns_per_tick, Trace::Seek { message, root: None, seen: false });
        entries.iter().for_each(|stream| tracing.lineage.entry(*stream));
        tracing
    }

    pub(crate) fn follow(ns_per_tick: f64, messages: Vec<MessageId>) -> Tracing {
        Tracing::new(ns_per_tick, Trace::Follow(Follow::from(messages)))
    }

    fn new(ns_per_tick: f64, trace: Trace) -> Tracing {
        let mut lineage = Lineage::new(ns_per_tick, 0);
        lineage.trace = Some(trace);
        Tracing {
            lineage,
            buffer: Dispatch::default(),
            tasks: IdMap::default(),
            streams: IdMap::default(),
            found: Found::default(),
        }
    }

    /// Keeps the names of tasks and streams before the tasks and streams are forgotten.
    fn learn_names(&mut self, batch: &Batch<'_>) {
        let Some(Trace::Follow(follow)) = &mut self.lineage.trace else { return };
        for task in follow.tasks.drain(..) {
            if let Some(of) = batch.structure().task(task) {
                self.tasks.insert(task, *of);
            }
        }
        for stream in follow.streams.drain(..) {
            if let Some(of) = batch.structure().stream(stream) {
                self.streams.insert(stream, *of);
            }
        }
    }

    fn hops(&self, moment: &Moment<'_>, follow: &Follow) -> Vec<Hop> {
        let mut children: HashMap<Option<MessageId>, Vec<MessageId>> = HashMap::new();
        for message in &follow.order {
            children.entry(follow.nodes[message].parent).or_default().push(*message);
        }
        let mut hops = Vec::with_capacity(follow.order.len());
        let mut left: Vec<(MessageId, u64)> =
            children.get(&None).into_iter().flatten().rev().map(|&message| (message, 0)).collect();
        while let Some((message, depth)) = left.pop() {
            hops.push(self.hop(moment, message, depth, &follow.nodes[&message]));
            let next = children.get(&Some(message)).into_iter().flatten().rev();
            left.extend(next.map(|&child| (child, depth + 1)));
        }
        hops
    }

    fn hop(&self, moment: &Moment<'_>, message: MessageId, depth: u64, node: &Node) -> Hop {
        let since = |time: u64| moment.ns(time.saturating_sub(moment.begin));
        let name = |task: u64| {
            self.tasks.get(&task).map_or_else(
                || format!("task {task}"),
                |of| moment.names.task(of.component, of.replica, moment.several(of.component)),
            )
        };
        let stream = self.streams.get(&message.stream.number);
        let left = stream.is_some_and(|stream| stream.role == crate::composing::structure::Role::Exit);
        Hop {
            message: message.to_string(),
            depth,
            parent: node.parent.map(|parent| parent.to_string()),
            stream: stream.and_then(|stream| moment.names.text(stream.name)).filter(|name| !name.is_empty()),
            writer: node.writer.map(name),
            written_ns: node.written.map(since),
            reader: node.read.map(|read| name(read.task)),
            worker: node.read.and_then(|read| read.worker).map(WorkerId::of),
            read_ns: node.read.map(|read| since(read.start)),
            waited_ns: node
                .written
                .zip(node.read)
                .map(|(written, read)| moment.ns(read.start.saturating_sub(written))),
            service_ns: node.read.map(|read| read.service_ticks * moment.ns_per_tick),
            fate: match node {
                Node { failed: true, .. } => "failed",
                Node { has_children: true, .. } => "led on",
                _ if left => "left",
                Node { read: Some(_), .. } => "used up",
                _ => "in the stream",
            }
            .to_owned(),
        }
    }
}

impl Monitor for Tracing {
    fn name(&self) -> &str {
        "story"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch", "run.stream_told", "net.entry", "net.exit", "exec.task_created", "exec.task_ended"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            let item: &Item = item;
            self.lineage.take_item(batch, item, &mut self.buffer);
            if matches!(item.what, What::Dispatch(_)) {
                self.learn_names(batch);
            }
        }
        self.learn_names(batch);
    }

    fn publish(&mut self, moment: &Moment<'_>, _report: &mut Report) {
        self.lineage.finish();
        self.found = match &self.lineage.trace {
            Some(Trace::Follow(follow)) => Found {
                seen: !follow.nodes.is_empty(),
                input: None,
                hops: self.hops(moment, follow),
                cut_short: follow.cut_short,
                begin: moment.begin,
            },
            Some(Trace::Seek { root, seen, .. }) => Found {
                seen: *seen,
                input: root.and_then(|root| self.lineage.message(root)),
                ..Found::default()
            },
            None => Found::default(),
        };
    }
}

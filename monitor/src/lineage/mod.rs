//! Finds the input message from which each message in flight descends.
//!
//! Streams are FIFO and lose nothing, so a message is (stream, index). For the messages written to a stream
//! and not yet read, segments are kept, each of which says that a range of indices descends from a range of
//! roots. So memory depends on the messages in flight. A dispatch removes segments from the streams that it
//! read and appends segments to those that it wrote:
//!
//! * the k-th message that a one-to-one task writes descends from the k-th message that the task read and
//!   that did not fail;
//! * other tasks record in [`Derived`] which message descends from which. In a later dispatch, only two kinds
//!   of messages can still get descendants: the message that the task read last, and the messages that the
//!   task records as kept (`net.record_held`). Messages of the two kinds are held until the task reads on or
//!   waits for input, or until it has written messages that descend from them. A message that a task that is
//!   not one-to-one writes before it reads anything in a dispatch, without recording its descent, descends
//!   from the held message. If the task reads several streams, the held message is the one from which nothing
//!   was written yet: such tasks join streams, and write each message before they read the next.
//!
//! A dispatch is recorded at its end, so the messages that a long dispatch writes may be recorded as read
//! before they are recorded as written. A dispatch that reads messages before their writes are recorded is
//! *deferred* until the writes are known.
//!
//! A message whose root cannot be known (because events were lost, or its task began before the window) has
//! the root [`UNKNOWN`]; such messages are counted, and their roots are never guessed. A one-to-one task
//! whose reads or writes were lost is *unsynced* until it waits for input: at that moment it has written all
//! that it read, so reads and writes can be paired again.

pub(crate) mod message;
pub(crate) mod roots;
mod segments;
pub(crate) mod story;

use std::collections::{HashMap, VecDeque};

use crate::composing::dispatch::{self, Outcome};
use crate::decoding::events::Derived;
use crate::decoding::observation::Run;
use crate::ids::{IdMap, StreamId, TaskId};
use crate::lineage::message::MessageId;
use crate::lineage::roots::{ENTRIES_MAX, Moments, Root, Roots, UNKNOWN, place, root};
use crate::lineage::segments::{Segment, Segments};
use crate::lineage::story::Trace;
use crate::monitor::{Batch, Moment};
use crate::report::FailedMessage;

/// The number of failures kept.
const FAILURES_MAX: usize = 1000;
/// The maximal number of deferred dispatches; beyond it, the dispatch deferred last is processed with unknown
/// ancestors.
const DEFERRED_MAX: usize = 1 << 16;

/// The position of a stream: inside the network or at its border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Role {
    /// A stream between two tasks.
    #[default]
    Inner,
    /// Messages written to the stream enter the network; the number is that of the entry stream.
    Entry(u64),
    /// Messages written to the stream leave the network.
    Exit,
}

/// The messages of a stream that were written and not yet read.
#[derive(Default)]
pub(crate) struct Flow {
    role: Role,
    /// The index after the last message whose root is decided; `None` if no root is decided yet.
    known: Option<u64>,
    segments: Segments,
    /// The task whose oldest deferred dispatch waits for this stream.
    waiting: u64,
}

impl Flow {
    fn settle(&mut self, segment: Segment) {
        self.known = Some(segment.end());
        if self.role != Role::Exit {
            self.segments.push(segment);
        }
    }

    /// Whether the roots of all messages before `end` are decided.
    fn settled(&self, end: u64) -> bool {
        self.role == Role::Exit || self.known.is_some_and(|known| known >= end)
    }
}

/// The messages that a task has read and that may still get descendants.
#[derive(Default)]
pub(crate) struct Holder {
    pub(crate) one_to_one: bool,
    /// Whether, if the task is one-to-one, `kept` is known to hold all messages that were read and not yet
    /// written.
    pub(crate) synced: bool,
    kept: VecDeque<Taken>,
    /// If the task is not one-to-one, the messages that it recorded as kept, until it writes messages that
    /// descend from them.
    held: Vec<Taken>,
    /// Whether the task, if it is not one-to-one, has ever recorded which message descends from which.
    derives: bool,
    /// Whether the task wrote a message that cannot descend from a message read before, without recording the
    /// descent. If the task never records descent, the roots of its messages are unknown.
    mute: bool,
    /// Whether the task writes input messages or reads output messages: the empty dispatches of such a task
    /// do not count as the network's work.
    is_outside: bool,
    empty_ticks: u64,
    deferred: VecDeque<Dispatch>,
}

/// Consecutive messages that a dispatch read.
#[derive(Clone, Copy)]
struct Taken {
    stream: u64,
    segment: Segment,
    /// The moments at which the task had finished each of the messages.
    moments: Moments,
    /// Whether the task wrote a message that descends from this one, if the task keeps this one.
    written: bool,
}

/// One dispatch of a task, as its writer recorded it.
#[derive(Clone, Default)]
pub(crate) struct Dispatch {
    pub(crate) task: u64,
    pub(crate) worker: Option<u64>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The ticks of its duration in which the thread had no processor.
    kept: u64,
    reads: Vec<Run>,
    writes: Vec<Run>,
    derived: Vec<Derived>,
    /// The messages that the dispatch read and that failed.
    failed: Vec<Run>,
    /// The messages that the dispatch read and the task keeps.
    held: Vec<Run>,
    outcome: Outcome,
}

impl Dispatch {
    /// Overwrites this value with a copy of a dispatch in a batch.
    pub(crate) fn fill(&mut self, batch: &Batch<'_>, of: &dispatch::Dispatch) {
        fn copy<T: Copy>(to: &mut Vec<T>, from: &[T]) {
            to.clear();
            to.extend_from_slice(from);
        }
        (self.task, self.worker, self.start, self.end) = (of.task, of.worker, of.start, of.end);
        self.kept = of.kept;
        self.outcome = of.outcome;
        copy(&mut self.reads, batch.reads(of));
        copy(&mut self.writes, batch.writes(of));
        copy(&mut self.derived, batch.derived(of));
        copy(&mut self.failed, batch.failed(of));
        copy(&mut self.held, batch.held(of));
    }

    /// Whether the dispatch wrote a message that descends from this message.
    fn derives_from(&self, stream: u64, index: u64) -> bool {
        self.derived.iter().any(|derived| {
            let last = derived.parent_first + (derived.count - 1) * derived.step;
            derived.parent_stream == stream && (derived.parent_first..=last).contains(&index)
        })
    }

    /// The ticks in which the task ran.
    pub(crate) fn busy(&self) -> u64 {
        self.end - self.start - self.kept
    }

    pub(crate) fn moments(&self, count: u64, position: u64) -> Moments {
        Moments::spread(self.start, self.end - self.start, count, position)
    }
}

/// The execution time of dispatches in ticks, divided into four parts without remainder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charged {
    /// Time spent on messages whose input message is known.
    pub(crate) attributed: f64,
    /// Time spent on messages whose root is not known.
    pub(crate) unattributed: f64,
    /// Time spent in dispatches that read and wrote nothing.
    pub(crate) empty: u64,
    /// Time spent outside the network: on writing input messages, on reading output messages, and in empty
    /// dispatches of the tasks that write input messages or read output messages.
    pub(crate) outside: f64,
}

impl Charged {
    /// Charges each of `count` messages of a root with `each` ticks.
    fn charge(&mut self, root: Root, count: u64, each: f64) {
        let to = if root == UNKNOWN { &mut self.unattributed } else { &mut self.attributed };
        *to += each * count as f64;
    }

    /// Adds the time of the empty dispatches of a task that has no further events.
    fn settle(&mut self, holder: &Holder) {
        match holder.is_outside {
            true => self.outside += holder.empty_ticks as f64,
            false => self.empty += holder.empty_ticks,
        }
    }
}

/// Follows roots through streams and tasks.
pub(crate) struct Lineage {
    flows: IdMap<Flow>,
    /// The state of each task. The state is boxed, so that moving it out for a dispatch and back again is
    /// cheap.
    pub(crate) holders: IdMap<Box<Holder>>,
    pub(crate) roots: Roots,
    /// The entry streams, by their numbers.
    entries: Vec<u64>,
    failures: Vec<Failed>,
    /// The failures whose input messages are not known yet; the event of the dispatch in which the message
    /// failed may still give the input message.
    untraced: HashMap<MessageId, usize>,
    /// Follows single messages, if a user asked for their story.
    pub(crate) trace: Option<Trace>,
    deferred: usize,
    /// Messages written whose root is not known.
    pub(crate) unattributed: u64,
    /// The division of the time of dispatches.
    pub(crate) charged: Charged,
    taken: Vec<Taken>,
    /// The message from which all messages descend that the current dispatch writes before it reads.
    carried: Option<Taken>,
    runnable: Vec<u64>,
    closing: Vec<Closing>,
    /// Whether some task has no deferred dispatch left, so that closed streams may have become complete.
    caught_up: bool,
}

/// A message that failed.
#[derive(Clone, Copy)]
struct Failed {
    message: MessageId,
    root: Root,
    task: u64,
    component: Option<u64>,
    time: u64,
}

/// A closed stream; dispatches of its tasks may still be deferred.
struct Closing {
    stream: u64,
    reader: u64,
    writer: u64,
    time: u64,
}

impl Lineage {
    pub(crate) fn new(ns_per_tick: f64, slowest_max: usize) -> Lineage {
        Lineage {
            flows: IdMap::default(),
            holders: IdMap::default(),
            roots: Roots::new(ns_per_tick, slowest_max),
            entries: Vec::new(),
            failures: Vec::new(),
            untraced: HashMap::new(),
            trace: None,
            deferred: 0,
            unattributed: 0,
            charged: Charged::default(),
            taken: Vec::new(),
            carried: None,
            runnable: Vec::new(),
            closing: Vec::new(),
            caught_up: false,
        }
    }

    /// Registers a stream through which input messages enter the network.
    pub(crate) fn entry(&mut self, stream: u64) {
        let flow = self.flows.entry(stream).or_default();
        if flow.role == Role::Inner && (self.entries.len() as u64) < ENTRIES_MAX {
            flow.role = Role::Entry(self.entries.len() as u64);
            self.entries.push(stream);
        }
    }

    /// The input message that a root stands for.
    pub(crate) fn message(&self, root: Root) -> Option<MessageId> {
        let (entry, index) = place(root)?;
        Some(MessageId { stream: StreamId::of(*self.entries.get(entry)?), index })
    }

    /// Restarts the measurement; the messages in flight stay known.
    pub(crate) fn restart(&mut self) {
        self.roots.restart();
        self.failures.clear();
        self.untraced.clear();
        self.unattributed = 0;
        self.charged = Charged::default();
        self.holders.values_mut().for_each(|holder| holder.empty_ticks = 0);
    }

    /// The messages that failed, oldest first, with the input messages from which they descend.
    pub(crate) fn failures(&self, moment: &Moment<'_>) -> Vec<FailedMessage> {
        let failure = |failed: &Failed| FailedMessage {
            message: failed.message.to_string(),
            input: self.message(failed.root).map(|message| message.to_string()),
            task: TaskId::of(failed.task),
            component: failed.component.map(|component| moment.names.site(component).path),
            at_ns: moment.ns(failed.time.saturating_sub(moment.begin)),
        };
        self.failures.iter().map(failure).collect()
    }

    /// Records that a message failed. In mode `full`, the event of the dispatch comes after this call and
    /// gives the message's input message.
    pub(crate) fn failed(&mut self, message: MessageId, task: u64, component: Option<u64>, time: u64) {
        if self.failures.len() < FAILURES_MAX {
            self.untraced.insert(message, self.failures.len());
            self.failures.push(Failed { message, root: UNKNOWN, task, component, time });
        }
    }

    /// Finds the input messages of the messages that failed in a dispatch.
    fn trace_failures(&mut self, dispatch: &Dispatch, holder: &Holder, taken: &[Taken]) {
        for run in &dispatch.failed {
            let message = MessageId { stream: StreamId::of(run.stream), index: run.first };
            if let Some(trace) = &mut self.trace {
                trace.failed(message, dispatch);
            }
            let Some(failed) = self.untraced.remove(&message).and_then(|at| self.failures.get_mut(at)) else {
                continue;
            };
            let held = find(taken, run.stream, run.first)
                .or_else(|| holder.kept.iter().copied().find(|held| held.has(run.stream, run.first)));
            failed.root = held.map_or(UNKNOWN, |held| held.segment.nth(run.first - held.segment.first));
        }
    }

    /// Registers a stream through which output messages leave the network.
    pub(crate) fn exit(&mut self, stream: u64) {
        let flow = self.flows.entry(stream).or_default();
        if flow.role == Role::Inner {
            flow.role = Role::Exit;
            flow.segments.0.clear();
        }
    }

    /// The division of the time of all dispatches until now.
    pub(crate) fn charged(&self) -> Charged {
        let mut charged = self.charged;
        self.holders.values().for_each(|holder| charged.settle(holder));
        charged
    }

    /// Records that a task has ended: the messages that it held get no further descendants.
    pub(crate) fn end(&mut self, task: u64, time: u64) {
        if self.holders.contains_key(&task) {
            let outcome = Outcome::Ended;
            self.dispatch(&mut Dispatch { task, start: time, end: time, outcome, ..Dispatch::default() });
        }
    }

    /// Records a dispatch that has ended.
    pub(crate) fn dispatch(&mut self, dispatch: &mut Dispatch) {
        if self.has_deferred(dispatch.task) || !self.ready(dispatch) {
            self.defer(std::mem::take(dispatch));
        } else {
            self.take(dispatch);
            if dispatch.outcome == Outcome::Ended {
                self.forget(dispatch.task);
            }
        }
        self.resume_runnable();
        if self.caught_up && !self.closing.is_empty() {
            self.close_settled();
        }
    }

    fn resume_runnable(&mut self) {
        while let Some(task) = self.runnable.pop() {
            self.resume(task);
        }
    }

    /// Processes the dispatches that are still deferred after the last event: the events they wait for were
    /// lost.
    pub(crate) fn finish(&mut self) {
        let mut tasks: Vec<u64> = self
            .holders
            .iter()
            .filter(|(_, holder)| !holder.deferred.is_empty())
            .map(|(&id, _)| id)
            .collect();
        tasks.sort_unstable();
        for task in tasks {
            while let Some(dispatch) = self.oldest_deferred(task) {
                self.take(&dispatch);
                self.resume_runnable();
            }
        }
        self.close_settled();
    }

    /// Records that a stream was closed and that all its events have been read.
    pub(crate) fn close(&mut self, stream: u64, reader: u64, writer: u64, time: u64) {
        self.closing.push(Closing { stream, reader, writer, time });
        self.close_settled();
    }

    /// Forgets each closed stream that no deferred dispatch reads or writes, and those messages of the stream
    /// that were never read.
    fn close_settled(&mut self) {
        self.caught_up = false;
        let mut n = 0;
        while let Some(&Closing { stream, reader, writer, time }) = self.closing.get(n) {
            if self.has_deferred(writer) {
                n += 1;
                continue;
            }
            // The events for which the reader's dispatch still waits were lost, so the dispatch is resumed.
            if let Some(flow) = self.flows.get_mut(&stream).filter(|flow| flow.waiting != 0) {
                flow.known = Some(u64::MAX);
                let task = std::mem::take(&mut flow.waiting);
                self.resume(task);
            }
            if self.has_deferred(reader) {
                n += 1;
                continue;
            }
            self.closing.swap_remove(n);
            for segment in self.flows.remove(&stream).unwrap_or_default().segments.0 {
                self.roots.release(segment.root, segment.count, segment.step, Moments::at(time));
            }
        }
    }

    fn has_deferred(&self, task: u64) -> bool {
        self.holders.get(&task).is_some_and(|holder| !holder.deferred.is_empty())
    }

    /// Forgets a task, unless dispatches of it are deferred.
    fn forget(&mut self, task: u64) {
        if self.holders.get(&task).is_some_and(|holder| holder.deferred.is_empty())
            && let Some(holder) = self.holders.remove(&task)
        {
            self.charged.settle(&holder);
        }
    }

    /// Whether the roots of all messages that this dispatch read are decided; if not, a write to the first
    /// undecided stream resumes the dispatch.
    fn ready(&mut self, dispatch: &Dispatch) -> bool {
        for read in &dispatch.reads {
            let flow = self.flows.entry(read.stream).or_default();
            if !flow.settled(read.first + read.count) {
                flow.waiting = dispatch.task;
                return false;
            }
        }
        true
    }

    fn defer(&mut self, dispatch: Dispatch) {
        let task = dispatch.task;
        self.holders.entry(task).or_default().deferred.push_back(dispatch);
        self.deferred += 1;
        while self.deferred > DEFERRED_MAX {
            let Some(dispatch) = self.oldest_deferred(task) else { return };
            self.take(&dispatch);
        }
    }

    fn oldest_deferred(&mut self, task: u64) -> Option<Dispatch> {
        let dispatch = self.holders.get_mut(&task)?.deferred.pop_front()?;
        self.deferred -= 1;
        Some(dispatch)
    }

    /// Processes the deferred dispatches of a task that are ready now.
    fn resume(&mut self, task: u64) {
        while let Some(dispatch) = self.oldest_deferred(task) {
            if !self.ready(&dispatch) {
                if let Some(holder) = self.holders.get_mut(&task) {
                    holder.deferred.push_front(dispatch);
                    self.deferred += 1;
                }
                return;
            }
            let ended = dispatch.outcome == Outcome::Ended;
            self.take(&dispatch);
            if ended {
                self.forget(task);
            }
        }
        self.caught_up = true;
    }

    /// Moves the roots of the messages of one dispatch from its inputs to its outputs.
    fn take(&mut self, dispatch: &Dispatch) {
        let mut taken = std::mem::take(&mut self.taken);
        let mut holder = self.holders.remove(&dispatch.task).unwrap_or_default();
        let reads: u64 = dispatch.reads.iter().map(|run| run.count).sum();
        let (lost, outside) = self.take_reads(dispatch, reads, &mut taken);
        holder.is_outside |= outside;
        if lost {
            holder.unsync(&mut self.roots);
        }
        let writes: u64 = dispatch.writes.iter().map(|run| run.count).sum();
        let share = if reads == 0 && writes > 0 { dispatch.busy() as f64 / writes as f64 } else { 0.0 };
        if reads == 0 && writes == 0 {
            holder.empty_ticks += dispatch.busy();
        }
        let released_from = holder.kept.len();
        if holder.one_to_one && holder.synced {
            holder.kept.extend(taken.drain(..));
        }
        let derived: u64 = dispatch.derived.iter().map(|derived| derived.count).sum();
        holder.derives |= derived > 0;
        holder.mute |= derived < writes && holder.kept.is_empty();
        self.carried = holder.owes();
        if !dispatch.failed.is_empty() {
            self.trace_failures(dispatch, &holder, &taken);
        }
        self.put_derived(dispatch, writes, share, &holder, &taken);
        self.let_go_of_held(dispatch, &mut holder);
        self.hold(dispatch, &mut holder, &taken);
        if holder.one_to_one {
            for failed in &dispatch.failed {
                holder.fail(failed, &mut self.roots, dispatch.end);
            }
        }
        self.put_writes(dispatch, writes, share, &mut holder);
        self.release(dispatch, reads, &mut holder, released_from, &mut taken);
        taken.clear();
        self.taken = taken;
        self.holders.insert(dispatch.task, holder);
    }

    /// Removes the messages that the dispatch read from their streams, and charges each with its share of the
    /// time. Returns whether earlier reads were lost, and whether some of the messages had left the network.
    fn take_reads(&mut self, dispatch: &Dispatch, reads: u64, taken: &mut Vec<Taken>) -> (bool, bool) {
        let share = dispatch.busy() as f64 / reads.max(1) as f64;
        let mut position = 0;
        let (mut lost, mut outside) = (false, false);
        for read in &dispatch.reads {
            if let Some(trace) = &mut self.trace {
                trace.read(read, dispatch, reads, position);
            }
            let flow = self.flows.entry(read.stream).or_default();
            if flow.role == Role::Exit {
                outside = true;
                self.charged.outside += share * read.count as f64;
                position += read.count;
                continue;
            }
            let mut next = read.first;
            let end = read.first + read.count;
            while next < end {
                let segment = match flow.segments.0.front().copied() {
                    Some(front) if front.first < next => {
                        let skipped = flow.segments.pop(next - front.first).unwrap_or(front);
                        self.roots.lose(skipped.root, skipped.count, skipped.step);
                        lost = true;
                        continue;
                    }
                    Some(front) if front.first == next => match flow.segments.pop(end - next) {
                        Some(segment) => segment,
                        None => break,
                    },
                    front => {
                        let until = front.map_or(end, |front| front.first.min(end));
                        lost = true;
                        Segment::unknown(next, until - next)
                    }
                };
                self.charged.charge(segment.root, segment.count, share);
                self.roots.serve(segment.root, segment.count, segment.step, share);
                taken.push(Taken {
                    stream: read.stream,
                    segment,
                    moments: dispatch.moments(reads, position + (next - read.first)),
                    written: false,
                });
                next = segment.end();
            }
            position += read.count;
        }
        (lost, outside)
    }

    /// Appends the messages whose descent the task recorded to the streams.
    fn put_derived(
        &mut self,
        dispatch: &Dispatch,
        writes: u64,
        share: f64,
        holder: &Holder,
        taken: &[Taken],
    ) {
        for derived in &dispatch.derived {
            if self.flows.get(&derived.stream).is_some_and(|flow| matches!(flow.role, Role::Entry(_))) {
                continue;
            }
            let mut done = 0;
            while done < derived.count {
                let parent = derived.parent_first + done * derived.step;
                let found = find(taken, derived.parent_stream, parent)
                    .or_else(|| holder.find(derived.parent_stream, parent));
                let left = derived.count - done;
                let segment = match found {
                    None => Segment::unknown(derived.first + done, if derived.step == 0 { left } else { 1 }),
                    Some(held) => {
                        let n = parent - held.segment.first;
                        let count = if derived.step == 0 { left } else { left.min(held.segment.count - n) };
                        let step = derived.step * held.segment.step;
                        let root = held.segment.nth(n);
                        let first = derived.first + done;
                        Segment { first, count, root, step: if root == UNKNOWN { 0 } else { step } }
                    }
                };
                self.roots.retain(segment.root, segment.count, segment.step);
                let from = MessageId { stream: StreamId::of(derived.parent_stream), index: parent };
                self.link(segment, derived.stream, Some((from, derived.step)), dispatch);
                self.put(segment, derived.stream, dispatch, writes, share);
                done += segment.count;
            }
        }
    }

    /// Retains the messages that the task recorded as kept in this dispatch.
    fn hold(&mut self, dispatch: &Dispatch, holder: &mut Holder, taken: &[Taken]) {
        for run in &dispatch.held {
            let Some(read) = find(taken, run.stream, run.first) else { continue };
            let segment = read.segment.part(run.first - read.segment.first, 1);
            self.roots.retain(segment.root, 1, segment.step);
            holder.held.push(Taken { segment, written: false, ..read });
        }
    }

    /// Releases the kept messages from which the task wrote in this dispatch, or all kept messages if it has
    /// ended.
    fn let_go_of_held(&mut self, dispatch: &Dispatch, holder: &mut Holder) {
        if holder.held.is_empty() {
            return;
        }
        let over = dispatch.outcome == Outcome::Ended;
        holder.held.retain(|held| {
            let stays = !over && !dispatch.derives_from(held.stream, held.segment.first);
            if !stays {
                let Segment { root, step, .. } = held.segment;
                self.roots.release(root, 1, step, Moments::at(dispatch.end));
            }
            stays
        });
    }

    /// Appends the written messages whose descent the task did not record to the streams. The messages of a
    /// one-to-one task get the roots of the messages read; those of other tasks have no known ancestor, or
    /// are new input messages.
    fn put_writes(&mut self, dispatch: &Dispatch, writes: u64, share: f64, holder: &mut Holder) {
        let mut position = 0;
        for write in &dispatch.writes {
            let flow = self.flows.entry(write.stream).or_default();
            let end = write.first + write.count;
            let known = flow.known.unwrap_or(write.first);
            if known < write.first {
                // Events of writes were lost: those of the messages from `known` on.
                flow.settle(Segment::unknown(known, write.first - known));
                self.unattributed += write.first - known;
                holder.unsync(&mut self.roots);
            }
            let mut next = known.max(write.first);
            holder.is_outside |= matches!(flow.role, Role::Entry(_));
            if let (Role::Entry(entry), true) = (flow.role, next < end) {
                self.charged.outside += share * (end - next) as f64;
                let moments = dispatch.moments(writes, position + (next - write.first));
                self.roots.enter(entry, next, end - next, moments);
                let segment = Segment { first: next, count: end - next, root: root(entry, next), step: 1 };
                flow.settle(segment);
                self.link(segment, write.stream, None, dispatch);
                next = end;
            }
            while next < end {
                let held = if holder.one_to_one && holder.synced { holder.pop(end - next) } else { None };
                let (segment, from) = match held {
                    Some((from, segment)) => (Segment { first: next, ..segment }, Some((from, 1))),
                    None if next == write.first => self.carry(next, end - next),
                    None => (Segment::unknown(next, end - next), None),
                };
                self.link(segment, write.stream, from, dispatch);
                self.put(segment, write.stream, dispatch, writes, share);
                next = segment.end();
            }
            position += write.count;
            self.wake(write.stream, end);
        }
    }

    /// Appends one segment to a stream, or records that its messages left the network.
    fn put(&mut self, segment: Segment, stream: u64, dispatch: &Dispatch, writes: u64, share: f64) {
        if segment.root == UNKNOWN {
            self.unattributed += segment.count;
        }
        if share > 0.0 {
            self.charged.charge(segment.root, segment.count, share);
            self.roots.serve(segment.root, segment.count, segment.step, share);
        }
        let flow = self.flows.entry(stream).or_default();
        let run = dispatch.writes.iter().find(|write| write.stream == stream);
        let begin = run.map_or(segment.first, |write| write.first.min(segment.first));
        let known = flow.known.unwrap_or(begin);
        if known < begin {
            self.unattributed += begin - known;
            flow.settle(Segment::unknown(known, begin - known));
        }
        let known = known.max(begin);
        if known < segment.first {
            let (before, from) = self.carry(known, segment.first - known);
            self.link(before, stream, from, dispatch);
            self.put(before, stream, dispatch, writes, share);
        }
        let flow = self.flows.entry(stream).or_default();
        flow.settle(segment);
        if flow.role == Role::Exit {
            let mut before = 0;
            for write in &dispatch.writes {
                if write.stream == stream {
                    before += segment.first.saturating_sub(write.first);
                    break;
                }
                before += write.count;
            }
            let moments = dispatch.moments(writes, before);
            self.roots.release(segment.root, segment.count, segment.step, moments);
        }
    }

    /// The segment of messages that a dispatch wrote before it read anything, and their parent.
    fn carry(&mut self, first: u64, count: u64) -> (Segment, Option<(MessageId, u64)>) {
        match self.carried {
            Some(held) if held.segment.root != UNKNOWN => {
                self.roots.retain(held.segment.root, count, 0);
                let from = MessageId { stream: StreamId::of(held.stream), index: held.segment.first };
                (Segment { first, count, root: held.segment.root, step: 0 }, Some((from, 0)))
            }
            _ => (Segment::unknown(first, count), None),
        }
    }

    /// Records the parents of a segment's messages, if the story of single messages is wanted. With a step of
    /// 1, the parents of consecutive messages are consecutive; with 0, they are the same.
    fn link(&mut self, segment: Segment, stream: u64, from: Option<(MessageId, u64)>, dispatch: &Dispatch) {
        if let Some(trace) = &mut self.trace {
            let run = Run { stream, first: segment.first, count: segment.count };
            trace.wrote(&run, from, segment.root, segment.step, dispatch);
        }
    }

    fn wake(&mut self, stream: u64, end: u64) {
        if let Some(flow) = self.flows.get_mut(&stream)
            && flow.waiting != 0
            && flow.settled(end)
        {
            self.runnable.push(std::mem::take(&mut flow.waiting));
        }
    }

    /// Releases the messages that can have no further descendants.
    fn release(
        &mut self,
        dispatch: &Dispatch,
        reads: u64,
        holder: &mut Holder,
        kept_before: usize,
        taken: &mut Vec<Taken>,
    ) {
        let flushed = matches!(dispatch.outcome, Outcome::BlockedInput | Outcome::Ended);
        if holder.one_to_one && holder.synced {
            if flushed {
                holder.kept.drain(..).for_each(|held| held.release(&mut self.roots));
            }
            return;
        }
        if holder.one_to_one {
            // The task is unsynced, so the descendants of these messages are not known.
            taken.drain(..).for_each(|read| read.lose(&mut self.roots));
            holder.synced = flushed;
            return;
        }
        if reads > 0 || flushed {
            holder.kept.drain(..kept_before).for_each(|held| held.release(&mut self.roots));
        }
        for n in 0..taken.len() {
            let read = taken[n];
            let is_last = taken.get(n + 1).is_none_or(|next| next.stream != read.stream);
            if flushed || !is_last {
                read.release(&mut self.roots);
                continue;
            }
            let count = read.segment.count;
            if count > 1 {
                let rest = Taken { segment: read.segment.part(0, count - 1), ..read };
                rest.release(&mut self.roots);
            }
            holder.kept.push_back(Taken {
                segment: read.segment.part(count - 1, 1),
                moments: read.moments.skip(count - 1),
                written: dispatch.derives_from(read.stream, read.segment.end() - 1),
                ..read
            });
        }
    }
}

/// Finds the entry of `taken` that contains message `index` of `stream`; a stream's entries are in order.
fn find(taken: &[Taken], stream: u64, index: u64) -> Option<Taken> {
    let start = taken.iter().position(|read| read.stream == stream)?;
    let of_stream = &taken[start..];
    let end = if of_stream.last()?.stream == stream {
        of_stream.len()
    } else {
        of_stream.iter().position(|read| read.stream != stream)?
    };
    let n = of_stream[..end].partition_point(|read| read.segment.end() <= index);
    of_stream[..end].get(n).copied().filter(|read| read.has(stream, index))
}

impl Taken {
    fn has(&self, stream: u64, index: u64) -> bool {
        self.stream == stream && self.segment.first <= index && index < self.segment.end()
    }

    fn release(self, roots: &mut Roots) {
        roots.release(self.segment.root, self.segment.count, self.segment.step, self.moments);
    }

    fn lose(self, roots: &mut Roots) {
        roots.lose(self.segment.root, self.segment.count, self.segment.step);
    }
}

impl Holder {
    /// Finds a message that was read in an earlier dispatch.
    fn find(&self, stream: u64, index: u64) -> Option<Taken> {
        self.kept.iter().rev().chain(&self.held).copied().find(|held| held.has(stream, index))
    }

    /// The message that may still get a descendant in a later dispatch of a task that is not one-to-one.
    fn owes(&self) -> Option<Taken> {
        if self.mute && !self.derives || self.one_to_one {
            return None;
        }
        let mut unwritten = self.kept.iter().filter(|held| !held.written);
        match (self.kept.len(), unwritten.next(), unwritten.next()) {
            (1, ..) => self.kept.front().copied(),
            (_, Some(held), None) => Some(*held),
            _ => None,
        }
    }

    /// Removes up to `count` of the oldest messages that were read and not yet written.
    fn pop(&mut self, count: u64) -> Option<(MessageId, Segment)> {
        let front = self.kept.front_mut()?;
        let popped = front.segment.part(0, count);
        let from = MessageId { stream: StreamId::of(front.stream), index: popped.first };
        if popped.count == front.segment.count {
            self.kept.pop_front();
        } else {
            front.segment = front.segment.part(popped.count, u64::MAX);
            front.moments = front.moments.skip(popped.count);
        }
        Some((from, popped))
    }

    /// Records that a message that was read failed and will not be written.
    fn fail(&mut self, message: &Run, roots: &mut Roots, time: u64) {
        let Some(n) = self.kept.iter().position(|held| held.has(message.stream, message.first)) else {
            return;
        };
        let held = self.kept[n];
        let before = message.first - held.segment.first;
        let after = held.segment.count - before - 1;
        self.kept.remove(n);
        if after > 0 {
            let segment = held.segment.part(before + 1, after);
            self.kept.insert(n, Taken { segment, moments: held.moments.skip(before + 1), ..held });
        }
        if before > 0 {
            self.kept.insert(n, Taken { segment: held.segment.part(0, before), ..held });
        }
        let failed = held.segment.part(before, 1);
        roots.release(failed.root, 1, failed.step, Moments::at(time));
    }

    /// Records that events of the task's reads or writes were lost.
    fn unsync(&mut self, roots: &mut Roots) {
        self.synced = false;
        if self.one_to_one {
            self.kept.drain(..).for_each(|held| held.lose(roots));
        }
    }
}

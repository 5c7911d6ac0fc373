//! Composes single events into the input of monitors: complete dispatches, waits between two dispatches, and
//! the [`Structure`] of the run.

use std::collections::VecDeque;

use crate::composing::bases::{Bases, WholeDispatch};
use crate::composing::dispatch::{Buffer, Dispatch, For, Item, Outcome, Span, Wait, What};
use crate::composing::open_dispatch::{OpenDispatch, OpenDispatches};
use crate::composing::structure::{OWN_THREAD, Role, Structure, Task};
use crate::composing::timeline::Doing;
use crate::decoding::events::{
    Derived, Entry, Exit, KINDS, Observation, StreamOpened, TaskBlockedInput, TaskBlockedOutput, TaskCreated,
    TaskDispatched, TaskMapped, TaskMoved, TaskReady, TaskYielded,
};
use crate::decoding::observation::{LiveRow, LiveState, Mode, Run};
use crate::ids::IdMap;

/// A dispatch of more messages than this is treated as damaged.
const DISPATCH_MESSAGES_MAX: u64 = 1 << 22;
/// An event with a message's index beyond this is treated as damaged.
const INDEX_MAX: u64 = 1 << 47;
/// The maximal number of closed streams that still wait for events of dispatches. If there are more, the
/// stream that was closed first is reported as complete.
const CLOSING_MAX: usize = 1 << 16;
/// The number of mode changes kept.
const MODES_MAX: usize = 1000;

/// Kinds are numbered in this order: the runtime's kinds, the composed ones, gaps, then all other kinds that
/// monitors want.
pub(crate) const DISPATCH: u16 = KINDS.len() as u16;
pub(crate) const WAIT: u16 = DISPATCH + 1;
pub(crate) const STREAM_TOLD: u16 = DISPATCH + 2;
pub(crate) const GAP: u16 = DISPATCH + 3;
/// Names of the composed kinds and of gaps, from [`DISPATCH`] on.
pub(crate) const COMPOSED: [&str; 4] = ["run.dispatch", "run.wait", "run.stream_told", "run.gap"];

/// Composes single events of writers to dispatches and waits.
#[derive(Default)]
pub(crate) struct Composer {
    pub(crate) structure: Structure,
    /// For each writer, the dispatch that is being composed.
    open: OpenDispatches,
    /// A spare record, which stands in for the record of a writer while the writer's dispatch is completed.
    spare: Option<Box<OpenDispatch>>,
    bases: Bases,
    closing: VecDeque<u64>,
    ended_tasks: Vec<u64>,
    finished_streams: Vec<u64>,
    declared_entry: bool,
    declared_exit: bool,
    pub(crate) last: u64,
    /// The time from which the events have no gaps.
    pub(crate) gapless_since: Option<u64>,
    pub(crate) malformed: u64,
    /// The time of the last event before the first gap since the last restart.
    pub(crate) unread: Option<u64>,
    /// Writers that record only samples of threads, and no dispatches.
    pub(crate) samplers: Vec<u64>,
}

/// The destination of composed items, which keeps only those that some monitor wants.
pub(crate) struct Sink<'a> {
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) wanted: &'a [bool],
}

impl Sink<'_> {
    #[inline]
    fn push(&mut self, time: u64, writer: u64, kind: u16, what: What) {
        if self.wanted[usize::from(kind)] {
            self.buffer.items.push(Item { time, writer, kind, what });
        }
    }

    #[inline]
    fn observation(&mut self, time: u64, writer: u64, observation: &Observation) {
        self.push(time, writer, observation.number(), What::Runtime(*observation));
    }
}

impl Composer {
    /// Records a loss of a writer's events, and forgets the bases of its later events.
    pub(crate) fn gap(&mut self, writer: u64, lost: u64, sink: &mut Sink<'_>) {
        if self.samplers.contains(&writer) {
            return; // Lost samples of threads do not make dispatches incomplete.
        }
        let open = self.open.of(writer);
        open.active = false;
        open.kept_next = 0;
        open.forget_messages();
        open.failed.clear();
        open.held.clear();
        self.bases.forget(writer);
        self.unseen(writer, lost, sink);
    }

    /// Records that events of a writer are missing, but not those that its later events need.
    pub(crate) fn unseen(&mut self, writer: u64, lost: u64, sink: &mut Sink<'_>) {
        self.structure.gaps += 1;
        self.gapless_since = None;
        self.unread.get_or_insert(self.last);
        sink.push(self.last, writer, GAP, What::Gap { lost });
    }

    /// Composes an event that `writer` recorded at `time`.
    #[inline]
    pub(crate) fn observe(&mut self, time: u64, writer: u64, observation: &Observation, sink: &mut Sink<'_>) {
        self.structure.begin.get_or_insert(time);
        self.gapless_since.get_or_insert(time);
        self.last = self.last.max(time);
        match *observation {
            Observation::Dispatch(_) | Observation::DispatchLong(_) => {
                sink.observation(time, writer, observation);
                self.observe_dispatch(time, writer, observation, sink);
            }
            Observation::DispatchBase(base) => {
                self.malformed += u64::from(!self.bases.record(writer, &base));
                sink.observation(time, writer, observation);
            }
            Observation::DispatchStreams(streams) => {
                self.bases.name(writer, &streams);
                sink.observation(time, writer, observation);
            }
            Observation::TaskDispatched(dispatched) => {
                sink.observation(time, writer, observation);
                let TaskDispatched { task, worker, duration_ticks, .. } = dispatched;
                self.begin_dispatch(time, writer, task, worker, duration_ticks, sink);
                // The version that writes `exec.task_dispatched` records the messages of a dispatch after
                // this event, so messages recorded before it are damaged.
                self.malformed += self.open.of(writer).forget_messages();
            }
            Observation::StreamRead(read) => {
                sink.observation(time, writer, observation);
                self.add_run(writer, read.run(), |open, run| open.reads.push(run));
            }
            Observation::StreamWrote(wrote) => {
                sink.observation(time, writer, observation);
                self.add_run(writer, wrote.run(), |open, run| {
                    open.writes.push(run);
                    if let Some(step) = wrote.step() {
                        open.descents.push((run, step, wrote.parent_offset));
                    }
                });
            }
            Observation::Derived(derived) => {
                sink.observation(time, writer, observation);
                self.derived(writer, derived);
            }
            Observation::TaskBlockedInput(TaskBlockedInput { task, stream }) => {
                self.end_dispatch(time, writer, task, Outcome::BlockedInput, stream, sink);
                sink.observation(time, writer, observation);
            }
            Observation::TaskBlockedOutput(TaskBlockedOutput { task, stream }) => {
                self.end_dispatch(time, writer, task, Outcome::BlockedOutput, stream, sink);
                sink.observation(time, writer, observation);
            }
            Observation::TaskYielded(TaskYielded { task }) => {
                self.end_dispatch(time, writer, task, Outcome::Yielded, 0, sink);
                sink.observation(time, writer, observation);
            }
            Observation::Kept(kept) => {
                if kept.task != 0 {
                    self.open.of(writer).kept_next = kept.duration_ticks;
                }
                sink.observation(time, writer, observation);
            }
            Observation::TaskReady(TaskReady { task, by_stream, .. }) => {
                self.structure.tasks.entry(task).or_default().timeline.made_ready(time, by_stream);
                sink.observation(time, writer, observation);
            }
            _ => self.observe_rare(time, writer, observation, sink),
        }
    }

    fn observe_rare(&mut self, time: u64, writer: u64, observation: &Observation, sink: &mut Sink<'_>) {
        match *observation {
            Observation::RecordFailed(failed) => {
                let (task, message) = (failed.task, failed.message());
                if message.first > INDEX_MAX {
                    self.malformed += 1;
                    return;
                }
                self.keep_for_dispatch(time, writer, (task, message), |open| &mut open.failed, sink);
            }
            Observation::RecordHeld(held) => {
                let (task, message) = (held.task, held.message());
                if message.first > INDEX_MAX {
                    self.malformed += 1;
                    return;
                }
                self.keep_for_dispatch(time, writer, (task, message), |open| &mut open.held, sink);
            }
            Observation::TaskEnded(ended) => {
                let task = ended.task;
                self.end_dispatch(time, writer, task, Outcome::Ended, 0, sink);
                if let Some(state) = self.structure.tasks.get_mut(&task) {
                    let wait = state.timeline.until(task, time);
                    push_wait(wait.map(|wait| Wait { cut: true, ..wait }), time, writer, sink);
                    self.ended_tasks.push(task);
                }
            }
            Observation::TaskCreated(created) => {
                let TaskCreated { task, component, replica, blocking, .. } = created;
                let state = self.structure.tasks.entry(task).or_default();
                *state = Task { component, replica, blocking, created: Some(time), ..*state };
                state.timeline.created(time);
                self.structure.components.entry(component).or_default().tasks += 1;
                return self.created_with(time, writer, &created, sink);
            }
            Observation::TaskMapped(TaskMapped { task, worker })
            | Observation::TaskMoved(TaskMoved { task, worker, .. }) => {
                let state = self.structure.tasks.entry(task).or_default();
                state.worker = (worker < OWN_THREAD).then_some(worker);
            }
            Observation::StreamOpened(opened) => self.stream_opened(time, &opened),
            Observation::StreamClosed(closed) => {
                let stream = closed.stream;
                let state = self.structure.streams.entry(stream).or_default();
                state.closed = Some(time);
                state.totals = Some(closed.totals());
                self.closing.push_back(stream);
                sink.observation(time, writer, observation);
                self.finish_if_complete(time, writer, stream, sink);
                self.finish_oldest_closing(time, writer, sink);
                return;
            }
            Observation::ModeChanged(changed) => {
                if let Some(mode) = changed.known() {
                    self.mode_changed(time, mode);
                }
            }
            Observation::Paused(paused) => self.structure.paused = paused.paused.then_some(time),
            Observation::Entry(Entry { stream }) => {
                self.declared_entry = true;
                self.structure.streams.entry(stream).or_default().role = Role::Entry;
            }
            Observation::Exit(Exit { stream }) => {
                self.declared_exit = true;
                self.structure.streams.entry(stream).or_default().role = Role::Exit;
            }
            Observation::ProcessorsUsed(_) if !self.samplers.contains(&writer) => self.samplers.push(writer),
            _ => {}
        }
        sink.observation(time, writer, observation);
    }

    /// Records all that the event of a task's creation contains: the task, its worker, its first streams, and
    /// its base.
    fn created_with(&mut self, time: u64, writer: u64, created: &TaskCreated, sink: &mut Sink<'_>) {
        sink.observation(time, writer, &Observation::TaskCreated(*created));
        self.malformed += u64::from(!self.bases.record_created(writer, created));
        for event in created.besides().into_iter().flatten() {
            self.observe_rare(time, writer, &event, sink);
        }
    }

    fn mode_changed(&mut self, time: u64, mode: Mode) {
        let structure = &mut self.structure;
        if structure.modes.last().is_some_and(|&(_, last)| last == mode) || structure.modes.len() >= MODES_MAX
        {
            return;
        }
        if structure.modes.is_empty() && structure.dispatches > 0 && mode != Mode::Full {
            structure.modes.push((structure.begin.unwrap_or(time), Mode::Full));
        }
        structure.modes.push((time, mode));
    }

    /// Composes a dispatch that is one event; values that did not fit into this event were recorded before
    /// it.
    #[inline]
    fn observe_dispatch(&mut self, time: u64, writer: u64, observation: &Observation, sink: &mut Sink<'_>) {
        let Some(whole) = self.bases.dispatch(writer, observation) else {
            self.malformed += 1;
            self.open.of(writer).forget_messages();
            return;
        };
        let WholeDispatch { task, worker, duration_ticks, outcome, waits_for, .. } = whole;
        if let Some((ready_ticks, by_stream)) = whole.ready {
            let woken = time.saturating_sub(duration_ticks).saturating_sub(ready_ticks);
            self.structure.tasks.entry(task).or_default().timeline.made_ready(woken, by_stream);
        }
        self.begin_dispatch(time, writer, task, worker, duration_ticks, sink);
        if let Some(read) = whole.read {
            self.add_run(writer, read, |open, run| open.reads.push(run));
        }
        if let Some(written) = whole.written {
            self.add_run(writer, written, |open, run| open.writes.push(run));
        }
        if let Some(derived) = whole.derived {
            self.derived(writer, derived);
        }
        self.descents(writer, whole.read);
        self.complete(time, writer, outcome, waits_for, sink);
    }

    /// Records that messages written to other streams than the base's output descend from the messages read
    /// from the base's input.
    fn descents(&mut self, writer: u64, read: Option<Run>) {
        if self.open.of(writer).descents.is_empty() {
            return;
        }
        let mut descents = std::mem::take(&mut self.open.of(writer).descents);
        for (child, step, offset) in descents.drain(..) {
            let Run { stream, first, count } = child;
            match read {
                Some(Run { stream: parent_stream, first: first_read, .. }) => {
                    let parent_first = first_read.wrapping_add_signed(offset);
                    self.derived(writer, Derived { stream, first, parent_stream, parent_first, count, step });
                }
                None => self.malformed += 1,
            }
        }
        self.open.of(writer).descents = descents;
    }

    fn derived(&mut self, writer: u64, derived: Derived) {
        if derived.parent_first > INDEX_MAX || derived.step > 1 {
            self.malformed += 1;
            return;
        }
        self.add_run(writer, derived.child(), |open, _| open.derived.push(derived));
    }

    fn begin_dispatch(
        &mut self,
        time: u64,
        writer: u64,
        task: u64,
        worker: u64,
        duration_ticks: u64,
        sink: &mut Sink<'_>,
    ) {
        self.structure.dispatches += 1;
        if self.open.of(writer).active {
            self.complete(time, writer, Outcome::Yielded, 0, sink);
        }
        let first = self.structure.begin.unwrap_or(0);
        let open = self.open.of(writer);
        open.active = true;
        open.worker = worker;
        open.task = task;
        // The dispatches of a thread cannot overlap, so overlapping times from damaged events are corrected.
        open.start = time.saturating_sub(duration_ticks).max(first).max(open.end).min(time);
        open.end = time;
        open.kept = std::mem::take(&mut open.kept_next);
        open.failed.retain(|&(of, _)| of == task);
        open.held.retain(|&(of, _)| of == task);
    }

    #[inline]
    fn add_run(&mut self, writer: u64, run: Run, push: impl FnOnce(&mut OpenDispatch, Run)) {
        if run.count > DISPATCH_MESSAGES_MAX || run.first > INDEX_MAX {
            self.malformed += 1;
            return;
        }
        if run.count > 0 {
            push(self.open.of(writer), run);
        }
    }

    #[inline]
    fn end_dispatch(
        &mut self,
        time: u64,
        writer: u64,
        task: u64,
        outcome: Outcome,
        stream: u64,
        sink: &mut Sink<'_>,
    ) {
        let open = self.open.of(writer);
        if open.active && open.task == task {
            self.complete(time, writer, outcome, stream, sink);
        }
    }

    /// Keeps messages that the writer recorded before its next dispatch ended, until the event of this
    /// dispatch comes.
    fn keep_for_dispatch(
        &mut self,
        time: u64,
        writer: u64,
        message: (u64, Run),
        list: impl FnOnce(&mut OpenDispatch) -> &mut Vec<(u64, Run)>,
        sink: &mut Sink<'_>,
    ) {
        if self.open.of(writer).active {
            self.complete(time, writer, Outcome::Yielded, 0, sink);
        }
        let messages = list(self.open.of(writer));
        if (messages.len() as u64) < DISPATCH_MESSAGES_MAX {
            messages.push(message);
        }
    }

    /// Completes a writer's dispatch after its last event.
    fn complete(&mut self, time: u64, writer: u64, outcome: Outcome, stream: u64, sink: &mut Sink<'_>) {
        let mut open = self.spare.take().unwrap_or_default();
        self.open.swap(writer, &mut open);
        open.active = false;
        let mut closed = false;
        for run in &open.writes {
            self.settle_role(time, writer, run.stream, open.task, sink);
            let state = self.structure.streams.entry(run.stream).or_default();
            state.seen.written += run.count;
            closed |= state.closed.is_some();
        }
        for run in &open.reads {
            let state = self.structure.streams.entry(run.stream).or_default();
            state.seen.read += run.count;
            closed |= state.closed.is_some();
        }
        let task = self.structure.tasks.entry(open.task).or_default();
        let on_worker = open.worker < OWN_THREAD && !task.blocking;
        if task.worker.is_none() && on_worker {
            task.worker = Some(open.worker);
        }
        let doing = Doing::after(outcome, stream);
        let (start, wait) = task.timeline.dispatched(open.task, open.start, open.end, doing);
        let cut = outcome == Outcome::Ended && open.reads.is_empty() && open.writes.is_empty();
        push_wait(wait.map(|wait| Wait { cut, ..wait }), open.end, writer, sink);
        if sink.wanted[usize::from(DISPATCH)] {
            let buffer = &mut *sink.buffer;
            let dispatch = Dispatch {
                task: open.task,
                worker: on_worker.then_some(open.worker),
                start,
                end: open.end,
                kept: open.kept.min(open.end - start),
                outcome,
                stream,
                reads: buffer.runs(&open.reads),
                writes: buffer.runs(&open.writes),
                derived: buffer.derived(&open.derived),
                failed: runs_of(buffer, &open.failed),
                held: runs_of(buffer, &open.held),
            };
            sink.push(open.end, writer, DISPATCH, What::Dispatch(dispatch));
        }
        open.failed.clear();
        open.held.clear();
        if closed {
            for run in open.reads.iter().chain(&open.writes) {
                self.finish_if_complete(time, writer, run.stream, sink);
            }
        }
        open.forget_messages();
        self.open.swap(writer, &mut open);
        self.spare = Some(open);
    }

    pub(crate) fn stream_opened(&mut self, time: u64, opened: &StreamOpened) {
        let StreamOpened { stream, name, reader, writer, capacity } = *opened;
        let structure = &mut self.structure;
        let state = structure.streams.entry(stream).or_default();
        state.opened.get_or_insert(time);
        if name != 0 {
            state.name = name;
        }
        if capacity != 0 {
            state.capacity = capacity;
        }
        if reader != 0 && reader != state.reader {
            state.reader = reader;
            let task = structure.tasks.entry(reader).or_default();
            task.inputs += 1;
            state.reader_component = task.component;
            structure.components.entry(task.component).or_default().has_inputs = true;
        }
        if writer != 0 && writer != state.writer {
            state.writer = writer;
            let task = structure.tasks.entry(writer).or_default();
            task.outputs += 1;
            state.writer_component = task.component;
            structure.components.entry(task.component).or_default().has_outputs = true;
        }
    }

    /// Determines the role of a stream if the network did not declare its entries and exits: a stream written
    /// by a task that reads nothing is an entry, a stream read by a task that writes nothing is an exit.
    fn settle_role(&mut self, time: u64, writer: u64, id: u64, task: u64, sink: &mut Sink<'_>) {
        if self.declared_entry && self.declared_exit {
            return;
        }
        let Some(stream) = self.structure.streams.get_mut(&id) else { return };
        if std::mem::replace(&mut stream.role_settled, true) || stream.opened.is_none() {
            return;
        }
        let stream = *stream;
        let has_inputs = self.has(task, stream.writer_component, |t| t.inputs, |c| c.has_inputs);
        let has_outputs = self.has(stream.reader, stream.reader_component, |t| t.outputs, |c| c.has_outputs);
        let role = if !self.declared_entry && has_inputs == Some(false) {
            sink.observation(time, writer, &Entry { stream: id }.into());
            Role::Entry
        } else if !self.declared_exit && has_outputs == Some(false) {
            sink.observation(time, writer, &Exit { stream: id }.into());
            Role::Exit
        } else {
            return;
        };
        if let Some(stream) = self.structure.streams.get_mut(&id) {
            stream.role = role;
        }
    }

    /// Whether a task has inputs or outputs; for a task that has ended, whether its component's tasks had.
    fn has(
        &self,
        task: u64,
        component: u64,
        streams: impl Fn(&Task) -> u32,
        of_component: impl Fn(&crate::composing::structure::Component) -> bool,
    ) -> Option<bool> {
        match self.structure.tasks.get(&task) {
            Some(task) => Some(streams(task) > 0),
            None if component != 0 => self.structure.components.get(&component).map(of_component),
            None => None,
        }
    }

    fn finish_if_complete(&mut self, time: u64, writer: u64, stream: u64, sink: &mut Sink<'_>) {
        if self.structure.is_complete(stream) {
            self.finish_stream(time, writer, stream, sink);
        }
    }

    fn finish_oldest_closing(&mut self, time: u64, writer: u64, sink: &mut Sink<'_>) {
        // If the run does not record dispatches, no further events of a closed stream come, so each closed
        // stream is reported at once.
        let bound = if self.structure.dispatches == 0 { 0 } else { CLOSING_MAX };
        while self.closing.len() > bound {
            if let Some(stream) = self.closing.pop_front()
                && self.structure.streams.get(&stream).is_some_and(|state| state.closed.is_some())
            {
                self.finish_stream(time, writer, stream, sink);
            }
        }
    }

    fn finish_stream(&mut self, time: u64, writer: u64, stream: u64, sink: &mut Sink<'_>) {
        let Some(state) = self.structure.streams.get_mut(&stream) else { return };
        if std::mem::replace(&mut state.gone, true) {
            return;
        }
        let of = state.writer;
        self.settle_role(time, writer, stream, of, sink);
        self.finished_streams.push(stream);
        sink.push(time, writer, STREAM_TOLD, What::StreamTold { stream });
    }

    /// Completes all open dispatches.
    pub(crate) fn flush(&mut self, sink: &mut Sink<'_>) {
        for writer in self.open.active() {
            self.complete(self.last, writer, Outcome::Yielded, 0, sink);
        }
    }

    /// Forgets what ended in a batch that the monitors have processed; a stream is kept until the tasks that
    /// waited for it are reported.
    pub(crate) fn forget_ended(&mut self) {
        for task in self.ended_tasks.drain(..) {
            self.structure.tasks.remove(&task);
        }
        let structure = &mut self.structure;
        self.finished_streams.retain(|stream| {
            let Some(state) = structure.streams.get(stream) else { return false };
            let waits =
                |task| structure.tasks.get(&task).is_some_and(|task| task.timeline.waits_for(*stream));
            let waited_for = waits(state.reader) || waits(state.writer);
            if !waited_for {
                structure.streams.remove(stream);
            }
            waited_for
        });
    }

    /// Learns from the rows of live tasks and streams which of them exist, and what the tasks do at `time`,
    /// if events that recorded this may not have been read since the last restart.
    pub(crate) fn learn(&mut self, time: u64, rows: &[LiveRow]) {
        let Some(unread) = self.unread.take() else { return };
        let mut tasks = IdMap::default();
        let mut streams = IdMap::default();
        for row in rows {
            match *row {
                LiveRow::Task { task, state, .. } => {
                    let doing = match state {
                        LiveState::Idle | LiveState::Ended => None,
                        LiveState::Ready | LiveState::Running => Some(For::Turn),
                        LiveState::BlockedInput => Some(For::Input),
                        LiveState::BlockedOutput => Some(For::Room),
                    };
                    tasks.insert(task, doing);
                }
                LiveRow::Stream { stream, .. } => drop(streams.insert(stream, ())),
                LiveRow::Sizes { .. } | LiveRow::Worker { .. } => {}
            }
        }
        // A run without room for rows, or of which no row could be read, shows nothing.
        if tasks.is_empty() {
            return;
        }
        self.structure.tasks.retain(|task, _| *task == 0 || tasks.contains_key(task));
        self.structure.streams.retain(|stream, _| streams.contains_key(stream));
        for (task, doing) in tasks {
            if let (Some(state), Some(doing)) = (self.structure.tasks.get_mut(&task), doing) {
                state.timeline.learn(unread, time, doing);
            }
        }
    }

    /// Restarts the measurement at `time`.
    pub(crate) fn restart(&mut self, time: u64) {
        self.last = self.last.max(time);
        self.gapless_since = Some(time);
        self.malformed = 0;
        let structure = &mut self.structure;
        structure.begin = Some(time);
        structure.restarted = true;
        structure.gaps = 0;
        structure.dispatches = 0;
        if let Some(&(_, mode)) = structure.modes.last() {
            structure.modes = vec![(time, mode)];
        }
        for task in structure.tasks.values_mut() {
            task.timeline.restart(time);
        }
        for stream in structure.streams.values_mut() {
            stream.past = stream.closed.is_some();
        }
    }
}

/// Copies a list of messages into the buffer. The list is mostly empty.
fn runs_of(buffer: &mut Buffer, list: &[(u64, Run)]) -> Span {
    if list.is_empty() {
        return Span::default();
    }
    let runs: Vec<Run> = list.iter().map(|&(_, run)| run).collect();
    buffer.runs(&runs)
}

fn push_wait(wait: Option<Wait>, time: u64, writer: u64, sink: &mut Sink<'_>) {
    if let Some(wait) = wait.filter(|wait| wait.until > wait.since) {
        sink.push(time, writer, WAIT, What::Wait(wait));
    }
}

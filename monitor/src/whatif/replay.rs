//! A discrete-event simulation of a network from the recorded costs of its messages.
//!
//! **What is simulated.** Threads that run dispatches: a worker dispatches the first of its ready tasks,
//! which reads and writes until its budget is spent, its input is empty or its output is full; messages and
//! room become visible at the dispatch's end, which may make other tasks ready. A task's budget of messages
//! adapts as in the runtime. If more threads run than there are processors, each thread gets an equal share
//! of the processors (processor sharing); the threads that hold or want the lock get equal shares of its
//! time. Sources pause as `exec.unfinished` requires. With `exec.steal`, a worker that waits gets a task of
//! another worker.
//!
//! **What is not simulated.** Caches, the kernel's time slices, and the moves of replicas.

use std::collections::VecDeque;

use super::model::{Model, NOTHING, Place, Reads, Script, Stream};

/// The result of a replay.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The time until the last step ended, in nanoseconds.
    pub(super) lasted_ns: f64,
    /// The messages of the sinks are divided into parts of equal size: the times at which the sinks had read
    /// each part.
    pub(super) parts_ns: Vec<f64>,
    /// The times at which the sinks read each message, if requested.
    pub(super) exits_ns: Vec<f64>,
}

/// Replays a network; `parts` as in [`Outcome`]. `None` if the replay deadlocks before the last step.
pub(super) fn replay(model: &Model, parts: usize) -> Option<Outcome> {
    Replay::new(model, parts).run()
}

/// The runtime lets a task's budget exceed half a stream's capacity only as far as a dispatch stays shorter
/// than this.
const WORTH_IT_NS: f64 = 10_000.0;
/// The least and the greatest total time for which a worker waits, beyond a quarter of its time, before the
/// worker takes over a task of another worker.
const PATIENCE_NS: (f64, f64) = (500_000.0, 100_000_000.0);
const TOLERATED: f64 = 0.25;
/// The number of times that a task may be put at the front of the queue while others wait.
const OVERTAKE_MAX: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Ready,
    Running,
    Held,
    Ended,
}

/// A task in a replay.
struct Doing<'m> {
    script: &'m Script,
    state: State,
    step: usize,
    /// The number of writes of the previous step for which there was no room.
    owed: usize,
    budget: usize,
    thread: usize,
    narrowest: usize,
    /// The number of remaining steps by input, for a task that does not read its inputs as recorded.
    left_by_input: Vec<(u32, u64)>,
    next_input: usize,
    /// Whether the task has already waited for the outside input of its next step.
    waited: bool,
}

/// The contents of a stream in a replay.
#[derive(Clone, Copy, Default)]
struct Held {
    /// The number of messages that the stream's reader sees.
    visible: usize,
    /// The number of the stream's slots that are occupied, also by messages that the reader does not see yet.
    taken: usize,
}

/// A message that a dispatch read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Touch {
    stream: u32,
    writes: bool,
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Idle,
    /// The thread wakes up, or works between two dispatches, until this moment.
    Until(f64),
    /// The thread's task waits for outside input until this moment.
    Aside(f64),
    /// The thread runs a dispatch with this much work left.
    Busy(f64),
}

struct Thread {
    phase: Phase,
    task: usize,
    ready: VecDeque<usize>,
    overtakes: u32,
    idle_since: f64,
    messages: usize,
    stop: Stop,
    busy_ns: f64,
    /// The time for which the worker has waited since it last took over a task; `counted_since` is the start
    /// of the present wait.
    waited: f64,
    counted_since: f64,
    patience: f64,
    gave_to: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    NoInput,
    NoRoom,
    Budget,
    Ended,
    Held,
}

/// The share of a processor and of the lock that each thread gets.
#[derive(Clone, Copy)]
struct Share {
    processor: f64,
    lock: f64,
}

struct Replay<'m> {
    model: &'m Model,
    now: f64,
    tasks: Vec<Doing<'m>>,
    streams: Vec<Held>,
    threads: Vec<Thread>,
    touched: Vec<Vec<Touch>>,
    under_way: u64,
    parts: usize,
    sunk: usize,
    sink_total: usize,
    outcome: Outcome,
}

impl<'m> Replay<'m> {
    fn new(model: &'m Model, parts: usize) -> Replay<'m> {
        let mut threads: Vec<Thread> = (0..model.runtime.workers).map(|_| Thread::new()).collect();
        let mut tasks = Vec::new();
        for (at, task) in model.tasks.iter().enumerate() {
            let thread = match task.place {
                Place::Worker(worker) => worker % model.runtime.workers.max(1),
                Place::OwnThread => {
                    threads.push(Thread::new());
                    threads.len() - 1
                }
            };
            tasks.push(Doing::new(model, at, thread));
        }
        let sink_total = (0..model.tasks.len()).filter(|&at| is_sink(model, at));
        let sink_total = sink_total.map(|at| reads_of(&model.tasks[at].script)).sum();
        let touched = vec![Vec::new(); threads.len()];
        Replay {
            model,
            now: 0.0,
            tasks,
            streams: vec![Held::default(); model.streams.len()],
            threads,
            touched,
            under_way: 0,
            parts: parts.max(1),
            sunk: 0,
            sink_total,
            outcome: Outcome { lasted_ns: 0.0, parts_ns: Vec::new(), exits_ns: Vec::new() },
        }
    }

    fn run(mut self) -> Option<Outcome> {
        for at in 0..self.tasks.len() {
            self.tasks[at].state = State::Ready;
            let thread = self.tasks[at].thread;
            self.threads[thread].ready.push_back(at);
        }
        (0..self.threads.len()).for_each(|thread| self.next(thread));
        loop {
            let Some((at, share)) = self.soonest() else {
                if self.let_in() {
                    continue;
                }
                break;
            };
            self.advance(at, share);
        }
        let all = self.tasks.iter().all(|task| task.state == State::Ended);
        self.outcome.lasted_ns = self.now;
        while self.outcome.parts_ns.len() < self.parts {
            self.outcome.parts_ns.push(self.now);
        }
        all.then_some(self.outcome)
    }

    /// The earliest moment at which a thread's phase ends, and each thread's share of processors and of the
    /// lock until then.
    fn soonest(&self) -> Option<(f64, Share)> {
        let (mut asked, mut want_lock) = (0.0, 0.0_f64);
        for thread in self.threads.iter().filter(|thread| matches!(thread.phase, Phase::Busy(_))) {
            let task = &self.model.tasks[thread.task];
            asked += task.on_processor;
            want_lock += if task.locked > 0.0 { 1.0 } else { 0.0 };
        }
        // A thread that waits for the lock needs no processor.
        let lock = 1.0 / want_lock.max(1.0);
        let processor = (self.model.runtime.processors / asked.max(1e-9)).min(1.0);
        let share = Share { processor, lock };
        let ends = self.threads.iter().filter_map(|thread| match thread.phase {
            Phase::Idle => None,
            Phase::Until(at) | Phase::Aside(at) => Some(at),
            Phase::Busy(left) => Some(self.now + left / self.pace(thread.task, share)),
        });
        ends.min_by(f64::total_cmp).map(|at| (at.max(self.now), share))
    }

    /// The rate at which a task progresses with these shares. Time asleep passes at the same rate with any
    /// share of a processor.
    fn pace(&self, task: usize, share: Share) -> f64 {
        let task = &self.model.tasks[task];
        let lock = if task.locked > 0.0 { share.lock } else { 1.0 };
        lock / (1.0 - task.on_processor + task.on_processor / share.processor)
    }

    /// Advances the time to `to`, at which the phase of some thread ends.
    fn advance(&mut self, to: f64, share: Share) {
        let lasted = to - self.now;
        self.now = to;
        let mut ended = Vec::new();
        for at in 0..self.threads.len() {
            let done = lasted * self.pace(self.threads[at].task, share);
            match &mut self.threads[at].phase {
                Phase::Busy(left) => {
                    *left -= done;
                    if *left <= 1e-6 * (1.0 + done) {
                        ended.push(at);
                    }
                }
                Phase::Until(end) | Phase::Aside(end) if *end <= to => ended.push(at),
                _ => {}
            }
        }
        for at in ended {
            match self.threads[at].phase {
                Phase::Busy(_) => self.finish(at),
                Phase::Aside(_) => {
                    let task = self.threads[at].task;
                    self.tasks[task].waited = true;
                    self.begin(at);
                }
                _ => self.begin(at),
            }
        }
    }

    /// Starts the next ready task on a thread that is idle.
    fn next(&mut self, thread: usize) {
        let runtime = &self.model.runtime;
        let idle = self.threads[thread].phase == Phase::Idle;
        if self.threads[thread].ready.is_empty() {
            if !idle {
                self.threads[thread].phase = Phase::Idle;
                self.threads[thread].idle_since = self.now;
            }
            return;
        }
        let way = if idle {
            let waited = self.now - self.threads[thread].idle_since;
            self.threads[thread].waited += waited;
            let slept = waited > runtime.spin_ns;
            runtime.wake_ns[usize::from(slept)]
        } else {
            runtime.between_ns
        };
        self.threads[thread].phase = Phase::Until(self.now + way);
    }

    /// Starts the dispatch of a thread's first ready task, or continues the task that waited for outside
    /// input.
    fn begin(&mut self, thread: usize) {
        if !matches!(self.threads[thread].phase, Phase::Aside(_)) {
            let Some(task) = self.threads[thread].ready.pop_front() else {
                self.threads[thread].phase = Phase::Idle;
                self.threads[thread].idle_since = self.now;
                return;
            };
            self.threads[thread].task = task;
            self.tasks[task].state = State::Running;
        }
        let task = self.threads[thread].task;
        let doing = &self.tasks[task];
        if let Some(step) = doing.script.steps.get(doing.step)
            && step.aside_ns > 0.0
            && !doing.waited
            && doing.owed == 0
        {
            let until = self.now + f64::from(step.aside_ns) * self.model.tasks[task].times;
            self.threads[thread].phase = Phase::Aside(until);
            return;
        }
        self.dispatch(thread, task);
    }

    /// Performs the reads and writes of the dispatch, which become visible at its end.
    fn dispatch(&mut self, thread: usize, task: usize) {
        let (mut busy, mut messages) = (0.0, 0);
        let budget = self.tasks[task].budget;
        let stop = loop {
            if !self.pay(thread, task) {
                break Stop::NoRoom;
            }
            let doing = &self.tasks[task];
            if doing.step == doing.script.steps.len() {
                break Stop::Ended;
            }
            if messages >= budget {
                break Stop::Budget;
            }
            let step = doing.script.steps[doing.step];
            if step.aside_ns > 0.0 && !doing.waited {
                // The messages written so far become visible while the task waits.
                break Stop::Budget;
            }
            if !self.has_room(task) {
                break Stop::NoRoom;
            }
            if step.input == NOTHING && self.is_held() && is_source(self.model, task) {
                break Stop::Held;
            }
            if !self.take(thread, task, step.input) {
                break Stop::NoInput;
            }
            busy += f64::from(step.busy_ns) * self.model.tasks[task].times;
            messages += 1;
            let doing = &mut self.tasks[task];
            doing.waited = false;
            doing.step += 1;
            doing.owed = doing.script.writes_of(doing.step - 1).len();
        };
        let thread = &mut self.threads[thread];
        (thread.messages, thread.stop, thread.busy_ns) = (messages, stop, busy);
        thread.phase = Phase::Busy(busy);
    }

    /// Performs the writes that were left from the previous step; returns whether there was room for all of
    /// them.
    fn pay(&mut self, thread: usize, task: usize) -> bool {
        let doing = &mut self.tasks[task];
        while doing.owed > 0 {
            let writes = doing.script.writes_of(doing.step - 1);
            let to = writes[writes.len() - doing.owed];
            if !may_write(self.model, &self.streams, task, to) {
                return false;
            }
            self.streams[to as usize].taken += 1;
            self.touched[thread].push(Touch { stream: to, writes: true });
            self.under_way += 1;
            doing.owed -= 1;
        }
        true
    }

    /// Whether there is room for the next step's first write: the runtime's tasks check this before they
    /// read.
    fn has_room(&self, task: usize) -> bool {
        let doing = &self.tasks[task];
        let to = doing.script.writes_of(doing.step).first();
        to.is_none_or(|&to| may_write(self.model, &self.streams, task, to))
    }

    /// Reads a message; returns whether there was one.
    fn take(&mut self, thread: usize, task: usize, recorded: u32) -> bool {
        if recorded == NOTHING {
            return true;
        }
        let input = match self.model.tasks[task].reads {
            Reads::AsRecorded => Some(recorded),
            Reads::Any | Reads::Loop { .. } => self.any_input(task),
        };
        let Some(input) = input.filter(|&input| self.streams[input as usize].visible > 0) else {
            return false;
        };
        self.streams[input as usize].visible -= 1;
        self.touched[thread].push(Touch { stream: input, writes: false });
        true
    }

    /// Chooses the next input among those that the task may read.
    fn any_input(&mut self, task: usize) -> Option<u32> {
        let at = self.readable(task)?;
        let doing = &mut self.tasks[task];
        doing.left_by_input[at].1 -= 1;
        doing.next_input = at;
        Some(doing.left_by_input[at].0)
    }

    /// The position of the next input that has a message and that the task may read; inputs are tried in turn.
    fn readable(&self, task: usize) -> Option<usize> {
        let doing = &self.tasks[task];
        let inputs = &doing.left_by_input;
        let has = |at: &usize| inputs[*at].1 > 0 && self.streams[inputs[*at].0 as usize].visible > 0;
        let mut in_turn = (0..inputs.len()).map(|step| (doing.next_input + step) % inputs.len()).filter(has);
        match self.model.tasks[task].reads {
            Reads::Loop { into, back } => {
                let may_enter = has_slot(self.model, &self.streams, into);
                let first = (0..inputs.len()).find(|&at| inputs[at].0 == back).filter(has);
                first.or_else(|| in_turn.next().filter(|_| may_enter))
            }
            Reads::Any | Reads::AsRecorded => in_turn.next(),
        }
    }

    fn is_held(&self) -> bool {
        let limit = self.model.runtime.unfinished;
        limit > 0 && self.under_way >= limit
    }

    /// Ends a dispatch: its reads and writes become visible, and the tasks that waited for them are woken.
    fn finish(&mut self, thread: usize) {
        let task = self.threads[thread].task;
        self.adapt(thread, task);
        if is_sink(self.model, task) {
            self.count_exits(self.threads[thread].messages);
        }
        self.tasks[task].state = State::Idle;
        self.pay(thread, task);
        let mut touched = std::mem::take(&mut self.touched[thread]);
        touched.sort_unstable();
        for same in touched.chunk_by(|a, b| a == b) {
            self.publish(same[0], same.len());
        }
        touched.clear();
        self.touched[thread] = touched;
        self.requeue(thread, task);
        if self.model.runtime.unfinished > 0 && self.under_way <= self.model.runtime.unfinished / 2 {
            self.let_in();
        }
        if self.model.runtime.steals && thread < self.model.runtime.workers {
            self.feed(thread);
        }
        self.threads[thread].phase = Phase::Until(self.now);
        self.next(thread);
    }

    /// Gives a task to a worker that has waited for long, if this worker has more than one ready task.
    fn feed(&mut self, giver: usize) {
        if self.threads[giver].ready.len() < 2 {
            return;
        }
        let is_hungry = |at: &usize| {
            let thread = &self.threads[*at];
            let waited = thread.waited + self.now - thread.idle_since;
            let tolerated = TOLERATED * (self.now - thread.counted_since);
            *at != giver && thread.phase == Phase::Idle && waited - tolerated > thread.patience
        };
        let Some(thief) = (0..self.model.runtime.workers).find(is_hungry) else { return };
        let model = self.model;
        let is_free = |task: &usize| !model.tasks[*task].is_placed;
        let ready = &self.threads[giver].ready;
        // Prefers a task that exchanges messages with the other worker's tasks, so that neighbours stay
        // together.
        let at_border = |task: &&usize| {
            model.streams.iter().any(|stream| {
                let (readers, writers) = (&stream.readers, &stream.writers);
                let there = |tasks: &[usize]| tasks.iter().any(|&other| self.tasks[other].thread == thief);
                (readers.contains(task) && there(writers)) || (writers.contains(task) && there(readers))
            })
        };
        let free = || ready.iter().filter(|task| is_free(task));
        let Some(&task) = free().rev().find(at_border).or_else(|| free().next_back()) else { return };
        self.threads[giver].ready.retain(|&other| other != task);
        let comes_back = self.threads[thief].gave_to.take() == Some(giver);
        let (now, hungry) = (self.now, &mut self.threads[thief]);
        let patience = if comes_back { 4.0 * hungry.patience } else { hungry.patience / 2.0 };
        hungry.patience = patience.clamp(PATIENCE_NS.0, PATIENCE_NS.1);
        (hungry.waited, hungry.counted_since) = (0.0, now);
        hungry.ready.push_back(task);
        self.threads[giver].gave_to = Some(thief);
        self.tasks[task].thread = thief;
        self.next(thief);
    }

    /// Makes written messages visible, and frees the slots of read messages.
    fn publish(&mut self, touch: Touch, count: usize) {
        let model = self.model;
        let at = touch.stream as usize;
        let stream = &mut self.streams[at];
        if touch.writes {
            stream.visible += count;
            model.streams[at].readers.iter().for_each(|&reader| self.wake(reader, true));
        } else {
            stream.taken -= count;
            self.under_way -= count as u64;
            model.streams[at].writers.iter().for_each(|&writer| self.wake(writer, false));
        }
    }

    /// Makes a task ready, at the front of the queue if messages and not room made it ready.
    fn wake(&mut self, task: usize, by_input: bool) {
        match self.tasks[task].state {
            State::Idle if self.can_go_on(task) => self.make_ready(task, by_input),
            // A running task checks its streams at the end of its dispatch.
            _ => {}
        }
    }

    fn make_ready(&mut self, task: usize, in_front: bool) {
        self.tasks[task].state = State::Ready;
        let at = self.tasks[task].thread;
        let thread = &mut self.threads[at];
        if in_front && thread.overtakes < OVERTAKE_MAX && !thread.ready.is_empty() {
            thread.overtakes += 1;
            thread.ready.push_front(task);
        } else {
            thread.overtakes = 0;
            thread.ready.push_back(task);
        }
        if thread.phase == Phase::Idle {
            self.next(at);
        }
    }

    /// Whether the message or room for which the task waits has arrived.
    fn can_go_on(&self, task: usize) -> bool {
        let doing = &self.tasks[task];
        if doing.owed > 0 {
            let writes = doing.script.writes_of(doing.step - 1);
            return may_write(self.model, &self.streams, task, writes[writes.len() - doing.owed]);
        }
        let Some(step) = doing.script.steps.get(doing.step) else { return true };
        if !self.has_room(task) {
            return false;
        }
        match (step.input, self.model.tasks[task].reads) {
            (NOTHING, _) => true,
            (input, Reads::AsRecorded) => self.streams[input as usize].visible > 0,
            (_, Reads::Any | Reads::Loop { .. }) => self.readable(task).is_some(),
        }
    }

    fn requeue(&mut self, thread: usize, task: usize) {
        match self.threads[thread].stop {
            Stop::Ended => self.tasks[task].state = State::Ended,
            Stop::Held => self.tasks[task].state = State::Held,
            _ if self.tasks[task].state != State::Idle => {}
            _ if self.can_go_on(task) => self.make_ready(task, false),
            _ => {}
        }
    }

    /// Resumes paused sources; returns whether there were any.
    fn let_in(&mut self) -> bool {
        let held: Vec<usize> =
            (0..self.tasks.len()).filter(|&task| self.tasks[task].state == State::Held).collect();
        if held.is_empty() {
            return false;
        }
        let below = self.under_way < self.model.runtime.unfinished;
        for &task in &held {
            if !below {
                self.one_more(task);
            }
            self.make_ready(task, false);
        }
        true
    }

    /// Lets a source write one more message beyond the limit, because no other task could continue.
    fn one_more(&mut self, task: usize) {
        let doing = &mut self.tasks[task];
        if doing.owed == 0 && doing.step < doing.script.steps.len() {
            doing.step += 1;
            doing.owed = doing.script.writes_of(doing.step - 1).len();
        }
    }

    /// Sets the budget of the task's next dispatch as the runtime would.
    fn adapt(&mut self, thread: usize, task: usize) {
        let Thread { messages, busy_ns, .. } = self.threads[thread];
        if messages == 0 {
            return;
        }
        let of = &self.model.tasks[task];
        let runtime = &self.model.runtime;
        if of.place == Place::OwnThread {
            return;
        }
        let each = (busy_ns / messages as f64).max(1.0);
        let doing = &mut self.tasks[task];
        let part = (doing.narrowest / 2) as f64;
        let fits = (runtime.quantum_ns / each).min((WORTH_IT_NS / each).floor().max(part)).max(1.0) as usize;
        let next = if fits < doing.budget { fits } else { fits.min(doing.budget.saturating_mul(8)) };
        doing.budget = next.clamp(1, runtime.quantum.max(1));
    }

    fn count_exits(&mut self, messages: usize) {
        self.sunk += messages;
        let due = self.sunk * self.parts / self.sink_total.max(1);
        while self.outcome.parts_ns.len() < due.min(self.parts) {
            self.outcome.parts_ns.push(self.now);
        }
        if cfg!(test) {
            self.outcome.exits_ns.extend((0..messages).map(|_| self.now));
        }
    }
}

impl<'m> Doing<'m> {
    fn new(model: &'m Model, at: usize, thread: usize) -> Doing<'m> {
        let task = &model.tasks[at];
        let own = task.place == Place::OwnThread;
        let of_it = |stream: &&Stream| stream.readers.contains(&at) || stream.writers.contains(&at);
        let narrowest = model.streams.iter().filter(of_it).map(|stream| stream.capacity).min().unwrap_or(64);
        let mut left_by_input: Vec<(u32, u64)> = Vec::new();
        if task.reads != Reads::AsRecorded {
            for step in task.script.steps.iter().filter(|step| step.input != NOTHING) {
                match left_by_input.iter_mut().find(|(input, _)| *input == step.input) {
                    Some((_, left)) => *left += 1,
                    None => left_by_input.push((step.input, 1)),
                }
            }
        }
        Doing {
            script: &task.script,
            state: State::Idle,
            step: 0,
            owed: 0,
            budget: if own { task.shown_after.max(1) } else { 1 },
            thread,
            narrowest,
            left_by_input,
            next_input: 0,
            waited: false,
        }
    }
}

impl Thread {
    fn new() -> Thread {
        Thread {
            phase: Phase::Idle,
            task: 0,
            ready: VecDeque::new(),
            overtakes: 0,
            idle_since: 0.0,
            messages: 0,
            stop: Stop::NoInput,
            busy_ns: 0.0,
            waited: 0.0,
            counted_since: 0.0,
            patience: PATIENCE_NS.0,
            gave_to: None,
        }
    }
}

fn has_slot(model: &Model, streams: &[Held], stream: u32) -> bool {
    streams[stream as usize].taken < model.streams[stream as usize].capacity
}

/// Whether the task can write into a stream now. The runtime's task at both ends of a feedback keeps messages
/// for which the body has no room, so it never waits for this room.
fn may_write(model: &Model, streams: &[Held], task: usize, to: u32) -> bool {
    match model.tasks[task].reads {
        Reads::Loop { into, .. } if into == to => true,
        _ => has_slot(model, streams, to),
    }
}

fn reads_of(script: &Script) -> usize {
    script.steps.iter().filter(|step| step.input != NOTHING).count()
}

/// A task that reads and never writes.
pub(super) fn is_sink(model: &Model, task: usize) -> bool {
    let script = &model.tasks[task].script;
    script.writes.is_empty() && script.steps.iter().any(|step| step.input != NOTHING)
}

/// A task that writes and never reads.
pub(super) fn is_source(model: &Model, task: usize) -> bool {
    let script = &model.tasks[task].script;
    !script.writes.is_empty() && script.steps.iter().all(|step| step.input == NOTHING)
}

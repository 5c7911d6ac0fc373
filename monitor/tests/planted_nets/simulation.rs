//! A simulation of planted networks in simulated time: tasks with bounded streams on workers, a quantum, the
//! cost of a dispatch and of a wake-up, and processors that other processes use at times. The simulation
//! records the events that a program would record.

use std::collections::VecDeque;

use thalweg_monitor::events::*;
use thalweg_monitor::*;

use super::Net;

/// The duration of a run in ticks, which are nanoseconds; [`DISPATCH`] is the cost of a dispatch without its
/// messages.
const LASTS: u64 = 100_000_000;
const DISPATCH: u64 = 150;
const WAKE_UP: u64 = 5_000;
/// The time for which a worker has no processor after each preemption.
const SLICE: u64 = 4_000_000;

#[derive(Clone, Default)]
struct Stream {
    written: u64,
    read: u64,
    reader: usize,
    writer: usize,
    closed: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Ready,
    Running,
    Input(usize),
    Room(usize),
    Ended,
}

struct Running {
    state: State,
    next_input: usize,
    next_output: usize,
    /// The number of messages that the task still has to write for the messages that it has read.
    owes: u64,
}

/// The messages that a dispatch read and wrote.
#[derive(Default)]
struct Done {
    reads: Vec<(usize, u64, u64)>,
    writes: Vec<(usize, u64, u64)>,
    took: u64,
}

/// A running dispatch: the times of its end and start, the task, the messages read and written, and the
/// task's next state.
type Dispatched = (u64, u64, usize, Done, State);

/// The state of a simulated network.
pub(crate) struct Simulation<'n> {
    net: &'n Net,
    now: u64,
    streams: Vec<Stream>,
    tasks: Vec<Running>,
    /// The running dispatch of each thread; workers come first, then the threads that belong to one task.
    busy: Vec<Option<Dispatched>>,
    queues: Vec<VecDeque<usize>>,
    /// For each worker that is waking up, the time at which it runs again.
    wakes: Vec<u64>,
    idle_since: Vec<Option<u64>>,
    lost: Vec<u64>,
    next_loss: u64,
    busy_ticks: Vec<u64>,
    events: Vec<(u64, u64, Observation)>,
}

impl<'n> Simulation<'n> {
    pub(crate) fn new(net: &'n Net) -> Simulation<'n> {
        let own = net.tasks.iter().filter(|task| task.worker.is_none()).count();
        let threads = net.workers + own;
        let mut simulation = Simulation {
            net,
            now: 1000,
            streams: vec![Stream::default(); net.streams],
            tasks: net
                .tasks
                .iter()
                .map(|task| Running { state: State::Ready, next_input: 0, next_output: 0, owes: task.seed })
                .collect(),
            busy: (0..threads).map(|_| None).collect(),
            queues: vec![VecDeque::new(); threads],
            wakes: vec![0; threads],
            idle_since: vec![None; threads],
            lost: vec![0; threads],
            next_loss: every(net),
            busy_ticks: vec![0; threads],
            events: Vec::new(),
        };
        simulation.begin();
        simulation
    }

    fn record(&mut self, thread: usize, event: impl Into<Observation>) {
        self.events.push((self.now, thread as u64, event.into()));
    }

    fn begin(&mut self) {
        for worker in 0..self.net.workers {
            self.record(
                worker,
                WorkerStarted {
                    worker: worker as u64,
                    core: worker as i64,
                    node: -1,
                    clock_reading_ps: 9000,
                },
            );
        }
        for (n, task) in self.net.tasks.iter().enumerate() {
            let blocking = task.worker.is_none();
            let created = TaskCreated {
                task: n as u64 + 1,
                component: site(&task.name),
                parent: 0,
                replica: task.replica,
                one_to_one: false,
                blocking,
                ..TaskCreated::default()
            };
            self.record(0, created);
            let worker = task.worker.map_or(u64::from(u32::MAX), |worker| worker as u64);
            self.record(0, TaskMapped { task: n as u64 + 1, worker });
            task.inputs.iter().for_each(|&stream| self.streams[stream].reader = n);
            task.outputs.iter().for_each(|&stream| self.streams[stream].writer = n);
            let thread = self.thread(n);
            self.queues[thread].push_back(n);
        }
        for (stream, of) in self.streams.clone().into_iter().enumerate() {
            let (reader, writer) = (of.reader as u64 + 1, of.writer as u64 + 1);
            let (stream, capacity) = (stream as u64 + 1, self.net.capacity);
            self.record(0, StreamOpened { stream, name: 0, reader, writer, capacity });
        }
    }

    fn thread(&self, task: usize) -> usize {
        self.net.tasks[task].worker.unwrap_or_else(|| {
            self.net.workers + self.net.tasks[..task].iter().filter(|task| task.worker.is_none()).count()
        })
    }

    /// Runs the network to its end.
    pub(crate) fn run(mut self) -> Report {
        loop {
            (0..self.busy.len()).for_each(|thread| self.start(thread));
            let ends = self.busy.iter().flatten().map(|(end, ..)| *end);
            let wakes = self.wakes.iter().zip(&self.queues).filter(|(_, queue)| !queue.is_empty());
            let next = ends.chain(wakes.map(|(&wake, _)| wake).filter(|&wake| wake > self.now)).min();
            let Some(next) = next.filter(|&next| next < 50 * LASTS) else { break };
            self.now = next.max(self.now);
            for thread in 0..self.busy.len() {
                if self.busy[thread].as_ref().is_some_and(|(end, ..)| *end <= self.now) {
                    self.end(thread);
                }
            }
        }
        self.finish()
    }

    /// Starts a thread's next ready task; a thread without one waits.
    fn start(&mut self, thread: usize) {
        if self.busy[thread].is_some() || self.wakes[thread] > self.now {
            return;
        }
        let Some(task) = self.queues[thread].pop_front() else {
            if self.idle_since[thread].is_none() && thread < self.net.workers {
                self.idle_since[thread] = Some(self.now);
                self.record(thread, WorkerWaiting { worker: thread as u64 });
            }
            return;
        };
        if self.idle_since[thread].take().is_some() {
            self.record(thread, WorkerResumed { worker: thread as u64 });
        }
        let start = self.now;
        self.tasks[task].state = State::Running;
        let (mut done, state) = self.dispatch(task);
        done.took += DISPATCH;
        if thread == 0 && start + done.took >= self.next_loss {
            done.took += SLICE;
            self.lost[thread] += SLICE;
            self.next_loss = start + done.took + every(self.net);
        }
        self.busy_ticks[thread] += done.took;
        self.busy[thread] = Some((start + done.took, start, task, done, state));
    }

    /// Simulates a dispatch of up to a quantum of messages. The task sees its own reads and writes at once;
    /// other tasks see them when the dispatch ends.
    fn dispatch(&mut self, n: usize) -> (Done, State) {
        let task = &self.net.tasks[n];
        let mut done = Done::default();
        for _ in 0..self.net.quantum {
            while self.tasks[n].owes > 0 && !task.outputs.is_empty() {
                let stream = task.outputs[self.tasks[n].next_output];
                let of = &mut self.streams[stream];
                if of.written - of.read >= self.net.capacity {
                    return (done, State::Room(stream));
                }
                count(&mut done.writes, stream, of.written);
                of.written += 1;
                self.tasks[n].owes -= 1;
                self.tasks[n].next_output = (self.tasks[n].next_output + 1) % task.outputs.len();
            }
            if task.inputs.is_empty() {
                if self.now + done.took >= LASTS {
                    return (done, State::Ended);
                }
                done.took += task.service;
                self.tasks[n].owes = task.copies;
                if task.service > 0 {
                    // Each message of a working source becomes visible to its reader at once.
                    let stream = task.outputs[0];
                    let of = &mut self.streams[stream];
                    if of.written - of.read < self.net.capacity {
                        count(&mut done.writes, stream, of.written);
                        of.written += 1;
                        self.tasks[n].owes -= 1;
                    }
                    return (done, State::Ready);
                }
                done.took += 20;
                continue;
            }
            let stream = task.inputs[self.tasks[n].next_input % task.inputs.len()];
            let of = &mut self.streams[stream];
            if of.read == of.written {
                return (done, if of.closed { State::Ended } else { State::Input(stream) });
            }
            count(&mut done.reads, stream, of.read);
            of.read += 1;
            self.tasks[n].next_input += 1;
            self.tasks[n].owes = task.copies;
            done.took += task.service;
        }
        (done, State::Ready)
    }

    fn end(&mut self, thread: usize) {
        let Some((_, start, n, done, state)) = self.busy[thread].take() else { return };
        let task = n as u64 + 1;
        let worker = if thread < self.net.workers { thread as u64 } else { u64::from(u32::MAX) };
        self.record(
            thread,
            TaskDispatched { task, worker, duration_ticks: self.now - start, ..TaskDispatched::default() },
        );
        let run =
            |&(stream, first, count): &(usize, u64, u64)| Run { stream: stream as u64 + 1, first, count };
        done.reads.iter().for_each(|read| self.record(thread, StreamRead::from(run(read))));
        done.writes.iter().for_each(|write| self.record(thread, StreamWrote::from(run(write))));
        self.tasks[n].state = state;
        for (stream, ..) in done.writes {
            self.wake_if(thread, self.streams[stream].reader, State::Input(stream));
        }
        for (stream, ..) in done.reads {
            self.wake_if(thread, self.streams[stream].writer, State::Room(stream));
        }
        match state {
            State::Ready | State::Running => {
                self.record(thread, TaskYielded { task });
                self.queues[thread].push_back(n);
            }
            State::Input(stream) => self.block(thread, n, stream, false),
            State::Room(stream) => self.block(thread, n, stream, true),
            State::Ended => {
                if thread >= self.net.workers {
                    let busy = self.busy_ticks[thread];
                    let cpu_ns = if self.net.tasks[n].sleeps { busy / 50 } else { busy };
                    self.record(thread, ThreadUsed { worker, task, cpu_ns, ..ThreadUsed::default() });
                }
                self.record(thread, TaskEnded { task, ..TaskEnded::default() });
                for stream in self.net.tasks[n].outputs.clone() {
                    self.streams[stream].closed = true;
                    self.wake_if(thread, self.streams[stream].reader, State::Input(stream));
                }
            }
        }
    }

    /// Makes a task wait, unless the message or room has arrived in the meantime.
    fn block(&mut self, thread: usize, n: usize, stream: usize, for_room: bool) {
        let task = n as u64 + 1;
        let id = stream as u64 + 1;
        let of = &self.streams[stream];
        let come = if for_room {
            of.written - of.read < self.net.capacity
        } else {
            of.read < of.written || of.closed
        };
        self.record(
            thread,
            if for_room {
                Observation::from(TaskBlockedOutput { task, stream: id })
            } else {
                TaskBlockedInput { task, stream: id }.into()
            },
        );
        if come {
            self.make_ready(thread, n, id);
        }
    }

    fn wake_if(&mut self, by: usize, task: usize, waits: State) {
        if self.tasks[task].state == waits {
            let (State::Input(stream) | State::Room(stream)) = waits else { return };
            self.make_ready(by, task, stream as u64 + 1);
        }
    }

    fn make_ready(&mut self, by: usize, n: usize, by_stream: u64) {
        self.tasks[n].state = State::Ready;
        self.record(by, TaskReady { task: n as u64 + 1, by_stream, ..TaskReady::default() });
        let thread = self.thread(n);
        if thread != by && self.queues[thread].is_empty() && self.busy[thread].is_none() {
            self.wakes[thread] = self.now + WAKE_UP;
        }
        self.queues[thread].push_back(n);
    }

    fn finish(mut self) -> Report {
        if self.tasks.iter().any(|task| task.state != State::Ended) {
            self.now += LASTS;
        }
        for worker in 0..self.net.workers {
            let (lost, busy) = (self.lost[worker], self.busy_ticks[worker]);
            let used = ThreadUsed {
                worker: worker as u64,
                cpu_ns: busy - lost,
                preempted: lost / SLICE,
                delayed_ns: lost,
                ..ThreadUsed::default()
            };
            self.record(worker, used);
            self.record(worker, WorkerEnded { worker: worker as u64, ..WorkerEnded::default() });
        }
        report(self.net, &self.events)
    }
}

/// The ticks between two losses of the first worker's processor.
fn every(net: &Net) -> u64 {
    net.preempted_every.map_or(u64::MAX / 2, |thousandths| SLICE * thousandths / 1000)
}

fn count(runs: &mut Vec<(usize, u64, u64)>, stream: usize, index: u64) {
    match runs.iter_mut().find(|run| run.0 == stream) {
        Some(run) => run.2 += 1,
        None => runs.push((stream, index, 1)),
    }
}

fn site(name: &str) -> u64 {
    name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte))
}

fn report(net: &Net, events: &[(u64, u64, Observation)]) -> Report {
    let mut analysis = Analysis::new(Options { ns_per_tick: 1.0, top: 32 });
    for (time, writer, observation) in events {
        analysis.observe(*time, *writer, observation);
    }
    let mut names = Names::default();
    for task in &net.tasks {
        let name = SiteName { path: task.name.clone(), kind: "box".into(), place: None };
        names.sites.insert(site(&task.name), name);
    }
    analysis.finish(&names, Ending::default())
}

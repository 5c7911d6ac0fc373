//! Heartbeats: which tasks, threads and processes make no progress, and why.
//!
//! A scope gives the latest event of every element and the rows of all tasks, streams and workers. For a task
//! that has not changed for a while, the rows of its streams and the kernel's state of its thread are read as
//! well. The recorded times of its component's messages are read only when the task makes no progress in its
//! box. Nothing is read between two looks.

mod judging;
mod kernel;
mod record;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use thalweg_scope::{Backlog, Leaf, Pulled, Scope, Target, Tree, Tuple, Value, View};
use thalweg_space::reader::SpaceReader;

use crate::report::SleepsFor;
use judging::{Judged, Seen, State, StreamSeen, TaskSeen, ThreadSeen, judge};
use record::Records;

/// The number of a worker in the row of a task that has a thread of its own.
const OWN_THREAD: u64 = 0xffff_ffff;

/// Why a task, thread or process makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Still {
    /// The task or process has ended.
    Ended,
    /// The task has failed.
    Failed,
    /// The process was killed, or died.
    Killed,
    /// The thread or process is stopped by a signal or a debugger.
    Stopped,
    /// The task waits in a circle of tasks that wait for one another, so that none of them can ever continue.
    Deadlock,
    /// The task sleeps in its box for longer than its component usually takes for a message.
    Asleep,
    /// The task runs in its box for longer than its component usually takes for a message, perhaps in an
    /// endless loop.
    Running,
    /// The task's thread is runnable but gets no processor.
    Kept,
    /// The task waits for messages.
    Empty,
    /// The task waits for room in its output.
    Full,
    /// The task could continue, but its worker is running another task.
    Ready,
}

/// A task, thread or process that makes no progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The name of the process.
    pub process: String,
    /// The id of the process.
    pub pid: u32,
    /// The task; `None` for a whole process or a thread without tasks.
    pub task: Option<u64>,
    /// The name: the path of the task's component, or the name of the element that the thread writes.
    pub name: String,
    /// Why the task, thread or process makes no progress.
    pub still: Still,
    /// The time for which the task, thread or process has been observed without a change.
    pub for_ns: u64,
    /// What the thread sleeps for, if it sleeps in a box.
    pub sleeps_for: Option<SleepsFor>,
    /// The index of the message being processed, for a task in its box.
    pub message: Option<u64>,
    /// The 99.9 % quantile of the times of its component's messages; `None` if no message has been finished
    /// or times are not recorded.
    pub usual_ns: Option<f64>,
    /// The task that this task waits for.
    pub waits_for: Option<String>,
    /// The stream between the task and the task that it waits for.
    pub stream: Option<u64>,
    /// The root of the wait: the last task in the chain of tasks that wait for each other, if it is not
    /// `waits_for`.
    pub leads_to: Option<String>,
    /// The kind of the last event in the element that the thread writes.
    pub last_event: Option<String>,
    /// Whether the lack of progress is a fault. The lack is no fault if the task has ended without failure,
    /// waits for other tasks, or waits for input from outside.
    pub is_alarm: bool,
}

/// Looks repeatedly for tasks, threads and processes that make no progress.
///
/// ```no_run
/// use std::time::Duration;
/// use thalweg_monitor::Heartbeat;
/// use thalweg_scope::Target;
///
/// let mut heartbeat = Heartbeat::open(Target::of("run"), Duration::from_secs(2))?;
/// loop {
///     for standing in heartbeat.beat() {
///         println!("{}: {}", standing.name, standing.text());
///     }
///     std::thread::sleep(heartbeat.pause());
/// }
/// # Ok::<(), thalweg_scope::Error>(())
/// ```
#[derive(Debug)]
pub struct Heartbeat {
    scope: Scope,
    stable: Duration,
    processes: BTreeMap<u32, Watched>,
    records: Records,
    problems: Vec<String>,
}

/// A process that is watched.
#[derive(Debug)]
struct Watched {
    name: String,
    pid: u32,
    /// The id by which the system of this machine knows the process; 0 for a process of another machine.
    pid_here: u32,
    path: PathBuf,
    space: SpaceReader,
    tasks: HashMap<u64, Pulse<[u64; 6]>>,
    /// For each stream, whether it holds a message and whether it has room.
    streams: HashMap<u64, Pulse<[bool; 2]>>,
    /// Threads, by their numbers in the kernel.
    threads: HashMap<u32, Thread>,
    /// The thread of each writer; 0: not known.
    writers: HashMap<u32, u32>,
    /// For each component, the longest time for which one of its tasks was observed on one message that it
    /// then finished.
    longest_ns: HashMap<String, u64>,
    died: Option<(Instant, Still)>,
    stopped: Option<Instant>,
}

/// A value that was observed repeatedly, and the time of its last change.
#[derive(Clone, Copy, Debug)]
struct Pulse<T> {
    last: T,
    since: Instant,
    seen: Instant,
}

impl<T: PartialEq> Pulse<T> {
    /// Records the present value; if the value has changed, returns how long the previous value lasted.
    fn beat(pulse: &mut Option<Pulse<T>>, now: T, at: Instant) -> Option<Duration> {
        match pulse {
            Some(pulse) if pulse.last == now => {
                pulse.seen = at;
                None
            }
            Some(pulse) => {
                let was = at - pulse.since;
                *pulse = Pulse { last: now, since: at, seen: at };
                Some(was)
            }
            None => {
                *pulse = Some(Pulse { last: now, since: at, seen: at });
                None
            }
        }
    }
}

/// A thread that writes an element.
#[derive(Debug)]
struct Thread {
    name: String,
    last_event: String,
    pulse: Option<Pulse<u64>>,
    /// The time at which the thread was first observed without progress, and its processor time then.
    used: Option<(Instant, kernel::Used)>,
    /// Whether the thread has been observed asleep or stopped since it was first observed without progress.
    slept: bool,
}

/// The data of one process that a pull of the scope returned.
#[derive(Debug, Default)]
struct Shown {
    seen: Seen,
    names: HashMap<u64, String>,
    /// The state and counters of each task, which change while the task makes progress.
    signatures: HashMap<u64, [u64; 6]>,
    /// The task and message that each worker is processing.
    workers: HashMap<u64, (u64, u64)>,
}

impl Heartbeat {
    /// Watches these processes; a task, thread or process that has not changed for `stable` is reported.
    ///
    /// # Errors
    /// When the target has no space.
    pub fn open(target: Target, stable: Duration) -> Result<Heartbeat, thalweg_scope::Error> {
        let rows = Leaf::of_rows(["exec.task", "exec.stream", "exec.worker"]);
        let tree = Tree::gather([Tree::leaf(Leaf::of_kinds(["**"])), Tree::leaf(rows)]);
        let about = "What did each element record last, and what do tasks, streams and workers do?";
        let view = View::new("heartbeat", about, tree).expect("it names what there is").latest();
        let scope = Scope::open(&view, target, Backlog::Nothing)?;
        let (processes, records, problems) = (BTreeMap::new(), Records::default(), Vec::new());
        Ok(Heartbeat { scope, stable, processes, records, problems })
    }

    /// The time to wait until the next look: short enough to report a standstill within a second of the
    /// configured time, and long enough to stay within the scope's budget of processor time.
    pub fn pause(&mut self) -> Duration {
        let usual = (self.stable / 8).clamp(Duration::from_millis(20), Duration::from_millis(250));
        usual.max(self.scope.price().wait())
    }

    /// The read errors since the last call of this method.
    pub fn problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// Whether all processes have ended, and none can join.
    pub fn is_over(&self) -> bool {
        !self.processes.is_empty() && self.processes.values().all(|process| process.died.is_some())
    }

    /// Looks once, and returns everything that makes no progress now.
    pub fn beat(&mut self) -> Vec<Standing> {
        let at = Instant::now();
        self.meet();
        let mut pulled = self.scope.pull();
        self.problems.append(&mut pulled.problems);
        let mut shown = self.show(&pulled, at);
        let stable_ns = self.stable.as_nanos() as u64;
        let mut standing = Vec::new();
        for (number, process) in &mut self.processes {
            if let Some(whole) = process.whole(at, self.stable) {
                standing.extend(whole);
                continue;
            }
            let mut shown = shown.remove(number).unwrap_or_default();
            process.measure(&mut shown, at, self.stable);
            for (task, of) in &mut shown.seen.tasks {
                if of.state == State::Running && of.still_ns >= stable_ns {
                    let name = shown.names.get(task).map_or("", String::as_str);
                    let recorded = self.records.usual_ns((*number, &process.path), name);
                    let seen = process.longest_ns.get(name).map(|ns| *ns as f64);
                    of.usual_ns = recorded.into_iter().chain(seen).chain(of.usual_ns).reduce(f64::max);
                }
            }
            let judged = judge(&shown.seen, stable_ns);
            standing.extend(judged.iter().map(|(task, of)| process.standing(&shown, *task, of)));
            if shown.seen.tasks.is_empty() {
                standing.extend(process.threads_alone(at, self.stable));
            }
        }
        standing
    }

    /// Starts watching the processes that joined.
    fn meet(&mut self) {
        for (number, space) in self.scope.spaces() {
            if self.processes.contains_key(&number) {
                continue;
            }
            let path = space.path().to_path_buf();
            let opened = SpaceReader::open(&path).and_then(|space| Ok((space.info()?, space)));
            let Ok((info, space)) = opened else { continue };
            let pid_here = if info.is_alive_here() { info.pid } else { 0 };
            let watched = Watched::new(info.name, (info.pid, pid_here), path, space);
            self.processes.insert(number, watched);
        }
    }

    /// Groups pulled tuples by process.
    fn show(&mut self, pulled: &Pulled, at: Instant) -> HashMap<u32, Shown> {
        let mut shown: HashMap<u32, Shown> = HashMap::new();
        for tuple in pulled.batch.tuples() {
            let Some(element) = tuple.element() else { continue };
            if tuple.head().is_row() {
                shown.entry(element.process).or_default().row(&tuple);
            } else if let Some(process) = self.processes.get_mut(&element.process)
                && let Some(thread) = process.thread(element.writer, &element.name)
            {
                process.event(thread, &element.name, &tuple, at);
            }
        }
        shown.values_mut().for_each(Shown::settle);
        shown
    }
}

fn number(tuple: &Tuple<'_>, name: &str) -> u64 {
    match tuple.field(name) {
        Some(Value::Unsigned(number) | Value::Time(number)) => number,
        Some(Value::Signed(number)) => number.cast_unsigned(),
        Some(Value::Truth(truth)) => u64::from(truth),
        _ => 0,
    }
}

fn text<'t>(tuple: &Tuple<'t>, name: &str) -> &'t str {
    match tuple.field(name) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

impl Shown {
    fn row(&mut self, tuple: &Tuple<'_>) {
        let id = number(tuple, "id");
        match tuple.kind().name.as_str() {
            "exec.task" => self.task(id, tuple),
            "exec.stream" if number(tuple, "closed") == 0 => {
                let held = number(tuple, "written").saturating_sub(number(tuple, "read"));
                let [reader, writer, capacity] =
                    ["reader", "writer", "capacity"].map(|name| number(tuple, name));
                self.seen.streams.push(StreamSeen { id, reader, writer, held, capacity, still_ns: 0 });
            }
            "exec.worker" if matches!(text(tuple, "state"), "running" | "waiting") => {
                self.workers.insert(id, (number(tuple, "task"), number(tuple, "message")));
            }
            _ => {}
        }
    }

    fn task(&mut self, id: u64, tuple: &Tuple<'_>) {
        let state = match text(tuple, "state") {
            "ended" if number(tuple, "failed") != 0 => State::Failed,
            "ended" => State::Ended,
            "ready" => State::Ready,
            "running" => State::Running,
            "blocked_input" => State::BlockedInput,
            "blocked_output" => State::BlockedOutput,
            _ => State::Idle,
        };
        let worker = Some(number(tuple, "worker")).filter(|worker| *worker != OWN_THREAD);
        let [dispatches, reads, writes, busy] =
            ["dispatches", "reads", "writes", "busy"].map(|name| number(tuple, name));
        let mut name = text(tuple, "task.component").to_owned();
        if name.is_empty() {
            name = format!("task {id}");
        }
        self.names.insert(id, name);
        self.signatures
            .insert(id, [state as u64, dispatches, reads, writes, worker.unwrap_or(OWN_THREAD), 0]);
        // If single messages are not recorded, only the mean of their times is known, so the 99.9 % quantile
        // is taken as a multiple of the mean.
        let mean_ns = (reads > 0 && busy > 0).then(|| busy as f64 / reads as f64);
        let usual_ns = mean_ns.map(|mean_ns| MEANS * mean_ns);
        self.seen.tasks.insert(id, TaskSeen { state, worker, usual_ns, ..TaskSeen::default() });
    }

    /// Corrects the states of tasks by the rows of workers: a task named in a worker's row runs on this
    /// worker, even if the task's own row differs, because the task's row is written only when its dispatch
    /// ends.
    fn settle(&mut self) {
        for of in self.seen.tasks.values_mut() {
            let on = of.worker.and_then(|worker| self.workers.get(&worker));
            of.worker_idles = on.is_some_and(|(task, _)| *task == 0);
        }
        for (task, message) in self.workers.values() {
            let of = self.seen.tasks.get_mut(task).filter(|_| *task != 0);
            if let (Some(of), Some(signature)) = (of, self.signatures.get_mut(task)) {
                of.state = State::Running;
                (signature[0], signature[5]) = (State::Running as u64, message + 1);
            }
        }
    }
}

/// The factor from the mean to the 99.9 % quantile, for messages of which only the mean time is known: with
/// exponential times, one message in a thousand takes more than 6.9 times the mean.
const MEANS: f64 = 7.0;

impl Watched {
    fn new(name: String, (pid, pid_here): (u32, u32), path: PathBuf, space: SpaceReader) -> Watched {
        Watched {
            name,
            pid,
            pid_here,
            path,
            space,
            tasks: HashMap::new(),
            streams: HashMap::new(),
            threads: HashMap::new(),
            writers: HashMap::new(),
            longest_ns: HashMap::new(),
            died: None,
            stopped: None,
        }
    }

    /// Finds the thread that writes an element.
    fn thread(&mut self, writer: u32, name: &str) -> Option<u32> {
        if !self.writers.contains_key(&writer) {
            let found = self.space.writers().unwrap_or_default();
            for found in found.into_iter().filter(|found| !found.name.starts_with("worker ")) {
                self.writers.insert(found.number, found.thread);
            }
            // A worker's thread is found by its name, because another thread creates the worker's element
            // before the worker's thread begins.
            if let Some(number) = name.strip_prefix("worker ") {
                let thread = kernel::thread_called(self.pid_here, &format!("thalweg-{number}"));
                self.writers.insert(writer, thread.unwrap_or(0));
            }
        }
        Some(*self.writers.entry(writer).or_default()).filter(|thread| *thread != 0)
    }

    fn event(&mut self, thread: u32, name: &str, tuple: &Tuple<'_>, at: Instant) {
        let new = || Thread {
            name: name.to_owned(),
            last_event: String::new(),
            pulse: None,
            used: None,
            slept: false,
        };
        let of = self.threads.entry(thread).or_insert_with(new);
        // A thread may write several elements: it makes no progress when none of them has a new event.
        let head = tuple.head();
        let beats = of.pulse.as_ref().is_none_or(|pulse| head.time_ns > pulse.last);
        if beats {
            of.last_event.clone_from(&tuple.kind().name);
            of.used = None;
        }
        let last = of.pulse.as_ref().map_or(head.time_ns, |pulse| pulse.last.max(head.time_ns));
        Pulse::beat(&mut of.pulse, last, at);
    }

    /// Reports the process itself if it has ended, was killed, or is stopped.
    fn whole(&mut self, at: Instant, stable: Duration) -> Option<Vec<Standing>> {
        if self.died.is_none() && !self.space.is_alive() {
            // A process that ends in order records its end, or removes its space.
            let in_order = self.space.info().map_or(true, |info| info.finished);
            self.died = Some((at, if in_order { Still::Ended } else { Still::Killed }));
        }
        if let Some((since, still)) = self.died {
            return Some(vec![self.as_whole(still, at - since)]);
        }
        let threads = kernel::threads(self.pid_here);
        let is_stopped = !threads.is_empty()
            && threads.iter().all(|thread| {
                matches!(kernel::doing(self.pid_here, *thread), Some(kernel::Doing::Stopped) | None)
            });
        if !is_stopped {
            self.stopped = None;
            return None;
        }
        let since = *self.stopped.get_or_insert(at);
        (at - since >= stable).then(|| vec![self.as_whole(Still::Stopped, at - since)])
    }

    fn as_whole(&self, still: Still, time: Duration) -> Standing {
        let name = self.name.clone();
        Standing {
            for_ns: time.as_nanos() as u64,
            is_alarm: still != Still::Ended,
            ..self.nameless(still, name)
        }
    }

    fn nameless(&self, still: Still, name: String) -> Standing {
        Standing {
            process: self.name.clone(),
            pid: self.pid,
            task: None,
            name,
            still,
            for_ns: 0,
            sleeps_for: None,
            message: None,
            usual_ns: None,
            waits_for: None,
            stream: None,
            leads_to: None,
            last_event: None,
            is_alarm: false,
        }
    }

    /// Measures how long each task has made no progress, and reads the state of its thread if it made none
    /// for long.
    fn measure(&mut self, shown: &mut Shown, at: Instant, stable: Duration) {
        let mut slots: HashMap<u64, Pulse<[u64; 6]>> = HashMap::with_capacity(shown.signatures.len());
        for (id, signature) in &mut shown.signatures {
            if thread_of(&self.threads, *id, None).is_some() {
                // A source or sink dispatches also to check whether it must stop, so only its numbers of
                // messages show progress.
                (signature[0], signature[1]) = (0, 0);
            }
            let mut pulse = self.tasks.remove(id);
            let was_in_box = pulse.is_some_and(|pulse| pulse.last[0] == State::Running as u64);
            let signature = &*signature;
            if let (Some(was), true) = (Pulse::beat(&mut pulse, *signature, at), was_in_box) {
                let longest = self.longest_ns.entry(shown.names[id].clone()).or_default();
                *longest = (*longest).max(was.as_nanos() as u64);
            }
            slots.extend(pulse.map(|pulse| (*id, pulse)));
        }
        self.tasks = slots;
        let mut streams = HashMap::with_capacity(shown.seen.streams.len());
        for of in &mut shown.seen.streams {
            let mut pulse = self.streams.remove(&of.id);
            Pulse::beat(&mut pulse, [of.held > 0, of.held < of.capacity], at);
            if let Some(pulse) = pulse {
                of.still_ns = (pulse.seen - pulse.since).as_nanos() as u64;
                streams.insert(of.id, pulse);
            }
        }
        self.streams = streams;
        for (id, of) in &mut shown.seen.tasks {
            let Some(pulse) = self.tasks.get(id) else { continue };
            of.still_ns = (pulse.seen - pulse.since).as_nanos() as u64;
            if thread_of(&self.threads, *id, None).is_some() {
                of.worker = None;
            }
            let is_on_thread = of.state == State::Running || of.state == State::Ready && of.worker.is_none();
            if !is_on_thread || of.still_ns == 0 {
                continue;
            }
            let Some(thread) = thread_of(&self.threads, *id, of.worker) else { continue };
            let begun = pulse.since;
            of.thread = self.look(thread, begun, at, of.still_ns as u128 >= stable.as_nanos());
        }
    }

    /// Reads the state of a thread that has made no progress since `since`.
    fn look(&mut self, thread: u32, since: Instant, at: Instant, closely: bool) -> ThreadSeen {
        let pid = self.pid_here;
        let Some(of) = self.threads.get_mut(&thread) else { return ThreadSeen::default() };
        let now = kernel::used(pid, thread).unwrap_or_default();
        if of.used.is_none_or(|(begun, _)| begun < since) {
            (of.used, of.slept) = (Some((at, now)), false);
        }
        let doing = kernel::doing(pid, thread);
        of.slept |= doing != Some(kernel::Doing::Runs);
        let (begun, before) = of.used.unwrap_or((at, now));
        if !closely {
            return ThreadSeen::default();
        }
        let span = (at - begun).as_nanos().max(1) as f64;
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
        let (ran, mut delayed) = (share(now.ran_ns, before.ran_ns), share(now.delayed_ns, before.delayed_ns));
        if !of.slept {
            // The kernel counts a wait for a processor when the wait ends, so a thread that got no processor
            // at all has no counted wait yet.
            delayed = delayed.max(1.0 - ran);
        }
        ThreadSeen { doing, ran, delayed }
    }

    fn standing(&self, shown: &Shown, task: u64, of: &Judged) -> Standing {
        let name = |task: u64| shown.names.get(&task).cloned().unwrap_or_else(|| format!("task {task}"));
        let seen = &shown.seen.tasks[&task];
        let thread = thread_of(&self.threads, task, seen.worker);
        let message = shown.signatures[&task][5].checked_sub(1).filter(|_| seen.state == State::Running);
        Standing {
            task: Some(task),
            for_ns: seen.still_ns,
            sleeps_for: of.sleeps_for,
            message,
            usual_ns: seen.usual_ns.filter(|_| seen.state == State::Running),
            waits_for: of.waits_for.map(name),
            stream: of.stream,
            leads_to: of.leads_to.filter(|end| Some(*end) != of.waits_for).map(name),
            last_event: thread.and_then(|thread| Some(self.threads.get(&thread)?.last_event.clone())),
            is_alarm: of.is_alarm,
            ..self.nameless(of.still, name(task))
        }
    }

    /// Reports the threads of a program without tasks. How long calls of these threads usually take is
    /// unknown, so only states that are a fault for any thread raise an alarm.
    fn threads_alone(&mut self, at: Instant, stable: Duration) -> Vec<Standing> {
        let still = |thread: &Thread| {
            thread
                .pulse
                .as_ref()
                .map(|pulse| (pulse.since, pulse.seen - pulse.since))
                .filter(|(_, still)| *still >= stable / 2)
        };
        let found: Vec<(u32, Instant, Duration)> = self
            .threads
            .iter()
            .filter_map(|(thread, of)| still(of).map(|(since, time)| (*thread, since, time)))
            .collect();
        let alive: HashSet<u32> = kernel::threads(self.pid_here).into_iter().collect();
        let mut standing = Vec::new();
        for (thread, since, time) in found {
            let seen = self.look(thread, since, at, time >= stable);
            if time < stable {
                continue;
            }
            let still = match seen.doing {
                _ if !alive.contains(&thread) => Still::Ended,
                None => continue,
                Some(kernel::Doing::Stopped) => Still::Stopped,
                Some(kernel::Doing::Sleeps(_)) => Still::Asleep,
                Some(kernel::Doing::Runs) if judging::is_kept(&seen) => Still::Kept,
                Some(kernel::Doing::Runs) => Still::Running,
            };
            let of = &self.threads[&thread];
            let sleeps_for = match seen.doing {
                Some(kernel::Doing::Sleeps(what)) => Some(what),
                _ => None,
            };
            standing.push(Standing {
                for_ns: time.as_nanos() as u64,
                sleeps_for,
                last_event: Some(of.last_event.clone()),
                is_alarm: matches!(still, Still::Kept | Still::Stopped),
                ..self.nameless(still, of.name.clone())
            });
        }
        standing.sort_by(|one, next| one.name.cmp(&next.name));
        standing
    }
}

/// The thread that runs a task: elements are named after workers, or after tasks that have threads of their
/// own.
fn thread_of(threads: &HashMap<u32, Thread>, task: u64, worker: Option<u64>) -> Option<u32> {
    let name = worker.map_or_else(|| format!("blocking task {task}"), |worker| format!("worker {worker}"));
    // A task's number may have been reused, so the element with the latest event is chosen.
    let of_name = threads.iter().filter(|(_, thread)| thread.name == name);
    of_name.max_by_key(|(_, thread)| thread.pulse.map(|pulse| pulse.last)).map(|(number, _)| *number)
}

impl Standing {
    /// The reason for the lack of progress in words, without the name of the task, thread or process.
    pub fn text(&self) -> String {
        let time = seconds(self.for_ns as f64);
        let peer = self.waits_for.as_deref();
        let end = self.leads_to.as_ref().map_or(String::new(), |end| format!(", which leads to {end}"));
        let stream = self.stream.map_or(String::new(), |stream| format!("stream {stream} of "));
        let record = match self.usual_ns {
            Some(usual_ns) => format!("99.9 % of its messages take up to {}", seconds(usual_ns)),
            None => "no message of it has come to its end yet".to_owned(),
        };
        let message = self.message.map_or(String::new(), |message| format!(" on message {message}"));
        match self.still {
            Still::Ended => "has ended".to_owned(),
            Still::Failed => "has failed".to_owned(),
            Still::Killed => "was killed, or died: `thalweg report` says what it was on".to_owned(),
            Still::Stopped => format!("has been stopped for {time}, by a signal or a debugger"),
            Still::Deadlock => format!(
                "deadlock: has waited for {stream}{} for {time}, and that waits for it",
                peer.unwrap_or("others")
            ),
            Still::Asleep if self.task.is_none() => {
                let what = self.sleeps_for.map_or("sleeps", sleeps);
                format!("has recorded nothing for {time}: {what}")
            }
            Still::Running if self.task.is_none() => {
                format!("has recorded nothing for {time}, and uses its processor")
            }
            Still::Asleep => {
                let what = self.sleeps_for.map_or("sleeps", sleeps);
                format!("is asleep in its box{message} for {time} ({what}): {record}")
            }
            Still::Running => format!(
                "has been at work in its box{message} for {time}, perhaps in an endless loop: {record}"
            ),
            Still::Kept => format!("could have run for {time}, and had no processor nearly all the time"),
            Still::Empty => match peer {
                Some(peer) => format!("has waited {time} for messages of {stream}{peer}{end}"),
                None => format!("has waited {time} for messages from outside"),
            },
            Still::Full => match peer {
                Some(peer) => format!("has waited {time} for room in {stream}{peer}{end}"),
                None => format!("has waited {time} for what takes its output outside"),
            },
            Still::Ready => match peer {
                Some(peer) => format!("has been ready for {time}, behind {peer} on its worker"),
                None => format!("has been ready for {time}"),
            },
        }
    }
}

fn sleeps(what: SleepsFor) -> &'static str {
    match what {
        SleepsFor::Lock => "waits for a lock, or until another thread wakes it",
        SleepsFor::Read => "waits for something to read",
        SleepsFor::Write => "waits until what it writes is taken",
        SleepsFor::Sleep => "sleeps for a time",
        SleepsFor::PageFault => "waits for pages of memory",
        SleepsFor::Other => "sleeps in a call of the kernel",
    }
}

fn seconds(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.1} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} µs", ns / 1e3),
    }
}

#[cfg(test)]
mod tests;

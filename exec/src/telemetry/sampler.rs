//! The thread that samples the threads which dispatch tasks: whether each thread has a processor, or for what
//! it sleeps. A dispatch itself only measures how long it lasted, and not how much of that time was work.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_space::{ElementOptions, Error, KindId, Space, Writer};

use super::board::Board;
use super::kinds::{InstructionsSampled, OWN_THREAD, ProcessorsUsed, ThreadSampled};
use super::threads::{At, Seen, task_at};
use crate::affinity;
use crate::instructions::{self, Code, Instructions};
use crate::procfs::{self, Doing, Memory, ThreadFiles, Throttled};
use crate::sync::lock;

/// The interval between samples, in nanoseconds, if sampling takes less than one part in [`PART`] of a
/// processor.
const EVERY_NS: u64 = 10_000_000;
/// The longest interval between samples while no thread is in a task, in nanoseconds.
const IDLE_NS: u64 = 80_000_000;
/// The longest interval between samples in any case, in nanoseconds.
const SELDOM_NS: u64 = 1_000_000_000;
/// Sampling takes at most one part in this many of a processor's time.
const PART: u64 = 500;
/// The interval between recordings of samples, in nanoseconds. The interval is long so that the samples of a
/// long run fit into their element.
const TELL_NS: u64 = 250_000_000;
/// The interval between recordings of the processor time of the run and of the machine.
const PROCESSORS_NS: u64 = 1_000_000_000;
/// The most samples that are kept before they are recorded.
const UNSENT_MAX: usize = 256;
/// If a thread sleeps for a lock for longer than this, the sampler looks up which thread holds the lock.
const LONG_NS: u64 = 100_000_000;
/// The time, in nanoseconds, that is added to the sampler's lifetime when its allowed share of that time is
/// computed, so that short runs are sampled, too.
const ADVANCE_NS: u64 = 500_000_000;
/// The largest block of the sampler's element.
const BLOCK_BYTES: usize = 16 << 10;

/// A handle to the sampling thread.
pub(crate) struct Sampler {
    thread: JoinHandle<()>,
    end: Arc<End>,
}

/// A flag by which the sampling thread is asked to end.
#[derive(Default)]
struct End {
    ended: Mutex<bool>,
    told: Condvar,
}

impl End {
    /// Waits for at most `ns` nanoseconds; returns true as soon as the sampling thread is asked to end.
    fn comes_within(&self, ns: u64) -> bool {
        let (ended, _) = self
            .told
            .wait_timeout_while(lock(&self.ended), Duration::from_nanos(ns), |ended| !*ended)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *ended
    }
}

impl Sampler {
    /// Starts the sampling thread, which samples while `measures` returns true. Returns `None` without a
    /// space.
    pub(crate) fn start(
        board: &Arc<Board>,
        measures: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Option<Sampler>> {
        if board.space().is_none() {
            return Ok(None);
        }
        let end = Arc::new(End::default());
        let (board, told) = (Arc::clone(board), Arc::clone(&end));
        let thread = thread::Builder::new().name("thalweg-sampler".into()).spawn(move || {
            let mut looking = Looking::new(board);
            while !told.comes_within(looking.pause_ns) {
                match measures() {
                    true => looking.look(),
                    false => looking.rest(),
                }
            }
            if measures() {
                looking.tell();
                looking.tell_processors();
            }
        })?;
        Ok(Some(Sampler { thread, end }))
    }

    /// Ends the sampling thread; all its samples are recorded when this call returns.
    pub(crate) fn end(self) {
        *lock(&self.end.ended) = true;
        self.end.told.notify_all();
        // A panic of the sampling thread is ignored, because the run does not depend on samples.
        let _ = self.thread.join();
    }
}

/// The state of the sampler between two samples.
struct Looking {
    board: Arc<Board>,
    /// The sampler's writer, made after the first samples.
    samples: Option<Samples>,
    /// The threads that are sampled; `changes` is the number of changes of the list of threads that this map
    /// contains.
    threads: HashMap<u64, Thread>,
    changes: Option<u64>,
    /// The processors that the run may use.
    allowed: Vec<usize>,
    throttled: Option<Throttled>,
    memory: Option<Memory>,
    /// When sampling began, and the sampler's processor time at that moment, with the time that preparations
    /// have taken since: they are made once for each thread.
    began: u64,
    before_ns: u64,
    looked_at: u64,
    told_at: u64,
    /// When the use of processors was last recorded.
    processors_at: Option<u64>,
    /// The samples that are not recorded yet.
    unsent: Vec<ThreadSampled>,
    /// The numbers of sampled instructions that are not recorded yet, and those of them in loops that wait, by
    /// worker and task.
    instructions: HashMap<(u32, u64), [u32; 2]>,
    code: Code,
    looks: u64,
    pause_ns: u64,
    /// The state of a random number generator that varies the pauses, so that samples do not keep step with a
    /// box that works periodically.
    uneven: u32,
}

/// The writer of samples. Its element is small and its catalog has only the three kinds that it writes, because
/// making a large element with all kinds takes longer than sampling a run of half a second.
struct Samples {
    writer: Writer,
    sampled: KindId<ThreadSampled>,
    instructions: KindId<InstructionsSampled>,
    used: KindId<ProcessorsUsed>,
}

impl Samples {
    fn new(space: &Space) -> Result<Samples, Error> {
        let usual = space.element();
        let element = ElementOptions { block_bytes: usual.block_bytes.min(BLOCK_BYTES), ..usual };
        let mut writer = space.writer_with("sampler", element)?;
        let (sampled, instructions, used) = (writer.declare()?, writer.declare()?, writer.declare()?);
        Ok(Samples { sampled, instructions, used, writer })
    }
}

struct Thread {
    seen: Arc<Seen>,
    files: ThreadFiles,
    /// The sampled instructions of a worker's thread, if the kernel permits that.
    instructions: Option<Instructions>,
    used_ns: (u64, u64),
    /// The dispatch in which the thread sleeps, and for how long it was seen asleep there.
    asleep: Option<(At, u64)>,
}

impl Looking {
    fn new(board: Arc<Board>) -> Looking {
        let allowed = affinity::allowed();
        let (throttled, memory) = (Throttled::open(), Memory::open());
        let now = board.clock.now();
        Looking {
            board,
            samples: None,
            threads: HashMap::new(),
            changes: None,
            allowed,
            throttled,
            memory,
            began: now,
            before_ns: affinity::thread_cpu_ns(),
            looked_at: now,
            told_at: 0,
            processors_at: None,
            unsent: Vec::new(),
            instructions: HashMap::new(),
            code: Code::default(),
            looks: 0,
            pause_ns: EVERY_NS,
            uneven: 1,
        }
    }

    /// Notes that nothing is measured at present.
    fn rest(&mut self) {
        self.looked_at = self.board.clock.now();
        self.pause_ns = IDLE_NS;
        let sampled = self.threads.values_mut().filter_map(|thread| thread.instructions.as_mut());
        sampled.for_each(|instructions| instructions.switch(false));
    }

    fn look(&mut self) {
        self.meet();
        let now = self.board.clock.now();
        let interval_ticks = now.saturating_sub(self.looked_at);
        self.looked_at = now;
        self.looks += 1;
        let mut samples: Vec<ThreadSampled> = Vec::new();
        for thread in self.threads.values_mut() {
            samples.extend(thread.sample(interval_ticks));
        }
        let long_ticks = self.board.clock.ns_to_ticks(LONG_NS);
        for sample in samples.iter_mut().filter(|s| s.doing == Doing::Lock && s.asleep_ticks >= long_ticks) {
            sample.holder = self.holder(sample.on);
        }
        self.plan(samples.is_empty());
        samples.into_iter().for_each(|sample| self.keep(sample));
        self.look_at_instructions();
        if self.board.clock.ticks_to_ns(now.saturating_sub(self.told_at)) >= TELL_NS {
            self.tell();
        }
    }

    /// Counts the instructions that the kernel has sampled since the last time, by the tasks in which the
    /// workers were then.
    fn look_at_instructions(&mut self) {
        let Looking { board, threads, memory: Some(memory), instructions, code, .. } = self else { return };
        for Thread { seen, instructions: sampled, .. } in threads.values_mut() {
            let Some(sampled) = sampled else { continue };
            sampled.switch(true);
            if sampled.is_empty() {
                continue;
            }
            let last = seen.last();
            let (now, now_ns) = (board.clock.now(), instructions::clock_ns());
            sampled.each(|address, time_ns| {
                let time = now.saturating_sub(board.clock.ns_to_ticks(now_ns.saturating_sub(time_ns)));
                if let Some(task) = task_at(&last, time) {
                    let counts = instructions.entry((seen.worker, task)).or_default();
                    counts[0] += 1;
                    counts[1] += u32::from(code.waits(memory, address));
                }
            });
        }
    }

    /// Keeps a sample until it is recorded, and merges it with a kept sample that is equal.
    fn keep(&mut self, sample: ThreadSampled) {
        let ThreadSampled { worker, task, doing, source, on, .. } = sample;
        let alike = |kept: &&mut ThreadSampled| {
            (kept.worker, kept.task, kept.doing, kept.source, kept.on) == (worker, task, doing, source, on)
        };
        match self.unsent.iter_mut().find(alike) {
            None => self.unsent.push(sample),
            Some(kept) => {
                kept.looks += 1;
                kept.interval_ticks += sample.interval_ticks;
                kept.cpu_ns += sample.cpu_ns;
                kept.delayed_ns += sample.delayed_ns;
                (kept.asleep_ticks, kept.holder) = (sample.asleep_ticks, sample.holder);
            }
        }
        if self.unsent.len().max(self.instructions.len()) >= UNSENT_MAX {
            self.tell();
        }
    }

    /// Records the samples that were kept, and forgets them.
    fn tell(&mut self) {
        self.told_at = self.looked_at;
        // The recorder is made when threads were first sampled, even if no thread was in a task, because the
        // use of processors is counted from that moment on. In a run that is too short to be sampled, nothing
        // is recorded.
        if self.samples.is_none() && self.looks > 0 {
            let used_ns = affinity::thread_cpu_ns();
            self.samples = self.board.space().and_then(|space| Samples::new(space).ok());
            self.before_ns += affinity::thread_cpu_ns().saturating_sub(used_ns);
        }
        let Some(samples) = &mut self.samples else { return };
        for sample in self.unsent.drain(..) {
            // All samples get the time at which threads were last sampled.
            samples.writer.emit_at(self.looked_at, samples.sampled, &sample);
        }
        for ((worker, task), [count, spinning]) in self.instructions.drain() {
            let sampled = InstructionsSampled { worker, task, samples: count, spinning };
            samples.writer.emit_at(self.looked_at, samples.instructions, &sampled);
        }
        let is_time = |at| self.board.clock.ticks_to_ns(self.looked_at.saturating_sub(at)) >= PROCESSORS_NS;
        if self.processors_at.is_none_or(is_time) {
            self.tell_processors();
        }
    }

    /// Adds the threads that have started, and removes those that have ended.
    fn meet(&mut self) {
        let changes = self.board.threads.changes.load(Ordering::Acquire);
        if self.changes.replace(changes) == Some(changes) {
            return;
        }
        let used_ns = affinity::thread_cpu_ns();
        let mut before = std::mem::take(&mut self.threads);
        for (number, seen) in self.board.threads.all() {
            let thread = before.remove(&number).unwrap_or_else(|| {
                let files = ThreadFiles::of(seen.thread);
                let is_worker = seen.worker != OWN_THREAD;
                let instructions = is_worker.then(|| Instructions::of(seen.thread)).flatten();
                let used_ns = files.used_ns().unwrap_or_default();
                Thread { used_ns, seen, files, instructions, asleep: None }
            });
            self.threads.insert(number, thread);
        }
        self.before_ns += affinity::thread_cpu_ns().saturating_sub(used_ns);
    }

    /// Records how much processor time was used until now.
    fn tell_processors(&mut self) {
        let Some(samples) = &mut self.samples else { return };
        self.processors_at = Some(self.looked_at);
        let used = processors_used(&self.allowed, self.throttled.as_ref(), self.looks);
        samples.writer.emit_at(self.board.clock.now().max(self.looked_at), samples.used, &used);
    }

    /// The task of the thread that holds this lock; 0: not known.
    fn holder(&self, lock: u64) -> u64 {
        let Some(holder) = self.memory.as_ref().and_then(|memory| memory.holder(lock)) else { return 0 };
        let thread = self.threads.values().find(|thread| thread.seen.thread == holder);
        thread.and_then(|thread| thread.seen.at()).map_or(0, |at| at.task)
    }

    /// Chooses the next pause so that sampling takes no more than its allowed share of the time since it
    /// began plus [`ADVANCE_NS`].
    fn plan(&mut self, idle: bool) {
        let usual = if idle { (2 * self.pause_ns).min(IDLE_NS) } else { EVERY_NS };
        let since_ns = self.board.clock.ticks_to_ns(self.looked_at.saturating_sub(self.began)) + ADVANCE_NS;
        let took_ns = affinity::thread_cpu_ns().saturating_sub(self.before_ns);
        let pause = usual.max((PART * took_ns).saturating_sub(since_ns)).min(SELDOM_NS);
        // The pause is varied between three and five quarters of its length.
        self.uneven = self.uneven.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.pause_ns = pause - pause / 4 + pause / 2 * u64::from(self.uneven >> 16) / 65_536;
    }
}

/// The processor time that the run and the machine used until now on the processors `allowed`.
fn processors_used(allowed: &[usize], throttled: Option<&Throttled>, looks: u64) -> ProcessorsUsed {
    let stat = std::fs::read_to_string("/proc/stat").ok();
    let machine = stat.and_then(|stat| procfs::processors_used(&stat, allowed));
    ProcessorsUsed {
        processors: allowed.len() as u32,
        run_ns: affinity::process_cpu_ns(),
        machine_ns: machine.map_or(u64::MAX, |used| used.busy_ns),
        throttled_ns: throttled.and_then(Throttled::ns).unwrap_or(0),
        sampling_ns: affinity::thread_cpu_ns(),
        looks,
        programs_ns: procfs::programs_ns(),
    }
}

impl Thread {
    /// A sample of the thread, if it is in a task.
    fn sample(&mut self, interval_ticks: u64) -> Option<ThreadSampled> {
        let Some(at) = self.seen.at() else {
            self.asleep = None;
            return None;
        };
        let look = self.files.look();
        // A thread that has gone on between the two readings of its position did not sleep.
        let doing = if self.seen.at() == Some(at) { look.doing } else { Doing::Runs };
        // A sleeping thread uses no processor, so its processor time since the last sample is read with the
        // next sample in which it runs.
        let used_ns = if doing == Doing::Runs { self.files.used_ns() } else { None }.unwrap_or(self.used_ns);
        let before = std::mem::replace(&mut self.used_ns, used_ns);
        let slept = self.asleep.filter(|(before, _)| *before == at).map(|(_, ticks)| ticks + interval_ticks);
        let slept = (doing != Doing::Runs).then_some(slept.unwrap_or(0));
        self.asleep = slept.map(|ticks| (at, ticks));
        Some(ThreadSampled {
            worker: self.seen.worker,
            task: at.task,
            doing,
            source: look.source,
            looks: 1,
            interval_ticks,
            cpu_ns: used_ns.0.saturating_sub(before.0),
            delayed_ns: used_ns.1.saturating_sub(before.1),
            on: if doing == Doing::Runs { 0 } else { look.on },
            asleep_ticks: slept.unwrap_or(0),
            holder: 0,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use thalweg_space::reader::{Item, SpaceReader};
    use thalweg_space::{Space, SpaceOptions};

    use super::*;

    /// Checks that the use of processors is known from the first sample on, even if for a long time no sample
    /// finds a thread in a task.
    #[test]
    fn processors_are_known_since_the_first_look() {
        let folder = std::env::temp_dir().join(format!("thalweg-exec-sampler-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let space =
            Space::create(SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() }).unwrap();
        let reader = SpaceReader::open(space.path()).unwrap();
        let mut looking = Looking::new(Arc::new(Board::new(Some(space.clone())).unwrap()));
        looking.look();
        let seen = looking.board.clock.now();
        looking.look();
        looking.tell();
        looking.tell_processors();
        drop(looking);
        let mut times = Vec::new();
        let told = reader.events().poll(usize::MAX, &mut |item| match item {
            Item::Event(event) if &*event.kind.name == "exec.processors_used" => times.push(event.time),
            Item::Event(_) => {}
            Item::Gap { lost, .. } => panic!("{lost} events lost"),
        });
        told.unwrap();
        assert!(times.len() == 2 && times[0] <= seen && seen <= times[1], "{times:?} {seen}");
        drop((reader, space));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

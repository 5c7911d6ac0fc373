//! Stops the threads of the target, and reads and writes their registers. This module has `unsafe`, because
//! `ptrace` has pointers as arguments.
//!
//! A stopped thread continues when the thread that traces it ends, however it ends. Tracing is done in
//! separate threads ([`traced`]), so that the kernel releases the target when such a thread ends after a
//! failure.

use crate::error::Error;
use crate::process::{Process, refused};
use libc::{c_int, c_long, c_void, pid_t, user_regs_struct};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Registers of a thread.
pub(crate) type Registers = user_regs_struct;

/// The longest time for a thread to stop.
const STOP_MAX: Duration = Duration::from_secs(5);
/// The longest time to wait until a thread that may run has a processor.
const TURN_MAX: Duration = Duration::from_millis(4);
/// The time in a stop after which there is no such waiting any more.
const PATIENT_MAX: Duration = Duration::from_millis(20);
/// The number, from `<elf.h>`, of the ELF note that holds the vector registers.
const NT_X86_XSTATE: usize = 0x202;
/// The size of the buffer for vector registers, which is more than those of any processor need.
const XSTATE_BYTES_MAX: usize = 16 << 10;

/// The time in which a thread stops that has a processor.
const STOPS_IN: Duration = Duration::from_nanos(2500);

/// The number of processors, which takes some file reads to find out.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A stopped thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) id: pid_t,
    /// The pending signal, which is delivered when the thread continues.
    signal: c_int,
}

impl Thread {
    /// Whether the stopped thread can be used to run other code: it has no signal to handle.
    pub(crate) fn is_free(&self) -> bool {
        self.signal == 0
    }

    pub(crate) fn registers(&self) -> io::Result<Registers> {
        // SAFETY: the structure consists of plain numbers, so all zeroes are a valid value.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        call(libc::PTRACE_GETREGS, self.id, 0, std::ptr::from_mut(&mut registers) as usize)?;
        Ok(registers)
    }

    /// The registers, for finding out where the thread stands. If they cannot be read, because the thread is
    /// being killed, nothing is known about its position, so whatever depends on it must not be done.
    pub(crate) fn position(&self) -> Result<Registers, Error> {
        self.registers().map_err(|error| Error::of("cannot find out where a thread stands", error))
    }

    pub(crate) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        call(libc::PTRACE_SETREGS, self.id, 0, std::ptr::from_ref(registers) as usize)
    }

    /// The vector registers, laid out as by `XSAVE`.
    pub(crate) fn vectors(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0_u8; XSTATE_BYTES_MAX];
        let mut list = libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
        call(libc::PTRACE_GETREGSET, self.id, NT_X86_XSTATE, std::ptr::from_mut(&mut list) as usize)?;
        bytes.truncate(list.iov_len);
        Ok(bytes)
    }

    pub(crate) fn signal_mask(&self) -> io::Result<u64> {
        let mut mask = 0_u64;
        call(libc::PTRACE_GETSIGMASK, self.id, 8, std::ptr::from_mut(&mut mask) as usize)?;
        Ok(mask)
    }

    pub(crate) fn set_signal_mask(&self, mask: u64) -> io::Result<()> {
        call(libc::PTRACE_SETSIGMASK, self.id, 8, std::ptr::from_ref(&mask) as usize)
    }

    /// Lets the thread run up to the next entry to or return from the kernel.
    pub(crate) fn run_to_kernel(&self) -> Result<(), Error> {
        call(libc::PTRACE_SYSCALL, self.id, 0, 0)
            .map_err(|error| Error::of("cannot continue a thread", error))?;
        match self.wait(STOP_MAX)? {
            Stop::Kernel => Ok(()),
            other => {
                Err(Error::new(format!("thread {} stopped otherwise than expected: {other:?}", self.id)))
            }
        }
    }

    /// Interrupts the thread, so that the kernel decides again whether to restart a system call.
    pub(crate) fn interrupt(&self) -> Result<(), Error> {
        let failed = |error| Error::of("cannot interrupt a thread", error);
        call(libc::PTRACE_INTERRUPT, self.id, 0, 0).map_err(failed)?;
        call(libc::PTRACE_CONT, self.id, 0, 0).map_err(failed)?;
        match self.wait(STOP_MAX)? {
            Stop::Interrupted => Ok(()),
            other => {
                Err(Error::new(format!("thread {} stopped otherwise than expected: {other:?}", self.id)))
            }
        }
    }

    fn wait(&self, at_most: Duration) -> Result<Stop, Error> {
        let mut waited = Waited::begin();
        loop {
            if let Some(stop) = stopped(self.id) {
                return Ok(stop);
            }
            if waited.time() > at_most {
                return Err(Error::new(format!("thread {} of the target does not stop", self.id)));
            }
            waited.pause();
        }
    }
}

/// The kind of a thread's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Interrupted,
    Kernel,
    Signal(c_int),
    Gone,
}

/// Stopped threads, which continue when the value is dropped.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) threads: Vec<Thread>,
    /// When the first thread was interrupted.
    since: Option<Instant>,
}

impl Stopped {
    fn none() -> Stopped {
        Stopped { threads: Vec::new(), since: None }
    }

    /// Stops one thread that can run injected system calls.
    pub(crate) fn one(process: &Process, id: pid_t) -> Result<Stopped, Error> {
        let mut stopped = Stopped::none();
        stopped.add(process, &[id])?;
        Ok(stopped)
    }

    /// Stops all threads, including those that are made meanwhile.
    pub(crate) fn all(process: &Process) -> Result<Stopped, Error> {
        let mut stopped = Stopped::none();
        stopped.complete(process)?;
        Ok(stopped)
    }

    /// The time since the first thread was interrupted.
    pub(crate) fn lasts(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The registers of all threads, for finding out where they stand.
    pub(crate) fn positions(&self) -> Result<Vec<Registers>, Error> {
        self.threads.iter().map(Thread::position).collect()
    }

    /// Lets all threads continue. Returns the time from the first interruption to the last continuation, which is
    /// as long as any of them was stopped, or longer.
    pub(crate) fn released(mut self) -> Duration {
        self.release();
        self.lasts()
    }

    fn release(&mut self) {
        for thread in self.threads.drain(..) {
            // An error is ignored, because the thread may have been killed meanwhile.
            let _ = call(libc::PTRACE_DETACH, thread.id, 0, thread.signal as usize);
        }
    }

    /// Lets some of the threads run, each for about this time, while the others stay stopped, and stops them and
    /// the threads that they have made. Nothing is left to be undone if this process is killed meanwhile.
    pub(crate) fn let_run(&mut self, process: &Process, ids: &[pid_t], time: Duration) -> Result<(), Error> {
        /// If threads run longer than this, all of them run at once, so that the others are not stopped for long.
        const ONE_BY_ONE: Duration = Duration::from_micros(100);
        let processors = processors();
        // Of more threads than processors, only the first ones would run.
        let is_apart = time < ONE_BY_ONE && self.lasts() < PATIENT_MAX;
        for ids in ids.chunks(if is_apart { processors } else { ids.len().max(1) }) {
            let (running, stay): (Vec<Thread>, _) =
                self.threads.drain(..).partition(|thread| ids.contains(&thread.id));
            self.threads = stay;
            let turns: Vec<Option<u64>> = running.iter().map(|thread| process.turns(thread.id)).collect();
            for thread in &running {
                // An error is ignored, because the thread may have been killed meanwhile.
                let _ = call(libc::PTRACE_CONT, thread.id, 0, thread.signal as usize);
            }
            // Other processes may have the processors at first.
            let is_waiting = |(thread, before): (&Thread, &Option<u64>)| {
                before.is_some() && process.turns(thread.id) == *before
            };
            let begin = Instant::now();
            while begin.elapsed() < TURN_MAX
                && self.lasts() < PATIENT_MAX
                && running.iter().zip(&turns).any(is_waiting)
            {
                std::thread::sleep(Duration::from_micros(5));
            }
            std::thread::sleep(time);
            let running = running.iter().map(|thread| thread.id).filter(|id| interrupt(*id)).collect();
            self.wait(process, running)?;
        }
        self.complete(process)
    }

    /// Stops the threads that do not stand still yet, until all do. There is an error if that is not known: then
    /// some thread may stand anywhere.
    pub(crate) fn complete(&mut self, process: &Process) -> Result<(), Error> {
        let mut waited = Waited::begin();
        let (mut tried, mut is_first) = (Vec::new(), true);
        // The kernel counts the first thread of a process also when it has ended before the others.
        let mut zombies = 0;
        loop {
            // Stopped threads neither end nor make others: if there are as many threads as have stopped, they
            // are these. The list of threads alone does not show that: if a thread ends while the threads are
            // listed, the kernel may leave others out.
            if !self.threads.is_empty() && process.thread_count() == Some(self.threads.len() + zombies) {
                return Ok(());
            }
            if !std::mem::take(&mut is_first) && process.identity.has_ended() {
                return Err(Error::new(format!("process {} has ended", process.pid())));
            }
            if waited.time() > STOP_MAX {
                return Err(Error::new(format!(
                    "the threads of process {} begin and end so fast that they cannot be stopped: try again",
                    process.pid()
                )));
            }
            let is_stopped = |id: &pid_t| self.threads.iter().any(|thread| thread.id == *id);
            let mut new = process.threads();
            new.retain(|id| !is_stopped(id));
            // Whether a thread has ended is asked only if it did not stop, because each answer takes as long as
            // stopping the thread.
            let has_ended = |id: &pid_t| tried.contains(id) && is_over(process, *id) && reaped(process, *id);
            new.retain(|id| !has_ended(id));
            if tried.contains(&process.pid()) && !is_stopped(&process.pid()) {
                zombies = usize::from(process.thread_has_ended(process.pid()));
            }
            if new.is_empty() {
                waited.pause();
            }
            self.add(process, &new)?;
            tried.extend(new);
        }
    }

    fn add(&mut self, process: &Process, ids: &[pid_t]) -> Result<(), Error> {
        // All threads are seized, which stops none, before the first one is interrupted.
        let mut seized = Vec::new();
        for id in ids {
            match call(libc::PTRACE_SEIZE, *id, 0, libc::PTRACE_O_TRACESYSGOOD as usize) {
                Ok(()) => seized.push(*id),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) if is_over(process, *id) => {}
                Err(error) => return Err(refused(process.pid(), &error)),
            }
        }
        self.since.get_or_insert_with(Instant::now);
        seized.retain(|id| interrupt(*id));
        self.wait(process, seized)
    }

    /// Waits until threads that were interrupted have stopped.
    fn wait(&mut self, process: &Process, mut waited: Vec<pid_t>) -> Result<(), Error> {
        let mut patience = Waited::begin();
        let (mut looked, mut looked_for_ends) = (Instant::now(), Instant::now());
        while !waited.is_empty() {
            let before = waited.len();
            let mut is_there = |id, stop| {
                let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
                if stop != Stop::Gone {
                    self.threads.push(Thread { id, signal });
                }
            };
            while let Some((id, stop)) = any_stopped() {
                is_there(id, stop);
                waited.retain(|other| *other != id);
            }
            // The stops do not show which threads have ended.
            if waited.len() == before && looked.elapsed() > Duration::from_micros(200) {
                waited.retain(|id| {
                    stopped(*id).is_none_or(|stop| {
                        is_there(*id, stop);
                        false
                    })
                });
                looked = Instant::now();
            }
            let has_news = waited.len() < before;
            // The kernel reports no event when the first thread of the target ends before its other threads,
            // so threads that have ended are looked for at intervals.
            if !has_news && looked_for_ends.elapsed() > Duration::from_millis(5) {
                waited.retain(|id| !is_over(process, *id));
                looked_for_ends = Instant::now();
            }
            if !waited.is_empty() && patience.time() > STOP_MAX {
                return Err(Error::new(format!(
                    "thread {} of process {} does not stop within {} s: it is inside the kernel, and cannot be interrupted there",
                    waited[0],
                    process.pid(),
                    STOP_MAX.as_secs()
                )));
            }
            if waited.len() > processors() {
                // Threads that are to stop on this thread's processor wait for it.
                std::thread::sleep(patience.step().max(STOPS_IN * waited.len() as u32));
            } else if !has_news {
                patience.pause();
            }
        }
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.release();
    }
}

/// Runs `work` in a thread of its own: threads that it traces continue when it ends, even by a panic.
pub(crate) fn traced<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let ended = std::thread::scope(|scope| {
        let work = || {
            processors();
            prefer_this_thread();
            work()
        };
        let thread = std::thread::Builder::new().name("tracer".to_owned()).spawn_scoped(scope, work);
        thread.map(std::thread::ScopedJoinHandle::join)
    });
    match ended {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::new("tracing the target failed by a mistake of this program")),
        Err(error) => Err(Error::of("cannot start a thread", error)),
    }
}

/// Whether a thread has ended, though the kernel still lists it.
fn is_over(process: &Process, id: pid_t) -> bool {
    process.thread_has_ended(id) || process.identity.has_ended()
}

/// Takes note of the end of a thread, because the kernel counts a traced thread until then; not of the end of the
/// process itself, of which its parent is to know. Returns whether there is nothing more to wait for.
fn reaped(process: &Process, id: pid_t) -> bool {
    id == process.pid() || matches!(stopped(id), None | Some(Stop::Gone))
}

/// Whether two processes use the same memory; false if the kernel does not say.
pub(crate) fn share_memory(one: pid_t, other: pid_t) -> bool {
    /// From `<linux/kcmp.h>`.
    const KCMP_VM: c_long = 1;
    // SAFETY: the call reads and writes no memory of this process.
    unsafe { libc::syscall(libc::SYS_kcmp, c_long::from(one), c_long::from(other), KCMP_VM, 0, 0) == 0 }
}

/// The time that has been waited. Time in which this process did not run itself, because it or the machine was
/// suspended, hardly counts.
#[derive(Debug)]
pub(crate) struct Waited {
    begin: Instant,
    last: Instant,
    sum: Duration,
}

impl Waited {
    /// The most that counts between two looks.
    const STEP_MAX: Duration = Duration::from_millis(100);

    pub(crate) fn begin() -> Waited {
        let now = Instant::now();
        Waited { begin: now, last: now, sum: Duration::ZERO }
    }

    pub(crate) fn time(&mut self) -> Duration {
        let now = Instant::now();
        self.sum += (now - self.last).min(Waited::STEP_MAX);
        self.last = now;
        self.sum
    }

    /// Waits a moment; not at all at first, because most threads stop at once. A thread that yields its
    /// processor would wait for the target's threads, if they all want processors; one that has slept is
    /// preferred to them.
    fn pause(&self) {
        if self.begin.elapsed() < Duration::from_micros(40) {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(self.step().max(Duration::from_micros(20)));
        }
    }

    /// The least time until the next look: after some looks, a fourth of the time so far. If this thread, which
    /// runs before all others, looked every few microseconds, the threads that wait for its processor would use
    /// up their shares of it so slowly that those that are to stop came a tenth of a second later.
    fn step(&self) -> Duration {
        const OFTEN: Duration = Duration::from_micros(200);
        Some(self.begin.elapsed())
            .filter(|time| *time > OFTEN)
            .map_or(Duration::ZERO, |time| (time / 4).min(OFTEN * 5))
    }
}

/// Lets this thread's pauses last hardly longer than they should, instead of 50 µs, and lets it run before all
/// threads without a real-time priority, if this process may have one: the target's threads may want all
/// processors, and stopped threads would wait for a tracer that waits for its turn.
fn prefer_this_thread() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the calls read a local variable and set properties of this thread, which ends when the work is done.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const lowest);
    }
}

/// Whether and how a thread has stopped or ended.
fn stopped(id: pid_t) -> Option<Stop> {
    let mut status: c_int = 0;
    // SAFETY: the call writes only to `status`, which is a local variable.
    let waited = unsafe { libc::waitpid(id, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match waited {
        0 => None,
        _ if waited < 0 || !libc::WIFSTOPPED(status) => Some(Stop::Gone),
        _ => Some(stop(status >> 8)),
    }
}

/// A thread that this thread traces and that has stopped since the last look. Ends of threads are left alone: of the
/// end of the target its parent is to know.
fn any_stopped() -> Option<(pid_t, Stop)> {
    let options = libc::WSTOPPED | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: the structure consists of plain numbers and pointers, so all zeroes are a valid value.
    let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes only to `about`, which is a local variable of the type that it fills.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut about, options) };
    // SAFETY: `waitid` fills these two fields, and they are zero if it finds no thread.
    let (id, status) = unsafe { (about.si_pid(), about.si_status()) };
    (result == 0 && id != 0).then(|| (id, stop(status)))
}

/// The kind of a stop, by the event above the signal's number.
fn stop(status: c_int) -> Stop {
    match (status >> 8, status & 0xff) {
        (libc::PTRACE_EVENT_STOP, _) => Stop::Interrupted,
        (_, signal) if signal == libc::SIGTRAP | 0x80 => Stop::Kernel,
        (_, signal) => Stop::Signal(signal),
    }
}

/// Interrupts a thread that is traced and runs; false if it has ended.
fn interrupt(id: pid_t) -> bool {
    call(libc::PTRACE_INTERRUPT, id, 0, 0).is_ok()
}

fn call(request: libc::c_uint, id: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: every caller in this file gives what the request needs, and pointers to memory that outlives
    // the call.
    let result: c_long = unsafe { libc::ptrace(request, id, address as *mut c_void, data as *mut c_void) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_with_oneself_alone() {
        let own = std::process::id() as pid_t;
        let mut child = std::process::Command::new("sleep").arg("9").spawn().expect("a child");
        assert!(!share_memory(own, child.id() as pid_t));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(share_memory(own, own) || !share_memory(1, 1), "the kernel compares, or compares nothing");
    }
}

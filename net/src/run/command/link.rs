//! The state that the feeder and the answerer of a program share.

use std::collections::VecDeque;
use std::io::{BufWriter, Write};
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The most bytes of lines without an answer, if there are several lines.
const BYTES_MAX: usize = 1 << 20;

/// The state that the feeder and the answerer share.
#[derive(Default)]
pub(super) struct Link {
    pub(super) writing: Mutex<Writing>,
    started: Condvar,
    unanswered: Mutex<Unanswered>,
    answered: Condvar,
    /// The number of records that have passed the feeder. The feeder writes the number under the lock of
    /// `writing`; a task that reads the number without the lock may see a smaller one.
    sent: AtomicU64,
    /// Whether the feeder sends nothing more until answers come. The feeder writes this flag; its readers use
    /// it only as a hint.
    is_stalled: AtomicBool,
}

/// The program's standard input.
#[derive(Default)]
pub(super) struct Writing {
    /// The input of the process that was started last; `None` if the process died, or its input was closed.
    pub(super) stdin: Option<BufWriter<ChildStdin>>,
    /// Whether starting a process was tried, with or without success.
    is_started: bool,
    /// Whether the feeder will send nothing more.
    pub(super) is_over: bool,
    /// Whether the process that was started last did not read all its input.
    pub(super) is_broken: bool,
}

/// The lengths of the lines that were sent and not answered.
#[derive(Default)]
struct Unanswered {
    lines: VecDeque<usize>,
    bytes: usize,
}

impl Writing {
    /// Makes this process the receiver of further lines.
    pub(super) fn restart(&mut self, stdin: Option<ChildStdin>) {
        self.stdin = stdin.filter(|_| !self.is_over).map(BufWriter::new);
        self.is_broken = false;
    }

    fn check(&mut self, written: std::io::Result<()>) {
        if written.is_err() {
            self.stdin = None;
            self.is_broken = true;
        }
    }
}

impl Link {
    pub(super) fn note_start(&self, writing: &mut Writing) {
        writing.is_started = true;
        self.started.notify_one();
    }

    pub(super) fn wait_for_start(&self) {
        let mut writing = locked(&self.writing);
        while !writing.is_started {
            writing = self.started.wait(writing).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The number of records that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Runs a function that waits for answers, and marks the feeder as stalled meanwhile.
    pub(super) fn stall<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.flush();
        self.is_stalled.store(true, Ordering::Relaxed);
        let done = wait();
        self.is_stalled.store(false, Ordering::Relaxed);
        done
    }

    /// Waits until enough lines are answered that more can be sent.
    pub(super) fn wait_for_room(&self, line: usize) {
        let has_room =
            |unanswered: &Unanswered| unanswered.lines.is_empty() || unanswered.bytes + line <= BYTES_MAX;
        if has_room(&locked(&self.unanswered)) {
            return;
        }
        self.stall(|| {
            let mut unanswered = locked(&self.unanswered);
            while !has_room(&unanswered) {
                unanswered = self.answered.wait(unanswered).unwrap_or_else(PoisonError::into_inner);
            }
        });
    }

    /// Sends the line of the next record, which is already registered as outstanding; `None` if the program
    /// is not asked about it.
    pub(super) fn send(&self, line: Option<&[u8]>) {
        let mut writing = locked(&self.writing);
        let sent = self.sent.load(Ordering::Relaxed);
        self.sent.store(sent + 1, Ordering::Release);
        let Some(line) = line else { return };
        let mut unanswered = locked(&self.unanswered);
        unanswered.lines.push_back(line.len());
        unanswered.bytes += line.len();
        drop(unanswered);
        if let Some(stdin) = &mut writing.stdin {
            let written = stdin.write_all(line);
            writing.check(written);
        }
    }

    pub(super) fn flush(&self) {
        let mut writing = locked(&self.writing);
        if let Some(stdin) = &mut writing.stdin {
            let written = stdin.flush();
            writing.check(written);
        }
    }

    pub(super) fn close(&self) {
        self.flush();
        let mut writing = locked(&self.writing);
        writing.stdin = None;
        writing.is_over = true;
    }

    pub(super) fn note_answer(&self) {
        let mut unanswered = locked(&self.unanswered);
        if let Some(line) = unanswered.lines.pop_front() {
            unanswered.bytes -= line;
        }
        drop(unanswered);
        self.answered.notify_one();
    }
}

/// Ignores poisoning, because a panic under these locks leaves every step either done or not begun.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

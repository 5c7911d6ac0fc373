//! The line that is printed when a box ends the process: it names the box and its message. This module
//! contains `unsafe` for signal handlers, and for reading the note about the call that a signal interrupts.
//!
//! Each thread stores which call of a box it executes. Handlers for the signals of a crash, and a function
//! that `exit` calls, read what their thread has stored, and write a line to standard error. The handlers do
//! not allocate, lock or wait. Then the process ends: after a crash by the signal, as without the handlers;
//! after `exit` with code 1, because records are missing. `_exit` and SIGKILL run no code of the process;
//! then only the space records which box ended the process, in the live rows of its workers.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Write as _};
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::run::position::Position;

/// The signals of a crash, and their meanings.
const SIGNALS: [(c_int, &str, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV", "memory that it may not use"),
    (libc::SIGBUS, "SIGBUS", "memory that is not there"),
    (libc::SIGABRT, "SIGABRT", "it was aborted"),
    (libc::SIGILL, "SIGILL", "an instruction that there is not"),
    (libc::SIGFPE, "SIGFPE", "a calculation without a result"),
];

/// The call of a box that a thread executes.
#[derive(Clone, Copy)]
struct Call {
    position: *const Position,
    /// The cell that contains the number of the call's message, if the runtime publishes this number; if
    /// null, `message` is the number.
    at: *const AtomicU64,
    message: u64,
}

thread_local! {
    // The cell has no destructor, so that a handler may read it at any time.
    static CALL: Cell<Call> = const { Cell::new(Call { position: ptr::null(), at: ptr::null(), message: 0 }) };
}

/// While this value exists, it is stored that the calling thread executes a call of a box.
pub(crate) struct Calling<'a>(PhantomData<(&'a Position, *const ())>);

impl<'a> Calling<'a> {
    /// Stores that the thread calls the box at `position`. The cell `at`, if given, will contain the number
    /// of the message that the box processes; `message` is the first number.
    #[inline(always)]
    pub(crate) fn new(position: &'a Position, (at, message): (Option<&'a AtomicU64>, u64)) -> Calling<'a> {
        let at = at.map_or(ptr::null(), ptr::from_ref);
        CALL.set(Call { position, at, message });
        Calling(PhantomData)
    }
}

impl Drop for Calling<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        CALL.set(Call { position: ptr::null(), at: ptr::null(), message: 0 });
    }
}

/// Watches the process until this value is dropped: if a box ends the process, a line on standard error names
/// the box. Only one watch exists at a time.
#[derive(Debug)]
pub struct CrashWatch {
    before: [libc::sigaction; SIGNALS.len()],
}

/// The id of the watched process, or 0. A forked child has another id and is not watched.
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// Whether the line about the end of the process was written.
static SAID: AtomicBool = AtomicBool::new(false);
/// The advice on how to see the report; it is never freed.
static ADVICE: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());

impl CrashWatch {
    /// Starts to watch. This must be called after the libraries of boxes are loaded. `space` is the directory
    /// in which the run is recorded.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn new(space: &Path) -> io::Result<CrashWatch> {
        let advice = format!("`thalweg report {}` shows what was recorded", space.display());
        // The advice of an earlier watch is leaked, because a handler may still read it.
        ADVICE.store(Box::into_raw(Box::new(advice)), Ordering::Release);
        at_exit()?;
        let before = SIGNALS.map(|(signal, ..)| set(signal, on_crash as *const () as libc::sighandler_t));
        WATCHED.store(std::process::id(), Ordering::Release);
        Ok(CrashWatch { before })
    }
}

impl Drop for CrashWatch {
    fn drop(&mut self) {
        WATCHED.store(0, Ordering::Release);
        for ((signal, ..), before) in SIGNALS.iter().zip(&self.before) {
            // SAFETY: the action that `sigaction` returned is restored.
            unsafe { libc::sigaction(*signal, before, ptr::null_mut()) };
        }
    }
}

/// Registers the functions that run when the process exits; only at the first call in a process.
fn at_exit() -> io::Result<()> {
    unsafe extern "C" {
        fn at_quick_exit(function: extern "C" fn()) -> c_int;
    }
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the function stays as long as the process, and unwinds nowhere.
    let failed = unsafe { libc::atexit(on_exit) != 0 || at_quick_exit(on_exit) != 0 };
    if failed { Err(io::Error::other("no room for a function that runs at the end")) } else { Ok(()) }
}

/// Sets the handler of a signal; returns the former action.
fn set(signal: c_int, handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: all zeroes are a valid action; both outlive the call. The handler has the parameters of
    // SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &action, &mut before);
        before
    }
}

extern "C" fn on_exit() {
    if WATCHED.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    say(|line| {
        let call = CALL.get();
        call.name(line)?;
        line.write_str(" ended the process by `exit`")?;
        call.message(line)
    });
    // SAFETY: ends the process; nothing of it runs after that.
    unsafe { libc::_exit(1) }
}

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if WATCHED.load(Ordering::Acquire) == std::process::id() {
        let &(_, name, mut meaning) =
            SIGNALS.iter().find(|(number, ..)| *number == signal).unwrap_or(&SIGNALS[0]);
        // SAFETY: the kernel passes `info` and `context`, which are valid during the call.
        if signal == libc::SIGSEGV && unsafe { is_beside_stack(info, context) } {
            meaning = "its stack is used up";
        }
        say(|line| {
            let call = CALL.get();
            call.name(line)?;
            write!(line, " crashed by {name} ({meaning})")?;
            call.message(line)
        });
    }
    // The signal is raised again, and is delivered when this handler returns.
    // SAFETY: both may be called in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Whether the faulting address is next to the stack pointer, where the guard page of a full stack is.
///
/// # Safety
/// `info` and `context` are what a handler of SIGSEGV was given.
unsafe fn is_beside_stack(info: *const libc::siginfo_t, context: *const c_void) -> bool {
    const NEAR: u64 = 64 << 10;
    // SAFETY: guaranteed by the caller.
    let (address, stack) = unsafe { ((*info).si_addr() as u64, stack_pointer(context)) };
    stack.is_some_and(|stack| address.abs_diff(stack) < NEAR)
}

/// # Safety
/// `context` is what a handler was given.
#[cfg(target_arch = "x86_64")]
unsafe fn stack_pointer(context: *const c_void) -> Option<u64> {
    // SAFETY: guaranteed by the caller.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    Some(context.uc_mcontext.gregs[libc::REG_RSP as usize] as u64)
}

/// # Safety
/// `context` is what a handler was given.
#[cfg(target_arch = "aarch64")]
unsafe fn stack_pointer(context: *const c_void) -> Option<u64> {
    // SAFETY: guaranteed by the caller.
    Some(unsafe { &*context.cast::<libc::ucontext_t>() }.uc_mcontext.sp)
}

/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn stack_pointer(_: *const c_void) -> Option<u64> {
    None
}

impl Call {
    /// Writes the name of the box, or that no box was called.
    fn name(self, line: &mut Line) -> fmt::Result {
        // SAFETY: the pointer is null, or this thread is in the call that it describes, and `Calling` borrows
        // the position for this call.
        match unsafe { self.position.as_ref() } {
            Some(position) => position.write_path(line),
            None => line.write_str("something outside of the boxes"),
        }
    }

    fn message(self, line: &mut Line) -> fmt::Result {
        if self.position.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer is null, or this thread is in the call that it describes, and `Calling` borrows
        // the cell for this call.
        let number = unsafe { self.at.as_ref() }.map_or(self.message, |at| at.load(Ordering::Relaxed));
        write!(line, " on message {number} of its input")
    }
}

/// Writes one line about the end of the process to standard error; only the first call in a process writes
/// it.
fn say(what: impl FnOnce(&mut Line) -> fmt::Result) {
    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut line = Line { bytes: [0; Line::BYTES], length: 0 };
    // An error is ignored, because it only means that the line was cut off at its maximal length.
    let _ = line.write_str("error[E0802]: ").and_then(|()| what(&mut line));
    // SAFETY: the pointer is null or points to an advice that was leaked and so is never freed.
    if let Some(advice) = unsafe { ADVICE.load(Ordering::Acquire).as_ref() } {
        let _ = write!(line, ": the run ends here, what was inside the network is lost; {advice}");
    }
    line.length = line.length.min(Line::BYTES - 1);
    line.bytes[line.length] = b'\n';
    // SAFETY: the line has this many bytes.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.length + 1) };
}

/// A buffer for a line, on the stack.
struct Line {
    bytes: [u8; Line::BYTES],
    length: usize,
}

impl Line {
    const BYTES: usize = 1024;
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

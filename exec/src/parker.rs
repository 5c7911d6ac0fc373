//! Lets one thread sleep until another wakes it, by Linux's futex (in loom's models, by loom's `park`).
//!
//! A parker holds at most one token: [`Parker::unpark`] stores it, and [`Parker::sleep`] sleeps until there
//! is one and takes it.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering};

pub(crate) struct Parker {
    /// One of [`EMPTY`], [`TOKEN`] and [`ASLEEP`]. The waker stores the token with release, and the sleeper
    /// takes it with acquire.
    state: AtomicU32,
    /// The thread that sleeps, known from its first sleep on.
    #[cfg(loom)]
    sleeper: std::sync::OnceLock<loom::thread::Thread>,
}

const EMPTY: u32 = 0;
const TOKEN: u32 = 1;
const ASLEEP: u32 = 2;

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker {
            state: AtomicU32::new(EMPTY),
            #[cfg(loom)]
            sleeper: std::sync::OnceLock::new(),
        }
    }

    /// Sleeps until there is a token, and takes it. Only one thread may call this.
    #[cfg(all(test, loom))]
    pub(crate) fn park(&self) {
        self.sleep(None, || ());
    }

    /// Sleeps until there is a token, but not longer than `timeout`. The call may return early without a
    /// token.
    pub(crate) fn park_timeout(&self, timeout: Duration) {
        self.sleep(Some(timeout), || ());
    }

    /// Sleeps until there is a token, or until the `timeout` if one is given, and takes the token. Calls
    /// `asleep` just before the thread sleeps, when other threads already see the thread as asleep. Returns
    /// false if the sleep ended without a token, by the timeout or by an interruption.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, asleep: impl FnOnce()) -> bool {
        #[cfg(loom)]
        let _ = self.sleeper.set(loom::thread::current());
        if self.state.swap(EMPTY, Ordering::Acquire) == TOKEN {
            return true;
        }
        if self.state.compare_exchange(EMPTY, ASLEEP, Ordering::Release, Ordering::Relaxed).is_ok() {
            asleep();
            while self.state.load(Ordering::Relaxed) == ASLEEP {
                let woken = self.wait(timeout);
                if timeout.is_some() && !woken {
                    break;
                }
            }
        }
        self.state.swap(EMPTY, Ordering::Acquire) == TOKEN
    }

    /// Whether the thread sleeps, and no other thread has woken it yet. If the result is true, the caller
    /// sees all memory that the thread wrote before it fell asleep.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Acquire) == ASLEEP
    }

    /// Stores the token, and wakes the thread if it sleeps; returns whether it slept.
    pub(crate) fn unpark(&self) -> bool {
        let slept = self.state.swap(TOKEN, Ordering::Release) == ASLEEP;
        if slept {
            self.wake();
        }
        slept
    }

    /// Waits while the thread is [`ASLEEP`]. Returns false if the wait was interrupted or timed out, or if
    /// the thread was not asleep.
    #[cfg(not(loom))]
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.futex(libc::FUTEX_WAIT, ASLEEP, timeout) >= 0
    }

    #[cfg(not(loom))]
    fn wake(&self) {
        self.futex(libc::FUTEX_WAKE, 1, std::ptr::null());
    }

    #[cfg(not(loom))]
    fn futex(&self, operation: libc::c_int, value: u32, timeout: *const libc::timespec) -> libc::c_long {
        let private = operation | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word and the timeout outlive the call, because the caller borrows them. Every outcome
        // is allowed, because the sleeping thread checks the word again.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), private, value, timeout) }
    }

    #[cfg(loom)]
    fn wait(&self, timeout: Option<Duration>) -> bool {
        match timeout {
            Some(_) => loom::thread::yield_now(),
            None => loom::thread::park(),
        }
        timeout.is_none()
    }

    #[cfg(loom)]
    fn wake(&self) {
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }
}

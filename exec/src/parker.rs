//! Sleep of one thread until another wakes it, by Linux's futex.
//!
//! One token: [`Parker::unpark`] puts it, [`Parker::park`] takes it and sleeps until there is one.

use std::time::Duration;

#[cfg(not(loom))]
pub(crate) struct Parker {
    /// 0 no token, 1 a token, 2 the thread sleeps. The sleeper takes with acquire what the waker put with release.
    state: crate::sync::AtomicU32,
}

#[cfg(not(loom))]
impl Parker {
    const EMPTY: u32 = 0;
    const TOKEN: u32 = 1;
    const ASLEEP: u32 = 2;

    pub(crate) fn new() -> Parker {
        Parker { state: crate::sync::AtomicU32::new(Self::EMPTY) }
    }

    /// Sleeps until there is a token, and takes it. Only one thread may call this.
    pub(crate) fn park(&self) {
        self.sleep(None);
    }

    /// Likewise, but not longer than `timeout`. May return early without a token.
    pub(crate) fn park_timeout(&self, timeout: Duration) {
        self.sleep(Some(timeout));
    }

    fn sleep(&self, timeout: Option<Duration>) {
        use crate::sync::Ordering::{Acquire, Relaxed, Release};
        if self.state.swap(Self::EMPTY, Acquire) == Self::TOKEN {
            return;
        }
        if self.state.compare_exchange(Self::EMPTY, Self::ASLEEP, Release, Relaxed).is_ok() {
            while self.state.load(Relaxed) == Self::ASLEEP {
                let woken = futex(&self.state, libc::FUTEX_WAIT, Self::ASLEEP, timeout);
                if timeout.is_some() && !woken {
                    break;
                }
            }
        }
        self.state.swap(Self::EMPTY, Acquire);
    }

    /// Whether the thread sleeps, and nobody has woken it yet. What it did before is seen then.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(crate::sync::Ordering::Acquire) == Self::ASLEEP
    }

    /// Puts the token, and wakes the sleeper if there is one.
    pub(crate) fn unpark(&self) {
        if self.state.swap(Self::TOKEN, crate::sync::Ordering::Release) == Self::ASLEEP {
            futex(&self.state, libc::FUTEX_WAKE, 1, None);
        }
    }
}

/// False: interrupted, timed out, or the word was another.
#[cfg(not(loom))]
fn futex(
    word: &crate::sync::AtomicU32,
    operation: libc::c_int,
    value: u32,
    timeout: Option<Duration>,
) -> bool {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: word and time-out outlive the call (we borrow them). Every outcome is fine: who sleeps looks at the word
    // again.
    unsafe {
        let private = operation | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), private, value, timeout) >= 0
    }
}

/// The same for loom's models.
#[cfg(loom)]
pub(crate) struct Parker {
    token: crate::sync::AtomicBool,
    /// The thread that sleeps, known from its first sleep on; before, the token is enough.
    sleeper: std::sync::OnceLock<loom::thread::Thread>,
}

#[cfg(loom)]
impl Parker {
    pub(crate) fn new() -> Parker {
        Parker { token: crate::sync::AtomicBool::new(false), sleeper: std::sync::OnceLock::new() }
    }

    pub(crate) fn park(&self) {
        let _ = self.sleeper.set(loom::thread::current());
        while !self.token.swap(false, crate::sync::Ordering::Acquire) {
            loom::thread::park();
        }
    }

    pub(crate) fn is_asleep(&self) -> bool {
        false
    }

    pub(crate) fn park_timeout(&self, _timeout: Duration) {
        loom::thread::yield_now();
    }

    pub(crate) fn unpark(&self) {
        self.token.swap(true, crate::sync::Ordering::Release);
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }
}

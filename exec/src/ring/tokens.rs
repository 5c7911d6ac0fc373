//! Tokens, by which the streams of a worker identify the worker.

use crate::affinity;
use crate::ring::{FOREIGN, NO_TOKEN, TOKEN_STEP};
use crate::sync::{AtomicU64, Ordering};

/// The tokens of a runtime (see `ring`).
pub(crate) struct Tokens {
    /// Whether the kernel offers barriers in all threads (`membarrier`).
    barrier: bool,
    next: AtomicU64,
}

impl Tokens {
    pub(crate) fn new() -> Tokens {
        Tokens { barrier: affinity::register_barrier(), next: AtomicU64::new(0) }
    }

    /// A new token for a worker; [`NO_TOKEN`] for other threads, and without the kernel's barrier.
    pub(crate) fn take(&self, worker: u32) -> u64 {
        if !self.barrier || worker == FOREIGN {
            return NO_TOKEN;
        }
        self.next.fetch_add(TOKEN_STEP, Ordering::Relaxed)
    }

    #[cfg(all(test, loom))]
    pub(crate) fn take_for_model(&self) -> u64 {
        self.next.fetch_add(TOKEN_STEP, Ordering::Relaxed)
    }
}

//! Ctrl-C: once asks the run to drain, twice ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether somebody asked the run to end. Clones share the request.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    signalled: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    resting: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens to SIGINT and SIGTERM from now on: the first is noted, the second ends the program with code 130.
    pub(crate) fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the shutdown looks at what an earlier signal has left.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupt.signalled))?;
            flag::register(signal, Arc::clone(&interrupt.signalled))?;
        }
        Ok(interrupt)
    }

    /// Asks the run to end from within: the output is closed, or a record failed and the user wants no more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the source should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.is_signalled()
    }

    /// Asks the source to rest between two records, or to rest no more.
    pub(crate) fn rest(&self, rests: bool) {
        self.resting.store(rests, Ordering::Relaxed);
    }

    /// Whether the source should rest.
    pub(crate) fn is_rest_wanted(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// Whether it was the user who asked.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }
}

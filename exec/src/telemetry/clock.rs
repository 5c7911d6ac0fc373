//! A thread's time: its last reading of the clock, and on what the thread has spent its time since it
//! started.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::affinity::Delays;

/// A thread's last reading of the clock, and what that reading stands for.
pub(super) struct Now {
    /// The last reading: in modes metrics and full the end of the last dispatch or wait.
    pub(super) ticks: u64,
    /// Whether the reading was made in the present part of the dispatch (the task's own part, or its end):
    /// all events of tasks and streams in one part have the same time.
    pub(super) is_fresh: bool,
    /// Whether the thread has done long work that belongs to no dispatch since it read the clock.
    pub(super) lags: bool,
    /// Whether the last measured dispatch wrote a message that is due for the measurement of its size.
    pub(super) sizes_due: bool,
    /// When measuring began, or was switched on.
    pub(super) measured_since: u64,
    /// When mode full began, if it began during the run.
    pub(super) full_since: u64,
    /// When the current dispatch began (metrics and full).
    pub(super) began: u64,
    /// The thread's present *session*: a unique number for one thread in one mode. A task with the same
    /// number was last dispatched by this thread in this mode.
    pub(super) session: u32,
    /// The session (a number for one thread in one mode) whose tasks' dispatches may be measured with few
    /// checks, if they have one input and one output; [`NO_SESSION`] if no dispatch may.
    pub(super) short_session: u32,
}

/// A number that is no session (a number for one thread in one mode).
pub(super) const NO_SESSION: u32 = u32::MAX;

fn next_session() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Now {
    pub(super) fn new(ticks: u64, is_measured: bool) -> Now {
        Now {
            ticks,
            is_fresh: false,
            lags: false,
            sizes_due: false,
            measured_since: if is_measured { 0 } else { ticks },
            full_since: 0,
            began: ticks,
            session: next_session(),
            short_session: NO_SESSION,
        }
    }

    /// The mode changes.
    pub(super) fn begin_session(&mut self) {
        let is_short = self.short_session == self.session;
        self.session = next_session();
        self.go_short(is_short);
    }

    /// Sets whether dispatches of this thread in its present mode may be measured with few checks from now
    /// on.
    pub(super) fn go_short(&mut self, may: bool) {
        self.short_session = if may { self.session } else { NO_SESSION };
    }
}

/// The account of a thread's time.
pub(super) struct Account {
    /// The time of the start plus all time that was not busy, so the present time less this value is the busy
    /// time.
    busy_base: u64,
    pub(super) waiting_ticks: u64,
    /// The time of the worker's own work between dispatches and waits, where the clock was read at the end of
    /// that work.
    pub(super) own_ticks: u64,
    /// Time that the worker could have run and had no processor, which is not part of the other times.
    pub(super) kept_ticks: u64,
    /// How long the worker had been parked when it last woke.
    pub(super) parked_ticks: u64,
    /// The busy time before which the thread measures no more message sizes: by then it has done so much work
    /// that the measurements made so far are within their budget.
    pub(super) sizes_paid: u64,
    /// The file in which the kernel reports when a thread was kept from its processor.
    pub(super) delays: Option<Delays>,
    /// When the thread's processor time was last recorded.
    pub(super) used_told: u64,
    /// The thread's processor time when the kernel was last asked for a long dispatch.
    pub(super) asked: Asked,
}

/// A thread's processor time and busy time when the kernel was asked.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    /// The processor time.
    pub(super) cpu_ns: u64,
    /// The time spent in dispatches.
    pub(super) busy: u64,
}

impl Account {
    pub(super) fn new(now: u64) -> Account {
        Account {
            busy_base: now,
            waiting_ticks: 0,
            own_ticks: 0,
            kept_ticks: 0,
            parked_ticks: 0,
            sizes_paid: 0,
            delays: None,
            used_told: now,
            asked: Asked::default(),
        }
    }

    pub(super) fn own(&mut self, ticks: u64) {
        self.own_ticks += ticks;
        self.busy_base += ticks;
    }

    pub(super) fn kept(&mut self, ticks: u64) {
        self.kept_ticks += ticks;
        self.busy_base += ticks;
    }

    pub(super) fn waited(&mut self, ticks: u64) {
        self.waiting_ticks += ticks;
        self.busy_base += ticks;
    }

    pub(super) fn parked(&mut self, ticks: u64) {
        self.parked_ticks += ticks;
        self.busy_base += ticks;
    }

    /// The time until `now` that the worker neither waited nor was parked nor did work of its own nor was
    /// kept from its processor.
    pub(super) fn busy_ticks(&self, now: u64) -> u64 {
        now.saturating_sub(self.busy_base)
    }
}

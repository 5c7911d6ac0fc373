//! A thread's time: when it read the clock last, and what its time since it started was spent on.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::affinity::Delays;

/// When a thread read the clock, and what that stands for.
pub(super) struct Now {
    /// The clock, when last read: in modes metrics and full the end of the last dispatch or wait.
    pub(super) ticks: u64,
    /// Whether that was for the part of a dispatch that is under way (the task's own, or its end): all events of tasks and
    /// streams in one part have one time.
    pub(super) is_fresh: bool,
    /// Since the clock was read the thread did what belongs to no dispatch and may take long.
    pub(super) lags: bool,
    /// The dispatch that was measured last wrote a message whose size is to be taken.
    pub(super) sizes_due: bool,
    /// When measuring began, or was switched on.
    pub(super) measured_since: u64,
    /// When mode full began, if that was while running.
    pub(super) full_since: u64,
    /// When the current dispatch began (metrics and full).
    pub(super) began: u64,
    /// This thread in this mode: a number of no other one, so what is kept with a task that has it was kept here and in this mode.
    pub(super) session: u32,
    /// The session of tasks whose dispatches may be measured the short way; [`NO_SESSION`]: none may.
    pub(super) short_session: u32,
}

/// No task's session.
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

    /// Dispatches may be measured the short way from now on, or not.
    pub(super) fn go_short(&mut self, may: bool) {
        self.short_session = if may { self.session } else { NO_SESSION };
    }
}

/// What a thread's time was spent on.
pub(super) struct Account {
    /// When it started, put off by all time that was not busy: its busy time is the clock less this.
    busy_base: u64,
    pub(super) waiting_ticks: u64,
    /// Time between dispatches and waits, as far as the clock was read at its end.
    pub(super) own_ticks: u64,
    /// Time that the worker could have run and had no processor, part of none of the others.
    pub(super) kept_ticks: u64,
    /// For how long it took no part until it last woke.
    pub(super) parked_ticks: u64,
    /// Until then the thread may take no sizes of messages: by then it has done the work of which those taken are the part allowed.
    pub(super) sizes_paid: u64,
    /// The file in which the kernel reports when a thread was kept from its processor.
    pub(super) delays: Option<Delays>,
    /// When it was last recorded what the thread used of its processor.
    pub(super) used_told: u64,
    /// What it had used when it was last asked for a long dispatch.
    pub(super) asked: Asked,
}

/// What a thread had used when it was asked.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    /// Of its processor.
    pub(super) cpu_ns: u64,
    /// For dispatches.
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

    /// The time until `now` that the worker neither waited nor was parked nor did work of its own nor was kept from its processor.
    pub(super) fn busy_ticks(&self, now: u64) -> u64 {
        now.saturating_sub(self.busy_base)
    }
}

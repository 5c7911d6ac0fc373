//! Checks whether a report's accounts add up: compares every total with the sum of its parts, using only the
//! report's own figures.
//!
//! The checks depend on the state of the run. Shares must always add up to 1. Figures of different parts of
//! the report must agree only if the run has ended, because the threads of a live run publish at different
//! moments. Figures that are computed from events must agree only if no event was lost. Streams that the
//! report lists as broken are not checked, and only shares are checked if some events contradict themselves
//! ([`Window::malformed`](crate::Window::malformed)).

use std::collections::BTreeMap;

use crate::report::{BusyAccount, Component, Report, State, Stream, Task, TaskShares, Work, WorkerShares};

/// The relative tolerance for sums of floating-point numbers, in addition to a nanosecond.
const EXACT: f64 = 1e-6;
/// A list of the report that has this length may have been shortened.
const LIST_MAX: usize = 64;
/// The roots of waiting are followed until less than this share of all waiting has no root yet.
const LED_ON: f64 = 1e-3;

impl Report {
    /// A sentence for each of the report's accounts that does not add up.
    pub fn contradictions(&self) -> Vec<String> {
        let mut sums = Sums { report: self, found: Vec::new() };
        sums.shares();
        sums.accounts();
        if self.window.malformed == 0 {
            sums.work();
            sums.streams();
            sums.latency();
            sums.waiting();
            sums.overhead();
            if sums.is_settled() {
                sums.messages();
            }
            if sums.is_exact() {
                sums.components();
                sums.workers();
                sums.time();
            }
        }
        sums.found
    }
}

/// The name of a count or time in the report, and the function that reads it.
type Figure<T> = (&'static str, fn(&Work) -> T);

/// Collects contradictions.
struct Sums<'r> {
    report: &'r Report,
    found: Vec<String>,
}

impl Sums<'_> {
    /// Whether the run has ended and the report covers all of it.
    fn is_settled(&self) -> bool {
        let window = &self.report.window;
        window.state == State::Ended && !window.partial && window.lost == 0
    }

    /// Whether the run has ended, and the report covers all of it with every event read.
    fn is_exact(&self) -> bool {
        self.is_settled() && self.report.window.complete
    }

    /// Whether every task is in the report's list of tasks.
    fn has_all_tasks(&self) -> bool {
        self.report.tasks.len() as u64 == self.report.tasks_count
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(what());
        }
    }

    fn same(&mut self, what: &str, whole: f64, parts: f64) {
        self.within(what, whole, parts, EXACT * whole.abs().max(parts.abs()) + 1.0);
    }

    fn within(&mut self, what: &str, whole: f64, parts: f64, tolerance: f64) {
        // If a sum is NaN, this comparison is false, so the check fails.
        let holds = (whole - parts).abs() <= tolerance;
        self.check(holds, || format!("{what}: the whole is {whole}, its parts are {parts}"));
    }

    fn same_count(&mut self, what: &str, whole: u64, parts: u64) {
        self.check(whole == parts, || format!("{what}: the whole is {whole}, its parts are {parts}"));
    }

    // ---- shares

    fn shares(&mut self) {
        let report = self.report;
        for (name, work) in works(report) {
            if let Some(shares) = work.shares {
                self.parts_of_one(&name, &task_parts(shares));
            }
        }
        for worker in &report.workers {
            if let Some(shares) = worker.shares {
                self.parts_of_one(&format!("worker {}", worker.id), &worker_parts(shares));
            }
        }
    }

    fn parts_of_one(&mut self, name: &str, parts: &[f64]) {
        let sum: f64 = parts.iter().sum();
        let holds =
            (sum - 1.0).abs() <= EXACT && parts.iter().all(|part| (-EXACT..=1.0 + EXACT).contains(part));
        self.check(holds, || format!("the shares of {name}, {parts:?}, add up to {sum}"));
    }

    /// Checks that busy time is the sum of computing, sleep, waiting for a processor and the runtime's own
    /// work.
    fn accounts(&mut self) {
        let report = self.report;
        for (name, work) in works(report) {
            self.account(&name, work.busy_ns, work.account.as_ref());
        }
        for worker in &report.workers {
            let busy_ns = worker.shares.map(|shares| shares.busy * worker.lifetime_ns);
            self.account(&format!("worker {}", worker.id), busy_ns, worker.account.as_ref());
        }
    }

    fn account(&mut self, name: &str, busy_ns: Option<f64>, account: Option<&BusyAccount>) {
        let Some(account) = account else { return };
        self.check(busy_ns.is_some(), || format!("the busy time of {name} is divided, and is not known"));
        let spinning_ns = account.spinning_ns.unwrap_or(0.0);
        let parts = [account.computing_ns, spinning_ns, account.kept_ns, account.runtime_ns];
        let whole = busy_ns.unwrap_or(0.0);
        for part in parts.into_iter().chain(account.asleep.parts()) {
            let holds = part >= 0.0 && part <= whole * (1.0 + EXACT) + 1.0;
            self.check(holds, || format!("the busy time of {name}, {whole}, has a part of {part}"));
        }
        let sum = parts.iter().sum::<f64>() + account.asleep.parts().iter().sum::<f64>();
        self.same(&format!("the busy time of {name}, by what it was spent on"), whole, sum);
    }

    // ---- checks of the work of tasks

    fn work(&mut self) {
        for (name, work) in works(self.report) {
            if let (Some(busy_ns), Some(shares), Some(lifetime_ns)) =
                (work.busy_ns, work.shares, work.lifetime_ns)
            {
                self.same(
                    &format!("the busy time of {name}, by its share"),
                    busy_ns,
                    shares.busy * lifetime_ns,
                );
            }
            self.messages_and_empty(&name, work);
        }
    }

    /// Checks that busy time is the time of messages plus the time of empty dispatches.
    fn messages_and_empty(&mut self, name: &str, work: &Work) {
        let (Some(busy_ns), Some(reads), Some(writes)) = (work.busy_ns, work.messages_in, work.messages_out)
        else {
            return;
        };
        let messages = if reads > 0 { reads } else { writes };
        let empty_ns = work.empty_ns.unwrap_or(0.0);
        let of_messages = work.service_ns.unwrap_or(0.0) * messages as f64;
        // The sums are compared only after the run's end: the length of a dispatch that has not ended is not
        // known.
        let is_over = self.report.window.state == State::Ended;
        if is_over && (messages > 0 || work.empty_ns.is_some()) {
            self.same(
                &format!("the busy time of {name}, by messages and empty dispatches"),
                busy_ns,
                of_messages + empty_ns,
            );
        }
        let empty = work.empty.unwrap_or(0);
        let fits = work.dispatches.is_none_or(|dispatches| empty <= dispatches);
        self.check(fits, || format!("{name} has {empty} empty dispatches, of {:?}", work.dispatches));
    }

    /// Checks that the figures of a component are the sums over its tasks.
    fn components(&mut self) {
        let report = self.report;
        let tasks: u64 = report.components.iter().map(|component| component.tasks).sum();
        self.same_count("tasks", report.tasks_count, tasks);
        if !self.has_all_tasks() {
            return;
        }
        let mut by_path: BTreeMap<&str, Vec<&Task>> = BTreeMap::new();
        for task in &report.tasks {
            by_path.entry(path_of(&task.name)).or_default().push(task);
        }
        for component in &report.components {
            let tasks = by_path.remove(component.path.as_str()).unwrap_or_default();
            self.component(component, &tasks);
        }
    }

    fn component(&mut self, component: &Component, tasks: &[&Task]) {
        let path = &component.path;
        self.same_count(&format!("the tasks of {path}"), component.tasks, tasks.len() as u64);
        let counts: [Figure<u64>; 6] = [
            ("messages in", |work| work.messages_in.unwrap_or(0)),
            ("messages out", |work| work.messages_out.unwrap_or(0)),
            ("dispatches", |work| work.dispatches.unwrap_or(0)),
            ("empty dispatches", |work| work.empty.unwrap_or(0)),
            ("failed records", |work| work.failed),
            ("tasks that ended badly", |work| work.ended_badly),
        ];
        for (what, count) in counts {
            let parts = tasks.iter().map(|task| count(&task.work)).sum();
            self.same_count(&format!("{what} of {path}"), count(&component.work), parts);
        }
        let times: [Figure<Option<f64>>; 3] = [
            ("busy time", |work| work.busy_ns),
            ("time of empty dispatches", |work| work.empty_ns),
            ("lifetime", |work| work.lifetime_ns),
        ];
        for (what, time) in times {
            let parts = tasks.iter().filter_map(|task| time(&task.work)).sum();
            if let Some(whole) = time(&component.work) {
                self.same(&format!("the {what} of {path}"), whole, parts);
            }
        }
    }

    // ---- messages

    fn streams(&mut self) {
        if self.report.window.partial {
            return;
        }
        for stream in self.report.streams.iter().filter(|stream| stream.conserved == Some(true)) {
            let (Some(written), Some(read)) = (stream.written, stream.read) else { continue };
            let (held, dropped) = (stream.held.unwrap_or(0), stream.dropped.unwrap_or(0));
            let parts = read + stream.failed + held + dropped;
            // The ends of an open stream publish at different moments, so their figures may differ by the
            // stream's capacity.
            let open = self.report.window.state != State::Ended;
            let slack = if open { stream.streams * stream.capacity.max(64) } else { 0 };
            self.check(written <= parts && parts - written <= slack, || {
                format!(
                    "stream {}: {written} messages written, {parts} read, failed, held or dropped",
                    stream.name
                )
            });
        }
    }

    /// Checks that tasks read and wrote as many messages as passed the streams.
    fn messages(&mut self) {
        let report = self.report;
        let of_role = |role: &str| -> Option<u64> {
            let mut streams = report.streams.iter().filter(|stream| stream.role == role).peekable();
            streams.peek()?;
            streams.map(|stream| stream.written).sum()
        };
        for (role, messages) in
            [("entry", report.throughput.messages_in), ("exit", report.throughput.messages_out)]
        {
            let through = of_role(role);
            self.check(through == messages, || {
                format!("{through:?} messages went through the {role}, the throughput speaks of {messages:?}")
            });
        }
        // If some events were lost and the tasks at the ends of a stream are not known, its messages cannot
        // be compared with those of tasks.
        let is_known = |stream: &Stream| stream.reader.is_some() && stream.writer.is_some();
        if !self.is_exact() && !report.streams.iter().all(is_known) {
            return;
        }
        // An end of a stream may move from one component's task to another's, so the sums are over all
        // components.
        let works = || report.components.iter().map(|component| &component.work);
        let read = moved(report, |stream| Some(stream.read? + stream.failed));
        let written = moved(report, |stream| stream.written.filter(|_| stream.dropped == Some(0)));
        for (what, through, by_tasks) in [
            ("messages read from all streams, by tasks", read, works().map(|work| work.messages_in).sum()),
            (
                "messages written to all streams, by tasks",
                written,
                works().map(|work| work.messages_out).sum(),
            ),
        ] {
            let by_tasks: Option<u64> = by_tasks;
            if let (Some(through), Some(by_tasks)) = (through, by_tasks) {
                self.same_count(what, through, by_tasks);
            }
        }
    }

    // ---- time

    /// Checks that the figures of workers are the sums over their tasks.
    fn workers(&mut self) {
        let report = self.report;
        if !self.has_all_tasks() {
            return;
        }
        let on_workers = || report.tasks.iter().filter(|task| task.worker.is_some());
        let busy_ns = |shares: Option<WorkerShares>, ns: f64| shares.map_or(0.0, |shares| shares.busy * ns);
        let workers = report.workers.iter();
        let busy: f64 = workers.clone().map(|worker| busy_ns(worker.shares, worker.lifetime_ns)).sum();
        let of_tasks = on_workers().filter_map(|task| task.work.busy_ns).sum();
        self.same("the busy time of all workers, by their tasks", busy, of_tasks);
        let dispatches = workers.clone().filter_map(|worker| worker.dispatches).sum();
        let of_tasks = on_workers().filter_map(|task| task.work.dispatches).sum();
        self.same_count("dispatches of all workers, by their tasks", dispatches, of_tasks);
        let messages = workers.filter_map(|worker| worker.messages).sum();
        let of_tasks = on_workers().filter_map(|task| task.work.messages_in).sum();
        self.same_count("messages of all workers, by their tasks", messages, of_tasks);
    }

    /// Checks the accounts of the tasks' busy time and waiting.
    fn time(&mut self) {
        let report = self.report;
        let works = || report.components.iter().map(|component| &component.work);
        let latency = &report.latency;
        if let (Some(attributed), Some(unattributed), Some(empty), Some(outside)) =
            (latency.attributed_ns, latency.unattributed_ns, latency.empty_ns, latency.outside_ns)
        {
            let busy = works().filter_map(|work| work.busy_ns).sum();
            let parts = attributed + unattributed + empty + outside;
            self.same("the busy time of all components, by whose messages it was", busy, parts);
        }
        let waits = works().filter_map(|work| {
            let shares = work.shares?;
            Some((shares.input_wait + shares.output_wait) * work.lifetime_ns?)
        });
        let waited = waits.sum();
        self.same("all waiting, by waiting component", report.waiting.total_ns, waited);
    }

    fn latency(&mut self) {
        let latency = &self.report.latency;
        let count = |times: &Option<crate::Distribution>| times.map_or(0, |times| times.count);
        let measured = count(&latency.service);
        for (what, times) in [("end to end", &latency.end_to_end), ("waiting", &latency.waiting)] {
            self.same_count(&format!("messages with a latency, {what}"), measured, count(times));
        }
        if !self.report.window.partial {
            let parts = measured + latency.in_flight + latency.unmeasured;
            self.same_count("input messages, measured or not", latency.entered, parts);
        }
        if let (Some(share), Some(attributed), Some(unattributed), Some(empty)) =
            (latency.attributed_share, latency.attributed_ns, latency.unattributed_ns, latency.empty_ns)
        {
            let inside = attributed + unattributed + empty;
            self.same("the time that belongs to known messages, by its share", attributed, share * inside);
        }
    }

    fn waiting(&mut self) {
        let waiting = &self.report.waiting;
        let parts: f64 = waiting.matrix.iter().map(|edge| edge.ns).sum();
        let tolerance = EXACT * waiting.total_ns + 1.0;
        let is_cut = waiting.matrix.len() >= LIST_MAX && parts < waiting.total_ns;
        if !is_cut {
            self.within("all waiting, by pairs of components", waiting.total_ns, parts, tolerance);
        }
        let led: f64 = waiting.roots.iter().map(|root| root.ns).sum();
        let is_cut = waiting.roots.len() >= LIST_MAX && led < waiting.total_ns;
        if !is_cut {
            self.within("all waiting, by its roots", waiting.total_ns, led, LED_ON * waiting.total_ns + 1e3);
        }
    }

    fn overhead(&mut self) {
        let (overhead, window) = (&self.report.overhead, &self.report.window);
        if let (Some(ns), Some(reading_ns)) = (overhead.ns, overhead.clock_reading_ns) {
            let events = window.events.saturating_add(window.lost) as f64;
            let parts = overhead.clock_readings as f64 * reading_ns + events * overhead.event_ns;
            self.within("the time that recording took", ns, parts, EXACT * ns + reading_ns);
        }
    }
}

/// All components and tasks with their names and work.
fn works(report: &Report) -> impl Iterator<Item = (String, &Work)> {
    let components = report.components.iter().map(|component| (component.path.clone(), &component.work));
    let tasks = report.tasks.iter().map(|task| (format!("task {} ({})", task.id, task.name), &task.work));
    components.chain(tasks)
}

fn task_parts(shares: TaskShares) -> [f64; 4] {
    [shares.busy, shares.input_wait, shares.output_wait, shares.ready]
}

fn worker_parts(shares: WorkerShares) -> [f64; 5] {
    [shares.busy, shares.waiting, shares.own, shares.kept, shares.unaccounted]
}

/// Path of a task's component.
fn path_of(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

/// The number of messages that passed all streams; `None` if it is unknown for a stream, or a stream is
/// broken.
fn moved(report: &Report, count: impl Fn(&Stream) -> Option<u64>) -> Option<u64> {
    report.streams.iter().map(|stream| count(stream).filter(|_| stream.conserved == Some(true))).sum()
}

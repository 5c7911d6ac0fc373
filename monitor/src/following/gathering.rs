//! Combines the reports of several spaces into one; ids, names and messages then include the number of their
//! space.
//!
//! Each space is analysed by itself, because accounts, modes and clocks differ between processes. Counts and
//! times are added up; values that cannot be added (distributions, the texts of modes) are given only in the
//! reports on the single spaces, which the combined report contains.

use crate::ids::{StreamId, TaskId, WorkerId};
use crate::lineage::story::{Hop, Story};
use crate::report::{
    Behind, Deadlock, Figure, Finding, Hanging, Latency, Measurement, ModeSpan, Note, Overhead, Report,
    SpaceInfo, State, StreamRef, Subject, TaskRef, Throughput, Verdict, WaitNow, Window,
};
use crate::verdict::{describe, rule_names};

/// Adds the space's number to the names in a story; nothing changes if the number is 0, which stands for the
/// only space.
pub(super) fn of_space(mut story: Story, space: u32) -> Story {
    if space == 0 {
        return story;
    }
    let place = Place(space);
    place.text(&mut story.message);
    place.some(&mut story.input);
    for Hop { message, parent, writer, reader, worker, .. } in &mut story.hops {
        place.text(message);
        [parent, writer, reader].into_iter().for_each(|text| place.some(text));
        worker.iter_mut().for_each(|worker| place.worker(worker));
    }
    story
}

/// Combines these reports of spaces, given in order, into one; its lists have at most `top` entries.
pub(super) fn gathered(mut parts: Vec<Report>, top: usize) -> Report {
    for (n, part) in parts.iter_mut().enumerate() {
        Place(n as u32 + 1).report(part);
    }
    let mut whole = Report {
        space: session(&parts),
        window: window(&parts),
        throughput: throughput(&parts),
        latency: latency(&parts),
        overhead: overhead(&parts),
        notes: notes(&parts),
        ..Report::empty()
    };
    if let Some(verdict) = verdict(&parts) {
        whole.verdict = verdict;
    }
    for part in &parts {
        whole.slowest.extend(part.slowest.iter().cloned());
        whole.failures.extend(part.failures.iter().cloned());
        whole.utilisation.extend(part.utilisation.iter().cloned());
        whole.components.extend(part.components.iter().cloned());
        whole.tasks.extend(part.tasks.iter().cloned());
        whole.streams.extend(part.streams.iter().cloned());
        whole.broken.extend(part.broken.iter().cloned());
        whole.expensive.extend(part.expensive.iter().cloned());
        whole.workers.extend(part.workers.iter().cloned());
        whole.links.extend(part.links.iter().cloned());
        whole.measurements.extend(part.measurements.iter().cloned());
        whole.tasks_count += part.tasks_count;
        whole.broken_count += part.broken_count;
        gather_waiting(&mut whole, part);
    }
    let busy = |busy_ns: Option<f64>| std::cmp::Reverse(busy_ns.unwrap_or(0.0) as u64);
    whole.slowest.sort_by(|a, b| b.end_to_end_ns.total_cmp(&a.end_to_end_ns));
    whole.utilisation.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    whole.components.sort_by_key(|component| busy(component.work.busy_ns));
    whole.tasks.sort_by_key(|task| busy(task.work.busy_ns));
    whole.tasks.truncate(top.max(1));
    whole.slowest.truncate(top.max(1));
    whole.spaces = parts;
    whole
}

/// The number of a space among several, from 1.
#[derive(Clone, Copy)]
struct Place(u32);

impl Place {
    /// Puts the space's number before a name, path or message.
    fn text(self, text: &mut String) {
        text.insert_str(0, &format!("{}/", self.0));
    }

    fn some(self, text: &mut Option<String>) {
        text.iter_mut().for_each(|text| self.text(text));
    }

    fn task(self, id: &mut TaskId) {
        id.space = self.0;
    }

    fn stream(self, id: &mut StreamId) {
        id.space = self.0;
    }

    fn worker(self, id: &mut WorkerId) {
        id.space = self.0;
    }

    /// Puts the space's number into all ids, names and messages of a report.
    fn report(self, report: &mut Report) {
        report.slowest.iter_mut().for_each(|slow| self.text(&mut slow.message));
        for failure in &mut report.failures {
            self.text(&mut failure.message);
            self.some(&mut failure.input);
            self.some(&mut failure.component);
            self.task(&mut failure.task);
        }
        for row in &mut report.utilisation {
            row.task.iter_mut().for_each(|task| self.task(task));
            row.worker.iter_mut().for_each(|worker| self.worker(worker));
            match (row.task, row.worker) {
                (None, Some(worker)) => row.name = format!("worker {worker}"),
                _ => self.text(&mut row.name),
            }
        }
        for task in &mut report.tasks {
            self.task(&mut task.id);
            self.text(&mut task.name);
            task.worker.iter_mut().for_each(|worker| self.worker(worker));
        }
        for stream in &mut report.streams {
            self.text(&mut stream.name);
            self.some(&mut stream.writer);
            self.some(&mut stream.reader);
        }
        for broken in &mut report.broken {
            self.stream(&mut broken.id);
            self.text(&mut broken.name);
        }
        for worker in &mut report.workers {
            self.worker(&mut worker.id);
            self.some(&mut worker.on_task);
        }
        report.links.iter_mut().for_each(|link| link.process = Some(report.space.name.clone()));
        report.components.iter_mut().for_each(|component| self.text(&mut component.path));
        report.expensive.iter_mut().for_each(|row| self.text(&mut row.component));
        report.measurements.iter_mut().for_each(|Measurement { name, .. }| self.text(name));
        self.waiting(report);
        self.finding(&mut report.verdict.finding);
        report.verdict.words = describe(&report.verdict.finding);
    }

    fn waiting(self, report: &mut Report) {
        let waiting = &mut report.waiting;
        let deadlocked = waiting.deadlock.iter_mut().flat_map(|Deadlock { waits, .. }| waits);
        waiting.now.iter_mut().chain(deadlocked).for_each(|wait| self.wait(wait));
        for edge in &mut waiting.matrix {
            self.some(&mut edge.waiter);
            self.some(&mut edge.peer);
        }
        waiting.hanging.iter_mut().for_each(|hanging| self.hanging(hanging));
        for Behind { keeper, awaited, awaited_component, behind, .. } in &mut waiting.behind {
            [keeper, awaited, awaited_component, behind].into_iter().for_each(|text| self.text(text));
        }
        for root in &mut waiting.roots {
            self.task(&mut root.task);
            self.some(&mut root.name);
            self.some(&mut root.component);
        }
    }

    fn hanging(self, hanging: &mut Hanging) {
        self.task(&mut hanging.task);
        self.text(&mut hanging.name);
        hanging.worker.iter_mut().for_each(|worker| self.worker(worker));
        self.some(&mut hanging.holder);
    }

    fn wait(self, wait: &mut WaitNow) {
        self.task(&mut wait.task);
        self.text(&mut wait.name);
        wait.stream.iter_mut().for_each(|stream| self.stream(stream));
        wait.peer.iter_mut().for_each(|peer| self.task(peer));
        self.some(&mut wait.peer_name);
    }

    fn finding(self, finding: &mut Finding) {
        self.some(&mut finding.component);
        finding.worker.iter_mut().for_each(|worker| self.worker(worker));
        finding.task.iter_mut().for_each(|task| self.task_ref(task));
        finding.stream.iter_mut().for_each(|stream| self.stream_ref(stream));
        for subject in finding.figures.iter_mut().filter_map(|Figure { of, .. }| of.as_mut()) {
            match subject {
                Subject::Component(path) => self.text(path),
                Subject::Task(task) => self.task_ref(task),
                Subject::Worker(worker) => self.worker(worker),
                Subject::Stream(stream) => self.stream_ref(stream),
                Subject::Wait(wait) => self.wait(wait),
                Subject::Hanging(hanging) => self.hanging(hanging),
                // All processes of a session know a node by the same name.
                Subject::Node(_) => {}
            }
        }
    }

    fn task_ref(self, task: &mut TaskRef) {
        self.task(&mut task.id);
        self.text(&mut task.name);
    }

    fn stream_ref(self, stream: &mut StreamRef) {
        self.text(&mut stream.name);
        self.some(&mut stream.writer);
        self.some(&mut stream.reader);
    }
}

/// The description of a session: its directory contains the directories of its spaces.
fn session(parts: &[Report]) -> SpaceInfo {
    let path = parts.first().and_then(|part| std::path::Path::new(&part.space.path).parent());
    let hosts: std::collections::BTreeSet<&str> = parts.iter().map(|part| part.space.host.as_str()).collect();
    SpaceInfo {
        path: path.map_or(String::new(), |path| path.display().to_string()),
        name: path
            .and_then(|path| path.file_name())
            .map_or(String::new(), |name| name.to_string_lossy().into_owned()),
        pid: 0,
        host: hosts.into_iter().collect::<Vec<_>>().join(", "),
        command: String::new(),
    }
}

fn sum<T: std::iter::Sum<T>>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let known: Vec<T> = values.flatten().collect();
    (!known.is_empty()).then(|| known.into_iter().sum())
}

fn most(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(f64::max)
}

fn window(parts: &[Report]) -> Window {
    let windows = || parts.iter().map(|part| &part.window);
    let any = |state: State| windows().any(|window| window.state == state);
    let paused: Option<Vec<f64>> = windows().map(|window| window.paused_ns).collect();
    let mut modes: Vec<ModeSpan> = Vec::new();
    for span in windows().flat_map(|window| &window.modes) {
        if modes.iter().all(|known| known.mode != span.mode) {
            modes.push(span.clone());
        }
    }
    Window {
        duration_ns: windows().map(|window| window.duration_ns).fold(0.0, f64::max),
        state: match () {
            () if any(State::Running) => State::Running,
            () if any(State::Killed) => State::Killed,
            () => State::Ended,
        },
        paused_ns: paused.and_then(|paused| paused.into_iter().reduce(f64::min)),
        modes,
        complete: !parts.is_empty() && windows().all(|window| window.complete),
        partial: windows().any(|window| window.partial),
        events_ns: None,
        events: windows().map(|window| window.events).sum(),
        lost: windows().map(|window| window.lost).sum(),
        gaps: windows().map(|window| window.gaps).sum(),
        malformed: windows().map(|window| window.malformed).sum(),
        disk_full_ns: most(windows().map(|window| window.disk_full_ns)),
        disk_held_ns: most(windows().map(|window| window.disk_held_ns)),
    }
}

/// Whether a space belongs to a part of a network over nodes (`NETWORK@NODE`): the records of a part come from other
/// processes of the session.
fn is_part_of_others(part: &Report, parts: &[Report]) -> bool {
    let Some((network, _)) = part.space.name.rsplit_once('@') else { return false };
    parts.iter().any(|other| other.space.name == network)
}

/// What enters and leaves the networks of all spaces. Records that go from one process to another do not
/// count.
fn throughput(parts: &[Report]) -> Throughput {
    let whole = || parts.iter().filter(|part| !is_part_of_others(part, parts));
    let all = || whole().map(|part| &part.throughput);
    Throughput {
        messages_in: sum(all().map(|of| of.messages_in)),
        messages_out: sum(all().map(|of| of.messages_out)),
        worker_ns_longest: most(parts.iter().map(|part| part.throughput.worker_ns_longest)),
        entry_per_s: sum(all().map(|of| of.entry_per_s)),
        exit_per_s: sum(all().map(|of| of.exit_per_s)),
    }
}

/// The latencies of several spaces: counts are added; the distributions are reported only if a single space
/// has latencies.
fn latency(parts: &[Report]) -> Latency {
    let all = || parts.iter().map(|part| &part.latency);
    let mut measured = all().filter(|latency| latency.end_to_end.is_some());
    let only = measured.next().filter(|_| measured.next().is_none());
    Latency {
        service: only.and_then(|latency| latency.service),
        end_to_end: only.and_then(|latency| latency.end_to_end),
        waiting: only.and_then(|latency| latency.waiting),
        entered: all().map(|latency| latency.entered).sum(),
        in_flight: all().map(|latency| latency.in_flight).sum(),
        unmeasured: all().map(|latency| latency.unmeasured).sum(),
        unattributed: all().map(|latency| latency.unattributed).sum(),
        attributed_share: only.and_then(|latency| latency.attributed_share),
        attributed_ns: sum(all().map(|latency| latency.attributed_ns)),
        unattributed_ns: sum(all().map(|latency| latency.unattributed_ns)),
        empty_ns: sum(all().map(|latency| latency.empty_ns)),
        outside_ns: sum(all().map(|latency| latency.outside_ns)),
        over_links: None,
    }
}

fn overhead(parts: &[Report]) -> Overhead {
    let all = || parts.iter().map(|part| &part.overhead);
    let ns: Option<f64> = all().map(|overhead| overhead.ns).sum();
    let workers_ns: f64 = parts.iter().flat_map(|part| &part.workers).map(|worker| worker.lifetime_ns).sum();
    Overhead {
        clock_readings: all().map(|overhead| overhead.clock_readings).sum(),
        clock_reading_ns: most(all().map(|overhead| overhead.clock_reading_ns)),
        event_ns: all().map(|overhead| overhead.event_ns).fold(0.0, f64::max),
        ns,
        share: ns.filter(|_| workers_ns > 0.0).map(|ns| ns / workers_ns),
        bytes: sum(all().map(|overhead| overhead.bytes)),
        bytes_per_s: sum(all().map(|overhead| overhead.bytes_per_s)),
    }
}

/// Adds the waiting of one space; the shares are computed from the waiting time of all spaces.
fn gather_waiting(whole: &mut Report, part: &Report) {
    let (to, from) = (&mut whole.waiting, &part.waiting);
    to.total_ns += from.total_ns;
    to.now.extend(from.now.iter().cloned());
    to.now_count += from.now_count;
    to.matrix.extend(from.matrix.iter().cloned());
    to.roots.extend(from.roots.iter().cloned());
    to.hanging.extend(from.hanging.iter().cloned());
    to.behind.extend(from.behind.iter().cloned());
    to.still_ns = most([to.still_ns, from.still_ns].into_iter());
    to.deadlock = to.deadlock.take().or_else(|| from.deadlock.clone());
    let total_ns = to.total_ns.max(f64::MIN_POSITIVE);
    to.matrix.iter_mut().for_each(|edge| edge.share = edge.ns / total_ns);
    to.roots.iter_mut().for_each(|root| root.share = root.ns / total_ns);
    to.matrix.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    to.roots.sort_by(|a, b| b.ns.total_cmp(&a.ns));
}

/// Of the verdicts on the spaces, the one whose rule comes first in the order of rules, because an earlier
/// rule explains the findings of later ones.
fn verdict(parts: &[Report]) -> Option<Verdict> {
    let asked = |report: &&Report| {
        rule_names().position(|rule| rule == report.verdict.finding.rule).unwrap_or(usize::MAX)
    };
    parts.iter().min_by_key(asked).map(|part| part.verdict.clone())
}

/// A note that describes each process, and the notes of its report.
fn notes(parts: &[Report]) -> Vec<Note> {
    let mut notes = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let SpaceInfo { name, pid, .. } = &part.space;
        let process = format!("Process {} ({name}, pid {pid})", n + 1);
        let text = format!("{process}: {}", part.verdict.words.text);
        notes.push(Note { code: "process".to_owned(), text });
        // The state of the session does not say which of its processes was killed.
        if parts.len() > 1 && part.window.state == State::Killed {
            let text = format!("{process}: It was killed, or died, and ended without order.");
            notes.push(Note { code: "killed".to_owned(), text });
        }
        let of_it = part.notes.iter();
        notes.extend(
            of_it.map(|Note { code, text }| Note { code: code.clone(), text: format!("{process}: {text}") }),
        );
    }
    notes
}

//! Which task waits for which: the waits at the end, the waits over the measured time, and the roots of
//! waiting.
//!
//! A task that waits for messages waits for the writer of the stream; a task that waits for room waits for
//! the reader of the stream (LPEL paper, §II). For every wait, the states of the awaited task during the wait
//! are kept: it ran, it was ready and did not run, or it waited itself for a particular stream. So the
//! waiting time can be followed from wait to wait to a task that does not wait, and is charged to this *root*
//! and its state. If the tasks awaited at a stream had several states or waited for several tasks, the
//! waiting time is divided in the proportions that hold for all waits at that stream.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::composing::dispatch::{For, Wait, What};
use crate::composing::structure::Structure;
use crate::decoding::events::{Deadlocked, Observation};
use crate::ids::{IdHasher, IdMap, StreamId, TaskId};
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{Deadlock, Report, Root, RootState, WaitEdge, WaitNow, Waiting};

/// The number of past intervals kept for each task.
const HISTORY: usize = 24;
/// The maximal number of distinguished channels; waits at further channels are charged to the awaited task
/// with an unknown state.
const CHANNELS_MAX: usize = 1 << 16;
/// The maximal number of waits that were cut off by their tasks' ends, and of waits in a deadlock that the
/// run itself reported.
const CUT_MAX: usize = 1 << 16;
/// The least duration of waits that count as a deadlock.
const DEADLOCK_NS: f64 = 50e6;
/// The maximal number of steps in which waiting is followed from task to task; waiting that has no root by
/// then counts as waiting in a circle.
const ROUNDS: usize = 100;

/// A side of a stream at which tasks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Channel {
    stream: u64,
    what: For,
}

impl Hash for Channel {
    /// Writes the whole key as one word, because [`IdHasher`] hashes single words.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.stream << 2 | self.what as u64);
    }
}

/// A table keyed by sides of streams.
type ChannelMap<T> = HashMap<Channel, T, BuildHasherDefault<IdHasher>>;

/// The time waited at a channel, and how it divides among the states of the awaited task.
#[derive(Clone, Debug, Default)]
struct Led {
    waiter: u64,
    peer: u64,
    ticks: u64,
    count: u64,
    peer_busy: u64,
    peer_ready: u64,
    onward: BTreeMap<Channel, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Busy,
    Ready,
    Waiting(Channel),
}

/// The recent states of a task.
#[derive(Clone, Debug, Default)]
struct History {
    past: VecDeque<(u64, u64, Doing)>,
    /// The state since the end of the last interval in `past`.
    then: Option<Doing>,
}

impl History {
    fn push(&mut self, from: u64, until: u64, doing: Doing) {
        if until <= from {
            return;
        }
        match self.past.back_mut() {
            Some(last) if last.2 == doing && last.1 == from => last.1 = until,
            _ => {
                if self.past.len() == HISTORY {
                    self.past.pop_front();
                }
                self.past.push_back((from, until, doing));
            }
        }
    }
}

/// A wait that had not ended, with both ends of its stream.
#[derive(Clone, Copy, Debug)]
struct Going {
    wait: Wait,
    peer: u64,
}

/// The monitor of waits: see the module.
#[derive(Default)]
pub(crate) struct Waits {
    histories: IdMap<History>,
    led: ChannelMap<Led>,
    /// Waits that ended because their task ended.
    cut: Vec<Going>,
    /// The waits of the deadlock that the run itself reported.
    found: Vec<Going>,
    /// The component of each task of a wait, also of those that ended.
    names: IdMap<(u64, u64)>,
    unknown: u64,
}

impl Monitor for Waits {
    fn name(&self) -> &str {
        "waits"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch", "run.wait", "exec.task_ended", "exec.deadlocked"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let history = self.histories.entry(dispatch.task).or_default();
                    history.push(dispatch.start, dispatch.end, Doing::Busy);
                    let doing = crate::composing::timeline::Doing::after(dispatch.outcome, dispatch.stream);
                    history.then = match doing.what {
                        For::Turn => Some(Doing::Ready),
                        _ if doing.stream == 0 => None,
                        what => Some(Doing::Waiting(Channel { stream: doing.stream, what })),
                    };
                }
                What::Wait(wait) => self.waited(batch.structure(), &wait),
                What::Runtime(Observation::TaskEnded(ended)) => {
                    self.histories.remove(&ended.task);
                }
                What::Runtime(Observation::Deadlocked(deadlocked)) if self.found.len() < CUT_MAX => {
                    let Deadlocked { task, stream, peer, for_room } = deadlocked;
                    let what = if for_room != 0 { For::Room } else { For::Input };
                    let wait = Wait { task, what, stream, since: item.time, ..Wait::default() };
                    self.found.push(Going { wait, peer });
                    self.name(batch.structure(), [task, peer]);
                }
                _ => {}
            }
        }
    }

    fn restart(&mut self, _time: u64) {
        self.led.clear();
        self.cut.clear();
        self.unknown = 0;
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let mut led = self.led.clone();
        for wait in moment.open.iter().filter_map(|open| open.wait) {
            self.charge(&mut led, moment.structure, &wait);
        }
        let mut now: Vec<Going> = moment
            .open
            .iter()
            .filter(|open| open.running_since.is_none())
            .filter_map(|open| going(moment.structure, &open.wait?))
            .collect();
        now.sort_unstable_by_key(|going| going.wait.task);
        let deadlock = self.deadlock(moment, &now);
        let total: u64 = led.values().map(|led| led.ticks).sum();
        report.waiting = Waiting {
            total_ns: moment.ns(total),
            now: now.iter().take(moment.top).map(|going| self.now_report(moment, going)).collect(),
            now_count: now.len() as u64,
            matrix: self.matrix(moment, &led, total),
            roots: self.roots(moment, &led, total),
            deadlock,
            ..Waiting::default()
        };
    }
}

/// The wait with the tasks at both ends of its stream; `None` if the wait has ended or is not for another
/// task.
fn going(structure: &Structure, wait: &Wait) -> Option<Going> {
    if wait.ended || wait.what == For::Turn {
        return None;
    }
    Some(Going { wait: *wait, peer: peer(structure, wait) })
}

/// The awaited task, 0 if it is not known.
fn peer(structure: &Structure, wait: &Wait) -> u64 {
    let Some(stream) = structure.stream(wait.stream) else { return 0 };
    match wait.what {
        For::Input => stream.writer,
        For::Room => stream.reader,
        For::Turn => 0,
    }
}

impl Waits {
    fn waited(&mut self, structure: &Structure, wait: &Wait) {
        if wait.cut && wait.what != For::Turn && self.cut.len() < CUT_MAX {
            self.cut.push(Going { wait: *wait, peer: peer(structure, wait) });
        }
        let mut led = std::mem::take(&mut self.led);
        self.charge(&mut led, structure, wait);
        self.led = led;
        self.name(structure, [wait.task, peer(structure, wait)]);
        let history = self.histories.entry(wait.task).or_default();
        if wait.what != For::Turn && wait.stream != 0 {
            let channel = Channel { stream: wait.stream, what: wait.what };
            history.push(wait.since, wait.woken, Doing::Waiting(channel));
        }
        history.push(wait.woken, wait.until, Doing::Ready);
    }

    /// Keeps the components of these tasks, because the tasks may have ended when the report is made.
    fn name(&mut self, structure: &Structure, tasks: [u64; 2]) {
        for task in tasks {
            if let Some(of) = structure.task(task) {
                self.names.entry(task).or_insert((of.component, of.replica));
            }
        }
    }

    /// Charges a wait to its channel, divided among the states that the awaited task had during the wait.
    fn charge(&self, all: &mut ChannelMap<Led>, structure: &Structure, wait: &Wait) {
        let ticks = wait.woken - wait.since;
        if wait.what == For::Turn || ticks == 0 {
            return;
        }
        let channel = Channel { stream: wait.stream, what: wait.what };
        if all.len() >= CHANNELS_MAX && !all.contains_key(&channel) {
            return;
        }
        let led = all.entry(channel).or_default();
        led.waiter = wait.task;
        led.ticks += ticks;
        led.count += 1;
        let peer = peer(structure, wait);
        if peer == 0 {
            return;
        }
        led.peer = peer;
        let Some(history) = self.histories.get(&peer) else { return };
        let mut until = wait.woken;
        let mut attribute = |from: u64, until: u64, doing: Option<Doing>| {
            let ticks = until.saturating_sub(from);
            match doing {
                _ if ticks == 0 => {}
                Some(Doing::Busy) => led.peer_busy += ticks,
                Some(Doing::Ready) => led.peer_ready += ticks,
                Some(Doing::Waiting(on)) => *led.onward.entry(on).or_default() += ticks,
                None => {}
            }
        };
        if let Some(&(_, last, _)) = history.past.back() {
            attribute(last.max(wait.since), until, history.then);
            until = until.min(last);
        }
        for &(from, to, doing) in history.past.iter().rev() {
            if to <= wait.since {
                break;
            }
            attribute(from.max(wait.since), to.min(until), Some(doing));
            until = until.min(from);
        }
    }

    /// Attributes all waiting time to its roots: the tasks that others wait for and which do not wait
    /// themselves.
    fn roots(&self, moment: &Moment<'_>, all: &ChannelMap<Led>, total: u64) -> Vec<Root> {
        let mut channels: Vec<Channel> = all.keys().copied().collect();
        channels.sort_unstable();
        let place: HashMap<Channel, usize> = channels.iter().enumerate().map(|(n, &c)| (c, n)).collect();
        let mut mass: Vec<f64> = channels.iter().map(|channel| all[channel].ticks as f64).collect();
        let mut roots: BTreeMap<(u64, RootState), f64> = BTreeMap::new();
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; mass.len()];
            for (n, channel) in channels.iter().enumerate() {
                if mass[n] < 1.0 {
                    continue;
                }
                let led = &all[channel];
                let known = led.peer_busy + led.peer_ready + led.onward.values().sum::<u64>();
                if known == 0 {
                    *roots.entry((led.peer, RootState::Unknown)).or_default() += mass[n];
                    continue;
                }
                let part = mass[n] / known as f64;
                if led.peer_busy > 0 {
                    *roots.entry((led.peer, RootState::Running)).or_default() += part * led.peer_busy as f64;
                }
                if led.peer_ready > 0 {
                    *roots.entry((led.peer, RootState::Ready)).or_default() += part * led.peer_ready as f64;
                }
                for (on, &ticks) in &led.onward {
                    match place.get(on) {
                        Some(&at) => next[at] += part * ticks as f64,
                        None => {
                            *roots.entry((led.peer, RootState::Unknown)).or_default() += part * ticks as f64;
                        }
                    }
                }
            }
            mass = next;
        }
        for (n, channel) in channels.iter().enumerate() {
            if mass[n] >= 1.0 {
                *roots.entry((all[channel].waiter, RootState::Circle)).or_default() += mass[n];
            }
        }
        self.roots_report(moment, roots, total)
    }

    fn roots_report(
        &self,
        moment: &Moment<'_>,
        roots: BTreeMap<(u64, RootState), f64>,
        total: u64,
    ) -> Vec<Root> {
        let mut rows: Vec<Root> = roots
            .into_iter()
            .map(|((task, state), ticks)| Root {
                task: TaskId::of(task),
                name: self.task_name(moment, task),
                component: self.component(moment, task),
                state,
                ns: ticks * moment.ns_per_tick,
                share: ticks / total.max(1) as f64,
            })
            .collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.task.cmp(&b.task)));
        rows.truncate(moment.top);
        rows
    }

    fn matrix(&self, moment: &Moment<'_>, all: &ChannelMap<Led>, total: u64) -> Vec<WaitEdge> {
        // The ticks and the number of waits, by waiter, peer and reason.
        type Ends = (Option<String>, Option<String>, For);
        let mut edges: BTreeMap<Ends, (u64, u64)> = BTreeMap::new();
        for (channel, led) in all {
            let key = (self.component(moment, led.waiter), self.component(moment, led.peer), channel.what);
            let (ticks, count) = edges.entry(key).or_default();
            *ticks += led.ticks;
            *count += led.count;
        }
        let mut rows: Vec<WaitEdge> = edges
            .into_iter()
            .map(|((waiter, peer, what), (ticks, waits))| WaitEdge {
                waiter,
                peer,
                what: word(what).to_owned(),
                waits,
                ns: moment.ns(ticks),
                share: ticks as f64 / total.max(1) as f64,
            })
            .collect();
        rows.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        rows.truncate(moment.top);
        rows
    }

    fn now_report(&self, moment: &Moment<'_>, going: &Going) -> WaitNow {
        let wait = &going.wait;
        WaitNow {
            task: TaskId::of(wait.task),
            name: self.task_name(moment, wait.task).unwrap_or_else(|| format!("task {}", wait.task)),
            what: word(wait.what).to_owned(),
            stream: (wait.stream != 0).then_some(StreamId::of(wait.stream)),
            peer: (going.peer != 0).then_some(TaskId::of(going.peer)),
            peer_name: self.task_name(moment, going.peer),
            ns: moment.ns(moment.end.saturating_sub(wait.since)),
        }
    }

    /// The tasks of which none can continue without another of them, and one of which waits for room: those
    /// that the run itself reported, or else those in circles of tasks that wait for one particular stream.
    fn deadlock(&self, moment: &Moment<'_>, now: &[Going]) -> Option<Deadlock> {
        let waits = if self.found.is_empty() { self.circles(moment, now) } else { self.reported(now) };
        if !waits.iter().any(|going| going.wait.what == For::Room) {
            return None;
        }
        Some(Deadlock {
            tasks: waits.chunk_by(|one, next| one.wait.task == next.wait.task).count() as u64,
            waits: waits.iter().take(moment.top).map(|going| self.now_report(moment, going)).collect(),
        })
    }

    fn circles(&self, moment: &Moment<'_>, now: &[Going]) -> Vec<Going> {
        let lasts =
            |going: &&Going, until: u64| moment.ns(until.saturating_sub(going.wait.since)) >= DEADLOCK_NS;
        let now = now.iter().filter(|going| lasts(going, moment.end));
        let cut = self.cut.iter().filter(|going| lasts(going, going.wait.woken));
        stuck(&now.chain(cut).copied().collect::<Vec<Going>>())
    }

    /// The waits that the run reported, each with its start, if it was recorded.
    fn reported(&self, now: &[Going]) -> Vec<Going> {
        let began = self.cut.iter().chain(now).map(|going| (going.wait.task, going.wait.since));
        let began: IdMap<u64> = began.collect();
        let dated = |found: &Going| {
            let since = began.get(&found.wait.task).copied().unwrap_or(found.wait.since);
            Going { wait: Wait { since, ..found.wait }, ..*found }
        };
        self.found.iter().map(dated).collect()
    }

    fn component(&self, moment: &Moment<'_>, task: u64) -> Option<String> {
        moment.component_of(task).or_else(|| {
            let &(component, _) = self.names.get(&task)?;
            Some(moment.names.site(component).path)
        })
    }

    fn task_name(&self, moment: &Moment<'_>, task: u64) -> Option<String> {
        moment.task_name(task).or_else(|| {
            let &(component, replica) = self.names.get(&task)?;
            Some(moment.names.task(component, replica, moment.several(component)))
        })
    }
}

fn word(what: For) -> &'static str {
    match what {
        For::Turn => "turn",
        For::Input => "input",
        For::Room => "room",
    }
}

/// The waits whose tasks can never continue: each task of these waits for one particular stream, and for a
/// task that is among them. A task that waits for any of several streams, or for an unknown task, may be
/// woken from outside the circle.
///
/// Two tasks at both ends of one stream are no such circle, because a stream is never full and empty at once:
/// one of them was woken, and records this only when its dispatch ends.
fn stuck(waits: &[Going]) -> Vec<Going> {
    let of_task: HashMap<u64, &Going> =
        waits.iter().filter(|going| going.wait.certain).map(|going| (going.wait.task, going)).collect();
    let mut circles: Vec<Going> = Vec::new();
    let mut seen: HashMap<u64, u64> = HashMap::new();
    for first in waits {
        let mut way: Vec<&Going> = Vec::new();
        let mut at = of_task.get(&first.wait.task);
        while let Some(going) = at.filter(|going| !seen.contains_key(&going.wait.task)) {
            seen.insert(going.wait.task, first.wait.task);
            way.push(going);
            at = of_task.get(&going.peer);
        }
        let Some(begin) = at.filter(|going| seen[&going.wait.task] == first.wait.task) else { continue };
        let begin = way.iter().position(|going| going.wait.task == begin.wait.task);
        let circle = begin.map_or(&[][..], |begin| &way[begin..]);
        let is_one_stream = matches!(circle, [one, other] if one.wait.stream == other.wait.stream);
        if !is_one_stream && circle.iter().any(|going| going.wait.what == For::Room) {
            circles.extend(circle.iter().map(|going| **going));
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn going(task: u64, peer: u64, what: For, certain: bool) -> Going {
        let wait = Wait { task, what, stream: 10 * task, certain, ..Wait::default() };
        Going { wait, peer }
    }

    #[test]
    fn circles_of_certain_waits_with_a_full_stream_are_deadlocks() {
        let tasks = |waits: &[Going]| stuck(waits).iter().map(|going| going.wait.task).collect::<Vec<_>>();
        let room = |task, peer| going(task, peer, For::Room, true);
        let input = |task, peer| going(task, peer, For::Input, true);
        assert_eq!(tasks(&[room(1, 2), room(2, 3), input(3, 2), room(5, 9)]), [2, 3]);
        assert_eq!(tasks(&[input(1, 2), input(2, 1)]), [] as [u64; 0]);
        assert_eq!(tasks(&[room(1, 2), room(2, 3), room(3, 4)]), [] as [u64; 0]);
        assert_eq!(tasks(&[room(1, 2), going(2, 1, For::Input, false)]), [] as [u64; 0]);
        assert_eq!(tasks(&[room(1, 2), input(2, 1), room(7, 8), room(8, 7)]), [1, 2, 7, 8]);
        let mut woken = input(2, 1);
        woken.wait.stream = 10;
        assert_eq!(tasks(&[room(1, 2), woken, room(7, 8), room(8, 7)]), [7, 8]);
    }
}

//! Judges why tasks make no progress, from their rows, their streams and their threads. The functions of this
//! module are pure: they read no files.

use std::collections::{BTreeMap, BTreeSet};

use super::kernel::Doing;
use super::{SleepsFor, Still};

/// A runnable thread counts as kept from the processor if it had a processor for less than this share of the
/// time and waited for more than [`DELAYED_SHARE`].
const RAN_SHARE: f64 = 0.25;
const DELAYED_SHARE: f64 = 0.5;
/// A box raises an alarm only if it works on a message for longer than this multiple of the 99.9 % quantile
/// of its messages.
const TIMES: f64 = 2.0;

/// The state of a task according to its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    Ready,
    Running,
    BlockedInput,
    BlockedOutput,
    Ended,
    Failed,
}

/// The observed state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ThreadSeen {
    /// What the thread does; `None` if it has ended or nothing is known.
    pub(super) doing: Option<Doing>,
    /// The share of the observed time in which the thread ran; `delayed` is the share in which the thread was
    /// runnable without a processor.
    pub(super) ran: f64,
    pub(super) delayed: f64,
}

/// The observed state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TaskSeen {
    pub(super) state: State,
    /// The task's worker; `None` if the task has a thread of its own.
    pub(super) worker: Option<u64>,
    /// Whether the task's worker is idle. A task of an idle worker is not ready, even if its row says so.
    pub(super) worker_idles: bool,
    /// The time for which the task has not changed.
    pub(super) still_ns: u64,
    /// The 99.9 % quantile of the times that the task's component takes for a message; `None` if no message
    /// has been finished.
    pub(super) usual_ns: Option<f64>,
    /// The thread that runs the task, if one does.
    pub(super) thread: ThreadSeen,
}

/// The observed state of a stream; the number of the reader or writer is 0 if the stream has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamSeen {
    pub(super) id: u64,
    pub(super) reader: u64,
    pub(super) writer: u64,
    /// The number of messages in the stream.
    pub(super) held: u64,
    pub(super) capacity: u64,
    /// The time since the stream last changed between empty and not empty, or between full and not full.
    pub(super) still_ns: u64,
}

/// The observed state of the tasks and streams of a process at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) tasks: BTreeMap<u64, TaskSeen>,
    pub(super) streams: Vec<StreamSeen>,
}

/// Why a task has made no progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) still: Still,
    pub(super) sleeps_for: Option<SleepsFor>,
    /// The task that the judged task waits for; `stream` is the stream between the two tasks.
    pub(super) waits_for: Option<u64>,
    pub(super) stream: Option<u64>,
    /// The root of the wait: the last task in the chain of tasks that wait for each other.
    pub(super) leads_to: Option<u64>,
    pub(super) is_alarm: bool,
}

/// The reasons why tasks have made no progress for `stable_ns`. A box that runs for no longer than its usual
/// times counts as making progress, unless its thread is kept from the processor.
pub(super) fn judge(seen: &Seen, stable_ns: u64) -> BTreeMap<u64, Judged> {
    let still = |task: &TaskSeen| task.still_ns >= stable_ns;
    let mut judged: BTreeMap<u64, Judged> = BTreeMap::new();
    for (id, task) in seen.tasks.iter().filter(|(_, task)| still(task)) {
        judged.extend(one(seen, *id, task, stable_ns).map(|of| (*id, of)));
    }
    for task in deadlocked(seen, &judged) {
        if let Some(of) = judged.get_mut(&task) {
            (of.still, of.is_alarm) = (Still::Deadlock, true);
        }
    }
    let ends: Vec<(u64, Option<u64>)> = judged.keys().map(|task| (*task, end_of(&judged, *task))).collect();
    for (task, end) in ends {
        if let Some(of) = judged.get_mut(&task) {
            of.leads_to = end;
        }
    }
    judged
}

fn one(seen: &Seen, id: u64, task: &TaskSeen, stable_ns: u64) -> Option<Judged> {
    let of = |still| Judged {
        still,
        sleeps_for: None,
        waits_for: None,
        stream: None,
        leads_to: None,
        is_alarm: false,
    };
    let waits = |still, peers: Vec<(u64, u64)>| {
        let (stream, peer) = peers.first().copied().unzip();
        Judged { stream, waits_for: peer, ..of(still) }
    };
    Some(match task.state {
        State::Ended => of(Still::Ended),
        State::Failed => Judged { is_alarm: true, ..of(Still::Failed) },
        State::Idle | State::BlockedInput => waits(Still::Empty, givers(seen, id)),
        State::BlockedOutput => waits(Still::Full, takers(seen, id)),
        State::Ready if task.worker.is_none() => own_thread(seen, id, task, stable_ns)?,
        State::Ready if task.worker_idles && !takers(seen, id).is_empty() => {
            waits(Still::Full, takers(seen, id))
        }
        State::Ready if task.worker_idles && !givers(seen, id).is_empty() => {
            waits(Still::Empty, givers(seen, id))
        }
        State::Ready => Judged { waits_for: ahead(seen, id, task), ..of(Still::Ready) },
        State::Running => return in_box(seen, id, task, stable_ns),
    })
}

/// Judges a waiting task with a thread of its own. The row of such a task says `ready` also while the task
/// waits for its streams, so the state `ready` is not believed.
fn own_thread(seen: &Seen, id: u64, task: &TaskSeen, stable_ns: u64) -> Option<Judged> {
    let sleeps = matches!(task.thread.doing, Some(Doing::Sleeps(SleepsFor::Lock | SleepsFor::Other)));
    // After a message or room in a stream arrives, the waiting thread sleeps until the kernel has woken it.
    let has_come = |stream: &StreamSeen| match () {
        () if stream.reader == id => stream.held > 0,
        () => stream.writer == id && stream.held < stream.capacity,
    };
    if sleeps && seen.streams.iter().any(|stream| stream.still_ns < stable_ns && has_come(stream)) {
        return None;
    }
    let state = match () {
        () if sleeps && !takers(seen, id).is_empty() => State::BlockedOutput,
        () if sleeps && !givers(seen, id).is_empty() => State::BlockedInput,
        () => State::Running,
    };
    one(seen, id, &TaskSeen { state, ..*task }, stable_ns)
}

/// Judges a task that is running on its thread.
fn in_box(seen: &Seen, id: u64, task: &TaskSeen, stable_ns: u64) -> Option<Judged> {
    let of = |still| Judged {
        still,
        sleeps_for: None,
        waits_for: None,
        stream: None,
        leads_to: None,
        is_alarm: true,
    };
    let (reads, writes) = (
        seen.streams.iter().any(|stream| stream.reader == id),
        seen.streams.iter().any(|stream| stream.writer == id),
    );
    // A source or sink that waits for the outside uses some processor time, because it checks regularly
    // whether it must stop.
    let idles = task.thread.ran + task.thread.delayed < RAN_SHARE;
    let outside = match task.thread.doing {
        // The task waits for input from outside the network.
        Some(Doing::Sleeps(SleepsFor::Read | SleepsFor::Other)) if task.worker.is_none() && !reads => {
            Some(Still::Empty)
        }
        Some(Doing::Sleeps(SleepsFor::Write | SleepsFor::Other)) if task.worker.is_none() && !writes => {
            Some(Still::Full)
        }
        Some(Doing::Runs) if task.worker.is_none() && idles && !reads => Some(Still::Empty),
        Some(Doing::Runs) if task.worker.is_none() && idles && !writes => Some(Still::Full),
        _ => None,
    };
    if let Some(still) = outside {
        return Some(Judged { is_alarm: false, ..of(still) });
    }
    // The recorded times of a box do not account for other programs on the processor, so a thread that is
    // kept from its processor is reported even if its box may run for longer.
    if is_kept(&task.thread) {
        return Some(of(Still::Kept));
    }
    let limit_ns = task.usual_ns.map_or(0.0, |usual_ns| TIMES * usual_ns).max(stable_ns as f64);
    if (task.still_ns as f64) < limit_ns {
        return None;
    }
    Some(match task.thread.doing? {
        Doing::Stopped => of(Still::Stopped),
        Doing::Sleeps(what) => Judged { sleeps_for: Some(what), ..of(Still::Asleep) },
        Doing::Runs => of(Still::Running),
    })
}

/// Whether a thread that could run had no processor.
pub(super) fn is_kept(thread: &ThreadSeen) -> bool {
    thread.doing == Some(Doing::Runs) && thread.ran < RAN_SHARE && thread.delayed > DELAYED_SHARE
}

/// The empty input streams of a task that waits for messages, with their writers.
fn givers(seen: &Seen, task: u64) -> Vec<(u64, u64)> {
    let empty = seen.streams.iter().filter(|stream| stream.reader == task && stream.held == 0);
    empty.filter(|stream| stream.writer != 0).map(|stream| (stream.id, stream.writer)).collect()
}

/// The full output streams of a task that waits for room, with their readers.
fn takers(seen: &Seen, task: u64) -> Vec<(u64, u64)> {
    let full = |stream: &&StreamSeen| stream.writer == task && stream.held >= stream.capacity.max(1);
    seen.streams
        .iter()
        .filter(full)
        .filter(|stream| stream.reader != 0)
        .map(|stream| (stream.id, stream.reader))
        .collect()
}

/// The task that a ready task's worker is running.
fn ahead(seen: &Seen, id: u64, task: &TaskSeen) -> Option<u64> {
    let worker = task.worker?;
    let on = |(other, of): &(&u64, &TaskSeen)| {
        **other != id && of.worker == Some(worker) && of.state == State::Running
    };
    seen.tasks.iter().find(on).map(|(other, _)| *other)
}

/// The tasks that are deadlocked: none of them can ever continue, and one of them waits for room. A task can
/// continue as soon as one of the tasks that it waits for can, or if it waits for an unknown task. Rows do
/// not show that a task waits for only one of its streams, so a deadlock of such tasks may be missed, but no
/// false deadlock is reported.
fn deadlocked(seen: &Seen, judged: &BTreeMap<u64, Judged>) -> BTreeSet<u64> {
    let helpers: BTreeMap<u64, Vec<u64>> = judged
        .iter()
        .filter_map(|(task, of)| {
            let peers = match of.still {
                Still::Empty => givers(seen, *task),
                Still::Full => takers(seen, *task),
                _ => return None,
            };
            Some((*task, peers.into_iter().map(|(_, peer)| peer).collect()))
        })
        .collect();
    let mut stuck: BTreeSet<u64> = helpers.keys().copied().collect();
    loop {
        let free: Vec<u64> = stuck
            .iter()
            .copied()
            .filter(|task| helpers[task].is_empty() || helpers[task].iter().any(|peer| !stuck.contains(peer)))
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|task| _ = stuck.remove(task));
    }
    // Tasks that only wait for messages are idle, unless a task that they wait for waits for room.
    let mut dead: BTreeSet<u64> =
        stuck.iter().copied().filter(|task| judged[task].still == Still::Full).collect();
    let mut grows = !dead.is_empty();
    while grows {
        let next: Vec<u64> = stuck
            .iter()
            .copied()
            .filter(|task| {
                let waits_for_dead = || helpers[task].iter().any(|peer| dead.contains(peer));
                let is_waited_for = || dead.iter().any(|other| helpers[other].contains(task));
                !dead.contains(task) && (waits_for_dead() || is_waited_for())
            })
            .collect();
        grows = !next.is_empty();
        dead.extend(next);
    }
    dead
}

/// The root of a task's wait: the first task in the chain that does not wait for another one. `None` if the
/// task waits for no other task, or for itself.
fn end_of(judged: &BTreeMap<u64, Judged>, task: u64) -> Option<u64> {
    let mut at = judged.get(&task)?.waits_for?;
    for _ in 0..judged.len() {
        match judged.get(&at).and_then(|of| of.waits_for) {
            Some(next) => at = next,
            None => return Some(at),
        }
    }
    None
}

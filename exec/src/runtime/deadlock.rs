//! Deadlocks: sets of tasks in which every task waits for another of the set, and at least one waits for
//! room.
//!
//! A task that sleeps has named the streams that it waits for ([`Stop`](crate::Stop)); the task at the other
//! end of any of these streams can wake it. A task that is not among the sleepers is *live*: it runs, has a
//! thread that is in code of its own, moves between workers, or is unknown. A sleeper is live, too, if one of
//! its streams has a live task at the other end. All other tasks are *stuck*. Stuck tasks that only wait for
//! messages are idle: no message is under way among them, and a program may intend that. A task that waits
//! for room from a stuck task has a message that will never go on, which is an error.
//!
//! **Why the answers are consistent.** The thread that waits for the end of the run
//! ([`Runtime::join`](crate::Runtime::join)) observes the threads twice (two *looks*), and between the two
//! looks each thread answers what its tasks wait for. At both looks all workers sleep, without a dispatch in
//! between; a task with a thread of its own counts as a sleeper if it sleeps in the same wait at both looks.
//! Every wake-up is noticed: a task that was woken before the answer either is no sleeper in the answer, or
//! goes on before the second look, so its thread then sleeps in another wait. Since no task went on
//! unnoticed, all answers hold at the moment of the first look. No stuck task can go on later, because the
//! first one to go on would need another stuck task that went on before it.
//!
//! The task that last used a stream end counts as its owner. A task that gives an end away inside a message
//! therefore still counts as the end's owner until the receiver uses the end or the task ends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::shared::Shared;
use crate::shared::letters::{Answering, Asked};
use crate::sync::{AtomicU32, Ordering, lock};
use crate::task::cell::{Ring, State, TaskCell};
use crate::task::spec::TaskId;
use crate::telemetry::{Deadlocked, Share};

/// The time between two checks of whether all workers sleep.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The time that threads have to answer and to fall asleep again, and the interval at which the asking thread
/// checks whether they have.
const ANSWER_MAX: Duration = Duration::from_millis(500);
const ANSWER_LOOK: Duration = Duration::from_millis(1);
/// The pause after threads were asked, for each thread that was woken and each wait that was reported. The
/// pause is a hundred times as long as asking takes, so even with many idle tasks answers cost a small part
/// of the time.
const REST_A_THREAD: Duration = Duration::from_millis(3);
const REST_A_WAIT: Duration = Duration::from_micros(20);
/// The most waits of a deadlock that are recorded as events.
const EVENTS_MAX: usize = 1000;

/// One of the streams that a sleeping task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waits {
    task: u64,
    stream: u64,
    /// Whether the task waits for room; otherwise it waits for a message.
    for_room: bool,
    /// The task at the stream's other end; 0: not known.
    peer: u64,
}

/// The question what tasks wait for, and the answers, in which the waits of one task are adjacent.
struct Question {
    unanswered: AtomicU32,
    waits: Mutex<Vec<Waits>>,
}

impl Asked for Question {
    fn answer(&self, thread: &mut dyn Answering) {
        let mut waits = lock(&self.waits);
        let shared = thread.shared();
        let asking = lock(&shared.home.asking);
        if let Some(task) = thread.own_task() {
            // SAFETY: the task belongs to this thread and waits; the lock is held.
            unsafe { add_waits(task, &mut waits) };
        }
        for task in thread.tasks() {
            // SAFETY: tasks in the list are alive and belong to this thread; the lock is held.
            unsafe {
                let task = task.as_ref();
                if task.state.get() == State::Idle {
                    add_waits(task, &mut waits);
                }
            }
        }
        drop(asking);
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Adds the waits of a sleeping task.
///
/// # Safety
/// The caller must meet the safety conditions of [`TaskCell::each_wait`].
unsafe fn add_waits(task: &TaskCell, waits: &mut Vec<Waits>) {
    let for_room = task.waits_for.get() == Share::OutputWait;
    let wait = |ring: &Ring| Waits {
        task: task.id.0,
        stream: ring.id,
        for_room,
        peer: ring.task_at_other_end(for_room),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { task.each_wait(|ring| waits.push(wait(ring))) }
}

/// Observations of the runtime that stay equal as long as no task goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Still {
    /// The number of dispatches of each worker, all of which sleep.
    dispatches: Vec<u64>,
    /// The tasks with threads of their own that wait for streams, each with the number of its wait.
    own_threads: BTreeMap<TaskId, u64>,
    /// Whether some task waits for room.
    for_room: bool,
}

impl Still {
    /// The present observations; `None` if a worker is awake.
    fn seen(shared: &Shared) -> Option<Still> {
        let dispatches = shared.manned().iter().map(|inbox| inbox.asleep_after()).collect::<Option<_>>()?;
        let mut for_room =
            shared.manned().iter().any(|inbox| inbox.wait_for_room.load(Ordering::Relaxed) != 0);
        let mut own_threads = BTreeMap::new();
        shared.own_threads.each(|task, sleep| {
            if let Some((wait, room)) = sleep.now(task) {
                own_threads.insert(task.id, wait);
                for_room |= room;
            }
        });
        Some(Still { dispatches, own_threads, for_room })
    }

    /// Whether all threads that slept at these observations are still in the same wait when all have
    /// answered. Further threads may have fallen asleep since.
    fn lasts_until(&self, shared: &Shared, question: &Question, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            let mut same = 0;
            shared.own_threads.each(|task, sleep| {
                same += usize::from(self.own_threads.get(&task.id) == Some(&sleep.wait()));
            });
            if same != self.own_threads.len() {
                return false;
            }
            if question.unanswered.load(Ordering::Acquire) == 0
                && let Some(now) = Still::seen(shared)
            {
                let asleep = |(task, wait)| now.own_threads.get(task) == Some(wait);
                if self.dispatches != now.dispatches {
                    return false;
                }
                if self.own_threads.iter().all(asleep) {
                    return true;
                }
            }
            thread::sleep(ANSWER_LOOK);
        }
        false
    }

    /// Sends the question to every sleeping thread.
    fn ask(&self, shared: &Shared) -> Arc<Question> {
        let asked = self.dispatches.len() + self.own_threads.len();
        let question =
            Arc::new(Question { unanswered: AtomicU32::new(asked as u32), waits: Mutex::default() });
        shared.ask(self.dispatches.len(), question.clone());
        shared.own_threads.each(|task, sleep| {
            if self.own_threads.contains_key(&task.id) {
                sleep.ask(task, question.clone());
            }
        });
        question
    }
}

/// The state of the search for deadlocks.
#[derive(Default)]
pub(crate) struct Watch {
    /// The observations made just before all threads were last asked.
    asked_after: Option<Still>,
    /// The time before which the threads are not asked again.
    rest_until: Option<Instant>,
}

impl Watch {
    /// Looks for a deadlock; returns a description of its tasks and streams.
    pub(crate) fn look(&mut self, shared: &Shared) -> Option<String> {
        let begun = Instant::now();
        if self.rest_until.is_some_and(|until| begun < until) {
            return None;
        }
        let before = Still::seen(shared).filter(|still| still.for_room)?;
        if self.asked_after.as_ref() == Some(&before) {
            return None;
        }
        let question = before.ask(shared);
        let asked = before.dispatches.len() + before.own_threads.len();
        let lasted = before.lasts_until(shared, &question, begun + ANSWER_MAX);
        // If a task went on, the threads must be asked again even if the next observations equal the present
        // ones.
        self.asked_after = lasted.then_some(before);
        let waits = std::mem::take(&mut *lock(&question.waits));
        self.rest_until = Some(Instant::now() + rest(asked, waits.len()));
        let knot = Graph::of(&waits).knot().filter(|_| lasted)?;
        shared.home.board.deadlocked(knot.iter().take(EVENTS_MAX).map(deadlocked));
        Some(told(&knot))
    }
}

/// How long no thread is asked again after `threads` threads reported `waits` waits. The pause is not
/// computed from the time that the answers took, because on a busy machine that time contains waiting for
/// processors.
fn rest(threads: usize, waits: usize) -> Duration {
    REST_A_THREAD * threads as u32 + REST_A_WAIT * waits as u32
}

fn deadlocked(waits: &Waits) -> Deadlocked {
    let &Waits { task, stream, for_room, peer } = waits;
    Deadlocked { task, stream, peer, for_room: for_room.into() }
}

/// Which task waits for which.
struct Graph<'a> {
    waits: &'a [Waits],
    /// The waits of each sleeping task, as a range of the list `waits`.
    of_task: HashMap<u64, Range<usize>>,
}

impl<'a> Graph<'a> {
    /// A graph of `waits`, in which the waits of one task are adjacent.
    fn of(waits: &'a [Waits]) -> Graph<'a> {
        let mut at = 0;
        let of_task = waits.chunk_by(|one, next| one.task == next.task).map(|of_task| {
            at += of_task.len();
            (of_task[0].task, at - of_task.len()..at)
        });
        let of_task = of_task.collect();
        Graph { waits, of_task }
    }

    fn waits_of(&self, task: u64) -> &'a [Waits] {
        self.of_task.get(&task).map_or(&[], |range| &self.waits[range.clone()])
    }

    /// The sleeping tasks that no live task can wake, directly or through other tasks.
    fn stuck(&self) -> HashSet<u64> {
        let mut stuck: HashSet<u64> = self.of_task.keys().copied().collect();
        let mut helps: HashMap<u64, Vec<u64>> = HashMap::new();
        for waits in self.waits {
            helps.entry(waits.peer).or_default().push(waits.task);
        }
        let mut live: Vec<u64> = helps.keys().copied().filter(|peer| !stuck.contains(peer)).collect();
        while let Some(task) = live.pop() {
            let helped = helps.get(&task).into_iter().flatten();
            live.extend(helped.filter(|helped| stuck.remove(helped)));
        }
        stuck
    }

    /// Some stuck tasks, as few as were found, with all their waits; `None` if no stuck task waits for room.
    fn knot(&self) -> Option<Vec<Waits>> {
        let stuck = self.stuck();
        let waits_for_room = |waits: &&Waits| waits.for_room && stuck.contains(&waits.task);
        let mut knot = self.behind(self.waits.iter().find(waits_for_room)?.task);
        // The search continues at the last wait for room in the knot, because its task is the farthest and
        // may depend on fewer tasks.
        while let Some(last) = knot.iter().rfind(|waits| waits.for_room) {
            let smaller = self.behind(last.task);
            if smaller.len() >= knot.len() {
                break;
            }
            knot = smaller;
        }
        Some(knot)
    }

    /// All waits that a stuck task depends on, its own first, then those of the tasks that it waits for, and
    /// so on.
    fn behind(&self, task: u64) -> Vec<Waits> {
        let mut seen = HashSet::from([task]);
        let mut behind = self.waits_of(task).to_vec();
        let mut at = 0;
        while let Some(waits) = behind.get(at) {
            if seen.insert(waits.peer) {
                behind.extend_from_slice(self.waits_of(waits.peer));
            }
            at += 1;
        }
        behind
    }
}

/// A knot as the text of an error, with at most `TOLD_MAX` tasks.
fn told(knot: &[Waits]) -> String {
    const TOLD_MAX: usize = 8;
    let shown = &knot[..knot.len().min(TOLD_MAX)];
    let by_task = shown.chunk_by(|one, next| one.task == next.task);
    let mut told: Vec<String> = by_task.map(|of_task| OfTask(of_task).to_string()).collect();
    if knot.len() > TOLD_MAX {
        let tasks = knot.chunk_by(|one, next| one.task == next.task).count();
        told.push(format!("and so on, {tasks} tasks in all"));
    }
    let knot = told.join("; ");
    format!("deadlock: {knot}. More capacity for a full stream may help, if what it has to hold is bounded")
}

/// The waits of one task.
struct OfTask<'a>(&'a [Waits]);

impl fmt::Display for OfTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, waits) in self.0.iter().enumerate() {
            let Waits { task, stream, for_room, peer } = waits;
            match (at, for_room) {
                (0, true) => write!(f, "task {task} waits for room in ")?,
                (0, false) => write!(f, "task {task} waits for a message of ")?,
                _ => write!(f, ", or of ")?,
            }
            write!(f, "stream {stream}, which task {peer} {}", if *for_room { "reads" } else { "writes" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes waits from tuples; each tuple names a task, whether the task waits for room, and the tasks that
    /// it waits for.
    fn waits(all: &[(u64, bool, &[u64])]) -> Vec<Waits> {
        let of_task = |&(task, for_room, peers): &(u64, bool, &[u64])| {
            let wait = |&peer: &u64| Waits { task, stream: 100 * task + peer, for_room, peer };
            peers.iter().map(wait).collect::<Vec<_>>()
        };
        all.iter().flat_map(of_task).collect()
    }

    fn stuck(all: &[(u64, bool, &[u64])]) -> Vec<u64> {
        let waits = waits(all);
        let mut stuck: Vec<u64> = Graph::of(&waits).stuck().into_iter().collect();
        stuck.sort_unstable();
        stuck
    }

    fn knot(all: &[(u64, bool, &[u64])]) -> Option<Vec<u64>> {
        let waits = waits(all);
        let mut knot: Vec<u64> = Graph::of(&waits).knot()?.iter().map(|waits| waits.task).collect();
        knot.dedup();
        Some(knot)
    }

    #[test]
    fn who_cannot_be_reached_by_anybody_live_is_stuck() {
        assert_eq!(stuck(&[(1, true, &[2]), (2, true, &[3]), (3, false, &[2])]), [1, 2, 3]);
        assert_eq!(stuck(&[(1, true, &[2]), (2, true, &[3]), (3, true, &[4])]), [], "4 does not sleep");
        assert_eq!(stuck(&[(1, false, &[0])]), [], "somebody unknown");
        // A task that waits for any of several tasks is live if one of these is live.
        assert_eq!(stuck(&[(1, true, &[2]), (2, false, &[1, 7])]), []);
        assert_eq!(stuck(&[(1, true, &[2]), (2, false, &[1, 3]), (3, false, &[2])]), [1, 2, 3]);
        assert_eq!(stuck(&[(1, true, &[1])]), [1]);
    }

    #[test]
    fn a_knot_has_somebody_who_waits_for_room_and_no_more_than_it_needs() {
        assert_eq!(knot(&[(1, false, &[2]), (2, false, &[1])]), None, "run dry");
        assert_eq!(knot(&[(1, true, &[2]), (2, false, &[1])]), Some(vec![1, 2]));
        // Tasks that only wait for the knot are not reported.
        let chain: &[(u64, bool, &[u64])] =
            &[(1, true, &[2]), (2, true, &[3]), (3, true, &[4]), (4, false, &[3])];
        assert_eq!(knot(chain), Some(vec![3, 4]));
        assert_eq!(knot(&[(1, true, &[2]), (2, false, &[1]), (5, true, &[9])]), Some(vec![1, 2]));
        // A writer waits for room, and the reader of that stream waits for input.
        assert_eq!(knot(&[(1, true, &[2]), (2, false, &[3]), (3, false, &[2])]), Some(vec![1, 2, 3]));
    }

    #[test]
    fn a_knot_is_told_in_short() {
        let any = told(&waits(&[(1, true, &[2]), (2, false, &[1, 3]), (3, false, &[2])]));
        let expected = "deadlock: task 1 waits for room in stream 102, which task 2 reads; \
                        task 2 waits for a message of stream 201, which task 1 writes, or of stream 203, which task 3 writes; \
                        task 3 waits for a message of stream 302, which task 2 writes. ";
        assert!(any.starts_with(expected), "{any}");
        let ring: Vec<Waits> = (0..20)
            .map(|task| Waits { task, stream: 10 * task, for_room: true, peer: (task + 1) % 20 })
            .collect();
        let told = told(&Graph::of(&ring).knot().unwrap());
        assert!(told.contains("task 0 waits for room in stream 0, which task 1 reads"), "{told}");
        assert!(told.contains("20 tasks in all"), "{told}");
    }

    /// Compares the result for random waits with that of a simple model, which goes through all tasks until
    /// nothing changes.
    #[test]
    fn random_graphs_are_judged_as_the_plain_rule_does() {
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for round in 0..2000 {
            let (tasks, fan) = (1 + below(12), 1 + below(3));
            let all: Vec<Waits> = (1..=tasks)
                .flat_map(|task| {
                    let for_room = below(2) == 0;
                    let waits = if below(8) == 0 { 0 } else { 1 + below(fan) };
                    let peers = (0..waits).map(|_| 1 + below(tasks)).collect::<Vec<_>>();
                    peers.into_iter().map(move |peer| Waits { task, stream: 0, for_room, peer })
                })
                .collect();
            let sleeps = |task: u64| all.iter().any(|waits| waits.task == task);
            let mut live: HashSet<u64> = (1..=tasks).filter(|&task| !sleeps(task)).collect();
            while let Some(waits) =
                all.iter().find(|waits| live.contains(&waits.peer) && !live.contains(&waits.task))
            {
                live.insert(waits.task);
            }
            let expected: HashSet<u64> = (1..=tasks).filter(|task| !live.contains(task)).collect();
            let graph = Graph::of(&all);
            assert_eq!(graph.stuck(), expected, "round {round}: {all:?}");
            let room = all.iter().any(|waits| waits.for_room && expected.contains(&waits.task));
            let knot = graph.knot();
            assert_eq!(knot.is_some(), room, "round {round}: {all:?}");
            let closed = knot.iter().flatten().all(|waits| expected.contains(&waits.peer));
            assert!(closed, "round {round}: {knot:?}");
        }
    }
}

//! Deadlocks: tasks that wait for one another in a circle, each for a certain stream, at least one of which is full.
//!
//! Looked for by the thread that waits for the end ([`Runtime::join`](crate::Runtime::join)), when all workers sleep and
//! some task waits for room: it asks them what each of their tasks waits for. If no task was dispatched meanwhile, what they tell was true at once, and
//! a circle of such waits can't resolve, whatever comes from outside. A task that waits for any of several streams is in
//! no circle, and neither is one with a thread of its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::dispatch::Core;
use crate::inbox::Asked;
use crate::observe::Share;
use crate::runtime::Shared;
use crate::sync::{AtomicU32, Ordering};
use crate::task::{State, TaskCell};

/// How often it is looked whether all workers sleep.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the workers have to answer and to fall asleep again, and how often that is looked at.
const ANSWER_MAX: Duration = Duration::from_millis(500);
const ANSWER_LOOK: Duration = Duration::from_millis(1);
/// Rest after a look, for each microsecond that it took: so that many tasks with little to do are not mostly asked.
const REST: Duration = Duration::from_micros(100);

/// A task waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waits {
    task: u64,
    stream: u64,
    /// For room; else for a message.
    for_room: bool,
    peer: u64,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waits { task, stream, for_room, peer } = self;
        match for_room {
            true => write!(f, "task {task} waits for room in stream {stream}, which task {peer} reads"),
            false => {
                write!(f, "task {task} waits for a message of stream {stream}, which task {peer} writes")
            }
        }
    }
}

/// The question what tasks wait for, and the answers.
struct Question {
    unanswered: AtomicU32,
    waits: Mutex<Vec<Waits>>,
}

impl Asked for Question {
    fn answer(&self, core: &mut Core) {
        // SAFETY: tasks in the list are alive.
        let tasks = core.live.iter().map(|task| unsafe { task.as_ref() });
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks.filter_map(waits));
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a task of the calling thread's worker waits for, if it is a certain stream.
fn waits(task: &TaskCell) -> Option<Waits> {
    let ring = task.waits_on.get().filter(|_| task.state.get() == State::Idle)?;
    // SAFETY: the task has an end of the stream, which it cannot drop while it sleeps.
    let ring = unsafe { ring.as_ref() };
    let for_room = task.waits_for.get() == Share::OutputWait;
    Some(Waits { task: task.id.0, stream: ring.id, for_room, peer: ring.peer(for_room) })
}

/// What was seen of the workers.
#[derive(Default)]
pub(crate) struct Watch {
    /// The workers' dispatches when their tasks were asked for last.
    asked_after: Vec<u64>,
    /// Not to be asked again before.
    rest_until: Option<Instant>,
}

impl Watch {
    /// Looks for a deadlock; tells which tasks and streams are in it.
    pub(crate) fn look(&mut self, shared: &Shared) -> Option<String> {
        let begun = Instant::now();
        if self.rest_until.is_some_and(|until| begun < until) {
            return None;
        }
        let before = asleep_after(shared).filter(|dispatches| *dispatches != self.asked_after)?;
        if shared.inboxes.iter().all(|inbox| inbox.wait_for_room.load(Ordering::Relaxed) == 0) {
            return None;
        }
        let unanswered = AtomicU32::new(shared.inboxes.len() as u32);
        let question = Arc::new(Question { unanswered, waits: Mutex::default() });
        shared.ask_all(question.clone());
        let answered = || question.unanswered.load(Ordering::Acquire) == 0;
        let after = loop {
            match asleep_after(shared).filter(|_| answered()) {
                Some(after) => break after,
                None if begun.elapsed() > ANSWER_MAX => return None,
                None => thread::sleep(ANSWER_LOOK),
            }
        };
        let waits = std::mem::take(&mut *question.waits.lock().unwrap_or_else(PoisonError::into_inner));
        let circle = circle(&waits).filter(|_| before == after);
        // What was dispatched meanwhile is a reason to look again.
        self.asked_after = before;
        self.rest_until = Some(Instant::now() + REST * begun.elapsed().as_micros() as u32);
        circle.map(|circle| told(&circle))
    }
}

/// The dispatches of all workers, if they all sleep.
fn asleep_after(shared: &Shared) -> Option<Vec<u64>> {
    shared.inboxes.iter().map(|inbox| inbox.asleep_after()).collect()
}

/// A circle of waits, one of them for room.
fn circle(waits: &[Waits]) -> Option<Vec<Waits>> {
    let of_task: HashMap<u64, Waits> = waits.iter().map(|waits| (waits.task, *waits)).collect();
    // Which way came to a task first.
    let mut seen = HashMap::new();
    for first in waits {
        let mut way: Vec<Waits> = Vec::new();
        let mut at = Some(first);
        while let Some(waits) = at.filter(|waits| !seen.contains_key(&waits.task)) {
            seen.insert(waits.task, first.task);
            way.push(*waits);
            at = of_task.get(&waits.peer);
        }
        let begin = at.filter(|waits| seen[&waits.task] == first.task);
        if let Some(begin) = begin.and_then(|begin| way.iter().position(|waits| waits == begin)) {
            let circle = way.split_off(begin);
            if circle.iter().any(|waits| waits.for_room) {
                return Some(circle);
            }
        }
    }
    None
}

/// A circle as an error: at most so many of its waits.
fn told(circle: &[Waits]) -> String {
    const TOLD_MAX: usize = 8;
    let mut told: Vec<String> = circle.iter().take(TOLD_MAX).map(Waits::to_string).collect();
    if circle.len() > TOLD_MAX {
        told.push(format!("and so on, {} tasks in all", circle.len()));
    }
    let circle = told.join("; ");
    format!("deadlock: {circle}. More capacity for a full stream may help, if what goes round is bounded")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(all: &[(u64, u64, bool)]) -> Vec<Waits> {
        let waits = |&(task, peer, for_room): &_| Waits { task, stream: 10 * task, for_room, peer };
        all.iter().map(waits).collect()
    }

    #[test]
    fn circles_with_a_full_stream_are_found() {
        let all = waits(&[(1, 2, true), (2, 3, true), (3, 4, false), (4, 2, false), (5, 9, true)]);
        let found: Vec<u64> = circle(&all).unwrap().iter().map(|waits| waits.task).collect();
        assert_eq!(found, [2, 3, 4]);
        assert_eq!(circle(&waits(&[(1, 2, false), (2, 1, false)])), None);
        assert_eq!(circle(&waits(&[(1, 2, true), (2, 3, true), (3, 4, true)])), None);
        assert_eq!(circle(&waits(&[(1, 1, true)])).unwrap().len(), 1);
    }

    #[test]
    fn a_long_circle_is_told_in_short() {
        let ring: Vec<_> = (0..20).map(|task| (task, (task + 1) % 20, true)).collect();
        let told = told(&circle(&waits(&ring)).unwrap());
        assert!(told.contains("task 0 waits for room in stream 0, which task 1 reads"), "{told}");
        assert!(told.contains("20 tasks in all"), "{told}");
    }
}

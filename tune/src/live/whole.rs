//! The whole mapping of a run, which is saved.
//!
//! A move is tried and kept beside tasks that stay where they are. Another run may place those tasks elsewhere (a
//! mapper that takes workers in turn depends on the order in which tasks are made), so what is saved are the
//! workers of all tasks. The run itself also moves tasks, from behind a call that is held up. A tuner that finds no
//! better mapping has found the present one good, and another run would begin without these moves.

use std::collections::{BTreeMap, HashSet};

use super::placing::PLACED_MAX;
use super::window::Window;
use crate::action::{Action, Knob};

/// The workers of tasks, by the tasks' numbers.
type Places = BTreeMap<u64, Place>;

/// The worker of a task in a mapping that a tuner found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the task.
    pub task: String,
    /// The number of the worker.
    pub worker: u64,
    /// Whether the tuner kept the task on this worker; otherwise the run itself may move it.
    pub stays: bool,
}

/// Follows the workers of all tasks.
#[derive(Default)]
pub(super) struct Whole {
    /// The workers before the present trial, or now if there is none.
    before: Places,
    /// The same of tasks in replicas, which the run itself places.
    replicas: Places,
    /// The workers in the mapping that was found good last, with the moves that were kept.
    kept: Places,
    /// Whether workers steal.
    steals: bool,
}

impl Whole {
    /// Notes where tasks are in a window without a trial; of a window in a trial, which tasks still exist. If workers
    /// steal, or there are too many tasks, only moved ones are followed.
    pub(super) fn see(
        &mut self,
        window: &Window,
        is_trial: bool,
        steals: bool,
        by_run: &dyn Fn(u64) -> bool,
    ) {
        if is_trial {
            let alive: HashSet<u64> = window.tasks.iter().map(|task| task.id).collect();
            // A run that ends has fewer and fewer tasks.
            if self.before.keys().filter(|task| alive.contains(task)).count() * 2 >= self.before.len() {
                self.before.retain(|task, _| alive.contains(task));
            }
            return;
        }
        self.before.clear();
        self.replicas.clear();
        self.steals = steals;
        if steals || window.tasks.len() > PLACED_MAX {
            return;
        }
        for task in &window.tasks {
            if let Some(worker) = task.worker {
                let place = Place { task: task.name.clone(), worker: u64::from(worker), stays: false };
                let places = if by_run(task.id) { &mut self.replicas } else { &mut self.before };
                places.insert(task.id, place);
            }
        }
    }

    /// Notes that a better mapping than the one of the last window without a trial was looked for.
    pub(super) fn looked(&mut self) {
        self.keep_before();
    }

    /// Tasks that are not followed any more stay in the map, but where workers steal, only those that the tuner moved.
    fn keep_before(&mut self) {
        if self.steals {
            self.kept.retain(|_, place| place.stays);
        }
        for (task, place) in &self.before {
            let stays = self.kept.get(task).is_some_and(|kept| kept.stays);
            self.kept.insert(*task, Place { stays, ..place.clone() });
        }
        for (task, place) in &self.replicas {
            if let Some(kept) = self.kept.get_mut(task) {
                kept.worker = place.worker;
            }
        }
    }

    /// Notes an action that was kept.
    pub(super) fn keep(&mut self, action: &Action) {
        let mut moves = moves(action).peekable();
        if moves.peek().is_none() {
            return;
        }
        self.keep_before();
        // The run moves no replica of which a task was moved. It would move the others as if that one had no load, so all
        // stay where they are.
        if self::moves(action).any(|(task, ..)| self.replicas.contains_key(&task)) {
            for (task, place) in &self.replicas {
                self.kept.insert(*task, Place { stays: true, ..place.clone() });
            }
        }
        self.kept.extend(
            moves.map(|(task, name, _, to)| (task, Place { task: name.to_owned(), worker: to, stays: true })),
        );
    }

    /// Notes an action that was taken back. `stays` says which tasks stay because of another action that was kept.
    pub(super) fn undo(&mut self, action: &Action, stays: &dyn Fn(u64) -> bool) {
        for (task, _, from, _) in moves(action) {
            if let Some(place) = self.kept.get_mut(&task) {
                (place.worker, place.stays) = (from, stays(task));
            }
        }
    }

    /// The workers of tasks, in the order in which the tasks were made.
    pub(super) fn places(self) -> Vec<Place> {
        self.kept.into_values().collect()
    }
}

/// The moves of an action: task, name, from and to.
fn moves(action: &Action) -> impl Iterator<Item = (u64, &str, u64, u64)> {
    action.changes.iter().filter_map(|change| match &change.knob {
        Knob::Worker { task, name } => Some((*task, name.as_str(), change.from, change.to)),
        Knob::Setting(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Change;
    use crate::live::TaskIn;

    fn window(tasks: &[(u64, u32)]) -> Window {
        let task = |&(id, worker): &(u64, u32)| TaskIn {
            name: format!("t{id}"),
            id,
            worker: Some(worker),
            ..TaskIn::default()
        };
        Window { tasks: tasks.iter().map(task).collect(), ..Window::default() }
    }

    fn moved(task: u64, from: u64, to: u64) -> Action {
        let knob = Knob::Worker { task, name: format!("t{task}") };
        Action { changes: vec![Change { knob, from, to }] }
    }

    /// Tasks with their workers; those that stay have a worker above 9.
    fn named(expected: &[(u64, u64)]) -> Vec<Place> {
        let place = |&(task, worker): &(u64, u64)| Place {
            task: format!("t{task}"),
            worker: worker % 10,
            stays: worker >= 10,
        };
        expected.iter().map(place).collect()
    }

    #[test]
    fn tasks_that_stay_belong_to_a_kept_mapping() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1), (3, 0), (4, 1)]), false, false, &|task| task == 4);
        // Task 3 ends during the trial; task 5 begins.
        whole.see(&window(&[(1, 1), (2, 1), (5, 0)]), true, false, &|_| false);
        whole.keep(&moved(1, 0, 1));
        whole.see(&window(&[(1, 1), (2, 1), (5, 0)]), false, false, &|_| false);
        whole.keep(&Action::set("exec.capacity", 64, 256));
        assert_eq!(whole.places(), named(&[(1, 11), (2, 1)]));
    }

    #[test]
    fn a_move_that_is_taken_back_is_not_saved() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1)]), false, false, &|_| false);
        whole.undo(&moved(1, 0, 1), &|_| false);
        whole.keep(&moved(2, 1, 0));
        whole.see(&window(&[(1, 0), (2, 0)]), false, false, &|_| false);
        whole.keep(&moved(1, 0, 1));
        whole.undo(&moved(1, 0, 1), &|_| false);
        assert_eq!(whole.places(), named(&[(1, 0), (2, 10)]));
    }

    #[test]
    fn a_mapping_that_the_run_made_is_saved_if_none_better_is_found() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 0)]), false, false, &|_| false);
        assert_eq!(whole.places(), named(&[]));
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 0)]), false, false, &|_| false);
        whole.looked();
        // The run moves task 2, and the tuner looks again; task 1 has ended by then.
        whole.see(&window(&[(2, 1)]), false, false, &|_| false);
        whole.looked();
        // Nobody has looked at the last windows.
        whole.see(&window(&[(2, 0)]), false, false, &|_| false);
        assert_eq!(whole.places(), named(&[(1, 0), (2, 1)]));
    }

    #[test]
    fn where_a_task_of_a_replica_was_moved_all_replicas_are_saved() {
        let is_in_replica = |task: u64| task >= 3;
        let seen = window(&[(1, 0), (3, 0), (4, 1)]);
        let mut whole = Whole::default();
        whole.see(&seen, false, false, &is_in_replica);
        whole.keep(&moved(1, 0, 1));
        whole.see(&seen, false, false, &is_in_replica);
        whole.looked();
        assert_eq!(whole.places(), named(&[(1, 10)]));
        let mut whole = Whole::default();
        whole.see(&seen, false, false, &is_in_replica);
        whole.keep(&moved(3, 0, 1));
        assert_eq!(whole.places(), named(&[(1, 0), (3, 11), (4, 11)]));
    }

    #[test]
    fn where_workers_steal_only_moved_tasks_are_saved() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1)]), false, false, &|_| false);
        whole.looked();
        whole.keep(&moved(2, 1, 0));
        whole.see(&window(&[(1, 1), (2, 0)]), false, true, &|_| false);
        whole.looked();
        assert_eq!(whole.places(), named(&[(2, 10)]));
    }

    #[test]
    fn a_task_that_another_kept_action_moved_stays() {
        let mut whole = Whole::default();
        whole.keep(&moved(1, 0, 1));
        whole.keep(&moved(1, 1, 2));
        whole.undo(&moved(1, 1, 2), &|task| task == 1);
        assert_eq!(whole.places(), named(&[(1, 11)]));
    }

    #[test]
    fn tasks_that_end_with_the_run_stay_in_the_map() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1), (3, 0)]), false, false, &|_| false);
        whole.see(&window(&[(3, 0)]), true, false, &|_| false);
        whole.keep(&moved(2, 1, 0));
        assert_eq!(whole.places(), named(&[(1, 0), (2, 10), (3, 0)]));
    }
}

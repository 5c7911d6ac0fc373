//! The whole mapping that kept moves of tasks belong to.
//!
//! A move is tried and kept beside tasks that stay where they are. Another run may place those tasks elsewhere (a
//! mapper that takes workers in turn depends on the order in which tasks are made), so what is saved are the
//! workers of all tasks.

use std::collections::{BTreeMap, HashSet};

use super::placing::PLACED_MAX;
use super::window::Window;
use crate::action::{Action, Knob};

/// The names and workers of tasks, by the tasks' numbers.
type Places = BTreeMap<u64, (String, u64)>;

/// Follows the workers of all tasks.
#[derive(Default)]
pub(super) struct Whole {
    /// The workers before the present trial, or now if there is none.
    before: Places,
    /// The workers with the moves that were kept last; empty if none was kept.
    kept: Places,
}

impl Whole {
    /// Notes where tasks are in a window without a trial; of a window in a trial, which tasks still exist. If
    /// `are_free`, the run itself may move tasks, or there are too many, and only moved ones are followed.
    pub(super) fn see(
        &mut self,
        window: &Window,
        is_trial: bool,
        are_free: bool,
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
        if are_free || window.tasks.len() > PLACED_MAX {
            return;
        }
        for task in window.tasks.iter().filter(|task| !by_run(task.id)) {
            if let Some(worker) = task.worker {
                self.before.insert(task.id, (task.name.clone(), u64::from(worker)));
            }
        }
    }

    /// Notes an action that was kept.
    pub(super) fn keep(&mut self, action: &Action) {
        let mut moves = moves(action).peekable();
        if moves.peek().is_none() {
            return;
        }
        // Tasks that were moved before and are not followed any more stay in the map.
        self.kept.extend(self.before.iter().map(|(task, place)| (*task, place.clone())));
        self.kept.extend(moves.map(|(task, name, _, to)| (task, (name.to_owned(), to))));
    }

    /// Notes an action that was taken back.
    pub(super) fn undo(&mut self, action: &Action) {
        for (task, _, from, _) in moves(action) {
            if let Some((_, worker)) = self.kept.get_mut(&task) {
                *worker = from;
            }
        }
    }

    /// The names of tasks, in the order in which they were made, and their workers.
    pub(super) fn places(self) -> Vec<(String, u64)> {
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

    fn named(expected: &[(u64, u64)]) -> Vec<(String, u64)> {
        expected.iter().map(|(task, worker)| (format!("t{task}"), *worker)).collect()
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
        assert_eq!(whole.places(), named(&[(1, 1), (2, 1)]));
    }

    #[test]
    fn a_move_that_is_taken_back_is_not_saved() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1)]), false, false, &|_| false);
        whole.undo(&moved(1, 0, 1));
        whole.keep(&moved(2, 1, 0));
        whole.see(&window(&[(1, 0), (2, 0)]), false, false, &|_| false);
        whole.keep(&moved(1, 0, 1));
        whole.undo(&moved(1, 0, 1));
        assert_eq!(whole.places(), named(&[(1, 0), (2, 0)]));
    }

    #[test]
    fn where_the_run_moves_tasks_only_moved_ones_are_saved() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1)]), false, true, &|_| false);
        whole.keep(&moved(2, 1, 0));
        assert_eq!(whole.places(), named(&[(2, 0)]));
    }

    #[test]
    fn tasks_that_end_with_the_run_stay_in_the_map() {
        let mut whole = Whole::default();
        whole.see(&window(&[(1, 0), (2, 1), (3, 0)]), false, false, &|_| false);
        whole.see(&window(&[(3, 0)]), true, false, &|_| false);
        whole.keep(&moved(2, 1, 0));
        assert_eq!(whole.places(), named(&[(1, 0), (2, 0), (3, 0)]));
    }
}

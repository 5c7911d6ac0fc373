//! Tasks to which a file of settings assigns a worker: they are moved there as soon as they exist.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_exec::{Placement, TaskId, TaskMover};
use thalweg_monitor::{LiveRow, Names, live_rows, names, number_equal_names};
use thalweg_space::reader::SpaceReader;

use crate::error::Error;
use crate::tuned::TaskPlace;

/// The interval at which the list of tasks is read: short while most tasks are made.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOK_EVERY_AT_FIRST: Duration = Duration::from_millis(5);
const AT_FIRST: Duration = Duration::from_millis(500);
/// The longest wait for tasks; a task that is made later stays where the mapper puts it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time for the workers to take note of a move.
const MOVE_MAX: Duration = Duration::from_secs(3);

/// Moves tasks by their names.
pub(super) struct Placing {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Placing {
    /// Starts to move tasks to their workers.
    pub(super) fn start(
        places: &[TaskPlace],
        space: &Path,
        mover: TaskMover,
    ) -> Result<Option<Placing>, Error> {
        if places.is_empty() {
            return Ok(None);
        }
        let reader = SpaceReader::open(space).map_err(Error::usage_of)?;
        let mut left: HashMap<String, TaskPlace> =
            places.iter().map(|place| (place.task.clone(), place.clone())).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let place = move || {
            let begun = Instant::now();
            let mut known = Names::default();
            while !left.is_empty() && !seen.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
                // If the space cannot be read any more, the run is ending.
                let Ok(found) = found(&reader, &mut known, &left) else { return };
                let moves = found.into_iter().filter_map(|(task, name)| {
                    let &TaskPlace { worker, stays, .. } = left.get(&name)?;
                    let (task, to) = (TaskId(task), Placement::on_worker(worker));
                    let moving = if stays { mover.move_task(task, to) } else { mover.move_freely(task, to) };
                    Some((name, moving))
                });
                // All moves are asked for before the first one is waited for.
                let moves: Vec<_> = moves.collect();
                for (name, moving) in moves {
                    // A move fails if the task has ended, or if no worker has received it yet. In the second case
                    // the next look finds it again.
                    if moving.and_then(|moving| moving.wait(MOVE_MAX)).is_ok() {
                        left.remove(&name);
                    }
                }
                let is_first = begun.elapsed() < AT_FIRST;
                thread::park_timeout(if is_first { LOOK_EVERY_AT_FIRST } else { LOOK_EVERY });
            }
        };
        let thread = thread::Builder::new().name("placing".into()).spawn(place);
        let thread = thread.map_err(|error| Error::run("cannot start a thread").because(error))?;
        Ok(Some(Placing { thread: Some(thread), ended }))
    }
}

impl Drop for Placing {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The existing tasks that have one of these names. Of tasks with one name, the second one that was made has `~2`
/// behind its name, as in the files that a tuner saves. `known` has the names of components, and is read again only if it
/// lacks one: this costs more than to read the list of tasks.
fn found(
    reader: &SpaceReader,
    known: &mut Names,
    wanted: &HashMap<String, TaskPlace>,
) -> Result<Vec<(u64, String)>, thalweg_space::Error> {
    let rows = live_rows(&reader.live_rows()?);
    let is_new = |row: &LiveRow| match row {
        LiveRow::Task { component, .. } => *component != 0 && !known.sites.contains_key(component),
        _ => false,
    };
    if rows.iter().any(is_new) {
        *known = names(reader)?;
    }
    let tasks = rows.into_iter().filter_map(|row| match row {
        LiveRow::Task { task, component, replica, .. } => {
            Some((task, known.task(component, replica, replica > 0)))
        }
        _ => None,
    });
    let mut tasks: Vec<(u64, String)> = tasks.collect();
    tasks.sort_by_key(|(task, _)| *task);
    number_equal_names(tasks.iter_mut().map(|(_, name)| name));
    tasks.retain(|(_, name)| wanted.contains_key(name));
    Ok(tasks)
}

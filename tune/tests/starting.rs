//! A tuner that is started together with the run that it tunes.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thalweg_exec::{Context, Options, Runtime, Stop, Task, TaskSpec};
use thalweg_space::{Space, SpaceOptions};
use thalweg_tune::{Options as TuneOptions, TuneProgress, tune};

/// Works until the flag is set.
struct Works(Arc<AtomicBool>);

impl Task for Works {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        if self.0.load(Ordering::Relaxed) { Stop::Ended } else { Stop::QuantumSpent }
    }
}

#[test]
fn a_run_is_tuned_although_it_has_no_settings_and_no_tasks_yet() {
    let folder = tempfile::tempdir().unwrap();
    let parent = Some(folder.path().to_owned());
    let space =
        Space::create(SpaceOptions { name: "late".into(), parent, ..SpaceOptions::default() }).unwrap();
    let path = space.path().to_owned();
    let over = Arc::new(AtomicBool::new(false));
    let tuning = thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let is_measured = Cell::new(false);
            let tuned = tune(&path, &TuneOptions::default(), &|| is_measured.get(), &mut |progress| {
                is_measured.set(is_measured.get() || matches!(progress, TuneProgress::Window { .. }));
            });
            over.store(true, Ordering::Relaxed);
            tuned.map(|_| is_measured.get())
        }
    });
    // The tuner looks at the space several times before the run is there.
    thread::sleep(Duration::from_millis(200));
    let runtime = Runtime::new(Options { space: Some(space), workers: 1, ..Options::default() }).unwrap();
    thread::sleep(Duration::from_millis(100));
    runtime.spawn(TaskSpec::default(), Works(over));
    assert_eq!(runtime.join().unwrap().failures, []);
    assert_eq!(tuning.join().unwrap().map_err(|why| format!("{why:?}")), Ok(true));
}

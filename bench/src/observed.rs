//! A runtime as `thalweg run` starts it: with a space, in a given mode, optionally with an archive
//! (`--keep`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thalweg_exec::{Mode, Options, Runtime, Summary};
use thalweg_space::archive::Archiver;
use thalweg_space::{ElementOptions, Policy, Space, SpaceOptions};

/// A runtime and its space, which is removed when the runtime was joined.
pub(crate) struct Observed {
    pub(crate) runtime: Runtime,
    archiving: Option<Archiving>,
    directory: Directory,
}

/// A thread that archives every event of a space.
struct Archiving {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Archiving {
    /// Starts the archiving of a space, on the cores of the calling thread.
    fn of(space: &Space) -> Result<Archiving, String> {
        let told = |error: thalweg_space::Error| error.to_string();
        let mut archiver = Archiver::open(space.path()).map_err(told)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            loop {
                let was_over = over.load(Ordering::Acquire);
                match archiver.step().map_err(told)? {
                    0 if was_over => return archiver.finish().map_err(told),
                    0 => thread::sleep(Duration::from_millis(1)),
                    _ => {}
                }
            }
        });
        Ok(Archiving { is_over, thread })
    }

    fn join(self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().map_err(|_| "the archiver panicked")?
    }
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Observed {
    /// A runtime with workers pinned to separate cores and streams of the default capacity, and its space in
    /// the default place.
    pub(crate) fn new(workers: usize, mode: Mode) -> Result<Observed, String> {
        Observed::with(Options { workers, mode, ..Options::default() })
    }

    /// A runtime with these options, and its space in the default place.
    pub(crate) fn with(options: Options) -> Result<Observed, String> {
        Observed::made(options, false)
    }

    /// A runtime in mode full with an archive: no event is overwritten, and a thread of the process, on the
    /// cores of the calling thread, compresses the events into files.
    pub(crate) fn kept(options: Options) -> Result<Observed, String> {
        Observed::made(Options { mode: Mode::Full, ..options }, true)
    }

    fn made(options: Options, is_kept: bool) -> Result<Observed, String> {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut element = ElementOptions::default();
        if is_kept {
            element.policy = Policy::Wait { timeout: Duration::from_secs(60) };
        }
        let space =
            SpaceOptions { name: format!("thalweg-bench-{number}"), element, ..SpaceOptions::default() };
        let space = Space::create(space).map_err(|error| error.to_string())?;
        let directory = Directory(space.path().to_owned());
        let archiving = is_kept.then(|| Archiving::of(&space)).transpose()?;
        let options = Options { pin: true, space: Some(space), ..options };
        let runtime = Runtime::new(options).map_err(|error| error.to_string())?;
        Ok(Observed { runtime, archiving, directory })
    }

    /// The path of the runtime's space.
    pub(crate) fn path(&self) -> &Path {
        &self.directory.0
    }

    /// Waits for the end of all tasks, and checks that none failed.
    pub(crate) fn join(self) -> Result<Summary, String> {
        let Observed { runtime, archiving, directory } = self;
        let summary = runtime.join().map_err(|error| error.to_string())?;
        archiving.map_or(Ok(()), Archiving::join)?;
        drop(directory);
        match summary.failures.first() {
            None => Ok(summary),
            Some(failure) => Err(format!("task {} failed: {}", failure.task.0, failure.message)),
        }
    }
}

/// `off`, `metrics`, `full`.
pub(crate) fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Metrics => "metrics",
        Mode::Full => "full",
    }
}

//! A runtime as `thalweg run` starts it: with a space, in a mode.

use std::path::{Path, PathBuf};
use thalweg_exec::{Mode, Options, Runtime, Summary};
use thalweg_space::{Space, SpaceOptions};

/// A runtime and its space; the space goes when the runtime was joined.
pub(crate) struct Observed {
    pub(crate) runtime: Runtime,
    directory: Directory,
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Observed {
    /// Workers pinned to cores of their own, streams of the default capacity, in the default place of spaces.
    pub(crate) fn new(workers: usize, mode: Mode) -> Result<Observed, String> {
        Observed::with(Options { workers, mode, ..Options::default() })
    }

    /// The same with more to say about the runtime.
    pub(crate) fn with(options: Options) -> Result<Observed, String> {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let space = SpaceOptions { name: format!("thalweg-bench-{number}"), ..SpaceOptions::default() };
        let space = Space::create(space).map_err(|error| error.to_string())?;
        let directory = Directory(space.path().to_owned());
        let options = Options { pin: true, space: Some(space), ..options };
        let runtime = Runtime::new(options).map_err(|error| error.to_string())?;
        Ok(Observed { runtime, directory })
    }

    /// Where its space is.
    pub(crate) fn path(&self) -> &Path {
        &self.directory.0
    }

    /// Waits for the end of all tasks, and sees that none failed.
    pub(crate) fn join(self) -> Result<Summary, String> {
        let Observed { runtime, directory } = self;
        let summary = runtime.join().map_err(|error| error.to_string())?;
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

//! The runtime of the examples that are measured: one worker, in a mode that is given by name.

use std::path::{Path, PathBuf};

use thalweg_exec::{Mode, Options, Runtime};
use thalweg_space::{Space, SpaceOptions};

/// A runtime with one worker, and the folder of its space.
pub(crate) struct Measured {
    pub(crate) runtime: Runtime,
    space: Option<PathBuf>,
    folder: PathBuf,
}

impl Measured {
    /// A runtime in the mode with this name; with `none`, without a space. `example` is in the folder's name.
    pub(crate) fn new(example: &str, mode: &str) -> Measured {
        let mode = match mode {
            "none" => None,
            "off" => Some(Mode::Off),
            "metrics" => Some(Mode::Metrics),
            "full" => Some(Mode::Full),
            other => panic!("no mode is called {other}"),
        };
        let folder = std::env::temp_dir().join(format!("thalweg-{example}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let parent = Some(folder.clone());
        let space = mode.map(|_| Space::create(SpaceOptions { parent, ..SpaceOptions::default() }).unwrap());
        let path = space.as_ref().map(|space| space.path().to_owned());
        let options = Options { workers: 1, mode: mode.unwrap_or_default(), space, ..Options::default() };
        Measured { runtime: Runtime::new(options).unwrap(), space: path, folder }
    }

    /// The folder of the space.
    #[allow(dead_code, reason = "not every example looks at the space")]
    pub(crate) fn space(&self) -> Option<&Path> {
        self.space.as_deref()
    }

    /// Runs all tasks to their end, and removes the folder.
    pub(crate) fn end(self) {
        let Measured { runtime, folder, .. } = self;
        runtime.start();
        let summary = runtime.join().unwrap();
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

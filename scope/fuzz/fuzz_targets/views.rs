//! Reads any text as a view. The text must either be rejected, with problems at places within the text, or be
//! accepted and pulled of a space.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::OnceLock;
use thalweg_scope::{Backlog, Pulled, Scope, Target, View};
use thalweg_space::{CollectorOptions, Kind, PathCollector, Space, SpaceOptions};

/// An event with the fields of a dispatch, under the same name.
#[derive(Kind)]
#[kind(name = "exec.dispatch")]
struct Dispatch {
    #[kind(unit = "ticks")]
    duration_ticks: u32,
    #[kind(unit = "ticks")]
    ready_ticks: u32,
    reads: u16,
}

static PLACE: OnceLock<(PathBuf, Space)> = OnceLock::new();

/// A space with events of two kinds and gaps.
fn place() -> &'static PathBuf {
    let (folder, space) = PLACE.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("thalweg-fuzz-views-{}", std::process::id()));
        let options = SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() };
        let space = Space::create(options).expect("a temporary folder");
        let write = space.name("write").expect("a name");
        let mut path = PathCollector::new(&space, "a path", CollectorOptions::default()).expect("a path");
        let mut paths = space.collector::<Dispatch>("a task", CollectorOptions::default()).expect("another");
        for n in 0..200 {
            let started = path.start();
            path.complete(started, write, n, n * n);
            let (duration_ticks, ready_ticks) = (n as u32 * 77, n as u32);
            paths.record(&Dispatch { duration_ticks, ready_ticks, reads: n as u16 });
        }
        extern "C" fn remove() {
            if let Some((folder, _)) = PLACE.get() {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
        // SAFETY: the handler only calls functions that are permitted at the end of a process.
        unsafe { libc::atexit(remove) };
        (folder, space)
    });
    assert!(folder.is_dir());
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| space.path().to_path_buf())
}

fn look(pulled: &Pulled) {
    for tuple in pulled.batch.tuples() {
        let fields = tuple.kind().fields.len();
        assert!((0..fields).all(|n| tuple.value(n).is_some()), "a value for each field");
        assert!(tuple.value(fields).is_none());
    }
    assert_eq!(pulled.lost, pulled.batch.lost());
}

fuzz_target!(|text: &str| {
    let view = match View::read(text) {
        Ok(view) => view,
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(problem.span.start <= text.len());
                problem.render("view.toml", text);
            }
            return;
        }
    };
    let Ok(mut scope) = Scope::open(&view, Target::of(place()), Backlog::All) else { return };
    look(&scope.pull());
    look(&scope.pull_latest());
    look(&scope.pull_since());
});

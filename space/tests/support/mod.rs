//! Helpers of the tests: a directory that is removed at the end, and functions that read everything of a
//! space.
#![allow(dead_code)]

pub(crate) mod checked;
pub(crate) mod child;
pub(crate) mod former;
pub(crate) mod hostile;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_space::reader::{EventStream, Item, SpaceReader};
use thalweg_space::{ElementOptions, Error, Kind, NameRef, Policy, Row, RowKind, Space, SpaceOptions};

/// Reports that the calling test cannot run on this machine, and why. `cargo xtask test` counts the test as
/// skipped, while the harness hides the output of passing tests and counts it as passed.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // Writing to `stdout()` directly bypasses the harness. In a test's child process the harness hides
    // standard output, but standard error reaches the parent.
    std::io::stdout().write_all(format!("\n{line}").as_bytes()).unwrap();
    eprint!("{line}");
}

/// A directory for one test, which is removed at the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// Makes a directory in the default directory of spaces, or otherwise in memory if possible.
    pub(crate) fn new(name: &str) -> Directory {
        let memory = Path::new("/dev/shm");
        let usual = || if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
        Directory::below(std::env::var_os("THALWEG_SPACES").map_or_else(usual, PathBuf::from), name)
    }

    /// Makes a directory on the file system on which the test was built.
    pub(crate) fn on_disk(name: &str) -> Directory {
        let target = option_env!("CARGO_TARGET_TMPDIR").map(PathBuf::from);
        Directory::below(target.unwrap_or_else(std::env::temp_dir), name)
    }

    fn below(parent: PathBuf, name: &str) -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("thalweg-test-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn options(
    directory: &Path,
    block_bytes: usize,
    block_count: usize,
    policy: Policy,
) -> SpaceOptions {
    SpaceOptions {
        name: "test".into(),
        parent: Some(directory.into()),
        element: ElementOptions { block_bytes, block_count, policy },
        command: "test --command".into(),
        ..SpaceOptions::default()
    }
}

pub(crate) fn space(directory: &Directory, block_bytes: usize, block_count: usize, policy: Policy) -> Space {
    space_in(directory.path(), block_bytes, block_count, policy)
}

pub(crate) fn space_in(directory: &Path, block_bytes: usize, block_count: usize, policy: Policy) -> Space {
    Space::create(options(directory, block_bytes, block_count, policy)).unwrap()
}

/// Counts.
#[derive(Kind)]
#[kind(name = "test.counted")]
pub(crate) struct Counted {
    /// The count.
    pub(crate) count: u64,
}

/// The parts of an item that tests compare.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Event { time: u64, writer: u32, sequence: u64, kind: String, fields: Vec<String> },
    Gap { writer: u32, lost: u64, from_sequence: u64 },
}

/// Reads all events and gaps that can be read, and the first error.
pub(crate) fn read_events(path: &Path) -> (Vec<Seen>, Option<Error>) {
    match SpaceReader::open(path) {
        Ok(reader) => read_stream(reader.events()),
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// All events and gaps of a stream, and the first error.
pub(crate) fn read_stream(mut stream: EventStream) -> (Vec<Seen>, Option<Error>) {
    let mut seen = Vec::new();
    let mut problem = None;
    loop {
        let before = seen.len();
        let again = problem.is_some();
        let taken = stream.poll(1000, &mut |item| seen.push(see(&item)));
        match taken {
            Ok(0) => return (seen, problem),
            Ok(_) => {}
            Err(error) => drop(problem.get_or_insert(error)),
        }
        // An identity that cannot be read any more is reported at each poll.
        if again && seen.len() == before {
            return (seen, problem);
        }
        assert!(seen.len() < 10_000_000, "a reader must come to an end");
    }
}

pub(crate) fn see(item: &Item<'_>) -> Seen {
    match item {
        Item::Event(event) => Seen::Event {
            time: event.time,
            writer: event.writer,
            sequence: event.sequence,
            kind: event.kind.name.clone(),
            fields: event.fields().map(|(_, value)| value.to_string()).collect(),
        },
        Item::Gap { writer, lost, from_sequence, .. } => {
            Seen::Gap { writer: *writer, lost: *lost, from_sequence: *from_sequence }
        }
    }
}

/// Whether the test was started by `cargo xtask test --long`.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("THALWEG_TEST_LONG").is_some()
}

/// The number of events, and the number of lost events.
pub(crate) fn totals(seen: &[Seen]) -> (u64, u64) {
    seen.iter().fold((0, 0), |(events, lost), item| match item {
        Seen::Event { .. } => (events + 1, lost),
        Seen::Gap { lost: more, .. } => (events, lost + more),
    })
}

/// A live row for tests, which describes nothing in particular.
#[derive(Row)]
#[row(name = "test.thing")]
pub(crate) struct Thing {
    /// How many.
    pub(crate) count: u64,
    /// The name of the thing.
    pub(crate) name: NameRef,
}

pub(crate) fn thing(space: &Space) -> RowKind {
    space.row_kind::<Thing>().unwrap()
}

/// The fields of each event of this kind, as text.
pub(crate) fn of_kind(space: &Space, wanted: &str) -> Vec<Vec<String>> {
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    let fields = |item| match item {
        Seen::Event { kind, fields, .. } if kind == wanted => Some(fields),
        _ => None,
    };
    seen.into_iter().filter_map(fields).collect()
}

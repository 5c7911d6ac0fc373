//! A run killed at a random moment leaves a space that can be read, with every committed event of every
//! worker.
//!
//! Counters that are independent of the events tell which events must be there: when a dispatch ends, its
//! events are committed first, and only then are the live rows of its streams and of its worker written.

mod des_run;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use thalweg_space::reader::{Item, SpaceReader};

const FILE_BYTES: usize = 10 << 20;
/// The number of runs that are killed between their first event and their last.
const ROUNDS: usize = 100;

/// The sums of a space's events.
#[derive(Default)]
struct Seen {
    events: u64,
    lost: u64,
    /// Messages written and read, by stream.
    written: HashMap<u64, u64>,
    read: HashMap<u64, u64>,
    by_writer: HashMap<u32, u64>,
}

fn seen(reader: &SpaceReader, context: &str) -> Seen {
    let mut seen = Seen::default();
    let mut events = reader.events();
    let mut last_time = 0;
    // For each writer, and each number of a base that its dispatches name, the input and output stream of
    // that base.
    let mut streams: HashMap<(u32, u64), (u64, u64)> = HashMap::new();
    loop {
        let taken = events.poll(100_000, &mut |item| match item {
            Item::Event(event) => {
                seen.events += 1;
                *seen.by_writer.entry(event.writer).or_default() += 1;
                assert!(event.time >= last_time, "{context}: events out of order");
                last_time = event.time;
                let count = |name: &str| event.u64(event.kind.field(name).expect("a field of the contract"));
                match event.kind.name.as_str() {
                    "exec.stream_wrote" => {
                        *seen.written.entry(count("stream")).or_default() += count("count")
                    }
                    "exec.stream_read" => *seen.read.entry(count("stream")).or_default() += count("count"),
                    "exec.dispatch_base" => {
                        streams.insert((event.writer, count("number")), (count("input"), count("output")));
                    }
                    // The streams in the event of a task's creation are the base of its dispatches, if the
                    // event has a number for them.
                    "exec.task_created" => {
                        streams
                            .insert((event.writer, count("base_number")), (count("input"), count("output")));
                    }
                    "exec.dispatch" | "exec.dispatch_long" => {
                        let (input, output) = streams[&(event.writer, count("base_number"))];
                        *seen.read.entry(input).or_default() += count("reads");
                        *seen.written.entry(output).or_default() += count("writes");
                    }
                    _ => {}
                }
            }
            Item::Gap { lost, .. } => seen.lost += lost,
        });
        if taken.unwrap_or_else(|error| panic!("{context}: {error}")) == 0 {
            return seen;
        }
    }
}

/// Opens a killed run's space and compares its events with its counters.
fn check(space: &Path, context: &str) -> Seen {
    let reader = SpaceReader::open(space).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(!reader.is_alive(), "{context}: the process is dead");
    let seen = seen(&reader, context);
    assert_eq!(seen.lost, 0, "{context}: events are missing");
    for row in reader.live_rows().unwrap_or_else(|error| panic!("{context}: {error}")) {
        let cell = |name: &str| row.cell(name).unwrap_or_else(|| panic!("{context}: no cell {name}"));
        let at_least = |found: &HashMap<u64, u64>, what: &str| {
            let found = found.get(&row.id).copied().unwrap_or(0);
            let counted = cell(what);
            assert!(
                found >= counted,
                "{context}: stream {}: {counted} {what}, the events say {found}",
                row.id
            );
        };
        match row.kind_name() {
            "exec.stream" => {
                at_least(&seen.written, "written");
                at_least(&seen.read, "read");
            }
            // The size of a message is recorded after the dispatch that wrote the message.
            "exec.message_sizes" => at_least(&seen.written, "messages"),
            "exec.worker" => {
                let committed = cell("events");
                let most = seen.by_writer.values().copied().max().unwrap_or(0);
                assert!(most >= committed, "{context}: worker {} committed {committed} events", row.id);
            }
            kind => assert_eq!(kind, "exec.task", "{context}"),
        }
    }
    seen
}

#[test]
fn a_killed_run_shows_every_committed_event() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("plain"), folder.path().join("encrypted"));
    des_run::made_file(&input, FILE_BYTES);
    let run = |space: &Path| {
        let mut command = des_run::encrypt(&input, &output, 2, "full");
        command.arg("--keep").arg("--space").arg(space).stderr(std::process::Stdio::null());
        command
    };

    let whole = folder.path().join("whole");
    let started = Instant::now();
    des_run::succeed(&mut run(&whole));
    let mut duration = started.elapsed();
    let all = check(&whole, "a whole run").events;

    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |time| time.subsec_nanos() | 1);
    eprintln!("seed {seed}, a whole run takes {duration:?} and has {all} events");
    let mut random = u64::from(seed);
    let (mut in_the_middle, mut rounds, mut before_the_space) = (0, 0, 0);
    while in_the_middle < ROUNDS {
        rounds += 1;
        assert!(rounds < 10 * ROUNDS, "only {in_the_middle} of {rounds} rounds died in the middle of a run");
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = duration.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64);
        let space = folder.path().join(format!("killed-{rounds}"));
        let mut child = run(&space).spawn().expect("the program starts");
        let deadline = Instant::now() + moment;
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        // `kill` sends SIGKILL; the run may have ended just before.
        child.kill().expect("a child of ours");
        let child_was_killed = child.wait().expect("a child of ours").code().is_none();
        if !space.join("space").exists() {
            before_the_space += 1;
            continue;
        }
        let context = format!("seed {seed}, round {rounds}, killed after {moment:?}");
        let events = check(&space, &context).events;
        in_the_middle += usize::from(events > 0 && events < all);
        if !child_was_killed {
            // The run ended before the kill, because the machine is faster now than during the first run.
            duration = duration.mul_f64(0.9);
        }
        for command in ["report", "events"] {
            des_run::succeed(des_run::thalweg().arg(command).arg(&space));
        }
        std::fs::remove_dir_all(&space).expect("a space is a directory");
    }
    eprintln!(
        "{in_the_middle} of {rounds} rounds died in the middle, {before_the_space} before there was a space"
    );
}

//! Cases of group `event` with a concurrent reader: a follower in another process, or a consumer for which
//! the writer waits.

use crate::cores::{off_first_core, on_cores};
use crate::event::{One, bare_clock, emitting_into};
use crate::measure::{Case, Contestant, Goal, repeated};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_space::archive::Archiver;
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{ElementOptions, KindId, Policy, Space, SpaceOptions, Writer};

/// The argument that makes this program a follower.
pub(crate) const FOLLOW: &str = "follow";
/// The time for which a follower sleeps if there is no new block.
const REST: Duration = Duration::from_micros(50);
/// The number of events drained for a sample: 64 MB.
const DRAINED: u64 = 4_000_000;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![timed(), untimed(), drained()]
}

fn timed() -> Case<'static> {
    Case {
        group: "event",
        name: "with its own time, followed by another process".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: followed("emit", |writer, kind, number| writer.emit(kind, &One { number })),
        rivals: Vec::new(),
        limit: Some(bare_clock()),
        goal: Goal::RatioAtMost(1.1),
    }
}

fn untimed() -> Case<'static> {
    Case {
        group: "event",
        name: "with the time of the one before, followed by another process".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: followed("emit_same_time", |writer, kind, number| {
            writer.emit_same_time(kind, &One { number });
        }),
        rivals: Vec::new(),
        limit: None,
        goal: Goal::AtMost(1.5),
    }
}

/// A space and the process that follows it; dropping this value ends the process and removes the space.
struct Followed {
    space: Space,
    follower: Child,
}

impl Followed {
    fn new() -> Result<Followed, String> {
        let space = make("thalweg-bench-followed", ElementOptions::default())?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg(FOLLOW).arg(space.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut follower = command.spawn().map_err(|error| format!("cannot start a follower: {error}"))?;
        let output = follower.stdout.as_mut().expect("it is piped");
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).map_err(|error| error.to_string())?;
        Ok(Followed { space, follower })
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.follower.kill().ok();
        self.follower.wait().ok();
        std::fs::remove_dir_all(self.space.path()).ok();
    }
}

fn followed(
    name: &'static str,
    emit: impl Fn(&mut Writer, KindId<One>, u64) + 'static,
) -> Contestant<'static> {
    let mut followed = None;
    emitting_into(
        name,
        move || {
            let followed = match &mut followed {
                Some(followed) => followed,
                none => none.insert(Followed::new()?),
            };
            followed.space.writer("bench").map_err(|error| error.to_string())
        },
        emit,
    )
}

/// Follows the space in `path` block by block, on other cores than the writer's, until it is killed.
pub(crate) fn follow(path: &Path) -> Result<(), String> {
    let mut stream = SpaceReader::open(path).map_err(|error| error.to_string())?.events().by_block();
    println!("ready");
    off_first_core();
    loop {
        let mut sum = 0;
        let mut take = |item: Item<'_>| {
            if let Item::Event(event) = item {
                sum ^= event.time;
            }
        };
        if stream.poll(1 << 16, &mut take).map_err(|error| error.to_string())? == 0 {
            std::thread::sleep(REST);
        }
        std::hint::black_box(sum);
    }
}

/// One writer that waits for its consumer, and an archiver that reads all its events into memory.
fn drained() -> Case<'static> {
    Case {
        group: "event",
        name: "drained to memory, the writer waits, none lost".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: Contestant::new("emit_same_time and Archiver", "", drain),
        rivals: Vec::new(),
        limit: None,
        // The goal is 80 million events a second.
        goal: Goal::AtMost(12.5),
    }
}

fn drain() -> Result<f64, String> {
    let policy = Policy::Wait { timeout: Duration::from_secs(10) };
    let space = make("thalweg-bench-drained", ElementOptions { policy, ..ElementOptions::default() })?;
    let drained = drain_into_memory(&space);
    std::fs::remove_dir_all(space.path()).ok();
    drained
}

fn drain_into_memory(space: &Space) -> Result<f64, String> {
    let told = |error: thalweg_space::Error| error.to_string();
    let mut writer = space.writer("bench").map_err(told)?;
    let kind = writer.declare::<One>().map_err(told)?;
    let over = AtomicBool::new(false);
    let mut archiver = Archiver::open(space.path()).map_err(told)?;
    on_cores(2, || {
        std::thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    archiver.step()?;
                }
                archiver.finish()
            });
            let begin = Instant::now();
            repeated(DRAINED, |number| writer.emit_same_time(kind, &One { number }));
            let drops = writer.drops();
            drop(writer);
            over.store(true, Ordering::Release);
            consumer.join().expect("an archiver does not panic").map_err(told)?;
            let took = begin.elapsed();
            if drops > 0 {
                return Err(format!("{drops} events were dropped"));
            }
            Ok(took.as_secs_f64() * 1e9 / DRAINED as f64)
        })
    })
}

fn make(name: &str, element: ElementOptions) -> Result<Space, String> {
    let options = SpaceOptions { name: name.into(), element, ..SpaceOptions::default() };
    Space::create(options).map_err(|error| error.to_string())
}

//! Group `archive`: events into the archive and out of it, by one thread, against what cannot be beaten: the copy of their bytes,
//! and the compressor alone on the same bytes.

use crate::measure::{Case, Contestant, Goal};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thalweg_space::archive::{ArchiveOptions, Archiver};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{ElementOptions, Kind, Policy, Space, SpaceOptions};

/// Events of a space that is archived: more than caches hold.
const EVENTS: u64 = 1 << 20;

/// A dispatch of one message, as the runtime records it.
#[derive(Kind)]
#[kind(name = "bench.dispatch")]
struct Dispatch {
    #[kind(unit = "ticks")]
    duration_ticks: u32,
    #[kind(unit = "ticks")]
    ready_ticks: u32,
    base_number: u32,
    reads: u16,
    writes: u16,
    outcome: u8,
    cause: u8,
    descent: u8,
    offset: u16,
}

/// A call, or its end.
#[derive(Kind)]
#[kind(name = "bench.call")]
struct Call {
    function: u32,
    depth: u32,
}

/// A counter's value.
#[derive(Kind)]
#[kind(name = "bench.counter")]
struct Counter {
    counter: u32,
    unit: u32,
    value: u64,
}

/// Which events.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    words: u64,
    write: fn(&Space),
    /// Bytes of an event in the archive, at most.
    bytes: f64,
}

/// Numbers that follow from their index alone.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn dispatches(space: &Space) {
    let mut writer = space.writer("w").expect("a writer");
    let kind = writer.declare::<Dispatch>().expect("a kind");
    let mut time = 1_000_000;
    for n in 0..EVENTS {
        let bits = mixed(n);
        let duration_ticks = 400 + (bits & 0xff) as u32;
        time += u64::from(duration_ticks) + 60 + (bits >> 8 & 0x1f);
        let event = Dispatch {
            duration_ticks,
            ready_ticks: 1000 + (bits >> 16 & 0x3ff) as u32,
            base_number: (n % 7) as u32,
            reads: 1,
            writes: 1,
            outcome: u8::from(bits >> 40 & 0xf == 0),
            cause: 1,
            descent: 1,
            offset: 0,
        };
        writer.emit_at(time, kind, &event);
    }
}

fn calls(space: &Space) {
    let mut writer = space.writer("w").expect("a writer");
    let kind = writer.declare::<Call>().expect("a kind");
    let mut time = 1_000_000;
    let mut stack = vec![0_u32];
    for n in 0..EVENTS {
        let bits = mixed(n);
        time += 40 + (bits & 0x1ff);
        let top = *stack.last().expect("main");
        let calls = stack.len() < 2 || (stack.len() < 24 && bits >> 20 & 1 == 0);
        let depth = stack.len() as u32;
        if calls {
            let function = top.wrapping_mul(3).wrapping_add(1 + (bits >> 30 & 3) as u32) % 200;
            stack.push(function);
            writer.emit_at(time, kind, &Call { function, depth });
        } else {
            stack.pop();
            writer.emit_at(time, kind, &Call { function: top, depth: depth - 1 });
        }
    }
}

fn counters(space: &Space) {
    let mut writer = space.writer("w").expect("a writer");
    let kind = writer.declare::<Counter>().expect("a kind");
    let mut values = [0_u64; 16];
    for n in 0..EVENTS {
        let bits = mixed(n);
        let counter = n % 16;
        let value = &mut values[counter as usize];
        *value += counter * 1000 + (bits & 0x3f);
        // All counters are read at one moment, ten times a second.
        let time = 1_000_000 + n / 16 * 260_000_000 + (n % 16) * 90 + (bits >> 8 & 7);
        writer.emit_at(time, kind, &Counter { counter: counter as u32, unit: 0, value: *value });
    }
}

const LOADS: [Load; 3] = [
    Load { name: "dispatches of one message", words: 4, write: dispatches, bytes: 10.0 },
    Load { name: "calls and their ends", words: 2, write: calls, bytes: 6.0 },
    Load { name: "counters", words: 3, write: counters, bytes: 4.0 },
];

/// A space with all of a load's events, and a directory for its archive. Both go when it does.
struct Recorded {
    space: Space,
    parent: PathBuf,
    raw: Vec<u8>,
}

impl Recorded {
    fn new(load: Load) -> Recorded {
        let parent = std::env::temp_dir().join(format!("thalweg-bench-archive-{}-{}", std::process::id(), load.words));
        let block_count = (EVENTS * 8 * (load.words + 1) >> 16) as usize + 2;
        let element = ElementOptions { block_bytes: 64 << 10, block_count, policy: Policy::Overwrite };
        let options = SpaceOptions { parent: Some(parent.clone()), element, ..SpaceOptions::default() };
        let space = Space::create(options).expect("a space");
        (load.write)(&space);
        let raw = std::fs::read(space.path().join("0001.element")).expect("an element");
        Recorded { space, parent, raw }
    }

    fn kept(&self) -> PathBuf {
        self.parent.join("kept")
    }

    fn archive(&self) -> Result<Duration, String> {
        let _ = std::fs::remove_dir_all(self.kept());
        let begin = Instant::now();
        let options = ArchiveOptions { directory: Some(self.kept()), ..ArchiveOptions::default() };
        let mut archiver = Archiver::with_options(self.space.path(), options).map_err(|error| error.to_string())?;
        archiver.step().map_err(|error| error.to_string())?;
        archiver.finish().map_err(|error| error.to_string())?;
        Ok(begin.elapsed())
    }

    fn read(&self) -> Result<Duration, String> {
        let begin = Instant::now();
        let mut count = 0;
        let reader = SpaceReader::open(self.kept()).map_err(|error| error.to_string())?;
        let mut events = reader.events();
        while events.poll(usize::MAX, &mut |item| {
            black_box(&item);
            count += 1;
        }).map_err(|error| error.to_string())? > 0 {}
        if count == EVENTS { Ok(begin.elapsed()) } else { Err(format!("{count} of {EVENTS} events were read")) }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.parent);
    }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / EVENTS as f64
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    LOADS.into_iter().flat_map(cases_of).collect()
}

fn cases_of(load: Load) -> [Case<'static>; 3] {
    let recorded = std::rc::Rc::new(std::cell::LazyCell::new(move || Recorded::new(load)));
    let case = |name: String, unit, ours, rivals, limit, goal| Case {
        group: "archive",
        name,
        params: vec![("bytes", (8 * load.words).to_string())],
        unit,
        ours,
        rivals,
        limit,
        goal,
    };
    let copied = || {
        let (recorded, mut copy) = (recorded.clone(), Vec::new());
        Contestant::new("the copy of their bytes", "", move || {
            let begin = Instant::now();
            copy.clear();
            copy.extend_from_slice(black_box(&recorded.raw));
            black_box(&copy);
            Ok(nanoseconds(begin.elapsed()))
        })
    };
    let ours = recorded.clone();
    let size = recorded.clone();
    let read = recorded.clone();
    let compressed = recorded.clone();
    let compressed_size = recorded.clone();
    [
        case(
            format!("{}, into the archive", load.name),
            "ns",
            Contestant::new("thalweg", "", move || ours.archive().map(nanoseconds)),
            vec![Contestant::new("Zstandard alone, level 1", "", move || {
                let begin = Instant::now();
                let blocks = compressed.raw.chunks(1 << 20);
                let packed = blocks.map(|block| zstd::bulk::compress(block, 1).map_or(0, |packed| packed.len()));
                black_box(packed.sum::<usize>());
                Ok(nanoseconds(begin.elapsed()))
            })],
            Some(copied()),
            Goal::AtMost(100.0),
        ),
        case(
            format!("{}, out of the archive", load.name),
            "ns",
            Contestant::new("thalweg", "", move || {
                if !read.kept().exists() {
                    read.archive()?;
                }
                read.read().map(nanoseconds)
            }),
            Vec::new(),
            Some(copied()),
            Goal::AtMost(33.3),
        ),
        case(
            format!("{}, bytes of one in the archive", load.name),
            "B",
            Contestant::new("thalweg", "", move || {
                size.archive()?;
                let info = thalweg_space::archive::info(size.kept()).map_err(|error| error.to_string())?;
                Ok(info.map_or(f64::NAN, |info| info.bytes as f64 / info.events as f64))
            }),
            vec![Contestant::new("Zstandard alone, level 1", "", move || {
                let blocks = compressed_size.raw.chunks(1 << 20);
                let packed = blocks.map(|block| zstd::bulk::compress(block, 1).map_or(0, |packed| packed.len()));
                Ok(packed.sum::<usize>() as f64 / EVENTS as f64)
            })],
            None,
            Goal::AtMost(load.bytes),
        ),
    ]
}

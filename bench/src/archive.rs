//! Group `archive`: one thread writes events into the archive and reads them, compared with two lower bounds:
//! the copy of their bytes, and the compressor alone on the same bytes.

#[path = "../../space/examples/archiving/loads.rs"]
mod loads;

use crate::measure::{Case, Contestant, Goal};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thalweg_space::archive::{ArchiveOptions, Archiver};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{ElementOptions, Policy, Space, SpaceOptions};

/// The number of events of an archived space, which exceeds the caches.
const EVENTS: u64 = 1 << 20;

/// The events of a case.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    words: u64,
    write: fn(&Space, u64),
    /// The maximal mean size of an event in the archive, in bytes.
    bytes: f64,
}

const LOADS: [Load; 3] = [
    Load { name: "dispatches of one message", words: 4, write: loads::dispatches, bytes: 10.0 },
    Load { name: "calls and their ends", words: 2, write: loads::calls, bytes: 6.0 },
    Load { name: "counters", words: 3, write: loads::counters, bytes: 4.0 },
];

/// A space with all of a load's events, and a directory for its archive. Dropping the value removes space and
/// directory.
struct Recorded {
    space: Space,
    parent: PathBuf,
    raw: Vec<u8>,
}

impl Recorded {
    fn new(load: Load) -> Recorded {
        let parent =
            std::env::temp_dir().join(format!("thalweg-bench-archive-{}-{}", std::process::id(), load.words));
        let block_count = (EVENTS * 8 * (load.words + 1) >> 16) as usize + 2;
        let element = ElementOptions { block_bytes: 64 << 10, block_count, policy: Policy::Overwrite };
        let options = SpaceOptions { parent: Some(parent.clone()), element, ..SpaceOptions::default() };
        let space = Space::create(options).expect("a space");
        (load.write)(&space, EVENTS);
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
        let mut archiver =
            Archiver::with_options(self.space.path(), options).map_err(|error| error.to_string())?;
        archiver.step().map_err(|error| error.to_string())?;
        archiver.finish().map_err(|error| error.to_string())?;
        Ok(begin.elapsed())
    }

    fn read(&self) -> Result<Duration, String> {
        let begin = Instant::now();
        let mut count = 0;
        let reader = SpaceReader::open(self.kept()).map_err(|error| error.to_string())?;
        let mut events = reader.events();
        while events
            .poll(usize::MAX, &mut |item| {
                black_box(&item);
                count += 1;
            })
            .map_err(|error| error.to_string())?
            > 0
        {}
        if count == EVENTS {
            Ok(begin.elapsed())
        } else {
            Err(format!("{count} of {EVENTS} events were read"))
        }
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
                let packed =
                    blocks.map(|block| zstd::bulk::compress(block, 1).map_or(0, |packed| packed.len()));
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
                let packed =
                    blocks.map(|block| zstd::bulk::compress(block, 1).map_or(0, |packed| packed.len()));
                Ok(packed.sum::<usize>() as f64 / EVENTS as f64)
            })],
            None,
            Goal::AtMost(load.bytes),
        ),
    ]
}

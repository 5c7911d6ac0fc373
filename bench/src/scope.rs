//! Group `scope`: the cost of pulling tuples from thousands of elements, compared with a plain loop over
//! `pread`, Performance Co-Pilot's memory-mapped values and a Prometheus client; and the slowdown of the
//! observed programs.

mod goals;
mod rivals;

use crate::measure::{Case, Contestant, Goal};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use thalweg_scope::{Backlog, Leaf, Scope, Target, Tree, View};
use thalweg_space::{Collector, CollectorOptions, Kind, Space, SpaceOptions};

/// The number of collectors on the EventSpace paper's largest node.
const ELEMENTS: usize = 2240;

/// An event for messages on a path.
#[derive(Kind)]
#[kind(name = "bench.beat")]
struct Beat {
    first: u64,
    second: u64,
}

pub(crate) use goals::{HOLD, PULL, SERVE, hold, pull, serve};

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = vec![
        case("latest of pooled elements", Pulls::Latest, Goal::AtMost(30.0)),
        case("since the last pull, one of each", Pulls::Since, Goal::AtMost(100.0)),
        case("latest, filtered and reduced", Pulls::Reduced, Goal::None),
    ];
    cases[0].rivals = vec![rivals::prometheus(ELEMENTS), rivals::performance_co_pilot(ELEMENTS)];
    cases.extend(goals::cases());
    cases
}

#[derive(Clone, Copy)]
enum Pulls {
    Latest,
    Since,
    Reduced,
}

fn case(name: &str, pulls: Pulls, goal: Goal) -> Case<'static> {
    Case {
        group: "scope",
        name: name.into(),
        params: vec![("elements", ELEMENTS.to_string())],
        unit: "ns",
        ours: ours(pulls),
        rivals: Vec::new(),
        limit: Some(limit()),
        goal,
    }
}

/// A space with a collector for each element.
struct World {
    space: Space,
    collectors: Vec<Collector<Beat>>,
    beats: u64,
}

impl World {
    fn new() -> Result<World, String> {
        World::of(ELEMENTS)
    }

    fn of(elements: usize) -> Result<World, String> {
        let told = |error: thalweg_space::Error| error.to_string();
        let options = SpaceOptions { name: "thalweg-bench-scope".into(), ..SpaceOptions::default() };
        let space = Space::create(options).map_err(told)?;
        let collectors = (0..elements)
            .map(|n| space.collector(&format!("path {n}"), CollectorOptions::default()))
            .collect::<Result<_, _>>()
            .map_err(told)?;
        Ok(World { space, collectors, beats: 0 })
    }

    /// Writes one tuple into each element.
    fn beat(&mut self) {
        self.beats += 1;
        for (n, collector) in self.collectors.iter_mut().enumerate() {
            collector.record(&Beat { first: n as u64, second: self.beats });
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.space.path()).ok();
    }
}

fn view(pulls: Pulls) -> Result<View, String> {
    let tree = Tree::leaf(Leaf::of_kinds(["bench.beat"]));
    let tree = match pulls {
        Pulls::Reduced => tree.filter("first >= 0").reduce([], [("count", "count"), ("sum", "sum second")]),
        Pulls::Latest | Pulls::Since => tree,
    };
    let view = View::new("bench", "What do pulls cost?", tree).map_err(|problem| problem.to_string())?;
    Ok(if matches!(pulls, Pulls::Since) { view } else { view.latest() })
}

/// Thalweg's scope: nanoseconds a tuple.
fn ours(pulls: Pulls) -> Contestant<'static> {
    let mut opened: Option<(World, Scope)> = None;
    Contestant::new("Scope::pull", "", move || {
        if opened.is_none() {
            let world = World::new()?;
            let scope = Scope::open(&view(pulls)?, Target::of(world.space.path()), Backlog::All);
            opened = Some((world, scope.map_err(|error| error.to_string())?));
        }
        let (world, scope) = opened.as_mut().ok_or("it was opened")?;
        let (mut took, mut tuples) = (0.0, 0);
        for _ in 0..20 {
            world.beat();
            let begin = Instant::now();
            let pulled = scope.pull();
            took += begin.elapsed().as_secs_f64();
            tuples += if matches!(pulls, Pulls::Reduced) { ELEMENTS } else { pulled.batch.len() };
        }
        if tuples != 20 * ELEMENTS {
            return Err(format!("{tuples} tuples came"));
        }
        Ok(took * 1e9 / tuples as f64)
    })
}

/// The limit: the bytes of the same number of lines, read from each pool in one call and copied; no reader of
/// files can be faster.
fn limit() -> Contestant<'static> {
    let mut opened: Option<(World, Vec<File>, Vec<u64>)> = None;
    Contestant::new("a loop over pread", "", move || {
        if opened.is_none() {
            let world = World::new()?;
            let entries = std::fs::read_dir(world.space.path()).map_err(|error| error.to_string())?;
            let pools = entries.filter_map(Result::ok).map(|entry| entry.path());
            let pools = pools.filter(|path| path.extension().is_some_and(|extension| extension == "pool"));
            let files =
                pools.map(File::open).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
            opened = Some((world, files, Vec::new()));
        }
        let (world, files, words) = opened.as_mut().ok_or("it was opened")?;
        let mut took = 0.0;
        let mut bytes = vec![0; 64 * ELEMENTS];
        for _ in 0..20 {
            world.beat();
            let begin = Instant::now();
            words.clear();
            let mut left = ELEMENTS;
            for file in files.iter() {
                let count = left.min(256);
                let read = file.read_at(&mut bytes[..64 * count], 4096).map_err(|error| error.to_string())?;
                for line in bytes[..read].chunks_exact(64) {
                    let word =
                        |n: usize| u64::from_le_bytes(line[8 * n..8 * n + 8].try_into().unwrap_or_default());
                    words.extend([word(1), word(3), word(4), word(5)]);
                }
                left -= count.min(left);
            }
            std::hint::black_box(&words);
            took += begin.elapsed().as_secs_f64();
        }
        Ok(took * 1e9 / (20 * ELEMENTS) as f64)
    })
}

//! Pulls tuples of many collectors' elements, to measure the cost of pulls: `pulls latest|since|none PULLS
//! [ELEMENTS]`.
#![allow(clippy::print_stdout, reason = "a command")]

use std::time::{Duration, Instant};
use thalweg_scope::{Backlog, Leaf, Scope, Target, Tree, View};
use thalweg_space::{Collector, CollectorOptions, Kind, Space, SpaceOptions};

/// An event with two numbers, as a collector records it.
#[derive(Kind)]
#[kind(name = "example.beat")]
struct Beat {
    first: u64,
    second: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, how, pulls, rest @ ..] = &arguments[..] else {
        return Err("usage: pulls latest|since|none PULLS [ELEMENTS]".into());
    };
    let elements: usize = rest.first().map_or(Ok(2240), |text| text.parse())?;
    let space = Space::create(SpaceOptions { name: "pulls".into(), ..SpaceOptions::default() })?;
    let mut collectors = (0..elements)
        .map(|n| space.collector::<Beat>(&format!("path {n}"), CollectorOptions::default()))
        .collect::<Result<Vec<Collector<Beat>>, _>>()?;
    let view = View::new("beats", "What beats?", Tree::leaf(Leaf::of_kinds(["example.beat"])))?;
    let mut scope = Scope::open(&view, Target::of(space.path()), Backlog::All)?;
    let (mut took, mut tuples) = (Duration::ZERO, 0);
    for pull in 0..=pulls.parse()? {
        for (n, collector) in collectors.iter_mut().enumerate() {
            collector.record(&Beat { first: n as u64, second: pull });
        }
        let begin = Instant::now();
        let count = match how.as_str() {
            "latest" => scope.pull_latest().batch.len(),
            "since" => scope.pull_since().batch.len(),
            _ => elements,
        };
        // The first pull opens the elements and is not counted.
        if pull > 0 {
            (took, tuples) = (took + begin.elapsed(), tuples + count);
        }
    }
    println!("{tuples} tuples, {:.1} ns each", took.as_nanos() as f64 / tuples.max(1) as f64);
    std::fs::remove_dir_all(space.path())?;
    Ok(())
}

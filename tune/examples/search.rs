//! Measures how long the search for a mapping takes: `cargo run --release -p thalweg-tune --example search`.
#![allow(clippy::print_stdout, reason = "a command")]

use std::time::Instant;

use thalweg_chance::Chance;
use thalweg_tune::mapping::{Link, Problem, search};

fn main() {
    println!("{:>9} {:>7} {:>10} {:>12} {:>12}", "tasks", "workers", "took", "round-robin", "found");
    for (tasks, workers) in [(100, 2), (1_000, 4), (10_000, 2), (10_000, 16), (100_000, 16), (1_000_000, 16)]
    {
        let problem = network(tasks, workers);
        let start: Vec<u32> = (0..tasks).map(|task| task % workers).collect();
        let begun = Instant::now();
        let found = search(&problem, Some(&start)).expect("it makes sense");
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let even = problem.work.iter().sum::<f64>() / f64::from(workers);
        // The printed periods are multiples of the period that each worker would have if the work were
        // divided evenly and no message crossed between workers.
        let (before, after) = (problem.period(&start) / even, found.period / even);
        println!("{tasks:>9} {workers:>7} {took:>7.1} ms {before:>12.3} {after:>12.3}");
    }
}

/// Chains with branches; the work of the tasks is distributed exponentially.
fn network(tasks: u32, workers: u32) -> Problem {
    let mut chance = Chance::new(u64::from(tasks));
    let work = (0..tasks).map(|_| chance.exponential(1.0)).collect();
    let links = (1..tasks).map(|to| {
        let near = to.saturating_sub(4);
        Link { from: near + chance.below(u64::from(to - near)) as u32, to, traffic: chance.uniform() }
    });
    Problem {
        work,
        links: links.collect(),
        speeds: vec![1.0; workers as usize],
        crossing: 0.2,
        delay: 0.0,
        processors: f64::from(workers),
        fixed: Vec::new(),
    }
}

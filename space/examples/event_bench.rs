//! How long an event takes: `cargo run --release -p thalweg-space --example event_bench`.
//!
//! Prints the median of some rounds, in nanoseconds per event, beside the limit: a bare read of the clock.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;
use thalweg_space::{Kind, SettingSpec, Space, SpaceOptions};

/// An event without arguments.
#[derive(Kind)]
#[kind(name = "bench.bare")]
struct Bare;

/// An event with one argument.
#[derive(Kind)]
#[kind(name = "bench.one")]
struct One {
    /// Anything.
    value: u64,
}

/// As large as a dispatch.
#[derive(Kind)]
#[kind(name = "bench.dispatch")]
struct Dispatch {
    task: u64,
    worker: u32,
    #[field(unit = "ticks")]
    duration: u32,
    reads: u32,
    writes: u32,
}

const ROUNDS: usize = 31;
const EVENTS: u64 = 1_000_000;

fn main() -> Result<(), thalweg_space::Error> {
    let space = Space::create(SpaceOptions { name: "event-bench".into(), ..SpaceOptions::default() })?;
    let clock = *space.clock();
    let mut writer = space.writer("main")?;
    let bare = writer.declare::<Bare>()?;
    let one = writer.declare::<One>()?;
    let dispatch = writer.declare::<Dispatch>()?;
    let spec =
        SettingSpec { name: "probe", doc: "", unit: "", min: 0, max: 1, default: 0, choices: &["off", "on"] };
    let probe = space.setting(spec)?;
    println!("clock: {:?}, {:.6} MHz", clock.kind(), clock.hz() / 1e6);
    for _ in 0..2 {
        let mut sum = 0u64;
        report("empty loop", |n| {
            black_box(n);
        });
        let empty_ns = report("empty loop again", |n| {
            black_box(n);
        });
        let clock_ns = report("clock read", |_| sum = sum.wrapping_add(clock.now()));
        black_box(sum);
        let one_ns = report("emit, one argument", |n| writer.emit(one, &One { value: n }));
        println!("    ratio to the clock: {:.3}", one_ns / clock_ns);
        report("emit, no argument", |_| writer.emit(bare, &Bare));
        report("emit, dispatch", |n| {
            writer.emit(dispatch, &Dispatch { task: n, worker: 1, duration: 2, reads: 3, writes: 4 });
        });
        report("same time, one argument", |n| writer.emit_same_time(one, &One { value: n }));
        report("same time, dispatch", |n| {
            let event = Dispatch { task: n, worker: 1, duration: 2, reads: 3, writes: 4 };
            writer.emit_same_time(dispatch, &event);
        });
        let off_ns = report("switched off", |n| {
            if probe.load() != 0 {
                writer.emit(one, &One { value: n });
            }
            black_box(n);
        });
        println!("    more than the empty loop: {:.3}", off_ns - empty_ns);
    }
    drop(writer);
    thalweg_space::discover::remove(space.path())
}

fn report(name: &str, mut event: impl FnMut(u64)) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for n in 0..EVENTS {
                event(n);
            }
            start.elapsed().as_nanos() as f64 / EVENTS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:28} {:8.3} ns   (fastest {:.3})", rounds[ROUNDS / 2], rounds[0]);
    rounds[ROUNDS / 2]
}

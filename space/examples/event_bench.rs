//! Measures the cost of an event: `cargo run --release -p thalweg-space --example event_bench`.
//!
//! Prints the median over rounds in nanoseconds per event, beside the lower limit, a reading of the clock
//! alone.
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

/// An event as large as a dispatch.
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

/// Rounds are short, and the cases alternate, so that other load on the machine affects all cases equally,
/// and only few rounds of each case.
const ROUNDS: usize = 1001;
const EVENTS: u64 = 4096;

/// The name of a case, and a function that runs a round of it.
type Case<'a> = (&'static str, Box<dyn FnMut() -> u64 + 'a>);

fn main() -> Result<(), thalweg_space::Error> {
    let space = Space::create(SpaceOptions { name: "event-bench".into(), ..SpaceOptions::default() })?;
    let clock = *space.clock();
    let spec = SettingSpec { name: "probe", ..SettingSpec::SWITCH };
    let probe = space.setting(spec)?;
    let [mut w1, mut w2, mut w3, mut w4, mut w5] =
        ["1", "2", "3", "4", "5"].map(|name| space.writer(name).expect("there is room"));
    let one = w1.declare::<One>()?;
    let bare = w2.declare::<Bare>()?;
    let dispatch = w3.declare::<Dispatch>()?;
    let one_same = w4.declare::<One>()?;
    let dispatch_same = w5.declare::<Dispatch>()?;
    let event = |task| Dispatch { task, worker: 1, duration: 2, reads: 3, writes: 4 };
    let mut cases: Vec<Case<'_>> = vec![
        ("empty loop", Box::new(|| round(|n| _ = black_box(n)))),
        ("switched off", {
            Box::new(|| {
                round(|n| {
                    if probe.load() != 0 {
                        println!("on");
                    }
                    black_box(n);
                })
            })
        }),
        ("clock read", {
            Box::new(|| {
                let mut sum = 0u64;
                let time = round(|_| sum = sum.wrapping_add(clock.now()));
                black_box(sum);
                time
            })
        }),
        ("emit, one argument", Box::new(|| round(|n| w1.emit(one, &One { value: n })))),
        ("emit, no argument", Box::new(|| round(|_| w2.emit(bare, &Bare)))),
        ("emit, dispatch", Box::new(|| round(|n| w3.emit(dispatch, &event(n))))),
        ("same time, one argument", Box::new(|| round(|n| w4.emit_same_time(one_same, &One { value: n })))),
        ("same time, dispatch", Box::new(|| round(|n| w5.emit_same_time(dispatch_same, &event(n))))),
    ];
    println!("clock: {:?}, {:.3} MHz; {ROUNDS} rounds of {EVENTS}", clock.kind(), clock.hz() / 1e6);
    let mut rounds = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, case), times) in cases.iter_mut().zip(&mut rounds) {
            times.push(case() as f64 / EVENTS as f64);
        }
    }
    let medians: Vec<f64> = rounds.iter_mut().map(|times| median(times)).collect();
    for ((name, _), (median, times)) in cases.iter().zip(medians.iter().zip(&rounds)) {
        println!("{name:26} {median:7.3} ns   (a tenth below {:.3})", times[ROUNDS / 10]);
    }
    println!("emit / clock read: {:.3} (goal 1.05)", medians[3] / medians[2]);
    println!("switched off - empty loop: {:.3} ns (goal 0.15)", medians[1] - medians[0]);
    drop(cases);
    drop([w1, w2, w3, w4, w5]);
    thalweg_space::discover::remove(space.path())
}

fn round(mut event: impl FnMut(u64)) -> u64 {
    let start = Instant::now();
    for n in 0..EVENTS {
        event(n);
    }
    start.elapsed().as_nanos() as u64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

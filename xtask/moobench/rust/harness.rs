//! The common part of MooBench's drivers in Rust: calls in bins of a second, and the files of raw data.
//! Included by `probe/examples/moobench.rs`, which uses Thalweg's probes, and by `xtask/moobench/rust`, which
//! uses the probes of rivals.

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const LINEAR: usize = 2048;
const BUCKETS: usize = LINEAR + 32 * 53;

/// The work of the innermost call.
pub(crate) fn busy(time: Duration) -> u64 {
    if time.is_zero() {
        return 1;
    }
    let begun = Instant::now();
    let mut looks = 0;
    while begun.elapsed() < time {
        looks += 1;
    }
    looks
}

fn bucket(duration: u64) -> usize {
    let Some(power) = duration.checked_ilog2().filter(|_| duration >= LINEAR as u64) else {
        return duration as usize;
    };
    LINEAR + (power as usize - 11) * 32 + (duration >> (power - 5) & 31) as usize
}

/// The processor time of this thread in nanoseconds.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Makes the calls of one thread. Returns the number of calls and total time in each second, the distribution
/// of their times in the second half, and the processor time of the second half.
fn calls(seconds: u32, call: impl Fn() -> u64) -> (Vec<(u64, u64)>, Vec<u64>, u64) {
    let start = Instant::now();
    let mut bins = Vec::new();
    let mut histogram = vec![0; BUCKETS];
    let mut cpu = 0;
    for second in 0..seconds {
        let until = start + Duration::from_secs(u64::from(second) + 1);
        let (mut count, mut sum) = (0, 0);
        loop {
            let before = Instant::now();
            black_box(call());
            let after = Instant::now();
            let duration = (after - before).as_nanos() as u64;
            histogram[bucket(duration)] += 1;
            sum += duration;
            count += 1;
            if after >= until {
                break;
            }
        }
        bins.push((count, sum));
        if second + 1 == seconds / 2 {
            histogram.fill(0);
            cpu = processor_time();
        }
    }
    (bins, histogram, processor_time() - cpu)
}

/// Runs a driver with the arguments `MODE SECONDS METHOD_NS DEPTH THREADS CLOCK FILE`. `of_mode` returns the
/// function that a mode calls.
pub(crate) fn run(of_mode: impl Fn(&str) -> fn(Duration, u32) -> u64) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (seconds, time, depth) = (number(1) as u32, Duration::from_nanos(number(2)), number(3) as u32);
    let threads = number(4) as usize;
    let call = of_mode(&arguments[0]);
    let barrier = Barrier::new(threads);
    let mut out = String::new();
    std::thread::scope(|scope| {
        let run = || {
            barrier.wait();
            calls(seconds, || call(black_box(time), black_box(depth)))
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        for (n, handle) in handles.into_iter().enumerate() {
            let (bins, histogram, cpu) = handle.join().expect("it does not panic");
            writeln!(out, "cpu {n} {cpu}").expect("a text");
            for (second, (count, sum)) in bins.iter().enumerate() {
                writeln!(out, "bin {n} {second} {count} {sum}").expect("a text");
            }
            for (bucket, count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
                writeln!(out, "bucket {n} {bucket} {count}").expect("a text");
            }
        }
    });
    std::fs::write(&arguments[6], out).expect("the file can be written");
}

//! MooBench's calls in Rust, equivalent to those of xtask/moobench/Moo.java: `moobench probes|plain|clock
//! SECONDS METHOD_NS DEPTH THREADS nano FILE`.

#[path = "../../xtask/moobench/rust/harness.rs"]
mod harness;

use harness::busy;
use std::time::Duration;

#[inline(never)]
fn plain(time: Duration, depth: u32) -> u64 {
    if depth > 1 { plain(time, depth - 1) + 1 } else { busy(time) }
}

#[inline(never)]
#[thalweg_probe::probe(name = "moobench.monitored")]
fn probed(time: Duration, depth: u32) -> u64 {
    if depth > 1 { probed(time, depth - 1) + 1 } else { busy(time) }
}

/// The time stamp counter, which the probes read where the processor has one.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// The limit: two readings of the clock, whose sum is all that is kept.
#[inline(never)]
fn clocked(time: Duration, depth: u32) -> u64 {
    thread_local!(static SUM: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    let begin = ticks();
    let result = if depth > 1 { clocked(time, depth - 1) + 1 } else { busy(time) };
    SUM.set(SUM.get().wrapping_add(ticks() - begin));
    result
}

fn main() {
    harness::run(|mode| match mode {
        "probes" => probed,
        "clock" => clocked,
        _ => plain,
    });
}

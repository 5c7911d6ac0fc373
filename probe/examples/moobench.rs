//! MooBench's calls in Rust, equivalent to those of xtask/moobench/Moo.java: `moobench probes|plain SECONDS
//! METHOD_NS DEPTH THREADS nano FILE`.

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

fn main() {
    harness::run(|mode| if mode == "probes" { probed } else { plain });
}

//! Probes for programs in Rust: which operations are called by which, how often, how long, and which fail.
//!
//! ```
//! use thalweg_probe::{count, probe, span};
//!
//! #[probe]
//! fn order(items: u64) -> u64 {
//!     (0..items).map(price).sum()
//! }
//!
//! #[probe(errors)]
//! fn charge(amount: u64) -> Result<u64, String> {
//!     span!("check");
//!     amount.checked_sub(3).ok_or_else(|| "too little".to_owned())
//! }
//!
//! #[probe]
//! fn price(item: u64) -> u64 {
//!     count!("items", 1);
//!     item * 3
//! }
//! # let parent = std::env::temp_dir().join(format!("thalweg-probes-{}", std::process::id()));
//! # unsafe { std::env::set_var("THALWEG_SPACES", &parent) };
//! assert!(charge(order(4)).is_ok());
//! # std::fs::remove_dir_all(parent).unwrap();
//! ```
//!
//! The first event makes the process's space, below `/dev/shm` (or `$THALWEG_SPACES`, or in the session
//! `$THALWEG_SESSION`); `thalweg calls` shows the call graph while the program runs, or later. A call costs
//! two readings of the clock and some stores; a call that is switched off (`thalweg set 'probe/shop.*.on' 0`)
//! costs a load and a branch. `thalweg set probe.sample 100` records every 100th trace completely. Events
//! that cannot be recorded are counted (`probe.lost`), and the program continues.
//!
//! The element of a thread that ends is reused by another thread; the child of a `fork` has a space of its
//! own. `docs/probes.md` describes details, and the probes for C and C++.

mod call;
pub mod kinds;
mod process;
mod thread;
mod trace;

pub use call::{Call, Operation, Polled};
pub use kinds::{Level, Outcome};
pub use thalweg_probe_derive::probe;
pub use thread::emit;
pub use trace::{Handed, continue_trace, hand_over, log, traceparent};

/// Records the rest of the block as a call of the operation of this name.
#[macro_export]
macro_rules! span {
    ($name:expr) => {
        let _thalweg_span = {
            static OPERATION: $crate::Operation =
                $crate::Operation::new($name, ::core::file!(), ::core::line!());
            OPERATION.enter()
        };
    };
}

/// Adds to the counter of this name.
#[macro_export]
macro_rules! count {
    ($name:expr, $by:expr) => {{
        static COUNTER: $crate::Operation =
            $crate::Operation::of_kind($name, "counter", ::core::file!(), ::core::line!());
        COUNTER.count($by);
    }};
}

/// Records the value of a gauge of this name.
#[macro_export]
macro_rules! gauge {
    ($name:expr, $value:expr) => {{
        static GAUGE: $crate::Operation =
            $crate::Operation::of_kind($name, "gauge", ::core::file!(), ::core::line!());
        GAUGE.gauge($value);
    }};
}

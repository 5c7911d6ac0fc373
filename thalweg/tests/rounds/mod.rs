//! The rounds of long tests, of which a few run at the same time.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// The number of rounds that run at the same time. Each round has a program of its own, so that few rounds
/// keep the processors busy.
const AT_ONCE: u64 = 3;

/// Whether the tests run in full, as by `cargo xtask test --only probes` and `--only java`.
pub(crate) fn is_long() -> bool {
    std::env::var_os("THALWEG_TEST_LONG").is_some()
}

/// The number of rounds of a test: few by default, many in full.
pub(crate) fn rounds(few: u64, many: u64) -> u64 {
    if is_long() { many } else { few }
}

/// Runs `round` for each number below `count`. Returns the sum of the results. A round that panics ends the
/// test, and rounds that have not begun by then do not run.
///
/// In full, the test prints how many rounds ran and what they were.
pub(crate) fn side_by_side(count: u64, what: &str, round: impl Fn(u64) -> u64 + Sync) -> u64 {
    let (begun, next, sum) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let ended = EndsOnPanic(&is_over);
            sum.fetch_add(round(number), Ordering::Relaxed);
            std::mem::forget(ended);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(count) {
            scope.spawn(work);
        }
    });
    let sum = sum.into_inner();
    if is_long() {
        let line = format!("\n{what}: {count} rounds, {sum} calls, {:.0} s\n", begun.elapsed().as_secs_f64());
        // The line is written past the test harness, which would hide it.
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
    sum
}

/// Ends the rounds when dropped, which happens only when a round panics.
struct EndsOnPanic<'a>(&'a AtomicBool);

impl Drop for EndsOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

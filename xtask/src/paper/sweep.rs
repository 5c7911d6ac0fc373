//! `cargo xtask paper lpel --sweep`: the cost of each mode for a message, for different amounts of work in a
//! message.

use super::{Input, Interval, Programs, Runs, fastest, thousands, times_by_turns};
use anyhow::Result;

/// The sizes of chunks, in bytes: each box of DES takes about a quarter of a nanosecond for a byte.
const CHUNKS: [usize; 8] = [8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 384 << 10];
/// The number of messages for each chunk: sixteen rounds of DES, and the components before and after the
/// rounds.
const MESSAGES: usize = 21;
/// For chunks of at least this size, streams hold few messages, so that the data in the streams stay in the
/// cache.
const LARGE: usize = 4 << 10;

/// The number of chunks with which a run takes about `seconds`.
fn chunks(chunk: usize, seconds: f64) -> usize {
    let expected_ns = 100.0 + chunk as f64 / 4.0;
    (seconds * 1e9 / (MESSAGES as f64 * expected_ns)).ceil() as usize
}

/// Prints the table: it is about DES on one worker, with chunks of all sizes and `repeats` runs of each kind.
pub(super) fn print(programs: &Programs, repeats: usize, seconds: f64) -> Result<()> {
    println!(
        "\nWhat each mode costs by the work of a message: DES on one worker, {repeats} runs of each kind by turns, and the fastest of each against one another\n"
    );
    println!("| bytes a chunk | messages | a message without probes | off | metrics | full | full, kept |");
    println!("|---|---|---|---|---|---|---|");
    for chunk in CHUNKS {
        let more: &[&str] = if chunk >= LARGE { &["--capacity", "8"] } else { &[] };
        let input = Input::Bytes(chunk * chunks(chunk, seconds), chunk);
        let run = Runs::prepare("sweep", "des", &[&["--workers", "1"], more].concat(), input, programs)?;
        let messages = run.seen()?.sum("streams", "written");
        let a_message = |seconds: &f64| seconds * 1e9 / messages as f64;
        let times =
            times_by_turns(&run, repeats)?.map(|times| times.iter().map(a_message).collect::<Vec<_>>());
        let more = |kind: usize| {
            let by_turns = times[kind].iter().zip(&times[0]);
            let percent = Interval::of(by_turns.map(|(time, base)| 100.0 * (time / base - 1.0)).collect());
            format!(
                "{}, fastest {:+.1} ns",
                percent.shown(1, " %"),
                fastest(&times[kind]) - fastest(&times[0])
            )
        };
        println!(
            "| {} | {} | {}, fastest {:.0} ns | {} | {} | {} | {} |",
            thousands(chunk as u64),
            thousands(messages),
            Interval::of(times[0].clone()).shown(0, " ns"),
            fastest(&times[0]),
            more(1),
            more(2),
            more(3),
            more(4),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS, chunks};

    #[test]
    fn every_grain_takes_about_as_long() {
        assert_eq!(chunks(400, 0.42), 100_000);
        assert!(CHUNKS.iter().all(|&chunk| chunk % 8 == 0 && chunks(chunk, 0.5) >= 100));
    }
}

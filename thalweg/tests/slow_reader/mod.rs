//! A reader that is slower than the writers of a space, and the processor time that these take meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

/// The processor time of a process so far.
pub(crate) fn processor_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The fields after the program's name begin with the state; utime and stime, in hundredths of a second,
    // are the 11th and 12th after it.
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(10 * ticks)
}

/// Reads the events of a space slowly for a while, and returns the number of events read.
pub(crate) fn read_slowly(space: &Path, long: Duration) -> usize {
    let space = thalweg_space::reader::SpaceReader::open(space).unwrap();
    let mut events = space.events().consuming();
    let (begun, mut read) = (Instant::now(), 0);
    while begun.elapsed() < long {
        read += events.poll(1000, &mut |_| {}).unwrap();
        std::thread::sleep(Duration::from_micros(500));
    }
    read
}

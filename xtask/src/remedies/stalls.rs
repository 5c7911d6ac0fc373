//! The times during which this machine was slower than usual: the host of a virtual machine took a processor away
//! (`proc_stat`: the eighth number of a line), or a processor worked more slowly, which only the time of a fixed piece
//! of work shows.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the machine is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// The least time that the host took between two looks which counts.
const TAKEN: Duration = Duration::from_millis(20);
/// The steps of the work, about ten microseconds, and how many times as long as in the middle look it takes when the machine
/// is slow.
const STEPS: u64 = 6_000;
const SLOW: f64 = 1.4;
/// Times that are no farther apart than this are one.
const APART: Duration = Duration::from_millis(50);

/// A look: when it was, the time of the work, and what the host took since the look before.
type Look = (Instant, Duration, Duration);

/// The times during which the machine was slow, and those in which records that became late are still worked on.
#[derive(Debug, Default)]
pub(super) struct Stalls(pub(super) Vec<(Instant, Instant)>);

impl Stalls {
    pub(super) fn hold(&self, at: Instant) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&at))
    }

    fn of_looks(looks: &[Look]) -> Stalls {
        let mut sorted: Vec<Duration> = looks.iter().map(|look| look.1).collect();
        sorted.sort();
        let Some(middle) = sorted.get(sorted.len() / 2) else { return Stalls::default() };
        let mut slow: Vec<(Instant, Instant)> = Vec::new();
        for pair in looks.windows(2) {
            let [(before, ..), (at, took, taken)] = [pair[0], pair[1]];
            if taken < TAKEN && took < middle.mul_f64(SLOW) {
                continue;
            }
            // The kernel reports the host's time when the processor is back.
            let from = before.min(at - taken) - LOOK;
            match slow.last_mut().filter(|(_, to)| from.saturating_duration_since(*to) <= APART) {
                Some(last) => last.1 = at,
                None => slow.push((from, at)),
            }
        }
        // At half of the rate that a network can work at, records that wait are done after as much time again.
        slow.iter_mut().for_each(|(from, to)| *to += *to - *from);
        Stalls(slow)
    }
}

/// The time that the work takes at the speed in which [`Machine::speed`] is given.
const USUAL: Duration = Duration::from_micros(10);

/// What was seen of the machine during a run.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) stalls: Stalls,
    looks: Vec<Look>,
}

impl Machine {
    fn of_looks(looks: Vec<Look>) -> Machine {
        Machine { stalls: Stalls::of_looks(&looks), looks }
    }

    /// The mean speed of a processor, in pieces of work per [`USUAL`]: what a run took, multiplied by this, is what it
    /// would have taken if the machine had always had the same speed.
    pub(super) fn speed(&self) -> f64 {
        speed_of(&self.looks)
    }

    /// The mean speed outside the stalls.
    pub(super) fn speed_without_stalls(&self) -> f64 {
        let steady: Vec<f64> = self
            .looks
            .iter()
            .filter(|(at, ..)| !self.stalls.hold(*at))
            .map(|(_, took, _)| USUAL.as_secs_f64() / took.as_secs_f64())
            .collect();
        if steady.is_empty() { 1.0 } else { steady.iter().sum::<f64>() / steady.len() as f64 }
    }

    /// The mean speed between two moments.
    pub(super) fn speed_between(&self, from: Instant, to: Instant) -> f64 {
        let first = self.looks.partition_point(|(at, ..)| *at < from);
        let last = self.looks.partition_point(|(at, ..)| *at <= to);
        speed_of(&self.looks[first.min(last)..last])
    }
}

/// The mean speed by looks; 1 if there are fewer than two.
fn speed_of(looks: &[Look]) -> f64 {
    let (mut took, mut done) = (0.0, 0.0);
    for pair in looks.windows(2) {
        let [(before, ..), (at, of_work, taken)] = [pair[0], pair[1]];
        let span = at - before;
        took += span.as_secs_f64();
        done += span.saturating_sub(taken).as_secs_f64() * USUAL.as_secs_f64() / of_work.as_secs_f64();
    }
    if took > 0.0 { done / took } else { 1.0 }
}

/// A thread that looks at the machine.
pub(super) struct Watched {
    thread: thread::JoinHandle<Machine>,
    has_ended: Arc<AtomicBool>,
}

impl Watched {
    pub(super) fn begin() -> Watched {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = has_ended.clone();
        let thread = thread::spawn(move || {
            let (mut looks, mut before) = (Vec::new(), taken());
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                // Another thread may have the processor during one of two times.
                let took = work().min(work());
                let now = taken();
                looks.push((Instant::now(), took, now.saturating_sub(before)));
                before = now;
            }
            Machine::of_looks(looks)
        });
        Watched { thread, has_ended }
    }

    pub(super) fn end(self) -> Machine {
        self.has_ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn work() -> Duration {
    let begun = Instant::now();
    let mut number = black_box(1_u64);
    for _ in 0..STEPS {
        number = (number ^ number >> 29).wrapping_mul(6_364_136_223_846_793_005);
    }
    black_box(number);
    begun.elapsed()
}

/// The time that the host took so far; zero where the kernel does not report it.
fn taken() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.lines().next().and_then(|all| all.split_ascii_whitespace().nth(8)?.parse().ok());
    Duration::from_millis(10 * ticks.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_that_of_the_work_and_of_the_time_in_which_there_was_a_processor() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let look = |n: u64| {
            let took = Duration::from_micros(if n <= 100 { 10 } else { 20 });
            (at(10 * n), took, Duration::from_millis(if n == 150 { 10 } else { 0 }))
        };
        let machine = Machine::of_looks((0..=200).map(look).collect());
        assert!((machine.speed() - (1.0 + 0.99 * 0.5) / 2.0).abs() < 1e-9, "{}", machine.speed());
        assert!((machine.speed_without_stalls() - 1.0).abs() < 1e-9, "{}", machine.speed_without_stalls());
        assert!((machine.speed_between(at(0), at(500)) - 1.0).abs() < 1e-9);
        assert!((machine.speed_between(at(1600), at(1900)) - 0.5).abs() < 1e-9);
        assert!((machine.speed_between(at(3000), at(4000)) - 1.0).abs() < 1e-9, "there nothing is known");
    }

    #[test]
    fn slow_times_and_what_became_late_in_them_are_held() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let looks = |slow: &dyn Fn(u64) -> bool, taken: &dyn Fn(u64) -> u64| {
            let look = |n: u64| {
                let took = Duration::from_micros(if slow(n) { 30 } else { 10 });
                (at(5 * n), took, Duration::from_millis(taken(n)))
            };
            Stalls::of_looks(&(0..400).map(look).collect::<Vec<_>>())
        };
        let held = |stalls: &Stalls| -> Vec<u64> { (0..2000).filter(|ms| stalls.hold(at(*ms))).collect() };
        assert!(held(&looks(&|_| false, &|_| 0)).is_empty());
        // Slow from 500 to 595 ms, with a pause of 30 ms.
        let slow = looks(&|n| (100..120).contains(&n) && !(105..111).contains(&n), &|_| 0);
        assert_eq!(held(&slow), (490..=700).collect::<Vec<u64>>());
        // The host took a processor for 100 ms before 1,000 ms.
        let taken = looks(&|_| false, &|n| if n == 200 { 100 } else { 0 });
        assert_eq!(held(&taken), (895..=1105).collect::<Vec<u64>>());
    }
}

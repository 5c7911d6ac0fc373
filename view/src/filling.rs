//! Computes the states of a lane at the edges of a window where its events are missing, for example a wait
//! that began long before the events read or ends long after them. The sums of the whole run include waits
//! whose events are missing, so the missing states can be computed from the sums.
//!
//! Between two dispatches, a task first waits, then is ready, then runs. Therefore the states in a cell
//! outside the known spans have a known order, and if no dispatch ends within the cell, its sums give the
//! exact tick of each change of state.

use crate::levels::Levels;
use crate::summary::{STATES, State, Summary};

/// A state of a lane, with the start and the end of the time in it.
pub(crate) type Part = (State, u64, u64);

/// The order in which a task passes its states until a dispatch ends.
const ORDER: [State; STATES] = [State::Starved, State::Blocked, State::Ready, State::Busy];

/// Computes from a lane's sums its states in a window before the first and after the last of its known spans,
/// which are in order of time.
pub(crate) fn filled(summary: &Summary, known: &[Part], from: u64, to: u64) -> Vec<Part> {
    let begin = known.first().map_or(to, |first| first.1.clamp(from, to));
    let end = known.iter().map(|part| part.2).max().map_or(to, |end| end.clamp(from, to));
    let mut parts = Vec::new();
    for (a, b) in [(from, begin), (end, to)] {
        if a < b {
            lay(summary, known, from, (a, b), &mut parts);
        }
    }
    parts
}

/// Fills one gap between known spans.
fn lay(summary: &Summary, known: &[Part], from: u64, (a, b): (u64, u64), parts: &mut Vec<Part>) {
    let (range, width) = (summary.range(a, b), summary.width());
    let first = summary.begin_of(a);
    for (n, cell) in summary.cells()[range].iter().enumerate() {
        let begin = first + n as u64 * width;
        let (low, high) = (begin.max(a), (begin + width).min(b));
        let mut left = *cell;
        for &(state, start, end) in known {
            let inside = end.min(begin + width).saturating_sub(start.max(begin));
            left[state as usize] = left[state as usize].saturating_sub(inside);
        }
        // If a cell began before the window, the states before the window come first, so the cell is filled
        // from its end.
        if begin < from {
            let mut at = high;
            for state in [State::Ready, State::Blocked, State::Starved, State::Busy] {
                let start = at.saturating_sub(left[state as usize]).max(low);
                add(parts, (state, start, at));
                at = start;
            }
            continue;
        }
        let mut at = low;
        for state in ORDER {
            let end = (at + left[state as usize]).min(high);
            add(parts, (state, at, end));
            at = end;
        }
    }
}

/// Adds a part, and joins it with the previous part if both have the same state.
fn add(parts: &mut Vec<Part>, part: Part) {
    if part.2 <= part.1 {
        return;
    }
    match parts.last_mut() {
        Some(last) if last.0 == part.0 && last.2 == part.1 => last.2 = part.2,
        _ => parts.push(part),
    }
}

impl Summary {
    /// The range of time whose events have to be read to know a lane's state in a window: the span around an
    /// edge of the window began with an event, and an event at its end, or at the end of the next dispatch,
    /// records it.
    pub(crate) fn filling(&self, from: u64, to: u64) -> (u64, Option<u64>) {
        let cell = |time: u64| (self.begin_of(time) - self.begin_of(0)) / self.width();
        let begun = |n: u64| self.begun(n as usize);
        let (mut first, mut seen) = (cell(from), 0);
        while first > 0 && seen < 3 {
            first -= 1;
            seen += begun(first);
        }
        let (mut last, mut seen) = (cell(to), 0);
        while seen < 3 && (last as usize) < self.cells().len() {
            last += 1;
            seen += begun(last);
        }
        let start = |n: u64| self.begin_of(0) + n * self.width();
        (start(first).min(from), (seen >= 3).then(|| start(last + 1)))
    }
}

impl Levels {
    /// The range of time, on the page's scale, whose events have to be read to reconstruct a window; before
    /// and after the window it has at most about `spans_max` spans.
    pub fn reach(&self, from_ns: f64, to_ns: f64, spans_max: u64) -> (f64, f64) {
        let (from, to) = (self.tick(from_ns), self.tick(to_ns));
        let tasks = self.tasks.iter().zip(&self.known).filter(|(_, of)| of.replica.is_some());
        let all = tasks.map(|(summary, _)| summary).chain(self.workers.iter().map(|(_, summary)| summary));
        let (mut firsts, mut lasts): (Vec<u64>, Vec<u64>) = all
            .map(|summary| summary.filling(from, to))
            .map(|(first, last)| (first, last.unwrap_or(self.end).max(to)))
            .unzip();
        firsts.sort_unstable_by(|a, b| b.cmp(a));
        lasts.sort_unstable();
        let many = |a: u64, b: u64| self.spans(self.ns(a), self.ns(b)) > spans_max;
        let before = firsts.partition_point(|&first| !many(first, from));
        let behind = lasts.partition_point(|&last| !many(to, last));
        let (first, last) =
            (before.checked_sub(1).map(|n| firsts[n]), behind.checked_sub(1).map(|n| lasts[n]));
        (first.map_or(from_ns, |tick| self.ns(tick)), last.map_or(to_ns, |tick| self.ns(tick)))
    }

    /// For each task, whether the sums cover its time until `tick`.
    pub(crate) fn covers(&self, tick: u64) -> Vec<bool> {
        let reaches = |summary: &Summary| {
            summary.begin_of(0).saturating_add(summary.cells().len() as u64 * summary.width()) >= tick
        };
        self.tasks.iter().map(reaches).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    /// A lane for the test that passes through its states again and again, with random durations.
    fn lane(chance: &mut Chance, summary: &mut Summary, until: u64) -> Vec<Part> {
        let (mut at, mut parts) = (0, Vec::new());
        while at < until {
            let wait = if chance.below(2) == 0 { State::Starved } else { State::Blocked };
            for (state, most) in [(wait, 900), (State::Ready, 200), (State::Busy, 300)] {
                // Each dispatch of the test takes at least one tick.
                let end = at + chance.below(most) + u64::from(state == State::Busy);
                if end > at {
                    summary.add(state, at, end);
                    parts.push((state, at, end));
                }
                at = end;
            }
        }
        parts
    }

    fn clipped(parts: &[Part], from: u64, to: u64) -> Vec<Part> {
        let inside = parts.iter().map(|&(state, a, b)| (state, a.max(from), b.min(to)));
        inside.filter(|(_, a, b)| a < b).collect()
    }

    fn by_state(parts: &[Part]) -> [u64; STATES] {
        let mut sums = [0; STATES];
        parts.iter().for_each(|&(state, a, b)| sums[state as usize] += b - a);
        sums
    }

    #[test]
    fn what_events_lack_at_a_windows_edges_is_known_from_sums() {
        let mut chance = Chance::new(31);
        let (mut exact, mut rounds) = (0, 0);
        for _ in 0..400 {
            let width = 1 << (3 + chance.below(4));
            let mut summary = Summary::new(0, width, 1 << 16);
            let all = lane(&mut chance, &mut summary, 20_000);
            let from = chance.below(15_000);
            let to = from + 500 + chance.below(4000);
            // The test takes the events from the end of one dispatch to the end of a later one as read;
            // earlier waits are not known from them.
            let ends: Vec<usize> = (0..all.len()).filter(|&n| all[n].0 == State::Busy).collect();
            let inside: Vec<usize> =
                ends.iter().copied().filter(|&n| all[n].1 >= from && all[n].2 <= to).collect();
            let known: Vec<Part> = match (inside.first(), inside.last()) {
                (Some(&first), Some(&last)) => all[first..=last].to_vec(),
                _ => Vec::new(),
            };
            let mut parts = filled(&summary, &known, from, to);
            parts.extend(&known);
            parts.sort_by_key(|part| part.1);
            assert!(parts.windows(2).all(|two| two[0].2 <= two[1].1), "one after the other: {parts:?}");
            let (sums, want) = (by_state(&clipped(&parts, from, to)), by_state(&clipped(&all, from, to)));
            rounds += 1;
            exact += u64::from(sums == want);
            // Only the first and the last cell of the window also contain time outside of it.
            for state in 0..STATES {
                assert!(
                    sums[state].abs_diff(want[state]) <= 2 * width,
                    "{sums:?}, {want:?}, cells of {width}"
                );
            }
        }
        assert!(exact * 2 > rounds, "{exact} of {rounds} are exact");
    }

    #[test]
    fn what_is_read_around_a_window_covers_all_of_it() {
        let mut chance = Chance::new(32);
        for _ in 0..400 {
            let mut summary = Summary::new(0, 64, 1 << 12);
            let all = lane(&mut chance, &mut summary, 20_000);
            let (from, to) = (3000 + chance.below(5000), 9000 + chance.below(5000));
            let (first, last) = summary.filling(from, to);
            // The test assumes an event at the end of each dispatch.
            let events: Vec<u64> =
                all.iter().filter(|part| part.0 == State::Busy).map(|part| part.2).collect();
            assert!(events.iter().any(|&event| first <= event && event <= from), "{first}, {from}");
            let last = last.expect("the lane goes on");
            assert!(events.iter().any(|&event| to <= event && event <= last), "{to}, {last}");
            assert!(from - first < 4000 && last - to < 6000, "no more than is needed: {first}, {last}");
        }
        // If a lane has ended before the window, only the lane's end has to be read.
        let mut summary = Summary::new(0, 64, 1 << 12);
        summary.add(State::Busy, 0, 100);
        assert_eq!(summary.filling(5000, 6000), (0, None));
    }
}

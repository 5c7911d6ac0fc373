//! Input messages whose descendants are still in the network, and the latencies of those that have all left.
//!
//! A *root* is a message of an entry stream. Each root counts its live descendants; when the last one leaves,
//! its service latency (sum of execution times, LPEL paper equation 2) and its end-to-end latency (entry
//! until the last descendant left) are recorded and the root is forgotten. Roots complete roughly in order,
//! so they are kept in a ring from the oldest incomplete one; a root that stays long behind the others moves
//! to a map, so that memory is proportional to the messages in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::IdMap;
use crate::report::distribution::Times;

/// A root's number: the upper bits are the entry stream's place, the lower bits the index of the message.
/// Roots of consecutive messages are consecutive.
pub(crate) type Root = u64;

/// Messages whose ancestor is not known.
pub(crate) const UNKNOWN: Root = u64::MAX;

const INDEX_BITS: u32 = 48;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// The number of entry streams that are distinguished; messages of further entry streams have no known root.
pub(crate) const ENTRIES_MAX: u64 = (1 << (64 - INDEX_BITS)) - 2;
/// If a ring is longer than this and most of its roots are complete, its oldest incomplete roots move to the
/// map.
const RING_SPARSE: usize = 1 << 12;

/// The number of the root that is message `index` of entry stream number `entry`.
pub(crate) fn root(entry: u64, index: u64) -> Root {
    (entry << INDEX_BITS) | (index & INDEX_MASK)
}

/// The number of the entry stream, and the index in it, of a root.
pub(crate) fn place(root: Root) -> Option<(usize, u64)> {
    (root != UNKNOWN).then_some(((root >> INDEX_BITS) as usize, root & INDEX_MASK))
}

#[derive(Clone, Copy)]
struct RootState {
    entered: u64,
    left: u64,
    service_ticks: f64,
    /// The number of live descendants; 0 if the root is complete.
    live: u64,
    /// Whether events about the root's descendants were lost; the root's latency is then not measured.
    lost: bool,
}

const COMPLETE: RootState = RootState { entered: 0, left: 0, service_ticks: 0.0, live: 0, lost: false };

impl RootState {
    /// Records that this many descendants left the network. Returns whether they were the last live
    /// descendants.
    #[inline]
    fn leave(&mut self, live: u64, moment: u64, lost: bool) -> bool {
        if self.live == 0 {
            return false;
        }
        self.left = self.left.max(moment);
        self.lost |= lost;
        self.live = self.live.saturating_sub(live);
        self.live == 0
    }
}

/// The roots of one entry stream.
#[derive(Default)]
struct Window {
    /// Index of the ring's oldest root.
    base: u64,
    ring: std::collections::VecDeque<RootState>,
    stragglers: IdMap<RootState>,
    incomplete: u64,
}

/// Moments spread evenly over a dispatch: message `position` of `count` is done at
/// `start + duration * (position + 1) / count`.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    start: u64,
    /// The ticks between two messages.
    ticks: f64,
    position: u64,
}

impl Moments {
    /// The moments of a dispatch of `count` messages, from the message with the number `position` on.
    pub(crate) fn spread(start: u64, duration: u64, count: u64, position: u64) -> Moments {
        Moments { start, ticks: duration as f64 / count.max(1) as f64, position }
    }

    /// One moment for all messages.
    pub(crate) fn at(time: u64) -> Moments {
        Moments { start: time, ticks: 0.0, position: 0 }
    }

    #[inline]
    fn nth(&self, n: u64) -> u64 {
        self.start + ((self.position + n + 1) as f64 * self.ticks) as u64
    }

    /// The same moments without the first `n`.
    pub(crate) fn skip(mut self, n: u64) -> Moments {
        self.position += n;
        self
    }
}

/// A completed root, with its latencies, as a candidate for the list of the slowest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    pub(crate) root: Root,
    pub(crate) entered: u64,
    pub(crate) left: u64,
    pub(crate) service_ticks: f64,
}

impl Slow {
    fn ticks(&self) -> u64 {
        self.left.saturating_sub(self.entered)
    }
}

impl PartialEq for Slow {
    fn eq(&self, other: &Slow) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Slow {}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Slow) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slow {
    /// Orders roots by their end-to-end latency; of two roots with equal latencies, the later one is less.
    fn cmp(&self, other: &Slow) -> std::cmp::Ordering {
        self.ticks().cmp(&other.ticks()).then(other.root.cmp(&self.root))
    }
}

pub(crate) struct Roots {
    windows: Vec<Window>,
    ns_per_tick: f64,
    pub(crate) service: Times,
    pub(crate) end_to_end: Times,
    /// The end-to-end latency less the service latency, at least 0.
    pub(crate) waiting: Times,
    slowest: BinaryHeap<Reverse<Slow>>,
    slowest_max: usize,
    /// The number of roots that entered the network.
    pub(crate) entered: u64,
    /// The number of roots that completed unmeasured because some of their events were lost.
    pub(crate) unmeasured: u64,
}

impl Roots {
    pub(crate) fn new(ns_per_tick: f64, slowest_max: usize) -> Roots {
        Roots {
            windows: Vec::new(),
            ns_per_tick,
            service: Times::new(),
            end_to_end: Times::new(),
            waiting: Times::new(),
            slowest: BinaryHeap::new(),
            slowest_max,
            entered: 0,
            unmeasured: 0,
        }
    }

    /// Restarts the measurement: the latencies of roots that completed so far are forgotten.
    pub(crate) fn restart(&mut self) {
        (self.service, self.end_to_end, self.waiting) = (Times::new(), Times::new(), Times::new());
        self.slowest.clear();
        (self.entered, self.unmeasured) = (0, 0);
    }

    /// The roots with the greatest end-to-end latency, slowest first.
    pub(crate) fn slowest(&self) -> Vec<Slow> {
        let mut slowest: Vec<Slow> = self.slowest.iter().map(|&Reverse(slow)| slow).collect();
        slowest.sort_by(|a, b| b.cmp(a));
        slowest
    }

    /// Roots that have not completed.
    pub(crate) fn incomplete(&self) -> u64 {
        self.windows.iter().map(|window| window.incomplete).sum()
    }

    /// The number of roots held in memory.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.windows.iter().map(|window| window.ring.len() + window.stragglers.len()).sum()
    }

    /// Records that `count` messages entered through entry stream `entry`, from index `first`; each message
    /// counts as a live descendant of itself.
    pub(crate) fn enter(&mut self, entry: u64, first: u64, count: u64, moments: Moments) {
        while self.windows.len() as u64 <= entry {
            self.windows.push(Window::default());
        }
        let window = &mut self.windows[entry as usize];
        if window.base + window.ring.len() as u64 != first {
            window.restart(first);
        }
        for n in 0..count {
            let entered = moments.nth(n);
            window.ring.push_back(RootState {
                entered,
                left: entered,
                service_ticks: 0.0,
                live: 1,
                lost: false,
            });
        }
        window.incomplete += count;
        self.entered += count;
        window.thin();
    }

    /// Records that each of `count` messages took `ticks` to execute. The messages descend from consecutive
    /// roots; with `step` 0, from one root.
    #[inline]
    pub(crate) fn serve(&mut self, root: Root, count: u64, step: u64, ticks: f64) {
        if root == UNKNOWN {
            return;
        }
        let (roots, ticks) = if step == 0 { (1, ticks * count as f64) } else { (count, ticks) };
        self.each(root, roots, |_, state| state.service_ticks += ticks);
    }

    /// Adds live descendants: one to each of `count` consecutive roots; with `step` 0, `count` to one root.
    #[inline]
    pub(crate) fn retain(&mut self, root: Root, count: u64, step: u64) {
        if root == UNKNOWN {
            return;
        }
        let (roots, live) = if step == 0 { (1, count) } else { (count, 1) };
        self.each(root, roots, |_, state| state.live += live);
    }

    /// Records that `count` descendants left the network, or were used up, at these moments.
    #[inline]
    pub(crate) fn release(&mut self, root: Root, count: u64, step: u64, moments: Moments) {
        if root == UNKNOWN {
            return;
        }
        if step == 0 {
            let last = moments.nth(count - 1);
            self.leave(root, 1, count, |_| last, false);
        } else {
            self.leave(root, count, 1, |n| moments.nth(n), false);
        }
    }

    /// Removes descendants whose own descendants are unknown. The latency of their roots is not measured.
    pub(crate) fn lose(&mut self, root: Root, count: u64, step: u64) {
        if root == UNKNOWN {
            return;
        }
        let (roots, live) = if step == 0 { (1, count) } else { (count, 1) };
        self.leave(root, roots, live, |_| 0, true);
    }

    fn leave(&mut self, root: Root, roots: u64, live: u64, moment: impl Fn(u64) -> u64, lost: bool) {
        let Some(window) = self.windows.get_mut((root >> INDEX_BITS) as usize) else { return };
        let index = root & INDEX_MASK;
        let mut measured = |n: u64, state: &RootState| {
            if state.lost {
                self.unmeasured += 1;
                return;
            }
            let service = state.service_ticks * self.ns_per_tick;
            let ticks = state.left.saturating_sub(state.entered);
            let end_to_end = ticks as f64 * self.ns_per_tick;
            self.service.record(service);
            self.end_to_end.record(end_to_end);
            self.waiting.record((end_to_end - service).max(0.0));
            let slow = self.slowest.len() < self.slowest_max;
            if slow || self.slowest.peek().is_some_and(|Reverse(least)| least.ticks() < ticks) {
                let RootState { entered, left, service_ticks, .. } = *state;
                self.slowest.push(Reverse(Slow { root: root + n, entered, left, service_ticks }));
                if self.slowest.len() > self.slowest_max {
                    self.slowest.pop();
                }
            }
        };
        let in_ring = index.checked_sub(window.base);
        if let Some(start) = in_ring.filter(|start| start + roots <= window.ring.len() as u64) {
            let mut complete = 0;
            for (n, state) in window.ring.range_mut(start as usize..(start + roots) as usize).enumerate() {
                if state.leave(live, moment(n as u64), lost) {
                    complete += 1;
                    measured(n as u64, state);
                }
            }
            window.incomplete -= complete;
        } else {
            for n in 0..roots {
                let Some(state) = window.get_mut(index + n) else { continue };
                if state.leave(live, moment(n), lost) {
                    measured(n, state);
                    window.complete(index + n);
                }
            }
        }
        window.advance();
    }

    #[inline]
    fn each(&mut self, root: Root, count: u64, mut f: impl FnMut(u64, &mut RootState)) {
        let Some(window) = self.windows.get_mut((root >> INDEX_BITS) as usize) else { return };
        let index = root & INDEX_MASK;
        match index.checked_sub(window.base) {
            Some(start) if start + count <= window.ring.len() as u64 => {
                let range = start as usize..(start + count) as usize;
                for (n, state) in window.ring.range_mut(range).enumerate() {
                    f(n as u64, state);
                }
            }
            _ => {
                for n in 0..count {
                    if let Some(state) = window.get_mut(index + n) {
                        f(n, state);
                    }
                }
            }
        }
    }
}

impl Window {
    #[inline]
    fn get_mut(&mut self, index: u64) -> Option<&mut RootState> {
        match index.checked_sub(self.base) {
            Some(n) => self.ring.get_mut(n as usize),
            None => self.stragglers.get_mut(&index),
        }
    }

    fn complete(&mut self, index: u64) {
        self.incomplete -= 1;
        if index < self.base {
            self.stragglers.remove(&index);
        }
    }

    /// Forgets complete roots at the front.
    #[inline]
    fn advance(&mut self) {
        while self.ring.front().is_some_and(|state| state.live == 0) {
            self.ring.pop_front();
            self.base += 1;
        }
    }

    /// Keeps the ring dense: if most of it is complete, its first half moves to the map.
    fn thin(&mut self) {
        if self.ring.len() < RING_SPARSE || self.incomplete * 4 > self.ring.len() as u64 {
            return;
        }
        for _ in 0..self.ring.len() / 2 {
            self.pop_to_stragglers();
        }
        self.advance();
    }

    /// Restarts the ring at `first` after a gap in the entry stream; the roots in the ring move to the map of
    /// stragglers.
    fn restart(&mut self, first: u64) {
        while !self.ring.is_empty() {
            self.pop_to_stragglers();
        }
        self.base = first;
    }

    fn pop_to_stragglers(&mut self) {
        let state = self.ring.pop_front().unwrap_or(COMPLETE);
        if state.live > 0 {
            self.stragglers.insert(self.base, state);
        }
        self.base += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_what_is_in_flight() {
        let mut roots = Roots::new(1.0, 3);
        // Message 0 never leaves, while a million other messages pass, 64 at a time.
        roots.enter(0, 0, 1, Moments::at(0));
        for batch in 0..20_000 {
            let first = 1 + batch * 64;
            roots.enter(0, first, 64, Moments::at(first));
            roots.serve(root(0, first), 64, 1, 2.0);
            roots.release(root(0, first), 64, 1, Moments::at(first + 10));
            assert!(roots.held() < 2 * RING_SPARSE, "{} held", roots.held());
        }
        assert_eq!(roots.incomplete(), 1);
        roots.release(root(0, 0), 1, 1, Moments::at(2_000_000));
        assert_eq!(roots.incomplete(), 0);
        let end_to_end = roots.end_to_end.summary().unwrap();
        assert_eq!((end_to_end.count, end_to_end.max_ns), (20_000 * 64 + 1, 2_000_000.0));
        assert_eq!(roots.service.summary().unwrap().max_ns, 2.0);
    }

    #[test]
    fn a_hole_in_the_entry_costs_no_memory_for_the_hole() {
        let mut roots = Roots::new(1.0, 3);
        roots.enter(0, 5, 2, Moments::at(100));
        roots.enter(0, 1 << 40, 2, Moments::at(200));
        assert_eq!(roots.held(), 4);
        roots.release(root(0, 5), 2, 1, Moments::at(300));
        roots.lose(root(0, 1 << 40), 1, 1);
        assert_eq!((roots.incomplete(), roots.unmeasured), (1, 1));
        assert_eq!(roots.end_to_end.summary().unwrap().mean_ns, 200.0);
    }

    #[test]
    fn a_hostile_index_does_not_overflow() {
        let mut roots = Roots::new(1.0, 3);
        roots.enter(0, INDEX_MASK - 1, 4, Moments::at(1));
        roots.retain(UNKNOWN - 1, 7, 1);
        roots.release(root(3, 9), 2, 1, Moments::at(2));
        assert_eq!(roots.incomplete(), 4);
    }
}

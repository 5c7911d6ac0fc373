//! Runs of messages of a stream, with the roots that they descend from.

use std::collections::VecDeque;

use crate::lineage::roots::{Root, UNKNOWN};

/// Consecutive messages of a stream and their roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) root: Root,
    /// 1 if the messages have consecutive roots, 0 if they share one root.
    pub(super) step: u64,
}

impl Segment {
    pub(super) fn unknown(first: u64, count: u64) -> Segment {
        Segment { first, count, root: UNKNOWN, step: 0 }
    }

    pub(super) fn end(&self) -> u64 {
        self.first + self.count
    }

    /// The root of the segment's `n`-th message.
    pub(super) fn nth(&self, n: u64) -> Root {
        if self.root == UNKNOWN { UNKNOWN } else { self.root + n * self.step }
    }

    /// The part of the segment that leaves out the first `n` messages and has at most `count` messages.
    pub(super) fn part(&self, n: u64, count: u64) -> Segment {
        Segment {
            first: self.first + n,
            count: count.min(self.count - n),
            root: self.nth(n),
            step: self.step,
        }
    }
}

/// Segments of one stream, in the order of their indices.
#[derive(Default)]
pub(super) struct Segments(pub(super) VecDeque<Segment>);

impl Segments {
    pub(super) fn push(&mut self, new: Segment) {
        if let Some(last) = self.0.back_mut()
            && last.end() == new.first
        {
            let joined = match (last.root == UNKNOWN, new.root == UNKNOWN) {
                (true, true) => Some(0),
                (false, false) => [1, 0].into_iter().find(|&step| {
                    let steps = |segment: &Segment| segment.count == 1 || segment.step == step;
                    steps(last) && steps(&new) && new.root == last.root + step * last.count
                }),
                _ => None,
            };
            if let Some(step) = joined {
                last.step = step;
                last.count += new.count;
                return;
            }
        }
        self.0.push_back(new);
    }

    /// Removes up to `count` messages from the first segment and returns them.
    pub(super) fn pop(&mut self, count: u64) -> Option<Segment> {
        let front = self.0.front_mut()?;
        let taken = front.part(0, count);
        if taken.count == front.count {
            self.0.pop_front();
        } else {
            *front = front.part(taken.count, u64::MAX);
        }
        Some(taken)
    }
}

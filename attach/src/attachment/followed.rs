//! Every call of a function, read while the calls come: from the rings of records of [`kept`](crate::kept), before these are overwritten.
//!
//! Calls of a thread are nested. The depth of a call, which is the number of calls that enclose it, follows
//! from the times at which calls begin and end. [`Attachment::follow`] leaves out calls that ended after the
//! time `until`, so that an enclosing call is seen no later than the calls inside it. A call that an
//! exception or `longjmp` left has no end. Such a call is recognised by a later call of the same thread, if the
//! return address of the later call stands at the same place of the stack or above.

use super::Attachment;
use crate::error::Error;
use crate::kept::{RECORD_BYTES, Ring, Which};
use crate::points::STRIPES;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The offset in a stripe of the number of records that calls have taken so far.
const RECORDS_OFFSET: u64 = 80;
/// The distance in bytes from which on two return addresses count as lying on different stacks.
const STACK_BYTES: u64 = 1 << 26;

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The number of the point that recorded the call.
    pub point: usize,
    /// The thread of the target that made the call, as the address of its thread block.
    pub thread: u64,
    /// When the call ended, in ticks of the processor's clock.
    pub end: u64,
    /// How long the call lasted, in ticks of the processor's clock.
    pub ticks: u64,
    /// How many calls of followed functions in the same thread enclosed the call.
    pub depth: usize,
}

/// The numbers of a point's calls that [`Attachment::follow`] did not return although they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// The number of calls of which the records were overwritten before they were read.
    pub overwritten: u64,
    /// Calls that an exception or `longjmp` left, so that their end is not known.
    pub without_end: u64,
}

/// How far the calls of an attachment were read.
#[derive(Debug, Default)]
pub struct Follower {
    stripes: HashMap<(usize, u64), Stripe>,
    unrecorded: HashMap<usize, Unrecorded>,
}

#[derive(Debug, Default)]
struct Stripe {
    /// The number of the first record of the stripe that was not read yet.
    next: u64,
    /// The numbers of earlier records that were read before their calls had ended.
    open: Vec<u64>,
}

/// The name of a record: its point, its stripe, and its number in the stripe.
type Name = (usize, u64, u64);

/// A call, as its record was read; `end` is `None` if the call was still under way.
#[derive(Clone, Copy, Debug)]
struct Seen {
    name: Name,
    thread: u64,
    slot: u64,
    begin: u64,
    end: Option<u64>,
}

impl Follower {
    /// How many calls of a point are missing in the results of [`Attachment::follow`].
    pub fn unrecorded(&self, point: usize) -> Unrecorded {
        self.unrecorded.get(&point).copied().unwrap_or_default()
    }

    /// Reads the records that a stripe has received since the last reading, also those of calls under way.
    fn read(
        &mut self,
        (point, stripe): (usize, u64),
        (file, begin): (&File, u64),
        ring: &Ring,
        until: u64,
    ) -> std::io::Result<Vec<Seen>> {
        let records = || {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, begin + RECORDS_OFFSET).map(|()| u64::from_le_bytes(word))
        };
        let read = |number: u64| {
            let mut bytes = [0; RECORD_BYTES as usize];
            let at = begin + ring.offset + (number & (ring.records - 1)) * RECORD_BYTES;
            file.read_exact_at(&mut bytes, at)?;
            let how = word(&bytes, 48);
            // If the call has ended, the record is read again, because the first read may have missed fields
            // that the end of the call wrote.
            if how != 0 {
                file.read_exact_at(&mut bytes, at)?;
            }
            Ok::<_, std::io::Error>((bytes, how))
        };
        let state = self.stripes.entry((point, stripe)).or_default();
        let unrecorded = self.unrecorded.entry(point).or_default();
        let head = records()?;
        let first = state.next.max(head.saturating_sub(ring.records));
        unrecorded.overwritten += first - state.next;
        let open = std::mem::take(&mut state.open);
        state.next = head;
        let mut seen = Vec::new();
        for number in open.into_iter().chain(first..head) {
            let (bytes, how) = read(number)?;
            // A thread raises the stripe's count before it overwrites a record, so a high count shows that
            // the bytes just read may be those of another call.
            if records()? > number + ring.records {
                unrecorded.overwritten += 1;
                continue;
            }
            let is_written = word(&bytes, 0) == 0 && word(&bytes, 8) == number + 1;
            let begin = word(&bytes, 16);
            let end = (how != 0).then(|| begin + word(&bytes, 24)).filter(|end| is_written && *end <= until);
            if end.is_none() {
                state.open.push(number);
            }
            if is_written && begin <= until {
                let name = (point, stripe, number);
                seen.push(Seen { name, thread: word(&bytes, 32), slot: word(&bytes, 176), begin, end });
            }
        }
        Ok(seen)
    }

    /// Stops waiting for the end of calls that an exception or `longjmp` left, and counts these calls.
    fn give_up(&mut self, dead: &HashSet<Name>) {
        for (point, stripe, _) in dead {
            self.unrecorded.entry(*point).or_default().without_end += 1;
            let open = self.stripes.get_mut(&(*point, *stripe)).map(|stripe| &mut stripe.open);
            open.into_iter()
                .for_each(|open| open.retain(|number| !dead.contains(&(*point, *stripe, *number))));
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Returns the calls that have ended, in the order of their ends, and the names of the calls that will never
/// end.
fn nested(mut seen: Vec<Seen>) -> (Vec<Followed>, HashSet<Name>) {
    seen.sort_by_key(|call| (call.thread, call.begin, Reverse(call.end.unwrap_or(u64::MAX))));
    let (mut ended, mut dead) = (Vec::new(), HashSet::new());
    let mut enclosing: Vec<Seen> = Vec::new();
    for call in seen {
        while let Some(last) = enclosing.last() {
            let is_left = last.end.is_none()
                && call.slot >= last.slot
                && call.slot - last.slot < STACK_BYTES
                && call.thread == last.thread;
            if is_left {
                dead.insert(last.name);
            }
            let is_over = last.end.is_some_and(|end| end <= call.begin);
            if !is_left && !is_over && call.thread == last.thread {
                break;
            }
            enclosing.pop();
        }
        if let Some(end) = call.end {
            let (point, ticks) = (call.name.0, end - call.begin);
            ended.push(Followed { point, thread: call.thread, end, ticks, depth: enclosing.len() });
        }
        enclosing.push(call);
    }
    ended.sort_by_key(|call| call.end);
    (ended, dead)
}

impl Attachment {
    /// The calls of points with [`Which::Every`] that have ended since the last call of this function and no
    /// later than `until`, in the order of their ends. `until` is the present time or an earlier time, in
    /// ticks of the processor's clock.
    ///
    /// # Errors
    /// The shared memory cannot be read.
    pub fn follow(&self, follower: &mut Follower, until: u64) -> Result<Vec<Followed>, Error> {
        let mut seen = Vec::new();
        for point in 0..self.points.len() {
            let (file, figures, layout) = self.figures_of(point)?;
            let Some(ring) = layout.kept.filter(|ring| ring.keep.which == Which::Every) else { continue };
            for stripe in 0..STRIPES {
                let begin = figures + stripe * layout.stripe_bytes;
                let read = follower.read((point, stripe), (file, begin), &ring, until);
                seen.extend(read.map_err(|error| Error::of("cannot read the calls", error))?);
            }
        }
        let (ended, dead) = nested(seen);
        follower.give_up(&dead);
        Ok(ended)
    }

    /// The number of the thread that has this thread block, if the C library keeps it where glibc does.
    pub fn thread_number(&self, block: u64) -> Option<i32> {
        const NUMBER_OFFSET: u64 = 720;
        let mut bytes = [0; 4];
        self.process.read(block.checked_add(NUMBER_OFFSET)?, &mut bytes).ok()?;
        let number = i32::from_le_bytes(bytes);
        self.process.threads().contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(number: u64, slot: u64, begin: u64, end: Option<u64>) -> Seen {
        Seen { name: (0, 0, number), thread: 1, slot, begin, end }
    }

    #[test]
    fn depths_follow_from_times() {
        let calls = vec![
            seen(0, 900, 10, None),
            seen(2, 700, 30, Some(40)),
            seen(1, 800, 20, Some(60)),
            seen(3, 700, 45, Some(50)),
            Seen { thread: 2, ..seen(4, 950, 35, Some(36)) },
        ];
        let (ended, dead) = nested(calls);
        let depths: Vec<_> = ended.iter().map(|call| (call.end, call.ticks, call.depth)).collect();
        assert_eq!(depths, [(36, 1, 0), (40, 10, 2), (50, 5, 2), (60, 40, 1)]);
        assert!(dead.is_empty());
    }

    #[test]
    fn calls_that_were_left_enclose_nothing() {
        let (ended, dead) =
            nested(vec![seen(0, 900, 10, None), seen(1, 800, 20, None), seen(2, 900, 30, Some(40))]);
        assert_eq!(ended.iter().map(|call| call.depth).collect::<Vec<_>>(), [0]);
        assert_eq!(dead, HashSet::from([(0, 0, 0), (0, 0, 1)]));
    }
}

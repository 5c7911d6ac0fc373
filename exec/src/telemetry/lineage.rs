//! What descends from what, as far as a dispatch has come: runs of messages, each of which descends from the same or from the next one.

use super::base::Part;
use super::kinds::{Derived, Descent};
use super::stream::WatchedStream;

/// What one dispatch has noted.
pub(super) struct Lineage {
    runs: Vec<Derived>,
    next: Next,
}

/// What would make the last run longer by one; a message that does so is noted by a few comparisons.
struct Next {
    /// The stream written; none: nothing would.
    child: *const (),
    /// The stream read last.
    parent: *const (),
    /// What their counts of messages would be.
    pushed: usize,
    popped: usize,
    step: usize,
}

impl Lineage {
    pub(super) fn new() -> Lineage {
        let (child, parent) = (std::ptr::null(), std::ptr::null());
        Lineage { runs: Vec::new(), next: Next { child, parent, pushed: 0, popped: 0, step: 0 } }
    }

    /// Whether what was pushed last on `child` goes on with the last run, if `parent` was popped from last. Then it is noted.
    ///
    /// # Safety
    /// `parent` must point to a stream, unless it is null.
    #[inline]
    pub(super) unsafe fn goes_on<S: WatchedStream>(&mut self, child: &S, parent: *const S) -> bool {
        let next = &mut self.next;
        if !std::ptr::eq(next.child, address(child))
            || next.parent != parent.cast()
            || next.pushed != child.position(true)
        {
            return false;
        }
        // SAFETY: it is the parent of a run, which is not null; the caller vouches for it.
        if next.popped != unsafe { &*parent }.position(false) {
            return false;
        }
        let Some(run) = self.runs.last_mut() else { return false };
        run.count += 1;
        next.pushed += 1;
        next.popped += next.step;
        true
    }

    /// Notes that the message pushed last on `child` descends from this one: its stream, its index. If it is what was popped
    /// last, `popped` is the stream.
    pub(super) fn note<S: WatchedStream>(
        &mut self,
        child: &S,
        (parent_stream, parent_first): (u64, u64),
        popped: Option<&S>,
    ) {
        let (stream, first) = (child.number(), child.position(true) as u64 - 1);
        if let Some((run, is_last)) = self.run_before(stream, first, parent_stream) {
            let ahead = parent_first.wrapping_sub(run.parent_first);
            if run.count == 1 && ahead <= 1 {
                run.step = ahead as u32;
            }
            if ahead == u64::from(run.count) * u64::from(run.step) {
                run.count += 1;
                let step = run.step as usize;
                if let (true, Some(parent)) = (is_last, popped) {
                    let (pushed, popped) = (child.position(true) + 1, parent.position(false) + step);
                    self.next = Next { child: address(child), parent: address(parent), pushed, popped, step };
                }
                return;
            }
        }
        self.begin(Derived { stream, first, parent_stream, parent_first, count: 1, step: 0 });
    }

    /// Notes that the `count` messages pushed last on `child` descend from as many popped last, each from one.
    #[cfg(not(loom))]
    pub(super) fn note_run(
        &mut self,
        child: &impl WatchedStream,
        count: usize,
        (parent_stream, parent_last): (u64, u64),
    ) {
        let (stream, first) = (child.number(), (child.position(true) - count) as u64);
        let (parent_first, count) = (parent_last + 1 - count as u64, count as u32);
        if let Some((run, _)) = self.run_before(stream, first, parent_stream)
            && (run.step == 1 || run.count == 1)
            && run.parent_first + u64::from(run.count) == parent_first
        {
            run.step = 1;
            run.count += count;
            return;
        }
        let step = u32::from(count > 1);
        self.begin(Derived { stream, first, parent_stream, parent_first, count, step });
    }

    /// What all of `written` descends from, if it is what the dispatch read from its base's input, or had
    /// read, and can be said with that: as [`descent`] says. Descent that this returns is removed from the
    /// notes.
    #[inline]
    pub(super) fn take_descent(&mut self, written: &Part, input: &Part) -> (Descent, i16) {
        let mut of_stream = (0..self.runs.len()).filter(|&at| self.runs[at].stream == written.stream);
        let (Some(at), None) = (of_stream.next(), of_stream.next()) else { return (Descent::Unrecorded, 0) };
        match descent(&self.runs[at], input, written) {
            (Descent::Unrecorded, _) => (Descent::Unrecorded, 0),
            (descent, offset) => match i16::try_from(offset) {
                Err(_) => (Descent::Unrecorded, 0),
                Ok(offset) => {
                    self.runs.remove(at);
                    (descent, offset)
                }
            },
        }
    }

    /// What was noted.
    #[inline]
    pub(super) fn noted(&self) -> &[Derived] {
        &self.runs
    }

    /// From now on nothing is noted.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }

    fn begin(&mut self, run: Derived) {
        self.next.child = std::ptr::null();
        self.runs.push(run);
    }

    /// Lineage noted in this dispatch that message `first` of a stream may go on, and whether it is the last.
    fn run_before(&mut self, stream: u64, first: u64, parent_stream: u64) -> Option<(&mut Derived, bool)> {
        let mut latest = self.runs.iter_mut().rev().take(4).enumerate();
        let (before, run) = latest.find(|(_, run)| run.stream == stream)?;
        let goes_on = run.parent_stream == parent_stream && run.first + u64::from(run.count) == first;
        goes_on.then_some((run, before == 0))
    }
}

/// How an event says what the messages written descend from, if it can: in which way, and from which one the first does, counted from the
/// first one read.
#[inline]
pub(super) fn descent(derived: &Derived, input: &Part, output: &Part) -> (Descent, i64) {
    let all = derived.stream == output.stream
        && derived.first == output.first
        && u64::from(derived.count) == output.count
        && derived.parent_stream == input.stream
        && input.count > 0;
    if !all {
        return (Descent::Unrecorded, 0);
    }
    let descent = if derived.step == 0 { Descent::AllFromOne } else { Descent::EachFromNext };
    (descent, derived.parent_first.wrapping_sub(input.first) as i64)
}

fn address<S>(stream: &S) -> *const () {
    std::ptr::from_ref(stream).cast()
}

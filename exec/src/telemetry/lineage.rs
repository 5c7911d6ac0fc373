//! The lineage that the present dispatch has noted: runs of messages in which all messages descend from the
//! same message, or the k-th message from the k-th message of another run.

use super::base::Part;
use super::kinds::{Derived, Descent};
use super::stream::WatchedStream;

/// The lineage noted by one dispatch.
pub(super) struct Lineage {
    runs: Vec<Derived>,
    next: Next,
}

/// The conditions under which a message extends the last run by one; checking them takes a few comparisons.
struct Next {
    /// The stream written; null if no message can extend the run.
    child: *const (),
    /// The stream read last.
    parent: *const (),
    /// The value that the child's `pushed` must have; `popped` is the value that the parent's `popped` must
    /// have.
    pushed: usize,
    popped: usize,
    step: usize,
}

impl Lineage {
    pub(super) fn new() -> Lineage {
        let (child, parent) = (std::ptr::null(), std::ptr::null());
        Lineage { runs: Vec::new(), next: Next { child, parent, pushed: 0, popped: 0, step: 0 } }
    }

    /// If the message pushed last on `child` extends the last run, notes the message and returns true.
    /// `parent` is the stream of the last pop.
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
        // SAFETY: the pointer equals the parent of a run, so it is not null, and the caller guarantees that
        // it is valid.
        if next.popped != unsafe { &*parent }.position(false) {
            return false;
        }
        let Some(run) = self.runs.last_mut() else { return false };
        run.count += 1;
        next.pushed += 1;
        next.popped += next.step;
        true
    }

    /// Notes that the message pushed last on `child` descends from the message `read` (its stream and index).
    /// `popped` is the stream of `read` if that message was popped last.
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

    /// Notes that the `count` messages pushed last on `child` descend from the `count` messages popped last,
    /// the k-th from the k-th.
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

    /// The descent of all messages of `written`, in the form of [`descent`], if they descend from messages
    /// that this or a former dispatch read from the input of its base (`exec.dispatch_base`) and if the form
    /// can express the descent.
    /// Lineage that is returned is removed from the notes.
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

    /// The lineage noted.
    #[inline]
    pub(super) fn noted(&self) -> &[Derived] {
        &self.runs
    }

    /// Removes all notes.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }

    fn begin(&mut self, run: Derived) {
        self.next.child = std::ptr::null();
        self.runs.push(run);
    }

    /// A run noted in this dispatch that message `first` of a stream may extend, and whether it is the last
    /// run.
    fn run_before(&mut self, stream: u64, first: u64, parent_stream: u64) -> Option<(&mut Derived, bool)> {
        let mut latest = self.runs.iter_mut().rev().take(4).enumerate();
        let (before, run) = latest.find(|(_, run)| run.stream == stream)?;
        let goes_on = run.parent_stream == parent_stream && run.first + u64::from(run.count) == first;
        goes_on.then_some((run, before == 0))
    }
}

/// The descent of written messages in the form in which an event expresses it: the kind of descent, and the
/// index of the first message's parent relative to the first message read; the kind is `Unrecorded` if an
/// event cannot express the descent.
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

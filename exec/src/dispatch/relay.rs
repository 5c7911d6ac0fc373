//! The end of a dispatch that read one stream to its end and wrote to one other stream, while nothing is
//! measured. A message that is alone in its network makes such a dispatch at each task that it passes.
//!
//! The functions of `publishing` end any dispatch, and decide for each end what to do. This one takes the same
//! steps in the same order in fewer instructions, because it knows which steps there are.

use super::budget::Budget;
use super::core::Core;
use crate::ring::{AWAKE, NOTED, TASK_WAITS, TOUCHED, Wait};
use crate::stop::Stop;
use crate::sync::Ordering;
use crate::task::cell::{Current, Ring, State, TaskCell};
use crate::telemetry::Cause;

impl Core {
    /// Publishes the current task's dispatch and arms the task's wake-up; returns `false`, and changes nothing,
    /// if the dispatch was not as simple as that.
    #[inline]
    pub(super) fn relay(&mut self, task: &TaskCell, stop: Stop, budget: &Budget) -> bool {
        if self.telemetry.measures() {
            return false;
        }
        let [one, other] = self.used.touched[..] else { return false };
        let (from, to) = if one.writes { (other, one) } else { (one, other) };
        let is_simple = stop == Stop::InputEmpty
            && one.writes != other.writes
            && budget.is_unsampled()
            && !self.adopted.by_demand
            && self.handed.is_none()
            && self.used.released.is_empty()
            && !self.used.ports_wait
            && !task.has_rare();
        if !is_simple {
            return false;
        }
        // SAFETY: an end on the list is kept until the list is emptied, and the references are not kept longer.
        let (from, to) = unsafe { (from.ring.as_ref(), to.ring.as_ref()) };
        // A reader that saw the stream's end before, and did not end, is an error, which `arm` reports.
        if from.reading.state.load(Ordering::Relaxed) != TOUCHED | NOTED
            || to.writing.state.load(Ordering::Relaxed) != TOUCHED
            || from.reading.end_told.get()
        {
            return false;
        }
        self.publish_relay(task, from, to);
        true
    }

    fn publish_relay(&mut self, task: &TaskCell, from: &Ring, to: &Ring) {
        self.telemetry.publishing_begins();
        task.counts.dispatches.set(task.counts.dispatches.get() + 1);
        let (pushed, popped) = (to.writing.pushed.get(), from.reading.popped.get());
        to.writing.limit.set(pushed);
        from.reading.available.set(popped);
        self.count(from.taken_since() - from.discarded.get(), to.written_since());
        self.used.popped_last.set(std::ptr::null());
        self.used.touched.clear();
        if pushed != to.writing.tail.load(Ordering::Relaxed) {
            let waits = to.publish_written(self.me, self.worker);
            if waits != AWAKE {
                self.wake_relayed(to, waits);
            }
            to.leave_writer_section();
        }
        to.writing.state.store(0, Ordering::Release);
        if popped != from.reading.head.load(Ordering::Relaxed) {
            let waits = from.publish_read(self.me, self.worker);
            if waits != AWAKE {
                self.wake_writer(from, waits, Cause::Room);
            }
            from.leave_reader_section();
        }
        let armed = from.wait_for_messages(self.me, TASK_WAITS) == Wait::Armed;
        if armed {
            task.waits_for_only(from);
        } else {
            task.forget_first_wait();
        }
        let sleeps = armed && !task.notified.get();
        task.notified.set(false);
        self.stops(task, Stop::InputEmpty, sleeps);
        from.reading.state.store(0, Ordering::Release);
        self.task = Current::NONE;
        if sleeps {
            task.state.set(State::Idle);
        } else {
            self.make_ready(task);
        }
    }

    /// Wakes the reader of a stream, as [`Core::wake_reader`] does. The thread is in the writer's section.
    #[inline]
    fn wake_relayed(&mut self, ring: &Ring, how: u8) {
        if how != TASK_WAITS {
            return self.wake_reader(ring, how, Cause::Input);
        }
        // SAFETY: this thread is in the writer's section, so a reference of the ring that is still visible is
        // not given up.
        if let Some(reader) = unsafe { ring.reading.task.load(Ordering::SeqCst).as_ref() } {
            self.wake(reader, Cause::Input, ring.id);
        }
    }
}

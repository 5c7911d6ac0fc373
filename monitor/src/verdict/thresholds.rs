//! The thresholds of all rules, each with its reason. `docs/report.md` lists them.

/// From which value on a rule answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Its name here.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// `share` (of 1), `ns`, `times` or what is counted.
    pub unit: &'static str,
    /// Why there is one.
    pub reason: &'static str,
}

macro_rules! thresholds {
    ($($(#[doc = $reason:literal])+ $name:ident = $value:literal, $unit:literal;)*) => {
        $($(#[doc = $reason])+ pub(crate) const $name: f64 = $value;)*

        /// Every threshold.
        pub const THRESHOLDS: &[Threshold] = &[
            $(Threshold { name: stringify!($name), value: $name, unit: $unit, reason: concat!($($reason),+) },)*
        ];
    };
}

thresholds! {
    /// A run that rested for more than this share of its time worked too little to be judged.
    RESTED = 0.5, "share";
    /// A task or worker that is busier has no time to spare.
    SATURATED = 0.8, "share";
    /// A source that waits less for room is not held back.
    HELD_BACK = 0.15, "share";
    /// A network that waits this much for its source, or sink, is limited by it, where the source records nothing of itself.
    STARVED = 0.5, "share";
    /// A source whose thread uses less of its busy time on the processor takes its time instead of working.
    WORKS = 0.5, "share";
    /// A worker that others kept from its processor, or that slept in a box, for more of its time is slowed by that; so is a run that waited for room on the disk.
    LOST = 0.2, "share";
    /// An account counts if it rests on so many looks at a thread, or if half of its busy time is in dispatches whose processor time was measured.
    LOOKS = 10.0, "times";
    /// A task that sleeps for more of its busy time would gain little by less work.
    ASLEEP = 0.5, "share";
    /// A larger share of its processor time in the kernel is mentioned.
    KERNEL = 0.3, "share";
    /// So many new pages of memory a second take a hundredth of a processor and more.
    FAULTS = 10000.0, "pages";
    /// A run hangs if nothing has gone on for so long, and a box has slept for so long.
    HANG_NS = 1e9, "ns";
    /// Such a box hangs only if it has slept for so many times as long as its messages take in the mean.
    HANG_TIMES = 5.0, "times";
    /// Where the kernel reports no delays: preempted less often than once in this time lost, a thread slept.
    SLEEP_NS = 50e6, "ns";
    /// What changing tasks takes of a dispatch, about. A dispatch reads the clock once, so no event records it.
    CHANGE_NS = 150.0, "ns";
    /// The share of a dispatch that is too much for changing tasks.
    CHANGING = 0.25, "share";
    /// Dispatches of fewer messages, and shorter than SHORT_NS, are short: each may wake a thread, which takes as long.
    SHORT_MESSAGES = 16.0, "messages";
    /// Dispatches that take less are short, if they are of few messages.
    SHORT_NS = 5000.0, "ns";
    /// Where so many dispatches end with the quantum spent, it is the quantum that ends them.
    SPENT = 0.5, "share";
    /// Dispatches that take more of what a small quantum allows are ended by it.
    FILLS = 0.5, "times";
    /// Streams that hold fewer dispatches' messages end the dispatches.
    NARROW = 4.0, "dispatches";
    /// Streams that hold more are not called too small.
    SMALL = 16.0, "messages";
    /// By this factor a stream is made longer on trial where it is too small: a smaller factor brings little, a larger one takes memory.
    LONGER_STREAM = 4.0, "times";
    /// A stream whose ends both wait less of the time does not keep them apart.
    BOTH_WAIT = 0.1, "share";
    /// A component that writes so many messages for each it reads floods those behind it.
    FLOOD = 8.0, "messages";
    /// The component has to have read so many: what the only input brings is no burst, but all there is to do.
    FLOOD_READS = 4.0, "messages";
    /// Where the other replicas are busier than this, measured by the busiest, they share the work.
    SHARED = 0.6, "times";
    /// A replica that takes so many times longer for a message than the others is slow.
    SLOWER = 1.5, "times";
    /// A worker that is busy for so much of the time, and twice as much as another, has too many of the tasks, though it waits between.
    UNEVEN = 0.5, "share";
    /// A component that does this part of all work is worth replicas.
    MOST = 0.5, "share";
    /// That much busier than the least busy worker is uneven.
    UNEVEN_TIMES = 2.0, "times";
    /// A move that raises the flow by a smaller factor is not worth it.
    GAIN = 1.1, "times";
    /// A task that lived for less of the run is judged by shares of the run.
    SHORT_LIFE = 0.5, "share";
    /// A component of so many tasks, each of which takes few messages, is of too fine a grain: to make and end a task takes some microseconds, whatever it does.
    GRAIN_TASKS = 100.0, "tasks";
    /// Fewer messages than this for each task are few.
    GRAIN_MESSAGES = 4.0, "messages";
    /// Tasks that are busy for longer, most of it in boxes, are worth being made.
    GRAIN_NS = 30e3, "ns";
    /// So much in boxes is most of it.
    GRAIN_BOXES = 0.5, "share";
    /// The share of all work that has to be in components of too fine a grain.
    GRAIN_SHARE = 0.5, "share";
    /// A task that takes so long for a message keeps the other tasks of its worker from running for long.
    LONG_NS = 1e6, "ns";
    /// So much of all waiting has to lead to tasks that are ready behind it.
    BEHIND = 0.3, "share";
    /// A task that has no room for so much of the time, because another is awaited in order, waits behind that.
    BLOCKED = 0.3, "share";
    /// A task that is ready for so much of the time, while its worker waits, waits for threads to be woken.
    WOKEN = 0.2, "share";
    /// A worker that waits for so much of the time had time for such a task.
    IDLE = 0.5, "share";
    /// A run of less time is mostly its start.
    START_NS = 50e6, "ns";
    /// Slowed by a part, a task on which all depends slows the flow by the same part (sensitivity 1): from here on the flow depends on it.
    DEPENDS = 0.5, "times";
    /// Below this sensitivity the flow does not depend on it: windows of a quarter of a second differ by as much.
    INDEPENDENT = 0.2, "times";
}

//! The thresholds of all rules, each with its reason. `docs/report.md` lists them.

/// A threshold of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The name of the threshold's constant.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// The unit of the value: `share` (a fraction of 1), `ns`, `times`, or the things counted.
    pub unit: &'static str,
    /// The reason for the threshold.
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
    /// A run whose sources were paused for more than this share of its time worked too little to be judged.
    RESTED = 0.5, "share";
    /// A task or worker that is busy for more than this share of its time has no spare time.
    SATURATED = 0.8, "share";
    /// A task with a larger share than this of a saturated worker's busy time limits the worker: to halve the
    /// task's work gains more than to move all other tasks to another worker.
    PREVAILS = 0.67, "share";
    /// A source that waits for room for less than this share of its time is not held back.
    HELD_BACK = 0.15, "share";
    /// A network that waits for its source or sink for this share of the time is limited by it, if the source
    /// or sink records no times of its own.
    STARVED = 0.5, "share";
    /// A source whose thread is on the processor for a smaller share of its busy time waits or sleeps instead
    /// of working.
    WORKS = 0.5, "share";
    /// A worker that was kept from its processor by others or slept in a box, a box that was asleep in a read, or a
    /// run that waited for space on the disk, for more than this share of its time is slowed by the lost time.
    LOST = 0.2, "share";
    /// If the run's own threads use this share of its processors, other processes cannot be what limits it.
    OWN_USE = 0.88, "share";
    /// Links that waited for a port, for bandwidth, for their connection or for room at the receiver for more
    /// than this share of their time hold records back.
    LINKED = 0.3, "share";
    /// If a sink is asleep in a write for this share of the time, what it writes into is full again and again, so
    /// the program that reads it sets the pace.
    READ_SLOWLY = 0.3, "share";
    /// An account counts if it is based on this many samples of a thread, or if half of its busy time is in
    /// dispatches whose processor time was measured.
    LOOKS = 10.0, "times";
    /// A box reads at the pace of its outside input if this many samples found it asleep in a read.
    LOOKS_READING = 3.0, "times";
    /// A task that sleeps for more than this share of its busy time would gain little by less work.
    ASLEEP = 0.5, "share";
    /// The share of its processor time that a task spends in the kernel is mentioned if it is larger than
    /// this.
    KERNEL = 0.3, "share";
    /// This many page faults a second take at least a hundredth of a processor.
    FAULTS = 10000.0, "pages";
    /// A run hangs if it has made no progress, and a box has slept, for this time.
    HANG_NS = 1e9, "ns";
    /// A box hangs only if it has slept for this multiple of the mean time of its messages.
    HANG_TIMES = 5.0, "times";
    /// If the kernel reports no delays, a thread that was preempted less often than once in this much missing
    /// time slept.
    SLEEP_NS = 50e6, "ns";
    /// The approximate time of a change of tasks. A dispatch reads the clock once, so no event records this
    /// time.
    CHANGE_NS = 150.0, "ns";
    /// The share of a dispatch that is too much for changing tasks.
    CHANGING = 0.25, "share";
    /// Dispatches that read fewer messages than this and take less time than SHORT_NS are short: each may
    /// wake a thread, and a wake-up takes about as long as such a dispatch.
    SHORT_MESSAGES = 16.0, "messages";
    /// Dispatches that take less time than this are short, if they read fewer messages than SHORT_MESSAGES.
    SHORT_NS = 5000.0, "ns";
    /// If this share of the dispatches ends with the quantum spent, the quantum is what ends dispatches.
    SPENT = 0.5, "share";
    /// Dispatches that use more than this share of a small quantum count as ended by the quantum.
    FILLS = 0.5, "times";
    /// Streams that hold the messages of fewer dispatches than this end dispatches early.
    NARROW = 4.0, "dispatches";
    /// Streams that hold more messages than this do not count as too small.
    SMALL = 16.0, "messages";
    /// Streams that hold so few messages make tasks change with nearly each message.
    TINY = 3.0, "messages";
    /// A worker that is busy for a larger share of its time than this has too much work, also where streams hold few
    /// messages.
    ALL_BUSY = 0.93, "share";
    /// The factor by which a stream that is too small is made longer: a smaller factor gains little, a larger
    /// one takes memory.
    LONGER_STREAM = 4.0, "times";
    /// A stream limits its two tasks only if each waits for it for more than this share of the time.
    BOTH_WAIT = 0.1, "share";
    /// A component that writes this many messages for each message read floods the components after it.
    FLOOD = 8.0, "messages";
    /// A component floods only if it has read at least this many messages, because the output of a single
    /// input is all the work and not a burst.
    FLOOD_READS = 4.0, "messages";
    /// Replicas share the work evenly if the other replicas are busy for more than this multiple of the
    /// busiest one's time.
    SHARED = 0.6, "times";
    /// A replica is slow if a message takes this multiple of the time that it takes in the other replicas.
    SLOWER = 1.5, "times";
    /// A worker that is busy for this share of the time, and twice as much as another, has too many tasks,
    /// even if it also waits between dispatches.
    UNEVEN = 0.5, "share";
    /// A component that does this share of all work is worth replicas.
    MOST = 0.5, "share";
    /// Work is uneven if a worker is busy for this multiple of the least busy worker's time.
    UNEVEN_TIMES = 2.0, "times";
    /// A move that raises the flow by a smaller factor than this is not suggested.
    GAIN = 1.1, "times";
    /// A task that lived for less than this share of the run is judged by shares of the run's time.
    SHORT_LIFE = 0.5, "share";
    /// A component of this many tasks, each of which reads few messages, has too fine a grain: creating and
    /// ending a task takes some microseconds.
    GRAIN_TASKS = 100.0, "tasks";
    /// A task with fewer messages than this reads few messages.
    GRAIN_MESSAGES = 4.0, "messages";
    /// Tasks that are busy for longer than this, mostly in boxes, are worth the cost of their creation.
    GRAIN_NS = 30e3, "ns";
    /// A component's work is mostly in boxes if boxes take at least this share of the work.
    GRAIN_BOXES = 0.5, "share";
    /// The rule on the grain applies if components of too fine a grain do at least this share of all work.
    GRAIN_SHARE = 0.5, "share";
    /// A task that takes this long for a message keeps the other tasks of its worker from running.
    LONG_NS = 1e6, "ns";
    /// The rule on long boxes applies if the roots of at least this share of all waiting are tasks that are
    /// ready behind the box.
    BEHIND = 0.3, "share";
    /// A task waits behind another one if it has no room for this share of the time because the other one is
    /// awaited to keep the order.
    BLOCKED = 0.3, "share";
    /// A task that is ready for this share of the time while its worker waits is waiting for threads to be
    /// woken.
    WOKEN = 0.2, "share";
    /// A worker that waits for this share of the time had time for a ready task.
    IDLE = 0.5, "share";
    /// A run shorter than this is mostly its start.
    START_NS = 50e6, "ns";
    /// The flow depends on a task if its sensitivity is at least this; the sensitivity is 1 if slowing the
    /// task slows the flow by the same share.
    DEPENDS = 0.5, "times";
    /// The flow does not depend on a task with a smaller sensitivity: windows of a quarter of a second differ
    /// by this much by chance.
    INDEPENDENT = 0.2, "times";
    /// Two delays add up if both together have the larger effect alone and this part of the smaller effect.
    ADDED = 0.7, "times";
    /// Two delays do not add up if both together have the larger effect alone and at most this part of the
    /// smaller effect.
    NOT_ADDED = 0.3, "times";
}

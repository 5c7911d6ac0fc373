//! The rules of the verdict, one in each file. `docs/contributing.md` describes how to add a rule.

mod asleep;
mod behind;
mod burst_in_turns;
mod burst_on_task;
mod burst_on_worker;
mod busiest;
mod contention;
mod contention_of_waiting;
mod crowded;
mod deadlock;
mod full_disk;
mod grain;
mod hang;
mod long_box;
mod mapping;
mod narrow_streams;
mod nothing;
mod paused;
mod quantum;
mod replayed;
mod saturated_task;
mod saturated_worker;
mod sink;
mod sink_awaited;
mod slow_replica;
mod small_stream;
mod source;
mod source_awaited;
mod throttled;
mod too_short;
mod uneven_split;
mod uneven_workers;
mod unfinished;
mod unknown;
mod waking;

use super::facts::Facts;
use crate::report::{Finding, Words};

/// A rule: its function that makes a finding from a report, and its function that makes the words.
pub(super) struct Rule {
    /// The name of the rule, which is also the name of its file.
    pub(super) name: &'static str,
    /// Returns the finding, if the rule applies.
    pub(super) find: fn(&Facts<'_>) -> Option<Finding>,
    /// Makes the sentences from the finding alone.
    pub(super) say: fn(&Finding) -> Words,
}

/// All rules, in the order in which they are evaluated.
pub(super) const RULES: &[Rule] = &[
    Rule { name: "paused", find: paused::find, say: paused::say },
    Rule { name: "deadlock", find: deadlock::find, say: deadlock::say },
    Rule { name: "hang", find: hang::find, say: hang::say },
    Rule { name: "full_disk", find: full_disk::find, say: full_disk::say },
    Rule { name: "replayed", find: replayed::find, say: replayed::say },
    Rule { name: "asleep", find: asleep::find, say: asleep::say },
    Rule { name: "throttled", find: throttled::find, say: throttled::say },
    Rule { name: "contention", find: contention::find, say: contention::say },
    Rule { name: "crowded", find: crowded::find, say: crowded::say },
    Rule { name: "unfinished", find: unfinished::find, say: unfinished::say },
    Rule { name: "quantum", find: quantum::find, say: quantum::say },
    Rule { name: "source", find: source::find, say: source::say },
    Rule { name: "nothing", find: nothing::find, say: nothing::say },
    Rule { name: "sink", find: sink::find, say: sink::say },
    Rule { name: "narrow_streams", find: narrow_streams::find, say: narrow_streams::say },
    Rule { name: "grain", find: grain::find, say: grain::say },
    Rule { name: "slow_replica", find: slow_replica::find, say: slow_replica::say },
    Rule { name: "uneven_split", find: uneven_split::find, say: uneven_split::say },
    Rule { name: "burst_on_task", find: burst_on_task::find, say: burst_on_task::say },
    Rule { name: "saturated_task", find: saturated_task::find, say: saturated_task::say },
    Rule { name: "burst_on_worker", find: burst_on_worker::find, say: burst_on_task::say },
    Rule { name: "mapping", find: mapping::find, say: mapping::say },
    Rule { name: "long_box", find: long_box::find, say: long_box::say },
    Rule { name: "saturated_worker", find: saturated_worker::find, say: saturated_worker::say },
    Rule { name: "contention_of_waiting", find: contention_of_waiting::find, say: contention::say },
    Rule { name: "burst_in_turns", find: burst_in_turns::find, say: burst_on_task::say },
    Rule { name: "small_stream", find: small_stream::find, say: small_stream::say },
    Rule { name: "behind", find: behind::find, say: behind::say },
    Rule { name: "uneven_workers", find: uneven_workers::find, say: mapping::say },
    Rule { name: "sink_awaited", find: sink_awaited::find, say: sink_awaited::say },
    Rule { name: "source_awaited", find: source_awaited::find, say: source_awaited::say },
    Rule { name: "unknown", find: unknown::find, say: unknown::say },
    Rule { name: "waking", find: waking::find, say: waking::say },
    Rule { name: "too_short", find: too_short::find, say: too_short::say },
    Rule { name: "busiest", find: busiest::find, say: busiest::say },
];

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
mod link;
mod long_box;
mod mapping;
mod narrow_streams;
mod node;
mod nothing;
mod paused;
mod port;
mod prevailing_task;
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
mod spinning;
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
    pub(super) describe: fn(&Finding) -> Words,
}

/// All rules, in the order in which they are evaluated.
pub(super) const RULES: &[Rule] = &[
    Rule { name: "paused", find: paused::find, describe: paused::describe },
    Rule { name: "deadlock", find: deadlock::find, describe: deadlock::describe },
    Rule { name: "hang", find: hang::find, describe: hang::describe },
    Rule { name: "full_disk", find: full_disk::find, describe: full_disk::describe },
    Rule { name: "replayed", find: replayed::find, describe: replayed::describe },
    Rule { name: "asleep", find: asleep::find, describe: asleep::describe },
    Rule { name: "spinning", find: spinning::find, describe: spinning::describe },
    Rule { name: "throttled", find: throttled::find, describe: throttled::describe },
    Rule { name: "contention", find: contention::find, describe: contention::describe },
    Rule { name: "crowded", find: crowded::find, describe: crowded::describe },
    Rule { name: "unfinished", find: unfinished::find, describe: unfinished::describe },
    Rule { name: "quantum", find: quantum::find, describe: quantum::describe },
    Rule { name: "link", find: link::find, describe: link::describe },
    Rule { name: "port", find: port::find, describe: port::describe },
    Rule { name: "source", find: source::find, describe: source::describe },
    Rule { name: "nothing", find: nothing::find, describe: nothing::describe },
    Rule { name: "sink", find: sink::find, describe: sink::describe },
    Rule { name: "tiny_stream", find: small_stream::find_tiny, describe: small_stream::describe },
    Rule { name: "narrow_streams", find: narrow_streams::find, describe: narrow_streams::describe },
    Rule { name: "grain", find: grain::find, describe: grain::describe },
    Rule { name: "slow_replica", find: slow_replica::find, describe: slow_replica::describe },
    Rule { name: "uneven_split", find: uneven_split::find, describe: uneven_split::describe },
    Rule { name: "burst_on_task", find: burst_on_task::find, describe: burst_on_task::describe },
    Rule { name: "saturated_task", find: saturated_task::find, describe: saturated_task::describe },
    Rule { name: "burst_on_worker", find: burst_on_worker::find, describe: burst_on_task::describe },
    Rule { name: "mapping", find: mapping::find, describe: mapping::describe },
    Rule { name: "long_box", find: long_box::find, describe: long_box::describe },
    Rule { name: "prevailing_task", find: prevailing_task::find, describe: prevailing_task::describe },
    Rule { name: "saturated_worker", find: saturated_worker::find, describe: saturated_worker::describe },
    Rule { name: "contention_of_waiting", find: contention_of_waiting::find, describe: contention::describe },
    Rule { name: "burst_in_turns", find: burst_in_turns::find, describe: burst_on_task::describe },
    Rule { name: "node", find: node::find, describe: node::describe },
    Rule { name: "small_stream", find: small_stream::find, describe: small_stream::describe },
    Rule { name: "behind", find: behind::find, describe: behind::describe },
    Rule { name: "uneven_workers", find: uneven_workers::find, describe: mapping::describe },
    Rule { name: "sink_awaited", find: sink_awaited::find, describe: sink_awaited::describe },
    Rule { name: "source_awaited", find: source_awaited::find, describe: source_awaited::describe },
    Rule { name: "unknown", find: unknown::find, describe: unknown::describe },
    Rule { name: "waking", find: waking::find, describe: waking::describe },
    Rule { name: "too_short", find: too_short::find, describe: too_short::describe },
    Rule { name: "busiest", find: busiest::find, describe: busiest::describe },
];

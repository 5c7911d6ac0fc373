//! Results that need a complete recording: predicted effects of changes, the confidence of a verdict, the
//! times at which the verdict changed, and the records that are expensive.

use serde::{Deserialize, Serialize};

use super::finding::{Action, Verdict, VerdictKind};

/// The effects of changes that replays of the recording predict. `thalweg diagnose --what-if` shows all
/// changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The reason why nothing is predicted; null if there are predictions.
    pub refused: Option<String>,
    /// Messages a second that the run's sinks read.
    pub recorded_per_s: f64,
    /// Messages a second at the sinks in the replay of the unchanged run.
    pub replayed_per_s: Option<f64>,
    /// The share of the run in which the busiest worker was runnable without a processor. The replay does not
    /// model delays by a lack of processors.
    pub kept: f64,
    /// The assumed number of threads that can run at the same time in the replay.
    pub processors: f64,
    /// Whether the run was longer than the replayed part, so that the prediction is about its beginning.
    pub is_cut: bool,
    /// Changes that gain 3 % or more, the greatest gain first; a change that gains nearly as much as the best
    /// one and is less work for the user comes before it.
    pub suggestions: Vec<Suggestion>,
    /// The limit that the shares of time show, if the replay predicts a greater gain from relieving another
    /// one.
    pub overruled: Option<String>,
    /// The predicted gain from relieving the limit `overruled`.
    pub overruled_gain: Option<f64>,
}

/// The words with which the description of a change begins that removes a lock which boxes share.
pub(crate) const NO_LOCK: &str = "no lock that";

/// A change, the way to make it, and its predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The change in words.
    pub words: String,
    /// The exact command, or the necessary edit of the network.
    pub how: String,
    /// The action that makes the change, if a command can make it.
    pub action: Option<Action>,
    /// The kind of limit that the change relieves.
    pub kind: VerdictKind,
    /// Path of the component, if the change is about a component.
    pub component: Option<String>,
    /// The growth of the flow, as a share of 1.
    pub gain: f64,
    /// The lower end of the interval that contains nine of ten samples of a bootstrap over parts of the run.
    pub least: f64,
    /// The upper end of the interval that contains nine of ten samples.
    pub most: f64,
    /// The share of the bootstrap's samples in which no other change gains a quarter more than this one.
    pub leads: f64,
}

/// A verdict that was found in a part of the samples of a bootstrap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// The share of all samples in which the verdict was found.
    pub share: f64,
    /// The kind of limit that was found.
    pub kind: VerdictKind,
    /// Path of the component, if the finding is about a component.
    pub component: Option<String>,
    /// The sentence of the finding.
    pub text: String,
}

/// A part of the run with a verdict of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The time at which the phase began, from the window's start.
    pub from_ns: f64,
    /// The time at which the phase ended, from the window's start.
    pub to_ns: f64,
    /// Input messages per second in this part of the run.
    pub entry_per_s: Option<f64>,
    /// The verdict on this part of the run.
    pub verdict: Verdict,
}

/// Messages of a component that take longer than the component's other messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expensive {
    /// Path of the component.
    pub component: String,
    /// The property that distinguishes the expensive messages from the component's other messages.
    pub by: ExpensiveBy,
    /// A description of the expensive messages: a replica, a round, a range of positions, or all messages
    /// that take longer than a certain time.
    pub which: String,
    /// The number of expensive messages, as a share of the component's messages.
    pub messages_share: f64,
    /// The share of the component's busy time that the expensive messages take.
    pub time_share: f64,
    /// The mean time that an expensive message takes.
    pub service_ns: f64,
    /// The mean time that a message of the component takes which is not expensive.
    pub others_ns: f64,
}

/// The property that distinguishes expensive messages from other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpensiveBy {
    /// The type of the messages: the labels that they have.
    Type,
    /// The value of a tag.
    Tag,
    /// The size of the messages.
    Size,
    /// The replica of a split to which the messages were sent, given by the value of the split's tag.
    Key,
    /// The stage of a star.
    Depth,
    /// The position in the component's input.
    Position,
    /// The remainder of the position modulo a period: the messages come at regular distances.
    Every,
    /// Only their times distinguish the messages, and the distribution of times has two modes.
    Bimodal,
    /// Only their times distinguish the messages, and the messages are few.
    Rare,
}

/// Tasks that could not pass on their output, because the reader of the output waited for another task to
/// keep the order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// Path of the component that keeps the order.
    pub keeper: String,
    /// The task that the order-keeping component waited for.
    pub awaited: String,
    /// Path of the awaited task's component.
    pub awaited_component: String,
    /// The task that waited longest for room while the order-keeping component waited for the awaited task.
    pub behind: String,
    /// The number of tasks that waited for room while the order-keeping component waited for the awaited
    /// task.
    pub tasks: u64,
    /// The total time for which tasks waited for room while the order-keeping component waited.
    pub ns: f64,
    /// The share of the window for which the task `behind` waited for room.
    pub share: f64,
    /// The record behind which the tasks waited longest, if the times of single records were recorded.
    pub record: Option<BehindRecord>,
}

/// A record behind which tasks waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehindRecord {
    /// The record's index in the awaited task's input.
    pub index: u64,
    /// The record's labels and the values of its tags, if recorded.
    pub what: Option<String>,
    /// The total time for which tasks waited behind this record.
    pub ns: f64,
    /// The number of records of the awaited task behind which some task waited.
    pub records: u64,
}

//! What a recording says beyond what was measured: what changes would bring, how sure a verdict is, when it changed, and which records are expensive.

use serde::{Deserialize, Serialize};

use super::finding::{Action, Verdict, VerdictKind};

/// What replays of the recording predict of changes. The whole table is that of `thalweg diagnose --what-if`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Why nothing is predicted.
    pub refused: Option<String>,
    /// Messages a second that the run's sinks took.
    pub recorded_per_s: f64,
    /// The same in the replay of the run as it was.
    pub replayed_per_s: Option<f64>,
    /// For this part of the run the worker with most to do could have run and had no processor. The replay is without that.
    pub kept: f64,
    /// Threads that could run at the same time, as was assumed.
    pub processors: f64,
    /// The run was longer than what was replayed; the prediction is about its beginning.
    pub is_cut: bool,
    /// Changes that gain 3 % or more, the greatest gain first; before it a change that gains nearly as much with less work.
    pub suggestions: Vec<Suggestion>,
    /// What limits the flow by the shares of time, if something else gains more by the replay.
    pub overruled: Option<String>,
    /// The gain that is predicted if that limit is relieved.
    pub overruled_gain: Option<f64>,
}

/// How the text of a change begins that lets boxes do without a lock which they share.
pub(crate) const NO_LOCK: &str = "no lock that";

/// A change, how it is made, and what it is predicted to bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The change in words.
    pub words: String,
    /// The exact command, or what is to be written differently.
    pub how: String,
    /// The command as data, if it is one.
    pub action: Option<Action>,
    /// What kind of limit the change relieves.
    pub kind: VerdictKind,
    /// Path of the component, if the change is about one.
    pub component: Option<String>,
    /// By which part the flow grows.
    pub gain: f64,
    /// Nine of ten samples of a bootstrap over parts of the run are at least this …
    pub least: f64,
    /// … and at most this.
    pub most: f64,
    /// In this share of the samples no other change gains a quarter more.
    pub leads: f64,
}

/// A verdict that was found in a part of the samples of a bootstrap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Its share of all samples.
    pub share: f64,
    /// What kind of limit was found.
    pub kind: VerdictKind,
    /// Path of the component, if the finding is about one.
    pub component: Option<String>,
    /// The sentence of the finding.
    pub text: String,
}

/// A part of the run with a verdict of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// When it began, from the window's begin.
    pub from_ns: f64,
    /// When it ended.
    pub to_ns: f64,
    /// Input messages a second in it.
    pub entry_per_s: Option<f64>,
    /// What limited the flow in it.
    pub verdict: Verdict,
}

/// Messages of a component that take longer than its others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expensive {
    /// Path of the component.
    pub component: String,
    /// What distinguishes them from the others.
    pub by: ExpensiveBy,
    /// Which they are, in words: a replica, a round, a range of positions, those beyond a time.
    pub which: String,
    /// Their share of the component's messages.
    pub messages_share: f64,
    /// Their share of the component's busy time.
    pub time_share: f64,
    /// The mean time that one of them takes.
    pub service_ns: f64,
    /// The mean time that one of the others takes.
    pub others_ns: f64,
}

/// What distinguishes expensive messages from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpensiveBy {
    /// Their type: the labels they have.
    Type,
    /// The value of a tag.
    Tag,
    /// Their size.
    Size,
    /// The replica of a split that they went to: the value of its tag.
    Key,
    /// The stage of a star.
    Depth,
    /// The position in what the component reads.
    Position,
    /// The remainder of the position: one message of every so many.
    Every,
    /// Nothing but the time that they take, which has two modes.
    Bimodal,
    /// Nothing but the time that they take: they are few.
    Rare,
}

/// Tasks that could not hand on what they had, because the one that reads it waited, for order, for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// Path of the component that keeps the order.
    pub keeper: String,
    /// The task that it waited for.
    pub awaited: String,
    /// Path of that task's component.
    pub awaited_component: String,
    /// The task that waited for room meanwhile for longest.
    pub behind: String,
    /// How many tasks waited for room meanwhile.
    pub tasks: u64,
    /// For how long all of them did.
    pub ns: f64,
    /// The share of the window for which the task that waited longest did.
    pub share: f64,
    /// The record behind which they waited longest, where the times of single records were recorded.
    pub record: Option<BehindRecord>,
}

/// A record behind which tasks waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehindRecord {
    /// Its index in what the awaited task reads.
    pub index: u64,
    /// What it is, if that was recorded: its labels, and the values of its tags.
    pub what: Option<String>,
    /// For how long tasks waited behind it, all together.
    pub ns: f64,
    /// Behind how many records of that task some task waited.
    pub records: u64,
}

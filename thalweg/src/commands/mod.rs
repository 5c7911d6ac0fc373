//! One file per command: its arguments and its `main`.

pub(crate) mod adopt;
pub(crate) mod attach;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod control;
pub(crate) mod diagnose;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod heartbeat;
pub(crate) mod inspect;
pub(crate) mod kinds;
pub(crate) mod look;
pub(crate) mod ls;
pub(crate) mod lsp;
pub(crate) mod manual;
pub(crate) mod message;
pub(crate) mod node;
pub(crate) mod pack;
pub(crate) mod record;
pub(crate) mod reload;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod streams;
pub(crate) mod top;
pub(crate) mod tune;
pub(crate) mod view;
pub(crate) mod waits;
pub(crate) mod workers;
pub(crate) mod wrap;

/// The text that follows the variants of a net if the check has not tried all.
const NOT_ALL_VARIANTS: &str =
    "(perhaps not all, and not all of them right: the check gave up; declare the net's signature)";

//! Input and output: sources of records, and sinks for them.

mod chunks;
mod csv;
mod endpoint;
mod guarded;
mod lines;
mod pace;
mod place;
mod sink;
mod source;

pub(crate) use endpoint::{Endpoint, Format, Side, label_name, rate};
pub(crate) use pace::recorded_at;
pub(crate) use place::{Raw, unwritable};
pub(crate) use sink::{Sink, SinkDefaults, SinkError};
pub(crate) use source::{Defaults, Lost, Malformed, Next, Source};

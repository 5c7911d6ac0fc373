//! Input and output: sources of records, and sinks for them.

mod chunks;
mod compression;
mod csv;
mod endpoint;
mod guarded;
mod lines;
mod objects;
mod pace;
mod place;
mod sink;
mod source;
mod step;

pub use endpoint::{Endpoint, Format, Options, Place, Side, label_name, rate};
pub(crate) use pace::recorded_at;
pub use place::keep_standard_output;
pub(crate) use place::{Raw, unwritable};
pub use sink::SinkDefaults;
pub(crate) use sink::{Sink, SinkError};
pub(crate) use source::Source;
pub use source::SourceDefaults;
pub(crate) use step::{Lost, Malformed, Next};

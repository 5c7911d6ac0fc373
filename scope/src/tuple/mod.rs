//! Batches of tuples, which a scope hands over, and their descriptions.

mod batch;
mod described;
mod keep;
mod legend;
mod merge;
mod wire;

pub use batch::{Batch, Head, Tuple, Value};
pub use described::{Field, Of, TupleKind};
pub(crate) use described::{known_kinds, row_id, tuple_field};
pub use keep::Keeper;
pub(crate) use legend::Tables;
pub use legend::{ELEMENT_NONE, Element, KIND_GAP, Legend, Process};
pub(crate) use merge::merge;
pub use wire::Damaged;
pub(crate) use wire::{Reader, put_batch, put_text, put_u32};

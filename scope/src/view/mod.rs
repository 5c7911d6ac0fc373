//! Views: trees that describe which tuples of which elements a consumer receives, written in Rust or in TOML.

mod built_in;
mod file;
mod stage;
mod tree;

pub use built_in::{BuiltIn, built_in};
pub(crate) use stage::{Stage, is_of_task, leaf_names, stage, with_task};
pub use tree::{Leaf, Pull, Step, Tree, View};

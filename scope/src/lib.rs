//! Scopes: any view of any number of elements, pulled when it is wanted.
//!
//! A [`View`] is a tree. Its leaves read elements, chosen by patterns, in any number of processes; its inner nodes gather, filter,
//! convert, reduce and limit what comes, where the elements are read. A [`Scope`] is a view on running processes: each pull hands over
//! a [`Batch`] of tuples, either the latest of each element or everything since the last pull, with losses counted. Between pulls it
//! reads nothing. Processes that join or end join or leave the view by themselves.
#![forbid(unsafe_code)]

mod error;
mod leaf;
mod operators;
mod serve;
mod tree;
mod tuple;
mod view;

pub use error::Error;
pub use leaf::Target;
pub use operators::{Every, Making, Moment, Operator, Sketch};
#[doc(hidden)]
pub use serve::read_as_peers_do;
pub use serve::{Ask, Remote, Server, ServerOptions, VERSION, default_socket};
pub use tree::{Backlog, Price, Pulled, Scope, ScopeFeed, Shape};
pub use tuple::{
    Batch, Damaged, ELEMENT_NONE, Element, Field, Head, KIND_GAP, Keeper, Legend, Of, Process, Tuple,
    TupleKind, Value,
};
pub use view::{BuiltIn, Leaf, Pull, Step, Tree, View, built_in};

//! Scopes: views of any number of elements, read by pulls on request.
//!
//! A [`View`] is a tree. The leaves of a view read elements, selected by patterns, in any number of
//! processes. The inner nodes of a view gather, filter, convert, reduce and limit the tuples in the process
//! that reads the elements. A [`Scope`] is a view on running processes: each pull hands over a [`Batch`] of
//! tuples, either the latest of each element or all since the last pull, with losses counted. A scope reads
//! nothing between pulls. New processes join the view, and ended ones leave it, without an action of the
//! user.
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

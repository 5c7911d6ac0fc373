//! S-Net networks: the language, records, boxes and combinators.
//!
//! `syntax` reads text, `check` resolves names and types; neither depends on the runtime. [`label`],
//! [`shape`] and [`record`] are the data; [`plan`], [`pattern`], [`expression`], [`filter`] and [`router`]
//! are the operations of components on them; [`json`] and [`xml`] read and write records. [`boxes`] are the
//! implementations, [`Network`] is a program with its implementations (from text, or by [`build`] from Rust),
//! and [`run`] unfolds it into tasks.

pub mod boxes;
pub mod build;
pub mod check;
pub mod crash;
mod error;
mod events_of_boxes;
pub mod expression;
pub mod filter;
mod interner;
pub mod json;
pub mod label;
mod lanes;
pub mod library;
mod map_of_boxes;
pub mod network;
mod numbers;
pub mod pattern;
pub mod plan;
pub mod record;
pub mod router;
pub mod run;
pub mod shape;
mod shield;
pub mod syntax;
mod wire;
pub mod xml;

pub use boxes::Boxes;
pub use error::Error;
pub use library::Loading;
pub use network::{CALLS_MAX, Network};
pub use run::{RecordError, Running, StrayLine};
pub use thalweg_box::Value;
pub use wire::WireError;

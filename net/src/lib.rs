//! S-Net networks: the language, records, boxes and combinators.
//!
//! `syntax` reads text, `check` resolves names and types; neither knows that anything runs. [`label`], [`shape`]
//! and [`record`] are the data; [`plan`], [`pattern`], [`expression`], [`filter`] and [`router`] what components
//! do with them; [`json`] reads and writes them.

pub mod check;
pub mod expression;
pub mod filter;
mod interner;
pub mod json;
pub mod label;
pub mod pattern;
pub mod plan;
pub mod record;
pub mod router;
pub mod shape;
pub mod syntax;

pub use thalweg_box::Value;

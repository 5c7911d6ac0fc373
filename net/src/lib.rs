//! S-Net networks: the language, records, boxes and combinators.
//!
//! `syntax` reads text, `check` resolves names and types; neither knows that anything runs.

pub mod check;
pub mod syntax;

//! Knowledge as data: *packs*, and the expressions in them.
//!
//! A pack is a file in TOML about an area (a network, a link, a foreign library). A pack states how the area
//! is identified, what is measured, which conditions are checked, which models predict the effect of a
//! change, which settings may be changed within which limits, and which actions to take, with their inverses.
//! [`Pack::read`] checks the file and reports every mistake with its place.
//!
//! Conditions, models and filters are [`Expression`]s of one small language. The language is typed (numbers
//! carry units, so time is never compared with bytes), total (every expression has a value for every input;
//! an unknown value fulfils no condition) and bounded in time (without loops or recursion, a program runs
//! each of its steps at most once).
//!
//! ```
//! use thalweg_pack::{Expression, Schema, Values};
//!
//! let mut schema = Schema::default();
//! let wait = schema.number("stream.wait", "us")?;
//! let full = schema.number("stream.full_share", "share")?;
//! let slow = Expression::condition("stream.wait > 1.5 ms and stream.full_share >= 20 %", &schema)
//!     .map_err(|mut problems| problems.remove(0))?;
//!
//! struct Row([f64; 2]);
//! impl Values for Row {
//!     fn number(&self, field: usize) -> f64 {
//!         self.0[field]
//!     }
//! }
//! assert_eq!((wait, full), (0, 1));
//! assert!(slow.holds(&Row([2000.0, 0.25])));
//! assert!(!slow.holds(&Row([2000.0, f64::NAN])), "what is not known fulfils no condition");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod check;
mod expression;
mod fit;
mod lexer;
mod library;
mod pack;
mod problem;
mod schema;
mod suggest;
mod syntax;
mod table;
mod unit;

pub use expression::{Expression, Values};
pub use fit::{Fit, Fits, Term};
pub use library::{By, Call, FIGURES, Get, Given, Keep, Kept, Lever, Reading};
pub use pack::{Action, Change, Condition, Identity, Measure, Measured, Model, Pack, Point, Probe, When};
pub use problem::Problem;
pub use schema::{Refused, Schema, Type};
pub use suggest::nearest;
pub use table::{File as TomlFile, Table as TomlTable, Text as TomlText};
pub use thalweg_glob::Glob;
pub use unit::{Dimension, Unit};

//! The S-Net language: text → syntax tree, with all errors of the text.
//!
//! Noun: the *file*. Job: read a text into an [`ast::File`] and report everything that is wrong with it,
//! each [`Diagnostic`] with its place. Invariant: any text is read to its end, in linear time and bounded
//! stack; a text without error diagnostics gives a tree without holes.

#![forbid(unsafe_code)]

pub mod ast;
mod diagnostic;
mod format;
mod lexer;
mod parser;
mod source;

pub use diagnostic::{Diagnostic, Note, Severity};
pub use format::format;
pub(crate) use parser::{Fragment, parse_fragment};
pub use parser::{parse, parse_box};
pub use source::{LineColumn, Source, Span};

/// How deep brackets, nets, postfix combinators and expressions may nest.
pub const NESTING_MAX: usize = 256;

//! The S-Net language: text → syntax tree, with all errors of the text.
//!
//! The parser turns a text into an [`ast::File`] and reports all errors of the text, each as a
//! [`Diagnostic`] with its place. Invariant: any text is parsed to its end, in linear time and bounded stack;
//! a text without errors gives a tree without holes.

#![forbid(unsafe_code)]

pub mod ast;
mod diagnostic;
mod format;
mod lexer;
mod parser;
mod source;

pub use diagnostic::{Diagnostic, Note, Severity};
pub use format::format;
pub(crate) use lexer::is_keyword;
pub(crate) use parser::{Fragment, parse_fragment};
pub use parser::{parse, parse_box};
pub use source::{LineColumn, Source, Span};

/// The greatest depth to which brackets, nets, postfix combinators and expressions may nest.
pub const NESTING_MAX: usize = 256;

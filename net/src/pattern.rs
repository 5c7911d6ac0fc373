//! Patterns: they select the records that leave a star, return in a feedback, or fill a synchrocell.

#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::expression::{Bound, Expression};
use crate::label::{Label, labels_of};
use crate::plan::{PlanCache, RecordFault};
use crate::record::Record;
use crate::shape::ShapeId;
use crate::syntax::ast;

/// A compiled pattern: labels (fields, tags and binding tags) that a record must have, and a guard.
#[derive(Clone, Debug)]
pub struct Pattern {
    labels: Arc<[Label]>,
    guard: Option<Expression>,
    cache: PlanCache<Match>,
}

/// How a pattern matches the records of one shape.
#[derive(Clone, Debug)]
enum Match {
    Never,
    Always,
    If(Bound),
}

impl Pattern {
    /// Compiles a pattern.
    pub fn compile(pattern: &ast::Pattern) -> Pattern {
        Pattern {
            labels: labels_of(&pattern.labels.labels).into(),
            guard: pattern.guard.as_ref().map(Expression::compile),
            cache: PlanCache::new(),
        }
    }

    /// The labels of the pattern, as written.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Whether all records of a shape match, or none of them does; `None` if the guard decides for each
    /// record.
    pub(crate) fn matches_shape(&self, shape: ShapeId) -> Option<bool> {
        match plan(&self.labels, self.guard.as_ref(), shape) {
            Match::Never => Some(false),
            Match::Always => Some(true),
            Match::If(_) => None,
        }
    }

    /// Whether a record matches: the record has all labels of the pattern, and the guard is not 0.
    ///
    /// # Errors
    /// A fault of the guard, if the record has the labels of the pattern.
    #[inline]
    pub fn matches(&mut self, record: &Record) -> Result<bool, RecordFault> {
        let shape = record.shape();
        match self.cache.get(shape, || plan(&self.labels, self.guard.as_ref(), shape)) {
            Match::Never => Ok(false),
            Match::Always => Ok(true),
            Match::If(guard) => Ok(guard.evaluate(record.slots())? != 0),
        }
    }
}

fn plan(labels: &[Label], guard: Option<&Expression>, shape: ShapeId) -> Match {
    match guard {
        _ if !shape.has_all(labels) => Match::Never,
        None => Match::Always,
        Some(guard) => Match::If(guard.bind(shape)),
    }
}

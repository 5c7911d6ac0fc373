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
/// A clone shares the labels and the guard, and has a cache of its own.
#[derive(Clone, Debug)]
pub struct Pattern {
    condition: Arc<Condition>,
    cache: PlanCache<Match>,
}

#[derive(Debug)]
struct Condition {
    labels: Box<[Label]>,
    guard: Option<Expression>,
}

/// How a pattern matches the records of one shape.
#[derive(Clone, Debug)]
enum Match {
    Never,
    Always,
    If(Arc<Bound>),
}

impl Pattern {
    /// Compiles a pattern.
    pub fn compile(pattern: &ast::Pattern) -> Pattern {
        let labels = labels_of(&pattern.labels.labels).into();
        let guard = pattern.guard.as_ref().map(Expression::compile);
        Pattern { condition: Arc::new(Condition { labels, guard }), cache: PlanCache::new() }
    }

    /// The labels of the pattern, as written.
    pub fn labels(&self) -> &[Label] {
        &self.condition.labels
    }

    /// Whether all records of a shape match, or none of them does; `None` if the guard decides for each
    /// record.
    pub(crate) fn matches_shape(&self, shape: ShapeId) -> Option<bool> {
        match self.condition.plan(shape) {
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
        match self.cache.get(shape, || self.condition.plan(shape)) {
            Match::Never => Ok(false),
            Match::Always => Ok(true),
            Match::If(guard) => Ok(guard.evaluate(record.slots())? != 0),
        }
    }
}

impl Condition {
    fn plan(&self, shape: ShapeId) -> Match {
        match &self.guard {
            _ if !shape.has_all(&self.labels) => Match::Never,
            None => Match::Always,
            Some(guard) => Match::If(Arc::new(guard.bind(shape))),
        }
    }
}

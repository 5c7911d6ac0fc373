//! Routing: the branch of `A | B` that a record goes to, by best match.
//!
//! A record matches an input variant of a branch if the record has all labels of the variant, and if each of
//! the record's binding tags is in the variant. The score of a branch is the number of labels of its largest
//! variant that matches (0 for `{}`); the record goes to the branch with the highest score. The scores depend
//! on the shape alone and are computed once per shape.

#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::label::{Label, labels_of};
use crate::plan::PlanCache;
use crate::record::Record;
use crate::shape::ShapeId;
use crate::syntax::ast;

/// The routes of one parallel combinator. A clone shares the variants and has a cache of its own.
#[derive(Clone, Debug)]
pub struct Router {
    branches: Arc<[Vec<Vec<Label>>]>,
    cache: PlanCache<Route>,
}

#[derive(Clone, Debug)]
enum Route {
    One(usize),
    Tie(Box<[usize]>),
    None,
}

/// The route of a record. Branches are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The record goes to this branch.
    One(usize),
    /// These branches, at least two and in ascending order, match the record equally well. The record goes to
    /// the first of them, or, if free space decides ties, to any of them.
    Tie(&'a [usize]),
    /// No branch accepts the record, which fails.
    None,
}

impl Router {
    /// The router for branches with these input variants.
    pub fn new(branches: Vec<Vec<Vec<Label>>>) -> Router {
        Router { branches: branches.into(), cache: PlanCache::new() }
    }

    /// The router for branches as [`Node::accepts`](crate::check::Node::accepts) describes them.
    pub fn from_accepts<'a>(branches: impl IntoIterator<Item = &'a [Vec<ast::Label>]>) -> Router {
        let branch = |variants: &[Vec<ast::Label>]| variants.iter().map(labels_of).collect();
        Router::new(branches.into_iter().map(branch).collect())
    }

    /// The branch for a record.
    #[inline]
    pub fn choose(&mut self, record: &Record) -> Choice<'_> {
        let shape = record.shape();
        match self.cache.get(shape, || route(&self.branches, shape)) {
            Route::One(branch) => Choice::One(*branch),
            Route::Tie(branches) => Choice::Tie(branches),
            Route::None => Choice::None,
        }
    }

    /// The number of branches.
    pub fn branch_count(&self) -> usize {
        self.branches.len()
    }
}

fn route(branches: &[Vec<Vec<Label>>], shape: ShapeId) -> Route {
    let counts: Vec<Option<usize>> =
        branches.iter().map(|variants| variants.iter().filter_map(|v| matched(v, shape)).max()).collect();
    let Some(best) = counts.iter().flatten().max() else { return Route::None };
    let best: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] == Some(*best)).collect();
    match best[..] {
        [branch] => Route::One(branch),
        _ => Route::Tie(best.into()),
    }
}

/// The number of labels of the variant, if records of this shape match it; else `None`.
pub(crate) fn matched(variant: &[Label], shape: ShapeId) -> Option<usize> {
    let bound = shape.labels().iter().filter(|label| label.is_binding()).all(|label| variant.contains(label));
    (bound && shape.has_all(variant)).then_some(variant.len())
}

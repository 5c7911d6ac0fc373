//! *Filter*: keeps the tuples that fulfil a condition.

use super::During;
use super::naming::{Bound, Names, PerKind};
use crate::tuple::{Batch, KIND_GAP};

/// The operator *filter*, which also keeps gaps.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    when: String,
    names: Names,
    /// The condition compiled for each kind; `None` if it cannot be evaluated for a kind.
    bound: PerKind<Option<Bound>>,
}

impl Filter {
    pub(crate) fn new(when: &str, names: Names) -> Filter {
        Filter { when: when.to_owned(), names, bound: PerKind::default() }
    }

    pub(crate) fn apply(&mut self, batch: &mut Batch, during: &mut During<'_>) {
        let legend = during.legend.clone();
        let mut heads = std::mem::take(&mut batch.heads);
        heads.retain(|head| {
            if head.kind == KIND_GAP {
                return true;
            }
            let (when, names) = (&self.when, &self.names);
            let bound = self.bound.get(head.kind, || {
                let kind = &legend.kinds[usize::from(head.kind)];
                match names.bind(when, Some(kind), true) {
                    Ok(bound) => Some(bound),
                    Err(wrong) => {
                        let wrong = wrong.first().map_or(String::new(), ToString::to_string);
                        during.problems.push(format!(
                            "`{when}` cannot be evaluated for tuples of the kind `{}`: {wrong}",
                            kind.name
                        ));
                        None
                    }
                }
            });
            bound.as_ref().is_some_and(|bound| bound.holds(batch, head, &legend))
        });
        batch.heads = heads;
        batch.compact(&legend.kinds);
    }
}

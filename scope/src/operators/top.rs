//! *Top*: the tuples with the largest values of a field.

use super::During;
use super::naming::{Names, number_at};
use crate::tuple::{Batch, KIND_GAP};

/// Keeps the `count` tuples with the largest values of `by`, largest first, followed by gaps.
pub(crate) fn top(by: &str, count: usize, names: &Names, batch: &mut Batch, during: &mut During<'_>) {
    let legend = during.legend.clone();
    let value = |head: &crate::tuple::Head| {
        let kind = legend.kinds.get(usize::from(head.kind))?;
        let (_, place) = names.find(by, Some(kind)).ok()?;
        Some(number_at(place, batch, head, &legend)).filter(|value| !value.is_nan())
    };
    let (mut ranked, mut gaps) = (Vec::new(), Vec::new());
    for head in &batch.heads {
        if head.kind == KIND_GAP {
            gaps.push(*head);
        } else {
            ranked.push((value(head).unwrap_or(f64::NEG_INFINITY), *head));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(count);
    batch.heads = ranked.into_iter().map(|(_, head)| head).chain(gaps).collect();
}

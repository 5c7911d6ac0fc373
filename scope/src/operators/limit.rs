//! *Limit*: keeps at most a number of tuples or bytes a second, and counts those left out.

use super::During;
use crate::tuple::{Batch, KIND_GAP};
use std::collections::HashMap;

/// The operator *limit*.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    per_s: f64,
    bytes_per_s: f64,
    /// The number of tuples that may pass now.
    tuples: f64,
    bytes: f64,
    is_begun: bool,
}

impl Limit {
    /// Makes a limit of tuples and bytes per second; infinite for no limit.
    pub(crate) fn new(per_s: f64, bytes_per_s: f64) -> Limit {
        Limit { per_s, bytes_per_s, tuples: 0.0, bytes: 0.0, is_begun: false }
    }

    pub(crate) fn apply(&mut self, batch: &mut Batch, during: &mut During<'_>) {
        let legend = during.legend.clone();
        // At most a second's worth of the unused rate is kept.
        let seconds = match (self.is_begun, during.moment.before_ns) {
            (true, before) if before > 0 => during.moment.now_ns.saturating_sub(before) as f64 / 1e9,
            _ => 1.0,
        };
        self.is_begun = true;
        self.tuples = (self.tuples + self.per_s * seconds).min(self.per_s);
        self.bytes = (self.bytes + self.bytes_per_s * seconds).min(self.bytes_per_s);
        let mut left_out: HashMap<u32, (u64, u64, u64)> = HashMap::new();
        let mut heads = std::mem::take(&mut batch.heads);
        heads.retain(|head| {
            let fields = legend.kinds.get(usize::from(head.kind)).map_or(0, |kind| kind.fields.len());
            let size = (size_of_val(head) + 8 * fields) as f64;
            let goes = head.kind == KIND_GAP || self.tuples >= 1.0 && self.bytes >= size;
            if goes && head.kind != KIND_GAP {
                (self.tuples, self.bytes) = (self.tuples - 1.0, self.bytes - size);
            } else if !goes {
                let (lost, from, time) =
                    left_out.entry(head.element).or_insert((0, head.sequence, head.time_ns));
                (*lost, *from, *time) = (*lost + 1, (*from).min(head.sequence), (*time).max(head.time_ns));
            }
            goes
        });
        batch.heads = heads;
        batch.compact(&legend.kinds);
        let mut gaps: Vec<_> = left_out.into_iter().collect();
        gaps.sort_unstable_by_key(|(element, (_, _, time))| (*time, *element));
        for (element, (lost, from, time)) in gaps {
            batch.begin((time, from), element, KIND_GAP, 0);
            batch.words.extend([lost, from]);
        }
        batch.heads.sort_by_key(|head| head.time_ns);
    }
}

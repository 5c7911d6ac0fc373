//! Earlier samples of a run with the present settings, from which longer windows begin.
//!
//! The loads in a window of 150 ms are partly chance, and the mapping that is best for them promises more than it
//! brings. Therefore mappings are proposed for a longer window, which reaches back to a sample that is half a second to a
//! second old, and older by at most one window.

use super::sample::Sample;

/// The least number of seconds between samples that are kept; a window is up to twice as long.
const APART_S: f64 = 0.5;

/// The two samples that are kept, so that one of them is always old enough.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    older: Option<Sample>,
    newer: Option<Sample>,
}

impl Earlier {
    /// Forgets all samples, because the run has other settings or does something else now.
    pub(super) fn clear(&mut self) {
        *self = Earlier::default();
    }

    /// Adds a sample. It is kept if the newest one that is kept is old enough.
    pub(super) fn add(&mut self, sample: Sample) {
        let newest = self.newer.as_ref().or(self.older.as_ref());
        let is_apart = |newest: &Sample| seconds_between(newest, &sample) >= APART_S;
        match newest {
            None => self.older = Some(sample),
            Some(newest) if is_apart(newest) => {
                if let Some(newer) = self.newer.replace(sample) {
                    self.older = Some(newer);
                }
            }
            Some(_) => {}
        }
    }

    /// The oldest sample that is kept.
    pub(super) fn oldest(&self) -> Option<&Sample> {
        self.older.as_ref()
    }
}

fn seconds_between(from: &Sample, to: &Sample) -> f64 {
    to.ticks.saturating_sub(from.ticks) as f64 / to.hz
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sample_is_half_a_second_to_a_second_old() {
        let mut earlier = Earlier::default();
        assert!(earlier.oldest().is_none());
        for n in 0..100_u64 {
            earlier.add(Sample { ticks: n * 150, hz: 1000.0, ..Sample::default() });
            let oldest = earlier.oldest().map(|sample| (n * 150 - sample.ticks) as f64 / 1000.0);
            let least = (n as f64 * 0.15).min(APART_S);
            assert!(oldest.is_some_and(|age| (least..1.2).contains(&age)), "{n}: {oldest:?}");
        }
        earlier.clear();
        assert!(earlier.oldest().is_none());
    }
}

//! A distribution of times that needs little memory, because there may be a million operations.
//!
//! Each power of two is cut into 32 equal cells, so a quantile is within 1.6 % of the exact value. Only cells
//! with at least one time use memory.

const CELL_BITS: u32 = 5;
const MANTISSA_BITS: u32 = 52;

/// Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// Cell and count, by cell.
    cells: Vec<(u16, u64)>,
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) max: f64,
}

impl Times {
    pub(super) fn record(&mut self, ns: f64) {
        self.count += 1;
        self.sum += ns;
        self.max = self.max.max(ns);
        // The first cell begins at 2^-4 ns.
        let cell = (ns.max(0.0625).to_bits() >> (MANTISSA_BITS - CELL_BITS))
            - (0.0625_f64.to_bits() >> (MANTISSA_BITS - CELL_BITS));
        let cell = cell.min(u64::from(u16::MAX)) as u16;
        match self.cells.binary_search_by_key(&cell, |(at, _)| *at) {
            Ok(at) => self.cells[at].1 += 1,
            Err(at) => self.cells.insert(at, (cell, 1)),
        }
    }

    /// The time that a share `q` of the times does not exceed; 0 if there is none.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let wanted = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut counted = 0;
        let cell = self.cells.iter().find(|(_, count)| {
            counted += count;
            counted >= wanted
        });
        let Some((cell, _)) = cell else { return 0.0 };
        let bits = (u64::from(*cell) + (0.0625_f64.to_bits() >> (MANTISSA_BITS - CELL_BITS)))
            << (MANTISSA_BITS - CELL_BITS);
        f64::from_bits(bits | 1 << (MANTISSA_BITS - CELL_BITS - 1)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn quantiles_are_near_those_of_the_sorted_times() {
        let mut random = thalweg_chance::Chance::new(7);
        let mut all: Vec<f64> = (0..5000).map(|_| (random.below(1 << 40) as f64).powf(0.7) + 1.0).collect();
        let mut times = Times::default();
        all.iter().for_each(|ns| times.record(*ns));
        all.sort_by(f64::total_cmp);
        for (q, at) in [(0.5, 2499), (0.99, 4949), (1.0, 4999)] {
            let (reported, true_one) = (times.quantile(q), all[at]);
            assert!((reported / true_one - 1.0).abs() < 0.017, "{q}: {reported} for {true_one}");
        }
        assert_eq!(Times::default().quantile(0.5), 0.0);
    }
}

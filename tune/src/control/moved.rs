//! Tells rare moves of tasks by the run itself from moves that belong to its daily work.

/// A move of tasks with at least this part of the run's work is a change of the run.
const PART: f64 = 0.03;
/// The number of windows in which any task moved is divided by this factor with each window, and from this number on moves
/// are the run's daily work: if every fifth window has some.
const FADES: f64 = 1.05;
const DAILY: f64 = 4.0;

/// Counts the windows in which the run itself moved tasks, such as from behind a long dispatch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    recent: f64,
}

impl Moved {
    /// Adds a window in which the run moved tasks with this part of its work. Returns true if what was measured before
    /// cannot be compared with what is measured after it, because the run does not move tasks all the time.
    pub(super) fn changes(&mut self, part: f64) -> bool {
        let is_rare = self.recent < DAILY;
        self.recent = self.recent / FADES + if part > 0.0 { 1.0 } else { 0.0 };
        part >= PART && is_rare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_in_many_windows_are_no_change() {
        let count = |every: usize, others: f64| {
            let mut moved = Moved::default();
            (0..400).filter(|n| moved.changes(if n % every == 0 { 0.5 } else { others })).count()
        };
        assert_eq!(count(40, 0.0), 10, "each of them");
        assert!((4..=8).contains(&count(1, 0.0)), "{}", count(1, 0.0));
        assert!(count(3, 0.0) < 12, "{}", count(3, 0.0));
        // Where tasks with little work move in each window, a move of more work is nothing special.
        assert_eq!(count(10, 0.01), 1, "the first");
        assert!(!Moved::default().changes(f64::NAN));
    }
}

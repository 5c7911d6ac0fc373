//! Tells windows that show the machine more than the run: those in which processors were missing for longer than
//! usual.
//!
//! The host of a virtual machine may take a processor away, or make it several times as slow, for a tenth of a second.
//! All messages that arrive meanwhile are late, whatever the settings of the run are. If that goes on all the time, it
//! belongs to the machine, and all windows count.

use std::collections::VecDeque;

use super::seen::Seen;

/// A window is disturbed if more than this many processors were missing on average, and more than this many times
/// the usual number.
const LEAST: f64 = 0.03;
const TIMES: f64 = 3.0;
/// The usual number is the median of so many windows.
const USUAL_OF: usize = 16;
/// At most this many windows in a row are left out.
const IN_ROW_MAX: usize = 4;

/// What was missing so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    windows: usize,
    /// The numbers of processors that were missing in the last windows.
    last: VecDeque<f64>,
    /// The number of windows that were left out until now, and in a row.
    left_out: usize,
    in_row: usize,
    /// Whether the window before was disturbed.
    was_disturbed: bool,
}

impl Machine {
    /// Whether the window is to be left out. With `queues`, messages that became late in a disturbed window may
    /// still wait in the next one, which is left out as well.
    pub(super) fn disturbs(&mut self, seen: &Seen, queues: bool) -> bool {
        let missing = if seen.missing.is_finite() { seen.missing.max(0.0) } else { 0.0 };
        self.last.push_back(missing);
        if self.last.len() > USUAL_OF {
            self.last.pop_front();
        }
        let mut last: Vec<f64> = self.last.iter().copied().collect();
        last.sort_by(f64::total_cmp);
        let usual = last[(last.len() - 1) / 2];
        let is_disturbed = missing > LEAST.max(TIMES * usual);
        self.windows += 1;
        let is_late = queues && std::mem::replace(&mut self.was_disturbed, is_disturbed);
        let is_left_out = (is_disturbed || is_late) && self.in_row < IN_ROW_MAX;
        self.left_out += usize::from(is_left_out);
        self.in_row = if is_left_out { self.in_row + 1 } else { 0 };
        is_left_out
    }

    /// The number of windows that were left out, and of all windows.
    pub(super) fn left_out(&self) -> (usize, usize) {
        (self.left_out, self.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of the windows is left out.
    fn left_out(missing: impl IntoIterator<Item = f64>, queues: bool) -> Vec<bool> {
        let mut machine = Machine::default();
        let seen = |missing| Seen { missing, ..Seen::nothing(1.0, 0.15) };
        missing.into_iter().map(|missing| machine.disturbs(&seen(missing), queues)).collect()
    }

    #[test]
    fn a_window_without_a_processor_is_left_out_and_so_are_late_messages() {
        let missing = [0.0, 0.0, 0.0, 0.67, 0.0, 0.0, f64::NAN, 0.02];
        let at = |many: &[usize]| (0..missing.len()).map(|n| many.contains(&n)).collect::<Vec<bool>>();
        assert_eq!(left_out(missing, false), at(&[3]));
        assert_eq!(left_out(missing, true), at(&[3, 4]));
    }

    #[test]
    fn what_is_always_missing_belongs_to_the_machine() {
        let windows = left_out([0.4; 60], true);
        let out = windows.iter().filter(|out| **out).count();
        assert!(out <= IN_ROW_MAX, "{windows:?}");
        // If it becomes usual later, few windows are left out until then.
        let windows = left_out((0..60).map(|n| if n < 30 { 0.0 } else { 0.4 }), true);
        let out = windows.iter().filter(|out| **out).count();
        assert!((1..=2 * IN_ROW_MAX).contains(&out) && !windows[45..].contains(&true), "{windows:?}");
    }
}

//! A candidate, and its trial, which goes on when processes end that do little of the work.

use crate::library::member::Member;
use crate::library::trial::Trial;

/// An action with the values that it would set in each process.
pub(super) struct Candidate {
    pub(super) action: usize,
    pub(super) point: usize,
    /// The indices of the targets, each with the value that the target would get.
    pub(super) values: Vec<(usize, f64)>,
    /// The present value of the first target.
    pub(super) from: Option<f64>,
    pub(super) gain: f64,
    pub(super) model: String,
    pub(super) why: String,
}

/// A candidate on trial.
pub(super) struct Running {
    pub(super) candidate: Candidate,
    pub(super) trial: Trial,
    /// The processes that were there when the trial began. The progress of no others is compared.
    pub(super) members: Vec<String>,
    /// For each member, and in it for each mean of the values kept of calls, the least and the greatest value
    /// in the windows before the trial.
    pub(super) signature: Vec<(f64, f64)>,
    pub(super) blind: usize,
    pub(super) shifted: usize,
}

impl Running {
    /// The trial without the targets that have ended.
    pub(super) fn without(mut self, targets: &[Member<'_>], is_alive: &[bool]) -> Running {
        let lives =
            |name: &String| targets.iter().zip(is_alive).any(|(of, lives)| of.name == *name && *lives);
        let members: Vec<bool> = self.members.iter().map(lives).collect();
        self.signature = of_living(&self.signature, &members, members.len());
        self.members.retain(lives);
        self.candidate.values = renumbered(&self.candidate.values, is_alive);
        self
    }
}

/// The values of those of `count` processes that are alive; each process has equally many.
pub(super) fn of_living<T: Copy>(values: &[T], is_alive: &[bool], count: usize) -> Vec<T> {
    let each = values.len().checked_div(count).unwrap_or(0).max(1);
    let of = values.chunks(each).zip(is_alive).filter(|(_, lives)| **lives);
    of.flat_map(|(values, _)| values).copied().collect()
}

/// Values by the index of their process, with the indices that remain when only processes that are alive are
/// counted.
fn renumbered(values: &[(usize, f64)], is_alive: &[bool]) -> Vec<(usize, f64)> {
    let before = |number: usize| is_alive[..number].iter().filter(|lives| **lives).count();
    let alive = values.iter().filter(|(number, _)| is_alive[*number]);
    alive.map(|(number, value)| (before(*number), *value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_ended_processes_is_left_out() {
        let is_alive = [true, false, true, false];
        assert_eq!(of_living(&[1, 2, 3, 4, 5, 6, 7, 8], &is_alive, 4), [1, 2, 5, 6]);
        assert!(of_living(&[] as &[f64], &is_alive, 4).is_empty());
        assert_eq!(renumbered(&[(1, 7.0), (2, 8.0), (3, 9.0)], &is_alive), [(1, 8.0)]);
    }
}

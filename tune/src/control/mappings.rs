//! Tests of trials of mappings.

use super::*;
use crate::action::{Change, Knob};

/// The length of a window, in seconds.
const WINDOW: f64 = 0.15;

/// Moves of the tasks 1 and 2 from the workers `from` to the workers `to`.
fn moves(from: [u64; 2], to: [u64; 2]) -> Candidate {
    let change = |at: usize| Change {
        knob: Knob::Worker { task: at as u64 + 1, name: String::new() },
        from: from[at],
        to: to[at],
    };
    let action = Action { changes: (0..2).filter(|&at| from[at] != to[at]).map(change).collect() };
    Candidate { action, model: "mapping".to_owned(), gain: 0.2, why: String::new() }
}

/// Two tasks, the workers that they have, and what was done to them.
struct Pair {
    places: [u64; 2],
    /// Each action that was tried or kept, and the window after which it was.
    done: Vec<(u32, String)>,
    controller: Controller,
}

impl Pair {
    fn new() -> Pair {
        let controller = Controller::new(Goal::Throughput, Vec::new(), Policy::default(), 0);
        Pair { places: [0, 0], done: Vec::new(), controller }
    }

    fn step(&mut self, n: u32, rate: f64, proposed: Vec<Candidate>) {
        let seen = Seen { rate, ..Seen::nothing(f64::from(n) * WINDOW, WINDOW) };
        let (action, is_new) = match self.controller.step(&seen, || proposed) {
            Order::Wait => return,
            Order::Try(action) | Order::Keep(action) => (action, true),
            Order::Former(action) | Order::Undo(action) => (action, false),
        };
        if is_new {
            self.done.push((n, action.values()));
        }
        for change in &action.changes {
            let Knob::Worker { task, .. } = &change.knob else { continue };
            self.places[*task as usize - 1] = if is_new { change.to } else { change.from };
        }
    }
}

#[test]
fn after_a_mapping_was_kept_another_is_tried_soon_but_not_the_former_one() {
    let rate = |places: [u64; 2]| [1000.0, 1400.0, 1200.0, 1800.0][(places[0] + 2 * places[1]) as usize];
    let mut pair = Pair::new();
    for n in 1..=60 {
        // The model is wrong about the former mapping, which it would try again and again.
        let proposed = match pair.places {
            [0, 0] => vec![moves([0, 0], [1, 0])],
            [1, 0] => vec![moves([1, 0], [0, 0]), moves([1, 0], [1, 1])],
            now => vec![moves(now, [1, 0])],
        };
        pair.step(n, rate(pair.places), proposed);
    }
    // Within ten seconds, for which an action that failed rests, both moves were kept.
    assert_eq!(pair.places, [1, 1], "{:?}", pair.done);
    assert_eq!(pair.controller.kept().len(), 2);
    assert!(pair.done.iter().all(|(_, values)| !values.contains("worker=0")), "{:?}", pair.done);
}

#[test]
fn after_a_kept_mapping_was_undone_another_is_tried_soon() {
    let mut pair = Pair::new();
    let mut kept = None;
    for n in 1..=60 {
        // The first mapping gains during its trial, and becomes worse than the one before when it is kept.
        let rate = match pair.places {
            [1, 0] if kept.is_some() => 900.0,
            [1, 0] => 1400.0,
            [0, 1] => 1200.0,
            _ => 1000.0,
        };
        let proposed = match pair.places {
            [0, 0] => {
                let other = moves([0, 0], [0, 1]);
                vec![moves([0, 0], [1, 0]), Candidate { gain: 0.1, ..other }]
            }
            _ => Vec::new(),
        };
        pair.step(n, rate, proposed);
        kept = kept.or((!pair.controller.kept().is_empty()).then_some(n));
    }
    let tried = |values: &str| pair.done.iter().find(|(_, done)| done == values).map(|(n, _)| *n);
    let (first, other) = (kept.expect("it gained"), tried("task/2.worker=1").expect("it is proposed"));
    assert!(f64::from(other - first) * WINDOW < 3.0, "{:?}", pair.done);
    assert_eq!(pair.places, [0, 1], "{:?}", pair.done);
    let again = pair.done.iter().filter(|(n, values)| *n > first && values == "task/1.worker=1");
    assert_eq!(again.count(), 0, "{:?}", pair.done);
}

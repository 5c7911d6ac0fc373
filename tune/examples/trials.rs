//! How well trials find what gains: `cargo run --release -p thalweg-tune --example trials`.
//!
//! Random runs have two to seven settings. A model promises a gain for each, of which half come true in part, a third gain
//! nothing and the others do harm, and each setting that gains has a further value that may gain some more. For
//! windows that scatter by 2 to 12 %, the table shows how many runs end within 5 and 10 % of the best values, how fast
//! they are on average as a whole, compared with runs without a tuner, and the worst of them. A run has as much to do as
//! lasts 30 s without a tuner.

#![allow(clippy::print_stdout, reason = "a command")]

use thalweg_chance::Chance;
use thalweg_tune::{Action, Candidate, Controller, Goal, Order, Policy, Seen};

const WINDOW_S: f64 = 0.15;
const RUN_S: f64 = 30.0;
const RUNS: u64 = 2000;

/// A setting: what its model promises, and what its values gain, one after the other.
struct Knob {
    promise: f64,
    gains: [f64; 2],
    value: u64,
}

impl Knob {
    fn new(chance: &mut Chance) -> Knob {
        let promise = 0.03 * (chance.uniform() * 3.0).exp();
        let gain = match chance.below(20) {
            0..10 => promise * (0.1 + 1.1 * chance.uniform()),
            10..17 => -0.1 * chance.uniform(),
            _ => -0.1 - 0.4 * chance.uniform(),
        };
        let more = gain.max(0.0) * 0.4 * (chance.uniform() - 0.4);
        Knob { promise, gains: [gain, more], value: 0 }
    }

    /// The rate with the setting's value, as a factor.
    fn factor(&self) -> f64 {
        self.gains[..self.value as usize].iter().map(|gain| 1.0 + gain).product()
    }

    fn best(&self) -> f64 {
        let [gain, more] = self.gains.map(|gain| 1.0 + gain);
        1.0_f64.max(gain).max(gain * more)
    }
}

/// Runs once; returns the rate at the end by the best one, and the flow by that without a tuner.
fn run(seed: u64, scatter: f64) -> (f64, f64) {
    let mut chance = Chance::new(seed);
    let mut knobs: Vec<Knob> = (0..chance.between(2, 8)).map(|_| Knob::new(&mut chance)).collect();
    let rate_of = |knobs: &[Knob]| knobs.iter().map(Knob::factor).product::<f64>();
    let best: f64 = knobs.iter().map(Knob::best).product();
    let mut controller = Controller::new(Goal::Throughput, Vec::new(), Policy::default(), 0);
    let (mut done, mut windows) = (0.0, 0_u32);
    while done < RUN_S {
        let rate = rate_of(&knobs);
        done += rate * WINDOW_S;
        windows += 1;
        // The sum of three is about normal.
        let noise: f64 = (0..3).map(|_| 2.0 * chance.uniform() - 1.0).sum();
        let seen = Seen {
            rate: rate * (scatter * noise).exp(),
            ..Seen::nothing(f64::from(windows) * WINDOW_S, WINDOW_S)
        };
        let order = controller.step(&seen, || propose(&knobs));
        set(&mut knobs, &order);
    }
    let order = controller.end("the run ended", true);
    set(&mut knobs, &order);
    (rate_of(&knobs) / best, RUN_S / (f64::from(windows) * WINDOW_S))
}

fn propose(knobs: &[Knob]) -> Vec<Candidate> {
    let open = knobs.iter().enumerate().filter(|(_, knob)| knob.value < 2);
    let candidate = |(n, knob): (usize, &Knob)| Candidate {
        action: Action::set(format!("k{n}"), knob.value, knob.value + 1),
        model: format!("m{n}"),
        gain: knob.promise,
        why: String::new(),
    };
    open.map(candidate).collect()
}

fn set(knobs: &mut [Knob], order: &Order) {
    let (action, is_new) = match order {
        Order::Wait => return,
        Order::Try(action) | Order::Keep(action) => (action, true),
        Order::Former(action) | Order::Undo(action) => (action, false),
    };
    for change in &action.changes {
        let n: usize = change.knob.name()[1..].parse().expect("a number");
        knobs[n].value = if is_new { change.to } else { change.from };
    }
}

fn main() {
    println!(
        "| windows scatter by | within 5 % of the best | within 10 % | flow, mean | flow, worst of 100 |"
    );
    println!("|---|---|---|---|---|");
    for scatter in [0.02, 0.04, 0.08, 0.12] {
        let runs: Vec<(f64, f64)> = (0..RUNS).map(|seed| run(seed, scatter)).collect();
        let share =
            |least: f64| 100.0 * runs.iter().filter(|run| run.0 >= least).count() as f64 / runs.len() as f64;
        let mut flows: Vec<f64> = runs.iter().map(|run| run.1).collect();
        flows.sort_by(f64::total_cmp);
        let mean = flows.iter().sum::<f64>() / flows.len() as f64;
        println!(
            "| {:.0} % | {:.0} % | {:.0} % | {mean:.3} | {:.3} |",
            100.0 * scatter,
            share(0.95),
            share(0.90),
            flows[flows.len() / 100]
        );
    }
}

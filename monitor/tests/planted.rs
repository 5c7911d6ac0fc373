//! Simulates networks that are made slow for one known reason (a planted cause), and checks that the verdict
//! names this reason. Real runs of the same networks are in `thalweg/tests/planted.rs`.

mod planted_nets;

use planted_nets::simulation::Simulation;
use planted_nets::{CAUSES, Net, Score};

#[test]
fn verdicts_name_what_was_planted() {
    let variants: u64 = std::env::var("PLANTED").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let mut score = Score::default();
    for cause in CAUSES {
        for seed in 0..variants {
            let net = Net::planted(cause, seed);
            score.add(&net, seed, &Simulation::new(&net).run().verdict);
        }
    }
    score.check();
}

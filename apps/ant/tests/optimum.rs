//! Compares the colony's results with the best order: exactly for small problems, with long searches for
//! large ones.

use app_ant::colony::solve;
use app_ant::jobs::{Jobs, drawn};
use app_ant::random::Random;

fn problem(count: usize, seed: u64) -> Jobs {
    let [times, weights, due] = drawn(count, seed);
    Jobs::new(&times, &weights, &due).expect("a problem")
}

/// The least cost of all orders (Held and Karp, 1962): the least cost of each set of first jobs is
/// computed from the sets with one job less.
fn optimum(jobs: &Jobs) -> i64 {
    let sets = 1_usize << jobs.len();
    let (mut cost, mut end) = (vec![i64::MAX; sets], vec![0; sets]);
    cost[0] = 0;
    for set in 1..sets {
        for job in (0..jobs.len()).filter(|job| set >> job & 1 == 1) {
            let before = set & !(1 << job);
            end[set] = end[before] + jobs.time(job as u32);
            cost[set] = cost[set].min(cost[before] + jobs.job(job as u32).cost(end[set]));
        }
    }
    cost[sets - 1]
}

#[test]
fn the_best_order_of_small_problems_is_found() {
    for count in 1..=12 {
        for seed in 0..5 {
            let jobs = problem(count, seed);
            let (cost, order) = solve(&jobs, 10, 20, seed);
            assert_eq!(cost, jobs.cost(&order));
            assert_eq!(cost, optimum(&jobs), "{count} jobs, seed {seed}");
        }
    }
}

/// `thalweg/tests/apps.rs` expects that the network finds an order of the same cost.
#[test]
fn the_optimum_that_the_network_must_find() {
    assert_eq!(optimum(&problem(12, 7)), 1112);
}

/// The best cost of repeated descents, each from the best order so far with a few jobs moved at random.
fn searched(jobs: &Jobs, descents: u64) -> i64 {
    let mut random = Random::of([9, 9, 9]);
    let mut best = jobs.by_urgency();
    let mut least = i64::MAX;
    for _ in 0..descents {
        let mut order = best.clone();
        for _ in 0..4 {
            let (from, to) =
                (random.below(order.len() as u64) as usize, random.below(order.len() as u64) as usize);
            let job = order.remove(from);
            order.insert(to, job);
        }
        (0..16).for_each(|_| jobs.leap(&mut order, random.below(jobs.len() as u64) as usize));
        jobs.improve(&mut order);
        if jobs.cost(&order) < least {
            (least, best) = (jobs.cost(&order), order);
        }
    }
    least
}

#[test]
fn a_large_problem_is_solved_as_well_as_by_a_local_search_of_the_same_length() {
    let jobs = problem(200, 1);
    let (cost, _) = solve(&jobs, 20, 40, 1);
    let (greedy, searched) = (jobs.cost(&jobs.by_urgency()), searched(&jobs, 800));
    assert!(
        cost as f64 <= 1.005 * searched as f64,
        "{cost}, by local search {searched}, by urgency {greedy}"
    );
}

/// Measures the figures of the README: `cargo test --release -p app-ant -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute"]
#[allow(clippy::print_stdout, reason = "its figures are for people")]
fn a_thousand_jobs() {
    let jobs = problem(1000, 1);
    let best = searched(&jobs, 50_000);
    println!("by urgency {}, by local search {best}", jobs.cost(&jobs.by_urgency()));
    for steps in [100, 1000] {
        let (cost, _) = solve(&jobs, 45, steps, 1);
        println!("45 ants, {steps} steps: {cost}, {:.2} % more", 100.0 * (cost as f64 / best as f64 - 1.0));
        assert!((cost as f64) < 1.03 * best as f64);
    }
}

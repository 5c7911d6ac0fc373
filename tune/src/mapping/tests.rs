//! Compares the search with all possible mappings.

use thalweg_chance::Chance;

use super::{Link, Problem, search};

/// The least period that any mapping has, found by trying all mappings.
fn exhaustive(problem: &Problem) -> f64 {
    let workers = problem.speeds.len() as u32;
    let mut places = vec![0; problem.work.len()];
    let mut least = f64::INFINITY;
    loop {
        least = least.min(by_definition(problem, &places));
        let Some(at) = places.iter().position(|&place| place + 1 < workers) else { return least };
        places[..at].fill(0);
        places[at] += 1;
    }
}

/// The period of each worker, computed directly from the formula, and independently of the tested code so
/// that it shares no mistake with that code.
fn by_definition(problem: &Problem, places: &[u32]) -> f64 {
    let on = |task: u32| places[task as usize];
    let mut worst: f64 = 0.0;
    let mut all = 0.0;
    for (worker, speed) in problem.speeds.iter().enumerate() {
        let worker = worker as u32;
        let own: f64 = (0..places.len()).filter(|&at| places[at] == worker).map(|at| problem.work[at]).sum();
        let ends: f64 = problem
            .links
            .iter()
            .filter(|link| (on(link.from) == worker) != (on(link.to) == worker))
            .map(|link| link.traffic)
            .sum();
        let load = (own + problem.crossing * ends) / speed;
        worst = worst.max(load);
        all += load;
    }
    let crossing = |link: &&Link| on(link.from) != on(link.to);
    let cut: f64 = problem.links.iter().filter(crossing).map(|link| link.traffic).sum();
    worst.max(all / problem.processors) + problem.delay * cut
}

/// A network of `tasks` tasks: mostly a chain with branches, like streaming networks.
fn network(chance: &mut Chance, tasks: u32, workers: usize) -> Problem {
    let work = (0..tasks).map(|_| chance.exponential(1.0) + 0.01).collect();
    let mut links = Vec::new();
    for to in 1..tasks {
        let near = to.saturating_sub(3);
        links.push(Link {
            from: near + chance.below(u64::from(to - near)) as u32,
            to,
            traffic: chance.uniform(),
        });
        if chance.one_in(4) {
            links.push(Link { from: chance.below(u64::from(to)) as u32, to, traffic: chance.uniform() });
        }
    }
    let speeds = (0..workers).map(|_| if chance.one_in(3) { 0.5 } else { 1.0 }).collect();
    let crossing = chance.of(&[0.0, 0.2, 0.5, 2.0]);
    let delay = chance.of(&[0.0, 0.0, 0.1]);
    Problem { work, links, speeds, crossing, delay, processors: workers as f64, fixed: Vec::new() }
}

#[test]
fn the_search_comes_close_to_the_best_of_all_mappings() {
    let mut chance = Chance::new(23);
    let mut ratios: Vec<f64> = (0..240)
        .map(|n| {
            let (tasks, workers) = [(9, 3), (11, 2), (7, 4), (10, 3)][n % 4];
            let problem = network(&mut chance, tasks, workers);
            let start: Vec<u32> = (0..tasks).map(|task| task % workers as u32).collect();
            let found = search(&problem, Some(&start)).unwrap();
            assert!((found.period - by_definition(&problem, &found.places)).abs() < 1e-9 * found.period);
            found.period / exhaustive(&problem)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let (median, p95) = (ratios[120], ratios[228]);
    assert!(ratios[0] > 1.0 - 1e-9, "better than the best of all: {}", ratios[0]);
    assert!(median <= 1.05 && p95 <= 1.15, "median {median:.3}, p95 {p95:.3}");
}

#[test]
fn what_is_fixed_stays_and_the_rest_goes_round_it() {
    let mut chance = Chance::new(5);
    for _ in 0..50 {
        let mut problem = network(&mut chance, 12, 3);
        problem.fixed = vec![Some(2), None, Some(0)];
        let found = search(&problem, None).unwrap();
        assert_eq!((found.places[0], found.places[2]), (2, 0));
    }
}

#[test]
fn fine_work_that_talks_much_stays_together_and_coarse_work_is_shared() {
    let chain = |work: f64| Problem {
        work: vec![work; 4],
        links: (0..3).map(|from| Link { from, to: from + 1, traffic: 1.0 }).collect(),
        speeds: vec![1.0; 2],
        crossing: 1.0,
        delay: 0.5,
        processors: 2.0,
        fixed: Vec::new(),
    };
    assert_eq!(search(&chain(0.1), Some(&[0, 1, 0, 1])).unwrap().places, [0; 4]);
    let shared = search(&chain(100.0), Some(&[0, 1, 0, 1])).unwrap();
    assert!(shared.places[0] == shared.places[1] && shared.places[2] == shared.places[3]);
    assert_ne!(shared.places[0], shared.places[3]);
}

#[test]
fn where_workers_share_a_processor_more_of_them_bring_nothing() {
    let problem = Problem { work: vec![1.0; 4], speeds: vec![1.0; 4], processors: 1.0, ..Problem::default() };
    assert!((search(&problem, None).unwrap().period - 4.0).abs() < 1e-9);
}

#[test]
fn a_problem_that_makes_no_sense_has_no_answer() {
    let good = Problem { work: vec![1.0; 2], speeds: vec![1.0; 2], processors: 2.0, ..Problem::default() };
    assert!(search(&good, None).is_some());
    for bad in [
        Problem { work: vec![f64::NAN, 1.0], ..good.clone() },
        Problem { work: vec![-1.0, 1.0], ..good.clone() },
        Problem { speeds: vec![1.0, 0.0], ..good.clone() },
        Problem { speeds: Vec::new(), ..good.clone() },
        Problem { links: vec![Link { from: 0, to: 2, traffic: 1.0 }], ..good.clone() },
        Problem { fixed: vec![Some(7)], ..good.clone() },
        Problem { delay: f64::INFINITY, ..good.clone() },
    ] {
        assert_eq!(search(&bad, None), None, "{bad:?}");
    }
    assert!(search(&good, Some(&[0, 9])).is_some(), "a present mapping that does not fit is left out");
    let nothing = Problem { speeds: vec![1.0], ..Problem::default() };
    assert_eq!(search(&nothing, None).unwrap().places, Vec::<u32>::new());
}

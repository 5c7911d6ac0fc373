//! Replays with shared locks, stealing workers, placements and mappers, compared with results computed by
//! hand.

use super::super::predicted;
use super::*;

/// Tasks that exchange no messages, all on the first of `workers` workers.
fn apart(costs: &[f64], messages: usize, workers: usize) -> Model {
    let tasks = costs.iter().enumerate().map(|(at, &cost)| {
        let mut script = Script::default();
        (0..messages).for_each(|_| script.push(NOTHING, cost, 0.0, []));
        Task { script: Arc::new(script), ..Task::new(&format!("t{at}"), Place::Worker(0)) }
    });
    let runtime = Runtime { workers, quantum: 4, ..Runtime::default() };
    Model { tasks: tasks.collect(), streams: Vec::new(), runtime }
}

#[test]
fn tasks_that_share_a_lock_take_turns_and_gain_by_doing_without() {
    let mut model = line(&[vec![10e3; 500], vec![10e3; 500]], &[64]);
    model.tasks.iter_mut().for_each(|task| task.locked = 0.5);
    let together = run(&model).lasted_ns;
    assert!(close(together, 2.0 * 500.0 * 10e3, 0.02), "one at a time: {together}");
    let unlocked = candidates(&model).into_iter().find(|change| matches!(change, Change::Unlocked { .. }));
    let free = run(&unlocked.expect("it is tried").applied(&model)).lasted_ns;
    assert!(close(free, 500.0 * 10e3, 0.02), "each on its worker: {free}");
    // On one worker no task waits for the lock.
    model.tasks[1].place = Place::Worker(0);
    assert!(close(run(&model).lasted_ns, 2.0 * 500.0 * 10e3, 0.02));
    // If the two tasks wait for different locks, each waits for the recorded time.
    let unshared = model.without_locks().expect("some wait for locks");
    assert!(close(unshared.tasks[0].busy_ns(), 500.0 * 20e3, 1e-6));
    assert!(unshared.without_locks().is_none());
    // Without the locks they gain as much as if they had shared one.
    let unlocked = candidates(&unshared).into_iter().find(|change| matches!(change, Change::Unlocked { .. }));
    let free = unlocked.expect("it is tried").applied(&unshared);
    assert!(close(free.tasks[0].busy_ns(), 500.0 * 10e3, 1e-6));
    assert!(close(free.tasks[0].on_processor, 1.0, 1e-6), "{}", free.tasks[0].on_processor);
}

#[test]
fn a_task_that_waits_for_a_lock_in_a_loop_keeps_its_processor() {
    let mut model = line(&[vec![10e3; 500], vec![10e3; 500]], &[64]);
    for (task, spun) in model.tasks.iter_mut().zip([1.0, 0.0]) {
        (task.locked, task.spun) = (0.5, spun);
    }
    let unshared = model.without_locks().expect("both wait for a lock");
    let on_processor = |of: &Model| of.tasks.iter().map(|task| task.on_processor).collect::<Vec<_>>();
    assert_eq!(on_processor(&unshared), [1.0, 0.5]);
    assert_eq!(on_processor(&unshared.unlocked()), [1.0, 1.0]);
}

#[test]
fn a_worker_without_work_gets_a_task_of_another() {
    let model = apart(&[10e3, 10e3], 2000, 2);
    let before = run(&model).lasted_ns;
    assert!(close(before, 2.0 * 2000.0 * 10e3, 0.01), "{before}");
    let after = run(&Change::Steal.applied(&model)).lasted_ns;
    assert!(after < 0.6 * before, "{after} of {before}: half, and what it takes until it is hungry");
    let mut placed = apart(&[10e3, 10e3], 2000, 2);
    placed.tasks.iter_mut().for_each(|task| task.is_placed = true);
    assert!(close(run(&Change::Steal.applied(&placed)).lasted_ns, before, 0.01), "the user placed them");
    assert!(run(&Change::Unplaced.applied(&placed)).lasted_ns < 0.6 * before);
    let in_turn = Change::Mapper { in_turn: true }.applied(&model);
    assert!(close(run(&in_turn).lasted_ns, before / 2.0, 0.01));
}

#[test]
fn replicas_of_a_placed_box_are_not_placed() {
    let mut model = line(&[vec![1e3; 400], vec![40e3; 400], vec![1e3; 400]], &[64, 64]);
    model.runtime.quantum = 64;
    (model.tasks[1].is_placed, model.tasks[1].weight) = (true, 8);
    let change = Change::Replicas { component: "t1".into(), replicas: 4 };
    let gain = run(&model).lasted_ns / run(&change.applied(&model)).lasted_ns - 1.0;
    // With four replicas on three workers, one worker has two replicas.
    assert!((0.7..1.2).contains(&gain), "{gain}");
}

#[test]
fn the_mapper_cuts_by_what_it_expects_of_tasks() {
    let mut model = apart(&[10.0; 4], 10, 2);
    for (task, weight) in model.tasks.iter_mut().zip([8, 1, 1, 8]) {
        task.weight = weight;
    }
    let places = |model: &Model| model.tasks.iter().map(|task| task.place).collect::<Vec<_>>();
    let anew = Change::Mapper { in_turn: false }.applied(&model);
    assert_eq!(places(&anew), [0, 0, 1, 1].map(Place::Worker));
    for (task, weight) in model.tasks.iter_mut().zip([1, 1, 1, 16]) {
        task.weight = weight;
    }
    let anew = Change::Mapper { in_turn: false }.applied(&model);
    assert_eq!(places(&anew), [0, 0, 0, 1].map(Place::Worker), "replicas will stand before the last");
}

/// A star on the first of two workers, with three stages that were created during the run, and a task on the
/// other worker.
fn star() -> Model {
    let mut model = apart(&[10.0, 10e3, 10e3, 10e3, 1e3], 100, 2);
    for (task, component) in model.tasks.iter_mut().zip(["star", "star/w", "star/w", "star/w", "last"]) {
        task.component = component.to_owned();
        task.origin = if component == "star/w" { Origin::Later } else { Origin::Start };
    }
    model.tasks[4].place = Place::Worker(1);
    model
}

#[test]
fn stages_of_a_star_stay_on_its_worker_and_replicas_of_a_split_are_spread() {
    let mut model = star();
    let gain =
        |model: &Model, change: Change| run(model).lasted_ns / run(&change.applied(model)).lasted_ns - 1.0;
    for workers in [3, 4] {
        let gain = gain(&model, Change::Workers { workers });
        assert!(gain.abs() < 0.05, "the stages go to one worker of {workers}, too: {gain}");
    }
    let in_turn = gain(&model, Change::Mapper { in_turn: true });
    assert!(in_turn > 0.4, "in turn, the stages go to both workers: {in_turn}");
    for task in model.tasks.iter_mut().filter(|task| task.origin == Origin::Later) {
        (task.component, task.origin) = ("split/w".to_owned(), Origin::Replica);
    }
    let spread = gain(&model, Change::Workers { workers: 4 });
    assert!(spread > 1.5, "each replica has a worker: {spread}");
}

/// Two tasks on a worker each, and two replicas beside the first.
fn beside_replicas() -> Model {
    let mut model = apart(&[40e3, 60e3, 15e3, 15e3], 100, 2);
    model.tasks[1].place = Place::Worker(1);
    for task in &mut model.tasks[2..] {
        (task.component, task.origin) = ("split/w".to_owned(), Origin::Replica);
    }
    model.runtime.in_turn = Some(false);
    model
}

#[test]
fn replicas_go_to_the_worker_that_a_change_relieves() {
    let per_message = |model: &Model| run(model).lasted_ns / 100.0;
    let faster = Change::Faster { component: "t1".into(), task: None, times: 2.0 };
    let after = |model: &Model| per_message(&faster.applied(model));
    let mut model = beside_replicas();
    // The first worker has 70 us for each message, the second one 60. With half of these 60, one replica goes
    // there: 55 and 45. Without the change none would go: 55 and 75.
    assert!(faster.rebalances() && super::super::changes::rebalanced(&model).is_none());
    assert!(close(per_message(&model), 70e3, 0.02) && close(after(&model), 55e3, 0.02), "{}", after(&model));
    // If tasks go to workers in turn, or the runtime moves no replicas, they stay.
    model.runtime.in_turn = Some(true);
    assert!(close(after(&model), 70e3, 0.02));
    (model.runtime.in_turn, model.runtime.spreads) = (Some(false), false);
    assert!(close(after(&model), 70e3, 0.02));
    // With 40 us for `t1` one replica goes there without a change: 55 and 55. With 20 us both go: 40 and 50.
    let mut model = beside_replicas();
    model.tasks[1].times = 40.0 / 60.0;
    let moved = super::super::changes::rebalanced(&model).expect("a replica goes");
    assert!(close(per_message(&moved), 55e3, 0.02) && close(after(&model), 50e3, 0.02));
}

#[test]
fn a_loss_by_fewer_workers_is_not_predicted() {
    let alike = line(&vec![vec![10e3; 400]; 2], &[64]);
    let words = |model: &Model| {
        let replayed = predicted(model, run(model).lasted_ns, 0.0);
        replayed.answer.changes.into_iter().map(|row| row.words).collect::<Vec<_>>()
    };
    assert!(!words(&alike).contains(&"1 worker".to_owned()), "half of the flow is lost, or less");
    // One worker suffices if the other has nearly nothing to do.
    let idle = line(&[vec![10.0; 400], vec![10e3; 400]], &[64]);
    assert!(words(&idle).contains(&"1 worker".to_owned()));
}

#[test]
fn replicas_of_one_box_leave_those_of_others_in_their_places() {
    // A model from sums, which has no streams: the replicas of `t1` are on the worker on which `t0` is.
    let mut model = apart(&[1e3, 5e3, 5e3], 10, 2);
    for task in &mut model.tasks[1..] {
        (task.component, task.origin) = ("t1".to_owned(), Origin::Replica);
    }
    let after = Change::Replicas { component: "t0".to_owned(), replicas: 4 }.applied(&model);
    let places = |component: &str| {
        let of_it = after.tasks.iter().filter(|task| task.component == component);
        of_it.map(|task| task.place == Place::Worker(0)).collect::<Vec<_>>()
    };
    assert_eq!(places("t1"), [true, true]);
    assert_eq!(places("t0"), [false; 4], "the other worker has time");
}

#[test]
fn what_a_limit_costs_is_not_more_than_the_run_shows() {
    let mut model = line(&vec![vec![10e3; 400]; 3], &[8, 8]);
    let free = run(&model).lasted_ns;
    model.runtime.unfinished = 1;
    let held = run(&model).lasted_ns;
    let of_run = |lasted_ns: f64| {
        let changes = predicted(&model, lasted_ns, 0.0).answer.changes;
        let row =
            changes.into_iter().find(|row| matches!(row.change, Change::NoLimit { .. })).expect("a limit");
        assert!(row.least <= row.gain && row.gain <= row.most, "{row:?}");
        row.gain
    };
    assert!(close(of_run(held), held / free - 1.0, 1e-9));
    assert!(close(of_run(1.1 * held), held / free - 1.0, 1e-9), "other things delayed the run, too");
    // The replay overrates what a message costs that waits for the one before.
    assert!(close(of_run(0.85 * held), 0.85 * held / free - 1.0, 1e-9));
}

#[test]
fn more_stages_than_a_block_go_on_to_the_next_worker() {
    let mut model = apart(&[10e3; 18], 2, 3);
    // The mapper places a single task on the middle worker.
    model.tasks[0].place = Place::Worker(1);
    model.tasks[1..].iter_mut().for_each(|task| task.origin = Origin::Later);
    for task in &mut model.tasks[1..] {
        task.component = "t0/w".to_owned();
    }
    let anew = super::super::changes::placed_anew(&model);
    let on = |worker| anew.tasks[1..].iter().filter(|task| task.place == Place::Worker(worker)).count();
    let first = match anew.tasks[0].place {
        Place::Worker(worker) => worker,
        Place::OwnThread => panic!("{anew:?}"),
    };
    assert_eq!([0, 1, 2].map(|step| on((first + step) % 3)), [8, 8, 1]);
}

#[test]
fn what_other_places_alone_gain_is_not_the_gain_of_a_worker() {
    // The user moved all four tasks to one worker; another run of the same network would divide them.
    let mut model = line(&vec![vec![10e3; 400]; 4], &[64; 3]);
    model.runtime = Runtime { workers: 2, quantum: 8, ..Runtime::default() };
    for task in &mut model.tasks {
        (task.place, task.weight) = (Place::Worker(0), 8);
    }
    model.tasks.iter_mut().for_each(|task| task.on_processor = 0.5);
    let replayed = predicted(&model, run(&model).lasted_ns, 0.0);
    let gain = |wanted: &str| {
        let row = replayed.answer.changes.iter().find(|row| row.words == wanted);
        row.unwrap_or_else(|| panic!("{wanted}: {:?}", replayed.answer.changes)).gain
    };
    assert!(gain("t3 on worker 1") > 0.2);
    // Two workers with two tasks each halve the time; with three workers, one still has two tasks.
    assert!(gain("3 workers").abs() < 0.05, "{}", gain("3 workers"));
}

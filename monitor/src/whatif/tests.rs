//! Compares replays with results of queueing theory, with recursions for lines of tasks, and with sums.

mod heads;
mod locks_and_moves;

use std::sync::Arc;

use super::changes::{Change, candidates};
use super::model::{Model, NOTHING, Origin, Place, Reads, Runtime, Script, Stream, Task};
use super::replay::{Outcome, replay};
use proptest::prelude::*;

/// Random numbers (xorshift), so that tests repeat.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}

impl Task {
    /// A task without steps.
    fn new(name: &str, place: Place) -> Task {
        Task {
            name: name.to_owned(),
            component: name.to_owned(),
            place,
            reads: Reads::AsRecorded,
            script: Arc::default(),
            times: 1.0,
            on_processor: 1.0,
            shown_after: 1,
            origin: Origin::Start,
            is_placed: false,
            weight: 1,
            locked: 0.0,
            waits: 0.0,
            spun: 0.0,
            shares: false,
            is_paced: false,
        }
    }
}

/// A line of tasks, each on a worker of its own, with one message a dispatch: task `i` takes `costs[i][k]`
/// for message `k`.
fn line(costs: &[Vec<f64>], capacities: &[usize]) -> Model {
    let tasks = costs.iter().enumerate().map(|(at, costs)| {
        let mut script = Script::default();
        for &cost in costs {
            let input = at.checked_sub(1).map_or(NOTHING, |before| before as u32);
            script.push(input, cost, 0.0, (at < capacities.len()).then_some(at as u32));
        }
        Task { script: Arc::new(script), ..Task::new(&format!("t{at}"), Place::Worker(at)) }
    });
    let runtime = Runtime { workers: costs.len(), quantum: 1, ..Runtime::default() };
    let streams = capacities.iter().map(|&capacity| Stream::of(capacity)).collect();
    let mut model = Model { tasks: tasks.collect(), streams, runtime };
    model.settle();
    model
}

fn run(model: &Model) -> Outcome {
    replay(model, 4).expect("it ends")
}

fn close(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * a.abs().max(b.abs())
}

/// The makespan of a line of tasks, computed message by message by a recursion (max-plus): task `i` begins
/// message `k` as soon as it has ended message `k - 1`, task `i - 1` has written message `k`, and its output
/// has room, because its reader has ended message `k - capacity`.
fn makespan(costs: &[Vec<f64>], capacities: &[usize]) -> f64 {
    let (tasks, messages) = (costs.len(), costs[0].len());
    let mut ended = vec![vec![0.0_f64; messages]; tasks];
    for k in 0..messages {
        for i in 0..tasks {
            let own = if k > 0 { ended[i][k - 1] } else { 0.0 };
            let given = if i > 0 { ended[i - 1][k] } else { 0.0 };
            let room = match capacities.get(i) {
                Some(&capacity) if k >= capacity => ended[i + 1][k - capacity],
                _ => 0.0,
            };
            ended[i][k] = own.max(given).max(room) + costs[i][k];
        }
    }
    ended[tasks - 1][messages - 1]
}

#[test]
fn a_line_of_constant_costs_goes_at_the_pace_of_its_slowest_task() {
    let costs = vec![vec![10.0; 500], vec![30.0; 500], vec![20.0; 500]];
    let lasted = run(&line(&costs, &[4, 4])).lasted_ns;
    assert!(close(lasted, 10.0 + 500.0 * 30.0 + 20.0, 1e-9), "{lasted}");
}

#[test]
fn a_line_with_a_full_stream_is_the_queue_of_markov_with_so_many_places() {
    // A source that pauses only when there is no room gives an M/M/1/K queue, where K is the number of the
    // stream's slots, including the slot of the message in service.
    for (capacity, ratio) in [(1, 1.0), (4, 1.0), (4, 0.5), (8, 1.5)] {
        let mut numbers = Numbers(0x1234_5678_9abc_def1);
        let (arrival, service): (f64, f64) = (1000.0, 1000.0 * ratio);
        let draw =
            |mean: f64, numbers: &mut Numbers| (0..200_000).map(|_| numbers.exponential(mean)).collect();
        let costs: Vec<Vec<f64>> = vec![draw(arrival, &mut numbers), draw(service, &mut numbers)];
        let lasted = run(&line(&costs, &[capacity])).lasted_ns;
        let (rho, k) = (service / arrival, capacity as i32);
        let full = if rho == 1.0 {
            1.0 / f64::from(k + 1)
        } else {
            (1.0 - rho) * rho.powi(k) / (1.0 - rho.powi(k + 1))
        };
        let wanted = (1.0 - full) / arrival;
        let got = 200_000.0 / lasted;
        assert!(close(got, wanted, 0.01), "capacity {capacity}, rho {rho}: {got} instead of {wanted}");
    }
}

#[test]
fn messages_wait_as_long_as_in_the_queue_of_markov() {
    // Arrivals at random times and a stream without a limit give an M/M/1 queue with rho = 0.7.
    let mut numbers = Numbers(0xfeed_beef_1234_0001);
    let (arrival, service) = (1000.0, 700.0);
    let mut model = line(&[vec![0.0; 300_000], vec![0.0; 300_000]], &[usize::MAX]);
    let (mut comes, mut taken) = (Script::default(), Script::default());
    let (mut arrivals, mut at) = (Vec::new(), 0.0);
    for _ in 0..300_000 {
        let between = numbers.exponential(arrival);
        at += between;
        arrivals.push(at);
        comes.push(NOTHING, 0.0, between, [0]);
        taken.push(0, numbers.exponential(service), 0.0, []);
    }
    model.tasks[0].script = Arc::new(comes);
    model.tasks[1].script = Arc::new(taken);
    model.settle();
    let outcome = run(&model);
    let stayed: f64 = outcome.exits_ns.iter().zip(&arrivals).map(|(left, came)| left - came).sum();
    let (mean, wanted) = (stayed / 300_000.0, 1.0 / (1.0 / service - 1.0 / arrival));
    assert!(close(mean, wanted, 0.03), "{mean} instead of {wanted}");
}

#[test]
fn tasks_of_one_worker_take_turns() {
    let mut model = line(&[vec![10.0; 100], vec![30.0; 100], vec![20.0; 100]], &[4, 4]);
    model.tasks.iter_mut().for_each(|task| task.place = Place::Worker(0));
    assert!(close(run(&model).lasted_ns, 100.0 * 60.0, 1e-9));
    // If each task has its own worker, but all share one processor, the run takes equally long.
    let mut model = line(&[vec![10.0; 100], vec![30.0; 100], vec![20.0; 100]], &[4, 4]);
    model.runtime.processors = 1.0;
    let lasted = run(&model).lasted_ns;
    assert!(close(lasted, 100.0 * 60.0, 1e-9), "{lasted}");
    // A task that sleeps needs no processor.
    model.tasks[1].on_processor = 0.02;
    assert!(run(&model).lasted_ns < 100.0 * 35.0);
}

/// A source distributes messages to two tasks, and a third reads their output in the order of the source.
fn diamond(capacity: usize) -> Model {
    let (mut source, mut gather) = (Script::default(), Script::default());
    let mut ways = [Script::default(), Script::default()];
    for k in 0..1000_usize {
        let way = k % 2;
        source.push(NOTHING, 10.0, 0.0, [way as u32]);
        let slow = k % 200 == 0 || k % 200 == 101;
        ways[way].push(way as u32, if slow { 2000.0 } else { 20.0 }, 0.0, [2 + way as u32]);
        gather.push(2 + way as u32, 5.0, 0.0, []);
    }
    let [a, b] = ways;
    let scripts = [source, a, b, gather];
    let tasks = scripts.into_iter().enumerate().map(|(at, script)| Task {
        script: Arc::new(script),
        ..Task::new(&format!("t{at}"), Place::Worker(at))
    });
    let streams = (0..4).map(|_| Stream::of(capacity)).collect();
    let runtime = Runtime { workers: 4, quantum: 1, ..Runtime::default() };
    let mut model = Model { tasks: tasks.collect(), streams, runtime };
    model.settle();
    model
}

#[test]
fn order_and_capacity_hold_the_line_back_as_they_should() {
    let model = diamond(4);
    let before = run(&model).lasted_ns;
    assert!(candidates(&model).contains(&Change::Unordered { component: "t3".into() }));
    let longer = run(&Change::Capacity { times: 16 }.applied(&model)).lasted_ns;
    // The source sends five records of 2,000 ns to each task in turn; with long streams both tasks work at
    // the same time.
    assert!(longer < 0.8 * before, "{longer} {before}");
    let unordered = run(&Change::Unordered { component: "t3".into() }.applied(&model)).lasted_ns;
    assert!(unordered <= before, "{unordered} {before}");
}

#[test]
fn a_limit_of_messages_under_way_holds_the_source() {
    // Three tasks of 100 ns are given one message in flight at a time, so no two tasks work at the same time.
    let mut model = line(&[vec![100.0; 200], vec![100.0; 200], vec![100.0; 200]], &[8, 8]);
    let free = run(&model).lasted_ns;
    model.runtime.unfinished = 1;
    let held = run(&model).lasted_ns;
    assert!(held > 1.8 * free, "{held} {free}");
    assert!(close(run(&Change::NoLimit { was: 1 }.applied(&model)).lasted_ns, free, 1e-9));
}

#[test]
fn replicas_share_the_work_of_a_slow_task() {
    let mut model = line(&[vec![100.0; 2000], vec![8000.0; 2000], vec![100.0; 2000]], &[64, 64]);
    model.runtime.workers = 4;
    let before = run(&model).lasted_ns;
    let after = run(&Change::Replicas { component: "t1".into(), replicas: 4 }.applied(&model)).lasted_ns;
    let times = before / after;
    assert!((3.0..4.05).contains(&times), "{times}");
    // On one processor replicas gain nothing.
    model.runtime.processors = 1.0;
    let before = run(&model).lasted_ns;
    let after = run(&Change::Replicas { component: "t1".into(), replicas: 4 }.applied(&model)).lasted_ns;
    assert!(after >= before);
}

#[test]
fn each_stage_of_a_star_gets_replicas() {
    // Two stages of 8 µs on one worker, and another worker with nearly nothing to do.
    let cheap = vec![100.0; 2000];
    let mut model = line(&[cheap.clone(), vec![8e3; 2000], vec![8e3; 2000], cheap], &[64; 3]);
    model.runtime.workers = 2;
    for (task, worker) in model.tasks.iter_mut().zip([1, 0, 0, 1]) {
        task.place = Place::Worker(worker);
    }
    for stage in &mut model.tasks[1..3] {
        (stage.component, stage.origin) = ("star/w".to_owned(), Origin::Later);
    }
    let change = Change::Replicas { component: "star/w".to_owned(), replicas: 4 };
    assert!(candidates(&model).contains(&change));
    let after = change.applied(&model);
    let replicas = after.tasks.iter().filter(|task| task.component == "star/w");
    let (here, there): (Vec<&Task>, Vec<&Task>) = replicas.partition(|task| task.place == Place::Worker(0));
    assert_eq!((here.len(), there.len()), (4, 4));
    let gain = run(&model).lasted_ns / run(&after).lasted_ns - 1.0;
    assert!((0.7..1.0).contains(&gain), "{gain}");
}

#[test]
fn a_worker_more_takes_the_piece_that_the_mapper_would_give_it() {
    let mut model = line(&vec![vec![100.0; 100]; 6], &[4; 5]);
    for (at, task) in model.tasks.iter_mut().enumerate() {
        task.place = Place::Worker(at / 3);
    }
    model.runtime.workers = 2;
    let three = Change::Workers { workers: 3 }.applied(&model);
    let places: Vec<Place> = three.tasks.iter().map(|task| task.place).collect();
    assert_eq!(places, [0, 0, 1, 1, 2, 2].map(Place::Worker));
    assert!(run(&three).lasted_ns < 0.75 * run(&model).lasted_ns);
}

#[test]
fn a_network_that_cannot_go_on_gives_no_outcome() {
    // The second task reads two messages more than the first writes, so it can never end.
    let mut model = line(&[vec![1.0; 5], vec![1.0; 5]], &[4]);
    let mut script = Script::default();
    (0..7).for_each(|_| script.push(0, 1.0, 0.0, []));
    model.tasks[1].script = Arc::new(script);
    assert!(replay(&model, 4).is_none());
}

fn costs(
    tasks: std::ops::Range<usize>,
    messages: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Vec<f64>>> {
    (tasks, messages).prop_flat_map(|(tasks, messages)| {
        prop::collection::vec(prop::collection::vec((1_u32..2000).prop_map(f64::from), messages), tasks)
    })
}

proptest! {
    #[test]
    fn a_line_lasts_as_long_as_its_recursion_gives(costs in costs(2..5, 1..60), capacity in 1_usize..5) {
        let capacities = vec![capacity; costs.len() - 1];
        let lasted = run(&line(&costs, &capacities)).lasted_ns;
        // The tolerance covers the rounding of costs to 32 bits.
        prop_assert!(close(lasted, makespan(&costs, &capacities), 1e-5), "{lasted}");
    }

    #[test]
    fn a_faster_task_and_a_longer_stream_never_slow_a_line(costs in costs(2..5, 1..60), capacity in 1_usize..5, which in 0_usize..4) {
        let model = line(&costs, &vec![capacity; costs.len() - 1]);
        let before = run(&model).lasted_ns * (1.0 + 1e-6);
        let component = format!("t{}", which % costs.len());
        let faster = Change::Faster { component, task: None, times: 2.0 }.applied(&model);
        prop_assert!(run(&faster).lasted_ns <= before);
        let longer = Change::Capacity { times: 16 }.applied(&model);
        prop_assert!(run(&longer).lasted_ns <= before);
    }

    #[test]
    fn nothing_is_faster_than_its_work(costs in costs(2..5, 1..60), capacity in 1_usize..5, processors in 1_u32..4, quantum in 1_usize..20) {
        let mut model = line(&costs, &vec![capacity; costs.len() - 1]);
        model.runtime.processors = f64::from(processors);
        model.runtime.quantum = quantum;
        let lasted = run(&model).lasted_ns * (1.0 + 1e-6);
        let of_task = costs.iter().map(|costs| costs.iter().sum::<f64>()).fold(0.0, f64::max);
        prop_assert!(lasted >= of_task && lasted >= model.busy_ns() / f64::from(processors));
        prop_assert!(lasted <= model.busy_ns() * (1.0 + 1e-3), "some thread always works");
        for change in candidates(&model) {
            prop_assert!(replay(&change.applied(&model), 4).is_some(), "{change}");
        }
    }
}

#[test]
fn where_something_outside_sets_the_pace_only_what_reads_it_is_tried_faster() {
    let mut model = line(&[vec![10.0; 50], vec![30.0; 50], vec![20.0; 50]], &[4, 4]);
    assert!(candidates(&model).iter().any(|change| matches!(change, Change::Workers { .. })));
    model.tasks[1].is_paced = true;
    let all = candidates(&model);
    let is_it = |change: &Change| matches!(change, Change::Faster { component, .. } if component == "t1");
    assert!(all.len() == 2 && all.iter().all(is_it), "{all:?}");
    // No gain by replicas is predicted for a box that shares a lock, because the replicas would wait for the
    // lock as well.
    model.tasks[1].is_paced = false;
    let replicas = |model: &Model| {
        candidates(model)
            .iter()
            .any(|change| matches!(change, Change::Replicas { component, .. } if component == "t1"))
    };
    assert!(replicas(&model));
    model.tasks[1].shares = true;
    assert!(!replicas(&model));
}

#[test]
fn a_task_reads_what_there_is_where_order_does_not_count() {
    let mut model = diamond(2);
    model.tasks[3].reads = Reads::Any;
    assert!(run(&model).lasted_ns >= 0.0);
}

/// A source, a feedback, and a sink, each task on a worker of its own. The body has two boxes, of which the
/// first takes `cost` for a message, and the second makes `copies` of a message from outside; each copy goes
/// through the body once more. All streams have `capacity`.
fn feedback(messages: usize, copies: usize, cost: f64, capacity: usize) -> Model {
    let (outside, into, between, back, out) = (0, 1, 2, 3, 4);
    let mut scripts = [(); 5].map(|()| Script::default());
    let [source, both_ends, slow, quick, sink] = &mut scripts;
    for _ in 0..messages {
        source.push(NOTHING, 1.0, 0.0, [outside]);
        both_ends.push(outside, 1.0, 0.0, [into]);
        slow.push(into, cost, 0.0, [between]);
        quick.push(between, 1.0, 0.0, std::iter::repeat_n(back, copies));
        for _ in 0..copies {
            both_ends.push(back, 1.0, 0.0, [into]);
            slow.push(into, cost, 0.0, [between]);
            quick.push(between, 1.0, 0.0, [back]);
            both_ends.push(back, 1.0, 0.0, [out]);
            sink.push(out, 1.0, 0.0, []);
        }
    }
    let names = ["source", "net/loop", "net/loop/slow", "net/loop/quick", "sink"];
    let tasks = names.into_iter().zip(scripts).enumerate().map(|(at, (name, script))| Task {
        script: Arc::new(script),
        reads: if at == 1 { Reads::Any } else { Reads::AsRecorded },
        ..Task::new(name, Place::Worker(at))
    });
    let runtime = Runtime { workers: 5, quantum: 1, ..Runtime::default() };
    let streams = (0..5).map(|_| Stream::of(capacity)).collect();
    let mut model = Model { tasks: tasks.collect(), streams, runtime };
    model.settle();
    model.close_loops(|task| task.component == "net/loop");
    assert_eq!(model.tasks[1].reads, Reads::Loop { into, back });
    model
}

#[test]
fn messages_that_come_back_go_before_messages_from_outside_and_always_find_room() {
    // The slow box gets its first message after a step of the source and one of the feedback, and the last
    // message leaves in a step of the other box, of the feedback and of the sink.
    for (messages, copies, capacity) in [(50, 1, 1), (50, 3, 2), (100, 10, 4), (20, 64, 2)] {
        let lasted = run(&feedback(messages, copies, 100.0, capacity)).lasted_ns;
        let wanted = 5.0 + 100.0 * (messages * (1 + copies)) as f64;
        // At most, the slow box waits for two steps of the others whenever a message came from outside.
        let waits = 3.0 * messages as f64;
        assert!(
            (wanted..=wanted + waits).contains(&lasted),
            "{messages} messages, {copies} copies, {capacity} slots: {lasted}, not {wanted}"
        );
    }
}

#[test]
fn a_feedback_without_a_body_is_a_stream_to_itself() {
    let mut script = Script::default();
    script.push(0, 1.0, 0.0, [1]);
    script.push(1, 1.0, 0.0, [2]);
    let task =
        Task { script: Arc::new(script), reads: Reads::Any, ..Task::new("net/loop", Place::Worker(0)) };
    let streams = (0..3).map(|_| Stream::of(1)).collect();
    let mut model = Model { tasks: vec![task], streams, runtime: Runtime::default() };
    model.settle();
    model.close_loops(|_| true);
    assert_eq!(model.tasks[0].reads, Reads::Loop { into: 1, back: 1 });
}

#[test]
fn a_replay_is_believed_between_the_run_and_the_run_without_disturbance() {
    for (lasted, kept, replayed, wanted) in [
        (100.0, 0.0, 100.0, None),
        (100.0, 0.0, 80.0, None),
        (100.0, 0.0, 50.0, Some("100 % faster")),
        (100.0, 0.0, 200.0, Some("50 % slower")),
        // The busiest worker had no processor for a fifth of the run's 100 ns, so a replay may be faster by
        // this time.
        (100.0, 0.2, 80.0, None),
        (100.0, 0.2, 64.0, None),
        (100.0, 0.2, 50.0, Some("60 % faster")),
        (100.0, 0.2, 200.0, Some("50 % slower")),
        (100.0, 0.8, 60.0, Some("no processor for 80 %")),
        (f64::NAN, 0.0, 60.0, Some("does not say")),
        (0.0, 0.0, 60.0, Some("does not say")),
    ] {
        let why = super::beyond(lasted, kept, super::off(lasted, kept, replayed));
        let as_wanted = match (&why, wanted) {
            (Some(why), Some(wanted)) => why.contains(wanted),
            (why, wanted) => why.is_none() && wanted.is_none(),
        };
        assert!(as_wanted, "{lasted} {kept} {replayed}: {why:?}");
    }
}

#[test]
fn a_worker_without_a_processor_is_tried_only_where_tasks_sleep() {
    let more = |model: &Model| {
        candidates(model).iter().any(|change| matches!(change, Change::Workers { workers: 3 }))
    };
    let mut model = line(&[vec![10.0; 50], vec![30.0; 50]], &[4]);
    for (at, task) in model.tasks.iter_mut().enumerate() {
        task.place = Place::Worker(at);
    }
    (model.runtime.workers, model.runtime.processors) = (2, 4.0);
    assert!(more(&model));
    model.runtime.processors = 2.0;
    assert!(!more(&model));
    // The second box sleeps for half of its time, three eighths of the time of both.
    model.tasks[1].on_processor = 0.5;
    assert!(more(&model));
}

//! Tests of spreading with made-up loads and a made-up clock.

use super::*;

/// The spreading of a runtime in simulated time.
struct World {
    spreading: Spreading,
    clock: Clock,
    siblings: Arc<Siblings>,
    now: u64,
    waited: Vec<u64>,
}

const MS: u64 = 1_000_000;

impl World {
    /// A world with `replicas` replicas on the first worker.
    fn new(workers: usize, replicas: usize) -> World {
        let (spreading, clock) = (Spreading::new(true, workers), Clock::new());
        let world = World { spreading, clock, siblings: Arc::default(), now: MS, waited: vec![0; workers] };
        let mut table = lock(&world.spreading.table);
        table.restart(world.ticks(world.now), 0, vec![0; workers]);
        for _ in 0..replicas {
            table.insert(Known {
                siblings: world.siblings.clone(),
                worker: 0,
                tasks: 1,
                work: Work::default(),
                all_messages: 0,
                backlog_ticks: 0,
                is_heavy: false,
                rests_until: 0,
                staying: 0,
                moves: 0,
            });
        }
        drop(table);
        world
    }

    fn ticks(&self, ns: u64) -> u64 {
        self.clock.ns_to_ticks(ns)
    }

    /// Lets the mapper place replicas again.
    fn place(&self, places: impl Iterator<Item = (u32, u32)>) {
        self.spreading.were_placed(places, &self.clock, self.clock.ns_to_ticks(self.now));
    }

    /// Simulates that each replica works on a number of messages that take a number of nanoseconds each
    /// (as `work` says), 8 messages in a dispatch, and that workers do nothing else. Returns the moves
    /// that result.
    fn pass(&mut self, work: &[(u64, u64)]) -> Vec<(u32, u32)> {
        let mut table = lock(&self.spreading.table);
        let mut busy = vec![0; self.waited.len()];
        for (replica, &(messages, each)) in work.iter().enumerate() {
            let Some(known) = &table.replicas[replica] else { continue };
            let worker = known.worker;
            busy[worker as usize] += messages * each;
            let work = Work {
                ticks: self.clock.ns_to_ticks(messages * each),
                messages,
                dispatches: messages.div_ceil(8),
                samples: messages.div_ceil(8),
            };
            let backlog_ticks = known.backlog_ticks;
            let mut load = Load { work, backlog_ticks, ..Load::default() };
            table.add(replica as u32, worker, &mut load, &self.clock);
        }
        let longest = busy.iter().copied().max().unwrap_or_default();
        self.now += longest;
        for (worker, busy) in busy.into_iter().enumerate() {
            self.waited[worker] += longest - busy;
            let ticks = self.clock.ns_to_ticks(self.waited[worker]);
            self.spreading.has_waited(worker as u32, ticks);
        }
        let now = self.clock.ns_to_ticks(self.now);
        (0..self.waited.len() as u32).for_each(|worker| table.rates.told(worker, now));
        table.plan(self.spreading.waited_by(now), self.waited.len(), &self.clock, now)
    }

    fn workers(&self) -> Vec<u32> {
        let table = lock(&self.spreading.table);
        table.replicas.iter().flatten().map(|known| known.worker).collect()
    }
}

#[test]
fn heavy_replicas_are_balanced_at_once() {
    for workers in [2, 3, 8] {
        let mut world = World::new(workers, 2 * workers);
        assert_eq!(world.pass(&vec![(20, 50_000); 2 * workers]).len(), 2 * workers - 2);
        let mut places = world.workers();
        places.sort_unstable();
        let two_each: Vec<u32> = (0..workers as u32).flat_map(|worker| [worker, worker]).collect();
        assert_eq!(places, two_each);
        assert_eq!(world.pass(&vec![(20, 50_000); 2 * workers]), [], "they are balanced now");
    }
}

#[test]
fn a_hot_replica_is_left_alone_and_light_ones_together() {
    let mut world = World::new(2, 5);
    world.pass(&[(400, 5_000), (100, 5_000), (100, 5_000), (100, 5_000), (100, 5_000)]);
    let places = world.workers();
    assert!(places[1..].iter().all(|&worker| worker != places[0]), "{places:?}");
    let mut world = World::new(2, 5);
    assert_eq!(world.pass(&[(10_000, 200); 5]), []);
}

#[test]
fn what_was_not_seen_is_taken_to_be_like_its_siblings() {
    let mut world = World::new(2, 4);
    // Only the first replica was sampled, once, so its sample stands for the other replicas, too.
    let moves = world.pass(&[(1, 200_000), (0, 0), (0, 0), (0, 0)]);
    assert_eq!(moves.len(), 2, "{moves:?}");
}

#[test]
fn few_samples_are_no_reason_to_think_replicas_unequal() {
    let mut world = World::new(2, 64);
    // Equal replicas give samples as uneven as these when there is time for 24 samples only.
    let work: Vec<(u64, u64)> = (0..64).map(|k| (u64::from(k % 8 < 3), 5_000)).collect();
    let moves = world.pass(&work);
    assert!((24..=40).contains(&moves.len()), "{} of 64 move", moves.len());
}

#[test]
fn what_waits_for_replicas_counts_where_all_workers_are_busy() {
    let mut world = World::new(2, 8);
    world.place((0..3).map(|replica| (replica, 1)));
    lock(&world.spreading.table).replicas.iter_mut().flatten().for_each(|known| {
        known.backlog_ticks = world.clock.ns_to_ticks(100 * MS);
    });
    // Each worker is busy all the time, so replicas that share a worker with more replicas get less time.
    let work: Vec<(u64, u64)> = (0..8).map(|k| (if k < 3 { 5 } else { 3 }, 100_000)).collect();
    let moves = world.pass(&work);
    assert_eq!(moves.len(), 1, "{moves:?}");
    assert_eq!(world.workers().iter().filter(|&&worker| worker == 0).count(), 4);
}

#[test]
fn a_slow_first_message_is_not_taken_for_heavy_work() {
    let mut world = World::new(2, 4);
    assert_eq!(world.pass(&[(2, 8_000), (1, 15_000), (1, 9_000), (0, 0)]), []);
}

#[test]
fn who_has_time_is_not_relieved() {
    let mut world = World::new(2, 2);
    world.now += 10 * MS;
    world.waited = vec![10 * MS; 2];
    assert_eq!(world.pass(&[(10, 100_000); 2]), []);
}

#[test]
fn light_replicas_on_several_workers_are_gathered() {
    let mut world = World::new(2, 8);
    world.place((0..4).map(|replica| (replica, 1)));
    world.pass(&[(10_000, 100); 8]);
    assert!(world.workers().iter().all(|&worker| worker == world.workers()[0]), "{:?}", world.workers());
}

#[test]
fn no_replica_moves_often_however_the_load_changes() {
    let mut world = World::new(2, 4);
    let mut moves = [0; 4];
    let mut random = 1_u64;
    let begin = world.now;
    while world.now - begin < 100_000 * MS {
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % 1000
        };
        let work: Vec<(u64, u64)> = (0..4).map(|_| (1 + next(), 1 + next() * 100)).collect();
        world.pass(&work).into_iter().for_each(|(replica, _)| moves[replica as usize] += 1);
    }
    // A replica that moved six times stays for 4 ms · 8⁵, which is more than the hundred seconds
    // simulated.
    assert!(moves.iter().all(|&moves| (1..=7).contains(&moves)), "{moves:?}");
}

/// A simulated run with two light replicas on the worker where their outputs are joined, and another
/// worker that spends a tenth of its time on the task that distributes messages to them.
fn two_light_ones() -> World {
    let mut world = World::new(2, 2);
    *lock(&world.siblings.made_up_ends) = Some((1, 0));
    assert_eq!(world.pass(&[(20_000, 100); 2]), [(0, 1)], "one is tried on the other worker");
    assert_eq!(world.pass(&[(5_000, 100); 2]), [], "the trial lasts 2 ms");
    world
}

#[test]
fn a_light_replica_stays_where_it_was_tried_if_more_messages_pass() {
    let mut world = two_light_ones();
    assert_eq!(world.pass(&[(30_000, 100); 2]), []);
    assert_eq!(world.workers(), [1, 0]);
}

#[test]
fn a_light_replica_goes_back_if_no_more_messages_pass_and_is_not_tried_again_soon() {
    let mut world = two_light_ones();
    // When dispatches have few messages each, both workers are busy and fewer messages pass.
    assert_eq!(world.pass(&[(8_000, 300); 2]), [(0, 0)]);
    assert_eq!(world.workers(), [0, 0]);
    // The replica that was not tried may be tried, too.
    let later: Vec<_> = (0..40).flat_map(|_| world.pass(&[(20_000, 100); 2])).collect();
    assert!(later.iter().all(|&(replica, _)| replica == 1), "{later:?}");
    assert!(later.len() <= 2, "{later:?}");
}

#[test]
fn what_the_user_moved_stays() {
    let mut world = World::new(2, 2);
    (0..2).for_each(|replica| world.spreading.stays(replica, false, true));
    assert_eq!(world.pass(&[(20, 50_000); 2]), []);
    // A replica that the user lets go moves again.
    world.spreading.stays(1, true, false);
    let moves = world.pass(&[(20, 50_000); 2]);
    assert!(matches!(moves[..], [(1, _)]), "{moves:?}");
}

#[test]
fn a_replica_stays_until_the_last_of_its_tasks_that_the_user_moved_is_let_go() {
    let mut world = World::new(2, 2);
    world.spreading.stays(0, false, true);
    // Two tasks of the second replica are moved, one of them twice; then one after the other is let go.
    for (stayed, stays) in [(false, true), (false, true), (true, true), (true, false)] {
        world.spreading.stays(1, stayed, stays);
        assert_eq!(world.pass(&[(20, 50_000); 2]), []);
    }
    // A task that was free and is moved freely changes nothing.
    world.spreading.stays(1, false, false);
    assert_eq!(world.pass(&[(20, 50_000); 2]), []);
    world.spreading.stays(1, true, false);
    let moves = world.pass(&[(20, 50_000); 2]);
    assert!(matches!(moves[..], [(1, _)]), "{moves:?}");
}

#[test]
fn replicas_that_the_mapper_placed_again_move_as_at_first() {
    let mut world = World::new(2, 2);
    world.pass(&[(20, 50_000); 2]);
    assert_eq!(world.pass(&[(20, 50_000), (0, 0)]), [], "a replica that has just moved rests");
    world.place([(0, 1), (1, 1)].into_iter());
    assert_eq!(world.workers(), [1, 1]);
    let moves = world.pass(&[(20, 50_000); 2]);
    assert!(matches!(moves[..], [(_, 0)]), "{moves:?}");
}

#[test]
fn a_replica_is_forgotten_with_its_last_task() {
    let world = World::new(2, 1);
    let spreading = &world.spreading;
    spreading.task_created(0);
    spreading.task_ended(0);
    assert!(lock(&spreading.table).replicas[0].is_some());
    spreading.task_ended(0);
    assert!(lock(&spreading.table).replicas[0].is_none());
    assert_eq!(Arc::strong_count(&world.siblings), 1);
}

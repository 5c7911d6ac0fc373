use super::kernel::Doing;
use super::*;
use thalweg_chance::Chance;

const STABLE_NS: u64 = 1_000;

fn task(state: State, still_ns: u64) -> TaskSeen {
    TaskSeen { state, worker: Some(0), still_ns, ..TaskSeen::default() }
}

fn stream(id: u64, writer: u64, reader: u64, held: u64) -> StreamSeen {
    StreamSeen { id, reader, writer, held, capacity: 4, still_ns: 5_000 }
}

fn seen(tasks: &[(u64, TaskSeen)], streams: &[StreamSeen]) -> Seen {
    Seen { tasks: tasks.iter().copied().collect(), streams: streams.to_vec() }
}

fn stills(seen: &Seen) -> Vec<(u64, Still, bool)> {
    judge(seen, STABLE_NS).into_iter().map(|(task, of)| (task, of.still, of.is_alarm)).collect()
}

#[test]
fn the_task_that_each_task_waits_for_and_where_it_leads() {
    let running = TaskSeen {
        thread: ThreadSeen { doing: Some(Doing::Runs), ran: 0.9, delayed: 0.1 },
        ..task(State::Running, 5_000)
    };
    let of = seen(
        &[
            (1, task(State::BlockedOutput, 4_000)),
            (2, task(State::BlockedOutput, 4_000)),
            (3, running),
            (4, task(State::BlockedInput, 4_000)),
        ],
        &[stream(10, 1, 2, 4), stream(11, 2, 3, 4), stream(12, 3, 4, 0)],
    );
    let judged = judge(&of, STABLE_NS);
    let waits = |task: u64| {
        let of = &judged[&task];
        (of.still, of.waits_for, of.stream, of.leads_to)
    };
    assert_eq!(waits(1), (Still::Full, Some(2), Some(10), Some(3)));
    assert_eq!(waits(2), (Still::Full, Some(3), Some(11), Some(3)));
    assert_eq!(waits(4), (Still::Empty, Some(3), Some(12), Some(3)));
    assert_eq!((judged[&3].still, judged[&3].is_alarm), (Still::Running, true));
    assert!([1, 2, 4].iter().all(|task| !judged[task].is_alarm));
}

#[test]
fn a_box_that_is_slow_by_its_own_record_does_not_stand_still() {
    let of = |still_ns, usual_ns, doing, ran, delayed| {
        let thread = ThreadSeen { doing: Some(doing), ran, delayed };
        let task = TaskSeen { usual_ns, thread, ..task(State::Running, still_ns) };
        stills(&seen(&[(1, task)], &[])).first().map(|(_, still, _)| *still)
    };
    let asleep = Doing::Sleeps(SleepsFor::Sleep);
    assert_eq!(of(999, None, Doing::Runs, 1.0, 0.0), None);
    assert_eq!(of(1_000, None, Doing::Runs, 1.0, 0.0), Some(Still::Running));
    assert_eq!(of(9_000, Some(5_000.0), Doing::Runs, 1.0, 0.0), None);
    assert_eq!(of(9_000, Some(5_000.0), asleep, 0.0, 0.0), None);
    assert_eq!(of(10_000, Some(5_000.0), asleep, 0.0, 0.0), Some(Still::Asleep));
    assert_eq!(of(10_000, Some(5_000.0), Doing::Runs, 0.02, 0.97), Some(Still::Kept));
    // A thread without a processor is reported although its box may run for longer, because the recorded
    // times may include earlier waits for a processor.
    assert_eq!(of(1_000, Some(5_000.0), Doing::Runs, 0.02, 0.97), Some(Still::Kept));
    // A thread that has half of a processor does not count as kept from it.
    assert_eq!(of(10_000, Some(5_000.0), Doing::Runs, 0.5, 0.5), Some(Still::Running));
    assert_eq!(of(10_000, Some(5_000.0), Doing::Stopped, 0.0, 0.0), Some(Still::Stopped));
}

#[test]
fn a_task_of_a_worker_with_nothing_to_do_is_not_ready() {
    let of = |worker_idles, held| {
        let task = TaskSeen { worker_idles, ..task(State::Ready, 5_000) };
        stills(&seen(&[(1, task)], &[stream(9, 1, 2, held), stream(8, 3, 1, 0)])).first().map(|of| of.1)
    };
    assert_eq!(of(true, 4), Some(Still::Full));
    assert_eq!(of(true, 3), Some(Still::Empty));
    assert_eq!(of(false, 4), Some(Still::Ready));
}

#[test]
fn sources_and_sinks_wait_for_what_is_outside() {
    let of = |doing, streams: &[StreamSeen]| {
        let thread = ThreadSeen { doing: Some(doing), ran: 0.0, delayed: 0.0 };
        let task = TaskSeen { worker: None, thread, ..task(State::Running, 5_000) };
        stills(&seen(&[(1, task)], streams)).first().map(|(_, still, is_alarm)| (*still, *is_alarm))
    };
    let (reads, writes) = (Doing::Sleeps(SleepsFor::Read), Doing::Sleeps(SleepsFor::Write));
    assert_eq!(of(reads, &[stream(9, 1, 2, 0)]), Some((Still::Empty, false)));
    assert_eq!(of(writes, &[stream(9, 2, 1, 0)]), Some((Still::Full, false)));
    // A box inside the network that sleeps in a read for so long is asleep in its own code and does not wait
    // for its streams.
    assert_eq!(of(reads, &[stream(9, 2, 1, 0), stream(8, 1, 3, 0)]), Some((Still::Asleep, true)));
}

#[test]
fn a_thread_that_something_has_just_come_for_is_not_asleep_in_its_box() {
    let of = |held, come_ns| {
        let thread = ThreadSeen { doing: Some(Doing::Sleeps(SleepsFor::Lock)), ran: 0.0, delayed: 0.0 };
        let task = TaskSeen { worker: None, thread, ..task(State::Ready, 5_000) };
        let come = |writer, reader, held| StreamSeen { still_ns: come_ns, ..stream(9, writer, reader, held) };
        let stills = |stream| stills(&seen(&[(1, task)], &[stream])).first().map(|(_, still, _)| *still);
        (stills(come(2, 1, held)), stills(come(1, 2, held)))
    };
    // A new message has come for the sink, and new room for the source, so both are about to wake and make
    // progress.
    assert_eq!(of(1, 10), (None, None));
    // Message and room have been available for long, so the thread is asleep for a reason in its own box.
    assert_eq!(of(1, 5_000), (Some(Still::Asleep), Some(Still::Asleep)));
    assert_eq!(of(0, 10).0, Some(Still::Empty));
    assert_eq!(of(4, 10).1, Some(Still::Full));
}

/// Compares the deadlocks found in random networks of waiting tasks with those that a search by brute force
/// finds.
#[test]
fn deadlocks_are_what_no_order_of_steps_resolves() {
    let mut chance = Chance::new(7);
    let mut dead_seen = 0;
    for _ in 0..3_000 {
        let count = 2 + chance.below(5);
        let tasks: Vec<(u64, TaskSeen)> = (1..=count)
            .map(|id| {
                let state = match chance.below(5) {
                    0 => State::Ready,
                    1 | 2 => State::BlockedInput,
                    _ => State::BlockedOutput,
                };
                (id, task(state, 5_000))
            })
            .collect();
        let streams: Vec<StreamSeen> = (0..chance.below(9))
            .map(|id| stream(100 + id, 1 + chance.below(count), 1 + chance.below(count), 4 * chance.below(2)))
            .filter(|stream| stream.reader != stream.writer)
            .collect();
        let of = seen(&tasks, &streams);
        // A search by brute force: a task that is not blocked continues; a blocked task continues as soon as
        // any task that could unblock it does.
        let mut goes_on: Vec<u64> =
            tasks.iter().filter(|(_, task)| task.state == State::Ready).map(|(id, _)| *id).collect();
        let helps = |id: u64, state: State, other: u64| {
            streams.iter().any(|stream| match state {
                State::BlockedInput => stream.reader == id && stream.writer == other && stream.held == 0,
                _ => stream.writer == id && stream.reader == other && stream.held == 4,
            })
        };
        for _ in 0..count {
            for (id, task) in &tasks {
                let alone = (1..=count).all(|other| !helps(*id, task.state, other));
                if !goes_on.contains(id)
                    && (alone || goes_on.iter().any(|other| helps(*id, task.state, *other)))
                {
                    goes_on.push(*id);
                }
            }
        }
        let full = |id: &u64| of.tasks[id].state == State::BlockedOutput;
        let stuck: Vec<u64> = (1..=count).filter(|id| !goes_on.contains(id)).collect();
        let reported: Vec<u64> = stills(&of)
            .into_iter()
            .filter(|(_, still, _)| *still == Still::Deadlock)
            .map(|(task, ..)| task)
            .collect();
        assert!(
            reported.iter().all(|task| stuck.contains(task)),
            "{of:?}: {reported:?}, stuck are {stuck:?}"
        );
        assert!(stuck.iter().filter(|id| full(id)).all(|id| reported.contains(id)), "{of:?}: {reported:?}");
        dead_seen += usize::from(!reported.is_empty());
    }
    assert!(dead_seen > 100, "{dead_seen}");
}

#[test]
fn words_name_what_is_needed() {
    let space = std::env::temp_dir().join(format!("thalweg-heartbeat-words-{}", std::process::id()));
    let options = thalweg_space::SpaceOptions { path: Some(space.clone()), ..Default::default() };
    let made = thalweg_space::Space::create(options).unwrap();
    let watched = Watched::new("net".into(), (7, 7), space.clone(), SpaceReader::open(&space).unwrap());
    drop(made);
    let of = |still| watched.nameless(still, "net/box".into());
    let asleep = Standing {
        task: Some(3),
        for_ns: 5_200_000_000,
        sleeps_for: Some(SleepsFor::Lock),
        message: Some(17),
        usual_ns: Some(12e6),
        ..of(Still::Asleep)
    };
    assert_eq!(
        asleep.text(),
        "is asleep in its box on message 17 for 5.2 s (waits for a lock, or until another thread wakes it): \
         99.9 % of its messages take up to 12.0 ms"
    );
    let full = Standing {
        waits_for: Some("net/b".into()),
        stream: Some(4),
        leads_to: Some("net/c".into()),
        ..of(Still::Full)
    };
    assert_eq!(full.text(), "has waited 0.0 µs for room in stream 4 of net/b, which leads to net/c");
    let _ = std::fs::remove_dir_all(space);
}

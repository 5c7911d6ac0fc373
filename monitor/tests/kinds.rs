//! Tests that the monitor reads kinds of events as other versions may declare them: with more or fewer
//! fields, other sizes, other choices, and invalid values.

use thalweg_monitor::events::{Deadlocked, TaskDispatched, TaskReady, TaskReadyCause, WorkerStarted};
use thalweg_monitor::{Batch, Follower, Moment, Monitor, Observation, Report, What};
use thalweg_space::reader::SpaceFeed;
use thalweg_space::{ElementOptions, Kind, KindEnum, Space, SpaceOptions};

/// Collects the events of the runtime.
#[derive(Default)]
struct All(Vec<Observation>, Vec<String>);

impl Monitor for All {
    fn name(&self) -> &str {
        "all"
    }

    fn wants(&self) -> &[&str] {
        &["exec.*"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            if let What::Runtime(observation) = item.what {
                self.0.push(observation);
                if let Observation::TaskFailed(failed) = observation {
                    self.1.push(batch.text(failed.message).to_owned());
                }
            }
        }
    }

    fn publish(&mut self, _: &Moment<'_>, _: &mut Report) {}
}

/// The observations that the monitor makes of the events that `write` writes, the texts of failures, and the
/// notes.
fn read(name: &str, write: impl FnOnce(&Space)) -> (Vec<Observation>, Vec<String>, Vec<String>) {
    let path = std::env::temp_dir().join(format!("thalweg-kinds-{name}-{}", std::process::id()));
    let element = ElementOptions { block_count: 256, ..ElementOptions::default() };
    let options =
        SpaceOptions { name: name.into(), path: Some(path.clone()), element, ..SpaceOptions::default() };
    let space = Space::create(options).unwrap();
    write(&space);
    let mut all = All::default();
    let mut follower =
        Follower::with(SpaceFeed::open(&path).unwrap(), 1, 0, vec![Box::new(&mut all)]).unwrap();
    follower.poll();
    let notes = follower.finish().unwrap().notes.into_iter().map(|note| note.text).collect();
    drop(space);
    std::fs::remove_dir_all(path).unwrap();
    (all.0, all.1, notes)
}

fn write<K: Kind>(space: &Space, event: &K) {
    let mut writer = space.writer("test").unwrap();
    let kind = writer.declare().unwrap();
    writer.emit(kind, event);
}

#[test]
fn fields_are_found_by_name_whatever_their_place_and_size() {
    #[derive(Kind)]
    #[kind(name = "exec.task_dispatched")]
    struct Later {
        added: u16,
        writes: u64,
        worker: u8,
        duration_ticks: u32,
        task: u16,
        reads: i8,
    }
    let event = Later { added: 9, writes: 1 << 40, worker: 3, duration_ticks: 77, task: 5, reads: 6 };
    let (events, ..) = read("later", |space| write(space, &event));
    let expected = TaskDispatched { task: 5, duration_ticks: 77, worker: 3, reads: 6, writes: 1 << 40 };
    assert_eq!(events, [expected.into()]);
}

#[test]
fn a_field_that_came_later_has_the_value_its_description_gives() {
    #[derive(Kind)]
    #[kind(name = "exec.worker_started")]
    struct Former {
        worker: u32,
    }
    let (events, ..) = read("former", |space| write(space, &Former { worker: 2 }));
    assert_eq!(events, [WorkerStarted { worker: 2, core: -1, node: -1, clock_reading_ps: 0 }.into()]);
}

#[test]
fn a_kind_without_a_field_it_has_to_have_is_noted_and_left_out() {
    #[derive(Kind)]
    #[kind(name = "exec.deadlocked")]
    struct Strange {
        task: u64,
        stream: u64,
    }
    let (events, _, notes) = read("strange", |space| {
        write(space, &Strange { task: 1, stream: 2 });
        write(space, &TaskFailed { task: 3, message: "too late" });
    });
    assert!(!events.iter().any(|event| matches!(event, Observation::Deadlocked(Deadlocked { .. }))));
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(notes.iter().any(|note| note.contains("exec.deadlocked") && note.contains("peer")), "{notes:?}");
}

#[derive(Kind)]
#[kind(name = "exec.task_failed")]
struct TaskFailed<'a> {
    task: u64,
    message: &'a str,
}

#[derive(Kind)]
#[kind(name = "exec.brief_task_ended")]
struct Brief {
    task: u64,
    busy_ticks: u32,
    input_wait_ticks: u32,
    output_wait_ticks: u32,
    ready_ticks: u32,
    dispatches: u16,
    reads: u16,
    writes: u16,
    passed: u16,
    stream: u64,
    other: i32,
    other_passed: u16,
}

#[derive(Kind)]
#[kind(name = "exec.task_ended")]
struct AtLength {
    task: u64,
    busy_ticks: u64,
    input_wait_ticks: u64,
    output_wait_ticks: u64,
    ready_ticks: u64,
    dispatches: u64,
    reads: u64,
    writes: u64,
    failed: bool,
    panicked: bool,
}

#[derive(Kind)]
#[kind(name = "exec.stream_closed")]
struct Closed {
    stream: u64,
    written: u64,
    read: u64,
    dropped: u64,
}

#[test]
fn a_brief_end_records_what_the_events_at_length_record() {
    let ends = [
        (0, 0, 0, 0),
        (11, 3, 0, 0),
        (11, 3, 5, 4),
        (11, 3, -7, 4),
        (1 << 40, u16::MAX, i32::MIN, u16::MAX),
        (9, 0, i32::MAX, 0),
    ];
    for (stream, passed, other, other_passed) in ends {
        let (brief, ..) = read("brief", |space| {
            let (task, dispatches, reads, writes) = (77, 2, 3, u16::MAX);
            let (busy_ticks, input_wait_ticks, output_wait_ticks, ready_ticks) = (1, u32::MAX, 3, 4);
            write(
                space,
                &Brief {
                    task,
                    busy_ticks,
                    input_wait_ticks,
                    output_wait_ticks,
                    ready_ticks,
                    dispatches,
                    reads,
                    writes,
                    passed,
                    stream,
                    other,
                    other_passed,
                },
            );
        });
        let (at_length, ..) = read("at-length", |space| {
            let closed = |stream: u64, passed: u16| Closed {
                stream,
                written: u64::from(passed),
                read: u64::from(passed),
                dropped: 0,
            };
            if stream != 0 {
                write(space, &closed(stream, passed));
            }
            if other != 0 {
                write(space, &closed((stream as i64 + i64::from(other)) as u64, other_passed));
            }
            let (busy_ticks, input_wait_ticks, output_wait_ticks) = (1, (1 << 32) - 1, 3);
            let (reads, writes, failed, panicked) = (3, 65_535, false, false);
            let (task, dispatches, ready_ticks) = (77, 2, 4);
            write(
                space,
                &AtLength {
                    task,
                    busy_ticks,
                    input_wait_ticks,
                    output_wait_ticks,
                    ready_ticks,
                    dispatches,
                    reads,
                    writes,
                    failed,
                    panicked,
                },
            );
        });
        assert_eq!(brief, at_length, "stream {stream}, another {other}");
    }
}

#[test]
fn texts_come_with_the_batch() {
    let (_, texts, _) = read("texts", |space| {
        for message in ["no such file", "", "größer"] {
            write(space, &TaskFailed { task: 1, message });
        }
    });
    assert_eq!(texts, ["no such file", "", "größer"]);
}

/// Each batch of events that is read ahead of the analysis has its own texts.
#[test]
fn texts_come_with_their_events_however_many_there_are() {
    let message = |n: u64| format!("failure {n}");
    let (events, texts, _) = read("many-texts", |space| {
        let mut writer = space.writer("test").unwrap();
        let kind = writer.declare().unwrap();
        (0..100_000).for_each(|n| writer.emit(kind, &TaskFailed { task: n, message: &message(n) }));
    });
    assert_eq!(events.len(), 100_000);
    assert!(texts.into_iter().zip(0..).all(|(text, n)| text == message(n)));
}

#[test]
fn a_choice_is_known_by_its_word() {
    #[derive(Clone, Copy, KindEnum)]
    #[repr(u8)]
    enum Cause {
        End = 0,
        Room = 1,
        Magic = 7,
    }
    #[derive(Kind)]
    #[kind(name = "exec.task_ready")]
    struct Other {
        task: u64,
        by_stream: u64,
        cause: Cause,
    }
    #[derive(Kind)]
    #[kind(name = "exec.task_ready")]
    struct Plain {
        task: u64,
        cause: &'static str,
    }
    let (events, ..) = read("choices", |space| {
        for (task, cause) in [(1, Cause::End), (2, Cause::Room), (3, Cause::Magic)] {
            write(space, &Other { task, by_stream: 0, cause });
        }
        write(space, &Plain { task: 4, cause: "ten letter" });
    });
    let causes: Vec<_> = events
        .iter()
        .map(|event| match event {
            Observation::TaskReady(TaskReady { task, cause, .. }) => (*task, *cause),
            other => panic!("{other:?}"),
        })
        .collect();
    let unknown = TaskReadyCause::Unknown;
    assert_eq!(causes, [(1, TaskReadyCause::End), (2, TaskReadyCause::Room), (3, unknown), (4, unknown)]);
}

/// Collects the durations of dispatches.
#[derive(Default)]
struct Dispatches(Vec<u64>);

impl Monitor for Dispatches {
    fn name(&self) -> &str {
        "dispatches"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            if let What::Dispatch(dispatch) = item.what {
                self.0.push(dispatch.busy());
            }
        }
    }

    fn publish(&mut self, _: &Moment<'_>, _: &mut Report) {}
}

#[test]
fn dispatches_behind_an_event_of_a_kind_that_nothing_describes_are_read() {
    #[derive(Clone, Copy, KindEnum)]
    #[repr(u8)]
    enum Outcome {
        BlockedInput = 0,
    }
    #[derive(Clone, Copy, KindEnum)]
    #[repr(u8)]
    enum Which {
        Input = 1,
    }
    #[derive(Clone, Copy, KindEnum)]
    #[repr(u8)]
    enum Cause {
        Input = 1,
    }
    #[derive(Clone, Copy, KindEnum)]
    #[repr(u8)]
    enum Descent {
        Unrecorded = 0,
    }
    #[derive(Kind)]
    #[kind(name = "exec.dispatch_base")]
    struct Base {
        number: u32,
        worker: u32,
        task: u64,
        input: u64,
        first_read: u64,
        output: u64,
        first_written: u64,
    }
    #[derive(Kind)]
    #[kind(name = "exec.dispatch")]
    struct Dispatch {
        duration_ticks: u32,
        ready_ticks: u32,
        base_number: u32,
        reads: u16,
        writes: u16,
        outcome: Outcome,
        waits_for: Which,
        cause: Cause,
        ready_by: Which,
        descent: Descent,
        parent_offset: i16,
    }
    #[derive(Kind)]
    #[kind(name = "test.other")]
    struct Other {
        number: u64,
    }
    const NUMBER: u64 = 0x1234_5678_9abc_def0;
    let path = std::env::temp_dir().join(format!("thalweg-kinds-undescribed-{}", std::process::id()));
    let options = SpaceOptions { path: Some(path.clone()), ..SpaceOptions::default() };
    let space = Space::create(options).unwrap();
    let mut writer = space.writer("test").unwrap();
    let (base, dispatch, other) =
        (writer.declare().unwrap(), writer.declare().unwrap(), writer.declare().unwrap());
    let begin = writer.clock().now();
    let mut now = begin;
    let mut ran = |writer: &mut thalweg_space::Writer, duration_ticks| {
        now += 1000;
        writer.emit_at(
            now,
            dispatch,
            &Dispatch {
                duration_ticks,
                ready_ticks: 0,
                base_number: 0,
                reads: 1,
                writes: 1,
                outcome: Outcome::BlockedInput,
                waits_for: Which::Input,
                cause: Cause::Input,
                ready_by: Which::Input,
                descent: Descent::Unrecorded,
                parent_offset: 0,
            },
        );
    };
    let stated = Base { number: 0, worker: 0, task: 5, input: 1, first_read: 0, output: 2, first_written: 0 };
    writer.emit_at(begin, base, &stated);
    ran(&mut writer, 71);
    writer.emit_at(begin + 1500, other, &Other { number: NUMBER });
    ran(&mut writer, 72);
    drop(writer);
    // The description of the third kind is removed from the catalog, so that its number stands for no kind.
    let element = path.join("0001.element");
    let bytes = std::fs::read(&element).unwrap();
    let at = bytes.chunks(8).position(|word| word == NUMBER.to_le_bytes()).unwrap() * 8 - 8;
    let file = std::fs::OpenOptions::new().write(true).open(&element).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &0x7000_u16.to_le_bytes(), at as u64 + 4).unwrap();
    let mut seen = Dispatches::default();
    let mut follower =
        Follower::with(SpaceFeed::open(&path).unwrap(), 1, 0, vec![Box::new(&mut seen)]).unwrap();
    follower.poll();
    let window = follower.finish().unwrap().window;
    drop(space);
    std::fs::remove_dir_all(path).unwrap();
    assert_eq!((window.malformed, window.lost), (0, 1));
    assert_eq!(seen.0, [71, 72]);
}

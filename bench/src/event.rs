//! Group `event`: the cost of one event, compared with a bare reading of the clock and with other tracers.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal, repeated};
use crate::{follow, lttng, tracers};
use std::hint::black_box;
use std::sync::{Barrier, LazyLock};
use std::time::Duration;
use thalweg_space::reader::{LatestEvents, SpaceReader};
use thalweg_space::{
    Clock, Collector, CollectorOptions, ElementOptions, Kind, KindId, NameRef, PathCollector, Setting,
    SettingSpec, Space, SpaceOptions, Writer,
};

/// An event with one argument: 16 bytes in all.
#[derive(Kind)]
#[kind(name = "bench.one")]
pub(crate) struct One {
    /// Any number.
    pub(crate) number: u64,
}

/// A span begins.
#[derive(Kind)]
#[kind(name = "bench.entered")]
struct Entered {
    /// The span's site.
    site: u64,
}

/// A span ends.
#[derive(Kind)]
#[kind(name = "bench.left")]
struct Left;

/// A kind with fields of several sizes, by derive.
#[derive(Kind)]
#[kind(name = "bench.mixed")]
struct Mixed {
    /// Any number.
    number: u64,
    /// Another number.
    small: u32,
    /// Another number.
    tiny: u16,
    /// A flag.
    flag: bool,
}

/// The kind of [`Mixed`], with its words packed by hand.
struct ByHand {
    number: u64,
    small: u32,
    tiny: u16,
    flag: bool,
}

impl Kind for ByHand {
    const NAME: &'static str = "bench.by_hand";
    const DOC: &'static str = Mixed::DOC;
    const FIELDS: &'static [thalweg_space::kind::FieldSpec] = Mixed::FIELDS;
    const WORDS: usize = 2;
    type Words = [u64; 2];
    #[inline(always)]
    fn words(&self, _: u32) -> [u64; 2] {
        let rest = u64::from(self.small) | u64::from(self.tiny) << 32 | u64::from(self.flag) << 48;
        [self.number, rest]
    }
}

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = vec![
        with_time(),
        two_writers(),
        same_time(),
        same_time_in_small_ring(),
        switched_off(),
        span(),
        by_derive(),
        path_collector(),
        latest_of_many(),
    ];
    cases.extend(follow::cases());
    cases
}

fn with_time() -> Case<'static> {
    Case {
        group: "event",
        name: "with its own time".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: emitting("emit", |writer, kind, number| writer.emit(kind, &One { number })),
        rivals: vec![
            tracers::quanta_clock(),
            tracers::fastrace_span(),
            tracers::tracing_event(),
            tracers::tracing_fmt(),
            tracers::tracing_chrome(),
            lttng::tracepoint(),
        ],
        limit: Some(bare_clock()),
        goal: Goal::RatioAtMost(1.05),
    }
}

/// Two threads at once, each with a writer of its own.
fn two_writers() -> Case<'static> {
    let mut writers: Vec<(Writer, KindId<One>)> = Vec::new();
    let ours = Contestant::nanoseconds("emit", "", 1, move |count| {
        while writers.len() < 2 {
            let mut writer = space()?.writer("bench").map_err(|error| error.to_string())?;
            let kind = writer.declare().map_err(|error| error.to_string())?;
            writers.push((writer, kind));
        }
        let works =
            writers.iter_mut().map(|(writer, kind)| move |number| writer.emit(*kind, &One { number }));
        Ok(at_once(count, works.collect()))
    });
    let limit = Contestant::nanoseconds("bare clock read", "", 1, |count| {
        let clock = Clock::new();
        Ok(at_once(count, vec![|_| _ = black_box(clock.now()); 2]))
    });
    Case {
        group: "event",
        name: "with its own time, two writers".into(),
        params: vec![("threads", "2".into())],
        unit: "ns",
        ours,
        rivals: Vec::new(),
        limit: Some(limit),
        goal: Goal::RatioAtMost(1.05),
    }
}

/// Runs each of `works` `count` times in a thread of its own; returns the time of the slowest.
fn at_once(count: u64, works: Vec<impl FnMut(u64) + Send>) -> Duration {
    let barrier = Barrier::new(works.len());
    on_cores(works.len(), || {
        std::thread::scope(|scope| {
            let run = |work| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    repeated(count, work)
                })
            };
            let threads: Vec<_> = works.into_iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).max().unwrap_or_default()
        })
    })
}

/// A span: its start and its end, each with its time.
fn span() -> Case<'static> {
    let mut opened: Option<(Writer, KindId<Entered>, KindId<Left>)> = None;
    let ours = Contestant::nanoseconds("two events", "", 1, move |count| {
        let (writer, entered, left) = match &mut opened {
            Some(opened) => opened,
            none => {
                let mut writer = space()?.writer("bench").map_err(|error| error.to_string())?;
                let entered = writer.declare().map_err(|error| error.to_string())?;
                let left = writer.declare().map_err(|error| error.to_string())?;
                none.insert((writer, entered, left))
            }
        };
        Ok(pinned(count, |site| {
            writer.emit(*entered, &Entered { site });
            writer.emit(*left, &Left);
        }))
    });
    Case {
        group: "event",
        name: "a span".into(),
        params: vec![("clock reads", "2".into())],
        unit: "ns",
        ours,
        rivals: vec![tracers::fastrace_span(), tracers::tracy_zone()],
        limit: Some(bare_clock()),
        goal: Goal::RatioAtMost(2.1),
    }
}

fn same_time() -> Case<'static> {
    Case {
        group: "event",
        name: "with the time of the one before".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: emitting("emit_same_time", |writer, kind, number| writer.emit_same_time(kind, &One { number })),
        rivals: Vec::new(),
        limit: Some(bare_store()),
        goal: Goal::AtMost(1.5),
    }
}

/// Events with equal times, in an element that fits into a core's nearest caches.
fn same_time_in_small_ring() -> Case<'static> {
    let element = ElementOptions { block_bytes: 16 << 10, block_count: 2, ..ElementOptions::default() };
    let open = move || space()?.writer_with("bench", element).map_err(|error| error.to_string());
    Case {
        group: "event",
        name: "with the time of the one before, in an element of 32 KiB".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: emitting_into("emit_same_time", open, |writer, kind, number| {
            writer.emit_same_time(kind, &One { number });
        }),
        rivals: Vec::new(),
        limit: Some(bare_store()),
        goal: Goal::AtMost(1.5),
    }
}

/// The cost of a branch that is off in a loop with some work: the work alone is timed as well and subtracted.
fn switched_off() -> Case<'static> {
    Case {
        group: "event",
        name: "a probe switched off".into(),
        params: Vec::new(),
        unit: "ns",
        ours: our_probe(),
        rivals: vec![
            beyond_work("fastrace span, no parent", env!("VERSION_fastrace"), |number| {
                drop(black_box(fastrace::local::LocalSpan::enter_with_local_parent("bench")));
                black_box(number);
            }),
            beyond_work("tracing, no subscriber", env!("VERSION_tracing"), |number| {
                tracing::trace!(number);
            }),
        ],
        limit: None,
        goal: Goal::AtMost(0.15),
    }
}

fn by_derive() -> Case<'static> {
    Case {
        group: "event",
        name: "user kind by derive, against by hand".into(),
        params: vec![("arguments", "4".into())],
        unit: "ns",
        ours: emitting("derive", |writer, kind, number| {
            let event = Mixed { number, small: number as u32, tiny: number as u16, flag: number & 1 == 0 };
            writer.emit_same_time(kind, &event);
        }),
        rivals: Vec::new(),
        limit: Some(emitting("by hand", |writer, kind, number| {
            let event = ByHand { number, small: number as u32, tiny: number as u16, flag: number & 1 == 0 };
            writer.emit_same_time(kind, &event);
        })),
        goal: Goal::RatioAtMost(1.02),
    }
}

/// The space of all cases, in the default place of spaces.
static SPACE: LazyLock<Result<Space, String>> = LazyLock::new(|| {
    let options = SpaceOptions { name: "thalweg-bench".into(), ..SpaceOptions::default() };
    Space::create(options).map_err(|error| error.to_string())
});

fn space() -> Result<&'static Space, String> {
    SPACE.as_ref().map_err(String::clone)
}

/// Removes the space of the benchmarks, if it was made.
pub(crate) fn clean() {
    for space in [LazyLock::get(&SPACE), LazyLock::get(&BEATS)].into_iter().flatten().flatten() {
        std::fs::remove_dir_all(space.path()).ok();
    }
}

/// Emits events of kind `K` into an element of its own.
fn emitting<K: Kind + 'static>(
    name: &'static str,
    emit: impl Fn(&mut Writer, KindId<K>, u64) + 'static,
) -> Contestant<'static> {
    emitting_into(name, || space()?.writer("bench").map_err(|error| error.to_string()), emit)
}

/// Emits events of kind `K` with the writer that `open` returns.
pub(crate) fn emitting_into<K: Kind + 'static>(
    name: &'static str,
    mut open: impl FnMut() -> Result<Writer, String> + 'static,
    emit: impl Fn(&mut Writer, KindId<K>, u64) + 'static,
) -> Contestant<'static> {
    let mut writer: Option<(Writer, KindId<K>)> = None;
    Contestant::nanoseconds(name, "", 1, move |count| {
        let (writer, kind) = match &mut writer {
            Some(writer) => writer,
            none => {
                let mut opened = open()?;
                let kind = opened.declare().map_err(|error| error.to_string())?;
                none.insert((opened, kind))
            }
        };
        Ok(pinned(count, |number| emit(writer, *kind, number)))
    })
}

pub(crate) fn bare_clock() -> Contestant<'static> {
    let clock = Clock::new();
    Contestant::nanoseconds("bare clock read", "", 1, move |count| {
        let mut sum = 0;
        let took = pinned(count, |_| sum ^= clock.now());
        black_box(sum);
        Ok(took)
    })
}

/// Stores two words and the position, which is the minimum for an event without a time.
fn bare_store() -> Contestant<'static> {
    let mut ring = vec![0_u64; 1 << 17];
    Contestant::nanoseconds("two words and a position stored", "", 1, move |count| {
        let mut head = 0_usize;
        let took = pinned(count, |number| {
            let at = head & ((1 << 17) - 2);
            ring[at] = 0x0002_0001_0000_0000;
            ring[at + 1] = number;
            head += 2;
            black_box(&head);
        });
        black_box(&ring);
        Ok(took)
    })
}

/// A setting that is off.
fn probe_setting() -> Result<Setting, String> {
    let doc = "The probe of the benchmarks";
    let spec = SettingSpec { name: "bench.probe", doc, max: 1, ..SettingSpec::PLAIN };
    space()?.setting(spec).map_err(|error| error.to_string())
}

/// Thalweg's probe behind a setting.
fn our_probe() -> Contestant<'static> {
    let name = "setting.load()";
    match probe_setting() {
        Err(why) => Contestant::missing(name, "", why),
        Ok(on) => beyond_work(name, "", move |number| {
            if on.load() != 0 {
                black_box(number);
            }
        }),
    }
}

/// The time that `probe` adds to a loop with some work: the median difference of many short turns with and
/// without the probe.
fn beyond_work(
    name: &'static str,
    version: &'static str,
    mut probe: impl FnMut(u64) + 'static,
) -> Contestant<'static> {
    const COUNT: u64 = 100_000;
    const TURNS: usize = 21;
    Contestant::new(name, version, move || {
        let mut state = 1;
        let mut differences: Vec<f64> = on_cores(1, || {
            let turn = |_| {
                let without = repeated(COUNT, |number| work(&mut state, number)).as_secs_f64();
                let with = repeated(COUNT, |number| {
                    work(&mut state, number);
                    probe(number);
                });
                (with.as_secs_f64() - without) * 1e9 / COUNT as f64
            };
            (0..TURNS).map(turn).collect()
        });
        black_box(state);
        differences.sort_by(f64::total_cmp);
        Ok(differences[TURNS / 2])
    })
}

/// Some nanoseconds of dependent computation, in place of the code around a probe.
#[inline(always)]
fn work(state: &mut u64, number: u64) {
    for _ in 0..4 {
        *state = (*state ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    }
}

fn pinned(count: u64, work: impl FnMut(u64)) -> Duration {
    on_cores(1, || repeated(count, work))
}

/// EventSpace's event: operation, parameters, start and completion time.
fn path_collector() -> Case<'static> {
    let mut collector: Option<PathCollector> = None;
    Case {
        group: "event",
        name: "an operation on a path".into(),
        params: vec![("clock reads", "2".into())],
        unit: "ns",
        ours: Contestant::nanoseconds("PathCollector", "", 1, move |count| {
            let path = match &mut collector {
                Some(path) => path,
                none => {
                    let made = PathCollector::new(space()?, "path", CollectorOptions::default());
                    none.insert(made.map_err(|error| error.to_string())?)
                }
            };
            Ok(pinned(count, |number| {
                let started = path.start();
                path.complete(started, NameRef(1), number, 4096);
            }))
        }),
        rivals: Vec::new(),
        limit: Some(bare_clock()),
        goal: Goal::RatioAtMost(2.1),
    }
}

/// A reader looks at the heartbeats of as many elements as EventSpace had on a node.
fn latest_of_many() -> Case<'static> {
    const ELEMENTS: u64 = 2240;
    let mut opened: Option<(Vec<Collector<One>>, LatestEvents)> = None;
    Case {
        group: "event",
        name: "the latest event of an element".into(),
        params: vec![("elements", ELEMENTS.to_string())],
        unit: "ns",
        ours: Contestant::nanoseconds("LatestEvents::look", "", ELEMENTS, move |count| {
            let latest = match &mut opened {
                Some((_, latest)) => latest,
                none => &mut none.insert(heartbeats(ELEMENTS)?).1,
            };
            let mut sum = 0;
            let mut problem = None;
            let took = pinned(count, |_| match latest.look(&mut |event| sum ^= event.time) {
                Ok(found) if found as u64 >= ELEMENTS => {}
                Ok(found) => problem = Some(format!("{found} events")),
                Err(error) => problem = Some(error.to_string()),
            });
            black_box(sum);
            problem.map_or(Ok(took), Err)
        }),
        rivals: Vec::new(),
        limit: None,
        goal: Goal::AtMost(100.0),
    }
}

/// The space of the heartbeats' elements.
static BEATS: LazyLock<Result<Space, String>> = LazyLock::new(|| {
    let options = SpaceOptions { name: "thalweg-bench-beats".into(), ..SpaceOptions::default() };
    Space::create(options).map_err(|error| error.to_string())
});

/// Makes this many elements with one event each.
fn heartbeats(elements: u64) -> Result<(Vec<Collector<One>>, LatestEvents), String> {
    let space = BEATS.as_ref().map_err(String::clone)?;
    let mut collectors = Vec::new();
    for number in 0..elements {
        let collector = space.collector::<One>("beat", CollectorOptions::default());
        let mut collector = collector.map_err(|error| error.to_string())?;
        collector.record(&One { number });
        collectors.push(collector);
    }
    let reader = SpaceReader::open(space.path()).map_err(|error| error.to_string())?;
    Ok((collectors, reader.latest()))
}

//! Group `event`: what one event costs, against a bare clock read and against other tracers.

use crate::cores::on_cores;
use crate::measure::{Case, Contestant, Goal, repeated};
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;
use thalweg_space::reader::{LatestEvents, SpaceReader};
use thalweg_space::{
    Clock, Collector, CollectorOptions, Kind, KindId, NameRef, PathCollector, Setting, SettingSpec, Space,
    SpaceOptions, Writer,
};

/// One argument: 16 bytes in all.
#[derive(Kind)]
#[kind(name = "bench.one")]
struct One {
    /// Any number.
    number: u64,
}

/// A kind with fields of several sizes, by derive.
#[derive(Kind)]
#[kind(name = "bench.mixed")]
struct Mixed {
    /// Any number.
    number: u64,
    /// Another.
    small: u32,
    /// Another.
    tiny: u16,
    /// Yes or no.
    flag: bool,
}

/// The same kind with its words packed by hand.
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
    vec![with_time(), same_time(), switched_off(), by_derive(), path_collector(), latest_of_many()]
}

fn with_time() -> Case<'static> {
    Case {
        group: "event",
        name: "with its own time".into(),
        params: vec![("arguments", "1".into())],
        unit: "ns",
        ours: emitting("emit", |writer, kind, number| writer.emit(kind, &One { number })),
        rivals: vec![fastrace_span(), tracing_event()],
        limit: Some(bare_clock()),
        goal: Goal::RatioAtMost(1.05),
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

/// What the branch adds to a loop that does some work: the work alone is timed alongside and taken off.
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

/// The space of all cases, in the place where spaces are by default.
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
    let mut writer: Option<(Writer, KindId<K>)> = None;
    Contestant::nanoseconds(name, "", 1, move |count| {
        let (writer, kind) = match &mut writer {
            Some(writer) => writer,
            none => {
                let mut opened = space()?.writer("bench").map_err(|error| error.to_string())?;
                let kind = opened.declare().map_err(|error| error.to_string())?;
                none.insert((opened, kind))
            }
        };
        Ok(pinned(count, |number| emit(writer, *kind, number)))
    })
}

fn bare_clock() -> Contestant<'static> {
    let clock = Clock::new();
    Contestant::nanoseconds("bare clock read", "", 1, move |count| {
        let mut sum = 0;
        let took = pinned(count, |_| sum ^= clock.now());
        black_box(sum);
        Ok(took)
    })
}

/// Stores two words and the position, as an event without time must.
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

fn fastrace_span() -> Contestant<'static> {
    use fastrace::local::LocalSpan;
    use fastrace::prelude::{Span, SpanContext};
    let name = "fastrace span, not reported";
    Contestant::nanoseconds(name, env!("VERSION_fastrace"), 1, |count| {
        // A parent holds at most some ten thousand spans: they are collected by groups, under the clock too.
        let group = 1_000;
        Ok(on_cores(1, || {
            repeated(count / group, |_| {
                let root = Span::root("root", SpanContext::random());
                let guard = root.set_local_parent();
                for _ in 0..group {
                    drop(black_box(LocalSpan::enter_with_local_parent("bench")));
                }
                drop(guard);
                root.cancel();
            })
        }))
    })
}

fn tracing_event() -> Contestant<'static> {
    let name = "tracing, a subscriber that stores time and number";
    Contestant::nanoseconds(name, env!("VERSION_tracing"), 1, |count| {
        let dispatch = tracing::Dispatch::new(Storing(Clock::new()));
        Ok(tracing::dispatcher::with_default(&dispatch, || pinned(count, |number| tracing::trace!(number))))
    })
}

thread_local! {
    static STORED: RefCell<(usize, Vec<[u64; 2]>)> = RefCell::new((0, vec![[0; 2]; 1 << 16]));
}

/// The least that a subscriber of `tracing` can do to record what our event holds.
struct Storing(Clock);

impl tracing::Subscriber for Storing {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut number = Number(0);
        event.record(&mut number);
        STORED.with_borrow_mut(|(at, ring)| {
            ring[*at & 0xffff] = [self.0.now(), number.0];
            *at += 1;
        });
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

struct Number(u64);

impl tracing::field::Visit for Number {
    fn record_u64(&mut self, _: &tracing::field::Field, value: u64) {
        self.0 = value;
    }
    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

/// A setting that is off.
fn probe_setting() -> Result<Setting, String> {
    let spec = SettingSpec {
        name: "bench.probe",
        doc: "The probe of the benchmarks",
        unit: "",
        min: 0,
        max: 1,
        default: 0,
        choices: &[],
    };
    space()?.setting(spec).map_err(|error| error.to_string())
}

/// A probe of ours behind a setting.
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

/// What `probe` adds to a loop that does some work: many short turns with and without, the median of the differences.
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

/// Some nanoseconds of a dependent computation, as the code around a probe would do.
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
            let took = pinned(count, |_| {
                match latest.look(&mut |event| sum ^= event.time) {
                    Ok(found) if found as u64 >= ELEMENTS => {}
                    Ok(found) => problem = Some(format!("{found} events")),
                    Err(error) => problem = Some(error.to_string()),
                }
            });
            black_box(sum);
            problem.map_or(Ok(took), Err)
        }),
        rivals: Vec::new(),
        limit: None,
        goal: Goal::AtMost(100.0),
    }
}

/// The space of the heartbeats alone.
static BEATS: LazyLock<Result<Space, String>> = LazyLock::new(|| {
    let options = SpaceOptions { name: "thalweg-bench-beats".into(), ..SpaceOptions::default() };
    Space::create(options).map_err(|error| error.to_string())
});

/// So many elements with an event each.
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

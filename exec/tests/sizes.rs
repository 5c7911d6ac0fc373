//! Compares the sizes of messages in the space with the sizes that the messages were made with.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{
    Context, DeepSize, In, Mode, Options, Out, Ports, Runtime, Stop, StreamSpec, Task, TaskSpec,
};
use thalweg_space::reader::{Item, SpaceReader};
use thalweg_space::{ElementOptions, Policy, Space, SpaceOptions};

/// A message that reports the given size, whatever its real size is.
struct Blob(u64, #[expect(dead_code, reason = "so that it is no plain data")] Box<u8>);

fn blob(bytes: u64) -> Blob {
    Blob(bytes, Box::new(0))
}

impl DeepSize for Blob {
    fn deep_size(&self) -> u64 {
        self.0
    }
}

struct Place {
    space: Space,
    parent: std::path::PathBuf,
}

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = std::env::temp_dir().join(format!("thalweg-sizes-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&parent).unwrap();
        let element = ElementOptions { block_bytes: 64 << 10, block_count: 128, policy: Policy::Overwrite };
        let options = SpaceOptions { parent: Some(parent.clone()), element, ..SpaceOptions::default() };
        Place { space: Space::create(options).unwrap(), parent }
    }

    fn runtime(&self, mode: Mode, budget: u64) -> Runtime {
        let options = Options { workers: 2, mode, space: Some(self.space.clone()), ..Options::default() };
        let runtime = Runtime::new(options).unwrap();
        SpaceReader::open(self.space.path()).unwrap().set("exec.clock_budget", budget).unwrap();
        runtime
    }

    /// The sizes of each stream's messages in the live table.
    fn rows(&self) -> HashMap<u64, Sizes> {
        let rows = SpaceReader::open(self.space.path()).unwrap().live_rows().unwrap();
        let sizes = rows.iter().filter(|row| row.kind_name() == "exec.message_sizes");
        sizes.map(|row| (row.id, Sizes::from(|name: &str| row.cell(name).unwrap()))).collect()
    }

    /// The recorded sizes of closed streams' messages.
    fn told(&self) -> HashMap<u64, Sizes> {
        let mut fields: HashMap<u64, HashMap<String, u64>> = HashMap::new();
        let reader = SpaceReader::open(self.space.path()).unwrap();
        let taken = reader.events().poll(usize::MAX, &mut |item| {
            let Item::Event(event) = item else { return };
            if !event.kind.name.starts_with("exec.stream_size") {
                return;
            }
            let number = |name: &str| event.u64(event.kind.field(name).unwrap());
            let of = fields.entry(number("stream")).or_default();
            of.extend(event.kind.fields.iter().map(|field| (field.name.to_string(), number(&field.name))));
        });
        taken.unwrap();
        fields.iter().map(|(&stream, fields)| (stream, Sizes::from(|name: &str| fields[name]))).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.parent);
    }
}

/// The recorded sizes of a stream's messages, decoded as `kinds/exec.kinds` describes.
#[derive(Debug)]
struct Sizes {
    messages: u64,
    bytes: u64,
    least: u64,
    most: u64,
    taken: u64,
    /// The least size of each bucket, the end of its range, and the number of messages.
    buckets: Vec<(f64, f64, f64)>,
}

impl Sizes {
    fn from(cell: impl Fn(&str) -> u64) -> Sizes {
        let scale = cell("scale");
        let (c, b, u) = (scale & 15, scale >> 4 & 4095, scale >> 16 & 127);
        assert_eq!(scale >> 23 & 1, 0, "nobody moves buckets now");
        let bound = |k: u64| (((b + k) << c) as f64 / 32.0).exp2();
        let mut buckets = Vec::new();
        for k in 0..28 {
            let count = cell(&format!("counts_{}", k / 4)) >> (k % 4 * 16) & 0xffff;
            if count > 0 {
                buckets.push((bound(k), bound(k + 1), count as f64 * (u as f64).exp2()));
            }
        }
        let [messages, bytes, least, most] = ["messages", "bytes", "least", "most"].map(&cell);
        Sizes { messages, bytes, least, most, taken: scale >> 24, buckets }
    }

    /// Checks that every message was measured, and that each bucket has the right count, apart from rounding.
    fn check_all(&self, sizes: &[u64]) {
        let count = sizes.len() as u64;
        assert_eq!((self.taken, self.messages), (count, count));
        assert_eq!(self.bytes, sizes.iter().sum());
        assert_eq!((self.least, self.most), (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap()));
        let mut held = 0;
        for &(from, to, messages) in &self.buckets {
            // Bounds of buckets are no whole numbers, except for powers of two.
            let inside = |&&size: &&u64| (size.max(1) as f64) >= from && (size.max(1) as f64) < to;
            let expected = sizes.iter().filter(inside).count();
            held += expected;
            let off = (messages - expected as f64).abs();
            assert!(
                off <= 1.0 + 0.002 * count as f64,
                "{messages} messages of {from} to {to} B, not {expected}"
            );
        }
        assert!(held as f64 >= 0.998 * count as f64, "{held} of {count} are in a bucket: {self:?}");
    }

    /// The least and the largest possible value of the `q`-quantile.
    fn quantile(&self, q: f64) -> (f64, f64) {
        let all: f64 = self.buckets.iter().map(|bucket| bucket.2).sum();
        let mut counted = 0.0;
        let reached = |&&(.., messages): &&(f64, f64, f64)| {
            counted += messages;
            counted >= q * all - 1e-6
        };
        let &(from, to, _) = self.buckets.iter().find(reached).unwrap();
        (from, to)
    }
}

fn quantile(sizes: &[u64], q: f64) -> u64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted[((q * sizes.len() as f64).ceil() as usize).clamp(1, sizes.len()) - 1]
}

/// Writes messages of given sizes, each after some work.
struct Writes<T: Send + 'static> {
    sizes: std::vec::IntoIter<u64>,
    make: fn(u64) -> T,
    work: fn(u64),
    out: Out<T>,
    /// Whether the task may end.
    may_end: Arc<AtomicBool>,
}

impl<T: Send + 'static> Task for Writes<T> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.output(&mut self.out);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.out.room(cx) == 0 {
                return Stop::OutputFull;
            }
            match self.sizes.next() {
                Some(bytes) => {
                    (self.work)(bytes);
                    assert!(self.out.push(cx, (self.make)(bytes)).is_ok());
                }
                None if self.may_end.load(Ordering::Acquire) => return Stop::Ended,
                None => break,
            }
        }
        Stop::QuantumSpent
    }
}

struct Reads<T: Send + 'static>(In<T>);

impl<T: Send + 'static> Task for Reads<T> {
    fn attach(&mut self, ports: &mut Ports<'_>) {
        ports.input(&mut self.0);
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.0.pop(cx).is_none() {
                return if self.0.ended() { Stop::Ended } else { Stop::InputEmpty };
            }
        }
        Stop::QuantumSpent
    }
}

/// The functions that make a message of a size, and do the work before it.
type Making<T> = (fn(u64) -> T, fn(u64));

/// Two tasks with a stream between them.
fn pass<T: Send + 'static>(
    runtime: &Runtime,
    (out, input): (Out<T>, In<T>),
    sizes: &[u64],
    (make, work): Making<T>,
) -> (u64, Arc<AtomicBool>) {
    let (id, may_end) = (out.id(), Arc::new(AtomicBool::new(false)));
    let sizes = Vec::from(sizes).into_iter();
    runtime.spawn(TaskSpec::default(), Writes { sizes, make, work, out, may_end: may_end.clone() });
    runtime.spawn(TaskSpec::default(), Reads(input));
    (id, may_end)
}

fn wide(capacity: usize) -> StreamSpec {
    StreamSpec { capacity: Some(capacity), ..StreamSpec::default() }
}

/// The k-th number of a pseudorandom sequence.
fn scrambled(k: u64) -> u64 {
    (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11
}

fn distributions() -> Vec<Vec<u64>> {
    let of = |count: u64, size: fn(u64) -> u64| (0..count).map(size).collect::<Vec<u64>>();
    vec![
        of(1, |_| 77),
        of(5_000, |_| 1000),
        of(20_000, |k| 1 + scrambled(k) % 100_000),
        of(20_000, |k| if k % 50 == 7 { 1_000_000 } else { 100 }),
        of(9_999, |k| 1 << (scrambled(k) % 41)),
        // The sizes grow all the time, so the buckets become wider all the time.
        of(3_000, |k| k * k),
        // One bucket gets more messages than it can count singly.
        of(200_000, |k| if scrambled(k) % 100 < 3 { 4096 } else { 64 }),
        of(100, |_| 0),
    ]
}

#[test]
fn every_size_is_told_live_and_at_the_end_if_there_is_time_for_it() {
    for mode in [Mode::Metrics, Mode::Full] {
        let place = Place::new();
        let runtime = place.runtime(mode, 100);
        let passed: Vec<_> = distributions()
            .into_iter()
            .map(|sizes| {
                let ends = runtime.sized_stream(wide(200));
                (pass(&runtime, ends, &sizes, (blob, |_| {})), sizes)
            })
            .collect();
        runtime.start();
        let all_taken = || {
            let rows = place.rows_settled();
            passed
                .iter()
                .all(|((id, _), sizes)| rows.get(id).is_some_and(|row| row.messages == sizes.len() as u64))
        };
        let started = Instant::now();
        while !all_taken() {
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", place.rows());
            std::thread::yield_now();
        }
        let check = |told: &HashMap<u64, Sizes>| {
            for ((id, _), sizes) in &passed {
                told[id].check_all(sizes);
                for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
                    // The rank may be wrong by the rounding of counts to 16 bits.
                    let (from, to) =
                        (told[id].quantile(q - 0.001).0, told[id].quantile((q + 0.001).min(1.0)).1);
                    let (low, high) = (quantile(sizes, q - 0.002), quantile(sizes, (q + 0.002).min(1.0)));
                    assert!(
                        from <= high.max(1) as f64 && to >= low as f64,
                        "{q}: {from} to {to}, not {low} to {high}"
                    );
                }
            }
        };
        check(&place.rows());
        passed.iter().for_each(|((_, may_end), _)| may_end.store(true, Ordering::Release));
        runtime.join().unwrap();
        check(&place.told());
        assert!(place.rows().is_empty(), "the rows go with the streams");
    }
}

impl Place {
    /// The rows of [`Place::rows`], without those of streams whose buckets are being moved.
    fn rows_settled(&self) -> HashMap<u64, Sizes> {
        let rows = SpaceReader::open(self.space.path()).unwrap().live_rows().unwrap();
        let sizes = rows.iter().filter(|row| row.kind_name() == "exec.message_sizes");
        let settled = sizes.filter(|row| row.cell("scale").unwrap() >> 23 & 1 == 0);
        settled.map(|row| (row.id, Sizes::from(|name: &str| row.cell(name).unwrap()))).collect()
    }
}

/// The recorded sizes of one stream of messages that `making` makes.
fn told_of<T: Send + 'static>(
    mode: Mode,
    budget: u64,
    stream: impl FnOnce(&Runtime) -> (Out<T>, In<T>),
    sizes: &[u64],
    (make, work): Making<T>,
) -> Option<Sizes> {
    let place = Place::new();
    let runtime = place.runtime(mode, budget);
    let ends = stream(&runtime);
    let (id, may_end) = pass(&runtime, ends, sizes, (make, work));
    may_end.store(true, Ordering::Release);
    let summary = runtime.join().unwrap();
    assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    place.told().remove(&id)
}

#[test]
fn plain_data_is_as_large_as_its_type_and_what_leads_elsewhere_must_say() {
    let sizes: Vec<u64> = (0..1000).collect();
    let plain =
        told_of(Mode::Full, 1, |runtime| runtime.stream(wide(8)), &sizes, (|k| [k; 5], |_| {})).unwrap();
    assert_eq!((plain.taken, plain.messages, plain.bytes, plain.least, plain.most), (1, 1, 40, 40, 40));
    let text = |k: u64| k.to_string();
    assert!(told_of(Mode::Full, 100, |runtime| runtime.stream(wide(8)), &sizes, (text, |_| {})).is_none());
}

#[test]
fn no_size_is_taken_in_mode_off_or_if_nothing_may_be_spent_on_it() {
    let sizes: Vec<u64> = (0..5000).collect();
    for (mode, budget) in [(Mode::Off, 100), (Mode::Metrics, 0), (Mode::Full, 0)] {
        let told = told_of(mode, budget, |runtime| runtime.sized_stream(wide(8)), &sizes, (blob, |_| {}));
        assert!(told.is_none(), "{mode:?} {budget}: {told:?}");
    }
}

/// Every tenth message is large, and takes longer to make in proportion. A sample at fixed moments would see
/// mostly large messages; a sample of every tenth message would see only large ones, or none.
#[test]
fn a_large_message_is_as_likely_to_be_measured_as_a_small_one() {
    fn work(bytes: u64) {
        let started = Instant::now();
        while started.elapsed() < Duration::from_nanos(3 * bytes) {
            std::hint::spin_loop();
        }
    }
    let sizes: Vec<u64> = (0..40_000).map(|k| if k % 10 == 3 { 10_000 } else { 100 }).collect();
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    // On a machine with other load less time is left for measurements.
    let told = |_| {
        told_of(Mode::Metrics, 1, |runtime| runtime.sized_stream(wide(64)), &sizes, (blob, work)).unwrap()
    };
    let sizes_told = (0..10).map(told).find(|told| told.taken > 500).expect("one run of ten with 500 sizes");
    let told = sizes_told.bytes as f64 / sizes_told.messages as f64;
    // For 500 measured sizes the standard deviation of their mean is 13 % of the mean.
    assert!((told / mean - 1.0).abs() < 0.6, "{told} instead of {mean}: {sizes_told:?}");
    assert!(sizes_told.messages <= sizes.len() as u64);
}

#[test]
fn a_size_that_panics_is_not_asked_for_again_and_the_run_goes_on() {
    struct Faulty(Box<u64>);
    impl DeepSize for Faulty {
        fn deep_size(&self) -> u64 {
            assert!(*self.0 < 3, "message {} has no size", self.0);
            10
        }
    }
    let sizes: Vec<u64> = (0..5000).collect();
    let faulty = |k: u64| Faulty(Box::new(k));
    let told =
        told_of(Mode::Full, 100, |runtime| runtime.sized_stream(wide(8)), &sizes, (faulty, |_| {})).unwrap();
    assert_eq!((told.taken, told.bytes), (3, 30));
}

thread_local! {
    static ENDS: RefCell<Vec<(Out<u64>, In<u64>)>> = const { RefCell::new(Vec::new()) };
}

/// The code that computes a size is the user's, and may do whatever a task may do.
#[test]
fn a_size_may_drop_ends_of_streams() {
    struct Dropping(#[expect(dead_code, reason = "so that it is no plain data")] Box<u64>);
    impl DeepSize for Dropping {
        fn deep_size(&self) -> u64 {
            ENDS.with_borrow_mut(Vec::pop).map_or(1, |_| 2)
        }
    }
    struct Keeps(usize);
    impl Task for Keeps {
        fn run(&mut self, cx: &mut Context<'_>) -> Stop {
            for _ in 0..self.0 {
                let mut ends = cx.stream::<u64>(StreamSpec::default());
                assert!(ends.0.push(cx, 1).is_ok());
                ENDS.with_borrow_mut(|kept| kept.push(ends));
            }
            Stop::Ended
        }
    }
    let place = Place::new();
    let options =
        Options { workers: 1, mode: Mode::Full, space: Some(place.space.clone()), ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    SpaceReader::open(place.space.path()).unwrap().set("exec.clock_budget", 100).unwrap();
    runtime.spawn(TaskSpec::default(), Keeps(50));
    let ends = runtime.sized_stream(wide(8));
    let sizes: Vec<u64> = (0..500).collect();
    let (id, may_end) = pass(&runtime, ends, &sizes, (|k| Dropping(Box::new(k)), |_| {}));
    may_end.store(true, Ordering::Release);
    assert_eq!(runtime.join().unwrap().failed, 0);
    let told = place.told().remove(&id).unwrap();
    assert_eq!((told.taken, told.bytes), (500, 550));
}

#[test]
fn what_tasks_with_threads_of_their_own_write_has_a_size_too() {
    for (mode, at_once) in [(Mode::Metrics, false), (Mode::Metrics, true), (Mode::Full, true)] {
        let place = Place::new();
        let runtime = place.runtime(mode, 100);
        let (mut out, mut input) = runtime.sized_stream::<Blob>(wide(16));
        let id = out.id();
        runtime.spawn_blocking(TaskSpec::default(), move |task| {
            for bytes in 1..=300 {
                let pushed =
                    if at_once { task.push(&mut out, blob(bytes)) } else { task.feed(&mut out, blob(bytes)) };
                assert!(pushed.is_ok());
                if bytes == 1 {
                    task.flush(); // From its first dispatch on the stream has a row.
                }
            }
        });
        runtime.spawn_blocking(TaskSpec::default(), move |task| while task.pop(&mut input).is_some() {});
        assert_eq!(runtime.join().unwrap().failed, 0);
        let told = place.told().remove(&id).unwrap();
        assert!(told.taken >= 299 && told.messages == 300, "{mode:?} {at_once}: {told:?}");
        assert!(told.most == 300 && told.bytes <= 300 * 301 / 2 + 1, "{mode:?} {at_once}: {told:?}");
    }
}

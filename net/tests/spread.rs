//! Replicas of a split are distributed by load: heavy ones run on all workers, light ones together. The
//! distribution does not change the output.

#[path = "support/ends.rs"]
mod ends;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_box::Out;
use thalweg_exec::{Mapper, Mode, Options, Runtime, TaskSpec};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::{Boxes, Network, Value};
use thalweg_space::{Space, SpaceOptions};

const WORKERS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    /// A bit for the worker of this thread.
    static WORKER: u32 = {
        let name = thread::current().name().unwrap_or_default().to_owned();
        1 << name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok()).expect("a worker")
    };
}

/// The workers that called the box, for values of the tag that differ in their last bits.
struct Calls([AtomicU32; 64]);

impl Calls {
    fn of(&self, value: i64) -> &AtomicU32 {
        &self.0[value as usize % 64]
    }

    fn workers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|workers| workers.load(Ordering::Relaxed).count_ones())
    }

    /// The number of workers that called the box since the previous call.
    fn take(&self) -> u32 {
        self.0.iter().fold(0, |all, workers| all | workers.swap(0, Ordering::Relaxed)).count_ones()
    }
}

/// A running split that the test feeds and reads.
struct Course {
    runtime: Option<Runtime>,
    input: Option<Sender<Record>>,
    output: Receiver<Record>,
    calls: Arc<Calls>,
    _folder: tempfile::TempDir,
}

impl Course {
    /// `connect` names the box `work`, each of whose calls takes the time `takes`.
    fn start(connect: &str, takes: Duration, mode: Option<Mode>, options: Options) -> Course {
        let calls = Arc::new(Calls([const { AtomicU32::new(0) }; 64]));
        let boxes = Boxes::new().with("box work ((x, <t>) -> (x, <t>))", {
            let calls = calls.clone();
            move |x: i64, t: i64, out: &mut Out| {
                let worker = WORKER.with(|worker| *worker);
                if calls.of(t).load(Ordering::Relaxed) & worker == 0 {
                    calls.of(t).fetch_or(worker, Ordering::Relaxed);
                }
                if takes > LIGHT {
                    let until = Instant::now() + takes;
                    while Instant::now() < until {}
                }
                out.emit((x, t));
            }
        });
        let text = format!("net main {{ box work ((x, <t>) -> (x, <t>)); }} connect {connect};");
        let network = Network::parse("main", &text, &boxes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().join("space"));
        let space = mode.map(|_| Space::create(SpaceOptions { path, ..SpaceOptions::default() }).unwrap());
        let mode = mode.unwrap_or_default();
        let runtime = Runtime::new(Options { workers: WORKERS as usize, space, mode, ..options }).unwrap();
        let running = network.start(&runtime).unwrap();
        let (input, output) = ends::channels(&runtime, running.input, running.output);
        runtime.start();
        Course { runtime: Some(runtime), input: Some(input), output, calls, _folder: folder }
    }

    /// Passes this many records, with the values of the tag in rotation.
    fn pass(&self, values: &[i64], records: usize) {
        self.calls.take();
        let (x, t) = (Label::field("x"), Label::tag("t"));
        for number in 0..records {
            let value = values[number % values.len()];
            let record = Record::from_pairs([(x, Value::Int(number as i64)), (t, Value::Int(value))]);
            self.input.as_ref().unwrap().send(record).unwrap();
        }
        let mut next: HashMap<i64, i64> = HashMap::new();
        for _ in 0..records {
            let record = self.output.recv_timeout(PATIENCE).expect("a record for each");
            let integer = |label| match record.get(label) {
                Some(Value::Int(number)) => *number,
                other => panic!("no number: {other:?}"),
            };
            let before = next.insert(integer(t), integer(x));
            assert!(before < Some(integer(x)), "records of a value stay in order");
        }
    }

    /// Passes records until this many workers have called the box in one round; false if that does not
    /// happen.
    fn comes_to(&self, values: &[i64], records: usize, workers: u32) -> bool {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.pass(values, records);
            if self.calls.take() == workers {
                return true;
            }
        }
        false
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        drop(self.input.take());
        let summary = self.runtime.take().unwrap().join().unwrap();
        assert_eq!(summary.failures, []);
    }
}

const HEAVY: Duration = Duration::from_micros(200);
const LIGHT: Duration = Duration::ZERO;
const MODES: [Option<Mode>; 4] = [None, Some(Mode::Off), Some(Mode::Metrics), Some(Mode::Full)];
/// The number of modes at the end of `MODES` that the test of light messages leaves out: in these modes, a
/// build with assertions spends so much time on recording that no message is light.
const RECORDING: usize = if cfg!(debug_assertions) { 2 } else { 0 };

#[test]
fn a_heavy_split_fills_the_workers() {
    for mode in MODES {
        for split in ["!", "!!"] {
            for values in [[0, 1, 2, 3], [i64::MIN, -7, 1 << 40, i64::MAX]] {
                let course = Course::start(&format!("work {split} <t>"), HEAVY, mode, Options::default());
                assert!(course.comes_to(&values, 400, WORKERS), "{split} {values:?} {mode:?}");
            }
        }
    }
}

#[test]
fn a_light_split_stays_together() {
    // There are so many replicas that only their low load keeps them together.
    let values: Vec<i64> = (0..32).collect();
    for mode in MODES[..MODES.len() - RECORDING].iter().copied() {
        for split in ["!", "!!"] {
            let course = Course::start(&format!("work {split} <t>"), LIGHT, mode, Options::default());
            assert!(course.comes_to(&values, 10_000, 1), "{split} {mode:?}");
        }
    }
}

#[test]
fn heavy_replicas_of_ever_new_values_fill_the_workers() {
    let course = Course::start("work ! <t>", HEAVY, None, Options::default());
    let until = Instant::now() + PATIENCE;
    let mut next = 0;
    loop {
        let values: Vec<i64> = (next..next + 100).collect();
        next += 100;
        course.pass(&values, values.len());
        if course.calls.take() == WORKERS {
            break;
        }
        assert!(Instant::now() < until);
    }
}

#[test]
fn a_replica_is_whole() {
    // Both boxes of a replica are on its worker.
    let course = Course::start("(work .. work) ! <t>", HEAVY, None, Options::default());
    let values = [0, 1, 2, 3];
    assert!(course.comes_to(&values, 200, WORKERS));
    let until = Instant::now() + PATIENCE;
    loop {
        course.pass(&values, 200);
        if course.calls.workers().all(|workers| workers <= 1) {
            return;
        }
        assert!(Instant::now() < until, "{:?}", course.calls.workers().collect::<Vec<_>>());
    }
}

#[test]
fn the_users_choice_comes_first() {
    let user = Mapper::User(Arc::new(|_: &TaskSpec| 1));
    let with = |mapper| Options { mapper, ..Options::default() };
    // A busy machine may hold up a call so long that a waiting worker takes what is ready behind it.
    let off = Options { spread: false, steal_after_us: 0, ..Options::default() };
    for (connect, options) in [
        ("(work ! <t>) @ 1", Options::default()),
        ("work !@ <t>", Options::default()),
        ("work ! <t>", with(user)),
        ("work ! <t>", off),
    ] {
        let course = Course::start(connect, HEAVY, None, options);
        course.pass(&[1, 3, 5, 7], 2000);
        assert_eq!(course.calls.take(), 1, "{connect}");
    }
}

#[test]
fn what_is_placed_in_a_replica_stays_there() {
    let course = Course::start("(work @ 1) ! <t>", HEAVY, None, Options::default());
    course.pass(&[1, 2, 3, 4], 2000);
    assert_eq!(course.calls.take(), 1);
}

//! Reads and writes of the shared map by a box, against a load and a store of an atomic number.
//!
//! Loops of both kinds take turns, so that other load on the machine affects both alike.

use std::ffi::c_void;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use thalweg_box::abi::map_key::{MapFail, MapHost, MapWord};
use thalweg_box::{MapKey, Parameter};
use thalweg_space::shared_map::Author;
use thalweg_space::{MapValue, Space, SpaceOptions};

static KEY: MapKey<i64> = MapKey::integer(c"key", c"What is read", 7);
static PARAMETER: Parameter = Parameter::new(c"parameter", c"", c"To compare", 0..=u64::MAX, 7);
static PLAIN: AtomicU64 = AtomicU64::new(7);

const ROUNDS: usize = 31;
const READS: u64 = 20_000_000;
const WRITES: u64 = 100_000;

unsafe extern "C" fn unused(_: *const MapHost, _: *const MapWord, _: MapFail, _: *mut c_void) -> u32 {
    2
}

unsafe extern "C" fn unused_swap(
    _: *const MapHost,
    _: *const MapWord,
    _: *const MapWord,
    _: MapFail,
    _: *mut c_void,
) -> u32 {
    2
}

unsafe extern "C" fn unused_text(_: *const MapHost, _: *mut u8) -> u64 {
    0
}

static HOST: MapHost = MapHost { set: unused, compare_and_set: unused_swap, read_text: unused_text };

/// Nanoseconds of one of `count` calls.
fn time(count: u64, mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..count).for_each(|_| call());
    begun.elapsed().as_nanos() as f64 / count as f64
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| all[all.len() * quarter / 4])
}

fn compare(what: &str, count: u64, mut ours: impl FnMut(), mut plain: impl FnMut()) {
    let (mut us, mut them, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (one, other) = (time(count, &mut ours), time(count, &mut plain));
        us.push(one);
        them.push(other);
        ratios.push(one / other);
    }
    let ([_, us, _], [_, them, _], [low, ratio, high]) = (quartiles(us), quartiles(them), quartiles(ratios));
    let mut out = std::io::stdout();
    // A closed pipe is no matter for a benchmark.
    let _ = writeln!(
        out,
        "{what}: {us:.3} ns, plain {them:.3} ns, ratio {ratio:.2} (quartiles {low:.2}–{high:.2})"
    );
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options =
        SpaceOptions { name: "bench".into(), parent: Some(folder.path().into()), ..SpaceOptions::default() };
    let space = Space::create(options).expect("a space");
    let map = space.shared_map().expect("a map");
    let key = map.declare("key", "What is read", MapValue::Integer(7)).expect("a key");
    // SAFETY: the map, and the static host, live until the end of the program.
    unsafe { KEY.raw().bind(key.cell(), &HOST) };
    let cell = AtomicU64::new(7);
    // SAFETY: the cell lives until the end of the program.
    unsafe { PARAMETER.bind(&cell) };
    assert_eq!((KEY.get(), PARAMETER.get()), (7, 7));
    compare(
        "a read of a number",
        READS,
        || _ = black_box(black_box(&KEY).get()),
        || _ = black_box(black_box(&PLAIN).load(Ordering::Relaxed)),
    );
    compare(
        "a read of a parameter",
        READS,
        || _ = black_box(black_box(&PARAMETER).get()),
        || _ = black_box(black_box(&PLAIN).load(Ordering::Relaxed)),
    );
    let author = Author::of_box();
    let mut number = 0;
    compare(
        "a write of a number, with its event",
        WRITES,
        || {
            number += 1;
            key.set(MapValue::Integer(number), &author).map(drop).expect("written");
        },
        || black_box(&PLAIN).store(1, Ordering::Relaxed),
    );
    assert_eq!(KEY.get(), number, "a box sees what was written");
}

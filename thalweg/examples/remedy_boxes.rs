//! Boxes whose cost a file sets: `cargo xtask remedies` builds networks of these boxes, slows them down, and
//! applies remedies.
//!
//! The file `boxes.plan` in the folder in which the network runs has a line a box, `w3 turns=6000
//! cost=bimodal seed=7 how=mutex hot=2 times=9`: the box `w3` takes 6,000 turns of a loop on average (a turn
//! is about 1.5 ns), with the distribution `cost`, and `times` as long for records with the key `hot`. `how`
//! sets how the box spends this time: it computes, sleeps, holds a lock that all boxes of this kind share,
//! fights for the allocator, touches fresh pages, reads memory at random, waits for a byte of a FIFO or for
//! the next tick of a timer, counts in a cache line that all threads share, makes small writes to a file, or
//! stalls for some milliseconds now and then.

use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use thalweg_box::{Out, library};

/// The number of boxes in the library, from `w0` on.
const BOXES: usize = 12;
/// The approximate number of turns of the loop in a microsecond.
const TURNS_PER_US: f64 = 650.0;
/// The approximate number of turns that take as long as a page fault.
const TURNS_PER_FAULT: u64 = 400;
/// The bytes of a page.
const PAGE: usize = 4096;
/// The number of words through which memory-bound boxes jump: 16 MiB, more than a core's own caches hold.
const NUMBERS: usize = 2 << 20;
/// The approximate number of turns that take as long as a count in a cache line that no other thread uses.
const TURNS_PER_COUNT: u64 = 2;
/// The approximate number of turns that take as long as a write of a few bytes to a file in memory.
const TURNS_PER_WRITE: u64 = 500;
/// A box that stalls does so for one record of this many. The number has no divisor in common with the
/// numbers by which networks distribute records, so each branch gets its part of the stalls.
const STALL_EVERY: i64 = 61;
/// The number of records for which one of two boxes is slow before the other box becomes slow.
const PHASE: i64 = 256;
/// The number of counters in a cache line, and of cache lines for counters.
const COUNTERS: usize = 16;

/// How a box spends its time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum How {
    #[default]
    Compute,
    Sleep,
    Mutex,
    Spin,
    Allocate,
    Fault,
    Memory,
    Fifo,
    Timer,
    /// Each thread has a counter, and all counters are in one cache line.
    Line,
    /// Each thread has a counter in a cache line of its own.
    Apart,
    Write,
    Stall,
}

/// How the costs of records are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Cost {
    #[default]
    Constant,
    Exponential,
    /// One record in five takes sixteen times as long as the others.
    Bimodal,
    /// One record in a hundred takes half of the time.
    Rare,
    /// Stretches of records take seven times as long as the stretches between them.
    EvenPhases,
    /// Records take long in the stretches that are short for `EvenPhases`.
    OddPhases,
}

/// The counters of threads, in one cache line.
#[repr(align(64))]
struct Line([AtomicU32; COUNTERS]);

impl Line {
    const fn new() -> Line {
        Line([const { AtomicU32::new(0) }; COUNTERS])
    }
}

/// The file's line about a box.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    turns: f64,
    cost: Cost,
    seed: u64,
    how: How,
    hot: i64,
    times: f64,
}

static PLANS: OnceLock<Vec<Plan>> = OnceLock::new();
static MUTEX: Mutex<()> = Mutex::new(());
static SPIN: AtomicBool = AtomicBool::new(false);
static FIFO: OnceLock<File> = OnceLock::new();
static LARGE: OnceLock<Vec<u64>> = OnceLock::new();
static LINE: Line = Line::new();
static LINES: [Line; COUNTERS] = [const { Line::new() }; COUNTERS];
static WRITTEN: OnceLock<File> = OnceLock::new();

fn open() -> Result<(), String> {
    let text = std::fs::read_to_string("boxes.plan").map_err(|error| format!("boxes.plan: {error}"))?;
    let mut plans = vec![Plan { times: 1.0, ..Plan::default() }; BOXES];
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let place: usize = name
            .strip_prefix('w')
            .and_then(|number| number.parse().ok())
            .ok_or(format!("boxes.plan: no box `{name}`"))?;
        let plan =
            plans.get_mut(place).ok_or(format!("boxes.plan: there are {BOXES} boxes, not `{name}`"))?;
        for word in words {
            plan.take(word).ok_or(format!("boxes.plan: `{word}` of {name} says nothing"))?;
        }
    }
    if plans.iter().any(|plan| plan.how == How::Fifo) {
        let _ = FIFO.set(File::open("bytes.fifo").map_err(|error| format!("bytes.fifo: {error}"))?);
    }
    if plans.iter().any(|plan| plan.how == How::Allocate) {
        keep_freed_memory();
    }
    if plans.iter().any(|plan| plan.how == How::Write) {
        // The file is in memory: writes to a disk would make the times of trials differ too much.
        let file = rustix::fs::memfd_create("small.writes", rustix::fs::MemfdFlags::CLOEXEC);
        let _ = WRITTEN.set(File::from(file.map_err(|error| format!("small.writes: {error}"))?));
    }
    if plans.iter().any(|plan| plan.how == How::Memory) {
        let _ = LARGE.set((0..NUMBERS as u64).map(mixed).collect());
    }
    PLANS.set(plans).map_err(|_| "boxes.plan was read twice".to_owned())
}

impl Plan {
    fn take(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match name {
            "turns" => self.turns = value.parse().ok()?,
            "seed" => self.seed = value.parse().ok()?,
            "hot" => self.hot = value.parse().ok()?,
            "times" => self.times = value.parse().ok()?,
            "cost" => {
                self.cost = match value {
                    "constant" => Cost::Constant,
                    "exponential" => Cost::Exponential,
                    "bimodal" => Cost::Bimodal,
                    "rare" => Cost::Rare,
                    "even-phases" => Cost::EvenPhases,
                    "odd-phases" => Cost::OddPhases,
                    _ => return None,
                }
            }
            "how" => {
                self.how = match value {
                    "compute" => How::Compute,
                    "sleep" => How::Sleep,
                    "mutex" => How::Mutex,
                    "spin" => How::Spin,
                    "allocate" => How::Allocate,
                    "fault" => How::Fault,
                    "memory" => How::Memory,
                    "fifo" => How::Fifo,
                    "timer" => How::Timer,
                    "line" => How::Line,
                    "apart" => How::Apart,
                    "write" => How::Write,
                    "stall" => How::Stall,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The cost of this record, in turns.
    fn turns_of(&self, number: i64, key: i64) -> u64 {
        let chance = mixed(self.seed ^ mixed(number as u64));
        let uniform = (chance >> 11) as f64 / (1_u64 << 53) as f64;
        let part = match self.cost {
            Cost::Constant => 1.0,
            Cost::Exponential => -(1.0 - uniform).ln(),
            Cost::Bimodal if uniform < 0.2 => 4.0,
            Cost::Bimodal => 0.25,
            Cost::Rare if uniform < 0.01 => 50.0,
            Cost::Rare => 0.505,
            Cost::EvenPhases if number.div_euclid(PHASE) % 2 == 0 => 1.75,
            Cost::OddPhases if number.div_euclid(PHASE) % 2 != 0 => 1.75,
            Cost::EvenPhases | Cost::OddPhases => 0.25,
        };
        let times = if self.times != 1.0 && key == self.hot { self.times } else { 1.0 };
        (self.turns * part * times) as u64
    }

    /// Spends this many turns on the record with this number.
    fn spend(&self, turns: u64, number: i64) {
        match self.how {
            How::Compute => compute(turns),
            How::Sleep => sleep(turns),
            How::Mutex => {
                let _held = MUTEX.lock().unwrap_or_else(PoisonError::into_inner);
                compute(turns);
            }
            How::Spin => {
                while SPIN.swap(true, Ordering::Acquire) {
                    spin_loop();
                }
                compute(turns);
                SPIN.store(false, Ordering::Release);
            }
            How::Allocate => allocate(turns),
            How::Fault => fault(turns),
            How::Memory => jump(turns),
            How::Fifo => {
                if let Some(mut fifo) = FIFO.get() {
                    let _ = fifo.read(&mut [0]);
                }
            }
            How::Timer => wait_for_tick(Duration::from_nanos((turns as f64 * 1e3 / TURNS_PER_US) as u64)),
            How::Line => count(turns, &LINE.0[nth_thread()]),
            How::Apart => count(turns, &LINES[nth_thread()].0[0]),
            How::Write => write(turns),
            How::Stall => {
                // The box computes for a quarter of its time, and stalls for the rest.
                compute(turns / 4);
                if number.rem_euclid(STALL_EVERY) == STALL_EVERY / 2 {
                    sleep((turns - turns / 4) * STALL_EVERY as u64);
                }
            }
        }
    }
}

fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Computes this many turns, each of which depends on the one before. A thread that is preempted while it
/// computes loses no turns by that.
fn compute(turns: u64) {
    let mut number = black_box(1_u64);
    for _ in 0..turns {
        // The xor prevents the compiler from combining several turns of a product and a sum.
        number = (number ^ number >> 29).wrapping_mul(6_364_136_223_846_793_005);
    }
    black_box(number);
}

/// Lets the allocator keep memory that was freed. Otherwise it returns memory to the kernel when a box frees its last
/// block, so that a box that allocates half as much may take three times as long.
#[allow(unsafe_code)]
fn keep_freed_memory() {
    // SAFETY: the call sets a number of the allocator, under the allocator's own lock.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 30) };
}

/// Allocates many small blocks of all sizes, and frees them in another order.
fn allocate(turns: u64) {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for step in 0..turns / 60 {
        kept.push(black_box(Vec::with_capacity(1 << (4 + mixed(step) % 12))));
        if kept.len() > 64 {
            kept.swap_remove((mixed(step) % 64) as usize);
        }
    }
}

/// Writes to pages of memory for the first time. The memory comes from the kernel and returns to it: an allocator would
/// hand out the same pages again.
fn fault(turns: u64) {
    let pages = (turns / TURNS_PER_FAULT).max(1) as usize;
    let Ok(mut fresh) = memmap2::MmapMut::map_anon(pages * PAGE) else { return };
    fresh.chunks_mut(PAGE).for_each(|page| page[0] = 1);
    black_box(&fresh);
}

/// Reads memory at random: each word has the index of the next.
fn jump(turns: u64) {
    let Some(large) = LARGE.get() else { return };
    let mut at = turns as usize % NUMBERS;
    for _ in 0..turns / 60 {
        at = large[at] as usize % NUMBERS;
    }
    black_box(at);
}

/// A number of this thread, different from those of the threads before it.
fn nth_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NTH: usize = THREADS.fetch_add(1, Ordering::Relaxed) % COUNTERS;
    }
    NTH.with(|nth| *nth)
}

/// Counts; a count takes far longer while another processor counts in the same cache line.
fn count(turns: u64, counter: &AtomicU32) {
    for _ in 0..turns / TURNS_PER_COUNT {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a few bytes to a file, many times; each write is a call of the kernel. All boxes write to one file,
/// and the kernel makes their writes one after the other.
fn write(turns: u64) {
    let Some(file) = WRITTEN.get() else { return };
    for step in 0..(turns / TURNS_PER_WRITE).max(1) {
        let _ = file.write_at(&step.to_le_bytes(), step % 512 * 8);
    }
}

/// Sleeps for as long as this many turns take.
fn sleep(turns: u64) {
    wake_in_time();
    std::thread::sleep(Duration::from_nanos((turns as f64 * 1e3 / TURNS_PER_US) as u64));
}

/// Unless a thread asks for less, the kernel may end each of its sleeps up to 50 us late; a sleep of half the
/// length would then take more than half of the time.
fn wake_in_time() {
    thread_local! {
        static SLACK: () = {
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        };
    }
    SLACK.with(|()| ());
}

/// Waits for the next multiple of the period, by the clock that all processes share.
fn wait_for_tick(period: Duration) {
    wake_in_time();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let period = period.as_nanos().max(1);
    std::thread::sleep(Duration::from_nanos((period - now.as_nanos() % period) as u64));
}

fn work<const PLACE: usize>(n: i64, k: i64, out: &mut Out) -> Result<(), String> {
    let plan = PLANS.get().map(|plans| plans[PLACE]).ok_or("no boxes.plan was read")?;
    plan.spend(plan.turns_of(n, k), n);
    out.emit((n, k));
    Ok(())
}

library! {
    init open;
    "box w0 ((<n>, <k>) -> (<n>, <k>))" => w0,
    "box w1 ((<n>, <k>) -> (<n>, <k>))" => w1,
    "box w2 ((<n>, <k>) -> (<n>, <k>))" => w2,
    "box w3 ((<n>, <k>) -> (<n>, <k>))" => w3,
    "box w4 ((<n>, <k>) -> (<n>, <k>))" => w4,
    "box w5 ((<n>, <k>) -> (<n>, <k>))" => w5,
    "box w6 ((<n>, <k>) -> (<n>, <k>))" => w6,
    "box w7 ((<n>, <k>) -> (<n>, <k>))" => w7,
    "box w8 ((<n>, <k>) -> (<n>, <k>))" => w8,
    "box w9 ((<n>, <k>) -> (<n>, <k>))" => w9,
    "box w10 ((<n>, <k>) -> (<n>, <k>))" => w10,
    "box w11 ((<n>, <k>) -> (<n>, <k>))" => w11,
}

macro_rules! boxes {
    ($($name:ident $place:literal),*) => {
        $(fn $name(n: i64, k: i64, out: &mut Out) -> Result<(), String> {
            work::<$place>(n, k, out)
        })*
    };
}

boxes!(w0 0, w1 1, w2 2, w3 3, w4 4, w5 5, w6 6, w7 7, w8 8, w9 9, w10 10, w11 11);

//! Random calls with probes; what was called is written elsewhere as well, by other means. `thalweg/tests/probes.rs` runs it.
//!
//! `probed trees SEED COUNT THREADS TRUTH`: random trees of calls; TRUTH.N has a line a call of thread N: the operations that enclose it, and how it
//! ended. `probed endless SEED 0 THREADS TRUTH`: calls for ever; TRUTH has two counters a thread: calls begun, calls done. `probed alternate`: calls
//! of `one`, as many as each line of standard input says; a line is answered by the count so far. `probed library PATH`: calls a C library that calls back.
//! `probed continue TRACEPARENT`: continues a trace and prints the `traceparent` of a message of its own.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use thalweg_probe::{probe, span};

/// What a thread does at random, and what it did.
struct World {
    random: u64,
    truth: String,
    path: Vec<u32>,
    budget: u32,
}

thread_local! {
    static WORLD: RefCell<World> = const { RefCell::new(World { random: 1, truth: String::new(), path: Vec::new(), budget: 0 }) };
}

fn below(limit: u64) -> u64 {
    WORLD.with_borrow_mut(|world| {
        world.random ^= world.random << 13;
        world.random ^= world.random >> 7;
        world.random ^= world.random << 17;
        (world.random >> 11) % limit
    })
}

fn enter(operation: u32) {
    WORLD.with_borrow_mut(|world| world.path.push(operation));
}

fn leave(how: char) {
    WORLD.with_borrow_mut(|world| {
        let path: Vec<String> = world.path.iter().map(|operation| format!("op{operation}")).collect();
        let _ = writeln!(world.truth, "{} {how}", path.join("/"));
        world.path.pop();
    });
}

/// Calls that return while a panic passes by.
struct Cleaner;

impl Drop for Cleaner {
    fn drop(&mut self) {
        cleaner();
    }
}

#[probe(name = "op8")]
fn cleaner() {
    enter(8);
    // A panic that passes by is told of all calls that end meanwhile.
    leave(if std::thread::panicking() { 'u' } else { 'r' });
}

fn traced(operation: u32) -> Result<(), ()> {
    enter(operation);
    let result = catch_unwind(body);
    match result {
        Ok(result) => {
            leave(if result.is_err() { 'f' } else { 'r' });
            result
        }
        Err(panic) => {
            leave('u');
            resume_unwind(panic)
        }
    }
}

#[probe(errors, name = "op0")]
fn operation_0() -> Result<(), ()> {
    traced(0)
}

#[probe(errors, name = "op1")]
fn operation_1() -> Result<(), ()> {
    traced(1)
}

#[probe(errors, name = "op2")]
fn operation_2() -> Result<(), ()> {
    traced(2)
}

fn operation_3() -> Result<(), ()> {
    span!("op3");
    // A span has no result.
    enter(3);
    match catch_unwind(body) {
        Ok(result) => {
            leave('r');
            result
        }
        Err(panic) => {
            leave('u');
            resume_unwind(panic)
        }
    }
}

const OPERATIONS: [fn() -> Result<(), ()>; 4] = [operation_0, operation_1, operation_2, operation_3];

fn body() -> Result<(), ()> {
    let (level, budget) = WORLD.with_borrow(|world| (world.path.len(), world.budget));
    let count = if level < 12 && budget > 0 { below(4) } else { 0 };
    for _ in 0..count {
        WORLD.with_borrow_mut(|world| world.budget = world.budget.saturating_sub(1));
        let called = || OPERATIONS[below(4) as usize]();
        let result = if below(3) == 0 {
            let cleaned = AssertUnwindSafe(|| {
                let _cleaner = Cleaner;
                called()
            });
            match catch_unwind(cleaned) {
                Ok(result) => result,
                Err(panic) if below(2) == 0 => resume_unwind(panic),
                Err(_) => Ok(()),
            }
        } else {
            called()
        };
        if result.is_err() && below(2) == 0 {
            return result;
        }
    }
    if below(8) == 0 {
        resume_unwind(Box::new(1));
    }
    if below(10) == 0 { Err(()) } else { Ok(()) }
}

fn trees(seed: u64, number: u64, count: u64, truth: &str) {
    WORLD.with_borrow_mut(|world| world.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + number * 77 + 1);
    for _ in 0..count {
        WORLD.with_borrow_mut(|world| world.budget = 60);
        let _ = catch_unwind(|| OPERATIONS[below(4) as usize]());
    }
    let text = WORLD.with_borrow_mut(|world| std::mem::take(&mut world.truth));
    let file = std::fs::OpenOptions::new().append(true).create(true).open(format!("{truth}.{number}"));
    file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file of truth");
}

#[probe(name = "one")]
fn one() {}

fn endless(number: u64, truth: &str) -> ! {
    let file = std::fs::OpenOptions::new().write(true).open(truth).expect("a file of counters");
    let mut done = 0_u64;
    loop {
        file.write_all_at(&(done + 1).to_le_bytes(), 16 * number).expect("room");
        one();
        done += 1;
        file.write_all_at(&done.to_le_bytes(), 16 * number + 8).expect("room");
    }
}

/// Answers each line with how many calls there were so far.
fn alternate() {
    let mut count = 0;
    for line in std::io::stdin().lock().lines() {
        let calls: u64 = line.expect("a line").trim().parse().expect("how many calls");
        for _ in 0..calls {
            one();
        }
        count += calls;
        let mut output = std::io::stdout();
        writeln!(output, "{count}").and_then(|()| output.flush()).expect("a reader");
    }
}

#[probe(name = "rust_outer")]
#[allow(unsafe_code)]
fn outer(path: &str) {
    type Work = unsafe extern "C" fn(extern "C" fn(), i32);
    // SAFETY: the library has a function of this type, which calls what it is given so many times.
    unsafe {
        let library = libloading::Library::new(path).expect("a library");
        let work: libloading::Symbol<'_, Work> = library.get(b"c_work").expect("its function");
        work(inner, 2);
        work(inner, 3);
        std::mem::forget(library);
    }
}

extern "C" fn inner() {
    span!("rust_inner");
}

#[probe(name = "rust_server")]
fn server(traceparent: &str) {
    assert!(thalweg_probe::continue_trace(traceparent));
    {
        span!("rust_message");
        let text = thalweg_probe::traceparent().expect("it is recorded");
        std::io::stdout().write_all(text.as_bytes()).expect("a reader");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    std::panic::set_hook(Box::new(|_| {}));
    match arguments[1].as_str() {
        "alternate" => alternate(),
        "library" => (0..3).for_each(|_| outer(&arguments[2])),
        "continue" => server(&arguments[2]),
        mode => {
            let (seed, count, threads, truth) = (number(2), number(3), number(4), arguments[5].as_str());
            for wave in 1..3 {
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        scope.spawn(move || match mode {
                            "endless" => endless(thread, truth),
                            _ => trees(seed + wave * 1_000_003, thread, count, truth),
                        });
                    }
                });
            }
        }
    }
}

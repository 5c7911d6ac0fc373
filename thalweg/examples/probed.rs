//! Random calls with probes; the calls are also written to a file without probes. `thalweg/tests/probes.rs`
//! runs this program.
//!
//! `probed trees SEED COUNT THREADS TRUTH`: random trees of calls, some of which are polls of futures or hand
//! work over to other threads or to later calls; TRUTH.N has a line for each call of thread N: the enclosing
//! operations, and how the call ended; a capital letter marks a further stretch of a call that had paused,
//! which is not counted again. `probed count SEED COUNT THREADS TRUTH`: COUNT calls in each thread; a
//! line on standard output after each tenth of them. `probed many SEED COUNT 1 TRUTH`: COUNT operations, with
//! one call of each. `probed serve LIBRARY`: a server that continues the traces of its messages and calls a C
//! library; its port goes to standard output. `probed endless SEED 0 THREADS TRUTH`: calls for ever; TRUTH
//! has two counters a thread: calls begun, calls done. `probed alternate`: calls of `one`, as many as each
//! line of standard input says; after each line the count so far is printed. `probed library PATH`: calls a C
//! library that calls back. `probed continue TRACEPARENT`: continues a trace and prints the `traceparent` of
//! a message of its own. `probed accepts TEXT`: succeeds if TEXT is a valid `traceparent`.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use thalweg_probe::{probe, span};

/// The random decisions of a thread, and the calls that it made.
struct World {
    random: u64,
    truth: String,
    path: Vec<u32>,
    budget: u32,
    /// Work that was handed over to later calls: its trace, the operations that enclosed it, and its own
    /// operation.
    later: Vec<(thalweg_probe::Handed, Vec<u32>, usize)>,
    /// The file name for the truth of threads that get work, and the number of such threads.
    handed: (String, u64),
}

thread_local! {
    static WORLD: RefCell<World> = const {
        RefCell::new(World { random: 1, truth: String::new(), path: Vec::new(), budget: 0, later: Vec::new(), handed: (String::new(), 0) })
    };
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

/// A value whose drop makes calls that return while a panic unwinds.
struct Cleaner;

impl Drop for Cleaner {
    fn drop(&mut self) {
        cleaner();
    }
}

#[probe(name = "op8")]
fn cleaner() {
    enter(8);
    // A panic that unwinds through calls is recorded with each of them.
    leave(if std::thread::panicking() { 'u' } else { 'r' });
}

fn traced(operation: u32) -> Result<(), ()> {
    stretch(operation, true, true)
}

/// A call, or a further stretch of a call that had paused (`is_first`); the last one gives the call's result.
fn stretch(operation: u32, is_first: bool, is_last: bool) -> Result<(), ()> {
    let letter = |how: char| if is_first { how } else { how.to_ascii_uppercase() };
    enter(operation);
    let result = catch_unwind(body);
    match result {
        Ok(result) => {
            leave(letter(if result.is_err() && is_last { 'f' } else { 'r' }));
            result
        }
        Err(panic) => {
            leave(letter('u'));
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
    // A span does not see the operation's result, so a failed call counts as returned.
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

/// An asynchronous operation: each poll of its future is a stretch of the call, and each but the last returns
/// `Pending`.
#[probe(errors, name = "op4")]
async fn operation_4_polled() -> Result<(), ()> {
    let pauses = below(3);
    for pause in 0..pauses {
        let _ = stretch(4, pause == 0, false);
        let mut is_first = true;
        std::future::poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) })
            .await;
    }
    stretch(4, pauses == 0, true)
}

fn operation_4() -> Result<(), ()> {
    let mut future = pin!(operation_4_polled());
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        // Calls between two polls are not calls of the future.
        if below(3) == 0 {
            cleaner();
        }
    }
}

const OPERATIONS: [fn() -> Result<(), ()>; 5] =
    [operation_0, operation_1, operation_2, operation_3, operation_4];

/// Makes a call in another thread, which continues the trace of the caller.
fn in_thread() {
    let handed = thalweg_probe::hand_over();
    let (path, file, random) = WORLD.with_borrow_mut(|world| {
        world.handed.1 += 1;
        (world.path.clone(), format!("{}-{}", world.handed.0, world.handed.1), world.random * 31 + 7)
    });
    let work = move || {
        WORLD.with_borrow_mut(|world| {
            (world.random, world.path, world.handed.0) = (random | 1, path, file.clone())
        });
        handed.take_over();
        // The operation is not asynchronous: of a call with several stretches only the first would belong to
        // the work that was handed over.
        call(below(4) as usize, 20);
        write(&file);
    };
    std::thread::spawn(work).join().expect("it catches panics");
}

fn for_later() {
    let operation = below(4) as usize;
    if WORLD.with_borrow(|world| world.later.len()) < 8 {
        let handed = thalweg_probe::hand_over();
        WORLD.with_borrow_mut(|world| world.later.push((handed, world.path.clone(), operation)));
    }
}

fn call(operation: usize, budget: u32) {
    WORLD.with_borrow_mut(|world| world.budget = budget);
    let _ = catch_unwind(OPERATIONS[operation]);
}

/// Makes a root call, and then the calls that continue the work it handed over.
fn root() {
    call(below(OPERATIONS.len() as u64) as usize, 60);
    while let Some((handed, path, operation)) = WORLD.with_borrow_mut(|world| world.later.pop()) {
        WORLD.with_borrow_mut(|world| world.path = path);
        handed.take_over();
        call(operation, 10);
        WORLD.with_borrow_mut(|world| world.path.clear());
    }
}

/// Writes the calls that were made to a file.
fn write(file: &str) {
    let text = WORLD.with_borrow_mut(|world| std::mem::take(&mut world.truth));
    let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
    file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file of truth");
}

fn body() -> Result<(), ()> {
    let (level, budget) = WORLD.with_borrow(|world| (world.path.len(), world.budget));
    let count = if level < 12 && budget > 0 { below(4) } else { 0 };
    for _ in 0..count {
        WORLD.with_borrow_mut(|world| world.budget = world.budget.saturating_sub(1));
        if below(60) == 0 {
            in_thread();
            continue;
        }
        if below(40) == 0 {
            for_later();
            continue;
        }
        let called = || OPERATIONS[below(OPERATIONS.len() as u64) as usize]();
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
    let file = format!("{truth}.{number}");
    WORLD.with_borrow_mut(|world| {
        world.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + number * 77 + 1;
        world.handed = (format!("{file}-{seed}"), 0);
    });
    (0..count).for_each(|_| root());
    write(&file);
}

fn counting(count: u64) {
    // A thread's first call reserves room for its element. Of two threads that reserve at the same time on a disk
    // with room for one, neither may get it.
    static FIRST_CALL: std::sync::Mutex<()> = std::sync::Mutex::new(());
    for n in 1..=count {
        let alone = (n == 1).then(|| FIRST_CALL.lock());
        one();
        drop(alone);
        if n.is_multiple_of(count / 10) {
            writeln!(std::io::stdout(), "{n}").expect("a reader");
        }
    }
}

/// Makes `count` operations and calls each once. Some names are long, and contain characters of many scripts.
fn many(count: u64) {
    const SCRIPTS: [&str; 8] =
        ["order", "größe", "заказ", "価格", "سعر", "𝒳", "a\"b\\c/d", "two words, a\ttab (it)"];
    for n in 0..count {
        let mut name = format!("{}.{n}", SCRIPTS[n as usize % 8]);
        if n % 10_000 == 17 {
            name += &"x".repeat(10_240 - name.len());
        }
        let operation: &'static thalweg_probe::Operation =
            Box::leak(Box::new(thalweg_probe::Operation::new(name.leak(), file!(), line!())));
        drop(operation.enter());
    }
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

/// Answers each line with the number of calls so far.
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
    // SAFETY: the library's function `c_work` has this type; it calls its first argument as often as its
    // second argument says.
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

/// Each line is a message with a `traceparent`. The answer has the number of calls that the library made.
#[allow(unsafe_code)]
fn serve(path: &str) {
    type Work = unsafe extern "C" fn(extern "C" fn(), i32);
    // SAFETY: the library's function `c_work` has this type, and the library is never unloaded.
    let work: Work = unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(path).expect("a library")));
        *library.get::<Work>(b"c_work").expect("its function")
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    writeln!(std::io::stdout(), "{port}").expect("a reader");
    for stream in listener.incoming() {
        let stream = stream.expect("a client");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a message");
        if line.trim() == "end" {
            return;
        }
        request(line.trim(), work);
        writeln!(&stream, "done").expect("a client");
    }
}

#[probe(name = "rust_request")]
#[allow(unsafe_code)]
fn request(traceparent: &str, work: unsafe extern "C" fn(extern "C" fn(), i32)) {
    assert!(thalweg_probe::continue_trace(traceparent));
    // SAFETY: `work` is the function `c_work` of a library that is never unloaded.
    unsafe { work(inner, 2) };
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    std::panic::set_hook(Box::new(|_| {}));
    match arguments[1].as_str() {
        "alternate" => alternate(),
        "library" => (0..3).for_each(|_| outer(&arguments[2])),
        "continue" => server(&arguments[2]),
        "accepts" => std::process::exit(i32::from(!thalweg_probe::continue_trace(&arguments[2]))),
        "serve" => serve(&arguments[2]),
        "many" => many(number(3)),
        mode => {
            let (seed, count, threads, truth) = (number(2), number(3), number(4), arguments[5].as_str());
            // In mode `count` no thread ends before all have counted, so all threads exist at the same time.
            let all_counted = &std::sync::Barrier::new(threads as usize);
            for wave in 1..3 {
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        scope.spawn(move || match mode {
                            "endless" => endless(thread, truth),
                            "count" => {
                                counting(count);
                                all_counted.wait();
                            }
                            _ => trees(seed + wave * 1_000_003, thread, count, truth),
                        });
                    }
                });
            }
        }
    }
}

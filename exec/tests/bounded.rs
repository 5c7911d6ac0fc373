//! Tests that memory stays bounded under every overload, and that waiting tasks use no processor time. These
//! tests are a program of their own because they count allocations, so no two tests may run at once.
#![allow(clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{Context, In, Inputs, Options, Out, Runtime, Stop, StreamSpec, Task, TaskSpec};

/// An allocator that counts the bytes held now, and the most at any time.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes held during `work` beyond those held before.
fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

fn check(what: &str, bytes: usize, most: usize) {
    assert!(bytes <= most, "{what}: {bytes} bytes at once, at most {most} expected");
    println!("test {what} ... ok ({bytes} bytes)");
}

const CAPACITY: usize = 64;
/// A message on the heap.
type Message = Box<[u8; 256]>;

fn message() -> Message {
    Box::new([1; 256])
}

fn room(capacity: usize) -> StreamSpec {
    StreamSpec { capacity: Some(capacity), ..StreamSpec::default() }
}

fn run(runtime: Runtime) {
    assert_eq!(runtime.join().unwrap().failures, []);
}

/// The memory of a runtime with threads, streams and tasks but without messages. In 30 runs the check "a slow
/// reader" used 54,782 to 55,706 bytes for the runtime and all messages.
const RUNTIME: usize = 19 << 10;

/// Writes a number of messages for each message read, as fast as there is room for them.
struct Emit {
    input: In<Message>,
    output: Out<Message>,
    for_each: u64,
    left: u64,
}

impl Task for Emit {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        for _ in 0..cx.quantum() {
            if self.left == 0 {
                match self.input.pop(cx) {
                    Some(_) => self.left = self.for_each,
                    None if self.input.ended() => return Stop::Ended,
                    None => return Stop::InputEmpty,
                }
            }
            if self.output.room(cx) == 0 {
                return Stop::OutputFull;
            }
            self.output.push(cx, message()).expect("there was room");
            self.left -= 1;
        }
        Stop::QuantumSpent
    }
}

/// Sends `sent` messages to a task that makes `for_each` messages of each, and reads these with a pause after
/// every hundredth message.
fn overflowing(sent: u64, for_each: u64, pause: Duration) {
    let runtime = Runtime::new(Options { workers: 2, ..Options::default() }).unwrap();
    let (mut first, input) = runtime.stream(room(CAPACITY));
    let (output, mut last) = runtime.stream(room(CAPACITY));
    runtime.spawn(TaskSpec::default(), Emit { input, output, for_each, left: 0 });
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        (0..sent).for_each(|_| task.feed(&mut first, message()).expect("the reader lives"));
    });
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        let mut count = 0_u64;
        while task.pop(&mut last).is_some() {
            count += 1;
            if count.is_multiple_of(100) && !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        assert_eq!(count, sent * for_each);
    });
    run(runtime);
}

/// Makes replicas in bursts; each replica reads one message and ends.
struct Burst {
    bursts: u64,
    at_once: usize,
    inputs: Inputs<Message>,
}

struct Once(In<Message>, Out<Message>);

impl Task for Once {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        match self.0.pop(cx) {
            Some(message) => {
                self.1.push(cx, message).expect("an empty stream has room");
                Stop::Ended
            }
            None => Stop::InputEmpty,
        }
    }
}

impl Task for Burst {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        if self.inputs.is_empty() {
            if self.bursts == 0 {
                return Stop::Ended;
            }
            self.bursts -= 1;
            for _ in 0..self.at_once {
                let (mut to, input) = cx.stream(room(CAPACITY));
                let (output, from) = cx.stream(room(CAPACITY));
                to.push(cx, message()).expect("an empty stream has room");
                cx.spawn(TaskSpec::default(), Once(input, output));
                self.inputs.add_running(cx, from);
            }
        }
        while let Some(index) = self.inputs.next_index(cx) {
            let input = self.inputs.get_mut(index).expect("it is offered");
            if input.pop(cx).is_none() && input.ended() {
                drop(self.inputs.remove(cx, index));
            }
        }
        if self.inputs.is_empty() { Stop::QuantumSpent } else { Stop::InputEmpty }
    }
}

fn bursts(bursts: u64) {
    let runtime = Runtime::new(Options { workers: 2, ..Options::default() }).unwrap();
    runtime.spawn(TaskSpec::default(), Burst { bursts, at_once: 200, inputs: Inputs::new() });
    run(runtime);
}

/// Waits for an input that never comes, and counts when it begins to wait.
struct Wait(In<u64>, Arc<AtomicU64>, bool);

impl Task for Wait {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        assert!(self.0.pop(cx).is_none());
        if self.0.ended() {
            return Stop::Ended;
        }
        self.1.fetch_add(u64::from(!std::mem::replace(&mut self.2, true)), Ordering::Relaxed);
        Stop::InputEmpty
    }
}

/// The processor time that the process used so far.
fn processor_time() -> Duration {
    // SAFETY: the structure is plain data, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Lets `tasks` tasks wait for a second, and measures the processor time. The measured time includes all
/// periodic work of the workers, and the search for deadlocks by the thread that waits for the end of the
/// run.
fn waiting(tasks: u64) {
    let runtime = Runtime::new(Options { workers: 2, ..Options::default() }).unwrap();
    let wait = Arc::new(AtomicU64::new(0));
    let mut open = Vec::new();
    for _ in 0..tasks {
        let (output, input) = runtime.stream(StreamSpec::default());
        open.push(output);
        runtime.spawn(TaskSpec::default(), Wait(input, wait.clone(), false));
    }
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while wait.load(Ordering::Relaxed) < tasks {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The workers sleep once they have found no work for a while.
        std::thread::sleep(Duration::from_millis(100));
        let (begin, used) = (Instant::now(), processor_time());
        task.aside(|| std::thread::sleep(Duration::from_secs(1)));
        let (used, took) = (processor_time() - used, begin.elapsed());
        assert!(used < took / 500, "{tasks} tasks that wait used {used:?} of {took:?}");
        println!("test {tasks} tasks that wait ... ok ({used:?} of {took:?})");
        drop(open);
    });
    run(runtime);
}

fn main() {
    // Each message has a slot in a stream.
    let messages = |count: usize| count * (2 * size_of::<Message>() + 256);
    // The memory of two streams of 64 messages, and of the messages that a source and a sink hold.
    let two_streams = messages(2 * CAPACITY + 8) + RUNTIME;
    check("a slow reader", peak(|| overflowing(20_000, 1, Duration::from_millis(1))), two_streams);
    check("a million for one", peak(|| overflowing(2, 1_000_000, Duration::ZERO)), two_streams);
    // Each replica has two streams and a task, and the last burst already exists while the burst before it is
    // freed.
    let replica = 2 * (256 + 96) + 256 + 640;
    check("bursts of replicas", peak(|| bursts(500)), 2 * 200 * replica + RUNTIME);
    waiting(100_000);
    println!("test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

//! Tests of tasks with threads of their own: when the system refuses a thread, and when every task gets one.

#[path = "support/relay.rs"]
mod relay;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thalweg_exec::{Context, Options, Runtime, Stop, StreamSpec, Summary, Task, TaskId, TaskSpec};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Space, SpaceOptions};

use relay::Relay;

/// Runs a source of `messages` numbers, a relay that unfolds into nine, a sink that adds the numbers up, and
/// the tasks that `more` creates.
fn run(options: Options, messages: u64, more: impl FnOnce(&Runtime)) -> (Summary, u64) {
    let runtime = Runtime::new(options).unwrap();
    let (mut numbers, input) = runtime.stream(StreamSpec { capacity: Some(3), ..StreamSpec::default() });
    let (output, mut last) = runtime.stream(StreamSpec::default());
    runtime.spawn(TaskSpec::default(), Relay::new(input, output).unfolding(8));
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        (1..=messages).for_each(|number| task.push(&mut numbers, number).expect("the reader lives"));
    });
    let total = Arc::new(AtomicU64::new(0));
    let sum = total.clone();
    runtime.spawn_blocking(TaskSpec::default(), move |task| {
        while let Some(number) = task.pop(&mut last) {
            sum.fetch_add(number, Ordering::Relaxed);
        }
    });
    more(&runtime);
    (runtime.join().unwrap(), total.load(Ordering::Relaxed))
}

fn each_its_own() -> Options {
    Options { workers: 1, thread_per_task: true, ..Options::default() }
}

#[test]
fn every_task_may_have_a_thread_of_its_own() {
    let (summary, total) = run(each_its_own(), 5000, |_| ());
    assert_eq!((summary.failures.as_slice(), summary.tasks, total), (&[][..], 11, 5000 * 5001 / 2));
}

struct Closure<F>(F);
impl<F: FnMut() -> Stop + Send + 'static> Task for Closure<F> {
    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        (self.0)()
    }
}

#[test]
fn tasks_with_threads_of_their_own_fail_as_others_do() {
    let (summary, total) = run(each_its_own(), 100, |runtime| {
        runtime.spawn(TaskSpec::default(), Closure(|| -> Stop { panic!("on its own") }));
        runtime.spawn(TaskSpec::default(), Closure(|| Stop::InputEmpty));
    });
    let mut failures = summary.failures;
    failures.sort_by_key(|failure| failure.task);
    let told: Vec<_> = failures.iter().map(|failure| (failure.panicked, failure.message.as_str())).collect();
    let nothing = "stopped on an empty input, but popped none that could still bring a message";
    assert_eq!(told, [(true, "on its own"), (false, nothing)]);
    assert_eq!(total, 5050);
}

const LIMITED: &str = "THALWEG_TEST_WITHOUT_THREADS";

/// A task to which the system refuses a thread fails and closes its streams, and the other tasks go on. The
/// test runs in a process of its own whose memory is limited to a little more than it uses, which is too
/// little for another thread's stack.
#[test]
fn a_refused_thread_is_a_failed_task() {
    if std::env::var_os(LIMITED).is_some() {
        return without_more_threads();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_refused_thread_is_a_failed_task", "--nocapture"]).env(LIMITED, "1");
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

fn without_more_threads() {
    let mut refused = Vec::new();
    let (summary, total) = run(Options { workers: 1, ..Options::default() }, 100, |runtime| {
        let (mut output, input) = runtime.stream::<u64>(StreamSpec::default());
        let (to_nobody, mut ended) = runtime.stream::<u64>(StreamSpec::default());
        runtime.spawn(TaskSpec::default(), Relay::new(input, to_nobody));
        wait_until_others_sleep();
        limit_memory();
        refused.push(runtime.spawn_blocking(TaskSpec::default(), move |task| {
            let _ = task.push(&mut output, 1);
        }));
        refused.push(runtime.spawn_blocking_attached(TaskSpec::default(), |ports| {
            ports.input(&mut ended);
            move |task| assert!(task.pop(&mut ended).is_none())
        }));
    });
    let failed: Vec<TaskId> = summary.failures.iter().map(|failure| failure.task).collect();
    assert_eq!((failed, summary.failed, summary.tasks, total), (refused, 2, 14, 5050));
    let message = &summary.failures[0].message;
    assert!(message.starts_with("the system refuses it a thread of its own"), "{message}");
    assert!(!summary.failures[0].panicked);
}

/// Readers of a run must not take a task with a thread of its own for a task of the first worker, and try to
/// move it.
#[test]
fn the_row_of_a_task_says_that_it_has_its_own_thread() {
    let folder = std::env::temp_dir().join(format!("thalweg-exec-own-row-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(folder.clone()), ..SpaceOptions::default() }).unwrap();
    let reader = SpaceReader::open(space.path()).unwrap();
    let options = Options { workers: 1, space: Some(space.clone()), ..Options::default() };
    let runtime = Runtime::new(options).unwrap();
    let (told, rows) = std::sync::mpsc::channel();
    let task = runtime.spawn_blocking(TaskSpec::default(), move |_| {
        let rows = reader.live_rows().unwrap();
        let tasks = rows.iter().filter(|row| row.kind_name() == "exec.task");
        told.send(tasks.map(|row| (row.id, row.cell("worker"))).collect::<Vec<_>>()).unwrap();
    });
    runtime.join().unwrap();
    assert_eq!(rows.recv().unwrap(), [(task.0, Some(u64::from(u32::MAX)))]);
    drop(space);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Waits until all other threads sleep, because threads that have just begun still allocate memory.
fn wait_until_others_sleep() {
    let asleep = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'));
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let others_sleep = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
        let others = threads.filter(|thread| thread.file_name() != own.file_name());
        others.into_iter().all(|thread| asleep(&std::fs::read_to_string(thread.join("stat")).unwrap()))
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !others_sleep() {
        assert!(Instant::now() < until, "another thread goes on and on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Limits the process to half a megabyte more of address space.
fn limit_memory() {
    let pages: u64 =
        std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().unwrap().parse().unwrap();
    let bytes = pages * 4096 + (512 << 10);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the call only reads the structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

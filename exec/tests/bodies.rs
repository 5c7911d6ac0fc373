//! Tests of the values that users give for tasks: whatever their size and alignment, and whatever becomes of the
//! task, a value is whole when it runs and is dropped once.

use std::sync::Arc;

use thalweg_exec::{Context, Options, Placement, Ports, Runtime, Stop, Task, TaskSpec};

/// A value of some size and alignment.
trait Shape: Send + 'static {
    const NEW: Self;
}

/// A task with a value of each shape, which counts as alive while `_alive` exists.
struct Shaped<S> {
    shape: S,
    filled: u64,
    attached: bool,
    runs: u64,
    _alive: Arc<()>,
}

#[repr(align(64))]
struct Aligned;
struct Large(#[allow(dead_code, reason = "only the size counts")] [u64; 300]);

impl Shape for () {
    const NEW: Self = ();
}
impl Shape for Aligned {
    const NEW: Self = Aligned;
}
impl Shape for Large {
    const NEW: Self = Large([7; 300]);
}

impl<S: Shape> Task for Shaped<S> {
    fn attach(&mut self, _: &mut Ports<'_>) {
        assert!(self.filled != 13, "attaching fails");
        self.attached = true;
    }

    fn run(&mut self, _: &mut Context<'_>) -> Stop {
        assert!(std::ptr::from_ref(&self.shape).is_aligned());
        assert!(self.attached && self.filled == 77);
        self.runs += 1;
        if self.runs < 3 { Stop::QuantumSpent } else { Stop::Ended }
    }
}

fn shaped<S: Shape>(alive: &Arc<()>, filled: u64) -> Shaped<S> {
    Shaped { shape: S::NEW, filled, attached: false, runs: 0, _alive: alive.clone() }
}

/// Makes a task of a shape while it runs.
struct Makes<S>(Option<Shaped<S>>, Placement);

impl<S: Shape> Task for Makes<S> {
    fn run(&mut self, cx: &mut Context<'_>) -> Stop {
        let shaped = self.0.take().expect("it runs once");
        cx.spawn(TaskSpec { place: self.1, ..TaskSpec::default() }, shaped);
        Stop::Ended
    }
}

fn check<S: Shape>(thread_per_task: bool) {
    let runtime =
        || Runtime::new(Options { workers: 2, thread_per_task, ..Options::default() }).expect("it starts");
    let alive = Arc::new(());
    let left = || Arc::strong_count(&alive) - 1;

    // A task that runs: made before the start, and by another task for each worker.
    let runs = runtime();
    runs.spawn(TaskSpec::default(), shaped::<S>(&alive, 77));
    for worker in 0..2 {
        let makes = Makes(Some(shaped::<S>(&alive, 77)), Placement::on_worker(worker));
        runs.spawn(TaskSpec::default(), makes);
    }
    let summary = runs.join().expect("it ends");
    assert_eq!((summary.tasks, summary.failures.len(), left()), (5, 0, 0));

    // A task that is never started.
    let waits = runtime();
    waits.spawn(TaskSpec::default(), shaped::<S>(&alive, 77));
    drop(waits);
    assert_eq!(left(), 0);

    // A task on another node, which fails at once.
    let elsewhere = runtime();
    let spec = TaskSpec { place: Placement::on_node(1), ..TaskSpec::default() };
    elsewhere.spawn(spec, shaped::<S>(&alive, 77));
    elsewhere.spawn(TaskSpec::default(), Makes(Some(shaped::<S>(&alive, 77)), Placement::on_node(1)));
    assert_eq!((elsewhere.join().expect("it ends").failed, left()), (2, 0));

    // A task whose attaching panics in the task that makes it.
    let fails = runtime();
    let worker = Placement::on_worker(0);
    fails.spawn(TaskSpec::default(), Makes(Some(shaped::<S>(&alive, 13)), worker));
    fails.start();
    while left() > 0 {
        std::thread::yield_now();
    }
    drop(fails);
}

#[test]
fn a_value_without_a_size_of_its_own() {
    check::<()>(false);
}

#[test]
fn a_value_with_a_large_alignment() {
    check::<Aligned>(false);
    check::<Aligned>(true);
}

#[test]
fn a_large_value() {
    check::<Large>(false);
    check::<Large>(true);
}

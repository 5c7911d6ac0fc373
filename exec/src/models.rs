//! Loom's models: the ring and the wake-up protocol under every interleaving and every ordering that the
//! memory model allows (with a bound on preemptions). The models run the runtime's own code; only the
//! loops of their threads are written for the models.
//!
//! The models run by `RUSTFLAGS="--cfg loom" cargo test --release -p thalweg-exec --lib loom_` in a target
//! directory of its own. A lost wake-up shows as a deadlock, a slot read too early as a data race.
//!
//! To check the models, one ordering at a time was removed from the code; the table lists the models that
//! failed for each:
//!
//! | left out | models that fail |
//! |---|---|
//! | the fence of `publish_written`, of `publish_read` | ring passes, grows (the former: both of moved ends, too) |
//! | the fence of `wait_for_room` | ring passes, grows, reader left |
//! | the fence of `wait_for_messages` | ring passes, grows, both wake-ups, moved end |
//! | the fence of `close` | ring passes, grows, both wake-ups |
//! | the fence of `leave` | reader left |
//! | acquire of `tail`, of `head` | ring passes, grows, and others |
//! | release of a block's `next` | ring grows |
//! | in `shrink` the note that the reader's block is not the last one | ring goes on in a smaller block |
//! | in `move_end` the fence | former blocking task (else the barrier in every thread is one) |
//! | in `move_end` the wait for the peer's section; release of the section's end | former task |
//! | acquire and release where references to streams are given up, where those to tasks are | last end; last reference |
//! | acquire of the thread that takes the inbox's tasks | inbox never sleeps, and others |
//! | release of the thread that pushes a ready port, acquire of the one that takes them | none |
//! | the swap of `wake_elsewhere` | moved task, given-away reader |
//! | the fence of `Admission::count`, of `Admission::hold` | held source, message read |
//! | in `Admission::falls_asleep` the look for held sources | held source, all sleep |
//! | the barrier of `Lent::take_back`, of `Lent::borrow`; release of `Lent::lend` | lent value |

use std::ptr::NonNull;
use std::sync::Arc;

use loom::thread;

use crate::parker::Parker;
use crate::ring::stream::{messages, room, shrink, slot, take};
use crate::ring::{AWAKE, FOREIGN, Holder, NO_TOKEN, PORT_WAITS, TASK_WAITS, Wait};
use crate::runtime::ports::Plain;
use crate::shared::Shared;
use crate::shared::options::Options;
use crate::slab;
use crate::sync::{Ordering, barrier};
use crate::task::body::BODILESS;
use crate::task::cell::{Kind, Ring, State, TaskCell};
use crate::task::inbox::Pushed;
use crate::task::spec::{TaskId, TaskSpec};
use crate::telemetry::StreamTelemetry;
use crate::wake::lent::Lent;
use crate::wake::{hold, wake_from_outside};

fn model(work: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS=3` takes minutes.
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(work);
}

/// A pointer that both threads of a model use, as the runtime's ends do.
struct Both<T>(NonNull<T>);

impl<T> Clone for Both<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Both<T> {}
// SAFETY: the target is made for two threads, each of which uses only its own side.
unsafe impl<T> Send for Both<T> {}

impl<T> Both<T> {
    fn get<'a>(self) -> &'a T {
        // SAFETY: the models free the target only when both threads have ended.
        unsafe { self.0.as_ref() }
    }
}

fn ring(capacity: usize) -> Both<Ring> {
    let ring = Ring::new(1, capacity, StreamTelemetry::none(), Plain::<usize>::MESSAGES);
    Both(slab::make(ring))
}

fn push(ring: &Ring, message: usize) -> bool {
    if room::<usize>(ring) == 0 {
        return false;
    }
    let at = ring.writing.pushed.get();
    // SAFETY: we are the writer, and there is room.
    unsafe { slot::<usize>(ring.writing.slots.get(), ring.writing.mask.get(), at).write(message) };
    ring.writing.pushed.set(at + 1);
    true
}

fn pop(ring: &Ring) -> Option<usize> {
    (messages::<usize>(ring) > 0).then(|| take::<usize>(ring))
}

fn give_up(ring: Both<Ring>) {
    // SAFETY: these are the references of the two ends.
    unsafe {
        Ring::release(ring.0.as_ptr());
        Ring::release(ring.0.as_ptr());
    }
}

fn shared() -> Arc<Shared> {
    Shared::new(&Options { workers: 1, ..Options::default() }).unwrap()
}

/// Puts a worker to sleep as its thread does.
fn sleep(shared: &Shared, worker: usize) {
    let letters = &shared.post.of_worker[worker];
    shared.home.inboxes[worker]
        .sleep(None, || shared.stop.load(Ordering::SeqCst) || !letters.is_empty_for_sure());
}

fn task(shared: &Arc<Shared>) -> Both<TaskCell> {
    let task = task_of_no_worker(shared);
    task.get().place(0);
    task
}

fn task_of_no_worker(shared: &Arc<Shared>) -> Both<TaskCell> {
    let kind = Kind { blocking: false, is_shown: false, keeps_spec: false };
    Both(TaskCell::new(shared.home.clone(), TaskId(1), TaskSpec::default(), BODILESS.empty(), kind))
}

/// Two threads pass more messages than the ring holds, and each sleeps when it can do nothing. When the ring
/// is full, the writer changes the ring's capacity to `then`. If the ring `shrinks`, the writer goes on in a
/// block of half as many slots before its last message.
fn ring_passes(capacity: usize, messages: usize, then: Option<u64>, shrinks: bool) {
    model(move || {
        let ring = ring(capacity);
        ring.get().follow_setting();
        let (reader, writer) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
        let (wake_reader, sleep_writer) = (reader.clone(), writer.clone());
        let writing = thread::spawn(move || {
            let ring = ring.get();
            for message in 0..messages {
                if shrinks && message + 1 == messages {
                    shrink::<usize>(ring);
                    ring.writing.limit.set(ring.writing.pushed.get());
                }
                while !push(ring, message) {
                    if then.is_some_and(|then| ring.adopt(then).is_some()) {
                        continue;
                    }
                    if ring.wait_for_room(NO_TOKEN) == Wait::Armed {
                        sleep_writer.park();
                    }
                }
                if ring.publish_written(NO_TOKEN, FOREIGN) != AWAKE {
                    wake_reader.unpark();
                }
                ring.leave_writer_section();
            }
            if ring.close() != AWAKE {
                wake_reader.unpark();
            }
            ring.leave_writer_section();
        });
        let r = ring.get();
        let mut next = 0;
        while !r.ended() {
            match pop(r) {
                Some(message) => {
                    assert_eq!(message, next);
                    next += 1;
                    if r.publish_read(NO_TOKEN, FOREIGN) != AWAKE {
                        writer.unpark();
                    }
                    r.leave_reader_section();
                }
                None => {
                    if r.wait_for_messages(NO_TOKEN, TASK_WAITS) == Wait::Armed {
                        reader.park();
                    }
                }
            }
        }
        assert_eq!(next, messages);
        writing.join().unwrap();
        give_up(ring);
    });
}

#[test]
fn loom_ring_passes_every_message_and_the_end() {
    ring_passes(1, 2, None, false);
}

/// The writer goes on in a larger block of the ring while the reader reads the former block.
#[test]
fn loom_ring_grows() {
    ring_passes(2, 3, None, false);
}

/// The capacity grows from one to two while the ring holds one message: the block for the second message is
/// larger than the first block.
#[test]
fn loom_ring_is_made_to_hold_more() {
    ring_passes(1, 3, Some(2), false);
}

/// The writer leaves the largest block, which has two slots, for a block of one while the reader reads.
#[test]
fn loom_ring_goes_on_in_a_smaller_block() {
    ring_passes(2, 3, None, true);
}

/// The capacity shrinks from two to one while the ring holds two messages.
#[test]
fn loom_ring_is_made_to_hold_fewer() {
    ring_passes(2, 3, Some(1), false);
}

/// A reader that leaves wakes a writer that waits for room.
#[test]
fn loom_ring_tells_the_writer_that_the_reader_left() {
    model(|| {
        let ring = ring(1);
        let parker = Arc::new(Parker::new());
        let sleep = parker.clone();
        let writing = thread::spawn(move || {
            let ring = ring.get();
            assert!(push(ring, 0));
            ring.publish_written(NO_TOKEN, FOREIGN);
            ring.leave_writer_section();
            while ring.reading.reader_gone.load(Ordering::Acquire) == 0 {
                if ring.wait_for_room(NO_TOKEN) == Wait::Armed {
                    sleep.park();
                }
            }
        });
        if ring.get().leave() != AWAKE {
            parker.unpark();
        }
        ring.get().leave_reader_section();
        writing.join().unwrap();
        give_up(ring);
    });
}

/// A worker that sleeps when its inbox is empty gets every task that another thread pushes.
#[test]
fn loom_inbox_never_sleeps_over_a_task() {
    model(|| {
        let shared = shared();
        let tasks = [task(&shared), task(&shared)];
        let pushers = tasks.map(|task| {
            let shared = shared.clone();
            thread::spawn(move || {
                let task = task;
                assert_ne!(shared.home.inboxes[0].push(task.get().counted_reference()), Pushed::Refused);
            })
        });
        let mut count = 0;
        while count < 2 {
            for task in shared.home.inboxes[0].take() {
                count += 1;
                // SAFETY: this gives up the reference that the inbox held.
                unsafe { TaskCell::release(task.as_ptr()) }
            }
            if count < 2 {
                sleep(&shared, 0);
            }
        }
        for pusher in pushers {
            pusher.join().unwrap();
        }
        for task in tasks {
            // SAFETY: this gives up the reference that was made with the task.
            unsafe { TaskCell::release(task.0.as_ptr()) }
        }
    });
}

/// Models a source that goes to sleep because a message is under way, while `other` makes the change that
/// lets the source continue.
fn held_source(other: impl Fn(&Shared) + Send + Sync + Copy + 'static) {
    model(move || {
        let shared = shared();
        let task = task(&shared);
        let admission = &shared.home.admission;
        admission.count(0, 1, 0, 1);
        // Counts the source as awake. The other thread needs no count of its own, because the thread that
        // starts the runtime is counted already.
        admission.wakes();
        let others = shared.clone();
        let thread = thread::spawn(move || other(&others));
        hold(admission, task.get(), 1);
        while admission.holds(task.get().id.0) {
            admission.park(&task.get().parker, None);
        }
        shared.stop.store(true, Ordering::SeqCst);
        barrier();
        shared.home.inboxes[0].wake();
        thread.join().unwrap();
        // SAFETY: this gives up the reference that was made with the task.
        unsafe { TaskCell::release(task.0.as_ptr()) }
    });
}

#[test]
fn loom_held_source_is_let_in_when_the_message_is_read() {
    held_source(|shared| shared.home.admission.count(0, 1, 1, 0));
}

/// The thread that falls asleep last, the source's or a worker's, lets the source continue.
#[test]
fn loom_held_source_is_let_in_when_all_sleep() {
    held_source(|shared| sleep(&shared, 0));
}

/// Models the complete wake-up: a writer publishes and wakes the reading task through its worker's inbox,
/// while that task runs, goes idle, or its worker falls asleep.
fn wake_up(how: u8, messages: usize) {
    model(move || {
        let shared = shared();
        let (ring, task) = (ring(2), task(&shared));
        ring.get().enroll(0, 0);
        // SAFETY: no other thread has the task yet.
        unsafe { task.get().groups() }.push(crate::task::cell::Group::default());
        let writing = thread::spawn(move || {
            let (ring, task) = (ring.get(), task.get());
            let wake = |waits| {
                if waits == PORT_WAITS {
                    task.push_ready_port(ring);
                }
                if waits != AWAKE {
                    wake_from_outside(task);
                }
                ring.leave_writer_section();
            };
            for message in 0..messages {
                assert!(push(ring, message));
                wake(ring.publish_written(NO_TOKEN, FOREIGN));
            }
            wake(ring.close());
        });
        let (r, t) = (ring.get(), task.get());
        let (mut ready, mut port_ready, mut next) = (true, true, 0);
        loop {
            for task in shared.home.inboxes[0].take() {
                t.in_inbox.swap(false, Ordering::AcqRel);
                ready = true;
                // SAFETY: this gives up the reference that the inbox held.
                unsafe { TaskCell::release(task.as_ptr()) }
            }
            if !ready {
                sleep(&shared, 0);
                continue;
            }
            ready = false;
            if how == PORT_WAITS {
                // SAFETY: this is the task's thread.
                port_ready |= unsafe { t.has_ready_port() };
                // SAFETY: this is the task's thread; `port_ready` keeps whether a port was ready.
                unsafe { t.drop_ready_ports_of_model() };
                if !port_ready {
                    continue;
                }
            }
            while let Some(message) = pop(r) {
                assert_eq!(message, next);
                next += 1;
            }
            r.publish_read(NO_TOKEN, FOREIGN);
            r.leave_reader_section();
            if r.ended() {
                break;
            }
            match r.wait_for_messages(NO_TOKEN, how) {
                Wait::Armed => port_ready = false,
                Wait::Ready => ready = true,
                Wait::Over => unreachable!("the end was not seen"),
            }
        }
        assert_eq!(next, messages);
        writing.join().unwrap();
        for task in shared.home.inboxes[0].shut() {
            // SAFETY: this gives up the reference that the inbox held.
            unsafe { TaskCell::release(task.as_ptr()) }
        }
        // SAFETY: this is the task's thread; the last reference is the one from its creation.
        unsafe {
            t.forget_waits();
            TaskCell::release(task.0.as_ptr());
        }
        give_up(ring);
    });
}

#[test]
fn loom_wake_up_of_a_task_is_never_lost() {
    wake_up(TASK_WAITS, 2);
}

#[test]
fn loom_wake_up_of_a_port_is_never_lost() {
    wake_up(PORT_WAITS, 1);
}

/// The reading end moves to another task while its writer publishes: the new reader gets the message, and the
/// former task is not used after the move.
#[test]
fn loom_moved_end_gets_its_message() {
    model(|| {
        let shared = shared();
        let ring = ring(1);
        let (before, after) = (task(&shared), task(&shared));
        ring.get().move_reader(Some(before.get()), FOREIGN);
        let writing = thread::spawn(move || {
            let ring = ring.get();
            assert!(push(ring, 7));
            if ring.publish_written(NO_TOKEN, FOREIGN) != AWAKE {
                // SAFETY: this thread is in the writer's section, so the visible reference is not given up.
                let task = unsafe { ring.reading.task.load(Ordering::SeqCst).as_ref() };
                wake_from_outside(task.expect("a reader waits"));
            }
            ring.leave_writer_section();
        });
        let r = ring.get();
        r.move_reader(Some(after.get()), FOREIGN);
        // The writer no longer uses the former task, so the reference from its creation is the only one.
        // SAFETY: this gives up the reference that was made with the task.
        unsafe { TaskCell::release(before.0.as_ptr()) };
        while pop(r).is_none() {
            if r.wait_for_messages(NO_TOKEN, TASK_WAITS) == Wait::Armed {
                while shared.home.inboxes[0].take().next().is_none() {
                    sleep(&shared, 0);
                }
                after.get().in_inbox.swap(false, Ordering::AcqRel);
            }
        }
        writing.join().unwrap();
        r.move_reader(None, FOREIGN);
        give_up(ring);
        drop(shared.home.inboxes[0].shut());
        // SAFETY: this gives up the reference that was made with the task.
        unsafe { TaskCell::release(after.0.as_ptr()) };
    });
}

/// A task moves from worker 0 to worker 1 while a third thread publishes to it: the worker that has the task
/// afterwards sees the message, and only one worker ever has it.
#[test]
fn loom_moved_task_gets_its_message() {
    model(|| {
        let shared = Shared::new(&Options { workers: 2, ..Options::default() }).unwrap();
        let (ring, task) = (ring(1), task(&shared));
        ring.get().move_reader(Some(task.get()), FOREIGN);
        ring.get().wait_for_messages(NO_TOKEN, TASK_WAITS);
        let writing = thread::spawn(move || {
            let ring = ring.get();
            assert!(push(ring, 7));
            if ring.publish_written(NO_TOKEN, FOREIGN) != AWAKE {
                // SAFETY: this thread is in the writer's section, so the visible reference is not given up.
                let task = unsafe { ring.reading.task.load(Ordering::SeqCst).as_ref() };
                wake_from_outside(task.expect("a reader waits"));
            }
            ring.leave_writer_section();
        });
        let for_first = shared.clone();
        let first = thread::spawn(move || {
            let (shared, t) = (for_first, task.get());
            let give = || {
                t.state.set(State::Moving);
                t.leave_worker();
                assert_ne!(shared.home.inboxes[1].push(t.counted_reference()), Pushed::Refused);
            };
            if !t.in_inbox.swap(true, Ordering::AcqRel) {
                return give();
            }
            loop {
                if let Some(woken) = shared.home.inboxes[0].take().next() {
                    // SAFETY: this gives up the reference that the inbox held.
                    unsafe { TaskCell::release(woken.as_ptr()) }
                    return give();
                }
                sleep(&shared, 0);
            }
        });
        let (r, t) = (ring.get(), task.get());
        let mut here = false;
        loop {
            for arrived in shared.home.inboxes[1].take() {
                if t.state.get() == State::Moving {
                    t.place(1);
                    t.state.set(State::Ready);
                    here = true;
                }
                t.in_inbox.swap(false, Ordering::AcqRel);
                // SAFETY: this gives up the reference that the inbox held.
                unsafe { TaskCell::release(arrived.as_ptr()) }
            }
            if here {
                if pop(r).is_some() {
                    break;
                }
                if r.wait_for_messages(NO_TOKEN, TASK_WAITS) == Wait::Ready {
                    continue;
                }
            }
            sleep(&shared, 1);
        }
        writing.join().unwrap();
        first.join().unwrap();
        r.move_reader(None, FOREIGN);
        give_up(ring);
        for inbox in &shared.home.inboxes {
            for woken in inbox.shut() {
                // SAFETY: this gives up the reference that the inbox held.
                unsafe { TaskCell::release(woken.as_ptr()) }
            }
        }
        // SAFETY: this gives up the reference that was made with the task.
        unsafe { TaskCell::release(task.0.as_ptr()) };
    });
}

/// A writer has cached that its reader lives on its own worker; the reader is given away, and the writer,
/// with a new token, wakes it on its new worker.
#[test]
fn loom_given_away_reader_is_woken_elsewhere() {
    model(|| {
        let shared = Shared::new(&Options { workers: 2, ..Options::default() }).unwrap();
        let (ring, task) = (ring(2), task(&shared));
        let (r, t) = (ring.get(), task.get());
        r.move_reader(Some(t), 0);
        let me = shared.tokens.take_for_model();
        // The first publication learns with a fence which worker has the reader; the next publication uses
        // that knowledge without a fence.
        assert!(push(r, 0));
        r.publish_written(me, 0);
        r.leave_writer_section();
        assert_eq!(pop(r), Some(0));
        r.publish_read(me, 0);
        r.leave_reader_section();
        assert_eq!(r.wait_for_messages(me, TASK_WAITS), Wait::Armed);
        // The task is given to worker 1, which may run it at once.
        let me = shared.tokens.take_for_model();
        assert!(!t.in_inbox.swap(true, Ordering::AcqRel));
        t.leave_worker();
        assert_ne!(shared.home.inboxes[1].push(t.counted_reference()), Pushed::Refused);
        let for_second = shared.clone();
        let second = thread::spawn(move || {
            let (shared, r, t) = (for_second, ring.get(), task.get());
            let me = shared.tokens.take_for_model();
            loop {
                for arrived in shared.home.inboxes[1].take() {
                    t.place(1);
                    t.in_inbox.swap(false, Ordering::AcqRel);
                    // SAFETY: this gives up the reference that the inbox held.
                    unsafe { TaskCell::release(arrived.as_ptr()) }
                }
                if t.worker() == 1 {
                    if pop(r).is_some() {
                        return;
                    }
                    if r.wait_for_messages(me, TASK_WAITS) == Wait::Ready {
                        continue;
                    }
                }
                sleep(&shared, 1);
            }
        });
        assert!(push(r, 1));
        if r.publish_written(me, 0) & TASK_WAITS != 0 {
            wake_from_outside(t);
        }
        r.leave_writer_section();
        second.join().unwrap();
        r.move_reader(None, FOREIGN);
        give_up(ring);
        for woken in shared.home.inboxes[1].shut() {
            // SAFETY: this gives up the reference that the inbox held.
            unsafe { TaskCell::release(woken.as_ptr()) }
        }
        // SAFETY: this gives up the reference that was made with the task.
        unsafe { TaskCell::release(task.0.as_ptr()) };
    });
}

/// Stands for memory that is freed once no thread may use it any more: a use of the memory is a read and
/// freeing is a write, and loom reports a read and a write that are not ordered.
#[derive(Clone)]
struct Freed(Arc<loom::cell::UnsafeCell<bool>>);

// SAFETY: loom watches every access.
unsafe impl Send for Freed {}
// SAFETY: loom watches every access.
unsafe impl Sync for Freed {}

impl Freed {
    fn not_yet() -> Freed {
        Freed(Arc::new(loom::cell::UnsafeCell::new(false)))
    }

    fn use_it(&self) {
        // SAFETY: loom reports a write at the same time.
        self.0.with(|freed| assert!(!unsafe { *freed }, "used after it was freed"));
    }

    fn free_it(&self) {
        // SAFETY: loom reports any other access at the same time.
        self.0.with_mut(|freed| assert!(!std::mem::replace(unsafe { &mut *freed }, true), "freed twice"));
    }

    fn is_freed(&self) -> bool {
        // SAFETY: loom reports any other access at the same time.
        self.0.with(|freed| unsafe { *freed })
    }
}

/// The reading end moves away from a task, which is freed right after the move, while the writer may still
/// use the task that it saw as the reader.
fn moved_end_frees_its_former_task(former: fn(&Arc<Shared>) -> Both<TaskCell>) {
    model(move || {
        let shared = shared();
        let ring = ring(2);
        let (before, after) = (former(&shared), task(&shared));
        let former = Freed::not_yet();
        ring.get().move_reader(Some(before.get()), FOREIGN);
        let used = former.clone();
        let writing = thread::spawn(move || {
            let ring = ring.get();
            assert!(push(ring, 7));
            ring.publish_written(NO_TOKEN, FOREIGN);
            if ring.reading.task.load(Ordering::SeqCst) == before.0.as_ptr() {
                used.use_it();
            }
            ring.leave_writer_section();
        });
        ring.get().move_reader(Some(after.get()), FOREIGN);
        former.free_it();
        writing.join().unwrap();
        ring.get().move_reader(None, FOREIGN);
        give_up(ring);
        for task in [before, after] {
            // SAFETY: this gives up the reference that was made with the task.
            unsafe { TaskCell::release(task.0.as_ptr()) };
        }
    });
}

#[test]
fn loom_moved_end_frees_its_former_task_after_the_last_use() {
    moved_end_frees_its_former_task(task);
}

/// The former task of a moved end is also freed only after its last use if the move needs no barrier in every
/// thread, because the former task had a thread of its own.
#[test]
fn loom_moved_end_frees_its_former_blocking_task_after_the_last_use() {
    moved_end_frees_its_former_task(task_of_no_worker);
}

/// Both ends of a stream are dropped at once: neither end uses the task at the other end after the other end
/// has released that task.
#[test]
fn loom_ends_that_go_at_once_free_their_tasks_after_the_last_use() {
    model(|| {
        let shared = shared();
        let ring = ring(2);
        let (reader, writer) = (task_of_no_worker(&shared), task_of_no_worker(&shared));
        ring.get().move_reader(Some(reader.get()), FOREIGN);
        ring.get().move_writer(Some(writer.get()), FOREIGN);
        let (of_reader, of_writer) = (Freed::not_yet(), Freed::not_yet());
        let (used, freed) = (of_reader.clone(), of_writer.clone());
        let writing = thread::spawn(move || {
            let r = ring.get();
            r.end_writing(NO_TOKEN, FOREIGN);
            if r.reading.task.load(Ordering::SeqCst) == reader.0.as_ptr() {
                used.use_it();
            }
            r.leave_writer_section();
            freed.free_it();
        });
        let r = ring.get();
        r.end_reading(NO_TOKEN, FOREIGN);
        if r.writing.task.load(Ordering::SeqCst) == writer.0.as_ptr() {
            of_writer.use_it();
        }
        r.leave_reader_section();
        of_reader.free_it();
        writing.join().unwrap();
        assert!(
            r.reading.task.load(Ordering::SeqCst).is_null()
                && r.writing.task.load(Ordering::SeqCst).is_null()
        );
        give_up(ring);
        for task in [reader, writer] {
            // SAFETY: this gives up the reference that was made with the task.
            unsafe { TaskCell::release(task.0.as_ptr()) };
        }
    });
}

/// A message that records that it was dropped.
struct Message(Freed);

impl Drop for Message {
    fn drop(&mut self) {
        self.0.free_it();
    }
}

fn push_message(ring: &Ring, message: Message) {
    assert!(room::<Message>(ring) > 0);
    // SAFETY: we are the writer, and there is room.
    unsafe {
        slot::<Message>(ring.writing.slots.get(), ring.writing.mask.get(), ring.writing.pushed.get())
            .write(message)
    };
    ring.writing.pushed.set(ring.writing.pushed.get() + 1);
}

/// Two threads give up the ends of a stream: the last one frees it, with a message that nobody read.
#[test]
fn loom_last_end_frees_the_stream_with_its_messages() {
    model(|| {
        let message = Freed::not_yet();
        let ring = Ring::new(1, 2, StreamTelemetry::none(), Plain::<Message>::MESSAGES);
        let ring = Both(slab::make(ring));
        let written = message.clone();
        let writing = thread::spawn(move || {
            let ring = ring;
            written.use_it();
            push_message(ring.get(), Message(written));
            // SAFETY: this is the writing end's reference.
            unsafe { Ring::release(ring.0.as_ptr()) };
        });
        // SAFETY: this is the reading end's reference.
        unsafe { Ring::release(ring.0.as_ptr()) };
        writing.join().unwrap();
        assert!(message.is_freed());
    });
}

/// A writer puts a port on a task's stack of ready ports while the last reference to the task is given up:
/// the thread that frees the task also frees the stream.
#[test]
fn loom_last_reference_frees_a_task_with_its_ready_ports() {
    model(|| {
        let shared = shared();
        let message = Freed::not_yet();
        let ring = Ring::new(1, 2, StreamTelemetry::none(), Plain::<Message>::MESSAGES);
        let ring = Both(slab::make(ring));
        push_message(ring.get(), Message(message.clone()));
        let task = task(&shared);
        task.get().counted();
        let waking = thread::spawn(move || {
            task.get().push_ready_port(ring.get());
            give_up(ring);
            // SAFETY: this gives up the reference that was taken above.
            unsafe { TaskCell::release(task.0.as_ptr()) };
        });
        // SAFETY: this gives up the reference that was made with the task.
        unsafe { TaskCell::release(task.0.as_ptr()) };
        waking.join().unwrap();
        assert!(message.is_freed());
    });
}

/// Two writers each push a port on a task's stack while the task empties the stack: the task gets both ports.
#[test]
fn loom_stack_of_ready_ports_loses_none() {
    model(|| {
        let shared = shared();
        let (first, second, task) = (ring(1), ring(1), task(&shared));
        [first, second].into_iter().for_each(|ring| ring.get().enroll(0, 0));
        // SAFETY: no other thread has the task yet.
        unsafe { task.get().groups() }.push(crate::task::cell::Group::default());
        let pushing =
            [first, second].map(|ring| thread::spawn(move || task.get().push_ready_port(ring.get())));
        // SAFETY: this is the task's thread.
        unsafe { task.get().sort_ready_ports() };
        pushing.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: this is the task's thread; the reference to the groups ends with the line.
        let found = unsafe {
            task.get().sort_ready_ports();
            task.get().groups()[0].ready.len()
        };
        assert_eq!(found, 2);
        // SAFETY: this is the task's thread; the last reference is the one from its creation.
        unsafe {
            task.get().forget_waits();
            TaskCell::release(task.0.as_ptr());
        }
        [first, second].into_iter().for_each(give_up);
    });
}

/// A value that is lent is used by one thread at a time, and its owner learns of every change before it uses the
/// value again.
#[test]
fn loom_lent_value_is_used_by_one_thread_at_a_time() {
    model(|| {
        let lent = Arc::new(Lent::new(loom::cell::UnsafeCell::new(0)));
        let borrowers = [(); 2].map(|()| {
            let lent = lent.clone();
            thread::spawn(move || {
                let Some(turn) = lent.lent_since() else { return false };
                // SAFETY: loom checks that no other thread uses the value.
                lent.borrow(turn, |value| value.with_mut(|value| unsafe { *value += 1 }) == ())
            })
        });
        // SAFETY: the value is not lent when this is called; loom checks that no other thread uses it.
        let look = || unsafe { &*lent.value() }.with(|value| unsafe { *value });
        let (mut before, mut told) = (look(), 0);
        for _ in 0..2 {
            lent.lend();
            thread::yield_now();
            let is_changed = lent.take_back();
            let now = look();
            assert_eq!(is_changed, now != before);
            told += now - before;
            before = now;
        }
        let changes = borrowers.map(|borrower| borrower.join().unwrap());
        assert_eq!(changes.into_iter().filter(|changed| *changed).count(), told);
        assert_eq!(look(), told);
    });
}

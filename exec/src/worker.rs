//! A worker: a thread that dispatches its ready tasks, spins a little when there are none, then sleeps.

use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::affinity;
use crate::dispatch::Core;
use crate::runtime::Shared;
use crate::sync::Ordering;

/// Runs worker `number` until the runtime stops.
pub(crate) fn run(shared: Arc<Shared>, number: u32, core_to_pin: Option<usize>) {
    if let Some(core) = core_to_pin {
        // A refused pinning costs speed, not correctness.
        let _ = affinity::pin(core);
    }
    shared.inboxes[number as usize].open(thread::current());
    let core = NonNull::from(Box::leak(Box::new(Core::new(shared.clone(), number))));
    Core::with(core, || {
        work(core, &shared, number);
        Core::drop_tasks(core);
        close_inbox(core, &shared, number);
    });
    // SAFETY: leaked above, and nobody else has it.
    drop(unsafe { Box::from_raw(core.as_ptr()) });
}

fn work(core: NonNull<Core>, shared: &Shared, number: u32) {
    let inbox = &shared.inboxes[number as usize];
    while !shared.stop.load(Ordering::Relaxed) {
        if !inbox.is_empty() {
            // SAFETY: the thread's own core; waking runs no user's code.
            unsafe { &mut *core.as_ptr() }.empty_inbox();
        }
        // SAFETY: as above.
        match unsafe { &mut *core.as_ptr() }.next_task() {
            Some(task) => Core::dispatch(core, task),
            None => wait(shared, number),
        }
    }
}

/// Spins for about the price of a sleep, then sleeps.
fn wait(shared: &Shared, number: u32) {
    let inbox = &shared.inboxes[number as usize];
    let spin_us = shared.spin_us();
    let started = Instant::now();
    while started.elapsed().as_micros() < u128::from(spin_us) {
        for _ in 0..32 {
            if !inbox.is_empty() || shared.stop.load(Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
    }
    inbox.sleep(&shared.stop);
}

/// Refuses more tasks and drops those that never ran.
fn close_inbox(core: NonNull<Core>, shared: &Shared, number: u32) {
    let inbox = &shared.inboxes[number as usize];
    for task in inbox.shut() {
        // SAFETY: the thread's own core; adopting runs no user's code. The inbox's reference is ours.
        unsafe {
            let core = &mut *core.as_ptr();
            match task.as_ref().state.get() {
                crate::task::State::New => core.adopt(task),
                _ => crate::task::TaskCell::release(task.as_ptr()),
            }
        }
    }
    Core::drop_tasks(core);
}

//! The senders of links that have nothing to send. The task of such a sender waits for records, and nobody
//! would notice that its connection broke before the receiver had all bytes. So the task leaves the sender
//! here, where the session looks after it, and takes it back when it has a record.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use thalweg_link::{Error, Sender};

/// How often the connections of idle senders are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The place for one sender while it is idle.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    node: usize,
    place: Mutex<Place>,
    back: Condvar,
}

#[derive(Debug, Default)]
struct Place {
    sender: Option<Sender>,
    /// Whether a thread makes a new connection with the sender, and will put it back.
    is_resuming: bool,
}

impl Idle {
    /// Leaves a sender here.
    pub(crate) fn put(&self, sender: Option<Sender>) {
        self.place().sender = sender;
    }

    /// Takes the sender back, if there is one.
    pub(crate) fn take(&self) -> Option<Sender> {
        let place = self.back.wait_while(self.place(), |place| place.is_resuming);
        place.unwrap_or_else(PoisonError::into_inner).sender.take()
    }

    /// A panic under this lock leaves the sender here or with its task.
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a new connection if the one of the sender here broke, on a thread of its own: the receiver may
    /// take long to answer.
    fn look(self: &Arc<Idle>, failed: impl FnOnce(usize, &Error) + Send + 'static) {
        let mut place = self.place();
        if !place.sender.as_mut().is_some_and(Sender::is_broken) {
            return;
        }
        place.is_resuming = true;
        drop(place);
        let idle = self.clone();
        let thread = std::thread::Builder::new().name("link resumes".into());
        let started = thread.spawn(move || {
            let mut sender = idle.place().sender.take();
            if let Some(Err(error)) = sender.as_mut().map(Sender::resume) {
                failed(idle.node, &error);
            }
            idle.give_back(sender);
        });
        if started.is_err() {
            // The system has no thread now; the next look tries again.
            let sender = self.place().sender.take();
            self.give_back(sender);
        }
    }

    fn give_back(&self, sender: Option<Sender>) {
        *self.place() = Place { sender, is_resuming: false };
        self.back.notify_all();
    }
}

/// All places of a process's senders.
#[derive(Debug, Default)]
pub(crate) struct IdleSenders(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    places: Vec<Weak<Idle>>,
    looked: Option<Instant>,
}

impl IdleSenders {
    /// A place for the sender of a link to this node.
    pub(crate) fn add(&self, node: usize) -> Arc<Idle> {
        let idle = Arc::new(Idle { node, ..Idle::default() });
        self.all().places.push(Arc::downgrade(&idle));
        idle
    }

    /// Looks after all senders that are idle, if that is due. `failed` is called if a sender does not reach
    /// its node.
    pub(crate) fn look(&self, failed: impl FnOnce(usize, &Error) + Clone + Send + 'static) {
        let mut all = self.all();
        if all.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        all.looked = Some(Instant::now());
        all.places.retain(|idle| idle.strong_count() > 0);
        all.places.iter().filter_map(Weak::upgrade).for_each(|idle| idle.look(failed.clone()));
    }

    /// A panic under this lock leaves the list complete.
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The positions of a ring in shared memory, and the marks by which its ends ask to be woken.
//!
//! Each end stores its own position, then looks whether the other end asked to be woken. An end that finds
//! nothing to do asks to be woken, and then looks at the other end's position once more before it sleeps. Each
//! end stores before it loads, both sequentially consistent, so at least one of them sees the other's store: no
//! wake-up is lost. The other process may write anything into this memory, so an end keeps its own position
//! itself and checks the one that it reads.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// An end asks to be woken when there is something to read.
pub(super) const TO_READ: u32 = 1;
/// An end asks to be woken when there is room to write.
pub(super) const TO_WRITE: u32 = 2;

/// A value with a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line<T>(T);

/// The positions of a ring: bytes since the beginning.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Marks {
    /// The bytes that were written. The field is written by the writing end; a value stands for bytes that are
    /// in the ring.
    written: Line<AtomicU64>,
    /// The bytes that were read, whose places are free. The field is written by the reading end.
    read: Line<AtomicU64>,
}

/// What one end waits for. The field is set by this end before it sleeps and cleared afterwards; the other end
/// clears a bit before it wakes this one.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Asks(Line<AtomicU32>);

/// The other end has stored a position that is impossible.
#[derive(Debug)]
pub(super) struct Impossible;

/// The full barrier after a sequentially consistent store. On x86-64 the store itself is one.
fn barrier() {
    if cfg!(any(loom, not(target_arch = "x86_64"))) {
        fence(Ordering::SeqCst);
    }
}

impl Asks {
    /// Asks to be woken. The caller looks at the positions afterwards, and sleeps only if there is nothing to do.
    pub(super) fn ask(&self, what: u32) {
        self.0.0.swap(what, Ordering::SeqCst);
        barrier();
    }

    /// Asks for nothing any more.
    pub(super) fn clear(&self) {
        self.0.0.swap(0, Ordering::AcqRel);
    }

    /// Takes back what the end asked for; returns whether it has to be woken.
    fn answer(&self, what: u32) -> bool {
        self.0.0.load(Ordering::SeqCst) & what != 0 && self.0.0.fetch_and(!what, Ordering::AcqRel) & what != 0
    }
}

/// The writing end's view of a ring.
#[derive(Debug)]
pub(super) struct Writing {
    capacity: u64,
    written: u64,
    /// The reader's position as it was read last.
    read: u64,
}

impl Writing {
    pub(super) fn new(capacity: usize) -> Writing {
        Writing { capacity: capacity as u64, written: 0, read: 0 }
    }

    /// The place at which the next byte is written.
    pub(super) fn at(&self) -> usize {
        (self.written % self.capacity) as usize
    }

    /// The bytes for which there is room. The reader's position is read only if less than `wanted` is known to be
    /// free.
    pub(super) fn room(&mut self, marks: &Marks, wanted: usize) -> Result<usize, Impossible> {
        let known = self.capacity - (self.written - self.read);
        if known >= wanted as u64 {
            return Ok(known as usize);
        }
        let read = marks.read.0.load(Ordering::SeqCst);
        if read < self.read || read > self.written {
            return Err(Impossible);
        }
        self.read = read;
        Ok((self.capacity - (self.written - read)) as usize)
    }

    /// The bytes were written; returns whether the reader has to be woken.
    pub(super) fn publish(&mut self, marks: &Marks, bytes: usize, reader: &Asks) -> bool {
        self.written += bytes as u64;
        marks.written.0.store(self.written, Ordering::SeqCst);
        barrier();
        reader.answer(TO_READ)
    }
}

/// The reading end's view of a ring.
#[derive(Debug)]
pub(super) struct Reading {
    capacity: u64,
    read: u64,
    /// The writer's position as it was read last.
    written: u64,
}

impl Reading {
    pub(super) fn new(capacity: usize) -> Reading {
        Reading { capacity: capacity as u64, read: 0, written: 0 }
    }

    /// The place of the next byte.
    pub(super) fn at(&self) -> usize {
        (self.read % self.capacity) as usize
    }

    /// The bytes that can be read. The writer's position is read only if fewer than `wanted` are known.
    pub(super) fn held(&mut self, marks: &Marks, wanted: usize) -> Result<usize, Impossible> {
        if self.written - self.read < wanted as u64 {
            let written = marks.written.0.load(Ordering::SeqCst);
            if written < self.written || written - self.read > self.capacity {
                return Err(Impossible);
            }
            self.written = written;
        }
        Ok((self.written - self.read) as usize)
    }

    /// The bytes were read; returns whether the writer has to be woken.
    pub(super) fn release(&mut self, marks: &Marks, bytes: usize, writer: &Asks) -> bool {
        self.read += bytes as u64;
        marks.read.0.store(self.read, Ordering::SeqCst);
        barrier();
        writer.answer(TO_WRITE)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};

    const CAPACITY: usize = 2;

    #[derive(Default)]
    struct Shared {
        marks: Marks,
        asks: [Asks; 2],
        places: [UnsafeCell<u8>; CAPACITY],
    }

    /// What the socket does: a call is kept until the end sleeps.
    struct Bell(Mutex<bool>, Condvar);

    impl Bell {
        fn ring(&self) {
            *self.0.lock().expect("no panic") = true;
            self.1.notify_one();
        }

        fn wait(&self) {
            let mut is_rung = self.0.lock().expect("no panic");
            while !std::mem::take(&mut *is_rung) {
                is_rung = self.1.wait(is_rung).expect("no panic");
            }
        }
    }

    /// A writer fills a ring of two places with four numbers, and a reader takes them. Each sleeps when it has
    /// nothing to do. A wake-up that is lost is a deadlock, a place that is read too early a data race.
    #[test]
    fn loom_ring_in_shared_memory() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.check(|| {
            let shared = Arc::new(Shared::default());
            let bells = [(); 2].map(|()| Arc::new(Bell(Mutex::new(false), Condvar::new())));
            let (theirs, rung) = (shared.clone(), bells.clone());
            let writer = loom::thread::spawn(move || {
                let mut writing = Writing::new(CAPACITY);
                for number in 0..4 {
                    while writing.room(&theirs.marks, 1).expect("a position") == 0 {
                        theirs.asks[0].ask(TO_WRITE);
                        if writing.room(&theirs.marks, 1).expect("a position") == 0 {
                            rung[0].wait();
                        }
                        theirs.asks[0].clear();
                    }
                    // SAFETY: the place is free, so only this thread uses it.
                    theirs.places[writing.at()].with_mut(|place| unsafe { *place = number });
                    if writing.publish(&theirs.marks, 1, &theirs.asks[1]) {
                        rung[1].ring();
                    }
                }
            });
            let mut reading = Reading::new(CAPACITY);
            for number in 0..4 {
                while reading.held(&shared.marks, 1).expect("a position") == 0 {
                    shared.asks[1].ask(TO_READ);
                    if reading.held(&shared.marks, 1).expect("a position") == 0 {
                        bells[1].wait();
                    }
                    shared.asks[1].clear();
                }
                // SAFETY: the writer does not use a place that was written and not read.
                let got = shared.places[reading.at()].with(|place| unsafe { *place });
                assert_eq!(got, number);
                if reading.release(&shared.marks, 1, &shared.asks[0]) {
                    bells[0].ring();
                }
            }
            writer.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn impossible_positions_are_noticed() {
        let (marks, asks) = (Marks::default(), Asks::default());
        let mut reading = Reading::new(8);
        marks.written.0.store(9, Ordering::Relaxed);
        assert!(reading.held(&marks, 1).is_err(), "more than the ring holds");
        marks.written.0.store(5, Ordering::Relaxed);
        assert_eq!(reading.held(&marks, 1).expect("bytes"), 5);
        assert!(!reading.release(&marks, 5, &asks));
        marks.written.0.store(4, Ordering::Relaxed);
        assert!(reading.held(&marks, 1).is_err(), "backward");

        let marks = Marks::default();
        let mut writing = Writing::new(8);
        assert_eq!(writing.room(&marks, 1).expect("room"), 8);
        assert!(!writing.publish(&marks, 6, &asks));
        marks.read.0.store(7, Ordering::Relaxed);
        assert!(writing.room(&marks, 3).is_err(), "more was read than was written");
        marks.read.0.store(6, Ordering::Relaxed);
        assert_eq!(writing.room(&marks, 3).expect("room"), 8);
        marks.read.0.store(5, Ordering::Relaxed);
        assert!(writing.room(&marks, 9).is_err(), "backward");
    }

    #[test]
    fn an_end_that_asked_is_woken_once() {
        let (marks, asks) = (Marks::default(), Asks::default());
        let (mut writing, mut reading) = (Writing::new(8), Reading::new(8));
        assert!(!writing.publish(&marks, 1, &asks), "it did not ask");
        asks.ask(TO_READ | TO_WRITE);
        assert!(writing.publish(&marks, 1, &asks) && !writing.publish(&marks, 1, &asks));
        assert!(reading.release(&marks, 1, &asks) && !reading.release(&marks, 1, &asks));
    }
}

//! Samples of the instructions at which a thread runs, made by the kernel at intervals of the thread's
//! processor time (`perf_event_open(2)`), and whether an instruction is part of a loop that waits for another
//! thread.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::procfs::Memory;

/// The processor time of a thread between two samples, in nanoseconds, until there are [`FIRST`] of them, and
/// after that. A sample costs some 14 µs where the kernel runs in a virtual machine, so the first samples, by
/// which short runs are judged, cost 0.7 ms, and further ones 0.09 % of the thread's time.
const EVERY_NS: u64 = 2_000_000;
static LATER_NS: u64 = 16_000_000;
const FIRST: u64 = 50;
/// The size of a page of the kernel, and the number of pages for samples; a sample takes 24 bytes.
const PAGE: usize = 4096;
const PAGES: usize = 4;
/// The bytes before and after an instruction in which a loop that waits has its instruction for waiting.
const AROUND: u64 = 16;
/// The most instructions that are remembered.
const KNOWN_MAX: usize = 4096;

/// The first part of the kernel's `struct perf_event_attr`, up to its fifth version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    more: [u64; 2],
}

/// A software event that counts a thread's time on a processor.
const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;
/// A sample consists of the instruction's address and the time.
const ADDRESS_AND_TIME: u64 = 1 | 1 << 2;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const USE_CLOCK: u64 = 1 << 25;
const CLOSE_ON_EXEC: i64 = 1 << 3;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const PERIOD: libc::c_ulong = 0x4008_2404;
/// Where the first page has the positions up to which the kernel has written and this process has read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// The type of a record that is a sample, and the sizes of a record's header and of a sample.
const SAMPLE: u32 = 9;
const HEADER_BYTES: u64 = 8;
const SAMPLE_BYTES: u64 = 24;

/// The clock of the times of samples, in nanoseconds.
pub(crate) fn clock_ns() -> u64 {
    crate::affinity::clock_ns(libc::CLOCK_MONOTONIC)
}

/// The kernel's samples of one thread of this process.
pub(crate) struct Instructions {
    event: OwnedFd,
    ring: NonNull<u8>,
    is_on: bool,
    /// The number of samples so far.
    taken: u64,
}

// SAFETY: the memory belongs to this value alone, and the kernel does not care which thread reads it.
unsafe impl Send for Instructions {}

impl Instructions {
    /// Prepares to sample a thread of this process; `None` if the kernel refuses.
    pub(crate) fn of(thread: i32) -> Option<Instructions> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: TASK_CLOCK,
            sample_period: EVERY_NS,
            sample_type: ADDRESS_AND_TIME,
            flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | USE_CLOCK,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let (any, none) = (-1_i64, -1_i64);
        // SAFETY: the kernel reads as many bytes of the attributes as they say.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                i64::from(thread),
                any,
                none,
                CLOSE_ON_EXEC,
            )
        };
        // SAFETY: the file is new, and nobody else closes it.
        let event = (event >= 0).then(|| unsafe { OwnedFd::from_raw_fd(event as i32) })?;
        // SAFETY: a new mapping replaces no memory.
        let ring = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (1 + PAGES) * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        let ring = if ring == libc::MAP_FAILED { None } else { NonNull::new(ring.cast::<u8>()) }?;
        Some(Instructions { event, ring, is_on: false, taken: 0 })
    }

    /// Switches sampling on or off.
    pub(crate) fn switch(&mut self, on: bool) {
        if self.is_on != on {
            self.is_on = on;
            // SAFETY: these requests have no argument.
            unsafe { libc::ioctl(self.event.as_raw_fd(), if on { ENABLE } else { DISABLE } as _, 0) };
        }
    }

    /// Whether there is no sample since the last call of [`Instructions::each`].
    pub(crate) fn is_empty(&self) -> bool {
        self.position(HEAD).load(Ordering::Relaxed) == self.position(TAIL).load(Ordering::Relaxed)
    }

    /// Calls `take` with the address and the time of each sample since the last call.
    pub(crate) fn each(&mut self, mut take: impl FnMut(u64, u64)) {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut at = self.position(TAIL).load(Ordering::Relaxed);
        let before = self.taken;
        while head.saturating_sub(at) >= HEADER_BYTES {
            let header = self.word(at);
            let (kind, bytes) = (header as u32, header >> 48);
            if bytes < HEADER_BYTES || bytes > head - at {
                break;
            }
            if kind == SAMPLE && bytes >= SAMPLE_BYTES {
                take(self.word(at + 8), self.word(at + 16));
                self.taken += 1;
            }
            at += bytes;
        }
        self.position(TAIL).store(head, Ordering::Release);
        if before < FIRST && self.taken >= FIRST {
            // SAFETY: the kernel reads the new period, which is a word.
            unsafe { libc::ioctl(self.event.as_raw_fd(), PERIOD as _, &raw const LATER_NS) };
        }
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping has these words, which the kernel and this process access as
        // atomic ones; the mapping lives as long as this value.
        unsafe { &*self.ring.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// The word at a position of the stream of records; records consist of whole words.
    fn word(&self, position: u64) -> u64 {
        let offset = PAGE + position as usize % (PAGES * PAGE) / 8 * 8;
        // SAFETY: the offset is within the mapping and a multiple of eight, and the kernel changes no record
        // that was not read.
        unsafe { self.ring.as_ptr().add(offset).cast::<u64>().read() }
    }
}

impl Drop for Instructions {
    fn drop(&mut self) {
        // SAFETY: nobody else uses this mapping.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), (1 + PAGES) * PAGE) };
    }
}

/// The instructions that were sampled so far, and whether each is part of a loop that waits.
#[derive(Default)]
pub(crate) struct Code(HashMap<u64, bool>);

impl Code {
    /// Whether the instruction is in a loop that waits for another thread, such as the loop of a spin lock:
    /// such loops contain an instruction that says so to the processor.
    pub(crate) fn waits(&mut self, memory: &Memory, address: u64) -> bool {
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        *self.0.entry(address).or_insert_with(|| {
            let mut bytes = [0; 2 * AROUND as usize];
            memory.read(address.saturating_sub(AROUND), &mut bytes) && says_that_it_waits(&bytes)
        })
    }
}

/// Whether code contains the instruction `pause`.
#[cfg(target_arch = "x86_64")]
fn says_that_it_waits(code: &[u8]) -> bool {
    code.windows(2).any(|bytes| bytes == [0xf3, 0x90])
}

/// Whether code contains `isb`, `yield` or `wfe`, with which loops that wait slow down.
#[cfg(target_arch = "aarch64")]
fn says_that_it_waits(code: &[u8]) -> bool {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.into_iter().any(|word| matches!(word, 0xd503_3fdf | 0xd503_203f | 0xd503_205f))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn says_that_it_waits(_code: &[u8]) -> bool {
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    /// What the thread of the test does: it computes in the first state, waits for the state to change in the
    /// second, and ends in the third.
    #[inline(never)]
    fn work(state: &AtomicU32) {
        let mut number = 1_u64;
        while state.load(Ordering::Relaxed) == 0 {
            for _ in 0..64 {
                number = std::hint::black_box(number.wrapping_mul(0x9e37_79b9).rotate_left(7));
            }
        }
        while state.load(Ordering::Relaxed) == 1 {
            std::hint::spin_loop();
        }
    }

    /// Samples until there are some; returns how many there were, and how many of them in a loop that waits.
    fn some(instructions: &mut Instructions, code: &mut Code, memory: &Memory) -> [u64; 2] {
        let mut found = [0; 2];
        while found[0] < 12 {
            thread::yield_now();
            instructions.each(|address, time| {
                assert!(time <= clock_ns());
                found[0] += 1;
                found[1] += u64::from(code.waits(memory, address));
            });
        }
        found
    }

    #[test]
    fn a_thread_that_computes_is_distinguished_from_one_that_waits_in_a_loop() {
        let state = Arc::new(AtomicU32::new(0));
        let (tell, told) = std::sync::mpsc::channel();
        let its = Arc::clone(&state);
        let thread = thread::spawn(move || {
            // SAFETY: the call has no arguments.
            tell.send(unsafe { libc::gettid() }).unwrap();
            work(&its);
        });
        let sampled = Instructions::of(told.recv().unwrap());
        let (mut code, memory) = (Code::default(), Memory::open().unwrap());
        let found = sampled.map(|mut instructions| {
            instructions.switch(true);
            let computed = some(&mut instructions, &mut code, &memory);
            state.store(1, Ordering::Relaxed);
            // The first samples of the second state may be older than the state.
            let _between = some(&mut instructions, &mut code, &memory);
            let waited = some(&mut instructions, &mut code, &memory);
            instructions.switch(false);
            (computed, waited)
        });
        state.store(2, Ordering::Relaxed);
        thread.join().unwrap();
        // A kernel that refuses has nothing to test.
        if let Some((computed, waited)) = found {
            assert_eq!(computed[1], 0, "{computed:?}");
            assert!(2 * waited[1] > waited[0], "{waited:?}");
        }
    }

    #[test]
    fn memory_that_is_not_there_waits_for_nothing() {
        let memory = Memory::open().unwrap();
        assert!(!Code::default().waits(&memory, 8));
        assert!(Instructions::of(-7).is_none());
    }
}

//! The space of this process, which is created with the first event, and again in the child of a `fork`.
//!
//! This module contains `unsafe` code: the space is behind a pointer that the child of a fork clears, because
//! a thread that does not exist in the child may hold a lock of the space.

use crate::call::Operation;
use crate::thread;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_space::{
    Changes, ElementOptions, Error, Policy, Setting, SettingSpec, Site, Space, SpaceOptions,
};

/// The space of the process, and the state that all threads share.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) space: Space,
    /// The sampling rate: one in so many traces is recorded.
    pub(crate) sample: Setting,
    pub(crate) changes: Changes,
    /// The number of events lost because there was no element for them.
    lost: Setting,
    /// The base of span numbers, which makes spans unique among processes.
    span_base: u64,
}

/// The process's state; null before it is created. The state is leaked, so that a thread may read it at any
/// time.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());
/// The stage of the creation: 0 before it, 1 while a thread creates the state, 2 if it cannot be created.
static MAKING: AtomicU8 = AtomicU8::new(0);
/// The number of events lost before the process's state existed.
static LOST: AtomicU64 = AtomicU64::new(0);
static SPANS: AtomicU64 = AtomicU64::new(0);
/// The last operation that was declared; `Operation::next` links it to those declared before. Stored with
/// release.
static OPERATIONS: AtomicPtr<Operation> = AtomicPtr::new(null_mut());
static HANDLERS: Once = Once::new();

const NOT_MADE: u8 = 0;
const IN_MAKING: u8 = 1;
const NONE: u8 = 2;

impl Process {
    /// The process's state, created if needed; `None` if it cannot be created.
    pub(crate) fn get() -> Option<&'static Process> {
        // SAFETY: the state is leaked, so every pointer that was ever stored stays valid.
        if let Some(process) = unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
            return Some(process);
        }
        Process::make_once()
    }

    /// Whether the space cannot be created.
    pub(crate) fn is_none() -> bool {
        MAKING.load(Ordering::Acquire) == NONE
    }

    #[cold]
    fn make_once() -> Option<&'static Process> {
        loop {
            match MAKING.compare_exchange(NOT_MADE, IN_MAKING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(NONE) => return None,
                // Another thread is creating the state.
                Err(_) => std::thread::yield_now(),
            }
            let made = PROCESS.load(Ordering::Acquire);
            // SAFETY: `PROCESS` is null or points to a state that is leaked and so valid for ever.
            if let Some(process) = unsafe { made.as_ref() } {
                return Some(process);
            }
        }
        // SAFETY: `PROCESS` is null or points to a state that is leaked and so valid for ever.
        if let Some(process) = unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
            MAKING.store(NOT_MADE, Ordering::Release);
            return Some(process);
        }
        HANDLERS.call_once(|| {
            // SAFETY: both handlers are plain functions that live as long as the process.
            unsafe {
                libc::pthread_atfork(None, None, Some(forked));
                libc::atexit(finish);
            }
        });
        let made = if std::env::var_os("THALWEG_PROBE").is_some_and(|value| value == "off") {
            None
        } else {
            Process::make().ok()
        };
        let Some(process) = made else {
            MAKING.store(NONE, Ordering::Release);
            return None;
        };
        process.lost.cell().fetch_add(LOST.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        let process: &'static Process = Box::leak(Box::new(process));
        PROCESS.store(std::ptr::from_ref(process).cast_mut(), Ordering::Release);
        MAKING.store(NOT_MADE, Ordering::Release);
        Some(process)
    }

    fn make() -> Result<Process, Error> {
        let element = element();
        let space = Space::create(SpaceOptions { element, ..SpaceOptions::default() })?;
        let sample = space.setting(SettingSpec {
            name: "probe.sample",
            doc: "Of so many traces one is recorded",
            unit: "traces",
            min: 1,
            default: 1,
            adoption: thalweg_space::Adoption::NextMade,
            ..SettingSpec::PLAIN
        })?;
        let lost = space.setting(SettingSpec {
            name: "probe.lost",
            doc: "Events for which no element could be made",
            unit: "events",
            ..SettingSpec::SHOWN
        })?;
        let full = match element.policy {
            Policy::Overwrite => 0,
            Policy::DropNewest => 1,
            Policy::Wait { .. } => 2,
        };
        space.setting(SettingSpec {
            name: "probe.full",
            doc: "What happens when a thread's memory is full",
            choices: &["overwrite", "drop", "wait"],
            max: 2,
            default: full,
            ..SettingSpec::SHOWN
        })?;
        space.setting(SettingSpec {
            name: "probe.bytes",
            doc: "The memory for each thread's events",
            unit: "B",
            default: (element.block_bytes * element.block_count) as u64,
            ..SettingSpec::SHOWN
        })?;
        let uuid = std::process::id();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let span_base = (now.as_nanos() as u64).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ u64::from(uuid) << 40;
        let changes = space.changes();
        Ok(Process { space, sample, changes, lost, span_base })
    }

    /// A number for a span, unique in this process and very probably among processes.
    pub(crate) fn new_span(&self) -> u64 {
        let count = SPANS.fetch_add(1, Ordering::Relaxed) + 1;
        ((count ^ self.span_base).wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1)
    }

    /// Declares an operation: its switch, and its number in the catalog.
    pub(crate) fn declare(&self, operation: &Operation) -> Option<(&'static AtomicU64, u32)> {
        let probe = self.space.probe(operation.name, true).ok()?;
        let site = Site {
            name: operation.name,
            kind: operation.kind,
            file: operation.file,
            line: operation.line,
            ..Site::default()
        };
        let id = u32::try_from(self.space.site(&site).ok()?.0).ok()?;
        // The probe is never dropped, so its word stays valid.
        let probe: &'static thalweg_space::Probe = Box::leak(Box::new(probe));
        Some((probe.word(), id))
    }
}

/// Adds a declared operation to the list that the child of a fork resets. Called once for each operation.
pub(crate) fn remember(operation: &'static Operation) {
    let new = std::ptr::from_ref(operation).cast_mut();
    let mut first = OPERATIONS.load(Ordering::Acquire);
    loop {
        operation.next.store(first, Ordering::Relaxed);
        match OPERATIONS.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Counts events that were lost because there was no element for them.
#[cold]
pub(crate) fn count_lost(count: u64) {
    // SAFETY: `PROCESS` is null or points to a state that is leaked and so valid for ever.
    match unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        Some(process) => process.lost.cell().fetch_add(count, Ordering::Relaxed),
        None => LOST.fetch_add(count, Ordering::Relaxed),
    };
}

/// The options of elements, from the environment.
fn element() -> ElementOptions {
    let bytes = std::env::var("THALWEG_PROBE_BYTES").ok().and_then(|text| number(&text)).unwrap_or(1 << 20);
    let mut block_bytes = 1 << 16;
    while block_bytes > 4096 && block_bytes * 4 > bytes {
        block_bytes /= 2;
    }
    let policy = match std::env::var("THALWEG_PROBE_FULL").as_deref() {
        Ok("drop") => Policy::DropNewest,
        Ok("wait") => Policy::Wait { timeout: Duration::from_secs(1) },
        _ => Policy::Overwrite,
    };
    ElementOptions { block_bytes, block_count: (bytes / block_bytes).clamp(2, 1 << 20), policy }
}

/// Parses a number of bytes such as `64k` or `16M`.
fn number(text: &str) -> Option<usize> {
    let (digits, shift) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// Resets the state in the child of a fork, so that its next event creates a new space.
extern "C" fn forked() {
    if PROCESS.swap(null_mut(), Ordering::AcqRel).is_null() && MAKING.load(Ordering::Relaxed) != IN_MAKING {
        return;
    }
    MAKING.store(NOT_MADE, Ordering::Release);
    LOST.store(0, Ordering::Relaxed);
    thread::forget();
    let mut at = OPERATIONS.swap(null_mut(), Ordering::AcqRel);
    // SAFETY: operations live as long as the process, and no other thread exists here.
    while let Some(operation) = unsafe { at.as_ref() } {
        at = operation.next.swap(null_mut(), Ordering::Relaxed);
        operation.forget();
    }
}

extern "C" fn finish() {
    // SAFETY: `PROCESS` is null or points to a state that is leaked and so valid for ever.
    if let Some(process) = unsafe { PROCESS.load(Ordering::Acquire).as_ref() } {
        process.space.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn sizes_of_the_environment() {
        for (text, bytes) in [
            ("64k", Some(65536)),
            ("3M", Some(3 << 20)),
            ("17", Some(17)),
            ("", None),
            ("k", None),
            ("M3", None),
        ] {
            assert_eq!(number(text), bytes, "{text}");
        }
    }
}

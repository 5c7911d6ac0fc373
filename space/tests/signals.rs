//! Signals interrupt a thread or another handler while it writes. No event is corrupted, and dropped events
//! are counted.

mod support;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Counted, Directory, Seen, read_events, space};
use thalweg_space::{ElementOptions, KindId, Policy, SignalWriter};

static WRITER: OnceLock<(SignalWriter, KindId<Counted>)> = OnceLock::new();
static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32) {
    if let Some((writer, counted)) = WRITER.get() {
        let count = CALLS.fetch_add(1, Ordering::Relaxed);
        writer.emit(*counted, &Counted { count });
    }
}

#[test]
fn signals_a_thousand_times_a_second_disturb_nothing() {
    const SIGNALS: u64 = 300;
    let directory = Directory::new("signals");
    let space = space(&directory, 64 << 10, 1024, Policy::Overwrite);
    let options = ElementOptions { block_bytes: 4096, block_count: 64, policy: Policy::Overwrite };
    let wait = Policy::Wait { timeout: std::time::Duration::from_secs(1) };
    let refused = SignalWriter::new(&space, "no", ElementOptions { policy: wait, ..options });
    assert!(refused.unwrap_err().to_string().contains("must not wait"));
    let mut signals = SignalWriter::new(&space, "signals", options).unwrap();
    let counted = signals.declare::<Counted>().unwrap();
    assert!(WRITER.set((signals, counted)).is_ok());
    let mut writer = space.writer("thread").unwrap();
    let mine = writer.declare::<Counted>().unwrap();
    // SAFETY: the bytes of a `sigaction` may all be zero, all pointers are null or valid, and the handler
    // only uses atomics and stores, which are async-signal-safe.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        let every = libc::timeval { tv_sec: 0, tv_usec: 1_000 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
    }
    // The thread writes its own events, and other events through the handler's writer, which signals then
    // find busy.
    let mut own = 0;
    while CALLS.load(Ordering::Relaxed) < SIGNALS * 100 {
        writer.emit(mine, &Counted { count: own });
        own += 1;
        handler(0);
        if own >= SIGNALS * 100 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }
    // SAFETY: an `itimerval` whose bytes are all zero is valid, and stops the timer.
    #[allow(unsafe_code)]
    unsafe {
        let off: libc::itimerval = std::mem::zeroed();
        libc::setitimer(libc::ITIMER_REAL, &off, std::ptr::null_mut());
    }
    // One more event is written, which reports the events that were dropped before it.
    handler(0);
    let (seen, problem) = read_events(space.path());
    assert!(problem.is_none(), "{problem:?}");
    let mut next = BTreeMap::new();
    let mut last_count = None;
    for item in seen {
        match item {
            Seen::Event { writer, sequence, fields, .. } => {
                let next = next.entry(writer).or_insert(0);
                assert_eq!(sequence, *next);
                *next += 1;
                let count: u64 = fields[0].parse().unwrap();
                if writer == 2 {
                    assert_eq!(count, sequence);
                } else {
                    // A signal may come between the choice of an event's number and its writing, so numbers
                    // need not be in order.
                    last_count = Some(count.max(last_count.unwrap_or(0)));
                }
            }
            Seen::Gap { writer, lost, from_sequence } => {
                let next = next.entry(writer).or_insert(0);
                assert_eq!(from_sequence, *next);
                *next += lost;
            }
        }
    }
    assert_eq!(next[&2], own);
    assert_eq!(next[&1], CALLS.load(Ordering::Relaxed), "every call is an event or counted");
    assert_eq!(last_count, Some(next[&1] - 1));
}

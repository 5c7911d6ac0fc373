//! Traces that cross threads and processes, and log lines.

use crate::call::Operation;
use crate::kinds::{HandedOver, Level, Logged, Sent, TakenOver, TraceBegun};
use crate::thread::{self, Thread};

/// Work that was handed over, to be taken over in the thread that executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The number of the work's span; 0 if the work was handed over in a trace that is not recorded.
    span: u64,
}

fn with<R>(otherwise: R, work: impl FnOnce(&mut Thread) -> R) -> R {
    // SAFETY: `here` returns null or this thread's own state; `work` is a closure of this module, which takes
    // no other reference to the state.
    match unsafe { thread::here().as_mut() } {
        Some(thread) => work(thread),
        None => otherwise,
    }
}

/// Records that work is handed to another thread or executed later. [`Handed::take_over`] records the start
/// of this work, so that the work belongs to the trace in which it was handed over.
///
/// ```
/// # let parent = std::env::temp_dir().join(format!("thalweg-handed-{}", std::process::id()));
/// # unsafe { std::env::set_var("THALWEG_SPACES", &parent) };
/// let handed = thalweg_probe::hand_over();
/// std::thread::spawn(move || {
///     handed.take_over();
///     // … the operations of the work …
/// })
/// .join()
/// .unwrap();
/// # std::fs::remove_dir_all(parent).unwrap();
/// ```
pub fn hand_over() -> Handed {
    with(Handed { span: 0 }, |thread| {
        if thread.muted {
            return Handed { span: 0 };
        }
        let span = thread.process.new_span();
        let (now, kind) = (thread.writer.clock().now(), thread.handed);
        thread.put(now, kind, &HandedOver { span, depth: thread.depth.min(0xffff) as u16 });
        Handed { span }
    })
}

impl Handed {
    /// Records that the work begins: the outermost call that encloses this point, or comes next in this
    /// thread, belongs to the work.
    pub fn take_over(self) {
        with((), |thread| {
            if thread.muted {
                return;
            }
            if self.span == 0 {
                thread.skip = thread.depth == 0;
                return;
            }
            if thread.depth == 0 {
                thread.trace.get_or_insert((0, 0));
            }
            let (now, kind) = (thread.writer.clock().now(), thread.taken);
            thread.put(now, kind, &TakenOver { span: self.span });
        });
    }
}

/// Records that a message is sent now, and returns its W3C `traceparent`; `None` if nothing is recorded.
pub fn traceparent() -> Option<String> {
    with(None, |thread| {
        if thread.muted {
            return None;
        }
        let (now, span) = (thread.writer.clock().now(), thread.process.new_span());
        let (trace_high, trace_low) = match thread.trace {
            Some((high, low)) if high | low != 0 => (high, low),
            _ => {
                let trace = (thread.process.new_span(), thread.process.new_span());
                if thread.depth > 0 {
                    thread.trace = Some(trace);
                }
                let kind = thread.begun;
                thread.put(now, kind, &TraceBegun { trace_high: trace.0, trace_low: trace.1, parent: 0 });
                trace
            }
        };
        let kind = thread.sent;
        thread.put(now, kind, &Sent { span, bytes: 0, depth: thread.depth.min(0xffff) as u16 });
        Some(format!("00-{trace_high:016x}{trace_low:016x}-{span:016x}-01"))
    })
}

/// Continues the trace of a message that was received with this W3C `traceparent`: the outermost call that
/// encloses this point, or comes next in this thread, belongs to the sender's trace. If the sender's trace is
/// not recorded, the next trace here is not recorded either.
///
/// Returns `false` if the text is not a `traceparent`.
pub fn continue_trace(traceparent: &str) -> bool {
    let Some((trace_high, trace_low, parent, is_recorded)) = parsed(traceparent) else { return false };
    with((), |thread| {
        if thread.muted {
            return;
        }
        if !is_recorded {
            thread.skip = thread.depth == 0;
            return;
        }
        thread.trace = Some((trace_high, trace_low));
        let (now, kind) = (thread.writer.clock().now(), thread.begun);
        thread.put(now, kind, &TraceBegun { trace_high, trace_low, parent });
    });
    true
}

/// The parts of a `traceparent`: the two halves of the trace's identity, the span, and whether the trace is
/// recorded.
fn parsed(text: &str) -> Option<(u64, u64, u64, bool)> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let good = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if good { u64::from_str_radix(digits, 16).ok() } else { None }
    };
    let bytes = text.as_bytes();
    let version = number(0, 2)?;
    let is_whole = bytes.len() == 55 || (version > 0 && bytes.len() > 55 && bytes[55] == b'-');
    if !is_whole || version == 255 || [2, 35, 52].iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    let (high, low, span, flags) = (number(3, 19)?, number(19, 35)?, number(36, 52)?, number(53, 55)?);
    (high | low != 0 && span != 0).then_some((high, low, span, flags & 1 == 1))
}

/// Records a log line, with its place in the program if one is given.
pub fn log(place: Option<&'static Operation>, level: Level, text: &str) {
    let operation = match place {
        Some(place) => match place.number() {
            Some(number) => number,
            None => return,
        },
        None => 0,
    };
    with((), |thread| {
        if !thread.muted {
            let (now, kind) = (thread.writer.clock().now(), thread.logged);
            thread.put(now, kind, &Logged { operation, level, text });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn traceparents_as_the_standard_has_them() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(
            parsed(good),
            Some((0x4bf9_2f35_77b3_4da6, 0xa3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7, true))
        );
        assert!(!parsed(&good.replace("-01", "-00")).unwrap().3);
        // A later version of the format may append further parts.
        assert!(parsed(&(good.replace("00-4b", "01-4b") + "-x")).is_some());
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}

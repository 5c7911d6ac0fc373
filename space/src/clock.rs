//! The clock: the TSC where it is invariant, else `CLOCK_MONOTONIC` in nanoseconds.
//!
//! Ticks are converted to nanoseconds by a frequency. The frequency is read from CPUID where the machine
//! states it there, and otherwise measured against `CLOCK_MONOTONIC_RAW` for a few milliseconds. A space has
//! two *anchors*, each a simultaneous reading of ticks and wall clocks. The second anchor is updated while
//! the process runs, so a reader can compute the frequency more exactly.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the frequency is measured where CPUID does not state it.
const MEASURE: Duration = Duration::from_millis(4);
/// Two anchors further apart than this give a better frequency than the measured one.
const ANCHORS_APART_NS: u64 = 50_000_000;

/// The source of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// The processor's time stamp counter.
    Tsc = 1,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic = 2,
}

/// Ticks and the system's clocks, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// Ticks of the clock.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub real_ns: u64,
}

/// A calibrated clock: the clock of the events that this process writes, or one that a reader found in a
/// space.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    kind: ClockKind,
    hz: f64,
    anchor: Anchor,
}

impl Clock {
    /// This machine's clock, calibrated. Where CPUID does not state the frequency, the first call of a
    /// process takes a few milliseconds; later calls use its result.
    pub fn new() -> Clock {
        if !tsc_is_invariant() {
            let kind = ClockKind::Monotonic;
            return Clock { kind, hz: 1e9, anchor: read_anchor(kind) };
        }
        let kind = ClockKind::Tsc;
        static HZ: OnceLock<f64> = OnceLock::new();
        let hz = *HZ.get_or_init(|| cpuid_hz().unwrap_or_else(measured_hz));
        Clock { kind, hz, anchor: read_anchor(kind) }
    }

    /// The clock of a space, from its two anchors.
    pub(crate) fn from_anchors(kind: ClockKind, hz: f64, first: Anchor, second: Option<Anchor>) -> Clock {
        let mut clock = Clock { kind, hz, anchor: first };
        let Some(second) = second else { return clock };
        let ns = second.monotonic_ns.saturating_sub(first.monotonic_ns);
        if kind == ClockKind::Tsc && ns > ANCHORS_APART_NS && second.ticks > first.ticks {
            let better = (second.ticks - first.ticks) as f64 * 1e9 / ns as f64;
            // Anchors that disagree with the known frequency by 1 % or more indicate that a clock was set,
            // and do not improve the frequency.
            if (better / hz - 1.0).abs() < 0.01 {
                clock.hz = better;
            }
        }
        clock
    }

    /// The clock of a live process on this machine, refined by a second anchor that is read now.
    pub(crate) fn refined_here(&self) -> Clock {
        if self.kind == ClockKind::Monotonic || !tsc_is_invariant() {
            return *self;
        }
        Clock::from_anchors(self.kind, self.hz, self.anchor, Some(self.read_anchor()))
    }

    /// The current ticks.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.kind == ClockKind::Tsc { tsc() } else { slow_now() }
    }

    /// The current ticks as low and high half, in which the processor returns them and an event stores them.
    #[inline(always)]
    pub(crate) fn now_in_halves(&self) -> (u32, u32) {
        if self.kind == ClockKind::Tsc {
            return tsc_in_halves();
        }
        let ticks = slow_now();
        (ticks as u32, (ticks >> 32) as u32)
    }

    /// The cost of a reading on this thread in nanoseconds: the least mean of some rounds. The measurement
    /// takes a few microseconds.
    pub fn reading_ns(&self) -> f64 {
        const READINGS: u32 = 64;
        let round = || {
            let begin = self.now();
            for _ in 1..READINGS {
                std::hint::black_box(self.now());
            }
            self.now().saturating_sub(begin)
        };
        let least = (0..4).map(|_| round()).min().unwrap_or(0);
        least as f64 * 1e9 / self.hz / f64::from(READINGS)
    }

    /// Which clock this is.
    pub fn kind(&self) -> ClockKind {
        self.kind
    }

    /// Ticks per second.
    pub fn hz(&self) -> f64 {
        self.hz
    }

    /// The first anchor.
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// A duration in ticks as nanoseconds.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * (1e9 / self.hz)) as u64
    }

    /// A duration in nanoseconds as ticks.
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        (ns as f64 * (self.hz / 1e9)) as u64
    }

    /// A point in time, given in ticks, as nanoseconds since 1970.
    pub fn real_ns(&self, ticks: u64) -> u64 {
        let offset = ticks.wrapping_sub(self.anchor.ticks) as i64;
        let ns = (offset as f64 * (1e9 / self.hz)) as i64;
        self.anchor.real_ns.saturating_add_signed(ns)
    }

    /// Reads the clock and the system's clocks together, as closely as a few tries allow.
    pub(crate) fn read_anchor(&self) -> Anchor {
        read_anchor(self.kind)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

#[cold]
#[inline(never)]
fn slow_now() -> u64 {
    system_ns(libc::CLOCK_MONOTONIC)
}

fn read_anchor(kind: ClockKind) -> Anchor {
    let ticks = || match kind {
        ClockKind::Tsc => tsc(),
        ClockKind::Monotonic => system_ns(libc::CLOCK_MONOTONIC),
    };
    let mut best = (u64::MAX, Anchor::default());
    for _ in 0..5 {
        let before = ticks();
        let monotonic_ns = system_ns(libc::CLOCK_MONOTONIC);
        let after = ticks();
        let real_ns = system_ns(libc::CLOCK_REALTIME);
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, Anchor { ticks: before + width / 2, monotonic_ns, real_ns });
        }
    }
    best.1
}

fn measured_hz() -> f64 {
    let pair = || {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..5 {
            let before = tsc();
            let ns = system_ns(libc::CLOCK_MONOTONIC_RAW);
            let width = tsc().wrapping_sub(before);
            if width < best.0 {
                best = (width, before + width / 2, ns);
            }
        }
        (best.1, best.2)
    };
    let start = Instant::now();
    let (ticks_first, ns_first) = pair();
    while start.elapsed() < MEASURE {
        std::hint::spin_loop();
    }
    let (ticks_last, ns_last) = pair();
    (ticks_last - ticks_first) as f64 * 1e9 / (ns_last - ns_first).max(1) as f64
}

/// A system clock in nanoseconds.
pub(crate) fn system_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable of the type that the call expects.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time stamp counter, not serialised: readings on different cores may be out of order by up to about 85
/// ns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn tsc() -> u64 {
    // SAFETY: every x86-64 has the instruction, and Linux lets programs use it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Reads the time stamp counter as low and high half. The intrinsic joins the halves, and splitting them
/// again would cost an event a cycle or two.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tsc_in_halves() -> (u32, u32) {
    let (low, high): (u32, u32);
    // SAFETY: every x86-64 has the instruction, and Linux lets programs use it; it writes these two registers
    // and nothing else.
    unsafe {
        std::arch::asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    (low, high)
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_in_halves() -> (u32, u32) {
    let ticks = tsc();
    (ticks as u32, (ticks >> 32) as u32)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn tsc() -> u64 {
    system_ns(libc::CLOCK_MONOTONIC)
}

/// Whether CPUID states that the TSC is invariant and the kernel trusts it too (the kernel checks that all
/// sockets agree).
#[cfg(target_arch = "x86_64")]
fn tsc_is_invariant() -> bool {
    // The result is cached, because CPUID in a virtual machine exits to the hypervisor.
    static IS_INVARIANT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *IS_INVARIANT.get_or_init(find_if_tsc_is_invariant)
}

#[cfg(target_arch = "x86_64")]
fn find_if_tsc_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    let leaves = __cpuid(0x8000_0000).eax;
    let invariant = leaves >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let distrusted = std::fs::read_to_string(source)
        .is_ok_and(|name| matches!(name.trim(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies"));
    invariant && !distrusted
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_invariant() -> bool {
    false
}

/// The TSC's frequency where the machine states it: leaf 0x15 (crystal × ratio), or the hypervisor's timing
/// leaf.
#[cfg(target_arch = "x86_64")]
fn cpuid_hz() -> Option<f64> {
    use std::arch::x86_64::__cpuid;
    let hypervisor = __cpuid(1).ecx & (1 << 31) != 0;
    if hypervisor && (0x4000_0010..0x4000_1000).contains(&__cpuid(0x4000_0000).eax) {
        let khz = __cpuid(0x4000_0010).eax;
        if khz > 100_000 {
            return Some(f64::from(khz) * 1e3);
        }
    }
    // A hypervisor may pass leaf 0x15 of the host while scaling the counter, so the leaf is trusted on bare
    // metal only.
    if !hypervisor && __cpuid(0).eax >= 0x15 {
        let leaf = __cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return Some(f64::from(leaf.ecx) * f64::from(leaf.ebx) / f64::from(leaf.eax));
        }
    }
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid_hz() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Anchor = Anchor { ticks: 1_000, monotonic_ns: 5_000, real_ns: 1_700_000_000_000_000_000 };

    fn check(second: Anchor, hz: f64) {
        let clock = Clock::from_anchors(ClockKind::Tsc, 2e9, FIRST, Some(second));
        assert!((clock.hz() - hz).abs() < 1.0, "{clock:?}");
    }

    #[test]
    fn a_second_anchor_refines_the_frequency() {
        let after =
            |ns: u64, ticks: u64| Anchor { ticks: 1_000 + ticks, monotonic_ns: 5_000 + ns, real_ns: 0 };
        check(after(10_000_000_000, 20_010_000_000), 2.001e9);
        // Anchors that are too close together, disagree too much, or run backwards do not replace the known
        // frequency.
        check(after(1_000_000, 2_001_000), 2e9);
        check(after(1_000_000_000, 3_000_000_000), 2e9);
        check(Anchor { ticks: 0, monotonic_ns: u64::MAX, real_ns: 0 }, 2e9);
    }

    #[test]
    fn a_reading_takes_some_nanoseconds() {
        let takes = Clock::new().reading_ns();
        assert!((0.1..100_000.0).contains(&takes), "{takes} ns");
    }

    #[test]
    fn ticks_become_time() {
        let clock = Clock::from_anchors(ClockKind::Tsc, 2e9, FIRST, None);
        assert_eq!((clock.ticks_to_ns(2_000), clock.ns_to_ticks(1_000)), (1_000, 2_000));
        assert_eq!(clock.real_ns(3_000), FIRST.real_ns + 1_000);
        assert_eq!(clock.real_ns(0), FIRST.real_ns - 500);
    }

    #[test]
    fn this_machines_clock_agrees_with_the_system() {
        let clock = Clock::new();
        let first = clock.read_anchor();
        let mut last = first;
        while last.monotonic_ns < first.monotonic_ns + 20_000_000 {
            last = clock.read_anchor();
        }
        let ours = clock.ticks_to_ns(last.ticks - first.ticks) as f64;
        let systems = (last.monotonic_ns - first.monotonic_ns) as f64;
        assert!((ours / systems - 1.0).abs() < 0.02, "{ours} {systems}");
    }
}

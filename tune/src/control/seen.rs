//! The measurements of a window of time.

/// The measurements of a window of time. Values that are not known are NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The window's end, in seconds of a clock that does not go back; if it goes back nevertheless, the
    /// window is ignored.
    pub at: f64,
    /// The window's length, in seconds.
    pub lasted: f64,
    /// Progress of the run, in messages per second.
    pub rate: f64,
    /// Processors that the run used.
    pub processors: f64,
    /// Processors that were missing on average, because the host of a virtual machine took them away, or because they
    /// were slower than usual.
    pub missing: f64,
    /// The speed of the processors, as a part of their speed when tuning began.
    pub speed: f64,
    /// Mean time of a message in the network, in seconds.
    pub latency: f64,
    /// The time in the network that 99 of 100 messages do not exceed, in seconds.
    pub p99: f64,
    /// Memory of the run, in bytes.
    pub memory: f64,
    /// Mean number of messages in the streams.
    pub held: f64,
    /// Records that failed, per second.
    pub errors: f64,
    /// The change since the last window: the fraction of all work that other components do now.
    pub shift: f64,
    /// The fraction of all work that is done by tasks that the run itself moved to other workers in this window.
    pub moved: f64,
}

impl Seen {
    /// A window of which nothing but the time is known.
    pub fn nothing(at: f64, lasted: f64) -> Seen {
        let unknown = f64::NAN;
        Seen {
            at,
            lasted,
            rate: unknown,
            processors: unknown,
            missing: unknown,
            speed: unknown,
            latency: unknown,
            p99: unknown,
            memory: unknown,
            held: unknown,
            errors: unknown,
            shift: unknown,
            moved: unknown,
        }
    }
}

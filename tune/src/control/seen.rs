//! What was measured in a window of time.

/// What was measured in a window of time. What is not known is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// When it ended, in seconds of a clock that does not go back; if it does nevertheless, the window is ignored.
    pub at: f64,
    /// How long it lasted, in seconds.
    pub lasted: f64,
    /// Messages a second that made progress.
    pub rate: f64,
    /// Processors that the run used.
    pub processors: f64,
    /// Mean time of a message in the network, in seconds.
    pub latency: f64,
    /// The time that 99 of 100 messages take at most.
    pub p99: f64,
    /// Memory of the run, in bytes.
    pub memory: f64,
    /// Messages in the streams.
    pub held: f64,
    /// Records that failed, a second.
    pub errors: f64,
    /// How different the run is from the last window: the part of all work that is done elsewhere.
    pub shift: f64,
}

impl Seen {
    /// A window of which nothing is known but its time.
    pub fn nothing(at: f64, lasted: f64) -> Seen {
        let unknown = f64::NAN;
        Seen {
            at,
            lasted,
            rate: unknown,
            processors: unknown,
            latency: unknown,
            p99: unknown,
            memory: unknown,
            held: unknown,
            errors: unknown,
            shift: unknown,
        }
    }
}

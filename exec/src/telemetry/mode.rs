//! How much is recorded.

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Only the structure of the run is recorded: events for the beginning and end of tasks and streams, and
    /// live rows of tasks that live long.
    Off,
    /// In addition, the live table has counters and times of tasks, streams and workers.
    #[default]
    Metrics,
    /// In addition, there are events for every dispatch and wait, and the lineage of every message.
    Full,
}

impl Mode {
    /// The values of the setting `monitor.mode`, from 0.
    pub const NAMES: [&str; 3] = ["off", "metrics", "full"];

    pub(crate) fn from_setting(value: u64) -> Mode {
        match value {
            0 => Mode::Off,
            1 => Mode::Metrics,
            _ => Mode::Full,
        }
    }
}

/// The mode that a thread has adopted. In a build with `--cfg thalweg_no_probes`, the baseline for
/// measurements, the mode is always off, and the compiler removes the code for other modes.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AdoptedMode(pub(super) Mode);

impl PartialEq<Mode> for AdoptedMode {
    #[inline]
    fn eq(&self, mode: &Mode) -> bool {
        *mode == if cfg!(thalweg_no_probes) { Mode::Off } else { self.0 }
    }
}

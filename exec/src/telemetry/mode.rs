//! How much is recorded.

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Only what has to be known of the structure: tasks and streams, their beginning and end; in the live table, tasks that
    /// live long.
    Off,
    /// Counters and times of tasks, streams and workers, in the live table.
    #[default]
    Metrics,
    /// Every dispatch, wait, and message.
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

/// The mode that a thread has adopted. A build with `--cfg thalweg_no_probes`, to measure against, knows that it is off: what
/// asks for another one is not in its code.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct AdoptedMode(pub(super) Mode);

impl PartialEq<Mode> for AdoptedMode {
    #[inline]
    fn eq(&self, mode: &Mode) -> bool {
        *mode == if cfg!(thalweg_no_probes) { Mode::Off } else { self.0 }
    }
}

//! Proposes another grain: boxes that put several items into a record, such as paths into a batch, may have a
//! parameter with the unit `grain`, the number of items in a record.
//!
//! With a finer grain the runtime's work on each record costs more than the boxes' work; with a coarser grain
//! there may be too few records for all workers, and a record stays longer in the network.

use thalweg_space::Undo;
use thalweg_space::reader::SettingView;

use crate::action::{Action, Candidate};

/// The unit of parameters that set the grain.
pub(super) const UNIT: &str = "grain";
/// The factor between the present grain and the proposed grain.
const STEP: u64 = 4;
/// The runtime's work on a record in each component, in nanoseconds: in most networks, and in networks that
/// make tasks for each record.
const RECORD_NS: f64 = 200.0;
const UNFOLDED_NS: f64 = 2000.0;
/// The part of tasks that are new in a window, from which a network counts as one that makes tasks for each
/// record.
const UNFOLDS: f64 = 0.2;
/// Only records that cost more than this time are made smaller.
const COARSE_NS: f64 = 200e3;
/// The load from which a worker is busy, and the load up to which another worker has time.
const BUSY: f64 = 0.85;
const IDLE: f64 = 0.6;

/// The measures of a window that speak for or against another grain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    /// The busy time for each message, in nanoseconds.
    pub(super) message_ns: f64,
    pub(super) unfolding: f64,
    pub(super) workers: f64,
    /// The loads of the busiest and the idlest worker, and of all workers together.
    pub(super) most: f64,
    pub(super) least: f64,
    pub(super) sum: f64,
    /// Whether messages should stay in the network for a shorter time, or fewer of them should wait.
    pub(super) keeps_rate: bool,
}

/// A coarser or a finer grain, for each parameter that sets a grain.
pub(super) fn propose(measures: Measures, settings: &[SettingView]) -> Vec<Candidate> {
    let Some((is_coarser, gain, why)) = direction(measures) else { return Vec::new() };
    let grains = settings.iter().filter(|it| it.unit == UNIT && it.undo != Some(Undo::Nothing));
    let candidates = grains.map(|setting| {
        let to = if is_coarser { setting.value.saturating_mul(STEP) } else { setting.value / STEP };
        let to = to.clamp(setting.min, setting.max.max(setting.min));
        Candidate {
            action: Action::set(&setting.name, setting.value, to),
            model: "grain".into(),
            gain,
            why: why.clone(),
        }
    });
    candidates.filter(|it| it.action.changes.iter().all(|change| change.from != change.to)).collect()
}

/// Whether the grain should be coarser, the expected gain, and the reason.
fn direction(measures: Measures) -> Option<(bool, f64, String)> {
    let Measures { message_ns, unfolding, workers, most, least, sum, keeps_rate } = measures;
    let record_ns = if unfolding > UNFOLDS { UNFOLDED_NS } else { RECORD_NS };
    // With a grain that is four times as coarse, three of four records are saved.
    let saved = (1.0 - 1.0 / STEP as f64) * record_ns / (message_ns + record_ns);
    let mean = sum / workers;
    if !keeps_rate && saved.is_finite() && saved > 0.02 && most > BUSY {
        let why = format!(
            "A message takes {message_ns:.0} ns, of which the runtime's own work on a record is a good part."
        );
        return Some((true, saved / (1.0 - saved), why));
    }
    if message_ns > COARSE_NS && (keeps_rate || workers > 1.0 && most > BUSY && least < IDLE) {
        let gain = if keeps_rate { 0.3 } else { (most / mean - 1.0).clamp(0.0, 0.5) / 3.0 };
        let why = format!(
            "A message takes {:.1} ms, so there are few messages for the workers to share.",
            message_ns / 1e6
        );
        return Some((false, gain, why));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures() -> Measures {
        Measures {
            message_ns: 1000.0,
            unfolding: 0.0,
            workers: 2.0,
            most: 0.95,
            least: 0.9,
            sum: 1.85,
            keeps_rate: false,
        }
    }

    fn grain(value: u64) -> [SettingView; 2] {
        let mut setting = SettingView::switch("box.items");
        (setting.unit, setting.value, setting.min, setting.max) = (UNIT.into(), value, 1, 100);
        [SettingView::switch("exec.steal"), setting]
    }

    fn proposed(measures: Measures, value: u64) -> Option<(u64, u64, f64)> {
        let candidates = propose(measures, &grain(value));
        assert!(candidates.len() <= 1, "{candidates:?}");
        let change = candidates.first()?.action.changes[0].clone();
        assert_eq!(change.knob.name(), "box.items");
        Some((change.from, change.to, candidates[0].gain))
    }

    #[test]
    fn short_messages_get_more_items_and_long_messages_fewer() {
        let (from, to, gain) = proposed(measures(), 10).expect("messages of 1 µs are short");
        assert_eq!((from, to), (10, 40));
        // 200 of 1,200 ns are the runtime's, and three quarters of them are saved: 1,050 ns.
        assert!((gain - (1200.0 / 1050.0 - 1.0)).abs() < 1e-9, "{gain}");
        assert_eq!(proposed(measures(), 50).map(|it| it.1), Some(100), "the range ends at 100");
        assert_eq!(proposed(measures(), 100), None);
        let long = Measures { message_ns: 1e6, least: 0.2, sum: 1.15, ..measures() };
        let (from, to, gain) = proposed(long, 10).expect("a worker has no message");
        assert_eq!((from, to), (10, 2));
        assert!((0.02..0.5).contains(&gain), "{gain}");
        assert_eq!(proposed(long, 1), None);
    }

    #[test]
    fn a_grain_that_fits_stays() {
        assert_eq!(proposed(Measures { message_ns: 20e3, ..measures() }, 10), None);
        assert_eq!(proposed(Measures { message_ns: 1e6, ..measures() }, 10), None, "both workers are busy");
        assert_eq!(proposed(Measures { most: 0.3, ..measures() }, 10), None, "no worker is busy");
        let latency = Measures { keeps_rate: true, ..measures() };
        assert_eq!(proposed(latency, 10), None, "a coarser grain keeps records longer");
        assert_eq!(proposed(Measures { message_ns: f64::NAN, ..measures() }, 10), None);
        // A network that makes tasks for each message spends more time on each of them.
        let unfolds = Measures { message_ns: 20e3, unfolding: 0.9, ..measures() };
        assert_eq!(proposed(unfolds, 10).map(|it| it.1), Some(40));
    }
}

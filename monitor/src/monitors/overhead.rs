//! The estimated cost of the observation to the run.
//!
//! The cost is estimated as one reading of the clock for each distinct time of events, which takes as long as
//! the workers measured when they started, and [`EVENT_NS`] for each event, divided by the workers' time.

use thalweg_space::EVENT_NS;

use crate::composing::dispatch::What;
use crate::decoding::events::Observation;
use crate::decoding::observation::LiveRow;
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{Overhead, Report};

/// The monitor of the cost of observation: see the module. Publishes after the workers.
#[derive(Default)]
pub(crate) struct Costs {
    /// The time of a reading of the clock on each worker in picoseconds, which the workers record when they
    /// start.
    clock_reading_ps: Vec<u64>,
}

impl Monitor for Costs {
    fn name(&self) -> &str {
        "overhead"
    }

    fn wants(&self) -> &[&str] {
        &["exec.worker_started"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            if let What::Runtime(Observation::WorkerStarted(started)) = item.what
                && started.clock_reading_ps > 0
            {
                self.clock_reading_ps.push(started.clock_reading_ps);
            }
        }
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let window = &report.window;
        let events = window.events.saturating_add(window.lost);
        let of_seen = events as f64 / window.events.max(1) as f64;
        let readings = moment.clock_readings as f64 * of_seen;
        let clock_reading_ns = self.clock_reading_ns(&moment.ending.rows);
        let ns = clock_reading_ns.map(|reading_ns| readings * reading_ns + events as f64 * EVENT_NS as f64);
        let workers_ns: f64 = report.workers.iter().map(|worker| worker.lifetime_ns).sum();
        let bytes = moment.ending.event_bytes;
        report.overhead = Overhead {
            clock_readings: readings as u64,
            clock_reading_ns,
            event_ns: EVENT_NS as f64,
            ns,
            share: ns.filter(|_| workers_ns > 0.0).map(|ns| ns / workers_ns),
            bytes,
            bytes_per_s: bytes
                .filter(|_| window.duration_ns > 0.0)
                .map(|bytes| bytes as f64 * 1e9 / window.duration_ns),
        };
    }
}

impl Costs {
    /// The time of a reading of the clock: the mean over the workers that recorded it as an event, or else in
    /// the live table, if the event was overwritten or is of an older version without this field.
    fn clock_reading_ns(&self, rows: &[LiveRow]) -> Option<f64> {
        let in_row = |row: &LiveRow| match *row {
            LiveRow::Worker { clock_reading_ps, .. } if clock_reading_ps > 0 => Some(clock_reading_ps),
            _ => None,
        };
        let mut readings = self.clock_reading_ps.clone();
        if readings.is_empty() {
            readings.extend(rows.iter().filter_map(in_row));
        }
        (!readings.is_empty()).then(|| readings.iter().sum::<u64>() as f64 / 1e3 / readings.len() as f64)
    }
}

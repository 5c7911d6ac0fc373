//! The totals of tasks, streams and workers at the last restart of the measurement.
//!
//! The totals in the live table, and in the event that records an end, cover the whole life of a task, stream
//! or worker. A window counts only what happened after the window's start, so the live table's totals at the
//! window's start are subtracted from all later totals.

use crate::TaskCounts;
use crate::decoding::events::{Observation, StreamClosed, WorkerEnded};
use crate::decoding::observation::{LiveRow, StreamTotals, TaskTotals};
use crate::ids::IdMap;

/// The totals at the start of a window; empty if everything since the start of the run is measured.
#[derive(Debug, Default)]
pub(crate) struct Base {
    tasks: IdMap<TaskTotals>,
    streams: IdMap<StreamTotals>,
    workers: IdMap<WorkerTotals>,
}

#[derive(Clone, Copy, Debug, Default)]
struct WorkerTotals {
    busy_ticks: u64,
    waiting_ticks: u64,
    parked_ticks: u64,
    dispatches: u64,
}

impl Base {
    pub(crate) fn new(rows: &[LiveRow]) -> Base {
        let mut base = Base::default();
        for row in rows {
            match *row {
                LiveRow::Task { task, totals, .. } => drop(base.tasks.insert(task, totals)),
                LiveRow::Stream { stream, totals, .. } => drop(base.streams.insert(stream, totals)),
                LiveRow::Sizes { .. } => {} // The sizes of all messages so far are the best estimate of later ones.
                LiveRow::Worker { worker, busy_ticks, waiting_ticks, parked_ticks, dispatches, .. } => {
                    let totals = WorkerTotals { busy_ticks, waiting_ticks, parked_ticks, dispatches };
                    base.workers.insert(worker, totals);
                }
            }
        }
        base
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.streams.is_empty() && self.workers.is_empty()
    }

    /// Subtracts what was done before the window from a row of the live table.
    pub(crate) fn subtract_from_row(&self, row: &mut LiveRow) {
        match row {
            LiveRow::Task { task, totals, .. } => *totals = self.task(*task, totals),
            LiveRow::Stream { stream, totals, .. } => *totals = self.stream(*stream, totals),
            LiveRow::Sizes { .. } => {}
            LiveRow::Worker { worker, busy_ticks, waiting_ticks, parked_ticks, dispatches, .. } => {
                let before = self.workers.get(worker).copied().unwrap_or_default();
                *busy_ticks = busy_ticks.saturating_sub(before.busy_ticks);
                *waiting_ticks = waiting_ticks.saturating_sub(before.waiting_ticks);
                *parked_ticks = parked_ticks.saturating_sub(before.parked_ticks);
                *dispatches = dispatches.saturating_sub(before.dispatches);
            }
        }
    }

    /// The observation without what was done before the window, if it is the end of a task, stream or worker.
    pub(crate) fn subtract_from(&self, observation: &Observation) -> Observation {
        match *observation {
            Observation::TaskEnded(ended) => ended.with_totals(self.task(ended.task, &ended.totals())).into(),
            Observation::StreamClosed(closed) => {
                let stream = closed.stream;
                let StreamTotals { written, read, dropped } = self.stream(stream, &closed.totals());
                StreamClosed { stream, written, read, dropped }.into()
            }
            Observation::WorkerEnded(ended) => {
                let before = self.workers.get(&ended.worker).copied().unwrap_or_default();
                let busy_ticks = ended.busy_ticks.saturating_sub(before.busy_ticks);
                let waiting_ticks = ended.waiting_ticks.saturating_sub(before.waiting_ticks);
                WorkerEnded { busy_ticks, waiting_ticks, ..ended }.into()
            }
            other => other,
        }
    }

    fn stream(&self, stream: u64, now: &StreamTotals) -> StreamTotals {
        let Some(before) = self.streams.get(&stream) else { return *now };
        StreamTotals {
            written: now.written.saturating_sub(before.written),
            read: now.read.saturating_sub(before.read),
            dropped: now.dropped.saturating_sub(before.dropped),
        }
    }

    fn task(&self, task: u64, now: &TaskTotals) -> TaskTotals {
        let Some(before) = self.tasks.get(&task) else { return *now };
        let counts = now.counts.map(|counts| {
            let before = before.counts.unwrap_or_default();
            TaskCounts {
                dispatches: counts.dispatches.saturating_sub(before.dispatches),
                reads: counts.reads.saturating_sub(before.reads),
                writes: counts.writes.saturating_sub(before.writes),
            }
        });
        TaskTotals {
            busy_ticks: now.busy_ticks.saturating_sub(before.busy_ticks),
            input_wait_ticks: now.input_wait_ticks.saturating_sub(before.input_wait_ticks),
            output_wait_ticks: now.output_wait_ticks.saturating_sub(before.output_wait_ticks),
            ready_ticks: now.ready_ticks.saturating_sub(before.ready_ticks),
            counts,
        }
    }
}

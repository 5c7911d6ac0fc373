//! The latencies of input messages, and the input messages that led to failures.

use crate::composing::dispatch::What;
use crate::decoding::events::{Entry, Exit, Observation};
use crate::ids::StreamId;
use crate::lineage::message::MessageId;
use crate::lineage::{self, Lineage};
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{Latency, MessageTimes, Report, State};

/// The number of slowest input messages kept.
const SLOWEST_MAX: usize = 100;

/// The monitor of latencies: see the module.
pub(crate) struct Latencies {
    lineage: Lineage,
    buffer: lineage::Dispatch,
}

impl Latencies {
    pub(crate) fn new(ns_per_tick: f64) -> Latencies {
        Latencies { lineage: Lineage::new(ns_per_tick, SLOWEST_MAX), buffer: lineage::Dispatch::default() }
    }
}

impl Monitor for Latencies {
    fn name(&self) -> &str {
        "latency"
    }

    fn wants(&self) -> &[&str] {
        &[
            "run.dispatch",
            "run.stream_told",
            "net.entry",
            "net.exit",
            "net.record_failed",
            "exec.task_created",
            "exec.task_ended",
        ]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            self.lineage.take_item(batch, item, &mut self.buffer);
        }
    }

    fn restart(&mut self, _time: u64) {
        self.lineage.restart();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        if moment.ending.state != State::Running {
            self.lineage.finish();
        }
        let lineage = &self.lineage;
        let charged = lineage.charged();
        let inside = charged.attributed + charged.unattributed + charged.empty as f64;
        let ns = |ticks: f64| (lineage.roots.entered > 0).then_some(ticks * moment.ns_per_tick);
        report.latency = Latency {
            service: lineage.roots.service.summary(),
            end_to_end: lineage.roots.end_to_end.summary(),
            waiting: lineage.roots.waiting.summary(),
            entered: lineage.roots.entered,
            in_flight: lineage.roots.incomplete(),
            unmeasured: lineage.roots.unmeasured,
            unattributed: lineage.unattributed,
            attributed_share: (inside > 0.0).then(|| charged.attributed / inside),
            attributed_ns: ns(charged.attributed),
            unattributed_ns: ns(charged.unattributed),
            empty_ns: ns(charged.empty as f64),
            outside_ns: ns(charged.outside),
            over_links: None,
        };
        report.slowest = lineage
            .roots
            .slowest()
            .into_iter()
            .filter_map(|slow| {
                Some(MessageTimes {
                    message: lineage.message(slow.root)?.to_string(),
                    entered_ns: moment.ns(slow.entered.saturating_sub(moment.begin)),
                    end_to_end_ns: moment.ns(slow.left.saturating_sub(slow.entered)),
                    service_ns: slow.service_ticks * moment.ns_per_tick,
                })
            })
            .collect();
        report.failures = lineage.failures(moment);
    }
}

impl Lineage {
    /// Follows the descent of messages through one item of a batch; `buffer` is reused.
    pub(crate) fn take_item(
        &mut self,
        batch: &Batch<'_>,
        item: &crate::composing::dispatch::Item,
        buffer: &mut lineage::Dispatch,
    ) {
        match item.what {
            What::Dispatch(dispatch) => {
                buffer.fill(batch, &dispatch);
                self.dispatch(buffer);
            }
            What::StreamTold { stream } => {
                let Some(state) = batch.structure().stream(stream) else { return };
                self.close(stream, state.reader, state.writer, state.closed.unwrap_or(item.time));
            }
            What::Runtime(Observation::Entry(Entry { stream })) => self.entry(stream),
            What::Runtime(Observation::Exit(Exit { stream })) => self.exit(stream),
            What::Runtime(Observation::RecordFailed(failed)) => {
                let (task, run) = (failed.task, failed.message());
                let component = batch.structure().task(task).map(|task| task.component);
                self.failed(
                    MessageId { stream: StreamId::of(run.stream), index: run.first },
                    task,
                    component,
                    item.time,
                );
            }
            What::Runtime(Observation::TaskCreated(created)) => {
                let holder = self.holders.entry(created.task).or_default();
                holder.one_to_one = created.one_to_one;
                holder.synced = true;
            }
            What::Runtime(Observation::TaskEnded(ended)) => self.end(ended.task, item.time),
            _ => {}
        }
    }
}

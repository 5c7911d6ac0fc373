//! The time of each message in its component, for tasks whose messages are long enough for the runtime to
//! read the clock after each. For all other tasks, only the mean time is known, which the monitor of tasks
//! publishes.

use crate::composing::dispatch::What;
use crate::decoding::events::Observation;
use crate::ids::IdMap;
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::Report;
use crate::report::distribution::Times;

/// The maximal number of distinguished components; messages of further components are not measured.
const COMPONENTS_MAX: usize = 256;

/// The monitor of single messages' times: see the module. Publishes after the tasks.
pub(crate) struct Services {
    ns_per_tick: f64,
    of_component: IdMap<Times>,
}

impl Services {
    pub(crate) fn new(ns_per_tick: f64) -> Services {
        Services { ns_per_tick, of_component: IdMap::default() }
    }
}

impl Monitor for Services {
    fn name(&self) -> &str {
        "service"
    }

    fn wants(&self) -> &[&str] {
        &["exec.message_worked"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            let What::Runtime(Observation::MessageWorked(worked)) = item.what else { continue };
            let Some(component) = batch.structure().task(worked.task).map(|task| task.component) else {
                continue;
            };
            let full = self.of_component.len() >= COMPONENTS_MAX;
            if full && !self.of_component.contains_key(&component) {
                continue;
            }
            let times = self.of_component.entry(component).or_insert_with(Times::new);
            times.record(worked.duration_ticks as f64 * self.ns_per_tick);
        }
    }

    fn restart(&mut self, _time: u64) {
        self.of_component.clear();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        for (&site, times) in &self.of_component {
            let path = moment.names.site(site).path;
            let Some(component) = report.components.iter_mut().find(|component| component.path == path)
            else {
                continue;
            };
            // If two sites have the same path (a network that was loaded twice), the times of the one with
            // more messages are reported.
            let service = times.summary();
            if service.map(|times| times.count) > component.service.map(|times| times.count) {
                component.service = service;
            }
        }
    }
}

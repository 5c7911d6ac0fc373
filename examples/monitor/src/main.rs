//! An example of a user's monitor: it measures how evenly the messages of each component are spread over its
//! replicas (Jain's index: 1 is even, 1/n means that one of n gets all).
//!
//! `cargo run -- SPACE` prints Thalweg's report with this monitor's results among the measurements.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

use thalweg_monitor::{Batch, Follower, Measurement, Moment, Monitor, Report, What};

/// Messages read, by component and task.
#[derive(Default)]
struct Fairness {
    read: HashMap<u64, HashMap<u64, u64>>,
    gaps: u64,
}

impl Monitor for Fairness {
    fn name(&self) -> &str {
        "fairness"
    }

    fn wants(&self) -> &[&str] {
        &["run.dispatch"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let Some(task) = batch.structure().task(dispatch.task) else { continue };
                    let messages: u64 = batch.reads(&dispatch).iter().map(|run| run.count).sum();
                    *self.read.entry(task.component).or_default().entry(dispatch.task).or_default() += messages;
                }
                What::Gap { .. } => self.gaps += 1,
                _ => {}
            }
        }
    }

    fn restart(&mut self, _time: u64) {
        *self = Fairness::default();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let replicated = self.read.iter().filter(|(_, tasks)| tasks.len() > 1);
        let rows: BTreeMap<String, f64> = replicated
            .map(|(&component, tasks)| (moment.names.site(component).path, jain(tasks.values())))
            .collect();
        report.measurements.push(Measurement::table("fairness.jain", "index", rows.into_iter().collect()));
        report.measurements.push(Measurement::number("fairness.gaps", "gaps", self.gaps as f64));
    }
}

/// Jain's index of fairness.
fn jain<'a>(counts: impl Iterator<Item = &'a u64>) -> f64 {
    let (mut sum, mut squares, mut n) = (0.0, 0.0, 0.0);
    for &count in counts {
        sum += count as f64;
        squares += (count as f64) * (count as f64);
        n += 1.0;
    }
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}

fn main() -> ExitCode {
    let Some(space) = std::env::args().nth(1) else {
        eprintln!("usage: fairness SPACE");
        return ExitCode::from(2);
    };
    let reported = Follower::open(&space, 10).and_then(|mut follower| {
        follower.add(Box::new(Fairness::default()));
        follower.poll();
        follower.finish()
    });
    match reported.map(|report| serde_json::to_string_pretty(&report)) {
        Ok(Ok(json)) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => fail(&error.to_string()),
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(error: &str) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

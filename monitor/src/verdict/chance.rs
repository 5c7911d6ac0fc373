//! The confidence of a verdict on a report without windows, as in mode metrics: all shares of time deviate in samples as
//! they do between two runs of the same network, and the share of samples with the verdict of the run is the
//! confidence.

use crate::report::{Report, TaskShares, Verdict, WorkerShares};

use super::verdict;

/// The number of samples.
const SAMPLES: usize = 40;
/// The standard deviation of the logarithm of a task's busy time between two runs (5 % in the median), and that of its
/// waits, which scatter more.
const BUSY: f64 = 0.07;
const WAITS: f64 = 0.2;
/// A report with more tasks is not sampled.
const TASKS_MAX: usize = 2_000;

/// The verdicts on samples of a report; none if it has too many tasks.
pub(super) fn samples(report: &Report) -> Vec<Verdict> {
    if report.tasks.len() > TASKS_MAX {
        return Vec::new();
    }
    let mut chance = Chance(1);
    (0..SAMPLES).map(|_| verdict(&sample(report, &mut chance))).collect()
}

/// Numbers that look random, and are the same in each run of the program.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// A factor. Its logarithm is nearly normal, with this deviation.
    pub(crate) fn factor(&mut self, deviation: f64) -> f64 {
        // The sum of twelve uniform numbers has a variance of one.
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        (deviation * (sum - 6.0)).exp()
    }

    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn sample(report: &Report, chance: &mut Chance) -> Report {
    let mut other = report.clone();
    // Components and tasks deviate independently, because a rule compares components or tasks.
    let components = other.components.iter_mut().map(|component| &mut component.work);
    for work in components.chain(other.tasks.iter_mut().map(|task| &mut task.work)) {
        let factor = chance.factor(BUSY);
        work.busy_ns = work.busy_ns.map(|ns| ns * factor);
        work.service_ns = work.service_ns.map(|ns| ns * factor);
        work.shares = work.shares.map(|shares| deviating(shares, factor, chance));
    }
    for worker in &mut other.workers {
        let of_worker = |tasks: &[crate::report::Task]| -> f64 {
            let on_it = tasks.iter().filter(|task| task.worker == Some(worker.id));
            on_it.filter_map(|task| task.work.busy_ns).sum()
        };
        let (before, now) = (of_worker(&report.tasks), of_worker(&other.tasks));
        let times = if before > 0.0 { now / before } else { 1.0 };
        worker.shares = worker.shares.map(|shares| {
            let free = 1.0 - shares.own - shares.kept - shares.unaccounted;
            let busy = (times * shares.busy).clamp(0.0, free.max(shares.busy));
            WorkerShares { busy, waiting: (free - busy).max(0.0), ..shares }
        });
    }
    other
}

/// Shares of time with another busy time and other waits, which together are as much as before.
fn deviating(shares: TaskShares, busy: f64, chance: &mut Chance) -> TaskShares {
    let TaskShares { busy: ran, input_wait, output_wait, ready } = shares;
    let all = ran + input_wait + output_wait + ready;
    let ran = (busy * ran).min(all);
    let [input, output, ready] = [input_wait, output_wait, ready].map(|share| share * chance.factor(WAITS));
    let waits = input + output + ready;
    let times = if waits > 0.0 { (all - ran) / waits } else { 0.0 };
    TaskShares { busy: ran, input_wait: times * input, output_wait: times * output, ready: times * ready }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Task, Work};

    #[test]
    fn shares_of_a_sample_are_together_as_much_as_before() {
        let shares = TaskShares { busy: 0.6, input_wait: 0.1, output_wait: 0.2, ready: 0.1 };
        let work = Work { shares: Some(shares), busy_ns: Some(6e8), ..Work::default() };
        let report = Report { tasks: vec![Task { work, ..Task::default() }], ..Report::empty() };
        let mut chance = Chance(3);
        let samples: Vec<TaskShares> =
            (0..500).map(|_| sample(&report, &mut chance).tasks[0].work.shares.unwrap()).collect();
        for TaskShares { busy, input_wait, output_wait, ready } in &samples {
            assert!((busy + input_wait + output_wait + ready - 1.0).abs() < 1e-9);
        }
        let logs: Vec<f64> = samples.iter().map(|shares| (shares.busy / 0.6).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
        assert!((deviation / BUSY - 1.0).abs() < 0.15, "{deviation}");
    }
}

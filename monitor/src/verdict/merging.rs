//! Merges reports on parts of a run into one report, for a bootstrap over windows and for the verdict of a
//! phase.
//!
//! Counts and times are added; shares are averaged with the lengths of the parts as weights. Only values that
//! rules use are merged: latencies, distributions and lists of single messages are not.

use std::collections::BTreeMap;
use std::hash::Hash;

use crate::report::{
    BusyAccount, Component, Processors, Report, Root, Stream, Task, TaskShares, Work, Worker, WorkerShares,
};

/// Merges reports on parts of a run, in any order; a part may occur several times. Returns `None` if there
/// are no parts.
pub(crate) fn merged<'r>(parts: impl IntoIterator<Item = &'r Report>) -> Option<Report> {
    let mut parts = parts.into_iter();
    let first = parts.next()?;
    let mut sum = Sum::default();
    let mut whole = Report {
        window: first.window.clone(),
        limits: first.limits,
        space: first.space.clone(),
        ..Report::empty()
    };
    whole.window.duration_ns = 0.0;
    whole.window.partial = true;
    for part in std::iter::once(first).chain(parts) {
        add_whole(&mut whole, part);
        sum.add(part);
    }
    sum.into(&mut whole);
    whole.utilisation = super::utilisation(&whole);
    Some(whole)
}

fn add_whole(whole: &mut Report, part: &Report) {
    whole.window.duration_ns += part.window.duration_ns;
    plus(&mut whole.throughput.messages_in, part.throughput.messages_in);
    plus(&mut whole.throughput.messages_out, part.throughput.messages_out);
    whole.waiting.total_ns += part.waiting.total_ns;
    whole.broken_count += part.broken_count;
    if let Some(of) = &part.processors {
        let to =
            whole.processors.get_or_insert_with(|| Processors { count: of.count, ..Processors::default() });
        to.span_ns += of.span_ns;
        to.run_ns += of.run_ns;
        plus(&mut to.others_ns, of.others_ns);
        to.throttled_ns += of.throttled_ns;
        to.sampling_ns += of.sampling_ns;
        to.looks += of.looks;
    }
}

/// Merged values by key, each with the sum of the weights of its parts.
struct Keyed<K, V>(BTreeMap<K, (V, f64)>);

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Keyed<K, V> {
        Keyed(BTreeMap::new())
    }
}

impl<K: Ord + Hash, V: Clone> Keyed<K, V> {
    /// Adds a value of this weight: the first value of a key is copied, further ones are merged by `add`,
    /// which gets the weight of the merged value and that of the new one.
    fn add(&mut self, key: K, value: &V, weight: f64, add: impl FnOnce(&mut V, &V, [f64; 2])) {
        match self.0.get_mut(&key) {
            None => {
                self.0.insert(key, (value.clone(), weight));
            }
            Some((to, before)) => {
                add(to, value, [*before, weight]);
                *before += weight;
            }
        }
    }

    fn values(self) -> Vec<V> {
        self.0.into_values().map(|(value, _)| value).collect()
    }
}

#[derive(Default)]
struct Sum {
    tasks: Keyed<(u32, u64), Task>,
    components: Keyed<String, Component>,
    workers: Keyed<(u32, u64), Worker>,
    streams: Keyed<(String, Option<String>, Option<String>), Stream>,
    roots: Keyed<(u32, u64, u8), Root>,
}

impl Sum {
    fn add(&mut self, part: &Report) {
        let lasted_ns = part.window.duration_ns;
        let lived = |work: &Work| work.lifetime_ns.unwrap_or(lasted_ns);
        for task in &part.tasks {
            self.tasks.add((task.id.space, task.id.number), task, lived(&task.work), |to, of, weights| {
                to.worker = of.worker;
                plus(&mut to.cpu_ns, of.cpu_ns);
                plus(&mut to.delayed_ns, of.delayed_ns);
                to.moves += of.moves;
                add_work(&mut to.work, &of.work, weights);
            });
        }
        for component in &part.components {
            let weight = lived(&component.work);
            self.components.add(component.path.clone(), component, weight, |to, of, weights| {
                to.tasks = to.tasks.max(of.tasks);
                add_work(&mut to.work, &of.work, weights);
            });
        }
        for worker in &part.workers {
            self.workers.add((worker.id.space, worker.id.number), worker, worker.lifetime_ns, add_worker);
        }
        for stream in &part.streams {
            let key = (stream.name.clone(), stream.writer.clone(), stream.reader.clone());
            self.streams.add(key, stream, lasted_ns, add_stream);
        }
        for root in &part.waiting.roots {
            let key = (root.task.space, root.task.number, root.state as u8);
            self.roots.add(key, root, 1.0, |to, of, _| to.ns += of.ns);
        }
    }

    fn into(self, whole: &mut Report) {
        let busy = |work: &Work| work.busy_ns.unwrap_or(0.0);
        whole.tasks = self.tasks.values();
        whole.tasks.sort_by(|a, b| busy(&b.work).total_cmp(&busy(&a.work)));
        whole.tasks_count = whole.tasks.len() as u64;
        whole.components = self.components.values();
        whole.components.sort_by(|a, b| busy(&b.work).total_cmp(&busy(&a.work)));
        whole.workers = self.workers.values();
        whole.streams = self.streams.values();
        whole.waiting.roots = self.roots.values();
        let total_ns = whole.waiting.total_ns.max(f64::MIN_POSITIVE);
        whole.waiting.roots.iter_mut().for_each(|root| root.share = root.ns / total_ns);
        whole.waiting.roots.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    }
}

fn add_work(to: &mut Work, of: &Work, weights: [f64; 2]) {
    plus(&mut to.messages_in, of.messages_in);
    plus(&mut to.messages_out, of.messages_out);
    to.yield_share = mean(
        [to.yield_share, of.yield_share],
        [to.dispatches, of.dispatches].map(|count| count.unwrap_or(0) as f64),
    );
    plus(&mut to.dispatches, of.dispatches);
    plus(&mut to.yields, of.yields);
    plus(&mut to.empty, of.empty);
    plus(&mut to.busy_ns, of.busy_ns);
    plus(&mut to.empty_ns, of.empty_ns);
    plus(&mut to.lifetime_ns, of.lifetime_ns);
    to.failed += of.failed;
    to.ended_badly += of.ended_badly;
    let parts = |shares: &TaskShares| [shares.busy, shares.input_wait, shares.output_wait, shares.ready];
    to.shares = of_both(to.shares.as_ref().map(parts), of.shares.as_ref().map(parts), weights)
        .map(|[busy, input_wait, output_wait, ready]| TaskShares { busy, input_wait, output_wait, ready });
    let messages = to.messages_in.filter(|&count| count > 0).or(to.messages_out).filter(|&count| count > 0);
    to.service_ns = to
        .busy_ns
        .zip(messages)
        .map(|(busy_ns, count)| (busy_ns - to.empty_ns.unwrap_or(0.0)).max(0.0) / count as f64);
    to.selectivity = to
        .messages_in
        .zip(to.messages_out)
        .filter(|(read, _)| *read > 0)
        .map(|(read, written)| written as f64 / read as f64);
    add_account(&mut to.account, of.account.as_ref());
}

fn add_account(to: &mut Option<BusyAccount>, of: Option<&BusyAccount>) {
    let Some(of) = of else { return };
    let Some(to) = to else {
        *to = Some(of.clone());
        return;
    };
    to.computing_ns += of.computing_ns;
    plus(&mut to.spinning_ns, of.spinning_ns);
    let (a, b) = (to.asleep.parts(), of.asleep.parts());
    to.asleep = crate::report::Asleep::of(std::array::from_fn(|at| a[at] + b[at]));
    to.kept_ns += of.kept_ns;
    to.runtime_ns += of.runtime_ns;
    to.looks += of.looks;
    to.measured_ns += of.measured_ns;
    plus(&mut to.kernel_ns, of.kernel_ns);
    plus(&mut to.faults, of.faults);
    to.lock = to.lock.or(of.lock);
}

fn add_worker(to: &mut Worker, of: &Worker, weights: [f64; 2]) {
    let parts =
        |shares: &WorkerShares| [shares.busy, shares.waiting, shares.own, shares.kept, shares.unaccounted];
    to.shares = of_both(to.shares.as_ref().map(parts), of.shares.as_ref().map(parts), weights).map(
        |[busy, waiting, own, kept, unaccounted]| WorkerShares { busy, waiting, own, kept, unaccounted },
    );
    to.lifetime_ns += of.lifetime_ns;
    to.parked_ns += of.parked_ns;
    plus(&mut to.dispatches, of.dispatches);
    plus(&mut to.messages, of.messages);
    plus(&mut to.cpu_ns, of.cpu_ns);
    plus(&mut to.preempted, of.preempted);
    plus(&mut to.delayed_ns, of.delayed_ns);
    add_account(&mut to.account, of.account.as_ref());
}

fn add_stream(to: &mut Stream, of: &Stream, weights: [f64; 2]) {
    plus(&mut to.written, of.written);
    plus(&mut to.read, of.read);
    to.failed += of.failed;
    to.held = of.held;
    to.capacity = to.capacity.max(of.capacity);
    to.streams = to.streams.max(of.streams);
    to.occupancy_max = to.occupancy_max.max(of.occupancy_max);
    to.occupancy_mean = mean([to.occupancy_mean, of.occupancy_mean], weights);
    to.wait_ns = mean([to.wait_ns, of.wait_ns], weights);
    to.full_share = mean([to.full_share, of.full_share], weights);
    to.empty_share = mean([to.empty_share, of.empty_share], weights);
    to.rate_per_s = mean([to.rate_per_s, of.rate_per_s], weights);
}

/// Adds two values, of which either may be unknown.
fn plus<T: Copy + std::ops::Add<Output = T>>(to: &mut Option<T>, of: Option<T>) {
    *to = match (*to, of) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
}

fn mean(values: [Option<f64>; 2], weights: [f64; 2]) -> Option<f64> {
    of_both(values[0].map(|value| [value]), values[1].map(|value| [value]), weights).map(|[mean]| mean)
}

fn of_both<const N: usize>(
    a: Option<[f64; N]>,
    b: Option<[f64; N]>,
    [of_a, of_b]: [f64; 2],
) -> Option<[f64; N]> {
    match (a, b) {
        (Some(a), Some(b)) if of_a + of_b > 0.0 => {
            Some(std::array::from_fn(|at| (a[at] * of_a + b[at] * of_b) / (of_a + of_b)))
        }
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{TaskId, WorkerId};

    fn part(duration_ns: f64, busy: f64, messages: u64) -> Report {
        let work = Work {
            messages_in: Some(messages),
            messages_out: Some(messages),
            busy_ns: Some(busy * duration_ns),
            lifetime_ns: Some(duration_ns),
            shares: Some(TaskShares { busy, input_wait: 1.0 - busy, output_wait: 0.0, ready: 0.0 }),
            ..Work::default()
        };
        let task =
            Task { id: TaskId::of(3), name: "net/w".to_owned(), work: work.clone(), ..Task::default() };
        let shares = WorkerShares { busy, waiting: 1.0 - busy, own: 0.0, kept: 0.0, unaccounted: 0.0 };
        let worker = Worker {
            id: WorkerId::of(0),
            lifetime_ns: duration_ns,
            shares: Some(shares),
            ..Worker::default()
        };
        let mut report = Report { tasks: vec![task], workers: vec![worker], ..Report::empty() };
        report.window.duration_ns = duration_ns;
        report.throughput.messages_in = Some(messages);
        report
    }

    #[test]
    fn counts_add_up_and_shares_are_weighted_by_time() {
        let (short, long) = (part(1e6, 1.0, 10), part(3e6, 0.2, 90));
        let whole = merged([&short, &long, &long]).expect("three parts");
        let work = &whole.tasks[0].work;
        assert_eq!((work.messages_in, whole.throughput.messages_in), (Some(190), Some(190)));
        let busy = (1e6 + 2.0 * 0.6e6) / 7e6;
        let shares = work.shares.expect("shares");
        assert!((shares.busy - busy).abs() < 1e-12 && (shares.busy + shares.input_wait - 1.0).abs() < 1e-12);
        assert!((work.service_ns.expect("a time") - 2.2e6 / 190.0).abs() < 1e-6);
        assert!((whole.workers[0].shares.expect("shares").busy - busy).abs() < 1e-12);
        assert_eq!(whole.window.duration_ns, 7e6);
        assert_eq!(merged([]), None);
    }
}

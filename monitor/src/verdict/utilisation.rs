//! True-rate utilisation: the share of its time that the source demands of each task and worker (Kalavri et
//! al., OSDI 2018).

use crate::report::{Report, Utilisation};

use super::facts::{is_source, load, moves};

/// Tasks and workers by their utilisation, highest first. The list is empty if no source is known, or no
/// source's time.
pub(crate) fn utilisation(report: &Report) -> Vec<Utilisation> {
    let sources = || report.tasks.iter().filter(|task| is_source(task));
    let messages: u64 = sources().filter_map(|task| task.work.messages_out).sum();
    let source_ns = sources().filter_map(|task| task.work.busy_ns).fold(0.0, f64::max);
    if messages == 0 || source_ns <= 0.0 {
        return Vec::new();
    }
    let demand = |busy_ns: f64| busy_ns / messages as f64;
    let tasks = report.tasks.iter().filter(|task| moves(task)).filter_map(|task| {
        let busy_ns = task.work.busy_ns?;
        Some(Utilisation {
            name: task.name.clone(),
            task: Some(task.id),
            worker: task.worker,
            demand_ns: demand(busy_ns),
            utilisation: busy_ns / source_ns,
            busy: task.work.shares?.busy,
        })
    });
    let workers = report.workers.iter().filter_map(|worker| {
        let shares = worker.shares?;
        let busy = load(&shares);
        Some(Utilisation {
            name: format!("worker {}", worker.id),
            task: None,
            worker: Some(worker.id),
            demand_ns: demand(busy * worker.lifetime_ns),
            utilisation: busy * worker.lifetime_ns / source_ns,
            busy,
        })
    });
    let mut all: Vec<Utilisation> = tasks.chain(workers).collect();
    all.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation).then_with(|| a.name.cmp(&b.name)));
    all
}

//! A sample of a run: the rows of its live table, its processor time and its memory.

use std::collections::HashMap;
use std::fs;

use thalweg_monitor::{LiveRow, TaskTotals, live_rows};
use thalweg_space::Error;
use thalweg_space::reader::SpaceReader;

/// The name of threads of tasks that have one of their own, as the kernel cuts it.
const OWN_THREAD_NAME: &str = "thalweg-blockin";
/// The number that stands for a worker in the row of a task that has a thread of its own.
const OWN_THREAD: u64 = u32::MAX as u64;

/// The state of a run at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// The time in ticks of the run's clock. `hz` is the number of ticks in a second.
    pub(super) ticks: u64,
    pub(super) hz: f64,
    pub(super) tasks: HashMap<u64, TaskAt>,
    pub(super) streams: HashMap<u64, StreamAt>,
    pub(super) workers: HashMap<u64, WorkerAt>,
    /// The newest task's number.
    pub(super) newest: u64,
    /// The processor time of the process, in seconds.
    pub(super) processor_s: f64,
    /// The time for which threads of tasks that have one of their own could run but had no processor, in seconds.
    pub(super) delayed_s: f64,
    /// The time for which the host of a virtual machine took processors away from it, in seconds.
    pub(super) stolen_s: f64,
    /// Memory, in bytes.
    pub(super) memory: f64,
}

/// The state of a task at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskAt {
    pub(super) component: u64,
    pub(super) replica: u64,
    /// The worker of the task; `None` if the task has a thread of its own.
    pub(super) worker: Option<u32>,
    pub(super) totals: TaskTotals,
}

/// The state of a stream at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamAt {
    pub(super) writer: u64,
    pub(super) reader: u64,
    pub(super) capacity: u64,
    pub(super) written: u64,
    pub(super) read: u64,
}

/// The state of a worker at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerAt {
    pub(super) busy_ticks: u64,
    pub(super) waiting_ticks: u64,
    pub(super) dispatches: u64,
    pub(super) takes_part: bool,
}

impl Sample {
    pub(super) fn take(reader: &SpaceReader) -> Result<Sample, Error> {
        let info = reader.info()?;
        let rows = live_rows(&reader.live_rows()?);
        let ticks = info.clock.now();
        let mut sample = Sample { ticks, hz: info.clock.hz(), ..Sample::default() };
        for row in rows {
            sample.note(row);
        }
        let threads = Threads::of(info.pid);
        sample.processor_s = threads.map_or(f64::NAN, |threads| threads.processor_s);
        sample.delayed_s = threads.map_or(f64::NAN, |threads| threads.delayed_s);
        sample.stolen_s =
            fs::read_to_string("/proc/stat").ok().and_then(|stat| stolen(&stat)).unwrap_or(f64::NAN);
        sample.memory = memory(info.pid).unwrap_or(f64::NAN);
        Ok(sample)
    }

    fn note(&mut self, row: LiveRow) {
        match row {
            LiveRow::Task { task, component, replica, worker, totals, .. } => {
                let worker = (worker != OWN_THREAD).then_some(worker as u32);
                self.tasks.insert(task, TaskAt { component, replica, worker, totals });
                self.newest = self.newest.max(task);
            }
            LiveRow::Stream { stream, reader, writer, capacity, totals, .. } => {
                let (written, read) = (totals.written, totals.read);
                self.streams.insert(stream, StreamAt { writer, reader, capacity, written, read });
            }
            LiveRow::Worker { worker, busy_ticks, waiting_ticks, dispatches, parked, ended, .. } => {
                let takes_part = !parked && !ended;
                self.workers.insert(worker, WorkerAt { busy_ticks, waiting_ticks, dispatches, takes_part });
            }
            LiveRow::Sizes { .. } => {}
        }
    }
}

/// The times of a process's threads so far, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Threads {
    /// The time on a processor.
    pub(super) processor_s: f64,
    /// The time for which threads of tasks that have one of their own could run but had no processor.
    delayed_s: f64,
}

impl Threads {
    pub(super) fn of(pid: u32) -> Option<Threads> {
        let mut times = Threads::default();
        for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            // A thread that ends while its file is read is left out.
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let mut fields = text.split_whitespace();
            let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / 1e9);
            times.processor_s += seconds()?;
            let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if name.trim_end() == OWN_THREAD_NAME {
                times.delayed_s += seconds()?;
            }
        }
        Some(times)
    }
}

/// The time for which the host took the machine's processors away, in seconds, from `/proc/stat` (`proc_stat`: the eighth
/// number of a line, in hundredths of a second).
fn stolen(stat: &str) -> Option<f64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    Some(all.split_ascii_whitespace().nth(7)?.parse::<f64>().ok()? / 100.0)
}

/// Memory that a process has in use, in bytes.
fn memory(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use thalweg_exec::{Options, Runtime, TaskSpec};

    use super::*;

    #[test]
    fn what_the_host_took_is_read_from_the_line_of_all_processors() {
        let stat =
            "cpu  172309 0 7054 242839 537 0 438 1380 0 0\ncpu0 85131 0 3572 122434 237 0 205 692 0 0\n";
        assert_eq!(stolen(stat), Some(13.8));
        assert_eq!(stolen("cpu  1 2 3"), None);
        assert!(fs::read_to_string("/proc/stat").is_ok_and(|stat| stolen(&stat).is_some()));
    }

    #[test]
    fn threads_of_tasks_that_have_one_of_their_own_have_the_name_by_which_they_are_known() {
        let named = || {
            let threads = fs::read_dir("/proc/self/task").expect("threads").flatten();
            let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
            names.filter(|name| name.trim_end() == OWN_THREAD_NAME).count()
        };
        let runtime = Runtime::new(Options { workers: 1, ..Options::default() }).expect("a runtime");
        let ((began, begun), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        runtime.spawn_blocking(TaskSpec::default(), move |_| {
            began.send(()).expect("the test waits");
            ends.recv().expect("the test goes on");
        });
        runtime.start();
        begun.recv().expect("the task runs");
        assert_eq!(named(), 1);
        end.send(()).expect("the task waits");
        runtime.join().expect("it ends");
    }
}

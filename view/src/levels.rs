//! The sums of all lanes, stored beside a run's events, in cells fine enough to draw any window.
//!
//! The width of a lane's cells is that of the first cells times a power of two, and pairs of cells make the
//! cells of the next coarser level ([`Summary`]). Therefore only the finest level is stored, and a window
//! uses the coarsest level that has enough cells in the window.

use crate::lanes::{GapPage, Process, TaskLane, TimelinePage, WorkerLane};
use crate::summary::{Summary, taken};

/// The number of cells that a lane gets in a window; [`CELLS_ALL`] is the number for all lanes together.
const CELLS: u64 = 1 << 10;
const CELLS_ALL: u64 = 1 << 18;

/// A task that has a lane of its own, or a component whose other tasks share a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownTask {
    /// The task's id; 0 if several tasks share the lane.
    pub id: u64,
    /// The number of the component.
    pub component: u64,
    /// The task's replica; `None` if several tasks share the lane.
    pub replica: Option<u64>,
    /// The worker on which the task was last.
    pub worker: Option<u64>,
}

/// The sums of all lanes of a run: see the module.
#[derive(Clone, Debug)]
pub struct Levels {
    /// The tick from which times are counted.
    pub zero: u64,
    /// Nanoseconds in a tick.
    pub ns_per_tick: f64,
    /// The tick of the last event.
    pub end: u64,
    /// For each lane of a task, what is known of the task; in the order of the lanes.
    pub known: Vec<KnownTask>,
    /// For each lane of a task, its names; the sums of the lanes are in `tasks`.
    pub called: Vec<TaskLane>,
    /// The gaps in which events were lost.
    pub gaps: Vec<GapPage>,
    /// The sums of the lanes of tasks.
    pub tasks: Vec<Summary>,
    /// The sums of the lanes of workers, with the workers' numbers.
    pub workers: Vec<(u64, Summary)>,
}

impl Levels {
    /// The tick at a time of the page.
    pub fn tick(&self, ns: f64) -> u64 {
        self.zero.saturating_add((ns.max(0.0) / self.ns_per_tick) as u64)
    }

    /// The time of the page at a tick.
    pub fn ns(&self, tick: u64) -> f64 {
        tick.saturating_sub(self.zero) as f64 * self.ns_per_tick
    }

    /// The approximate number of spans between two times of the page.
    pub fn spans(&self, from_ns: f64, to_ns: f64) -> u64 {
        let (from, to) = (self.tick(from_ns), self.tick(to_ns));
        let of_workers = self.workers.iter().map(|(_, summary)| summary.spans(from, to));
        self.tasks.iter().map(|summary| summary.spans(from, to)).chain(of_workers).sum()
    }

    /// The lanes between two times of the page, made only from the sums.
    pub fn window(&self, from_ns: f64, to_ns: f64) -> TimelinePage {
        let (from, to) = (self.tick(from_ns), self.tick(to_ns));
        let all = self.tasks.iter().chain(self.workers.iter().map(|(_, summary)| summary));
        let (mut width, lanes) = (1, self.tasks.len() + self.workers.len());
        for summary in all {
            width = width.max(summary.width());
        }
        let cells = |width: u64| to.saturating_sub(from) / width + 2;
        while width < 1 << 62
            && (cells(width) > CELLS || cells(width).saturating_mul(lanes as u64) > CELLS_ALL)
        {
            width = width.saturating_mul(2);
        }
        let mut begin = from;
        let mut sums = |summary: &Summary| {
            let mut summary = summary.clone();
            summary.widen(width);
            let range = summary.range(from, to);
            begin = summary.begin_of(from);
            let cells = &summary.cells()[range];
            let part = |ticks: &u64| (*ticks as f64 * 1000.0 / width as f64).round() as u32;
            cells.iter().flat_map(|cell| cell.iter().map(part)).collect::<Vec<u32>>()
        };
        let called = self.called.iter().cloned().zip(&self.tasks);
        let tasks: Vec<TaskLane> =
            called.map(|(lane, summary)| TaskLane { sums: sums(summary), ..lane }).collect();
        let workers = self.workers.iter().map(|(id, summary)| WorkerLane {
            id: *id,
            name: id.to_string(),
            process: 0,
            sums: sums(summary),
        });
        let workers: Vec<WorkerLane> = workers.collect();
        TimelinePage {
            duration_ns: to_ns,
            exact_from_ns: None,
            processes: vec![Process {
                name: String::new(),
                sums_from_ns: self.ns(begin),
                step_ns: width as f64 * self.ns_per_tick,
            }],
            workers,
            tasks,
            gaps: self.gaps_in(from_ns, to_ns),
            ..TimelinePage::default()
        }
    }

    /// The gaps that lie, at least in part, between two times.
    pub fn gaps_in(&self, from_ns: f64, to_ns: f64) -> Vec<GapPage> {
        let inside = |gap: &&GapPage| gap.to_ns >= from_ns && gap.from_ns <= to_ns;
        self.gaps.iter().filter(inside).cloned().collect()
    }

    /// Encodes all data as bytes for [`Levels::read`].
    pub fn write(&self, out: &mut Vec<u8>) {
        let counts = [
            self.zero,
            self.ns_per_tick.to_bits(),
            self.end,
            self.known.len() as u64,
            self.workers.len() as u64,
        ];
        counts.iter().for_each(|word| out.extend(word.to_le_bytes()));
        for (task, summary) in self.known.iter().zip(&self.tasks) {
            let some = |number: Option<u64>| number.map_or(u64::MAX, |number| number);
            let words = [task.id, task.component, some(task.replica), some(task.worker)];
            words.iter().for_each(|word| out.extend(word.to_le_bytes()));
            summary.write(out);
        }
        for (id, summary) in &self.workers {
            out.extend(id.to_le_bytes());
            summary.write(out);
        }
        // Encoding lists of texts and numbers as JSON cannot fail.
        let named = serde_json::to_vec(&(&self.called, &self.gaps)).unwrap_or_default();
        out.extend((named.len() as u64).to_le_bytes());
        out.extend(named);
    }

    /// Decodes the bytes of [`Levels::write`] and advances past them; `None` if the bytes are invalid.
    pub fn read(bytes: &mut &[u8]) -> Option<Levels> {
        fn word(bytes: &mut &[u8]) -> Option<u64> {
            Some(u64::from_le_bytes(taken(bytes)?))
        }
        let (zero, ns_per_tick, end) = (word(bytes)?, f64::from_bits(word(bytes)?), word(bytes)?);
        let (tasks, workers) = (word(bytes)?, word(bytes)?);
        if !(ns_per_tick.is_finite() && ns_per_tick > 0.0) {
            return None;
        }
        let mut levels = Levels {
            zero,
            ns_per_tick,
            end,
            known: Vec::new(),
            called: Vec::new(),
            gaps: Vec::new(),
            tasks: Vec::new(),
            workers: Vec::new(),
        };
        for _ in 0..tasks {
            let some = |number: u64| (number != u64::MAX).then_some(number);
            let (id, component) = (word(bytes)?, word(bytes)?);
            let (replica, worker) = (some(word(bytes)?), some(word(bytes)?));
            levels.known.push(KnownTask { id, component, replica, worker });
            levels.tasks.push(Summary::read(bytes)?);
        }
        for _ in 0..workers {
            let id = word(bytes)?;
            levels.workers.push((id, Summary::read(bytes)?));
        }
        let (named, rest) = {
            let length = usize::try_from(word(bytes)?).ok()?;
            bytes.split_at_checked(length)?
        };
        *bytes = rest;
        (levels.called, levels.gaps) = serde_json::from_slice(named).ok()?;
        (levels.called.len() == levels.known.len()).then_some(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{STATES, State};
    use thalweg_chance::Chance;

    /// Two tasks on one worker, whose spans are known to the test.
    fn made() -> (Levels, Vec<(usize, State, u64, u64)>) {
        let mut chance = Chance::new(29);
        let mut summaries = [0, 1].map(|_| Summary::new(1000, 16, 1 << 12));
        let mut spans = Vec::new();
        for (lane, summary) in summaries.iter_mut().enumerate() {
            let mut at = 1000;
            for _ in 0..5000 {
                let state =
                    [State::Busy, State::Starved, State::Blocked, State::Ready][chance.below(4) as usize];
                let end = at + 1 + chance.below(60);
                summary.add(state, at, end);
                spans.push((lane, state, at, end));
                at = end;
            }
        }
        let known = [1, 2].map(|id| KnownTask { id, component: id, replica: Some(0), worker: Some(0) });
        let worker = summaries[0].clone();
        let levels = Levels {
            zero: 1000,
            ns_per_tick: 0.5,
            end: spans.iter().map(|span| span.3).max().unwrap(),
            known: known.to_vec(),
            called: vec![TaskLane::default(); 2],
            gaps: vec![GapPage { from_ns: 7.0, to_ns: 9.0, lost: 3, worker: None }],
            tasks: summaries.to_vec(),
            workers: vec![(0, worker)],
        };
        (levels, spans)
    }

    #[test]
    fn a_window_of_any_length_has_the_sums_of_its_spans_and_is_drawn_from_few_cells() {
        let (levels, spans) = made();
        let whole = (levels.end - levels.zero) as f64 * levels.ns_per_tick;
        for divided in [1, 3, 10, 100, 1000] {
            for part in [0, divided / 2, divided - 1] {
                let from = whole * f64::from(part) / f64::from(divided);
                let to = whole * f64::from(part + 1) / f64::from(divided);
                let page = levels.window(from, to);
                assert!(page.cells() <= 1024, "{} cells", page.cells());
                let process = &page.processes[0];
                for (lane, task) in page.tasks.iter().enumerate() {
                    let cells = task.sums.len() / STATES;
                    // The expected sums of the cells are computed from the spans tick by tick.
                    let (first, width) = (levels.tick(process.sums_from_ns), (process.step_ns / 0.5) as u64);
                    let behind = first + cells as u64 * width;
                    for state in 0..STATES {
                        let counted: u64 = spans
                            .iter()
                            .filter(|span| span.0 == lane && span.1 as usize == state)
                            .map(|span| span.3.min(behind).saturating_sub(span.2.max(first)))
                            .sum();
                        let summed: u64 =
                            task.sums.iter().skip(state).step_by(STATES).map(|&part| u64::from(part)).sum();
                        let summed = summed as f64 * width as f64 / 1000.0;
                        let rounded = cells as f64 * width as f64 / 2000.0 + 1.0;
                        assert!(
                            (summed - counted as f64).abs() <= rounded,
                            "{summed} summed, {counted} counted"
                        );
                    }
                    assert!(
                        process.sums_from_ns <= from && from - process.sums_from_ns < process.step_ns * 1.001
                    );
                }
            }
        }
        assert_eq!(levels.spans(0.0, whole), 3 * 5000);
    }

    #[test]
    fn what_was_written_is_read_and_what_is_cut_is_not() {
        let (levels, _) = made();
        let mut bytes = Vec::new();
        levels.write(&mut bytes);
        let read = Levels::read(&mut &bytes[..]).unwrap();
        assert_eq!((read.zero, read.end, &read.known), (levels.zero, levels.end, &levels.known));
        assert_eq!(read.window(0.0, 1e5), levels.window(0.0, 1e5));
        assert_eq!(read.gaps_in(8.0, 20.0).len() + read.gaps_in(9.5, 20.0).len(), 1);
        for cut in (0..bytes.len()).step_by(97) {
            assert!(Levels::read(&mut &bytes[..cut]).is_none(), "{cut} bytes");
        }
    }
}

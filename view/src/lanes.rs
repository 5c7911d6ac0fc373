//! The timeline as data of a page: lanes, single spans, and gaps; also combines the lanes of several
//! processes into one page.

use serde::{Deserialize, Serialize};

use crate::filling::filled;
use crate::levels::Levels;
use crate::links::LinkPage;
use crate::summary::{STATES, State, Summary};

/// The value that means "none" in a column.
pub(crate) const NONE: i64 = -1;
/// The numbers of the workers of the n-th process of a session begin at n times this number.
const WORKERS: u64 = 1 << 20;

/// The timeline as data of a page. Times are nanoseconds from the start of the shown time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelinePage {
    /// The length of the shown time.
    pub duration_ns: f64,
    /// The time from which every span is in `spans`; null if `spans` has no complete part. Earlier times have
    /// only sums.
    pub exact_from_ns: Option<f64>,
    /// The processes whose lanes these are: one process, or the processes of a session.
    pub processes: Vec<Process>,
    /// The workers.
    pub workers: Vec<WorkerLane>,
    /// The tasks.
    pub tasks: Vec<TaskLane>,
    /// Single spans, in the order of their ends, as columns.
    pub spans: Spans,
    /// The gaps in which events were lost.
    pub gaps: Vec<GapPage>,
    /// The decisions of tuners, oldest first.
    pub decisions: Vec<Decided>,
    /// The links of a run over several nodes.
    pub links: Vec<LinkPage>,
}

/// A process, and the cells of its lanes' sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The name of the process; empty if it is the only process.
    pub name: String,
    /// The time at which the first cell of the sums starts.
    pub sums_from_ns: f64,
    /// The length of a cell of the sums.
    pub step_ns: f64,
}

/// A worker's lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerLane {
    /// The worker's number, which is unique among the workers of the page.
    pub id: u64,
    /// The worker's name: its number in its process, or `PROCESS/NUMBER` in a session.
    pub name: String,
    /// The index in `processes` of the worker's process.
    pub process: usize,
    /// The time in each cell and state, in thousandths of a cell: first the four states of cell 0, then those
    /// of cell 1, and so on.
    pub sums: Vec<u32>,
}

/// A task's lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskLane {
    /// The task's id; null if several tasks of the component share the lane.
    pub id: Option<u64>,
    /// The name of the task.
    pub name: String,
    /// The path of the task's component.
    pub component: String,
    /// The index in `processes` of the task's process.
    pub process: usize,
    /// The worker on which the task was last; null if the task has a thread of its own.
    pub worker: Option<u64>,
    /// The time in each cell and state, in the format of [`WorkerLane::sums`].
    pub sums: Vec<u32>,
}

/// Spans as columns of equal length; -1 stands for none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spans {
    /// The index of the task in `tasks`, or -1 if the worker waited for a ready task.
    pub lane: Vec<i64>,
    /// The state: 0 busy, 1 waits for messages, 2 waits for room, 3 ready.
    pub state: Vec<i64>,
    /// The worker on which the task was.
    pub worker: Vec<i64>,
    /// The end of the span, in nanoseconds after the end of the previous span (for the first span, after
    /// `exact_from_ns`).
    pub end: Vec<i64>,
    /// The duration of the span.
    pub length: Vec<i64>,
    /// If the span is a wait, the index of the task that was waited for.
    pub peer: Vec<i64>,
    /// The stream that was waited for, or the first stream that was read.
    pub stream: Vec<i64>,
    /// The first message that the task read from `stream`, if the span is a dispatch.
    pub first: Vec<i64>,
    /// The number of messages that the task read from all streams, if the span is a dispatch.
    pub count: Vec<i64>,
}

/// A tuner's decision, as `thalweg tune log` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The number of the decision in the log.
    pub number: u64,
    /// The time of the decision.
    pub at_ns: f64,
    /// The kind of decision: `began`, `tried`, `kept`, `taken back` and so on.
    pub what: String,
    /// The change in words.
    pub change: String,
    /// The model or rule that proposed the change.
    pub model: String,
    /// The predicted improvement of the goal as a fraction, if there was a prediction.
    pub predicted: Option<f64>,
    /// The gain that the trial of the change measured, as a fraction, with the ends of its interval; null if
    /// the change was not tried.
    pub gain: Option<[f64; 3]>,
    /// The reason for the decision.
    pub why: String,
}

/// A time in which events were lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapPage {
    /// The start of the gap.
    pub from_ns: f64,
    /// The end of the gap.
    pub to_ns: f64,
    /// The number of events lost.
    pub lost: u64,
    /// The worker that wrote the lost events, if known.
    pub worker: Option<u64>,
}

impl TimelinePage {
    /// Combines the timelines of several processes into one: each part consists of the process's number in
    /// the report, the start of the process after the start of the page in nanoseconds, and its timeline.
    pub fn together(parts: Vec<(u32, f64, TimelinePage)>) -> TimelinePage {
        // The time from which on all processes have their single spans; a process that has all of its spans
        // sets no limit.
        let exact = parts.iter().filter_map(|(_, later, page)| {
            let from = page.exact_from_ns?;
            Some(if from > 0.0 { from + later } else { 0.0 })
        });
        let exact = exact.reduce(f64::max);
        let mut whole = TimelinePage { exact_from_ns: exact, ..TimelinePage::default() };
        let mut spans: Vec<[i64; 9]> = Vec::new();
        for (at, (number, later, page)) in parts.into_iter().enumerate() {
            let (tasks, workers) = (whole.tasks.len() as i64, at as u64 * WORKERS);
            let called = |name: &str| format!("{number}/{name}");
            whole.duration_ns = whole.duration_ns.max(page.duration_ns + later);
            spans.extend(page.spans.rows(page.exact_from_ns.unwrap_or(0.0) + later, exact).map(|mut row| {
                if row[LANE] >= 0 {
                    row[LANE] += tasks;
                }
                if row[PEER] >= 0 {
                    row[PEER] += tasks;
                }
                if row[WORKER] >= 0 {
                    row[WORKER] += workers as i64;
                }
                row
            }));
            whole.processes.extend(page.processes.into_iter().take(1).map(|process| Process {
                name: number.to_string(),
                sums_from_ns: process.sums_from_ns + later,
                ..process
            }));
            whole.workers.extend(page.workers.into_iter().map(|lane| WorkerLane {
                id: lane.id + workers,
                name: called(&lane.name),
                process: at,
                ..lane
            }));
            whole.tasks.extend(page.tasks.into_iter().map(|lane| TaskLane {
                name: called(&lane.name),
                component: called(&lane.component),
                worker: lane.worker.map(|worker| worker + workers),
                process: at,
                ..lane
            }));
            whole
                .decisions
                .extend(page.decisions.into_iter().map(|of| Decided { at_ns: of.at_ns + later, ..of }));
            whole.links.extend(page.links.into_iter().map(|of| LinkPage { process: at, ..of }));
            whole.gaps.extend(page.gaps.into_iter().map(|gap| GapPage {
                from_ns: gap.from_ns + later,
                to_ns: gap.to_ns + later,
                worker: gap.worker.map(|worker| worker + workers),
                ..gap
            }));
        }
        whole.decisions.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        spans.sort_by_key(|row| row[END]);
        whole.spans = Spans::of(&spans);
        whole
    }

    /// Adds spans at the edges of a window where a lane's events are missing, computed from sums of the whole
    /// run.
    pub fn fill(&mut self, levels: &Levels, from_ns: f64, to_ns: f64) {
        let Some(exact) = self.exact_from_ns else { return };
        let (from, to) = (levels.tick(from_ns), levels.tick(to_ns));
        let mut rows: Vec<[i64; 9]> = self.spans.rows(exact, None).collect();
        let mut added = Vec::new();
        let mut fill = |summary: &Summary, of: &dyn Fn(&[i64; 9]) -> bool, lane: i64, worker: i64| {
            let part = |row: &[i64; 9]| {
                let end = row[END] as f64;
                (State::of(row[STATE]), levels.tick(end - row[LENGTH] as f64), levels.tick(end))
            };
            let mut known: Vec<_> = rows.iter().filter(|row| of(row)).map(part).collect();
            known.sort_by_key(|part| part.1);
            for (state, start, end) in filled(summary, &known, from, to) {
                // A task that runs is drawn in its own lane, not in the lane of its worker.
                if lane == NONE && state != State::Starved {
                    continue;
                }
                let (start, end) = (levels.ns(start).round() as i64, levels.ns(end).round() as i64);
                added.push([lane, state as i64, worker, end, end - start, NONE, NONE, 0, 0]);
            }
        };
        for (n, (task, summary)) in levels.known.iter().zip(&levels.tasks).enumerate() {
            let lane = n as i64;
            if task.replica.is_some() {
                let worker = task.worker.map_or(NONE, u64::cast_signed);
                fill(summary, &|row| row[LANE] == lane, lane, worker);
            }
        }
        for (id, summary) in &levels.workers {
            let worker = id.cast_signed();
            let is_its = |row: &[i64; 9]| row[WORKER] == worker && (row[LANE] == NONE || row[STATE] == 0);
            fill(summary, &is_its, NONE, worker);
        }
        if added.is_empty() {
            return;
        }
        rows.append(&mut added);
        rows.sort_by_key(|row| row[END]);
        rows.iter_mut().for_each(|row| row[END] -= exact.round() as i64);
        self.spans = Spans::of(&rows);
    }

    /// The number of items in a complete picture: single spans, and parts of cells that are not empty.
    pub fn items(&self) -> usize {
        let sums = self.workers.iter().map(|lane| &lane.sums).chain(self.tasks.iter().map(|lane| &lane.sums));
        self.spans.lane.len() + sums.flatten().filter(|&&part| part > 0).count()
    }

    /// The number of cells in the lane with the most cells.
    pub fn cells(&self) -> usize {
        let sums = self.workers.iter().map(|lane| &lane.sums).chain(self.tasks.iter().map(|lane| &lane.sums));
        sums.map(|sums| sums.len() / STATES).max().unwrap_or(0)
    }
}

/// The index of each column in the row of a span.
const LANE: usize = 0;
const STATE: usize = 1;
const WORKER: usize = 2;
const END: usize = 3;
const LENGTH: usize = 4;
const PEER: usize = 5;

impl Spans {
    /// The spans as rows with absolute ends in nanoseconds, for columns that begin at `from`; spans that end
    /// before `since` are left out.
    fn rows(&self, from: f64, since: Option<f64>) -> impl Iterator<Item = [i64; 9]> + use<> {
        let since = since.map_or(0, |since| since.round() as i64);
        let mut end = from.round() as i64;
        let of = self.clone();
        (0..of.lane.len()).filter_map(move |n| {
            end += of.end[n];
            let row = [
                of.lane[n],
                of.state[n],
                of.worker[n],
                end - since,
                of.length[n],
                of.peer[n],
                of.stream[n],
                of.first[n],
                of.count[n],
            ];
            (end > since).then_some(row)
        })
    }

    /// Converts rows to columns. The ends of the rows must not decrease.
    fn of(rows: &[[i64; 9]]) -> Spans {
        let column = |at: usize| rows.iter().map(|row| row[at]).collect::<Vec<i64>>();
        let mut last = 0;
        let ends = rows.iter().map(|row| row[END] - std::mem::replace(&mut last, row[END])).collect();
        Spans {
            lane: column(0),
            state: column(1),
            worker: column(2),
            end: ends,
            length: column(4),
            peer: column(5),
            stream: column(6),
            first: column(7),
            count: column(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(ends: &[i64], exact_from: f64) -> TimelinePage {
        TimelinePage {
            duration_ns: 1000.0,
            exact_from_ns: Some(exact_from),
            processes: vec![Process { name: String::new(), sums_from_ns: 0.0, step_ns: 100.0 }],
            workers: vec![WorkerLane { id: 0, name: "0".to_owned(), ..WorkerLane::default() }],
            tasks: vec![
                TaskLane { name: "net/a".to_owned(), component: "net/a".to_owned(), ..TaskLane::default() },
                TaskLane { worker: Some(0), ..TaskLane::default() },
            ],
            spans: Spans::of(&ends.iter().map(|&end| [1, 0, 0, end, 5, 0, -1, -1, 1]).collect::<Vec<_>>()),
            gaps: vec![GapPage { from_ns: 1.0, to_ns: 2.0, lost: 3, worker: Some(0) }],
            decisions: Vec::new(),
            links: vec![LinkPage { node: "b".to_owned(), ..LinkPage::default() }],
        }
    }

    #[test]
    fn processes_of_a_session_have_their_own_lanes_in_one_time() {
        let alone = page(&[10, 20], 0.0);
        // The second timeline begins 7 ns later and has single spans from its third nanosecond on.
        let both = TimelinePage::together(vec![(1, 0.0, alone), (2, 7.0, page(&[4, 9, 30], 3.0))]);
        assert_eq!((both.exact_from_ns, both.duration_ns), (Some(10.0), 1007.0));
        // The ends are 10 (this span is left out, because it does not end after 10) and 20 in the first
        // timeline, and 14, 19 and 40 in the second.
        assert_eq!(both.spans.end, [4, 5, 1, 20]);
        assert_eq!(both.spans.lane, [3, 3, 1, 3]);
        assert_eq!(both.spans.peer, [2, 2, 0, 2]);
        assert_eq!(both.spans.worker, [1 << 20, 1 << 20, 0, 1 << 20]);
        assert_eq!(both.tasks[2].name, "2/net/a");
        assert_eq!((both.tasks[3].worker, both.workers[1].id), (Some(1 << 20), 1 << 20));
        assert_eq!((both.workers[1].name.as_str(), both.processes[1].sums_from_ns), ("2/0", 7.0));
        assert_eq!((both.gaps[1].from_ns, both.gaps[1].worker), (8.0, Some(1 << 20)));
        assert_eq!((both.links[0].process, both.links[1].process, both.links.len()), (0, 1, 2));
    }
}

//! The changes of a timeline since it was last sent: the changed cells of the sums, and the new spans.
//!
//! A live run changes only the last cells of its lanes, so the changes sent ten times a second are small,
//! however long the run is.

use serde::Serialize;

use crate::lanes::{Decided, GapPage, Process, Spans, TimelinePage};
use crate::links::LinkPage;

/// The changes that turn an older timeline into a newer one with the same lanes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    duration_ns: f64,
    exact_from_ns: Option<f64>,
    processes: Vec<Process>,
    /// For each worker's sums, the number of leading values that stay the same, followed by the new values
    /// after these.
    workers: Vec<Vec<u32>>,
    /// The changes of each task's sums, encoded like those of `workers`.
    tasks: Vec<Vec<u32>>,
    /// The indices in `tasks` of the tasks that changed their worker, each with the new worker.
    moved: Vec<(usize, Option<u64>)>,
    /// The number of spans dropped at the beginning; `kept` is the number kept after these, and `spans` holds
    /// the spans added at the end.
    dropped: usize,
    kept: usize,
    spans: Spans,
    /// All gaps, if there are new ones; otherwise nothing.
    gaps: Option<Vec<GapPage>>,
    /// All decisions, if there are new ones; otherwise nothing.
    decisions: Option<Vec<Decided>>,
    /// The links, if their figures changed; otherwise nothing.
    links: Option<Vec<LinkPage>>,
}

impl Changes {
    /// The changes; `None` if the lanes or the widths of their cells differ, so that the complete newer
    /// timeline must be sent.
    pub fn between(old: &TimelinePage, new: &TimelinePage) -> Option<Changes> {
        let same_cells = |(old, new): (&Process, &Process)| {
            (old.sums_from_ns, old.step_ns) == (new.sums_from_ns, new.step_ns)
        };
        let same_tasks = old.tasks.iter().zip(&new.tasks).all(|(old, new)| {
            (old.id, &old.name, &old.component, old.process)
                == (new.id, &new.name, &new.component, new.process)
        });
        let same_workers = old
            .workers
            .iter()
            .zip(&new.workers)
            .all(|(old, new)| (old.id, old.process) == (new.id, new.process));
        let is_same = same_tasks
            && same_workers
            && (old.tasks.len(), old.workers.len(), old.processes.len())
                == (new.tasks.len(), new.workers.len(), new.processes.len())
            && old.processes.iter().zip(&new.processes).all(same_cells);
        if !is_same {
            return None;
        }
        let moved = old.tasks.iter().zip(&new.tasks).enumerate();
        let moved =
            moved.filter(|(_, (old, new))| old.worker != new.worker).map(|(n, (_, new))| (n, new.worker));
        let (dropped, kept, spans) = spans_between(old, new);
        Some(Changes {
            duration_ns: new.duration_ns,
            exact_from_ns: new.exact_from_ns,
            processes: new.processes.clone(),
            workers: old
                .workers
                .iter()
                .zip(&new.workers)
                .map(|(old, new)| tail(&old.sums, &new.sums))
                .collect(),
            tasks: old.tasks.iter().zip(&new.tasks).map(|(old, new)| tail(&old.sums, &new.sums)).collect(),
            moved: moved.collect(),
            dropped,
            kept,
            spans,
            gaps: (old.gaps != new.gaps).then(|| new.gaps.clone()),
            decisions: (old.decisions != new.decisions).then(|| new.decisions.clone()),
            links: (old.links != new.links).then(|| new.links.clone()),
        })
    }
}

/// The number of values that [`tail`] compares at once.
const PART: usize = 64;

/// The number of leading values that both lists share, followed by the other values of the new list.
fn tail(old: &[u32], new: &[u32]) -> Vec<u32> {
    // Most values are the same, and parts of lists are compared faster than single values.
    let parts = old.chunks_exact(PART).zip(new.chunks_exact(PART)).take_while(|(old, new)| old == new);
    let begun = parts.count() * PART;
    let same = begun + old[begun..].iter().zip(&new[begun..]).take_while(|(old, new)| old == new).count();
    let mut tail = vec![same as u32];
    tail.extend(&new[same..]);
    tail
}

/// Compares the spans of two timelines: the number of old spans that were dropped, the number that were kept,
/// and the new spans.
fn spans_between(old: &TimelinePage, new: &TimelinePage) -> (usize, usize, Spans) {
    let begin = |page: &TimelinePage| page.exact_from_ns.unwrap_or(0.0).round() as i64;
    let (from, mut end) = (begin(new), begin(old));
    let mut dropped = 0;
    while dropped < old.spans.end.len() && end + old.spans.end[dropped] <= from {
        end += old.spans.end[dropped];
        dropped += 1;
    }
    let (mut kept, mut now) = (0, from);
    while let (Some(then), Some(next)) = (old.spans.row(dropped + kept), new.spans.row(kept)) {
        let (then_end, next_end) = (end + then[0], now + next[0]);
        if then_end != next_end || then[1..] != next[1..] {
            break;
        }
        (end, now) = (then_end, next_end);
        kept += 1;
    }
    (dropped, kept, new.spans.behind(kept))
}

impl Spans {
    /// The span at index `n` as a row whose first number is its end.
    fn row(&self, n: usize) -> Option<[i64; 9]> {
        let of = |column: &[i64]| column[n];
        (n < self.end.len()).then(|| {
            [
                of(&self.end),
                of(&self.lane),
                of(&self.state),
                of(&self.worker),
                of(&self.length),
                of(&self.peer),
                of(&self.stream),
                of(&self.first),
                of(&self.count),
            ]
        })
    }

    /// The spans from index `n` on.
    fn behind(&self, n: usize) -> Spans {
        let of = |column: &[i64]| column[n..].to_vec();
        Spans {
            lane: of(&self.lane),
            state: of(&self.state),
            worker: of(&self.worker),
            end: of(&self.end),
            length: of(&self.length),
            peer: of(&self.peer),
            stream: of(&self.stream),
            first: of(&self.first),
            count: of(&self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{TaskLane, WorkerLane};
    use thalweg_chance::Chance;

    /// Applies changes to a timeline as the page does.
    fn changed(old: &TimelinePage, by: &Changes) -> TimelinePage {
        let mut new = old.clone();
        (new.duration_ns, new.exact_from_ns, new.processes) =
            (by.duration_ns, by.exact_from_ns, by.processes.clone());
        let sums = |sums: &mut Vec<u32>, by: &[u32]| {
            sums.truncate(by[0] as usize);
            sums.extend(&by[1..]);
        };
        new.workers.iter_mut().zip(&by.workers).for_each(|(lane, by)| sums(&mut lane.sums, by));
        new.tasks.iter_mut().zip(&by.tasks).for_each(|(lane, by)| sums(&mut lane.sums, by));
        by.moved.iter().for_each(|&(n, worker)| new.tasks[n].worker = worker);
        let begin = |page: &TimelinePage| page.exact_from_ns.unwrap_or(0.0) as i64;
        let gone: i64 = old.spans.end[..by.dropped].iter().sum();
        let mut rows: Vec<[i64; 9]> = (0..by.kept).map(|n| old.spans.row(by.dropped + n).unwrap()).collect();
        if let Some(first) = rows.first_mut() {
            first[0] += begin(old) + gone - begin(&new);
        }
        rows.extend((0..by.spans.end.len()).map(|n| by.spans.row(n).unwrap()));
        let column = |at: usize| rows.iter().map(|row| row[at]).collect::<Vec<i64>>();
        new.spans = Spans {
            end: column(0),
            lane: column(1),
            state: column(2),
            worker: column(3),
            length: column(4),
            peer: column(5),
            stream: column(6),
            first: column(7),
            count: column(8),
        };
        by.gaps.iter().for_each(|gaps| new.gaps.clone_from(gaps));
        by.decisions.iter().for_each(|decisions| new.decisions.clone_from(decisions));
        by.links.iter().for_each(|links| new.links.clone_from(links));
        new
    }

    fn page(from: i64, ends: &[i64], sums: &[u32]) -> TimelinePage {
        let mut last = from;
        let column = |value: i64| vec![value; ends.len()];
        TimelinePage {
            duration_ns: 5000.0,
            exact_from_ns: Some(from as f64),
            processes: vec![Process { name: String::new(), sums_from_ns: 0.0, step_ns: 100.0 }],
            workers: vec![WorkerLane { sums: sums.to_vec(), ..WorkerLane::default() }],
            tasks: vec![TaskLane {
                sums: sums.to_vec(),
                worker: Some(sums.len() as u64 % 2),
                ..TaskLane::default()
            }],
            spans: Spans {
                lane: column(0),
                state: ends.iter().map(|end| end % 3).collect(),
                worker: column(0),
                end: ends.iter().map(|&end| end - std::mem::replace(&mut last, end)).collect(),
                length: column(1),
                peer: column(-1),
                stream: column(-1),
                first: column(0),
                count: column(1),
            },
            ..TimelinePage::default()
        }
    }

    #[test]
    fn an_older_timeline_with_what_changed_is_the_newer_one() {
        let mut chance = Chance::new(3);
        for _ in 0..500 {
            let mut some = |most: u64| -> Vec<i64> {
                let mut all: Vec<i64> =
                    (0..chance.below(12)).map(|_| chance.below(most) as i64 + 1).collect();
                all.sort_unstable();
                all
            };
            // The newer timeline continues where the older one ends, or corrects the last spans of the older
            // one.
            let all = some(1000);
            let (old, new) = (&all[..all.len() / 2], &all[all.len() / 3..]);
            let from = |ends: &[i64]| ends.first().map_or(0, |first| first - 1);
            let sums = |ends: &[i64]| -> Vec<u32> { (0..4 * ends.len() as u32).collect() };
            let (old, mut new) = (page(from(old), old, &sums(old)), page(from(new), new, &sums(new)));
            if let Some(last) = new.workers[0].sums.last_mut() {
                *last += 7;
            }
            new.gaps.push(GapPage { from_ns: 1.0, to_ns: 2.0, lost: 3, worker: None });
            new.links.push(LinkPage::default());
            let changes = Changes::between(&old, &new).unwrap();
            assert_eq!(changed(&old, &changes), new);
        }
    }

    #[test]
    fn what_did_not_change_is_not_sent_again() {
        let (old, new) = (page(0, &[1, 2, 3, 4], &[1; 400]), page(1, &[2, 3, 4, 9], &[1; 404]));
        let changes = Changes::between(&old, &new).unwrap();
        assert_eq!((changes.dropped, changes.kept, changes.spans.end), (1, 3, vec![5]));
        assert_eq!((&changes.tasks[0][..], changes.gaps), (&[400, 1, 1, 1, 1][..], None));
        let mut other = new.clone();
        other.tasks[0].name = "another".to_owned();
        assert_eq!(Changes::between(&new, &other), None);
        other = new.clone();
        other.processes[0].step_ns = 200.0;
        assert_eq!(Changes::between(&new, &other), None);
    }
}

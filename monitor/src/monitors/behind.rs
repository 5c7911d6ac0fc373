//! Head-of-line blocking: a task that keeps the order of several streams waits for one particular stream,
//! while the writers of its other streams have no room.
//!
//! For each task with several inputs (a keeper), its last waits for one particular stream are kept. If a
//! writer of another of the keeper's streams waited for room at the same time, this overlap is time *behind*
//! the awaited task. Waits are reported in the order in which they end, and the task that waits behind
//! continues only after the keeper does, so the keeper's wait is known when that of the other task is
//! reported. If the awaited task's records are timed one by one, the record that it was processing is known
//! as well.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::described::{Description, Descriptions};
use crate::composing::dispatch::{For, Wait, What};
use crate::composing::structure::Structure;
use crate::ids::IdMap;
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{Behind, BehindRecord, Report};

/// The number of waits kept for each task that keeps an order.
const KEPT: usize = 64;
/// The maximal number of distinguished triples of tasks.
const PAIRS_MAX: usize = 1 << 14;
/// The maximal number of distinguished records behind which tasks waited.
const RECORDS_MAX: usize = 1 << 14;
/// The least share of the window for which waiting behind is reported.
const SHARE_MIN: f64 = 0.02;

/// A wait of a task that keeps an order.
#[derive(Clone, Copy, Debug)]
struct Awaits {
    since: u64,
    woken: u64,
    stream: u64,
    writer: u64,
}

/// A record that a task processed, with its start and end.
#[derive(Clone, Copy, Debug)]
struct Worked {
    since: u64,
    until: u64,
    index: u64,
    is: Option<Description>,
}

/// The three tasks of head-of-line blocking: the keeper of the order, the task that it waits for, and the
/// task that waits behind the awaited one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Triple {
    keeper: u64,
    awaited: u64,
    behind: u64,
}

/// The monitor of head-of-line blocking: see the module.
#[derive(Default)]
pub(crate) struct Orders {
    awaits: IdMap<VecDeque<Awaits>>,
    ticks: HashMap<Triple, u64>,
    /// The last timed records of each task.
    worked: IdMap<VecDeque<Worked>>,
    /// The time for which tasks waited behind each record, and the record's description, by keeper, awaited
    /// task and record.
    records: BTreeMap<(u64, u64, u64), (u64, Option<Description>)>,
    descriptions: Descriptions,
    /// The component's site and the replica of each task in `ticks`, including tasks that ended.
    called: IdMap<(u64, u64)>,
}

impl Monitor for Orders {
    fn name(&self) -> &str {
        "behind"
    }

    fn wants(&self) -> &[&str] {
        const {
            let [named, described] = Descriptions::WANTED;
            &["run.wait", "exec.task_ended", "exec.message_worked", named, described]
        }
    }

    fn take(&mut self, batch: &Batch<'_>) {
        use crate::decoding::events::Observation;
        for item in batch.items() {
            match item.what {
                What::Wait(wait) => self.waited(batch.structure(), &wait),
                What::Runtime(Observation::TaskEnded(ended)) => {
                    self.awaits.remove(&ended.task);
                    self.worked.remove(&ended.task);
                }
                What::Runtime(Observation::MessageWorked(worked)) => {
                    let since = item.time.saturating_sub(worked.duration_ticks);
                    self.worked(worked.task, (since, item.time), worked.index);
                }
                What::Runtime(observation) => self.descriptions.take(batch, &observation),
                _ => {}
            }
        }
    }

    fn restart(&mut self, _time: u64) {
        let descriptions = std::mem::take(&mut self.descriptions);
        *self = Orders { descriptions, ..Orders::default() };
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let name = |task: u64| {
            let (site, replica) = self.called.get(&task).copied().unwrap_or_default();
            (moment.names.task(site, replica, moment.several(site)), moment.names.site(site).path)
        };
        let mut rows: HashMap<(String, u64), Row> = HashMap::new();
        for (&Triple { keeper, awaited, behind }, &ticks) in &self.ticks {
            let row = rows.entry((name(keeper).1, awaited)).or_default();
            row.keeper = keeper;
            let of_it = row.behind.entry(behind).or_default();
            *of_it += ticks;
            row.ticks += ticks;
        }
        let lasted_ns = moment.ns(moment.end.saturating_sub(moment.begin)).max(1.0);
        let reported = rows.into_iter().filter_map(|((keeper, awaited), row)| {
            let (&most, &ticks) = row.behind.iter().max_by_key(|&(task, ticks)| (*ticks, *task))?;
            let record = self.record(row.keeper, awaited, moment);
            let (awaited, awaited_component) = name(awaited);
            Some(Behind {
                keeper,
                awaited,
                awaited_component,
                behind: name(most).0,
                tasks: row.behind.len() as u64,
                ns: moment.ns(row.ticks),
                share: (moment.ns(ticks) / lasted_ns).min(1.0),
                record,
            })
        });
        report.waiting.behind = reported.filter(|row| row.share >= SHARE_MIN).collect();
        report.waiting.behind.sort_by(|a, b| b.ns.total_cmp(&a.ns).then_with(|| a.awaited.cmp(&b.awaited)));
        report.waiting.behind.truncate(moment.top);
    }
}

#[derive(Default)]
struct Row {
    keeper: u64,
    ticks: u64,
    behind: HashMap<u64, u64>,
}

impl Orders {
    fn worked(&mut self, task: u64, (since, until): (u64, u64), index: u64) {
        let is = self.descriptions.of(task, index);
        let kept = self.worked.entry(task).or_default();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Worked { since, until, index, is });
    }

    /// The record of an awaited task behind which other tasks waited longest.
    fn record(&self, keeper: u64, awaited: u64, moment: &Moment<'_>) -> Option<BehindRecord> {
        let all = || self.records.range((keeper, awaited, 0)..=(keeper, awaited, u64::MAX));
        let (&(.., index), &(ticks, is)) = all().max_by_key(|(_, (ticks, _))| *ticks)?;
        let what = is.map(|is| self.descriptions.words(&is));
        Some(BehindRecord { index, what, ns: moment.ns(ticks), records: all().count() as u64 })
    }

    fn waited(&mut self, structure: &Structure, wait: &Wait) {
        // A wait of which nothing caused the end was cut off by the end of the task or the run, and does not
        // count.
        let Some(stream) = structure.stream(wait.stream).filter(|_| wait.stream != 0 && wait.ended) else {
            return;
        };
        match wait.what {
            For::Input if wait.certain => {
                if structure.task(wait.task).is_none_or(|task| task.inputs < 2) {
                    return;
                }
                let kept = self.awaits.entry(wait.task).or_default();
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                let Wait { since, woken, stream: number, .. } = *wait;
                kept.push_back(Awaits { since, woken, stream: number, writer: stream.writer });
            }
            For::Room => self.had_no_room(structure, wait, stream.reader),
            _ => {}
        }
    }

    /// Counts the part of a wait for room in which the stream's reader itself waited for another task.
    fn had_no_room(&mut self, structure: &Structure, wait: &Wait, keeper: u64) {
        let Some(kept) = self.awaits.get(&keeper) else { return };
        for awaits in kept.iter().rev() {
            if awaits.woken <= wait.since {
                break;
            }
            let overlap = awaits.woken.min(wait.woken).saturating_sub(awaits.since.max(wait.since));
            if awaits.stream == wait.stream || awaits.writer == wait.task || overlap == 0 {
                continue;
            }
            let triple = Triple { keeper, awaited: awaits.writer, behind: wait.task };
            if self.ticks.len() >= PAIRS_MAX && !self.ticks.contains_key(&triple) {
                continue;
            }
            *self.ticks.entry(triple).or_default() += overlap;
            let behind = (awaits.since.max(wait.since), awaits.woken.min(wait.woken));
            let records = self.worked.get(&awaits.writer).into_iter().flatten().rev();
            for worked in records.take_while(|worked| worked.until > behind.0) {
                let ticks = worked.until.min(behind.1).saturating_sub(worked.since.max(behind.0));
                let key = (keeper, awaits.writer, worked.index);
                if ticks > 0 && (self.records.len() < RECORDS_MAX || self.records.contains_key(&key)) {
                    self.records.entry(key).or_insert((0, worked.is)).0 += ticks;
                }
            }
            for task in [keeper, awaits.writer, wait.task] {
                if let Some(known) = structure.task(task) {
                    self.called.entry(task).or_insert((known.component, known.replica));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composing::structure::{Stream, Task};

    /// A keeper 9 that reads streams 11 and 12, written by tasks 1 and 2.
    fn structure() -> Structure {
        let mut structure = Structure::default();
        for (task, component, replica, inputs) in [(1, 5, 0, 1), (2, 5, 1, 1), (9, 6, 0, 2)] {
            structure.tasks.insert(task, Task { component, replica, inputs, ..Task::default() });
        }
        for (stream, writer) in [(11, 1), (12, 2)] {
            structure.streams.insert(stream, Stream { reader: 9, writer, ..Stream::default() });
        }
        structure
    }

    fn wait(task: u64, what: For, stream: u64, since: u64, woken: u64) -> Wait {
        Wait { task, what, stream, certain: true, since, woken, until: woken, ended: true, cut: false }
    }

    #[test]
    fn only_room_that_lacked_while_another_was_awaited_counts() {
        let structure = structure();
        let mut orders = Orders::default();
        // The keeper waits for task 1 from 100 to 200, and for task 2 from 300 to 310.
        orders.waited(&structure, &wait(9, For::Input, 11, 100, 200));
        orders.waited(&structure, &wait(9, For::Input, 12, 300, 310));
        // Task 2 has no room from 150 to 305: for 50 of these ticks it waits behind task 1, and from 300 on
        // the keeper waits for task 2 itself.
        orders.waited(&structure, &wait(2, For::Room, 12, 150, 305));
        // Task 1 has no room from 240 to 260, when the keeper waits for neither task.
        orders.waited(&structure, &wait(1, For::Room, 11, 240, 260));
        let measured: Vec<(Triple, u64)> = orders.ticks.clone().into_iter().collect();
        assert_eq!(measured, [(Triple { keeper: 9, awaited: 1, behind: 2 }, 50)]);
    }

    #[test]
    fn the_record_that_kept_others_waiting_longest_is_known() {
        let structure = structure();
        let mut orders = Orders::default();
        orders.worked(1, (90, 110), 3);
        orders.worked(1, (110, 190), 4);
        orders.waited(&structure, &wait(9, For::Input, 11, 100, 200));
        orders.waited(&structure, &wait(2, For::Room, 12, 50, 205));
        let measured: Vec<((u64, u64, u64), u64)> =
            orders.records.iter().map(|(key, (ticks, _))| (*key, *ticks)).collect();
        assert_eq!(measured, [((9, 1, 3), 10), ((9, 1, 4), 80)]);
    }

    #[test]
    fn a_task_that_takes_what_there_is_keeps_nobody_behind() {
        let mut structure = structure();
        let mut orders = Orders::default();
        orders.waited(&structure, &Wait { certain: false, ..wait(9, For::Input, 11, 100, 200) });
        structure.tasks.insert(9, Task { inputs: 1, ..Task::default() });
        orders.waited(&structure, &wait(9, For::Input, 11, 100, 200));
        orders.waited(&structure, &wait(2, For::Room, 12, 150, 205));
        assert!(orders.ticks.is_empty());
    }
}

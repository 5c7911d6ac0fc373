//! Finds expensive messages: by replica of a split (the tag's value), by stage of a star, by position, or by
//! their times alone.
//!
//! A dispatch's time is divided evenly among the messages that it read, and added to the sums of the task's
//! replica and of the messages' range of positions. If messages are long enough to be timed one by one
//! (`exec.message_worked`), a sample of the times shows whether they have two modes, whether a few messages
//! take most of the time, whether expensive messages come at regular distances, and whether a type, a tag's
//! value or a size distinguishes them (see `described`).

use std::collections::BTreeMap;

use super::described::{Described, Description, Descriptions};
use crate::composing::dispatch::What;
use crate::decoding::events::Observation;
use crate::decoding::names::Names;
use crate::ids::IdMap;
use crate::monitor::{Batch, Moment, Monitor};
use crate::report::{Expensive, ExpensiveBy, Report};

/// The maximal number of distinguished components; [`REPLICAS_MAX`] is the maximal number of distinguished
/// replicas of a component.
const COMPONENTS_MAX: usize = 256;
const REPLICAS_MAX: usize = 1024;
/// The number of ranges of positions; when all are full, pairs of ranges are merged.
const RANGES: usize = 64;
/// The number of messages' times kept for a component.
const SAMPLES_MAX: usize = 4096;
/// The least number of messages from which a component is judged.
const MESSAGES_MIN: u64 = 64;
/// The least number of messages from which a replica is judged.
pub(super) const REPLICA_MESSAGES_MIN: u64 = 8;
/// The periods that are tried as the distance of expensive messages.
const PERIODS: std::ops::RangeInclusive<u64> = 2..=64;
/// The least number of sampled messages with the same remainder modulo a period.
const REMAINDER_MIN: usize = 16;
/// A component is examined only if its share of all work is at least this.
const PART_MIN: f64 = 0.05;
/// The least ratio of the time of expensive messages to the time of the others.
const DEAR: f64 = 1.5;
/// The least excess of the share of time of expensive messages over their share of messages.
const EXCESS: f64 = 0.1;
/// A class with a smaller share of the messages counts as rare messages and not as a mode.
const FEW: f64 = 0.05;
/// The least ratio of the time of rare messages to the median. Of exponentially distributed times, those
/// above this ratio make up a fortieth of the total time.
const RARE_TIMES: f64 = 8.0;
/// The least share of the variance of times that two classes must explain to count as two modes: the best two
/// classes explain 0.75 of the variance of a uniform distribution and 0.64 of a normal one.
const CLASSES: f64 = 0.85;
/// A range of positions counts as expensive if more than this share of its parts, and at least [`PARTS_MIN`]
/// parts, are expensive.
const MOST_PARTS: f64 = 0.85;
const PARTS_MIN: usize = 4;
/// Two shares that differ by less than this count as equal.
const SAME: f64 = 0.1;
/// The maximal number of replicas of a component that are named.
pub(super) const NAMED: usize = 3;

/// Messages and the time they took, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    pub(super) messages: u64,
    pub(super) ticks: f64,
}

impl Sum {
    pub(super) fn add(&mut self, other: Sum) {
        self.messages += other.messages;
        self.ticks += other.ticks;
    }

    pub(super) fn less(self, other: Sum) -> Sum {
        Sum { messages: self.messages - other.messages, ticks: self.ticks - other.ticks }
    }

    pub(super) fn each(self) -> f64 {
        self.ticks / self.messages.max(1) as f64
    }

    /// The excess of this sum's share of a whole's time over its share of the messages.
    pub(super) fn excess(self, whole: Sum) -> f64 {
        self.ticks / whole.ticks.max(f64::MIN_POSITIVE) - self.messages as f64 / whole.messages.max(1) as f64
    }

    pub(super) fn is_dear(self, whole: Sum) -> bool {
        self.excess(whole) >= EXCESS && self.each() >= DEAR * whole.less(self).each()
    }
}

/// A component's messages.
#[derive(Debug, Default)]
struct Costs {
    all: Sum,
    replicas: BTreeMap<u64, Sum>,
    /// The sums by range of positions, for a component that has only one task; `width` is the number of
    /// messages in a range.
    ranges: Vec<Sum>,
    width: u64,
    task: Option<u64>,
    several: bool,
    /// The positions and ticks of sampled messages; `descriptions` holds their descriptions where known, and
    /// `seen` the number of messages from which they were sampled.
    samples: Vec<(u64, f64)>,
    descriptions: Vec<Option<Description>>,
    seen: u64,
}

/// The monitor of expensive messages: see the module. Publishes after the tasks.
#[derive(Default)]
pub(crate) struct Records {
    components: IdMap<Costs>,
    descriptions: Descriptions,
    chance: u64,
}

impl Monitor for Records {
    fn name(&self) -> &str {
        "records"
    }

    fn wants(&self) -> &[&str] {
        const { &["run.dispatch", "exec.message_worked", Descriptions::WANTED[0], Descriptions::WANTED[1]] }
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            match item.what {
                What::Dispatch(dispatch) => {
                    let reads = batch.reads(&dispatch);
                    let messages = reads.iter().map(|run| run.count).sum::<u64>();
                    let sum = Sum { messages, ticks: dispatch.busy() as f64 };
                    let Some(known) = batch.structure().task(dispatch.task) else { continue };
                    if messages > 0
                        && let Some(costs) = self.costs(known.component)
                    {
                        let first = reads.first().map_or(0, |run| run.first);
                        costs.took(dispatch.task, known.replica, first, sum);
                    }
                }
                What::Runtime(Observation::MessageWorked(worked)) => {
                    let Some(known) = batch.structure().task(worked.task) else { continue };
                    let component = known.component;
                    self.chance = next(self.chance);
                    let drawn = self.chance >> 11;
                    let is = self.descriptions.of(worked.task, worked.index);
                    if let Some(costs) = self.costs(component) {
                        costs.sample((worked.index, worked.duration_ticks as f64), is, drawn);
                    }
                }
                What::Runtime(observation) => self.descriptions.take(batch, &observation),
                _ => {}
            }
        }
    }

    fn restart(&mut self, _time: u64) {
        self.components.clear();
    }

    fn publish(&mut self, moment: &Moment<'_>, report: &mut Report) {
        let all: f64 = self.components.values().map(|costs| costs.all.ticks).sum();
        let mut found: Vec<(f64, Expensive)> = Vec::new();
        for (&site, costs) in &self.components {
            let part = costs.all.ticks / all.max(f64::MIN_POSITIVE);
            if part < PART_MIN || costs.all.messages < MESSAGES_MIN {
                continue;
            }
            let path = moment.names.site(site).path;
            let rows = costs.expensive_rows(
                &self.descriptions,
                &path,
                unfolds(moment.names, &path),
                moment.ns_per_tick,
            );
            found.extend(rows.into_iter().map(|row| (part * row.time_share, row)));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.which.cmp(&b.1.which)));
        found.truncate(moment.top);
        report.expensive = found.into_iter().map(|(_, row)| row).collect();
    }
}

fn next(chance: u64) -> u64 {
    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Whether replicas of the component at a path are stages of a star and not replicas of a split: the nearest
/// enclosing star or split decides.
fn unfolds(names: &Names, path: &str) -> bool {
    let around = |site: &&crate::decoding::names::SiteName| {
        matches!(site.kind.as_str(), "star" | "split")
            && path.strip_prefix(&site.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    names
        .sites
        .values()
        .filter(around)
        .max_by_key(|site| site.path.len())
        .is_some_and(|site| site.kind == "star")
}

impl Records {
    fn costs(&mut self, component: u64) -> Option<&mut Costs> {
        if self.components.len() >= COMPONENTS_MAX && !self.components.contains_key(&component) {
            return None;
        }
        Some(self.components.entry(component).or_default())
    }
}

impl Costs {
    fn took(&mut self, task: u64, replica: u64, first: u64, sum: Sum) {
        self.all.add(sum);
        self.several |= *self.task.get_or_insert(task) != task;
        if self.replicas.len() < REPLICAS_MAX || self.replicas.contains_key(&replica) {
            self.replicas.entry(replica).or_default().add(sum);
        }
        if self.several {
            self.ranges.clear();
            return;
        }
        if self.ranges.is_empty() {
            (self.ranges, self.width) = (vec![Sum::default(); RANGES], 1);
        }
        // All messages of a dispatch are added to the range of the first one, because a dispatch is short
        // compared with a range if there are many messages.
        while first / self.width >= RANGES as u64 {
            for at in 0..RANGES / 2 {
                let mut both = self.ranges[2 * at];
                both.add(self.ranges[2 * at + 1]);
                self.ranges[at] = both;
            }
            self.ranges[RANGES / 2..].fill(Sum::default());
            self.width *= 2;
        }
        self.ranges[(first / self.width) as usize].add(sum);
    }

    /// Adds a time to the sample, which keeps each time with the same probability (reservoir sampling).
    fn sample(&mut self, sample: (u64, f64), is: Option<Description>, drawn: u64) {
        self.seen += 1;
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
            self.descriptions.push(is);
        } else if let Some(kept) = self.samples.get_mut((drawn % self.seen) as usize) {
            *kept = sample;
            self.descriptions[(drawn % self.seen) as usize] = is;
        }
    }

    /// The samples with a description, if these are most samples.
    fn described(&self) -> Vec<Described> {
        let pairs = self.descriptions.iter().zip(&self.samples);
        let known: Vec<Described> = pairs.filter_map(|(is, (_, ticks))| Some(((*is)?, *ticks))).collect();
        if known.len() as u64 >= MESSAGES_MIN && 2 * known.len() > self.samples.len() {
            known
        } else {
            Vec::new()
        }
    }

    fn expensive_rows(
        &self,
        types: &Descriptions,
        path: &str,
        unfolds: bool,
        ns_per_tick: f64,
    ) -> Vec<Expensive> {
        let row = |by, which: String, dear: Sum, whole: Sum| Expensive {
            component: path.to_owned(),
            by,
            which,
            messages_share: dear.messages as f64 / whole.messages.max(1) as f64,
            time_share: dear.ticks / whole.ticks.max(f64::MIN_POSITIVE),
            service_ns: dear.each() * ns_per_tick,
            others_ns: whole.less(dear).each() * ns_per_tick,
        };
        let mut rows: Vec<Expensive> = Vec::new();
        let by = if unfolds { ExpensiveBy::Depth } else { ExpensiveBy::Key };
        for (replica, sum) in self.dear_replicas() {
            let which = if unfolds { format!("stage {replica}") } else { format!("replica {replica}") };
            rows.push(row(by, which, sum, self.all));
        }
        if let Some((from, to, sum)) = self.dear_range() {
            rows.push(row(ExpensiveBy::Position, format!("messages {from} to {to}"), sum, self.all));
        }
        let whole = whole(&self.samples);
        let period = self.dear_period();
        if let Some((period, remainder, sum)) = period {
            let which = format!("every {period}th message, from number {remainder} on");
            rows.push(row(ExpensiveBy::Every, which, sum, whole));
        }
        if let Some(dear) = types.distinguish(&self.described()) {
            let row = row(dear.by, dear.which, dear.sum, dear.whole);
            // A split's replicas and its tag's values distinguish the same records, and the positions of
            // expensive records may follow from their descriptions. A row that says no more than another one
            // is removed.
            let keys = rows.iter().filter(|row| matches!(row.by, ExpensiveBy::Key | ExpensiveBy::Depth));
            let keys = keys.map(|row| [row.messages_share, row.time_share]).collect::<Vec<_>>();
            let of_keys = [0, 1].map(|at| keys.iter().map(|shares| shares[at]).sum::<f64>());
            if dear.by != ExpensiveBy::Tag || !are_same(of_keys, &row) {
                rows.retain(|other| {
                    !matches!(other.by, ExpensiveBy::Position | ExpensiveBy::Every)
                        || !are_same([other.messages_share, other.time_share], &row)
                });
                rows.push(row);
            }
        }
        // If another property already distinguishes a component's expensive messages, classes of times are
        // not reported.
        if rows.is_empty()
            && let Some((by, from, sum)) = self.dear_class()
        {
            let which = format!("messages of {:.0} µs and more", from * ns_per_tick / 1e3);
            rows.push(row(by, which, sum, whole));
        }
        rows
    }

    /// The replicas whose messages take longer than those of all others, if they take a large share of the
    /// time.
    fn dear_replicas(&self) -> Vec<(u64, Sum)> {
        if self.replicas.len() < 2 {
            return Vec::new();
        }
        let enough = |sum: &Sum| sum.messages >= REPLICA_MESSAGES_MIN && sum.is_dear(self.all);
        let mut dear: Vec<(u64, Sum)> =
            self.replicas.iter().filter(|(_, sum)| enough(sum)).map(|(&at, &sum)| (at, sum)).collect();
        dear.sort_by(|a, b| b.1.excess(self.all).total_cmp(&a.1.excess(self.all)));
        dear.truncate(NAMED);
        dear
    }

    /// The range of positions with the greatest excess of its share of time over its share of messages.
    /// Nearly all parts of the range must be expensive, so that a few expensive messages do not make a range.
    fn dear_range(&self) -> Option<(u64, u64, Sum)> {
        let mut best: Option<(usize, usize, Sum)> = None;
        for from in 0..self.ranges.len() {
            let mut sum = Sum::default();
            for to in from..self.ranges.len() {
                sum.add(self.ranges[to]);
                if best.is_none_or(|(_, _, most)| sum.excess(self.all) > most.excess(self.all)) {
                    best = Some((from, to, sum));
                }
            }
        }
        let (from, to, sum) =
            best.filter(|(_, _, sum)| sum.messages >= MESSAGES_MIN && sum.is_dear(self.all))?;
        let others = self.all.less(sum).each();
        let parts = self.ranges[from..=to].iter().filter(|part| part.messages > 0);
        let dear = parts.clone().filter(|part| part.each() >= DEAR * others).count();
        if dear < PARTS_MIN || dear as f64 <= MOST_PARTS * parts.count() as f64 {
            return None;
        }
        let end = (self.width * (to as u64 + 1)).min(self.all.messages);
        Some((self.width * from as u64, end.saturating_sub(1), sum))
    }

    /// The period and remainder of the positions of messages that take longer: the least period that explains
    /// most of the excess.
    fn dear_period(&self) -> Option<(u64, u64, Sum)> {
        let all = whole(&self.samples);
        let mean = all.each();
        let spread: f64 = self.samples.iter().map(|(_, ticks)| (ticks - mean).powi(2)).sum();
        for period in PERIODS.filter(|&period| self.samples.len() >= REMAINDER_MIN * period as usize) {
            let mut sums = vec![Sum::default(); period as usize];
            for &(position, ticks) in &self.samples {
                sums[(position % period) as usize].add(Sum { messages: 1, ticks });
            }
            let (remainder, dear) =
                sums.iter().enumerate().max_by(|a, b| a.1.excess(all).total_cmp(&b.1.excess(all)))?;
            let rest = all.less(*dear);
            let between = dear.messages as f64 * (dear.each() - mean).powi(2)
                + rest.messages as f64 * (rest.each() - mean).powi(2);
            if dear.is_dear(all) && between >= 0.5 * spread {
                return Some((period, remainder as u64, *dear));
            }
        }
        None
    }

    /// The more expensive of two modes, or the rare messages that take much of the time, and the least time
    /// of such messages.
    fn dear_class(&self) -> Option<(ExpensiveBy, f64, Sum)> {
        let mut times: Vec<f64> = self.samples.iter().map(|(_, ticks)| ticks.max(1.0)).collect();
        if (times.len() as u64) < MESSAGES_MIN {
            return None;
        }
        times.sort_by(f64::total_cmp);
        let all = whole(&self.samples);
        let from_on =
            |at: usize| Sum { messages: (times.len() - at) as u64, ticks: times[at..].iter().sum() };
        let rare = times.partition_point(|&ticks| ticks <= RARE_TIMES * times[times.len() / 2]);
        if rare < times.len() && (times.len() - rare) as f64 <= FEW * times.len() as f64 {
            let dear = from_on(rare);
            if dear.is_dear(all) {
                return Some((ExpensiveBy::Rare, times[rare], dear));
            }
        }
        let at = two_classes(&times)?;
        let (cheap, dear) = (at as f64 / times.len() as f64, from_on(at));
        let both_are_many = cheap.min(1.0 - cheap) >= FEW;
        (both_are_many && dear.is_dear(all)).then_some((ExpensiveBy::Bimodal, times[at], dear))
    }
}

/// Whether these shares of messages and time are equal to those of a row, within the tolerance.
fn are_same([messages, time]: [f64; 2], row: &Expensive) -> bool {
    (messages - row.messages_share).abs() < SAME && (time - row.time_share).abs() < SAME
}

fn whole(samples: &[(u64, f64)]) -> Sum {
    Sum { messages: samples.len() as u64, ticks: samples.iter().map(|(_, ticks)| ticks).sum() }
}

/// The start of the second of two classes of sorted times, if two classes explain them: the best split
/// minimises the variance of the logarithms within classes (Otsu, 1979), and must leave much less variance
/// than a split of a normal or uniform distribution.
fn two_classes(times: &[f64]) -> Option<usize> {
    let logs: Vec<f64> = times.iter().map(|ticks| ticks.ln()).collect();
    let count = logs.len() as f64;
    let (sum, squares) = (logs.iter().sum::<f64>(), logs.iter().map(|log| log * log).sum::<f64>());
    let spread = squares - sum * sum / count;
    let (mut below, mut best) = (0.0, (0.0, 0));
    for at in 1..logs.len() {
        below += logs[at - 1];
        let (left, right) = (at as f64, count - at as f64);
        let between = below * below / left + (sum - below).powi(2) / right - sum * sum / count;
        if between > best.0 {
            best = (between, at);
        }
    }
    (spread > 1e-9 && best.0 >= CLASSES * spread).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chances(count: usize) -> Vec<f64> {
        let mut chance = 7;
        (0..count)
            .map(|_| {
                chance = next(chance);
                (chance >> 11) as f64 / (1_u64 << 53) as f64
            })
            .collect()
    }

    /// The rows found from single times.
    fn of_times(times: impl IntoIterator<Item = f64>) -> Vec<Expensive> {
        let mut costs = Costs::default();
        for (at, ticks) in times.into_iter().enumerate() {
            costs.took(1, 0, at as u64, Sum { messages: 1, ticks });
            costs.sample((at as u64, ticks), None, next(at as u64) >> 11);
        }
        costs.expensive_rows(&Descriptions::default(), "net/w", false, 1.0)
    }

    fn by(rows: &[Expensive]) -> Vec<ExpensiveBy> {
        rows.iter().map(|row| row.by).collect()
    }

    #[test]
    fn even_bell_shaped_and_exponential_costs_have_no_expensive_messages() {
        let evenly = chances(2000);
        assert_eq!(of_times(evenly.iter().map(|u| 1000.0 + 3000.0 * u)), []);
        assert_eq!(of_times(evenly.iter().map(|_| 1000.0)), []);
        assert_eq!(of_times(evenly.iter().map(|u| -1000.0 * (1.0 - u).ln() + 1.0)), []);
        let bell = evenly.chunks(8).map(|eight| 1000.0 * (0.5 + eight.iter().sum::<f64>()));
        assert_eq!(of_times(bell), []);
    }

    #[test]
    fn two_modes_and_rare_costs_are_named_with_their_share_of_time() {
        let draws = chances(2000);
        let two = of_times(draws.iter().map(|u| if *u < 0.25 { 9000.0 + u } else { 1000.0 + 100.0 * u }));
        assert_eq!(by(&two), [ExpensiveBy::Bimodal]);
        assert!(
            (two[0].messages_share - 0.25).abs() < 0.03 && (two[0].time_share - 0.75).abs() < 0.04,
            "{two:?}"
        );
        let rare = of_times(draws.iter().map(|u| if *u < 0.01 { 60_000.0 } else { 1000.0 + 100.0 * u }));
        assert_eq!(by(&rare), [ExpensiveBy::Rare]);
        assert!((rare[0].time_share - 0.36).abs() < 0.1 && rare[0].messages_share < 0.02, "{rare:?}");
    }

    #[test]
    fn a_period_and_a_range_of_positions_are_found() {
        let every = of_times((0..2000).map(|at| if at % 7 == 3 { 9000.0 } else { 1000.0 }));
        assert_eq!(by(&every), [ExpensiveBy::Every]);
        assert_eq!(every[0].which, "every 7th message, from number 3 on");
        let late = of_times((0..6400).map(|at| if at >= 4800 { 5000.0 } else { 1000.0 }));
        assert_eq!(by(&late), [ExpensiveBy::Position]);
        // Each range has 128 messages.
        assert!(
            late[0].which == "messages 4736 to 6399" || late[0].which == "messages 4800 to 6399",
            "{late:?}"
        );
    }

    #[test]
    fn a_replica_is_dear_by_its_messages_not_by_their_number() {
        let mut costs = Costs::default();
        for (task, messages, each) in [(1, 100, 1000.0), (2, 100, 8000.0), (3, 700, 1000.0)] {
            costs.took(task, task - 1, 0, Sum { messages, ticks: messages as f64 * each });
        }
        let rows = costs.expensive_rows(&Descriptions::default(), "net/w", false, 2.0);
        assert_eq!(by(&rows), [ExpensiveBy::Key]);
        assert_eq!(
            (rows[0].which.as_str(), rows[0].service_ns, rows[0].others_ns),
            ("replica 1", 16_000.0, 2000.0)
        );
        assert_eq!(costs.expensive_rows(&Descriptions::default(), "net/w", true, 2.0)[0].which, "stage 1");
    }
}

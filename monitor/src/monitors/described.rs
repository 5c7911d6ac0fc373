//! Descriptions of timed records (`net.record_described`): their types, tags and sizes, and which of these
//! properties correlates with the records' times.

use std::collections::BTreeMap;

use super::expensive::{NAMED, REPLICA_MESSAGES_MIN, Sum};
use crate::decoding::events::{Observation, RecordDescribed};
use crate::ids::IdMap;
use crate::monitor::Batch;
use crate::report::ExpensiveBy;

/// The maximal number of types kept, and of tasks with a described record in progress.
const KEPT_MAX: usize = 1 << 14;
/// The maximal number of distinguished values of a tag.
const VALUES_MAX: usize = 1024;
/// The least share of the variance of times that a distinguishing property must explain. A property without
/// correlation explains at most a tenth, even if only few times are long.
const EXPLAINS: f64 = 0.3;
/// A property is preferred to one that was examined before it only if it explains this much more of the
/// variance.
const BETTER: f64 = 0.02;

/// The description of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) record_type: u64,
    pub(super) size_bytes: u64,
    pub(super) tags: [i64; 3],
}

/// A record's description and its time.
pub(super) type Described = (Description, f64);

/// The types of records, and the described records that are being processed.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// The labels of each type, tags first, by the type's number.
    types: IdMap<Vec<String>>,
    /// The described record that each task is processing: its index and description.
    on: IdMap<(u64, Description)>,
}

impl Descriptions {
    pub(super) const WANTED: [&'static str; 2] = ["net.record_type", "net.record_described"];

    /// Receives an event that describes records.
    pub(super) fn take(&mut self, batch: &Batch<'_>, observation: &Observation) {
        match observation {
            Observation::RecordType(named) => self.name(named.record_type, batch.text(named.labels)),
            Observation::RecordDescribed(described) => self.describe(described),
            _ => {}
        }
    }

    pub(super) fn name(&mut self, record_type: u64, labels: &str) {
        if self.types.len() < KEPT_MAX {
            let labels = labels.split(", ").map(str::to_owned).collect();
            self.types.insert(record_type, labels);
        }
    }

    fn describe(&mut self, described: &RecordDescribed) {
        let RecordDescribed { task, index, record_type, size_bytes, tag_0, tag_1, tag_2 } = *described;
        if self.on.len() < KEPT_MAX || self.on.contains_key(&task) {
            self.on
                .insert(task, (index, Description { record_type, size_bytes, tags: [tag_0, tag_1, tag_2] }));
        }
    }

    /// Returns the description of the record that a task has finished.
    pub(super) fn of(&mut self, task: u64, index: u64) -> Option<Description> {
        self.on.remove(&task).filter(|(on, _)| *on == index).map(|(_, is)| is)
    }

    /// The names of a type's tags whose values are recorded.
    fn tags(&self, record_type: u64) -> impl Iterator<Item = &str> {
        let labels = self.types.get(&record_type).into_iter().flatten();
        labels.map(String::as_str).take_while(|label| label.starts_with('<')).take(3)
    }

    /// A record in words: its fields, and its tags with their values.
    pub(super) fn words(&self, is: &Description) -> String {
        let tags = self.tags(is.record_type).zip(is.tags).map(|(tag, value)| format!("{tag}={value}"));
        format!("{{{}}}", self.fields(is.record_type).chain(tags).collect::<Vec<_>>().join(", "))
    }

    fn fields(&self, record_type: u64) -> impl Iterator<Item = String> {
        let labels = self.types.get(&record_type).into_iter().flatten();
        labels.filter(|label| !label.starts_with('<')).cloned()
    }

    fn type_words(&self, record_type: u64) -> String {
        let tags = self.tags(record_type).map(str::to_owned);
        format!("{{{}}}", self.fields(record_type).chain(tags).collect::<Vec<_>>().join(", "))
    }

    /// The property that best distinguishes the expensive records from the others, if a property does.
    pub(super) fn distinguish(&self, records: &[Described]) -> Option<Dear> {
        let ticks = || records.iter().map(|(_, ticks)| *ticks);
        let all = Sum { messages: records.len() as u64, ticks: ticks().sum() };
        let spread = ticks().map(|ticks| (ticks - all.each()).powi(2)).sum();
        let whole = Whole { all, spread };
        let by_type = group(records.iter().map(|(is, ticks)| (is.record_type as i64, *ticks)));
        let mut found: Vec<Dear> = Vec::new();
        if let Some((types, dear)) = whole.dear_values(&by_type) {
            let names: Vec<String> = types.iter().map(|&number| self.type_words(number as u64)).collect();
            found.extend(whole.dear(ExpensiveBy::Type, format!("records {}", names.join(" and ")), dear));
        }
        for tag in self.tags_of(records) {
            let values: Vec<(i64, f64)> = records
                .iter()
                .filter_map(|(is, ticks)| {
                    let at = self.tags(is.record_type).position(|other| other == tag)?;
                    Some((is.tags[at], *ticks))
                })
                .collect();
            let by_value = group(values.iter().copied());
            if let Some((dear_values, dear)) = whole.dear_values(&by_value)
                && dear_values.len() <= NAMED
            {
                let values: Vec<String> = dear_values.iter().map(i64::to_string).collect();
                found.extend(whole.dear(ExpensiveBy::Tag, format!("{tag} = {}", values.join(" or ")), dear));
            }
            if let Some((range, dear)) = whole.dear_end(values) {
                found.extend(whole.dear(ExpensiveBy::Tag, format!("{tag} of {range}"), dear));
            }
        }
        let sizes = records.iter().map(|(is, ticks)| (is.size_bytes as i64, *ticks)).collect();
        if let Some((range, dear)) = whole.dear_end(sizes) {
            found.extend(whole.dear(ExpensiveBy::Size, format!("records of bytes: {range}"), dear));
        }
        found
            .into_iter()
            .reduce(|best, next| if next.explains > best.explains + BETTER { next } else { best })
    }

    /// The tags of some records.
    fn tags_of(&self, records: &[Described]) -> Vec<&str> {
        let mut types: Vec<u64> = records.iter().map(|(is, _)| is.record_type).collect();
        types.sort_unstable();
        types.dedup();
        let mut tags: Vec<&str> = types.iter().flat_map(|&number| self.tags(number)).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }
}

/// A property that distinguishes expensive records.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dear {
    pub(super) by: ExpensiveBy,
    pub(super) which: String,
    pub(super) sum: Sum,
    pub(super) whole: Sum,
    /// The share of the variance of times that the property explains.
    explains: f64,
}

/// The sums over all described records, with which each property is compared.
#[derive(Clone, Copy, Debug)]
struct Whole {
    all: Sum,
    spread: f64,
}

impl Whole {
    fn dear(self, by: ExpensiveBy, which: String, sum: Sum) -> Option<Dear> {
        let (rest, mean) = (self.all.less(sum), self.all.each());
        let off = |part: Sum| part.messages as f64 * (part.each() - mean).powi(2);
        let explains = (off(sum) + off(rest)) / self.spread.max(f64::MIN_POSITIVE);
        let is_dear = rest.messages > 0 && sum.is_dear(self.all) && explains >= EXPLAINS;
        is_dear.then_some(Dear { by, which, sum, whole: self.all, explains })
    }

    /// The values whose records take longest, in ascending order: so many values that the excess of their
    /// share of the time over their share of the records is greatest.
    fn dear_values(self, values: &BTreeMap<i64, Sum>) -> Option<(Vec<i64>, Sum)> {
        let enough = values.iter().filter(|(_, sum)| sum.messages >= REPLICA_MESSAGES_MIN);
        let mut order: Vec<(i64, Sum)> = enough.map(|(&value, &sum)| (value, sum)).collect();
        order.sort_by(|a, b| b.1.each().total_cmp(&a.1.each()));
        let mut sum = Sum::default();
        let mut best: Option<(usize, Sum)> = None;
        for (at, (_, of_value)) in order.iter().enumerate() {
            sum.add(*of_value);
            if best.is_none_or(|(_, most)| sum.excess(self.all) > most.excess(self.all)) {
                best = Some((at + 1, sum));
            }
        }
        let (count, sum) = best?;
        let mut dear: Vec<i64> = order[..count].iter().map(|(value, _)| *value).collect();
        dear.sort_unstable();
        Some((dear, sum))
    }

    /// The range at the upper or lower end of the values whose share of the time exceeds its share of the
    /// records most, in words.
    fn dear_end(self, mut values: Vec<(i64, f64)>) -> Option<(String, Sum)> {
        values.sort_by_key(|(value, _)| *value);
        let some = values.len() as u64;
        let total = Sum { messages: some, ticks: values.iter().map(|(_, ticks)| ticks).sum() };
        let mut below = Sum::default();
        let mut best: Option<(f64, String, Sum)> = None;
        for pair in values.windows(2) {
            below.add(Sum { messages: 1, ticks: pair[0].1 });
            let above = total.less(below);
            if pair[0].0 == pair[1].0 || below.messages.min(above.messages) < REPLICA_MESSAGES_MIN {
                continue;
            }
            let ends = [(pair[1].0, "more", above), (pair[0].0, "less", below)];
            for (value, to, sum) in ends {
                let excess = sum.excess(self.all);
                if best.as_ref().is_none_or(|(most, ..)| excess > *most) {
                    best = Some((excess, format!("{value} and {to}"), sum));
                }
            }
        }
        best.map(|(_, range, sum)| (range, sum))
    }
}

/// Groups records by a value, with a limit on the number of values.
fn group(values: impl Iterator<Item = (i64, f64)>) -> BTreeMap<i64, Sum> {
    let mut groups: BTreeMap<i64, Sum> = BTreeMap::new();
    for (value, ticks) in values {
        if groups.len() < VALUES_MAX || groups.contains_key(&value) {
            groups.entry(value).or_default().add(Sum { messages: 1, ticks });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_chance::Chance;

    /// Types 5 `{a, <k>}` and 6 `{b}`.
    fn types() -> Descriptions {
        let mut types = Descriptions::default();
        types.name(5, "<k>, a");
        types.name(6, "b");
        types
    }

    /// The property found for records of type 5, each with a random tag below 10, a random size and an
    /// exponentially distributed time of mean 1000; `cost` changes the time.
    fn property(cost: impl Fn(&mut Description, f64) -> f64) -> Option<(ExpensiveBy, String, f64)> {
        let mut chance = Chance::new(11);
        let mut draw = |below: u64| chance.below(below);
        let records: Vec<Described> = (0..4000)
            .map(|at| {
                let tags = [draw(10) as i64, 0, 0];
                let mut is = Description { record_type: 5, size_bytes: 100 + draw(4000), tags };
                let ticks = -1000.0 * ((draw(1_000_000) as f64 + 0.5) / 1e6).ln();
                is.tags[1] = at;
                let ticks = cost(&mut is, ticks);
                (is, ticks)
            })
            .collect();
        let dear = types().distinguish(&records)?;
        Some((dear.by, dear.which, dear.sum.ticks / dear.whole.ticks))
    }

    #[test]
    fn costs_that_go_with_nothing_have_no_reason() {
        assert_eq!(property(|_, ticks| ticks), None);
        let rare = |is: &mut Description, ticks| if is.tags[1] % 97 == 5 { 100.0 * ticks } else { ticks };
        assert_eq!(property(rare), None, "rare ones, whose tag and size are those of any");
    }

    #[test]
    fn a_type_a_value_an_end_of_a_tag_and_a_size_are_named_with_their_share() {
        let (by, which, share) =
            property(|is, ticks| if is.tags[0] == 3 { 20.0 * ticks } else { ticks }).unwrap();
        assert_eq!((by, which.as_str()), (ExpensiveBy::Tag, "<k> = 3"));
        assert!((share - 20.0 / 29.0).abs() < 0.05, "{share}");
        let two = property(|is, _| if is.tags[0] % 4 == 2 { 9000.0 } else { 1000.0 }).unwrap();
        assert_eq!((two.0, two.1.as_str()), (ExpensiveBy::Tag, "<k> = 2 or 6"));
        let upper = property(|is, _| if is.tags[0] >= 5 { 9000.0 } else { 1000.0 }).unwrap();
        assert_eq!((upper.0, upper.1.as_str()), (ExpensiveBy::Tag, "<k> of 5 and more"));
        let large = property(|is, _| if is.size_bytes > 3000 { 9000.0 } else { 1000.0 }).unwrap();
        assert_eq!((large.0, large.1.as_str()), (ExpensiveBy::Size, "records of bytes: 3001 and more"));
        let lower = property(|is, _| if is.size_bytes < 1000 { 9000.0 } else { 1000.0 }).unwrap();
        assert_eq!((lower.0, lower.1.as_str()), (ExpensiveBy::Size, "records of bytes: 999 and less"));
        let grows = property(|is, _| is.size_bytes as f64).unwrap();
        assert_eq!(grows.0, ExpensiveBy::Size);
        let typed = property(|is, ticks| {
            let dear = is.tags[1] % 3 == 0;
            is.record_type = if dear { 6 } else { 5 };
            if dear { 20.0 * ticks } else { ticks }
        });
        let (by, which, _) = typed.unwrap();
        assert_eq!((by, which.as_str()), (ExpensiveBy::Type, "records {b}"));
    }

    #[test]
    fn one_record_in_a_hundred_is_named_by_its_tag() {
        let rare = property(|is, ticks| {
            let is_dear = is.tags[1] % 97 == 5;
            is.tags[0] = if is_dear { 77 } else { is.tags[0] };
            if is_dear { 100.0 * ticks } else { ticks }
        });
        let (by, which, share) = rare.unwrap();
        assert_eq!(by, ExpensiveBy::Tag);
        assert!(which == "<k> = 77" || which == "<k> of 77 and more", "{which}");
        assert!(share > 0.35, "{share}");
    }

    #[test]
    fn a_record_has_its_own_description_and_no_other() {
        let mut types = types();
        let described = RecordDescribed { task: 2, index: 7, record_type: 5, tag_0: 4, ..Default::default() };
        types.describe(&described);
        assert_eq!(types.of(2, 6), None);
        types.describe(&described);
        let is = types.of(2, 7).unwrap();
        assert_eq!(types.words(&is), "{a, <k>=4}");
        assert_eq!(types.of(2, 7), None, "it is over");
    }
}

//! *Reduce*: each group of tuples becomes one tuple. Threads that read elements make parts of the groups,
//! which are then merged.

use super::aggregate::{Aggregation, Past, State, Taken};
use super::naming::{Names, PerKind, Place, Wrong, text_at, word_at};
use super::{During, Moment};
use crate::tuple::{Batch, ELEMENT_NONE, Field, Head, KIND_GAP, Legend, Of, TupleKind};
use std::collections::{BTreeMap, HashMap};
use thalweg_pack::Problem;

/// The most groups. Tuples of further groups are left out and counted.
const GROUPS_MAX: usize = 1 << 16;

/// The time that a group covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Every {
    /// From one pull to the next.
    #[default]
    Pull,
    /// Windows of this many nanoseconds, by the tuples' times. A window is handed over when it is complete.
    Window(u64),
    /// From the first pull on.
    All,
}

/// The operator *reduce*.
#[derive(Clone, Debug)]
pub(crate) struct Reduce {
    by: Vec<String>,
    values: Vec<(String, Aggregation)>,
    every: Every,
    names: Names,
    kind: TupleKind,
    number: Option<u16>,
    plans: PerKind<Option<Plan>>,
    open: BTreeMap<u64, Groups>,
    /// Windows that end before this time were handed over.
    handed_ns: u64,
    /// The former values of counters, by the index of the value.
    pasts: HashMap<usize, Past>,
}

/// Groups under construction.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    found: HashMap<Box<[u8]>, Group>,
    /// The times of the first and the last tuple.
    first_ns: u64,
    last_ns: u64,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { found: HashMap::new(), first_ns: u64::MAX, last_ns: 0 }
    }
}

#[derive(Clone, Debug)]
struct Group {
    time_ns: u64,
    states: Vec<State>,
}

#[derive(Clone, Debug)]
struct Plan {
    by: Vec<(Place, Of)>,
    taken: Vec<Taken>,
}

impl Groups {
    /// The end of the time that groups cover: now, or the time of the last tuple if no more will come.
    fn until_ns(&self, moment: Moment) -> u64 {
        if moment.is_end { self.last_ns } else { moment.now_ns }
    }

    /// Adds the groups of another part; returns the number of tuples that were left out.
    pub(crate) fn merge(&mut self, other: Groups) -> u64 {
        let mut left_out = 0;
        (self.first_ns, self.last_ns) = (self.first_ns.min(other.first_ns), self.last_ns.max(other.last_ns));
        for (key, group) in other.found {
            let is_full = self.found.len() >= GROUPS_MAX;
            match self.found.get_mut(&key) {
                Some(known) => {
                    known.time_ns = known.time_ns.max(group.time_ns);
                    known.states.iter_mut().zip(group.states).for_each(|(state, more)| state.merge(more));
                }
                None if is_full => left_out += 1,
                None => drop(self.found.insert(key, group)),
            }
        }
        left_out
    }
}

/// The groups of a part of a reduction, by windows.
pub(crate) type Part = BTreeMap<u64, Groups>;

impl Reduce {
    /// # Errors
    /// Mistakes in the fields to group by or in the values, each with the number of its field or value.
    pub(crate) fn new(
        to: &str,
        by: &[String],
        values: &[(String, Aggregation)],
        every: Every,
        names: &Names,
    ) -> Result<Reduce, Vec<(usize, Problem)>> {
        let (mut fields, mut wrong) = (Vec::new(), Vec::new());
        for (n, name) in by.iter().enumerate() {
            match names.find(name, None) {
                Ok((field, _)) => fields.push(field),
                Err(_) if !names.is_known() => fields.push(open_field(name)),
                Err(problem) => wrong.push((n, problem)),
            }
        }
        for (n, (name, value)) in values.iter().enumerate() {
            let twice = fields.iter().any(|field| field.name == *name);
            match value.field(name, names) {
                Ok(field) if !twice => fields.push(field),
                Ok(_) => {
                    let message = format!("there are two fields `{name}`");
                    wrong.push((by.len() + n, Problem { message, span: 0..0, help: None }));
                }
                Err(problems) => wrong.extend(problems.into_iter().map(|problem| (by.len() + n, problem))),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Reduce {
            by: by.to_vec(),
            values: values.to_vec(),
            every,
            names: names.clone(),
            kind: TupleKind { name: to.to_owned(), doc: String::new(), fields },
            number: None,
            plans: PerKind::default(),
            open: BTreeMap::new(),
            handed_ns: 0,
            pasts: HashMap::new(),
        })
    }

    pub(crate) fn kind(&self) -> &TupleKind {
        &self.kind
    }

    /// The same reduction for another part, without state.
    pub(crate) fn part(&self) -> Reduce {
        Reduce { open: BTreeMap::new(), pasts: HashMap::new(), plans: PerKind::default(), ..self.clone() }
    }

    /// Moves the tuples of the batch into groups of `part`; gaps stay in the batch.
    pub(crate) fn take(&mut self, batch: &mut Batch, part: &mut Part, during: &mut During<'_>) {
        let legend = during.legend.clone();
        let (mut gaps, mut key) = (Vec::new(), Vec::new());
        let (window_ns, handed_ns) = (self.window_ns(), self.handed_ns);
        for head in &batch.heads {
            if head.kind == KIND_GAP {
                gaps.push(*head);
                continue;
            }
            let Reduce { by, values, names, plans, .. } = self;
            let plan = plans.get(head.kind, || {
                let kind = &legend.kinds[usize::from(head.kind)];
                match plan(by, values, names, kind) {
                    Ok(plan) => Some(plan),
                    Err(wrong) => {
                        let wrong = wrong.first().map_or(String::new(), ToString::to_string);
                        during.problems.push(format!("`{}` is left out: {wrong}", kind.name));
                        None
                    }
                }
            });
            let window = match self.every {
                Every::Window(ns) => head.time_ns / ns.max(1),
                Every::Pull | Every::All => 0,
            };
            let is_late = window.saturating_add(1).saturating_mul(window_ns) <= handed_ns;
            let Some(plan) = plan.as_ref().filter(|_| !is_late) else {
                during.left_out += 1;
                continue;
            };
            key.clear();
            plan.by.iter().for_each(|by| put_key(*by, batch, head, &legend, &mut key));
            let groups = part.entry(window).or_default();
            groups.first_ns = groups.first_ns.min(head.time_ns);
            groups.last_ns = groups.last_ns.max(head.time_ns);
            let groups = &mut groups.found;
            if !groups.contains_key(&key[..]) {
                if groups.len() >= GROUPS_MAX {
                    during.left_out += 1;
                    continue;
                }
                let states = values.iter().map(|(_, value)| value.start()).collect();
                groups.insert(key.clone().into_boxed_slice(), Group { time_ns: 0, states });
            }
            let Some(group) = groups.get_mut(&key[..]) else { continue };
            group.time_ns = group.time_ns.max(head.time_ns);
            for (state, taken) in group.states.iter_mut().zip(&plan.taken) {
                state.take(taken, batch, head, &legend);
            }
        }
        batch.heads = gaps;
        batch.compact(&legend.kinds);
    }

    fn window_ns(&self) -> u64 {
        match self.every {
            Every::Window(ns) => ns.max(1),
            Every::Pull | Every::All => u64::MAX,
        }
    }

    /// Merges the groups of a part.
    pub(crate) fn merge(&mut self, part: Part, during: &mut During<'_>) {
        for (window, groups) in part {
            during.left_out += self.open.entry(window).or_default().merge(groups);
        }
    }

    /// Determines types and units of fields that were unknown before, from the kinds of the tuples that came.
    fn learn(&mut self, legend: &Legend) {
        if self.names.is_known() || self.number.is_some() {
            return;
        }
        for kind in legend.kinds.iter().skip(1) {
            let names =
                Names { kinds: vec![(**kind).clone()], is_open: true, has_context: self.names.has_context };
            let by = self.by.iter().map(|name| names.find(name, None).map(|(field, _)| field).ok());
            let values = self.values.iter().map(|(name, value)| value.field(name, &names).ok());
            if let Some(fields) = by.chain(values).collect() {
                self.kind.fields = fields;
                return;
            }
        }
    }

    /// Moves the complete groups into `out`.
    pub(crate) fn finish(&mut self, out: &mut Batch, during: &mut During<'_>) {
        let moment = during.moment;
        self.learn(&during.legend);
        let number = *self.number.get_or_insert_with(|| during.tables.kind(self.kind.clone()));
        match self.every {
            Every::Pull => {
                let open = std::mem::take(&mut self.open);
                for groups in open.into_values() {
                    // The first pull covers all tuples that exist.
                    let span = match moment.before_ns {
                        0 => (groups.first_ns, groups.until_ns(moment)),
                        before => (before, moment.now_ns),
                    };
                    self.hand_over(&groups, span, number, out);
                }
            }
            Every::All => {
                let open = std::mem::take(&mut self.open);
                for groups in open.values() {
                    let end = groups.until_ns(moment);
                    self.hand_over(groups, (groups.first_ns, end), number, out);
                }
                self.open = open;
            }
            Every::Window(ns) => {
                let ns = ns.max(1);
                while let Some(entry) = self.open.first_entry() {
                    let begin = entry.key().saturating_mul(ns);
                    let end = begin.saturating_add(ns);
                    if end > moment.complete_ns && !moment.is_end {
                        break;
                    }
                    let groups = entry.remove();
                    self.handed_ns = self.handed_ns.max(end);
                    self.hand_over(&groups, (begin, end), number, out);
                }
            }
        }
        during.legend = during.tables.now();
    }

    fn hand_over(&mut self, groups: &Groups, (since_ns, until_ns): (u64, u64), number: u16, out: &mut Batch) {
        // Groups are handed over in the order of their keys, so the order is the same for each pull.
        let mut keys: Vec<_> = groups.found.iter().collect();
        keys.sort_unstable_by(|a, b| parts(a.0).cmp(parts(b.0)));
        let fields = self.kind.fields.clone();
        let (by, made) = fields.split_at(self.by.len());
        for (index, (key, group)) in keys.into_iter().enumerate() {
            let mut words = Vec::with_capacity(fields.len());
            let mut rest = &key[..];
            for field in by {
                words.push(take_key(field.of, &mut rest, out));
            }
            for (n, field) in made.iter().enumerate() {
                let past = self.pasts.entry(n).or_default();
                past.seconds = until_ns.saturating_sub(since_ns) as f64 / 1e9;
                words.push(self.values[n].1.finish(&group.states[n], field, past, out));
            }
            let time_ns = if matches!(self.every, Every::Window(_)) { until_ns } else { group.time_ns };
            out.begin((time_ns, index as u64), ELEMENT_NONE, number, 0);
            out.words.append(&mut words);
        }
        self.pasts.values_mut().for_each(Past::looked);
    }
}

fn open_field(name: &str) -> Field {
    Field { name: name.to_owned(), of: Of::Text, unit: String::new(), doc: String::new() }
}

fn plan(
    by: &[String],
    values: &[(String, Aggregation)],
    names: &Names,
    kind: &TupleKind,
) -> Result<Plan, Wrong> {
    let place = |name: &String| -> Result<(Place, Of), Wrong> {
        let (field, place) = names.find(name, Some(kind)).map_err(|problem| vec![problem])?;
        let expected = names.find(name, None).map_or(field.of, |(expected, _)| expected.of);
        if place == Place::Absent && expected != Of::Text || field.of != expected {
            let message = format!("`{}` has no {} `{name}`", kind.name, expected.name());
            return Err(vec![Problem { message, span: 0..name.len(), help: None }]);
        }
        Ok((place, expected))
    };
    let by = by.iter().map(place).collect::<Result<_, _>>()?;
    let taken = values.iter().map(|(_, value)| value.bind(names, kind)).collect::<Result<_, _>>()?;
    Ok(Plan { by, taken })
}

/// Appends a part to a key, after a byte that is 1 for a text and 0 for a word.
fn put_key((place, of): (Place, Of), batch: &Batch, head: &Head, legend: &Legend, key: &mut Vec<u8>) {
    key.push(u8::from(of == Of::Text));
    if of == Of::Text {
        let text = text_at(place, batch, head, legend).unwrap_or_default();
        key.extend_from_slice(&(text.len() as u32).to_le_bytes());
        return key.extend_from_slice(text.as_bytes());
    }
    let word = match place {
        Place::Word(n, _) => batch.word(head, n),
        place => word_at(place, head, legend).unwrap_or(0),
    };
    key.extend_from_slice(&word.to_le_bytes());
}

/// The parts of a key in the order of their values: words before texts.
fn parts(mut key: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, rest) = key.split_first()?;
        if *tag == 1 {
            let (length, rest) = rest.split_first_chunk().unwrap_or((&[0; 4], &[]));
            let (text, rest) =
                rest.split_at_checked(u32::from_le_bytes(*length) as usize).unwrap_or((&[], &[]));
            key = rest;
            return Some((u64::MAX, text));
        }
        let (word, rest) = rest.split_first_chunk().unwrap_or((&[0; 8], &[]));
        key = rest;
        Some((u64::from_le_bytes(*word), &[]))
    })
}

/// Converts the next part of a key to a word of a field of this type. The part may have another type, from a
/// kind that was unknown when the field was made.
fn take_key(of: Of, key: &mut &[u8], out: &mut Batch) -> u64 {
    let mut part = |count: usize| -> &[u8] {
        let (part, rest) = key.split_at_checked(count).unwrap_or((&[], &[]));
        *key = rest;
        part
    };
    if part(1) == [1] {
        let length = part(4).try_into().map_or(0, u32::from_le_bytes) as usize;
        let text = std::str::from_utf8(part(length)).unwrap_or_default();
        return if of == Of::Text { out.text_word(text) } else { 0 };
    }
    let word = part(8).try_into().map_or(0, u64::from_le_bytes);
    if of == Of::Text { out.text_word(&word.to_string()) } else { word }
}

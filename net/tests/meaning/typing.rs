//! Types by brute force: the way of every possible set of labels through a network is computed.
//!
//! The networks have few labels. With five labels a record is one of 32 sets, and a component is a table with
//! a line for each set. The type checker searches for the types of a network; this module computes the lines
//! of all tables. Where guards decide, the lines are found by trying all decisions ([`crate::decisions`]).
//! Only the verdict and the variants that are compared come from the crate.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::rc::Rc;

use crate::decisions;
use crate::world::{Pattern, Set, World};

/// The labels of the random networks, by bit. The last label is a binding tag.
pub(crate) const LABELS: [&str; 5] = ["<a>", "<b>", "<c>", "<d>", "<#k>"];
pub(crate) const FIVE: World = World { labels: LABELS.len(), binding: 1 << 4 };

/// A component.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Identity,
    /// A box that consumes a set, and emits a record for each of some sets.
    Box(Set, Vec<Set>),
    /// A filter that consumes a set and emits a record for each set of the first list, or of the second list
    /// if the filter's condition does not hold.
    Filter(Set, Vec<Set>, Option<Vec<Set>>),
    Cell(Vec<Pattern>),
    Serial(Vec<Part>),
    Parallel(Vec<Part>, bool),
    Star(Box<Part>, Vec<Pattern>, bool),
    Feedback(Box<Part>, Vec<Pattern>),
    Split(Box<Part>, Set, bool),
    Place(Box<Part>),
    /// A net: its declared input variants, its body, and its number, which makes its name unique.
    Net(Vec<Set>, Box<Part>, usize),
}

/// Whether a record certainly arrives, arrives if a guard holds, or passes a synchrocell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Coming {
    Sure,
    Guarded,
    Past,
}

/// A record that leaves: its labels, those of its labels that the entering record had, and its certainty.
pub(crate) type Out = (Set, Set, Coming);

/// The way of a record: the labels required, and the records that leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) asked: Set,
    pub(crate) outs: BTreeSet<Out>,
    /// Whether records stay in a loop for ever.
    pub(crate) endless: bool,
}

/// The line of each set of labels; `None` if such a record does not get through.
pub(crate) type Lines = Vec<Option<Line>>;

/// A component with its computed properties.
pub(crate) struct Table {
    pub(crate) lines: Lines,
    /// The variants that `|` compares.
    pub(crate) variants: BTreeSet<Set>,
    pub(crate) parts: Vec<Rc<Table>>,
    pub(crate) world: World,
}

pub(crate) fn has(set: Set, all: Set) -> bool {
    set & all == all
}

/// Whether a record may be routed to a variant.
pub(crate) fn fits(world: World, set: Set, variant: Set) -> bool {
    has(set, variant) && set & world.binding & !variant == 0
}

/// The number of labels that the best of some variants matches.
pub(crate) fn score(world: World, variants: &BTreeSet<Set>, set: Set) -> Option<u32> {
    variants.iter().filter(|&&variant| fits(world, set, variant)).map(|variant| variant.count_ones()).max()
}

/// The leftmost of the branches that match best.
pub(crate) fn branch(parts: &[Rc<Table>], set: Set) -> Option<usize> {
    let scores: Vec<Option<u32>> = parts.iter().map(|part| score(part.world, &part.variants, set)).collect();
    let best = scores.iter().flatten().max()?;
    scores.iter().position(|score| score.as_ref() == Some(best))
}

/// The output for a record from which the labels `taken` are removed and to which the labels `made` are
/// added.
pub(crate) fn made_of(world: World, set: Set, taken: Set, made: Set) -> Out {
    let rest = set & !taken & !world.binding;
    (rest | made, rest & !made, Coming::Sure)
}

/// Whether all records get through the next component; records that a synchrocell lets pass need not.
fn gets_on(outs: &BTreeSet<Out>, alive: impl Fn(Set) -> bool) -> bool {
    outs.iter().all(|out| out.2 == Coming::Past || alive(out.0))
}

/// The declared variant that a record goes to.
pub(crate) fn declared(world: World, variants: &[Set], set: Set) -> Option<Set> {
    let fitting = variants.iter().copied().filter(|&variant| fits(world, set, variant));
    fitting.rev().max_by_key(|variant| variant.count_ones())
}

/// Whether a record may leave and may stay at a test of patterns, with the labels required.
pub(crate) fn tested(patterns: &[Pattern], set: Set) -> (Option<Coming>, Option<Coming>, Set) {
    let matched: Vec<&Pattern> = patterns.iter().filter(|(labels, _)| has(set, *labels)).collect();
    let sure = matched.iter().filter(|(_, guard)| !guard).map(|(labels, _)| *labels);
    // The largest variant wins, and among equals the first.
    let sure = sure.rev().max_by_key(|labels| labels.count_ones());
    match sure {
        Some(labels) => (Some(Coming::Sure), None, labels),
        None if matched.is_empty() => (None, Some(Coming::Sure), 0),
        None => {
            let asked = matched.iter().fold(0, |asked, (labels, _)| asked | labels);
            (Some(Coming::Guarded), Some(Coming::Guarded), asked)
        }
    }
}

impl Table {
    pub(crate) fn of(part: &Part, world: World) -> Rc<Table> {
        let parts: Vec<Rc<Table>> = part.parts().iter().map(|inner| Table::of(inner, world)).collect();
        let line = |set: Set| line(part, &parts, world, set);
        let lines: Lines = match part {
            _ if part.has_guards() => decisions::lines(part, &parts, world),
            Part::Star(_, exits, _) => loop_lines(&parts[0].lines, exits, true),
            Part::Feedback(_, backs) => loop_lines(&parts[0].lines, backs, false),
            _ => world.sets().map(line).collect(),
        };
        let variants = match part {
            Part::Identity => BTreeSet::from([0]),
            Part::Box(takes, _) | Part::Filter(takes, ..) => BTreeSet::from([*takes]),
            Part::Cell(patterns) => patterns.iter().map(|(labels, _)| *labels).collect(),
            Part::Net(variants, ..) => variants.iter().copied().collect(),
            Part::Parallel(..) => parts.iter().flat_map(|part| part.variants.clone()).collect(),
            Part::Place(_) => parts[0].variants.clone(),
            Part::Serial(_) | Part::Star(..) | Part::Feedback(..) | Part::Split(..) => {
                world.sets().filter(|&set| is_variant(&lines, set)).collect()
            }
        };
        Rc::new(Table { lines, variants, parts, world })
    }
}

/// Whether a record gets through and all its labels are required.
fn is_variant(lines: &Lines, set: Set) -> bool {
    lines[set as usize].as_ref().is_some_and(|line| line.asked == set)
}

fn line(part: &Part, parts: &[Rc<Table>], world: World, set: Set) -> Option<Line> {
    let taker = |takes: Set, gives: &[Set]| {
        let outs = gives.iter().map(|&made| made_of(world, set, takes, made)).collect();
        has(set, takes).then_some(Line { asked: takes, outs, endless: false })
    };
    match part {
        Part::Identity => taker_of_all(set),
        Part::Box(takes, gives) => taker(*takes, gives),
        Part::Filter(takes, gives, otherwise) => {
            taker(*takes, &[&gives[..], otherwise.as_deref().unwrap_or(&[])].concat())
        }
        Part::Cell(patterns) => cell_line(patterns, set),
        Part::Serial(_) => serial_line(parts, set),
        Part::Parallel(..) => parts[branch(parts, set)?].lines[set as usize].clone(),
        Part::Split(_, tag, _) => {
            let inside = parts[0].lines[set as usize].clone().filter(|_| has(set, *tag))?;
            Some(Line { asked: inside.asked | tag, ..inside })
        }
        Part::Place(_) => parts[0].lines[set as usize].clone(),
        Part::Net(variants, ..) => {
            let variant = declared(world, variants, set)?;
            let around = set & !variant;
            let inside = parts[0].lines[variant as usize].clone().unwrap_or_default();
            let outs =
                inside.outs.iter().map(|&(out, own, coming)| (out | around, own | around & !out, coming));
            Some(Line { asked: variant, outs: outs.collect(), endless: inside.endless })
        }
        Part::Star(..) | Part::Feedback(..) => unreachable!("worked out for all sets at once"),
    }
}

fn taker_of_all(set: Set) -> Option<Line> {
    Some(Line { asked: 0, outs: BTreeSet::from([(set, set, Coming::Sure)]), endless: false })
}

pub(crate) fn cell_line(patterns: &[Pattern], set: Set) -> Option<Line> {
    let matched = patterns.iter().map(|(labels, _)| *labels).filter(|labels| has(set, *labels));
    // The record that matches the first pattern continues.
    let first = patterns[0].0;
    let asked = matched.rev().max_by_key(|&labels| (has(labels, first), labels.count_ones()))?;
    let mut outs = BTreeSet::from([(set, set, Coming::Past)]);
    if has(set, patterns[0].0) {
        let others = patterns[1..].iter().fold(0, |others, (labels, _)| others | labels);
        outs.insert((set | others, set & !others, Coming::Sure));
    }
    Some(Line { asked, outs, endless: false })
}

fn serial_line(parts: &[Rc<Table>], set: Set) -> Option<Line> {
    let mut line = taker_of_all(set)?;
    for part in parts {
        if !gets_on(&line.outs, |out| part.lines[out as usize].is_some()) {
            return None;
        }
        for (out, own, coming) in std::mem::take(&mut line.outs) {
            let Some(next) = &part.lines[out as usize] else { continue };
            line.endless |= next.endless;
            line.asked |= if coming == Coming::Past { 0 } else { next.asked & own };
            line.outs.extend(next.outs.iter().map(|&(o, o_own, c)| (o, o_own & own, c.max(coming))));
        }
    }
    Some(line)
}

/// The lines of a star or a feedback: the sets that get through are the greatest fixed point.
fn loop_lines(body: &Lines, patterns: &[Pattern], star: bool) -> Lines {
    let test = |set: Set| {
        let (matched, otherwise, asked) = tested(patterns, set);
        if star { (matched, otherwise, asked) } else { (otherwise, matched, asked) }
    };
    // The sets that get through from before the test (`alive`), and from inside the loop (`inside`).
    let (mut alive, mut inside) = (vec![true; body.len()], vec![true; body.len()]);
    loop {
        let before = (alive.clone(), inside.clone());
        for set in 0..body.len() {
            inside[set] =
                body[set].as_ref().is_some_and(|line| gets_on(&line.outs, |out| alive[out as usize]));
            alive[set] = test(set as Set).0.is_some() || inside[set];
        }
        if before == (alive.clone(), inside.clone()) {
            break;
        }
    }
    let way = Way { body, test: &test, star, alive: &alive, inside: &inside };
    let comes_back: Vec<bool> = (0..body.len() as Set).map(|set| way.comes_back(set)).collect();
    let line = |set: usize| {
        let enters = if star { alive[set] } else { inside[set] };
        enters.then(|| way.walk(set as Set, &comes_back))
    };
    (0..body.len()).map(line).collect()
}

/// A test of records with a set of labels: the records that may leave, the records that may stay, and the
/// labels required.
type Test<'a> = &'a dyn Fn(Set) -> (Option<Coming>, Option<Coming>, Set);

/// One passage of records through the body of a star or a feedback, and its test.
struct Way<'a> {
    body: &'a Lines,
    test: Test<'a>,
    star: bool,
    alive: &'a [bool],
    inside: &'a [bool],
}

impl Way<'_> {
    /// The records that arrive at the test again after a record with this set of labels entered the body.
    fn next(&self, set: Set) -> impl Iterator<Item = &Out> {
        let line = self.body[set as usize].iter().filter(move |_| self.inside[set as usize]);
        line.flat_map(|line| &line.outs).filter(|out| self.alive[out.0 as usize])
    }

    /// Whether a set that is tested may be tested again.
    fn comes_back(&self, set: Set) -> bool {
        let (mut todo, mut seen) = (vec![set], BTreeSet::new());
        while let Some(now) = todo.pop() {
            if (self.test)(now).1.is_none() {
                continue;
            }
            todo.extend(self.next(now).map(|out| out.0).filter(|&out| seen.insert(out)));
        }
        seen.contains(&set)
    }

    fn walk(&self, set: Set, comes_back: &[bool]) -> Line {
        let mut line = Line::default();
        let entered = (set, set, Coming::Sure, !self.star);
        let (mut todo, mut seen) = (vec![entered], HashSet::from([entered]));
        while let Some((now, own, coming, first)) = todo.pop() {
            line.endless |= !first && comes_back[now as usize];
            let (leaves, stays, asked) = if first { (None, Some(Coming::Sure), 0) } else { (self.test)(now) };
            let mut ask = |labels: Set| line.asked |= if coming == Coming::Past { 0 } else { labels & own };
            ask(asked);
            if let Some(leaves) = leaves {
                line.outs.insert((now, own, coming.max(leaves)));
            }
            let Some(stays) = stays.filter(|_| self.inside[now as usize]) else { continue };
            let Some(next) = &self.body[now as usize] else { continue };
            ask(next.asked);
            line.endless |= next.endless;
            let outs = self
                .next(now)
                .map(|&(out, out_own, how)| (out, out_own & own, coming.max(stays).max(how), false));
            todo.extend(outs.filter(|state| seen.insert(*state)));
        }
        line
    }
}

// ---- sure errors ----

/// What certainly happens to a record: the records that leave (each with whether that is certain), and
/// whether a record certainly fails on the way.
pub(crate) fn surely(part: &Part, table: &Table, set: Set) -> (BTreeSet<(Set, bool)>, bool) {
    let taken = |takes: Set, gives: &[Set]| match has(set, takes) {
        true => (gives.iter().map(|&made| (made_of(table.world, set, takes, made).0, true)).collect(), false),
        false => (BTreeSet::new(), true),
    };
    match part {
        Part::Identity => (BTreeSet::from([(set, true)]), false),
        Part::Box(takes, gives) => taken(*takes, gives),
        Part::Filter(takes, gives, otherwise) => {
            taken(*takes, &[&gives[..], otherwise.as_deref().unwrap_or(&[])].concat())
        }
        Part::Cell(patterns) => {
            let held = patterns.iter().any(|(labels, _)| has(set, *labels));
            let mut outs = BTreeSet::from([(set, !held)]);
            if has(set, patterns[0].0) {
                outs.insert((patterns.iter().fold(set, |joined, (labels, _)| joined | labels), true));
            }
            (outs, false)
        }
        Part::Serial(inner) => {
            let start = (BTreeSet::from([(set, true)]), false);
            inner.iter().zip(&table.parts).fold(start, |(outs, fails), (part, table)| {
                let (next, wrong) = each(&outs, |set| surely(part, table, set));
                (next, fails || wrong)
            })
        }
        Part::Parallel(inner, _) => match branch(&table.parts, set) {
            Some(at) => surely(&inner[at], &table.parts[at], set),
            None => (BTreeSet::new(), true),
        },
        Part::Split(_, tag, _) if !has(set, *tag) => (BTreeSet::new(), true),
        Part::Split(inner, ..) | Part::Place(inner) => surely(inner, &table.parts[0], set),
        Part::Net(variants, inner, _) => {
            let Some(variant) = declared(table.world, variants, set) else {
                return (BTreeSet::new(), true);
            };
            // A failure inside a net is reported for the net itself, so it does not count here.
            let (outs, _) = surely(inner, &table.parts[0], variant);
            (outs.into_iter().map(|(out, sure)| (out | set & !variant, sure)).collect(), false)
        }
        Part::Star(inner, patterns, _) => surely_round(inner, &table.parts[0], patterns, set, true),
        Part::Feedback(inner, patterns) => surely_round(inner, &table.parts[0], patterns, set, false),
    }
}

fn each(
    records: &BTreeSet<(Set, bool)>,
    what: impl Fn(Set) -> (BTreeSet<(Set, bool)>, bool),
) -> (BTreeSet<(Set, bool)>, bool) {
    let (mut outs, mut fails) = (BTreeSet::new(), false);
    for &(set, sure) in records {
        let (next, wrong) = what(set);
        outs.extend(next.into_iter().map(|(out, also)| (out, sure && also)));
        fails |= sure && wrong;
    }
    (outs, fails)
}

fn surely_round(
    body: &Part,
    table: &Table,
    patterns: &[Pattern],
    set: Set,
    star: bool,
) -> (BTreeSet<(Set, bool)>, bool) {
    let (mut outs, mut fails, mut seen) = (BTreeSet::new(), false, BTreeSet::new());
    let mut todo = vec![(set, true, !star)];
    while let Some((now, sure, first)) = todo.pop() {
        if !seen.insert((now, sure, first)) {
            continue;
        }
        let (matched, otherwise, _) = tested(patterns, now);
        let (leaves, stays) = match (first, star) {
            (true, _) => (None, Some(Coming::Sure)),
            (_, true) => (matched, otherwise),
            (_, false) => (otherwise, matched),
        };
        outs.extend(leaves.map(|how| (now, sure && how == Coming::Sure)));
        let Some(how) = stays else { continue };
        let sure = sure && how == Coming::Sure;
        let (next, wrong) = surely(body, table, now);
        fails |= sure && wrong;
        todo.extend(next.into_iter().map(|(out, also)| (out, sure && also, false)));
    }
    (outs, fails)
}

// ---- networks as text ----

/// A set of labels as a variant.
pub(crate) fn shown(set: Set) -> String {
    format!("{{{}}}", labels(set).join(", "))
}

fn labels(set: Set) -> Vec<&'static str> {
    (0..LABELS.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| LABELS[bit]).collect()
}

fn patterns(patterns: &[Pattern]) -> String {
    let shown = patterns.iter().map(|&(set, guard)| match guard {
        // The guard tests any tag of the pattern: the types do not depend on what a guard computes.
        true => {
            format!("{} if <{}>", shown(set), labels(set & !FIVE.binding).first().map_or("0", |l| &l[1..2]))
        }
        false => shown(set),
    });
    shown.collect::<Vec<String>>().join(", ")
}

fn given(sets: &[Set]) -> String {
    let item = |label: &str| match label.starts_with("<#") {
        true => "<#k = 1>".to_owned(),
        false => format!("<{} = 1>", &label[1..2]),
    };
    let record = |&set: &Set| {
        let items: Vec<String> = labels(set).into_iter().map(item).collect();
        format!("{{{}}}", items.join(", "))
    };
    sets.iter().map(record).collect::<Vec<String>>().join("; ")
}

impl Part {
    /// The direct parts.
    pub(crate) fn parts(&self) -> Vec<&Part> {
        match self {
            Part::Serial(parts) | Part::Parallel(parts, _) => parts.iter().collect(),
            Part::Star(body, ..)
            | Part::Feedback(body, _)
            | Part::Split(body, ..)
            | Part::Place(body)
            | Part::Net(_, body, _) => vec![body],
            Part::Identity | Part::Box(..) | Part::Filter(..) | Part::Cell(_) => Vec::new(),
        }
    }

    /// Whether guards test records on the way.
    pub(crate) fn has_guards(&self) -> bool {
        self.any(&|part| match part {
            Part::Star(_, patterns, _) | Part::Feedback(_, patterns) => {
                patterns.iter().any(|(_, guard)| *guard)
            }
            _ => false,
        })
    }

    /// Whether the condition holds for this part or any part inside.
    pub(crate) fn any(&self, is: &impl Fn(&Part) -> bool) -> bool {
        is(self) || self.parts().iter().any(|inner| inner.any(is))
    }

    /// Writes its definitions.
    pub(crate) fn definitions(&self, text: &mut String) {
        self.parts().iter().for_each(|inner| inner.definitions(text));
        match self {
            Part::Box(..) => {
                let definition = format!("{};\n", self.declaration());
                if !text.contains(&definition) {
                    text.push_str(&definition);
                }
            }
            Part::Net(variants, body, _) => {
                let variants: Vec<String> = variants.iter().map(|&set| shown(set)).collect();
                let (name, variants) = (self.name(), variants.join(" | "));
                let _ = writeln!(text, "net {name} ({variants} -> ...) connect {};", body.text());
            }
            _ => {}
        }
    }

    /// Adds the signatures of this part's boxes: the declaration, the number of arguments, and the number of
    /// labels of each output variant.
    pub(crate) fn signatures(&self, all: &mut Vec<(String, usize, Vec<usize>)>) {
        self.parts().iter().for_each(|inner| inner.signatures(all));
        if let Part::Box(takes, gives) = self {
            let count = |set: &Set| set.count_ones() as usize;
            let declaration = self.declaration();
            if !all.iter().any(|(known, ..)| *known == declaration) {
                all.push((declaration, count(takes), gives.iter().map(count).collect()));
            }
        }
    }

    /// The declaration of a box.
    fn declaration(&self) -> String {
        let Part::Box(takes, gives) = self else { unreachable!("it is no box") };
        let gives: Vec<String> = gives.iter().map(|&set| format!("({})", labels(set).join(", "))).collect();
        format!("box {} (({}) -> {})", self.name(), labels(*takes).join(", "), gives.join(" | "))
    }

    fn name(&self) -> String {
        match self {
            Part::Box(takes, gives) => {
                gives.iter().fold(format!("box{takes}"), |name, set| format!("{name}_{set}"))
            }
            Part::Net(_, _, number) => format!("net{number}"),
            _ => unreachable!("it has no name"),
        }
    }

    /// The topology as text.
    pub(crate) fn text(&self) -> String {
        let joined = |parts: &[Part], by: &str| {
            format!("({})", parts.iter().map(Part::text).collect::<Vec<String>>().join(by))
        };
        let twice = |sign: &str, deterministic: bool| sign.repeat(1 + usize::from(deterministic));
        match self {
            Part::Identity => "[]".to_owned(),
            Part::Box(..) | Part::Net(..) => self.name(),
            Part::Filter(takes, gives, None) => format!("[{} -> {}]", shown(*takes), given(gives)),
            Part::Filter(takes, gives, Some(otherwise)) => {
                let condition = labels(*takes & !FIVE.binding).first().map_or("1", |label| &label[1..2]);
                format!(
                    "[{} -> if <{condition}> then {} else {}]",
                    shown(*takes),
                    given(gives),
                    given(otherwise)
                )
            }
            Part::Cell(of) => format!("[| {} |]", patterns(of)),
            Part::Serial(parts) => joined(parts, " .. "),
            Part::Parallel(parts, det) => joined(parts, &format!(" {} ", twice("|", *det))),
            Part::Star(body, exits, det) => {
                format!("({} {} {})", body.text(), twice("*", *det), patterns(exits))
            }
            Part::Feedback(body, backs) => format!("({} \\ {})", body.text(), patterns(backs)),
            Part::Split(body, tag, det) => {
                format!("({} {} {})", body.text(), twice("!", *det), labels(*tag).join(":"))
            }
            Part::Place(body) => format!("({} @ 1)", body.text()),
        }
    }
}

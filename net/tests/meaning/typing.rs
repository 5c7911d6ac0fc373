//! Types by brute force: what becomes of every set of labels in a network, worked out for all sets there are.
//!
//! The networks have five labels, so a record is one of 32 sets, a component is a table with a line for each, and
//! what is inferred elsewhere by looking for it is here the sum of all lines. Nothing comes from the crate but the verdict and the
//! variants that are compared.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::rc::Rc;

/// Labels of the networks, by bit. The last is a binding tag.
pub(crate) const LABELS: [&str; 5] = ["<a>", "<b>", "<c>", "<d>", "<#k>"];
const BINDING: u8 = 1 << 4;
const SETS: usize = 1 << LABELS.len();

/// A pattern: its labels, and whether it has a guard.
pub(crate) type Pattern = (u8, bool);

/// A component.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Identity,
    /// Takes a set, gives a record for each of some sets.
    Box(u8, Vec<u8>),
    /// The same as a filter; the second list is that of a condition that does not hold.
    Filter(u8, Vec<u8>, Option<Vec<u8>>),
    Cell(Vec<Pattern>),
    Serial(Vec<Part>),
    Parallel(Vec<Part>, bool),
    Star(Box<Part>, Vec<Pattern>, bool),
    Feedback(Box<Part>, Vec<Pattern>),
    Split(Box<Part>, u8, bool),
    Place(Box<Part>),
    /// A net that declares what it takes; its number.
    Net(Vec<u8>, Box<Part>, usize),
}

/// Whether a record comes for sure, if a guard says so, or past a synchrocell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Coming {
    Sure,
    Guarded,
    Past,
}

/// A record that leaves: its labels, those of them that came in, how it comes.
pub(crate) type Out = (u8, u8, Coming);

/// What becomes of a record: what was asked of it, and what leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) asked: u8,
    pub(crate) outs: BTreeSet<Out>,
    /// Whether records go round for ever.
    pub(crate) endless: bool,
}

/// For each set of labels; `None`: such a record does not get through.
pub(crate) type Lines = Vec<Option<Line>>;

/// A component with all there is to know of it.
pub(crate) struct Table {
    pub(crate) lines: Lines,
    /// What `|` compares.
    pub(crate) variants: BTreeSet<u8>,
    pub(crate) parts: Vec<Rc<Table>>,
}

fn has(set: u8, all: u8) -> bool {
    set & all == all
}

/// Whether a record may be routed to a variant.
pub(crate) fn fits(set: u8, variant: u8) -> bool {
    has(set, variant) && set & BINDING & !variant == 0
}

/// How many labels the best of some variants matches.
pub(crate) fn score(variants: &BTreeSet<u8>, set: u8) -> Option<u32> {
    variants.iter().filter(|&&variant| fits(set, variant)).map(|variant| variant.count_ones()).max()
}

/// The leftmost of the branches that match best.
pub(crate) fn branch(parts: &[Rc<Table>], set: u8) -> Option<usize> {
    let scores: Vec<Option<u32>> = parts.iter().map(|part| score(&part.variants, set)).collect();
    let best = scores.iter().flatten().max()?;
    scores.iter().position(|score| score.as_ref() == Some(best))
}

/// What is made of a record that loses `taken` and gets `made`.
fn made_of(set: u8, taken: u8, made: u8) -> Out {
    let rest = set & !taken & !BINDING;
    (rest | made, rest & !made, Coming::Sure)
}

/// Of what surely comes all must get on; of what comes if guards say so one, if nothing else comes.
fn gets_on(outs: &BTreeSet<Out>, alive: impl Fn(u8) -> bool) -> bool {
    let of = |coming| outs.iter().filter(move |out| out.2 == coming);
    let any_sure = of(Coming::Sure).next().is_some();
    let any_guarded = of(Coming::Guarded).next().is_some();
    of(Coming::Sure).all(|out| alive(out.0))
        && (any_sure || !any_guarded || of(Coming::Guarded).any(|out| alive(out.0)))
}

/// How a record leaves and how it stays, where patterns are tested.
fn tested(patterns: &[Pattern], set: u8) -> (Option<Coming>, Option<Coming>, u8) {
    let matched: Vec<&Pattern> = patterns.iter().filter(|(labels, _)| has(set, *labels)).collect();
    let sure = matched.iter().filter(|(_, guard)| !guard).map(|(labels, _)| *labels);
    // The largest, of those the first.
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
    pub(crate) fn of(part: &Part) -> Rc<Table> {
        let parts: Vec<Rc<Table>> = part.parts().iter().map(|inner| Table::of(inner)).collect();
        let line = |set: u8| line(part, &parts, set);
        let lines: Lines = match part {
            Part::Star(_, exits, _) => loop_lines(&parts[0].lines, exits, true),
            Part::Feedback(_, backs) => loop_lines(&parts[0].lines, backs, false),
            _ => (0..SETS as u8).map(line).collect(),
        };
        let variants = match part {
            Part::Identity => BTreeSet::from([0]),
            Part::Box(takes, _) | Part::Filter(takes, ..) => BTreeSet::from([*takes]),
            Part::Cell(patterns) => patterns.iter().map(|(labels, _)| *labels).collect(),
            Part::Net(variants, ..) => variants.iter().copied().collect(),
            Part::Parallel(..) => parts.iter().flat_map(|part| part.variants.clone()).collect(),
            Part::Place(_) => parts[0].variants.clone(),
            Part::Serial(_) | Part::Star(..) | Part::Feedback(..) | Part::Split(..) => {
                (0..SETS as u8).filter(|&set| is_variant(&lines, set)).collect()
            }
        };
        Rc::new(Table { lines, variants, parts })
    }
}

/// Whether a record gets through with all its labels asked for.
fn is_variant(lines: &Lines, set: u8) -> bool {
    lines[set as usize].as_ref().is_some_and(|line| line.asked == set)
}

fn line(part: &Part, parts: &[Rc<Table>], set: u8) -> Option<Line> {
    let taker = |takes: u8, gives: &[u8]| {
        let outs = gives.iter().map(|&made| made_of(set, takes, made)).collect();
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
            let fitting = variants.iter().copied().filter(|&variant| fits(set, variant));
            let variant = fitting.rev().max_by_key(|variant| variant.count_ones())?;
            let around = set & !variant;
            let inside = parts[0].lines[variant as usize].clone().unwrap_or_default();
            let outs =
                inside.outs.iter().map(|&(out, own, coming)| (out | around, own | around & !out, coming));
            Some(Line { asked: variant, outs: outs.collect(), endless: inside.endless })
        }
        Part::Star(..) | Part::Feedback(..) => unreachable!("worked out for all sets at once"),
    }
}

fn taker_of_all(set: u8) -> Option<Line> {
    Some(Line { asked: 0, outs: BTreeSet::from([(set, set, Coming::Sure)]), endless: false })
}

fn cell_line(patterns: &[Pattern], set: u8) -> Option<Line> {
    let matched = patterns.iter().map(|(labels, _)| *labels).filter(|labels| has(set, *labels));
    // The first pattern says what goes on.
    let first = patterns[0].0;
    let asked = matched.rev().max_by_key(|&labels| (has(labels, first), labels.count_ones()))?;
    let mut outs = BTreeSet::from([(set, set, Coming::Past)]);
    if has(set, patterns[0].0) {
        let others = patterns[1..].iter().fold(0, |others, (labels, _)| others | labels);
        outs.insert((set | others, set & !others, Coming::Sure));
    }
    Some(Line { asked, outs, endless: false })
}

fn serial_line(parts: &[Rc<Table>], set: u8) -> Option<Line> {
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

/// A star or a feedback: which sets get through is the largest answer that agrees with itself.
fn loop_lines(body: &Lines, patterns: &[Pattern], star: bool) -> Lines {
    let test = |set: u8| {
        let (matched, otherwise, asked) = tested(patterns, set);
        if star { (matched, otherwise, asked) } else { (otherwise, matched, asked) }
    };
    // Before a test, and inside.
    let (mut alive, mut inside) = ([true; SETS], [true; SETS]);
    loop {
        let before = (alive, inside);
        for set in 0..SETS {
            inside[set] =
                body[set].as_ref().is_some_and(|line| gets_on(&line.outs, |out| alive[out as usize]));
            alive[set] = test(set as u8).0.is_some() || inside[set];
        }
        if before == (alive, inside) {
            break;
        }
    }
    let line = |set: usize| {
        let enters = if star { alive[set] } else { inside[set] };
        enters.then(|| walk(body, set as u8, &test, star, &alive, &inside))
    };
    (0..SETS).map(line).collect()
}

fn walk(
    body: &Lines,
    set: u8,
    test: &impl Fn(u8) -> (Option<Coming>, Option<Coming>, u8),
    star: bool,
    alive: &[bool; SETS],
    inside: &[bool; SETS],
) -> Line {
    let mut line = Line::default();
    let mut todo = vec![((set, set, Coming::Sure), !star, Vec::new())];
    let mut seen = BTreeSet::new();
    while let Some(((now, own, coming), first, behind)) = todo.pop() {
        line.endless |= behind.contains(&now);
        if !seen.insert((now, own, coming, first)) {
            continue;
        }
        let (leaves, stays, asked) = if first { (None, Some(Coming::Sure), 0) } else { test(now) };
        let mut ask = |labels: u8| line.asked |= if coming == Coming::Past { 0 } else { labels & own };
        ask(asked);
        if let Some(leaves) = leaves {
            line.outs.insert((now, own, coming.max(leaves)));
        }
        let Some(stays) = stays.filter(|_| inside[now as usize]) else { continue };
        let Some(next) = &body[now as usize] else { continue };
        ask(next.asked);
        line.endless |= next.endless;
        for &(out, out_own, how) in next.outs.iter().filter(|out| alive[out.0 as usize]) {
            let behind = if first { Vec::new() } else { [&behind[..], &[now]].concat() };
            todo.push(((out, out_own & own, coming.max(stays).max(how)), false, behind));
        }
    }
    line
}

// ---- what is surely wrong ----

/// What surely becomes of a record: what leaves (with whether that is sure), and whether some record surely fails on the way.
pub(crate) fn surely(part: &Part, table: &Table, set: u8) -> (BTreeSet<(u8, bool)>, bool) {
    let taken = |takes: u8, gives: &[u8]| match has(set, takes) {
        true => (gives.iter().map(|&made| (made_of(set, takes, made).0, true)).collect(), false),
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
            let fitting = variants.iter().copied().filter(|&variant| fits(set, variant));
            let Some(variant) = fitting.rev().max_by_key(|variant| variant.count_ones()) else {
                return (BTreeSet::new(), true);
            };
            // What fails inside is told of the net itself.
            let (outs, _) = surely(inner, &table.parts[0], variant);
            (outs.into_iter().map(|(out, sure)| (out | set & !variant, sure)).collect(), false)
        }
        Part::Star(inner, patterns, _) => surely_round(inner, &table.parts[0], patterns, set, true),
        Part::Feedback(inner, patterns) => surely_round(inner, &table.parts[0], patterns, set, false),
    }
}

fn each(
    records: &BTreeSet<(u8, bool)>,
    what: impl Fn(u8) -> (BTreeSet<(u8, bool)>, bool),
) -> (BTreeSet<(u8, bool)>, bool) {
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
    set: u8,
    star: bool,
) -> (BTreeSet<(u8, bool)>, bool) {
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
pub(crate) fn shown(set: u8) -> String {
    format!("{{{}}}", labels(set).join(", "))
}

fn labels(set: u8) -> Vec<&'static str> {
    (0..LABELS.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| LABELS[bit]).collect()
}

fn patterns(patterns: &[Pattern]) -> String {
    let shown = patterns.iter().map(|&(set, guard)| match guard {
        // What it gives is of no matter here.
        true => format!("{} if <{}>", shown(set), labels(set & !BINDING).first().map_or("0", |l| &l[1..2])),
        false => shown(set),
    });
    shown.collect::<Vec<String>>().join(", ")
}

fn given(sets: &[u8]) -> String {
    let item = |label: &str| match label.starts_with("<#") {
        true => "<#k = 1>".to_owned(),
        false => format!("<{} = 1>", &label[1..2]),
    };
    let record = |&set: &u8| {
        let items: Vec<String> = labels(set).into_iter().map(item).collect();
        format!("{{{}}}", items.join(", "))
    };
    sets.iter().map(record).collect::<Vec<String>>().join("; ")
}

impl Part {
    /// What it is made of.
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

    /// This and all inside.
    pub(crate) fn any(&self, is: &impl Fn(&Part) -> bool) -> bool {
        is(self) || self.parts().iter().any(|inner| inner.any(is))
    }

    /// Its definitions.
    pub(crate) fn definitions(&self, text: &mut String) {
        self.parts().iter().for_each(|inner| inner.definitions(text));
        match self {
            Part::Box(takes, gives) => {
                let gives: Vec<String> =
                    gives.iter().map(|&set| format!("({})", labels(set).join(", "))).collect();
                let definition = format!(
                    "box {} (({}) -> {});\n",
                    self.name(),
                    labels(*takes).join(", "),
                    gives.join(" | ")
                );
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

    fn name(&self) -> String {
        match self {
            Part::Box(takes, gives) => {
                gives.iter().fold(format!("box{takes}"), |name, set| format!("{name}_{set}"))
            }
            Part::Net(_, _, number) => format!("net{number}"),
            _ => unreachable!("it has no name"),
        }
    }

    /// Its topology.
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
                format!("[{} -> if <1> then {} else {}]", shown(*takes), given(gives), given(otherwise))
            }
            Part::Cell(of) => format!("[| {} |]", patterns(of)),
            Part::Serial(parts) => joined(parts, " .. "),
            Part::Parallel(parts, det) => joined(parts, &format!(" {} ", twice("|", *det))),
            Part::Star(body, exits, det) => {
                format!("({} {} {})", body.text(), twice("*", *det), patterns(exits))
            }
            Part::Feedback(body, backs) => format!("({} \\ {})", body.text(), patterns(backs)),
            Part::Split(body, tag, det) => {
                format!("({} {} {})", body.text(), twice("!", *det), labels(*tag)[0])
            }
            Part::Place(body) => format!("({} @ 1)", body.text()),
        }
    }
}

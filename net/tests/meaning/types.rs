//! Inferred types, verdicts and routes compared with those of brute force ([`crate::typing`]) and with those
//! that follow from the language's rules ([`crate::rules`]), on random networks; and the results of running
//! such networks.
//!
//! Older versions of the checker fail these tests. In the version whose test interpreter shared the checker's
//! reading of types, case 0 is the first network with other types (854 of the first 5,000), and case 260 the
//! first run in which a tie did not go to the leftmost branch (24 of the 5,000). In the version that did not
//! check guards exactly, case 1,378 is the first in which the checker accepts a record although some of its
//! descendants fail after a guard; among the networks of nested loops the first such case is case 44.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_net::check::{Node, NodeKind, Resolved, check_text};
use thalweg_net::json;
use thalweg_net::router::{Choice, Router};
use thalweg_net::syntax::ast::Label;

use crate::boxes::random_boxes;
use crate::generator::{Case, Writer};
use crate::rules::{Term, Typed};
use crate::runs::{Verdict, normal, shown_run, try_with, watch};
use crate::typing::{Coming, FIVE, LABELS, Part, Table, branch, score, shown, surely};
use crate::world::Set;

impl Writer {
    fn labels(&mut self) -> Set {
        let set = match self.below(5) {
            0 => 0,
            1..=3 => 1 << self.below(4),
            _ => 1 << self.below(4) | 1 << self.below(4),
        };
        if self.one_in(16) { set | 1 << 4 } else { set }
    }

    fn sets(&mut self) -> Vec<Set> {
        (0..self.of(&[1, 1, 1, 1, 2, 2, 0])).map(|_| self.labels()).collect()
    }

    fn patterns(&mut self, sort: Sort) -> Vec<(Set, bool)> {
        (0..self.of(&[1, 1, 1, 2])).map(|_| (self.labels(), self.one_in(sort.guards))).collect()
    }

    fn part(&mut self, depth: u64, sort: Sort, nets: &mut usize) -> Part {
        if depth == 0 {
            return self.small(sort);
        }
        let inner = |chance: &mut Writer, nets: &mut usize| {
            let less = chance.below(depth);
            Box::new(chance.part(less, sort, nets))
        };
        let several = |chance: &mut Writer, nets: &mut usize| -> Vec<Part> {
            (0..chance.below(sort.parts - 1) + 2).map(|_| *inner(chance, nets)).collect()
        };
        let kind =
            if sort.loops { self.of(&[0, 1, 2, 4, 5, 7, 7, 7, 9, 9, 10, 11, 12]) } else { self.below(13) };
        match kind {
            0..=3 => Part::Serial(several(self, nets)),
            4..=6 => Part::Parallel(several(self, nets), self.one_in(4)),
            7 | 8 => Part::Star(inner(self, nets), self.patterns(sort), self.one_in(4)),
            9 => Part::Feedback(inner(self, nets), self.patterns(sort)),
            10 => Part::Split(inner(self, nets), self.tags(sort), self.one_in(4)),
            11 => Part::Place(inner(self, nets)),
            _ => {
                let mut variants: Vec<Set> = (0..self.below(2) + 1).map(|_| self.labels()).collect();
                variants.dedup();
                *nets += 1;
                let number = *nets;
                Part::Net(variants, inner(self, nets), number)
            }
        }
    }

    /// The tag of a split, or the two tags of a range.
    fn tags(&mut self, sort: Sort) -> Set {
        let range = sort.loops && self.one_in(3);
        1 << self.below(5) | if range { 1 << self.below(5) } else { 0 }
    }

    fn small(&mut self, sort: Sort) -> Part {
        match self.below(12) {
            0 | 1 => Part::Identity,
            2 | 3 => {
                let outputs = self.sets();
                Part::Box(self.labels(), outputs)
            }
            4 if sort.loops => Part::Cell(
                (0..self.below(3) + 1).map(|_| (self.labels(), self.one_in(sort.guards))).collect(),
            ),
            4 => Part::Cell(vec![(self.labels(), self.one_in(5)), (self.labels(), false)]),
            5 => Part::Filter(self.labels(), self.sets(), Some(self.sets())),
            _ => Part::Filter(self.labels(), self.sets(), None),
        }
    }
}

/// The properties of random networks.
#[derive(Clone, Copy)]
struct Sort {
    depth: u64,
    /// The most parts in series, and the most branches.
    parts: u64,
    /// One pattern in so many has a guard.
    guards: u64,
    /// Whether stars and feedbacks are frequent, and ranges and synchrocells with other than two patterns
    /// occur.
    loops: bool,
}

/// All constructs, with equal frequency.
const EVEN: Sort = Sort { depth: 3, parts: 3, guards: 5, loops: false };
/// Nested loops, with a guard in every second pattern.
const LOOPS: Sort = Sort { depth: 4, parts: 4, guards: 2, loops: true };

/// A random network, and labels that a record of it may have.
struct Net {
    part: Part,
    table: std::rc::Rc<Table>,
    definitions: String,
    input: Set,
}

impl Net {
    fn random(seed: u64, sort: Sort) -> Net {
        let mut chance = Writer::new(seed);
        let depth = chance.below(sort.depth) + 1;
        let part = chance.part(depth, sort, &mut 0);
        let mut definitions = String::new();
        part.definitions(&mut definitions);
        let table = Table::of(&part, FIVE);
        let of_it = table.variants.iter().copied().collect::<Vec<Set>>();
        let more = if chance.one_in(2) { 0 } else { chance.labels() };
        let input = if of_it.is_empty() { more } else { chance.of(&of_it) | more };
        Net { part, table, definitions, input }
    }

    fn text(&self, signature: &str) -> String {
        format!("{}net main {signature} connect {};", self.definitions, self.part.text())
    }

    fn declared(&self) -> String {
        self.text(&format!("({} -> ...)", shown(self.input)))
    }
}

fn bits(labels: &[Label]) -> Set {
    let bit =
        |label: &Label| LABELS.iter().position(|known| *known == label.to_string()).expect("one of five");
    labels.iter().fold(0, |set, label| set | 1 << bit(label))
}

/// A record with these labels.
fn record(set: Set) -> String {
    let items = (0..LABELS.len()).filter(|bit| set >> bit & 1 == 1);
    let items: Vec<String> = items.map(|bit| format!("\"{}\": 1", LABELS[bit])).collect();
    format!("{{{}}}", items.join(", "))
}

/// A component in the form for the language's rules.
fn term(part: &Part) -> Term {
    let inner = |part: &Part| Box::new(term(part));
    let all = |parts: &[Part]| parts.iter().map(term).collect();
    match part {
        Part::Identity => Term::Identity,
        Part::Box(takes, gives) => Term::Taker(*takes, gives.clone()),
        Part::Filter(takes, gives, otherwise) => {
            let gives = [&gives[..], otherwise.as_deref().unwrap_or(&[])].concat();
            Term::Taker(*takes, gives)
        }
        Part::Cell(patterns) => Term::Cell(patterns.iter().map(|&(set, _)| set).collect()),
        Part::Serial(parts) => Term::Serial(all(parts)),
        Part::Parallel(parts, _) => Term::Parallel(all(parts)),
        Part::Star(body, exits, _) => Term::Star(inner(body), exits.clone()),
        Part::Feedback(body, backs) => Term::Feedback(inner(body), backs.clone()),
        Part::Split(body, tag, _) => Term::Split(inner(body), *tag),
        Part::Place(body) => Term::Place(inner(body)),
        Part::Net(variants, body, _) => Term::Net(variants.clone(), inner(body)),
    }
}

/// Compares the result of brute force with that of the language's rules.
fn compare_rules(part: &Part, table: &Table, typed: &Typed) -> Result<(), String> {
    if typed.variants != table.variants {
        let show = |sets: &BTreeSet<Set>| sets.iter().map(|&s| shown(s)).collect::<Vec<_>>().join(" | ");
        let (text, found, wanted) = (part.text(), show(&table.variants), show(&typed.variants));
        return Err(format!("{text} takes {wanted} by the rules; brute force found {found}"));
    }
    for set in FIVE.sets() {
        if let Part::Parallel(..) = part
            && typed.branch(set) != branch(&table.parts, set)
        {
            return Err(format!("{}: {} goes another way by the rules", part.text(), shown(set)));
        }
    }
    let mut all = part.parts().into_iter().zip(&table.parts).zip(&typed.parts);
    all.try_for_each(|((part, table), typed)| compare_rules(part, table, typed))
}

/// Compares the input variants of each component, and the route of each record at each parallel.
fn compare(node: &Node, part: &Part, table: &Table, resolved: &Resolved) -> Result<(), String> {
    let found: BTreeSet<Set> = node.accepts.iter().map(|variant| bits(variant)).collect();
    for set in FIVE.sets() {
        if score(FIVE, &found, set) != score(FIVE, &table.variants, set) {
            let show = |sets: &BTreeSet<Set>| sets.iter().map(|&s| shown(s)).collect::<Vec<_>>().join(" | ");
            let (text, found, wanted) = (part.text(), show(&found), show(&table.variants));
            return Err(format!("{text} takes {wanted}; inferred was {found}; see {}", shown(set)));
        }
    }
    if let NodeKind::Parallel { branches, .. } = &node.kind {
        let mut router = Router::from_accepts(branches.iter().map(|branch| branch.accepts.as_slice()));
        for set in FIVE.sets() {
            let found = match router.choose(&json::read_record(record(set).as_bytes()).unwrap()) {
                Choice::One(branch) => Some(branch),
                Choice::Tie(tied) => Some(tied[0]),
                Choice::None => None,
            };
            if found != branch(&table.parts, set) {
                return Err(format!("{}: {} goes to branch {found:?}", part.text(), shown(set)));
            }
        }
    }
    let inner: Vec<&Node> = match node.kind {
        NodeKind::Net(net) => vec![&resolved.net(net).body],
        _ => node.parts().collect(),
    };
    let parts = part.parts();
    if inner.len() != parts.len() {
        return Err(format!("{} has {} parts, not {}", part.text(), inner.len(), parts.len()));
    }
    let mut all = inner.into_iter().zip(parts).zip(&table.parts);
    all.try_for_each(|((node, part), table)| compare(node, part, table, resolved))
}

/// Whether the part contains a net that is ill-typed for every input.
fn wrong_inside(part: &Part, table: &Table) -> bool {
    let itself = match part {
        Part::Net(variants, body, _) => {
            variants.iter().any(|&variant| surely(body, &table.parts[0], variant).1)
        }
        _ => false,
    };
    itself || part.parts().iter().zip(&table.parts).any(|(part, table)| wrong_inside(part, table))
}

/// Compares all properties of a network; returns words that describe it.
fn try_net(seed: u64, sort: Sort, run: bool) -> Result<Vec<&'static str>, String> {
    let net = Net::random(seed, sort);
    let told = |error: String, text: &str| format!("seed {seed}: {error}\n{text}");
    let text = net.declared();
    let checked = check_text("main", &text, None);
    let codes: BTreeSet<&str> = checked.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
    let refused = codes.iter().any(|code| matches!(*code, "E0501" | "E0502" | "E0504" | "E0506"));
    if codes.iter().any(|code| !code.starts_with("E05")) {
        return Err(told(format!("{codes:?}"), &text));
    }
    let wrong = surely(&net.part, &net.table, net.input).1 || wrong_inside(&net.part, &net.table);
    if refused != wrong {
        return Err(told(format!("refused is {refused} ({codes:?})"), &text));
    }
    let text = net.text("");
    let Some(resolved) = check_text("main", &text, None).resolved else { return Ok(vec!["refused"]) };
    let body = &resolved.net(resolved.main).body;
    compare(body, &net.part, &net.table, &resolved).map_err(|error| told(error, &text))?;
    let term = term(&net.part);
    let ruled = compare_rules(&net.part, &net.table, &Typed::of(&term, FIVE));
    ruled.map_err(|error| told(error, &text))?;
    let mut words = vec![if net.part.has_guards() { "with guards" } else { "without guards" }];
    if !run {
        return Ok(words);
    }
    let values = |part: &Part| match part {
        Part::Box(..) | Part::Cell(_) => true,
        Part::Filter(_, _, otherwise) => otherwise.is_some(),
        _ => false,
    };
    if !net.part.has_guards() && !net.part.any(&values) {
        run_sets(&net, &text).map_err(|error| told(error, &text))?;
        words.push("run with all sets of labels");
    }
    words.push(run_records(&net, &text, seed).map_err(|error| told(error, &text))?);
    Ok(words)
}

/// Sends a few records with random labels and values through the runtime and the interpreter.
fn run_records(net: &Net, text: &str, seed: u64) -> Result<&'static str, String> {
    let mut chance = Writer::new(!seed);
    let variants: Vec<Set> = net.table.variants.iter().copied().collect();
    let records = (0..chance.below(3) + 1).map(|_| {
        let more = if chance.one_in(2) { 0 } else { chance.labels() };
        let set = if variants.is_empty() { more } else { chance.of(&variants) | more };
        let items = (0..LABELS.len()).filter(|bit| set >> bit & 1 == 1);
        let items: Vec<String> =
            items.map(|bit| format!("\"{}\": {}", LABELS[bit], chance.below(3))).collect();
        format!("{{{}}}", items.join(", "))
    });
    let case = Case { net: text.to_owned(), records: records.collect() };
    let mut signatures = Vec::new();
    net.part.signatures(&mut signatures);
    match try_with(&random_boxes(&signatures), &case, seed % 8) {
        Verdict::Right => Ok("run with records"),
        Verdict::TooMuch => Ok("too much to interpret"),
        Verdict::Refused => Err("it is refused with its boxes".to_owned()),
        Verdict::Wrong(why) => Err(format!("{why}\nof {}", case.records.join(" "))),
    }
}

/// Compares the output of the runtime for each set of labels that gets through, if it may not loop for ever.
fn run_sets(net: &Net, text: &str) -> Result<(), String> {
    let ends = |set: &Set| net.table.lines[*set as usize].as_ref().is_some_and(|line| !line.endless);
    for set in FIVE.sets().filter(ends) {
        let line = net.table.lines[set as usize].as_ref().expect("it gets through");
        let wanted: BTreeSet<String> = line.outs.iter().map(|out| normal_of(out.0)).collect();
        assert!(line.outs.iter().all(|out| out.2 == Coming::Sure));
        let (found, failed) =
            shown_run(&Case { net: text.to_owned(), records: vec![record(set)] }, u64::from(set % 4));
        let found: BTreeSet<String> = found.into_iter().collect();
        if found != wanted || !failed.is_empty() {
            return Err(format!("{} gives {found:?} and {failed:?}, not {wanted:?}", shown(set)));
        }
    }
    Ok(())
}

fn normal_of(set: Set) -> String {
    normal(&record(set))
}

/// Checks random networks; one network in `run` is also run.
fn random_nets(from: u64, count: u64, sort: Sort, run: u64) {
    let _watch = watch();
    let mut words = BTreeMap::new();
    for seed in from..from + count {
        match try_net(seed, sort, seed % run == 0) {
            Ok(of_it) => of_it.into_iter().for_each(|word| *words.entry(word).or_insert(0_u64) += 1),
            Err(error) => panic!("after {} networks {words:?}: {error}", seed - from),
        }
    }
    #[allow(clippy::print_stdout, reason = "what was compared is for people")]
    {
        println!("{count} networks: {words:?}");
    }
    if count >= 1_000 {
        let of = |word| words.get(word).copied().unwrap_or(0);
        for word in ["with guards", "without guards"] {
            assert!(of(word) > count / 20, "too few are compared: {words:?}");
        }
    }
}

#[test]
fn types_by_brute_force_and_by_the_rules() {
    random_nets(0, 20_000, EVEN, 4);
}

#[test]
fn types_of_loops_and_guards() {
    random_nets(0, 5_000, LOOPS, 4);
}

/// Networks whose types were once inferred wrongly.
#[test]
fn types_of_networks_that_differed() {
    for seed in [1_099_511_926_080, 1_099_512_004_724] {
        random_nets(seed, 1, EVEN, 1);
    }
    for seed in [1_099_511_649_920, 1_099_512_294_538] {
        random_nets(seed, 1, LOOPS, 1);
    }
}

/// A million networks, every fourth of which is run, with `cargo xtask test --long`; `CASES` and `SEED` set
/// their number and the first one, `RUN` the number of networks for each one that is run, `LOOPS=1` selects
/// nested loops.
#[test]
#[ignore = "takes half an hour"]
fn types_of_a_million_networks() {
    let from_environment =
        |name, otherwise| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise);
    let (from, cases) = (from_environment("SEED", 1 << 40), from_environment("CASES", 1_000_000));
    let sort = if from_environment("LOOPS", 0) == 1 { LOOPS } else { EVEN };
    random_nets(from, cases, sort, from_environment("RUN", 4));
}

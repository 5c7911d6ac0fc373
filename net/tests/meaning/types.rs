//! Inferred types, verdicts and routes beside those that brute force finds ([`crate::typing`]), on random networks.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_net::check::{Node, NodeKind, Resolved, check_text};
use thalweg_net::json;
use thalweg_net::router::{Choice, Router};
use thalweg_net::syntax::ast::Label;

use crate::generator::{Case, Chance};
use crate::runs::{normal, shown_run, watch};
use crate::typing::{Coming, LABELS, Part, Table, branch, score, shown, surely};

const SETS: u8 = 1 << LABELS.len();

impl Chance {
    fn labels(&mut self) -> u8 {
        let set = match self.below(5) {
            0 => 0,
            1..=3 => 1 << self.below(4),
            _ => 1 << self.below(4) | 1 << self.below(4),
        };
        if self.one_in(16) { set | 1 << 4 } else { set }
    }

    fn sets(&mut self) -> Vec<u8> {
        (0..self.of(&[1, 1, 1, 1, 2, 2, 0])).map(|_| self.labels()).collect()
    }

    fn patterns(&mut self) -> Vec<(u8, bool)> {
        (0..self.of(&[1, 1, 1, 2])).map(|_| (self.labels(), self.one_in(5))).collect()
    }

    fn part(&mut self, depth: u64, nets: &mut usize) -> Part {
        if depth == 0 {
            return self.small();
        }
        let inner = |chance: &mut Chance, nets: &mut usize| {
            let less = chance.below(depth);
            Box::new(chance.part(less, nets))
        };
        let several = |chance: &mut Chance, nets: &mut usize| -> Vec<Part> {
            (0..chance.below(2) + 2).map(|_| *inner(chance, nets)).collect()
        };
        match self.below(13) {
            0..=3 => Part::Serial(several(self, nets)),
            4..=6 => Part::Parallel(several(self, nets), self.one_in(4)),
            7 | 8 => Part::Star(inner(self, nets), self.patterns(), self.one_in(4)),
            9 => Part::Feedback(inner(self, nets), self.patterns()),
            10 => Part::Split(inner(self, nets), 1 << self.below(5), self.one_in(4)),
            11 => Part::Place(inner(self, nets)),
            _ => {
                let mut variants: Vec<u8> = (0..self.below(2) + 1).map(|_| self.labels()).collect();
                variants.dedup();
                *nets += 1;
                let number = *nets;
                Part::Net(variants, inner(self, nets), number)
            }
        }
    }

    fn small(&mut self) -> Part {
        match self.below(12) {
            0 | 1 => Part::Identity,
            2 | 3 => {
                let outputs = self.sets();
                Part::Box(self.labels(), outputs)
            }
            4 => Part::Cell(vec![(self.labels(), self.one_in(5)), (self.labels(), false)]),
            5 => Part::Filter(self.labels(), self.sets(), Some(self.sets())),
            _ => Part::Filter(self.labels(), self.sets(), None),
        }
    }
}

/// A random network, and labels that a record of it may have.
struct Net {
    part: Part,
    table: std::rc::Rc<Table>,
    definitions: String,
    input: u8,
}

impl Net {
    fn random(seed: u64) -> Net {
        let mut chance = Chance::new(seed);
        let depth = chance.below(3) + 1;
        let part = chance.part(depth, &mut 0);
        let mut definitions = String::new();
        part.definitions(&mut definitions);
        let table = Table::of(&part);
        let of_it = table.variants.iter().copied().collect::<Vec<u8>>();
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

fn bits(labels: &[Label]) -> u8 {
    let bit =
        |label: &Label| LABELS.iter().position(|known| *known == label.to_string()).expect("one of five");
    labels.iter().fold(0, |set, label| set | 1 << bit(label))
}

/// A record with these labels.
fn record(set: u8) -> String {
    let items = (0..LABELS.len()).filter(|bit| set >> bit & 1 == 1);
    let items: Vec<String> = items.map(|bit| format!("\"{}\": 1", LABELS[bit])).collect();
    format!("{{{}}}", items.join(", "))
}

/// Compares what each component takes, and where each parallel sends each record.
fn compare(node: &Node, part: &Part, table: &Table, resolved: &Resolved) -> Result<(), String> {
    let found: BTreeSet<u8> = node.accepts.iter().map(|variant| bits(variant)).collect();
    for set in 0..SETS {
        if score(&found, set) != score(&table.variants, set) {
            let show = |sets: &BTreeSet<u8>| sets.iter().map(|&s| shown(s)).collect::<Vec<_>>().join(" | ");
            let (text, found, wanted) = (part.text(), show(&found), show(&table.variants));
            return Err(format!("{text} takes {wanted}; inferred was {found}; see {}", shown(set)));
        }
    }
    if let NodeKind::Parallel { branches, .. } = &node.kind {
        let mut router = Router::from_accepts(branches.iter().map(|branch| branch.accepts.as_slice()));
        for set in 0..SETS {
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

/// Whether a net inside is wrong whatever comes.
fn wrong_inside(part: &Part, table: &Table) -> bool {
    let itself = match part {
        Part::Net(variants, body, _) => {
            variants.iter().any(|&variant| surely(body, &table.parts[0], variant).1)
        }
        _ => false,
    };
    itself || part.parts().iter().zip(&table.parts).any(|(part, table)| wrong_inside(part, table))
}

/// Compares everything of a network; the word for what it was.
fn try_net(seed: u64, run: bool) -> Result<&'static str, String> {
    let net = Net::random(seed);
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
    let Some(resolved) = check_text("main", &text, None).resolved else { return Ok("refused") };
    let body = &resolved.net(resolved.main).body;
    compare(body, &net.part, &net.table, &resolved).map_err(|error| told(error, &text))?;
    let values = |part: &Part| match part {
        Part::Box(..) | Part::Cell(_) => true,
        Part::Filter(_, _, otherwise) => otherwise.is_some(),
        Part::Star(_, patterns, _) | Part::Feedback(_, patterns) => patterns.iter().any(|(_, guard)| *guard),
        _ => false,
    };
    if !run || net.part.any(&values) {
        return Ok("inferred");
    }
    run_net(&net, &text).map_err(|error| told(error, &text))
}

/// What leaves in the runtime for each set of labels that gets through without an end in sight.
fn run_net(net: &Net, text: &str) -> Result<&'static str, String> {
    let ends = |set: &u8| net.table.lines[*set as usize].as_ref().is_some_and(|line| !line.endless);
    for set in (0..SETS).filter(ends) {
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
    Ok("run")
}

fn normal_of(set: u8) -> String {
    normal(&record(set))
}

/// `run`: one in so many is run, too.
fn random_nets(from: u64, count: u64, run: u64) {
    let _watch = watch();
    let mut words = BTreeMap::new();
    for seed in from..from + count {
        match try_net(seed, seed % run == 0) {
            Ok(word) => *words.entry(word).or_insert(0_u64) += 1,
            Err(error) => panic!("after {} networks {words:?}: {error}", seed - from),
        }
    }
    assert!(
        count < 100 || words.values().all(|&of_it| of_it < count),
        "all networks are of one kind: {words:?}"
    );
}

#[test]
fn types_by_brute_force() {
    random_nets(0, 20_000, 10);
}

/// Networks that were once inferred otherwise.
#[test]
fn types_of_networks_that_differed() {
    for seed in [1_099_511_926_080, 1_099_512_004_724] {
        random_nets(seed, 1, 1);
    }
}

/// A million, behind `cargo xtask test --long`; `CASES` and `SEED` say how many and from which on.
#[test]
#[ignore = "takes minutes"]
fn types_of_a_million_networks() {
    let from_environment =
        |name, otherwise| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise);
    random_nets(from_environment("SEED", 1 << 40), from_environment("CASES", 1_000_000), 10);
}

//! Tests random trees of operators on random events of several processes against a brute-force model on
//! lists.

use std::collections::BTreeMap;
use std::path::Path;
use thalweg_chance::Chance;
use thalweg_scope::{
    Backlog, Batch, Every, Leaf, Making, Moment, Operator, Scope, Shape, Target, Tree, Tuple, TupleKind,
    Value, View,
};
use thalweg_space::kind::NameRef;
use thalweg_space::{Kind, Space, SpaceOptions, Writer};

#[derive(Clone, Copy, Kind)]
#[kind(name = "test.parcel")]
struct Parcel {
    number: u64,
    size: i32,
    label: NameRef,
}

#[derive(Clone, Copy, Kind)]
#[kind(name = "test.letter")]
struct Letter {
    number: u64,
    size: f64,
    label: NameRef,
    stamps: u16,
}

const LABELS: [&str; 4] = ["red", "green", "blue", ""];
const PROCESSES: usize = 3;
const WRITERS: usize = 2;

/// A value of the model.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Of {
    Number(f64),
    Text(String),
}

impl Of {
    fn number(&self) -> f64 {
        match self {
            Of::Number(number) => *number,
            Of::Text(text) => panic!("{text} is no number"),
        }
    }
}

/// A tuple of the model: its kind and its fields.
type Row = (String, BTreeMap<String, Of>);

fn field<'r>(row: &'r Row, name: &str) -> &'r Of {
    row.1.get(name).unwrap_or_else(|| panic!("{name} of {row:?}"))
}

/// An operator of the model, which works on lists.
#[derive(Debug)]
enum Model {
    /// Events of these kinds.
    Leaf(Vec<&'static str>, Option<usize>),
    Gather(Vec<Model>),
    /// Keeps the tuples with a number above `bound` in this field; if `is_not`, all others instead.
    Above {
        below: Box<Model>,
        field: &'static str,
        bound: f64,
        is_not: bool,
    },
    Called {
        below: Box<Model>,
        label: &'static str,
    },
    Convert {
        below: Box<Model>,
        to: String,
        times: f64,
        add: f64,
        is_counted: bool,
    },
    /// The tuples with the largest numbers.
    Top {
        below: Box<Model>,
        count: usize,
    },
    Reduce {
        below: Box<Model>,
        by: Vec<&'static str>,
        of: &'static str,
        is_all: bool,
        before: Vec<Row>,
    },
    /// Returns every tuple twice, in reverse order.
    Twice(Box<Model>),
}

impl Model {
    fn pull(&mut self, events: &[(usize, Row)]) -> Vec<Row> {
        match self {
            Model::Leaf(kinds, process) => {
                let is_wanted = |(of, row): &&(usize, Row)| {
                    kinds.contains(&row.0.as_str()) && process.is_none_or(|wanted| wanted == *of)
                };
                events.iter().filter(is_wanted).map(|(_, row)| row.clone()).collect()
            }
            Model::Gather(below) => below.iter_mut().flat_map(|model| model.pull(events)).collect(),
            Model::Above { below, field: name, bound, is_not } => {
                let stays = |row: &Row| (field(row, name).number() > *bound) != *is_not;
                below.pull(events).into_iter().filter(stays).collect()
            }
            Model::Called { below, label } => {
                let stays = |row: &Row| *field(row, "label") == Of::Text((*label).to_owned());
                below.pull(events).into_iter().filter(stays).collect()
            }
            Model::Convert { below, to, times, add, is_counted } => {
                let convert = |row: Row| {
                    let number = |name: &str| Of::Number(field(&row, name).number() * *times + *add);
                    let mut fields = BTreeMap::new();
                    if *is_counted {
                        fields.insert("count".to_owned(), number("count"));
                        fields.insert("sum".to_owned(), field(&row, "sum").clone());
                    } else {
                        fields.insert("size".to_owned(), number("size"));
                        for name in ["number", "label"] {
                            fields.insert(name.to_owned(), field(&row, name).clone());
                        }
                    }
                    (to.clone(), fields)
                };
                below.pull(events).into_iter().map(convert).collect()
            }
            Model::Top { below, count } => {
                let mut rows = below.pull(events);
                rows.sort_by(|a, b| field(b, "number").number().total_cmp(&field(a, "number").number()));
                rows.truncate(*count);
                rows
            }
            Model::Reduce { below, by, of, is_all, before } => {
                let mut rows = below.pull(events);
                if *is_all {
                    before.append(&mut rows);
                    rows.clone_from(before);
                }
                reduced(&rows, by, of)
            }
            Model::Twice(below) => {
                let rows = below.pull(events);
                rows.iter().chain(&rows).cloned().collect()
            }
        }
    }
}

fn reduced(rows: &[Row], by: &[&str], of: &str) -> Vec<Row> {
    let mut groups: BTreeMap<String, (Vec<Of>, f64, f64)> = BTreeMap::new();
    for row in rows {
        let key: Vec<Of> = by.iter().map(|name| field(row, name).clone()).collect();
        let (_, count, sum) = groups.entry(format!("{key:?}")).or_insert((key, 0.0, 0.0));
        (*count, *sum) = (*count + 1.0, *sum + field(row, of).number());
    }
    let row = |(key, count, sum): (Vec<Of>, f64, f64)| {
        let mut fields: BTreeMap<String, Of> = by.iter().map(|name| (*name).to_owned()).zip(key).collect();
        fields.insert("count".to_owned(), Of::Number(count));
        fields.insert("sum".to_owned(), Of::Number(sum));
        ("scope.reduced".to_owned(), fields)
    };
    groups.into_values().map(row).collect()
}

/// Passes on every tuple twice, in reverse order.
struct Twice;

impl Operator for Twice {
    fn makes(&self, _: &[TupleKind]) -> Vec<TupleKind> {
        Vec::new()
    }

    fn hands_on(&self) -> bool {
        true
    }

    fn apply(&mut self, batch: &Batch, _: &Moment, out: &mut Making<'_>) {
        for tuple in batch.tuples().rev().chain(batch.tuples()) {
            out.copy(batch, &tuple);
        }
    }
}

/// A random tree and its model, and whether its tuples were reduced and still have their label.
struct Grown {
    tree: Tree,
    model: Model,
    is_reduced: bool,
    has_label: bool,
    /// Whether each number occurs once among its tuples.
    is_unique: bool,
}

fn leaf(chance: &mut Chance) -> Grown {
    let kinds = match chance.below(4) {
        0 => vec!["test.parcel"],
        1 => vec!["test.letter"],
        _ => vec!["test.parcel", "test.letter"],
    };
    let process = chance.one_in(4).then(|| chance.below(PROCESSES as u64) as usize);
    let mut leaf = Leaf::of_kinds(kinds.clone());
    if let Some(process) = process {
        leaf = leaf.process(&format!("process{process}"));
    }
    let model = Model::Leaf(kinds, process);
    Grown { tree: Tree::leaf(leaf), model, is_reduced: false, has_label: true, is_unique: true }
}

fn grow(chance: &mut Chance, depth: usize, number: &mut usize) -> Grown {
    if depth == 0 {
        return leaf(chance);
    }
    *number += 1;
    if chance.one_in(5) {
        let mut parts: Vec<Grown> =
            (0..chance.between(1, 4)).map(|_| grow(chance, depth - 1, number)).collect();
        let first = parts[0].is_reduced;
        parts.retain(|part| part.is_reduced == first);
        let has_label = parts.iter().all(|part| part.has_label);
        let is_unique = parts.len() == 1 && parts[0].is_unique;
        let (trees, models): (Vec<Tree>, Vec<Model>) =
            parts.into_iter().map(|part| (part.tree, part.model)).unzip();
        let (tree, model) = (Tree::gather(trees), Model::Gather(models));
        return Grown { tree, model, is_reduced: first, has_label, is_unique };
    }
    let Grown { tree, model, is_reduced, has_label, is_unique } = grow(chance, depth - 1, number);
    let below = Box::new(model);
    let same = |tree: Tree, model: Model| Grown { tree, model, is_reduced, has_label, is_unique };
    match chance.below(6) {
        0 => {
            let (field, bound) =
                if is_reduced { ("count", chance.below(6)) } else { ("size", chance.below(40)) };
            let (bound, is_not) = (bound as f64, chance.one_in(3));
            let text = format!("{field} > {bound}");
            let text = if is_not { format!("not ({text})") } else { text };
            same(tree.filter(&text), Model::Above { below, field, bound, is_not })
        }
        1 if has_label => {
            let label = chance.of(&LABELS);
            same(tree.filter(&format!("label == \"{label}\"")), Model::Called { below, label })
        }
        2 => {
            let (to, times, add) =
                (format!("test.made{number}"), 1.0 + chance.below(3) as f64, chance.below(9) as f64);
            let changed = |name: &str| format!("{times} * {name} + {add}");
            let (count, size) = (changed("count"), changed("size"));
            let fields = match is_reduced {
                true => vec![("count", count.as_str(), ""), ("sum", "sum", "")],
                false => vec![("size", size.as_str(), ""), ("number", "number", ""), ("label", "label", "")],
            };
            let tree = tree.convert(&to, fields);
            let model = Model::Convert { below, to, times, add, is_counted: is_reduced };
            Grown { tree, model, is_reduced, has_label: has_label && !is_reduced, is_unique }
        }
        3 if !is_reduced && is_unique => {
            let count = chance.below(30) as usize;
            same(tree.top("number", count), Model::Top { below, count })
        }
        4 => Grown {
            tree: tree.own(|| Twice),
            model: Model::Twice(below),
            is_reduced,
            has_label,
            is_unique: false,
        },
        _ => {
            let by = if has_label && chance.one_in(2) { vec!["label"] } else { Vec::new() };
            let of = if is_reduced { "count" } else { "size" };
            let is_all = chance.one_in(3);
            let every = if is_all { Every::All } else { Every::Pull };
            let sum = format!("sum {of}");
            let tree =
                tree.reduce_every(every, by.iter().copied(), [("count", "count"), ("sum", sum.as_str())]);
            let has_label = !by.is_empty();
            let model = Model::Reduce { below, by, of, is_all, before: Vec::new() };
            Grown { tree, model, is_reduced: true, has_label, is_unique: false }
        }
    }
}

struct World {
    spaces: Vec<(Space, Vec<Writer>, Vec<NameRef>)>,
    number: u64,
}

impl World {
    fn new(session: &Path) -> World {
        let space = |process: usize| {
            let name = format!("process{process}");
            let options = SpaceOptions { session: Some(session.to_path_buf()), name, ..Default::default() };
            let space = Space::create(options).unwrap();
            let labels =
                LABELS.map(|label| if label.is_empty() { NameRef::NONE } else { space.name(label).unwrap() });
            let writers = (0..WRITERS).map(|n| space.writer(&format!("writer {n}")).unwrap()).collect();
            (space, writers, labels.to_vec())
        };
        World { spaces: (0..PROCESSES).map(space).collect(), number: 0 }
    }

    /// Writes an event; returns its process, and the event in the form of the model.
    fn write(&mut self, chance: &mut Chance) -> (usize, Row) {
        let process = chance.below(PROCESSES as u64) as usize;
        let (_, writers, labels) = &mut self.spaces[process];
        let writer = &mut writers[chance.below(WRITERS as u64) as usize];
        let (size, label) = (chance.below(50), chance.below(LABELS.len() as u64) as usize);
        let number = self.number;
        self.number += 1;
        let mut fields = BTreeMap::from([
            ("number".to_owned(), Of::Number(number as f64)),
            ("size".to_owned(), Of::Number(size as f64)),
            ("label".to_owned(), Of::Text(LABELS[label].to_owned())),
        ]);
        let name = if chance.one_in(2) {
            let kind = writer.declare::<Parcel>().unwrap();
            writer.emit(kind, &Parcel { number, size: size as i32, label: labels[label] });
            "test.parcel"
        } else {
            let kind = writer.declare::<Letter>().unwrap();
            let stamps = chance.below(5) as u16;
            writer.emit(kind, &Letter { number, size: size as f64, label: labels[label], stamps });
            fields.insert("stamps".to_owned(), Of::Number(f64::from(stamps)));
            "test.letter"
        };
        (process, (name.to_owned(), fields))
    }
}

/// Converts a tuple to the form of the model.
fn row(tuple: &Tuple<'_>) -> Row {
    let kind = tuple.kind();
    let fields = kind.fields.iter().enumerate().map(|(n, field)| {
        let value = match tuple.value(n).unwrap() {
            Value::Text(text) => Of::Text(text.to_owned()),
            value => Of::Number(value.number().unwrap_or(f64::NAN)),
        };
        (field.name.clone(), value)
    });
    (kind.name.clone(), fields.collect())
}

fn sorted(rows: impl IntoIterator<Item = Row>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    rows
}

fn shape(chance: &mut Chance) -> Shape {
    Shape {
        fan_out: chance.between(1, 5) as usize,
        depth: chance.between(1, 4) as usize,
        threads: chance.between(1, 4) as usize,
        batch: chance.of(&[64, 65, 4096]),
        ..Shape::default()
    }
}

#[test]
fn random_trees_of_operators_agree_with_lists() {
    let (mut tuples, mut operators) = (0, 0);
    for seed in 0..150 {
        let mut chance = Chance::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("session");
        let mut world = World::new(&session);
        let depth = chance.between(1, 7) as usize;
        let mut grown = grow(&mut chance, depth, &mut operators);
        let view = View::new("random", "What do lists say?", grown.tree.clone())
            .unwrap_or_else(|problem| panic!("seed {seed}: {problem} in {:?}", grown.tree));
        let mut scope = Scope::open(&view, Target::of(&session), Backlog::All).unwrap();
        for pull in 0..chance.between(1, 6) {
            let events: Vec<(usize, Row)> =
                (0..chance.below(200)).map(|_| world.write(&mut chance)).collect();
            if chance.one_in(2) {
                scope.reshape(shape(&mut chance));
            }
            let pulled = scope.pull();
            assert!(pulled.problems.is_empty(), "seed {seed}: {:?}", pulled.problems);
            assert_eq!((pulled.lost, pulled.left_out), (0, 0), "seed {seed}");
            tuples += pulled.batch.len();
            let found = sorted(pulled.batch.tuples().map(|tuple| row(&tuple)));
            let expected = sorted(grown.model.pull(&events));
            assert_eq!(found, expected, "seed {seed}, pull {pull} of {:?}", grown.tree);
        }
    }
    assert!(tuples > 5000 && operators > 300, "{tuples} tuples, {operators} operators");
}

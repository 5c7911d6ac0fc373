//! Tests views against brute force on random spaces and random trees of operators, for any shape and any
//! division into pulls.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use thalweg_scope::{Backlog, Every, Leaf, Pulled, Scope, Shape, Target, Tree, Tuple, Value, View};
use thalweg_space::kind::NameRef;
use thalweg_space::{Kind, Space, SpaceOptions, Writer};

#[derive(Clone, Copy, Kind)]
#[kind(name = "test.sized")]
struct Parcel {
    size: u32,
    #[field(unit = "ms")]
    delay: u64,
    label: NameRef,
}

#[derive(Clone, Copy, Kind)]
#[kind(name = "test.measured")]
struct Measured {
    value: f64,
    size: i64,
    label: NameRef,
}

const LABELS: [&str; 3] = ["red", "green", "blue"];

/// An event of the model.
#[derive(Clone, Debug)]
struct Event {
    process: usize,
    writer: usize,
    is_measured: bool,
    size: i64,
    other: u64,
    label: usize,
}

impl Event {
    fn kind(&self) -> &'static str {
        if self.is_measured { "test.measured" } else { "test.sized" }
    }

    /// The value of a name as a number; `None` if the kind has no such field.
    fn number(&self, name: &str) -> Option<f64> {
        match name {
            "size" => Some(self.size as f64),
            "value" if self.is_measured => Some(self.other as f64 / 4.0),
            // Converted to nanoseconds, in which expressions compute.
            "delay" if !self.is_measured => Some(self.other as f64 * 1e6),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> String {
        match name {
            "label" => LABELS[self.label].to_owned(),
            "event.kind" => self.kind().to_owned(),
            "element.name" => format!("writer {}", self.writer),
            "process.name" => format!("process{}", self.process),
            other => panic!("{other}"),
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let parts = (0..3_usize, 0..3_usize, any::<bool>(), 0..50_i64, 0..100_u64, 0..3_usize);
    parts.prop_map(|(process, writer, is_measured, size, other, label)| Event {
        process,
        writer,
        is_measured,
        size,
        other,
        label,
    })
}

/// A condition, which the model evaluates by itself.
#[derive(Clone, Debug)]
enum Condition {
    Above(&'static str, i64),
    Called(usize),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

impl Condition {
    fn text(&self) -> String {
        match self {
            Condition::Above("delay", bound) => format!("delay > {bound} ms"),
            Condition::Above(name, bound) => format!("{name} > {bound}"),
            Condition::Called(label) => format!("label == \"{}\"", LABELS[*label]),
            Condition::Both(a, b) => format!("({} and {})", a.text(), b.text()),
            Condition::Either(a, b) => format!("({} or {})", a.text(), b.text()),
            Condition::Not(a) => format!("not ({})", a.text()),
        }
    }

    fn holds(&self, event: &Event) -> bool {
        match self {
            // An unknown value fulfils no comparison.
            Condition::Above(name @ "delay", bound) => {
                event.number(name).is_some_and(|n| n > *bound as f64 * 1e6)
            }
            Condition::Above(name, bound) => event.number(name).is_some_and(|n| n > *bound as f64),
            Condition::Called(label) => event.label == *label,
            Condition::Both(a, b) => a.holds(event) && b.holds(event),
            Condition::Either(a, b) => a.holds(event) || b.holds(event),
            Condition::Not(a) => !a.holds(event),
        }
    }
}

fn condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        (prop::sample::select(vec!["size", "value", "delay"]), 0..60_i64)
            .prop_map(|(n, b)| Condition::Above(n, b)),
        (0..3_usize).prop_map(Condition::Called),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            pair.clone().prop_map(|(a, b)| Condition::Both(a.into(), b.into())),
            pair.prop_map(|(a, b)| Condition::Either(a.into(), b.into())),
            inner.prop_map(|a| Condition::Not(a.into())),
        ]
    })
}

const BY: [&str; 4] = ["label", "event.kind", "element.name", "process.name"];
const OF: [&str; 3] = ["size", "value", "delay"];

#[derive(Clone, Debug)]
struct Case {
    events: Vec<Event>,
    /// The number of events before each pull.
    pulls: Vec<usize>,
    shapes: Vec<Shape>,
    conditions: Vec<Condition>,
    /// Whether two leaves, each of one kind, are gathered.
    is_gathered: bool,
    /// The fields to group by, and the aggregated field.
    reduce: Option<(Vec<&'static str>, &'static str, bool)>,
    top: Option<usize>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let parts = (1..5_usize, 1..4_usize, 1..4_usize, prop::sample::select(vec![64_usize, 65, 4096]));
    parts.prop_map(|(fan_out, depth, threads, batch)| Shape {
        fan_out,
        depth,
        threads,
        batch,
        ..Shape::default()
    })
}

fn case() -> impl Strategy<Value = Case> {
    let by = prop::sample::subsequence(BY.to_vec(), 0..=3);
    let reduce = prop::option::of((by, prop::sample::select(OF.to_vec()), any::<bool>()));
    let parts = (
        prop::collection::vec(event(), 0..400),
        prop::collection::vec(0..200_usize, 1..5),
        prop::collection::vec(shape(), 1..4),
        prop::collection::vec(condition(), 0..3),
        any::<bool>(),
        reduce,
        prop::option::of(0..20_usize),
    );
    parts.prop_map(|(events, pulls, shapes, conditions, is_gathered, reduce, top)| Case {
        events,
        pulls,
        shapes,
        conditions,
        is_gathered,
        reduce,
        top,
    })
}

impl Case {
    fn view(&self) -> View {
        let mut tree = match self.is_gathered {
            false => Tree::leaf(Leaf::of_kinds(["test.*"])),
            true => {
                Tree::gather(["test.sized", "test.measured"].map(|kind| Tree::leaf(Leaf::of_kinds([kind]))))
            }
        };
        for condition in &self.conditions {
            tree = tree.filter(&condition.text());
        }
        if let Some((by, of, is_all)) = &self.reduce {
            let of = |how: &str| format!("{how} {of}");
            let values = ["sum", "min", "max", "mean", "p50"].map(|how| (how.to_owned(), of(how)));
            let every = if *is_all { Every::All } else { Every::Pull };
            let values = values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            tree =
                tree.reduce_every(every, by.iter().copied(), [("count", "count")].into_iter().chain(values));
        }
        if let Some(count) = self.top {
            tree = tree.top(if self.reduce.is_some() { "count" } else { "size" }, count);
        }
        View::new("random", "What does brute force say?", tree).unwrap()
    }

    /// The expected result of a pull of these events, as texts; groups have no order.
    fn expected(&self, events: &[&Event], all: &[&Event]) -> Vec<String> {
        let passing = |events: &[&Event]| -> Vec<Event> {
            let holds = |event: &&&Event| self.conditions.iter().all(|condition| condition.holds(event));
            events.iter().filter(holds).map(|event| (**event).clone()).collect()
        };
        let Some((by, of, is_all)) = &self.reduce else {
            let mut passing = passing(events);
            if let Some(count) = self.top {
                passing.sort_by_key(|event| -event.size);
                passing.truncate(count);
            }
            return passing.iter().map(text_of).collect();
        };
        let mut groups: BTreeMap<Vec<String>, Vec<Event>> = BTreeMap::new();
        for event in passing(if *is_all { all } else { events }) {
            groups.entry(by.iter().map(|name| event.text(name)).collect()).or_default().push(event);
        }
        let mut rows: Vec<(usize, String)> =
            groups.into_iter().map(|(key, group)| (group.len(), reduced(key, of, &group))).collect();
        if let Some(count) = self.top {
            rows.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
            // Among equal counts, any group may be kept.
            let least = count.checked_sub(1).and_then(|last| rows.get(last)).map_or(0, |(count, _)| *count);
            return rows
                .iter()
                .take(count)
                .filter(|(count, _)| *count > least)
                .map(|(_, row)| row.clone())
                .collect();
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn found(&self, pulled: &Pulled) -> Vec<String> {
        let tuples: Vec<Tuple<'_>> = pulled.batch.tuples().collect();
        if self.reduce.is_none() {
            return tuples.iter().map(|tuple| text_of(&model(tuple))).collect();
        }
        let count = |tuple: &Tuple<'_>| tuple.field("count").and_then(|count| count.number()).unwrap();
        let least = match self.top {
            Some(top) if top > 0 && tuples.len() == top => count(&tuples[top - 1]),
            _ => 0.0,
        };
        let is_certain = |tuple: &&Tuple<'_>| self.top.is_none() || count(tuple) > least || least == 0.0;
        let mut rows: Vec<String> = tuples.iter().filter(is_certain).map(row).collect();
        rows.sort();
        rows
    }
}

fn text_of(event: &Event) -> String {
    format!("{event:?}")
}

/// Converts a tuple to an event of the model.
fn model(tuple: &Tuple<'_>) -> Event {
    let number = |name: &str| tuple.field(name).and_then(|value| value.number());
    let text = |name: &str| match tuple.field(name) {
        Some(Value::Text(text)) => text.to_owned(),
        other => panic!("{name}: {other:?}"),
    };
    let is_measured = tuple.kind().name == "test.measured";
    let digit = |text: &str| text.chars().last().unwrap().to_digit(10).unwrap() as usize;
    Event {
        process: digit(&tuple.process().unwrap().name),
        writer: digit(&tuple.element().unwrap().name),
        is_measured,
        size: number("size").unwrap() as i64,
        other: if is_measured {
            (4.0 * number("value").unwrap()) as u64
        } else {
            number("delay").unwrap() as u64
        },
        label: LABELS.iter().position(|label| *label == text("label")).unwrap(),
    }
}

/// The row of a group by brute force, without the median, which is only approximate.
fn reduced(key: Vec<String>, of: &str, group: &[Event]) -> String {
    let mut values: Vec<f64> = group.iter().filter_map(|event| event.number(of)).collect();
    values.sort_by(f64::total_cmp);
    // An empty sum would be -0.
    let sum = values.iter().fold(0.0, |sum, value| sum + value);
    let or_unknown = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let (min, max) = (or_unknown(values.first().copied()), or_unknown(values.last().copied()));
    let mean = sum / values.len() as f64;
    format!("{key:?} {} {sum} {min} {max} {mean}", group.len())
}

fn row(tuple: &Tuple<'_>) -> String {
    let fields = &tuple.kind().fields;
    let by = fields.iter().take_while(|field| field.name != "count").count();
    let key: Vec<String> = (0..by)
        .map(|n| match tuple.value(n) {
            Some(Value::Text(text)) => text.to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    let real = |name: &str| tuple.field(name).and_then(|value| value.number()).unwrap_or(f64::NAN);
    let count = real("count") as u64;
    let (sum, min, max, mean) = (real("sum"), real("min"), real("max"), real("mean"));
    let median = real("p50");
    assert!(median.is_nan() && min.is_nan() || median >= min * 0.989 - 1e-9 && median <= max * 1.011 + 1e-9);
    format!("{key:?} {count} {sum} {min} {max} {mean}")
}

/// The processes' writers, and the names of labels.
struct World {
    spaces: Vec<(Space, Vec<Writer>, [NameRef; 3])>,
}

impl World {
    fn new(session: &Path) -> World {
        let space = |process: usize| {
            let name = format!("process{process}");
            let options = SpaceOptions { session: Some(session.to_path_buf()), name, ..Default::default() };
            let space = Space::create(options).unwrap();
            // Unused names make the ids of names differ between processes.
            (0..process).for_each(|n| assert!(space.name(&format!("unused {n}")).is_ok()));
            let labels = LABELS.map(|label| space.name(label).unwrap());
            let writers = (0..3).map(|n| space.writer(&format!("writer {n}")).unwrap()).collect();
            (space, writers, labels)
        };
        World { spaces: (0..3).map(space).collect() }
    }

    fn write(&mut self, event: &Event) {
        let (_, writers, labels) = &mut self.spaces[event.process];
        let (writer, label) = (&mut writers[event.writer], labels[event.label]);
        if event.is_measured {
            let measured = writer.declare::<Measured>().unwrap();
            writer.emit(measured, &Measured { value: event.other as f64 / 4.0, size: event.size, label });
        } else {
            let sized = writer.declare::<Parcel>().unwrap();
            writer.emit(sized, &Parcel { size: event.size as u32, delay: event.other, label });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_agree_with_brute_force(case in case()) {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("session");
        let mut world = World::new(&session);
        let mut scope = Scope::open(&case.view(), Target::of(&session), Backlog::All).unwrap();
        let mut from = 0;
        let pulls = case.pulls.iter().map(|count| Some(*count)).chain([None]);
        for (n, count) in pulls.enumerate() {
            let to = count.map_or(case.events.len(), |count| (from + count).min(case.events.len()));
            case.events[from..to].iter().for_each(|event| world.write(event));
            scope.reshape(case.shapes[n % case.shapes.len()]);
            let pulled = scope.pull();
            let (events, all): (Vec<&Event>, Vec<&Event>) =
                (case.events[from..to].iter().collect(), case.events[..to].iter().collect());
            let mut expected = case.expected(&events, &all);
            if case.reduce.is_some() {
                expected.sort();
            }
            prop_assert!(pulled.problems.is_empty(), "{:?}", pulled.problems);
            prop_assert_eq!((pulled.lost, pulled.left_out, pulled.late), (0, 0, 0));
            prop_assert_eq!(case.found(&pulled), expected, "pull {} of {:?}", n, case.view().tree);
            from = to;
        }
    }
}

#[test]
fn windows_are_handed_over_once_when_they_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(folder.path().into()), ..Default::default() }).unwrap();
    let mut writer = space.writer("writer").unwrap();
    let sized = writer.declare::<Parcel>().unwrap();
    let clock = *space.clock();
    // Ten windows of a millisecond, ten seconds ago, seven events in each.
    let ago_ns = 10_000_000_000;
    let start = clock.real_ns(clock.now()) - ago_ns;
    let start = start - start % 1_000_000;
    for event in 0..70_u64 {
        let ns = start + event / 7 * 1_000_000 + event % 7 * 1000 + 500;
        let ticks = clock.anchor().ticks.wrapping_sub(clock.ns_to_ticks(clock.anchor().real_ns - ns));
        writer.emit_at(ticks, sized, &Parcel { size: event as u32, delay: 0, label: NameRef::NONE });
    }
    let tree = Tree::leaf(Leaf::of_kinds(["test.sized"]));
    let tree = tree.reduce_every(
        Every::Window(1_000_000),
        [],
        [("count", "count"), ("rate", "rate"), ("sum", "sum size")],
    );
    let view = View::new("windows", "How many are there in a millisecond?", tree).unwrap();
    let mut scope = Scope::open(&view, Target::of(space.path()), Backlog::All).unwrap();
    let pulled = scope.pull();
    let rows: Vec<_> = pulled
        .batch
        .tuples()
        .map(|tuple| {
            let number = |name: &str| tuple.field(name).unwrap().number().unwrap();
            (tuple.head().time_ns, number("count"), number("rate"), number("sum"))
        })
        .collect();
    let expected: Vec<_> = (0..10_u64)
        .map(|n| {
            let sum: u64 = (7 * n..7 * n + 7).sum();
            (start + (n + 1) * 1_000_000, 7.0, 7000.0, sum as f64)
        })
        .collect();
    assert_eq!(rows, expected);
    assert!(scope.pull().batch.is_empty());
}

#[test]
fn kinds_that_nobody_knows_before_have_their_types_and_units() {
    let folder = tempfile::tempdir().unwrap();
    let space =
        Space::create(SpaceOptions { parent: Some(folder.path().into()), ..Default::default() }).unwrap();
    let mut writer = space.writer("writer").unwrap();
    let sized = writer.declare::<Parcel>().unwrap();
    (0..6)
        .for_each(|n| writer.emit(sized, &Parcel { size: n % 2, delay: u64::from(n), label: NameRef::NONE }));
    let tree = Tree::leaf(Leaf::of_kinds(["test.sized"])).reduce(["size"], [("longest", "max delay")]);
    let view = View::new("unknown", "What are the units?", tree).unwrap();
    let mut scope = Scope::open(&view, Target::of(space.path()), Backlog::All).unwrap();
    let pulled = scope.pull();
    let kind = pulled.batch.tuples().next().unwrap().kind().clone();
    assert_eq!((kind.fields[0].of.name(), kind.fields[1].unit.as_str()), ("number", "ns"));
    let rows: Vec<_> =
        pulled.batch.tuples().map(|tuple| (tuple.value(0).unwrap(), tuple.value(1).unwrap())).collect();
    assert_eq!(rows, [(Value::Unsigned(0), Value::Real(4e6)), (Value::Unsigned(1), Value::Real(5e6))]);
}

/// A space of this process with a writer that writes sizes.
struct Alone {
    _folder: tempfile::TempDir,
    space: Space,
    writer: Writer,
}

impl Alone {
    fn new() -> Alone {
        let folder = tempfile::tempdir().unwrap();
        let space =
            Space::create(SpaceOptions { parent: Some(folder.path().into()), ..Default::default() }).unwrap();
        let writer = space.writer("writer").unwrap();
        Alone { _folder: folder, space, writer }
    }

    fn write(&mut self, sizes: std::ops::Range<u32>) {
        let sized = self.writer.declare::<Parcel>().unwrap();
        sizes.for_each(|size| self.writer.emit(sized, &Parcel { size, delay: 0, label: NameRef::NONE }));
    }

    fn scope(&self, tree: Tree) -> Scope {
        let view = View::new("alone", "What is there?", tree).unwrap();
        Scope::open(&view, Target::of(self.space.path()), Backlog::All).unwrap()
    }
}

#[test]
fn what_a_limit_leaves_out_stands_in_a_gap() {
    let mut alone = Alone::new();
    alone.write(0..25);
    let mut scope = alone.scope(Tree::leaf(Leaf::of_kinds(["test.sized"])).limit(10.0));
    let pulled = scope.pull();
    assert_eq!((pulled.batch.len(), pulled.lost), (11, 15));
    let last = pulled.batch.tuples().next_back().unwrap();
    assert_eq!((last.lost(), last.field("from")), (Some(15), Some(Value::Unsigned(10))));
}

/// Passes on the largest tuple, and makes one with the number of tuples.
struct Largest;

impl thalweg_scope::Operator for Largest {
    fn makes(&self, _: &[thalweg_scope::TupleKind]) -> Vec<thalweg_scope::TupleKind> {
        let field = |name: &str, of| thalweg_scope::Field {
            name: name.into(),
            of,
            unit: String::new(),
            doc: String::new(),
        };
        let fields =
            vec![field("count", thalweg_scope::Of::Unsigned), field("about", thalweg_scope::Of::Text)];
        let made = thalweg_scope::TupleKind { name: "test.made".into(), doc: String::new(), fields };
        vec![made]
    }

    fn hands_on(&self) -> bool {
        true
    }

    fn apply(
        &mut self,
        batch: &thalweg_scope::Batch,
        moment: &thalweg_scope::Moment,
        out: &mut thalweg_scope::Making<'_>,
    ) {
        let size = |tuple: &Tuple<'_>| tuple.field("size").and_then(|size| size.number()).unwrap_or(-1.0);
        if let Some(largest) = batch.tuples().max_by(|a, b| size(a).total_cmp(&size(b))) {
            out.copy(batch, &largest);
        }
        out.gaps_of(batch);
        out.push(0, moment.now_ns, &[Value::Unsigned(batch.len() as u64), Value::Text("all")]);
    }
}

#[test]
fn an_operator_of_ones_own_stands_between_others() {
    let mut alone = Alone::new();
    alone.write(0..9);
    let tree = Tree::leaf(Leaf::of_kinds(["test.sized"]))
        .filter("size > 4")
        .own(|| Largest)
        .filter("size == 8 or count == 4");
    let mut scope = alone.scope(tree);
    let pulled = scope.pull();
    let shown: Vec<_> = pulled
        .batch
        .tuples()
        .map(|tuple| (tuple.kind().name.clone(), tuple.value(0), tuple.value(1)))
        .collect();
    assert_eq!(
        shown,
        [
            ("test.sized".to_owned(), Some(Value::Unsigned(8)), Some(Value::Unsigned(0))),
            ("test.made".to_owned(), Some(Value::Unsigned(4)), Some(Value::Text("all"))),
        ]
    );
}

#[test]
fn converted_fields_have_their_units() {
    let mut alone = Alone::new();
    let sized = alone.writer.declare::<Parcel>().unwrap();
    let label = alone.space.name("red").unwrap();
    alone.writer.emit(sized, &Parcel { size: 3, delay: 7, label });
    let fields = [
        ("label", "label", ""),
        ("twice", "2 * delay", "us"),
        ("from", "element.name", ""),
        ("size", "size", ""),
    ];
    let mut scope = alone.scope(Tree::leaf(Leaf::of_kinds(["test.sized"])).convert("test.converted", fields));
    let pulled = scope.pull();
    let tuple = pulled.batch.tuples().next().unwrap();
    assert_eq!(tuple.kind().name, "test.converted");
    assert_eq!(tuple.field("twice"), Some(Value::Real(14_000.0)));
    assert_eq!(tuple.field("size").and_then(|size| size.number()), Some(3.0));
}

/// A kind of live row for the test of changing counters.
#[derive(thalweg_space::Row)]
#[row(name = "test.worker")]
struct Work {
    done: u64,
}

#[test]
fn counters_grow_by_what_was_added_between_two_pulls() {
    let alone = Alone::new();
    let kind = alone.space.row_kind::<Work>().unwrap();
    let rows: Vec<_> = (0..3).map(|id| alone.space.live_row(kind, id).unwrap()).collect();
    let tree = Tree::leaf(Leaf::of_rows(["test.worker"]))
        .reduce([], [("rows", "count"), ("per s", "increase done")]);
    let mut scope = alone.scope(tree);
    let growth = |scope: &mut Scope| {
        let pulled = scope.pull_latest();
        let tuple = pulled.batch.tuples().next().unwrap();
        assert_eq!(tuple.field("rows"), Some(Value::Unsigned(3)));
        tuple.field("per s").and_then(|grown| grown.number())
    };
    rows.iter().for_each(|row| row.cell(0).store(1000, Relaxed));
    assert_eq!(growth(&mut scope), None, "nothing is known from one look");
    let begin = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_millis(20));
    rows.iter().for_each(|row| row.cell(0).store(2000, Relaxed));
    let grown = growth(&mut scope).unwrap();
    // The counter grew by 3000 between the looks, which were at least 20 ms and at most the whole elapsed
    // time apart.
    assert!(grown <= 3000.0 / 0.020 && grown >= 0.5 * 3000.0 / begin.elapsed().as_secs_f64(), "{grown}");
    assert!(growth(&mut scope).unwrap() == 0.0);
}

/// A dispatch as the runtime records it, with the fields that views read.
#[derive(Kind)]
#[kind(name = "exec.dispatch_base")]
struct Base {
    number: u32,
    task: u64,
}

#[derive(Kind)]
#[kind(name = "exec.dispatch")]
struct Dispatch {
    base_number: u32,
}

#[test]
fn dispatches_have_their_task_whatever_is_pulled_between() {
    let mut alone = Alone::new();
    let (base, dispatch) =
        (alone.writer.declare::<Base>().unwrap(), alone.writer.declare::<Dispatch>().unwrap());
    let mut scope = alone.scope(Tree::leaf(Leaf::of_kinds(["exec.dispatch"])));
    let mut tasks = |writer: &mut Writer, bases: &[(u32, u64)], dispatched: u32| {
        bases.iter().for_each(|(number, task)| writer.emit(base, &Base { number: *number, task: *task }));
        writer.emit(dispatch, &Dispatch { base_number: dispatched });
        // The latest event is a base of dispatches that belongs to another block.
        writer.emit(base, &Base { number: 0, task: 99 });
        drop(scope.pull_latest());
        let pulled = scope.pull_since();
        let task = |tuple: Tuple<'_>| tuple.field("task.id").and_then(|task| task.number());
        pulled.batch.tuples().map(task).collect::<Vec<_>>()
    };
    assert_eq!(tasks(&mut alone.writer, &[(0, 7), (1, 8)], 1), [Some(8.0)]);
    assert_eq!(tasks(&mut alone.writer, &[(1, 5)], 0), [Some(99.0)]);
    assert_eq!(tasks(&mut alone.writer, &[], 1), [Some(0.0)], "a base that was not recorded");
}

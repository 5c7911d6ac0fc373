//! A failed record leaves the network unchanged, whatever the component had done to it; and no value is lost
//! or freed twice.

#[path = "support/ends.rs"]
mod ends;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_box::{Array, Bytes, Opaque, Out, Text, Variant};
use thalweg_exec::{Options, Runtime};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::StartOptions;
use thalweg_net::{Boxes, Network, Value};

/// The ways in which a box fails, by the value of `<how>`; with other values it emits one record.
const WAYS: [&str; 10] = [
    "nothing wrong",
    "an error at once",
    "a panic",
    "emitted, then an error",
    "emitted twice, then a panic",
    "a variant that it has not",
    "too many values",
    "text for a tag",
    "a generator that fails later",
    "changed in place, then an error",
];
const CHANGED: usize = 9;

/// Counts live opaque values.
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.0.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Fails in the way `how`, with a value that the box has consumed and that it may emit.
fn fail<T: Into<Value> + Clone + Send + 'static>(taken: T, how: i64, out: &mut Out) -> Result<(), String> {
    match how as usize {
        0 => out.emit((taken, how)),
        1 | CHANGED => return Err("failed".to_owned()),
        2 => panic!("failed"),
        3 => {
            out.emit((taken, how + 100));
            return Err("failed".to_owned());
        }
        4 => {
            out.emit((taken.clone(), how + 100));
            out.emit((taken, how + 101));
            panic!("failed");
        }
        5 => out.emit_variant(7, (taken, how)),
        6 => out.emit((taken, how, 1_i64, 2_i64)),
        7 => out.emit((1_i64, "no number")),
        _ => {
            let items = [Ok(Variant(1, (taken, how + 100))), Err("failed".to_owned())];
            out.generate(items);
        }
    }
    Ok(())
}

fn boxes() -> Boxes {
    fn changes(how: i64) -> bool {
        how as usize == CHANGED
    }
    Boxes::new()
        .with("box int ((a, <how>) -> (a, <how>))", |a: i64, how: i64, out: &mut Out| fail(a + 1, how, out))
        .with("box float ((a, <how>) -> (a, <how>))", |a: f64, how: i64, out: &mut Out| {
            fail(a + 1.0, how, out)
        })
        .with("box text ((a, <how>) -> (a, <how>))", |mut a: Text, how: i64, out: &mut Out| {
            if changes(how) {
                a.make_mut().make_ascii_uppercase();
            }
            fail(a, how, out)
        })
        .with("box string ((a, <how>) -> (a, <how>))", |mut a: String, how: i64, out: &mut Out| {
            if changes(how) {
                a.push_str(" and more");
            }
            fail(a, how, out)
        })
        .with("box bytes ((a, <how>) -> (a, <how>))", |mut a: Bytes, how: i64, out: &mut Out| {
            if changes(how) {
                a.make_mut().fill(0);
            }
            fail(a, how, out)
        })
        .with("box vector ((a, <how>) -> (a, <how>))", |mut a: Vec<u8>, how: i64, out: &mut Out| {
            if changes(how) {
                a.clear();
            }
            fail(a, how, out)
        })
        .with("box array ((a, <how>) -> (a, <how>))", |mut a: Array, how: i64, out: &mut Out| {
            if changes(how) {
                a.make_mut::<i64>().expect("integers").fill(0);
            }
            fail(a, how, out)
        })
        .with("box any ((a, <how>) -> (a, <how>))", |a: Value, how: i64, out: &mut Out| fail(a, how, out))
        // The arguments of this box are not adjacent in the record, and it has two variants.
        .with("box apart ((a, z, <how>) -> (a, <how>) | (b))", |a: Value, _: i64, how: i64, out: &mut Out| {
            fail(a, how, out)
        })
        .with("box later ((<how>, a, s) -> (a, <how>))", |how: i64, a: Value, _: Text, out: &mut Out| {
            fail(a, how, out)
        })
}

/// A value of each kind; each call makes new ones.
fn values() -> Vec<(&'static [&'static str], Value)> {
    vec![
        (&["int", "any", "apart"], Value::Int(41)),
        (&["float", "any", "apart"], Value::Float(0.5)),
        (&["text", "string", "any", "apart"], Value::from("a text that a box takes")),
        (&["bytes", "vector", "any", "apart"], Value::from(vec![1_u8, 2, 255])),
        (&["array", "any", "apart"], Value::Array(Array::from_slice(&[1_i64, 2, 3]))),
    ]
}

fn record(value: Value, how: usize, number: i64) -> Record {
    Record::from_pairs([
        (Label::field("a"), value),
        (Label::field("k"), Value::from("not taken")),
        (Label::field("z"), Value::Int(7)),
        (Label::tag("how"), Value::Int(how as i64)),
        (Label::tag("number"), Value::Int(number)),
    ])
}

/// Runs the records through the network; returns the output and the failed records.
fn run(net: &str, records: Vec<Record>, exact: bool, options: Options) -> (Vec<Record>, Vec<Record>) {
    let network = Network::parse("main", net, &boxes()).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(|error| error.render(false)).collect::<String>());
    });
    let runtime = Runtime::new(options).unwrap();
    let limits = StartOptions { exact_failures: exact, ..StartOptions::default() };
    let running = network.start_with(&runtime, limits).unwrap();
    let (input, output) = ends::channels(&runtime, running.input, running.output);
    records.into_iter().for_each(|record| input.send(record).unwrap());
    drop(input);
    let summary = runtime.join().unwrap();
    assert_eq!(summary.failures, []);
    let mut failed: Vec<Record> = running.errors.iter().map(|error| error.record).collect();
    let number = |record: &Record| match record.get(Label::tag("number")) {
        Some(&Value::Int(number)) => number,
        other => panic!("{other:?}"),
    };
    failed.sort_by_key(number);
    (output.iter().collect(), failed)
}

/// A net that consists of one of these boxes.
fn net_of(name: &str) -> String {
    let signature = match name {
        "apart" => "(a, z, <how>) -> (a, <how>) | (b)",
        "later" => "(<how>, a, s) -> (a, <how>)",
        _ => "(a, <how>) -> (a, <how>)",
    };
    format!("net main {{ box {name} ({signature}); }} connect {name};")
}

fn options(threads: bool) -> Options {
    Options { workers: 1, thread_per_task: threads, ..Options::default() }
}

/// Sends records with every kind of value that fail in every way, between others that succeed, through
/// `box_name`.
fn check(box_name: &str, threads: bool) {
    let net = net_of(box_name);
    let chosen =
        || values().into_iter().filter(|(boxes, _)| boxes.contains(&box_name)).map(|(_, value)| value);
    let kinds = chosen().count();
    for (how, way) in WAYS.iter().enumerate().skip(1) {
        let context = format!("{box_name}, {way}, threads: {threads}");
        // Three records are sent at once, so that the second one is in the middle of a batch.
        let made = || {
            (0..3 * kinds)
                .map(|n| record(chosen().nth(n / 3).unwrap(), if n % 3 == 1 { how } else { 0 }, n as i64))
        };
        let (out, failed) = run(&net, made().collect(), true, options(threads));
        let wanted: Vec<Record> =
            made().filter(|r| r.get(Label::tag("how")) != Some(&Value::Int(0))).collect();
        assert_eq!(failed, wanted, "{context}");
        let whole = out.iter().filter(|r| r.get(Label::tag("how")) == Some(&Value::Int(0))).count();
        assert_eq!(whole, 2 * kinds, "{context}: {out:?}");
    }
}

#[test]
fn what_a_box_took_is_in_the_letter() {
    for name in ["int", "float", "text", "string", "bytes", "vector", "array", "any", "apart"] {
        check(name, false);
        check(name, true);
    }
}

/// Without `exact_failures` a box changes values in place, and the dead letter says which values were
/// changed; all other values are unchanged.
#[test]
fn what_was_changed_in_place_is_not_told_as_if_it_had_come_so() {
    for (name, value) in [("text", Value::from("a text")), ("bytes", Value::from(vec![1_u8, 2]))] {
        let net = net_of(name);
        for how in [1, 3, CHANGED] {
            let (_, failed) = run(&net, vec![record(value.clone(), how, 0)], false, options(false));
            // The value is shared with this test, so the box changed a copy.
            assert_eq!(failed, [record(value.clone(), how, 0)], "{name}, {}", WAYS[how]);
        }
        let own = |value: &Value| match value {
            Value::Text(text) => Value::from(text.as_str()),
            Value::Bytes(bytes) => Value::from(bytes.to_vec()),
            other => other.clone(),
        };
        for how in [1, 3] {
            let (_, failed) = run(&net, vec![record(own(&value), how, 0)], false, options(false));
            assert_eq!(failed, [record(value.clone(), how, 0)], "{name}, {}", WAYS[how]);
        }
        let (_, failed) = run(&net, vec![record(own(&value), CHANGED, 0)], false, options(false));
        let told = Value::from("(changed in place by the box)");
        assert_eq!(failed, [record(told, CHANGED, 0)], "{name}");
    }
}

/// A box that is not called, because an argument is of the wrong kind, consumes nothing.
#[test]
fn a_box_that_was_not_called_took_nothing() {
    let made = |s: Value| {
        Record::from_pairs([
            (Label::field("a"), Value::from("taken first")),
            (Label::field("s"), s),
            (Label::tag("how"), Value::Int(0)),
            (Label::tag("number"), Value::Int(0)),
        ])
    };
    let wrong = || vec![made(Value::from("text")), made(Value::from(vec![1_u8])), made(Value::Float(1.0))];
    let (out, failed) = run(&net_of("later"), wrong(), true, options(false));
    assert_eq!((out.len(), failed), (1, wrong().split_off(1)));
}

/// Filters, combinators and nets leave a refused record unchanged.
#[test]
fn what_other_components_refuse_is_as_it_came() {
    let nets = [
        "net main connect [{a, <how>} -> {a, <how = how / (how - how)>}];",
        "net main connect [{a, <how>} -> {a=z, <how = how + 1>}; {a=k, <how = 1 / (number - number)>}];",
        "net main connect [{missing} -> {missing}] | [{other} -> {other}];",
        "net main connect [] ! <missing>;",
        "net main { net inner ({a, <how>} -> {a, <how>}) connect [{a, <how>} -> {a, <how = how / 0>}]; } connect inner;",
        "net main connect [{<how>} -> {<how = how + 1>}] .. [{<how>} -> {<how = 1 / (how - how)>}];",
    ];
    for net in nets {
        let made = || values().into_iter().map(|(_, value)| record(value, 1, 0)).collect::<Vec<Record>>();
        let (out, mut failed) = run(net, made(), true, options(false));
        if net.contains("how + 1>}] ..") {
            failed.iter_mut().for_each(|record| record.set(Label::tag("how"), Value::Int(1)));
        }
        assert_eq!((out, failed), (Vec::new(), made()), "{net}");
    }
}

/// A label that bypasses a net has its own name in the dead letter, unless a label inside has the same name.
#[test]
fn hidden_labels_have_their_own_names_in_the_letter() {
    let net = |inside: &str| {
        format!(
            "net main {{ net inner ({{a, <how>}} -> {{a, <how>}}) connect [{{a}} -> {{a, k=a}}] .. {inside} \
             [{{a, <how>}} -> {{a, <how = 1 / (how - how)>}}]; }} connect inner;"
        )
    };
    let made = || record(Value::from("outer"), 1, 0);
    let (_, failed) = run(&net("[{k} -> {}] .."), vec![made()], true, options(false));
    assert_eq!(failed, [made()]);
    let (_, failed) = run(&net(""), vec![made()], true, options(false));
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].get(Label::field("k")), Some(&Value::from("outer")), "{failed:?}");
    assert_eq!(
        failed[0].get(Label::field("k around main/inner")),
        Some(&Value::from("not taken")),
        "{failed:?}"
    );
}

/// Whatever the result of a call, each value of its record is freed once.
#[test]
fn no_value_is_lost_or_freed_twice() {
    for exact in [false, true] {
        for threads in [false, true] {
            for name in ["any", "apart"] {
                let living = Arc::new(AtomicUsize::new(0));
                let made = |how: usize| {
                    living.fetch_add(1, Ordering::Relaxed);
                    record(Value::Opaque(Opaque::new(Counted(living.clone()))), how, 0)
                };
                let records = (0..5 * WAYS.len()).map(|n| made(n % WAYS.len())).collect();
                let net = net_of(name);
                let (out, failed) = run(&net, records, exact, options(threads));
                assert_eq!(failed.len(), 5 * (WAYS.len() - 1), "{name}");
                let opaque = |record: &&Record| matches!(record.get(Label::field("a")), Some(Value::Opaque(value)) if value.get::<Counted>().is_some());
                assert!(failed.iter().all(|record| opaque(&record)), "{failed:?}");
                assert!(living.load(Ordering::Relaxed) >= 5 * WAYS.len());
                drop((out, failed));
                assert_eq!(living.load(Ordering::Relaxed), 0, "{name}, exact: {exact}, threads: {threads}");
            }
        }
    }
}

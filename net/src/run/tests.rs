//! Tests of the semantics, as data: a network's text, records in, records out.

use std::sync::mpsc;

use thalweg_box::Out as BoxOut;
use thalweg_exec::{Options, Runtime, TaskSpec};

use crate::record::Record;
use crate::{Boxes, Network, json};

/// The boxes of these tests, with their declarations.
fn boxes() -> Boxes {
    Boxes::new()
        .with("box inc ((x) -> (x))", |x: i64, out: &mut BoxOut| out.emit((x + 1,)))
        .with("box add ((a, b) -> (c))", |a: i64, b: i64, out: &mut BoxOut| {
            a.checked_add(b).map(|c| out.emit((c,))).ok_or("too large")
        })
        .with("box more ((x, y) -> (x))", |x: i64, y: i64, out: &mut BoxOut| out.emit((x * y,)))
        .with("box twice ((x) -> (x))", |x: i64, out: &mut BoxOut| {
            out.emit((x,));
            out.emit((-x,));
        })
        .with("box many ((<n>) -> (<i>))", |n: i64, out: &mut BoxOut| {
            out.generate((0..n).map(|i| (i,)));
        })
        .with("box burst ((<n>) -> (<i>))", |n: i64, out: &mut BoxOut| (0..n).for_each(|i| out.emit((i,))))
        .with("box sink ((x) -> )", |_: i64, _: &mut BoxOut| {})
        .with("box halve ((x) -> (x) | (odd))", |x: i64, out: &mut BoxOut| match x % 2 {
            0 => out.emit((x / 2,)),
            _ => out.emit_variant(2, (x,)),
        })
        .with("box panic ((x) -> (x))", |x: i64, out: &mut BoxOut| {
            assert!(x != 3, "three");
            out.emit((x,));
        })
        .with("box liar ((x) -> (<t>))", |x: i64, out: &mut BoxOut| match x {
            0 => out.emit(("text",)),
            1 => out.emit((1i64, 2i64)),
            2 => out.emit_variant(2, (1i64,)),
            _ => out.emit((x,)),
        })
        .with("box start (-> (x))", |out: &mut BoxOut| {
            out.emit((1i64,));
            out.emit((2i64,));
        })
        .with("box shout ((text) -> (text))", |text: String, out: &mut BoxOut| {
            out.emit((text.to_uppercase(),));
        })
}

const DECLARATIONS: &str = "
    box inc ((x) -> (x)); box add ((a, b) -> (c)); box twice ((x) -> (x)); box many ((<n>) -> (<i>));
    box burst ((<n>) -> (<i>)); box sink ((x) -> ); box halve ((x) -> (x) | (odd)); box panic ((x) -> (x));
    box liar ((x) -> (<t>)); box start (-> (x)); box shout ((text) -> (text));";

/// Runs a network; returns its records (sorted), and its failures as `component: reason` (sorted).
fn run_with(
    definitions: &str,
    connect: &str,
    input: &[String],
    options: Options,
) -> (Vec<String>, Vec<String>) {
    let text = format!("net main {{ {DECLARATIONS} {definitions} }} connect {connect};");
    let network = Network::parse("main", &text, &boxes()).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(|e| e.render(false)).collect::<String>());
    });
    run_network_with(&network, input, options)
}

/// Runs a network on one worker; returns what [`run_with`] does.
pub(crate) fn run_network(network: &Network, input: &[String]) -> (Vec<String>, Vec<String>) {
    run_network_with(network, input, options(1, 64))
}

fn run_network_with(network: &Network, input: &[String], options: Options) -> (Vec<String>, Vec<String>) {
    let runtime = Runtime::new(options).unwrap();
    let running = network.start(&runtime).unwrap();
    let records: Vec<_> = input.iter().map(|line| json::read_record(line.as_bytes()).unwrap()).collect();
    let (mut entry, mut exit, errors) = (running.input, running.output, running.errors);
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        for record in records {
            blocking.admit();
            blocking.feed(&mut entry, record).unwrap();
        }
    });
    let (lines_to, lines) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
        while let Some(record) = blocking.pop(&mut exit) {
            lines_to.send(written(&record)).unwrap();
        }
    });
    let (failed_to, failed) = mpsc::channel();
    runtime.spawn_blocking(TaskSpec::default(), move |_| {
        while let Ok(error) = errors.recv() {
            failed_to.send(format!("{}: {}", error.component, error.reason)).unwrap();
        }
    });
    let summary = runtime.join().unwrap();
    assert_eq!(summary.failures, []);
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    (sorted(lines.iter().collect()), sorted(failed.iter().collect()))
}

fn written(record: &Record) -> String {
    let mut line = Vec::new();
    json::write_record(record, &mut line);
    String::from_utf8(line).unwrap()
}

/// The line in the spelling of `json`.
fn normal(line: &str) -> String {
    written(&json::read_record(line.as_bytes()).unwrap())
}

fn options(workers: usize, capacity: usize) -> Options {
    Options { workers, capacity, ..Options::default() }
}

/// Runs on one and two workers, with wide and narrow streams and one input at a time, and compares the
/// records as multisets.
#[track_caller]
fn check_in(definitions: &str, connect: &str, input: &[&str], output: &[&str], failures: &[&str]) {
    let input: Vec<String> = input.iter().map(|line| (*line).to_owned()).collect();
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let output = sorted(output.iter().map(|line| normal(line)).collect());
    let failures = sorted(failures.iter().map(|line| (*line).to_owned()).collect());
    for (workers, capacity, unfinished) in
        [(1, 64, 0), (2, 64, 0), (1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 64, 1)]
    {
        let options = Options { unfinished, ..options(workers, capacity) };
        let (out, failed) = run_with(definitions, connect, &input, options);
        let how = format!("`{connect}`, {workers} workers, capacity {capacity}, unfinished {unfinished}");
        assert_eq!(failed, failures, "failures of {how}");
        assert_eq!(out, output, "output of {how}");
    }
}

#[track_caller]
fn check(connect: &str, input: &[&str], output: &[&str]) {
    check_in("", connect, input, output, &[]);
}

#[track_caller]
fn check_failures(connect: &str, input: &[&str], output: &[&str], failures: &[&str]) {
    check_in("", connect, input, output, failures);
}

#[test]
fn boxes_take_give_and_hand_down() {
    check("inc", &[r#"{"x": 1}"#], &[r#"{"x":2}"#]);
    check("inc", &[], &[]);
    check("inc", &[r#"{"x": 1, "y": "s", "<t>": 7}"#], &[r#"{"x":2,"y":"s","<t>":7}"#]);
    check("add", &[r#"{"a": 1, "b": 2, "c": 9, "d": 4}"#], &[r#"{"c":3,"d":4}"#]);
    check("twice", &[r#"{"x": 1, "y": "s"}"#], &[r#"{"x":1,"y":"s"}"#, r#"{"x":-1,"y":"s"}"#]);
    check("halve", &[r#"{"x": 4}"#, r#"{"x": 3, "<t>": 1}"#], &[r#"{"x":2}"#, r#"{"odd":3,"<t>":1}"#]);
    check("sink", &[r#"{"x": 4}"#], &[]);
    check("shout", &[r#"{"text": "aä"}"#], &[r#"{"text":"AÄ"}"#]);
    let many = ["{\"y\":5,\"<i>\":0}", "{\"y\":5,\"<i>\":1}", "{\"y\":5,\"<i>\":2}"];
    check("many", &[r#"{"<n>": 3, "y": 5}"#], &many);
    check("burst", &[r#"{"<n>": 3, "y": 5}"#], &many);
}

#[test]
fn binding_tags_are_not_handed_down() {
    check("inc", &[r##"{"x": 1, "<#b>": 2}"##], &[r#"{"x":2}"#]);
}

#[test]
fn initialisers_run_once() {
    check("start .. inc", &[], &[r#"{"x":2}"#, r#"{"x":3}"#]);
    check("[{x} -> {x}] | start .. inc", &[r#"{"x": 7}"#], &[r#"{"x":7}"#, r#"{"x":2}"#, r#"{"x":3}"#]);
}

#[test]
fn initialisers_behind_something_run_once_a_record() {
    let input = [r#"{"x": 7, "<t>": 1}"#, r#"{"y": 8}"#];
    let each = [r#"{"x":2,"<t>":1}"#, r#"{"x":3,"<t>":1}"#, r#"{"x":2,"y":8}"#, r#"{"x":3,"y":8}"#];
    check("[] .. start .. inc", &input, &each);
    check("([{x} -> {x}] | []) .. start .. inc", &input, &each);
    check("start ! <t>", &[input[0]], &[r#"{"x":1,"<t>":1}"#, r#"{"x":2,"<t>":1}"#]);
    check("[] .. start", &[], &[]);
    // A branch that begins with an initialiser gets no records.
    check("[{x} -> {x}] | start .. start .. inc", &[], &[r#"{"x":2}"#, r#"{"x":3}"#].repeat(2));
}

#[test]
fn failures_leave_by_the_error_stream() {
    let too_large = format!(r#"{{"a": {}, "b": 1}}"#, i64::MAX);
    check_failures("add", &[&too_large, r#"{"a": 1, "b": 1}"#], &[r#"{"c":2}"#], &["main/add: too large"]);
    check_failures(
        "panic .. inc",
        &[r#"{"x": 2}"#, r#"{"x": 3}"#, r#"{"x": 4}"#],
        &[r#"{"x":3}"#, r#"{"x":5}"#],
        &["main/panic: the box panicked: three"],
    );
    check_failures("inc", &[r#"{"y": 2}"#], &[], &["main/inc: the record has no field x"]);
    check_failures(
        "inc",
        &[r#"{"x": "text"}"#],
        &[],
        &["main/inc: argument 1: expected integer, found text"],
    );
    check_failures(
        "liar",
        &[r#"{"x": 0}"#, r#"{"x": 1}"#, r#"{"x": 2}"#, r#"{"x": 3}"#],
        &[r#"{"<t>":3}"#],
        &[
            "main/liar: the box emitted text for the tag <t>",
            "main/liar: the box emitted 2 values as variant 1, which has 1 labels",
            "main/liar: the box emitted variant 2, but its signature has 1",
        ],
    );
}

#[test]
fn records_of_other_shapes_or_fates_come_between() {
    let input = [
        r#"{"x": 1}"#,
        r#"{"x": 2}"#,
        r#"{"x": 3}"#,
        r#"{"x": 4, "<n>": 1}"#,
        r#"{"x": 5}"#,
        r#"{"x": "text"}"#,
        r#"{"y": 6}"#,
        r#"{"x": 7, "<n>": 2}"#,
        r#"{"x": 8, "<n>": 2}"#,
    ];
    check_failures(
        "panic .. [{x} -> {x}] .. inc",
        &input,
        &[
            r#"{"x":2}"#,
            r#"{"x":3}"#,
            r#"{"x":5,"<n>":1}"#,
            r#"{"x":6}"#,
            r#"{"x":8,"<n>":2}"#,
            r#"{"x":9,"<n>":2}"#,
        ],
        &[
            "main/panic: argument 1: expected integer, found text",
            "main/panic: the box panicked: three",
            "main/panic: the record has no field x",
        ],
    );
    check("inc .. sink", &[r#"{"x": 1}"#, r#"{"x": 2}"#, r#"{"x": 3, "y": 4}"#], &[]);
    let largest = format!(r#"{{"<n>": {}}}"#, i64::MAX);
    check_failures(
        "[{<n>} -> {<n = n + 1>}]",
        &[r#"{"<n>": 1}"#, &largest, r#"{"<n>": 2}"#, r#"{"n": 2}"#, r#"{"<n>": 3, "a": "text"}"#],
        &[r#"{"<n>":2}"#, r#"{"<n>":3}"#, r#"{"<n>":4,"a":"text"}"#],
        &[
            "main/filter: the result of `+` does not fit into 64 bits",
            "main/filter: the record has no tag <n>",
        ],
    );
}

#[test]
fn filters() {
    check("[{<n>} -> {<n = n + 1>}]", &[r#"{"<n>": 1, "x": 2}"#], &[r#"{"x":2,"<n>":2}"#]);
    check("[{a} -> {b = a}; {c = a, <t>}]", &[r#"{"a": 1}"#], &[r#"{"b":1}"#, r#"{"c":1,"<t>":0}"#]);
    check("[]", &[r#"{"a": 1}"#], &[r#"{"a":1}"#]);
    check("[{a} -> ]", &[r#"{"a": 1}"#], &[]);
    check(
        "[{<n>} -> if <n < 0> then {<neg>} else if <n == 0> then else {<pos = n>}]",
        &[r#"{"<n>": -1}"#, r#"{"<n>": 0}"#, r#"{"<n>": 5}"#],
        &[r#"{"<neg>":0}"#, r#"{"<pos>":5}"#],
    );
    check_failures(
        "[{<n>, <m>} -> {<q = n / m>}]",
        &[r#"{"<n>": 6, "<m>": 0}"#, r#"{"<n>": 6, "<m>": 3}"#],
        &[r#"{"<q>":2}"#],
        &["main/filter: division by zero"],
    );
}

#[test]
fn parallel_takes_the_best_match() {
    let net = "[{a} -> {one = a}] | [{a, b} -> {two = a}] | [{} -> {<none>}]";
    check(
        net,
        &[r#"{"a": 1}"#, r#"{"a": 2, "b": 3}"#, r#"{"c": 4}"#],
        &[r#"{"one":1}"#, r#"{"two":2}"#, r#"{"c":4,"<none>":0}"#],
    );
    check_failures(
        "inc | add",
        &[r#"{"y": 1}"#, r#"{"x": 1}"#],
        &[r#"{"x":2}"#],
        &["main/parallel: no branch takes a record with these labels"],
    );
    check("(inc | add) .. [{} -> {<seen>}]", &[r#"{"x": 1}"#], &[r#"{"x":2,"<seen>":0}"#]);
}

#[test]
fn ties_go_to_the_leftmost() {
    let input: Vec<String> = (0..500).map(|x| format!(r#"{{"x": {x}}}"#)).collect();
    let (out, failed) = run_with("", "[{x} -> {l = x}] | [{x} -> {r = x}]", &input, options(2, 4));
    assert_eq!((out.len(), failed), (500, vec![]));
    assert!(out.iter().all(|line| line.contains(r#""l""#)), "a record went right");
}

#[test]
fn stars_test_before_every_replica() {
    check("inc * {<done>}", &[r#"{"x": 1, "<done>": 1}"#], &[r#"{"x":1,"<done>":1}"#]);
    check(
        "(inc .. [{<n>} -> {<n = n - 1>}]) * {<n>} if <n <= 0>",
        &[r#"{"x": 0, "<n>": 0}"#, r#"{"x": 0, "<n>": 1}"#, r#"{"x": 0, "<n>": 40}"#],
        &[r#"{"x":0,"<n>":0}"#, r#"{"x":1,"<n>":0}"#, r#"{"x":40,"<n>":0}"#],
    );
    check(
        "halve * {odd}, {x} if <stop>",
        &[r#"{"x": 12, "<stop>": 0}"#, r#"{"x": 12, "<stop>": 1}"#],
        &[r#"{"odd":3,"<stop>":0}"#, r#"{"x":12,"<stop>":1}"#],
    );
}

/// One input record becomes more records than the streams hold, and some of these leave deep in the star
/// before the others have passed half of its stages.
#[test]
fn a_deterministic_star_holds_groups_larger_than_its_streams() {
    let halves = "[{<n>} -> {<n = n - 1>}; {<n = n - 1>}]";
    let leaves = vec![r#"{"<n>":0}"#; 2 * 128];
    check(&format!("{halves} ** {{<n>}} if <n == 0>"), &[r#"{"<n>": 7}"#; 2], &leaves);
    check(&format!("[] || ({halves} ** {{<n>}} if <n == 0>)"), &[r#"{"<n>": 7}"#; 2], &leaves);
}

#[test]
fn splits_have_a_replica_per_value() {
    let input: Vec<String> = (0..60).map(|x| format!(r#"{{"x": {x}, "<k>": {}}}"#, x % 7)).collect();
    let output: Vec<String> = (0..60).map(|x| format!(r#"{{"x":{},"<k>":{}}}"#, x + 1, x % 7)).collect();
    let refs = |lines: &[String]| lines.iter().map(String::leak_copy).collect::<Vec<_>>();
    check("inc ! <k>", &refs(&input), &refs(&output));
    check_failures(
        "inc ! <k>",
        &[r#"{"x": 1}"#, r#"{"x": "s", "<k>": -4}"#],
        &[],
        &[
            "main/split: the record has no <k>, which chooses the replica",
            "main/split[-4]/inc: argument 1: expected integer, found text",
        ],
    );
}

trait LeakCopy {
    fn leak_copy(&self) -> &'static str;
}
impl LeakCopy for String {
    fn leak_copy(&self) -> &'static str {
        self.clone().leak()
    }
}

#[test]
fn components_nest() {
    check_in(
        "net two connect inc .. inc; net four connect two .. two;",
        "four",
        &[r#"{"x": 1}"#],
        &[r#"{"x":5}"#],
        &[],
    );
    check_in(
        "net three connect panic;",
        "((three | add) ! <k>) * {<gone>}",
        &[r#"{"x": 3, "<k>": 5}"#],
        &[],
        &["main/star[0]/split[5]/parallel/three/panic: the box panicked: three"],
    );
    // A star of splits of parallels; all of them are unfolded during the run.
    let net = "(((inc .. [{<n>} -> {<n = n - 1>}]) | add) ! <k>) * {<n>} if <n == 0>";
    let input: Vec<String> =
        (0..40).map(|i| format!(r#"{{"x":0,"<k>":{},"<n>":{}}}"#, i % 3, i % 10)).collect();
    let output: Vec<String> =
        (0..40).map(|i| format!(r#"{{"x":{},"<k>":{},"<n>":0}}"#, i % 10, i % 3)).collect();
    let refs = |lines: &[String]| lines.iter().map(LeakCopy::leak_copy).collect::<Vec<_>>();
    check_in("", net, &refs(&input), &refs(&output), &[]);
}

#[test]
fn what_a_box_emits_beyond_the_room_waits() {
    for (net, workers) in [("many .. [{<i>} -> {<i = i + 1>}]", 1), ("burst .. [{<i>} -> {<i = i + 1>}]", 2)]
    {
        let (out, failed) = run_with("", net, &[r#"{"<n>": 5000}"#.to_owned()], options(workers, 3));
        assert_eq!((out.len(), failed), (5000, vec![]));
    }
}

#[test]
fn the_space_knows_components_ends_and_failures() {
    use thalweg_space::reader::{Item, SpaceReader};
    use thalweg_space::{Space, SpaceOptions};

    let path = std::env::temp_dir().join(format!("thalweg-net-{}", std::process::id()));
    let space = Space::create(SpaceOptions { path: Some(path.clone()), ..SpaceOptions::default() }).unwrap();
    let options = Options { workers: 1, space: Some(space.clone()), ..Options::default() };
    let input = [r#"{"x": 3, "<k>": 1}"#.to_owned(), r#"{"x": 4, "<k>": 1}"#.to_owned()];
    let (out, failed) = run_with("net inner connect panic .. inc;", "inner ! <k>", &input, options);
    assert_eq!((out.len(), failed.len()), (1, 1));
    space.finish();

    let reader = SpaceReader::open(&path).unwrap();
    let sites = reader.sites().unwrap();
    let shown: Vec<_> = sites
        .iter()
        .map(|site| {
            let parent = sites.iter().find(|other| other.id == site.parent).map_or("", |p| p.name.as_str());
            (site.kind.as_str(), site.name.as_str(), parent, site.line)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("net", "main", "", 1),
            ("split", "split", "main", 4),
            ("net", "inner", "split", 4),
            ("box", "panic", "inner", 4),
            ("box", "inc", "inner", 4),
            ("collector", "collector", "split", 4)
        ]
    );
    // The dispatcher of a split and its collector have different names.
    let tasks = names_of_tasks(&reader);
    assert_eq!(tasks, ["collector", "inc", "panic", "split"]);
    let mut seen = Vec::new();
    let mut events = reader.events();
    let mut see = |item: Item<'_>| {
        if let Item::Event(event) = item
            && event.kind.name.starts_with("net.")
        {
            let index = event.kind.field("index").map(|field| event.u64(field));
            seen.push((event.kind.name.to_string(), index));
        }
    };
    events.poll(usize::MAX, &mut see).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    seen.sort();
    let expected = [("net.entry", None), ("net.exit", None), ("net.record_failed", Some(0))];
    assert_eq!(seen, expected.map(|(name, index)| (name.to_owned(), index)));
}

#[test]
fn a_net_with_a_signature_shields() {
    // Labels outside the input type: without a shield the branch would consume `y`, `<i>` would be
    // overwritten, and `<n>` would keep every record in the star.
    let nets = "box more ((x, y) -> (x)); net s ({x} -> {x}) connect inc | more;";
    check_in(nets, "s", &[r#"{"x": 1, "y": 5}"#], &[r#"{"x": 2, "y": 5}"#], &[]);
    check_in(
        "net s ({x} -> {x}) connect inc;",
        "s .. s",
        &[r#"{"x": 1, "<k>": 5}"#],
        &[r#"{"x": 3, "<k>": 5}"#],
        &[],
    );
    let makes = "net s ({x} -> {x}) connect [{x} -> {x, <i = 7>}] .. [{<i>} -> {}] .. twice;";
    check_in(
        makes,
        "s",
        &[r#"{"x": 1, "<i>": 5}"#, r#"{"x": 2}"#],
        &[r#"{"x": 1, "<i>": 5}"#, r#"{"x": -1, "<i>": 5}"#, r#"{"x": 2}"#, r#"{"x": -2}"#],
        &[],
    );
    // Labels that the net makes win over labels that bypass it; nets shield inside nets, and inside replicas.
    check_in(
        "net s ({x} -> {x, <i>}) connect [{x} -> {x, <i = 7>}];",
        "s",
        &[r#"{"x": 1, "<i>": 5}"#],
        &[r#"{"x": 1, "<i>": 7}"#],
        &[],
    );
    let nested =
        "net o ({x, <i>} -> {x}) { net s ({x} -> {x}) connect [{x} -> {x, <i = 7>}] .. [{<i>} -> {}]; }
        connect s .. [{<i>} -> {<j = i>}] .. [{x, <j>} -> {x, <i = j + 1>}];";
    check_in(
        nested,
        "o * {<i>} if <i >= 3>",
        &[r#"{"x": 1, "<i>": 0, "<j>": 9}"#],
        &[r#"{"x": 1, "<i>": 3, "<j>": 9}"#],
        &[],
    );
    // A record that matches no declared input variant of a net fails.
    check_in(
        "net s ({x} -> {x}) connect inc;",
        "[] .. s",
        &[r#"{"y": 1}"#],
        &[],
        &["main/s: the record matches no declared input of the net"],
    );
}

/// As long as no component keeps records, every record that entered and has not left is under way.
#[test]
fn no_more_inputs_are_under_way_than_the_limit() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    const RECORDS: u64 = 500;
    for connect in ["inc .. inc", "[{<n>} -> {<n = n - 1>}] * {<n>} if <n <= 0>", "inc ! <k>"] {
        for (workers, unfinished) in [(1, 1), (2, 1), (2, 6)] {
            let text = format!("net main {{ {DECLARATIONS} }} connect {connect};");
            let network = Network::parse("main", &text, &boxes()).expect("a network");
            let runtime = Runtime::new(Options { unfinished, ..options(workers, 64) }).unwrap();
            let running = network.start(&runtime).unwrap();
            let (mut entry, mut exit, _errors) = (running.input, running.output, running.errors);
            let read = Arc::new(AtomicU64::new(0));
            let out = read.clone();
            runtime.spawn_blocking_attached(TaskSpec::default(), |ports| {
                ports.input(&mut exit);
                move |blocking| {
                    while blocking.pop(&mut exit).is_some() {
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            runtime.spawn_blocking(TaskSpec::default(), move |blocking| {
                for n in 0..RECORDS {
                    blocking.admit();
                    // The sink may hold one record that is not counted yet.
                    let under_way = n - out.load(Ordering::Relaxed);
                    assert!(under_way <= unfinished, "{connect}: {under_way} are under way");
                    let record = format!(r#"{{"x": {n}, "<n>": {}, "<k>": {}}}"#, n % 9, n % 5);
                    blocking.feed(&mut entry, json::read_record(record.as_bytes()).unwrap()).unwrap();
                }
            });
            assert_eq!(runtime.join().unwrap().failures, []);
        }
    }
}

/// The names of the components of all tasks that were made, in alphabetical order.
fn names_of_tasks(reader: &thalweg_space::reader::SpaceReader) -> Vec<String> {
    use thalweg_space::reader::Item;

    let (sites, mut tasks) = (reader.sites().unwrap(), Vec::new());
    let mut see = |item: Item<'_>| {
        if let Item::Event(event) = item
            && event.kind.name == "exec.task_created"
        {
            let component = event.kind.field("component").map(|field| event.u64(field));
            tasks
                .extend(sites.iter().find(|site| Some(site.id.0) == component).map(|site| site.name.clone()));
        }
    };
    reader.events().poll(usize::MAX, &mut see).unwrap();
    tasks.sort();
    tasks
}

#[test]
fn what_gathers_the_branches_of_a_choice_has_a_name_of_its_own() {
    use thalweg_space::reader::SpaceReader;
    use thalweg_space::{Space, SpaceOptions};

    let check = |definitions: &str, network: &str, expected: &[&str]| {
        let path = std::env::temp_dir().join(format!("thalweg-net-choice-{}", std::process::id()));
        let space =
            Space::create(SpaceOptions { path: Some(path.clone()), ..SpaceOptions::default() }).unwrap();
        let options = Options { workers: 1, space: Some(space.clone()), ..Options::default() };
        let input = [r#"{"x": 3, "<k>": 1}"#.to_owned()];
        assert_eq!(run_with(definitions, network, &input, options).0.len(), 1);
        space.finish();
        let names = names_of_tasks(&SpaceReader::open(&path).unwrap());
        drop(space);
        let _ = std::fs::remove_dir_all(path);
        assert_eq!(names, expected, "{network}");
    };
    check("", "inc | [{y} -> {y}]", &["collector", "filter", "inc", "parallel"]);
    check("", "inc || [{y} -> {y}]", &["collector", "filter", "inc", "parallel"]);
    // If a branch already has the name `collector`, the collector gets another name.
    check(
        "net collector connect inc;",
        "collector | [{y} -> {y}]",
        &["collector#2", "filter", "inc", "parallel"],
    );
}

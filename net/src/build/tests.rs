//! Compares networks composed in Rust with the same networks as text.

use thalweg_box::Out as BoxOut;

use super::*;
use crate::run::tests::run_network;

fn inc() -> Component {
    boxed("box inc ((x) -> (x))", |x: i64, out: &mut BoxOut| out.emit((x + 1,)))
}

fn negate() -> Component {
    boxed("box negate ((y) -> (y))", |y: i64, out: &mut BoxOut| out.emit((-y,)))
}

fn boxes() -> Boxes {
    Boxes::new()
        .with("box inc ((x) -> (x))", |x: i64, out: &mut BoxOut| out.emit((x + 1,)))
        .with("box negate ((y) -> (y))", |y: i64, out: &mut BoxOut| out.emit((-y,)))
}

/// Checks that the component and the text give the same output.
#[track_caller]
fn check(built: Component, text: &str, input: &[&str]) {
    let built = Network::build("main", built).unwrap_or_else(|wrong| panic!("{}", rendered(&wrong)));
    let text = format!("net main {{ box inc ((x) -> (x)); box negate ((y) -> (y)); {text};");
    let parsed = Network::parse("main", &text, &boxes()).unwrap();
    let input: Vec<String> = input.iter().map(|line| (*line).to_owned()).collect();
    let (records, failures) = run_network(&built, &input);
    assert!(!records.is_empty());
    assert_eq!((records, failures), run_network(&parsed, &input));
}

fn rendered(wrong: &[Diagnostic]) -> String {
    wrong.iter().map(|error| error.render(false)).collect()
}

/// Checks that the errors of the component contain these texts, in order.
#[track_caller]
fn check_wrong(built: Component, expected: &[&str]) {
    let wrong = rendered(&Network::build("main", built).unwrap_err());
    let mut rest = wrong.as_str();
    for text in expected {
        let at = rest.find(text).unwrap_or_else(|| panic!("no `{text}` in:\n{wrong}"));
        rest = &rest[at..];
    }
    assert!(wrong.contains(&format!("given at {}:", file!())), "{wrong}");
}

#[test]
fn a_network_in_rust_gives_what_its_text_gives() {
    let numbers = [r#"{"x": 1, "<n>": 0}"#, r#"{"x": 5, "<n>": 9}"#, r#"{"x": 7, "<n>": 20}"#];
    let count = || filter("[{<n>} -> {<n = n + 1>}] // one more");
    check(inc().then(count()), "} connect inc .. [{<n>} -> {<n = n + 1>}]", &numbers);
    check(
        inc().then(count()).star("{<n>} if <n >= 10>, {z}"),
        "} connect (inc .. [{<n>} -> {<n = n + 1>}]) * {<n>} if <n >= 10>, {z}",
        &numbers,
    );
    check(inc().split("<n>"), "} connect inc ! <n>", &numbers);
    check(
        inc().or(negate()).then(filter("[{<n>} -> {<n>}; {<n = -n>}]")),
        "} connect (inc | negate) .. [{<n>} -> {<n>}; {<n = -n>}]",
        &[r#"{"x": 1, "<n>": 0}"#, r#"{"y": 1, "<n>": 0}"#, r#"{"<n>": 0}"#],
    );
    let inc = inc();
    check(
        inc.clone().then(inc.clone()).then(inc.then(identity())),
        "} connect inc .. inc .. (inc .. [])",
        &numbers,
    );
}

#[test]
fn nets_have_names_of_their_own() {
    let inc = inc();
    let twice = net("twice", Some("{x} -> {x}"), inc.clone().then(inc.clone()));
    let outer = net("outer", None, twice.clone().then(net("inner", None, inc).then(twice.clone())));
    let text = "net twice ({x} -> {x}) connect inc .. inc; net inner connect inc;
        net outer connect twice .. inner .. twice; } connect outer .. twice";
    check(outer.then(twice), text, &[r#"{"x": 1}"#]);
}

#[test]
fn boxes_of_a_library_are_components() {
    let library = boxes();
    let built = library.component("inc").unwrap().then(library.component("inc").unwrap());
    check(built, "} connect inc .. inc", &[r#"{"x": 1}"#]);
    assert_eq!(library.component("ink").unwrap_err().to_string(), "there is no box named `ink`");
}

#[test]
fn pieces_of_text_are_checked_alone_and_together() {
    check_wrong(
        filter("[{a} > {b}]").then(inc().split("n")).star("{x"),
        &["E0202", "pattern:1:1", "E0201", "filter:1:6", "[{a} > {b}]", "E0201", "tag:1:1"],
    );
    check_wrong(filter("[] .. [{a} -> ]"), &["expected nothing more after the filter, found `..`"]);
    check_wrong(inc().star("{x}; } connect [];"), &["expected nothing more after the pattern"]);
    check_wrong(synchrocell("[]"), &["a synchrocell such as"]);
    check_wrong(
        net("if", Some("{x} -> "), net("a b", Some("-"), inc())),
        &["keyword `if`", "name:1:3", "signature:1:1"],
    );
    check_wrong(boxed("box f ((a -> (c))", |_: i64, _: &mut BoxOut| {}), &["declaration:1:"]);
    check_wrong(
        boxed("box f ((a, b) -> )", |_: i64, _: &mut BoxOut| {}),
        &["E0402", "takes 2 labels, but its function takes 1 arguments"],
    );
    assert!(Network::build("a b", inc()).is_err());
}

#[test]
fn what_does_not_fit_is_told_with_its_place_in_the_program() {
    let first = filter("[{a} -> {b = a}]");
    let (second, line) = (filter("[{a} -> {c = a}]"), line!());
    let expected = format!("given at {}:{line}:", file!());
    check_wrong(first.then(second), &["E0502", "main:2:", "[{a} -> {b = a}] .. [{a} -> {c = a}]", &expected]);
}

#[test]
fn names_that_mean_two_things_are_refused() {
    check_wrong(inc().then(inc()), &["E0302", "another box named `inc`", "make it once and clone it"]);
    check_wrong(net("inc", None, identity()).then(inc()), &["E0302", "another box named `inc`"]);
    let two = net("a", None, identity()).then(net("a", None, filter("[{x} -> ]")));
    check_wrong(two, &["E0302", "another net named `a`"]);
}

#[test]
fn deep_and_wide_networks_end_in_an_error() {
    let mut deep = identity();
    for _ in 0..10_000 {
        deep = deep.split("<n>");
    }
    check_wrong(deep, &["E0205"]);
    let mut wide = identity();
    for _ in 0..40 {
        wide = wide.clone().or(wide).split("<n>");
    }
    check_wrong(wide, &["E0309"]);
    let long = (0..1000).fold(identity(), |chain, _| chain.then(filter("[{<n>} -> {<n = n + 1>}]")));
    assert!(Network::build("main", long).is_ok());
}

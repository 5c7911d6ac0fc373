//! Tests of expressions: their values, their mistakes, and random ones against an evaluator of the test.

use proptest::prelude::*;
use thalweg_pack::{Expression, Schema, Type, Values};

/// An unknown value is NaN.
struct Row {
    numbers: [f64; 6],
    component: Option<&'static str>,
}

impl Values for Row {
    fn number(&self, field: usize) -> f64 {
        self.numbers[field]
    }

    fn text(&self, _field: usize) -> Option<&str> {
        self.component
    }
}

/// The fields of the test: `a` and `b` are plain numbers, `wait` is in µs, `room` in kB, `live` is a truth
/// value, `gone` has no known value, `component` is a text.
fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.number("a", "messages").unwrap();
    schema.number("b", "share").unwrap();
    schema.number("stream.wait", "us").unwrap();
    schema.number("room", "kB").unwrap();
    schema.truth("live").unwrap();
    schema.number("gone", "").unwrap();
    schema.text("component").unwrap();
    schema
}

fn row() -> Row {
    Row { numbers: [6.0, 0.25, 1500.0, 2.0, 1.0, f64::NAN], component: Some("des/star/round") }
}

fn value(text: &str) -> f64 {
    Expression::read(text, &schema()).unwrap_or_else(|problems| panic!("{text}: {problems:?}")).number(&row())
}

fn problem(text: &str) -> (String, String) {
    let problems = Expression::read(text, &schema()).expect_err(text);
    (problems[0].to_string(), text.get(problems[0].span.clone()).unwrap_or("").to_owned())
}

#[test]
fn values() {
    for (text, wanted) in [
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("-(1 + 2) * 2", -6.0),
        ("a - 1 - 1", 4.0),
        ("12 / a / 2", 1.0),
        ("stream.wait", 1.5e6),
        ("stream.wait / 1 ms", 1.5),
        ("room", 2000.0),
        ("room / stream.wait", 2000.0 / 1.5e6),
        ("8 MB/s * 2 s", 16e6),
        ("1000 /s * 2 ms", 2.0),
        ("20 %", 0.2),
        ("min(a, 4, 9)", 4.0),
        ("max(a, 4) + abs(-2)", 8.0),
        ("floor(2.7) + ceil(2.1) + round(2.5)", 8.0),
        ("sqrt(16) + log2(8)", 7.0),
        ("if a > 5 then 10 else 20", 10.0),
        ("if a > 6 then 10 else if b == 25 % then 30 else 20", 30.0),
        ("1_000 + 1e3", 2000.0),
    ] {
        let found = value(text);
        assert!((found - wanted).abs() <= 1e-9 * wanted.abs(), "{text}: {found}, not {wanted}");
    }
}

#[test]
fn conditions() {
    for (text, wanted) in [
        ("a > 5", true),
        ("a > 6", false),
        ("a >= 6 and b < 30 %", true),
        ("a > 6 or live", true),
        ("not live or a != 6", false),
        ("stream.wait > 1 ms", true),
        ("stream.wait < 1400 us", false),
        ("component == \"des/star/round\"", true),
        ("component != \"des\"", true),
        ("component like \"des/*\"", false),
        ("component like \"des/**\" and live == live", true),
        // An unknown value fulfils no comparison, and `known` tests for it.
        ("gone > 0", false),
        ("gone <= 0", false),
        ("gone != 0", false),
        ("not gone > 0", true),
        ("known(gone)", false),
        ("known(a)", true),
        ("0 / 0 == 0 / 0", false),
        ("1 / 0 > 1e300", true),
        // The second part does not matter if the first decides.
        ("live or gone > 0", true),
        ("not (live and gone > 0)", true),
    ] {
        let text = text.replace("live == live", "live");
        let condition = Expression::condition(&text, &schema()).unwrap_or_else(|p| panic!("{text}: {p:?}"));
        assert_eq!(condition.holds(&row()), wanted, "{text}");
    }
    let unknown = Row { component: None, ..row() };
    for text in ["component == \"x\"", "component != \"x\"", "component like \"*\""] {
        assert!(!Expression::condition(text, &schema()).unwrap().holds(&unknown), "{text}");
    }
}

#[test]
fn mistakes_are_named_with_their_place() {
    let check = |text: &str, message: &str, place: &str| {
        let (found, at) = problem(text);
        assert!(found.contains(message), "{text}: {found}");
        assert_eq!(at, place, "{text}: {found}");
    };
    check("a + stream.wait", "a plain number and a time cannot be added", "a + stream.wait");
    check("room > 5 ms", "a size and a time cannot be compared", "room > 5 ms");
    check("a + rom", "there is no `rom` here: did you mean `room`?", "rom");
    check("a > 5 msec", "`msec` is no unit", "msec");
    check("a +", "the expression ends where a number, a name or `(` is expected", "");
    check("a = 5", "write `==`", "=");
    check("a > 1 && b > 2", "write `and`", "&&");
    check("component > \"x\"", "texts are only equal or not", "component > \"x\"");
    check("component + 1", "`component` is a text", "component");
    check("\"x\" like \"y\"", "only a name", "\"x\"");
    check("maxx(a, b)", "did you mean `max`?", "maxx(a, b)");
    check("sqrt(stream.wait)", "takes a plain number", "stream.wait");
    check("if a then 1 else 2", "a number where true or false is expected", "a");
    check("if live then 1 else 2 ms", "different types", "2 ms");
    check("component == \"x", "this text has no end", "\"x");
    check("1 § 2", "means nothing here", "§");
    assert!(Expression::condition("a + 1", &schema()).unwrap_err()[0].to_string().contains("true or false"));
    // Mistakes on both sides are reported.
    assert_eq!(Expression::read("x1 + y1", &schema()).unwrap_err().len(), 2);
}

#[test]
fn size_is_bounded() {
    let deep = format!("{}a{}", "(".repeat(900), ")".repeat(900));
    assert!(problem(&deep).0.contains("nested at most"));
    assert!(problem(&"- ".repeat(5000)).0.contains("at most"));
    let long = vec!["a"; 5000].join(" + ");
    assert!(problem(&long).0.contains("at most 2000 words"));
    // Each nested bracket leaves a value on the stack: 1 + (1 + (1 + ……
    let waiting = format!("{}1{}", "1 + (".repeat(60), ")".repeat(60));
    assert!(problem(&waiting).0.contains("values wait"), "{:?}", problem(&waiting));
    let wide = vec!["a"; 900].join(" + ");
    assert_eq!(value(&wide), 5400.0);
}

/// A random expression, of numbers or truth values.
#[derive(Clone, Debug)]
enum Tree {
    Number(f64),
    Field(usize),
    Two(char, Box<[Tree; 2]>),
    Pick(Box<[Tree; 4]>),
}

/// The text of a tree, and its value computed directly from the tree.
fn text_and_value(tree: &Tree, fields: &[f64]) -> (String, f64) {
    match tree {
        Tree::Number(number) => (format!("{number}"), *number),
        Tree::Field(field) => (["a", "b"][*field].to_owned(), fields[*field]),
        Tree::Two(sign, parts) => {
            let ((left, l), (right, r)) =
                (text_and_value(&parts[0], fields), text_and_value(&parts[1], fields));
            match sign {
                '+' => (format!("({left} + {right})"), l + r),
                '-' => (format!("({left} - {right})"), l - r),
                '*' => (format!("({left} * {right})"), l * r),
                '/' => (format!("({left} / {right})"), l / r),
                '<' => (
                    format!("min({left}, {right})"),
                    if l.is_nan() || r.is_nan() { f64::NAN } else { l.min(r) },
                ),
                _ => (format!("(0 - {left} - {right})"), 0.0 - l - r),
            }
        }
        Tree::Pick(parts) => {
            let [a, b, c, d] = [0, 1, 2, 3].map(|part| text_and_value(&parts[part], fields));
            let text = format!("(if {} < {} and not {} == {} then {} else {})", a.0, b.0, a.0, c.0, c.0, d.0);
            (text, if a.1 < b.1 && a.1 != c.1 { c.1 } else { d.1 })
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (0u32..100).prop_map(|n| Tree::Number(f64::from(n) / 4.0)),
        (0usize..2).prop_map(Tree::Field)
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let two = (prop::sample::select(vec!['+', '-', '*', '/', '<', '_']), inner.clone(), inner.clone());
        let four = (inner.clone(), inner.clone(), inner.clone(), inner);
        prop_oneof![
            3 => two.prop_map(|(sign, left, right)| Tree::Two(sign, Box::new([left, right]))),
            1 => four.prop_map(|(a, b, c, d)| Tree::Pick(Box::new([a, b, c, d]))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_tree_is_worth_what_the_test_computes(tree in trees(), a in -10.0..10.0f64, b in prop_oneof![Just(f64::NAN), -1.0..1.0f64]) {
        let (text, wanted) = text_and_value(&tree, &[a, b]);
        let expression = Expression::read(&text, &schema());
        prop_assert!(expression.is_ok(), "{text}: {expression:?}");
        let found = expression.unwrap().number(&Row { numbers: [a, b, 0.0, 0.0, 0.0, 0.0], component: None });
        prop_assert!(found == wanted || found.is_nan() && wanted.is_nan(), "{text}: {found}, not {wanted}");
    }

    #[test]
    fn no_text_is_too_much(words in prop::collection::vec(prop::sample::select(vec![
        "a", "b", "stream.wait", "live", "component", "gone", "1", "2.5", "5 ms", "%", "(", ")", "+", "-", "*", "/", "and", "or",
        "not", "if", "then", "else", "==", "<", ">=", "like", "\"x\"", "\"", ",", "min(", "known(", "§", "ö", ".", "1e999", "=",
    ]), 0..40)) {
        let text = words.join(" ");
        match Expression::read(&text, &schema()) {
            Ok(expression) => {
                let found = expression.number(&row());
                let truth = found == 0.0 || found == 1.0 || found.is_nan();
                prop_assert!(expression.of() != Type::Truth || truth, "{text}: {found}");
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(problem.span.end <= text.len() && text.is_char_boundary(problem.span.start), "{text}: {problem:?}");
                    problem.render("expression", &text);
                }
            }
        }
    }
}

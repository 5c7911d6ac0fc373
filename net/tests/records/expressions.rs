//! Tests of expressions over tags.

use proptest::prelude::*;
use thalweg_net::expression::Expression;
use thalweg_net::label::Label;
use thalweg_net::plan::RecordFault;
use thalweg_net::record::Record;

use crate::naive::{any_expression, any_map, evaluate, filter, pattern, record, to_record};

/// The value of an expression in the language's spelling, over `<a> = 7`, `<b> = -2`, `<z> = 0`.
fn value(text: &str) -> Result<i64, RecordFault> {
    let record = record(r#"{"<a>": 7, "<b>": -2, "<z>": 0, "f": "text"}"#);
    let filter = filter(&format!("[{{}} -> {{<r = {text}>}}]"));
    let item = &filter.rule.as_ref().unwrap().action.otherwise[0].items[0];
    let thalweg_net::syntax::ast::ItemValue::Expr(expression) = &item.value else { panic!("{text}") };
    Expression::compile(expression).bind(record.shape()).evaluate(record.slots())
}

#[test]
fn operators_are_those_of_c() {
    let table = [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("a", 7),
        ("-a", -7),
        ("!a", 0),
        ("!z", 1),
        ("!!a", 1),
        ("abs(b)", 2),
        ("min(a, b)", -2),
        ("max(a, b) - min(a, b)", 9),
        ("a / b", -3),
        ("a % b", 1),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("a - b - 1", 8),
        ("a == 7", 1),
        ("a != 7", 0),
        ("a < b", 0),
        ("a <= 7", 1),
        ("(a > b)", 1),
        ("a >= 8", 0),
        ("a && b", 1),
        ("a && z", 0),
        ("z || b", 1),
        ("z || z", 0),
        ("z && 1 / z", 0),
        ("a || 1 / z", 1),
        ("a ? b : 1 / z", -2),
        ("z ? 1 / z : a ? 5 : 6", 5),
        ("z && missing", 0),
        ("1 + (a < 3 ? 10 : 20) * (b < 3 && z < 1)", 21),
        ("0x10 + 010", 24),
        ("9223372036854775807", i64::MAX),
    ];
    for (text, expected) in table {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_c_leaves_open_is_a_fault() {
    let missing = Label::tag("missing");
    let table = [
        ("1 / z", RecordFault::DivisionByZero),
        ("a % z", RecordFault::DivisionByZero),
        ("9223372036854775807 + 1", RecordFault::Overflow("+")),
        ("-9223372036854775807 - a", RecordFault::Overflow("-")),
        ("9223372036854775807 * b", RecordFault::Overflow("*")),
        ("(-9223372036854775807 - 1) / -1", RecordFault::Overflow("/")),
        ("(-9223372036854775807 - 1) % -1", RecordFault::Overflow("%")),
        ("abs(-9223372036854775807 - 1)", RecordFault::Overflow("abs")),
        ("-(-9223372036854775807 - 1)", RecordFault::Overflow("-")),
        ("missing", RecordFault::MissingLabel(missing)),
        ("missing + 1", RecordFault::MissingLabel(missing)),
        ("a + missing", RecordFault::MissingLabel(missing)),
        ("f", RecordFault::MissingLabel(Label::tag("f"))),
    ];
    for (text, expected) in table {
        assert_eq!(value(text), Err(expected), "{text}");
    }
    assert_eq!(RecordFault::MissingLabel(missing).to_string(), "the record has no tag <missing>");
}

#[test]
fn long_expressions_need_many_registers() {
    let right = (0..100).fold("a".to_owned(), |text, _| format!("a + ({text})"));
    assert_eq!(value(&right), Ok(707));
    let deep = (0..40).fold("a".to_owned(), |text, _| format!("(a - 6) * ({text} + a - a)"));
    assert_eq!(value(&deep), Ok(7));
}

#[test]
fn a_tag_without_an_integer_is_a_fault() {
    let t = Label::tag("t");
    let record = Record::from_pairs([(t, "text".into())]);
    let mut pattern = thalweg_net::pattern::Pattern::compile(&pattern("{<t>} if <t > 0>"));
    assert_eq!(pattern.matches(&record), Err(RecordFault::NotInteger(t)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn compiled_and_naive_agree(expression in any_expression(), map in any_map(12)) {
        let record = to_record(&map);
        let result = Expression::compile(&expression).bind(record.shape()).evaluate(record.slots());
        prop_assert_eq!(result.ok(), evaluate(&expression, &map));
    }
}

//! The naive versions: records as maps, programs from text.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::syntax::ast::{self, Def, NetBody, Topo, TopoKind};
use thalweg_net::syntax::{Source, parse};
use thalweg_net::{Value, shape};

/// A record as a map. The values of fields can be any `Value`.
pub(crate) type Map = BTreeMap<Label, Value>;

pub(crate) fn to_map(record: &Record) -> Map {
    record.shape().labels().iter().copied().zip(record.slots().iter().cloned()).collect()
}

pub(crate) fn to_record(map: &Map) -> Record {
    Record::from_pairs(map.iter().map(|(&label, value)| (label, value.clone())))
}

/// Parses a topology.
pub(crate) fn topology(text: &str) -> Topo {
    let source = Source::new("test.snet", format!("net test connect {text};"));
    let (file, diagnostics) = parse(&source);
    assert!(diagnostics.is_empty(), "{text}: {}", diagnostics[0].render(false));
    match file.defs.into_iter().next() {
        Some(Def::Net(ast::NetDef { body: NetBody::Defined { connect: Some(topo), .. }, .. })) => topo,
        other => panic!("{text} is no topology: {other:?}"),
    }
}

pub(crate) fn filter(text: &str) -> ast::Filter {
    match topology(text).kind {
        TopoKind::Filter(filter) => filter,
        other => panic!("{text} is no filter: {other:?}"),
    }
}

/// Parses a pattern such as `{a} if <t > 0>`.
pub(crate) fn pattern(text: &str) -> ast::Pattern {
    match topology(&format!("[] * {text}")).kind {
        TopoKind::Star { exits, .. } => exits.into_iter().next().unwrap(),
        other => panic!("{text} is no pattern: {other:?}"),
    }
}

/// Parses a record such as `{"a": "x", "<t>": 1}`.
pub(crate) fn record(text: &str) -> Record {
    thalweg_net::json::read_record(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// One of 18 labels: six names, each as a field, a tag and a binding tag.
pub(crate) fn any_label() -> impl Strategy<Value = Label> {
    (0..NAMES.len(), 0..3).prop_map(|(name, kind)| match kind {
        0 => Label::field(NAMES[name]),
        1 => Label::tag(NAMES[name]),
        _ => Label::binding_tag(NAMES[name]),
    })
}

/// Up to `count` different labels.
pub(crate) fn any_labels(count: usize) -> impl Strategy<Value = Vec<Label>> {
    prop::collection::vec(any_label(), 0..=count).prop_map(|labels| shape::of(&labels).labels().to_vec())
}

/// A record over the 18 labels; all fields have different values.
pub(crate) fn any_map(count: usize) -> impl Strategy<Value = Map> {
    (any_labels(count), prop::collection::vec(-3i64..4, 18)).prop_map(|(labels, numbers)| {
        let value = |(i, label): (usize, Label)| match label.is_integer() {
            true => (label, Value::Int(numbers[i])),
            false => (label, Value::from(format!("value of {label}"))),
        };
        labels.into_iter().enumerate().map(value).collect()
    })
}

/// The value of an expression in C; `None` for a fault.
pub(crate) fn evaluate(expression: &ast::TagExpr, record: &Map) -> Option<i64> {
    crate::evaluate::evaluate(expression, &|name| match record.get(&Label::tag(name)) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    })
}

/// Expressions over the tags of the six names, with numbers at the edges of 64 bits.
pub(crate) fn any_expression() -> impl Strategy<Value = ast::TagExpr> {
    use ast::{BinaryOp as B, TagExprKind as K, UnaryOp as U};
    fn boxed(kind: K) -> Box<ast::TagExpr> {
        Box::new(bare(kind))
    }
    fn bare(kind: K) -> ast::TagExpr {
        ast::TagExpr { kind, span: Default::default() }
    }
    let number = prop_oneof![6 => -3i64..4, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => any::<i64>()];
    let leaf = prop_oneof![number.prop_map(K::Number), (0..6usize).prop_map(|i| K::Tag(NAMES[i].into()))];
    let unary = prop::sample::select(vec![U::Negate, U::Not, U::Abs]);
    let binary = prop::sample::select(vec![
        B::Or,
        B::And,
        B::Equal,
        B::NotEqual,
        B::Less,
        B::LessEqual,
        B::Greater,
        B::GreaterEqual,
        B::Add,
        B::Subtract,
        B::Multiply,
        B::Divide,
        B::Remainder,
        B::Min,
        B::Max,
    ]);
    leaf.prop_recursive(6, 40, 3, move |inner| {
        prop_oneof![
            (unary.clone(), inner.clone()).prop_map(|(op, a)| K::Unary(op, boxed(a))),
            (binary.clone(), inner.clone(), inner.clone()).prop_map(|(op, a, b)| K::Binary(
                op,
                boxed(a),
                boxed(b)
            )),
            (inner.clone(), inner.clone(), inner).prop_map(|(c, a, b)| K::Choose(
                boxed(c),
                boxed(a),
                boxed(b)
            )),
        ]
    })
    .prop_map(bare)
}

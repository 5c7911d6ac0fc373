//! Filters, patterns, and the outputs of boxes.

use proptest::prelude::*;
use thalweg_net::Value;
use thalweg_net::filter::Filter;
use thalweg_net::json::write_record;
use thalweg_net::label::Label;
use thalweg_net::pattern::Pattern;
use thalweg_net::plan::{OutPlan, PlanCache, RecordFault, TakePlan};
use thalweg_net::record::Record;
use thalweg_net::shape;
use thalweg_net::syntax::ast::{self, ItemValue};

use crate::naive::{
    Map, NAMES, any_expression, any_label, any_labels, any_map, evaluate, filter, pattern, record, to_map,
    to_record,
};

fn lines(records: &[Record]) -> String {
    let line = |record: &Record| {
        let mut line = Vec::new();
        write_record(record, &mut line);
        String::from_utf8(line).unwrap()
    };
    records.iter().map(line).collect::<Vec<_>>().join(" ")
}

fn apply(filter: &mut Filter, input: Record) -> Result<Vec<Record>, (Record, RecordFault)> {
    let mut outputs = Vec::new();
    filter.apply(input, &mut |output| outputs.push(output)).map(|()| outputs)
}

#[test]
fn filters_copy_rename_compute_drop_and_inherit() {
    let table = [
        // Identity, dropping and consuming.
        ("[]", r#"{"a": 1}"#, r#"{"a": 1}"#),
        ("[{a} -> {}]", r#"{"a": 1, "b": 2}"#, r#"{"b": 2}"#),
        ("[{a} -> ]", r#"{"a": 1, "b": 2}"#, ""),
        ("[{} -> {}]", r#"{"a": 1}"#, r#"{"a": 1}"#),
        ("[{} -> {};{}]", r#"{"a": 1}"#, r#"{"a": 1} {"a": 1}"#),
        // Copying and renaming.
        ("[{a} -> {a}]", r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "b": 2}"#),
        ("[{a} -> {b=a}]", r#"{"a": 1, "c": 2}"#, r#"{"b": 1, "c": 2}"#),
        ("[{a,b} -> {a=b,b=a}]", r#"{"a": 1, "b": 2}"#, r#"{"a": 2, "b": 1}"#),
        ("[{a} -> {b=a,c=a,d=a}]", r#"{"a": "x"}"#, r#"{"b": "x", "c": "x", "d": "x"}"#),
        ("[{a,b,c} -> {a=b,b=c,c=a}]", r#"{"a": 1, "b": 2, "c": 3}"#, r#"{"a": 2, "b": 3, "c": 1}"#),
        ("[{a} -> {b=a};{c=a}]", r#"{"a": "x", "z": 1}"#, r#"{"b": "x", "z": 1} {"c": "x", "z": 1}"#),
        // An explicit label wins over an inherited one.
        ("[{a} -> {b=a}]", r#"{"a": 1, "b": 2}"#, r#"{"b": 1}"#),
        ("[{} -> {<t=t+1>}]", r#"{"<t>": 1}"#, r#"{"<t>": 2}"#),
        // Tags that are copied, made, or computed from the input's tags.
        ("[{<t>} -> {<t>}]", r#"{"<t>": 5}"#, r#"{"<t>": 5}"#),
        ("[{} -> {<t>}]", r#"{"a": 1}"#, r#"{"a": 1, "<t>": 0}"#),
        ("[{<t>} -> {<t=t+1>,<u=t*2>}]", r#"{"<t>": 5}"#, r#"{"<t>": 6, "<u>": 10}"#),
        ("[{<t>,<u>} -> {<t=u>,<u=t>}]", r#"{"<t>": 1, "<u>": 2}"#, r#"{"<t>": 2, "<u>": 1}"#),
        // One name as three different labels.
        ("[{a} -> {<a=a>}]", r#"{"a": "x", "<a>": 3, "<#a>": 4}"#, r#"{"<a>": 3}"#),
        // Binding tags are not inherited.
        ("[{a} -> {a}]", r#"{"a": 1, "<#b>": 2}"#, r#"{"a": 1}"#),
        ("[{<#b>} -> {<#b>}]", r#"{"a": 1, "<#b>": 2}"#, r#"{"a": 1, "<#b>": 2}"#),
        ("[{<#b>} -> {<#c=1>}]", r#"{"a": 1, "<#b>": 2}"#, r#"{"a": 1, "<#c>": 1}"#),
        // Guards: the first one that holds wins; labels that an alternative needs are required only if it is
        // chosen.
        ("[{<t>} -> if <t> then {a} else {}]", r#"{"<t>": 0}"#, r#"{}"#),
        (
            "[{<t>} -> if <t > 1> then {<r=1>} else if <t> then {<r=2>};{<r=3>} else]",
            r#"{"<t>": 2}"#,
            r#"{"<r>": 1}"#,
        ),
        (
            "[{<t>} -> if <t > 1> then {<r=1>} else if <t> then {<r=2>};{<r=3>} else]",
            r#"{"<t>": 1}"#,
            r#"{"<r>": 2} {"<r>": 3}"#,
        ),
        ("[{<t>} -> if <t > 1> then {<r=1>} else if <t> then {<r=2>};{<r=3>} else]", r#"{"<t>": 0}"#, ""),
    ];
    for (text, input, expected) in table {
        let mut filter = Filter::compile(&filter(text));
        for _ in 0..2 {
            let outputs = apply(&mut filter, record(input));
            assert_eq!(outputs.map(|o| lines(&o)), Ok(expected.to_owned()), "{text} of {input}");
        }
    }
}

#[test]
fn a_filter_that_faults_emits_nothing_and_gives_the_record_back() {
    let table = [
        ("[{a} -> {}]", r#"{"b": 1}"#, RecordFault::MissingLabel(Label::field("a"))),
        ("[{a} -> {b=c}]", r#"{"a": 1}"#, RecordFault::MissingLabel(Label::field("c"))),
        ("[{<t>} -> if <t> then {a} else {}]", r#"{"<t>": 1}"#, RecordFault::MissingLabel(Label::field("a"))),
        ("[{<t>} -> {<r=1>};{<r=1/t>}]", r#"{"<t>": 0}"#, RecordFault::DivisionByZero),
        ("[{<t>} -> if <1/t> then {} else {}]", r#"{"<t>": 0}"#, RecordFault::DivisionByZero),
    ];
    for (text, input, fault) in table {
        assert_eq!(
            apply(&mut Filter::compile(&filter(text)), record(input)),
            Err((record(input), fault)),
            "{text}"
        );
    }
}

#[test]
fn filters_know_whether_they_are_one_to_one() {
    for (text, expected) in [
        ("[]", true),
        ("[{a} -> {b=a}]", true),
        ("[{a} -> {};{}]", false),
        ("[{a} -> ]", false),
        ("[{<t>} -> if <t> then {} else {<u>}]", true),
        ("[{<t>} -> if <t> then {} else]", false),
    ] {
        assert_eq!(Filter::compile(&filter(text)).is_one_to_one(), expected, "{text}");
    }
}

#[test]
fn patterns_look_at_labels_then_at_the_guard() {
    let table = [
        ("{}", r#"{}"#, true),
        ("{a}", r#"{"a": 1, "b": 1}"#, true),
        ("{a}", r#"{"<a>": 1}"#, false),
        ("{a,<t>}", r#"{"a": 1}"#, false),
        ("{<#b>}", r#"{"<#b>": 1}"#, true),
        ("{<#b>}", r#"{"a": 1}"#, false),
        ("{a}", r#"{"a": 1, "<#b>": 1}"#, true),
        ("{<t>} if <t > 2>", r#"{"<t>": 3}"#, true),
        ("{<t>} if <t > 2>", r#"{"<t>": 2}"#, false),
        ("{<t>,a} if <1 / t>", r#"{"<t>": 0}"#, false),
    ];
    for (text, input, expected) in table {
        assert_eq!(
            Pattern::compile(&pattern(text)).matches(&record(input)),
            Ok(expected),
            "{text} of {input}"
        );
    }
    let mut pattern = Pattern::compile(&pattern("{<t>} if <1 / t>"));
    assert_eq!(pattern.matches(&record(r#"{"<t>": 0}"#)), Err(RecordFault::DivisionByZero));
    assert_eq!(pattern.matches(&record(r#"{"<t>": 1}"#)), Ok(true));
}

#[test]
fn a_box_takes_its_arguments_in_order_or_names_what_is_missing() {
    let [a, t, x] = [Label::field("a"), Label::tag("t"), Label::field("x")];
    let record = record(r#"{"x": 0, "a": 1, "<t>": 2}"#);
    let plan = TakePlan::new(record.shape(), &[t, a]).unwrap();
    let values: Vec<&Value> = plan.arguments().iter().map(|&slot| &record.slots()[slot]).collect();
    assert_eq!(values, [&Value::Int(2), &Value::Int(1)]);
    let none = Label::field("none");
    assert_eq!(TakePlan::new(record.shape(), &[x, none]), Err(RecordFault::MissingLabel(none)));
}

#[test]
fn caches_keep_the_plans_of_all_shapes() {
    let shapes: Vec<_> =
        (0..40).map(|i| shape::of(&[Label::field("cached"), Label::tag(&format!("cached_{i}"))])).collect();
    let mut cache = PlanCache::new();
    let mut computed = 0;
    for round in 0..3 {
        for (i, &shape) in shapes.iter().enumerate().cycle().skip(round * 7).take(60) {
            let plan = *cache.get(shape, || {
                computed += 1;
                i
            });
            assert_eq!(plan, i);
        }
    }
    assert_eq!(computed, shapes.len());
}

/// The output of a filter for a record; `None` for a fault.
fn naive(filter: &ast::Filter, input: &Map) -> Option<Vec<Map>> {
    let rule = filter.rule.as_ref()?;
    let consumed: Vec<Label> = rule.pattern.labels.iter().map(Label::from).collect();
    if !consumed.iter().all(|label| input.contains_key(label)) {
        return None;
    }
    let mut chosen = &rule.action.otherwise;
    for (guard, outputs) in &rule.action.guarded {
        if evaluate(guard, input)? != 0 {
            chosen = outputs;
            break;
        }
    }
    chosen.iter().map(|output| naive_output(output, &consumed, input)).collect()
}

fn naive_output(output: &ast::OutRecord, consumed: &[Label], input: &Map) -> Option<Map> {
    let mut map = input.clone();
    map.retain(|label, _| !label.is_binding() && !consumed.contains(label));
    for item in &output.items {
        let label = Label::from(&item.label);
        let value = match &item.value {
            ItemValue::Copy if label.is_integer() => input.get(&label).cloned().unwrap_or(Value::Int(0)),
            ItemValue::Copy => input.get(&label)?.clone(),
            ItemValue::Rename(from) => input.get(&Label::field(&from.name))?.clone(),
            ItemValue::Expr(expression) => Value::Int(evaluate(expression, input)?),
        };
        map.insert(label, value);
    }
    Some(map)
}

fn written(label: Label) -> ast::Label {
    ast::Label { kind: label.kind(), name: label.name().into() }
}

fn any_output() -> impl Strategy<Value = ast::OutRecord> {
    let item = (any_label(), 0..NAMES.len(), any_expression(), any::<bool>()).prop_map(
        |(label, name, expression, copy)| {
            let from = ast::Ident { name: NAMES[name].into(), span: Default::default() };
            let value = match (copy, label.is_integer()) {
                (true, _) => ItemValue::Copy,
                (false, true) => ItemValue::Expr(expression),
                (false, false) => ItemValue::Rename(from),
            };
            ast::Item { label: written(label), value, span: Default::default() }
        },
    );
    prop::collection::vec(item, 0..6).prop_map(|items| ast::OutRecord { items, span: Default::default() })
}

fn any_filter() -> impl Strategy<Value = ast::Filter> {
    let outputs = || prop::collection::vec(any_output(), 0..4);
    let guarded = prop::collection::vec((any_expression(), outputs()), 0..3);
    (any_labels(4), guarded, outputs()).prop_map(|(labels, guarded, otherwise)| {
        let at = |&label| ast::LabelAt { label: written(label), span: Default::default() };
        let pattern = ast::Labels { labels: labels.iter().map(at).collect(), span: Default::default() };
        ast::Filter { rule: Some(ast::FilterRule { pattern, action: ast::Action { guarded, otherwise } }) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn filters_and_naive_filters_agree(filter in any_filter(), map in any_map(40)) {
        let mut compiled = Filter::compile(&filter);
        for _ in 0..2 {
            let outputs = apply(&mut compiled, to_record(&map));
            let outputs = outputs.ok().map(|outputs| outputs.iter().map(to_map).collect());
            prop_assert_eq!(outputs, naive(&filter, &map));
        }
    }

    #[test]
    fn outputs_of_boxes_inherit_what_is_not_consumed(
        map in any_map(18),
        consumed in any_labels(6),
        output in prop::collection::vec(any_label(), 0..18),
    ) {
        let given = |i: usize| Value::from(format!("given {i}"));
        let mut expected = map.clone();
        expected.retain(|label, _| !label.is_binding() && !consumed.contains(label));
        expected.extend(output.iter().enumerate().map(|(i, &label)| (label, given(i))));

        let mut input = to_record(&map);
        let plan = OutPlan::new(input.shape(), &consumed, &output);
        prop_assert_eq!(to_map(&plan.build(&input, given)), expected.clone());
        prop_assert_eq!(to_map(&input), map);
        for (slot, label) in input.shape().labels().iter().enumerate() {
            if consumed.contains(label) {
                input.take(slot);
            }
        }
        let last = plan.build_last(input, given);
        prop_assert_eq!(last.shape(), plan.shape());
        prop_assert_eq!(to_map(&last), expected);
    }

    #[test]
    fn setting_and_removing_labels_is_that_of_a_map(
        map in any_map(18),
        steps in prop::collection::vec((any_label(), any::<bool>()), 0..40),
    ) {
        let (mut expected, mut record) = (map.clone(), to_record(&map));
        for (i, (label, set)) in steps.into_iter().enumerate() {
            match set {
                true => {
                    expected.insert(label, Value::Int(i as i64));
                    record.set(label, Value::Int(i as i64));
                }
                false => prop_assert_eq!(record.remove(label), expected.remove(&label)),
            }
            prop_assert_eq!(to_map(&record), expected.clone());
            prop_assert_eq!(record.get(label), expected.get(&label));
            prop_assert_eq!(&record.clone(), &record);
        }
    }
}

//! Records as JSON Lines.

use proptest::prelude::*;
use thalweg_box::{Array, Bytes, Opaque};
use thalweg_net::Value;
use thalweg_net::json::{Reader, read_record, write_record};
use thalweg_net::label::Label;
use thalweg_net::record::Record;

use crate::naive::any_label;

fn write(record: &Record) -> String {
    let mut line = Vec::new();
    write_record(record, &mut line);
    String::from_utf8(line).unwrap()
}

#[test]
fn lines_are_read_and_written() {
    let table = [
        ("{}", "{}"),
        (" { } \r\n", "{}"),
        (
            r#"{"A": 5, "key": "text", "<n>": 3, "<#b>": 1}"#,
            r#"{"A": 5, "key": "text", "<n>": 3, "<#b>": 1}"#,
        ),
        (r#"{"<#b>":1,"<n>":3,"key":"text","A":5}"#, r#"{"A": 5, "key": "text", "<n>": 3, "<#b>": 1}"#),
        (r#"{"a": "é\n\"\u00e9\ud83d\ude00\/"}"#, r#"{"a": "é\n\"é😀/"}"#),
        (r#"{"\u0061": 1}"#, r#"{"a": 1}"#),
        (
            r#"{"a": -0, "b": 0, "<c>": -9223372036854775808}"#,
            r#"{"a": 0, "b": 0, "<c>": -9223372036854775808}"#,
        ),
        (r#"{"a": 1.5, "b": 1e3, "c": -2.0, "d": 1E-2}"#, r#"{"a": 1.5, "b": 1000.0, "c": -2.0, "d": 0.01}"#),
        (
            r#"{"a": {"$base64": ""}, "b": {"$base64": "AA=="}}"#,
            r#"{"a": {"$base64": ""}, "b": {"$base64": "AA=="}}"#,
        ),
        (r#"{"a":{ "$base64" : "+/8=" }}"#, r#"{"a": {"$base64": "+/8="}}"#),
        (r#"{"a": {"$float": "NaN"}}"#, r#"{"a": {"$float": "NaN"}}"#),
        (r#"{"a": {"$float": "-Infinity"}}"#, r#"{"a": {"$float": "-Infinity"}}"#),
    ];
    check(&table);
}

#[test]
fn what_records_have_no_value_for_comes_out_as_it_came() {
    let same = [
        r#"{"a": true, "b": false, "c": null}"#,
        r#"{"a": {}, "b": {"c":1 , "d": [ null,{ } ]}}"#,
        r#"{"a": ["x", "\u00e9"], "b": [[1, 2.50], []], "c": [1, true]}"#,
        r#"{"a": 1e400, "b": -1E+400, "c": 12345678901234567890, "d": [1e400]}"#,
        r#"{"a": [9007199254740993, 0.5]}"#,
        r#"{"a": "\ud83d", "b": "x\uDC00"}"#,
        r#"{"a": {"$base64": 5}, "b": {"$base64": "", "b": 1}, "c": {"$oid": "5f"}, "d": {"$date": {"$numberLong": "1"}}}"#,
        r#"{"@timestamp": "x", "": 1, "a\"b": 2, "user-id": 3}"#,
    ];
    check(&same.map(|line| (line, line)));
    check(&[("{\"a\":\r\n  {\n\t\"b\": \"x  y\",\n    \"c\": 1\n  }\n}", r#"{"a": {"b": "x  y","c": 1}}"#)]);
}

#[test]
fn what_no_program_names_keeps_its_spelling() {
    let mut reader = Reader::default();
    let mut written =
        |line: &str| write(&reader.read(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}")));
    for value in [
        "1.0",
        "1.10",
        "-0",
        "-0.0",
        "1e3",
        "1E5",
        "0.00001",
        "0.000001",
        "1e-7",
        "100000000000000000.0",
        "1.5",
        "123456789.123456789123",
        r#""\u00e9\/""#,
        r#""é/""#,
        "[1,2.50]",
        "[ ]",
        "[1, 2]",
        "3.141592653589793",
        "1e400",
    ] {
        let line = format!("{{\"unseen_by_programs\": {value}}}");
        assert_eq!(written(&line), line);
    }
    Label::field("seen_by_programs");
    assert_eq!(written(r#"{"seen_by_programs": 1.10, "<t>": -0}"#), r#"{"seen_by_programs": 1.1, "<t>": 0}"#);
    let array = reader.read(br#"{"seen_by_programs": [1,2.50]}"#).unwrap();
    assert_eq!(array.slots(), [Value::from(vec![1.0, 2.5])]);
}

fn check(table: &[(&str, &str)]) {
    for &(line, expected) in table {
        let record = read_record(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(write(&record), expected);
    }
}

#[test]
fn opaque_values_are_written_by_their_kind() {
    let opaque = Record::from_pairs([(Label::field("a"), Value::from(Opaque::new(1)))]);
    assert_eq!(write(&opaque), r#"{"a": {"$opaque": "opaque value"}}"#);
}

#[test]
fn errors_say_what_and_where() {
    let table = [
        ("", 1, "a record is an object"),
        ("[1]", 1, "a record is an object"),
        ("{", 2, "expected a label in quotes"),
        ("{a: 1}", 2, "expected a label in quotes"),
        (r#"{"a" 1}"#, 6, "expected `:` after the label a"),
        (r#"{"a": 1"#, 8, "expected `,` or `}` after the value of a"),
        (r#"{"a": 1,}"#, 9, "expected a label in quotes"),
        (r#"{"a": 1 "b": 2}"#, 9, "expected `,` or `}`"),
        (r#"{"a": 1} {}"#, 10, "something follows the record"),
        (r#"{"a": 1, "a": 2}"#, 10, "the label a is there twice"),
        (r#"{"<t>": 1, "\u003ct>": 2}"#, 12, "the label <t> is there twice"),
        (r#"{"a b": 1, "a\u0020b": 2}"#, 12, "the label a_x20_b is there twice"),
        (r#"{"a": }"#, 7, "expected a value"),
        (r#"{"a": "#, 7, "the line ends"),
        (r#"{"é": 1, "a": x}"#, 15, "expected a value"),
        (r#"{"b": "é", "a": x}"#, 17, "expected a value"),
        (r#"{"a": [1, [2}]}"#, 13, "expected `,` or `]` after an element of a list"),
        (r#"{"a": [1,]}"#, 10, "expected a value"),
        (r#"{"a": {"b": tru}}"#, 16, "expected true, false or null"),
        (r#"{"a": {"b": 01}}"#, 14, "expected `,` or `}` after a value"),
        (r#"{"a": {b: 1}}"#, 8, "expected a key in quotes"),
        (r#"{"a": {"b": 1}"#, 15, "expected `,` or `}` after the value of a"),
        (r#"{"a": {"b": 1"#, 14, "the line ends in a value"),
        (r#"{"a": nul}"#, 7, "expected true, false or null"),
        (r#"{"a": [1 2]}"#, 10, "expected `,` or `]` after an element of a list"),
        (r#"{"<a>": [1]}"#, 9, "its value must be an integer, not an array"),
        (r#"{"<t>": true}"#, 9, "its value must be an integer, not true"),
        (r#"{"<t>": null}"#, 9, "its value must be an integer, not null"),
        (r#"{"<t>": {"b": 1}}"#, 9, "its value must be an integer, not {\"b\": 1}"),
        (r#"{"<t>": 9223372036854775808}"#, 9, "does not fit into an integer of 64 bits"),
        (r#"{"<t>": -9223372036854775809}"#, 9, "does not fit into an integer of 64 bits"),
        (r#"{"a": 01}"#, 7, "not a number as JSON writes it"),
        (r#"{"a": -}"#, 7, "not a number"),
        (r#"{"a": 1.}"#, 7, "not a number"),
        (r#"{"a": 0x10}"#, 7, "not a number"),
        (r#"{"<t>": 1.0}"#, 9, "its value must be an integer, not a float"),
        (r#"{"<t>": "1"}"#, 9, "its value must be an integer, not a text"),
        (r#"{"<#t>": {"$base64": ""}}"#, 10, "its value must be an integer, not bytes"),
        (r#"{"a": "x}"#, 7, "no closing quote"),
        (r#"{"a": "x\"#, 7, "no closing quote"),
        ("{\"a\": \"x\ty\"}", 9, "control character"),
        (r#"{"a": "\x"}"#, 9, "escape that JSON does not have"),
        (r#"{"a": "\u12x4"}"#, 13, "escape that JSON does not have"),
        (r#"{"a": {"$base64": "AAA"}}"#, 19, "multiple of 4"),
        (r#"{"a": {"$base64": "A A="}}"#, 19, "a character that base64 does not have"),
        (r#"{"a": {"$base64": "AB=="}}"#, 19, "bits after its end"),
        (r#"{"a": {"$base64": "===="}}"#, 19, "a character that base64 does not have"),
        (r#"{"a": {"$float": "1"}}"#, 18, "expected \"NaN\""),
        (r#"{"a": {"$opaque": "x"}}"#, 7, "an opaque value cannot be read"),
    ];
    for (line, column, message) in table {
        let error = read_record(line.as_bytes()).expect_err(line);
        assert!(error.message.contains(message), "{line}: {error}");
        assert_eq!(error.column, column, "{line}: {error}");
    }
    assert_eq!(read_record(b"{\"a\": \"\xff\"}").unwrap_err().column, 8);
}

#[test]
fn nesting_and_length_do_not_exhaust_the_stack() {
    assert_eq!(read_record(&[b'['; 1_000_000]).unwrap_err().column, 1);
    let nested = r#"{"a": "#.repeat(200_000);
    assert!(read_record(nested.as_bytes()).unwrap_err().message.contains("more than 1024 lists and objects"));
}

#[test]
fn more_labels_than_a_record_can_have_are_refused() {
    let pairs: Vec<String> = (0..5000).map(|i| format!("\"many_in_json_{i}\": {i}")).collect();
    let error = read_record(format!("{{{}}}", pairs.join(",")).as_bytes()).unwrap_err();
    assert!(error.message.contains("more than 4096 labels"), "{error}");
}

#[test]
fn lines_with_other_keys_than_the_line_before_are_read() {
    let lines = [
        r#"{"a": 1, "b": 2, "<t>": 3}"#,
        r#"{"a": 4, "b": 5, "<t>": 6}"#,
        r#"{"b": 7, "a": 8, "<t>": 9}"#,
        r#"{"a": 1, "b": 2}"#,
        r#"{"a": 1, "b": 2, "<t>": 3, "<u>": 4}"#,
        r#"{"a": 1, "b": 2, "<t>": 3}"#,
        r#"{"a": 1, "b": 2, "<#t>": 3}"#,
        "{}",
        r#"{"a": 1}"#,
        "{}",
    ];
    for line in lines {
        let pairs = line.trim_matches(['{', '}']).split(", ").filter(|pair| !pair.is_empty());
        let expected = Record::from_pairs(pairs.map(|pair| {
            let (key, value) = pair.split_once(": ").unwrap();
            (Label::parse(key.trim_matches('"')).unwrap(), Value::Int(value.parse().unwrap()))
        }));
        assert_eq!(read_record(line.as_bytes()).unwrap(), expected, "{line}");
        assert!(
            read_record(line.replacen('}', ", \"a\": 1}", 1).as_bytes()).is_err() || !line.contains("\"a\"")
        );
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        any::<String>().prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(|bytes| Value::Bytes(Bytes::from_vec(bytes))),
        prop::collection::vec(any::<i64>(), 0..9).prop_map(Value::from),
        prop::collection::vec(any::<f64>(), 0..9).prop_map(Value::from),
    ]
}

#[test]
fn lists_are_arrays() {
    let value = |line: &str| read_record(line.as_bytes()).unwrap().get(Label::field("a")).unwrap().clone();
    assert_eq!(value(r#"{"a": [ 1 , -2]}"#), Value::from(vec![1_i64, -2]));
    assert_eq!(
        value(r#"{"a": [1, 0.5, {"$float": "Infinity"}]}"#),
        Value::from(vec![1.0, 0.5, f64::INFINITY])
    );
    assert_eq!(value(r#"{"a": []}"#), Value::from(Vec::<i64>::new()));
    let narrow = Record::from_pairs([
        (Label::field("a"), Value::Array(Array::from_slice(&[0.1_f32, 2.0]))),
        (Label::field("b"), Value::Array(Array::scalar(7_u16))),
        (Label::field("c"), Value::Array(Array::scalar(u64::MAX))),
    ]);
    assert_eq!(write(&narrow), r#"{"a": [0.1, 2.0], "b": 7, "c": 1.8446744073709552e+19}"#);
}

/// Any JSON value, except numbers that serde_json cannot represent.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec((any_key(), inner), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether two values are the same; 1 and 1.0 count as the same.
fn is_same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => a == b || a.as_f64() == b.as_f64() && (a.is_f64() != b.is_f64()),
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,3}", "[a-z_@ $.<>#-]{0,8}", any::<String>(), "(_|x|2D|-){1,6}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_object_passes_unchanged(
        members in prop::collection::vec((any_key(), any_json()), 0..12),
        pretty in any::<bool>(),
    ) {
        // Tags have only integers.
        let is_tag = |key: &str| Label::parse(key).is_ok_and(|label| label.is_integer());
        let members = members.into_iter().filter(|(key, _)| !is_tag(key));
        let object = serde_json::Value::Object(members.collect());
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        let text = text.unwrap();
        // serde_json rounds some floats when it reads them.
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        for record in [read_record(text.as_bytes()), Reader::default().read(text.as_bytes())] {
            let written = write(&record.unwrap());
            prop_assert!(!written.contains('\n'));
            let read: serde_json::Value = serde_json::from_str(&written).unwrap();
            prop_assert!(is_same(&read, &object), "{text} became {written}");
        }
    }

    #[test]
    fn what_is_written_is_read_back(pairs in prop::collection::vec((any_label(), any_value(), any::<i64>()), 0..18)) {
        let value = |(label, value, number): (Label, Value, i64)| match label.is_integer() {
            true => (label, Value::Int(number)),
            false => (label, value),
        };
        let record = Record::from_pairs(pairs.into_iter().map(value));
        let line = write(&record);
        prop_assert!(!line.contains('\n'));
        let read = read_record(line.as_bytes()).unwrap();
        // NaN is not equal to itself, so the written lines are compared.
        prop_assert_eq!(write(&read), line);
        prop_assert_eq!(read.shape(), record.shape());
    }

    #[test]
    fn no_line_panics(line in prop::collection::vec(prop::sample::select(b"{}[]\":,\\ a<#>tu0169.-+eE$base64=\xc3\xa9\x00\n".to_vec()), 0..40)) {
        let _ = read_record(&line);
        let mut object = br#"{"a": "#.to_vec();
        object.extend(line);
        let _ = read_record(&object);
    }
}

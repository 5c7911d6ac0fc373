use super::*;
use crate::run::RecordError;
use proptest::prelude::*;
use thalweg_box::Opaque;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        ".{0,20}".prop_map(|text: String| Value::Text(Text::from_string(text))),
        any::<i32>().prop_map(|number| Value::Text(Text::from_json(format!("[{number}]")))),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bytes(Bytes::from_vec(bytes))),
        prop::collection::vec(any::<f32>(), 0..9)
            .prop_map(|numbers| Value::Array(Array::from_slice(&numbers))),
        prop::collection::vec(any::<u16>(), 0..9)
            .prop_map(|numbers| Value::Array(Array::from_slice(&numbers))),
        any::<i8>().prop_map(|number| Value::Array(Array::scalar(number))),
        any::<f64>().prop_map(|number| Value::Array(Array::scalar(number))),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let fields = prop::collection::btree_map("[a-f]", value(), 0..5);
    let tags = prop::collection::btree_map("[a-f]", any::<i64>(), 0..5);
    (fields, tags, 0_u8..16).prop_map(|(fields, tags, ends)| {
        let fields = fields.into_iter().map(|(name, value)| (Label::field(&name), value));
        let tags = tags.into_iter().map(|(name, number)| (Label::tag(&name), Value::Int(number)));
        let mut record = Record::from_pairs(fields.chain(tags));
        record.set_ends(Ends::from_bits(ends));
        record
    })
}

/// The record as text, with the marks of its end; written independently of the encoding.
fn shown(record: &Record) -> (String, u8) {
    let slots = record.shape().labels().iter().zip(record.slots());
    let mut all: Vec<String> = slots
        .map(|(label, value)| match value {
            Value::Float(number) => format!("{label}: float {:x}", number.to_bits()),
            Value::Array(array) => {
                let bits: Vec<u64> = array.to_floats().iter().map(|number| number.to_bits()).collect();
                format!("{label}: {:?} {} {bits:?}", array.element_type(), array.is_scalar())
            }
            other => format!("{label}: {} {other}", other.kind()),
        })
        .collect();
    all.sort();
    (all.join("; "), record.ends().bits())
}

proptest! {
    #[test]
    fn records_arrive_as_they_were_sent(records in prop::collection::vec(record(), 1..20)) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for record in &records {
            let mut bytes = Vec::new();
            encoder.write(record, &mut bytes).unwrap();
            let arrived = decoder.read(&bytes).unwrap();
            prop_assert_eq!(shown(&arrived), shown(record));
        }
    }

    #[test]
    fn no_bytes_are_believed(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Decoder::default().read(&bytes);
        let _ = RecordError::from_bytes(&bytes);
    }

    #[test]
    fn a_damaged_record_is_another_one_or_none(record in record(), at in any::<prop::sample::Index>(), by in 1_u8..) {
        let mut bytes = Vec::new();
        Encoder::default().write(&record, &mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        // Decoding may also fail, for example because names from data are limited in number.
        if let Ok(other) = Decoder::default().read(&bytes) {
            prop_assert!(other.slots().len() <= bytes.len());
        }
        prop_assert!(Decoder::default().read(&bytes[..at]).is_err() || at == 0 || bytes[..at] == bytes[..]);
    }
}

#[test]
fn a_mark_is_no_empty_record() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    for (sent, shape) in
        [(Record::mark(Ends::GROUP), ShapeId::MARK), (Record::from_pairs([]), shape::of(&[]))]
    {
        let mut bytes = Vec::new();
        encoder.write(&sent, &mut bytes).unwrap();
        let arrived = decoder.read(&bytes).unwrap();
        assert_eq!((arrived.shape(), arrived.ends()), (shape, sent.ends()));
    }
}

#[test]
fn an_opaque_value_is_refused_and_changes_nothing() {
    let mut encoder = Encoder::default();
    let labels = [Label::field("wire_a"), Label::field("wire_b")];
    let opaque =
        Record::from_pairs([(labels[0], Value::Opaque(Opaque::new(7_u8))), (labels[1], Value::Int(1))]);
    let mut bytes = Vec::new();
    let refused = encoder.write(&opaque, &mut bytes).unwrap_err();
    assert!(refused.to_string().contains("wire_a") && bytes.is_empty(), "{refused}");
    let plain = Record::from_pairs([(labels[0], Value::Int(7)), (labels[1], Value::Int(1))]);
    encoder.write(&plain, &mut bytes).unwrap();
    assert_eq!(
        Decoder::default().read(&bytes).unwrap(),
        plain,
        "the shape is introduced with the first that is sent"
    );
}

#[test]
fn what_is_no_record_is_named() {
    let table: [(&[u8], &str); 8] = [
        (&[], "too early"),
        (&[0x40], "flags"),
        (&[0, 5], "not introduced"),
        (&[0, 0, 1, 9, 1, b'a'], "label kind"),
        (&[0, 0, 2, 0, 1, b'a', 0, 1, b'a'], "twice"),
        (&[0, 0, 1, 1, 1, b'a', 3, 1, b'x'], "no integer"),
        (&[0, 0, 0, 0], "follow"),
        (&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "64 bits"),
    ];
    for (bytes, what) in table {
        let said = Decoder::default().read(bytes).unwrap_err().to_string();
        assert!(said.contains(what), "{bytes:?}: {said}");
    }
}

#[test]
fn failures_arrive_as_they_were_told() {
    let record = Record::from_pairs([(Label::tag("wire_n"), Value::Int(-3))]);
    let (component, reason) = ("main/inc on b".to_owned(), "it is odd".to_owned());
    let error = RecordError { component, reason, stream: 7, index: 1 << 40, record, held: true };
    let arrived = RecordError::from_bytes(&error.to_bytes()).unwrap();
    assert_eq!(arrived.to_string(), error.to_string());
    assert_eq!((arrived.stream, arrived.index, arrived.held), (7, 1 << 40, true));
}

//! The writer of records and values as JSON.

use super::*;

/// Writes a record as one line, without the line's end; labels are sorted by kind and name.
pub fn write_record(record: &Record, line: &mut Vec<u8>) {
    let labels = record.shape().labels();
    let shown = record.shape().shown().iter().map(|&slot| usize::from(slot));
    line.push(b'{');
    write_pairs(shown.map(|slot| (labels[slot], &record.slots()[slot])), 0, line);
    line.push(b'}');
}

/// Writes a record as one line, without the line's end; values whose labels have paths are written at their
/// paths.
pub fn write_named(record: &Record, names: &Names, line: &mut Vec<u8>) {
    if names.is_empty() {
        return write_record(record, line);
    }
    let roots: Vec<Root> = names.roots().into_iter().filter_map(|key| Root::of(record, names, key)).collect();
    let (labels, shown) = (record.shape().labels(), record.shape().shown());
    let mut separator = "{";
    let mut key = |key: &str, line: &mut Vec<u8>| {
        line.extend_from_slice(std::mem::replace(&mut separator, ", ").as_bytes());
        serde_json::to_writer(&mut *line, key).expect("writing to memory does not fail");
        line.extend_from_slice(b": ");
    };
    for &slot in shown {
        let (label, value) = (labels[usize::from(slot)], &record.slots()[usize::from(slot)]);
        if roots.iter().any(|root| root.placed.contains(&label)) {
            continue;
        }
        match names.of(label) {
            Some(name) if name.path.len() == 1 => key(&name.path[0], line),
            // The label has a path, but the path does not exist in this record, so the label itself is the
            // key.
            Some(_) => key(&label.to_string(), line),
            None => key(&label.key(), line),
        }
        match roots.iter().find(|root| root.label == label) {
            Some(root) => line.extend_from_slice(root.text.as_bytes()),
            None => write_value(value, line),
        }
    }
    for root in roots.iter().filter(|root| !record.shape().has(root.label)) {
        key(root.key, line);
        line.extend_from_slice(root.text.as_bytes());
    }
    line.extend_from_slice(if separator == "{" { b"{}" } else { b"}" });
}

/// A key of a record into whose value named values are written.
struct Root<'n> {
    key: &'n str,
    label: Label,
    /// The text of the key's value, with the named values in their places.
    text: String,
    /// The labels whose values have a place in this text.
    placed: Vec<Label>,
}

impl<'n> Root<'n> {
    /// The root with this key; `None` if the record has no value for the key, or a value that is no list or
    /// object.
    fn of(record: &Record, names: &'n Names, key: &'n str) -> Option<Root<'n>> {
        let label = names.of_key(key).ok()?;
        let text = match record.get(label) {
            None => "{}".to_owned(),
            Some(Value::Text(text)) if text.is_json() => text.as_str().to_owned(),
            Some(_) => return None,
        };
        let mut root = Root { key, label, text, placed: Vec::new() };
        for name in names.below(key) {
            if let Some(value) = record.get(name.label) {
                root.place(name.label, &name.path[1..], value);
            }
        }
        (record.shape().has(label) || !root.placed.is_empty()).then_some(root)
    }

    /// Writes a value at its path, if the path exists.
    fn place(&mut self, label: Label, path: &[String], value: &Value) {
        let found = names::find(&self.text, path);
        if !found.is_some_and(|found| is_spelling_of(&self.text[found], value)) {
            let mut written = Vec::new();
            write_value(value, &mut written);
            let written = String::from_utf8_lossy(&written);
            let Some(text) = names::with(&self.text, path, &written) else { return };
            self.text = text;
        }
        self.placed.push(label);
    }
}

/// Whether reading the text `text` gives the value.
fn is_spelling_of(text: &str, value: &Value) -> bool {
    let mut latest = Keys::default();
    // A value that kept its spelling is compared by its text.
    is_json(value) && matches!(value, Value::Text(json) if json.as_str() == text)
        || Cursor::new(text, &mut latest, false).value(None).is_ok_and(|read| read == *value)
}

/// Appends a label as a key, and the separator before its value.
#[inline]
fn write_key(label: Label, line: &mut Vec<u8>) {
    let (open, name, close) = match label.kind() {
        LabelKind::Field => ("", label.quoted_key(), ": "),
        // A name has only letters, digits and `_`, so it needs no escapes.
        LabelKind::Tag => ("\"<", label.name(), ">\": "),
        LabelKind::BindingTag => ("\"<#", label.name(), ">\": "),
    };
    for part in [open, name, close] {
        line.extend_from_slice(part.as_bytes());
    }
}

/// Writes these labels of a record in their order, after the number of the question, if a number is given.
/// Returns false, with an unfinished line, if the record lacks a label.
pub(crate) fn write_question(
    record: &Record,
    question: Option<u64>,
    labels: &[Label],
    line: &mut Vec<u8>,
) -> bool {
    let there = labels.iter().map_while(|&label| Some((label, record.get(label)?)));
    line.push(b'{');
    if let Some(number) = question {
        line.extend_from_slice(b"\"@\": ");
        serde_json::to_writer(&mut *line, &number).expect("writing to memory does not fail");
    }
    let count = write_pairs(there, usize::from(question.is_some()), line);
    line.push(b'}');
    count == labels.len()
}

/// Writes the pairs of an object after `before` other pairs; returns the total number of pairs.
fn write_pairs<'a>(
    pairs: impl Iterator<Item = (Label, &'a Value)>,
    before: usize,
    line: &mut Vec<u8>,
) -> usize {
    let mut count = 0;
    for (label, value) in pairs {
        let separator: &[u8] = if before + count == 0 { b"" } else { b", " };
        line.extend_from_slice(separator);
        // The key `@` is reserved for the number of the question, so a field with this key gets its encoded
        // name as its key.
        if before > 0 && label.quoted_key() == QUOTED_QUESTION {
            line.extend(format!("\"{}\": ", label.name()).bytes());
        } else {
            write_key(label, line);
        }
        write_value(value, line);
        count += 1;
    }
    count
}

/// Appends a value.
pub fn write_value(value: &Value, line: &mut Vec<u8>) {
    const TO_MEMORY: &str = "writing to memory does not fail";
    match value {
        Value::Int(number) => serde_json::to_writer(line, number).expect(TO_MEMORY),
        Value::Float(number) if number.is_finite() => serde_json::to_writer(line, number).expect(TO_MEMORY),
        Value::Float(number) => {
            let name = match number {
                n if n.is_nan() => "NaN",
                n if *n > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            line.extend_from_slice(format!("{{\"$float\": \"{name}\"}}").as_bytes());
        }
        Value::Text(text) if text.is_json() => line.extend_from_slice(text.as_str().as_bytes()),
        Value::Text(text) => serde_json::to_writer(line, text.as_str()).expect(TO_MEMORY),
        Value::Bytes(bytes) => {
            line.extend_from_slice(b"{\"$base64\": \"");
            base64::encode(bytes, line);
            line.extend_from_slice(b"\"}");
        }
        Value::Opaque(opaque) => {
            line.extend_from_slice(b"{\"$opaque\": ");
            let text = opaque.text().unwrap_or_else(|| "opaque value".to_owned());
            serde_json::to_writer(&mut *line, &text).expect(TO_MEMORY);
            line.push(b'}');
        }
        Value::Array(array) => write_array(array, line),
    }
}

/// Writes an array as a list, and a single number as itself. Element types are lost: a list that is read
/// again is of `long` or `double`.
fn write_array(array: &Array, line: &mut Vec<u8>) {
    let mut separator = if array.is_scalar() { "" } else { "[" };
    let mut next = |value: &Value, line: &mut Vec<u8>| {
        line.extend_from_slice(std::mem::replace(&mut separator, ", ").as_bytes());
        write_value(value, line);
    };
    if let Some(numbers) = array.as_slice::<f32>() {
        // A `float` is converted by its digits, because the nearest `double` would have nine more digits.
        for number in numbers {
            next(&Value::Float(number.to_string().parse().unwrap_or(f64::from(*number))), line);
        }
    } else if let Some(numbers) = array.to_integers() {
        numbers.into_iter().for_each(|number| next(&Value::Int(number), line));
    } else {
        array.to_floats().into_iter().for_each(|number| next(&Value::Float(number), line));
    }
    if !array.is_scalar() {
        line.extend_from_slice(if array.is_empty() { b"[]" } else { b"]" });
    }
}

//! Records as JSON Lines: one record a line.
//!
//! ```text
//! {"A": 5, "x": 0.5, "key": "text", "data": {"$base64": "AAEC"}, "<n>": 3, "<#b>": 1}
//! ```
//! A key is a label; tags and binding tags have integers of 64 bits. A number with a fraction or an exponent
//! is a float; `{"$float": "NaN"}` (or `"Infinity"`, `"-Infinity"`) stands for what JSON has no number for.
//! A list of numbers is an array: of `long` if all are integers, else of `double`.
//! Values that only boxes understand are written as `{"$opaque": "opaque value"}` and cannot be read back.
//!
//! ```
//! use thalweg_net::json;
//! let record = json::read_record(br#"{"A": 5, "<n>": 3}"#).unwrap();
//! let mut line = Vec::new();
//! json::write_record(&record, &mut line);
//! assert_eq!(line, br#"{"A": 5, "<n>": 3}"#);
//! assert_eq!(json::read_record(b"{\"A\": [[1]]}").unwrap_err().column, 8);
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use thalweg_box::{Array, Bytes, Text, Value};

use crate::label::Label;
use crate::record::Record;
use crate::shape::{self, ShapeId};

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Where, in characters from 1 (in bytes, if the line is not UTF-8).
    pub column: usize,
    /// What, and what to write instead.
    pub message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for JsonError {}

/// Reads a line, with or without its end.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_record(line: &[u8]) -> Result<Record, JsonError> {
    read(line, |reader| {
        let record = reader.record()?;
        reader.end("something follows the record; write one record a line")?;
        Ok(record)
    })
}

/// Reads a line that may have several records: an object, a list of objects, or nothing, `null` or `[]`.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn read_records(line: &[u8]) -> Result<Vec<Record>, JsonError> {
    read(line, |reader| reader.records())
}

/// The key by which a question to a program, and each answer, has the question's number. Labels are letters, digits and `_`, so
/// it is none.
const QUESTION: &str = "@";

/// Reads a line that answers a question: `{"@": 17, "label": value, …}` (a record), or a list that begins with the question's
/// number: `[17]` (no record), `[17, {…}, {…}]`. Which question it answers, if it says that, also where it is no answer.
pub(crate) fn read_answer(line: &[u8]) -> (Option<i64>, Result<Vec<Record>, JsonError>) {
    let mut question = None;
    let records = read(line, |reader| {
        reader.names_question = true;
        let records = reader.records();
        question = reader.question;
        records
    });
    if records.is_err() && question.is_none() {
        question = question_of(line);
    }
    (question, records)
}

/// The question of a line that is JSON, but no answer.
#[cold]
fn question_of(line: &[u8]) -> Option<i64> {
    match serde_json::from_slice(line).ok()? {
        serde_json::Value::Object(answer) => answer.get(QUESTION)?.as_i64(),
        serde_json::Value::Array(list) => list.first()?.as_i64(),
        _ => None,
    }
}

fn read<R>(line: &[u8], read: impl FnOnce(&mut Reader) -> Result<R, Fault>) -> Result<R, JsonError> {
    let text = std::str::from_utf8(line).map_err(|error| JsonError {
        column: error.valid_up_to() + 1,
        message: "the line is not UTF-8; write bytes as {\"$base64\": \"…\"}".into(),
    })?;
    let read = LATEST.with_borrow_mut(|latest| read(&mut Reader::new(text, latest)));
    read.map_err(|Fault { at, message }| JsonError {
        column: text[..at.min(text.len())].chars().count() + 1,
        message,
    })
}

thread_local! {
    static LATEST: RefCell<Keys> = const { RefCell::new(Keys { keys: Vec::new(), shape: None }) };
}

/// The keys of the line before, in their order, with their labels and slots: most lines have the same ones,
/// and need no look-up.
struct Keys {
    keys: Vec<(String, Label, usize)>,
    shape: Option<ShapeId>,
}

/// Writes a record as one line, without its end; labels by kind and name.
pub fn write_record(record: &Record, line: &mut Vec<u8>) {
    let labels = record.shape().labels();
    let shown = record.shape().shown().iter().map(|&slot| usize::from(slot));
    line.push(b'{');
    write_pairs(shown.map(|slot| (labels[slot], &record.slots()[slot])), 0, line);
    line.push(b'}');
}

/// Writes those labels, which the record has, in their order, after the question's number, if it has one. False, and an
/// unfinished line: the record lacks a label.
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

/// Writes what is in an object after so many other pairs; returns how many pairs follow these.
fn write_pairs<'a>(
    pairs: impl Iterator<Item = (Label, &'a Value)>,
    before: usize,
    line: &mut Vec<u8>,
) -> usize {
    let mut count = 0;
    for (label, value) in pairs {
        let separator: &[u8] = if before + count == 0 { b"" } else { b", " };
        line.extend_from_slice(separator);
        let (open, close) = match label.kind() {
            crate::label::LabelKind::Field => ("\"", "\": "),
            crate::label::LabelKind::Tag => ("\"<", ">\": "),
            crate::label::LabelKind::BindingTag => ("\"<#", ">\": "),
        };
        // A name is letters, digits and `_`: nothing to escape.
        for part in [open, label.name(), close] {
            line.extend_from_slice(part.as_bytes());
        }
        write_value(value, line);
        count += 1;
    }
    count
}

fn write_value(value: &Value, line: &mut Vec<u8>) {
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
        Value::Text(text) => serde_json::to_writer(line, text.as_str()).expect(TO_MEMORY),
        Value::Bytes(bytes) => {
            line.extend_from_slice(b"{\"$base64\": \"");
            base64_encode(bytes, line);
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

/// An array as a list; a single number as itself. Types get lost: a list that is read again is of `long` or `double`.
fn write_array(array: &Array, line: &mut Vec<u8>) {
    let mut separator = if array.is_scalar() { "" } else { "[" };
    let mut next = |value: &Value, line: &mut Vec<u8>| {
        line.extend_from_slice(std::mem::replace(&mut separator, ", ").as_bytes());
        write_value(value, line);
    };
    if let Some(numbers) = array.as_slice::<f32>() {
        // By way of its digits: the nearest `double` would have nine more of them.
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

struct Fault {
    /// In bytes.
    at: usize,
    message: String,
}

fn fault<T>(at: usize, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, message: message.into() })
}

struct Reader<'a, 'k> {
    text: &'a str,
    at: usize,
    latest: &'k mut Keys,
    /// Whether all keys so far are those of the line before.
    follows: bool,
    /// Whether the line may name a question; which it does.
    names_question: bool,
    question: Option<i64>,
}

impl<'a, 'k> Reader<'a, 'k> {
    fn new(text: &'a str, latest: &'k mut Keys) -> Reader<'a, 'k> {
        Reader { text, at: 0, latest, follows: true, names_question: false, question: None }
    }
    fn record(&mut self) -> Result<Record, Fault> {
        self.space();
        if self.peek() != Some(b'{') {
            return fault(self.at, "a record is an object: {\"label\": value, …}");
        }
        let start = self.at;
        self.at += 1;
        let mut pairs: Vec<(Label, Value)> = Vec::with_capacity(8);
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            while self.pair(&mut pairs)? {}
        }
        self.finish(start, pairs)
    }

    /// Nothing but space may follow.
    fn end(&mut self, message: &str) -> Result<(), Fault> {
        self.space();
        if self.at < self.text.len() { fault(self.at, message) } else { Ok(()) }
    }

    fn records(&mut self) -> Result<Vec<Record>, Fault> {
        const END: &str = "something follows the records";
        self.space();
        let mut records = Vec::new();
        match self.peek() {
            None => return Ok(records),
            Some(b'{') => records.push(self.record()?),
            Some(b'[') => {
                self.at += 1;
                self.space();
                self.question_of_list()?;
                while self.peek() != Some(b']') {
                    // Each may have other labels than the one before.
                    self.follows = true;
                    records.push(self.record()?);
                    self.space();
                    match self.peek() {
                        Some(b',') => self.at += 1,
                        Some(b']') => {}
                        _ => return fault(self.at, "expected `,` or `]` after a record"),
                    }
                }
                self.at += 1;
            }
            Some(b'n') if self.text[self.at..].starts_with("null") => self.at += 4,
            Some(_) => return fault(self.at, "expected an object, a list of objects, or null"),
        }
        self.end(END)?;
        Ok(records)
    }

    /// The number at the beginning of a list, and what follows it.
    fn question_of_list(&mut self) -> Result<(), Fault> {
        if !self.names_question || !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return Ok(());
        }
        self.name_question()?;
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(b']') => {}
            _ => return fault(self.at, "expected `,` or `]` after the question's number"),
        }
        self.space();
        Ok(())
    }

    /// Reads the number of a question, and the space after it.
    fn name_question(&mut self) -> Result<(), Fault> {
        let at = self.at;
        let named = match self.value()? {
            Value::Int(number) => number,
            other => return fault(at, format!("a question is named by an integer, not {}", a(&other))),
        };
        if *self.question.get_or_insert(named) != named {
            return fault(at, "the line answers two questions; print a line for each");
        }
        self.space();
        Ok(())
    }

    /// Reads what follows the key of a question; whether another pair must follow.
    fn question_pair(&mut self) -> Result<bool, Fault> {
        self.space();
        if self.peek() != Some(b':') {
            return fault(self.at, "expected `:` after \"@\"");
        }
        self.at += 1;
        self.space();
        self.name_question()?;
        self.at += 1;
        match self.text.as_bytes().get(self.at - 1) {
            Some(b',') => Ok(true),
            Some(b'}') => Ok(false),
            _ => fault(self.at - 1, "expected `,` or `}` after the question's number"),
        }
    }

    fn finish(&mut self, start: usize, pairs: Vec<(Label, Value)>) -> Result<Record, Fault> {
        let shape = match self.latest.shape {
            Some(shape) if self.follows && self.latest.keys.len() == pairs.len() => shape,
            _ => self.learn(start, &pairs)?,
        };
        let mut record = Record::with_shape(shape);
        let slots = record.slots_mut();
        for ((_, value), (_, _, slot)) in pairs.into_iter().zip(&self.latest.keys) {
            slots[*slot] = value;
        }
        Ok(record)
    }

    /// Looks the shape up and keeps it for the next line.
    #[cold]
    fn learn(&mut self, start: usize, pairs: &[(Label, Value)]) -> Result<ShapeId, Fault> {
        let labels: Vec<Label> = pairs.iter().map(|(label, _)| *label).collect();
        let shape = shape::from_data(&labels).or_else(|error| fault(start, error.to_string()))?;
        let slot = |label| shape.slot(label).expect("the shape was made of these labels");
        self.latest.keys = labels.into_iter().map(|label| (label.to_string(), label, slot(label))).collect();
        self.latest.shape = Some(shape);
        Ok(shape)
    }

    /// The label of a key, which must not be among the pairs.
    #[inline]
    fn label(&mut self, at: usize, key: &str, pairs: &[(Label, Value)]) -> Result<Label, Fault> {
        match self.latest.keys.get(pairs.len()) {
            Some((known, label, _)) if self.follows && known == key => Ok(*label),
            _ => {
                self.follows = false;
                self.look_up(at, key, pairs)
            }
        }
    }

    #[cold]
    fn look_up(&self, at: usize, key: &str, pairs: &[(Label, Value)]) -> Result<Label, Fault> {
        let label = Label::parse(key).or_else(|error| fault(at, format!("{key:?} is {error}")))?;
        if pairs.iter().any(|(known, _)| *known == label) {
            return fault(at, format!("the label {label} is there twice"));
        }
        if pairs.len() == shape::LABELS_MAX {
            return fault(at, shape::ShapeError::TooManyLabels.to_string());
        }
        Ok(label)
    }

    /// Reads `"label": value` and what follows; whether another one must follow.
    fn pair(&mut self, pairs: &mut Vec<(Label, Value)>) -> Result<bool, Fault> {
        self.space();
        let at = self.at;
        if self.peek() != Some(b'"') {
            return fault(at, "expected a label in quotes, such as \"a\" or \"<t>\"");
        }
        let key = self.string()?;
        if self.names_question && key == QUESTION {
            return self.question_pair();
        }
        let label = self.label(at, &key, pairs)?;
        self.space();
        if self.peek() != Some(b':') {
            return fault(self.at, format!("expected `:` after the label {label}"));
        }
        self.at += 1;
        self.space();
        let value_at = self.at;
        let value = self.value()?;
        if label.is_integer() && !matches!(value, Value::Int(_)) {
            return fault(
                value_at,
                format!("{label} is a tag: its value must be an integer, not {}", a(&value)),
            );
        }
        pairs.push((label, value));
        self.space();
        self.at += 1;
        match self.text.as_bytes().get(self.at - 1) {
            Some(b',') => Ok(true),
            Some(b'}') => Ok(false),
            _ => fault(self.at - 1, format!("expected `,` or `}}` after the value of {label}")),
        }
    }

    fn value(&mut self) -> Result<Value, Fault> {
        match self.peek() {
            Some(b'"') => Ok(Value::Text(Text::from_string(self.string()?.into_owned()))),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{') => self.wrapped(),
            Some(b'[') => self.list(),
            Some(b't' | b'f') => fault(self.at, "true and false are not values of a record; write 1 and 0"),
            Some(b'n') => fault(self.at, "null is not a value of a record; leave the label out"),
            Some(_) => {
                fault(self.at, "expected a value: a number, a text in quotes, or {\"$base64\": \"…\"}")
            }
            None => fault(self.at, "the line ends where a value is expected"),
        }
    }

    /// A list of numbers: of integers, or of floats if one of them is.
    fn list(&mut self) -> Result<Value, Fault> {
        let mut integers = Vec::new();
        let mut floats: Option<Vec<f64>> = None;
        let mut first = true;
        self.at += 1;
        self.space();
        while self.peek() != Some(b']') {
            if !std::mem::take(&mut first) {
                if self.peek() != Some(b',') {
                    return fault(self.at, "expected `,` or `]` after an element of a list");
                }
                self.at += 1;
                self.space();
            }
            if !matches!(self.peek(), Some(b'-' | b'0'..=b'9' | b'{')) {
                return fault(
                    self.at,
                    "a list holds numbers only; send other elements as records, or bytes as {\"$base64\": \"…\"}",
                );
            }
            match (self.value()?, &mut floats) {
                (Value::Int(number), None) => integers.push(number),
                (Value::Int(number), Some(floats)) => floats.push(number as f64),
                (Value::Float(number), Some(floats)) => floats.push(number),
                (Value::Float(number), None) => {
                    let before = integers.iter().map(|&number| number as f64);
                    floats = Some(before.chain([number]).collect());
                }
                (other, _) => return fault(self.at, format!("a list holds numbers only, not {}", a(&other))),
            }
            self.space();
        }
        self.at += 1;
        Ok(Value::Array(match floats {
            Some(floats) => Array::from_slice(&floats),
            None => Array::from_slice(&integers),
        }))
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = self.text.as_bytes()[start..].iter().take_while(|byte| is_part(byte)).count();
        self.at += length;
        let text = &self.text[start..self.at];
        let Some(is_float) = is_json_number(text.as_bytes()) else {
            return fault(start, format!("{text} is not a number as JSON writes it"));
        };
        if !is_float {
            return text.parse().map(Value::Int).or_else(|_| {
                let help = "write it as a text or a float";
                fault(start, format!("{text} does not fit into an integer of 64 bits; {help}"))
            });
        }
        match text.parse() {
            Ok(number) if f64::is_finite(number) => Ok(Value::Float(number)),
            _ => fault(start, format!("{text} is too large for a float of 64 bits")),
        }
    }

    /// `{"$base64": "…"}` or `{"$float": "…"}`.
    fn wrapped(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        const NESTED: &str = "a record cannot hold an object; only {\"$base64\": \"…\"} (bytes) and \
                              {\"$float\": \"NaN\"} are values";
        self.at += 1;
        self.space();
        if self.peek() != Some(b'"') {
            return fault(start, NESTED);
        }
        let key = self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return fault(self.at, "expected `:`");
        }
        self.at += 1;
        self.space();
        match &*key {
            "$base64" | "$float" => {}
            "$opaque" => {
                return fault(
                    start,
                    "an opaque value cannot be read: only the box that made it knew what it is",
                );
            }
            _ => return fault(start, NESTED),
        }
        let at = self.at;
        if self.peek() != Some(b'"') {
            return fault(at, format!("expected a text in quotes after {key:?}"));
        }
        let text = self.string()?;
        let value = match &*key {
            "$float" => float_named(&text).ok_or("expected \"NaN\", \"Infinity\" or \"-Infinity\""),
            _ => base64_decode(text.as_bytes()).map(|bytes| Value::Bytes(Bytes::from_vec(bytes))),
        };
        let value = value.or_else(|message| fault(at, message))?;
        self.space();
        if self.peek() != Some(b'}') {
            return fault(self.at, format!("expected `}}` after the value of {key:?}"));
        }
        self.at += 1;
        Ok(value)
    }

    /// Reads a string; the next byte is its first quote.
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        let mut escapes = false;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escapes = true;
                    end += 2;
                }
                Some(0..=0x1f) => return fault(end, "a control character in a text must be escaped"),
                Some(_) => end += 1,
                None => return fault(start, "the text has no closing quote"),
            }
        }
        self.at = end + 1;
        if !escapes {
            return Ok(Cow::Borrowed(&self.text[start + 1..end]));
        }
        let quoted = &self.text[start..self.at];
        serde_json::from_str(quoted).map(Cow::Owned).or_else(|error| {
            let at = start + error.column().saturating_sub(1).min(quoted.len() - 1);
            let at = (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0);
            fault(at, "an escape that JSON does not have")
        })
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// Whether a number has a fraction or an exponent; `None` if it is no number (RFC 8259, section 6).
fn is_json_number(text: &[u8]) -> Option<bool> {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then(|| &text[count..])
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let mut rest = match text {
        [b'0', rest @ ..] => rest,
        _ => digits(text)?,
    };
    let is_float = !rest.is_empty();
    if let [b'.', fraction @ ..] = rest {
        rest = digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = digits(exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent))?;
    }
    rest.is_empty().then_some(is_float)
}

fn a(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Text(_) => "a text",
        Value::Bytes(_) => "bytes",
        Value::Opaque(_) => "an opaque value",
        Value::Array(_) => "an array",
    }
}

fn float_named(name: &str) -> Option<Value> {
    Some(Value::Float(match name {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ => return None,
    }))
}

// ---- Base64: RFC 4648, section 4, with padding ----

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Value of each digit; 64 and more for what is none.
static DIGIT_VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut i = 0;
    while i < DIGITS.len() {
        values[DIGITS[i] as usize] = i as u8;
        i += 1;
    }
    values
};

fn base64_encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    let (triples, rest) = bytes.as_chunks::<3>();
    for &[a, b, c] in triples {
        out.extend_from_slice(&four_digits(a, b, c));
    }
    match *rest {
        [a] => out.extend_from_slice(&[four_digits(a, 0, 0)[0], four_digits(a, 0, 0)[1], b'=', b'=']),
        [a, b] => {
            let [d, e, f, _] = four_digits(a, b, 0);
            out.extend_from_slice(&[d, e, f, b'=']);
        }
        _ => {}
    }
}

fn four_digits(a: u8, b: u8, c: u8) -> [u8; 4] {
    let bits = u32::from_be_bytes([0, a, b, c]);
    [18, 12, 6, 0].map(|shift| DIGITS[(bits >> shift & 63) as usize])
}

fn base64_decode(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    const LENGTH: &str = "the base64 text is cut off: its length must be a multiple of 4 (padded with `=`)";
    const DIGIT: &str = "a character that base64 does not have (A–Z, a–z, 0–9, +, /, padding =)";
    const ENDED: &str = "the base64 text has bits after its end: it was cut off or changed";
    let (fours, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(LENGTH);
    }
    let Some((last, fours)) = fours.split_last() else { return Ok(Vec::new()) };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut push = |four: [u8; 4], count: usize| {
        let values = four.map(|digit| DIGIT_VALUES[digit as usize]);
        let bits = values.iter().fold(0, |bits: u32, &value| bits << 6 | u32::from(value & 63));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..1 + count]);
        let unused = (1 << (8 * (3 - count))) - 1;
        match values.iter().any(|&value| value > 63) {
            true => Err(DIGIT),
            false if bits & unused != 0 => Err(ENDED),
            false => Ok(()),
        }
    };
    for &four in fours {
        push(four, 3)?;
    }
    match *last {
        [a, b, b'=', b'='] => push([a, b, b'A', b'A'], 1)?,
        [a, b, c, b'='] => push([a, b, c, b'A'], 2)?,
        four => push(four, 3)?,
    }
    Ok(bytes)
}

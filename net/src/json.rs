//! Records as JSON: one object per record, and in files one record per line.
//!
//! ```text
//! {"A": 5, "x": 0.5, "key": "text", "data": {"$base64": "AAEC"}, "<n>": 3, "<#b>": 1}
//! ```
//! A key is a label; tags and binding tags have integers of 64 bits. A key that is no label becomes the field
//! that [`Label::of_key`] makes of it, and the field is written as this key again. A number with a fraction
//! or an exponent is a float; `{"$float": "NaN"}` (or `"Infinity"`, `"-Infinity"`) represents floats that
//! JSON cannot write as numbers. A list of numbers is an array: of `long` if all are integers, else of
//! `double`. Any other JSON value (`true`, `null`, objects, other lists, numbers of more than 64 bits) is
//! carried as its text ([`Text::from_json`]) and written unchanged. Values that only boxes understand are
//! written as `{"$opaque": "opaque value"}` and cannot be read back.
//!
//! A [`Reader`] also carries a value as its text if no program reads the value and writing it would spell it
//! differently: `1.10`, `"\u00e9"`, `[1, 2.5]`.
//!
//! ```
//! use thalweg_net::json;
//! let record = json::read_record(br#"{"A": 5, "<n>": 3, "user-id": {"x": null}}"#).unwrap();
//! let mut line = Vec::new();
//! json::write_record(&record, &mut line);
//! assert_eq!(line, br#"{"A": 5, "user-id": {"x": null}, "<n>": 3}"#);
//! assert_eq!(json::read_record(b"{\"A\": [[1]}").unwrap_err().column, 11);
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use thalweg_box::{Array, Bytes, Text, Value};

use crate::label::{Label, LabelKind};
use crate::record::Record;
use crate::shape::{self, ShapeId};

mod base64;
mod cursor;
mod names;
mod nested;
mod scan;
mod write;

pub use names::Names;
pub use scan::{DEPTH_MAX, Scan, Wrong};
pub(crate) use write::write_question;
pub use write::{write_named, write_record, write_value};

use cursor::{Cursor, Fault, Keys, is_spelled_so, respelled};

/// An error in a record's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The line of the text, from 1.
    pub line: usize,
    /// The column in the line, in characters from 1 (in bytes, if the text is not UTF-8).
    pub column: usize,
    /// The fault, and what to write instead.
    pub message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for JsonError {}

/// Reads a record, with or without the end of its line.
///
/// # Errors
/// The first error in the text.
pub fn read_record(text: &[u8]) -> Result<Record, JsonError> {
    LATEST.with_borrow_mut(|latest| read(text, latest, false, |cursor| cursor.only_record()))
}

/// Reads the records of an input in sequence.
#[derive(Debug, Default)]
pub struct Reader {
    latest: Keys,
    names: Arc<Names>,
}

impl Reader {
    /// A reader that gives these labels to the values at the paths that belong to the labels.
    pub fn named(names: Arc<Names>) -> Reader {
        Reader { latest: Keys::default(), names }
    }

    /// Reads a record as [`read_record`] does, but values that no program names keep their spelling.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn read(&mut self, text: &[u8]) -> Result<Record, JsonError> {
        let names = &self.names;
        read(text, &mut self.latest, true, |cursor| {
            cursor.names = (!names.is_empty()).then_some(names);
            cursor.only_record()
        })
    }
}

/// Reads a line that may have several records: an object, a list of objects, or nothing, `null` or `[]`.
///
/// # Errors
/// The first error in the text.
pub(crate) fn read_records(line: &[u8]) -> Result<Vec<Record>, JsonError> {
    LATEST.with_borrow_mut(|latest| read(line, latest, false, |cursor| cursor.records()))
}

/// The value of a JSON text that a [`Reader`] carried unchanged; `None` if S-Net has no value for it.
pub fn plain(text: &Text) -> Option<Value> {
    let mut latest = Keys::default();
    let mut cursor = Cursor::new(text.as_str(), &mut latest, false);
    let value = cursor.value(None).ok()?;
    (!is_json(&value)).then_some(value)
}

/// The value of a float that a file spells as `text`: the number, or the text if writing the number would
/// spell it differently.
pub fn spelled(number: f64, text: &str) -> Value {
    let is_json = || Scan::new().push(format!("{text} ").as_bytes()) == Ok(Some(text.len()));
    match is_spelled_so(text) || respelled(text) || !is_json() {
        true => Value::Float(number),
        false => Value::Text(Text::from_json(text.to_owned())),
    }
}

fn is_json(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text.is_json())
}

/// The key of the number of a question, in the questions that are written to a program and in the program's
/// answers. This key is no label, because labels are letters, digits and `_`.
const QUESTION: &str = "@";
const QUOTED_QUESTION: &str = "\"@\"";

/// Reads a line that answers a question: `{"@": 17, "label": value, …}` (a record), or a list that begins
/// with the question's number: `[17]` (no record), `[17, {…}, {…}]`. Also returns the number of the question,
/// if the line contains it, even if the line is no valid answer.
pub(crate) fn read_answer(line: &[u8]) -> (Option<i64>, Result<Vec<Record>, JsonError>) {
    let mut question = None;
    let records = LATEST.with_borrow_mut(|latest| {
        read(line, latest, false, |cursor| {
            cursor.names_question = true;
            let records = cursor.records();
            question = cursor.question;
            records
        })
    });
    if records.is_err() && question.is_none() {
        question = question_of(line);
    }
    (question, records)
}

/// The question's number in a line that is JSON, but no answer.
#[cold]
fn question_of(line: &[u8]) -> Option<i64> {
    match serde_json::from_slice(line).ok()? {
        serde_json::Value::Object(answer) => answer.get(QUESTION)?.as_i64(),
        serde_json::Value::Array(list) => list.first()?.as_i64(),
        _ => None,
    }
}

fn read<'k, R>(
    text: &[u8],
    latest: &'k mut Keys,
    keeps_spelling: bool,
    read: impl FnOnce(&mut Cursor<'_, 'k>) -> Result<R, Fault>,
) -> Result<R, JsonError> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        let (line, begin) = line_of(text, at);
        let message = match text {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                "this is UTF-16; convert it, as by `iconv -f UTF-16 -t UTF-8`"
            }
            _ => "the line is not UTF-8; write bytes as {\"$base64\": \"…\"}",
        };
        JsonError { line, column: at - begin + 1, message: message.into() }
    })?;
    read(&mut Cursor::new(text, latest, keeps_spelling)).map_err(|Fault { at, message }| {
        let at = at.min(text.len());
        let (line, begin) = line_of(text.as_bytes(), at);
        JsonError { line, column: text[begin..at].chars().count() + 1, message }
    })
}

/// The number of the line that contains a byte, and where the line begins.
#[cold]
fn line_of(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at];
    let ends = before.iter().filter(|&&byte| byte == b'\n').count();
    (ends + 1, before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1))
}

thread_local! {
    static LATEST: RefCell<Keys> = const { RefCell::new(Keys { keys: Vec::new(), shape: None }) };
}

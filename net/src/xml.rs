//! Records in S-Net's XML format, for existing programs and data.
//!
//! ```text
//! <record xmlns="snet-home.org" type="data" mode="textual" interface="C4SNet">
//!   <field label="A">(int)5</field>  <field label="v">(double[2])0.5,1</field>
//!   <tag label="T">3</tag>  <btag label="B">1</btag>
//! </record>
//! <record xmlns="snet-home.org" type="terminate" />
//! ```
//! A field's value has a C type, and a length if it is an array; elements of `char` arrays are single bytes
//! between commas. Values that are read from XML are [`Array`]s, which keep their element type. A value
//! without an element type is written with a type that can hold it: integers as `long`, floats as `double`,
//! texts as `char[]`, bytes as `unsigned char[]`. Documents may follow one another in a file; a record of
//! type `terminate` ends it.
//!
//! ```
//! use thalweg_net::xml;
//! let text = "<record type='data' mode='textual' interface='C4SNet'><field label='A'>(int)5</field></record>";
//! let record = xml::Records::new(text.as_bytes()).next().unwrap().unwrap();
//! let mut out = Vec::new();
//! xml::write_record(&record, &mut out).unwrap();
//! assert!(String::from_utf8(out).unwrap().contains("<field label=\"A\">(int)5</field>"));
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::io::BufRead;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use thalweg_box::{Array, ElementType, Value};

use crate::json;
use crate::label::{Label, LabelKind};
use crate::record::Record;

/// The namespace of S-Net's records.
pub const NAMESPACE: &str = "snet-home.org";
/// The most bytes in the values of a record.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// An error of an input.
#[derive(Debug)]
pub enum XmlError {
    /// A record is refused; the records after it can be read.
    Record {
        /// Bytes from the beginning of the input.
        position: u64,
        /// The reason, and what to write instead.
        message: String,
    },
    /// Reading failed, and nothing after this point can be read.
    Input(std::io::Error),
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XmlError::Record { position, message } => write!(f, "byte {position}: {message}"),
            XmlError::Input(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for XmlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            XmlError::Record { .. } => None,
            // `Display` already shows the text of the inner error, so the source is the inner error's own
            // source.
            XmlError::Input(error) => error.source(),
        }
    }
}

/// The records of an input, read one at a time.
pub struct Records<R: BufRead> {
    reader: Reader<R>,
    buffer: Vec<u8>,
    ended: bool,
}

/// A record that is being read.
#[derive(Default)]
struct Open {
    pairs: Vec<(Label, Value)>,
    fault: Option<(u64, String)>,
}

impl Open {
    fn refuse(&mut self, position: u64, message: impl Into<String>) {
        self.fault.get_or_insert_with(|| (position, message.into()));
    }

    fn finish(self) -> Result<Record, XmlError> {
        match self.fault {
            Some((position, message)) => Err(XmlError::Record { position, message }),
            None => Ok(Record::from_pairs(self.pairs)),
        }
    }
}

impl<R: BufRead> Records<R> {
    /// The records of `input`.
    pub fn new(input: R) -> Records<R> {
        Records { reader: Reader::from_reader(input), buffer: Vec::new(), ended: false }
    }

    /// Whether a record of type `terminate` was read, or text that is not XML: nothing more is read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The input.
    pub fn input(&self) -> &R {
        self.reader.get_ref()
    }

    /// The input, which may be changed between two records.
    pub fn input_mut(&mut self) -> &mut R {
        self.reader.get_mut()
    }

    /// The next event that is not a comment, declaration or processing instruction; `None` at the end of the
    /// input.
    fn event(&mut self) -> Result<Option<Event<'static>>, XmlError> {
        loop {
            self.buffer.clear();
            let position = self.reader.buffer_position();
            match self.reader.read_event_into(&mut self.buffer) {
                Ok(Event::Eof) => return Ok(None),
                Ok(Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_)) => {}
                Ok(event) => return Ok(Some(event.into_owned())),
                Err(quick_xml::Error::Io(error)) => {
                    self.ended = true;
                    return Err(XmlError::Input(std::io::Error::new(error.kind(), error)));
                }
                Err(error) => {
                    self.ended = true;
                    return refused(position, format!("not XML: {error}; nothing after it is read"));
                }
            }
        }
    }

    fn step(&mut self) -> Result<Option<Record>, XmlError> {
        while !self.ended {
            let position = self.reader.buffer_position();
            let (start, empty) = match self.event()? {
                None => break,
                Some(Event::Start(start)) => (start, false),
                Some(Event::Empty(start)) => (start, true),
                Some(Event::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Some(_) => {
                    return refused(position, "expected <record …>, found something outside of records");
                }
            };
            if start.local_name().as_ref() != b"record" {
                let name = lossy(start.local_name().as_ref());
                if !empty {
                    self.skip()?;
                }
                return refused(position, format!("expected <record …>, found <{name}>"));
            }
            let kind = attribute(&start, b"type").unwrap_or_else(|| "data".to_owned());
            match kind.as_str() {
                "data" => {}
                "terminate" => {
                    self.ended = true;
                    break;
                }
                "sync" | "collect" | "sort_end" | "trigger_initialiser" => {
                    if !empty {
                        self.skip()?;
                    }
                    continue; // The element is one of S-Net's own runtime and carries no data.
                }
                other => {
                    if !empty {
                        self.skip()?;
                    }
                    return refused(
                        position,
                        format!("a record of type {other:?}; known are data and terminate"),
                    );
                }
            }
            if empty {
                return Ok(Some(Record::from_pairs([])));
            }
            let mut open = Open::default();
            if let Some(mode) = attribute(&start, b"mode").filter(|mode| mode != "textual") {
                open.refuse(position, format!("a record in {mode} mode; only mode=\"textual\" can be read"));
            }
            let interface = attribute(&start, b"interface").unwrap_or_default();
            if interface.starts_with("SAC") {
                open.refuse(
                    position,
                    format!(
                        "a record of the interface {interface}: values of SAC cannot be read, only those of C4SNet, \
                         such as (int[2])1,2"
                    ),
                );
            }
            return self.members(open).map(Some);
        }
        Ok(None)
    }

    /// The fields and tags of a record, up to its end.
    fn members(&mut self, mut open: Open) -> Result<Record, XmlError> {
        let mut held = 0;
        loop {
            let position = self.reader.buffer_position();
            let (start, text) = match self.event()? {
                Some(Event::End(_)) => return open.finish(),
                Some(Event::Start(start)) => (start, self.text_of()?),
                Some(Event::Empty(start)) => (start, Vec::new()),
                Some(Event::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Some(_) => {
                    open.refuse(position, "expected <field>, <tag> or <btag>, found something between them");
                    continue;
                }
                None => return refused(position, "the input ends in the middle of a record"),
            };
            held += text.len();
            if held > RECORD_BYTES_MAX {
                open.pairs.clear();
                open.refuse(position, format!("the record has more than {RECORD_BYTES_MAX} bytes"));
                continue;
            }
            match member(&start, &text) {
                Ok(pair) if open.pairs.iter().any(|(label, _)| *label == pair.0) => {
                    open.refuse(position, format!("the label {} comes twice", pair.0));
                }
                Ok(pair) => open.pairs.push(pair),
                Err(message) => open.refuse(position, message),
            }
        }
    }

    /// The text in an element, up to its end.
    fn text_of(&mut self) -> Result<Vec<u8>, XmlError> {
        let mut text = Vec::new();
        loop {
            let position = self.reader.buffer_position();
            match self.event()? {
                Some(Event::End(_)) => return Ok(text),
                Some(Event::Text(part)) => text.extend_from_slice(&part),
                Some(Event::CData(part)) => text.extend_from_slice(&part),
                Some(Event::GeneralRef(name)) => match entity(&name) {
                    Some(character) => {
                        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    None => {
                        let name = lossy(&name);
                        self.skip_rest()?;
                        return refused(position, format!("&{name}; is no entity; write &amp; for &"));
                    }
                },
                Some(Event::Start(inner)) => {
                    self.skip()?;
                    return self.refuse_inner(position, &inner);
                }
                Some(Event::Empty(inner)) => return self.refuse_inner(position, &inner),
                Some(_) => {}
                None => return refused(position, "the input ends in the middle of a value"),
            }
        }
    }

    fn refuse_inner<T>(&mut self, position: u64, inner: &BytesStart<'_>) -> Result<T, XmlError> {
        self.skip_rest()?;
        let name = lossy(inner.name().as_ref());
        refused(position, format!("an element <{name}> inside of a value; write &lt; for <"))
    }

    /// Skips an element whose start was read.
    fn skip(&mut self) -> Result<(), XmlError> {
        let mut depth = 1;
        while depth > 0 {
            match self.event()? {
                Some(Event::Start(_)) => depth += 1,
                Some(Event::End(_)) => depth -= 1,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Skips the rest of a member and of its record, so that the next record can be read.
    fn skip_rest(&mut self) -> Result<(), XmlError> {
        self.skip()?;
        self.skip()
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, XmlError>;

    fn next(&mut self) -> Option<Result<Record, XmlError>> {
        self.step().transpose()
    }
}

fn refused<T>(position: u64, message: impl Into<String>) -> Result<T, XmlError> {
    Err(XmlError::Record { position, message: message.into() })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn attribute(start: &BytesStart<'_>, name: &[u8]) -> Option<String> {
    let found = start.try_get_attribute(name).ok().flatten()?;
    Some(String::from_utf8_lossy(&found.value).into_owned())
}

/// The character of `&name;`, as XML 1.0 predefines it or by its number.
fn entity(name: &[u8]) -> Option<char> {
    match name {
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"amp" => Some('&'),
        b"apos" => Some('\''),
        b"quot" => Some('"'),
        _ => {
            let digits = std::str::from_utf8(name.strip_prefix(b"#")?).ok()?;
            let number = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(number.ok()?)
        }
    }
}

fn member(start: &BytesStart<'_>, text: &[u8]) -> Result<(Label, Value), String> {
    let kind = match start.local_name().as_ref() {
        b"field" => LabelKind::Field,
        b"tag" => LabelKind::Tag,
        b"btag" => LabelKind::BindingTag,
        other => return Err(format!("expected <field>, <tag> or <btag>, found <{}>", lossy(other))),
    };
    let name = attribute(start, b"label").ok_or("it has no attribute `label`")?;
    let written = match kind {
        LabelKind::Field => name.clone(),
        LabelKind::Tag => format!("<{name}>"),
        LabelKind::BindingTag => format!("<#{name}>"),
    };
    let label = Label::parse(&written).map_err(|error| format!("label={name:?}: {error}"))?;
    if label.kind() != kind {
        return Err(format!("label={name:?}: not a name"));
    }
    let value = match kind {
        LabelKind::Field => field(text).map_err(|message| format!("field {name}: {message}"))?,
        LabelKind::Tag | LabelKind::BindingTag => {
            Value::Int(tag(text).map_err(|message| format!("tag {name}: {message}"))?)
        }
    };
    Ok((label, value))
}

/// A tag's value; an empty text is 0.
fn tag(text: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| "its value is no number".to_owned())?;
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| format!("{text:?} is not an integer of 64 bits"))
}

/// A field's value: `(int)5`, `(int[3])1,2,3`.
fn field(text: &[u8]) -> Result<Value, String> {
    const WANTED: &str = "expected a type and a value, such as (int)5 or (double[2])0.5,1";
    if is_base64(text.trim_ascii()) {
        return Err("it looks like base64, S-Net's binary mode, which is not read: write the record in textual mode, \
                    with a type and a value, such as (int)5"
            .to_owned());
    }
    let rest = text.trim_ascii_start().strip_prefix(b"(").ok_or(WANTED)?;
    let close = rest.iter().position(|&byte| byte == b')').ok_or(WANTED)?;
    let head = std::str::from_utf8(&rest[..close]).map_err(|_| WANTED)?;
    let rest = &rest[close + 1..];
    let (name, count) = match head.split_once('[') {
        None => (head.trim(), None),
        Some((name, count)) => {
            let count = count.trim_end().strip_suffix(']').ok_or(WANTED)?;
            let count = count.trim().parse().map_err(|_| format!("[{count}] is no number of elements"))?;
            (name.trim(), Some(count))
        }
    };
    let element_type = element_type(name).ok_or_else(|| {
        format!("({name}) is no type; known are {}", TYPES.map(|(_, name)| name).join(", "))
    })?;
    elements(element_type, count, rest).map(Value::Array)
}

/// Whether a text that should begin with a type is base64, as S-Net writes it in binary mode: `KGludCk1`,
/// `BQAAAA==`.
fn is_base64(text: &[u8]) -> bool {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let is_digit =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') || byte.is_ascii_whitespace();
    let mut lines = text.split(u8::is_ascii_whitespace).filter(|line| !line.is_empty());
    let is_number = text.iter().all(u8::is_ascii_digit);
    !text.is_empty() && !is_number && digits.iter().all(is_digit) && lines.all(|line| line.len() % 4 == 0)
}

/// The element types and their names in C.
const TYPES: [(ElementType, &str); 10] = [
    (ElementType::I8, "char"),
    (ElementType::U8, "unsigned char"),
    (ElementType::I16, "short"),
    (ElementType::U16, "unsigned short"),
    (ElementType::I32, "int"),
    (ElementType::U32, "unsigned int"),
    (ElementType::I64, "long"),
    (ElementType::U64, "unsigned long"),
    (ElementType::F32, "float"),
    (ElementType::F64, "double"),
];

fn element_type(name: &str) -> Option<ElementType> {
    if name == "long double" {
        return Some(ElementType::F64);
    }
    TYPES.iter().find(|(_, known)| *known == name).map(|(element_type, _)| *element_type)
}

fn c_name(element_type: ElementType) -> &'static str {
    TYPES[element_type as usize - 1].1
}

/// `count` elements between commas; `None`: a single one.
fn elements(element_type: ElementType, count: Option<usize>, text: &[u8]) -> Result<Array, String> {
    match element_type {
        ElementType::I8 => {
            let bytes = characters(text, count)?;
            let signed: Vec<i8> = bytes.into_iter().map(u8::cast_signed).collect();
            Ok(array_of(&signed, count))
        }
        ElementType::U8 => Ok(array_of(&characters(text, count)?, count)),
        ElementType::I16 => Ok(array_of(&numbers::<i16>(text, count)?, count)),
        ElementType::U16 => Ok(array_of(&numbers::<u16>(text, count)?, count)),
        ElementType::I32 => Ok(array_of(&numbers::<i32>(text, count)?, count)),
        ElementType::U32 => Ok(array_of(&numbers::<u32>(text, count)?, count)),
        ElementType::I64 => Ok(array_of(&numbers::<i64>(text, count)?, count)),
        ElementType::U64 => Ok(array_of(&numbers::<u64>(text, count)?, count)),
        ElementType::F32 => Ok(array_of(&numbers::<f32>(text, count)?, count)),
        ElementType::F64 => Ok(array_of(&numbers::<f64>(text, count)?, count)),
    }
}

fn array_of<T: thalweg_box::Element>(elements: &[T], count: Option<usize>) -> Array {
    match (elements, count) {
        (&[number], None) => Array::scalar(number),
        _ => Array::from_slice(elements),
    }
}

/// Single bytes between commas. A comma can be an element itself: `a,,,b` has three elements.
fn characters(text: &[u8], count: Option<usize>) -> Result<Vec<u8>, String> {
    let wanted = count.unwrap_or(1);
    let characters: Vec<u8> = text.iter().copied().step_by(2).collect();
    let separated = text.iter().skip(1).step_by(2).all(|&byte| byte == b',');
    if text.len() != (2 * wanted).saturating_sub(1) {
        return Err(format!("{wanted} characters between commas were announced, {} bytes came", text.len()));
    }
    if !separated {
        return Err("characters stand one by one between commas".to_owned());
    }
    Ok(characters)
}

fn numbers<T: std::str::FromStr>(text: &[u8], count: Option<usize>) -> Result<Vec<T>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "its value is no text".to_owned())?.trim();
    let parts = if text.is_empty() { Vec::new() } else { text.split(',').collect() };
    let wanted = count.unwrap_or(1);
    if parts.len() != wanted {
        return Err(format!("{wanted} numbers were announced, {} came", parts.len()));
    }
    let parse =
        |part: &str| part.trim().parse().map_err(|_| format!("{:?} is no number of that type", part.trim()));
    parts.into_iter().map(parse).collect()
}

/// The error of a field whose value has no form in XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoForm {
    /// The label of the field.
    pub label: Label,
}

impl fmt::Display for NoForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the field `{}` is an opaque value, which has no form in XML", self.label.name())
    }
}

impl std::error::Error for NoForm {}

/// Writes a record and an end of line.
///
/// # Errors
/// A field has no form in XML; nothing was written.
pub fn write_record(record: &Record, out: &mut Vec<u8>) -> Result<(), NoForm> {
    let begin = out.len();
    out.extend_from_slice(b"<record xmlns=\"");
    out.extend_from_slice(NAMESPACE.as_bytes());
    out.extend_from_slice(b"\" type=\"data\" mode=\"textual\" interface=\"C4SNet\">\n");
    for (label, value) in record.shape().labels().iter().zip(record.slots()) {
        let element = match label.kind() {
            LabelKind::Field => "field",
            LabelKind::Tag => "tag",
            LabelKind::BindingTag => "btag",
        };
        out.extend_from_slice(format!("  <{element} label=\"{}\">", label.name()).as_bytes());
        let written = match (label.is_integer(), value) {
            (true, Value::Int(number)) => {
                out.extend_from_slice(number.to_string().as_bytes());
                true
            }
            _ => write_value(value, out),
        };
        if !written {
            out.truncate(begin);
            return Err(NoForm { label: *label });
        }
        out.extend_from_slice(format!("</{element}>\n").as_bytes());
    }
    out.extend_from_slice(b"</record>\n");
    Ok(())
}

/// Writes the record that ends an input.
pub fn write_end(out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<record xmlns=\"{NAMESPACE}\" type=\"terminate\" />\n").as_bytes());
}

/// Writes the value; false if it has no form in XML.
fn write_value(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Int(number) => write_array(&Array::scalar(*number), out),
        Value::Float(number) => write_array(&Array::scalar(*number), out),
        Value::Text(text) if text.is_json() && json::plain(text).is_some() => {
            return json::plain(text).is_some_and(|value| write_value(&value, out));
        }
        Value::Text(text) => {
            let characters: Vec<i8> = text.bytes().map(u8::cast_signed).collect();
            write_array(&Array::from_slice(&characters), out);
        }
        Value::Bytes(bytes) => write_array(&Array::from_slice(bytes.as_slice()), out),
        Value::Array(array) => write_array(array, out),
        Value::Opaque(_) => return false,
    }
    true
}

fn write_array(array: &Array, out: &mut Vec<u8>) {
    let length = if array.is_scalar() { String::new() } else { format!("[{}]", array.len()) };
    out.extend_from_slice(format!("({}{length})", c_name(array.element_type())).as_bytes());
    macro_rules! each {
        ($type:ty, $write:expr) => {
            for (index, element) in array.as_slice::<$type>().unwrap_or_default().iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                $write(*element, out);
            }
        };
    }
    fn text<T: fmt::Display>(number: T, out: &mut Vec<u8>) {
        out.extend_from_slice(number.to_string().as_bytes());
    }
    match array.element_type() {
        ElementType::I8 => {
            each!(i8, |byte: i8, out: &mut Vec<u8>| write_character(byte.cast_unsigned(), out))
        }
        ElementType::U8 => each!(u8, write_character),
        ElementType::I16 => each!(i16, text),
        ElementType::U16 => each!(u16, text),
        ElementType::I32 => each!(i32, text),
        ElementType::U32 => each!(u32, text),
        ElementType::I64 => each!(i64, text),
        ElementType::U64 => each!(u64, text),
        ElementType::F32 => each!(f32, text),
        ElementType::F64 => each!(f64, text),
    }
}

fn write_character(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'<' => out.extend_from_slice(b"&lt;"),
        b'&' => out.extend_from_slice(b"&amp;"),
        _ => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<Result<Record, String>> {
        Records::new(text.as_bytes()).map(|record| record.map_err(|error| error.to_string())).collect()
    }

    fn value_of(text: &str) -> Result<Value, String> {
        let text = format!("<record type='data'><field label='A'>{text}</field></record>");
        let mut all = read(&text);
        assert_eq!(all.len(), 1);
        all.remove(0).map(|record| record.get(Label::field("A")).unwrap().clone())
    }

    #[test]
    fn documents_follow_one_another_until_one_terminates() {
        let text = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n\
            <record xmlns=\"snet-home.org\" type=\"data\" mode=\"textual\" interface=\"C4SNet\" >\n\
              <field label=\"x\" >(int)5</field> <!-- five -->\n  <tag   label=\"rec\"  >1</tag><tag label='empty'/>\n\
            </record>\n<?xml version=\"1.0\" ?>\n<record><btag label=\"b\">-3</btag></record>\n\
            <record xmlns=\"snet-home.org\" type=\"terminate\" />\n<record><tag label=\"late\">1</tag></record>";
        let all: Vec<Record> = read(text).into_iter().map(Result::unwrap).collect();
        let first = [
            (Label::field("x"), Value::Array(Array::scalar(5_i32))),
            (Label::tag("rec"), Value::Int(1)),
            (Label::tag("empty"), Value::Int(0)),
        ];
        let second = [(Label::binding_tag("b"), Value::Int(-3))];
        assert_eq!(all.len(), 2);
        for (record, wanted) in all.iter().zip([&first[..], &second[..]]) {
            assert_eq!(record.slots().len(), wanted.len());
            wanted.iter().for_each(|(label, value)| assert_eq!(record.get(*label), Some(value)));
        }
    }

    #[test]
    fn values_have_the_types_of_c() {
        let array = |array| Ok(Value::Array(array));
        assert_eq!(value_of("(int[3])1,2, 3"), array(Array::from_slice(&[1_i32, 2, 3])));
        assert_eq!(value_of("(int[1])7"), array(Array::from_slice(&[7_i32])));
        assert_eq!(value_of(" (unsigned long)18446744073709551615"), array(Array::scalar(u64::MAX)));
        assert_eq!(value_of("(double)1.0e+00"), array(Array::scalar(1.0_f64)));
        assert_eq!(value_of("(char[5])a,,,&lt;,&amp;,b"), array(Array::from_slice(b"a,<&b").into_signed()));
        assert_eq!(value_of("(unsigned char)x"), array(Array::scalar(b'x')));
        assert_eq!(value_of("(char[0])"), array(Array::from_slice::<i8>(&[])));
    }

    trait IntoSigned {
        fn into_signed(self) -> Array;
    }

    impl IntoSigned for Array {
        fn into_signed(self) -> Array {
            let bytes = self.as_slice::<u8>().unwrap();
            Array::from_slice(&bytes.iter().map(|byte| byte.cast_signed()).collect::<Vec<i8>>())
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_the_next_record_is_read() {
        let wrong = |text: &str| value_of(text).unwrap_err();
        assert_eq!(
            wrong("5"),
            "byte 20: field A: expected a type and a value, such as (int)5 or (double[2])0.5,1"
        );
        assert_eq!(wrong("(int[2])1"), "byte 20: field A: 2 numbers were announced, 1 came");
        assert_eq!(wrong("(short)70000"), "byte 20: field A: \"70000\" is no number of that type");
        for text in ["KGludCk1", "BQAAAA==", "AQID\n  BAUG"] {
            assert!(wrong(text).contains("field A: it looks like base64, S-Net's binary mode"), "{text}");
        }
        for text in ["int 5", "1234", "five5"] {
            assert!(wrong(text).contains("expected a type"), "{text}");
        }
        let sac =
            "<record type='data' mode='textual' interface='SAC4SNet'><field label='A'>1</field></record>";
        assert!(
            read(sac)[0]
                .as_ref()
                .unwrap_err()
                .contains("the interface SAC4SNet: values of SAC cannot be read")
        );
        assert!(wrong("(quad)1").contains("(quad) is no type; known are char, unsigned char"));
        let text = "<record><tag label='a'>x</tag></record><record><fild label='a'/></record>\
            <record><tag label='a'/><tag label='a'/></record><record><field label='f'>(int)1<b/>2</field></record>\
            <other/><record mode='binary'/><record type='odd'></record><record><tag label='b'>2</tag></record><record>";
        let all = read(text);
        let told: Vec<&str> = all.iter().filter_map(|one| one.as_ref().err().map(String::as_str)).collect();
        assert_eq!(told.len(), 7, "{told:#?}");
        assert_eq!(all.iter().filter(|one| one.is_ok()).count(), 2, "{told:#?}");
        assert!(told[0].ends_with("tag a: \"x\" is not an integer of 64 bits"), "{told:#?}");
        assert!(told[1].ends_with("expected <field>, <tag> or <btag>, found <fild>"), "{told:#?}");
        assert!(told[6].ends_with("the input ends in the middle of a record"), "{told:#?}");
    }

    fn values() -> impl Strategy<Value = Value> {
        let text =
            any::<String>().prop_map(|text| Value::Array(Array::from_slice(text.as_bytes()).into_signed()));
        prop_oneof![
            any::<i64>().prop_map(|number| Value::Array(Array::scalar(number))),
            any::<u16>().prop_map(|number| Value::Array(Array::scalar(number))),
            proptest::num::f64::NORMAL.prop_map(|number| Value::Array(Array::scalar(number))),
            prop::collection::vec(proptest::num::f32::NORMAL, 0..5)
                .prop_map(|numbers| Value::Array(Array::from_slice(&numbers))),
            prop::collection::vec(any::<u64>(), 0..5)
                .prop_map(|numbers| Value::Array(Array::from_slice(&numbers))),
            text,
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(fields in prop::collection::vec(values(), 0..4), tag in any::<i64>()) {
            let mut pairs = vec![(Label::tag("t"), Value::Int(tag)), (Label::binding_tag("b"), Value::Int(-1))];
            let named = fields.into_iter().enumerate().map(|(k, value)| (Label::field(&format!("f{k}")), value));
            pairs.extend(named);
            let record = Record::from_pairs(pairs.clone());
            let mut out = Vec::new();
            write_record(&record, &mut out).unwrap();
            write_end(&mut out);
            let all: Vec<Record> = Records::new(&out[..]).map(Result::unwrap).collect();
            prop_assert_eq!(all.len(), 1);
            for (label, value) in pairs {
                prop_assert_eq!(all[0].get(label), Some(&value));
            }
        }

        #[test]
        fn nothing_makes_it_panic(text in "[<>/a-z='\" ()\\[\\]0-9,&;!-]{0,80}") {
            let _ = read(&format!("<record><field label='a'>{text}</record>{text}"));
        }
    }
}

//! The reader of JSON: from text to records and values.

use super::*;

/// The keys of the previous record in their order, with their labels and slots. Most records have the same
/// keys as the previous one so their keys need not be looked up.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The keys; `None` instead of a key for a named value inside the value of the previous key.
    pub(super) keys: Vec<(Option<String>, Label, usize)>,
    pub(super) shape: Option<ShapeId>,
}

pub(super) struct Fault {
    /// The position in the text, in bytes.
    pub(super) at: usize,
    pub(super) message: String,
}

fn fault<T>(at: usize, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, message: message.into() })
}

pub(super) struct Cursor<'a, 'k> {
    text: &'a str,
    at: usize,
    latest: &'k mut Keys,
    /// Whether values that no component reads are carried as they are spelled in the text.
    keeps_spelling: bool,
    /// The labels of values that are not made from their keys.
    pub(super) names: Option<&'k Names>,
    /// Whether all keys so far are equal to those of the previous line.
    follows: bool,
    /// Whether the line may contain a question's number, `question` is the number found.
    pub(super) names_question: bool,
    pub(super) question: Option<i64>,
}

impl<'a, 'k> Cursor<'a, 'k> {
    pub(super) fn new(text: &'a str, latest: &'k mut Keys, keeps_spelling: bool) -> Cursor<'a, 'k> {
        Cursor {
            text,
            at: 0,
            latest,
            keeps_spelling,
            names: None,
            follows: true,
            names_question: false,
            question: None,
        }
    }

    pub(super) fn only_record(&mut self) -> Result<Record, Fault> {
        let record = self.record()?;
        self.end("something follows the record; write one record a line")?;
        Ok(record)
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

    /// Checks that nothing but white space follows.
    fn end(&mut self, message: &str) -> Result<(), Fault> {
        self.space();
        if self.at < self.text.len() { fault(self.at, message) } else { Ok(()) }
    }

    pub(super) fn records(&mut self) -> Result<Vec<Record>, Fault> {
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
                    // Each record of the list may have other labels than the one before it.
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

    /// Reads the number at the beginning of a list, and the `,` or `]` after it.
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
        let named = match self.value(None)? {
            Value::Int(number) => number,
            other => return fault(at, format!("a question is named by an integer, not {}", a(&other))),
        };
        if *self.question.get_or_insert(named) != named {
            return fault(at, "the line answers two questions; print a line for each");
        }
        self.space();
        Ok(())
    }

    /// Reads the pair after the key of a question; returns whether another pair must follow.
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

    /// Looks the record's shape up by its labels, and keeps keys and shape for the next record.
    #[cold]
    fn learn(&mut self, start: usize, pairs: &[(Label, Value)]) -> Result<ShapeId, Fault> {
        let labels: Vec<Label> = pairs.iter().map(|(label, _)| *label).collect();
        let shape = shape::from_data(&labels).or_else(|error| fault(start, error.to_string()))?;
        let slot = |label| shape.slot(label).expect("the shape was made of these labels");
        self.latest.keys = labels.into_iter().map(|label| (self.key_of(label), label, slot(label))).collect();
        self.latest.shape = Some(shape);
        Ok(shape)
    }

    /// The key of a label; `None` if the label names a value inside the value of another key.
    fn key_of(&self, label: Label) -> Option<String> {
        match self.names.and_then(|names| names.of(label)) {
            Some(name) => (name.path.len() == 1).then(|| name.path[0].clone()),
            None => Some(label.key()),
        }
    }

    /// The label of a key, which must not be among the pairs.
    #[inline]
    fn label(&mut self, at: usize, key: &str, pairs: &[(Label, Value)]) -> Result<Label, Fault> {
        match self.latest.keys.get(pairs.len()) {
            Some((Some(known), label, _)) if self.follows && known == key => Ok(*label),
            _ => {
                self.follows = false;
                self.look_up(at, key, pairs)
            }
        }
    }

    #[cold]
    fn look_up(&self, at: usize, key: &str, pairs: &[(Label, Value)]) -> Result<Label, Fault> {
        let label = match self.names {
            None => Label::of_key(key).map_err(|error| format!("{key:?} is {error}")),
            Some(names) => names.of_key(key),
        };
        let label = label.or_else(|what| fault(at, what))?;
        self.check_new(at, label, pairs)
    }

    /// Returns the label, after checking that it is not among the pairs.
    fn check_new(&self, at: usize, label: Label, pairs: &[(Label, Value)]) -> Result<Label, Fault> {
        if pairs.iter().any(|(known, _)| *known == label) {
            return fault(at, format!("the label {label} is there twice"));
        }
        if pairs.len() == shape::LABELS_MAX {
            return fault(at, shape::ShapeError::TooManyLabels.to_string());
        }
        Ok(label)
    }

    /// Reads `"label": value` and the `,` or `}` after it; returns whether another pair must follow.
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
        let value = match self.names {
            Some(names) if names.below(&key).next().is_some() && matches!(self.peek(), Some(b'{' | b'[')) => {
                self.json(self.at)?
            }
            _ => self.value(Some(label))?,
        };
        if label.is_integer() && !matches!(value, Value::Int(_)) {
            return self.fault_of_tag(value_at, label, &value);
        }
        pairs.push((label, value));
        if let Some(names) = self.names {
            self.add_named(names, &key, value_at, pairs)?;
        }
        self.space();
        self.at += 1;
        match self.text.as_bytes().get(self.at - 1) {
            Some(b',') => Ok(true),
            Some(b'}') => Ok(false),
            _ => fault(self.at - 1, format!("expected `,` or `}}` after the value of {label}")),
        }
    }

    /// Adds the named values inside the value that has just been read.
    fn add_named(
        &mut self,
        names: &Names,
        key: &str,
        value_at: usize,
        pairs: &mut Vec<(Label, Value)>,
    ) -> Result<(), Fault> {
        let text = self.text;
        for name in names.below(key) {
            let Some(found) = names::find(&text[value_at..self.at], &name.path[1..]) else { continue };
            let is_known =
                matches!(self.latest.keys.get(pairs.len()), Some((None, label, _)) if *label == name.label);
            if !self.follows || !is_known {
                self.follows = false;
                self.check_new(value_at, name.label, pairs)?;
            }
            let (begin, end) = (value_at + found.start, self.at);
            self.at = begin;
            let value = self.value(Some(name.label))?;
            if name.label.is_integer() && !matches!(value, Value::Int(_)) {
                return self.fault_of_tag(begin, name.label, &value);
            }
            self.at = end;
            pairs.push((name.label, value));
        }
        Ok(())
    }

    #[cold]
    fn fault_of_tag<T>(&self, at: usize, label: Label, value: &Value) -> Result<T, Fault> {
        let text = &self.text[at..self.at];
        if is_json(value) && is_json_number(text.as_bytes()) == Some(false) {
            return fault(at, format!("{text} does not fit into an integer of 64 bits"));
        }
        let what = if is_json(value) { text } else { a(value) };
        fault(at, format!("{label} is a tag: its value must be an integer, not {what}"))
    }

    /// Whether a component may read the values of this label, so that their spelling need not be kept.
    #[cold]
    fn is_looked_at(&self, label: Option<Label>) -> bool {
        !self.keeps_spelling || label.is_none_or(|label| label.is_integer() || label.is_of_program())
    }

    pub(super) fn value(&mut self, label: Option<Label>) -> Result<Value, Fault> {
        match self.peek() {
            Some(b'"') => self.text(label),
            Some(b'-' | b'0'..=b'9') => self.number(label),
            Some(b'{') => self.object(),
            Some(b'[') => self.list(label),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(_) => fault(self.at, "expected a value: a number, a text in quotes, a list or an object"),
            None => fault(self.at, "the line ends where a value is expected"),
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<Value, Fault> {
        if !self.text[self.at..].starts_with(word) {
            return fault(self.at, "expected true, false or null");
        }
        self.at += word.len();
        Ok(Value::Text(Text::from_json(word.to_owned())))
    }

    /// Reads a text. If no component reads the text and it contains escapes, it is carried as it is spelled.
    pub(super) fn text(&mut self, label: Option<Label>) -> Result<Value, Fault> {
        let start = self.at;
        let (end, escapes) = self.string_end()?;
        self.at = end;
        if !escapes {
            let text = self.text[start + 1..end - 1].to_owned();
            return Ok(Value::Text(Text::from_string(text)));
        }
        if !self.is_looked_at(label) {
            return self.json(start);
        }
        match self.string_from(start) {
            Ok(text) => Ok(Value::Text(Text::from_string(text.into_owned()))),
            // Half a surrogate pair of UTF-16 is valid JSON, but no valid text, so it is carried as JSON.
            Err(wrong) => self.json(start).map_err(|_| wrong),
        }
    }

    /// Reads the value that begins at `start` and carries it as its JSON text.
    fn json(&mut self, start: usize) -> Result<Value, Fault> {
        if let Some(nested) = nested::find(&self.text.as_bytes()[start..]) {
            self.at = start + nested.length;
            let text = &self.text[start..self.at];
            let text = if nested.is_on_one_line { text.to_owned() } else { on_one_line(text) };
            return Ok(Value::Text(Text::from_json(text)));
        }
        match Scan::new().push(&self.text.as_bytes()[start..]) {
            Ok(Some(length)) => {
                self.at = start + length;
                let text = &self.text[start..self.at];
                Ok(Value::Text(Text::from_json(on_one_line(text))))
            }
            Ok(None) => fault(self.text.len(), "the line ends in a value"),
            Err(wrong) => fault(start + wrong.at, wrong.what),
        }
    }

    /// Reads a list. A list of numbers that a component may read becomes an array; any other list is carried
    /// as its text.
    fn list(&mut self, label: Option<Label>) -> Result<Value, Fault> {
        let start = self.at;
        if self.is_looked_at(label)
            && let Some(array) = self.numbers()
        {
            return Ok(array);
        }
        self.json(start)
    }

    /// Reads a list of numbers: integers, or floats if one of them is a float. `None` if the list has other
    /// elements, or numbers that S-Net values cannot represent.
    fn numbers(&mut self) -> Option<Value> {
        const EXACT: u64 = 1 << 53;
        let mut integers = Vec::new();
        let mut floats: Option<Vec<f64>> = None;
        let mut is_first = true;
        let mut are_exact = true;
        self.at += 1;
        self.space();
        while self.peek()? != b']' {
            if !std::mem::take(&mut is_first) {
                if self.peek()? != b',' {
                    return None;
                }
                self.at += 1;
                self.space();
            }
            if !matches!(self.peek()?, b'-' | b'0'..=b'9' | b'{') {
                return None;
            }
            match (self.value(None).ok()?, &mut floats) {
                (Value::Int(number), floats) => {
                    are_exact &= number.unsigned_abs() <= EXACT;
                    match floats {
                        None => integers.push(number),
                        Some(floats) => floats.push(number as f64),
                    }
                }
                (Value::Float(number), Some(floats)) => floats.push(number),
                (Value::Float(number), None) => {
                    let before = integers.iter().map(|&number| number as f64);
                    floats = Some(before.chain([number]).collect());
                }
                _ => return None,
            }
            self.space();
        }
        self.at += 1;
        match floats {
            None => Some(Value::Array(Array::from_slice(&integers))),
            Some(floats) => are_exact.then(|| Value::Array(Array::from_slice(&floats))),
        }
    }

    fn number(&mut self, label: Option<Label>) -> Result<Value, Fault> {
        let start = self.at;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = self.text.as_bytes()[start..].iter().take_while(|byte| is_part(byte)).count();
        self.at += length;
        let text = &self.text[start..self.at];
        let Some(is_float) = is_json_number(text.as_bytes()) else {
            return fault(start, format!("{text} is not a number as JSON writes it"));
        };
        let value = if is_float {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            number
                .filter(|_| is_spelled_so(text) || self.is_looked_at(label) || respelled(text))
                .map(Value::Float)
        } else {
            let number = text.parse().ok();
            number.filter(|number| *number != 0 || text == "0" || self.is_looked_at(label)).map(Value::Int)
        };
        Ok(value.unwrap_or_else(|| Value::Text(Text::from_json(text.to_owned()))))
    }

    /// `{"$base64": "…"}`, `{"$float": "…"}`, or an object that is carried as its text.
    fn object(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.at += 1;
        self.space();
        if self.text[self.at..].starts_with("\"$") {
            match self.wrapped(start)? {
                Some(value) => return Ok(value),
                None => self.at = start,
            }
        }
        self.json(start)
    }

    /// The value of an object with a single member of a special name; the key is not read yet. `None` if the
    /// object is an ordinary one.
    fn wrapped(&mut self, start: usize) -> Result<Option<Value>, Fault> {
        let Ok(key) = self.string() else { return Ok(None) };
        self.space();
        if self.peek() != Some(b':') {
            return Ok(None);
        }
        self.at += 1;
        self.space();
        let at = self.at;
        if !matches!(&*key, "$base64" | "$float" | "$opaque") || self.peek() != Some(b'"') {
            return Ok(None);
        }
        let Ok(text) = self.string() else { return Ok(None) };
        self.space();
        if self.peek() != Some(b'}') {
            return Ok(None);
        }
        let value = match &*key {
            "$opaque" => {
                return fault(
                    start,
                    "an opaque value cannot be read: only the box that made it knew what it is",
                );
            }
            "$float" => float_named(&text).ok_or("expected \"NaN\", \"Infinity\" or \"-Infinity\""),
            _ => base64::decode(text.as_bytes()).map(|bytes| Value::Bytes(Bytes::from_vec(bytes))),
        };
        let value = value.or_else(|message| fault(at, message))?;
        self.at += 1;
        Ok(Some(value))
    }

    /// Reads a string; the next byte is its first quote.
    #[inline]
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let start = self.at;
        let (end, escapes) = self.string_end()?;
        self.at = end;
        if !escapes {
            return Ok(Cow::Borrowed(&self.text[start + 1..end - 1]));
        }
        self.string_from(start)
    }

    /// The end of the string that begins here, and whether it contains escapes.
    #[inline(always)]
    fn string_end(&self) -> Result<(usize, bool), Fault> {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        let mut escapes = false;
        loop {
            end = scan::plain_end(bytes, end);
            match bytes.get(end) {
                Some(b'"') => return Ok((end + 1, escapes)),
                Some(b'\\') => {
                    escapes = true;
                    end += 2;
                }
                Some(_) => return fault(end, "a control character in a text must be escaped"),
                None => return fault(self.at, "the text has no closing quote"),
            }
        }
    }

    /// The string with escapes, from its first quote up to the current position.
    #[cold]
    fn string_from(&self, start: usize) -> Result<Cow<'a, str>, Fault> {
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

/// The text of a value without its line ends and without the white space at the beginning of its lines.
fn on_one_line(text: &str) -> String {
    // The loop has no early exit, so the compiler can check many bytes at once.
    if !text.bytes().fold(false, |found, byte| found | (byte < b' ')) {
        return text.to_owned();
    }
    // Line ends occur only between tokens, because texts escape them.
    let lines = text.split(['\n', '\r']).map(|line| line.trim_matches([' ', '\t']));
    lines.collect()
}

/// Whether a float is certainly written back as the same text: it has at most 15 digits, no exponent and no
/// needless zeros.
#[inline]
pub(super) fn is_spelled_so(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let Some((whole, fraction)) = digits.split_once('.') else { return false };
    let zeros = fraction.bytes().take_while(|&byte| byte == b'0').count();
    digits.len() <= 16
        && !fraction.bytes().any(|byte| byte > b'9')
        && (fraction == "0" || !fraction.ends_with('0') && (zeros < 4 || whole != "0"))
}

/// Whether a float is written back as the same text.
#[cold]
pub(super) fn respelled(text: &str) -> bool {
    let number: Option<f64> = text.parse().ok();
    number.is_some_and(|number| serde_json::to_string(&number).is_ok_and(|written| written == text))
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
        Value::Text(text) if text.is_json() => "JSON",
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

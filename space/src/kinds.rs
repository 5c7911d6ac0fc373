//! The text format `.kinds`: kinds of event and of live row, described once for every side and every language.
//!
//! A `#[derive(Kind)]` describes a kind in Rust; [`Description::of`] makes the same description of it. The
//! number after a kind's name is the hash of its schema ([`schema_hash`]). Name and hash together identify a
//! kind.
//!
//! ```
//! use thalweg_space::kinds::{parse, print};
//!
//! let text = "\
//! /// A lock was waited for.
//! kind example.lock_waited 0x6c6e675102d9f90d {
//!     /// How long.
//!     waited: u64 in ticks
//!     /// Why it was held.
//!     cause: enum { work = 0, pause = 1 }
//!     /// How many waited; since version 2.
//!     waiters: u32 absent 1
//! }
//! ";
//! let kinds = parse(text).unwrap();
//! assert_eq!(kinds[0].fields[0].unit, "ticks");
//! assert_eq!(print(&kinds), text);
//! let problems = parse("kind example.wrong {\n    a: u65\n}").unwrap_err();
//! assert_eq!(problems[0].to_string().split(':').next(), Some("line 2, column 8"));
//! ```

use crate::kind::{FieldSpec, FieldType, Kind, schema_hash};
use crate::row::{Row, RowSpec};
use std::collections::HashSet;
use std::fmt::{self, Write};

/// The number of cells of a live row.
const CELLS_MAX: usize = crate::layout::live::CELL_COUNT;

/// A kind of event, or of live row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Whether the description is that of an event or of a live row.
    pub what: What,
    /// `crate.noun_verb`; of rows `crate.noun`.
    pub name: String,
    /// What an event of the kind records, or what a row of the kind describes.
    pub doc: String,
    /// The kind's fields, in order.
    pub fields: Vec<DescribedField>,
}

/// What is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A kind of event.
    Event,
    /// A kind of live row: each field is a cell.
    Row {
        /// The code of these rows in spaces of former versions, which describe no rows; `None` if they had no
        /// such rows.
        former: Option<u8>,
    },
}

/// A field of a kind, or a cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedField {
    /// The name of the field or cell.
    pub name: String,
    /// The type of the field or cell.
    pub field_type: FieldType,
    /// An enum's choices: value and name.
    pub choices: Vec<(u64, String)>,
    /// The field's unit, or an empty text.
    pub unit: String,
    /// The value that readers use if a space of another version lacks the field; `None`: the field is
    /// required.
    pub absent: Option<i128>,
    /// What it means.
    pub doc: String,
}

impl Description {
    /// The description of a derived kind.
    pub fn of<K: Kind>() -> Description {
        Description::new(What::Event, K::NAME, K::DOC, K::FIELDS)
    }

    /// The description of a derived kind of live row.
    pub fn of_row<R: Row>() -> Description {
        let RowSpec { name, doc, former, cells } = R::SPEC;
        Description::new(What::Row { former }, name, doc, cells)
    }

    fn new(what: What, name: &str, doc: &str, fields: &[FieldSpec]) -> Description {
        let field = |field: &FieldSpec| DescribedField {
            name: field.name.to_owned(),
            field_type: field.field_type,
            choices: field.choices.iter().map(|(value, name)| (*value, (*name).to_owned())).collect(),
            unit: field.unit.to_owned(),
            absent: field.absent,
            doc: field.doc.to_owned(),
        };
        let fields = fields.iter().map(field).collect();
        Description { what, name: name.to_owned(), doc: doc.to_owned(), fields }
    }

    /// The hash of the kind's schema.
    pub fn hash(&self) -> u64 {
        let fields = self.fields.iter().map(|f| (f.name.as_str(), f.field_type, f.unit.as_str()));
        schema_hash(&self.name, fields)
    }

    /// The byte offset of each field within the fixed part of an event, or of each cell within the cells of a
    /// row.
    pub fn offsets(&self) -> Vec<usize> {
        let mut at: usize = 0;
        let place = |field: &DescribedField| {
            let bytes = if self.what == What::Event { field.field_type.bytes() } else { 8 };
            let offset = at.next_multiple_of(bytes);
            at = offset + bytes;
            offset
        };
        self.fields.iter().map(place).collect()
    }
}

/// Writes descriptions as text, which [`parse`] reads.
pub fn print(descriptions: &[Description]) -> String {
    let texts: Vec<String> = descriptions.iter().map(Description::to_string).collect();
    texts.join("\n")
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_doc(f, "", &self.doc)?;
        let hash = self.hash();
        match self.what {
            What::Event => write!(f, "kind {} {hash:#018x} {{", self.name)?,
            What::Row { former: None } => write!(f, "row {} {hash:#018x} {{", self.name)?,
            What::Row { former: Some(code) } => write!(f, "row {} {hash:#018x} former {code} {{", self.name)?,
        }
        f.write_char('\n')?;
        for field in &self.fields {
            print_doc(f, "    ", &field.doc)?;
            writeln!(f, "    {field}")?;
        }
        f.write_str("}\n")
    }
}

impl fmt::Display for DescribedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.field_type.name())?;
        if self.field_type == FieldType::Enum {
            let choices: Vec<String> =
                self.choices.iter().map(|(value, name)| format!("{name} = {value}")).collect();
            write!(f, " {{ {} }}", choices.join(", "))?;
        }
        if !self.unit.is_empty() {
            f.write_str(" in ")?;
            print_unit(f, &self.unit)?;
        }
        if let Some(value) = self.absent {
            write!(f, " absent {value}")?;
        }
        Ok(())
    }
}

fn print_doc(f: &mut fmt::Formatter<'_>, indent: &str, doc: &str) -> fmt::Result {
    let doc = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    if doc.is_empty() { Ok(()) } else { writeln!(f, "{indent}/// {doc}") }
}

fn print_unit(f: &mut fmt::Formatter<'_>, unit: &str) -> fmt::Result {
    if unit.chars().all(is_word) && !unit.starts_with("//") {
        return f.write_str(unit);
    }
    f.write_char('"')?;
    for c in unit.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            _ => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// A mistake in a `.kinds` text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The mistake, and what to do.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.text)
    }
}

/// Reads descriptions. `//` begins a comment, `///` the documentation of the next kind or field.
///
/// # Errors
/// All mistakes, in order. A description with a mistake is left out; those after it are read.
pub fn parse(text: &str) -> Result<Vec<Description>, Vec<Problem>> {
    let (tokens, problems) = tokens(text);
    let mut parser = Parser { tokens, at: 0, problems, end: end_of(text) };
    let mut descriptions: Vec<Description> = Vec::new();
    let mut names = HashSet::new();
    while parser.at < parser.tokens.len() {
        let place = parser.place();
        match parser.description() {
            Ok(description) => {
                if !names.insert(description.name.clone()) {
                    parser
                        .problem(place, format!("`{}` is described twice: leave out one", description.name));
                }
                descriptions.push(description);
            }
            Err(problem) => {
                parser.problems.push(problem);
                parser.skip_description();
            }
        }
    }
    parser.problems.sort_by_key(|problem| (problem.line, problem.column));
    if parser.problems.is_empty() { Ok(descriptions) } else { Err(parser.problems) }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Doc(String),
    /// A name, a number, or a word of the language.
    Word(String),
    Text(String),
    Mark(char),
}

/// Line and column.
type Place = (usize, usize);

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/".contains(c)
}

fn end_of(text: &str) -> Place {
    let lines = text.split('\n').count();
    (lines, text.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1)
}

fn tokens(text: &str) -> (Vec<(Place, Token)>, Vec<Problem>) {
    let (mut tokens, mut problems) = (Vec::new(), Vec::new());
    for (n, line) in text.lines().enumerate() {
        let line: Vec<char> = line.chars().collect();
        let mut at = 0;
        while at < line.len() {
            let (place, rest) = ((n + 1, at + 1), &line[at..]);
            match rest[0] {
                c if c.is_whitespace() => at += 1,
                '/' if rest.starts_with(&['/', '/', '/']) => {
                    let doc: String = rest[3..].iter().collect();
                    tokens.push((place, Token::Doc(doc.trim().to_owned())));
                    at = line.len();
                }
                '/' if rest.starts_with(&['/', '/']) => at = line.len(),
                '"' => match quoted(rest) {
                    Some((text, length)) => {
                        tokens.push((place, Token::Text(text)));
                        at += length;
                    }
                    None => {
                        let text = "this text does not end in its line: end it with `\"`".to_owned();
                        problems.push(Problem { line: place.0, column: place.1, text });
                        at = line.len();
                    }
                },
                c @ ('{' | '}' | ':' | ',' | '=') => {
                    tokens.push((place, Token::Mark(c)));
                    at += 1;
                }
                c if is_word(c) => {
                    let word: String = rest.iter().take_while(|c| is_word(**c)).collect();
                    at += word.len();
                    tokens.push((place, Token::Word(word)));
                }
                c => {
                    let text = format!("`{c}` has no meaning here: remove it");
                    problems.push(Problem { line: place.0, column: place.1, text });
                    at += 1;
                }
            }
        }
    }
    (tokens, problems)
}

/// The text between quotation marks, and its length in characters with the quotation marks.
fn quoted(line: &[char]) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut at = 1;
    loop {
        match line.get(at)? {
            '"' => return Some((text, at + 1)),
            '\\' => {
                at += 1;
                match line.get(at)? {
                    'n' => text.push('\n'),
                    c => text.push(*c),
                }
            }
            c => text.push(*c),
        }
        at += 1;
    }
}

struct Parser {
    tokens: Vec<(Place, Token)>,
    at: usize,
    problems: Vec<Problem>,
    end: Place,
}

impl Parser {
    fn place(&self) -> Place {
        self.tokens.get(self.at).map_or(self.end, |(place, _)| *place)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn problem(&mut self, (line, column): Place, text: String) {
        self.problems.push(Problem { line, column, text });
    }

    /// Reports that something else was expected here.
    fn expected(&self, what: &str) -> Problem {
        let (line, column) = self.place();
        let found = match self.peek() {
            None => "the text ends".to_owned(),
            Some(Token::Doc(_)) => "there is documentation".to_owned(),
            Some(Token::Word(word)) => format!("there is `{word}`"),
            Some(Token::Text(text)) => format!("there is {text:?}"),
            Some(Token::Mark(mark)) => format!("there is `{mark}`"),
        };
        Problem { line, column, text: format!("{found}, but here should be {what}") }
    }

    fn docs(&mut self) -> String {
        let mut docs = Vec::new();
        while let Some(Token::Doc(doc)) = self.peek() {
            docs.push(doc.clone());
            self.at += 1;
        }
        docs.join(" ").trim().to_owned()
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word)) if word == wanted);
        self.at += usize::from(found);
        found
    }

    fn takes(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    fn mark(&mut self, mark: char, why: &str) -> Result<(), Problem> {
        if self.takes(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}` {why}"))) }
    }

    fn word(&mut self, what: &str) -> Result<String, Problem> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads a name that is an identifier in every language for which code is generated.
    fn identifier(&mut self, what: &str) -> Result<String, Problem> {
        let (line, column) = self.place();
        let word = self.word(what)?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word.starts_with(|c: char| c.is_ascii_digit()) || !word.chars().all(good) {
            let text = format!("`{word}` is no name: use letters, digits and `_`, and no digit first");
            return Err(Problem { line, column, text });
        }
        Ok(word)
    }

    fn number<T: TryFrom<i128>>(&mut self, what: &str) -> Result<T, Problem> {
        let (line, column) = self.place();
        let word = self.word(what)?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
            None => word.parse().ok(),
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| Problem { line, column, text: format!("`{word}` is not {what}") })
    }

    fn description(&mut self) -> Result<Description, Problem> {
        let doc = self.docs();
        let is_row = self.takes_word("row");
        if !is_row && !self.takes_word("kind") {
            return Err(self.expected("`kind` or `row`"));
        }
        let name = self.word("a name such as `crate.noun_verb`")?;
        let place = self.place();
        let is_hash = matches!(self.peek(), Some(Token::Word(word)) if word.starts_with("0x"));
        let hash = is_hash.then(|| self.number::<u64>("a hash of 16 digits behind 0x")).transpose()?;
        let former =
            if is_row && self.takes_word("former") { Some(self.number("a number up to 255")?) } else { None };
        let what = if is_row { What::Row { former } } else { What::Event };
        self.mark('{', "before the fields")?;
        let mut fields: Vec<DescribedField> = Vec::new();
        while !self.takes('}') {
            let place = self.place();
            let field = self.field()?;
            if fields.iter().any(|known| known.name == field.name) {
                self.problem(place, format!("`{name}` has two fields `{}`: rename one", field.name));
            }
            fields.push(field);
        }
        let description = Description { what, name, doc, fields };
        self.check(&description, place, hash);
        Ok(description)
    }

    fn check(&mut self, description: &Description, place: Place, hash: Option<u64>) {
        let name = &description.name;
        if let Some(stated) = hash.filter(|hash| *hash != description.hash()) {
            let text = format!(
                "`{name}` with these fields has the hash {:#018x}, not {stated:#018x}: write that, or none",
                description.hash()
            );
            self.problem(place, text);
        }
        if description.what == What::Event {
            return;
        }
        if description.fields.len() > CELLS_MAX {
            let count = description.fields.len();
            self.problem(place, format!("`{name}` has {count} cells, and a row has room for {CELLS_MAX}"));
        }
        if let Some(field) = description.fields.iter().find(|field| field.field_type.is_variable()) {
            let text =
                format!("`{name}` has a cell `{}`, and a cell is a number, no text or bytes", field.name);
            self.problem(place, text);
        }
    }

    fn field(&mut self) -> Result<DescribedField, Problem> {
        let doc = self.docs();
        let name = self.identifier("a field, or `}` at the end")?;
        self.mark(':', "between a field's name and its type")?;
        let (line, column) = self.place();
        let word = self.word("a type")?;
        let Some(field_type) = FieldType::from_name(&word) else {
            let types = FieldType::ALL.map(FieldType::name).join(", ");
            return Err(Problem {
                line,
                column,
                text: format!("there is no type `{word}`; there are: {types}"),
            });
        };
        let choices = if field_type == FieldType::Enum { self.choices()? } else { Vec::new() };
        let unit = if self.takes_word("in") { self.unit()? } else { String::new() };
        let absent = if self.takes_word("absent") { Some(self.absent(field_type)?) } else { None };
        Ok(DescribedField { name, field_type, choices, unit, absent, doc })
    }

    fn choices(&mut self) -> Result<Vec<(u64, String)>, Problem> {
        self.mark('{', "before an enum's choices: `enum { first = 0, second = 1 }`")?;
        let mut choices: Vec<(u64, String)> = Vec::new();
        loop {
            let (line, column) = self.place();
            let name = self.identifier("a choice")?;
            self.mark('=', "between a choice's name and its number")?;
            let value = u64::from(self.number::<u8>("a number up to 255")?);
            if choices.iter().any(|(known, text)| *known == value || *text == name) {
                let text = format!("choice `{name}` = {value}: its name or number is taken, use another");
                return Err(Problem { line, column, text });
            }
            choices.push((value, name));
            if !self.takes(',') {
                self.mark('}', "behind an enum's choices, or `,` between them")?;
                return Ok(choices);
            }
        }
    }

    fn unit(&mut self) -> Result<String, Problem> {
        if let Some(Token::Text(text)) = self.peek() {
            let text = text.clone();
            self.at += 1;
            return Ok(text);
        }
        self.word("a unit, in quotation marks if it is more than a word")
    }

    fn absent(&mut self, field_type: FieldType) -> Result<i128, Problem> {
        let (line, column) = self.place();
        let value: i128 = self.number("a number")?;
        let range = absent_range(field_type);
        if range.contains(&value) {
            return Ok(value);
        }
        let (least, most) = range.into_inner();
        let text = format!("{value} is no {}: use {least} to {most}", field_type.name());
        Err(Problem { line, column, text })
    }

    /// Skips to the end of the current description, or to the beginning of the next one.
    fn skip_description(&mut self) {
        let begin = self.at;
        let mut open = 0usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Mark('{') => open += 1,
                Token::Mark('}') => open = open.saturating_sub(1),
                Token::Word(word) if self.at > begin && (word == "kind" || word == "row") => {
                    // A field may have the same name as the word that begins a description.
                    let next = self.tokens.get(self.at + 1).map(|(_, token)| token);
                    if matches!(next, Some(Token::Word(_))) {
                        return;
                    }
                }
                _ => {}
            }
            self.at += 1;
            let ends_line = self.tokens.get(self.at).is_none_or(|(place, _)| place.1 == 1);
            if open == 0 && ends_line && self.tokens[self.at - 1].1 == Token::Mark('}') {
                return;
            }
        }
    }
}

/// The values that may be declared for a field that is absent. A real number, a text and a byte string can
/// only be 0 or empty.
fn absent_range(field_type: FieldType) -> std::ops::RangeInclusive<i128> {
    let bits = 8 * field_type.bytes() as u32;
    match field_type {
        FieldType::Bool => 0..=1,
        FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64 => {
            -(1 << (bits - 1))..=(1 << (bits - 1)) - 1
        }
        FieldType::F32 | FieldType::F64 | FieldType::Str | FieldType::Bytes => 0..=0,
        _ => 0..=(1 << bits) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &[&str]) {
        let problems = parse(text).unwrap_err();
        let messages: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(messages, expected);
    }

    #[test]
    fn mistakes_are_reported_with_their_place_and_what_to_do() {
        check("kin a {}", &["line 1, column 1: there is `kin`, but here should be `kind` or `row`"]);
        check("kind a", &["line 1, column 7: the text ends, but here should be `{` before the fields"]);
        check(
            "kind a {\n    n u8\n}\nkind b {}\nkind b {}",
            &[
                "line 2, column 7: there is `u8`, but here should be `:` between a field's name and its type",
                "line 5, column 1: `b` is described twice: leave out one",
            ],
        );
        check(
            "kind a { n: u8 absent 256 }\nkind b { 2x: u8 }",
            &[
                "line 1, column 23: 256 is no u8: use 0 to 255",
                "line 2, column 10: `2x` is no name: use letters, digits and `_`, and no digit first",
            ],
        );
        check(
            "kind a 0x0000000000000001 {}",
            &["line 1, column 8: `a` with these fields has the hash 0x089bc907b544c769, not \
               0x0000000000000001: write that, or none"],
        );
        check(
            "kind a { e: enum { x = 0, y = 0 } }",
            &["line 1, column 27: choice `y` = 0: its name or number is taken, use another"],
        );
        check(
            "kind a { n: u8 in \"ticks }",
            &[
                "line 1, column 19: this text does not end in its line: end it with `\"`",
                "line 1, column 27: the text ends, but here should be a unit, in quotation marks if it is more \
                 than a word",
            ],
        );
        check(
            "row a { t: text }",
            &["line 1, column 7: `a` has a cell `t`, and a cell is a number, no text or bytes"],
        );
        check("kind a { n: u8 n: u8 }", &["line 1, column 16: `a` has two fields `n`: rename one"]);
        check("kind a { n: u8; }", &["line 1, column 15: `;` has no meaning here: remove it"]);
    }

    fn field() -> impl Strategy<Value = DescribedField> {
        let choices = proptest::collection::btree_map("[a-z_][a-z0-9_]{0,9}", any::<u8>(), 1..5);
        let texts = ("[a-z_][a-z0-9_]{0,9}", ".{0,9}", "([!-~]{1,5}( [!-~]{1,5}){0,3})?");
        (texts, 0..16usize, choices, any::<Option<i128>>()).prop_map(
            |((name, unit, doc), n, choices, absent)| {
                let field_type = FieldType::ALL[n];
                let range = absent_range(field_type);
                let (least, most) = (*range.start(), *range.end());
                let absent = absent.map(|value| least + value.rem_euclid(most - least + 1));
                let mut choices: Vec<(u64, String)> =
                    choices.into_iter().map(|(name, value)| (u64::from(value), name)).collect();
                choices.sort();
                choices.dedup_by_key(|(value, _)| *value);
                if field_type != FieldType::Enum {
                    choices.clear();
                }
                let unit = unit.replace('\r', "");
                DescribedField { name, field_type, choices, unit, absent, doc }
            },
        )
    }

    fn description() -> impl Strategy<Value = Description> {
        let fields = proptest::collection::vec(field(), 0..8);
        ("[a-z][a-z0-9_/-]{0,8}\\.[a-z_]{1,9}", fields, any::<Option<Option<u8>>>()).prop_map(
            |(name, mut fields, row)| {
                let mut names = HashSet::new();
                fields.retain(|field| names.insert(field.name.clone()));
                if row.is_some() {
                    fields.retain(|field| !field.field_type.is_variable());
                }
                let what = row.map_or(What::Event, |former| What::Row { former });
                Description { what, name, doc: "Something happened.".into(), fields }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_as_it_was(mut all in proptest::collection::vec(description(), 0..6)) {
            let mut names = HashSet::new();
            all.retain(|description| names.insert(description.name.clone()));
            let text = print(&all);
            let read = parse(&text).map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
            prop_assert_eq!(&read, &all);
            prop_assert_eq!(print(&read), text);
        }

        #[test]
        fn no_text_is_too_strange(text in ".*", cut in any::<prop::sample::Index>()) {
            let _ = parse(&text);
            let good = print(&[Description { what: What::Row { former: Some(1) }, name: "a.b".into(), doc: text, fields: vec![] }]);
            let at = good.floor_char_boundary(cut.index(good.len()));
            let _ = parse(&good[..at]);
        }
    }
}

//! Tables of a TOML file, which report missing, wrong and unknown keys.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::problem::Problem;
use crate::suggest::nearest;

/// A text value of the file, and its place in the file.
#[derive(Clone, Debug)]
pub struct Text {
    /// The text.
    pub text: String,
    /// The place of the value, with its quotes.
    pub span: Range<usize>,
    /// The place of the text's first byte, if the file holds the text literally, without escapes.
    inside: Option<usize>,
}

impl Text {
    /// Converts a problem of a part of this text to a problem of the file.
    pub fn place(&self, problem: Problem) -> Problem {
        match self.inside {
            Some(at) => problem.moved(at),
            None => Problem { span: self.span.clone(), ..problem },
        }
    }
}

/// A file: its text, and the problems found in it.
#[derive(Debug)]
pub struct File<'t> {
    /// The file's text.
    pub text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> File<'t> {
    /// Reads the file; parts with errors are left out and reported.
    pub fn parse(text: &'t str) -> (File<'t>, Spanned<DeTable<'t>>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let problem =
            |error: toml::de::Error| Problem::new(error.span().unwrap_or(0..0), error.message().to_owned());
        let problems = RefCell::new(errors.into_iter().map(problem).collect());
        (File { text, problems }, table)
    }

    /// Adds a problem.
    pub fn wrong(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Whether no problem was found.
    pub fn is_right(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// All problems, in the order of the file.
    pub fn problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        problems.dedup();
        problems
    }
}

/// A table of the file. Every key that was not read when the table is finished is a problem.
#[derive(Debug)]
pub struct Table<'f, 't> {
    file: &'f File<'t>,
    table: &'f DeTable<'t>,
    span: Range<usize>,
    /// The table's kind for messages, such as "a measure".
    what: &'static str,
    known: RefCell<Vec<&'static str>>,
}

impl<'f, 't> Table<'f, 't> {
    /// Reads this table of the file.
    pub fn new(
        file: &'f File<'t>,
        table: &'f DeTable<'t>,
        span: Range<usize>,
        what: &'static str,
    ) -> Table<'f, 't> {
        Table { file, table, span, what, known: RefCell::new(Vec::new()) }
    }

    /// The table's place in the file.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    fn find(&self, key: &'static str) -> Option<&'f Spanned<DeValue<'t>>> {
        self.known.borrow_mut().push(key);
        self.table.iter().find(|(name, _)| *name.get_ref() == key).map(|(_, value)| value)
    }

    fn not_a<T>(&self, value: &Spanned<DeValue<'t>>, key: &str, wanted: &str) -> Option<T> {
        let found = value.get_ref().type_str();
        self.file
            .wrong(Problem::new(value.span(), format!("`{key}` has to be {wanted}, and this is {found}")));
        None
    }

    /// A text, if there is one under this key.
    pub fn text(&self, key: &'static str) -> Option<Text> {
        let value = self.find(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(self.text_of(text, value.span())),
            _ => self.not_a(value, key, "a text"),
        }
    }

    fn text_of(&self, text: &DeString<'t>, span: Range<usize>) -> Text {
        let written = self.file.text.get(span.clone()).unwrap_or("");
        let inside = written.find(&**text).filter(|_| !text.is_empty()).map(|at| span.start + at);
        Text { text: text.clone().into_owned(), span, inside }
    }

    /// A required text; its absence is reported.
    pub fn required(&self, key: &'static str) -> Option<Text> {
        let is_there = self.table.iter().any(|(name, _)| *name.get_ref() == key);
        let found = self.text(key);
        if !is_there {
            self.file.wrong(Problem::new(self.span(), format!("{} needs `{key}`", self.what)));
        }
        found
    }

    /// A number, if there is one under this key.
    pub fn number(&self, key: &'static str) -> Option<f64> {
        let value = self.find(key)?;
        let parsed = match value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        parsed.or_else(|| self.not_a(value, key, "a number"))
    }

    /// A truth value; false if there is none.
    pub fn truth(&self, key: &'static str) -> bool {
        let Some(value) = self.find(key) else { return false };
        match value.get_ref() {
            DeValue::Boolean(truth) => *truth,
            _ => self.not_a(value, key, "true or false").unwrap_or_default(),
        }
    }

    /// A list of texts; empty if there is none.
    pub fn texts(&self, key: &'static str) -> Vec<Text> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let Some(list) = value.get_ref().as_array() else {
            return self.not_a(value, key, "a list of texts").unwrap_or_default();
        };
        let text = |value: &'f Spanned<DeValue<'t>>| match value.get_ref() {
            DeValue::String(text) => Some(self.text_of(text, value.span())),
            _ => self.not_a(value, key, "a list of texts"),
        };
        list.iter().filter_map(text).collect()
    }

    /// Texts by name, in the order of the file; empty if there are none.
    pub fn named(&self, key: &'static str) -> Vec<(Text, Text)> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            return self.not_a(value, key, "a table of texts").unwrap_or_default();
        };
        let pair = |(name, value): (&Spanned<DeString<'t>>, &'f Spanned<DeValue<'t>>)| match value.get_ref() {
            DeValue::String(text) => {
                Some((self.text_of(name.get_ref(), name.span()), self.text_of(text, value.span())))
            }
            _ => self.not_a(value, name.get_ref(), "a text"),
        };
        table.iter().filter_map(pair).collect()
    }

    /// A table under this key, if there is one.
    pub fn table(&self, key: &'static str, what: &'static str) -> Option<Table<'f, 't>> {
        let value = self.find(key)?;
        match value.get_ref().as_table() {
            Some(table) => Some(Table::new(self.file, table, value.span(), what)),
            None => self.not_a(value, key, "a table"),
        }
    }

    /// The tables under this key, each begun by `[[key]]`.
    pub fn tables(&self, key: &'static str, what: &'static str) -> Vec<Table<'f, 't>> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let Some(list) = value.get_ref().as_array() else {
            return self.not_a(value, key, "tables, each begun by double brackets").unwrap_or_default();
        };
        let table = |value: &'f Spanned<DeValue<'t>>| match value.get_ref().as_table() {
            Some(table) => Some(Table::new(self.file, table, value.span(), what)),
            None => self.not_a(value, key, "a table"),
        };
        list.iter().filter_map(table).collect()
    }

    /// Reports all keys of the table that were not read.
    pub fn finish(self) {
        let known = self.known.into_inner();
        for (name, _) in
            self.table.iter().filter(|(name, _)| !known.iter().any(|key| *name.get_ref() == *key))
        {
            let problem = Problem::new(name.span(), format!("{} has no `{}`", self.what, name.get_ref()));
            self.file.wrong(match nearest(name.get_ref(), known.iter().copied()) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("there are {}", known.join(", "))),
            });
        }
    }
}

//! Labels that a user gives to keys and paths in the objects of a file, as `NAME=PATH`. The user's labels
//! replace those that [`Label::of_key`] makes from keys.
//!
//! ```
//! use thalweg_net::json::{Names, Reader, write_named};
//! let names = Names::parse(["city=address.city", "<id>=user-id"]).unwrap();
//! let line = br#"{"user-id": 7, "address": {"city": "Bonn", "zip": "53111"}}"#;
//! let record = Reader::named(names.clone().into()).read(line).unwrap();
//! assert_eq!(record.to_string(), r#"{address={"city": "Bonn", "zip": "53111"}, city="Bonn", <id>=7}"#);
//! let mut written = Vec::new();
//! write_named(&record, &names, &mut written);
//! assert_eq!(written, br#"{"address": {"city": "Bonn", "zip": "53111"}, "user-id": 7}"#);
//! ```

use std::ops::Range;

use super::nested;
use super::scan::Scan;
use crate::label::Label;

/// The labels that are given to certain paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<Name>,
}

/// A label and the path of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) label: Label,
    /// The steps of the path: keys of objects, or indices of elements of lists. The first step is a key of
    /// the record.
    pub(super) path: Vec<String>,
    /// The path as it was written.
    written: String,
}

impl Names {
    /// Parses texts of the form `NAME=PATH`. A path consists of keys (or, in a list, numbers from 0) with `.`
    /// between them, or with `/` before each as in RFC 6901, where `~1` is `/` and `~0` is `~`.
    ///
    /// # Errors
    /// A text that does not have this form, or a label or a path that is named twice.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Names, String> {
        let mut all = Names::default();
        for text in texts {
            let (name, written) = text.split_once('=').ok_or_else(|| {
                format!("{text:?}: expected NAME=PATH, as in city=address.city or user_id=user-id")
            })?;
            let label = Label::parse(name).map_err(|error| format!("{text:?}: {name:?} is {error}"))?;
            let path: Vec<String> = match written.strip_prefix('/') {
                Some(pointer) => {
                    pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
                }
                None => written.split('.').map(str::to_owned).collect(),
            };
            if written.is_empty() {
                return Err(format!(
                    "{text:?}: behind `=` stands the key or the path that {name} is to stand for"
                ));
            }
            if let Some(other) = all.names.iter().find(|other| other.label == label || other.path == path) {
                return Err(format!("{text:?}: {}={} says otherwise", other.label, other.written));
            }
            all.names.push(Name { label, path, written: written.to_owned() });
        }
        Ok(all)
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The label of a column in a table with this name.
    ///
    /// # Errors
    /// The name of the column cannot be a label.
    pub fn of_column(&self, column: &str) -> Result<Label, String> {
        if let Some(name) = self.names.iter().find(|name| name.written == column || name.path == [column]) {
            return Ok(name.label);
        }
        self.own(column)
    }

    /// The name of a label's column.
    pub fn column_of(&self, label: Label) -> String {
        match self.of(label) {
            Some(Name { path, .. }) if path.len() == 1 => path[0].clone(),
            Some(name) => name.written.clone(),
            None => label.key(),
        }
    }

    /// The name and path that the user gave to this label, if any.
    pub(super) fn of(&self, label: Label) -> Option<&Name> {
        self.names.iter().find(|name| name.label == label)
    }

    /// The label of a key of a record.
    pub(super) fn of_key(&self, key: &str) -> Result<Label, String> {
        if let Some(name) = self.names.iter().find(|name| name.path == [key]) {
            return Ok(name.label);
        }
        self.own(key)
    }

    /// The label of a key to which the user has given no name.
    fn own(&self, key: &str) -> Result<Label, String> {
        let own = Label::parse(key.trim()).or_else(|_| Label::of_key(key));
        let label = own.map_err(|error| format!("{key:?} is {error}"))?;
        match self.of(label) {
            None => Ok(label),
            Some(name) => Err(format!(
                "the label {label} stands for {} (--label) and is a key, too: let another one stand for it",
                name.written
            )),
        }
    }

    /// The names whose paths lead into the value of a key of a record.
    pub(super) fn below<'n>(&'n self, key: &'n str) -> impl Iterator<Item = &'n Name> {
        self.names.iter().filter(move |name| name.path.len() > 1 && name.path[0] == key)
    }

    /// The keys of records into whose values named paths lead, each once.
    pub(super) fn roots(&self) -> Vec<&str> {
        let mut roots: Vec<&str> = Vec::new();
        for name in self.names.iter().filter(|name| name.path.len() > 1) {
            if !roots.contains(&name.path[0].as_str()) {
                roots.push(&name.path[0]);
            }
        }
        roots
    }
}

/// The range of the value at a path in a value; `None` if the path does not exist.
pub(super) fn find(text: &str, path: &[String]) -> Option<Range<usize>> {
    path.iter().try_fold(0..text.len(), |within, step| member(text, within, step))
}

fn member(text: &str, within: Range<usize>, step: &str) -> Option<Range<usize>> {
    let mut at = within.start + 1;
    match text.as_bytes().get(within.start)? {
        b'{' => loop {
            at = behind(text, at, b" \t\r\n,");
            let key_end = at + value_end(&text[at..])?;
            let key: String = serde_json::from_str(&text[at..key_end]).ok()?;
            at = behind(text, key_end, b" \t\r\n:");
            let end = at + value_end(&text[at..])?;
            if key == step {
                return Some(at..end);
            }
            at = end;
        },
        b'[' => {
            let index: usize = step.parse().ok()?;
            for number in 0.. {
                at = behind(text, at, b" \t\r\n,");
                let end = at + value_end(&text[at..])?;
                if number == index {
                    return Some(at..end);
                }
                at = end;
            }
            None
        }
        _ => None,
    }
}

/// The value with a replacement at a path; `None` if the path does not fit the value.
pub(super) fn with(text: &str, path: &[String], value: &str) -> Option<String> {
    if let Some(Range { start, end }) = find(text, path) {
        return Some([&text[..start], value, &text[end..]].concat());
    }
    let (within, depth) =
        (0..path.len()).rev().find_map(|depth| Some((find(text, &path[..depth])?, depth)))?;
    let object = text[within.clone()].strip_prefix('{')?.strip_suffix('}')?;
    let mut member = value.to_owned();
    for (number, step) in path[depth..].iter().enumerate().rev() {
        let key = serde_json::to_string(step).ok()?;
        member = if number == 0 { format!("{key}: {member}") } else { format!("{{{key}: {member}}}") };
    }
    let separator = if object.trim_ascii().is_empty() { "" } else { ", " };
    let (before, after) = text.split_at(within.end - 1);
    Some([before, separator, &member, after].concat())
}

/// The place of the first byte from `at` on that is not among `bytes`.
fn behind(text: &str, at: usize, bytes: &[u8]) -> usize {
    at + text.as_bytes()[at..].iter().take_while(|byte| bytes.contains(byte)).count()
}

/// The length of the JSON value with which the text begins.
fn value_end(text: &str) -> Option<usize> {
    if let Some(nested) = nested::find(text.as_bytes()) {
        return Some(nested.length);
    }
    Scan::new().push(text.as_bytes()).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_and_put_at_their_paths() {
        let text = r#"{"a" : {"b": [1, {"c\"": "x"} , 3 ]}, "e": {}}"#;
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let at = |p: &str| find(text, &path(p)).map(|range| &text[range]);
        assert_eq!(at("a.b.1.c\""), Some("\"x\""));
        assert_eq!(at("a.b.2"), Some("3"));
        assert_eq!(at("e"), Some("{}"));
        for missing in ["x", "a.b.3", "a.b.x", "a.b.0.c", "e.f"] {
            assert_eq!(at(missing), None, "{missing}");
        }
        let with = |text: &str, p: &str| with(text, &path(p), "7");
        assert_eq!(with(r#"{"a": [1, 2]}"#, "a.1").as_deref(), Some(r#"{"a": [1, 7]}"#));
        assert_eq!(with(r#"{"a": {}}"#, "a.b.c").as_deref(), Some(r#"{"a": {"b": {"c": 7}}}"#));
        assert_eq!(with(r#"{"a": 1}"#, "b").as_deref(), Some(r#"{"a": 1, "b": 7}"#));
        assert_eq!(with(r#"{"a": 1}"#, "a.b"), None);
        assert_eq!(with("[1]", "1"), None);
    }

    #[test]
    fn what_is_wrong_with_a_name_is_said() {
        let fails = |texts: &[&str]| Names::parse(texts.iter().copied()).unwrap_err();
        assert!(fails(&["city"]).contains("expected NAME=PATH"));
        assert!(fails(&["a b=c"]).contains("\"a b\" is not a label"));
        assert!(fails(&["a="]).contains("stands the key or the path"));
        assert!(fails(&["a=b", "a=c"]).contains("a=b says otherwise"));
        assert!(fails(&["a=b.c", "d=/b/c"]).contains("a=b.c says otherwise"));
        assert_eq!(Names::parse(["a=/x~1y/~0"]).unwrap().names[0].path, ["x/y", "~"]);
    }
}

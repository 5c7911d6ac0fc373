//! Labels: the names of a record's values, interned for the whole process.
//!
//! A label is a number; two labels are compared as numbers, and the number contains the label's kind. The
//! text of a label is looked up (without a lock) only for messages and files.
//!
//! ```
//! use thalweg_net::label::Label;
//! assert_ne!(Label::field("a"), Label::tag("a"));
//! assert_eq!(Label::parse("<#b>"), Ok(Label::binding_tag("b")));
//! assert_eq!(Label::tag("n").to_string(), "<n>");
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

mod foreign;

use crate::interner::{AppendTable, ENTRIES_MAX};
use crate::syntax::ast;

pub use crate::syntax::ast::LabelKind;

/// The most names that data (as opposed to programs) may introduce. Names in programs are not counted.
pub const NAMES_FROM_DATA_MAX: usize = 1 << 16;

static NAMES: AppendTable<Name> = AppendTable::new();
static INDEX: LazyLock<Mutex<HashMap<&'static str, u32>>> = LazyLock::new(Mutex::default);

/// A name as programs spell it and as data spell it.
struct Name {
    name: &'static str,
    /// The key in JSON of the field with this name, with its quotes and escapes.
    quoted_key: &'static str,
    /// Whether a program contains the name. The flag is set before the records that the program processes are
    /// read, so its accesses are relaxed.
    by_program: AtomicBool,
}

/// A label: a field, a tag or a binding tag. Labels are ordered by their first use in the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32); // index of the name × 4 + kind

/// Why a text is not a label, or cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// The text is not `name`, `<name>` or `<#name>` with a name of letters, digits and `_` that does not
    /// begin with a digit.
    Malformed,
    /// Data introduced more than [`NAMES_FROM_DATA_MAX`] names.
    TooMany,
}

impl Label {
    /// The field `name`.
    ///
    /// # Panics
    /// If the process has some two million names; all functions that return a `Label` (and not an error)
    /// panic in this case.
    pub fn field(name: &str) -> Label {
        Label::new(LabelKind::Field, name)
    }

    /// The tag `<name>`.
    pub fn tag(name: &str) -> Label {
        Label::new(LabelKind::Tag, name)
    }

    /// The binding tag `<#name>`.
    pub fn binding_tag(name: &str) -> Label {
        Label::new(LabelKind::BindingTag, name)
    }

    /// The label of a kind and a name.
    pub fn new(kind: LabelKind, name: &str) -> Label {
        let index = intern(name, ENTRIES_MAX).expect("a process has at most two million label names");
        let label = Label::from_parts(kind, index);
        label.entry().by_program.store(true, Ordering::Relaxed);
        label
    }

    /// Parses `a`, `<t>` or `<#b>`, as data writes labels.
    pub fn parse(text: &str) -> Result<Label, LabelError> {
        let (kind, name) = match text.strip_prefix('<').map(|rest| rest.strip_suffix('>')) {
            None => (LabelKind::Field, text),
            Some(None) => return Err(LabelError::Malformed),
            Some(Some(inner)) => match inner.strip_prefix('#') {
                Some(name) => (LabelKind::BindingTag, name),
                None => (LabelKind::Tag, inner),
            },
        };
        if !is_name(name) {
            return Err(LabelError::Malformed);
        }
        let index = intern(name, NAMES_FROM_DATA_MAX).ok_or(LabelError::TooMany)?;
        Ok(Label::from_parts(kind, index))
    }

    /// The label of this kind and name, which another process of the program uses. The name may be one that
    /// no text can contain, because the signature of a net has renamed a label; it counts as a name from data
    /// unless this process knows it.
    pub(crate) fn of_peer(kind: LabelKind, name: &str) -> Result<Label, LabelError> {
        let index = intern(name, NAMES_FROM_DATA_MAX).ok_or(LabelError::TooMany)?;
        Ok(Label::from_parts(kind, index))
    }

    /// The label of a key in data: `a`, `<t>` and `<#b>` as [`Label::parse`] reads them. Any other text is a
    /// field, in whose name each character that names cannot contain is written as `_xHEX_`: `user-id` is
    /// `user_x2D_id`.
    ///
    /// ```
    /// # use thalweg_net::label::Label;
    /// let label = Label::of_key("user-id").unwrap();
    /// assert_eq!(label.to_string(), "user_x2D_id");
    /// assert_eq!(label.quoted_key(), "\"user-id\"");
    /// ```
    ///
    /// # Errors
    /// Data introduced too many names.
    pub fn of_key(key: &str) -> Result<Label, LabelError> {
        match Label::parse(key) {
            Err(LabelError::Malformed) => {}
            Ok(label) if label.kind() == LabelKind::Field && foreign::key_of(label.name()).is_some() => {}
            known => return known,
        }
        let index = intern(&foreign::name_of(key), NAMES_FROM_DATA_MAX).ok_or(LabelError::TooMany)?;
        Ok(Label::from_parts(LabelKind::Field, index))
    }

    /// The key of a field in data, as JSON writes it, with its quotes.
    #[inline]
    pub fn quoted_key(self) -> &'static str {
        self.entry().quoted_key
    }

    /// The key of a label in data, from which [`Label::of_key`] makes this label.
    pub fn key(self) -> String {
        match (self.kind(), foreign::key_of(self.name())) {
            (LabelKind::Field, Some(key)) => key,
            _ => self.to_string(),
        }
    }

    /// Whether a program contains the label's name, as that of a field or a tag; if not, no component reads
    /// its values.
    pub fn is_of_program(self) -> bool {
        self.entry().by_program.load(Ordering::Relaxed)
    }

    fn entry(self) -> &'static Name {
        NAMES.get((self.0 >> 2) as usize).expect("labels are made by interning")
    }

    fn from_parts(kind: LabelKind, name: u32) -> Label {
        let kind = match kind {
            LabelKind::Field => 0,
            LabelKind::Tag => 1,
            LabelKind::BindingTag => 2,
        };
        Label(name << 2 | kind)
    }

    /// The kind: field, tag or binding tag.
    #[inline]
    pub fn kind(self) -> LabelKind {
        match self.0 & 3 {
            0 => LabelKind::Field,
            1 => LabelKind::Tag,
            _ => LabelKind::BindingTag,
        }
    }

    /// The name, without brackets.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Whether the label is a tag or a binding tag, whose values are integers.
    #[inline]
    pub fn is_integer(self) -> bool {
        self.0 & 3 != 0
    }

    /// Whether the label is a binding tag.
    #[inline]
    pub fn is_binding(self) -> bool {
        self.0 & 3 == 2
    }
}

impl From<&ast::Label> for Label {
    fn from(label: &ast::Label) -> Label {
        Label::new(label.kind, &label.name)
    }
}

impl From<&ast::LabelAt> for Label {
    fn from(at: &ast::LabelAt) -> Label {
        Label::from(&at.label)
    }
}

/// The labels in a part of a program, in the order written.
pub fn labels_of<'a, L: 'a>(written: impl IntoIterator<Item = &'a L>) -> Vec<Label>
where
    Label: From<&'a L>,
{
    written.into_iter().map(Label::from).collect()
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && !bytes[0].is_ascii_digit()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// The index of `name`, or `None` if the name is new and there are already `names_max` names from data.
fn intern(name: &str, names_max: usize) -> Option<u32> {
    let mut index = INDEX.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&known) = index.get(name) {
        return Some(known);
    }
    let next = index.len();
    if next >= names_max {
        return None;
    }
    let name: &'static str = Box::leak(name.into());
    let key = foreign::key_of(name).map_or(Cow::Borrowed(name), Cow::Owned);
    let quoted_key = serde_json::to_string(&key).expect("a text has a form in JSON").leak();
    NAMES.set(next, Name { name, quoted_key, by_program: AtomicBool::new(false) });
    index.insert(name, next as u32);
    Some(next as u32)
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            LabelKind::Field => f.write_str(self.name()),
            LabelKind::Tag => write!(f, "<{}>", self.name()),
            LabelKind::BindingTag => write!(f, "<#{}>", self.name()),
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelError::Malformed => f.write_str(
                "not a label: a field is written `name`, a tag `<name>`, a binding tag `<#name>`, and a name is \
                 letters, digits and `_`, no digit first",
            ),
            LabelError::TooMany => {
                write!(f, "more than {NAMES_FROM_DATA_MAX} different label names; are data used as labels?")
            }
        }
    }
}

impl std::error::Error for LabelError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_labels_or_not() {
        let good = [
            ("a", Label::field("a")),
            ("_a1", Label::field("_a1")),
            ("<a>", Label::tag("a")),
            ("<#a>", Label::binding_tag("a")),
        ];
        for (text, label) in good {
            assert_eq!(Label::parse(text), Ok(label));
            assert_eq!(label.to_string(), text);
        }
        for text in
            ["", "<", "<>", "<#>", "<a", "a>", "<#a", "1a", "a b", "<a b>", "<<a>>", "ä", "<##a>", "#a"]
        {
            assert_eq!(Label::parse(text), Err(LabelError::Malformed), "{text}");
        }
    }

    #[test]
    fn any_key_is_a_label() {
        let table = [
            ("user-id", "user_x2D_id"),
            ("@timestamp", "_x40_timestamp"),
            ("größe", "gr_xF6__xDF_e"),
            ("", "_x_"),
            ("1st", "_x31_st"),
            ("a b", "a_x20_b"),
            ("<a b>", "_x3C_a_x20_b_x3E_"),
            ("_x41-", "_x5F_x41_x2D_"),
            ("a_x2D_b", "a_x5F_x2D_b"),
            ("max_x", "max_x"),
            ("a_x41_", "a_x41_"),
            ("<n>", "<n>"),
        ];
        for (key, name) in table {
            let label = Label::of_key(key).unwrap();
            assert_eq!((label.to_string().as_str(), label.key().as_str()), (name, key));
            assert_eq!(Label::parse(name), Ok(label));
        }
    }

    #[test]
    fn one_name_is_three_labels() {
        let [f, t, b] = [Label::field("one"), Label::tag("one"), Label::binding_tag("one")];
        assert!(f != t && t != b && f != b);
        assert!(!f.is_integer() && t.is_integer() && b.is_integer());
        assert!(!f.is_binding() && !t.is_binding() && b.is_binding());
        assert_eq!((f.name(), f.kind()), (b.name(), LabelKind::Field));
    }

    #[test]
    fn threads_agree_on_labels() {
        let names: Vec<String> = (0..500).map(|i| format!("threads_agree_{i}")).collect();
        let all: Vec<Vec<Label>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| names.iter().map(|n| Label::tag(n)).collect())).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        assert!(all[0].iter().zip(&names).all(|(label, name)| label.name() == name));
    }
}

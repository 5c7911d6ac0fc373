//! Labels: the names of a record's values, interned for the whole process.
//!
//! A label is a number; comparing two is comparing numbers, and its kind is in the number. Text is looked up
//! (without a lock) only for messages and files.
//!
//! ```
//! use thalweg_net::label::Label;
//! assert_ne!(Label::field("a"), Label::tag("a"));
//! assert_eq!(Label::parse("<#b>"), Ok(Label::binding_tag("b")));
//! assert_eq!(Label::tag("n").to_string(), "<n>");
//! ```

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::interner::{AppendTable, ENTRIES_MAX};
use crate::syntax::ast;

pub use crate::syntax::ast::LabelKind;

/// How many different names data (as opposed to programs) may introduce. What a program names comes on top.
pub const NAMES_FROM_DATA_MAX: usize = 1 << 16;

static NAMES: AppendTable<&'static str> = AppendTable::new();
static INDEX: LazyLock<Mutex<HashMap<&'static str, u32>>> = LazyLock::new(Mutex::default);

/// A label: a field, a tag or a binding tag. The order of labels is that of their first use in the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32); // index of the name × 4 + kind

/// Why a text is not a label, or cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// Not `name`, `<name>` or `<#name>` with a name of letters, digits and `_` that starts with no digit.
    Malformed,
    /// Data brought more than [`NAMES_FROM_DATA_MAX`] names.
    TooMany,
}

impl Label {
    /// The field `name`.
    ///
    /// # Panics
    /// If the process has some two million names, as all constructors that return a `Label`.
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
        Label::from_parts(kind, index)
    }

    /// Reads `a`, `<t>` or `<#b>`, as data writes labels.
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

    fn from_parts(kind: LabelKind, name: u32) -> Label {
        let kind = match kind {
            LabelKind::Field => 0,
            LabelKind::Tag => 1,
            LabelKind::BindingTag => 2,
        };
        Label(name << 2 | kind)
    }

    /// Field, tag or binding tag.
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
        NAMES.get((self.0 >> 2) as usize).expect("labels are made by interning")
    }

    /// Whether it is a tag or a binding tag: its values are integers.
    #[inline]
    pub fn is_integer(self) -> bool {
        self.0 & 3 != 0
    }

    /// Whether it is a binding tag.
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

/// The labels of something written in a program, in the order written.
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

/// The index of `name`, or `None` if it is new and there are `names_max` already.
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
    NAMES.set(next, name);
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

//! The texts of events: an event stores the position of its text, and a batch stores the texts.

/// A text of an event; [`Batch::text`](crate::Batch::text) gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    first: u32,
    bytes: u32,
}

/// The texts of the events of a batch.
#[derive(Debug, Default)]
pub(crate) struct Texts(String);

impl Texts {
    /// Keeps a text; bytes that are not valid UTF-8 are replaced.
    pub(crate) fn keep(&mut self, text: &[u8]) -> Text {
        let first = self.0.len();
        self.0.push_str(&String::from_utf8_lossy(text));
        Text { first: first as u32, bytes: (self.0.len() - first) as u32 }
    }

    pub(crate) fn get(&self, text: Text) -> &str {
        let first = text.first as usize;
        self.0.get(first..first + text.bytes as usize).unwrap_or("")
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

//! Batches of tuples: heads in order, one word a field, and the texts that words point to.

use super::described::{Of, TupleKind};
use super::legend::{Element, KIND_GAP, Legend, Process};
use std::sync::{Arc, LazyLock};

/// The head of a tuple, which is the same for all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// The time in nanoseconds since 1970, by one clock for all processes of a machine.
    pub time_ns: u64,
    /// The index of the event in its element, from 0; for a live row the row's id.
    pub sequence: u64,
    /// The element from which the tuple comes, see [`Legend::elements`];
    /// [`ELEMENT_NONE`](super::ELEMENT_NONE) if an operator made it.
    pub element: u32,
    /// The index of the tuple's first word in the batch.
    pub(crate) first: u32,
    /// The tuple's kind: see [`Legend::kinds`].
    pub kind: u16,
    /// See [`Head::is_row`].
    pub flags: u16,
    /// Zero; keeps the head free of padding bytes.
    pub(crate) zero: u32,
}

impl Head {
    pub(crate) const ROW: u16 = 1;

    /// Whether the tuple was made of a live row, and not of an event.
    pub fn is_row(&self) -> bool {
        self.flags & Head::ROW != 0
    }
}

/// A sequence of tuples, with all data that is needed to read them.
///
/// A tuple is a [`Head`] and a word for each field of its kind. The word of a text is the place of the text
/// in the batch. So a batch of a million tuples needs three allocations, an operator that leaves tuples out
/// moves only heads, and a batch is sent as it lies in memory.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) heads: Vec<Head>,
    pub(crate) words: Vec<u64>,
    pub(crate) texts: String,
    pub(crate) legend: Arc<Legend>,
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'b> {
    /// A natural number.
    Unsigned(u64),
    /// An integer.
    Signed(i64),
    /// A real number; `NaN` if it is unknown.
    Real(f64),
    /// A truth value.
    Truth(bool),
    /// Nanoseconds since 1970.
    Time(u64),
    /// A text.
    Text(&'b str),
}

impl Value<'_> {
    /// The value as a number; `None` for a text and for an unknown value.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Unsigned(number) | Value::Time(number) => Some(number as f64),
            Value::Signed(number) => Some(number as f64),
            Value::Real(number) => Some(number).filter(|number| !number.is_nan()),
            Value::Truth(truth) => Some(f64::from(u8::from(truth))),
            Value::Text(_) => None,
        }
    }
}

impl Default for Batch {
    /// An empty batch. All empty batches share a legend, because pulls make many of them.
    fn default() -> Batch {
        static NONE: LazyLock<Arc<Legend>> = LazyLock::new(Arc::default);
        Batch { heads: Vec::new(), words: Vec::new(), texts: String::new(), legend: NONE.clone() }
    }
}

impl Batch {
    /// The number of tuples, including gaps.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether the batch has no tuples.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The tuples, in order.
    pub fn tuples(&self) -> impl DoubleEndedIterator<Item = Tuple<'_>> + ExactSizeIterator {
        self.heads.iter().map(|head| Tuple { batch: self, head })
    }

    /// The legend, which explains the numbers in the heads.
    pub fn legend(&self) -> &Arc<Legend> {
        &self.legend
    }

    /// The number of events that the gaps in the batch count as lost.
    pub fn lost(&self) -> u64 {
        self.tuples().filter_map(|tuple| tuple.lost()).sum()
    }

    /// The number of bytes of the tuples and texts.
    pub fn bytes(&self) -> usize {
        size_of::<Head>() * self.heads.len() + 8 * self.words.len() + self.texts.len()
    }

    /// Reserves memory for a batch with these sizes, which [`Batch::sizes`] returned for another batch.
    pub(crate) fn reserve_as(&mut self, sizes: [usize; 3]) {
        self.heads.reserve(sizes[0]);
        self.words.reserve(sizes[1]);
        self.texts.reserve(sizes[2]);
    }

    /// The numbers of tuples, words, and bytes of texts.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.heads.len(), self.words.len(), self.texts.len()]
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.words.clear();
        self.texts.clear();
    }

    /// Begins a tuple; the caller pushes its words next.
    #[inline]
    pub(crate) fn begin(&mut self, (time_ns, sequence): (u64, u64), element: u32, kind: u16, flags: u16) {
        let first = self.words.len() as u32;
        self.heads.push(Head { time_ns, sequence, element, first, kind, flags, zero: 0 });
    }

    /// Stores a text in the batch; returns its word.
    pub(crate) fn text_word(&mut self, text: &str) -> u64 {
        let at = self.texts.len() as u64;
        self.texts.push_str(text);
        at << 32 | text.len() as u64
    }

    /// The text of a word; empty for an invalid word.
    #[inline]
    pub(crate) fn text(&self, word: u64) -> &str {
        let (at, length) = ((word >> 32) as usize, word as u32 as usize);
        self.texts.get(at..at + length).unwrap_or("")
    }

    #[inline]
    pub(crate) fn word(&self, head: &Head, n: usize) -> u64 {
        self.words.get(head.first as usize + n).copied().unwrap_or(0)
    }

    /// Changes the first words of a tuple.
    pub(crate) fn set_words<const N: usize>(&mut self, head: &Head, words: [u64; N]) {
        let first = head.first as usize;
        if let Some(there) = self.words.get_mut(first..first + N) {
            there.copy_from_slice(&words);
        }
    }

    /// Adds a tuple of another batch with the same legend.
    pub(crate) fn push_from(&mut self, other: &Batch, head: &Head, kind: &TupleKind) {
        let first = self.words.len() as u32;
        for (n, field) in kind.fields.iter().enumerate() {
            let word = other.word(head, n);
            let word = if field.of == Of::Text { self.text_word(other.text(word)) } else { word };
            self.words.push(word);
        }
        self.heads.push(Head { first, ..*head });
    }

    /// Adds all tuples of another batch with the same kinds.
    pub(crate) fn append(&mut self, other: Batch, kinds: &[Arc<TupleKind>]) {
        if self.heads.is_empty() {
            let Batch { heads, words, texts, .. } = other;
            (self.heads, self.words, self.texts) = (heads, words, texts);
            return;
        }
        let (words, texts) = (self.words.len() as u32, (self.texts.len() as u64) << 32);
        self.words.extend_from_slice(&other.words);
        self.texts.push_str(&other.texts);
        for head in &other.heads {
            let head = Head { first: head.first + words, ..*head };
            if let Some(kind) = kinds.get(usize::from(head.kind)).filter(|_| texts > 0) {
                for (n, _) in kind.fields.iter().enumerate().filter(|(_, field)| field.of == Of::Text) {
                    if let Some(word) = self.words.get_mut(head.first as usize + n) {
                        *word = word.wrapping_add(texts);
                    }
                }
            }
            self.heads.push(head);
        }
    }

    /// Frees the memory of tuples that were left out, if these are the majority.
    pub(crate) fn compact(&mut self, kinds: &[Arc<TupleKind>]) {
        let words = |head: &Head| kinds.get(usize::from(head.kind)).map_or(0, |kind| kind.fields.len());
        let needed: usize = self.heads.iter().map(words).sum();
        if needed * 2 >= self.words.len() {
            return;
        }
        let mut kept = Batch { legend: self.legend.clone(), ..Batch::default() };
        for head in &self.heads {
            if let Some(kind) = kinds.get(usize::from(head.kind)) {
                kept.push_from(self, head, kind);
            }
        }
        *self = kept;
    }
}

/// A tuple of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Tuple<'b> {
    batch: &'b Batch,
    head: &'b Head,
}

impl<'b> Tuple<'b> {
    /// The head of the tuple.
    pub fn head(&self) -> &'b Head {
        self.head
    }

    /// The kind of the tuple.
    pub fn kind(&self) -> &'b TupleKind {
        let kinds = &self.batch.legend.kinds;
        kinds.get(usize::from(self.head.kind)).unwrap_or(&kinds[usize::from(KIND_GAP)])
    }

    /// The element from which the tuple comes.
    pub fn element(&self) -> Option<&'b Element> {
        self.batch.legend.elements.get(self.head.element as usize).filter(|_| self.head.element != 0)
    }

    /// The process from which the tuple comes.
    pub fn process(&self) -> Option<&'b Process> {
        self.batch.legend.process(self.head.element).filter(|_| self.head.element != 0)
    }

    /// The number of events lost, if the tuple is a gap.
    pub fn lost(&self) -> Option<u64> {
        (self.head.kind == KIND_GAP).then(|| self.batch.word(self.head, 0))
    }

    /// The value of the `n`-th field.
    pub fn value(&self, n: usize) -> Option<Value<'b>> {
        let word = self.batch.word(self.head, n);
        Some(match self.kind().fields.get(n)?.of {
            Of::Unsigned => Value::Unsigned(word),
            Of::Signed => Value::Signed(word.cast_signed()),
            Of::Real => Value::Real(f64::from_bits(word)),
            Of::Truth => Value::Truth(word != 0),
            Of::Time => Value::Time(word),
            Of::Text => Value::Text(self.batch.text(word)),
        })
    }

    /// The value of the field of this name.
    pub fn field(&self, name: &str) -> Option<Value<'b>> {
        self.value(self.kind().position(name)?)
    }
}

impl PartialEq for Tuple<'_> {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: Option<Value<'_>>, b: Option<Value<'_>>| match (a, b) {
            (Some(Value::Real(a)), Some(Value::Real(b))) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        let head = |tuple: &Self| (tuple.head.time_ns, tuple.head.sequence, tuple.head.element);
        head(self) == head(other)
            && self.kind() == other.kind()
            && (0..self.kind().fields.len()).all(|n| same(self.value(n), other.value(n)))
    }
}

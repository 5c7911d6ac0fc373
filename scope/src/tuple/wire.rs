//! The encoding of batches between a scope server and its clients. All numbers are little-endian.
//!
//! ```text
//! batch     = u32 kinds { kind } u32 elements { element } u32 processes { process }     those that the other side lacks
//!             u32 tuples u32 words u32 bytes { head } { u64 word } { byte of texts } .
//! kind      = text name, text doc, u32 fields { text name, u8 type, text unit, text doc } .
//! element   = u32 process, u32 writer, text name .
//! process   = text name, u32 pid, text host, text session, 16 bytes uuid .
//! head      = u64 time, u64 sequence, u32 element, u32 first word, u16 kind, u16 flags, u32 zero .
//! text      = u32 bytes { byte } .
//! ```

use super::batch::{Batch, Head};
use super::described::{Field, Of, TupleKind};
use super::legend::{Element, Legend, Process};
use std::fmt;
use std::sync::Arc;

/// Bytes of a head.
const HEAD_BYTES: usize = 32;

/// The error for bytes that do not encode a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub(crate) &'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the received bytes are damaged: {}", self.0)
    }
}

impl std::error::Error for Damaged {}

pub(crate) fn put_u32(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_le_bytes());
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u32(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Writes a batch, with the part of its legend that was not sent yet; updates `sent`, the numbers of entries
/// sent.
pub(crate) fn put_batch(out: &mut Vec<u8>, batch: &Batch, sent: &mut [usize; 3]) {
    let legend = &batch.legend;
    let kinds = &legend.kinds[sent[0].min(legend.kinds.len())..];
    put_u32(out, kinds.len());
    for kind in kinds {
        put_text(out, &kind.name);
        put_text(out, &kind.doc);
        put_u32(out, kind.fields.len());
        for field in &kind.fields {
            put_text(out, &field.name);
            out.push(field.of as u8);
            put_text(out, &field.unit);
            put_text(out, &field.doc);
        }
    }
    let elements = &legend.elements[sent[1].min(legend.elements.len())..];
    put_u32(out, elements.len());
    for element in elements {
        put_u32(out, element.process as usize);
        put_u32(out, element.writer as usize);
        put_text(out, &element.name);
    }
    let processes = &legend.processes[sent[2].min(legend.processes.len())..];
    put_u32(out, processes.len());
    for process in processes {
        put_text(out, &process.name);
        put_u32(out, process.pid as usize);
        put_text(out, &process.host);
        put_text(out, &process.session);
        out.extend_from_slice(&process.uuid);
    }
    *sent = [legend.kinds.len(), legend.elements.len(), legend.processes.len()];
    put_u32(out, batch.heads.len());
    put_u32(out, batch.words.len());
    put_u32(out, batch.texts.len());
    for head in &batch.heads {
        out.extend_from_slice(&head.time_ns.to_le_bytes());
        out.extend_from_slice(&head.sequence.to_le_bytes());
        out.extend_from_slice(&head.element.to_le_bytes());
        out.extend_from_slice(&head.first.to_le_bytes());
        out.extend_from_slice(&head.kind.to_le_bytes());
        out.extend_from_slice(&head.flags.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    batch.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.extend_from_slice(batch.texts.as_bytes());
}

/// Reads the output of [`put_batch`].
#[derive(Debug)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], Damaged> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Damaged> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Damaged> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("2 bytes")))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    pub(crate) fn text(&mut self) -> Result<&'b str, Damaged> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).map_err(|_| Damaged("a text is not UTF-8"))
    }

    /// Reads a count of items that take at least `least` bytes each.
    fn count(&mut self, least: usize) -> Result<usize, Damaged> {
        let count = self.u32()? as usize;
        if count.saturating_mul(least) > self.bytes.len() {
            return Err(Damaged("a count exceeds the number of bytes"));
        }
        Ok(count)
    }

    fn kind(&mut self) -> Result<TupleKind, Damaged> {
        let (name, doc) = (self.text()?.to_owned(), self.text()?.to_owned());
        let count = self.count(13)?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.text()?.to_owned();
            let of = *Of::ALL.get(usize::from(self.u8()?)).ok_or(Damaged("a field has an unknown type"))?;
            fields.push(Field { name, of, unit: self.text()?.to_owned(), doc: self.text()?.to_owned() });
        }
        Ok(TupleKind { name, doc, fields })
    }

    /// Reads a batch, and appends the legend entries that come with the batch to `legend`.
    pub(crate) fn batch(&mut self, legend: &mut Arc<Legend>) -> Result<Batch, Damaged> {
        let (kinds, mut elements, mut processes) = (self.count(12)?, Vec::new(), Vec::new());
        let kinds: Vec<_> = (0..kinds).map(|_| self.kind().map(Arc::new)).collect::<Result<_, _>>()?;
        for _ in 0..self.count(12)? {
            elements.push(Element { process: self.u32()?, writer: self.u32()?, name: self.text()?.into() });
        }
        for _ in 0..self.count(32)? {
            let (name, pid) = (self.text()?.to_owned(), self.u32()?);
            let (host, session) = (self.text()?.to_owned(), self.text()?.to_owned());
            let uuid = self.take(16)?.try_into().expect("16 bytes");
            processes.push(Arc::new(Process { name, pid, host, session, uuid }));
        }
        if !(kinds.is_empty() && elements.is_empty() && processes.is_empty()) {
            let legend = Arc::make_mut(legend);
            legend.kinds.extend(kinds);
            legend.elements.extend(elements);
            legend.processes.extend(processes);
        }
        let count = self.u32()? as usize;
        let (words, texts) = (self.u32()? as usize, self.u32()? as usize);
        let heads = self.take(count.saturating_mul(HEAD_BYTES))?;
        let words = self.take(words.saturating_mul(8))?;
        let texts = std::str::from_utf8(self.take(texts)?).map_err(|_| Damaged("its texts are not UTF-8"))?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let words: Vec<u64> = words.chunks_exact(8).map(word).collect();
        let heads = heads
            .chunks_exact(HEAD_BYTES)
            .map(|head| checked(head, &words, legend))
            .collect::<Result<_, _>>()?;
        Ok(Batch { heads, words, texts: texts.to_owned(), legend: legend.clone() })
    }
}

fn checked(bytes: &[u8], words: &[u64], legend: &Legend) -> Result<Head, Damaged> {
    let mut reader = Reader::new(bytes);
    let (time_ns, sequence) = (reader.u64()?, reader.u64()?);
    let (element, first) = (reader.u32()?, reader.u32()?);
    let (kind, flags) = (reader.u16()?, reader.u16()?);
    let described = legend.kinds.get(usize::from(kind)).ok_or(Damaged("a tuple has an unknown kind"))?;
    if first as usize + described.fields.len() > words.len() {
        return Err(Damaged("a tuple's words are not there"));
    }
    if element as usize >= legend.elements.len() {
        return Err(Damaged("a tuple is of an unknown element"));
    }
    Ok(Head { time_ns, sequence, element, first, kind, flags, zero: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{KIND_GAP, Tables};
    use proptest::prelude::*;

    /// A batch with a gap and tuples of a kind that has each type of field.
    fn batch(texts: &[String]) -> Batch {
        let tables = Tables::default();
        let field = |(n, of): (usize, &Of)| Field {
            name: format!("f{n}"),
            of: *of,
            unit: "ns".into(),
            doc: "a field".into(),
        };
        let fields = Of::ALL.iter().enumerate().map(field).collect();
        let kind = tables.kind(TupleKind { name: "test.all".into(), doc: "all".into(), fields });
        let process =
            tables.process(Process { name: "p".into(), pid: 7, host: "h".into(), ..Process::default() });
        let element = tables.element(Element { process, writer: 3, name: "w".into() });
        let mut batch = Batch::default();
        for (n, text) in texts.iter().enumerate() {
            let word = batch.text_word(text);
            batch.begin((n as u64, n as u64), element, kind, 0);
            batch.words.extend([1, u64::MAX, 1.5_f64.to_bits(), 1, 9, word]);
        }
        batch.begin((9, 9), element, KIND_GAP, 0);
        batch.words.extend([4, 9]);
        batch.legend = tables.now();
        batch
    }

    /// The text of all fields of a batch.
    fn shown(batch: &Batch) -> String {
        let tuple = |tuple: crate::tuple::Tuple<'_>| {
            let values: Vec<_> = (0..tuple.kind().fields.len()).map(|n| tuple.value(n)).collect();
            format!("{:?} {:?} {:?} {values:?}", tuple.head().time_ns, tuple.process(), tuple.element())
        };
        batch.tuples().map(tuple).collect::<Vec<_>>().join("\n")
    }

    proptest! {
        #[test]
        fn batches_come_as_they_went(parts in prop::collection::vec(prop::collection::vec(".{0,9}", 0..5), 1..4)) {
            let (mut sent, mut legend) = ([1; 3], Arc::<Legend>::default());
            for texts in &parts {
                let batch = batch(texts);
                let mut bytes = Vec::new();
                put_batch(&mut bytes, &batch, &mut sent);
                let mut reader = Reader::new(&bytes);
                let read = reader.batch(&mut legend).unwrap();
                prop_assert!(reader.is_empty());
                prop_assert_eq!(shown(&read), shown(&batch));
            }
        }

        #[test]
        fn damaged_bytes_are_refused_or_read_but_harm_nothing(
            texts in prop::collection::vec(".{0,5}", 0..4),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            put_batch(&mut bytes, &batch(&texts), &mut [1; 3]);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + bytes.len() / 2);
            let mut legend = Arc::default();
            if let Ok(batch) = Reader::new(&bytes).batch(&mut legend) {
                shown(&batch);
                prop_assert!(batch.lost() > 0 || batch.lost() == 0);
            }
        }
    }
}

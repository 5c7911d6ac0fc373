//! The kinds that were declared in one catalog, for the writers whose elements belong to it.

use crate::catalog::{Catalog, Record};
use crate::element::event_bytes_max;
use crate::error::Error;
use crate::kind::{Kind, KindId, Schema, schema_hash, words};
use crate::layout::event;
use std::sync::{Mutex, PoisonError};

/// A catalog of kinds, and the kinds declared in it so far.
#[derive(Debug)]
pub(crate) struct Declared {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    catalog: Catalog,
    /// Name and schema of the kinds declared so far; a kind's id is its index plus the first id that a writer
    /// may use.
    kinds: Vec<(&'static str, u64)>,
}

impl Declared {
    pub(crate) fn new(catalog: Catalog) -> Declared {
        Declared { inner: Mutex::new(Inner { catalog, kinds: Vec::new() }) }
    }

    /// Declares a kind for `writer`; repeated declarations return the same id. Events of the kind must fit
    /// into blocks of this size.
    pub(crate) fn declare<K: Kind>(&self, writer: u32, block_bytes: usize) -> Result<KindId<K>, Error> {
        let schema = Schema { name: K::NAME, doc: K::DOC, fields: K::FIELDS };
        Ok(KindId::new(self.declare_schema(&schema, block_bytes)?, writer))
    }

    /// Declares a kind that is known only by its description; returns its id.
    pub(crate) fn declare_schema(&self, kind: &Schema, block_bytes: usize) -> Result<u16, Error> {
        let bytes = 8 * (1 + words(kind.fields));
        let room = event_bytes_max(block_bytes);
        if bytes > room {
            return Err(Error::new(format!(
                "kind `{}` has {bytes} bytes, and this element's blocks hold events of up to {room}: use larger blocks",
                kind.name
            )));
        }
        let hash = schema_hash(kind.name, kind.fields.iter().map(|f| (f.name, f.field_type, f.unit)));
        // A panic under the lock leaves every step either done or not begun.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match inner.kinds.iter().position(|known| *known == (kind.name, hash)) {
            Some(index) => index,
            None => inner.append(kind, hash)?,
        };
        Ok(event::KIND_FIRST + index as u16)
    }
}

impl Inner {
    fn append(&mut self, kind: &Schema, hash: u64) -> Result<usize, Error> {
        let index = self.kinds.len();
        if index > usize::from(u16::MAX - event::KIND_FIRST) {
            return Err(Error::new(format!(
                "kind `{}` cannot be declared: a writer has at most 65520 kinds",
                kind.name
            )));
        }
        let id = event::KIND_FIRST + index as u16;
        self.catalog.append(&Record::kind(id, kind.name, kind.doc, kind.fields))?;
        self.kinds.push((kind.name, hash));
        Ok(index)
    }
}

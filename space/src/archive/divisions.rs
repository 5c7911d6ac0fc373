//! How the bytes of events are divided into fields, for each kind of an element, from the catalog of its
//! writer.

use super::chunk::Division;
use crate::catalog::{CatalogReader, FieldInfo, Record};
use crate::error::Error;
use crate::layout::event;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// How events of each kind of one catalog are divided into fields, for the kinds that were read so far.
#[derive(Debug)]
pub(crate) struct KindDivisions {
    catalog: CatalogReader,
    known: HashMap<u16, Arc<Division>>,
}

impl KindDivisions {
    /// Opens catalog `number` of the space in `directory`.
    pub(crate) fn open(directory: &Path, number: u32) -> Result<KindDivisions, Error> {
        let catalog = CatalogReader::open(&directory.join(format!("{number:04}.catalog")))?;
        Ok(KindDivisions { catalog, known: HashMap::new() })
    }

    /// The division of kind `id`; `None` if the catalog does not describe it (yet).
    pub(crate) fn find(&mut self, id: u16) -> Option<Arc<Division>> {
        if !self.known.contains_key(&id) && id >= event::KIND_FIRST {
            self.read_new();
        }
        self.known.get(&id).cloned()
    }

    fn read_new(&mut self) {
        let KindDivisions { catalog, known, .. } = self;
        // The error is ignored: with a damaged catalog, events are coded by words instead of fields.
        let _ = catalog.read_new(&mut |record| {
            if let Record::Kind { id, fields, .. } = record {
                known.insert(id, Arc::new(divided(&fields)));
            }
        });
    }
}

fn divided(fields: &[FieldInfo]) -> Division {
    let mut at = 0_usize;
    let mut places = Vec::with_capacity(fields.len());
    for field in fields {
        let bytes = field.field_type.bytes();
        at = at.next_multiple_of(bytes);
        places.push((at, bytes));
        at += bytes;
    }
    Division::new(places, at.div_ceil(8))
}

//! How the events of an element's kinds are divided into fields, from the catalog of its writer.

use super::chunk::Division;
use crate::catalog::{CatalogReader, FieldInfo, Record};
use crate::error::Error;
use crate::layout::event;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The kinds of one catalog, as far as it was read.
#[derive(Debug)]
pub(crate) struct KindDivisions {
    catalog: CatalogReader,
    known: HashMap<u16, Arc<Division>>,
}

impl KindDivisions {
    /// The kinds of catalog `number` of the space in `directory`.
    pub(crate) fn open(directory: &Path, number: u32) -> Result<KindDivisions, Error> {
        let catalog = CatalogReader::open(&directory.join(format!("{number:04}.catalog")))?;
        Ok(KindDivisions { catalog, known: HashMap::new() })
    }

    /// How kind `id` is divided; none if the catalog does not describe it (yet).
    pub(crate) fn find(&mut self, id: u16) -> Option<Arc<Division>> {
        if !self.known.contains_key(&id) && id >= event::KIND_FIRST {
            self.read_new();
        }
        self.known.get(&id).cloned()
    }

    fn read_new(&mut self) {
        let KindDivisions { catalog, known, .. } = self;
        // With a damaged catalog events have no columns for their fields; their words are kept.
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

//! The kinds of a space's events, from the catalogs that its elements belong to.

use crate::catalog::{CatalogReader, FieldInfo, Record};
use crate::error::Error;
use crate::kind::FieldType;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A kind as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// The kind's index in the stream that reads it, from 0. Kinds of the same schema have the same index for
    /// all writers.
    pub index: usize,
    /// The kind's name.
    pub name: String,
    /// What an event of the kind records.
    pub doc: String,
    /// The kind's fields, in order.
    pub fields: Vec<FieldInfo>,
    /// The schema's hash.
    pub hash: u64,
    /// Where each field lies in the fixed part.
    offsets: Vec<usize>,
    /// The number of words of the fixed part.
    pub(super) words: usize,
    /// Where the lengths of the fields of variable length lie in the fixed part.
    pub(super) variable: Vec<usize>,
}

/// A field of a kind, found by name once and used for many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef {
    pub(super) offset: usize,
    pub(super) field_type: FieldType,
    /// The index of the field among the kind's fields of variable length.
    pub(super) variable: usize,
}

impl KindInfo {
    fn new(index: usize, name: String, doc: String, hash: u64, fields: Vec<FieldInfo>) -> KindInfo {
        let mut at: usize = 0;
        let mut offsets = Vec::new();
        let mut variable = Vec::new();
        for field in &fields {
            let bytes = field.field_type.bytes();
            at = at.next_multiple_of(bytes);
            offsets.push(at);
            if field.field_type.is_variable() {
                variable.push(at);
            }
            at += bytes;
        }
        KindInfo { index, name, doc, fields, hash, offsets, words: at.div_ceil(8), variable }
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<FieldRef> {
        self.fields.iter().position(|f| f.name == name).map(|n| self.field_at(n))
    }

    pub(super) fn field_at(&self, n: usize) -> FieldRef {
        let variable = self.fields[..n].iter().filter(|f| f.field_type.is_variable()).count();
        FieldRef { offset: self.offsets[n], field_type: self.fields[n].field_type, variable }
    }

    /// Whether the arguments are long enough for the fixed part, and for the fields of variable length, whose
    /// lengths the fixed part has.
    #[inline]
    pub(super) fn fits(&self, arguments: &[u8]) -> bool {
        let mut needed = 8 * self.words;
        if arguments.len() < needed {
            return false;
        }
        for offset in &self.variable {
            needed = needed.saturating_add(length_at(arguments, *offset).next_multiple_of(8));
        }
        needed <= arguments.len()
    }
}

/// The length of a field of variable length, which is stored at `offset` of the fixed part.
pub(super) fn length_at(arguments: &[u8], offset: usize) -> usize {
    let Some(bytes) = arguments.get(offset..offset + 4) else { return 0 };
    u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as usize
}

/// The catalogs of kinds that were opened, and all kinds in them, by name and hash.
#[derive(Debug, Default)]
pub(super) struct Catalogs {
    open: Vec<Catalog>,
    all: Vec<Arc<KindInfo>>,
    known: HashMap<(String, u64), usize>,
}

#[derive(Debug)]
struct Catalog {
    number: u32,
    reader: CatalogReader,
    /// The kinds at the indices of their ids; `None` where the catalog has no kind with the id, or not yet.
    kinds: Vec<Option<Arc<KindInfo>>>,
}

impl Catalogs {
    /// All kinds, at their [`KindInfo::index`].
    pub(super) fn kinds(&self) -> &[Arc<KindInfo>] {
        &self.all
    }

    /// Opens the catalog with the number `number` if it is not open yet, and returns its index.
    pub(super) fn open(&mut self, directory: &Path, number: u32) -> Result<usize, Error> {
        // The search starts at the catalog opened last: the elements of a pool share a catalog, and are
        // opened one after another.
        if let Some(index) = self.open.iter().rposition(|catalog| catalog.number == number) {
            return Ok(index);
        }
        let reader = CatalogReader::open(&directory.join(format!("{number:04}.catalog")))?;
        self.open.push(Catalog { number, reader, kinds: Vec::new() });
        Ok(self.open.len() - 1)
    }

    /// Kind `id` of the catalog at index `catalog`, if that kind has been read.
    #[inline]
    pub(super) fn kind(&self, catalog: usize, id: u16) -> Option<&Arc<KindInfo>> {
        self.open[catalog].kinds.get(usize::from(id))?.as_ref()
    }

    /// Kind `id` of the catalog at index `catalog`. If the kind is not known yet, new entries of the catalog
    /// are read.
    #[inline]
    pub(super) fn find(&mut self, catalog: usize, id: u16) -> Result<Option<&Arc<KindInfo>>, Error> {
        if self.kind(catalog, id).is_none() {
            self.read_new(catalog)?;
        }
        Ok(self.kind(catalog, id))
    }

    /// All kinds of the catalog at index `catalog`, each at the index of its id.
    pub(super) fn all_of(&mut self, catalog: usize) -> Result<&[Option<Arc<KindInfo>>], Error> {
        self.read_new(catalog)?;
        Ok(&self.open[catalog].kinds)
    }

    #[cold]
    fn read_new(&mut self, catalog: usize) -> Result<(), Error> {
        let Catalogs { open, all, known } = self;
        let Catalog { reader, kinds, .. } = &mut open[catalog];
        reader.read_new(&mut |record| {
            if let Record::Kind { id, hash, name, doc, fields } = record {
                let id = usize::from(id);
                if kinds.len() <= id {
                    kinds.resize(id + 1, None);
                }
                kinds[id] = Some(intern(all, known, hash, name, doc, fields));
            }
        })
    }
}

fn intern(
    all: &mut Vec<Arc<KindInfo>>,
    known: &mut HashMap<(String, u64), usize>,
    hash: u64,
    name: String,
    doc: String,
    fields: Vec<FieldInfo>,
) -> Arc<KindInfo> {
    let same = known.get(&(name.clone(), hash)).map(|index| &all[*index]);
    // Kinds with equal hashes are compared field by field, too: if a hash is damaged, the offsets of another
    // kind would be used.
    if let Some(kind) = same.filter(|kind| kind.fields == fields) {
        return kind.clone();
    }
    let index = all.len();
    known.insert((name.clone(), hash), index);
    all.push(Arc::new(KindInfo::new(index, name, doc, hash, fields)));
    all[index].clone()
}

//! The texts of names, sites and choices, stored once in each batch.

use crate::tuple::Batch;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use thalweg_space::kind::{NameRef, SiteRef};
use thalweg_space::reader::SpaceReader;

/// The deepest nesting of components, which bounds the walk along parents in a damaged catalog.
const DEPTH_MAX: usize = 256;

/// A hasher of numbers: one multiplication spreads them well enough.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
}

/// A map whose keys are numbers that no attacker chooses.
pub(crate) type ByNumber<V> = HashMap<u64, V, BuildHasherDefault<Spread>>;

/// The key of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TextOf {
    Name(u64),
    Site(u64),
}

/// The texts of a process.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// The words in the current batch by name; the next field has those by site.
    names: ByNumber<u64>,
    sites: ByNumber<u64>,
    paths: ByNumber<Arc<str>>,
    /// The number of sites when paths were last computed.
    known_sites: usize,
    /// Whether sites were read again in this pull because one was missing.
    has_looked: bool,
}

impl Texts {
    /// Forgets the words of the last batch.
    pub(crate) fn new_batch(&mut self) {
        self.names.clear();
        self.sites.clear();
    }

    /// Begins a pull, in which unknown sites may be looked for once.
    pub(crate) fn new_pull(&mut self) {
        self.has_looked = false;
    }

    /// The word for a text.
    pub(crate) fn word(&mut self, of: TextOf, space: &SpaceReader, batch: &mut Batch) -> u64 {
        let (words, number) = match of {
            TextOf::Name(number) => (&self.names, number),
            TextOf::Site(number) => (&self.sites, number),
        };
        if let Some(word) = words.get(&number) {
            return *word;
        }
        match of {
            TextOf::Name(number) => {
                let text = space.name(NameRef(number));
                let word = batch.text_word(text.as_deref().unwrap_or(""));
                self.names.insert(number, word);
                word
            }
            TextOf::Site(number) => {
                let path = self.path(number, space);
                let word = batch.text_word(&path);
                self.sites.insert(number, word);
                word
            }
        }
    }

    /// The path of a component from the root of its network; empty for an unknown component.
    pub(crate) fn path(&mut self, site: u64, space: &SpaceReader) -> Arc<str> {
        if let Some(path) = self.paths.get(&site) {
            return path.clone();
        }
        if site != 0 && !self.has_looked {
            self.has_looked = true;
            self.look(space);
        }
        self.paths.get(&site).cloned().unwrap_or_default()
    }

    fn look(&mut self, space: &SpaceReader) {
        let Ok(sites) = space.sites() else { return };
        if sites.len() == self.known_sites {
            return;
        }
        let by_id: HashMap<u64, usize> = sites.iter().enumerate().map(|(n, site)| (site.id.0, n)).collect();
        for site in &sites[self.known_sites.min(sites.len())..] {
            let mut parts = vec![site.name.as_str()];
            let mut parent = site.parent;
            while let Some(&n) = by_id.get(&parent.0)
                && parent != SiteRef::NONE
                && parts.len() < DEPTH_MAX
            {
                parts.push(&sites[n].name);
                parent = sites[n].parent;
            }
            parts.retain(|part| !part.is_empty());
            parts.reverse();
            self.paths.insert(site.id.0, parts.join("/").into());
        }
        self.known_sites = sites.len();
    }
}

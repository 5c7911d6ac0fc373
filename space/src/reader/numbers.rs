//! Which elements a space has, and where they lie.

use super::blocks::{ElementId, KeptCell, Place, PoolFile};
use crate::archive::Kept;
use crate::directory::IDENTITY;
use crate::error::Error;
use crate::file;
use crate::layout::identity;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The elements of a space that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The counts of elements that the identity had when the directory was last listed.
    count: u64,
    found: BTreeSet<ElementId>,
    pools: BTreeMap<u32, Arc<PoolFile>>,
    /// The directories of the elements that lie outside the space's directory.
    elsewhere: BTreeMap<u32, Arc<Path>>,
    /// The segments of the space's archive, if there were any at the last look.
    kept: KeptCell,
    /// Whether only rings are read, and archives are ignored.
    rings_only: bool,
}

impl Numbers {
    /// The numbers of the elements that exist, whether they are archived or not.
    pub(crate) fn of_rings() -> Numbers {
        Numbers { rings_only: true, ..Numbers::default() }
    }

    /// The elements that appeared since the last call, in order. A pool that cannot be read is reported once,
    /// in `problem`.
    ///
    /// The counts in the identity show whether the directory has to be listed again, and which elements are
    /// complete.
    pub(crate) fn new_ones(
        &mut self,
        directory: &Path,
        problem: &mut Option<Error>,
    ) -> Result<Vec<Place>, Error> {
        let mut new = self.kept_ones(directory, problem);
        let path = directory.join(IDENTITY);
        let file = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
        let mut word = [0; 8];
        file::read_exact_at(&file, &path, &mut word, identity::WRITERS as u64)?;
        let count = u64::from_le_bytes(word);
        let here: Arc<Path> = directory.into();
        if count == self.count {
            return Ok(self.places(new, &here));
        }
        self.count = count;
        let mut pools = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(|e| Error::io("read", directory, e))? {
            let name = entry.map_err(|e| Error::io("read", directory, e))?.file_name();
            let name = name.to_string_lossy();
            let is_complete = |number: &u32| u64::from(*number) <= count;
            if let Some(number) = number_before(&name, ".pool").filter(is_complete) {
                pools.push((number, here.clone()));
            }
            if let Some(number) = number_before(&name, ".at").filter(is_complete) {
                match self.elsewhere(directory, &file, number) {
                    Ok(Some(elsewhere)) => pools.push((number, elsewhere)),
                    Ok(None) => new.extend(self.find(ElementId { file: number, slot: None })),
                    Err(error) => drop(problem.get_or_insert(error)),
                }
            }
            let id = element_id(&name).filter(|id| is_complete(&id.file));
            new.extend(id.and_then(|id| self.find(id)));
        }
        for (number, directory) in pools {
            if let Err(error) = self.look_at_pool(&directory, number, &mut new) {
                problem.get_or_insert(error);
            }
        }
        Ok(self.places(new, &here))
    }

    fn places(&self, mut ids: Vec<ElementId>, here: &Arc<Path>) -> Vec<Place> {
        ids.sort_unstable();
        let place = |id: ElementId| {
            let directory = self.elsewhere.get(&id.file).unwrap_or(here).clone();
            Place { id, pool: self.pools.get(&id.file).cloned(), directory, kept: self.kept.clone() }
        };
        ids.into_iter().map(place).collect()
    }

    /// The elements of the archive's segments that were not found before.
    fn kept_ones(&mut self, directory: &Path, problem: &mut Option<Error>) -> Vec<ElementId> {
        if self.rings_only {
            return Vec::new();
        }
        if self.kept.get().is_none() {
            match Kept::open(directory) {
                Ok(kept) => drop(kept.map(|kept| self.kept.set(kept))),
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        let Some(kept) = self.kept.get() else { return Vec::new() };
        if let Err(error) = kept.look() {
            problem.get_or_insert(error);
        }
        kept.elements().into_iter().filter(|id| self.found.insert(*id)).collect()
    }

    /// Adds the element; returns it if it was not found before.
    fn find(&mut self, id: ElementId) -> Option<ElementId> {
        self.found.insert(id).then_some(id)
    }

    /// Finds the directory of an element or pool that lies outside the space's directory, and notes it;
    /// returns the directory of a pool.
    fn elsewhere(&mut self, space: &Path, identity: &File, number: u32) -> Result<Option<Arc<Path>>, Error> {
        let directory = match self.elsewhere.get(&number) {
            Some(directory) => directory.clone(),
            None => {
                let mut uuid = [0; 16];
                file::read_exact_at(identity, &space.join(IDENTITY), &mut uuid, identity::UUID as u64)?;
                let directory: Arc<Path> = crate::place::read_link(space, number, uuid)?.into();
                self.elsewhere.insert(number, directory.clone());
                directory
            }
        };
        let is_pool = directory.join(format!("{number:04}.pool")).exists();
        Ok(is_pool.then_some(directory))
    }

    fn look_at_pool(&mut self, directory: &Path, number: u32, new: &mut Vec<ElementId>) -> Result<(), Error> {
        let pool = match self.pools.get(&number) {
            Some(pool) => pool.clone(),
            None => {
                let pool = Arc::new(PoolFile::open(directory.join(format!("{number:04}.pool")), number)?);
                self.pools.insert(number, pool.clone());
                pool
            }
        };
        for slot in 0..pool.used()? {
            let id = ElementId { file: number, slot: Some(slot) };
            if self.found.insert(id) {
                new.push(id);
            }
        }
        Ok(())
    }
}

/// The element whose ring or archive the file called `name` holds.
fn element_id(name: &str) -> Option<ElementId> {
    if let Some(file) = number_before(name, ".element").or_else(|| number_before(name, ".archive")) {
        return Some(ElementId { file, slot: None });
    }
    let (file, slot) = name.split_once('-')?;
    Some(ElementId { file: number_before(file, "")?, slot: Some(number_before(slot, ".archive")?) })
}

/// The number in a file name that ends with `ending`.
fn number_before(name: &str, ending: &str) -> Option<u32> {
    let stem = name.strip_suffix(ending)?;
    let number = stem.parse().ok()?;
    // Only the spelling that a writer uses is accepted, because a file is opened by the name that its number
    // gives.
    (format!("{number:04}") == stem).then_some(number)
}

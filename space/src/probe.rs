//! Probes: places in a program that are switched on and off by name while it runs.
//!
//! A probe that is off costs a relaxed load and a branch. A process that switches probes appends a pattern
//! ([`Glob`]) to the file `probes` and stores the words of the probes whose names match in the files
//! `switches.N`, which the process has mapped: so a probe is switched without any action of the process. A
//! probe that is made later gets the state of the last pattern that matches its name. The process records the
//! switching at its next safe point ([`crate::Space::adopt`]).
//!
//! ```
//! use thalweg_space::{Space, SpaceOptions, reader::SpaceReader};
//! # let parent = std::env::temp_dir().join(format!("thalweg-probe-{}", std::process::id()));
//! # std::fs::create_dir_all(&parent).unwrap();
//! # let options = SpaceOptions { name: "probe".into(), parent: Some(parent.clone()), ..Default::default() };
//! let space = Space::create(options)?;
//! let sent = space.probe("net.link.sent", true)?;
//! assert!(sent.is_on());
//!
//! // Usually in another process, or with `thalweg set SPACE 'probe/net.*.on' 0`:
//! SpaceReader::open(space.path())?.switch("net.*", false)?;
//!
//! if sent.is_on() {
//!     unreachable!("here the event would be written");
//! }
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::catalog::{Catalog, CatalogReader, Record, Switch, append_under_lock};
use crate::error::Error;
use crate::file::lock;
use crate::layout::{VERSION, switches as layout};
use crate::map::{Fork, Map};
use crate::setting::CellPointer;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_glob::Glob;

/// The name of the file of patterns.
const FILE: &str = "probes";
/// The most bytes of the file `probes`: enough for some ten thousand patterns.
const BYTES_MAX: u64 = 1 << 20;

/// A place in a program that can be switched on and off. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Stored by the process that switches, loaded by any thread. No other data depends on it, so all
    /// accesses are relaxed.
    on: CellPointer,
}

impl Probe {
    /// Whether calls of this probe are recorded.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on.get().load(Ordering::Relaxed) != 0
    }

    /// The word of the switch: the probe is on unless it is 0. Valid while the probe lives.
    pub fn word(&self) -> &AtomicU64 {
        self.on.get()
    }
}

/// The chunk that has the word of the probe with this number, and the word's index in the chunk.
fn word_of(number: usize) -> (usize, usize) {
    let (mut chunk, mut first) = (0, 0);
    while number >= first + words_of(chunk) {
        first += words_of(chunk);
        chunk += 1;
    }
    (chunk, number - first)
}

/// How many words a chunk has.
fn words_of(chunk: usize) -> usize {
    (layout::CHUNK_WORDS_FIRST << chunk.min(16)).min(layout::CHUNK_WORDS_MAX)
}

fn chunk_path(directory: &Path, chunk: usize) -> PathBuf {
    directory.join(format!("switches.{chunk}"))
}

/// The probes of a space, guarded by the space's lock.
#[derive(Debug)]
pub(crate) struct Probes {
    all: Vec<(String, Probe)>,
    /// The index of each name in `all`, because a program may have a million probes.
    by_name: HashMap<String, usize>,
    reader: CatalogReader,
    /// The words of the probes.
    chunks: Vec<Arc<Map>>,
    directory: PathBuf,
}

impl Probes {
    pub(crate) fn create(directory: &Path) -> Result<Probes, Error> {
        let path = directory.join(FILE);
        drop(Catalog::create(path.clone(), 0)?);
        let reader = CatalogReader::open(&path)?;
        Ok(Probes {
            all: Vec::new(),
            by_name: HashMap::new(),
            reader,
            chunks: Vec::new(),
            directory: directory.to_path_buf(),
        })
    }

    pub(crate) fn get(&mut self, name: &str, on: bool, catalog: &mut Catalog) -> Result<Probe, Error> {
        if let Some(at) = self.by_name.get(name) {
            return Ok(self.all[*at].1.clone());
        }
        let (chunk, word) = word_of(self.all.len());
        if chunk == self.chunks.len() {
            self.chunks.push(Arc::new(self.new_chunk()?));
        }
        let probe = Probe { on: CellPointer::new(self.chunks[chunk].clone(), layout::WORDS + 8 * word) };
        let store = |on: bool| probe.on.get().store(u64::from(on).to_le(), Ordering::Relaxed);
        store(on);
        catalog.append(&Record::Probe { name: name.to_string(), on })?;
        // A process that switches from here on finds the probe, and earlier requests are in the file.
        let switches = switches(&self.directory)?;
        let matching = switches.iter().rev().find(|switch| Glob::new(&switch.pattern).matches(name));
        matching.inspect(|switch| store(switch.on));
        self.by_name.insert(name.to_string(), self.all.len());
        self.all.push((name.to_string(), probe.clone()));
        Ok(probe)
    }

    fn new_chunk(&self) -> Result<Map, Error> {
        let chunk = self.chunks.len();
        let bytes = layout::WORDS + 8 * words_of(chunk);
        let map = Map::create(&chunk_path(&self.directory, chunk), bytes, Fork::Wipe)?;
        map.word(8).store(u64::from(VERSION).to_le(), Ordering::Relaxed);
        map.word(0).store(layout::MAGIC_VALUE.to_le(), Ordering::Release);
        Ok(map)
    }

    /// The requests since the last call, each with the number of probes that match it.
    pub(crate) fn adopt(&mut self) -> Result<Vec<(Switch, u32)>, Error> {
        let mut adopted = Vec::new();
        self.reader.read_new(&mut |record| {
            let Record::Switch(switch) = record else { return };
            let pattern = Glob::new(&switch.pattern);
            let count = self.all.iter().filter(|(name, _)| pattern.matches(name)).count() as u32;
            adopted.push((switch, count));
        })?;
        Ok(adopted)
    }
}

/// The pattern in the name of a setting `probe/PATTERN.on`.
pub(crate) fn pattern_in(setting: &str) -> Option<&str> {
    setting.strip_prefix("probe/")?.strip_suffix(".on")
}

/// All requests to switch probes of the space in `directory` so far.
pub(crate) fn switches(directory: &Path) -> Result<Vec<Switch>, Error> {
    let path = directory.join(FILE);
    let mut switches = Vec::new();
    if path.exists() {
        CatalogReader::open(&path)?.read_new(&mut |record| {
            if let Record::Switch(switch) = record {
                switches.push(switch);
            }
        })?;
    }
    Ok(switches)
}

/// Switches probes of the space in `directory`.
pub(crate) fn switch(directory: &Path, pattern: &str, on: bool) -> Result<(), Error> {
    let path = directory.join(FILE);
    if !path.exists() {
        return Err(Error::new(format!("the process of {} has no probes to switch", directory.display())));
    }
    // The lock of the file of settings guards the file `probes`, too, because both share the count of
    // changes.
    let settings_path: PathBuf = directory.join("settings");
    let settings = crate::cell::open(&settings_path, true)?;
    lock(&settings, &settings_path)?;
    let (pattern, pid, user) = (pattern.to_string(), std::process::id(), crate::process::user());
    let switch = Switch { pattern, on, pid, user };
    append_under_lock(&path, &Record::Switch(switch.clone()), BYTES_MAX)?;
    store(directory, &switch)?;
    crate::cell::count_change(&settings, &settings_path)
}

/// Stores the words of the matching probes that the catalog has by now.
fn store(directory: &Path, switch: &Switch) -> Result<(), Error> {
    let pattern = Glob::new(&switch.pattern);
    let (mut number, mut matching) = (0, Vec::new());
    CatalogReader::open(&directory.join("0000.catalog"))?.read_new(&mut |record| {
        if let Record::Probe { name, .. } = record {
            if pattern.matches(&name) {
                matching.push(number);
            }
            number += 1;
        }
    })?;
    for number in matching {
        let (chunk, word) = word_of(number);
        let path = chunk_path(directory, chunk);
        // Spaces of former builds have no files of switches; their processes read the patterns of probes to
        // switch.
        let Ok(file) = crate::file::open(&path, OpenOptions::new().read(true).write(true)) else {
            return Ok(());
        };
        let at = layout::WORDS + 8 * word;
        if crate::file::length(&file, &path)? < (at + 8) as u64 {
            return Err(Error::new(format!(
                "{} is truncated: the word of a probe is missing",
                path.display()
            )));
        }
        let written = file.write_all_at(&u64::from(switch.on).to_le_bytes(), at as u64);
        written.map_err(|e| Error::io("write", &path, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_word_of_its_own() {
        let (mut chunk, mut next) = (0, 0);
        for number in 0..300_000 {
            if next == words_of(chunk) {
                (chunk, next) = (chunk + 1, 0);
            }
            assert_eq!(word_of(number), (chunk, next));
            next += 1;
        }
    }

    #[test]
    fn a_setting_names_a_pattern() {
        assert_eq!(pattern_in("probe/net.*.on"), Some("net.*"));
        assert_eq!((pattern_in("probe/net"), pattern_in("exec.quantum")), (None, None));
    }
}

//! Probes: places in a program that are switched on and off by name while it runs.
//!
//! A probe that is off costs a relaxed load and a branch. Whoever switches probes appends a pattern ([`Glob`]) to the file `probes`;
//! the process reads it at its next safe point ([`crate::Space::adopt`]) and sets the flags of the probes whose names
//! match, those made later too.
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
//! // At a safe point:
//! space.adopt()?;
//! if sent.is_on() {
//!     unreachable!("here the event would be written");
//! }
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::catalog::{Catalog, CatalogReader, Record, Switch, append_under_lock};
use crate::error::Error;
use crate::file::lock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_glob::Glob;

/// The file of patterns, beside the space's others.
const FILE: &str = "probes";
/// The most bytes of it: some ten thousand patterns.
const BYTES_MAX: u64 = 1 << 20;

/// A place in a program that can be switched on and off. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Set at safe points, loaded anywhere; it stands for itself, so all is relaxed.
    on: Arc<AtomicBool>,
}

impl Probe {
    /// Whether to record what is seen here.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
}

/// The probes of a space; the space's lock guards them.
#[derive(Debug)]
pub(crate) struct Probes {
    all: Vec<(String, Probe)>,
    reader: CatalogReader,
    /// All patterns so far, for probes to come.
    switches: Vec<Switch>,
}

impl Probes {
    pub(crate) fn create(directory: &Path) -> Result<Probes, Error> {
        let path = directory.join(FILE);
        drop(Catalog::create(path.clone(), 0)?);
        Ok(Probes { all: Vec::new(), reader: CatalogReader::open(&path)?, switches: Vec::new() })
    }

    pub(crate) fn get(&mut self, name: &str, on: bool, catalog: &mut Catalog) -> Result<Probe, Error> {
        if let Some((_, probe)) = self.all.iter().find(|(known, _)| known == name) {
            return Ok(probe.clone());
        }
        catalog.append(&Record::Probe { name: name.to_string(), on })?;
        let last = self.switches.iter().rev().find(|switch| Glob::new(&switch.pattern).matches(name));
        let probe = Probe { on: Arc::new(AtomicBool::new(last.map_or(on, |switch| switch.on))) };
        self.all.push((name.to_string(), probe.clone()));
        Ok(probe)
    }

    /// Reads what was asked for since the last time and does it; returns it with the count of probes it was for.
    pub(crate) fn adopt(&mut self) -> Result<Vec<(Switch, u32)>, Error> {
        let mut adopted = Vec::new();
        self.reader.read_new(&mut |record| {
            let Record::Switch(switch) = record else { return };
            let mut count = 0;
            let pattern = Glob::new(&switch.pattern);
            for (_, probe) in self.all.iter().filter(|(name, _)| pattern.matches(name)) {
                probe.on.store(switch.on, Ordering::Relaxed);
                count += 1;
            }
            self.switches.push(switch.clone());
            adopted.push((switch, count));
        })?;
        Ok(adopted)
    }
}

/// The pattern in the name of a setting `probe/PATTERN.on`.
pub(crate) fn pattern_in(setting: &str) -> Option<&str> {
    setting.strip_prefix("probe/")?.strip_suffix(".on")
}

/// What was asked of the probes of the space in `directory` so far.
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

/// Asks the process of the space in `directory` to switch probes.
pub(crate) fn switch(directory: &Path, pattern: &str, on: bool) -> Result<(), Error> {
    let path = directory.join(FILE);
    if !path.exists() {
        return Err(Error::new(format!("the process of {} has no probes to switch", directory.display())));
    }
    // One lock for all changes: it guards this file and the count of changes.
    let settings_path: PathBuf = directory.join("settings");
    let settings = crate::cell::open(&settings_path, true)?;
    lock(&settings, &settings_path)?;
    let (pattern, pid, user) = (pattern.to_string(), std::process::id(), crate::process::user());
    append_under_lock(&path, &Record::Switch(Switch { pattern, on, pid, user }), BYTES_MAX)?;
    crate::cell::count_change(&settings, &settings_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_a_pattern() {
        assert_eq!(pattern_in("probe/net.*.on"), Some("net.*"));
        assert_eq!((pattern_in("probe/net"), pattern_in("exec.quantum")), (None, None));
    }
}

//! Settings: named 64-bit cells with unit and range, written by the observing side, adopted by the observed one.

use crate::error::Error;
use crate::layout::settings;
use crate::map::Map;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a setting is.
#[derive(Clone, Copy, Debug)]
pub struct SettingSpec<'a> {
    /// Its name, as in `exec.quantum`.
    pub name: &'a str,
    /// What it does.
    pub doc: &'a str,
    /// Unit of the value, or nothing.
    pub unit: &'a str,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value at the start.
    pub default: u64,
    /// Names of the values from 0, for a setting such as off|metrics|full; else empty.
    pub choices: &'a [&'a str],
}

impl SettingSpec<'_> {
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_range(self.name, self.default, self.min, self.max)?;
        if !self.choices.is_empty() && self.max >= self.choices.len() as u64 {
            return Err(Error::new(format!(
                "setting `{}` has values up to {} and only {} choices",
                self.name,
                self.max,
                self.choices.len()
            )));
        }
        Ok(())
    }
}

pub(crate) fn check_range(name: &str, value: u64, min: u64, max: u64) -> Result<(), Error> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::new(format!("{value} is out of range for `{name}`: it takes {min} to {max}")))
}

/// A setting of this process. Loading it is one relaxed load: that, and a branch, is what a switched-off probe costs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The value. Written by any process that may, read by this one; it stands for itself, so all is relaxed.
    cell: CellPointer,
    name: Arc<str>,
    min: u64,
    max: u64,
}

impl Setting {
    pub(crate) fn new(map: Arc<Map>, index: usize, spec: &SettingSpec<'_>) -> Setting {
        let cell = CellPointer::new(map, settings::CELLS + index * settings::CELL_BYTES);
        Setting { cell, name: spec.name.into(), min: spec.min, max: spec.max }
    }

    /// The value now. Within the range, unless somebody wrote around this library: clamp what must hold.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        self.cell.get().load(Ordering::Relaxed)
    }

    /// Changes the value.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set(&self, value: u64) -> Result<(), Error> {
        check_range(&self.name, value, self.min, self.max)?;
        self.cell.get().store(value, Ordering::Relaxed);
        Ok(())
    }

    /// The setting's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A word of a map, with the map kept alive.
#[derive(Clone, Debug)]
pub(crate) struct CellPointer {
    word: std::ptr::NonNull<AtomicU64>,
    _map: Arc<Map>,
}

// SAFETY: it is a reference to an atomic in a map that is Sync and kept alive beside it.
unsafe impl Send for CellPointer {}
// SAFETY: as above.
unsafe impl Sync for CellPointer {}

impl CellPointer {
    /// The word at byte `at` of `map`; panics if it is outside.
    pub(crate) fn new(map: Arc<Map>, at: usize) -> CellPointer {
        CellPointer { word: std::ptr::NonNull::from(map.word(at)), _map: map }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &AtomicU64 {
        // SAFETY: the word lies in the map, which lives and does not move as long as `self`.
        unsafe { self.word.as_ref() }
    }
}

//! Settings: named 64-bit cells with unit and range, written by the observing side, adopted by the observed one.

use crate::error::Error;
use crate::file::lock;
use crate::layout::settings as layout;
use crate::map::Map;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a setting is: the one place that says so. [`settings!`](crate::settings) declares several at a time.
///
/// ```
/// use thalweg_space::{Adoption, Affects, SettingSpec};
///
/// const BATCH: SettingSpec<'_> = SettingSpec {
///     name: "example.batch",
///     doc: "Lines that are read at a time",
///     unit: "lines",
///     min: 1,
///     max: 1 << 20,
///     default: 64,
///     affects: Affects::Run,
///     adoption: Adoption::AtOnce,
///     ..SettingSpec::PLAIN
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// What a change of it changes.
    pub affects: Affects,
    /// When a change of it takes effect.
    pub adoption: Adoption,
    /// How a change of it is taken back.
    pub undo: Undo,
}

/// Makes an enum whose values have names, by which the catalog tells them.
macro_rules! named {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Name { $($(#[$doc])* $value,)+ }

        impl $Name {
            /// The word for it in catalogs and tables.
            pub const fn name(self) -> &'static str {
                match self { $($Name::$value => $text,)+ }
            }

            /// What the word stands for; none for a word that this version does not know.
            pub fn from_name(name: &str) -> Option<$Name> {
                match name { $($text => Some($Name::$value),)+ _ => None }
            }
        }
    };
}

named! {
    /// What a change of a setting changes.
    pub enum Affects {
        /// The run as a whole: its workers, what is recorded, what is let in.
        Run = "run",
        /// Each task.
        Task = "task",
        /// Each stream.
        Stream = "stream",
        /// The components of each network.
        Network = "network",
        /// The boxes of a library.
        Box = "box",
    }
}

named! {
    /// When a change of a setting takes effect.
    pub enum Adoption {
        /// As soon as the value is used next, in the middle of a dispatch, too.
        AtOnce = "at once",
        /// When a worker or a blocking task begins its next dispatch or wait.
        NextDispatch = "at the next dispatch",
        /// Only for what is made after it.
        NextMade = "by what is made next",
        /// Never: the process shows a figure of its own here.
        Never = "never",
    }
}

named! {
    /// How a change of a setting is taken back.
    pub enum Undo {
        /// By setting the former value.
        SetBack = "set back",
        /// In no way.
        Nothing = "nothing",
    }
}

impl SettingSpec<'static> {
    /// A number without a name, to be completed: it is 0 at first, may be anything, affects the run, and is adopted at once.
    pub const PLAIN: SettingSpec<'static> = SettingSpec {
        name: "",
        doc: "",
        unit: "",
        min: 0,
        max: u64::MAX,
        default: 0,
        choices: &[],
        affects: Affects::Run,
        adoption: Adoption::AtOnce,
        undo: Undo::SetBack,
    };
    /// A figure that the process shows and nobody sets, to be completed.
    pub const SHOWN: SettingSpec<'static> =
        SettingSpec { adoption: Adoption::Never, undo: Undo::Nothing, ..SettingSpec::PLAIN };
    /// A switch, to be completed: off, or on.
    pub const SWITCH: SettingSpec<'static> =
        SettingSpec { choices: &["off", "on"], max: 1, ..SettingSpec::PLAIN };
}

impl SettingSpec<'_> {
    /// The same, with values up to the last of its choices if it has any.
    pub const fn bounded(mut self) -> Self {
        if !self.choices.is_empty() {
            self.max = self.choices.len() as u64 - 1;
        }
        self
    }

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
    settings: Arc<Settings>,
    index: usize,
}

impl Setting {
    pub(crate) fn new(settings: Arc<Settings>, index: usize, spec: &SettingSpec<'_>) -> Setting {
        let cell = CellPointer::new(settings.map.clone(), cell_at(index) + layout::VALUE);
        cell.get().store(spec.default, Ordering::Relaxed);
        Setting { cell, name: spec.name.into(), min: spec.min, max: spec.max, settings, index }
    }

    /// The value now. Within the range, unless somebody wrote around this library: clamp what must hold.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        self.cell.get().load(Ordering::Relaxed)
    }

    /// Changes the value, as [`crate::reader::SpaceReader::set`] does from another process.
    ///
    /// # Errors
    /// When it is out of range, or the file of settings cannot be written any more.
    pub fn set(&self, value: u64) -> Result<(), Error> {
        check_range(&self.name, value, self.min, self.max)?;
        change(&self.settings.path, self.index, value)
    }

    /// Where the value stands, for code that this process loaded and that cannot call [`Setting::load`]. Who stores a value
    /// there publishes it; it is no change that anybody adopts.
    pub fn cell(&self) -> &AtomicU64 {
        self.cell.get()
    }

    /// The setting's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the value was set since `before`, and if so, its state now.
    pub(crate) fn changed_since(&self, before: &Adopted) -> Option<Adopted> {
        let word = |at| self.settings.map.word(cell_at(self.index) + at);
        if word(layout::CELL_VERSION).load(Ordering::Relaxed) == before.version {
            return None;
        }
        Some(adopt(&|at, order| u64::from_le(word(at).load(order)), &|| fence(Ordering::Acquire)))
    }
}

/// How often something was set in a space, for who adopts several settings at a time: if it is what it was, none of them has
/// another value. See [`Space::changes`](crate::Space::changes).
#[derive(Clone, Debug)]
pub struct Changes {
    count: CellPointer,
}

impl Changes {
    pub(crate) fn new(settings: &Settings) -> Changes {
        Changes { count: CellPointer::new(settings.map.clone(), layout::CHANGES) }
    }

    /// The count, to be loaded before the values: one load.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        u64::from_le(self.count.get().load(Ordering::Acquire))
    }
}

/// The settings of a space, mapped.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) map: Arc<Map>,
    pub(crate) path: PathBuf,
}

impl Settings {
    /// How many changes there were: one relaxed load.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        u64::from_le(self.map.word(layout::CHANGES).load(Ordering::Relaxed))
    }
}

/// A value that was adopted, and who set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adopted {
    pub(crate) version: u64,
    pub(crate) value: u64,
    /// 0: unknown.
    pub(crate) pid: u32,
    pub(crate) user: u32,
}

/// How often to try to read a cell that is being set. Whoever sets it may be killed in the middle.
#[cfg(not(loom))]
const TRIES: usize = 100;
#[cfg(loom)]
const TRIES: usize = 2;

/// Reads a cell: its value, and who set it if no other did so meanwhile.
fn adopt(load: &dyn Fn(usize, Ordering) -> u64, fence: &dyn Fn()) -> Adopted {
    for _ in 0..TRIES {
        // Acquire, paired with the setter's release at the end of setting.
        let version = load(layout::CELL_VERSION, Ordering::Acquire);
        let value = load(layout::VALUE, Ordering::Relaxed);
        let setter = load(layout::SETTER, Ordering::Relaxed);
        // Paired with the setter's release fence after the odd version.
        fence();
        if version & 1 == 0 && load(layout::CELL_VERSION, Ordering::Relaxed) == version {
            return Adopted { version, value, pid: setter as u32, user: (setter >> 32) as u32 };
        }
    }
    Adopted {
        version: load(layout::CELL_VERSION, Ordering::Relaxed),
        value: load(layout::VALUE, Ordering::Relaxed),
        pid: 0,
        user: 0,
    }
}

/// Sets a cell. The caller holds the lock; `store` orders as release.
fn put(load: &dyn Fn(usize) -> u64, store: &dyn Fn(usize, u64), value: u64, setter: u64) {
    // Of a setter that was killed, the version is odd already.
    let odd = load(layout::CELL_VERSION) | 1;
    store(layout::CELL_VERSION, odd);
    store(layout::SETTER, setter);
    store(layout::VALUE, value);
    store(layout::CELL_VERSION, odd.wrapping_add(1));
}

fn cell_at(index: usize) -> usize {
    layout::CELLS + index * layout::CELL_BYTES
}

/// Sets cell `index` of the file `path`, and tells who did.
pub(crate) fn change(path: &Path, index: usize, value: u64) -> Result<(), Error> {
    let file = open(path, true)?;
    let at = cell_at(index) as u64;
    if at + layout::CELL_BYTES as u64 > crate::file::length(&file, path)? {
        return Err(Error::new(format!("{} is truncated: cell {index} is missing", path.display())));
    }
    lock(&file, path)?;
    let problem = std::cell::RefCell::new(None);
    let load = |offset: usize| {
        read_word(&file, path, at + offset as u64).unwrap_or_else(|error| {
            problem.borrow_mut().get_or_insert(error);
            0
        })
    };
    // Each store is a system call, which orders it.
    let store = |offset: usize, value: u64| {
        if let Err(error) = file.write_all_at(&value.to_le_bytes(), at + offset as u64) {
            problem.borrow_mut().get_or_insert(Error::io("write", path, error));
        }
    };
    let setter = u64::from(std::process::id()) | u64::from(crate::process::user()) << 32;
    put(&load, &store, value, setter);
    problem.into_inner().map_or(Ok(()), Err)?;
    count_change(&file, path)
}

/// Tells the process that there is something to adopt. The caller holds the lock of the file of settings.
pub(crate) fn count_change(file: &File, path: &Path) -> Result<(), Error> {
    let changes = read_word(file, path, layout::CHANGES as u64)?;
    let counted = file.write_all_at(&changes.wrapping_add(1).to_le_bytes(), layout::CHANGES as u64);
    counted.map_err(|e| Error::io("write", path, e))
}

fn read_word(file: &File, path: &Path, at: u64) -> Result<u64, Error> {
    let mut word = [0; 8];
    crate::file::read_exact_at(file, path, &mut word, at)?;
    Ok(u64::from_le_bytes(word))
}

/// Opens a file of settings.
pub(crate) fn open(path: &Path, write: bool) -> Result<File, Error> {
    let file = crate::file::open(path, OpenOptions::new().read(true).write(write));
    let file = file.map_err(|e| Error::io("open", path, e))?;
    let mut header = [0; 16];
    crate::file::read_exact_at(&file, path, &mut header, 0)?;
    crate::file::check_magic(path, &header, layout::MAGIC_VALUE, "the settings")?;
    Ok(file)
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

/// The cell's protocol under loom.
#[cfg(all(test, loom))]
mod loom_model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    #[test]
    fn who_set_a_value_is_told_right_or_not_at_all() {
        loom::model(|| {
            let cell: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
            let setter = cell.clone();
            let setting = loom::thread::spawn(move || {
                for n in 1..=2 {
                    let load = |at: usize| setter[at / 8].load(Ordering::Relaxed);
                    // In truth a system call each.
                    let store = |at: usize, value| {
                        loom::sync::atomic::fence(Ordering::SeqCst);
                        setter[at / 8].store(value, Ordering::Release);
                        loom::sync::atomic::fence(Ordering::SeqCst);
                    };
                    put(&load, &store, 10 * n, n);
                }
            });
            let load = |at: usize, order| cell[at / 8].load(order);
            let adopted = adopt(&load, &|| loom::sync::atomic::fence(Ordering::Acquire));
            if adopted.pid != 0 {
                assert_eq!(
                    (adopted.value, adopted.version),
                    (10 * u64::from(adopted.pid), 2 * u64::from(adopted.pid))
                );
            }
            setting.join().unwrap();
        });
    }
}

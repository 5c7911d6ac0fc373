//! Settings: named 64-bit cells with a unit and a range, which observing processes write and the observed one
//! adopts.

use crate::cell::{self, Cell, Words, Write};
use crate::error::Error;
use crate::layout::settings as layout;
use crate::map::Map;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The declaration of a setting. [`settings!`](crate::settings) declares several at a time.
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
    /// The name of the setting, such as `exec.quantum`.
    pub name: &'a str,
    /// What the setting does.
    pub doc: &'a str,
    /// Unit of the value; empty if the value has none.
    pub unit: &'a str,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value at the start.
    pub default: u64,
    /// Names of the values from 0 on, for a setting such as `off|metrics|full`; empty if the values are
    /// numbers.
    pub choices: &'a [&'a str],
    /// The parts of the run that a change of the setting affects.
    pub affects: Affects,
    /// When a change of the setting takes effect.
    pub adoption: Adoption,
    /// How a change of the setting is reverted.
    pub undo: Undo,
}

/// Makes an enum whose values have names, by which the catalog stores them.
macro_rules! named {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Name { $($(#[$doc])* $value,)+ }

        impl $Name {
            /// The value's name in catalogs and tables.
            pub const fn name(self) -> &'static str {
                match self { $($Name::$value => $text,)+ }
            }

            /// The value called `name`; none for a name that this version does not know.
            pub fn from_name(name: &str) -> Option<$Name> {
                match name { $($text => Some($Name::$value),)+ _ => None }
            }
        }
    };
}

named! {
    /// The parts of a run that a change of a setting affects.
    pub enum Affects {
        /// The run as a whole: its workers, its recording, its input.
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
        /// At the next use of the value, even in the middle of a dispatch.
        AtOnce = "at once",
        /// When a worker or a blocking task begins its next dispatch or wait.
        NextDispatch = "at the next dispatch",
        /// Only for tasks, streams and components that are made later.
        NextMade = "by what is made next",
        /// Never: the process publishes a figure here, which others cannot set.
        Never = "never",
    }
}

named! {
    /// How a change of a setting is reverted.
    pub enum Undo {
        /// A change is reverted by setting the former value.
        SetBack = "set back",
        /// A change cannot be reverted.
        Nothing = "nothing",
    }
}

impl SettingSpec<'static> {
    /// A template for a number, without a name: the default is 0, the range is unlimited, a change affects
    /// the run as a whole, and takes effect at the next use of the value.
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
    /// A template for a figure that the process publishes and that cannot be set.
    pub const SHOWN: SettingSpec<'static> =
        SettingSpec { adoption: Adoption::Never, undo: Undo::Nothing, ..SettingSpec::PLAIN };
    /// A template for a switch with the values off and on.
    pub const SWITCH: SettingSpec<'static> =
        SettingSpec { choices: &["off", "on"], max: 1, ..SettingSpec::PLAIN };
}

impl SettingSpec<'_> {
    /// Limits the maximum to the last of its choices, if it has choices.
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

/// A setting of this process. Loading the value is one relaxed load, so a switched-off probe costs one
/// relaxed load and a branch.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The value. Any process with access may store the value, and this process loads it. No other data
    /// depends on the value, so all accesses are relaxed.
    cell: CellPointer,
    name: Arc<str>,
    min: u64,
    max: u64,
    settings: Arc<Settings>,
    index: usize,
}

impl Setting {
    pub(crate) fn new(settings: Arc<Settings>, index: usize, spec: &SettingSpec<'_>) -> Setting {
        let cell = CellPointer::new(settings.map.clone(), cell::place(index, layout::VALUE));
        let word = |at| settings.map.word(cell::place(index, at));
        word(layout::CONFIRMED).store(spec.default.to_le(), Ordering::Relaxed);
        word(layout::LEASE_VERSION).store(layout::DESCRIBED.to_le(), Ordering::Relaxed);
        cell.get().store(spec.default, Ordering::Relaxed);
        Setting { cell, name: spec.name.into(), min: spec.min, max: spec.max, settings, index }
    }

    /// The current value. The value is within the range unless another process wrote the file directly, so
    /// code that relies on the range has to clamp the value.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        self.cell.get().load(Ordering::Relaxed)
    }

    /// Changes the value, as [`crate::reader::SpaceReader::set`] does from another process.
    ///
    /// # Errors
    /// Fails when the value is out of range, or the file of settings cannot be written any more.
    pub fn set(&self, value: u64) -> Result<(), Error> {
        check_range(&self.name, value, self.min, self.max)?;
        let tool = crate::process::program_name();
        let write = Write::permanent(value, &tool);
        cell::change(&self.settings.path, self.index, |_| Ok(write)).map(drop)
    }

    /// The word that holds the value, for code in this process that cannot call [`Setting::load`]. A store
    /// into the word publishes a value without counting as a change of the setting.
    pub fn cell(&self) -> &AtomicU64 {
        self.cell.get()
    }

    /// The setting's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The range of valid values.
    pub(crate) fn range(&self) -> RangeInclusive<u64> {
        self.min..=self.max
    }

    /// Twice the number of times that the setting was set.
    pub(crate) fn version(&self) -> u64 {
        Words::load(self, layout::CELL_VERSION, Ordering::Relaxed)
    }

    /// If the setting's version is no longer `version`, the present state of the setting.
    pub(crate) fn changed_since(&self, version: u64) -> Option<Cell> {
        (self.version() != version).then(|| Cell::read(self))
    }

    /// Sets the value to the result of `decide`; returns none if another process holds the lock. See
    /// [`cell::change`].
    pub(crate) fn try_change<'a>(
        &self,
        decide: impl FnOnce(&Cell) -> Result<Write<'a>, Error>,
    ) -> Result<Option<u64>, Error> {
        cell::try_change(&self.settings.path, self.index, decide)
    }

    /// Repairs the cell if its setter was killed.
    pub(crate) fn settle(&self) -> Result<bool, Error> {
        cell::settle_dead(&self.settings.path, self.index)
    }

    /// Changes the value without the lock, because another process holds it too long, and counts the change.
    pub(crate) fn force(&self, value: u64) {
        self.cell().store(value, Ordering::Relaxed);
        self.settings.map.word(layout::CHANGES).fetch_add(1, Ordering::Release);
    }
}

/// Access to the cell's words through the map of the process that owns the cell. Values are never stored
/// through this map, because a cell is set through its file.
impl Words for Setting {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        u64::from_le(self.settings.map.word(cell::place(self.index, at)).load(order))
    }

    fn store(&self, _: usize, _: u64) {
        unreachable!("a cell is set through its file");
    }

    fn fence(&self) {
        fence(Ordering::Acquire);
    }
}

/// The count of changes of a space's settings. While it is unchanged, no setting has a new value, so code
/// that adopts several settings needs only one load. See [`Space::changes`](crate::Space::changes).
#[derive(Clone, Debug)]
pub struct Changes {
    count: CellPointer,
}

impl Changes {
    pub(crate) fn new(settings: &Settings) -> Changes {
        Changes { count: CellPointer::new(settings.map.clone(), layout::CHANGES) }
    }

    /// The count of changes, read by one load. Callers have to load the count before the values.
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
    /// How many changes of settings there were; read by one relaxed load.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        u64::from_le(self.map.word(layout::CHANGES).load(Ordering::Relaxed))
    }

    /// Announces to other processes that this process ends leases, and then restores the values of settings.
    pub(crate) fn keeps_leases(&self) {
        self.map.word(layout::KEEPS_LEASES).store(1u64.to_le(), Ordering::Release);
    }
}

/// A word of a map; the struct keeps the map alive.
#[derive(Clone, Debug)]
pub(crate) struct CellPointer {
    word: std::ptr::NonNull<AtomicU64>,
    _map: Arc<Map>,
}

// SAFETY: the reference is to an atomic in a map that is `Sync` and that the same struct keeps alive.
unsafe impl Send for CellPointer {}
// SAFETY: the reference is to an atomic, which threads may share, in a map that the same struct keeps alive.
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

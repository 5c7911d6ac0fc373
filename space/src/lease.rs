//! Leases: changes of settings that the observed process takes back when the process that made them does not renew them.
//!
//! A change says how long it holds: for a time, as long as the process lives that made it, or whichever ends first. The
//! observed process looks at that about every 20 ms, also while it has nothing to do ([`Space::see_to_leases`](crate::Space::see_to_leases)),
//! and sets the value back to the one that was *confirmed* last. A change without a lease is confirmed from the start.
//!
//! **A process that changes a setting takes it over.** The lease of somebody else that it had is over then. What the end of a lease goes
//! back to stays the value that was confirmed last, whatever leases there were since, so that no trial outlives its holder.
//!
//! ```
//! use std::time::Duration;
//! use thalweg_space::lease::Terms;
//! use thalweg_space::{SettingSpec, Space, SpaceOptions, reader::SpaceReader};
//! # let parent = std::env::temp_dir().join(format!("thalweg-lease-{}", std::process::id()));
//! # std::fs::create_dir_all(&parent).unwrap();
//! # let options = SpaceOptions { name: "lease".into(), parent: Some(parent.clone()), ..Default::default() };
//!
//! let space = Space::create(options)?;
//! let batch = space.setting(SettingSpec { name: "batch", default: 64, ..SettingSpec::PLAIN })?;
//! space.see_to_leases()?; // Again and again, every 20 ms or so.
//!
//! // Usually in another process:
//! let reader = SpaceReader::open(space.path())?.called("tuner");
//! let lease = reader.lease("batch", 128, Terms::lasting(Duration::from_millis(1)).while_alive())?;
//! assert_eq!(batch.load(), 128);
//!
//! std::thread::sleep(Duration::from_millis(2));
//! space.see_to_leases()?;
//! assert_eq!(batch.load(), 64);
//! assert!(lease.confirm().unwrap_err().to_string().contains("ran out"));
//! # std::fs::remove_dir_all(parent).unwrap();
//! # Ok::<(), thalweg_space::Error>(())
//! ```

use crate::cell::{self, Cell, NO_TIME, Write};
use crate::clock::system_ns;
use crate::error::Error;
use crate::kind::KindEnum;
use crate::layout::settings as layout;
use crate::setting::{Setting, check_range};
use std::path::PathBuf;
use std::time::Duration;

/// How long the lock of the settings may keep a value from being put back. After that the value is put back without
/// the lock.
const LOCKED_MAX_NS: u64 = 2_000_000_000;

/// How long a change holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    lasts: Option<Duration>,
    while_alive: bool,
}

impl Terms {
    /// For this time, unless it is renewed.
    pub fn lasting(time: Duration) -> Terms {
        Terms { lasts: Some(time), while_alive: false }
    }

    /// As long as this process lives. The observed one must see the same process ids, as it does outside of containers.
    pub fn living() -> Terms {
        Terms { lasts: None, while_alive: true }
    }

    /// Also not longer than this process lives.
    #[must_use]
    pub fn while_alive(self) -> Terms {
        Terms { while_alive: true, ..self }
    }

    /// The time, if it is limited.
    pub fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// Whether it ends with the process.
    pub fn ends_with_its_holder(&self) -> bool {
        self.while_alive
    }

    /// An error for a lease that would never end.
    pub(crate) fn check(&self, what: &str) -> Result<(), Error> {
        if *self != Terms::default() {
            return Ok(());
        }
        Err(Error::new(format!(
            "the lease of `{what}` has no end: say how long it lasts, or that it ends with its holder"
        )))
    }

    pub(crate) fn of_words(lasts_ns: u64, while_alive: bool) -> Terms {
        Terms { lasts: (lasts_ns != NO_TIME).then(|| Duration::from_nanos(lasts_ns)), while_alive }
    }

    /// The time in nanoseconds.
    pub(crate) fn lasts_ns(&self) -> u64 {
        self.lasts.map_or(NO_TIME, |time| u64::try_from(time.as_nanos()).unwrap_or(NO_TIME - 1))
    }

    /// When it ends, from now on.
    pub(crate) fn until(&self) -> u64 {
        self.lasts.map_or(NO_TIME, |_| now_ns().saturating_add(self.lasts_ns()).min(NO_TIME - 1))
    }
}

pub(crate) fn now_ns() -> u64 {
    system_ns(libc::CLOCK_MONOTONIC)
}

/// Why a lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, KindEnum)]
pub enum LeaseEnd {
    /// Its time ran out, and nobody renewed it.
    Expired,
    /// The process that held it died.
    HolderDied,
    /// Its holder confirmed the change, which is permanent now.
    Confirmed,
    /// Its holder gave it back.
    GivenBack,
    /// Somebody else changed the same.
    TakenOver,
}

/// A lease that this process holds. Dropping it lets it end by its terms.
#[derive(Debug)]
#[must_use = "a lease that is not renewed or confirmed ends"]
pub struct Lease {
    pub(crate) path: PathBuf,
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) tool: String,
    pub(crate) terms: Terms,
    pub(crate) value: u64,
    /// The version of the cell when this lease was written last: with another one it is over.
    pub(crate) version: u64,
}

impl Lease {
    /// Makes the lease, which takes the setting over from the former holder.
    pub(crate) fn take(mut self) -> Result<Lease, Error> {
        self.terms.check(&self.name)?;
        check_range(&self.name, self.value, self.min, self.max)?;
        self.version = cell::change(&self.path, self.index, |_| Ok(self.held()))?;
        Ok(self)
    }

    /// The setting's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets the time begin anew.
    ///
    /// # Errors
    /// When the lease is over, or the settings cannot be written any more.
    pub fn renew(&mut self) -> Result<(), Error> {
        self.version = self.write(&self.held())?;
        Ok(())
    }

    /// Sets another value under this lease, whose time begins anew.
    ///
    /// # Errors
    /// As [`Lease::renew`], and when the value is out of range.
    pub fn set(&mut self, value: u64) -> Result<(), Error> {
        check_range(&self.name, value, self.min, self.max)?;
        let before = std::mem::replace(&mut self.value, value);
        self.renew().inspect_err(|_| self.value = before)
    }

    /// Leaves the value as it is, for good.
    ///
    /// # Errors
    /// As [`Lease::renew`].
    pub fn confirm(self) -> Result<(), Error> {
        let confirmed = Write { state: layout::LEASE_CONFIRMED, ..Write::permanent(self.value, &self.tool) };
        self.write(&confirmed).map(drop)
    }

    /// Puts the value back now.
    ///
    /// # Errors
    /// As [`Lease::renew`].
    pub fn give_back(self) -> Result<(), Error> {
        let change = |cell: &Cell| {
            self.check(cell)?;
            Ok(Write {
                state: layout::LEASE_GIVEN_BACK,
                ..Write::permanent(back(cell, self.min, self.max), &self.tool)
            })
        };
        cell::change(&self.path, self.index, change).map(drop)
    }

    fn held(&self) -> Write<'_> {
        let pid = std::process::id();
        let start = || crate::process::start_time(pid).unwrap_or(0);
        Write {
            confirmed: false,
            state: layout::LEASE_HELD,
            until: self.terms.until(),
            holder_start: if self.terms.while_alive { start() } else { 0 },
            ..Write::permanent(self.value, &self.tool)
        }
    }

    fn write(&self, write: &Write<'_>) -> Result<u64, Error> {
        cell::change(&self.path, self.index, |cell| {
            self.check(cell)?;
            Ok(write.clone())
        })
    }

    /// Whether the cell is still under this lease.
    fn check(&self, cell: &Cell) -> Result<(), Error> {
        if cell.version == self.version && cell.is_leased() {
            return Ok(());
        }
        let name = &self.name;
        Err(Error::new(match cell.state {
            layout::LEASE_EXPIRED => {
                format!("the lease of `{name}` ran out before it was renewed: it is {} again", cell.value)
            }
            _ if cell.tool.is_empty() => format!("the lease of `{name}` is over: somebody else set it"),
            _ => format!(
                "the lease of `{name}` is over: it was set to {} by {} (process {})",
                cell.value, cell.tool, cell.pid
            ),
        }))
    }
}

/// What a cell goes back to. The result is within the range, whatever the cell holds.
fn back(cell: &Cell, min: u64, max: u64) -> u64 {
    cell.confirmed.clamp(min, max)
}

/// What is to be reported of a lease.
#[derive(Debug)]
pub(crate) enum LeaseChange {
    /// The setting of this number is under a lease now.
    Leased(usize, Cell),
    /// It is not any more; the cell as it was, and the value that it has now.
    Ended(usize, Cell, LeaseEnd, u64),
}

impl LeaseChange {
    /// The setting's number.
    pub(crate) fn index(&self) -> usize {
        match self {
            LeaseChange::Leased(index, _) | LeaseChange::Ended(index, ..) => *index,
        }
    }
}

/// What the observed process knows of the leases of its settings.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    known: Vec<Cell>,
}

impl Leases {
    /// Looks at all settings, and puts back what leases ran out of.
    pub(crate) fn look<'s>(
        &mut self,
        settings: impl Iterator<Item = &'s Setting>,
        changes: &mut Vec<LeaseChange>,
    ) -> Result<(), Error> {
        for (index, setting) in settings.enumerate() {
            if self.known.len() == index {
                self.known.push(Cell { version: u64::MAX, ..Cell::default() });
            }
            let known = &mut self.known[index];
            if setting.version() != known.version {
                notice(index, known, setting, changes)?;
            }
            if known.is_leased()
                && let Some(why) = due(known)
            {
                put_back(index, known, setting, why, changes)?;
            }
        }
        Ok(())
    }
}

/// Records a change of a setting.
fn notice(
    index: usize,
    known: &mut Cell,
    setting: &Setting,
    changes: &mut Vec<LeaseChange>,
) -> Result<(), Error> {
    let mut now = Cell::read(setting);
    if now.version & 1 == 1 {
        if !setting.settle()? {
            return Ok(()); // Somebody is at it: the next look finds it done.
        }
        now = Cell::read(setting);
    }
    let before = std::mem::replace(known, now.clone());
    let of_the_same = now.is_of_the_setter_of(&before);
    let (was_held, is_held) = (before.is_leased(), now.is_leased());
    let ended = match now.state {
        layout::LEASE_CONFIRMED => Some(LeaseEnd::Confirmed),
        layout::LEASE_GIVEN_BACK => Some(LeaseEnd::GivenBack),
        // Killed while it set the cell: what was confirmed holds.
        layout::LEASE_HOLDER_DIED => Some(LeaseEnd::HolderDied),
        _ => None,
    };
    // The tool of a killed setter is not known.
    let of_the_same = of_the_same || ended == Some(LeaseEnd::HolderDied) && now.pid == before.pid;
    if was_held && !(of_the_same && (is_held || ended.is_some())) {
        changes.push(LeaseChange::Ended(index, before.clone(), LeaseEnd::TakenOver, now.value));
    }
    if let Some(why) = ended {
        let held = if was_held && of_the_same { before.clone() } else { now.clone() };
        changes.push(LeaseChange::Ended(index, held, why, now.value));
    }
    if is_held && !(was_held && of_the_same) {
        changes.push(LeaseChange::Leased(index, now));
    }
    Ok(())
}

/// Why the lease is over, if it is.
fn due(cell: &Cell) -> Option<LeaseEnd> {
    if now_ns() >= cell.until {
        return Some(LeaseEnd::Expired);
    }
    let died = cell.holder_start != 0 && !crate::process::is_alive(cell.pid, cell.holder_start);
    died.then_some(LeaseEnd::HolderDied)
}

fn put_back(
    index: usize,
    known: &mut Cell,
    setting: &Setting,
    why: LeaseEnd,
    changes: &mut Vec<LeaseChange>,
) -> Result<(), Error> {
    let (min, max) = setting.range().into_inner();
    let value = back(known, min, max);
    let state = match why {
        LeaseEnd::Expired => layout::LEASE_EXPIRED,
        _ => layout::LEASE_HOLDER_DIED,
    };
    let mut renewed = false;
    let changed = setting.try_change(|cell| {
        renewed = cell.version != known.version;
        match renewed {
            true => Err(Error::new("somebody was first")),
            false => Ok(Write { state, ..Write::permanent(value, &known.tool) }),
        }
    });
    if renewed {
        return Ok(()); // The next look sees what became of it.
    }
    let Some(version) = changed? else {
        // The holder of the lock is stopped, or dies slowly: its value must not stay.
        let overdue = known.until.saturating_add(LOCKED_MAX_NS);
        if now_ns() >= overdue && setting.load() != value {
            setting.force(value);
        }
        return Ok(());
    };
    let former = std::mem::replace(known, Cell::read(setting));
    debug_assert!(known.version >= version);
    changes.push(LeaseChange::Ended(index, former, why, value));
    Ok(())
}

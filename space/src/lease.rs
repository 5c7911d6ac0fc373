//! Leases: changes of settings that the observed process reverts unless their holder renews them.
//!
//! A lease ends after a time, with the process that made the change, or with the earlier of the two. The
//! observed process checks its leases about every 20 ms, also while it is idle
//! ([`Space::see_to_leases`](crate::Space::see_to_leases)), and at the end of a lease restores the value that
//! was *confirmed* last. A change without a lease is confirmed from the start.
//!
//! **A process that changes a setting takes it over.** The change ends a lease that another process has on
//! the same setting. The end of a lease always restores the value that was confirmed last, whatever leases
//! followed it, so that no trial outlives its holder.
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

/// The longest time for which the lock of the settings delays the end of a lease. After this time the
/// confirmed value is restored without the lock.
const LOCKED_MAX_NS: u64 = 2_000_000_000;

/// The conditions under which a lease ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    lasts: Option<Duration>,
    while_alive: bool,
}

impl Terms {
    /// A lease that ends after this time unless it is renewed.
    pub fn lasting(time: Duration) -> Terms {
        Terms { lasts: Some(time), while_alive: false }
    }

    /// A lease that ends with this process. The observed process must be in the same pid namespace, as
    /// processes outside of containers are.
    pub fn living() -> Terms {
        Terms { lasts: None, while_alive: true }
    }

    /// The same terms, with the additional condition that the lease ends with this process.
    #[must_use]
    pub fn while_alive(self) -> Terms {
        Terms { while_alive: true, ..self }
    }

    /// The time after which the lease ends, if there is a limit.
    pub fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// Whether the lease ends with the process that holds it.
    pub fn ends_with_its_holder(&self) -> bool {
        self.while_alive
    }

    /// Returns an error for terms under which a lease would never end.
    pub(crate) fn check(&self, what: &str) -> Result<(), Error> {
        if *self != Terms::default() {
            return Ok(());
        }
        Err(Error::new(format!(
            "the lease of `{what}` has no end: give it a duration, or let it end with its holder"
        )))
    }

    pub(crate) fn of_words(lasts_ns: u64, while_alive: bool) -> Terms {
        Terms { lasts: (lasts_ns != NO_TIME).then(|| Duration::from_nanos(lasts_ns)), while_alive }
    }

    /// The time in nanoseconds.
    pub(crate) fn lasts_ns(&self) -> u64 {
        self.lasts.map_or(NO_TIME, |time| u64::try_from(time.as_nanos()).unwrap_or(NO_TIME - 1))
    }

    /// The end of a lease that begins now, by `CLOCK_MONOTONIC` in nanoseconds.
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
    /// The lease's time ran out without a renewal.
    Expired,
    /// The process that held the lease died.
    HolderDied,
    /// The lease's holder confirmed the change, which is permanent now.
    Confirmed,
    /// The lease's holder gave the lease back.
    GivenBack,
    /// Another process changed the same setting or sent a command of the same group.
    TakenOver,
}

/// A lease that this process holds. After a drop the lease ends by its terms.
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
    /// The version of the cell when this lease was last written. If the cell has another version, the lease
    /// is over.
    pub(crate) version: u64,
}

impl Lease {
    /// Writes the lease into the cell, which ends a former lease of the setting.
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

    /// Restarts the time of the lease.
    ///
    /// # Errors
    /// When the lease is over, or the settings cannot be written any more.
    pub fn renew(&mut self) -> Result<(), Error> {
        self.version = self.write(&self.held())?;
        Ok(())
    }

    /// Sets another value under this lease, and restarts its time.
    ///
    /// # Errors
    /// The errors of [`Lease::renew`], and an error when the value is out of range.
    pub fn set(&mut self, value: u64) -> Result<(), Error> {
        check_range(&self.name, value, self.min, self.max)?;
        let before = std::mem::replace(&mut self.value, value);
        self.renew().inspect_err(|_| self.value = before)
    }

    /// Confirms the value, which is then permanent.
    ///
    /// # Errors
    /// As [`Lease::renew`].
    pub fn confirm(self) -> Result<(), Error> {
        let confirmed = Write { state: layout::LEASE_CONFIRMED, ..Write::permanent(self.value, &self.tool) };
        self.write(&confirmed).map(drop)
    }

    /// Ends the lease and restores the former value now.
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
            _ if cell.tool.is_empty() => format!("the lease of `{name}` is over: another process set it"),
            _ => format!(
                "the lease of `{name}` is over: it was set to {} by {} (process {})",
                cell.value, cell.tool, cell.pid
            ),
        }))
    }
}

/// The value that the end of a lease restores, clamped to the range of the setting.
fn back(cell: &Cell, min: u64, max: u64) -> u64 {
    cell.confirmed.clamp(min, max)
}

/// A change of a lease that is to be recorded.
#[derive(Debug)]
pub(crate) enum LeaseChange {
    /// The setting of this number came under a lease.
    Leased(usize, Cell),
    /// The lease of the setting of this number ended: the former state of the cell, and its value now.
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

/// The leases of the settings, as the observed process saw them last.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    known: Vec<Cell>,
}

impl Leases {
    /// Checks all settings, and restores the values of leases that are over.
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
            return Ok(()); // Another process is setting the cell; the next call finds the result.
        }
        now = Cell::read(setting);
    }
    let before = std::mem::replace(known, now.clone());
    let of_the_same = now.is_of_the_setter_of(&before);
    let (was_held, is_held) = (before.is_leased(), now.is_leased());
    let ended = match now.state {
        layout::LEASE_CONFIRMED => Some(LeaseEnd::Confirmed),
        layout::LEASE_GIVEN_BACK => Some(LeaseEnd::GivenBack),
        // The setter was killed while it set the cell, so the confirmed value was restored.
        layout::LEASE_HOLDER_DIED => Some(LeaseEnd::HolderDied),
        _ => None,
    };
    // The tool of a killed setter is unknown, so only the process is compared.
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

/// Why the lease is over; `None` while it lasts.
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
        return Ok(()); // The next call sees the result.
    }
    let Some(version) = changed? else {
        // The holder of the lock is stopped or does not progress, and its value must not stay.
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

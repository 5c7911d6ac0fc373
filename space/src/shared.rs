//! The shared state of a space: its identity, elements and settings, and a lock for rarely used data.

use crate::audit::{
    Audit, CommandAdopted, CommandAnswered, ProbesSwitched, SettingAdopted, SettingLeaseEnded, SettingLeased,
};
use crate::catalog::{Catalog, Names, Record, Switch};
use crate::cell::{Cell, NO_TIME};
use crate::element::Ring;
use crate::elements::Elements;
use crate::error::Error;
use crate::identity::Identity;
use crate::kind::{Kind, NameRef};
use crate::lease::{self, LeaseChange, Leases};
use crate::live::LiveTable;
use crate::mailbox::Command;
use crate::options::ElementOptions;
use crate::probe::Probes;
use crate::setting::{Setting, Settings};
use crate::shared_map::state::MapState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most names of writers that a space keeps; a writer with a further name is called [`ONE_OF_MANY`].
const WRITER_NAMES_MAX: usize = 1 << 14;
/// The number of the first command that a process gives itself; those of other processes have lower numbers.
const OWN_COMMANDS: u64 = 1 << 32;
/// The name of writers beyond [`WRITER_NAMES_MAX`] names.
const ONE_OF_MANY: &str = "one of many";

/// The state that [`Space`](crate::Space) shares with its writers, collectors and rows.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) element: ElementOptions,
    pub(crate) in_session: bool,
    pub(crate) settings: Arc<Settings>,
    /// How many changes of settings and probes the process has adopted.
    pub(crate) adopted: AtomicU64,
    /// How many commands of its own the process has recorded.
    own_commands: AtomicU64,
    cold: Mutex<Cold>,
    /// All elements. The lock is held while a writer's files are made, so that writers become visible in the
    /// order of their numbers.
    elements: Mutex<Elements>,
    /// The writer that records the space's own events. The lock of `audit` is taken after the lock of `cold`
    /// and before that of `elements`.
    audit: Mutex<Option<Audit>>,
    /// The shared map, once the process has one.
    pub(crate) map: Mutex<Option<Arc<MapState>>>,
}

/// Rarely used data, protected by one lock.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) catalog: Catalog,
    names: Names,
    /// How many of the names in the catalog are names of writers.
    writer_names: usize,
    pub(crate) sites: u64,
    /// Each setting, with the state of its cell that the process adopted last.
    pub(crate) settings: Vec<(Setting, Cell)>,
    leases: Leases,
    pub(crate) probes: Option<Probes>,
    live: LiveTable,
    /// Names of the kinds of live row; a kind's code is its index plus 1.
    pub(crate) rows: Vec<&'static str>,
}

impl Cold {
    /// Interns the name of a writer or collector, and returns the reference to it. The number of names is
    /// limited, because names are never removed and each new thread may have another one.
    pub(crate) fn writer_name(&mut self, text: &str) -> Result<NameRef, Error> {
        if self.names.contains_key(text) {
            return self.name(text);
        }
        if self.writer_names == WRITER_NAMES_MAX {
            return self.name(ONE_OF_MANY);
        }
        self.writer_names += 1;
        self.name(text)
    }

    pub(crate) fn name(&mut self, text: &str) -> Result<NameRef, Error> {
        if let Some(id) = self.names.get(text) {
            return Ok(NameRef(*id));
        }
        let id = self.names.len() as u64 + 1;
        self.catalog.append(&Record::Name { id, text: text.to_string() })?;
        self.names.insert(text.to_string(), id);
        Ok(NameRef(id))
    }
}

impl Shared {
    /// The state of a new space with the process-wide catalog `catalog`.
    pub(crate) fn new(
        identity: Identity,
        settings: Settings,
        catalog: Catalog,
        element: ElementOptions,
        in_session: bool,
    ) -> Shared {
        let cold = Cold {
            catalog,
            names: Names::new(),
            writer_names: 0,
            sites: 0,
            settings: Vec::new(),
            leases: Leases::default(),
            probes: None,
            live: LiveTable::new(identity.path.clone(), identity.map.clone()),
            rows: Vec::new(),
        };
        Shared {
            identity,
            element,
            in_session,
            settings: Arc::new(settings),
            adopted: AtomicU64::new(0),
            own_commands: AtomicU64::new(0),
            cold: Mutex::new(cold),
            elements: Mutex::new(Elements::default()),
            audit: Mutex::new(None),
            map: Mutex::new(None),
        }
    }

    #[cold]
    pub(crate) fn adopt(&self, changes: u64) -> Result<usize, Error> {
        self.identity.check_fork()?;
        // `changes` was read before this search, so a change during the search is adopted now or by the next
        // call.
        self.adopted.store(changes, Ordering::Relaxed);
        let mut settings = Vec::new();
        let mut guard = self.cold();
        let cold = &mut *guard;
        for (setting, adopted) in &mut cold.settings {
            let Some(now) = setting.changed_since(adopted.version) else { continue };
            settings.push((setting.name().to_string(), adopted.value, now.clone()));
            *adopted = now;
        }
        let switched = cold.probes.as_mut().map_or(Ok(Vec::new()), Probes::adopt)?;
        drop(guard);
        let count = settings.len() + switched.len();
        for (name, old, Cell { value: new, pid, user, tool, .. }) in settings {
            let name = self.cold().name(&name)?;
            self.record(&SettingAdopted { name, old, new, pid, user, tool: &tool })?;
        }
        for (Switch { pattern, on, pid, user }, probes) in switched {
            self.record(&ProbesSwitched { pattern: &pattern, on, probes, pid, user })?;
        }
        Ok(count)
    }

    pub(crate) fn see_to_leases(&self) -> Result<usize, Error> {
        self.identity.check_fork()?;
        let mut changes = Vec::new();
        let mut guard = self.cold();
        let Cold { settings, leases, .. } = &mut *guard;
        let looked = leases.look(settings.iter().map(|(setting, _)| setting), &mut changes);
        let names: Vec<_> =
            changes.iter().map(|change| settings[change.index()].0.name().to_string()).collect();
        drop(guard);
        for (change, name) in changes.iter().zip(names) {
            let name = self.cold().name(&name)?;
            self.record_lease(name, change)?;
        }
        looked.map(|()| changes.len())
    }

    fn record_lease(&self, name: NameRef, change: &LeaseChange) -> Result<(), Error> {
        match change {
            LeaseChange::Leased(_, Cell { value, confirmed, until, holder_start, pid, user, tool, .. }) => {
                let lasts = if *until == NO_TIME { NO_TIME } else { until.saturating_sub(lease::now_ns()) };
                self.record(&SettingLeased {
                    name,
                    value: *value,
                    confirmed: *confirmed,
                    lasts,
                    while_alive: *holder_start != 0,
                    pid: *pid,
                    user: *user,
                    tool,
                })
            }
            LeaseChange::Ended(_, Cell { value: leased, pid, user, tool, .. }, why, value) => {
                let (value, leased, why) = (*value, *leased, *why);
                self.record(&SettingLeaseEnded { name, value, leased, why, pid: *pid, user: *user, tool })
            }
        }
    }

    /// Records an event about the space itself, such as a change of a setting.
    pub(crate) fn record<K: Kind>(&self, event: &K) -> Result<(), Error> {
        self.identity.check_fork()?;
        let name = self.cold().name("audit")?;
        let mut audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        if audit.is_none() {
            let made = Audit::new(&self.identity, &mut self.elements(), name)?;
            self.identity.publish_writers(made.number());
            *audit = Some(made);
        }
        audit.as_mut().expect("just made if there was none").emit(event)
    }

    /// Records a command that the process has given itself, with its result.
    pub(crate) fn record_own(&self, command: &Command, tool: &str, result: &str) -> Result<(), Error> {
        let number = OWN_COMMANDS + self.own_commands.fetch_add(1, Ordering::Relaxed);
        let Command { target, name, arguments } = command;
        let arguments = &*arguments.join(" ");
        let (pid, user) = (std::process::id(), crate::process::user());
        self.record(&CommandAdopted { command: number, pid, user, target, name, arguments, tool })?;
        self.record(&CommandAnswered { command: number, done: true, answer: result })
    }

    pub(crate) fn cold(&self) -> MutexGuard<'_, Cold> {
        // A panic under the lock leaves every step either done or not begun, so the data stay valid.
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with_live_table<R>(&self, work: impl FnOnce(&mut LiveTable) -> R) -> R {
        work(&mut self.cold().live)
    }

    pub(crate) fn elements(&self) -> MutexGuard<'_, Elements> {
        // A panic under the lock leaves every step either done or not begun, so the data stay valid.
        self.elements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the element of a dropped writer available to later writers.
    pub(crate) fn release(&self, ring: &mut Ring, give_back: impl FnOnce(&mut Elements)) {
        self.identity.refresh_anchor();
        ring.close();
        // In the child of a fork the lock may stay locked for ever, because its holder was another thread of
        // the parent.
        if !ring.is_wiped() {
            give_back(&mut self.elements());
        }
    }
}

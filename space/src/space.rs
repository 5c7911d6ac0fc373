//! The space: the directory in which a process is observed, seen from inside that process.

use crate::audit::{Audit, ProbesSwitched, SettingAdopted, SettingLeaseEnded, SettingLeased};
use crate::catalog::{Catalog, Names, Record, SettingRecord, Switch};
use crate::cell::{Cell, NO_TIME};
use crate::clock::{Anchor, Clock};
use crate::collector::{Collector, CollectorOptions};
use crate::element::{Owner, Policy, Ring};
use crate::elements::Elements;
use crate::error::Error;
use crate::kind::{Kind, NameRef, SiteRef};
use crate::layout::{PAGE, VERSION, block, identity, settings};
use crate::lease::{self, Leases, Told};
use crate::live::{self, KeepsRows, LiveRow, LiveTable};
use crate::mailbox::Mailbox;
use crate::map::{Fork, Map};
use crate::place::Wanted;
use crate::probe::{Probe, Probes};
use crate::row::{Row, RowKind};
use crate::session::Manifest;
use crate::setting::{Changes, Setting, SettingSpec, Settings};
use crate::writer::Writer;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64 as PlainAtomicU64};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file that makes a directory a space.
pub(crate) const IDENTITY: &str = "space";
/// The same file until everything in it is written.
pub(crate) const IDENTITY_HALF_MADE: &str = "space.new";

/// So many names of writers are kept; whoever comes with another one after them is called [`ONE_OF_MANY`].
const WRITER_NAMES_MAX: usize = 1 << 14;
/// The name of writers for whose own there is no room.
const ONE_OF_MANY: &str = "one of many";

/// Size and policy of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementOptions {
    /// Bytes of a block: a power of two, 512 bytes to 64 MiB.
    pub block_bytes: usize,
    /// How many blocks: at least 2.
    pub block_count: usize,
    /// What happens when it is full.
    pub policy: Policy,
}

impl Default for ElementOptions {
    /// 16 blocks of 64 KiB, overwriting the oldest.
    fn default() -> ElementOptions {
        ElementOptions { block_bytes: 64 << 10, block_count: 16, policy: Policy::Overwrite }
    }
}

/// How to make a space.
#[derive(Clone, Debug, Default)]
pub struct SpaceOptions {
    /// Its name: the directory is called `NAME-PID`. Empty: the program's name.
    pub name: String,
    /// The directory to make it in; default: see [`default_parent`].
    pub parent: Option<PathBuf>,
    /// The exact directory instead, which must not exist or be empty.
    pub path: Option<PathBuf>,
    /// The directory of a session to join, which is made if there is none; a name without a slash is below `parent`.
    /// Default: `$THALWEG_SESSION`, if there is neither `parent` nor `path`. See [`crate::reader::Session`].
    pub session: Option<PathBuf>,
    /// Size and policy of elements, unless a writer asks for its own.
    pub element: ElementOptions,
    /// The command line to show; empty: this process's own.
    pub command: String,
    /// `clean` leaves the space alone unless told otherwise.
    pub keep: bool,
}

/// The directory where a process publishes its events, names, settings and live rows. Cheap to clone.
///
/// ```
/// use thalweg_space::{Kind, Space, SpaceOptions, reader::{Item, SpaceReader}};
///
/// /// Something was measured.
/// #[derive(Kind)]
/// #[kind(name = "example.measured")]
/// struct Measured {
///     /// The value.
///     #[field(unit = "celsius")]
///     value: f64,
/// }
///
/// # let parent = std::env::temp_dir().join(format!("thalweg-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&parent).unwrap();
/// let space = Space::create(SpaceOptions { name: "example".into(), parent: Some(parent.clone()), ..Default::default() })?;
/// let mut writer = space.writer("main")?;
/// let measured = writer.declare::<Measured>()?;
/// writer.emit(measured, &Measured { value: 21.5 });
///
/// // Usually in another process:
/// let mut seen = Vec::new();
/// let mut reader = SpaceReader::open(space.path())?;
/// reader.events().poll(usize::MAX, &mut |item| {
///     if let Item::Event(event) = item {
///         seen.push(event.f64(event.kind.field("value").unwrap()));
///     }
/// })?;
/// assert_eq!(seen, [21.5]);
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), thalweg_space::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Space {
    shared: Arc<Shared>,
    /// Where new elements are made; 0 is the space's directory.
    directory: usize,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    clock: Clock,
    pub(crate) pid: u32,
    pub(crate) process_start: u64,
    element: ElementOptions,
    in_session: bool,
    pub(crate) identity: Arc<Map>,
    settings: Arc<Settings>,
    /// How many changes of settings and probes were adopted.
    adopted: PlainAtomicU64,
    cold: Mutex<Cold>,
    /// Held while a writer's files are made, so that they are published in order.
    elements: Mutex<Elements>,
    /// The space's own events; taken after `cold` and before `elements`.
    audit: Mutex<Option<Audit>>,
    /// Someone is writing the second anchor; taken by compare-exchange, given back with release.
    anchoring: AtomicBool,
    /// When the second anchor was last written, in ticks.
    anchored: PlainAtomicU64,
}

/// What is touched rarely, under one lock.
#[derive(Debug)]
struct Cold {
    catalog: Catalog,
    names: Names,
    /// How many of them were made for writers.
    writer_names: usize,
    sites: u64,
    /// Each with what was adopted of it last.
    settings: Vec<(Setting, Cell)>,
    leases: Leases,
    probes: Option<Probes>,
    live: LiveTable,
    /// Names of the kinds of live row; the code is the place, from 1.
    rows: Vec<&'static str>,
}

impl Space {
    /// Makes a space: its directory (mode 0700) and identity, calibrating the clock on the way.
    ///
    /// # Errors
    /// When the directory cannot be made or written, or the file system is full.
    pub fn create(options: SpaceOptions) -> Result<Space, Error> {
        check_element(&options.element)?;
        let name =
            if options.name.is_empty() { crate::process::program_name() } else { options.name.clone() };
        // Locked until this process has joined, so that nobody removes the session meanwhile.
        let session = crate::session::chosen(&options)?.map(Manifest::enter).transpose()?;
        let path = match &session {
            Some(session) => make_numbered(&session.directory, &name)?,
            None => make_directory(&options, &name)?,
        };
        let made = Space::fill(&options, &name, path.clone(), session.as_ref());
        if made.is_err() {
            // Best effort: what was made before the failure is of no use to anybody.
            let _ = std::fs::remove_dir_all(&path);
        }
        made
    }

    fn fill(
        options: &SpaceOptions,
        name: &str,
        path: PathBuf,
        session: Option<&Manifest>,
    ) -> Result<Space, Error> {
        let clock = Clock::new();
        let pid = std::process::id();
        let process_start = crate::process::start_time(pid).unwrap_or(0);
        // Told by its lock from one whose process died in the making (`discover`).
        let directory = std::fs::File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        directory.lock().map_err(|e| Error::io("lock", &path, e))?;
        let identity = Map::create(&path.join(IDENTITY_HALF_MADE), PAGE, Fork::Wipe)?;
        let catalog = Catalog::create(path.join("0000.catalog"), 0)?;
        let bytes = settings::TOOLS + settings::TOOL_BYTES * settings::CELL_COUNT;
        let cells = Map::create(&path.join("settings"), bytes, Fork::Share)?;
        cells.word(8).store(u64::from(VERSION), Ordering::Relaxed);
        cells.word(0).store(settings::MAGIC_VALUE, Ordering::Release);
        let settings = Settings { map: Arc::new(cells), path: path.join("settings") };
        let identity = Arc::new(identity);
        let cold = Cold {
            catalog,
            names: Names::new(),
            writer_names: 0,
            sites: 0,
            settings: Vec::new(),
            leases: Leases::default(),
            probes: None,
            live: LiveTable::new(path.clone(), identity.clone()),
            rows: Vec::new(),
        };
        let shared = Shared {
            path,
            clock,
            pid,
            process_start,
            element: options.element,
            in_session: session.is_some(),
            identity,
            settings: Arc::new(settings),
            adopted: PlainAtomicU64::new(0),
            cold: Mutex::new(cold),
            elements: Mutex::new(Elements::default()),
            audit: Mutex::new(None),
            anchoring: AtomicBool::new(false),
            anchored: PlainAtomicU64::new(clock.anchor().ticks),
        };
        shared.write_identity(options, name);
        // All at once: whoever finds the identity finds all of it, whenever this process is killed.
        let (new, identity) = (shared.path.join(IDENTITY_HALF_MADE), shared.path.join(IDENTITY));
        std::fs::rename(&new, &identity).map_err(|e| Error::io("name", &identity, e))?;
        session.map_or(Ok(()), |session| session.join(&shared, name))?;
        directory.unlock().map_err(|e| Error::io("unlock", &shared.path, e))?;
        Ok(Space { shared: Arc::new(shared), directory: 0 })
    }

    /// The space's directory.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The clock of this space.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The same space, whose new elements are made in a directory of their own below `path`: on a disk, say, to outlive
    /// the machine. Readers find them there, and they are removed with the space.
    ///
    /// ```
    /// use thalweg_space::{ElementOptions, Space, SpaceOptions};
    /// # let parent = std::env::temp_dir().join(format!("thalweg-disk-{}", std::process::id()));
    /// # std::fs::create_dir_all(&parent).unwrap();
    /// # let options = SpaceOptions { name: "disk".into(), parent: Some(parent.clone()), ..Default::default() };
    /// let space = Space::create(options)?;
    /// let in_memory = space.writer("often")?;
    /// let on_disk = space.elements_in(parent.join("disk"))?.writer("important")?;
    /// # drop((in_memory, on_disk));
    /// # std::fs::remove_dir_all(parent).unwrap();
    /// # Ok::<(), thalweg_space::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the directory cannot be made, belongs to another user, or has too long a path.
    pub fn elements_in(&self, path: impl AsRef<Path>) -> Result<Space, Error> {
        self.shared.check_fork()?;
        let directory = self.shared.elements().directory(&self.shared, path.as_ref())?;
        Ok(Space { shared: self.shared.clone(), directory })
    }

    fn wanted(&self, options: ElementOptions) -> Wanted {
        Wanted { options, directory: self.directory }
    }

    /// A writer with an element of its own, for one thread at a time.
    ///
    /// It takes the element, of the same size and policy, that was released longest ago by a writer that was dropped;
    /// there is a new one only if none is free. What the writer before wrote there stays readable, as that writer's,
    /// until it is overwritten. Of writers and collectors 16,384 names are kept, for ever; further ones are called `one of many`.
    ///
    /// # Errors
    /// When the file system is full, or this process is a fork of the one that made the space.
    pub fn writer(&self, name: &str) -> Result<Writer, Error> {
        self.writer_with(name, self.shared.element)
    }

    /// A writer whose element has its own size and policy.
    ///
    /// # Errors
    /// As [`Space::writer`], and when the options are out of range.
    pub fn writer_with(&self, name: &str, options: ElementOptions) -> Result<Writer, Error> {
        check_element(&options)?;
        let (shared, name) = (&self.shared, self.owner_name(name)?);
        let (mut ring, declared, number) = shared.elements().take(shared, self.wanted(options))?;
        ring.take_over(Owner { number, thread: crate::process::thread_id(), name });
        shared.publish_writers(number);
        Ok(Writer::new(shared.clone(), ring, declared, number, self.wanted(options)))
    }

    /// A collector of events of one kind, with a small element of its own: thousands of them share a few files, and a
    /// reader gets the latest event of each at once.
    ///
    /// # Errors
    /// As [`Space::writer`], and when the options are out of range.
    pub fn collector<K: Kind>(&self, name: &str, options: CollectorOptions) -> Result<Collector<K>, Error> {
        let options = ElementOptions::from(options);
        check_element(&options)?;
        let wanted = self.wanted(options);
        let (shared, name) = (&self.shared, self.owner_name(name)?);
        let (mut slot, number) = shared.elements().take_slot(shared, wanted)?;
        let kind = match slot.declared.declare::<K>(number, options.block_bytes) {
            Ok(kind) => kind,
            Err(error) => {
                shared.elements().give_back_slot(slot, wanted);
                return Err(error);
            }
        };
        slot.ring.take_over(Owner { number, thread: crate::process::thread_id(), name });
        shared.publish_writers(number);
        Ok(Collector::new(shared.clone(), slot, kind, number, wanted))
    }

    fn owner_name(&self, name: &str) -> Result<NameRef, Error> {
        self.shared.check_fork()?;
        self.shared.cold().writer_name(name)
    }

    /// Gives the space another name, because the process does something else from now on. The directory keeps its own.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub fn rename(&self, name: &str) -> Result<(), Error> {
        let name = self.name(name)?;
        // Release: who reads the reference finds the name in the catalog.
        self.shared.identity.word(identity::NAME_NOW).store(name.0, Ordering::Release);
        Ok(())
    }

    /// Interns a name: the same text gives the same reference. Takes a lock; not for hot paths.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub fn name(&self, text: &str) -> Result<NameRef, Error> {
        self.shared.cold().name(text)
    }

    /// The mailbox through which other processes send this one commands. There is one.
    ///
    /// # Errors
    /// When it was made before, the file system is full, or this process is a fork of the one that made the space.
    pub fn mailbox(&self) -> Result<Mailbox, Error> {
        self.shared.check_fork()?;
        Mailbox::create(self.shared.clone())
    }

    /// Adds a site of the static structure to the catalog.
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub fn site(&self, site: &Site<'_>) -> Result<SiteRef, Error> {
        let mut cold = self.shared.cold();
        let id = cold.sites + 1;
        cold.catalog.append(&Record::Site {
            id,
            parent: site.parent.unwrap_or(SiteRef::NONE).0,
            line: site.line,
            column: site.column,
            name: site.name.to_string(),
            kind: site.kind.to_string(),
            file: site.file.to_string(),
        })?;
        cold.sites = id;
        Ok(SiteRef(id))
    }

    /// How often settings (and probes) were changed: a setting's value changes before this does.
    pub fn changes(&self) -> Changes {
        Changes::new(&self.shared.settings)
    }

    /// A setting: a cell that the observing side may change. The same name gives the same cell.
    ///
    /// # Errors
    /// When the default is out of range, or all cells are taken.
    pub fn setting(&self, spec: SettingSpec<'_>) -> Result<Setting, Error> {
        self.shared.check_fork()?;
        spec.check()?;
        let mut cold = self.shared.cold();
        if let Some((setting, _)) = cold.settings.iter().find(|(setting, _)| setting.name() == spec.name) {
            return Ok(setting.clone());
        }
        let index = cold.settings.len();
        if index == settings::CELL_COUNT {
            return Err(Error::new(format!(
                "there is no room for setting `{}`: a space has {} settings",
                spec.name,
                settings::CELL_COUNT
            )));
        }
        let setting = Setting::new(self.shared.settings.clone(), index, &spec);
        cold.catalog.append(&Record::Setting(SettingRecord {
            index: index as u64,
            min: spec.min,
            max: spec.max,
            default: spec.default,
            name: spec.name.to_string(),
            doc: spec.doc.to_string(),
            unit: spec.unit.to_string(),
            choices: spec.choices.iter().map(|c| c.to_string()).collect(),
            affects: spec.affects.name().to_string(),
            adoption: spec.adoption.name().to_string(),
            undo: spec.undo.name().to_string(),
        }))?;
        cold.settings.push((setting.clone(), Cell { value: spec.default, ..Cell::default() }));
        self.shared.identity.word(identity::SETTINGS).store(index as u64 + 1, Ordering::Release);
        Ok(setting)
    }

    /// A probe: a place in the program that can be switched on and off by its name while the program runs, `on` at first.
    /// The same name gives the same probe. See [`Probe`].
    ///
    /// # Errors
    /// When the catalog cannot be written.
    pub fn probe(&self, name: &str, on: bool) -> Result<Probe, Error> {
        self.shared.check_fork()?;
        let mut guard = self.shared.cold();
        let cold = &mut *guard;
        let probes = match &mut cold.probes {
            Some(probes) => probes,
            none => none.insert(Probes::create(&self.shared.path)?),
        };
        probes.get(name, on, &mut cold.catalog)
    }

    /// Adopts what was changed from outside since the last call: records each change of a setting, with who made it, and
    /// switches probes. To be called at safe points; one load when nothing was changed. Returns how many were adopted.
    ///
    /// # Errors
    /// When the event cannot be recorded, or the switches cannot be read; what was changed holds all the same.
    #[inline]
    pub fn adopt(&self) -> Result<usize, Error> {
        let changes = self.shared.settings.changes();
        if changes == self.shared.adopted.load(Ordering::Relaxed) {
            return Ok(0);
        }
        self.shared.adopt(changes)
    }

    /// Sees to the [leases](crate::lease) of settings: puts back what ran out, and records which began and ended. To be called
    /// about every 20 ms, also while there is nothing else to do: that is how late a value is put back. Who never calls it
    /// has nobody give it leases. Takes about as many loads as there are settings where nothing was changed. Returns how many
    /// began or ended.
    ///
    /// # Errors
    /// When the settings cannot be written any more, or the event cannot be recorded.
    pub fn see_to_leases(&self) -> Result<usize, Error> {
        self.shared.settings.keeps_leases();
        self.shared.see_to_leases()
    }

    /// Describes a kind of live row, once; again gives the same. Takes a lock; not for hot paths.
    ///
    /// # Errors
    /// When the catalog cannot be written, or there are 255 kinds.
    pub fn row_kind<R: Row>(&self) -> Result<RowKind, Error> {
        let spec = R::SPEC;
        let mut guard = self.shared.cold();
        let Cold { catalog, rows, .. } = &mut *guard;
        if let Some(index) = rows.iter().position(|name| *name == spec.name) {
            return Ok(RowKind(index as u8 + 1));
        }
        let Ok(code) = u8::try_from(rows.len() + 1) else {
            return Err(Error::new(format!(
                "there is no room for live rows `{}`: a space has 255 kinds",
                spec.name
            )));
        };
        catalog.append(&Record::row(code, &spec))?;
        rows.push(spec.name);
        Ok(RowKind(code))
    }

    /// A row of the live table, for something that exists now; given back when dropped. The kind is one of this space.
    ///
    /// # Errors
    /// When the table must grow and the file system is full.
    pub fn live_row(&self, kind: RowKind, id: u64) -> Result<LiveRow, Error> {
        self.shared.check_fork()?;
        live::take(&self.shared, kind, id)
    }

    /// Lets this thread keep some free live rows for its next ones, as long as what it gives is not dropped: for threads that
    /// make and end tasks and streams all the time, which then seldom take the space's lock.
    pub fn keep_live_rows(&self) -> KeepsRows {
        live::keep(&self.shared)
    }

    /// Notes that the process lives now, so that a reader knows how long it lived if it is killed: three readings of clocks.
    pub fn note_alive(&self) {
        self.shared.anchored.store(0, Ordering::Relaxed);
        self.shared.refresh_anchor();
    }

    /// Marks the orderly end of the process. Writers may still close after it.
    pub fn finish(&self) {
        self.note_alive();
        self.shared.identity.word(identity::STATE).store(2, Ordering::Release);
        if self.shared.in_session && std::process::id() == self.shared.pid {
            // Best effort: the identity, too, says that it ended.
            let _ = crate::session::leave(&self.shared);
        }
    }
}

impl Cold {
    /// The name of a writer or collector. Names stay for ever, and threads that come and go may each bring another one.
    fn writer_name(&mut self, text: &str) -> Result<NameRef, Error> {
        if self.names.contains_key(text) {
            return self.name(text);
        }
        if self.writer_names == WRITER_NAMES_MAX {
            return self.name(ONE_OF_MANY);
        }
        self.writer_names += 1;
        self.name(text)
    }

    fn name(&mut self, text: &str) -> Result<NameRef, Error> {
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
    #[cold]
    fn adopt(&self, changes: u64) -> Result<usize, Error> {
        self.check_fork()?;
        // Counted before they are looked for: what comes meanwhile is found now or next time, or both times.
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
            self.tell(&SettingAdopted { name, old, new, pid, user, tool: &tool })?;
        }
        for (Switch { pattern, on, pid, user }, probes) in switched {
            self.tell(&ProbesSwitched { pattern: &pattern, on, probes, pid, user })?;
        }
        Ok(count)
    }

    fn see_to_leases(&self) -> Result<usize, Error> {
        self.check_fork()?;
        let mut told = Vec::new();
        let mut guard = self.cold();
        let Cold { settings, leases, .. } = &mut *guard;
        let looked = leases.look(settings.iter().map(|(setting, _)| setting), &mut told);
        let names: Vec<_> = told.iter().map(|told| settings[told.index()].0.name().to_string()).collect();
        drop(guard);
        for (told, name) in told.iter().zip(names) {
            let name = self.cold().name(&name)?;
            self.tell_lease(name, told)?;
        }
        looked.map(|()| told.len())
    }

    fn tell_lease(&self, name: NameRef, told: &Told) -> Result<(), Error> {
        match told {
            Told::Leased(_, Cell { value, confirmed, until, holder_start, pid, user, tool, .. }) => {
                let lasts = if *until == NO_TIME { NO_TIME } else { until.saturating_sub(lease::now_ns()) };
                self.tell(&SettingLeased {
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
            Told::Ended(_, Cell { value: leased, pid, user, tool, .. }, why, value) => {
                let (value, leased, why) = (*value, *leased, *why);
                self.tell(&SettingLeaseEnded { name, value, leased, why, pid: *pid, user: *user, tool })
            }
        }
    }

    /// Records an event of the space's own.
    pub(crate) fn tell<K: Kind>(&self, event: &K) -> Result<(), Error> {
        self.check_fork()?;
        let name = self.cold().name("audit")?;
        let mut audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        if audit.is_none() {
            let made = Audit::new(self, &mut self.elements(), name)?;
            self.publish_writers(made.number());
            *audit = Some(made);
        }
        audit.as_mut().expect("just made if there was none").emit(event)
    }

    fn cold(&self) -> MutexGuard<'_, Cold> {
        // A panic under the lock leaves every step either done or not begun, so the data stay good.
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The space's identity in the world.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let half = |at| self.identity.word(at).load(Ordering::Relaxed);
        let both = u128::from(half(identity::UUID + 8)) << 64 | u128::from(half(identity::UUID));
        both.to_le_bytes()
    }

    pub(crate) fn with_live_table<R>(&self, work: impl FnOnce(&mut LiveTable) -> R) -> R {
        work(&mut self.cold().live)
    }

    pub(crate) fn elements(&self) -> MutexGuard<'_, Elements> {
        // As above.
        self.elements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells readers that there is a writer of this number, whose element is complete.
    fn publish_writers(&self, number: u32) {
        self.identity.word(identity::WRITERS).fetch_max(u64::from(number), Ordering::Release);
        self.refresh_anchor();
    }

    /// Takes back the element of a writer that is done.
    pub(crate) fn release(&self, ring: &mut Ring, give_back: impl FnOnce(&mut Elements)) {
        self.refresh_anchor();
        ring.close();
        // In the child of a fork, another thread of the parent may hold the lock for ever.
        if !ring.is_wiped() {
            give_back(&mut self.elements());
        }
    }

    /// Asks the identity, not the kernel: a fork finds its maps wiped.
    fn check_fork(&self) -> Result<(), Error> {
        if self.identity.word(identity::MAGIC).load(Ordering::Relaxed) == identity::MAGIC_VALUE {
            return Ok(());
        }
        Err(Error::new(format!(
            "this process is a fork of process {}, which made the space {}: make a space of its own",
            self.pid,
            self.path.display()
        )))
    }

    fn write_identity(&self, options: &SpaceOptions, name: &str) {
        let map = &self.identity;
        let put = |at, value: u64| map.word(at).store(value, Ordering::Relaxed);
        put(identity::VERSION, u64::from(VERSION) | (PAGE as u64) << 32);
        put_bytes(map, identity::UUID, crate::process::uuid());
        put(identity::PID, u64::from(self.pid));
        put(identity::PROCESS_START, self.process_start);
        put_bytes(map, identity::BOOT, crate::process::boot_id());
        put(identity::CLOCK, self.clock.kind() as u64);
        put(identity::FREQUENCY, self.clock.hz().round() as u64);
        self.write_anchor(identity::ANCHOR_FIRST, &self.clock.anchor());
        put(identity::STATE, 1);
        put(identity::FLAGS, u64::from(options.keep));
        map.put_text(identity::NAME, identity::NAME_BYTES, name);
        map.put_text(identity::HOST, identity::HOST_BYTES, &crate::process::host());
        let command = if options.command.is_empty() { command_line() } else { options.command.clone() };
        map.put_text(identity::COMMAND, identity::COMMAND_BYTES, &command);
        map.word(identity::MAGIC).store(identity::MAGIC_VALUE, Ordering::Release);
    }

    fn write_anchor(&self, at: usize, anchor: &Anchor) {
        for (index, value) in [anchor.ticks, anchor.monotonic_ns, anchor.real_ns].into_iter().enumerate() {
            self.identity.word(at + 8 * index).store(value, Ordering::Relaxed);
        }
    }

    /// Writes the second anchor again, at most once a second and by one thread at a time.
    pub(crate) fn refresh_anchor(&self) {
        let age = self.clock.now().saturating_sub(self.anchored.load(Ordering::Relaxed));
        if age < self.clock.hz() as u64 {
            return;
        }
        if self.anchoring.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let anchor = self.clock.read_anchor();
        let version = self.identity.word(identity::ANCHOR_SECOND);
        let odd = version.load(Ordering::Relaxed) | 1;
        version.store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        self.write_anchor(identity::ANCHOR_SECOND + 8, &anchor);
        version.store(odd + 1, Ordering::Release);
        self.anchored.store(anchor.ticks, Ordering::Relaxed);
        self.anchoring.store(false, Ordering::Release);
    }
}

/// A site of the static structure: a box, a filter, a star, a probe, with where it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Site<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is: "box", "filter", "star", …
    pub kind: &'a str,
    /// What contains it.
    pub parent: Option<SiteRef>,
    /// Source file.
    pub file: &'a str,
    /// Line, from 1; 0 unknown.
    pub line: u32,
    /// Column, from 1; 0 unknown.
    pub column: u32,
}

/// Where spaces are by default: `$THALWEG_SPACES`, else `/dev/shm/thalweg-UID`, else `$XDG_RUNTIME_DIR/thalweg`.
///
/// The directory need not exist yet.
///
/// # Errors
/// When none of them can be had.
pub fn default_parent() -> Result<PathBuf, Error> {
    if let Some(chosen) = std::env::var_os("THALWEG_SPACES").filter(|v| !v.is_empty()) {
        return Ok(PathBuf::from(chosen));
    }
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        return Ok(shared_memory.join(format!("thalweg-{}", crate::process::user())));
    }
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        return Ok(Path::new(&runtime).join("thalweg"));
    }
    Err(Error::new(
        "there is nowhere to put a space: /dev/shm is missing and XDG_RUNTIME_DIR is not set; \
         set THALWEG_SPACES to a directory",
    ))
}

fn make_directory(options: &SpaceOptions, name: &str) -> Result<PathBuf, Error> {
    if let Some(path) = &options.path {
        return claim_exact(path);
    }
    let parent = match &options.parent {
        Some(parent) => parent.clone(),
        None => default_parent()?,
    };
    make_private(&parent)?;
    make_numbered(&parent, name)
}

/// A new directory for this process in `parent`.
fn make_numbered(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    let stem = format!("{}-{}", file_name(name), std::process::id());
    // A process may have several spaces of one name, and a dead one may have left its own.
    for again in 0..10_000 {
        let path = parent.join(if again == 0 { stem.clone() } else { format!("{stem}.{again}") });
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(Error::io("create the space directory", &path, e)),
        }
    }
    Err(Error::new(format!("{} holds too many spaces called {stem}: run `thalweg clean`", parent.display())))
}

/// Makes the directory of spaces; one that exists must be ours, so that nobody else can plant files in it.
pub(crate) fn make_private(parent: &Path) -> Result<(), Error> {
    if let Err(e) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent) {
        return Err(Error::io("create the directory of spaces", parent, e));
    }
    let about = std::fs::metadata(parent).map_err(|e| Error::io("examine", parent, e))?;
    let user = crate::process::user();
    // A directory of root's, such as /tmp, is as safe as the machine.
    if user != 0 && about.uid() != user && about.uid() != 0 {
        return Err(Error::new(format!(
            "{} belongs to another user: set THALWEG_SPACES to a directory of your own",
            parent.display()
        )));
    }
    Ok(())
}

fn claim_exact(path: &Path) -> Result<PathBuf, Error> {
    match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) => return Err(Error::io("create the space directory", path, e)),
    }
    let mut entries = std::fs::read_dir(path).map_err(|e| Error::io("read", path, e))?;
    if entries.next().is_some() {
        return Err(Error::new(format!(
            "{} is not empty, and a space needs a directory of its own: choose another, or remove it",
            path.display()
        )));
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(|e| Error::io("change the mode of", path, e))?;
    Ok(path.to_path_buf())
}

fn check_element(options: &ElementOptions) -> Result<(), Error> {
    let ElementOptions { block_bytes, block_count, .. } = *options;
    if !block_bytes.is_power_of_two() || !(block::BYTES_MIN..=block::BYTES_MAX).contains(&block_bytes) {
        return Err(Error::new(format!(
            "blocks of {block_bytes} bytes: a block is a power of two from {} bytes to {} bytes",
            block::BYTES_MIN,
            block::BYTES_MAX
        )));
    }
    if !(2..=1 << 24).contains(&block_count) {
        return Err(Error::new(format!("{block_count} blocks: an element has 2 to 16777216")));
    }
    Ok(())
}

fn put_bytes(map: &Map, at: usize, bytes: [u8; 16]) {
    for (index, half) in bytes.chunks(8).enumerate() {
        let word = u64::from_le_bytes(half.try_into().expect("8 bytes"));
        map.word(at + 8 * index).store(word, Ordering::Relaxed);
    }
}

/// A name that is safe as part of a file name.
fn file_name(name: &str) -> String {
    let good = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().take(64).map(good).collect();
    name.trim_start_matches('.').to_string()
}

fn command_line() -> String {
    std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

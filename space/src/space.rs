//! The space, as used by the process that publishes in it.

use crate::catalog::{Catalog, Record, SettingRecord};
use crate::cell::Cell;
use crate::clock::Clock;
use crate::collector::{Collector, CollectorOptions};
use crate::directory::{make_directory, make_numbered};
use crate::element::Owner;
use crate::error::Error;
use crate::identity::Identity;
use crate::kind::{Kind, NameRef, SiteRef};
use crate::layout::{VERSION, identity, settings};
use crate::live::{self, KeepsRows, LiveRow};
use crate::mailbox::{Command, Mailbox};
use crate::map::{Fork, Map};
use crate::options::{ElementOptions, SpaceOptions};
use crate::place::Wanted;
use crate::probe::{Probe, Probes};
use crate::row::{Row, RowKind};
use crate::session::Manifest;
use crate::setting::{Changes, Setting, SettingSpec, Settings};
use crate::shared::{Cold, Shared};
use crate::shared_map::SharedMap;
use crate::writer::Writer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    /// The index of the directory in which new elements are made; 0 stands for the space's own directory.
    directory: usize,
}

impl Space {
    /// Makes a space: its directory (mode 0700) and identity. Calibrates the clock.
    ///
    /// # Errors
    /// Fails when the directory cannot be made or written, or the file system is full.
    pub fn create(options: SpaceOptions) -> Result<Space, Error> {
        options.element.check()?;
        let name =
            if options.name.is_empty() { crate::process::program_name() } else { options.name.clone() };
        // The manifest is locked until this process has joined, so that no other process removes the session
        // before that.
        let session = crate::session::chosen(&options)?.map(Manifest::enter).transpose()?;
        let path = match &session {
            Some(session) => make_numbered(&session.directory, &name)?,
            None => make_directory(&options, &name)?,
        };
        let made = Space::fill(&options, &name, path.clone(), session.as_ref());
        if made.is_err() {
            // Errors of the removal are ignored: the files that were made before the failure are no longer
            // needed.
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
        // The lock, which `discover` checks, distinguishes this space from one whose process died while
        // making it.
        let directory = std::fs::File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        directory.lock().map_err(|e| Error::io("lock", &path, e))?;
        let identity = Identity::create(path.clone(), clock)?;
        let catalog = Catalog::create(path.join("0000.catalog"), 0)?;
        let bytes = settings::TOOLS + settings::TOOL_BYTES * settings::CELL_COUNT;
        let cells = Map::create(&path.join("settings"), bytes, Fork::Share)?;
        cells.word(8).store(u64::from(VERSION), Ordering::Relaxed);
        cells.word(0).store(settings::MAGIC_VALUE, Ordering::Release);
        let settings = Settings { map: Arc::new(cells), path: path.join("settings") };
        let shared = Shared::new(identity, settings, catalog, options.element, session.is_some());
        let identity = &shared.identity;
        identity.write(options, name);
        identity.publish()?;
        session.map_or(Ok(()), |session| session.join(identity, name))?;
        directory.unlock().map_err(|e| Error::io("unlock", &identity.path, e))?;
        Ok(Space { shared: Arc::new(shared), directory: 0 })
    }

    /// The space's directory.
    pub fn path(&self) -> &Path {
        &self.shared.identity.path
    }

    /// The clock of this space.
    pub fn clock(&self) -> &Clock {
        &self.shared.identity.clock
    }

    /// The same space, with new elements in a directory below `path`, for example on a disk, where they
    /// survive a reboot. Readers find the elements there, and the elements are removed together with the
    /// space.
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
    /// Fails when the directory cannot be made, belongs to another user, or has too long a path.
    pub fn elements_in(&self, path: impl AsRef<Path>) -> Result<Space, Error> {
        self.shared.identity.check_fork()?;
        let directory = self.shared.elements().directory(&self.shared.identity, path.as_ref())?;
        Ok(Space { shared: self.shared.clone(), directory })
    }

    fn wanted(&self, options: ElementOptions) -> Wanted {
        Wanted { options, directory: self.directory }
    }

    /// Makes a writer with an element of its own, for one thread at a time.
    ///
    /// The writer reuses the element, of the same size and policy, that a dropped writer released longest
    /// ago; a new element is made only if none is free. The events of the former writer stay readable under
    /// its name until they are overwritten. A space keeps up to 16,384 names of writers and collectors;
    /// writers with further names are called `one of many`.
    ///
    /// # Errors
    /// Fails when the file system is full, or this process is a fork of the one that made the space.
    pub fn writer(&self, name: &str) -> Result<Writer, Error> {
        self.writer_with(name, self.shared.element)
    }

    /// The size and policy of the elements of [`Space::writer`].
    pub fn element(&self) -> ElementOptions {
        self.shared.element
    }

    /// Makes a writer with an element of this size and policy.
    ///
    /// # Errors
    /// Fails as [`Space::writer`] does, and when the options are out of range.
    pub fn writer_with(&self, name: &str, options: ElementOptions) -> Result<Writer, Error> {
        options.check()?;
        let (shared, name) = (&self.shared, self.owner_name(name)?);
        let (mut ring, declared, number) = shared.elements().take(&shared.identity, self.wanted(options))?;
        ring.take_over(Owner { number, thread: crate::process::thread_id(), name });
        shared.identity.publish_writers(number);
        Ok(Writer::new(shared.clone(), ring, declared, number, self.wanted(options)))
    }

    /// Makes a collector of events of one kind, with a small element of its own. Thousands of collectors
    /// share a few files, and a reader gets the latest event of each at once.
    ///
    /// # Errors
    /// Fails as [`Space::writer`] does, and when the options are out of range.
    pub fn collector<K: Kind>(&self, name: &str, options: CollectorOptions) -> Result<Collector<K>, Error> {
        let options = ElementOptions::from(options);
        options.check()?;
        let wanted = self.wanted(options);
        let (shared, name) = (&self.shared, self.owner_name(name)?);
        let (mut slot, number) = shared.elements().take_slot(&shared.identity, wanted)?;
        let kind = match slot.declared.declare::<K>(number, options.block_bytes) {
            Ok(kind) => kind,
            Err(error) => {
                shared.elements().give_back_slot(slot, wanted);
                return Err(error);
            }
        };
        slot.ring.take_over(Owner { number, thread: crate::process::thread_id(), name });
        shared.identity.publish_writers(number);
        Ok(Collector::new(shared.clone(), slot, kind, number, wanted))
    }

    fn owner_name(&self, name: &str) -> Result<NameRef, Error> {
        self.shared.identity.check_fork()?;
        self.shared.cold().writer_name(name)
    }

    /// Gives the space another name, for a process that begins another job. The name of the directory stays.
    ///
    /// # Errors
    /// Fails when the catalog cannot be written.
    pub fn rename(&self, name: &str) -> Result<(), Error> {
        let name = self.name(name)?;
        // The store has release ordering, so a reader that loads the reference finds the name in the catalog.
        self.shared.identity.map.word(identity::NAME_NOW).store(name.0, Ordering::Release);
        Ok(())
    }

    /// Interns a name: the same text gives the same reference. Interning takes a lock, so hot paths should
    /// not call this function.
    ///
    /// # Errors
    /// Fails when the catalog cannot be written.
    pub fn name(&self, text: &str) -> Result<NameRef, Error> {
        self.shared.cold().name(text)
    }

    /// Makes the mailbox through which other processes send commands to this one. A space has at most one
    /// mailbox.
    ///
    /// # Errors
    /// Fails when the mailbox was made before, the file system is full, or this process is a fork of the one
    /// that made the space.
    pub fn mailbox(&self) -> Result<Mailbox, Error> {
        self.shared.identity.check_fork()?;
        Mailbox::create(self.shared.clone())
    }

    /// The copy of the session's [shared map](crate::shared_map) in this process; made by the first call.
    ///
    /// # Errors
    /// Fails when the file system is full, or this process is a fork of the one that made the space.
    pub fn shared_map(&self) -> Result<SharedMap, Error> {
        self.shared.identity.check_fork()?;
        SharedMap::of(&self.shared)
    }

    /// Records a command that this process has carried out by itself, and its result, as the commands of other
    /// processes are recorded. `tool` is the name of this program.
    ///
    /// # Errors
    /// Fails when the event cannot be written, or this process is a fork of the one that made the space.
    pub fn record_own(&self, command: &Command, tool: &str, result: &str) -> Result<(), Error> {
        self.shared.record_own(command, tool, result)
    }

    /// Adds a site of the static structure to the catalog.
    ///
    /// # Errors
    /// Fails when the catalog cannot be written.
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

    /// The count of changes of settings and probes. A change of a setting stores the value before the count
    /// is raised.
    pub fn changes(&self) -> Changes {
        Changes::new(&self.shared.settings)
    }

    /// Makes a setting: a cell that observers may change. Calls with the same name give the same cell.
    ///
    /// # Errors
    /// Fails when the default is out of range, or all cells are taken.
    pub fn setting(&self, spec: SettingSpec<'_>) -> Result<Setting, Error> {
        self.shared.identity.check_fork()?;
        spec.check()?;
        let mut cold = self.shared.cold();
        if let Some((setting, _)) = cold.settings.iter().find(|(setting, _)| setting.name() == spec.name) {
            return Ok(setting.clone());
        }
        let index = cold.settings.len();
        if index == settings::CELL_COUNT {
            return Err(Error::new(format!(
                "setting `{}` cannot be made: a space has at most {} settings",
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
        self.shared.identity.map.word(identity::SETTINGS).store(index as u64 + 1, Ordering::Release);
        Ok(setting)
    }

    /// Makes a probe: a place in the program that can be switched by its name while the program runs; `on` is
    /// its initial state. Calls with the same name give the same probe. See [`Probe`].
    ///
    /// # Errors
    /// Fails when the catalog cannot be written.
    pub fn probe(&self, name: &str, on: bool) -> Result<Probe, Error> {
        self.shared.identity.check_fork()?;
        let mut guard = self.shared.cold();
        let cold = &mut *guard;
        let probes = match &mut cold.probes {
            Some(probes) => probes,
            none => none.insert(Probes::create(&self.shared.identity.path)?),
        };
        probes.get(name, on, &mut cold.catalog)
    }

    /// Adopts the changes that other processes made since the last call: records each change of a setting
    /// with its setter, and each switching of probes. `adopt` must be called at safe points; it costs one
    /// load when nothing was changed. Returns how many changes were adopted.
    ///
    /// # Errors
    /// Fails when the event cannot be recorded, or the switches cannot be read. The changes hold
    /// nevertheless.
    #[inline]
    pub fn adopt(&self) -> Result<usize, Error> {
        let changes = self.shared.settings.changes();
        if changes == self.shared.adopted.load(Ordering::Relaxed) {
            return Ok(0);
        }
        self.shared.adopt(changes)
    }

    /// Ends the [leases](crate::lease) of settings whose time is over, restores their values, and records
    /// which leases began and ended. This function must be called about every 20 ms, also while the process
    /// is idle; the interval is the longest delay until a value is restored. Without calls of this function,
    /// other processes cannot use leases. While no setting is changed, a call costs about one load for each
    /// setting. Returns how many leases began or ended.
    ///
    /// # Errors
    /// Fails when the settings cannot be written any more, or the event cannot be recorded.
    pub fn see_to_leases(&self) -> Result<usize, Error> {
        self.shared.settings.keeps_leases();
        self.shared.see_to_leases()
    }

    /// Describes a kind of live row in the catalog; repeated calls return the same kind. Describing a kind
    /// takes a lock, so hot paths should not call this function.
    ///
    /// # Errors
    /// Fails when the catalog cannot be written, or there are 255 kinds.
    pub fn row_kind<R: Row>(&self) -> Result<RowKind, Error> {
        let spec = R::SPEC;
        let mut guard = self.shared.cold();
        let Cold { catalog, rows, .. } = &mut *guard;
        if let Some(index) = rows.iter().position(|name| *name == spec.name) {
            return Ok(RowKind(index as u8 + 1));
        }
        let Ok(code) = u8::try_from(rows.len() + 1) else {
            return Err(Error::new(format!(
                "live rows `{}` cannot be described: a space has at most 255 kinds of row",
                spec.name
            )));
        };
        catalog.append(&Record::row(code, &spec))?;
        rows.push(spec.name);
        Ok(RowKind(code))
    }

    /// Takes a row of the live table, for an object that exists now. Dropping the returned value frees the
    /// row. `kind` must be a kind of this space.
    ///
    /// # Errors
    /// Fails when the table must grow and the file system is full.
    pub fn live_row(&self, kind: RowKind, id: u64) -> Result<LiveRow, Error> {
        self.shared.identity.check_fork()?;
        live::take(&self.shared, kind, id)
    }

    /// Lets this thread keep some free live rows for reuse until the returned value is dropped. Threads that
    /// often make and end tasks and streams then seldom take the space's lock.
    pub fn keep_live_rows(&self) -> KeepsRows {
        live::keep(&self.shared)
    }

    /// Records that the process is alive now, so that a reader knows how long it lived if it is killed. A
    /// call costs three readings of clocks.
    pub fn note_alive(&self) {
        self.shared.identity.note_alive();
    }

    /// Records that the process ends in an orderly way. Writers may still close after this call.
    pub fn finish(&self) {
        self.note_alive();
        self.shared.identity.map.word(identity::STATE).store(2, Ordering::Release);
        if self.shared.in_session && std::process::id() == self.shared.identity.pid {
            // Errors of the leaving are ignored, because the identity also records that the process ended.
            let _ = crate::session::leave(&self.shared.identity);
        }
    }
}

/// A site of the static structure: a box, a filter, a star, a probe, with the place in the source where it is
/// written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Site<'a> {
    /// The name of the site.
    pub name: &'a str,
    /// The kind of site: "box", "filter", "star", …
    pub kind: &'a str,
    /// The site that contains this site.
    pub parent: Option<SiteRef>,
    /// Source file.
    pub file: &'a str,
    /// Line, from 1; 0 unknown.
    pub line: u32,
    /// Column, from 1; 0 unknown.
    pub column: u32,
}

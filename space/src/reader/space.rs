//! The reader of a space: its identity, settings, probes, live rows, names, sites and events.

use super::element::{ElementReader, WriterInfo};
use super::events::EventStream;
use super::info::{Info, read_info};
use super::latest::LatestEvents;
use super::numbers::Numbers;
use super::rows::{Chunk, LiveView, RowInfo, RowKinds};
use crate::catalog::{CatalogReader, Record};
use crate::cell::{self, Cell, Copies, InFile, NO_TIME, Write};
use crate::directory::{IDENTITY, IDENTITY_HALF_MADE};
use crate::error::Error;
use crate::file;
use crate::kind::{NameRef, SiteRef};
use crate::layout::{identity, settings};
use crate::lease::{self, Lease, Terms};
use crate::setting::{Adoption, Affects, Undo, check_range};
use crate::shared_map::MapView;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thalweg_glob::Glob;

/// The largest number of chunks of live rows that are read.
const LIVE_CHUNKS_MAX: u64 = 1 << 14;

/// A setting with its present value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingView {
    /// The name of the setting.
    pub name: String,
    /// What the setting does.
    pub doc: String,
    /// Unit of the value, or nothing.
    pub unit: String,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value at the start.
    pub default: u64,
    /// Value now.
    pub value: u64,
    /// Names of the values from 0, or nothing.
    pub choices: Vec<String>,
    /// The parts of a run that a change affects; none if the catalog does not state them, or states them by a
    /// word that only a later version knows.
    pub affects: Option<Affects>,
    /// When a change takes effect; none if the catalog does not state it.
    pub adoption: Option<Adoption>,
    /// How a change is reverted; none if the catalog does not state it.
    pub undo: Option<Undo>,
    /// The process that set the setting last; none if it was not set since the start, or the setter is
    /// unknown.
    pub setter: Option<SetterView>,
    /// The lease under which the value was set, while that lease holds.
    pub lease: Option<LeaseView>,
    index: u64,
}

impl SettingView {
    fn take(&mut self, cell: Cell) {
        let Cell { value, confirmed, until, holder_start, pid, user, .. } = cell;
        self.value = value;
        self.lease = cell.is_leased().then(|| LeaseView {
            confirmed,
            left: (until != NO_TIME).then(|| Duration::from_nanos(until.saturating_sub(lease::now_ns()))),
            while_alive: holder_start != 0,
        });
        self.setter = (pid != 0).then_some(SetterView { pid, user, tool: cell.tool });
    }

    /// A view of the switch `name`, which can be set but has no readable value: 0 is off, 1 is on.
    pub fn switch(name: &str) -> SettingView {
        SettingView {
            name: name.to_string(),
            doc: String::new(),
            unit: String::new(),
            min: 0,
            max: 1,
            default: 1,
            value: 1,
            choices: Vec::new(),
            affects: None,
            adoption: None,
            undo: None,
            setter: None,
            lease: None,
            index: 0,
        }
    }
}

/// The setter of a setting, as that process stated it without a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetterView {
    /// The process.
    pub pid: u32,
    /// The id of the user that the process ran as.
    pub user: u32,
    /// The name of the tool; empty if it gave none.
    pub tool: String,
}

/// A lease of a setting. The process that set the setting holds the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The value that was confirmed last, and which the setting gets again when the lease ends.
    pub confirmed: u64,
    /// The time after which the lease ends unless it is renewed; none if the lease has no time limit.
    pub left: Option<Duration>,
    /// Whether the lease ends with the process that holds it.
    pub while_alive: bool,
}

/// A probe of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeView {
    /// The name of the probe.
    pub name: String,
    /// Whether the probe is switched on. The process may not have adopted a recent switch yet.
    pub on: bool,
}

/// A site of the static structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteInfo {
    /// The reference to the site.
    pub id: SiteRef,
    /// The site that contains this site, or none.
    pub parent: SiteRef,
    /// The name of the site.
    pub name: String,
    /// What the site is, such as a box or a probe.
    pub kind: String,
    /// Source file.
    pub file: String,
    /// Line, from 1; 0 unknown.
    pub line: u32,
    /// Column, from 1; 0 unknown.
    pub column: u32,
}

/// A space, opened for reading by the process that made it or by another one.
#[derive(Debug)]
pub struct SpaceReader {
    pub(super) path: PathBuf,
    identity: File,
    tables: Mutex<Tables>,
    /// The name under which this reader changes settings and sends commands.
    pub(super) tool: String,
}

/// The records of the process-wide catalog that were read so far.
#[derive(Debug)]
struct Tables {
    catalog: CatalogReader,
    names: HashMap<u64, Arc<str>>,
    sites: Vec<SiteInfo>,
    settings: Vec<SettingView>,
    probes: Vec<ProbeView>,
    rows: RowKinds,
    chunks: Vec<Chunk>,
}

impl SpaceReader {
    /// Opens the space in the directory `path`.
    ///
    /// # Errors
    /// Fails when there is no space, it is damaged, or it was made by a later version.
    pub fn open(path: impl AsRef<Path>) -> Result<SpaceReader, Error> {
        let path = path.as_ref().to_path_buf();
        let file_path = path.join(IDENTITY);
        let identity = file::open_to_read(&file_path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound if path.join(IDENTITY_HALF_MADE).exists() => Error::new(format!(
                "the space in {} is still being made, or its process was killed while it made it; \
                 `thalweg clean` removes it then",
                path.display()
            )),
            std::io::ErrorKind::NotFound => Error::new(format!(
                "there is no space in {}: `thalweg ls` lists those there are",
                path.display()
            )),
            _ => Error::io("open", &file_path, e),
        })?;
        read_info(&identity, &file_path)?;
        let catalog = CatalogReader::open(&path.join("0000.catalog"))?;
        let tables = Tables {
            catalog,
            names: HashMap::new(),
            sites: Vec::new(),
            settings: Vec::new(),
            probes: Vec::new(),
            rows: RowKinds::new(),
            chunks: Vec::new(),
        };
        let tool = crate::process::program_name();
        let reader = SpaceReader { path, identity, tables: Mutex::new(tables), tool };
        drop(reader.refreshed()?);
        Ok(reader)
    }

    /// The space's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that made the space; the data are read again at each call, because the frequency of the
    /// clock becomes more exact while the process runs. On the machine of the process, the reader itself
    /// reads the clock for the second anchor.
    ///
    /// # Errors
    /// Fails when the header cannot be read any more.
    pub fn info(&self) -> Result<Info, Error> {
        let mut info = read_info(&self.identity, &self.path.join(IDENTITY))?;
        if info.is_alive_here() {
            info.clock = info.clock.refined_here();
        }
        let name_now = NameRef(self.header_word(identity::NAME_NOW)?);
        if name_now.0 != 0
            && let Some(name) = self.name(name_now)
        {
            info.name = name.to_string();
        }
        Ok(info)
    }

    /// Whether the process still runs on this machine (same pid, same start, same boot).
    pub fn is_alive(&self) -> bool {
        read_info(&self.identity, &self.path.join(IDENTITY)).is_ok_and(|info| info.is_alive())
    }

    /// Whether the process has recorded that it ended its use of the space.
    ///
    /// # Errors
    /// Fails when the identity is truncated.
    pub fn is_finished(&self) -> Result<bool, Error> {
        Ok(self.header_word(identity::STATE)? == 2)
    }

    /// Whether the space was removed, as a run removes its space at its end.
    pub fn is_gone(&self) -> bool {
        matches!(self.path.join(IDENTITY).try_exists(), Ok(false))
    }

    /// All settings with their values now.
    ///
    /// # Errors
    /// Fails when the files are damaged.
    pub fn settings(&self) -> Result<Vec<SettingView>, Error> {
        let mut views = self.refreshed()?.settings.clone();
        let path = self.path.join("settings");
        let file = cell::open(&path, false)?;
        let places: Vec<usize> =
            views.iter().map(|view| cell_index(&path, view)).collect::<Result<_, _>>()?;
        let copies = Copies::of(&file, &path, places.iter().max().map_or(0, |last| last + 1))?;
        for (view, &index) in views.iter_mut().zip(&places) {
            let cell = match copies.cell(index) {
                Some(cell) => cell,
                None => {
                    let words = InFile::new(&file, &path, index)?;
                    let cell = Cell::read(&words);
                    words.result(cell)?
                }
            };
            view.take(cell);
        }
        Ok(views)
    }

    /// Sets the name of the tool under which the changes of this reader are recorded. The default is the
    /// program's name.
    #[must_use]
    pub fn called(mut self, tool: &str) -> SpaceReader {
        self.tool = tool.to_string();
        self
    }

    /// The keys of the [shared map](crate::shared_map) with their values in this process's copy.
    ///
    /// # Errors
    /// Fails when the file is damaged, or cannot be read.
    pub fn shared_map(&self) -> Result<Vec<MapView>, Error> {
        crate::shared_map::read_slots(&self.path.join("map"))
    }

    /// Changes the setting `name`, which the observed process adopts at its next safe point; or, named as in
    /// `probe/PATTERN.on`, switches probes.
    ///
    /// # Errors
    /// Fails when there is no such setting, or `value` is out of its range.
    pub fn set(&self, name: &str, value: u64) -> Result<(), Error> {
        if let Some(pattern) = crate::probe::pattern_in(name) {
            check_range(name, value, 0, 1)?;
            return match self.is_copy()? {
                true => crate::copies::ask_to_set(&self.path, name, value),
                false => self.switch(pattern, value == 1),
            };
        }
        let (path, view) = self.known_setting(name)?;
        check_range(name, value, view.min, view.max)?;
        if self.is_copy()? {
            return crate::copies::ask_to_set(&self.path, name, value);
        }
        cell::change(&path, cell_index(&path, &view)?, |_| Ok(Write::permanent(value, &self.tool))).map(drop)
    }

    /// Changes the setting `name` under a lease with the terms `terms`; the module [`lease`] explains leases.
    ///
    /// # Errors
    /// Fails as [`SpaceReader::set`] does, and when the process does not end leases or the setting cannot be
    /// reverted.
    pub fn lease(&self, name: &str, value: u64, terms: Terms) -> Result<Lease, Error> {
        if crate::probe::pattern_in(name).is_some() {
            return Err(Error::new("probes have no leases: switch them back by a second command"));
        }
        let (path, view) = self.known_setting(name)?;
        if self.is_copy()? {
            return Err(Error::new(format!(
                "{} is the copy of a space of another machine, whose settings have no leases",
                self.path.display()
            )));
        }
        if view.undo == Some(Undo::Nothing) {
            return Err(Error::new(format!("`{name}` has no leases: the process publishes a figure there")));
        }
        if !cell::keeps_leases(&cell::open(&path, false)?, &path)? {
            return Err(Error::new(format!(
                "the process of {} takes no leases: it does not restore values when leases end",
                self.path.display()
            )));
        }
        let lease = Lease {
            index: cell_index(&path, &view)?,
            path,
            name: view.name,
            min: view.min,
            max: view.max,
            tool: self.tool.clone(),
            terms,
            value,
            version: 0,
        };
        lease.take()
    }

    /// Whether the directory holds a copy of a space of another machine.
    fn is_copy(&self) -> Result<bool, Error> {
        Ok(self.header_word(identity::CLOCK_ERROR)? != 0)
    }

    /// The file of settings, and the setting of this name in it.
    fn known_setting(&self, name: &str) -> Result<(PathBuf, SettingView), Error> {
        let tables = self.refreshed()?;
        let Some(view) = tables.settings.iter().find(|s| s.name == name) else {
            let names: Vec<_> = tables.settings.iter().map(|s| s.name.as_str()).collect();
            return Err(Error::new(format!("there is no setting `{name}`; there are: {}", names.join(", "))));
        };
        Ok((self.path.join("settings"), view.clone()))
    }

    /// Switches the probes whose names match `pattern` ([`Glob`]: `*` matches any characters except `/`, `**`
    /// any characters, `?` one character) on or off: existing probes are switched at once, and later ones
    /// when they are made. The process records the switch at its next safe point. Setting `probe/PATTERN.on`
    /// has the same effect.
    ///
    /// # Errors
    /// Fails when the process has no probes, or its files cannot be written.
    pub fn switch(&self, pattern: &str, on: bool) -> Result<(), Error> {
        crate::probe::switch(&self.path, pattern, on)
    }

    /// The probes of the process, each with its state.
    ///
    /// # Errors
    /// Fails when the files are damaged.
    pub fn probes(&self) -> Result<Vec<ProbeView>, Error> {
        let mut probes = self.refreshed()?.probes.clone();
        for switch in crate::probe::switches(&self.path)? {
            let pattern = Glob::new(&switch.pattern);
            for probe in probes.iter_mut().filter(|probe| pattern.matches(&probe.name)) {
                probe.on = switch.on;
            }
        }
        Ok(probes)
    }

    /// The rows of the live table that have an owner now.
    ///
    /// # Errors
    /// Fails when a file is damaged.
    pub fn live_rows(&self) -> Result<Vec<LiveView>, Error> {
        let chunks = self.header_word(identity::LIVE_CHUNKS)?.min(LIVE_CHUNKS_MAX);
        let mut views = Vec::new();
        // A kind is described before its first row is made, so the tables have the kinds of all rows that
        // exist now.
        let mut tables = self.refreshed()?;
        for chunk in tables.chunks.len() as u64..chunks {
            tables.chunks.push(Chunk::open(self.path.join(format!("live.{chunk}")))?);
        }
        for chunk in &tables.chunks {
            chunk.read(&tables.rows, &mut views)?;
        }
        Ok(views)
    }

    /// The text of a name; `None` for 0, and for a name that the catalog does not have.
    pub fn name(&self, name: NameRef) -> Option<Arc<str>> {
        if name == NameRef::NONE {
            return None;
        }
        if let Some(text) = self.tables().names.get(&name.0) {
            return Some(text.clone());
        }
        self.refreshed().ok()?.names.get(&name.0).cloned()
    }

    /// All names so far.
    ///
    /// # Errors
    /// Fails when the catalog is damaged.
    pub fn names(&self) -> Result<Vec<(NameRef, Arc<str>)>, Error> {
        let tables = self.refreshed()?;
        let mut names: Vec<_> = tables.names.iter().map(|(id, text)| (NameRef(*id), text.clone())).collect();
        names.sort_unstable_by_key(|(id, _)| *id);
        Ok(names)
    }

    /// All sites so far, in the order of their declaration.
    ///
    /// # Errors
    /// Fails when the catalog is damaged.
    pub fn sites(&self) -> Result<Vec<SiteInfo>, Error> {
        Ok(self.refreshed()?.sites.clone())
    }

    /// All writers so far.
    ///
    /// # Errors
    /// Fails when an element is damaged.
    pub fn writers(&self) -> Result<Vec<WriterInfo>, Error> {
        let mut writers = Vec::new();
        let mut problem = None;
        for place in Numbers::default().new_ones(&self.path, &mut problem)? {
            if let Some(mut element) = ElementReader::open(&place)? {
                let (mut info, name) = element.info()?;
                info.name = self.name(name).map_or_else(String::new, |name| name.to_string());
                writers.push(info);
            }
        }
        problem.map_or(Ok(writers), Err)
    }

    /// A reader of the latest event of each element (heartbeats).
    pub fn latest(&self) -> LatestEvents {
        LatestEvents::new(self.path.clone())
    }

    /// The events of all writers, beginning with the oldest that was not overwritten.
    pub fn events(&self) -> EventStream {
        EventStream::new(self.path.clone())
    }

    fn header_word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0; 8];
        file::read_exact_at(&self.identity, &self.path.join(IDENTITY), &mut word, at as u64)?;
        Ok(u64::from_le_bytes(word))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refreshed(&self) -> Result<MutexGuard<'_, Tables>, Error> {
        let mut guard = self.tables();
        let Tables { catalog, names, sites, settings, probes, rows, .. } = &mut *guard;
        catalog.read_new(&mut |record| match record {
            Record::Name { id, text } => {
                names.insert(id, text.into());
            }
            Record::Site { id, parent, line, column, name, kind, file } => {
                sites.push(SiteInfo {
                    id: SiteRef(id),
                    parent: SiteRef(parent),
                    name,
                    kind,
                    file,
                    line,
                    column,
                });
            }
            Record::Setting(s) => settings.push(SettingView {
                name: s.name,
                doc: s.doc,
                unit: s.unit,
                min: s.min,
                max: s.max,
                default: s.default,
                value: s.default,
                choices: s.choices,
                affects: Affects::from_name(&s.affects),
                adoption: Adoption::from_name(&s.adoption),
                undo: Undo::from_name(&s.undo),
                setter: None,
                lease: None,
                index: s.index,
            }),
            Record::Probe { name, on } => probes.push(ProbeView { name, on }),
            Record::Row { code, name, doc, cells } => {
                rows.insert(code, Arc::new(RowInfo { name, doc, cells }));
            }
            _ => {}
        })?;
        Ok(guard)
    }
}

fn cell_index(path: &Path, view: &SettingView) -> Result<usize, Error> {
    usize::try_from(view.index).ok().filter(|index| *index < settings::CELL_COUNT).ok_or_else(|| {
        Error::new(format!(
            "the catalog beside {} is damaged: setting `{}` has cell {}",
            path.display(),
            view.name,
            view.index
        ))
    })
}

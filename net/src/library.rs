//! Libraries of boxes, loaded into the process. This module contains the `unsafe` code for loading.
//!
//! Only files that the user named are loaded, by their full path; the system's search path is never used. A
//! library stays loaded for the rest of the process, unless it was loaded to be
//! [replaced](Loading::Replaceable): then it is unloaded when no box of the library can be called any more
//! and all values that only the library can free are freed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_box::abi::event::{EventHost, EventSpec};
use thalweg_box::abi::map_key::MapKeySpec;
use thalweg_box::abi::owner::Owner;
use thalweg_box::abi::parameter::ParameterSpec;
use thalweg_box::{BoxEntry, LibraryTable, abi};
use thalweg_space::kind::{FieldSpec, FieldType, Schema};
use thalweg_space::{Affects, Setting, SettingSpec, Space};

use crate::error::Error;
use crate::events_of_boxes::Kind;
use crate::map_of_boxes::BoundKey;

/// How a library is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// The file itself is loaded, for the rest of the process.
    Stays,
    /// A copy of the file is loaded and its name removed at once, so that the file may be rebuilt and loaded
    /// again while the process runs ([`Boxes::reload`](crate::Boxes::reload)).
    Replaceable,
}

/// A loaded library.
#[derive(Debug)]
pub(crate) struct Library {
    /// The image; `None` once it was moved to the list of libraries that wait to be unloaded.
    image: Option<Image>,
}

/// The image of a library in memory.
#[derive(Debug)]
struct Image {
    path: PathBuf,
    /// The library's table, valid as long as its code is loaded.
    table: &'static LibraryTable,
    /// Whether the library's `init` has run; if so, its `finish` must run before the library is unloaded.
    started: Mutex<bool>,
    /// The settings and kinds to which the library's parameters and events are bound, which must live as long
    /// as the library can be called.
    bound: Mutex<Bound>,
    /// The count of the values that refer to the library, if the library may be unloaded.
    owner: Option<Box<Owner>>,
    replaced: AtomicBool,
    /// The loaded code. This is the last field, so that all other fields are dropped before the code.
    _code: libloading::Library,
}

#[derive(Debug, Default)]
struct Bound {
    /// The space in which the library's events and parameters are at present.
    space: Option<PathBuf>,
    settings: Vec<Setting>,
    #[allow(clippy::vec_box, reason = "libraries have pointers to them, so they must not move")]
    kinds: Vec<Box<BoundKind>>,
    #[allow(clippy::vec_box, reason = "libraries have pointers to them, so they must not move")]
    keys: Vec<Box<BoundKey>>,
}

/// A kind of event of a library, bound to a space. The host's function is the first field, because the
/// library gets a pointer to this field, from which the whole value is found.
#[repr(C)]
#[derive(Debug)]
struct BoundKind {
    host: EventHost,
    kind: Kind,
}

/// One box of a loaded library.
#[derive(Clone, Debug)]
pub(crate) struct LibraryBox {
    library: Arc<Library>,
    index: usize,
}

impl std::ops::Deref for LibraryBox {
    type Target = BoxEntry;
    #[inline]
    fn deref(&self) -> &BoxEntry {
        &self.library.table().boxes()[self.index]
    }
}

impl LibraryBox {
    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }
}

impl Library {
    /// Loads the library at `path`.
    pub(crate) fn load(path: &Path, loading: Loading) -> Result<Arc<Library>, Error> {
        let image = Image::load(path, loading).map_err(|reason| {
            Error::new(format!("cannot load the box library {}", path.display())).because(reason)
        })?;
        Ok(Arc::new(Library { image: Some(image) }))
    }

    /// The boxes of the library.
    pub(crate) fn boxes(self: &Arc<Self>) -> impl Iterator<Item = LibraryBox> {
        (0..self.table().boxes().len()).map(|index| LibraryBox { library: self.clone(), index })
    }

    /// The library's parameters.
    pub(crate) fn parameters(&self) -> Result<Vec<ParameterSpec>, Error> {
        self.table().parameters().map(|parameter| parameter.spec().map_err(|why| self.wrong(why))).collect()
    }

    /// The kinds of events that the library's boxes write.
    pub(crate) fn events(&self) -> Result<Vec<EventSpec>, Error> {
        self.table().events().map(|kind| kind.spec().map_err(|why| self.wrong(why))).collect()
    }

    /// The library's keys of the shared map.
    pub(crate) fn map_keys(&self) -> Result<Vec<MapKeySpec>, Error> {
        self.table().map_keys().map(|key| key.spec().map_err(|why| self.wrong(why))).collect()
    }

    /// The full path of the file from which the library was loaded.
    pub(crate) fn path(&self) -> &Path {
        &self.image().path
    }

    /// Prepares the library for calls: binds its parameters and kinds of events to `space`, and runs its
    /// `init` once.
    pub(crate) fn start(&self, space: Option<&Space>) -> Result<(), Error> {
        if let Some(space) = space {
            self.bind(space)?;
        }
        let mut started = locked(&self.image().started);
        if !*started {
            self.table().init().map_err(|why| self.wrong(Error::new("its init failed").because(why)))?;
            *started = true;
        }
        Ok(())
    }

    /// Marks the library as replaced by another image of the same file: it is unloaded when nothing refers to
    /// it any more.
    pub(crate) fn replace(&self) {
        self.image().replaced.store(true, Ordering::Relaxed);
    }

    fn bind(&self, space: &Space) -> Result<(), Error> {
        let failed = |error: thalweg_space::Error| self.wrong(error);
        let mut bound = locked(&self.image().bound);
        if bound.space.as_deref() == Some(space.path()) {
            return Ok(());
        }
        bound.space = Some(space.path().to_owned());
        for (parameter, spec) in self.table().parameters().zip(self.parameters()?) {
            let setting = space.setting(SettingSpec {
                name: &format!("box.{}", spec.name),
                doc: &spec.doc,
                unit: &spec.unit,
                min: *spec.range.start(),
                max: *spec.range.end(),
                default: spec.value,
                affects: Affects::Box,
                ..SettingSpec::PLAIN
            });
            let setting = setting.map_err(failed)?;
            // SAFETY: `bound` keeps the setting, and so its cell, as long as the library can be called.
            unsafe { parameter.bind(setting.cell()) };
            bound.settings.push(setting);
        }
        for (event, spec) in self.table().events().zip(self.events()?) {
            let kind = Kind::new(space, schema(&spec));
            let kind = Box::new(BoundKind { host: EventHost { write }, kind });
            // SAFETY: `bound` keeps the box, which does not move, as long as the library can be called; the schema has
            // the kind's fields.
            unsafe { event.bind(&kind.host) };
            bound.kinds.push(kind);
        }
        let specs = self.map_keys()?;
        if specs.is_empty() {
            return Ok(());
        }
        let map = space.shared_map().map_err(failed)?;
        for (key, spec) in self.table().map_keys().zip(specs) {
            let bound_key = Box::new(BoundKey::declare(&map, spec).map_err(failed)?);
            // SAFETY: `bound` keeps the box, which does not move, and in it the map with the cell, as long as the
            // library can be called; the key was declared with the type of its initial value.
            unsafe { key.bind(bound_key.cell(), bound_key.host()) };
            bound.keys.push(bound_key);
        }
        Ok(())
    }

    fn wrong(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::new(format!("the box library {}", self.path().display())).because(why)
    }

    fn table(&self) -> &LibraryTable {
        self.image().table
    }

    fn image(&self) -> &Image {
        self.image.as_ref().expect("it is there until the library is dropped")
    }
}

unsafe extern "C" fn write(host: *const EventHost, words: *const u64) {
    // SAFETY: a host that `Library::bind` made is the first field of a `BoundKind`, and the library gives a word for each
    // field of its kind.
    let (bound, words) = unsafe {
        let bound = &*host.cast::<BoundKind>();
        (bound, std::slice::from_raw_parts(words, bound.kind.field_count()))
    };
    bound.kind.write(words);
}

/// The schema of a kind. Catalogs require static texts, so each text is leaked. The texts of a kind are
/// leaked only once, even if its library is loaded many times.
fn schema(spec: &EventSpec) -> Schema {
    static SCHEMAS: Mutex<Option<HashMap<String, Schema>>> = Mutex::new(None);
    let mut schemas = locked(&SCHEMAS);
    let known = schemas.get_or_insert_default();
    *known.entry(format!("{spec:?}")).or_insert_with(|| {
        let kept = |text: &str| &*String::leak(text.to_owned());
        let fields = spec.fields.iter().map(|(name, unit, is_float)| FieldSpec {
            name: kept(name),
            field_type: if *is_float { FieldType::F64 } else { FieldType::I64 },
            unit: kept(unit),
            doc: "",
            choices: &[],
            absent: None,
        });
        Schema {
            name: kept(&format!("box.{}", spec.name)),
            doc: kept(&spec.doc),
            fields: Vec::leak(fields.collect()),
        }
    })
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Some(image) = self.image.take() {
            locked(&UNUSED).push(image);
        }
        unload_unused();
    }
}

/// Why a file cannot be loaded as a library: the system's error, or a fault of the file.
type Reason = Box<dyn std::error::Error + Send + Sync>;

/// Libraries that cannot be called any more, but of which values may still exist.
static UNUSED: Mutex<Vec<Image>> = Mutex::new(Vec::new());

/// Runs the `finish` of libraries that cannot be called any more, and unloads replaced libraries of which no
/// value is left. Returns the number of libraries that cannot be unloaded yet.
pub fn unload_unused() -> usize {
    let mut unused = locked(&UNUSED);
    let going = unused.extract_if(.., |image| image.is_free()).collect::<Vec<Image>>();
    let waiting = unused.len();
    drop(unused);
    going.into_iter().for_each(Image::end);
    waiting
}

impl Image {
    fn load(path: &Path, loading: Loading) -> Result<Image, Reason> {
        let path = path.canonicalize()?;
        let mut file = shared_library(&path)?;
        let code = match loading {
            Loading::Stays => open(&path)?,
            Loading::Replaceable => open_copy(&mut file, &path)?,
        };
        // SAFETY: a library that defines the symbol of box libraries defines it as a function of this type.
        let table = unsafe {
            let symbol = code.get::<unsafe extern "C" fn() -> *const LibraryTable>(abi::SYMBOL.as_bytes());
            let function = symbol.map_err(|_| {
                format!(
                    "it exports no `{}`, so it is no box library (see `thalweg_box::library!`)",
                    abi::SYMBOL
                )
            })?;
            function()
        };
        // SAFETY: the function of the library returned the table, and the library's code, which contains the
        // table, stays loaded as long as the image exists.
        let table: &'static LibraryTable = unsafe { LibraryTable::check(table) }?;
        let owner = (loading == Loading::Replaceable).then(Owner::new);
        if let Some(owner) = &owner {
            // SAFETY: the image keeps its owner until the library is unloaded, and the library is unloaded
            // only when the count is 0.
            unsafe { table.count_for(owner) };
        }
        Ok(Image {
            path,
            table,
            started: Mutex::new(false),
            bound: Mutex::default(),
            owner,
            replaced: AtomicBool::new(false),
            _code: code,
        })
    }

    /// Whether nothing refers to the image any more, given that no [`Library`] holds it.
    fn is_free(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.count() == 0)
    }

    fn end(self) {
        if std::mem::take(&mut *locked(&self.started)) {
            self.table.finish();
        }
        if self.owner.is_none() || !self.replaced.load(Ordering::Relaxed) {
            std::mem::forget(self); // The image stays loaded, with all memory that it refers to.
        }
    }
}

/// Opens the file at `path` if its first bytes are those of a shared library.
fn shared_library(path: &Path) -> Result<File, Reason> {
    if path.is_dir() {
        return Err("it is a directory; name the library's file in it".into());
    }
    // Reading a pipe or a device could block or never end.
    if !path.is_file() {
        return Err("it is no regular file".into());
    }
    let mut file = File::open(path)?;
    let mut first = [0; 4];
    match file.read_exact(&mut first) {
        Ok(()) if first == *b"\x7fELF" => Ok(file),
        _ => Err("it is no shared library: it does not begin as an ELF file does".into()),
    }
}

fn open(path: &Path) -> Result<libloading::Library, Reason> {
    // SAFETY: loading runs the library's initialisers, and nothing can make that safe: it is native code that the user
    // chose to run by naming its file.
    unsafe { libloading::Library::new(path) }.map_err(|error| one_line(&error).into())
}

/// Loads a copy of `file`, which is at `path`, and removes the copy's name. The copy is made beside the
/// library, so that libraries it needs by `$ORIGIN` are found; if that folder is not writable, the copy is
/// made among the temporary files.
fn open_copy(file: &mut File, path: &Path) -> Result<libloading::Library, Reason> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let of = |name: &str| format!("thalweg-{}-{number}-{name}", std::process::id());
    let beside = match Copy::of(file, path.with_file_name(format!(".{}", of(&name)))) {
        Ok(copy) => return copy.open(),
        Err(why) => why,
    };
    // Only the beginning of the name is used: it is enough to identify the copy, and the copy beside the
    // library may have failed because its name was too long.
    let start: String = name.chars().take(NAME_CHARS).collect();
    let copy = Copy::of(file, std::env::temp_dir().join(of(&start)))?;
    let folder = path.parent().unwrap_or(path).display();
    copy.open().map_err(|why| {
        let what = "it was loaded from a copy among the temporary files, where nothing is found that it wants by `$ORIGIN`, \
                    because there can be none beside it";
        Error::new(format!("{why} ({what}: {beside:#}; let {folder} take files)")).into()
    })
}

/// The number of characters of a library's name in the name of its temporary copy.
const NAME_CHARS: usize = 60;

/// A copy of a library's file, removed when it is dropped.
struct Copy(PathBuf);

impl Copy {
    fn of(file: &mut File, path: PathBuf) -> Result<Copy, Error> {
        let failed = |error: std::io::Error| {
            Error::new(format!("cannot copy it to {}", path.display())).because(error)
        };
        let mut to = File::options().write(true).create_new(true).mode(0o700).open(&path).map_err(failed)?;
        let copy = Copy(path.clone());
        file.rewind().and_then(|()| std::io::copy(file, &mut to)).map_err(failed)?;
        Ok(copy)
    }

    fn open(self) -> Result<libloading::Library, Reason> {
        open(&self.0)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // An error is ignored: if another process has removed the file meanwhile, it need not be removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn one_line(error: &libloading::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text.replace('\n', " ")
}

/// Locks a mutex of this module, also after a panic of another holder: all changes under these locks are
/// either done completely or not begun, so the data are valid.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

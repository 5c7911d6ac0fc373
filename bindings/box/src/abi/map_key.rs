//! Keys of the shared map: values that the boxes of all processes of a session share.

use super::fault::LibraryFault;
use super::parameter::text;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The most bytes of a text in the shared map.
pub const MAP_TEXT_BYTES_MAX: usize = 64;

/// A key of the session's shared map, with values of the type `T`: `i64`, `f64` or `String`. Boxes of all
/// libraries, on all nodes of a run, that name the key share its value. `thalweg get` shows it as `map.NAME`,
/// `thalweg set` writes it.
///
/// ```
/// use thalweg_box::MapKey;
/// static LIMIT: MapKey<i64> = MapKey::integer(c"limit", c"The most lines of a page", 60);
/// static MODE: MapKey<String> = MapKey::text(c"mode", c"How pages are set", c"plain");
/// assert_eq!((LIMIT.get(), MODE.get().as_str()), (60, "plain"));
/// LIMIT.set(80)?;
/// assert_eq!(LIMIT.compare_and_set(60, 90)?, Err(80)); // it is 60 no more
/// assert_eq!(LIMIT.update(|lines| lines + 1)?, 81);
/// # Ok::<(), String>(())
/// ```
#[repr(transparent)]
pub struct MapKey<T> {
    raw: RawMapKey,
    of: PhantomData<fn() -> T>,
}

/// A key of the shared map in the form in which it crosses the boundary of a library.
#[repr(C)]
pub struct RawMapKey {
    name: *const c_char,
    doc: *const c_char,
    /// 1: integer; 2: float; 3: text.
    kind: u64,
    /// The value of an integer at the start, and while no network runs.
    integer: AtomicU64,
    /// The bits of a float at the start, and while no network runs.
    float: AtomicU64,
    /// A text at the start.
    text: *const c_char,
    /// The word of the value while a network runs: set by the program only, release; read with acquire.
    cell: AtomicPtr<AtomicU64>,
    /// The program's functions while a network runs: set by the program only, release; read with acquire.
    host: AtomicPtr<MapHost>,
}

const _: () = assert!(size_of::<RawMapKey>() == 64);

// SAFETY: the texts are `'static`, and the other fields are atomic or never change.
unsafe impl Send for RawMapKey {}
// SAFETY: the texts are `'static`, and the other fields are atomic or never change.
unsafe impl Sync for RawMapKey {}

/// A value of the shared map: the bits of a number, or the length and the bytes of a text.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MapWord {
    /// The bits of a number, or the length of a text.
    pub word: u64,
    /// The bytes of a text.
    pub text: *const u8,
}

/// Receives the reason why a value was not written.
pub type MapFail = unsafe extern "C" fn(to: *mut c_void, reason: *const u8, length: u64);

/// The functions that the program binds to a key. The program may keep data of its own in memory after this
/// struct.
#[repr(C)]
#[derive(Debug)]
pub struct MapHost {
    /// Writes a value; 0: done, 2: refused.
    pub set: unsafe extern "C" fn(
        host: *const MapHost,
        value: *const MapWord,
        fail: MapFail,
        to: *mut c_void,
    ) -> u32,
    /// Writes a value if the present one is the expected one; 0: done, 1: it is another one, 2: refused.
    pub compare_and_set: unsafe extern "C" fn(
        host: *const MapHost,
        expected: *const MapWord,
        value: *const MapWord,
        fail: MapFail,
        to: *mut c_void,
    ) -> u32,
    /// Copies the present text to at most [`MAP_TEXT_BYTES_MAX`] bytes, and returns its length.
    pub read_text: unsafe extern "C" fn(host: *const MapHost, into: *mut u8) -> u64,
}

/// The library's description of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct MapKeySpec {
    /// The key.
    pub name: String,
    /// What the key is for.
    pub doc: String,
    /// The value at the start.
    pub initial: MapInitial,
}

/// The value of a key at the start.
#[derive(Clone, Debug, PartialEq)]
pub enum MapInitial {
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A text.
    Text(String),
}

/// A type of values of the shared map: `i64`, `f64` and `String`.
pub trait MapTyped: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn word(&self) -> MapWord;
    #[doc(hidden)]
    fn read(key: &RawMapKey) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for i64 {}
    impl Sealed for f64 {}
    impl Sealed for String {}
}

impl MapTyped for i64 {
    fn word(&self) -> MapWord {
        MapWord { word: *self as u64, text: std::ptr::null() }
    }

    #[inline]
    fn read(key: &RawMapKey) -> i64 {
        key.place().load(Ordering::Relaxed) as i64
    }
}

impl MapTyped for f64 {
    fn word(&self) -> MapWord {
        MapWord { word: self.to_bits(), text: std::ptr::null() }
    }

    #[inline]
    fn read(key: &RawMapKey) -> f64 {
        f64::from_bits(key.place().load(Ordering::Relaxed))
    }
}

impl MapTyped for String {
    fn word(&self) -> MapWord {
        MapWord { word: self.len() as u64, text: self.as_ptr() }
    }

    fn read(key: &RawMapKey) -> String {
        let host = key.host.load(Ordering::Acquire);
        if host.is_null() {
            return text(key.text);
        }
        let mut bytes = [0; MAP_TEXT_BYTES_MAX];
        // SAFETY: the program that bound the host keeps it alive, and writes at most as many bytes.
        let length = unsafe { ((*host).read_text)(host, bytes.as_mut_ptr()) } as usize;
        String::from_utf8_lossy(&bytes[..length.min(MAP_TEXT_BYTES_MAX)]).into_owned()
    }
}

impl<T> MapKey<T> {
    const fn new(
        (name, doc): (&'static CStr, &'static CStr),
        (kind, integer, float): (u64, u64, u64),
        text: *const c_char,
    ) -> MapKey<T> {
        let raw = RawMapKey {
            name: name.as_ptr(),
            doc: doc.as_ptr(),
            kind,
            integer: AtomicU64::new(integer),
            float: AtomicU64::new(float),
            text,
            cell: AtomicPtr::new(std::ptr::null_mut()),
            host: AtomicPtr::new(std::ptr::null_mut()),
        };
        MapKey { raw, of: PhantomData }
    }

    /// The key without its type, for [`library!`](crate::library).
    #[doc(hidden)]
    pub const fn raw(&self) -> &RawMapKey {
        &self.raw
    }
}

impl MapKey<i64> {
    /// A key with integers.
    pub const fn integer(name: &'static CStr, doc: &'static CStr, initial: i64) -> MapKey<i64> {
        MapKey::new((name, doc), (1, initial as u64, 0), std::ptr::null())
    }
}

impl MapKey<f64> {
    /// A key with floats.
    pub const fn float(name: &'static CStr, doc: &'static CStr, initial: f64) -> MapKey<f64> {
        MapKey::new((name, doc), (2, 0, initial.to_bits()), std::ptr::null())
    }
}

impl MapKey<String> {
    /// A key with texts of at most [`MAP_TEXT_BYTES_MAX`] bytes.
    pub const fn text(name: &'static CStr, doc: &'static CStr, initial: &'static CStr) -> MapKey<String> {
        MapKey::new((name, doc), (3, 0, 0), initial.as_ptr())
    }
}

impl<T: MapTyped> MapKey<T> {
    /// The present value in this process. A number costs one load.
    #[inline]
    pub fn get(&self) -> T {
        T::read(&self.raw)
    }

    /// Writes a value in this process; the other processes of the session get it within about 50 ms. Of
    /// several writes the last one wins. A box may call this for each record.
    ///
    /// # Errors
    /// The text is too long, or no network runs (texts only).
    pub fn set(&self, value: T) -> Result<(), String> {
        self.raw.set(value.word()).map(drop)
    }

    /// Writes a value if the present one is `expected`. One process of the session decides, so of all writes
    /// that expect the same value one is done. An error in `Ok` is the present value. On another node than
    /// the one that decides, this waits for it, up to about 30 ms: a box that does it often should be
    /// `blocking`, so that it stops no worker.
    ///
    /// # Errors
    /// The text is too long, no network runs (texts only), or the session has not begun.
    pub fn compare_and_set(&self, expected: T, value: T) -> Result<Result<(), T>, String> {
        let is_done = self.raw.compare_and_set(expected.word(), value.word())?;
        Ok(if is_done { Ok(()) } else { Err(self.get()) })
    }

    /// Changes the value by `change`, which is called again with another value as long as others write in
    /// between. Returns the value written.
    ///
    /// # Errors
    /// The errors of [`MapKey::compare_and_set`].
    pub fn update(&self, mut change: impl FnMut(T) -> T) -> Result<T, String>
    where
        T: Clone,
    {
        let mut now = self.get();
        loop {
            let next = change(now.clone());
            match self.compare_and_set(now, next.clone())? {
                Ok(()) => return Ok(next),
                Err(other) => now = other,
            }
        }
    }
}

impl RawMapKey {
    #[inline]
    fn place(&self) -> &AtomicU64 {
        // Acquire, paired with the release in `bind`.
        let cell = self.cell.load(Ordering::Acquire);
        // SAFETY: the program that bound the cell keeps it alive as long as the library is used.
        unsafe { cell.as_ref() }.unwrap_or_else(|| self.own_place())
    }

    /// The place of the value while no network runs.
    #[cold]
    fn own_place(&self) -> &AtomicU64 {
        match self.kind {
            2 => &self.float,
            _ => &self.integer,
        }
    }

    fn set(&self, value: MapWord) -> Result<bool, String> {
        let host = self.host.load(Ordering::Acquire);
        if host.is_null() {
            self.check_alone()?;
            self.place().store(value.word, Ordering::Relaxed);
            return Ok(true);
        }
        // SAFETY: the program that bound the host keeps it alive; the text lives during the call.
        reasoned(|to| unsafe { ((*host).set)(host, &value, note, to) })
    }

    fn compare_and_set(&self, expected: MapWord, value: MapWord) -> Result<bool, String> {
        let host = self.host.load(Ordering::Acquire);
        if host.is_null() {
            self.check_alone()?;
            let place = self.place();
            let relaxed = Ordering::Relaxed;
            return Ok(place.compare_exchange(expected.word, value.word, relaxed, relaxed).is_ok());
        }
        // SAFETY: as in `set`.
        reasoned(|to| unsafe { ((*host).compare_and_set)(host, &expected, &value, note, to) })
    }

    /// Without a network, only numbers can be written.
    fn check_alone(&self) -> Result<(), String> {
        match self.kind {
            3 => Err(format!("no network runs, so the text `{}` cannot be written", text(self.name))),
            _ => Ok(()),
        }
    }

    /// The description of the key.
    ///
    /// # Errors
    /// A library in C may declare an invalid key: the reason why it is invalid.
    pub fn spec(&self) -> Result<MapKeySpec, LibraryFault> {
        let name = text(self.name);
        let initial = match self.kind {
            1 => MapInitial::Integer(self.integer.load(Ordering::Relaxed) as i64),
            2 => MapInitial::Float(f64::from_bits(self.float.load(Ordering::Relaxed))),
            3 => MapInitial::Text(text(self.text)),
            other => return Err(format!("the map key `{name}` has a type {other}, which is none").into()),
        };
        Ok(MapKeySpec { name, doc: text(self.doc), initial })
    }

    /// Makes `cell` the place of the value and `host` the receiver of writes from now on.
    ///
    /// # Safety
    /// Both live as long as the key is used. The cell is the word of the value if the key has numbers. The
    /// host's functions take values of the key's type.
    pub unsafe fn bind(&self, cell: &AtomicU64, host: &MapHost) {
        self.cell.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
        self.host.store(std::ptr::from_ref(host).cast_mut(), Ordering::Release);
    }
}

/// Whether the value was written; the reason why the program refuses it.
fn reasoned(call: impl FnOnce(*mut c_void) -> u32) -> Result<bool, String> {
    let mut reason = String::new();
    match call((&raw mut reason).cast()) {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(reason),
    }
}

/// Keeps the reason in the `String` to which `to` points.
unsafe extern "C" fn note(to: *mut c_void, reason: *const u8, length: u64) {
    // SAFETY: `reasoned` passes a pointer to its `String`, and the program gives `length` readable bytes.
    unsafe {
        let reason = std::slice::from_raw_parts(reason, length as usize);
        *to.cast::<String>() = String::from_utf8_lossy(reason).into_owned();
    }
}

impl std::fmt::Debug for RawMapKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawMapKey({})", text(self.name))
    }
}

impl<T> std::fmt::Debug for MapKey<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MapKey({})", text(self.raw.name))
    }
}

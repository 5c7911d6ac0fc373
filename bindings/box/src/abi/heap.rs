//! Values on the heap: one counted header, so that copying a record, and passing it to another library,
//! copies no bytes.
//!
//! A header is freed through its own table of functions: by the library (and allocator) that made it.
//!
//! ```text
//! Bytes, Text, Array, Opaque = one pointer ─► Header { references, table, data, length, capacity, form }
//! ```

use super::kept;
use super::owner::{OWNER, OwnerCell, count_gone_from, count_made};
use crate::value::Value;
use std::any::TypeId;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header of a value on the heap.
#[repr(C)]
pub struct Header {
    /// The number of owners, and beside it the marks of a call that [keeps](super::kept) the value. Written
    /// by every owner: +1 relaxed when cloned, −1 with release when dropped; the last one reads with acquire
    /// before it frees.
    pub(super) references: AtomicU64,
    table: *const HeapTable,
    /// Bytes, texts and arrays: the first byte. Opaque values: a pointer to the value.
    pub(super) data: *mut u8,
    /// Bytes, texts and arrays: the number of bytes. Opaque values: 0.
    pub(super) length: u64,
    /// Used only by the library that made the value.
    pub(super) capacity: u64,
    /// Arrays: the code of their elements' type, and bit 8 if it is a single number. Texts: [`JSON`] if the
    /// text is the JSON of a value. Others: 0.
    pub(super) form: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        offset_of!(Header, references) == 0
            && offset_of!(Header, table) == 8
            && offset_of!(Header, data) == 16
    );
    assert!(offset_of!(Header, length) == 24 && offset_of!(Header, form) == 40 && size_of::<Header>() == 48);
};

/// The functions of the maker of a value.
#[repr(C)]
pub struct HeapTable {
    pub(super) free: unsafe extern "C" fn(*mut Header),
    /// The kind of an opaque value; null for all others.
    pub(super) kind: *const OpaqueKind,
    /// The cell in which the library that made the value keeps its owner.
    pub(super) owner: *const OwnerCell,
}

// SAFETY: tables are immutable, so are the kinds they point to, and cells are atomic.
unsafe impl Sync for HeapTable {}

/// A library's description of its opaque values of one kind.
#[repr(C)]
pub struct OpaqueKind {
    /// UTF-8, ended by a zero.
    name: *const c_char,
    /// Writes the value as text, for files and messages; absent if it has none.
    text: Option<unsafe extern "C" fn(value: *const c_void, write: WriteText, to: *mut c_void)>,
    /// Frees the value; for the library that made it.
    free: Option<unsafe extern "C" fn(value: *mut c_void)>,
    /// Makes a copy, or returns null; for boxes that change a shared value.
    copy: Option<unsafe extern "C" fn(value: *const c_void) -> *mut c_void>,
    /// The bytes of memory of the value and of all that it refers to: for messages, and for the sizes of
    /// records in reports. Called on any thread while no thread changes the value. 0 if the size is not
    /// known.
    size: Option<unsafe extern "C" fn(value: *const c_void) -> u64>,
    /// If not zero, other builds of the library read values of a kind with this name and number.
    layout: u64,
}

const _: () = assert!(size_of::<OpaqueKind>() == 48 && size_of::<HeapTable>() == 24);

/// Receives `length` bytes of a text; `to` is passed on unchanged.
type WriteText = unsafe extern "C" fn(to: *mut c_void, text: *const u8, length: u64);

// SAFETY: names and functions live as long as the library, and no code changes them.
unsafe impl Sync for OpaqueKind {}

/// A text's form: the text is the JSON of a value, such as `{"a": true}`, and not a plain text.
const JSON: u64 = 0x200;

static BYTES_TABLE: HeapTable =
    HeapTable { free: free_bytes, kind: std::ptr::null(), owner: &raw const OWNER };

unsafe extern "C" fn free_bytes(header: *mut Header) {
    // SAFETY: called once, by the last owner, for a header made by `Block::from_vec` of this library.
    unsafe {
        let header = Box::from_raw(header);
        drop(Vec::from_raw_parts(header.data, header.length as usize, header.capacity as usize));
    }
}

/// A counted pointer to a header. The four public types of values on the heap wrap a `Block`.
#[repr(transparent)]
pub(super) struct Block(pub(super) NonNull<Header>);

// SAFETY: the data that a header points to are Send + Sync (bytes, or a `T: Send + Sync`), and the count is
// atomic.
unsafe impl Send for Block {}
// SAFETY: the count is atomic, the data are Sync, and a shared block gives out shared references only.
unsafe impl Sync for Block {}

impl Block {
    fn from_vec(bytes: Vec<u8>, form: u64) -> Block {
        let mut bytes = ManuallyDrop::new(bytes);
        Block::new(&BYTES_TABLE, bytes.as_mut_ptr(), bytes.len() as u64, bytes.capacity() as u64, form)
    }

    pub(super) fn new(
        table: *const HeapTable,
        data: *mut u8,
        length: u64,
        capacity: u64,
        form: u64,
    ) -> Block {
        count_made();
        let header = Header { references: AtomicU64::new(1), table, data, length, capacity, form };
        Block(NonNull::from(Box::leak(Box::new(header))))
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: this block is one of the counted owners, so the header has not been freed.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let header = self.header();
        if header.length == 0 {
            return &[]; // A library in C may have no memory for a value without bytes.
        }
        // SAFETY: the maker of the value puts `length` bytes at `data`, which no owner changes while the value is shared.
        unsafe { std::slice::from_raw_parts(header.data, header.length as usize) }
    }

    /// The bytes, for changes; the caller is the only owner.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.may_change());
        let header = self.header();
        if header.length == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and the only owner is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(header.data, header.length as usize) }
    }

    /// Whether this is the only owner, which may change the value; no other thread can then become an owner.
    pub(super) fn may_change(&self) -> bool {
        kept::may_change(&self.header().references)
    }

    /// The owner whose reference was already counted for the holder of `header`.
    pub(super) fn counted(header: NonNull<Header>) -> Block {
        Block(header)
    }

    /// The vector, if this is the only owner and this library made it. The header is left without bytes.
    fn try_into_vec(self) -> Result<Vec<u8>, Block> {
        if !std::ptr::eq(self.header().table, &BYTES_TABLE) || !self.may_change() {
            return Err(self);
        }
        let header = self.0.as_ptr();
        let empty = NonNull::dangling().as_ptr();
        // SAFETY: this is the only owner, and `from_vec` of this library made the header: its fields are the
        // parts of a vector, and the parts of an empty vector replace them.
        unsafe {
            let data = std::mem::replace(&mut (*header).data, empty);
            let (length, capacity) = ((*header).length as usize, (*header).capacity as usize);
            ((*header).length, (*header).capacity) = (0, 0);
            Ok(Vec::from_raw_parts(data, length, capacity))
        }
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before > u64::MAX / 2 {
            std::process::abort(); // A count that wraps would free a value in use.
        }
        Block(self.0)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.header().references.fetch_sub(1, Ordering::Release) == 1 {
            std::sync::atomic::fence(Ordering::Acquire);
            // SAFETY: the count shows that this was the last owner, and that no call keeps the value.
            unsafe { free(self.0) };
        }
    }
}

macro_rules! on_heap {
    ($($type:ident: $kind:literal),*) => {
        $(impl kept::OnHeap for $type {
            const KIND: u64 = $kind;

            #[inline(always)]
            fn head(&self) -> *const Header {
                self.0.0.as_ptr()
            }

            #[inline(always)]
            fn take(slot: &mut Value) -> Option<$type> {
                take_block(slot, $kind).map($type)
            }
        })*
    };
}

pub(super) use on_heap;

on_heap!(Text: 3, Bytes: 4, Opaque: 5);

/// Takes the value out of a slot that has one of this kind, word by word, so that it is not copied through
/// other memory.
#[inline(always)]
pub(super) fn take_block(slot: &mut Value, kind: u64) -> Option<Block> {
    let words: *mut [u64; 2] = std::ptr::from_mut(slot).cast();
    // SAFETY: a value is two words without padding: its kind and, if that is on the heap, the pointer to its
    // header, which is not null. Kind 1 with any payload is a valid integer.
    unsafe {
        if (*words)[0] != kind {
            return None;
        }
        let head = NonNull::new_unchecked((*words)[1] as *mut Header);
        *words = [1, 0];
        Some(Block(head))
    }
}

/// Frees a value.
///
/// # Safety
/// The value has no owner any more, and no call keeps it.
pub(super) unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the table belongs to the library that made the header, which stays loaded until the value is
    // counted off; the library's owner is read from the table before the value is freed.
    unsafe {
        let table = &*header.as_ref().table;
        let owner = table.owner.as_ref().map_or(std::ptr::null_mut(), |cell| cell.load(Ordering::Relaxed));
        (table.free)(header.as_ptr());
        count_gone_from(owner);
    }
}

/// Bytes, shared by count: cloning copies no byte.
///
/// ```
/// use thalweg_box::Bytes;
/// let mut bytes = Bytes::from_vec(vec![1, 2, 3]);
/// bytes.make_mut()[0] = 9; // in place: nobody else has it
/// assert_eq!(bytes.as_slice(), [9, 2, 3]);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Bytes(Block);

impl Bytes {
    /// Bytes that use the vector's memory; no byte is copied.
    pub fn from_vec(bytes: Vec<u8>) -> Bytes {
        Bytes(Block::from_vec(bytes, 0))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The bytes, for changes: in place if this is the only owner, else of a copy that becomes this value.
    pub fn make_mut(&mut self) -> &mut [u8] {
        if !self.0.may_change() {
            *self = Bytes::from_vec(self.as_slice().to_vec());
        }
        self.0.bytes_mut()
    }

    /// The vector, without a copy if this is the only owner and this library made the value.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.try_into_vec().unwrap_or_else(|block| block.bytes().to_vec())
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} B)", self.len())
    }
}

/// A UTF-8 text, shared by count like [`Bytes`].
#[derive(Clone)]
#[repr(transparent)]
pub struct Text(Block);

impl Text {
    /// A text that uses the string's memory; no byte is copied.
    pub fn from_string(text: String) -> Text {
        Text(Block::from_vec(text.into_bytes(), 0))
    }

    /// The JSON of a value that records carry unchanged: `{"a": [true, null]}`, `1e400`. A box that reads it
    /// as a text gets this JSON; files contain the value itself. The caller must ensure that `text` is one
    /// JSON value, on one line.
    pub fn from_json(text: String) -> Text {
        Text(Block::from_vec(text.into_bytes(), JSON))
    }

    /// Whether the text is the JSON of a value, and not a plain text.
    #[inline]
    pub fn is_json(&self) -> bool {
        self.0.header().form == JSON
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // SAFETY: made by `from_string` of some library and changed by `make_mut` only, which keep it UTF-8.
        unsafe { std::str::from_utf8_unchecked(self.0.bytes()) }
    }

    /// The text, for changes that keep its length: in place if this is the only owner, else of a copy. The
    /// value becomes a plain text, even if it was JSON before.
    pub fn make_mut(&mut self) -> &mut str {
        if !self.0.may_change() || self.is_json() {
            *self = Text::from_string(self.as_str().to_owned());
        }
        // SAFETY: a text is UTF-8, as in `as_str`, and `&mut str` keeps it so.
        unsafe { std::str::from_utf8_unchecked_mut(self.0.bytes_mut()) }
    }

    /// The string, without a copy if this is the only owner and this library made the value.
    pub fn into_string(self) -> String {
        let bytes = self.0.try_into_vec().unwrap_or_else(|block| block.bytes().to_vec());
        // SAFETY: the bytes of a text are UTF-8, as in `as_str`.
        unsafe { String::from_utf8_unchecked(bytes) }
    }
}

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.is_json() == other.is_json() && self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A value of any Rust type, for boxes of one library: the network passes it on and cannot read it.
///
/// ```
/// use thalweg_box::Opaque;
/// let opaque = Opaque::new(vec![1.5, 2.5]);
/// assert_eq!(opaque.get::<Vec<f64>>(), Some(&vec![1.5, 2.5]));
/// assert_eq!(opaque.get::<String>(), None);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Opaque(Block);

/// The data of an opaque header of this library. The first two fields are the same for every `T`.
#[repr(C)]
struct OpaqueCell<T> {
    type_id: TypeId,
    /// A function for the size of the value in a cell; it returns 0 if the size is not known.
    size_in: unsafe fn(*const c_void) -> u64,
    size: fn(&T) -> u64,
    value: T,
}

impl<T> OpaqueCell<T> {
    /// # Safety
    /// `cell` points to a live cell of a `T`.
    unsafe fn size_in(cell: *const c_void) -> u64 {
        // SAFETY: guaranteed by the caller.
        let cell = unsafe { &*cell.cast::<OpaqueCell<T>>() };
        (cell.size)(&cell.value)
    }
}

/// The size of a value whose type has no size function: known for plain data, which refers to no other
/// memory.
fn size_if_plain<T>(_: &T) -> u64 {
    if std::mem::needs_drop::<T>() { 0 } else { size_of::<T>() as u64 }
}

unsafe extern "C" fn size_of_cell(cell: *const c_void) -> u64 {
    // A panic must not unwind into the program.
    let size = std::panic::catch_unwind(|| {
        // SAFETY: called for the data of an opaque value of this library, which is alive: a cell with the
        // function for its size.
        unsafe { ((*cell.cast::<OpaqueCell<()>>()).size_in)(cell) }
    });
    size.unwrap_or(0)
}

/// The kind of this library's opaque values. The address of this kind distinguishes libraries, because type
/// ids are meaningful within one library only.
static HOME: OpaqueKind = OpaqueKind {
    name: c"Rust value".as_ptr(),
    text: None,
    free: None,
    copy: None,
    size: Some(size_of_cell),
    layout: 0,
};

struct OpaqueTableOf<T>(std::marker::PhantomData<T>);

impl<T: Send + Sync + 'static> OpaqueTableOf<T> {
    const TABLE: &'static HeapTable =
        &HeapTable { free: free_opaque::<T>, kind: &raw const HOME, owner: &raw const OWNER };
}

unsafe extern "C" fn append(to: *mut c_void, text: *const u8, length: u64) {
    if length == 0 {
        return;
    }
    // SAFETY: `Opaque::text` gave its vector; the library gives `length` readable bytes.
    unsafe { (*to.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(text, length as usize)) }
}

unsafe extern "C" fn free_opaque<T>(header: *mut Header) {
    // A destructor that panics must not unwind into the library or program that drops the value.
    let freed = std::panic::catch_unwind(|| {
        // SAFETY: called once, by the last owner, for a header made by `Opaque::new::<T>` of this library.
        unsafe {
            let header = Box::from_raw(header);
            drop(Box::from_raw(header.data.cast::<OpaqueCell<T>>()));
        }
    });
    drop(freed);
}

/// Marks the capacity of an opaque header, so that bytes and opaque values cannot be confused in a dump.
const OPAQUE_CAPACITY: u64 = u64::MAX;

impl Opaque {
    /// Puts `value` on the heap. `thalweg streams` knows its size only if it is plain data; for a value that
    /// refers to more memory, [`Opaque::sized`] declares the size.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Opaque {
        Opaque::sized(value, size_if_plain)
    }

    /// Puts `value` on the heap, with a function for the bytes of the value and of all that it refers to,
    /// which returns 0 if that is not known. The program calls the function for some of the records that have
    /// the value, on any thread, when the run samples the sizes of records.
    ///
    /// ```
    /// use thalweg_box::Opaque;
    /// let opaque = Opaque::sized(vec![1.5, 2.5], |numbers| 8 * numbers.len() as u64);
    /// assert_eq!(opaque.size(), Some(16));
    /// assert_eq!(Opaque::new(vec![1.5, 2.5]).size(), None);
    /// assert_eq!(Opaque::new([1.5, 2.5]).size(), Some(16));
    /// ```
    pub fn sized<T: Send + Sync + 'static>(value: T, size: fn(&T) -> u64) -> Opaque {
        let cell = Box::new(OpaqueCell {
            type_id: TypeId::of::<T>(),
            size_in: OpaqueCell::<T>::size_in,
            size,
            value,
        });
        let data = Box::into_raw(cell).cast();
        Opaque(Block::new(OpaqueTableOf::<T>::TABLE, data, 0, OPAQUE_CAPACITY, 0))
    }

    /// The value as text, if its library offers that.
    pub fn text(&self) -> Option<String> {
        let kind = self.kind();
        let text = kind.text?;
        let mut bytes: Vec<u8> = Vec::new();
        // SAFETY: the function belongs to values of this kind, this owner keeps the value alive, and `write` is called
        // with the vector during this call only.
        unsafe { text(self.0.header().data.cast(), append, (&raw mut bytes).cast()) }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The name of the value's kind.
    pub fn kind_name(&self) -> String {
        // SAFETY: a kind's name is a text that ends with a zero, as long as the library is loaded.
        unsafe { CStr::from_ptr(self.kind().name) }.to_string_lossy().into_owned()
    }

    /// The number of bytes of its memory, if its library reports them.
    pub fn size(&self) -> Option<u64> {
        // SAFETY: the function belongs to values of this kind, and this owner keeps the value alive.
        self.kind().size.map(|size| unsafe { size(self.0.header().data.cast()) }).filter(|&size| size > 0)
    }

    fn kind(&self) -> &OpaqueKind {
        // SAFETY: every opaque value's table has a kind, which lives as long as its library, which the value keeps.
        unsafe { &*(*self.0.header().table).kind }
    }

    /// The value, if it is a `T` that this library made.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        // SAFETY: `cell` answers only for a cell of a `T`; this owner keeps it alive and shared.
        self.cell::<T>().map(|cell| unsafe { &(*cell).value })
    }

    /// The value for changes, if it is a `T` that this library made and this is its only owner.
    pub fn get_mut<T: Send + Sync + 'static>(&mut self) -> Option<&mut T> {
        if !self.0.may_change() {
            return None;
        }
        // SAFETY: as in `get`, and the only owner is borrowed mutably.
        self.cell::<T>().map(|cell| unsafe { &mut (*cell).value })
    }

    /// The value for changes: in place if this is its only owner, else of a copy that becomes this value.
    /// `None` if it is no `T` that this library made.
    pub fn make_mut<T: Clone + Send + Sync + 'static>(&mut self) -> Option<&mut T> {
        if !self.0.may_change() {
            // SAFETY: as in `get`.
            let (value, size) = self.cell::<T>().map(|cell| unsafe { (&(*cell).value, (*cell).size) })?;
            *self = Opaque::sized(value.clone(), size);
        }
        self.get_mut()
    }

    fn cell<T: 'static>(&self) -> Option<*mut OpaqueCell<T>> {
        let header = self.0.header();
        if !std::ptr::eq(self.kind(), &raw const HOME) {
            return None;
        }
        // SAFETY: this library made it, so its data is an `OpaqueCell` whose first field is a type id.
        let type_id = unsafe { *header.data.cast::<TypeId>() };
        (type_id == TypeId::of::<T>()).then(|| header.data.cast())
    }
}

impl PartialEq for Opaque {
    /// Whether both are the same value in memory.
    fn eq(&self, other: &Opaque) -> bool {
        self.0.0 == other.0.0
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind_name())?;
        self.size().map_or(Ok(()), |size| write!(f, " ({size} B)"))
    }
}

//! Keys of the shared map, bound to the keys that box libraries declare. This module has `unsafe`: libraries
//! call its functions with pointers.

use std::ffi::c_void;
use std::sync::atomic::AtomicU64;

use thalweg_box::MAP_TEXT_BYTES_MAX;
use thalweg_box::abi::map_key::{MapFail, MapHost, MapInitial, MapKeySpec, MapWord};
use thalweg_space::shared_map::Author;
use thalweg_space::{Error, MapKey, MapType, MapValue, SharedMap};

const _: () = assert!(MAP_TEXT_BYTES_MAX == MapValue::TEXT_BYTES_MAX);

/// A key of a library, bound to the shared map. The host's functions are the first field, because the library
/// gets a pointer to this field, from which the whole value is found.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BoundKey {
    host: MapHost,
    key: MapKey,
    author: Author,
}

impl BoundKey {
    /// Declares a library's key.
    pub(crate) fn declare(map: &SharedMap, spec: MapKeySpec) -> Result<BoundKey, Error> {
        let initial = match spec.initial {
            MapInitial::Integer(number) => MapValue::Integer(number),
            MapInitial::Float(number) => MapValue::Float(number),
            MapInitial::Text(text) => MapValue::Text(text),
        };
        let key = map.declare(&spec.name, &spec.doc, initial)?;
        Ok(BoundKey { host: MapHost { set, compare_and_set, read_text }, key, author: Author::of_box() })
    }

    pub(crate) fn cell(&self) -> &AtomicU64 {
        self.key.cell()
    }

    pub(crate) fn host(&self) -> &MapHost {
        &self.host
    }

    /// The value that a library gives.
    ///
    /// # Safety
    /// The text of a value of a key with texts has as many bytes as its word says.
    unsafe fn value(&self, given: *const MapWord) -> Result<MapValue, Error> {
        // SAFETY: guaranteed by the caller.
        let MapWord { word, text } = unsafe { *given };
        if self.key.type_of() != MapType::Text {
            return Ok(MapValue::of_parts(self.key.type_of(), word, ""));
        }
        let bytes = match word {
            0 => &[],
            // SAFETY: guaranteed by the caller.
            length => unsafe { std::slice::from_raw_parts(text, length as usize) },
        };
        Ok(MapValue::Text(String::from_utf8_lossy(bytes).into_owned()))
    }
}

/// The bound key of which `host` is the first field.
///
/// # Safety
/// `Library::bind` made the host.
unsafe fn bound<'a>(host: *const MapHost) -> &'a BoundKey {
    // SAFETY: guaranteed by the caller.
    unsafe { &*host.cast::<BoundKey>() }
}

/// The status of a call; the reason of an error goes to `fail`.
///
/// # Safety
/// `fail` takes `to` and a text.
unsafe fn answered(result: Result<bool, Error>, fail: MapFail, to: *mut c_void) -> u32 {
    match result {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            let reason = format!("{error:#}");
            // SAFETY: guaranteed by the caller.
            unsafe { fail(to, reason.as_ptr(), reason.len() as u64) };
            2
        }
    }
}

unsafe extern "C" fn set(host: *const MapHost, value: *const MapWord, fail: MapFail, to: *mut c_void) -> u32 {
    // SAFETY: a library calls this with the host that was bound to its key, and with a value of the key's type.
    unsafe {
        let bound = bound(host);
        let done = bound.value(value).and_then(|value| bound.key.set(value, &bound.author));
        answered(done.map(|_| true), fail, to)
    }
}

unsafe extern "C" fn compare_and_set(
    host: *const MapHost,
    expected: *const MapWord,
    value: *const MapWord,
    fail: MapFail,
    to: *mut c_void,
) -> u32 {
    // SAFETY: as in `set`.
    unsafe {
        let bound = bound(host);
        let decide = || {
            let (expected, value) = (bound.value(expected)?, bound.value(value)?);
            bound.key.compare_and_set(&expected, value, &bound.author)
        };
        answered(decide().map(|decided| decided.is_ok()), fail, to)
    }
}

unsafe extern "C" fn read_text(host: *const MapHost, into: *mut u8) -> u64 {
    // SAFETY: as in `set`; the library gives room for the longest text.
    unsafe {
        let text = bound(host).key.get().to_string();
        std::ptr::copy_nonoverlapping(text.as_ptr(), into, text.len().min(MAP_TEXT_BYTES_MAX));
        text.len().min(MAP_TEXT_BYTES_MAX) as u64
    }
}

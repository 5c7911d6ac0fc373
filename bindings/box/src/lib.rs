//! The interface for boxes: their arguments, their output, and how a library of boxes is exported.
//!
//! A box is a function of the values that it reads from a record, and of an [`Out`] into which it emits
//! records. A box keeps no state between calls, may run on any thread, and may fail: by returning an `Err`
//! (with a reason) or by panicking; the record then goes to the network's error stream.
//!
//! ```
//! use thalweg_box::{Bytes, Out};
//!
//! fn inc(x: i64, out: &mut Out) {
//!     out.emit((x + 1,));
//! }
//!
//! fn cut(text: String, out: &mut Out) -> Result<(), String> {
//!     let (head, tail) = text.split_once(' ').ok_or("no space in the text")?;
//!     out.emit((head, tail));
//!     Ok(())
//! }
//!
//! /// Changes the bytes in place if no other record shares them.
//! fn invert(mut data: Bytes, out: &mut Out) {
//!     data.make_mut().iter_mut().for_each(|byte| *byte = !*byte);
//!     out.emit((data,));
//! }
//!
//! /// Endless output is an iterator: polled as the network has room.
//! fn count(from: i64, out: &mut Out) {
//!     out.generate((from..).map(|n| (n,)));
//! }
//!
//! thalweg_box::library! {
//!     "box inc ((x) -> (x))" => inc,
//!     "box cut ((text) -> (head, tail))" => cut,
//!     "box invert ((data) -> (data))" => invert,
//!     "box count ((from) -> (<n>))" => count,
//! }
//! # fn main() {}
//! ```
//!
//! A library may share [parameters](Parameter) with the programs that observe the network, write
//! [events](EventKind) of its own, share [values](MapKey) with the boxes of all nodes of a run, and run a function before the first and after the last call of a box:
//!
//! ```
//! use thalweg_box::{EventField, EventKind, MapKey, Out, Parameter};
//!
//! static LOUDEST: MapKey<i64> = MapKey::integer(c"loudest", c"The loudest sample of all nodes", 0);
//! static GAIN: Parameter = Parameter::new(c"gain", c"percent", c"How loud it is", 0..=400, 100);
//! static CLIPPED: EventKind =
//!     EventKind::new(c"clipped", c"A sample was too loud", &[EventField::integer(c"sample", c"")]);
//!
//! fn open() -> Result<(), String> {
//!     Ok(())
//! }
//!
//! fn close() {}
//!
//! fn scale(sample: i64, out: &mut Out) -> Result<(), String> {
//!     let scaled = sample * GAIN.get() as i64 / 100;
//!     if scaled.abs() > 32767 {
//!         CLIPPED.write([scaled.into()]);
//!     }
//!     if scaled > LOUDEST.get() {
//!         LOUDEST.update(|loudest| loudest.max(scaled))?;
//!     }
//!     out.emit((scaled.clamp(-32768, 32767),));
//!     Ok(())
//! }
//!
//! thalweg_box::library! {
//!     init open;
//!     finish close;
//!     parameters GAIN;
//!     events CLIPPED;
//!     map LOUDEST;
//!     "box scale ((sample) -> (sample))" => scale,
//! }
//! # fn main() {}
//! ```
//!
//! A crate of `crate-type = ["cdylib"]` with such code is a complete library of boxes: `thalweg run NET.snet
//! --boxes ./libNAME.so`. Arguments come in the order of the signature; tags and binding tags are `i64`.

pub mod abi;
mod value;

pub use abi::LibraryTable;
pub use abi::array::{Array, Element, ElementType};
pub use abi::entry::{
    BoxEntry, BoxFunction, Desk, Emission, Emitted, Generator, Host, Out, Place, Rows, Status, Variant,
};
pub use abi::event::{EventField, EventKind, Word};
pub use abi::heap::{Bytes, Opaque, Text};
pub use abi::map_key::{MAP_TEXT_BYTES_MAX, MapKey, MapTyped, RawMapKey};
pub use abi::parameter::Parameter;
pub use value::{Argument, Mismatch, Tuple, Value};

/// Exports the boxes of a library: signature => function, for each. Once per crate.
///
/// A function that waits (files, sockets, time) is marked `blocking`: `"box load ((name) -> (data))" =>
/// blocking load,`. The boxes may be preceded by these lines, each at most once and in this order: `init
/// FUNCTION;` (may fail by an `Err`), `finish FUNCTION;`, `parameters STATIC, …;`, `events STATIC, …;`,
/// `map STATIC, …;`.
#[macro_export]
macro_rules! library {
    (
        $(init $init:path;)?
        $(finish $finish:path;)?
        $(parameters $($parameter:path),+ $(,)?;)?
        $(events $($event:path),+ $(,)?;)?
        $(map $($key:path),+ $(,)?;)?
        $($signature:literal => $($function:ident)+),* $(,)?
    ) => {
        /// The boxes of this library, for its own tests and for programs that link it.
        #[allow(unreachable_pub)]
        pub fn thalweg_box_entries() -> ::std::vec::Vec<$crate::BoxEntry> {
            ::std::vec![$($crate::box_entry!($signature, $($function)+)),*]
        }

        /// The table of this library's boxes.
        #[unsafe(no_mangle)]
        #[allow(unreachable_pub)]
        pub extern "C" fn thalweg_boxes() -> *const $crate::LibraryTable {
            static TABLE: ::std::sync::OnceLock<&'static $crate::LibraryTable> = ::std::sync::OnceLock::new();
            *TABLE.get_or_init(|| {
                $crate::abi::LibraryParts::new(thalweg_box_entries())
                    $(.init($crate::library_init!($init)))?
                    $(.finish($crate::library_finish!($finish)))?
                    $(.parameters({
                        static PARAMETERS: &[&$crate::Parameter] = &[$(&$parameter),+];
                        PARAMETERS
                    }))?
                    $(.events({
                        static EVENTS: &[&$crate::EventKind] = &[$(&$event),+];
                        EVENTS
                    }))?
                    $(.map_keys({
                        static KEYS: &[&$crate::RawMapKey] = &[$($crate::MapKey::raw(&$key)),+];
                        KEYS
                    }))?
                    .leak()
            })
        }
    };
}

/// Exports a function that may fail as the `init` of [`library!`].
#[doc(hidden)]
#[macro_export]
macro_rules! library_init {
    ($function:path) => {{
        unsafe extern "C" fn init(out: *mut $crate::Out) -> $crate::Status {
            // SAFETY: the program calls this with the output of a call.
            unsafe { $crate::abi::run_init(out, $function) }
        }
        init
    }};
}

/// Exports a function as the `finish` of [`library!`].
#[doc(hidden)]
#[macro_export]
macro_rules! library_finish {
    ($function:path) => {{
        unsafe extern "C" fn finish() {
            $crate::abi::run_finish($function)
        }
        finish
    }};
}

/// One entry of [`library!`].
#[doc(hidden)]
#[macro_export]
macro_rules! box_entry {
    ($signature:literal, blocking $function:ident) => {
        $crate::BoxEntry::new($signature, $function).blocking()
    };
    ($signature:literal, $function:ident) => {
        $crate::BoxEntry::new($signature, $function)
    };
}

#[cfg(test)]
mod tests;

//! What a box sees of Thalweg: its arguments, its output, and how a library of boxes is exported.
//!
//! A box is a function of the values it takes off a record, and of an [`Out`] into which it emits records.
//! It keeps no state between calls, may run on any thread, and may fail: by returning an `Err` (with a
//! reason) or by panicking; the record then goes to the network's error stream.
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
//! In a crate of `crate-type = ["cdylib"]` this is all: `thalweg run NET.snet --boxes libNAME.so`.
//! Arguments come in the order of the signature; tags and binding tags are `i64`.

pub mod abi;
mod value;

pub use abi::LibraryTable;
pub use abi::array::{Array, Element, ElementType};
pub use abi::entry::{
    BoxEntry, BoxFunction, CallsInPlace, Desk, Emission, Emitted, Generator, Host, Out, Place, Status,
    Variant,
};
pub use abi::heap::{Bytes, Opaque, Text};
pub use value::{Argument, Mismatch, Tuple, Value};

/// Exports the boxes of a library: signature => function, for each. Once per crate.
///
/// A function that waits (files, sockets, time) is marked `blocking`:
/// `"box load ((name) -> (data))" => blocking load,`.
#[macro_export]
macro_rules! library {
    ($($signature:literal => $($function:ident)+),* $(,)?) => {
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
            *TABLE.get_or_init(|| $crate::LibraryTable::leak(thalweg_box_entries()))
        }
    };
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

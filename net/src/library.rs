//! Libraries of boxes, loaded into the process. The unsafe room for that.
//!
//! Only files that the user named are loaded, by their full path: the system's search path is never asked. A
//! library is never unloaded, because values and generators lead into it.

use std::path::Path;

use thalweg_box::{BoxEntry, LibraryTable, abi};

use crate::error::Error;

/// The boxes of the library at `path`.
pub(crate) fn load(path: &Path) -> Result<&'static [BoxEntry], Error> {
    load_file(path)
        .map_err(|reason| Error::new(format!("cannot load the box library {}: {reason}", path.display())))
}

fn load_file(path: &Path) -> Result<&'static [BoxEntry], String> {
    let file = path.canonicalize().map_err(|error| error.to_string())?;
    if file.is_dir() {
        return Err("it is a directory; name the library's file in it".to_owned());
    }
    // SAFETY: loading runs the library's initialisers, and nothing can make that safe: it is native code that the
    // user chose to run by naming its file.
    let library = unsafe { libloading::Library::new(&file) }.map_err(|error| one_line(&error))?;
    // SAFETY: the symbol's name is that of box libraries, where it has this type.
    let table = unsafe {
        let symbol = library.get::<unsafe extern "C" fn() -> *const LibraryTable>(abi::SYMBOL.as_bytes());
        let function = symbol.map_err(|_| {
            format!("it exports no `{}`, so it is no box library (see `thalweg_box::library!`)", abi::SYMBOL)
        })?;
        function()
    };
    std::mem::forget(library);
    // SAFETY: the table came from that symbol, and the library stays.
    unsafe { LibraryTable::check(table) }
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

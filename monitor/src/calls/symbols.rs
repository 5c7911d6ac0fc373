//! Finds the name of an address: the file that was mapped there, and the function in the file's symbols.

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::HashMap;

/// Files larger than this are not read for their symbols.
const FILE_BYTES_MAX: u64 = 2 << 30;

/// A part of a file that is mapped into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    begin: u64,
    end: u64,
    offset: u64,
    file: String,
}

/// The files mapped in a process, and their symbols.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Mappings; later ones replace earlier ones.
    mappings: Vec<Mapping>,
    files: HashMap<String, Functions>,
}

/// The functions of a file, and where the file's segments are loaded.
#[derive(Debug, Default)]
struct Functions {
    /// The segments: offset in the file, size in memory, and virtual address.
    segments: Vec<(u64, u64, u64)>,
    /// Address, size and name, by address.
    functions: Vec<(u64, u64, String)>,
}

impl Symbols {
    /// Records a mapping of a file: `text` has the range of addresses and the offset in the file, as
    /// `BEGIN-END OFFSET` in hexadecimal.
    pub(super) fn map(&mut self, text: &str, file: &str) {
        let Some(mapping) = parsed(text, file) else { return };
        if !self.mappings.contains(&mapping) {
            self.mappings.push(mapping);
        }
    }

    /// Whether a mapping is known at that address.
    pub(super) fn has(&self, address: u64) -> bool {
        self.mappings.iter().any(|mapping| (mapping.begin..mapping.end).contains(&address))
    }

    /// The function at an address, and its file.
    pub(super) fn name(&mut self, address: u64) -> Option<(String, String)> {
        let mapping =
            self.mappings.iter().rev().find(|mapping| (mapping.begin..mapping.end).contains(&address))?;
        let offset = address - mapping.begin + mapping.offset;
        let file = mapping.file.clone();
        let functions =
            self.files.entry(file.clone()).or_insert_with(|| Functions::read(&file).unwrap_or_default());
        let short = file.rsplit('/').next().unwrap_or(&file);
        let name = functions.at(offset).unwrap_or_else(|| format!("{short}+{offset:#x}"));
        Some((name, file))
    }
}

fn parsed(text: &str, file: &str) -> Option<Mapping> {
    let (range, offset) = text.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { begin: number(begin)?, end: number(end)?, offset: number(offset)?, file: file.to_owned() })
}

impl Functions {
    fn read(path: &str) -> Option<Functions> {
        let about = std::fs::metadata(path).ok()?;
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file
            .segments()
            .map(|segment| (segment.file_range().0, segment.size(), segment.address()))
            .collect();
        let mut functions: Vec<(u64, u64, String)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
            .collect();
        functions.sort();
        functions.dedup_by_key(|(address, ..)| *address);
        Some(Functions { segments, functions })
    }

    fn at(&self, offset: u64) -> Option<String> {
        let (begin, _, address) = self
            .segments
            .iter()
            .find(|(begin, size, _)| (*begin..begin.saturating_add(*size)).contains(&offset))?;
        let address = offset - begin + address;
        let after = self.functions.partition_point(|(at, ..)| *at <= address);
        let (at, size, name) = &self.functions[after.checked_sub(1)?];
        (address < at + (*size).max(1)).then(|| demangled(name))
    }
}

/// The demangled name of a symbol, without parameters.
fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let cpp = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle(&options).ok());
    cpp.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_mappings() {
        let mapping = Mapping { begin: 0x1000, end: 0x2000, offset: 0x10, file: "a".into() };
        assert_eq!(parsed("1000-2000 10", "a"), Some(mapping));
        for bad in ["", "1000-2000", "1000 10", "x-2000 10"] {
            assert_eq!(parsed(bad, "a"), None, "{bad}");
        }
    }

    #[test]
    fn names_as_programs_have_them() {
        assert_eq!(demangled("_ZN4shop4Cart3addEi"), "shop::Cart::add");
        assert_eq!(demangled("_ZN3std2io5stdin17h0123456789abcdefE"), "std::io::stdin");
        assert_eq!(demangled("main"), "main");
    }
}

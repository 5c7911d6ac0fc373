//! The files that the target has mapped, and the functions and variables that their symbols name.

use crate::error::Error;
use crate::process::{Mapping, PAGE, Process};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use thalweg_glob::Glob;

/// Sections larger than this are not read.
const SECTION_BYTES_MAX: u64 = 1 << 30;
const SYMBOL_BYTES: usize = 24;
/// The number of symbols before an address that are searched for a function that contains the address.
const NEIGHBOURS: usize = 32;

/// A program or library in the target's memory.
#[derive(Debug)]
pub struct Module {
    /// The path of the module's file, as the target names it.
    pub path: String,
    /// The difference between addresses in the target and in the file.
    pub(crate) bias: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Whether the module is a shared library, whose exported functions other modules call by the ABI.
    pub(crate) is_library: bool,
    pub(crate) is_go: bool,
    /// Whether the module was unloaded.
    is_gone: bool,
    contents: Arc<Contents>,
}

/// What is read of a module's file. All modules that are mapped from the same file share it.
#[derive(Debug)]
struct Contents {
    elf: Elf,
    /// Sorted by address.
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

/// A state of a file: device, inode, size, and the seconds and nanoseconds of its last modification and of its
/// last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State([i64; 7]);

/// The contents of the files that modules of this process's attachments are mapped from: several targets mostly
/// have the same libraries.
static READ: Mutex<Vec<(State, Weak<Contents>)>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, Debug)]
struct Symbol {
    name: u32,
    kind: Kind,
    is_exported: bool,
    address: u64,
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    /// An indirect function: the loader chooses its implementation when the program starts.
    Chosen,
    Variable,
}

/// A function or variable of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name of the function or variable, as in its symbol.
    pub name: String,
    /// The name of the file that contains the function or variable, without folders.
    pub module: String,
    /// The address in the target.
    pub address: u64,
    /// The size in bytes.
    pub size: u64,
    /// Whether the loader chooses one of several implementations when the program starts.
    pub is_chosen_at_start: bool,
    /// Whether other modules may call it.
    pub(crate) is_exported: bool,
    pub(crate) module_index: usize,
}

impl Function {
    /// The demangled name.
    pub fn readable(&self) -> String {
        readable(&self.name)
    }
}

/// The demangled names of functions, computed on all processors, because a hundred thousand C++ names take long.
pub fn readable_names(functions: &[Function]) -> Vec<String> {
    const FEW: usize = 2000;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let part = functions.len().div_ceil(processors).max(FEW);
    std::thread::scope(|scope| {
        let parts = functions
            .chunks(part)
            .map(|part| scope.spawn(move || part.iter().map(Function::readable).collect::<Vec<String>>()));
        let parts: Vec<_> = parts.collect();
        let named = |(part, names): (&[Function], std::thread::ScopedJoinHandle<'_, Vec<String>>)| {
            names.join().unwrap_or_else(|_| part.iter().map(|function| function.name.clone()).collect())
        };
        functions.chunks(part).zip(parts).flat_map(named).collect()
    })
}

/// All modules of the target.
#[derive(Debug)]
pub struct Modules {
    modules: Vec<Module>,
    /// The target's code mappings at the last update.
    seen: Vec<(u64, String)>,
}

impl Modules {
    pub(crate) fn of(process: &Process, maps: &[Mapping]) -> Modules {
        let mut modules = Modules { modules: Vec::new(), seen: Vec::new() };
        modules.look(process, maps);
        modules
    }

    /// Updates the list of loaded modules. Returns whether modules were loaded. The numbers of modules do not
    /// change.
    pub(crate) fn look(&mut self, process: &Process, maps: &[Mapping]) -> bool {
        let is_code = |mapping: &&Mapping| {
            mapping.is_executable && mapping.path.starts_with('/') && !mapping.path.starts_with("/memfd:")
        };
        let now: Vec<(u64, String)> =
            maps.iter().filter(is_code).map(|mapping| (mapping.begin, mapping.path.clone())).collect();
        if now == self.seen {
            return false;
        }
        for module in &mut self.modules {
            module.is_gone |=
                !maps.iter().any(|mapping| mapping.begin == module.begin && mapping.path == module.path);
        }
        let known = self.modules.len();
        for mapping in maps.iter().filter(is_code) {
            let is_known = |module: &Module| !module.is_gone && module.path == mapping.path;
            let was_seen = self.seen.iter().any(|(at, path)| *at == mapping.begin && *path == mapping.path);
            if self.modules.iter().any(is_known) || was_seen {
                continue;
            }
            // A file without readable symbols has no functions that could be asked for.
            if let Some(module) = Module::read(process, maps, mapping) {
                self.modules.push(module);
            }
        }
        self.seen = now;
        self.modules.len() > known
    }

    /// Whether this module is still loaded.
    pub(crate) fn has(&self, index: usize) -> bool {
        !self.modules[index].is_gone
    }

    pub(crate) fn get(&self, index: usize) -> &Module {
        &self.modules[index]
    }

    /// The program and its libraries.
    pub fn all(&self) -> &[Module] {
        &self.modules
    }

    /// The functions that a pattern names: `NAME` or `MODULE:NAME`, with `*` and `?`. `NAME` matches the
    /// symbol's name, or the demangled name without the types of the arguments.
    pub fn functions(&self, pattern: &str) -> Vec<Function> {
        self.matching(pattern, |kind| kind != Kind::Variable)
    }

    /// Whether a pattern names a module that is not loaded.
    pub fn has_none_of(&self, pattern: &str) -> bool {
        let Some(module) = split(pattern).0.map(Glob::new) else { return false };
        let is_named = |other: &Module| module.matches(other.short()) || module.matches(&other.path);
        !self.modules.iter().any(|other| !other.is_gone && is_named(other))
    }

    /// The variable that has this name.
    ///
    /// # Errors
    /// No variable has the name, or variables of several modules have it.
    pub fn variable(&self, name: &str) -> Result<Function, Error> {
        let mut found = self.matching(name, |kind| kind == Kind::Variable);
        match found.len() {
            0 => {
                Err(Error::new(format!("no variable `{name}` has a symbol in the program or its libraries")))
            }
            1 => Ok(found.remove(0)),
            _ => Err(Error::new(format!(
                "`{name}` is the name of variables in several modules: say which, such as `{}:{name}`",
                found[0].module
            ))),
        }
    }

    fn matching(&self, pattern: &str, wanted: impl Fn(Kind) -> bool) -> Vec<Function> {
        let (module, name) = split(pattern);
        let modules = module.map(Glob::new);
        let names = Names::new(name);
        let mut found: Vec<Function> = Vec::new();
        for (index, module) in self.modules.iter().enumerate().filter(|(_, module)| !module.is_gone) {
            let short = module.short();
            if modules
                .as_ref()
                .is_some_and(|modules| !modules.matches(short) && !modules.matches(&module.path))
            {
                continue;
            }
            let first = found.len();
            for symbol in module.contents.symbols.iter().filter(|symbol| wanted(symbol.kind)) {
                if !names.may_match(module.rest(symbol)) {
                    continue;
                }
                let name = module.name(symbol);
                let same = found[first..]
                    .last()
                    .is_some_and(|last| last.address == symbol.address + module.bias && last.name == name);
                // The rarely executed part of a function has a symbol, but is no function of its own.
                let is_part = name.ends_with(".cold");
                if !same && !is_part && names.match_name(name) {
                    found.push(module.function(index, symbol));
                }
            }
        }
        found
    }

    /// The function that contains an address, and the address's offset from the function's beginning.
    pub fn at(&self, address: u64) -> Option<(Function, u64)> {
        let holds = |module: &Module| !module.is_gone && (module.begin..module.end).contains(&address);
        let index = self.modules.iter().position(holds)?;
        let module = &self.modules[index];
        let in_file = address.wrapping_sub(module.bias);
        let after = module.contents.symbols.partition_point(|symbol| symbol.address <= in_file);
        let before = module.contents.symbols[..after].iter().rev().take(NEIGHBOURS);
        let mut around = before.filter(|symbol| symbol.kind != Kind::Variable);
        let symbol = around.find(|symbol| in_file - symbol.address < symbol.size)?;
        Some((module.function(index, symbol), in_file - symbol.address))
    }

    /// Functions of exactly these names in all modules.
    pub(crate) fn named(&self, names: &[&str]) -> Vec<Function> {
        let mut found: Vec<Function> = Vec::new();
        for (index, module) in self.modules.iter().enumerate().filter(|(_, module)| !module.is_gone) {
            let functions = module.contents.symbols.iter().filter(|symbol| symbol.kind == Kind::Function);
            let begins = |rest: &[u8]| names.iter().any(|name| rest.starts_with(name.as_bytes()));
            let functions = functions.filter(|symbol| begins(module.rest(symbol)));
            for symbol in functions.filter(|symbol| names.contains(&module.name(symbol))) {
                if !found.iter().any(|other| other.address == symbol.address + module.bias) {
                    found.push(module.function(index, symbol));
                }
            }
        }
        found
    }

    /// Whether any module has a symbol with this prefix.
    pub(crate) fn have(&self, prefix: &str) -> bool {
        self.modules.iter().any(|module| {
            module.contents.symbols.iter().any(|symbol| module.rest(symbol).starts_with(prefix.as_bytes()))
        })
    }
}

impl Module {
    /// The file's name without folders.
    pub fn short(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The number of functions that its symbols name.
    pub fn functions(&self) -> usize {
        self.contents.symbols.iter().filter(|symbol| symbol.kind != Kind::Variable).count()
    }

    /// The table of names from a symbol's name on, which ends with a zero byte.
    fn rest(&self, symbol: &Symbol) -> &[u8] {
        self.contents.names.get(symbol.name as usize..).unwrap_or_default()
    }

    fn name(&self, symbol: &Symbol) -> &str {
        let rest = self.rest(symbol);
        let end = memchr::memchr(0, rest).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or("")
    }

    fn function(&self, module_index: usize, symbol: &Symbol) -> Function {
        Function {
            name: self.name(symbol).to_owned(),
            module: self.short().to_owned(),
            address: symbol.address.wrapping_add(self.bias),
            size: symbol.size,
            is_chosen_at_start: symbol.kind == Kind::Chosen,
            is_exported: symbol.is_exported,
            module_index,
        }
    }

    /// A function's parts at other addresses, such as `f.cold`, and other functions that begin inside the
    /// function.
    pub(crate) fn parts(&self, function: &Function) -> Vec<(u64, u64)> {
        let prefix = format!("{}.", function.name);
        let parts = self.contents.symbols.iter().filter(|symbol| symbol.kind == Kind::Function);
        let parts = parts.filter(|symbol| self.name(symbol).starts_with(&prefix));
        parts.map(|symbol| (symbol.address.wrapping_add(self.bias), symbol.size)).collect()
    }

    /// A function that begins within this range.
    pub(crate) fn begins_in(&self, range: std::ops::Range<u64>) -> Option<&str> {
        let within = |symbol: &&Symbol| {
            symbol.kind == Kind::Function && range.contains(&symbol.address.wrapping_add(self.bias))
        };
        self.contents.symbols.iter().find(within).map(|symbol| self.name(symbol))
    }

    fn read(process: &Process, maps: &[Mapping], code: &Mapping) -> Option<Module> {
        let file = opened(process, code)?;
        let contents = Contents::of(&file)?;
        let elf = &contents.elf;
        let page = |address: u64| address & !(PAGE - 1);
        let segment = elf
            .segments
            .iter()
            .find(|segment| segment.is_executable && page(segment.offset) == code.offset)?;
        let bias = code.begin.wrapping_sub(page(segment.address));
        let own = || maps.iter().filter(|mapping| mapping.path == code.path);
        Some(Module {
            path: code.path.clone(),
            bias,
            begin: own().map(|mapping| mapping.begin).min()?,
            end: own().map(|mapping| mapping.end).max()?,
            is_library: !elf.has_interpreter && elf.is_position_independent,
            is_go: elf.is_go,
            is_gone: false,
            contents,
        })
    }
}

impl Contents {
    /// The contents of a file, which are read only once while a module has them.
    fn of(file: &File) -> Option<Arc<Contents>> {
        let state = State::of(file)?;
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|(_, contents)| contents.strong_count() > 0);
        let known = read.iter().find(|(of, _)| *of == state).and_then(|(_, contents)| contents.upgrade());
        if let Some(known) = known {
            return Some(known);
        }
        let contents = Arc::new(Contents::read(file)?);
        read.push((state, Arc::downgrade(&contents)));
        Some(contents)
    }

    fn read(file: &File) -> Option<Contents> {
        let elf = Elf::read(file)?;
        let exported = elf.symbols(file, SHT_DYNSYM, true);
        let (symbols, names) = match elf.symbols(file, SHT_SYMTAB, false) {
            Some((mut symbols, names)) => {
                if let Some((exported, _)) = exported {
                    // Both tables are sorted by address.
                    let mut exported = exported.iter().map(|symbol| symbol.address).peekable();
                    for symbol in &mut symbols {
                        while exported.next_if(|address| *address < symbol.address).is_some() {}
                        symbol.is_exported &= exported.peek() == Some(&symbol.address);
                    }
                }
                (symbols, names)
            }
            None => exported?,
        };
        Some(Contents { elf, symbols, names })
    }
}

impl State {
    fn of(file: &File) -> Option<State> {
        let of = file.metadata().ok()?;
        let whole = [of.dev(), of.ino(), of.size()].map(u64::cast_signed);
        let times = [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()];
        Some(State([whole[0], whole[1], whole[2], times[0], times[1], times[2], times[3]]))
    }
}

impl Module {
    /// The sections with debugging information, by their names: from the module's file, or from the separate
    /// file that Linux distributions install.
    pub(crate) fn debugging(&self, process: &Process, maps: &[Mapping]) -> Option<HashMap<String, Vec<u8>>> {
        let code = maps.iter().find(|mapping| mapping.is_executable && mapping.path == self.path)?;
        let file = opened(process, code)?;
        let elf = Elf::read(&file)?;
        if elf.sections.iter().any(|section| section.name == ".debug_info") {
            return Some(elf.debugging(&file));
        }
        let build = elf.sections.iter().find(|section| section.name == ".note.gnu.build-id")?;
        let note = part(&file, build.offset, build.size)?;
        // The build-id note begins with three lengths and the name `GNU`; the build id follows them.
        let id: String = note.get(16..)?.iter().map(|byte| format!("{byte:02x}")).collect();
        let (folder, name) = id.split_at_checked(2)?;
        let file = File::open(format!("/usr/lib/debug/.build-id/{folder}/{name}.debug")).ok()?;
        Some(Elf::read(&file)?.debugging(&file))
    }
}

/// Opens a mapped file by its name as the target sees it, or else through the kernel's list of the target's
/// mapped files. Only root may open files through that list, but it also leads to files that were deleted, or
/// that have no name in the target's file system (in a container, or below another root).
fn opened(process: &Process, code: &Mapping) -> Option<File> {
    if let Some(path) = code.path.strip_suffix(" (deleted)") {
        // The program itself can be read through `/proc/PID/exe` although its file was deleted.
        let exe = std::fs::read_link(process.proc("exe")).ok()?;
        if exe.to_str()?.trim_end_matches(" (deleted)") == path {
            return File::open(process.proc("exe")).ok();
        }
    } else if let Ok(file) = File::open(process.file(&code.path)) {
        return Some(file);
    }
    File::open(process.proc(&format!("map_files/{:x}-{:x}", code.begin, code.end))).ok()
}

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHF_COMPRESSED: u64 = 1 << 11;

/// The parts of a file in the Executable and Linkable Format that Thalweg reads. All values in the file are
/// checked.
#[derive(Debug)]
struct Elf {
    segments: Vec<Segment>,
    sections: Vec<Section>,
    has_interpreter: bool,
    is_position_independent: bool,
    is_go: bool,
}

#[derive(Debug)]
struct Segment {
    is_executable: bool,
    offset: u64,
    address: u64,
}

#[derive(Debug)]
struct Section {
    name: String,
    kind: u32,
    is_compressed: bool,
    link: u32,
    offset: u64,
    size: u64,
}

impl Elf {
    fn read(file: &File) -> Option<Elf> {
        let header = part(file, 0, 64)?;
        // 64 bits, little-endian, x86-64
        if header[..6] != *b"\x7fELF\x02\x01" || half(&header, 18) != 62 {
            return None;
        }
        let segments = part(file, word(&header, 32), u64::from(half(&header, 56)) * 56)?;
        let segments = segments.chunks_exact(56);
        let sections = part(file, word(&header, 40), u64::from(half(&header, 60)) * 64).unwrap_or_default();
        let place = |at: &[u8]| (word(at, 24), word(at, 32));
        let names = sections.chunks_exact(64).nth(usize::from(half(&header, 62))).map(place);
        let names = names.and_then(|(offset, size)| part(file, offset, size)).unwrap_or_default();
        let name = |at: &[u8]| {
            let name = names.get(long(at, 0) as usize..).unwrap_or_default();
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
            String::from_utf8_lossy(&name[..end]).into_owned()
        };
        let section = |at: &[u8]| {
            let (offset, size) = place(at);
            let is_compressed = word(at, 8) & SHF_COMPRESSED != 0;
            Section { name: name(at), kind: long(at, 4), link: long(at, 40), is_compressed, offset, size }
        };
        let list: Vec<Section> = sections.chunks_exact(64).map(section).collect();
        let is_go =
            list.iter().any(|section| matches!(section.name.as_str(), ".gopclntab" | ".go.buildinfo"));
        Some(Elf {
            has_interpreter: segments.clone().any(|at| long(at, 0) == 3),
            is_position_independent: half(&header, 16) == 3,
            is_go,
            segments: segments
                .filter(|at| long(at, 0) == 1)
                .map(|at| Segment {
                    is_executable: long(at, 4) & 1 != 0,
                    offset: word(at, 8),
                    address: word(at, 16),
                })
                .collect(),
            sections: list,
        })
    }

    /// The file's sections with debugging information, except compressed ones.
    fn debugging(&self, file: &File) -> HashMap<String, Vec<u8>> {
        let own = |section: &&Section| section.name.starts_with(".debug_") && !section.is_compressed;
        let read =
            |section: &Section| Some((section.name.clone(), part(file, section.offset, section.size)?));
        self.sections.iter().filter(own).filter_map(read).collect()
    }

    /// The functions and variables of a symbol table, sorted by address, and the table's names.
    fn symbols(&self, file: &File, kind: u32, is_dynamic: bool) -> Option<(Vec<Symbol>, Vec<u8>)> {
        let table = self.sections.iter().find(|section| section.kind == kind)?;
        let names = self.sections.get(table.link as usize)?;
        let bytes = part(file, table.offset, table.size)?;
        let names = part(file, names.offset, names.size)?;
        let mut symbols: Vec<Symbol> =
            bytes.chunks_exact(SYMBOL_BYTES).filter_map(|at| symbol(at, is_dynamic)).collect();
        symbols.sort_by_key(|symbol| (symbol.address, symbol.name));
        Some((symbols, names))
    }
}

fn symbol(at: &[u8], is_dynamic: bool) -> Option<Symbol> {
    const UNDEFINED: u16 = 0;
    let kind = match at[4] & 0xf {
        1 => Kind::Variable,
        2 => Kind::Function,
        10 => Kind::Chosen,
        _ => return None,
    };
    let is_local = at[4] >> 4 == 0;
    let is_hidden = at[5] & 3 == 1 || at[5] & 3 == 2;
    let (section, address, size) = (half(at, 6), word(at, 8), word(at, 16));
    let is_there = section != UNDEFINED && address != 0;
    is_there.then_some(Symbol {
        name: long(at, 0),
        kind,
        is_exported: is_dynamic || (!is_local && !is_hidden),
        address,
        size,
    })
}

fn part(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    if size > SECTION_BYTES_MAX || offset.checked_add(size)? > file.metadata().ok()?.len() {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// `MODULE:NAME`; the colons of `a::b` belong to the name.
fn split(pattern: &str) -> (Option<&str>, &str) {
    let colon = pattern.char_indices().find(|(at, byte)| {
        *byte == ':' && !pattern[at + 1..].starts_with(':') && !pattern[..*at].ends_with(':')
    });
    match colon {
        Some((at, _)) => (Some(&pattern[..at]), &pattern[at + 1..]),
        None => (None, pattern),
    }
}

/// The names that a pattern matches.
struct Names {
    glob: Glob,
    /// Words of the pattern that the mangled name must contain, too.
    words: Vec<String>,
    text: String,
    /// The text before the first `*` or `?`.
    prefix: String,
}

impl Names {
    fn new(text: &str) -> Names {
        let prefix = text.split(['*', '?']).next().unwrap_or("");
        Names { glob: Glob::new(text), words: words(text), text: text.to_owned(), prefix: prefix.to_owned() }
    }

    /// Whether a name, of which the end is not known yet, may match: most names differ in their first bytes.
    fn may_match(&self, rest: &[u8]) -> bool {
        rest.starts_with(self.prefix.as_bytes()) || rest.starts_with(b"_Z") || rest.starts_with(b"_R")
    }

    fn match_name(&self, name: &str) -> bool {
        let is_name = self.prefix.len() == self.text.len();
        if self.text == "*" || (is_name && name == self.text) {
            return true;
        }
        if !is_name && name.starts_with(&self.prefix) && self.glob.matches(name) {
            return true;
        }
        let is_mangled = name.starts_with("_Z") || name.starts_with("_R");
        if !is_mangled || !self.words.iter().all(|word| name.contains(word.as_str())) {
            return false;
        }
        let readable = readable(name);
        let without_types = readable.split('(').next().unwrap_or(&readable);
        self.glob.matches(&readable) || self.glob.matches(without_types)
    }
}

fn words(pattern: &str) -> Vec<String> {
    let words = pattern.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.len() > 2 && !word.starts_with("operator")).map(str::to_owned).collect()
}

fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle(&cpp_demangle::DemangleOptions::default())
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_before_names() {
        assert_eq!(split("malloc"), (None, "malloc"));
        assert_eq!(split("libc.so.6:mall*"), (Some("libc.so.6"), "mall*"));
        assert_eq!(split("shop::order"), (None, "shop::order"));
        assert_eq!(split("libshop.so:shop::order"), (Some("libshop.so"), "shop::order"));
    }

    #[test]
    fn this_programs_functions() {
        let process = Process::open(std::process::id() as i32).expect("oneself");
        let modules = Modules::of(&process, &process.maps().expect("maps"));
        let own = modules.functions("*tests::this_programs_functions");
        let address = this_programs_functions as *const () as usize as u64;
        assert!(own.iter().any(|function| function.address == address), "{own:x?}");
        let write = modules.functions("libc.so.6:write");
        assert!(write.len() == 1 && write[0].is_exported, "{write:?}");
        assert!(modules.functions("no_such_function_at_all").is_empty());
    }

    #[test]
    fn a_file_is_read_once_until_it_changes() {
        let path = std::env::temp_dir().join(format!("thalweg-contents-{}", std::process::id()));
        std::fs::copy("/proc/self/exe", &path).expect("a copy of this program");
        let first = Contents::of(&File::open(&path).expect("the copy")).expect("a program");
        let again = Contents::of(&File::open(&path).expect("the copy")).expect("a program");
        assert!(Arc::ptr_eq(&first, &again));
        // The same inode, written anew.
        let program = std::fs::read(&path).expect("the copy");
        std::fs::write(&path, &program[..program.len() - 1]).expect("a shorter copy");
        let changed = Contents::of(&File::open(&path).expect("the copy"));
        assert!(changed.is_none_or(|changed| !Arc::ptr_eq(&first, &changed)));
        std::fs::remove_file(&path).expect("the copy");
    }
}

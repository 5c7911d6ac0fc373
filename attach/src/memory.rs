//! The memory in the target: an anonymous file, mapped in parts.
//!
//! ```text
//! 0         journal   shared, read-only in the target: what is changed, written before it is
//! 64 KiB    private   the table of calls under way, descriptors, orders: a child of fork has its own
//! 512 KiB   figures   shared: counters and histograms
//! ```
//!
//! Near each module with points is a region of code, a file of its own with a similar name.
//!
//! The names of the files in the target's maps identify the attachment, so another process can find the
//! mappings and remove them.

use crate::blob::TABLE_BYTES;
use crate::error::Error;
use crate::inject::Gadgets;
use crate::process::{Identity, Mapping, PAGE, Process};
use crate::tracer::Thread;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The beginning of the names of all files that attachments map in targets.
pub(crate) const NAME: &str = "thalweg-attach-";
const JOURNAL_BYTES: u64 = 64 << 10;
const PRIVATE_BYTES: u64 = (512 << 10) - JOURNAL_BYTES;
/// The first word of the journal; the length of the records, the maker's process id and its start follow.
const MAGIC: u64 = u64::from_le_bytes(*b"thalweg1");
const HEADER_BYTES: u64 = 64;

/// The memory in a target, as seen by its maker.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) file: File,
    /// The address of the first mapping in the target.
    base: u64,
    /// The number of written bytes of the journal.
    written: u64,
    private_next: u64,
    figures_next: u64,
    figures_end: u64,
}

/// A change that was made, or is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The bytes `new` replace the bytes `old`.
    Bytes { address: u64, old: Vec<u8>, new: Vec<u8> },
    /// A change of a function that throws or unwinds, which restores return addresses before an exception
    /// passes them. The change is needed as long as a thread may be in inserted code.
    Unwinder { address: u64, old: Vec<u8>, new: Vec<u8> },
    /// The code of the trampoline of a function that throws or unwinds: a thread inside that code will not
    /// change its return address.
    Harmless { begin: u64, end: u64 },
    /// Timed calls return to this address.
    Leave { address: u64 },
    /// The address of an ordered call's state.
    Order { address: u64 },
    /// The address of an inserted call's order.
    Inserted { address: u64 },
}

impl Memory {
    /// Makes the attachment's memory in the target, by system calls of a stopped thread. Calls `hurry` after
    /// the first of them.
    pub(crate) fn make(
        process: &Process,
        gadgets: &Gadgets,
        thread: &Thread,
        maps: &[Mapping],
        figures: u64,
        hurry: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Memory, Error> {
        let maker = Identity::of(std::process::id().cast_signed())
            .ok_or_else(|| Error::new("/proc is not mounted"))?;
        let number = created(process, gadgets, thread, &named(maker, process, "data"))?;
        let made = hurry().and_then(|()| Memory::map(process, gadgets, thread, maps, figures, number, maker));
        let closed = close(process, gadgets, thread, number);
        let memory = made?;
        closed.map(|()| memory)
    }

    fn map(
        process: &Process,
        gadgets: &Gadgets,
        thread: &Thread,
        maps: &[Mapping],
        figures: u64,
        number: i64,
        maker: Identity,
    ) -> Result<Memory, Error> {
        let file = opened(process, number)?;
        let begin = JOURNAL_BYTES + PRIVATE_BYTES;
        let end = (begin + figures).next_multiple_of(PAGE);
        let io = |error| Error::of("cannot write the memory made in the target", error);
        file.set_len(end).map_err(io)?;
        let header = [MAGIC, 0, u64::from(maker.pid.cast_unsigned()), maker.start];
        let header: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.write_all_at(&header, 0).map_err(io)?;
        // The first mapping reserves the whole range; the others replace parts of it.
        let base = placed(process, gadgets, thread, maps, (end, None), |address| {
            let place = Place { address, bytes: end, rights: libc::PROT_READ, kind: libc::MAP_SHARED };
            mapped(process, gadgets, thread, &place, number, 0)
        })?;
        let map = |at: u64, bytes: u64, kind: i32| {
            let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, kind | libc::MAP_FIXED);
            let place = Place { address: base + at, bytes, rights, kind };
            match mapped(process, gadgets, thread, &place, number, at)? {
                0 => Ok(()),
                error => Err(failed("map memory", error)),
            }
        };
        map(JOURNAL_BYTES, PRIVATE_BYTES, libc::MAP_PRIVATE)?;
        map(begin, end - begin, libc::MAP_SHARED)?;
        Ok(Memory {
            file,
            base,
            written: 0,
            private_next: JOURNAL_BYTES + TABLE_BYTES,
            figures_next: begin,
            figures_end: end,
        })
    }

    /// The table of calls under way, in the target.
    pub(crate) fn table(&self) -> u64 {
        self.base + JOURNAL_BYTES
    }

    /// Allocates memory for a descriptor or an order. Returns the memory's address in the target.
    pub(crate) fn private(&mut self, bytes: u64) -> Result<u64, Error> {
        let at = self.private_next.next_multiple_of(64);
        if at + bytes > JOURNAL_BYTES + PRIVATE_BYTES {
            return Err(Error::new("there are too many points: detach, and attach to fewer functions"));
        }
        self.private_next = at + bytes;
        Ok(self.base + at)
    }

    /// Allocates memory for figures. Returns the memory's address in the target, and its offset in the file.
    pub(crate) fn figures(&mut self, bytes: u64) -> Result<(u64, u64), Error> {
        let at = self.figures_next;
        if at + bytes > self.figures_end {
            return Err(Error::new(
                "there is no room for the figures of so many points: detach, and attach to fewer functions",
            ));
        }
        self.figures_next = at + bytes.next_multiple_of(64);
        Ok((self.base + at, at))
    }

    /// Records changes in the journal before they are made.
    pub(crate) fn record(&mut self, records: &[Record]) -> Result<(), Error> {
        let bytes: Vec<u8> = records.iter().flat_map(Record::encoded).collect();
        let at = HEADER_BYTES + self.written;
        if at + bytes.len() as u64 > JOURNAL_BYTES {
            return Err(Error::new("there are too many points: detach, and attach to fewer functions"));
        }
        let io = |error| Error::of("cannot write the journal", error);
        self.file.write_all_at(&bytes, at).map_err(io)?;
        self.written += bytes.len() as u64;
        self.file.write_all_at(&self.written.to_le_bytes(), 8).map_err(io)
    }
}

/// Memory for code within reach of a module.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The file that the region maps.
    pub(crate) file: File,
}

impl Region {
    pub(crate) fn make(
        process: &Process,
        gadgets: &Gadgets,
        thread: &Thread,
        (begin, end): (u64, u64),
        bytes: u64,
    ) -> Result<Region, Error> {
        let maker = Identity::of(std::process::id().cast_signed())
            .ok_or_else(|| Error::new("/proc is not mounted"))?;
        let number = created(process, gadgets, thread, &named(maker, process, "code"))?;
        let made = (|| {
            let file = opened(process, number)?;
            file.set_len(bytes).map_err(|error| Error::of("cannot make room for code", error))?;
            let near = Some((begin, end));
            let address = placed(process, gadgets, thread, &process.maps()?, (bytes, near), |address| {
                let rights = libc::PROT_READ | libc::PROT_EXEC;
                let place = Place { address, bytes, rights, kind: libc::MAP_PRIVATE };
                mapped(process, gadgets, thread, &place, number, 0)
            })?;
            Ok(Region { address, bytes, file })
        })();
        let closed = close(process, gadgets, thread, number);
        let region = made?;
        closed.map(|()| region)
    }
}

fn created(process: &Process, gadgets: &Gadgets, thread: &Thread, name: &str) -> Result<i64, Error> {
    let number =
        gadgets.call(process, thread, (libc::SYS_memfd_create, [0, 1, 0, 0, 0, 0]), name.as_bytes())?;
    if number < 0 { Err(failed("make a file in memory", number)) } else { Ok(number) }
}

/// Opens the file that has this descriptor in the target, for use in this process.
fn opened(process: &Process, number: i64) -> Result<File, Error> {
    let opened = File::options().read(true).write(true).open(process.proc(&format!("fd/{number}")));
    opened.map_err(|error| Error::of("cannot open the memory made in the target", error))
}

fn close(process: &Process, gadgets: &Gadgets, thread: &Thread, number: i64) -> Result<(), Error> {
    gadgets.call(process, thread, (libc::SYS_close, [number.cast_unsigned(), 0, 0, 0, 0, 0]), &[]).map(|_| ())
}

/// A mapping to be made.
struct Place {
    address: u64,
    bytes: u64,
    rights: i32,
    kind: i32,
}

/// Makes a mapping. Returns 0, or a negative error number. No existing mapping is replaced unless the kind
/// says so.
fn mapped(
    process: &Process,
    gadgets: &Gadgets,
    thread: &Thread,
    place: &Place,
    number: i64,
    at: u64,
) -> Result<i64, Error> {
    let is_fixed = place.kind & libc::MAP_FIXED != 0;
    let kind = (place.kind | if is_fixed { 0 } else { libc::MAP_FIXED_NOREPLACE }) as u64;
    let arguments = [place.address, place.bytes, place.rights as u64, kind, number.cast_unsigned(), at];
    let result = gadgets.call(process, thread, (libc::SYS_mmap, arguments), &[])?;
    if result.cast_unsigned() == place.address { Ok(0) } else { Ok(result) }
}

/// Makes a mapping at a free address. Other threads run meanwhile and may map the same address first; then
/// another address is chosen.
fn placed(
    process: &Process,
    gadgets: &Gadgets,
    thread: &Thread,
    maps: &[Mapping],
    (bytes, near): (u64, Option<(u64, u64)>),
    map: impl Fn(u64) -> Result<i64, Error>,
) -> Result<u64, Error> {
    const TRIES: usize = 20;
    let mut maps = maps.to_vec();
    for _ in 0..TRIES {
        let address = free(&maps, bytes, near).ok_or_else(|| {
            Error::new(match near {
                Some(_) => "there is no free memory within 2 GiB of the module's code",
                None => "the target's address space is full",
            })
        })?;
        let result = map(address)?;
        if result == 0 {
            return Ok(address);
        }
        // An old kernel ignores the flag `MAP_FIXED_NOREPLACE`, and may map at another address than the
        // wanted one.
        if result > 0 {
            let arguments = [result.cast_unsigned(), bytes, 0, 0, 0, 0];
            gadgets.call(process, thread, (libc::SYS_munmap, arguments), &[])?;
        } else if result != -i64::from(libc::EEXIST) {
            return Err(failed("map memory", result));
        }
        maps = process.maps()?;
    }
    Err(Error::new("the target maps memory all the time, so that no free place stays free: try again"))
}

fn failed(what: &str, result: i64) -> Error {
    let error = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0));
    Error::of(&format!("the target cannot {what}"), error)
}

/// A free range of the target's address space: within reach of `near`, or where new mappings usually are.
fn free(maps: &[Mapping], bytes: u64, near: Option<(u64, u64)>) -> Option<u64> {
    const REACH: u64 = (1 << 31) - (16 << 20);
    const LOWEST: u64 = 1 << 16;
    const HIGHEST: u64 = (1 << 47) - (1 << 20);
    // The distance to neighbouring mappings that may grow, such as the heap or a stack.
    const APART: u64 = 1 << 20;
    let (lowest, highest) = match near {
        Some((begin, end)) => (end.saturating_sub(REACH).max(LOWEST), (begin + REACH).min(HIGHEST)),
        None => {
            (maps.iter().find(|mapping| mapping.path == "[heap]").map_or(1 << 32, |heap| heap.end), HIGHEST)
        }
    };
    let middle = near.map_or_else(
        || {
            maps.iter()
                .rev()
                .find(|mapping| mapping.is_executable && mapping.path.starts_with('/'))
                .map_or(1 << 46, |code| code.begin)
        },
        |(begin, _)| begin,
    );
    let mut best: Option<u64> = None;
    let ends = std::iter::once(0).chain(maps.iter().map(|mapping| mapping.end));
    let begins = maps.iter().map(|mapping| mapping.begin).chain(std::iter::once(HIGHEST));
    for (from, to) in ends.zip(begins) {
        let (from, to) = (from.max(lowest), to.min(highest));
        // The range is at the upper end of the gap, which a heap that grows upwards reaches last, but not
        // directly below a stack, which grows downwards.
        for apart in [APART, 0] {
            let Some(at) = to.checked_sub(bytes + apart) else { continue };
            let at = at & !(PAGE - 1);
            if at >= from + apart / 4 {
                if best.is_none_or(|best| best.abs_diff(middle) > at.abs_diff(middle)) {
                    best = Some(at);
                }
                break;
            }
        }
    }
    best
}

impl Record {
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut word = |word: u64| bytes.extend(word.to_le_bytes());
        match self {
            Record::Bytes { address, old, new } | Record::Unwinder { address, old, new } => {
                word(if matches!(self, Record::Bytes { .. }) { 1 } else { 4 });
                word(*address);
                word(old.len() as u64);
                bytes.extend(old);
                bytes.extend(new);
            }
            Record::Harmless { begin, end } => {
                word(5);
                word(*begin);
                word(*end);
            }
            Record::Leave { address } => {
                word(2);
                word(*address);
            }
            Record::Order { address } => {
                word(3);
                word(*address);
            }
            Record::Inserted { address } => {
                word(6);
                word(*address);
            }
        }
        bytes
    }

    fn decoded(mut bytes: &[u8]) -> Vec<Record> {
        fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
            let (first, rest) = bytes.split_at_checked(count)?;
            *bytes = rest;
            Some(first)
        }
        fn word(bytes: &mut &[u8]) -> Option<u64> {
            take(bytes, 8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        }
        let mut next = || {
            Some(match word(&mut bytes)? {
                kind @ (1 | 4) => {
                    let address = word(&mut bytes)?;
                    let count = usize::try_from(word(&mut bytes)?).ok()?;
                    let old = take(&mut bytes, count)?.to_vec();
                    let new = take(&mut bytes, count)?.to_vec();
                    match kind {
                        1 => Record::Bytes { address, old, new },
                        _ => Record::Unwinder { address, old, new },
                    }
                }
                5 => Record::Harmless { begin: word(&mut bytes)?, end: word(&mut bytes)? },
                2 => Record::Leave { address: word(&mut bytes)? },
                3 => Record::Order { address: word(&mut bytes)? },
                6 => Record::Inserted { address: word(&mut bytes)? },
                _ => return None,
            })
        };
        std::iter::from_fn(&mut next).collect()
    }
}

/// The memory of an attachment, as found in a target.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) maker: Option<Identity>,
    pub(crate) records: Vec<Record>,
    pub(crate) mappings: Vec<Mapping>,
    /// The table of calls under way.
    pub(crate) table: Option<u64>,
    /// The target's open descriptors of files of the attachment.
    pub(crate) open: Vec<u64>,
    /// The beginning of the names of all files of this attachment, which is unique.
    pub(crate) name: String,
}

impl Found {
    /// The number of changed places; a place that was changed anew has more than one record.
    pub(crate) fn changes(&self) -> usize {
        let place = |record: &Record| match record {
            Record::Bytes { address, .. } => Some(*address),
            _ => None,
        };
        self.records.iter().filter_map(place).collect::<HashSet<_>>().len()
    }

    /// Finds an attachment's memory in a target; `None` if the target was not changed, or all changes were
    /// undone.
    pub(crate) fn in_target(process: &Process) -> Result<Option<Found>, Error> {
        let mappings: Vec<Mapping> =
            process.maps()?.into_iter().filter(|mapping| is_ours(&mapping.path)).collect();
        let open = descriptors(process);
        if mappings.is_empty() && open.is_empty() {
            return Ok(None);
        }
        let mut found = Found { mappings, open, ..Found::default() };
        let names = found.mappings.iter().map(|mapping| mapping.path.clone());
        let name = names.chain(open_names(process)).next().unwrap_or_default();
        found.maker = maker(&name);
        found.name =
            name.rsplit_once('-').map_or_else(String::new, |(attachment, _)| format!("{attachment}-"));
        let own = |mapping: &&Mapping| !mapping.path.contains("-code");
        let journal = found.mappings.iter().filter(own).find(|mapping| mapping.offset == 0);
        let journal = journal.map(|mapping| mapping.begin);
        if let Some(journal) = journal {
            let mut bytes = vec![0; JOURNAL_BYTES as usize];
            let read = process.read_some(journal, &mut bytes);
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
            if read == bytes.len() && word(0) == MAGIC {
                let end = (HEADER_BYTES + word(8)).min(JOURNAL_BYTES) as usize;
                found.records = Record::decoded(&bytes[HEADER_BYTES as usize..end]);
            }
            let table = found.mappings.iter().filter(own).find(|mapping| mapping.offset == JOURNAL_BYTES);
            found.table = table.map(|mapping| mapping.begin);
        }
        Ok(Some(found))
    }
}

fn is_ours(path: &str) -> bool {
    path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(NAME))
}

/// The name of a file of an attachment by `maker` to `target`, ending with a zero byte. A maker may attach to
/// several processes at a time.
fn named(maker: Identity, target: &Process, holds: &str) -> String {
    format!("{NAME}{}-{}-{}-{holds}\0", maker.pid, maker.start, target.pid())
}

/// The process that made a file of this name.
fn maker(path: &str) -> Option<Identity> {
    let (pid, start) = path.strip_prefix("/memfd:")?.strip_prefix(NAME)?.split_once('-')?;
    let start = start.split([' ', '-']).next()?;
    Some(Identity { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

fn descriptors(process: &Process) -> Vec<u64> {
    open_files(process).map(|(number, _)| number).collect()
}

fn open_names(process: &Process) -> impl Iterator<Item = String> {
    open_files(process).map(|(_, name)| name)
}

/// The target's descriptors of the files of attachments, with the files' names. If the target is itself
/// attached to another process, its files of that attachment are its own.
fn open_files(process: &Process) -> impl Iterator<Item = (u64, String)> + use<> {
    let own = process.identity;
    let list = std::fs::read_dir(process.proc("fd")).into_iter().flatten().flatten();
    list.filter_map(move |entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let target = target.to_str().filter(|target| is_ours(target) && maker(target) != Some(own))?;
        Some((entry.file_name().to_str()?.parse().ok()?, target.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let records = vec![
            Record::Bytes { address: 7, old: vec![1, 2, 3], new: vec![4, 5, 6] },
            Record::Leave { address: 9 },
            Record::Harmless { begin: 1, end: 2 },
            Record::Order { address: 10 },
            Record::Inserted { address: 11 },
            Record::Unwinder { address: 8, old: vec![1; 8], new: vec![0; 8] },
        ];
        let bytes: Vec<u8> = records.iter().flat_map(Record::encoded).collect();
        assert_eq!(Record::decoded(&bytes), records);
        assert_eq!(Record::decoded(&bytes[..bytes.len() - 1]), records[..5]);
        assert_eq!(Record::decoded(&[]), []);
    }

    #[test]
    fn changed_places_are_counted_once() {
        let change = |address| Record::Bytes { address, old: vec![1], new: vec![2] };
        let records = vec![change(7), change(8), change(7), Record::Leave { address: 9 }];
        assert_eq!(Found { records, ..Found::default() }.changes(), 2);
    }

    #[test]
    fn free_places_are_near_and_free() {
        let map = |begin, end| Mapping {
            begin,
            end,
            is_readable: true,
            is_executable: true,
            offset: 0,
            path: "/f".to_owned(),
        };
        let maps = [map(0x40_0000, 0x50_0000), map(0x7f00_0000_0000, 0x7f00_0010_0000)];
        for near in [(0x40_0000, 0x50_0000), (0x7f00_0000_0000, 0x7f00_0010_0000)] {
            let at = free(&maps, 0x1_0000, Some(near)).expect("a place");
            assert!(maps.iter().all(|map| at + 0x1_0000 <= map.begin || at >= map.end), "{at:x}");
            assert!(at.abs_diff(near.0) < 1 << 31, "{at:x}");
        }
        assert_eq!(free(&[map(0, (1 << 47) - 1)], 4096, None), None);
    }

    #[test]
    fn makers_are_named_by_their_files() {
        let maker = maker("/memfd:thalweg-attach-12-345 (deleted)");
        assert_eq!(maker, Some(Identity { pid: 12, start: 345 }));
        assert_eq!(super::maker("/memfd:thalweg-attach-12-345-code (deleted)"), maker);
        assert!(!is_ours("/memfd:other") && is_ours("/memfd:thalweg-attach-1-2 (deleted)"));
    }
}

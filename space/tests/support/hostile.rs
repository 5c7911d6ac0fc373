//! Makes damaged spaces, and reads them in all ways. The tests choose the damage by a random generator; the
//! fuzzer chooses it by its input.

use super::{Counted, former, space_in};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_glob::Glob;
use thalweg_space::archive::{ArchiveOptions, Archiver};
use thalweg_space::layout::{block, catalog, element, event, identity, live, pool};
use thalweg_space::reader::{EventStream, Item, SpaceReader};
use thalweg_space::{CollectorOptions, ElementOptions, Kind, Policy, SettingSpec, Site, discover};

/// Says something.
#[derive(Kind)]
#[kind(name = "test.said")]
struct Logged<'a> {
    who: u16,
    what: &'a str,
    how: &'a [u8],
}

/// A space with data in every file: two writers, one of them archived, settings, a live row.
pub(crate) fn make(directory: &Path) -> PathBuf {
    let space = space_in(directory, 512, 2, Policy::Overwrite);
    let name = space.name("a name").unwrap();
    space.site(&Site { name: "inc", kind: "box", file: "a.snet", line: 3, column: 9, parent: None }).unwrap();
    let spec = SettingSpec { name: "s", doc: "d", unit: "u", max: 9, default: 3, ..SettingSpec::PLAIN };
    space.setting(spec).unwrap();
    let row = space.live_row(super::thing(&space), 5).unwrap();
    row.cell(1).store(name.0, Ordering::Relaxed);
    let mut writers = [space.writer("first").unwrap(), space.writer("second").unwrap()];
    for writer in &mut writers {
        let counted = writer.declare::<Counted>().unwrap();
        let logged = writer.declare::<Logged<'static>>().unwrap();
        for count in 0..30 {
            writer.emit_at(1000 + count, counted, &Counted { count });
            writer.emit_same_time(logged, &Logged { who: 7, what: "hello", how: b"loud and clear" });
            writer.emit_at(1 << (count + 20), counted, &Counted { count });
        }
    }
    // Each of these events is longer than a block, and so consists of several parts.
    let options = ElementOptions { block_bytes: 512, block_count: 4, policy: Policy::Overwrite };
    let mut long = space.writer_with("long", options).unwrap();
    let logged = long.declare::<Logged<'static>>().unwrap();
    let what = "loud and clear ".repeat(40);
    for time in 0..4 {
        long.emit_at(4000 + time, logged, &Logged { who: 8, what: &what, how: b"and long" });
    }
    drop(long);
    // An element that had two writers, and two elements that share a file; one of these two has an archive.
    drop(writers);
    let mut again = space.writer("third").unwrap();
    let counted = again.declare::<Counted>().unwrap();
    again.emit_at(5000, counted, &Counted { count: 1 });
    let options = CollectorOptions { block_bytes: 512, block_count: 2, policy: Policy::Overwrite };
    let mut collectors = [
        space.collector::<Counted>("a path", options).unwrap(),
        space.collector::<Counted>("another", options).unwrap(),
    ];
    for collector in &mut collectors {
        (0..50).for_each(|count| collector.record_at(6000 + count, &Counted { count }));
    }
    // One element is archived in a segment, two in archives of former versions.
    let options = ArchiveOptions { writers: Some(Glob::new("long")), ..ArchiveOptions::default() };
    Archiver::with_options(space.path(), options).unwrap().finish().unwrap();
    former::archive(space.path(), "0001.element", 0, 512, 2, "0001.archive");
    let pools = std::fs::read_dir(space.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names = pools.map(|name| name.into_string().unwrap());
    let shared = names.find(|name| name.ends_with(".pool")).unwrap();
    let slots = word_in(&space.path().join(&shared), pool::SLOTS) as usize;
    let first = pool::elements(slots) as u64;
    former::archive(space.path(), &shared, first, 512, 2, &shared.replace(".pool", "-0000.archive"));
    // The pool is cut to the elements in use, because small files are read and restored fastest.
    cut_pool(space.path());
    // The row is not dropped, as in the space of a killed process.
    std::mem::forget(row);
    space.path().to_path_buf()
}

/// Truncates the pool to the elements in use, and stores their number as its capacity.
fn cut_pool(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pool") {
            let bytes = std::fs::read(&path).unwrap();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            let (slots, used) = (word(pool::SLOTS), word(pool::USED));
            assert!(used < slots);
            let slot_bytes = pool::slot_bytes(word(pool::BLOCKS) & 0xffff_ffff, word(pool::BLOCKS) >> 32);
            let from = pool::elements(slots);
            let mut small = bytes[..pool::LINES + used * pool::LINE_BYTES].to_vec();
            small.resize(pool::elements(used), 0);
            small.extend(&bytes[from..from + used * slot_bytes]);
            small[pool::SLOTS..pool::SLOTS + 8].copy_from_slice(&(used as u64).to_le_bytes());
            std::fs::write(&path, small).unwrap();
        }
    }
}

/// Reads everything in a space in every way that a reader has. The results do not matter, but the reading
/// must end.
pub(crate) fn read_all_ways(path: &Path) {
    read_one_way(path, 0);
    read_one_way(path, 1);
}

/// Reads everything in way 0 or way 1; the two ways share only the opening of the space.
pub(crate) fn read_one_way(path: &Path, way: u64) {
    let Ok(reader) = SpaceReader::open(path) else { return };
    let count = if way == 0 {
        let _ = (reader.writers(), reader.settings(), reader.names());
        count_items(reader.events())
    } else {
        let _ = (reader.info(), reader.live_rows(), reader.sites());
        let _ = reader.latest().look(&mut |event| assert!(event.fields().count() < 1000));
        count_items(reader.events().by_block())
    };
    assert!(count < 2000, "made up {count} items");
}

/// Reads every field of all items; returns their number.
fn count_items(mut stream: EventStream) -> usize {
    let (mut count, mut has_failed) = (0, false);
    loop {
        let before = count;
        let taken = stream.poll(1000, &mut |item| {
            count += 1;
            if let Item::Event(event) = item {
                event.fields().for_each(|field| drop(black_box(field)));
            }
        });
        // An identity that cannot be read any more is reported at each poll.
        if count == before && (taken.is_ok() || has_failed) || count > 1_000_000 {
            return count;
        }
        has_failed |= taken.is_err();
    }
}

/// Runs the operations that also write: the archiver, a setting, the removal of dead spaces.
pub(crate) fn write_all_ways(path: &Path) {
    if let Ok(mut archiver) = Archiver::open(path) {
        let _ = archiver.step();
        let _ = archiver.finish();
    }
    if let Ok(reader) = SpaceReader::open(path) {
        let _ = reader.set("s", 5);
    }
    let _ = discover::clean(path.parent().unwrap(), true);
}

/// The files of an undamaged space, which can be damaged and restored.
pub(crate) struct Template {
    path: PathBuf,
    files: Vec<(String, Vec<u8>)>,
    /// The files that may differ from `files`. Only the files that may differ are restored, because writing
    /// all files would take most of the time.
    touched: Mutex<BTreeSet<PathBuf>>,
    /// Whether files may have been added or removed.
    is_listing_touched: AtomicBool,
}

/// The source of damage: returns a number below its argument.
pub(crate) type Choose<'a> = dyn FnMut(u64) -> u64 + Send + 'a;

impl Template {
    pub(crate) fn of(path: &Path) -> Template {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            files.push((name, std::fs::read(entry.path()).unwrap()));
        }
        files.sort();
        let is_listing_touched = AtomicBool::new(false);
        Template { path: path.to_path_buf(), files, touched: Mutex::default(), is_listing_touched }
    }

    /// Restores the directory. `all` is needed if code other than [`Template::damage`] wrote into the
    /// directory.
    pub(crate) fn restore(&self, all: bool) {
        let touched = std::mem::take(&mut *self.touched.lock().unwrap());
        if self.is_listing_touched.swap(false, Ordering::Relaxed) || all {
            self.restore_listing();
        }
        for (name, bytes) in &self.files {
            let path = self.path.join(name);
            if all || touched.contains(&path) {
                write_over(&path, bytes);
            }
        }
    }

    /// Removes everything that is no plain file or does not belong to the undamaged space.
    fn restore_listing(&self) {
        // The directory may be missing: with a damaged identity the space looks dead, and `clean` removes it.
        let _ = std::fs::create_dir(&self.path);
        for entry in std::fs::read_dir(&self.path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap_or_default();
            let good = self.files.iter().any(|(file, _)| *file == name);
            if entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir(entry.path()).unwrap();
            } else if !good || !entry.file_type().unwrap().is_file() {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    fn touch(&self, path: &Path) {
        self.touched.lock().unwrap().insert(path.to_path_buf());
    }

    /// Applies one to four random changes.
    pub(crate) fn damage(&self, choose: &mut Choose<'_>) {
        for _ in 0..1 + choose(4) {
            self.wound(choose);
        }
    }

    fn wound(&self, choose: &mut Choose<'_>) {
        let (name, bytes) = &self.files[choose(self.files.len() as u64) as usize];
        let path = self.path.join(name);
        self.touch(&path);
        // A file that earlier damage removed or replaced can only be replaced.
        let replace = |with: &dyn Fn(&Path) -> std::io::Result<()>| {
            let _ = std::fs::remove_file(&path);
            let _ = with(&path);
        };
        let wound = choose(17);
        self.is_listing_touched.fetch_or((8..14).contains(&wound), Ordering::Relaxed);
        match wound {
            0..4 => self.write_word(&path, bytes, choose),
            4 => put(&path, choose(bytes.len() as u64), &[choose(256) as u8]),
            5 => {
                let long = (0..8 + choose(100)).map(|_| choose(256) as u8).collect::<Vec<_>>();
                put(&path, choose(bytes.len() as u64), &long);
            }
            6 => cut(&path, choose(bytes.len() as u64 + 1)),
            7 => cut(&path, bytes.len() as u64 + (1 << choose(56))),
            8 => {
                let other = &self.files[choose(self.files.len() as u64) as usize].0;
                let targets = ["/dev/zero", "/dev/null", "/", "nowhere", other, name];
                let target = targets[choose(targets.len() as u64) as usize];
                replace(&|path| symlink(target, path));
            }
            9 => replace(&fifo),
            10 => replace(&|path| std::fs::create_dir(path)),
            11 => drop(std::fs::remove_file(&path)),
            12 => {
                let other = &self.files[choose(self.files.len() as u64) as usize].0;
                self.touch(&self.path.join(other));
                let _ = std::fs::rename(&path, self.path.join(other));
            }
            13 => {
                let number = [3, 4, 9999, 10_000, u32::MAX][choose(5) as usize];
                let suffix = ["element", "archive", "catalog", "archive.new"][choose(4) as usize];
                // The change is computed from the undamaged bytes, because earlier damage may have made a
                // huge hole.
                let target = self.path.join(format!("{number:04}.{suffix}"));
                self.touch(&target);
                self.touch(&self.path.join("space"));
                let _ = std::fs::remove_file(&target);
                let _ = std::fs::write(target, bytes);
                put(&self.path.join("space"), identity::WRITERS as u64, &u64::MAX.to_le_bytes());
            }
            14 => self.lie_in_a_block(choose),
            15 => self.lie_in_a_segment(choose),
            _ => self.lie_in_a_catalog(choose),
        }
    }

    /// Sets a word of a file, often one of a header, to an unusual value.
    fn write_word(&self, path: &Path, bytes: &[u8], choose: &mut Choose<'_>) {
        let words = bytes.len() as u64 / 8;
        let at = 8 * match choose(3) {
            0 => choose(words.clamp(1, 32)),
            1 => (512 + choose(20)).min(words.saturating_sub(1)),
            _ => choose(words.max(1)),
        };
        put(path, at, &word(choose, bytes, at).to_le_bytes());
    }

    /// Changes the headers of blocks, or the first words of their events, in an element or archive.
    fn lie_in_a_block(&self, choose: &mut Choose<'_>) {
        let blocks: Vec<_> = self.files.iter().filter(|(name, _)| has_blocks(name)).collect();
        let (name, bytes) = blocks[choose(blocks.len() as u64) as usize];
        let path = self.path.join(name);
        self.touch(&path);
        let place = bytes.len() as u64 % 512 + 512 * (8 + choose(bytes.len() as u64 / 512 - 8));
        let at = place + 8 * choose(64);
        let value = match choose(4) {
            0 => return put(&path, place + block::NUMBER as u64, &choose(8).to_le_bytes()),
            1 => {
                return put(
                    &path,
                    place + block::SEQUENCE as u64,
                    &(choose(100) << choose(57)).to_le_bytes(),
                );
            }
            2 => event::pack(choose(1000) as u32, choose(20) as u16, choose(4096) as usize, choose(16) as u8),
            _ => event::pack(0, choose(event::KIND_FIRST.into()) as u16, choose(6) as usize, 0),
        };
        put(&path, at, &value.to_le_bytes());
        if choose(2) == 0 {
            let head = (place % 4096 + 8 * choose(64)) << choose(40);
            put(&path, element::HEAD as u64, &head.to_le_bytes());
        }
    }

    /// Changes the contents of a segment's record, with a correct checksum.
    fn lie_in_a_segment(&self, choose: &mut Choose<'_>) {
        let segments: Vec<_> = self.files.iter().filter(|(name, _)| name.ends_with(".segment")).collect();
        let (name, bytes) = segments[choose(segments.len() as u64) as usize];
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let mut records = Vec::new();
        let mut at = 64;
        while at + 16 < bytes.len() {
            records.push(at..at + 16 + half(at + 4));
            at += (16 + half(at + 4)).next_multiple_of(8);
        }
        let record = records[choose(records.len() as u64) as usize].clone();
        let mut lie = bytes[record.clone()].to_vec();
        for _ in 0..1 + choose(3) {
            let at = 16 + choose(lie.len() as u64 - 16) as usize;
            lie[at] = [0, 1, 0x7f, 0xff, lie[at] ^ 1 << choose(8)][choose(5) as usize];
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&lie[..8]);
        sum.update(&lie[16..]);
        lie[8..12].copy_from_slice(&sum.finalize().to_le_bytes());
        let path = self.path.join(name);
        self.touch(&path);
        put(&path, record.start as u64, &lie);
        // A segment without an index is read record by record.
        if choose(2) == 0 {
            put(&path, bytes.len() as u64 - 8, &[0; 8]);
        }
    }

    /// Changes the contents of a catalog's record, with a correct hash.
    fn lie_in_a_catalog(&self, choose: &mut Choose<'_>) {
        let catalogs: Vec<_> = self.files.iter().filter(|(name, _)| name.ends_with("catalog")).collect();
        let (name, bytes) = catalogs[choose(catalogs.len() as u64) as usize];
        let mut records = Vec::new();
        let mut at = catalog::HEADER;
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            records.push(at..at + length);
            at += length;
        }
        let record = records[choose(records.len() as u64) as usize].clone();
        let mut lie = bytes[record.clone()].to_vec();
        let payload = lie.len() - catalog::RECORD_HEADER;
        for _ in 0..1 + choose(3) {
            let at = catalog::RECORD_HEADER + choose(payload as u64) as usize;
            lie[at] = [0, 1, 0x7f, 0xff, lie[at] ^ 1 << choose(8)][choose(5) as usize];
        }
        lie[4] = choose(6) as u8;
        let hash = fnv(&lie[4..8], &lie[catalog::RECORD_HEADER..]);
        lie[8..16].copy_from_slice(&hash.to_le_bytes());
        let path = self.path.join(name);
        self.touch(&path);
        put(&path, record.start as u64, &lie);
    }
}

/// The word at byte `at` of a file.
fn word_in(path: &Path, at: usize) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Whether a file of this name has blocks of events.
fn has_blocks(name: &str) -> bool {
    ["element", "archive", "pool"].iter().any(|ending| name.ends_with(ending))
}

/// An unusual value for the word at byte `at` of `bytes`, often computed from its present value.
fn word(choose: &mut Choose<'_>, bytes: &[u8], at: u64) -> u64 {
    let now =
        bytes.get(at as usize..at as usize + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
    match choose(10) {
        0 => u64::MAX,
        1 => 1 << choose(64),
        2 => (1 << choose(64)) - 1,
        3 => now.wrapping_add(1),
        4 => now.wrapping_sub(1),
        5 => now ^ 1 << choose(64),
        6 => now.rotate_right(32),
        7 => choose(live::CHUNK_ROWS_MAX as u64 * 2),
        // Writes a chain of blocks of 64 MiB into a file that a hole makes long enough for them.
        8 => {
            let bits = choose(32);
            1 << (9 + choose(18)) | choose(1 << bits) << 32
        }
        _ => 0,
    }
}

/// FNV-1a of a record's type and payload.
fn fnv(record_type: &[u8], payload: &[u8]) -> u64 {
    let bytes = record_type.iter().chain(payload);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Opens a plain file for writing; `None` for other entries, because opening a FIFO would wait for a reader.
fn plain(path: &Path) -> Option<File> {
    let is_plain = std::fs::symlink_metadata(path).is_ok_and(|about| about.is_file());
    is_plain.then(|| OpenOptions::new().write(true).open(path).ok())?
}

/// Replaces the contents of a file, and reuses its memory.
fn write_over(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

fn put(path: &Path, at: u64, bytes: &[u8]) {
    if let Some(file) = plain(path) {
        let _ = file.write_all_at(bytes, at);
    }
}

fn cut(path: &Path, length: u64) {
    if let Some(file) = plain(path) {
        let _ = file.set_len(length);
    }
}

pub(crate) fn fifo(path: &Path) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let text = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the text ends with a zero and lives as long as the call.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::mkfifo(text.as_ptr(), 0o600) };
    if failed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

//! The cell of a setting: its value, the process and the tool that set it, and the lease under which it was set.
//!
//! The setter of a cell holds the lock of the file of settings, and writes the version last and the value
//! just before it. If a setter is killed in the middle, the next setter or the observed process repairs the
//! cell: to the value that was confirmed last, or to the complete new state.

use crate::error::Error;
use crate::file::{self, lock};
use crate::layout::settings as layout;
use std::cell::RefCell;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A lease without a time limit.
pub(crate) const NO_TIME: u64 = u64::MAX;

/// Access to the words of a cell and, from [`TOOL`] on, of the line that holds its tool's name.
pub(crate) trait Words {
    /// Loads a word.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Stores a word with release; no later store becomes visible before it.
    fn store(&self, at: usize, value: u64);
    /// An acquire fence.
    fn fence(&self);
}

/// The offset of the line with the tool's name in [`Words`].
pub(crate) const TOOL: usize = layout::CELL_BYTES;

/// Where the word `at` of cell `index` lies in the file.
pub(crate) fn place(index: usize, at: usize) -> usize {
    match at.checked_sub(TOOL) {
        None => layout::CELLS + index * layout::CELL_BYTES + at,
        Some(at) => layout::TOOLS + index * layout::TOOL_BYTES + at,
    }
}

/// A cell, copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The cell's version. An odd version means that the cell was being set during all tries, and only the
    /// value is known.
    pub(crate) version: u64,
    pub(crate) value: u64,
    /// The process and user that set the cell last; 0: unknown.
    pub(crate) pid: u32,
    pub(crate) user: u32,
    pub(crate) tool: String,
    /// The value that the end of a lease restores.
    pub(crate) confirmed: u64,
    /// The lease: one of the layout's states, its end ([`NO_TIME`]: none), and the start time of the process
    /// with which it ends, or 0.
    pub(crate) state: u64,
    pub(crate) until: u64,
    pub(crate) holder_start: u64,
}

/// How often to try to read a cell that is being set. The number is bounded, because the setter may have been
/// killed in the middle.
#[cfg(not(loom))]
const TRIES: usize = 100;
#[cfg(loom)]
const TRIES: usize = 2;

impl Cell {
    /// Reads a cell: its value, and the other words if it was not set meanwhile.
    pub(crate) fn read(words: &impl Words) -> Cell {
        for _ in 0..TRIES {
            // Acquire, paired with the setter's release at the end of setting.
            let version = words.load(layout::CELL_VERSION, Ordering::Acquire);
            if version & 1 == 1 {
                continue;
            }
            let cell = Cell::copied(words, version);
            // Paired with the setter's release after the odd version.
            words.fence();
            if words.load(layout::CELL_VERSION, Ordering::Relaxed) == version {
                return cell;
            }
        }
        let value = words.load(layout::VALUE, Ordering::Relaxed);
        let version = words.load(layout::CELL_VERSION, Ordering::Relaxed) | 1;
        Cell { version, value, confirmed: value, until: NO_TIME, ..Cell::default() }
    }

    fn copied(words: &impl Words, version: u64) -> Cell {
        // Acquire, because the setter stores the version after the words that it describes.
        let described = words.load(layout::LEASE_VERSION, Ordering::Acquire) == described(version);
        let load = |at| words.load(at, Ordering::Relaxed);
        let (value, setter) = (load(layout::VALUE), load(layout::SETTER));
        let cell =
            Cell { version, value, pid: setter as u32, user: (setter >> 32) as u32, ..Cell::default() };
        if !described {
            return Cell { confirmed: value, until: NO_TIME, ..cell };
        }
        Cell {
            tool: tool(words),
            confirmed: load(layout::CONFIRMED),
            state: load(layout::LEASE_STATE),
            until: load(layout::LEASE_UNTIL),
            holder_start: load(layout::HOLDER_START),
            ..cell
        }
    }

    /// Whether there is a lease.
    pub(crate) fn is_leased(&self) -> bool {
        self.state == layout::LEASE_HELD
    }

    /// Whether the same process and tool set this cell and `other`.
    pub(crate) fn is_of_the_setter_of(&self, other: &Cell) -> bool {
        (self.pid, self.user, &self.tool) == (other.pid, other.user, &other.tool)
    }
}

/// The tool's name, without control characters, which a terminal would interpret.
fn tool(words: &impl Words) -> String {
    let mut line = [0; layout::TOOL_BYTES];
    for (n, word) in line.chunks_mut(8).enumerate() {
        word.copy_from_slice(&words.load(TOOL + 8 * n, Ordering::Relaxed).to_le_bytes());
    }
    printable(&file::text(&line, 0, layout::TOOL_ROOM))
}

/// A text of another process, without control characters, which a terminal would interpret.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The version number that marks the lease words as those of this build.
fn described(version: u64) -> u64 {
    version | layout::DESCRIBED
}

/// The new state of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) value: u64,
    /// Whether the value becomes the confirmed one; otherwise the confirmed value stays.
    pub(crate) confirmed: bool,
    pub(crate) state: u64,
    pub(crate) until: u64,
    pub(crate) holder_start: u64,
    pub(crate) pid: u32,
    pub(crate) user: u32,
    pub(crate) tool: &'a str,
}

impl<'a> Write<'a> {
    /// A state that this process sets without a lease.
    pub(crate) fn permanent(value: u64, tool: &'a str) -> Write<'a> {
        Write {
            value,
            confirmed: true,
            state: layout::LEASE_NONE,
            until: NO_TIME,
            holder_start: 0,
            pid: std::process::id(),
            user: crate::process::user(),
            tool,
        }
    }
}

/// Sets a cell. The caller holds the lock.
fn put(words: &impl Words, write: &Write<'_>) -> u64 {
    settle(words);
    let odd = words.load(layout::CELL_VERSION, Ordering::Relaxed) | 1;
    words.store(layout::CELL_VERSION, odd);
    words.store(layout::SETTER, u64::from(write.pid) | u64::from(write.user) << 32);
    store_tool(words, write.tool);
    words.store(layout::LEASE_UNTIL, write.until);
    words.store(layout::HOLDER_START, write.holder_start);
    words.store(layout::LEASE_STATE, write.state);
    if write.confirmed {
        words.store(layout::CONFIRMED, write.value);
    }
    words.store(layout::VALUE, write.value);
    finish(words, odd)
}

/// The last steps of setting a cell: the version that the lease words belong to, and the even version.
fn finish(words: &impl Words, odd: u64) -> u64 {
    let version = odd.wrapping_add(1);
    words.store(layout::LEASE_VERSION, described(version));
    words.store(layout::CELL_VERSION, version);
    version
}

/// Repairs a cell whose setter was killed or is of a former build. The caller holds the lock, so no other
/// process is setting it.
fn settle(words: &impl Words) {
    let load = |at| words.load(at, Ordering::Relaxed);
    let version = load(layout::CELL_VERSION);
    let of = load(layout::LEASE_VERSION);
    if version & 1 == 0 {
        if of != described(version) {
            words.store(layout::CONFIRMED, load(layout::VALUE));
            forget_lease(words);
            words.store(layout::LEASE_VERSION, described(version));
        }
    } else if of == described(version.wrapping_add(1)) {
        // The writer stopped after everything but the version had been written.
        words.store(layout::CELL_VERSION, version.wrapping_add(1));
    } else {
        let mut state = layout::LEASE_NONE;
        if of == described(version.wrapping_sub(1)) {
            words.store(layout::VALUE, load(layout::CONFIRMED));
            if load(layout::LEASE_STATE) == layout::LEASE_HELD {
                state = layout::LEASE_HOLDER_DIED;
            }
        } else {
            words.store(layout::CONFIRMED, load(layout::VALUE));
            words.store(layout::SETTER, 0);
        }
        // The tool's name is cleared, because its words may be incomplete.
        store_tool(words, "");
        forget_lease(words);
        words.store(layout::LEASE_STATE, state);
        finish(words, version);
    }
}

fn forget_lease(words: &impl Words) {
    words.store(layout::LEASE_UNTIL, NO_TIME);
    words.store(layout::HOLDER_START, 0);
    words.store(layout::LEASE_STATE, layout::LEASE_NONE);
}

fn store_tool(words: &impl Words, tool: &str) {
    let mut end = tool.len().min(layout::TOOL_ROOM);
    while !tool.is_char_boundary(end) {
        end -= 1;
    }
    let mut line = [0; layout::TOOL_BYTES];
    line[..8].copy_from_slice(&(end as u64).to_le_bytes());
    line[8..8 + end].copy_from_slice(&tool.as_bytes()[..end]);
    for (n, word) in line.chunks_exact(8).enumerate() {
        words.store(TOOL + 8 * n, u64::from_le_bytes(word.try_into().expect("8 bytes")));
    }
}

/// The words of a cell in the file. Keeps the first error of an access.
pub(crate) struct InFile<'a> {
    file: &'a File,
    path: &'a Path,
    index: usize,
    /// The file's length. Files of former builds end before the names of tools.
    length: u64,
    problem: RefCell<Option<Error>>,
}

impl<'a> InFile<'a> {
    pub(crate) fn new(file: &'a File, path: &'a Path, index: usize) -> Result<InFile<'a>, Error> {
        let length = file::length(file, path)?;
        if index >= layout::CELL_COUNT || place(index, 0) as u64 + layout::CELL_BYTES as u64 > length {
            return Err(Error::new(format!("{} is truncated: cell {index} is missing", path.display())));
        }
        Ok(InFile { file, path, index, length, problem: RefCell::default() })
    }

    /// The word's offset in the file, if the file is long enough.
    fn place(&self, at: usize) -> Option<u64> {
        let place = place(self.index, at) as u64;
        (place + 8 <= self.length).then_some(place)
    }

    pub(crate) fn result<T>(&self, value: T) -> Result<T, Error> {
        self.problem.borrow_mut().take().map_or(Ok(value), Err)
    }

    fn failed(&self, error: Error) {
        self.problem.borrow_mut().get_or_insert(error);
    }
}

impl Words for InFile<'_> {
    fn load(&self, at: usize, _: Ordering) -> u64 {
        let Some(place) = self.place(at) else { return 0 };
        read_word(self.file, self.path, place).unwrap_or_else(|error| {
            self.failed(error);
            0
        })
    }

    fn store(&self, at: usize, value: u64) {
        let Some(place) = self.place(at) else { return };
        // The store is a system call, which orders it with the other stores.
        if let Err(error) = self.file.write_all_at(&value.to_le_bytes(), place) {
            self.failed(Error::io("write", self.path, error));
        }
    }

    fn fence(&self) {}
}

/// The words of all cells, copied by few system calls: the versions are copied before and after the other
/// words.
pub(crate) struct Copies {
    versions: Vec<u8>,
    cells: Vec<u8>,
    tools: Vec<u8>,
    versions_after: Vec<u8>,
}

impl Copies {
    /// Copies the first `count` cells, as far as the file has them.
    pub(crate) fn of(file: &File, path: &Path, count: usize) -> Result<Copies, Error> {
        let length = file::length(file, path)?;
        let copied = |from: usize, bytes: usize| {
            let there = usize::try_from(length.saturating_sub(from as u64)).unwrap_or(usize::MAX);
            let mut copy = vec![0; bytes.min(there) & !7];
            file::read_exact_at(file, path, &mut copy, from as u64).map(|()| copy)
        };
        let cells = || copied(layout::CELLS, count * layout::CELL_BYTES);
        // System calls are in order, as the loads of `Cell::read` are.
        Ok(Copies {
            versions: cells()?,
            cells: cells()?,
            tools: copied(layout::TOOLS, count * layout::TOOL_BYTES)?,
            versions_after: cells()?,
        })
    }

    /// The cell `index`; `None` if it was being set while the words were copied, or is missing.
    pub(crate) fn cell(&self, index: usize) -> Option<Cell> {
        let at = index * layout::CELL_BYTES + layout::CELL_VERSION;
        let version = |copy: &[u8]| Some(u64::from_le_bytes(*copy.get(at..)?.first_chunk()?));
        let before = version(&self.versions).filter(|version| version & 1 == 0)?;
        self.cells.get((index + 1) * layout::CELL_BYTES - 8..)?.first_chunk::<8>()?;
        let cell = Cell::copied(&OfCopy { copies: self, index }, before);
        (version(&self.versions_after) == Some(before)).then_some(cell)
    }
}

/// The words of one cell of [`Copies`].
struct OfCopy<'a> {
    copies: &'a Copies,
    index: usize,
}

impl Words for OfCopy<'_> {
    fn load(&self, at: usize, _: Ordering) -> u64 {
        let (copy, at) = match at.checked_sub(TOOL) {
            None => (&self.copies.cells, self.index * layout::CELL_BYTES + at),
            Some(at) => (&self.copies.tools, self.index * layout::TOOL_BYTES + at),
        };
        // Files of former builds end before the names of tools.
        copy.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn store(&self, _: usize, _: u64) {}

    fn fence(&self) {}
}

/// Sets cell `index` of the file `path` to the result of `decide`, and counts the change. Returns the cell's
/// new version.
pub(crate) fn change<'a>(
    path: &Path,
    index: usize,
    decide: impl FnOnce(&Cell) -> Result<Write<'a>, Error>,
) -> Result<u64, Error> {
    let file = open(path, true)?;
    lock(&file, path)?;
    change_locked(&file, path, index, decide)
}

/// Does what [`change`] does, without waiting for the lock: `None` if another process holds the lock.
pub(crate) fn try_change<'a>(
    path: &Path,
    index: usize,
    decide: impl FnOnce(&Cell) -> Result<Write<'a>, Error>,
) -> Result<Option<u64>, Error> {
    let Some(file) = try_locked(path)? else { return Ok(None) };
    change_locked(&file, path, index, decide).map(Some)
}

fn change_locked<'a>(
    file: &File,
    path: &Path,
    index: usize,
    decide: impl FnOnce(&Cell) -> Result<Write<'a>, Error>,
) -> Result<u64, Error> {
    let words = InFile::new(file, path, index)?;
    settle(&words);
    let cell = Cell::read(&words);
    let cell = words.result(cell)?;
    let version = put(&words, &decide(&cell)?);
    words.result(())?;
    count_change(file, path)?;
    Ok(version)
}

/// Repairs a cell whose setter was killed; `false` if another process holds the lock.
pub(crate) fn settle_dead(path: &Path, index: usize) -> Result<bool, Error> {
    let Some(file) = try_locked(path)? else { return Ok(false) };
    let words = InFile::new(&file, path, index)?;
    settle(&words);
    words.result(())?;
    count_change(&file, path)?;
    Ok(true)
}

fn try_locked(path: &Path) -> Result<Option<File>, Error> {
    let file = open(path, true)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(Error::io("lock", path, e)),
    }
}

/// Increments the count of changes, from which the process sees that it has to adopt a setting. The caller
/// holds the lock of the file of settings.
pub(crate) fn count_change(file: &File, path: &Path) -> Result<(), Error> {
    let changes = read_word(file, path, layout::CHANGES as u64)?;
    let counted = file.write_all_at(&changes.wrapping_add(1).to_le_bytes(), layout::CHANGES as u64);
    counted.map_err(|e| Error::io("write", path, e))
}

fn read_word(file: &File, path: &Path, at: u64) -> Result<u64, Error> {
    let mut word = [0; 8];
    file::read_exact_at(file, path, &mut word, at)?;
    Ok(u64::from_le_bytes(word))
}

/// Opens a file of settings.
pub(crate) fn open(path: &Path, write: bool) -> Result<File, Error> {
    let file = file::open(path, OpenOptions::new().read(true).write(write));
    let file = file.map_err(|e| Error::io("open", path, e))?;
    let mut header = [0; 16];
    file::read_exact_at(&file, path, &mut header, 0)?;
    file::check_magic(path, &header, layout::MAGIC_VALUE, "the settings")?;
    Ok(file)
}

/// Whether the process to which this file of settings belongs restores values when leases end.
pub(crate) fn keeps_leases(file: &File, path: &Path) -> Result<bool, Error> {
    Ok(read_word(file, path, layout::KEEPS_LEASES as u64)? != 0)
}

/// The cell's protocol under loom.
#[cfg(all(test, loom))]
mod loom_model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, fence};

    #[derive(Clone)]
    struct Model(Arc<Vec<AtomicU64>>);

    impl Words for Model {
        fn load(&self, at: usize, order: Ordering) -> u64 {
            // The model has no words for tools' names, which behave like the others.
            self.0.get(at / 8).map_or(0, |word| word.load(order))
        }

        // In a process each store is a system call.
        fn store(&self, at: usize, value: u64) {
            let Some(word) = self.0.get(at / 8) else { return };
            fence(Ordering::SeqCst);
            word.store(value, Ordering::Release);
            fence(Ordering::SeqCst);
        }

        fn fence(&self) {
            fence(Ordering::Acquire);
        }
    }

    #[test]
    fn the_setter_of_a_value_is_read_right_or_not_at_all() {
        let mut builder = loom::model::Builder::new();
        // Without a bound the model takes many minutes.
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let cell = Model(Arc::new((0..8).map(|_| AtomicU64::new(0)).collect()));
            let setter = cell.clone();
            let setting = loom::thread::spawn(move || {
                for n in 1..=2 {
                    let write = Write {
                        pid: n,
                        user: 0,
                        confirmed: n == 1,
                        ..Write::permanent(u64::from(10 * n), "")
                    };
                    put(&setter, &write);
                }
            });
            let seen = Cell::read(&cell);
            if seen.pid != 0 {
                let n = u64::from(seen.pid);
                assert_eq!((seen.value, seen.version, seen.confirmed), (10 * n, 2 * n, 10));
            }
            setting.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell as Plain;

    /// Words of a cell, with a writer that dies after a number of stores.
    struct Dying {
        words: Vec<Plain<u64>>,
        left: Plain<usize>,
    }

    impl Words for Dying {
        fn load(&self, at: usize, _: Ordering) -> u64 {
            self.words[at / 8].get()
        }
        fn store(&self, at: usize, value: u64) {
            if let Some(left) = self.left.get().checked_sub(1) {
                self.left.set(left);
                self.words[at / 8].set(value);
            }
        }
        fn fence(&self) {}
    }

    fn confirmed(value: u64) -> Write<'static> {
        Write::permanent(value, "person")
    }

    fn leased(value: u64) -> Write<'static> {
        Write { confirmed: false, state: layout::LEASE_HELD, until: 9, ..Write::permanent(value, "tuner") }
    }

    /// The setter of a cell is killed after each of its stores: after the next setter has repaired the cell, it holds
    /// the former state or the new one, and a value that was set under a lease never stays without the lease.
    #[test]
    fn a_setter_killed_at_any_step_leaves_a_whole_cell() {
        for before in [confirmed(1), leased(2)] {
            for after in [confirmed(5), leased(6)] {
                for step in 0.. {
                    let words = (0..16).map(|_| Plain::new(0)).collect();
                    let words = Dying { words, left: Plain::new(usize::MAX) };
                    put(&words, &confirmed(1));
                    put(&words, &before);
                    words.left.set(step);
                    put(&words, &after);
                    let done = words.left.get() > 0;
                    words.left.set(usize::MAX);
                    settle(&words);
                    let cell = Cell::read(&words);
                    assert_eq!(cell.version & 1, 0);
                    let whole = |of: &Write<'_>| (of.value, of.state) == (cell.value, cell.state);
                    let ended = [layout::LEASE_NONE, layout::LEASE_HOLDER_DIED].contains(&cell.state);
                    let is_confirmed = ended && [1, 5].contains(&cell.value);
                    assert!(is_confirmed && cell.confirmed == cell.value || whole(&before) || whole(&after));
                    assert!(!cell.is_leased() || cell.confirmed == 1, "{cell:?}");
                    if done {
                        assert!(whole(&after));
                        break;
                    }
                }
            }
        }
    }

    /// Cells that are copied by few system calls are as cells that are read word by word, and a cell that was
    /// set meanwhile is none.
    #[test]
    fn copied_cells_are_whole_or_none() {
        let words = Dying { words: (0..16).map(|_| Plain::new(0)).collect(), left: Plain::new(usize::MAX) };
        put(&words, &confirmed(1));
        put(&words, &leased(2));
        let bytes = |from: usize, to: usize| -> Vec<u8> {
            words.words[from..to].iter().flat_map(|word| word.get().to_le_bytes()).collect()
        };
        let (cell, tool) = (bytes(0, 8), bytes(8, 16));
        // The second of two cells is set; the first was never set.
        let two = |of: &[u8]| [&[0; layout::CELL_BYTES][..], of].concat();
        let copies = |after: &[u8]| Copies {
            versions: two(&cell),
            cells: two(&cell),
            tools: two(&tool),
            versions_after: two(after),
        };
        let whole = copies(&cell);
        assert_eq!(whole.cell(1), Some(Cell::read(&words)));
        assert_eq!(whole.cell(1).map(|cell| (cell.value, cell.tool)), Some((2, "tuner".to_owned())));
        assert_eq!(whole.cell(0).map(|cell| cell.value), Some(0));
        assert_eq!(whole.cell(2), None);
        put(&words, &confirmed(3));
        assert_eq!(copies(&bytes(0, 8)).cell(1), None);
        let setting = two(&[cell[..8].to_vec(), 7_u64.to_le_bytes().to_vec(), cell[16..].to_vec()].concat());
        let being_set = Copies { versions: setting.clone(), versions_after: setting, ..whole };
        assert_eq!(being_set.cell(1), None);
    }

    /// A former build without leases sets only the value, the setter and the version; its change counts as
    /// confirmed.
    #[test]
    fn what_a_former_build_sets_is_confirmed() {
        let words = Dying { words: (0..16).map(|_| Plain::new(0)).collect(), left: Plain::new(usize::MAX) };
        put(&words, &leased(2));
        for (at, word) in
            [(layout::CELL_VERSION, 3), (layout::SETTER, 7), (layout::VALUE, 8), (layout::CELL_VERSION, 4)]
        {
            words.store(at, word);
        }
        let cell = Cell::read(&words);
        assert_eq!(
            (cell.value, cell.confirmed, cell.is_leased(), cell.pid, &*cell.tool),
            (8, 8, false, 7, "")
        );
        put(&words, &leased(9));
        assert_eq!(Cell::read(&words).confirmed, 8);
    }
}

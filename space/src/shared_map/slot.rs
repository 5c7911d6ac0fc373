//! The slots of the shared map's file. Only the process writes them, under its lock; any process reads them.
//!
//! A slot's version is odd while the slot is written. A reader that finds the same even version before and
//! after it has read the slot has read one value with its stamp. The value of a number is one word, which a
//! box reads without looking at the version.

use super::replica::{Entry, Stamp};
use super::value::{MapType, MapValue};
use crate::error::Error;
use crate::file;
use crate::layout::{PAGE, shared_map as layout};
use crate::map::Map;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// How often a slot is read that is written meanwhile.
const TRIES: usize = 10_000;

/// A key of the shared map with its present value, as another process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapView {
    /// The key.
    pub key: String,
    /// What the key is for.
    pub doc: String,
    /// The value at the start.
    pub initial: MapValue,
    /// The value now.
    pub value: MapValue,
    /// When the value was written; the time is 0 if the value is the initial one.
    pub stamp: Stamp,
    /// The number of the process in its session whose box or user wrote the value.
    pub writer: u32,
}

/// The offset of a slot.
pub(super) fn place(at: usize) -> usize {
    layout::SLOTS + layout::SLOT_BYTES * at
}

/// Writes the parts of a slot that never change.
pub(super) fn describe(map: &Map, at: usize, entry: &Entry) {
    let slot = place(at);
    let (initial, text) = entry.initial.parts();
    put_bytes(map, slot + layout::INITIAL_TEXT, text);
    map.word(slot + layout::TYPE).store((entry.initial.type_of() as u64).to_le(), Ordering::Relaxed);
    map.word(slot + layout::INITIAL).store(initial.to_le(), Ordering::Relaxed);
    map.put_text(slot + layout::KEY, layout::KEY_BYTES, &entry.key);
    write(map, at, entry);
}

/// Writes the value of a slot and its stamp.
pub(super) fn write(map: &Map, at: usize, entry: &Entry) {
    let slot = place(at);
    let word = |at: usize| map.word(slot + at);
    let version = u64::from_le(word(layout::SLOT_VERSION).load(Ordering::Relaxed));
    word(layout::SLOT_VERSION).store((version + 1).to_le(), Ordering::Relaxed);
    // A reader that sees one of the following stores sees the odd version, too.
    fence(Ordering::Release);
    let (value, text) = entry.value.parts();
    if entry.initial.type_of() == MapType::Text {
        put_bytes(map, slot + layout::TEXT, text);
    }
    word(layout::TIME).store(entry.stamp.time.to_le(), Ordering::Relaxed);
    let writer = u64::from(entry.stamp.node) | u64::from(entry.writer) << 32;
    word(layout::WRITER).store(writer.to_le(), Ordering::Relaxed);
    map.put_text(slot + layout::DOC, layout::DOC_BYTES, &entry.doc);
    // Release: a box that reads a new number sees everything that the writer of the number did before.
    word(layout::VALUE).store(value, Ordering::Release);
    word(layout::SLOT_VERSION).store((version + 2).to_le(), Ordering::Release);
}

fn put_bytes(map: &Map, at: usize, text: &str) {
    for (index, chunk) in text.as_bytes().chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        map.word(at + 8 * index).store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
}

/// The text in a slot of this process.
pub(super) fn text(map: &Map, at: usize) -> String {
    let slot = place(at);
    loop {
        let before = map.word(slot + layout::SLOT_VERSION).load(Ordering::Acquire);
        let length =
            (map.word(slot + layout::VALUE).load(Ordering::Relaxed) as usize).min(layout::TEXT_BYTES);
        let mut bytes = [0; layout::TEXT_BYTES];
        for (index, chunk) in bytes.chunks_exact_mut(8).enumerate().take(length.div_ceil(8)) {
            let word = map.word(slot + layout::TEXT + 8 * index).load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        // Pairs with the release fence in `write`.
        fence(Ordering::Acquire);
        let after = map.word(slot + layout::SLOT_VERSION).load(Ordering::Relaxed);
        if before == after && u64::from_le(before).is_multiple_of(2) {
            return String::from_utf8_lossy(&bytes[..length]).into_owned();
        }
        std::hint::spin_loop();
    }
}

/// The keys in the file at `path`; none if there is no file, because the process has no shared map.
pub(crate) fn read(path: &Path) -> Result<Vec<MapView>, Error> {
    let file = match file::open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let mut header = [0; 128];
    file::read_exact_at(&file, path, &mut header, 0)?;
    file::check_magic(path, &header, layout::MAGIC_VALUE, "the shared map")?;
    let keys = (file::word(&header, layout::KEYS) as usize).min(layout::SLOT_COUNT);
    const _: () = assert!(layout::SLOTS == PAGE);
    let mut views = Vec::with_capacity(keys);
    for at in 0..keys {
        views.extend(read_slot(&file, path, at)?);
    }
    Ok(views)
}

/// The key of a slot; `None` if the slot has a type that this version does not know.
fn read_slot(file: &std::fs::File, path: &Path, at: usize) -> Result<Option<MapView>, Error> {
    for _ in 0..TRIES {
        let (mut before, mut slot, mut after) = ([0; 8], [0; layout::SLOT_BYTES], [0; 8]);
        let version_at = (place(at) + layout::SLOT_VERSION) as u64;
        // The version is read by itself, because in the slot the value lies before it.
        file::read_exact_at(file, path, &mut before, version_at)?;
        file::read_exact_at(file, path, &mut slot, place(at) as u64)?;
        file::read_exact_at(file, path, &mut after, version_at)?;
        let version = file::word(&before, 0);
        if !version.is_multiple_of(2) || version != file::word(&after, 0) {
            continue;
        }
        let word = |at: usize| file::word(&slot, at);
        let Some(kind) = MapType::of(word(layout::TYPE)) else { return Ok(None) };
        let text = |at: usize, length: u64, most: usize| {
            String::from_utf8_lossy(&slot[at..][..(length as usize).min(most)]).into_owned()
        };
        let value = |word: u64, at: usize| {
            let text = match kind {
                MapType::Text => text(at, word, layout::TEXT_BYTES),
                _ => String::new(),
            };
            MapValue::of_parts(kind, word, &text)
        };
        return Ok(Some(MapView {
            key: text(layout::KEY + 8, word(layout::KEY), layout::KEY_BYTES),
            doc: text(layout::DOC + 8, word(layout::DOC), layout::DOC_BYTES),
            initial: value(word(layout::INITIAL), layout::INITIAL_TEXT),
            value: value(word(layout::VALUE), layout::TEXT),
            stamp: Stamp { time: word(layout::TIME), node: word(layout::WRITER) as u32 },
            writer: (word(layout::WRITER) >> 32) as u32,
        }));
    }
    Err(Error::new(format!(
        "key {at} in {} cannot be read: its process was stopped or killed while it wrote the value",
        path.display()
    )))
}

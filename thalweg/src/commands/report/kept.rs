//! The data for the pictures of a run that has ended, stored beside its events as [`thalweg_view::Kept`].

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use thalweg_space::reader::{Feed, PathFeed};
use thalweg_view::Kept;

/// The name of the file, which lies in the directory of the run, or for a session in the directory of its
/// first process.
const FILE: &str = "pictures";
/// Data of runs with fewer events are not stored, because making them again takes no noticeable time.
const EVENTS_MIN: u64 = 100_000;

/// The stored data for the events of the feed; `None` if no data were stored, or if they are damaged or
/// belong to other events.
pub(super) fn read(feed: &PathFeed) -> Option<Kept> {
    let of = made_from(feed)?;
    Kept::read(&std::fs::read(place(feed)?).ok()?, &of)
}

/// The files with the events from which the pictures are made, by name, size and time of change, if the run
/// has ended and was kept, so that the files do not change any more.
pub(super) fn made_from(feed: &PathFeed) -> Option<String> {
    let mut of = env!("CARGO_PKG_VERSION").to_owned();
    for space in feed.spaces() {
        let info = space.info().ok()?;
        if info.is_alive() || !(info.keep || info.archive) || !space.path().join("segments").is_file() {
            return None;
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(space.path()).ok()? {
            let entry = entry.ok()?;
            let (name, about) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata().ok()?);
            // Files that a reader of the run may change, such as the settings and the mailbox, are left out.
            if name.starts_with(FILE) || matches!(&name[..], "settings" | "mailbox") || !about.is_file() {
                continue;
            }
            let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
            files.push((name, about.len(), changed));
        }
        files.sort();
        let folder = space.path().file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(of, "\n{folder} {}", feed.is_single());
        for (name, bytes, changed) in &files {
            let _ = writeln!(of, "{name} {bytes} {changed}");
        }
    }
    Some(of)
}

/// Writes the data, unless the run is small. An error is ignored, because without stored data the pictures
/// are made from the events each time.
pub(super) fn write(feed: &PathFeed, kept: &Kept, events: u64) {
    let Some(place) = place(feed).filter(|_| events >= EVENTS_MIN) else { return };
    let new = place.with_extension("new");
    if std::fs::write(&new, kept.write()).and_then(|()| std::fs::rename(&new, &place)).is_err() {
        let _ = std::fs::remove_file(&new);
    }
}

fn place(feed: &PathFeed) -> Option<PathBuf> {
    let first: Option<&Path> = feed.spaces().first().map(|space| space.path());
    first.map(|path| path.join(FILE))
}

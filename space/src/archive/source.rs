//! What a process sends of its space to another machine: an archive that is written into a directory of its
//! own, in pieces of files.

use super::{ArchiveOptions, Archiver};
use crate::directory::IDENTITY;
use crate::error::Error;
use crate::file;
use crate::layout::PAGE;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The beginning of the names of directories that hold what waits to be sent; the process id follows.
pub const COPYING: &str = "copying-";
/// Bytes of a segment.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes of a piece's head: the length of the name (u16), the number of bytes (u32), the position (u64).
const HEAD_BYTES: usize = 14;
/// The least bytes that are worth a piece.
const PIECE_BYTES_MIN: usize = PAGE;

/// Sends the events, catalogs, settings and live rows of a space in *pieces*, each of which says which bytes
/// belong at which position of which file. [`SpaceCopy`](super::SpaceCopy) writes them.
///
/// Events are archived when pieces are taken, and the archive's files are removed when they were sent. So if
/// nobody takes pieces, nothing is written, and events are overwritten as if there were no source.
#[derive(Debug)]
pub struct SpaceSource {
    /// `None` after the last events were archived, and if somebody else archives them.
    archiver: Option<Archiver>,
    directory: PathBuf,
    /// The directory that is removed at the end with everything in it.
    own: Option<PathBuf>,
    /// The bytes that were sent of each file that only grows.
    sent: HashMap<String, u64>,
    /// The contents, as they were sent last, of each file that changes in place.
    known: HashMap<String, Vec<u8>>,
    /// The files of the present round that were not sent completely.
    round: Vec<Part>,
}

/// A file of a round. The order of a round is that of these values: what later files refer to comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Catalog(String, u64),
    Segment(String, u64),
    /// The list of segments.
    List(String, u64),
    Changing(String),
    Identity(String),
}

impl Part {
    fn of(name: String, length: u64) -> Option<Part> {
        Some(match name.as_str() {
            IDENTITY => Part::Identity(name),
            "segments" => Part::List(name, length),
            _ if name.ends_with(".catalog") => Part::Catalog(name, length),
            _ if name.ends_with(".segment") => Part::Segment(name, length),
            "settings" | "probes" | "map" => Part::Changing(name),
            _ if name.starts_with("live.") && !name.ends_with(".new") => Part::Changing(name),
            _ => return None,
        })
    }
}

impl SpaceSource {
    /// Begins to send the space of this process in `space`. A directory beside it holds what waits to be sent.
    ///
    /// # Errors
    /// As [`Archiver::with_options`].
    pub fn open(space: &Path) -> Result<SpaceSource, Error> {
        // The directory lies in one of its own, where nobody takes it for an archive to be read.
        let own = space.with_file_name(format!("{COPYING}{}", std::process::id()));
        let directory = own.join("archive");
        let options = ArchiveOptions {
            directory: Some(directory.clone()),
            segment_bytes: SEGMENT_BYTES,
            is_synced: true,
            ..ArchiveOptions::default()
        };
        let archiver = Some(Archiver::with_options(space, options)?);
        let (sent, known) = (HashMap::new(), HashMap::new());
        Ok(SpaceSource { archiver, directory, own: Some(own), sent, known, round: Vec::new() })
    }

    /// Begins to send the space in `space` whose events an [`Archiver`] keeps beside the elements.
    pub fn of_kept(space: &Path) -> SpaceSource {
        let (sent, known) = (HashMap::new(), HashMap::new());
        SpaceSource { archiver: None, directory: space.to_owned(), own: None, sent, known, round: Vec::new() }
    }

    /// Appends pieces to `out`, until it has `bytes_max` bytes or a little more. Returns whether the round is
    /// complete: the files that were sent then belong together, and the next call begins a round with the
    /// events that were recorded meanwhile. With `is_last` the round takes everything and the final counts.
    ///
    /// # Errors
    /// The events cannot be archived, or the directory cannot be read.
    pub fn pieces(&mut self, bytes_max: usize, is_last: bool, out: &mut Vec<u8>) -> Result<bool, Error> {
        if self.round.is_empty() {
            if is_last && let Some(archiver) = self.archiver.take() {
                archiver.finish()?;
            } else if let Some(archiver) = &mut self.archiver {
                archiver.step()?;
            }
            self.begin_round()?;
        }
        // The parts are taken from the end.
        while let Some(part) = self.round.pop() {
            if !self.send(&part, bytes_max, out)? {
                self.round.push(part);
                return Ok(false);
            }
        }
        if self.own.is_some() {
            self.remove_sent();
        }
        Ok(true)
    }

    fn begin_round(&mut self) -> Result<(), Error> {
        let failed = |e| Error::io("read", &self.directory, e);
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let length = entry.metadata().map_err(failed)?.len();
            self.round.extend(Part::of(entry.file_name().to_string_lossy().into_owned(), length));
        }
        self.round.sort_by(|a, b| b.cmp(a));
        Ok(())
    }

    /// Sends a file; returns false if something of it is left.
    fn send(&mut self, part: &Part, bytes_max: usize, out: &mut Vec<u8>) -> Result<bool, Error> {
        match part {
            Part::Catalog(name, length) | Part::Segment(name, length) | Part::List(name, length) => {
                let path = self.directory.join(name);
                let from = self.sent.get(name).copied().unwrap_or(0);
                if from >= *length {
                    return Ok(true);
                }
                let room = bytes_max.saturating_sub(out.len()).max(PIECE_BYTES_MIN) as u64;
                let mut bytes = vec![0; (length - from).min(room) as usize];
                let opened = file::open_to_read(&path).map_err(|e| Error::io("open", &path, e))?;
                file::read_exact_at(&opened, &path, &mut bytes, from)?;
                put(out, name, from, &bytes);
                let to = from + bytes.len() as u64;
                self.sent.insert(name.clone(), to);
                Ok(to == *length && out.len() < bytes_max)
            }
            Part::Changing(name) | Part::Identity(name) => {
                let path = self.directory.join(name);
                let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
                let known = self.known.entry(name.clone()).or_default();
                known.resize(bytes.len().min(known.len()), 0);
                for (at, page) in bytes.chunks(PAGE).enumerate() {
                    let from = at * PAGE;
                    if known.get(from..from + page.len()) != Some(page) {
                        if out.len() >= bytes_max {
                            return Ok(false);
                        }
                        put(out, name, from as u64, page);
                        known.resize(known.len().max(from + page.len()), 0);
                        known[from..from + page.len()].copy_from_slice(page);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Removes the segments that were sent, except for the last one, which may still grow.
    fn remove_sent(&mut self) {
        let mut segments: Vec<&String> = self.sent.keys().filter(|name| name.ends_with(".segment")).collect();
        segments.sort();
        segments.pop();
        for name in segments.into_iter().cloned().collect::<Vec<_>>() {
            // An error is ignored: the directory is removed at the end with all files.
            let _ = std::fs::remove_file(self.directory.join(&name));
            self.sent.remove(&name);
        }
    }
}

impl Drop for SpaceSource {
    fn drop(&mut self) {
        // An error is ignored: `thalweg clean` removes what is left.
        self.own.iter().for_each(|own| _ = std::fs::remove_dir_all(own));
    }
}

fn put(out: &mut Vec<u8>, name: &str, position: u64, bytes: &[u8]) {
    out.extend((name.len() as u16).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(position.to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(bytes);
}

/// A piece of a file.
pub(super) struct Piece<'a> {
    pub(super) name: &'a str,
    pub(super) position: u64,
    pub(super) bytes: &'a [u8],
}

/// Takes the first piece from `bytes`; `None` if there is no complete one.
pub(super) fn take<'a>(bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let name_bytes = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
    let position = file::word(head, 6);
    let (name, rest) = rest.split_at_checked(name_bytes)?;
    let (piece, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(Piece { name: std::str::from_utf8(name).ok()?, position, bytes: piece })
}

//! The copy of a space of another machine, in the directory of a session of this machine.

use super::source::{Piece, take};
use crate::catalog::Joined;
use crate::clock::{Anchor, system_ns};
use crate::directory::{IDENTITY, make_private};
use crate::discover::is_numbered;
use crate::error::Error;
use crate::file::{self, word};
use crate::layout::{PAGE, identity};
use crate::reader::{FLAG_ARCHIVE, FLAG_KEEP, FLAG_LIVED};
use crate::session::Manifest;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Two moments further apart than this many nanoseconds show how fast the other machine's clock goes.
const APART_NS: u64 = 500_000_000;

/// How times of another machine's clock become times of this machine: two moments, each by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMap {
    /// The first moment: ticks of the other machine's clock, nanoseconds since 1970 by this machine's.
    pub first: (u64, u64),
    /// The last moment, which is that until which the copy shows the process.
    pub last: (u64, u64),
    /// The largest error of times between the two moments, in nanoseconds.
    pub error_ns: u64,
}

/// A copy of a space of another machine, which a [`SpaceSource`](super::SpaceSource) sends in pieces. Any
/// reader opens it like a space. Its events are bit for bit those of the other machine; its clock says which
/// times of this machine their times are.
#[derive(Debug)]
pub struct SpaceCopy {
    directory: PathBuf,
    /// The files, each with its length.
    files: HashMap<String, (File, u64)>,
    /// The identity as the other machine sent it.
    identity: Vec<u8>,
    has_joined: bool,
}

impl SpaceCopy {
    /// Makes a copy with the name `name`, of letters, digits and punctuation other than `/`, in the directory
    /// of the session. A former copy of this name is removed.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn create(session: &Path, name: &str) -> Result<SpaceCopy, Error> {
        let directory = session.join(name);
        if directory.exists() {
            crate::discover::remove(&directory)?;
        }
        make_private(&directory)?;
        Ok(SpaceCopy { directory, files: HashMap::new(), identity: Vec::new(), has_joined: false })
    }

    /// The directory of the copy.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Writes pieces.
    ///
    /// # Errors
    /// The bytes are no pieces of a space, or cannot be written.
    pub fn take(&mut self, mut pieces: &[u8]) -> Result<(), Error> {
        while !pieces.is_empty() {
            let refused = || Error::new("another machine sent what are no pieces of a space");
            let piece = take(&mut pieces).ok_or_else(refused)?;
            self.write(&piece)?;
        }
        Ok(())
    }

    fn write(&mut self, piece: &Piece<'_>) -> Result<(), Error> {
        let Piece { name, position, bytes } = *piece;
        let refused = || Error::new(format!("another machine sent `{name}`, which is no file of a space"));
        if name == IDENTITY {
            if position != 0 || bytes.len() != PAGE {
                return Err(refused());
            }
            self.identity = bytes.to_vec();
            return Ok(());
        }
        if !is_numbered(name) && !matches!(name, "settings" | "probes" | "map" | "segments") {
            return Err(refused());
        }
        let path = self.directory.join(name);
        let (file, length) = match self.files.get_mut(name) {
            Some(known) => known,
            None => {
                let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
                let made = made.map_err(|e| Error::io("create", &path, e))?;
                self.files.entry(name.to_owned()).or_insert((made, 0))
            }
        };
        // A file has no holes, so it takes no more room than what was sent.
        if position > *length {
            return Err(refused());
        }
        file.write_all_at(bytes, position).map_err(|e| Error::io("write", &path, e))?;
        *length = (*length).max(position + bytes.len() as u64);
        Ok(())
    }

    /// Shows what was written since the last call to readers, when a round of pieces is complete. `lives`:
    /// the process still runs, and more pieces come.
    ///
    /// # Errors
    /// No identity was sent, or the files cannot be written.
    pub fn publish(&mut self, map: ClockMap, lives: bool) -> Result<(), Error> {
        if self.identity.len() != PAGE {
            return Err(Error::new("another machine sent no identity of its space"));
        }
        let path = self.directory.join(IDENTITY);
        file::check_magic(&path, &self.identity, identity::MAGIC_VALUE, "the identity")?;
        let mut page = self.identity.clone();
        mapped(&mut page, map);
        let mut put = |at: usize, value: u64| page[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let flags = word(&self.identity, identity::FLAGS) | FLAG_KEEP | FLAG_ARCHIVE;
        put(identity::FLAGS, if lives { flags | FLAG_LIVED } else { flags & !FLAG_LIVED });
        let pid = std::process::id();
        put(identity::FETCHER, if lives { u64::from(pid) } else { 0 });
        put(identity::FETCHER_START, crate::process::start_time(pid).unwrap_or(0));
        self.replace_identity(&page, &path)?;
        if !std::mem::replace(&mut self.has_joined, true) {
            self.join(&page)?;
        }
        if !lives {
            crate::session::left(&self.directory, uuid(&page))?;
        }
        Ok(())
    }

    /// Replaces the identity in the same file, which readers have open.
    fn replace_identity(&mut self, page: &[u8], path: &Path) -> Result<(), Error> {
        let failed = |e| Error::io("write", path, e);
        if let Some((file, _)) = self.files.get(IDENTITY) {
            // While the version of the second anchor is odd, readers try again.
            let odd = word(page, identity::ANCHOR_SECOND) | 1;
            file.write_all_at(&odd.to_le_bytes(), identity::ANCHOR_SECOND as u64).map_err(failed)?;
            let version = identity::ANCHOR_SECOND;
            let both = [(0, &page[..version]), (version + 8, &page[version + 8..])];
            for (at, bytes) in both {
                file.write_all_at(bytes, at as u64).map_err(failed)?;
            }
            return file.write_all_at(&page[version..version + 8], version as u64).map_err(failed);
        }
        let new = self.directory.join(format!("{IDENTITY}.new"));
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let file = made.map_err(failed)?;
        file.write_all_at(page, 0).map_err(failed)?;
        std::fs::rename(&new, path).map_err(failed)?;
        self.files.insert(IDENTITY.to_owned(), (file, PAGE as u64));
        Ok(())
    }

    /// Adds the copy to the manifest of the session. The process that fetches the copy stands for the one
    /// that it is of, because the system of this machine knows only the former.
    fn join(&self, page: &[u8]) -> Result<(), Error> {
        let session = self.directory.parent().unwrap_or(Path::new(""));
        let pid = std::process::id();
        let parent_pid = crate::process::parent();
        Manifest::enter(session.to_owned())?.append_joined(Joined {
            uuid: uuid(page),
            pid,
            parent_pid,
            process_start: crate::process::start_time(pid).unwrap_or(0),
            parent_start: crate::process::start_time(parent_pid).unwrap_or(0),
            boot_id: crate::process::boot_id(),
            time_ns: system_ns(libc::CLOCK_REALTIME),
            directory: self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            name: file::text(page, identity::NAME, identity::NAME_BYTES),
            host: crate::process::host(),
            architecture: std::env::consts::ARCH.to_owned(),
        })
    }

    /// Removes the copy.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(self) -> Result<(), Error> {
        crate::discover::remove(&self.directory)
    }
}

fn uuid(page: &[u8]) -> [u8; 16] {
    page[identity::UUID..identity::UUID + 16].try_into().expect("16 bytes")
}

/// Changes the clock of an identity so that its real times are those of this machine.
fn mapped(page: &mut [u8], map: ClockMap) {
    let anchor = |at: usize| Anchor {
        ticks: word(page, at),
        monotonic_ns: word(page, at + 8),
        real_ns: word(page, at + 16),
    };
    let first = anchor(identity::ANCHOR_FIRST);
    let ((ticks, real_ns), (last_ticks, last_real_ns)) = (map.first, map.last);
    let apart_ns = last_real_ns.saturating_sub(real_ns);
    let hz = match apart_ns > APART_NS && last_ticks > ticks {
        true => (last_ticks - ticks) as f64 * 1e9 / apart_ns as f64,
        false => (word(page, identity::FREQUENCY) as f64).max(1.0),
    };
    let ns = |from: u64, to: u64| (to.wrapping_sub(from) as i64 as f64 * 1e9 / hz) as i64;
    let first_real_ns = last_real_ns.saturating_add_signed(ns(last_ticks, first.ticks));
    let mut put = |at: usize, value: u64| page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(identity::FREQUENCY, hz.round() as u64);
    put(identity::ANCHOR_FIRST + 16, first_real_ns);
    // Readers compute the frequency from the ticks and monotonic times of both anchors.
    put(identity::ANCHOR_SECOND, 2);
    put(identity::ANCHOR_SECOND + 8, last_ticks);
    put(identity::ANCHOR_SECOND + 16, first.monotonic_ns.saturating_add_signed(ns(first.ticks, last_ticks)));
    put(identity::ANCHOR_SECOND + 24, last_real_ns);
    put(identity::CLOCK_ERROR, map.error_ns.saturating_add(1));
}

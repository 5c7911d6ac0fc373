//! Copies of a space's other files in an archive with a directory of its own: the identity, the catalogs, and
//! the last state of the settings and live rows. With these files the directory can be opened like the space.

use crate::directory::{IDENTITY, make_private};
use crate::error::Error;
use crate::file::{self, word};
use crate::layout::{PAGE, identity};
use crate::reader::{FLAG_ARCHIVE, FLAG_KEEP, FLAG_LIVED};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 16;

/// The copies of a space's other files.
#[derive(Debug)]
pub(super) struct Mirror {
    space: PathBuf,
    directory: PathBuf,
    /// The file of the space's identity. The space's files are opened in advance, because the space may be
    /// removed while its archive is written.
    identity: File,
    /// Files that only grow, each with its copy and the number of bytes copied.
    growing: HashMap<String, Growing>,
    /// Files that change in place.
    changing: HashMap<String, File>,
    page: Vec<u8>,
}

#[derive(Debug)]
struct Growing {
    from: File,
    to: File,
    copied: u64,
}

impl Mirror {
    /// Makes the directory, or continues the archive in it.
    pub(super) fn open(space: &Path, directory: &Path) -> Result<Mirror, Error> {
        let path = space.join(IDENTITY);
        let identity = file::open_to_read(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::new(format!("there is no space in {}", space.display())),
            _ => Error::io("open", &path, e),
        })?;
        make_private(directory)?;
        check_directory(&identity, &path, directory)?;
        let mut mirror = Mirror {
            space: space.to_path_buf(),
            directory: directory.to_path_buf(),
            identity,
            growing: HashMap::new(),
            changing: HashMap::new(),
            page: Vec::new(),
        };
        mirror.catalogs(0)?;
        mirror.follow()?;
        Ok(mirror)
    }

    /// Copies the new records of the process's catalog and of the catalog of this number: must be called
    /// before events that refer to the records are written.
    pub(super) fn catalogs(&mut self, number: u32) -> Result<(), Error> {
        for number in [0, number] {
            self.grow(&format!("{number:04}.catalog"))?;
        }
        Ok(())
    }

    fn grow(&mut self, name: &str) -> Result<(), Error> {
        let (from_path, to_path) = (self.space.join(name), self.directory.join(name));
        if !self.growing.contains_key(name) {
            let from = match file::open_to_read(&from_path) {
                Ok(from) => from,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(e) => return Err(Error::io("open", &from_path, e)),
            };
            let to = opened(&to_path)?;
            let copied = file::length(&to, &to_path)?;
            self.growing.insert(name.to_string(), Growing { from, to, copied });
        }
        let Some(growing) = self.growing.get_mut(name) else { return Ok(()) };
        let length = file::length(&growing.from, &from_path)?;
        let mut bytes = vec![0; COPY_BYTES];
        while growing.copied < length {
            let part = (length - growing.copied).min(COPY_BYTES as u64) as usize;
            file::read_exact_at(&growing.from, &from_path, &mut bytes[..part], growing.copied)?;
            let written = growing.to.write_all_at(&bytes[..part], growing.copied);
            written.map_err(|e| Error::io("write", &to_path, e))?;
            growing.copied += part as u64;
        }
        Ok(())
    }

    /// Copies the current state of all files except those with events.
    pub(super) fn follow(&mut self) -> Result<(), Error> {
        let names: Vec<String> = self.growing.keys().cloned().collect();
        names.iter().try_for_each(|name| self.grow(name))?;
        for name in ["settings", "probes", "map"] {
            self.change(name)?;
        }
        let path = self.space.join(IDENTITY);
        self.page.resize(PAGE, 0);
        file::read_exact_at(&self.identity, &path, &mut self.page, 0)?;
        let chunks = word(&self.page, identity::LIVE_CHUNKS).min(1 << 10);
        for chunk in 0..chunks {
            self.change(&format!("live.{chunk}"))?;
        }
        self.identity()
    }

    /// Replaces the copy of a file, if the file still exists.
    fn change(&mut self, name: &str) -> Result<(), Error> {
        let path = self.space.join(name);
        if !self.changing.contains_key(name) {
            match file::open_to_read(&path) {
                Ok(file) => drop(self.changing.insert(name.to_string(), file)),
                Err(_) => return Ok(()),
            }
        }
        let file = &self.changing[name];
        let mut bytes = vec![0; usize::try_from(file::length(file, &path)?.min(1 << 30)).unwrap_or(0)];
        file::read_exact_at(file, &path, &mut bytes, 0)?;
        replace(&self.directory.join(name), &bytes)
    }

    /// Replaces the copy of the identity, and marks it as that of an archive.
    fn identity(&mut self) -> Result<(), Error> {
        let path = self.space.join(IDENTITY);
        let mut before = Vec::new();
        // The second anchor has a version that is odd while it is written.
        for _ in 0..100 {
            file::read_exact_at(&self.identity, &path, &mut self.page, 0)?;
            let version = word(&self.page, identity::ANCHOR_SECOND);
            if version.is_multiple_of(2) && before == self.page {
                break;
            }
            before.clone_from(&self.page);
        }
        let boot = self.page[identity::BOOT..identity::BOOT + 16].try_into().expect("16 bytes");
        let (pid, start) =
            (word(&self.page, identity::PID) as u32, word(&self.page, identity::PROCESS_START));
        let lives = crate::process::is_alive_here(boot, pid, start);
        let flags = word(&self.page, identity::FLAGS) | FLAG_KEEP | FLAG_ARCHIVE;
        let flags = if lives { flags | FLAG_LIVED } else { flags & !FLAG_LIVED };
        self.page[identity::FLAGS..][..8].copy_from_slice(&flags.to_le_bytes());
        replace(&self.directory.join(IDENTITY), &self.page)
    }
}

/// Returns an error for a directory that holds anything but an archive of this space.
fn check_directory(identity: &File, path: &Path, directory: &Path) -> Result<(), Error> {
    let mut page = [0; PAGE];
    file::read_exact_at(identity, path, &mut page, 0)?;
    file::check_magic(path, &page, identity::MAGIC_VALUE, "the identity")?;
    let uuid = |page: &[u8]| page[identity::UUID..identity::UUID + 16].to_vec();
    let there = directory.join(IDENTITY);
    let mut kept = [0; PAGE];
    match file::open_to_read(&there) {
        Ok(file) => {
            file::read_exact_at(&file, &there, &mut kept, 0)?;
            let is_archive = word(&kept, identity::FLAGS) & FLAG_ARCHIVE != 0;
            if is_archive && uuid(&kept) == uuid(&page) {
                return Ok(());
            }
            let what = if is_archive { "the archive of another space" } else { "a space" };
            Err(Error::new(format!("{} holds {what}: record into another directory", directory.display())))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let mut entries = std::fs::read_dir(directory).map_err(|e| Error::io("read", directory, e))?;
            // Files of an archive without a copied identity may be from a recorder that was killed just after
            // its start, so they are accepted.
            let foreign = entries.find(|entry| {
                entry.as_ref().is_ok_and(|entry| {
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    !name.ends_with(".catalog")
                        && !name.ends_with(".new")
                        && !name.starts_with("live.")
                        && !matches!(&*name, "settings" | "probes" | "map")
                })
            });
            if foreign.is_none() {
                return Ok(());
            }
            Err(Error::new(format!(
                "{} holds something else than an archive: record into an empty directory",
                directory.display()
            )))
        }
        Err(e) => Err(Error::io("open", &there, e)),
    }
}

/// Opens a copy for writing; it is made if there is none.
fn opened(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let file = file::open(path, options.write(true).create(true).truncate(false).mode(0o600));
    file.map_err(|e| Error::io("create", path, e))
}

/// Replaces a file by one with these bytes, which is renamed to `path` when it is complete.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let _ = std::fs::remove_file(&new);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let file = file.map_err(|e| Error::io("create", &new, e))?;
    file.write_all_at(bytes, 0).map_err(|e| Error::io("write", &new, e))?;
    std::fs::rename(&new, path).map_err(|e| Error::io("name", path, e))
}

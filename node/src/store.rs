//! Box libraries by their hash: each is sent to a node once, and the node accepts a file only if the file has
//! the announced hash. The hash is compared again before a kept file is first used, because a disk that was
//! full or failed may have lost a part of it.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ring::digest::{Context, SHA256};

use crate::channel::{hex, random, unhex};

/// The largest library that is accepted, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// A file that was begun this long ago is no longer received by any node, so the node that began it has
/// ended.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The folder of a node's libraries: `HASH/NAME`.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// For each hash that a file was found to have, the state of the file at that time.
    compared: Mutex<HashMap<String, State>>,
}

/// Values by which a changed file is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl State {
    fn of(file: &Metadata) -> State {
        State { inode: file.ino(), bytes: file.len(), modified: (file.mtime(), file.mtime_nsec()) }
    }
}

/// A library that is being received.
pub(crate) struct Receiving {
    hash: String,
    name: String,
    path: PathBuf,
    file: File,
    summed: Context,
    bytes: u64,
}

impl Store {
    pub(crate) fn open(folder: PathBuf) -> io::Result<Store> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for file in std::fs::read_dir(&folder)?.flatten().filter(is_abandoned) {
            // An error is ignored: another node of this machine may have removed it.
            let _ = std::fs::remove_file(file.path());
        }
        Ok(Store { folder, compared: Mutex::default() })
    }

    /// The path of a library, if the store has it. A file that no longer has the hash is removed, so the library
    /// is sent again.
    pub(crate) fn find(&self, hash: &str) -> Option<PathBuf> {
        unhex::<32>(hash)?;
        let files = std::fs::read_dir(self.folder.join(hash)).ok()?.flatten();
        let mut files = files.filter(|file| !is_copy(file)).map(|file| file.path());
        files.find(|path| self.is_whole(path, hash))
    }

    fn is_whole(&self, path: &Path, hash: &str) -> bool {
        let Ok(state) = path.metadata().map(|file| State::of(&file)) else { return false };
        // A panic under this lock leaves the map as it was.
        let compared = || self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared().get(hash) == Some(&state) {
            return true;
        }
        let is_whole = hash_of(path).is_ok_and(|found| found == hash);
        if is_whole {
            compared().insert(hash.to_owned(), state);
        } else {
            // An error is ignored: a library that is sent again replaces the file.
            let _ = std::fs::remove_file(path);
        }
        is_whole
    }

    /// Begins to receive a library of this hash and file name.
    pub(crate) fn receive(&self, hash: &str, name: &str) -> Result<Receiving, String> {
        let is_plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if unhex::<32>(hash).is_none() || !is_plain || name.len() > 200 {
            return Err(format!("`{name}` with the hash `{hash}` is no library"));
        }
        let failed = |error: io::Error| format!("cannot keep the library {name}: {error}");
        let number = random::<8>().map_err(failed)?;
        let path = self.folder.join(format!(".{}", hex(&number)));
        let file = File::create_new(&path).map_err(failed)?;
        let (hash, name) = (hash.to_owned(), name.to_owned());
        Ok(Receiving { hash, name, path, file, summed: Context::new(&SHA256), bytes: 0 })
    }

    /// Finishes a library, which is kept if it has the announced hash.
    pub(crate) fn keep(&self, receiving: &mut Receiving) -> Result<(), String> {
        let got = hex(receiving.summed.clone().finish().as_ref());
        let Receiving { hash, name, .. } = receiving;
        if got != *hash {
            return Err(format!(
                "the library {name} arrived with the hash {got} and not {hash}: it is not used"
            ));
        }
        let failed = |error: io::Error| format!("cannot keep the library {name}: {error}");
        receiving.file.sync_data().map_err(failed)?;
        let folder = self.folder.join(&*hash);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        std::fs::rename(&receiving.path, folder.join(&*name)).map_err(failed)
    }
}

impl Receiving {
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bytes += bytes.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(format!("the library {} has more than {BYTES_MAX} bytes", self.name));
        }
        self.summed.update(bytes);
        self.file.write_all(bytes).map_err(|error| format!("cannot keep the library {}: {error}", self.name))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // An error is ignored: a kept library was moved away.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether this file is a copy that a process makes beside the library while it loads it, and removes soon.
fn is_copy(file: &std::fs::DirEntry) -> bool {
    file.file_name().as_encoded_bytes().starts_with(b".thalweg-")
}

/// Whether this file was begun by a node that ended before the library was complete.
fn is_abandoned(file: &std::fs::DirEntry) -> bool {
    let age = |file: Metadata| SystemTime::now().duration_since(file.modified().ok()?).ok();
    let is_begun = file.file_name().as_encoded_bytes().starts_with(b".");
    is_begun && file.metadata().ok().and_then(age).is_some_and(|age| age > ABANDONED)
}

/// The hash of a file, as text.
pub(crate) fn hash_of(path: &Path) -> io::Result<String> {
    let (mut file, mut summed, mut bytes) = (File::open(path)?, Context::new(&SHA256), vec![0; 1 << 16]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hex(summed.finish().as_ref())),
            read => summed.update(&bytes[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_its_hash_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("libraries")).unwrap();
        let file = folder.path().join("lib");
        std::fs::write(&file, b"water").unwrap();
        let hash = hash_of(&file).unwrap();
        assert_eq!(hash, hex(ring::digest::digest(&SHA256, b"water").as_ref()));
        for (sent, is_kept) in [(&b"stone"[..], false), (b"wate", false), (b"water", true)] {
            let mut receiving = store.receive(&hash, "libwater.so").unwrap();
            receiving.take(sent).unwrap();
            assert_eq!(store.keep(&mut receiving).is_ok(), is_kept);
            drop(receiving);
            assert_eq!(store.find(&hash).is_some(), is_kept);
        }
        assert_eq!(std::fs::read(store.find(&hash).unwrap()).unwrap(), b"water");
        let left: Vec<_> = std::fs::read_dir(folder.path().join("libraries")).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing half-written stays");
    }

    fn kept(store: &Store, folder: &Path, bytes: &[u8]) -> (String, PathBuf) {
        let file = folder.join("lib");
        std::fs::write(&file, bytes).unwrap();
        let hash = hash_of(&file).unwrap();
        let mut receiving = store.receive(&hash, "libwater.so").unwrap();
        receiving.take(bytes).unwrap();
        store.keep(&mut receiving).unwrap();
        let path = store.find(&hash).unwrap();
        (hash, path)
    }

    #[test]
    fn a_file_that_lost_a_part_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("libraries");
        let store = Store::open(place.clone()).unwrap();
        let (hash, path) = kept(&store, folder.path(), b"water");
        std::fs::write(&path, b"wat").unwrap();
        assert_eq!(store.find(&hash), None, "it was compared before, and has changed since");
        assert!(!path.exists(), "another one can take its place");
        assert_eq!(kept(&store, folder.path(), b"water").1, path);
        std::fs::write(&path, b"").unwrap();
        assert_eq!(Store::open(place).unwrap().find(&hash), None, "a node that starts finds it");
    }

    #[test]
    fn a_copy_that_a_process_loads_is_not_taken_for_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("libraries")).unwrap();
        let (hash, path) = kept(&store, folder.path(), b"water");
        let beside = |name: &str| path.with_file_name(name);
        let (whole, begun) = (beside(".thalweg-1-2-libwater.so"), beside(".thalweg-1-3-libwater.so"));
        std::fs::write(&begun, b"wat").unwrap();
        std::fs::rename(&path, &whole).unwrap();
        assert_eq!(store.find(&hash), None, "the copy may be gone when it is used");
        assert!(whole.exists() && begun.exists(), "they belong to the processes that load them");
    }

    #[test]
    fn files_of_nodes_that_ended_within_them_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join(".old"), folder.path().join(".new"));
        let begun = File::create(&old).unwrap();
        begun.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        File::create(&new).unwrap();
        Store::open(folder.path().to_owned()).unwrap();
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_owned()).unwrap();
        let hash = "00".repeat(32);
        for (hash, name) in
            [(hash.as_str(), "../a"), (&hash, ".."), (&hash, ""), ("../../x", "a"), ("0", "a")]
        {
            assert!(store.receive(hash, name).is_err(), "{hash} {name}");
            assert_eq!(store.find(name), None);
        }
    }
}

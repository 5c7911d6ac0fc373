//! Box libraries by their hash: each is sent to a node once, and the node accepts a file only if the file has
//! the announced hash.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::channel::{hex, random, unhex};

/// The largest library that is accepted, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// The folder of a node's libraries: `HASH/NAME`.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
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
        Ok(Store { folder })
    }

    /// The path of a library, if the store has it.
    pub(crate) fn find(&self, hash: &str) -> Option<PathBuf> {
        unhex::<32>(hash)?;
        let files = std::fs::read_dir(self.folder.join(hash)).ok()?;
        files.flatten().map(|file| file.path()).next()
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

//! The files in a folder: networks, sources in C, files of records, and others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::c_source::CSource;
use crate::error::Error;

/// The greatest depth of folders that are read, and the most files.
const DEPTH_MAX: usize = 24;
const FILES_MAX: usize = 50_000;
/// Sources longer than this are not searched for boxes.
const SOURCE_BYTES_MAX: u64 = 16 << 20;
/// The number of bytes of a file that are read to determine whether it contains records.
const BEGINNING: u64 = 4096;

/// The files in and below a folder, each kind in the order of paths.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) networks: Vec<PathBuf>,
    pub(super) sources: BTreeMap<PathBuf, CSource>,
    /// Files with records in S-Net's XML: inputs and expected outputs.
    pub(super) records: Vec<PathBuf>,
    /// Sources in SAC.
    pub(super) sac: Vec<PathBuf>,
    /// Folders with headers.
    pub(super) headers: Vec<PathBuf>,
    pub(super) makefiles: Vec<PathBuf>,
    files: usize,
}

impl Folder {
    /// Reads `folder` and the folders below it, but not the folder `except`, hidden folders or symbolic
    /// links.
    pub(super) fn read(folder: &Path, except: &Path) -> Result<Folder, Error> {
        let mut found = Folder::default();
        found.look_into(folder, except, 0)?;
        Ok(found)
    }

    fn look_into(&mut self, folder: &Path, except: &Path, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::usage(format!(
                "{} lies more than {DEPTH_MAX} folders deep",
                folder.display()
            )));
        }
        for path in entries(folder)? {
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if is_hidden || path == except {
                continue;
            }
            if metadata.is_dir() {
                self.look_into(&path, except, depth + 1)?;
            } else if metadata.is_file() {
                self.files += 1;
                if self.files > FILES_MAX {
                    let folder = folder.display();
                    let what = format!(
                        "there are more than {FILES_MAX} files up to {folder}: name a folder of programs"
                    );
                    return Err(Error::usage(what));
                }
                self.note(path, metadata.len());
            }
        }
        Ok(())
    }

    fn note(&mut self, path: PathBuf, bytes: u64) {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("snet") => self.networks.push(path),
            Some("c") if bytes <= SOURCE_BYTES_MAX => {
                // The text is not required to be UTF-8, because comments of old sources may be in any
                // encoding.
                let Ok(text) = fs::read(&path) else { return };
                let source = CSource::read(&String::from_utf8_lossy(&text));
                self.sources.insert(path, source);
            }
            Some("h") if self.headers.last() == Some(&folder) => {}
            Some("h") => self.headers.push(folder),
            Some("sac") => self.sac.push(path),
            _ if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("makefile")) => {
                self.makefiles.push(path);
            }
            _ if begins_with_record(&path) => self.records.push(path),
            _ => {}
        }
    }
}

/// The entries of a folder, in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable =
        |error| Error::coded("E0901", format!("cannot read {}", folder.display())).because(error);
    let read = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        read.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>().map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

/// Whether the first element of a file is a record of S-Net.
fn begins_with_record(path: &Path) -> bool {
    let mut text = Vec::new();
    let Ok(file) = File::open(path) else { return false };
    if file.take(BEGINNING).read_to_end(&mut text).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&text);
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let close = if rest.starts_with("<!--") {
            "-->"
        } else if rest.starts_with("<?") {
            "?>"
        } else {
            return [
                "<record ",
                "<record>",
                "<record\n",
                "<record\t",
                "<record\r",
                "<record/",
                "<snet:record",
            ]
            .iter()
            .any(|begin| rest.starts_with(begin));
        };
        let Some((_, behind)) = rest.split_once(close) else { return false };
        rest = behind.trim_start();
    }
}

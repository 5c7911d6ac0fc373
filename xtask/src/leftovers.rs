//! Checks for what tests leave behind: spaces in memory, and files in the folder for temporary files.
//!
//! Each run of tests gets folders of its own, so files of other programs do not count.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The largest number of paths that the message about a failure names.
const NAMED: usize = 5;

/// A folder for temporary files and a folder for spaces, which are removed when the value is dropped.
pub(crate) struct Places {
    temporary: PathBuf,
    spaces: PathBuf,
}

impl Places {
    pub(crate) fn make() -> Result<Places> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("thalweg-test-{}-{number}", std::process::id());
        let temporary = std::env::temp_dir().join(&name);
        let memory = Path::new("/dev/shm");
        let spaces = if memory.is_dir() { memory.join(&name) } else { temporary.join("spaces") };
        let places = Places { temporary, spaces };
        for folder in [&places.temporary, &places.spaces] {
            fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
        }
        Ok(places)
    }

    /// The folder that every process of a command has in its environment, and no other process.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Lets `command` use these folders and no others.
    pub(crate) fn give(&self, command: &mut Command) {
        command.env("TMPDIR", &self.temporary).env("THALWEG_SPACES", &self.spaces);
        // If the test command itself runs in a session, the tests must not join that session.
        command.env_remove("THALWEG_SESSION");
    }

    /// Fails if the folders are not empty.
    pub(crate) fn expect_empty(&self) -> Result<()> {
        let mut left = Vec::new();
        for folder in [&self.temporary, &self.spaces] {
            for entry in
                fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?
            {
                left.push(entry?.path());
            }
        }
        left.retain(|path| *path != self.spaces);
        if left.is_empty() {
            return Ok(());
        }
        left.sort();
        let shown: Vec<String> = left.iter().take(NAMED).map(|path| with_content(path)).collect();
        bail!("left behind: {} (such as {})", left.len(), shown.join(", "))
    }
}

/// A path, and for a folder also what is in it, which tells whose folder it was.
fn with_content(path: &Path) -> String {
    let entries = fs::read_dir(path).map(|list| list.flatten().collect()).unwrap_or_else(|_| Vec::new());
    let names: Vec<String> =
        entries.iter().take(NAMED).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let inside = if names.is_empty() { String::new() } else { format!(" with {}", names.join(" ")) };
    format!("{}{inside}", path.display())
}

impl Drop for Places {
    fn drop(&mut self) {
        for folder in [&self.temporary, &self.spaces] {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Places;
    use std::process::Command;

    #[test]
    fn what_is_left_in_one_of_the_places_is_found_and_removed() {
        let check = |script: &str, left: Option<&str>| {
            let places = Places::make().unwrap();
            let folders = [places.temporary.clone(), places.spaces.clone()];
            let mut command = Command::new("sh");
            places.give(command.args(["-c", script]));
            assert!(command.status().unwrap().success());
            let found = places.expect_empty().err().map(|error| error.to_string());
            assert_eq!(found.is_some(), left.is_some(), "{script}: {found:?}");
            assert!(found.unwrap_or_default().contains(left.unwrap_or("")), "{script}");
            drop(places);
            assert!(folders.iter().all(|folder| !folder.exists()), "{script}");
        };
        check("echo > \"$TMPDIR/a\" && rm \"$TMPDIR/a\"", None);
        check("echo > \"$TMPDIR/a\"", Some("/a)"));
        check("mkdir \"$TMPDIR/a\" && echo > \"$TMPDIR/a/b\"", Some("/a with b)"));
        check("mkdir \"$THALWEG_SPACES/a-4711\"", Some("/a-4711)"));
    }
}

//! The texts of the source tree that tests check.

use crate::process;
use std::path::Path;

/// Folders that have no sources of this project.
const SKIPPED: &[&str] = &["target", "node_modules", "out", "corpus", "artifacts"];
/// A folder in the root that has no sources of this project.
const SKIPPED_IN_ROOT: &str = "shared";

/// Every file whose name has this end, by its path from the root, in order, with its text.
pub(crate) fn ending_with(end: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    below(&process::root(), end, &mut found);
    found.sort();
    found
}

fn below(folder: &Path, end: &str, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().expect("the type of an entry");
        if kind.is_dir() {
            let is_skipped =
                SKIPPED.contains(&name.as_str()) || name == SKIPPED_IN_ROOT && folder == process::root();
            if !name.starts_with('.') && !is_skipped {
                below(&path, end, found);
            }
        } else if kind.is_file() && name.ends_with(end) {
            let below_root = path.strip_prefix(process::root()).expect("inside the workspace");
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            found.push((below_root.to_string_lossy().into_owned(), text));
        }
    }
}

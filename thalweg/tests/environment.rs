//! `docs/environment.md` names every environment variable that our sources read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The members of the workspace that are part of the program or of what users link into their programs.
fn members() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a workspace");
    let (_, members) = manifest.split_once("members = [").expect("members");
    let (members, _) = members.split_once(']').expect("they end");
    let quoted = members.split('"').skip(1).step_by(2).map(str::to_owned);
    let members: Vec<String> = quoted.filter(|member| member != "xtask" && member != "chance").collect();
    assert!(members.len() > 8, "{members:?}");
    members
}

/// The files below a folder that are sources.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|end| ["rs", "c", "h", "hpp", "cpp", "py", "java"].iter().any(|known| *known == end))
        {
            found.push(path);
        }
    }
}

/// The text of a source without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod ").map_or(text, |tests| &text[..tests])
}

/// The name of a variable that a call reads: a literal, or a constant of the file.
fn named(argument: &str, text: &str) -> Option<String> {
    if let Some(literal) = argument.strip_prefix('"') {
        return literal.split('"').next().map(str::to_owned);
    }
    let end = argument.find(|c: char| !c.is_ascii_uppercase() && c != '_')?;
    let (_, value) = text.split_once(&format!("const {}: &str = \"", &argument[..end]))?;
    value.split('"').next().map(str::to_owned)
}

/// The variables that a source reads.
fn read(path: &Path) -> BTreeSet<String> {
    const READINGS: [&str; 6] =
        ["env::var(", "env::var_os(", "getenv(", "os.environ[", "os.environ.get(", "System.getenv("];
    let text = std::fs::read_to_string(path).expect("text");
    let text = without_tests(&text);
    let mut found = BTreeSet::new();
    for reading in READINGS {
        for (at, _) in text.match_indices(reading) {
            let argument = &text[at + reading.len()..];
            let name = named(argument, text);
            found.insert(
                name.unwrap_or_else(|| panic!("{}: which variable is `{:.40}`?", path.display(), argument)),
            );
        }
    }
    assert!(!text.contains("env::vars"), "{} reads all variables", path.display());
    found
}

#[test]
fn every_variable_that_is_read_is_on_the_page_and_none_else() {
    let mut files = Vec::new();
    for member in members() {
        sources(&root().join(&member).join("src"), &mut files);
    }
    for bindings in ["c", "c4snet", "python", "java"] {
        sources(&root().join("bindings").join(bindings), &mut files);
    }
    // Files of tests are no part of the program.
    files.retain(|path| path.file_name().is_none_or(|name| name != "tests.rs"));
    assert!(files.len() > 200, "{} files", files.len());
    let found: BTreeSet<String> = files.iter().flat_map(|path| read(path)).collect();
    let page = std::fs::read_to_string(root().join("docs/environment.md")).expect("the page");
    let (ours, _) = page.split_once("Libraries that `thalweg` uses").expect("two tables");
    let rows = ours.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let listed: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(found, listed);
}

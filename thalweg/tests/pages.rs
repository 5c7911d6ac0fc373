//! The commands in the README and the pages of `docs/` give the output that the pages show.

mod des_run;
mod page;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use page::{Page, session};

/// Commands that the test does not execute: the page, the beginning of the command, the reason.
const EXCUSED: &[(&str, &str, &str)] = &[
    ("README.md", "cargo install", "`cargo xtask test --only archive` does it, into a folder of its own"),
    ("README.md", "cargo xtask", "minutes each, and one of them runs this test"),
    (
        "apps/ant/README.md",
        "cargo xtask app",
        "tests/apps.rs runs this network; the command compiles it once more",
    ),
    ("apps/audio/README.md", "cargo build", "this test has built it"),
    ("apps/des/README.md", "cargo build", "this test has built it"),
    (
        "apps/mc/README.md",
        "cargo xtask app",
        "tests/apps.rs runs these networks; the command compiles them once more",
    ),
    (
        "apps/rt/README.md",
        "cargo xtask app",
        "tests/apps.rs runs this network; the command compiles it once more",
    ),
    ("BENCHMARKS.md", "cargo xtask bench", "it compiles rivals, and measures for minutes"),
    ("BENCHMARKS.md", "cargo xtask moobench", "it compiles rivals, and measures for minutes"),
    (
        "docs/contributing.md",
        "cargo xtask kinds",
        "it writes the sources; a test of xtask compares what it would write",
    ),
    ("docs/editors.md", "npm install", "it wants the network; the extension is no part of the program"),
    ("docs/editors.md", "npx", "as before"),
    ("docs/editors.md", "code", "it installs into the reader's editor"),
    ("docs/language.md", "thalweg run line.snet", "tests/examples.rs runs it with the boxes"),
    ("docs/monitors.md", "cargo run", "tests/own_monitor.rs builds and runs it"),
    ("docs/records.md", "thalweg run tidy.snet", "it waits for peers at a port; tests/io.rs runs such"),
];

/// The folders that have pages.
const FOLDERS: &[&str] = &[
    "",
    "apps/ant",
    "apps/audio",
    "apps/des",
    "apps/mc",
    "apps/rt",
    "bindings/box",
    "docs",
    "docs/errors",
    "exec",
    "glob",
    "host",
    "link",
    "monitor",
    "net",
    "node",
    "pack",
    "scope",
    "space",
    "space/docs",
    "tune",
    "view",
];

/// Every page, by its path from the root, in order.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(des_run::root().join(folder)).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let path = path.strip_prefix(des_run::root()).expect("below the root");
                pages.push(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    pages.sort();
    pages
}

/// A folder `thalweg` with the source tree's files, in which `target/release` has the tested program.
fn source_tree(parent: &Path) -> PathBuf {
    use std::os::unix::fs::symlink;
    let tree = parent.join("thalweg");
    std::fs::create_dir_all(tree.join("target")).expect("a temporary folder takes folders");
    for entry in std::fs::read_dir(des_run::root()).expect("the source tree") {
        let entry = entry.expect("an entry");
        if entry.file_name() != "target" {
            symlink(entry.path(), tree.join(entry.file_name())).expect("a temporary folder takes links");
        }
    }
    symlink(program(), tree.join("target/release")).expect("a temporary folder takes links");
    tree
}

/// The folder of the program under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().expect("a folder")
}

/// Executes a page's commands. Returns the number of commands, and the number of commands that were left out.
fn type_in(path: &str) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tree = source_tree(folder.path());
    let mut excused = 0;
    let is_excused = |line: &str| {
        let known = EXCUSED.iter().any(|(page, start, _)| *page == path && line.starts_with(start));
        excused += usize::from(known);
        known
    };
    let cargo = Path::new(env!("CARGO")).parent().expect("a folder");
    // The section about the archive is tested in tests/archive.rs.
    let chosen = |section: &str| section != "Without a toolchain";
    let typed = session::type_in(&Page::read(path), &tree, &[program(), cargo], chosen, is_excused);
    (typed, excused)
}

#[test]
fn the_commands_of_the_readme_work() {
    let (typed, _) = type_in("README.md");
    assert!(typed >= 15, "{typed} commands");
}

#[test]
fn the_commands_of_the_pages_of_the_apps_work() {
    for app in ["ant", "audio", "des", "mc", "rt"] {
        des_run::library_of(&format!("app-{app}"));
        let (typed, excused) = type_in(&format!("apps/{app}/README.md"));
        assert!(typed + excused > 0, "{app}");
    }
}

#[test]
fn the_commands_of_the_other_pages_work() {
    let mut typed = 0;
    for page in pages() {
        let here = !page.starts_with("docs/errors/") && !page.ends_with("README.md");
        typed += if here { type_in(&page).0 } else { 0 };
    }
    assert!(typed >= 15, "{typed} commands");
}

#[test]
fn pages_of_errors_show_what_is_printed() {
    let mut commands = 0;
    for page in pages().iter().filter(|page| page.starts_with("docs/errors/")) {
        let (count, _) = type_in(page);
        let code = page.trim_start_matches("docs/errors/").trim_end_matches(".md");
        let shown = std::fs::read_to_string(des_run::root().join(page)).expect("a page");
        let kind = if code.starts_with('W') { "warning" } else { "error" };
        assert!(count == 0 || shown.contains(&format!("{kind}[{code}]")), "{page} shows another {kind}");
        commands += count;
    }
    assert!(commands >= 7, "{commands} commands");
}

#[test]
fn every_block_names_its_language_and_every_excuse_is_needed() {
    let mut excuses: Vec<_> = EXCUSED.iter().collect();
    for path in pages() {
        // In two pages, blocks without a language are drawings.
        let draws = ["ARCHITECTURE.md", "space/docs/layout.md"].contains(&path.as_str());
        for block in Page::read(&path).code() {
            let prompts =
                block.text.lines().any(|line| line.starts_with("$ ") || line.starts_with("thalweg "));
            let is_typed = ["console", "sh"].contains(&block.fence);
            assert!(draws || !block.fence.is_empty(), "{path}: which language is\n{}", block.text);
            assert!(
                is_typed || !prompts || block.fence == "text,shown",
                "{path}: nobody types\n{}",
                block.text
            );
            excuses.retain(|(page, start, _)| {
                *page != path || !block.text.lines().any(|line| line.starts_with(start))
            });
        }
    }
    assert!(excuses.is_empty(), "excused, but not on the page: {excuses:?}");
}

#[test]
fn commands_in_sentences_exist_with_their_options() {
    let mut helps: HashMap<String, String> = HashMap::new();
    let mut commands = 0;
    for path in pages() {
        let page = std::fs::read_to_string(des_run::root().join(&path)).expect(&path);
        for usage in page.split("`thalweg ").skip(1).filter_map(|rest| rest.split('`').next()) {
            let command = usage.split_whitespace().next().unwrap_or("");
            let help = helps.entry(command.to_owned()).or_insert_with(|| {
                let asked = des_run::thalweg().args([command, "--help"]).output().expect("thalweg starts");
                assert!(asked.status.success(), "{path}: `thalweg {usage}`: there is no such command");
                String::from_utf8(asked.stdout).expect("text")
            });
            for option in usage.split_whitespace().filter(|word| word.starts_with("--")) {
                assert!(help.contains(option), "{path}: `thalweg {usage}`: there is no {option}");
            }
            commands += 1;
        }
    }
    assert!(commands > 50, "{commands} commands");
}

#[test]
fn the_pages_lead_to_files_that_exist() {
    for page in pages() {
        let text = std::fs::read_to_string(des_run::root().join(&page)).expect(&page);
        let folder = des_run::root().join(&page).parent().expect("a folder").to_path_buf();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or(link);
            let local = !file.is_empty() && !file.contains("://") && !file.contains(' ');
            assert!(!local || folder.join(file).exists(), "{page} leads to {link}, which does not exist");
        }
    }
}

#[test]
fn the_pictures_of_networks_are_what_is_drawn() {
    for (network, picture) in [
        ("examples/first/readings.snet", "docs/readings.svg"),
        ("examples/tutorial/lanes/frames.snet", "docs/lanes.svg"),
    ] {
        let mut check = des_run::thalweg();
        check.args(["check", network, "--graph", "svg"]).current_dir(des_run::root());
        let drawn = String::from_utf8(des_run::succeed(&mut check).stdout).expect("SVG is text");
        let shown = std::fs::read_to_string(des_run::root().join(picture)).expect("the picture");
        assert!(drawn == shown, "thalweg check {network} --graph svg > {picture}");
    }
}

//! `cargo xtask kinds`: writes the descriptions of all kinds (`kinds/*.kinds`), and the files that are
//! generated from them.
//!
//! The structs with `#[derive(Kind)]` in a crate are parsed as text, like the layout of a space. The
//! monitor's typed events and rows, and constants for other languages, are generated from these structs.
//! Tests compare the committed files with the generated ones, and (in the crates) with the descriptions that
//! the derive makes.

mod languages;
mod rust;
mod source;

use crate::committed::{self, Files};
use crate::process;
use anyhow::{Context, Result, anyhow};
use std::process::ExitCode;
use thalweg_space::kinds::{Description, What, print};

/// The crates that declare kinds.
const CRATES: [&str; 6] = ["space", "probe", "exec", "net", "host", "node"];
/// The crates whose kinds the monitor knows.
const OBSERVED: [&str; 3] = ["exec", "net", "host"];

/// The generated files, with their content.
fn files() -> Result<Files> {
    let mut files = Vec::new();
    let (mut all, mut observed) = (Vec::new(), Vec::new());
    for folder in CRATES {
        let described = source::kinds(&process::root().join(folder).join("src"))
            .with_context(|| format!("the kinds of {folder}"))?;
        files.push((format!("kinds/{folder}.kinds"), kinds_file(folder, &described)));
        if folder == "probe" {
            let header = thalweg_writers::c(&described, "probe");
            files.push(("bindings/c/thalweg_probe_kinds.h".to_owned(), header));
            let class = thalweg_writers::java(&described, "org.thalweg.agent", "probe");
            files.push(("bindings/java/org/thalweg/agent/ProbeKinds.java".to_owned(), class));
        }
        if OBSERVED.contains(&folder) {
            observed.extend(described.clone());
        }
        all.extend(described);
    }
    observed.extend(former()?);
    let (events, rows): (Vec<_>, Vec<_>) = observed.into_iter().partition(|kind| kind.what == What::Event);
    files.push(("monitor/src/decoding/events.rs".to_owned(), rust::events(&events)?));
    files.push(("monitor/src/decoding/rows.rs".to_owned(), rust::rows(&rows)?));
    files.push(("bindings/c/thalweg_kinds.h".to_owned(), languages::c(&all)));
    files.push(("bindings/java/org/thalweg/Kinds.java".to_owned(), languages::java(&all)));
    files.push(("bindings/python/thalweg_kinds.py".to_owned(), languages::python(&all)));
    Ok(files)
}

/// The kinds of former versions, which the monitor knows, too.
fn former() -> Result<Vec<Description>> {
    let path = process::root().join("kinds/former.kinds");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    thalweg_space::kinds::parse(&text).map_err(|problems| anyhow!("{}: {problems:?}", path.display()))
}

fn kinds_file(folder: &str, described: &[Description]) -> String {
    format!("// Written by `cargo xtask kinds` from {folder}/src.\n\n{}", print(described))
}

pub(crate) fn run(arguments: lexopt::Parser) -> Result<ExitCode> {
    committed::write(arguments, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_files_agree_with_the_kinds() {
        committed::assert_up_to_date(files().unwrap(), "kinds");
    }

    /// The struct in this test is all that a person writes for a new kind, besides its use in a monitor;
    /// everything else is generated from the struct.
    #[test]
    fn a_kind_more_is_described_and_typed_by_its_struct_alone() {
        let text = r#"
            #[derive(Clone, Copy, KindEnum)]
            enum Why { New = 0, Evicted = 4 }
            kinds! {
                /// A shelf did not have the requested item.
                #[derive(Kind)]
                #[kind(name = "exec.shelf_missed")]
                pub(crate) struct ShelfMissed {
                    /// The shelf.
                    shelf: u32,
                    /// The number of bytes that had to be read because the item was missing.
                    #[field(unit = "bytes", absent = -1)]
                    read_bytes: i64,
                    /// Why the item was not on the shelf.
                    why: Why,
                }
            }"#;
        let kinds = source::kinds_in(text).unwrap();
        let described = print(&kinds);
        for part in
            ["kind exec.shelf_missed 0x", "read_bytes: i64 in bytes absent -1", "{ new = 0, evicted = 4 }"]
        {
            assert!(described.contains(part), "{described}");
        }
        let events = rust::events(&kinds).unwrap();
        for part in [
            "    ShelfMissed(ShelfMissed),",
            "name: \"exec.shelf_missed\"",
            "pub struct ShelfMissed {",
            "    pub read_bytes: i64,",
            "shelf: u64::from(word_0 as u32),",
            "pub enum ShelfMissedWhy {",
        ] {
            assert!(events.contains(part), "{part} in {events}");
        }
        assert!(
            languages::c(&kinds)
                .contains("#define THALWEG_KIND_EXEC_SHELF_MISSED_AT_READ_BYTES UINT32_C(8)\n")
        );
        assert!(languages::python(&kinds).contains("\"evicted\": 4"));
    }

    #[test]
    fn the_format_reads_what_is_committed() {
        for folder in CRATES {
            let path = process::root().join(format!("kinds/{folder}.kinds"));
            let text = std::fs::read_to_string(path).unwrap();
            let kinds = thalweg_space::kinds::parse(&text)
                .unwrap_or_else(|problems| panic!("{folder}: {problems:?}"));
            assert_eq!(kinds_file(folder, &kinds), text);
            assert!(!kinds.is_empty());
        }
    }
}

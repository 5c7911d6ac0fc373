//! The archive of `cargo xtask dist`, unpacked and tried without a toolchain, as the section of the README
//! about the archive says.

mod des_run;
mod page;

use page::{Page, session};

#[test]
#[ignore = "`cargo xtask test --only archive` packs the archive, and runs this with its path in THALWEG_ARCHIVE"]
fn the_commands_of_the_readme_work_in_the_archive() {
    let archive = std::env::var("THALWEG_ARCHIVE").expect("the path of the archive in THALWEG_ARCHIVE");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let name = std::path::Path::new(&archive).file_name().expect("a file");
    std::fs::copy(&archive, folder.path().join(name)).expect("a temporary folder takes files");
    let page = Page::read("README.md");
    let archive = |section: &str| section == "Without a toolchain";
    assert!(session::type_in(&page, folder.path(), &[], archive, |_| false) >= 7);

    // The commands in the other sections of the README, except those that need Rust, are executed in the
    // unpacked folder.
    let unpacked = folder.path().join(name.to_str().expect("UTF-8").trim_end_matches(".tar.gz"));
    let rust = ["Install", "Without a toolchain", "A network of your own", "Two commands"];
    let others = |section: &str| !rust.contains(&section);
    assert!(session::type_in(&page, &unpacked, &[&unpacked.join("bin")], others, |_| false) >= 8);
    for file in [
        "share/man/man1/thalweg-run.1",
        "share/bash-completion/completions/thalweg",
        "bindings/c/thalweg.h",
        "lib/liblanguage_boxes.so",
    ] {
        assert!(unpacked.join(file).exists(), "{file}");
    }
}

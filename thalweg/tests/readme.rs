//! The README's network, built and run from the README's own text.

mod des_run;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The README's first block in `language`.
fn block<'a>(readme: &'a str, language: &str) -> &'a str {
    let opening = format!("```{language}\n");
    let start =
        readme.find(&opening).unwrap_or_else(|| panic!("the README has no {language} block")) + opening.len();
    let length = readme[start..].find("```").expect("the block ends");
    &readme[start..start + length]
}

#[test]
fn the_network_of_the_readme_does_what_it_says() {
    let readme = std::fs::read_to_string(des_run::root().join("README.md")).expect("a README");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a temporary folder takes folders");
        std::fs::write(path, text).expect("a temporary folder takes files");
    };
    let ours = des_run::root().join("bindings/box");
    let manifest = block(&readme, "toml");
    assert!(manifest.contains("../thalweg/bindings/box"), "the README tells where thalweg-box is");
    write(
        "Cargo.toml",
        &manifest.replace("../thalweg/bindings/box", ours.to_str().expect("a path in UTF-8")),
    );
    write("src/lib.rs", block(&readme, "rust"));
    write("words.snet", block(&readme, "text"));

    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--offline", "--release"]).current_dir(folder.path());
    build.env("CARGO_TARGET_DIR", folder.path().join("target"));
    des_run::succeed(&mut build);

    let console = block(&readme, "console");
    let (_, input) = console.split_once("echo '").expect("the console shows a record");
    let (input, output) = input.split_once('\'').expect("the record is quoted");
    let output = output.lines().nth(1).expect("the console shows what comes out");
    assert_eq!(words(folder.path(), input), format!("{output}\n"));
    assert_eq!(words(folder.path(), r#"{"line": "  "}"#), "");
    assert_eq!(
        words(folder.path(), r#"{"line": "two words"}"#),
        "{\"line\": \"two words\", \"<words>\": 2}\n"
    );
}

/// Runs the network on `input`.
fn words(folder: &Path, input: &str) -> String {
    let mut command = des_run::thalweg();
    command.args(["run", "words.snet", "--boxes", "target/release/libwords.so"]).current_dir(folder);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("thalweg starts");
    writeln!(child.stdin.take().expect("piped"), "{input}").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("JSON is UTF-8")
}

#[test]
fn the_pages_lead_to_files_that_exist() {
    let errors = std::fs::read_dir(des_run::root().join("docs/errors")).expect("the pages of errors");
    let errors = errors.map(|page| format!("docs/errors/{}", page.expect("a page").file_name().display()));
    let pages = ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "apps/des/README.md", "docs/report.md"];
    let language = ["docs/language.md", "docs/grammar.md", "docs/editors.md"];
    for page in errors.chain(pages.into_iter().chain(language).map(str::to_owned)) {
        let text = std::fs::read_to_string(des_run::root().join(&page)).expect(&page);
        let folder = des_run::root().join(&page).parent().expect("a folder").to_path_buf();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or(link);
            let local = !file.is_empty() && !file.contains("://");
            assert!(!local || folder.join(file).exists(), "{page} leads to {link}, which does not exist");
        }
    }
}

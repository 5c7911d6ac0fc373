//! `docs/errors/`, `docs/records.md` and `docs/s-net.md`: what the pages show on a console is what happens. (`thalweg-net` tests those that show a text.)

mod des_run;
mod page;

use std::path::Path;
use std::process::Command;

use page::Page;

/// Runs a command line where `thalweg` is the program under test; all that it writes.
fn shell(line: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(folder).env("PATH", path);
    String::from_utf8(command.output().expect("sh starts").stdout).expect("text")
}

/// Whether a line is as shown, where `…` stands for anything.
fn is_as_shown(line: &str, shown: &str) -> bool {
    match shown.split_once('…') {
        Some((start, end)) => line.starts_with(start) && line.ends_with(end),
        None => line == shown,
    }
}

/// Does what the page shows; gives the number of commands.
fn check(path: &str) -> usize {
    let page = Page::read(path);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut commands = 0;
    for block in page.blocks() {
        match block.fence {
            "snet,run" => {
                let path = folder.path().join(page::file_name(block.text));
                std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
                std::fs::write(path, block.text).unwrap();
            }
            "c,run" | "xml,run" => {
                let path = folder.path().join(name_in(block.text));
                std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
                std::fs::write(path, block.text).unwrap();
            }
            "console" => {
                for step in block.text.strip_prefix("$ ").expect("a prompt").split("\n$ ") {
                    let (line, shown) = step.split_once('\n').expect("a line");
                    let said = shell(line, folder.path());
                    let same = said.lines().count() == shown.lines().count()
                        && said.lines().zip(shown.lines()).all(|(line, shown)| is_as_shown(line, shown));
                    assert!(same, "{path}: `{line}` says\n{said}");
                    commands += 1;
                }
            }
            _ => {}
        }
    }
    commands
}

/// The name in a first line `// NAME` or `<!-- NAME -->`.
fn name_in(text: &str) -> &str {
    let line = text.lines().next().unwrap_or("");
    let name = line.strip_prefix("// ").or_else(|| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
    name.unwrap_or_else(|| panic!("the first line names no file in:\n{text}"))
}

#[test]
fn the_page_of_what_differs_from_s_net_shows_what_is_printed() {
    assert!(check("docs/s-net.md") >= 12);
}

#[test]
fn the_page_of_records_shows_what_is_printed() {
    assert!(check("docs/records.md") >= 2);
}

#[test]
fn pages_of_errors_show_what_is_printed() {
    let mut commands = 0;
    for entry in std::fs::read_dir(des_run::root().join("docs/errors")).expect("the pages") {
        let name = entry.expect("a page").file_name().into_string().expect("a name in UTF-8");
        let count = check(&format!("docs/errors/{name}"));
        let code = name.trim_end_matches(".md");
        let shown = std::fs::read_to_string(des_run::root().join("docs/errors").join(&name)).expect("a page");
        let kind = if code.starts_with('W') { "warning" } else { "error" };
        assert!(count == 0 || shown.contains(&format!("{kind}[{code}]")), "{name} shows another {kind}");
        commands += count;
    }
    assert!(commands >= 7, "{commands} commands");
}

//! Executes the commands of a page in a shell.
//!
//! Blocks `console` have prompts and output; blocks `sh` have only commands, which must succeed. A comment
//! `<!-- file: NAME -->` before a block names the file in which the reader saves the block, the command in
//! `<!-- test: COMMAND -->` is executed only by the test.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Block, Page};

/// One command of a page.
struct Step {
    line: String,
    /// The output that the page shows, if any.
    shown: Option<String>,
}

/// Executes the page's commands in a shell in a folder with the source tree's files, and compares the output.
/// Returns the commands.
///
/// The folder `first` comes first in the search path of programs, `chosen` selects sections of the page, and
/// `excused` selects commands that are not executed.
#[track_caller]
pub(crate) fn type_in(
    page: &Page,
    folder: &Path,
    first: &[&Path],
    chosen: impl Fn(&str) -> bool,
    mut excused: impl FnMut(&str) -> bool,
) -> usize {
    let mut steps = steps(page, chosen);
    steps.retain(|step| step.line.starts_with(HIDDEN) || !excused(&step.line));
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        script.push_str(&format!("printf '\\1%s\\n' {number}\n{}\nprintf '\\2%s\\1\\n' $?\n", step.line));
    }
    // Background processes of a page end with the page.
    let script = format!("exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{script}");
    let output = shell(&script, folder, first).output().expect("bash starts").stdout;
    let output = String::from_utf8(output).expect("text");
    let mut all = output.split('\u{1}').skip(1).step_by(2);
    for (number, step) in steps.iter().enumerate() {
        let line = &step.line;
        let printed =
            all.next().unwrap_or_else(|| panic!("{page}: the shell ended before `{line}`\n{output}"));
        let printed = printed.strip_prefix(&format!("{number}\n")).expect("its number");
        let (printed, status) = printed.split_once('\u{2}').unwrap_or((printed, "none"));
        match &step.shown {
            Some(shown) => assert!(is_as_shown(printed, shown), "{page}: `{line}` says\n{printed}"),
            None => assert_eq!(status, "0", "{page}: `{line}` says\n{printed}"),
        }
    }
    steps.iter().filter(|step| !step.line.starts_with(HIDDEN)).count()
}

/// A shell with the environment that it has after a login, and with the paths of Rust.
fn shell(script: &str, folder: &Path, first: &[&Path]) -> Command {
    let path: Vec<String> = first.iter().map(|folder| format!("{}:", folder.display())).collect();
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-c", script]).current_dir(folder).stdin(Stdio::null()).env_clear();
    shell.env("PATH", format!("{}/usr/local/bin:/usr/bin:/bin", path.concat())).env("LC_ALL", "C.UTF-8");
    // The home is a new folder, because the source tree's folders are links.
    let own = folder.join(".home");
    std::fs::create_dir_all(&own).expect("a temporary folder takes folders");
    shell.env("HOME", &own).env("TMPDIR", &own).env("THALWEG_SPACES", folder.join(".spaces"));
    let home = std::env::var_os("HOME").unwrap_or_default();
    for (name, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let value = std::env::var_os(name).unwrap_or_else(|| Path::new(&home).join(usual).into());
        shell.env(name, value);
    }
    shell
}

/// Marks lines that the test adds and the page does not show.
const HIDDEN: &str = ": test; ";

/// The commands of a page, and the commands that save its files.
fn steps(page: &Page, chosen: impl Fn(&str) -> bool) -> Vec<Step> {
    let (mut steps, mut file, mut inside) = (Vec::new(), None, chosen(""));
    let hidden = |line: &str| Step { line: format!("{HIDDEN}{line}"), shown: None };
    for Block { fence, text } in page.blocks() {
        if fence.is_empty() {
            for line in text.lines() {
                if let Some(section) = line.strip_prefix("## ") {
                    inside = chosen(section);
                }
                let comment =
                    line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")).unwrap_or("");
                if let Some(line) = comment.strip_prefix("test: ").filter(|_| inside) {
                    steps.push(hidden(line));
                }
                file = comment.strip_prefix("file: ").or(file.filter(|_| line.is_empty()));
            }
            continue;
        }
        let file = file.take().or_else(|| fence.contains(",run").then(|| super::file_name(text)));
        if !inside {
            continue;
        }
        if let Some(file) = file {
            steps.push(hidden(&format!(
                "mkdir -p $(dirname {file}); cat > {file} <<'END OF FILE'\n{text}END OF FILE"
            )));
        }
        match fence {
            "console" => steps.extend(shown(text)),
            "sh" => steps.extend(lines(text).into_iter().map(|line| Step { line, shown: None })),
            _ => {}
        }
    }
    steps
}

/// The commands of a block `console`.
fn shown(text: &str) -> Vec<Step> {
    let text = text.strip_prefix("$ ").expect("a prompt");
    let step = |step: &str| {
        let mut rest = step;
        let mut line = String::new();
        while let Some((first, after)) = rest.split_once('\n') {
            line.push_str(first);
            rest = after;
            if !goes_on(first) {
                break;
            }
            line.push('\n');
        }
        Step { line, shown: Some(rest.to_owned()) }
    };
    text.split("\n$ ").map(|part| step(&format!("{}\n", part.trim_end_matches('\n')))).collect()
}

/// The commands of a block `sh`.
fn lines(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match commands.last_mut().filter(|_| open) {
            Some(command) => *command = format!("{command}\n{line}"),
            None => commands.push(line.to_owned()),
        }
        open = goes_on(line);
    }
    commands
}

fn goes_on(line: &str) -> bool {
    line.ends_with('\\') || line.ends_with('|')
}

/// Whether the output is as shown, where `…` stands for any characters of a line, and a line `…` for any
/// number of lines.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    let printed: Vec<&str> = printed.lines().collect();
    let shown: Vec<&str> = shown.lines().collect();
    fits(&printed, &shown)
}

fn fits(printed: &[&str], shown: &[&str]) -> bool {
    match (printed, shown) {
        ([], []) => true,
        (_, ["…", rest @ ..]) => (0..=printed.len()).any(|skipped| fits(&printed[skipped..], rest)),
        ([line, printed @ ..], [expected, shown @ ..]) => {
            super::is_as_shown(line, expected) && fits(printed, shown)
        }
        _ => false,
    }
}

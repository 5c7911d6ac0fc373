//! `--help` in terminals of any width; manual pages and completions, which agree with `--help`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Command;

fn printed(arguments: &[&str], columns: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output = command.args(arguments).env("COLUMNS", columns).output().expect("thalweg starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The commands that `thalweg --help` lists.
fn commands() -> Vec<String> {
    let help = printed(&["--help"], "110");
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let list = list.lines().take_while(|line| !line.is_empty());
    let names =
        list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 25, "{names:?}");
    names
}

/// The long options of a help text, each at the beginning of its description.
fn options(help: &str) -> BTreeSet<&str> {
    let described = |line: &'_ str| line.trim_start().starts_with('-') && line.starts_with(' ');
    let options = help.lines().take_while(|line| *line != "Examples:").filter(|line| described(line));
    let options = options.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    options.map(|option| option.trim_end_matches(['[', ']'])).collect()
}

#[test]
fn examples_stay_whole_in_narrow_terminals() {
    for command in commands() {
        let wide = printed(&[&command, "--help"], "110");
        let examples: Vec<&str> = match wide.split_once("\nExamples:\n") {
            Some((_, rest)) => rest.lines().take_while(|line| !line.is_empty()).collect(),
            None => Vec::new(),
        };
        for columns in [60, 80] {
            let narrow = printed(&[&command, "--help"], &columns.to_string());
            for example in &examples {
                assert!(
                    narrow.contains(&format!("\n{example}\n")),
                    "{command}, {columns} columns: {example}"
                );
            }
            let long = narrow.lines().find(|line| line.chars().count() > columns);
            assert_eq!(long, None, "{command} in {columns} columns");
        }
    }
    assert!(printed(&["--help"], "60").lines().all(|line| line.chars().count() <= 60));
}

#[test]
fn manual_pages_and_completions_know_every_option() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pages = folder.path().join("man/man1");
    printed(&["man", "--into", pages.to_str().expect("a path in UTF-8")], "80");
    let shells = ["bash", "zsh", "fish"].map(|shell| (shell, printed(&["completions", shell], "80")));
    let mut count = 0;
    for command in commands() {
        let help = printed(&[&command, "--help"], "110");
        let page = std::fs::read_to_string(pages.join(format!("thalweg-{command}.1"))).expect("a page");
        assert_eq!(page, printed(&["man", &command], "80"), "one page is the same as that of all");
        let page = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
        for option in options(&help) {
            assert!(page.contains(option), "the page of {command} lacks {option}");
            for (shell, script) in &shells {
                let name = if *shell == "fish" { option.trim_start_matches('-') } else { option };
                assert!(script.contains(name), "{shell} does not complete {option} of {command}");
            }
            count += 1;
        }
        // The text below the options is on the manual page, too.
        let (_, below) = help.split_once("\n\n  -h, --help\n").expect("every command has --help");
        let Some(last) = below.trim_end().lines().skip(1).last() else { continue };
        let words: Vec<&str> = last.split_whitespace().collect();
        let page: Vec<&str> = page.split_whitespace().collect();
        assert!(
            page.windows(words.len()).any(|window| window == words),
            "the page of {command} lacks {last:?}"
        );
    }
    assert!(count > 100, "{count} options");
    assert!(pages.join("thalweg.1").exists());
}

#[test]
fn manual_pages_are_laid_out_without_complaint() {
    if Command::new("groff").arg("--version").output().is_err() {
        return skipped("manual_pages_are_laid_out_without_complaint", "there is no groff");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    printed(&["man", "--into", folder.path().to_str().expect("a path in UTF-8")], "80");
    for page in std::fs::read_dir(folder.path()).expect("a folder") {
        let page = page.expect("a page").path();
        let laid_out = Command::new("groff")
            .args(["-man", "-Tutf8", "-wall", "-K", "utf8"])
            .arg(&page)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&laid_out.stderr);
        assert!(complaint.is_empty() && laid_out.status.success(), "{}: {complaint}", page.display());
    }
}

#[test]
fn shells_read_their_completions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.path().join(shell);
        std::fs::write(&script, printed(&["completions", shell], "80"))
            .expect("a temporary folder takes files");
        match Command::new(shell).arg("-n").arg(&script).output() {
            Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}"),
            Err(_) => skipped("shells_read_their_completions", &format!("there is no {shell}")),
        }
    }
}

/// Prints the line past the test harness, which would hide it, so that `cargo xtask test` can count skipped
/// tests.
fn skipped(test: &str, why: &str) {
    let line = format!("\nskipped: {test}: {why}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("standard output");
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("thalweg.bash");
    std::fs::write(&script, printed(&["completions", "bash"], "80")).expect("a temporary folder takes files");
    let check = |words: &str, at: usize, expected: &str| {
        let complete = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={at}; \
             _thalweg thalweg \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{at}-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        let bash = Command::new("bash").args(["--norc", "-c", &complete]).output().expect("bash starts");
        let reply = String::from_utf8_lossy(&bash.stdout);
        assert_eq!(reply.trim(), expected, "{words}: {}", String::from_utf8_lossy(&bash.stderr));
    };
    check("thalweg diag", 1, "diagnose");
    check("thalweg run --quantum-", 2, "--quantum-us");
    check("thalweg run x.snet --monitor m", 4, "metrics");
}

//! `thalweg check` on the command line: codes, places, exit codes.

use std::process::{Command, Output};

use tempfile::TempDir;

/// A new directory with the given files.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in files {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    dir
}

fn thalweg(dir: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).current_dir(dir).output().unwrap()
}

/// Checks `main.snet` among the given files; returns the exit code, and `CODE file:line:column` of each
/// diagnostic.
fn check(files: &[(&str, &str)]) -> (i32, Vec<String>) {
    let output = thalweg(&directory(files), &["check", "main.snet", "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let shown = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| object[key].as_str().unwrap().to_string();
        match object.get("file") {
            Some(_) => format!("{} {}:{}:{}", text("code"), text("file"), object["line"], object["column"]),
            None => text("code"),
        }
    };
    (output.status.code().unwrap(), lines.lines().map(shown).collect())
}

#[test]
fn a_sound_net_is_reported_as_sound() {
    let dir = directory(&[("main.snet", "net main { box f ((a) -> (a)); } connect f .. f;")]);
    let output = thalweg(&dir, &["check", "main.snet"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "main.snet: sound (1 net, 1 box)\n");
    assert!(output.stderr.is_empty());
}

#[test]
fn errors_have_code_place_and_exit_code() {
    let one = |text| check(&[("main.snet", text)]);
    assert_eq!(one("net main connect ([] .. [];"), (2, vec!["E0202 main.snet:1:18".into()]));
    assert_eq!(one("net main connect\n  f;"), (2, vec!["E0301 main.snet:2:3".into()]));
    let twice = "box f ((a) -> (b)); net main connect f .. f;";
    assert_eq!(one(twice), (2, vec!["E0501 main.snet:1:43".into()]));
    assert_eq!(one("net main connect [] * {a};"), (0, vec!["W0602 main.snet:1:18".into()]));
    assert_eq!(check(&[]), (2, vec!["E0304".into()]));
    assert_eq!(check(&[("main.snet", "net other connect [];")]).0, 2);
}

#[test]
fn external_nets_are_read_and_their_errors_reported_too() {
    let main = "net main { net left; } connect left .. right .. nowhere .. left;";
    let left = "net left { box f ((a) -> (a)); } connect f .. right .. oops;";
    let right = "net right connect [{a} -> {a}] .. ;";
    let files = [("main.snet", main), ("left.snet", left), ("right.snet", right)];
    let expected = ["E0301 main.snet:1:49", "E0201 right.snet:1:35", "E0301 left.snet:1:56"];
    let (code, mut found) = check(&files);
    found.sort();
    let mut expected = expected.map(String::from).to_vec();
    expected.sort();
    assert_eq!((code, found), (2, expected));
    let files = [
        ("main.snet", "net main connect a .. a;"),
        ("a.snet", "net a connect b;"),
        ("b.snet", "net b connect [];"),
    ];
    assert_eq!(check(&files), (0, vec![]));
    let files = [("main.snet", "net main connect a;"), ("a.snet", "net a connect main;")];
    assert_eq!(check(&files), (2, vec!["E0305 main.snet:1:18".into()]));
    let files = [("main.snet", "net main connect a;"), ("a.snet", "net a;")];
    assert_eq!(check(&files).0, 2);
    let unused = check(&[("main.snet", "net gone; net main connect [];")]);
    assert_eq!(unused, (0, vec!["W0605 main.snet:1:5".into()]));
}

#[test]
fn a_file_that_is_no_text_is_an_error() {
    let dir = directory(&[]);
    std::fs::write(dir.path().join("main.snet"), b"net main connect \xff;").unwrap();
    let output = thalweg(&dir, &["check", "main.snet"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error[E0304]"));
    assert_eq!(thalweg(&dir, &["check", "."]).status.code(), Some(2));
}

#[test]
fn warnings_fail_only_if_asked() {
    let dir = directory(&[("main.snet", "net main connect [] * {a};")]);
    assert_eq!(thalweg(&dir, &["check", "main.snet"]).status.code(), Some(0));
    assert_eq!(thalweg(&dir, &["check", "main.snet", "--deny-warnings"]).status.code(), Some(2));
}

#[test]
fn colours_only_when_asked() {
    let dir = directory(&[("main.snet", "net main connect f;")]);
    let escapes = |arguments: &[&str]| thalweg(&dir, arguments).stderr.contains(&0x1b);
    assert!(!escapes(&["check", "main.snet"]));
    assert!(escapes(&["check", "main.snet", "--color", "always"]));
    assert!(!escapes(&["check", "main.snet", "--color", "never"]));
}

#[test]
fn bad_arguments_have_exit_code_two() {
    let dir = directory(&[]);
    assert_eq!(thalweg(&dir, &["chekc"]).status.code(), Some(2));
    assert_eq!(thalweg(&dir, &["check"]).status.code(), Some(2));
    let output = thalweg(&dir, &["check", "main.snet", "--boxes", "./libmissing.so"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("libmissing.so"));
    assert_eq!(thalweg(&dir, &["--help"]).status.code(), Some(0));
}

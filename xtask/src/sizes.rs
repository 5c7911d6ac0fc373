//! The limits of the lengths of files and functions: longer files and functions are hard to understand, and
//! must be divided by meaning.
//!
//! Tests, tables and generated files are not checked. The ends of functions are found by their indentation,
//! which `cargo fmt` makes uniform.

use crate::sources;

const FILE_LINES_MAX: usize = 900;
const FUNCTION_LINES_MAX: usize = 80;

/// The files and functions that may be longer, each with the reason. The test fails if an exception is no
/// longer needed.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("monitor/src/decoding/events.rs", "generated"),
    ("net/src/json/scan.rs: push", "a state machine in one match: parts of it cost the scan speed"),
];

/// The lines of each function of a file, by its name.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some(name) = name(code) else { continue };
        let is_end = |line: &&str| {
            let rest = line.strip_prefix(indent).unwrap_or(" ");
            rest.starts_with('}') || (!rest.starts_with(' ') && rest.ends_with([';', '}']))
        };
        let length = lines[at..].iter().position(is_end).map_or(0, |end| end + 1);
        functions.push((name, length));
    }
    functions
}

/// The name of the function that begins on a line.
fn name(code: &str) -> Option<&str> {
    let (before, rest) = code.split_once("fn ")?;
    let is_head = |word: &str| {
        matches!(word, "const" | "async" | "unsafe" | "extern" | "default")
            || word.starts_with(['"', 'p', 's', 'c', 'i'])
    };
    let of_head = before.split([' ', '(', ')']).filter(|word| !word.is_empty()).all(is_head);
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (of_head && end > 0).then(|| &rest[..end])
}

/// Whether a file contains only tests.
fn is_for_tests(path: &str) -> bool {
    let in_folder = |folder: &str| path.contains(&format!("/{folder}/"));
    in_folder("tests") || in_folder("fuzz") || path.ends_with("tests.rs") || path.ends_with("loom_model.rs")
}

#[test]
fn files_and_functions_are_short() {
    let mut wrong = Vec::new();
    let mut needed = vec![false; EXCEPTIONS.len()];
    let mut judge = |what: String, lines: usize, most: usize| {
        if lines > most {
            match EXCEPTIONS.iter().position(|(excepted, _)| *excepted == what) {
                Some(at) => needed[at] = true,
                None => wrong.push(format!("{what} has {lines} lines; {most} are the most")),
            }
        }
    };
    let mut count = 0;
    for (path, text) in sources::ending_with(".rs") {
        if is_for_tests(&path) {
            continue;
        }
        judge(path.clone(), text.lines().count(), FILE_LINES_MAX);
        for (name, lines) in functions(&text) {
            count += 1;
            judge(format!("{path}: {name}"), lines, FUNCTION_LINES_MAX);
        }
    }
    let needless = EXCEPTIONS.iter().zip(needed).filter(|(_, needed)| !needed);
    wrong.extend(needless.map(|((what, _), _)| format!("`{what}` needs no exception any more")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 5000, "{count} functions");
}

#[test]
fn the_lines_of_functions_are_counted() {
    let text = "\
fn a() {}
pub(crate) fn b(
    c: u32,
) -> u32 {
    if c > 0 {
        1
    }
}
trait T {
    fn d();
    unsafe extern \"C\" fn e() {
        let call = |f: fn (u32)| f(1);
    }
}
";
    assert_eq!(functions(text), [("a", 1), ("b", 7), ("d", 1), ("e", 3)]);
}

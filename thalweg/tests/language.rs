//! `thalweg fmt`, `explain`, `check --types` and `check --graph` on the command line.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const NET: &str = "net main { box inc ((x, <n>) -> (x, <n>)); box odd ((x) -> (y) | (z)); } connect\n\
                   inc * {<n>} if <n > 3> .. (odd | [{k} -> {y = k}]) .. [] ! <n>;\n";

/// A new directory with this network as `main.snet`.
fn directory(text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("main.snet"), text).unwrap();
    dir
}

fn thalweg(dir: &TempDir, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments).current_dir(dir).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[track_caller]
fn check(dir: &TempDir, arguments: &[&str], input: &str, code: i32, expected: &str) {
    let output = thalweg(dir, arguments, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{stderr}");
    assert_eq!(output.status.code(), Some(code), "{stderr}");
}

#[test]
fn fmt_lays_out_in_place_or_from_input_to_output() {
    let text = "net main{box f((a)->(b));}connect f;// f\n";
    let laid_out = "net main {\n    box f ((a) -> (b));\n}\nconnect f; // f\n";
    let dir = directory(text);
    check(&dir, &["fmt", "-"], text, 0, laid_out);
    check(&dir, &["fmt", "--check", "-"], text, 1, "");
    check(&dir, &["fmt", "--check", "main.snet"], "", 1, "");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("main.snet")).unwrap(),
        text,
        "--check changes nothing"
    );
    check(&dir, &["fmt", "main.snet"], "", 0, "");
    assert_eq!(std::fs::read_to_string(dir.path().join("main.snet")).unwrap(), laid_out);
    check(&dir, &["fmt", "--check", "main.snet", "-"], laid_out, 0, "");
}

#[test]
fn fmt_does_not_touch_what_it_cannot_read() {
    let dir = directory("net main connect (f;");
    let output = thalweg(&dir, &["fmt", "main.snet", "gone.snet"], "");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("E0202") && stderr.contains("E0304") && stderr.contains("gone.snet"), "{stderr}");
    assert_eq!(std::fs::read_to_string(dir.path().join("main.snet")).unwrap(), "net main connect (f;");
    check(&dir, &["fmt", "-"], "net main connect (f;", 2, "");
}

#[test]
fn explain_prints_the_page_of_a_code() {
    let dir = directory(NET);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors/E0203.md");
    check(&dir, &["explain", "e0203"], "", 0, &std::fs::read_to_string(page).unwrap());
    let all = thalweg(&dir, &["explain"], "");
    let all = String::from_utf8_lossy(&all.stdout).into_owned();
    assert!(all.contains("E0203  a bracket that closes nothing\n") && all.lines().count() > 40, "{all}");
    let unknown = thalweg(&dir, &["explain", "E023"], "");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean E0"));
}

#[test]
fn types_are_printed_a_net_each() {
    let text = "net main {\n    box f ((a, <t>) -> (b) | (c));\n    net shut ({b} -> ...) connect [{b} -> {d = b, <e>}];\n}\n\
                connect f .. (shut | [{c} -> {d = c}]);\n";
    let expected = "net shut  (input as declared)\n    {b} -> {d, <e>}\nnet main\n    {a, b, <t>} -> {b, d} | {c, d, <e>} | {d, <e>}\n    \
                    {a, <t>} -> {d} | {d, <e>}\nmain.snet: sound (2 nets, 1 box)\n";
    check(&directory(text), &["check", "--types", "main.snet"], "", 0, expected);
}

/// Sixty optional relabellings in a star have 2^60 or more sets of labels as input: the check tries some of
/// them and prints a message that it did not try all.
#[test]
fn variants_that_were_not_all_tried_are_reported() {
    let net = |count: usize| {
        let steps: Vec<String> =
            (0..count).map(|i| format!("([{{<a{i}>}} -> {{<a{}>}}] | [])", i + 1)).collect();
        format!("net main connect ({}) * {{<a{count}>}};\n", steps.join(" .. "))
    };
    let printed = |count: usize| {
        let dir = directory(&net(count));
        let output = thalweg(&dir, &["check", "--types", "main.snet"], "");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(printed(60).contains("perhaps not all"), "{}", printed(60));
    assert!(!printed(3).contains("perhaps"), "{}", printed(3));
}

#[test]
fn graphs_have_every_component() {
    let dir = directory(NET);
    let drawn = |format: &str| {
        let output = thalweg(&dir, &["check", "main.snet", "--graph", format], "");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = drawn("text");
    for part in ["net main", "* {<n>} if …", "│ inc │", "│ odd │", "[{k} -> {y}]", "! <n>", "│ [] │", "▶"]
    {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let svg = drawn("svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("! &lt;n&gt;"), "{svg}");
    assert_eq!(svg.matches("<rect ").count(), 1 + 3 + 4, "the page, three frames, four components\n{svg}");
    let dot = drawn("dot");
    assert!(
        dot.starts_with("digraph network {") && dot.contains("cluster3") && dot.contains("n2 -> n4;"),
        "{dot}"
    );
}

#[test]
fn where_streams_of_two_parallels_join_a_graph_has_a_point() {
    let dir = directory("net main connect ([] | [] | []) .. ([] | [] | []);");
    let dot = thalweg(&dir, &["check", "main.snet", "--graph", "dot"], "").stdout;
    let dot = String::from_utf8(dot).unwrap();
    assert_eq!(dot.matches(" -> ").count(), 3 + 3 + 3 + 3, "{dot}");
    assert_eq!(dot.matches("[shape=point]").count(), 3, "{dot}");
}

//! Dead letters: the file has everything that fails in a run, in its original form: records, and the bytes of
//! malformed input.

mod program;

use std::path::Path;
use std::process::{Command, Output};

use program::{run, write};
use serde_json::{Value, json};

const SAME: &str = "net same connect [];";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes that a JSON text stands for, or those of an object that encodes bytes as JSON.
fn bytes_of(value: &Value) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if let Some(text) = value.as_str() {
        return text.as_bytes().to_vec();
    }
    let text = value["$base64"].as_str().expect("bytes").as_bytes();
    let mut bytes = Vec::new();
    for four in text.chunks(4) {
        let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
        let word = four.iter().fold(0, |word, byte| word << 6 | digit(byte).unwrap_or(0));
        let padding = four.iter().filter(|byte| **byte == b'=').count();
        bytes.extend_from_slice(&word.to_be_bytes()[5..8 - padding]);
    }
    bytes
}

/// Runs with these arguments, which must end with exit code 1; returns the dead letters and the run's output.
fn letters(arguments: &[&str], input: &str) -> (Vec<Value>, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letters.jsonl");
    let place = file.to_str().unwrap();
    let output = run(&[arguments, &["--on-error", "dead-letter", "--dead-letters", place]].concat(), input);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let letters = std::fs::read_to_string(&file).unwrap();
    (letters.lines().map(|line| serde_json::from_str(line).expect(line)).collect(), output)
}

/// Compares the dead letters with the bytes of the input from which they came.
fn assert_raw(letters: &[Value], name: &str, input: &[u8], wanted: &[(Option<u64>, &[u8])]) {
    assert_eq!(letters.len(), wanted.len(), "{letters:?}");
    for (letter, (line, raw)) in letters.iter().zip(wanted) {
        assert_eq!((&letter["input"], &letter["component"]), (&json!(name), &json!("source")), "{letter}");
        assert_eq!(letter["line"].as_u64(), *line, "{letter}");
        let found = bytes_of(&letter["raw"]);
        assert_eq!(found, *raw, "{letter}");
        let byte = letter["byte"].as_u64().expect("a place") as usize;
        assert_eq!(&input[byte..byte + found.len()], *raw, "{letter}");
    }
}

#[test]
fn lines_that_are_no_records_are_kept_as_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", SAME);
    let path = folder.path().join("in.jsonl");
    let input =
        b"{\"x\": 1}\n{\"x\": \n\n\xff\xfe{\"x\": \"\x80\"}\r\nnothing\n{\"x\": 2}\n  [1] \n{\"x\": 3";
    std::fs::write(&path, input).unwrap();
    let name = path.to_str().unwrap();
    let (found, output) = letters(&[&net, "--input", name], "");
    assert_eq!(text(&output.stdout), "{\"x\": 1}\n{\"x\": 2}\n");
    let wanted: [(_, &[u8]); 5] = [
        (Some(2), b"{\"x\": "),
        (Some(4), b"\xff\xfe{\"x\": \"\x80\"}"),
        (Some(5), b"nothing"),
        (Some(7), b"1"),
        (Some(8), b"{\"x\": 3"),
    ];
    assert_raw(&found, name, input, &wanted);
    assert!(found[0]["reason"].as_str().unwrap().contains(":2:"), "{}", found[0]);

    let (found, _) = letters(&[&net, "--input", name, "--input-format", "lines"], "");
    assert_raw(&found, name, input, &[(Some(4), b"\xff\xfe{\"x\": \"\x80\"}")]);
}

#[test]
fn a_line_that_is_too_long_is_kept_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", SAME);
    let long: String = (0..400_000).map(|n| format!("{n:07},")).collect();
    for (format, name, input) in [
        ("json", "in.jsonl", format!("{{\"x\": 1}}\n{long}\n{{\"x\": 2}}\n{long}")),
        ("lines", "in.txt", format!("one\n{long}\r\ntwo\n{long}")),
        ("csv", "in.csv", format!("x\n1\n{long}\n2\n{long}\n")),
    ] {
        let path = write(folder.path(), name, &input);
        let (found, output) =
            letters(&[&net, "--input", &path, "--input-format", format, "--record-bytes", "1000"], "");
        assert_eq!(text(&output.stdout).lines().count(), 2, "{format}");
        assert!(text(&output.stderr).contains("2 failed"), "{format}: {}", text(&output.stderr));
        let mut whole: Vec<(u64, u64, Vec<u8>)> = Vec::new();
        let mut goes_on = false;
        for letter in &found {
            let (line, byte) = (letter["line"].as_u64().unwrap(), letter["byte"].as_u64().unwrap());
            let bytes = bytes_of(&letter["raw"]);
            assert!(bytes.len() < 2 << 20, "pieces are bounded");
            match whole.last_mut().filter(|_| goes_on) {
                Some((of, begin, before)) => {
                    assert_eq!((*of, *begin + before.len() as u64), (line, byte), "{format}");
                    before.extend(bytes);
                }
                None => whole.push((line, byte, bytes)),
            }
            goes_on = letter["more"] == json!(true);
        }
        let first = input.find(&long).unwrap() as u64;
        let second = input.rfind(&long).unwrap() as u64;
        let lines = if format == "csv" { [3, 5] } else { [2, 4] };
        let wanted =
            [(lines[0], first, long.clone().into_bytes()), (lines[1], second, long.clone().into_bytes())];
        assert!(
            whole == wanted,
            "{format}: {:?}",
            whole.iter().map(|w| (w.0, w.1, w.2.len())).collect::<Vec<_>>()
        );
        assert!(!goes_on, "{format}: the last piece is the last");
    }
}

#[test]
fn rows_and_xml_that_are_no_records_are_kept_as_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", SAME);
    let path = folder.path().join("in.csv");
    let input = b"a,<n>\r\n1,x\r\n\r\n\"q\xffq\",1\r\n\"two\nlines\",bad\r\n2,2\r\n3\r\n";
    std::fs::write(&path, input).unwrap();
    let name = path.to_str().unwrap();
    let (found, output) = letters(&[&net, "--input", name], "");
    assert_eq!(text(&output.stdout), "{\"a\": 2, \"<n>\": 2}\n");
    let lines: Vec<Option<u64>> = found.iter().map(|letter| letter["line"].as_u64()).collect();
    let raws: [&[u8]; 4] = [b"1,x", b"\"q\xffq\",1", b"\"two\nlines\",bad", b"3"];
    let wanted: Vec<_> = lines.into_iter().zip(raws).collect();
    assert_raw(&found, name, input, &wanted);

    let path = folder.path().join("in.xml");
    let good = "<record type='data' mode='textual'><field label='a'>(int)1</field></record>";
    let bad = "<record type='data' mode='textual'><field label='a'>(int)no</field></record>";
    let unknown = "<record type='odd'><tag label='t'>1</tag></record>";
    let input = format!("{good}\n{bad}\n  {good}{unknown}\n{good}\n<broken <<");
    std::fs::write(&path, &input).unwrap();
    let name = path.to_str().unwrap();
    let (found, output) = letters(&[&net, "--input", name], "");
    assert_eq!(text(&output.stdout).lines().count(), 3, "{}", text(&output.stderr));
    let wanted = [(None, bad.as_bytes()), (None, unknown.as_bytes())];
    assert_raw(&found[..2], name, input.as_bytes(), &wanted);
    assert!(found.len() == 3 && found[2]["raw"].as_str().unwrap().starts_with("<broken"), "{found:?}");
}

#[test]
fn records_that_no_output_takes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", SAME);
    let input = "{\"a\": \"text\"}\n{\"b\": \"other\"}\n";
    let (found, _) = letters(&[&net, "--output-format", "csv"], input);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["component"], &found[0]["record"]), (&json!("sink"), &json!({"b": "other"})));

    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    let place = |path: &Path, type_: &str| format!("file:{}?type={{{type_}}}", path.display());
    let (first, second) = (place(&first, "a"), place(&second, "c"));
    let (found, _) = letters(&[&net, "--output", &first, "--output", &second], input);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["record"], json!({"b": "other"}));
}

/// Boxes that take their arguments, change them in place or emit them, and then fail.
const BOXES: &str = r#"
#include "thalweg.h"
static thalweg_status hold(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    int64_t how = 0;
    size_t length = 0;
    thalweg_value taken, both[3];
    (void)data, (void)count;
    thalweg_get_int(&arguments[1], &how);
    if (how == 1) return thalweg_fail(out, "before it took anything");
    taken = thalweg_take(&arguments[0]);
    if (how == 2) {
        thalweg_drop(&taken);
        return thalweg_fail(out, "after it dropped its argument");
    }
    if (how == 3) {
        uint8_t *bytes = (uint8_t *)thalweg_make_mut(&taken, &length);
        if (bytes != NULL && length > 0) bytes[0] = 'X';
        thalweg_drop(&taken);
        return thalweg_fail(out, "after it changed its argument");
    }
    both[0] = taken;
    both[1] = thalweg_int(how + 100);
    both[2] = thalweg_int(1);
    thalweg_emit(out, 1, how == 5 ? 3 : 2, both);
    return how == 4 ? thalweg_fail(out, "after it emitted its argument") : THALWEG_DONE;
}
static const thalweg_box boxes[] = {THALWEG_BOX("box hold ((a, <how>) -> (a, <how>))", 2, hold)};
THALWEG_LIBRARY(boxes)
"#;

#[test]
fn what_a_box_in_c_took_is_in_the_letter() {
    let folder = tempfile::tempdir().unwrap();
    let source = write(folder.path(), "hold.c", BOXES);
    let library = folder.path().join("libhold.so");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bindings/c");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]).arg(include);
    assert!(compile.arg(&source).arg("-o").arg(&library).status().unwrap().success());
    let text_of = "net hold { box hold ((a, <how>) -> (a, <how>)); } connect hold;";
    let net = write(folder.path(), "hold.snet", text_of);
    let values = ["\"a text\"", "{\"$base64\": \"AAEC\"}", "[1, 2, 3]", "[0.5, 1.5]", "7", "0.25"];
    let records: Vec<String> = values
        .iter()
        .flat_map(|value| {
            (0..6).map(move |how| format!("{{\"a\": {value}, \"k\": \"kept\", \"<how>\": {how}}}\n"))
        })
        .collect();
    let library = library.to_str().unwrap();
    let (found, output) = letters(&[&net, "--boxes", library, "--workers", "1"], &records.concat());
    let wanted: Vec<Value> = records
        .iter()
        .map(|record| serde_json::from_str(record).unwrap())
        .filter(|record: &Value| record["<how>"] != json!(0))
        .collect();
    let found: Vec<Value> = found.iter().map(|letter| letter["record"].clone()).collect();
    assert_eq!(found, wanted, "{}", text(&output.stderr));
    // Without a file for dead letters, a message names the changed values, and shows all other values as they
    // came.
    let output = run(
        &[&net, "--boxes", library, "--workers", "1"],
        "{\"a\": \"a text\", \"<how>\": 2}\n{\"a\": \"a text\", \"<how>\": 3}\n",
    );
    let stderr = text(&output.stderr);
    assert!(stderr.contains("{a=\"a text\", <how>=2}"), "{stderr}");
    assert!(stderr.contains("{a=\"(changed in place by the box)\", <how>=3}"), "{stderr}");
}

/// A device that is always full stands for a full disk.
#[test]
fn letters_and_records_that_a_full_disk_does_not_take_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", SAME);
    let bad = "no record\n".repeat(20);
    let output = run(&[&net, "--on-error", "dead-letter", "--dead-letters", "/dev/full"], &bad);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write /dev/full: No space left on device"), "{stderr}");
    assert!(
        stderr.contains("dead letters are not in /dev/full") || stderr.contains("1 dead letter is not"),
        "{stderr}"
    );

    let records: String = (0..1000).map(|n| format!("{{\"x\": {n}}}\n")).collect();
    let output = run(&[&net, "--output", "/dev/full"], &records);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write /dev/full: No space left on device"), "{stderr}");
    assert!(stderr.contains(" records in, 0 out"), "none of them is there: {stderr}");
}

//! Typical data files of users pass through a network unchanged, and through a box that takes two of their
//! fields.

mod program;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use program::{run, write};
use serde_json::Value;

/// A file, and the expected records: their members as JSON, in order.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    records: &'static str,
    /// Two fields of the file: labels, and their `--label` arguments.
    takes: [&'static str; 2],
    labels: &'static [&'static str],
}

/// An answer of a web service, on one line each.
const ORDERS: &str = r#"{"id": 4711, "customer": {"name": "Zoë \"Z\" Müller", "emails": ["a@x.org", null], "address": {"city": "Köln", "geo": [50.9375, 6.9603]}}, "items": [{"sku": "A-1", "qty": 2, "price": 9.90}, {"sku": "B/2", "qty": 1, "price": 1e2}], "paid": true, "coupon": null}
{"id": 12345678901234567890, "customer": {"name": "\u00c5se", "emails": [], "address": {"city": "Oslo", "geo": []}}, "items": [], "paid": false, "coupon": "\ud83d"}
"#;

/// Logs in the format of a log shipper.
const LOGS: &str = r#"{"@timestamp": "2024-02-29T23:59:59.123Z", "@version": "1", "level": "WARN", "user-id": 17, "duration_ms": 0.10, "labels": {"k8s.pod/name": "web-1"}}
{"@timestamp": "2024-03-01T00:00:00.000Z", "@version": "1", "level": "INFO", "user-id": 18, "duration_ms": 12.50, "tags": ["a", "b"]}
"#;

/// Objects that a person has written, or that were formatted for one.
const PRETTY: &str = r#"{
  "name": "first",
  "größe": 1.10,
  "parts": [
    {
      "n": 1
    },
    { "n": 2 }
  ]
}
{
  "name": "second",
  "größe": 2,
  "parts": []
}
"#;

const LIST: &str = r#"[
  {"name": "first", "größe": 1.10, "parts": [{"n": 1}, {"n": 2}]},
  {"name": "second", "größe": 2, "parts": []}
]
"#;

const PARTS: &str = r#"{"name": "first", "größe": 1.10, "parts": [{"n": 1}, {"n": 2}]}
{"name": "second", "größe": 2, "parts": []}
"#;

const TRACKS: &str = r#"{"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[102.0, 0.0], [103.0, 1.0]]}, "properties": {"prop0": "value0", "prop1": 0.0}, "bbox": [102.0, 0.0, 103.0, 1.0]}
{"type": "Feature", "geometry": null, "properties": {}, "bbox": [-10, 1e400]}
"#;

const DOCUMENTS: &str = r#"{"_id": {"$oid": "507f1f77bcf86cd799439011"}, "when": {"$date": "2024-01-01T00:00:00Z"}, "n": {"$numberLong": "9007199254740993"}, "": "no name", "a b": "two words"}
"#;

const SHEET: &str = "Order ID,Unit Price (€),Customer,größe,Notes\n\
    1,19.90,\"Müller, \"\"Z\"\"\",007,\"two\nlines\"\n\
    2,1e3,Oslo,,\n";

fn compressed(program: &str, text: &str) -> Vec<u8> {
    let mut command = Command::new(program);
    let mut child = program::started(command.arg("-c"));
    let mut input = child.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    child.wait_with_output().expect("it ends").stdout
}

fn cases() -> Vec<Case> {
    const NAMES: [&str; 2] = ["name", "gr_xF6__xDF_e"];
    let text = |text: &str| text.as_bytes().to_vec();
    let gzip = |text: &str| compressed("gzip", text);
    let logs = ["_x40_timestamp", "user"];
    let labels: &[&str] = &["user=user-id"];
    vec![
        Case {
            name: "orders.jsonl",
            bytes: text(ORDERS),
            records: ORDERS,
            takes: ["city", "paid"],
            labels: &["city=customer.address.city"],
        },
        Case { name: "logs.jsonl", bytes: text(LOGS), records: LOGS, takes: logs, labels },
        Case { name: "logs.jsonl.gz", bytes: gzip(LOGS), records: LOGS, takes: logs, labels },
        Case {
            name: "two.jsonl.gz",
            bytes: [gzip(ORDERS), gzip(ORDERS)].concat(),
            records: concat_orders(),
            takes: ["id", "items"],
            labels: &[],
        },
        Case { name: "logs.bin", bytes: zstd(LOGS), records: LOGS, takes: logs, labels },
        Case { name: "pretty.json", bytes: text(PRETTY), records: PARTS, takes: NAMES, labels: &[] },
        Case { name: "list.json", bytes: text(LIST), records: PARTS, takes: NAMES, labels: &[] },
        Case {
            name: "minified.json",
            bytes: text(&LIST.replace(['\n', ' '], "")),
            records: PARTS,
            takes: NAMES,
            labels: &[],
        },
        Case {
            name: "bom.json",
            bytes: [b"\xEF\xBB\xBF", LIST.replace('\n', "\r\n").as_bytes()].concat(),
            records: PARTS,
            takes: NAMES,
            labels: &[],
        },
        Case {
            name: "windows.jsonl",
            bytes: text(&LOGS.replace('\n', "\r\n")),
            records: LOGS,
            takes: logs,
            labels,
        },
        Case {
            name: "tracks.ndjson",
            bytes: text(TRACKS),
            records: TRACKS,
            takes: ["bbox", "geometry"],
            labels: &[],
        },
        Case {
            name: "documents.json",
            bytes: text(DOCUMENTS),
            records: DOCUMENTS,
            takes: ["_x_", "oid"],
            labels: &["oid=_id.$oid"],
        },
    ]
}

fn concat_orders() -> &'static str {
    static TWICE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| ORDERS.repeat(2));
    &TWICE
}

/// The text compressed by a run of the program itself.
fn zstd(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", "net same connect [];");
    let out = folder.path().join("out.jsonl.zst");
    let output = run(&[&net, "--output", out.to_str().unwrap()], text);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(out).unwrap();
    assert!(bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    bytes
}

fn file(folder: &Path, case: &Case) -> PathBuf {
    let path = folder.join(case.name);
    std::fs::write(&path, &case.bytes).unwrap();
    path
}

/// The members of an object, each with the text of its value, in the order of their names.
fn members(line: &str) -> Vec<(String, String)> {
    let mut rest = line.trim().strip_prefix('{').expect(line);
    let mut all = Vec::new();
    while let Some(at) = rest.find('"') {
        let value = |text: &str| -> (String, usize) {
            let mut scan = thalweg_net::json::Scan::new();
            let end = scan.push(text.as_bytes()).expect(text).expect(text);
            (text[..end].trim().to_owned(), end)
        };
        let (key, key_end) = value(&rest[at..]);
        let after = &rest[at + key_end..];
        let after = after.trim_start().strip_prefix(':').expect(line);
        let (text, end) = value(after);
        all.push((key, text));
        rest = &after[end..];
    }
    all.sort();
    all
}

fn all_members(lines: &str) -> Vec<Vec<(String, String)>> {
    lines.lines().map(members).collect()
}

fn written(arguments: &[&str]) -> String {
    let output = run(arguments, "");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The members without spaces between the parts of their values; pretty-printed texts differ only in these
/// spaces.
fn dense(members: Vec<Vec<(String, String)>>) -> Vec<Vec<(String, String)>> {
    let dense = |(key, value): (String, String)| {
        // Nested texts in these files contain no blanks.
        let value = if value.starts_with(['[', '{']) { value.replace(' ', "") } else { value };
        (key, value)
    };
    members.into_iter().map(|record| record.into_iter().map(dense).collect()).collect()
}

#[test]
fn files_pass_through_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", "net same connect [];");
    for case in cases() {
        let path = file(folder.path(), &case);
        let out = written(&[&net, "--input", path.to_str().unwrap()]);
        assert_eq!(dense(all_members(&out)), dense(all_members(case.records)), "{}", case.name);
    }
    // Values that were on one line keep every byte.
    let path = write(folder.path(), "orders.jsonl", ORDERS);
    assert_eq!(all_members(&written(&[&net, "--input", &path])), all_members(ORDERS));
}

#[test]
fn files_pass_through_a_box_that_takes_two_of_their_fields() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases() {
        let path = file(folder.path(), &case);
        let [a, b] = case.takes;
        // The box is a program that reads JSON and writes its input unchanged.
        let text = format!(
            "net two {{ box two (({a}, {b}) -> ({a}, {b})) {{ <<< exec lines | cat >>> }} }} connect two;"
        );
        let net = write(folder.path(), "two.snet", &text);
        let mut arguments = vec![net.as_str(), "--allow-exec", "--input", path.to_str().unwrap()];
        case.labels.iter().for_each(|label| arguments.extend(["--label", label]));
        let out = written(&arguments);
        let values = |lines: &str| -> Vec<Value> {
            // A lone surrogate of UTF-16 is valid JSON that serde_json refuses.
            let lines = lines.replace("\\ud83d", "?");
            lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
        };
        let wanted = case.records.replace("1e400", "0");
        assert_eq!(values(&out.replace("1e400", "0")), values(&wanted), "{}", case.name);
        assert!(out.lines().count() == case.records.lines().count(), "{}", case.name);
    }
}

#[test]
fn a_sheet_passes_through_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", "net same connect [];");
    let crlf = SHEET.replace('\n', "\r\n").replace("two\r\n", "two\n");
    for (name, bytes) in [
        ("sheet.csv", SHEET.as_bytes().to_vec()),
        ("sheet.csv.gz", compressed("gzip", SHEET)),
        ("windows.csv", [b"\xEF\xBB\xBF", crlf.as_bytes()].concat()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let out = written(&[&net, "--input", path, "--output-format", "csv"]);
        let rows = |text: &str| -> Vec<Vec<String>> {
            let mut reader = csv_rows(text);
            // The columns of the output may have another order.
            let order: Vec<usize> = {
                let mut order: Vec<usize> = (0..reader[0].len()).collect();
                order.sort_by_key(|&column| reader[0][column].clone());
                order
            };
            reader.iter_mut().map(|row| order.iter().map(|&column| row[column].clone()).collect()).collect()
        };
        assert_eq!(rows(&out), rows(SHEET), "{name}");
        let lines = written(&[&net, "--input", path]);
        assert!(
            lines.contains("\"Unit Price (€)\": 19.90") && lines.contains("\"größe\": \"007\""),
            "{lines}"
        );
        // The file also passes through a box that takes two columns, one of them by a label from `--label`.
        let text = "net two { box two ((price, Order_x20_ID) -> (price, Order_x20_ID)) { <<< exec lines | cat >>> } } connect two;";
        let two = write(folder.path(), "two.snet", text);
        let label = "price=Unit Price (€)";
        let out =
            written(&[&two, "--allow-exec", "--input", path, "--label", label, "--output-format", "csv"]);
        let plain = |text: &str| {
            rows(text)
                .concat()
                .iter()
                .map(|c| c.replace("19.90", "19.9").replace("1e3", "1000.0"))
                .collect::<Vec<_>>()
        };
        assert_eq!(plain(&out), plain(SHEET), "{name}");
    }
}

/// Parses rows of cells by a simple reader.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut cell, mut quoted) = (vec![vec![]], String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => cell.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => rows.last_mut().unwrap().push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                rows.last_mut().unwrap().push(std::mem::take(&mut cell));
                rows.push(vec![]);
            }
            other => cell.push(other),
        }
    }
    rows.pop();
    rows
}

#[test]
fn what_is_compressed_is_known_by_its_name_or_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", "net same connect [];");
    let input: String =
        (0..50_000).map(|n| format!("{{\"n\": {n}, \"text\": \"line {}\"}}\n", n % 7)).collect();
    let path = write(folder.path(), "in.jsonl", &input);
    for name in ["out.jsonl.gz", "out.jsonl.zst"] {
        let out = folder.path().join(name);
        let out = out.to_str().unwrap();
        written(&[&net, "--input", &path, "--output", out]);
        assert!(std::fs::metadata(out).unwrap().len() < input.len() as u64 / 4);
        // The compression is recognised by the first bytes, because a pipe has no file name.
        let line = format!("{} run {net} < {out}", env!("CARGO_BIN_EXE_thalweg"));
        let piped = Command::new("sh").args(["-c", &format!("cat {out} | {line}")]).output().unwrap();
        assert!(String::from_utf8_lossy(&piped.stdout) == input);
        // A truncated file is read up to its end.
        let bytes = std::fs::read(out).unwrap();
        let cut = folder.path().join(format!("cut.{name}"));
        std::fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
        let output = run(&[&net, "--input", cut.to_str().unwrap()], "");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains("the file was cut off"), "{stderr}");
        assert!(output.stdout.len() > input.len() / 2 && input.as_bytes().starts_with(&output.stdout));
    }
    let gzip = Command::new("gzip").args(["-t"]).arg(folder.path().join("out.jsonl.gz")).status().unwrap();
    assert!(gzip.success());
}

#[test]
fn a_list_without_its_end_is_reported_by_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", "net same connect [];");
    // The input, the output, the place of a list without an end (if any), and the number of errors.
    let table: [(&str, &str, Option<&str>, usize); 8] = [
        ("[1,2\n", "", Some(":1:1:"), 3),
        ("{\"a\": 1}\n  [1,2\n{\"a\": 2}\n", "{\"a\": 1}\n{\"a\": 2}\n", Some(":2:3:"), 3),
        ("[{\"a\": 1}, {\"a\": 2}", "{\"a\": 1}\n{\"a\": 2}\n", Some(":1:1:"), 1),
        (
            "\n[{\"a\": 1},\n{\"a\": 2}\n{\"a\": 3}\n",
            "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n",
            Some(":2:1:"),
            1,
        ),
        ("[{\"a\": 1}\n[{\"a\": 2}]\n", "{\"a\": 1}\n{\"a\": 2}\n", Some(":1:1:"), 1),
        ("[", "", Some(":1:1:"), 1),
        ("[1]\n{\"a\": 1}\n", "{\"a\": 1}\n", None, 1),
        ("[INFO] started\n{\"a\": 1}\n", "{\"a\": 1}\n", None, 1),
    ];
    for (input, out, list, wrong) in table {
        let output = run(&[&net], input);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{input}: {errors}");
        let unclosed: Vec<&str> = errors.lines().filter(|line| line.contains("has no `]`")).collect();
        let at = list.map(|at| format!("standard input{at} the list of records that begins here has no `]`"));
        assert_eq!(unclosed.len(), usize::from(at.is_some()), "{input}: {errors}");
        assert!(at.is_none_or(|at| unclosed[0].contains(&at)), "{input}: {errors}");
        assert!(errors.contains(&format!("{wrong} failed")), "{input}: {errors}");
    }
}

#[test]
fn what_is_broken_costs_itself() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(folder.path(), "same.snet", "net same connect [];");
    let table: [(&str, &str, &[&str]); 8] = [
        ("{\"a\": \n{\"a\": 2}\n", "{\"a\": 2}\n", &[":1:6: the line ends"]),
        ("{\"a\": 1\n{\"a\": 2}\n", "{\"a\": 2}\n", &[":1:8: expected `,` or `}`"]),
        (
            "{\"a\": [\n{\"a\": 2}\n{\"a\": 3}\n",
            "{\"a\": 2}\n{\"a\": 3}\n",
            &[":1:8: the line ends in a value"],
        ),
        (
            "{\n  \"a\": tru,\n  \"b\": {\n    \"c\": 1\n  }\n}\n{\n  \"a\": 2\n}\n",
            "{\"a\": 2}\n",
            &[":2:11: expected true, false or null"],
        ),
        ("[{\"a\": 1}, {\"a\" 2}, {\"a\": 3}]\n", "{\"a\": 1}\n", &[":1:17: expected `:` after a key"]),
        (
            "[\n  {\"a\": 1},\n  {\n    \"a\": x\n  },\n  {\"a\": 3}\n]\n{\"a\": 4}\n",
            "{\"a\": 1}\n{\"a\": 3}\n{\"a\": 4}\n",
            &[":4:10: expected a value"],
        ),
        ("[INFO] started\n{\"a\": 1}\n", "{\"a\": 1}\n", &[":1:2: expected a value"]),
        ("{\"a\": 1}\n{\"b\": [[1, 2]\n", "{\"a\": 1}\n", &[":2:14:"]),
    ];
    for (input, out, expected) in table {
        let output = run(&[&net], input);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{input}: {errors}");
        expected.iter().for_each(|expected| assert!(errors.contains(expected), "{input}: {errors}"));
        assert!(errors.contains("1 failed"), "{input}: {errors}");
    }
    let utf16: Vec<u8> = "\u{feff}{\"a\": 1}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let path = folder.path().join("utf16.json");
    std::fs::write(&path, utf16).unwrap();
    let output = run(&[&net, "--input", path.to_str().unwrap()], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("this is UTF-16; convert it"));
}

#[test]
fn values_with_labels_go_back_to_where_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let text = "net up { box up ((city) -> (city)) { <<< exec | jq -c --unbuffered '{\"@\", city: (.city | ascii_upcase)}' >>> } } connect up .. [{<id>} -> {<id=id+1>}];";
    if Command::new("jq").arg("--version").output().is_err() {
        return;
    }
    let net = write(folder.path(), "up.snet", text);
    let input = "{\"id\": 1, \"user-id\": 2, \"address\": {\"zip\": \"53111\", \"city\": \"Bonn\"}}\n\
                 {\"id\": 2, \"user-id\": 3, \"address\": {\"city\": \"Ulm\"}, \"more\": [null]}\n";
    let output = run(&[&net, "--allow-exec", "--label", "city=address.city", "--label", "<id>=id"], input);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "{\"address\": {\"zip\": \"53111\", \"city\": \"BONN\"}, \"user-id\": 2, \"id\": 2}\n\
         {\"address\": {\"city\": \"ULM\"}, \"more\": [null], \"user-id\": 3, \"id\": 3}\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let refused = run(&[&net, "--label", "city"], "");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--label \"city\": expected NAME=PATH"));
}

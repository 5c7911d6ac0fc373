//! Boxes that are programs: `<<< exec | COMMAND >>>`, and with the modes `filter`, `each` and `lines`.

mod program;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output};
use std::time::Duration;

use program::{run, started, write};
use serde_json::{Value, json};

/// Runs a net of the box `ask`, whose code is `command`, on `input`.
fn ask(signature: &str, command: &str, topology: &str, arguments: &[&str], input: &str) -> Output {
    ask_by("", signature, command, topology, arguments, input)
}

/// Runs the box in a mode.
fn ask_by(
    mode: &str,
    signature: &str,
    command: &str,
    topology: &str,
    arguments: &[&str],
    input: &str,
) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "net asks {{ box ask ({signature}) {{ <<< exec {mode} | {command} >>> }} }} connect {topology};"
    );
    let net = write(folder.path(), "asks.snet", &text);
    run(&[&[net.as_str(), "--allow-exec"], arguments].concat(), input)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn records(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// One line `{"n": k}` for each of the numbers.
fn numbers(numbers: impl IntoIterator<Item = i64>) -> String {
    numbers.into_iter().map(|n| format!("{{\"n\": {n}}}\n")).collect()
}

const PLAIN: (&str, &[&str]) = ("ask", &[]);

#[test]
fn a_program_answers_records_and_what_it_does_not_take_is_inherited() {
    let input =
        "{\"x\": 1, \"other\": \"o\", \"<t>\": 7}\n{\"x\": \"a\\nb\", \"other\": \"p\", \"<t>\": 8}\n";
    let output = ask("(x, <t>) -> (y, <t>)", "sed -u 's/\"x\"/\"y\"/'", PLAIN.0, PLAIN.1, input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        records(&output),
        [json!({"y": 1, "other": "o", "<t>": 7}), json!({"y": "a\nb", "other": "p", "<t>": 8})]
    );
}

#[test]
fn a_program_that_writes_in_blocks_gets_on() {
    let count = 100_000;
    for workers in ["1", "2"] {
        let output =
            ask("(n) -> (n)", "sed s/never/ever/", "ask .. ask", &["--workers", workers], &numbers(0..count));
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout) == numbers(0..count), "all of them, in order");
    }
}

#[test]
fn an_answer_is_no_record_or_several() {
    let named = r#"sed -u -e 's/{"@": \([0-9]*\), "n": 0}/[\1]/' -e 's/{"@": \([0-9]*\), "n": 2}/[\1, {"m": 1}, {"k": "a"}, {"m": 2}]/' -e 's/{"@": \([0-9]*\), "n": 1}/[ \1 ]/'"#;
    let bare = r#"sed -u -e 's/.*: 0}/null/' -e 's/.*: 1}/[]/' -e 's/.*: 2}/[{"m": 1}, {"k": "a"}, {"m": 2}]/' -e 's/.*: 3}//'"#;
    let wanted = [json!({"m": 1}), json!({"k": "a"}), json!({"m": 2})];
    for (mode, command, more) in
        [("", named, json!({"n": 3})), ("filter", named, json!({"n": 3})), ("lines", bare, json!({"n": 4}))]
    {
        let output = ask_by(mode, "(n) -> (n) | (m) | (k)", command, PLAIN.0, PLAIN.1, &numbers(0..5));
        assert!(output.status.success(), "{mode}: {}", text(&output.stderr));
        let came = records(&output);
        assert_eq!(came[..3], wanted, "{mode}");
        assert_eq!(came[3], more, "{mode}");
    }
}

/// A box may have an output without labels.
#[test]
fn an_empty_record_is_another_thing_than_none() {
    let input = "{\"n\": 1, \"<t>\": 1}\n{\"n\": 2, \"<t>\": 2}\n";
    let command = r#"sed -e 's/, "n": 1}/}/' -e 's/{"@": \([0-9]*\), "n": 2}/[\1]/'"#;
    let output = ask("(n) -> ()", command, PLAIN.0, PLAIN.1, input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(records(&output), [json!({"<t>": 1})]);
}

/// One line `{"id": k, "line": …}` for each of the lines.
fn lines(lines: &[&str]) -> String {
    let line = |(id, line): (usize, &&str)| json!({"id": id + 1, "line": line}).to_string() + "\n";
    lines.iter().enumerate().map(line).collect()
}

/// The ids of the output records, each with its line.
fn answered(output: &Output) -> Vec<(i64, String)> {
    let pair = |record: &Value| {
        (record["id"].as_i64().expect("an id"), record["line"].as_str().expect("a line").to_owned())
    };
    records(output).iter().map(pair).collect()
}

const WATER: [&str; 4] = ["a b", "water", "c", "water 2"];

#[test]
fn a_dropped_line_fails_its_record_and_shifts_no_answer() {
    let output = ask("(line) -> (line)", "grep --line-buffered water", PLAIN.0, PLAIN.1, &lines(&WATER));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(answered(&output), [(2, "water".to_owned()), (4, "water 2".to_owned())]);
    for line in ["a b", "c"] {
        assert!(stderr.contains(&format!("line={line:?}")), "{line}: {stderr}");
    }
    assert!(stderr.contains("did not answer this record, but the later question 1"), "{stderr}");
    assert!(stderr.contains("`exec filter | …`"), "{stderr}");
    assert!(stderr.contains("4 records in, 2 out, 2 failed"), "{stderr}");
}

/// One line is dropped and one doubled, so the counts are equal.
#[test]
fn a_line_dropped_and_one_doubled_are_two_errors() {
    let output = ask("(n) -> (n)", "sed -e '/: 3}/d' -e '/: 6}/p'", PLAIN.0, PLAIN.1, &numbers(0..10));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(text(&output.stdout), numbers((0..10).filter(|n| *n != 3)));
    assert!(stderr.contains("{n=3}"), "{stderr}");
    assert!(stderr.contains("error[E0803]: asks/ask: the command `sed"), "{stderr}");
    assert!(stderr.contains("answers question 6 once more, or after a later one"), "{stderr}");
    assert!(stderr.contains("10 records in, 9 out, 1 failed"), "{stderr}");
}

#[test]
fn answers_in_another_order_are_errors_that_name_the_record() {
    let output = ask("(n) -> (n)", "sed '/: 4}/{h;d};/: 5}/G'", PLAIN.0, PLAIN.1, &numbers(0..10));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(text(&output.stdout), numbers((0..10).filter(|n| *n != 4)));
    assert!(
        stderr.contains("{n=4}") && stderr.contains("question 4 once more, or after a later one"),
        "{stderr}"
    );
}

#[test]
fn banners_and_invented_answers_are_reported_and_every_record_is_answered() {
    let programs = [
        ("echo Starting; sed -u s/never/ever/", "printed `Starting`, which is no answer"),
        ("echo; sed s/never/ever/", "printed ``, which does not say what it answers"),
        ("sed -u '/: 2}/iworking …'", "printed `working …`, which is no answer"),
        ("sed s/never/ever/; echo bye", "printed `bye`, which is no answer"),
        (r#"sed '1i{"@": 999, "n": 1}'"#, "answers a question of the number 999 that it was not asked"),
        (r#"sed '1i{"@": -1, "n": 1}'"#, "answers a question of the number -1 that it was not asked"),
        (r#"sed '1i{"@": "0", "n": 1}'"#, "does not say what it answers"),
        (r#"sed '$a{"@": 99, "n": 1}'"#, "answers a question of the number 99 that it was not asked"),
        (r"printf '\377\376\n'; sed s/never/ever/", "which is no answer"),
    ];
    for (command, what) in programs {
        for mode in ["", "filter"] {
            let output = ask_by(mode, "(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..5));
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
            assert_eq!(text(&output.stdout), numbers(0..5), "{command}: {stderr}");
            assert!(
                stderr.contains("error[E0803]: asks/ask: the command") && stderr.contains(what),
                "{command}: {stderr}"
            );
            assert!(!stderr.contains("panicked") && !stderr.contains("failed"), "{command}: {stderr}");
        }
    }
}

/// Lines without the member that identifies the record are not accepted as answers.
#[test]
fn a_program_that_drops_the_name_fails_its_records_with_advice() {
    for (mode, count) in [("", 10), ("", 900), ("", 5_000), ("filter", 10), ("filter", 5_000)] {
        let command = r#"sed 's/"@": [0-9]*, //'"#;
        let output = ask_by(mode, "(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..count));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(text(&output.stdout), "");
        assert!(stderr.contains("pass \"@\" through"), "{stderr}");
        assert!(stderr.contains(&format!(" records in, 0 out, {count} failed")), "{stderr}");
    }
    // The following program leaves out the member that identifies the record for one record.
    let command = r#"sed -u '/: 3}/s/"@": [0-9]*, //'"#;
    let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..10));
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), numbers((0..10).filter(|n| *n != 3)), "{stderr}");
    assert!(
        stderr.contains("{n=3}") && stderr.contains("printed `{\"n\": 3}`, which does not say"),
        "{stderr}"
    );
    assert!(!stderr.contains("E0803"), "comes with the record: {stderr}");
}

#[test]
fn a_program_that_never_ends_to_print_is_ended() {
    for mode in ["", "filter"] {
        let output = ask_by(mode, "(n) -> (n)", "yes", PLAIN.0, PLAIN.1, &numbers(0..10));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("printed more than 1024 lines that answer no record"), "{stderr}");
        assert!(stderr.contains("10 records in, 0 out, 10 failed"), "{stderr}");
    }
}

#[test]
fn a_filter_gives_none_one_or_many_answers() {
    // The program prints answers as it reads, or all answers at its end.
    for command in ["grep --line-buffered water", "grep water"] {
        let output = ask_by("filter", "(line) -> (line)", command, PLAIN.0, PLAIN.1, &lines(&WATER));
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        assert_eq!(answered(&output), [(2, "water".to_owned()), (4, "water 2".to_owned())], "{command}");
    }
    let many = "sed -e '/: 1}/d' -e '/: 2}/p' -e '/: 3}/{p;p}' -e '/: 4}/d'";
    let output = ask_by("filter", "(n) -> (n)", many, PLAIN.0, PLAIN.1, &numbers(0..6));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), numbers([0, 2, 2, 3, 3, 3, 5]));
    // If nothing is found, grep's status is 1, which is no error of the box.
    let output = ask_by("filter", "(line) -> (line)", "grep wine", PLAIN.0, PLAIN.1, &lines(&WATER));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    // The program answers only some of the questions.
    let count = 30_000;
    let output = ask_by("filter", "(n) -> (n)", "grep ': 7*}'", "ask .. ask", &[], &numbers(0..count));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), numbers([7, 77, 777, 7777]));
}

#[test]
fn a_filter_in_a_deterministic_network_keeps_the_order() {
    let mixed: String =
        (0..2000).map(|n| format!("{{\"{}\": {n}}}\n", if n % 2 == 0 { "n" } else { "b" })).collect();
    let command = "sed -e '/0}/d' -e '/4}/p'";
    let output =
        ask_by("filter", "(n) -> (n)", command, "(ask || [{b} -> {b}])", &["--workers", "2"], &mixed);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: String = mixed
        .lines()
        .filter(|line| !line.ends_with("0}"))
        .map(|line| format!("{line}\n").repeat(if line.ends_with("4}") { 2 } else { 1 }))
        .collect();
    assert!(text(&output.stdout) == wanted, "what is wanted, in order");
}

/// Records about which the program was asked together are asked again, so no record occurs twice, and none
/// counts as rejected.
#[test]
fn a_filter_that_dies_loses_the_record_that_it_dies_of() {
    let programs = [
        "sed -u -e '/: 1.*}/d' -e '/: 2.*}/p' -e '/: 55}$/Q5'",
        "sed -e '/: 1.*}/d' -e '/: 2.*}/p' -e '/: 55}$/Q5'",
        // The program ends in the middle of its answers.
        "sed -u -e '/: 1.*}/d' -e '/: 2.*}/p' -e '/: 55}$/{p;Q5}'",
        "sed -u -e '/: 1.*}/d' -e '/: 2.*}/p' -e '/: 55}$/Q1'; [ $? = 0 ] || { echo oh >&2; exit 1; }",
    ];
    for command in programs {
        let output = ask_by("filter", "(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..100));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
        let wanted = (0..100).filter(|n| !n.to_string().starts_with('1') && *n != 55);
        let wanted = wanted.flat_map(|n| vec![n; 1 + usize::from(n.to_string().starts_with('2'))]);
        assert_eq!(text(&output.stdout), numbers(wanted), "{command}: {stderr}");
        assert!(stderr.contains("message 55 of stream"), "{command}: {stderr}");
        assert!(stderr.contains("100 records in, 99 out, 1 failed"), "{command}: {stderr}");
    }
}

#[test]
fn each_record_may_have_a_process_of_its_own() {
    let command = r#"sed -e '/: 1}/d' -e '/: 2}/p' -e '/: 3}/Q7' -e 's/: 4}/: oops}/'"#;
    let output = ask_by("each", "(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..6));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(text(&output.stdout), numbers([0, 2, 2, 5]));
    assert!(stderr.contains("ended with status 7") && stderr.contains("{n=3}"), "{stderr}");
    assert!(
        stderr.contains("the command answered `{\"n\": oops}`: column 7") && stderr.contains("{n=4}"),
        "{stderr}"
    );
    assert!(stderr.contains("6 records in, 4 out, 2 failed"), "{stderr}");
    // With `exec each`, a program does not have to read its question.
    let output = ask_by("each", "(n) -> (pid)", r#"echo "{\"pid\": $$}""#, PLAIN.0, PLAIN.1, &numbers(0..20));
    let processes: BTreeSet<_> = records(&output).iter().map(|record| record["pid"].as_i64()).collect();
    assert_eq!(processes.len(), 20, "{}", text(&output.stderr));
}

#[test]
fn lines_without_names_are_counted() {
    // The program prints one line too few.
    let output = ask_by("lines", "(n) -> (n)", "sed '/: 3}/d'", PLAIN.0, PLAIN.1, &numbers(0..6));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("printed fewer lines than it was asked for"), "{stderr}");
    assert!(stderr.contains("messages 0 to 5 may be another's") && stderr.contains("{n=5}"), "{stderr}");
    // The program prints one line too many.
    let output = ask_by("lines", "(n) -> (n)", "sed '/: 3}/p'", PLAIN.0, PLAIN.1, &numbers(0..6));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("error[E0803]: asks/ask") && stderr.contains("more than it was asked for"),
        "{stderr}"
    );
    assert!(stderr.contains("messages 0 to 5 may be another's"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    // The program prints as many lines as questions.
    let count = 10_000;
    let output = ask_by("lines", "(n) -> (n)", "sed 's/\"@\"/x/'", "ask .. ask", &[], &numbers(0..count));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout) == numbers(0..count), "all of them, in order");
}

/// The examples of `docs/boxes.md`, if there is a `jq`.
#[test]
fn jq_answers_as_on_the_page() {
    if Command::new("jq").arg("--version").output().is_err() {
        eprintln!("skipped: there is no jq (`apt-get install jq`)");
        return;
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/boxes.md")).unwrap();
    let examples: Vec<&str> =
        page.split("```snet,jq\n").skip(1).map(|rest| rest.split("```").next().expect("a fence")).collect();
    let input = lines(&["a b", "water", "c", "water 2"]);
    let expected = [
        vec![(1, "A B"), (2, "WATER"), (3, "C"), (4, "WATER 2")],
        vec![(2, "water"), (4, "water 2")],
        vec![(1, "a"), (1, "b"), (2, "water"), (3, "c"), (4, "water"), (4, "2")],
    ];
    assert_eq!(examples.len(), expected.len());
    for (example, wanted) in examples.iter().zip(expected) {
        let folder = tempfile::tempdir().unwrap();
        let net = write(folder.path(), "main.snet", example);
        let output = run(&[&net, "--allow-exec"], &input);
        assert!(output.status.success(), "{example}: {}", text(&output.stderr));
        let wanted: Vec<_> = wanted.into_iter().map(|(id, line)| (id, line.to_owned())).collect();
        assert_eq!(answered(&output), wanted, "{example}");
    }
}

#[test]
fn wrong_answers_fail_their_records_alone() {
    let bare =
        r#"sed -u -e 's/.*: 0}/oops/' -e 's/.*: 1}/{"odd": 1}/' -e 's/.*: 2}/[{"n": 2}, {"odd": 2}]/'"#;
    let named = r#"sed -u -e 's/: 0}/: tru}/' -e 's/"n": 1}/"odd": 1}/' -e 's/{"@": \([0-9]*\), "n": 2}/[\1, {"n": 2}, {"odd": 2}]/'"#;
    let programs = [
        ("lines", bare, "the command answered `oops`: column 1: expected an object"),
        ("", named, r#"the command answered `{"@": 0, "n": tru}`: column 15: expected true, false or null"#),
        (
            "filter",
            named,
            r#"the command answered `{"@": 0, "n": tru}`: column 15: expected true, false or null"#,
        ),
    ];
    for (mode, command, what) in programs {
        let output = ask_by(mode, "(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..4));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(text(&output.stdout), numbers([3]), "all of an answer or nothing");
        assert!(stderr.contains("asks/ask") && stderr.contains(what), "{stderr}");
        assert!(
            stderr.contains("the command answered {odd=1}, which is none of its outputs; it may give (n)"),
            "{stderr}"
        );
        assert!(stderr.contains("4 records in, 1 out, 3 failed"), "{stderr}");
    }
}

#[test]
fn the_record_that_a_program_dies_of_is_reported_and_all_others_are_answered() {
    let came = |output: &Output| {
        let came: Vec<i64> =
            records(output).iter().map(|record| record["n"].as_i64().expect("a number")).collect();
        assert!(came.is_sorted(), "in order, each once");
        came
    };
    let lost = |output: &Output, count| {
        let came = came(output);
        (0..count).filter(|n| came.binary_search(n).is_err()).collect::<Vec<i64>>()
    };
    // The program answers as it reads, or gives all answers at its end.
    for command in ["sed -u '/: 13}$/Q5; /: 2000}$/Q5'", "sed '/: 13}$/Q5; /: 2000}$/Q5'"] {
        let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..3000));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(lost(&output, 3000), [13, 2000], "{command}: {stderr}");
        assert_eq!(
            stderr.matches("ended with status 5 and left the record without an answer").count(),
            2,
            "{stderr}"
        );
        assert!(
            stderr.contains("message 13 of stream") && stderr.contains("message 2000 of stream"),
            "{stderr}"
        );
    }
    // A program that dies answers nothing.
    let command = r#"all=$(sed '/: 77}$/Q5') || { echo broke >&2; exit 3; }; printf '%s\n' "$all""#;
    let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..200));
    let stderr = text(&output.stderr);
    assert_eq!(lost(&output, 200), [77], "{stderr}");
    assert!(stderr.contains("ended with status 3") && stderr.contains("it said: broke"), "{stderr}");
    // The program kills itself.
    let command = r#"while read line; do case $line in *": 7}") kill -9 $$;; esac; echo "$line"; done"#;
    let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..20));
    let stderr = text(&output.stderr);
    assert_eq!(lost(&output, 20), [7], "{stderr}");
    assert!(stderr.contains("was killed by signal 9"), "{stderr}");
}

#[test]
fn every_replica_of_a_split_has_a_program_of_its_own_and_order_is_kept() {
    let input: String = (0..300).map(|n| format!("{{\"n\": {n}, \"<k>\": {}}}\n", n % 3)).collect();
    let command =
        r#"while read line; do echo "{\"pid\": $$, ${line#?}" ; done | sed -u 's/, "n": [0-9]*}/}/'"#;
    let output = ask("(n) -> (pid)", command, "ask!<k>", &["--workers", "2"], &input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let processes: BTreeSet<_> = records(&output).iter().map(|record| record["pid"].as_i64()).collect();
    assert_eq!(processes.len(), 3);
    // In a deterministic network, the program is asked about one kind of record, the other kind passes beside
    // the box, and one record in ten has no output.
    let mixed: String =
        (0..2000).map(|n| format!("{{\"{}\": {n}}}\n", if n % 2 == 0 { "n" } else { "b" })).collect();
    let command = r#"sed 's/{"@": \([0-9]*\),.*0}/[\1]/'"#;
    let output = ask("(n) -> (n)", command, "(ask || [{b} -> {b}])", &["--workers", "2"], &mixed);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: String =
        mixed.lines().filter(|line| !line.ends_with("0}")).map(|line| format!("{line}\n")).collect();
    assert!(text(&output.stdout) == wanted, "what is wanted, in order");
}

#[test]
fn a_command_that_cannot_run_fails_each_record() {
    let output = ask("(n) -> (n)", "no-such-program", PLAIN.0, PLAIN.1, &numbers(0..50));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("asks/ask: the command `no-such-program` ended with status 127"), "{stderr}");
    assert!(stderr.contains("not found"), "{stderr}");
    assert!(stderr.contains("50 records in, 0 out, 50 failed"), "{stderr}");
}

#[test]
fn a_command_runs_only_if_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let net = write(
        folder.path(),
        "asks.snet",
        &format!(
            "net asks {{ box ask ((n) -> (n)) {{ <<< exec | touch {} >>> }} }} connect ask;",
            made.display()
        ),
    );
    let output = run(&[&net], "");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("E0403") && stderr.contains("--allow-exec"), "{stderr}");
    assert!(!made.exists());
}

#[test]
fn an_interrupt_lets_the_program_finish() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(
        folder.path(),
        "asks.snet",
        "net asks { box ask ((n) -> (n)) { <<< exec | sed s/never/ever/ >>> } } connect ask;",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let mut child = started(command.args(["run", &net, "--allow-exec"]));
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, numbers(0..100).as_bytes()).unwrap();
    // The run may not have read all its input yet: the run stops and reports how many records it has read.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(output.status.code(), Some(130));
    let count = records(&output).len();
    assert!(
        text(&output.stderr).contains(&format!("{count} records in, {count} out")),
        "{}",
        text(&output.stderr)
    );
}

/// While the output is not read, all streams are full, and a source, a sink and a program sleep in the
/// system: no task can go on, and none is in a deadlock.
#[test]
fn a_run_that_is_held_back_is_no_deadlock() {
    let folder = tempfile::tempdir().unwrap();
    let net = write(
        folder.path(),
        "held.snet",
        "net held { box ask ((n) -> (n)) { <<< exec | sed s/never/ever/ >>> } }
         connect ask .. [{n} -> {n, <i = 3>}] .. (([{<i>} -> {<i = i - 1>}] \\ {<i>} if <i > 0>) !! <i>) .. ask;",
    );
    let count = 20_000;
    for threads in [&[][..], &["--threads"]] {
        let mut child = started(
            Command::new(env!("CARGO_BIN_EXE_thalweg")).args(["run", &net, "--allow-exec"]).args(threads),
        );
        let mut input = child.stdin.take().unwrap();
        let feeding = std::thread::spawn(move || input.write_all(numbers(0..count).as_bytes()).unwrap());
        // The pause is longer than the time to fill all streams and to check for deadlocks.
        std::thread::sleep(Duration::from_millis(700));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        assert!(output.status.success(), "{threads:?}: {}", text(&output.stderr));
        let left = text(&output.stdout).lines().count();
        assert_eq!(left, count as usize, "{threads:?}");
    }
}

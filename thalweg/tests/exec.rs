//! Boxes that are programs: `<<< exec | COMMAND >>>`.

mod program;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output};
use std::time::Duration;

use program::{run, started, write};
use serde_json::{Value, json};

/// Runs a net of the box `ask`, whose code is `command`, on `input`.
fn ask(signature: &str, command: &str, topology: &str, arguments: &[&str], input: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!("net asks {{ box ask ({signature}) {{ <<< exec | {command} >>> }} }} connect {topology};");
    let net = write(folder.path(), "asks.snet", &text);
    run(&[&[net.as_str(), "--allow-exec"], arguments].concat(), input)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn records(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// `{"n": k}` for each of the numbers.
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
    let command = r#"sed -u -e 's/.*: 0}/null/' -e 's/.*: 1}/[]/' -e 's/.*: 2}/[{"m": 1}, {"k": "a"}, {"m": 2}]/' -e 's/.*: 3}//'"#;
    let output = ask("(n) -> (n) | (m) | (k)", command, PLAIN.0, PLAIN.1, &numbers(0..5));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(records(&output), [json!({"m": 1}), json!({"k": "a"}), json!({"m": 2}), json!({"n": 4})]);
}

#[test]
fn answers_that_are_none_are_told_alone() {
    let command =
        r#"sed -u -e 's/.*: 0}/oops/' -e 's/.*: 1}/{"odd": 1}/' -e 's/.*: 2}/[{"n": 2}, {"odd": 2}]/'"#;
    let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..4));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(text(&output.stdout), numbers([2, 3]));
    assert!(said.contains("asks/ask: the command answered oops: column 1: expected an object"), "{said}");
    assert!(
        said.contains("the command answered {odd=1}, which is none of its outputs; it may give (n)"),
        "{said}"
    );
    assert!(said.contains("4 records in, 2 out, 3 failed"), "{said}");
}

#[test]
fn of_what_a_program_dies_is_told_and_all_else_is_answered() {
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
    // It answers as it goes, and all of it when it ends.
    for command in ["sed -u '/: 13}$/Q5; /: 2000}$/Q5'", "sed '/: 13}$/Q5; /: 2000}$/Q5'"] {
        let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..3000));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(lost(&output, 3000), [13, 2000], "{command}: {said}");
        assert_eq!(
            said.matches("ended with status 5 and left the record without an answer").count(),
            2,
            "{said}"
        );
        assert!(said.contains("message 13 of stream") && said.contains("message 2000 of stream"), "{said}");
    }
    // It answers nothing at all if it dies.
    let command = r#"all=$(sed '/: 77}$/Q5') || { echo broke >&2; exit 3; }; printf '%s\n' "$all""#;
    let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..200));
    let said = text(&output.stderr);
    assert_eq!(lost(&output, 200), [77], "{said}");
    assert!(said.contains("ended with status 3") && said.contains("it said: broke"), "{said}");
    // It is killed.
    let command = r#"while read line; do case $line in *": 7}") kill -9 $$;; esac; echo "$line"; done"#;
    let output = ask("(n) -> (n)", command, PLAIN.0, PLAIN.1, &numbers(0..20));
    let said = text(&output.stderr);
    assert_eq!(lost(&output, 20), [7], "{said}");
    assert!(said.contains("was killed by signal 9"), "{said}");
}

#[test]
fn every_replica_of_a_split_has_a_program_of_its_own_and_order_is_kept() {
    let input: String = (0..300).map(|n| format!("{{\"n\": {n}, \"<k>\": {}}}\n", n % 3)).collect();
    let command = r#"while read line; do echo "{\"pid\": $$}"; done"#;
    let output = ask("(n) -> (pid)", command, "ask!<k>", &["--workers", "2"], &input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let processes: BTreeSet<_> = records(&output).iter().map(|record| record["pid"].as_i64()).collect();
    assert_eq!(processes.len(), 3);
    // Deterministic: one kind of record is asked about, the other goes past, and one in ten leaves nothing.
    let mixed: String =
        (0..2000).map(|n| format!("{{\"{}\": {n}}}\n", if n % 2 == 0 { "n" } else { "b" })).collect();
    let output = ask("(n) -> (n)", "sed 's/.*0}/[]/'", "(ask || [{b} -> {b}])", &["--workers", "2"], &mixed);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: String =
        mixed.lines().filter(|line| !line.ends_with("0}")).map(|line| format!("{line}\n")).collect();
    assert!(text(&output.stdout) == wanted, "what is wanted, in order");
}

#[test]
fn a_command_that_cannot_run_fails_each_record() {
    let output = ask("(n) -> (n)", "no-such-program", PLAIN.0, PLAIN.1, &numbers(0..50));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("asks/ask: the command `no-such-program` ended with status 127"), "{said}");
    assert!(said.contains("not found"), "{said}");
    assert!(said.contains("50 records in, 0 out, 50 failed"), "{said}");
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
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("E0403") && said.contains("--allow-exec"), "{said}");
    assert!(!made.exists());
}

#[test]
fn more_answers_than_records_end_the_run_as_failed() {
    let output = ask("(n) -> (n)", "sed 'p'", PLAIN.0, PLAIN.1, &numbers(0..3));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("1 task ended badly"), "{}", text(&output.stderr));
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
    // What it was given may not have been read yet: it stops where it is and tells how far it got.
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

/// Everything is full while nobody reads the output, and a source, a sink and a program sleep in the system: no task can go on,
/// and none is in a deadlock.
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
        // Longer than it takes to fill everything, and then to look for deadlocks.
        std::thread::sleep(Duration::from_millis(700));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        assert!(output.status.success(), "{threads:?}: {}", text(&output.stderr));
        let left = text(&output.stdout).lines().count();
        assert_eq!(left, count as usize, "{threads:?}");
    }
}

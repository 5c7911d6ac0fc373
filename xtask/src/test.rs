//! `cargo xtask test`: every check, in the order in which a mistake shows soonest, and a count at the end.

use crate::dist;
use crate::leftovers::Places;
use crate::process;
use crate::remedies;
use crate::sanitizer;
use anyhow::{Context, Result, anyhow, bail};
use lexopt::prelude::*;
use serde_json::Value;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// What the steps found so far.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// One thing that is checked.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&mut Count) -> Result<()>,
    long: bool,
}

const STEPS: &[Step] = &[
    Step { name: "format", what: "cargo fmt", run: format, long: false },
    Step { name: "licences", what: "every dependency's licence", run: licences, long: false },
    Step { name: "clippy", what: "lints, warnings denied", run: clippy, long: false },
    Step { name: "docs", what: "rustdoc, warnings denied", run: docs, long: false },
    Step { name: "tests", what: "unit, property, crash and end-to-end tests", run: tests, long: false },
    Step {
        name: "archive",
        what: "installed from source, and from the archive without a toolchain",
        run: archive,
        long: false,
    },
    Step { name: "loom", what: "the rings and wake-ups under every ordering", run: loom, long: false },
    Step { name: "threads", what: "the same under ThreadSanitizer", run: threads, long: false },
    Step {
        name: "crash",
        what: "300 kills of each sort, a billion events against readers",
        run: crash,
        long: true,
    },
    Step {
        name: "fuzz",
        what: "ten minutes each of damaged spaces, random networks, records, packs and texts in C (needs cargo-fuzz)",
        run: fuzz,
        long: true,
    },
    Step {
        name: "meaning",
        what: "a million random networks against an interpreter of the language, and the types of a million by brute force and by the rules",
        run: meaning,
        long: true,
    },
    Step {
        name: "programs",
        what: "a thousand random networks of programs that drop, double, hold back and die",
        run: programs,
        long: true,
    },
    Step {
        name: "memory",
        what: "ten million records through replicas that come and go, in flat memory",
        run: memory,
        long: true,
    },
    Step {
        name: "planted",
        what: "networks that are slow for a known reason, run and diagnosed, and advice followed (wants a quiet machine)",
        run: planted,
        long: true,
    },
    Step {
        name: "remedies",
        what: "random networks with planted causes: verdicts against every remedy that was tried (hours; wants a quiet machine)",
        run: tried_remedies,
        long: true,
    },
    Step { name: "bench", what: "the benchmarks build (this compiles our rivals)", run: bench, long: true },
];

/// A program that is larger carries what it need not: it has 12.5 MB without symbols.
const PROGRAM_BYTES_MAX: u64 = 14_000_000;

/// Licences that may stand in a program under MIT or Apache-2.0.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
];

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut only: Option<String> = None;
    let mut long = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("only") => only = Some(arguments.value()?.string()?),
            Long("long") => long = true,
            Long("list") => {
                for step in STEPS {
                    let note = if step.long { " (with --long)" } else { "" };
                    println!("{:<10}{}{note}", step.name, step.what);
                }
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(name) = &only
        && !STEPS.iter().any(|step| step.name == name)
    {
        bail!("there is no step `{name}`; `cargo xtask test --list` lists them");
    }
    process::require_c_compiler()?;
    if !process::is_installed("openssl", "version") {
        bail!("no `openssl`: the DES tests compare with it; on Debian `apt-get install openssl` brings it");
    }
    process::claim_target_dir()?;

    let started = Instant::now();
    let mut count = Count::default();
    let mut failures: Vec<String> = Vec::new();
    for step in STEPS {
        let chosen = match &only {
            Some(name) => step.name == name,
            None => long || !step.long,
        };
        if !chosen {
            continue;
        }
        let step_started = Instant::now();
        announce(&format!("{}: {}", step.name, step.what));
        if let Err(error) = (step.run)(&mut count) {
            eprintln!("error: {error:#}");
            failures.push(format!("{}: {error:#}", step.name));
        }
        println!("   {:.0} s", step_started.elapsed().as_secs_f64());
    }
    println!();
    for failure in &failures {
        println!("failed  {failure}");
    }
    let failed = count.failed.max(failures.len() as u64);
    println!("all steps took {:.0} s", started.elapsed().as_secs_f64());
    println!("{} passed, {failed} failed, {} skipped", count.passed, count.skipped);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn announce(text: &str) {
    if std::io::stdout().is_terminal() {
        println!("\x1b[1m== {text}\x1b[0m");
    } else {
        println!("== {text}");
    }
}

/// Counts a step that is one check.
fn checked(count: &mut Count, result: Result<()>) -> Result<()> {
    match &result {
        Ok(()) => count.passed += 1,
        Err(_) => count.failed += 1,
    }
    result
}

fn format(count: &mut Count) -> Result<()> {
    checked(count, process::run(process::cargo().args(["fmt", "--all", "--check"])))
}

fn clippy(count: &mut Count) -> Result<()> {
    let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    checked(count, process::run(process::cargo().args(arguments)))
}

fn docs(count: &mut Count) -> Result<()> {
    let mut command = process::cargo();
    command.args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    checked(count, process::run(command.env("RUSTDOCFLAGS", "-D warnings")))
}

fn tests(count: &mut Count) -> Result<()> {
    counted(count, process::cargo().args(["test", "--locked", "--workspace", "--no-fail-fast"]))
}

fn loom(count: &mut Count) -> Result<()> {
    let mut command = process::cargo();
    command.args([
        "test",
        "--locked",
        "--release",
        "-p",
        "thalweg-space",
        "-p",
        "thalweg-exec",
        "--lib",
        "loom_",
    ]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", process::target_dir().join("loom"));
    counted(count, &mut command)
}

/// The nightly cargo, if it is there.
fn nightly() -> Option<Command> {
    let mut command = Command::new("cargo");
    command.current_dir(process::root()).arg("+nightly");
    command.env_remove("RUSTC").env_remove("RUSTDOC").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    let there = Command::new("cargo").args(["+nightly", "--version"]).output();
    there.is_ok_and(|output| output.status.success()).then_some(command)
}

fn skip(count: &mut Count, why: &str) -> Result<()> {
    println!("   skipped: {why}");
    count.skipped += 1;
    Ok(())
}

fn crash(count: &mut Count) -> Result<()> {
    let mut command = process::cargo();
    command.args([
        "test",
        "--locked",
        "--release",
        "-p",
        "thalweg-space",
        "--test",
        "kill",
        "--test",
        "race",
    ]);
    command.args(["--", "--nocapture"]).env("THALWEG_TEST_LONG", "1");
    counted(count, &mut command)
}

/// `cargo install` as the README says it, and the archive of `cargo xtask dist`, unpacked and tried.
fn archive(count: &mut Count) -> Result<()> {
    let folder = process::target_dir().join("installed");
    let mut install = process::cargo();
    install.args(["install", "--path", "thalweg", "--quiet", "--locked", "--force", "--root"]);
    checked(count, process::run(install.arg(&folder).env("CARGO_TARGET_DIR", process::target_dir())))?;
    let program = folder.join("bin/thalweg");
    checked(count, process::run(Command::new(&program).arg("--version")))?;
    let bytes = std::fs::metadata(&program)?.len();
    let small =
        if bytes <= PROGRAM_BYTES_MAX { Ok(()) } else { Err(anyhow!("the program has {bytes} bytes")) };
    checked(count, small)?;
    std::fs::remove_dir_all(&folder)?;

    let archive = dist::make(&process::target_dir().join("dist"))?;
    let mut test = process::cargo();
    test.args(["test", "--locked", "-p", "thalweg", "--test", "archive", "--", "--ignored"]);
    counted(count, test.env("THALWEG_ARCHIVE", archive))
}

fn meaning(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg-net", "meaning")
}

fn programs(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg", "exec_random")
}

fn memory(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg-net", "memory")
}

fn planted(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg", "planted")?;
    long_test(count, "thalweg", "advice")
}

fn tried_remedies(count: &mut Count) -> Result<()> {
    checked(count, remedies::scored())
}

/// The tests of a package's file that only the long test runs.
fn long_test(count: &mut Count, package: &str, file: &str) -> Result<()> {
    let mut command = process::cargo();
    command.args(["test", "--locked", "--release", "-p", package, "--test", file]);
    counted(count, command.args(["--", "--ignored", "--nocapture", "--test-threads=1"]))
}

fn fuzz(count: &mut Count) -> Result<()> {
    let target = process::target_dir().join("fuzz");
    // The spaces of the first are left open on purpose, as a killed process leaves them: that is a leak at its end, too.
    for (name, folder, leaks, extra) in [
        ("damaged", "space/fuzz", "detect_leaks=0", "-detect_leaks=0"),
        ("language", "net/fuzz", "detect_leaks=1", "-dict=net/fuzz/words.dict"),
        ("records", "net/fuzz", "detect_leaks=1", "-max_len=4096"),
        ("pack", "pack/fuzz", "detect_leaks=1", "-max_len=4096"),
        ("c_source", "host/fuzz", "detect_leaks=1", "-dict=host/fuzz/c.dict"),
    ] {
        let Some(mut command) = nightly() else {
            return skip(count, "fuzzing needs a nightly toolchain (`rustup toolchain install nightly`)");
        };
        if !process::is_installed("cargo-fuzz", "--version") {
            return skip(count, "there is no cargo-fuzz (`cargo install cargo-fuzz`)");
        }
        command.args(["fuzz", "run", name, "--fuzz-dir", folder, "--target-dir"]).arg(&target);
        command.env("ASAN_OPTIONS", leaks);
        checked(count, process::run(command.args(["--", "-max_total_time=600", "-timeout=60", extra])))?;
    }
    Ok(())
}

fn threads(count: &mut Count) -> Result<()> {
    for (package, test) in [("thalweg-space", "threads"), ("thalweg-exec", "stress")] {
        let Some(command) = nightly() else {
            let why = "ThreadSanitizer needs a nightly toolchain (`rustup toolchain install nightly`)";
            return skip(count, why);
        };
        let reports =
            sanitizer::sanitize(command, package, |command| counted(count, command.args(["--test", test])))?;
        if let Some(report) = reports.first() {
            count.failed += 1;
            bail!("ThreadSanitizer found a race; its report is {}", report.display());
        }
    }
    let Some(command) = nightly() else { return Ok(()) };
    checked(count, sanitizer::finds_a_race(command))
}

fn bench(count: &mut Count) -> Result<()> {
    let manifest = process::root().join("bench/Cargo.toml");
    let mut command = process::cargo();
    command.args(["check", "--locked", "--manifest-path"]).arg(manifest);
    checked(count, process::run(&mut command))
}

/// Runs a test command, shows what it prints, and adds up its `test result:` lines; that it leaves nothing behind is one more
/// check.
fn counted(count: &mut Count, command: &mut Command) -> Result<()> {
    let shown = process::shown(command);
    let places = Places::make()?;
    places.give(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("could not start `{shown}`"))?;
    let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut results = 0;
    let mut failing = Vec::new();
    let mut skipped = HashSet::new();
    for line in output.lines() {
        let line = line?;
        if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            failing.push(test.to_owned());
        }
        // Thousands of lines of tests that passed tell nothing.
        if !(line.starts_with("test ") && line.ends_with("... ok") || line.is_empty()) {
            writeln!(std::io::stdout(), "{line}")?;
        }
        if let Some(test) = skipped_test(&line) {
            skipped.insert(test.to_owned());
        }
        if let Some((passed, failed, ignored)) = test_result(&line) {
            count.passed += passed;
            count.failed += failed;
            count.skipped += ignored;
            results += 1;
        }
    }
    // A test that could not be run here returned, and was counted as passed.
    count.passed = count.passed.saturating_sub(skipped.len() as u64);
    count.skipped += skipped.len() as u64;
    let status = child.wait()?;
    if !failing.is_empty() {
        bail!("`{shown}` failed: {}", failing.join(", "));
    }
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    if results == 0 {
        bail!("`{shown}` ran no tests");
    }
    checked(count, places.expect_empty().with_context(|| format!("`{shown}`")))
}

/// Reads `skipped: a_test: why`, which a test says of itself.
fn skipped_test(line: &str) -> Option<&str> {
    Some(line.strip_prefix("skipped: ")?.split_once(": ")?.0)
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn test_result(line: &str) -> Option<(u64, u64, u64)> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut numbers = rest.split("; ").map(|part| part.split(' ').next().and_then(|n| n.parse().ok()));
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

fn licences(count: &mut Count) -> Result<()> {
    checked(count, check_licences())
}

fn check_licences() -> Result<()> {
    let output = process::cargo().args(["metadata", "--format-version", "1", "--locked"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let mut refused = Vec::new();
    for package in metadata["packages"].as_array().context("cargo metadata lists no packages")? {
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !is_allowed(licence) {
            refused.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    if !refused.is_empty() {
        bail!(
            "licences that need a decision (xtask/src/test.rs lists those allowed): {}",
            refused.join("; ")
        );
    }
    Ok(())
}

/// Whether a licence expression offers a choice we allow: every term of an `AND`, one term of an `OR`.
fn is_allowed(expression: &str) -> bool {
    expression
        .replace('/', " OR ")
        .replace(['(', ')'], "")
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|choice| LICENCES.contains(&choice.trim())))
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, skipped_test, test_result};

    #[test]
    fn reads_the_result_line_of_a_test_binary() {
        let line =
            "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        assert_eq!(test_result(line), Some((12, 1, 2)));
        assert_eq!(test_result("test ring::wraps ... ok"), None);
    }

    #[test]
    fn reads_which_test_was_skipped() {
        assert_eq!(skipped_test("skipped: as_nobody: only root can"), Some("as_nobody"));
        assert_eq!(skipped_test("test skipped: a ... ok"), None);
    }

    #[test]
    fn licence_expressions_are_judged_by_their_choices() {
        for (expression, allowed) in [
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("none stated", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }
}

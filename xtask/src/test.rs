//! `cargo xtask test`: runs every check, beginning with those that find mistakes soonest, and prints a count
//! at the end.

use crate::dist;
use crate::foreign;
use crate::leftovers::Places;
use crate::moobench;
use crate::process;
use crate::remedies;
use crate::sanitizer;
use crate::watch::{Stopped, Watch};
use anyhow::{Context, Result, anyhow, bail};
use lexopt::prelude::*;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The results of the steps so far.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Whether the user requested only this step, so that it must run completely.
    is_whole: bool,
    /// The longest time of a test program; `None` during steps that take hours.
    program_time_max: Option<Duration>,
    /// Messages about tests that failed beside other tests, and passed when they ran alone.
    unsteady: Vec<String>,
}

/// One check.
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
        name: "java",
        what: "the agent for Java: generated programs, kills, foreign programs; alone: a thousand, and 300 (needs a JDK and Maven)",
        run: java,
        long: false,
    },
    Step {
        name: "archive",
        what: "installed from source, and from the archive without a toolchain",
        run: archive,
        long: false,
    },
    Step {
        name: "pictures",
        what: "the page in a browser, its types, the screen in a terminal",
        run: pictures,
        long: false,
    },
    Step { name: "loom", what: "the rings and wake-ups under every ordering", run: loom, long: false },
    Step { name: "threads", what: "the same under ThreadSanitizer", run: threads, long: false },
    Step { name: "drawn", what: "the tests, with property cases drawn anew", run: drawn, long: true },
    Step {
        name: "crash",
        what: "300 kills of each sort, a billion events against readers",
        run: crash,
        long: true,
    },
    Step {
        name: "probes",
        what: "probes in C, C++ and Rust: a thousand random programs each, 300 kills each, a million operations",
        run: probes,
        long: true,
    },
    Step {
        name: "foreign",
        what: "programs that none of us wrote, under probes: their own tests, their call counts, what it costs them (needs the network)",
        run: foreign,
        long: true,
    },
    Step {
        name: "fuzz",
        what: "ten minutes each of damaged conversations on links and with nodes, and of damaged packs; with cargo-fuzz of damaged spaces, random networks, records, packs, views, scope protocols and texts in C",
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
    Step {
        name: "scopes",
        what: "a thousand million known tuples of hundreds of processes that are killed, over rebuilt scopes and killed servers",
        run: scopes,
        long: true,
    },
    Step {
        name: "attach",
        what: "2,000 cycles of attaching to programs that do all that is dangerous, 100 kills, a billion calls counted",
        run: attach,
        long: true,
    },
    Step {
        name: "tuning",
        what: "a tuner that is killed a hundred times while it tunes a run",
        run: tuning,
        long: true,
    },
    Step { name: "bench", what: "the benchmarks build (this compiles our rivals)", run: bench, long: true },
];

/// The seed of property tests: with it they draw the same cases in every run, so that a test fails only
/// because of a change; the step `drawn` draws other cases.
const PROPERTY_SEED: u64 = 19_780_331;

/// The largest number of tests that may fail beside other tests and pass alone.
const UNSTEADY_MAX: usize = 3;

/// The time after which a test program counts as hanging: no program needs so long, even on a machine that is
/// ten times slower.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(600);

/// The largest size of the program without symbols.
const PROGRAM_BYTES_MAX: u64 = 20_000_000;

/// Licences of dependencies that are compatible with a program under MIT or Apache-2.0.
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
    let program_time_max = (only.is_none() && !long).then_some(PROGRAM_TIME_MAX);
    let mut count = Count { is_whole: only.is_some(), program_time_max, ..Count::default() };
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
    for test in &count.unsteady {
        println!("unsteady  {test}");
    }
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
    steadily(count, PROPERTY_SEED)
}

fn drawn(count: &mut Count) -> Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let seed = now.as_nanos() as u64;
    println!("   PROPTEST_RNG_SEED={seed}");
    steadily(count, seed)
}

fn workspace_tests(seed: u64) -> Command {
    let mut command = process::cargo();
    command.args(["test", "--locked", "--workspace", "--no-fail-fast"]);
    command.env("PROPTEST_RNG_SEED", seed.to_string());
    command
}

/// Runs all tests. Other programs on the machine can disturb a test that watches a real run: therefore, if
/// few tests failed, they run again, one at a time, and count as passed when they pass twice. If one program
/// hung, all its tests run again. The end of the command's output names the tests that failed and passed.
fn steadily(count: &mut Count, seed: u64) -> Result<()> {
    let ran = ran(count, &mut workspace_tests(seed))?;
    if ran.failing.len() > UNSTEADY_MAX || ran.stopped.len() > 1 {
        bail!("`cargo test --workspace` failed: {}", ran.names());
    }
    for _ in 0..if ran.failing.is_empty() { 0 } else { 2 } {
        let mut alone = workspace_tests(seed);
        again(count, alone.args(["--", "--test-threads=1", "--exact"]).args(&ran.failing))?;
    }
    count.passed += ran.failing.len() as u64;
    count.failed -= ran.failing.len() as u64;
    let alone = |test: &String| format!("{test}: failed among the others, passed twice alone");
    count.unsteady.extend(ran.failing.iter().map(alone));
    for Stopped { program, running } in &ran.stopped {
        let selection = selection(program, seed)?;
        let mut command = process::cargo();
        command.args(["test", "--locked"]).args(&selection).env("PROPTEST_RNG_SEED", seed.to_string());
        count.passed += again(count, &mut command)?.passed;
        let selection = selection.join(" ");
        count.unsteady.push(format!(
            "{selection}: hung among the others, passed alone; when it was stopped, there ran\n{running}"
        ));
    }
    Ok(())
}

/// Runs the failed tests once more: all must pass, or the step has failed.
fn again(count: &Count, command: &mut Command) -> Result<Count> {
    let mut alone = Count { program_time_max: count.program_time_max, ..Count::default() };
    let ran = ran(&mut alone, command)?;
    if !ran.is_good() {
        bail!("`cargo test --workspace` failed, alone too: {}", ran.names());
    }
    Ok(alone)
}

/// The arguments with which cargo runs the tests of this program alone.
fn selection(program: &Path, seed: u64) -> Result<Vec<String>> {
    let mut command = workspace_tests(seed);
    command.args(["--no-run", "--message-format=json"]).stderr(Stdio::inherit());
    let output = command.output()?.stdout;
    let of = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let executable = message["executable"].as_str()?;
        (Path::new(executable) == program).then_some(())?;
        let name = message["target"]["name"].as_str()?.to_owned();
        let kind = match message["target"]["kind"][0].as_str()? {
            kind @ ("test" | "bin" | "example" | "bench") => vec![format!("--{kind}"), name],
            _ => vec!["--lib".to_owned()],
        };
        let package = message["package_id"].as_str()?.to_owned();
        Some(["-p".to_owned(), package].into_iter().chain(kind).collect())
    };
    let text = String::from_utf8_lossy(&output);
    text.lines().find_map(of).with_context(|| format!("cargo does not list {} as a test", program.display()))
}

/// Runs the tests of the agent for Java, with packages of Maven Central. Without a JDK or Maven the step is
/// skipped, unless it alone was requested.
fn java(count: &mut Count) -> Result<()> {
    if let Some(why) = moobench::java::missing() {
        return skip(count, why);
    }
    let mut command = process::cargo();
    command.args(["test", "--locked", "-p", "thalweg", "--test", "java", "--", "--ignored"]);
    command.env("THALWEG_AGENT", moobench::java::agent()?);
    command.env("THALWEG_OTHER_AGENT", moobench::java::artifact(moobench::java::KIEKER)?);
    command.env("THALWEG_OPENTELEMETRY", moobench::java::artifact(moobench::java::OPENTELEMETRY)?);
    command.env("THALWEG_FOREIGN_PROGRAM", moobench::java::artifact("com.h2database:h2:2.2.224")?);
    if count.is_whole {
        command.env("THALWEG_TEST_LONG", "1");
    }
    counted(count, &mut command)
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
        "-p",
        "thalweg-link",
        "--lib",
        "loom_",
    ]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", process::target_dir().join("loom"));
    counted(count, &mut command)
}

/// The nightly cargo, if it is installed.
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

fn probes(count: &mut Count) -> Result<()> {
    let mut command = process::cargo();
    command.args(["test", "--locked", "--release", "-p", "thalweg", "--test", "probes"]);
    counted(count, command.env("THALWEG_TEST_LONG", "1"))
}

fn foreign(count: &mut Count) -> Result<()> {
    foreign::tried(|name, result| match result {
        Ok(sentence) => {
            println!("   {name}: {sentence}");
            count.passed += 1;
        }
        Err(why) => {
            println!("   {name} FAILED: {why:#}");
            count.failed += 1;
        }
    })
}

/// Tests `cargo install` as in the README, and the archive of `cargo xtask dist`.
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

/// Tests the page in Chromium and the types of its modules. If a program is missing, that is reported, and
/// the tests counted as skipped.
fn pictures(count: &mut Count) -> Result<()> {
    for name in ["browser", "browser_hard", "browser_more", "top"] {
        let mut test = process::cargo();
        test.args([
            "test",
            "--locked",
            "-p",
            "thalweg",
            "--test",
            name,
            "--",
            "--ignored",
            "--nocapture",
            "--test-threads=2",
        ]);
        counted(count, &mut test)?;
    }
    // The program prints "Version 5.9.3"; versions before 5 do not support the syntax of the page's types.
    let version = Command::new("tsc").arg("--version").output().ok();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major =
        version.and_then(|text| text.trim().strip_prefix("Version ")?.split('.').next()?.parse().ok());
    if major.is_none_or(|major: u32| major < 5) {
        return skip(
            count,
            "there is no tsc of version 5 or later, which checks the page's types (`npm install --global typescript`)",
        );
    }
    let project = process::root().join("view/page/tsconfig.json");
    checked(count, process::run(Command::new("tsc").arg("--project").arg(project)))
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
    long_test(count, "thalweg", "live")?;
    long_test(count, "thalweg", "advice")
}

fn scopes(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg-scope", "generated")
}

fn attach(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg-attach", "storm")?;
    long_test(count, "thalweg-attach", "attaching")?;
    long_test(count, "thalweg", "attach")?;
    long_test(count, "thalweg", "attach_server")
}

fn tuning(count: &mut Count) -> Result<()> {
    long_test(count, "thalweg-tune", "library")?;
    long_test(count, "thalweg", "tune_killed")
}

fn tried_remedies(count: &mut Count) -> Result<()> {
    checked(count, remedies::scored())
}

/// Runs the ignored tests of a package's file, which only the long test runs.
fn long_test(count: &mut Count, package: &str, file: &str) -> Result<()> {
    let mut command = process::cargo();
    command.args(["test", "--locked", "--release", "-p", package, "--test", file]);
    counted(count, command.args(["--", "--ignored", "--nocapture", "--test-threads=1"]))
}

fn fuzz(count: &mut Count) -> Result<()> {
    // These damage valid conversations and packs themselves, and need no cargo-fuzz.
    for (package, test) in
        [("thalweg-link", "--lib"), ("thalweg-node", "--lib"), ("thalweg-tune", "--test=mutated")]
    {
        let mut command = process::cargo();
        command.args(["test", "--locked", "--release", "-p", package, test, "damaged_", "--"]);
        counted(count, command.args(["--ignored", "--nocapture"]))?;
    }
    let target = process::target_dir().join("fuzz");
    // The first target leaves its spaces open on purpose, as a killed process does, which the sanitizer would
    // report as leaks.
    for (name, folder, leaks, extra) in [
        ("damaged", "space/fuzz", "detect_leaks=0", "-detect_leaks=0"),
        ("language", "net/fuzz", "detect_leaks=1", "-dict=net/fuzz/words.dict"),
        ("records", "net/fuzz", "detect_leaks=1", "-max_len=4096"),
        ("pack", "pack/fuzz", "detect_leaks=1", "-max_len=4096"),
        ("views", "scope/fuzz", "detect_leaks=1", "-dict=scope/fuzz/words.dict"),
        ("protocol", "scope/fuzz", "detect_leaks=1", "-max_len=4096"),
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
            eprintln!("{}", std::fs::read_to_string(report)?);
            bail!("ThreadSanitizer found a race; the report above is in {}", report.display());
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

/// The failures of a test command.
struct Ran {
    failing: Vec<String>,
    /// The programs that hung and were killed.
    stopped: Vec<Stopped>,
}

impl Ran {
    fn is_good(&self) -> bool {
        self.failing.is_empty() && self.stopped.is_empty()
    }

    fn names(&self) -> String {
        let hung = self.stopped.iter().map(|stopped| format!("{} hung", stopped.program.display()));
        self.failing.iter().cloned().chain(hung).collect::<Vec<_>>().join(", ")
    }
}

/// Runs a test command, shows its output, and adds up its `test result:` lines. It also checks that the
/// command leaves no files or processes behind.
fn counted(count: &mut Count, command: &mut Command) -> Result<()> {
    let ran = ran(count, command)?;
    if !ran.is_good() {
        bail!("`{}` failed: {}", process::shown(command), ran.names());
    }
    Ok(())
}

/// Runs a test command as [`counted`] does. Returns the failures, if only tests failed.
fn ran(count: &mut Count, command: &mut Command) -> Result<Ran> {
    let shown = process::shown(command);
    let places = Places::make()?;
    places.give(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("could not start `{shown}`"))?;
    let watch = Watch::start(places.temporary(), child.id(), count.program_time_max);
    let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut results = Results::default();
    for line in output.lines() {
        let line = line?;
        results.read(&line);
        // The thousands of lines about tests that passed are not printed.
        if !(line.starts_with("test ") && line.ends_with("... ok") || line.is_empty()) {
            writeln!(std::io::stdout(), "{line}")?;
        }
    }
    let status = child.wait()?;
    let watched = watch.end();
    results.add_to(count);
    if !watched.stopped.is_empty() {
        // A killed program could not remove its files and children, so these are not checked.
        return Ok(Ran { failing: results.failing, stopped: watched.stopped });
    }
    if status.success() {
        if results.lines == 0 {
            bail!("`{shown}` ran no tests");
        }
    } else if results.failing.len() as u64 != results.failed || results.failed == 0 {
        // If a test program died, none of its tests is counted.
        bail!("`{shown}` failed: {status}: {}", results.failing.join(", "));
    }
    let left = match watched.left.as_slice() {
        [] => Ok(()),
        left => Err(anyhow!("`{shown}` left {} processes running: {}", left.len(), left.join(", "))),
    };
    checked(count, left)?;
    checked(count, places.expect_empty().with_context(|| format!("`{shown}`")))?;
    Ok(Ran { failing: results.failing, stopped: Vec::new() })
}

/// The results that test programs print.
#[derive(Default)]
struct Results {
    lines: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
    failing: Vec<String>,
    skipped: HashSet<String>,
}

impl Results {
    fn read(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.failing.push(test.to_owned());
        }
        if let Some(test) = skipped_test(line) {
            self.skipped.insert(test.to_owned());
        }
        if let Some((passed, failed, ignored)) = test_result(line) {
            self.lines += 1;
            self.passed += passed;
            self.failed += failed;
            self.ignored += ignored;
        }
    }

    fn add_to(&self, count: &mut Count) {
        // A test that could not be run on this machine returned early, and was counted as passed by the
        // harness.
        let skipped = self.skipped.len() as u64;
        count.passed += self.passed.saturating_sub(skipped);
        count.failed += self.failed;
        count.skipped += self.ignored + skipped;
    }
}

/// Parses `skipped: a_test: why`, which a skipped test prints.
fn skipped_test(line: &str) -> Option<&str> {
    Some(line.strip_prefix("skipped: ")?.split_once(": ")?.0)
}

/// Parses `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn test_result(line: &str) -> Option<(u64, u64, u64)> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut numbers = rest.split("; ").map(|part| part.split(' ').next().and_then(|n| n.parse().ok()));
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

fn licences(count: &mut Count) -> Result<()> {
    checked(count, check_licences())
}

fn check_licences() -> Result<()> {
    let metadata = process::metadata(&[])?;
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

/// Whether a licence expression is permitted: every term of an `AND`, one term of an `OR`.
fn is_allowed(expression: &str) -> bool {
    expression
        .replace('/', " OR ")
        .replace(['(', ')'], "")
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|choice| LICENCES.contains(&choice.trim())))
}

#[cfg(test)]
mod tests {
    use super::{Results, is_allowed, skipped_test, test_result};

    #[test]
    fn reads_the_result_line_of_a_test_binary() {
        let line =
            "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        assert_eq!(test_result(line), Some((12, 1, 2)));
        assert_eq!(test_result("test ring::wraps ... ok"), None);
    }

    #[test]
    fn a_test_that_failed_is_known_by_its_name_and_one_that_was_skipped_has_not_passed() {
        let mut results = Results::default();
        let lines = ["test a::b ... ok", "test a::c ... FAILED", "skipped: a::b: only root can"];
        let last = "test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        lines.into_iter().chain([last]).for_each(|line| results.read(line));
        assert_eq!(
            (results.lines, results.failed, results.failing.as_slice()),
            (1, 1, &["a::c".to_owned()][..])
        );
        let mut count = super::Count::default();
        results.add_to(&mut count);
        assert_eq!((count.passed, count.failed, count.skipped), (0, 1, 3));
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

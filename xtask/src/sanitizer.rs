//! Tests under ThreadSanitizer, with the nightly compiler, with or without the standard library's sources,
//! which package registries do not have.
//!
//! If its sources are there, the standard library is compiled for the sanitizer, too. Without the sources the
//! precompiled library is used, and the sanitizer does not see its synchronisation: data behind a contended
//! mutex would look like a race. Generic and short functions of the library are in that case compiled with
//! our crates ([`FLAGS`]); a few other functions, by which threads wait for each other, are wrapped by
//! functions that report the synchronisation to the sanitizer ([`reporting`]). Two false reports are
//! suppressed by name ([`KNOWN`]). [`finds_a_race`] checks that the sanitizer still finds a race.

use crate::process;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Flags with which a crate compiles the standard library's functions that it uses itself, where possible.
const FLAGS: &str = "-Zshare-generics=n -Zcross-crate-inline-threshold=always -Zinline-mir=yes";

/// Reports with one of these functions in one of their stacks are suppressed: reference-counted values are
/// dropped after a fence, which the sanitizer does not support, and a thread's handle is dropped by code of
/// the library.
const KNOWN: &str = "race:drop_slow\nrace:std::thread::thread::Inner\n";

/// A program that uses the functions that [`reporting`] looks for.
const USES: &str = "\
use std::sync::{Condvar, Mutex};
fn main() {
    let (mutex, condition) = (Mutex::new(0), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| *mutex.lock().unwrap() += 1);
        drop(condition.wait_timeout(mutex.lock().unwrap(), std::time::Duration::ZERO));
    });
}
";

/// Functions of the library by which threads wait for each other: for each, the end of its name, and a
/// wrapper in C, in which the first argument of `REAL` is the object. An `acquire` synchronises with the
/// `release` of the same address.
const WAITING: [(&str, &str); 3] = [
    (
        "5Mutex14lock_contended",
        "void REAL(void *); void WRAP(void *mutex) { REAL(mutex); __tsan_acquire(mutex); }",
    ),
    (
        "7Condvar12wait_timeout",
        "_Bool REAL(void *, void *, unsigned long, unsigned);
         _Bool WRAP(void *condition, void *mutex, unsigned long seconds, unsigned nanoseconds) {
             __tsan_release(mutex);
             _Bool in_time = REAL(condition, mutex, seconds, nanoseconds);
             __tsan_acquire(mutex);
             return in_time;
         }",
    ),
    // The waiting thread reads one of these words of memory.
    (
        "9ScopeData29decrement_num_running_threads",
        "void REAL(void **, _Bool); void WRAP(void **scope, _Bool panicked) {
             for (int word = 0; word < 3; word++) __tsan_release(scope + word);
             REAL(scope, panicked);
         }",
    ),
];

/// Runs a test of a package under the sanitizer by `run`. Returns the files with the sanitizer's reports.
pub(crate) fn sanitize(
    mut command: Command,
    package: &str,
    run: impl FnOnce(&mut Command) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    let folder = process::target_dir().join("threads-reports");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder)?;
    let mut flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer".to_owned();
    let mut options = format!("log_path={} exitcode=66", folder.join("report").display());
    command.args(["test", "--locked", "-p", package, "--target", "x86_64-unknown-linux-gnu"]);
    if has_library_sources() {
        command.arg("-Zbuild-std");
    } else {
        let known = folder.join("known");
        std::fs::write(&known, KNOWN)?;
        let _ = write!(options, " suppressions={}", known.display());
        let _ = write!(flags, " {FLAGS} {}", reporting(&process::target_dir().join("threads-reporting"))?);
    }
    command.env("RUSTFLAGS", flags).env("TSAN_OPTIONS", options);
    command.env("CARGO_TARGET_DIR", process::target_dir().join("threads"));
    let run = run(&mut command);
    let reports = std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let reports: Vec<PathBuf> = reports.into_iter().filter(|path| !path.ends_with("known")).collect();
    // A test passes although a race was found, so the sanitizer's own report decides.
    if reports.is_empty() { run.map(|()| reports) } else { Ok(reports) }
}

/// Checks that the sanitizer finds a race that exists, so that a run without reports is evidence that there
/// is none.
pub(crate) fn finds_a_race(command: Command) -> Result<()> {
    let reports = sanitize(command, "thalweg-exec", |command| {
        // The sanitizer writes its report of the race to a file.
        command.args(["--test", "stress", "--", "race"]).stderr(Stdio::null()).status()?;
        Ok(())
    })?;
    let is_seen = |report: &PathBuf| {
        std::fs::read_to_string(report)
            .is_ok_and(|text| text.contains("data race") && text.contains("race_on_purpose"))
    };
    if reports.iter().any(is_seen) {
        Ok(())
    } else {
        bail!("ThreadSanitizer does not see a race that is there")
    }
}

/// Whether the sources of nightly's standard library are installed.
fn has_library_sources() -> bool {
    let sysroot = Command::new("rustc").args(["+nightly", "--print", "sysroot"]).output();
    sysroot.is_ok_and(|output| {
        let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Path::new(&root).join("lib/rustlib/src/rust/library").is_dir()
    })
}

/// The linker options that wrap the [`WAITING`] functions of the library; the wrappers are compiled in a
/// folder.
fn reporting(folder: &Path) -> Result<String> {
    std::fs::create_dir_all(folder)?;
    let path = |name: &str| folder.join(name);
    std::fs::write(path("uses.rs"), USES)?;
    let mut compiler = Command::new("rustc");
    compiler.env_remove("RUSTUP_TOOLCHAIN").args(["+nightly", "--edition=2024", "-o"]);
    process::run(compiler.arg(path("uses")).arg(path("uses.rs")))?;
    let listed = Command::new("nm").arg(path("uses")).output().context("there is no `nm` (binutils)")?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    let mut options = format!("-Clink-arg={}", path("reporting.o").display());
    let mut code = "void __tsan_acquire(void *); void __tsan_release(void *);\n".to_owned();
    for (end, function) in WAITING {
        let name = names.iter().find(|name| name.ends_with(end));
        let name = name.with_context(|| format!("the standard library has no function …{end} any more"))?;
        let _ = write!(options, " -Clink-arg=-Wl,--wrap={name}");
        let function =
            function.replace("REAL", &format!("__real_{name}")).replace("WRAP", &format!("__wrap_{name}"));
        let _ = writeln!(code, "{function}");
    }
    std::fs::write(path("reporting.c"), code)?;
    let mut compiler = Command::new("cc");
    process::run(
        compiler.args(["-c", "-O1", "-fPIC", "-o"]).arg(path("reporting.o")).arg(path("reporting.c")),
    )?;
    Ok(options)
}

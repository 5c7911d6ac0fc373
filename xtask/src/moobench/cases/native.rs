//! Drivers in C, C++ and Rust: Thalweg's probes, the least costs that a probe can have, and rivals from
//! Debian and crates.io.

use super::{Case, Make, Set, driven, full_modes, lossless};
use crate::moobench::Settings;
use crate::moobench::drain::Drain;
use crate::moobench::goals::{BY_HAND, CLOCK, KEPT_PLAIN, TWO_EVENTS};
use crate::process;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A driver's program, or the reason why it cannot be compiled.
struct Driver {
    program: PathBuf,
    missing: Option<String>,
}

/// A row of the table for one driver.
struct Row {
    who: &'static str,
    phase: char,
    drain: Drain,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const PLAIN: Row = Row { who: "", phase: 'C', drain: Drain::None, arguments: &[], variables: &[] };

fn add(cases: &mut Vec<Case>, language: &'static str, driver: &Driver, row: Row) {
    let Row { who, phase, drain, arguments, variables } = row;
    let program = driver.program.clone();
    let command: Make = Box::new(move |place| {
        let mut command = Command::new(&program);
        command.args(arguments).envs(variables.iter().copied());
        if drain.is_ours() && !variables.iter().any(|(name, _)| *name == "THALWEG_PROBE_FULL") {
            lossless(&mut command);
        }
        driven(command, place)
    });
    cases.push(Case { language, who, phase, drain, command, missing: driver.missing.clone() });
}

/// The rows of Thalweg's probes, which are the same in all three languages.
fn ours(
    cases: &mut Vec<Case>,
    settings: &Settings,
    language: &'static str,
    driver: &Driver,
    arguments: &'static [&'static str],
) {
    let row = |phase: char, drain: Drain, variables: &'static [(&'static str, &'static str)]| Row {
        who: "Thalweg",
        phase,
        drain,
        arguments,
        variables,
    };
    match settings.set {
        Set::Phases | Set::Swept => {
            add(cases, language, driver, row('I', Drain::None, &[("THALWEG_PROBE", "off")]));
            add(cases, language, driver, row('C', Drain::None, &[]));
            if settings.set == Set::Phases {
                add(
                    cases,
                    language,
                    driver,
                    Row { who: "Thalweg, followed live", ..row('F', Drain::Follow(&[]), &[]) },
                );
            }
            add(cases, language, driver, row('W', Drain::Record, &[]));
            add(cases, language, driver, Row { who: KEPT_PLAIN, ..row('W', Drain::RecordPlain, &[]) });
        }
        Set::Writers => {
            add(cases, language, driver, Row { who: "mapped memory", ..row('C', Drain::None, &[]) });
            add(cases, language, driver, Row { who: "archive", ..row('W', Drain::Record, &[]) });
            add(
                cases,
                language,
                driver,
                Row { who: "text, of what it can follow", ..row('F', Drain::Follow(&[]), &[]) },
            );
            add(
                cases,
                language,
                driver,
                Row { who: "JSON, of what it can follow", ..row('F', Drain::Follow(&["--json"]), &[]) },
            );
        }
        Set::Full => {
            for (who, variables) in full_modes() {
                add(cases, language, driver, Row { who, ..row('W', Drain::Record, variables) });
            }
        }
    }
}

/// Adds the drivers of moo.c, compiled by the compiler `compiler`.
pub(super) fn in_c(
    settings: &Settings,
    language: &'static str,
    compiler: &str,
    standard: &str,
    cases: &mut Vec<Case>,
) -> Result<()> {
    let compile = |define: &str, more: &[String]| compiled(language, compiler, standard, define, more);
    let made = |define: &str, more: &[String]| -> Result<Driver> {
        Ok(Driver { program: compile(define, more)?, missing: None })
    };
    let plain = made("PLAIN", &[])?;
    add(cases, language, &plain, Row { who: "no probe", phase: 'T', ..PLAIN });
    let headers = [format!("-I{}", process::root().join("bindings/c").display())];
    let probes = made("PROBES", &headers)?;
    ours(cases, settings, language, &probes, &[]);
    if settings.set != Set::Phases {
        return Ok(());
    }
    let pairs = made("PAIRS", &headers)?;
    add(cases, language, &pairs, Row { who: TWO_EVENTS, ..PLAIN });
    add(cases, language, &pairs, Row { who: TWO_EVENTS, phase: 'W', drain: Drain::Record, ..PLAIN });
    add(cases, language, &made("CLOCK", &[])?, Row { who: CLOCK, ..PLAIN });
    let ring = made("RING", &[])?;
    add(cases, language, &ring, Row { who: BY_HAND, ..PLAIN });
    let waits = &[("MOO_RING_WAITS", "1")];
    add(
        cases,
        language,
        &ring,
        Row { who: BY_HAND, phase: 'W', drain: Drain::Ring, variables: waits, ..PLAIN },
    );
    if !settings.rivals {
        return Ok(());
    }
    let folder = process::root().join("xtask/moobench");
    let options = [format!("-I{}", folder.display()), "-llttng-ust".to_owned(), "-ldl".to_owned()];
    let lttng = lttng_missing().map_or_else(|| tried(compile("LTTNG", &options)), without);
    add(cases, language, &lttng, Row { who: "LTTng-UST, two events, no session", phase: 'I', ..PLAIN });
    let lossy =
        Row { who: "LTTng-UST, two events, snapshots", drain: Drain::Lttng { keeps: false }, ..PLAIN };
    add(cases, language, &lttng, lossy);
    let variables = &[("LTTNG_UST_ALLOW_BLOCKING", "1")];
    let kept = Row {
        who: "LTTng-UST, two events, waits when full",
        phase: 'W',
        drain: Drain::Lttng { keeps: true },
        variables,
        ..PLAIN
    };
    add(cases, language, &lttng, kept);
    let tracy = match tracy() {
        Ok(options) => tried(compile("TRACY", &options)),
        Err(why) => without(format!("{why:#}")),
    };
    // Tracy records although no reader is connected, and does not check the processor's clock.
    let variables = &[("TRACY_NO_INVARIANT_CHECK", "1")];
    add(cases, language, &tracy, Row { who: "Tracy, a zone, all kept in its memory", variables, ..PLAIN });
    let nobody =
        without("Tracy's `capture`, which keeps what its client sends, is in no registry".to_owned());
    add(cases, language, &nobody, Row { who: "Tracy, a zone", phase: 'W', ..PLAIN });
    Ok(())
}

fn tried(program: Result<PathBuf>) -> Driver {
    match program {
        Ok(program) => Driver { program, missing: None },
        Err(why) => without(format!("{why:#}")),
    }
}

fn without(why: String) -> Driver {
    Driver { program: PathBuf::new(), missing: Some(why) }
}

/// The driver of a language, compiled with one sort of probe.
fn compiled(
    language: &str,
    compiler: &str,
    standard: &str,
    define: &str,
    more: &[String],
) -> Result<PathBuf> {
    let folder = process::target_dir().join("moobench-drivers");
    std::fs::create_dir_all(&folder)?;
    let driver = std::path::absolute(folder.join(format!("moo-{compiler}-{}", define.to_lowercase())))?;
    let mut compile = Command::new(compiler);
    compile.args(["-x", language, &format!("-std={standard}"), "-O2", "-pthread", &format!("-D{define}")]);
    compile.arg(process::root().join("xtask/moobench/moo.c")).args(["-x", "none"]).args(more);
    let output =
        compile.arg("-o").arg(&driver).output().with_context(|| format!("could not start `{compiler}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{compiler}: {}", said.lines().find(|line| line.contains("error")).unwrap_or("it fails"));
    }
    Ok(driver)
}

fn lttng_missing() -> Option<String> {
    const INSTALL: &str = "on Debian `apt-get install liblttng-ust-dev lttng-tools` brings it";
    let lacks = |program: &str, argument: &str| !process::is_installed(program, argument);
    (lacks("lttng", "--version") || lacks("lttng-sessiond", "--version"))
        .then(|| format!("there is no `lttng`: {INSTALL}"))
}

/// Compiles Tracy's client from the crate that carries its sources. Returns the arguments with which a driver
/// is compiled that uses the client.
fn tracy() -> Result<Vec<String>> {
    let rivals = rivals_manifest();
    let mut metadata = process::cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked", "--manifest-path"]).arg(rivals);
    let output = metadata.output().context("could not start cargo")?;
    if !output.status.success() {
        bail!(
            "crates.io: {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("cargo fails")
        );
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists packages")?;
    let package = packages.iter().find(|package| package["name"] == "tracy-client-sys");
    let manifest = package
        .and_then(|package| package["manifest_path"].as_str())
        .context("there is no tracy-client-sys")?;
    let sources = Path::new(manifest).parent().context("a manifest lies in a folder")?.join("tracy");
    let object = std::path::absolute(process::target_dir().join("moobench-drivers/tracy.o"))?;
    const DEFINES: [&str; 10] = [
        "-DTRACY_ENABLE",
        "-DTRACY_ONLY_LOCALHOST",
        "-DTRACY_NO_BROADCAST",
        "-DTRACY_NO_SYSTEM_TRACING",
        "-DTRACY_NO_CONTEXT_SWITCH",
        "-DTRACY_NO_SAMPLING",
        "-DTRACY_NO_CODE_TRANSFER",
        "-DTRACY_NO_CALLSTACK_INLINES",
        "-DTRACY_NO_VERIFY",
        "-DTRACY_NO_CRASH_HANDLER",
    ];
    if !object.exists() {
        let mut compile = Command::new("g++");
        compile.args(["-std=c++17", "-O2", "-w", "-c"]).args(DEFINES).arg(sources.join("TracyClient.cpp"));
        process::run(compile.arg("-o").arg(&object))?;
    }
    let mut options: Vec<String> = DEFINES.map(str::to_owned).to_vec();
    options.extend([format!("-I{}", sources.display()), object.display().to_string()]);
    options.extend(["-lstdc++", "-ldl", "-lpthread"].map(str::to_owned));
    Ok(options)
}

fn rivals_manifest() -> PathBuf {
    process::root().join("xtask/moobench/rust/Cargo.toml")
}

pub(super) fn in_rust(settings: &Settings, cases: &mut Vec<Case>) -> Result<()> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--locked", "-p", "thalweg-probe", "--example", "moobench"]);
    process::run(&mut build)?;
    let program = std::path::absolute(process::target_dir().join("release/examples/moobench"))?;
    let missing = settings.by_user_time.then(|| "the driver in Rust reads no user time".to_owned());
    let driver = Driver { program, missing };
    add(cases, "rust", &driver, Row { who: "no probe", phase: 'T', arguments: &["plain"], ..PLAIN });
    ours(cases, settings, "rust", &driver, &["probes"]);
    if settings.set != Set::Phases {
        return Ok(());
    }
    add(cases, "rust", &driver, Row { who: CLOCK, arguments: &["clock"], ..PLAIN });
    if !settings.rivals {
        return Ok(());
    }
    let target = std::path::absolute(process::target_dir().join("moobench-rivals"))?;
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--locked", "--manifest-path"]).arg(rivals_manifest());
    let built = process::run(build.env("CARGO_TARGET_DIR", &target));
    let mut rivals = tried(built.map(|()| target.join("release/moobench-rivals")));
    rivals.missing = rivals.missing.or_else(|| driver.missing.clone());
    let mut row = |who: &'static str, phase: char, drain: Drain, arguments: &'static [&'static str]| {
        add(cases, "rust", &rivals, Row { who, phase, drain, arguments, variables: &[] });
    };
    row("tracing, no subscriber", 'I', Drain::None, &["tracing-off"]);
    row("tracing, a registry alone", 'C', Drain::None, &["tracing-registry"]);
    row("tracing, our layer", 'C', Drain::None, &["tracing-thalweg"]);
    row("tracing, our layer", 'W', Drain::Record, &["tracing-thalweg"]);
    row("tracing, a line a span to a file", 'W', Drain::None, &["tracing-lines"]);
    row("fastrace, no parent", 'I', Drain::None, &["fastrace-off"]);
    row("fastrace, to nobody", 'C', Drain::None, &["fastrace-nobody"]);
    row("fastrace, a line a span to a file", 'W', Drain::None, &["fastrace-lines"]);
    row("Tracy, a zone, all kept in its memory", 'C', Drain::None, &["tracy"]);
    Ok(())
}

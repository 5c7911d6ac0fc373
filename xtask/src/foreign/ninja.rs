//! Ninja, in C++, from Debian's sources: all functions are recorded by a library that is loaded before the
//! program.

use super::{
    Spaces, by_turns, costs_text, folder, gcov_counts, instrument_library, processor_time_printed, quiet, sh,
    sources_of,
};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// The number of files that Ninja has to process.
const FILES_COUNTED: usize = 200;
const FILES_TIMED: usize = 10_000;

/// Builds of the same sources: without probes, with probes, and with gcov.
pub(super) struct Ninja {
    plain: PathBuf,
    instrumented: PathBuf,
    counted: PathBuf,
    library: PathBuf,
}

pub(super) fn ninja() -> Result<Ninja> {
    let folder = folder()?;
    sources_of("ninja-build", "ninja-build_*.orig.tar.gz", "ninja.tar.gz", "apt-get install g++ python3")?;
    let library = instrument_library()?;
    let build = |name: &str, flags: &str| -> Result<PathBuf> {
        let place = folder.join(format!("ninja-{name}"));
        if !place.join("ninja_test").exists() {
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir_all(&place)?;
            // Ninja builds itself: the first build of Ninja makes the other builds.
            let first = if name == "plain" {
                "python3 configure.py --bootstrap && ./ninja ninja_test".to_owned()
            } else {
                format!("CXXFLAGS='{flags}' python3 configure.py && ../ninja-plain/ninja ninja ninja_test")
            };
            sh(&place, &format!("tar xf ../ninja.tar.gz --strip-components=1 && {first}"))?;
        }
        Ok(place)
    };
    Ok(Ninja {
        plain: build("plain", "")?,
        instrumented: build("instrumented", "-finstrument-functions")?,
        // This build is not optimised: without inlining, gcov and the probes count the same calls.
        counted: build("counted", "-O0 -finstrument-functions --coverage -fprofile-update=atomic")?,
        library,
    })
}

pub(super) fn own_tests(made: &Ninja) -> Result<String> {
    let spaces = Spaces::new("ninja-tests")?;
    let mut tests = Command::new(made.instrumented.join("ninja_test"));
    tests.current_dir(&made.instrumented);
    let output = quiet(tests.env("LD_PRELOAD", &made.library).env("THALWEG_SPACES", &spaces.path))?;
    // Ninja's tests show their progress in one line that they overwrite: `[n/n]` and the name of a test.
    let last = output.rsplit('[').next().unwrap_or_default();
    let count = last.split(']').next().unwrap_or_default().to_owned();
    if !output.contains("passed") {
        bail!("it says {}", output.lines().last().unwrap_or_default());
    }
    let calls = spaces.calls()?;
    let recorded = calls["calls"].as_u64().unwrap_or(0) + calls["lost"].as_u64().unwrap_or(0);
    if recorded == 0 {
        bail!("nothing was recorded");
    }
    Ok(format!("{count} passed; {recorded} calls"))
}

/// A folder with a manifest by which Ninja makes each file with `cat` from the previous one.
fn work(name: &str, files: usize) -> Result<PathBuf> {
    let place = folder()?.join(format!("ninja-work-{name}"));
    std::fs::create_dir_all(&place)?;
    let mut manifest = "rule copy\n  command = cat $in > $out\n  description = makes $out\n".to_owned();
    for n in 0..files {
        manifest += &format!("build out{n}: copy in{n}\n");
        std::fs::write(place.join(format!("in{n}")), "one\n")?;
    }
    std::fs::write(place.join("build.ninja"), manifest)?;
    Ok(place)
}

/// Compares each function's calls with gcov's count in the same run.
pub(super) fn counts(made: &Ninja) -> Result<String> {
    sh(&made.counted, "find . -name '*.gcda' -delete")?;
    let place = work("counted", FILES_COUNTED)?;
    let spaces = Spaces::new("ninja")?;
    let mut run = Command::new(made.counted.join("ninja"));
    run.args(["-n", "-C"]).arg(&place);
    run.env("THALWEG_SPACES", &spaces.path).env("THALWEG_PROBE_BYTES", "256M");
    quiet(run.env("LD_PRELOAD", &made.library))?;
    let counted = without_parameters(gcov_counts(&made.counted, "find build -name '*.gcda'")?)?;
    let calls = spaces.calls()?;
    if calls["lost"] != 0 || calls["not_recorded"] != 0 {
        bail!("{} events were lost", calls["lost"]);
    }
    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    for operation in calls["operations"].as_array().into_iter().flatten() {
        let name = operation["name"].as_str().unwrap_or_default().to_owned();
        *recorded.entry(name).or_default() += operation["count"].as_u64().unwrap_or(0);
    }
    let recorded = without_parameters(recorded)?;
    let (mut functions, mut all, mut others) = (0, 0, Vec::new());
    for (name, count) in counted.iter().filter(|(_, count)| **count > 0) {
        match recorded.get(name) {
            Some(probed) if probed == count => (functions, all) = (functions + 1, all + count),
            probed => others.push(format!("{name}: {count}, {}", probed.copied().unwrap_or(0))),
        }
    }
    if functions < 200 || others.len() * 20 > functions {
        bail!(
            "only {functions} functions are recorded as often as gcov says; not these: {}",
            others.join("; ")
        );
    }
    Ok(format!(
        "{all} calls of {functions} functions, each as often as gcov says, but for {} (gcov's count, ours): {}",
        others.len(),
        others.join("; ")
    ))
}

/// The counts of calls by demangled names without parameters; the counts of overloads, and of instances of a
/// template, are added up.
fn without_parameters(counted: BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>> {
    let place = folder()?.join("ninja-names");
    std::fs::write(&place, counted.keys().map(|name| format!("{name}\n")).collect::<String>())?;
    let names = sh(&folder()?, "c++filt -p < ninja-names")?;
    let mut by_name = BTreeMap::new();
    for (name, count) in names.lines().zip(counted.values()) {
        *by_name.entry(without_templates(name)).or_default() += count;
    }
    Ok(by_name)
}

/// A name without template arguments, and without the compiler's suffixes.
fn without_templates(name: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0);
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out.split([' ', '[']).next().unwrap_or_default().to_owned()
}

/// The cost of a build in which no file is out of date: Ninja reads the manifest and gets each file's time.
pub(super) fn cost(made: &Ninja) -> Result<String> {
    let place = work("timed", FILES_TIMED)?;
    let figures = by_turns(|with| {
        let spaces = Spaces::new("ninja-cost")?;
        let program = if with { &made.instrumented } else { &made.plain }.join("ninja");
        let mut run = Command::new("sh");
        run.args(["-c", "\"$@\" >/dev/null; code=$?; times; exit $code", "sh"]).arg(program);
        run.args(["-n", "-C"]).arg(&place).env("THALWEG_SPACES", &spaces.path);
        if with {
            run.env("LD_PRELOAD", &made.library);
        }
        processor_time_printed(&quiet(&mut run)?)
    })?;
    Ok(costs_text("s", figures))
}

#[cfg(test)]
mod tests {
    use super::without_templates;

    #[test]
    fn names_without_templates() {
        assert_eq!(without_templates("std::map<a, std::pair<b, c> >::at"), "std::map::at");
        assert_eq!(without_templates("Builder::Build[abi:cxx11] (.cold)"), "Builder::Build");
        assert_eq!(without_templates("Lexer::ReadToken"), "Lexer::ReadToken");
    }
}

//! The start-up time of a program of 5,000 classes under agents: the program loads each class and calls one
//! of its methods.

use super::{Folder, Settings, cases, java};
use crate::process;
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const CLASSES: usize = 5_000;

/// An agent and its options.
struct Row {
    who: &'static str,
    options: Vec<String>,
    missing: Option<String>,
    seconds: Vec<f64>,
    processor: Vec<f64>,
}

/// The table.
pub(super) fn measured(settings: &Settings) -> Result<String> {
    if let Some(why) = java::missing() {
        bail!("{why}");
    }
    let classes = compiled()?;
    let folder = Folder::new(&settings.out.join("start"))?;
    let mut rows = rows(settings, &folder.path)?;
    for _ in 0..settings.repeats {
        for row in rows.iter_mut().filter(|row| row.missing.is_none()) {
            match one(row, &classes, &folder.path) {
                Ok((seconds, processor)) => {
                    row.seconds.push(seconds);
                    row.processor.push(processor);
                }
                Err(why) => row.missing = Some(format!("{why:#}")),
            }
        }
    }
    Ok(table(&rows, settings))
}

fn table(rows: &[Row], settings: &Settings) -> String {
    let mut out = format!(
        "{CLASSES} classes are loaded, of each a method is called; {} runs by turns, medians, × the run without an agent.\n\n",
        settings.repeats
    );
    out += "| agent | seconds | × none | processor time, s | × none |\n|---|---|---|---|---|\n";
    let plain = (median(&rows[0].seconds), median(&rows[0].processor));
    for row in rows {
        if let Some(why) = &row.missing {
            writeln!(out, "| {} | not measured: {} | | | |", row.who, why.replace('|', "/")).expect("a text");
            continue;
        }
        let (wall, processor) = (median(&row.seconds), median(&row.processor));
        let (times, of_processor) = (wall / plain.0, processor / plain.1);
        writeln!(out, "| {} | {wall:.2} | {times:.2} | {processor:.2} | {of_processor:.2} |", row.who)
            .expect("a text");
    }
    out
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn rows(settings: &Settings, folder: &Path) -> Result<Vec<Row>> {
    let row = |who, options: Vec<String>, missing: Option<String>| Row {
        who,
        options,
        missing,
        seconds: Vec::new(),
        processor: Vec::new(),
    };
    let agent = java::agent()?;
    let ours = |include: &str| vec![format!("-javaagent:{}=include={include}", agent.display())];
    let mut rows = vec![
        row("none", vec![], None),
        row("one that is shown each class and changes none", empty()?, None),
        row("Thalweg, nothing matches", ours("nowhere.*"), None),
        row("Thalweg, all match", ours("many.*"), None),
    ];
    if !settings.rivals {
        return Ok(rows);
    }
    let (kieker, missing) = cases::java::found(java::KIEKER);
    let into =
        format!("-Dkieker.monitoring.writer.filesystem.FileWriter.customStoragePath={}", folder.display());
    let kieker = |include: &str| {
        vec![format!("-javaagent:{}", kieker.display()), into.clone(), format!("-Dstart.kieker={include}")]
    };
    rows.push(row("Kieker 2.0.2, nothing matches", kieker("nowhere.Nothing"), missing.clone()));
    let all: Vec<String> = (0..CLASSES).map(|n| format!("many.C{n}")).collect();
    // Without `.*` Kieker's agent would take this for the name of a class.
    rows.push(row("Kieker 2.0.2, all match", kieker("many.*"), missing));
    let (opentelemetry, missing) = cases::java::found(java::OPENTELEMETRY);
    let told = folder.join("all.properties");
    let methods: Vec<String> = all.iter().map(|class| format!("{class}[one,two]")).collect();
    std::fs::write(&told, format!("otel.instrumentation.methods.include={}\n", methods.join(";")))?;
    let opentelemetry = |more: &[String]| {
        let mut options = vec![format!("-javaagent:{}", opentelemetry.display())];
        options.extend(["traces", "metrics", "logs"].map(|what| format!("-Dotel.{what}.exporter=none")));
        options.extend_from_slice(more);
        options
    };
    rows.push(row("OpenTelemetry 2.20.1, nothing matches", opentelemetry(&[]), missing.clone()));
    let all = [format!("-Dotel.javaagent.configuration-file={}", told.display())];
    rows.push(row("OpenTelemetry 2.20.1, all match", opentelemetry(&all), missing));
    Ok(rows)
}

/// A lower limit of the costs: an agent that gets every class and changes none.
fn empty() -> Result<Vec<String>> {
    let folder = std::path::absolute(process::target_dir().join("moobench-start/empty"))?;
    let (source, jar) = (folder.join("Empty.java"), folder.join("empty.jar"));
    std::fs::create_dir_all(&folder)?;
    let text = "import java.lang.instrument.*;\npublic final class Empty implements ClassFileTransformer {\n    \
        public static void premain(String options, Instrumentation all) { all.addTransformer(new Empty()); }\n    \
        @Override public byte[] transform(ClassLoader l, String n, Class<?> c, java.security.ProtectionDomain d, byte[] b) { return null; }\n}\n";
    std::fs::write(&source, text)?;
    std::fs::write(folder.join("manifest"), "Premain-Class: Empty\n")?;
    process::run(Command::new("javac").arg("-d").arg(folder.join("classes")).arg(&source))?;
    let mut pack = Command::new("jar");
    pack.arg("cfm").arg(&jar).arg(folder.join("manifest")).arg("-C").arg(folder.join("classes")).arg(".");
    process::run(&mut pack)?;
    Ok(vec![format!("-javaagent:{}", jar.display())])
}

/// The folder of the compiled classes, which are made by the first call.
fn compiled() -> Result<PathBuf> {
    let folder = std::path::absolute(process::target_dir().join("moobench-start"))?;
    let (sources, classes) = (folder.join("many"), folder.join("classes"));
    if classes.join("many/Main.class").exists() {
        return Ok(classes);
    }
    std::fs::create_dir_all(&sources)?;
    for n in 0..CLASSES {
        let text = format!(
            "package many;\nfinal class C{n} {{\n    private int kept;\n    static int one(int a) {{ return new C{n}().two(a) + 1; }}\n    \
             int two(int a) {{ kept += a; return kept + three(); }}\n    private int three() {{ return {n}; }}\n}}\n"
        );
        std::fs::write(sources.join(format!("C{n}.java")), text)?;
    }
    let main = format!(
        "package many;\npublic final class Main {{\n    public static void main(String[] a) throws Exception {{\n        int sum = 0;\n        \
         for (int n = 0; n < {CLASSES}; n++) {{\n            java.lang.reflect.Method one = Class.forName(\"many.C\" + n).getDeclaredMethod(\"one\", int.class);\n            \
         one.setAccessible(true);\n            sum += (Integer) one.invoke(null, n);\n        }}\n        System.out.println(sum);\n    }}\n}}\n"
    );
    std::fs::write(sources.join("Main.java"), main)?;
    let mut list = String::new();
    for entry in std::fs::read_dir(&sources)? {
        writeln!(list, "{}", entry?.path().display()).expect("a text");
    }
    std::fs::write(folder.join("files"), list)?;
    let mut compile = Command::new("javac");
    compile.arg("-d").arg(&classes).arg(format!("@{}", folder.join("files").display()));
    process::run(&mut compile)?;
    Ok(classes)
}

/// Starts the program once. Returns the wall-clock time, and the processor time that the shell reports.
fn one(row: &Row, classes: &Path, folder: &Path) -> Result<(f64, f64)> {
    let spaces = Folder::new(&folder.join("spaces"))?;
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\" >out 2>err; code=$?; times >times; exit $code", "sh", "java", "-Xmx1g"]);
    let kieker = row.options.iter().find_map(|option| option.strip_prefix("-Dstart.kieker="));
    command.args(&row.options).arg("-cp").arg(classes).arg("many.Main");
    command.env("KIEKER_SIGNATURES_INCLUDE", kieker.unwrap_or("")).env("THALWEG_SPACES", &spaces.path);
    command.stdin(Stdio::null()).current_dir(&spaces.path);
    let begun = Instant::now();
    let status = command.status().context("could not start `sh`")?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        let said = std::fs::read_to_string(spaces.path.join("err")).unwrap_or_default();
        bail!("{status}: {}", said.lines().next().unwrap_or("it says nothing"));
    }
    let times = std::fs::read_to_string(spaces.path.join("times"))?;
    // The second line of the shell's output has the times of child processes: `0m1.230s 0m0.120s`.
    let line = times.lines().nth(1).context("`times` tells two lines")?;
    let mut processor = 0.0;
    for word in line.split_whitespace() {
        let (minutes, rest) = word.split_once('m').context("minutes")?;
        processor += minutes.parse::<f64>()? * 60.0 + rest.trim_end_matches('s').parse::<f64>()?;
    }
    Ok((seconds, processor))
}

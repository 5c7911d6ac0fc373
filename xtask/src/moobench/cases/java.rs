//! The driver in Java: Thalweg's agent, a ring by hand, and rivals from Maven Central.

use super::{Case, Make, Set, driven, full_modes, lossless};
use crate::moobench::drain::Drain;
use crate::moobench::goals::{BY_HAND, KEPT_PLAIN, TWO_EVENTS};
use crate::moobench::{Settings, java};
use crate::process;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Adds a case: the candidate, the phase, its reader, options of the JVM, and the reason if it is missing.
type Add<'a> = dyn FnMut(&'static str, char, Drain, Vec<String>, Option<String>) + 'a;

/// Cases that cannot be measured here are added with the reason, and listed in the results.
pub(super) fn cases(settings: &Settings, cases: &mut Vec<Case>) -> Result<()> {
    if let Some(why) = java::missing() {
        println!("java: {why}");
        return Ok(());
    }
    let agent = java::agent()?;
    let classes = std::path::absolute(process::target_dir().join("moobench-classes"))?;
    let mut compile = Command::new("javac");
    compile.args(["-nowarn", "-XDignore.symbol.file", "-cp"]).arg(&agent).arg("-d").arg(&classes);
    for source in ["Moo.java", "Monitored.java", "Hand.java"] {
        compile.arg(process::root().join("xtask/moobench").join(source));
    }
    process::run(&mut compile)?;
    let path = format!("{}:{}", classes.display(), agent.display());
    let mut add =
        |who: &'static str, phase: char, drain: Drain, options: Vec<String>, missing: Option<String>| {
            let path = path.clone();
            let command: Make = Box::new(move |place| {
                let mut command = Command::new("java");
                command.arg("-Xmx1g");
                let folder = place.folder.display().to_string();
                let filled = |option: &String| {
                    option.replace("FOLDER", &folder).replace("PORT", &place.port.to_string())
                };
                command.args(options.iter().map(filled)).arg("-cp").arg(&path).arg("moobench.Moo");
                command.env("KIEKER_SIGNATURES_INCLUDE", "moobench.Monitored");
                if drain.is_ours() && !options.iter().any(|option| option.contains("full=")) {
                    lossless(&mut command);
                }
                driven(command, place)
            });
            cases.push(Case { language: "java", who, phase, drain, command, missing });
        };
    let ours = |more: &str| {
        vec![format!("-javaagent:{}=include=moobench.Monitored.monitored{more}", agent.display())]
    };
    add("no probe", 'T', Drain::None, vec![], None);
    match settings.set {
        Set::Phases => {}
        Set::Swept => {
            add("Thalweg", 'I', Drain::None, ours(",start=off"), None);
            add("Thalweg", 'C', Drain::None, ours(""), None);
            add("Thalweg", 'W', Drain::Record, ours(""), None);
            add(KEPT_PLAIN, 'W', Drain::RecordPlain, ours(""), None);
            return Ok(());
        }
        Set::Writers => {
            add("mapped memory", 'C', Drain::None, ours(""), None);
            add("archive", 'W', Drain::Record, ours(""), None);
            add("text, of what it can follow", 'F', Drain::Follow(&[]), ours(""), None);
            add("JSON, of what it can follow", 'F', Drain::Follow(&["--json"]), ours(""), None);
            return Ok(());
        }
        Set::Full => {
            for (who, variables) in full_modes() {
                let full = variables
                    .iter()
                    .find(|(name, _)| *name == "THALWEG_PROBE_FULL")
                    .map_or("", |(_, full)| *full);
                add(who, 'W', Drain::Record, ours(&format!(",bytes=256k,full={full}")), None);
            }
            return Ok(());
        }
    }
    add("Thalweg", 'I', Drain::None, ours(",start=off"), None);
    add("Thalweg", 'C', Drain::None, ours(""), None);
    add("Thalweg, all Java", 'C', Drain::None, ours(",native=off"), None);
    add(TWO_EVENTS, 'C', Drain::None, ours(",events=pairs"), None);
    add("Thalweg, followed live", 'F', Drain::Follow(&[]), ours(""), None);
    add("Thalweg", 'W', Drain::Record, ours(""), None);
    add(KEPT_PLAIN, 'W', Drain::RecordPlain, ours(""), None);
    add(TWO_EVENTS, 'W', Drain::Record, ours(",events=pairs"), None);
    add(BY_HAND, 'C', Drain::None, vec!["-Dmoobench.ring=overwrites".to_owned()], None);
    add(BY_HAND, 'W', Drain::Ring, vec!["-Dmoobench.ring=waits".to_owned()], None);
    if settings.rivals {
        kieker(&mut add);
        opentelemetry(&mut add);
    }
    Ok(())
}

/// The path of a JAR, and the reason if it is missing.
pub(in crate::moobench) fn found(artifact: &str) -> (PathBuf, Option<String>) {
    match java::artifact(artifact) {
        Ok(jar) => (jar, None),
        Err(why) => (PathBuf::new(), Some(format!("{why:#}"))),
    }
}

fn kieker(add: &mut Add) {
    let (jar, missing) = found(java::KIEKER);
    let options = |more: &[&str]| {
        let mut options = vec![format!("-javaagent:{}", jar.display())];
        options.extend(more.iter().map(|option| format!("-Dkieker.monitoring.{option}")));
        options
    };
    const FILES: &str = "writer.filesystem.FileWriter";
    const TCP: &str = "writer.tcp.SingleSocketTcpWriter";
    let into = format!("{FILES}.customStoragePath=FOLDER");
    let stream = |format: &str| {
        format!("{FILES}.logStreamHandler=kieker.monitoring.writer.filesystem.{format}LogStreamHandler")
    };
    let dump = [
        "writer=kieker.monitoring.writer.dump.DumpWriter",
        "core.controller.WriterController.RecordQueueFQN=kieker.monitoring.writer.dump.DumpQueue",
    ];
    let (text, binary) = (stream("Text"), stream("Binary"));
    let large = format!("{FILES}.maxEntriesInFile=1000000");
    let tcp = [
        format!("writer=kieker.monitoring.{TCP}"),
        format!("{TCP}.hostname=localhost"),
        format!("{TCP}.port=PORT"),
    ];
    add("Kieker 2.0.2", 'I', Drain::None, options(&["enabled=false", &into]), missing.clone());
    add("Kieker 2.0.2", 'C', Drain::None, options(&dump), missing.clone());
    add("Kieker 2.0.2, binary files", 'W', Drain::None, options(&[&into, &binary, &large]), missing.clone());
    add("Kieker 2.0.2, text files", 'W', Drain::None, options(&[&into, &text, &large]), missing.clone());
    add(
        "Kieker 2.0.2, TCP to a reader that drops it",
        'W',
        Drain::Socket,
        options(&[&tcp[0], &tcp[1], &tcp[2]]),
        missing,
    );
    let (jar, missing) = found(java::KIEKER_ASPECTS);
    let aspects = process::root().join("xtask/moobench/kieker-aop.xml");
    let options = |more: &[&str]| {
        let mut options = vec![
            "--add-opens=java.base/java.lang=ALL-UNNAMED".to_owned(),
            format!("-javaagent:{}", jar.display()),
            format!("-Dorg.aspectj.weaver.loadtime.configuration=file:{}", aspects.display()),
            "-Dkieker.monitoring.skipDefaultAOPConfiguration=true".to_owned(),
        ];
        options.extend(more.iter().map(|option| format!("-Dkieker.monitoring.{option}")));
        options
    };
    let off = options(&["enabled=false", &into]);
    add("Kieker 2.0.2, before and after", 'I', Drain::None, off, missing.clone());
    add("Kieker 2.0.2, before and after", 'C', Drain::None, options(&dump), missing.clone());
    let files = options(&[&into, &binary, &large]);
    add("Kieker 2.0.2, before and after, binary files", 'W', Drain::None, files, missing.clone());
    let sent = options(&[&tcp[0], &tcp[1], &tcp[2]]);
    add("Kieker 2.0.2, before and after, TCP", 'W', Drain::Socket, sent, missing);
    // The AspectJ agent of 2013 in Kieker 1.8 weaves class files up to Java 7 only.
    let (jar, missing) = found("net.kieker-monitoring:kieker:1.8:jar:aspectj");
    let why = missing.unwrap_or_else(|| {
        format!("{} weaves no class of this JVM: its AspectJ knows class files up to Java 7", jar.display())
    });
    add("Kieker 1.8", 'W', Drain::None, vec![], Some(why));
}

fn opentelemetry(add: &mut Add) {
    let (jar, missing) = found(java::OPENTELEMETRY);
    let options = |more: &[&str]| {
        let mut options = vec![
            format!("-javaagent:{}", jar.display()),
            "-Dotel.instrumentation.methods.include=moobench.Monitored[monitored]".to_owned(),
            "-Dotel.metrics.exporter=none".to_owned(),
            "-Dotel.logs.exporter=none".to_owned(),
        ];
        options.extend(more.iter().map(|option| format!("-Dotel.traces.{option}")));
        options
    };
    let off = options(&["sampler=always_off", "exporter=none"]);
    add("OpenTelemetry 2.20.1", 'I', Drain::None, off, missing.clone());
    add("OpenTelemetry 2.20.1", 'C', Drain::None, options(&["exporter=none"]), missing.clone());
    add(
        "OpenTelemetry 2.20.1, lines to a file, in batches that drop",
        'W',
        Drain::None,
        options(&["exporter=console"]),
        missing,
    );
}

//! The JARs for Java: the agent, built by Maven, and rivals from Maven Central.

use crate::process;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kieker's agent in Maven Central.
pub(crate) const KIEKER: &str = "net.kieker-monitoring:kieker:2.0.2:jar:bytebuddy";

/// Kieker's agent that weaves aspects, among them those that record two events a call.
pub(crate) const KIEKER_ASPECTS: &str = "net.kieker-monitoring:kieker:2.0.2:jar:aspectj";

/// OpenTelemetry's agent in Maven Central.
pub(crate) const OPENTELEMETRY: &str = "io.opentelemetry.javaagent:opentelemetry-javaagent:2.20.1";

/// The repository of Maven with fetched packages, in the target directory, so that a later build needs no
/// network.
fn repository() -> PathBuf {
    match std::env::var_os("HOME") {
        Some(home) if Path::new(&home).join(".m2/repository").is_dir() => {
            Path::new(&home).join(".m2/repository")
        }
        _ => process::target_dir().join("maven"),
    }
}

/// If a program that Java's cases need is missing, a sentence that says how to install it.
pub(crate) fn missing() -> Option<&'static str> {
    if !process::is_installed("javac", "-version") {
        Some("there is no `javac`: on Debian `apt-get install openjdk-17-jdk-headless` brings it")
    } else if !process::is_installed("mvn", "--version") {
        Some("there is no `mvn`: on Debian `apt-get install maven` brings it")
    } else {
        None
    }
}

fn maven() -> Command {
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--quiet"]).arg(format!("-Dmaven.repo.local={}", repository().display()));
    command.current_dir(process::root());
    command
}

/// Runs Maven without the network, and once more with the network if a package was not fetched yet.
fn run(arguments: &[String]) -> Result<()> {
    let offline = maven().arg("--offline").args(arguments).output().context("could not start `mvn`")?;
    if offline.status.success() {
        return Ok(());
    }
    let output = maven().args(arguments).output().context("could not start `mvn`")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        bail!("mvn {}: {}", arguments.join(" "), said.lines().next().unwrap_or("it says nothing"));
    }
    Ok(())
}

/// Builds the agent. Returns the path of the agent's JAR.
pub(crate) fn agent() -> Result<PathBuf> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let folder = process::target_dir().join("agent");
    let jar = folder.join("thalweg-agent.jar");
    let sources =
        ["bindings/java", "bindings/java/org/thalweg", "bindings/java/org/thalweg/agent", "bindings/c"];
    let newest =
        sources.iter().flat_map(|source| std::fs::read_dir(process::root().join(source))).flatten().flatten();
    let newest = newest.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
    let is_fresh =
        std::fs::metadata(&jar).and_then(|jar| jar.modified()).is_ok_and(|made| Some(made) > newest);
    if !is_fresh {
        let arguments = ["-f", "bindings/java", "package"].map(str::to_owned);
        let build = format!("-Dthalweg.build={}", std::path::absolute(&folder)?.display());
        run(&[&arguments[..], &[build]].concat())?;
    }
    Ok(std::path::absolute(jar)?)
}

/// The path of a JAR from Maven Central, named `group:artifact:version` with further coordinates.
pub(crate) fn artifact(name: &str) -> Result<PathBuf> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let parts: Vec<&str> = name.split(':').collect();
    let classifier = parts.get(4).map(|text| format!("-{text}")).unwrap_or_default();
    let folder = process::target_dir().join("rivals");
    let jar = folder.join(format!("{}-{}{classifier}.jar", parts[1], parts[2]));
    if !jar.exists() {
        run(&[
            "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy".to_owned(),
            format!("-Dartifact={name}"),
            format!("-DoutputDirectory={}", std::path::absolute(&folder)?.display()),
        ])?;
    }
    if !jar.exists() {
        bail!("Maven Central gave no {name}");
    }
    Ok(std::path::absolute(jar)?)
}

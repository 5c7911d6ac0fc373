//! Jetty, a web server in Java, from Maven Central: all methods of its packages are recorded by the agent.

use super::{COUNTED, Server, Spaces, TIMED, by_turns, costs_text, folder, free_port, requests, sh};
use crate::moobench::java;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

const VERSION: &str = "9.4.57.v20241219";
const PAGE: &str = "one page\nthe end\n";
const GET: &[u8] = b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// The number of requests after which the JVM has compiled the server's methods.
const WARM: u64 = 20_000;

/// The server, and the packages that its own tests need.
pub(super) struct Jetty {
    agent: PathBuf,
    server: PathBuf,
    tests: PathBuf,
    junit: PathBuf,
    libraries: Vec<PathBuf>,
    /// The folder with the page that is served and the files that the tests read.
    work: PathBuf,
}

pub(super) fn jetty() -> Result<Jetty> {
    let of_jetty = |name: &str| java::artifact(&format!("org.eclipse.jetty:{name}"));
    let tests = of_jetty(&format!("jetty-http:{VERSION}:jar:tests"))?;
    let work = folder()?.join("jetty");
    let page = work.join("pages/page.txt");
    // Maven makes this folder before it runs tests, and the first test that needs it fails without it.
    std::fs::create_dir_all(work.join("target"))?;
    if !page.exists() {
        std::fs::create_dir_all(work.join("src/test/resources"))?;
        sh(&work.join("src/test/resources"), &format!("jar xf '{}'", tests.display()))?;
        std::fs::create_dir_all(work.join("pages"))?;
        std::fs::write(&page, PAGE)?;
    }
    Ok(Jetty {
        agent: java::agent()?,
        server: of_jetty(&format!("jetty-runner:{VERSION}"))?,
        tests,
        junit: java::artifact("org.junit.platform:junit-platform-console-standalone:1.10.5")?,
        libraries: vec![
            java::artifact("org.hamcrest:hamcrest:2.2")?,
            java::artifact("org.eclipse.jetty.toolchain:jetty-test-helper:5.9")?,
        ],
        work,
    })
}

impl Jetty {
    /// A JVM that records all methods of Jetty, or none.
    fn java(&self, with: bool, spaces: &Spaces) -> Command {
        let mut command = Command::new("java");
        if with {
            command.arg(format!("-javaagent:{}=include=org.eclipse.jetty.*", self.agent.display()));
        }
        command.arg("-Xmx512m").current_dir(&self.work).env("THALWEG_SPACES", &spaces.path);
        command
    }

    fn start(&self, with: bool, spaces: &Spaces) -> Result<(Server, u16)> {
        let port = free_port()?;
        let mut command = self.java(with, spaces);
        command.arg("-jar").arg(&self.server).args(["--port", &port.to_string(), "pages"]);
        command.env("THALWEG_PROBE_BYTES", "64M");
        Ok((Server::start(&mut command, port)?, port))
    }

    /// Runs the tests of Jetty's package for HTTP. Returns the number of tests that passed, and the names of
    /// the others.
    fn tests(&self, with: bool, spaces: &Spaces) -> Result<(u64, BTreeSet<String>)> {
        let jars = self.libraries.iter().chain([&self.server, &self.tests]);
        let path: Vec<String> = jars.map(|jar| jar.display().to_string()).collect();
        let mut command = self.java(with, spaces);
        command.arg("-jar").arg(&self.junit).args(["execute", "-cp", &path.join(":"), "--scan-classpath"]);
        command.arg(&self.tests).args(["--details=summary", "--disable-banner"]);
        // One of its tests compresses 13 GB, which takes many minutes.
        command.args(["--exclude-classname", ".*GZIPContentDecoderTest"]);
        let output = command.output().context("could not start `java`")?;
        summary(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
            format!("JUnit: {}", String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default())
        })
    }
}

/// The number of tests that passed and the names of those that failed, from JUnit's summary.
fn summary(printed: &str) -> Option<(u64, BTreeSet<String>)> {
    let line = printed.lines().find(|line| line.ends_with("tests successful      ]"))?;
    let passed = line.split_whitespace().find_map(|word| word.parse().ok())?;
    let failed = printed.lines().filter_map(|line| line.strip_prefix("  JUnit "));
    Some((passed, failed.map(str::to_owned).collect()))
}

/// The tests pass and fail with the agent as without it.
pub(super) fn own_tests(made: &Jetty) -> Result<String> {
    let spaces = Spaces::new("jetty-tests")?;
    let (without, failing) = made.tests(false, &spaces)?;
    let (with, failing_with) = made.tests(true, &spaces)?;
    if without < 1_000 || with != without || failing != failing_with {
        bail!("{without} pass without the agent, not {failing:?}; {with} with it, not {failing_with:?}");
    }
    let calls = spaces.calls()?;
    let recorded = calls["calls"].as_u64().unwrap_or(0) + calls["lost"].as_u64().unwrap_or(0);
    if recorded < 100_000 {
        bail!("only {recorded} calls were recorded");
    }
    Ok(format!("{with} passed, {} failed, the same as without the agent; {recorded} calls", failing.len()))
}

/// Each request is one call of the methods that handle it, each below the one before.
pub(super) fn counts(made: &Jetty) -> Result<String> {
    const BELOW: [&str; 4] = [
        "org.eclipse.jetty.server.HttpChannel.handle",
        "org.eclipse.jetty.server.Server.handle",
        "org.eclipse.jetty.servlet.ServletHandler.doHandle",
        "org.eclipse.jetty.servlet.DefaultServlet.doGet",
    ];
    let spaces = Spaces::new("jetty")?;
    let (mut server, port) = made.start(true, &spaces)?;
    requests(port, COUNTED, GET, b"the end\n")?;
    server.end()?;
    let calls = spaces.calls()?;
    let names: Vec<(u64, &str)> = calls["operations"]
        .as_array()
        .context("operations")?
        .iter()
        .filter_map(|one| Some((one["id"].as_u64()?, one["name"].as_str()?)))
        .collect();
    let name = |id: &serde_json::Value| {
        names.iter().find(|(one, _)| Some(*one) == id.as_u64()).map_or("", |(_, name)| *name)
    };
    let tree = calls["tree"].as_array().context("a tree")?;
    // The last of the methods, where the others are above it in this order.
    let is_below = |node: &serde_json::Value| {
        let mut wanted = BELOW.iter().rev().peekable();
        let mut at = Some(node);
        while let Some(node) = at {
            if wanted.peek().is_some_and(|wanted| **wanted == name(&node["operation"])) {
                wanted.next();
            }
            at = node["parent"].as_u64().map(|parent| &tree[parent as usize]);
        }
        name(&node["operation"]) == BELOW[3] && wanted.peek().is_none()
    };
    let answered: u64 =
        tree.iter().filter(|node| is_below(node)).filter_map(|node| node["count"].as_u64()).sum();
    if answered != COUNTED || calls["lost"] != 0 || calls["not_recorded"] != 0 {
        bail!(
            "{COUNTED} requests, {answered} calls of {} below {}; {} lost",
            BELOW[3],
            BELOW[0],
            calls["lost"]
        );
    }
    Ok(format!(
        "{answered} requests, {answered} calls of `DefaultServlet.doGet`, each below `HttpChannel.handle`, `Server.handle` and \
         `ServletHandler.doHandle`; {} calls of {} methods in all",
        calls["calls"],
        names.len()
    ))
}

pub(super) fn cost(made: &Jetty) -> Result<String> {
    let figures = by_turns(|with| {
        let spaces = Spaces::new("jetty-cost")?;
        let (server, port) = made.start(with, &spaces)?;
        requests(port, WARM, GET, b"the end\n")?;
        let before = server.processor_time()?;
        requests(port, TIMED, GET, b"the end\n")?;
        Ok((server.processor_time()? - before) * 1e6 / TIMED as f64)
    })?;
    Ok(costs_text("µs a request", figures))
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn a_summary_of_junit_is_read() {
        let printed = "  JUnit Jupiter:A:b\n    => java.lang.Error\n[      1420 tests successful      ]\n";
        let (passed, failed) = summary(printed).unwrap();
        assert_eq!((passed, failed.into_iter().collect::<Vec<_>>()), (1420, vec!["Jupiter:A:b".to_owned()]));
        assert!(summary("").is_none());
    }
}

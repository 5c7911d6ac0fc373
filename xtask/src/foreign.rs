//! Programs of other projects, recorded by probes: memcached from Debian in C, Ninja from Debian in C++,
//! mini-redis from crates.io in Rust, Jetty and H2 from Maven Central in Java. The step checks that the
//! programs' own tests pass and that the counts of calls agree with other counts (gcov, the client), and
//! prints the cost of recording. The sources stay in the target directory.

mod jetty;
mod ninja;

use crate::moobench::java;
use crate::process;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The number of requests that are counted, and of requests that are timed.
const COUNTED: u64 = 500;
const TIMED: u64 = 40_000;
/// The number of runs of each of the two variants that are timed by turns.
const TURNS: usize = 5;

/// Makes the checks and measurements, and hands over each result: a sentence, or the reason why it failed.
/// The variable `ONLY` selects one program.
pub(crate) fn tried(mut report: impl FnMut(&str, Result<String>)) -> Result<()> {
    let mut build = process::cargo();
    process::run(build.args(["build", "--release", "--quiet", "--locked", "-p", "thalweg"]))?;
    let only = std::env::var("ONLY").ok();
    let wants = |program: &str| only.as_deref().is_none_or(|only| only == program);
    match wants("memcached").then(memcached) {
        Some(Ok(made)) => {
            report("memcached, its own tests", own_tests_of_memcached(&made));
            report("memcached, calls as gcov counts them", counts_of_memcached(&made));
            report("memcached, what it costs", cost_of_memcached(&made));
        }
        Some(Err(why)) => report("memcached", Err(why)),
        None => {}
    }
    match wants("Ninja").then(ninja::ninja) {
        Some(Ok(made)) => {
            report("Ninja, its own tests", ninja::own_tests(&made));
            report("Ninja, calls as gcov counts them", ninja::counts(&made));
            report("Ninja, what it costs", ninja::cost(&made));
        }
        Some(Err(why)) => report("Ninja", Err(why)),
        None => {}
    }
    match wants("mini-redis").then(mini_redis) {
        Some(Ok(folder)) => {
            report("mini-redis, its own tests", own_tests_of_mini_redis(&folder));
            report("mini-redis, calls as its client counts them", counts_of_mini_redis(&folder));
            report("mini-redis, what it costs", cost_of_mini_redis(&folder));
        }
        Some(Err(why)) => report("mini-redis", Err(why)),
        None => {}
    }
    match wants("Jetty").then(jetty::jetty) {
        Some(Ok(made)) => {
            report("Jetty, its own tests", jetty::own_tests(&made));
            report("Jetty, calls as its client counts them", jetty::counts(&made));
            report("Jetty, what it costs", jetty::cost(&made));
        }
        Some(Err(why)) => report("Jetty", Err(why)),
        None => {}
    }
    if wants("H2") {
        report("H2, what it costs", cost_of_h2());
    }
    Ok(())
}

fn folder() -> Result<PathBuf> {
    let folder = std::path::absolute(process::target_dir().join("foreign"))?;
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs a command whose output is shown only if it fails; returns the output.
fn quiet(command: &mut Command) -> Result<String> {
    let output =
        command.output().with_context(|| format!("could not start `{}`", process::shown(command)))?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = text.lines().collect();
        bail!(
            "`{}`: {}: {}",
            process::shown(command),
            output.status,
            lines[lines.len().saturating_sub(8)..].join(" / ")
        );
    }
    Ok(text)
}

fn sh(folder: &Path, script: &str) -> Result<String> {
    quiet(Command::new("sh").args(["-ec", script]).current_dir(folder))
}

/// Builds of the same sources: without probes, with probes, and with gcov.
struct Memcached {
    plain: PathBuf,
    instrumented: PathBuf,
    counted: PathBuf,
    library: PathBuf,
}

/// Fetches the sources of a Debian package once, as `name` in the folder.
fn sources_of(package: &str, archive: &str, name: &str, needs: &str) -> Result<()> {
    let folder = folder()?;
    if folder.join(name).exists() {
        return Ok(());
    }
    let sources = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n";
    std::fs::create_dir_all(folder.join("lists/partial"))?;
    std::fs::write(folder.join("sources.list"), sources)?;
    let apt = "apt-get -oDir::Etc::SourceList=$PWD/sources.list -oDir::Etc::SourceParts=/dev/null -oDir::State::Lists=$PWD/lists";
    sh(&folder, &format!("{apt} update && {apt} source --download-only {package} && cp {archive} {name}"))
        .with_context(|| {
            format!("on Debian `apt-get source {package}` brings its sources, and `{needs}` what it needs")
        })?;
    Ok(())
}

/// The library that is loaded into programs compiled with `-finstrument-functions`, and records their
/// functions.
fn instrument_library() -> Result<PathBuf> {
    let library = folder()?.join("libthalweg_instrument.so");
    let headers = process::root().join("bindings/c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O2", "-I"]).arg(&headers).arg(headers.join("thalweg_instrument.c"));
    quiet(compile.arg("-o").arg(&library))?;
    Ok(library)
}

fn memcached() -> Result<Memcached> {
    let folder = folder()?;
    let mut has_libevent = Command::new("cc");
    has_libevent.args(["-E", "-include", "event.h", "-x", "c", "/dev/null"]);
    quiet(&mut has_libevent).context("no `event.h`: on Debian `apt-get install libevent-dev` brings it")?;
    sources_of("memcached", "memcached_*.orig.tar.xz", "memcached.tar.xz", "apt-get install libevent-dev")?;
    let library = instrument_library()?;
    let build = |name: &str, flags: &str| -> Result<PathBuf> {
        let place = folder.join(format!("memcached-{name}"));
        if !place.join("testapp").exists() {
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir_all(&place)?;
            let flags = format!("-g {flags} -Wno-error");
            sh(
                &place,
                &format!(
                    "tar xf ../memcached.tar.xz --strip-components=1 && ./configure --disable-docs CFLAGS='{flags}' && make -j2"
                ),
            )?;
        }
        Ok(place)
    };
    Ok(Memcached {
        plain: build("plain", "-O2")?,
        instrumented: build("instrumented", "-O2 -finstrument-functions")?,
        counted: build("counted", "-O1 -finstrument-functions --coverage -fprofile-update=atomic")?,
        library,
    })
}

/// Runs the test program in memcached's sources, and the tests of the protocol, with every server under
/// probes.
fn own_tests_of_memcached(made: &Memcached) -> Result<String> {
    let spaces = Spaces::new("memcached-tests")?;
    let run = |command: &mut Command| -> Result<(usize, String)> {
        let tests = "for t in $(ls t/00-startup.t t/basics.t t/binary.t t/cas.t t/expirations.t t/flush-all.t t/getset.t t/incrdecr.t \
                     t/lru.t t/noreply.t t/stats.t t/touch.t t/verbosity.t 2>/dev/null); do list=\"$list $t\"; done; ./testapp && prove $list";
        let output = quiet(command.args(["-ec", tests]).current_dir(&made.instrumented))?;
        let passed = output.lines().filter(|line| line.starts_with("ok ")).count();
        let last =
            output.lines().rev().find(|line| line.starts_with("Files=")).unwrap_or_default().to_owned();
        Ok((passed, last))
    };
    let mut with = Command::new("sh");
    with.env("LD_PRELOAD", &made.library).env("THALWEG_SPACES", &spaces.path);
    let (passed, last) = run(&mut with)?;
    let recorded = std::fs::read_dir(&spaces.path)?.count();
    if recorded < 10 {
        bail!("only {recorded} processes had a space");
    }
    Ok(format!("{passed} of testapp and {last}; {recorded} processes recorded"))
}

/// A folder for spaces, in memory, which is removed when the value is dropped.
struct Spaces {
    path: PathBuf,
}

impl Spaces {
    fn new(name: &str) -> Result<Spaces> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { folder()? };
        let path = parent.join(format!("foreign-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Spaces { path })
    }

    /// The output of `thalweg calls` for the only space.
    fn calls(&self) -> Result<serde_json::Value> {
        let mut found = std::fs::read_dir(&self.path)?;
        let space = found.next().context("nothing was recorded")??.path();
        let output = Command::new(process::target_dir().join("release/thalweg"))
            .arg("calls")
            .arg(space)
            .arg("--json")
            .output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("thalweg calls: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A server that is ended by a signal, as its manual says, or killed if it does not end.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, port: u16) -> Result<Server> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Server(child.with_context(|| format!("could not start `{}`", process::shown(command)))?);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("the server does not listen");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Processor time so far, in seconds.
    fn processor_time(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let behind = text.rsplit_once(')').context("a name in brackets")?.1;
        let fields: Vec<i64> = behind.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The fields of the file after the program's name begin with the state; utime and stime are the 11th
        // and 12th numbers after it, in hundredths of a second.
        Ok((fields[10] + fields[11]) as f64 / 100.0)
    }

    fn end(&mut self) -> Result<()> {
        Command::new("kill").args(["-INT", &self.0.id().to_string()]).status()?;
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            if begun.elapsed() > Duration::from_secs(20) {
                bail!("the server does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Sends the same request `count` times, one after the other, and reads each answer, which ends with
/// `answer_ends`.
fn requests(port: u16, count: u64, request: &[u8], answer_end: &[u8]) -> Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    for _ in 0..count {
        stream.write_all(request)?;
        answer.clear();
        while !answer.ends_with(answer_end) {
            let got = stream.read(&mut chunk)?;
            if got == 0 {
                bail!("the server hung up after {}", String::from_utf8_lossy(&answer));
            }
            answer.extend_from_slice(&chunk[..got]);
        }
    }
    Ok(())
}

fn start_memcached(folder: &Path, library: Option<&Path>, spaces: &Spaces) -> Result<(Server, u16)> {
    let port = free_port()?;
    let mut command = Command::new(folder.join("memcached"));
    command.args(["-U", "0", "-u", "root", "-t", "2", "-p", &port.to_string()]).current_dir(folder);
    command.env("THALWEG_SPACES", &spaces.path).env("THALWEG_PROBE_BYTES", "64M");
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    Ok((Server::start(&mut command, port)?, port))
}

/// The number of calls of each function, named as in the object files, as gcov counts them for the files that
/// `files` finds.
fn gcov_counts(folder: &Path, files: &str) -> Result<BTreeMap<String, u64>> {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    let reports = sh(folder, &format!("gcov --json-format --stdout $({files})"))?;
    for line in reports.lines().filter(|line| line.starts_with('{')) {
        let report: serde_json::Value = serde_json::from_str(line)?;
        for file in report["files"].as_array().into_iter().flatten() {
            for function in file["functions"].as_array().into_iter().flatten() {
                let name = function["name"].as_str().unwrap_or_default();
                *counted.entry(name.to_owned()).or_default() +=
                    function["execution_count"].as_u64().unwrap_or(0);
            }
        }
    }
    Ok(counted)
}

/// Compares each function's calls with gcov's count in the same run.
fn counts_of_memcached(made: &Memcached) -> Result<String> {
    sh(&made.counted, "find . -name '*.gcda' -delete")?;
    let spaces = Spaces::new("memcached")?;
    let (mut server, port) = start_memcached(&made.counted, Some(&made.library), &spaces)?;
    requests(port, COUNTED, b"set key 0 0 5\r\nvalue\r\n", b"STORED\r\n")?;
    requests(port, COUNTED, b"get key\r\n", b"END\r\n")?;
    server.end()?;
    let counted = gcov_counts(&made.counted, "find . -name 'memcached-*.gcda'")?;
    let calls = spaces.calls()?;
    if calls["lost"] != 0 || calls["not_recorded"] != 0 {
        bail!("{} events were lost", calls["lost"]);
    }
    let (mut functions, mut all, mut not_ended) = (0, 0, Vec::new());
    let mut recorded: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in calls["operations"].as_array().into_iter().flatten() {
        *recorded.entry(operation["name"].as_str().unwrap_or_default()).or_default() +=
            operation["count"].as_u64().unwrap_or(0);
    }
    for (name, count) in counted.iter().filter(|(_, count)| **count > 0) {
        let probed = recorded.remove(name.as_str()).unwrap_or(0);
        // A call is recorded when it ends; the outermost calls of the program's threads do not end.
        match count.checked_sub(probed) {
            Some(0) => {}
            Some(1..=2) => not_ended.push(name.clone()),
            _ => bail!("{name}: gcov counts {count}, `thalweg calls` {probed}"),
        }
        functions += 1;
        all += count;
    }
    // Functions that are always inlined are inlined before gcov adds its counters, so gcov reports 0 calls of
    // them, and they are not compared.
    recorded.retain(|name, _| counted.get(*name) != Some(&0));
    if let Some((name, count)) = recorded.first_key_value() {
        bail!("{name}: gcov does not know its {count} calls");
    }
    if functions < 50 || not_ended.len() > 25 {
        bail!(
            "only {functions} functions were called, and {} did not end: {}",
            not_ended.len(),
            not_ended.join(" ")
        );
    }
    Ok(format!(
        "{all} calls of {functions} functions, each as often as gcov says, but for {} whose last calls did not end ({})",
        not_ended.len(),
        not_ended.join(", ")
    ))
}

/// The median costs of a request without and with probes, measured by turns.
fn by_turns(mut one: impl FnMut(bool) -> Result<f64>) -> Result<(f64, f64)> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        without.push(one(false)?);
        with.push(one(true)?);
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok((median(&mut without), median(&mut with)))
}

fn costs_text(unit: &str, (without, with): (f64, f64)) -> String {
    format!("{without:.2} {unit} of processor time without, {with:.2} with: {:.2} times", with / without)
}

fn cost_of_memcached(made: &Memcached) -> Result<String> {
    let figures = by_turns(|with| {
        let spaces = Spaces::new("memcached-cost")?;
        let (folder, library) =
            if with { (&made.instrumented, Some(made.library.as_path())) } else { (&made.plain, None) };
        let (server, port) = start_memcached(folder, library, &spaces)?;
        requests(port, 100, b"set key 0 0 5\r\nvalue\r\n", b"STORED\r\n")?;
        let before = server.processor_time()?;
        requests(port, TIMED, b"get key\r\n", b"END\r\n")?;
        Ok((server.processor_time()? - before) * 1e6 / TIMED as f64)
    })?;
    Ok(costs_text("µs a request", figures))
}

/// The sources of mini-redis from crates.io, with a line that adds Thalweg's layer for `tracing`.
fn mini_redis() -> Result<PathBuf> {
    let folder = folder()?.join("mini-redis");
    if !folder.join("Cargo.toml").exists() {
        let asking = folder.with_extension("asking");
        std::fs::create_dir_all(asking.join("src"))?;
        std::fs::write(asking.join("src/lib.rs"), "")?;
        let manifest = "[package]\nname = \"asking\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nmini-redis = \"=0.4.1\"\n[workspace]\n";
        std::fs::write(asking.join("Cargo.toml"), manifest)?;
        let mut metadata = process::cargo();
        metadata
            .args(["metadata", "--format-version", "1", "--manifest-path"])
            .arg(asking.join("Cargo.toml"));
        let output = metadata.output()?;
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("crates.io gave no mini-redis")?;
        let packages = metadata["packages"].as_array().context("cargo lists packages")?;
        let package = packages
            .iter()
            .find(|package| package["name"] == "mini-redis")
            .context("there is no mini-redis")?;
        let from = Path::new(package["manifest_path"].as_str().unwrap_or_default())
            .parent()
            .context("it lies in a folder")?;
        sh(
            &asking,
            &format!(
                "cp -r '{}' '{}' && cp Cargo.lock '{}'",
                from.display(),
                folder.display(),
                folder.display()
            ),
        )?;
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"))?;
        let layer = process::root().join("probe-tracing");
        let more = format!(
            "\n[dependencies.thalweg-probe-tracing]\npath = \"{}\"\n[workspace]\n",
            std::path::absolute(layer)?.display()
        );
        std::fs::write(folder.join("Cargo.toml"), manifest + &more)?;
        let server = std::fs::read_to_string(folder.join("src/server.rs"))?;
        const RUN: &str =
            "pub async fn run(listener: TcpListener, shutdown: impl Future) -> crate::Result<()> {";
        const BINARY: &str = "    tracing_subscriber::fmt::try_init()?;\n";
        if !server.contains(RUN) {
            bail!("src/server.rs has no `{RUN}`");
        }
        std::fs::write(
            folder.join("src/server.rs"),
            server.replace(
                RUN,
                &format!(
                    "{RUN}\n    if std::env::var_os(\"PLAIN\").is_none() {{ thalweg_probe_tracing::init(); }}"
                ),
            ),
        )?;
        let main = std::fs::read_to_string(folder.join("src/bin/server.rs"))?;
        std::fs::write(folder.join("src/bin/server.rs"), main.replace(BINARY, ""))?;
    }
    Ok(folder)
}

fn cargo_in(folder: &Path) -> Result<Command> {
    let mut command = process::cargo();
    command.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    Ok(command)
}

/// A test of mini-redis that fails without probes, too: while the test waits for an answer, tokio advances its
/// paused clock to the time at which the key expires.
const RACING: &str = "key_value_timeout";

fn own_tests_of_mini_redis(folder: &Path) -> Result<String> {
    let spaces = Spaces::new("mini-redis-tests")?;
    let mut test = cargo_in(folder)?;
    test.args(["test", "--release", "--tests", "--", "--skip", RACING]);
    let output = quiet(test.env("THALWEG_SPACES", &spaces.path))?;
    let passed: u64 = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok())
        .sum();
    let recorded = std::fs::read_dir(&spaces.path)?.count();
    if passed < 10 || recorded == 0 {
        bail!("{passed} tests passed, {recorded} processes recorded");
    }
    Ok(format!("{passed} passed, {RACING} left out; {recorded} processes recorded"))
}

fn start_mini_redis(folder: &Path, with: bool, spaces: &Spaces) -> Result<(Server, u16)> {
    quiet(cargo_in(folder)?.args(["build", "--release", "--quiet", "--bins"]))?;
    let port = free_port()?;
    let mut command = Command::new(folder.join("target/release/mini-redis-server"));
    command
        .args(["--port", &port.to_string()])
        .env("THALWEG_SPACES", &spaces.path)
        .env("THALWEG_PROBE_BYTES", "64M");
    if !with {
        command.env("PLAIN", "1");
    }
    Ok((Server::start(&mut command, port)?, port))
}

const SET: &[u8] = b"*3\r\n$3\r\nset\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
const GET: &[u8] = b"*2\r\n$3\r\nget\r\n$3\r\nkey\r\n";

/// Each command of mini-redis makes one span and one debug line, which are counted.
fn counts_of_mini_redis(folder: &Path) -> Result<String> {
    let spaces = Spaces::new("mini-redis")?;
    let (mut server, port) = start_mini_redis(folder, true, &spaces)?;
    requests(port, COUNTED, SET, b"OK\r\n")?;
    requests(port, COUNTED, GET, b"value\r\n")?;
    server.end()?;
    let calls = spaces.calls()?;
    let operations = calls["operations"].as_array().context("operations")?;
    let count = |end: &str| -> u64 {
        let named =
            operations.iter().filter(|one| one["name"].as_str().is_some_and(|name| name.ends_with(end)));
        named.filter_map(|one| one["count"].as_u64()).sum()
    };
    let applied = count("apply");
    if calls["lost"] != 0 || applied != 2 * COUNTED {
        let names: Vec<String> =
            operations.iter().map(|one| format!("{} {}", one["name"], one["count"])).collect();
        bail!(
            "{} commands were sent, {applied} applied, {} lost: {}",
            2 * COUNTED,
            calls["lost"],
            names.join(", ")
        );
    }
    Ok(format!(
        "{applied} commands sent, {applied} calls of `apply`, each below `run`; {} calls in all",
        calls["calls"]
    ))
}

fn cost_of_mini_redis(folder: &Path) -> Result<String> {
    let figures = by_turns(|with| {
        let spaces = Spaces::new("mini-redis-cost")?;
        let (server, port) = start_mini_redis(folder, with, &spaces)?;
        requests(port, 100, SET, b"OK\r\n")?;
        let before = server.processor_time()?;
        requests(port, TIMED, GET, b"value\r\n")?;
        Ok((server.processor_time()? - before) * 1e6 / TIMED as f64)
    })?;
    Ok(costs_text("µs a request", figures))
}

/// Measures a script of statements in a database in memory, once with all methods recorded and once with
/// none.
fn cost_of_h2() -> Result<String> {
    let agent = java::agent()?;
    let database = java::artifact("com.h2database:h2:2.2.224")?;
    let mut statements = "create table t(id int primary key, name varchar(20));".to_owned();
    for n in 0..4_000 {
        statements += &format!("insert into t values({n}, 'name {n}');");
    }
    statements += "select count(*), sum(id), max(name) from t where id > 3;";
    let script = folder()?.join("h2.sql");
    std::fs::write(&script, statements)?;
    let mut calls = 0;
    let figures = by_turns(|with| {
        let spaces = Spaces::new("h2")?;
        let mut command = Command::new("sh");
        command.args(["-c", "\"$@\" >/dev/null; code=$?; times; exit $code", "sh", "java", "-Xmx512m"]);
        if with {
            command.arg(format!("-javaagent:{}=include=org.h2.*,bytes=16M", agent.display()));
        }
        command
            .arg("-cp")
            .arg(&database)
            .args(["org.h2.tools.RunScript", "-url", "jdbc:h2:mem:one", "-script"])
            .arg(&script);
        let output = quiet(command.env("THALWEG_SPACES", &spaces.path))?;
        if with {
            let counts = spaces.calls()?;
            calls = counts["calls"].as_u64().unwrap_or(0) + counts["lost"].as_u64().unwrap_or(0);
        }
        processor_time_printed(&output)
    })?;
    Ok(format!("{}; {calls} calls", costs_text("s", figures)))
}

/// Parses the line about child processes that the shell's `times` prints, such as `0m1.230s 0m0.120s`.
fn processor_time_printed(output: &str) -> Result<f64> {
    let line = output
        .lines()
        .rfind(|line| line.contains('m') && line.ends_with('s'))
        .context("`times` tells two lines")?;
    let mut seconds = 0.0;
    for word in line.split_whitespace() {
        let (minutes, rest) = word.split_once('m').context("minutes")?;
        seconds += minutes.parse::<f64>()? * 60.0 + rest.trim_end_matches('s').parse::<f64>()?;
    }
    Ok(seconds)
}

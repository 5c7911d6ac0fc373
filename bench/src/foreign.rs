//! Rivals in other languages, as programs that are compiled when they are first needed: oneTBB in C++,
//! channels in Go.

use crate::cores::on_cores;
use crate::measure::Contestant;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// A language's compiler, and the command that prints the rival's version.
struct Language {
    file: &'static str,
    text: &'static str,
    version: fn() -> Result<String, String>,
    compile: fn(&Path, &Path) -> Command,
    install: &'static str,
    compiled: OnceLock<Result<PathBuf, String>>,
}

static CPP: Language = Language {
    file: "rival.cpp",
    text: include_str!("foreign/rival.cpp"),
    version: || output(Command::new("pkg-config").args(["--modversion", "tbb"])),
    compile: |source, program| {
        let mut compiler = Command::new("c++");
        compiler.args(["-O2", "-std=c++17"]).arg(source).arg("-o").arg(program).arg("-ltbb");
        compiler
    },
    install: "apt-get install g++ libtbb-dev pkg-config",
    compiled: OnceLock::new(),
};

static GO: Language = Language {
    file: "rival.go",
    text: include_str!("foreign/rival.go"),
    version: || {
        let told = output(Command::new("go").arg("version"))?;
        Ok(told.split(' ').nth(2).unwrap_or_default().trim_start_matches("go").to_owned())
    },
    compile: |source, program| {
        let mut compiler = Command::new("go");
        compiler.args(["build", "-o"]).arg(program).arg(source);
        compiler
    },
    install: "install Go from https://go.dev/dl",
    compiled: OnceLock::new(),
};

/// The rivals that send `messages` through a chain of `hops` on `workers` cores.
pub(crate) fn chains(workers: usize, hops: usize) -> [Contestant<'static>; 3] {
    [
        contestant("oneTBB pipeline", &CPP, "pipeline", workers, hops),
        contestant("oneTBB flow graph", &CPP, "chain", workers, hops),
        contestant("Go channels", &GO, "chain", workers, hops),
    ]
}

/// The rivals that send one message repeatedly through a ring of `hops` stages.
pub(crate) fn rings(workers: usize, hops: usize) -> [Contestant<'static>; 2] {
    [
        contestant("oneTBB flow graph", &CPP, "round", workers, hops),
        contestant("Go channels", &GO, "round", workers, hops),
    ]
}

fn contestant(
    name: &'static str,
    language: &'static Language,
    what: &'static str,
    workers: usize,
    hops: usize,
) -> Contestant<'static> {
    let version = match (language.version)() {
        Ok(version) => version,
        Err(why) => return Contestant::missing(name, "", format!("{why}: {}", language.install)),
    };
    let mut running: Option<Running> = None;
    Contestant::nanoseconds(name, version.leak(), hops as u64, move |messages| {
        let running = match &mut running {
            Some(running) => running,
            none => none.insert(Running::start(language, workers)?),
        };
        let (took, result) = running.run(&format!("{what} {hops} {messages}"))?;
        let expected = match what {
            "round" => messages * hops as u64,
            _ => messages * (messages - 1) / 2 + messages * (hops as u64 - 1),
        };
        if result == expected { Ok(took) } else { Err(format!("{name} lost messages: {result}")) }
    })
}

/// A rival's process, restricted to the cores that it may use.
struct Running {
    process: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(language: &'static Language, workers: usize) -> Result<Running, String> {
        let program = language.compiled.get_or_init(|| language.compile()).clone()?;
        let spawn = || Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            on_cores(workers, spawn).map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        let asks = process.stdin.take().expect("it is piped");
        let answers = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Ok(Running { process, asks, answers })
    }

    /// Makes one run; returns its time and its result.
    fn run(&mut self, ask: &str) -> Result<(Duration, u64), String> {
        writeln!(self.asks, "{ask}").map_err(|error| error.to_string())?;
        let line =
            self.answers.next().ok_or("the rival's process ended")?.map_err(|error| error.to_string())?;
        let numbers =
            line.split_once(' ').and_then(|(took, result)| Some((took.parse().ok()?, result.parse().ok()?)));
        let (took, result) = numbers.ok_or(line)?;
        Ok((Duration::from_nanos(took), result))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Language {
    /// Compiles the program beside this one.
    fn compile(&self) -> Result<PathBuf, String> {
        let here = std::env::current_exe().map_err(|error| error.to_string())?;
        let source = here.with_file_name(self.file);
        let program =
            source.with_extension(format!("{}.program", self.file.rsplit('.').next().unwrap_or_default()));
        std::fs::write(&source, self.text).map_err(|error| format!("{}: {error}", source.display()))?;
        let told = output(&mut (self.compile)(&source, &program));
        told.map_err(|why| format!("{why}: {}", self.install))?;
        Ok(program)
    }
}

/// The last line that a command prints, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
    let last = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or("").to_owned();
    if output.status.success() {
        return Ok(last(&output.stdout));
    }
    Err(format!("{program} failed: {}", last(&output.stderr)))
}

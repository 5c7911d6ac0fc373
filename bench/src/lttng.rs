//! LTTng-UST as a rival: a tracepoint in C in a process of its own, recorded as a flight recorder does (a
//! session in snapshot mode, whose buffers overwrite the oldest events).

use crate::cores::on_cores;
use crate::foreign::output;
use crate::measure::Contestant;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const SOURCES: [(&str, &str); 2] =
    [("one.c", include_str!("lttng/one.c")), ("one.h", include_str!("lttng/one.h"))];
const SESSION: &str = "thalweg-bench";
const INSTALL: &str = "apt-get install liblttng-ust-dev lttng-tools";

/// The number of events of a sample, which take more than 10 ms.
const EVENTS: u64 = 300_000;
/// The maximal time in which the session daemon must answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn tracepoint() -> Contestant<'static> {
    let name = "LTTng-UST tracepoint, snapshot session";
    let version = match output(Command::new("pkg-config").args(["--modversion", "lttng-ust"])) {
        Ok(version) => version,
        Err(why) => return Contestant::missing(name, "", format!("{why}: {INSTALL}")),
    };
    let mut traced: Option<Traced> = None;
    Contestant::new(name, version.leak(), move || {
        let traced = match &mut traced {
            Some(traced) => traced,
            none => none.insert(Traced::start()?),
        };
        traced.sample()
    })
}

/// The process with the tracepoint and the session that records it; both end when this value is dropped.
struct Traced {
    process: Child,
    counts: ChildStdin,
    took: Lines<BufReader<ChildStdout>>,
    _session: Session,
}

impl Traced {
    fn start() -> Result<Traced, String> {
        let folder = std::env::temp_dir().join(format!("thalweg-bench-lttng-{}", std::process::id()));
        let session = Session::start(folder)?;
        let program = compile(&session.folder)?;
        let spawn = || Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            on_cores(1, spawn).map_err(|error| format!("cannot start the tracepoint: {error}"))?;
        let counts = process.stdin.take().expect("it is piped");
        let took = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Ok(Traced { process, counts, took, _session: session })
    }

    /// The nanoseconds of one event.
    fn sample(&mut self) -> Result<f64, String> {
        writeln!(self.counts, "{EVENTS}").map_err(|error| error.to_string())?;
        let line = self.took.next().ok_or("the process with the tracepoint ended")?;
        let line = line.map_err(|error| error.to_string())?;
        Ok(line.parse::<f64>().map_err(|_| line)? / EVENTS as f64)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A recording session, with a session daemon if there was none.
struct Session {
    folder: PathBuf,
    daemon: Child,
}

impl Session {
    fn start(folder: PathBuf) -> Result<Session, String> {
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut daemon = Command::new("lttng-sessiond");
        daemon.arg("--no-kernel").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The daemon ends at once if another one is running.
        let daemon = daemon.spawn().map_err(|error| format!("no lttng-sessiond ({error}): {INSTALL}"))?;
        let session = Session { folder, daemon };
        session.lttng_when_ready(&["list"])?;
        let traces = format!("--output={}", session.folder.display());
        session.lttng(&["create", SESSION, "--snapshot", &traces])?;
        session.lttng(&["enable-channel", "--userspace", "--overwrite", "--session", SESSION, "flight"])?;
        let event = ["--session", SESSION, "--channel", "flight", "thalweg_bench:one"];
        session.lttng(&[&["enable-event", "--userspace"], &event[..]].concat())?;
        session.lttng(&["start", SESSION])?;
        Ok(session)
    }

    fn lttng(&self, arguments: &[&str]) -> Result<String, String> {
        // The state that `lttng` keeps between two commands is in the session's folder, and is removed with
        // that folder.
        output(Command::new("lttng").args(arguments).env("LTTNG_HOME", &self.folder))
    }

    fn lttng_when_ready(&self, arguments: &[&str]) -> Result<String, String> {
        let begin = Instant::now();
        loop {
            let done = self.lttng(&[&["--no-sessiond"], arguments].concat());
            if done.is_ok() || begin.elapsed() > PATIENCE {
                return done;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.lttng(&["destroy", SESSION]).ok();
        // SAFETY: the child has not been waited for, so its id is still its own. SIGTERM, unlike SIGKILL,
        // lets the daemon end its consumer processes.
        unsafe { libc::kill(self.daemon.id().cast_signed(), libc::SIGTERM) };
        self.daemon.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn compile(folder: &Path) -> Result<PathBuf, String> {
    for (name, text) in SOURCES {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    let (source, program) = (folder.join("one.c"), folder.join("one"));
    let mut cc = Command::new("cc");
    cc.arg("-O2").arg(source).arg("-o").arg(&program).arg("-I").arg(folder).args(["-llttng-ust", "-ldl"]);
    output(&mut cc)?;
    Ok(program)
}

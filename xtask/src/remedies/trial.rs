//! One run of a network: with its time, and with the output of `thalweg diagnose` about it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::network::{Case, How};

/// After this time a run is killed, and has no result.
const PATIENCE: Duration = Duration::from_secs(4);

/// The number of records in a recording, as a multiple of those in a trial.
const LONGER: f64 = 3.0;
/// The number of recordings of a network, of which only the recording of the shortest run is scored; the
/// journal notes whether the others have the same verdict.
pub(super) const RECORDINGS: usize = 3;

/// The programs, and the folder in which they run.
pub(super) struct Bench {
    pub(super) program: PathBuf,
    pub(super) boxes: PathBuf,
    pub(super) folder: PathBuf,
}

/// The number of records of a run, and the network's own rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) records: u64,
    /// The rate in records a second when neither the source nor the sink is slow.
    pub(super) rate: f64,
}

/// The extent of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Only totals.
    Off,
    Metrics,
    Full,
}

impl Recorded {
    pub(super) fn word(self) -> &'static str {
        match self {
            Recorded::Off => "off",
            Recorded::Metrics => "metrics",
            Recorded::Full => "full",
        }
    }
}

impl Bench {
    /// The number of records that take about `seconds`, and their rate without a slow source or sink.
    pub(super) fn size(&self, case: &Case, seconds: f64) -> Result<Size> {
        let free = Case { source: None, sink: None, ..case.clone() };
        let mut records = 200;
        let mut took = self.time(&free, Size { records, rate: 1.0 }, Recorded::Off)?;
        if took < 0.02 {
            records = ((0.04 / took * 200.0) as u64).clamp(200, 20_000);
            took = self.time(&free, Size { records, rate: 1.0 }, Recorded::Off)?;
        }
        let rate = records as f64 / took;
        let slowed = case.source.unwrap_or(1.0).min(case.sink.unwrap_or(1.0)).min(1.0);
        let records = (rate * slowed * seconds) as u64;
        // The pipe to a slow sink holds 64 KiB, so a trial needs far more output than 64 KiB.
        let least = if case.sink.is_some() { 250 } else { 60 };
        Ok(Size { records: records.clamp(least, 40_000), rate })
    }

    /// The seconds that a run takes.
    pub(super) fn time(&self, case: &Case, size: Size, recorded: Recorded) -> Result<f64> {
        self.timed(case, size, recorded, &self.folder.join("space"))
    }

    /// Records the network several times, into folders of `to`. The recording of the shortest run gets the
    /// number 0, because disturbances make a run longer. Returns the duration of the shortest run relative to
    /// a trial.
    pub(super) fn record(&self, case: &Case, size: Size, recorded: Recorded, to: &Path) -> Result<f64> {
        let records = (size.records as f64 * LONGER) as u64;
        let size = Size { records, ..size };
        fs::create_dir_all(to)?;
        let mut shortest: Option<f64> = None;
        let taken = self.folder.join("taken");
        for nth in 0..RECORDINGS {
            let took = self.timed(case, size, recorded, &taken)?;
            let its = to.join(nth.to_string());
            if shortest.is_none_or(|shortest| took < shortest) {
                shortest = Some(took);
                if nth > 0 {
                    fs::rename(to.join("0"), &its)?;
                }
                fs::rename(&taken, to.join("0"))?;
            } else {
                fs::rename(&taken, its)?;
            }
        }
        Ok(shortest.unwrap_or(f64::NAN) / LONGER)
    }

    /// Runs the network with its space in `space`; returns the seconds that the run took.
    fn timed(&self, case: &Case, size: Size, recorded: Recorded, space: &Path) -> Result<f64> {
        if space.exists() {
            fs::remove_dir_all(space)?;
        }
        self.write(case, size)?;
        let mut command = self.command(case, size, "in.jsonl");
        command.args(["--monitor", recorded.word()]);
        if recorded != Recorded::Off {
            command.arg("--space").arg(space);
        }
        if recorded == Recorded::Full {
            command.arg("--keep");
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if case.sink.is_some() { Stdio::piped() } else { Stdio::null() });
        let _others = Others::start(case.others)?;
        let feeding = self.feed(case)?;
        let mut child = command.spawn().context("could not start thalweg")?;
        let draining = case.sink.map(|part| (child.stdout.take(), part * size.rate));
        let drained = draining.map(|(pipe, rate)| std::thread::spawn(move || drain(pipe, rate)));
        let stderr = stderr_of(&mut child, PATIENCE);
        feeding.stop();
        if let Some(drained) = drained {
            let _ = drained.join();
        }
        let stderr = stderr?;
        seconds(&stderr).with_context(|| format!("thalweg said: {}", stderr.trim()))
    }

    /// The output of `thalweg diagnose` on a recording.
    pub(super) fn diagnose(&self, space: &Path, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.program);
        command.arg("diagnose").arg(space).arg("--json").args(arguments);
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            bail!("thalweg diagnose: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The worker of each box in a recording, without boxes that have several replicas or a thread of their
    /// own, and the path of each box.
    pub(super) fn places(&self, space: &Path) -> Result<(Value, Value)> {
        let report = self.diagnose(space, &["--top", "1000"])?;
        let (mut places, mut paths) = (serde_json::Map::new(), serde_json::Map::new());
        for task in report["tasks"].as_array().into_iter().flatten() {
            let Some(name) = task["name"].as_str() else { continue };
            let path = name.split('[').next().unwrap_or_default();
            let last = path.rsplit('/').next().unwrap_or_default();
            if !last.starts_with('w') {
                continue;
            }
            paths.insert(last.to_owned(), path.into());
            if path == name {
                places.insert(last.to_owned(), task["worker"].clone());
            }
        }
        Ok((Value::Object(places), Value::Object(paths)))
    }

    pub(super) fn write(&self, case: &Case, size: Size) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        fs::write(self.folder.join("network.snet"), case.net.text())?;
        fs::write(self.folder.join("boxes.plan"), case.plan())?;
        fs::write(self.folder.join("in.jsonl"), case.input(size.records, size.rate))?;
        if let Some(setting) = &case.setting {
            fs::write(self.folder.join("case.settings"), format!("{setting}\n"))?;
        }
        Ok(())
    }

    /// The command of a run that reads its records from `input`: a file in the folder, or `-` for standard input.
    pub(super) fn command(&self, case: &Case, size: Size, input: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env("THALWEG_SPACES", &self.folder).env_remove("THALWEG_SESSION");
        command.args(["run", "network.snet", "--allow-exec", "--input", input, "--boxes"]).arg(&self.boxes);
        command.args(["--workers", &case.workers.to_string()]);
        for (option, value) in
            [("--capacity", case.capacity), ("--quantum", case.quantum), ("--unfinished", case.unfinished)]
        {
            if let Some(value) = value {
                command.args([option, &value.to_string()]);
            }
        }
        if case.bursts().is_some() {
            command.arg("--replay");
        } else if let Some(part) = case.source {
            command.args(["--rate", &format!("{:.3}", part * size.rate)]);
        }
        if case.round_robin {
            command.args(["--mapper", "round-robin"]);
        }
        if case.steal {
            command.arg("--steal");
        }
        if case.setting.is_some() {
            command.args(["--settings", "case.settings"]);
        }
        command
    }

    /// Writes into the FIFO as long as the run goes on.
    fn feed(&self, case: &Case) -> Result<Feeding> {
        let ended = Arc::new(AtomicBool::new(false));
        if !case.boxes.iter().any(|plan| plan.how == How::Fifo) {
            return Ok(Feeding { ended, path: PathBuf::new(), thread: None });
        }
        let path = self.folder.join("bytes.fifo");
        if !path.exists() && !Command::new("mkfifo").arg(&path).status()?.success() {
            bail!("could not make {}", path.display());
        }
        let (over, every) = (Arc::clone(&ended), Duration::from_nanos((case.fifo_us * 1e3) as u64));
        let to = path.clone();
        let thread = std::thread::spawn(move || {
            // Opening the FIFO waits until the boxes have opened it: if bytes were written before that, the
            // boxes would find them and not wait.
            let Ok(mut fifo) = fs::OpenOptions::new().write(true).open(&to) else { return };
            let begun = Instant::now();
            let mut written = 0;
            while !over.load(Ordering::Relaxed) {
                let due = (begun.elapsed().as_nanos() / every.as_nanos().max(1)) as u64;
                // Writing does not block: a pipe holds 64 KiB, and no box is that far behind.
                let bytes = vec![0; due.saturating_sub(written).min(1000) as usize];
                if written < due && std::io::Write::write_all(&mut fifo, &bytes).is_ok() {
                    written = due;
                }
                std::thread::sleep(every.min(Duration::from_micros(200)));
            }
        });
        Ok(Feeding { ended, path, thread: Some(thread) })
    }
}

/// A thread that feeds a FIFO.
struct Feeding {
    ended: Arc<AtomicBool>,
    path: PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Feeding {
    fn stop(self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread {
            // If no box has opened the FIFO, this opens the FIFO, so that the waiting thread ends.
            let _opened = fs::OpenOptions::new().read(true).write(true).open(&self.path);
            let _ = thread.join();
        }
    }
}

/// Processes that compute until they are dropped.
pub(super) struct Others(Vec<Child>);

impl Others {
    pub(super) fn start(count: usize) -> Result<Others> {
        let mut others = Others(Vec::new());
        for _ in 0..count {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
            others.0.push(child.context("could not start a process that computes")?);
        }
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads the sink's output at the rate of `rate` lines a second.
fn drain(pipe: Option<std::process::ChildStdout>, rate: f64) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = [0; 2048];
    let begun = Instant::now();
    let mut lines = 0_u64;
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        lines += buffer[..count].iter().filter(|&&byte| byte == b'\n').count() as u64;
        let due = Duration::from_secs_f64(lines as f64 / rate.max(1.0));
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
}

/// Waits for the end of a run; a run that takes too long is killed, and has no status.
pub(super) fn waited(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The text that a run prints on standard error until it ends; a run that takes too long is killed.
pub(super) fn stderr_of(child: &mut Child, patience: Duration) -> Result<String> {
    let mut pipe = child.stderr.take().context("standard error is piped")?;
    let reading = std::thread::spawn(move || {
        let mut stderr = String::new();
        let _ = pipe.read_to_string(&mut stderr);
        stderr
    });
    let status = waited(child, patience)?;
    let stderr = reading.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(stderr),
        Some(status) => bail!("thalweg ended with {status}: {}", stderr.trim()),
        None => bail!("it took longer than {} s", patience.as_secs()),
    }
}

/// Parses the line `… records in, … out in 0.123456 s, …`, which a run prints at its end.
pub(super) fn seconds(stderr: &str) -> Option<f64> {
    stderr.lines().filter(|line| line.contains(" in, ")).find_map(|line| {
        let (before, _) = line.split_once(" s, ")?;
        before.rsplit(' ').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_how_long_a_run_took() {
        let stderr = "its space stays\n3 records in, 2 out in 0.250000 s, 12 records/s in\n";
        assert_eq!(super::seconds(stderr), Some(0.25));
        let stderr = "3 records in, 2 out, 1 still waiting in 1.5 s, 2 records/s in\n";
        assert_eq!(super::seconds(stderr), Some(1.5));
        assert_eq!(super::seconds("nothing"), None);
    }
}

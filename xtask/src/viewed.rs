//! `cargo xtask bench view`: measures the cost of pictures of runs, and the time until they are shown.
//!
//! Complete programs are measured, as a user runs them: `thalweg report --html`, `thalweg view`, and
//! Chromium, which is driven as in the tests. Processor time of a process is counted by the kernel; the times
//! until pictures appear are measured by the clock of the page itself.

use crate::browser_run::{Browser, browser};
use crate::paper::Interval;
use crate::pictures::{Live, View, build, thalweg, until};
use crate::process;
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const HELP: &str = "\
What pictures of runs cost, and how soon they are there.

usage: cargo xtask bench view [--only PART]… [--events N] [--seconds S] [--rounds N] [--quick]

  --only PART   layout, file, bytes, first, kept, frames, server, observed; all if none is given
  --events N    of the kept run that is opened and looked at, in millions, about (default 10)
  --seconds S   for so long the server's processor time is counted (default 10)
  --rounds N    by turns, of what is timed (default 5)
  --quick       a million events, three seconds, two rounds: the figures say little
";

const PARTS: [&str; 8] = ["layout", "file", "bytes", "first", "kept", "frames", "server", "observed"];

struct Bench {
    folder: PathBuf,
    events: f64,
    seconds: f64,
    rounds: usize,
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut only: Vec<String> = Vec::new();
    let folder = process::target_dir().join("viewed");
    let mut bench = Bench { folder, events: 10.0, seconds: 10.0, rounds: 5 };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("only") => only.push(arguments.value()?.string()?),
            Long("events") => bench.events = arguments.value()?.parse()?,
            Long("seconds") => bench.seconds = arguments.value()?.parse()?,
            Long("quick") => (bench.events, bench.seconds, bench.rounds) = (1.0, 3.0, 2),
            Long("rounds") => bench.rounds = arguments.value()?.parse::<usize>()?.max(1),
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(unknown) = only.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("there is no part `{unknown}`; there are {}", PARTS.join(", "));
    }
    build()?;
    std::fs::create_dir_all(&bench.folder)?;
    println!("| what | ours | goal | |");
    println!("|---|---|---|---|");
    for part in PARTS.iter().filter(|part| only.is_empty() || only.iter().any(|only| only == *part)) {
        match *part {
            "layout" => bench.layout()?,
            "file" => bench.file()?,
            "bytes" => bench.bytes()?,
            "first" => bench.first()?,
            "kept" => bench.kept()?,
            "frames" => bench.frames()?,
            "server" => bench.server()?,
            _ => bench.observed()?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A row of the table.
fn row(what: &str, ours: &str, goal: &str, is_met: bool) {
    let met = if is_met { "ok" } else { "MISS" };
    println!("| {what} | {ours} | {goal} | {met} |");
    let _ = std::io::stdout().flush();
}

fn skipped(what: &str, why: &str) {
    println!("| {what} | – | | {why} |");
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

fn between(of: &[f64], digits: usize) -> String {
    let (least, most) = of.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &one| (a.min(one), b.max(one)));
    format!("{:.digits$} s ({least:.digits$}–{most:.digits$}, {})", median(of.to_vec()), of.len())
}

/// The seconds of a command.
fn timed(command: &mut Command) -> Result<f64> {
    let begun = Instant::now();
    process::run(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The processor seconds of a process's threads, and its peak memory in bytes.
fn spent(pid: u32) -> Result<(f64, u64)> {
    let spent_ns = process::processor_ns(pid).context("the process has ended")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let kilobytes: u64 = most.trim().trim_end_matches(" kB").trim().parse()?;
    Ok((spent_ns as f64 / 1e9, kilobytes * 1024))
}

impl Bench {
    /// Measures how long the library takes to lay out a network of 10,000 components.
    fn layout(&self) -> Result<()> {
        let mut test = process::cargo();
        test.args([
            "test",
            "--release",
            "--locked",
            "--quiet",
            "-p",
            "thalweg-view",
            "--lib",
            "ten_thousand",
        ]);
        test.args(["--", "--ignored", "--nocapture"]);
        let output = test.output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        for line in stderr.lines().filter(|line| line.contains(" components in ")) {
            let (what, took) = line.split_once(": ").context("what: how long")?;
            let took = took.split(',').next().unwrap_or_default();
            let ms = match took.strip_suffix("ms") {
                Some(ms) => ms.parse()?,
                None => took.trim_end_matches('s').parse::<f64>()? * 1000.0,
            };
            row(&format!("{what}, laid out"), &format!("{ms:.0} ms"), "≤ 500 ms", ms <= 500.0);
        }
        Ok(())
    }

    /// Makes the run of the demonstration and keeps its space.
    fn des(&self) -> Result<PathBuf> {
        let space = process::target_dir().join("demo/space");
        if !space.join("segments").is_file() {
            process::run(process::cargo().args(["xtask", "demo"]).stdout(Stdio::null()))?;
        }
        Ok(space)
    }

    fn file(&self) -> Result<()> {
        let (space, page) = (self.des()?, self.folder.join("des.html"));
        let report = || timed(thalweg().arg("report").arg(&space).arg("--html").arg(&page));
        let (mut anew, mut again) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let _ = std::fs::remove_file(space.join("pictures"));
            anew.push(report()?);
            again.push(report()?);
        }
        row("the demonstration's page as a file", &between(&anew, 2), "≤ 2 s", median(anew.clone()) <= 2.0);
        row(
            "the same from what is kept beside the run",
            &between(&again, 2),
            "≤ 2 s",
            median(again.clone()) <= 2.0,
        );
        let bytes = std::fs::metadata(&page)?.len() as f64 / 1e6;
        row("that file", &format!("{bytes:.2} MB"), "≤ 3 MB", bytes <= 3.0);
        Ok(())
    }

    fn bytes(&self) -> Result<()> {
        let space = self.des()?;
        let view = View::start(&space, &[])?;
        let bytes = got(&view, "/")?.len() as f64 / 1000.0;
        row("the page without data", &format!("{bytes:.0} kB"), "≤ 300 kB", bytes <= 300.0);
        Ok(())
    }

    /// The time from the command to the first picture of a live run.
    fn first(&self) -> Result<()> {
        let what = "first picture of a live run (DES), from the command on";
        let Some(mut browser) = browser("bench view") else {
            skipped(what, "no Chromium");
            return Ok(());
        };
        let run = Live::start(&self.folder.join("live"), "2", &[])?;
        std::thread::sleep(Duration::from_secs(2));
        let mut took = Vec::new();
        for _ in 0..self.rounds {
            let begun = Instant::now();
            let view = View::start(&run.space, &[])?;
            browser.open(&view.address);
            drawn(&mut browser);
            took.push(begun.elapsed().as_secs_f64());
        }
        row(what, &between(&took, 2), "≤ 1 s", median(took.clone()) <= 1.0);
        Ok(())
    }

    /// Makes and keeps a run with about `events` events: a network of six filters whose dispatches read one
    /// message each.
    fn large(&self) -> Result<PathBuf> {
        let space = self.folder.join(format!("large-{}", self.events));
        if space.join("segments").is_file() {
            return Ok(space);
        }
        let net = self.folder.join("large.snet");
        let step = "[{<seq>} -> {<seq = seq + 1>}]";
        std::fs::write(&net, format!("net large connect {};\n", [step; 6].join(" .. ")))?;
        // A message of 64 bytes causes eight dispatches, each with one event or a few more.
        let bytes = self.events * 1e6 / EVENTS_A_MESSAGE * 64.0;
        let input = self.folder.join("zeros");
        std::fs::File::create(&input)?.set_len(bytes as u64)?;
        let mut run = thalweg();
        run.arg("run").arg(&net).arg("--input").arg(&input);
        run.args([
            "--input-bytes",
            "data",
            "--chunk",
            "64",
            "--output",
            "/dev/null",
            "--output-bytes",
            "data",
        ]);
        run.args(["--workers", "2", "--quantum", "1", "--monitor", "full", "--keep", "--space"]).arg(&space);
        timed(&mut run)?;
        std::fs::remove_file(input)?;
        Ok(space)
    }

    fn kept(&self) -> Result<()> {
        let space = self.large()?;
        let opened = || -> Result<(View, f64)> {
            let begun = Instant::now();
            let view = View::start(&space, &[])?;
            until("the page is served", || got(&view, "/page.json").is_ok_and(|page| page.len() > 1000))?;
            Ok((view, begun.elapsed().as_secs_f64()))
        };
        let pictures = space.join("pictures");
        let _ = std::fs::remove_file(&pictures);
        let (view, without) = opened()?;
        let begun = Instant::now();
        until("the page is kept beside the run", || pictures.is_file())?;
        let complete = without + begun.elapsed().as_secs_f64();
        drop(view);
        let with: Vec<f64> = (0..self.rounds).map(|_| Ok(opened()?.1)).collect::<Result<_>>()?;
        let output = thalweg().arg("report").arg(&space).arg("--json").output()?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let events = report["window"]["events"].as_f64().unwrap_or(0.0) / 1e6;
        let (kept, all) =
            (std::fs::metadata(&pictures).map_or(0, |about| about.len()), folder_bytes(&space)?);
        let goal = |seconds: f64| format!("≤ {seconds} s at 100 M");
        row(
            &format!("a kept run of {events:.1} M events, opened first"),
            &format!("{without:.1} s"),
            &goal(60.0),
            without <= 60.0,
        );
        row("the same, until messages have their stories", &format!("{complete:.1} s"), "", true);
        row("the same, opened again", &between(&with, 2), &goal(2.0), median(with.clone()) <= 2.0);
        row(
            "what is kept for that, of the run's bytes",
            &format!("{:.1} of {:.0} MB", kept as f64 / 1e6, all as f64 / 1e6),
            "",
            true,
        );
        let view = View::start(&space, &[])?;
        until("the page is served", || got(&view, "/page.json").is_ok_and(|page| page.len() > 1000))?;
        let page: serde_json::Value = serde_json::from_slice(&got(&view, "/page.json")?)?;
        let whole = page["timeline"]["duration_ns"].as_f64().context("a duration")?;
        for part in [1.0, 0.1, 1e-3, 1e-5] {
            let begun = Instant::now();
            let (from, to) = (whole * 0.5 * (1.0 - part), whole * 0.5 * (1.0 + part));
            let found: serde_json::Value =
                serde_json::from_slice(&got(&view, &format!("/timeline?from={from}&to={to}"))?)?;
            let exact = if found["exact_from_ns"].is_null() { "summed" } else { "exact" };
            let took = begun.elapsed().as_secs_f64() * 1e3;
            row(
                &format!("a window of {:.4} % of it, {exact}", part * 100.0),
                &format!("{took:.0} ms"),
                "",
                true,
            );
        }
        Ok(())
    }

    /// Pictures a second while the window moves over all spans of a large run.
    fn frames(&self) -> Result<()> {
        let what = "pan and zoom over the large run's spans";
        let Some(mut browser) = browser("bench view") else {
            skipped(what, "no Chromium");
            return Ok(());
        };
        let view = View::start(&self.large()?, &[])?;
        until("the page is served", || got(&view, "/page.json").is_ok_and(|page| page.len() > 1000))?;
        browser.open(&view.address);
        drawn(&mut browser);
        let measured = browser.value(
            "(async () => { const app = window.thalweg; const whole = app.data.timeline.duration_ns; const next = () => new Promise((done) => requestAnimationFrame(done)); \
             app.timeline.unfold(); await next(); await next(); let spent = 0; const worked = []; \
             for (const of of [app.graph, app.timeline]) { const draw = of.draw.bind(of); of.draw = () => { const at = performance.now(); draw(); spent += performance.now() - at; }; } \
             const begun = performance.now(); let n = 0; \
             while (performance.now() - begun < 3000) { const part = 0.02 + 0.98 * Math.abs(Math.cos(n / 20)); const from = (whole * (1 - part)) * (0.5 + 0.5 * Math.sin(n / 13)); \
             spent = 0; app.show(from, from + whole * part); n++; await next(); worked.push(spent); } \
             worked.sort((a, b) => a - b); return [n / ((performance.now() - begun) / 1000), worked[worked.length >> 1], app.timeline.items]; })()",
        );
        let figure = |at: usize| measured[at].as_f64().unwrap_or(f64::NAN);
        let text =
            format!("{:.0} a second; {:.1} ms of drawing each; {} items", figure(0), figure(1), figure(2));
        row(what, &text, "≥ 50 a second", figure(0) >= 50.0);
        Ok(())
    }

    /// Measures the cost of serving no viewer, one viewer, and fifty viewers, at ten updates a second.
    fn server(&self) -> Result<()> {
        let rates: [(&str, &[&str]); 3] = [
            ("100 messages a second", &["--rate", "100"]),
            ("1,000 messages a second", &["--rate", "1000"]),
            ("as fast as it can", &[]),
        ];
        for (what, more) in rates {
            let run = Live::start(&self.folder.join("live"), "2", more)?;
            std::thread::sleep(Duration::from_secs(1));
            for (viewers, part, bytes) in [(0, 0.0, 0), (1, 0.01, 50), (50, 0.05, 100)] {
                let view = View::start(&run.space, &["--every", "100ms"])?;
                let all: Vec<Viewer> = (0..viewers).map(|_| Viewer::start(&view)).collect::<Result<_>>()?;
                std::thread::sleep(Duration::from_secs(2));
                let (before, _) = spent(view.child.id())?;
                let (begun, took) = (all.iter().map(Viewer::taken).sum::<u64>(), Instant::now());
                std::thread::sleep(Duration::from_secs_f64(self.seconds));
                let (after, most) = spent(view.child.id())?;
                let seconds = took.elapsed().as_secs_f64();
                let share = (after - before) / seconds;
                let sent = (all.iter().map(Viewer::taken).sum::<u64>() - begun) as f64 / seconds / 1e6;
                let text = format!(
                    "{:.1} % of a processor, {:.0} MB, {sent:.1} MB/s",
                    share * 100.0,
                    most as f64 / 1e6
                );
                let goal = if viewers == 0 {
                    String::new()
                } else {
                    format!("≤ {} %, ≤ {bytes} MB", part * 100.0)
                };
                let is_met = viewers == 0 || (share <= part && most <= bytes * 1_000_000);
                row(&format!("the server with {viewers} viewers, DES at {what}"), &text, &goal, is_met);
            }
        }
        Ok(())
    }

    /// Compares the times with and without a viewer of one run and one server.
    fn observed(&self) -> Result<()> {
        const ROUNDS_MIN: usize = 20;
        let run = Live::start(&self.folder.join("live"), "2", &[])?;
        let view = View::start(&run.space, &["--every", "100ms"])?;
        // The first viewer lets the server read what the run recorded before.
        drop(Viewer::start(&view)?);
        std::thread::sleep(Duration::from_secs(2));
        let spent_by_megabyte = || -> Result<f64> {
            let (bytes, cpu) = (written(run.pid())?, spent(run.pid())?.0);
            std::thread::sleep(Duration::from_secs_f64(self.seconds / 2.0));
            Ok((spent(run.pid())?.0 - cpu) / ((written(run.pid())? - bytes) / 1e6).max(1e-9))
        };
        let settle = || std::thread::sleep(Duration::from_millis(700));
        let mut ratios = Vec::new();
        let mut alone = None;
        for _ in 0..self.rounds.max(ROUNDS_MIN) {
            let looked_at = {
                let _viewer = Viewer::start(&view)?;
                settle();
                spent_by_megabyte()?
            };
            settle();
            let after = spent_by_megabyte()?;
            // A time with a viewer lies between two times without, because the speed of a run changes with time.
            if let Some(before) = alone.replace(after) {
                ratios.push(looked_at / f64::midpoint(before, after));
            }
        }
        let count = ratios.len();
        let ratio = Interval::of(ratios);
        row(
            "processor time of a byte through DES, with one viewer, by that without",
            &format!("{}, {count}", ratio.shown(3, " ×")),
            "≤ 1.01 ×",
            ratio.median <= 1.01,
        );
        Ok(())
    }
}

/// The bytes that a process has written, which are DES's results.
fn written(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let bytes =
        text.lines().find_map(|line| line.strip_prefix("wchar: ")).context("`wchar` in /proc/PID/io")?;
    Ok(bytes.trim().parse()?)
}

/// The number of events that the large run records for a message.
const EVENTS_A_MESSAGE: f64 = 8.8;

fn drawn(browser: &mut Browser) {
    browser.wait(
        "(() => { const c = document.getElementById('timeline'); if (!c.width) return false; \
         const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n > 500; })()",
    );
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// The host and the token of an address.
fn parts(view: &View) -> Result<(&str, &str)> {
    let rest = view.address.strip_prefix("http://").context("an address")?;
    rest.split_once("/?token=").context("an address with a token")
}

/// The body of the server's answer to a request for a path.
fn got(view: &View, path: &str) -> Result<Vec<u8>> {
    let (host, token) = parts(view)?;
    let mut stream = TcpStream::connect(host)?;
    let and = if path.contains('?') { '&' } else { '?' };
    write!(stream, "GET {path}{and}token={token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").context("an answer")?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        bail!("{path}: {}", String::from_utf8_lossy(&answer[..head.min(100)]));
    }
    Ok(answer.split_off(head + 4))
}

/// A viewer that reads every update of the page.
struct Viewer {
    taken: std::sync::Arc<std::sync::atomic::AtomicU64>,
    stream: TcpStream,
}

impl Viewer {
    fn start(view: &View) -> Result<Viewer> {
        let (host, token) = parts(view)?;
        let mut stream = TcpStream::connect(host)?;
        write!(stream, "GET /events?token={token} HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
        let viewer = Viewer { taken: std::sync::Arc::default(), stream: stream.try_clone()? };
        let taken = std::sync::Arc::clone(&viewer.taken);
        std::thread::spawn(move || {
            let mut some = vec![0; 1 << 16];
            while let Ok(bytes @ 1..) = stream.read(&mut some) {
                taken.fetch_add(bytes as u64, std::sync::atomic::Ordering::Relaxed);
            }
        });
        Ok(viewer)
    }

    fn taken(&self) -> u64 {
        self.taken.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

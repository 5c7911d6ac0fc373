//! `cargo xtask pictures`: makes the README's pictures of the page and of `thalweg top`, from a real run of
//! DES.

use crate::browser_run::{Browser, browser};
use crate::{demo, process, terminal};
use anyhow::{Context, Result, bail};
use lexopt::prelude::*;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HELP: &str = "\
Makes docs/view.png and docs/top.svg from a run of DES.

usage: cargo xtask pictures [--into DIR] [--debug]

  --debug   of a build for tests, which is there sooner
";
/// Whether the program is taken that was built for the tests.
static DEBUG: AtomicBool = AtomicBool::new(false);

/// The directory of built programs.
pub(crate) fn built() -> PathBuf {
    process::target_dir().join(if DEBUG.load(Ordering::Relaxed) { "debug" } else { "release" })
}

/// The number of columns of the terminal.
const COLUMNS: usize = 100;
const LINES: usize = 26;
/// The width of the page in pixels.
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 1460;

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let mut into = process::root().join("docs");
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("debug") => DEBUG.store(true, Ordering::Relaxed),
            Long("into") => into = std::path::absolute(arguments.value()?)?,
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(mut browser) = browser("pictures") else { bail!("the page is drawn by Chromium") };
    if !process::is_installed("tmux", "-V") {
        bail!(
            "there is no tmux, in which `thalweg top` is drawn: on Debian `apt-get install tmux` brings it"
        );
    }
    build()?;
    let folder = process::target_dir().join("pictures");
    // With two workers on a machine of two processors the browser would take the run's processors, and the
    // verdict would be about other processes.
    let run = Live::start(&folder, "1", &["--chunk", "128KiB"])?;
    std::thread::sleep(Duration::from_secs(3));
    let page = into.join("view.png");
    pictured(&mut browser, &run.space, &page)?;
    let top = into.join("top.svg");
    std::fs::write(&top, on_terminal(&folder, &run.space)?)?;
    println!("{}\n{}", page.display(), top.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds the program, and the library with the boxes of DES.
pub(crate) fn build() -> Result<()> {
    process::require_c_compiler()?;
    let mut build = process::cargo();
    build.args(["build", "--locked", "-p", "thalweg", "-p", "app-des"]);
    if !DEBUG.load(Ordering::Relaxed) {
        build.arg("--release");
    }
    process::run(&mut build)
}

pub(crate) fn thalweg() -> Command {
    let mut command = Command::new(built().join("thalweg"));
    command.current_dir(process::root());
    command
}

/// A run of DES on endless zeros, with every event recorded.
pub(crate) struct Live {
    child: Child,
    pub(crate) space: PathBuf,
}

impl Live {
    pub(crate) fn start(folder: &Path, workers: &str, more: &[&str]) -> Result<Live> {
        std::fs::create_dir_all(folder)?;
        let space = folder.join("space");
        if space.exists() {
            std::fs::remove_dir_all(&space)?;
        }
        let mut command = thalweg();
        command.args(["run", "apps/des/des.snet", "--boxes"]).arg(built().join("libapp_des.so"));
        command.args([
            "--workers",
            workers,
            "--capacity",
            "8",
            "--with",
            demo::WITH_KEY,
            "--monitor",
            "full",
        ]);
        command.args([
            "--input",
            "/dev/zero",
            "--input-bytes",
            "data",
            "--output",
            "/dev/null",
            "--output-bytes",
            "data",
        ]);
        command.args(more).arg("--space").arg(&space);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let live = Live { child, space };
        until("the run makes its space", || {
            live.space.join("mailbox").is_file() || live.space.join("space").is_file()
        })?;
        Ok(live)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.space);
    }
}

/// A process of `thalweg view` for a space.
pub(crate) struct View {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl View {
    pub(crate) fn start(space: &Path, more: &[&str]) -> Result<View> {
        let mut command = thalweg();
        command.arg("view").arg(space).arg("--no-open").args(more);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        BufReader::new(child.stdout.take().context("piped")?).read_line(&mut address)?;
        if address.is_empty() {
            bail!("`thalweg view` serves nothing");
        }
        Ok(View { child, address: address.trim().to_owned() })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(150);
    while !is_so() {
        if Instant::now() > end {
            bail!("never: {what}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Writes a picture of the page to a file, after the page has shown some seconds of the run.
fn pictured(browser: &mut Browser, space: &Path, file: &Path) -> Result<()> {
    let view = View::start(space, &["--every", "250ms"])?;
    let size = json!({ "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", size);
    browser.open(&view.address);
    browser.wait("window.thalweg.data.live.sequence > 16 && window.thalweg.data.report.window.lost === 0");
    // The window is short enough to show single dispatches when tasks are unfolded, and long enough that
    // every task runs in it.
    browser.value("window.thalweg.paused = true; window.thalweg.timeline.unfold(); window.thalweg.show(window.thalweg.data.timeline.duration_ns - 20e6, window.thalweg.data.timeline.duration_ns)");
    browser.wait("window.thalweg.lanes.spans.exactFrom <= window.thalweg.from");
    browser.value("new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(true)), 1500))");
    let shot = browser.call("Page.captureScreenshot", json!({ "format": "png" }));
    let text = shot["data"].as_str().context("a picture")?;
    std::fs::write(file, decoded(text).context("base64")?)
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Decodes base64.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(u32::from(c - b'A')),
        b'a'..=b'z' => Some(u32::from(c - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(c - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').collect();
    let mut bytes = Vec::new();
    for part in digits.chunks(4) {
        let mut word = 0;
        for &c in part {
            word = word << 6 | value(c)?;
        }
        word <<= 6 * (4 - part.len());
        bytes.extend(&word.to_be_bytes()[1..part.len()]);
    }
    Some(bytes)
}

/// The screen of `thalweg top` after some seconds, as a drawing.
fn on_terminal(folder: &Path, space: &Path) -> Result<String> {
    let socket = folder.join("tmux");
    let tmux = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("tmux").arg("-S").arg(&socket).args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let line = format!("{} top {}", built().join("thalweg").display(), space.display());
    let (columns, lines) = (COLUMNS.to_string(), LINES.to_string());
    tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &lines, &line])?;
    let shown = until("top shows its workers", || {
        tmux(&["capture-pane", "-p"]).is_ok_and(|shown| shown.contains("WORKERS"))
    });
    std::thread::sleep(Duration::from_secs(5));
    let screen = tmux(&["capture-pane", "-e", "-p"]);
    tmux(&["kill-server"])?;
    shown?;
    Ok(terminal::drawn(screen?.trim_end(), COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn base64_is_read() {
        assert_eq!(decoded("").unwrap(), b"");
        assert_eq!(decoded("TQ==").unwrap(), b"M");
        assert_eq!(decoded("TWE=").unwrap(), b"Ma");
        assert_eq!(decoded("TWFu+/8=").unwrap(), b"Man\xfb\xff");
        assert!(decoded("T!==").is_none());
    }
}

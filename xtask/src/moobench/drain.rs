//! The reader of a run's events, which works in a process or thread beside the run.

use super::{Folder, thalweg};
use crate::process;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The kind of reader of a run's events.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Drain {
    None,
    /// `thalweg record` keeps the events on disk.
    Record,
    /// `thalweg record --level 0 --sync 1h` keeps events without coding, which can be compared with copying a
    /// ring by hand.
    RecordPlain,
    /// `thalweg events --follow` with these options prints the events.
    Follow(&'static [&'static str]),
    /// The records of a ring by hand are copied to disk unchanged.
    Ring,
    /// A thread reads from a socket.
    Socket,
    /// A session of LTTng, in memory or on disk.
    Lttng {
        keeps: bool,
    },
}

impl Drain {
    /// Whether `thalweg` keeps the events of Thalweg's probes.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Drain::Record | Drain::RecordPlain)
    }
}

/// The file with what `thalweg record` prints.
const RECORDED: &str = "recorded";

/// A process that is killed when the value is dropped, also after an error.
pub(super) struct Killed(pub(super) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A reader that runs beside the measured process.
pub(super) enum Beside {
    Nobody,
    Later(Drain),
    Record(Killed),
    /// The reader's process, which is killed when the value is dropped.
    Follow {
        _reader: Killed,
    },
    Thread {
        port: u16,
        is_over: Arc<AtomicBool>,
        bytes: Arc<AtomicU64>,
        thread: Option<JoinHandle<Result<()>>>,
    },
    Lttng {
        session: Session,
        keeps: bool,
    },
}

impl Beside {
    /// Processes and files that have to exist before the run begins.
    pub(super) fn before(drain: Drain, spaces: &Path, folder: &Path) -> Result<Beside> {
        Ok(match drain {
            Drain::None => Beside::Nobody,
            Drain::Record | Drain::RecordPlain | Drain::Follow(_) => Beside::Later(drain),
            Drain::Lttng { keeps } => {
                Beside::Lttng { session: Session::start(&folder.join("lttng"), keeps)?, keeps }
            }
            Drain::Ring => {
                let (spaces, disk) = (spaces.to_owned(), folder.join("copies"));
                std::fs::create_dir_all(&disk)?;
                Beside::thread(0, move |is_over, bytes| copy_rings(&spaces, &disk, is_over, bytes))
            }
            Drain::Socket => {
                let listener = TcpListener::bind("127.0.0.1:0").context("no port can be had")?;
                let port = listener.local_addr()?.port();
                listener.set_nonblocking(true)?;
                Beside::thread(port, move |is_over, bytes| take_all(&listener, is_over, bytes))
            }
        })
    }

    fn thread(
        port: u16,
        work: impl FnOnce(&AtomicBool, &AtomicU64) -> Result<()> + Send + 'static,
    ) -> Beside {
        let (is_over, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, counted) = (is_over.clone(), bytes.clone());
        let thread = std::thread::spawn(move || work(&told, &counted));
        Beside::Thread { port, is_over, bytes, thread: Some(thread) }
    }

    /// The port of the listener.
    pub(super) fn port(&self) -> u16 {
        if let Beside::Thread { port, .. } = self { *port } else { 0 }
    }

    /// Starts the reader after the run has begun.
    pub(super) fn begun(self, spaces: &Path, folder: &Path) -> Result<Beside> {
        let Beside::Later(drain) = self else { return Ok(self) };
        let space = space_in(spaces)?;
        let mut command = Command::new(thalweg());
        command.stdout(Stdio::null()).stderr(Stdio::null()).env("THALWEG_SPACES", spaces);
        Ok(match drain {
            Drain::Follow(options) => {
                command.arg("events").arg(space).arg("--follow").args(options);
                Beside::Follow {
                    _reader: Killed(command.spawn().context("could not start `thalweg events`")?),
                }
            }
            _ => {
                command.arg("record").arg(space).arg("--output").arg(folder.join("archive"));
                if drain == Drain::RecordPlain {
                    // The copier of the ring does not sync the disk, so for a fair comparison this reader
                    // does not either.
                    command.args(["--level", "0", "--sync", "1h"]);
                }
                command.stderr(File::create(folder.join(RECORDED))?);
                Beside::Record(Killed(command.spawn().context("could not start `thalweg record`")?))
            }
        })
    }

    /// Ends the reader after the run. Returns lines that are added to the raw data.
    pub(super) fn ended(self, folder: &Path) -> Result<String> {
        match self {
            Beside::Nobody | Beside::Later(_) | Beside::Follow { .. } => Ok(String::new()),
            Beside::Record(mut killed) => {
                killed.0.wait()?;
                let bytes = bytes_of(&folder.join("archive"))?;
                let lost = lost(&std::fs::read_to_string(folder.join(RECORDED))?)?;
                Ok(format!("disk {bytes}\nlost {lost}\n"))
            }
            Beside::Thread { is_over, bytes, mut thread, .. } => {
                is_over.store(true, Ordering::Release);
                if let Some(thread) = thread.take() {
                    thread.join().map_err(|_| anyhow::anyhow!("the reader has panicked"))??;
                }
                Ok(format!("disk {}\n", bytes.load(Ordering::Relaxed)))
            }
            Beside::Lttng { session, keeps } => {
                let lost = session.stop()?;
                let bytes = if keeps { bytes_of(&session.folder)? } else { 0 };
                Ok(if keeps { format!("disk {bytes}\nlost {lost}\n") } else { String::new() })
            }
        }
    }
}

/// Waits for the space of the run, which exists when its first thread records.
fn space_in(spaces: &Path) -> Result<PathBuf> {
    let begun = Instant::now();
    loop {
        let found = std::fs::read_dir(spaces).ok().into_iter().flatten().flatten();
        let mut paths = found.map(|entry| entry.path());
        if let Some(space) =
            paths.find(|path| path.join("space").exists() && path.join("0001.element").exists())
        {
            return Ok(space);
        }
        if begun.elapsed() > Duration::from_secs(30) {
            bail!("no space was made within 30 s");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number of lost events, from the last lines that `thalweg record` prints. Reading the archive for it
/// would take many times as long as the run.
fn lost(printed: &str) -> Result<u64> {
    let line = printed.lines().find(|line| line.contains(" each where they had "));
    let (_, lost) = line
        .and_then(|line| line.rsplit_once(": "))
        .with_context(|| format!("`thalweg record` does not state what is lost: {printed}"))?;
    match lost.split_once(" are lost") {
        Some((number, _)) => Ok(number.replace(',', "").parse()?),
        None if lost == "none is lost" => Ok(0),
        None => bail!("`thalweg record` does not state what is lost: {line:?}"),
    }
}

fn bytes_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.path().is_dir() { bytes_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// The size of a record of a ring by hand, and of the header before the records: see xtask/moobench/probe.h.
const RECORD: u64 = 24;
const HEADER: u64 = 4096;

/// A ring by hand whose records are being copied.
struct Ring {
    file: File,
    copy: File,
    room: u64,
    read: u64,
}

impl Ring {
    fn word(&self, at: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Copies the bytes that are available. Returns their number.
    fn copy(&mut self, chunk: &mut [u8]) -> Result<u64> {
        let written = self.word(0)?;
        let mut bytes = 0;
        while self.read < written {
            let at = self.read % self.room;
            let count = (written - self.read).min(self.room - at).min(chunk.len() as u64 / RECORD);
            let part = &mut chunk[..(count * RECORD) as usize];
            self.file.read_exact_at(part, HEADER + at * RECORD)?;
            self.copy.write_all(part)?;
            self.read += count;
            self.file.write_all_at(&self.read.to_le_bytes(), 64)?;
            bytes += count * RECORD;
        }
        Ok(bytes)
    }
}

/// Copies the records that threads write into their rings, until the run has ended and all are copied.
fn copy_rings(spaces: &Path, disk: &Path, is_over: &AtomicBool, bytes: &AtomicU64) -> Result<()> {
    let (mut rings, mut chunk): (Vec<Ring>, Vec<u8>) = (Vec::new(), vec![0; 1 << 20]);
    let mut looked: Option<Instant> = None;
    loop {
        let over = is_over.load(Ordering::Acquire);
        if looked.is_none_or(|at| at.elapsed() > Duration::from_millis(5)) {
            looked = Some(Instant::now());
            let path = spaces.join(format!("ring.{}", rings.len() + 1));
            if path.exists() {
                let file = File::options().read(true).write(true).open(&path)?;
                let copy = File::create(disk.join(format!("{}", rings.len())))?;
                let mut ring = Ring { file, copy, room: 0, read: 0 };
                ring.room = ring.word(128)?;
                rings.push(ring);
            }
        }
        let mut copied = 0;
        for ring in &mut rings {
            copied += ring.copy(&mut chunk)?;
        }
        bytes.fetch_add(copied, Ordering::Relaxed);
        if over && copied == 0 {
            return Ok(());
        }
        if copied == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Reads the data of one sender, until the run has ended.
fn take_all(listener: &TcpListener, is_over: &AtomicBool, bytes: &AtomicU64) -> Result<()> {
    let mut chunk = vec![0; 1 << 18];
    while !is_over.load(Ordering::Acquire) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(_) if is_over.load(Ordering::Acquire) => break,
                Err(_) => {}
            }
        }
    }
    Ok(())
}

/// A recording session of LTTng, with a session daemon if none was running; both end when the value is
/// dropped.
pub(super) struct Session {
    folder: PathBuf,
    _home: Folder,
    daemon: Option<Child>,
}

const SESSION: &str = "thalweg-moobench";

impl Session {
    fn start(folder: &Path, keeps: bool) -> Result<Session> {
        let home = Folder::new(&folder.with_extension("home"))?;
        std::fs::create_dir_all(folder)?;
        let mut session = Session { folder: folder.to_owned(), _home: home, daemon: None };
        if session.lttng(&["--no-sessiond", "list"]).is_err() {
            let mut daemon = Command::new("lttng-sessiond");
            daemon.arg("--no-kernel").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            session.daemon = Some(daemon.spawn().context("could not start `lttng-sessiond`")?);
            let begun = Instant::now();
            while session.lttng(&["--no-sessiond", "list"]).is_err() {
                if begun.elapsed() > Duration::from_secs(10) {
                    bail!("`lttng-sessiond` does not answer");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let output = format!("--output={}", folder.display());
        let create = if keeps {
            vec!["create", SESSION, &output]
        } else {
            vec!["create", SESSION, "--snapshot", &output]
        };
        session.lttng(&create)?;
        let mut channel = vec![
            "enable-channel",
            "--userspace",
            "--session",
            SESSION,
            "--num-subbuf=16",
            "--subbuf-size=4M",
        ];
        channel.extend(if keeps {
            ["--discard", "--blocking-timeout=inf"]
        } else {
            ["--overwrite", "--buffers-uid"]
        });
        session.lttng(&[&channel[..], &["all"]].concat())?;
        session.lttng(&[
            "enable-event",
            "--userspace",
            "--session",
            SESSION,
            "--channel",
            "all",
            "moobench:*",
        ])?;
        session.lttng(&["start", SESSION])?;
        Ok(session)
    }

    fn lttng(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("lttng");
        let output = command
            .args(arguments)
            .env("LTTNG_HOME", &self._home.path)
            .output()
            .context("could not start `lttng`")?;
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("`{}`: {}", process::shown(&command), said.lines().next().unwrap_or("it fails"));
        }
        Ok(said)
    }

    /// Stops the session, which writes the remaining events. Returns the number of discarded events that
    /// LTTng reports.
    fn stop(&self) -> Result<u64> {
        let said = self.lttng(&["stop", SESSION])?;
        let told = said.lines().find(|line| line.contains("discarded"));
        let number = |line: &str| line.split_whitespace().find_map(|word| word.replace(',', "").parse().ok());
        Ok(told.and_then(number).unwrap_or(0))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.lttng(&["destroy", SESSION]);
        if let Some(daemon) = &mut self.daemon {
            // The session daemon ends its consumers only after a SIGTERM.
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lost;

    #[test]
    fn the_lost_events_of_a_recording_are_read() {
        let line = |lost: &str| {
            format!("12,000 events in 1.2 s, 1.1 bytes each where they had 24.0: {lost}\nthey are in a\n")
        };
        assert_eq!(lost(&line("none is lost")).unwrap(), 0);
        assert_eq!(lost(&line("1,234 are lost, `thalweg events` says where")).unwrap(), 1234);
        assert!(lost("error[E0903]: the archive cannot be written\n").is_err());
    }
}

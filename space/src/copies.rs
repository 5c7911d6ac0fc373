//! Copies of spaces of other machines in the directory of a session: whether they are wanted, and how far they are.
//!
//! Two files of the session's directory hold that. The process that fetches the copies writes `copies`: its
//! process id and start, then a line for each other machine. An observer sets the time of `wanted` as long as
//! it reads the session, so nothing is fetched while nobody looks.

use crate::clock::system_ns;
use crate::error::Error;
use crate::process;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The file with what was fetched.
pub(crate) const STATE: &str = "copies";
/// The file whose time is that of the last look of an observer.
pub(crate) const WANTED: &str = "wanted";
/// The file of a copy with settings that the other machine's process is asked to change.
pub(crate) const ASKED: &str = "asked";
/// How often an observer that goes on looking says so, at most.
const AGAIN: Duration = Duration::from_millis(400);
/// How long an observer waits for copies at first.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two looks for new copies.
const PAUSE: Duration = Duration::from_millis(10);

/// How far the copy of one machine's space is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyState {
    /// The name of the node.
    pub node: String,
    /// The copy has what the process had recorded at this time, in nanoseconds since 1970; 0: nothing.
    pub until_ns: u64,
    /// Why nothing more is fetched; empty while it is.
    pub missing: String,
}

/// The side that fetches copies.
#[derive(Debug)]
pub struct Copies {
    session: PathBuf,
}

impl Copies {
    /// Says that this process fetches copies into the directory of the session, which exists.
    pub fn begin(session: &Path) -> Copies {
        Copies { session: session.to_owned() }
    }

    /// When an observer last looked at the session, in nanoseconds since 1970.
    pub fn wanted_ns(&self) -> Option<u64> {
        let changed = std::fs::metadata(self.session.join(WANTED)).ok()?.modified().ok()?;
        Some(changed.duration_since(UNIX_EPOCH).ok()?.as_nanos() as u64)
    }

    /// Writes how far the copies are. `goes_on`: they will be updated.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, states: &[CopyState], goes_on: bool) -> Result<(), Error> {
        let pid = if goes_on { std::process::id() } else { 0 };
        let mut text = format!("{pid} {}\n", process::start_time(pid).unwrap_or(0));
        for CopyState { node, until_ns, missing } in states {
            text.push_str(&format!("{node}\t{until_ns}\t{}\n", missing.replace(['\n', '\t'], " ")));
        }
        let (new, path) = (self.session.join("copies.new"), self.session.join(STATE));
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|e| Error::io("write", &path, e))
    }

    /// Removes what this side and observers wrote; the copies stay.
    pub fn end(&self) {
        for name in [STATE, WANTED] {
            // An error is ignored: the file may not exist.
            let _ = std::fs::remove_file(self.session.join(name));
        }
    }
}

/// How far the copies in a session's directory are; empty where none are fetched.
pub fn states(session: &Path) -> Vec<CopyState> {
    read(session).map_or_else(Vec::new, |(_, states)| states)
}

/// The states, and whether the process that fetches lives.
fn read(session: &Path) -> Option<(bool, Vec<CopyState>)> {
    let text = std::fs::read_to_string(session.join(STATE)).ok()?;
    let mut lines = text.lines();
    let (pid, start) = lines.next()?.split_once(' ')?;
    let lives = process::is_alive(pid.parse().ok()?, start.parse().ok()?);
    let state = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        let (node, until) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        Some(CopyState { node, until_ns: until, missing: parts.next().unwrap_or_default().to_owned() })
    };
    Some((lives, lines.filter_map(state).collect()))
}

/// Asks the process of which the directory `copy` is a copy to set a setting; it does so when the copy is
/// updated next.
pub(crate) fn ask_to_set(copy: &Path, name: &str, value: u64) -> Result<(), Error> {
    let path = copy.join(ASKED);
    let failed = |e| Error::io("write", &path, e);
    let mut options = OpenOptions::new();
    let mut asked = options.append(true).create(true).mode(0o600).open(&path).map_err(failed)?;
    crate::file::lock(&asked, &path)?;
    asked.write_all(format!("{name}\t{value}\n").as_bytes()).map_err(failed)
}

/// Takes what observers asked the process of a copy to set: names and values, in order.
pub fn taken(copy: &Path) -> Vec<(String, u64)> {
    let read = || {
        let path = copy.join(ASKED);
        let mut asked = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        crate::file::lock(&asked, &path).ok()?;
        let mut text = String::new();
        asked.read_to_string(&mut text).ok()?;
        asked.set_len(0).ok()?;
        Some(text)
    };
    let text = read().unwrap_or_default();
    let one = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// An observer of a session, for which copies of the spaces of other machines are fetched.
#[derive(Debug, Default)]
pub struct Observer {
    said: Option<Instant>,
}

impl Observer {
    /// Says that the space in this directory is looked at, which may be a copy in a session.
    pub fn look_of_space(&mut self, space: &Path) {
        space.parent().into_iter().for_each(|session| self.look(session));
    }

    /// Says that the session in this directory is looked at; does nothing if no copies belong to it. The
    /// first call waits until the copies have what had been recorded before it, but at most 5 s.
    pub fn look(&mut self, session: &Path) {
        if self.said.is_some_and(|said| said.elapsed() < AGAIN) {
            return;
        }
        let is_first = self.said.replace(Instant::now()).is_none();
        let Some((true, _)) = read(session) else { return };
        let now = system_ns(libc::CLOCK_REALTIME);
        if want(session, now).is_err() || !is_first {
            return;
        }
        let until = Instant::now() + PATIENCE;
        while let Some((true, states)) = read(session)
            && states.iter().any(|state| state.missing.is_empty() && state.until_ns < now)
            && Instant::now() < until
        {
            std::thread::sleep(PAUSE);
        }
    }
}

fn want(session: &Path, now_ns: u64) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let file: File =
        options.write(true).create(true).truncate(false).mode(0o600).open(session.join(WANTED))?;
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(now_ns))
}

//! A run as somebody outside of it sees it: found by its path, name or process, measured, set and commanded. It may live, or be
//! over and kept.
//!
//! ```no_run
//! use std::time::Duration;
//! use thalweg_host::{LiveRun, RunCommand};
//!
//! # fn main() -> Result<(), thalweg_host::Error> {
//! let run = LiveRun::find(Some("des"))?;
//! let seen = run.measure(10)?.window(Duration::from_secs(2), || true)?;
//! println!("{}", seen.report.verdict.words.text);
//! run.set("exec.quantum", "128")?;
//! println!("{}", run.command(&RunCommand::Drain, Duration::from_secs(60))?.result);
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_monitor::{Follower, Report};
use thalweg_space::lease::Terms;
use thalweg_space::reader::{SettingView, SpaceReader};
use thalweg_space::{Answer, Command};

use crate::adoption::Adoption;
use crate::command::RunCommand;
use crate::error::Error;
use crate::run::is_paused;
use crate::settings::{known, value_of};
use crate::spaces;

/// How often a run that lives is looked at while it is measured. More often would make its writers pay; its rings hold more
/// than that.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A run that lives, or one that is over and of which the space is left.
pub struct LiveRun {
    reader: SpaceReader,
}

/// What came of a change of a setting.
#[derive(Clone, Debug)]
pub struct Change {
    /// The setting before; its name is that of the change. None for a pattern of probes.
    pub before: Option<SettingView>,
    /// The value that was written.
    pub value: u64,
    /// How long it took the run to say that it adopted the value; none if it did not in a second.
    pub adopted: Option<Duration>,
}

/// A command that was obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obeyed {
    /// What was done, in the run's words.
    pub result: String,
    /// What undoes it, if it can be undone.
    pub undo: Option<Command>,
}

impl LiveRun {
    /// The run of the space that the user named, by a path, name or process id; or the newest.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn find(name: Option<&str>) -> Result<LiveRun, Error> {
        LiveRun::open(&spaces::find(name)?)
    }

    /// The run whose space is this directory.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(path: &Path) -> Result<LiveRun, Error> {
        Ok(LiveRun { reader: SpaceReader::open(path).map_err(Error::usage_of)? })
    }

    /// The same run, to which it is said that this tool changes it. Else that is the program's name.
    #[must_use]
    pub fn called(self, tool: &str) -> LiveRun {
        LiveRun { reader: self.reader.called(tool) }
    }

    /// The directory of its space.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// Its space.
    pub fn reader(&self) -> &SpaceReader {
        &self.reader
    }

    /// Whether its process lives.
    pub fn is_alive(&self) -> bool {
        self.reader.is_alive()
    }

    /// Whether its sources rest, because a command told them to.
    pub fn is_paused(&self) -> bool {
        is_paused(self.path())
    }

    /// Begins to measure it. Reports have so many (`top`) components, tasks, streams and waits at most.
    ///
    /// # Errors
    /// Its space cannot be read.
    pub fn measure(&self, top: usize) -> Result<Measuring, Error> {
        Measuring::open(self.path(), top)
    }

    /// Its settings.
    ///
    /// # Errors
    /// Its space cannot be read.
    pub fn settings(&self) -> Result<Vec<SettingView>, Error> {
        self.reader.settings().map_err(Error::usage_of)
    }

    /// Sets a setting, or with the name `probe/PATTERN.on` the probes that match, to a value as a person writes it, and waits
    /// up to a second until the run says that it has adopted it.
    ///
    /// # Errors
    /// There is no such setting, it does not take the value, or the process has ended.
    pub fn set(&self, name: &str, value: &str) -> Result<Change, Error> {
        self.set_for(name, value, None)
    }

    /// Likewise, for good or under a lease of these terms: then the run puts the former value back.
    ///
    /// # Errors
    /// As [`LiveRun::set`], and when the setting takes no lease.
    pub fn set_for(&self, name: &str, value: &str, terms: Option<Terms>) -> Result<Change, Error> {
        let setting = match probes(name) {
            Some(probes) => probes,
            None => known(&self.settings()?, name)?.clone(),
        };
        let value = value_of(&setting, value)?;
        if !self.is_alive() {
            return Err(Error::usage(format!(
                "the process of {} has ended: its settings have no effect any more. `thalweg ls` shows what runs",
                self.path().display()
            )));
        }
        let adoption = Adoption::begin(&self.reader);
        match terms {
            None => self.reader.set(name, value).map_err(Error::usage_of)?,
            // It ends by its terms.
            Some(terms) => drop(self.reader.lease(name, value, terms).map_err(Error::usage_of)?),
        }
        let adopted = adoption.wait(name, value);
        let before = probes(name).is_none().then_some(setting);
        Ok(Change { before, value, adopted })
    }

    /// Commands it, and waits so long for the answer.
    ///
    /// # Errors
    /// It takes no commands, refuses this one, or does not answer in time.
    pub fn command(&self, command: &RunCommand, patience: Duration) -> Result<Obeyed, Error> {
        self.command_for(command, patience, None)
    }

    /// Likewise, for good or under a lease of these terms: then the run takes it back.
    ///
    /// # Errors
    /// As [`LiveRun::command`], and when nothing takes the command back.
    pub fn command_for(
        &self,
        command: &RunCommand,
        patience: Duration,
        terms: Option<Terms>,
    ) -> Result<Obeyed, Error> {
        let unsent = |error| match command {
            RunCommand::Move { .. } => Error::run_of(error),
            _ => Error::usage(format!(
                "{error:#}. A run takes commands if it was started by `thalweg run --control`"
            )),
        };
        let asked = command.to_command();
        let answer = match terms {
            None => self.reader.send(&asked).map_err(unsent)?.wait(patience),
            Some(terms) => self.reader.send_leased(&asked, terms).map_err(unsent)?.sent().wait(patience),
        };
        match answer.map_err(Error::run_of)? {
            Answer::Done { result, inverse } => Ok(Obeyed { result, undo: inverse }),
            Answer::Failed { why } => Err(Error::run(why)),
        }
    }
}

impl std::fmt::Debug for LiveRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveRun({})", self.path().display())
    }
}

/// What `probe/PATTERN.on` stands for: a switch of all probes that match.
fn probes(name: &str) -> Option<SettingView> {
    name.strip_prefix("probe/")?.strip_suffix(".on")?;
    Some(SettingView::switch(name))
}

/// Follows a run, and reports on it.
pub struct Measuring {
    follower: Follower<'static>,
    /// What was there at first was taken.
    has_begun: bool,
}

/// A window of a run that was measured.
#[derive(Debug)]
pub struct Window {
    /// What was seen in it.
    pub report: Report,
    /// Whether the run ended in it.
    pub ended: bool,
}

impl Measuring {
    /// Begins to measure the run, or all runs of the session, in this directory; `top` as in [`LiveRun::measure`].
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(path: &Path, top: usize) -> Result<Measuring, Error> {
        let follower = Follower::open(path, top).map_err(Error::usage_of)?;
        Ok(Measuring { follower, has_begun: false })
    }

    /// Whether the process lives and has not ended its run, as of the last look.
    pub fn is_running(&self) -> bool {
        self.follower.is_running()
    }

    /// The report of all that is left of the run.
    ///
    /// # Errors
    /// The space cannot be read any more.
    pub fn whole(mut self) -> Result<Report, Error> {
        self.follower.poll();
        self.follower.finish().map_err(Error::usage_of)
    }

    /// The report of the last `window` of a run that is over. To be asked for first.
    ///
    /// # Errors
    /// The space cannot be read, or its events do not tell what the end of the run did.
    pub fn last(mut self, window: Duration) -> Result<Report, Error> {
        self.follower.last(window.as_nanos() as f64).map_err(Error::usage_of)?;
        let report = self.whole()?;
        // Totals speak of the whole.
        if report.window.partial && !report.window.complete { Err(Error::usage(UNTOLD)) } else { Ok(report) }
    }

    /// The report of what happened between two times, counted from the start of the first process. To be asked for first.
    ///
    /// # Errors
    /// The space cannot be read.
    pub fn between(mut self, from: Duration, to: Duration) -> Result<Report, Error> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.follower.between(ns(from), ns(to)).map_err(Error::usage_of)?;
        self.whole()
    }

    /// Measures for so long from now on, or until the run ends, or until `goes_on` says no.
    ///
    /// # Errors
    /// The space cannot be read any more.
    pub fn window(&mut self, time: Duration, goes_on: impl FnMut() -> bool) -> Result<Window, Error> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.follower.poll();
        }
        self.follower.restart();
        let ended = self.follow(time, goes_on);
        let report = self.follower.report().map_err(Error::usage_of)?;
        Ok(Window { report, ended })
    }

    /// Takes the events of so much time. Whether the run ended meanwhile.
    fn follow(&mut self, time: Duration, mut goes_on: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(left.min(LOOK_EVERY));
            let running = self.follower.is_running();
            self.follower.poll();
            if !running {
                return true;
            }
            if left.is_zero() || !goes_on() {
                return false;
            }
        }
    }
}

impl std::fmt::Debug for Measuring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Measuring")
    }
}

const UNTOLD: &str = "the end of this run cannot be measured by itself: for that, every dispatch of it has to be recorded \
    (`--monitor full`) and none of these events overwritten (a shorter --window, or --keep); without --window the whole run is \
    reported";

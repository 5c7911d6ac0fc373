//! A run as seen from outside: found by its path, name or process, measured, set and commanded. It may live, or be over
//! and kept.
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
use thalweg_space::{Answer, Command, discover};

use crate::adoption::Adoption;
use crate::command::RunCommand;
use crate::error::Error;
use crate::run::is_paused;
use crate::settings::{known, value_of};
use crate::spaces;

/// How often a run that lives is looked at while it is measured. Reading more often would cost its writers time, and
/// their elements hold the events of a longer time.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A run that lives, or one that is over, whose space was kept.
pub struct LiveRun {
    reader: SpaceReader,
}

/// The result of a change of a setting.
#[derive(Clone, Debug)]
pub struct Change {
    /// The setting before the change. None for a pattern of probes.
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

    /// The runs of a session whose processes live, each with the name of its space, in the order of these names.
    ///
    /// # Errors
    /// The directory around the session cannot be read.
    pub fn of_session(session: &Path) -> Result<Vec<(String, LiveRun)>, Error> {
        let around = session.parent().map_or_else(spaces::parent, |parent| Ok(parent.to_owned()))?;
        let listed = discover::list(&around).map_err(Error::usage_of)?;
        let members = listed.iter().filter(|space| space.alive && space.session.as_deref() == Some(session));
        let mut live: Vec<(String, LiveRun)> = members
            // A process that ends meanwhile takes its space with it.
            .filter_map(|space| {
                Some((space.info.as_ref().ok()?.name.clone(), LiveRun::open(&space.path).ok()?))
            })
            .collect();
        live.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(live)
    }

    /// The same run, with this name of a tool for its changes; without it the name is the program's.
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

    /// Whether its sources rest, because a command asked for it.
    pub fn is_paused(&self) -> bool {
        is_paused(self.path())
    }

    /// Begins to measure it. Reports have at most `top` components, tasks, streams and waits.
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

    /// As `set`, for good or under a lease of these terms: then the run puts the former value back.
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
            // The lease ends by its terms.
            Some(terms) => drop(self.reader.lease(name, value, terms).map_err(Error::usage_of)?),
        }
        let adopted = adoption.wait(name, value);
        let before = probes(name).is_none().then_some(setting);
        Ok(Change { before, value, adopted })
    }

    /// Sends a command to the run, and waits for the answer, at most for `patience`.
    ///
    /// # Errors
    /// It takes no commands, refuses this one, or does not answer in time.
    pub fn command(&self, command: &RunCommand, patience: Duration) -> Result<Obeyed, Error> {
        self.command_for(command, patience, None)
    }

    /// As `command`, for good or under a lease of these terms: then the run takes it back.
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
    /// Whether the events from before the first window were read.
    has_begun: bool,
}

/// A window of a run that was measured.
#[derive(Debug)]
pub struct Window {
    /// The report on the window.
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

    /// The report of the last `window` of a run that is over. It has to be called before other reports.
    ///
    /// # Errors
    /// The space cannot be read, or its events do not tell what the end of the run did.
    pub fn last(mut self, window: Duration) -> Result<Report, Error> {
        self.follower.last(window.as_nanos() as f64).map_err(Error::usage_of)?;
        let report = self.whole()?;
        // Totals are those of the whole run.
        if report.window.partial && !report.window.complete {
            Err(Error::usage(UNRECORDED))
        } else {
            Ok(report)
        }
    }

    /// The report of what happened between two times, counted from the start of the first process. It has to be
    /// called before other reports.
    ///
    /// # Errors
    /// The space cannot be read.
    pub fn between(mut self, from: Duration, to: Duration) -> Result<Report, Error> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.follower.between(ns(from), ns(to)).map_err(Error::usage_of)?;
        self.whole()
    }

    /// Measures for this time from now on, or until the run ends, or until `goes_on` says no.
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

const UNRECORDED: &str = "the end of this run cannot be measured by itself: for that, every dispatch of it has to be recorded \
    (`--monitor full`) and none of these events overwritten (a shorter --window, or --keep); without --window the whole run is \
    reported";

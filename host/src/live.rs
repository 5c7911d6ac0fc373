//! A run for observers, which find it by its path, name or process, and then measure, change and command it.
//! The run may still be running, or be over if its space was kept.
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

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_monitor::{Follower, Report};
use thalweg_space::copies::Observer;
use thalweg_space::lease::Terms;
use thalweg_space::reader::{SettingView, SpaceReader};
use thalweg_space::{Answer, Command, discover};

use crate::adoption::Adoption;
use crate::command::RunCommand;
use crate::error::Error;
use crate::run::is_paused;
use crate::settings::{known, value_of};
use crate::spaces;

/// The interval at which a running run is read while it is measured. A shorter interval would cost the run's
/// writers time. A shorter interval is not needed either, because an element holds the events of more than
/// one interval.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running run, or a run that is over and whose space was kept.
pub struct LiveRun {
    reader: SpaceReader,
}

/// The result of a change of a setting.
#[derive(Clone, Debug)]
pub struct Change {
    /// The setting before the change; `None` for a pattern of probes.
    pub before: Option<SettingView>,
    /// The value that was written.
    pub value: u64,
    /// The time until the run reported that it adopted the value; `None` if the run did not report that
    /// within a second.
    pub adopted: Option<Duration>,
}

/// The result of a command that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obeyed {
    /// The run's description of what the command did.
    pub result: String,
    /// The command that undoes the executed command, if it can be undone.
    pub undo: Option<Command>,
}

impl LiveRun {
    /// The run whose space the user named by a path, name or process id, or the newest run.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub fn find(name: Option<&str>) -> Result<LiveRun, Error> {
        LiveRun::open(&spaces::find(name)?)
    }

    /// The run whose space is the directory `path`.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub fn open(path: &Path) -> Result<LiveRun, Error> {
        Ok(LiveRun { reader: SpaceReader::open(path).map_err(Error::usage_of)? })
    }

    /// The running runs of a session, each with the name of its space, in the order of these names.
    ///
    /// # Errors
    /// If the directory that contains the session cannot be read.
    pub fn of_session(session: &Path) -> Result<Vec<(String, LiveRun)>, Error> {
        // Copies of the spaces of other machines are there while somebody looks.
        Observer::default().look(session);
        let around = session.parent().map_or_else(spaces::parent, |parent| Ok(parent.to_owned()))?;
        let listed = discover::list(&around).map_err(Error::usage_of)?;
        let members = listed.iter().filter(|space| space.alive && space.session.as_deref() == Some(session));
        let mut live: Vec<(String, LiveRun)> = members
            // A process that ends in the meantime removes its space, so a space that cannot be opened is left
            // out.
            .filter_map(|space| {
                Some((space.info.as_ref().ok()?.name.clone(), LiveRun::open(&space.path).ok()?))
            })
            .collect();
        live.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(live)
    }

    /// Sets the name of the tool under which changes of the run are recorded; the default is the program's
    /// name.
    #[must_use]
    pub fn called(self, tool: &str) -> LiveRun {
        LiveRun { reader: self.reader.called(tool) }
    }

    /// The directory of the run's space.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// The reader of the run's space.
    pub fn reader(&self) -> &SpaceReader {
        &self.reader
    }

    /// Whether the run's process is running.
    pub fn is_alive(&self) -> bool {
        self.reader.is_alive()
    }

    /// Whether the run's sources are paused by a command.
    pub fn is_paused(&self) -> bool {
        is_paused(self.path())
    }

    /// The session of the run over nodes of which this process is a part on a node; `None` if it is no such
    /// part, or if its space lies in no session.
    pub fn whole(&self) -> Option<PathBuf> {
        let session = self.path().parent().filter(|parent| spaces::is_session(parent))?;
        self.reader.info().ok().filter(|info| spaces::is_part(&info.name)).map(|_| session.to_owned())
    }

    /// Starts to measure the run. Reports have at most `top` components, tasks, streams and waits.
    ///
    /// # Errors
    /// If the run's space cannot be read.
    pub fn measure(&self, top: usize) -> Result<Measuring, Error> {
        Measuring::open(self.path(), top)
    }

    /// The settings of the run.
    ///
    /// # Errors
    /// If the run's space cannot be read.
    pub fn settings(&self) -> Result<Vec<SettingView>, Error> {
        self.reader.settings().map_err(Error::usage_of)
    }

    /// Changes a setting, or, with the name `probe/PATTERN.on`, the switches of all matching probes. `value`
    /// is written as people write it. Waits up to a second until the run reports that it has adopted the
    /// value.
    ///
    /// # Errors
    /// If there is no such setting, the value is not valid for the setting, or the process has ended.
    pub fn set(&self, name: &str, value: &str) -> Result<Change, Error> {
        self.set_for(name, value, None)
    }

    /// Changes a setting as `set` does, permanently or under a lease with the given terms. When a lease ends,
    /// the run restores the former value.
    ///
    /// # Errors
    /// The errors of [`LiveRun::set`], and an error if the setting cannot be leased.
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
            // Dropping the value does not end the lease, which ends by its terms.
            Some(terms) => drop(self.reader.lease(name, value, terms).map_err(Error::usage_of)?),
        }
        let adopted = adoption.wait(name, value);
        let before = probes(name).is_none().then_some(setting);
        Ok(Change { before, value, adopted })
    }

    /// Sends a command to the run, and waits for the answer, at most for `patience`.
    ///
    /// # Errors
    /// If the run accepts no commands, refuses this command, or does not answer in time.
    pub fn command(&self, command: &RunCommand, patience: Duration) -> Result<Obeyed, Error> {
        self.command_for(command, patience, None)
    }

    /// Sends a command as `command` does, permanently or under a lease with the given terms. When a lease
    /// ends, the run undoes the command.
    ///
    /// # Errors
    /// The errors of [`LiveRun::command`], and an error if no other command undoes `command`.
    pub fn command_for(
        &self,
        command: &RunCommand,
        patience: Duration,
        terms: Option<Terms>,
    ) -> Result<Obeyed, Error> {
        let unsent = |error| match (command, self.whole()) {
            (RunCommand::Move { .. }, _) => Error::run_of(error),
            (_, Some(whole)) => Error::usage(format!(
                "{} is a part of a run over nodes: the process that began the run takes commands for all parts. Give `thalweg {}` the session {}",
                self.path().display(),
                command.to_command().name,
                whole.display()
            )),
            (_, None) => Error::usage(format!(
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

/// The description of `probe/PATTERN.on`, which is a switch of all matching probes, as a setting.
fn probes(name: &str) -> Option<SettingView> {
    name.strip_prefix("probe/")?.strip_suffix(".on")?;
    Some(SettingView::switch(name))
}

/// Follows a run, and makes reports on it.
pub struct Measuring {
    follower: Follower<'static>,
    /// Whether the events from before the first window were read.
    has_begun: bool,
}

/// The measurement of a window of a run.
#[derive(Debug)]
pub struct Window {
    /// The report on the window.
    pub report: Report,
    /// Whether the run ended in the window.
    pub ended: bool,
}

impl Measuring {
    /// Starts to measure the run whose space is the directory `path`, or all runs of the session there; `top`
    /// limits reports as in [`LiveRun::measure`].
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub fn open(path: &Path, top: usize) -> Result<Measuring, Error> {
        let follower = Follower::open(path, top).map_err(Error::usage_of)?;
        Ok(Measuring { follower, has_begun: false })
    }

    /// Whether the process was running and had not ended its run when it was last read.
    pub fn is_running(&self) -> bool {
        self.follower.is_running()
    }

    /// The report on the run from the last report, or from its start, to its end.
    ///
    /// # Errors
    /// If the run's space cannot be read any more.
    pub fn whole(mut self) -> Result<Report, Error> {
        self.follower.poll();
        self.follower.finish().map_err(Error::usage_of)
    }

    /// The report on the last `window` of a run that is over. This method must be called before any other
    /// method that makes a report.
    ///
    /// # Errors
    /// If the run's space cannot be read, or its events do not show the end of the run.
    pub fn last(mut self, window: Duration) -> Result<Report, Error> {
        self.follower.last(window.as_nanos() as f64).map_err(Error::usage_of)?;
        let report = self.whole()?;
        // If events are missing, only totals are known, and these cover the whole run and not the window.
        if report.window.partial && !report.window.complete {
            Err(Error::usage(UNRECORDED))
        } else {
            Ok(report)
        }
    }

    /// The report on the events between two times, counted from the start of the first process. This method
    /// must be called before any other method that makes a report.
    ///
    /// # Errors
    /// If the run's space cannot be read.
    pub fn between(mut self, from: Duration, to: Duration) -> Result<Report, Error> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.follower.between(ns(from), ns(to)).map_err(Error::usage_of)?;
        self.whole()
    }

    /// Measures for `time` from now on, or until the run ends, or until `goes_on` returns false.
    ///
    /// # Errors
    /// If the run's space cannot be read any more.
    pub fn window(&mut self, time: Duration, goes_on: impl FnMut() -> bool) -> Result<Window, Error> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.follower.poll();
        }
        self.follower.restart();
        let ended = self.follow(time, goes_on);
        let report = self.follower.report().map_err(Error::usage_of)?;
        Ok(Window { report, ended })
    }

    /// Reads events for `time`, and returns whether the run ended in this time.
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

//! The tuning loop: it attaches to processes, measures windows, and tries actions in all processes at once,
//! and keeps or takes back what it tried.

mod gates;
mod lately;
mod learning;
mod members;
mod orders;
mod running;

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use thalweg_pack::{Change, Fits, Pack};
use thalweg_space::mailbox::Mailbox;

use super::far::FarHalf;
use super::known::{FIELDS, forbidden};
use super::member::Member;
use super::search::Search;
use super::trial::{Trial, Verdict};
use crate::action::Action;
use crate::control::{Decision, Gain, What, percent};
use gates::Gate;
pub(super) use gates::Way;
use lately::{Lately, SHIFT, STABLE};
use running::{Candidate, Running};

/// The length of the shortest windows while actions are looked for; the next constant is their length after that.
const WINDOW: Duration = Duration::from_millis(40);
const IDLE: Duration = Duration::from_millis(160);
/// Windows of several lengths are measured at the same time, each length twice the one before: a program that works
/// in steps is alike only in windows that are longer than its steps, and how long these are is not known before.
pub(super) const LENGTHS: usize = 6;
/// The largest length of a window.
const WINDOW_MAX: Duration = Duration::from_millis(1280);
/// The number of calls that count as progress which a window should contain.
const PROGRESS: f64 = 20.0;
/// After this many consecutive windows without progress a trial ends.
const BLIND: usize = 4;
/// The number of consecutive windows with other calls than before a trial after which the trial ends; the
/// first window is not counted.
const SHIFTED: usize = 2;
/// If processes end that together did at most this fraction of the work, a trial goes on without them.
const LITTLE: f64 = 0.01;
/// The factor by which a process's share of the work is smoothed from window to window.
const FADE: f64 = 0.7;
/// The interval at which orders and gatekeepers are looked for. Each look may take a processor from the
/// program.
const OBEY_EVERY: Duration = Duration::from_millis(40);
/// The interval at which leases are renewed.
const RENEW_EVERY: Duration = Duration::from_millis(500);
/// The interval at which processes are searched.
const LOOK_EVERY: Duration = Duration::from_millis(1000);
/// The least and the greatest interval of readings that calls of the library make, which stop each process and
/// may ask a daemon. The interval doubles while all readings stay the same.
const READ_EVERY: Duration = Duration::from_millis(1000);
const READ_MAX: Duration = Duration::from_secs(16);
/// For how long an action that failed is not tried again; the time doubles with each failure.
const REST: Duration = Duration::from_secs(10);
/// The number of windows in which an action has to want another value before the value follows.
const FOLLOW: usize = 2;
/// The gain that is expected of an action that names no model.
const GAIN: f64 = 0.05;
/// The library that is tuned, and the options of tuning.
pub struct Library<'l> {
    /// The pack.
    pub pack: &'l Pack,
    /// The processes of this machine that are tuned, with their children; if empty, all processes that use the
    /// library, or none if there are nodes.
    pub processes: Vec<i32>,
    /// The halves of the tuner on nodes.
    pub halves: Vec<FarHalf>,
    /// Whether values that were set by calls of the library stay when tuning ends.
    pub keep: bool,
    /// Whether the tuner only reports what it would do.
    pub advise: bool,
    /// How long to tune; with `None`, until the processes have ended.
    pub lasts: Option<Duration>,
    /// The points that the tuner must not change.
    pub pinned: Vec<String>,
    /// Makes the command of the guard of all processes, which is a process that has to call
    /// [`thalweg_attach::guard`], with a lease of at least five seconds or without one, and
    /// [`put_back`](super::put_back) for each process.
    pub guard: &'l dyn Fn() -> Option<Command>,
    /// Makes the command of a gatekeeper, which is a process that has to call
    /// [`hoster`](super::hoster()) with its input and its output.
    pub helper: &'l dyn Fn() -> Option<Command>,
    /// Where [`Order`](super::Order)s of users arrive; if `None`, the session takes no orders.
    pub orders: Option<RefCell<Mailbox>>,
}

/// A report while tuning goes on. A process is named by its number, after the name of its node if it is on one:
/// `2041`, `a:2041`.
#[derive(Debug)]
pub enum LibraryProgress<'s> {
    /// The tuner made a decision.
    Decision(&'s Decision),
    /// The tuner has attached to this process.
    Attached(&'s str),
    /// The process cannot be tuned, for this reason.
    Refused(&'s str, &'s str),
    /// A gatekeeper reports this.
    Noted(&'s str),
    /// A window of a process was measured: the process, the seconds since the tuner began, and each field
    /// with its value.
    Window(&'s str, f64, &'s [(&'s str, f64)]),
}

struct Session<'l, 't> {
    library: &'l Library<'l>,
    report: &'t mut dyn FnMut(&LibraryProgress<'_>),
    begun: Instant,
    targets: Vec<Member<'l>>,
    /// The processes of this machine.
    search: Search,
    gates: Vec<Gate<'l>>,
    /// The last windows of each length.
    lengths: [Lately; LENGTHS],
    /// The length of the windows by which the trial under way is judged, or the last one was.
    length: usize,
    /// The least length by which a trial may be judged.
    least: usize,
    /// The number of the shortest windows since all lengths began.
    ticks: usize,
    /// The length of the shortest windows.
    unit: Duration,
    /// The number of consecutive windows in which there was nothing to try.
    quiet: usize,
    trial: Option<Running>,
    /// The indices of the actions that were kept.
    kept: Vec<usize>,
    /// The action that each decision kept, by the decision's number.
    kept_by: HashMap<u64, usize>,
    /// Settings that the user pinned, besides those of [`Library::pinned`].
    pinned: Vec<String>,
    rests: HashMap<usize, (Instant, Duration)>,
    /// The coefficients of the pack's models, fitted to the windows of all processes.
    fits: Fits,
    /// The weight of each model: the fraction of the gains that it predicted which came true.
    trust: HashMap<String, f64>,
    /// The warnings that were already reported, so that each is reported only once.
    warned: Vec<String>,
    /// For each kept action that follows a measurement, and each process, the number of windows in which the
    /// action wanted another value.
    wanted: HashMap<(usize, String), usize>,
    number: u64,
    renewed: Instant,
}

/// Tunes a library in the processes that use it, until they have ended, `stop` returns true, or the time is
/// over.
///
/// # Errors
/// Fails when no process uses the library, or none can be attached to; the text says why.
pub fn tune_library(
    library: &Library<'_>,
    stop: &dyn Fn() -> bool,
    report: &mut dyn FnMut(&LibraryProgress<'_>),
) -> Result<u64, String> {
    let mut session = Session {
        library,
        report,
        begun: Instant::now(),
        targets: Vec::new(),
        search: Search::new(None, library.processes.clone()),
        gates: Vec::new(),
        lengths: Default::default(),
        length: 0,
        least: 0,
        ticks: 0,
        unit: WINDOW,
        quiet: 0,
        trial: None,
        kept: Vec::new(),
        kept_by: HashMap::new(),
        pinned: Vec::new(),
        rests: HashMap::new(),
        fits: Fits::default(),
        trust: HashMap::new(),
        warned: Vec::new(),
        wanted: HashMap::new(),
        number: 0,
        renewed: Instant::now(),
    };
    session.find()?;
    session.decide(What::Began, None, None, format!("pack {}: {}", library.pack.name, library.pack.about));
    session.run(stop)
}

impl Session<'_, '_> {
    fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<u64, String> {
        let mut slow = Instant::now();
        let (mut read, mut read_every) = (Instant::now(), READ_EVERY);
        self.restart();
        let why = loop {
            let begin = Instant::now();
            let window = if self.trial.is_some() { self.unit * (1 << self.length) } else { self.unit };
            while begin.elapsed() < window && !stop() {
                self.renew();
                self.obey()?;
                self.see_gates();
                std::thread::sleep(OBEY_EVERY.min(window.saturating_sub(begin.elapsed())));
            }
            if stop() {
                break "it was asked to";
            }
            if self.library.lasts.is_some_and(|lasts| self.begun.elapsed() > lasts) {
                break "its time was over";
            }
            if slow.elapsed() > LOOK_EVERY {
                slow = Instant::now();
                let before = self.targets.len();
                self.find()?;
                self.put_back_rest();
                if self.targets.len() > before {
                    read_every = READ_EVERY;
                }
                if read.elapsed() > read_every {
                    let changes = self.make_readings();
                    read = Instant::now();
                    read_every = if changes { READ_EVERY } else { (2 * read_every).min(READ_MAX) };
                }
                self.look_at_processes();
            }
            self.drop_ended();
            if self.targets.is_empty() {
                break "all processes have ended";
            }
            self.tick();
        };
        self.end(why)
    }

    /// Ends the windows that end now: during a trial the one by which it is judged, and else those of each length
    /// that is a divisor of the time.
    fn tick(&mut self) {
        let decisions = self.number;
        self.ticks += 1;
        self.read_all();
        if let Some(running) = &self.trial {
            let members = running.members.clone();
            let (rate, _) = self.look(self.length, Some(&members));
            self.see_choices();
            self.see_forbidden();
            if let Some(running) = self.trial.take() {
                self.step(running, rate);
            }
        } else {
            self.see_choices();
            let mut is_shortest = true;
            let longest = self.longest();
            // A window ends together with each shorter one.
            for length in 0..=longest.min(self.ticks.trailing_zeros() as usize) {
                let (rate, progress) = self.look(length, None);
                if length < self.least || progress < PROGRESS && length < longest {
                    continue;
                }
                self.window(length, rate, is_shortest);
                is_shortest = false;
                if self.trial.is_some() || self.number > decisions {
                    break;
                }
            }
        }
        let is_idle = self.begun.elapsed() >= Duration::from_secs(3) || self.quiet >= STABLE;
        let is_other_unit = self.trial.is_none() && is_idle && self.unit < IDLE;
        // Calls that the tuner made for its changes must not count, so what was recorded before them is discarded.
        if self.number > decisions || self.trial.is_some() || is_other_unit {
            if is_other_unit {
                self.use_unit(IDLE);
            }
            self.restart();
        }
    }

    /// The number of the largest length of a window.
    fn longest(&self) -> usize {
        (WINDOW_MAX.as_millis() / self.unit.as_millis()).ilog2() as usize
    }

    /// Makes the shortest windows so long; windows that were as long before go on to count.
    fn use_unit(&mut self, unit: Duration) {
        let steps = (unit.as_millis() / self.unit.as_millis()).max(1).ilog2() as usize;
        self.lengths.rotate_left(steps);
        self.lengths[LENGTHS - steps..].iter_mut().for_each(Lately::clear);
        (self.length, self.least) = (self.length.saturating_sub(steps), self.least.saturating_sub(steps));
        self.unit = unit;
    }

    /// Ends the windows of a length in all processes. Returns the calls per second that count as progress, and how
    /// many such calls there were: those of `members`, or of all processes.
    fn look(&mut self, length: usize, members: Option<&[String]>) -> (f64, f64) {
        let pack = self.library.pack;
        let (mut progress, mut all) = (0.0, 0.0);
        let at = self.begun.elapsed().as_secs_f64();
        let begun = std::mem::replace(&mut self.lengths[length].begun, Instant::now());
        let seconds = begun.elapsed().as_secs_f64();
        let is_reported = length == 0 || members.is_some();
        for target in &mut self.targets {
            target.end_window(pack, length, seconds);
            let coefficients = self.fits.coefficients(pack, &target.row);
            target.row.set(coefficients);
            let measured = pack.measured(&target.row);
            if is_reported {
                self.fits.add(pack, &measured);
            }
            let rate = pack.progress.as_ref().map_or(f64::NAN, |progress| progress.number(&measured));
            // A pack computes rates per nanosecond.
            target.progress = if rate.is_nan() { 0.0 } else { rate * 1e9 * seconds };
            all += target.progress;
            if members.is_none_or(|members| members.contains(&target.name)) {
                progress += target.progress;
            }
            if is_reported {
                let row: Vec<(&str, f64)> =
                    pack.names.iter().map(String::as_str).zip(target.row.0.iter().copied()).collect();
                (self.report)(&LibraryProgress::Window(&target.name, at, &row));
            }
        }
        if is_reported {
            for target in &mut self.targets {
                target.share = (target.progress / all.max(f64::MIN_POSITIVE)).max(FADE * target.share);
            }
        }
        (progress / seconds, progress)
    }

    /// Handles a window of a length in which there was enough progress. `is_shortest` says that it is the shortest
    /// such window now.
    fn window(&mut self, length: usize, rate: f64, is_shortest: bool) {
        if is_shortest {
            self.see_forbidden();
            self.follow();
        }
        let signature = self.signature();
        let lately = &mut self.lengths[length];
        if rate <= 0.0 {
            lately.clear();
            return;
        }
        lately.add(rate, signature);
        let Some(before) = lately.last().map(<[f64]>::to_vec) else { return };
        let Some(candidate) = self.best() else {
            self.quiet += usize::from(is_shortest);
            return;
        };
        self.quiet = 0;
        if self.lengths[length].is_alike() {
            self.length = length;
            self.begin(candidate, before);
        }
    }

    /// Forgets the rates of former windows, but not what calls were like.
    fn clear_rates(&mut self) {
        self.lengths.iter_mut().for_each(|length| length.rates.clear());
    }

    fn clear(&mut self) {
        self.lengths.iter_mut().for_each(Lately::clear);
    }

    /// Excludes points that applications have set themselves.
    fn see_choices(&mut self) {
        for number in 0..self.library.pack.points.len() {
            let chosen = self.targets.iter().find_map(|target| target.points[number].chosen.clone());
            let Some(why) = chosen else { continue };
            let setting = self.library.pack.points[number].setting.clone();
            if !self.warn(format!("{setting} {why}")) {
                continue;
            }
            if let Some(running) = self.trial.take_if(|running| running.candidate.point == number) {
                self.decide(What::TakenBack, Some(&running.candidate), None, why.clone());
                self.undo_everywhere(number);
            }
            self.decide(What::Pinned, None, None, format!("{setting}: {why}"));
        }
    }

    /// Reports a warning unless it was reported before; returns whether it is new.
    fn warn(&mut self, text: String) -> bool {
        let is_new = !self.warned.contains(&text);
        if is_new {
            self.warned.push(text);
        }
        is_new
    }

    /// Takes back the kept actions that a condition forbids now.
    fn see_forbidden(&mut self) {
        let pack = self.library.pack;
        for action in self.kept.clone() {
            let Change::Setting { point, .. } = &pack.actions[action].change else { continue };
            let forbids = self.targets.iter().find_map(|target| {
                forbidden(pack, &pack.actions[action], &pack.measured(&target.row))
                    .filter(|_| target.points[*point].former.is_some())
            });
            if let Some(why) = forbids {
                let candidate = self.candidate(action, *point, Vec::new());
                self.decide(What::Undone, Some(&candidate), None, why);
                self.undo_everywhere(*point);
                self.kept.retain(|kept| *kept != action);
            }
        }
    }

    /// Restores a point in all processes; returns in how many processes that failed.
    fn undo_everywhere(&mut self, point: usize) -> usize {
        let pack = self.library.pack;
        let mut failed = Vec::new();
        for number in 0..self.targets.len() {
            self.renew();
            let target = &mut self.targets[number];
            // In a process that has ended meanwhile nothing has to be restored.
            if let Err(why) = target.undo(pack, point)
                && target.is_alive()
            {
                failed.push((target.name.clone(), why));
            }
        }
        let count = failed.len();
        for (name, why) in failed {
            (self.report)(&LibraryProgress::Refused(
                &name,
                &format!("{} is not put back yet: {why}", pack.points[point].setting),
            ));
        }
        count
    }

    /// Restores values that could not be restored when they had to be, because no thread came by.
    fn put_back_rest(&mut self) {
        let pack = self.library.pack;
        for number in 0..pack.points.len() {
            let sets = |action: &usize| {
                let change = &pack.actions[*action].change;
                matches!(change, Change::Setting { point, .. } if *point == number)
            };
            let is_tried = self.trial.as_ref().is_some_and(|running| running.candidate.point == number);
            if is_tried || self.kept.iter().any(sets) {
                continue;
            }
            for at in 0..self.targets.len() {
                self.renew();
                let target = &mut self.targets[at];
                // In a process without calls, the next attempt would be in vain, too.
                if target.is_changed(number) && target.has_calls {
                    let _ = target.undo(pack, number);
                }
            }
        }
    }

    /// The values that an action would set: the index of each process in which the action is due and would
    /// change the value, with that value.
    fn due(&mut self, action: usize) -> Vec<(usize, f64)> {
        let pack = self.library.pack;
        let of = &pack.actions[action];
        let Change::Setting { point, .. } = &of.change else { return Vec::new() };
        let mut values = Vec::new();
        let mut warnings = Vec::new();
        for (number, target) in self.targets.iter().enumerate() {
            let measured = pack.measured(&target.row);
            let due = pack.due(&measured).into_iter().find(|(known, _)| std::ptr::eq(*known, of));
            let Some(value) = due.and_then(|(_, value)| value) else { continue };
            let value = value.round();
            let is_left_alone = target.points[*point].chosen.is_some();
            if is_left_alone
                || target.has(*point, value)
                || target.points[*point].value.is_none() && needs_value(pack, *point)
            {
                continue;
            }
            match (forbidden(pack, of, &measured), self.is_kept(of, number)) {
                (Some(why), _) | (None, Err(why)) => warnings.push(why),
                (None, Ok(true)) => values.push((number, value)),
                (None, Ok(false)) => {}
            }
        }
        for why in warnings {
            let setting = &pack.points[*point].setting;
            if self.warn(format!("{setting} {why}")) {
                let candidate = self.candidate(action, *point, Vec::new());
                self.decide(What::Advised, Some(&candidate), None, format!("it is forbidden: {why}"));
            }
        }
        values
    }

    fn candidate(&self, action: usize, point: usize, values: Vec<(usize, f64)>) -> Candidate {
        let pack = self.library.pack;
        let of = &pack.actions[action];
        let condition = &pack.conditions[of.on];
        let model = of.gain.map(|model| &pack.models[model]);
        let gains = values.iter().map(|(number, _)| {
            model.map_or(GAIN, |model| model.is.number(&pack.measured(&self.targets[*number].row)))
        });
        let gain = gains.filter(|gain| !gain.is_nan()).fold(f64::NAN, f64::max);
        let name = model.map_or(condition.name.as_str(), |model| model.name.as_str());
        let default = pack.points[point].lever.as_ref().and_then(|lever| lever.default);
        let first = values.first().and_then(|(number, _)| self.targets.get(*number));
        let from = first.and_then(|target| target.points[point].value.or(default));
        Candidate {
            action,
            point,
            values,
            from,
            gain,
            model: format!("{}/{name}", pack.name),
            why: self.with_fitted(&condition.says, first),
        }
    }

    /// The candidate with the greatest expected gain.
    fn best(&mut self) -> Option<Candidate> {
        let pack = self.library.pack;
        let mut best: Option<Candidate> = None;
        for action in 0..pack.actions.len() {
            let Change::Setting { point, .. } = &pack.actions[action].change else { continue };
            let rests = self.rests.get(&action).is_some_and(|(until, _)| Instant::now() < *until);
            if rests || self.kept.contains(&action) || self.is_pinned(*point) {
                continue;
            }
            let values = self.due(action);
            if values.is_empty() {
                continue;
            }
            let candidate = self.candidate(action, *point, values);
            if best.as_ref().is_none_or(|best| self.hoped(&candidate) > self.hoped(best)) {
                best = Some(candidate);
            }
        }
        best
    }

    fn begin(&mut self, candidate: Candidate, before: Vec<f64>) {
        let pack = self.library.pack;
        if self.library.advise {
            self.rest(candidate.action);
            self.decide(What::Advised, Some(&candidate), None, candidate.why.clone());
            return;
        }
        self.decide(What::Tried, Some(&candidate), None, candidate.why.clone());
        let signature = self.lengths[self.length].ranges();
        if let Err(why) = self.put(&candidate) {
            self.rest(candidate.action);
            self.undo_everywhere(candidate.point);
            self.decide(What::TakenBack, Some(&candidate), None, format!("it could not be done: {why}"));
            return;
        }
        let is_lasting = pack.points[candidate.point].lever.as_ref().is_some_and(|lever| lever.is_lasting);
        let trial = Trial::new(before, is_lasting, pack.actions[candidate.action].is_trusted);
        self.clear_rates();
        let members = self.targets.iter().map(|target| target.name.clone()).collect();
        self.trial = Some(Running { candidate, trial, members, signature, blind: 0, shifted: 0 });
    }

    fn put(&mut self, candidate: &Candidate) -> Result<(), String> {
        for (number, value) in &candidate.values {
            self.renew();
            let Some(target) = self.targets.get_mut(*number) else { continue };
            target
                .set(self.library.pack, candidate.point, *value)
                .map_err(|why| format!("process {}: {why}", target.name))?;
        }
        Ok(())
    }

    /// The means of the values kept of calls, by which windows are compared, without those that change with points.
    fn signature(&self) -> Vec<f64> {
        let probes = || self.library.pack.probes.iter().filter(|probe| !probe.is_effect);
        let keeps = || probes().flat_map(|probe| &probe.keeps);
        let keeps = || keeps().filter(|keep| matches!(keep.what, thalweg_pack::Kept::Argument(_)));
        self.targets.iter().flat_map(|target| keeps().map(|keep| target.row.0[keep.field])).collect()
    }

    fn step(&mut self, mut running: Running, rate: f64) {
        let point = running.candidate.point;
        let shifted = |((least, most), now): (&(f64, f64), &f64)| {
            // A mean that had no value before the trial cannot be compared.
            least <= most && (*now > most * (1.0 + SHIFT) || *now < least * (1.0 - SHIFT))
        };
        if running.signature.iter().zip(&self.signature()).any(shifted) {
            running.shifted += 1;
            if running.shifted < SHIFTED {
                self.trial = Some(running);
                return;
            }
            // These windows were alike by chance, or the program has changed: longer windows decide.
            self.least = (self.length + 1).min(self.longest());
            self.clear();
            self.undo_everywhere(point);
            self.decide(
                What::TakenBack,
                Some(&running.candidate),
                None,
                "the program does something else now".to_owned(),
            );
            return;
        }
        running.shifted = 0;
        if rate <= 0.0 {
            running.blind += 1;
            if running.blind < BLIND {
                self.trial = Some(running);
                return;
            }
            self.rest(running.candidate.action);
            self.undo_everywhere(point);
            self.decide(
                What::TakenBack,
                Some(&running.candidate),
                None,
                "what it brings could not be measured".to_owned(),
            );
            return;
        }
        let verdict = running.trial.take(rate);
        match verdict {
            Verdict::On => self.trial = Some(running),
            Verdict::Turn(false) => {
                self.undo_everywhere(point);
                self.trial = Some(running);
            }
            Verdict::Turn(true) => match self.put(&running.candidate) {
                Ok(()) => self.trial = Some(running),
                Err(why) => self.give_up(&running.candidate, None, &format!("it could not be done: {why}")),
            },
            Verdict::Keep(gain) => {
                let why = self.learned(&running.candidate, gain.mean);
                let why = format!("it gains {gain}; expected were {}{why}", percent(running.candidate.gain));
                self.decide(What::Kept, Some(&running.candidate), Some(gain), why);
                self.kept.push(running.candidate.action);
                self.lengths[self.length].rates = running.trial.after().to_vec();
            }
            Verdict::Back(gain, why) => {
                let why = gain.map_or(why.to_owned(), |gain| {
                    format!("{why}: {gain}{}", self.learned(&running.candidate, gain.mean.min(0.0)))
                });
                self.give_up(&running.candidate, gain, &why);
            }
        }
    }

    fn give_up(&mut self, candidate: &Candidate, gain: Option<Gain>, why: &str) {
        self.rest(candidate.action);
        self.undo_everywhere(candidate.point);
        self.decide(What::TakenBack, Some(candidate), gain, why.to_owned());
    }

    fn rest(&mut self, action: usize) {
        let rest = self.rests.get(&action).map_or(REST, |(_, rest)| 2 * *rest);
        self.rests.insert(action, (Instant::now() + rest, rest));
    }

    /// Applies kept actions also in processes that have started since, and sets values anew that follow a
    /// measurement.
    fn follow(&mut self) {
        for action in self.kept.clone() {
            let Change::Setting { point, .. } = &self.library.pack.actions[action].change else { continue };
            if self.is_pinned(*point) {
                continue;
            }
            let follows = self.library.pack.actions[action].follows;
            let due = self.due(action);
            let names: Vec<&String> = due.iter().map(|(number, _)| &self.targets[*number].name).collect();
            self.wanted.retain(|(known, name), _| *known != action || names.contains(&name));
            for (number, value) in due {
                let is_new = self.targets[number].points[*point].former.is_none();
                let wanted = self.wanted.entry((action, self.targets[number].name.clone())).or_insert(0);
                *wanted += 1;
                if !is_new && !follows || *wanted < FOLLOW {
                    continue;
                }
                *wanted = 0;
                let candidate = self.candidate(action, *point, vec![(number, value)]);
                let (change, reason) = (self.words(&candidate), candidate.why.clone());
                match self.put(&candidate) {
                    Ok(()) => self.record_decision(
                        What::Kept,
                        (change, Some(&candidate)),
                        None,
                        format!("it follows: {reason}"),
                    ),
                    Err(why) => (self.report)(&LibraryProgress::Refused(&self.targets[number].name, &why)),
                }
                self.clear_rates();
            }
        }
    }

    /// The text that describes a candidate.
    fn words(&self, candidate: &Candidate) -> String {
        let pack = self.library.pack;
        let setting = &pack.points[candidate.point].setting;
        let Some((first, to)) = candidate.values.first() else { return setting.clone() };
        let from = candidate.from.map_or("?".to_owned(), |from| from.to_string());
        let mut values: Vec<f64> = candidate.values.iter().map(|(_, value)| *value).collect();
        values.dedup();
        let to = if values.len() > 1 { format!("{to} (and others)") } else { to.to_string() };
        let at = match &candidate.values[..] {
            [_] => format!("in process {}", self.targets.get(*first).map_or("0", |target| &target.name)),
            several => format!("in {} processes", several.len()),
        };
        format!("{setting} {from} → {to} {at}")
    }

    fn decide(&mut self, what: What, about: Option<&Candidate>, gain: Option<Gain>, why: String) {
        let change = about.map_or(String::new(), |candidate| self.words(candidate));
        self.record_decision(what, (change, about), gain, why);
    }

    fn record_decision(
        &mut self,
        what: What,
        (change, about): (String, Option<&Candidate>),
        gain: Option<Gain>,
        why: String,
    ) {
        self.number += 1;
        if let (What::Kept, Some(candidate)) = (what, about) {
            self.kept_by.insert(self.number, candidate.action);
        }
        let action = about.and_then(|candidate| {
            let (_, to) = candidate.values.first()?;
            let from = candidate.from.unwrap_or(0.0);
            Some(Action::set(
                self.library.pack.points[candidate.point].setting.clone(),
                from as u64,
                *to as u64,
            ))
        });
        let decision = Decision {
            number: self.number,
            at: self.begun.elapsed().as_secs_f64(),
            what,
            action,
            change,
            model: about.map_or(String::new(), |candidate| candidate.model.clone()),
            predicted: about.map(|candidate| candidate.gain).filter(|gain| gain.is_finite()),
            gain,
            why,
        };
        (self.report)(&LibraryProgress::Decision(&decision));
    }

    fn is_pinned(&self, point: usize) -> bool {
        let setting = &self.library.pack.points[point].setting;
        self.library.pinned.contains(setting) || self.pinned.contains(setting)
    }

    fn end(&mut self, why: &str) -> Result<u64, String> {
        let mut failed = Vec::new();
        while let Some(target) = self.targets.pop() {
            let half = target.half();
            let left = target.end(self.library.pack, self.library.keep, &mut || self.renew());
            // What a lost node has left is restored by its guard.
            failed.extend(left.err().filter(|_| half.is_none_or(|half| half.lost().is_none())));
        }
        self.note_lost();
        self.decide(What::Ended, None, None, why.to_owned());
        if failed.is_empty() {
            Ok(self.number)
        } else {
            Err(format!("not everything is as before: {}", failed.join("; ")))
        }
    }
}

/// Whether a point can only be changed after its former value was read.
fn needs_value(pack: &Pack, point: usize) -> bool {
    pack.points[point].lever.as_ref().is_some_and(|lever| matches!(lever.by, thalweg_pack::By::Calls { .. }))
}

const _: () = assert!(FIELDS.len() == 7);

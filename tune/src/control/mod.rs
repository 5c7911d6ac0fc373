//! The controller decides when to try which action, and whether to keep it. The controller is a state machine
//! without a clock and without access to a run: it gets the measurements window by window, and returns what
//! to do next.
//!
//! ```text
//!              stable, something promises a gain
//!   observing ─────────────────────────────────► trial: A B  B A  A B  …
//!       ▲  ▲                                       │ surely better: keep
//!       │  ├───────────────────────────────────────┤ something else promises more: put off
//!       │  └───────────────────────────────────────┤ surely not, undecided, harm, a guard broken: take back,
//!       └─ regime changed: failures forgotten      ▼ and not again for 10 s, 20 s, 40 s, …
//! ```
//!
//! **Bounds.** The cost of trials is counted as the part of the flow that was missing while the new values
//! were in force; a trial begins only while that cost is below 0.3 s and 1 % of the time so far
//! ([`Policy`]). If the goal is not throughput, the part by which its measure was worse counts as well, such as a
//! latency that is twice as long for a second as a second. One trial costs at most its own time, so the flow over a whole run is at least `1 − 1 % −
//! (0.3 s + one trial) / time` of what it would have been without the tuner, provided that the former value
//! brings back the former rate (a run with hysteresis may stay slower than it was). The inverse of a kept
//! action counts as failed, so two values never alternate. Mappings have many values, so only the mapping
//! before counts as failed, and the next one may be better still. If the goal is not throughput, another score while
//! messages come at the same rate and each takes the same processor time is scatter of the measure and no other regime,
//! so failures are not forgotten.

mod comparison;
mod decision;
mod goal;
mod level;
mod machine;
#[cfg(test)]
mod mappings;
mod moved;
#[cfg(test)]
mod plants;
mod policy;
mod promises;
mod regime;
mod seen;
mod speed;
mod trial;

use std::collections::{HashMap, HashSet};

use crate::action::{Action, Candidate};
use level::Level;
use machine::Machine;
use moved::Moved;
use promises::{Begun, Promises};
use regime::{Other, Regime, STABLE};
use speed::Speed;
use trial::{Failure, Load, Trial, Watch};

pub(crate) use comparison::Comparison;
pub use comparison::Gain;
pub use decision::{Decision, What, percent};
pub use goal::{Goal, Guard, Judged};
pub use policy::Policy;
pub use seen::Seen;

/// An order to the tuning loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// No order: the run goes on as it is.
    Wait,
    /// Apply the action's new values for now.
    Try(Action),
    /// Apply the former values for now.
    Former(Action),
    /// Let the action's values stay.
    Keep(Action),
    /// Take the action back for good.
    Undo(Action),
}

/// A trial for latency or memory ends at once if the measure is so many times that of before in the first window after a change.
const LONGER_MAX: f64 = 2.0;
/// The largest part by which the measure of one pair counts as worse.
const EXCESS_MAX: f64 = 20.0;

/// How often the work may move to other components during a trial.
const SHIFTS_MAX: usize = 8;
/// How often a trial begins anew because the run itself moved tasks.
const ANEW_MAX: usize = 2;

/// The longest time, in windows, for which new values may have an effect after the former ones came back: work
/// that the new values let in is still done.
const LINGERS_MAX: usize = 4;

/// The number of windows for which a kept change is watched; the next constant says by how much these windows
/// may be worse than those before the change.
const WATCHED: usize = 3;
const WATCHED_LOSS: f64 = 0.05;

/// The fraction of [`Policy::rest`] after which an action is tried again if a change of the run interrupted its trial.
const SOON: f64 = 0.1;

/// If a change that is kept gains at least this part, actions that failed before it may gain something beside it.
const RETRIED_GAIN: f64 = 0.05;

/// An action that loses this part will hardly gain anything because of another one.
const HARMFUL: f64 = 0.1;

/// After this many consecutive windows without a measurement, the log says so.
const BLIND_RECORDED: usize = 8;

/// Decides which actions to try, and whether they stay.
#[derive(Clone, Debug)]
pub struct Controller {
    goal: Goal,
    guards: Vec<Guard>,
    policy: Policy,
    is_advising: bool,
    machine: Machine,
    speed: Speed,
    moved: Moved,
    regime: Regime,
    level: Level,
    /// Counts the regimes.
    era: u64,
    /// What the run has to do in the present regime.
    load: Option<Load>,
    trial: Option<Trial>,
    watch: Option<Watch>,
    /// The number of windows until the last change has its effect.
    settling: usize,
    /// The number of consecutive windows from which nothing could be measured.
    blind: usize,
    failures: HashMap<String, Failure>,
    /// The actions of which a trial was interrupted.
    interrupted: HashSet<String>,
    promises: Promises,
    /// The candidate to which the last trial gave way.
    next: Option<Candidate>,
    pinned: HashSet<String>,
    kept: Vec<Action>,
    /// The cost of trials so far, in seconds of flow.
    cost: f64,
    begun: Option<f64>,
    last: f64,
    broken: usize,
    /// The number of windows that counted, and how far the controller came with them.
    windows: usize,
    came: Came,
    number: u64,
    decisions: Vec<Decision>,
}

/// How far a controller came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    #[default]
    Measured,
    /// The measurements were the same for long enough, so that changes could be tried.
    Looked,
    /// A change was tried, or advised.
    Proposed,
}

impl Controller {
    /// Makes a controller without measurements. The controller's decisions are numbered from `first` on.
    pub fn new(goal: Goal, guards: Vec<Guard>, policy: Policy, first: u64) -> Controller {
        Controller {
            goal,
            guards,
            policy,
            is_advising: false,
            machine: Machine::default(),
            speed: Speed::default(),
            moved: Moved::default(),
            regime: Regime::default(),
            level: Level::default(),
            era: 0,
            load: None,
            trial: None,
            watch: None,
            settling: 0,
            blind: 0,
            failures: HashMap::new(),
            interrupted: HashSet::new(),
            promises: Promises::default(),
            next: None,
            pinned: HashSet::new(),
            kept: Vec::new(),
            cost: 0.0,
            begun: None,
            last: f64::NEG_INFINITY,
            broken: 0,
            windows: 0,
            came: Came::default(),
            number: first,
            decisions: Vec::new(),
        }
    }

    /// A controller that only reports what it would try and changes nothing.
    #[must_use]
    pub fn advising(self) -> Controller {
        Controller { is_advising: true, ..self }
    }

    /// The decisions since the last call.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// The candidate that is on trial now.
    pub fn trial(&self) -> Option<&Candidate> {
        self.trial.as_ref().map(|trial| &trial.candidate)
    }

    /// The number of the regime: another one if the run is not what it was before.
    pub(crate) fn regime(&self) -> u64 {
        self.era
    }

    /// The actions that were kept, in order.
    pub fn kept(&self) -> &[Action] {
        &self.kept
    }

    /// The cost of trials so far, in seconds of flow.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Whether the tuner leaves the knob `knob` alone.
    pub fn is_pinned(&self, name: &str) -> bool {
        self.pinned.contains(name)
    }

    /// Makes the tuner leave a knob alone from now on. If a trial changes it, the trial ends, and the other
    /// changes of the trial are taken back.
    pub fn pin(&mut self, name: &str, why: &str) -> Order {
        if !self.pinned.insert(name.to_owned()) {
            return Order::Wait;
        }
        self.record(What::Pinned, None, None, format!("{name}: {why}"));
        self.settings_changed();
        let touches = |action: &Action| action.changes.iter().any(|change| change.knob.name() == name);
        match self.trial.take_if(|trial| touches(&trial.candidate.action)) {
            None => Order::Wait,
            Some(trial) => {
                self.account(&trial, false);
                let mut rest = trial.candidate.action;
                rest.changes.retain(|change| change.knob.name() != name);
                self.regime.restart();
                if rest.changes.is_empty() { Order::Wait } else { Order::Undo(rest) }
            }
        }
    }

    /// Reports that an order could not be carried out: the trial ends, and is taken back as far as possible.
    pub fn failed(&mut self, why: &str) -> Order {
        match self.trial.take() {
            None => Order::Wait,
            Some(trial) => self.take_back(trial, format!("it could not be done: {why}")),
        }
    }

    /// Ends a trial under way, and the controller's work. New values that are surely better stay. If the run is
    /// over, its flow can no longer suffer, so new values that most likely (85 %) gain something worth while are kept
    /// for the next run.
    pub fn end(&mut self, why: &str, is_run_over: bool) -> Order {
        let order = match self.trial.take() {
            None => Order::Wait,
            Some(trial) => match self.gain_at_end(&trial, is_run_over) {
                Some(gain) => self.keep(trial, gain),
                None => self.take_back(trial, "the tuner ended before it was clear".to_owned()),
            },
        };
        let mut why = why.to_owned();
        match self.came {
            Came::Proposed => {}
            Came::Looked => {
                let least = percent(self.policy.gain_min);
                why += &format!("; nothing was tried, because no change promises a gain of {least}");
            }
            Came::Measured => {
                let windows = self.windows;
                why += &format!(
                    "; nothing was tried, because {STABLE} windows in a row must measure the same before (windows measured: {windows})"
                );
            }
        }
        if let (left_out @ 1.., all) = self.machine.left_out() {
            why += &format!(
                "; {left_out} of {all} windows did not count, because the machine was slower than usual"
            );
        }
        self.record(What::Ended, None, None, why);
        order
    }

    /// The gain of a trial after which nothing more is measured, if the new values shall stay.
    fn gain_at_end(&self, trial: &Trial, is_run_over: bool) -> Option<Gain> {
        let gain = self.gain_of(trial)?;
        let is_sure = gain.pairs >= self.policy.pairs_min && gain.least > 0.0;
        ((is_sure || is_run_over && gain.pairs > 1 && self.is_likely()) && !self.slows(trial)).then_some(gain)
    }

    /// Records that tuning began.
    pub fn begin(&mut self, why: &str) {
        self.record(What::Began, None, None, why.to_owned());
    }

    /// Decides by the measurements of a window what to do next. `propose` is called if an action may be
    /// tried.
    pub fn step(&mut self, seen: &Seen, propose: impl FnOnce() -> Vec<Candidate>) -> Order {
        if !self.believes(seen) {
            return self.blind();
        }
        let is_left_out = self.machine.disturbs(seen, self.goal.keeps_the_rate());
        let has_moved = self.moved.changes(seen.moved);
        // A guard that is broken counts, whatever the cause is.
        let is_in_bounds = self.guards_that(seen, Judged::Broken).is_empty();
        if is_in_bounds && has_moved && self.trial.as_ref().is_none_or(|trial| trial.shifts < ANEW_MAX) {
            return self.measure_anew();
        }
        if is_in_bounds && is_left_out {
            return Order::Wait;
        }
        let Some(score) = self.goal.score(seen) else { return self.blind() };
        let score = self.speed.level(score, seen.speed, self.settling == 0);
        self.blind = 0;
        self.windows += 1;
        let was_on = self.trial.as_ref().map(|trial| trial.is_on);
        let order = match self.trial.take() {
            Some(trial) => self.step_trial(trial, seen, score, propose),
            None => self.step_observing(seen, score, propose),
        };
        let is_other = match &order {
            Order::Wait => false,
            Order::Try(_) | Order::Former(_) => true,
            Order::Keep(_) => was_on == Some(false),
            Order::Undo(_) => was_on != Some(false),
        };
        if is_other {
            self.settling = self.policy.settle;
            self.speed.restart();
        }
        order
    }

    /// Leaves out a window in which the run itself moved tasks. What a trial measured before does not count, because each
    /// of its pairs must have the same tasks beside those that the trial moves.
    fn measure_anew(&mut self) -> Order {
        self.watch = None;
        self.settings_changed();
        let Some(mut trial) = self.trial.take() else { return Order::Wait };
        self.regime.restart();
        self.level.begin(None);
        (trial.half, trial.pairs, trial.before) = (None, 0, 0);
        trial.rates = Comparison::default();
        trial.shifts += 1;
        Order::Wait.with(|| self.trial = Some(trial))
    }

    /// Whether the window is valid: if the clock jumped or the run made no progress, there is no measurement.
    fn believes(&mut self, seen: &Seen) -> bool {
        let is_sound = seen.at.is_finite() && seen.lasted.is_finite() && seen.lasted > 0.0;
        if !is_sound {
            return false;
        }
        let gone_on = seen.at - self.last;
        let first = self.last == f64::NEG_INFINITY;
        self.last = seen.at;
        self.begun.get_or_insert(seen.at);
        first || gone_on >= seen.lasted / 2.0
    }

    /// Handles a window without a measurement. A trial ends after several windows without a measurement,
    /// because it cannot be judged.
    fn blind(&mut self) -> Order {
        self.blind += 1;
        if self.blind == BLIND_RECORDED && self.trial.is_none() {
            let why = format!("the {} cannot be measured: nothing is tried until it can", self.goal);
            self.record(What::Changed, None, None, why);
        }
        match self.trial.take_if(|_| self.blind >= self.policy.blind_max) {
            Some(trial) => self.take_back(trial, "what it brings could not be measured".to_owned()),
            None => Order::Wait,
        }
    }

    fn step_observing(&mut self, seen: &Seen, score: f64, propose: impl FnOnce() -> Vec<Candidate>) -> Order {
        if self.has_other_work(seen) {
            // What the run did before a change that was kept shows nothing any more.
            self.watch = None;
        }
        if self.settling > 0 {
            self.settling -= 1;
            return Order::Wait;
        }
        if let Some(other) = self.regime.take(score, seen.shift)
            && !self.is_scatter(other, seen)
        {
            self.change_era(other);
        }
        self.level.add(score, false, seen.at, seen.lasted);
        if self.settling == 0 && self.regime.is_stable() {
            self.load = Some(Load::of(seen));
        }
        if let Some(order) = self.watch_kept(score) {
            return order;
        }
        let broken = self.guards_that(seen, Judged::Broken);
        self.broken = if broken.is_empty() { 0 } else { self.broken + 1 };
        if self.broken >= 2
            && let Some(action) = self.kept.pop()
        {
            self.broken = 0;
            let why = format!("{} was broken in two windows", self.guards[broken[0]]);
            // Another mapping might break the guard, too.
            let key = action.key();
            return self.undo_kept(action, &key, why, true);
        }
        // What was proposed for this window may not fit a later one.
        let next = self.next.take();
        if !self.regime.is_stable() || !self.may_cost() {
            return Order::Wait;
        }
        self.came = self.came.max(Came::Looked);
        let next = next.filter(|next| self.may_try(next));
        let Some(candidate) = next.or_else(|| self.best(propose())) else { return Order::Wait };
        self.came = Came::Proposed;
        if self.is_advising {
            self.fail(&candidate.action.key(), true);
            self.record(What::Advised, Some(&candidate), None, candidate.why.clone());
            return Order::Wait;
        }
        self.record(What::Tried, Some(&candidate), None, candidate.why.clone());
        let action = candidate.action.clone();
        let begun = self.promises.go_on(&action);
        self.level.begin(begun.as_ref().map(|begun| begun.gain));
        let (pairs, rates) = begun.map_or((0, Comparison::default()), |begun| (begun.pairs, begun.rates));
        // The window that was just measured, before the change, is the first half of the first pair.
        let half = Some((score, seen.rate));
        let (broken_before, is_on) = (broken, true);
        self.trial = Some(Trial {
            candidate,
            pairs,
            before: pairs,
            rates,
            half,
            is_on,
            broken_before,
            unknown: 0,
            lingers: 0,
            shifts: 0,
            has_strayed: false,
            lost: 0.0,
            excess: 0.0,
        });
        Order::Try(action)
    }

    /// Whether the run itself has changed, because the work moved to other components. While messages come at the same
    /// rate, settings do not do that.
    fn has_other_work(&self, seen: &Seen) -> bool {
        self.goal.keeps_the_rate() && regime::is_other_work(seen.shift)
    }

    /// Whether another score is no sign of another regime: the goal is not to be fast, messages come at the rate of
    /// before, and each takes as much processor time.
    fn is_scatter(&self, other: Other, seen: &Seen) -> bool {
        let is_same = || self.load.is_some_and(|before| before.is_about(Load::of(seen)));
        self.goal.keeps_the_rate() && matches!(other, Other::Score(_)) && is_same()
    }

    fn change_era(&mut self, other: Other) {
        self.era += 1;
        self.load = None;
        self.watch = None;
        self.level.forget_mean();
        self.promises.forget();
        self.next = None;
        let why = match other {
            Other::Score(times) => self.goal.changed(times),
            Other::Work(part) => {
                format!("{:.0} % of the work is in other components than before", 100.0 * part)
            }
        };
        let why = format!("{why}: what failed may be tried again");
        self.record(What::Changed, None, None, why);
    }

    /// Checks the action that was kept last, and takes it back if the run is worse than before it.
    fn watch_kept(&mut self, score: f64) -> Option<Order> {
        let watch = self.watch.as_mut()?;
        watch.scores.push(score.ln());
        if watch.scores.len() < WATCHED {
            return None;
        }
        let Watch { action, former, scores } = self.watch.take()?;
        let change = (scores.iter().sum::<f64>() / scores.len() as f64 - former.ln()).exp_m1();
        if change > -WATCHED_LOSS {
            return None;
        }
        self.kept.retain(|kept| *kept != action);
        let why = format!("after it was kept it was worse than before it: {}", percent(change));
        let key = action.own_key();
        Some(self.undo_kept(action, &key, why, false))
    }

    fn undo_kept(&mut self, action: Action, key: &str, why: String, may_gain: bool) -> Order {
        self.record(What::Undone, Some(&Candidate::of(action.clone())), None, why);
        self.fail(key, may_gain);
        self.regime.restart();
        self.settings_changed();
        Order::Undo(action)
    }

    /// Forgets what was measured with other settings than those that are in force now.
    fn settings_changed(&mut self) {
        self.promises.settings_changed();
        self.level.forget_mean();
    }

    /// What the new values gain so far; `None` before the first pair.
    fn gain_of(&self, trial: &Trial) -> Option<Gain> {
        (trial.pairs > 0).then(|| self.level.gain(trial.pairs))
    }

    /// Whether a candidate may be tried now.
    fn may_try(&self, candidate: &Candidate) -> bool {
        let rests = |key: &str| {
            let failure = self.failures.get(key);
            failure.is_some_and(|it| it.regime == self.era && self.last < it.until)
        };
        let rests = rests(&candidate.action.key()) || rests(&candidate.action.exact_key());
        let names = candidate.action.changes.iter().map(|change| change.knob.name());
        !rests
            && !candidate.action.changes.is_empty()
            && self.promises.of(candidate) >= self.policy.gain_min
            && !names.into_iter().any(|name| self.pinned.contains(&name))
    }

    /// The action with the highest expected gain among those that may be tried.
    fn best(&self, candidates: Vec<Candidate>) -> Option<Candidate> {
        let hoped = |candidate: &Candidate| self.promises.of(candidate);
        let open = candidates.into_iter().filter(|candidate| self.may_try(candidate));
        open.max_by(|a, b| hoped(a).total_cmp(&hoped(b)))
    }

    /// Whether trials have cost so little that another trial may begin.
    fn may_cost(&self) -> bool {
        let so_far = self.begun.map_or(0.0, |begun| self.last - begun);
        self.cost < self.policy.cost + self.policy.cost_share * so_far
    }

    fn guards_that(&self, seen: &Seen, judged: Judged) -> Vec<usize> {
        let guards = self.guards.iter().enumerate();
        guards.filter(|(_, guard)| guard.judge(seen) == judged).map(|(at, _)| at).collect()
    }

    fn step_trial(
        &mut self,
        mut trial: Trial,
        seen: &Seen,
        score: f64,
        propose: impl FnOnce() -> Vec<Candidate>,
    ) -> Order {
        if self.has_other_work(seen) {
            // A pair of windows before and after this shows nothing.
            self.regime.restart();
            trial.half = None;
            trial.shifts += 1;
            if trial.shifts > SHIFTS_MAX {
                return self.interrupt(trial);
            }
        }
        let broken = self.guards_that(seen, Judged::Broken);
        if !trial.is_on {
            if self.settling == 0 && self.regime.is_left_by(score) {
                let is_as_new = trial.half.is_some_and(|(new, _)| self.regime.are_on_one_side(score, new));
                if is_as_new && trial.lingers < LINGERS_MAX {
                    trial.lingers += 1;
                    self.trial = Some(trial);
                    return Order::Wait;
                }
                if trial.has_strayed {
                    let other = self.regime.other(score);
                    if !self.is_scatter(other, seen) {
                        self.change_era(other);
                    }
                    return self.interrupt(trial);
                }
                // One window may be disturbed by something else; its pair does not count.
                trial.has_strayed = true;
                trial.half = None;
                self.trial = Some(trial);
                return Order::Wait;
            }
            trial.has_strayed &= self.settling > 0;
            trial.broken_before = broken;
        } else if let Some(&guard) = broken.iter().find(|guard| !trial.broken_before.contains(guard)) {
            let why = format!("{} was broken", self.guards[guard]);
            return self.take_back(trial, why);
        } else if !self.guards_that(seen, Judged::Unknown).is_empty() {
            trial.unknown += 1;
            if trial.unknown >= self.policy.blind_max {
                return self.take_back(trial, "a guard could not be measured".to_owned());
            }
        }
        if self.settling > 0 {
            self.settling -= 1;
            return self.look(trial, seen, score);
        }
        self.level.add(score, trial.is_on, seen.at, seen.lasted);
        let Some((other, other_rate)) = trial.half.take() else {
            // The present window is the first half of a pair; in the second half the other values are in
            // force.
            trial.half = Some((score, seen.rate));
            return self.turn(trial);
        };
        let (present, other) = ((score, seen.rate), (other, other_rate));
        let (former, new) = if trial.is_on { (other, present) } else { (present, other) };
        let lost = self.add_pair(&mut trial, seen.lasted, former, new);
        if lost > self.policy.harm.max(self.regime.loss_by_chance()) {
            return self.take_back(trial, format!("it was worse by {:.0} % at once", 100.0 * lost));
        }
        if trial.excess > self.policy.cost {
            return self.take_back(trial, "it made the run worse for longer than trials may".to_owned());
        }
        self.judge(trial, propose)
    }

    /// Judges the first window after a change of a trial, which is not compared. If messages wait far longer at once, as
    /// when too few workers take part, the trial ends, because they would wait longer and longer.
    fn look(&mut self, mut trial: Trial, seen: &Seen, score: f64) -> Order {
        let most = LONGER_MAX.max(1.0 / (1.0 - self.regime.loss_by_chance()));
        let former = trial.half.filter(|_| trial.is_on && self.goal.is_about_waiting());
        match former.map(|(former, _)| former / score) {
            Some(times) if times > most => {
                trial.excess += self.excess(times) * seen.lasted;
                let why = format!("at once {}", self.goal.changed(1.0 / times));
                self.take_back(trial, why)
            }
            _ => Order::Wait.with(|| self.trial = Some(trial)),
        }
    }

    /// Whether the next window is the first one with new values of a trial, and only shows whether they do much harm, so
    /// that it may be short.
    pub(crate) fn only_looks(&self) -> bool {
        let is_on = self.trial.as_ref().is_some_and(|trial| trial.is_on);
        is_on && self.settling > 0 && self.goal.is_about_waiting()
    }

    /// Adds a pair of scores and rates to a trial, and what it cost. Returns the part by which the new values were worse.
    fn add_pair(&mut self, trial: &mut Trial, lasted: f64, former: (f64, f64), new: (f64, f64)) -> f64 {
        let ((former, former_rate), (new, new_rate)) = (former, new);
        let worse = 1.0 - new / former;
        let slower = if self.goal.keeps_the_rate() { 1.0 - new_rate / former_rate } else { worse };
        let in_force = lasted * (2 + self.policy.settle) as f64;
        // Chance in both directions adds up to nothing.
        trial.lost += slower * in_force;
        if self.goal.keeps_the_rate() {
            trial.excess += self.excess(former / new) * in_force;
        }
        trial.pairs += 1;
        if former_rate > 0.0 && new_rate > 0.0 {
            trial.rates.add(former_rate, new_rate);
        }
        worse.max(slower)
    }

    /// The part by which the measure was worse in a pair of windows in which it was `times` that of the former values.
    /// What may be chance counts by its logarithm, so that chance in both directions adds up to nothing.
    fn excess(&self, times: f64) -> f64 {
        let by_chance = 1.0 / (1.0 - self.regime.loss_by_chance());
        let beyond = (times / by_chance - 1.0).max(0.0);
        (times.min(by_chance).ln() + beyond).min(EXCESS_MAX)
    }

    /// Decides after a pair of windows, or continues with the next pair in the other order, so a drift of the
    /// rate favours neither the former nor the new values.
    fn judge(&mut self, trial: Trial, propose: impl FnOnce() -> Vec<Candidate>) -> Order {
        let Policy { pairs_min, pairs_max, gain_min, much, .. } = self.policy;
        let gain = self.level.gain(trial.pairs);
        if gain.most < 0.0 {
            return self.take_back(trial, "it loses".to_owned());
        }
        if trial.pairs < pairs_min && gain.least < much {
            return Order::Wait.with(|| self.trial = Some(trial));
        }
        let slower = self.slows(&trial);
        if gain.least > gain_min && !slower {
            return self.keep(trial, gain);
        }
        let (likely_least, likely_most) = self.level.likely();
        if likely_most < gain_min {
            let certainly = if gain.most < gain_min { "it gains" } else { "most likely it gains" };
            return self.take_back(trial, format!("{certainly} nothing worth while"));
        }
        if slower && gain.pairs > pairs_min {
            return self.take_back(trial, "the rate fell".to_owned());
        }
        // As long as the new values have lost nothing on average, further pairs cost nothing.
        let most = if gain.mean >= gain_min { 3 * pairs_max } else { pairs_max };
        let better = if self.may_give_way(&trial) { self.better_than(&trial, propose()) } else { None };
        if gain.pairs >= most || better.is_some() {
            // A trial that has to end keeps values that surely gain something, and most likely something worth while.
            return if gain.least > 0.0 && likely_least > gain_min && !slower {
                self.keep(trial, gain)
            } else if let Some(better) = better {
                self.put_off(trial, better)
            } else {
                self.take_back(trial, "whether it gains is not clear".to_owned())
            };
        }
        // The present values stay in force for the first window of the next pair.
        Order::Wait.with(|| self.trial = Some(trial))
    }

    /// Whether the new values most likely gain something worth while.
    fn is_likely(&self) -> bool {
        self.level.likely().0 > self.policy.gain_min
    }

    /// Whether a trial may be put off now: after enough pairs, and while the former values are in force, with which the
    /// other candidate will be tried.
    fn may_give_way(&self, trial: &Trial) -> bool {
        !trial.is_on && trial.pairs >= trial.before + self.policy.pairs_min
    }

    /// The candidate that promises more than what the trial most likely gains at most, if there is one.
    fn better_than(&self, trial: &Trial, mut others: Vec<Candidate>) -> Option<Candidate> {
        let own = &trial.candidate.action;
        let is_own = |action: &Action| action.key() == own.key() || *action == own.inverse();
        others.retain(|candidate| !is_own(&candidate.action));
        let best = self.best(others)?;
        (self.promises.of(&best) > self.level.likely().1).then_some(best)
    }

    /// Whether the new values lower the rate although the goal keeps it.
    fn slows(&self, trial: &Trial) -> bool {
        self.goal.keeps_the_rate() && trial.rates.gain().is_none_or(|rate| rate.mean < -0.02)
    }

    /// Puts the new values into force if the former ones are in force, and the former values otherwise.
    fn turn(&mut self, mut trial: Trial) -> Order {
        trial.is_on = !trial.is_on;
        trial.lingers = 0;
        let action = trial.candidate.action.clone();
        let order = if trial.is_on { Order::Try(action) } else { Order::Former(action) };
        self.trial = Some(trial);
        order
    }

    fn keep(&mut self, trial: Trial, gain: Gain) -> Order {
        let former = self.level.former();
        self.account(&trial, true);
        let Trial { candidate, shifts, .. } = trial;
        self.promises.learn(&candidate, gain.mean);
        self.promises.settings_changed();
        let action = candidate.action.clone();
        // Scores of before and after the work moved have no common mean to compare with.
        let watch = Watch { action: action.clone(), former, scores: Vec::new() };
        self.watch = (shifts == 0).then_some(watch);
        self.failures.remove(&action.key());
        self.interrupted.remove(&action.key());
        if gain.mean >= RETRIED_GAIN {
            self.retry();
        }
        // A move in the other direction is a move, too.
        self.fail(&action.inverse().own_key(), false);
        let surely = if gain.least > 0.0 { "it gains" } else { "most likely it gains" };
        let why = format!("{surely} {gain}; expected were {}", percent(candidate.gain));
        self.record(What::Kept, Some(&candidate), Some(gain), why);
        self.kept.push(action.clone());
        self.regime.restart();
        Order::Keep(action)
    }

    fn take_back(&mut self, trial: Trial, why: String) -> Order {
        let gain = self.gain_of(&trial);
        self.account(&trial, false);
        let candidate = trial.candidate;
        if let Some(gain) = gain {
            self.promises.learn(&candidate, gain.mean.min(0.0));
        }
        // One mapping that does harm says little of others.
        let key = candidate.action.key();
        let may_gain = candidate.action.only_moves() || gain.is_none_or(|gain| gain.mean > -HARMFUL);
        self.fail(&key, may_gain);
        let why = gain.map_or(why.clone(), |gain| format!("{why}: {gain}"));
        let order = self.undo(candidate, gain, why);
        if gain.is_some_and(|gain| gain.pairs >= self.policy.pairs_min) {
            self.regime.resume();
        }
        order
    }

    /// Takes back an action for now, because another one promises more. What was measured counts when the trial goes on.
    fn put_off(&mut self, trial: Trial, better: Candidate) -> Order {
        let gain = self.level.gain(trial.pairs);
        let begun = Begun {
            gain: self.level.known(),
            most: self.level.likely().1,
            pairs: trial.pairs,
            rates: trial.rates.clone(),
        };
        self.account(&trial, false);
        let candidate = trial.candidate;
        self.promises.learn(&candidate, gain.mean);
        self.promises.put_off(&candidate.action, begun);
        let why = format!("whether it gains is not clear, and {} promises more: {gain}", better.action);
        self.next = Some(better);
        let order = self.undo(candidate, Some(gain), why);
        self.regime.resume();
        order
    }

    /// Takes back an action after a trial that shows nothing, because the run changed during it. The action may be
    /// tried again soon; only if a trial of it is interrupted again, it counts as failed.
    fn interrupt(&mut self, trial: Trial) -> Order {
        let key = trial.candidate.action.key();
        if self.interrupted.insert(key.clone()) {
            let Policy { rest, .. } = self.policy;
            let until = self.last + SOON * rest;
            let failure = Failure { until, rest: rest / 2.0, regime: self.era, may_gain: true };
            self.failures.insert(key, failure);
        } else {
            self.fail(&key, true);
        }
        self.account(&trial, false);
        self.undo(trial.candidate, None, "the run changed meanwhile".to_owned())
    }

    /// Adds what a trial cost that ended.
    fn account(&mut self, trial: &Trial, is_kept: bool) {
        self.cost += trial.lost.max(0.0) + trial.excess.max(0.0);
        self.level.end(is_kept);
    }

    fn undo(&mut self, candidate: Candidate, gain: Option<Gain>, why: String) -> Order {
        self.record(What::TakenBack, Some(&candidate), gain, why);
        self.regime.restart();
        Order::Undo(candidate.action)
    }

    /// Lets actions that failed be tried again at once; if they fail again, they rest for longer than before.
    fn retry(&mut self) {
        for failure in self.failures.values_mut().filter(|failure| failure.may_gain) {
            failure.until = failure.until.min(self.last);
        }
    }

    fn fail(&mut self, key: &str, may_gain: bool) {
        let before = self.failures.get(key).filter(|it| it.regime == self.era);
        let rest = before.map_or(self.policy.rest, |it| (2.0 * it.rest).min(self.policy.rest_max));
        let failure = Failure { until: self.last + rest, rest, regime: self.era, may_gain };
        self.failures.insert(key.to_owned(), failure);
    }

    fn record(&mut self, what: What, about: Option<&Candidate>, gain: Option<Gain>, why: String) {
        let decision = Decision {
            number: self.number,
            at: self.last,
            what,
            action: about.map(|candidate| candidate.action.clone()),
            change: about.map_or(String::new(), |candidate| candidate.action.to_string()),
            model: about.map_or(String::new(), |candidate| candidate.model.clone()),
            predicted: about.map(|candidate| candidate.gain).filter(|gain| gain.is_finite()),
            gain,
            why,
        };
        self.number += 1;
        self.decisions.push(decision);
    }
}

impl Order {
    fn with(self, and: impl FnOnce()) -> Order {
        and();
        self
    }
}

//! The tuning loop over a live run: measure, propose, try, keep or take back.

mod claim;
mod earlier;
mod hands;
mod log;
mod messages;
mod nearness;
mod placing;
mod sample;
mod untuned;
mod whole;
mod window;
mod yardstick;

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_monitor::{Names, Unfolding, names};
use thalweg_space::reader::{SettingView, SpaceReader};

use crate::action::{Action, Candidate, Knob};
use crate::control::{Controller, Decision, Goal, Guard, Order, Policy};
use crate::knowledge::Rules;
use claim::Claim;
use earlier::Earlier;
use hands::{Hands, Refused};
use messages::Messages;
use placing::Around;
use sample::{Sample, Threads};
use whole::Whole;
use window::shift;
use yardstick::Yardstick;

pub use claim::{pin, pins};
pub use hands::noted;
pub use log::log;
pub use untuned::Untuned;
pub use whole::Place;
pub use window::{Progress, StreamIn, TaskIn, Window, WorkerIn};

/// The name under which a tuner changes settings.
pub const TOOL: &str = "thalweg tune";
/// The setting that says how much a run shows of itself.
const MODE: &str = "monitor.mode";
/// The least and the greatest length of a window.
const WINDOW: Duration = Duration::from_millis(150);
const WINDOW_MAX: Duration = Duration::from_secs(3);
/// The settings that limit how many messages there are in the network.
const ROOM: [&str; 2] = ["exec.capacity", "exec.unfinished"];
/// In their trials, windows are longer so that messages pass the network in one of them, but no longer than this.
const INSIDE_MAX: Duration = Duration::from_secs(1);
/// By which factor windows are shorter that only show whether new values do much harm.
const LOOK: u32 = 5;
/// The greatest length of a window in which nothing is tried.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// The tuner may use what its budget allows for this time in advance, because there is most to find at first.
const CREDIT: Duration = Duration::from_secs(20);
/// The number of messages that a window should contain.
const MESSAGES: f64 = 200.0;
/// The number of windows after moves of tasks that are not compared, because the tasks first have to arrive.
const QUIET: usize = 3;
/// While the run accepts no commands, decisions are kept to be recorded later; only this many are kept, the
/// first ones.
const UNNOTED_MAX: usize = 64;
/// The longest time that a run may take from its space to its first task.
const STARTS_MAX: Duration = Duration::from_secs(2);
/// A run counts as fed, or as not fed, at most twice this number of windows longer than it is.
const FED_MAX: i32 = 200;
/// A longer window is used for mappings if it has this part of the tasks of the last one.
const LASTING: f64 = 0.9;
/// The interval at which `stop` is called.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often the machine's speed is measured in a window, and the shortest interval.
const MEASURED: u32 = 15;
const MEASURED_EVERY: Duration = Duration::from_millis(10);

/// Why tuning ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    OfRun,
    OfTime,
    Asked,
}

impl End {
    fn text(self) -> &'static str {
        match self {
            End::OfRun => "the run ended",
            End::OfTime => "its time was over",
            End::Asked => "it was asked to",
        }
    }
}

/// The options of tuning a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The goal to improve.
    pub goal: Goal,
    /// The limits that must not be broken during tuning.
    pub guards: Vec<Guard>,
    /// The parameters by which trials are decided.
    pub policy: Policy,
    /// Whether the tuner only reports what it would try.
    pub advise: bool,
    /// The part of one processor that the tuner may use while it tries nothing, on average; what it may use in 20 s it
    /// may use in advance.
    pub budget: f64,
    /// How long to tune; `None`: until the run ends.
    pub lasts: Option<Duration>,
    /// Whether `stop` returns true because the run has ended, as in the run's own process.
    pub stops_with_run: bool,
    /// Further packs of rules: their names and texts.
    pub packs: Vec<(String, String)>,
    /// The number of the tuner's first decision.
    pub first: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            goal: Goal::default(),
            guards: Vec::new(),
            policy: Policy::default(),
            advise: false,
            budget: 0.01,
            lasts: None,
            stops_with_run: false,
            packs: Vec::new(),
            first: 1,
        }
    }
}

/// A report of a tuner while it works.
#[derive(Debug)]
pub enum TuneProgress<'t> {
    /// The tuner made a decision.
    Decision(&'t Decision),
    /// The tuner measured a window.
    Window {
        /// The measurements.
        window: &'t Window,
        /// Progress per second.
        rate: f64,
        /// What counts as progress of this run.
        progress: Progress,
        /// The candidate that is on trial now.
        trial: Option<&'t Candidate>,
    },
}

/// The result of tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The number of decisions.
    pub decisions: u64,
    /// The number of changes that stayed.
    pub kept: usize,
    /// The cost of trials, in seconds of flow.
    pub cost_s: f64,
    /// The part of one processor that the tuner itself used.
    pub processor: f64,
    /// The workers of all tasks in the last mapping to which the tuner found none better, in the order in which the
    /// tasks were made; empty if it did not look for one. Replicas that the run spreads are
    /// among them if the tuner moved one of them and kept the move; where workers steal, tasks that the tuner moved.
    pub places: Vec<Place>,
}

/// Tunes the run with its space in the directory `path`, until the run ends, `stop` returns true, or the
/// tuner's time is over. `report` is called with each report.
///
/// # Errors
/// Fails when there is no such run, it cannot be tuned (it has ended, or its mode is off), another process
/// tunes it, or a pack is wrong.
pub fn tune(
    path: &Path,
    options: &Options,
    stop: &dyn Fn() -> bool,
    report: &mut dyn FnMut(&TuneProgress<'_>),
) -> Result<Tuned, Untuned> {
    let reader = SpaceReader::open(path)?.called(TOOL);
    let settings = settings_of_begun(&reader, stop)?;
    let rules = Rules::read(&options.packs, &settings).map_err(|bad| Untuned::Refused(bad.to_string()))?;
    // A tuner that only advises does not have to hold the lock of tuners.
    let _claim = if options.advise { None } else { Some(Claim::take(path)?) };
    let controller =
        Controller::new(options.goal, options.guards.clone(), options.policy.clone(), options.first);
    let controller = if options.advise { controller.advising() } else { controller };
    let guards = &options.guards;
    let asked = guards.iter().any(|guard| guard.needs_messages() || guard.needs_failures());
    let messages = asked.then(|| Messages::follow(&reader, &settings)).transpose()?;
    let names = names(&reader)?;
    let mut tuner = Tuner {
        reader: &reader,
        messages,
        hands: Hands::new(&reader),
        controller,
        rules,
        options,
        in_replicas: in_replicas(&names),
        names,
        settings,
        progress: None,
        profile: HashMap::new(),
        places: HashMap::new(),
        replicas: HashSet::new(),
        quiet: 0,
        whole: Whole::default(),
        former: Vec::new(),
        yardstick: Yardstick::default(),
        earlier: Earlier::default(),
        seen_in: 0,
        fed: 0,
        machine: thread::available_parallelism().map_or(1.0, |count| count.get() as f64),
        rate: f64::NAN,
        inside: 0.0,
        decisions: 0,
        unnoted: VecDeque::new(),
    };
    tuner.run(stop, report)
}

/// The settings of a run that can be tuned. A run that is starting has a space before it has all its settings; it has all
/// of them when its first task exists.
fn settings_of_begun(reader: &SpaceReader, stop: &dyn Fn() -> bool) -> Result<Vec<SettingView>, Untuned> {
    let end = Instant::now() + STARTS_MAX;
    loop {
        let has_tasks = !Sample::take(reader)?.tasks.is_empty();
        let settings = reader.settings()?;
        let is_off = settings.iter().any(|setting| setting.name == MODE && setting.value == 0);
        let is_starting = !has_tasks && !is_off && reader.is_alive();
        if !is_starting || stop() || Instant::now() >= end {
            return check(reader, &settings).map(|()| settings);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn check(reader: &SpaceReader, settings: &[SettingView]) -> Result<(), Untuned> {
    let path = reader.path().display();
    if !reader.is_alive() {
        return Err(Untuned::Refused(format!(
            "the process of {path} has ended: only a run that lives can be tuned"
        )));
    }
    match settings.iter().find(|setting| setting.name == MODE) {
        None => Err(Untuned::Refused(format!(
            "{path} is no space of a network: it has no setting `monitor.mode`"
        ))),
        Some(mode) if mode.value == 0 => Err(Untuned::Refused(format!(
            "the run of {path} shows nothing of itself (mode off): `thalweg set monitor.mode metrics` lets it"
        ))),
        Some(_) => Ok(()),
    }
}

struct Tuner<'r> {
    reader: &'r SpaceReader,
    hands: Hands<'r>,
    /// The follower of single messages, if a guard limits their latency or failures.
    messages: Option<Messages>,
    controller: Controller,
    rules: Rules,
    options: &'r Options,
    names: Names,
    settings: Vec<SettingView>,
    progress: Option<Progress>,
    profile: HashMap<u64, f64>,
    /// The last known worker of each task, or the one to which the tuner moved it. If a task is on another
    /// worker, another user has moved it.
    places: HashMap<u64, u32>,
    /// The components in replicas of splits, and their tasks. While `exec.spread` is set, the run itself chooses
    /// the workers of these tasks, but no longer after a user has moved them.
    in_replicas: HashSet<u64>,
    replicas: HashSet<u64>,
    /// The number of windows since the last change.
    quiet: usize,
    /// The workers of all tasks, which are saved with the moves that were kept.
    whole: Whole,
    /// The workers that the tasks had before a change after which the run moves tasks itself; they are needed to
    /// move the tasks back.
    former: Vec<(u64, u64)>,
    yardstick: Yardstick,
    earlier: Earlier,
    /// The regime of the last window.
    seen_in: u64,
    /// In how many more windows sources waited for their input than in which they did not, at most [`FED_MAX`].
    fed: i32,
    machine: f64,
    /// The progress per second in the last window without a trial.
    rate: f64,
    /// The number of messages in the network in the last window; in a trial, the greatest number since it began.
    inside: f64,
    decisions: u64,
    /// Decisions that the run has not recorded yet.
    unnoted: VecDeque<Decision>,
}

impl Tuner<'_> {
    fn run(
        &mut self,
        stop: &dyn Fn() -> bool,
        report: &mut dyn FnMut(&TuneProgress<'_>),
    ) -> Result<Tuned, Untuned> {
        let used = || Threads::of(std::process::id()).map(|threads| threads.processor_s);
        let (begun, used_before) = (Instant::now(), used().unwrap_or(0.0));
        let goal = self.options.goal;
        self.controller.begin(&format!("for {goal}{}", guards_text(&self.options.guards)));
        self.report_decisions(report);
        let (mut from, mut length) = (Sample::take(self.reader)?, WINDOW);
        let end = loop {
            if let Some(end) = self.wait(length, begun, stop)? {
                break end;
            }
            let to = match Sample::take(self.reader) {
                Ok(sample) => sample,
                Err(_) if self.has_ended()? => break End::OfRun,
                Err(error) => return Err(error.into()),
            };
            let changed = self.window(&from, &to, begun, report)?;
            self.report_decisions(report);
            let used = used().unwrap_or(0.0) - used_before;
            length = self.next_length(length, used, begun);
            // The time that a change took belongs to no window, so the next window begins after the change.
            let to = if changed { Sample::take(self.reader)? } else { to };
            self.keep_sample(std::mem::replace(&mut from, to), changed);
        };
        let is_run_over = end == End::OfRun || self.has_ended()?;
        let order = self.controller.end(end.text(), is_run_over);
        if is_run_over {
            self.note_moves(&order);
        } else {
            self.obey(order);
            self.messages.take().into_iter().for_each(Messages::end);
        }
        self.report_decisions(report);
        let used = used().unwrap_or(f64::NAN) - used_before;
        Ok(Tuned {
            decisions: self.decisions,
            kept: self.controller.kept().len(),
            cost_s: self.controller.cost(),
            processor: used / begun.elapsed().as_secs_f64(),
            places: std::mem::take(&mut self.whole).places(),
        })
    }

    /// Keeps the sample at the beginning of a window for longer windows. The first window after a change shows what
    /// the former settings left, so longer windows begin after it.
    fn keep_sample(&mut self, sample: Sample, changed: bool) {
        let regime = self.controller.regime();
        if changed || self.quiet < 2 || self.seen_in != regime {
            self.earlier.clear();
        } else {
            self.earlier.add(sample);
        }
        self.seen_in = regime;
    }

    /// Notes kept and undone moves for the mapping that is saved.
    fn note_moves(&mut self, order: &Order) {
        match order {
            Order::Keep(action) => self.whole.keep(action),
            Order::Undo(action) => self.whole.undo(action, &|task| self.hands.holds(task)),
            _ => {}
        }
    }

    fn has_ended(&self) -> Result<bool, Untuned> {
        Ok(self.reader.is_gone() || !self.reader.is_alive() || self.reader.info()?.finished)
    }

    /// Waits until the window ends; `Some` if tuning has to end.
    fn wait(
        &mut self,
        length: Duration,
        begun: Instant,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<End>, Untuned> {
        let end = Instant::now() + length;
        let every = (length / MEASURED).clamp(MEASURED_EVERY, LOOK_EVERY);
        loop {
            if stop() {
                return Ok(Some(if self.options.stops_with_run { End::OfRun } else { End::Asked }));
            }
            if self.options.lasts.is_some_and(|lasts| begun.elapsed() >= lasts) {
                return Ok(Some(End::OfTime));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(self.has_ended()?.then_some(End::OfRun));
            }
            thread::sleep(left.min(every));
            self.yardstick.look();
            self.messages.iter_mut().for_each(Messages::look);
        }
    }

    /// The length of the next window: short at first and during a trial, otherwise long enough for the tuner to stay
    /// within its budget.
    fn next_length(&self, length: Duration, used: f64, begun: Instant) -> Duration {
        match self.controller.trial() {
            Some(trial) if trial.action.changes_one_of(&ROOM) => base_length(self.rate, self.inside),
            Some(_) if self.controller.only_looks() => look_length(self.rate, self.inside),
            Some(_) => base_length(self.rate, 0.0),
            None => {
                let too_much = used - self.options.budget * (begun.elapsed() + CREDIT).as_secs_f64();
                idle_length(length, base_length(self.rate, 0.0), too_much)
            }
        }
    }

    /// Handles the measurements of a window; returns whether a setting or a task's worker was changed.
    fn window(
        &mut self,
        from: &Sample,
        to: &Sample,
        begun: Instant,
        report: &mut dyn FnMut(&TuneProgress<'_>),
    ) -> Result<bool, Untuned> {
        if let Some(missing) = to.tasks.values().find(|task| !self.names.sites.contains_key(&task.component))
            && missing.component != 0
        {
            self.names = names(self.reader)?;
            self.in_replicas = in_replicas(&self.names);
        }
        let Some(window) = Window::between(from, to, &self.names) else { return Ok(false) };
        let moved = self.moved_by_run(from, &window);
        let mut changed = self.see_to_pins(to)?;
        let previous =
            self.progress.filter(|&of| self.controller.trial().is_some() || of != Progress::Dispatches);
        let progress = *self.progress.insert(previous.unwrap_or_else(|| window.measurable_progress()));
        let profile = window.profile();
        let shift = shift(&std::mem::replace(&mut self.profile, profile), &self.profile);
        // The sources of a run that is fed at some rate may have no time to wait when it is slow.
        self.fed = (self.fed + if window.is_fed() { 1 } else { -1 }).clamp(-FED_MAX, FED_MAX);
        let mut seen = window.seen(begun.elapsed().as_secs_f64(), progress, shift, self.fed > 0);
        // Where the kernel does not report what the host took, that is not a number, and `max` returns the other one.
        let machine = self.yardstick.take();
        seen.missing = window.stolen.max(0.0) + machine.missing;
        seen.speed = machine.speed;
        seen.moved = moved;
        if let Some(messages) = &mut self.messages {
            seen = messages.add(seen)?;
        }
        if seen.rate.is_nan() || seen.rate <= 0.0 {
            // If no progress was measured, the next window may choose another kind of progress.
            self.progress = None;
        }
        let trial = self.controller.trial();
        let (rate, inside) = if trial.is_none() { (seen.rate, 0.0) } else { (self.rate, self.inside) };
        (self.rate, self.inside) = (rate, inside.max(seen.latency * seen.rate));
        report(&TuneProgress::Window { window: &window, rate: seen.rate, progress, trial });
        let (rules, settings, goal, machine) = (&self.rules, &self.settings, self.options.goal, self.machine);
        let pinned: Vec<u64> =
            to.tasks.keys().copied().filter(|task| self.controller.is_pinned(&worker_of(*task))).collect();
        let spreads = self.is_on("exec.spread");
        let by_run = |task: u64| spreads && self.replicas.contains(&task);
        self.whole.see(&window, trial.is_some(), self.is_on("exec.steal"), &by_run);
        let has_looked = Cell::new(false);
        let propose = || {
            let around = Around { processors: machine, pinned: &|task| pinned.contains(&task) };
            let longer = self.earlier.oldest().and_then(|oldest| Window::between(oldest, to, &self.names));
            // A network that unfolds has few tasks that existed during all of a longer window.
            let longer =
                longer.filter(|longer| longer.tasks.len() as f64 >= LASTING * window.tasks.len() as f64);
            let for_places = longer.as_ref().unwrap_or(&window);
            let mapping = match goal {
                Goal::Throughput => placing::propose(for_places, &around),
                // At the same rate, fewer messages in the network and a shorter latency are the same.
                Goal::Latency | Goal::Memory => nearness::propose(&window, &around),
                Goal::Processor => None,
            };
            let limited = goal.keeps_the_rate() || placing::is_network_limited(&window);
            has_looked.set(limited && goal != Goal::Processor);
            let rules = limited.then(|| rules.propose(&window, seen.rate, goal, settings, machine, progress));
            let placed = |candidate| match goal {
                Goal::Throughput => placing::with_places(candidate, for_places, &around, &by_run),
                _ => candidate,
            };
            mapping.into_iter().chain(rules.into_iter().flatten().map(placed)).collect()
        };
        let was_observing = self.controller.trial().is_none();
        let order = self.controller.step(&seen, propose);
        // A mapping is not good as long as another number of workers promises more.
        let is_open = self.controller.trial().is_some_and(|trial| lets_tasks_move(&trial.action));
        if was_observing && has_looked.get() && !is_open {
            self.whole.looked();
        }
        changed |= order != Order::Wait;
        self.obey(order);
        Ok(changed)
    }

    /// Carries out the controller's order.
    fn obey(&mut self, order: Order) {
        let mut order = order;
        // When an order fails, its change has to be taken back, which may fail, too; but each failure leaves
        // fewer changes.
        for _ in 0..8 {
            let done = match &order {
                Order::Wait => return,
                Order::Try(action) => {
                    if lets_tasks_move(action) && self.former.is_empty() {
                        self.former = self.former_places();
                    }
                    self.hands.put(action)
                }
                Order::Former(action) => self.hands.put(&action.inverse()),
                Order::Keep(action) => self.hands.keep(action),
                Order::Undo(action) => self.hands.undo(action),
            };
            let mut back = Vec::new();
            match &order {
                Order::Former(action) if lets_tasks_move(action) => back = self.former.clone(),
                Order::Undo(action) if lets_tasks_move(action) => back = std::mem::take(&mut self.former),
                Order::Keep(_) => self.former.clear(),
                _ => {}
            }
            self.hands.move_back(&back);
            self.expect(&order, &back);
            if done.is_ok() {
                self.note_moves(&order);
            }
            order = match done {
                Ok(()) => return,
                Err(Refused::TakenOver(name, why)) => self.controller.pin(&name, &why),
                Err(Refused::Failed(why)) => self.controller.failed(&why),
            };
        }
    }

    /// The workers of the tasks that the run does not place itself.
    fn former_places(&self) -> Vec<(u64, u64)> {
        let spreads = self.is_on("exec.spread");
        let stays = |task: &u64| !(spreads && self.replicas.contains(task));
        let places = self.places.iter().filter(|(task, _)| stays(task));
        places.map(|(&task, &worker)| (task, u64::from(worker))).collect()
    }

    fn is_on(&self, name: &str) -> bool {
        self.settings.iter().any(|setting| setting.name == name && setting.value != 0)
    }

    /// Pins the settings that other users have set or pinned.
    fn see_to_pins(&mut self, now: &Sample) -> Result<bool, Untuned> {
        let mut surprises: Vec<(String, String)> = Vec::new();
        for name in pins(self.reader.path()) {
            surprises
                .push((name, "somebody has moved it, or said that it stays (`thalweg tune pin`)".to_owned()));
        }
        let settings = self.reader.settings()?;
        for (before, now) in self.settings.iter().zip(&settings) {
            let is_ours = |setter: &thalweg_space::reader::SetterView| setter.tool == TOOL;
            let changed = (before.value, &before.setter) != (now.value, &now.setter);
            if let Some(setter) = now.setter.as_ref().filter(|setter| changed && !is_ours(setter)) {
                let why = format!("{} (process {}) set it to {}", setter.tool, setter.pid, now.value);
                surprises.push((now.name.clone(), why));
            }
        }
        self.settings = settings;
        self.see_to_places(now, &mut surprises);
        let mut changed = false;
        for (name, why) in surprises {
            if self.controller.is_pinned(&name) {
                continue;
            }
            self.hands.let_go(&name);
            let order = self.controller.pin(&name, &why);
            changed |= order != Order::Wait;
            self.obey(order);
        }
        Ok(changed)
    }

    /// The fraction of the work that is done by tasks that have come to another worker in the window, and to one to which
    /// the tuner did not move them. After a change that lets the run move tasks, such moves are its effect.
    fn moved_by_run(&self, from: &Sample, window: &Window) -> f64 {
        let is_effect = self.controller.trial().is_some_and(|trial| lets_tasks_move(&trial.action));
        if is_effect || self.quiet < QUIET && self.places.is_empty() {
            return 0.0;
        }
        let has_moved = |task: &&TaskIn| {
            let before = from.tasks.get(&task.id).and_then(|task| task.worker);
            let place = task.worker.filter(|_| before.is_some());
            place.is_some() && place != before && self.places.get(&task.id).copied() != place
        };
        let work = |tasks: &mut dyn Iterator<Item = &TaskIn>| tasks.map(|task| task.busy).sum::<f64>();
        work(&mut window.tasks.iter().filter(has_moved)) / work(&mut window.tasks.iter()).max(1e-9)
    }

    /// Finds the tasks that another user has moved, where the run itself moves none: with `exec.steal_after_us` it takes
    /// tasks from behind any call that is held up, and it steals and moves replicas. A user's moves are also pinned by
    /// the command that makes them.
    fn see_to_places(&mut self, now: &Sample, surprises: &mut Vec<(String, String)>) {
        self.quiet += 1;
        if self.quiet < QUIET {
            return;
        }
        let relieves = self.is_on("exec.steal_after_us");
        let (steals, spreads) = (self.is_on("exec.steal") || relieves, self.is_on("exec.spread"));
        let mut places = HashMap::with_capacity(now.tasks.len());
        self.replicas.clear();
        for (task, at) in &now.tasks {
            let Some(worker) = at.worker else { continue };
            places.insert(*task, worker);
            if self.in_replicas.contains(&at.component) {
                self.replicas.insert(*task);
            }
            if let Some(&before) = self.places.get(task).filter(|&&before| before != worker)
                && !steals
                && !(spreads && self.replicas.contains(task))
            {
                surprises.push((worker_of(*task), format!("it moved from worker {before} to {worker}")));
            }
        }
        self.places = places;
    }

    /// Stores the workers on which tasks should be after the order was carried out.
    fn expect(&mut self, order: &Order, places: &[(u64, u64)]) {
        let action = match order {
            Order::Wait => return,
            Order::Try(action) | Order::Keep(action) => action.clone(),
            Order::Former(action) | Order::Undo(action) => action.inverse(),
        };
        self.quiet = 0;
        if lets_tasks_move(&action) {
            self.places.clear();
        }
        let moves = action.changes.iter().filter_map(|change| match change.knob {
            Knob::Worker { task, .. } => Some((task, change.to)),
            Knob::Setting(_) => None,
        });
        self.places.extend(moves.chain(places.iter().copied()).map(|(task, worker)| (task, worker as u32)));
    }

    /// Reports new decisions, and lets the run record them.
    fn report_decisions(&mut self, report: &mut dyn FnMut(&TuneProgress<'_>)) {
        for decision in self.controller.take_decisions() {
            self.decisions += 1;
            report(&TuneProgress::Decision(&decision));
            self.unnoted.push_back(decision);
        }
        if self.options.advise || self.reader.is_gone() {
            self.unnoted.clear();
        }
        // Decisions are sent in order; a run that has just begun may not accept commands yet.
        while self.unnoted.front().is_some_and(|decision| self.hands.note(decision)) {
            self.unnoted.pop_front();
        }
        self.unnoted.truncate(UNNOTED_MAX);
    }
}

/// The components in replicas of splits.
fn in_replicas(names: &Names) -> HashSet<u64> {
    let sites = names.sites.values().map(|site| (site.path.as_str(), site.kind.as_str()));
    let unfolding = Unfolding::of(sites);
    let within = names.sites.iter().filter(|(_, site)| unfolding.is_in_replica(&site.path));
    within.map(|(component, _)| *component).collect()
}

/// Whether the run itself moves tasks because of an action: it places all tasks again if another number of
/// workers takes part, and workers take over tasks if they steal.
fn lets_tasks_move(action: &Action) -> bool {
    action.changes_one_of(&[placing::WORKERS, "exec.steal"])
}

fn worker_of(task: u64) -> String {
    Knob::Worker { task, name: String::new() }.name()
}

fn guards_text(guards: &[Guard]) -> String {
    let guards: Vec<String> = guards.iter().map(Guard::to_string).collect();
    if guards.is_empty() { String::new() } else { format!(", as long as {}", guards.join(", ")) }
}

/// The length of a window that contains enough messages, in a run that makes `rate` messages a second. If a change of the room in
/// the network is tried, `inside` is the number of messages in it, and otherwise 0: the window is then no shorter than a message is in
/// the network, up to [`INSIDE_MAX`]. With more room, fewer messages leave while streams fill, and more while they are
/// emptied again, and the window after a change, which is left out, has to have all of this.
fn base_length(rate: f64, inside: f64) -> Duration {
    let lasts = |messages: f64, most: Duration| {
        let seconds = messages / rate;
        let seconds = if seconds.is_finite() { seconds.clamp(0.0, most.as_secs_f64()) } else { 0.0 };
        Duration::from_secs_f64(seconds)
    };
    lasts(MESSAGES, WINDOW_MAX).max(lasts(inside, INSIDE_MAX)).max(WINDOW)
}

/// The length of a window that only shows whether new values do much harm: long enough for messages to pass the network.
fn look_length(rate: f64, inside: f64) -> Duration {
    let base = base_length(rate, 0.0);
    let passing = 2.0 * inside / rate;
    let passing = if passing.is_finite() { passing.clamp(0.0, base.as_secs_f64()) } else { 0.0 };
    Duration::from_secs_f64(passing).max(base / LOOK)
}

/// The length of the next window while nothing is tried, after a window that was `length` long: longer if the tuner has
/// used `too_much` seconds more than its budget allows.
fn idle_length(length: Duration, base: Duration, too_much: f64) -> Duration {
    if too_much > 0.0 { (length * 3 / 2).clamp(base, IDLE_MAX.max(base)) } else { base }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_as_long_as_messages_are_in_the_network() {
        assert_eq!(base_length(1e5, 10.0), WINDOW);
        assert_eq!(base_length(400.0, 10.0), Duration::from_millis(500));
        assert_eq!(base_length(1000.0, 640.0), Duration::from_millis(640));
        assert_eq!(base_length(1000.0, 1e6), INSIDE_MAX);
        assert_eq!(base_length(10.0, 1e6), WINDOW_MAX);
        for (rate, inside) in [(f64::NAN, 10.0), (0.0, 10.0), (1e5, f64::NAN)] {
            assert_eq!(base_length(rate, inside), WINDOW, "{rate} {inside}");
        }
    }

    /// A window costs 10 ms of processor time, so windows of 150 ms use 6.7 % of a processor.
    #[test]
    fn a_budget_is_used_in_advance_and_then_kept() {
        let used_by = |seconds: f64| {
            let (mut at, mut used, mut length) = (0.0, 0.0, WINDOW);
            while at < seconds {
                at += length.as_secs_f64();
                used += 0.01;
                length = idle_length(length, WINDOW, used - 0.01 * (at + CREDIT.as_secs_f64()));
            }
            used
        };
        // What 20 s allow is used within the first 5 s, and in a minute no more than 80 s allow.
        assert!(used_by(5.0) > 0.2, "{}", used_by(5.0));
        assert!((0.75..=0.85).contains(&used_by(60.0)), "{}", used_by(60.0));
        assert_eq!(idle_length(IDLE_MAX, WINDOW, 1.0), IDLE_MAX);
        assert_eq!(idle_length(WINDOW_MAX, WINDOW_MAX, 1.0), WINDOW_MAX);
    }
}

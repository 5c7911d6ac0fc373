//! Finds out whether the flow depends on a task by slowing this task in the live run.
//!
//! Periods with a delay for each message alternate with periods at the task's usual speed (the reverse of
//! Coz's virtual speed-up, SOSP 2015). The task's *sensitivity* is the growth of the time that the network
//! takes for an input message, divided by the growth of the time that the task takes for it: with 1, the flow
//! depends on this task alone; with 0, the flow does not depend on it.
//!
//! The two tasks with the largest sensitivities are also slowed at the same time, unless the flow depends on one task
//! alone. Delays of tasks that share a resource add up; of tasks that limit the flow side by side, such as two
//! equally loaded stages on two workers, the second delay adds nothing.
//!
//! If the flow depends on a task, and does not depend on a task of the component that the report's verdict
//! names, the verdict is replaced by one that names the slowed task. The evidence of the new verdict states
//! the former one.
//!
//! Each delay is stored with the time at which it ends, so a delay ends even if this program is killed before
//! it can remove the delay.

use std::error;
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_space::Error;
use thalweg_space::reader::SpaceReader;

use crate::following::follower::Follower;
use crate::report::{
    Component, Finding, Measurement, Report, Task, TaskRef, Verdict, VerdictKind, Words, component_of,
};
use crate::verdict::thresholds::{ADDED, DEPENDS, INDEPENDENT, NOT_ADDED};

/// The length of each period in which the flow is measured.
const EACH: Duration = Duration::from_millis(250);
/// The wait after a delay was set or removed, in which messages that were in flight leave the network.
const SETTLE: Duration = Duration::from_millis(50);
/// The number of tasks that are slowed, the most likely limit first; one source and one sink may be slowed in
/// addition.
const TASKS_MAX: usize = 3;
const PAIRS: usize = 5;
/// The delay of a message as a share of its service time; the delay is at least [`DELAY_NS_MIN`].
const LONGER: f64 = 0.5;
const DELAY_NS_MIN: f64 = 20.0;
/// A delay that was not removed ends by itself this long after the time at which it should have been removed.
const GRACE: Duration = Duration::from_secs(1);
/// The interval in which events are read and `stop` is called.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The result of slowing tasks.
#[derive(Clone, Debug)]
pub struct Perturbed {
    /// The report on the time before the first delay; its measurements include the sensitivities.
    pub report: Report,
    /// The tasks that were slowed, the most likely limit first.
    pub tried: Vec<Tried>,
    /// The two tasks that were slowed together; `None` if the flow depends on one task alone, or if only one
    /// task was slowed.
    pub together: Option<Together>,
}

/// A task that was slowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The task.
    pub task: TaskRef,
    /// Whether the task belongs to the component that the verdict names.
    pub named: bool,
    /// The task's service time of a message without the delay, in nanoseconds.
    pub service_ns: f64,
    /// The delay added to each message, in nanoseconds.
    pub delay_ns: f64,
    /// Input messages per second without the delay: the median of all pairs.
    pub rate: f64,
    /// Input messages per second with the delay: the median of all pairs.
    pub slowed_rate: f64,
    /// The sensitivity: the median of all pairs.
    pub sensitivity: f64,
    /// The least sensitivity of a pair: with `most` an interval that holds the true median in 15 of 16 cases,
    /// whatever the distribution of pairs.
    pub least: f64,
    /// The largest sensitivity of a pair.
    pub most: f64,
}

/// Two tasks that were slowed at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// The two tasks, the one with the larger sensitivity first.
    pub tasks: [TaskRef; 2],
    /// The growth of the network's time for an input message while only the first or only the second task was
    /// slowed, as fractions of 1.
    pub alone: [f64; 2],
    /// The growth of the network's time for an input message while both tasks were slowed, as a fraction of 1:
    /// the median of all pairs of measurements.
    pub growth: f64,
    /// The least growth of a pair of measurements.
    pub least: f64,
    /// The largest growth of a pair of measurements.
    pub most: f64,
    /// How the effects of the two delays combine.
    pub interplay: Interplay,
}

/// The effect of slowing two tasks together, compared with slowing each alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interplay {
    /// The two delays add up: time saved in either task is gained.
    Adds,
    /// The smaller delay adds nothing to the larger one: the tasks limit the flow side by side, and a gain needs
    /// both tasks to be faster.
    SideBySide,
    /// The flow depends on neither task alone, but on both together: each has a reserve that covers its own
    /// delay only.
    OnlyTogether,
    /// The measurements do not show how the effects of the two delays combine.
    Unclear,
}

impl Together {
    /// The sentence of evidence about the two tasks.
    fn words(&self) -> String {
        let [first, second] = self.tasks.each_ref().map(|task| &task.name);
        let percent = |growth: f64| format!("{:.0} %", 100.0 * growth);
        let figures = format!(
            "({} longer for a message with both slowed, {} to {}; {} and {} with one)",
            percent(self.growth),
            percent(self.least),
            percent(self.most),
            percent(self.alone[0]),
            percent(self.alone[1])
        );
        match self.interplay {
            Interplay::Adds => {
                format!("{first} and {second} share what limits the flow: their delays add up {figures}")
            }
            Interplay::SideBySide => format!(
                "{first} and {second} limit the flow side by side, so a gain needs both to be faster {figures}"
            ),
            Interplay::OnlyTogether => {
                format!("the flow depends on {first} and {second} together, and on neither alone {figures}")
            }
            Interplay::Unclear => {
                format!("what the delays of {first} and {second} do to each other is not clear {figures}")
            }
        }
    }

    /// `growths` has the growths of all pairs of measurements, the least first.
    fn of([first, second]: [&Tried; 2], growths: &[f64]) -> Together {
        let alone = [first.growth(), second.growth()];
        let (least, growth, most) = (growths[0], growths[growths.len() / 2], growths[growths.len() - 1]);
        let longer = [first, second].map(|task| task.delay_ns / task.service_ns);
        let interplay = interplay(alone, longer, [least, growth, most]);
        let tasks = [first.task.clone(), second.task.clone()];
        Together { tasks, alone, growth, least, most, interplay }
    }
}

/// Judges the growths of the network's time: `alone` with one task slowed by the share `longer` of its service
/// time, the others with both tasks slowed.
fn interplay(alone: [f64; 2], longer: [f64; 2], [least, growth, most]: [f64; 3]) -> Interplay {
    let depends = |at: usize| alone[at] >= INDEPENDENT * longer[at];
    let (more, less) = (alone[0].max(alone[1]), alone[0].min(alone[1]));
    // The part of the smaller effect that both delays add to the larger effect.
    let added = |growth: f64| (growth - more) / less;
    if depends(0) && depends(1) {
        return match () {
            () if added(growth) >= ADDED && added(least) >= NOT_ADDED => Interplay::Adds,
            () if added(growth) <= NOT_ADDED && added(most) <= ADDED => Interplay::SideBySide,
            () => Interplay::Unclear,
        };
    }
    let needed = longer[0].min(longer[1]);
    match !depends(0) && !depends(1) && growth >= DEPENDS * needed && least >= INDEPENDENT * needed {
        true => Interplay::OnlyTogether,
        false => Interplay::Unclear,
    }
}

/// How much the flow depends on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependence {
    /// The flow does not depend on the task, as far as can be seen.
    None,
    /// The flow depends on the task in part.
    Partial,
    /// The flow depends on the task.
    Full,
}

impl Tried {
    /// The growth of the network's time for an input message with the delay, as a fraction of 1.
    fn growth(&self) -> f64 {
        self.sensitivity * self.delay_ns / self.service_ns
    }

    /// How much the flow depends on the task.
    pub fn dependence(&self) -> Dependence {
        match self.sensitivity {
            s if s >= DEPENDS => Dependence::Full,
            s if s < INDEPENDENT => Dependence::None,
            _ => Dependence::Partial,
        }
    }
}

/// The reason why tasks were not slowed, or why not all of them were slowed. In each case the run's settings
/// are restored.
#[derive(Debug)]
pub enum Unperturbed {
    /// The run had ended before the measurement.
    NotLive,
    /// The run ended during the measurement.
    Ended,
    /// No message entered the network while it was measured, so nothing can depend on a task.
    NoInput,
    /// `stop` returned true.
    Stopped,
    /// The space could not be read, or a setting not be set.
    Space(Error),
}

impl fmt::Display for Unperturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unperturbed::NotLive => "the run has ended: only a live run can be slowed",
            Unperturbed::Ended => "the run ended before it was measured",
            Unperturbed::NoInput => {
                "no message entered the network while it was measured, so nothing can depend on a task; \
                 measure longer, or switch the run to mode metrics"
            }
            Unperturbed::Stopped => "slowing was stopped",
            Unperturbed::Space(error) => return error.fmt(f),
        })
    }
}

impl error::Error for Unperturbed {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            // This variant displays the text of the error that it wraps, so its source is that error's
            // source.
            Unperturbed::Space(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Error> for Unperturbed {
    fn from(error: Error) -> Unperturbed {
        Unperturbed::Space(error)
    }
}

/// Measures the live run in the directory `path` for the duration `first`, with `top` as in
/// [`crate::Options`]; then slows the tasks that may limit the flow, one after the other, each in alternate
/// periods. Ends early when `stop` returns true.
///
/// # Errors
/// When the run ends before the measurement does, no message enters the network, `stop` returns true, or the
/// space cannot be read or a setting not be set.
pub fn perturb(
    path: impl AsRef<Path>,
    top: usize,
    first: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Perturbed, Unperturbed> {
    let follower = Follower::open(&path, top)?;
    let reader = SpaceReader::open(&path)?;
    let mut live = Live { reader, follower, stop };
    if !live.follower.is_running() {
        return Err(Unperturbed::NotLive);
    }
    live.follower.poll();
    let mut report = live.window(first)?;
    if inputs(&report) == 0 {
        return Err(Unperturbed::NoInput);
    }
    let tried =
        suspects(&report).into_iter().map(|task| live.slow(task, &report)).collect::<Result<Vec<_>, _>>()?;
    overrule(&mut report, &tried);
    let together = pair(&tried).map(|pair| live.slow_both(pair)).transpose()?;
    report.verdict.words.evidence.extend(together.as_ref().map(Together::words));
    let table = |value: fn(&Tried) -> f64| {
        tried.iter().map(|tried| (tried.task.name.clone(), value(tried))).collect()
    };
    report.measurements.extend([
        Measurement::table("perturb.sensitivity", "", table(|tried| tried.sensitivity)),
        Measurement::table("perturb.delay", "ns", table(|tried| tried.delay_ns)),
    ]);
    report.measurements.extend(together.iter().map(|both| {
        let rows = both.tasks.iter().zip(both.alone).map(|(task, growth)| (task.name.clone(), growth));
        let both = ("both".to_owned(), both.growth);
        Measurement::table("perturb.growth", "", rows.chain([both]).collect())
    }));
    Ok(Perturbed { report, tried, together })
}

/// The two tasks to slow together: those with the largest sensitivities, unless the flow surely depends on the
/// first alone.
fn pair(tried: &[Tried]) -> Option<[&Tried; 2]> {
    let mut order: Vec<&Tried> = tried.iter().collect();
    order.sort_by(|a, b| b.sensitivity.total_cmp(&a.sensitivity));
    let [first, second, ..] = order[..] else { return None };
    let alone = first.dependence() == Dependence::Full && second.dependence() == Dependence::None;
    (!alone).then_some([first, second])
}

/// The number of messages that sources wrote.
fn inputs(report: &Report) -> u64 {
    let source = |component: &&Component| component.work.messages_in == Some(0);
    report.components.iter().filter(source).filter_map(|component| component.work.messages_out).sum()
}

/// The tasks to slow: first those of the component that the verdict names, then the busiest, [`TASKS_MAX`] in
/// all; in addition the first source and the first sink in this order.
fn suspects(report: &Report) -> Vec<&Task> {
    let busy = |task: &Task| task.work.shares.map_or(0.0, |shares| shares.busy);
    let mut tasks: Vec<&Task> =
        report.tasks.iter().filter(|task| does_something(task) && task.work.service_ns > Some(0.0)).collect();
    tasks.sort_by(|a, b| is_named(report, b).cmp(&is_named(report, a)).then(busy(b).total_cmp(&busy(a))));
    let ends = [VerdictKind::Source, VerdictKind::Sink]
        .map(|end| tasks.iter().position(|task| role(report, component_of(&task.name)) == end));
    let chosen = |at: usize| at < TASKS_MAX || ends.contains(&Some(at));
    tasks.into_iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, task)| task).collect()
}

fn does_something(task: &Task) -> bool {
    task.work.messages_in > Some(0) || task.work.messages_out > Some(0)
}

/// The kind of verdict that would name a task of the component as the limit: task, source or sink.
fn role(report: &Report, component: &str) -> VerdictKind {
    let known = report.components.iter().find(|known| known.path == component);
    match known.map(|known| (known.work.messages_in, known.work.messages_out)) {
        Some((Some(0), _)) => VerdictKind::Source,
        Some((_, Some(0))) => VerdictKind::Sink,
        _ => VerdictKind::Task,
    }
}

/// Replaces the verdict by one that names the task on which the flow depends, if this is sure, and if the
/// former verdict names no component or one on which the flow does not depend.
fn overrule(report: &mut Report, tried: &[Tried]) {
    let Some(found) = contradicting(report, tried) else { return };
    let before = std::mem::take(&mut report.verdict.words.text);
    let component = component_of(&found.task.name).to_owned();
    let finding = Finding {
        rule: "perturbed".to_owned(),
        component: Some(component.clone()),
        task: Some(found.task.clone()),
        ..Finding::new(role(report, &component))
    };
    let is_sure = |task: &Tried| format!("{:.2} ({:.2} to {:.2})", task.sensitivity, task.least, task.most);
    let mut evidence = vec![format!("its sensitivity is {}", is_sure(found))];
    evidence.extend(tried.iter().filter(|task| task.named).map(|task| {
        format!(
            "{}, which was named before any task was slowed, has a sensitivity of {}",
            task.task.name,
            is_sure(task)
        )
    }));
    evidence.push(format!("by shares of time alone it would be: {}", before.trim_end_matches('.')));
    let text = format!(
        "{} limits the flow: when its messages took longer, the network slowed down with it.",
        found.task.name
    );
    report.verdict = Verdict::of(finding, Words { text, evidence, suggestion: None });
}

/// The task on which the flow surely depends, if this contradicts the verdict.
fn contradicting<'t>(report: &Report, tried: &'t [Tried]) -> Option<&'t Tried> {
    use VerdictKind::{Burst, Nothing, Replica, Sink, Source, Task, Unclear};
    let names_nothing = matches!(report.verdict.finding.kind, Nothing | Unclear);
    let names_task = matches!(report.verdict.finding.kind, Burst | Replica | Sink | Source | Task);
    let named = || tried.iter().filter(|task| task.named);
    let depends = |task: &Tried| task.dependence() == Dependence::Full && task.least >= INDEPENDENT;
    let is_innocent = |task: &Tried| task.dependence() == Dependence::None && task.most < DEPENDS;
    let contradicts = names_nothing || names_task && named().next().is_some() && named().all(is_innocent);
    let found = tried.iter().filter(|task| !task.named && depends(task));
    found.max_by(|a, b| a.sensitivity.total_cmp(&b.sensitivity)).filter(|_| contradicts)
}

fn is_named(report: &Report, task: &Task) -> bool {
    report.verdict.finding.component.as_deref() == Some(component_of(&task.name))
}

/// A live run that is measured.
struct Live<'s> {
    reader: SpaceReader,
    follower: Follower<'static>,
    stop: &'s dyn Fn() -> bool,
}

impl Live<'_> {
    /// Measures for `time` from now on and returns the report.
    fn window(&mut self, time: Duration) -> Result<Report, Unperturbed> {
        self.follower.restart();
        self.wait(time)?;
        Ok(self.follower.report()?)
    }

    /// Reads events for this time.
    fn wait(&mut self, time: Duration) -> Result<(), Unperturbed> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(left.min(LOOK_EVERY));
            self.follower.poll();
            if (self.stop)() {
                return Err(Unperturbed::Stopped);
            }
            if !self.follower.is_running() {
                return Err(Unperturbed::Ended);
            }
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Measures the input messages per second, after [`SETTLE`] and for [`EACH`].
    fn rate(&mut self) -> Result<f64, Unperturbed> {
        self.wait(SETTLE)?;
        let report = self.window(EACH)?;
        Ok(inputs(&report) as f64 / (report.window.duration_ns / 1e9))
    }

    /// Measures a task by turns with and without a delay.
    fn slow(&mut self, task: &Task, report: &Report) -> Result<Tried, Unperturbed> {
        let service_ns = task.work.service_ns.unwrap_or(0.0);
        let delay_ns = (service_ns * LONGER).max(DELAY_NS_MIN).round();
        let pairs = self.pairs([Some((task.id.number, delay_ns)), None])?;
        let sensitivity = |pair: &[f64; 2]| growth(pair) * service_ns / delay_ns;
        let sensitivities = sorted(pairs.iter().map(sensitivity));
        Ok(Tried {
            task: task.into(),
            named: is_named(report, task),
            service_ns,
            delay_ns,
            rate: sorted(pairs.iter().map(|pair| pair[0]))[PAIRS / 2],
            slowed_rate: sorted(pairs.iter().map(|pair| pair[1]))[PAIRS / 2],
            sensitivity: sensitivities[PAIRS / 2],
            least: sensitivities[0],
            most: sensitivities[PAIRS - 1],
        })
    }

    /// Measures two tasks by turns with both delayed and with none delayed.
    fn slow_both(&mut self, both: [&Tried; 2]) -> Result<Together, Unperturbed> {
        let delays = both.map(|tried| Some((tried.task.id.number, tried.delay_ns)));
        let pairs = self.pairs(delays)?;
        Ok(Together::of(both, &sorted(pairs.iter().map(growth))))
    }

    /// Pairs of input messages per second, without and with these delays: for each delay the number of the task
    /// and the nanoseconds for a message.
    fn pairs(&mut self, delays: [Option<(u64, f64)>; 2]) -> Result<Vec<[f64; 2]>, Unperturbed> {
        let mut pairs = Vec::new();
        for pair in 0..PAIRS {
            let mut rates = [0.0; 2];
            for half in 0..2 {
                // The order of the periods with and without delay alternates from pair to pair, so a drift of
                // the machine's speed, or of the cost of messages, favours neither side.
                let slowed = (pair + half) % 2;
                let delay = (slowed == 1).then(|| Delay::of(&self.reader, delays)).transpose()?;
                rates[slowed] = self.rate()?;
                delay.map_or(Ok(()), Delay::end)?;
            }
            pairs.push(rates);
        }
        Ok(pairs)
    }
}

/// The growth of the network's time for an input message, from its rates without and with a delay.
fn growth([rate, slowed]: &[f64; 2]) -> f64 {
    rate / slowed.max(1e-3) - 1.0
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Delays of one or two tasks, which end when this value is dropped.
struct Delay {
    reader: SpaceReader,
}

/// The settings that name the delayed tasks, each with the setting of its delay.
const DELAYED: [(&str, &str); 2] =
    [("exec.delay_task", "exec.delay_ns"), ("exec.delay_second_task", "exec.delay_second_ns")];

impl Delay {
    fn of(reader: &SpaceReader, delays: [Option<(u64, f64)>; 2]) -> Result<Delay, Unperturbed> {
        let clock = reader.info()?.clock;
        let lasts = EACH + SETTLE + GRACE;
        reader.set("exec.delay_until", clock.now() + clock.ns_to_ticks(lasts.as_nanos() as u64))?;
        let delay = Delay { reader: SpaceReader::open(reader.path())? };
        for ((named, delayed), (task, ns)) in DELAYED.iter().zip(delays.into_iter().flatten()) {
            reader.set(delayed, ns as u64)?;
            reader.set(named, task)?;
        }
        Ok(delay)
    }

    fn end(self) -> Result<(), Unperturbed> {
        for (named, _) in DELAYED {
            self.reader.set(named, 0)?;
        }
        Ok(())
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        for (named, _) in DELAYED {
            // If the setting cannot be written, the delay ends by itself later.
            let _ = self.reader.set(named, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TaskId;

    /// A task that was slowed, with its sensitivity and the ends of the sensitivity's interval.
    fn tried(name: &str, named: bool, [least, sensitivity, most]: [f64; 3]) -> Tried {
        let task = TaskRef { id: TaskId::of(1), name: name.to_owned() };
        Tried {
            task,
            named,
            service_ns: 1e3,
            delay_ns: 500.0,
            rate: 1e3,
            slowed_rate: 900.0,
            sensitivity,
            least,
            most,
        }
    }

    /// The verdict after the tasks `tried` were slowed, if a rule's verdict of the kind `kind` named the
    /// component `net/a` before.
    fn after(kind: VerdictKind, tried: &[Tried]) -> Verdict {
        let mut report = Report::empty();
        let words = Words { text: "net/a limits the flow.".to_owned(), ..Words::default() };
        report.verdict = Verdict::of(Finding::new(kind).about_component("net/a"), words);
        overrule(&mut report, tried);
        report.verdict
    }

    #[test]
    fn a_perturbation_that_contradicts_the_verdict_overrules_it_visibly() {
        let slowed = [tried("net/a", true, [-0.1, 0.05, 0.2]), tried("net/b[2]", false, [0.6, 0.9, 1.1])];
        for kind in [VerdictKind::Task, VerdictKind::Source, VerdictKind::Unclear] {
            let Verdict { finding, words, .. } = after(kind, &slowed);
            assert_eq!((finding.rule.as_str(), finding.kind), ("perturbed", VerdictKind::Task));
            assert_eq!(finding.component.as_deref(), Some("net/b"));
            assert!(words.text.starts_with("net/b[2] limits the flow"), "{words:?}");
            assert!(words.evidence.iter().any(|line| line.contains("net/a limits the flow")), "{words:?}");
        }
    }

    #[test]
    fn two_tasks_are_slowed_together_unless_the_flow_depends_on_one_alone() {
        let (one, none, part) = ([0.8, 0.9, 1.0], [-0.1, 0.0, 0.1], [0.2, 0.4, 0.5]);
        let names = |tried: &[Tried]| pair(tried).map(|pair| pair.map(|task| task.task.name.clone()));
        let of =
            |first, second| [tried("a", true, first), tried("b", false, second), tried("c", false, none)];
        assert_eq!(names(&of(one, none)), None);
        assert_eq!(names(&of(none, one)), None);
        assert_eq!(names(&of(part, one)), Some(["b".to_owned(), "a".to_owned()]));
        assert_eq!(names(&of(none, part)), Some(["b".to_owned(), "a".to_owned()]));
        assert_eq!(names(&of(one, one)[..1]), None);
    }

    #[test]
    fn the_interplay_of_two_delays_follows_from_their_growths() {
        let of = |alone, growths| interplay(alone, [0.5, 0.5], growths);
        // Two stages on one worker: the times of both add up.
        assert_eq!(of([0.25, 0.25], [0.45, 0.5, 0.55]), Interplay::Adds);
        // Two equal stages on two workers: either delay already slows the flow by its whole length.
        assert_eq!(of([0.5, 0.5], [0.45, 0.5, 0.55]), Interplay::SideBySide);
        // Two branches each of which could take all records.
        assert_eq!(of([0.0, 0.02], [0.4, 0.5, 0.6]), Interplay::OnlyTogether);
        assert_eq!(of([0.0, 0.02], [0.0, 0.02, 0.05]), Interplay::Unclear);
        assert_eq!(of([0.5, 0.5], [0.5, 0.75, 1.0]), Interplay::Unclear);
        assert_eq!(of([0.5, 0.0], [0.5, 0.5, 0.5]), Interplay::Unclear);
    }

    #[test]
    fn a_perturbation_that_is_unsure_or_agrees_overrules_nothing() {
        let innocent = || tried("net/a", true, [-0.1, 0.05, 0.2]);
        let depends = || tried("net/b", false, [0.6, 0.9, 1.1]);
        let kept =
            |kind, slowed: &[Tried]| assert!(after(kind, slowed).finding.rule.is_empty(), "{slowed:?}");
        // The verdict is kept if the flow depends on the named task as well, or if the named task was not
        // slowed.
        kept(VerdictKind::Task, &[tried("net/a", true, [0.5, 0.8, 1.0]), depends()]);
        kept(VerdictKind::Task, &[depends()]);
        // The verdict is kept if the intervals of the two sensitivities overlap.
        kept(VerdictKind::Task, &[tried("net/a", true, [-0.1, 0.05, 0.7]), depends()]);
        kept(VerdictKind::Task, &[innocent(), tried("net/b", false, [0.0, 0.9, 1.1])]);
        // Verdicts that name a worker or a deadlock are kept, because slowing tasks cannot refute them.
        kept(VerdictKind::Worker, &[innocent(), depends()]);
        kept(VerdictKind::Deadlock, &[innocent(), depends()]);
    }
}

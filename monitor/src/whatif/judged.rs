//! Adds to a verdict what a complete recording gives: effective changes with their gains, a confidence, and
//! the times at which the limit changed.
//!
//! Rules judge by shares of time; a replay predicts what a change would bring. If the replay reproduces the
//! run, *the verdict is the head of the table* of replayed changes: the finding of the rules stays if the
//! change that it suggests gains at least four fifths of what the best change gains; else the limit that the
//! best change relieves becomes the verdict, and the sentence of the former finding is moved to the evidence.
//! Findings that a replay cannot model (a run that hangs, a full disk, threads that sleep for locks, other
//! processes) are not overruled, unless relieving them would gain little.

use thalweg_space::Error;
use thalweg_space::reader::Feed;

use super::sums::by_sums;
use super::{Change, Predicted, Replayed, replayed, runtime};
use crate::following::analysis::shorten;
use crate::following::follower::Follower;
use crate::following::notes::BY_SHARES;
use crate::following::windows::windows;
use crate::report::{
    Action, Alternative, Figure, Finding, Replay, Report, SleepsFor, State, Suggestion, Task, Verdict,
    VerdictKind,
};
use crate::verdict::{is_sink, is_source, of_others, time, verdict};
use crate::wording::percent;

/// The options of a judgement.
#[derive(Clone, Copy, Debug)]
pub struct Judging {
    /// The maximal number of single tasks, streams and waits in the report.
    pub top: usize,
    /// The number of threads that can run at the same time; `None` for the number that the run recorded.
    pub processors: Option<f64>,
    /// The maximal number of messages to replay, of all tasks together.
    pub messages_max: usize,
}

/// The least number of single tasks in the report while the verdict is made; the report is shortened
/// afterwards.
const TOP_MIN: usize = 64;
/// The maximal number of windows of a run.
const WINDOWS: usize = 24;
/// The least gain of a suggested change.
const WORTH: f64 = 0.03;
/// A change with a greater gain, at least [`LIMITS`], is also suggested if its interval begins below zero, but this
/// share of the samples of the bootstrap gain [`WORTH`]: the costs of messages differ much, so the interval is wide.
const LIKELY: f64 = 0.7;
/// Other processes become the verdict instead of a finding of the rules only if the run without them would gain
/// at least this.
const ALONE_MIN: f64 = 0.5;
/// The same where no replay shows what changes gain.
const ALONE_SURE: f64 = 1.0;
/// A verdict that other processes limit the flow stays if the run without them would gain at least this share
/// of what the best change gains. A change gains less beside other processes than in a replay without them.
const AS_GOOD_ALONE: f64 = 0.6;
/// If no change gains at least this, no single cause counts as the limit.
const LIMITS: f64 = 0.05;
/// A change that gains at least this share of what the best change gains counts as equally good.
const AS_GOOD: f64 = 0.8;
/// The least share of bootstrap samples in which another change must be better before a verdict is overruled.
const SURE: f64 = 0.5;
/// Two gains count as equal if the smaller is at least this share of the greater.
const ABOUT: f64 = 0.95;
/// The maximal number of suggestions.
const SUGGESTED: usize = 8;

/// The report on a feed. For a complete recording of one run that has ended, the verdict is based on replays
/// and has a confidence and the times at which it changed.
///
/// # Errors
/// When the space cannot be read. A run that cannot be replayed is no error: [`Replay::refused`] gives the
/// reason.
pub fn judged<F: Feed>(feed: &F, how: &Judging) -> Result<Report, Error> {
    let mut follower = Follower::of(feed.again()?, how.top.max(TOP_MIN))?;
    follower.poll();
    let mut report = follower.finish()?;
    let is_whole = report.window.complete && !report.window.partial && report.window.state != State::Running;
    if is_whole && feed.spaces().len() == 1 && report.spaces.is_empty() {
        time::over_time(&mut report, &windows(feed, WINDOWS)?);
        let counted = report.processors.as_ref().map(|processors| processors.count as f64);
        let processors = how
            .processors
            .or(counted)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64));
        let replayed = replayed(feed, processors, how.messages_max)?;
        judge(&mut report, &replayed, capacity(feed));
        if report.phases.is_empty() {
            time::add_alternatives(&mut report.verdict);
        }
    } else if let Some(reader) = feed.spaces().first().filter(|_| feed.spaces().len() == 1)
        && !report.window.partial
    {
        let counted = report.processors.as_ref().map(|processors| processors.count as f64);
        let processors = how.processors.or(counted).unwrap_or(f64::INFINITY);
        let replayed = by_sums(&report, runtime(reader, processors)?);
        judge_by_sums(&mut report, &replayed);
        if report.window.state != State::Running {
            time::by_chance(&mut report);
        }
    }
    // The verdict is now what `thalweg diagnose` makes of the run.
    report.notes.retain(|note| note.code != BY_SHARES);
    shorten(&mut report, how.top);
    Ok(report)
}

/// The capacity of streams, which the streams of replicas in a replay get.
fn capacity<F: Feed>(feed: &F) -> u64 {
    let settings = feed.spaces().first().and_then(|reader| reader.settings().ok()).unwrap_or_default();
    settings.iter().find(|setting| setting.name == "exec.capacity").map_or(64, |setting| setting.value)
}

/// Adds the predictions of replays to a report whose verdict is that of the rules.
pub(super) fn judge(report: &mut Report, replayed: &Replayed, capacity: u64) {
    let Replayed { answer, samples, .. } = replayed;
    let mut replay = Replay {
        refused: answer.refused.clone(),
        recorded_per_s: answer.recorded_per_s,
        replayed_per_s: answer.replayed_per_s,
        kept: answer.kept,
        processors: answer.processors,
        is_cut: answer.is_cut,
        ..Replay::default()
    };
    if answer.refused.is_some() || answer.changes.is_empty() {
        report.replay = Some(replay);
        // A run that is faster in its replay may have been slowed by other processes, which are not replayed.
        if replayed.faster > 1.0 {
            blame_others(report, ALONE_MIN);
        }
        return;
    }
    let table = Table { changes: &answer.changes, samples };
    let worth = |at: &usize| {
        let Predicted { gain, least, .. } = answer.changes[*at];
        gain >= WORTH && least > 0.0 || gain >= LIMITS && table.gains(*at) >= LIKELY
    };
    let head = table.head();
    let rows =
        head.into_iter().chain(table.rows().filter(|at| Some(*at) != head)).filter(worth).take(SUGGESTED);
    replay.suggestions = rows.map(|at| suggestion(report, &table, at, capacity)).collect();
    let best = head.map_or(0.0, |at| answer.changes[at].gain);
    let alone = replayed.without_others();
    if is_excused(&report.verdict.finding) {
        report.replay = Some(replay);
        return;
    }
    let named = table.named(&report.verdict.finding);
    let gain = named.iter().map(|&at| answer.changes[at].gain).fold(0.0, f64::max);
    let is_others = report.verdict.finding.kind == VerdictKind::Contention;
    let others_limit = match is_others {
        true => of_others(report).is_some_and(|(_, gain)| gain >= AS_GOOD_ALONE * best),
        false => blame_others(report, best.max(ALONE_MIN)),
    };
    if others_limit {
        report.replay = Some(replay);
        return;
    }
    let gain = if is_others { gain.max(alone) } else { gain };
    if table.overrules(&report.verdict.finding, gain, &named, is_others) {
        replay.overruled = Some(report.verdict.words.text.clone());
        replay.overruled_gain = Some(gain);
        let changed = Some(report.verdict.words.text.clone()).filter(|_| !report.phases.is_empty());
        overrule(report, replay, &table);
        if let Some(changed) = changed.filter(|_| report.verdict.finding.rule == "replayed") {
            // If the limit changed during the run, the sentence that says so remains the first one.
            let of_all = std::mem::take(&mut report.verdict.words.text);
            report.verdict.words.text = format!("{} Over the whole run: {of_all}", ended(&changed));
        }
    } else {
        table.sure_of(report, &named, AS_GOOD);
        predict_actions(&mut report.verdict.finding, &table);
        table.predict_beside(report);
        report.replay = Some(replay);
    }
}

/// Makes other processes the verdict if the run without them would gain at least `gain_min`; returns whether
/// they became the verdict.
fn blame_others(report: &mut Report, gain_min: f64) -> bool {
    let Some((verdict, gain)) = of_others(report).filter(|(_, gain)| *gain >= gain_min) else { return false };
    let found = &report.verdict.finding;
    if is_excused(found) || found.kind == verdict.finding.kind {
        return false;
    }
    let before = std::mem::replace(&mut report.verdict, verdict).words.text;
    let without = format!("without them up to {} more would flow", percent(gain));
    report.verdict.words.evidence.push(without);
    report.verdict.words.evidence.push(format!("besides them: {}", before.trim_end_matches('.')));
    true
}

/// A sentence with its full stop.
fn ended(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

/// Adds the predictions that come from a run's sums to its report, if a change gains so much more than the
/// change that the rules' finding suggests that the unknown order of messages does not matter.
fn judge_by_sums(report: &mut Report, replayed: &Replayed) {
    use VerdictKind::{Burst, Mapping, Replica, Sink, Source, Task, Unclear, Worker};
    if blame_others(report, ALONE_SURE) {
        return;
    }
    let Replayed { answer, samples, .. } = replayed;
    let of_rules = &report.verdict.finding;
    let applies =
        matches!(of_rules.kind, Burst | Mapping | Replica | Sink | Source | Task | Unclear | Worker);
    // Of the findings of the kind `unclear`, only the finding of the rule `busiest` is based on long enough
    // measurements.
    let applies = applies && (of_rules.kind != Unclear || of_rules.rule == "busiest");
    if answer.refused.is_some() || answer.changes.is_empty() || !applies || is_excused(of_rules) {
        return;
    }
    let table = Table { changes: &answer.changes, samples };
    let named = table.named(of_rules);
    let gain = named.iter().map(|&at| answer.changes[at].gain).fold(0.0, f64::max);
    let Some(head) = table.head().filter(|&at| answer.changes[at].gain >= LIMITS) else { return };
    if gain >= AS_GOOD * answer.changes[head].gain || table.leads(&named) > 1.0 - SURE {
        table.predict_beside(report);
        return sure_by_sums(report, &table, &named, AS_GOOD);
    }
    let worth = |at: &usize| answer.changes[*at].gain >= WORTH;
    let rows = std::iter::once(head).chain(table.rows().filter(|&at| at != head)).filter(worth);
    let replay = Replay {
        processors: answer.processors,
        suggestions: rows.take(SUGGESTED).map(|at| suggestion(report, &table, at, 0)).collect(),
        overruled: Some(report.verdict.words.text.clone()),
        overruled_gain: Some(gain),
        ..Replay::default()
    };
    overrule(report, replay, &table);
    let same = table.named_or(&report.verdict.finding, Some(head));
    sure_by_sums(report, &table, &same, ABOUT);
}

/// Adds to a verdict its confidence by the samples of a run's sums, and the alternatives to its sentence.
fn sure_by_sums(report: &mut Report, table: &Table<'_>, rows: &[usize], share: f64) {
    (report.verdict.confidence, report.verdict.alternatives) = (None, Vec::new());
    if table.samples_count() > 0 {
        table.sure_of(report, rows, share);
        time::add_alternatives(&mut report.verdict);
    }
}

/// Whether a verdict is of a kind that a replay cannot judge.
fn is_excused(found: &Finding) -> bool {
    use VerdictKind::{Deadlock, Disk, Hang, Nothing, Paused, Unknown};
    matches!(found.kind, Deadlock | Disk | Hang | Nothing | Paused | Unknown) || found.rule == "throttled"
}

/// Replaces the verdict by the limit that the best change relieves, if no account contradicts this limit.
fn overrule(report: &mut Report, replay: Replay, table: &Table<'_>) {
    let before = report.verdict.clone();
    report.replay = Some(replay);
    let after = verdict(report);
    if after.finding.rule != "replayed" {
        if let Some(replay) = &mut report.replay {
            (replay.overruled, replay.overruled_gain) = (None, None);
        }
        return;
    }
    report.verdict = after;
    let gain = report.replay.as_ref().and_then(|replay| replay.overruled_gain).unwrap_or(0.0);
    let sentence = before.words.text.trim_end_matches('.');
    let would = if gain < WORTH { "nothing".to_owned() } else { percent(gain) };
    report
        .verdict
        .words
        .evidence
        .push(format!("by shares of time alone it would be: {sentence}; by this its relief gains {would}"));
    let same = table.named_or(&report.verdict.finding, table.head());
    table.predict_beside(report);
    table.sure_of(report, &same, ABOUT);
}

/// Adds the predicted gain to each action of a finding that was replayed.
fn predict_actions(found: &mut Finding, table: &Table<'_>) {
    let alone = Finding { actions: Vec::new(), kind: VerdictKind::Unclear, ..found.clone() };
    found.actions = std::mem::take(&mut found.actions)
        .into_iter()
        .map(|action| {
            let of_it = Finding { actions: vec![action.clone()], ..alone.clone() };
            match table.named(&of_it).first() {
                Some(&at) => action.gaining(table.changes[at].gain),
                None => action,
            }
        })
        .collect();
}

/// The replayed changes, the greatest gain first, with their gains in the samples of the bootstrap.
struct Table<'a> {
    changes: &'a [Predicted],
    samples: &'a [Vec<f64>],
}

impl Table<'_> {
    /// The changes that are compared with each other: all except a component that is less than twice as fast,
    /// which only measures how much the flow depends on the component and is not suggested.
    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        let measures = |change: &Change| matches!(change, Change::Faster { times, .. } if *times < 2.0);
        (0..self.changes.len()).filter(move |&at| !measures(&self.changes[at].change))
    }

    /// The change that gains most; of changes with about the same gain, the one that is the least work for
    /// the user.
    fn head(&self) -> Option<usize> {
        let most = self.changes[self.rows().next()?].gain;
        let work = |at: &usize| match self.changes[*at].change {
            Change::Place { .. }
            | Change::Capacity { .. }
            | Change::Quantum { .. }
            | Change::Mapper { .. }
            | Change::Steal
            | Change::Unplaced
            | Change::NoLimit { .. } => 0,
            Change::Workers { .. } => 1,
            Change::Unordered { .. } => 2,
            Change::Faster { .. } | Change::Replicas { .. } | Change::Unlocked { .. } => 3,
        };
        self.rows().take_while(|&at| self.changes[at].gain >= ABOUT * most).min_by_key(work)
    }

    /// The greatest gain of all changes in a sample of the bootstrap.
    fn best(&self, sample: usize) -> f64 {
        self.rows().map(|at| self.samples[at][sample]).fold(0.0, f64::max)
    }

    /// The share of samples of the bootstrap in which a change gains enough to be suggested.
    fn gains(&self, at: usize) -> f64 {
        let of_it = &self.samples[at];
        of_it.iter().filter(|gain| **gain >= WORTH).count() as f64 / of_it.len().max(1) as f64
    }

    fn samples_count(&self) -> usize {
        self.samples.first().map_or(0, Vec::len)
    }

    /// The share of samples of the bootstrap in which one of the changes `rows` gains the part `share` of
    /// what the best change gains.
    fn gain_most(&self, rows: &[usize], share: f64) -> f64 {
        let is_as_good = |sample: &usize| {
            let best = self.best(*sample);
            rows.iter().any(|&at| self.samples[at][*sample] >= share * best)
        };
        let count = self.samples_count();
        (0..count).filter(is_as_good).count() as f64 / count.max(1) as f64
    }

    /// The share of samples of the bootstrap in which one of the changes `rows` is as good as the best.
    fn leads(&self, rows: &[usize]) -> f64 {
        self.gain_most(rows, AS_GOOD)
    }

    /// The changes that a finding asks for, and the change by which the finding was made.
    fn named_or(&self, found: &Finding, by: Option<usize>) -> Vec<usize> {
        let mut rows = self.named(found);
        rows.extend(by.filter(|at| !rows.contains(at)));
        rows
    }

    /// The changes that a finding asks for.
    fn named(&self, found: &Finding) -> Vec<usize> {
        let asked = |at: &usize| asks_for(found, &self.changes[*at].change);
        self.rows().filter(asked).collect()
    }

    fn overrules(&self, found: &Finding, gain: f64, named: &[usize], is_others: bool) -> bool {
        let Some(head) = self.rows().next() else { return false };
        let most = self.changes[head].gain;
        if most < LIMITS {
            // If no change gains anything, a finding is kept that says so, or that is based on facts which
            // the replay does not model.
            let is_awaited = found.rule == "sink" && found.slept_for() == Some(SleepsFor::Write);
            let is_seen = is_awaited || matches!(found.rule.as_str(), "asleep" | "spinning" | "behind");
            return !is_seen && !is_others && found.kind != VerdictKind::Unclear && gain < LIMITS;
        }
        // To move another task is as little work as to move the finding's task.
        let is_move = matches!(self.changes[head].change, Change::Place { .. });
        let share = if found.kind == VerdictKind::Mapping && is_move { ABOUT } else { AS_GOOD };
        gain < share * most && (is_others || self.gain_most(named, share) <= 1.0 - SURE)
    }

    /// Adds to the verdict on a component that limits the flow what replicas of it, or a lock that it no longer shares,
    /// would gain.
    fn predict_beside(&self, report: &mut Report) {
        let found = &report.verdict.finding;
        let path = found.component.clone();
        let is_it = |component: &String| path.as_ref() == Some(component);
        let names_lock = ["gain_without_lock", "spinning_of_busy", "asleep_for_lock"]
            .iter()
            .any(|name| found.figure(name).is_some());
        let shares_lock = report.tasks.iter().any(|task| {
            path.as_deref() == Some(crate::report::component_of(&task.name))
                && task.work.account.as_ref().is_some_and(|account| account.lock.is_some())
        });
        let adds_lock = found.kind == VerdictKind::Task && !names_lock;
        let replicas =
            |change: &Change| matches!(change, Change::Replicas { component, .. } if is_it(component));
        let unlocked = |change: &Change| matches!(change, Change::Unlocked { component } if adds_lock && (shares_lock || is_it(component)));
        self.add_gain(&mut report.verdict, "gain_of_replicas", replicas, |gain| {
            format!("replicas of it on all workers would gain {gain}")
        });
        self.add_gain(&mut report.verdict, "gain_unlocked", unlocked, |gain| {
            format!("without the lock that it shares with others, {gain} more would flow")
        });
    }

    /// Adds the gain of a change as a figure and to the suggestion, if it is as good as any other change.
    fn add_gain(
        &self,
        verdict: &mut Verdict,
        figure: &str,
        is_it: impl Fn(&Change) -> bool,
        words: impl Fn(String) -> String,
    ) {
        let most = self.rows().map(|at| self.changes[at].gain).fold(0.0, f64::max);
        let row = self.rows().find(|at| is_it(&self.changes[*at].change));
        let gain = row.map(|at| self.changes[at].gain).filter(|gain| *gain >= WORTH.max(AS_GOOD * most));
        if let Some(gain) = gain {
            verdict.finding.figures.push(Figure::share(figure, gain));
            let so = verdict.words.suggestion.take().map_or(String::new(), |so| format!("{so}; "));
            verdict.words.suggestion = Some(so + &words(percent(gain)));
        }
    }

    /// Adds to a verdict its confidence, which is the share of samples with the same verdict, and the best
    /// changes of the other samples. A verdict of the rules stays the same while one of its changes is as
    /// good as any other (`share` is [`AS_GOOD`]); a verdict that follows from the best change, while this
    /// change is the best (`share` is [`ABOUT`]).
    fn sure_of(&self, report: &mut Report, rows: &[usize], share: f64) {
        if rows.is_empty() {
            return;
        }
        let count = self.samples_count().max(1);
        let mut rest: Vec<(usize, usize)> = Vec::new();
        for sample in 0..self.samples_count() {
            let best = self.best(sample);
            if rows.iter().any(|&at| self.samples[at][sample] >= share * best) {
                continue;
            }
            let most =
                self.rows().max_by(|&a, &b| self.samples[a][sample].total_cmp(&self.samples[b][sample]));
            let Some(most) = most else { continue };
            match rest.iter_mut().find(|(at, _)| *at == most) {
                Some((_, times)) => *times += 1,
                None => rest.push((most, 1)),
            }
        }
        rest.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let alternative = |&(at, times): &(usize, usize)| Alternative {
            share: times as f64 / count as f64,
            kind: kind_of(report, &self.changes[at].change),
            component: component_of(&self.changes[at].change).map(str::to_owned),
            text: format!("{} gains most", self.changes[at].words),
        };
        let alternatives = rest.iter().map(alternative).collect();
        report.verdict.confidence = Some(self.gain_most(rows, share));
        report.verdict.alternatives = alternatives;
    }
}

impl Replayed {
    /// The greatest gain that removing other processes from the run's processors can have. The replay does
    /// not model other processes, so it is assumed that all the time that they took is gained.
    fn without_others(&self) -> f64 {
        let kept = self.answer.kept.clamp(0.0, 0.99);
        (self.faster - 1.0).clamp(0.0, 1.0 / (1.0 - kept) - 1.0)
    }
}

/// Whether a finding suggests the change: by one of its actions, or because the change relieves the limit
/// that the finding names.
fn asks_for(found: &Finding, change: &Change) -> bool {
    let is_it = |component: &str| found.component.as_deref() == Some(component);
    let by_kind = match (found.kind, change) {
        (
            VerdictKind::Task | VerdictKind::Burst,
            Change::Faster { component, .. } | Change::Replicas { component, .. },
        ) => is_it(component),
        (VerdictKind::Replica | VerdictKind::Worker, Change::Faster { component, .. }) => is_it(component),
        (VerdictKind::Source | VerdictKind::Sink, Change::Faster { component, .. }) => is_it(component),
        (VerdictKind::Capacity, Change::Capacity { .. }) => found.rule != "unfinished",
        (VerdictKind::Quantum, Change::Quantum { .. }) => true,
        (VerdictKind::Order, Change::Unordered { .. }) => true,
        (VerdictKind::Worker, Change::Workers { .. }) => true,
        (VerdictKind::Capacity, Change::NoLimit { .. }) => found.rule == "unfinished",
        (VerdictKind::Task, Change::Unlocked { .. }) => {
            found.rule == "spinning" || found.slept_for() == Some(SleepsFor::Lock)
        }
        _ => false,
    };
    by_kind || found.actions.iter().any(|action| does(action, found, change))
}

/// Whether a finding's action does the same as a replayed change.
fn does(action: &Action, found: &Finding, change: &Change) -> bool {
    let (name, value) = match action {
        Action::Set(set) => (set.setting.as_str(), set.value.as_str()),
        Action::Run(run) => match &run.arguments[..] {
            [option, value] => (option.as_str(), value.as_str()),
            _ => return false,
        },
    };
    match (name, change) {
        ("exec.capacity" | "--capacity", Change::Capacity { .. }) => true,
        ("exec.quantum" | "--quantum" | "exec.quantum_us", Change::Quantum { .. }) => true,
        ("exec.unfinished" | "--unfinished", Change::NoLimit { .. }) => true,
        ("exec.steal", Change::Steal) => true,
        ("--mapper", Change::Mapper { in_turn }) => *in_turn == (value == "round-robin"),
        ("exec.workers" | "--workers", Change::Workers { workers }) => value.parse() == Ok(*workers),
        (_, Change::Place { component, task, worker }) if name.starts_with("task/") => {
            let names = |of: &crate::report::TaskRef| match task {
                Some(task) => of.name == *task,
                None => crate::report::component_of(&of.name) == component,
            };
            found.task.as_ref().is_some_and(names) && value.parse() == Ok(*worker)
        }
        _ => false,
    }
}

/// The suggestion for a change: the change's gain, and the way to make the change.
fn suggestion(report: &Report, table: &Table<'_>, at: usize, capacity: u64) -> Suggestion {
    let Predicted { change, words, gain, least, most } = &table.changes[at];
    let (how, action) = how(report, change, capacity);
    Suggestion {
        words: words.clone(),
        how,
        action: action.map(|action| action.gaining(*gain)),
        kind: kind_of(report, change),
        component: component_of(change).map(str::to_owned),
        gain: *gain,
        least: *least,
        most: *most,
        leads: table.leads(&[at]),
    }
}

fn component_of(change: &Change) -> Option<&str> {
    match change {
        Change::Faster { component, .. }
        | Change::Place { component, .. }
        | Change::Replicas { component, .. }
        | Change::Unlocked { component }
        | Change::Unordered { component } => Some(component),
        _ => None,
    }
}

/// The task of this name, or the first task of a component.
fn task_of<'r>(report: &'r Report, component: &str, task: Option<&str>) -> Option<&'r Task> {
    report.tasks.iter().find(|of| match task {
        Some(name) => of.name == name,
        None => crate::report::component_of(&of.name) == component,
    })
}

/// The kind of limit that a change relieves.
fn kind_of(report: &Report, change: &Change) -> VerdictKind {
    match change {
        Change::Faster { component, task, .. } => match task_of(report, component, task.as_deref()) {
            Some(of) if is_source(of) => VerdictKind::Source,
            Some(of) if is_sink(of) => VerdictKind::Sink,
            _ if task.is_some() => VerdictKind::Replica,
            _ => VerdictKind::Task,
        },
        Change::Replicas { .. } | Change::Unlocked { .. } => VerdictKind::Task,
        Change::Place { .. } | Change::Mapper { .. } | Change::Steal | Change::Unplaced => {
            VerdictKind::Mapping
        }
        Change::Workers { .. } => VerdictKind::Worker,
        Change::Capacity { .. } | Change::NoLimit { .. } => VerdictKind::Capacity,
        Change::Quantum { .. } => VerdictKind::Quantum,
        Change::Unordered { .. } => VerdictKind::Order,
    }
}

/// The way to make a change: the command, or the edit of the network.
fn how(report: &Report, change: &Change, capacity: u64) -> (String, Option<Action>) {
    let option = |name: &str, value: String| {
        let action = Action::run("run", &[name, &value]);
        (format!("`{action}`"), Some(action))
    };
    match change {
        Change::Faster { component, task, .. } => {
            let whole = task.as_ref().unwrap_or(component);
            let how = match kind_of(report, change) {
                VerdictKind::Source => format!("let {whole} bring twice as much"),
                VerdictKind::Sink => {
                    format!("let {whole}, and the reader of what it writes, be twice as fast")
                }
                VerdictKind::Replica => format!("let {whole} have half of its messages, or cheaper ones"),
                _ => format!("make {whole} twice as fast"),
            };
            (how, None)
        }
        Change::Place { component, task, worker } => {
            let last = component.rsplit('/').next().unwrap_or(component);
            let written = format!("write `({last} @ {worker})` in the network");
            match task_of(report, component, task.as_deref()) {
                Some(of) => {
                    let action = Action::set(&format!("task/{}.worker", of.id.number), worker);
                    let or = format!("{written}; of a run like this one that lives: `{action}`");
                    (or, Some(action))
                }
                None => (written, None),
            }
        }
        Change::Replicas { component, replicas } => {
            let last = component.rsplit('/').next().unwrap_or(component);
            (format!("write `({last} ! <tag>)` in the network, with {replicas} values of the tag"), None)
        }
        Change::Workers { workers } => option("--workers", workers.to_string()),
        Change::Mapper { in_turn } => {
            option("--mapper", if *in_turn { "round-robin" } else { "contiguous" }.to_owned())
        }
        Change::Steal => {
            let action = Action::set("exec.steal", 1);
            (format!("`thalweg run --steal`; while it runs: `{action}`"), Some(action))
        }
        Change::Unplaced => ("leave out `@` in the network".to_owned(), None),
        Change::Unlocked { component } => {
            (format!("let {component} compute without the lock that it shares with others"), None)
        }
        Change::Capacity { times } => option("--capacity", (capacity * *times as u64).to_string()),
        Change::Quantum { messages } => option("--quantum", messages.to_string()),
        Change::NoLimit { was } => {
            let action = Action::set("exec.unfinished", 0);
            (format!("leave out `--unfinished {was}`; while it runs: `{action}`"), Some(action))
        }
        Change::Unordered { component } => {
            (format!("write `|`, `*` or `!` for `||`, `**` or `!!` at {component}"), None)
        }
    }
}
